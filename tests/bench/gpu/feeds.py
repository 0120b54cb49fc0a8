"""Where a training's batches come from. Each feed gives batches of (images, labels) on the device for ever, images as
floating point in channels-last memory; `waited_s` is how long Larder says that the job waited, of others None."""

import os
import sys

import torch

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
MEAN, DEVIATION = (.485, .456, .406), (.229, .224, .225)


class Feed:
    def __init__(self, spec, device):
        self.spec, self.device = spec, device
        self._mean, self._deviation = (torch.tensor(values, device=device).reshape(1, 3, 1, 1) * 255
                                       for values in (MEAN, DEVIATION))

    def moved(self, images, labels):
        images = images.to(self.device, non_blocking=True, memory_format=torch.channels_last)
        return ((images.to(torch.float32) - self._mean) / self._deviation,
                labels.to(self.device, non_blocking=True, dtype=torch.int64))

    def waited_s(self):
        return None

    def close(self):
        pass


class Synthetic(Feed):
    """One batch that lies on the device: no data to wait for."""

    def __iter__(self):
        size = self.spec["size"]
        images = torch.randint(0, 256, (self.spec["batch"], 3, size, size), dtype=torch.uint8)
        images = images.to(self.device, memory_format=torch.channels_last)
        labels = torch.randint(0, 20, (self.spec["batch"],), device=self.device)
        while True:
            yield self.moved(images, labels)


class DataLoader(Feed):
    """torch's and torchvision's, as their documentation has them; normalised on the device."""

    def __iter__(self):
        import torchvision.transforms as T
        from torchvision.datasets import ImageFolder
        crop = T.Compose([T.RandomResizedCrop(self.spec["size"]), T.RandomHorizontalFlip(), T.PILToTensor()])
        cuda = self.device.type == "cuda"
        loader = torch.utils.data.DataLoader(
            ImageFolder(self.spec["folder"], crop), self.spec["batch"], shuffle=True, drop_last=True,
            num_workers=self.spec["workers"], persistent_workers=True, pin_memory=cuda,
            generator=torch.Generator().manual_seed(self.spec["seed"]))
        while True:
            for images, labels in loader:
                yield self.moved(images, labels)


class Larder(Feed):
    """A job of the daemon that all trainings of the cell share."""

    def __init__(self, spec, device):
        super().__init__(spec, device)
        sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
        import larder
        pipeline = [larder.RandomResizedCrop(spec["size"]), larder.RandomHorizontalFlip()]
        self._loader = larder.Loader(spec["folder"], pipeline, spec["batch"], socket=spec["socket"], drop_last=True,
                                     seed=spec["seed"], epochs=1_000_000, prefetch=4)
        self._batches = larder.to_device(self._loader, device, normalize=(MEAN, DEVIATION))

    def __iter__(self):
        while True:
            yield from self._batches

    def waited_s(self):
        return self._loader.stats()["wait_s"]

    def close(self):
        self._loader.close()


class Dali(Feed):
    """NVIDIA DALI as its documentation's pipelines for image classification: decoded on the CPU, or on the GPU."""

    def __iter__(self):
        from nvidia.dali import fn, pipeline_def, types
        from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy
        spec, on_gpu, size = self.spec, self.spec["variant"] == "dali-gpu", self.spec["size"]

        @pipeline_def(batch_size=spec["batch"], num_threads=max(1, spec["workers"]), seed=1 + spec["seed"],
                      device_id=0 if self.device.type == "cuda" else None)
        def train():
            encoded, label = fn.readers.file(file_root=spec["folder"], random_shuffle=True, name="Reader")
            images = fn.decoders.image_random_crop(encoded, device="mixed" if on_gpu else "cpu",
                                                   random_area=[.08, 1], random_aspect_ratio=[3 / 4, 4 / 3])
            images = fn.resize(images, size=[size, size])
            images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), output_layout="CHW",
                                              dtype=types.UINT8, mean=[0.0], std=[1.0])
            return images, label

        batches = DALIGenericIterator([train()], ["images", "labels"], reader_name="Reader", auto_reset=True,
                                      last_batch_policy=LastBatchPolicy.DROP)
        while True:
            for parts in batches:
                yield self.moved(parts[0]["images"], parts[0]["labels"].flatten())


FEEDS = {"synthetic": Synthetic, "loader-divided": DataLoader, "loader-all": DataLoader, "larder": Larder,
         "larder-planes": Larder, "dali-cpu": Dali, "dali-gpu": Dali}
