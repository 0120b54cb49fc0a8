"""tests/lint/layers finds what it is there for: the tree as it is passes, and each kind of fault, put into a copy of
it, makes it fail with a line that names the file and the rule."""

import importlib.machinery
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# What is put in, all at once: texts at the ends of files, most of them new; then the line that must come of it: which
# file it is about, and words of it. No words: the files must not be named at all.
CASES = {
    "an include that points up": (
        {"common/clock.c": '#include "sampler/sampler.h"\n'},
        "common/clock.c", "includes sampler/sampler.h", "FOLDERS"),
    "an include of a folder beside": (
        {"sampler/idset.c": '#include "cache/file.h"\n'},
        "sampler/idset.c", "includes cache/file.h", "FOLDERS"),
    "an include of a test": (
        {"common/clock.h": '#include "tests/fuzz/fuzz.h"\n'},
        "common/clock.h", "includes tests/fuzz/fuzz.h", "FOLDERS"),
    "an include of nothing": (
        {"common/error.c": '#include "common/absent.h"\n'},
        "common/error.c", "common/absent.h", "no file here"),
    "a call that points up, without an include that does": (
        {"common/up.h": "void up(void);\n", "sampler/up.c": '#include "common/up.h"\nvoid up(void)\n{\n}\n',
         "common/low.c": '#include "common/up.h"\nstatic void low(void)\n{\n    up();\n}\n'},
        "common/low.c:4", "calls up of sampler/up.c", "FOLDERS"),
    "a module of the engine that includes a higher one": (
        {"server/engine/outbox_a.c": '#include "server/engine/plan_a.h"\n', "server/engine/plan_a.h": "enum { A };\n"},
        "server/engine/outbox_a.c:1", "includes server/engine/plan_a.h", "outbox is earlier than plan", "MODULES"),
    "a module of the engine that calls a higher one": (
        {"server/engine/line_b.h": "void plan_b(void);\n",
         "server/engine/plan_b.c": '#include "server/engine/line_b.h"\nvoid plan_b(void)\n{\n}\n',
         "server/engine/outbox_b.c": '#include "server/engine/line_b.h"\nstatic void b(void)\n{\n    plan_b();\n}\n'},
        "server/engine/outbox_b.c:4", "calls plan_b of server/engine/plan_b.c", "outbox is earlier than plan",
        "MODULES"),
    "a file of the engine that is of no module": (
        {"server/engine/attic.c": "int attic;\n"},
        "server/engine/attic.c", "of no module"),
    "a circle of calls in one folder": (
        {"sampler/pair.h": "void pair_a(void);\nvoid pair_b(void);\n",
         "sampler/pair_a.c": '#include "sampler/pair.h"\nvoid pair_a(void)\n{\n    pair_b();\n}\n',
         "sampler/pair_b.c": '#include "sampler/pair.h"\nvoid pair_b(void)\n{\n    pair_a();\n}\n'},
        "sampler/pair_a.c:4", "circle of calls", "sampler/pair_b.c:4 calls pair_a"),
    "a circle of calls through macros, one of which defines the function": (
        {"common/macro.h": "void macro_a(void);\nvoid macro_b(void);\n#define CALL_A() macro_a()\n"
                           "#define DEFINE(part, other) void part##other(void)\n",
         "common/macro_a.c": '#include "common/macro.h"\nvoid macro_a(void)\n{\n    macro_b();\n}\n',
         "common/macro_b.c": '#include "common/macro.h"\nDEFINE(macro_, b)\n{\n    CALL_A();\n}\n'},
        "common/macro_a.c:4", "circle of calls", "common/macro_b.c:4 calls macro_a"),
    "a circle of calls through functions that are passed on and stored": (
        {"common/taken.h": "void taken_a(void);\nvoid taken_b(void);\n",
         "common/taken_a.c": '#include "common/taken.h"\nvoid (*const table[])(void) = {taken_b};\n'
                             "void taken_a(void)\n{\n}\n",
         "common/taken_b.c": '#include "common/taken.h"\nvoid taken_b(void)\n{\n'
                             "    void (*at)(void) = taken_a;\n    at();\n}\n"},
        "common/taken_a.c:2", "circle of calls", "common/taken_b.c:4 calls taken_a"),
    "a circle of calls through an inline function": (
        {"common/inline_a.h": "void inline_a(void);\n",
         "common/inline_a.c": '#include "common/inline_b.h"\nvoid inline_a(void)\n{\n    inline_b();\n}\n',
         "common/inline_b.h": '#include "common/inline_a.h"\n'
                              "static inline void inline_b(void)\n{\n    inline_a();\n}\n"},
        "common/inline_a.c:4", "circle of calls", "common/inline_b.h:4 calls inline_a"),
    "a circle of includes": (
        {"common/ring_a.h": '#include "common/ring_b.h"\n', "common/ring_b.h": '#include "common/ring_a.h"\n'},
        "common/ring_a.h:1", "circle of includes", "common/ring_b.h:1"),
    "a circle of includes among tests": (
        {"tests/unit/ring_a.h": '#include "tests/unit/ring_b.h"\n', "tests/unit/ring_b.h": '#include "ring_a.h"\n'},
        "tests/unit/ring_a.h:1", "circle of includes", "tests/unit/ring_b.h:1"),
    "a circle of two folders, of files that make none": (
        {"cache/source/low.h": "void low(void);\n", "cache/store/high.h": "enum { HIGH };\n",
         "cache/source/low.c": '#include "cache/store/high.h"\n',
         "cache/source/low_one.c": '#include "cache/source/low.h"\nvoid low(void)\n{\n}\n',
         "cache/store/high.c": '#include "cache/source/low.h"\nstatic void high(void)\n{\n    low();\n}\n'},
        "cache/source/low.c:1", "circle of folders", "includes cache/store/high.h"),
    "a file of the engine that includes what does more than compute": (
        {"server/engine/job_c.c": "#include <unistd.h>\n"},
        "server/engine/job_c.c", "includes <unistd.h>", "PURE"),
    "a file of the engine that opens a file": (
        {"server/engine/job_d.c": 'static int d(void)\n{\n    return open("x", 0);\n}\n'},
        "server/engine/job_d.c:3", "calls open", "PURE"),
    "a file of the engine that prints": (
        {"server/engine/job_e.c": '#include <stdio.h>\nstatic void e(void)\n{\n    printf("x");\n}\n'},
        "server/engine/job_e.c:4", "calls printf", "PURE"),
    "a file of the engine that logs": (
        {"server/engine/job_f.c": '#include "common/log.h"\nstatic void f(void)\n{\n    log_warn("x");\n}\n'},
        "server/engine/job_f.c:4", "calls log_line of common/log.c", "FOLDERS"),
    "a file of the engine that reads the clock": (
        {"server/engine/job_g.c": '#include "common/clock.h"\n'},
        "server/engine/job_g.c", "includes common/clock.h", "FOLDERS"),
    "a folder that no line names": (
        {"attic/old.c": "int old;\n"},
        "attic/old.c", "no line of FOLDERS"),
    "a function whose definition is not found": (
        {"common/gone.h": "void gone(void);\n"},
        "common/gone.h:1", "declares gone", "no file defines it"),
    "a file that declares another's function itself": (
        {"common/own.c": "void own(void);\nstatic void use(void)\n{\n    own();\n}\n"},
        "common/own.c:1", "declares own itself"),
    "a header of another folder that is private": (
        {"server/plan/private.c": '#include "server/config/config_priv.h"\n'},
        "server/plan/private.c:1", "a _priv.h is for its own folder"),
    "a function that only tests call": (
        {"common/tested.h": "void tested(void);\n", "common/tested.c": '#include "common/tested.h"\nvoid tested(void)\n'
                                                                       "{\n}\n",
         "tests/unit/tested.c": '#include "common/tested.h"\nstatic void test(void)\n{\n    tested();\n}\n'},
        "common/tested.h:1", "has tested", "FOR_TESTS"),
    "an inline function that nothing calls": (
        {"common/idle.h": "static inline void idle_inline(void)\n{\n}\n"},
        "common/idle.h:1", "has idle_inline", "FOR_TESTS"),
    "names that are no calls, in new files that need no line": (
        {"sampler/one.h": "void one(void);\nvoid two(void);\n",
         "sampler/two.c": '#include "sampler/one.h"\nvoid two(void)\n{\n    one();\n}\n',
         "sampler/four.c": '#include "sampler/one.h"\nstatic void four(void)\n{\n    two();\n}\n',
         "sampler/three.c": "static void one(void)\n{\n}\nstatic void use(void)\n{\n    one();\n}\n",
         "sampler/one.c": '''#include "sampler/one.h"
/* two() */
struct two { int two; };
static int local(int two, const struct two *field)
{
    const char *text = "two()";
    struct two made = {.two = two};
    return two + field->two + made.two + (text != 0);
}
void one(void)
{
    int a = 1, two = a;
    local(two, &(struct two){two});
}
'''},),
}


def copy_sources(to):
    """The files that the lint reads, and no others."""
    layers = runpy.run_path(os.path.join(HERE, "layers"), run_name="layers")
    for name in layers["find_files"](ROOT):
        path = pathlib.Path(to, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, name), path)


class Layers(unittest.TestCase):
    def test_the_tree_as_it_is_passes(self):
        """And of folders that stand together and need not, two are named."""
        loader = importlib.machinery.SourceFileLoader("layers", os.path.join(HERE, "layers"))
        layers = types.ModuleType("layers")
        loader.exec_module(layers)
        house = layers.House(ROOT)
        self.assertEqual(house.check(), [])
        layers.FOLDERS = [(folders + " sampler" if folders == "common" else folders, uses)
                          for folders, uses in layers.FOLDERS if folders != "sampler"]
        house.check_folders()
        texts = [text for path, _, text in house.faults if path == layers.TABLES]
        self.assertEqual(len(texts), 2, texts)
        self.assertTrue(any("names sampler with common, and it is in no circle" in text for text in texts), texts)

    def test_each_fault_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            copy_sources(root)
            for files, *_ in CASES.values():
                for name, text in files.items():
                    path = pathlib.Path(root, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(text)
            result = subprocess.run([sys.executable, os.path.join(HERE, "layers"), "--root", root],
                                    stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        lines = result.stdout.splitlines()
        for what, (files, *expected) in CASES.items():
            with self.subTest(what):
                about = [line for line in lines if any(name in line for name in files)]
                if not expected:
                    self.assertEqual(about, [])
                    continue
                where, words = expected[0] + ":", expected[1:]
                self.assertTrue(any(line.startswith(where) and all(word in line for word in words) for line in about),
                                f"no line about {where} with {words} in {about}")


unittest.main()
