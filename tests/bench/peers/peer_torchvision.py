"""torch's DataLoader with torchvision's first transforms: Pillow decodes, and works on its own images.

As torch's documentation recommends: worker processes, kept between epochs, and one thread in each."""

import job

PACKAGES = ("torch", "torchvision", "pillow")
LISTS = {"crop": lambda T: [T.PILToTensor()],
         "jitter": lambda T: [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.PILToTensor()],
         "blur": lambda T: [T.GaussianBlur(23, (0.1, 2.0)), T.PILToTensor()],
         "rand_augment": lambda T: [T.RandAugment(), T.PILToTensor()],
         "float32": lambda T: [T.ToTensor(), T.Normalize(job.MEAN, job.STD)]}


def available():
    try:
        import PIL
        import torch
        import torchvision
    except ImportError as reason:
        return None, str(reason)
    return f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}", None


def with_indices(transform, folder, **options):
    """An ImageFolder whose items are (image, index) in place of (image, class)."""
    import torchvision

    class Indexed(torchvision.datasets.ImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(index)[0], index

    return Indexed(folder, transform, **options)


def data_loader(dataset, spec, batch_size):
    import torch

    torch.set_num_threads(1)
    return torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, num_workers=spec.threads,
                                       persistent_workers=True)


def loader(spec):
    import torchvision.transforms as T

    transform = T.Compose([T.RandomResizedCrop(job.SIZE), T.RandomHorizontalFlip(), *LISTS[spec.list](T)])
    batches = data_loader(with_indices(transform, spec.folder), spec, job.BATCH)
    return lambda: iter(batches)
