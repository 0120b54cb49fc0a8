"""What a made sample looks like: the fields of its slot in the arena. The Python half of common/layout.c. Pure."""

import functools
import math
import re
from typing import NamedTuple

import numpy as np

from .errors import FormatError

FIELDS_MAX = 16
DIMS_MAX = 4
NAME_BYTES = 24
DTYPES = ("uint8", "float16", "float32", "int16", "uint16", "int32", "int64", "float64")
IMAGE_HWC, IMAGE_CHW, ARRAY, MASK = KINDS = range(4)

_SIZES = {dtype: np.dtype(dtype).itemsize for dtype in DTYPES}
_DIMS = {IMAGE_HWC: 3, IMAGE_CHW: 3, MASK: 2}
_DTYPES = {IMAGE_HWC: DTYPES[:3], IMAGE_CHW: DTYPES[:3], ARRAY: DTYPES, MASK: ("uint8", "int32", "int64")}
_ORDERS = {IMAGE_HWC: "HWC", IMAGE_CHW: "CHW", ARRAY: "array", MASK: "HW"}
ALONE = "image", "sound", "array"  # what a field is called that is all of a sample
_NAME = re.compile(rb"([a-z][a-z0-9_]{0,22})\0+")


_PLACE = 8    # numbers of 32 bits that a slot's head has for a field: its offset, and its dims
_ALIGN = 64  # bytes, of the fields behind a head


def head_bytes(count):
    """The length of a slot's head with so many fields."""
    return -(-4 * _PLACE * count // _ALIGN) * _ALIGN


def places(layout, slot):
    """What the head of a ragged slot, an array of its bytes, says of each field: where it begins, and its dims.
    FormatError where that cannot be."""
    if slot.size < head_bytes(len(layout)):
        raise FormatError(f"a sample has {slot.size} bytes, and no room for its head")
    numbers = slot[:4 * _PLACE * len(layout)].view("<u4").tolist()
    found = []
    for at, field in enumerate(layout):
        start, *dims = numbers[_PLACE * at:_PLACE * at + 1 + DIMS_MAX]
        rank = len(field.dims)
        dims = tuple(dims[:rank])
        size = np.dtype(field.dtype).itemsize * math.prod(dims)
        if start < head_bytes(len(layout)) or start % _ALIGN or start + size > slot.size or \
                any(dim not in (0, own) for dim, own in zip(field.dims, dims)):
            raise FormatError(f"field {field} of a sample of {slot.size} bytes is {dims} at byte {start}")
        found.append((start, dims))
    return found


class Field(NamedTuple):
    """An array at a place that is the same in every slot."""
    name: str
    kind: int
    dtype: str
    dims: tuple
    offset: int

    @property
    def bytes(self):
        return _SIZES[self.dtype] * math.prod(self.dims)

    def __str__(self):
        return f"{self.name} {self.dtype} {_ORDERS[self.kind]} of {'x'.join(str(dim or 'N') for dim in self.dims)}"


class Layout(tuple):
    """The fields in the order in which they lie; none: samples are encoded bytes of any length. Each batch asks what
    is cached."""

    def __str__(self):
        return ", ".join(map(str, self)) or "encoded bytes"

    @functools.cached_property
    def ragged(self):
        """Whether samples differ in size. Then each slot begins with a head, which says where its fields lie."""
        return any(0 in field.dims for field in self)

    @functools.cached_property
    def is_views(self):
        """Whether samples are several fields, or one view. Else the only field is called image, sound or array."""
        return len(self) > 1 or (len(self) > 0 and self[0].name not in ALONE)


def _field(name, kind, dtype, rank, *rest):
    """A field of what the wire says of it: its dims, those beyond its rank 0, and its offset."""
    dims, offset, found = rest[:DIMS_MAX], rest[DIMS_MAX], _NAME.fullmatch(name)
    if not found:
        raise FormatError(f"a field of a sample is called {name!r}")
    name = found[1].decode()
    if kind not in KINDS or dtype >= len(DTYPES) or DTYPES[dtype] not in _DTYPES[kind]:
        raise FormatError(f"field {name} of a sample is of kind {kind} and dtype {dtype}, which are not both known")
    if not 1 <= rank <= DIMS_MAX or rank != _DIMS.get(kind, rank) or any(dims[rank:]) or \
            (kind == IMAGE_CHW and not dims[0]) or (kind == IMAGE_HWC and not dims[2]):
        raise FormatError(f"field {name} of a sample is one with {rank} dims, {dims}")
    return Field(name, kind, DTYPES[dtype], dims[:rank], offset)


def read(rows, sample_bytes):
    """The layout that rows of the wire's numbers describe. FormatError where it is not sound."""
    fields, end = Layout(_field(*row) for row in rows), 0
    if fields.ragged:
        if any(field.offset for field in fields) or sample_bytes < head_bytes(len(fields)):
            raise FormatError(f"samples differ in size ({fields}), and have offsets, or take {sample_bytes} bytes")
        end = sample_bytes
    for field in () if fields.ragged else fields:
        size = np.dtype(field.dtype).itemsize
        if field.offset < end or field.offset % size:
            raise FormatError(f"field {field.name} of a sample begins at byte {field.offset}, in another one, or not "
                              f"at a multiple of {size}")
        end = field.offset + field.bytes
    if fields and end != sample_bytes:
        raise FormatError(f"the fields of a sample of {sample_bytes} bytes end at byte {end}")
    if len({field.name for field in fields}) != len(fields):
        raise FormatError(f"two fields of a sample have one name: {fields}")
    return fields
