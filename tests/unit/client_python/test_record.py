"""Records in Python: their bytes are common/record.c's layout, foreign bytes never do worse than a LarderError, and a
history says what was taken."""

import random
import struct

from support import Case, larder, main
from larder import _record
from larder._history import Base, History
from test_wire import defined

import numpy as np

HEAD = struct.Struct("<IHH5Q4I")


def of_set():
    """The dependent job's record of tests/unit/common/test_record.c, and its bytes by hand."""
    history = np.array([(2, 0, 2), (2, 0, 1)], _record.BATCH)
    record = _record.Record((0x0102030405060708, 2), (3, 4), 5, 0, 6, 7, 20, taken=b"\x01\x02\x08", world_size=2,
                            rank=1, history=history, turns=np.array([1, 2, 18], "<u4"))
    data = HEAD.pack(0x5352444C, 1, 0, 0x0102030405060708, 2, 3, 4, 5, 0, 6, 7, 20) + b"\x03\0\0\0\x01\x02\x08"
    return record, data + struct.pack("<3I 6I 3I", 2, 1, 2, 2, 0, 2, 2, 0, 1, 1, 2, 18)


def of_order():
    """The strict job's: first two ranks that were through 4 numbers each, then three through 1, 2 and 0."""
    record = _record.Record((0x0102030405060708, 2), (3, 4), 5, 1, 6, 7, 20, segments=((2, (4,)), (3, (1, 2, 0))),
                            world_size=3, rank=0, history=np.array([(2, 3, 0)], _record.BATCH))
    data = HEAD.pack(0x5352444C, 1, 1, 0x0102030405060708, 2, 3, 4, 5, 1, 6, 7, 20)
    return record, data + struct.pack("<I 3I 5I 3I 3I", 2, 2, 1, 4, 3, 3, 1, 2, 0, 3, 0, 1, 2, 3, 0)


def of_version():
    """The dependent job's with its dataset's version, which comes before all else."""
    record, data = of_set()
    return (record._replace(version=(8, 9, 10, 0)),
            data[:4] + b"\2\0" + data[6:8] + struct.pack("<4Q", 8, 9, 10, 0) + data[8:])


def of_copies():
    """Of copies that go to different ranks: indices 0 and 9 have had one, 19 two, and rank 2 of 3 had both of these."""
    record, data = of_set()
    record = record._replace(taken=b"\x01\x02\0\0\0\x08", copies=(3, 9, 1, 19, 2, 19, 2))
    return (record, data[:4] + b"\3\0" + data[6:8] + bytes(32) + data[8:64] + b"\x06\0\0\0" + record.taken +
            struct.pack("<8I", 3, 3, *record.copies[1:]) + data[71:])


def of_part():
    """The dependent job's without a history, as what ranks 1 and 2 of 3 took, of a dataset of no known version."""
    record, data = of_set()
    return (record._replace(world_size=0, rank=0, history=_record.NO_BATCHES, turns=_record.NO_TURNS, part=(1, 2, 3)),
            data[:4] + b"\4\0" + data[6:8] + bytes(32) + struct.pack("<3I", 1, 2, 3) + data[8:71] + bytes(12))


class Records(Case):
    def test_numbers_are_those_of_the_header(self):
        """Limits and lengths are those that common/record.h states for the daemon."""
        stated = defined("record.h", "RECORD_")
        for name in ("MAGIC", "VERSION", "VERSION_COPIES", "VERSION_KNOWN", "VERSION_OLDEST", "SEGMENTS_MAX",
                     "SETS_MAX", "RANKS_MAX", "ALL_RANKS_MAX"):
            self.assertEqual(getattr(_record, name), stated[name], name)
        self.assertEqual((_record.BATCH.itemsize, _record.TURN.itemsize), (stated["BATCH_BYTES"], stated["TURN_BYTES"]))

    def test_records_have_the_written_layout(self):
        """Both kinds become the bytes that were written down by hand, and come back from them."""
        for record, data in (of_set(), of_order(), of_version(), of_copies(), of_part()):
            self.assertEqual(_record.encode(record), data)
            self.assertEqual(_record.encode(_record.decode(data)), data)
            self.assertEqual(_record.decode(data)[:10], record[:10])
            self.assertEqual(_record.decode(data)[13:], record[13:])

    def test_foreign_bytes_are_refused_or_read(self):
        """Truncated, lengthened and mutated records raise nothing but LarderError; what is read can be encoded."""
        seed = 20240613
        print("seed", seed)
        rng = random.Random(seed)
        for _, data in (of_set(), of_order(), of_version(), of_copies(), of_part()):
            for cut in range(len(data)):
                with self.assertRaises(larder.FormatError, msg=f"cut at {cut}"):
                    _record.decode(data[:cut])
            with self.assertRaises(larder.FormatError):
                _record.decode(data + b"\0")
            for _ in range(3000):
                mutated = bytearray(data)
                for _ in range(rng.randint(1, 4)):
                    mutated[rng.randrange(len(mutated))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
                try:
                    self.assertEqual(_record.encode(_record.decode(bytes(mutated))), bytes(mutated))
                except larder.LarderError:
                    pass

    def test_what_is_beyond_a_bound_is_refused(self):
        """Each field that does not fit the others is named."""
        of = {name: (record, record._fields) for name, (record, _) in
              (("set", of_set()), ("order", of_order()), ("copies", of_copies()))}
        for kind, change, words in (
                ("set", {"taken": b"\1\2"}, "2 bytes, not 3"), ("set", {"taken": b"\0\0\x10"}, "beyond its 20 samples"),
                ("copies", {"copies": (2, 9, 1, 19, 2)}, "2 copies of 2 ranks"),
                ("copies", {"copies": (3, 9, 1, 9, 2)}, "do not fit"), ("copies", {"copies": (3, 1, 0)}, "do not fit"),
                ("copies", {"copies": (3, 19, 1, 9, 1)}, "do not fit"), ("copies", {"copies": (3,)}, "0 copies"),
                ("copies", {"copies": (3, 20, 1)}, "do not fit"), ("copies", {"copies": (257, 9, 1)}, "257 ranks"),
                ("set", {"rank": 2}, "rank 2 of 2"), ("set", {"turns": np.array([1, 2, 20], "<u4")}, "does not fit"),
                ("set", {"history": np.array([(1, 0, 2), (2, 0, 1)], _record.BATCH)}, "does not fit"),
                ("set", {"history": np.array([(2, 1, 2), (2, 0, 1)], _record.BATCH)}, "does not fit"),
                ("set", {"shuffle": 3}, "segment|kind 1 does not fit shuffle 3"),
                ("order", {"segments": ((0, (1,)),)}, "0 ranks"), ("order", {"segments": ((257, (1,)),)}, "257 ranks"),
                ("order", {"segments": ((3, (1, 2)),)}, "2 numbers"), ("order", {"segments": ((3, (21,)),)}, "21 num"),
                ("order", {"segments": ((1, (1,)), (2, (1,))) * 33}, "do not fit its fields"),
                ("order", {"history": np.array([(2, 21, 0)], _record.BATCH)}, "does not fit"),
                ("order", {"history": np.array([(2, 3, 0), (1, 2, 0)], _record.BATCH)}, "does not fit")):
            with self.subTest(kind=kind, change=change), self.assertRaisesRegex(larder.FormatError, words):
                _record.decode(_record.encode(of[kind][0]._replace(**change)))
        with self.assertRaisesRegex(larder.VersionMismatch, "format version 5"):
            _record.decode(of_set()[1][:4] + b"\5" + of_set()[1][5:])
        with self.assertRaisesRegex(larder.FormatError, "do not fit its fields"):  # no version, though it says so
            _record.decode(of_version()[1][:8] + bytes(32) + of_version()[1][40:])
        for part in ((0, 0, 3), (0, 3, 3), (2, 2, 3), (0, 1, 65537)):
            with self.assertRaisesRegex(larder.FormatError, "ranks from"):
                _record.decode(_record.encode(of_part()[0]._replace(part=part)))
        with self.assertRaisesRegex(larder.FormatError, "does not begin"):
            _record.decode(b"PK")
        with self.assertRaisesRegex(larder.LimitReached, "65537 ranks"):
            _record.encode(of_set()[0]._replace(world_size=65537))

    def test_segments_are_added(self):
        """A segment of the last one's world size takes its place; another goes behind it, as long as there is room;
        numbers that are alike become one, and none of nothing is added."""
        segments = _record.add_segment((), 2, (4, 4))
        self.assertEqual(segments, ((2, (4,)),))
        segments = _record.add_segment(segments, 3, (1, 2, 0))
        self.assertEqual(_record.add_segment(segments, 3, (5, 5, 5)), ((2, (4,)), (3, (5,))))
        self.assertEqual(_record.add_segment(segments, 1, (0,)), segments)
        segments = ((1, (1,)), (2, (1,))) * 32
        self.assertEqual(len(_record.add_segment(segments, 2, (2, 2))), 64)
        with self.assertRaisesRegex(larder.LimitReached, "64 times"):
            _record.add_segment(segments, 1, (2,))


class Histories(Case):
    def test_turns_come_together(self):
        """The base and the turns of all batches are the set, whether few or many came since it was asked for last; a
        repeat has no turn."""
        rng = random.Random(7)
        samples = 20001
        order = rng.sample(range(samples), samples)
        first, rest = order[:500], order[500:]
        bits = np.zeros(samples, bool)
        bits[first] = True
        history = History(3, False, Base(2, taken=np.packbits(bits, bitorder="little").tobytes()))
        self.assertEqual(history.after(samples), history.base)
        for size in (1, 0, 7, 64, 5000, 3, 8000):
            turns, rest = rest[:size], rest[size:]
            history.take(size + 1, 0, np.array(turns, "<u4"), False)
            bits[turns] = True
            after = history.after(samples)
            self.assertEqual(after.taken, np.packbits(bits, bitorder="little").tobytes())
        self.assertEqual((after.batches, history.since), (9, 7))
        fields = history.record(1, 0)
        self.assertEqual(fields["history"]["delivered"].tolist(), [2, 1, 8, 65, 5001, 4, 8001])
        self.assertEqual(len(fields["turns"]), 13075)
        self.assertEqual(history.dealt(samples, 1), samples - 500)

    def test_orders_go_on(self):
        """Of a fixed order the state has one number: in a segment of its own, or in the last one where that was of one
        rank already."""
        for base, expected in (((), ((1, (9,)),)), (((4, (3,)),), ((4, (3,)), (1, (9,)))),
                               (((4, (3,)), (1, (5,))), ((4, (3,)), (1, (9,))))):
            history = History(0, True, Base(6, segments=base))
            self.assertEqual(history.after(100).segments, base)
            history.take(4, 5, _record.NO_TURNS, False)
            history.take(4, 9, _record.NO_TURNS, False)
            self.assertEqual(history.after(100), Base(8, segments=expected))

    def test_the_end(self):
        """An epoch whose last batch was taken, or had nothing in it, is over; one that was restored as such too."""
        history = History(0, False)
        self.assertTrue(history.is_blank)
        history.take(3, 0, np.array([1, 2, 3], "<u4"), True)
        self.assertEqual(history.after(20), Base(1, over=True))
        other = History(0, True)
        other.end()
        self.assertTrue(other.ended and other.after(20).over and History(0, False, Base(5, over=True)).ended)

    def test_turns_that_come_several_times(self):
        """Where an epoch has samples more than once, the base counts how often each was taken, in sets: and goes on
        from there. What was taken once at most is the one set that it always was."""
        draw, samples = np.random.default_rng(5), 1003
        turns = draw.integers(0, 40, 3000).astype("<u4") * 25
        history = History(3, False, Base(2, taken=_record.sets_of(np.bincount(turns[:500], minlength=samples))), True)
        for at in range(500, 3000, 100):
            history.take(100, 0, turns[at:at + 100], False)
            wanted = np.bincount(turns[:at + 100], minlength=samples)
            taken = history.after(samples).taken
            self.assertEqual(_record.counts_of(taken, samples).tolist(), wanted.tolist())
            self.assertEqual(len(taken), int(wanted.max()).bit_length() * _record.set_bytes(samples))
        self.assertEqual(history.dealt(9000, 4, samples), 8500)
        few = np.arange(400, dtype="<u4")
        bases = []
        for counted in (True, False):
            one = History(0, False, counted=counted)
            one.take(400, 0, few, False)
            bases.append(one.after(samples))
        self.assertEqual(bases[0], bases[1])

    def test_what_is_dealt(self):
        """How many samples are left of an order is what a walk through it leaves."""
        seed = 20240614
        rng = random.Random(seed)
        for _ in range(300):
            samples, segments = rng.randrange(1, 60), []
            left = list(range(samples))
            for _ in range(rng.randrange(4)):
                ranks = rng.randrange(1, 6)
                if segments and segments[-1][0] == ranks:
                    continue
                through = tuple(rng.randrange(samples // ranks + 2) for _ in range(rng.choice((1, ranks))))
                segments.append((ranks, through))
                before, left = left, [sample for at, sample in enumerate(left) if
                                      at // ranks >= through[at % ranks if len(through) > 1 else 0]]
            history = History(0, True, Base(1, segments=tuple(segments)))
            self.assertEqual(history.dealt(samples, 7), len(left), (seed, samples, segments))
            if segments:
                self.assertEqual(history.dealt(samples, segments[-1][0]), len(before), (seed, samples, segments))


if __name__ == "__main__":
    main()
