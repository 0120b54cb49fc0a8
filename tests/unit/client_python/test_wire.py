"""The Python codec: what it packs is common/wire.c's layout, and foreign bytes never do worse than a LarderError."""

import os
import random
import re
import struct

import numpy as np
from support import PACKAGE, Case, larder, main
from larder import _layout, _wire
import fake_daemon as fake


def registered(sample_bytes, *fields, n=None):
    numbers = struct.pack("<7I5Q2I4Q", 1, 20, 4, 2, 4, 0, 0, sample_bytes, 8, 9, 10, 11, 25,
                          len(fields) if n is None else n, 12, 13, 14, 15)
    return fake.message(fake.REGISTERED, 2, numbers + b"".join(fields) + fake.text(b"me"))


def samples():
    entry = struct.pack("<QIIIi", 4096, 72, 7, 3, 1)
    yield fake.message(fake.WELCOME, 1, struct.pack("<QII", 1 << 20, 42, 8192))
    yield registered(72, fake.field(b"image", 0, 0, (4, 6, 3)))
    yield fake.message(fake.CLASSES, 3, struct.pack("<III", 0, 2, 2) + fake.text(b"\x03\0cat\x03\0dog"))
    yield fake.message(fake.BATCH, 0, struct.pack("<QIIIIIId", 1, 0, 0, 1, 2, 3, 6, 2.5) + entry * 2)
    yield fake.message(fake.ERROR, 4, struct.pack("<iI", -4, 1) + fake.text("kein Ordner: ü".encode()))
    yield fake.message(fake.TURNS, 0, struct.pack("<QI4I", 1, 2, 0, 7, 5, _wire.TURN_NONE))
    yield fake.message(fake.STATE, 5, struct.pack("<I", 300))
    yield fake.message(_wire.COLUMN, 6, struct.pack("<IIQQ", 2, 1, 25, 300))


def defined(name, prefix):
    """The numbers that a header of common/ defines, by their names without the prefix: of #define, and of enums."""
    with open(os.path.join(PACKAGE, "..", "..", "common", name)) as file:
        text = file.read()
    found = re.findall(
        rf"(?:#define {prefix}(\w+) |^ +{prefix}(\w+) = )(?:UINT32_C\()?(0x[0-9a-f]+|[0-9.]+)", text, re.M)
    return {one or other: float(value) if "." in value else int(value, 0) for one, other, value in found}


class Wire(Case):
    def test_numbers_are_those_of_the_headers(self):
        """Each limit, type and flag that the package states is the one that common/ states for the daemon."""
        stated = defined("wire.h", "WIRE_")
        for name in ("MAGIC", "VERSION", "VERSION_OLDEST", "REQUEST_MAX", "REPLY_MAX", "BATCH_MAX", "CREDITS_MAX",
                     "NAME_MAX", "PATH_MAX", "SPEC_MAX", "HELLO", "WELCOME", "REGISTER", "REGISTERED", "CLASSES_GET",
                     "CLASSES", "NEXT", "BATCH", "RELEASE", "ERROR", "BYE", "TURNS", "STATE_GET", "STATE", "COLUMN_GET",
                     "COLUMN", "COLUMN_MAX", "WIDTH_MAX", "DROP_LAST",
                     "RELABEL", "PRIVATE_AUGMENT", "ORDERED", "ALL_FILES", "HOLD", "WITH_STATE", "AHEAD"):
            self.assertEqual(getattr(_wire, name), stated[name], name)
        self.assertEqual(_wire.ENTRY.itemsize, stated["ENTRY_BYTES"])
        self.assertEqual(_wire.TURN.itemsize, stated["TURN_BYTES"])
        self.assertEqual(_wire._FIELD.size, stated["FIELD_BYTES"])
        self.assertEqual(_wire._HEADER.size, stated["HEADER_BYTES"])
        layout = defined("layout.h", "SAMPLE_")
        self.assertEqual((_layout.FIELDS_MAX, _layout.DIMS_MAX, _layout.NAME_BYTES),
                         (layout["FIELDS_MAX"], layout["DIMS_MAX"], layout["NAME_BYTES"]))
        weights = defined("types.h", "JOB_WEIGHT_")
        self.assertEqual((_wire.WEIGHT_MIN, _wire.WEIGHT_MAX), (weights["MIN"], weights["MAX"]))

    def test_requests_have_the_layout_of_wire_c(self):
        """Each request equals bytes written down by hand from common/wire.c."""
        self.assertEqual(_wire.hello(1, 258, b"py"),
                         bytes.fromhex("4c445231 0d00 0100 01000000 1a000000 02010000 02000000") + b"py")
        self.assertEqual(_wire.next_batches(3, 2),
                         bytes.fromhex("4c445231 0d00 0700 00000000 1c000000 03000000 02000000 ffffffff"))
        self.assertEqual(_wire.next_batches(3, 0, 2),
                         bytes.fromhex("4c445231 0d00 0700 00000000 1c000000 03000000 00000000 02000000"))
        self.assertEqual(_wire.release(5), bytes.fromhex("4c445231 0d00 0900 00000000 18000000 0500000000000000"))
        self.assertEqual(_wire.bye(), bytes.fromhex("4c445231 0d00 0b00 00000000 10000000"))
        job = _wire.Register(1, 2, 3, 0, 4, 1, 2, 1, 9, 2.5, 2, 0, 1, 3, 0, 1, 7, b"n", b"/d", b"[]", b"", b"", b"")
        packed = _wire.register(2, job)
        self.assertEqual(packed[16:96], struct.pack("<8IQd4IQ2I", 1, 2, 3, 0, 4, 1, 2, 1, 9, 2.5, 2, 0, 1, 3, 0, 1, 7))
        self.assertEqual(packed[96:], b"\1\0\0\0n\2\0\0\0/d\2\0\0\0[]\0\0\0\0")
        with_state = _wire.register(2, job, with_state=True)
        self.assertEqual(with_state[16:88],
                         struct.pack("<8IQd4IQ", 1, 2, 3, 0, 4, 1, 2, 1 | 64, 9, 2.5, 2, 0, 1, 3, 0))
        self.assertEqual(with_state[88:], packed[88:])
        flags, = struct.unpack_from("<I", _wire.register(2, job._replace(sets=b"x"), with_state=True), 16 + 28)
        self.assertEqual(flags, 1 | 64 | 128)
        flags, = struct.unpack_from("<I", _wire.register(2, job._replace(weights=b"x")), 16 + 28)
        self.assertEqual(flags, 1 | 1024)
        self.assertEqual(_wire.state_get(9, 3, 17, 10000), bytes.fromhex(
            "4c445231 0d00 0d00 09000000 1c000000 03000000 11000000 10270000"))
        self.assertEqual(_wire.column_get(9, b"txt"), bytes.fromhex("4c445231 0d00 1000 09000000 17000000 03000000") +
                         b"txt")

    def test_replies_are_read(self):
        """Every kind of reply comes back with the values it was packed from."""
        welcome, registered, classes, batch, error, turns, state, column = (_wire.decode(data)[2] for data in samples())
        self.assertEqual(welcome, (1 << 20, 42, 8192))
        self.assertEqual((registered.held_max, registered.sample_bytes, registered.fingerprint, registered.name),
                         (4, 72, (8, 9), "me"))
        self.assertEqual((registered.view, registered.dataset_samples, registered.version),
                         ((10, 11), 25, (12, 13, 14, 15)))
        self.assertEqual(registered.layout, (("image", _layout.IMAGE_HWC, "uint8", (4, 6, 3), 0),))
        self.assertEqual(classes.names, ["cat", "dog"])
        self.assertTrue(batch.last)
        self.assertEqual((batch.lost, batch.through, batch.weight), (3, 6, 2.5))
        self.assertEqual(batch.entries["label"].tolist(), [1, 1])
        self.assertEqual((error.code, error.fatal, error.text), (-4, True, "kein Ordner: ü"))
        self.assertEqual((turns.batch, turns.turns.tolist()), (1, [(0, 7), (5, _wire.TURN_NONE)]))
        self.assertEqual(state.n_bytes, 300)
        self.assertEqual(column, (_wire.TEXT, 1, 25, 300))

    def test_columns_that_cannot_be(self):
        """Kinds, widths and lengths that do not fit each other are refused."""
        for numbers in ((3, 1, 2, 16), (0, 0, 2, 0), (0, 65537, 1, 524296), (0, 2, 2, 24), (1, 1, 2, 24), (2, 2, 2, 24),
                        (2, 1, 2, 16), (0, 1, 2**63, 16)):
            with self.assertRaises(larder.FormatError, msg=numbers):
                _wire.decode(fake.message(_wire.COLUMN, 6, struct.pack("<IIQQ", *numbers)))

    def test_layouts_are_read(self):
        """Fields come by name, type, dims and place, as many as there may be; without any, samples are bytes."""
        fields = [fake.field(b"%c_%d" % (97 + i, i), i % 2, i % 3, (1, 2, 2), 16 * i) for i in range(16)]
        layout = _wire.decode(registered(16 * 15 + 4, *fields))[2].layout
        self.assertEqual([(field.name, field.kind, field.dtype, field.offset) for field in layout],
                         [(f"{chr(97 + i)}_{i}", i % 2, _layout.DTYPES[i % 3], 16 * i) for i in range(16)])
        self.assertEqual({field.dims for field in layout}, {(1, 2, 2)})
        self.assertIn("a_0 uint8 HWC of 1x2x2, b_1 float16 CHW of 1x2x2, c_2", str(layout))
        self.assertEqual(_wire.decode(registered(7))[2].layout, ())
        sound = _wire.decode(registered(40, fake.field(b"sound", _layout.ARRAY, 3, (2, 10))))[2].layout
        self.assertEqual((str(sound), sound.is_views), ("sound int16 array of 2x10", False))
        long = b"a" * 23
        found = _wire.decode(registered(1, fake.field(long, 0, 0, (1, 1, 1))))[2].layout
        self.assertEqual(found[0].name, long.decode())
        found = _wire.decode(registered(48, fake.field(b"mask", _layout.MASK, 6, (2, 3))))[2].layout
        self.assertEqual(str(found), "mask int64 HW of 2x3")

    def test_ragged_layouts(self):
        """A dim of 0 differs from sample to sample; the head of each slot has it, and where its field lies."""
        fields = fake.field(b"image", 0, 0, (0, 0, 3)), fake.field(b"boxes", 2, 2, (0, 4))
        layout = _wire.decode(registered(1000, *fields))[2].layout
        self.assertTrue(layout.ragged)
        self.assertEqual(str(layout), "image uint8 HWC of NxNx3, boxes float32 array of Nx4")
        slot = np.zeros(256, np.uint8)

        def head(*numbers):
            slot[:64].view("<u4")[:] = [*numbers[:5], 0, 0, 0, *numbers[5:], 0, 0, 0]
            return _layout.places(layout, slot)

        self.assertEqual(head(64, 2, 5, 3, 0, 128, 0, 4, 0, 0), [(64, (2, 5, 3)), (128, (0, 4))])
        self.assertEqual(head(64, 8, 8, 3, 0, 64, 12, 4, 0, 0)[1], (64, (12, 4)))
        for wrong in ((0, 2, 5, 3, 0), (32, 2, 5, 3, 0), (65, 2, 5, 3, 0), (64, 2, 5, 4, 0), (64, 13, 5, 3, 0),
                      (256, 1, 1, 3, 0), (2**32 - 64, 1, 1, 3, 0), (64, 2**32 - 1, 2**32 - 1, 3, 0)):
            with self.assertRaises(larder.FormatError, msg=wrong):
                head(*wrong, 128, 0, 4, 0, 0)
        with self.assertRaises(larder.FormatError):
            _layout.places(layout, slot[:63])

    def test_layouts_that_cannot_be(self):
        """Names, kinds, types, dims and places that are not sound are refused, each for itself."""
        one, image = (1, 1, 1), fake.field(b"image", 0, 0, (1, 2, 3))
        for words, sample_bytes, *fields in (
                ("is called", 1, fake.field(b"", 0, 0, one)), ("is called", 1, fake.field(b"Mask", 0, 0, one)),
                ("is called", 1, fake.field(b"2d", 0, 0, one)), ("is called", 1, fake.field(b"a" * 24, 0, 0, one)),
                ("is called", 1, fake.field(b"a\0b", 0, 0, one)), ("is called", 1, fake.field(b"a-b", 0, 0, one)),
                ("not both known", 1, fake.field(b"a", 4, 0, one)), ("not both known", 1, fake.field(b"a", 0, 8, one)),
                ("not both known", 2, fake.field(b"a", 0, 3, one)),
                ("with 3 dims", 1, fake.field(b"a", 3, 0, one)),
                ("not both known", 2, fake.field(b"a", 3, 1, (1, 1))),
                ("with 2 dims", 1, fake.field(b"a", 0, 0, (1, 1))), ("with 0 dims", 1, fake.field(b"a", 0, 0, ())),
                ("with 4 dims", 1, fake.field(b"a", 0, 0, (1, 1, 1, 1))),
                ("with 5 dims", 1, fake.field(b"a", 0, 0, one, rank=5)),
                ("with 3 dims", 1, fake.field(b"a", 0, 0, (1, 1, 1, 1), rank=3)),
                ("with 3 dims", 1, fake.field(b"a", 0, 0, (1, 1, 0))),
                ("with 3 dims", 1, fake.field(b"a", 1, 0, (0, 1, 1))),
                ("differ in size", 63, fake.field(b"a", 0, 0, (1, 0, 1))),
                ("differ in size", 99, fake.field(b"a", 0, 0, (0, 0, 1)), fake.field(b"b", 2, 0, (1,), 64)),
                ("with 0 dims", 2, fake.field(b"a", 2, 3, ())),
                ("with 5 dims", 2, fake.field(b"a", 2, 3, one, rank=5)),
                ("end at byte 6", 5, image), ("end at byte 6", 7, image),
                ("begins at byte 5", 8, image, fake.field(b"b", 0, 0, one, 5)),
                ("begins at byte 7", 9, image, fake.field(b"b", 0, 1, one, 7)),
                ("begins at byte 0", 7, fake.field(b"b", 0, 0, one, 6), image),
                ("have one name", 12, image, fake.field(b"image", 0, 0, (1, 2, 3), 6))):
            with self.assertRaisesRegex(larder.FormatError, words):
                _wire.decode(registered(sample_bytes, *fields))
        for n in (0, 2, 17, 2**32 - 1):
            with self.assertRaises(larder.FormatError, msg=n):
                _wire.decode(registered(6, image, n=n))

    def test_foreign_bytes_are_refused_or_read(self):
        """Truncated, lengthened and mutated replies raise nothing but LarderError."""
        seed = 20240501
        rng = random.Random(seed)
        for data in samples():
            for cut in range(len(data)):
                with self.assertRaises(larder.LarderError, msg=f"cut at {cut}"):
                    _wire.decode(data[:cut])
            with self.assertRaises(larder.FormatError):
                _wire.decode(data + b"\0")
            for _ in range(3000):
                mutated = bytearray(data)
                for _ in range(rng.randint(1, 4)):
                    mutated[rng.randrange(len(mutated))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
                struct.pack_into("<I", mutated, 12, len(mutated))
                try:
                    _wire.decode(mutated)
                except larder.LarderError:
                    pass
                except Exception as error:
                    self.fail(f"seed {seed}: {bytes(mutated)!r} raised {error!r}")

    def test_another_version_is_named(self):
        """A daemon of another version is told apart from garbage."""
        with self.assertRaisesRegex(larder.VersionMismatch, "version 99"):
            _wire.decode(fake.message(fake.WELCOME, 1, bytes(16), version=99))

    def test_an_older_refusal_is_read(self):
        """A daemon of the release before can refuse, and its text is read; nothing else of it is."""
        body = struct.pack("<iI", -4, 1) + fake.text(b"older")
        self.assertEqual(_wire.decode(fake.message(fake.ERROR, 1, body, version=4))[2].text, "older")
        with self.assertRaisesRegex(larder.VersionMismatch, "version 4"):
            _wire.decode(fake.message(fake.WELCOME, 1, struct.pack("<QII", 1 << 20, 42, 8192), version=4))
        with self.assertRaisesRegex(larder.VersionMismatch, "version 3"):
            _wire.decode(fake.message(fake.ERROR, 1, body, version=3))

    def test_turns_ascend_within_a_batch(self):
        """TURNS without a turn, with positions that do not ascend, or beyond the greatest batch, are refused."""
        for turns in ((), (0, 7, 0, 8), (1, 7, 0, 8), (_wire.BATCH_MAX, 0)):
            with self.assertRaises(larder.FormatError, msg=turns):
                _wire.decode(fake.message(fake.TURNS, 0, struct.pack(f"<QI{len(turns)}I", 1, len(turns) // 2, *turns)))

    def test_texts_too_long_are_refused_here(self):
        """What the daemon would refuse for its length fails before it is sent, with the name of the field."""
        job = _wire.Register(1, 1, 1, 0, 0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0, b"", b"/d", b" " * 24577, b"",
                             b"", b"")
        with self.assertRaisesRegex(larder.LimitReached, "pipeline has 24577 bytes"):
            _wire.register(1, job)
        with self.assertRaisesRegex(larder.InvalidArgument, "dataset holds a NUL"):
            _wire.register(1, job._replace(pipeline=b"", dataset=b"a\0b"))


if __name__ == "__main__":
    main()
