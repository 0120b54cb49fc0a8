"""Every data type and layout, as torch tensors, as NumPy arrays, and in place, through the real daemon."""

import numpy as np

import above  # noqa: F401
from system import Case, larder, main, tree

try:
    import torch
except ImportError:
    torch = None

COUNT, HEIGHT, WIDTH = 10, 24, 40
BASE = [larder.Resize([HEIGHT, WIDTH])]
DTYPES = {"uint8": [], "float16": [larder.ToDtype("float16", scale=True)],
          "float32": [larder.ToDtype("float32", scale=True), larder.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]}


class Formats(Case):
    def setUp(self):
        super().setUp()
        self.dataset, self.server = tree(COUNT), self.daemon()

    def one(self, pipeline, **options):
        with self.loader(self.server, self.dataset, COUNT, pipeline, shuffle="none", **options) as loader:
            (images, _, _), = loader
            if options.get("zero_copy"):
                images = np.stack([np.array(image) for image in images])
            return images

    def expected(self, plain, dtype):
        """What the pipeline of that data type makes of the uint8 pixels, channels last."""
        if dtype == "uint8":
            return plain
        scaled = plain.astype(np.float32) / 255
        if dtype == "float16":
            return scaled.astype(np.float16)
        return (scaled - np.float32([0.5, 0.4, 0.3])) / np.float32([0.2, 0.3, 0.4])

    def test_all(self):
        """NumPy arrays have the layout that the pipeline says, torch tensors are always channels first (in
        channels-last memory where the pipeline is), in place or copied; the numbers are the same everywhere."""
        plain = self.one(BASE, output="numpy")
        self.assertEqual((plain.shape, plain.dtype), ((COUNT, HEIGHT, WIDTH, 3), np.uint8))
        for dtype, steps in DTYPES.items():
            expected = self.expected(plain, dtype)
            for layout in ("HWC", "CHW"):
                pipeline = BASE + steps + [larder.Layout(layout)]
                laid_out = expected if layout == "HWC" else expected.transpose(0, 3, 1, 2)
                for zero_copy in (False, True):
                    with self.subTest(dtype=dtype, layout=layout, zero_copy=zero_copy):
                        images = self.one(pipeline, output="numpy", zero_copy=zero_copy)
                        self.assertEqual((images.shape, images.dtype), (laid_out.shape, np.dtype(dtype)))
                        np.testing.assert_allclose(images, laid_out, 0, 1e-3 if dtype == "float16" else 1e-6)
                if torch:
                    with self.subTest(dtype=dtype, layout=layout, output="torch"):
                        images = self.one(pipeline, output="torch")
                        self.assertEqual((tuple(images.shape), images.dtype),
                                         ((COUNT, 3, HEIGHT, WIDTH), getattr(torch, dtype)))
                        self.assertTrue(images.is_contiguous(memory_format=torch.channels_last if layout == "HWC"
                                                             else torch.contiguous_format))
                        np.testing.assert_allclose(images.numpy(), expected.transpose(0, 3, 1, 2), rtol=0,
                                                   atol=1e-3 if dtype == "float16" else 1e-6)

    def test_one_channel(self):
        """A single channel keeps its axis, in both layouts and outputs."""
        for layout, shape in (("HWC", (COUNT, HEIGHT, WIDTH, 1)), ("CHW", (COUNT, 1, HEIGHT, WIDTH))):
            pipeline = BASE + [larder.Grayscale(), larder.Layout(layout)]
            self.assertEqual(self.one(pipeline, output="numpy").shape, shape)
            if torch:
                self.assertEqual(tuple(self.one(pipeline, output="torch").shape), (COUNT, 1, HEIGHT, WIDTH))


if __name__ == "__main__":
    main()
