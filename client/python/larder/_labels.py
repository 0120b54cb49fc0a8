"""labels=: what a batch has in place of class numbers, by position, key or class: an array, a tensor, a mapping or a
CSV, of numbers, or of the names of classes."""

import numbers
import operator
import os
from collections import namedtuple
from collections.abc import Mapping

import numpy as np

from ._label_file import LabelFile, Names
from .errors import InvalidArgument, NotFound

_FLOAT32_WHOLE = 2**24  # up to which float32 holds every whole number


# What was given: keys, or None where it is in the dataset's order; rows; and what classes the rows number, or None.
_Given = namedtuple("_Given", "keys values classes")


class Labels:
    """One row a sample, in the dataset's order. `known` says which samples have one; None: all. `classes` has the
    names that the rows number; None: they are numbers of the script's own."""

    def __init__(self, values, known=None, classes=None):
        self.values = values
        self.known = known
        self.classes = classes

    def take(self, indices, files):
        """The labels of a batch; `files` names a sample that has none."""
        if self.known is not None and not self.known[indices].all():
            index = int(indices[~self.known[indices]][0])
            raise InvalidArgument(f"labels has none for sample {index}, {files().keys[index]}: add it, or leave it out "
                                  "by subset=")
        return self.values[indices]


def check(given):
    """What is given, copied and checked as far as the dataset need not be known."""
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        return LabelFile(os.fspath(given))
    if isinstance(given, Mapping):
        return _Given(list(given), *_numbered([_plain(value) for value in given.values()]))
    if hasattr(given, "detach"):  # a tensor, which may be on another device
        given = given.detach().cpu().numpy()
    if not hasattr(given, "dtype") and hasattr(given, "__iter__"):
        given = [_plain(row) for row in given]
    return _Given(None, *_numbered(given))


def _plain(row):
    """A number, or the numbers of a row, as Python's own: a torch tensor's and an array's too."""
    return row.tolist() if hasattr(row, "tolist") else row


def of_dataset(checked, count, files, partial):
    """Labels for a dataset of `count` samples. files() gives its Files, for keys. `partial`: a subset may leave out
    those that have none."""
    if isinstance(checked, LabelFile):
        rows, values = checked.read(count, files)
        values, classes = _numbered(values)
    else:
        keys, values, classes = checked
        number = None if keys is None else _numbers_of_classes(keys, files)
        if number is not None:
            rows, values = _of_classes(number, values, files())
        else:
            rows = None if keys is None else _positions(keys, count, files)
    if rows is None:
        if len(values) != count:
            raise InvalidArgument(f"labels has {len(values)} rows, and the dataset {count} samples: give one for each, "
                                  "in the dataset's order, also with a subset")
        return Labels(values, classes=classes)
    placed = np.zeros((count, *values.shape[1:]), values.dtype)
    known = np.zeros(count, bool)
    placed[rows], known[rows] = values, True
    if known.all():
        return Labels(placed, classes=classes)
    if not partial:
        Labels(placed, known).take(np.flatnonzero(~known)[:1], files)
    return Labels(placed, known, classes)


def _numbered(values):
    """An array of numbers, and None; of names their places among all names, sorted as ImageFolder sorts, and these."""
    names = np.asarray(values).tolist() if hasattr(values, "dtype") else values
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        classes = sorted(set(names))
        place = {name: number for number, name in enumerate(classes)}
        return np.array([place[name] for name in names], np.int64), classes
    return _array(values), None


def _numbers_of_classes(keys, files):
    """The class that each key names; None where one of them names none."""
    if not keys or not all(isinstance(key, str) for key in keys):
        return None
    place = {name: number for number, name in enumerate(files().classes)}
    return [place[key] for key in keys] if all(key in place for key in keys) else None


def _of_classes(number, values, files):
    """The samples of these classes, and the row of each: that of its class."""
    row_of = np.full(len(files.classes), -1, np.int64)
    row_of[number] = np.arange(len(number))
    rows = row_of[files.labels]
    samples = np.flatnonzero(rows >= 0)
    return samples, values[rows[samples]]


def _positions(keys, count, files):
    """Of keys that are all whole numbers, or all names."""
    try:
        rows = np.array([_position(key) for key in keys], np.int64)
    except OverflowError:
        raise InvalidArgument(f"labels: a position lies far beyond the dataset's {count} samples") from None
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


def _position(key):
    """A key as a position: a whole number, or the text of one. TypeError, ValueError: it is a name."""
    if isinstance(key, (bool, np.bool_)):
        raise TypeError
    return int(key) if isinstance(key, (str, bytes)) else operator.index(key)


def _array(values):
    """Numbers: whole ones as int64, others as float32, as a loss takes them. What these do not hold is refused; only
    fractions are rounded."""
    try:
        array = np.array(values)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind == "O" or (array.dtype.kind == "f" and not isinstance(values, np.ndarray)):
        array = _as_given(values, array)
    if array.ndim == 0 or array.dtype.kind not in "biufO":
        raise InvalidArgument("labels is no array of numbers, nor of names: give one row a sample, all of one length, "
                              "or the name of its class")
    if array.dtype.kind == "f":
        return _float32(array)
    if array.dtype.kind == "O" or (array.dtype.kind == "u" and array.size):
        for number in (array.max(), array.min()):
            if not -2**63 <= number < 2**63:
                raise InvalidArgument(f"labels has {number}, and whole numbers come as int64, -2**63 to 2**63 - 1: "
                                      "number them anew (numpy.unique(labels, return_inverse=True))")
    return array.astype(np.int64)


def _as_given(values, array):
    """NumPy makes floating point without a word of whole numbers that no type of its own holds, and of those beside
    fractions. Then the first are given as they are, of kind O, and the others refused where they become others."""
    given = np.array(values, object)
    whole = [number for number in given.ravel().tolist() if isinstance(number, numbers.Integral)]
    if whole and len(whole) == given.size:
        return given
    if array.dtype.kind == "O":
        return np.array(None)
    most = max(map(abs, whole), default=0)
    if most > _FLOAT32_WHOLE:
        raise InvalidArgument(f"labels has {most} beside fractions, and with these all come as float32, which holds "
                              f"every whole number up to {_FLOAT32_WHOLE} only: give labels on another scale")
    return array


def _float32(array):
    """Rounded. Refused are numbers beyond float32, and whole ones all, where they would become others: those are ids or
    times that have become floating point somewhere."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = array.astype(np.float32)
    finite = np.isfinite(array)
    lost = finite & (~np.isfinite(narrow) | ((narrow == 0) & (array != 0)))
    if (np.trunc(array) == array)[finite].all():
        lost |= finite & (narrow != array)
    if lost.any():
        raise InvalidArgument(f"labels has {array[lost].ravel()[0]}, which float32 does not hold: give whole numbers "
                              "as integers, which come as int64, and others on another scale")
    return narrow
