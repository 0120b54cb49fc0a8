"""larder's preparing beside torchvision's Compose, in one process and one thread, image by image in turns.

usage: vs_torchvision.py LIBRARY FOLDER [--seconds S] [--png]

LIBRARY is build/lib/libpreprocess_probe.so, FOLDER a tree of images. Both sides begin with the encoded bytes in memory
and end with a uint8 array of 224 x 224 x 3. --png recodes the images to PNG first. Prints one line of JSON a pipeline:
images/s of both and their ratio, medians over passes."""

import argparse
import io
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity" / "preprocess"))
try:
    import numpy as np
    import PIL.Image
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


def recoded(data):
    out = io.BytesIO()
    PIL.Image.open(io.BytesIO(data)).convert("RGB").save(out, "PNG")
    return out.getvalue()


class Ours:
    def __init__(self, probe, pipeline):
        self.probe, self.pipeline = probe, pipeline
        shape, dtype = probe.shape(pipeline)
        self.out = np.empty(shape, dtype)
        self.instance = 0

    def __call__(self, index, data):
        self.instance += 1
        return self.probe.prepare(self.pipeline, data, (1, index, self.instance), self.out)


class Theirs:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, index, data):
        return np.asarray(self.transform(PIL.Image.open(io.BytesIO(data)).convert("RGB")))


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
    for name, pipeline, transform in PIPELINES:
        sides = [Ours(probe, pipeline), Theirs(transform)]
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
