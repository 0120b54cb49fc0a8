"""Samples of several parts: Loader(parts=…), what of it the daemon is told, and batches as dictionaries."""

import copy
import json
import os
import re

import numpy as np

from . import _layout, _list_file, _options, _padding, _views
from .errors import InvalidArgument

_DTYPES = ("uint8", "int32", "int64")
_FORMATS = ("XYXY", "XYWH", "CXCYWH")
_ROWS_MAX = 65536
_COUNTS = "counts"  # the field behind the others, with the rows that each part of Boxes and the like has
_CLASSES = "larder.Image, Mask, Boxes, Points, Labels or InstanceMasks"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,22}")
_MARK = b"#parts="


class Image:
    """A part of a sample that is an image: larder.Loader(folder, operators, parts={"image": larder.Image("a/*.jpg")}).

    where: of a folder a pattern of files, "images/*.jpg", or several with ";" between them; of a list its column; of
    tar shards the endings of members, "jpg;png". None: the samples have a part of that name, as those of a store that
    was packed of such a dataset have."""

    kind = "image"

    def __init__(self, where=None):
        self.where = where

    def __repr__(self):
        return f"{type(self).__name__}({self.where!r})"

    def form(self):
        return {"kind": self.kind}


class Mask(Image):
    """A part that has a number for each pixel of the image: a PNG of grey levels or with a palette, whose indices are
    the numbers. Operators move it as they move the image, and those of colors leave it as it is.

    where: as of an Image. dtype: "uint8", "int32" or "int64". fill: the number where the image has no pixel, such as
    an index that the loss ignores; by default what the operators' own fill says."""

    kind = "mask"

    def __init__(self, where=None, dtype="uint8", fill=None):
        super().__init__(where)
        if dtype not in _DTYPES:
            raise InvalidArgument(f"dtype of a mask is {dtype!r}, not one of {', '.join(map(repr, _DTYPES))}")
        self.dtype = dtype
        self.fill = None if fill is None else _options.whole("fill", fill, *((0, 255) if dtype == "uint8" else
                                                                              (-2**31, 2**31 - 1)))

    def form(self):
        return {"kind": self.kind, "dtype": self.dtype, **({} if self.fill is None else {"fill": self.fill})}


class Boxes(Image):
    """A part that is the boxes of an image, which operators move with it. A batch has a list of tensors (N, 4), of
    float32: left, top, right, bottom of each sample's own boxes.

    where: the column of a list that has them, [[10, 20, 50, 60], …] a sample; of a dictionary or a list of them in a
    column its path, "objects.bbox"; of tar shards "json:boxes", a word of the .json. format: of those, "XYXY", "XYWH"
    or "CXCYWH". most: the most boxes that a sample has, where the dataset does not say it, as a store does not. padded:
    a batch has one tensor (B, most, 4) instead, 0 behind a sample's own rows, and their numbers as "boxes_count"."""

    kind = "boxes"

    def __init__(self, where=None, format="XYXY", most=None, padded=False):
        super().__init__(where)
        if format not in _FORMATS:
            raise InvalidArgument(f"format of boxes is {format!r}, not one of {', '.join(map(repr, _FORMATS))}")
        self.format, self.padded = format, bool(padded)
        self.most = None if most is None else _options.whole("most", most, 1, _ROWS_MAX)

    def form(self):
        return {"kind": self.kind, "format": self.format, **_given(most=self.most)}


class Points(Image):
    """A part that is points in an image, which operators move with it: [[10, 20], …] a sample, or lists of K of them.
    A batch has a list of tensors (N, 2), or (N, K, 2), float32.

    where, most, padded: as of Boxes. each: K, where the dataset does not say it."""

    kind = "points"

    def __init__(self, where=None, each=None, most=None, padded=False):
        super().__init__(where)
        self.each = None if each is None else _options.whole("each", each, 1, 512)
        self.padded = bool(padded)
        self.most = None if most is None else _options.whole("most", most, 1, _ROWS_MAX)

    def form(self):
        return {"kind": self.kind, **_given(most=self.most, width=self.each and 2 * self.each)}


class Labels(Image):
    """A part that has a number, or several, for each box of the image: its class, its area. What drops a box drops
    them. A batch has a list of tensors (N,), or (N, width).

    where, most, padded: as of Boxes. dtype: "int64" or "float32". width: numbers of a row, where the dataset does not
    say it."""

    kind = "labels"

    def __init__(self, where=None, dtype="int64", width=None, most=None, padded=False):
        super().__init__(where)
        if dtype not in ("int64", "float32"):
            raise InvalidArgument(f"dtype of labels is {dtype!r}, not \"int64\" or \"float32\"")
        self.dtype, self.padded = dtype, bool(padded)
        self.width = None if width is None else _options.whole("width", width, 1, 1024)
        self.most = None if most is None else _options.whole("most", most, 1, _ROWS_MAX)

    def form(self):
        return {"kind": self.kind, "dtype": self.dtype, **_given(most=self.most, width=self.width)}


class InstanceMasks(Image):
    """A part that has a mask for each instance in the image, such as COCO's segmentations: polygons, or runs of pixels.
    A batch has a list of tensors (N, H, W), a mask for each box, with 1 in the instance and 0 elsewhere. What drops a
    box drops its mask. They are stored as polygons and runs, and made pixels with the image.

    where: the column of a list that has them: a sample's value is a list, and of each instance [[x, y, x, y, …], …], or
    {"size": [height, width], "counts": …}. dtype: "uint8" or "bool". most, padded: as of Boxes."""

    kind = "instances"

    def __init__(self, where=None, dtype="uint8", most=None, padded=False):
        super().__init__(where)
        if dtype not in ("uint8", "bool"):
            raise InvalidArgument(f"dtype of instances' masks is {dtype!r}, not \"uint8\" or \"bool\"")
        self.dtype, self.padded = dtype, bool(padded)
        self.most = None if most is None else _options.whole("most", most, 1, _ROWS_MAX)

    def form(self):
        return {"kind": self.kind, **_given(most=self.most)}


_KINDS = (Image, Mask, Boxes, Points, Labels, InstanceMasks)
_ROWS = (Boxes, Points, Labels, InstanceMasks)


def _given(**arguments):
    return {name: value for name, value in arguments.items() if value is not None}


def _part(name, given):
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"parts has {name!r}: a name is a lower-case letter, then lower-case letters, digits and "
                              "_, up to 23 in all")
    if not isinstance(given, Image):
        if given is not None and not isinstance(given, str):
            raise InvalidArgument(f"parts[{name!r}] is {given!r}: give where it is, or {_CLASSES}")
        kind = next((kind for kind in _KINDS if name.startswith(kind.kind)), None)
        if kind is None:
            raise InvalidArgument(f"parts[{name!r}]: its name does not say what it is, as image and mask do: give "
                                  f"{_CLASSES}")
        given = kind(given)
    given = copy.copy(given)  # the caller's own may be another Loader's too
    if given.where is not None and (not given.where or set(given.where) & set("&#")):
        raise InvalidArgument(f"parts[{name!r}] is {given.where!r}, which is empty, or has & or # in it")
    return given


def _canvas(field):
    """The height and width of an image or a mask."""
    return field.dims[1:] if field.kind == _layout.IMAGE_CHW else field.dims[:2]


def _wrap(kind, field, canvas):
    from torchvision import tv_tensors
    if isinstance(field, list):
        return [_wrap(kind, one, canvas) for one in field]
    if kind == "boxes" and field.ndim > 2:  # padded, for which torchvision has no type
        return field
    if kind == "boxes":
        return tv_tensors.BoundingBoxes(field, format="XYXY", canvas_size=canvas)
    if kind == "points":
        return tv_tensors.KeyPoints(field, canvas_size=canvas)
    kinds = {"image": tv_tensors.Image, "mask": tv_tensors.Mask, "instances": tv_tensors.Mask}
    return kinds.get(kind, lambda numbers: numbers)(field)


def _of_dtype(part, masks):
    """Masks of instances as they are made, in the part's dtype; without a copy."""
    if isinstance(masks, list):
        return [_of_dtype(part, one) for one in masks]
    if part.dtype == "uint8":
        return masks
    if isinstance(masks, np.ndarray):
        return masks.view(bool)
    import torch
    return masks.view(torch.bool)


def _ragged(given):
    """What the daemon is told of Loader(ragged=…): True, or the most pixels of an image."""
    if given is None or given is False or given is True:
        return bool(given)
    return _options.whole("ragged", given, 1, 2**32 - 1)


class Samples:
    """What Loader(parts=…, as_tuple=…, tv_tensors=…, ragged=…) says. Without parts and ragged nothing changes."""

    def __init__(self, parts, as_tuple, tv_tensors, ragged=False):
        self.parts = None
        self.ragged = _ragged(ragged)
        if parts is not None:
            items = parts.items() if hasattr(parts, "items") else [(name, None) for name in parts]
            self.parts = {name: _part(name, given) for name, given in items}
            if not 0 < len(self.parts) <= 16:
                raise InvalidArgument(f"parts has {len(self.parts)} parts, and a sample has 1 to 16")
        elif as_tuple is not None or tv_tensors:
            raise InvalidArgument("as_tuple and tv_tensors are about the parts of a sample: give parts, too")
        self.as_tuple = None if as_tuple is None else tuple(as_tuple)
        self.tv_tensors = bool(tv_tensors)

    def program(self, pipeline, views):
        """The pipeline's text for the daemon."""
        if self.parts is None:
            return self._with_ragged(_views.to_json(pipeline, views))
        if views is not None:
            raise InvalidArgument("views makes several images of one, and parts are several already: leave one out")
        if pipeline is None:
            raise InvalidArgument("parts need operators, which make them of one size: give a pipeline, or [] with "
                                  "ragged=True")
        return json.dumps({"parts": {name: part.form() for name, part in self.parts.items()},
                           "steps": _views.steps("pipeline", pipeline),
                           **({"ragged": self.ragged} if self.ragged else {})})

    def _with_ragged(self, text):
        if not self.ragged:
            return text
        if not text:
            raise InvalidArgument("ragged is about what a pipeline makes: give one, [] for images as they are")
        try:
            program = json.loads(text)
        except ValueError as error:
            raise InvalidArgument(f"pipeline is no JSON: {error}") from None
        program = {"steps": program} if isinstance(program, list) else program
        return json.dumps({**program, "ragged": self.ragged}) if isinstance(program, dict) else text

    def dataset(self, dataset):
        """What a Loader was given as dataset; a list of rows becomes the file that has them."""
        if self.parts is None or not isinstance(dataset, (list, tuple)):
            return dataset
        names = tuple(self.parts)
        for place, row in enumerate(dataset):
            absent = [name for name in names if hasattr(row, "keys") and name not in row]
            if absent:
                raise InvalidArgument(f"row {place} of the dataset has no {absent[0]!r}: rows in the script have each "
                                      "part under its own name. Boxes, points and labels need a list as a file")
        rows = [tuple(row[name] for name in names) if hasattr(row, "keys") else tuple(row) for row in dataset]
        if not all(len(row) == len(names) for row in rows):
            raise InvalidArgument(f"dataset is a list whose rows have not all {len(names)} paths, one a part: "
                                  f"{', '.join(names)}")
        for name, part in self.parts.items():
            part.where = name
        return _list_file.made_of(rows, names)

    def text(self, dataset):
        """The dataset's text with its parts."""
        named = {name: part.where for name, part in (self.parts or {}).items() if part.where is not None}
        if not named:
            return dataset
        if len(named) != len(self.parts):
            raise InvalidArgument("parts says of some where they are, and not of others: say it of all, or of none")
        rows = {name for name in named if isinstance(self.parts[name], _ROWS)}  # which stand behind the files
        marks = {name: "{%s}" if isinstance(self.parts[name], InstanceMasks) else "[%s]" for name in rows}
        return dataset + _MARK + os.fsencode("&".join(f"{name}={marks.get(name, '%s') % named[name]}"
                                                      for name in sorted(named, key=rows.__contains__)))

    def gather(self, made, layout):
        """The fields of a batch, in a tuple, by their names. Rows become a list, of each sample's own."""
        fields = dict(zip((field.name for field in layout), made))
        rows = [name for name in fields if isinstance(self.parts.get(name), _ROWS)]
        for name in rows:
            if isinstance(self.parts[name], InstanceMasks):
                fields[name] = _of_dtype(self.parts[name], fields[name])
        if layout.ragged:
            return self._gather_ragged(fields, layout, rows)
        counts = fields.pop(_COUNTS) if rows else []
        counts = [count.tolist() for count in counts] if isinstance(counts, list) else counts.tolist()
        for place, name in enumerate(rows):
            own = [count[place] for count in counts]
            if self.parts[name].padded:
                fields[name + "_count"] = own
            else:
                fields[name] = [field[:count] for field, count in zip(fields[name], own)]
        if self.tv_tensors:
            canvas = next(_canvas(field) for field in layout if field.kind != _layout.ARRAY)
            fields = {name: _wrap(self.parts[name].kind, field, canvas) if name in self.parts else field
                      for name, field in fields.items()}
        return fields

    def _gather_ragged(self, fields, layout, rows):
        """gather, where each sample has fields of its own sizes. Padded rows are as many as the most in the batch."""
        if self.tv_tensors:
            first = next(field for field in layout if field.kind != _layout.ARRAY)
            sizes = [tuple(one.shape[-2:]) for one in fields[first.name]]
            fields = {name: [_wrap(self.parts[name].kind, one, size) for one, size in zip(field, sizes)]
                      if name in self.parts and not (name in rows and self.parts[name].padded) else field
                      for name, field in fields.items()}
        for name in rows:
            if self.parts[name].padded:
                fields[name + "_count"] = [len(one) for one in fields[name]]
                fields[name] = _padding.stack(fields[name], _padding.most(fields[name]))
        return fields

    def batch(self, fields, others):
        """What the loop gets: the fields and what else a batch has, by name. A part may not have a name of those."""
        both = fields.keys() & others.keys()
        if both:
            raise InvalidArgument(f"parts and columns have both {', '.join(sorted(both))}: call the part otherwise")
        whole = {**fields, **others}
        if self.as_tuple is None:
            return whole
        absent = [name for name in self.as_tuple if name not in whole]
        if absent:
            raise InvalidArgument(f"as_tuple has {absent[0]!r}, and a batch {', '.join(map(repr, whole))}")
        return tuple(whole[name] for name in self.as_tuple)
