"""What the system tests share: the real daemon on a private socket and folder, real scripts, real images."""

import atexit
import functools
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
PACKAGE = os.path.join(SOURCE, "client", "python")
BIN = os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin"))
TREES = os.environ.get("LARDER_TEST_TREES")  # where trees of images are kept for all tests; none: each makes its own
sys.path.insert(0, PACKAGE)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


try:
    import numpy  # noqa: F401
except ImportError:
    skip("this Python has no NumPy")
for program in ("larderd", "larder", "larder_make_images"):
    if not os.access(os.path.join(BIN, program), os.X_OK):
        sys.exit(f"{program} is not in {BIN}: build it, or set LARDER_BIN to where it is")

import larder  # noqa: E402
from nursery import Born  # noqa: E402

# Under a sanitizer everything takes several times as long.
PATIENCE = float(os.environ.get("LARDER_TEST_PATIENCE", "1"))
# How quickly something comes is held against the limit that a test states only where nothing else runs. Elsewhere
# others may take nearly all of the machine, and the limits are those of something that hangs.
QUIET = bool(os.environ.get("LARDER_TEST_QUIET"))
SLOW = PATIENCE if QUIET else 8 * PATIENCE
LONG = "--long" in sys.argv  # more than a change should wait for
only_long = unittest.skipUnless(LONG, "only with --long")
PIPELINE = [{"resize": {"size": [64, 64]}}, "random_horizontal_flip"]


def until(what, limit_s):
    """Waits until what() is true; false when that does not happen in time. Asking takes a fifth of the time at most,
    since what() may start a process."""
    deadline = time.monotonic() + limit_s * SLOW
    while True:
        asked = time.monotonic()
        if what():
            return True
        now = time.monotonic()
        if now > deadline:
            return False
        time.sleep(max(0.01, 4 * (now - asked)))


def free_port():
    """A port of 127.0.0.1 that nobody has, and that no test gets as long as this process lives: it takes a socket that
    is named after the port. It is below those that the system gives out by itself, or somebody might get it before the
    daemon does."""
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        taken = socket.socket(socket.AF_UNIX)
        try:
            taken.bind(f"\0larder-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            taken.close()
            continue
        _ports.append(taken)
        return port
    raise AssertionError("no free port")


_ports = []


def make_tree(folder, count, classes=10, width=96, height=72, seed=1):
    arguments = [str(number) for number in (count, classes, width, height, seed)]
    subprocess.run([os.path.join(BIN, "larder_make_images"), folder, *arguments], check=True)
    return folder


def tree(count, **shape):
    """A tree that tests share and do not change. In TREES those of other files and of later runs find it. `pictures`,
    a multiple of the classes, is how many different ones it has, where that does not matter."""
    key = (count, *sorted(shape.items()))
    if key not in _trees:
        name = "-".join(str(part) for part in (count, *(f"{what}{number}" for what, number in key[1:])))
        folder = os.path.join(TREES or _own_trees(), name)
        if not os.path.isdir(folder):
            make_whole(folder, count, **shape)
        _trees[key] = folder, state_of(folder)
    return _trees[key][0]


def make_whole(folder, count, **shape):
    """Nobody sees a part of the tree: it gets its name when it is whole, if it has not been made meanwhile."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    made = tempfile.mkdtemp(dir=os.path.dirname(folder), prefix="made-")
    os.chmod(made, 0o755)
    pictures = shape.pop("pictures", count)
    make_tree(made, pictures, **shape)
    for label, path in enumerate(sorted(os.listdir(made))):
        for number in range(pictures + label, count, shape.get("classes", 10)):
            shutil.copyfile(os.path.join(made, path, f"{number % pictures:05}.jpg"),
                            os.path.join(made, path, f"{number:05}.jpg"))
    try:
        os.rename(made, folder)
    except OSError:
        shutil.rmtree(made)
        if not os.path.isdir(folder):
            raise


def state_of(folder):
    """What changes where somebody writes below the folder."""
    found = {}
    for below, _, names in os.walk(folder):
        for path in (below, *(os.path.join(below, name) for name in names)):
            found[path] = os.stat(path).st_mtime_ns
    return found


@functools.lru_cache(None)
def _own_trees():
    folder = tempfile.mkdtemp(prefix="larder-trees-")
    atexit.register(shutil.rmtree, folder)
    return folder


_trees = {}


def files_of(folder):
    """All files of a tree in ImageFolder's order."""
    return [os.path.join(folder, label, name) for label in sorted(os.listdir(folder))
            for name in sorted(os.listdir(os.path.join(folder, label)))]


FALSE_PLANES = b"\x89LDRPLN\n" + bytes(200)  # no image, but begins as planes do


def odd_photographs(folder, sizes, count, odd):
    """A tree of so many photographs of each of the sizes {name: (width, height)}, of which the one with the first
    number of `odd` is cut short, the second is no image, and the third only begins as planes do."""
    for name, (width, height) in sizes.items():
        for path in files_of(make_tree(folder + "-" + name, count, classes=4, width=width, height=height)):
            label = os.path.join(folder, os.path.basename(os.path.dirname(path)))
            os.makedirs(label, exist_ok=True)
            shutil.move(path, os.path.join(label, name + os.path.basename(path)))
    cut, *others = (files_of(folder)[number] for number in odd)
    os.truncate(cut, os.path.getsize(cut) - 500)
    for path, data in zip(others, (b"no image at all", FALSE_PLANES)):
        with open(path, "wb") as file:
            file.write(data)
    return folder


class Daemon:
    """larderd with a configuration of its own; what it logs goes to a file, or to the descriptor `stderr`. It has this
    process's environment, and `environment` too. `before` is a command that starts it."""

    def __init__(self, folder, config="", options=(), expect_ready=True, stderr=None, environment=None, before=()):
        self.socket = os.path.join(folder, "s")
        self.log_path = os.path.join(folder, "log")
        path = os.path.join(folder, "larder.yaml")
        with open(path, "w") as file:
            file.write(config or CONFIG)
        ready, ready_far = os.pipe()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*before, os.path.join(BIN, "larderd"), "--config", path, "--socket", self.socket, "--ready-fd",
                 str(ready_far), *options],
                env=dict(os.environ, **(environment or {})), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log if stderr is None else stderr, pass_fds=(ready_far,))
        os.close(ready_far)
        came, _, _ = select.select([ready], [], [], 30 * SLOW)
        self.ready = bool(came and os.read(ready, 1))
        os.close(ready)
        if expect_ready and not self.ready:
            self.stop()
            raise AssertionError("larderd did not start: " + self.log())

    def logged(self, text):
        """Whether the log says so, or will in a moment: a thread of its own writes it."""
        return until(lambda: text in self.log(), 5)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def status(self):
        result = subprocess.run([os.path.join(BIN, "larder"), "status", "--json", "--socket", self.socket],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30 * SLOW)
        if result.returncode:
            raise AssertionError("larder status: " + result.stderr.decode())
        return json.loads(result.stdout)

    def jobs(self):
        return {job["name"]: job for job in self.status()["jobs"]}

    def shared_bytes(self):
        """Bytes of the arena that the kernel has for this daemon, whoever maps them."""
        folder = f"/proc/{self.process.pid}/fd"
        for name in os.listdir(folder):
            try:
                if "memfd:larder-arena" in os.readlink(os.path.join(folder, name)):
                    return os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:  # it was closed meanwhile
                pass
        return 0

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; gives the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60 * SLOW)  # a node of a cluster may take half of it
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("larderd did not stop: " + self.log()) from None
        return self.process.returncode


CONFIG = """\
memory:
  arena: 128MiB
  encoded: 64MiB
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


class Script:
    """A training script in a process of its own, script.py, and what it got: (time, epoch, indices) of each batch, and
    how long it had waited for batches by then. `package` is where it finds the larder package."""

    def __init__(self, socket, package=PACKAGE, **options):
        environment = dict(os.environ, PYTHONPATH=package)
        environment.pop("LARDER_SOCKET", None)
        if socket:
            environment["LARDER_SOCKET"] = socket
        words = [os.path.join(HERE, "script.py"), json.dumps(options)]
        if package == PACKAGE:
            self.process = Born(words, environment)
        else:
            self.process = subprocess.Popen([sys.executable, "-B", *words], stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True, env=environment)
        self.batches, self.waits, self.end, self.errors = [], [], None, ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._error_reader.start()

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "indices" in message:
                self.waits.append(message["wait_s"])
                self.batches.append((message["time"], message["epoch"], message["indices"]))
            else:
                self.end = message

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def wait(self, limit_s=60):
        """The exit status, after all output was read."""
        self.process.wait(limit_s * SLOW)
        self._reader.join()
        self._error_reader.join()
        return self.process.returncode

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def epochs(self):
        """The sorted indices of each epoch."""
        seen = {}
        for _, epoch, indices in self.batches:
            seen.setdefault(epoch, []).extend(indices)
        return [sorted(seen[epoch]) for epoch in sorted(seen)]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Case(unittest.TestCase):
    """A private folder; daemons and scripts that end with the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="larder-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.environ.pop("LARDER_SOCKET", None)

    def daemon(self, config="", options=(), **more):
        daemon = Daemon(self.folder, config, options, **more)
        self.addCleanup(daemon.stop)
        return daemon

    def node(self, config=""):
        """One of several daemons, in a folder of its own."""
        folder = os.path.join(self.folder, f"node-{len(os.listdir(self.folder))}")
        os.mkdir(folder)
        daemon = Daemon(folder, config)
        self.addCleanup(daemon.stop)
        return daemon

    @staticmethod
    def ranks_at(daemons, split):
        """The daemon of each rank of a training, split[i] of them at daemons[i]; until the next one is asked for, the
        environment says which rank it is."""
        for number, (daemon, here) in enumerate(zip(daemons, split)):
            for local in range(here):
                environment = {"RANK": str(sum(split[:number]) + local), "WORLD_SIZE": str(sum(split)),
                               "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(here)}
                with mock.patch.dict(os.environ, environment):
                    yield daemon

    def script(self, daemon, **options):
        script = Script(daemon.socket if daemon else None, **options)
        self.addCleanup(script.close)
        return script

    def loader(self, daemon, dataset, batch_size=16, pipeline=PIPELINE, **options):
        options = {"output": "numpy", "timeout": 30 * SLOW, "with_ids": True, "socket": daemon.socket, **options}
        loader = larder.Loader(dataset, pipeline, batch_size, **options)
        self.addCleanup(loader.close)
        return loader

    def took_at_most(self, took_s, limit_s, *words):
        """A time within its limit: of a quiet machine, or of one that does much else."""
        self.assertLess(took_s, limit_s * SLOW, *words)

    def whole(self, loader, count):
        """One epoch of the loader holds each of `count` samples once."""
        seen = sorted(index for batch in loader for index in batch[-1].tolist())
        self.assertEqual(seen, list(range(count)))


def main():
    """Runs the file's tests. Exit code 77 tells ctest that all of them were skipped."""
    arguments = [argument for argument in sys.argv if argument != "--long"]
    result = unittest.main(argv=arguments, verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    for folder, before in _trees.values():
        if state_of(folder) != before:
            sys.exit(f"{folder} has changed, which other tests use too: a test that writes there needs a copy")
    sys.exit(77 if result.skipped and len(result.skipped) >= result.testsRun else 0)
