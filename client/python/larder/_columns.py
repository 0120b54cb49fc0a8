"""Columns: what a dataset has for each sample besides its image, as the daemon knows it. A column comes once, in memory
that all jobs of the dataset share, and is mapped read-only."""

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence

import numpy as np

from . import _wire
from .errors import FormatError, IOFailure, NotFound

NAMES, KEY, PATH, ROOT = "__columns__", "__key__", "__path__", "__root__"  # cache/source/column.h
LABEL, CLASSES = "__label__", "__classes__"
_AT_ONCE = 65536  # texts that are made together
_GET_SEALS, _SEALED = 1034, 0x1 | 0x2 | 0x4 | 0x8


class Texts(Sequence):
    """A column of texts: like a list of str, each of which is made when it is asked for."""

    def __init__(self, memory, offsets):
        self._memory, self._offsets = memory, offsets

    def __len__(self):
        return self._offsets.size - 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            at = range(*index.indices(len(self)))
            return self._some(at.start, at.stop) if at.step == 1 else [self[one] for one in at]
        at = range(len(self))[index]
        return self._some(at, at + 1)[0]

    def __iter__(self):
        for at in range(0, len(self), _AT_ONCE):
            yield from self[at:at + _AT_ONCE]

    def _some(self, begin, end):
        if begin >= end:
            return []
        offsets = self._offsets[begin:end + 1]
        first = self._offsets.nbytes + int(offsets[0])  # behind the offsets the texts begin
        texts = self._memory[first:self._offsets.nbytes + int(offsets[-1])]
        offsets = (offsets - offsets[0]).tolist()
        if texts.isascii():
            texts = texts.decode()
            return [texts[at:to] for at, to in zip(offsets, offsets[1:])]
        return [texts[at:to].decode("utf-8", "surrogateescape") for at, to in zip(offsets, offsets[1:])]

    def __repr__(self):
        return f"<{len(self)} texts>"


def read(path, message, fd):
    """The column that a COLUMN brings: a read-only array of int64 or float64, (count,) or (count, width), or Texts."""
    try:
        sealed = fcntl.fcntl(fd, _GET_SEALS) & _SEALED == _SEALED  # else what is mapped might end under our hands
        whole = sealed and os.fstat(fd).st_size == message.n_bytes
        memory = mmap.mmap(fd, message.n_bytes, access=mmap.ACCESS_READ) if whole and message.n_bytes else b""
    except OSError as error:
        raise IOFailure(f"mapping a column that the daemon at {path} passed: {error.strerror}") from error
    if not whole:
        raise FormatError(f"the daemon at {path} passed a column that is not what it says")
    if message.kind != _wire.TEXT:
        kind = "<i8" if message.kind == _wire.INT64 else "<f8"
        array = np.frombuffer(memory, kind, message.count * message.width)
        return array if message.width == 1 else array.reshape(message.count, message.width)
    offsets = np.frombuffer(memory, "<i8", message.count + 1)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != message.n_bytes - offsets.nbytes:
        raise FormatError(f"the daemon at {path} passed texts that reach beyond their column")
    return Texts(memory, offsets)


class Columns(Mapping):
    """The columns of a Loader's dataset by name, each fetched when it is first asked for."""

    def __init__(self, column):
        self._column = column

    def __getitem__(self, name):
        if not isinstance(name, str):
            raise KeyError(name)
        try:
            return self._column(name)
        except NotFound as error:
            raise KeyError(str(error)) from None

    def __iter__(self):
        return iter(self._column(NAMES)[:])

    def __len__(self):
        return len(self._column(NAMES))

    def __repr__(self):
        return f"<columns {', '.join(self)}>"


class Files:
    """The samples as the daemon has them: their keys, which are paths below a folder, labels and classes. `given` is
    what the dataset was given as; where that is a folder, paths begin with it, whatever links it has."""

    def __init__(self, column, given):
        self._column = column
        self._real = column(ROOT)[0].rstrip("/")
        given = given.partition("#")[0] if not os.path.isdir(given) else given  # #labels=, #mixed=
        real = os.path.realpath(given).rstrip("/") if os.path.isdir(given) else None
        below = real is not None and (self._real + "/").startswith(real + "/")
        self.root = given.rstrip("/") + self._real[len(real):] if below else self._real
        self._paths = column(PATH)
        self._keys = self._classes = None

    def path(self, index):
        return self.root + self._paths[index][len(self._real):]

    def paths(self):
        """Of all samples."""
        root, first = self.root, len(self._real)
        return [root + path[first:] for path in self._paths]

    @property
    def keys(self):
        if self._keys is None:
            first = len(self._real) + 1
            self._keys = [path[first:] for path in self._paths]
        return self._keys

    def others(self):
        """What else a sample of tar shards is called: webdataset's key, where no other sample has it, and its shard
        with that. Elsewhere there is nothing."""
        others = self._column(KEY)
        if not len(others) or others[0] == self.keys[0]:
            return {}
        found, twice = {}, set()
        for index, (key, path) in enumerate(zip(others, self.keys)):
            twice.update([key] if key in found else ())
            found[key] = index
            found.setdefault(path[:path.rfind(f"/{key}.") + 1] + key, index)
        return {name: index for name, index in found.items() if name not in twice}

    @property
    def labels(self):
        return self._column(LABEL)

    @property
    def classes(self):
        if self._classes is None:
            self._classes = self._column(CLASSES)[:]
        return self._classes
