"""`larder explain` with real daemons in made situations: it names what a job waits for, and what would help."""

import json
import os
import re
import signal
import subprocess
import sys

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, PIPELINE, SLOW, Case, main, tree, until

FEW_THREADS = CONFIG + "threads: {workers: 1, loaders: 1}\n"
DEAR = [{"random_resized_crop": {"size": 600}},
        *({"random_rotation": {"degrees": 30, "interpolation": "bicubic"}} for _ in range(3))]
QUOTA_US, PERIOD_US = 10000, 100000
# Trains, and when its input says so leaves a process that holds its connection, as a library written in C may.
LEAVES = """
import ctypes, os, sys, larder
loader = larder.Loader(sys.argv[1], json_pipeline, 10, output="numpy", name="left")
batches = iter(loader)
next(batches)
print("has begun", flush=True)
os.read(0, 1)
if ctypes.CDLL(None).fork() == 0:
    os.read(0, 1)
os._exit(0)
""".replace("json_pipeline", repr(PIPELINE))
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def make_cgroup(name):
    """A control group with a tenth of a core, of version 1 or 2; None where this user may make none."""
    for parent, limits in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": QUOTA_US}),
                           ("/sys/fs/cgroup", {"cpu.max": f"{QUOTA_US} {PERIOD_US}"})):
        folder = os.path.join(parent, name)
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            for limit, value in limits.items():
                if not os.path.exists(os.path.join(folder, limit)):
                    raise FileNotFoundError(limit)
                write(os.path.join(folder, limit), str(value))
            return folder
        except OSError:
            os.rmdir(folder)
    return None


class Explain(Case):
    def train(self, server, **options):
        """A script that has begun."""
        options = {"pipeline": PIPELINE, "batch_size": 10, "epochs": 100000, **options}
        script = self.script(server, **options)
        self.assertTrue(until(lambda: len(script.batches) > 3 or script.end, 60), script.errors)
        return script

    def run_it(self, server, *words):
        return subprocess.run([os.path.join(BIN, "larder"), "explain", *words, "--socket", server.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW)

    def told(self, server, name, cause):
        """What explain says of the job, once it names the cause; the longer it looks, the surer it is. Where other
        programs have the cores, as they may have on a busy machine, it says that of a job that waits for cores."""
        told, seen = {}, []

        def names_it():
            result = self.run_it(server, name, "--json", "--interval", "2")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            told.update(json.loads(result.stdout))
            seen.append((told["cause"], round(told["waits"], 2)))
            return told["cause"] == cause or cause == "cores" and told["cause"] == "crowd"

        self.assertTrue(until(names_it, 60), (seen, told))
        print(json.dumps(told, ensure_ascii=False), flush=True)
        if told["cause"] != cause:
            self.assertRegex(told["figure"], r"^larderd got [\d.]+ of the \d+ cores, [\d.]+ were idle, and ")
            self.skipTest("other programs have the cores")
        return told

    def test_no_such_job(self):
        """A job that is not there is an error, and what is said of one that is there is one line."""
        server = self.daemon(CONFIG)
        wrong = self.run_it(server, "none")
        self.assertEqual((wrong.returncode, wrong.stdout), (1, ""))
        self.assertIn('no job "none"', wrong.stderr)
        self.train(server, dataset=tree(120), name="slow", step_s=0.1)
        shown = self.run_it(server, "slow", "--interval", "0.5").stdout
        self.assertEqual(len(shown.splitlines()), 1)
        self.assertIn("What would help most: ", shown)

    def test_all_jobs(self):
        """Without a name each job is explained in a line; where there is none, that is said."""
        server = self.daemon(CONFIG)
        self.assertEqual(self.run_it(server).stdout, "no jobs\n")
        for name in ("a", "b"):
            self.train(server, dataset=tree(120), name=name, step_s=0.1)
        told = self.run_it(server, "--interval", "0.5").stdout.splitlines()
        self.assertEqual([re.search(r"\b[ab]\b", line)[0] for line in told], ["a", "b"])

    def test_slow_trainer(self):
        """A job that trains for longer than its batches take is as fast as its step."""
        server = self.daemon(CONFIG)
        self.train(server, dataset=tree(120), name="slow", step_s=0.1)
        self.assertRegex(self.told(server, "slow", "training")["figure"],
                         r"its script takes [1-9]\d{2,} ms from one batch of 10 ")

    def jobs(self, server):
        return subprocess.run([os.path.join(BIN, "larder"), "jobs", "--socket", server.socket],
                              stdout=subprocess.PIPE, text=True, timeout=60 * SLOW).stdout

    def test_stopped_script(self):
        """A script that is stopped is said to be, with its process; it trains again when it goes on."""
        server = self.daemon(CONFIG)
        script = self.train(server, dataset=tree(120), name="stopped", step_s=0.05)
        script.kill(signal.SIGSTOP)
        told = self.told(server, "stopped", "script")
        self.assertIn(f"is stopped (process {script.process.pid}, ", told["why"])
        self.assertEqual(told["change"], f"let it go on: kill -CONT {script.process.pid}")
        self.assertIn("it has held a batch for ", told["figure"])
        self.assertRegex(self.jobs(server), r"(?m)^stopped .* script ")
        script.kill(signal.SIGCONT)
        self.told(server, "stopped", "training")

    def test_busy_script(self):
        """A script that has left off training, and whose process runs, is told from one that trains."""
        server = self.daemon(CONFIG)
        self.train(server, dataset=tree(120), name="busy", pause=[4, os.path.join(self.folder, "never")])
        told = self.told(server, "busy", "script")
        self.assertIn("asks for nothing: it is busy with something else, or hangs", told["why"])
        self.assertIn("look what process ", told["change"])

    def test_script_that_is_gone(self):
        """A script whose process is gone, and has left another that holds its connection, is said to be gone."""
        server = self.daemon(CONFIG)
        script = subprocess.Popen([sys.executable, "-B", "-c", LEAVES, tree(120)], text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=PACKAGE,
                                                                   LARDER_SOCKET=server.socket))
        self.addCleanup(script.stdout.close)
        self.addCleanup(script.wait)
        self.addCleanup(script.stdin.close)  # what it left ends
        self.assertEqual(script.stdout.readline(), "has begun\n")
        script.stdin.write("x")
        script.stdin.flush()
        script.wait(60 * SLOW)
        told = self.told(server, "left", "script")
        self.assertIn(f"is gone (process {script.pid}), and a process that it left keeps its connection", told["why"])
        self.assertIn("larder cancel left", told["change"])

    def test_slow_source(self):
        """Where each read takes 60 ms longer, files are what the job waits for; memory for all of them would help."""
        server = self.daemon(FEW_THREADS.replace("encoded: 64MiB", "encoded: 1MiB") + "debug: {load_delay: 60}\n")
        self.train(server, dataset=tree(2000), batch_size=32, name="reads", shuffle="strict")
        told = self.told(server, "reads", "source")
        self.assertIn("raise memory.encoded from 1.0 MiB to ", told["change"])
        self.assertRegex(told["figure"], r"a sample takes [\d.]+ ms to load")

    def test_few_cores(self):
        """Where one thread decodes and augments with much work, that is what the job waits for."""
        server = self.daemon(FEW_THREADS)
        self.train(server, dataset=tree(200), pipeline=DEAR, name="works", augment="private")
        told = self.told(server, "works", "cores")
        cores = len(os.sched_getaffinity(0))
        self.assertIn(f"raise threads.workers from 1 to {cores}," if cores > 1 else "cores", told["change"])
        self.assertRegex(told["figure"], r"a sample takes [\d.]+ ms of a thread, 1 thread prepares")

    def test_neighbour(self):
        """A job that waits for the threads that another one has is told which, and what its own weight must be to have
        more of them: a command that does it."""
        server = self.daemon(CONFIG + "threads: {workers: 2, loaders: 1}\n")
        self.train(server, dataset=tree(200), pipeline=DEAR[:2], name="heavy", augment="private")
        self.train(server, dataset=tree(200), pipeline=DEAR[:1], name="light", augment="private")
        found, changes = None, []

        def named():  # a look in which no sample of heavy's was through knows of none
            nonlocal found
            changes.append(self.told(server, "light", "cores")["change"])
            found = re.search(r"; heavy \(\d+(?:\.\d)? ms a sample\) has \d+ % of the threads' time: "
                              "`larder (weight light 3)` gives this one more", changes[-1])
            return found

        self.assertTrue(until(named, 60), changes)
        done = subprocess.run([os.path.join(BIN, "larder"), *found[1].split(), "--socket", server.socket],
                              stdout=subprocess.PIPE, text=True, timeout=60 * SLOW)
        self.assertEqual(done.stdout, "light has weight 3\n")

    def test_no_more_workers(self):
        """Where there are as many workers as cores, more of them are not advised, however many the governor lets
        prepare at the moment."""
        cores = len(os.sched_getaffinity(0))
        server = self.daemon(CONFIG + f"threads: {{workers: {cores}, loaders: 1}}\n")
        self.train(server, dataset=tree(200), pipeline=DEAR, name="works", augment="private")
        self.assertNotIn("threads.workers", self.told(server, "works", "cores")["change"])

    def test_small_arena(self):
        """Where a script takes eight batches at once and then trains, and the arena has room for three, threads are
        idle while it trains, and it waits for the others: for want of memory. It trains three times as long as it
        waits, so threads are idle for half of the time however fast they are."""
        server = self.daemon(FEW_THREADS.replace("128MiB", "16MiB") + "jobs: {quota: 100%}\n")
        self.train(server, dataset=tree(200), name="large", pipeline=DEAR, batch_size=4, prefetch=8, burst=8,
                   rest=3, augment="private")
        told = self.told(server, "large", "memory")
        self.assertIn("raise memory.arena from 16.0 MiB to ", told["change"])

    def test_missing_rank(self):
        """Where a rank has not come, it is named."""
        server = self.daemon(CONFIG)
        self.train(server, dataset=tree(120), name="two", rank=0, world_size=2, epochs=3)
        told = self.told(server, "two", "rank")
        self.assertIn("not there: 1", told["why"])
        self.assertEqual((told["change"][:12], told["figure"]), ("start rank 1", "1 of 2 ranks are missing"))
        self.assertGreater(told["waits"], 0.9)  # the one that is there does nothing else

    def test_rank_that_died(self):
        """Where a rank has died in the middle of an epoch, it is named, though the other holds its batch and asks for
        nothing, as in an all-reduce that does not end."""
        server = self.daemon(CONFIG)
        hangs, dies = (self.script(server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=3, name="two",
                                   rank=rank, world_size=2, pause=[2, os.path.join(self.folder, "never")])
                       for rank in range(2))
        self.assertTrue(until(lambda: len(hangs.batches) == len(dies.batches) == 2, 60), (hangs.errors, dies.errors))
        dies.kill()
        told = self.told(server, "two", "rank")
        self.assertIn("not there: 1", told["why"])

    def test_throttled_cgroup(self):
        """Where the daemon's control group lets it have a tenth of a core, the quota is what the job waits for."""
        cgroup = make_cgroup(f"larder-test-{os.getpid()}")
        if not cgroup:
            self.skipTest("no control group can be made here")
        self.addCleanup(until, lambda: self.remove(cgroup), 10)
        server = self.daemon(CONFIG, before=("sh", "-c", ENTER, cgroup))
        self.train(server, dataset=tree(200), pipeline=DEAR, name="held", augment="private")
        told = self.told(server, "held", "quota")
        cores = len(os.sched_getaffinity(0))
        self.assertTrue(told["change"].startswith(f"raise the cgroup's CPU quota from 0.1 to {cores} cores"), told)
        self.assertRegex(told["figure"], r"the quota was used up in \d+ % of its periods")

    @staticmethod
    def remove(cgroup):
        """Whether the group is gone: it cannot go before its last process has."""
        try:
            os.rmdir(cgroup)
        except OSError:
            return False
        return True


if __name__ == "__main__":
    main()
