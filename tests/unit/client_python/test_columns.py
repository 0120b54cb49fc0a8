"""Columns as a daemon passes them: read where they are what they say, and refused where they are not, before anything
of them is believed."""

import fcntl
import os
import struct

import numpy as np
from support import Case, larder, main

from larder import _columns, _wire

ADD_SEALS, SEALED = 1033, 1 | 2 | 4 | 8


def column(kind, width, count, content, claimed=None, seals=SEALED):
    """What _columns.read makes of a memfd of this content, which may claim another length."""
    fd = os.memfd_create("column", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, content)
        fcntl.fcntl(fd, ADD_SEALS, seals)
        message = _wire.ColumnMessage(kind, width, count, len(content) if claimed is None else claimed)
        return _columns.read("/daemon", message, fd)
    finally:
        os.close(fd)


def texts(*values):
    offsets = np.cumsum([0, *map(len, values)])
    return offsets.astype("<i8").tobytes() + b"".join(values)


class Columns(Case):
    def test_read(self):
        """Numbers, vectors and texts; none of them; what is given is there after the descriptor was closed."""
        whole = column(_wire.INT64, 1, 3, struct.pack("<3q", 1, -2, 2**63 - 1))
        self.assertEqual((whole.dtype, whole.tolist()), (np.int64, [1, -2, 2**63 - 1]))
        real = column(_wire.FLOAT64, 2, 2, struct.pack("<4d", 0.1, 2, 3, 4))
        self.assertEqual((real.shape, real.tolist()), ((2, 2), [[0.1, 2], [3, 4]]))
        self.assertEqual(column(_wire.INT64, 1, 0, b"").tolist(), [])
        for array in (whole, real):
            with self.assertRaises(ValueError):
                array[0] = 1
        values = ["a", "", "\u00e4\0b", "\udcff"]
        found = column(_wire.TEXT, 1, 4, texts(*(os.fsencode(value) for value in values)))
        self.assertEqual((len(found), list(found), found[1:3], found[-1]), (4, values, values[1:3], values[-1]))
        self.assertEqual(list(column(_wire.TEXT, 1, 0, texts())), [])
        with self.assertRaises(IndexError):
            found[4]

    def test_refused(self):
        """Memory that may become shorter or another, that is not as long as it is said to be, and texts that reach
        outside."""
        numbers, words = struct.pack("<2q", 1, 2), texts(b"a", b"bc")
        for seals in (0, SEALED & ~2, SEALED & ~8):
            with self.assertRaisesRegex(larder.FormatError, "not what it says"):
                column(_wire.INT64, 1, 2, numbers, seals=seals)
        for content in (numbers + b"x", numbers[:-1], b""):
            with self.assertRaisesRegex(larder.FormatError, "not what it says"):
                column(_wire.INT64, 1, 2, content, 16)
        for offsets in ((0, 2, 1), (1, 1, 3), (0, 1, 2), (0, 1, 4), (0, -1, 3), (0, 2**62, 3)):
            with self.assertRaisesRegex(larder.FormatError, "beyond their column"):
                column(_wire.TEXT, 1, 2, struct.pack("<3q", *offsets) + words[24:])


if __name__ == "__main__":
    main()
