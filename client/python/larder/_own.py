"""What a script does itself with each batch: Loader(transform=…, collate_fn=…). It runs in the script, after the batch
was copied out of the daemon's memory, in the thread that asks for the batch. No other job sees it."""

from .errors import InvalidArgument


class OnBatch:
    """transform=larder.OnBatch(f): f gets a batch's parts, f(images, labels), and gives what takes their place."""

    def __init__(self, function):
        if not callable(function):
            raise InvalidArgument(f"OnBatch takes a function, not {function!r}")
        self.function = function

    def __repr__(self):
        return f"OnBatch({self.function!r})"


class Own:
    def __init__(self, transform, collate_fn, zero_copy, as_dict):
        for what, given in (("transform", transform), ("collate_fn", collate_fn)):
            if given is not None and not callable(given) and not isinstance(given, OnBatch):
                raise InvalidArgument(f"{what} is {given!r}, and no function")
            if given is not None and zero_copy:
                raise InvalidArgument(f"{what} works on a copy of each batch, and zero_copy makes none: leave one of "
                                      "the two out, or call the function in the loop")
        if collate_fn is not None and as_dict is not None:
            raise InvalidArgument("collate_fn makes the whole batch, and as_dict names the parts of one: leave as_dict "
                                  "out, and have collate_fn give a dictionary")
        self._transform, self._collate_fn, self._as_dict = transform, collate_fn, as_dict

    @property
    def is_nothing(self):
        """Whether a batch stays what it is."""
        return self._transform is None and self._collate_fn is None and self._as_dict is None

    @property
    def is_whole(self):
        """Whether it makes something else of a batch than its parts."""
        return self._collate_fn is not None or self._as_dict is not None

    def __call__(self, parts):
        """What the loop gets of a batch's parts."""
        if isinstance(parts, dict):
            return self._of_dict(parts)
        if isinstance(self._transform, OnBatch):
            parts = self._transform.function(*parts)
        elif self._transform is not None:
            parts = (_together([self._transform(image) for image in _apart(parts[0])]), *parts[1:])
        if self._collate_fn is not None:
            return self._collate_fn(list(zip(_apart(parts[0]), *parts[1:])))
        return parts if self._as_dict is None else dict(zip(self._as_dict, parts))

    def _of_dict(self, batch):
        """The same where samples have several parts: then functions get dictionaries, too."""
        if isinstance(self._transform, OnBatch):
            batch = self._transform.function(batch)
        if self._collate_fn is None and (self._transform is None or isinstance(self._transform, OnBatch)):
            return batch
        samples = [dict(zip(batch, sample)) for sample in zip(*batch.values())]
        if self._transform is not None and not isinstance(self._transform, OnBatch):
            samples = [self._transform(sample) for sample in samples]
        if self._collate_fn is not None:
            return self._collate_fn(samples)
        lists = {name for name, field in batch.items() if isinstance(field, list)}
        return {name: [sample[name] for sample in samples] if name in lists else
                _together([sample[name] for sample in samples]) for name in samples[0]}


def _apart(images):
    """The images of a batch one by one; with views, a tuple of them for each sample."""
    return list(zip(*images)) if isinstance(images, tuple) else images


def _together(images):
    """One tensor or array, where all are of one shape; a tuple of these, where all are tuples; else the list as it
    is."""
    first = images[0]
    if isinstance(first, tuple) and all(isinstance(image, tuple) and len(image) == len(first) for image in images):
        return tuple(_together(list(column)) for column in zip(*images))
    shape, kind = getattr(first, "shape", None), type(first)
    if shape is None or not all(type(image) is kind and image.shape == shape for image in images):
        return images
    if kind.__module__.partition(".")[0] == "numpy":
        import numpy
        return numpy.stack(images)
    import torch
    return torch.stack(images) if isinstance(first, torch.Tensor) else images
