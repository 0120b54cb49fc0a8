"""Faults inside the daemon, by tests/tools/faulty.c: which calls fail, from when on, and how often they did."""

import mmap
import os
import shutil
import struct
import tempfile
import warnings

from system import Case, Daemon, larder, skip, tree

SHIM = os.environ.get("LARDER_FAULTY_SHIM")
if not SHIM:
    skip("LARDER_FAULTY_SHIM names no shim: a sanitizer's own library must be loaded first, so its builds have none")

KINDS = ("READ", "READ_SHORT", "WRITE", "WRITE_SHORT", "OPEN", "DESCRIPTOR", "ALLOC", "CLOCK", "SLOW")
RULE = struct.Struct("=5Ii2Qq80s")
EVERY = struct.Struct("=I")
ALWAYS = 0xFFFFFFFF


class Faults:
    """The rules of one daemon, or of several that begin one after the other. A daemon has `environment`."""

    def __init__(self, folder):
        path = os.path.join(folder, "rules")
        with open(path, "w+b") as file:
            file.truncate(len(KINDS) * RULE.size)
            self._map = mmap.mmap(file.fileno(), 0)
        self.environment = {"LD_PRELOAD": SHIM, "LARDER_FAULTY": path}

    def begin(self, kind, error=0, every=1, skip=0, times=ALWAYS, path="", from_bytes=0, to_bytes=1 << 62, shift_s=0):
        """From now on calls of this kind fail; struck() counts from 0."""
        at = KINDS.index(kind) * RULE.size
        self.end(kind)
        rule = RULE.pack(0, skip, times, 0, 0, error, from_bytes, to_bytes, shift_s, path.encode())
        self._map[at + EVERY.size:at + RULE.size] = rule[EVERY.size:]
        EVERY.pack_into(self._map, at, every)

    def end(self, *kinds):
        """No call of these kinds, or of any, fails any more."""
        for kind in kinds or KINDS:
            EVERY.pack_into(self._map, KINDS.index(kind) * RULE.size, 0)

    def calls(self, kind):
        """How many calls the rule was about."""
        return self._numbers(kind)[3]

    def struck(self, kind):
        """How many calls have failed."""
        return self._numbers(kind)[4]

    def _numbers(self, kind):
        return RULE.unpack_from(self._map, KINDS.index(kind) * RULE.size)


COUNT = 60
PIPELINE = [{"resize": {"size": [32, 32]}}]  # what comes out of a file is always the same
CONFIG = """\
memory: {arena: 64MiB, encoded: 32MiB}
threads: {workers: 2, loaders: 3}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""


class FaultsCase(Case):
    """Daemons with faults, a tree of COUNT images, and what they look like where nothing fails."""

    _pixels = {}

    def setUp(self):
        super().setUp()
        self.faults = Faults(self.folder)
        self.tree = self.make("tree")

    def make(self, name, seed=1):
        return shutil.copytree(tree(COUNT, seed=seed), os.path.join(self.folder, name))

    def serve(self, config=CONFIG, **more):
        return self.daemon(config, environment=self.faults.environment, **more)

    def pixels(self, seed=1):
        """The samples of a tree with this seed, by index, from a daemon without faults."""
        if seed not in self._pixels:
            folder = tempfile.mkdtemp(prefix="larder-right-")
            daemon = Daemon(folder, CONFIG)
            try:
                with self.loader(daemon, tree(COUNT, seed=seed), pipeline=PIPELINE, batch_size=8) as loader:
                    self._pixels[seed] = {index: image.tobytes() for batch in loader
                                          for image, index in zip(batch[0], batch[-1].tolist())}
            finally:
                daemon.kill()
                shutil.rmtree(folder, ignore_errors=True)
            self.assertEqual(len(self._pixels[seed]), COUNT)
        return self._pixels[seed]

    def job(self, daemon, dataset=None, batch_size=8, **options):
        return self.loader(daemon, dataset or self.tree, batch_size, PIPELINE, **options)

    def check(self, batch, seen, *seeds):
        """Each sample of a batch looks as in one of these trees and was not seen before; notes them in `seen`."""
        for image, index in zip(batch[0], batch[-1].tolist()):
            self.assertNotIn(index, seen)
            seen.add(index)
            self.assertIn(image.tobytes(), [self.pixels(seed)[index] for seed in seeds or (1,)],
                          f"the pixels of sample {index}")

    def exact(self, loader, bad=(), seed=1):
        """One epoch gives each sample once, with the right pixels, but the bad ones; these are counted."""
        seen = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", larder.BadSamplesWarning)
            for batch in loader:
                self.check(batch, seen, seed)
        self.assertEqual(seen, set(range(COUNT)) - set(bad))
        self.assertEqual(loader.lost, len(bad))

    def alive(self, daemon):
        self.assertIsNone(daemon.process.poll(), daemon.log())
