"""from_torchvision: what a torchvision Compose says, in Larder's operators.

Goes by class names and attributes alone, so torchvision need not be there. Both families are known: the classic
transforms and v2; and of timm what its create_transform commonly makes. torchvision works on what it is given, a PIL
image or a tensor, and the same transform may mean different things for the two (antialiasing does); so the walk keeps
track of what it would hold.
"""

import math
import numbers
import types
import warnings

from . import transforms
from .errors import InvalidArgument

_OTHERWISE = ("antialias", "inplace")  # arguments that are not simply passed on
_PIXELS = ("Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
           "Pad", "ColorJitter", "Grayscale", "RandomGrayscale", "GaussianBlur", "RandomRotation", "RandomSolarize",
           "RandomPosterize", "RandomEqualize", "RandomAutocontrast", "TrivialAugmentWide", "RandAugment")
# What only moves pixels does the same before and after they become floating point.
_MOVES = ("CenterCrop", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Pad")
_LISTS = ("Compose", "Sequential")
_NOTHING = ("Identity", "ToPILImage", "ToPureTensor")
_GROUPS = ("RandomApply", "RandomChoice")
# timm's own classes that are known; others of its classes have torchvision's names and mean something else.
_TIMM = {"MaybeToTensor": "ToTensor", "MaybePILToTensor": "PILToTensor", "RandomErasing": "timm.RandomErasing",
         "RandomResizedCropAndInterpolation": "timm.RandomResizedCrop"}
_DTYPES = ("uint8", "float16", "float32")
_told = False  # what floating point costs


def from_torchvision(compose):
    """A pipeline that does what a torchvision Compose (or one transform, or a list of them) does to an image as PIL
    opens it: classic transforms and v2, weights.transforms(), and timm's create_transform. Ends as torchvision would:
    after ToTensor in float32, channels first, which takes four times the memory, and is warned of once; without a
    conversion to a tensor in uint8, channels last. Raises
    larder.InvalidArgument with the position and name of a transform that Larder has no operator for, or that stands
    where Larder's would mean something else.
    """
    walk = _Walk()
    for position, transform in enumerate(_flat(compose)):
        walk.take(position, transform)
    steps = walk.end()
    _tell_cost(steps)
    return steps


def _tell_cost(steps):
    """Says once what floating point costs, and how to do without."""
    global _told
    dtype = next((step.arguments["dtype"] for step in steps if step.name == "to_dtype"), "uint8")
    if _told or dtype == "uint8":
        return
    _told = True
    erases = any(step.name == "random_erasing" for step in steps[[step.name for step in steps].index("to_dtype"):])
    warnings.warn(f"this list ends in {dtype}: each prepared sample takes {4 if dtype == 'float32' else 2} times the "
                  "memory that its pixels take in uint8, in the daemon and on the way to the device, and the daemon "
                  "keeps so many fewer. Leave the conversion (ToTensor, ToDtype) and Normalize out of the list, and "
                  "iterate over larder.to_device(loader, device, normalize=(mean, std)), which does the same on the "
                  f"device{'; RandomErasing then belongs there too' if erases else ''}", stacklevel=3)


def _flat(item):
    name = type(item).__name__
    steps = getattr(item, "transforms", item) if name in _LISTS else item if isinstance(item, (list, tuple)) else None
    if steps is None:
        return [item]
    return [step for part in steps for step in _flat(part)]


class _Walk:
    """One pass over a list of transforms. `_tensor`: it is a tensor by now. `_dtype`: the conversion that is still to
    be written, after the last step that moves pixels; None: none. `_float`: it was written."""

    def __init__(self):
        self._steps = []
        self._tensor = self._float = False
        self._dtype = None

    def take(self, position, transform, within=""):
        self._where = f"{within}transform {position}, {type(transform).__name__}"
        name = _name(transform)
        if name in _PIXELS:
            self._pixels(name, transform)
        elif name == "RandomErasing":
            self._erase(transform)
        elif name == "Normalize":
            if not (self._dtype or self._float):
                self._refuse("it works on floating point tensors: put ToTensor before it")
            self._write_dtype()
            self._add(name, transform)
        elif name in ("ToTensor", "PILToTensor", "ToImage"):
            self._tensor = True
            if name == "ToTensor" and not self._float:
                self._dtype = ("float32", True)
        elif name in ("ConvertImageDtype", "ToDtype"):
            self._convert(transform, scale=name == "ConvertImageDtype" or bool(getattr(transform, "scale", False)))
        elif name in _GROUPS:
            self._group(name, transform)
        elif name == "ImageClassification":
            self._classification(transform)
        elif name == "RandomInvert":
            self._pixels("RandomSolarize", types.SimpleNamespace(threshold=0, p=transform.p))
        elif name == "RGB":
            if self._is_grey():
                self._refuse("it stands after Grayscale with one channel: give Grayscale(3) instead of both")
        elif name == "timm.RandomResizedCrop":
            self._timm_crop(transform)
        elif name == "timm.RandomErasing":
            self._timm_erase(transform)
        elif name not in _NOTHING or (name == "ToPILImage" and self._tensor):
            self._refuse("Larder has no operator for it")

    def end(self):
        self._write_dtype()
        if self._tensor:
            self._steps.append(transforms.Layout("CHW"))
        return self._steps

    def _refuse(self, why):
        raise InvalidArgument(f"{self._where}: {why}")

    def _pixels(self, name, transform):
        if self._float or (self._dtype and not self._moves(name, transform)):
            self._refuse("it stands after the conversion to floating point, where it rounds otherwise than on "
                         "8-bit pixels: put it before that")
        self._add(name, transform)

    @staticmethod
    def _moves(name, transform):
        mode, fill = getattr(transform, "padding_mode", "constant"), getattr(transform, "fill", None)
        return name in _MOVES and (mode != "constant" or _is_zero(fill))

    def _is_grey(self):
        return any(step.name == "grayscale" and step.arguments.get("num_output_channels", 1) == 1
                   for step in self._steps)

    def _group(self, name, transform):
        """Alternatives of which chance takes one, or a list that it takes or leaves."""
        parts = list(transform.transforms)
        p = getattr(transform, "p", None)
        if name == "RandomApply":
            self._steps.append(transforms.RandomApply(self._inner(parts), float(p)))
        else:
            self._steps.append(transforms.RandomChoice([self._inner([part]) for part in parts], p))

    def _inner(self, parts):
        walk = _Walk()
        before = walk._tensor, walk._float, walk._dtype = self._tensor, self._float, self._dtype
        for position, transform in enumerate(_flat(parts)):
            walk.take(position, transform, self._where + ": ")
        if (walk._tensor, walk._float, walk._dtype) != before:
            walk._refuse("a conversion cannot be left to chance: put it before or behind")
        if any(isinstance(step, (transforms.RandomApply, transforms.RandomChoice)) for step in walk._steps):
            walk._refuse("Larder has no such group within another")
        return walk._steps

    def _classification(self, preset):
        """What weights.transforms() gives."""
        image = types.SimpleNamespace(interpolation=preset.interpolation, antialias=getattr(preset, "antialias", None))
        self._pixels("Resize", types.SimpleNamespace(size=preset.resize_size, **vars(image)))
        self._pixels("CenterCrop", types.SimpleNamespace(size=preset.crop_size))
        self._tensor, self._dtype = True, ("float32", True)
        self._write_dtype()
        self._add("Normalize", preset)

    def _timm_crop(self, transform):
        modes = transform.interpolation
        crops = []
        for mode in modes if isinstance(modes, (tuple, list)) else [modes]:
            walk = _Walk()
            walk._where, walk._tensor, walk._float, walk._dtype = self._where, self._tensor, self._float, self._dtype
            walk._pixels("RandomResizedCrop", types.SimpleNamespace(
                size=transform.size, scale=transform.scale, ratio=transform.ratio, interpolation=mode, antialias=True))
            crops += walk._steps
        self._steps.append(transforms.RandomChoice(crops) if len(crops) > 1 else crops[0])

    def _timm_erase(self, transform):
        if (transform.min_count, transform.max_count) != (1, 1):
            self._refuse("Larder erases one rectangle: give it a count of 1")
        if transform.rand_color:
            self._refuse("Larder fills with 0 or with another number for each pixel: give it mode 'const' or 'pixel'")
        low, high = transform.log_aspect_ratio
        self._erase(types.SimpleNamespace(p=transform.probability, scale=(transform.min_area, transform.max_area),
                                          ratio=(math.exp(low), math.exp(high)),
                                          value="random" if transform.per_pixel else 0))

    def _erase(self, transform):
        if not self._tensor:
            self._refuse("it works on tensors: put ToTensor before it")
        self._write_dtype()
        self._add("RandomErasing", transform)

    def _convert(self, transform, scale):
        if not self._tensor:
            self._refuse("it works on tensors: put ToImage or PILToTensor before it")
        dtype = transform.dtype
        if isinstance(dtype, dict):
            self._refuse("give one dtype, not one for each kind of input")
        dtype = str(dtype).rpartition(".")[2]
        if dtype not in _DTYPES:
            self._refuse(f"Larder makes {', '.join(_DTYPES)}, not {dtype}")
        if dtype == "uint8" and not (self._dtype or self._float):
            return
        if self._float or (self._dtype and (self._dtype[0] == "float16" or dtype == "uint8" or not scale)):
            self._refuse("there was a conversion before it: leave one of the two out")
        self._dtype = (dtype, scale if not self._dtype else self._dtype[1])

    def _write_dtype(self):
        if self._dtype:
            self._steps.append(transforms.ToDtype(*self._dtype))
            self._float, self._dtype = True, None

    def _add(self, name, transform):
        kind = getattr(transforms, name)
        given = {key: self._value(name, key, transform) for key in kind.parameters
                 if key not in _OTHERWISE and hasattr(transform, key)}
        if "antialias" in kind.parameters and self._tensor:  # PIL images always are, tensors when asked for
            given["antialias"] = getattr(transform, "antialias", None) is True
        missing = [key for key in kind.required if given.get(key) is None]
        if missing:
            self._refuse(f"Larder needs its {missing[0]}, which is None here")
        self._steps.append(kind(**given))

    def _value(self, name, key, transform):
        value = getattr(transform, key)
        if isinstance(value, dict):
            self._refuse(f"give one {key}, not one for each kind of input")
        if name == "RandomCrop" and key == "padding" and ".v2" in type(transform).__module__ and _length(value) == 4:
            left, right, top, bottom = value  # how v2 keeps it; in all other places it is left, top, right, bottom
            return [left, top, right, bottom]
        if name == "RandomErasing" and key == "value" and value is None:
            return "random"
        if _length(value) == 1:  # torchvision means the number by a list of one
            return value[0]
        return value


def _name(transform):
    """The class's, by which it is known."""
    name = type(transform).__name__
    return _TIMM.get(name, "timm") if type(transform).__module__.partition(".")[0] == "timm" else name


def _length(value):
    return len(value) if isinstance(value, (list, tuple)) else 0


def _is_zero(fill):
    return fill is None or fill == 0 or (not isinstance(fill, (numbers.Number, str, dict)) and not any(fill))
