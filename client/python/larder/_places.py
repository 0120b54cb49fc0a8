"""What the readers of containers for larder.index share."""

import importlib
import mmap
import os
from collections import namedtuple
from contextlib import contextmanager

from .errors import InvalidArgument

IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")

# Where a sample lies: raw is the shape of an image that is pixels, key its name in the file. None: it has none. Without
# an offset it is the whole file; text and frames are a clip's.
Place = namedtuple("Place", "path offset bytes crc32 raw key label class_ text frames", defaults=(None,) * 9)


class Refused(Exception):
    """A container whose images do not lie whole in its files: why, and what else than packing would do."""

    def __init__(self, why, instead=""):
        super().__init__(why)
        self.instead = instead


class Fail(Exception):
    """A damaged file. The text names it."""


def library(name, package=None):
    """A library that only some containers need."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidArgument(f"this container is read with {name.partition('.')[0]}, which is not installed: "
                              f"pip install {package or name.partition('.')[0]}") from None


@contextmanager
def mapped(path):
    """The bytes of a file."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def first_bytes(path, count=16):
    """The first bytes of a file; of anything else b""."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(count)


def is_image(data):
    """Whether bytes begin as an image that Larder decodes does."""
    start = bytes(data[:12])
    return (start[:3] == b"\xff\xd8\xff" or start[:8] == b"\x89PNG\r\n\x1a\n" or start[:2] == b"BM"
            or (start[:4] == b"RIFF" and start[8:12] == b"WEBP") or start[:4] in (b"II*\0", b"MM\0*", b"GIF8")
            or (start[:2] in (b"P4", b"P5", b"P6") and start[2:3].isspace()))


def chosen(path, what, asked, names, usual):
    """Of the names of columns, or the like, the one that is asked for or usual; None: none is usual."""
    if asked is not None:
        if asked not in names:
            raise InvalidArgument(f"{path} has no {what} {asked!r}: there are {', '.join(map(repr, names))}")
        return asked
    return next((name for name in usual if name in names), None)


IMAGE_NAMES = ("image/encoded", "image", "images", "img", "jpg", "jpeg", "png", "webp", "x", "X", "data", "pixels",
               "image_raw")
LABEL_NAMES = ("image/class/label", "label", "labels", "class", "cls", "y", "Y", "target", "targets")


def shape_text(path, shape):
    """How a list says the shape of pixels, of (H, W), (H, W, C) or (C, H, W)."""
    if len(shape) == 3 and shape[2] not in (1, 3) and shape[0] not in (1, 3) or len(shape) not in (2, 3):
        raise Refused(f"{path} has arrays of shape {tuple(shape)}, and images have 1 or 3 channels")
    return "x".join(map(str, shape))


def rows_of(path, offset, shape, labels=None, names=None):
    """The places of an array of images, of (N, H, W), (N, H, W, C) or (N, C, H, W), from an offset on."""
    raw, size = shape_text(path, shape[1:]), 1
    for side in shape[1:]:
        size *= side
    if labels is not None and len(labels) != shape[0]:
        raise InvalidArgument(f"{path} has {shape[0]} images and {len(labels)} labels")
    for number in range(shape[0]):
        label = None if labels is None else int(labels[number])
        yield Place(path, offset + number * size, size, raw=raw, key=str(number), label=label,
                    class_=None if names is None else names[label])
