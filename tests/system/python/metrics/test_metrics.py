"""What the metrics say against what is known: a source that is slow, a pipeline that is dear, a rank that is late."""

import collections
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request

import above  # noqa: F401
from system import BIN, HERE, PIPELINE, SLOW, Case, free_port, main, tree, until

sys.path.insert(0, os.path.join(HERE, "..", "store"))
from stores import pack  # noqa: E402

# Long against what a busy machine takes to tell a client of its batch.
LONG_MS, STEP_S, STEPS = 250, 0.1, 10
SHORT = "3MiB"
LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
CAUSES = ("load", "prepare", "room", "rank")
WAITER = os.path.join(BIN, "larder_waiter")
DEAR = [{"random_resized_crop": {"size": 600}}, {"random_rotation": {"degrees": 30, "interpolation": "bicubic"}}]


class Metrics(Case):
    def start(self, more="", arena="64MiB"):
        self.port = free_port()
        return self.daemon(f"memory: {{arena: {arena}, encoded: 32MiB}}\ncatalog: {{checkpoint: none}}\n"
                           f"metrics: {{port: {self.port}}}\n{more}")

    def look(self):
        """(name, labels as a sorted tuple): value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20 * SLOW) as answer:
            text = answer.read().decode()
        found = {}
        for name, labels, value in filter(None, (LINE.match(line) and LINE.match(line).groups()
                                                 for line in text.splitlines() if not line.startswith("#"))):
            found[name, tuple(sorted(LABEL.findall(labels or "")))] = float(value)
        return found

    def fresh(self):
        """The metrics, of a moment after the call: they are up to a second old."""
        began = self.look()["larder_process_cpu_seconds_total", ()]
        until(lambda: self.look()["larder_process_cpu_seconds_total", ()] != began, 5)
        return self.look()

    def of(self, found, name, **labels):
        return found[name, tuple(sorted((key, str(value)) for key, value in labels.items()))]

    def stall(self, found, job, rank=0):
        return {cause: self.of(found, "larder_job_stall_seconds_total", job=job, rank=rank, cause=cause)
                for cause in CAUSES}

    def adds_up(self, name, waited, found, cause, part):
        """The causes add up to what the job's client measured, within 5 % (and a millisecond a batch, for what lies
        between its clock and the daemon's); `part` of it or more has the cause."""
        stall = self.stall(found, name)
        batches = self.of(found, "larder_job_batches_delivered_total", job=name, rank=0)
        print(f"waited {waited:.3f} s, stall {stall}, {batches:.0f} batches", flush=True)
        self.assertLess(abs(sum(stall.values()) - waited), 0.05 * waited + 0.001 * SLOW * batches)
        self.assertGreater(stall[cause], part * sum(stall.values()))
        self.assertAlmostEqual(self.of(found, "larder_job_batch_wait_seconds_sum", job=name),
                               sum(stall.values()), delta=0.05 * waited + 0.001 * batches)
        self.assertEqual(self.of(found, "larder_job_batch_wait_seconds_count", job=name), batches)

    def test_slow_source(self):
        """With reads that take much longer the client waits for loading. Every read is in the histogram, in a bucket
        above 50 ms; so is every preparation, and every interval between batches."""
        server = self.start(f"threads: {{workers: 1, loaders: 1}}\ndebug: {{load_delay: {LONG_MS}}}\n")
        store = pack(tree(1200), os.path.join(self.folder, "store"), "--chunk-size", 16)
        loader = self.loader(server, store, batch_size=32)
        for number, _ in enumerate(loader):
            if number == 8:
                break
        found = self.fresh()
        self.adds_up(loader.name, loader.stats()["wait_s"], found, "load", 0.7)
        reads = self.of(found, "larder_reads_total")
        self.assertEqual(self.of(found, "larder_load_seconds_count"), reads)
        self.assertEqual(self.of(found, "larder_load_seconds_bucket", le="0.05"), 0)
        self.assertGreaterEqual(self.of(found, "larder_load_seconds_sum"), LONG_MS / 1000 * reads)
        self.assertEqual(self.of(found, "larder_prepare_seconds_bucket", le="+Inf"),
                         self.of(found, "larder_samples_decoded_total"))
        self.assertEqual(self.of(found, "larder_job_batch_interval_seconds_count", job=loader.name),
                         self.of(found, "larder_job_batches_delivered_total", job=loader.name, rank=0) - 1)
        self.assertGreater(self.of(found, "larder_governor_load_rate"), 0)
        self.assertTrue(until(lambda: loader.stats()["stall"], 10))
        told = loader.stats()["stall"]
        self.assertEqual(tuple(told), CAUSES)
        self.assertGreater(told["load"], 0.7 * sum(told.values()))
        self.assertAlmostEqual(sum(told.values()), sum(self.stall(found, loader.name).values()), delta=0.01)

    def slow(self, arena):
        """A daemon whose reads take LONG_MS longer, with an arena of a size, and a store: a batch is two reads."""
        server = self.start(f"threads: {{workers: 1, loaders: 1}}\ndebug: {{load_delay: {LONG_MS}}}\n", arena=arena)
        return server, pack(tree(1200), os.path.join(self.folder, "store"), "--chunk-size", 16)

    def test_batches_that_are_kept(self):
        """A script that keeps zero-copy batches in a short arena, so that it may ask for fewer than its look-ahead,
        waits as long as the daemon says."""
        server, store = self.slow(SHORT)
        for keep in (1, 2):
            loader = self.loader(server, store, batch_size=32, zero_copy=True, prefetch=2, name=f"keeps {keep}")
            kept = collections.deque(maxlen=keep)
            for number, batch in enumerate(loader):
                kept.append(batch)
                time.sleep(STEP_S)
                if number == STEPS - 1:
                    break
            self.adds_up(loader.name, loader.stats()["wait_s"], self.fresh(), "load", 0.2)
            kept.clear()
            del batch
            loader.close()

    def test_programs_in_c(self):
        """The same of C programs, which ask ahead: one that copies its batches and those that keep them."""
        server, store = self.slow(SHORT)
        for keep in (0, 1, 2):
            name = f"keeps {keep}"
            with subprocess.Popen([WAITER, server.socket, store, name, str(STEPS), str(keep), str(int(1000 * STEP_S))],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
                waited, batches = program.stdout.readline().split()
                self.assertEqual(int(batches), STEPS)
                self.adds_up(name, float(waited), self.fresh(), "load", 0.2)
                program.stdin.close()
                self.assertEqual(program.wait(), 0)

    def test_dear_pipeline(self):
        """With one thread and a pipeline that is dear, the client waits for preparing; once all encoded samples are in
        memory nothing is read, and the load rate is not known."""
        server = self.start("threads: {workers: 1, loaders: 1}\n", "256MiB")
        loader = self.loader(server, tree(80), pipeline=DEAR, batch_size=10, augment="private")
        for _ in range(2):
            for _ in loader:
                pass
        found = self.fresh()
        self.adds_up(loader.name, loader.stats()["wait_s"], found, "prepare", 0.8)
        self.assertEqual(self.of(found, "larder_samples_loaded_total"), 80)
        rate = "larder_governor_load_rate", ()
        self.assertTrue(until(lambda: self.trained(loader) and rate not in self.look(), 30))

    @staticmethod
    def trained(loader):
        return [None for _ in loader]

    def test_slow_trainer(self):
        """A client that trains for longer than its batches take waits for hardly any of them."""
        server = self.start()
        loader = self.loader(server, tree(120), batch_size=10)
        for _ in loader:
            time.sleep(0.05)
        found = self.fresh()
        waited, stall = loader.stats()["wait_s"], self.stall(found, loader.name)
        print(f"waited {waited:.3f} s, stall {stall}", flush=True)
        self.assertLess(abs(sum(stall.values()) - waited), 0.05 * waited + 0.001 * SLOW * 12)

    def test_late_rank(self):
        """A rank that is through with its epoch waits for the other one: because of a rank."""
        server = self.start()
        go = os.path.join(self.folder, "go")
        slow = self.script(server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=2, name="two", rank=1,
                           world_size=2, pause=[3, go])
        loader = self.loader(server, tree(120), batch_size=10, name="two", rank=0, world_size=2, epochs=2)
        self.whole_epoch(loader)
        self.assertTrue(until(lambda: len(slow.batches) >= 3, 60))
        first = threading.Thread(target=next, args=(iter(loader),))
        first.start()

        def waits():
            return self.stall(self.look(), "two")["rank"] > 1.0

        self.assertTrue(until(waits, 60), self.stall(self.look(), "two"))
        open(go, "w").close()
        self.assertEqual(slow.wait(), 0)
        first.join()

    def whole_epoch(self, loader):
        self.assertEqual(len([None for _ in loader]), 6)

    def test_sharing(self):
        """Of two jobs in step, the instances prepared for one and for the other are all that were prepared, and the
        factor is what was delivered for each of these. When a job ends, all that has its name goes."""
        server = self.start(arena="256MiB")
        first, second = (self.loader(server, tree(200), batch_size=10, name=name, epochs=1) for name in ("a", "b"))
        for _ in zip(first, second):
            pass
        found = self.fresh()
        prepared = {job: self.of(found, "larder_job_samples_prepared_total", job=job) for job in "ab"}
        self.assertEqual(sum(prepared.values()), self.of(found, "larder_samples_prepared_total"))
        for job in "ab":
            if prepared[job]:
                self.assertAlmostEqual(self.of(found, "larder_job_sharing_factor", job=job), 200 / prepared[job])
        for level in ("prepared", "encoded"):
            self.assertGreaterEqual(self.of(found, "larder_redirected_picks_total", level=level), 0)
        first.close()
        self.assertTrue(until(lambda: not [key for key in self.look() if ("job", "a") in key[1]], 30))
        self.assertTrue([key for key in self.look() if ("job", "b") in key[1]])

    def test_leases_and_descriptors(self):
        """Batches that are held are counted, and their age grows; open descriptors are those of /proc."""
        server = self.start()
        loader = self.loader(server, tree(120), batch_size=10, zero_copy=True, name="holds", prefetch=2)
        batches = iter(loader)
        held = [next(batches)]
        self.assertTrue(until(lambda: self.of(self.look(), "larder_job_leases", job="holds", rank=0) == 2, 5))
        found = self.fresh()
        self.assertEqual(self.of(found, "larder_job_leases", job="holds", rank=0), 2)
        before = self.of(found, "larder_job_oldest_lease_seconds", job="holds", rank=0)
        after = self.of(self.fresh(), "larder_job_oldest_lease_seconds", job="holds", rank=0)
        self.assertGreater(after, before)
        there = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        self.assertLess(abs(self.of(found, "larder_process_open_fds") - there), 6)
        status = server.status()
        self.assertEqual(status["jobs"][0]["queues"][0]["leased_batches"], 2)
        self.assertGreaterEqual(status["jobs"][0]["queues"][0]["oldest_lease_s"], after)
        self.assertEqual(self.of(found, "larder_process_max_fds"), status["daemon"]["max_fds"])
        held[0].release()

    def test_promtool(self):
        """Prometheus' own checker has nothing to say about a daemon with eight jobs."""
        try:
            subprocess.run(["promtool", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        except OSError:
            self.skipTest("promtool (Debian's package prometheus) is not installed")
        server = self.start(arena="256MiB")
        loaders = [self.loader(server, tree(120), batch_size=10, name=f"job {number}") for number in range(8)]
        for _ in zip(*loaders):
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20 * SLOW) as answer:
            said = subprocess.run(["promtool", "check", "metrics"], input=answer.read(), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        self.assertEqual((said.returncode, said.stdout), (0, b""))

    def test_nothing_yet(self):
        """A daemon that has done nothing says of nothing that it does not know that it is 0."""
        self.start()
        found = self.look()
        unknown = [name for name, _ in found if name.startswith("larder_governor_") and name.endswith("_rate")]
        self.assertEqual(unknown, [])
        self.assertTrue(os.access(os.path.join(BIN, "larder"), os.X_OK))


if __name__ == "__main__":
    main()
