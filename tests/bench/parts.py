#!/usr/bin/env python3
"""What samples of several parts, boxes and sounds take: CPU of all processes, by that of what is compared.

    parts.py [--samples 200] [--warm 6] [--epochs 3] [--rounds 3] [--only mask,detection,ragged,instances,sound]

mask: an image of 500 x 375 and its mask, cropped to 224, by the image alone; the decoding of the mask's PNG is measured
apart, by masks alone, of which the same crops are made 8 x 8 pixels. detection: SSD's operators, batches of 16, by
torchvision's v2 in a DataLoader without workers. ragged: the operators of references/detection's "multiscale", in lists
of 16 images that differ in size, by the same. instances: its "hflip" with masks of polygons, which pycocotools draws
for the DataLoader. sound: 4 of 12 s of FLAC, by soundfile in such a DataLoader. Each case also tells the preparations a
delivered sample of four jobs. What is compared takes turns, and counts with the median of its rounds. A case whose
packages are missing is left out. The first epochs of a round are not counted, `warm` of Larder's and one of the
DataLoader's: they index, fill the page cache, and the daemon's memory grows in them to what the job takes."""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "system", "python"), os.path.join(HERE, "..", "parity", "preprocess")]

import numpy as np  # noqa: E402

from decoded import cpu_s  # noqa: E402
from system import Daemon, larder  # noqa: E402

CONFIG = ("memory: {arena: 1GiB, encoded: 256MiB, decoded: never}\nmetrics: {enabled: false}\n"
          "catalog: {checkpoint: none}\n")
RATE, SECONDS, JOBS = 16_000, 4, 4


@contextlib.contextmanager
def daemon():
    with tempfile.TemporaryDirectory() as folder:
        running = Daemon(folder, CONFIG)
        try:
            yield running
        finally:
            running.stop()


def ours(asked, dataset, steps, **options):
    """CPU a sample of the daemon and this script, in ms."""
    with daemon() as one, larder.Loader(dataset, steps, 16, socket=one.socket,
                                        epochs=asked.warm + asked.epochs, **options) as loader:
        for epoch in range(asked.warm + asked.epochs):
            if epoch == asked.warm:
                began, own = cpu_s(one.process.pid), time.process_time()
            for _ in loader:
                pass
        took = cpu_s(one.process.pid) - began + time.process_time() - own
    return 1e3 * took / asked.epochs / asked.samples


def shared(dataset, steps, **options):
    """Preparations a delivered sample of four jobs in step."""
    with daemon() as one:
        jobs = [larder.Loader(dataset, steps, 16, socket=one.socket, epochs=1, **options) for _ in range(JOBS)]
        for _ in zip(*jobs):
            pass
        told = one.status()["samples"]
        for job in jobs:
            job.close()
    return told["prepared"] / told["delivered"]


def theirs(asked, dataset, collate):
    """The same of a DataLoader without workers."""
    from torch.utils.data import DataLoader
    for epoch in range(asked.epochs + 1):
        if epoch == 1:
            own = time.process_time()
        for _ in DataLoader(dataset, 16, shuffle=True, collate_fn=collate):
            pass
    return 1e3 * (time.process_time() - own) / asked.epochs / asked.samples


def by_turns(asked, *runs):
    """The medians of what each of several functions returns, which are called by turns."""
    rounds = [[run() for run in runs] for _ in range(asked.rounds)]
    return [statistics.median(one) for one in zip(*rounds)]


def photographs(asked, folder):
    """JPEGs and their masks; the paths of the JPEGs."""
    from PIL import Image

    from pictures import picture
    paths = []
    for name in ("images", "masks"):
        os.makedirs(os.path.join(folder, name))
    for number in range(asked.samples):
        image = picture(500, 375, number)
        paths.append(os.path.join(folder, "images", f"{number:04}.jpg"))
        image.save(paths[-1], quality=90)
        rough = np.random.default_rng(number).integers(0, 21, (24, 32), np.uint8)
        Image.fromarray(rough).resize((500, 375), Image.Resampling.NEAREST).save(
            os.path.join(folder, "masks", f"{number:04}.png"))
    return paths


def mask(asked, folder):
    photographs(asked, folder)
    crop = [larder.RandomResizedCrop(224), larder.RandomHorizontalFlip()]
    image, masks = {"image": "images/*.jpg"}, {"mask": "masks/*.png"}
    alone, both, png = by_turns(
        asked, lambda: ours(asked, folder, crop, parts=image, output="numpy"),
        lambda: ours(asked, folder, crop, parts={**image, **masks}, output="numpy"),
        lambda: ours(asked, folder, [larder.RandomResizedCrop(8)], parts=masks, output="numpy"))
    print(f"mask: image {alone:.2f} ms, image and mask {both:.2f}, of it {png:.2f} to decode the PNG: "
          f"{both / alone:.2f}, without that {(both - png) / alone:.2f}; {JOBS} jobs "
          f"{shared(folder, crop, parts={**image, **masks}):.3f} preparations")


def polygons(number, boxes):
    """An outline of 24 corners in each box, in tenths of a pixel, as COCO's are."""
    around = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    shapes = []
    for place, (left, top, right, bottom) in enumerate(boxes):
        far = np.random.default_rng((number, place)).uniform(.5, 1, 24)
        x, y = (left + right + (right - left) * far * np.cos(around)) / 2, \
            (top + bottom + (bottom - top) * far * np.sin(around)) / 2
        shapes.append([np.stack([x, y], 1).round(1).ravel().tolist()])
    return shapes


def boxed(asked, folder):
    """A list of photographs with boxes and polygons, and its rows."""
    rows = []
    for number, path in enumerate(photographs(asked, folder)):
        corners = np.random.default_rng(number).uniform(0, 1, (1 + number % 12, 2, 2)) * (480, 360)
        boxes = np.concatenate([corners.min(1), corners.max(1) + 10], 1).round(1).tolist()
        rows.append({"image": path, "boxes": boxes, "labels": [1 + i for i in range(len(boxes))],
                     "masks": polygons(number, boxes)})
    listed = os.path.join(folder, "boxes.jsonl")
    with open(listed, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return listed, rows


PARTS = {"image": "image", "boxes": "boxes", "labels": "labels"}


def beside(asked, name, listed, steps, dataset, collate, **options):
    """Prints what the operators take by what a DataLoader of the dataset takes."""
    options = {"labels": "none", "output": "torch", "parts": PARTS, **options}
    own, other = by_turns(asked, lambda: ours(asked, listed, steps, **options),
                          lambda: theirs(asked, dataset, collate))
    print(f"{name}: {own:.2f} ms, torchvision's v2 {other:.2f}: {own / other:.2f}; {JOBS} jobs "
          f"{shared(listed, steps, **options):.3f} preparations", flush=True)


def of_torchvision(rows, transforms, masks=False):
    """Samples as references/detection makes them: an image, and a dictionary of what belongs to it."""
    import torch
    from PIL import Image
    from torchvision import tv_tensors
    torch.set_num_threads(1)

    class Boxed(torch.utils.data.Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            row, image = rows[index], Image.open(rows[index]["image"]).convert("RGB")
            size = image.height, image.width
            target = {"boxes": tv_tensors.BoundingBoxes(row["boxes"], format="XYXY", canvas_size=size),
                      "labels": torch.tensor(row["labels"])}
            if masks:
                from pycocotools import mask
                drawn = [mask.decode(mask.merge(mask.frPyObjects(one, *size))) for one in row["masks"]]
                target["masks"] = tv_tensors.Mask(np.stack(drawn))
            return transforms(image, target)

    return Boxed()


def ragged(asked, folder):
    import torch
    from torchvision.transforms import v2
    listed, rows = boxed(asked, folder)
    sizes = list(range(240, 401, 32))
    steps = [larder.RandomChoice([larder.RandomShortestSize(size, 666) for size in sizes]),
             larder.RandomHorizontalFlip(), larder.ToDtype("float32", scale=True), larder.SanitizeBoundingBoxes()]
    transforms = v2.Compose([v2.ToImage(), v2.RandomShortestSize(sizes, 666), v2.RandomHorizontalFlip(),
                             v2.ToDtype(torch.float32, scale=True), v2.SanitizeBoundingBoxes(), v2.ToPureTensor()])
    beside(asked, "ragged", listed, steps, of_torchvision(rows, transforms), lambda samples: tuple(zip(*samples)),
           ragged=True)


def instances(asked, folder):
    import pycocotools  # noqa: F401
    import torch
    from torchvision.transforms import v2
    listed, rows = boxed(asked, folder)
    steps = [larder.RandomHorizontalFlip(), larder.ToDtype("float32", scale=True), larder.SanitizeBoundingBoxes()]
    transforms = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
                             v2.SanitizeBoundingBoxes(), v2.ToPureTensor()])
    beside(asked, "instances", listed, steps, of_torchvision(rows, transforms, masks=True),
           lambda samples: tuple(zip(*samples)), ragged=500 * 375,
           parts={**PARTS, "masks": larder.InstanceMasks("masks")})


def detection(asked, folder):
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    listed, rows = boxed(asked, folder)
    steps = [larder.RandomPhotometricDistort(), larder.RandomZoomOut(fill=[123, 117, 104]), larder.RandomIoUCrop(),
             larder.RandomHorizontalFlip(), larder.SanitizeBoundingBoxes(), larder.Resize([300, 300])]
    transforms = v2.Compose([
        v2.ToImage(), v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104)}),
        v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes(), v2.Resize([300, 300])])

    def collate(samples):
        return torch.stack([image for image, _ in samples]), [target for _, target in samples]

    beside(asked, "detection", listed, steps, of_torchvision(rows, transforms), collate)


def sound(asked, folder):
    import soundfile
    import torch
    torch.set_num_threads(1)
    os.makedirs(os.path.join(folder, "all"))
    paths = [os.path.join(folder, "all", f"{number:04}.flac") for number in range(asked.samples)]
    for number, path in enumerate(paths):
        noise = np.random.default_rng(number).normal(size=12 * RATE + 8)
        smooth = sum(noise[i:12 * RATE + i] for i in range(8)) / 8
        soundfile.write(path, (smooth / np.abs(smooth).max() * 20_000).astype(np.int16), RATE)

    class Clips(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, index):
            with soundfile.SoundFile(paths[index]) as file:
                file.seek(int(torch.randint(file.frames - SECONDS * RATE + 1, ())))
                return torch.from_numpy(file.read(SECONDS * RATE, dtype="float32"))

    pieces = [larder.RandomSegment(seconds=SECONDS), larder.ToMono(), larder.Resample(RATE)]
    own, other = by_turns(asked, lambda: ours(asked, folder, pieces, output="torch"),
                          lambda: theirs(asked, Clips(), torch.stack))
    print(f"sound: {own:.2f} ms, soundfile {other:.2f}: {own / other:.2f}; {JOBS} jobs "
          f"{shared(folder, pieces):.3f} decodes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--warm", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="mask,detection,ragged,instances,sound")
    asked = parser.parse_args()
    for name, case in (("mask", mask), ("detection", detection), ("ragged", ragged), ("instances", instances),
                       ("sound", sound)):
        if name not in asked.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(asked, folder)
            except ImportError as missing:
                print(f"{name}: left out: {missing}")
    print("load", *os.getloadavg())


if __name__ == "__main__":
    main()
