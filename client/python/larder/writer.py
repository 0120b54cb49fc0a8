"""Writer: writes samples, from any number of processes, and packs them into a store."""

import operator
import os

from ._command import run_pack
from ._log import LARGE, Log
from .errors import InvalidArgument

SHARD_BYTES = 256 << 20
_WRITERS_MAX = 10 ** 6


def log_of(destination):
    """The folder in which the Writers of a destination write."""
    return os.fspath(destination).rstrip("/") + ".log"


def check_destination(destination):
    """Raises where a store is, or is being packed: that takes no more samples."""
    if os.path.exists(os.path.join(destination, "index.larder")):
        raise InvalidArgument(f"{destination}: a store is there already: choose another folder, or remove that one")
    if os.path.exists(os.path.join(destination, "unfinished.larder")):
        raise InvalidArgument(f"{destination}: is being packed, or a pack of it was interrupted: `larder pack "
                              f"{destination}` goes on with that")


def encode(image, form, quality):
    """The bytes of a Pillow image, or of an array (H, W), (H, W, 3) or (H, W, 4) of uint8."""
    import io
    try:
        from PIL import Image
    except ImportError:
        raise InvalidArgument("writing images that are no bytes needs Pillow: pip install pillow") from None
    if not isinstance(image, Image.Image):
        import numpy
        array = numpy.asarray(image)
        if array.dtype != numpy.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
            raise InvalidArgument(f"an image of shape {array.shape} and {array.dtype}: give bytes, an image of Pillow, "
                                  "or an array (H, W), (H, W, 3) or (H, W, 4) of uint8")
        image = Image.fromarray(array)
    out = io.BytesIO()
    more = {"png": {"compress_level": 1}, "webp": {"lossless": True, "exact": True}, "jpeg": {"quality": quality}}[form]
    try:
        image.save(out, form, **more)
    except OSError as error:
        raise InvalidArgument(f"an image of mode {image.mode} as {form}: {error}") from None
    return out.getvalue()


class Writer:
    """Writes samples into a log, and packs them into a store when it is closed:

        with larder.Writer("/data/mine.store", classes=["cat", "dog"]) as writer:
            for image, label in samples[writer.done:]:
                writer.write(image, label)

    The log is the folder DESTINATION.log, with tar shards in it: a Loader may train on those that are whole at any
    time. A process that is killed leaves what it has written; the next Writer goes on behind it: `done` is the number
    of samples that are there. At most what the last second brought is lost, a quarter of a MiB; where the
    machine goes down, what the last five seconds brought, or 64 MiB. flush() makes sure of all.

    classes: the names of the classes, by their numbers; without them labels are numbers, or names that are sorted.
    writer: the number of this writer, for several processes that write at once, on one machine or on several that
    have one file system: each has its own, and goes on where that one stopped. Then close() does not pack:
    larder.pack(DESTINATION), or `larder pack DESTINATION`, does when all have ended.
    encode: the form in which arrays and Pillow's images are written: "png" and "webp" keep every pixel, "jpeg" has the
    quality. shard_bytes: a shard that has so many is closed. quiet: nothing is printed while it is packed. Further
    options are those of `larder pack`: chunk_size=64, max_side=256, planes=True.

    InvalidArgument: a store is there already, other classes. Busy: another process has the number. IOFailure."""

    def __init__(self, destination, classes=None, *, writer=None, encode="png", quality=95, shard_bytes=SHARD_BYTES,
                 quiet=True, **options):
        self.destination = os.path.abspath(os.path.expanduser(os.fspath(destination)))
        if encode not in ("png", "webp", "jpeg"):
            raise InvalidArgument(f"encode={encode!r}: is \"png\", \"webp\" or \"jpeg\"")
        if writer is not None and not 0 <= operator.index(writer) < _WRITERS_MAX:
            raise InvalidArgument(f"writer={writer}: is a number from 0 to {_WRITERS_MAX - 1}")
        self.classes = None if classes is None else [str(name) for name in classes]
        if self.classes is not None:
            _check_classes(self.classes)
        self._numbers = {name: number for number, name in enumerate(self.classes or ())}
        self._labels = {}  # the texts of those that came
        self._labelled = None
        self._form, self._quality, self._quiet, self._options = encode, quality, quiet, options
        self._packs = writer is None
        check_destination(self.destination)
        self._log = Log(log_of(self.destination), writer or 0, self.classes, shard_bytes)

    def __repr__(self):
        return f"Writer({self.destination!r}, done={self.done})"

    @property
    def done(self):
        """The samples that this writer has written, with those of earlier runs."""
        return self._log.done

    @property
    def whole(self):
        """Whether an earlier run ended what this writer has, and nothing was written since."""
        return self._log.whole

    @property
    def log(self):
        """The folder of the log, which a Loader takes."""
        return log_of(self.destination)

    def write(self, image, label=None, key=None):
        """Writes a sample. image: encoded bytes, which are kept as they are, whatever they are; an image of Pillow; an
        array (H, W), (H, W, 3) or (H, W, 4) of uint8. label: a whole number from 0 on, or a name; all samples have one,
        or none. key: a path as of a file below a folder, "cat/0001.jpg" or "cat/0001"; None: the sample's number.
        After an IOFailure `done` says whether the sample is there."""
        if type(image) is not bytes:
            image = _taken(image) if isinstance(image, (bytearray, memoryview)) else encode(image, self._form,
                                                                                            self._quality)
        if not image:
            raise InvalidArgument("an image of 0 bytes")
        try:
            text = self._labels[label]
        except (KeyError, TypeError):
            text = self._text_of(label)
        self._log.add(image, text, key if key is None else key.encode("utf-8", "surrogateescape"))

    def _text_of(self, label):
        """A label as the log has it. All that can go wrong with one goes wrong here."""
        labelled = label is not None
        if self._labelled is None:
            self._labelled = labelled
        elif self._labelled != labelled:
            raise InvalidArgument("a sample without a label among others that have one: all have one, or none")
        if not labelled:
            self._labels[None] = None
            return None
        if isinstance(label, str):
            text = self._text_of_name(label)
        else:
            number = self._number_of(label)
            if not 0 <= number < (len(self.classes) if self.classes else 1 << 20):
                raise InvalidArgument(f"label {number}: is 0 to "
                                      f"{len(self.classes) - 1 if self.classes else (1 << 20) - 1}")
            text = b"%d" % number
        if type(label) in (int, str):
            self._labels[label] = text
        return text

    def _number_of(self, label):
        try:
            return operator.index(label)
        except TypeError:
            raise InvalidArgument(f"label {label!r}: is a whole number, or a name") from None

    def _text_of_name(self, name):
        if self.classes is None:
            if not name or not name.isprintable() or len(name.encode()) > 255 or name.strip().lstrip("+-").isdigit():
                raise InvalidArgument(f"label {name!r}: a name has 1 to 255 printable bytes and is no number")
            return name.encode()
        number = self._numbers.get(name)
        if number is None:
            raise InvalidArgument(f"label {name!r}: is none of the classes")
        return b"%d" % number

    def flush(self):
        """Writes all samples onto the disk, so that nothing that happens to this process or machine costs them."""
        self._log.flush(sync=True)

    def close(self):
        """Ends this writer. Without writer= it also packs the log into the store, and removes it. After an error, as of
        a disk that is full, it may be called again, and goes on."""
        if not isinstance(self._log, _Closed):
            self._log.close()
            self._log = _Closed(self._log.done)
        if self._packs and self._log.done:
            run_pack([self.destination], self._options, self._quiet)
        self._packs = False

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """After an exception the log stays, for another Writer to go on."""
        try:
            if kind is None:
                self.close()
            elif self._log.is_own:
                self._log.flush(sync=True)
        finally:
            self._log.leave()

    def __reduce__(self):
        raise InvalidArgument(f"{self.destination}: a Writer cannot be pickled: make one in each process, with a "
                              "number of its own, writer=")


class _Closed:
    def __init__(self, done):
        self.done, self.whole, self.is_own = done, True, True

    def add(self, *_):
        raise InvalidArgument("the Writer is closed")

    def flush(self, **_):
        pass

    close = leave = flush


def _taken(data):
    """What the log takes of a buffer: a copy of a small one, else the buffer itself."""
    view = memoryview(data)
    return bytes(view) if view.nbytes < LARGE or not view.c_contiguous else view.cast("B")


def _check_classes(names):
    for name in names:
        if not name or "\n" in name or not name.isprintable() or len(name.encode()) > 255:
            raise InvalidArgument(f"class {name!r}: a name has 1 to 255 bytes that can be printed")
    if not names or len(set(names)) != len(names):
        raise InvalidArgument("classes: give names, each once" if names else "classes: is empty")
