"""What a Loader is given as dataset beside folders and lists: a container that larder.index reads, a torch Subset,
torchvision's datasets, Hugging Face's. Each is told to the daemon as the folder that it is made of, or as a list of
places in its files, which is written once and kept (_list_file.py)."""

import json
import os
import tempfile
from collections import namedtuple

import numpy as np

from . import _arrow, _index, _index_pixels, _list_file, _torchvision, _wire, subset as subset_module, transforms
from .errors import InvalidArgument, SourceChanged

# dataset: a path, or what else _options.path_of takes. pipeline: what the object itself does to its images; None.
# files: those that the list points into, as they were. expected: (path, label) of each sample; None: whatever there is.
Source = namedtuple("Source", "dataset subset pipeline files expected", defaults=(None, None, (), None))

_PIL = "StandardTransform"  # torchvision's, of a transform and a target_transform


def of(dataset, subset=None, shuffle=True):
    """The Source of what a Loader was given."""
    if isinstance(dataset, (str, os.PathLike)):
        format = _index.container(os.path.expanduser(dataset))
        return Source(dataset, subset) if format is None else \
            _indexed([os.path.realpath(os.path.expanduser(dataset))], format, subset)
    if subset_module.is_subset(dataset):
        if subset is not None:
            raise InvalidArgument("dataset is a torch Subset, and subset= is given too: give one of them")
        positions, dataset = subset_module.positions(dataset, subset_module.is_subset)
        _check_positions(positions, shuffle)
        return of(dataset, subset_module.Indices(positions))
    if type(dataset).__module__.partition(".")[0] == "datasets":
        listed, files = _arrow.places(dataset)
        return Source(listed, subset, None, [(path, _stamp(path)) for path in files])
    kind = _class_of_torchvision(type(dataset))
    return Source(dataset, subset) if kind is None else _of_torchvision(dataset, kind, subset)


def _check_positions(positions, shuffle):
    """A Loader has each sample once an epoch. Without shuffling they come in the order of the dataset."""
    steps = np.diff(np.asarray(positions))
    if len(np.unique(positions)) < len(positions):
        raise InvalidArgument("the torch Subset has positions more than once, and a Loader each sample once an epoch: "
                              "give each once, and what comes oftener by repeat= or larder.Weights")
    if (shuffle is False or shuffle == "none") and (steps < 0).any():
        raise InvalidArgument("the torch Subset's positions are not in ascending order, and without shuffling samples "
                              "come in the order of the dataset: sort its indices")


def check(source, loader):
    """Raises where the daemon has other samples than were meant."""
    for path, then in source.files:
        if _stamp(path) != then:
            raise SourceChanged(f"{path} was written to while this Loader was made: make it again")
    if source.expected is None:
        return
    there, samples = loader.dataset, source.expected
    same = _below(there.root, there.samples) == _below(os.fspath(source.dataset), samples)
    asked = loader._job.asked
    if not asked.flags & (_wire.OWN_LABELS | _wire.RELABEL):
        same = same and there.targets == [label for _, label in samples]
    if not same:
        raise InvalidArgument(f"the dataset's samples are not those of its folder {there.root}: they were changed "
                              "since, or the folder was. Give the paths as a list, and labels=")


def _below(root, samples):
    """The paths of samples below their folder."""
    first = len(root.rstrip("/"))
    return [path[first:].lstrip("/") for path, _ in samples]


# ── lists of places ──

def _stamp(path):
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _indexed(paths, format, subset=None, labels=None):
    """The list of what larder.index reads there. Its name says of which files it is, as they are now."""
    files = [entry for path in paths for entry in (
        sorted(one.path for one in os.scandir(path) if one.is_file()) if os.path.isdir(path) else [path])]
    stamps = [(path, _stamp(path)) for path in files]
    said = json.dumps([1, format, paths, stamps, labels]).encode("utf-8", "surrogateescape")
    target = _list_file.path_of(said, ".csv")
    if not os.path.isfile(target):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
            made = os.path.join(folder, "list.csv")
            _index.index(paths, made, format=format, label=labels, crc32=False)
            try:
                os.link(made, target)
            except FileExistsError:
                pass  # of several scripts another was first
    return Source(target, subset, None, stamps)


# ── torchvision ──

def _class_of_torchvision(kind):
    """The name of the class of torchvision.datasets that says what samples are; None: it is no such dataset, or the
    script's own class changes what comes of it."""
    known = next((base.__name__ for base in kind.__mro__ if base.__name__ in _KNOWN and
                  base.__module__.startswith("torchvision.datasets.")), None)
    changed = any(not getattr(kind, name).__module__.startswith("torchvision.")
                  for name in ("__getitem__", "__len__", "find_classes", "make_dataset")
                  if known and hasattr(kind, name))
    return None if changed else known


def _of_torchvision(dataset, kind, subset):
    if getattr(dataset, "target_transform", None) is not None or \
            type(getattr(dataset, "transforms", None)).__name__ not in (_PIL, "NoneType"):
        raise InvalidArgument(f"the {kind} has a target_transform, or transforms for image and label together, which "
                              "the daemon cannot call: leave it out, and give labels=")
    source = _KNOWN[kind](dataset, kind)._replace(subset=subset)
    if dataset.transform is None:
        return source
    pipeline = _torchvision.from_torchvision(dataset.transform)
    return source._replace(pipeline=_grey(pipeline) if kind in _GREY else pipeline)


def _folder(dataset, kind):
    root = dataset.split_folder if kind == "ImageNet" else dataset.root
    if type(dataset.loader).__name__ != "function" or dataset.loader.__name__ != "default_loader" or \
            not dataset.loader.__module__.startswith("torchvision."):
        raise InvalidArgument(f"the {kind} has a loader of its own, and the daemon reads images itself: leave it out")
    return Source(root, expected=dataset.samples)


def _cifar(dataset, kind):
    names = dataset.train_list if dataset.train else dataset.test_list
    paths = [os.path.realpath(os.path.join(dataset.root, dataset.base_folder, name)) for name, _ in names]
    pixels = np.concatenate([_index_pixels.cifar_pixels(path) for path in paths])
    return _of_arrays(dataset, kind, paths, "cifar", pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _mnist(dataset, kind):
    name = f"{'train' if dataset.train else 't10k'}-images-idx3-ubyte"
    path = os.path.realpath(os.path.join(dataset.raw_folder, name))
    if not os.path.isfile(path):
        raise InvalidArgument(f"{path} is not there, which the {kind} was made of: download it again")
    return _of_arrays(dataset, kind, [path], "mnist", _index_pixels.idx_pixels(path))


def _of_arrays(dataset, kind, paths, format, pixels):
    """A dataset that holds the pixels of its files, which may not have been changed, and labels, which may."""
    if not np.array_equal(np.asarray(dataset.data), pixels):
        raise InvalidArgument(f"the {kind}'s data are not the pixels of its files, which the daemon reads. For "
                              "part of them give a torch.utils.data.Subset of the whole. Or pack it once: "
                              "larder.pack(DATASET, \"NAME.store\")")
    return _indexed(paths, format, labels=np.asarray(dataset.targets).tolist())


def _grey(pipeline):
    """Ends a pipeline of images that torchvision opens with one channel: so in front of what is done to numbers."""
    at = next((place for place, step in enumerate(pipeline) if step.name in ("to_dtype", "layout")), len(pipeline))
    return pipeline if any(step.name == "grayscale" for step in pipeline) else \
        [*pipeline[:at], transforms.Grayscale(1), *pipeline[at:]]


_GREY = ("MNIST",)  # FashionMNIST and KMNIST are MNISTs
_KNOWN = {"ImageFolder": _folder, "ImageNet": _folder, "CIFAR10": _cifar, "CIFAR100": _cifar, "MNIST": _mnist}
