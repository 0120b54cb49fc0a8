"""Proves that boxes, their labels and points become what torchvision.transforms.v2 makes of tv_tensors, with the same
draws.

usage: boxes_parity.py LIBRARY [--draws N]

What an operator draws is asked from the library (its plan) and given to torchvision's functions. Coordinates must be
equal to the last bit, and so must the pixels of crops that boxes choose."""

import argparse
import sys

# First: it ends a test that lacks a library.
from laws import SIZES, crop, iou_crop, resize, resized_crop, rows, sample, sanitize, smaller, zoom_out
import numpy as np
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from pictures import encode, picture
from probe import Probe
from table import Table

MOST = 12
LAST = {"center_crop": {"size": [140, 150]}}  # what all end with, so that samples have one size


def subject(rng, width, height):
    """Boxes and points, most of them within an image, and some that are outside, swapped, empty or fractions."""
    corners = rng.uniform(0, 1, (MOST, 2, 2)) * (width, height)
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
    boxes[1] = boxes[1].round()
    boxes[2] = [-7.5, -3, width + 9, height / 2]
    boxes[3] = boxes[3][[2, 3, 0, 1]]
    boxes[4, 2:] = boxes[4, :2]
    return boxes.astype(np.float32), rng.uniform(-5, max(width, height), (MOST, 3, 2)).astype(np.float32)


def aligned(offset):
    return (offset + 63) // 64 * 64


def made(probe, program, data, key, height, width):
    """What the program makes: the image, boxes, labels and points."""
    out = np.zeros(probe.sample_bytes(program), np.uint8)
    probe.prepare(program, data, key, out)
    counts, fields, offset = out[-24:].view(np.int64), [], 0
    for shape, dtype in (((height, width, 3), np.uint8), ((MOST, 4), np.float32), ((MOST,), np.int64),
                         ((MOST, 3, 2), np.float32)):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        fields.append(out[offset:offset + size].view(dtype).reshape(shape))
        offset = aligned(offset + size)
    return [fields[0], *(field[:count] for field, count in zip(fields[1:], counts))]


def padded_crop(tensor, padding, plan):
    """As v2.RandomCrop with pad_if_needed and a size of 88 x 90: it pads on either side by all that lacks."""
    height, width = F.get_size(tensor)
    left, top = padding
    more_x, more_y = max(0, 90 - width - 2 * left), max(0, 88 - height - 2 * top)
    return crop(F.pad(tensor, [left + more_x, top + more_y] * 2), plan)


def steps():
    """(operator, what torchvision does with what was drawn)."""
    yield {"resize": {"size": [37, 53]}}, resize
    yield {"resize": {"size": 50}}, resize
    yield {"random_resize": {"min_size": 20, "max_size": 99}}, resize
    yield {"random_shortest_size": {"min_size": 60, "max_size": 90}}, resize
    yield {"scale_jitter": {"target_size": [64, 80]}}, resize
    yield {"center_crop": {"size": [30, 37]}}, lambda tensor, plan: F.center_crop(tensor, [30, 37])
    yield {"center_crop": {"size": [133, 140]}}, lambda tensor, plan: F.center_crop(tensor, [133, 140])
    yield {"corner_crop": {"size": 33, "corner": "bottom_right"}}, crop
    yield {"random_crop": {"size": [30, 33]}}, crop
    yield {"random_crop": {"size": [88, 90], "padding": [3, 5], "pad_if_needed": True}}, \
        lambda tensor, plan: padded_crop(tensor, (3, 5), plan)
    yield {"random_resized_crop": {"size": [45, 37], "scale": [0.05, 1]}}, resized_crop
    yield {"random_horizontal_flip": {"p": 0.5}}, lambda tensor, plan: F.horizontal_flip(tensor)
    yield {"random_vertical_flip": {"p": 0.5}}, lambda tensor, plan: F.vertical_flip(tensor)
    yield {"pad": {"padding": [3, 5, 7, 2]}}, lambda tensor, plan: F.pad(tensor, [3, 5, 7, 2])
    yield {"pad_if_smaller": {"size": [90, 99]}}, lambda tensor, plan: smaller(tensor, (90, 99))
    yield {"random_zoom_out": {"p": 0.7}}, zoom_out
    yield {"random_iou_crop": {}}, iou_crop
    yield {"clamp_bounding_boxes": {}}, lambda tensor, plan: v2.ClampBoundingBoxes()(tensor)
    for name in ("random_photometric_distort", "random_grayscale"):
        yield {name: {}}, lambda tensor, plan: tensor


def equal(table, name, ours, theirs, case):
    """One row more, so that none is a row too."""
    ours, theirs = (np.concatenate([np.zeros((1, *array.shape[1:])), array]) for array in (ours, np.asarray(theirs)))
    table.compare(name, 0, ours, theirs, case)


MOVES_PIXELS_EXACTLY = ("random_iou_crop", "random_zoom_out", "center_crop", "random_crop", "corner_crop", "pad",
                        "pad_if_smaller")


def check(probe, table, chain, laws, size, number, draw):
    """Proves: a chain of operators does what torchvision's functions do, one after the other, and what it drops it
    drops with the labels."""
    width, height = size
    rng = np.random.default_rng(1000 * number + draw)
    boxes, points = subject(rng, width, height)
    labels = np.arange(MOST) * 7
    picture_of = picture(width, height, number)
    parts = {"image": {}, "boxes": {"most": MOST}, "labels": {"most": MOST}, "points": {"most": MOST, "width": 6}}
    program = {"parts": parts, "steps": [{"exact_size": {"size": [height, width]}}, *chain, LAST,
                                         {"sanitize_bounding_boxes": {"min_size": 5, "min_area": 60}}]}
    key = (number, draw, 5)
    data = sample(image=encode(picture_of, "PNG"), boxes=rows(boxes), labels=rows(labels[:, None]),
                  points=rows(points.reshape(MOST, 6)))
    canvas = {"canvas_size": (height, width)}
    theirs = [tv_tensors.Image(picture_of), tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", **canvas),
              torch.from_numpy(labels), tv_tensors.KeyPoints(torch.from_numpy(points), **canvas)]
    probe.boxes(boxes)
    for op, law in enumerate(laws, 1):
        plan = probe.plan(program, key, width, height, op=op)
        if not plan.skip or "clamp_bounding_boxes" in chain[op - 1]:  # whose plan has nothing to do with the pixels
            theirs = [theirs[2] if tensor is theirs[2] else law(tensor, plan) for tensor in theirs]
    name = next(iter(chain[0])) if len(chain) == 1 else "chain of 5"
    theirs = [theirs[2] if tensor is theirs[2] else F.center_crop(tensor, [140, 150]) for tensor in theirs]
    theirs[1:3] = sanitize(*theirs[1:3], min_size=5, min_area=60)
    ours = made(probe, program, data, key, *theirs[0].shape[1:])
    for what, mine, other in zip(("boxes", "labels", "points"), ours[1:], theirs[1:]):
        equal(table, f"{name}, {what}", mine, other, f"{width}x{height} {draw}")
    if name in MOVES_PIXELS_EXACTLY:
        equal(table, f"{name}, image", ours[0], theirs[0].permute(1, 2, 0), f"{width}x{height} {draw}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("library")
    arguments.add_argument("--draws", type=int, default=4)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    probe, table = Probe(asked.library), Table()
    every = list(steps())
    rng = np.random.default_rng(3)
    for number, size in enumerate(SIZES):
        for step, law in every:
            if "corner_crop" not in step or min(size) >= 33:
                for draw in range(asked.draws if "random" in next(iter(step)) else 1):
                    check(probe, table, [step], [law], size, number, draw)
        for draw in range(4 * asked.draws):
            free = [every[place] for place in rng.choice([0, 3, 4, 11, 12, 13, 14, 15, 16], 4, replace=False)]
            chosen = [*free, every[0]]
            check(probe, table, [step for step, _ in chosen], [law for _, law in chosen], size, number, draw)
    table.show(False)
    for failure in table.failures[:20]:
        print("FAILED", failure)
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
