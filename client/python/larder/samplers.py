"""How often each sample comes in an epoch, where it is not once: `sampler=larder.Weights(w)` or `larder.Balanced()`.

The daemon draws an epoch's multiset anew for each epoch, by the Loader's seed: the same in every job that gives the
same.
"""

import hashlib
import operator
import struct

import numpy as np

from . import _wire
from .errors import InvalidArgument


class Weights:
    """n draws an epoch, with replacement, each in proportion to the samples' weights, as torch's
    WeightedRandomSampler draws them.

    weights: a number for each sample of the dataset, in its order, 0 or more. Those of samples outside of the subset do
    not count. n: as many draws as the subset has samples, if it is not said.
    """

    def __init__(self, weights, n=None):
        if hasattr(weights, "detach"):  # a tensor, which may be on another device
            weights = weights.detach().cpu().numpy()
        try:
            given = np.asarray(weights if hasattr(weights, "dtype") else list(weights), "<f8")
        except (TypeError, ValueError):
            raise InvalidArgument("Weights takes a number for each sample of the dataset, in its order") from None
        if given.ndim != 1 or given.size == 0:
            raise InvalidArgument("Weights takes a number for each sample of the dataset, in its order, and these have "
                                  f"the shape {given.shape}")
        wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if wrong.size:
            raise InvalidArgument(f"Weights: the weight of sample {wrong[0]} is {given[wrong[0]]}: weights are finite "
                                  "numbers, 0 or more")
        if not given.any():
            raise InvalidArgument("Weights: all weights are 0, and no sample can be drawn")
        self.weights = given
        self.n = _draws("Weights", n)

    def __repr__(self):
        return f"Weights(of {self.weights.size} samples, n={self.n or None})"


class Balanced:
    """n draws an epoch, of each class as many as of every other, give or take one. Within a class each sample comes as
    often as every other, give or take one. n: as many draws as the subset has samples, if it is not said."""

    def __init__(self, n=None):
        self.n = _draws("Balanced", n)

    def __repr__(self):
        return f"Balanced(n={self.n or None})"


def _draws(what, n):
    """n as the wire has it."""
    if n is None:
        return 0
    try:
        number = operator.index(n)
    except TypeError:
        number = 0
    if isinstance(n, bool) or not 1 <= number <= _wire.DRAWS_MAX:
        raise InvalidArgument(f"{what}: n is {n!r}, not a whole number from 1 to {_wire.DRAWS_MAX}")
    return number


def to_wire(repeat, sampler):
    """The fields of a REGISTER that say what an epoch is."""
    try:
        copies = operator.index(repeat)
    except TypeError:
        copies = 0
    if isinstance(repeat, bool) or not 1 <= copies <= _wire.COPIES_MAX:
        raise InvalidArgument(f"repeat is {repeat!r}, not a whole number from 1 to {_wire.COPIES_MAX}: how often each "
                              "sample comes in an epoch")
    if sampler is None:
        return {"sampler": _wire.REPEAT, "copies": copies} if copies > 1 else {}
    if not isinstance(sampler, (Weights, Balanced)):
        raise InvalidArgument(_foreign(sampler))
    if copies > 1:
        raise InvalidArgument(f"repeat is {copies} and sampler {sampler!r}: give one of the two, and more draws by n=")
    if isinstance(sampler, Balanced):
        return {"sampler": _wire.BALANCED, "draws": sampler.n}
    packed = struct.pack("<I", sampler.weights.size) + sampler.weights.tobytes()
    return {"sampler": _wire.WEIGHTS, "draws": sampler.n, "weights": packed}


def check_labels(sampler, labels):
    """Balanced goes by the classes that the daemon knows."""
    if isinstance(sampler, Balanced) and labels is not None:
        raise InvalidArgument("sampler is Balanced, which goes by the dataset's own classes, and labels= gives others: "
                              "give sampler=larder.Weights(1 / numpy.bincount(labels)[labels]), with the labels as an "
                              "array")


def _foreign(sampler):
    """What to do instead with a sampler that is no one of Larder's."""
    name = type(sampler).__name__
    said = {"WeightedRandomSampler": "larder.Weights(weights, n) draws as it does",
            "RASampler": "repeat=3 gives each sample three times an epoch, as it does",
            "RepeatAugSampler": "repeat=3 gives each sample three times an epoch, as it does",
            "DistributedSampler": "ranks find their parts by themselves: leave it out",
            "RandomSampler": "shuffle= says the order: leave it out",
            "SequentialSampler": "shuffle=\"none\" gives the dataset's order",
            "SubsetRandomSampler": "subset=larder.Indices(indices) says which samples"}.get(name)
    return f"sampler= is a {name}, and the daemon draws the samples for all jobs together: " + (
        said or "give larder.Weights(weights, n) or larder.Balanced(n), repeat= for each sample several times, subset= "
                "for some of them, and shuffle= for the order (docs/reference/samplers.md)")


def said(job):
    """What a REGISTER says of its epochs, as a state shows and compares it; empty where each sample comes once."""
    if job.sampler == _wire.ONCE:
        return ""
    if job.sampler == _wire.REPEAT:
        return f"repeat={job.copies}"
    of = f" of {hashlib.sha256(job.weights).hexdigest()[:16]}" if job.weights else ""
    return f"{'Weights' if job.weights else 'Balanced'}(n={job.draws or None}){of}, seed={job.seed}"
