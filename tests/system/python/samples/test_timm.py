"""larder.timm.create_loader beside timm's own: the same arguments, the same batches."""

import os
import shutil
import warnings

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, skip, tree

try:
    import timm.data
    import torch
    from larder.timm import create_loader
except ImportError as error:
    skip(f"this Python has no timm: {error}")

warnings.filterwarnings("ignore", category=ResourceWarning)  # timm leaves its files open
COUNT, SIDE, CPU = 24, 48, torch.device("cpu")


class Timm(Case):
    def setUp(self):
        super().setUp()
        self.folder_of_images = tree(COUNT, classes=3)
        self.options = {"socket": self.daemon().socket}

    def dataset(self, **options):
        return timm.data.create_dataset("", self.folder_of_images, **options)

    def rows(self, loader):
        """Of each sample: its label and its values, in an order that does not depend on the loader's."""
        found = [(int(label), image.float().numpy())
                 for images, labels in loader for image, label in zip(images, labels)]
        return sorted(found, key=lambda row: (row[0], row[1].tobytes()))

    def test_evaluation(self):
        """What nothing is drawn for is the same, with and without timm's PrefetchLoader: normalised, on the device."""
        for prefetcher in (True, False):
            with self.subTest(prefetcher=prefetcher):
                asked = dict(input_size=(3, SIDE, SIDE), batch_size=5, crop_pct=0.9, interpolation="bicubic",
                             use_prefetcher=prefetcher, device=CPU, num_workers=0)
                ours = create_loader(self.dataset(), larder_options=self.options, **asked)
                theirs = timm.data.create_loader(self.dataset(), **asked)
                self.assertEqual((len(ours), type(ours) is type(theirs)), (len(theirs), prefetcher))
                for ours, theirs in zip(self.rows(ours), self.rows(theirs), strict=True):
                    self.assertEqual(ours[0], theirs[0])
                    np.testing.assert_allclose(ours[1], theirs[1], atol=1.01 / 255 / 0.22)

    def test_training(self):
        """Whole batches, drawn anew each epoch; MixUp as timm's own, which can be switched off."""
        mixup = timm.data.FastCollateMixup(mixup_alpha=1.0, num_classes=3)
        loader = create_loader(self.dataset(), (3, SIDE, SIDE), 10, is_training=True,
                               auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.5, collate_fn=mixup, device=CPU,
                               larder_options=self.options)
        loader.sampler.set_epoch(0)
        self.assertTrue(loader.mixup_enabled)
        batches = list(loader)
        self.assertEqual([tuple(images.shape) for images, _ in batches], [(10, 3, SIDE, SIDE)] * 2)
        self.assertTrue(all(labels.shape == (10, 3) and torch.allclose(labels.sum(1), torch.ones(10))
                            for _, labels in batches))
        loader.mixup_enabled = False
        self.assertFalse(mixup.mixup_enabled)
        self.assertTrue(all((labels.max(1).values > 0.9).all() for _, labels in loader))

    def test_repeats(self):
        """With repeated augmentation an epoch is as long as without, and three have each sample three times."""
        loader = create_loader(self.dataset(), (3, SIDE, SIDE), 8, is_training=True, num_aug_repeats=3, device=CPU,
                               larder_options=self.options)
        self.assertEqual(len(loader), COUNT // 8)
        labels = [label for epoch in range(3) for _, batch in loader for label in batch.tolist()]
        self.assertEqual(sorted(labels), sorted(3 * [label for _, label in loader.dataset.samples]))

    def test_labels(self):
        """Classes are numbered as timm numbers them: in natural order, by a class map, by the folder at any depth."""
        natural = os.path.join(self.folder, "natural")
        for number, path in enumerate(files_of(self.folder_of_images)):
            folder = os.path.join(natural, str(number % 3 * 5 + 5), *(["deep"] if number % 3 == 2 else []))
            os.makedirs(folder, exist_ok=True)
            shutil.copy(path, os.path.join(folder, f"{number}.jpg"))
        asked = dict(input_size=SIDE, batch_size=8, device=CPU, num_workers=0)
        for root in (self.folder_of_images, natural):
            for options in ({}, {"class_map": {name: n + 7 for n, name in enumerate(("5", "10", "deep"))}}):
                if options and root != natural:
                    continue
                with self.subTest(root, **options):
                    dataset = timm.data.create_dataset("", root, **options)
                    ours = create_loader(dataset, larder_options=self.options, **asked)
                    theirs = timm.data.create_loader(timm.data.create_dataset("", root, **options), **asked)
                    self.assertEqual([row[0] for row in self.rows(ours)], [row[0] for row in self.rows(theirs)])

    def test_flat(self):
        """A folder of images alone is of one class for both."""
        flat = os.path.join(self.folder, "flat")
        os.mkdir(flat)
        for number, path in enumerate(files_of(self.folder_of_images)):
            shutil.copy(path, os.path.join(flat, f"{number}.jpg"))
        asked = dict(input_size=SIDE, batch_size=8, device=CPU, num_workers=0)
        ours = create_loader(timm.data.create_dataset("", flat), larder_options=self.options, **asked)
        theirs = timm.data.create_loader(timm.data.create_dataset("", flat), **asked)
        self.assertEqual([row[0] for row in self.rows(ours)], [row[0] for row in self.rows(theirs)])

    def test_refused(self):
        """What Larder does not do is refused with what to do."""
        for options, words in (({"num_aug_splits": 2}, "several augmentations"),
                               ({"tf_preprocessing": True}, "TensorFlow"),
                               ({"dataset": [1, 2]}, "no folder of images")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                create_loader(**{"dataset": self.dataset(), "input_size": SIDE, "batch_size": 2,
                                 "larder_options": self.options, **options})


if __name__ == "__main__":
    main()
