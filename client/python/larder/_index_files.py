"""Containers that larder.index reads by itself: zip, MDS, TFRecord."""

import json
import os
import re
import struct
import zipfile

from ._places import (IMAGE_NAMES, IMAGES, LABEL_NAMES, Fail, Place, Refused, chosen, first_bytes, is_image, mapped)
from .errors import InvalidArgument

# ── zip ──

_LOCAL = struct.Struct("<4s5H3L2H")  # a member's own header, before its name


def is_zip(paths):
    return all(zipfile.is_zipfile(path) for path in paths if os.path.isfile(path)) and all(map(os.path.isfile, paths))


def zips(paths, image, label):
    """The members that are images, in the order of the archive. The label is the name of a member's folder, below what
    all have in common, as ImageFolder has it."""
    del image, label
    for path in paths:
        try:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.infolist() if member.filename.lower().endswith(IMAGES)]
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as why:
            raise Fail(f"{path} is no sound zip: {why}") from None
        yield from _members(path, sorted(members, key=lambda member: member.header_offset))


def _members(path, members):
    common = os.path.commonpath([os.path.dirname(member.filename) for member in members]) if members else ""
    below = [member.filename[len(common) + 1 if common else 0:] for member in members]
    classes = [name.partition("/")[0] for name in below] if all("/" in name for name in below) else None
    with open(path, "rb") as file:
        for number, member in enumerate(members):
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                how = "encrypted" if member.flag_bits & 1 else "compressed"
                raise Refused(f"{path} has {member.filename!r} {how}, so no range of the archive is the image",
                              "Images do not become smaller by that: make the archive with zip -0")
            file.seek(max(member.header_offset, 0))
            header = file.read(_LOCAL.size)
            if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
                raise Fail(f"{path} has no member at byte {member.header_offset}, where {member.filename!r} should be")
            *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
            yield Place(path, member.header_offset + _LOCAL.size + name_bytes + extra_bytes, member.file_size,
                        member.CRC, None, member.filename, classes and classes[number])


# ── MDS ──

_MDS_IMAGES = ("jpeg", "png", "bytes", "pil")
_MDS_NUMBERS = {"int": "q", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
                "uint32": "I", "uint64": "Q"}


def is_mds(paths):
    index = os.path.join(paths[0], "index.json")
    return len(paths) == 1 and os.path.isfile(index) and b'"shards"' in first_bytes(index, 1 << 20)


def mds(paths, image, label):
    """The samples of a folder of MDS shards: u32 samples, u32 offsets, and at each of these the lengths of the columns
    that have no fixed one, and the columns."""
    for folder in paths:
        for name, compression, columns in _mds_index(os.path.join(folder, "index.json")):
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                raise Refused(f"{path} is not there" + (f", its shard is compressed ({compression})" if compression
                                                        else ""))
            yield from _mds_shard(path, columns, image, label)


def _mds_index(path):
    """The name, the compression and the columns of each shard; these are names, encodings and sizes."""
    try:
        with open(path, encoding="utf-8") as file:
            shards = json.load(file)["shards"]
        for shard in shards:
            if shard["format"] != "mds":
                raise InvalidArgument(f"{path} has shards of format {shard['format']!r}, and not mds")
            name, columns = shard["raw_data"]["basename"], (shard["column_names"], shard["column_encodings"],
                                                            shard["column_sizes"])
            if not isinstance(name, str) or "/" in name or len(set(map(len, columns))) != 1 or \
                    not all(size is None or size >= 0 for size in columns[2]):
                raise TypeError
            yield name, shard.get("compression"), columns
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError):
        raise Fail(f"{path} is not the index of MDS shards") from None


def _mds_shard(path, columns, image, label):
    names, kinds, sizes = columns
    image = chosen(path, "column", image, names, (*IMAGE_NAMES, *(name for name, kind in zip(names, kinds)
                                                                  if kind in _MDS_IMAGES)))
    label = chosen(path, "column", label, names, LABEL_NAMES)
    kind = kinds[names.index(image)] if image else None
    if kind not in _MDS_IMAGES:
        raise Refused(f"{path} has no column of images (of encoding {', '.join(_MDS_IMAGES)}): {image!r} is {kind}")
    with mapped(path) as data:
        try:
            count, = struct.unpack_from("<I", data)
            offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
            for number in range(count):
                lie = _mds_columns(data, offsets[number], names, sizes)
                if max(at + size for at, size in lie.values()) > len(data):
                    raise struct.error
                value = _mds_label(data, *lie[label], kinds[names.index(label)]) if label else None
                yield _mds_image(path, data, *lie[image], kind)._replace(key=str(number), label=value)
        except struct.error:
            raise Fail(f"{path} ends where its index says that samples are") from None


def _mds_columns(data, at, names, sizes):
    """Where each column of a sample lies: its offset and length."""
    lengths = struct.unpack_from(f"<{sizes.count(None)}I", data, at)
    at += 4 * len(lengths)
    lengths, columns = iter(lengths), {}
    for name, size in zip(names, sizes):
        size = next(lengths) if size is None else size
        columns[name] = at, size
        at += size
    return columns


def _mds_image(path, data, at, size, kind):
    if kind != "pil":
        return Place(path, at, size)
    width, height, mode_bytes = struct.unpack_from("<3I", data, at)
    mode = bytes(data[at + 12:at + 12 + mode_bytes])
    if mode not in (b"RGB", b"L"):
        raise Refused(f"{path} has an image of mode {mode.decode('ascii', 'replace')} at byte {at}, and pixels are RGB "
                      "or L")
    return Place(path, at + 12 + mode_bytes, size - 12 - mode_bytes,
                 raw=f"{height}x{width}x{3 if mode == b'RGB' else 1}")


def _mds_label(data, at, size, kind):
    if kind in _MDS_NUMBERS:
        return struct.unpack_from("<" + _MDS_NUMBERS[kind], data, at)[0]
    if kind in ("str", "str_int"):
        text = bytes(data[at:at + size]).decode("utf-8", "surrogateescape")
        return int(text) if kind == "str_int" else text
    raise InvalidArgument(f"labels of encoding {kind!r} are neither whole numbers nor texts: name another column by "
                          "label=")


# ── TFRecord ──

_RECORD = struct.Struct("<QI")  # length, and its CRC
_NAMED_RECORDS = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE)  # but not a list, tfrecords.csv


def is_tfrecord(paths):
    """A first record that is whole, and begins with the features of a tf.Example."""
    if not all(map(os.path.isfile, paths)):
        return False
    for path in paths:
        start = first_bytes(path, _RECORD.size + 1)
        if len(start) <= _RECORD.size or start[_RECORD.size:] != b"\n":
            return bool(_NAMED_RECORDS.search(path))
        length, _ = _RECORD.unpack_from(start)
        if _RECORD.size + length + 4 > os.path.getsize(path):
            return False
    return True


def tfrecords(paths, image, label):
    """The images of tf.Examples, in their order."""
    for path in paths:
        if first_bytes(path, 2) == b"\x1f\x8b":
            raise Refused(f"{path} is compressed (gzip), so no range of it is an image", "Decompress it (gunzip)")
        with mapped(path) as data:
            at, number = 0, 0
            while at < len(data):
                if at + _RECORD.size > len(data):
                    raise Fail(f"{path} ends within a record, at byte {at}")
                start, length = at + _RECORD.size, _RECORD.unpack_from(data, at)[0]
                at = start + length + 4
                if at > len(data):
                    raise Fail(f"{path} ends within a record, at byte {start - _RECORD.size}")
                try:
                    place = _example(path, data, dict(_features(data, start, start + length)), image, label)
                except (IndexError, TypeError, _NoMessage):
                    raise Fail(f"{path} has no tf.Example at byte {start}") from None
                yield place._replace(key=str(number))
                number += 1


def _example(path, data, features, image, label):
    image = chosen(path, "feature", image, list(features), IMAGE_NAMES)
    label = chosen(path, "feature", label, list(features), LABEL_NAMES)
    kind, at, end = features[image] if image else (None, 0, 0)
    if kind != "bytes" or not is_image(data[at:at + 12]):
        raise Refused(f"{path} has no encoded image in the feature {image!r} (there are "
                      f"{', '.join(map(repr, features))})", "Name the one that has by image=")
    text = features.get("image/class/text", (None,))
    return Place(path, at, end - at, label=_feature_value(data, *features[label]) if label else None,
                 class_=_feature_value(data, *text) if text[0] == "bytes" else None)


def _feature_value(data, kind, at, end):
    if kind == "bytes":
        return bytes(data[at:end]).decode("utf-8", "surrogateescape")
    if kind != "int64" or at >= end:
        raise InvalidArgument("a feature of labels is neither whole numbers nor texts: name another by label=")
    number, _ = _varint(data, at)
    return number - (1 << 64) if number >> 63 == 1 else number


class _NoMessage(Exception):
    """Bytes that are no message of Protocol Buffers."""


# Protocol Buffers, as far as tf.Example needs them: fields of a message, each (number, value, where it ends), where the
# value of one that has a length is where it lies.

def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & (1 << 64) - 1, at
        if shift > 63:
            raise _NoMessage


def _fields(data, at, end):
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value = at, at + size
            at += size
        elif kind in (1, 5):
            value = at
            at += 8 if kind == 1 else 4
        else:
            raise _NoMessage
        if at > end:
            raise _NoMessage
        yield tag >> 3, value


def _features(data, at, end):
    """The features of an Example: (name, (kind, where its first value lies, where that ends))."""
    for number, value in _fields(data, at, end):
        for _, entry in _fields(data, *value) if number == 1 else ():
            name, kind = None, (None, 0, 0)
            for field, inner in _fields(data, *entry):
                if field == 1:
                    name = bytes(data[slice(*inner)]).decode("utf-8", "surrogateescape")
                elif field == 2:
                    kind = _first_value(data, *inner)
            yield name, kind


def _first_value(data, at, end):
    for kind, held in _fields(data, at, end):
        for number, value in _fields(data, *held):
            if number != 1:
                continue
            if kind == 1:
                return "bytes", *value
            if kind == 3:  # packed, as all write it, or a number alone
                return ("int64", *value) if isinstance(value, tuple) else ("int64", held[0] + 1, held[1])
            return "float", 0, 0
    return None, 0, 0
