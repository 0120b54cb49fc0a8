"""What scripts look for at loader.dataset and loader.sampler: an ImageFolder's attributes, and a sampler's set_epoch.

The daemon tells the number of samples and the classes. Which files there are is found by walking the folder here, in
the order that torchvision's ImageFolder and the daemon have, or in the index of a packed store; nobody who does not ask
pays for it.
"""

import os
import warnings
import weakref

import numpy as np

from . import _labels, _list_file, _store_index, _wire
from .errors import InvalidArgument, SourceChanged

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


FLAT_CLASS = "."  # the one class of a folder that has images and no folders


class Files:
    """The files of a folder with one folder a class, or with images alone: their keys, which are paths below the
    folder, and labels."""

    def __init__(self, root, every_file):
        self.root = root
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir()) or [FLAT_CLASS]
        self.keys, labels = [], []
        for label, name in enumerate(self.classes):
            before = len(self.keys)
            for folder, _, names in sorted(os.walk(os.path.join(root, name), followlinks=True)):
                below = os.path.relpath(folder, root)
                below = "" if below == FLAT_CLASS else below
                self.keys += [os.path.join(below, file) for file in sorted(names)
                              if (not file.startswith(".") if every_file else _is_image(file))]
            labels += [label] * (len(self.keys) - before)
        self.labels = np.array(labels, np.int64)

    def path(self, index):
        return os.path.join(self.root, self.keys[index])


def _are_shards(root):
    """Whether a dataset is of tar shards, as the daemon tells."""
    if not os.path.isdir(root):
        return "::" in root or "#labels=" in root or any(mark in root for mark in "{*?") or root.endswith(".tar")
    shards = False
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                return False
            shards = shards or entry.name.endswith(".tar")
    return shards


def _is_image(name):
    return name.lower().endswith(EXTENSIONS)


class Content:
    """What a Loader knows of its samples beside what comes with the batches, once it was asked for."""

    def __init__(self, loader, asked_labels):
        self._loader = weakref.ref(loader)  # which has this
        self._asked_labels = asked_labels
        self._files = self._labels = self._index = None

    def _renew(self):
        """Forgets what belongs to another index of the dataset: the daemon's may be a new one after a connection."""
        info = self._loader()._job.info
        index = info and (info.fingerprint, info.dataset_samples)
        if index != self._index:
            self._files = self._labels = None
            self._index = index

    def check(self, with_paths):
        """Raises what would be raised with the first batch."""
        self.labels()
        if with_paths:
            self.files()

    def warn_flat(self, stacklevel):
        """Says that class numbers say nothing: somebody may have given a class's folder in place of the dataset's."""
        loader = self._loader()
        if self._asked_labels is None and loader._known().classes == [FLAT_CLASS]:
            warnings.warn(f"{os.fsdecode(loader._job.asked.dataset)} has images and no class folders: every label is "
                          "0. Give labels=, or the folder above it if this is one class of several",
                          stacklevel=stacklevel)

    def files(self):
        """Raises where they cannot be known here, or are others than the daemon has."""
        self._renew()
        if self._files is None:
            self._files = self._find_files()
        return self._files

    def _find_files(self):
        loader = self._loader()
        asked, count = loader._job.asked, loader._known().info.dataset_samples
        root = os.fsdecode(asked.dataset)
        listed = _list_file.split(root)
        if listed is None and _are_shards(root):
            raise InvalidArgument(f"the samples of {root!r} are named by the daemon alone, so samples, targets, "
                                  "with_paths and labels by name are not known here: with_ids=True gives positions, "
                                  "and labels= takes an array in their order (shards as listed, members as they lie)")
        if listed is None and not os.path.isdir(root):
            raise InvalidArgument(f"the files of dataset {root!r} are not known here: it is no folder of this machine, "
                                  "but a name of the daemon's configuration. Give the folder's path; with_ids=True "
                                  "gives positions in any dataset")
        if listed is not None:
            files = _list_file.ListFile(*listed)
        elif os.path.isfile(os.path.join(root, _store_index.NAME)):
            files = _store_index.StoreIndex(root)
        else:
            files = Files(root, asked.flags & _wire.ALL_FILES)
        if len(files.keys) != count:
            raise SourceChanged(f"{root} has {len(files.keys)} files now, and the daemon has {count}: files were added "
                                "or taken away. Make the Loader anew")
        return files

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
        files = self._loader._content.files()
        return [(files.path(index), label) for index, label in enumerate(self.targets)]

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
