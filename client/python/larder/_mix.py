"""Mix: several datasets in one loop, by weight. Each has a Loader, and so a job of its own in the daemon; here their
batches are put together. Nothing of it is drawn: what a batch has of which dataset follows from the weights, and where
in the batch its rows are from the seed, the epoch and the batch's number."""

import math
import os
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from . import _options, _state, _wire
from ._own import Own
from .errors import FormatError, InvalidArgument, LarderError, VersionMismatch
from .loader import Loader

_VERSION = 1
_NOT_HERE = {"zero_copy": "a batch's rows are copied together",
             "epochs": "the parts' passes do not end with its epochs",
             "as_tuple": "its batches of samples of several parts are dictionaries"}
# Of no part alone.
_WHOLE = {"batch_size", "collate_fn", "as_dict", "pin_memory", "with_ids", "with_paths", "columns", *_NOT_HERE}
_LABELS = (None, "own", "names", "offset")


class Mix:
    """Batches of several datasets together: an iterable of (images, labels), as a Loader is.

    parts: {name: (source, weight)}. source: what a Loader takes as its dataset; or a dictionary of a Loader's
    arguments, {"dataset": …, "subset": …}, which go before those below; or a Loader, whose job and batch_size become
    the Mix's own. Weights count in relation to each other.
    pipeline, batch_size, and all other arguments of a Loader but zero_copy and epochs: for all parts.

    Every batch has the same number of rows of each part: its weight's share of batch_size, rounded so that it is off by
    less than one row (`rows` has the numbers). They come in a random order of rows. Each part goes through its dataset
    in passes of its own, whenever the Mix's epochs begin and end: within a pass each sample comes once, or as often as
    repeat= or sampler= say. The last batch of a pass has what is left; a Mix's batch with it is shorter by what that
    lacks. With drop_last=True each pass leaves out what would not fill its part of a batch, and all are of batch_size.

    samples     in an epoch, of all ranks together: it has samples // (batch_size * world_size) batches, and one at the
                least. By default as many as all parts have together
    labels      None: the numbers that each part has, and parts with other classes than the first are refused.
                "names": classes are the names of all parts, sorted, and equal names have one number. "offset": a part's
                classes follow those of the parts before it, and are called "part/class". "own": each part's numbers,
                whatever they mean there
    name        of the jobs, with "-" and the part's name behind it
    with_ids    the third part of a batch are the rows' positions, each in its own dataset
    columns     those that all parts have; whole numbers of one part are float32 where those of another are
    transform, collate_fn, as_dict, pin_memory     work on the whole batch

    Of the batch given last `last_parts` has which part each row is of (0, 1, … in the order of `parts`), last_indices
    its position there, and last_ids the daemon's sample id. `loaders` has the parts' Loaders. Each is a job like
    others: it shares what is prepared with every job that trains on its dataset, mixed or alone.
    """

    def __init__(self, parts, pipeline=None, batch_size=64, *, samples=None, labels=None, seed=0, transform=None,
                 collate_fn=None, as_dict=None, pin_memory=False, with_ids=False, with_paths=False, columns=(),
                 name=None, state=None, **options):
        for what in _NOT_HERE.keys() & options.keys():
            raise InvalidArgument(f"a larder.Mix has no {what}=: {_NOT_HERE[what]}. Leave it out")
        if labels not in _LABELS:
            raise InvalidArgument(f"labels is {labels!r}, and for a Mix one of {', '.join(map(repr, _LABELS))}: give a "
                                  "part's own with {\"dataset\": …, \"labels\": …} in place of its source")
        sources, weights = _read(parts)
        self._batch_size = _options.whole("batch_size", batch_size, 1, _wire.BATCH_MAX)
        self.rows = dict(zip(sources, _rows(weights, self._batch_size)))
        self._seed = _options.whole("seed", seed, 0, 2**64 - 1)
        columns = _options.columns(columns)
        self._own = Own(transform, collate_fn, False, _options.names_of_parts(
            as_dict, 2 + bool(with_ids) + bool(with_paths) + len(columns), False, columns))
        self._with_ids, self._with_paths = bool(with_ids), bool(with_paths)
        self._epoch, self._start = 0, 0  # that the next iteration begins with: the epoch, and its batches that are over
        self._now = None                 # the iterator made last
        self._came = []                  # batches of the parts, of a batch that was not given yet
        self._counts = {"samples": 0, "batches": 0}
        self.last_parts = self.last_indices = self.last_ids = None
        options = {"pipeline": pipeline, "seed": self._seed, "with_paths": self._with_paths, **options,
                   "columns": columns, "with_ids": True, "epochs": _wire.EPOCHS_MAX}
        self._parts = []
        try:
            for key, source in sources.items():
                own = {**options, "name": f"{name}-{key}"} if name else options
                self._parts.append(_Part(key, _loader(key, source, self.rows[key], own)))
            self._samples = sum(loader._known().draws for loader in self.loaders.values()) if samples is None else \
                _options.whole("samples", samples, 1, 2**63)
            self.classes = _number(self._parts, labels)
            torch = {loader._torch for loader in self.loaders.values()}
            if len(torch) > 1:
                raise InvalidArgument("some parts give torch tensors and some arrays: give all the same output=")
            self._torch = torch == {True}
            self._pin_memory = bool(pin_memory) and self._torch and _options.can_pin()
            if state is not None:
                self.load_state_dict(state)
        except BaseException:
            self.close()
            raise

    # ── what it is ──

    def __repr__(self):
        rows = ", ".join(f"{count} of {key!r}" for key, count in self.rows.items())
        return f"<larder.Mix of {rows} a batch, next is epoch {self._epoch}>"

    def __len__(self):
        """Batches an epoch."""
        return max(1, self._samples // self._whole_batch)

    @property
    def _whole_batch(self):
        """Rows of a batch, of all ranks together."""
        return self._batch_size * self.world_size

    @property
    def loaders(self):
        return {part.key: part.loader for part in self._parts}

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def dataset_size(self):
        """Samples of all parts together."""
        return sum(loader.dataset_size for loader in self.loaders.values())

    @property
    def class_to_idx(self):
        return {name: index for index, name in enumerate(self.classes)}

    @property
    def rank(self):
        return self._parts[0].loader.rank

    @property
    def world_size(self):
        return self._parts[0].loader.world_size

    @property
    def lost(self):
        """How many bad samples the parts have left out, each in the pass that it is in."""
        return sum(loader.lost for loader in self.loaders.values())

    def stats(self):
        """What it has given so far: samples, batches, and wait_s, the seconds that it waited for batches of its parts;
        `parts` has what stats() of their Loaders says."""
        parts = {key: loader.stats() for key, loader in self.loaders.items()}
        return dict(self._counts, wait_s=sum(stats["wait_s"] for stats in parts.values()), parts=parts)

    # ── iterating ──

    @property
    def epoch(self):
        """The epoch that the next iteration begins, from 0."""
        return self._epoch

    @property
    def sampler(self):
        """For trainers that call its set_epoch."""
        return self

    def set_epoch(self, epoch):
        """Makes the next iteration give this epoch, from 0. The parts' passes go on where they are. Not needed: each
        iteration is the next epoch."""
        epoch = _options.whole("epoch", epoch, 0, _wire.EPOCHS_MAX - 1)
        if epoch != self._epoch:
            self._epoch, self._start = epoch, 0

    def __iter__(self):
        for part in self._parts:
            part.forget_failed()
        self._now = _Epoch(self, self._epoch, self._start)
        self._epoch, self._start = self._epoch + 1, 0
        return self._now

    def _next(self, epoch, batch):
        """A batch. What fails, or Ctrl-C, leaves its rows where they are, for the next call."""
        for part in self._parts[len(self._came):]:
            self._came.append(part.next())
        batches = [came[0] for came in self._came]
        sizes = [len(came[1]) for came in self._came]
        order = np.random.default_rng([self._seed, epoch, batch, self.rank]).permutation(sum(sizes))
        places = np.split(order, np.cumsum(sizes)[:-1])
        given = self._own(self._of_dicts(batches, places) if any(isinstance(came, dict) for came in batches) else
                          self._of_tuples(batches, places))
        self.last_parts = _joined([np.full(size, at) for at, size in enumerate(sizes)], places)
        self.last_ids, self.last_indices = (_joined([came[at] for came in self._came], places) for at in (1, 2))
        self._counts["samples"] += len(order)
        self._counts["batches"] += 1
        self._came = []
        return given

    def _of_tuples(self, batches, places):
        labels = [part.renumbered(came[1]) for part, came in zip(self._parts, batches)]
        made = [_joined([came[0] for came in batches], places, self._pin_memory), _joined(labels, places)]
        made += [_joined(_of_one_type(pieces), places) for pieces in list(zip(*batches))[2 if self._with_ids else 3:]]
        return tuple(made)

    def _of_dicts(self, batches, places):
        """The same of samples of several parts."""
        for part, batch in zip(self._parts, batches):
            if not isinstance(batch, dict) or batch.keys() != batches[0].keys():
                raise InvalidArgument(f"a batch of {self._parts[0].key!r} has {_names_of(batches[0])}, and one of "
                                      f"{part.key!r} {_names_of(batch)}: give all the same parts= and labels=")
        made = {}
        for name in batches[0]:
            pieces = [batch[name] for batch in batches]
            if name == "label":
                pieces = [part.renumbered(piece) for part, piece in zip(self._parts, pieces)]
            if name != "index" or self._with_ids:
                made[name] = _joined(_of_one_type(pieces), places, self._pin_memory)
        return made

    # ── checkpoints ──

    def state_dict(self):
        """Where the training loop stands, for its checkpoint: the epoch, how much of it is over in samples, and the
        state of each part's Loader. Of several ranks any one may save, as Loader.state_dict() says."""
        for part, _ in zip(self._parts, self._came):
            part.give_back()
        self._came = []
        epoch, batches = self._epoch, self._start
        if self._now is not None and self._now.batch < len(self):
            epoch, batches = self._now.epoch, self._now.batch
        return {"mix": _VERSION, "epoch": epoch, "samples": batches * self._whole_batch,
                "parts": {key: loader.state_dict() for key, loader in self.loaders.items()}}

    def load_state_dict(self, state):
        """Makes the next iteration go on where state_dict() was called, with the rest of that epoch and of each part's
        pass. Weights, batch_size and the number of ranks may be others; the parts are the same."""
        states = _check(state, self.loaders)
        for key, loader in self.loaders.items():
            loader.load_state_dict(states[key])
        for part in self._parts:
            part.forget()
        self._came, self._now = [], None
        self._epoch, self._start = state["epoch"], state["samples"] // self._whole_batch

    def close(self):
        """Ends the parts' jobs."""
        for part in self._parts:
            part.loader.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Epoch:
    """The iterator over one epoch."""

    def __init__(self, mix, epoch, batch):
        self._mix, self.epoch, self.batch = mix, epoch, batch

    def __iter__(self):
        return self

    def __next__(self):
        if self._mix._now is not self:
            raise LarderError(f"the iterator of epoch {self.epoch} is over: a newer one of its Mix has begun, or a "
                              "state was loaded")
        if self.batch >= len(self._mix):
            raise StopIteration
        given = self._mix._next(self.epoch, self.batch)
        self.batch += 1
        return given


class _Part:
    """A Loader, and the pass that it is in."""

    def __init__(self, key, loader):
        self.key, self.loader = key, loader
        self.numbers = None  # of its classes in the Mix; None: as they are
        self._pass = None

    def next(self):
        """The next batch, of the pass or of the one after it; with the sample ids and positions of its rows."""
        for _ in range(2):
            self._pass = self._pass or iter(self.loader)
            batch = next(self._pass, None)
            if batch is not None:
                return batch, self.loader.last_ids, self.loader.last_indices
            self._pass = None
        raise InvalidArgument(f"part {self.key!r} has no batch: it has fewer samples than its part of a batch "
                              f"({self.loader.batch_size}, with drop_last), or all of them are bad")

    def renumbered(self, labels):
        if self.numbers is None:
            return labels
        if not hasattr(labels, "numpy"):
            return self.numbers[labels]
        import torch
        return torch.from_numpy(self.numbers[labels.numpy()])

    def give_back(self):
        """The batch that came last comes again."""
        self._pass._give_back()

    def forget(self):
        self._pass = None

    def forget_failed(self):
        if self._pass is not None and self._pass._failed:
            self._pass = None


def _read(parts):
    """The sources and the weights of the parts, by their names."""
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidArgument(f"parts is a {type(parts).__name__}, and not {{name: (source, weight), …}}")
    sources, weights = {}, []
    for key, value in parts.items():
        if not isinstance(key, str) or not isinstance(value, (tuple, list)) or len(value) != 2:
            raise InvalidArgument(f"part {key!r} is {value!r}: give it as name: (source, weight)")
        sources[key], weight = value
        if isinstance(weight, bool) or not hasattr(weight, "__float__") or not 0 < float(weight) < math.inf:
            raise InvalidArgument(f"the weight of part {key!r} is {weight!r}, and not a number above 0")
        weights.append((key, Fraction(float(weight))))
    return sources, weights


def _rows(weights, batch_size):
    """How many rows of a batch each part has: what is exact rounded down, and one more where most was cut off."""
    total = sum(weight for _, weight in weights)
    exact = [weight * batch_size / total for _, weight in weights]
    rows = [math.floor(share) for share in exact]
    most_cut = sorted(range(len(rows)), key=lambda at: rows[at] - exact[at])
    for at in most_cut[:batch_size - sum(rows)]:
        rows[at] += 1
    for (key, weight), count in zip(weights, rows):
        if not count:
            raise InvalidArgument(f"part {key!r} has no row in a batch of {batch_size}: give it more weight, or a "
                                  f"batch_size of {math.ceil(total / weight)} or more")
    return rows


def _loader(key, source, rows, options):
    if isinstance(source, Loader):
        return _taken_over(key, source, rows, options)
    own = dict(source) if isinstance(source, Mapping) else {"dataset": source}
    foreign = sorted(_WHOLE & own.keys())
    if "dataset" not in own or foreign:
        raise InvalidArgument(f"part {key!r} is {own!r}: " + (
            f"give {foreign[0]}= to the Mix, for all parts" if foreign else
            "a dictionary of a Loader's arguments has a \"dataset\""))
    return Loader(batch_size=rows, **{**options, **own})


def _taken_over(key, loader, rows, options):
    """A Loader like that one, with so many rows a batch. That one has ended."""
    if loader._zero_copy or loader._own.is_whole:
        raise InvalidArgument(f"the Loader of part {key!r} has zero_copy, collate_fn or as_dict: leave them out there, "
                              "and give collate_fn or as_dict to the Mix")
    state = loader.__getstate__()
    state["job"].update(batch_size=rows, epochs=options["epochs"])
    state.update(_with_ids=True, _with_paths=options["with_paths"], _columns=options["columns"], _pin_memory=False)
    loader.close()
    other = Loader.__new__(Loader)
    other.__setstate__(state)
    return other


def _number(parts, labels):
    """The classes of all, after each part was given its numbers in them."""
    classes = [part.loader.classes for part in parts]
    if labels == "offset":
        for at, part in enumerate(parts):
            part.numbers = np.arange(len(classes[at])) + sum(map(len, classes[:at]))
        return [f"{part.key}/{name}" for part, own in zip(parts, classes) for name in own]
    if labels == "names":
        _check_names(parts, classes)
        names = sorted({name for own in classes for name in own}, key=os.fsencode)
        number = {name: at for at, name in enumerate(names)}
        for part, own in zip(parts, classes):
            part.numbers = np.array([number[name] for name in own], np.int64)
        return names
    for part, own in zip(parts, classes):
        if labels is None and own != classes[0]:
            raise InvalidArgument(f"parts {parts[0].key!r} and {part.key!r} have different classes, and one label "
                                  "would mean two things: labels=\"names\" numbers equal names alike, "
                                  "labels=\"offset\" puts each part's classes behind those before it, "
                                  "labels=\"own\" leaves the numbers as they are")
    return classes[0]


def _check_names(parts, classes):
    """Refuses numbers beside names: none would be equal, though they may mean the same."""
    of_numbers = [all(name.isdecimal() for name in own) for own in classes]
    if len(set(of_numbers)) > 1:
        number, name = parts[of_numbers.index(True)].key, parts[of_numbers.index(False)].key
        raise InvalidArgument(f"labels=\"names\": the classes of {number!r} are numbers, and those of {name!r} are "
                              f"names, so none are equal. Give {number!r} names, as {{\"dataset\": …, \"labels\": "
                              "\"class\"} does with the column class of a list that larder.index wrote; or "
                              "labels=\"offset\" or \"own\"")


def _check(state, loaders):
    if not isinstance(state, dict) or "mix" not in state:
        raise FormatError("the state is not one of a larder.Mix: give what its state_dict() gave")
    if state["mix"] != _VERSION:
        raise VersionMismatch(f"the state has version {state['mix']!r}, and this release of larder reads version "
                              f"{_VERSION}")
    epoch, samples, parts = (state.get(key) for key in ("epoch", "samples", "parts"))
    if type(epoch) is not int or type(samples) is not int or not isinstance(parts, dict) or \
            not 0 <= epoch < _wire.EPOCHS_MAX or samples < 0:
        raise FormatError("the state is damaged: it has no epoch, samples and parts. Take another checkpoint")
    if parts.keys() != loaders.keys():
        raise InvalidArgument(f"the state is of the parts {', '.join(map(str, parts))}, and this Mix has "
                              f"{', '.join(loaders)}: give it the same")
    for part in parts.values():
        _state.from_dict(part)  # a damaged one changes nothing
    return parts


# ── rows ──

def _names_of(batch):
    return ", ".join(batch) if isinstance(batch, dict) else "images and labels"


def _of_one_type(pieces):
    """A column's pieces: whole numbers of one part become float32, as those of another are."""
    if any(isinstance(piece, list) for piece in pieces) or len({piece.dtype for piece in pieces}) == 1:
        return pieces
    return [piece.astype(np.float32) if isinstance(piece, np.ndarray) else piece.float() for piece in pieces]


def _joined(pieces, places, pinned=False):
    """What the parts have of a batch, in one: row i of piece p becomes row places[p][i]."""
    first, total = pieces[0], sum(map(len, places))
    if isinstance(first, tuple):
        return tuple(_joined(list(view), places, pinned) for view in zip(*pieces))
    if any(isinstance(piece, list) for piece in pieces):
        rows = [None] * total
        for piece, at in zip(pieces, places):
            for row, place in zip(piece, at.tolist()):
                rows[place] = row
        return rows
    for piece in pieces:
        if piece.shape[1:] != first.shape[1:] or piece.dtype != first.dtype:
            shapes = [f"{each.dtype} of {tuple(each.shape[1:])}" for each in (first, piece)]
            raise InvalidArgument(f"the parts have {' and '.join(shapes)}, which make no batch: give them pipelines of "
                                  "one size, and columns of one width")
    if isinstance(first, np.ndarray):
        made = np.empty((total, *first.shape[1:]), first.dtype)
        _put(made, pieces, places)
        return made
    import torch
    row = first[0].numel()
    made = torch.empty_strided((total, *first.shape[1:]), (row, *first.stride()[1:]), dtype=first.dtype, device="cpu",
                               pin_memory=pinned)  # channels last, as the pieces are
    _put(_flat(made, row), [_flat(piece, row) for piece in pieces], places)
    return made


def _flat(tensor, row):
    return tensor.as_strided((len(tensor), row), (row, 1)).numpy()


def _put(made, pieces, places):
    for piece, at in zip(pieces, places):
        made[at] = piece
