"""Functions in a list of transforms, and torchvision's Lambda of one. Those are known that do nothing but convert an
image to RGB, as Larder does anyway: they are tried on images of every mode, and must not mention anything that might
have them do something else to another image."""

import functools
import types

# What such a function may mention: of an image, of Pillow, of Python.
_KNOWN = {"convert", "mode", "copy", "load", "getbands", "Image", "PIL", "isinstance", "RGB"}
_DEPTH_MOST = 3  # of functions that call each other


def only_converts(transform):
    """Whether it is a function that gives an image in RGB, whatever its mode, with the pixels that convert("RGB")
    gives."""
    function = _function_of(transform)
    return function is not None and _mentions_only_known(function, _DEPTH_MOST) and _tried(function)


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
