"""What others on the machine can do to a daemon and its clients: take the socket's place, stand in for the daemon, and
hold connections. Also what the service manager says."""

import configparser
import contextlib
import os
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

import above  # noqa: F401
from system import BIN, CONFIG, SLOW, SOURCE, Case, Daemon, free_port, larder, main, tree, until

NOBODY = 65534


class Place(Case):
    def folder_of(self, name):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder, 0o700)
        return folder

    def daemon_in(self, folder):
        daemon = Daemon(folder)
        self.addCleanup(daemon.stop)
        return daemon

    def test_a_successor_keeps_its_files(self):
        """A daemon whose folder was moved away serves those it has and stops after the last, and takes nothing from the
        one that started in its place."""
        run, moved = self.folder_of("run"), os.path.join(self.folder, "moved")
        first = self.daemon_in(run)
        loader = self.loader(first, tree(60), batch_size=4, epochs=1)
        iterator = iter(loader)
        seen = next(iterator)[-1].tolist()
        os.rename(run, moved)
        first.log_path = os.path.join(moved, "log")
        os.mkdir(run, 0o700)
        second = self.daemon_in(run)
        self.assertTrue(until(lambda: "the socket was removed, moved or replaced" in first.log(), 10), first.log())
        seen += [index for batch in iterator for index in batch[-1].tolist()]
        self.assertEqual(sorted(seen), list(range(60)))
        loader.close()
        self.assertTrue(until(lambda: first.process.poll() is not None, 20), first.log())
        self.assertEqual(first.process.returncode, 0, first.log())
        for name in ("s", "s.lock", "s.control"):
            self.assertTrue(os.path.exists(os.path.join(run, name)), name)
        self.whole(self.loader(second, tree(60)), 60)
        self.assertEqual(second.status()["v"], 1)

    def test_a_stop_leaves_the_successors_files(self):
        """SIGTERM to a daemon whose files were removed, and whose place another has taken: that one stays reachable."""
        run = self.folder_of("run")
        first = self.daemon_in(run)
        os.kill(first.process.pid, signal.SIGSTOP)  # so that it does not notice before it is told to stop
        moved = os.path.join(self.folder, "moved")
        os.rename(run, moved)
        first.log_path = os.path.join(moved, "log")
        os.mkdir(run, 0o700)
        second = self.daemon_in(run)
        first.process.terminate()
        os.kill(first.process.pid, signal.SIGCONT)
        self.assertEqual(first.process.wait(20 * SLOW), 0, first.log())
        for name in ("s", "s.lock", "s.control"):
            self.assertTrue(os.path.exists(os.path.join(run, name)), name)
        self.whole(self.loader(second, tree(60)), 60)
        self.assertEqual(second.status()["v"], 1)

    def test_a_lost_socket_drains(self):
        """A daemon whose socket file was removed, and that serves nobody, says so and ends in order."""
        daemon = self.daemon()
        os.unlink(daemon.socket)
        self.assertTrue(until(lambda: daemon.process.poll() is not None, 20), daemon.log())
        self.assertEqual(daemon.process.returncode, 0, daemon.log())
        self.assertIn("the socket was removed, moved or replaced", daemon.log())
        self.assertFalse(os.path.exists(daemon.socket + ".lock"))

    def test_a_lost_place_is_given_up(self):
        """A daemon whose socket file alone was removed makes room for another at once, while it serves those it has."""
        config = CONFIG.replace("enabled: false", f"enabled: true\n  port: {free_port()}")
        first = self.daemon(config)
        loader = self.loader(first, tree(60), batch_size=4, epochs=1)
        iterator = iter(loader)
        seen = next(iterator)[-1].tolist()
        os.unlink(first.socket)
        self.assertTrue(until(lambda: "the socket was removed, moved or replaced" in first.log(), 10), first.log())
        self.assertTrue(until(lambda: "taking no new jobs" in first.log(), 10), first.log())
        second = self.daemon(config)
        seen += [index for batch in iterator for index in batch[-1].tolist()]
        self.assertEqual(sorted(seen), list(range(60)))
        loader.close()
        self.assertTrue(until(lambda: first.process.poll() is not None, 20), first.log())
        self.whole(self.loader(second, tree(60)), 60)
        self.assertEqual(second.status()["v"], 1)

    def test_a_folder_that_is_anybodys(self):
        """A socket's folder that others may write to is refused with its name; with the sticky bit it is not."""
        open_to_all = self.folder_of("open")
        os.chmod(open_to_all, 0o777)
        daemon = Daemon(open_to_all, expect_ready=False)
        self.assertEqual(daemon.process.wait(20 * SLOW), 1, daemon.log())
        self.assertIn(f"others may write to the folder {open_to_all}", daemon.log())
        os.chmod(open_to_all, 0o1777)
        self.daemon_in(open_to_all)


class Strangers(Case):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("not root: cannot become another user")
        os.chmod(self.folder, 0o777)

    def stranger(self, path, kind, greeting):
        """A process of another user's that listens at path, and greets."""
        ready, ready_far = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                with socket.socket(socket.AF_UNIX, kind) as listener:
                    listener.bind(path)
                    listener.listen()
                    os.write(ready_far, b"\n")
                    connection, _ = listener.accept()
                    connection.sendall(greeting)
                    time.sleep(600)
            finally:
                os._exit(1)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        os.close(ready_far)
        self.assertEqual(os.read(ready, 1), b"\n")
        os.close(ready)

    def test_a_foreign_daemon(self):
        """A client says nothing to a process of another user's that stands in for the daemon."""
        path = os.path.join(self.folder, "s")
        self.stranger(path, socket.SOCK_SEQPACKET, b"come in")
        with self.assertRaisesRegex(larder.NotPermitted, f"is user {NOBODY}'s.*LARDER_SOCKET"):
            larder.Loader(tree(60), [], 4, socket=path, timeout=2)

    def test_a_foreign_control(self):
        """Nor does the command line tool."""
        path = os.path.join(self.folder, "s")
        self.stranger(path + ".control", socket.SOCK_STREAM, b"\0SP\0\0\x31\0\0")  # a REP peer's
        result = subprocess.run([os.path.join(BIN, "larder"), "ping", "--socket", path], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60 * SLOW)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("is another user's", result.stdout)


class Control(Case):
    def test_a_peer_that_does_not_read(self):
        """A control peer that asks and asks and reads nothing: `larder ping` is answered, and the peer is put out."""
        daemon = self.daemon()
        rude = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(rude.close)
        rude.connect(daemon.socket + ".control")
        rude.sendall(b"\0SP\0\0\x30\0\0")
        request = b'{"v":1,"op":"status"}'
        rude.settimeout(2)
        try:
            for number in range(1 << 20):
                rude.sendall(struct.pack(">BQI", 1, 4 + len(request), 1 << 31 | number) + request)
        except OSError:  # full, or closed already
            pass
        result = subprocess.run([os.path.join(BIN, "larder"), "ping", "--socket", daemon.socket],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120 * SLOW)
        self.assertEqual(result.returncode, 0, result.stdout)

        def put_out():
            try:
                return not rude.recv(1 << 20)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
        self.assertTrue(until(put_out, 10))


def http(sock, request):
    """The whole answer to a request."""
    with sock:
        sock.settimeout(60)
        sock.sendall(request)
        answer = b""
        while part := sock.recv(1 << 16):
            answer += part
    return answer.decode()


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Http(Case):
    def test_held_connections(self):
        """With all connections held by requests that trickle in the next one is answered."""
        port = free_port()
        daemon = self.daemon(CONFIG.replace("enabled: false", f"enabled: true\n  port: {port}"))
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        stop = threading.Event()

        def send_all(text):
            for sock in held:
                with contextlib.suppress(OSError):  # the oldest are put out
                    sock.send(text)

        def trickle():
            while not stop.wait(1):
                send_all(b"X-More: yes\r\n")
        for sock in held:
            self.addCleanup(sock.close)
        send_all(b"GET /metrics HTTP/1.1\r\n")
        thread = threading.Thread(target=trickle)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        sock = socket.create_connection(("127.0.0.1", port))
        self.assertIn(" 200 OK", http(sock, GET % b"/-/healthy"))
        self.assertEqual(daemon.stop(), 0, daemon.log())

    def test_a_unix_socket(self):
        """Metrics on a unix socket: mode 0600, the same answers, no port, nothing left behind; a killed daemon's socket
        is replaced, and a folder that others may write to is refused."""
        port = free_port()
        config = CONFIG.replace("enabled: false", f"enabled: true\n  port: {port}\n  socket: auto")
        daemon = self.daemon(config)
        path = daemon.socket + ".metrics"
        daemon.kill()
        self.assertTrue(os.path.exists(path))
        daemon = self.daemon(config)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.loader(daemon, tree(60), name="secret-job")
        for _ in range(2):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(path)
            self.assertIn("larder_", http(sock, GET % b"/metrics"))
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        self.assertEqual(daemon.stop(), 0, daemon.log())
        self.assertFalse(os.path.exists(path))
        others = os.path.join(self.folder, "others")
        os.mkdir(others)
        os.chmod(others, 0o777)
        daemon = self.daemon(config.replace("auto", f"{others}/m"), expect_ready=False)
        self.assertEqual(daemon.process.wait(20 * SLOW), 1, daemon.log())
        self.assertIn(f"others may write to the folder {others}", daemon.log())


class Service(Case):
    def settings(self, name):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        with open(os.path.join(SOURCE, "configs", name)) as file:
            unit.read_file(file)
        return unit["Service"]

    def test_units(self):
        """The units keep the sockets' folder, have a cache of their own, and the node's one is shut in."""
        for name in ("larderd.service", "larderd-user.service"):
            service = self.settings(name)
            self.assertEqual(service["RuntimeDirectory"], "larder")
            self.assertEqual(service["RuntimeDirectoryPreserve"], "yes")
            self.assertEqual(service["CacheDirectory"], "larder")
            self.assertEqual(service["NoNewPrivileges"], "yes")
            self.assertTrue(service["Environment"].endswith("/larder/larder.sock"))
        service = self.settings("larderd.service")
        self.assertEqual(service["ProtectSystem"], "strict")
        self.assertEqual(service["ProtectHome"], "read-only")
        self.assertNotIn("PrivateTmp", service)
        self.assertEqual(service["OOMPolicy"], "stop")
        for key in ("OOMScoreAdjust", "LimitNOFILE", "RestrictAddressFamilies", "CapabilityBoundingSet"):
            self.assertIn(key, service)

    def test_the_cache_folder(self):
        """Dataset indices go to the folder that systemd made, not to the user's own."""
        cache, home = os.path.join(self.folder, "cache"), os.path.join(self.folder, "home")
        os.mkdir(home)
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        os.environ.update(CACHE_DIRECTORY=cache, XDG_CACHE_HOME=home, HOME=home)
        os.environ.pop("SYSTEMD_EXEC_PID", None)
        daemon = self.daemon(CONFIG.replace("checkpoint: none", "checkpoint: auto"))
        self.whole(self.loader(daemon, tree(60)), 60)
        self.assertTrue(until(lambda: os.path.isdir(cache) and os.listdir(cache), 10), daemon.log())
        self.assertEqual(os.listdir(home), [])


if __name__ == "__main__":
    main()
