"""Processes that die: a killed script costs the others nothing, a killed daemon is named, and nothing stale stays."""

import os
import resource
import time

import above  # noqa: F401
from system import CONFIG, QUIET, SLOW, Case, larder, main, tree, until

COUNT = 600
PIPELINE = [{"resize": {"size": [64, 64]}}]


def longest_gap(script, begin, end):
    times = [begin] + [when for when, _, _ in script.batches if begin < when < end] + [end]
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def indices_of(loader):
    return [index for batch in loader for index in batch[-1].tolist()]


class Faults(Case):
    def test_a_killed_script(self):
        """kill -9 of one script of three, while it holds batches: the others go on without a pause (asserted on a quiet
        machine) and get all of their samples, and what it held is free within a second."""
        daemon = self.daemon()
        others = [self.script(daemon, dataset=tree(COUNT), pipeline=PIPELINE, batch_size=16, epochs=3, step_s=0.02,
                              name=f"other-{number}") for number in range(2)]
        victim = self.script(daemon, dataset=tree(COUNT), pipeline=PIPELINE, batch_size=16, epochs=99, step_s=0.02,
                             hold=2, name="victim")
        self.assertTrue(until(lambda: all(len(script.batches) > 12 for script in (victim, *others)), 30), victim.errors)
        before = daemon.status()
        self.assertIn("victim", [job["name"] for job in before["jobs"]])
        victim.kill()
        killed = time.monotonic()
        usual = max(longest_gap(script, killed - 1, killed) for script in others)
        after = daemon.status()
        while "victim" in [job["name"] for job in after["jobs"]] and time.monotonic() < killed + 10 * SLOW:
            after = daemon.status()
        # The snapshot's own time: asking for it takes a process, and that takes what the machine has left.
        self.took_at_most(after["daemon"]["time_s"] - killed, 1, [job["name"] for job in after["jobs"]])
        self.assertLess(after["memory"]["arena"]["quota_bytes"], before["memory"]["arena"]["quota_bytes"])
        for script in others:
            self.assertEqual(script.wait(), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(COUNT))] * 3)
            gap_s = longest_gap(script, killed - 0.1, killed + 0.5)
            print(f"longest pause {gap_s:.3f} s, usually {usual:.3f} s", flush=True)
            if QUIET:  # elsewhere anything may have made the pause
                self.assertLess(gap_s, max(0.4 * SLOW, 3 * usual))
        self.assertEqual(daemon.status()["jobs"], [])
        self.assertEqual(daemon.status()["memory"]["arena"]["pinned_bytes"], 0)

    def test_a_stopped_script_does_not_stop_the_others(self):
        """A script that hangs (SIGSTOP) holds its own quota and nobody else's progress."""
        import signal
        daemon = self.daemon()
        options = {"dataset": tree(COUNT), "pipeline": PIPELINE, "batch_size": 16, "epochs": 2, "step_s": 0.01}
        sleeper = self.script(daemon, name="sleeper", **options)
        other = self.script(daemon, name="other", **options)
        self.assertTrue(until(lambda: len(sleeper.batches) > 3, 30), sleeper.errors)
        sleeper.kill(signal.SIGSTOP)
        self.assertEqual(other.wait(), 0, other.errors or other.end)
        self.assertEqual(other.epochs(), [list(range(COUNT))] * 2)
        sleeper.kill(signal.SIGCONT)
        self.assertEqual(sleeper.wait(), 0, sleeper.errors or sleeper.end)
        self.assertEqual(sleeper.epochs(), [list(range(COUNT))] * 2)

    def test_a_killed_daemon(self):
        """kill -9 of the daemon: scripts that do not wait for another end at once with an error that names its socket,
        and the next daemon starts on the same socket and serves."""
        daemon = self.daemon()
        scripts = [self.script(daemon, dataset=tree(COUNT), pipeline=PIPELINE, batch_size=16, epochs=99, step_s=0.01,
                               reconnect=0) for _ in range(2)]
        self.assertTrue(until(lambda: all(script.batches for script in scripts), 30))
        daemon.kill()
        killed = time.monotonic()
        for script in scripts:
            self.assertEqual(script.wait(20), 1)
            self.assertEqual(script.end["error"], "DaemonGone")
            self.assertIn(daemon.socket, script.end["text"])
            self.took_at_most(script.end["time"] - killed, 2)
        self.assertTrue(os.path.exists(daemon.socket))
        self.whole(self.loader(self.daemon(), tree(COUNT)), COUNT)

    def test_no_descriptors(self):
        """A daemon that has no file descriptor left says so and reads on when it has: no sample is bad or lost over it,
        though the job would skip bad ones."""
        daemon = self.daemon(CONFIG + "threads: {workers: 2, loaders: 6}\ndebug: {load_delay: 20}\n")
        pid = daemon.process.pid
        script = self.script(daemon, dataset=tree(COUNT), pipeline=PIPELINE, batch_size=16, epochs=2,
                             bad_samples="skip")
        self.assertTrue(until(lambda: script.batches, 30), script.errors)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.assertTrue(until(lambda: "reads wait until a file descriptor is free" in daemon.log(), 60), daemon.log())
        self.assertIsNone(script.process.poll())
        taken = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 2, hard))  # one or two for eight threads
        self.assertEqual(script.wait(), 0, script.errors or script.end)
        self.assertEqual(script.epochs(), [list(range(COUNT))] * 2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertNotIn("bad sample", daemon.log())

    def test_a_broken_epoch_does_not_count(self):
        """After a daemon was killed in mid-epoch and replaced, iterating again begins that epoch again: the loader
        gives as many whole epochs as it was asked for, in the order of each."""
        daemon = self.daemon()
        alone = self.loader(daemon, tree(COUNT), shuffle="strict", seed=4)
        orders = [indices_of(alone) for _ in range(3)]
        loader = self.loader(daemon, tree(COUNT), shuffle="strict", seed=4, epochs=3, reconnect=0)
        got = [indices_of(loader)]
        iterator = iter(loader)
        next(iterator)
        daemon.kill()
        with self.assertRaises(larder.DaemonGone):
            list(iterator)
        self.assertEqual(loader.epoch, 1)
        self.daemon()
        got += [indices_of(loader) for _ in range(2)]
        self.assertEqual(got, orders)
        with self.assertRaises(larder.EpochsOver):
            iter(loader)

    def test_ranks_find_the_next_daemon(self):
        """Ranks whose daemon was killed go on together with the epoch that they were in, and get all of it."""
        daemon = self.daemon()
        ranks = [self.loader(daemon, tree(COUNT), rank=rank, world_size=2, name="both", reconnect=0)
                 for rank in range(2)]
        for loader in ranks:
            self.assertEqual(len(indices_of(loader)), COUNT // 2)
        iterators = [iter(loader) for loader in ranks]
        for iterator in iterators:
            next(iterator)
        daemon.kill()
        for iterator in iterators:
            with self.assertRaises(larder.DaemonGone):
                list(iterator)
        self.daemon()
        for epoch in (1, 2):
            seen = sum([indices_of(loader) for loader in ranks], [])
            self.assertEqual(sorted(seen), list(range(COUNT)))
            self.assertEqual([loader.epoch for loader in ranks], [epoch + 1] * 2)

    def test_a_loader_finds_the_next_daemon(self):
        """After a daemon was replaced, iterating again works with the same Loader."""
        daemon = self.daemon()
        loader = self.loader(daemon, tree(COUNT), reconnect=0)
        next(iter(loader))
        daemon.kill()
        with self.assertRaises(Exception):
            list(loader)
        self.daemon()
        self.whole(loader, COUNT)

    def test_ctrl_c(self):
        """SIGINT ends a script at once, and its job goes."""
        import signal
        daemon = self.daemon()
        script = self.script(daemon, dataset=tree(COUNT), pipeline=PIPELINE, batch_size=16, epochs=99)
        self.assertTrue(until(lambda: script.batches, 30), script.errors)
        def interrupted():  # Python loses one that comes while a finaliser runs, as it does after each batch
            script.kill(signal.SIGINT)
            return until(lambda: script.process.poll() is not None, 1)
        self.assertTrue(until(interrupted, 10))
        self.assertNotEqual(script.wait(10), 0)
        self.assertIn("KeyboardInterrupt", script.errors)
        self.assertTrue(until(lambda: daemon.status()["jobs"] == [], 2))


if __name__ == "__main__":
    main()
