"""torch's DataLoader with torchvision's second transforms, on uint8 tensors, as their documentation recommends for
speed: torchvision's own decoder, bilinear with antialiasing."""

import job
import peer_torchvision

PACKAGES = ("torch", "torchvision")
LISTS = {"crop": lambda T: [],
         "jitter": lambda T: [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
         "blur": lambda T: [T.GaussianBlur(23, (0.1, 2.0))],
         "rand_augment": lambda T: [T.RandAugment()],
         "float32": lambda T: [T.ToDtype(torch().float32, scale=True), T.Normalize(job.MEAN, job.STD)]}


def torch():
    import torch

    return torch


def available():
    version, reason = peer_torchvision.available()
    if not version:
        return None, reason
    try:
        import torchvision.transforms.v2  # noqa: F401
    except ImportError:
        return None, f"no torchvision.transforms.v2 in {version}"
    return version, None


def decode(path):
    import torchvision.io

    return torchvision.io.decode_image(path, mode=torchvision.io.ImageReadMode.RGB)


def transform(size, name="crop"):
    import torchvision.transforms.v2 as T

    return T.Compose([T.RandomResizedCrop(size, antialias=True), T.RandomHorizontalFlip(), *LISTS[name](T)])


def loader(spec):
    dataset = peer_torchvision.with_indices(transform(job.SIZE, spec.list), spec.folder, loader=decode)
    batches = peer_torchvision.data_loader(dataset, spec, job.BATCH)
    return lambda: iter(batches)
