"""Recipes that people have: which of them larder.from_torchvision takes, each then given by the daemon in torchvision's
shape and type; of the others, that the error names the step. larder.recipes has its lists."""

import pickle

import above  # noqa: F401
from system import Case, files_of, larder, main, skip, tree

try:
    import torch
    import torchvision.transforms as tv
    from torchvision import models
except ImportError as error:
    skip(f"this Python has no torchvision: {error}")
try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
try:
    from timm.data import create_transform
except ImportError:
    create_transform = None

SIDE = 32
NORM = tv.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
BICUBIC = tv.InterpolationMode.BICUBIC


def end(*steps):
    return tv.Compose([*steps, tv.ToTensor(), NORM])


def new(*steps):
    return v2.Compose([v2.ToImage(), *steps, v2.ToDtype(torch.float32, scale=True), NORM])


def jitter(*strengths):
    return tv.ColorJitter(*strengths)


CROP, FLIP = tv.RandomResizedCrop(SIDE), tv.RandomHorizontalFlip()
# (name, what makes it, None or the step that is refused); `v2.` and `timm.` names need these.
RECIPES = (
    ("imagenet train", lambda: end(CROP, FLIP), None),
    ("imagenet eval", lambda: end(tv.Resize(40), tv.CenterCrop(SIDE)), None),
    ("bicubic train", lambda: end(tv.RandomResizedCrop(SIDE, interpolation=BICUBIC), FLIP), None),
    ("cifar train", lambda: end(tv.RandomCrop(SIDE, padding=4), FLIP), None),
    ("cifar eval", lambda: end(), None),
    ("flips alone", lambda: tv.Compose([FLIP, tv.RandomVerticalFlip(), tv.PILToTensor()]), None),
    ("uint8 train", lambda: tv.Compose([CROP, FLIP, tv.PILToTensor()]), None),
    ("trivial augment", lambda: tv.Compose([CROP, FLIP, tv.TrivialAugmentWide(), tv.PILToTensor(),
                                            tv.ConvertImageDtype(torch.float), NORM, tv.RandomErasing(0.1)]), None),
    ("rand augment", lambda: end(CROP, FLIP, tv.RandAugment()), None),
    ("simclr", lambda: end(CROP, FLIP, tv.RandomApply([jitter(0.8, 0.8, 0.8, 0.2)], p=0.8), tv.RandomGrayscale(0.2),
                           tv.RandomApply([tv.GaussianBlur(3, (0.1, 2.0))], p=0.5)), None),
    ("moco", lambda: end(tv.RandomResizedCrop(SIDE, scale=(0.2, 1)), tv.RandomApply([jitter(0.4, 0.4, 0.4, 0.1)], 0.8),
                         tv.RandomGrayscale(0.2), FLIP), None),
    ("byol", lambda: end(CROP, FLIP, tv.RandomApply([jitter(0.4, 0.4, 0.2, 0.1)], p=0.8), tv.RandomGrayscale(0.2),
                         tv.GaussianBlur(3), tv.RandomSolarize(128, 0.2)), None),
    ("three-augment", lambda: end(CROP, FLIP, tv.RandomChoice([tv.RandomSolarize(128, 1), tv.Grayscale(3),
                                                              tv.GaussianBlur(3)]), jitter(0.3, 0.3, 0.3)), None),
    ("weighted choice", lambda: end(CROP, tv.RandomChoice([FLIP, tv.RandomVerticalFlip(), tv.RandomRotation(15)],
                                                          p=[0.5, 0.3, 0.2])), None),
    ("aerial", lambda: end(CROP, FLIP, tv.RandomVerticalFlip(), tv.RandomRotation(90)), None),
    ("medical", lambda: end(tv.Grayscale(3), tv.Resize((SIDE, SIDE)), tv.RandomRotation(10), tv.RandomAutocontrast(),
                            tv.RandomEqualize()), None),
    ("invert", lambda: end(CROP, tv.RandomInvert(), tv.RandomPosterize(4)), None),
    ("pad and crop", lambda: end(tv.Resize((28, 28)), tv.Pad(2), FLIP), None),
    ("resnet50 weights", lambda: models.ResNet50_Weights.IMAGENET1K_V2.transforms(), None),
    ("vit weights", lambda: models.ViT_B_16_Weights.DEFAULT.transforms(), None),
    ("auto augment", lambda: end(CROP, FLIP, tv.AutoAugment()), None),
    ("auto augment of cifar", lambda: end(tv.RandomCrop(SIDE, padding=4), FLIP,
                                          tv.AutoAugment(tv.AutoAugmentPolicy.CIFAR10)), None),
    ("augmix", lambda: end(CROP, FLIP, tv.AugMix()), None),
    ("perspective", lambda: end(CROP, tv.RandomPerspective()), None),
    ("affine", lambda: end(CROP, tv.RandomAffine(10, (0.1, 0.1), (0.9, 1.1), (-5, 5, -5, 5))), None),
    ("elastic", lambda: end(tv.Resize((64, 64)), tv.ElasticTransform(sigma=2.0), tv.CenterCrop(SIDE)), None),
    ("sharpness", lambda: end(CROP, tv.RandomAdjustSharpness(2)), None),
    ("order", lambda: end(CROP, tv.RandomOrder([FLIP, jitter(0.4), tv.RandomGrayscale()])), None),
    ("rgb", lambda: end(tv.Lambda(lambda image: image.convert("RGB")), CROP), None),
    ("tensor first", lambda: tv.Compose([tv.ToTensor(), tv.Resize((SIDE, SIDE)), jitter(0.2, 0.2, 0.2), NORM]), None),
    ("own function", lambda: end(CROP, tv.Lambda(lambda image: image.rotate(3))), "Lambda"),
    ("ten crops behind", lambda: tv.Compose([tv.Resize(40), tv.TenCrop(SIDE), FLIP]), "RandomHorizontalFlip"),
    ("ten crops, a method", lambda: tv.Compose([tv.Resize(40), tv.TenCrop(SIDE), tv.Lambda(lambda crops: crops[::2])]),
     "Lambda"),
    ("v2.train", lambda: new(v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()), None),
    ("v2.eval", lambda: new(v2.Resize(40, antialias=True), v2.CenterCrop(SIDE)), None),
    ("v2.rgb", lambda: v2.Compose([v2.RGB(), v2.PILToTensor(), v2.RandomResizedCrop(SIDE, antialias=True),
                                   v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()]), None),
    ("v2.apply", lambda: new(v2.RandomCrop(SIDE, padding=4),
                             v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8), v2.RandomGrayscale(0.2)),
     None),
    ("v2.choice", lambda: new(v2.RandomResizedCrop(SIDE, antialias=True),
                              v2.RandomChoice([v2.RandAugment(), v2.TrivialAugmentWide()])), None),
    ("v2.distort", lambda: new(v2.RandomPhotometricDistort(), v2.Resize((SIDE, SIDE), antialias=True)), None),
    ("v2.large scale jitter", lambda: new(v2.RandomZoomOut(), v2.ScaleJitter((SIDE, SIDE), antialias=True),
                                          v2.RandomCrop((SIDE, SIDE), pad_if_needed=True)), None),
    ("v2.shortest", lambda: new(v2.RandomShortestSize([40, 50], 90, antialias=True), v2.RandomCrop(SIDE)), None),
    ("timm.train", lambda: create_transform(SIDE, is_training=True), None),
    ("timm.bicubic", lambda: create_transform((3, SIDE, SIDE), is_training=True, interpolation="bicubic", re_prob=0.25,
                                              re_mode="pixel"), None),
    ("timm.eval", lambda: create_transform(SIDE, crop_pct=0.9), None),
    ("timm.finetune", lambda: create_transform(SIDE, is_training=True, scale=(0.5, 1), color_jitter=None, hflip=0.5,
                                               interpolation="bilinear"), None),
    ("timm.border", lambda: create_transform(SIDE, crop_mode="border"), None),
    ("timm.keep ratio", lambda: create_transform(SIDE, is_training=True, train_crop_mode="rkrc"), None),
    ("timm.random keep ratio", lambda: create_transform(SIDE, is_training=True, train_crop_mode="rkrr"), None),
    ("timm.colours", lambda: create_transform(SIDE, is_training=True, re_prob=1, re_mode="rand", re_count=3), None),
    *((f"timm.{name}", lambda name=name: create_transform(SIDE, is_training=True, auto_augment=name), None)
      for name in ("rand-m9-mstd0.5-inc1", "rand-m9-n3-mstd0.5", "rand-m15-mmax20-mstd101", "rand-m9-tweights-inc1",
                   "rand-t3a", "rand-t3aw-inc1-n3", "3a", "original", "originalr-mstd0.5", "v0", "v0r",
                   "augmix-m5-w4-d2", "augmix-m3-mstd1")),
    ("timm.blended", lambda: create_transform(SIDE, is_training=True, auto_augment="augmix-b1"), "AugMixAugment"),
)


class Recipes(Case):
    def test_recipes(self):
        """Those whose library is here are tried."""
        daemon, dataset = self.daemon(), tree(8, classes=2, width=96, height=72)
        for name, make, refused in RECIPES:
            if (name.startswith("v2.") and v2 is None) or (name.startswith("timm.") and create_transform is None):
                print(f"{name}: not tried, it is not here")
                continue
            with self.subTest(name):
                self.try_one(daemon, dataset, name, make(), refused)

    def try_one(self, daemon, dataset, name, transform, refused):
        if refused:
            with self.assertRaisesRegex(larder.InvalidArgument, f"transform [0-9]+, .*({refused})") as met:
                larder.from_torchvision(transform)
            print(f"{name}: {met.exception}")
            return
        from PIL import Image
        expected = transform(Image.new("RGB", (96, 72)))
        with self.loader(daemon, dataset, 8, larder.from_torchvision(transform), output="torch") as loader:
            (images, _, _), = loader
        self.assertEqual((images.shape[1:], images.dtype), (expected.shape, expected.dtype))
        self.assertTrue(torch.isfinite(images.float()).all())
        print(f"{name}: {tuple(images.shape)} {images.dtype}")


def several(crops, *behind):
    return tv.Compose([tv.Resize(40), crops, *behind])


# Lists that make several images of one, and how they are put together.
SEVERAL = (
    ("five", lambda: several(tv.FiveCrop(SIDE)), 5),
    ("ten", lambda: several(tv.TenCrop((SIDE, 24))), 10),
    ("ten, upside down", lambda: several(tv.TenCrop(SIDE, vertical_flip=True)), 10),
    ("five, stacked", lambda: several(tv.FiveCrop(SIDE), tv.Lambda(
        lambda crops: torch.stack([tv.ToTensor()(crop) for crop in crops]))), 5),
    ("ten, stacked in bytes and normalised", lambda: several(tv.TenCrop(SIDE), tv.Lambda(
        lambda crops: torch.stack([tv.PILToTensor()(crop) for crop in crops])), tv.ConvertImageDtype(torch.float),
        NORM), 10),
)


class SeveralImages(Case):
    def test_crops(self):
        """FiveCrop and TenCrop are views, each pixel for pixel what torchvision makes."""
        from PIL import Image
        daemon, dataset = self.daemon(), tree(8, classes=2, width=96, height=72)
        for name, make, count in SEVERAL:
            with self.subTest(name):
                transform = make()
                loader = self.loader(daemon, dataset, 1, larder.from_torchvision(transform), output="torch",
                                     shuffle="none")
                for (views, _, _), path in zip(loader, files_of(dataset)):
                    theirs = transform(Image.open(path).convert("RGB"))
                    self.assertEqual((len(views), len(theirs)), (count, count))
                    for view, image in zip(views, theirs):
                        image = image if isinstance(image, torch.Tensor) else tv.PILToTensor()(image)
                        self.assertEqual(view.dtype, image.dtype)
                        self.assertLess((view[0].float() - image.float()).abs().max().item(), 1e-6)

    def test_what_is_left(self):
        """split stops before several images where it does not know what stands behind them; an object with lists of
        its own is told of views=."""
        def mine(crops):
            return torch.stack([tv.ToTensor()(crop) for crop in crops[1:]])

        pipeline, rest = larder.split(tv.Compose([tv.Resize(40), tv.CenterCrop(36), tv.FiveCrop(SIDE), mine]))
        self.assertEqual([type(step).__name__ for step in pipeline], ["Resize", "CenterCrop"])
        self.assertRegex(rest.why, "behind several images of one")

        class Two:
            def __init__(self):
                self.one, self.other = tv.Compose([CROP]), tv.Compose([FLIP])

        with self.assertRaisesRegex(larder.InvalidArgument, r"Two: it has lists of its own \(one, other\).*views=\[it"):
            larder.from_torchvision(Two())

    def test_views_of_transforms(self):
        """views= takes torchvision's lists as they are."""
        daemon, dataset = self.daemon(), tree(8, classes=2, width=96, height=72)
        with self.loader(daemon, dataset, 8, None, views=[end(CROP), larder.View(tv.Compose([CROP, FLIP]), 2)],
                         output="torch") as loader:
            (views, _, _), = loader
        self.assertEqual([view.dtype for view in views], [torch.float32, torch.uint8, torch.uint8])
        with self.assertRaisesRegex(larder.InvalidArgument, r"views\[1\]: transform 0, Lambda"):
            self.loader(daemon, dataset, 8, None, views=[CROP, tv.Lambda(lambda image: image.rotate(3))])


class Papers(Case):
    def test_lists(self):
        """Each of larder.recipes is a pipeline, or views, that the daemon takes, for other sizes as well."""
        daemon, dataset = self.daemon(), tree(8, classes=2, width=96, height=72)
        names = sorted(set(larder.recipes.__all__) - {"MEAN", "STD"})
        self.assertEqual(len(names), 15)
        for name in names:
            recipe = getattr(larder.recipes, name)
            with self.subTest(name), self.loader(daemon, dataset, 8, recipe(SIDE)) as loader:
                (images, _, _), = loader
                self.assertEqual(isinstance(images, tuple), isinstance(recipe, tuple))
                for view in images if isinstance(images, tuple) else [images]:
                    self.assertEqual(view.shape[0], 8)
            self.assertEqual(pickle.loads(pickle.dumps(recipe)), recipe)

    def test_timm_makes_them(self):
        """DeiT's, ConvNeXt's and RSB's are what timm makes of their words, but for what follows the pixels."""
        if create_transform is None:
            self.skipTest("this Python has no timm")
        for name, words in (("DeiT", "rand-m9-mstd0.5-inc1"), ("ConvNeXt", "rand-m9-mstd0.5-inc1"),
                            ("RSB", "rand-m7-mstd0.5-inc1")):
            made = create_transform(224, is_training=True, auto_augment=words, interpolation="bicubic")
            theirs, ours = larder.from_torchvision(made), list(getattr(larder.recipes, name))
            self.assertEqual([step.name for step in theirs[:3]], [step.name for step in ours])
            given = ours[2].arguments
            self.assertEqual({key: theirs[2].arguments[key] for key in given}, given)


class Groups(Case):
    def share(self, loader, changed):
        """In how many of the samples of an epoch."""
        return sum(int(changed(image)) for images, _, _ in loader for image in images)

    def test_chance(self):
        """random_apply happens as often as p says, and each alternative of random_choice as its weight says, to all of
        its operators together; p of 0 and 1 are exact."""
        count = 400
        dataset, daemon = tree(count, width=16, height=16), self.daemon()
        white = [larder.RandomPosterize(0, 1), larder.RandomSolarize(0, 1)]  # 0 first, and then 255
        for p in (0.0, 0.3, 1.0):
            loader = self.loader(daemon, dataset, 50, [larder.Resize([8, 8]), larder.RandomApply(white, p)])
            got = self.share(loader, lambda image: image.min() == 255)
            self.assertLessEqual(abs(got - p * count), 6 * (count * p * (1 - p)) ** 0.5, p)
        choice = larder.RandomChoice([white, larder.RandomPosterize(0, 1), []], [1, 1, 2])
        seen = []
        for images, _, _ in self.loader(daemon, dataset, 50, [larder.Resize([8, 8]), choice]):
            seen += [255 if image.min() == 255 else 0 if image.max() == 0 else 1 for image in images]
        for value, p in ((255, 0.25), (0, 0.25), (1, 0.5)):
            self.assertLessEqual(abs(seen.count(value) - p * count), 6 * (count * p * (1 - p)) ** 0.5, value)

    def test_strict_again(self):
        """With shuffle="strict" a group draws the same in two runs."""
        dataset = tree(40, width=16, height=16)
        daemon = self.daemon()
        pipeline = [larder.Resize([8, 8]), larder.RandomChoice([larder.RandomRotation(40), larder.GaussianBlur(3)])]
        runs = [[images.tobytes() for images, _, _ in self.loader(daemon, dataset, 8, pipeline, shuffle="strict")]
                for _ in range(2)]
        self.assertEqual(*runs)

    def test_refused(self):
        """Alternatives of different shapes, wrong weights, and what cannot be in a group."""
        dataset, daemon = tree(8, classes=2), self.daemon()
        for step, words in (({"random_apply": {"transforms": [{"center_crop": {"size": 4}}]}}, "different shapes"),
                            ({"random_choice": {"transforms": [{"center_crop": {"size": 4}},
                                                               {"center_crop": {"size": 5}}]}}, "different shapes"),
                            ({"random_choice": {"transforms": []}}, "`transforms`"),
                            ({"random_choice": {"transforms": ["autocontrast"], "p": [1, 2]}}, "as many weights"),
                            ({"random_choice": {"transforms": ["autocontrast"], "p": [0]}}, "above 0"),
                            ({"random_choice": {"transforms": ["autocontrast"], "p": ["a"]}}, "numbers"),
                            ({"random_apply": {"transforms": ["autocontrast"], "p": 2}}, "from 0 to 1"),
                            ({"random_apply": {"transforms": ["autocontrast"], "q": 2}}, "alone"),
                            ({"random_apply": {"transforms": [{"to_dtype": {"dtype": "float32"}}]}}, "in a group"),
                            ({"random_apply": {"transforms": ["no_such"]}}, "no operator"),
                            ({"random_apply": {"transforms": ["autocontrast"] * 65}}, "at most 64"),
                            ({"random_apply": {"transforms": [], "p": 2}}, "from 0 to 1"),
                            ({"random_apply": None}, "`transforms`")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                self.loader(daemon, dataset, 8, [{"resize": {"size": [8, 8]}}, step])
        with self.assertRaisesRegex(larder.InvalidArgument, "empty"):
            self.loader(daemon, dataset, 8, [larder.RandomApply([])])


if __name__ == "__main__":
    main()
