"""Files that vanish or cannot be read while a daemon serves them: each costs itself."""

import os
import re
import urllib.request

from stores import everything, pack
from system import SLOW, Case, files_of, free_port, larder, main, make_tree, until

COUNT = 400
CONFIG = """\
memory: {{arena: 64MiB, encoded: 1MiB}}
catalog: {{checkpoint: none}}
metrics: {{port: {port}}}
limits: {{bad: 100%}}
"""


def spoil(path, how):
    """Deletes a file, or puts a folder in its place: it is a bad sample. One that was written to or replaced is not:
    see test_changed_files.py."""
    os.unlink(path)
    if how:
        os.mkdir(path)


class Vanishing(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.served = self.daemon(CONFIG.format(port=self.port))
        self.tree = make_tree(os.path.join(self.folder, "tree"), COUNT)
        self.files = files_of(self.tree)

    def metric(self, row):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10 * SLOW) as answer:
            text = answer.read().decode()
        return float(re.search("^" + re.escape(row) + " (.*)$", text, re.MULTILINE).group(1))

    def named(self):
        """The files that the log calls bad samples."""
        return set(re.findall(r'msg="bad sample" file="([^"]*)"', self.served.log()))

    def test_in_the_middle_of_an_epoch(self):
        """Twelve files are deleted, or have a folder in their place, in the middle of the first epoch. The next
        epoch of that job has all others once, the twelve are counted in the job, the status and the metrics and named
        in the log, and a script on other data goes on undisturbed."""
        other = make_tree(os.path.join(self.folder, "other"), 200, seed=2)
        undisturbed = self.script(self.served, dataset=other, pipeline=[{"resize": {"size": [32, 32]}}], batch_size=10,
                                  epochs=3, step_s=0.01, name="other")
        loader = self.loader(self.served, self.tree, name="hit", prefetch=1)
        first = iter(loader)
        got = [index for _ in range(5) for index in next(first)[-1].tolist()]
        for number in range(12):
            spoil(self.files[number * 30], number % 2)
        bad = set(range(0, 360, 30))
        got += [index for batch in first for index in batch[-1].tolist()]
        self.assertEqual(len(got), len(set(got)))
        self.assertLessEqual(set(range(COUNT)) - bad, set(got))
        before = self.served.jobs()["hit"]["bad_samples"]
        self.assertEqual(before, COUNT - len(got))
        self.assertEqual(set(everything(loader)), set(range(COUNT)) - bad)
        self.assertEqual(self.served.jobs()["hit"]["bad_samples"] - before, 12)
        unreadable = self.served.status()["samples"]["bad"]["unreadable"]
        self.assertEqual(unreadable, before + 12)
        self.assertEqual(self.metric('larder_bad_samples_total{reason="unreadable"}'), unreadable)
        self.assertEqual(self.metric('larder_job_bad_samples_total{job="hit"}'), unreadable)
        self.assertTrue(until(lambda: self.named() >= {self.files[index] for index in bad} or
                              "held_back" in self.served.log(), 5))
        self.assertLessEqual(self.named(), {self.files[index] for index in bad})
        self.assertEqual(undisturbed.wait(), 0, undisturbed.errors or undisturbed.end)
        self.assertEqual(undisturbed.epochs(), [list(range(200))] * 3)

    def test_policies(self):
        """After files vanished `replace` fills their places with others, `error` ends the job with the file's name."""
        loaders = {policy: self.loader(self.served, self.tree, bad_samples=policy) for policy in ("replace", "error")}
        gone = self.files[100:104]
        for path in gone:
            os.unlink(path)
        got = [index for batch in loaders["replace"] for index in batch[-1].tolist()]
        self.assertEqual(len(got), COUNT)
        self.assertEqual(set(got), set(range(COUNT)) - set(range(100, 104)))
        with self.assertRaises(Exception) as raised:
            list(loaders["error"])
        self.assertTrue(any(path in str(raised.exception) for path in gone), raised.exception)

    def test_all_gone(self):
        """The whole tree removed: a job does not train on what it has got before, which is an error that names files,
        and the daemon serves others."""
        loader = self.loader(self.served, self.tree)
        for path in self.files:
            os.unlink(path)
        with self.assertRaisesRegex(larder.BadSample,
                                    re.escape(self.tree) + r".*\(unreadable\).* and .*never more than a tenth"):
            list(loader)
        self.whole(self.loader(self.served, make_tree(os.path.join(self.folder, "next"), 100)), 100)

    def test_reads_that_fail(self):
        """A segment replaced by a folder: every read fails, is counted and named, the script is told, and the next
        store is served."""
        store = pack(self.tree, os.path.join(self.folder, "store"))
        loader = self.loader(self.served, store)
        os.unlink(os.path.join(store, "segment-00000.larder"))
        os.mkdir(os.path.join(store, "segment-00000.larder"))
        with self.assertRaisesRegex(larder.BadSample, "41 of 400 samples are bad"):
            list(loader)
        self.assertGreaterEqual(self.served.status()["samples"]["bad"]["unreadable"], 41)
        self.assertTrue(self.served.logged("segment-00000.larder"))
        self.whole(self.loader(self.served, pack(self.tree, os.path.join(self.folder, "again"))), COUNT)


if __name__ == "__main__":
    main()
