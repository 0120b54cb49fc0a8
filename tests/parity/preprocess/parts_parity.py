"""Proves that the parts of a sample become what torchvision.transforms.v2 makes of tv_tensors, with the same draws.

usage: parts_parity.py LIBRARY [--draws N]

What an operator draws is asked from the library (its plan) and given to torchvision's functions. Masks must be equal to
the last number, and images what they are without a mask."""

import argparse
import sys

from laws import SIZES, crop, resized_crop, sample, smaller  # first: it ends a test that lacks a library
import numpy as np
import PIL.Image
import torch
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from pictures import encode, picture
from probe import Bad, Probe
from table import Table

DTYPES = {"uint8": np.uint8, "int32": np.int32, "int64": np.int64}
FILL = 250


def grey(numbers):
    return encode(PIL.Image.fromarray(numbers), "PNG")


def with_palette(numbers):
    image = PIL.Image.fromarray(numbers)
    image.putpalette([255 - i // 3 for i in range(768)])
    return encode(image, "PNG")


def few_bits(numbers, most):
    """A palette of so few colors that a byte has several pixels."""
    image = PIL.Image.fromarray(numbers % most)
    image.putpalette(list(range(3 * most)))
    return encode(image, "PNG", bits=2)


def subjects():
    """(name, image, mask's numbers, mask's bytes)."""
    rng = np.random.default_rng(7)
    for width, height in SIZES:
        numbers = rng.integers(0, 256, (height, width), dtype=np.uint8)
        image = picture(width, height, width)
        yield f"grey {width}x{height}", image, numbers, grey(numbers)
        yield f"palette {width}x{height}", image, numbers, with_palette(numbers)
        yield f"4 colors {width}x{height}", image, numbers % 4, few_bits(numbers, 4)
        wide = rng.integers(0, 65536, (height, width), dtype=np.uint16)
        yield f"16 bits {width}x{height}", image, wide, grey(wide)
    one = (rng.integers(0, 2, (50, 70)) * 255).astype(np.uint8)
    yield "1 bit", picture(70, 50, 3), one // 255, encode(PIL.Image.fromarray(one).convert("1"), "PNG")


def nearest(size):
    return lambda mask, plan: F.resize(mask, size, InterpolationMode.NEAREST)


def steps():
    """(name, operator, what torchvision does to a mask with what was drawn)."""
    yield "resize", {"resize": {"size": [37, 53]}}, nearest([37, 53])
    yield "resize, larger", {"resize": {"size": [199, 140]}}, nearest([199, 140])
    yield "resize, its filter", {"resize": {"size": [64, 30], "interpolation": "bicubic"}}, nearest([64, 30])
    yield "random_resize", {"random_resize": {"min_size": 20, "max_size": 99}}, \
        lambda mask, plan: F.center_crop(F.resize(mask, [int(plan.real[0])], InterpolationMode.NEAREST), [30, 36])
    yield "center_crop", {"center_crop": {"size": [30, 36]}}, lambda mask, plan: F.center_crop(mask, [30, 36])
    yield "center_crop, larger", {"center_crop": {"size": [90, 99]}}, lambda mask, plan: F.center_crop(mask, [90, 99])
    yield "random_resized_crop", {"random_resized_crop": {"size": [45, 37], "scale": [0.05, 1]}}, resized_crop
    yield "random_crop", {"random_crop": {"size": [30, 33]}}, crop
    yield "random_horizontal_flip", {"random_horizontal_flip": {"p": 0.5}}, lambda mask, plan: F.horizontal_flip(mask)
    yield "random_vertical_flip", {"random_vertical_flip": {"p": 0.5}}, lambda mask, plan: F.vertical_flip(mask)
    for mode in ("constant", "edge", "reflect", "symmetric"):
        yield f"pad, {mode}", {"pad": {"padding": [3, 5, 7, 2], "padding_mode": mode, "fill": 9}}, \
            lambda mask, plan, mode=mode: F.pad(mask, [3, 5, 7, 2], 9, mode)
        yield f"random_crop, {mode}", {"random_crop": {"size": [40, 38], "padding": [5, 3], "padding_mode": mode}}, \
            lambda mask, plan, mode=mode: crop(F.pad(mask, [5, 3], 0, mode), plan)
    yield "pad_if_smaller", {"pad_if_smaller": {"size": [90, 99], "fill": 9}}, \
        lambda mask, plan: smaller(mask, (90, 99), 9)
    for name, step in (("color_jitter", {"color_jitter": {"brightness": 0.5, "contrast": 0.5, "hue": 0.2}}),
                       ("gaussian_blur", {"gaussian_blur": {"kernel_size": 5}}),
                       ("random_erasing", {"random_erasing": {"p": 1, "value": 7}}),
                       ("random_solarize", {"random_solarize": {"threshold": 100, "p": 1}}),
                       ("grayscale", {"grayscale": {"num_output_channels": 3}})):
        yield name, step, lambda mask, plan: mask
    yield "normalize", {"normalize": {"mean": [0.5] * 3, "std": [0.25] * 3}}, lambda mask, plan: mask


def expected(numbers, function, plan):
    mask = tv_tensors.Mask(torch.from_numpy(numbers.astype(np.int32)))
    return (mask if plan.skip else function(mask, plan)).numpy()


def fields(probe, program, data, key, dims, dtype):
    """The image and the mask that a program makes, whose mask has these dims."""
    out = np.zeros(probe.sample_bytes(program), np.uint8)
    probe.prepare(program, data, key, out)
    count = int(np.prod(dims)) * np.dtype(dtype).itemsize
    return out[:-count], out[-count:].view(dtype).reshape(dims)


def each_operator(probe, table, draws):
    """Proves: each operator moves a mask as torchvision does, and makes of the image what it makes without one."""
    for number, (kind, image, numbers, data) in enumerate(subjects()):
        dtype = ("int64", "int32")[number % 2] if numbers.max() > 255 else tuple(DTYPES)[number % 3]
        whole = sample(image=encode(image, "PNG"), mask=data)
        for name, step, function in steps():
            if name.startswith("random_crop") and min(image.size) < 45 or "normalize" in step and number:
                continue
            after = [{"center_crop": {"size": [30, 36]}}] if name == "random_resize" else []
            before = [{"exact_size": {"size": [image.height, image.width]}}]
            before += [{"to_dtype": {"dtype": "float32", "scale": True}}] if "normalize" in step else []
            program = {"parts": {"image": {"kind": "image"}, "mask": {"kind": "mask", "dtype": dtype}},
                       "steps": [*before, step, *after]}
            for draw in range(draws if "random" in name else 1):
                key = (sum(name.encode()), number, draw)
                plan = probe.plan(program["steps"], key, *image.size, op=len(before))
                theirs = expected(numbers, function, plan)
                pixels, ours = fields(probe, program, whole, key, theirs.shape, DTYPES[dtype])
                table.compare(name, 0, ours, theirs, f"{kind} {draw}")
                alone = probe.prepare(program["steps"], whole, key)
                rest = pixels[:alone.nbytes].view(alone.dtype).reshape(alone.shape)
                table.compare(f"{name}, its image", 0, rest, alone, f"{kind} {draw}")


def chains(probe, table, draws):
    """Proves: operators one after the other do what torchvision's functions do, one after the other, and a mask's own
    fill stands where the image has no pixel."""
    for number, (kind, image, numbers, data) in enumerate(subjects()):
        whole = sample(mask=data, image=encode(image, "PNG"))  # in whatever order
        chain = [{"random_resized_crop": {"size": [50, 64], "scale": [0.1, 1]}}, {"color_jitter": {"hue": 0.1}},
                 {"random_horizontal_flip": {"p": 0.5}}, {"resize": {"size": [81, 70]}},
                 {"random_crop": {"size": [88, 60], "padding": 6}}]
        for draw in range(draws):
            key = (3, number, draw)
            first, flip, last = (probe.plan(chain, key, *image.size, op=op) for op in (0, 2, 4))
            mask = tv_tensors.Mask(torch.from_numpy(numbers.astype(np.int32)))
            mask = resized_crop(mask, first)
            mask = F.horizontal_flip(mask) if not flip.skip else mask
            mask = F.resize(mask, [81, 70], InterpolationMode.NEAREST)
            mask = crop(F.pad(mask, [6], FILL), last)
            program = {"parts": {"image": {}, "mask": {"fill": FILL, "dtype": "int32"}}, "steps": chain}
            _, ours = fields(probe, program, whole, key, (88, 60), np.int32)
            table.compare("chain of 5", 0, ours, mask.numpy(), f"{kind} {draw}")


def references(probe, table, draws):
    """Proves: the crop of references/segmentation, behind its padding, with the mask's own fill."""
    for number, (kind, image, numbers, data) in enumerate(subjects()):
        whole = sample(mask=data, image=encode(image, "PNG"))
        chain = [{"random_horizontal_flip": {"p": 0.5}}, {"pad_if_smaller": {"size": [90, 99]}},
                 {"random_crop": {"size": [90, 99]}}]
        for draw in range(draws):
            key = (4, number, draw)
            flip, last = (probe.plan(chain, key, *image.size, op=op) for op in (0, 2))
            mask = tv_tensors.Mask(torch.from_numpy(numbers.astype(np.int32)))
            picture = np.array(image.convert("RGB")).transpose(2, 0, 1)
            picture = tv_tensors.Image(torch.from_numpy(np.ascontiguousarray(picture)))
            theirs = [crop(smaller(part if flip.skip else F.horizontal_flip(part), (90, 99), fill), last).numpy()
                      for part, fill in ((picture, 0), (mask, FILL))]
            program = {"parts": {"image": {}, "mask": {"fill": FILL, "dtype": "int32"}}, "steps": chain}
            pixels, ours = fields(probe, program, whole, key, (90, 99), np.int32)
            table.compare("references' crop, its mask", 0, ours, theirs[1], f"{kind} {draw}")
            pixels = pixels[:3 * 90 * 99].reshape(90, 99, 3)
            table.compare("references' crop", 0, pixels, theirs[0].transpose(1, 2, 0), f"{kind} {draw}")


def same_size_law(probe, table):
    """Proves: for every size to every other one, a mask is resized by torch's own places."""
    for count in (7, 31, 64, 123):
        numbers = np.arange(count * 3, dtype=np.uint16).reshape(3, count)
        whole = sample(image=encode(picture(count, 3, 1), "PNG"), mask=grey(numbers))
        for wanted in range(1, 260, 3):
            program = {"parts": {"image": {}, "mask": {"dtype": "int32"}}, "steps": [{"resize": {"size": [2, wanted]}}]}
            mask = tv_tensors.Mask(torch.from_numpy(numbers.astype(np.int32)))
            _, ours = fields(probe, program, whole, (0, 0, 0), (2, wanted), np.int32)
            table.compare("sizes", 0, ours, F.resize(mask, [2, wanted], InterpolationMode.NEAREST).numpy(),
                          f"{count} to {wanted}")


def refusals(probe, table):
    """Proves: what is no mask, or is one of another size, fails with the reason, and costs its sample alone."""
    image = encode(picture(40, 30, 1), "PNG")
    mask = grey(np.zeros((30, 40), np.uint8))
    program = {"parts": {"image": {}, "mask": {}}, "steps": [{"center_crop": {"size": 20}}]}
    for words, data in (("the parts before it 40 × 30", sample(image=image, mask=grey(np.zeros((31, 40), np.uint8)))),
                        ("no part called mask", sample(image=image)), ("no part called image", image),
                        ("pixels are colors", sample(image=image, mask=image)),
                        ("save it as PNG", sample(image=image, mask=encode(picture(40, 30, 1), "JPEG"))),
                        ("dtype \"int32\"", sample(image=image, mask=grey(np.zeros((30, 40), np.uint16)))),
                        ("damaged", sample(image=image, mask=mask)[:-1])):
        try:
            fields(probe, program, data, (0, 0, 0), (20, 20), np.uint8)
            table.failures.append(f"{words}: it was made")
        except Bad as bad:
            if words not in str(bad):
                table.failures.append(f"{words}: it says {bad}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("library")
    arguments.add_argument("--draws", type=int, default=2)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    probe, table = Probe(asked.library), Table()
    each_operator(probe, table, asked.draws)
    references(probe, table, asked.draws)
    chains(probe, table, asked.draws)
    same_size_law(probe, table)
    refusals(probe, table)
    table.show(False)
    for failure in table.failures[:20]:
        print("FAILED", failure)
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
