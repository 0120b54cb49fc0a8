"""`larder plan --compare` trains on both sides what it says, counts what they cost, and says what jobs save.
Figures of time are not held against anything: only counts, and what follows from them."""

import glob
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import above  # noqa: F401
from system import BIN, PACKAGE, SLOW, Case, main, only_long, skip, tree

if importlib.util.find_spec("torchvision") is None:
    skip("this Python has no torchvision")
from larder import compare  # noqa: E402


def command_lines():
    """Of all processes."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found.append(file.read())
        except OSError:
            pass  # it has ended meanwhile
    return found


class Compare(Case):
    def asked(self, words, path):
        """The arguments of a Popen that compares."""
        python = os.path.join(self.folder, "python3")
        if not os.path.lexists(python):
            with open(python, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B "$@"\n')
            os.chmod(python, 0o755)
        os.makedirs(os.path.join(self.folder, "tmp"), exist_ok=True)
        env = {name: value for name, value in os.environ.items() if name != "LARDERD"}
        env.update(PYTHONPATH=path, PATH=self.folder + os.pathsep + os.environ["PATH"],
                   TMPDIR=os.path.join(self.folder, "tmp"))
        return {"args": [os.path.join(BIN, "larder"), "plan", tree(60), "--compare", *words], "text": True, "env": env,
                "cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def compared(self, *words, path=PACKAGE):
        return subprocess.run(**self.asked(words, path), timeout=300 * SLOW)

    def made(self):
        """What comparisons have left in TMPDIR."""
        return glob.glob(os.path.join(self.folder, "tmp", "larder-compare-*"))

    def test_counts(self):
        """Each side gets each image once an epoch; jobs that train together share what is prepared."""
        done = self.compared("--jobs", "2", "--images", "40", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["dataset"], told["images"], told["epochs"], told["jobs"]), (60, 40, 2, 2))
        self.assertEqual([told[side]["samples"] for side in ("dataloader", "larder_1", "larder")], [80, 80, 160])
        self.assertEqual(told["larder_1"]["prepared"], 80)
        self.assertTrue(80 <= told["larder"]["prepared"] < 160, told)
        for side in ("dataloader", "larder_1", "larder"):
            self.assertGreater(told[side]["processor_s"], 0)
        lines = done.stderr.splitlines()
        self.assertIn("a minute or so on a quiet machine", lines[0])
        self.assertEqual(re.findall(r"step (\d of \d: [^,]*), 2 x 40 images", done.stderr),
                         ["1 of 3: one DataLoader", "2 of 3: one job of Larder", "3 of 3: 2 jobs of Larder at once"])
        self.assertEqual(self.made(), [])

    def test_stopped(self):
        """SIGTERM and Ctrl-C end it in any step: no folder and no process stays, and the exit status says so. Its
        larderd never answers, so that the second step is not over before."""
        silent = os.path.join(self.folder, "silent")
        with open(silent, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec tail -f {shlex.quote(silent)}\n")
        os.chmod(silent, 0o755)
        for number, step, epochs in ((signal.SIGTERM, "step 1 of 2", "1000"), (signal.SIGINT, "step 2 of 2", "1")):
            asked = self.asked(["--jobs", "1", "--epochs", epochs], PACKAGE)
            asked["env"]["LARDERD"] = silent
            with subprocess.Popen(**asked) as done:
                self.addCleanup(done.kill)
                said = ""
                while step not in said:
                    line = done.stderr.readline()
                    self.assertTrue(line, said)
                    said += line
                self.assertEqual(len(self.made()), 1)
                done.send_signal(number)
                output, errors = done.communicate(timeout=120 * SLOW)
            self.assertEqual((done.returncode, output, self.made()), (130, "", []), errors)
            self.assertEqual(errors.splitlines()[-1], "larder.compare: stopped")
            self.assertEqual([text for text in command_lines() if self.folder in text], [])

    @only_long
    def test_own_transforms(self):
        """A Compose of the person's own is what both sides do; one that Larder cannot do is named."""
        with open(os.path.join(self.folder, "mine.py"), "w", encoding="utf-8") as file:
            file.write("from torchvision.transforms import CenterCrop, Compose, Lambda, PILToTensor\n"
                       "good = Compose([CenterCrop(32), PILToTensor()])\nbad = Compose([Lambda(abs)])\n")
        done = self.compared("--jobs", "1", "--images", "20", "--epochs", "1", "--compose", "mine:good")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Larder prepared 20 images for 20 that it delivered.", done.stdout)
        done = self.compared("--compose", "mine:bad")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Lambda", done.stderr)

    def test_without_torchvision(self):
        """Where torchvision is missing it says which Python was asked, and what does it; it measures nothing."""
        os.mkdir(os.path.join(self.folder, "torchvision"))
        with open(os.path.join(self.folder, "torchvision", "__init__.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError('none here')\n")
        done = self.compared(path=self.folder + os.pathsep + PACKAGE)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{sys.executable} was asked, and cannot load torch and torchvision", done.stderr)
        self.assertIn("YOUR_PYTHON -m larder.compare", done.stderr)

    def test_without_the_package(self):
        """The same where that Python has no package larder."""
        done = self.compared(path=self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{sys.executable} was asked, and cannot load the package larder", done.stderr)
        self.assertIn("YOUR_PYTHON -m larder.compare", done.stderr)


class Told(Case):
    def test_words(self):
        """What is printed follows from the counts: costs an image, what cores can feed, what all jobs save."""
        text = compare.told({"folder": "/d", "dataset": 1000, "images": 100, "epochs": 2, "jobs": 4, "cores": 2,
                             "dataloader": {"samples": 200, "processor_s": 0.8},
                             "larder_1": {"samples": 200, "processor_s": 0.4},
                             "larder": {"samples": 800, "processor_s": 0.8, "prepared": 210}})
        rows = {line[:18].strip(): line[18:].split() for line in text.splitlines()}
        self.assertEqual(rows["1 DataLoader"], ["4.00", "250", "500"])
        self.assertEqual(rows["4 DataLoaders"], ["4.00", "250", "125"])
        self.assertEqual(rows["1 job of Larder"], ["2.00", "500", "1,000"])
        self.assertEqual(rows["4 jobs of Larder"], ["1.00", "1,000", "500"])
        self.assertIn("takes the DataLoader 16.0 core-seconds and Larder 4.0:\n75 % less. Larder prepared 210 images "
                      "for 800", text)


if __name__ == "__main__":
    main()
