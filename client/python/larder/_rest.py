"""What larder.split leaves to the script."""


class Rest:
    """The transforms that Larder did not take, for one image: what the Loader gives of it goes in, as a tensor or an
    array, and out comes what the last transform makes. why: what stood in the way of the first of them."""

    def __init__(self, transforms, why, is_tensor):
        self.transforms, self.why, self._is_tensor = list(transforms), why, is_tensor

    def __call__(self, image):
        if not self._is_tensor:
            image = _as_pil(image)
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self):
        return f"<what larder.split left: {self.transforms!r}: {self.why}>"


def _as_pil(image):
    """As the list would have held it: tensors come channels first, arrays channels last, files' bytes undecoded."""
    import io

    import numpy as np
    from PIL import Image
    if isinstance(image, (bytes, bytearray, memoryview)):
        return Image.open(io.BytesIO(image)).convert("RGB")
    array = image if isinstance(image, np.ndarray) else image.permute(1, 2, 0).numpy()
    return Image.fromarray(np.ascontiguousarray(array[..., 0] if array.shape[-1] == 1 else array))
