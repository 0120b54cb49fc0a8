"""Functions in a list of transforms, and torchvision's Lambda of one. Those are known that do nothing but convert an
image to RGB, as Larder does anyway: they are tried on images of every mode, and must not mention anything that might
have them do something else to another image."""

import functools
import types

# What such a function may mention: of an image, of Pillow, of Python.
_KNOWN = {"convert", "mode", "copy", "load", "getbands", "Image", "PIL", "isinstance", "RGB"}
_DEPTH_MOST = 3  # of functions that call each other
# What a function may mention that makes a tensor of several images, besides modules of torch and torchvision.
_STACKS = {"stack", "ToTensor", "PILToTensor", "to_tensor", "pil_to_tensor", "functional", "transforms", "v2"}


def only_converts(transform):
    """Whether it is a function that gives an image in RGB, whatever its mode, with the pixels that convert("RGB")
    gives."""
    function = _function_of(transform)
    return function is not None and _mentions_only_known(function, _DEPTH_MOST) and _tried(function)


def stacks(transform, count, size):
    """The dtype of the tensor that a function makes of `count` images of that size, one behind the other: "float32"
    from 0 to 1, or "uint8"; None: it is no function, or may do something else."""
    function = _function_of(transform)
    if function is None or not _mentions_only_stacks(function.__code__, function):
        return None
    try:
        import numpy as np
        from PIL import Image
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        noise = np.random.default_rng(1).integers(0, 256, (count, height, width, 3), np.uint8)
        given = function([Image.fromarray(image) for image in noise]).numpy()
    except Exception:
        return None
    wanted = noise.transpose(0, 3, 1, 2)
    for dtype, levels in (("uint8", wanted), ("float32", wanted.astype(np.float32) / np.float32(255))):
        if given.dtype == dtype and np.array_equal(given, levels):
            return dtype
    return None


def _mentions_only_stacks(code, function):
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    known = all(name in _STACKS or _is_torchs(function.__globals__.get(name)) for name in code.co_names)
    return known and not code.co_freevars and all(_mentions_only_stacks(part, function) for part in inner)


def _is_torchs(value):
    """Whether it is a module of torch or torchvision, or makes a tensor of an image."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in ("torch", "torchvision")
    return type(value).__module__.startswith("torchvision.") and type(value).__name__ in _STACKS


def why_not(transform):
    """What to say of a function that is not known; None: it is none."""
    if _function_of(transform) is None:
        return None
    return "Larder cannot look into a function, and knows only those that convert an image to RGB and do nothing else"


def _function_of(transform):
    """The function, of a Lambda as well; None: it is none."""
    if type(transform).__name__ == "Lambda":
        transform = getattr(transform, "lambd", getattr(transform, "lambda", None))
    while isinstance(transform, functools.partial):
        transform = transform.func if not (transform.args or transform.keywords) else None
    return transform if isinstance(transform, types.FunctionType) else None


def _mentions_only_known(function, depth):
    code = function.__code__
    if depth == 0 or code.co_freevars or any(isinstance(part, types.CodeType) for part in code.co_consts):
        return False
    for name in code.co_names:
        value = function.__globals__.get(name)
        helper = isinstance(value, types.FunctionType) and _mentions_only_known(value, depth - 1)
        if name not in _KNOWN and not helper:
            return False
    return True


def _images():
    """Small images of every mode, with pixels that differ."""
    from PIL import Image
    colours = Image.merge("RGB", [Image.linear_gradient("L").rotate(angle).resize((23, 17)) for angle in (0, 90, 200)])
    alpha = colours.copy()
    alpha.putalpha(colours.getchannel(1))
    return [colours, colours.convert("L"), colours.quantize(9), alpha, alpha.convert("LA"), colours.convert("CMYK"),
            colours.convert("1")]


def _tried(function):
    try:
        images = _images()
    except ImportError:
        return False
    for image in images:
        wanted = image.convert("RGB")
        try:
            given = function(image.copy())
            if given.mode != "RGB" or given.size != wanted.size or given.tobytes() != wanted.tobytes():
                return False
        except Exception:
            return False
    return True
