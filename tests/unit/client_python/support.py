"""What the tests of the Python package share."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.normpath(os.path.join(HERE, "..", "..", "..", "client", "python"))
sys.path.insert(0, PACKAGE)

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)

import larder  # noqa: E402
from fake_daemon import FakeDaemon, pixels  # noqa: E402

SHORT_S = 0.1


def until(what, limit_s=60):
    """Waits until what() is true, for what another thread or process does."""
    deadline = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@contextlib.contextmanager
def impatient(loader, timeout_s=SHORT_S):
    """Within it the loader waits this long for what does not come. A short timeout= from the start would hold for its
    registration and its first batches too, which come late on a busy machine."""
    before = loader._timeout_s
    loader._timeout_s = loader._job.timeout_s = timeout_s
    try:
        yield
    finally:
        loader._timeout_s = loader._job.timeout_s = before


class Case(unittest.TestCase):
    """A folder of its own, and fake daemons in it that are closed and must have found nothing wrong."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="larder-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.environ.pop("LARDER_SOCKET", None)
        self.path = os.path.join(self.folder, "s")

    def daemon(self, path=None, **attributes):
        construct = {k: attributes.pop(k) for k in ("n_samples", "classes", "height", "width") if k in attributes}
        daemon = FakeDaemon(path or self.path, **construct)
        self.addCleanup(self._close, daemon)
        for name, value in attributes.items():
            assert hasattr(daemon, name)
            setattr(daemon, name, value)
        return daemon

    def _close(self, daemon):
        daemon.close()
        self.assertEqual(daemon.problems, [])

    def loader(self, batch_size=6, pipeline=("resize",), **options):
        options.setdefault("output", "numpy")
        options.setdefault("socket", self.path)
        options.setdefault("timeout", 60)
        return larder.Loader("/data", list(pipeline), batch_size, **options)

    def check_pixels(self, images, indices, height=4, width=6):
        for image, index in zip(images, indices):
            expected = pixels(int(index), image.nbytes)[:image.nbytes]
            self.assertEqual(image.tobytes(), expected, f"sample {index}")


def main():
    unittest.main(verbosity=1)
