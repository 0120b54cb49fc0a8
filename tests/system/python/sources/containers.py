"""Containers as others write them, made by hand where that is short, of encoded images or of pixels."""

import json
import os
import pickle
import struct
import zlib

import numpy as np


def record(data):
    """A record of a TFRecord. The CRCs, of another kind than zlib's, are not read by Larder."""
    return struct.pack("<QI", len(data), 0) + data + struct.pack("<I", 0)


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def example(**features):
    """A tf.Example, of bytes and whole numbers; "/" in names is "__"."""
    entries = b""
    for name, value in features.items():
        held = _field(1, _field(1, value)) if isinstance(value, bytes) else \
            _field(3, _field(1, _varint(value & (1 << 64) - 1)))
        entries += _field(1, _field(1, name.replace("__", "/").encode()) + _field(2, held))
    return _field(1, entries)


def tfrecord(path, images, labels):
    with open(path, "wb") as file:
        for image, label in zip(images, labels):
            file.write(record(example(image__class__label=label, image__encoded=image, image__height=72)))


def mds(folder, images, labels, names=("image", "label"), kinds=("jpeg", "int"), shard=8):
    """Shards as Mosaic's MDSWriter lays them out, and their index.json."""
    os.makedirs(folder)
    shards, sizes = [], [None, 8]
    config = json.dumps({"version": 2, "format": "mds", "column_names": names, "column_encodings": kinds,
                         "column_sizes": sizes}).encode()
    for number in range(0, len(images), shard):
        samples = [struct.pack("<I", len(image)) + image + struct.pack("<q", label)
                   for image, label in zip(images[number:number + shard], labels[number:number + shard])]
        ends = np.array([0, *map(len, samples)]).cumsum() + 4 + 4 * (len(samples) + 1) + len(config)
        name = f"shard.{number // shard:05}.mds"
        data = struct.pack("<I", len(samples)) + ends.astype("<u4").tobytes() + config + b"".join(samples)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        shards.append({"format": "mds", "version": 2, "samples": len(samples), "compression": None, "zip_data": None,
                       "column_names": names, "column_encodings": kinds, "column_sizes": sizes, "hashes": [],
                       "raw_data": {"basename": name, "bytes": len(data), "hashes": {}}, "size_limit": 1 << 26})
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump({"version": 2, "shards": shards}, file)


def pil(pixels):
    """An image as MDS's encoding pil has it."""
    height, width = pixels.shape[:2]
    return struct.pack("<3I", width, height, 3) + b"RGB" + pixels.tobytes()


def idx(path, array):
    with open(path, "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist(folder, pixels, labels):
    """Files of the published names: `pixels` (N, H, W)."""
    os.makedirs(folder)
    idx(os.path.join(folder, "train-images-idx3-ubyte"), pixels)
    idx(os.path.join(folder, "train-labels-idx1-ubyte"), np.array(labels, np.uint8))


def cifar_binary(folder, pixels, labels, names=None):
    """CIFAR-10's five files of training, of pixels (N, 3, 32, 32)."""
    os.makedirs(folder)
    for number, rows in enumerate(np.array_split(np.arange(len(pixels)), 5), 1):
        with open(os.path.join(folder, f"data_batch_{number}.bin"), "wb") as file:
            for row in rows:
                file.write(bytes([labels[row]]) + pixels[row].tobytes())
    if names:
        with open(os.path.join(folder, "batches.meta.txt"), "w") as file:
            file.write("\n".join(names) + "\n\n")


def python2_string(data):
    """bytes as Python 2 pickled a str."""
    return b"T" + struct.pack("<i", len(data)) + data


def _python2_array(array):
    """A numpy array as Python 2 pickled it, which the published files are: its bytes are one string."""
    dtype = (b"cnumpy\ndtype\n" + b"U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
    shape = b"M" + struct.pack("<H", array.shape[0]) + b"M" + struct.pack("<H", array.shape[1]) + b"\x86"
    return (b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\x00\x85U\x01b\x87R(K\x01" + shape +
            dtype + b"\x89" + python2_string(array.tobytes()) + b"tb")


def cifar_python(folder, pixels, labels, names, hundred=False):
    """The files of the Python version, as Python 2 wrote them (CIFAR-10), or as Python 3 does."""
    os.makedirs(folder)
    flat = pixels.reshape(len(pixels), -1)
    if hundred:
        with open(os.path.join(folder, "train"), "wb") as file:
            pickle.dump({"data": flat, "fine_labels": labels, "coarse_labels": [label // 2 for label in labels]}, file,
                        protocol=4)
        with open(os.path.join(folder, "meta"), "wb") as file:
            pickle.dump({"fine_label_names": names, "coarse_label_names": names[::2]}, file, protocol=2)
        return
    for number, rows in enumerate(np.array_split(np.arange(len(pixels)), 5), 1):
        items = b"".join(b"K" + bytes([labels[row]]) for row in rows)
        with open(os.path.join(folder, f"data_batch_{number}"), "wb") as file:
            file.write(b"\x80\x02}(" + b"U\x04data" + _python2_array(flat[rows]) + b"U\x06labels](" + items + b"eu.")
    with open(os.path.join(folder, "test_batch"), "wb") as file:
        file.write(b"\x80\x02}(" + b"U\x04data" + _python2_array(flat[:2]) + b"U\x06labels](K\x01K\x02eu.")
    with open(os.path.join(folder, "batches.meta"), "wb") as file:
        pickle.dump({"label_names": names}, file, protocol=2)


def crc_of_rows(array):
    return [zlib.crc32(row.tobytes()) for row in array]
