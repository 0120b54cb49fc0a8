from ._device import to_device as to_device
from ._torchvision import from_torchvision as from_torchvision
from ._version import __version__ as __version__
from .errors import (BadSample as BadSample, BadSamplesWarning as BadSamplesWarning, Busy as Busy,
                     DaemonGone as DaemonGone, EpochsOver as EpochsOver, FormatError as FormatError,
                     InvalidArgument as InvalidArgument, IOFailure as IOFailure, LarderError as LarderError,
                     LimitReached as LimitReached, NotFound as NotFound, NotPermitted as NotPermitted,
                     OutOfMemory as OutOfMemory, QuotaExceeded as QuotaExceeded, SourceChanged as SourceChanged,
                     Timeout as Timeout, VersionMismatch as VersionMismatch)
from .loader import Batch as Batch, Loader as Loader
from .subset import (Classes as Classes, Fraction as Fraction, Indices as Indices, List as List, Range as Range,
                     Subset as Subset)
from .transforms import Operator as Operator, RandomApply as RandomApply, RandomChoice as RandomChoice
# operators begin: imports (tests/lint/operators --fix writes these lines from preprocess/ops/)
from .transforms import (
    CenterCrop as CenterCrop, ColorJitter as ColorJitter, ExactSize as ExactSize, GaussianBlur as GaussianBlur,
    Grayscale as Grayscale, Layout as Layout, Normalize as Normalize, Pad as Pad, RandAugment as RandAugment,
    RandomAutocontrast as RandomAutocontrast, RandomCrop as RandomCrop, RandomEqualize as RandomEqualize,
    RandomErasing as RandomErasing, RandomGrayscale as RandomGrayscale, RandomHorizontalFlip as RandomHorizontalFlip,
    RandomPosterize as RandomPosterize, RandomResizedCrop as RandomResizedCrop, RandomRotation as RandomRotation,
    RandomSolarize as RandomSolarize, RandomVerticalFlip as RandomVerticalFlip, Resize as Resize, ToDtype as ToDtype,
    TrivialAugmentWide as TrivialAugmentWide,
)
# operators end

__all__ = [
    "Batch", "Loader", "Classes", "Fraction", "Indices", "List", "Range", "Subset", "LarderError", "BadSample",
    "BadSamplesWarning", "Busy", "DaemonGone", "EpochsOver", "FormatError", "InvalidArgument", "IOFailure",
    "LimitReached", "NotFound", "NotPermitted", "OutOfMemory", "QuotaExceeded", "SourceChanged", "Timeout",
    "VersionMismatch", "from_torchvision", "to_device", "__version__", "Operator", "RandomApply", "RandomChoice",
    # operators begin: exports (tests/lint/operators --fix writes these lines from preprocess/ops/)
    "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "ExactSize", "RandomHorizontalFlip",
    "RandomVerticalFlip", "Pad", "ColorJitter", "Grayscale", "RandomGrayscale", "GaussianBlur", "RandomRotation",
    "RandomErasing", "RandomSolarize", "RandomPosterize", "RandomEqualize", "RandomAutocontrast", "TrivialAugmentWide",
    "RandAugment", "ToDtype", "Normalize", "Layout",
    # operators end
]
