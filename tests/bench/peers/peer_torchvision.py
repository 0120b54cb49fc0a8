"""torch's DataLoader with torchvision's first transforms: Pillow decodes, and works on its own images.

As torch's documentation recommends: worker processes, kept between epochs, and one thread in each."""

PACKAGES = ("torch", "torchvision", "pillow")


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
    import job
    import torchvision.transforms as T

    transform = T.Compose([T.RandomResizedCrop(job.SIZE), T.RandomHorizontalFlip(), T.PILToTensor()])
    batches = data_loader(with_indices(transform, spec.folder), spec, job.BATCH)
    return lambda: iter(batches)
