"""A packed store's index (docs/internals/store-format.md), as far as it names and labels the samples."""

import os

import numpy as np

from .errors import FormatError, NotFound

NAME = "index.larder"
_VERSIONS = range(1, 5)  # that are known here
_HEADER = np.dtype([("magic", "S8"), ("version", "<u4"), ("zero", "<u4"), ("payload", "<u8"), ("hash", "<u8", 2)])
_COUNTS = np.dtype([("plan", "<u8", 2), ("seed", "<u8"), ("texts", "<u8"), ("chunk_size", "<u4"), ("segments", "<u4"),
                    ("classes", "<u4"), ("samples", "<u4")])
_PACKING = np.dtype([("what", "<u4", 4)])  # from version 3 on
_SEGMENT = np.dtype([("what", "<u8", 2)])
_SAMPLE = [("key", "<u8"), ("offset", "<u8"), ("size", "<u8"), ("hash", "<u8", 2), ("position", "<u4"),
           ("label", "<i4"), ("flags", "<u4"), ("form", "<u4")]
_REWRITTEN = [("checksum", "<u8", 2), ("source_bytes", "<u8")]  # from version 2 on


class StoreIndex:
    """The samples of a store: keys, which are paths below the folder that was packed, and labels. What the daemon
    checks when it opens the store, hashes, sizes and places, is not looked at here."""

    def __init__(self, root):
        self.root = root
        self._path = os.path.join(root, NAME)
        try:
            with open(self._path, "rb") as file:
                self._bytes = file.read()
        except OSError as error:
            raise NotFound(f"cannot read the store's index {self._path!r}: {error.strerror}") from error
        self._at = 0
        header = self._take(_HEADER, 1)[0]
        version = int(header["version"])
        if header["magic"] != b"LDRSTORE" or version not in _VERSIONS:
            self._damaged(f"it is none of versions {_VERSIONS[0]} to {_VERSIONS[-1]}")
        counts = self._take(_COUNTS, 1)[0]
        self._take(_PACKING, int(version >= 3))
        self._texts = self._take(np.dtype("u1"), int(counts["texts"])).tobytes()
        classes = self._take(np.dtype("<u8"), int(counts["classes"]))
        self._take(_SEGMENT, int(counts["segments"]))
        samples = self._take(np.dtype(_SAMPLE + (_REWRITTEN if version >= 2 else [])), int(counts["samples"]))
        if self._at != len(self._bytes) or not self._texts.endswith(b"\0"):
            self._damaged("its parts do not fill it")
        self.labels = samples["label"].astype(np.int64)
        if ((self.labels < 0) | (self.labels >= classes.size)).any():
            self._damaged("a label is of no class")
        self.classes = self._names(classes)
        self.keys = self._names(samples["key"])
        del self._bytes, self._texts

    def path(self, index):
        """A name below the store: what it names lies in the store, and is no file."""
        return os.path.join(self.root, self.keys[index])

    def _damaged(self, what):
        raise FormatError(f"the store's index {self._path!r} is damaged: {what}. `larder verify` says more")

    def _take(self, dtype, count):
        begin, self._at = self._at, self._at + count * dtype.itemsize
        if self._at > len(self._bytes):
            self._damaged("it ends too early")
        return np.frombuffer(self._bytes, dtype, count, begin) if count else np.empty(0, dtype)

    def _names(self, offsets):
        if (offsets >= len(self._texts)).any():
            self._damaged("a name lies outside of it")
        texts = self._texts
        return [os.fsdecode(texts[begin:texts.index(b"\0", begin)]) for begin in offsets.tolist()]
