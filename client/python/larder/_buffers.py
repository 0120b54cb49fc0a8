"""Where batches live in this process: buffers that return to a pool when nobody looks at them any more, and views
into the daemon's arena that give their slots back then.

Both hang an owner below the arrays that are handed out (`ndarray.base`), which every view, slice and tensor made from
them keeps alive; the owner's finaliser knows that the last one has gone. A fresh buffer for each batch would be
simpler, but the kernel zeroes every page of it first: a batch of 256 images of 224 x 224 took 15 ms with fresh buffers
and 9 ms with these.
"""

import numpy as np


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


class _View:
    """Makes arrays in the arena that keep `held`. They say that they are read-only, but for torch, which has no such
    tensors. The caller has checked the bounds."""

    def __init__(self, held, arena, for_torch):
        self._memory, self._read_only = (held, arena), not for_torch

    def __call__(self, offset, shape, dtype, strides=None):
        if 0 in shape:
            return np.empty(shape, dtype)
        address = self._memory[1].ctypes.data + offset
        return np.asarray(_Owner(self._memory, address, shape, dtype, strides, self._read_only, None))


def views(session, entries, held, for_torch=False, field=0):
    """One field of each sample: one strided array where the slots are evenly spaced, else a list of arrays; all of them
    keep `held`."""
    info, view = session.info, _View(held, session.arena, for_torch)
    offsets = entries["offset"].astype(np.int64) + (info.layout[field].offset if info.layout else 0)
    first = int(offsets.min())
    if not info.layout:
        ends = offsets + entries["len_bytes"]
        whole = view(first, (int(ends.max()) - first,), np.uint8)
        return [whole[start:end] for start, end in zip((offsets - first).tolist(), (ends - first).tolist())]
    field = info.layout[field]
    shape, dtype = field.dims, np.dtype(field.dtype)
    inner = np.empty(shape, dtype).strides
    steps = np.diff(offsets)
    if entries.size == 1 or (steps[0] >= info.sample_bytes and (steps == steps[0]).all()):
        step = int(steps[0]) if entries.size > 1 else info.sample_bytes
        return view(first, (entries.size, *shape), dtype, (step, *inner))
    # One array of all places where a sample might begin; its items overlap, and cost less than an array each.
    places = offsets - first
    step = int(np.gcd.reduce(places)) or 1
    places //= step
    every = view(first, (int(places.max()) + 1, *shape), dtype, (step, *inner))
    return [every[place] for place in places.tolist()]


_RUN = 8          # slots, from which on one strided copy takes less time than one for each …
_LARGE = 1 << 16  # … unless they are of so many bytes


def copy_slots(arena, offsets, length, out):
    """Copies slots of `length` bytes at `offsets` (int64) one behind the other into `out`; many that are evenly spaced
    in one go."""
    if length >= _LARGE:
        _copy_each(arena, offsets.tolist(), length, out)
        return
    steps = np.diff(offsets)
    apart = steps[steps >= length]
    step = int(apart.min()) if apart.size else length
    edges = np.concatenate(([0], np.flatnonzero(steps != step) + 1, [offsets.size]))
    places, done = offsets.tolist(), 0
    for run in np.flatnonzero(np.diff(edges) >= _RUN).tolist():
        start, end = int(edges[run]), int(edges[run + 1])
        _copy_each(arena, places[done:start], length, out[done * length:])
        slots = np.ndarray((end - start, length), np.uint8, arena, places[start], (step, 1))
        np.copyto(out[start * length:end * length].reshape(-1, length), slots)
        done = end
    _copy_each(arena, places[done:], length, out[done * length:])


def _copy_each(arena, places, length, out):
    source, target, at = memoryview(arena), memoryview(out), 0  # whose slices cost less than an array's
    for place in places:
        target[at:at + length] = source[place:place + length]
        at += length


def copy_bytes(arena, offsets, lengths):
    """A list of bytes: of so many (int64) at each of the offsets."""
    source = memoryview(arena)
    return [source[start:end].tobytes() for start, end in zip(offsets.tolist(), (offsets + lengths).tolist())]
