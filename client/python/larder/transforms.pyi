from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol, SupportsIndex

class _Listed(Protocol):  # a NumPy array, a tensor
    def tolist(self) -> Any: ...

_Numbers = Sequence[float] | _Listed
_Interpolation = str | Enum  # torchvision's InterpolationMode
_Step = Operator | str | dict[str, Any]
# Where an argument may be None, that is the daemon's default, which is torchvision's.

class Operator:
    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    required: ClassVar[tuple[str, ...]]
    arguments: dict[str, Any]
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def spec(self) -> dict[str, dict[str, Any]]: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

class View:
    pipeline: Any
    count: int
    name: str | None
    def __init__(self, pipeline: Any, count: SupportsIndex = 1, name: str | None = None) -> None: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

# operators begin: stubs (tests/lint/operators --fix writes these lines from preprocess/ops/)
class Resize(Operator):
    def __init__(
        self, size: int | _Numbers, interpolation: _Interpolation | None = None, max_size: int | None = None,
        antialias: bool | None = None, dct_scaling: bool | None = None,
    ) -> None: ...

class ScaleJitter(Operator):
    def __init__(
        self, target_size: int | _Numbers, scale_range: _Numbers | None = None,
        interpolation: _Interpolation | None = None, antialias: bool | None = None,
    ) -> None: ...

class RandomShortestSize(Operator):
    def __init__(
        self, min_size: int, max_size: int | None = None, interpolation: _Interpolation | None = None,
        antialias: bool | None = None,
    ) -> None: ...

class RandomResize(Operator):
    def __init__(
        self, min_size: int, max_size: int, interpolation: _Interpolation | None = None, antialias: bool | None = None,
    ) -> None: ...

class ResizeKeepRatio(Operator):
    def __init__(
        self, size: int | _Numbers, longest: float | None = None, interpolation: _Interpolation | None = None,
        random_scale_prob: float | None = None, random_scale_range: _Numbers | None = None,
        random_scale_area: bool | None = None, random_aspect_prob: float | None = None,
        random_aspect_range: _Numbers | None = None,
    ) -> None: ...

class CenterCrop(Operator):
    def __init__(self, size: int | _Numbers) -> None: ...

class CornerCrop(Operator):
    def __init__(self, size: int | _Numbers, corner: str | None = None) -> None: ...

class CenterCropOrPad(Operator):
    def __init__(
        self, size: int | _Numbers, fill: float | _Numbers | None = None, padding_mode: str | None = None,
    ) -> None: ...

class RandomCrop(Operator):
    def __init__(
        self, size: int | _Numbers, padding: int | _Numbers | None = None, pad_if_needed: bool | None = None,
        fill: float | _Numbers | None = None, padding_mode: str | None = None,
    ) -> None: ...

class RandomCropOrPad(Operator):
    def __init__(
        self, size: int | _Numbers, fill: float | _Numbers | None = None, padding_mode: str | None = None,
    ) -> None: ...

class RandomResizedCrop(Operator):
    def __init__(
        self, size: int | _Numbers, scale: _Numbers | None = None, ratio: _Numbers | None = None,
        interpolation: _Interpolation | None = None, antialias: bool | None = None, dct_scaling: bool | None = None,
    ) -> None: ...

class ExactSize(Operator):
    def __init__(self, size: int | _Numbers) -> None: ...

class RandomHorizontalFlip(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class RandomVerticalFlip(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class Pad(Operator):
    def __init__(
        self, padding: int | _Numbers, fill: float | _Numbers | None = None, padding_mode: str | None = None,
    ) -> None: ...

class RandomZoomOut(Operator):
    def __init__(
        self, fill: float | _Numbers | None = None, side_range: _Numbers | None = None, p: float | None = None,
    ) -> None: ...

class RandomRotation(Operator):
    def __init__(
        self, degrees: float | _Numbers, interpolation: _Interpolation | None = None, expand: bool | None = None,
        center: _Numbers | None = None, fill: float | _Numbers | None = None,
    ) -> None: ...

class RandomAffine(Operator):
    def __init__(
        self, degrees: float | _Numbers, translate: float | _Numbers | None = None, scale: _Numbers | None = None,
        shear: float | _Numbers | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None, center: _Numbers | None = None,
    ) -> None: ...

class RandomPerspective(Operator):
    def __init__(
        self, distortion_scale: float | None = None, p: float | None = None,
        interpolation: _Interpolation | None = None, fill: float | _Numbers | None = None,
    ) -> None: ...

class ElasticTransform(Operator):
    def __init__(
        self, alpha: float | _Numbers | None = None, sigma: float | _Numbers | None = None,
        interpolation: _Interpolation | None = None, fill: float | _Numbers | None = None,
    ) -> None: ...

class ColorJitter(Operator):
    def __init__(
        self, brightness: float | _Numbers | None = None, contrast: float | _Numbers | None = None,
        saturation: float | _Numbers | None = None, hue: float | _Numbers | None = None,
    ) -> None: ...

class RandomPhotometricDistort(Operator):
    def __init__(
        self, brightness: _Numbers | None = None, contrast: _Numbers | None = None, saturation: _Numbers | None = None,
        hue: _Numbers | None = None, p: float | None = None,
    ) -> None: ...

class RandomChannelPermutation(Operator):
    def __init__(self) -> None: ...

class Grayscale(Operator):
    def __init__(self, num_output_channels: int | None = None) -> None: ...

class RandomGrayscale(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class GaussianBlur(Operator):
    def __init__(self, kernel_size: int | _Numbers, sigma: float | _Numbers | None = None) -> None: ...

class PilGaussianBlur(Operator):
    def __init__(self, radius: float | _Numbers | None = None, p: float | None = None) -> None: ...

class RandomAdjustSharpness(Operator):
    def __init__(self, sharpness_factor: float, p: float | None = None) -> None: ...

class RandomInvert(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class RandomSolarize(Operator):
    def __init__(self, threshold: float, p: float | None = None) -> None: ...

class RandomPosterize(Operator):
    def __init__(self, bits: int, p: float | None = None) -> None: ...

class RandomEqualize(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class RandomAutocontrast(Operator):
    def __init__(self, p: float | None = None) -> None: ...

class RandomErasing(Operator):
    def __init__(
        self, p: float | None = None, scale: _Numbers | None = None, ratio: _Numbers | None = None,
        value: float | _Numbers | str | None = None, inplace: bool | None = None,
    ) -> None: ...

class TimmRandomErasing(Operator):
    def __init__(
        self, p: float | None = None, scale: _Numbers | None = None, ratio: _Numbers | None = None,
        mode: str | None = None, min_count: int | None = None, max_count: int | None = None,
    ) -> None: ...

class AutoAugment(Operator):
    def __init__(
        self, policy: str | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class TrivialAugmentWide(Operator):
    def __init__(
        self, num_magnitude_bins: int | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class RandAugment(Operator):
    def __init__(
        self, num_ops: int | None = None, magnitude: int | None = None, num_magnitude_bins: int | None = None,
        interpolation: _Interpolation | None = None, fill: float | _Numbers | None = None,
    ) -> None: ...

class AugMix(Operator):
    def __init__(
        self, severity: int | None = None, mixture_width: int | None = None, chain_depth: int | None = None,
        alpha: float | None = None, all_ops: bool | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class TimmAutoAugment(Operator):
    def __init__(
        self, policy: str | None = None, mstd: float | None = None, mmax: float | None = None,
        translate_pct: float | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class TimmRandAugment(Operator):
    def __init__(
        self, num_ops: int | None = None, magnitude: float | None = None, prob: float | None = None,
        transforms: str | None = None, mstd: float | None = None, mmax: float | None = None,
        translate_pct: float | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class TimmAugMix(Operator):
    def __init__(
        self, magnitude: float | None = None, width: int | None = None, depth: int | None = None,
        alpha: float | None = None, mstd: float | None = None, mmax: float | None = None,
        translate_pct: float | None = None, interpolation: _Interpolation | None = None,
        fill: float | _Numbers | None = None,
    ) -> None: ...

class ToDtype(Operator):
    def __init__(self, dtype: Any, scale: bool | None = None, reciprocal: bool | None = None) -> None: ...

class Normalize(Operator):
    def __init__(self, mean: float | _Numbers, std: float | _Numbers, inplace: bool | None = None) -> None: ...

class Layout(Operator):
    def __init__(self, layout: str) -> None: ...

class Array(Operator):
    def __init__(self, dtype: Any, shape: int | _Numbers) -> None: ...

class RandomGain(Operator):
    def __init__(self, min_db: float | None = None, max_db: float | None = None, p: float | None = None) -> None: ...

class RandomSegment(Operator):
    def __init__(self, seconds: float | None = None, frames: int | None = None, pad: bool | None = None) -> None: ...

class Resample(Operator):
    def __init__(self, rate: int) -> None: ...

class Segment(Operator):
    def __init__(
        self, seconds: float | None = None, frames: int | None = None, place: str | None = None,
        pad: bool | None = None,
    ) -> None: ...

class ToInt16(Operator):
    def __init__(self) -> None: ...

class ToMono(Operator):
    def __init__(self) -> None: ...

class ToStereo(Operator):
    def __init__(self) -> None: ...

class ClampBoundingBoxes(Operator):
    def __init__(self) -> None: ...

class RandomIoUCrop(Operator):
    def __init__(
        self, min_scale: float | None = None, max_scale: float | None = None, min_aspect_ratio: float | None = None,
        max_aspect_ratio: float | None = None, trials: int | None = None,
    ) -> None: ...

class SanitizeBoundingBoxes(Operator):
    def __init__(self, min_size: float | None = None, min_area: float | None = None) -> None: ...

class PadIfSmaller(Operator):
    def __init__(self, size: int | _Numbers, fill: float | _Numbers | None = None) -> None: ...

# operators end

class RandomApply(Operator):
    def __init__(self, transforms: Sequence[_Step], p: float | None = None) -> None: ...

class RandomChoice(Operator):
    def __init__(self, transforms: Sequence[_Step | Sequence[_Step]], p: Sequence[float] | None = None) -> None: ...
