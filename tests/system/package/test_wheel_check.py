"""configs/wheel/check finds what must not be in a wheel: each fault, put into a wheel that has none, is named. A wheel
that LARDER_WHEEL_FILE names has none."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
CHECK = os.path.join(SOURCE, "configs", "wheel", "check")
INFO = "larderd-1.dist-info"
NAME = "larderd-1-py3-none-manylinux_2_28_x86_64.whl"
PERMISSIVE = {"name": "yaml", "version": "1", "licence": "MIT", "source": "a source package", "files": [],
              "texts": ["yaml/License"]}
LESSER = {"name": "shared", "version": "2", "licence": "LGPL-2.1-or-later", "source": "another", "texts":
          ["shared/COPYING"], "files": ["libshared.so.1"]}


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler or not shutil.which("readelf"):
            raise unittest.SkipTest("no compiler and readelf")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.compiler = compiler
        cls.library = cls.compile("int shared(void) { return 1; }", "-nostdlib")

    @classmethod
    def compile(cls, code, *words):
        source, out = os.path.join(cls.folder, "x.c"), os.path.join(cls.folder, "x.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(code)
        subprocess.run([cls.compiler, "-shared", "-fPIC", source, "-o", out, *words], check=True)
        with open(out, "rb") as file:
            return file.read()

    def setUp(self):
        self.parts = [dict(PERMISSIVE), dict(LESSER)]
        self.metadata = ("License-Expression: Apache-2.0 AND MIT AND LGPL-2.1-or-later\n"
                         "License-File: LICENSE\nLicense-File: NOTICE\nLicense-File: yaml/License\n"
                         "License-File: shared/COPYING\n")
        self.files = {"larder/bin/larderd": self.library, "larderd.libs/libshared.so.1": self.library,
                      f"{INFO}/licenses/LICENSE": "Apache License, Version 2.0", f"{INFO}/licenses/NOTICE": "Larder",
                      f"{INFO}/licenses/yaml/License": "Permission is hereby granted, free of charge",
                      f"{INFO}/licenses/shared/COPYING": "GNU LESSER GENERAL PUBLIC LICENSE"}

    def faults(self, name=NAME):
        path = os.path.join(self.folder, name)
        files = dict(self.files)
        files[f"{INFO}/METADATA"] = self.metadata
        files[f"{INFO}/sboms/BUNDLED.json"] = json.dumps(self.parts)
        with zipfile.ZipFile(path, "w") as archive:
            for file, data in files.items():
                archive.writestr(file, data)
        done = run(sys.executable, "-B", CHECK, path)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1 if lines else 0, done.stdout)
        return [line.removeprefix(name + ": ") for line in lines]

    def test_nothing_is_wrong(self):
        """A wheel that is as it should be has no fault."""
        self.assertEqual(self.faults(), [])

    def test_a_newer_c_library(self):
        """A program that needs a newer C library than the wheel's name promises, or C++'s, is named."""
        old = self.compile("#include <stdio.h>\nint shared(void) { return puts(\"\"); }")
        self.files["larder/bin/larder"] = old
        self.assertEqual(self.faults(), [])
        told = self.faults("larderd-1-py3-none-manylinux_2_1_x86_64.whl")
        self.assertRegex(told[0], r"larder/bin/larder needs GLIBC_2\.[\d.]+$")

    def test_libraries(self):
        """A library that is not in the wheel, or that is looked for on the machine, is named; so is one that the list
        has not, and one that only the list has."""
        elsewhere = os.path.join(self.folder, "libabsent.so")
        with open(elsewhere, "wb") as file:
            file.write(self.compile("int absent(void) { return 2; }", "-nostdlib"))
        self.files["larder/bin/larder"] = self.compile("int absent(void);\nint shared(void) { return absent(); }",
                                                       "-nostdlib", elsewhere, "-Wl,-rpath,/opt/lib")
        self.files["larderd.libs/libextra.so.2"] = self.library
        self.parts[1]["files"] = ["libshared.so.1", "libgone.so.3"]
        told = "\n".join(self.faults())
        self.assertRegex(told, r"larder/bin/larder needs \S*libabsent\.so, which is not in the wheel")
        self.assertIn("larder/bin/larder looks for libraries in /opt/lib", told)
        self.assertIn("BUNDLED.json does not list larderd.libs/libextra.so.2", told)
        self.assertIn("BUNDLED.json lists libgone.so.3, which is not in the wheel", told)

    def test_mathematics(self):
        """A daemon that has some of the functions it computes with from the compiler is named, and which they are."""
        name = NAME.replace("2_28", "2_40")
        functions = ("cos", "exp", "log", "pow", "sin")
        code = "".join(f"double {function}(double);\n" for function in functions)
        code += "float expf(float);\ndouble shared(double x) {"
        rest = " return " + " + ".join(f"{function}(x)" for function in functions) + "; }"
        words = ("-fno-builtin", "-Wl,--no-as-needed", "-lm")
        self.files["larder/bin/larderd"] = self.compile(code + "x += expf(x);" + rest, *words)
        self.assertEqual(self.faults(name), [])
        self.files["larder/bin/larderd"] = self.compile(code + rest, *words)
        self.assertEqual(self.faults(name), ["larder/bin/larderd computes expf itself, not with the C library"])

    def test_licences(self):
        """A licence that may not be there, an LGPL part without a library of its own, and one that the metadata does
        not name are told."""
        self.parts[0]["licence"] = "GPL-2.0-or-later"
        self.parts.append(dict(LESSER, name="linked", files=[]))
        told = "\n".join(self.faults())
        self.assertIn("yaml is under GPL-2.0-or-later, which is none of the licences that may be in a wheel", told)
        self.assertIn("linked is under LGPL-2.1-or-later, and no library of its own", told)
        self.assertIn("License-Expression is", told)

    def test_texts(self):
        """A licence's words that are missing, only told where to find, or not named in the metadata are told; so is a
        missing NOTICE."""
        self.files[f"{INFO}/licenses/yaml/License"] = "The text is in /usr/share/common-licenses/MIT"
        del self.files[f"{INFO}/licenses/shared/COPYING"], self.files[f"{INFO}/licenses/NOTICE"]
        self.metadata = self.metadata.replace("License-File: LICENSE\n", "")
        told = "\n".join(self.faults())
        for fault in ("a licence of yaml is only told where to find", "the words of MIT are missing for yaml",
                      "licenses/shared/COPYING is missing", "licenses/NOTICE is missing",
                      f"METADATA does not name {INFO}/licenses/LICENSE"):
            self.assertIn(fault, told)

    def test_a_library_under_the_gpl(self):
        """A library that is known to be under the GPL is named, whatever the list says of it."""
        self.files["larderd.libs/libfftw3.so.3"] = self.library
        self.parts[0]["files"] = ["libfftw3.so.3"]
        self.assertEqual(self.faults(), ["larderd.libs/libfftw3.so.3 is a library under the GPL"])


class Parts(unittest.TestCase):
    def test_the_table(self):
        """Each part that `libraries` builds is under a licence that may be in a wheel, an LGPL one is shared, and it is
        built after what it needs."""
        parts = runpy.run_path(os.path.join(os.path.dirname(CHECK), "parts.py"))["PARTS"]
        licences = runpy.run_path(CHECK)["LICENCES"]
        names = [part.source for part in parts]
        self.assertEqual(len(set(names)), len(names))
        for at, part in enumerate(parts):
            with self.subTest(part=part.source):
                self.assertLessEqual(set(part.licence.split(" AND ")), licences)
                self.assertEqual("LGPL" in part.licence, bool(part.shared))
                self.assertLessEqual(set(part.needs), set(names[:at]))


class Built(unittest.TestCase):
    def test_it(self):
        """The wheel has no fault."""
        done = run(sys.executable, "-B", CHECK, os.environ["LARDER_WHEEL_FILE"])
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    if "Built" in sys.argv and not os.environ.get("LARDER_WHEEL_FILE"):
        print("skipped: LARDER_WHEEL_FILE names no wheel")
        sys.exit(77)
    unittest.main(verbosity=2)
