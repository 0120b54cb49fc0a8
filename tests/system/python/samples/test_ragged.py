"""Samples that differ in size: lists of images as they are, of other operators, and beside boxes and masks."""

import json
import os

import above  # noqa: F401
import numpy as np
from system import Case, larder, main
from test_one_size import noise, write_png

COUNT = 48
PARTS = {"image": "image", "mask": "mask", "boxes": "boxes", "labels": "labels"}
FLIP = [larder.RandomHorizontalFlip(1.0)]


def size_of(index):
    """A height and a width, which no other image has."""
    return 40 + 7 * (index * 5 % COUNT), 30 + 3 * index


def boxes_of(index):
    return [[index % 7 + 3 * i, 2 * i + .5, 20 + i, 30 + 5 * i] for i in range(index % 5)]


class Ragged(Case):
    def setUp(self):
        super().setUp()
        self.served = self.daemon()
        self.images = [noise(index, *size_of(index), 3) for index in range(COUNT)]
        self.tree = os.path.join(self.folder, "tree")
        os.makedirs(os.path.join(self.tree, "a"))
        for index, image in enumerate(self.images):
            write_png(self.path(index), image)

    def path(self, index):
        return os.path.join(self.tree, "a", f"{index:03}.png")

    def ragged(self, pipeline, **options):
        options = {"batch_size": 7, "ragged": True, **options}
        return self.loader(self.served, options.pop("dataset", self.tree), pipeline=pipeline, **options)

    def test_as_they_are(self):
        """Without operators images are decoded and keep their sizes, copied or in the daemon's memory, to the last
        number; every one comes once."""
        for zero_copy in (False, True):
            with self.ragged([], zero_copy=zero_copy) as loader:
                for _ in range(2):
                    seen = []
                    for images, labels, indices in loader:
                        self.assertEqual((len(images), len(labels)), (len(indices),) * 2)
                        for index, image in zip(indices.tolist(), images):
                            np.testing.assert_array_equal(image, self.images[index])
                            self.assertEqual(image.flags.writeable, not zero_copy)
                            seen.append(index)
                        del images, image
                    self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_operators(self):
        """Operators make the sizes, and numbers of other types and orders lie in them as in those of one size."""
        steps = [larder.RandomShortestSize(24, 40), larder.ToDtype("float32", scale=True), larder.Layout("CHW")]
        with self.ragged(steps) as loader:
            for images, _, indices in loader:
                for index, image in zip(indices.tolist(), images):
                    height, width = size_of(index)
                    ratio = min(24 / min(height, width), 40 / max(height, width))
                    self.assertEqual(image.shape, (3, int(height * ratio), int(width * ratio)))
                    self.assertEqual(image.dtype, np.float32)
                    self.assertTrue(0 <= image.min() and image.max() <= 1 and image.std() > 0)
                whole, empty = larder.pad(images, fill=-1, multiple=8)
                self.assertEqual(whole.shape, (len(images), 3, *empty.shape[1:]))
                self.assertFalse(any(size % 8 for size in empty.shape[1:]))
                for image, padded, hidden in zip(images, whole, empty):
                    np.testing.assert_array_equal(padded[:, ~hidden].reshape(image.shape), image)
                    self.assertTrue((padded[:, hidden] == -1).all())
        fixed = [larder.CenterCrop(16)]
        with self.ragged(fixed) as one, self.ragged(fixed, ragged=False) as other:
            self.assertEqual(next(iter(one))[0].shape, next(iter(other))[0].shape)  # nothing differs: no list

    def listed(self):
        path = os.path.join(self.folder, "list.jsonl")
        with open(path, "w") as file:
            for index in range(COUNT):
                write_png(os.path.join(self.folder, f"{index}.png"), self.mask(index))
                file.write(json.dumps({"image": self.path(index), "mask": f"{index}.png", "boxes": boxes_of(index),
                                       "labels": [100 * index + i for i in range(index % 5)]}) + "\n")
        return path

    @staticmethod
    def mask(index):
        return noise(1000 + index, *size_of(index))

    def test_parts(self):
        """Masks have their images' sizes, and boxes and labels as many rows as there are; all move alike."""
        for zero_copy in (False, True):
            seen = []
            with self.ragged(FLIP, dataset=self.listed(), parts=PARTS, labels="none", zero_copy=zero_copy,
                             shuffle="none") as loader:
                for batch in loader:
                    parts = batch[0] if zero_copy else batch
                    indices = batch[-1] if zero_copy else batch["index"]
                    for place, index in enumerate(indices.tolist()):
                        image, mask, boxes, labels = (parts[name][place] for name in PARTS)
                        np.testing.assert_array_equal(image, self.images[index][:, ::-1])
                        np.testing.assert_array_equal(mask, self.mask(index)[:, ::-1])
                        want = np.array(boxes_of(index), np.float32).reshape(-1, 4)
                        want[:, [0, 2]] = size_of(index)[1] - want[:, [2, 0]]
                        np.testing.assert_array_equal(boxes, want)
                        self.assertEqual(labels.tolist(), [100 * index + i for i in range(index % 5)])
                        seen.append(index)
                    del parts, batch, image, mask, boxes, labels
            self.assertEqual(seen, list(range(COUNT)))

    def test_dropped_rows(self):
        """What an operator drops is not there; padded rows are as many as the most of the batch, with their count."""
        parts = {**PARTS, "boxes": larder.Boxes("boxes", padded=True)}
        with self.ragged([larder.SanitizeBoundingBoxes(min_size=33)], dataset=self.listed(), parts=parts,
                         labels="none") as loader:
            for batch in loader:
                for index, boxes, count, labels in zip(batch["index"].tolist(), batch["boxes"], batch["boxes_count"],
                                                       batch["labels"]):
                    good = [i for i, box in enumerate(boxes_of(index)) if box[2] - box[0] >= 33]
                    self.assertEqual((count, labels.tolist()), (len(good), [100 * index + i for i in good]))
                    self.assertFalse(boxes[count:].any())

    def test_too_large(self):
        """An image that has more pixels than was said is a bad sample, which the log names; the others come."""
        most = sorted(height * width for height, width in map(size_of, range(COUNT)))[-3]
        with self.ragged([], ragged=most) as loader:
            seen = [index for _, _, indices in loader for index in indices.tolist()]
            self.assertEqual(loader.lost, 2)
        self.assertEqual(sorted(seen), [i for i in range(COUNT) if size_of(i)[0] * size_of(i)[1] <= most])
        self.assertTrue(self.served.logged("give ragged=PIXELS"))

    def test_no_room(self):
        """Where two batches of the largest samples that there may be have no room, the error names what helps."""
        words = "lower batch_size, .*with ragged=PIXELS, .*or raise memory.arena"
        with self.assertRaisesRegex(larder.QuotaExceeded, words):
            self.ragged([], ragged=100_000_000).__iter__()

    def test_memory_of_what_is_made(self):
        """The room that an instance has above its bytes is given back once it is made."""
        with self.ragged([], bad_samples="error") as loader:
            self.whole(loader, COUNT)
            bytes_made = sum(image.size for image in self.images)
            used = self.served.status()["memory"]["arena"]["used_bytes"]
            self.assertLessEqual(used, 1.1 * bytes_made)
            self.assertGreaterEqual(used, bytes_made)

    def test_one_with_many_rows(self):
        """Room is promised for the batch with the largest samples, not for so many of the largest one: two batches with
        300 masks in each sample would be more than the arena."""
        counts = [300] + [1] * (COUNT - 1)
        path = os.path.join(self.folder, "masks.jsonl")
        with open(path, "w") as file:
            file.writelines(json.dumps({"image": self.path(index), "masks": [[[1, 1, 9, 1, 9, 9]]] * count}) + "\n"
                            for index, count in enumerate(counts))
        parts = {"image": "image", "masks": larder.InstanceMasks("masks")}
        with self.ragged([], dataset=path, parts=parts, labels="none", ragged=70_000) as loader:
            for _ in range(2):
                seen = {index: len(masks) for batch in loader
                        for index, masks in zip(batch["index"].tolist(), batch["masks"])}
                self.assertEqual(seen, dict(enumerate(counts)))

    def test_shared(self):
        """Four jobs that go side by side have each sample prepared once for all of them."""
        loaders = [self.ragged(FLIP, name=f"job{i}", prefetch=1) for i in range(4)]
        given = [0] * 4
        for batches in zip(*loaders):
            for place, (images, _, indices) in enumerate(batches):
                for index, image in zip(indices.tolist(), images):
                    np.testing.assert_array_equal(image, self.images[index][:, ::-1])
                given[place] += len(images)
        self.assertEqual(given, [COUNT] * 4)
        self.assertEqual(self.served.status()["samples"]["prepared"], COUNT)

    def test_mixed(self):
        """Batches of a mixture are lists, with the pixels of each part's own samples; and dictionaries of lists, where
        samples have several parts."""
        half = [self.path(index) for index in range(COUNT)]
        other = [{"image": path, "mask": f"{index}.png", "boxes": boxes_of(index),
                  "labels": [100 * index + i for i in range(index % 5)]} for index, path in enumerate(half)]
        listed = [self.listed(), os.path.join(self.folder, "other.jsonl")]
        with open(listed[1], "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in reversed(other))
        options = {"batch_size": 8, "ragged": True, "with_ids": True, "output": "numpy", "socket": self.served.socket}
        sources = {"a": (self.tree, .5), "b": ({"dataset": list(reversed(half)), "labels": [0] * COUNT}, .5)}
        with larder.Mix(sources, [], labels="own", **options) as mix:
            seen = []
            for images, labels, indices in mix:
                for part, index, image in zip(mix.last_parts.tolist(), indices.tolist(), images):
                    np.testing.assert_array_equal(image, self.images[COUNT - 1 - index if part else index])
                    seen.append((part, index))
            self.assertEqual(len(set(seen)), 2 * COUNT)
        sources = {name: ({"dataset": path, "parts": PARTS, "labels": "none"}, .5) for name, path in zip("ab", listed)}
        with larder.Mix(sources, FLIP, **options) as mix:
            for batch in mix:
                self.assertEqual(set(batch), {*PARTS, "index"})
                for place, (part, index) in enumerate(zip(mix.last_parts.tolist(), batch["index"].tolist())):
                    index = COUNT - 1 - index if part else index
                    np.testing.assert_array_equal(batch["image"][place], self.images[index][:, ::-1])
                    np.testing.assert_array_equal(batch["mask"][place], self.mask(index)[:, ::-1])
                    self.assertEqual(batch["labels"][place].tolist(), [100 * index + i for i in range(index % 5)])
                    self.assertEqual(len(batch["boxes"][place]), index % 5)
        sources["b"] = ({"dataset": listed[1], "parts": {"image": "image"}, "labels": "none"}, .5)
        with larder.Mix(sources, FLIP, **options) as mix, self.assertRaisesRegex(larder.LarderError, "the same parts="):
            next(iter(mix))

    def test_another_daemon(self):
        """A daemon that is killed costs no sample, and none comes twice."""
        with self.ragged([], prefetch=1) as loader:
            seen = []
            for number, (images, _, indices) in enumerate(loader):
                for index, image in zip(indices.tolist(), images):
                    np.testing.assert_array_equal(image, self.images[index])
                    seen.append(index)
                if number == 2:
                    self.served.kill()
                    self.served = self.daemon()
            self.assertEqual(sorted(seen), list(range(COUNT)))
            self.assertEqual(loader.stats()["reconnects"], 1)

    def test_refused(self):
        """What cannot be ragged is refused with a text that says why."""
        for pipeline, ragged, words in (([], 0, "ragged"), (None, True, "ragged"), ([], "large", "ragged"),
                                        ([larder.Array("uint8", [4])], True, "only images can be ragged"),
                                        ([larder.RandomIoUCrop()], True, "it is about boxes"),
                                        ([], 2**31, "over 4 GiB")):
            with self.assertRaises(larder.LarderError) as caught:
                self.ragged(pipeline, ragged=ragged)
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    main()
