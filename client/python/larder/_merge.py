"""One state of a job whose ranks are at several nodes: each node's daemon knows what its own ranks took of an epoch.

The epoch is dealt to the ranks, so that no two of them take the same sample. What all took is therefore the union of
the nodes' parts, and it is of one moment when all ranks had as many batches.
"""

import sys

import numpy as np

from . import _record, _state
from ._history import Base
from .errors import FormatError, InvalidArgument, LarderError

# Of a state, what is each node's own: its copy of the files, and what its ranks took.
_OWN = {"times", "content", "taken", "order", "part", "check"}


def merge_states(states):
    """One state of the parts that all nodes of a job gave: a list of what `loader.state_dict(part=True)` returned on
    each node, after the same batch. Raises where a part is missing, is there twice, or is of another moment or job. A
    list of whole states is one state if they are equal."""
    states = [_state.from_dict(made, part=True) for made in _listed(states)]
    if not states:
        raise InvalidArgument("there are no states to merge: give the part of each node")
    if all(state.part is None for state in states):
        if any(_said(state) != _said(states[0]) or state.base != states[0].base for state in states):
            raise InvalidArgument("the states are whole and differ: each is of all ranks, so give one of them")
        return _state.to_dict(states[0])
    if any(state.part is None for state in states):
        raise InvalidArgument("some of the states are whole, and others are parts: give the parts of one moment")
    states.sort(key=lambda state: state.part.first)
    _check_common(states)
    _check_ranks(states)
    base = _of_sets(states) if states[0].shuffle == _record.SHUFFLE_DEPENDENT else _of_orders(states)
    return _state.to_dict(states[0]._replace(base=base, part=None, version=_version_of(states)))


def gather_state(loader):
    """The state of all ranks, for one checkpoint: in each of them the same dictionary as `loader.state_dict()` returns
    where all ranks are at one node. All ranks of the initialised torch.distributed call it after the same batch. Where
    that is not initialised, it is the Loader's own state."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return loader.state_dict()
    rank, world_size, first = loader._place()
    if world_size != distributed.get_world_size():
        raise InvalidArgument(f"this Loader is of rank {rank} of {world_size}, and torch.distributed has "
                              f"{distributed.get_world_size()} processes: only ranks of one job have one state")
    mine, error = None, None
    if rank == first:  # of this node
        try:
            mine = loader.state_dict(part=True)
        except LarderError as raised:  # the others wait for what this rank has to say
            error, mine = raised, str(raised)
    all_of_them = [None] * world_size
    distributed.all_gather_object(all_of_them, mine)
    if error is not None:
        raise error
    for other, said in enumerate(all_of_them):
        if isinstance(said, str):
            raise LarderError(f"rank {other} of {world_size} has no state: {said}")
    return merge_states([said for said in all_of_them if said is not None])


def _listed(states):
    if isinstance(states, (list, tuple)):
        return states
    raise InvalidArgument(f"the states are a {type(states).__name__}: give a list, of the part of each node")


def _said(state):
    """What a state says that all nodes' have in common."""
    return {key: value for key, value in _state.to_dict(state).items() if key not in _OWN}


def _same_content(one, other):
    """Whether two nodes may have the same files. Each has copies of its own, so the times alone say nothing."""
    return not (any(one.version[2:]) and any(other.version[2:])) or one.version[2:] == other.version[2:]


def _version_of(states):
    return next((state.version for state in states if any(state.version[2:])), states[0].version)


def _ranks(state):
    part = state.part
    return _state.ranks_named(part.first, part.first + part.ranks, part.of)


def _check_common(states):
    first, said = states[0], _said(states[0])
    for other in states[1:]:
        theirs = _said(other)
        if first.base.batches != other.base.batches and first.epoch == other.epoch:
            text = f"{_ranks(first)} had taken {first.base.batches} batches of epoch {first.epoch}, and " \
                   f"{_ranks(other)} {other.base.batches}"
        elif said != theirs:
            differs = next(key for key in said.keys() | theirs.keys() if said.get(key) != theirs.get(key))
            text = f"{_ranks(first)} and {_ranks(other)} have not the same {differs}"
        elif first.part[2:] != other.part[2:]:
            text = f"{_ranks(first)} and {_ranks(other)} did not begin with the same state"
        elif not _same_content(first, other):
            text = f"{_ranks(first)} and {_ranks(other)} have files of the same names and other contents"
        else:
            continue
        raise InvalidArgument(f"the parts are of several jobs or moments: {text}. Give the parts that all nodes gave "
                              "after one batch")


def _check_ranks(states):
    at, of = 0, states[0].part.of
    for state in states:
        first, ranks = state.part[:2]
        if first > at:
            break
        if first < at:
            raise InvalidArgument(f"the part of {_ranks(state)} is there twice, or overlaps with another: give the "
                                  "part of each node once")
        at += ranks
    missing = next((state.part.first for state in states if state.part.first > at), of)
    if at < missing:
        raise InvalidArgument(f"the part of {_state.ranks_named(at, missing, of)} is missing: give the parts of all "
                              "nodes")


def _of_sets(states):
    each = [np.frombuffer(state.base.taken, np.uint8) for state in states if state.base.taken]
    if not each:
        return Base(states[0].base.batches)
    union = np.bitwise_or.reduce(each)
    before = states[0].part.before
    if sum(_count(one) - before for one in each) + before != _count(union):
        raise InvalidArgument("the parts have a sample in common, so they are not of one job: its ranks take each once")
    return Base(states[0].base.batches, taken=union.tobytes())


def _count(bits):
    return int(np.unpackbits(bits).sum(dtype=np.uint64))


def _of_orders(states):
    of, through, kept = states[0].part.of, [], None
    for state in states:
        segments = state.base.segments
        last = segments[-1] if segments and segments[-1][0] == of else (of, (0,))
        before = segments[:-1] if segments and segments[-1][0] == of else segments
        if kept is not None and before != kept:
            raise FormatError(f"the part of {_ranks(state)} is damaged: what was taken before is not what the others "
                              "say")
        kept = before
        numbers = last[1] * of if len(last[1]) == 1 else last[1]
        through += numbers[state.part.first:state.part.first + state.part.ranks]
    return Base(states[0].base.batches, segments=_record.add_segment(kept, of, through))
