"""torch's DataLoader with torchvision's second transforms, on uint8 tensors, as their documentation recommends for
speed: torchvision's own decoder, bilinear with antialiasing."""

import peer_torchvision

PACKAGES = ("torch", "torchvision")


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


def transform(size):
    import torchvision.transforms.v2 as T

    return T.Compose([T.RandomResizedCrop(size, antialias=True), T.RandomHorizontalFlip()])


def loader(spec):
    import job

    dataset = peer_torchvision.with_indices(transform(job.SIZE), spec.folder, loader=decode)
    batches = peer_torchvision.data_loader(dataset, spec, job.BATCH)
    return lambda: iter(batches)
