"""Lists of files as datasets: the file that stands for a list of paths, and what the text of a dataset names
(cache/source/list.c)."""

import hashlib
import os
import stat
import tempfile

from .errors import InvalidArgument, NotPermitted

ENDINGS = (".csv", ".tsv", ".jsonl")
_OF_FOLDER = ("metadata.csv", "metadata.jsonl")
_MARK = "#labels="


def made_of(paths, names=None):
    """The path of a list of these files, which is there now: in a folder of this user's, under a name that its content
    has. So scripts that give the same paths have one dataset. With names of columns, paths are rows of as many."""
    rows = [",".join(names or ("path",)).encode() + b"\n"]
    rows += [b",".join(map(_quoted, row if names else (row,))) + b"\n" for row in paths]
    if len(rows) == 1:
        raise InvalidArgument("dataset is an empty list: give paths of images")
    return kept(b"".join(rows), ".csv")


def kept(content, ending):
    """The path of a list with this content, which is there now."""
    target = path_of(content, ending)
    if not _has(target, content):
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), delete=False) as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(file.name, target)
    return target


def path_of(said, ending):
    """Where this user's list is kept that these bytes tell from all others."""
    return os.path.join(_folder(), hashlib.sha256(said).hexdigest()[:32] + ending)


def _quoted(path):
    try:
        path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    except TypeError:
        raise InvalidArgument(f"dataset is a list with {path!r} in it, which is no path: give labels by labels="
                              ) from None
    return b'"' + os.fsencode(path).replace(b'"', b'""') + b'"'


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
