"""Subsets of a dataset, as expressions: `larder.Classes("n015*") & larder.Fraction(0.1, seed=3)`.

`&` is the intersection, `|` the union, `-` the difference; Python's precedence holds (`-` before `&` before `|`).
"""

import json
import os

from .errors import InvalidArgument


class Subset:
    """A part of a dataset. `spec` is what goes to the daemon."""

    def __init__(self, spec):
        self.spec = spec

    def __and__(self, other):
        return _combine("intersection", self, other)

    def __or__(self, other):
        return _combine("union", self, other)

    def __sub__(self, other):
        if not isinstance(other, Subset):
            return NotImplemented
        return Subset({"difference": [self.spec, other.spec]})

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
    return Subset({word: parts})


class Classes(Subset):
    """The samples of the classes whose names match one of the patterns (shell wildcards)."""

    def __init__(self, *patterns):
        flat = [p for pattern in patterns for p in ([pattern] if isinstance(pattern, str) else pattern)]
        if not flat:
            raise ValueError("Classes needs at least one class name or pattern")
        super().__init__({"classes": flat})


class Range(Subset):
    """The samples with first ≤ index < end, in the dataset's order."""

    def __init__(self, first, end):
        super().__init__({"range": [int(first), int(end)]})


class Fraction(Subset):
    """A part of the samples, 0 … 1 of them, drawn with a seed: the same seed gives the same part in every job."""

    def __init__(self, fraction, seed=0):
        super().__init__({"fraction": float(fraction), "seed": int(seed)})


class List(Subset):
    """The samples that a text file names, one a line."""

    def __init__(self, path):
        super().__init__({"list": os.path.abspath(os.path.expanduser(os.fspath(path)))})


def to_json(subset):
    """The text that goes to the daemon: of a Subset, of its JSON as Python objects, or JSON text; "" for None."""
    if subset is None:
        return ""
    text = subset
    if not isinstance(subset, str):
        text = json.dumps(subset.spec if isinstance(subset, Subset) else subset, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as cause:  # a name with other bytes, as os.listdir gives it
        raise InvalidArgument(f"subset {text!r}: names and paths in it must be UTF-8: match a class of another name by "
                              "a pattern, such as 'c*'") from cause
    return text
