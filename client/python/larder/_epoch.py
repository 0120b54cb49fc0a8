"""One epoch of a Loader: the batches as they come from the daemon, and the iterator that gives them.

Both belong to the Loader, and change what it tells of itself; whoever calls them holds its lock.
"""

import os
import time
import warnings

import numpy as np

from . import _layout, _record, _trainers, _wire
from ._buffers import Held, bytes_of, copy_bytes, copy_lengths, copy_slots, ragged_arrays, views
from .errors import (BadSamplesWarning, DaemonGone, FormatError, LarderError, LimitReached, Timeout,
                     without_frames)


class Batch(tuple):
    """A zero-copy batch: (images, labels), or (images, labels, indices). The images are read-only views that hold the
    daemon's slots until all of them are gone, or release() is called: after that they must not be looked at. Torch has
    no read-only tensors: what writes to one ends the process with SIGSEGV."""

    def __new__(cls, parts, held):
        self = super().__new__(cls, parts)
        self._held = held
        return self

    def release(self):
        self._held.release()


_INT64 = np.dtype(np.int64)  # which takes less time than to be found from its type


def _itself(array):
    return array


def _tensors():
    import torch
    return torch.from_numpy


class _Batches:
    """The batches of one epoch. Apart from the iterator, which ends when nobody has it any more, while Accelerate may
    still ask where it is."""

    def __init__(self, loader, job, history):
        self._loader = loader
        self._job = job
        self._history = history
        self._pid = os.getpid()
        self._ordered = job.ordered
        self._info = None   # of the session whose batches come
        self._pools = []    # where its fields are copied to
        self._alone = None  # the one of its only field, where that is what the loop gets as it is
        self._are_two = not (loader._zero_copy or loader._with_ids or loader._with_paths or loader._columns or
                             loader._samples.parts is not None)  # what the loop gets: images and labels
        self.error = None  # that at_end() has met
        self._output = _tensors() if loader._torch else _itself

    def next(self):
        """The next batch; None when it was empty, and the epoch's last. When the daemon has gone the epoch goes on with
        the next one. Other errors end the job, so that no later call waits for what will never come; a Timeout or
        Ctrl-C while waiting loses nothing."""
        job = self._job
        while True:
            session = job.running(self._history, standing=True)
            try:
                self._wait(session)
            except DaemonGone as error:
                if not job.goes_on(error):
                    raise
                continue
            came = self._take(session)
            if came is not None:
                return came[0]

    def _take(self, session):
        """What the message that is there gives the caller, in a tuple: None for an empty batch. None when the message
        was something else, or the daemon has gone, and the epoch goes on with the next one."""
        filled = self._history.filled
        try:
            came = session.receive()
            if came is None:
                return None
            if self._job.anew:
                self._job.first_came()
            return (self._deliver(session, *came),)
        except BaseException as error:
            self._history.filled = filled  # nobody is given the batch
            if not self._job.goes_on(error):
                raise
            return None

    def _wait(self, session):
        if session.outstanding <= 0:
            session.check_lease()
            raise LimitReached(f"this Loader holds {len(session.held)} zero-copy batches, as many as the daemon allows "
                               "it: drop the views of older ones, or release() them, before asking for more")
        began = time.monotonic()
        try:
            session.wait(self._loader._timeout_s)
        except Timeout as error:
            raise Timeout(f"{error}{self._loader._ranks_away()}") from None
        finally:
            self._loader._counts["wait_s"] += time.monotonic() - began

    def check_live(self):
        """Raises where no more of the epoch comes. The job's running(), which follows, looks at the ranks."""
        job, history = self._job, self._history
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if job.link.is_over:
            job.link.check_open()
        if job.history is not history:
            if self._pid != os.getpid():
                raise LarderError("this iterator belongs to the process that was forked: begin another with "
                                  "iter(loader)")
            raise LarderError(f"the iterator of epoch {history.epoch} is over: a newer one of its Loader has begun, or "
                              "a state was loaded")
        if job.error is not None:
            error, job.error = job.error, None
            raise error
        if history.failed:
            raise DaemonGone(f"the iterator of epoch {history.epoch} has lost its connection to the daemon at "
                             f"{job.link.path}: iter(loader) begins it again")

    def at_end(self):
        """Whether the batch given last is the epoch's last. Waits for the next one's message to know: bad samples may
        have left nothing of it. What fails here is said at the next batch."""
        with self._job.lock:
            while self.error is None and not self._history.ended:
                try:
                    self.check_live()
                    more = self._more_comes()
                except Timeout:
                    raise
                except LarderError as error:
                    self.error = without_frames(error)
                    more = True
                if more:
                    return False
            return self._history.ended

    def _more_comes(self):
        """Whether the next message is not an empty batch. That is taken off: nothing else may be, since what is taken
        is the loop's."""
        job = self._job
        session = job.running(self._history, standing=True)
        if session.outstanding <= 0:
            return True
        try:
            self._wait(session)
            empty = session.next_is_empty()
        except Timeout:
            raise
        except LarderError as error:
            if not job.goes_on(error):
                raise
            return False
        if empty:
            self._take(session)
        return empty is False

    def _deliver(self, session, batch, turns):
        """Turns a message into what the caller gets; None when it is empty. Its slots go back at once, or are held."""
        loader, job, history = self._loader, self._job, self._history
        number, epoch, index, last, lost, through, weight, entries = batch
        count = entries.size
        job.weight = weight or job.weight
        if lost != loader._lost:
            loader._lost_more(lost)
        if count == 0:
            session.give_back(number)
            if last:
                history.end()
                job.ask_ahead(session)
            return None
        if index != history.batches:
            raise FormatError(f"the daemon at {session.path} sent batch {index} of epoch {epoch} where "
                              f"{history.batches} comes next: start again from the last checkpoint")
        given = None if loader._asked_labels is None else loader._content.labels()
        labels = entries["label"].astype(_INT64) if given is None else \
            given.take(entries["index"].astype(np.int64), loader._content.files)
        held = None
        try:
            if loader._zero_copy:
                session.check_lease()
                held = Held(session, number)
                images = self._views(session, entries, held)
            else:
                images = self._copy(session, entries)
                if not session.give_back(number):
                    session.raise_end()  # what was copied may have been another's
            # A rank that asks for the next epoch has taken all of this one: what it had not released is not kept.
            if last and (job.asked.world_size == 1 or not loader._zero_copy):
                job.ask_ahead(session)
            parts = (images, self._output(labels)) if self._are_two else \
                self._parts(images, labels, entries["index"], held)
            counts = loader._counts
            counts["samples"] += count
            counts["batches"] += 1
            loader._last = entries
            history.take(count, through, _record.NO_TURNS if self._ordered else turns, last)
        except BaseException:
            if held is not None:
                held.release()  # the traceback may live on, and the views with it
            raise
        return parts

    def _parts(self, images, labels, indices, held):
        loader, labels = self._loader, self._output(labels)
        files = loader._content.files() if loader._with_paths else None
        paths = [files.path(index) for index in indices.tolist()] if files else None
        columns = [self._of_column(name, indices) for name in loader._columns] if loader._columns else ()
        ids = self._output(indices.astype(np.int64)) if loader._with_ids else None
        if loader._samples.parts is not None and held is None:
            others = {} if loader._content.is_unlabelled() else {"label": labels}
            others.update({} if ids is None else {"index": ids}, **({} if paths is None else {"path": paths}))
            return loader._samples.batch(images, {**others, **dict(zip(loader._columns, columns))})
        parts = (images, labels)
        if ids is not None:
            parts += (ids,)
        if paths is not None:
            parts += (paths,)
        parts += tuple(columns)
        return Batch(parts, held) if loader._zero_copy else parts

    def _of_column(self, name, indices):
        """What a column has for the samples of a batch: a list of str, int64, or what is not whole as float32."""
        column = self._loader._content.column(name)
        if not isinstance(column, np.ndarray):
            return [column[index] for index in indices.tolist()]
        rows = column[indices]
        if rows.dtype.kind == "f":
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
        return self._output(rows)

    def _views(self, session, entries, held):
        layout = session.info.layout
        made = tuple(self._view(session, entries, held, field) for field in range(len(layout) or 1))
        return self._images(made, layout)

    def _images(self, made, layout):
        """What stands for the images of a batch: those, a tuple of views, or a dictionary of parts."""
        if self._loader._samples.parts is not None:
            return self._loader._samples.gather(made, layout)
        return tuple(made) if layout.is_views else made[0]

    def _view(self, session, entries, held, field):
        images = views(session, entries, held, self._loader._torch, field)
        if not self._loader._torch:
            return images
        of = session.info.layout[field] if session.info.layout else None
        if not isinstance(images, list):
            return self._output(_channels_first(images, of))
        return [self._output(_channels_first(image, of)) for image in images]

    def _pinned(self, shape, dtype):
        """An empty tensor in pinned memory; None where there is none, from here on."""
        import torch
        try:
            # Torch's own allocator: it knows which copies to the GPU are still under way, a pool of ours would not. And
            # the CPU's memory, whatever torch.set_default_device says.
            return torch.empty(shape, dtype=getattr(torch, dtype), device="cpu", pin_memory=True)
        except RuntimeError as error:
            warnings.warn(f"pin_memory: torch gives no pinned memory, and batches are in ordinary memory: {error}",
                          stacklevel=9)
            self._loader._pin_memory = False
            return None

    def _copy(self, session, entries):
        if session.info is not self._info:
            self._meet(session.info)
        pool, offsets = self._alone, entries["offset"]
        if pool is not None:
            array, memory = pool.take(entries.size)
            copy_slots(session.arena, offsets, pool.row_bytes, memory)
            return self._given(array, None, self._info.layout[0]) if self._loader._torch else array
        layout = session.info.layout
        if not layout:
            return copy_bytes(session.arena, offsets.astype(np.int64), entries["len_bytes"])
        if layout.ragged:
            return self._copy_ragged(session, offsets.tolist(), entries["len_bytes"].tolist())
        made = [self._copy_field(session.arena, offsets, field, pool) for field, pool in zip(layout, self._pools)]
        return self._images(made, layout)

    def _copy_field(self, arena, offsets, field, pool):
        count = offsets.size
        tensor = self._pinned((count, *field.dims), field.dtype) if self._loader._pin_memory else None
        if tensor is None:
            array, memory = pool.take(count)
        else:
            array = tensor.numpy()
            memory = bytes_of(array)
        copy_slots(arena, offsets + field.offset, pool.row_bytes, memory)
        return self._given(array, tensor, field) if self._loader._torch else array

    def _meet(self, info):
        """What holds for all batches of a session."""
        loader, layout = self._loader, info.layout
        self._info, self._pools = info, loader._pools_of(info)
        alone = len(layout) == 1 and not (layout.ragged or layout.is_views or loader._pin_memory or
                                          loader._samples.parts is not None)
        self._alone = self._pools[0] if alone else None

    def _copy_ragged(self, session, offsets, lengths):
        """Whole slots are copied, and looked at then: nobody else writes to these."""
        info, total = session.info, sum(lengths)
        tensor = self._pinned((total,), "uint8") if self._loader._pin_memory else None
        buffer = self._pools[0].take(total)[0] if tensor is None else tensor.numpy()
        copy_lengths(session.arena, offsets, lengths, memoryview(buffer))
        made = ragged_arrays(info.layout, buffer, lengths)
        if self._loader._torch:
            made = [[self._given(array, None if tensor is None else self._of_pinned(tensor, array, buffer), field)
                     for array in arrays] for arrays, field in zip(made, info.layout)]
        return self._images(made, info.layout)

    @staticmethod
    def _of_pinned(tensor, array, buffer):
        """The part of a pinned tensor of bytes that an array, a view of the same memory, lies in."""
        import torch
        start = array.ctypes.data - buffer.ctypes.data
        return tensor[start:start + array.nbytes].view(getattr(torch, str(array.dtype))).view(array.shape)

    def _given(self, array, tensor, field):
        return self._output(_channels_first(array, field)) if tensor is None else _channels_first(tensor, field)


def _channels_first(images, field):
    """What torch has for a batch, an image, or the encoded bytes of one, as they lie in memory. Arrays become tensors
    afterwards: transposing one takes a tenth of the time of a tensor's permute()."""
    if field is None or field.kind != _layout.IMAGE_HWC:
        return images
    turn = images.transpose if isinstance(images, np.ndarray) else images.permute
    return turn(0, 3, 1, 2) if images.ndim == 4 else turn(2, 0, 1)


class Epoch:
    """The iterator over one epoch. Ends for good with StopIteration, or when a newer one begins."""

    def __init__(self, loader, job, history):
        self._loader = loader
        self._job = job
        self._history = history
        self._told = False
        self._own = None if loader._own.is_nothing else loader._own
        self._before = history.filled  # before the batch given last
        self._batches = _Batches(loader, job, history)
        world_size = job.asked.world_size
        repeats = history.dealt(job.draws, world_size, job.info.dataset_samples) % world_size and \
            not job.asked.flags & _wire.DROP_LAST
        self._over = _trainers.tell_accelerate(self, self._batches.at_end, repeats)

    def __iter__(self):
        return self

    def __next__(self):
        job, history, parts = self._job, self._history, None
        try:
            with job.lock:
                self._before = history.filled
                parts = self._next()
            given = parts if self._own is None else self._own(parts)
        except DaemonGone:
            job.link.check_open()  # another thread may have closed the Loader
            raise
        except BaseException:
            if parts is not None:  # Ctrl-C, or the script's own function fails: nobody is given the batch
                if isinstance(parts, Batch):
                    parts.release()
                with job.lock:
                    job.take_back(history, self._before)
            raise
        return given

    def _give_back(self):
        """The batch given last is not for the loop after all, and comes again."""
        with self._job.lock:
            self._job.take_back(self._history, self._before)

    @property
    def _failed(self):
        """Whether an error has ended it, and another iteration begins the epoch again."""
        return self._history.failed

    def _next(self):
        history = self._history
        while not history.ended:
            self._batches.check_live()
            self._job.agreement.look()
            parts = self._batches.next()
            if parts is not None:
                return parts
        if not history.over:
            self._job.settle()
        history.over = True
        if self._over is not None:
            self._over()
        self._warn()
        self._loader._epoch_over()
        raise StopIteration

    def _warn(self):
        lost, told, self._told = self._loader.lost, self._told, True
        if lost and not told:
            warnings.warn(f"{lost} sample{'s' if lost > 1 else ''} of epoch {self._history.epoch} could not be read or "
                          f"decoded and {'were' if lost > 1 else 'was'} left out or replaced: the daemon's log names "
                          f"{'them' if lost > 1 else 'it'}", BadSamplesWarning, stacklevel=4)
