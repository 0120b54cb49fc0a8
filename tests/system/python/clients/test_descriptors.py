"""A script that has no file descriptor left: it is told so, and a connection that was lost is made again when there is
one."""

import logging
import os
import resource
import threading

import above  # noqa: F401
from system import Case, larder, main, tree

COUNT = 60


class Full:
    """This process has only so many descriptors free. release() gives all back, in any thread."""

    def __init__(self, free):
        self._limits, self._held = resource.getrlimit(resource.RLIMIT_NOFILE), []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, self._limits[1]))
        try:
            while True:
                self._held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(free):
            os.close(self._held.pop())

    def release(self):
        held, self._held = self._held, []
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


class Releases(logging.Handler):
    """Gives the descriptors back once Larder has said that it waits for one."""

    def __init__(self, full):
        super().__init__()
        self._full, self.said = full, []

    def emit(self, record):
        if "Trying again" in record.getMessage():
            self.said.append(record.getMessage())
            threading.Thread(target=self._full.release).start()


class Descriptors(Case):
    def test_first_loader(self):
        """A first connection fails at once and names what is missing, wherever it is missed; other Loaders go on."""
        daemon, data = self.daemon(), tree(COUNT)
        other = self.loader(daemon, data)
        self.whole(other, COUNT)
        options = dict(subset=larder.Indices(range(0, COUNT, 2)))
        for free in range(3):
            with Full(free):
                with self.assertRaisesRegex(larder.LimitReached, "no file descriptor is free.*ulimit -n"):
                    self.loader(daemon, data, **options)
                self.whole(other, COUNT)
        indices = [index for batch in self.loader(daemon, data, **options) for index in batch[2].tolist()]
        self.assertEqual(sorted(indices), list(range(0, COUNT, 2)))

    def test_reconnecting(self):
        """A job whose daemon was started anew waits for a descriptor, and goes on with what it had not had."""
        daemon, data = self.daemon(), tree(COUNT)
        loader = self.loader(daemon, data, 8, reconnect=300)
        batches = iter(loader)
        had = next(batches)[2].tolist()
        daemon.kill()
        self.daemon()
        with Full(0) as full:
            handler = Releases(full)
            logging.getLogger("larder").addHandler(handler)
            try:
                had += [index for batch in batches for index in batch[2].tolist()]
            finally:
                logging.getLogger("larder").removeHandler(handler)
        self.assertEqual(sorted(had), list(range(COUNT)))
        self.assertRegex(handler.said[0], "no file descriptor is free")

    def test_in_vain(self):
        """Where none comes free within `reconnect`, that is the error."""
        daemon, data = self.daemon(), tree(COUNT)
        loader = self.loader(daemon, data, 8, reconnect=0.2)
        batches = iter(loader)
        next(batches)
        daemon.kill()
        self.daemon()
        with Full(0), self.assertRaisesRegex(larder.LimitReached, "gone away.*no file descriptor is free"):
            list(batches)


if __name__ == "__main__":
    main()
