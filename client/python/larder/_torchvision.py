"""from_torchvision: what a torchvision Compose says, in Larder's operators.

Goes by class names and attributes alone, so torchvision need not be there. Both families are known: the classic
transforms and v2. torchvision works on what it is given, a PIL image or a tensor, and the same transform may mean
different things for the two (antialiasing does); so the walk keeps track of what it would hold.
"""

import numbers

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
_DTYPES = ("uint8", "float16", "float32")


def from_torchvision(compose):
    """A pipeline that does what a torchvision Compose (or one transform, or a list of them) does to an image as PIL
    opens it: classic transforms and v2. Ends as torchvision would: after ToTensor in float32, channels first; without
    a conversion to a tensor in uint8, channels last. Raises larder.InvalidArgument with the position and name of a
    transform that Larder has no operator for, or that stands where Larder's would mean something else.
    """
    walk = _Walk()
    for position, transform in enumerate(_flat(compose)):
        walk.take(position, transform)
    return walk.end()


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

    def take(self, position, transform):
        self._where = f"transform {position}, {type(transform).__name__}"
        name = type(transform).__name__
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


def _length(value):
    return len(value) if isinstance(value, (list, tuple)) else 0


def _is_zero(fill):
    return fill is None or fill == 0 or (not isinstance(fill, (numbers.Number, str, dict)) and not any(fill))
