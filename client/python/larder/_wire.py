"""The session protocol's codec: the Python half of common/wire.c, whose layouts it repeats. Pure.

A header of 16 bytes (magic, version, type, seq, length of the whole message), then the numbers and texts of the
message's struct in its order; a text is a u32 length and its bytes. Little-endian, nothing padded, all lengths checked.
"""

import functools
import struct
from typing import NamedTuple

import numpy as np

from . import _layout
from ._version import __version__
from .errors import FormatError, InvalidArgument, LimitReached, VersionMismatch

MAGIC = 0x3152444C
VERSION = 13
VERSION_OLDEST = 4  # of a daemon whose ERROR is still understood
REQUEST_MAX = 65536
REPLY_MAX = 200704
BATCH_MAX = 8192
CREDITS_MAX = 64
EPOCHS_MAX = 2**32 - 1  # of a job; what comes after the last one has a number too
NAME_MAX = 128
PATH_MAX = 4096
SPEC_MAX = 24576
COLUMN_MAX = 1024
WIDTH_MAX = 65536
INT64, FLOAT64, TEXT = range(3)  # kinds of columns
COPIES_MAX = 64
DRAWS_MAX = 2**32 - 1
MIX_ALL = 10**6  # chunks, of which `mix` says how many

(HELLO, WELCOME, REGISTER, REGISTERED, CLASSES_GET, CLASSES, NEXT, BATCH, RELEASE, ERROR, BYE, TURNS, STATE_GET,
 STATE, DONE, COLUMN_GET, COLUMN) = range(1, 18)

SHUFFLES = {"dependent": 0, "strict": 1, "none": 2, True: 0, False: 2}
BAD_POLICIES = {"skip": 0, "replace": 1, "error": 2}
(DROP_LAST, RELABEL, PRIVATE_AUGMENT, ORDERED, ALL_FILES, HOLD, WITH_STATE, WITH_INDICES, OWN_LABELS,
 HEARS_DONE, WITH_WEIGHTS) = (1 << bit for bit in range(11))
ONCE, REPEAT, WEIGHTS, BALANCED = range(4)  # what an epoch is
DEALS = {"epoch": 0, "home": 1}  # to ranks at several nodes
WEIGHT_MIN, WEIGHT_MAX = 0.01, 100
AUGMENTS = {"shared": 0, "private": PRIVATE_AUGMENT}
BATCH_LAST = 1
AHEAD = 0xFFFFFFFF  # of NEXT: its sender goes on meanwhile
TURN_NONE = 0xFFFFFFFF

_HEADER = struct.Struct("<IHHII")
_HEADER_BYTES = _HEADER.size
_WELCOME = struct.Struct("<QII")
_REGISTER = struct.Struct("<8IQd4IQ2I")
_REGISTERED = struct.Struct("<7I5Q2I4Q")
_FIELD = struct.Struct("<24s8I")
_THREE = struct.Struct("<III")
_NEXT = struct.Struct(_HEADER.format + "III")  # with the header, as all of what is sent for each batch
_BATCH = struct.Struct("<16xQIIIIIId")  # behind the header
_TURNS = struct.Struct("<QI")
_COLUMN = struct.Struct("<IIQQ")
_ERROR = struct.Struct("<iI")
_RELEASE_HEAD = _HEADER.pack(MAGIC, VERSION, RELEASE, 0, _HEADER_BYTES + 8)  # before the batch's number
_LENGTH = struct.Struct("<I")
_CLASS = struct.Struct("<H")

_ENTRIES_AT = _BATCH.size
_TURNS_AT = _HEADER_BYTES + _TURNS.size
ENTRY = np.dtype([("offset", "<u8"), ("len_bytes", "<u4"), ("id", "<u4"), ("index", "<u4"), ("label", "<i4")])
_ENTRY_BYTES = ENTRY.itemsize
TURN = np.dtype([("position", "<u4"), ("index", "<u4")])


class _Register(NamedTuple):
    batch_size: int
    prefetch: int
    world_size: int
    rank: int
    epochs: int
    shuffle: int
    bad_policy: int
    flags: int
    seed: int
    weight: float
    local_world_size: int  # ranks of the job at this node, neighbours; 0: all of them
    local_first: int
    sampler: int  # what an epoch is: ONCE, …
    copies: int   # of each sample, for REPEAT; otherwise 0
    draws: int    # of an epoch, for WEIGHTS and BALANCED; 0: as many as the subset has samples
    deal: int     # of DEALS
    mix: int      # of MIX_ALL, for "home"; otherwise 0
    name: bytes
    dataset: bytes
    pipeline: bytes
    subset: bytes
    sets: bytes     # that subset names; they go beside the message
    weights: bytes  # of all samples, for WEIGHTS; behind the sets


class Register(_Register):
    """What REGISTER says. Fields that are not this release's come from a Loader that another one has pickled."""

    __slots__ = ()

    def __new__(cls, *fields, **named):
        try:
            return super().__new__(cls, *fields, **named)
        except TypeError:
            raise VersionMismatch("this Loader was pickled by another release of the larder package, and this is "
                                  f"{__version__}: make the Loader anew, or install the same release on both sides"
                                  ) from None


class Welcome(NamedTuple):
    arena_bytes: int
    daemon_pid: int
    batch_max: int


class Registered(NamedTuple):
    job: int
    n_samples: int
    n_batches: int
    n_classes: int
    held_max: int
    epoch: int
    batch: int
    sample_bytes: int
    fingerprint: tuple   # of the dataset
    view: tuple          # fingerprint of the view
    dataset_samples: int
    version: tuple       # of the dataset: times and content, two numbers each; 0: not known
    layout: tuple        # the fields of a sample; none: encoded bytes of any length
    name: str


class Classes(NamedTuple):
    first: int
    count: int
    total: int
    names: list


class BatchMessage(NamedTuple):
    batch: int
    epoch: int
    index: int
    last: bool
    lost: int            # samples of the rank's epoch that were left out so far, because they are bad
    through: int         # fixed orders: so many numbers of the rank's part are over with this batch; otherwise 0
    weight: float        # the job's at this moment; 0: not said
    entries: np.ndarray  # of ENTRY; borrows from the message


class TurnsMessage(NamedTuple):
    batch: int         # the one that comes next
    turns: np.ndarray  # of TURN, by ascending positions; borrows from the message


class DoneMessage(NamedTuple):
    epoch: int
    rank: int     # another one, of all ranks of the job, that has had all of its share
    n_bytes: int  # of its history, in the descriptor that comes with the message


class StateMessage(NamedTuple):
    n_bytes: int  # of the token, in the descriptor that comes with the message


class ColumnMessage(NamedTuple):
    kind: int     # INT64, …
    width: int    # numbers a row
    count: int    # rows
    n_bytes: int  # in the descriptor that comes with the message


class ErrorMessage(NamedTuple):
    code: int
    fatal: bool
    text: str


def _message(kind, seq, *parts):
    body = b"".join(parts)
    length = _HEADER.size + len(body)
    if length > REQUEST_MAX:
        raise LimitReached(f"the request has {length} bytes, more than the {REQUEST_MAX} a message may have")
    return _HEADER.pack(MAGIC, VERSION, kind, seq, length) + body


def _text(what, value, limit):
    if len(value) > limit:
        raise LimitReached(f"{what} has {len(value)} bytes, more than the {limit} allowed")
    if 0 in value:
        raise InvalidArgument(f"{what} holds a NUL byte")
    return _LENGTH.pack(len(value)) + value


def hello(seq, pid, client):
    return _message(HELLO, seq, _LENGTH.pack(pid), _text("the client's name", client, 32))


def register(seq, job, with_state=False):
    """Where the job has sets or weights, or with_state, a descriptor goes with the message, of a file that has these,
    and then a record of what was taken."""
    job = job._replace(flags=job.flags | (WITH_STATE if with_state else 0) | (WITH_INDICES if job.sets else 0) |
                       (WITH_WEIGHTS if job.weights else 0))
    return _message(REGISTER, seq, _REGISTER.pack(*job[:17]), _text("name", job.name, NAME_MAX),
                    _text("dataset", job.dataset, PATH_MAX), _text("pipeline", job.pipeline, SPEC_MAX),
                    _text("subset", job.subset, SPEC_MAX))


def classes_get(seq, first):
    return _message(CLASSES_GET, seq, _LENGTH.pack(first))


@functools.lru_cache(64)  # most batches ask for the same
def next_batches(epoch, credits, awaited=AHEAD):
    """awaited: of how many batches, these included, the script stands still until the next one comes."""
    return _NEXT.pack(MAGIC, VERSION, NEXT, 0, _NEXT.size, epoch, credits, awaited)


def release(batch):
    return _RELEASE_HEAD + batch.to_bytes(8, "little")


def state_get(seq, epoch, batches, timeout_ms):
    return _message(STATE_GET, seq, _THREE.pack(epoch, batches, timeout_ms))


def column_get(seq, name):
    return _message(COLUMN_GET, seq, _text("a column's name", name, COLUMN_MAX))


def bye():
    return _message(BYE, 0)


def _take_text(message, at):
    (length,) = _LENGTH.unpack_from(message, at)
    at += _LENGTH.size
    if length > len(message) - at:
        raise FormatError("a text reaches beyond its message")
    return bytes(message[at:at + length]), at + length


def _decode_welcome(message):
    return Welcome(*_WELCOME.unpack_from(message, _HEADER_BYTES)), _HEADER_BYTES + _WELCOME.size


def _decode_registered(message):
    numbers = _REGISTERED.unpack_from(message, _HEADER_BYTES)
    if numbers[13] > _layout.FIELDS_MAX:
        raise FormatError(f"REGISTERED: a sample has {numbers[13]} fields")
    first = _HEADER_BYTES + _REGISTERED.size
    at = first + numbers[13] * _FIELD.size
    layout = _layout.read(_FIELD.iter_unpack(message[first:at]), numbers[7])
    name, end = _take_text(message, at)
    return Registered(*numbers[:8], numbers[8:10], numbers[10:12], numbers[12], numbers[14:18], layout,
                      name.decode("utf-8", "surrogateescape")), end


def _decode_classes(message):
    first, count, total = _THREE.unpack_from(message, _HEADER_BYTES)
    packed, end = _take_text(message, _HEADER_BYTES + _THREE.size)
    names, at = [], 0
    while at < len(packed):
        (length,) = _CLASS.unpack_from(packed, at)
        at += _CLASS.size
        if length > len(packed) - at:
            raise FormatError("CLASSES: a name reaches beyond the message")
        names.append(packed[at:at + length].decode("utf-8", "surrogateescape"))
        at += length
    if len(names) != count or first + count > total:
        raise FormatError(f"CLASSES: {len(names)} names where {count} of {total} from {first} on were announced")
    return Classes(first, count, total, names), end


_made = tuple.__new__  # of a named tuple, without the function in Python that its class has for that


def _decode_batch(message):
    batch, epoch, index, flags, count, lost, through, weight = _BATCH.unpack_from(message)
    end = _ENTRIES_AT + count * _ENTRY_BYTES
    if count > BATCH_MAX or end > len(message):
        raise FormatError(f"BATCH: {count} entries do not fit the message")
    if weight != 0 and not WEIGHT_MIN <= weight <= WEIGHT_MAX:
        raise FormatError(f"BATCH: weight is {weight}, not {WEIGHT_MIN} to {WEIGHT_MAX}")
    entries = np.frombuffer(message, ENTRY, count, _ENTRIES_AT)
    return _made(BatchMessage, (batch, epoch, index, flags & BATCH_LAST != 0, lost, through, weight, entries)), end


def _decode_turns(message):
    batch, count = _TURNS.unpack_from(message, _HEADER_BYTES)
    end = _TURNS_AT + count * TURN.itemsize
    if not 1 <= count <= BATCH_MAX or end > len(message):
        raise FormatError(f"TURNS: {count} turns do not fit the message")
    turns = np.frombuffer(message, TURN, count, _TURNS_AT)
    positions = turns["position"]
    if positions[-1] >= BATCH_MAX or (positions[1:] <= positions[:-1]).any():
        raise FormatError("TURNS: positions do not ascend within a batch")
    return TurnsMessage(batch, turns), end


def _decode_state(message):
    return StateMessage(*_LENGTH.unpack_from(message, _HEADER_BYTES)), _HEADER_BYTES + _LENGTH.size


def _decode_done(message):
    return DoneMessage(*_THREE.unpack_from(message, _HEADER_BYTES)), _HEADER_BYTES + _THREE.size


def _decode_column(message):
    kind, width, count, n_bytes = _COLUMN.unpack_from(message, _HEADER_BYTES)
    words = count + 1 if kind == TEXT else count * width
    if kind > TEXT or not 1 <= width <= (1 if kind == TEXT else WIDTH_MAX) or n_bytes < words * 8 or \
            (kind != TEXT and n_bytes != words * 8):
        raise FormatError(f"COLUMN: {count} rows of {width} of kind {kind} do not take {n_bytes} bytes")
    return ColumnMessage(kind, width, count, n_bytes), _HEADER_BYTES + _COLUMN.size


def _decode_error(message):
    code, fatal = _ERROR.unpack_from(message, _HEADER_BYTES)
    text, end = _take_text(message, _HEADER_BYTES + _ERROR.size)
    return ErrorMessage(code, bool(fatal), text.decode("utf-8", "replace")), end


_DECODERS = {WELCOME: _decode_welcome, REGISTERED: _decode_registered, CLASSES: _decode_classes, BATCH: _decode_batch,
             ERROR: _decode_error, TURNS: _decode_turns, STATE: _decode_state, DONE: _decode_done,
             COLUMN: _decode_column}


def _check_version(magic, version, kind):
    if magic != MAGIC:
        raise FormatError("a message that does not begin with Larder's magic number")
    if version != VERSION and not (kind == ERROR and VERSION_OLDEST <= version < VERSION):  # which all have alike
        raise VersionMismatch(f"the daemon speaks protocol version {version}, this package version {VERSION}: "
                              "install the same release of Larder on both sides")


def decode(message):
    """(type, seq, fields) of a message from the daemon, as bytes. Raises FormatError or VersionMismatch."""
    size = len(message)
    if size < _HEADER_BYTES:
        raise FormatError(f"a message of {size} bytes, shorter than a header")
    magic, version, kind, seq, length = _HEADER.unpack_from(message)
    if magic != MAGIC or version != VERSION:
        _check_version(magic, version, kind)
    take = _DECODERS.get(kind)
    if length != size or take is None:
        raise FormatError(f"a message of type {kind} with {size} bytes where its header says {length}")
    try:
        fields, end = take(message)
    except struct.error:
        raise FormatError(f"a message of type {kind} with {size} bytes, too few for its fields") from None
    if end != size:
        raise FormatError(f"a message of type {kind} with {size} bytes where header and fields take {end}")
    return kind, seq, fields
