"""Where batches live in this process: buffers that are filled again when nobody looks at them any more, and views
into the daemon's arena that give their slots back then.

Every view, slice and tensor made from an array keeps what lies below it alive (`ndarray.base`). A buffer's count of
references tells whether there is any. Below views of the arena lies an owner, which keeps the batch's lease. A fresh
buffer for each batch would be simpler, but the kernel zeroes every page of it first: a batch of 256 images of 224 x 224
took 15 ms with fresh buffers and 9 ms with these.
"""

import functools
import math
import sys

import numpy as np

from ._layout import places

# Without what all(), min() and max() do in Python.
_all, _smallest, _largest = np.logical_and.reduce, np.minimum.reduce, np.maximum.reduce


class _Owner:
    """The memory below an array: numpy.asarray makes the array, and the array keeps the owner."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory, address, shape, typestr, strides, read_only):
        self.memory = memory
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "strides": strides,
                                    "data": (address, read_only)}


@functools.lru_cache(64)
def _form(shape, dtype):
    """An array's type as an interface has it, and its strides."""
    array = np.empty(shape, dtype)
    return array.dtype.str, array.strides


def _buffer(shape, dtype):
    """An uninitialised array, and its bytes."""
    array = np.empty(shape, dtype)
    return array, bytes_of(array)


def bytes_of(array):
    return memoryview(array.reshape(-1).view(np.uint8))


def _references(buffers):
    for array, _ in buffers:
        return sys.getrefcount(array)


# References to an array that only its buffer has, counted as take() does. 0: this Python does not count them for
# certain at every moment.
_UNUSED = _references([_buffer(1, np.uint8)]) if getattr(sys, "_is_gil_enabled", lambda: True)() else 0


class Pool:
    """Arrays of one shape, whose rows are samples. What nobody else has, no other thread can make a view of: whoever
    calls holds the Loader's lock."""

    def __init__(self, shape, dtype, keep):
        self.shape = shape
        self.row_bytes = np.dtype(dtype).itemsize * math.prod(shape[1:])
        self._dtype, self._keep = dtype, keep
        self._buffers = []

    def take(self, count):
        """An uninitialised array of so many rows that nothing else looks at, and its bytes, which may be more."""
        for array, memory in self._buffers:
            if sys.getrefcount(array) == _UNUSED:
                return array[:count], memory
        array, memory = _buffer(self.shape, self._dtype)
        if len(self._buffers) < self._keep:
            self._buffers.append((array, memory))
        return array[:count], memory


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

    def __init__(self, held, session, for_torch):
        self._memory, self._address, self._read_only = (held, session.arena), session.address, not for_torch

    def __call__(self, offset, shape, dtype):
        if 0 in shape:
            return np.empty(shape, dtype)
        return self.rows(offset, shape, np.dtype(dtype).str, None)

    def rows(self, offset, shape, typestr, strides):
        return np.asarray(_Owner(self._memory, self._address + offset, shape, typestr, strides, self._read_only))


def views(session, entries, held, for_torch=False, field=0):
    """One field of each sample: one strided array where the slots are evenly spaced, else a list of arrays; all of them
    keep `held`."""
    info, view = session.info, _View(held, session, for_torch)
    if info.layout.ragged:
        return _ragged_views(session, entries, view, field)
    if not info.layout:
        return _views_of_bytes(entries, view)
    field, offsets = info.layout[field], entries["offset"].astype(np.int64)
    typestr, inner = _form(field.dims, field.dtype)
    steps = offsets[1:] - offsets[:-1]
    step = int(steps[0]) if entries.size > 1 else info.sample_bytes
    if step >= info.sample_bytes and _all(steps == step):
        return view.rows(int(offsets[0]) + field.offset, (entries.size, *field.dims), typestr, (step, *inner))
    # One array of all places where a sample might begin; its items overlap, and cost less than an array each.
    first = int(_smallest(offsets))
    places = offsets - first
    step = int(np.gcd.reduce(places)) or 1
    places //= step
    shape = int(_largest(places)) + 1, *field.dims
    every = view.rows(first + field.offset, shape, typestr, (step, *inner))
    return [every[place] for place in places.tolist()]


def _views_of_bytes(entries, view):
    offsets = entries["offset"].astype(np.int64)
    ends, first = offsets + entries["len_bytes"], int(_smallest(offsets))
    whole = view(first, (int(_largest(ends)) - first,), np.uint8)
    return [whole[start:end] for start, end in zip((offsets - first).tolist(), (ends - first).tolist())]


def _ragged_views(session, entries, view, number):
    field, made = session.info.layout[number], []
    for offset, length in zip(entries["offset"].tolist(), entries["len_bytes"].tolist()):
        slot = np.frombuffer(session.arena[offset:offset + length], np.uint8)
        start, dims = places(session.info.layout, slot)[number]
        made.append(view(offset + start, dims, field.dtype))
    return made


def ragged_arrays(layout, buffer, lengths):
    """The fields of slots of these lengths that lie one behind the other in a buffer: for each field a list of arrays,
    which are views of the buffer."""
    made, at = [[] for _ in layout], 0
    for length in lengths:
        slot = buffer[at:at + length]
        for field, (start, dims), arrays in zip(layout, places(layout, slot), made):
            size = np.dtype(field.dtype).itemsize * math.prod(dims)
            arrays.append(slot[start:start + size].view(field.dtype).reshape(dims))
        at += length
    return made


def copy_lengths(arena, offsets, lengths, target):
    """Copies slots of these lengths one behind the other into `target`, a memoryview of bytes."""
    at = 0
    for place, length in zip(offsets, lengths):
        target[at:at + length] = arena[place:place + length]
        at += length


_RUN = 8          # slots, from which on one strided copy takes less time than one for each …
_LARGE = 1 << 16  # … unless they are of so many bytes
_FEW = 24         # slots, up to which one copy for each takes less time than to gather them …
_SMALL = 1 << 12  # … and their bytes, up to which gathering takes less, though it copies twice
_ALIGN = 64       # of slots in the arena


def copy_slots(arena, offsets, length, target):
    """Copies slots of `length` bytes at `offsets` one behind the other into `target`, a memoryview of bytes; small
    ones, and many that are evenly spaced, in one go."""
    if length >= _LARGE or offsets.size < (_FEW if length <= _SMALL else _RUN):
        _copy_each(arena, offsets.tolist(), length, target)
        return
    offsets, out = offsets.astype(np.int64), np.frombuffer(target, np.uint8)
    if length > _SMALL or not _gather(arena, offsets, length, out):
        _copy_runs(arena, offsets, length, out)


def _gather(arena, offsets, length, out):
    """Copies slots that all begin at multiples of _ALIGN behind the first one. False: they do not."""
    begin = int(offsets[0]) % _ALIGN
    places = offsets - begin
    if int(np.bitwise_or.reduce(places)) % _ALIGN:
        return False
    rows = (len(arena) - begin - length) // _ALIGN + 1
    slots = np.ndarray((rows, length), np.uint8, arena, begin, (_ALIGN, 1))  # which overlap
    out[:offsets.size * length].reshape(-1, length)[...] = slots[places // _ALIGN]
    return True


def _copy_runs(arena, offsets, length, out):
    steps = offsets[1:] - offsets[:-1]
    apart = steps[steps >= length]
    step = int(np.minimum.reduce(apart)) if apart.size else length
    edges = [0, *((steps != step).nonzero()[0] + 1).tolist(), offsets.size]
    places, done = offsets.tolist(), 0
    for start, end in zip(edges, edges[1:]):
        if end - start < _RUN:
            continue
        _copy_each(arena, places[done:start], length, memoryview(out)[done * length:])
        slots = np.ndarray((end - start, length), np.uint8, arena, places[start], (step, 1))
        np.copyto(out[start * length:end * length].reshape(-1, length), slots)
        done = end
    _copy_each(arena, places[done:], length, memoryview(out)[done * length:])


def _copy_each(arena, places, length, target):
    at = 0
    for place in places:
        target[at:at + length] = arena[place:place + length]
        at += length


_LEARNED_MAX = (32 << 20) - (1 << 16)  # the largest block that the C library learns from
_learned = 0


def _keep_heap(length):
    """Has the C library keep so much free memory. Until a block of such a size was freed, glibc gives the end of its
    heap back to the kernel whenever a batch is gone (mallopt(3), M_MMAP_THRESHOLD), and for the next batch the kernel
    zeroes each page of it first: .04 ms for 110 kB, where the copy takes .01. This block is freed untouched."""
    global _learned
    length = min(length, _LEARNED_MAX)
    if length > _learned:
        _learned = length
        np.empty(length, np.uint8)


def copy_bytes(arena, offsets, lengths):
    """A list of bytes: of so many (int64) at each of the offsets."""
    _keep_heap(int(lengths.sum()))
    return [arena[start:end].tobytes() for start, end in zip(offsets.tolist(), (offsets + lengths).tolist())]
