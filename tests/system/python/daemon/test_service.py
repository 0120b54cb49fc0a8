"""What the daemon and a service manager tell each other, by plain protocols: readiness, the watchdog, a socket at which
the manager listens; and what systemd says of the units."""

import os
import shutil
import signal
import socket
import subprocess
import threading

import above  # noqa: F401
from system import BIN, CONFIG, SLOW, SOURCE, Case, larder, main, tree, until

NOBODY = 65534
SECURITY_MOST = 30  # of systemd-analyze, in tenths
PIPELINE = [{"resize": {"size": [32, 32]}}]


class Manager:
    """As much of a service manager as a unit needs: a socket that it listens at, and one that it is told things at."""

    def __init__(self, folder, kind=socket.SOCK_SEQPACKET, mode=0o600):
        self.folder = folder
        self.path = os.path.join(folder, "larder.sock")
        self.listener = socket.socket(socket.AF_UNIX, kind)
        self.listener.bind(self.path)
        os.chmod(self.path, mode)
        self.listener.listen(64)
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(os.path.join(folder, "notify"))
        self.told.settimeout(60 * SLOW)
        with open(os.path.join(folder, "larder.yaml"), "w") as file:
            file.write(CONFIG)
        self.process = None

    def start(self, **environment):
        # LISTEN_PID must be the daemon's own, so a shell sets it and becomes the daemon.
        script = 'exec 3<&"$1"; LISTEN_PID=$$ exec "$2" --config "$3"'
        words = ["/bin/bash", "-c", script, "bash", str(self.listener.fileno()), os.path.join(BIN, "larderd"),
                 os.path.join(self.folder, "larder.yaml")]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(self.listener.fileno(),),
                env=dict(os.environ, LISTEN_FDS="1", NOTIFY_SOCKET=os.path.join(self.folder, "notify"), **environment))

    def await_line(self, line):
        """Waits until the daemon tells this line."""
        while line not in self.told.recv(4096).decode().split("\n"):
            pass

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60 * SLOW)
        return self.process.returncode if self.process else None

    def close(self):
        self.stop()
        self.listener.close()
        self.told.close()


class Protocol(Case):
    def manager(self, **options):
        manager = Manager(self.folder, **options)
        self.addCleanup(manager.close)
        return manager

    def whole_at(self, path):
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy", socket=path) as loader:
            return sum(len(labels) for _, labels in loader)

    def test_tells(self):
        """The manager hears that the daemon is ready, then again and again that it works, and that it stops."""
        manager = self.manager()
        manager.start(WATCHDOG_USEC="100000")
        manager.await_line("READY=1")
        for _ in range(3):
            manager.await_line("WATCHDOG=1")
        manager.process.send_signal(signal.SIGTERM)
        manager.await_line("STOPPING=1")
        self.assertEqual(manager.stop(), 0, manager.log())

    def test_the_managers_socket(self):
        """A script that connects before the daemon is there is served; the socket outlives the daemon, and the next
        daemon serves it, too."""
        manager = self.manager()
        before = os.stat(manager.path).st_ino
        for _ in range(2):
            got = []
            thread = threading.Thread(target=lambda: got.append(self.whole_at(manager.path)))
            thread.start()
            manager.start()
            thread.join()
            self.assertEqual(got, [60], manager.log())
            self.assertEqual(manager.stop(), 0, manager.log())
            self.assertEqual(os.stat(manager.path).st_ino, before)
        self.assertIn("stopped", manager.log())

    def test_members_of_the_group(self):
        """The mode of the manager's socket says who may be a client: here everybody, another user included."""
        if os.geteuid() != 0:
            self.skipTest("not root: cannot become another user")
        os.chmod(self.folder, 0o755)
        manager = self.manager(mode=0o666)
        manager.start()
        manager.await_line("READY=1")
        folder = tree(60)
        self.assertEqual(self.whole_at(manager.path), 60)  # imports all that it takes: nobody may not read this Python
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                with larder.Loader(folder, PIPELINE, 16, output="numpy", socket=manager.path) as loader:
                    status = 0 if sum(len(batch[-1]) for batch in loader) == 60 else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, manager.log())

    def test_another_socket(self):
        """A socket of another type is refused, with what the unit needs."""
        manager = self.manager(kind=socket.SOCK_STREAM)
        manager.start()
        self.assertEqual(manager.process.wait(60 * SLOW), 2, manager.log())
        self.assertIn("ListenSequentialPacket=", manager.log())

    def test_no_manager_there(self):
        """Without anybody at $NOTIFY_SOCKET the daemon serves all the same."""
        manager = self.manager()
        manager.told.close()
        manager.start(WATCHDOG_USEC="100000")
        self.assertEqual(self.whole_at(manager.path), 60)
        self.assertTrue(until(lambda: manager.process.poll() is None, 1))


class Units(Case):
    def setUp(self):
        super().setUp()
        self.analyze = shutil.which("systemd-analyze")
        if not self.analyze:
            self.skipTest("no systemd-analyze")
        for name in ("larderd.service", "larderd.socket", "larderd-user.service"):
            with open(os.path.join(SOURCE, "configs", name)) as file, \
                    open(os.path.join(self.folder, name), "w") as out:
                out.write(file.read().replace("/usr/bin/larderd", os.path.join(BIN, "larderd")))

    def run_analyze(self, *words):
        return subprocess.run([self.analyze, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60 * SLOW)

    def test_verify(self):
        """systemd finds no fault with the units."""
        for name in os.listdir(self.folder):
            result = self.run_analyze("verify", "--man=no", os.path.join(self.folder, name))
            self.assertNotIn("larderd", result.stdout)

    def test_security(self):
        """By systemd's own measure the node's daemon is shut in."""
        result = self.run_analyze("security", "--offline=yes", "--no-pager", f"--threshold={SECURITY_MOST}",
                                  os.path.join(self.folder, "larderd.service"))
        if "offline" in result.stdout and "nrecognized" in result.stdout:
            self.skipTest("this systemd-analyze cannot look at files")
        self.assertEqual(result.returncode, 0, result.stdout)


if __name__ == "__main__":
    main()
