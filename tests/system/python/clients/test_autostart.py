"""Autostart with the real larderd: eight scripts get one daemon, which stays after them."""

import fcntl
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from unittest import mock

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, SLOW, Case, free_port, larder, main, tree, until

PIPELINE = [{"resize": {"size": [32, 32]}}]


class Autostart(Case):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.folder, "larder", "larder.sock")
        for name, value in (("XDG_RUNTIME_DIR", self.folder), ("XDG_CACHE_HOME", self.folder),
                            ("LARDERD", os.path.join(BIN, "larderd"))):
            before = os.environ.get(name)
            os.environ[name] = value
            self.addCleanup(self.restore, name, before)
        self.addCleanup(self.stop_all)

    @staticmethod
    def restore(name, value):
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value

    def daemons(self):
        """Processes that serve this test's socket."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"/larderd") and self.socket.encode() in words:
                found.append(int(pid))
        return found

    def stop_all(self):
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not self.daemons(), 20))

    def test_eight_scripts_get_one_daemon(self):
        """Eight scripts that start at once, no daemon there: one daemon serves all of them whole epochs, and is there
        for the next script, too."""
        scripts = [self.script(None, dataset=tree(60), pipeline=PIPELINE, batch_size=16, epochs=1) for _ in range(8)]
        for script in scripts:
            self.assertEqual(script.wait(120), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(60))])
        self.assertEqual(len(self.daemons()), 1)
        first = self.daemons()
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            self.assertEqual(len(list(loader)), 4)
        self.assertEqual(self.daemons(), first)

    def test_says_what_it_starts(self):
        """The log of the package says that a daemon was started, where it is, its log and its page; and nothing where
        it is there already."""
        self.with_little_memory()
        port = free_port()
        with open(os.path.join(self.folder, "bin", "larder.yaml"), "w") as config:
            config.write(CONFIG.replace("metrics:\n  enabled: false\n", f"metrics: {{port: {port}}}\n"))
        with self.assertLogs("larder", "INFO") as said:
            loader = larder.Loader(tree(60), PIPELINE, 16, output="numpy")
        self.assertEqual(len(said.output), 1)
        for word in (self.socket, self.socket + ".log", f"http://127.0.0.1:{port}/"):
            self.assertIn(word, said.output[0])
        with self.assertNoLogs_("larder"), larder.Loader(tree(60), PIPELINE, 16, output="numpy"):
            loader.close()

    def assertNoLogs_(self, name):
        """As assertNoLogs, which Python 3.10 brought."""
        return mock.patch.object(logging.getLogger(name), "info", side_effect=AssertionError)

    def test_configuration(self):
        """The daemon has the settings of $LARDER_CONFIG, or of larder/larder.yaml in $XDG_CONFIG_HOME where that is an
        absolute path, or in ~/.config; a limit that is reached names that file."""
        home = os.path.join(self.folder, "home")
        user, other = (os.path.join(home, folder, "larder", "larder.yaml") for folder in (".config", "settings"))
        for path in (user, other):
            os.makedirs(os.path.dirname(path))
        given = os.path.join(self.folder, "given.yaml")
        there = {"HOME": home, "XDG_CONFIG_HOME": os.path.join(home, "settings")}
        for path, environment in ((user, {"HOME": home, "XDG_CONFIG_HOME": "settings"}), (other, there),
                                  (given, {**there, "LARDER_CONFIG": given})):
            with self.subTest(path), mock.patch.dict(os.environ, environment):
                with open(path, "w") as config:
                    config.write(CONFIG + "limits: {jobs: 1}\n")
                with larder.Loader(tree(60), PIPELINE, 16, output="numpy"), \
                        self.assertRaisesRegex(larder.LimitReached, f"raise limits.jobs .limits.jobs: in {path}:"):
                    larder.Loader(tree(60), PIPELINE, 16, output="numpy")
                if path != given:
                    os.unlink(path)
                self.stop_all()
        with mock.patch.dict(os.environ, {"HOME": home, "LARDER_CONFIG": "/no/such.yaml"}), \
                self.assertRaisesRegex(larder.DaemonGone, "/no/such.yaml"):
            larder.Loader(tree(60), PIPELINE, 16, output="numpy")

    def test_eight_at_once_again(self):
        """Some rounds of eight scripts at once where no daemon runs: each time one daemon, and no script fails."""
        self.with_little_memory()
        for _ in range(int(os.environ.get("LARDER_TEST_ROUNDS", "2"))):
            scripts = [self.script(None, dataset=tree(60), pipeline=PIPELINE, batch_size=16, epochs=1)
                       for _ in range(8)]
            for script in scripts:
                self.assertEqual(script.wait(120), 0, script.errors or script.end)
                self.assertEqual(script.epochs(), [list(range(60))])
            self.assertEqual(len(self.daemons()), 1)
            self.stop_all()

    def test_a_log_that_is_a_link(self):
        """A link in the log's place is not followed: what it leads to is not touched, and no daemon starts."""
        precious = os.path.join(self.folder, "precious")
        with open(precious, "wb") as file:
            file.write(bytes(2 << 20))
        os.mkdir(os.path.dirname(self.socket), 0o700)
        os.symlink(precious, self.socket + ".log")
        with self.assertRaisesRegex(larder.IOFailure, "larder.sock.log"):
            larder.Loader(tree(60), PIPELINE, 16, output="numpy")
        self.assertEqual(os.path.getsize(precious), 2 << 20)
        self.assertEqual(self.daemons(), [])

    def test_after_a_killed_daemon(self):
        """A killed daemon's socket does not keep the next Loader from starting another."""
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy", reconnect=0) as loader:
            pid, = self.daemons()
            os.kill(pid, signal.SIGKILL)
            with self.assertRaises(larder.DaemonGone):
                for _ in range(9):
                    list(loader)
        self.assertTrue(until(lambda: not self.daemons(), 10))
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            self.assertEqual(len(list(loader)), 4)

    def with_little_memory(self):
        """Daemons from here on reserve little, which is sooner done."""
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder)
        with open(os.path.join(folder, "larder.yaml"), "w") as config:
            config.write(CONFIG)
        with open(os.path.join(folder, "larderd"), "w") as file:
            file.write(f'#!/bin/sh\nexec {os.environ["LARDERD"]} --config {config.name} "$@"\n')
        os.chmod(file.name, 0o700)
        os.environ["LARDERD"] = file.name

    def script_in(self, words, environment=None, before=None):
        """Runs a script that makes a Loader and ends, as `words` has it started."""
        self.with_little_memory()
        code = f"import larder; larder.Loader({tree(60)!r}, {PIPELINE!r}, 16, output='numpy')"
        subprocess.run([*words, sys.executable, "-B", "-c", code], check=True, preexec_fn=before, timeout=120 * SLOW,
                       env=dict(os.environ, PYTHONPATH=PACKAGE, **(environment or {})))

    def log(self):
        with open(self.socket + ".log") as file:
            return file.read()

    def logged(self, text):
        return until(lambda: text in self.log(), 5)

    def test_not_within_the_scripts_bounds(self):
        """A daemon that a script on one CPU, with low priority and soft limits, has started has all CPUs, the usual
        priority and the hard limits; where it could not have one of these its log says so."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (1000, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count()))
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, here)
        self.script_in(["taskset", "-c", str(min(here)), "nice", "-n", "5"], before=limit)
        pid, = self.daemons()
        self.assertEqual(os.sched_getaffinity(pid), every)
        if os.getpriority(os.PRIO_PROCESS, pid) != 0:
            self.assertTrue(self.logged("keeps the niceness"), self.log())
        else:
            self.assertNotIn("keeps the niceness", self.log())
        soft, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
        self.assertEqual(soft, hard)

    def systemd_run(self, body):
        """A folder for PATH with a systemd-run that records its arguments, and does `body`."""
        folder = os.path.join(self.folder, "programs")
        os.mkdir(folder)
        with open(os.path.join(folder, "systemd-run"), "w") as file:
            file.write(f'#!/bin/sh\nprintf "%s " "$@" >> {self.folder}/asked\necho >> {self.folder}/asked\n{body}\n')
        os.chmod(file.name, 0o700)
        return {"PATH": folder + os.pathsep + os.environ["PATH"]}

    def asked(self):
        with open(os.path.join(self.folder, "asked")) as file:
            return file.read().splitlines()

    def test_a_control_group_of_its_own(self):
        """Where systemd-run works the daemon is started by it, in a scope; and nothing is said of
        the script's group."""
        self.script_in([], self.systemd_run('while [ "$1" != -- ]; do shift; done; shift; exec "$@"'))
        self.assertEqual(len(self.daemons()), 1)
        tried, started = self.asked()
        for words in tried, started:
            self.assertIn("--scope --collect", words)
            self.assertEqual("--user" in words.split(), os.geteuid() != 0)
        self.assertRegex(started, r"/larderd --user-config \S+ --idle-exit 60 --socket " + self.socket)
        self.assertNotIn("control group", self.log())

    def test_no_control_group_to_be_had(self):
        """Where systemd-run fails the daemon is started all the same, and its log says in whose
        group it is, and why."""
        self.script_in([], self.systemd_run('echo "Failed to connect to \\"bus\\"" >&2; exit 1'))
        self.assertEqual(len(self.daemons()), 1)
        self.assertEqual(len(self.asked()), 1)
        self.assertTrue(self.logged("shares the control group"), self.log())
        self.assertIn(r'systemd="systemd-run: Failed to connect to \"bus\""', self.log())

    def test_while_a_daemon_leaves(self):
        """A script that comes when an idle daemon has closed its socket and still holds its lock waits for its end, and
        gets a daemon of its own."""
        self.with_little_memory()
        os.mkdir(os.path.dirname(self.socket))
        leaving = open(self.socket + ".lock", "w")
        self.addCleanup(leaving.close)
        leaving.write(f"{os.getpid()}\n")
        leaving.flush()
        fcntl.flock(leaving, fcntl.LOCK_EX)

        def leave():
            until(lambda: os.path.exists(self.socket + ".log") and "waiting for a daemon that leaves" in self.log(), 30)
            os.unlink(leaving.name)
            leaving.close()
        thread = threading.Thread(target=leave)
        thread.start()
        self.addCleanup(thread.join)
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            self.assertEqual(len(list(loader)), 4)

    def test_again_and_again(self):
        """Scripts that come just as the daemon of the one before leaves, because it was idle, get another."""
        self.with_little_memory()
        with mock.patch.object(larder._autostart, "IDLE_EXIT_S", 1):
            for _ in range(3):
                with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
                    self.assertEqual(len(list(loader)), 4)
                while os.path.exists(self.socket):
                    pass


if __name__ == "__main__":
    main()
