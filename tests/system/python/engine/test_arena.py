#!/usr/bin/env python3
"""The arena's memory: taken by need whatever the budget, never more than a set and its look-ahead ask for, and given
back when nobody is there or the machine is short of it. What the machine refuses costs jobs nothing that they have."""

import os
import signal

import numpy as np

import above  # noqa: F401
import system
from system import Case, larder, main, tree, until

MIB = 1 << 20
CONFIG = """\
memory: {{arena: {arena}, encoded: {encoded}, scratch: 64MiB, linger: {linger}}}
catalog: {{checkpoint: none}}
metrics: {{enabled: false}}
debug: {{memory_root: {root}}}
"""
PIXELS = [{"resize": {"size": [64, 64]}}, "random_horizontal_flip"]  # 12 KiB a sample
COUNT = 1500


class Arena(Case):
    stalled_us = 0

    def start(self, arena="1GiB", encoded="128MiB", linger=60, root="none"):
        return self.daemon(CONFIG.format(arena=arena, encoded=encoded, linger=linger, root=root))

    def arena(self, daemon):
        return daemon.status()["memory"]["arena"]

    def machine(self, available_mib, stalled_us=0):
        """A root of /proc with so much memory free, and so much waiting for memory since it began."""
        root = os.path.join(self.folder, "machine")
        os.makedirs(os.path.join(root, "proc", "pressure"), exist_ok=True)
        for name, text in (("meminfo", f"MemAvailable: {available_mib * 1024} kB\n"),
                           ("pressure/memory", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n")):
            path = os.path.join(root, "proc", name)
            with open(path + ".new", "w") as file:
                file.write(text)
            os.rename(path + ".new", path)
        return root

    def shrinks(self, daemon, limit):
        """Whether no more than `limit` bytes are there some time, while tasks wait for memory."""
        def look():
            self.stalled_us += 10 ** 6
            self.machine(8000, self.stalled_us)
            return daemon.shared_bytes() <= limit

        return until(look, 10)

    def test_by_need(self):
        """With a budget of most of the machine's memory a daemon takes nothing before a job comes. Many epochs of a
        small set take little more than one instance of each sample. The status tells budget, reserved and used."""
        daemon = self.start(arena="75%", encoded="20%")
        self.assertEqual(daemon.shared_bytes(), 0)
        self.assertGreater(self.arena(daemon)["budget_bytes"], 256 * MIB)
        loader = self.loader(daemon, tree(COUNT), 64, PIXELS)
        for _ in range(12):
            self.whole(loader, COUNT)
        arena, shared = self.arena(daemon), daemon.shared_bytes()
        print(arena, f"{shared / MIB:.0f} MiB", flush=True)
        self.assertLess(shared, 64 * MIB)  # 18 MiB, the look-ahead, and what is ahead of need
        self.assertTrue(until(lambda: self.arena(daemon)["reserved_bytes"] == daemon.shared_bytes(), 10))
        self.assertLessEqual(arena["used_bytes"], shared)
        self.assertGreaterEqual(arena["used_bytes"], COUNT * 64 * 64 * 3)

    def test_it_lingers_and_goes(self):
        """While a job is there its memory stays. When all have left, it lingers, and the next trial finds the set warm;
        after that it goes, and a job that comes then works."""
        daemon = self.start(linger=8)
        with self.loader(daemon, tree(COUNT), 64, system.PIPELINE[:1]) as loader:
            self.whole(loader, COUNT)
        decoded = daemon.status()["samples"]["decoded"]
        with self.loader(daemon, tree(COUNT), 64, system.PIPELINE[:1]) as loader:
            self.whole(loader, COUNT)
            self.assertEqual(daemon.status()["samples"]["decoded"], decoded)
            self.assertFalse(until(lambda: daemon.shared_bytes() == 0, 10 / system.SLOW))
        self.assertTrue(until(lambda: daemon.shared_bytes() == 0, 30))
        self.assertEqual(self.arena(daemon)["reserved_bytes"], 0)
        with self.loader(daemon, tree(COUNT), 64, system.PIPELINE[:1]) as loader:
            self.whole(loader, COUNT)

    def test_a_batch_that_is_held(self):
        """A zero-copy batch that somebody holds keeps its memory, however short of it the machine is. All else goes,
        although the client is there and has it mapped. When the Loader is closed this goes too. Who still looks at the
        batch then reads something, and is not killed for it."""
        daemon = self.start(linger=3600, root=self.machine(8000))
        loader = self.loader(daemon, tree(COUNT), 64, PIXELS, zero_copy=True)
        self.whole(loader, COUNT)
        batch = next(iter(loader))
        images = batch[0] if isinstance(batch[0], list) else [batch[0]]
        before = [np.array(image) for image in images]
        full = daemon.shared_bytes()
        self.assertTrue(self.shrinks(daemon, full / 2))
        self.assertTrue(all(np.array_equal(image, was) for image, was in zip(images, before)))
        loader.close()
        self.assertTrue(self.shrinks(daemon, 0))
        with self.loader(daemon, tree(COUNT), 64, PIXELS) as other:
            self.whole(other, COUNT)
        self.assertTrue(all(image.sum() >= 0 for image in images))

    def test_short_of_memory(self):
        """When tasks wait for memory, what no job has a use for goes at once, although a client is connected, and a job
        goes on with what it needs. When all have left everything goes."""
        daemon = self.start(linger=3600, root=self.machine(8000))
        with self.loader(daemon, tree(COUNT), 64, PIXELS) as loader:
            self.whole(loader, COUNT)
            full = daemon.shared_bytes()
            self.assertTrue(self.shrinks(daemon, full / 2))
            self.assertTrue(until(lambda: self.arena(daemon)["reserved_bytes"] <= daemon.shared_bytes(), 10))
            for _ in range(2):
                self.whole(loader, COUNT)
        self.assertTrue(self.shrinks(daemon, 0))
        with self.loader(daemon, tree(COUNT), 64, PIXELS) as loader:
            self.whole(loader, COUNT)

    def test_a_small_job_stays(self):
        """A job that stays connected has no more than it needs once a larger one has gone for as long as memory
        lingers."""
        daemon = self.start(linger=2)
        pixels = [{"resize": {"size": [128, 128]}}, "random_horizontal_flip"]
        small = self.loader(daemon, tree(COUNT), 16, PIXELS, subset=larder.Range(0, 64))
        self.whole(small, 64)
        with self.loader(daemon, tree(COUNT), 64, pixels) as large:
            for _ in range(2):
                self.whole(large, COUNT)
            full = daemon.shared_bytes()
            self.assertGreater(full, 64 * MIB)  # 70 MiB, the look-ahead, and what is ahead of need
        self.assertTrue(until(lambda: daemon.shared_bytes() < 24 * MIB, 20))
        self.whole(small, 64)

    def test_refused(self):
        """Where the machine has no memory for more, jobs go on with what there is, each sample once, and the log says
        so once. When memory is free again, the arena grows on."""
        daemon = self.start(root=self.machine(8000))
        pixels = [{"resize": {"size": [128, 128]}}, "random_horizontal_flip"]
        loader = self.loader(daemon, tree(COUNT), 64, pixels)
        epoch = iter(loader)
        next(epoch)
        self.machine(32)
        sum(1 for _ in epoch)
        here = daemon.shared_bytes()
        self.assertLess(here, 64 * MIB)  # of 70 MiB that the set has
        for _ in range(3):
            self.whole(loader, COUNT)
        self.assertLessEqual(daemon.shared_bytes(), here)
        self.assertTrue(daemon.logged("the arena cannot grow"))
        self.assertEqual(daemon.log().count("the arena cannot grow"), 1)
        self.machine(8000)

        def grows():
            self.whole(loader, COUNT)
            return daemon.shared_bytes() > here

        self.assertTrue(until(grows, 30))

    def test_stopped_clients(self):
        """A script that is stopped with batches in its hands keeps their memory, and nobody else waits."""
        daemon = self.start(linger=0, root=self.machine(8000))
        script = self.script(daemon, dataset=tree(COUNT), pipeline=PIXELS, batch_size=64, epochs=2,
                             timeout=60 * system.SLOW)
        self.assertTrue(until(lambda: len(script.batches) > 3, 20))
        script.kill(signal.SIGSTOP)
        self.machine(8000, stalled_us=10 ** 9)
        with self.loader(daemon, tree(COUNT), 64, PIXELS) as loader:
            self.whole(loader, COUNT)
        script.kill(signal.SIGCONT)
        self.assertEqual(script.wait(), 0, script.errors)
        self.assertEqual(script.epochs(), [list(range(COUNT))] * 2)
        self.assertTrue(until(lambda: daemon.shared_bytes() == 0, 10))


if __name__ == "__main__":
    main()
