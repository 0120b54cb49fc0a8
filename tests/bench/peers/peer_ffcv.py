"""FFCV with images kept as JPEG in its own file, cached by the system, as its ImageNet example writes it. Its writer
decodes each image and writes it again with quality 90, so there are fewer bytes to decode than in the folder."""

import importlib.metadata
import os

PACKAGES = ("ffcv", "torch", "numba")


def available():
    try:
        import ffcv.loader  # noqa: F401
        import numba
        import torch
    except Exception as reason:  # what it is built on fails in ways of its own  # noqa: BLE001
        return None, f"{type(reason).__name__}: {reason}"
    return f"ffcv {importlib.metadata.version('ffcv')}, numba {numba.__version__}, torch {torch.__version__}", None


def pack(spec, path, field, opened):
    """Writes the file. field: what takes what opened(path of an image) gives."""
    import logging

    import job
    from ffcv.fields import IntField
    from ffcv.writer import DatasetWriter

    logging.disable(logging.DEBUG)  # numba's, thousands of lines
    files = job.files_of(spec.folder)

    class Photographs:
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            return opened(files[index]), index

    if not os.path.exists(path):
        writer = DatasetWriter(path + ".new", {"image": field, "index": IntField()}, num_workers=1)
        writer.from_indexed_dataset(Photographs())
        os.rename(path + ".new", path)


def batches_of(spec, path):
    import job
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor

    pipelines = {"image": [RandomResizedCropRGBImageDecoder((job.SIZE, job.SIZE)), RandomHorizontalFlip(), ToTensor()],
                 "index": [IntDecoder(), ToTensor(), Squeeze(1)]}
    batches = Loader(path, batch_size=job.BATCH, num_workers=spec.threads, order=OrderOption.RANDOM, os_cache=True,
                     drop_last=False, pipelines=pipelines)
    return lambda: iter(batches)


def file_of(spec):
    return os.path.join(spec.data, "photographs.beton")


def prepare(spec):
    import PIL.Image
    from ffcv.fields import RGBImageField

    pack(spec, file_of(spec), RGBImageField(write_mode="jpg", jpeg_quality=90),
         lambda path: PIL.Image.open(path).convert("RGB"))


def loader(spec):
    return batches_of(spec, file_of(spec))
