"""Proves, pixel by pixel, that preprocess/ makes what Pillow and torchvision make, with the same parameters on both
sides.

usage: pixels_parity.py LIBRARY [--table] [--some]

--table prints the differences as Markdown, for docs/internals/measured/preprocess.md; --some takes a fourth of
the files.

What each operator draws is asked from the library (its plan) and given to torchvision's functional form."""

import sys

SKIPPED = 77
try:
    import numpy as np
    import PIL.Image
    import torch
    import torchvision
    import torchvision.transforms as T
    import torchvision.transforms.functional as F
    from torchvision.transforms.autoaugment import _apply_op
except ImportError as reason:
    print(f"skipped: {reason}; install python3-torchvision")
    sys.exit(SKIPPED)

from pictures import encode, odd_files, photographs, picture, pillow, resized
from probe import Bad, Probe
from table import Table

FILTERS = {name: getattr(PIL.Image.Resampling, name.upper())
           for name in ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")}
MODES = {name: F.InterpolationMode(name) for name in ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")}
CHANGES = [
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
torch.manual_seed(1)


def resized_crop(image, plan, size, mode):
    """F.resized_crop, in the newest Pillow's order."""
    return resized(F.crop(image, plan.y, plan.x, plan.height, plan.width), (size[1], size[0]), FILTERS[mode])


def resize(image, size, max_size=None):
    """F.resize, in the newest Pillow's order."""
    return resized(image, F.resize(image, size, max_size=max_size).size, FILTERS["bilinear"])


def whole(width, height):
    return [{"center_crop": {"size": [height, width]}}]


def decode(probe, table, files):
    """Proves: decoding whole files gives Pillow's pixels."""
    for name, data in files:
        image = pillow(data)
        subject = "full decode, JPEG" if data[:2] == b"\xff\xd8" else "full decode, " + name.split()[0]
        table.compare(subject, 0, probe.prepare(whole(*image.size), data), image, name)


def ten_crop(size):
    """The pipelines of TenCrop's images, in its order."""
    corners = [{"corner_crop": {"size": size, "corner": corner}}
               for corner in ("top_left", "top_right", "bottom_left", "bottom_right")]
    five = [[crop] for crop in (*corners, {"center_crop": {"size": size}})]
    return five + [[{"random_horizontal_flip": {"p": 1}}, *steps] for steps in five]


def crops(probe, table, files):
    """Proves: decoding a part gives the part of the whole: odd offsets, borders, all samplings."""
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for draw in range(4):
            size = [max(1, image.height * (draw + 1) // 5 - draw), max(1, image.width * (4 - draw) // 5 - 1)]
            pipeline = [{"random_crop": {"size": size}}, "random_horizontal_flip", "random_vertical_flip"]
            key = (1, number, draw)
            plan = probe.plan(pipeline, key, *image.size)
            theirs = F.crop(image, plan.y, plan.x, plan.height, plan.width)
            theirs = theirs if probe.plan(pipeline, key, *image.size, op=1).skip else F.hflip(theirs)
            theirs = theirs if probe.plan(pipeline, key, *image.size, op=2).skip else F.vflip(theirs)
            table.compare("regional decode, crop and flips", 0, probe.prepare(pipeline, data, key), theirs, name)
        size = [max(1, image.height * 2 // 3), max(1, image.width // 2)]
        for theirs, steps in zip(F.ten_crop(image, size), ten_crop(size)):
            table.compare("ten crops", 0, probe.prepare(steps, data), theirs, name)


def resizes(probe, table, files):
    """Proves: resized crops and resizes equal Pillow's, for every filter and every vector version."""
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for draw, mode in enumerate(MODES):
            size = [(224, 224), (97, 131), (7, 5)][(number + draw) % 3]
            pipeline = [{"random_resized_crop": {"size": size, "interpolation": mode, "scale": [0.02, 1]}}]
            plan = probe.plan(pipeline, (2, number, draw), *image.size)
            theirs = resized_crop(image, plan, size, mode)
            table.compare(f"random_resized_crop, {mode}", 0, probe.prepare(pipeline, data, (2, number, draw)),
                          theirs, f"{name} {plan.x},{plan.y} {plan.width}x{plan.height}")
        if max(image.size) / min(image.size) > 50:
            continue
        pipeline = [{"resize": {"size": 256}}, {"center_crop": {"size": 224}}]
        theirs = F.center_crop(resize(image, 256), 224)
        table.compare("resize and center_crop", 0, probe.prepare(pipeline, data), theirs, name)
        pipeline = [{"resize": {"size": 30, "max_size": 50}}, {"center_crop": {"size": [40, 60]}}]
        theirs = F.center_crop(resize(image, 30, 50), [40, 60])
        table.compare("resize with max_size, center_crop that pads", 0, probe.prepare(pipeline, data), theirs, name)


def scaled(probe, table, files):
    """Proves: dct_scaling, which is asked for, errs by no more than is published."""
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for size in (32, 64, 96):
            pipeline = [{"resize": {"size": [size, size], "dct_scaling": True}}]
            table.compare(f"resize to {size} with dct_scaling", 40, probe.prepare(pipeline, data),
                          resize(image, [size, size]), name)


def versions(probe, table, files):
    """Proves: the same, in each vector version this processor runs."""
    for simd in range(3):
        name = probe.simd(simd)
        if not name:
            continue
        for number, (file, data) in enumerate(files):
            image = pillow(data)
            pipeline = [{"random_resized_crop": {"size": [61, 83]}}]
            plan = probe.plan(pipeline, (3, number, 0), *image.size)
            theirs = resized_crop(image, plan, [61, 83], "bilinear")
            table.compare(f"random_resized_crop, {name}", 0, probe.prepare(pipeline, data, (3, number, 0)), theirs,
                          file)


def applied(probe, image, data, step, key, function):
    """Ours and theirs for one operator at the end of a whole image; function takes the image and what was drawn."""
    pipeline = whole(*image.size) + [step]
    plan = probe.plan(pipeline, key, *image.size, op=1)
    return probe.prepare(pipeline, data, key), image if plan.skip else function(image, plan)


def jitter(image, plan):
    functions = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
    for part in plan.choice[:4]:
        image = functions[part](image, plan.real[part])
    return image


def colour_steps():
    """(subject, operator, torchvision's function of an image and what was drawn)."""
    p = {"p": 0.9}
    return [
        ("color_jitter, all parts",
         {"color_jitter": {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.5}}, jitter),
        ("color_jitter, hue", {"color_jitter": {"hue": [-0.5, 0.5]}}, lambda i, d: F.adjust_hue(i, d.real[3])),
        ("color_jitter, brightness", {"color_jitter": {"brightness": [0, 3]}},
         lambda i, d: F.adjust_brightness(i, d.real[0])),
        ("color_jitter, contrast", {"color_jitter": {"contrast": [0, 3]}},
         lambda i, d: F.adjust_contrast(i, d.real[1])),
        ("color_jitter, saturation", {"color_jitter": {"saturation": [0, 3]}},
         lambda i, d: F.adjust_saturation(i, d.real[2])),
        ("grayscale", {"grayscale": {"num_output_channels": 3}}, lambda i, d: F.to_grayscale(i, 3)),
        ("random_grayscale", {"random_grayscale": p}, lambda i, d: F.to_grayscale(i, 3)),
        ("random_solarize", {"random_solarize": {"threshold": 100.5, **p}}, lambda i, d: F.solarize(i, 100.5)),
        ("random_posterize", {"random_posterize": {"bits": 3, **p}}, lambda i, d: F.posterize(i, 3)),
        ("random_equalize", {"random_equalize": p}, lambda i, d: F.equalize(i)),
        ("autocontrast", {"autocontrast": p}, lambda i, d: F.autocontrast(i)),
    ]


def colours(probe, table, files):
    """Proves: colour operators equal torchvision's on Pillow images."""
    steps = colour_steps()
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for subject, step, function in steps:
            for draw in range(2):
                table.compare(subject, 2, *applied(probe, image, data, step, (4, number, draw), function), name)


def augments(probe, table, files):
    """Proves: the automatic augmentations apply torchvision's changes at torchvision's strengths."""
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for draw in range(24):
            mode = ["nearest", "bilinear"][draw % 2]

            def trivial(picture, plan):
                return _apply_op(picture, CHANGES[plan.choice[0]], plan.real[0], MODES[mode], [9, 8, 7])

            def rand(picture, plan):
                for i in range(3):
                    picture = _apply_op(picture, CHANGES[plan.choice[i]], plan.real[i], MODES[mode], [9, 8, 7])
                return picture

            arguments = {"interpolation": mode, "fill": [9, 8, 7]}
            table.compare("trivial_augment_wide", 2,
                          *applied(probe, image, data, {"trivial_augment_wide": arguments}, (5, number, draw), trivial),
                          name)
            table.compare(
                "rand_augment", 2,
                *applied(probe, image, data, {"rand_augment": {"num_ops": 3, "magnitude": draw, **arguments}},
                         (5, number, draw), rand), name)


def strengths(probe, table):
    """Proves: the strengths drawn by the automatic augmentations are those of torchvision's tables."""
    wide = T.TrivialAugmentWide()._augmentation_space(31)
    rand = T.RandAugment()._augmentation_space(31, (200, 300))
    for draw in range(600):
        for space, step, subject in ((wide, "trivial_augment_wide", "trivial_augment_wide, strengths"),
                                     (rand, {"rand_augment": {"num_ops": 1, "magnitude": draw % 31}},
                                      "rand_augment, strengths")):
            plan = probe.plan([{"center_crop": {"size": [200, 300]}}, step], (6, draw, 0), 300, 200, op=1)
            magnitudes, signed = space[CHANGES[plan.choice[0]]]
            wanted = magnitudes.double().reshape(-1).numpy()
            wanted = wanted if subject[0] == "t" or magnitudes.ndim == 0 else wanted[draw % 31:draw % 31 + 1]
            given = abs(plan.real[0]) if signed else plan.real[0]
            table.compare(subject, 1e-5, [given], [wanted[np.argmin(np.abs(wanted - given))]], CHANGES[plan.choice[0]])


def geometry(probe, table, files):
    """Proves: rotations, blurs and borders equal torchvision's."""
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        for draw, mode in enumerate(["nearest", "bilinear", "bicubic"]):
            for center in (None, [3, 5.5]):
                step = {"random_rotation": {"degrees": 180, "interpolation": mode, "fill": [1, 2, 3], "center": center}}
                def rotate(i, d, mode=mode, center=center):
                    return F.rotate(i, d.real[6], MODES[mode], center=center, fill=[1, 2, 3])
                table.compare(f"random_rotation, {mode}", 2,
                              *applied(probe, image, data, step, (7, number, draw), rotate), name)
            for angle in (33, 90, 180, 270):
                pipeline = whole(*image.size) + [
                    {"random_rotation": {"degrees": [angle, angle], "interpolation": mode, "expand": True}}]
                theirs = F.rotate(image, angle, MODES[mode], expand=True)
                pipeline += whole(*theirs.size)
                table.compare("random_rotation, expanded", 2, probe.prepare(pipeline, data), theirs, f"{name} {angle}")
        for kernel in (3, [5, 9], 23):
            largest = max(kernel) if isinstance(kernel, list) else kernel
            if largest // 2 >= min(image.size):
                continue
            step = {"gaussian_blur": {"kernel_size": kernel, "sigma": [0.1, 5]}}
            table.compare(
                "gaussian_blur", 1,
                *applied(probe, image, data, step, (7, number, largest),
                         lambda i, d, k=kernel: F.gaussian_blur(i, k, [d.real[0]] * 2)), name)
        for mode in ("constant", "edge", "reflect", "symmetric"):
            padding = [3, 4, 200, 6] if min(image.size) > 250 else [2, 0, 1, 3]
            if min(image.size) < 8:
                continue
            step = {"pad": {"padding": padding, "fill": [7, 8, 9], "padding_mode": mode}}
            table.compare(f"pad, {mode}", 0, *applied(probe, image, data, step, (7, 0, 0),
                                                      lambda i, d, m=mode, p=padding: F.pad(i, p, (7, 8, 9), m)), name)
            size = [image.height + 5, max(1, image.width - 9)]
            if mode == "constant":
                step = {"pad_if_smaller": {"size": size, "fill": [7, 8, 9]}}
                table.compare("pad_if_smaller", 0, *applied(probe, image, data, step, (7, 0, 0), lambda i, d: F.pad(
                    i, (0, 0, 0, 5), (7, 8, 9))), name)
            step = {"random_crop": {"size": size, "padding": [1, 2], "pad_if_needed": True, "fill": [7, 8, 9],
                                    "padding_mode": mode}}

            def padded(picture, plan, mode=mode, size=size):
                picture = F.pad(picture, (1, 2), (7, 8, 9), mode)
                picture = F.pad(picture, (0, max(0, size[0] - picture.height)), (7, 8, 9), mode)
                return F.crop(picture, plan.y, plan.x, plan.height, plan.width)

            table.compare("random_crop with padding", 0, *applied(probe, image, data, step, (7, number, 1), padded),
                          name)


def tensors(probe, table, files):
    """Proves: floating point, normalisation, erasing and layout equal torchvision's on tensors."""
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    for number, (name, data) in enumerate(files):
        image = pillow(data)
        base = whole(*image.size)
        scaled = {"to_dtype": {"dtype": "float32", "scale": True}}
        chw, normalize = {"layout": {"layout": "CHW"}}, {"normalize": {"mean": mean, "std": std}}
        theirs = F.normalize(F.to_tensor(image), mean, std)
        table.compare("to_dtype, scaled", 0, probe.prepare(base + [scaled, chw], data), F.to_tensor(image), name)
        # As v2's functional.to_dtype. torch multiplies a half as a float32, but for old ones, such as 1.13.
        for dtype in (torch.float32, torch.float16):
            times = {"to_dtype": {"dtype": str(dtype)[6:], "scale": True, "reciprocal": True}}
            table.compare(f"to_dtype, reciprocal, {dtype}", 0, probe.prepare(base + [times, chw], data),
                          F.pil_to_tensor(image).float().mul(1 / 255).to(dtype), name)
        table.compare("normalize", 1e-6, probe.prepare(base + [scaled, normalize, chw], data), theirs, name)
        table.compare("normalize, HWC", 1e-6, probe.prepare(base + [scaled, normalize], data), theirs.permute(1, 2, 0),
                      name)
        half = probe.prepare(base + [{"to_dtype": {"dtype": "float16", "scale": True}}, normalize, chw], data)
        table.compare("normalize, float16 (of float32, rounded)", 0, half, theirs.half(), name)
        table.compare("to_dtype, not scaled", 0, probe.prepare(base + [{"to_dtype": {"dtype": "float32"}}], data),
                      image, name)
        table.compare("layout, uint8", 0, probe.prepare(base + [chw], data), F.pil_to_tensor(image), name)
        grey = probe.prepare(base + [{"grayscale": {}}, chw], data)
        table.compare("grayscale, one channel", 2, grey, F.pil_to_tensor(F.to_grayscale(image, 1)), name)
        erasing = {"random_erasing": {"p": 1, "value": [0.5, 0.25, 2]}}
        pipeline = base + [scaled, erasing, normalize, chw]
        plan = probe.plan(pipeline, (8, number, 0), *image.size, op=2)
        erased = F.to_tensor(image)
        if not plan.skip:
            erased = F.erase(erased, plan.y, plan.x, plan.height, plan.width,
                             torch.tensor([0.5, 0.25, 2])[:, None, None])
        table.compare("random_erasing, normalize", 1e-6, probe.prepare(pipeline, data, (8, number, 0)),
                      F.normalize(erased, mean, std), name)


def noise(probe, table):
    """Proves: random_erasing's noise is standard normal, and inside the rectangle alone."""
    data = encode(picture(200, 160, 3), "PNG")
    pipeline = whole(200, 160) + [{"to_dtype": {"dtype": "float32", "scale": True}},
                                  {"random_erasing": {"p": 1, "value": "random", "scale": [0.3, 0.33]}},
                                  {"layout": {"layout": "CHW"}}]
    plan = probe.plan(pipeline, (9, 1, 1), 200, 160, op=2)
    ours, plain = probe.prepare(pipeline, data, (9, 1, 1)), F.to_tensor(pillow(data)).numpy().copy()
    inside = ours[:, plan.y:plan.y + plan.height, plan.x:plan.x + plan.width].copy()
    table.compare("random_erasing, moments of its noise", 0.03, [inside.mean(), inside.std()], [0, 1], "noise")
    ours[:, plan.y:plan.y + plan.height, plan.x:plan.x + plan.width] = 0
    plain[:, plan.y:plan.y + plan.height, plan.x:plan.x + plan.width] = 0
    table.compare("random_erasing, outside of it", 0, ours, plain, "noise")


def refusals(probe, failures):
    """Proves: what Pillow cannot read, the library refuses, and the other way round."""
    good = encode(picture(120, 90, 4), "JPEG")
    for name, data in [("cut in half", good[:len(good) // 2]), ("without its end", good[:-2]),
                       ("bytes after its end", good + b"x" * 300), ("nothing", b""), ("text", b"no image at all"),
                       ("cut png", encode(picture(50, 50, 1), "PNG")[:400])]:
        try:
            pillow(data).load()
            theirs = True
        except Exception:
            theirs = False
        try:
            probe.prepare(whole(120, 90), data)
            ours = True
        except Bad:
            ours = False
        if ours != theirs:
            failures.append(f"{name}: Pillow {'reads' if theirs else 'refuses'} it, the library does not")


def main():
    probe, table = Probe(sys.argv[1]), Table()
    odd = list(odd_files())[::4 if "--some" in sys.argv else 1]
    real = photographs()
    if not real:
        print("LARDER_TEST_IMAGES is not set: photographs are not compared")
    sample = real[::25]
    jpegs = [file for file in odd if file[1][:2] == b"\xff\xd8" and "cmyk" not in file[0]]
    some = [file for file in odd if file[0].split()[-1] in ("160x120", "255x257", "17x31")]
    some = some[::1 if "--some" in sys.argv else 4]
    decode(probe, table, odd + real)
    crops(probe, table, odd + real[::3])
    resizes(probe, table, odd + real[::5])
    scaled(probe, table, real[::2])
    versions(probe, table, jpegs[::3] + sample)
    colours(probe, table, some + sample)
    augments(probe, table, some[:4] + sample[:4])
    strengths(probe, table)
    geometry(probe, table, some[:6] + sample[:4])
    tensors(probe, table, some[:6] + sample[:6])
    noise(probe, table)
    refusals(probe, table.failures)
    print(f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}")
    table.show("--table" in sys.argv)
    for line in table.failures[:40]:
        print("FAILED", line)
    print(f"{len(table.failures)} failures")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
