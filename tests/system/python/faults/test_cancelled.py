"""A job that is cancelled, or whose daemon stops: what its script holds or is yet to read stays its own."""

import os
import subprocess
import threading
import time

import numpy as np
import above  # noqa: F401
from system import BIN, SLOW, Case, larder, main, tree, until

CONFIG = """\
memory:
  arena: 16MiB
  encoded: 64MiB
catalog:
  checkpoint: none
metrics:
  enabled: false
"""
PLAIN = [{"resize": {"size": [64, 64]}}]
FLIPPED = [{"resize": {"size": [64, 64]}}, "random_horizontal_flip"]
OTHERS_S = 2.5  # how long others go on at the least: longer than the daemon waits for clients that it disconnects
OTHERS_BATCHES = 250  # and how much they take: several times the arena


class Cancelled(Case):
    def setUp(self):
        super().setUp()
        self.server = self.daemon(CONFIG)
        self.mine, self.others = tree(120, seed=1), tree(360, seed=2)

    def truth(self):
        """The right pixels, by index."""
        with self.loader(self.server, self.mine, 60, pipeline=PLAIN, shuffle="none") as loader:
            return {int(index): image.tobytes() for images, _, indices in loader
                    for image, index in zip(images, indices)}

    def cancel(self, name):
        subprocess.run([os.path.join(BIN, "larder"), "cancel", name, "--socket", self.server.socket], check=True,
                       stdout=subprocess.DEVNULL, timeout=60 * SLOW)

    def others_fill_the_arena(self, stop=lambda: False):
        deadline, taken = time.monotonic() + OTHERS_S, 0
        with self.loader(self.server, self.others, 16, pipeline=FLIPPED) as loader:
            while not stop() and (time.monotonic() < deadline or taken < OTHERS_BATCHES):
                for _ in loader:
                    taken += 1

    def test_batches_that_lie_unread(self):
        """Batches that came before the cancel and are read after others filled the arena have the right pixels, or are
        not handed out; then comes the error that says what happened."""
        truth, seen = self.truth(), 0
        loader = self.loader(self.server, self.mine, 32, pipeline=PLAIN, shuffle="none", name="mine")
        iterator = iter(loader)
        self.assertTrue(until(lambda: self.server.jobs()["mine"]["queues"][0]["leased_batches"] >= 2, 30))
        self.cancel("mine")
        self.others_fill_the_arena()
        with self.assertRaisesRegex(larder.LarderError, "cancelled|gone away"):
            for images, _, indices in iterator:
                wrong = [int(i) for image, i in zip(images, indices) if image.tobytes() != truth[int(i)]]
                self.assertEqual(wrong, [], "samples with others' pixels")
                seen += 1
        self.assertLessEqual(seen, 2)
        self.assertTrue(until(lambda: "mine" not in self.server.jobs(), 30))

    def test_views_that_are_held(self):
        """A zero-copy batch stays what it is after the cancel, whatever others prepare, until its views have gone."""
        loader = self.loader(self.server, self.mine, 32, pipeline=PLAIN, shuffle="none", name="mine", zero_copy=True)
        iterator = iter(loader)
        batch = next(iterator)
        before = np.array(batch[0])
        self.cancel("mine")
        with self.assertRaisesRegex(larder.JobCancelled, "cancelled"):
            while True:
                next(iterator).release()
        self.others_fill_the_arena()
        self.assertTrue(np.array_equal(np.array(batch[0]), before), "the bytes changed under a held view")
        self.assertIn("mine", self.server.jobs())
        batch.release()
        self.assertTrue(until(lambda: "mine" not in self.server.jobs(), 30))

    def test_what_the_script_is_told(self):
        """The error says what happened to which job and by what, and is none of a daemon that is gone. The Loader stays
        cancelled, however often it is iterated, and no job of its name comes back; another Loader of it trains."""
        options = {"pipeline": PLAIN, "name": "mine", "reconnect": 60}
        loader = self.loader(self.server, self.mine, 32, **options)
        iterator = iter(loader)
        next(iterator)
        self.cancel("mine")
        for again in (iterator, loader, loader):
            with self.assertRaises(larder.JobCancelled) as caught:
                list(again)
            self.assertRegex(str(caught.exception), "mine.*cancelled with `larder cancel`.*another Loader")
            self.assertNotIsInstance(caught.exception, larder.DaemonGone)
            self.assertEqual(caught.exception.code, "ECANCELLED")
        self.assertTrue(until(lambda: "mine" not in self.server.jobs(), 30))
        with self.assertRaises(larder.JobCancelled):
            len(loader)
        self.assertNotIn("mine", self.server.jobs())
        self.assertEqual(loader.stats()["reconnects"], 0)
        loader.close()
        self.assertTrue(list(self.loader(self.server, self.mine, 32, **options)))

    def test_ranks(self):
        """Each rank of a cancelled job is told so, also one that was not waiting."""
        ranks = [self.loader(self.server, self.mine, 4, pipeline=PLAIN, name="ranks", rank=rank, world_size=2)
                 for rank in range(2)]
        iterators = [iter(rank) for rank in ranks]
        for iterator in iterators:
            next(iterator)
        self.cancel("ranks")
        for iterator in iterators:
            with self.assertRaises(larder.JobCancelled):
                list(iterator)

    def test_a_drain_does_not_wait_for_a_cancelled_job(self):
        """With none but a cancelled job left a draining daemon stops, and views that are held stay what they are."""
        loader = self.loader(self.server, self.mine, 32, pipeline=PLAIN, name="mine", zero_copy=True)
        batch = next(iter(loader))
        before = np.array(batch[0])
        self.cancel("mine")
        subprocess.run([os.path.join(BIN, "larder"), "drain", "--socket", self.server.socket], check=True,
                       stdout=subprocess.DEVNULL, timeout=60 * SLOW)
        self.assertEqual(self.server.process.wait(60 * SLOW), 0)
        self.assertTrue(np.array_equal(np.array(batch[0]), before))

    def test_views_that_are_held_while_the_daemon_stops(self):
        """A zero-copy batch stays what it is while the daemon stops with others at work, and after that."""
        loader = self.loader(self.server, self.mine, 32, pipeline=PLAIN, zero_copy=True)
        batch = next(iter(loader))
        before, stopping, taken = np.array(batch[0]), threading.Event(), []

        def work():
            try:
                with self.loader(self.server, self.others, 16, pipeline=FLIPPED, reconnect=0) as others:
                    while not stopping.is_set():
                        for _ in others:
                            taken.append(1)
            except larder.LarderError:
                pass
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.assertTrue(until(lambda: len(taken) > 100, 60))
        self.assertEqual(self.server.stop(), 0)
        stopping.set()
        for thread in threads:
            thread.join()
        self.assertTrue(np.array_equal(np.array(batch[0]), before), "the bytes changed under a held view")


if __name__ == "__main__":
    main()
