"""What of an epoch the training loop has taken: what all ranks had taken at a checkpoint, and what this one has since.

A Loader has one for the epoch that it is in. It writes a batch down when the loop is given it, so that a daemon that
was started anew can go on with the rest, and a checkpoint can say where the loop stands. Whoever calls holds the
Loader's lock. Ctrl-C at any moment leaves it as it was before or after a batch, and `filled` set back as it was before.
"""

import struct
from typing import NamedTuple

import numpy as np

from . import _record

_BATCH = struct.Struct("<III")  # _record.BATCH
_BATCH_BYTES = _BATCH.size
_TURN_BYTES = _record.TURN.itemsize
_FEW = 4096  # turns that are put into the set one by one


class Base(NamedTuple):
    """What all ranks together had taken of an epoch when it was restored."""

    batches: int = 0      # of each rank
    taken: bytes = b""    # of a dependent job, as in a record; empty: nothing
    segments: tuple = ()  # of a fixed order, as in a record
    over: bool = False    # the epoch's last batch had been taken
    copies: tuple = ()    # which ranks had copies of samples of which not all had come, as in a record


class History:
    """Of one epoch. A dependent job's batches have turns: the indices whose turn in the epoch is over with them. Those
    of a fixed order have a number instead: how much of this rank's part is."""

    def __init__(self, epoch, ordered, base=Base(), counted=False):
        self.epoch = epoch
        self.base = base
        self.before = 0      # batches of this rank that are not known, because another process took them
        self.over = False    # the loop was told that the epoch has ended
        self.failed = False  # it was broken off by an error
        self._ordered = ordered
        self._counted = counted  # an epoch has samples more than once
        self._batches = bytearray()  # as a record has them …
        self._turns = bytearray()    # … and these: bytes grow faster than arrays
        self.filled = (0, 0, base.over)  # batches, turns, and whether the last batch was taken, or there was none
        # The base and the turns of the first so many, or how often each index is there; made when first asked for.
        self._set = None
        self._in_set = 0

    def take(self, delivered, through, turns, last):
        """The loop is given a batch. Of a fixed order `turns` is empty, of a dependent job `through` is 0."""
        n_batches, n_turns, _ = self.filled
        count = turns.size
        self._turns[n_turns * _TURN_BYTES:] = turns.tobytes()  # in place of what is not filled any more
        self._batches[n_batches * _BATCH_BYTES:] = _BATCH.pack(delivered, through, count)
        self.filled = n_batches + 1, n_turns + count, last

    def end(self):
        """There was no other batch."""
        self.filled = (*self.filled[:2], True)

    @property
    def ended(self):
        return self.filled[2]

    @property
    def since(self):
        """How many batches this rank has taken since the base."""
        return self.before + self.filled[0]

    @property
    def batches(self):
        """How many batches this rank has had of the epoch, or one that stands where it does."""
        return self.base.batches + self.before + self.filled[0]

    @property
    def is_blank(self):
        """Whether nothing was taken of the epoch, by any rank as far as this one knows."""
        return not (self.since or self.base.batches or self.base.taken or self.base.segments)

    def after(self, samples):
        """What was taken by now, as the base of what comes: by this rank alone since its own base."""
        if self.ended:
            return Base(self.batches, over=True)
        if not self.since:
            return self.base
        if not self._ordered:
            return Base(self.batches, taken=self._taken(samples))
        _, through, _ = _BATCH.unpack_from(self._batches, (self.filled[0] - 1) * _BATCH_BYTES)
        return Base(self.batches, segments=_record.add_segment(self.base.segments, 1, [through]))

    def _turns_from(self, first):
        return np.frombuffer(self._turns[first * _TURN_BYTES:self.filled[1] * _TURN_BYTES], _record.TURN)  # of a copy

    def _counted_taken(self, samples):
        if self._set is None:
            self._set = _record.counts_of(self.base.taken, samples)
        np.add.at(self._set, self._turns_from(self._in_set), np.uint32(1))
        self._in_set = self.filled[1]
        return _record.sets_of(self._set)

    def _taken(self, samples):
        if self._counted:
            return self._counted_taken(samples)
        if self._set is None:
            self._set = np.zeros(_record.set_bytes(samples), np.uint8)
            if self.base.taken:
                self._set |= np.frombuffer(self.base.taken, np.uint8)
        turns = self._turns_from(self._in_set)
        if len(turns) <= _FEW:
            np.bitwise_or.at(self._set, turns >> 3, np.left_shift(1, turns & 7).astype(np.uint8))
        else:
            flags = np.zeros(samples, bool)
            flags[turns] = True
            self._set |= np.packbits(flags, bitorder="little")
        self._in_set = self.filled[1]
        return self._set.tobytes()

    def record(self, world_size, rank):
        """What a registration presents: the fields of a record that are an epoch's."""
        return {"epoch": self.epoch, "batches": self.base.batches, "taken": self.base.taken,
                "segments": self.base.segments, "copies": self.base.copies, "world_size": world_size, "rank": rank,
                "history": np.frombuffer(self._batches[:self.filled[0] * _BATCH_BYTES], _record.BATCH),
                "turns": self._turns_from(0)}

    def dealt(self, samples, world_size, of_all=None):
        """How many of an epoch's samples were dealt to the ranks when it began, or was restored; of_all: samples of the
        dataset, where that has more."""
        if self.base.taken:
            return samples - int(_record.counts_of(self.base.taken, of_all or samples).sum(dtype=np.uint64))
        segments = self.base.segments
        if segments and segments[-1][0] == world_size:
            segments = segments[:-1]  # its ranks go on in it
        for of, through in segments:
            throughs = through * of if len(through) == 1 else through
            samples -= sum(min(number, max(0, -(-(samples - rank) // of))) for rank, number in enumerate(throughs))
        return samples
