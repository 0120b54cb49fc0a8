"""Storage that goes away: no sample is lost over it, its jobs fail when it stays away, and what is lost is told."""

import os
import random
import re
import threading
import urllib.request
import warnings

import above  # noqa: F401
from system import SLOW, Case, files_of, free_port, larder, main, make_tree, until

COUNT = 600
PIPELINE = [{"resize": {"size": [64, 64]}}]
# Not half of the dataset fits into memory, so that an outage meets reads.
CONFIG = """\
memory: {{arena: 3MiB, encoded: 1MiB}}
catalog: {{checkpoint: none}}
threads: {{workers: 2, loaders: 4}}
metrics: {{port: {port}}}
limits: {{source_wait: {wait}, bad: {bad}}}
"""


def indices_of(batches):
    return [index for batch in batches for index in batch[-1].tolist()]


class Outage(Case):
    def serve(self, wait=600, bad="auto"):
        self.port = free_port()
        self.served = self.daemon(CONFIG.format(port=self.port, wait=wait, bad=bad))
        self.tree = make_tree(os.path.join(self.folder, "tree"), COUNT)

    def away(self):
        os.rename(self.tree, self.tree + "-away")

    def back(self):
        os.rename(self.tree + "-away", self.tree)

    def waits(self, name="hit"):
        return self.served.jobs().get(name, {}).get("waits_for_source")

    def metric(self, row):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10 * SLOW) as answer:
            text = answer.read().decode()
        return float(re.search("^" + re.escape(row) + " (.*)$", text, re.MULTILINE).group(1))

    def through(self, loader):
        """Takes an epoch, in the middle of which its storage is away until the daemon says that it waits for it."""
        def return_when_missed():
            self.missed = until(self.waits, 60)
            self.back()

        batches = iter(loader)
        got = indices_of(next(batches) for _ in range(3))
        self.away()
        other = threading.Thread(target=return_when_missed)
        other.start()
        got += indices_of(batches)
        other.join()
        self.assertTrue(self.missed, self.served.log())
        return got

    def test_away_for_a_moment(self):
        """The folder of a dataset is away in the middle of an epoch, until the daemon says so, and then back: every
        sample comes once in any order and nothing is lost, while a job on other data gets all epochs of its own
        during the outage. The log says when it began and when it ended, the metrics how many reads were tried again."""
        self.serve()
        other = make_tree(os.path.join(self.folder, "other"), 200, seed=2)
        beside = self.loader(self.served, other, pipeline=PIPELINE, name="other")
        for shuffle in ("dependent", "strict", "none"):
            loader = self.loader(self.served, self.tree, pipeline=PIPELINE, name="hit", prefetch=1, shuffle=shuffle)
            batches = iter(loader)
            got = indices_of(next(batches) for _ in range(3))
            self.away()
            rest, taker, told = [], None, self.served.log().count("storage does not answer")
            try:
                taker = threading.Thread(target=lambda: rest.extend(indices_of(batches)))
                taker.start()
                self.assertTrue(until(self.waits, 60), self.served.log())
                self.whole(beside, 200)
                self.assertTrue(self.waits())
                self.assertEqual(self.metric("larder_jobs_waiting_for_source"), 1)
                self.assertTrue(until(lambda: self.served.log().count("storage does not answer") > told, 60),
                                self.served.log())
            finally:
                self.back()
                taker.join()
            self.assertEqual(sorted(got + rest), list(range(COUNT)))
            self.assertEqual(loader.lost, 0)
            self.whole(loader, COUNT)
            loader.close()
        self.assertGreater(self.metric("larder_source_retries_total"), 0)
        status = self.served.status()
        self.assertEqual(sum(status["samples"]["bad"].values()), 0)
        self.assertTrue(until(lambda: "storage answers again" in self.served.log(), 10), self.served.log())
        log = self.served.log()
        self.assertRegex(log, r'msg="storage does not answer.*dataset="' + re.escape(self.tree))
        self.assertNotIn("bad sample", log)

    def test_ranks(self):
        """The same of a job of two ranks: together they get every sample once."""
        self.serve()
        for drop_last in (False, True):
            ranks = [self.loader(self.served, self.tree, pipeline=PIPELINE, name="hit", rank=rank, world_size=2,
                                 prefetch=1, drop_last=drop_last, batch_size=20) for rank in range(2)]
            iterators = [iter(loader) for loader in ranks]
            got = [indices_of([next(iterator)]) for iterator in iterators]
            self.away()
            takers = [threading.Thread(target=lambda rank=rank: got[rank].extend(indices_of(iterators[rank])))
                      for rank in range(2)]
            for taker in takers:
                taker.start()
            missed = until(self.waits, 60)
            self.back()
            for taker in takers:
                taker.join()
            self.assertTrue(missed, self.served.log())
            self.assertEqual([len(part) for part in got], [COUNT // 2] * 2)
            self.assertEqual(sorted(got[0] + got[1]), list(range(COUNT)))
            self.assertEqual([loader.lost for loader in ranks], [0, 0])
            for loader in ranks:
                loader.close()

    def test_a_store(self):
        """The same of a store whose folder is away."""
        import subprocess
        from system import BIN
        self.serve()
        store = os.path.join(self.folder, "store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store], check=True, stdout=subprocess.DEVNULL)
        self.tree = store
        loader = self.loader(self.served, store, pipeline=PIPELINE, name="hit", prefetch=1)
        self.assertEqual(sorted(self.through(loader)), list(range(COUNT)))
        self.assertEqual(loader.lost, 0)

    def test_away_for_too_long(self):
        """When the folder stays away for longer than limits.source_wait the job fails with an error that names the
        setting and a file, whatever its policy; another job goes on."""
        self.serve(wait=1)
        other = self.loader(self.served, make_tree(os.path.join(self.folder, "other"), 200, seed=2), pipeline=PIPELINE)
        loader = self.loader(self.served, self.tree, pipeline=PIPELINE, name="hit", prefetch=1, bad_samples="skip")
        batches = iter(loader)
        next(batches)
        self.away()
        with self.assertRaisesRegex(larder.IOFailure, r"1 s \(limits.source_wait\).*" + re.escape(self.tree)):
            list(batches)
        self.whole(other, 200)
        self.assertEqual(sum(self.served.status()["samples"]["bad"].values()), 0)
        self.back()
        self.whole(self.loader(self.served, self.tree, pipeline=PIPELINE), COUNT)

    def test_one_that_cannot_be_read(self):
        """A file that alone cannot be read, because it is a link into a folder that is away, costs one sample, in the
        middle of an epoch as at its end: it is named, counted, told to the client, and fails no job though the daemon
        would wait long for storage. The same of each epoch."""
        self.serve()
        aside = os.path.join(self.folder, "aside")
        os.mkdir(aside)
        name = files_of(self.tree)[7]
        os.rename(name, os.path.join(aside, "real.jpg"))
        os.symlink(os.path.join(aside, "real.jpg"), name)
        loader = self.loader(self.served, self.tree, pipeline=PIPELINE, name="hit", shuffle="none")
        os.rename(aside, aside + "-away")
        for _ in range(2):
            with self.assertWarnsRegex(larder.BadSamplesWarning, "^1 sample of epoch . .*log names it"):
                self.assertEqual(indices_of(loader), [index for index in range(COUNT) if index != 7])
            self.assertEqual(loader.lost, 1)
        self.assertTrue(self.served.logged(f'msg="bad sample" file="{name}" reason=unreadable'))
        os.rename(aside + "-away", aside)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.whole(loader, COUNT)
        self.assertEqual(loader.lost, 0)

    def test_a_deleted_file(self):
        """A file that is deleted from a folder that answers is a bad sample at once, without a retry: the client is
        warned once an epoch with the number, and has it as an attribute, under both policies."""
        self.serve()
        loaders = {policy: self.loader(self.served, self.tree, pipeline=PIPELINE, bad_samples=policy)
                   for policy in ("skip", "replace")}
        gone = random.Random(5).sample(range(COUNT), 3)
        files = files_of(self.tree)
        for index in gone:
            os.unlink(files[index])
        for policy, loader in loaders.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                got = indices_of(loader)
            self.assertEqual([str(one.message)[:19] for one in caught
                              if one.category is larder.BadSamplesWarning], ["3 samples of epoch "], caught)
            self.assertEqual(set(got), set(range(COUNT)) - set(gone))
            self.assertEqual(len(got), COUNT - 3 if policy == "skip" else COUNT)
            self.assertEqual(loader.lost, 3)
        self.assertEqual(self.metric("larder_source_retries_total"), 0)

    def test_too_many_bad(self):
        """More bad samples in an epoch than limits.bad fail the job with a text that says so and names one; as many as
        it allows do not."""
        self.serve(bad="1%")
        files = files_of(self.tree)
        aside = os.path.join(self.folder, "aside")
        allowed = self.loader(self.served, self.tree, pipeline=PIPELINE)
        refused = [self.loader(self.served, self.tree, pipeline=PIPELINE, bad_samples=policy)
                   for policy in ("skip", "replace")]
        for path in files[100:106]:
            os.unlink(path)
        os.rename(files[106], aside)
        for loader in refused:
            with self.assertRaisesRegex(larder.BadSample, re.escape(self.tree) +
                                        ".*7 of 600 samples are bad.*limits.bad allows 6"):
                list(loader)
            loader.close()
        os.rename(aside, files[106])
        with self.assertWarns(larder.BadSamplesWarning):
            self.assertEqual(len(indices_of(allowed)), COUNT - 6)

    def test_a_changed_file(self):
        """A file that was replaced since it was indexed is no bad sample: the job whose dataset says so fails with what
        to do, whatever its policy. Another dataset that has the same file under a link of its own gets it."""
        self.serve()
        linked = os.path.join(self.folder, "linked")
        for path in files_of(self.tree):
            link = os.path.join(linked, os.path.relpath(path, self.tree))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.link(path, link)
        loader = self.loader(self.served, self.tree, pipeline=PIPELINE, bad_samples="skip", shuffle="none")
        unchanged = self.loader(self.served, linked, pipeline=PIPELINE, bad_samples="error")
        name = files_of(self.tree)[COUNT - 40]
        with open(name, "rb") as file:
            content = file.read()
        os.unlink(name)
        with open(name, "wb") as file:
            file.write(content)
        with self.assertRaisesRegex(larder.SourceChanged, re.escape(name) + ".*start the job again"):
            list(loader)
        loader.close()
        self.whole(unchanged, COUNT)
        self.assertEqual(unchanged.lost, 0)
        self.assertEqual(sum(self.served.status()["samples"]["bad"].values()), 0)
        self.whole(self.loader(self.served, self.tree, pipeline=PIPELINE), COUNT)


if __name__ == "__main__":
    main()
