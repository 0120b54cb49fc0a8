"""NVIDIA DALI with CPU operators alone, as its documentation's pipelines for image classification have them: the
decoder cuts the random crop itself, and the iterator for PyTorch gives the last batch of an epoch short."""

import importlib.metadata

import job

PACKAGES = ("nvidia-dali-cuda120", "torch")


def available():
    try:
        import nvidia.dali
        import torch
        import nvidia.dali.plugin.pytorch  # noqa: F401
    except ImportError as reason:
        return None, str(reason)
    names = [name for name in ("nvidia-dali-cuda120", "nvidia-dali-cuda130") if has(name)]
    return f"{' '.join(names) or 'DALI'} {nvidia.dali.__version__}, torch {torch.__version__}", None


def has(name):
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def flipped(images, coin):
    from nvidia.dali import fn

    return fn.flip(images, horizontal=coin)


def jittered(images, coin):
    """ColorJitter(.4, .4, .4, .1): brightness, contrast, saturation and hue, all in one operator."""
    from nvidia.dali import fn

    factors = {name: fn.random.uniform(range=(0.6, 1.4)) for name in ("brightness", "contrast", "saturation")}
    return fn.color_twist(flipped(images, coin), hue=fn.random.uniform(range=(-36.0, 36.0)), **factors)


def blurred(images, coin):
    from nvidia.dali import fn

    return fn.gaussian_blur(flipped(images, coin), window_size=23, sigma=fn.random.uniform(range=(0.1, 2.0)))


def augmented(images, coin):
    from nvidia.dali.auto_aug import rand_augment

    return rand_augment.rand_augment(flipped(images, coin), n=2, m=9, shape=(job.SIZE, job.SIZE))


def normalized(images, coin):
    from nvidia.dali import fn, types

    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mirror=coin,
                                    mean=[255 * value for value in job.MEAN], std=[255 * value for value in job.STD])


LISTS = {"crop": flipped, "jitter": jittered, "blur": blurred, "rand_augment": augmented, "float32": normalized}


def pipeline(spec, files, batch, size):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=batch, num_threads=spec.threads, device_id=None, seed=1 + spec.index,
                  enable_conditionals=spec.list == "rand_augment")
    def train():
        encoded, index = fn.readers.file(files=files, labels=list(range(len(files))), shuffle_after_epoch=True,
                                         pad_last_batch=True, name="Reader")
        images = fn.decoders.image_random_crop(encoded, device="cpu", random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[size, size])
        return LISTS[spec.list](images, fn.random.coin_flip()), index

    return train()


def loader(spec):
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    built = pipeline(spec, job.files_of(spec.folder), job.BATCH, job.SIZE)
    batches = DALIGenericIterator([built], ["images", "indices"], reader_name="Reader", auto_reset=True,
                                  last_batch_policy=LastBatchPolicy.PARTIAL)

    def epoch():
        for parts in batches:
            yield parts[0]["images"], parts[0]["indices"].flatten().tolist()

    return epoch
