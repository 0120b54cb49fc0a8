"""Larder: training data that is prepared once by a daemon and delivered to every job through shared memory.

    import larder
    train = larder.Loader("/data/imagenet/train",
                          [larder.RandomResizedCrop(224), larder.RandomHorizontalFlip()], batch_size=256)
    for epoch in range(90):
        for images, labels in train:
            ...
"""

import importlib

# Where each name is. A module is imported when the first of its names is asked for, so that scripts that only may use
# larder begin as fast as without it.
_HOMES = {
    **dict.fromkeys(("BadSample", "BadSamplesWarning", "Busy", "DaemonGone", "EpochsOver", "FormatError",
                     "InvalidArgument", "IOFailure", "JobCancelled", "LarderError", "LimitReached", "NotFound",
                     "NotPermitted", "OutOfMemory", "QuotaExceeded", "SourceChanged", "Timeout", "VersionMismatch"),
                    "errors"),
    **dict.fromkeys(("Batch", "Loader"), "loader"),
    **dict.fromkeys(("Classes", "Fraction", "Indices", "List", "Range", "Subset"), "subset"),
    **dict.fromkeys(("Balanced", "Weights"), "samplers"),
    "Mix": "_mix",
    "Parts": "_parts",
    "index": "_index",
    **dict.fromkeys(("gather_state", "merge_states"), "_merge"),
    **dict.fromkeys(("from_torchvision", "split"), "_torchvision"),
    "to_device": "_device",
    "OnBatch": "_own",
    "pad": "_padding",
    **dict.fromkeys(("Boxes", "Image", "InstanceMasks", "Labels", "Mask", "Points"), "_samples"),
    "Writer": "writer",
    "pack": "_pack",
    "__version__": "_version",
}
_MODULES = ("errors", "importers", "loader", "recipes", "samplers", "subset", "transforms", "writer")


def _names():
    """All public names: those above, and the operators, of which transforms has the table."""
    return [*_HOMES, *importlib.import_module(".transforms", __name__).__all__]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name == "__all__":
        return _names()
    home = _HOMES.get(name)
    if home is None and not name.startswith("_") and name in _names():
        home = "transforms"
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("." + home, __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *_names(), *_MODULES})
