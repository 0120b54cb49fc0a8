"""Poisonous files: one that kills the daemon inside a decoder costs one sample, and no other sample is lost over it.
With --long by every signal, beside each other, and with daemons that somebody kills."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import above  # noqa: F401
from system import BIN, CONFIG, LONG, SLOW, Case, Daemon, files_of, larder, main, make_tree, only_long, skip, until

SHIM = os.environ.get("LARDER_POISON_SHIM")
if not SHIM:
    skip("LARDER_POISON_SHIM names no shim: a sanitizer's own library must be loaded first, so its builds have none")

COUNT = 60
PIPELINE = [{"resize": {"size": [32, 32]}}]
THREADS = "threads: {workers: 3, loaders: 2}\n"
CRASHES = {"SEGV": signal.SIGSEGV, "ABRT": signal.SIGABRT, "BUS": signal.SIGBUS, "FPE": signal.SIGFPE,
           "ILL": signal.SIGILL, "TRAP": signal.SIGTRAP, "STACK": signal.SIGSEGV}


def poison(path, how):
    """The file stays an image; where the shim is loaded the daemon dies of it."""
    with open(path, "ab") as file:
        file.write(f"LARDER-POISON:{how}....".encode())


class Supervisor:
    """Starts the daemon again whenever it dies, as a service manager does; `deaths` has the signals, 0 for none."""

    def __init__(self, folder, config):
        self.folder, self.config = folder, config
        self.deaths, self.daemon = [], None
        self.up, self.leaving, self.failure = threading.Event(), False, None
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.wait()

    def wait(self):
        """Until a daemon is up."""
        up = self.up.wait(60 * SLOW)
        assert up and not self.failure, self.failure

    def _run(self):
        early = 0
        while not self.leaving:
            daemon = Daemon(self.folder, self.config, environment={"LD_PRELOAD": SHIM}, expect_ready=False)
            early = 0 if daemon.ready else early + 1  # a client may be its death before it has said that it is ready
            if early == 10:
                self.failure = daemon.log()
                self.up.set()
                return
            self.daemon = daemon
            self.up.set()
            daemon.process.wait()
            with self.lock:
                self.up.clear()
                if not self.leaving:
                    self.deaths.append(max(-daemon.process.returncode, 0))

    def kill(self):
        """kill -9, once the daemon is up."""
        self.wait()
        self.daemon.process.kill()

    def stop(self):
        with self.lock:
            self.leaving = True
        if self.thread.is_alive() and self.up.wait(60 * SLOW):
            self.daemon.process.terminate()
        self.thread.join(60 * SLOW)
        if self.daemon:
            self.daemon.stop()


class Poison(Case):
    def setUp(self):
        super().setUp()
        self.begin("first")

    def begin(self, name):
        """A folder with a tree, for a daemon that knows nothing yet; gives the tree."""
        self.at = os.path.join(self.folder, name)
        os.mkdir(self.at)
        self.tree = make_tree(os.path.join(self.at, "tree"), COUNT)
        self.files = files_of(self.tree)
        self.socket = os.path.join(self.at, "s")
        return self.tree

    def supervise(self, config=CONFIG + THREADS):
        supervisor = Supervisor(self.at, config)
        self.addCleanup(supervisor.stop)
        return supervisor

    def epoch(self, supervisor, dataset=None, **options):
        """The indices of one epoch, whoever dies meanwhile: either the Loader goes on by itself, or its script begins
        the epoch again. No index comes twice."""
        options = {"pipeline": PIPELINE, "batch_size": 8, **options}
        while True:
            supervisor.wait()
            try:
                with self.loader(supervisor.daemon, dataset or self.tree, **options) as loader:
                    return [index for batch in loader for index in batch[-1].tolist()]
            except larder.DaemonGone:
                self.assertTrue(until(lambda: supervisor.daemon.process.poll() is not None, 30))
                until(lambda: not supervisor.up.is_set(), 0.1)

    def larder(self, *arguments, status=0):
        result = subprocess.run([os.path.join(BIN, "larder"), *arguments, "--socket", self.socket],
                                capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def rows(self):
        """What `larder poison list` knows. A daemon that is just starting has its socket before it answers there."""
        def listed():
            result = subprocess.run([os.path.join(BIN, "larder"), "poison", "list", "--json", "--socket", self.socket],
                                    capture_output=True, text=True, timeout=60 * SLOW)
            if result.returncode == 0:
                rows.extend(json.loads(result.stdout))
            else:
                self.assertIn("does not answer", result.stderr)
            return result.returncode == 0
        rows = []
        self.assertTrue(until(listed, 30))
        return {row["file"]: row for row in rows}

    def poisonous(self):
        return sorted(file for file, row in self.rows().items() if row["verdict"] == "poisonous")

    def all_but(self, *bad):
        return [index for index in range(COUNT) if index not in bad]

    def test_each_signal(self):
        """By whatever fault of a thread the daemon dies: the second death over a file is the last, all else is
        delivered, and log, counters and `larder poison list` have its name."""
        for how, number in CRASHES.items() if LONG else (("SEGV", signal.SIGSEGV),):
            with self.subTest(how=how):
                path = files_of(self.begin(how))[17]
                poison(path, how)
                supervisor = self.supervise()
                self.assertEqual(sorted(self.epoch(supervisor)), self.all_but(17))
                self.assertEqual(supervisor.deaths, [number] * 2)
                name = signal.Signals(number).name
                daemon = supervisor.daemon
                self.assertTrue(daemon.logged(f'a sample is poisonous: it is left out from now on (larder poison)" '
                                              f'file="{path}" deaths=2'), daemon.log())
                self.assertIn(f'died while it prepared a sample" file="{path}" signal={name} times=1', daemon.log())
                self.assertTrue(daemon.logged(f'bad sample" file="{path}" reason=poisonous'), daemon.log())
                self.assertGreaterEqual(daemon.status()["samples"]["bad"]["poisonous"], 1)
                row = self.rows()[path]
                self.assertEqual((row["verdict"], row["crashes"], row["signal"]), ("poisonous", 2, name))
                self.assertEqual(sorted(self.epoch(supervisor)), self.all_but(17))
                self.assertEqual(len(supervisor.deaths), 2)
                supervisor.stop()

    def test_looked_at_for_its_size(self):
        """A file that the daemon dies of when it looks at the size of the images, for a pipeline that makes none, is
        found as one that it prepares: the job comes, and goes without it."""
        poison(self.files[0], "SEGV")
        supervisor = self.supervise()
        self.assertEqual(sorted(self.epoch(supervisor, pipeline=["random_horizontal_flip"])), self.all_but(0))
        self.assertEqual(supervisor.deaths, [signal.SIGSEGV] * 2)
        self.assertEqual(self.poisonous(), [self.files[0]])

    def test_killed_over_a_file(self):
        """A file over which the daemon is killed, as by the system when memory runs out, or ends without any signal:
        the first death makes a suspect of it, and three more while it is prepared alone make it poisonous."""
        for how, number in (("KILL", signal.SIGKILL), ("EXIT", 0))[:2 if LONG else 1]:
            with self.subTest(how=how):
                path = files_of(self.begin(how))[41]
                poison(path, how)
                supervisor = self.supervise()
                self.assertEqual(sorted(self.epoch(supervisor)), self.all_but(41))
                self.assertEqual(supervisor.deaths, [number] * 4)
                self.assertEqual(self.poisonous(), [path])
                self.assertEqual((self.rows()[path]["crashes"], self.rows()[path]["deaths"]), (0, 3))
                supervisor.stop()

    @only_long
    def test_several(self):
        """Of several poisonous files of both kinds each is found, in any order of the epoch, and all else is
        delivered."""
        bad = {5: "SEGV", 6: "KILL", 7: "ABRT", 30: "KILL", 59: "ILL"}
        for shuffle in ("none", "dependent"):
            with self.subTest(shuffle=shuffle):
                self.begin(shuffle)
                for index, how in bad.items():
                    poison(self.files[index], how)
                supervisor = self.supervise()
                self.assertEqual(sorted(self.epoch(supervisor, shuffle=shuffle)), self.all_but(*bad))
                self.assertEqual(self.poisonous(), [self.files[index] for index in sorted(bad)])
                # One death may be of two files, and one over a file that is not noted yet breaks the others' rows.
                self.assertIn(len(supervisor.deaths), range(8, 20), supervisor.deaths)
                supervisor.stop()

    @only_long
    def test_random_kills(self):
        """A daemon that somebody kills at random moments under three jobs, mostly while it prepares samples, loses none
        of them: no file is poisonous however often it was under work, and suspects are cleared when they are
        prepared."""
        seed = int(os.environ.get("LARDER_SEED", "1"))
        print(f"LARDER_SEED={seed}", flush=True)
        chance = random.Random(seed)
        for path in self.files:
            poison(path, "SLOW")
        supervisor = self.supervise()
        over, got = threading.Event(), {}

        def take(number):
            while not over.is_set():
                got[number] = self.epoch(supervisor, shuffle=("strict", "none", "dependent")[number], name=f"j{number}",
                                         pipeline=[*PIPELINE, "random_horizontal_flip"])

        jobs = [threading.Thread(target=take, args=(number,)) for number in range(3)]
        for job in jobs:
            job.start()
        at_work = 0
        while at_work < 8 and len(supervisor.deaths) < 200:
            time.sleep(chance.random() * 0.6)
            supervisor.kill()
            self.assertTrue(until(lambda: not supervisor.up.is_set(), 30))
            supervisor.wait()
            at_work = supervisor.daemon.log().count("killed at work")
        over.set()
        for job in jobs:
            job.join()
        self.assertEqual([sorted(got[number]) for number in range(3)], [list(range(COUNT))] * 3)
        self.assertEqual(set(supervisor.deaths), {signal.SIGKILL})
        self.assertEqual(sorted(self.epoch(supervisor)), list(range(COUNT)))
        self.assertNotIn("poisonous", supervisor.daemon.log())
        print(f"{len(supervisor.deaths)} kills, {at_work} of them at work", flush=True)
        self.assertGreaterEqual(at_work, 8)
        self.assertEqual(self.rows(), {})

    def test_list_and_clear(self):
        """`larder poison` says the same with a daemon and without one. What is cleared is tried again; a file that was
        replaced is another one and needs no clearing."""
        self.assertEqual(self.larder("poison", "list"), "no samples are noted\n")
        poison(self.files[3], "SEGV")
        poison(self.files[4], "ABRT")
        bad = self.files[3:5]
        supervisor = self.supervise()
        self.epoch(supervisor)
        online = self.larder("poison", "list")
        self.assertRegex(online, rf"(?m)^poisonous +\d +\d  SIGSEGV  {bad[0]}$")
        self.assertRegex(online, rf"(?m)^poisonous +\d +\d  SIGABRT  {bad[1]}$")
        self.assertIn("no sample is noted as", self.larder("poison", "clear", self.files[9], status=1))
        self.assertEqual(self.larder("poison", "clear", bad[0]), f"cleared {bad[0]}\n")
        self.assertEqual(self.poisonous(), bad[1:])
        before = len(supervisor.deaths)
        self.epoch(supervisor)
        self.assertEqual(supervisor.deaths[before:], [signal.SIGSEGV] * 2)
        self.assertEqual(self.poisonous(), bad)
        supervisor.stop()
        rows = self.rows()
        self.assertEqual(self.larder("poison", "list").splitlines()[0].split()[0], "VERDICT")
        self.assertIn("no sample is noted as", self.larder("poison", "clear", self.files[9], status=1))
        self.larder("poison", "clear", rows[bad[1]]["id"])
        self.assertEqual(self.poisonous(), bad[:1])
        os.truncate(bad[0], os.path.getsize(bad[0]) - len("LARDER-POISON:SEGV...."))
        os.truncate(bad[1], os.path.getsize(bad[1]) - len("LARDER-POISON:ABRT...."))
        supervisor = self.supervise()
        self.assertEqual(sorted(self.epoch(supervisor)), list(range(COUNT)))
        self.assertEqual((supervisor.deaths, self.poisonous()), ([], bad[:1]))
        self.larder("poison", "clear")
        supervisor.stop()
        self.assertFalse([name for name in os.listdir(self.at) if "poison" in name])

    def test_without_an_answer(self):
        """While a daemon has the socket but no control socket, its file is left alone."""
        supervisor = self.supervise(CONFIG + "control: {enabled: false}\n")
        for command in (("list",), ("clear",)):
            self.assertIn("does not answer on its control socket", self.larder("poison", *command, status=1))
        supervisor.stop()

    def test_policies(self):
        """A poisonous sample is a bad one like any other: `error` fails the job with its name, `replace` gives another
        in its place, and a job that wants the bytes as they are gets them."""
        poison(self.files[20], "SEGV")
        supervisor = self.supervise()
        with self.assertRaises(larder.LarderError) as caught:
            self.epoch(supervisor, bad_samples="error")
        self.assertIn(self.files[20], str(caught.exception))
        self.assertIn("poisonous", str(caught.exception))
        self.assertEqual(len(supervisor.deaths), 2)
        replaced = self.epoch(supervisor, bad_samples="replace")
        self.assertEqual((len(replaced), set(replaced)), (COUNT, set(self.all_but(20))))
        self.assertEqual(sorted(self.epoch(supervisor, pipeline=[])), list(range(COUNT)))
        self.assertEqual(len(supervisor.deaths), 2)

    def test_store(self):
        """The same in a chunk store, where the sample is known by its content."""
        poison(self.files[11], "BUS")
        store = os.path.join(self.at, "tree.store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store, "--quiet"], check=True)
        supervisor = self.supervise()
        self.assertEqual(sorted(self.epoch(supervisor, store)), self.all_but(11))
        self.assertEqual(supervisor.deaths, [signal.SIGBUS] * 2)
        self.assertEqual(len(self.poisonous()), 1)

    @only_long
    def test_damaged_file(self):
        """Whatever lies where the notes should be, the daemon starts, says so, and serves; it follows no link."""
        notes, beside = self.socket + ".poison", os.path.join(self.at, "beside")
        poison(self.files[2], "SEGV")
        supervisor = self.supervise()
        self.epoch(supervisor)
        supervisor.stop()
        with open(notes, "rb") as file:
            good = file.read()
        chance = random.Random(1)
        noise = bytes(chance.randrange(256) for _ in range(len(good)))
        newer = good[:8] + b"\2" + good[9:]
        for damaged in (b"", good[:-1], good[:64], good + b"x", newer, noise, good[:64] + noise[64:]):
            with open(notes, "wb") as file:
                file.write(damaged)
            daemon = self.plain()
            self.assertEqual(sorted(self.epoch_of(daemon)), list(range(COUNT)))
            daemon.stop()
        self.assertIn("what earlier daemons noted of samples that they died of is not known", daemon.log())
        with open(beside, "wb") as file:
            file.write(good)
        os.symlink(beside, notes)
        daemon = self.plain()
        self.assertEqual(sorted(self.epoch_of(daemon)), list(range(COUNT)))
        daemon.stop()
        with open(beside, "rb") as file:
            self.assertEqual(file.read(), good)
        os.makedirs(os.path.join(notes, "folder"))
        daemon = self.plain()
        self.assertEqual(sorted(self.epoch_of(daemon)), list(range(COUNT)))
        self.assertTrue(daemon.logged("a sample that kills the daemon will not be found"), daemon.log())
        self.assertIn("its log says why", self.larder("poison", "list", status=1))

    def plain(self):
        daemon = Daemon(self.at)
        self.addCleanup(daemon.stop)
        return daemon

    def epoch_of(self, daemon):
        with self.loader(daemon, self.tree, 8, PIPELINE) as loader:
            return [index for batch in loader for index in batch[-1].tolist()]


if __name__ == "__main__":
    main()
