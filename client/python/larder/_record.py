"""What of an epoch was taken, as bytes: the Python half of common/record.c, whose layout it repeats. Pure.

common/record.h says what the words mean. A record has a base, what all ranks had taken when the job was started from a
checkpoint, and a history, what one rank has taken since. A token is a record without history.
"""

import struct
from typing import NamedTuple

import numpy as np

from . import _wire
from .errors import FormatError, LimitReached, VersionMismatch

MAGIC = 0x5352444C
VERSION, VERSION_COPIES, VERSION_KNOWN, VERSION_OLDEST = 4, 3, 2, 1
SEGMENTS_MAX = 64
SETS_MAX = 32
RANKS_MAX, ALL_RANKS_MAX = 256, 65536  # of a segment; of a history, whose ranks may be at several nodes
KIND_SET, KIND_ORDER = 0, 1
SHUFFLE_DEPENDENT, SHUFFLE_NONE = 0, 2

_BEGIN = struct.Struct("<IHH")
_HEAD = struct.Struct("<5Q4I")
_DATASET = struct.Struct("<4Q")
_LENGTH = struct.Struct("<I")
_COPIES = _SEGMENT = struct.Struct("<II")
_HISTORY = _PART = struct.Struct("<III")

BATCH = np.dtype([("delivered", "<u4"), ("through", "<u4"), ("n_turns", "<u4")])
TURN = np.dtype("<u4")
NO_VERSION = (0, 0, 0, 0)
WHOLE = (0, 0, 0)
NO_BATCHES, NO_TURNS = np.empty(0, BATCH), np.empty(0, TURN)


class Record(NamedTuple):
    dataset: tuple           # the fingerprint: two numbers
    view: tuple              # so is this
    seed: int
    shuffle: int
    epoch: int
    batches: int             # of the base: how many each rank had taken
    samples: int             # of the dataset
    taken: bytes = b""       # the base of a dependent job, sets of a bit for each index; empty: nothing was taken
    segments: tuple = ()     # the base of a fixed order: (world_size, (through, …)) each, with one number or world_size
    world_size: int = 0      # of the history; 0: there is none
    rank: int = 0
    history: np.ndarray = NO_BATCHES  # of BATCH
    turns: np.ndarray = NO_TURNS      # of TURN, of all batches
    copies: tuple = ()                # of the base: (ranks, index, rank, index, rank, …)
    version: tuple = NO_VERSION       # of the dataset: its times and its content, two numbers each; 0: not known
    part: tuple = WHOLE      # of a part of a token: the first rank it covers, how many, and how many the job has


def set_bytes(samples):
    """The length of a bit set over so many indices."""
    return samples // 8 + (samples % 8 != 0)


def counts_of(taken, samples):
    """How many turns of each index are over: set p of a base stands for 2^p."""
    counts = np.zeros(samples, np.uint32)
    for at in range(len(taken) // max(1, set_bytes(samples))):
        one = np.frombuffer(taken, np.uint8, set_bytes(samples), at * set_bytes(samples))
        counts |= np.unpackbits(one, count=samples, bitorder="little").astype(np.uint32) << np.uint32(at)
    return counts


def sets_of(counts):
    """The sets of a base of so many turns of each index; one at the least."""
    most = max(1, int(counts.max(initial=0)))
    return b"".join(np.packbits((counts >> np.uint32(at) & 1).astype(bool), bitorder="little").tobytes()
                    for at in range(most.bit_length()))


def same_version(one, other):
    """Whether two versions of a dataset count as one: dataset_version_agrees of common/dataset_version.h."""
    if NO_VERSION in (one, other):
        return True
    if any(one[2:]) and any(other[2:]):
        return one[2:] == other[2:]
    return one[:2] == other[:2]


def add_segment(segments, world_size, through):
    """The segments after world_size ranks were through these numbers. The last one goes if it has the same world size:
    its ranks went on in it, and their numbers count from its beginning."""
    through = tuple(through)
    if all(number == through[0] for number in through):
        through = through[:1]
    kept = segments[:-1] if segments and segments[-1][0] == world_size else segments
    if through == (0,):
        return kept
    if len(kept) >= SEGMENTS_MAX:
        raise LimitReached(f"this epoch was restored with another number of ranks {SEGMENTS_MAX} times, which is the "
                           "most: take the state after its end")
    return (*kept, (world_size, through))


def _version_of(record):
    """The oldest format version that has all that the record has."""
    if record.part != WHOLE:
        return VERSION
    return VERSION_COPIES if record.copies else VERSION_KNOWN if record.version != NO_VERSION else VERSION_OLDEST


def encode(record):
    """The bytes of a record. LimitReached where it is of more ranks than one may have."""
    if record.world_size > ALL_RANKS_MAX:
        raise LimitReached(f"a job of {record.world_size} ranks cannot be restored, only one of {ALL_RANKS_MAX} or "
                           "fewer")
    kind = KIND_SET if record.shuffle == SHUFFLE_DEPENDENT else KIND_ORDER
    version = _version_of(record)
    parts = [_BEGIN.pack(MAGIC, version, kind),
             _DATASET.pack(*record.version) if version > VERSION_OLDEST else b"",
             _PART.pack(*record.part) if version == VERSION else b"",
             _HEAD.pack(*record.dataset, *record.view, record.seed, record.shuffle, record.epoch, record.batches,
                        record.samples)]
    if kind == KIND_SET:
        parts += [_LENGTH.pack(len(record.taken)), record.taken]
        if record.copies:
            parts.append(struct.pack(f"<2I{len(record.copies) - 1}I", record.copies[0], len(record.copies) // 2,
                                     *record.copies[1:]))
    else:
        parts.append(_LENGTH.pack(len(record.segments)))
        for world_size, through in record.segments:
            parts += [_SEGMENT.pack(world_size, len(through)), struct.pack(f"<{len(through)}I", *through)]
    parts += [_HISTORY.pack(record.world_size, record.rank, len(record.history)),
              np.ascontiguousarray(record.history, BATCH).tobytes(), np.ascontiguousarray(record.turns, TURN).tobytes()]
    return b"".join(parts)


def decode(data):
    """A record from bytes that others made. FormatError or VersionMismatch for what is none."""
    try:
        record, kind, end = _read(memoryview(data))
    except (struct.error, ValueError):
        raise FormatError(f"the state is damaged: {len(data)} bytes do not fit its fields") from None
    if end != len(data):
        raise FormatError(f"the state is damaged: {len(data)} bytes do not fit its fields")
    if record.shuffle > SHUFFLE_NONE or kind != (KIND_SET if record.shuffle == SHUFFLE_DEPENDENT else KIND_ORDER):
        raise FormatError(f"the state is damaged: kind {kind} does not fit shuffle {record.shuffle}")
    check_base(record)
    _check_part(record)
    _check_history(record)
    return record


def _read(data):
    if len(data) < 4 or _LENGTH.unpack_from(data)[0] != MAGIC:
        raise FormatError("the state does not begin as a state of Larder does")
    _, version, kind = _BEGIN.unpack_from(data)
    if not VERSION_OLDEST <= version <= VERSION:
        raise VersionMismatch(f"the state has format version {version}, and this release of Larder reads versions "
                              f"{VERSION_OLDEST} to {VERSION}: use the release that wrote it, or a newer one")
    at, of, part = _BEGIN.size, NO_VERSION, WHOLE
    if version > VERSION_OLDEST:
        of, at = _DATASET.unpack_from(data, at), at + _DATASET.size
    if version == VERSION:
        part, at = _PART.unpack_from(data, at), at + _PART.size
    dataset_0, dataset_1, view_0, view_1, seed, shuffle, epoch, batches, samples = _HEAD.unpack_from(data, at)
    (count,), at = _LENGTH.unpack_from(data, at + _HEAD.size), at + _HEAD.size + _LENGTH.size
    taken, segments, copies = b"", [], ()
    if kind == KIND_SET:
        taken, at = bytes(_slice(data, at, count)), at + count
        if version == VERSION_COPIES:
            (ranks, n), at = _COPIES.unpack_from(data, at), at + _COPIES.size
            copies = (ranks, *np.frombuffer(_slice(data, at, n * 2 * TURN.itemsize), TURN).tolist())
            at += n * 2 * TURN.itemsize
    else:
        if count > SEGMENTS_MAX:
            raise ValueError
        for _ in range(count):
            world_size, n = _SEGMENT.unpack_from(data, at)
            through = np.frombuffer(_slice(data, at + _SEGMENT.size, n * 4), TURN)
            segments.append((world_size, tuple(through.tolist())))
            at += _SEGMENT.size + n * 4
    world_size, rank, n_batches = _HISTORY.unpack_from(data, at)
    at += _HISTORY.size
    history = np.frombuffer(_slice(data, at, n_batches * BATCH.itemsize), BATCH)
    at += history.nbytes
    turns = np.frombuffer(_slice(data, at, int(history["n_turns"].sum(dtype=np.uint64)) * TURN.itemsize), TURN)
    record = Record((dataset_0, dataset_1), (view_0, view_1), seed, shuffle, epoch, batches, samples, taken,
                    tuple(segments), world_size, rank, history, turns, copies, of, part)
    if version != _version_of(record):
        raise ValueError
    return record, kind, at + turns.nbytes


def _slice(data, at, length):
    if length > len(data) - at:
        raise ValueError
    return data[at:at + length]


def check_base(record):
    """Raises FormatError where the base is not what its record allows."""
    samples = record.samples
    if record.epoch == _wire.EPOCHS_MAX and (record.batches or record.taken or record.segments or len(record.history)):
        raise FormatError(f"the state is damaged: something was taken of epoch {record.epoch}, which no job has")
    if record.taken:
        each = set_bytes(samples)
        if not each or len(record.taken) % each or len(record.taken) > SETS_MAX * each:
            raise FormatError(f"the state is damaged: its set has {len(record.taken)} bytes, not {set_bytes(samples)} "
                              f"for {samples} samples")
        if samples % 8 and any(last >> samples % 8 for last in record.taken[each - 1::each]):
            raise FormatError(f"the state is damaged: its set has indices beyond its {samples} samples")
    if record.copies:
        _check_copies(record)
    if len(record.segments) > SEGMENTS_MAX:
        raise FormatError(f"the state is damaged: it has more than {SEGMENTS_MAX} segments")
    for world_size, through in record.segments:
        if not 1 <= world_size <= RANKS_MAX or len(through) not in (1, world_size):
            raise FormatError(f"the state is damaged: a segment of {world_size} ranks has {len(through)} numbers")
        if max(through) > samples:
            raise FormatError(f"the state is damaged: a rank is through {max(through)} numbers of {samples} samples")


def _check_copies(record):
    ranks, places = record.copies[0], np.array(record.copies[1:], np.int64).reshape(-1, 2)
    counts, had = counts_of(record.taken, record.samples), np.array([], np.int64)
    fits = 1 <= ranks <= RANKS_MAX and len(places) and (places >= 0).all() and \
        (places < (record.samples, ranks)).all() and (np.diff(places[:, 0] * ranks + places[:, 1]) >= 0).all()
    if fits:
        index, had = np.unique(places[:, 0], return_counts=True)
    if not fits or (had > counts[index]).any():
        raise FormatError(f"the state is damaged: {len(places)} copies of {ranks} ranks do not fit what was taken")


def _check_part(record):
    first, ranks, of = record.part
    if record.part != WHOLE and (not 1 <= ranks < of <= ALL_RANKS_MAX or first > of - ranks or record.world_size or
                                  record.copies):
        raise FormatError(f"the state is damaged: it is of {ranks} ranks from {first} on of {of}")


def _check_history(record):
    if record.world_size > ALL_RANKS_MAX or (record.rank >= record.world_size if record.world_size else
                                         record.rank or len(record.history)):
        raise FormatError(f"the state is damaged: its history is of rank {record.rank} of {record.world_size}")
    history = record.history
    most = history["delivered"] if record.shuffle == SHUFFLE_DEPENDENT else 0
    through = history["through"].astype(np.int64)
    if (history["n_turns"] > most).any() or (record.turns >= record.samples).any() or \
            (through.any() if record.shuffle == SHUFFLE_DEPENDENT else
             ((np.diff(through, prepend=0) < 0) | (through > record.samples)).any()):
        raise FormatError(f"the state is damaged: its history does not fit its {record.samples} samples")
