"""Pipeline operators with torchvision's names, arguments and order of arguments.

An operator only remembers what it was given; the daemon knows the defaults, checks the values and does the work. A
pipeline may also hold plain JSON: "random_horizontal_flip", or {"resize": {"size": 256}}.
"""

import enum
import inspect
import json
import numbers
import operator
import re

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


class View:
    """A view of each image among others: a pipeline, which is made `count` times, each time with draws of its own.
    `name` says what the daemon calls it."""

    def __init__(self, pipeline, count=1, name=None):
        self.pipeline, self.count, self.name = pipeline, operator.index(count), name

    def __eq__(self, other):
        return isinstance(other, View) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        more = [f"count={self.count}"] * (self.count != 1) + [f"name={self.name!r}"] * (self.name is not None)
        return f"View({', '.join([repr(self.pipeline), *more])})"


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


# Class name: the daemon's name and the arguments, those that must be given before the "|"; then what it does.
_TABLE = {
    # operators begin: table (tests/lint/operators --fix writes these lines from preprocess/ops/)
    "Resize": ("resize: size | interpolation max_size antialias dct_scaling",
               "Resizes to `[height, width]`, or the shorter edge to a number. Then `max_size` limits the longer edge"
               " (0: no limit)."),
    "ScaleJitter": ("scale_jitter: target_size | scale_range interpolation antialias",
                    "Resizes so that the image just fits into `target_size`, times a random factor. A crop follows."),
    "RandomShortestSize": ("random_shortest_size: min_size | max_size interpolation antialias",
                           "Resizes the shorter edge to `min_size`, or the longer one to `max_size` if that is less "
                           "(0: no limit). `RandomChoice` of several is torchvision's list of sizes."),
    "RandomResize": ("random_resize: min_size max_size | interpolation antialias",
                     "Resizes the shorter edge to a random size from `min_size` to `max_size`. A crop follows."),
    "ResizeKeepRatio": ("resize_keep_ratio: size | longest interpolation random_scale_prob random_scale_range "
                        "random_scale_area random_aspect_prob random_aspect_range",
                        "timm's: resizes so that the image covers `size` (with `longest=1`: lies within it). A crop "
                        "follows."),
    "CenterCrop": ("center_crop: size", "Cuts out the middle. A smaller image is padded with black."),
    "CornerCrop": ("corner_crop: size | corner",
                   "Cuts out a `corner` (`top_left`, `top_right`, `bottom_left`, `bottom_right`), as one of "
                   "torchvision's `FiveCrop`."),
    "CenterCropOrPad": ("center_crop_or_pad: size | fill padding_mode",
                        "timm's: cuts out the middle. A smaller image is padded with `fill`."),
    "RandomCrop": ("random_crop: size | padding pad_if_needed fill padding_mode",
                   "Cuts out a piece of that size at a random place."),
    "RandomCropOrPad": ("random_crop_or_pad: size | fill padding_mode",
                        "timm's: cuts out a piece at a random place. A smaller image is put at a random place, and "
                        "padded."),
    "RandomResizedCrop": ("random_resized_crop: size | scale ratio interpolation antialias dct_scaling",
                          "Cuts out a piece of random area and shape, and resizes it."),
    "ExactSize": ("exact_size: size",
                  "Leaves an image of that size as it is. An image of another size is a bad sample."),
    "RandomHorizontalFlip": ("random_horizontal_flip: | p", "Exchanges left and right, with probability `p`."),
    "RandomVerticalFlip": ("random_vertical_flip: | p", "Exchanges top and bottom, with probability `p`."),
    "Pad": ("pad: padding | fill padding_mode", "Adds a border: one width, `[x, y]`, or `[left, top, right, bottom]`."),
    "RandomZoomOut": ("random_zoom_out: | fill side_range p",
                      "Puts the image at a random place of a canvas of `side_range` times its size, with probability "
                      "`p`. A crop or a resize to `[height, width]` follows."),
    "RandomRotation": ("random_rotation: degrees | interpolation expand center fill",
                       "Turns by a random angle of up to `degrees` to either side."),
    "RandomAffine": ("random_affine: degrees | translate scale shear interpolation fill center",
                     "Turns by up to `degrees`, moves by up to the shares `translate` of width and height, scales and"
                     " shears (in degrees; two numbers: along x; four: along x and y)."),
    "RandomPerspective": ("random_perspective: | distortion_scale p interpolation fill",
                          "Moves each corner inwards by up to `distortion_scale` of half a side, with probability "
                          "`p`."),
    "ElasticTransform": ("elastic_transform: | alpha sigma interpolation fill",
                         "Moves each pixel a little, and neighbours alike: `alpha` says how far, `sigma` over how "
                         "many pixels alike. A number each, or `[x, y]`."),
    "ColorJitter": ("color_jitter: | brightness contrast saturation hue",
                    "Changes brightness, contrast, saturation and hue at random, in random order."),
    "RandomPhotometricDistort": ("random_photometric_distort: | brightness contrast saturation hue p",
                                 "Changes brightness, contrast, saturation, hue and the order of the channels, each "
                                 "with probability `p`."),
    "RandomChannelPermutation": ("random_channel_permutation:", "Puts the channels into random order."),
    "Grayscale": ("grayscale: | num_output_channels", "Makes the image grey, in 1 or 3 channels."),
    "RandomGrayscale": ("random_grayscale: | p", "Makes the image grey, in 3 channels, with probability `p`."),
    "GaussianBlur": ("gaussian_blur: kernel_size | sigma", "Blurs with a Gaussian of random `sigma`."),
    "PilGaussianBlur": ("pil_gaussian_blur: | radius p",
                        "Blurs as Pillow's `GaussianBlur` does, with a random `radius`, with probability `p`."),
    "RandomAdjustSharpness": ("random_adjust_sharpness: sharpness_factor | p",
                              "Blurs (a factor below 1) or sharpens, with probability `p`."),
    "RandomInvert": ("random_invert: | p", "Inverts all levels, with probability `p`."),
    "RandomSolarize": ("random_solarize: threshold | p",
                       "Inverts the levels from `threshold` on, with probability `p`."),
    "RandomPosterize": ("random_posterize: bits | p",
                        "Keeps the upper `bits` bits of each level, with probability `p`."),
    "RandomEqualize": ("random_equalize: | p", "Spreads each channel's levels evenly, with probability `p`."),
    "RandomAutocontrast": ("autocontrast: | p", "Stretches each channel over all levels, with probability `p`."),
    "RandomErasing": ("random_erasing: | p scale ratio value inplace",
                      "Overwrites a random rectangle, with probability `p`. `value` may be `\"random\"` after "
                      "`to_dtype`."),
    "TimmRandomErasing": ("timm_random_erasing: | p scale ratio mode min_count max_count",
                          "timm's RandomErasing: overwrites `min_count` to `max_count` random rectangles, with 0 "
                          "(`const`), a random colour (`rand`) or noise (`pixel`; both after `to_dtype`), with "
                          "probability `p`."),
    "AutoAugment": ("auto_augment: | policy interpolation fill",
                    "Makes two changes in a row, by a `policy` that was found by search: `imagenet`, `cifar10` or "
                    "`svhn`."),
    "TrivialAugmentWide": ("trivial_augment_wide: | num_magnitude_bins interpolation fill",
                           "Makes one random change of random strength."),
    "RandAugment": ("rand_augment: | num_ops magnitude num_magnitude_bins interpolation fill",
                    "Makes `num_ops` random changes of one strength."),
    "AugMix": ("aug_mix: | severity mixture_width chain_depth alpha all_ops interpolation fill",
               "Mixes `mixture_width` chains of random changes with each other and with the image."),
    "TimmAutoAugment": ("timm_auto_augment: | policy mstd mmax translate_pct interpolation fill",
                        "timm's AutoAugment, by a `policy`: `v0`, `v0r`, `original`, `originalr`, or `3a`, which is "
                        "3-Augment."),
    "TimmRandAugment": ("timm_rand_augment: | num_ops magnitude prob transforms mstd mmax translate_pct interpolation "
                        "fill",
                        "timm's RandAugment: `num_ops` random changes of a set (`standard`, `increasing`, `3a`, "
                        "`weights`, `3aw`), each with probability `prob`, of a strength about `magnitude`."),
    "TimmAugMix": ("timm_aug_mix: | magnitude width depth alpha mstd mmax translate_pct interpolation fill",
                   "timm's AugMix: `width` chains of `depth` random changes (-1: one to three), of a strength about "
                   "`magnitude`."),
    "ToDtype": ("to_dtype: dtype | scale reciprocal",
                "Converts to `uint8`, `float16` or `float32`. With `scale`, 0 … 255 becomes 0 … 1: divided by 255, as"
                " by `ToTensor`, or with `reciprocal` times 1/255, as by `v2.ToDtype`."),
    "Normalize": ("normalize: mean std | inplace",
                  "Computes `(x - mean) / std` by channel. It stands after `to_dtype`."),
    "Layout": ("layout: layout", "Orders a sample's numbers as `HWC` (as they are without it) or as `CHW`."),
    "Array": ("array: dtype shape",
              "Gives samples that are arrays of that type and shape as they are: their bare numbers, little-endian, "
              "the last axis first, or a `.npy` file. What has another length, type or shape is a bad sample."),
    "RandomGain": ("random_gain: | min_db max_db p",
                   "With probability `p` makes a sound louder or softer, by decibels drawn uniformly."),
    "RandomSegment": ("random_segment: | seconds frames pad",
                      "Takes a piece of a sound at a random place, and decodes nothing else. Its length is in "
                      "seconds, or in frames of the result. A clip that is shorter gets zeros at its end; without "
                      "`pad` it is a bad sample."),
    "Resample": ("resample: rate",
                 "Gives a sound that rate, in frames a second (libsoxr, its high quality). A clip that has it stays "
                 "as it is."),
    "Segment": ("segment: | seconds frames place pad",
                "Takes the piece of a sound at its start, or in its middle, as `random_segment` does."),
    "ToInt16": ("to_int16:", "Gives a sound as `int16`, −32768 … 32767, instead of `float32`, −1 … 1."),
    "ToMono": ("to_mono:", "Makes one channel of a sound, the mean of all."),
    "ToStereo": ("to_stereo:",
                 "Makes two channels of a sound: a single one twice. A clip with more than two is a bad sample."),
    "ClampBoundingBoxes": ("clamp_bounding_boxes:", "Cuts boxes off at the edges of the image."),
    "RandomIoUCrop": ("random_iou_crop: | min_scale max_scale min_aspect_ratio max_aspect_ratio trials",
                      "Cuts out a piece that has the middle of a box, and a box in a drawn part, as SSD does; or "
                      "leaves the image. Boxes whose middle is cut off become empty: `SanitizeBoundingBoxes` drops "
                      "them. A crop or a resize to `[height, width]` follows."),
    "SanitizeBoundingBoxes": ("sanitize_bounding_boxes: | min_size min_area",
                              "Drops boxes that have a side below `min_size` or an area below `min_area`, or that "
                              "reach beyond the image, and their labels."),
    "PadIfSmaller": ("pad_if_smaller: size | fill",
                     "Pads an image on the right and below, where it is smaller than `size`: as torchvision's "
                     "references do before a crop of images with masks."),
    # operators end
    "RandomApply": ("random_apply: transforms | p", "Does a list of operators with probability `p`, and else nothing."),
    "RandomChoice": ("random_choice: transforms | p",
                     "Does one of several operators or lists of operators (`[]`: nothing). `p` has their weights."),
}


def _operator(label, row, text):
    name, arguments = row.split(":")
    required, _, optional = arguments.partition("|")
    parameters = tuple((required + " " + optional).split())
    signature = inspect.Signature([
        inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          default=inspect.Parameter.empty if parameter in required.split() else None)
        for parameter in parameters])  # None: the daemon's default, which is torchvision's
    body = {"name": name, "required": tuple(required.split()), "parameters": parameters, "__module__": __name__,
            "__signature__": signature, "__doc__": text}
    return type(label, (Operator,), body)


globals().update({label: _operator(label, *row) for label, row in _TABLE.items()})
__all__ = ["Operator", "View", *_TABLE]


def to_json(pipeline):
    """The text that goes to the daemon: of a list of operators and plain JSON, of one of them, of an object with views,
    or of JSON text; "" for None."""
    if pipeline is None:
        return ""
    if isinstance(pipeline, str) and pipeline.lstrip().startswith(("[", "{")):
        return pipeline
    if isinstance(pipeline, dict) and "views" in pipeline:
        return json.dumps(pipeline)
    if isinstance(pipeline, (Operator, str, dict)) or not hasattr(pipeline, "__iter__"):
        pipeline = [pipeline]
    return json.dumps([_step(position, step) for position, step in enumerate(pipeline)])


def in_python(text):
    """An error's text of the daemon, with the operators that it suggests as Python has them, not as JSON."""
    labels = {row.split(":")[0]: label for label, (row, _) in _TABLE.items()}

    def call(found):
        if found[1] not in labels:
            return found[0]
        kind, arguments = globals()[labels[found[1]]], json.loads(found[2])
        said = [repr(arguments.pop(name)) for name in kind.required if name in arguments]
        return f"larder.{labels[found[1]]}({', '.join(said + [f'{k}={v!r}' for k, v in arguments.items()])})"

    return re.sub(r'\{"(\w+)": (\{[^{}]*\})\}', call, text)


def _step(position, step):
    if isinstance(step, Operator):
        return step.spec
    if isinstance(step, (str, dict)):
        return step
    if isinstance(step, type) and issubclass(step, Operator):
        raise InvalidArgument(f"pipeline[{position}] is the class {step.__name__}: call it, with its arguments")
    if isinstance(step, (list, tuple)):
        raise InvalidArgument(f"pipeline[{position}] is a list: of several lists for one image, views of it are made: "
                              "Loader(…, views=[list, list])")
    if callable(step) and "torchvision" not in type(step).__module__:
        name = getattr(step, "__name__", type(step).__name__)
        raise InvalidArgument(f"pipeline[{position}] is {name}, a function of the script's own, which the daemon "
                              "cannot call: give it as Loader(…, transform=…), or have pipeline, rest = "
                              "larder.split(transform) cut a Compose in front of it, and give transform=rest")
    hint = ": larder.from_torchvision makes a pipeline of torchvision's transforms" \
        if "torchvision" in type(step).__module__ else ", not an operator of larder, a name or a dict"
    raise InvalidArgument(f"pipeline[{position}] is a {type(step).__module__}.{type(step).__name__}{hint}")
