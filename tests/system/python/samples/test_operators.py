"""Every operator on images of the Python package is one that the daemon knows, by the same name and arguments."""

import inspect

import numpy as np

import above  # noqa: F401
from system import Case, larder, main, tree

SIDE = 32
CONSTANT = {
    "size": SIDE, "padding": 0, "threshold": 128, "bits": 4, "degrees": 30, "kernel_size": 3, "scale": [0.1, 0.3],
    "ratio": [0.5, 2], "interpolation": "bilinear", "antialias": True, "max_size": None, "p": 1, "fill": 7,
    "padding_mode": "constant", "pad_if_needed": True, "brightness": 0.5, "contrast": 0.5, "saturation": 0.5,
    "hue": 0.1, "num_output_channels": 3, "sigma": [0.5, 1], "expand": False, "center": None, "value": 3,
    "inplace": False, "num_magnitude_bins": 31, "num_ops": 2, "magnitude": 9, "mean": [0.5] * 3, "std": [0.2] * 3,
    "dtype": "float32", "layout": "CHW", "dct_scaling": False,
    "transforms": ["random_vertical_flip"], "policy": "svhn", "sharpness_factor": 2, "translate": [0.1, 0.2],
    "shear": [-5, 5, 0, 9], "distortion_scale": 0.4, "alpha": 3, "target_size": [SIDE, SIDE], "scale_range": [0.5, 1.5],
    "min_size": 20, "side_range": [1, 2], "radius": [0.1, 2], "severity": 3, "mixture_width": 2,
    "chain_depth": 2, "all_ops": False, "mstd": 0.5, "mmax": 12, "translate_pct": 0.3, "prob": 0.7, "width": 4,
    "corner": "top_left", "depth": 2, "mode": "const", "min_count": 1, "max_count": 3, "longest": 1,
    "random_scale_prob": 0.5, "reciprocal": True,
    "random_scale_range": [0.8, 1], "random_scale_area": True, "random_aspect_prob": 0.5,
    "random_aspect_range": [0.9, 1.1]}
RANGES = {"brightness": [0.8, 1.2], "contrast": [0.8, 1.2], "saturation": [0.8, 1.2], "hue": [-0.1, 0.1]}
EXCEPT = {"ToDtype": {"scale": True}, "RandomChoice": {"p": [1]}, "RandomPhotometricDistort": RANGES,
          "RandomResize": {"max_size": 30},
          "TimmAutoAugment": {"policy": "3a"}, "TimmRandAugment": {"transforms": "increasing"}}
# What comes out of these has no fixed size: a crop follows.
SIZELESS = ("ScaleJitter", "RandomShortestSize", "RandomResize", "ResizeKeepRatio", "RandomZoomOut")
FLOAT = ("ToDtype", "Normalize")
# Those of sounds and arrays, and those about boxes, which want parts (test_boxes.py).
OTHERS = ("Array", "RandomGain", "RandomSegment", "Resample", "Segment", "ToInt16", "ToMono", "ToStereo",
          "ClampBoundingBoxes", "RandomIoUCrop", "SanitizeBoundingBoxes")


def operators():
    for name in larder.transforms.__all__:
        kind = getattr(larder, name)
        if inspect.isclass(kind) and kind not in (larder.Operator, larder.View) and name not in OTHERS:
            yield name, kind


class Operators(Case):
    def test_all_are_known(self):
        """Each one, with all its arguments by name, gives an epoch of finite pixels in the shape that was announced."""
        daemon = self.daemon()
        for name, kind in operators():
            with self.subTest(operator=name):
                step = kind(**{key: EXCEPT.get(name, {}).get(key, CONSTANT[key]) for key in kind.parameters})
                before = [larder.ToDtype("float32", True)] if name == "Normalize" else []
                after = [larder.CenterCrop(SIDE)] if name in SIZELESS else []
                pipeline = [larder.Resize([SIDE, SIDE]), *before, step, *after]
                with self.loader(daemon, tree(20), pipeline=pipeline) as loader:
                    images = np.concatenate([images for images, _, _ in loader])
                    self.assertEqual(images.shape, (20, 3, SIDE, SIDE) if name == "Layout" else (20, SIDE, SIDE, 3))
                    self.assertEqual(images.dtype, np.float32 if name in FLOAT else np.uint8)
                    self.assertTrue(np.isfinite(images).all())

    def test_required_arguments_are_enough(self):
        """Each one is accepted with nothing but what it needs: the daemon has a default for the rest."""
        daemon = self.daemon()
        for name, kind in operators():
            with self.subTest(operator=name):
                step = kind(**{key: EXCEPT.get(name, {}).get(key, CONSTANT[key]) for key in kind.required})
                before = [larder.ToDtype("float32", True)] if name == "Normalize" else []
                after = [larder.CenterCrop(SIDE)] if name in SIZELESS else []
                pipeline = [larder.Resize([SIDE, SIDE]), *before, step, *after]
                with self.loader(daemon, tree(20), pipeline=pipeline) as loader:
                    self.assertEqual(len(list(loader)), 2)

    def test_resizes_in_a_row(self):
        """Operators that cannot share one resampling follow each other: none of them ends the daemon."""
        daemon = self.daemon()
        steps = [larder.Resize([64, 48]), larder.RandomResizedCrop(40), larder.Resize([20, 24]),
                 larder.RandomHorizontalFlip(), larder.RandomResizedCrop(16)]
        for first in range(4):
            pipeline = [*steps[first:], larder.Resize([SIDE, SIDE])]
            with self.subTest(pipeline=pipeline), self.loader(daemon, tree(20), pipeline=pipeline) as loader:
                for images, _, _ in loader:
                    self.assertEqual(images.shape[1:], (SIDE, SIDE, 3))
                    self.assertGreater(images.std(), 5)


if __name__ == "__main__":
    main()
