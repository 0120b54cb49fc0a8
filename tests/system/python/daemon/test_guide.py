"""The guide in docs/ and the README: each of its commands runs and is used right, its programs are Python, the texts
that it explains are said somewhere, and the protocol is the one that is spoken."""

import ast
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import textwrap

import above  # noqa: F401
from system import BIN, PACKAGE, PIPELINE, SLOW, SOURCE, Case, files_of, free_port, main, make_tree, until

GUIDE = os.path.join(SOURCE, "docs", "guide")
PAGES = [os.path.join(SOURCE, "README.md"),
         *(path for folder in ("", "guide", "reference", "internals")
           for path in sorted(glob.glob(os.path.join(SOURCE, "docs", folder, "*.md"))))]
COMMAND = re.compile(r"(?:\$ )?((?:build/bin/)?larderd?|\./run|curl|ssh|source|for|PYTHONPATH=\S+)(?: .*)?$")
# Not run here, and why.
ELSEWHERE = {"./run ": "it runs all tests, this one too; test_demo runs the demo",
             "ssh ": "it needs another machine",
             "pip ": "test_wheel installs a wheel",
             "podman ": "there may be none; test_containers plays containers",
             "srun ": "test_slurm plays Slurm",
             "torchrun ": "there may be no torch; two ranks run without it"}
CONFIG = """\
memory: {arena: 128MiB, encoded: 64MiB}
catalog: {checkpoint: none}
metrics: {socket: auto}
"""
ENDS_DAEMON = ("larder drain", "larder cancel")
# 4: it found something; 1: nothing of that name, nobody at that address, no cluster; 77: without torchvision
STATUS = {"larder doctor": (0, 4), "larder poison clear": (0, 1), "larder cluster probe": (0, 1),
          "larder cluster leave": (0, 1), "larder plan /data/train --compare": (0, 77)}


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def blocks(page):
    """(kind, text) of each block of code; the kind of one that is only indented is None."""
    text = text_of(page)
    for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield kind, body
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for body in re.findall(r"(?:^ {4}\S.*\n)+", plain, re.MULTILINE):
        yield None, textwrap.dedent(body)


def commands(page):
    """The commands of a page, without what explains them. A block without a kind may have output as well: of it only
    what follows a $ is a command. In docs/guide/ each line of a block of shell is one. What a block exports holds for
    the lines below."""
    for kind, body in blocks(page):
        if kind in ("sh", "", None):
            given = ""
            for line in body.replace("\\\n", " ").splitlines():
                if line.startswith("export "):
                    given += line + "; "
                elif (kind == "sh" and page.startswith(GUIDE)) or \
                        (COMMAND.match(line) and (kind != "" or line.startswith("$ "))):
                    line = re.sub(r"\s+#.*$| …$", "", line.removeprefix("$ "))
                    yield given + line.replace("build/bin/", "").strip()


def normal(text):
    """A text of C or Python with … for each thing that is put in."""
    return re.sub(r"(?:… ?)*…", "…", re.sub(r"%[-#0 .*\d]*(?:ll|l|z)?[a-zA-Z]", "…", text)).replace('\\"', '"')


def said():
    """Each text in the sources, with its neighbours where the compiler puts them together."""
    texts = []
    for folder in ("client", "common", "cache", "preprocess", "sampler", "server"):
        for path in glob.glob(os.path.join(SOURCE, folder, "**", "*.[ch]"), recursive=True):
            for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*', text_of(path)):
                texts.append(normal(re.sub(r'"\s*(?:PRI\w+\s*)?"', "", run[1:-1])))
    for path in glob.glob(os.path.join(PACKAGE, "larder", "*.py")):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.JoinedStr):
                texts.append(normal("".join(part.value if isinstance(part, ast.Constant) else "…"
                                            for part in node.values)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(normal(node.value))
    return texts


class Guide(Case):
    def setUp(self):
        super().setUp()
        self.data = make_tree(os.path.join(self.folder, "images"), 120)
        self.place = os.path.join(self.folder, "place")
        os.mkdir(self.place)
        for name in ("tests", "client"):
            os.symlink(os.path.join(SOURCE, name), os.path.join(self.place, name))
        shutil.copytree(os.path.join(SOURCE, "configs"), os.path.join(self.place, "configs"))
        self.put("configs/larder.yaml", text_of("configs", "larder.yaml").replace("9450", str(free_port())))
        self.put("larder.yaml", CONFIG)
        for page in glob.glob(os.path.join(GUIDE, "*.md")):
            for kind, body in blocks(page):
                name = kind == "python" and re.match(r"# (\w+\.py)\n", body)
                if name:
                    self.put(name[1], body)
        os.mkdir(os.path.join(self.folder, "shards"))
        with tarfile.open(os.path.join(self.folder, "shards", "0.tar"), "w") as tar:
            for number, path in enumerate(files_of(self.data)):
                tar.add(path, f"{number:06}.jpg")
        self.put("python3", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B "$@"\n')
        os.chmod(os.path.join(self.place, "python3"), 0o755)
        shutil.copy(files_of(self.data)[0], os.path.join(self.place, "photo.jpg"))
        os.mkdir(os.path.join(self.folder, "nvme"))
        self.server = None

    def put(self, name, text):
        with open(os.path.join(self.place, name), "w", encoding="utf-8") as file:
            file.write(text)

    def serve(self):
        """A daemon with a job called JOB, which goes on."""
        self.server = self.daemon(CONFIG + f"storage: [{{path: {self.folder}/class, size: 64MiB}}]\n")
        self.job = self.script(self.server, dataset=self.data, pipeline=PIPELINE, batch_size=10, epochs=1000000,
                               name="JOB", step_s=0.02)
        self.assertTrue(until(lambda: len(self.job.batches) > 2 or self.job.end, 60), self.job.errors)
        self.assertIsNone(self.job.end)

    def stands_for(self, command):
        """The command with the test's own names."""
        command = re.sub(r" \[[^]]*\]", "", command).replace("--seconds 10", "--seconds 0.2")
        command = command.replace("--compare --jobs 4", "--compare --jobs 1 --images 20 --epochs 1")
        command = re.sub(r"/data/([\w-]+\.store)\b", rf"{self.folder}/\1", command)
        command = command.replace("/data/shards", os.path.join(self.folder, "shards"))
        for name in ("/data/imagenet/train", "/data/train", "/data/photographs"):
            command = re.sub(rf"{name}\b", self.data, command)
        command = re.sub(r"(?<= )/nvme\b", os.path.join(self.folder, "nvme"), command)
        command = command.replace("larder cache PATH", f"larder cache {self.folder}/class")
        command = command.replace("http://127.0.0.1:9450/",
                                  f"--unix-socket {self.server.socket}.metrics http://localhost/")
        return command.replace("/run/user/1000/larder/larder.sock", self.server.socket)

    def starts(self, command):
        """larderd without a command of its own is a daemon, and listens."""
        ready, far = os.pipe()
        words = shlex.split(command)
        with open(os.path.join(self.folder, "other.log"), "w+") as log:
            process = subprocess.Popen([*words, "--socket", os.path.join(self.folder, "other"), "--ready-fd", str(far)],
                                       env=self.environment, cwd=self.place, pass_fds=(far,), stdout=log, stderr=log)
            os.close(far)
            came = os.read(ready, 1)
            os.close(ready)
            process.terminate()
            self.assertEqual((process.wait(60 * SLOW), bool(came)), (0, True), command)

    def runs(self, command):
        words = command.split()
        if words[0] == "larderd" and (len(words) == 1 or words[1].startswith("--")):
            return self.starts(command)
        if words[0] == "curl" and not shutil.which("curl"):
            return None
        result = subprocess.run(["bash", "-c", self.stands_for(command)], cwd=self.place, env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=600 * SLOW)
        allowed = next((codes for begin, codes in STATUS.items() if command.startswith(begin)), (0,))
        return self.assertIn(result.returncode, allowed, f"{command}\n{result.stdout}")

    def test_commands(self):
        """Every command that the guide gives does what it is given for, against a daemon with a job."""
        self.serve()
        self.environment = dict(os.environ, PATH=f"{self.place}:{BIN}:{os.environ['PATH']}",
                                LARDER_SOCKET=self.server.socket, XDG_CACHE_HOME=self.folder,
                                LARDERD=os.path.join(BIN, "larderd"), PYTHONPATH=PACKAGE)
        done, left = [], set()
        for page in PAGES:
            for command in commands(page):
                bare = re.sub(r"^(?:export [^;]*; )*", "", command)
                elsewhere = [begin for begin in ELSEWHERE if bare.startswith(begin)]
                left.update(elsewhere)
                if command in done or elsewhere:
                    continue
                with self.subTest(page=os.path.basename(page), command=command):
                    self.runs(command)
                done.append(command)
                if command.startswith(ENDS_DAEMON):
                    self.job.close()  # or it goes on with the next daemon
                    self.server.stop()
                    self.serve()
        self.assertEqual(left, set(ELSEWHERE))
        self.assertGreater(len(done), 30)

    def test_after_build(self):
        """The line that ./run build prints last lets a shell find the programs and the package, wherever the checkout
        lies."""
        checkout = os.path.join(self.folder, "a checkout")
        os.makedirs(os.path.join(checkout, "build"))
        os.symlink(BIN, os.path.join(checkout, "build", "bin"))
        os.symlink(os.path.join(SOURCE, "client"), os.path.join(checkout, "client"))
        script = re.sub(r"^(?:cd |main ).*$", "", text_of("run"), flags=re.MULTILINE)
        self.assertIn("build \"$@\"\n        tell_paths\n", script)
        line = subprocess.run(["bash", "-c", script + "\ntell_paths"], cwd=checkout, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True).stdout
        python = f"{shlex.quote(sys.executable)} -B -c 'import larder; print(larder.__file__)'"
        found = subprocess.run(["bash", "-c", f"{line}command -v larder larderd; {python}"], stdout=subprocess.PIPE,
                               text=True, check=True).stdout.splitlines()
        self.assertEqual(found, [os.path.join(checkout, *path) for path in (
            ("build", "bin", "larder"), ("build", "bin", "larderd"),
            ("client", "python", "larder", "__init__.py"))])

    def test_programs(self):
        """What stands there as Python is Python."""
        for page in PAGES:
            for kind, body in blocks(page):
                if kind == "python":
                    with self.subTest(page=os.path.basename(page)):
                        body = textwrap.dedent(body).replace(", …)", ")").strip()
                        ast.parse(f"def {body.removeprefix('larder.')}: pass" if ", *, " in body else body)

    def test_length(self):
        """The guide has ten pages that one can read in half an hour; the README and the glossary are short."""
        pages = [page for page in PAGES if page.startswith(GUIDE)]
        self.assertEqual(len(pages), 10)
        self.assertLessEqual(sum(len(text_of(page).split()) for page in pages), 7000)
        self.assertLessEqual(len(text_of("README.md").split()), 900)
        words = re.findall(r"^\| \*\*", text_of("docs", "reference", "glossary.md"), re.MULTILINE)
        self.assertLessEqual(len(words), 30)

    def test_texts(self):
        """Every text that the guide explains is one that Larder says."""
        explained = re.findall(r"^\| `([^`]+)` \|", text_of("docs", "reference", "messages.md"), re.MULTILINE)
        self.assertGreater(len(explained), 25)
        refused = re.findall(r"^\| [^|]+ \| (`[^|]+) \|", text_of("docs", "reference", "limits.md"), re.MULTILINE)
        self.assertGreater(len(refused), 12)
        explained += re.findall(r"`([^`]+)`", " ".join(refused))
        texts = said()
        for text in explained:
            with self.subTest(text=text):
                self.assertTrue(any(normal(text) in one for one in texts))

    def test_protocol(self):
        """The messages and bounds of the protocol's page are those of wire.h."""
        header, page = text_of("common", "wire.h"), text_of("docs", "internals", "protocol.md")
        kinds = re.findall(r"WIRE_(\w+) = (\d+),$", re.search(r"enum wire_type {(.*?)}", header, re.DOTALL)[1],
                           re.MULTILINE)
        self.assertEqual(re.findall(r"^\| (\d+) \| (\w+) \|", page, re.MULTILINE),
                         [(number, name) for name, number in sorted(kinds, key=lambda kind: int(kind[1]))])
        for name in ("REQUEST_MAX", "REPLY_MAX", "BATCH_MAX", "SPEC_MAX", "CREDITS_MAX", "NAME_MAX"):
            bound = int(re.search(rf"#define WIRE_{name} (\d+)", header)[1])
            self.assertIn(f"{bound:,}", page, name)

    def test_links(self):
        """Links within the repository lead to files, and to headings that are there."""
        for page in PAGES:
            text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                path, _, part = target.partition("#")
                if re.match(r"\w+:", target):
                    continue
                with self.subTest(page=os.path.basename(page), target=target):
                    there = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                    self.assertTrue(os.path.exists(there))
                    heads = re.findall(r"^#+ (.*)$", text_of(there), re.MULTILINE) if part else []
                    made = {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head)).lower()
                            .replace(" ", "-") for head in heads}
                    self.assertTrue(not part or part in made, f"{part} is none of {sorted(made)}")


if __name__ == "__main__":
    main()
