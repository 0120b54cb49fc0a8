"""Containers of images that are stored as pixels, for larder.index: npy, MNIST's idx, CIFAR's two forms."""

import os
import pickle
import struct
import warnings

import numpy as np

from ._places import Fail, Place, Refused, first_bytes, mapped, rows_of
from .errors import InvalidArgument

# ── npy ──


def is_npy(paths):
    return all(first_bytes(path, 6) == b"\x93NUMPY" for path in paths)


def npy(paths, image, label):
    """An array of images a file; `label` names the .npy of the labels, beside one file of images."""
    del image
    if label is not None and len(paths) != 1:
        raise InvalidArgument("label= names the labels of one .npy: of several give a list or array")
    for path in paths:
        shape, offset = _npy_header(path)
        yield from rows_of(path, offset, shape, None if label is None else _npy_labels(label))


def _npy_labels(label):
    try:
        labels = np.load(os.path.expanduser(label), allow_pickle=False)
    except ValueError as why:
        raise Fail(f"{label}: {why}") from None
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InvalidArgument(f"{label} has no whole number a row")
    return labels


def is_array(paths):
    """Nothing is taken for one unless format= says so: pixels are arrays too."""
    del paths
    return False


def arrays(paths, image, label):
    """The rows of .npy files of any type of one size, as bare numbers; `label` as npy has it."""
    del image
    if label is not None and len(paths) != 1:
        raise InvalidArgument("label= names the labels of one .npy: of several give a list or array")
    for path in paths:
        shape, offset, dtype = _npy_array(path)
        if not shape or dtype.hasobject or dtype.kind not in "biuf" or dtype.byteorder == ">":
            raise Refused(f"{path} has {dtype} of shape {shape}, and rows are of whole or real numbers, little-endian")
        size = dtype.itemsize
        for side in shape[1:]:
            size *= side
        labels = None if label is None else _npy_labels(label)
        if labels is not None and len(labels) != shape[0]:
            raise InvalidArgument(f"{path} has {shape[0]} rows and {len(labels)} labels")
        for number in range(shape[0]):
            yield Place(path, offset + number * size, size, key=str(number),
                        label=None if labels is None else int(labels[number]))


def _npy_header(path):
    """The shape of an array of images, and where its pixels begin."""
    shape, offset, dtype = _npy_array(path)
    if dtype != np.uint8:
        raise Refused(f"{path} has numbers of {dtype}, and pixels are uint8")
    if len(shape) not in (3, 4):
        raise Refused(f"{path} has an array of shape {shape}, and images lie behind each other in one of (N, H, W), "
                      "(N, H, W, C) or (N, C, H, W)")
    return shape, offset


def _npy_array(path):
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except Exception as why:  # numpy's parser of headers raises several, of Python's tokens too
            raise Fail(f"{path} is no sound .npy: {why}") from None
        offset = file.tell()
    if fortran and len(shape) > 1:
        raise Refused(f"{path} has an array of shape {shape} in Fortran order, so that its rows do not lie whole in it")
    size = dtype.itemsize
    for side in shape:
        size *= side
    if offset + size > os.path.getsize(path):
        raise Fail(f"{path} ends before its array does")
    return shape, offset, dtype


# ── MNIST ──

def _idx_shape(path):
    """The shape of an idx file of bytes; None: it is none."""
    start = first_bytes(path, 4)
    if len(start) < 4 or start[:3] != b"\0\0\x08" or not 1 <= start[3] <= 4:
        return None
    data = first_bytes(path, 4 + 4 * start[3])
    return struct.unpack_from(f">{start[3]}I", data, 4) if len(data) == 4 + 4 * start[3] else None


def is_mnist(paths):
    if len(paths) == 1 and os.path.isdir(paths[0]):
        return any(_mnist_in(paths[0], "train"))
    return all((_idx_shape(path) or (0,))[1:] or _gzip_of_idx(path) for path in paths)


def _gzip_of_idx(path):
    return "-idx" in os.path.basename(path) and path.endswith(".gz")


def _mnist_in(folder, split):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if split in name and "-images-idx" in name.replace(".idx", "-idx"))


def mnist(paths, image, label):
    """The images of idx files, with the labels of the file beside each; of a folder those to train on."""
    del image
    if os.path.isdir(paths[0]):
        paths = _mnist_in(paths[0], "train")
        if len(paths) != 1:
            raise InvalidArgument(f"there are {len(paths)} files of images to train on: name one of {', '.join(paths)}")
    for path in paths:
        shape = _idx_shape(path)
        if shape is None:
            raise Refused(f"{path} is compressed (gzip), so no range of it is an image", "Decompress it (gunzip)")
        if 4 + 4 * len(shape) + int(np.prod(shape, dtype=object)) > os.path.getsize(path):
            raise Fail(f"{path} ends before its images do")
        beside = label or os.path.join(os.path.dirname(path), os.path.basename(path).replace("images", "labels")
                                       .replace("idx3", "idx1").replace("idx4", "idx1"))
        yield from rows_of(path, 4 + 4 * len(shape), shape, _idx_labels(beside, path, label is not None))


def idx_pixels(path):
    """The array of an idx file of bytes."""
    shape = _idx_shape(path)
    if shape is None:
        raise InvalidArgument(f"{path} is no idx file of bytes")
    return np.fromfile(path, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _idx_labels(path, images, needed):
    if path == images or not os.path.isfile(path):
        if needed:
            raise InvalidArgument(f"{path}: there is no such file of labels")
        return None
    shape = _idx_shape(path)
    if shape is None or len(shape) != 1:
        raise Fail(f"{path} is no idx file of labels")
    labels = np.fromfile(path, np.uint8, offset=8)
    if len(labels) != shape[0]:
        raise Fail(f"{path} ends before its labels do")
    return labels


# ── CIFAR ──

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_RAW = f"3x{_SIDE}x{_SIDE}"
_TRAIN = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "train")


def _cifar_in(folder):
    """The files of a folder to train on."""
    return [path for path in (os.path.join(folder, name + ending) for name in _TRAIN for ending in ("", ".bin"))
            if os.path.isfile(path)]


def _is_cifar_file(path):
    """Files of the published names: the binary form has no mark of its own, and a pickle may be of anything."""
    name = os.path.basename(path)
    return name.removesuffix(".bin") in (*_TRAIN, "test_batch", "test") and \
        (name.endswith(".bin") or first_bytes(path, 1) == b"\x80")


def is_cifar(paths):
    if len(paths) == 1 and os.path.isdir(paths[0]):
        paths = _cifar_in(paths[0])
    return bool(paths) and all(map(_is_cifar_file, paths))


def cifar(paths, image, label):
    """The images of CIFAR's files; of a folder those to train on. label="coarse" takes CIFAR-100's 20 classes."""
    del image
    if label not in (None, "fine", "coarse"):
        raise InvalidArgument(f"label={label!r}: CIFAR-100 has \"fine\" and \"coarse\"")
    if os.path.isdir(paths[0]):
        paths = _cifar_in(paths[0])
        if not paths:
            raise InvalidArgument("there are no data_batch_1 to 5, nor train, in the folder: give the files")
    for path in paths:
        binary = path.endswith(".bin")
        yield from (_cifar_binary if binary else _cifar_pickle)(path, label == "coarse")


def _cifar_binary(path, coarse):
    """Records of a label (CIFAR-100: two) and 3072 bytes."""
    hundred = os.path.basename(path) in ("train.bin", "test.bin")
    record = _PIXELS + (2 if hundred else 1)
    data = np.fromfile(path, np.uint8)
    if len(data) == 0 or len(data) % record:
        raise Fail(f"{path} is of {len(data)} bytes, and records of CIFAR-{100 if hundred else 10} are of {record}")
    if coarse and not hundred:
        raise InvalidArgument(f"{path} is of CIFAR-10, which has one kind of label")
    names = _names_of_text(path, ("coarse_label_names.txt" if coarse else "fine_label_names.txt") if hundred
                           else "batches.meta.txt")
    column = 1 if hundred and not coarse else 0
    for number, label in enumerate(data.reshape(-1, record)[:, column].tolist()):
        yield Place(path, (number + 1) * record - _PIXELS, _PIXELS, raw=_RAW, key=str(number), label=label,
                    class_=_name(names, label))


def _name(names, label):
    return names[label] if names and label < len(names) else None


def _names_of_text(path, name):
    beside = os.path.join(os.path.dirname(path), name)
    if not os.path.isfile(beside):
        return None
    with open(beside, encoding="utf-8", errors="surrogateescape") as file:
        return [line.strip() for line in file if line.strip()]


def _cifar_pickle(path, coarse):
    """A dict with the pixels as one array, whose bytes lie whole in a pickle that has bytes as they are."""
    held = _load(path)
    fine = next((held[key] for key in (b"labels", b"fine_labels") if key in held), None)
    labels = held.get(b"coarse_labels") if coarse else fine
    data = held.get(b"data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS or \
            not isinstance(labels, list) or len(labels) != len(data):
        raise InvalidArgument(f"{path} has no CIFAR in it: no uint8 array of (N, 3072), or not a label for each row"
                              + (" (label=\"coarse\" is of CIFAR-100)" if coarse else ""))
    with mapped(path) as file:
        block = np.ascontiguousarray(data).tobytes()
        at = file.find(block)
    if at < 0:
        raise Refused(f"{path} has its pixels not as they are, so no range of it is an image: Python 3 wrote it with a "
                      "protocol of pickle below 3", "Write it with pickle.dump(…, protocol=4)")
    names = _names_of_pickle(path, b"coarse_label_names" if coarse else b"fine_label_names")
    for number, label in enumerate(labels):
        yield Place(path, at + number * _PIXELS, _PIXELS, raw=_RAW, key=str(number), label=int(label),
                    class_=_name(names, int(label)))


def cifar_pixels(path):
    """The pixels of a pickle of CIFAR, (N, 3072)."""
    return _load(path).get(b"data")


def _names_of_pickle(path, key):
    for name in ("batches.meta", "meta"):
        beside = os.path.join(os.path.dirname(path), name)
        if os.path.isfile(beside):
            held = _load(beside)
            names = held.get(b"label_names", held.get(key)) or []
            return [name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
                    for name in names]
    return None


class _Plain(pickle.Unpickler):
    """Reads a pickle of arrays, bytes, numbers, lists and dicts, and nothing that could run."""

    _ALLOWED = {(module, name) for package in ("numpy.core", "numpy._core")
                for module, name in ((package + ".multiarray", "_reconstruct"), (package + ".numeric", "_frombuffer"))
                } | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module, name):
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it has {module}.{name}, which is not read from a file of others: only "
                                         "arrays, bytes, numbers, lists and dicts are")
        return super().find_class(module, name)


def _load(path):
    """What a pickle of CIFAR has: a dict, whose keys are bytes."""
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of how it was pickled long ago
        try:
            held = _Plain(file, encoding="bytes").load()
        except Exception as why:  # pickle says that any may come
            raise Fail(f"{path} is no pickle of CIFAR: {why}") from None
    if not isinstance(held, dict):
        raise Fail(f"{path} is no pickle of CIFAR: it has no dict")
    return {key.encode() if isinstance(key, str) else key: value for key, value in held.items()}
