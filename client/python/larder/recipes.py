"""The lists of augmentations that papers train with: larder.recipes.MAE is a pipeline, larder.recipes.MAE(size=192) the
same for another size. Where a paper takes several views of an image, it is a tuple of larder.View, for
larder.Loader(path, views=larder.recipes.DINO): a batch has a tensor for each of the ten.

All end in 8-bit pixels: larder.to_device(loader, device, normalize=(larder.recipes.MEAN, larder.recipes.STD)) makes
them floating point. docs/reference/recipes.md says what each list is.
"""

from .transforms import (ColorJitter, GaussianBlur, Grayscale, PilGaussianBlur, RandomApply, RandomChoice, RandomCrop,
                         RandomGrayscale, RandomHorizontalFlip, RandomResizedCrop, RandomSolarize, Resize,
                         TimmRandAugment, View)

__all__ = ["BEiT", "BYOL", "BarlowTwins", "ConvNeXt", "DINO", "DINOv2", "DeiT", "DeiT_III", "MAE", "MoCo_v1", "MoCo_v2",
           "MoCo_v3", "RSB", "SimCLR", "SwAV", "MEAN", "STD"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FILL = [124, 116, 104]  # MEAN in levels, as timm rounds it


def _recipe(make):
    """The list, or tuple of views, that `make` gives, which can be called for another one."""
    first = make()
    kind = type(make.__name__, (type(first),), {"__call__": staticmethod(make), "__doc__": make.__doc__,
                                                "__reduce__": lambda self: make.__name__, "__module__": __name__,
                                                "__hash__": None})
    return kind(first)


def _view(size, scale, blur, jitter=(0.4, 0.4, 0.2, 0.1), solarize=0, interpolation="bicubic"):
    """A crop, a flip, other colours, a blur."""
    return [RandomResizedCrop(size, scale=scale, interpolation=interpolation), RandomHorizontalFlip(),
            RandomApply([ColorJitter(*jitter)], 0.8), RandomGrayscale(0.2), blur,
            *([RandomSolarize(128, solarize)] if solarize else [])]


def _pillow(p):
    return PilGaussianBlur([0.1, 2.0], p)


def _gaussian(size, p):
    """With a kernel of that many pixels, or one more to make it odd."""
    return RandomApply([GaussianBlur(size // 2 * 2 + 1, [0.1, 2.0])], p)


@_recipe
def SimCLR(size=224, strength=1.0):
    """SimCLR's two views. The blur's kernel is a tenth of the size."""
    jitter = [strength * part for part in (0.8, 0.8, 0.8, 0.2)]
    return (View(_view(size, [0.08, 1], _gaussian(size // 10, 0.5), jitter, interpolation="bilinear"), 2),)


@_recipe
def MoCo_v1(size=224):
    """MoCo v1's two views."""
    return (View([RandomResizedCrop(size, scale=[0.2, 1]), RandomGrayscale(0.2), ColorJitter(0.4, 0.4, 0.4, 0.4),
                  RandomHorizontalFlip()], 2),)


def _flip_last(view):
    crop, flip, *others = view
    return [crop, *others, flip]


@_recipe
def MoCo_v2(size=224):
    """MoCo v2's two views."""
    return (View(_flip_last(_view(size, [0.2, 1], _pillow(0.5), (0.4, 0.4, 0.4, 0.1), interpolation="bilinear")), 2),)


@_recipe
def MoCo_v3(size=224, crop_min=0.2):
    """MoCo v3's two views; for ViT its crop_min is 0.08."""
    return tuple(View(_flip_last(_view(size, [crop_min, 1], _pillow(blur), solarize=solarize,
                                       interpolation="bilinear")))
                 for blur, solarize in ((1.0, 0), (0.1, 0.2)))


@_recipe
def BYOL(size=224):
    """BYOL's two views."""
    return tuple(View(_view(size, [0.08, 1], _gaussian(size // 10, blur), solarize=solarize))
                 for blur, solarize in ((1.0, 0), (0.1, 0.2)))


@_recipe
def BarlowTwins(size=224):
    """Barlow Twins' two views, and VICReg's."""
    return tuple(View(_view(size, [0.08, 1], _pillow(blur), solarize=solarize))
                 for blur, solarize in ((1.0, 0), (0.1, 0.2)))


@_recipe
def SwAV(size=224, small=96):
    """SwAV's eight views: two large ones and six small ones."""
    return tuple(View(_view(side, scale, _pillow(0.5), (0.8, 0.8, 0.8, 0.2), interpolation="bilinear"), count)
                 for side, scale, count in ((size, [0.14, 1], 2), (small, [0.05, 0.14], 6)))


@_recipe
def DINO(size=224, small=96, scale=0.4):
    """DINO's ten views: two large ones and eight small ones."""
    return tuple(View(_view(side, part, _pillow(blur), solarize=solarize), count)
                 for side, part, blur, solarize, count in
                 ((size, [scale, 1], 1.0, 0, 1), (size, [scale, 1], 0.1, 0.2, 1), (small, [0.05, scale], 0.5, 0, 8)))


@_recipe
def DINOv2(size=224, small=98, scale=0.32):
    """DINOv2's ten views: two large ones and eight small ones."""
    return tuple(View(_view(side, part, _gaussian(9, blur), solarize=solarize), count)
                 for side, part, blur, solarize, count in
                 ((size, [scale, 1], 1.0, 0, 1), (size, [scale, 1], 0.1, 0.2, 1), (small, [0.05, scale], 0.5, 0, 8)))


@_recipe
def MAE(size=224):
    """MAE's pre-training."""
    return [RandomResizedCrop(size, scale=[0.2, 1], interpolation="bicubic"), RandomHorizontalFlip()]


@_recipe
def BEiT(size=224):
    """BEiT's pre-training, what its model sees. The tokenizer's smaller copy of the same crop, and the mask, are made
    in the script."""
    return [ColorJitter(0.4, 0.4, 0.4), RandomHorizontalFlip(), RandomResizedCrop(size, interpolation="bicubic")]


def _rand_augmented(size, magnitude):
    return [RandomResizedCrop(size, interpolation="bicubic"), RandomHorizontalFlip(),
            TimmRandAugment(2, magnitude, 0.5, "increasing", mstd=0.5, interpolation="bicubic", fill=_FILL)]


@_recipe
def DeiT(size=224):
    """DeiT's rand-m9-mstd0.5-inc1. Its RandomErasing (0.25, pixel) works on normalised pixels, on the device."""
    return _rand_augmented(size, 9)


@_recipe
def DeiT_III(size=224):
    """DeiT III's 3-Augment, with its simple random crop."""
    return [Resize(size, interpolation="bicubic"), RandomCrop(size, padding=4, padding_mode="reflect"),
            RandomHorizontalFlip(),
            RandomChoice([Grayscale(3), RandomSolarize(128, 1), _pillow(1.0)]),
            ColorJitter(0.3, 0.3, 0.3)]


@_recipe
def ConvNeXt(size=224):
    """ConvNeXt's, which is DeiT's."""
    return _rand_augmented(size, 9)


@_recipe
def RSB(size=224):
    """ResNet strikes back, A1 and A2: rand-m7-mstd0.5-inc1."""
    return _rand_augmented(size, 7)
