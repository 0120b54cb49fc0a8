"""Subsets of a dataset, as expressions: `larder.Classes("n015*") & larder.Fraction(0.1, seed=3)`.

`&` is the intersection, `|` the union, `-` the difference; Python's precedence holds (`-` before `&` before `|`).
"""

import hashlib
import json
import math
import operator
import os
import struct

import numpy as np

from .errors import InvalidArgument

_RUNS_MAX = 256  # of an Indices that goes as ranges; one of more goes as a set beside the expression
_SETS_MAX = 1024


class Subset:
    """A part of a dataset. `spec` is what goes to the daemon; `sets` has the positions that it names, u32 as bytes, by
    their names."""

    def __init__(self, spec, sets=None):
        self.spec = spec
        self.sets = sets or {}

    def __and__(self, other):
        return _combine("intersection", self, other)

    def __or__(self, other):
        return _combine("union", self, other)

    def __sub__(self, other):
        if not isinstance(other, Subset):
            return NotImplemented
        return Subset({"difference": [self.spec, other.spec]}, {**self.sets, **other.sets})

    def __eq__(self, other):
        return isinstance(other, Subset) and self.spec == other.spec

    __hash__ = None

    def __repr__(self):
        return f"Subset({json.dumps(self.spec)})"


def _combine(word, left, right):
    """The intersection or union; `a & b & c` becomes one list of three, since both are associative."""
    if not isinstance(right, Subset):
        return NotImplemented
    parts = []
    for side in (left, right):
        parts += side.spec[word] if list(side.spec) == [word] else [side.spec]
    return Subset({word: parts}, {**left.sets, **right.sets})


class Classes(Subset):
    """The samples of the classes whose names match one of the patterns (shell wildcards)."""

    def __init__(self, *patterns):
        flat = []
        for pattern in patterns:
            flat += [pattern] if isinstance(pattern, str) or not hasattr(pattern, "__iter__") else pattern
        for pattern in flat:
            if not isinstance(pattern, str):
                raise InvalidArgument(f"Classes takes names and patterns of classes, and {pattern!r} is no text: "
                                      "Indices and Range take numbers")
        if not flat:
            raise ValueError("Classes needs at least one class name or pattern")
        super().__init__({"classes": flat})


class Range(Subset):
    """The samples with first ≤ index < end, in the dataset's order."""

    def __init__(self, first, end):
        super().__init__({"range": [_whole("Range: first", first), _whole("Range: end", end)]})


class Fraction(Subset):
    """A part of the samples, 0 … 1 of them, drawn with a seed: the same seed gives the same part in every job."""

    def __init__(self, fraction, seed=0):
        if not hasattr(fraction, "__float__") or not math.isfinite(fraction):
            raise InvalidArgument(f"Fraction: {fraction!r} is no number above 0 and at most 1")
        super().__init__({"fraction": float(fraction), "seed": _whole("Fraction: seed", seed)})


class List(Subset):
    """The samples that a text file names, one a line."""

    def __init__(self, path):
        super().__init__({"list": os.path.abspath(os.path.expanduser(os.fspath(path)))})


class Indices(Subset):
    """The samples at these positions of the dataset's order: whole numbers in an array, a tensor or another iterable,
    or bools, one for each sample. Order and repeats mean nothing, as in all subsets."""

    def __init__(self, indices):
        positions = _positions(indices)
        breaks = np.flatnonzero(np.diff(positions) != 1)
        firsts = positions[np.concatenate([[0], breaks + 1])].tolist()
        ends = (positions[np.concatenate([breaks, [-1]])] + 1).tolist()
        runs = [{"range": [first, end]} for first, end in zip(firsts, ends)]
        if len(runs) == 1:
            super().__init__(runs[0])
        elif len(runs) <= _RUNS_MAX:
            super().__init__({"union": runs})
        else:
            packed = positions.astype("<u4").tobytes()
            name = hashlib.sha256(packed).hexdigest()[:32]  # ranks and copies of this Loader say the same
            super().__init__({"indices": name}, {name: packed})


def _whole(what, value):
    """A whole number as it is, which the daemon checks."""
    if not isinstance(value, (bool, np.bool_)) and hasattr(value, "__index__"):
        return operator.index(value)
    raise InvalidArgument(f"{what} is {value!r}, not a whole number")


def _positions(indices):
    """Ascending, each once."""
    if hasattr(indices, "detach"):  # a tensor, which may be on another device
        indices = indices.detach().cpu().numpy()
    if not hasattr(indices, "dtype"):
        indices = list(indices)
        bools = sum(isinstance(index, (bool, np.bool_)) for index in indices)
        if 0 < bools < len(indices):
            raise InvalidArgument("Indices takes whole numbers or bools, and these are both")
    given = np.asarray(indices)
    if given.ndim == 1 and given.dtype.kind == "b":
        given = np.flatnonzero(given)
    if given.size == 0:
        raise InvalidArgument("Indices selects no sample: give at least one position")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidArgument("Indices takes whole numbers, positions in the dataset's order, or bools, one for each "
                              "sample")
    if given.min() < 0 or given.max() >= 2**32:
        raise InvalidArgument(f"Indices: positions go from {given.min()} to {given.max()}, and may be 0 to 2**32 - 1")
    return np.unique(given.astype(np.int64))


def is_subset(dataset):
    """Whether it is a torch.utils.data.Subset whose samples are those of its dataset: a script's own class may change
    them."""
    kind = type(dataset)
    if not any(base.__name__ == "Subset" and base.__module__.startswith("torch.utils.data") for base in kind.__mro__):
        return False
    return all(getattr(kind, name).__module__.startswith("torch.")
               for name in ("__getitem__", "__getitems__") if hasattr(kind, name))


def _is_like(dataset):
    return hasattr(dataset, "indices") and hasattr(dataset, "dataset")


def positions(subset, is_one=_is_like):
    """The positions of a torch.utils.data.Subset, in the dataset below all Subsets that it lies in, and that one."""
    indices, below = list(subset.indices), subset.dataset
    while is_one(below):
        indices, below = [below.indices[index] for index in indices], below.dataset
    return indices, below


def to_wire(subset):
    """What goes to the daemon, as bytes: the text of a Subset, of torch's Subset, of its JSON as Python objects, or
    JSON text; and the sets that it names, as sampler/view.h has them. Each is empty where there is nothing."""
    if subset is None:
        return b"", b""
    if _is_like(subset):
        given = positions(subset)[0]
        if len(given) and len(np.unique(given)) < len(given):
            raise InvalidArgument("the torch Subset has positions more than once, and a subset has each sample once: "
                                  "give each once, and what comes oftener by repeat= or sampler=larder.Weights(…)")
        subset = Indices(given)
    sets = subset.sets if isinstance(subset, Subset) else {}
    if len(sets) > _SETS_MAX:
        raise InvalidArgument(f"subset: {len(sets)} Indices, {_SETS_MAX} at most: put them together into fewer")
    text = subset
    if not isinstance(subset, str):
        text = json.dumps(subset.spec if isinstance(subset, Subset) else subset, ensure_ascii=False)
    try:
        return text.encode(), _packed(sets)
    except UnicodeEncodeError as cause:  # a name with other bytes, as os.listdir gives it
        raise InvalidArgument(f"subset {text!r}: names and paths in it must be UTF-8: match a class of another name by "
                              "a pattern, such as 'c*'") from cause


def _packed(sets):
    if not sets:
        return b""
    return struct.pack("<I", len(sets)) + b"".join(
        name.encode() + struct.pack("<I", len(indices) // 4) + indices for name, indices in sets.items())
