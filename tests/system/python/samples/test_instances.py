"""Masks of instances, polygons and runs of pixels: drawn as pycocotools draws them, and moved with the image."""

import importlib.util
import json
import os
import subprocess
import unittest

import above  # noqa: F401
import instance_masks
import numpy as np
from beside import Beside
from system import BIN, larder, main
from test_one_size import noise, write_png

COUNT = 40
PARTS = {"image": "image", "boxes": "boxes", "labels": "labels", "masks": larder.InstanceMasks("masks")}


def size_of(index):
    return 20 + index * 7 % 41, 15 + index * 11 % 53


def instances_of(index):
    """Values and masks of a sample: one has none, and one more than are drawn together."""
    rng = np.random.default_rng(index)
    count = 30 if index == 7 else index % 5
    return [instance_masks.instance(rng, *size_of(index)) for _ in range(count)]


def flat(index):
    """Numbers 1 and up for each pixel of instances that do not overlap, and the instances as runs."""
    height, width = size_of(index)
    numbers = np.zeros((height, width), np.uint8)
    for number, (_, mask) in enumerate(instances_of(index)):
        numbers[mask > 0] = number + 1
    runs = []
    for number in range(1, len(instances_of(index)) + 1):
        line = (numbers.T.ravel() == number).astype(np.int8)
        edges = np.flatnonzero(np.diff(line, prepend=np.int8(0))).tolist()
        runs.append({"size": [height, width],
                     "counts": np.diff([0, *edges, line.size]).tolist()})
    return numbers, runs


def box_of(number):
    """A box that says whose it is by its size, so that what drops some drops certain ones."""
    return [2, 2, 8 + number, 9]


class Instances(Beside):
    COUNT = COUNT

    def setUp(self):
        super().setUp()
        self.served = self.daemon("memory: {arena: 128MiB}\njobs: {quota: 100%}\n")
        self.data = os.path.join(self.folder, "data")
        os.makedirs(self.data)
        for index in range(COUNT):
            write_png(os.path.join(self.data, f"{index}.png"), noise(index, *size_of(index), 3))

    def listed(self, rows, name="list.jsonl"):
        path = os.path.join(self.data, name)
        with open(path, "w") as file:
            for index, row in enumerate(rows):
                count = len(row["masks"])
                file.write(json.dumps({"image": f"{index}.png", "boxes": [box_of(i) for i in range(count)],
                                       "labels": [100 * index + i for i in range(count)], **row}) + "\n")
        return path

    def batches(self, path, steps, parts=PARTS, **options):
        options = {"labels": "none", "batch_size": 7, "ragged": True, "bad_samples": "error", **options}
        with self.loader(self.served, path, pipeline=steps, parts=parts, **options) as loader:
            yield from loader

    def test_as_they_are(self):
        """Each mask has the pixels of its polygons and runs, to the last one, as uint8 or bool, copied or not."""
        wanted = [instances_of(index) for index in range(COUNT)]
        path = self.listed({"masks": [value for value, _ in one]} for one in wanted)
        for dtype, zero_copy in (("uint8", False), ("bool", False), ("bool", True)):
            parts, seen = {**PARTS, "masks": larder.InstanceMasks("masks", dtype=dtype)}, 0
            for batch in self.batches(path, [], parts, zero_copy=zero_copy):
                named, indices = (batch[0], batch[-1]) if zero_copy else (batch, batch["index"])
                for index, masks in zip(indices.tolist(), named["masks"]):
                    self.assertEqual((masks.shape, masks.dtype),
                                     ((len(wanted[index]), *size_of(index)), np.dtype(dtype)))
                    for mask, (_, pixels) in zip(masks, wanted[index]):
                        np.testing.assert_array_equal(mask, pixels)
                    seen += 1
                del batch, named, masks
            self.assertEqual(seen, COUNT)

    def test_pycocotools(self):
        """The test's own masks are what pycocotools makes of the same polygons and runs."""
        try:
            import pycocotools  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("there is no pycocotools") from None
        for seed in range(1000):
            rng = np.random.default_rng(seed)
            height, width = rng.integers(1, 60, 2).tolist()
            value, mask = instance_masks.instance(rng, height, width)
            np.testing.assert_array_equal(mask, instance_masks.by_pycocotools(value, height, width), str(value))

    def test_operators(self):
        """Masks of instances are moved as a mask of numbers is, which lies beside them, by the same draws; and what
        drops a box drops its mask."""
        rows = []
        for index in range(COUNT):
            numbers, runs = flat(index)
            write_png(os.path.join(self.data, f"flat{index}.png"), numbers)
            rows.append({"masks": runs, "mask": f"flat{index}.png"})
        path = self.listed(rows)
        parts = {**PARTS, "mask": larder.Mask("mask", fill=0)}
        drop, flip = larder.SanitizeBoundingBoxes(min_size=4), larder.RandomHorizontalFlip()
        lists = {True: [[larder.RandomShortestSize(24, 60), flip, drop],
                        [larder.RandomPhotometricDistort(), larder.RandomZoomOut(fill=9, side_range=[1, 1.5]),
                         larder.RandomIoUCrop(), flip, drop],
                        [larder.RandomVerticalFlip(), larder.ScaleJitter([40, 50], [.5, 2]), larder.GaussianBlur(3),
                         drop, larder.ToDtype("float32", scale=True)]],
                 False: [[larder.RandomResizedCrop([30, 21]), flip, drop],
                         [larder.PadIfSmaller(33), larder.RandomCrop(33), drop, larder.Resize([40, 17]),
                          larder.RandomErasing(1.0)]]}
        dropped, whole = 0, sum(len(row["masks"]) for row in rows)
        for ragged, pipelines in lists.items():
            for steps in pipelines:
                kept = 0
                for batch in self.batches(path, steps, parts, ragged=ragged):
                    for index, mask, masks, boxes, labels in zip(batch["index"].tolist(), batch["mask"], batch["masks"],
                                                                 batch["boxes"], batch["labels"]):
                        own = [label - 100 * index for label in labels.tolist()]
                        np.testing.assert_array_equal(masks, mask == np.array(own).reshape(-1, 1, 1) + 1)
                        self.assertEqual(len(boxes), len(masks))
                        kept += len(own)
                self.assertGreater(kept, 0)
                dropped += whole - kept
        self.assertGreater(dropped, 0)

    def test_coco(self):
        """larder.index writes the segmentations of COCO's file into its list, if they are wanted."""
        annotations = [{"id": index, "image_id": index, "category_id": 1, "bbox": [1, 1, 9, 9], "iscrowd": 0, "area": 1,
                        "segmentation": value} for index in range(COUNT) for value, _ in instances_of(index)]
        source, listed = os.path.join(self.folder, "instances_data.json"), os.path.join(self.folder, "coco.jsonl")
        with open(source, "w") as file:
            json.dump({"images": [{"id": index, "file_name": f"{index}.png"} for index in range(COUNT)],
                       "annotations": annotations, "categories": [{"id": 1}]}, file)
        self.assertEqual(larder.index(source, listed, masks=True), COUNT)
        for batch in self.batches(listed, []):
            for index, masks in zip(batch["index"].tolist(), batch["masks"]):
                self.assertEqual(len(masks), len(instances_of(index)))
                for mask, (_, wanted) in zip(masks, instances_of(index)):
                    np.testing.assert_array_equal(mask, wanted)
        larder.index(source, listed)
        with open(listed) as file:
            self.assertNotIn("masks", file.read())
        with self.assertRaisesRegex(larder.LarderError, "COCO's segmentations"):
            larder.index(self.data, os.path.join(self.folder, "list.csv"), masks=True)

    def test_padded(self):
        """With padded=True a batch has one array, as large as its largest, and says how many masks are whose."""
        path = self.listed({"masks": [value for value, _ in instances_of(index)]} for index in range(COUNT))
        parts = {"image": "image", "instances": larder.InstanceMasks("masks", padded=True)}
        for ragged, steps in ((True, []), (False, [larder.Resize([12, 14])])):
            for batch in self.batches(path, steps, parts, ragged=ragged):
                counts = [len(instances_of(index)) for index in batch["index"].tolist()]
                self.assertEqual(batch["instances_count"], counts)
                self.assertGreaterEqual(batch["instances"].shape[1], max(counts))
                for masks, count, image in zip(batch["instances"], counts, batch["image"]):
                    self.assertFalse(masks[count:].any() or masks[:, image.shape[0]:].any())

    def test_bad_samples(self):
        """What is no mask is refused with its place; a mask of another image's size costs its sample."""
        sound = [1, 1, 5, 1, 5, 5]
        for value, words in (([[1, 2, 3]], "x, y, x, y"), ([["a", 1, 2, 3]], "no number"),
                             ([[1e6, 0, 1, 1, 2, 2]], "a polygon's corner"), ("a", "no list of polygons"),
                             ({"size": [20, 15], "counts": [299]}, "as long together"),
                             ({"size": [20, 15], "counts": [301]}, "as long together"),
                             ({"size": [20, 15], "counts": "\x7f"}, "a text"),
                             ({"size": [20, 15], "counts": [1.5]}, "no whole number"),
                             ({"size": [20], "counts": [20]}, "its size"), ({"size": [20, 15]}, "its counts"),
                             ([sound] * 5000, "polygons in all")):
            with self.assertRaises(larder.LarderError) as caught:
                next(self.batches(self.listed([{"masks": [[sound]]}, {"masks": [[], value]}]), []))
            for word in (words, "row 2", "its mask 1"):
                self.assertIn(word, str(caught.exception))
        for bad, words in (({"masks": [{"size": [9, 9], "counts": [81]}]}, "mask 0 is of an image of 9 × 9 pixels"),
                           ({"masks": [[sound]], "boxes": [], "labels": []}, "it has 1 rows, and there are 0 boxes")):
            path = self.listed([{"masks": [[sound]]}] * 20 + [bad] + [{"masks": []}] * 19)
            seen = [index for batch in self.batches(path, [], bad_samples="skip") for index in batch["index"].tolist()]
            self.assertEqual(sorted(seen), [index for index in range(COUNT) if index != 20])
            self.assertTrue(self.served.logged(words), words)

    def test_packed(self):
        """A store has the polygons and runs, and gives the same masks."""
        path = self.listed({"masks": [value for value, _ in instances_of(index)]} for index in range(COUNT))
        store = os.path.join(self.folder, "packed")
        text = path + "#labels=none#parts=image=image&masks={masks}"
        subprocess.run([os.path.join(BIN, "larder"), "pack", text, store], check=True, capture_output=True)
        parts = {"image": larder.Image(), "masks": larder.InstanceMasks(most=30)}
        for batch in self.batches(store, [], parts, labels=None, with_paths=True):
            for at, masks in zip(batch["path"], batch["masks"]):
                index = int(os.path.splitext(os.path.basename(at))[0])
                np.testing.assert_array_equal(masks, np.array([mask for _, mask in instances_of(index)], np.uint8)
                                              .reshape(-1, *size_of(index)))

    def test_the_example(self):
        """The example of detection with masks trains on all images and has all masks whose boxes stay."""
        if not importlib.util.find_spec("torchvision"):
            raise unittest.SkipTest("there is no torchvision")
        path = self.listed({"masks": [[[2, 2, 9, 2, 9, 9]]] * (index % 3), "labels": [1 + i for i in range(index % 3)]}
                           for index in range(COUNT))
        printed = self.example(self.served, "train_mask_rcnn.py", path, "--side", "32", "--pixels", "6000",
                               "--batch-size", "10", "--epochs", "1")
        self.assertIn(f"epoch 0: {COUNT} images with ", printed)


if __name__ == "__main__":
    main()
