"""to_device: batches on the device that trains, and there made floating point and normalised."""

from ._dataset import BatchSampler
from ._epoch import Batch
from .errors import InvalidArgument
from ._mix import Mix
from .loader import Loader


def to_device(loader, device, normalize=None, dtype=None):
    """An iterable of the Loader's batches with their tensors on `device`: each iteration is the Loader's next epoch.

    normalize  (mean, std), by channel, of 0 … 1: uint8 images become floating point, (x / 255 - mean) / std. None:
               images stay as they are
    dtype      of normalised images, one of floating point; torch.float32 by default

    On a CUDA device a batch goes through pinned memory, and is copied and normalised on a stream of its own, while the
    device still works on what was queued before. Nothing is fetched ahead of the loop: the Loader's state_dict() is
    where the loop stands, at any moment. On the CPU the result is the same."""
    return DeviceLoader(loader, device, normalize, dtype)


class DeviceLoader:
    """What to_device gives. It has the Loader's attributes too (classes, state_dict, set_epoch, …)."""

    def __init__(self, loader, device, normalize=None, dtype=None):
        import torch
        self._loader = loader
        self._device = torch.device(device)
        self._dtype = torch.float32 if dtype is None else dtype
        if not (isinstance(self._dtype, torch.dtype) and self._dtype.is_floating_point):
            raise InvalidArgument(f"dtype is {dtype!r}: normalised images are of floating point, such as torch.float16")
        self._constants = None if normalize is None else _constants(torch, normalize, self._device)
        self._streams = torch.cuda if self._device.type == "cuda" else None
        self._side = None
        if self._streams is not None and isinstance(loader, (Loader, Mix)):
            loader._pin_memory = loader._torch

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __len__(self):
        return len(self._loader)

    @property
    def batch_sampler(self):
        return BatchSampler(self._loader, self)

    def __iter__(self):
        return map(self._moved, iter(self._loader))

    def _moved(self, batch):
        """The batch on the device. Whoever uses it there waits for the copy; this process does not."""
        import torch
        if self._streams is None:
            return self._parts(torch, batch)
        if self._side is None:
            self._side = self._streams.Stream(self._device)
        with self._streams.stream(self._side):
            moved = self._parts(torch, batch)
            done = self._streams.Event()
            done.record(self._side)
        current = self._streams.current_stream(self._device)
        current.wait_event(done)
        for part in moved.values() if isinstance(moved, dict) else moved:
            for tensor in part if isinstance(part, tuple) else (part,):
                if isinstance(tensor, torch.Tensor):
                    tensor.record_stream(current)  # the allocator gave it to the side stream
        return moved

    def _parts(self, torch, batch):
        if isinstance(batch, dict):
            first = next(iter(batch))
            return {name: self._part(torch, part, name == first) for name, part in batch.items()}
        moved = tuple(self._part(torch, part, place == 0) for place, part in enumerate(batch))
        if isinstance(batch, Batch) and not _same_memory(moved[0], batch[0]):
            batch.release()  # its pixels were copied, here or to pinned memory
        return moved

    def _part(self, torch, part, images):
        if images and isinstance(part, tuple):
            return tuple(self._part(torch, view, True) for view in part)
        if images and isinstance(part, list):
            part = _gathered(torch, part, self._streams is not None)
        if not isinstance(part, torch.Tensor):
            if images:
                raise InvalidArgument("to_device moves torch tensors: give the Loader output=\"torch\", and a pipeline "
                                      "that makes pixels")
            return part
        if self._streams is not None:
            # The allocator of pinned memory knows of the copy, and gives the buffer to nobody before it is over.
            part = part if part.is_pinned() else _copied(torch, part, part.shape, True)
        moved = part.to(self._device, non_blocking=self._streams is not None)
        if not images or self._constants is None:
            return moved
        if moved.dtype != torch.uint8:
            raise InvalidArgument(f"normalize is for uint8 images, and these are {moved.dtype}: leave ToDtype and "
                                  "Normalize out of the pipeline, or normalize= here")
        mean, std = self._constants
        return moved.to(torch.float32).sub_(mean).div_(std).to(self._dtype)


def _constants(torch, normalize, device):
    """Mean and deviation in levels, as a batch is broadcast with."""
    try:
        mean, std = (torch.as_tensor(part, dtype=torch.float32, device="cpu").reshape(1, -1, 1, 1) * 255
                     for part in normalize)
    except (TypeError, ValueError):
        raise InvalidArgument("normalize is (mean, std), each a number or one for each channel") from None
    if not (std > 0).all():
        raise InvalidArgument("normalize: std must be above 0")
    return mean.to(device), std.to(device)


def _gathered(torch, views, pinned):
    """The zero-copy views of a batch, which lie apart, in one tensor; what they are where they are no images."""
    if not views or not all(isinstance(view, torch.Tensor) and view.dim() == 3 for view in views):
        return views
    return _copied(torch, views, (len(views), *views[0].shape), pinned)


def _copied(torch, source, shape, pinned):
    """A copy of a tensor, or of the tensors of a list, on the CPU; of images in channels-last memory, as they were."""
    like = source[0] if isinstance(source, list) else source
    last = torch.channels_last if len(shape) == 4 and like.stride(-3) == 1 else torch.contiguous_format
    copy = torch.empty(tuple(shape), dtype=like.dtype, device="cpu", memory_format=last, pin_memory=pinned)
    if isinstance(source, list):
        for place, view in enumerate(source):
            copy[place].copy_(view)
    else:
        copy.copy_(source)
    return copy


def _same_memory(moved, given):
    if isinstance(moved, tuple):
        return any(map(_same_memory, moved, given))
    return moved is given or not isinstance(given, list) and moved.data_ptr() == given.data_ptr()
