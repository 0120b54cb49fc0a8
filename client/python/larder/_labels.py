"""labels=: what a batch has in place of class numbers, by position or key: an array, a tensor, a mapping or a CSV."""

import os
from collections.abc import Mapping

import numpy as np

from .errors import FormatError, InvalidArgument, LarderError, NotFound


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
        return _read(os.fspath(given))
    if isinstance(given, Mapping):
        keys, values = list(given), _array([np.asarray(value) for value in given.values()])
        return keys, values
    if hasattr(given, "detach"):  # a tensor, which may be on another device
        given = given.detach().cpu().numpy()
    return None, _array(given)


def of_dataset(checked, count, files, partial):
    """Labels for a dataset of `count` samples. files() gives its Files, for keys. `partial`: a subset may leave out
    those that have none."""
    keys, values = checked
    if keys is None:
        if len(values) != count:
            raise InvalidArgument(f"labels has {len(values)} rows, and the dataset {count} samples: give one for each, "
                                  "in the dataset's order, also with a subset")
        return Labels(values)
    rows = _positions(keys, count, files)
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
        rows = np.array([int(key) for key in keys], np.int64)
    except (TypeError, ValueError):
        found = files()
        known = {key: index for index, key in enumerate(found.keys)}
        known.update({found.path(index): index for index in range(count)})
        try:
            rows = np.array([known[os.fspath(key)] for key in keys], np.int64)
        except (KeyError, TypeError) as error:
            raise NotFound(f"labels: {error.args[0]!r} is no sample of {found.root}: keys are paths below it, such as "
                           f"{found.keys[0] if found.keys else 'class/file.jpg'!r}") from None
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


def _read(path):
    """A CSV's keys and values: a line is a sample's key, path or position, and then one number or several. Its first
    line may be titles."""
    import csv
    path = os.path.expanduser(path)
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [(reader.line_num, row) for reader in [csv.reader(file)] for row in reader if row]
    if lines and not _are_numbers(lines[0][1][1:]):
        del lines[0]
    if not lines:
        raise FormatError(f"labels {path} has no line with a key and a number")
    width = len(lines[0][1])
    for number, row in lines:
        if len(row) != width or width < 2 or not _are_numbers(row[1:]):
            raise FormatError(f"labels {path}:{number}: a line is a key and {max(1, width - 1)} number(s), separated "
                              "by commas")
    columns = [row[1:] for _, row in lines]
    whole = all(text.strip().lstrip("+-").isdigit() for row in columns for text in row)
    values = np.array(columns).astype(np.int64 if whole else np.float32)
    return [row[0] for _, row in lines], values[:, 0] if width == 2 else values


def _are_numbers(texts):
    try:
        return bool([float(text) for text in texts])
    except ValueError:
        return False
