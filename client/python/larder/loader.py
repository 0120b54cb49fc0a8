"""The Loader: iterate over a dataset that a Larder daemon prepares.

States: open lazily (a session exists while `_session` is usable), closed for good by close(). A loader that came
through fork or pickle, or whose daemon went away, has no usable session and opens one at its next use, as a job of its
own.
One iterator is live at a time: that of `_current`, a weak reference.

Threads take turns: whoever begins an epoch, waits for a batch or opens a session holds `_lock`. Finalisers, which run
in any thread at any time, do without it, and so does close(), until it has ended what another thread waits for.
"""

import functools
import os
import threading
import weakref

from . import _autostart, _options, _ranks, _trainers, _wire
from ._buffers import Pool
from ._epoch import Batch, Epoch  # noqa: F401 - Batch is handed on
from ._session import HANDSHAKE_S, Session, default_path
from .errors import EpochsOver, InvalidArgument, LarderError

_PICKLED = ("_closed", "_zero_copy", "_torch", "_pin_memory", "_with_ids", "_socket", "_timeout_s", "_home_pid",
            "_weight", "_epoch", "_given")


_loaders = weakref.WeakSet()


def _forked():
    # A lock that another thread held at the fork is never released in the child.
    for loader in list(_loaders):
        loader._lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)


def _in_turn(method):
    """Of a Loader's threads one at a time is in such a method."""
    @functools.wraps(method)
    def call(self, *arguments):
        with self._lock:
            return method(self, *arguments)
    return call


class Loader:
    """Batches of a dataset, prepared by the daemon: an iterable of (images, labels), one pass an epoch.

    dataset: a folder with one folder a class, or a dataset's name in the daemon's configuration.
    pipeline: a list of operators (larder.RandomResizedCrop(224), …), plain JSON accepted; larder.from_torchvision makes
    one of a torchvision Compose. []: no operator, the encoded bytes as they are. None: what the daemon's configuration
    says for the dataset.
    With torch, images are uint8 (B, 3, H, W) in channels-last memory, with NumPy (B, H, W, 3); labels are int64. Where
    samples are encoded bytes and no pixels, images are a list of bytes objects. Batches are the caller's to keep and to
    write to.

    drop_last      leave out an epoch's last batch when it is not full
    shuffle        "dependent" (True): uniform, shared with other jobs; "strict": depends on seed and epoch alone;
                   "none" (False): in order
    epochs         how many there will be, if known; then the next epoch's first batches are requested ahead too
    seed           0 … 2**64 - 1
    prefetch       batches requested ahead, 1 … 64
    bad_samples    "skip", "replace" or "error"
    subset         larder.Classes("n015*") & larder.Fraction(0.1, seed=3), …; docs/views.md has them all
    augment        "shared": an augmented sample is given to every job of the same pipeline that wants it; "private":
                   this job draws its own, and shares reading and decoding only
    all_files      samples are the files of any kind in the folders, not images alone; goes with an empty pipeline
    relabel        number labels anew, 0, 1, 2 … over the classes that the subset has; classes has their names
    name           of the job, unique in the daemon; by default the daemon makes one
    rank, world_size   data-parallel training: which of how many processes this is. By default what torch.distributed
                   knows once it is initialised, else what torchrun, srun or mpirun set, else one process; looked at
                   again until the first epoch begins. Each rank gets its own part of every epoch, all as many batches;
                   all must give the same arguments and a common name (made from the launcher's environment where there
                   is none). A rank that is started again under the
                   same name goes on with its part. Ranks leave an epoch early together or not at all; who asks for the
                   next one waits until the others are through
    job            the same as name
    ordered        batches in planned order; otherwise one slow sample may come up to two batches later, so that it does
                   not hold up the batch. "strict" and "none" are always ordered
    weight         0.01 … 100: while jobs want more than the workers can do, each gets work in proportion to its weight,
                   and at least a tenth of an equal share; otherwise it changes nothing. The ranks of a job have its
                   weight together. `larder weight JOB W` gives a running job another, which this Loader keeps when it
                   connects again or is copied to another process (ranks: which their job keeps as long as it lives)
    zero_copy      hand out larder.Batch objects of read-only NumPy views into the daemon's memory: one array where the
                   slots are evenly spaced, else a list of arrays. A batch's slots are held until its views are gone;
                   up to prefetch + 1 batches may be held at a time, for which the job keeps room whoever else comes
    output         "torch", "numpy", or "auto": torch where it can be imported
    with_ids       yield (images, labels, indices): positions in the dataset's order, as ImageFolder numbers them
    socket         the daemon's socket; by default LARDER_SOCKET, else this user's daemon, which is started when needed
    timeout        seconds to wait for a batch (or for the registration) before larder.Timeout; None: for ever
    pin_memory     put torch batches into pinned memory (where there is a GPU)

    Iterating again gives the next epoch, also after an early break: what was left of the old one is dropped. Threads
    may share an iterator: each batch goes to one of them.
    """

    def __init__(self, dataset, pipeline, batch_size=64, *, drop_last=False, shuffle="dependent", epochs=None, seed=0,
                 prefetch=2, bad_samples="skip", subset=None, augment="shared", all_files=False, relabel=False,
                 name=None, zero_copy=False, output="auto", with_ids=False, socket=None, timeout=None,
                 pin_memory=False, rank=None, world_size=None, job=None, ordered=False, weight=1.0):
        self._session = None
        self._closed = False
        if name and job and name != job:
            raise InvalidArgument(f"name is {name!r} and job {job!r}: they mean the same, give one")
        self._given = _ranks.Given(rank, world_size, name or job)
        self._job = _options.job(dataset, pipeline, batch_size, drop_last, shuffle, epochs, seed, prefetch, bad_samples,
                                 subset, augment, all_files, relabel, weight)
        self._job = self._job._replace(flags=self._job.flags | (_wire.ORDERED if ordered else 0) |
                                       (_wire.HOLD if zero_copy else 0))
        self._zero_copy = bool(zero_copy)
        self._torch = _options.want_torch(output, self._zero_copy)
        self._pin_memory = bool(pin_memory) and self._torch and _options.can_pin()
        self._with_ids = bool(with_ids)
        self._socket = None if socket is None else os.path.abspath(os.path.expanduser(os.fspath(socket)))
        self._timeout_s = timeout
        self._home_pid = os.getpid()
        self._weight = self._job.weight
        self._epoch = 0  # the next one to begin
        self._reset()
        self._open()

    def _reset(self):
        self._lock = threading.RLock()
        _loaders.add(self)
        self._session = None
        self._pool = None
        self._current = None
        self._chosen = 0          # by set_epoch, or because an error ended that epoch, until it begins
        self._counts = {"samples": 0, "batches": 0, "wait_s": 0.0}
        self._lost = 0            # samples left out of the epoch that the last batch was of
        self.last_ids = None      # of the batch given last: the daemon's sample ids …
        self.last_indices = None  # … and the positions in the dataset

    # ── what the dataset is ──

    def __repr__(self):
        job = self._job
        rank = f", rank {job.rank} of {job.world_size}" if job.world_size > 1 else ""
        name = f" job {self._session.info.name!r}," if self._session is not None else ""
        return f"<larder.Loader{name} of {os.fsdecode(job.dataset)!r}, batches of {job.batch_size}{rank}, " \
               f"next is epoch {self._epoch}>"

    def __len__(self):
        """Batches an epoch."""
        return self._open().info.n_batches

    def __getitem__(self, _):
        raise TypeError("a larder.Loader has batches, in an order of its own, and no item of a number: iterate over "
                        "it, and do not wrap it in a torch DataLoader")

    @property
    def dataset_size(self):
        """Samples an epoch: of the subset, where there is one."""
        return self._open().info.n_samples

    @property
    def classes(self):
        return list(self._open().classes)

    @property
    def class_to_idx(self):
        return {name: index for index, name in enumerate(self._open().classes)}

    @property
    def name(self):
        """The job's name, as `larder status` shows it."""
        return self._open().info.name

    @property
    def batch_size(self):
        return self._job.batch_size

    @property
    def rank(self):
        return self._ranks()[0]

    @property
    def world_size(self):
        return self._ranks()[1]

    @property
    def weight(self):
        """The job's weight when the last batch came: the one given here, or what `larder weight` made of it."""
        return self._weight

    @property
    def lost(self):
        """How many samples the epoch of the last batch has left out so far, because they are bad (gone, damaged, too
        large), of this rank; with bad_samples="replace" the samples that others took the place of. The daemon's log
        names them, and at the epoch's end there is a BadSamplesWarning."""
        return self._lost

    @property
    def epoch(self):
        """The epoch that the next iteration begins, from 0."""
        return self._epoch

    @_in_turn
    def set_epoch(self, epoch):
        """Makes the next iteration give this epoch, from 0, as DistributedSampler.set_epoch does: to go on where a
        checkpoint was made. Not needed otherwise: an epoch that an error ended does not count, the next iteration
        begins it again. With shuffle="strict" the order is that epoch's. Ranks give the same, and only go forward."""
        epoch = _options.whole("epoch", epoch, 0, 2**32 - 1)
        if epoch < self._epoch and self._session is not None:
            if self._job.world_size > 1 and self._session.usable:
                raise InvalidArgument(f"epoch {epoch} of this job is over, and its ranks only go forward: the next is "
                                      f"{self._epoch}")
            self._drop()  # a job's epochs only go forward as well: the next iteration makes another job
        self._epoch = self._chosen = epoch

    def stats(self):
        """What this loader has given so far: samples, batches, and seconds it waited for the daemon."""
        return dict(self._counts)

    # ── life ──

    def _open(self, beginning=False):
        """The session, whose job is of the ranks that hold now; of those it began with, once it has begun."""
        session = self._session
        if not _has_begun(session):
            return self._open_anew(beginning)
        self._check_ranks()
        return session

    @_in_turn
    def _open_anew(self, beginning):
        if _has_begun(self._session):  # another thread was first
            return self._session
        if self._closed:
            raise LarderError("this Loader is closed")
        rank, world_size = self._ranks()
        name = self._given.job_name(world_size, beginning).encode("utf-8", "surrogateescape")
        if self._session is not None and self._session.usable and \
                (rank, world_size, name) == (self._job.rank, self._job.world_size, self._job.name):
            return self._session
        self._drop()
        self._job = self._job._replace(rank=rank, world_size=world_size, name=name)
        if self._socket is None and not os.environ.get("LARDER_SOCKET"):
            session = _autostart.with_daemon(default_path(), self._connect, self._register)
        else:
            session = self._connect()
            self._register(session)
        job = self._job
        if job.world_size > 1:
            # Where the other ranks are: a rank that comes back goes on there, unless it was further. So all go on with
            # the epoch that they were in when their daemon was replaced, and with it their job.
            self._epoch = max(session.info.epoch, self._chosen)
        self._pool = Pool(job.batch_size * session.info.sample_bytes, job.prefetch + 1)
        self._session = session
        return session

    def _ranks(self):
        return (self._job.rank, self._job.world_size) if _has_begun(self._session) else self._given.now()

    def _check_ranks(self):
        """Refuses to go on when this process has become another rank than the one that the job began as."""
        found, job = self._given.now(), self._job
        if found != (job.rank, job.world_size):
            raise InvalidArgument(f"this Loader began as rank {job.rank} of {job.world_size}, and this process has "
                                  f"become rank {found[0]} of {found[1]}: samples would come twice or not at all. "
                                  "Begin iterating after torch.distributed is initialised, make another Loader, or "
                                  "give rank= and world_size=")

    def _connect(self):
        return Session(self._socket or default_path(), HANDSHAKE_S if self._timeout_s is None else self._timeout_s)

    def _register(self, session):
        """Registers the job in a session, which is closed when that fails."""
        job = self._job
        if job.world_size == 1:  # ranks are told by what all of them were given
            job = job._replace(weight=self._weight)
            if job.name and os.getpid() != self._home_pid:
                job = job._replace(name=_options.child_name(job.name))
        try:
            session.register(job, self._timeout_s)
        except BaseException:
            session.close()
            raise

    def _drop(self):
        """Lets go of a connection that is of no more use; the next use opens another. Zero-copy batches that are held
        stay what they are, and the connection with them."""
        session, self._session = self._session, None
        self._current = None
        if session is not None:
            session.leave()

    def _fail(self, epoch):
        """After an error that ends the connection. An epoch that it broke off does not count: the next iteration begins
        it again."""
        if self._epoch == epoch + 1:  # otherwise it had not begun, or set_epoch chose another
            self._epoch = epoch
        self._chosen = self._epoch
        self._drop()

    def close(self):
        """Gives everything back to the daemon, views of zero-copy batches included, and ends the loader's life. A
        thread that waits for a batch gets an error."""
        self._closed = True
        session = self._session
        if not self._lock.acquire(blocking=False):
            if session is not None:
                session.interrupt()
            self._lock.acquire()
        try:
            session, self._session = self._session, None
            self._current = None
            if session is not None:
                session.close()
        finally:
            self._lock.release()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        return dict({key: self.__dict__[key] for key in _PICKLED}, job=self._job._asdict())

    def __setstate__(self, state):
        job = state.get("job")
        self._job = _wire.Register(**(job if isinstance(job, dict) and state.keys() >= set(_PICKLED) else {}))
        self.__dict__.update({key: state[key] for key in _PICKLED})
        self._reset()

    # ── iterating ──

    @_in_turn
    def __iter__(self):
        _trainers.check()
        session = self._open(beginning=True)
        if self._job.epochs and self._epoch >= self._job.epochs:
            raise EpochsOver(f"all {self._job.epochs} epochs of this Loader are over: give epochs= a larger number, or "
                             "leave it out")
        epoch = self._epoch
        try:
            if session.epoch != epoch:
                session.begin(epoch)
            session.ask(self._job.prefetch)
        except BaseException:
            self._fail(epoch)
            raise
        self._epoch, self._chosen = epoch + 1, 0
        self._lost = 0
        iterator = Epoch(self, session, epoch)
        self._current = weakref.ref(iterator)
        return iterator


def _has_begun(session):
    return session is not None and session.usable and session.epoch >= 0
