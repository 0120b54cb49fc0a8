"""Samples come out of the arena as they lie in it, however their slots are laid out: copied, as bytes, and as views."""

import os
import random
import subprocess
import sys
import threading
import types
import unittest

import numpy as np
from support import main

from larder import _buffers, _layout, _wire

ENTRY = _wire.ENTRY
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))

KEEPS_HEAP = "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION") and \
    not os.environ.get("LD_PRELOAD") and getattr(sys, "_is_gil_enabled", lambda: True)()
# Prints how often the kernel gave a page in 20 batches of 64 samples.
BATCHES = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from larder import _buffers
arena = memoryview(np.ones(8 << 20, np.uint8))
offsets, lengths, batch = np.arange(64) * 110_016, np.full(64, 110_000), None
for number in range(25):
    if number == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = _buffers.copy_bytes(arena, offsets, lengths)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def layouts(rng, length, room):
    """Offsets of slots of `length` bytes: evenly spaced, side by side, backwards, at random, the same, and runs of
    these."""
    step = length + 8 * rng.randrange(4)
    even = [8 + i * step for i in range(rng.randrange(1, 40))]
    yield even
    yield [i * length for i in range(rng.randrange(1, 40))]
    yield even[::-1]
    yield [8 * rng.randrange((room - length) // 8) for _ in range(rng.randrange(1, 40))]
    yield [16] * rng.randrange(1, 20)
    for _ in range(20):
        offsets = []
        while len(offsets) < 40:
            first = 8 * rng.randrange((room - 20 * step - length) // 8)
            offsets += [first + i * step for i in range(rng.choice([1, 1, 2, 7, 8, 9, 20]))]
        yield offsets


class Held:
    """In place of a batch's lease."""

    def __init__(self, over):
        self._over = over

    def __del__(self):
        self._over.append(True)


class Buffers(unittest.TestCase):
    def setUp(self):
        print("seed", SEED)
        self.rng = random.Random(SEED)
        self.arena = memoryview(self.rng.randbytes(1 << 16) * 48)

    def each_layout(self):
        for length in (1, 24, 1000, _buffers._LARGE):
            for offsets in layouts(self.rng, length, len(self.arena)):
                yield length, np.array(offsets, np.int64)

    def test_copies(self):
        for length, offsets in self.each_layout():
            out = np.zeros(len(offsets) * length, np.uint8)
            _buffers.copy_slots(self.arena, offsets, length, memoryview(out))
            wanted = b"".join(self.arena[offset:offset + length].tobytes() for offset in offsets)
            self.assertEqual(out.tobytes(), wanted, (length, offsets))

    def test_gathers(self):
        """Small slots that begin at multiples of 64 behind the first one are copied in one go: at the arena's end too,
        and with room left in the buffer."""
        for length in (1, 192, 1000, _buffers._SMALL):
            last = (len(self.arena) - length) // 64
            for begin in (0, 24):
                places = [self.rng.randrange(last) for _ in range(200)] + [last - (begin > 0), 0]
                offsets = np.array(places, np.int64) * 64 + begin
                out = np.zeros((len(offsets) + 1) * length, np.uint8)
                self.assertTrue(_buffers._gather(self.arena, offsets, length, out))
                _buffers.copy_slots(self.arena, offsets.astype("<u8"), length, memoryview(again := np.zeros_like(out)))
                wanted = b"".join(self.arena[offset:offset + length].tobytes() for offset in offsets)
                self.assertEqual(out.tobytes(), wanted + bytes(length))
                self.assertEqual(again.tobytes(), out.tobytes())
        offsets[5] += 8
        self.assertFalse(_buffers._gather(self.arena, offsets, length, out))

    def test_pool(self):
        """A buffer is given again when nobody has a view of it any more, whoever had the last one, and not before."""
        pool = _buffers.Pool((4, 8), "uint16", 2)

        def take(count):
            array, memory = pool.take(count)
            self.assertEqual((array.shape, array.dtype, pool.row_bytes, len(memory)), ((count, 8), "uint16", 16, 64))
            memory[16 * count - 2:16 * count] = b"\1\2"
            self.assertEqual(array[-1, -1], 0x0201)
            return array
        first, second = take(4), take(3)
        places = {array.ctypes.data for array in (first, second)}
        self.assertEqual(len(places), 2)
        third = take(4)  # one more than is kept
        kept = [first.view(np.float32).reshape(4, 4)[1:]]
        del first
        others = [memoryview(second)]
        del second
        fourth = take(4)
        self.assertNotIn(fourth.ctypes.data, places)
        thread = threading.Thread(target=others.pop)
        thread.start()
        thread.join()
        again = take(1)
        self.assertIn(again.ctypes.data, places)
        del kept
        self.assertEqual({take(2).ctypes.data, again.ctypes.data}, places)
        del third

    def test_bytes(self):
        for length, offsets in self.each_layout():
            lengths = np.array([self.rng.randrange(length + 1) for _ in offsets], np.uint32)
            found = _buffers.copy_bytes(self.arena, offsets, lengths)
            self.assertEqual(found, [self.arena[o:o + n].tobytes() for o, n in zip(offsets, lengths)])

    @unittest.skipUnless(KEEPS_HEAP, "another C library, or another allocator")
    def test_heap_is_kept(self):
        """Batches of bytes take the memory of those that are gone: the kernel need not zero it again."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC", "GLIBC"))}
        package = os.path.dirname(os.path.dirname(_buffers.__file__))
        said = subprocess.run([sys.executable, "-B", "-c", BATCHES, package], env=environment, stdout=subprocess.PIPE,
                              check=True, timeout=300)
        self.assertLess(int(said.stdout), 20 * 64 * 4)  # of the 27 pages that each sample has

    def views(self, offsets, lengths, shape, dtype):
        """The views, and a list that is not empty once their lease is over."""
        layout = _layout.Layout([_layout.Field("image", _layout.IMAGE_HWC, dtype, shape, 0)] if shape else [])
        info = types.SimpleNamespace(layout=layout, sample_bytes=int(lengths[0]))
        entries = np.zeros(len(offsets), ENTRY)
        entries["offset"], entries["len_bytes"] = offsets, lengths
        over = []
        address = np.frombuffer(self.arena, np.uint8).ctypes.data
        session = types.SimpleNamespace(info=info, arena=self.arena, address=address)
        return _buffers.views(session, entries, Held(over)), over

    def test_views_of_pixels(self):
        for shape, dtype, length in (((2, 3, 4), "uint8", 24), ((2, 3, 4), "float32", 96)):
            for offsets in layouts(self.rng, length, len(self.arena)):
                found, over = self.views(offsets, [length] * len(offsets), shape, dtype)
                self.assertEqual(len(found), len(offsets))
                for view, offset in zip(found, offsets):
                    self.assertEqual((view.shape, view.dtype, view.flags.writeable), (shape, dtype, False))
                    self.assertEqual(view.tobytes(), self.arena[offset:offset + length].tobytes())
                one = found[len(found) // 2][:1]
                del found, view
                self.assertFalse(over)
                del one
                self.assertTrue(over)

    def test_views_of_bytes(self):
        for offsets in layouts(self.rng, 50, len(self.arena)):
            lengths = [self.rng.randrange(1, 51) for _ in offsets]
            found, over = self.views(offsets, lengths, (), "uint8")
            for view, offset, length in zip(found, offsets, lengths):
                self.assertFalse(view.flags.writeable)
                self.assertEqual(view.tobytes(), self.arena[offset:offset + length].tobytes())
            one = found[len(found) // 2][:1]
            del found, view
            self.assertFalse(over)
            del one
            self.assertTrue(over)


if __name__ == "__main__":
    main()
