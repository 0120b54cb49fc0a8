"""Weights of jobs, and draining, with the real daemon and the `larder` command."""

import os
import pickle
import socket
import subprocess
import threading
import time

import above  # noqa: F401
from system import BIN, SLOW, Case, larder, main, tree, until

from larder import _wire

COUNT = 240
PIPELINE = [{"resize": {"size": [64, 64]}}, "random_horizontal_flip"]  # without chance, memory would keep all
CONFIG = """\
# Weights share the time of workers: samples of both jobs cost the same, and none is prepared from a decoded form.
memory: {arena: 128MiB, encoded: 256MiB, decoded: never}
threads: {workers: 1, loaders: 1}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""


def images():
    return tree(COUNT, width=800, height=600, pictures=20)


class Weights(Case):
    def command(self, daemon, *words):
        return subprocess.run([os.path.join(BIN, "larder"), *words, "--socket", daemon.socket], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30 * SLOW)

    def train(self, daemon, name, subset, weight):
        """A job that takes batches as fast as it gets them, until the test ends."""
        loader = self.loader(daemon, images(), batch_size=8, pipeline=PIPELINE, prefetch=4,
                             subset=subset, name=name, weight=weight)

        def run():
            try:
                while not self.over.is_set():
                    for _ in loader:
                        if self.over.is_set():
                            return
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
                self.failed.append(f"{name}: {error}")
        thread = threading.Thread(target=run)
        thread.start()
        self.threads.append(thread)

    def setUp(self):
        super().setUp()
        self.over, self.threads, self.failed = threading.Event(), [], []
        self.addCleanup(lambda: [thread.join() for thread in self.threads])
        self.addCleanup(self.over.set)

    def delivered(self, daemon):
        self.assertEqual(self.failed, [])
        return {name: job["delivered"] for name, job in daemon.jobs().items()}

    def ratio(self, daemon, samples):
        """What b got for each sample of a, while both together got so many."""
        before = self.delivered(daemon)
        self.assertTrue(until(lambda: sum(self.delivered(daemon).values()) >= sum(before.values()) + samples, 120))
        after = self.delivered(daemon)
        return (after["b"] - before["b"]) / max(1, after["a"] - before["a"])

    def test_proportion(self):
        """Two jobs on disjoint samples share one worker by their weights, 1 to 3; when the command line gives the
        lighter one nine, repeated or not, it is 9 to 3 from then on. A weight out of bounds or of nobody changes
        nothing."""
        daemon = self.daemon(CONFIG)
        self.train(daemon, "a", larder.Range(0, COUNT // 2), 1)
        self.train(daemon, "b", larder.Range(COUNT // 2, COUNT), 3)
        self.ratio(daemon, 100)  # both are at it
        before = self.ratio(daemon, 320)
        self.assertEqual(self.command(daemon, "weight", "a", "0").returncode, 2)
        for words in (("weight", "nobody", "9"), ("cancel", "nobody"), ("explain", "nobody")):
            self.assertIn('there is no job "nobody": `larder jobs` lists them, and `larder history` those that have '
                          'ended', self.command(daemon, *words).stderr)
        self.assertEqual({name: job["weight"] for name, job in daemon.jobs().items()}, {"a": 1, "b": 3})
        for _ in range(2):
            result = self.command(daemon, "weight", "a", "9")
            self.assertEqual((result.returncode, result.stdout), (0, "a has weight 9\n"))
        self.assertEqual(daemon.jobs()["a"]["weight"], 9)
        self.assertIn("weights: a 9, b 3\n", self.command(daemon, "status").stdout)
        self.ratio(daemon, 100)  # what was planned before
        after = self.ratio(daemon, 320)
        print(f"b for each of a: {before:.2f} at 1:3, {after:.2f} at 9:3")
        self.assertTrue(1.5 < before < 6, before)
        self.assertTrue(1 / 6 < after < 1 / 1.5, after)

    def test_foreign_weight(self):
        """A weight that is no number, or out of bounds, costs its sender the connection, with a text that says why."""
        daemon = self.daemon(CONFIG)
        job = _wire.Register(batch_size=8, prefetch=2, world_size=1, rank=0, epochs=0, shuffle=0, bad_policy=0, flags=0,
                             seed=0, weight=1.0, local_world_size=0, local_first=0, sampler=0,
                            copies=0, draws=0, deal=0, mix=0, name=b"",
                            dataset=images().encode(), pipeline=b"[]", subset=b"", sets=b"",
                             weights=b"")
        for weight in (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 0.0099, 100.1):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(30 * SLOW)
                sock.connect(daemon.socket)
                sock.send(_wire.hello(1, os.getpid(), b"test"))
                self.assertEqual(_wire.decode(sock.recv(1 << 18))[0], _wire.WELCOME)
                sock.send(_wire.register(2, job._replace(weight=weight)))
                kind, _, error = _wire.decode(sock.recv(1 << 18))
                self.assertEqual((kind, error.fatal), (_wire.ERROR, True))
                self.assertIn("not 0.01 to 100", error.text)
                self.assertEqual(sock.recv(1 << 18), b"")
        self.assertEqual(daemon.jobs(), {})

    def test_ranks_agree(self):
        """A rank that gives another weight than the job's first rank is refused, by the name of what differs."""
        daemon = self.daemon(CONFIG)
        options = {"name": "ranks", "world_size": 2, "pipeline": PIPELINE}
        dataset = images()
        self.loader(daemon, dataset, rank=0, weight=2, **options)
        with self.assertRaisesRegex(larder.InvalidArgument, "another weight"):
            self.loader(daemon, dataset, rank=1, weight=3, **options)
        self.loader(daemon, dataset, rank=1, weight=2, **options)
        self.assertEqual(daemon.jobs()["ranks"]["weight"], 2)

    def test_weight_lasts(self):
        """The weight that the command line gave a job is that of its Loader's copies, also when it was
        cancelled. A rank that comes back to its job finds the job's."""
        daemon = self.daemon(CONFIG)
        dataset = images()
        loader = self.loader(daemon, dataset, pipeline=PIPELINE, name="one", weight=2)
        ranks = [self.loader(daemon, dataset, pipeline=PIPELINE, name="ranks", weight=2, rank=rank, world_size=2)
                 for rank in range(2)]
        for name in ("one", "ranks"):
            self.assertEqual(self.command(daemon, "weight", name, "7").returncode, 0)
        for one in (loader, *ranks):
            next(iter(one))
            self.assertEqual(one.weight, 7)
        copy = pickle.loads(pickle.dumps(loader))
        self.assertEqual(self.command(daemon, "cancel", "one").returncode, 0)
        with self.assertRaisesRegex(larder.JobCancelled, "cancelled"):
            list(loader)
        loader.close()
        self.assertTrue(until(lambda: "one" not in daemon.jobs(), 30))
        self.whole(copy, COUNT)
        self.assertEqual(daemon.jobs()["one"]["weight"], 7)
        again = pickle.loads(pickle.dumps(ranks[1]))
        ranks[1].close()
        self.assertTrue(until(lambda: not daemon.jobs()["ranks"]["queues"][1]["attached"], 30))
        next(iter(again))
        self.assertEqual((again.weight, daemon.jobs()["ranks"]["weight"]), (7, 7))
        copy.close()
        again.close()

    def test_job_that_ends(self):
        """A weight given at the moment at which a job ends, because a rank has not come in time, is given to nobody,
        and costs the daemon nothing."""
        daemon = self.daemon(CONFIG + "limits: {rank_timeout: 3}\n")
        dataset = images()
        for _ in range(2):
            loader = self.loader(daemon, dataset, rank=0, world_size=2, name="ranks", pipeline=PIPELINE)
            time.sleep(0.1)  # between two of the governor's decisions, which would see the job's end first
            self.assertEqual(self.command(daemon, "weight", "ranks", "2").returncode, 0)
            loader.close()
            results = []
            self.assertTrue(until(lambda: results.append(self.command(daemon, "weight", "ranks", "2")) or
                                  results[-1].returncode, 30))
            self.assertIn('there is no job "ranks"', results[-1].stderr)

    def test_drain(self):
        """A drained daemon takes no new job, gives the one it has all of its epoch, and stops when that has gone."""
        daemon = self.daemon(CONFIG)
        dataset = images()
        loader = self.loader(daemon, dataset, pipeline=PIPELINE)
        iterator = iter(loader)
        seen = next(iterator)[-1].tolist()
        for _ in range(2):
            self.assertEqual(self.command(daemon, "drain").returncode, 0)
        self.assertEqual(daemon.status()["daemon"]["state"], "draining")
        with self.assertRaisesRegex(larder.LarderError, "takes no new jobs"):
            self.loader(daemon, dataset, pipeline=PIPELINE)
        for batch in iterator:
            seen += batch[-1].tolist()
        self.assertEqual(sorted(seen), list(range(COUNT)))
        loader.close()
        self.assertEqual(daemon.process.wait(30 * SLOW), 0)

    def test_cancelled_job_of_missing_ranks(self):
        """A job that is cancelled while one of its ranks has yet to come ends with the others, and does not hold up a
        drained daemon."""
        daemon = self.daemon(CONFIG)
        dataset = images()
        loader = self.loader(daemon, dataset, rank=0, world_size=2, name="ranks", pipeline=PIPELINE)
        self.assertEqual(self.command(daemon, "cancel", "ranks").returncode, 0)
        loader.close()
        self.assertTrue(until(lambda: not daemon.jobs(), 5))
        self.assertEqual(self.command(daemon, "drain").returncode, 0)
        self.assertEqual(daemon.process.wait(30 * SLOW), 0)

    def test_drain_of_an_idle_daemon(self):
        """With no job there, whoever drains the daemon gets the answer before it stops."""
        daemon = self.daemon(CONFIG)
        result = self.command(daemon, "drain")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(daemon.process.wait(30 * SLOW), 0)


if __name__ == "__main__":
    main()
