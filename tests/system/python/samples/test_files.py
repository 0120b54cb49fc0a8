"""No pipeline at all: the bytes of files of any kind, as they are."""

import os
import random

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, tree, until

CONFIG = """\
memory:
  arena: 32MiB
  encoded: 16MiB
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Files(Case):
    def setUp(self):
        super().setUp()
        self.dataset = os.path.join(self.folder, "files")
        self.random = random.Random(5)

    def write(self, sizes, suffix=".bin"):
        """Files of these sizes in three classes."""
        for number, size in enumerate(sizes):
            folder = os.path.join(self.dataset, f"class-{number % 3}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{number:04d}{suffix}"), "wb") as file:
                file.write(self.random.randbytes(size))
        return files_of(self.dataset)

    def test_images_as_they_are(self):
        """The encoded bytes of images: nothing is decoded, and labels and order are those of the images."""
        folder, daemon = tree(30), self.daemon(CONFIG)
        files = files_of(folder)
        with self.loader(daemon, folder, 8, pipeline=[], shuffle="none") as loader:
            got = [(index, data) for batch, _, indices in loader for index, data in zip(indices.tolist(), batch)]
        self.assertEqual(got, [(index, bytes_of(path)) for index, path in enumerate(files)])
        self.assertEqual(daemon.status()["samples"]["decoded"], 0)

    def test_mixed_sizes_fill_the_arena(self):
        """Files of mixed sizes that are together larger than the arena, so that short ones lie at its very end: each
        comes, whole, in every epoch."""
        files = self.write([self.random.choice((300, 9_000, 110_000, 240_000)) for _ in range(400)])
        self.assertGreater(sum(map(os.path.getsize, files)), 32 << 20)
        daemon = self.daemon(CONFIG)
        with self.loader(daemon, self.dataset, 10, pipeline=[], all_files=True, prefetch=4) as loader:
            for _ in range(2):
                seen = []
                for batch, _, indices in loader:
                    for index, data in zip(indices.tolist(), batch):
                        self.assertEqual(data, bytes_of(files[index]))
                        seen.append(index)
                self.assertEqual(sorted(seen), list(range(400)))

    def test_files_of_any_kind_and_size(self):
        """Empty files, one byte, pages and more: each exactly once an epoch, whole, by copy and in place; two jobs at
        once. Hidden files are none."""
        sizes = [self.random.randrange(60_000) for _ in range(52)]
        files = self.write([0, 1, 63, 64, 65, 4096, 4097, 1_000_003, *sizes], ".wav")
        with open(os.path.join(self.dataset, "class-0", ".hidden"), "w") as file:
            file.write("not a sample")
        daemon = self.daemon(CONFIG)
        loaders = [self.loader(daemon, self.dataset, 6, pipeline=[], all_files=True, zero_copy=zero_copy)
                   for zero_copy in (False, True)]
        for _ in range(2):
            seen = [{}, {}]
            for batches in zip(*loaders):
                for got, (images, labels, indices) in zip(seen, batches):
                    for data, label, index in zip(images, labels.tolist(), indices.tolist()):
                        self.assertNotIn(index, got)
                        got[index] = (label, bytes(data))
            expected = {index: (int(path.split("class-")[1][0]), bytes_of(path)) for index, path in enumerate(files)}
            self.assertEqual(seen, [expected, expected])

    def test_quota_is_that_of_the_longest(self):
        """A few long files among short ones cost their own size, not that of the whole batch: it fits the arena."""
        files = self.write([3_000_000, 2_500_000] + [1000] * 118)
        daemon = self.daemon(CONFIG)
        with self.loader(daemon, self.dataset, 32, pipeline=[], all_files=True) as loader:
            for _ in range(3):
                total = sum(len(data) for images, _, _ in loader for data in images)
                self.assertEqual(total, sum(os.path.getsize(path) for path in files))
        with self.assertRaisesRegex(larder.QuotaExceeded, "arena"):
            self.write([30_000_000], ".long")
            self.loader(daemon, self.dataset, 2, pipeline=[], all_files=True)

    def test_with_pixels_beside_it(self):
        """A job that wants pixels and one that wants the files' bytes share each read, but for what the first looks
        ahead before the second begins."""
        folder, daemon = tree(60), self.daemon(CONFIG)
        loaders = [self.loader(daemon, folder, 10, pipeline=pipeline, epochs=1)
                   for pipeline in ([], [larder.Resize([32, 32])])]
        for files, pixels in zip(*loaders):
            self.assertIsInstance(files[0][0], bytes)
            self.assertEqual(pixels[0].shape[1:], (32, 32, 3))
        counts = daemon.status()["samples"]
        self.assertEqual((counts["decoded"], counts["delivered"]), (60, 120))
        self.assertLessEqual(counts["loaded"], 60 + 4 * 10)

    def test_refusals(self):
        """Without all_files a folder of other files is no dataset; with it, what is no image is a bad sample for
        pixels."""
        self.write([100] * 6, ".txt")
        daemon = self.daemon(CONFIG)
        with self.assertRaisesRegex(larder.InvalidArgument, "no image"):
            self.loader(daemon, self.dataset, 2, pipeline=[])
        with self.loader(daemon, self.dataset, 2, all_files=True) as loader:
            with self.assertRaisesRegex(larder.BadSample, r"\.txt \(not_an_image\)"):
                list(loader)
        self.assertTrue(until(lambda: daemon.status()["samples"]["bad"]["not_an_image"] > 0, 10))


if __name__ == "__main__":
    main()
