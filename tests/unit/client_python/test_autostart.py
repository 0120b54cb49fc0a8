"""Autostart: scripts that find no daemon start one, once, and say why when it does not come up. larderd is played by a
script that takes the same options and keeps a record of its starts."""

import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from unittest import mock

from support import HERE, PACKAGE, Case, larder, main, until

DAEMON = textwrap.dedent("""\
    #!{python}
    import os, sys, time
    sys.path.insert(0, {here!r})
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    with open({folder!r} + "/starts", "a") as starts:
        starts.write(f"{{os.getpid()}} {{os.getppid()}} {{os.getsid(0)}} {{sys.argv[1:]}}\\n")
    if os.path.exists({folder!r} + "/fail"):
        print("level=error msg='the arena is larger than memory'", file=sys.stderr, flush=True)
        sys.exit(2)
    if os.path.exists({folder!r} + "/dots"):
        number, pause_s = open({folder!r} + "/dots").read().split()
        for _ in range(int(number)):
            os.write(int(options["--ready-fd"]), b".")
            time.sleep(float(pause_s))
    import fake_daemon
    time.sleep(0.3)  # as a daemon that has much to prepare: the others must wait for it
    if os.path.exists(options["--socket"]):
        os.unlink(options["--socket"])
    daemon = fake_daemon.FakeDaemon(options["--socket"])
    os.write(int(options["--ready-fd"]), b"1")
    os.close(int(options["--ready-fd"]))
    while not os.path.exists({folder!r} + "/stop"):
        time.sleep(0.02)
    daemon.kill()
    """)

SCRIPT = textwrap.dedent("""\
    import sys
    sys.path.insert(0, {package!r})
    import larder
    for _ in larder.Loader("/data", ["resize"], 6, output="numpy", timeout=240):
        pass
    print("done")
    """)


class Autostart(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.environ.pop, "XDG_RUNTIME_DIR", None)
        self.addCleanup(os.environ.pop, "LARDERD", None)
        os.environ["XDG_RUNTIME_DIR"] = self.folder
        player = DAEMON.format(python=sys.executable, here=HERE, folder=self.folder)
        os.environ["LARDERD"] = self.write("larderd", player)
        os.chmod(os.environ["LARDERD"], 0o700)
        self.socket = os.path.join(self.folder, "larder", "larder.sock")
        self.addCleanup(self.stop)

    def stop(self):
        self.write("stop", "")
        for start in self.starts():
            until(lambda: not os.path.exists(f"/proc/{start[0]}"))

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(content)
        return path

    def starts(self):
        try:
            with open(os.path.join(self.folder, "starts")) as file:
                return [line.split(" ", 3) for line in file]
        except FileNotFoundError:
            return []

    def test_eight_scripts_start_one_daemon(self):
        """Eight scripts at once all get their data, from one daemon in a session of its own that is nobody's child."""
        script = self.write("script.py", SCRIPT.format(package=PACKAGE))
        scripts = [subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) for _ in range(8)]
        for process in scripts:
            self.assertEqual((process.communicate(timeout=300)[0], process.returncode), (b"done\n", 0))
        self.assertEqual(len(self.starts()), 1)
        pid, _, session, options = self.starts()[0]
        self.assertNotEqual(int(session), os.getsid(0))
        self.assertIn("'--idle-exit', '60', '--socket', '" + self.socket, options)
        self.assertTrue(os.path.exists(f"/proc/{pid}"))

    def test_a_stale_socket_does_not_hinder(self):
        """A socket file that a killed daemon left leads to a new daemon."""
        os.mkdir(os.path.dirname(self.socket))
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        dead.bind(self.socket)
        dead.close()
        self.assertEqual(len(list(self.loader(socket=None))), 4)

    def test_a_daemon_that_fails_says_why(self):
        """Its last words are in the error, at once, and no later loader waits for the lock."""
        self.write("fail", "")
        for _ in range(2):
            with self.assertRaisesRegex(larder.DaemonGone, "the arena is larger than memory"):
                self.loader(socket=None)

    def test_a_daemon_that_takes_long(self):
        """A daemon that takes longer than the limit to start, and tells of its progress within it, is waited for."""
        self.write("dots", "40 0.2")
        with mock.patch.object(larder._autostart, "STALLED_S", 6):
            self.assertEqual(len(list(self.loader(socket=None))), 4)

    def test_a_daemon_without_progress(self):
        """One that tells of no more progress is given up after the limit, and the text says where its log is."""
        self.write("dots", "1 600")
        with mock.patch.object(larder._autostart, "STALLED_S", 0.5):
            with self.assertRaisesRegex(larder.DaemonGone, "no progress for 0.5 s; see .*larder.sock.log"):
                self.loader(socket=None)
        self.assertTrue(until(self.starts))
        os.kill(int(self.starts()[0][0]), signal.SIGKILL)

    def test_scripts_wait_for_one_that_starts_it(self):
        """A script whose connection is not greeted, because the daemon has not reserved its memory, waits as long as
        another script waits for that daemon to start."""
        os.mkdir(os.path.dirname(self.socket))
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        silent.bind(self.socket)
        silent.listen(16)
        self.addCleanup(silent.close)
        with self.assertRaises(larder.Timeout):  # where nobody starts one
            self.loader(socket=None, timeout=0.2)
        silent.accept()[0].close()
        starter = open(self.socket + ".autostart", "wb")
        fcntl.flock(starter, fcntl.LOCK_EX)
        made = []
        script = threading.Thread(target=lambda: made.append(self.loader(socket=None, timeout=4)))
        script.start()
        asked = [silent.accept()[0]]  # and is not greeted
        asked[0].recv(4096)
        self.assertTrue(until(lambda: not asked[0].recv(1)))  # it has given up waiting for the greeting
        os.unlink(self.socket)
        self.daemon(path=self.socket)
        starter.close()
        script.join(60)
        self.assertEqual(len(list(made[0])), 4)
        asked[0].close()

    def test_a_daemon_that_leaves(self):
        """A daemon that goes between the greeting and the registration, as one that has been idle may, is replaced by
        another."""
        os.mkdir(os.path.dirname(self.socket))
        leaving = self.daemon(path=self.socket)
        leaving.register_error = (-9, b"the daemon is stopping")
        greeted = larder._session.Session._greet

        def greet(session, timeout_s):
            greeted(session, timeout_s)
            if leaving.register_error:
                leaving.register_error = None
                leaving.kill()
        with mock.patch.object(larder._session.Session, "_greet", greet):
            self.assertEqual(len(list(self.loader(socket=None))), 4)
        self.assertEqual(len(self.starts()), 1)

    def test_no_daemon_to_be_found(self):
        """Without a larderd the error says what to set; with a lock that cannot be had, too."""
        os.environ["LARDERD"] = "no-such-larderd"
        with self.assertRaisesRegex(larder.DaemonGone, "set LARDERD"):
            self.loader(socket=None)
        os.environ["LARDERD"] = os.path.join(self.folder, "nowhere")
        with self.assertRaisesRegex(larder.DaemonGone, "nowhere"):
            self.loader(socket=None)
        os.rename(self.socket + ".autostart", self.socket + ".kept")
        os.mkdir(self.socket + ".autostart")
        with self.assertRaisesRegex(larder.NotPermitted, "Set XDG_RUNTIME_DIR"):
            self.loader(socket=None)

    def lose(self):
        """The daemon that was started goes, and no other one comes up."""
        self.write("fail", "")
        self.write("stop", "")
        for start in self.starts():
            self.assertTrue(until(lambda: not os.path.exists(f"/proc/{start[0]}")))
        os.unlink(os.path.join(self.folder, "stop"))

    def test_a_loss_starts_few(self):
        """A daemon that does not come up again is started twice at once, and then later and later. It is said at once
        why it does not, and again when it is given up. After that a new epoch tries anew."""
        told = self.told()
        with mock.patch.object(larder._autostart, "PAUSE_FIRST_S", 3600), \
                mock.patch.object(larder._autostart, "PAUSE_MOST_S", 3600):
            loader = self.loader(socket=None, reconnect=2)
            iterator = iter(loader)
            next(iterator)
            self.lose()
            with self.assertRaisesRegex(larder.DaemonGone, "within 2 s: .*the arena is larger than memory"):
                next(iterator)
            self.assertEqual(len(self.starts()), 3)
            self.assertEqual(len(told), 2)
            self.assertRegex(told[1], "the arena is larger than memory.* Trying again, for up to 2 s")
            os.unlink(os.path.join(self.folder, "fail"))
            self.assertEqual(len(list(loader)), 4)
            self.assertEqual(len(self.starts()), 4)
        loader.close()

    def test_a_rank_elsewhere_starts_few(self):
        """Nor is one started again and again for a rank whose script does something else, however long that takes.
        When its pause is over there is another start."""
        self.told()
        with mock.patch.object(larder._autostart, "PAUSE_FIRST_S", 3600), \
                mock.patch.object(larder._autostart, "PAUSE_MOST_S", 3600), \
                mock.patch.object(larder._watch, "_LATER_S", 0.01):
            loader = self.loader(socket=None, reconnect=0.1, rank=0, world_size=2, name="train")
            iterator = iter(loader)
            tries, job = [], loader._job
            before = job.go_on
            with mock.patch.object(job, "go_on", lambda: tries.append(0) or before()):
                self.lose()
                self.assertTrue(until(lambda: len(tries) >= 20))
                self.assertLessEqual(len(self.starts()), 1 + 2)
                os.unlink(os.path.join(self.folder, "fail"))
                job.link._starts._next_s = 0.0
                self.assertTrue(until(lambda: job.is_running))
            self.assertLessEqual(len(self.starts()), 1 + 3)
        del iterator
        loader.close()

    def test_pauses(self):
        """They double, up to the longest."""
        now, pauses = 0.0, []
        with mock.patch.object(larder._autostart.time, "monotonic", lambda: now):
            pace = larder._autostart.Pace()
            for _ in range(40):
                pace.check()
                pace.note("it is gone")
                pauses.append(max(0, pace._next_s - now))
                now = max(now, pace._next_s)
        self.assertEqual(pauses[:9], [0, 1, 2, 4, 8, 16, 32, 60, 60])
        self.assertEqual(set(pauses[9:]), {60})

    def told(self):
        """What goes to the log from now on."""
        lines, handler, log = [], logging.Handler(), logging.getLogger("larder")
        handler.emit = lambda record: lines.append(record.getMessage())
        log.addHandler(handler)
        self.addCleanup(log.removeHandler, handler)
        self.addCleanup(setattr, log, "propagate", log.propagate)
        log.propagate = False
        return lines


if __name__ == "__main__":
    main()
