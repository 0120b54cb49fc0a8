"""from_torchvision: what a torchvision Compose says, in Larder's operators; split: as much of it as Larder can do.

Goes by class names and attributes alone, so torchvision need not be there. Both families are known: the classic
transforms and v2; and of timm what its create_transform makes. torchvision works on what it is given, a PIL image or a
tensor, and the same transform may mean different things for the two (antialiasing does); so the walk keeps track of
what it would hold.
"""

import itertools
import math
import numbers
import types
import warnings

from . import _functions, _own_classes, _timm, transforms
from ._rest import Rest
from .errors import InvalidArgument

_OTHERWISE = ("antialias", "inplace")  # arguments that are not simply passed on
_PIXELS = ("Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
           "Pad", "ColorJitter", "Grayscale", "RandomGrayscale", "GaussianBlur", "RandomRotation", "RandomSolarize",
           "RandomPosterize", "RandomEqualize", "RandomAutocontrast", "TrivialAugmentWide", "RandAugment",
           "AutoAugment", "AugMix", "RandomAffine", "RandomPerspective", "ElasticTransform", "RandomAdjustSharpness",
           "RandomInvert", "RandomPhotometricDistort", "RandomChannelPermutation", "ScaleJitter", "RandomResize",
           "RandomZoomOut", "RandomIoUCrop")
# What only moves pixels does the same before and after they become floating point.
_MOVES = ("CenterCrop", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Pad", "RandomChannelPermutation",
          "RandomZoomOut", "RandomIoUCrop")
# What computes levels does the same before and after, but for the rounding to 255 levels.
_ROUNDS = ("Resize", "RandomResizedCrop", "ColorJitter", "Grayscale", "RandomGrayscale", "GaussianBlur", "ScaleJitter",
           "RandomResize", "RandomInvert")
_OF_BOXES = ("SanitizeBoundingBoxes", "ClampBoundingBoxes")  # which leave the pixels
_IOU_OPTIONS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
_LISTS = ("Compose", "Sequential")
_NOTHING = ("Identity", "ToPILImage", "ToPureTensor")
_GROUPS = ("RandomApply", "RandomChoice", "RandomOrder")
_CONVERSIONS = ("ToTensor", "MaybeToTensor", "ToImage", "PILToTensor", "MaybePILToTensor", "ConvertImageDtype",
                "ToDtype")
_BEHIND = (*_CONVERSIONS, "Normalize", "RandomErasing")  # what stands behind all that works on pixels
_WORK = ("forward", "__call__", "transform", "_transform", "get_params", "make_params", "_get_params")  # methods
_DTYPES = ("uint8", "float16", "float32")
_ORDERED_MOST = 3  # so many transforms have six orders
_SIZED = ("center_crop", "random_crop", "random_resized_crop", "center_crop_or_pad", "random_crop_or_pad")
_WHY = {
    "ObjectDetection": "its samples keep the sizes of their images, and a batch has one size: Resize and CenterCrop",
    "SemanticSegmentation": "its samples keep the shapes of their images, and a batch has one size: Resize([h, w])",
    "VideoClassification": "it is for clips, and a sample of a Loader is one image",
}
_CORNERS = ("top_left", "top_right", "bottom_left", "bottom_right")
_told = False  # what floating point costs


def from_torchvision(compose):
    """A pipeline that does what a torchvision Compose (or one transform, or a list of them) does to an image as PIL
    opens it: classic transforms and v2, weights.transforms(), and timm's create_transform. Ends as torchvision would:
    after ToTensor in float32, channels first, which takes four times the memory, and is warned of once; without a
    conversion to a tensor in uint8, channels last. A list with FiveCrop or TenCrop becomes a list of larder.View, of
    which each batch has a tensor for each, where the list has them stacked. Raises
    larder.InvalidArgument with the position and name of a transform that Larder has no operator for, or that stands
    where Larder's would mean something else: larder.split then takes what there is before it.
    """
    walk = _Walk(_flat(compose))
    try:
        for position, transform in enumerate(walk.list):
            walk.take(position, transform)
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}. larder.split(compose) takes what stands before it, and gives the rest to the "
                              "script") from None
    steps = walk.end()
    _tell_cost(steps)
    return steps


def split(compose):
    """(pipeline, rest): of a torchvision Compose as many transforms, from the first on, as Larder has operators for;
    and a callable that does the others, for Loader(transform=rest). rest.why says of the first of them what stands in
    the way; rest is None where nothing is left. What the rest does runs in the training script, for this job alone.

    The batches of a pipeline have one size. So where no crop or resize stands before the first that Larder cannot do,
    the pipeline is [], and the rest decodes files."""
    listed = _flat(compose)
    why = None
    for count in range(len(listed), -1, -1):
        walk = _Walk(listed)
        try:
            for position, transform in enumerate(listed[:count]):
                walk.take(position, transform)
        except InvalidArgument as error:
            why = str(error)
            continue
        if walk.fanned and count < len(listed):
            continue  # what is left would get several images at once
        steps = walk.end()
        break
    if count == len(listed):
        return steps, None
    if not any(_makes_size(step.spec) for step in steps):
        return [], Rest(listed, f"{why}; {_sizeless(listed[:count])}", False)
    return steps, Rest(listed[count:], why, walk.is_tensor)


def _sizeless(before):
    """Why a list that begins so is left to the script as a whole."""
    names = ", ".join(map(_label, before))
    leaves = f"{names} before transform {len(before)} leaves images of different sizes" if before else \
        "nothing stands before it"
    return f"{leaves}, so the pipeline is [] and each script decodes for itself: put a crop there"


def _makes_size(step):
    """Whether what comes out of it has one size, of all images."""
    if isinstance(step, list):
        return any(map(_makes_size, step))
    (name, arguments), = step.items()
    if name == "random_choice":
        return all(map(_makes_size, arguments["transforms"]))
    return name in _SIZED or (name == "resize" and isinstance(arguments["size"], list))


def _tell_cost(steps):
    """Says once what floating point costs, and how to do without."""
    global _told
    if steps and isinstance(steps[0], transforms.View):
        steps = steps[0].pipeline
    dtype = next((step.arguments["dtype"] for step in steps if step.name == "to_dtype"), "uint8")
    if _told or dtype == "uint8":
        return
    _told = True
    erases = any(step.name.endswith("random_erasing")
                 for step in steps[[step.name for step in steps].index("to_dtype"):])
    warnings.warn(f"this list ends in {dtype}: each prepared sample takes {4 if dtype == 'float32' else 2} times the "
                  "memory that its pixels take in uint8, in the daemon and on the way to the device, and the daemon "
                  "keeps so many fewer. Leave the conversion (ToTensor, ToDtype) and Normalize out of the list, and "
                  "iterate over larder.to_device(loader, device, normalize=(mean, std)), which does the same on the "
                  "device; mean and std are of 0 to 1"
                  f"{'. RandomErasing then belongs there too' if erases else ''}", stacklevel=3)


def _flat(item):
    name = type(item).__name__
    steps = getattr(item, "transforms", item) if name in _LISTS else item if isinstance(item, (list, tuple)) else None
    if steps is None:
        return [item]
    return [step for part in steps for step in _flat(part)]


class _Walk:
    """One pass over a list of transforms. `_tensor`: it is a tensor by now. `_dtype`: the conversion, as ToDtype takes
    it, that is still to be written, after the last step that moves pixels; None: none. `_float`: it was written.
    `_fan`: how each of several images begins, which the steps go on with; None: there is one. `_stacked`: a function
    has put them together."""

    def __init__(self, listed):
        self.list = listed
        self._steps = []
        self._fan, self._stacked = None, False
        self._tensor = self._float = False
        self._dtype = None

    @property
    def is_tensor(self):
        return self._tensor

    @property
    def fanned(self):
        return self._fan is not None

    def take(self, position, transform, within=""):
        self._where = f"{within}transform {position}, {getattr(transform, '__name__', type(transform).__name__)}"
        name = _name(transform)
        if name in ("FiveCrop", "TenCrop") and not self.fanned:
            self._fan_out(name, transform)
        elif self.fanned and not self._stacked:
            self._stack(transform)
        elif self.fanned and name not in (*_CONVERSIONS, "Normalize", *_NOTHING):
            self._refuse("it stands behind several images of one: put it before them")
        elif name == "RandomIoUCrop" and list(getattr(transform, "options", ())) != _IOU_OPTIONS:
            self._refuse(f"Larder has no operator for other sampler_options than {_IOU_OPTIONS}")
        elif name in _OF_BOXES:
            self._add(name, transform)
        elif self._own_class(transform):
            pass
        elif name in _PIXELS:
            self._pixels(name, transform)
        elif name == "RandomShortestSize":
            self._shortest(transform)
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
                self._dtype = ("float32", True, False)
        elif name in ("ConvertImageDtype", "ToDtype"):
            self._convert(transform, scale=name == "ConvertImageDtype" or bool(getattr(transform, "scale", False)))
        elif name in _GROUPS:
            self._group(name, transform)
        elif name == "ImageClassification":
            self._classification(transform)
        elif name == "RGB" or (not self._tensor and _functions.only_converts(transform)):
            if self._is_grey():
                self._refuse("it stands after Grayscale with one channel: give Grayscale(3) instead of both")
        elif name.startswith("timm."):
            self._timm(name, transform)
        elif name not in _NOTHING or (name == "ToPILImage" and self._tensor):
            self._refuse(_WHY.get(name) or _functions.why_not(transform) or _why_views(transform) or
                         "Larder has no operator for it")

    def end(self):
        self._write_dtype()
        if self._tensor:
            self._steps.append(transforms.Layout("CHW"))
        return self._steps if self._fan is None else [transforms.View([*begin, *self._steps]) for begin in self._fan]

    def _refuse(self, why):
        raise InvalidArgument(f"{self._where}: {why}")

    def _fan_out(self, name, transform):
        """The corners and the middle; of TenCrop also those of the mirrored image."""
        if self._float:
            self._refuse(f"it stands after the conversion to floating point: put that behind it, {self._better()}")
        crops = [transforms.CornerCrop(transform.size, corner) for corner in _CORNERS]
        self._fan = [[*self._steps, crop] for crop in (*crops, transforms.CenterCrop(transform.size))]
        if name == "TenCrop":
            flip = (transforms.RandomVerticalFlip if transform.vertical_flip else transforms.RandomHorizontalFlip)(1.0)
            self._fan += [[*begin[:-1], flip, begin[-1]] for begin in self._fan]
        self._steps = []

    def _stack(self, transform):
        """What stands behind several images: a function that makes a tensor of each, and puts these together."""
        size, grey = self._fan[0][-1].arguments["size"], self._is_grey()
        dtype = None if self._tensor or grey else _functions.stacks(transform, len(self._fan), size)
        if dtype is None:
            self._refuse("it stands behind several images of one, and Larder knows there only the function that makes "
                         "tensors of them, Lambda(lambda images: torch.stack([ToTensor()(one) for one in images])). "
                         "Leave it out: a batch has the tensors of each")
        self._tensor = self._stacked = True
        if dtype == "float32":
            self._dtype = ("float32", True, False)

    def _pixels(self, name, transform):
        if self._float or (self._dtype and not self._moves(name, transform) and not self._rounds(name, transform)):
            self._refuse("it stands after the conversion to floating point, where it gives other pixels than on 8-bit "
                         f"ones: put the conversion behind it, {self._better()}")
        self._add(name, transform)

    @staticmethod
    def _moves(name, transform):
        mode, fill = getattr(transform, "padding_mode", "constant"), getattr(transform, "fill", None)
        return name in _MOVES and (mode != "constant" or _is_zero(fill))

    def _rounds(self, name, transform):
        """Whether it does the same to levels in floating point, but for rounding: what is cut off or counted in whole
        levels does not, and bicubic filters leave the range."""
        if name not in _ROUNDS or self._dtype[:2] != ("float32", True):
            return False
        if name == "ColorJitter":
            return not any(transform.hue or ()) if not isinstance(transform.hue, numbers.Number) else not transform.hue
        mode = getattr(transform, "interpolation", "bilinear")
        return getattr(mode, "value", mode) in ("bilinear", 2)

    def _better(self):
        """The list with its conversions where Larder can take them."""
        names = [_label(part) for part in self.list]
        last = max(index for index, name in enumerate(names) if name not in (*_BEHIND, *_NOTHING))
        moved = [name for name in names[:last] if name in _BEHIND]
        kept = [name for name in names[:last + 1] if name not in _BEHIND]
        return f"[{', '.join(kept + moved + names[last + 1:])}]"

    def _is_grey(self):
        return any(step.name == "grayscale" and step.arguments.get("num_output_channels", 1) == 1
                   for step in (*self._steps, *(self._fan or [()])[0]))

    def _group(self, name, transform):
        """Alternatives of which chance takes one, a list that it takes or leaves, or one that it shuffles."""
        parts = list(transform.transforms)
        p = getattr(transform, "p", None)
        if name == "RandomApply":
            self._steps.append(transforms.RandomApply(self._inner(parts), float(p)))
        elif name == "RandomChoice":
            self._steps.append(transforms.RandomChoice([self._inner([part]) for part in parts], p))
        elif len(parts) > _ORDERED_MOST:
            self._refuse(f"Larder shuffles up to {_ORDERED_MOST} transforms, and these are {len(parts)}")
        else:
            orders = itertools.permutations(parts)
            self._steps.append(transforms.RandomChoice([self._inner(list(order)) for order in orders]))

    def _inner(self, parts):
        walk = self._like()
        before = walk._tensor, walk._float, walk._dtype
        for position, transform in enumerate(_flat(parts)):
            walk.take(position, transform, self._where + ": ")
        if (walk._tensor, walk._float, walk._dtype) != before:
            walk._refuse("a conversion cannot be left to chance: put it before or behind")
        if any(isinstance(step, (transforms.RandomApply, transforms.RandomChoice)) for step in walk._steps):
            walk._refuse("Larder has no such group within another")
        return walk._steps

    def _like(self):
        """A walk that stands where this one does, without steps."""
        walk = _Walk(self.list)
        walk._where, walk._tensor, walk._float, walk._dtype = self._where, self._tensor, self._float, self._dtype
        return walk

    def _either(self, name, each):
        """One step, or one of several with equal chances."""
        steps = []
        for attributes in each:
            walk = self._like()
            walk._pixels(name, types.SimpleNamespace(**attributes))
            steps += walk._steps
        self._steps.append(transforms.RandomChoice(steps) if len(steps) > 1 else steps[0])

    def _own_class(self, transform):
        """Takes one that the script has written itself, if it does what an operator does."""
        step = _own_classes.operator(transform)
        if step is None or self._float or (self._tensor and step.name != "pad_if_smaller"):
            return False
        self._steps.append(step)
        return True

    def _shortest(self, transform):
        sizes = transform.min_size if isinstance(transform.min_size, (list, tuple)) else [transform.min_size]
        self._either("RandomShortestSize", [{**_attributes(transform, "RandomShortestSize"), "min_size": size}
                                            for size in sizes])

    def _classification(self, preset):
        """What weights.transforms() gives."""
        image = types.SimpleNamespace(interpolation=preset.interpolation, antialias=getattr(preset, "antialias", None))
        self._pixels("Resize", types.SimpleNamespace(size=preset.resize_size, **vars(image)))
        self._pixels("CenterCrop", types.SimpleNamespace(size=preset.crop_size))
        self._tensor, self._dtype = True, ("float32", True, False)
        self._write_dtype()
        self._add("Normalize", preset)

    def _timm(self, name, transform):
        if name == "timm.RandomResizedCrop":
            self._either("RandomResizedCrop", [
                {"size": transform.size, "scale": transform.scale, "ratio": transform.ratio, "interpolation": mode,
                 "antialias": True} for mode in _several(transform.interpolation)])
        elif name == "timm.ResizeKeepRatio":
            self._either("ResizeKeepRatio", [
                {**_attributes(transform, "ResizeKeepRatio"), "interpolation": mode}
                for mode in _several(transform.interpolation)])
        elif name in ("timm.CenterCropOrPad", "timm.RandomCropOrPad"):
            self._pixels(name[len("timm."):], transform)
        elif name == "timm.RandomErasing":
            self._erase(transform)
        else:
            step = _timm.augmentation(name, transform)
            if step is None:
                self._refuse("Larder has no operator for it")
            if self._tensor:
                self._refuse(f"it works on PIL images: put the conversion behind it, {self._better()}")
            self._steps.append(step)

    def _erase(self, transform):
        if not self._tensor:
            self._refuse("it works on tensors: put ToTensor before it")
        self._write_dtype()
        if _name(transform) != "timm.RandomErasing":
            self._add("RandomErasing", transform)
            return
        low, high = transform.log_aspect_ratio
        self._steps.append(transforms.TimmRandomErasing(
            transform.probability, (transform.min_area, transform.max_area), (math.exp(low), math.exp(high)),
            "rand" if transform.rand_color else "pixel" if transform.per_pixel else "const", transform.min_count,
            transform.max_count))

    def _convert(self, transform, scale):
        if not self._tensor:
            self._refuse("it works on tensors: put ToImage or PILToTensor before it")
        dtype = transform.dtype
        if isinstance(dtype, dict):  # by the kinds of parts; a mask has its own by larder.Mask
            dtype = next((one for kind, one in dtype.items() if getattr(kind, "__name__", "") == "Image"), None)
        if dtype is None:
            self._refuse("give one dtype, or one for tv_tensors.Image among others")
        dtype = str(dtype).rpartition(".")[2]
        if dtype not in _DTYPES:
            self._refuse(f"Larder makes {', '.join(_DTYPES)}, not {dtype}")
        if dtype == "uint8" and not (self._dtype or self._float):
            return
        if self._float or (self._dtype and (self._dtype[0] == "float16" or dtype == "uint8" or not scale)):
            self._refuse("there was a conversion before it: leave one of the two out")
        self._dtype = (dtype, *self._dtype[1:]) if self._dtype else (dtype, scale, scale and _is_v2(transform))

    def _write_dtype(self):
        if self._dtype:
            self._steps.append(transforms.ToDtype(*self._dtype if self._dtype[2] else self._dtype[:2]))
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
        if name == "RandomCrop" and key == "padding" and _is_v2(transform) and _length(value) == 4:
            left, right, top, bottom = value  # how v2 keeps it; in all other places it is left, top, right, bottom
            return [left, top, right, bottom]
        if name == "RandomErasing" and key == "value" and value is None:
            return "random"
        if _length(value) == 1:  # torchvision means the number by a list of one
            return value[0]
        return value


def _name(transform):
    """The class's, by which it is known; of timm's own classes "timm." and theirs, but for those that are
    torchvision's."""
    kind = _class(type(transform))
    name = kind.__name__
    if kind.__module__.partition(".")[0] != "timm":
        return name
    return _timm.NAMES.get(name, "timm." + name)


def _is_v2(transform):
    return ".v2" in _class(type(transform)).__module__


def _class(kind):
    """The library's class that a script's own only gives arguments to; else the class itself."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in ("torchvision", "timm"):
            return base
        if any(name in vars(base) for name in _WORK):
            break
    return kind


def _why_views(transform):
    """What to say of an object that has lists of its own; None: it has none."""
    lists = [name for name, part in getattr(transform, "__dict__", {}).items() if type(part).__name__ in _LISTS]
    given = ", ".join(f"it.{name}" for name in lists)
    return lists and (f"it has lists of its own ({', '.join(lists)}): if it gives a view of the image by each, give "
                      f"Loader(…, views=[{given}]), and larder.View(list, count) for one that it calls several times")


def _label(transform):
    return getattr(transform, "__name__", type(transform).__name__)


def _attributes(transform, kind):
    return {key: getattr(transform, key) for key in getattr(transforms, kind).parameters if hasattr(transform, key)}


def _several(value):
    return value if isinstance(value, (list, tuple)) else [value]


def _length(value):
    return len(value) if isinstance(value, (list, tuple)) else 0


def _is_zero(fill):
    return fill is None or fill == 0 or (not isinstance(fill, (numbers.Number, str, dict)) and not any(fill))
