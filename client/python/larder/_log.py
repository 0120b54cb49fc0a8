"""A Writer's log: the shards of one writer, plain tar files, in the folder DESTINATION.log.

    WWWWWW-NNNNNNNNNNNN.tar        whole: writer W's samples from its number N on
    WWWWWW-NNNNNNNNNNNN.tar.open   being written; it may end anywhere
    WWWWWW.state                   of an open shard: how many of its bytes are on the disk, since which start of the
                                   machine; locked by the process that writes

The first member of a shard has the names of the classes, if there are any. A sample is its label, KEY.cls, and then its
image: so it is whole where its image is, and a shard that ends anywhere is cut behind the last image. After the machine
itself went down only what was on the disk counts. A sample that came without a key is called ./@ and its number, as no
key may be: a pack calls it by its number in the store. client/writer_log.c does the same for the C library.
"""

import fcntl
import os
import re
import time

from .errors import Busy, FormatError, InvalidArgument, IOFailure

ENDING, OPEN, STATE = ".tar", ".tar.open", ".state"
CLASSES = b"__classes__"
BLOCK = 512
NAME_MAX = 4000
MEMBER_MAX = (1 << 33) - 1  # bytes that a header has digits for
_HOLD_BYTES, _HOLD_S = 1 << 18, 1  # that a kill may cost
_SYNC_BYTES, _SYNC_S = 64 << 20, 5  # that the machine's going down may cost
_STATE_BYTES = 128
_LABELS_KEPT = 4096  # whose members are kept ready
LARGE = 1 << 14  # bytes from which on a piece is written by itself, without a copy

_KEY = re.compile(rb"(?!__[^/]*__/)((?:(?!\.\.?/)[^/\0]+/)*[^/.\0]+)(\.(?:jpe?g|png|webp|tiff?|bmp|ppm|pgm))?",
                  re.IGNORECASE)
_FORMS = {b"\xff\xd8": b".jpg", b"\x89P": b".png", b"RI": b".webp", b"II": b".tif", b"MM": b".tif", b"BM": b".bmp",
          b"P3": b".ppm", b"P6": b".ppm", b"P2": b".pgm", b"P5": b".pgm"}
_SHARD = re.compile(r"(\d{6})-(\d{12})\.tar(\.open)?")

# The parts of a header but its name and size. The sum counts the sum's own field as blanks.
_ZEROS = [b"\0" * count for count in range(BLOCK + 1)]
_MODE = b"0000644\0" b"0000000\0" b"0000000\0"
_TIME = b"\0" b"00000000000\0"
_REST = b"0" + _ZEROS[100] + b"ustar\0" b"00" + _ZEROS[64] + b"0000000\0" b"0000000\0" + _ZEROS[167]
_SUM = sum(_MODE) + sum(_TIME) + 8 * ord(" ") + sum(_REST)
_AFTER_NAME = [_ZEROS[100 - length] + _MODE for length in range(101)]
_LAST = b"\0 " + _REST


def header(name, size):
    """The header of a member. A name of more than 100 bytes has one of its own before it, as GNU tar writes it."""
    length = len(name)
    if length > 100:
        return (_long_header(length + 1) + name + _ZEROS[BLOCK - length % BLOCK] + header(name[:100], size))
    digits = b"%011o" % size
    return b"%b%b%b%b%06o%b" % (name, _AFTER_NAME[length], digits, _TIME, _SUM + sum(name) + sum(digits), _LAST)


def _long_header(size):
    plain = header(b"././@LongLink", size)
    return plain[:148] + b"%06o\0 " % (int(plain[148:154], 8) + ord("L") - ord("0")) + b"L" + plain[157:]


def padded(data):
    return data + _ZEROS[-len(data) % BLOCK]


def whole(fd, end):
    """(bytes, samples) of a shard's beginning that is whole. `end`: how many of its bytes are to be trusted."""
    at = until = samples = 0
    name = None
    while at + BLOCK <= end:
        block = os.pread(fd, BLOCK, at)
        if len(block) < BLOCK or block[257:262] != b"ustar" or not _sum_fits(block):
            break
        size, kind = int(block[124:135], 8), block[156:157]
        after = at + BLOCK + size + -size % BLOCK
        if after > end:
            break
        if kind == b"L":
            name = os.pread(fd, size, at + BLOCK).rstrip(b"\0")
        else:
            name = name or block[:100].rstrip(b"\0")
            if name == CLASSES:
                until = after
            elif not name.endswith(b".cls"):
                until, samples = after, samples + 1
            name = None
        at = after
    return until, samples


def _sum_fits(block):
    try:
        return int(block[148:154], 8) == sum(block) - sum(block[148:156]) + 8 * ord(" ")
    except ValueError:
        return False


def _to_write(pieces):
    """The pieces, neighbouring small ones as one."""
    small = []
    for piece in pieces:
        if len(piece) < LARGE:
            small.append(piece)
        else:
            yield b"".join(small)
            yield piece
            small = []
    yield b"".join(small)


def is_whole_key(key):
    return _KEY.fullmatch(key) is not None and len(key) <= NAME_MAX


def shards(folder, writer=None):
    """(writer, first number, whether it is open, path) of each shard of the folder, sorted."""
    found = []
    for name in os.listdir(folder):
        parts = _SHARD.fullmatch(name)
        if parts and writer in (None, int(parts[1])):
            found.append((int(parts[1]), int(parts[2]), bool(parts[3]), os.path.join(folder, name)))
    return sorted(found)


def _boot():
    """What tells one start of the machine from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"  # then nothing is trusted but what was synced


def _sync_folder(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Log:
    """What one writer has written, and goes on to write. `done`: its whole samples, at first those of earlier runs."""

    _fd = _state = -1

    def __init__(self, folder, writer, classes, shard_bytes):
        self._folder, self._writer, self._shard_bytes = folder, writer, shard_bytes
        names = b"".join(name.encode() + b"\n" for name in classes or ())
        self._classes = header(CLASSES, len(names)) + padded(names) if names else b""
        self._pieces, self._held, self._due = [], 0, 0.0
        self._size = self._synced = self._flushed = self._first = 0
        self._last = None  # key
        self._process = os.getpid()
        self._made = {}  # members of labels
        self.done = 0
        self.whole = False  # an earlier run ended it, as far as is known: it has shards, and none is open
        try:
            os.makedirs(folder, exist_ok=True)
            self._lock()
            self._go_on()
        except OSError as error:
            self.leave()
            raise IOFailure(f"{folder}: cannot write a log there: {error.strerror}") from None
        except BaseException:
            self.leave()
            raise

    # ── where an earlier run stopped ──

    def _lock(self):
        path = os.path.join(self._folder, f"{self._writer:06}{STATE}")
        while True:
            self._state = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"{self._folder}: writer {self._writer} is at work there: give each process a number of "
                           "its own, writer=") from None
            try:
                if os.path.samestat(os.stat(path), os.fstat(self._state)):
                    return
            except FileNotFoundError:
                pass
            os.close(self._state)  # the one that had it has ended, and removed it

    def _trusted(self, first, size):
        """How many bytes of an open shard count."""
        fields = os.pread(self._state, _STATE_BYTES, 0).decode("ascii", "replace").split()
        if len(fields) == 3 and fields[1] == str(first) and fields[2].isdecimal():
            return size if fields[0] == _boot() != "-" else min(size, int(fields[2]))
        return size if not fields else 0

    def _go_on(self):
        found = shards(self._folder, self._writer)
        if not found:
            return
        _, first, is_open, path = found[-1]
        fd = os.open(path, (os.O_RDWR if is_open else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            end, samples = whole(fd, self._trusted(first, size) if is_open else size)
            self._check_classes(fd, end, path)
            self.done = self._flushed = first + samples
            self.whole = not is_open
            if is_open:
                os.ftruncate(fd, end)
                self._fd, fd, self._size, self._path, self._first = fd, -1, end, path, first
                self._sync()
        finally:
            if fd >= 0:
                os.close(fd)

    def _check_classes(self, fd, end, path):
        start = os.pread(fd, len(self._classes) or BLOCK, 0)
        if end and (start != self._classes if self._classes else start.startswith(CLASSES + b"\0")):
            raise InvalidArgument(f"{path}: was written with other classes: give the same ones, or remove "
                                  f"{self._folder}")

    # ── samples ──

    def add(self, data, label, key):
        """A sample: the image's bytes, its label as text or None, and its key or None: its number. Where it cannot be
        written, it is not in the log, and may be given again. A memoryview, of bytes, is written before this returns:
        its owner may change it then."""
        if os.getpid() != self._process:
            self._check_process()
        size, before, last = len(data), len(self._pieces), self._last
        if size > MEMBER_MAX:
            raise InvalidArgument(f"an image of {size} bytes: at most {MEMBER_MAX}")
        if key is None:
            stem, ending = b"./@%012d" % (self.done,), None
        else:
            parts = _KEY.fullmatch(key)
            if parts is None or len(key) > NAME_MAX or key == self._last:
                raise InvalidArgument(self._bad_key(key))
            self._last = key
            stem, ending = parts.groups()
        pieces = self._pieces
        if label is not None:
            made = self._made.get(label)
            if made is None:
                made = (len(label), padded(label))
                if len(self._made) < _LABELS_KEPT:
                    self._made[label] = made
            pieces += (header(stem + b".cls", made[0]), made[1])
        pieces += (header(stem + (ending or _FORMS.get(bytes(data[:2]), b".jpg")), size), data, _ZEROS[-size % BLOCK])
        self.done += 1
        self._held += size + 3 * BLOCK
        if self._held >= _HOLD_BYTES or type(data) is not bytes or time.monotonic() >= self._due:
            try:
                self.flush()
            except BaseException:
                if self._flushed < self.done:
                    self.done -= 1
                    self._last = last
                    del pieces[before:]
                raise

    @property
    def is_own(self):
        """Not so in a process that was forked: it has the same open file, and would write over its parent's bytes."""
        return os.getpid() == self._process

    def _check_process(self):
        if not self.is_own:
            raise InvalidArgument(f"{self._folder}: this Writer belongs to process {self._process}: make one in each "
                                  "process, with a number of its own, writer=")

    def _bad_key(self, key):
        shown = key[:200].decode(errors="replace")
        if key == self._last:
            return f"key {shown!r} comes twice in a row: a key names one sample"
        return (f"key {shown!r}: a key is a path below a folder of at most {NAME_MAX} bytes, without '..' and "
                "without a dot in its last part but that of .jpg, .png and the like; its first folder is not "
                "called __NAME__")

    # ── bytes ──

    def flush(self, sync=False):
        """Writes all samples, so that no kill costs them; with `sync`, onto the disk."""
        self._check_process()
        try:
            if not self._pieces:
                if sync and self._fd >= 0 and self._synced < self._size:
                    self._sync()
                return
            if self._fd < 0:
                self._begin()
            if self._size == 0:
                self._write([self._classes])
            self._write(self._pieces)
            self._pieces = []
            self._held, self._flushed = 0, self.done
            if sync or self._size - self._synced >= _SYNC_BYTES or time.monotonic() - self._synced_s >= _SYNC_S:
                self._sync()
            if self._size >= self._shard_bytes:
                self._end()
        except OSError as error:
            raise IOFailure(f"{self._folder}: {error.strerror}: what was written before is kept, and a Writer goes on "
                            f"behind it") from None
        self._due = time.monotonic() + _HOLD_S

    def _write(self, pieces):
        """All or nothing, as far as the disk allows: what an error or a Ctrl-C has cut is written over."""
        end = os.lseek(self._fd, self._size, os.SEEK_SET)
        for data in _to_write(pieces):
            end, left = end + len(data), memoryview(data)
            while left:
                left = left[os.write(self._fd, left):]
        self._size = end

    def _begin(self):
        self._first = self._flushed
        self._path = os.path.join(self._folder, f"{self._writer:06}-{self._first:012}{OPEN}")
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._size = 0
        self._synced_s = float("-inf")  # where this sync fails, the next write does it again
        self._sync()
        _sync_folder(self._folder)

    def _sync(self):
        os.fsync(self._fd)
        said = f"{_boot()} {self._first} {self._size}".encode()
        os.pwrite(self._state, said.ljust(_STATE_BYTES - 1) + b"\n", 0)
        os.fsync(self._state)
        self._synced, self._synced_s = self._size, time.monotonic()

    def _end(self):
        """Makes the open shard a whole one."""
        size = self._size
        if self._flushed > self._first:
            try:
                self._write([_ZEROS[BLOCK] * 2])
                os.fsync(self._fd)
                os.rename(self._path, self._path[:-len(OPEN)] + ENDING)
            except BaseException:
                self._size = size  # what comes next is written over the zeros: readers end at them
                raise
        else:
            os.unlink(self._path)
        os.close(self._fd)
        self._fd = -1
        _sync_folder(self._folder)

    def close(self):
        """Ends the log: all its shards are whole. After an error it may go on, and be ended again."""
        self.flush()
        try:
            if self._fd >= 0:
                self._end()
            os.unlink(os.path.join(self._folder, f"{self._writer:06}{STATE}"))
        except OSError as error:
            raise IOFailure(f"{self._folder}: {error.strerror}") from None
        self.leave()

    def leave(self):
        """Leaves what is written as it is, for another Writer to go on."""
        for fd in (self._fd, self._state):
            if fd >= 0:
                os.close(fd)
        self._fd = self._state = -1

    __del__ = leave  # another Writer of this process may go on
