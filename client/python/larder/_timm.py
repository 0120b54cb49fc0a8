"""timm's own transforms, as from_torchvision knows them: by their classes' names and attributes."""

import math
import zlib

from . import transforms

# Those that are torchvision's; others of its classes have torchvision's names and mean something else.
NAMES = {"MaybeToTensor": "ToTensor", "MaybePILToTensor": "PILToTensor",
         "RandomResizedCropAndInterpolation": "timm.RandomResizedCrop"}
_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_STANDARD = ("AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color",
             "Contrast", "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
_INCREASING = ("AutoContrast", "Equalize", "Invert", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing",
               "SolarizeAdd", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing",
               "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
_THREE = ("SolarizeIncreasing", "Desaturate", "GaussianBlur")
_WEIGHTED = {
    "weights": {"Rotate": 3, "ShearX": 2, "ShearY": 2, "TranslateXRel": 1, "TranslateYRel": 1, "ColorIncreasing": .25,
                "SharpnessIncreasing": .25, "AutoContrast": .25, "SolarizeIncreasing": .05, "SolarizeAdd": .05,
                "ContrastIncreasing": .05, "BrightnessIncreasing": .05, "Equalize": .05, "PosterizeIncreasing": .05,
                "Invert": .05},
    "3aw": {"SolarizeIncreasing": 6, "Desaturate": 6, "GaussianBlur": 6, "Rotate": 3, "ShearX": 2, "ShearY": 2,
            "PosterizeIncreasing": 1, "AutoContrast": 1, "ColorIncreasing": 1, "SharpnessIncreasing": 1,
            "ContrastIncreasing": 1, "BrightnessIncreasing": 1, "Equalize": 1, "Invert": 1},
}
_MIXED = ("AutoContrast", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing",
          "Equalize", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing", "ShearX", "ShearY", "TranslateXRel",
          "TranslateYRel")
# A checksum of each policy's names, probabilities and magnitudes.
_POLICIES = {319180840: "v0", 371364221: "v0r", 2884522850: "original", 342053577: "originalr", 2713091094: "3a"}
_UNIFORM = 101.0  # Larder's mstd for what timm calls infinite


def augmentation(name, transform):
    """The operator that does what timm's RandAugment, AutoAugment or AugMixAugment does; None where there is none."""
    if name == "timm.RandAugment":
        return _rand(transform)
    if name == "timm.AutoAugment":
        return _auto(transform)
    if name == "timm.AugMixAugment":
        return _mix(transform)
    return None


def _common(ops):
    """The arguments that all of these changes have in common; None where they have not, or Larder has not them."""
    found = [_how(op) for op in ops]
    return found[0] if found and found[0] is not None and all(how == found[0] for how in found) else None


def _how(op):
    resample = op.kwargs.get("resample")
    if isinstance(resample, (list, tuple)):
        known = [_FILTERS.get(int(one)) for one in resample] == ["bilinear", "bicubic"]
        interpolation = "random" if known else None
    else:
        interpolation = None if resample is None else _FILTERS.get(int(resample))
    fill = op.kwargs.get("fillcolor")
    if interpolation is None or fill is None:
        return None
    mstd = op.magnitude_std
    return {"mstd": _UNIFORM if math.isinf(mstd) else float(mstd), "mmax": float(op.magnitude_max or 10),
            "translate_pct": float(op.hparams.get("translate_pct", 0.45)), "interpolation": interpolation,
            "fill": list(fill) if isinstance(fill, (list, tuple)) else fill}


def _same(ops):
    """The probability and the magnitude of all; None where they differ."""
    found = {(op.prob, op.magnitude) for op in ops}
    return found.pop() if len(found) == 1 else None


def _set_of(names, weights):
    if weights is None:
        return {_STANDARD: "standard", _INCREASING: "increasing", _THREE: "3a"}.get(names)
    for label, known in _WEIGHTED.items():
        total = sum(known.values())
        if names == tuple(known) and all(abs(weight - part / total) < 1e-9
                                         for weight, part in zip(weights, known.values())):
            return label
    return None


def _rand(transform):
    ops = list(transform.ops)
    how, same = _common(ops), _same(ops)
    chosen = _set_of(tuple(op.name for op in ops), transform.choice_weights)
    if how is None or same is None or chosen is None:
        return None
    return transforms.TimmRandAugment(transform.num_layers, same[1], same[0], chosen, **how)


def _auto(transform):
    how = _common([op for pair in transform.policy for op in pair])
    policy = _POLICIES.get(checksum(transform.policy))
    return None if how is None or policy is None else transforms.TimmAutoAugment(policy, **how)


def _mix(transform):
    ops = list(transform.ops)
    how, same = _common(ops), _same(ops)
    if how is None or same is None or same[0] != 1 or transform.blended or tuple(op.name for op in ops) != _MIXED:
        return None
    return transforms.TimmAugMix(same[1], transform.width, transform.depth, transform.alpha, **how)


def checksum(policy):
    """Of an AutoAugment policy, by which it is known."""
    return zlib.crc32(repr([[(op.name, float(op.prob), float(op.magnitude)) for op in pair]
                            for pair in policy]).encode())
