"""timm's create_loader, with a Larder daemon in place of the DataLoader's workers. It needs timm.

    from larder.timm import create_loader   # behind the line that imports timm's

It takes what timm's takes, makes the transforms by timm's create_transform, and gives what timm's gives: normalised
batches on the device, by timm's own PrefetchLoader, unless use_prefetcher=False. So timm's train.py and validate.py run
as they are.
"""

import inspect
import os

import timm.data
import torch
from timm.data.loader import PrefetchLoader

from ._parts import Parts
from ._torchvision import from_torchvision
from .errors import InvalidArgument
from .loader import Loader

_REFUSED = {
    "num_aug_splits": "several augmentations of one image in a batch (AugMixDataset)",
    "tf_preprocessing": "TensorFlow's preprocessing",
    "input_size_choices": "a size that changes with each batch",
}


def create_loader(*args, larder_options=None, **options):
    """dataset: what timm's create_dataset makes of a folder, a torchvision ImageFolder, or a folder's path. Other
    arguments are timm's; those that are about workers mean nothing here. larder_options: a dictionary of arguments of
    larder.Loader (name, seed, weight, socket, …)."""
    given = inspect.signature(timm.data.create_loader).bind(*args, **options)
    given.apply_defaults()
    asked = given.arguments
    for name, what in _REFUSED.items():
        if asked.get(name):
            raise InvalidArgument(f"{name}={asked[name]!r}: larder.timm does not do {what}. Use timm's create_loader "
                                  "for this run")
    dataset, training, prefetcher = asked["dataset"], asked["is_training"], asked["use_prefetcher"]
    root, labels = _folder(dataset)
    pipeline = from_torchvision(_call(timm.data.create_transform, asked,
                                      re_num_splits=2 if asked["re_split"] else 0))
    loader = Loader(root, pipeline, asked["batch_size"], **{
        "shuffle": training, "drop_last": training, "labels": labels, "output": "torch",
        "pin_memory": asked["pin_memory"] or (prefetcher and torch.cuda.is_available()),
        "collate_fn": _collate(asked["collate_fn"]),
        **({"repeat": asked["num_aug_repeats"]} if asked["num_aug_repeats"] > 1 else {}), **(larder_options or {})})
    if asked["num_aug_repeats"] > 1:
        loader = Parts(loader, asked["num_aug_repeats"])  # timm's epochs are as long as without repeats
    if not prefetcher:
        return loader
    if asked["collate_fn"] is not None:
        loader.collate_fn = asked["collate_fn"]  # where PrefetchLoader looks for what switches MixUp off
    erasing = asked["re_prob"] if training and not asked["no_aug"] else 0.0
    return _call(PrefetchLoader, asked, loader=loader, channels=len(asked["mean"]), re_prob=erasing,
                 re_num_splits=2 if asked["re_split"] else 0)


def _call(function, asked, **more):
    """Calls it with those of the arguments that it has a name for."""
    known = inspect.signature(function).parameters
    return function(**{**{name: value for name, value in asked.items() if name in known}, **more})


def _collate(function):
    """timm's functions take arrays and numbers, as its datasets give them."""
    if function is None:
        return None
    return lambda batch: function([(image.numpy(), int(label)) for image, label in batch])


def _folder(dataset):
    """The folder of a dataset, and its labels where they are not the folder's own."""
    if isinstance(dataset, (str, os.PathLike)):
        return dataset, None
    if getattr(dataset, "target_transform", None) is not None:
        raise InvalidArgument("the dataset has a target_transform, which larder.timm does not know: give the labels by "
                              "larder_options={\"labels\": …}")
    reader = getattr(dataset, "reader", dataset)
    root, number = getattr(reader, "root", None), getattr(reader, "class_to_idx", None)
    if root is None or number is None or not os.path.isdir(root):
        raise InvalidArgument(f"{dataset!r} is no folder of images: larder.timm takes timm's ImageDataset of one, "
                              "torchvision's ImageFolder, or a path")
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if number == {name: place for place, name in enumerate(classes)}:
        return root, None
    if classes and all(name in number for name in classes):
        return root, {name: number[name] for name in classes}
    return root, dict(reader.samples)  # timm's classes are the folders that the files lie in, at any depth
