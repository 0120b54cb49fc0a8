"""Larder: training data that is prepared once by a daemon and delivered to every job through shared memory.

    import larder
    train = larder.Loader("/data/imagenet/train",
                          [larder.RandomResizedCrop(224), larder.RandomHorizontalFlip()], batch_size=256)
    for epoch in range(90):
        for images, labels in train:
            ...
"""

from ._device import to_device
from ._torchvision import from_torchvision
from ._version import __version__
from .errors import (BadSample, BadSamplesWarning, Busy, DaemonGone, EpochsOver, FormatError, InvalidArgument,
                     IOFailure, LarderError, LimitReached, NotFound, NotPermitted, OutOfMemory, QuotaExceeded,
                     SourceChanged, Timeout, VersionMismatch)
from .loader import Batch, Loader
from .subset import Classes, Fraction, Indices, List, Range, Subset
from .transforms import *  # noqa: F401,F403 - transforms.__all__ is its table of operators
from .transforms import __all__ as _operators

__all__ = ["Batch", "Loader", "Classes", "Fraction", "Indices", "List", "Range", "Subset", "LarderError", "BadSample",
           "BadSamplesWarning", "Busy", "DaemonGone", "EpochsOver", "FormatError", "InvalidArgument", "IOFailure",
           "LimitReached", "NotFound", "NotPermitted", "OutOfMemory", "QuotaExceeded", "SourceChanged", "Timeout",
           "VersionMismatch", "from_torchvision", "to_device", "__version__", *_operators]
