"""Subsets of a dataset, as expressions: `larder.Classes("n015*") & larder.Fraction(0.1, seed=3)`.

`&` is the intersection, `|` the union, `-` the difference; Python's precedence holds (`-` before `&` before `|`).
"""

import json
import os
import time

import numpy as np

from .errors import InvalidArgument, IOFailure

_RUNS_MAX = 256         # of an Indices that goes as ranges; one of more goes as a list file
_LISTS_KEPT_S = 30 * 86400

_lists = {}  # what the list files say that subsets of this process name, by their paths


class Subset:
    """A part of a dataset. `spec` is what goes to the daemon; `lists` has what the list files of this module say that
    it names, by their paths."""

    def __init__(self, spec, lists=None):
        self.spec = spec
        self.lists = lists or {}

    def __and__(self, other):
        return _combine("intersection", self, other)

    def __or__(self, other):
        return _combine("union", self, other)

    def __sub__(self, other):
        if not isinstance(other, Subset):
            return NotImplemented
        return Subset({"difference": [self.spec, other.spec]}, {**self.lists, **other.lists})

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
    return Subset({word: parts}, {**left.lists, **right.lists})


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
            said = "".join(f"{position}\n" for position in positions.tolist()).encode()
            path = _list_path(said)
            _keep_list(path, said)
            super().__init__({"list": path}, {path: said})


def _positions(indices):
    """Ascending, each once."""
    if hasattr(indices, "detach"):  # a tensor, which may be on another device
        indices = indices.detach().cpu().numpy()
    given = np.asarray(indices if hasattr(indices, "dtype") else list(indices))
    if given.ndim == 1 and given.dtype.kind == "b":
        given = np.flatnonzero(given)
    if given.size == 0:
        raise InvalidArgument("Indices selects no sample: give at least one position")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidArgument("Indices takes whole numbers, positions in the dataset's order, or bools, one for each "
                              "sample")
    if given.min() < 0 or given.max() >= 2**32:
        raise InvalidArgument(f"Indices: positions go from {given.min()} to {given.max()}, and begin at 0")
    return np.unique(given.astype(np.int64))


def _list_path(said):
    """Where the daemon finds a list, named by what it says: who says the same, another rank or a copy of this Loader,
    has the same file. A daemon of another user can read there, as it cannot below most home folders."""
    import hashlib
    return f"/dev/shm/larder-indices-{os.getuid()}/{hashlib.sha256(said).hexdigest()[:32]}.txt"


def _keep_list(path, said):
    """The list file is there, and for another month."""
    import stat
    import tempfile
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise FileExistsError(0, "it is not a folder of this user")
        os.chmod(folder, 0o755)  # whatever the umask
        _remove_old(folder)
        if os.path.exists(path):
            os.utime(path)
            return
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
            file.write(said)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise IOFailure(f"Indices go to the daemon in a file of {len(said)} bytes, and {folder} takes none: "
                        f"{error.strerror}. Give ranges, or write a list file where there is room "
                        "(larder.List)") from None


def keep_lists(text):
    """The list files of this module that a subset names are there. It is called before each registration: a job that
    runs for months may come back after its list was removed, or the machine was started again."""
    for path, said in list(_lists.items()):
        if path.encode() in text:
            _keep_list(path, said)


def _remove_old(folder):
    for entry in os.scandir(folder):
        try:
            if entry.stat().st_mtime < time.time() - _LISTS_KEPT_S:
                os.unlink(entry.path)
        except FileNotFoundError:
            pass  # another script was faster


def _of_torch(subset):
    """The positions of a torch.utils.data.Subset, in the dataset below all Subsets that it lies in."""
    indices, below = list(subset.indices), subset.dataset
    while hasattr(below, "indices") and hasattr(below, "dataset"):
        indices, below = [below.indices[index] for index in indices], below.dataset
    return Indices(indices)


def to_json(subset):
    """The text that goes to the daemon: of a Subset, of torch's Subset, of its JSON as Python objects, or JSON text; ""
    for None."""
    if subset is None:
        return ""
    if hasattr(subset, "indices") and hasattr(subset, "dataset"):
        subset = _of_torch(subset)
    if isinstance(subset, Subset):
        _lists.update(subset.lists)
    text = subset
    if not isinstance(subset, str):
        text = json.dumps(subset.spec if isinstance(subset, Subset) else subset, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as cause:  # a name with other bytes, as os.listdir gives it
        raise InvalidArgument(f"subset {text!r}: names and paths in it must be UTF-8: match a class of another name by "
                              "a pattern, such as 'c*'") from cause
    return text
