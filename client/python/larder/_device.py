"""to_device: batches on the device that trains, one ahead, and there made floating point and normalised."""

from .errors import InvalidArgument


def to_device(loader, device, normalize=None, dtype=None):
    """An iterable of the Loader's batches with their tensors on `device`: each iteration is the Loader's next epoch.

    normalize  (mean, std), by channel, of 0 … 1: uint8 images become floating point, (x / 255 - mean) / std. None:
               images stay as they are
    dtype      of normalised images; torch.float32 by default

    On a CUDA device the next batch is copied and normalised on a stream of its own while this one trains; give the
    Loader pin_memory=True, so that the copy needs no waiting. On the CPU the result is the same."""
    return DeviceLoader(loader, device, normalize, dtype)


class DeviceLoader:
    """What to_device gives. It has the Loader's attributes too (classes, state_dict, set_epoch, …)."""

    def __init__(self, loader, device, normalize=None, dtype=None):
        import torch
        self._loader = loader
        self._device = torch.device(device)
        self._is_ahead = False
        self._dtype = torch.float32 if dtype is None else dtype
        self._constants = None if normalize is None else _constants(torch, normalize, self._device)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        import torch
        if self._device.type != "cuda":
            for batch in self._loader:
                yield self._moved(torch, batch)
            return
        yield from self._ahead(torch)

    def state_dict(self):
        """The Loader's. Refused while a batch was copied ahead, which the Loader counts as given to the loop."""
        if self._is_ahead:
            raise InvalidArgument("a state cannot be saved while to_device has copied a batch ahead: save it after "
                                  "an epoch's last batch, or move batches yourself")
        return self._loader.state_dict()

    def _ahead(self, torch):
        stream = torch.cuda.Stream(self._device)
        self._is_ahead = False
        batches = iter(self._loader)
        ready = self._next(torch, batches, stream)
        while ready is not None:
            batch, done = ready
            current = torch.cuda.current_stream(self._device)
            current.wait_event(done)
            for tensor in _tensors(torch, batch):
                tensor.record_stream(current)  # the allocator gave it to the side stream
            failure = None
            try:
                ready = self._next(torch, batches, stream)
            except Exception as error:  # noqa: BLE001 - the batch at hand comes first: the Loader counts it as given
                ready, failure = None, error
            self._is_ahead = ready is not None
            yield batch
            if failure is not None:
                raise failure

    def _next(self, torch, batches, stream):
        batch = next(batches, None)
        if batch is None:
            return None
        with torch.cuda.stream(stream):
            moved = self._moved(torch, batch)
            done = torch.cuda.Event()
            done.record(stream)
        return moved, done

    def _moved(self, torch, batch):
        if isinstance(batch, dict):
            first = next(iter(batch))
            return {name: self._part(torch, part, name == first) for name, part in batch.items()}
        return tuple(self._part(torch, part, place == 0) for place, part in enumerate(batch))

    def _part(self, torch, part, images):
        if not isinstance(part, torch.Tensor):
            if images:
                raise InvalidArgument("to_device moves torch tensors: give the Loader output=\"torch\", and a pipeline "
                                      "that makes pixels")
            return part
        moved = part.to(self._device, non_blocking=True)
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
        mean, std = (torch.as_tensor(part, dtype=torch.float32).reshape(1, -1, 1, 1) * 255 for part in normalize)
    except (TypeError, ValueError):
        raise InvalidArgument("normalize is (mean, std), each a number or one for each channel") from None
    if not (std > 0).all():
        raise InvalidArgument("normalize: std must be above 0")
    return mean.to(device), std.to(device)


def _tensors(torch, batch):
    parts = batch.values() if isinstance(batch, dict) else batch
    return [part for part in parts if isinstance(part, torch.Tensor)]
