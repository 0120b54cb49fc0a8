"""`larder plan`: what it counts beforehand is what a daemon with these settings does, and what it says to set is a
configuration."""

import json
import os
import re
import subprocess

import above  # noqa: F401
from system import BIN, PATIENCE, SLOW, Case, main, tree

COUNT, BATCH, EPOCHS = 600, 16, 3
WITHIN = 0.15
SANITIZED = PATIENCE > 1
RANDOM = [{"random_resized_crop": {"size": 48}}, "random_horizontal_flip"]
SURE = [{"resize": {"size": [48, 48]}}]
CONFIG = """\
memory: {{arena: {arena}, encoded: {encoded}}}
threads: {{workers: 2, loaders: 4}}
catalog: {{checkpoint: none}}
metrics: {{enabled: false}}
"""


class Plan(Case):
    def larder(self, *words):
        return subprocess.run([os.path.join(BIN, "larder"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120 * SLOW, check=False)

    def plan(self, *words):
        result = self.larder("plan", tree(COUNT), *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def config(self, arena, encoded):
        path = os.path.join(self.folder, "plan.yaml")
        with open(path, "w") as file:
            file.write(CONFIG.format(arena=arena, encoded=encoded))
        return path

    def compare(self, arena, encoded, pipeline, jobs=1):
        """Plans with these settings, trains with them, and holds the one's counts against the other's. The rest of
        this file measures and plays a plan too, and other tests train: a sanitizer finds nothing more here."""
        if SANITIZED:
            self.skipTest("counts do not depend on the sanitizer")
        path = self.config(arena, encoded)
        told = json.loads(self.plan("--json", "--warm", "--config", path, "--pipeline", json.dumps(pipeline), "--jobs",
                                    str(jobs), "--epochs", str(EPOCHS), "--batch", str(BATCH)))
        first, later = told["rows"][0]["first"], told["rows"][0]["later"]
        daemon = self.daemon(CONFIG.format(arena=arena, encoded=encoded))
        loaders = [self.loader(daemon, tree(COUNT), BATCH, pipeline=pipeline, epochs=EPOCHS) for _ in range(jobs)]
        for _ in range(EPOCHS):
            for _ in zip(*loaders):  # each has a batch in its turn: they are in step on any machine
                pass
        samples = daemon.status()["samples"]
        daemon.stop()
        # Which form an image's preparation can make at once depends on its size, and a plan has the mean.
        form_rows = ("decoded", "from_decoded")
        for planned, counted in (("delivered", "delivered"), ("pixels", "pixels"), ("prepared", "prepared"),
                                 ("source_bytes", "loaded_bytes")):
            for row in (samples, first, later):
                row["pixels"] = sum(row[form] for form in form_rows)
            there, here = samples[counted], first[planned] + later[planned]
            print(f"arena {arena}, encoded {encoded}, {jobs} jobs: {planned} {here}, and really {there}", flush=True)
            self.assertLessEqual(abs(here - there), WITHIN * there, planned)
        return first, later, told["bytes"]

    def test_little_memory(self):
        """Each epoch reads all, whatever two jobs in step have in common."""
        first, later, total = self.compare("16MiB", "1MiB", RANDOM, jobs=2)
        self.assertGreater(first["source_bytes"] + later["source_bytes"], 0.85 * EPOCHS * total)

    def test_enough_memory(self):
        """One epoch reads all, the others nothing."""
        first, later, total = self.compare("16MiB", "64MiB", RANDOM)
        self.assertEqual(first["source_bytes"] + later["source_bytes"], total)

    def test_prepared_memory(self):
        """What is prepared without chance stays: one epoch prepares all."""
        first, later, _ = self.compare("64MiB", "8MiB", SURE)
        self.assertEqual(first["prepared"] + later["prepared"], COUNT)

    def test_encoded(self):
        """Samples that are delivered as they are stored are planned for too."""
        first, later, _ = self.compare("16MiB", "1MiB", [])
        self.assertEqual(first["decoded"] + later["decoded"], 0)

    def test_text(self):
        """It says what it measured, a row for each setting, and what to set; and that, if anything, is what a
        configuration takes. The disk that was to be measured is as empty as before."""
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        shown = self.plan("--config", self.config("128MiB", "1MiB"), "--step-ms", "5", "--jobs", "2", "--apart", "0.5",
                          "--storage", disk, "--memory", "2MiB", "--memory", "64MiB")
        self.assertEqual(os.listdir(disk), [])
        rows = re.findall(r"^ +\d+MiB +\d+MiB +(?:-|\d+MiB) +[\d. ]+ % +[\d.]+$", shown, re.M)
        self.assertEqual(len(rows), 5, shown)
        for text in (f"{COUNT} samples", "reads bring", "one worker prepares", "reads of the class bring",
                     "2 jobs, batch 64, 3 epochs, steps of 5 ms, 0.5 of an epoch apart", "an epoch after the first"):
            self.assertIn(text, shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 120)
        lines = re.search(r"^(memory|storage):\n(  .*\n)+", shown, re.M)
        if lines:
            path = os.path.join(self.folder, "advised.yaml")
            with open(path, "w") as file:
                file.write(lines.group(0))
            checked = self.larder("check", path)
            self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_wrong(self):
        """Wrong usage has status 2; what cannot be planned for has 1, and is named."""
        for words, text in (([], "usage"), (["a", "b"], "usage"), (["a", "--jobs", "0"], "--jobs 0"),
                            (["a", "--epochs", "1"], "--epochs 1"), (["a", "--memory", "much"], "--memory much"),
                            (["a", "--step-ms", "-1"], "--step-ms -1"), (["a", "--shuffle", "x"], "--shuffle x"),
                            (["a", "--wrong"], "wrong")):
            result = self.larder("plan", *words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertIn(text, result.stderr)
        for words, text in ((["/nothing/there"], "/nothing/there"), ([tree(COUNT), "--pipeline", "no.json"], "no.json"),
                            ([tree(COUNT), "--pipeline", '["nothing"]'], "nothing"),
                            ([tree(COUNT), "--config", "no.yaml"], "no.yaml"),
                            ([tree(COUNT), "--storage", "/nothing/there"], "/nothing/there"),
                            ([tree(COUNT), "--config", self.config("1MiB", "1MiB"), "--batch", "8192"], "arena")):
            result = self.larder("plan", *words)
            self.assertEqual((result.returncode, result.stdout), (1, ""), words)
            self.assertIn(text, result.stderr)
        self.assertIn("--step-ms", self.larder("plan", "--help").stdout)

    def test_bad_files(self):
        """Files that cannot be prepared are counted; where none can be, that is said."""
        folder = os.path.join(self.folder, "bad")
        os.makedirs(os.path.join(folder, "a"))
        for number in range(20):
            with open(os.path.join(folder, "a", f"{number}.jpg"), "wb") as file:
                file.write(b"no image" * 100)
        result = self.larder("plan", folder)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("none of the files", result.stderr)
        result = self.larder("plan", folder, "--json", "--pipeline", "[]")
        self.assertEqual(json.loads(result.stdout)["measured"]["files"], 20)


if __name__ == "__main__":
    main()
