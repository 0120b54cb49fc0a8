"""larder's preparing beside torchvision's Compose, in one process and one thread, image by image in turns.

usage: vs_torchvision.py LIBRARY FOLDER [--seconds S] [--png] [--views]

LIBRARY is build/lib/libpreprocess_probe.so, FOLDER a tree of images. Both sides begin with the encoded bytes in memory
and end with a uint8 array of 224 x 224 x 3. --png recodes the images to PNG first. --views has the views of
papers instead, where both sides decode once: torchvision's v2, on Pillow's images and on tensors. Prints one line of
JSON a pipeline: images/s of both and their ratio, medians over passes."""

import argparse
import importlib
import io
import json
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity" / "preprocess"))
try:
    import numpy as np
    import PIL.Image
    import PIL.ImageFilter
    import torch
    import torchvision
    import torchvision.transforms as T
except ImportError as reason:
    print(f"skipped: {reason}; install python3-torchvision")
    sys.exit(77)

from probe import Probe

PIPELINES = [
    ("random_resized_crop 224, flip", [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"],
     T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])),
    ("resize 256, center_crop 224", [{"resize": {"size": 256}}, {"center_crop": {"size": 224}}],
     T.Compose([T.Resize(256), T.CenterCrop(224)])),
]


def multi_crop(large, small):
    return {"views": [{"count": count, "steps": [{"random_resized_crop": {
        "size": size, "scale": scale, "interpolation": "bicubic"}}, "random_horizontal_flip"]}
        for size, scale, count in ((large, [0.4, 1], 2), (small, [0.05, 0.4], 8))]}


def views(larder, v2):
    """Names, ours, and torchvision's list for each view; DINO's blur is Pillow's, so it has no tensors."""
    bicubic = v2.InterpolationMode.BICUBIC

    class Blur:
        def __call__(self, image):
            return image.filter(PIL.ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))

    def list_of(side, scale, blur, jitter=(0.4, 0.4, 0.2, 0.1), solarize=0.0, mode=bicubic):
        return v2.Compose([v2.RandomResizedCrop(side, scale=scale, interpolation=mode, antialias=True),
                           v2.RandomHorizontalFlip(), v2.RandomApply([v2.ColorJitter(*jitter)], 0.8),
                           v2.RandomGrayscale(0.2), blur, *([v2.RandomSolarize(128, solarize)] if solarize else [])])

    def ten(scale, small, blur):
        return [list_of(224, (scale, 1), blur(1.0)), list_of(224, (scale, 1), blur(0.1), solarize=0.2),
                *[list_of(small, (0.05, scale), blur(0.5))] * 8]

    def gaussian(kernel):
        return lambda p: v2.RandomApply([v2.GaussianBlur(kernel, (0.1, 2.0))], p)

    crops = [v2.Compose([v2.RandomResizedCrop(size, scale=scale, interpolation=bicubic, antialias=True),
                         v2.RandomHorizontalFlip()])
             for size, scale in ((224, (0.4, 1)), *[(96, (0.05, 0.4))] * 8, (224, (0.4, 1)))]
    recipes, program = larder.recipes, importlib.import_module("larder._views").to_json
    byol = gaussian(23)
    return [
        ("crops and flips, 2 x 224 and 8 x 96", multi_crop(224, 96), crops, (False, True)),
        ("DINO", json.loads(program(None, recipes.DINO)), ten(0.4, 96, lambda p: v2.RandomApply([Blur()], p)),
         (False,)),
        ("DINOv2", json.loads(program(None, recipes.DINOv2)), ten(0.32, 98, gaussian(9)), (False, True)),
        ("SimCLR", json.loads(program(None, recipes.SimCLR)),
         [list_of(224, (0.08, 1), byol(0.5), (0.8, 0.8, 0.8, 0.2), mode=v2.InterpolationMode.BILINEAR)] * 2,
         (False, True)),
        ("BYOL", json.loads(program(None, recipes.BYOL)),
         [list_of(224, (0.08, 1), byol(1.0)), list_of(224, (0.08, 1), byol(0.1), solarize=0.2)], (False, True)),
    ]


def recoded(data):
    out = io.BytesIO()
    PIL.Image.open(io.BytesIO(data)).convert("RGB").save(out, "PNG")
    return out.getvalue()


class Ours:
    def __init__(self, probe, pipeline):
        self.probe, self.pipeline = probe, pipeline
        self.out = np.empty(probe.sample_bytes(pipeline), np.uint8)
        self.instance = 0

    def __call__(self, index, data):
        self.instance += 1
        return self.probe.prepare(self.pipeline, data, (1, index, self.instance), self.out)


class Theirs:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, index, data):
        return np.asarray(self.transform(PIL.Image.open(io.BytesIO(data)).convert("RGB")))


class TheirViews:
    """Each list makes one view of an image that is decoded once."""

    def __init__(self, transforms, tensors):
        self.transforms, self.tensors = transforms, tensors

    def __call__(self, index, data):
        image = PIL.Image.open(io.BytesIO(data)).convert("RGB")
        if self.tensors:
            image = T.functional.pil_to_tensor(image)
        return [np.asarray(transform(image)) for transform in self.transforms]


def run(sides, files, seconds):
    """Images/s of each side in each pass over the files; the sides take turns, and turns at being first."""
    rates = [[], []]
    end = time.perf_counter() + seconds
    while not rates[0] or time.perf_counter() < end:
        spent = [0.0, 0.0]
        for index, data in enumerate(files):
            for side in ((0, 1), (1, 0))[(index + len(rates[0])) % 2]:
                begin = time.thread_time() # of this thread alone: what else runs does not count
                sides[side](index, data)
                spent[side] += time.thread_time() - begin
        for side in (0, 1):
            rates[side].append(len(files) / spent[side])
    return rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--png", action="store_true")
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--limit", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    paths = sorted(p for p in pathlib.Path(options.folder).rglob("*")
                   if p.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
    paths = paths[:: max(1, len(paths) // options.limit)][: options.limit]
    files = [path.read_bytes() for path in paths]
    if not files:
        print(f"skipped: no images in {options.folder}")
        return 77
    if options.png:
        files = [recoded(data) for data in files]
    probe = Probe(options.library)
    cases = [(name, pipeline, Theirs(transform)) for name, pipeline, transform in PIPELINES]
    if options.views:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "client" / "python"))
        modules = map(importlib.import_module, ("larder", "torchvision.transforms.v2"))
        cases = [(f"{name}, torchvision on {'tensors' if tensors else 'PIL images'}", pipeline,
                  TheirViews(transforms, tensors))
                 for name, pipeline, transforms, kinds in views(*modules) for tensors in kinds]
    for name, pipeline, theirs_side in cases:
        sides = [Ours(probe, pipeline), theirs_side]
        for index, data in enumerate(files[:20]):
            [side(index, data) for side in sides]
        ours, theirs = run(sides, files, options.seconds)
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(json.dumps({"pipeline": name, "format": "png" if options.png else "as found", "images": len(files),
                          "passes": len(ours), "larder_per_s": round(statistics.median(ours), 1),
                          "torchvision_per_s": round(statistics.median(theirs), 1), "ratio": round(ratio, 3),
                          "simd": probe.simd(), "torchvision": torchvision.__version__, "pillow": PIL.__version__}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
