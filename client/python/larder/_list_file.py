"""Lists of files as datasets: the file that stands for a list of paths, and what a list has, read by the daemon's rules
(cache/source/list.c)."""

import csv
import hashlib
import json
import os
import stat
import tempfile

import numpy as np

from .errors import FormatError, InvalidArgument, NotPermitted

ENDINGS = (".csv", ".tsv", ".jsonl")
_PATHS = ("file_name", "path", "image", "file", "filename", "file_path", "filepath", "img", "image_path", "img_path",
          "image_name")
_OF_FOLDER = ("metadata.csv", "metadata.jsonl")
_MARK = "#labels="


def made_of(paths):
    """The path of a list of these files, which is there now: in a folder of this user's, under a name that its content
    has. So scripts that give the same paths have one dataset."""
    rows = [b"path\n"]
    for path in paths:
        try:
            path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        except TypeError:
            raise InvalidArgument(f"dataset is a list with {path!r} in it, which is no path: give labels by labels="
                                  ) from None
        rows.append(b'"' + os.fsencode(path).replace(b'"', b'""') + b'"\n')
    if len(rows) == 1:
        raise InvalidArgument("dataset is an empty list: give paths of images")
    content = b"".join(rows)
    target = os.path.join(_folder(), hashlib.sha256(content).hexdigest()[:32] + ".csv")
    if not _has(target, content):
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), delete=False) as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(file.name, target)
    return target


def _has(path, content):
    try:
        with open(path, "rb") as file:
            return file.read() == content
    except FileNotFoundError:
        return False


def _folder():
    path = os.path.join(tempfile.gettempdir(), f"larder-lists-{os.geteuid()}")
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise NotPermitted(f"{path} would have the lists of files that scripts give, and is no folder that you (user "
                           f"{os.geteuid()}) alone may write to: have it removed, or set TMPDIR")
    return path


def split(text):
    """The path of a dataset's list and its column of labels ("": whichever there is); None where it has none."""
    path, _, labels = text.partition(_MARK)
    if path.lower().endswith(ENDINGS):
        return path, labels
    listed = next((at for at in (os.path.join(path, name) for name in _OF_FOLDER) if os.path.isfile(at)), None)
    if listed is None or os.path.isfile(os.path.join(path, "index.larder")):
        return None
    with os.scandir(path) as entries:
        others = any(not entry.name.startswith(".") and (entry.is_dir() or entry.name.endswith(".tar"))
                     for entry in entries)
    return None if others else (listed, labels)


def _inner(offset, key):
    """What a sample's key has behind its file's path, as the daemon makes it (cache/source/list_places.c)."""
    return f"/{key}" if key not in (None, "") else f"/@{int(offset)}"


class ListFile:
    """The files of a list: keys, which are paths below the folder that they have in common, and labels. Where a list
    has places in files, a key is the file's path and the sample's name in it, or @ and its offset."""

    def __init__(self, path, column):
        self._path, self._column = os.path.realpath(path), column
        rows = list(self._objects() if path.lower().endswith(".jsonl") else self._records())
        folder = os.path.dirname(self._path)
        paths = [os.path.join(folder, row[0]) for row in rows]
        paths = ["/" + "/".join(part for part in one.split("/") if part not in ("", ".")) for one in paths]
        common = os.path.commonpath({os.path.dirname(one) for one in paths})
        self.root = os.path.realpath(common)
        self.keys = [one[len(common.rstrip("/")) + 1:] + row[2] for one, row in zip(paths, rows)]
        self._number([row[1] for row in rows])

    def path(self, index):
        return os.path.join(self.root, self.keys[index])

    def _records(self):
        """(path, label, name in the file) of each row; a label is a text, a whole number where it is one, or None."""
        separator = "\t" if self._path.lower().endswith(".tsv") else ","
        with open(self._path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            rows = csv.reader(file, delimiter=separator)
            titles = [title.lower() for title in next(rows, [])]
            path = next((titles.index(name) for name in _PATHS if name in titles), None)
            wanted = (self._column if self._column != "none" else "") or "label"
            label = titles.index(wanted.lower()) if wanted.lower() in titles else None
            if path is None:
                raise FormatError(f"{self._path} has no column of paths")
            place = [titles.index(name) if name in titles else None for name in ("offset", "bytes", "key")]
            for row in filter(None, rows):
                text = row[label].strip() if label is not None and label < len(row) else ""
                digits = text[1:] if text[:1] in ("+", "-") else text
                offset, size, key = (row[at] if at is not None and at < len(row) else None for at in place)
                yield (row[path], int(text) if digits.isdecimal() and digits.isascii() else text or None,
                       "" if None in place[:2] else _inner(offset, key))

    def _objects(self):
        wanted = (self._column if self._column != "none" else "") or "label"
        with open(self._path, encoding="utf-8-sig", errors="surrogateescape") as file:
            placed = None
            for line in filter(str.strip, file):
                row = json.loads(line)
                placed = "offset" in row and "bytes" in row if placed is None else placed
                yield (next(row[name] for name in _PATHS if name in row), row.get(wanted),
                       _inner(row["offset"], row.get("key")) if placed else "")

    def _number(self, labels):
        if self._column == "none" or all(label is None for label in labels):
            self.classes, self.labels = ["unlabelled"], np.zeros(len(labels), np.int64)
        elif isinstance(labels[0], str):
            self.classes = sorted(set(labels))
            place = {name: number for number, name in enumerate(self.classes)}
            self.labels = np.array([place[label] for label in labels], np.int64)
        else:
            self.labels = np.array(labels, np.int64)
            self.classes = [str(number) for number in range(int(self.labels.max()) + 1)]
