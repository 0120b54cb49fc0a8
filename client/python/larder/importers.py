"""Datasets in other forms, as larder.pack takes them. Each class says which samples there are and gives them piece by
piece, encoded bytes as they are stored; the library of a form is imported when it is needed.

    larder.pack(larder.importers.Parquet("/data/*.parquet", image="img", label="fine_label"), "/data/cifar.store")

An importer has `classes` (names, or None), `count` (samples, or None where only reading tells) and `pieces`, a list of
what one process reads at once. read(piece) gives (image, label, key) of each sample, in the same order in every run.
"""

import glob
import importlib
import json
import os
import re
import struct

import numpy as np

from . import subset
from ._log import is_whole_key
from .errors import FormatError, InvalidArgument, NotFound

PIECE_BYTES = 64 << 20
PIECE_SAMPLES = 1000  # where sizes are not known
ROWS = 64  # that are in memory at once, at most
_BATCH_BYTES = 1 << 20  # likewise of Parquet: with more, memory goes back to the system and comes again with each batch
_IMAGES = ("image", "images", "img", "jpg", "png", "pixel_values", "x", "data")
_LABELS = ("label", "labels", "class", "cls", "target", "fine_label", "y")
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".ppm", ".pgm")


def need(module, package=None):
    """A library that only this form needs."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidArgument(f"this needs {module}: pip install {package or module}") from None


def files_of(source, endings):
    """The files that a path, a folder, a glob or a list of paths names, sorted but for a list."""
    if not isinstance(source, (str, os.PathLike)):
        return [os.path.abspath(os.fspath(path)) for path in source]
    path = os.path.abspath(os.path.expanduser(os.fspath(source)))
    if os.path.isdir(path):
        found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
                       if name.endswith(endings))
    else:
        found = [path] if os.path.isfile(path) else sorted(glob.glob(path))
    if not found:
        raise NotFound(f"{path}: no file is there that ends in {' or '.join(endings)}")
    return found


def key_of(name):
    """A key for the Writer that says what the name of a file said; None where it cannot."""
    folder, slash, base = name.replace("\0", "_").strip("/").rpartition("/")
    stem, ending = os.path.splitext(base)
    if ending.lower() not in _ENDINGS:
        stem, ending = base, ""
    key = folder + slash + stem.replace(".", "_") + ending
    return key if is_whole_key(key.encode("utf-8", "surrogateescape")) else None


def ranges(count, size):
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def _named(names, given, usual, what, source):
    """The name of a column; None: there is none."""
    if given is False:
        return None
    if given is not None:
        if given not in names:
            raise InvalidArgument(f"{source}: has no {given!r}; it has {', '.join(names)}")
        return given
    found = next((name for name in usual if name in names), None)
    if found is None and what == "image":
        raise InvalidArgument(f"{source}: none of {', '.join(names)} is taken for the images: give image=")
    return found


# ── Arrow ──

def _classes(features, label):
    """The names of the classes by what `datasets` keeps in a schema."""
    feature = features.get(label) if isinstance(features, dict) else None
    return feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None


def _encoded(scalar):
    """The bytes of a cell where they lie, or what else it has; None: nothing."""
    if "binary" not in str(scalar.type):
        return scalar.as_py()
    data = scalar.as_buffer()
    return None if data is None else memoryview(data)


def _rows(batch, image, label, folder, where):
    """(image, label, None) of the rows of a batch or table with a column of images: bytes, or bytes and path."""
    images = batch.column(batch.schema.get_field_index(image))
    images = images.combine_chunks() if hasattr(images, "combine_chunks") else images
    chunks = images.chunks if hasattr(images, "chunks") else [images]
    labels = batch.column(batch.schema.get_field_index(label)).to_pylist() if label else [None] * len(images)
    at = 0
    for chunk in chunks:
        has_paths = hasattr(chunk, "field")
        encoded = chunk.field("bytes") if has_paths else chunk
        paths = chunk.field("path") if has_paths else None
        for number in range(len(chunk)):
            data = _encoded(encoded[number])
            if data is None and paths is not None and paths[number].as_py():
                with open(os.path.join(folder, paths[number].as_py()), "rb") as file:
                    data = file.read()
            if not data:
                raise FormatError(f"{where}, row {at} of its batch: has no image")
            yield data, labels[at], None
            at += 1


class Parquet:
    """Parquet files with a column of encoded images, as the Hugging Face Hub has them. image, label: the columns; None:
    the first of the usual names; label=False: none."""

    def __init__(self, source, image=None, label=None):
        self.files = files_of(source, (".parquet",))
        parquet = need("pyarrow.parquet", "pyarrow")
        self.pieces, self.count = [], 0
        for number, path in enumerate(self.files):
            file = parquet.ParquetFile(path)
            if number == 0:
                self.image = _named(file.schema_arrow.names, image, _IMAGES, "image", path)
                self.label = _named(file.schema_arrow.names, label, _LABELS, "label", path)
                told = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
                self.classes = _classes(told.get("info", {}).get("features"), self.label)
            self.count += file.metadata.num_rows
            self.pieces += [(path, groups) for groups in self._grouped(file.metadata)]

    @staticmethod
    def _grouped(metadata):
        """Neighbouring row groups that are a piece together."""
        groups, held = [], 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            held += metadata.row_group(number).total_byte_size
            if held >= PIECE_BYTES or number + 1 == metadata.num_row_groups:
                yield groups
                groups, held = [], 0

    def read(self, piece):
        path, groups = piece
        columns = [self.image] + ([self.label] if self.label else [])
        file = need("pyarrow.parquet", "pyarrow").ParquetFile(path, pre_buffer=False, buffer_size=_BATCH_BYTES)
        about = [file.metadata.row_group(number) for number in groups]
        each = sum(group.total_byte_size for group in about) // max(1, sum(group.num_rows for group in about))
        rows = max(1, min(ROWS, _BATCH_BYTES // max(1, each)))
        for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=columns, use_threads=False):
            yield from _rows(batch, self.image, self.label, os.path.dirname(path), path)


class HuggingFace:
    """A Dataset of the library `datasets`, with a column of images."""

    def __init__(self, dataset, image=None, label=None):
        if not hasattr(dataset, "features") or not hasattr(dataset, "num_rows"):
            raise InvalidArgument(f"{type(dataset).__name__}: choose a split, load_dataset(NAME, split=\"train\"), and "
                                  "none that streams")
        if isinstance(dataset.num_rows, dict):
            raise InvalidArgument(f"a dataset of several splits: choose one of {', '.join(dataset.num_rows)}")
        names = list(dataset.features)
        kinds = [name for name in names if type(dataset.features[name]).__name__ == "Image"]
        self.image = _named(names, image, (*kinds, *_IMAGES), "image", "the dataset")
        self.label = _named(names, label, _LABELS, "label", "the dataset")
        self.classes = getattr(dataset.features[self.label], "names", None) if self.label else None
        wanted = [self.image] + ([self.label] if self.label else [])
        self._dataset = dataset.select_columns(wanted).with_format("arrow")
        self.count = dataset.num_rows
        each = max(1, dataset.data.nbytes // max(1, len(dataset.data)))
        self.pieces = ranges(self.count, min(max(ROWS, PIECE_BYTES // each), 100 * PIECE_SAMPLES))

    def read(self, piece):
        for first in range(*piece, ROWS):
            table = self._dataset[first:min(first + ROWS, piece[1])]
            yield from _rows(table, self.image, self.label, "", f"rows {first} to {first + ROWS}")


# ── archives ──

class Zip:
    """Zip files of images, stored or deflated. The first folder below the one that all have in common is the class, as
    in a folder of class folders."""

    def __init__(self, source):
        import zipfile
        self.files = files_of(source, (".zip",))
        self.classes, members = None, []
        for path in self.files:
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    if info.filename.lower().endswith(_ENDINGS) and not info.is_dir() and \
                            not info.filename.startswith("__MACOSX/"):
                        members.append((path, info.filename, info.file_size))
        if not members:
            raise NotFound(f"{self.files[0]}: no image is in it, by its name")
        folders = [os.path.dirname(name) for _, name, _ in members]
        common = os.path.commonpath(folders) if all(folders) else ""
        self._skip = len(common) + 1 if common else 0
        if all(folder == common for folder in folders) and common:
            self._skip = len(os.path.dirname(common)) + 1 if os.path.dirname(common) else 0
        self._labelled = all("/" in name[self._skip:] for _, name, _ in members)
        members.sort(key=lambda member: member[1][self._skip:].split("/"))
        self.count = len(members)
        self.pieces, piece, held = [], [], 0
        for path, name, size in members:
            piece.append((path, name))
            held += size
            if held >= PIECE_BYTES:
                self.pieces.append(piece)
                piece, held = [], 0
        self.pieces += [piece] if piece else []

    def read(self, piece):
        import zipfile
        archives = {path: zipfile.ZipFile(path) for path in {path for path, _ in piece}}
        try:
            for path, name in piece:
                try:
                    data = archives[path].read(name)
                except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
                    raise FormatError(f"{path}: {name}: {error}") from None
                below = name[self._skip:]
                yield data, below.split("/")[0] if self._labelled else None, key_of(below)
        finally:
            for archive in archives.values():
                archive.close()


class Tar:
    """Compressed tar shards: .tar.gz, .tgz, .tar.bz2, .tar.xz, .tar.zst. They are decompressed and read as shards are,
    with labels= as Loader has it: "cls", "json:KEY" or "none"."""

    classes = count = None
    whole_files = True  # write(piece, to) writes a shard, in place of read()

    def __init__(self, source, labels=None):
        self.files = files_of(source, TARS)
        self.pieces, self.labels = list(self.files), labels

    @staticmethod
    def open(path):
        if path.endswith((".gz", ".tgz")):
            return need("gzip").open(path, "rb")
        if path.endswith((".bz2", ".tbz2")):
            return need("bz2").open(path, "rb")
        if path.endswith((".xz", ".txz")):
            return need("lzma").open(path, "rb")
        return need("zstandard").open(path, "rb")


TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")


class Mds:
    """A folder that MosaicML's MDSWriter made, compressed or not."""

    _MORE = {"int": "<i8", "uint8": "u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "int8": "i1",
             "int16": "<i2", "int32": "<i4", "int64": "<i8"}

    def __init__(self, folder, image=None, label=None):
        self.folder = os.path.abspath(os.path.expanduser(os.fspath(folder)))
        with open(os.path.join(self.folder, "index.json"), encoding="utf-8") as file:
            shards = json.load(file)["shards"]
        if not shards or any(shard.get("format") != "mds" for shard in shards):
            raise FormatError(f"{self.folder}: index.json names no shards of MDS")
        names = shards[0]["column_names"]
        self.image = _named(names, image, _IMAGES, "image", self.folder)
        self.label = _named(names, label, _LABELS, "label", self.folder)
        self.classes, self.count = None, sum(shard["samples"] for shard in shards)
        self.pieces = shards

    def _bytes(self, shard):
        if not shard.get("compression"):
            with open(os.path.join(self.folder, shard["raw_data"]["basename"]), "rb") as file:
                return file.read()
        with open(os.path.join(self.folder, shard["zip_data"]["basename"]), "rb") as file:
            data = file.read()
        kind = shard["compression"].partition(":")[0]
        if kind == "zstd":
            return need("zstandard").ZstdDecompressor().decompress(data, max_output_size=shard["raw_data"]["bytes"])
        if kind in ("gz", "bz2"):
            return need({"gz": "gzip"}.get(kind, kind)).decompress(data)
        raise InvalidArgument(f"{self.folder}: its compression is {kind}: zstd, gz and bz2 are read. Decompress it by "
                              "`streaming`, or write it without")

    def read(self, shard):
        data = self._bytes(shard)
        count = struct.unpack_from("<I", data)[0]
        if count != shard["samples"]:
            raise FormatError(f"{shard['raw_data']['basename']}: has {count} samples, and index.json says "
                              f"{shard['samples']}")
        places = np.frombuffer(data, "<u4", count + 1, 4).tolist()
        for number in range(count):
            columns = self._columns(shard, data[places[number]:places[number + 1]])
            yield (*columns, None)

    def _columns(self, shard, sample):
        """The image and the label of a sample."""
        free = sum(size is None for size in shard["column_sizes"])
        lengths = iter(struct.unpack_from(f"<{free}I", sample))
        at, found = 4 * free, {}
        for name, encoding, size in zip(shard["column_names"], shard["column_encodings"], shard["column_sizes"]):
            size = next(lengths) if size is None else size
            if name in (self.image, self.label):
                value = sample[at:at + size]
                found[name] = self._image(encoding, value) if name == self.image else self._label(encoding, value)
            at += size
        return found[self.image], found.get(self.label)

    @staticmethod
    def _image(encoding, value):
        if encoding == "pil":
            width, height, mode = struct.unpack_from("<3I", value)
            image = need("PIL.Image", "pillow")
            return image.frombytes(value[12:12 + mode].decode(), (width, height), value[12 + mode:])
        if encoding.startswith("ndarray:uint8:"):
            return np.frombuffer(value, np.uint8).reshape([int(n) for n in encoding.rpartition(":")[2].split(",")])
        if encoding in ("jpeg", "png", "bytes", "webp", "tiff"):
            return bytes(value)
        raise InvalidArgument(f"a column of encoding {encoding!r} is not taken for images")

    def _label(self, encoding, value):
        if encoding == "str":
            return value.decode()
        if encoding in self._MORE:
            return int(np.frombuffer(value, self._MORE[encoding])[0])
        if encoding == "str_int":
            return int(value)
        raise InvalidArgument(f"a column of encoding {encoding!r} is not taken for labels: give label=False")


# ── arrays and objects ──

class Hdf5:
    """An HDF5 file, chunked or not: images as pixels of uint8, (N, H, W), (N, H, W, 3) or (N, 3, H, W), or encoded, as
    arrays of uint8 of any lengths. image, label: the names of its datasets."""

    def __init__(self, path, image=None, label=None):
        self.path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        with need("h5py").File(self.path, "r") as file:
            names = []
            file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") and item.shape else None)
            self.image = _named(names, image, _IMAGES, "image", self.path)
            self.label = _named(names, label, _LABELS, "label", self.path)
            images = file[self.image]
            self.count, self.classes = len(images), None
            if self.label and len(file[self.label]) != self.count:
                raise FormatError(f"{self.path}: {self.count} images and {len(file[self.label])} labels")
            chunk = images.chunks[0] if images.chunks else 1
            each = int(np.prod(images.shape[1:])) if len(images.shape) > 1 else PIECE_BYTES // PIECE_SAMPLES
            self._step = max(1, min(ROWS, PIECE_BYTES // max(1, each)) // chunk) * chunk  # whole chunks
            pieces = max(self._step, PIECE_BYTES // max(1, each) // self._step * self._step)
            self.pieces = ranges(self.count, pieces)

    def read(self, piece):
        with need("h5py").File(self.path, "r") as file:
            images, labels = file[self.image], file[self.label] if self.label else None
            for first in range(*piece, self._step):
                last = min(first + self._step, piece[1])
                texts = labels[first:last].tolist() if labels is not None else [None] * (last - first)
                for pixels, label in zip(images[first:last], texts):
                    yield _pixels(pixels), label.decode() if isinstance(label, bytes) else label, None


def _pixels(value):
    """What the Writer takes of a row: encoded bytes, or an array (H, W) or (H, W, C)."""
    if isinstance(value, bytes):
        return value
    value = np.asarray(value)
    if value.ndim == 1 or value.ndim == 0:
        return value.tobytes()
    if value.ndim == 3 and value.shape[0] in (1, 3) and value.shape[2] not in (1, 3, 4):
        value = value.transpose(1, 2, 0)
    if value.ndim == 3 and value.shape[2] == 1:
        value = value[..., 0]
    return np.ascontiguousarray(value)


class Samples:
    """A map-style Dataset, or anything that has len() and [index], or that can only be gone through: its samples are
    (image, label), an image alone, or a dictionary with image= and label= in it. Without len() one process reads it."""

    def __init__(self, dataset, image=None, label=None):
        self._dataset, self._image, self._label = dataset, image, label
        classes = getattr(dataset, "classes", None)
        self.classes = list(classes) if isinstance(classes, (list, tuple)) and label is not False and \
            all(isinstance(name, str) for name in classes) else None
        self._by_index = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        self.count = len(dataset) if self._by_index else None
        self.pieces = ranges(self.count, PIECE_SAMPLES) if self._by_index else [None]

    def read(self, piece):
        samples = (self._dataset[index] for index in range(*piece)) if piece else iter(self._dataset)
        for sample in samples:
            yield (*self._parts(sample), None)

    def _parts(self, sample):
        if isinstance(sample, dict):
            image = _named(list(sample), self._image, _IMAGES, "image", "a sample")
            label = _named(list(sample), self._label, _LABELS, "label", "a sample")
            image, label = sample[image], sample[label] if label else None
        elif isinstance(sample, (tuple, list)):
            image, label = sample[0], sample[1] if len(sample) > 1 and self._label is not False else None
        else:
            image, label = sample, None
        if hasattr(image, "permute") or isinstance(image, np.ndarray):
            image = _pixels(image)
        return image, label


class Files:
    """torchvision's ImageFolder and the like, or a torch Subset of one, whose images nothing changes: the files' own
    bytes, in the dataset's order, with its labels."""

    def __init__(self, dataset, positions=None, label=None):
        rows = dataset.samples if positions is None else [dataset.samples[at] for at in positions]
        self._root, self._rows = os.path.abspath(dataset.root), rows
        self._keys = len({path for path, _ in rows}) == len(rows)
        self._of_label = dataset.target_transform
        self._labelled, self.classes = label is not False, Samples(dataset, label=label).classes
        self.count, self.pieces = len(rows), ranges(len(rows), PIECE_SAMPLES)

    def read(self, piece):
        for path, label in self._rows[slice(*piece)]:
            with open(path, "rb") as file:
                data = file.read()
            if self._of_label is not None:
                label = self._of_label(label)
            name = os.path.relpath(path, self._root)
            yield data, label if self._labelled else None, \
                key_of(name) if self._keys and not name.startswith("..") else None


def _made_of_files(dataset):
    """Whether a dataset is one of torchvision's that have a file a sample, as its own class reads it."""
    def is_own(function):
        return getattr(function, "__module__", "").startswith("torchvision.")

    kind = type(dataset)
    return any(base.__name__ == "DatasetFolder" and is_own(base) for base in kind.__mro__) and \
        is_own(kind.__getitem__) and is_own(kind.__len__) and is_own(dataset.loader) and \
        getattr(dataset.loader, "__name__", "") == "default_loader"


def _of_object(dataset, image, label):
    positions, whole = (None, dataset) if not subset.is_subset(dataset) else \
        subset.positions(dataset, subset.is_subset)
    changed = getattr(whole, "transform", None) is not None or \
        type(getattr(whole, "transforms", None)).__name__ not in ("StandardTransform", "NoneType")
    if not changed and _made_of_files(whole):
        return Files(whole, positions, label)
    samples = Samples(dataset, image, label)
    if changed:
        files = f", and larder.pack({whole.root!r}, …) that folder's files" if _made_of_files(whole) else ""
        samples.about = f"the {type(whole).__name__} has a transform: what that makes of each image, once, is " \
            f"stored. Without transform= the dataset's own images are packed{files}"
    return samples


def importer_of(source, image=None, label=None, labels=None):
    """The importer of a source; None: what the daemon reads itself, and larder pack too."""
    if hasattr(source, "pieces") and hasattr(source, "classes"):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _importer_of_path(os.fspath(source), image, label, labels)
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, os.PathLike)) for path in source):
        return _of_files(source, os.fspath(source[0]), image, label, labels)
    if type(source).__module__.split(".")[0] == "datasets":
        return HuggingFace(source, image, label)
    return _of_object(source, image, label)


def _importer_of_path(text, image, label, labels):
    path = os.path.expanduser(text)
    name = path.lower()
    if os.path.isdir(path):
        if os.path.isfile(os.path.join(path, "index.json")):
            return Mds(path, image, label)
        with os.scandir(path) as entries:
            inside = [] if any(entry.is_dir() for entry in entries) else os.listdir(path)
        ending = next((entry for entry in sorted(inside) if entry.endswith((".parquet", ".zip", *TARS))), "")
        return _of_files(path, ending, image, label, labels)
    if re.search(r"\.(h5|hdf5|he5)$", name):
        return Hdf5(path, image, label)
    return _of_files(path, name, image, label, labels)


def _of_files(source, name, image, label, labels):
    """The importer of a file, several, a folder or a glob of them, by the name of one."""
    if name.endswith(".parquet"):
        return Parquet(source, image, label)
    if name.endswith(TARS):
        return Tar(source, labels)
    return Zip(source) if name.endswith(".zip") else None
