"""Classes that scripts write for a list of transforms, as DeiT III, DINO and MoCo do: Pillow's blur, solarize and grey
by chance, and the padding of references/segmentation. They are known by what they do: each is tried on images, with
draws of Python's `random` that are known beforehand, and must give with each of them what Larder's operator gives."""

import copy
import random

from . import transforms

_DRAWS = 24
_LIBRARIES = ("torchvision", "timm", "torch", "larder")
_CHANCES, _RANGES = ("p", "prob"), (("radius_min", "radius_max"), ("sigma",))
_SIGNS = (*_CHANCES, *(name for names in _RANGES for name in names), "size")  # what has none of these is not tried
_LEAST = 8  # what is padded to less than that is not tried


def operator(transform):
    """The operator that does the same; None: there is none."""
    kind = type(transform)
    if kind.__module__.partition(".")[0] in _LIBRARIES or not callable(transform) or \
            not any(name in getattr(transform, "__dict__", ()) for name in _SIGNS):
        return None
    p = next((getattr(transform, name) for name in _CHANCES if hasattr(transform, name)), 1.0)
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        return None
    candidates = [transforms.RandomSolarize(128, p), transforms.RandomGrayscale(p)]
    ends = _ends(transform)
    if ends:
        candidates.append(transforms.PilGaussianBlur(ends, p))
    if type(getattr(transform, "size", None)) is int and transform.size >= _LEAST:
        candidates = [transforms.PadIfSmaller(transform.size)]
    try:
        from PIL import Image, ImageFilter, ImageOps
    except ImportError:
        return None
    before = random.getstate()
    try:
        return next((step for step in candidates if _does(transform, step, (Image, ImageFilter, ImageOps))), None)
    finally:
        random.setstate(before)


def _ends(transform):
    """The least and the largest radius; None: it has none."""
    for names in _RANGES:
        if all(hasattr(transform, name) for name in names):
            ends = [getattr(transform, name) for name in names]
            ends = list(ends[0]) if len(ends) == 1 and isinstance(ends[0], (list, tuple)) else ends
            fits = len(ends) == 2 and all(isinstance(end, (int, float)) for end in ends)
            return [float(end) for end in ends] if fits and 0 <= ends[0] <= ends[1] else None
    return None


def _does(transform, step, pillow):
    for draw in range(_DRAWS):
        random.seed(draw)
        drawn = random.getstate()
        image = _image(step, draw, pillow[0])
        try:
            wanted = _expected(transform, step, image, pillow)
            random.setstate(drawn)
            given = copy.copy(transform)(image.copy())
            if given.mode != wanted.mode or given.size != wanted.size or given.tobytes() != wanted.tobytes():
                return False
        except Exception:  # whatever a script's own class raises
            return False
    return True


def _image(step, draw, kind):
    """One in RGB; in front of a padding some are smaller."""
    size = step.arguments.get("size")
    width, height = (size - 7 + 5 * (draw % 3), size - 6 + 4 * (draw // 3 % 3)) if size else (40 + draw, 33)
    bands = [kind.linear_gradient("L").rotate(angle + 9 * draw).resize((width, height)) for angle in (0, 90, 200)]
    return kind.merge("RGB", bands)


def _expected(transform, step, image, pillow):
    """What the operator makes of it with the next draws of `random`: whether at all, and then how much."""
    kind, filters, ops = pillow
    if step.name == "pad_if_smaller":
        size = step.arguments["size"]
        padded = kind.new("RGB", (max(size, image.width), max(size, image.height)))
        padded.paste(image, (0, 0))
        return padded
    by_chance = any(hasattr(transform, name) for name in _CHANCES)
    if by_chance and random.random() >= step.arguments["p"]:
        return image
    if step.name == "random_solarize":
        return ops.solarize(image)
    if step.name == "random_grayscale":
        return image.convert("L").convert("RGB")
    return image.filter(filters.GaussianBlur(random.uniform(*step.arguments["radius"])))
