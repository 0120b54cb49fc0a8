"""What torchvision.transforms.v2 does with what an operator has drawn, to images, masks, boxes and points alike, and
the encoded samples that both get. Ends a test whose Python has no such torchvision."""

import struct
import sys

SKIPPED = 77
try:
    import numpy as np
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F
except ImportError as reason:
    print(f"skipped: {reason}; it needs torchvision 0.20 or newer (pip install torchvision)")
    sys.exit(SKIPPED)

SIZES = [(96, 72), (61, 83), (40, 40), (47, 131)]


# ── samples ──

def sample(**parts):
    """The encoded bytes of a sample that has these parts (common/sample_parts.h)."""
    head = b"\x93LRDPRT\n" + struct.pack("<II", len(parts), 0)
    head += b"".join(struct.pack("<24sQ", name.encode(), len(data)) for name, data in parts.items())
    return head + b"".join(parts.values())


def rows(numbers):
    """The encoded bytes of rows of numbers (common/sample_rows.h)."""
    return struct.pack("<II", *numbers.shape) + numbers.astype("<f8").tobytes()


# ── what becomes of a part ──

def crop(part, plan):
    return F.crop(part, plan.y, plan.x, plan.out_height, plan.out_width)


def resize(part, plan):
    return F.resize(part, [plan.out_height, plan.out_width])


def resized_crop(part, plan, filter=F.InterpolationMode.BILINEAR):
    """Masks are resized by nearest, whatever the filter."""
    return F.resized_crop(part, plan.y, plan.x, plan.height, plan.width, [plan.out_height, plan.out_width], filter)


def smaller(part, size, fill=0):
    """As references/segmentation pads before a crop of `size`, (height, width)."""
    height, width = F.get_size(part)
    return F.pad(part, [0, 0, max(0, size[1] - width), max(0, size[0] - height)], fill)


def zoom_out(part, plan, fill=0):
    return F.pad(part, [plan.x, plan.y, plan.out_width - plan.in_width - plan.x,
                        plan.out_height - plan.in_height - plan.y], fill)


def iou_crop(part, plan):
    """As v2.RandomIoUCrop: boxes whose middle is cut off are zeros."""
    out = crop(part, plan)
    if isinstance(part, tv_tensors.BoundingBoxes):
        middle = 0.5 * (part[:, :2] + part[:, 2:])
        low, high = torch.tensor([plan.x, plan.y]), torch.tensor([plan.x + plan.width, plan.y + plan.height])
        out[~((low < middle) & (middle < high)).all(1)] = 0
    return out


def sanitize(boxes, labels, **limits):
    """The boxes that are left, and their labels."""
    kept = v2.SanitizeBoundingBoxes(**limits)({"boxes": boxes, "labels": labels})
    return kept["boxes"], kept["labels"]
