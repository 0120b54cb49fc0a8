"""Hugging Face's datasets without a copy: where the bytes of each image lie in the Arrow files that the library has
mapped. These files are not compressed, so an image lies whole in one of them."""

import json
import os
import warnings
from bisect import bisect_right

import numpy as np

from . import _list_file
from ._places import IMAGE_NAMES, LABEL_NAMES, library
from .errors import InvalidArgument

_RESERVED = ("file_name", "offset", "bytes", "crc32", "raw", "key", "label")
_PACK = "Pack it once: larder.pack(DATASET, \"NAME.store\")"


def places(dataset):
    """The list of a datasets.Dataset, a row an image, with its other columns: its path, which is there now, and the
    files that it points into."""
    if not hasattr(dataset, "data") or not hasattr(dataset, "num_rows"):
        raise InvalidArgument(f"dataset is a {type(dataset).__name__} of Hugging Face, which streams: load it without "
                              "streaming=True")
    if isinstance(dataset.num_rows, dict):
        raise InvalidArgument(f"dataset has several splits: choose one of {', '.join(map(repr, dataset.num_rows))}")
    image = _image_of(dataset.features)
    label = next((name for name in LABEL_NAMES if name in dataset.features and name != image), None) or \
        next((name for name, one in dataset.features.items() if type(one).__name__ == "ClassLabel"), None)
    order = None if dataset._indices is None else dataset._indices.column("indices").to_numpy()
    others = dict(_others(dataset, image, order))
    labels = None if label is None else _labels_of(label, others.get(label, [float("nan")]))
    rows = []
    where = list(_images(dataset.data.column(image)))
    for number, at in enumerate(range(len(where)) if order is None else order.tolist()):
        path, offset, size = where[at]
        row = {"file_name": path, "offset": offset, "bytes": size, "key": str(at)}
        if labels is not None:
            row["label"] = labels[number]
        row.update((name, values[number]) for name, values in others.items() if name != "label")
        rows.append(json.dumps(row))
    if not rows:
        raise InvalidArgument("dataset is empty: it has no row")
    return _list_file.kept("\n".join(rows).encode(), ".jsonl"), sorted({path for path, _, _ in where})


def _labels_of(name, values):
    odd = next((row for row, value in enumerate(values) if not isinstance(value, (int, str))), None)
    if odd is not None:
        raise InvalidArgument(f"dataset has {values[odd]!r} as {name!r} of row {odd}, and labels are whole numbers or "
                              "names: leave such rows out, dataset.filter(…), or give the column another name, "
                              "dataset.rename_column(…), by which columns= has it")
    return [int(value) if isinstance(value, bool) else value for value in values]


def _image_of(features):
    images = [name for name, one in features.items() if type(one).__name__ == "Image"]
    named = [name for name in IMAGE_NAMES if name in (images or features)]
    if len(images) > 1 and not named:
        raise InvalidArgument(f"dataset has several columns of images, {', '.join(map(repr, images))}: take the others "
                              "away, dataset.remove_columns(…)")
    image = next(iter((*named, *images)), None)
    mode = getattr(features[image], "mode", None) if image else None
    if mode not in (None, "RGB"):
        raise InvalidArgument(f"dataset converts its images to {mode}, and the daemon reads them as RGB: cast_column("
                              f"{image!r}, datasets.Image()), and put larder.Grayscale or the like among the operators")
    if image is None:
        raise InvalidArgument(f"dataset has no column of images: there are {', '.join(map(repr, features))}. Cast the "
                              "one that has them: dataset.cast_column(NAME, datasets.Image())")
    return image


def _others(dataset, image, order):
    """(name, values in the dataset's order) of the columns that a list of JSON has. A warning names the others."""
    arrow = library("pyarrow")
    left_out = []
    for name in dataset.features:
        column = dataset.data.column(name)
        if name == image:
            continue
        if "binary" in str(column.type):
            left_out.append(f"{name!r} (bytes)")
            continue
        if name in _RESERVED and name != "label":
            left_out.append(f"{name!r} (Larder's own lists use the name: dataset.rename_column(…))")
            continue
        values = (column if order is None else column.take(arrow.array(order))).to_pylist()
        try:
            json.dumps(values, allow_nan=False)
        except TypeError:
            left_out.append(f"{name!r} ({column.type}, which JSON does not have)")
        except ValueError:
            left_out.append(f"{name!r} (NaN or infinity, which JSON does not have)")
        else:
            yield name, values
    if left_out:
        warnings.warn(f"columns= does not have these columns of the dataset: {', '.join(left_out)}", stacklevel=2)


def _images(column):
    """(path, offset, bytes) of each row of a column of images."""
    arrow = library("pyarrow")
    maps = _Maps()
    for chunk in column.chunks:
        paths = None
        if arrow.types.is_struct(chunk.type):
            if chunk.null_count:
                raise InvalidArgument("dataset has rows without an image: leave them out, dataset.filter(…)")
            paths, chunk = chunk.field("path"), chunk.field("bytes")
        if not arrow.types.is_binary(chunk.type) and not arrow.types.is_large_binary(chunk.type):
            raise InvalidArgument(f"dataset has {chunk.type} in its column of images, and no encoded files. {_PACK}")
        yield from _of_chunk(chunk, paths, maps)


def _of_chunk(chunk, paths, maps):
    _, offsets, data = chunk.buffers()
    kind = np.int32 if str(chunk.type) == "binary" else np.int64
    ends = np.frombuffer(offsets, kind)[chunk.offset:chunk.offset + len(chunk) + 1].tolist() if len(chunk) else [0]
    absent = chunk.is_null().to_pylist()
    path = start = None
    if not all(absent):
        path, start = maps.find(data.address, ends[0], ends[-1], data)
    for number, missing in enumerate(absent):
        if not missing:
            yield path, start + ends[number], ends[number + 1] - ends[number]
            continue
        whole = paths[number].as_py() if paths is not None else None
        if whole is None or not os.path.isfile(whole):
            raise InvalidArgument(f"dataset has a row without an image, or one that is no file here ({whole!r}). "
                                  f"{_PACK}")
        yield os.path.abspath(whole), 0, os.path.getsize(whole)


class _Maps:
    """The files that this process has mapped, by address."""

    def __init__(self):
        self._maps = []
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                fields = line.rstrip("\n").split(None, 5)
                if len(fields) == 6 and fields[5].startswith("/"):
                    begin, end = (int(one, 16) for one in fields[0].split("-"))
                    self._maps.append((begin, end, int(fields[2], 16), fields[5]))
        self._maps.sort()

    def find(self, address, first, last, data):
        """The file, and where in it the address lies; the bytes from `first` to `last` behind it must be there."""
        place = bisect_right(self._maps, (address + first, 1 << 64)) - 1
        begin, end, offset, path = self._maps[place] if place >= 0 else (0, 0, 0, "")
        start = address - begin + offset
        if not begin <= address + first <= address + last <= end or not os.path.isfile(path) or \
                not _same(path, start, first, last, data):
            raise InvalidArgument("dataset has its images in this process's memory, or compressed, and not as they are "
                                  "in files that the daemon could read: dataset.save_to_disk(FOLDER), then "
                                  f"datasets.load_from_disk(FOLDER). Or pack it once: larder.pack(DATASET, "
                                  "\"NAME.store\")")
        return path, start


def _same(path, start, first, last, data):
    """Whether the file has now what is mapped, as far as both ends say."""
    with open(path, "rb", buffering=0) as file:
        return all(os.pread(file.fileno(), min(64, last - at), start + at) == bytes(data[at:min(at + 64, last)])
                   for at in (first, max(first, last - 64)))
