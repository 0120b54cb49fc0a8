"""from_torchvision goes by names and attributes: stand-ins with torchvision's attributes, as its classes keep them."""

import enum
import warnings
from unittest import mock

from support import Case, larder, main
from larder import _torchvision, from_torchvision


class Interpolation(enum.Enum):
    BICUBIC = "bicubic"


class Dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name


def made(name, module="torchvision.transforms.transforms", **attributes):
    return type(name, (), {"__module__": module, **attributes})()


def v2(name, **attributes):
    return made(name, "torchvision.transforms.v2._geometry", **attributes)


def specs(*steps):
    return [step.spec for step in from_torchvision(made("Compose", transforms=list(steps)))]


NORMALIZE = made("Normalize", mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2), inplace=True)
NORMALIZED = {"normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2]}}
TO_FLOAT = {"to_dtype": {"dtype": "float32", "scale": True}}
CHW = {"layout": {"layout": "CHW"}}


class Cost(Case):
    def said(self, *steps):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            specs(*steps)
        return [str(each.message) for each in said]

    def test_floating_point_is_warned_of_once(self):
        """A list that ends in floating point says once what that costs, and what to do instead."""
        crop, tensor = made("CenterCrop", size=(8, 8)), made("ToTensor")
        half = v2("ToDtype", dtype=Dtype("float16"), scale=True)
        erase = made("RandomErasing", p=0.5, scale=(0.1, 0.2), ratio=(0.5, 2), value=0, inplace=False)
        with mock.patch.object(_torchvision, "_told", False):
            self.assertEqual(self.said(crop) + self.said(crop, made("PILToTensor")), [])
            text, = self.said(crop, tensor, NORMALIZE)
            self.assertRegex(text, r"float32: .* 4 times the memory .* larder.to_device\(.*normalize=\(mean, std\)\)")
            self.assertEqual(self.said(crop, tensor), [])
        with mock.patch.object(_torchvision, "_told", False):
            text, = self.said(crop, made("PILToTensor"), half, erase)
            self.assertRegex(text, "float16: .* 2 times the memory .*RandomErasing then belongs there too")


class FromTorchvision(Case):
    def test_the_usual_training_list(self):
        """ToTensor becomes float32 between 0 and 1, channels first at the end; what torchvision ignores is left out."""
        crop = made("RandomResizedCrop", size=(224, 224), scale=(0.2, 1.0), ratio=(0.75, 1.25), antialias=None,
                    interpolation=Interpolation.BICUBIC)
        self.assertEqual(specs(crop, made("RandomHorizontalFlip", p=0.5), made("ToTensor"), NORMALIZE), [
            {"random_resized_crop": {"size": [224, 224], "scale": [0.2, 1.0], "ratio": [0.75, 1.25],
                                     "interpolation": "bicubic"}},
            {"random_horizontal_flip": {"p": 0.5}}, TO_FLOAT, NORMALIZED, CHW])

    def test_without_a_tensor(self):
        """A list that ends with a PIL image gives uint8, channels last; lists within lists are walked in order."""
        inner = made("Sequential")
        inner.transforms = [made("CenterCrop", size=(8, 8))]
        self.assertEqual(specs(made("Resize", size=9, max_size=None, antialias="warn"), inner),
                         [{"resize": {"size": 9}}, {"center_crop": {"size": [8, 8]}}])

    def test_v2(self):
        """v2 keeps sizes as lists, RandomCrop's padding as left, right, top, bottom, and no word for random erasing."""
        self.assertEqual(specs(v2("ToImage"), v2("Resize", size=[32], antialias=True, max_size=None),
                               v2("RandomCrop", size=(28, 28), padding=[1, 2, 3, 4], pad_if_needed=False, fill=0,
                                  padding_mode="constant"),
                               v2("ToDtype", dtype=Dtype("float16"), scale=True),
                               v2("RandomErasing", p=0.1, value=None)), [
            {"resize": {"size": 32, "antialias": True}},
            {"random_crop": {"size": [28, 28], "padding": [1, 3, 2, 4], "pad_if_needed": False, "fill": 0,
                             "padding_mode": "constant"}},
            {"to_dtype": {"dtype": "float16", "scale": True, "reciprocal": True}},
            {"random_erasing": {"p": 0.1, "value": "random"}}, CHW])

    def test_tensors_are_antialiased_when_asked(self):
        """A PIL image is always antialiased; a tensor only by antialias=True, so "warn" and None mean no."""
        for given, means in ((True, True), (False, False), (None, False), ("warn", False)):
            resize = made("Resize", size=(8, 8), antialias=given)
            self.assertEqual(specs(made("PILToTensor"), resize)[0]["resize"]["antialias"], means)
            self.assertNotIn("antialias", specs(resize)[0]["resize"])

    def test_moves_after_the_conversion(self):
        """What only moves pixels may stand after ToTensor, and is then done before; what changes them may not."""
        flip, rotate = made("RandomHorizontalFlip", p=0.5), made("RandomRotation", degrees=(-9, 9))
        crop = made("RandomCrop", size=(8, 8), padding=4, fill=0, padding_mode="constant")
        self.assertEqual([list(step)[0] for step in specs(made("ToTensor"), flip, crop, NORMALIZE)],
                         ["random_horizontal_flip", "random_crop", "to_dtype", "normalize", "layout"])
        for steps, word in (((made("ToTensor"), rotate),
                             r"transform 1, RandomRotation: .*\[RandomRotation, ToTensor\]"),
                            ((made("ToTensor"), made("Pad", padding=1, fill=1)), "transform 1, Pad"),
                            ((made("ToTensor"), NORMALIZE, flip),
                             r"transform 2, RandomHorizontalFlip: .*\[RandomHorizontalFlip, ToTensor, Normalize\]")):
            with self.assertRaisesRegex(larder.InvalidArgument, word):
                specs(*steps)

    def test_rounding_after_the_conversion(self):
        """What computes levels in the same way before ToTensor and after, but for rounding, is done before; bicubic
        filters, hue and 16 bits are not."""
        tensor, jitter = made("ToTensor"), made("ColorJitter", brightness=(0.5, 1.5), contrast=None, hue=None)
        resize = made("Resize", size=(8, 8), interpolation="bilinear", antialias=True)
        blur = made("GaussianBlur", kernel_size=(3, 3), sigma=(1, 1))
        self.assertEqual([list(step)[0] for step in specs(tensor, resize, jitter, blur)],
                         ["resize", "color_jitter", "gaussian_blur", "to_dtype", "layout"])
        half = made("ConvertImageDtype", dtype=Dtype("float16"))
        for steps in ((tensor, made("Resize", size=(8, 8), interpolation=Interpolation.BICUBIC, antialias=True)),
                      (tensor, made("ColorJitter", hue=(-0.1, 0.1))), (made("PILToTensor"), half, resize)):
            with self.assertRaisesRegex(larder.InvalidArgument, "put the conversion behind it"):
                specs(*steps)

    def test_orders(self):
        """RandomOrder of up to three is a choice of all orders."""
        parts = [made("RandomHorizontalFlip", p=0.5), made("RandomVerticalFlip", p=0.5), made("Grayscale")]
        step, = specs(made("RandomOrder", transforms=parts))
        orders = [tuple(list(part)[0] for part in order) for order in step["random_choice"]["transforms"]]
        self.assertEqual((len(orders), len(set(orders))), (6, 6))
        with self.assertRaisesRegex(larder.InvalidArgument, "up to 3 transforms, and these are 4"):
            specs(made("RandomOrder", transforms=parts + parts[:1]))
        sizes = specs(made("RandomShortestSize", min_size=[20, 30], max_size=None))
        self.assertEqual([list(part.values())[0]["min_size"] for part in sizes[0]["random_choice"]["transforms"]],
                         [20, 30])

    def test_scale(self):
        """v2's conversions multiply by 1/255, and what begins with ToTensor or is torchvision's first version divides
        by 255."""
        times = {"to_dtype": {"dtype": "float32", "scale": True, "reciprocal": True}}
        whole = v2("ToDtype", dtype=Dtype("float32"), scale=True)
        self.assertEqual(specs(v2("ToImage"), whole), [times, CHW])
        self.assertEqual(specs(v2("ToImage"), v2("ConvertImageDtype", dtype=Dtype("float32"))), [times, CHW])
        for steps in ((made("ToTensor"),), (v2("ToTensor"), whole),
                      (made("PILToTensor"), made("ConvertImageDtype", dtype=Dtype("float32")))):
            self.assertEqual(specs(*steps), [TO_FLOAT, CHW])

    def test_functions_that_convert(self):
        """Functions that convert to RGB and do no more are known, also in a Lambda; those that do less, more, or what
        nobody can tell are not."""
        try:
            import PIL  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no Pillow")
        chance = 0.5
        def to_rgb(image):
            return image.convert("RGB")
        def unless(image):
            return image if image.mode == "RGB" else to_rgb(image)
        for function in (to_rgb, lambda image: image.convert("RGB") if image.mode != "RGB" else image):
            self.assertEqual(specs(function), [])
            self.assertEqual(specs(made("Lambda", lambd=staticmethod(function))), [])
        for function in (lambda image: image, lambda image: image.convert("L"), lambda image: image.rotate(9),
                         lambda image: image.convert("RGB") if chance else image, unless, str,
                         lambda image: image.convert("RGB").transpose(0)):
            with self.assertRaisesRegex(larder.InvalidArgument, "transform 0, .*(a function|no operator)"):
                specs(function)
        with self.assertRaisesRegex(larder.InvalidArgument, "cannot look into a function"):
            specs(made("ToTensor"), to_rgb)

    def test_split(self):
        """split takes the longest beginning that Larder can do, and says why not the rest; the rest gets what the list
        would have held."""
        flip, own = made("RandomHorizontalFlip", p=0.5), made("Mine", "script")
        self.assertEqual(larder.split(made("Compose", transforms=[flip])), (from_torchvision(flip), None))
        pipeline, rest = larder.split([flip, made("CenterCrop", size=4), own, flip])
        self.assertEqual([step.name for step in pipeline], ["random_horizontal_flip", "center_crop"])
        self.assertEqual(rest.transforms, [own, flip])
        self.assertEqual(rest.why, "transform 2, Mine: Larder has no operator for it")
        pipeline, rest = larder.split([flip, own, made("CenterCrop", size=4)])  # nothing gives the batches a size
        self.assertEqual((pipeline, len(rest.transforms)), ([], 3))
        self.assertEqual(rest.why, "transform 1, Mine: Larder has no operator for it; RandomHorizontalFlip before "
                                   "transform 1 leaves images of different sizes, so the pipeline is [] and each "
                                   "script decodes for itself: put a crop there")
        self.assertEqual(larder.split([own])[1].why,
                         "transform 0, Mine: Larder has no operator for it; nothing stands before it, so the pipeline "
                         "is [] and each script decodes for itself: put a crop there")
        choice = made("RandomChoice", transforms=[made("Resize", size=(4, 4)), made("CenterCrop", size=4)], p=None)
        self.assertEqual(len(larder.split([choice, own])[0]), 1)
        crop = made("CenterCrop", size=4)
        pipeline, rest = larder.split([crop, made("ToTensor"), NORMALIZE, lambda tensor: tensor + 1])
        self.assertEqual([step.name for step in pipeline], ["center_crop", "to_dtype", "normalize", "layout"])
        self.assertEqual(rest(1), 2)  # a tensor stays one

    def test_refusals_name_the_transform(self):
        """What Larder has no operator for, and what it would do differently, is named with its position."""
        flip = made("RandomHorizontalFlip", p=0.5)
        for step, words in ((made("RandomIoUCrop"), "transform 1, RandomIoUCrop: .*no operator.*larder.split"),
                            (made("Lambda"), "Lambda"), (made("Compositor"), "Compositor: .*no operator"),
                            (NORMALIZE, "Normalize: .*floating point"),
                            (made("RandomErasing"), "RandomErasing: .*ToTensor"),
                            (made("Resize", size=None, max_size=9), "Resize: .*its size"),
                            (v2("RandomRotation", degrees=[-9, 9], fill={"image": 0}), "RandomRotation: .*one fill")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                specs(flip, step)
        for dtype, words in ((Dtype("float64"), "not float64"), ({"image": Dtype("float32")}, "one dtype")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                specs(made("ToImage"), made("ToDtype", dtype=dtype, scale=True))

    def test_several_images(self):
        """FiveCrop and TenCrop are views: what stands before is in each, and what comes behind is refused."""
        resize, five = made("Resize", size=9, max_size=None), made("FiveCrop", size=(4, 5))
        views = larder.from_torchvision([resize, five])
        self.assertEqual([[step.name for step in view.pipeline] for view in views],
                         [["resize", "corner_crop"]] * 4 + [["resize", "center_crop"]])
        self.assertEqual([view.pipeline[1].arguments for view in views[2:]],
                         [{"size": [4, 5], "corner": "bottom_left"}, {"size": [4, 5], "corner": "bottom_right"},
                          {"size": [4, 5]}])
        ten = larder.from_torchvision([resize, made("TenCrop", size=(4, 5), vertical_flip=True)])
        self.assertEqual(ten[:5], views)
        self.assertEqual([[step.name for step in view.pipeline] for view in ten[5:]],
                         [["resize", "random_vertical_flip", "corner_crop"]] * 4 +
                         [["resize", "random_vertical_flip", "center_crop"]])
        for behind in (five, made("RandomHorizontalFlip", p=0.5), made("ToTensor"), len):
            with self.assertRaisesRegex(larder.InvalidArgument, "transform 2, .*behind several images"):
                larder.from_torchvision([resize, five, behind])
        with self.assertRaisesRegex(larder.InvalidArgument, "FiveCrop: .*behind it"):
            larder.from_torchvision([resize, made("ToTensor"), NORMALIZE, five])


if __name__ == "__main__":
    main()
