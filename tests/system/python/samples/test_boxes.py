"""Boxes, labels and points beside images: made with the image, and given as each sample's own rows."""

import io
import json
import os
import subprocess
import tarfile

import above  # noqa: F401
import numpy as np
from beside import CROP, HEIGHT, LEFT, TOP, WIDTH, Beside
from system import BIN, larder, main

COUNT = 40
PARTS = {"image": "image", "boxes": "boxes", "labels": "labels"}


def boxes_of(index):
    """The boxes of a sample: as many as nothing else says, at places that no other has."""
    return [[index % 7 + 3 * i, 2 * i + .5, 40 + index % 11 + i, 30 + 5 * i] for i in range(index % 5)]


def labels_of(index):
    return [100 * index + i for i in range(index % 5)]


def cut(boxes):
    """What CROP makes of boxes."""
    moved = np.array(boxes, np.float32).reshape(-1, 4) - np.array([LEFT, TOP] * 2, np.float32)
    return np.clip(moved, 0, 50)


class Boxes(Beside):
    COUNT = COUNT

    def setUp(self):
        super().setUp()
        self.served = self.daemon()

    def listed(self, name="boxes.jsonl", **columns):
        """A list of all images with these columns, each a function of the sample's index."""
        columns = columns or {"boxes": boxes_of, "labels": labels_of}
        rows = ({"image": path, **{column: value(index) for column, value in columns.items()}}
                for index, path in enumerate(self.jpegs))
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def batches(self, path, steps, parts, **options):
        with self.loader(self.served, path, pipeline=steps, parts=parts, batch_size=8, shuffle="none",
                         **options) as loader:
            return list(loader)

    def refused(self, words, path, parts=PARTS, steps=CROP):
        with self.assertRaises(larder.LarderError) as caught:
            self.batches(path, steps, parts)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_own_rows(self):
        """A batch has of each sample its own boxes and labels, cut as its image is; padded ones have a count."""
        seen = 0
        for batch in self.batches(self.listed(), CROP, PARTS):
            for index, boxes, labels in zip(batch["index"].tolist(), batch["boxes"], batch["labels"]):
                np.testing.assert_array_equal(boxes, cut(boxes_of(index)))
                self.assertEqual(labels.tolist(), labels_of(index))
                self.assertEqual((boxes.dtype, labels.dtype), (np.float32, np.int64))
                seen += 1
        self.assertEqual(seen, COUNT)
        padded = {"boxes": larder.Boxes("boxes", padded=True), "image": "image"}
        for batch in self.batches(self.listed(), CROP, padded):
            self.assertEqual(batch["boxes"].shape, (8, 4, 4))
            self.assertEqual(batch["boxes_count"], [index % 5 for index in batch["index"].tolist()])
            for index, boxes in zip(batch["index"].tolist(), batch["boxes"]):
                np.testing.assert_array_equal(boxes[:index % 5], cut(boxes_of(index)))
                self.assertFalse(boxes[index % 5:].any())

    def test_paths_and_formats(self):
        """Boxes may lie in a dictionary, or in a list of them, and be width and height."""
        def objects(index):
            return {"bbox": [[x, y, right - x, bottom - y] for x, y, right, bottom in boxes_of(index)],
                    "categories": labels_of(index)}

        def each(index):
            return [dict(zip(("bbox", "categories"), both)) for both in zip(*objects(index).values())]

        parts = {"image": "image", "boxes": larder.Boxes("objects.bbox", format="XYWH"),
                 "labels": "objects.categories"}
        for name, column in (("one", objects), ("many", each)):
            with self.subTest(name):
                for batch in self.batches(self.listed(f"{name}.jsonl", objects=column), CROP, parts):
                    for index, boxes, labels in zip(batch["index"].tolist(), batch["boxes"], batch["labels"]):
                        np.testing.assert_allclose(boxes, cut(boxes_of(index)), atol=1e-5)
                        self.assertEqual(labels.tolist(), labels_of(index))

    def test_dropped_boxes(self):
        """SanitizeBoundingBoxes drops boxes that the crop has emptied, and the labels of these alone."""
        steps = [larder.CenterCrop([20, 50]), larder.SanitizeBoundingBoxes(min_size=2)]
        for batch in self.batches(self.listed(), steps, PARTS):
            for index, boxes, labels in zip(batch["index"].tolist(), batch["boxes"], batch["labels"]):
                moved = np.array(boxes_of(index), np.float32).reshape(-1, 4) - \
                    np.array([LEFT, (HEIGHT - 20) // 2] * 2, np.float32)
                moved = np.clip(moved, 0, [50, 20, 50, 20])
                kept = ((moved[:, 2:] - moved[:, :2]) >= 2).all(1)
                np.testing.assert_array_equal(boxes, moved[kept])
                self.assertEqual(labels.tolist(), np.array(labels_of(index), int)[kept].tolist())

    def test_points_and_columns(self):
        """Points keep their groups, and columns of the list come beside the parts in one batch."""
        path = self.listed(points=lambda index: [[[index, i], [i, 5]] for i in range(index % 3)],
                           caption=lambda index: f"no {index}")
        parts = {"image": "image", "points": "points"}
        for batch in self.batches(path, [larder.RandomHorizontalFlip(1), *CROP], parts, columns=["caption"]):
            self.assertEqual(batch["caption"], [f"no {index}" for index in batch["index"].tolist()])
            for index, points in zip(batch["index"].tolist(), batch["points"]):
                self.assertEqual(points.shape, (index % 3, 2, 2))
                for i, ((x, y), _) in enumerate(points.tolist()):
                    self.assertEqual((x, y), (WIDTH - 1 - index - LEFT, i - TOP))

    def test_packed(self):
        """A store has the rows, too; the most that a sample has is then said."""
        store = os.path.join(self.folder, "store")
        subprocess.run([os.path.join(BIN, "larder"), "pack",
                        self.listed() + "#parts=image=image&boxes=[boxes]&labels=[labels]", store], check=True,
                       stdout=subprocess.DEVNULL)
        self.refused(("part boxes", "most=N"), store, ("image", "boxes", "labels"))
        parts = {"image": None, "boxes": larder.Boxes(most=4), "labels": larder.Labels(most=4)}
        seen = [labels.tolist() for batch in self.batches(store, CROP, parts) for labels in batch["labels"]]
        self.assertEqual(sorted(seen), sorted(labels_of(index) for index in range(COUNT)))

    def test_shards(self):
        """Boxes and their labels are in the .json beside the image of a shard, by their names or by their paths."""
        shard = os.path.join(self.folder, "s-0.tar")
        with tarfile.open(shard, "w") as tar:
            for index, path in enumerate(self.jpegs):
                tar.add(path, f"{index:03}.jpg")
                objects = [{"bbox": box, "class": label} for box, label in zip(boxes_of(index), labels_of(index))]
                said = {"boxes": boxes_of(index), "labels": labels_of(index), "objects": objects}
                data = json.dumps(said if index % 5 else {}).encode()  # without a word as without boxes
                member = tarfile.TarInfo(f"{index:03}.json")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        for boxes, labels in ("json:boxes", "json:labels"), ("json:objects.bbox", "json:objects.class"):
            parts = {"image": "jpg", "boxes": boxes, "labels": labels}
            seen = 0
            for batch in self.batches(shard, CROP, parts, labels="none"):
                for index, made, numbers in zip(batch["index"].tolist(), batch["boxes"], batch["labels"]):
                    np.testing.assert_array_equal(made, cut(boxes_of(index)))
                    self.assertEqual(numbers.tolist(), labels_of(index))
                    seen += 1
            self.assertEqual(seen, COUNT)

    def test_memory(self):
        """The rows of all parts count among the columns' memory, which has its limit."""
        self.served.stop()
        self.served = self.daemon("limits:\n  columns: 1MiB\ncatalog:\n  checkpoint: none\n")
        path = self.listed(boxes=lambda index: [[1, 2, 3, 4]] * 400, labels=lambda index: [1] * 400)
        with self.loader(self.served, path, pipeline=CROP, parts=PARTS, batch_size=8):
            used = self.served.status()["memory"]["columns"]["used_bytes"]
        self.assertGreaterEqual(used, COUNT * 400 * 5 * 8)
        self.assertLess(used, COUNT * 400 * 5 * 8 * 1.1)
        more = self.listed("more.jsonl", boxes=lambda index: [[1, 2, 3, 4]] * 700, labels=lambda index: [1] * 700)
        self.refused(("part labels", "limits.columns leaves"), more)

    def test_refused(self):
        """What is no box is refused when the list is opened, with the list, the row and the reason."""
        big = 10**400
        for words, cell in ((("row 3", "no number"), [["a", 1, 2, 3]]),
                            (("row 3", "has 3 numbers", "rows before it 4"), None),
                            (("row 3", "no JSON"), "text"), (("row 3", "no list"), {"a": 1}),
                            (("row 3", "too large"), [[1e39, 0, 1, 1]]), (("row 3", "no number"), [[big, 0, 1, 1]]),
                            (("row 3", "70000 rows", "65536"), [[0, 0, 1, 1]] * 70000),
                            (("row 3", "levels deep"), [[[[[[1]]]]]])):
            with self.subTest(words):
                cells = {1: [[0, 0, 1, 1]], 2: cell or [[1, 2, 3]]}
                path = self.listed(boxes=lambda index, cells=cells: cells.get(index, []))
                self.refused((path, "part boxes", *words), path, {"image": "image", "boxes": "boxes"})
        for number in ("NaN", "Infinity", "1e999"):
            path = self.write("odd.jsonl", f'{{"image": "{self.jpegs[0]}", "boxes": [[0, 0, 1, {number}]]}}\n')
            self.refused((f"{path}:1:",), path, {"image": "image", "boxes": "boxes"})
        self.refused(("no column \"absent\"",), self.listed(), {"image": "image", "boxes": "absent"})
        self.refused(("part labels", "not whole"), self.listed(boxes=boxes_of, labels=lambda index: [.5]), PARTS)
        self.refused(("part labels", "too large"),
                     self.listed(boxes=boxes_of, labels=lambda index: [2**53 + 1]), PARTS)
        self.refused(("one part of boxes",), self.listed(), {**PARTS, "boxes_too": "boxes"})
        self.refused(("sanitize_bounding_boxes", "no part is boxes"), self.listed(), {"image": "image"},
                     [*CROP, larder.SanitizeBoundingBoxes()])
        self.refused(("random_rotation", "could follow"), self.listed(), PARTS, [larder.RandomRotation(5), *CROP])

    def test_odd_boxes(self):
        """Boxes that are swapped or outside are as torchvision has them, and a sample without a label for each box is
        bad and costs itself alone."""
        odd = [[-5, 90, 200, -7], [60, 50, 20, 10]]
        for batch in self.batches(self.listed(boxes=lambda index: odd), CROP, {"image": "image", "boxes": "boxes"}):
            for boxes in batch["boxes"]:
                np.testing.assert_array_equal(boxes, cut(odd))
        path = self.listed(boxes=lambda index: [[1, 2, 3, 4]], labels=lambda index: [7] * (1 + (index == 4)))
        seen = sum((batch["index"].tolist() for batch in self.batches(path, CROP, PARTS)), [])
        self.assertEqual(sorted(seen), [index for index in range(COUNT) if index != 4])

    def test_coco(self):
        """larder.index makes a list of COCO's file, whose boxes a Loader has with their categories and more."""
        os.symlink(os.path.dirname(self.jpegs[0]), os.path.join(self.folder, "some2017"))
        names = [os.path.basename(path) for path in self.jpegs
                 if os.path.dirname(path) == os.path.dirname(self.jpegs[0])]
        whole = {"info": {}, "images": [{"id": 90 + index, "file_name": name, "width": WIDTH, "height": HEIGHT}
                                        for index, name in enumerate(names)],
                 "annotations": [{"id": i, "image_id": 90 + index, "category_id": 5 + i, "area": 10.5 * i,
                                  "iscrowd": i % 2, "bbox": [3, 4, 20 + i, 30], "segmentation": [[1, 2, 3, 4]] * 3}
                                 for index in reversed(range(len(names))) for i in range(index % 4)],
                 "categories": [{"id": 5 + i, "name": f"c{i}"} for i in range(3)]}
        source = self.write("instances_some2017.json", json.dumps(whole))
        listed = os.path.join(self.folder, "coco.jsonl")
        self.assertEqual(larder.index(source, listed), len(names))
        parts = {"image": "image", "boxes": "boxes", "labels": "labels", "area": larder.Labels("area", "float32"),
                 "iscrowd": larder.Labels("iscrowd")}
        for batch in self.batches(listed, CROP, parts, columns=["image_id"]):
            for i, index in enumerate(batch["index"].tolist()):
                count = index % 4
                np.testing.assert_array_equal(batch["boxes"][i], cut([[3, 4, 23 + i, 34] for i in range(count)]))
                self.assertEqual(batch["labels"][i].tolist(), [5 + i for i in range(count)])
                self.assertEqual(batch["area"][i].tolist(), [10.5 * i for i in range(count)])
                self.assertEqual(batch["iscrowd"][i].tolist(), [i % 2 for i in range(count)])
                self.assertEqual(batch["image_id"][i], 90 + index)

    def test_odd_coco(self):
        """What COCO's file says twice, or of nothing that it has, is refused with its place; an empty box is none."""
        os.mkdir(os.path.join(self.folder, "some2017"))
        listed = os.path.join(self.folder, "coco.jsonl")

        def index(text):
            return larder.index(self.write("instances_some2017.json", text), listed)

        def whole(images=((1, "a.jpg"),), **annotation):
            box = {"image_id": 1, "category_id": 5, "bbox": [3, 4, 0, 30], **annotation}
            return json.dumps({"images": [{"id": number, "file_name": name} for number, name in images],
                               "annotations": [{**box, "bbox": [0, 0, 1, 1]}, box], "categories": [{"id": 5}]})

        self.assertEqual(index(whole()), 1)
        for words, text in (("no JSON", "{\"images\": ["), ("not COCO's", "{\"images\": []}"),
                            ("annotation 1 has no bbox", whole(bbox=None)),
                            ("annotation 1 has no bbox", whole(bbox=[0, 0, 1, float("nan")])),
                            ("annotation 1 has a bbox that is -2 wide", whole(bbox=[3, 4, -2, 30])),
                            ("annotation 0 is of image 7", whole(image_id=7)),
                            ("annotation 0 is of image \\[1\\]", whole(image_id=[1])),
                            ("annotation 0 is of category 6", whole(category_id=6)),
                            ("image 1 has the id 1", whole(((1, "a.jpg"), (1, "b.jpg")))),
                            ("image 1 lacks file_name", whole(((1, "a.jpg"), (2, None))))):
            with self.subTest(words), self.assertRaisesRegex(larder.LarderError, words):
                index(text)

    def test_the_example(self):
        """The example of detection trains on all images, with SSD's operators."""
        path = self.listed(boxes=boxes_of, labels=lambda index: [1 + i for i in range(index % 5)])
        printed = self.example(self.served, "train_detection.py", path, "--side", "64")
        self.assertEqual(printed.count(f"{COUNT} images with"), 2, printed)


if __name__ == "__main__":
    main()
