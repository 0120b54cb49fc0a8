"""One epoch of a Loader: the batches as they come from the daemon, and the iterator that gives them.

Both belong to the Loader, and change what it tells of itself; whoever calls them holds its lock.
"""

import os
import time
import warnings

import numpy as np

from . import _trainers, _wire
from ._buffers import Held, copy_slots, shape_of, views
from .errors import BadSamplesWarning, DaemonGone, LarderError, LimitReached


class Batch(tuple):
    """A zero-copy batch: (images, labels), or (images, labels, indices). The images are read-only views that hold the
    daemon's slots until all of them are gone, or release() is called: after that they must not be looked at."""

    def __new__(cls, parts, held):
        self = super().__new__(cls, parts)
        self._held = held
        return self

    def release(self):
        self._held.release()


class _Batches:
    """The batches of one epoch. Apart from the iterator, which ends when nobody has it any more, while Accelerate may
    still ask where it is."""

    def __init__(self, loader, session, epoch):
        self._loader = loader
        self._session = session
        self._number = epoch

    def next(self):
        """The next batch; None when it was empty, and the epoch's last. Errors end the session, so that no later call
        waits for what will never come; a Timeout or Ctrl-C while waiting loses nothing."""
        loader, session = self._loader, self._session
        batch = None
        while batch is None:
            try:
                session.ask(loader._job.prefetch)
            except BaseException:
                loader._fail(self._number)
                raise
            if session.outstanding <= 0:
                raise LimitReached(f"this Loader holds {len(session.held)} zero-copy batches, as many as the daemon "
                                   "allows it: drop the views of older ones, or release() them, before asking for more")
            began = time.monotonic()
            try:
                session.wait(loader._timeout_s)
            finally:
                loader._counts["wait_s"] += time.monotonic() - began
            try:
                batch = session.receive()
                parts = None if batch is None else self._deliver(batch)
            except BaseException:
                loader._fail(self._number)
                raise
        return parts

    def at_end(self):
        """Whether the batch given last is the epoch's last. Waits for the next one's message to know: bad samples may
        have left nothing of it. What fails here fails again at the next batch, and is said there."""
        loader, session = self._loader, self._session
        with loader._lock:
            while session.ended != self._number:
                try:
                    session.ask(loader._job.prefetch)
                except LarderError:
                    return False
                if session.outstanding <= 0 or not session.usable:
                    return False
                session.wait(loader._timeout_s)
                if not session.next_is_empty():
                    return False
                self.next()
            return True

    def _deliver(self, batch):
        """Turns a message into what the caller gets; None when it is empty. Its slots go back at once, or are held."""
        loader, session, entries = self._loader, self._session, batch.entries
        loader._weight = batch.weight or loader._weight
        loader._lost = batch.lost
        if entries.size == 0:
            session.release(batch.batch)
            self._ask_ahead(batch.last)
            return None
        labels = entries["label"].astype(np.int64)
        loader.last_ids = entries["id"].astype(np.int64)
        loader.last_indices = entries["index"].astype(np.int64)
        if loader._zero_copy:
            session.check_lease()
            held = Held(session, batch.batch)
            images = views(session, entries, held)
        else:
            images = self._copy(entries)
            session.check_lease()
            session.release(batch.batch)
        # A rank that asks for the next epoch has taken all of this one: what it had not released is not kept for it.
        if loader._job.world_size == 1 or not loader._zero_copy:
            self._ask_ahead(batch.last)
        loader._counts["samples"] += entries.size
        loader._counts["batches"] += 1
        indices = loader.last_indices
        if loader._torch:
            import torch
            labels, indices = torch.from_numpy(labels), torch.from_numpy(indices.copy())
        parts = (images, labels, indices) if loader._with_ids else (images, labels)
        return Batch(parts, held) if loader._zero_copy else parts

    def _ask_ahead(self, last):
        """At an epoch's end the next one's first batches are requested, if it is certain to come."""
        session, job = self._session, self._loader._job
        if last and session.epoch + 1 < job.epochs:
            session.begin(session.epoch + 1)
            session.ask(job.prefetch)

    def _copy(self, entries):
        loader, session, info = self._loader, self._session, self._session.info
        offsets = entries["offset"].astype(np.int64)
        if info.height == 0:
            return [session.arena[o:o + n].tobytes() for o, n in zip(offsets.tolist(), entries["len_bytes"].tolist())]
        shape = (entries.size, *shape_of(info))
        dtype = _wire.DTYPES[info.dtype]
        tensor = None
        if loader._pin_memory:
            # Torch's own allocator: it knows which copies to the GPU are still under way, a pool of ours would not.
            import torch
            tensor = torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=True)
            array = tensor.numpy()
        else:
            array = loader._pool.array(shape, dtype)
        copy_slots(session.arena, offsets, info.sample_bytes, array.reshape(-1).view(np.uint8))
        if not loader._torch:
            return array
        if tensor is None:
            import torch
            tensor = torch.from_numpy(array)
        return tensor.permute(0, 3, 1, 2) if info.layout == _wire.LAYOUT_HWC else tensor


class Epoch:
    """The iterator over one epoch. Ends for good with StopIteration, or when a newer one begins."""

    def __init__(self, loader, session, epoch):
        self._loader = loader
        self._session = session
        self._number = epoch
        self._done = self._told = False
        self._batches = _Batches(loader, session, epoch)
        job = loader._job
        self._over = _trainers.tell_accelerate(
            self, self._batches.at_end, session.info.n_samples % job.world_size and not job.flags & _wire.DROP_LAST)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            with self._loader._lock:
                return self._next()
        except DaemonGone:
            if self._loader._closed:  # by another thread
                raise LarderError("this Loader is closed") from None
            raise

    def _next(self):
        while not self._done:
            self._check_live()
            self._done = self._session.ended == self._number  # as when Ctrl-C came right after the last batch
            parts = None if self._done else self._batches.next()
            self._done = self._session.ended == self._number
            if parts is not None:
                return parts
        if self._over is not None:
            self._over()
        self._warn()
        raise StopIteration

    def _warn(self):
        lost, told, self._told = self._loader.lost, self._told, True
        if lost and not told:
            warnings.warn(f"{lost} sample{'s' if lost > 1 else ''} of epoch {self._number} could not be read or "
                          f"decoded and {'were' if lost > 1 else 'was'} left out or replaced: the daemon's log names "
                          f"{'them' if lost > 1 else 'it'}", BadSamplesWarning, stacklevel=4)

    def _check_live(self):
        if self._session.pid != os.getpid():
            raise LarderError("this iterator belongs to the process that was forked: begin another with iter(loader)")
        if self._loader._closed:
            raise LarderError("this Loader is closed")
        self._loader._check_ranks()
        current = self._loader._current
        if current is None or current() is not self:
            newer = self._loader._session is self._session
            if newer:
                raise LarderError(f"the iterator of epoch {self._number} is over: a newer one of its Loader has begun")
            raise DaemonGone(f"the iterator of epoch {self._number} has lost its connection to the daemon at "
                             f"{self._session.path}: iter(loader) begins it again")
