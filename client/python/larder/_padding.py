"""One array of several that differ in size: larder.pad."""

import numpy as np

from .errors import InvalidArgument


def stack(arrays, shape, fill=0):
    """One tensor, or array, of several, each in the corner of a place of this shape."""
    first = arrays[0]
    if isinstance(first, np.ndarray):
        whole = np.full((len(arrays), *shape), fill, first.dtype)
    else:
        import torch
        whole = torch.full((len(arrays), *shape), fill, dtype=first.dtype, device=first.device)
    for place, array in enumerate(arrays):
        whole[(place, *(slice(size) for size in array.shape))] = array
    return whole


def most(arrays):
    """The largest size of several arrays in each of their dims."""
    return [max(sizes) for sizes in zip(*(array.shape for array in arrays))]


def pad(images, fill=0, multiple=1):
    """One tensor of a list of images that differ in size, and a mask: (B, 3, H, W), or of arrays (B, H, W, 3), and bool
    (B, H, W), where H and W are the largest of the list. Each image is in the upper left corner of its place, and the
    mask is True where there is none, as DETR's is. Of masks (H, W) it makes (B, H, W).

    fill: what stands where there is no image. multiple: H and W become multiples of it, 32 for a backbone that halves
    them five times."""
    images = list(images)
    dims = {getattr(image, "ndim", 0) for image in images}
    if not images or dims not in ({2}, {3}):
        raise InvalidArgument("pad takes a list of tensors or arrays, all of them images or all of them masks")
    channels = None if dims == {2} else -1 if isinstance(images[0], np.ndarray) and images[0].shape[-1] <= 4 else 0
    shape = [size if axis == (channels or 0) % 3 and channels is not None else -(-size // multiple) * multiple
             for axis, size in enumerate(most(images))]
    sizes = [tuple(image.shape) if channels is None else tuple(image.shape[:-1] if channels else image.shape[1:])
             for image in images]
    area = shape if channels is None else shape[:-1] if channels else shape[1:]
    if isinstance(images[0], np.ndarray):
        mask = np.ones((len(images), *area), bool)
    else:
        import torch
        mask = torch.ones((len(images), *area), dtype=torch.bool, device=images[0].device)
    for place, (height, width) in enumerate(sizes):
        mask[place, :height, :width] = False
    return stack(images, shape, fill), mask
