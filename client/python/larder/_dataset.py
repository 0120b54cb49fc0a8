"""What scripts look for at loader.dataset and loader.sampler: an ImageFolder's attributes, and a sampler's set_epoch.

The daemon knows which samples there are. Their number and the classes come with the job, and what else is asked for as
columns (_columns.py); nobody who does not ask pays for it.
"""

import os
import warnings
import weakref

import numpy as np

from . import _columns, _labels, _options, _wire
from .errors import FormatError, InvalidArgument, NotFound

FLAT_CLASS = "."  # the one class of a folder that has images and no folders
UNLABELLED = "unlabelled"  # the one class of shards without labels (cache/source/labels.c)


class Content:
    """What a Loader knows of its samples beside what comes with the batches, once it was asked for."""

    def __init__(self, loader, asked_labels):
        self._loader = weakref.ref(loader)  # which has this
        self._asked_labels = asked_labels
        self._files = self._labels = self._index = None
        self._columns = {}

    def _renew(self):
        """Forgets what belongs to another index of the dataset: the daemon's may be a new one after a connection."""
        info = self._loader()._job.info
        index = info and (info.fingerprint, info.dataset_samples)
        if index != self._index:
            self._files = self._labels = None
            self._columns = {}
            self._index = index

    def check(self, with_paths, columns):
        """Raises what would be raised with the first batch."""
        self.labels()
        if with_paths:
            self.files()
        for name in columns:
            self.column(name)

    def column(self, name):
        """A column of the dataset, in its order: a read-only array, or _columns.Texts."""
        loader = self._loader()
        loader._known()
        self._renew()
        if name not in self._columns:
            try:
                column = loader._job.column(name)
            except NotFound as why:
                if name == _columns.NAMES:
                    raise
                names = ", ".join(map(repr, self.column(_columns.NAMES)))
                raise NotFound(f"{why}" + (f". It has {names}" if names else "")) from None
            self._renew()
            if name not in (_columns.NAMES, _columns.ROOT, _columns.CLASSES) and \
                    len(column) != loader._job.info.dataset_samples:
                raise FormatError(f"the daemon gave {len(column)} rows of column {name!r}, and the dataset has "
                                  f"{loader._job.info.dataset_samples} samples")
            self._columns[name] = column
        return self._columns[name]

    def warn_flat(self, stacklevel):
        """Says that class numbers say nothing: somebody may have given a class's folder in place of the dataset's."""
        loader = self._loader()
        dataset, classes = os.fsdecode(loader._job.asked.dataset), loader._known().classes
        if self._asked_labels is not None or loader._samples.parts is not None:
            return
        if classes == [FLAT_CLASS]:
            warnings.warn(f"{dataset} has images and no class folders: every label is 0. Give labels=, or the folder "
                          "above it if this is one class of several", stacklevel=stacklevel)
        elif classes == [UNLABELLED] and "#labels=" not in dataset and "#parts=" not in dataset and \
                _options.is_shards(dataset):
            warnings.warn(f"{dataset} has shards without .cls members: every label is 0. Give labels=\"json:KEY\" or "
                          "labels of your own, or labels=\"none\" if there are none", stacklevel=stacklevel)

    def is_unlabelled(self):
        """Whether there are no labels: neither the dataset's nor the script's."""
        return self._asked_labels is None and self._loader()._known().classes == [UNLABELLED]

    def files(self):
        """The samples' names, labels and classes."""
        self._renew()
        if self._files is None:
            self._files = _columns.Files(self.column, os.fsdecode(self._loader()._job.asked.dataset))
        return self._files

    def labels(self):
        """What labels= says; None where it says nothing."""
        if self._asked_labels is not None:
            self._renew()
        if self._asked_labels is not None and self._labels is None:
            loader = self._loader()
            self._labels = _labels.of_dataset(self._asked_labels, loader._known().info.dataset_samples, self.files,
                                              bool(loader._job.asked.subset))
        return self._labels


class Dataset:
    """What a Loader trains on. It has no items: these come in batches, from the Loader.

    `samples`, `imgs` and `targets` have the dataset's order, to which the positions of with_ids=True belong. That is
    so with a subset too, while len() counts the subset's samples.
    """

    def __init__(self, loader):
        self._loader = loader

    def __len__(self):
        return self._loader.dataset_size

    def __getitem__(self, item):
        if isinstance(item, _Whole):
            return item.batch()
        raise TypeError("the dataset of a larder.Loader has no items to fetch: iterate over the Loader, which gives "
                        "batches; samples and targets have the paths and labels")

    def __repr__(self):
        return f"<larder dataset {self.root!r}, {len(self)} samples, {len(self.classes)} classes>"

    @property
    def root(self):
        return os.fsdecode(self._loader._job.asked.dataset)

    @property
    def classes(self):
        return self._loader.classes

    @property
    def class_to_idx(self):
        return self._loader.class_to_idx

    @property
    def columns(self):
        """What the dataset has for each sample besides its image, by name: the columns of a list, and what members of
        tar shards say ("txt", "json:KEY"). Numbers are a read-only array of int64 or float64, (samples,) or (samples,
        width); texts are a sequence of str. In the dataset's order; each is fetched when it is first asked for."""
        return _columns.Columns(self._loader._content.column)

    @property
    def targets(self):
        """The label of each sample, as batches have it. With relabel=True, -1 for a class that the subset has not."""
        given = self._loader._content.labels()
        if given is not None:
            return given.values.tolist()
        files, number = self._loader._content.files(), self.class_to_idx
        numbers = np.array([number.get(name, -1) for name in files.classes], np.int64)
        return numbers[files.labels].tolist()

    @property
    def samples(self):
        """(path, label) of each sample."""
        return list(zip(self._loader._content.files().paths(), self.targets))

    imgs = samples


class _Whole:
    """A batch in the place of an index. One that a state says was taken has none."""

    def __init__(self, batch=None):
        self._batch = batch

    def batch(self):
        if self._batch is None:
            raise InvalidArgument("the state that this Loader was given has more batches of the epoch than "
                                  "skip_first_batches leaves out: iterate over the Loader itself, which goes on behind "
                                  "them")
        return self._batch


class BatchSampler:
    """The batches of the next epoch, each in the place of a list of indices, so that Accelerate's skip_first_batches
    leaves out the first of them. Those that a state says were taken count as the first, and are not fetched."""

    def __init__(self, loader, batches):
        self._loader, self._batches = loader, batches
        self.sampler = loader.sampler

    @property
    def batch_size(self):
        return self._loader.batch_size

    @property
    def drop_last(self):
        return self._loader.drop_last

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        loaded = self._loader._job.loaded
        if loaded is None and self._loader._job.asked.shuffle == _wire.SHUFFLES["dependent"]:
            warnings.warn("skip_first_batches leaves out batches that were drawn anew, and not those that were trained "
                          "on: save the Loader's state_dict() with a checkpoint and load it, or give "
                          "shuffle=\"strict\"", stacklevel=2)
        yield from ([_Whole()] for _ in range(loaded.base.batches if loaded else 0))
        yield from ([_Whole(batch)] for batch in self._batches)


class Sampler:
    """What trainers call set_epoch of. A Loader needs none: each iteration is the next epoch."""

    def __init__(self, loader):
        self._loader = loader

    def __len__(self):
        """How many samples this rank gets an epoch."""
        loader = self._loader
        return loader.dataset_size if loader.world_size == 1 else \
            min(len(loader) * loader.batch_size, -(-loader.dataset_size // loader.world_size))

    def set_epoch(self, epoch):
        """Where the order depends on the epoch's number (shuffle="strict"), as Loader.set_epoch. Elsewhere an epoch
        that lies behind is no reason to go back: the next one is as good."""
        loader = self._loader
        if loader._job.asked.shuffle == _wire.SHUFFLES["strict"] or \
                (epoch > loader.epoch and loader._job.asked.shuffle != _wire.SHUFFLES["none"]):
            loader.set_epoch(epoch)
