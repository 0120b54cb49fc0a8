"""FFCV with images kept as JPEG in its own file, cached by the system. Its writer decodes each image and writes it
again with quality 90, so its bytes are not those of the folder."""

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


def file_of(spec):
    return os.path.join(spec.data, "photographs.beton")


def prepare(spec):
    if os.path.exists(file_of(spec)):
        return
    import logging

    import job
    import PIL.Image

    logging.disable(logging.DEBUG)  # numba's, thousands of lines
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    files = job.files_of(spec.folder)

    class Photographs:
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            return PIL.Image.open(files[index]).convert("RGB"), index

    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "index": IntField()}
    DatasetWriter(file_of(spec), fields, num_workers=1).from_indexed_dataset(Photographs())


def loader(spec):
    import job
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor

    pipelines = {"image": [RandomResizedCropRGBImageDecoder((job.SIZE, job.SIZE)), RandomHorizontalFlip(), ToTensor()],
                 "index": [IntDecoder(), ToTensor(), Squeeze(1)]}
    batches = Loader(file_of(spec), batch_size=job.BATCH, num_workers=spec.threads, order=OrderOption.RANDOM,
                     os_cache=True, drop_last=False, pipelines=pipelines)
    return lambda: iter(batches)
