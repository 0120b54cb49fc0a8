"""What comes through the daemon beside what torchvision makes of the same files: larder.from_torchvision, in pixels."""

import warnings

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, skip, tree

try:
    import torch
    import torchvision.transforms as tv
    from PIL import Image
except ImportError as error:
    skip(f"this Python has no torchvision: {error}")

COUNT = 12
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AREA, BILINEAR = tv.InterpolationMode.BICUBIC, tv.InterpolationMode.BILINEAR
# (what, transforms that draw nothing, most difference in 8-bit levels)
LISTS = (
    ("resize and center crop", [tv.Resize(64), tv.CenterCrop(56)], 1),
    ("resize up", [tv.Resize((130, 140))], 1),
    ("bicubic", [tv.Resize((40, 50), interpolation=AREA)], 1),
    ("shorter edge with a limit", [tv.Resize(70, max_size=80), tv.CenterCrop(64)], 1),
    ("crop and flips", [tv.CenterCrop((48, 64)), tv.RandomHorizontalFlip(1), tv.RandomVerticalFlip(1)], 0),
    ("pad", [tv.Pad((3, 5, 7, 9), fill=(1, 2, 3)), tv.Pad(4, padding_mode="reflect")], 0),
    ("brightness", [tv.ColorJitter(brightness=(0.7, 0.7))], 2),
    ("contrast", [tv.ColorJitter(contrast=(1.3, 1.3))], 2),
    ("saturation", [tv.ColorJitter(saturation=(0.4, 0.4))], 2),
    ("hue", [tv.ColorJitter(hue=(0.2, 0.2))], 2),
    ("grey", [tv.Grayscale(3)], 2),
    ("one channel", [tv.Grayscale(), tv.ToTensor()], 2),
    ("random grey", [tv.RandomGrayscale(1)], 2),
    ("blur", [tv.GaussianBlur(5, (1.2, 1.2))], 2),
    ("rotation", [tv.RandomRotation((30, 30), fill=9)], 2),
    ("solarize", [tv.RandomSolarize(100, 1)], 2),
    ("posterize", [tv.RandomPosterize(3, 1)], 2),
    ("equalize", [tv.RandomEqualize(1)], 2),
    ("autocontrast", [tv.RandomAutocontrast(1)], 2),
    ("to tensor", [tv.ToTensor()], 0),
    ("shorter edge alone", [tv.Resize(48), tv.ToTensor(), tv.Normalize(MEAN, STD)], 1),
    ("evaluation", [tv.Resize(64), tv.CenterCrop(56), tv.ToTensor(), tv.Normalize(MEAN, STD)], 1),
    ("uint8 tensor", [tv.PILToTensor(), tv.CenterCrop(32)], 0),
    ("half", [tv.PILToTensor(), tv.ConvertImageDtype(torch.float16)], 0.2),
    ("sharpness", [tv.RandomAdjustSharpness(2.5, 1)], 0),
    ("invert", [tv.RandomInvert(1)], 0),
    ("affine", [tv.RandomAffine((20, 20), scale=(1.25, 1.25), shear=(5, 5, 3, 3), interpolation=BILINEAR, fill=9)], 0),
    ("to rgb", [tv.Lambda(lambda image: image.convert("RGB")), tv.Resize((40, 50))], 1),
    ("resize behind the tensor", [tv.ToTensor(), tv.Resize((50, 60))], 1),
    ("antialiased behind the tensor", [tv.ToTensor(), tv.Resize((50, 60), antialias=True)], 1),
    ("grey behind the tensor", [tv.ToTensor(), tv.Grayscale(3)], 1),
    ("brightness behind the tensor", [tv.ToTensor(), tv.ColorJitter((0.7, 0.7))], 1),
    ("contrast behind the tensor", [tv.ToTensor(), tv.ColorJitter(contrast=(1.6, 1.6))], 2),
    ("saturation behind the tensor", [tv.ToTensor(), tv.ColorJitter(saturation=(1.8, 1.8))], 2),
    ("blur behind the tensor", [tv.ToTensor(), tv.GaussianBlur(5, (1.2, 1.2))], 1),
    ("four behind the tensor", [tv.ToTensor(), tv.Resize((50, 60)), tv.ColorJitter((1.3, 1.3)),
                                tv.GaussianBlur(3, (1, 1)), tv.Normalize(MEAN, STD)], 4),
    ("flip behind the tensor",
     [tv.ToTensor(), tv.RandomHorizontalFlip(1), tv.RandomCrop((96, 112), padding=(0, 12))], 0),
)


def reference(compose, files):
    made = []
    for path in files:
        with Image.open(path) as image, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = compose(image.convert("RGB"))
        made.append(result if isinstance(result, torch.Tensor)
                    else torch.from_numpy(np.array(result, copy=True)).permute(2, 0, 1))
    return torch.stack(made)


def levels(compose):
    """What one of 255 levels is in the result's numbers."""
    scale = 1.0
    for step in compose:
        name = type(step).__name__
        if name in ("ToTensor", "ConvertImageDtype"):
            scale = 255.0
        elif name == "Normalize":
            scale *= min(STD)
    return scale


class Torchvision(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, width=112, height=72)

    def test_pixels(self):
        """Lists that draw nothing give torchvision's pixels, within a level of a resize, two of a colour change, else
        exactly; dtype and shape are torchvision's too."""
        daemon, files = self.daemon(), files_of(self.dataset)
        for what, compose, most in LISTS:
            expected = reference(tv.Compose(compose), files)
            pipeline = larder.from_torchvision(tv.Compose(compose))
            with self.subTest(what), self.loader(daemon, self.dataset, COUNT, pipeline, shuffle="none",
                                                 output="torch") as loader:
                (images, _, indices), = loader
                self.assertEqual(indices.tolist(), list(range(COUNT)))
                self.assertEqual((images.shape, images.dtype), (expected.shape, expected.dtype))
                difference = (images.double() - expected.double()).abs() * levels(compose)
                print(f"{what}: at most {difference.max():.3f} levels, {difference.mean():.4f} on average", flush=True)
                self.assertLessEqual(difference.max().item(), most + 1e-3)

    def test_random_lists_are_accepted(self):
        """The lists of torchvision's own training recipes register and give finite batches of torchvision's shape."""
        daemon = self.daemon()
        for policy in (tv.TrivialAugmentWide(), tv.RandAugment(3, 9), tv.ColorJitter(0.4, 0.4, 0.4, 0.1)):
            compose = tv.Compose([tv.RandomResizedCrop(48), tv.RandomHorizontalFlip(), policy, tv.RandomGrayscale(0.2),
                                  tv.GaussianBlur(3), tv.RandomRotation(10), tv.ToTensor(), tv.Normalize(MEAN, STD),
                                  tv.RandomErasing(0.5, value="random")])
            pipeline = larder.from_torchvision(compose)
            with self.subTest(type(policy).__name__), \
                    self.loader(daemon, self.dataset, COUNT, pipeline, output="torch") as loader:
                (images, _, _), = loader
                self.assertEqual((images.shape, images.dtype), ((COUNT, 3, 48, 48), torch.float32))
                self.assertTrue(torch.isfinite(images).all())


if __name__ == "__main__":
    main()
