"""The Loader: iterate over a dataset that a Larder daemon prepares.

Its job is opened at its first use, and goes on in another daemon when its own went away; close() ends it for good.
A loader that came through fork or pickle opens a job of its own.
One iterator is live at a time: that of the job's history.

Threads take turns: whoever begins an epoch, waits for a batch, asks for a state or opens a session holds `_lock`.
Finalisers, which run in any thread at any time, do without it, and so does close(), until it has ended what another
thread waits for.
"""

import functools
import inspect
import logging
import os
import time
import warnings
import weakref

import numpy as np

from . import _control, _labels, _merge, _options, _pipelines, _ranks, _sources, _state, _stranger, _trainers, _wire, \
    samplers
from ._buffers import Pool
from ._dataset import BatchSampler, Content, Dataset, Sampler
from ._epoch import Batch, Epoch  # noqa: F401 - Batch is handed on
from ._job import Job
from ._own import Own
from ._rest import Rest
from ._samples import Samples
from .errors import EpochsOver, InvalidArgument

_PICKLED = ("_closed", "_zero_copy", "_torch", "_pin_memory", "_with_ids", "_with_paths", "_columns", "_own",
            "_samples", "_asked_labels", "_socket", "_timeout_s", "_reconnect_s", "_home_pid", "_given",
            "_follows_states")


_TOLD_S = 1.0  # how long what the daemon told of a job is good
_SKIP = _wire.BAD_POLICIES["skip"]

_stranger.tell()
_log = logging.getLogger("larder")
_loaders = weakref.WeakSet()


def _forked():
    for loader in list(_loaders):
        loader._job.forked()


os.register_at_fork(after_in_child=_forked)


def _in_turn(method):
    """Of a Loader's threads one at a time is in such a method."""
    @functools.wraps(method)
    def call(self, *arguments, **named):
        with self._lock:
            return method(self, *arguments, **named)
    return call


class Loader:
    """Batches of a dataset, prepared by the daemon: an iterable of (images, labels), one pass an epoch.

    dataset: a folder with one folder a class, or with images alone; a CSV, TSV or JSON Lines file of paths and labels;
    a list of paths; tar shards ("/data/train-{000000..000146}.tar", a glob, several joined by "::", a folder of them);
    a packed store; what larder.index takes (CIFAR's and MNIST's folders, zip, MDS, npy, …); a dataset of torchvision
    (ImageFolder, CIFAR10, MNIST, …), whose transform is the pipeline where none is given, or a torch Subset of one; a
    Dataset of Hugging Face; or a dataset's name in the daemon's configuration. docs/reference/data.md has more of each.
    pipeline: a list of operators (larder.RandomResizedCrop(224), …), plain JSON accepted; larder.from_torchvision makes
    one of a torchvision Compose. []: no operator, the encoded bytes as they are. None: what the daemon's configuration
    says for the dataset.
    pipelines: in its place a dictionary from epochs to pipelines, {0: small, 30: large}: each holds until the next one.
    With torch, images are uint8 (B, 3, H, W) in channels-last memory, with NumPy (B, H, W, 3); labels are int64. Where
    samples are encoded bytes and no pixels, images are a list of bytes objects. Batches are the caller's to keep and to
    write to.

    views          several views of each image, made of one decode: a list of pipelines (torchvision's Compose, too, and
                   larder.View(pipeline, count)), or how many views of the one pipeline. larder.recipes.DINO is such a
                   list. Images are then a tuple with a tensor for each view. A pipeline beside a list of views is what
                   all of them begin with
    drop_last      leave out an epoch's last batch when it is not full
    shuffle        "dependent" (True): uniform, shared with other jobs; "strict": depends on seed and epoch alone;
                   "none" (False): in order
    epochs         how many there will be, if known; then the next epoch's first batches are requested ahead too
    seed           0 … 2**64 - 1
    prefetch       batches requested ahead, 1 … 64
    bad_samples    "skip", "replace" or "error"
    subset         larder.Classes("n015*") & larder.Fraction(0.1, seed=3), …; docs/reference/views.md has them all. A
                   torch.utils.data.Subset means its indices
    repeat         each sample comes so many times an epoch, with other draws of augmentation each time: its copies side
                   by side, on different ranks where there are ranks, as DeiT's RASampler deals them. An epoch is so
                   many times as long (docs/reference/samplers.md)
    sampler        larder.Weights(weights, n): n draws an epoch with replacement, by the samples' weights;
                   larder.Balanced(n): of each class as often. Drawn anew for each epoch, by seed
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
    local_world_size   how many of the ranks are at this node, neighbours and as many at each; by default what torchrun,
                   srun or mpirun set, else all of them. Ranks at several nodes connect to one daemon each, which deals
                   them their share of every epoch (docs/reference/ranks.md)
    deal           of ranks at several nodes: "epoch": each epoch deals all samples anew; "home": each node keeps its
                   part of the dataset, so that the memory of all nodes adds up, and a part of the chunks changes nodes
                   each epoch. Batches of all ranks then have as many samples of each node's part
                   (docs/reference/ranks.md)
    mix            of deal="home": that part, 0 … 1; by default .1
    job            the same as name
    ordered        batches in planned order; otherwise one slow sample may come up to two batches later, so that it does
                   not hold up the batch. "strict" and "none" are always ordered
    weight         0.01 … 100: while jobs want more than the workers can do, each gets work in proportion to its weight,
                   and at least a tenth of an equal share; otherwise it changes nothing. The ranks of a job have its
                   weight together. `larder weight JOB W` gives a running job another, which this Loader keeps when it
                   connects again or is copied to another process (ranks: which their job keeps as long as it lives)
    zero_copy      hand out larder.Batch objects of read-only views into the daemon's memory: one array where the slots
                   are evenly spaced, else a list of arrays. They are NumPy's, or with output="torch" tensors, which
                   must not be written to: torch cannot refuse it. A batch's slots are held until its views are gone;
                   up to prefetch + 1 batches may be held at a time, for which the job keeps room whoever else comes
    output         "torch", "numpy", or "auto": torch where it can be imported, and NumPy with zero_copy
    with_ids       yield (images, labels, indices): positions in the dataset's order, as ImageFolder numbers them
    with_paths     yield the samples' paths too, behind those: a list of str. A packed store and tar shards have names
                   in place of files
    columns        yield these columns of the dataset too, last, in this order: ["caption"] of a list, ["txt"] or
                   ["json:caption"] of tar shards. Texts are a list of str, whole numbers int64, others float32, vectors
                   (B, width). loader.dataset.columns has all of them, for all samples
    labels         in place of class numbers: an array or tensor with a row for each sample in the dataset's order; a
                   mapping from keys ("class/file.jpg"), paths, positions or classes; or the path of a CSV, whose lines
                   are a key, path or position and then one number or several. Whole numbers come as int64, others as
                   float32. Names in place of numbers are classes, numbered in their order: `classes` has them
                   Of tar shards also "cls", "json:KEY" (or KEY alone) or "none": which member of a sample has its
                   label; by default .cls where there are any
    mixed          False: neighbours in tar shards are alike in what matters, though their labels do not show it. Then
                   samples are read one by one, and a chunk has some of everywhere
    parts          samples of several parts that are made alike, by name: {"image": "images/*.jpg", "mask":
                   "masks/*.png"} of a folder, whose files go together by what stands for the star; the columns of a
                   list; endings of members of tar shards. Names that begin with image or mask say what a part is, else
                   larder.Image(…) and larder.Mask(…, dtype="int64", fill=255) do. Batches are dictionaries then, with
                   "label" where the dataset has labels, "index", "path" and columns (docs/reference/data.md)
    as_tuple       names, ("image", "mask") for instance: batches of parts are tuples of these
    tv_tensors     parts are torchvision's tv_tensors
    ragged         samples may differ in size, as those of detection do. In a batch, images are then a list of tensors
                   (3, H, W), and so are masks; boxes have as many rows as there are. larder.pad makes one tensor and a
                   mask of such a list. With [] images are decoded and keep the size they have. A number: the most
                   pixels that an image has in the end, where neither operators nor a look at some images tell it; a
                   larger one is a bad sample
    as_dict        names of the parts, ("pixel_values", "labels") for instance: yield dictionaries. Columns have their
                   own names where none are given for them
    transform      a function of the script's own for each image, which is called with a tensor (an array without
                   torch; with views a tuple of them) and gives what takes its place; larder.split gives one.
                   larder.OnBatch(f): f(images, labels) is called once a batch. It runs here, last of all, for this job
                   alone: nothing of it is shared
    collate_fn     a function that makes the batch of a list of (image, label) as a DataLoader's does; runs last too
    socket         the daemon's socket; by default LARDER_SOCKET, else this user's daemon, which is started when needed
    timeout        seconds to wait for a batch (or for the registration) before larder.Timeout; None: for ever
    pin_memory     put torch batches into pinned memory (where there is a GPU). larder.to_device does so by itself

    Iterating again gives the next epoch, also after an early break: what was left of the old one is dropped. Threads
    may share an iterator: each batch goes to one of them.
    """

    def __init__(self, dataset, pipeline=None, batch_size=64, *, views=None, pipelines=None, drop_last=False,
                 shuffle="dependent", epochs=None, seed=0, prefetch=2, bad_samples="skip", subset=None,
                 augment="shared", all_files=False, relabel=False, name=None, zero_copy=False, output="auto",
                 with_ids=False, socket=None, timeout=None, pin_memory=False, rank=None, world_size=None, job=None,
                 ordered=False, weight=1.0, state=None, reconnect=60, labels=None, with_paths=False, as_dict=None,
                 local_world_size=None, transform=None, collate_fn=None, repeat=1, sampler=None, columns=(),
                 mixed=True, parts=None, as_tuple=None, tv_tensors=False, ragged=False, deal="epoch", mix=None,
                 **foreign):
        _options.refuse(foreign, inspect.signature(Loader).parameters)
        if name and job and name != job:
            raise InvalidArgument(f"name is {name!r} and job {job!r}: they mean the same, give one")
        self._closed = False
        self._given = _ranks.Given(rank, world_size, name or job, local_world_size)
        self._samples = Samples(parts, as_tuple, tv_tensors, ragged)
        source = _sources.Source(self._samples.dataset(dataset), subset) if parts is not None else \
            _sources.of(dataset, subset, shuffle)
        dataset, subset = source.dataset, source.subset
        if pipeline is None and views is None and pipelines is None:
            pipeline = source.pipeline
        schedule = _pipelines.from_arguments(pipeline, views, pipelines, self._samples)
        self._follows_states = pipelines is None  # where they have other pipelines
        asked = _options.job(dataset, schedule.at(0), batch_size, drop_last, shuffle, epochs, seed, prefetch,
                             bad_samples, subset, augment, all_files, relabel, weight, repeat, sampler, deal, mix)
        of_source = _options.labels_of_source(asked.dataset, labels)
        labels = None if of_source else labels
        samplers.check_labels(sampler, labels)
        asked = asked._replace(dataset=self._samples.text(_options.with_labels(asked.dataset, of_source, mixed)),
                               flags=asked.flags | (_wire.ORDERED if ordered else 0) |
                               (_wire.HOLD if zero_copy else 0) |
                               (0 if labels is None else _wire.OWN_LABELS))
        self._zero_copy = bool(zero_copy)
        self._torch = _options.want_torch(output, self._zero_copy)
        self._pin_memory = bool(pin_memory) and self._torch and _options.can_pin()
        self._with_ids, self._with_paths = bool(with_ids), bool(with_paths)
        self._columns = _options.columns(columns)
        self._own = Own(transform, collate_fn, self._zero_copy, _options.names_of_parts(
            as_dict, 2 + self._with_ids + self._with_paths + len(self._columns), self._zero_copy, self._columns))
        self._asked_labels = _labels.check(labels)
        self._socket = None if socket is None else os.path.abspath(os.path.expanduser(os.fspath(socket)))
        self._timeout_s = None if timeout is None else _options.seconds("timeout", timeout)
        self._reconnect_s = _options.seconds("reconnect", reconnect)
        self._home_pid = os.getpid()
        self._reset(asked, schedule)
        if state is not None:
            self._load(state, 4)
        self._job.open()
        try:
            _sources.check(source, self)
            self._content.check(self._with_paths, self._columns)
        except BaseException:
            self.close()
            raise
        self._warn_empty(3)
        self._content.warn_flat(3)
        if pipeline == [] and isinstance(transform, Rest):
            warnings.warn(f"nothing of these transforms is shared: {transform.why}", stacklevel=2)

    def _reset(self, asked, schedule):
        self._job = Job(asked, self._given, self._socket, self._timeout_s, self._reconnect_s, self._home_pid, schedule)
        self._pools, self._pools_are_of = [], None
        self._content = Content(self, self._asked_labels)
        self._current = None      # the iterator that was made last, weakly
        self._counts = {"samples": 0, "batches": 0, "wait_s": 0.0}
        self._lost = 0            # samples left out of the epoch that the last batch was of
        self._lost_before = 0     # and of the one before, while an epoch goes on
        self._lost_told = 0
        self._told = (None, 0.0)  # what the daemon told of the job, and until when that is good
        self._empty_told = False
        self._short_told = None   # the look-ahead that the log last named
        self._last = None         # the entries of the batch given last
        _loaders.add(self)

    @property
    def _lock(self):
        return self._job.lock

    def _warn_empty(self, stacklevel):
        """Says once, of the ranks that hold now, that no batch will come."""
        info, asked = self._job.info, self._job.asked
        if info.n_batches == 0 and not self._empty_told:
            self._empty_told = True
            warnings.warn(f"drop_last leaves no batch: rank {asked.rank} of {asked.world_size} has fewer of the "
                          f"{self._job.draws} samples than batch_size, {asked.batch_size}. Give a smaller batch_size, "
                          "or leave drop_last out", stacklevel=stacklevel)

    # ── what the dataset is ──

    def __repr__(self):
        job, asked = self._job, self._job.asked
        rank = f", rank {asked.rank} of {asked.world_size}" if asked.world_size > 1 else ""
        name = f" job {job.info.name!r}," if job.info is not None and not self._closed else ""
        return f"<larder.Loader{name} of {os.fsdecode(asked.dataset)!r}, batches of {asked.batch_size}{rank}, " \
               f"next is epoch {job.epoch}>"

    def __len__(self):
        """Batches an epoch, without the samples that are known to be left out: those of this epoch so far, or of the
        one before if they were more."""
        info, asked = self._known().info, self._job.asked
        if asked.world_size > 1 or asked.bad_policy != _SKIP:  # others take the place of bad ones
            return info.n_batches
        draws = self._job.draws
        lost = min(max(self._lost, self._lost_before), draws)
        return info.n_batches - self._batches_of(draws) + self._batches_of(draws - lost)

    def _batches_of(self, samples):
        asked = self._job.asked
        return samples // asked.batch_size if asked.flags & _wire.DROP_LAST else -(-samples // asked.batch_size)

    def __getitem__(self, _):
        raise TypeError("a larder.Loader has batches, in an order of its own, and no item of a number: iterate over "
                        "it, and do not wrap it in a torch DataLoader")

    @property
    def dataset_size(self):
        """Samples of the dataset: of the subset, where there is one. With repeat or a sampler an epoch has others."""
        return self._known().info.n_samples

    @property
    def dataset(self):
        """What a script looks for at a DataLoader's dataset: len(), classes, class_to_idx, targets and samples."""
        return Dataset(self)

    @property
    def sampler(self):
        """For trainers that call its set_epoch."""
        return Sampler(self)

    @property
    def batch_sampler(self):
        """What Accelerate's skip_first_batches takes the first batches from. With dataset and collate_fn a DataLoader
        gives the Loader's batches."""
        return BatchSampler(self, self)

    @staticmethod
    def collate_fn(parts):
        return parts[0]

    prefetch_factor = None  # as of a DataLoader without workers

    @property
    def classes(self):
        """The names that labels number: the dataset's classes, or those that labels= names."""
        known, given = self._known().classes, self._content.labels()
        return list(known if given is None or given.classes is None else given.classes)

    @property
    def class_to_idx(self):
        return {name: index for index, name in enumerate(self.classes)}

    @property
    def name(self):
        """The job's name, as `larder status` shows it."""
        return self._known().info.name

    @property
    def batch_size(self):
        return self._job.asked.batch_size

    @property
    def drop_last(self):
        return bool(self._job.asked.flags & _wire.DROP_LAST)

    @property
    def rank(self):
        return self._job.ranks()[0]

    @property
    def world_size(self):
        return self._job.ranks()[1]

    @property
    def weight(self):
        """The job's weight when the last batch came: the one given here, or what `larder weight` made of it."""
        return self._job.weight

    @property
    def lost(self):
        """How many samples the epoch of the last batch has left out so far, because they are bad (gone, damaged, too
        large), of this rank; with bad_samples="replace" the samples that others took the place of. The daemon's log
        names them, and at the epoch's end there is a BadSamplesWarning."""
        return self._lost

    @property
    def last_ids(self):
        """The daemon's sample ids of the batch given last; None before the first."""
        return None if self._last is None else self._last["id"].astype(np.int64)

    @property
    def last_indices(self):
        """Where the samples of the batch given last are in the dataset; None before the first batch."""
        return None if self._last is None else self._last["index"].astype(np.int64)

    @property
    def epoch(self):
        """The epoch that the next iteration begins, from 0."""
        return self._job.epoch

    @_in_turn
    def set_epoch(self, epoch):
        """Makes the next iteration give this epoch, from 0, as DistributedSampler.set_epoch does; a state that was
        loaded of another epoch is dropped. Not needed otherwise: an epoch that an error ended does not count, the next
        iteration begins it again. With shuffle="strict" the order is that epoch's. Ranks give the same, and only go
        forward."""
        current = self._current and self._current()
        self._job.set_epoch(_options.whole("epoch", epoch, 0, _wire.EPOCHS_MAX - 1), current is not None)

    @_in_turn
    def set_pipeline(self, pipeline=None, views=None):
        """Gives the next epoch and all behind it another pipeline, of another size for instance, and views as
        Loader(views=…) does; what was given to the Loader holds no more. The epoch that the loop is in keeps its own.
        States have it."""
        self._job.schedule.change(self._job.epoch, self._samples.program(pipeline, views).encode())

    def stats(self):
        """What this loader has given so far: samples, batches, wait_s (the seconds that it waited for batches), and
        reconnects (how often it was connected again). `stall` is how its daemon explains the waiting, up to a second
        ago: seconds by cause, since the daemon has the job. Together they are less than wait_s, which also has the
        time that the request and the answer of each batch take, and until the machine runs this script again. load:
        samples had still to be read; prepare: to be decoded and augmented; room: the arena was full; rank: other ranks
        were late. None where the daemon does not tell: it has not been asked for an epoch yet, the job has ended with
        its last epoch, the control socket is off, or the daemon is another user's."""
        row = self._row()
        stall = None
        if row is not None:
            try:
                stall = next((dict(queue["stall_s"]) for queue in row["queues"]
                              if queue["rank"] == self._job.asked.rank), None)
            except (KeyError, TypeError, ValueError):
                pass  # an older daemon
        return dict(self._counts, reconnects=self._job.link.reconnects, stall=stall)

    def _row(self):
        """What the daemon tells of the job, of a moment ago; None where it does not."""
        job = self._job
        row, when = self._told
        if job.begun and job.info is not None and (time.monotonic() >= when or when == 0.0):
            began = time.monotonic()
            found = _control.jobs(job.link.path)
            row = found.get(job.info.name) if found else None
            now = time.monotonic()
            self._told = row, now + max(_TOLD_S, 50 * (now - began))  # who trains waits little for it
        return row

    def _ranks_away(self):
        """What the daemon tells of ranks that keep the others waiting, to be put behind a Timeout's text."""
        asked = self._job.asked
        if asked.world_size == 1:
            return ""
        try:
            away = [str(queue["rank"]) for queue in self._row()["queues"] if not (queue["attached"] or queue["done"])]
        except (KeyError, TypeError):
            return ""  # it tells nothing, or is an older one
        if not away:
            return ""
        text, verb = (f": ranks {', '.join(away)} are not here", "they run") if away[1:] else \
            (f": rank {away[0]} is not here", "it runs")
        return text if asked.local_world_size else f"{text}; if {verb} on another machine, give local_world_size="

    def _lost_more(self, lost):
        """So many samples of the epoch are left out now. The log is told of the first, and whenever they have
        doubled."""
        if lost > self._lost and lost >= 2 * self._lost_told:
            self._lost_told = lost
            _log.warning("job %s: %d sample%s of epoch %d could not be read or decoded so far: the daemon's log names "
                         "%s", self._job.info.name, lost, "s" if lost > 1 else "", self._job.history.epoch,
                         "them" if lost > 1 else "it")
        self._lost = lost

    def _epoch_over(self):
        """The loop has all of an epoch."""
        self._lost_before = 0
        row = self._row()
        now, asked = (row or {}).get("prefetch"), (row or {}).get("prefetch_asked")
        if isinstance(now, int) and isinstance(asked, int) and 0 < now < asked and now != self._short_told:
            self._short_told = now
            _log.warning("job %s: the daemon prepares %d batches ahead, where prefetch asks for %d: its arena has no "
                         "room for more (memory.arena, jobs.quota)", self._job.info.name, now, asked)

    # ── checkpoints ──

    @_in_turn
    def state_dict(self, part=False):
        """Where the training loop stands, for its checkpoint: a dictionary of str, int and list, which torch.save
        writes and torch.load(weights_only=True) reads. It has what was taken of the epoch: the batches that the loop
        was given, and not those that were prefetched. After an epoch's last batch it says that all was taken, and once
        the loop has ended, that the next epoch is to begin. An epoch that was left early is the present one until the
        next begins.

        Of several ranks any one may save, and it is for all of them: what all had taken when each had taken as many
        batches as this one. For ranks that have not it waits, up to `timeout` and a minute at most, and raises
        larder.Timeout, which names the rank.

        Where the ranks are at several nodes, no node knows that in the middle of an epoch: larder.gather_state(loader)
        is for all of them. `part` gives what the ranks of this node took, which larder.merge_states() puts together
        with the parts of the others."""
        return _state.to_dict(self._job.state(part))

    @_in_turn
    def load_state_dict(self, state):
        """Makes the next iteration go on where state_dict() was called: with the rest of that epoch, in any daemon that
        has the same dataset, with any number of ranks, each of which loads the same. A list is of the parts of all
        nodes. Raises where the state is damaged, or of another dataset, subset, shuffle, or, with shuffle="strict",
        seed or pipeline; then nothing changes."""
        self._load(state, 5)

    def _load(self, made, stacklevel):
        state = _state.from_dict(_merge.merge_states(made) if isinstance(made, (list, tuple)) else made)
        job = self._job
        job.link.check_open()
        schedule = state.schedule if state.schedule and self._follows_states else job.schedule
        _state.check_job(state, job.asked._replace(pipeline=schedule.at(state.epoch)), stacklevel)
        job.load(state)
        job.schedule = schedule

    def _place(self):
        """This process's rank, how many there are, and the first of those at this node."""
        rank, world_size = self._job.ranks()
        return rank, world_size, self._job.given.local(rank, world_size)[1]

    # ── life ──

    def _known(self):
        """The job, about which the daemon has said what it knows. Of one that has begun that is so whatever another
        thread waits for."""
        job = self._job
        if job.begun:
            job.check_ranks()
        else:
            with self._lock:
                job.open()
        return job

    def _pools_of(self, info):
        """Where a batch's fields are copied to: a pool for each, and where they differ in size one for all bytes."""
        before, self._pools_are_of = self._pools_are_of, info
        if before is None or (info.layout, info.sample_bytes) != (before.layout, before.sample_bytes):
            batch_size, keep = self._job.asked.batch_size, self._job.asked.prefetch + 1
            self._pools = [Pool((batch_size * info.sample_bytes,), "uint8", keep)] if info.layout.ragged else \
                [Pool((batch_size, *field.dims), field.dtype, keep) for field in info.layout]
        return self._pools

    def close(self):
        """Gives everything back to the daemon, views of zero-copy batches included, and ends the loader's life. A
        thread that waits for a batch gets an error."""
        self._closed = True
        self._job.link.end()
        lock = self._lock
        if not lock.acquire(blocking=False):
            self._job.link.interrupt()
            lock.acquire()
        try:
            if self._zero_copy:
                self._job.settle()  # what was still held at the epoch's end is given back by now
            self._job.link.close()
        finally:
            lock.release()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        job = self._job
        return dict({key: self.__dict__[key] for key in _PICKLED}, job=job.asked._asdict(), _weight=job.weight,
                    _epoch=job.epoch, _loaded=job.loaded, _schedule=job.schedule)

    def __setstate__(self, state):
        asked, wanted = state.get("job"), {*_PICKLED, "job", "_weight", "_epoch", "_loaded", "_schedule"}
        asked = _wire.Register(**(asked if isinstance(asked, dict) and state.keys() >= wanted else {}))
        self.__dict__.update({key: state[key] for key in _PICKLED})
        self._reset(asked, state["_schedule"])
        self._job.weight, self._job.epoch = state["_weight"], state["_epoch"]
        if state["_loaded"] is not None:
            self._job.load(state["_loaded"])
        if self._closed:
            self._job.link.end()

    # ── iterating ──

    @_in_turn
    def __iter__(self):
        _trainers.check()
        job = self._job
        job.follow()
        job.open(beginning=True)
        self._warn_empty(4)
        if job.asked.epochs and job.epoch >= job.asked.epochs:
            raise EpochsOver(f"all {job.asked.epochs} epochs of this Loader are over: give epochs= a larger number, or "
                             "leave it out")
        if job.epoch >= _wire.EPOCHS_MAX:
            raise EpochsOver(f"all {_wire.EPOCHS_MAX} epochs that a Loader may have are over: set_epoch() takes a "
                             "lower one")
        job.agree()
        history = job.begin()
        if not history.ended:
            job.running(history)
        job.epoch, job.chosen = history.epoch + 1, 0
        self._lost_before, self._lost, self._lost_told = max(self._lost, self._lost_before), 0, 0
        iterator = Epoch(self, job, history)
        self._current = weakref.ref(iterator)
        return iterator
