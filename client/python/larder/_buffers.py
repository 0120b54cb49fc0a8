"""Where batches live in this process: buffers that return to a pool when nobody looks at them any more, and views
into the daemon's arena that give their slots back then.

Both hang an owner below the arrays that are handed out (`ndarray.base`), which every view, slice and tensor made from
them keeps alive; the owner's finaliser knows that the last one has gone. A fresh buffer for each batch would be
simpler, but the kernel zeroes every page of it first: a batch of 256 images of 224 x 224 took 15 ms with fresh buffers
and 9 ms with these.
"""

import numpy as np

from . import _wire


class _Owner:
    """The memory below an array: numpy.asarray makes the array, and the array keeps the owner."""

    __slots__ = ("__array_interface__", "memory", "finish", "__weakref__")

    def __init__(self, memory, address, shape, dtype, strides, read_only, finish):
        self.memory = memory
        self.finish = finish
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": np.dtype(dtype).str, "strides": strides,
                                    "data": (address, read_only)}

    def __del__(self):
        finish = getattr(self, "finish", None)
        if finish is not None:
            finish(self.memory)


class Pool:
    """Buffers of one size. A list's append and pop are atomic, so finalisers may run in any thread."""

    def __init__(self, capacity, keep):
        self.capacity = capacity
        self._keep = keep
        self._free = []

    def array(self, shape, dtype):
        """An uninitialised array that nothing else looks at, of at most `capacity` bytes."""
        try:
            raw = self._free.pop()
        except IndexError:
            raw = np.empty(self.capacity, np.uint8)
        return np.asarray(_Owner(raw, raw.ctypes.data, shape, dtype, None, False, self._give_back))

    def _give_back(self, raw):
        if len(self._free) < self._keep:
            self._free.append(raw)


class Held:
    """A batch whose slots are read in place: released when the last of its views has gone."""

    def __init__(self, session, batch):
        self._session = session
        self._batch = batch
        session.held.add(batch)

    def release(self):
        session, self._session = self._session, None
        if session is not None:
            session.release(self._batch)

    def __del__(self):
        if getattr(self, "_session", None) is not None:
            self.release()


def arena_view(held, arena, offset, shape, dtype, strides=None):
    """A read-only array in the arena at `offset` that keeps `held`. The caller has checked the bounds."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_Owner((held, arena), arena.ctypes.data + offset, shape, dtype, strides, True, None))


def shape_of(info):
    if info.layout == _wire.LAYOUT_CHW:
        return info.channels, info.height, info.width
    return info.height, info.width, info.channels


def views(session, entries, held):
    """One strided array where the slots are evenly spaced, else a list of arrays; all of them keep `held`."""
    info, arena = session.info, session.arena
    offsets = entries["offset"].astype(np.int64)
    if info.height == 0:
        lengths = entries["len_bytes"].tolist()
        return [arena_view(held, arena, offset, (n,), np.uint8) for offset, n in zip(offsets.tolist(), lengths)]
    shape, dtype = shape_of(info), np.dtype(_wire.DTYPES[info.dtype])
    steps = np.diff(offsets)
    first = int(offsets[0])
    if entries.size == 1 or (steps[0] >= info.sample_bytes and (steps == steps[0]).all()):
        step = int(steps[0]) if entries.size > 1 else info.sample_bytes
        return arena_view(held, arena, first, (entries.size, *shape), dtype, (step, *np.empty(shape, dtype).strides))
    return [arena_view(held, arena, offset, shape, dtype) for offset in offsets.tolist()]


def copy_slots(arena, offsets, length, out):
    """Copies slots of `length` bytes at `offsets` (int64) one behind the other into `out`; neighbours in one go."""
    cuts = np.flatnonzero(np.diff(offsets) != length) + 1
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), len(offsets)]
    for start, end in zip(starts, ends):
        first = int(offsets[start])
        out[start * length:end * length] = arena[first:first + (end - start) * length]
