"""Stores that were packed with --restart-rows: the tree's pixels and indices from other bytes, which crops decode in
part."""

import os
import random
import shutil

import numpy as np

from stores import change, command, contents, everything, pack
from system import Case, files_of, main, make_tree

COUNT = 120
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))
PIPELINES = {
    "crop": [{"center_crop": {"size": [50, 60]}}],
    "resize": [{"resize": {"size": 64}}, {"center_crop": {"size": 48}}],
    "random": [{"random_resized_crop": {"size": [40, 56]}}, "random_horizontal_flip"],
}


class RestartRows(Case):
    def setUp(self):
        """Photographs of several sizes, one that is cut short, and one file that is no image."""
        super().setUp()
        self.tree = os.path.join(self.folder, "tree")
        for name, width, height in (("a", 320, 240), ("b", 199, 301), ("c", 640, 97)):
            make = make_tree(os.path.join(self.folder, name), COUNT // 3, classes=4, width=width, height=height)
            for path in files_of(make):
                label = os.path.join(self.tree, os.path.basename(os.path.dirname(path)))
                os.makedirs(label, exist_ok=True)
                shutil.move(path, os.path.join(label, name + os.path.basename(path)))
        self.odd = [files_of(self.tree)[number] for number in (3, 50)]
        os.truncate(self.odd[0], os.path.getsize(self.odd[0]) - 500)
        with open(self.odd[1], "wb") as file:
            file.write(b"no image at all")
        for path in files_of(self.tree):
            os.utime(path, (1e9, 1e9))
        self.plain = pack(self.tree, os.path.join(self.folder, "plain"))
        self.store = os.path.join(self.folder, "rows")
        self.result = command("pack", self.tree, self.store, "--restart-rows")

    def test_what_pack_says(self):
        """It counts what it rewrote; the store verifies, and is the same bytes again with other threads."""
        self.assertEqual((self.result.returncode, self.result.stderr), (0, ""))
        self.assertIn(f"{COUNT - 2} of them rewritten and 2 as they were", self.result.stdout)
        self.assertEqual(command("verify", self.store).returncode, 0)
        again = pack(self.tree, os.path.join(self.folder, "again"), "--restart-rows", "--threads", 1)
        self.assertEqual(contents(self.store), contents(again))

    def test_another_option_is_another_store(self):
        """Neither kind of pack goes over a store of the other kind."""
        for dest, options in ((self.store, []), (self.plain, ["--restart-rows"])):
            result = command("pack", self.tree, dest, *options)
            self.assertEqual(result.returncode, 1)
            self.assertIn("already holds a store", result.stderr)

    def test_the_same_pixels(self):
        """Index for index the labels and pixels are the tree's, for crops, resizing, random crops of a strict job."""
        daemon = self.daemon()
        for name, pipeline in PIPELINES.items():
            with self.subTest(name):
                got = [everything(self.loader(daemon, path, pipeline=pipeline, shuffle="strict", seed=SEED,
                                              bad_samples="skip"))
                       for path in (self.plain, self.store)]
                self.assertEqual(len(got[0]), COUNT - 2)
                self.assertEqual(list(got[0]), list(got[1]))
                for index, (label, image) in got[0].items():
                    self.assertEqual(label, got[1][index][0])
                    self.assertTrue(np.array_equal(image, got[1][index][1]), (name, index))

    def test_encoded(self):
        """Without operators the rewritten bytes are delivered; what was kept is the file's."""
        daemon, files = self.daemon(), files_of(self.tree)
        for samples, _, indices in self.loader(daemon, self.store, pipeline=[]):
            for sample, index in zip(samples, indices.tolist()):
                with open(files[index], "rb") as file:
                    original = file.read()
                self.assertEqual(bytes(sample) == original, files[index] in self.odd, files[index])

    def test_damage(self):
        """A flipped bit costs the sample that it lies on, by name."""
        print(f"LARDER_TEST_SEED={SEED}", flush=True)
        path = os.path.join(self.store, "segment-00000.larder")
        offset = random.Random(SEED).randrange(8192, os.path.getsize(path) // 2)
        change(path, offset, 1)
        result = command("verify", self.store)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "^segment-00000.larder: sample .* is damaged")
        got = everything(self.loader(self.daemon(), self.store, pipeline=PIPELINES["crop"], bad_samples="skip"))
        self.assertIn(len(got), (COUNT - 3, COUNT - 2)) # the damaged one may be one of the odd


if __name__ == "__main__":
    main()
