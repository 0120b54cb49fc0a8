"""labels=: what a batch has in place of class numbers, by position or key: an array, a tensor, a mapping or a CSV."""

import operator
import os
from collections.abc import Mapping

import numpy as np

from ._label_file import LabelFile, Names
from .errors import InvalidArgument, LarderError, NotFound


class Labels:
    """One row a sample, in the dataset's order. `known` says which samples have one; None: all."""

    def __init__(self, values, known=None):
        self.values = values
        self.known = known

    def take(self, indices, files):
        """The labels of a batch; `files` names a sample that has none."""
        if self.known is not None and not self.known[indices].all():
            index = int(indices[~self.known[indices]][0])
            raise InvalidArgument(f"labels has none for sample {index}, {_name(files, index)}: add it, or leave it out "
                                  "by subset=")
        return self.values[indices]


def _name(files, index):
    try:
        return files().keys[index]
    except LarderError:  # of a packed store
        return "whose name is not known here"


def check(given):
    """What is given, copied and checked as far as the dataset need not be known."""
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        return LabelFile(os.fspath(given))
    if isinstance(given, Mapping):
        keys, values = list(given), _array([np.asarray(value) for value in given.values()])
        return keys, values
    if hasattr(given, "detach"):  # a tensor, which may be on another device
        given = given.detach().cpu().numpy()
    return None, _array(given)


def of_dataset(checked, count, files, partial):
    """Labels for a dataset of `count` samples. files() gives its Files, for keys. `partial`: a subset may leave out
    those that have none."""
    if isinstance(checked, LabelFile):
        rows, values = checked.read(count, files)
        values = _array(values)
    else:
        keys, values = checked
        rows = None if keys is None else _positions(keys, count, files)
    if rows is None:
        if len(values) != count:
            raise InvalidArgument(f"labels has {len(values)} rows, and the dataset {count} samples: give one for each, "
                                  "in the dataset's order, also with a subset")
        return Labels(values)
    placed = np.zeros((count, *values.shape[1:]), values.dtype)
    known = np.zeros(count, bool)
    placed[rows], known[rows] = values, True
    if known.all():
        return Labels(placed)
    if not partial:
        Labels(placed, known).take(np.flatnonzero(~known)[:1], files)
    return Labels(placed, known)


def _positions(keys, count, files):
    """Of keys that are all whole numbers, or all names."""
    try:
        rows = np.array([int(key) if isinstance(key, (str, bytes)) else operator.index(key) for key in keys], np.int64)
    except (TypeError, ValueError):
        names = Names(files())
        rows = [names.find(os.fsdecode(key)) if isinstance(key, (str, bytes, os.PathLike)) else None for key in keys]
        if None in rows:
            raise NotFound("labels: " + names.why_not(str(keys[rows.index(None)]))) from None
        rows = np.array(rows, np.int64)
    if rows.size and not (0 <= rows.min() and rows.max() < count):
        raise InvalidArgument(f"labels: positions go from {rows.min()} to {rows.max()}, and the dataset has {count} "
                              "samples")
    if np.unique(rows).size != rows.size:
        raise InvalidArgument("labels: a sample is there twice: leave one of its labels out")
    return rows


def _array(values):
    """Numbers: whole ones as int64, others as float32, as a loss takes them."""
    try:
        array = np.array(values)
    except ValueError:
        array = np.array(None)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise InvalidArgument("labels is no array of numbers: give one row a sample, all of one length")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
