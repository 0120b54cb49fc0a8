"""Containers that larder.index reads by their own libraries: Parquet, LMDB, HDF5."""

import json
import os
import struct

from ._places import (IMAGE_NAMES, LABEL_NAMES, Fail, Place, Refused, chosen, first_bytes, is_image, library, mapped,
                      rows_of)
from .errors import InvalidArgument

# ── Parquet ──


def is_parquet(paths):
    return all(first_bytes(path, 4) == b"PAR1" for path in paths)


def parquet(paths, image, label):
    """The images of a column of bytes, or of the Hub's struct of bytes and path. Pyarrow reads the values; each is then
    found in its column's bytes, which are those of the file where nothing is compressed."""
    reader, arrow = library("pyarrow.parquet", "pyarrow"), library("pyarrow")
    for path in paths:
        try:
            yield from _parquet_file(path, reader, image, label)
        except (arrow.ArrowException, OSError) as why:
            raise Fail(f"{path}: {why}") from None


def _parquet_file(path, reader, image, label):
    with reader.ParquetFile(path) as file, mapped(path) as data:
        names = file.schema_arrow.names
        column = chosen(path, "column", image, names, IMAGE_NAMES)
        of_label = chosen(path, "column", label, names, LABEL_NAMES)
        if column is None:
            raise InvalidArgument(f"{path} has no column that is called image, or the like: name it by image= "
                                  f"(there are {', '.join(map(repr, names))})")
        classes = _hub_classes(file.schema_arrow, of_label)
        number = 0
        for group in range(file.num_row_groups):
            for at, size, value in _parquet_group(path, file, data, group, column, of_label):
                yield Place(path, at, size, key=str(number), label=value,
                            class_=classes[value] if classes and isinstance(value, int) and
                            0 <= value < len(classes) else None)
                number += 1


def _hub_classes(schema, label):
    """The names that the Hub's metadata has for a column's numbers; None."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        names = features[label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return names if isinstance(names, list) else None


def _parquet_group(path, file, data, group, column, label):
    """(offset, length, label) of each image of a row group."""
    metadata = file.metadata.row_group(group)
    chunks = [metadata.column(i) for i in range(metadata.num_columns)]
    chunk = next((one for one in chunks if one.path_in_schema in (column, column + ".bytes")), None)
    if chunk is None:
        raise Refused(f"{path} has no bytes in its column {column!r}")
    if chunk.compression != "UNCOMPRESSED":
        raise Refused(f"{path} has its images in pages that are compressed ({chunk.compression}), so no range of it is "
                      "an image")
    table = file.read_row_group(group, columns=[chunk.path_in_schema] + ([label] if label else []))
    images = table.column(column)
    labels = table.column(label).to_pylist() if label else [None] * len(images)
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    end, at = first + chunk.total_compressed_size, first
    for value, number in zip(images, labels):
        value = value.as_py()
        value = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(value, bytes):
            raise Refused(f"{path} has no bytes in a row of its column {column!r}")
        stored = struct.pack("<I", len(value)) + value
        found = data.find(stored, at, end)
        if found < 0:  # a value that came before, of a page that has each once
            found = data.find(stored, first, end)
        if found < 0:
            raise Refused(f"{path} has its images encoded ({', '.join(chunk.encodings)}), so no range of it is one")
        at = max(at, found + len(stored))
        yield found + 4, len(value), number


# ── LMDB ──

_LMDB_MAGIC = struct.pack("<I", 0xBEEFC0DE)


def _lmdb_file(path):
    return os.path.join(path, "data.mdb") if os.path.isdir(path) else path


def is_lmdb(paths):
    return all(first_bytes(_lmdb_file(path), 20)[16:] == _LMDB_MAGIC for path in paths)


def lmdbs(paths, image, label):
    """The values that are images, in the order of their keys. A value lies in the map of the file as it is, so its
    place is its address less the map's."""
    del image, label
    lmdb = library("lmdb")
    for path in paths:
        file = os.path.realpath(_lmdb_file(path))
        images = others = 0
        try:
            with lmdb.open(path, subdir=os.path.isdir(path), readonly=True, lock=False) as environment, \
                    environment.begin(buffers=True) as transaction, open(file, "rb") as held:
                start, size = _map_of(file), os.path.getsize(file)
                for key, value in transaction.cursor():
                    if not is_image(value):
                        others += 1
                        continue
                    images += 1
                    at = _address(value) - start
                    if not 0 <= at <= size - len(value) or os.pread(held.fileno(), 12, at) != bytes(value[:12]):
                        raise Fail(f"{file} was written to while it was indexed")
                    yield Place(file, at, len(value), key=bytes(key).decode("utf-8", "surrogateescape"))
        except lmdb.Error as why:
            raise Fail(f"{file}: {why}") from None
        if others and not images:
            raise Refused(f"{file} has {others} values, and none is an image file: pickles, perhaps")


def _address(value):
    import numpy as np
    return np.frombuffer(value, np.uint8).ctypes.data


def _map_of(file):
    """The address of the file's first byte in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[5] == file:
                return int(fields[0].partition("-")[0], 16) - int(fields[2], 16)
    raise Fail(f"{file} is not mapped by the lmdb library")


# ── HDF5 ──

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(paths):
    return all(first_bytes(path, 8) == _HDF5_MAGIC for path in paths)


def hdf5(paths, image, label):
    """A contiguous dataset of pixels a file."""
    h5py = library("h5py")
    for path in paths:
        try:
            yield from _hdf5_file(path, h5py, image, label)
        except (OSError, RuntimeError, KeyError) as why:
            raise Fail(f"{path}: {why}") from None


def _hdf5_file(path, h5py, image, label):
    with h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, held: names.append(name) if isinstance(held, h5py.Dataset) else None)
        name = chosen(path, "dataset", image, names, IMAGE_NAMES)
        if name is None:
            raise InvalidArgument(f"{path} has no dataset that is called images, or the like: name it by image= "
                                  f"(there are {', '.join(map(repr, names))})")
        held = file[name]
        offset = held.id.get_offset() if held.chunks is None and not held.is_virtual else None
        if held.dtype != "uint8" or held.ndim not in (3, 4):
            raise Refused(f"{path} has in {name!r} {held.dtype} of shape {held.shape}, and pixels are uint8 of "
                          "(N, H, W), (N, H, W, C) or (N, C, H, W)")
        if offset is None or held.external:
            raise Refused(f"{path} has {name!r} in chunks, compressed, or elsewhere, so no range of it is an image")
        of_label = chosen(path, "dataset", label, names, LABEL_NAMES)
        labels = None if of_label is None else file[of_label][...].reshape(-1)
        if labels is not None and labels.dtype.kind not in "iu":
            raise InvalidArgument(f"{path} has no whole numbers in {of_label!r}: name another by label=")
        yield from rows_of(path, offset, held.shape, labels)
