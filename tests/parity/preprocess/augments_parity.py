"""Proves that the operators of automatic augmentation, and those that move, blur and recolour, make the pixels of
torchvision, Pillow and timm, with the same parameters on both sides.

usage: augments_parity.py LIBRARY [--table] [--draws N]

What an operator draws is asked from the library (its plan) and given to the others' functions. Each subject has images
of eight kinds. --table prints the differences as Markdown, for docs/internals/measured/preprocess.md; --draws takes
so many draws of each image. timm's operators are compared where timm is installed, torchvision's v2 where it has it."""

import argparse
import math
import random
import sys
from unittest import mock

SKIPPED = 77
try:
    import numpy as np
    import PIL
    import PIL.Image
    import PIL.ImageFilter
    import torch
    import torchvision
    import torchvision.transforms as T
    import torchvision.transforms.functional as F
    from torchvision.transforms.autoaugment import _apply_op
except ImportError as reason:
    print(f"skipped: {reason}; install python3-torchvision")
    sys.exit(SKIPPED)
try:
    from timm.data import auto_augment as timm_augment, random_erasing as timm_erasing, transforms as timm_transforms
except ImportError:
    timm_augment = timm_erasing = timm_transforms = None

from pixels_parity import colour_steps, resized_crop
from pictures import encode, picture, resized
from probe import Probe
from table import Table

MODES = {name: F.InterpolationMode(name) for name in ("nearest", "bilinear", "bicubic")}
FILTERS = {name: getattr(PIL.Image.Resampling, name.upper()) for name in MODES}
FILTER_NUMBERS = [FILTERS[name] for name in ("nearest", "bilinear", "bicubic")]
CHANGES = [
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert"]
TIMM = ["AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "PosterizeIncreasing", "PosterizeOriginal",
        "Solarize", "SolarizeIncreasing", "SolarizeAdd", "Color", "ColorIncreasing", "Contrast", "ContrastIncreasing",
        "Brightness", "BrightnessIncreasing", "Sharpness", "SharpnessIncreasing", "ShearX", "ShearY", "TranslateXRel",
        "TranslateYRel", "Desaturate", "GaussianBlur", "GaussianBlurRand"]
NOTHING, END = -1, -2
DEPTH, WEIGHTS, MIXED = 4, 32, 40  # where a mix's plan has what
FILL = (9, 8, 7)


def kinds():
    """Images of eight kinds: smooth and busy, noise, grey, of one colour, of two, with few levels, dark, and thin."""
    rng = np.random.default_rng(11)
    mixed = picture(96, 72, 1)
    yield "mixed", mixed
    yield "noise", PIL.Image.fromarray(rng.integers(0, 256, (61, 83, 3), dtype=np.uint8))
    yield "grey", mixed.convert("L").convert("RGB")
    yield "one colour", PIL.Image.new("RGB", (64, 64), (200, 13, 97))
    yield "two colours", PIL.Image.fromarray((np.indices((50, 70)).sum(0)[..., None] // 9 % 2 *
                                              np.array([255, 10, 128])).astype(np.uint8))
    yield "few levels", mixed.quantize(7).convert("RGB")
    yield "dark", PIL.Image.fromarray(np.asarray(mixed) // 9)
    yield "thin", PIL.Image.fromarray(rng.integers(0, 256, (47, 131, 3), dtype=np.uint8))


class Compare:
    """Ours and theirs for one operator, over all images and draws."""

    def __init__(self, probe, table, draws):
        self.probe, self.table, self.draws = probe, table, draws
        self.images = [(name, image, encode(image, "PNG")) for name, image in kinds()]

    def over(self, subject, allowed, step, function, after=(), share=1):
        """function takes the image and what was drawn. after: further steps, which function does as well."""
        for number, (name, image, data) in enumerate(self.images):
            for draw in range(max(1, self.draws // share)):
                key = (sum(subject.encode()), number, draw)
                pipeline = [{"exact_size": {"size": [image.height, image.width]}}, step, *after]
                plan = self.probe.plan(pipeline, key, *image.size, op=1)
                theirs = image if plan.skip and not after else function(image, plan)
                self.table.compare(subject, allowed, self.probe.prepare(pipeline, data, key), theirs, f"{name} {draw}")


# ── torchvision ────────────────────────────────────────────────────────────────────────────────────────────────────


def affine(compare):
    """Proves: random_affine equals F.affine with what was drawn."""
    for mode in MODES:
        for center in (None, [3, 5.5]):
            step = {"random_affine": {"degrees": 70, "translate": [0.2, 0.3], "scale": [0.5, 1.7],
                                      "shear": [-20, 20, -9, 30], "interpolation": mode, "fill": FILL,
                                      "center": center}}

            def theirs(image, plan, mode=mode, center=center):
                angle, x, y, scale, *shear = plan.real[6:12]
                return F.affine(image, angle, [int(x), int(y)], scale, shear, MODES[mode], list(FILL), center)

            compare.over(f"random_affine, {mode}", 0, step, theirs, share=6)


def older(compare):
    """Proves: the operators that pixels_parity compares on many files equal torchvision's with many draws too."""
    for subject, step, function in colour_steps():
        compare.over(subject, 0, step, function)
    for name, flip in (("random_horizontal_flip", F.hflip), ("random_vertical_flip", F.vflip)):
        compare.over(name, 0, {name: {"p": 0.5}}, lambda image, plan, flip=flip: flip(image))
    for mode in MODES:
        compare.over(f"random_rotation, {mode}", 0,
                     {"random_rotation": {"degrees": 180, "interpolation": mode, "fill": FILL}},
                     lambda image, plan, mode=mode: F.rotate(image, plan.real[6], MODES[mode], fill=FILL), share=2)
        compare.over(f"random_resized_crop, {mode}", 0,
                     {"random_resized_crop": {"size": [37, 45], "interpolation": mode, "scale": [0.02, 1]}},
                     lambda image, plan, mode=mode: resized_crop(image, plan, [37, 45], mode), share=2)
    for kernel in (3, [5, 9], 23):
        compare.over("gaussian_blur", 1, {"gaussian_blur": {"kernel_size": kernel, "sigma": [0.1, 5]}},
                     lambda image, plan, kernel=kernel: F.gaussian_blur(image, kernel, [plan.real[0]] * 2), share=3)
    for mode in ("constant", "edge", "reflect", "symmetric"):
        compare.over("random_crop with padding", 0,
                     {"random_crop": {"size": [40, 44], "padding": [5, 3], "fill": FILL, "padding_mode": mode}},
                     lambda image, plan, mode=mode: F.crop(F.pad(image, (5, 3), FILL, mode), plan.y, plan.x, 40, 44),
                     share=4)


def erased(compare):
    """Proves: random_erasing puts its value where F.erase does, and changes nothing else."""
    value = [0.5, 0.25, 2]
    for number, (name, image, data) in enumerate(compare.images):
        for draw in range(max(1, compare.draws // 4)):
            pipeline = [{"exact_size": {"size": [image.height, image.width]}},
                        {"to_dtype": {"dtype": "float32", "scale": True}},
                        {"random_erasing": {"p": 0.9, "value": value}}]
            plan = compare.probe.plan(pipeline, (10, number, draw), *image.size, op=2)
            theirs = F.to_tensor(image)
            if not plan.skip:
                theirs = F.erase(theirs, plan.y, plan.x, plan.height, plan.width, torch.tensor(value)[:, None, None])
            compare.table.compare("random_erasing", 1e-7, compare.probe.prepare(pipeline, data, (10, number, draw)),
                                  theirs.permute(1, 2, 0), f"{name} {draw}")


def middle(compare):
    """Proves: the middle of an image that is turned is Pillow's, also where the angle's sine lies between two numbers
    of 15 decimals: a bilinear filter cuts off, so a pixel shows on which side of a whole number it is looked for."""
    rng = np.random.default_rng(12)
    image = PIL.Image.fromarray(rng.integers(0, 256, (47, 131, 3), dtype=np.uint8))
    data = encode(image, "PNG")
    for draw in range(600):
        degrees = float(rng.uniform(-60, 60)) if draw > 3 else (
            -28.771149138848077, -27.798642798792972, -28.044070469350043, -27.92301495131527)[draw]
        step = {"random_rotation": {"degrees": [degrees, degrees], "interpolation": "bilinear"}}
        ours = compare.probe.prepare([{"exact_size": {"size": [47, 131]}}, step], data, (5, draw, 0))
        compare.table.compare("random_rotation, odd sizes", 0, ours,
                              F.rotate(image, degrees, MODES["bilinear"]), degrees)


def perspective(compare):
    """Proves: random_perspective equals Pillow's, and its map is torchvision's of the same corners. Older torchvision
    solves for it in single precision, which costs up to 1e-4 where corners lie badly."""
    for mode in MODES:
        def theirs(image, plan, mode=mode):
            return image.transform(image.size, PIL.Image.Transform.PERSPECTIVE, plan.real[:8], FILTERS[mode],
                                   fillcolor=FILL)

        compare.over(f"random_perspective, {mode}", 0,
                     {"random_perspective": {"distortion_scale": 0.6, "p": 0.9, "interpolation": mode, "fill": FILL}},
                     theirs, share=3)
    for draw in range(compare.draws):
        plan = compare.probe.plan([{"exact_size": {"size": [90, 120]}}, {"random_perspective": {"p": 1}}],
                                  (3, draw, 1), 120, 90, op=1)
        corners = [[0, 0], [119, 0], [119, 89], [0, 89]]
        ends = [[int(plan.real[8 + 2 * i]), int(plan.real[9 + 2 * i])] for i in range(4)]
        given = np.array(F._get_perspective_coeffs(corners, ends))
        compare.table.compare("random_perspective, map", 1e-3, np.array(plan.real[:8]) / np.maximum(1, np.abs(given)),
                              given / np.maximum(1, np.abs(given)), draw)


def elastic(compare):
    """Proves: elastic_transform equals F.elastic_transform with the same field, but for ties."""
    if not hasattr(F, "elastic_transform"):
        return
    for mode in ("bilinear", "nearest"):
        for alpha, sigma in (([50, 70], [3, 2]), ([20, 20], [0, 0])):
            step = {"elastic_transform": {"alpha": alpha, "sigma": sigma, "interpolation": mode, "fill": FILL}}

            def theirs(image, plan, mode=mode, alpha=alpha, sigma=sigma):
                width, height = image.size
                units = compare.probe.units(plan.seed, 2 * width * height).astype(np.float32)
                fields = []
                for part, (side, own) in enumerate(((width, sigma[0]), (height, sigma[1]))):
                    field = torch.from_numpy(units[part * width * height:][:width * height] * 2 - 1)
                    field = field.reshape(1, 1, height, width)
                    if own:
                        size = int(8 * own + 1) | 1
                        field = F.gaussian_blur(field, [size, size], [float(value) for value in sigma])
                    fields.append(field * alpha[part] / side)
                field = torch.cat(fields, 1).permute(0, 2, 3, 1)
                return F.elastic_transform(image, field, MODES[mode], [float(value) for value in FILL])

            compare.over(f"elastic_transform, {mode}", 1 if mode == "bilinear" else 255, step, theirs, share=4)
    row = compare.table.rows["elastic_transform, nearest"]
    if row[2] / row[3] > 0.05:
        compare.table.failures.append(f"elastic_transform, nearest: more than ties, {row[2] / row[3]} on average")


def permuted(image, order):
    return PIL.Image.fromarray(np.ascontiguousarray(np.asarray(image)[..., list(order)]))


def distorted(image, plan):
    """As RandomPhotometricDistort, of an image of Pillow."""
    used = plan.choice[:4]
    functions = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for part in (0, 1, 2, 3) if plan.choice[4] else (0, 2, 3, 1):
        image = functions[part](image, plan.real[part]) if used[part] else image
    return permuted(image, plan.choice[6:9]) if plan.choice[5] else image


def colours(compare):
    """Proves: sharpness, inversion, channels and photometric distortion equal torchvision's on Pillow's images."""
    for factor in (0, 0.5, 2, 7.5):
        compare.over("random_adjust_sharpness", 0, {"random_adjust_sharpness": {"sharpness_factor": factor, "p": 0.9}},
                     lambda image, plan, factor=factor: F.adjust_sharpness(image, factor), share=8)
    compare.over("random_invert", 0, {"random_invert": {"p": 0.5}}, lambda image, plan: F.invert(image), share=8)

    compare.over("random_channel_permutation", 0, "random_channel_permutation",
                 lambda image, plan: permuted(image, plan.choice[:3]), share=8)
    compare.over("random_photometric_distort", 0, {"random_photometric_distort": {"hue": [-0.4, 0.4]}}, distorted)


def sizes(compare):
    """Proves: what resizes to a size of chance equals a resize to it; a crop of fixed size follows."""
    crop, pad = {"center_crop": {"size": [90, 110]}}, {"center_crop": {"size": [300, 500]}}

    def jittered(image, plan):
        scale = np.float32(plan.real[0])
        ratio = torch.tensor([float(scale)]) * min(110 / image.height, 90 / image.width)
        size = int(image.width * ratio), int(image.height * ratio)
        return F.center_crop(resized(image, size, FILTERS["bilinear"]), [90, 110])

    compare.over("scale_jitter, then a crop", 0, {"scale_jitter": {"target_size": [90, 110]}}, jittered, [crop])

    def shortest(image, plan):
        ratio = min(40 / min(image.size), 100 / max(image.size))
        size = int(image.width * ratio), int(image.height * ratio)
        return F.center_crop(resized(image, size, FILTERS["bilinear"]), [90, 110])

    compare.over("random_shortest_size, then a crop", 0, {"random_shortest_size": {"min_size": 40, "max_size": 100}},
                 shortest, [crop], share=1000)

    def zoomed(image, plan):
        if not plan.skip:
            right, bottom = plan.out_width - plan.x - image.width, plan.out_height - plan.y - image.height
            image = F.pad(image, [plan.x, plan.y, right, bottom], FILL)
        return F.center_crop(image, [300, 500])

    compare.over("random_zoom_out, then a crop", 0, {"random_zoom_out": {"fill": FILL, "p": 0.8}}, zoomed, [pad],
                 share=4)


def auto_augment(compare):
    """Proves: auto_augment makes torchvision's changes; and of its policies torchvision's pairs at its strengths."""
    for number, policy in enumerate(("imagenet", "cifar10", "svhn")):
        mode = list(MODES)[number]

        def theirs(image, plan, mode=mode):
            for change, amount in zip(plan.choice[:2], plan.real[:2]):
                image = _apply_op(image, CHANGES[change], amount, MODES[mode], list(FILL))
            return image

        compare.over(f"auto_augment, {policy}", 0,
                     {"auto_augment": {"policy": policy, "interpolation": mode, "fill": FILL}}, theirs)
        transform = T.AutoAugment(T.AutoAugmentPolicy(policy))
        space = transform._augmentation_space(10, (90, 120))
        known = set()
        for pair in transform.policies:
            for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                steps = []
                for (name, p, number), sign in zip(pair, signs):
                    magnitudes, signed = space[name]
                    amount = float(magnitudes[number]) if number is not None else 0.0
                    steps.append((name, round(amount * (sign if signed else 1), 3)))
                known.update({(steps[0], steps[1]), (steps[0], None), (None, steps[1]), (None, None)})
        for draw in range(compare.draws):
            plan = compare.probe.plan([{"exact_size": {"size": [90, 120]}}, {"auto_augment": {"policy": policy}}],
                                      (5, draw, 1), 120, 90, op=1)
            steps = tuple((CHANGES[plan.choice[i]], round(plan.real[i] + 0.0, 3)) if plan.choice[i] else None
                          for i in range(2))
            if steps not in known:
                compare.table.failures.append(f"auto_augment, {policy}: {steps} are no pair of torchvision's")


def chain(plan, image, change):
    """The chains of a mix: the images that each makes."""
    made = []
    for first in range(0, WEIGHTS, DEPTH):
        if plan.choice[first] == END:
            break
        part = image
        for i in range(first, first + DEPTH):
            if plan.choice[i] == END:
                break
            part = change(part, plan.choice[i], plan.real[i])
        made.append(part)
    return made


def aug_mix(compare):
    """Proves: aug_mix mixes as torchvision does what torchvision's changes make of Pillow's images."""
    for mode, all_ops in (("bilinear", True), ("nearest", False)):
        def theirs(image, plan, mode=mode):
            def change(part, number, amount):
                return _apply_op(part, CHANGES[number], amount, MODES[mode], list(FILL))
            both = torch.tensor([1 - plan.real[MIXED], plan.real[MIXED]], dtype=torch.float32)
            mix = both[0] * F.pil_to_tensor(image)
            for part, weight in zip(chain(plan, image, change), plan.real[WEIGHTS:]):
                mix.add_(torch.tensor(weight, dtype=torch.float32) * both[1] * F.pil_to_tensor(part))
            return mix.clamp(0, 255).to(torch.uint8).permute(1, 2, 0)

        compare.over(f"aug_mix, {mode}", 0, {"aug_mix": {"severity": 7, "interpolation": mode, "fill": FILL,
                                                        "all_ops": all_ops, "mixture_width": 4}}, theirs, share=4)
    space = T.AugMix()._augmentation_space(10, (90, 120)) if hasattr(T, "AugMix") else {}
    for draw in range(compare.draws if space else 0):
        plan = compare.probe.plan([{"exact_size": {"size": [90, 120]}}, {"aug_mix": {"severity": 10}}], (6, draw, 1),
                                  120, 90, op=1)
        for number, amount in zip(plan.choice, plan.real):
            if number != END:
                magnitudes, signed = space[CHANGES[number]]
                wanted = magnitudes.double().reshape(-1).numpy()
                given = abs(amount) if signed else amount
                compare.table.compare("aug_mix, strengths", 1e-5, [given],
                                      [wanted[np.argmin(np.abs(wanted - given))]], CHANGES[number])


def blurs(compare):
    """Proves: pil_gaussian_blur is Pillow's."""
    for radius in ([0.1, 2], [0, 0.3], [2, 40]):
        compare.over("pil_gaussian_blur", 0, {"pil_gaussian_blur": {"radius": radius, "p": 0.9}},
                     lambda image, plan: image.filter(PIL.ImageFilter.GaussianBlur(radius=plan.real[0])), share=3)


# ── timm ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def timm_change(image, choice, amount):
    """timm's function for what was drawn, with its amount."""
    if choice == NOTHING:
        return image
    name = TIMM[choice & 0xff]
    options = {"fillcolor": FILL, "resample": FILTER_NUMBERS[choice >> 8]}
    if name == "GaussianBlurRand":
        return image.filter(PIL.ImageFilter.GaussianBlur(radius=amount))
    if name.startswith("Posterize") and amount < 1:  # Pillow 13 refuses what gave black before
        return PIL.Image.new("RGB", image.size)
    whole = name.startswith(("Posterize", "Solarize"))
    level = () if timm_augment.LEVEL_TO_ARG[name] is None else (int(amount) if whole else amount,)
    return timm_augment.NAME_TO_OP[name](image, *level, **options)


def timm_pixels(compare):
    """Proves: timm's augmentations make timm's pixels with what was drawn."""
    for name in ("standard", "increasing", "3a", "weights", "3aw"):
        step = {"timm_rand_augment": {"num_ops": 3, "magnitude": 9, "mstd": 3, "prob": 0.8, "transforms": name,
                                      "fill": FILL}}

        def theirs(image, plan):
            for i in range(3):
                image = timm_change(image, plan.choice[i], plan.real[i])
            return image

        compare.over(f"timm_rand_augment, {name}", 0, step, theirs, share=2)
    for policy in ("v0", "v0r", "original", "originalr", "3a"):
        def theirs(image, plan):
            for i in range(2):
                image = timm_change(image, plan.choice[i], plan.real[i])
            return image

        compare.over(f"timm_auto_augment, {policy}", 0,
                     {"timm_auto_augment": {"policy": policy, "mstd": 0.5, "fill": FILL}}, theirs, share=2)

    def mixed(image, plan):
        parts = chain(plan, image, timm_change)
        mix = np.zeros((image.height, image.width, 3), np.float32)
        for part, weight in zip(parts, np.float32(plan.real[WEIGHTS:])):
            mix += weight * np.asarray(part, dtype=np.float32)
        np.clip(mix, 0, 255, out=mix)
        return PIL.Image.blend(image, PIL.Image.fromarray(mix.astype(np.uint8)), np.float32(plan.real[MIXED]))

    compare.over("timm_aug_mix", 0, {"timm_aug_mix": {"magnitude": 5, "width": 4, "depth": 2, "translate_pct": 0.3,
                                                      "fill": FILL}}, mixed, share=2)


def timm_levels(compare):
    """Proves: what a magnitude means for each change is what timm's level function says, sign for sign, and each set
    and policy has timm's changes and no others."""
    for name in ("standard", "increasing", "3a", "weights", "3aw"):
        chosen = timm_augment.rand_augment_choices(name, increasing=name != "standard")
        members, met = set(chosen), set()
        for draw in range(4000):
            magnitude = draw % 13
            plan = compare.probe.plan(
                [{"exact_size": {"size": 50}}, {"timm_rand_augment": {
                    "num_ops": 1, "magnitude": magnitude, "prob": 1, "transforms": name, "mmax": 12,
                    "translate_pct": 0.3}}], (7, draw, 2), 50, 50, op=1)
            change = TIMM[plan.choice[0] & 0xff]
            met.add(change)
            level = timm_augment.LEVEL_TO_ARG[change]
            wanted = []
            for coin in (0.1, 0.9):  # both signs
                with mock.patch.object(timm_augment.random, "random", lambda coin=coin: coin):
                    wanted += level(min(magnitude, 12), {"translate_pct": 0.3}) if level else (0,)
            wanted = np.array(wanted, float)
            compare.table.compare("timm, levels", 1e-12, [plan.real[0]],
                                  [wanted[np.argmin(np.abs(wanted - plan.real[0]))]], change)
        if met != members:
            compare.table.failures.append(f"timm_rand_augment, {name}: {sorted(met ^ members)} are in one set alone")
    for policy in ("v0", "v0r", "original", "originalr", "3a"):
        subs, met = timm_augment.auto_augment_policy(policy), set()
        pairs = {tuple(op.name for op in sub if op.prob) for sub in subs}
        for draw in range(6000):
            plan = compare.probe.plan([{"exact_size": {"size": 50}}, {"timm_auto_augment": {"policy": policy}}],
                                      (8, draw, 2), 50, 50, op=1)
            made = tuple(TIMM[choice & 0xff] for choice in plan.choice[:2] if choice != NOTHING)
            met.add(made)
            if not any(set(made) <= set(pair) for pair in pairs):
                compare.table.failures.append(f"timm_auto_augment, {policy}: {made} is no pair of timm's")
        if not pairs <= met:
            compare.table.failures.append(f"timm_auto_augment, {policy}: {pairs - met} never came")


def timm_sizes(compare):
    """Proves: timm's resize and its crops give timm's pixels."""
    for longest in (0, 1, 0.3):
        resize = timm_transforms.ResizeKeepRatio((40, 60), longest, "bicubic")

        def theirs(image, plan, resize=resize):
            height, width = resize.get_params(image, (40, 60), resize.longest)
            image = resized(image, (width, height), FILTERS["bicubic"])
            return timm_transforms.center_crop_or_pad(image, [51, 44], FILL)

        compare.over("resize_keep_ratio and center_crop_or_pad", 0,
                     {"resize_keep_ratio": {"size": [40, 60], "longest": longest, "interpolation": "bicubic"}}, theirs,
                     [{"center_crop_or_pad": {"size": [51, 44], "fill": FILL}}], share=1000)
    for mode in ("constant", "reflect"):
        for size in ([60, 75], [49, 130]):
            compare.over("random_crop_or_pad", 0,
                         {"random_crop_or_pad": {"size": size, "padding_mode": mode, "fill": FILL}},
                         lambda image, plan, mode=mode, size=size: timm_transforms.crop_or_pad(
                             image, plan.choice[1], plan.choice[0], *size, FILL, mode), share=8)


def timm_erased(compare):
    """Proves: rectangles lie as timm lays them, and are 0, of one colour each, or noise; nothing else changes."""
    draws = max(1, compare.draws // 10)
    for mode in ("const", "rand", "pixel"):
        for number, (name, image, data) in enumerate(compare.images):
            for draw in range(draws):
                pipeline = [{"exact_size": {"size": [image.height, image.width]}},
                            {"to_dtype": {"dtype": "float32", "scale": True}},
                            {"timm_random_erasing": {"p": 0.9, "mode": mode, "min_count": 1, "max_count": 4}}]
                key = (9, number, draw)
                plan = compare.probe.plan(pipeline, key, *image.size, op=2)
                ours, theirs = compare.probe.prepare(pipeline, data, key), np.asarray(image, np.float32) / 255
                rects = [rect for rect in np.array(plan.choice).reshape(-1, 4) if rect[2] * rect[3] and not plan.skip]
                for x, y, width, height in rects:
                    hole = ours[y:y + height, x:x + width]
                    theirs[y:y + height, x:x + width] = 0 if mode == "const" else hole
                compare.table.compare(f"timm_random_erasing, {mode}", 1e-7, ours, theirs, name)
                for x, y, width, height in rects[-1:]:  # no other lies over the last one
                    spread = np.ptp(ours[y:y + height, x:x + width], axis=(0, 1)).max()
                    if (spread > 0) != (mode == "pixel" and width * height > 1):
                        compare.table.failures.append(f"timm_random_erasing, {mode}: {name}: levels differ by {spread}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draws", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    compare = Compare(Probe(args.library), Table(), args.draws)
    for part in (older, erased, affine, middle, perspective, elastic, colours, sizes, auto_augment, aug_mix, blurs):
        part(compare)
    if timm_augment:
        for part in (timm_pixels, timm_levels, timm_sizes, timm_erased):
            part(compare)
    else:
        print("timm is not installed: what is timm's is not compared")
    print(f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}, timm "
          f"{__import__('timm').__version__ if timm_augment else 'none'}")
    compare.table.show(args.table)
    for line in compare.table.failures[:40]:
        print("FAILED", line)
    print(f"{len(compare.table.failures)} failures")
    return 1 if compare.table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
