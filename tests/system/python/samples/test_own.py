"""What the script itself does with batches, last of all: transform=, collate_fn= and what larder.split leaves."""

import pickle
import warnings

import numpy as np

import above  # noqa: F401
from system import Case, larder, main, tree

try:
    import torch
except ImportError:
    torch = None

COUNT, SIDE = 24, 8
PIPELINE = [larder.Resize([SIDE, SIDE])]


def add_one(image):
    return image + 1


def as_dictionary(samples):
    return {"count": len(samples), "labels": [int(label) for _, label, *_ in samples],
            "first": samples[0][0].copy()}


class Own(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT)

    def epoch(self, daemon, **options):
        with self.loader(daemon, self.dataset, 10, PIPELINE, shuffle="none", **options) as loader:
            return list(loader)

    def test_each_sample(self):
        """transform= is called with each image, and what it gives is put together; labels and positions stay."""
        daemon = self.daemon()
        plain = self.epoch(daemon)
        for (images, labels, indices), (made, *same) in zip(plain, self.epoch(daemon, transform=add_one)):
            np.testing.assert_array_equal(made, images + 1)
            self.assertEqual([part.tolist() for part in same], [labels.tolist(), indices.tolist()])
        uneven = self.epoch(daemon, transform=lambda image: image[:1 + int(image[0, 0, 0]) % 3])
        self.assertTrue(all(isinstance(images, list) or images.ndim == 4 for images, *_ in uneven))
        words, = {type(images) for images, *_ in self.epoch(daemon, transform=lambda image: "word")}
        self.assertIs(words, list)

    def test_whole_batch(self):
        """OnBatch's function gets the batch's parts, and as_dict names what it gives; collate_fn makes the batch of a
        list of samples, after transform."""
        daemon = self.daemon()
        plain = self.epoch(daemon)
        doubled = self.epoch(daemon, transform=larder.OnBatch(lambda images, labels, indices: (images, labels * 2, 7)),
                             as_dict=("x", "y", "z"))
        for (images, labels, _), batch in zip(plain, doubled):
            np.testing.assert_array_equal(batch["x"], images)
            self.assertEqual((batch["y"].tolist(), batch["z"]), ((labels * 2).tolist(), 7))
        for (images, labels, _), batch in zip(plain, self.epoch(daemon, transform=add_one, collate_fn=as_dictionary)):
            self.assertEqual((batch["count"], batch["labels"]), (len(images), labels.tolist()))
            np.testing.assert_array_equal(batch["first"], images[0] + 1)

    def test_private(self):
        """Nothing that a script's function does reaches another job, and both share what the daemon prepares."""
        daemon = self.daemon()
        plain = self.epoch(daemon)

        def spoil(image):
            image[...] = 0
            return image

        self.assertTrue(all(images.max() == 0 for images, *_ in self.epoch(daemon, transform=spoil)))
        for (images, *_), (again, *_) in zip(plain, self.epoch(daemon)):
            np.testing.assert_array_equal(images, again)

    def test_a_function_that_fails(self):
        """Its error reaches the loop as it is, and the batch is nobody's: the next call gives it again, and no sample
        is lost."""
        daemon = self.daemon()
        calls = []

        def fails_once(image):
            calls.append(1)
            if len(calls) == 13:
                raise ZeroDivisionError("mine")
            return image

        with self.loader(daemon, self.dataset, 10, PIPELINE, shuffle="none", transform=fails_once) as loader:
            seen, iterator = [], iter(loader)
            seen += next(iterator)[2].tolist()
            with self.assertRaisesRegex(ZeroDivisionError, "mine"):
                next(iterator)
            for _, _, indices in iterator:
                seen += indices.tolist()
        self.assertEqual(seen, list(range(COUNT)))

    def test_refused(self):
        """What cannot be done is refused when the Loader is made; a Loader is pickled with its functions."""
        daemon = self.daemon()
        for options, words in ((dict(transform=3), "transform is 3, and no function"),
                               (dict(transform=add_one, zero_copy=True), "zero_copy makes none"),
                               (dict(collate_fn=as_dictionary, as_dict=("a", "b", "c")), "as_dict")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                self.loader(daemon, self.dataset, 8, PIPELINE, **options)
        with self.assertRaisesRegex(larder.InvalidArgument, "a function"):
            larder.OnBatch(3)
        with self.loader(daemon, self.dataset, 8, PIPELINE, transform=add_one, shuffle="none") as loader:
            with pickle.loads(pickle.dumps(loader)) as copy:
                np.testing.assert_array_equal(next(iter(copy))[0], next(iter(loader))[0])

    def test_the_rest(self):
        """What split leaves runs on what the list would have held: an image of Pillow's, or a tensor."""
        try:
            import torchvision.transforms as tv
        except ImportError as error:
            self.skipTest(f"this Python has no torchvision: {error}")
        daemon = self.daemon()

        class Mine:
            def __call__(self, image):
                return image.transpose(0)  # of Pillow: mirrored

        listed = [tv.Resize((SIDE, SIDE)), Mine(), tv.ToTensor()]
        pipeline, rest = larder.split(tv.Compose(listed))
        self.assertEqual(len(pipeline), 1)
        mirrored = {}
        for output in ("torch", "numpy"):  # both give tensors, since ToTensor is the last
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # for what is left of these, the daemon decodes
                loader = self.loader(daemon, self.dataset, 10, pipeline, shuffle="none", transform=rest, output=output)
            with loader:
                mirrored[output] = torch.cat([images for images, *_ in loader])
        plain = torch.cat([torch.from_numpy(images) for images, *_ in self.epoch(daemon)])
        wanted = plain.permute(0, 3, 1, 2).flip(-1).float() / 255
        for images in mirrored.values():
            self.assertTrue(torch.equal(images, wanted))
        pipeline, rest = larder.split(tv.Compose([Mine(), *listed]))
        self.assertEqual(pipeline, [])
        with self.assertWarnsRegex(UserWarning, "nothing of these transforms is shared: transform 0, Mine: .*a crop"):
            loader = self.loader(daemon, self.dataset, 10, pipeline, shuffle="none", transform=rest)
        with loader:
            decoded = torch.cat([images for images, *_ in loader])
        difference = (decoded - plain.permute(0, 3, 1, 2).float() / 255).abs().max().item()
        self.assertLess(difference, 1.5 / 255)  # mirrored twice, and resized in between


if __name__ == "__main__":
    main()
