"""Pipeline operators with torchvision's names, arguments and order of arguments.

An operator only remembers what it was given; the daemon knows the defaults, checks the values and does the work. A
pipeline may also hold plain JSON: "random_horizontal_flip", or {"resize": {"size": 256}}.
"""

import enum
import inspect
import json
import numbers

from .errors import InvalidArgument


class Operator:
    """One step of a pipeline. Subclasses are made by the table below."""

    name = ""       # in the daemon's pipeline language
    parameters = () # in torchvision's order; those without a default come first and are named in `required`
    required = ()

    def __init__(self, *args, **kwargs):
        label = type(self).__name__
        if len(args) > len(self.parameters):
            raise TypeError(f"{label} takes at most {len(self.parameters)} arguments, {len(args)} were given")
        given = dict(zip(self.parameters, args))
        for key, value in kwargs.items():
            if key not in self.parameters:
                raise TypeError(f"{label} has no argument {key!r}; it has: {', '.join(self.parameters) or 'none'}")
            if key in given:
                raise TypeError(f"{label} got {key!r} twice")
            given[key] = value
        missing = [key for key in self.required if key not in given]
        if missing:
            raise TypeError(f"{label} needs the argument {missing[0]!r}")
        self.arguments = {key: _plain(value) for key, value in given.items() if value is not None}

    @property
    def spec(self):
        """As it goes to the daemon."""
        return {self.name: self.arguments}

    def __eq__(self, other):
        return isinstance(other, Operator) and self.spec == other.spec

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


def _plain(value):
    """What JSON can hold: enumerations (InterpolationMode) by value, torch and NumPy types by name, tuples as lists."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Operator):
        return value.spec
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist") and not isinstance(value, type):
        return _plain(value.tolist())
    text = getattr(value, "__name__", str(value))
    return text[len("torch."):] if text.startswith("torch.") else text


# Class name: the daemon's name and the arguments, those that must be given before the "|".
_TABLE = {
    "Resize": "resize: size | interpolation max_size antialias dct_scaling",
    "CenterCrop": "center_crop: size",
    "RandomCrop": "random_crop: size | padding pad_if_needed fill padding_mode",
    "RandomResizedCrop": "random_resized_crop: size | scale ratio interpolation antialias dct_scaling",
    "RandomHorizontalFlip": "random_horizontal_flip: | p",
    "RandomVerticalFlip": "random_vertical_flip: | p",
    "ExactSize": "exact_size: size",
    "Pad": "pad: padding | fill padding_mode",
    "ColorJitter": "color_jitter: | brightness contrast saturation hue",
    "Grayscale": "grayscale: | num_output_channels",
    "RandomGrayscale": "random_grayscale: | p",
    "GaussianBlur": "gaussian_blur: kernel_size | sigma",
    "RandomRotation": "random_rotation: degrees | interpolation expand center fill",
    "RandomErasing": "random_erasing: | p scale ratio value inplace",
    "RandomSolarize": "random_solarize: threshold | p",
    "RandomPosterize": "random_posterize: bits | p",
    "RandomEqualize": "random_equalize: | p",
    "RandomAutocontrast": "autocontrast: | p",
    "TrivialAugmentWide": "trivial_augment_wide: | num_magnitude_bins interpolation fill",
    "RandAugment": "rand_augment: | num_ops magnitude num_magnitude_bins interpolation fill",
    "RandomApply": "random_apply: transforms | p",
    "RandomChoice": "random_choice: transforms | p",
    "ToDtype": "to_dtype: dtype | scale",
    "Normalize": "normalize: mean std | inplace",
    "Layout": "layout: layout",
}

_OWN = ("ExactSize", "Layout")  # torchvision has none of that name


def _operator(label, row):
    name, arguments = row.split(":")
    required, _, optional = arguments.partition("|")
    parameters = tuple((required + " " + optional).split())
    signature = inspect.Signature([
        inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=inspect.Parameter.empty if parameter in required.split() else None)
        for parameter in parameters])  # None: the daemon's default, which is torchvision's
    body = {"name": name, "required": tuple(required.split()), "parameters": parameters, "__module__": __name__,
            "__signature__": signature,
            "__doc__": f"{'Larder' if label in _OWN else 'torchvision'}'s {label}; "
                       f"arguments: {', '.join(parameters) or 'none'}."}
    return type(label, (Operator,), body)


globals().update({label: _operator(label, row) for label, row in _TABLE.items()})
__all__ = ["Operator", *_TABLE]


def to_json(pipeline):
    """The text that goes to the daemon: of a list of operators and plain JSON, of one of them, or of JSON text; "" for
    None."""
    if pipeline is None:
        return ""
    if isinstance(pipeline, str) and pipeline.lstrip().startswith("["):
        return pipeline
    if isinstance(pipeline, (Operator, str, dict)) or not hasattr(pipeline, "__iter__"):
        pipeline = [pipeline]
    return json.dumps([_step(position, step) for position, step in enumerate(pipeline)])


def _step(position, step):
    if isinstance(step, Operator):
        return step.spec
    if isinstance(step, (str, dict)):
        return step
    if isinstance(step, type) and issubclass(step, Operator):
        raise InvalidArgument(f"pipeline[{position}] is the class {step.__name__}: call it, with its arguments")
    hint = ": larder.from_torchvision makes a pipeline of torchvision's transforms" \
        if "torchvision" in type(step).__module__ else ", not an operator of larder, a name or a dict"
    raise InvalidArgument(f"pipeline[{position}] is a {type(step).__module__}.{type(step).__name__}{hint}")
