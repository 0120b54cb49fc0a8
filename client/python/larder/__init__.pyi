from . import importers as importers, recipes as recipes
from ._device import to_device as to_device
from ._index import index as index
from ._own import OnBatch as OnBatch
from ._samples import (
    Boxes as Boxes, Image as Image, InstanceMasks as InstanceMasks, Labels as Labels, Mask as Mask, Points as Points,
)
from ._pack import pack as pack
from ._padding import pad as pad
from ._torchvision import from_torchvision as from_torchvision, split as split
from ._version import __version__ as __version__
from .errors import (BadSample as BadSample, BadSamplesWarning as BadSamplesWarning, Busy as Busy,
                     DaemonGone as DaemonGone, EpochsOver as EpochsOver, FormatError as FormatError,
                     InvalidArgument as InvalidArgument, IOFailure as IOFailure, JobCancelled as JobCancelled,
                     LarderError as LarderError,
                     LimitReached as LimitReached, NotFound as NotFound, NotPermitted as NotPermitted,
                     OutOfMemory as OutOfMemory, QuotaExceeded as QuotaExceeded, SourceChanged as SourceChanged,
                     Timeout as Timeout, VersionMismatch as VersionMismatch)
from .loader import Batch as Batch, Loader as Loader
from ._merge import gather_state as gather_state, merge_states as merge_states
from ._mix import Mix as Mix
from ._parts import Parts as Parts
from .samplers import Balanced as Balanced, Weights as Weights
from .subset import (Classes as Classes, Fraction as Fraction, Indices as Indices, List as List, Range as Range,
                     Subset as Subset)
from .transforms import Operator as Operator, RandomApply as RandomApply, RandomChoice as RandomChoice, View as View
from .writer import Writer as Writer
# operators begin: imports (tests/lint/operators --fix writes these lines from preprocess/ops/)
from .transforms import (
    Array as Array, AugMix as AugMix, AutoAugment as AutoAugment, CenterCrop as CenterCrop,
    CenterCropOrPad as CenterCropOrPad, ClampBoundingBoxes as ClampBoundingBoxes, ColorJitter as ColorJitter,
    CornerCrop as CornerCrop, ElasticTransform as ElasticTransform, ExactSize as ExactSize,
    GaussianBlur as GaussianBlur, Grayscale as Grayscale, Layout as Layout, Normalize as Normalize, Pad as Pad,
    PadIfSmaller as PadIfSmaller, PilGaussianBlur as PilGaussianBlur, RandAugment as RandAugment,
    RandomAdjustSharpness as RandomAdjustSharpness, RandomAffine as RandomAffine,
    RandomAutocontrast as RandomAutocontrast, RandomChannelPermutation as RandomChannelPermutation,
    RandomCrop as RandomCrop, RandomCropOrPad as RandomCropOrPad, RandomEqualize as RandomEqualize,
    RandomErasing as RandomErasing, RandomGain as RandomGain, RandomGrayscale as RandomGrayscale,
    RandomHorizontalFlip as RandomHorizontalFlip, RandomInvert as RandomInvert, RandomIoUCrop as RandomIoUCrop,
    RandomPerspective as RandomPerspective, RandomPhotometricDistort as RandomPhotometricDistort,
    RandomPosterize as RandomPosterize, RandomResize as RandomResize, RandomResizedCrop as RandomResizedCrop,
    RandomRotation as RandomRotation, RandomSegment as RandomSegment, RandomShortestSize as RandomShortestSize,
    RandomSolarize as RandomSolarize, RandomVerticalFlip as RandomVerticalFlip, RandomZoomOut as RandomZoomOut,
    Resample as Resample, Resize as Resize, ResizeKeepRatio as ResizeKeepRatio,
    SanitizeBoundingBoxes as SanitizeBoundingBoxes, ScaleJitter as ScaleJitter, Segment as Segment,
    TimmAugMix as TimmAugMix, TimmAutoAugment as TimmAutoAugment, TimmRandAugment as TimmRandAugment,
    TimmRandomErasing as TimmRandomErasing, ToDtype as ToDtype, ToInt16 as ToInt16, ToMono as ToMono,
    ToStereo as ToStereo, TrivialAugmentWide as TrivialAugmentWide,
)
# operators end

__all__ = [
    "Batch", "Loader", "Classes", "Fraction", "Indices", "List", "Range", "Subset", "Balanced", "Weights", "Mix",
    "Parts", "LarderError", "BadSample",
    "BadSamplesWarning", "Busy", "DaemonGone", "EpochsOver", "FormatError", "InvalidArgument", "IOFailure",
    "JobCancelled",
    "LimitReached", "NotFound", "NotPermitted", "OutOfMemory", "QuotaExceeded", "SourceChanged", "Timeout",
    "VersionMismatch", "gather_state", "merge_states", "from_torchvision", "split", "index", "to_device", "OnBatch",
    "Writer", "pack", "pad", "__version__",
    "Boxes", "Image", "InstanceMasks", "Labels", "Mask", "Operator", "Points", "View",
    "RandomApply", "RandomChoice",
    # operators begin: exports (tests/lint/operators --fix writes these lines from preprocess/ops/)
    "Resize", "ScaleJitter", "RandomShortestSize", "RandomResize", "ResizeKeepRatio", "CenterCrop", "CornerCrop",
    "CenterCropOrPad", "RandomCrop", "RandomCropOrPad", "RandomResizedCrop", "ExactSize", "RandomHorizontalFlip",
    "RandomVerticalFlip", "Pad", "RandomZoomOut", "RandomRotation", "RandomAffine", "RandomPerspective",
    "ElasticTransform", "ColorJitter", "RandomPhotometricDistort", "RandomChannelPermutation", "Grayscale",
    "RandomGrayscale", "GaussianBlur", "PilGaussianBlur", "RandomAdjustSharpness", "RandomInvert", "RandomSolarize",
    "RandomPosterize", "RandomEqualize", "RandomAutocontrast", "RandomErasing", "TimmRandomErasing", "AutoAugment",
    "TrivialAugmentWide", "RandAugment", "AugMix", "TimmAutoAugment", "TimmRandAugment", "TimmAugMix", "ToDtype",
    "Normalize", "Layout", "Array", "RandomGain", "RandomSegment", "Resample", "Segment", "ToInt16", "ToMono",
    "ToStereo", "ClampBoundingBoxes", "RandomIoUCrop", "SanitizeBoundingBoxes", "PadIfSmaller",
    # operators end
]
