"""Do torchvision's own transforms, with the draws of a daemon, train as the daemon's batches do, step by step?

usage: training_losses.py LIBRARY [--steps 300] [--only clip]

Each example trains twice: on what a real daemon gives, and on what torchvision, Pillow and NumPy make of the same files
with the same draws in the same order. Its script runs as it is, with another Loader the second time. What was drawn is
asked from the library. All batches must be equal, and the losses of all steps to 1e-5. LARDER_BIN says where larderd
is. Exit 77: something is missing. Exit 1: batches or losses differ, or there are fewer steps."""

import argparse
import contextlib
import importlib
import json
import os
import sys
import tempfile
import unittest.mock
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[1:1] = [os.path.join(HERE, "preprocess"), os.path.join(SOURCE, "tests", "system", "python"),
                 os.path.join(SOURCE, "tests", "system", "python", "samples"),
                 os.path.join(SOURCE, "client", "python", "examples")]
import laws  # noqa: E402 - it ends a test that lacks a library
import numpy as np  # noqa: E402
import PIL.Image  # noqa: E402
import torch  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402

import instance_masks  # noqa: E402
import system  # noqa: E402
from augments_parity import distorted  # noqa: E402
from larder import _samples, _views  # noqa: E402
from pictures import encode, picture  # noqa: E402
from probe import Probe  # noqa: E402
from system import larder  # noqa: E402

EXAMPLES = "segmentation", "detection", "masks", "clip", "speech"
COUNT, BATCH, SEED, RATE = 40, 4, 11, 16_000
EQUAL = 1e-5
LOADER = larder.Loader  # whose place in the package others take
WIDTH, HEIGHT = 60, 44


# ── what torchvision makes of a sample ──

def alone(law):
    """A law for pixels and boxes of a sample, which leaves the labels."""
    return lambda parts, plan, values: {name: part if name == "labels" else law(part, plan, values)
                                        for name, part in parts.items()}


def colors(law):
    """A law for the image alone."""
    return lambda parts, plan, values: {**parts, "image": law(parts["image"], plan, values)}


def fill_of(part, values):
    """What the references put where the image has no pixel."""
    return 255 if isinstance(part, tv_tensors.Mask) else values.get("fill", 0)


def sanitized(parts, plan, values):
    """torchvision's own class finds the labels and the masks by what they are called, and drops them alike."""
    return {**parts, **v2.SanitizeBoundingBoxes(**values)({name: part for name, part in parts.items()
                                                          if name != "image"})}


def scaled(image, plan, values):
    """As ToTensor divides by 255, or as v2.ToDtype multiplies by 1 / 255. These may differ in the last bit, so that two
    proposals of a Mask R-CNN change places, and after some hundred steps the losses are others."""
    if values.get("reciprocal"):
        return F.to_dtype(F.to_image(image), torch.float32, scale=True)
    return F.to_image(image).to(torch.float32).div(255)


def resized_crop(part, plan, values):
    return laws.resized_crop(part, plan, F.InterpolationMode(values.get("interpolation", "bilinear")))


LAWS = {
    "random_resize": alone(lambda part, plan, values: laws.resize(part, plan)),
    "resize": alone(lambda part, plan, values: laws.resize(part, plan)),
    "random_resized_crop": alone(resized_crop),
    "random_horizontal_flip": alone(lambda part, plan, values: F.horizontal_flip(part)),
    "random_crop": alone(lambda part, plan, values: laws.crop(part, plan)),
    "random_iou_crop": alone(lambda part, plan, values: laws.iou_crop(part, plan)),
    "pad_if_smaller": alone(lambda part, plan, values: laws.smaller(part, (plan.out_height, plan.out_width),
                                                                    fill_of(part, values))),
    "random_zoom_out": alone(lambda part, plan, values: laws.zoom_out(part, plan, fill_of(part, values))),
    "random_photometric_distort": colors(lambda image, plan, values: distorted(image, plan)),
    "sanitize_bounding_boxes": sanitized,
    "to_dtype": colors(scaled),
    "normalize": colors(lambda image, plan, values: F.normalize(image, **values)),
}
WITHOUT_PLAN = ("sanitize_bounding_boxes", "to_dtype", "normalize")  # they do nothing to 8-bit pixels on the way


def transformed(probe, program, key, parts):
    """The parts of a sample, an image of Pillow and tv_tensors, through all steps of a program."""
    steps = program["steps"] if isinstance(program, dict) else program
    width, height = parts["image"].size
    if "boxes" in parts:
        probe.boxes(parts["boxes"].numpy())
    for place, step in enumerate(steps):
        (name, values), = step.items() if isinstance(step, dict) else [(step, {})]
        plan = probe.plan(program, key, width, height, op=place)
        if not plan.skip or name in WITHOUT_PLAN:
            parts = LAWS[name](parts, plan, values)
    return parts


# ── the loops, each once with either ──

class Recorded:
    """A Loader in a fixed order, which notes what it gave. What the script does with its batches it does not see."""

    def __init__(self, dataset, pipeline=None, batch_size=32, **options):
        self.loader = LOADER(dataset, pipeline, batch_size, **{**options, "shuffle": "strict", "seed": SEED,
                                                               "with_ids": True})
        self.program, self.batches = _views.to_json(pipeline, None), []
        if "parts" in options:
            samples = _samples.Samples(options["parts"], None, False, options.get("ragged"))
            self.program = samples.program(pipeline, None)

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def __iter__(self):
        epoch = self.loader.epoch
        for batch in self.loader:
            if isinstance(batch, dict):
                index = batch.pop("index")
            else:
                index, batch = batch[2], (*batch[:2], *batch[3:])
            self.batches.append((epoch, index.tolist(), batch))
            yield batch


class Twin:
    """What stands in the place of the Loader the second time: epochs of what `make` makes of (key, index) and collates.
    """

    def __init__(self, probe, recorded, program, make, collate):
        self.probe, self.batches, self.program = probe, recorded.batches, program
        self.dataset = recorded.loader._job.info.fingerprint
        self.make, self.collate, self.epoch, self.worst = make, collate, 0, 0.0

    def __iter__(self):
        for epoch, indices, theirs in self.batches:
            if epoch == self.epoch:
                keys = [self.probe.key(self.program, SEED, self.dataset, epoch, index) for index in indices]
                made = self.collate([self.make(self.program, key, index) for key, index in zip(keys, indices)])
                yield self.laid(made, theirs)
        self.epoch += 1

    def laid(self, made, theirs):
        """The same numbers in memory as the daemon's batch lies: torch's convolutions sum in another order for images
        in channels-last memory, and after a hundred steps the losses are others. The greatest difference is noted."""
        if isinstance(made, dict):
            return {name: self.laid(made[name], theirs[name]) for name in made}
        if isinstance(made, (list, tuple)):
            return type(made)(self.laid(one, other) for one, other in zip(made, theirs))
        if not isinstance(made, torch.Tensor):
            return made
        if made.shape != theirs.shape or made.dtype != theirs.dtype:
            self.worst = float("inf")
            return made
        if not torch.equal(made, theirs):
            apart = (made.double() - theirs.double()).abs().nan_to_num(nan=float("inf"))
            self.worst = max(self.worst, apart.max().item())
        return torch.empty_like(theirs).copy_(made)


def run(name, arguments, loader):
    """The losses of all steps of an example that gets its batches from loader(…)."""
    losses, backward = [], torch.Tensor.backward

    def noted(loss):
        losses.append(loss.item())
        backward(loss)

    example = importlib.import_module(name)
    with unittest.mock.patch.object(larder, "Loader", loader), \
            unittest.mock.patch.object(torch.Tensor, "backward", noted), \
            unittest.mock.patch.object(example, "report", lambda loader: None), \
            unittest.mock.patch.object(sys, "argv", [name, *arguments]), \
            open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        example.main()
    return losses


class Losses:
    def __init__(self, probe, steps, folder):
        self.probe, self.steps, self.folder = probe, steps, folder
        self.failures = []

    def path(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, data, *names):
        with open(self.path(*names), "wb") as file:
            file.write(data)
        return self.path(*names)

    def listed(self, name, row):
        rows = [{"image": self.write(encode(self.image(index), "JPEG", quality=92), name, f"{index:03}.jpg"),
                 **row(index)} for index in range(COUNT)]
        return self.write("".join(json.dumps(one) + "\n" for one in rows).encode(), f"{name}.jsonl")

    @staticmethod
    def image(index):
        return picture(WIDTH + 3 * (index % 5), HEIGHT + 5 * (index % 3), index)

    @staticmethod
    def opened(*names):
        return PIL.Image.open(os.path.join(*names)).convert("RGB")

    def check(self, name, arguments, make, collate, bounds=None):
        """Runs an example with both. `bounds`: what the daemon puts into the program of what the dataset has."""
        epochs = -(-self.steps // (COUNT // BATCH))
        arguments = [*arguments, "--epochs", str(epochs), "--batch-size", str(BATCH)]
        made = []

        def record(*given, **options):
            made.append(Recorded(*given, **options))
            return made[0]

        ours = run(name, arguments, record)
        program = json.loads(made[0].program)
        for part, values in (bounds or {}).items():
            program["parts"][part].update(values)
        twin = Twin(self.probe, made[0], program, make, collate)
        theirs = run(name, arguments, lambda *given, **options: twin)
        made[0].close()
        worst = max(abs(a - b) for a, b in zip(ours, theirs))
        if twin.worst:
            self.failures.append(f"{name}: the batches differ by {twin.worst:.2g}")
        print(f"{name}: {len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}; losses differ by {worst:.2g} at most, "
              f"numbers of samples by {twin.worst:.2g}", flush=True)
        if not (len(ours) == len(theirs) >= self.steps and worst <= EQUAL and ours[0] != ours[-1]):
            first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if abs(a - b) > EQUAL), None)
            self.failures.append(f"{name}: {len(ours)} and {len(theirs)} steps; the first that differs is {first}")

    # ── each example ──

    def segmentation(self):
        for index in range(COUNT):
            image = self.image(index)
            numbers = np.random.default_rng(index).integers(0, 21, (image.height // 4, image.width // 4), np.uint8)
            mask = PIL.Image.fromarray(numbers).resize(image.size, PIL.Image.Resampling.NEAREST)
            self.write(encode(image, "JPEG", quality=92), "seg", "images", f"{index:03}.jpg")
            self.write(encode(mask, "PNG"), "seg", "masks", f"{index:03}.png")

        def make(program, key, index):
            mask = np.array(PIL.Image.open(self.path("seg", "masks", f"{index:03}.png")))
            return transformed(self.probe, program, key, {
                "image": self.opened(self.folder, "seg", "images", f"{index:03}.jpg"),
                "mask": tv_tensors.Mask(torch.from_numpy(mask))})

        self.check("train_segmentation", [self.path("seg"), "--side", "24"], make, lambda samples: {
            name: torch.stack([one[name].as_subclass(torch.Tensor) for one in samples]).to(dtype)
            for name, dtype in (("image", torch.float32), ("mask", torch.int64))})

    def detection(self):
        def boxes_of(index):
            corners = np.random.default_rng(1000 + index).uniform(0, 1, (1 + index % 4, 2, 2)) * (WIDTH, HEIGHT)
            return np.concatenate([corners.min(1), corners.max(1) + 2], 1).round(2)

        path = self.listed("det", lambda index: {"boxes": boxes_of(index).tolist(),
                                                 "labels": [1 + (index + i) % 9 for i in range(1 + index % 4)]})

        def make(program, key, index):
            image = self.opened(self.folder, "det", f"{index:03}.jpg")
            boxes = tv_tensors.BoundingBoxes(torch.from_numpy(boxes_of(index).astype(np.float32)), format="XYXY",
                                             canvas_size=(image.height, image.width))
            labels = torch.tensor([1 + (index + i) % 9 for i in range(1 + index % 4)])
            return transformed(self.probe, program, key, {"image": image, "boxes": boxes, "labels": labels})

        self.check("train_detection", [path, "--side", "48", "--classes", "10"], make, lambda samples: {
            "image": torch.stack([one["image"].as_subclass(torch.Tensor) for one in samples]),
            "boxes": [one["boxes"].as_subclass(torch.Tensor) for one in samples],
            "labels": [one["labels"] for one in samples]},
            {"boxes": {"most": 4}, "labels": {"most": 4, "width": 1}})

    def masks(self):
        """Images that differ in size, in lists, and masks of polygons and runs, as pycocotools draws them."""
        def instances_of(index):
            rng, image = np.random.default_rng(2000 + index), self.image(index)
            return [instance_masks.instance(rng, image.height, image.width) for _ in range(index % 4)]

        def boxes_of(index):
            corners = np.random.default_rng(1000 + index).uniform(0, 1, (index % 4, 2, 2)) * (WIDTH, HEIGHT)
            return np.concatenate([corners.min(1), corners.max(1) + 2], 1).round(2).reshape(-1, 4)

        path = self.listed("masks", lambda index: {
            "boxes": boxes_of(index).tolist(), "labels": [1 + (index + i) % 9 for i in range(index % 4)],
            "masks": [value for value, _ in instances_of(index)]})

        def make(program, key, index):
            image = self.opened(self.folder, "masks", f"{index:03}.jpg")
            size = image.height, image.width
            boxes = tv_tensors.BoundingBoxes(torch.from_numpy(boxes_of(index).astype(np.float32)), format="XYXY",
                                             canvas_size=size)
            masks = np.array([mask for _, mask in instances_of(index)], np.uint8).reshape(-1, *size)
            return transformed(self.probe, program, key, {
                "image": image, "boxes": boxes, "masks": tv_tensors.Mask(torch.from_numpy(masks)),
                "labels": torch.tensor([1 + (index + i) % 9 for i in range(index % 4)], dtype=torch.int64)})

        self.check("train_mask_rcnn", [path, "--classes", "10"], make, lambda samples: {
            name: [one[name].as_subclass(torch.Tensor) for one in samples]
            for name in ("image", "boxes", "labels", "masks")},
            {"boxes": {"most": 3}, "labels": {"most": 3, "width": 1}, "masks": {"most": 3}})

    def clip(self):
        path = self.listed("clip", lambda index: {"caption": f"a photo of number {index}"})

        def make(program, key, index):
            image = self.opened(self.folder, "clip", f"{index:03}.jpg")
            return transformed(self.probe, program, key, {"image": image})["image"], f"a photo of number {index}"

        self.check("train_clip", [path, "--side", "32"], make, lambda samples: (
            torch.stack([image.as_subclass(torch.Tensor) for image, _ in samples]), (),
            [text for _, text in samples]))

    def speech(self):
        seconds = 0.125
        for index in range(COUNT):
            frames = 3000 + 170 * index
            noise = np.random.default_rng(index).normal(size=frames).cumsum()
            data = (noise / np.abs(noise).max() * 20_000).astype("<i2")
            with wave.open(self.path("clips", "all", f"{index:03}.wav"), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", ""))
                file.writeframes(data.tobytes())

        def make(program, key, index):
            with wave.open(self.path("clips", "all", f"{index:03}.wav")) as file:
                data = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32_768
            names = [next(iter(step)) if isinstance(step, dict) else step for step in program]
            count, at = int(seconds * RATE), names.index("random_gain")
            first, _ = self.probe.stream(key, names.index("random_segment"), len(data) - count + 1)
            _, (chance, drawn) = self.probe.stream(key, at)
            least, most, p = ({"p": 0.5, **program[at]["random_gain"]}[name] for name in ("min_db", "max_db", "p"))
            gain = np.float32(10 ** ((least + (most - least) * drawn) / 20) if chance < p else 1)
            return torch.from_numpy(data[None, first:first + count] * gain)

        self.check("train_speech", [self.path("clips"), "--seconds", str(seconds)], make,
                   lambda samples: (torch.stack(samples), ()))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("library")
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--only", choices=EXAMPLES)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory(prefix="larder-") as folder:
        daemon = system.Daemon(folder)
        os.environ["LARDER_SOCKET"] = daemon.socket
        try:
            losses = Losses(Probe(asked.library), asked.steps, folder)
            for name in EXAMPLES:
                if asked.only in (None, name):
                    getattr(losses, name)()
        finally:
            daemon.stop()
    for failure in losses.failures:
        print("FAILED", failure)
    return 1 if losses.failures else 0


if __name__ == "__main__":
    sys.exit(main())
