"""larder.index: writes a list of places of what others have packed, so that a Loader trains on it without a copy."""

import csv
import json
import os
import tempfile
import zlib
from glob import glob

from . import _index_coco, _index_files, _index_libraries, _index_pixels, _index_sounds
from ._places import Fail, Refused
from .errors import FormatError, InvalidArgument, IOFailure, NotFound

# How each container is told, and read: is(paths) of what a source's text stands for, places(paths, choice).
_FORMATS = {
    "mds": (_index_files.is_mds, _index_files.mds),
    "zip": (_index_files.is_zip, _index_files.zips),
    "tfrecord": (_index_files.is_tfrecord, _index_files.tfrecords),
    "parquet": (_index_libraries.is_parquet, _index_libraries.parquet),
    "lmdb": (_index_libraries.is_lmdb, _index_libraries.lmdbs),
    "hdf5": (_index_libraries.is_hdf5, _index_libraries.hdf5),
    "npy": (_index_pixels.is_npy, _index_pixels.npy),
    "mnist": (_index_pixels.is_mnist, _index_pixels.mnist),
    "cifar": (_index_pixels.is_cifar, _index_pixels.cifar),
    "librispeech": (_index_sounds.is_librispeech, _index_sounds.librispeech),
    "array": (_index_pixels.is_array, _index_pixels.arrays),
}
_MANY = ("librispeech", "array")  # of many files, or told by format= alone: a Loader takes none for one of these
_PACKED = ("mds", "zip", "parquet", "hdf5")  # what larder.pack reads as it is
_COLUMNS = ("path", "offset", "bytes", "crc32", "raw", "key", "label", "class", "text", "frames")


def index(source, destination, *, format=None, image=None, label=None, crc32=True, masks=False):
    """Writes a list of the images, clips or arrays in what others have packed, and returns how many there are. The list
    is a dataset: larder.Loader(destination, ...) trains on them where they are, without a copy.

    source       a file, a folder, a glob such as "/data/train-*.tfrecord", or a list of files
    destination  the list, a .csv; of "coco" a .jsonl
    format       "zip" (stored), "mds" (Mosaic's, not compressed), "tfrecord" (of tf.Example), "parquet" (images in
                 pages that are not compressed), "lmdb", "hdf5" (contiguous), "npy" (of images), "cifar" (10 or 100,
                 binary or Python's), "mnist" (idx), "librispeech" (clips with their words) or "array" (rows of a .npy
                 of any type, such as tokens, for larder.Array), or "coco" (images with boxes, of an
                 instances_*.json); None: what it looks like
    image        what has the images: a column (mds, parquet), a feature (tfrecord), or a dataset (hdf5). None: the one
                 that there is, or that is called image, images, image/encoded, jpg, png, x or data. Of coco it is the
                 folder of the images; None: instances_train2017.json has them in train2017, beside it or beside its
                 folder
    label        what has the labels: likewise, or of npy a second file. None: the one called label, labels, y, or as
                 each container has it, if there is one. A list or array, one a sample, is written as it is
    crc32        also write the CRC-32 of each image, which the daemon compares at every read. All images are read
                 once for that. False: only the file's size and time tell the daemon that it changed
    masks        of coco: True writes the segmentations, too, as "masks", which makes the list some ten times as long

    Labels are the column "label", and names of classes the column "class", where the container has them. LibriSpeech
    has the columns "text", its transcripts, and "frames", lengths; its labels are the speakers, numbered in sorted
    order, whose names are the column "class".

    COCO's list has for each image its boxes, [left, top, right, bottom], and of each box its category as "labels", its
    "area" and "iscrowd"; "image_id" is a column. Its file is read whole, which takes twice its length and some 300
    bytes a box of memory; with masks=True three times its length.

    Raises InvalidArgument for what cannot be trained on where it is (compressed, for one), and says what to do: packing
    it once (larder.pack). NotFound; FormatError: a file is damaged; IOFailure: one cannot be read or written. The list
    is there whole, or as it was before.
    """
    destination = os.path.abspath(os.fspath(destination))
    if format not in (None, "coco", *_FORMATS):
        raise InvalidArgument(f"format={format!r} is none of {', '.join(sorted((*_FORMATS, 'coco')))}")
    paths = _paths(source)
    coco = format == "coco" or (format is None and _index_coco.is_coco(paths))
    ending = ".jsonl" if coco else ".csv"
    if masks and not coco:
        raise InvalidArgument("masks=True is about COCO's segmentations, and this is another format")
    if not destination.lower().endswith(ending):
        raise InvalidArgument(f"larder.index writes a list, and {destination!r} does not end in {ending}")
    named = label is None or isinstance(label, (str, os.PathLike))
    try:
        if coco:
            return _write(_index_coco.rows(paths[0], image, masks), destination, _write_objects)
        format = format or _format(paths, source)
        _, places = _FORMATS[format]
        rows = places(paths, image, os.fspath(label) if named and label is not None else None)
        return _write(_labelled(rows, None if named else label), destination,
                      lambda file, *what: _write_rows(csv.writer(file, lineterminator="\n"), *what, crc32))
    except Refused as why:
        what, packed = ("it", _shown(source)) if format in _PACKED else ("a Dataset that reads it", "DATASET")
        what = f"{why.instead}, or pack {what} once" if why.instead else f"Pack {what} once"
        raise InvalidArgument(f"{why}. {what}: larder.pack({packed}, \"NAME.store\")") from None
    except Fail as why:
        raise FormatError(str(why)) from None
    except OSError as why:
        raise IOFailure(f"{why.filename or _shown(source)}: {why.strerror}") from None


def container(path):
    """The format of a file or folder that index() takes and that is no dataset as it is; None: it is nothing such."""
    if not os.path.exists(path) or os.path.isfile(os.path.join(path, "index.larder")):
        return None
    paths = [os.path.realpath(path)]
    try:
        return next((name for name, (looks, _) in _FORMATS.items() if name not in _MANY and looks(paths)), None)
    except OSError:  # the daemon says what it may not read
        return None


def _shown(source):
    return repr(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "SOURCE"


def _paths(source):
    """The files and folders that a source stands for; at least one, all of them there."""
    if not isinstance(source, (str, os.PathLike)):
        paths = [os.path.abspath(os.path.expanduser(os.fspath(path))) for path in source]
    else:
        text = os.path.abspath(os.path.expanduser(os.fspath(source)))
        paths = [text] if os.path.exists(text) else sorted(glob(text))
    if not paths:
        raise NotFound(f"{source!r}: there is no such file or folder")
    for path in paths:
        if not os.path.exists(path):
            raise NotFound(f"{path}: there is no such file or folder")
    return [os.path.realpath(path) for path in paths]


def _format(paths, source):
    found = next((name for name, (looks, _) in _FORMATS.items() if looks(paths)), None)
    if found is None:
        raise InvalidArgument(f"{source!r} is nothing that larder.index knows: it takes {', '.join(sorted(_FORMATS))}. "
                              "Folders of images, lists and tar shards need no index: give them to larder.Loader. What "
                              "else there is can be packed: larder.pack")
    return found


def _labelled(rows, labels):
    """The rows, with labels that the caller gives."""
    if labels is None:
        yield from rows
        return
    labels = [one.item() if hasattr(one, "item") else one for one in labels]
    count = 0
    for row in rows:
        if count < len(labels):
            row = row._replace(label=labels[count])
        count += 1
        yield row
    if count != len(labels):
        raise InvalidArgument(f"label has {len(labels)} rows, and there are {count} images: give one for each")


def _write(rows, destination, write):
    """Writes all rows, or leaves what was there."""
    folder = os.path.dirname(destination)
    descriptor, path = tempfile.mkstemp(dir=folder, suffix=os.path.splitext(destination)[1])
    try:
        with open(descriptor, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            count = write(file, rows, os.path.realpath(folder))
            if not count:
                raise InvalidArgument(f"{destination} would be empty: no sample was found")
            os.fchmod(file.fileno(), 0o644)
        os.replace(path, destination)
    except BaseException:
        os.unlink(path)
        raise
    return count


def _below(path, folder):
    """A path as a list has it that lies in a folder."""
    return os.path.relpath(path, folder) if path.startswith(folder.rstrip("/") + "/") else path


def _write_objects(file, rows, folder):
    """Writes JSON Lines."""
    count = 0
    for count, row in enumerate(rows, 1):
        file.write(json.dumps({**row, "image": _below(row["image"], folder)}) + "\n")
    return count


def _write_rows(writer, rows, folder, crc32):
    columns, count = None, 0
    with _Files() as files:
        for row in rows:
            if crc32 and row.crc32 is None and row.offset is not None:
                row = row._replace(crc32=files.crc32(row))
            values = row._asdict()
            values["path"] = _below(row.path, folder)
            values["class"] = values.pop("class_")
            if columns is None:
                columns = [name for name in _COLUMNS if values[name] is not None]
                writer.writerow(columns)
            writer.writerow([values[name] for name in columns])
            count += 1
    return count


class _Files:
    """The file that was read last, open."""

    def __init__(self):
        self._path, self._file = None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._file:
            self._file.close()

    def crc32(self, row):
        if row.path != self._path:
            self.__exit__()
            self._path, self._file = row.path, open(row.path, "rb", buffering=0)
        crc, at, end = 0, row.offset, row.offset + row.bytes
        while at < end:
            piece = os.pread(self._file.fileno(), min(end - at, 1 << 22), at)
            if not piece:
                raise Fail(f"{row.path} ends at byte {at}, within an image")
            crc, at = zlib.crc32(piece, crc), at + len(piece)
        return crc
