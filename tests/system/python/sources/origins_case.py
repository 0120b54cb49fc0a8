"""What the tests of stores and the files that they were packed from share."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest

import above  # noqa: F401
from system import BIN, Case, until

YOUNG_NS = 3_000_000_000  # a file that is younger when it is packed shares nothing
HINT, ORIGINS = "user.larder.store", "origins.larder"
HEADER, ORIGIN = 40, 32


def why_not():
    """Why files of this machine's temporary folder share with no store; None: they do."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.setxattr(folder, HINT, b"/")
        except OSError as error:
            return f"the temporary folder takes no attributes: {error.strerror}"
        with open("/proc/self/mounts") as file:
            mounts = [line.split()[1:3] for line in file]
        below = [mount for mount in mounts if os.path.join(folder, "").startswith(os.path.join(mount[0], ""))]
        kind = max(reversed(below), key=lambda mount: len(mount[0]))[1]
        return None if kind in ("ext4", "xfs", "btrfs") else f"the temporary folder is on {kind}"


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def seal(data):
    """Bytes with another payload as a file that the daemon takes."""
    xxh = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    xxh.restype, xxh.argtypes = Hash, (ctypes.c_char_p, ctypes.c_size_t)
    found = xxh(data[HEADER:], len(data) - HEADER)
    return data[:24] + bytes(found) + data[HEADER:]


@unittest.skipIf(why_not(), why_not())
class OriginsCase(Case):
    @classmethod
    def setUpClass(cls):
        """A folder for each test, copied from what fill() makes, all old enough to be packed."""
        cls.folders = tempfile.mkdtemp(prefix="larder-origins-")
        cls.addClassCleanup(shutil.rmtree, cls.folders, ignore_errors=True)
        first, probe = os.path.join(cls.folders, "first"), os.path.join(cls.folders, "probe")
        os.mkdir(first)
        cls.fill(first)
        for name in unittest.defaultTestLoader.getTestCaseNames(cls):
            shutil.copytree(first, os.path.join(cls.folders, name))
        cls.copied()

        def now_ns():
            with open(probe, "w") as file:
                file.write("x")
            return os.stat(probe).st_ctime_ns

        written_ns = now_ns()
        assert until(lambda: now_ns() > written_ns + YOUNG_NS, 60)

    @classmethod
    def fill(cls, folder):
        """Makes the files of a test."""
        raise NotImplementedError

    @classmethod
    def copied(cls):
        """What is done to the tests' folders before they age."""

    def setUp(self):
        super().setUp()
        self.here = os.path.join(self.folders, self._testMethodName)
        self.store = os.path.join(self.folder, "store")

    def pack(self, source, store, *options):
        subprocess.run([os.path.join(BIN, "larder"), "pack", source, store, "--quiet", "--chunk-size", "8", *options],
                       check=True, stdout=subprocess.DEVNULL)

    def look(self, source):
        said = subprocess.run([os.path.join(BIN, "larder"), "look", source], check=True, stdout=subprocess.PIPE)
        return " ".join(said.stdout.decode().split())
