"""Where a training loop stands, as a dictionary for its checkpoint: made, and read again as something that others
wrote.

Only str, int and list are in it, so that torch.load(weights_only=True) takes it:

    version    2; without times and content, as states were before there were versions of datasets, it is 1
    dataset, view   fingerprints, 32 hexadecimal digits each; samples: of the dataset
    times, content  the version of the dataset, as many digits; all 0: not known
    subset     as it was given, or a digest of it where that is long: to be shown
    sampler    what an epoch is, where it is not each sample once: compared, and shown; otherwise it is not there
    seed, shuffle   of the job; pipeline: a digest of that epoch's
    pipelines  [[epoch, pipeline], …] where it is not the same in all epochs; otherwise it is not there
    epoch, batches  where the loop is: how many batches each rank had taken of which epoch
    taken      of shuffle="dependent": "" or the base64 of a bit set over the dataset's indices, with a sampler of
               several as in common/record.h, behind "b", or behind "z" where it is compressed (zlib); "all": the
               epoch's last batch was taken
    copies     [ranks, index, rank, index, rank, …] where copies of a sample go to different ranks, which rank had a
               copy of a sample of which not all had been taken; otherwise it is not there
    part       where the job's ranks are at several nodes, and this is what those of one took: [first rank, ranks, how
               many the job has, samples that were taken before the job began, a digest of what was]; otherwise it is
               not there
    order      of the others: what is over of the epoch's order, [[ranks, number, …], …] as in common/record.h, or "all"
    check      the CRC-32 of all the rest as JSON
"""

import base64
import binascii
import hashlib
import json
import re
import warnings
import zlib
from typing import NamedTuple

from . import _pipelines, _record, _wire, samplers
from ._history import Base
from .errors import FormatError, InvalidArgument, SourceChanged, VersionMismatch

VERSION, VERSION_OLDEST = 2, 1
_SHUFFLES = ("dependent", "strict", "none")
_ALL = "all"
_SHOWN_MAX = 200  # characters of a subset
_U32, _U64 = 2**32 - 1, 2**64 - 1
_MOST = {"samples": _U32, "seed": _U64, "epoch": _U32, "batches": _U32}
_VERSIONED = ("times", "content")
_TEXTS = ("dataset", "view", "subset", "shuffle", "pipeline", "check")
_HEX = re.compile("[0-9a-f]{32}")


class Part(NamedTuple):
    """Which ranks a state is of, where others are at other nodes. Parts of jobs that began with the same state have the
    same last two."""

    first: int
    ranks: int
    of: int
    before: int
    digest: str


class State(NamedTuple):
    dataset: tuple
    view: tuple
    samples: int
    subset: str
    seed: int
    shuffle: int
    pipeline: str
    epoch: int
    base: Base
    version: tuple = _record.NO_VERSION
    schedule: _pipelines.Schedule = None  # None: one pipeline
    sampler: str = ""
    part: Part = None  # None: it is of all ranks


# ── making ──

def of_job(job, info, epoch, base, schedule=None, part=None):
    """The state of a job's loop, with what the daemon said of its dataset."""
    return State(info.fingerprint, info.view, info.dataset_samples, _shown(job.subset), job.seed, job.shuffle,
                 _digest(schedule.at(epoch) if schedule else job.pipeline), epoch, base, info.version, schedule,
                 samplers.said(job), part)


def part_of(first, ranks, of, base, samples):
    """The Part of the ranks of a node, in a job that began with this base."""
    digest = hashlib.sha256(repr((base.batches, base.segments)).encode() + base.taken).hexdigest()[:16]
    return Part(first, ranks, of, int(_record.counts_of(base.taken, samples).sum()), digest)


def ranks_named(first, end, of):
    """Neighbouring ranks as texts name them."""
    return f"rank {first} of {of}" if end == first + 1 else f"ranks {first} to {end - 1} of {of}"


def to_dict(state):
    base = state.base
    made = {"version": VERSION, "dataset": _to_hex(state.dataset), "view": _to_hex(state.view),
            "samples": state.samples, "subset": state.subset, "seed": state.seed, "shuffle": _SHUFFLES[state.shuffle],
            "pipeline": state.pipeline, "epoch": state.epoch, "batches": base.batches,
            "times": _to_hex(state.version[:2]), "content": _to_hex(state.version[2:])}
    if state.schedule is not None and state.schedule.changes:
        made["pipelines"] = state.schedule.to_state()
    if state.sampler:
        made["sampler"] = state.sampler
    if state.part is not None:
        made["part"] = list(state.part)
    if state.shuffle == _record.SHUFFLE_DEPENDENT:
        made["taken"] = _ALL if base.over else _packed(base.taken)
        if base.copies:
            made["copies"] = list(base.copies)
    else:
        made["order"] = _ALL if base.over else [[of, *through] for of, through in base.segments]
    made["check"] = _check_of(made)
    return made


def _to_hex(fingerprint):
    return f"{fingerprint[0]:016x}{fingerprint[1]:016x}"


def _canonical(text):
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return text.decode("utf-8", "replace")


def _digest(spec):
    return hashlib.sha256(_canonical(spec).encode()).hexdigest()[:16] if spec else ""


def _shown(spec):
    text = _canonical(spec) if spec else ""
    return text if len(text) <= _SHOWN_MAX else f"{len(text)} characters, {_digest(spec)}"


def _packed(taken):
    """Runs are all that a set of random indices can be compressed by, besides its density."""
    if not taken:
        return ""
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    packed = packer.compress(taken) + packer.flush()
    prefix, shorter = ("z", packed) if len(packed) < len(taken) else ("b", taken)
    return prefix + binascii.b2a_base64(shorter, newline=False).decode()


def _check_of(made):
    rest = {key: made[key] for key in made if key != "check"}
    return f"{zlib.crc32(json.dumps(rest, sort_keys=True, separators=(',', ':')).encode()):08x}"


# ── reading ──

def _said(value):
    """A value as an error's text shows it, whatever it is."""
    return repr(value)[:40] if isinstance(value, (str, bool, type(None))) or type(value) is int and \
        value.bit_length() <= 128 else f"a {type(value).__name__}"


def from_dict(made, part=False):
    """A State from what state_dict() gave. FormatError or VersionMismatch for what is none. InvalidArgument for a part,
    unless `part` says that one will do."""
    if not isinstance(made, dict):
        raise FormatError(f"the state is a {type(made).__name__}, not the dictionary that state_dict() gives")
    if "version" not in made or "check" not in made:
        raise FormatError("the state is not one of a larder.Loader: it has no "
                          f"{'check' if 'version' in made else 'version'}")
    if type(made["version"]) is not int or not VERSION_OLDEST <= made["version"] <= VERSION:
        raise VersionMismatch(f"the state has version {_said(made['version'])}, and this release of larder reads "
                              f"versions {VERSION_OLDEST} to {VERSION}: use the release that wrote it, or a newer one")
    _check_types(made)
    if made["check"] != _check_of(made):
        raise FormatError("the state is damaged: its check does not fit what it says. Take another checkpoint")
    state = _read(made)
    if state.part is None or part:
        return state
    first, ranks, of = state.part[:3]
    others = [ranks_named(*row, of) for row in ((0, first), (first + ranks, of)) if row[0] < row[1]]
    raise InvalidArgument(f"the state is a part: it says what {ranks_named(first, first + ranks, of)} took, and "
                          f"nothing of {' and '.join(others)}, at other nodes. Give the parts of all nodes in a list, "
                          "or save what larder.gather_state() returns")


def _check_types(made):
    what = "taken" if "taken" in made else "order"
    optional = {"pipelines", "sampler", "part", *(("copies",) if {"sampler", "taken"} <= made.keys() else ())}
    wanted = {"version", "dataset", "view", "samples", "subset", "seed", "shuffle", "pipeline", "epoch", "batches",
              what, "check", *(optional & made.keys()),
              *(_VERSIONED if made["version"] > VERSION_OLDEST else ())}
    if made.keys() != wanted:
        wrong = sorted(map(str, made.keys() ^ wanted))
        raise FormatError(f"the state is damaged: {wrong[0]:.40} is {'missing' if wrong[0] in wanted else 'foreign'}")
    for key, most in _MOST.items():
        if type(made[key]) is not int or not 0 <= made[key] <= most:
            raise FormatError(f"the state is damaged: {key} is {_said(made[key])}, not 0 to {most}")
    for key in wanted.intersection((*_TEXTS, "sampler", *_VERSIONED)):
        if type(made[key]) is not str:
            raise FormatError(f"the state is damaged: {key} is {_said(made[key])}, no text")
    _check_type_of(made, what)
    copies = made.get("copies", [0])
    if type(copies) is not list or len(copies) % 2 == 0 or not all(type(n) is int and 0 <= n <= _U32 for n in copies):
        raise FormatError(f"the state is damaged: copies is {_said(copies)}")
    if "part" in made:
        _check_part(made, what)


def _check_part(made, what):
    """A part is of some of the ranks, in the middle of an epoch, and of no sampler."""
    part = made["part"]
    fits = type(part) is list and len(part) == 5 and type(part[4]) is str and \
        all(type(number) is int and 0 <= number <= _U32 for number in part[:4])
    if not fits or not 1 <= part[1] < part[2] <= _record.ALL_RANKS_MAX or part[0] > part[2] - part[1]:
        raise FormatError(f"the state is damaged: part is {_said(part)}")
    if "sampler" in made or made[what] == _ALL:
        raise FormatError("the state is damaged: a part has no sampler, and is of the middle of an epoch")


def _check_type_of(made, what):
    value = made[what]
    if type(value) is str and (what == "taken" or value == _ALL):
        return
    if what == "order" and type(value) is list and len(value) <= _record.SEGMENTS_MAX:
        if all(type(row) is list and 2 <= len(row) <= _record.RANKS_MAX + 1 and
               all(type(number) is int and 0 <= number <= _U32 for number in row) for row in value):
            return
    raise FormatError(f"the state is damaged: {what} is {_said(value)}")


def _read(made):
    if made["shuffle"] not in _SHUFFLES:
        raise FormatError(f"the state is damaged: shuffle is {_said(made['shuffle'])}")
    shuffle = _SHUFFLES.index(made["shuffle"])
    what = "taken" if shuffle == _record.SHUFFLE_DEPENDENT else "order"
    if what not in made:
        raise FormatError(f"the state is damaged: {what} is missing")
    if made[what] == _ALL and made["epoch"] == _wire.EPOCHS_MAX:
        raise FormatError(f"the state is damaged: epoch {made['epoch']} was taken, which no job has")
    if made[what] == _ALL:
        base = Base(made["batches"], over=True)
    elif what == "taken":
        base = Base(made["batches"], taken=_unpacked(made["taken"], _record.set_bytes(made["samples"]),
                                                         _record.SETS_MAX if "sampler" in made else 1),
                    copies=tuple(made.get("copies", ())))
    else:
        base = Base(made["batches"], segments=tuple((row[0], tuple(row[1:])) for row in made["order"]))
    fingerprints = [_from_hex(made, key) for key in ("dataset", "view")]
    version = sum((_from_hex(made, key) for key in _VERSIONED if key in made), ()) or _record.NO_VERSION
    _record.check_base(_record.Record(*fingerprints, made["seed"], shuffle, made["epoch"], base.batches,
                                      made["samples"], base.taken, base.segments, copies=base.copies))
    return State(*fingerprints, made["samples"], made["subset"], made["seed"], shuffle, made["pipeline"],
                 made["epoch"], base, version,
                 _pipelines.from_state(made["pipelines"]) if "pipelines" in made else None, made.get("sampler", ""),
                 Part(*made["part"]) if "part" in made else None)


def _from_hex(made, key):
    if not _HEX.fullmatch(made[key]):
        raise FormatError(f"the state is damaged: {key} is {_said(made[key])}, not 32 hexadecimal digits")
    return int(made[key][:16], 16), int(made[key][16:], 16)


def _unpacked(text, length, most=1):
    """The sets that a text is of: of so many bytes each, and at most so many."""
    if not text:
        return b""
    try:
        taken = base64.b64decode(text[1:], validate=True)
        if binascii.b2a_base64(taken, newline=False).decode() != text[1:]:
            raise ValueError
        if text[0] == "z":
            unpacker = zlib.decompressobj()
            taken = unpacker.decompress(taken, most * length + 1)
            if not unpacker.eof or unpacker.unused_data:
                raise ValueError
        elif text[0] != "b":
            raise ValueError
    except (ValueError, zlib.error):
        raise FormatError("the state is damaged: what was taken cannot be read") from None
    if not length or len(taken) % length or not length <= len(taken) <= most * length:
        raise FormatError(f"the state is damaged: what was taken has {len(taken)} bytes and not {length}")
    return taken


# ── fitting ──

def check_job(state, job, stacklevel):
    """Refuses a state that another kind of job has written."""
    if state.shuffle != job.shuffle:
        raise InvalidArgument(f"the state is of shuffle={_SHUFFLES[state.shuffle]!r}, and this Loader has "
                              f"shuffle={_SHUFFLES[job.shuffle]!r}: give it the same")
    if state.sampler != samplers.said(job):
        raise InvalidArgument(f"the state is of epochs with {state.sampler or 'each sample once'}, and this Loader's "
                              f"have {samplers.said(job) or 'each sample once'}: give it the same repeat=, sampler= "
                              "and seed=")
    strict = job.shuffle == _wire.SHUFFLES["strict"]
    if strict and state.seed != job.seed:
        raise InvalidArgument(f"the state is of seed={state.seed}, and this Loader has seed={job.seed}: with "
                              "shuffle=\"strict\" the order depends on it, so give it the same")
    if state.pipeline != _digest(job.pipeline):
        text = "the state is of another pipeline than this Loader's"
        if strict:
            raise InvalidArgument(f"{text}: with shuffle=\"strict\" the samples would differ, so give it the same")
        warnings.warn(f"{text}: the rest of the epoch is prepared as this one says", stacklevel=stacklevel)


def check_dataset(state, job, info):
    """Refuses a state of another dataset or another part of it, with what the daemon says of the Loader's."""
    if (state.dataset, state.samples) != (info.fingerprint, info.dataset_samples):
        raise SourceChanged(f"the state is of another dataset, of {state.samples} samples, than "
                            f"{job.dataset.decode('utf-8', 'replace')!r} is now, which has {info.dataset_samples}: "
                            "files were added, taken away or changed, or it is another one. Begin a whole epoch: leave "
                            "the state out, or call set_epoch()")
    if not _record.same_version(state.version, info.version):
        raise SourceChanged(f"the state is of another version of {job.dataset.decode('utf-8', 'replace')!r} than is "
                            "there now: files of the same names and sizes have been rewritten. Begin a whole epoch: "
                            "leave the state out, or call set_epoch()")
    if state.view != info.view:
        raise InvalidArgument(f"the state is of another part of the dataset: subset was {state.subset or None!r}, and "
                              f"this Loader's is {_shown(job.subset) or None!r}: give it the same")
