"""Whether the ranks at other nodes were given what this one was.

A daemon compares the ranks of its node, and sees no others. But each node works out the deal of an epoch by itself:
where ranks differ in what it depends on, samples come twice or not at all, and nobody is told. Here ranks compare it
through the store of torch.distributed, which all processes of a launch have. The first rank puts there what it was
given. Each other rank compares that with its own, and either counts itself among those that agree, or puts there how it
differs, for all of them to read. Nobody waits: a rank looks again at its batches until all agree.
"""

import hashlib
import json
import logging
import os
import sys

from . import _wire, samplers
from ._history import Base
from .errors import InvalidArgument

_NOBODY = "-"  # differs; the text that says how is longer
_SHUFFLES = {number: name for name, number in _wire.SHUFFLES.items() if isinstance(name, str)}
_DEALS = {number: name for name, number in _wire.DEALS.items()}
_log = logging.getLogger("larder")
_turns = {}  # by a job's name: how often this process has compared it


class Agreement:
    """Of one job, from its first epoch on, or from a state on that was loaded."""

    def __init__(self, job):
        asked = job.asked
        self._mine = {"who": _who(asked), "given": _given(job), "content": job.info.version[2:]}
        self._world_size = asked.world_size
        self._store = _store(asked)
        self._looks = 0
        self._said = False              # to the others, that this one agrees
        self._over = self._store is None  # all agree, or nobody compares
        if not self._over:
            turn = _turns[asked.name] = _turns.get(asked.name, 0) + 1
            self._prefix = f"larder/{asked.name.hex()}/{turn}/"

    def begin(self):
        """At an epoch's begin: raises where this rank differs from the first, or another has found that it does."""
        if not self._over and not self._said:
            self._try(self._compare)
        self._looks = 0
        self.look()

    def look(self):
        """At a batch: raises where a rank has found that it differs. It asks the store at its first, second, fourth, …
        call."""
        if self._over:
            return
        self._looks += 1
        if not self._looks & (self._looks - 1):
            self._try(self._read)

    def _try(self, ask):
        try:
            ask()
        except RuntimeError as error:  # of the store: it may be of a kind that cannot do this, or have ended
            _log.warning("what ranks at other nodes were given is not compared: %s", error)
            self._over = True

    def _compare(self):
        first = json.loads(self._store.compare_set(self._prefix + "first", "", json.dumps(self._mine)))
        text = _differs(first, json.loads(json.dumps(self._mine)))
        if text:
            self._first_that_differs()  # a store's set() returns before the others can read it
            self._store.compare_set(self._prefix + "differs", _NOBODY, text)
            raise InvalidArgument(text)
        self._store.add(self._prefix + "agree", 1)
        self._said = True

    def _first_that_differs(self):
        return self._store.compare_set(self._prefix + "differs", "", _NOBODY).decode()

    def _read(self):
        text = self._first_that_differs()
        if text != _NOBODY:
            raise InvalidArgument(text)
        self._over = self._store.add(self._prefix + "agree", 0) == self._world_size


def _who(asked):
    return f"rank {asked.rank} at {os.uname().nodename}"


def _given(job):
    """What the deal of the epoch that begins depends on, and what of it comes to a rank, as texts."""
    asked, info = job.asked, job.info
    base = job.history.base if job.loaded is not None else Base()
    taken = hashlib.sha256(repr((base.taken, base.segments, base.copies)).encode()).hexdigest()[:16]
    return {
        "dataset": f"{info.dataset_samples} samples with the fingerprint {_hex(info.fingerprint)}",
        "subset": f"{info.n_samples} samples with the fingerprint {_hex(info.view)}",
        "shuffle": _SHUFFLES[asked.shuffle],
        "seed": str(asked.seed),
        "repeat or sampler": samplers.said(asked) or "none",
        "deal": _DEALS[asked.deal],
        "mix": str(asked.mix / _wire.MIX_ALL) if asked.deal else "none",
        "batch_size": str(asked.batch_size),
        "drop_last": str(bool(asked.flags & _wire.DROP_LAST)),
        "epochs": str(asked.epochs or None),
        "the epoch that begins": str(job.epoch),
        "what a state says was taken": "nothing" if base == Base() else f"{base.batches} batches a rank ({taken})",
    }


def _hex(fingerprint):
    return "%016x%016x" % tuple(fingerprint)


def _differs(first, mine):
    """How a rank differs from the first; "" where it does not. What files have in them is not always known."""
    theirs, given = first["given"], mine["given"]
    parts = [f"{what} is {theirs[what]} in {first['who']}, and {given[what]} in {mine['who']}"
             for what in given if theirs.get(what) != given[what]]
    if any(first["content"]) and any(mine["content"]) and first["content"] != mine["content"]:
        parts.append(f"the files at {first['who']} and {mine['who']} have the same names and sizes, and other contents")
    what = "; ".join(parts)
    return what and f"{what}: ranks of one job must be given the same at all nodes, or samples come twice or not at all"


def _store(asked):
    """The store of torch.distributed, where its processes are the job's ranks and some are at other nodes; else
    None."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if not asked.local_world_size or distributed is None or not distributed.is_available() or \
            not distributed.is_initialized() or distributed.get_world_size() != asked.world_size:
        return None
    find = getattr(getattr(distributed, "distributed_c10d", None), "_get_default_store", None)
    return find() if find else None
