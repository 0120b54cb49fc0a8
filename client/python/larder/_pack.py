"""larder.pack: packs what the daemon reads itself, and what importers read, into a store."""

import contextlib
import fcntl
import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import sys
import time
import traceback

from . import _list_file, _sources, errors, importers
from ._command import run_pack
from ._log import ENDING, OPEN, shards
from .errors import InvalidArgument, LarderError
from .writer import Writer, log_of

_ABOUT = "source.json"  # what the log is of, so that a run that goes on is of the same
_COPY_BYTES = 1 << 20
_LINE_S, _BAR_S = 5, .2  # between lines of progress, and where a terminal shows it
_PIECES_MAX = 10 ** 6


def pack(source, destination=None, *, workers=8, image=None, label=None, labels=None, classes=None, encode="png",
         quality=95, quiet=False, **options):
    """Packs a dataset into the store `destination`, and prints how far it is. Stopped in any way, by kill -9 too, the
    same call goes on where it was, and the store has the same samples in the same order. A store that is there stays.

    source is one of these:
      what a Loader takes: class folders, a list of files or of paths, tar shards, a store, files that larder.index
        reads;
      Parquet files with encoded images, by path, folder, glob or list; a Dataset of the library `datasets`;
      a folder of MosaicML's MDS, .tar.gz and the like, .zip, an .h5 file;
      a torch Dataset, or anything that has len() and [index], or can be gone through: (image, label) each;
      an importer of larder.importers, which has the details;
      with no destination: a destination that Writers with writer= have written for, all of which have ended.

    workers: processes that read the source, at most; the memory that each takes is bounded. image, label: the names of
    the columns or datasets; label=False: no labels. labels: those of tar shards, "json:KEY". classes: names of the
    classes by their numbers, where the source has none. encode, quality: as of larder.Writer, for images that are
    pixels. Encoded images are kept byte for byte. quiet: prints nothing. Further options are those of `larder pack`:
    chunk_size=64, max_side=256, restart_rows=True, planes=True, skip_unreadable=True, all_files=True, seed=1.

    InvalidArgument, which names the library that a form needs where it is not installed; FormatError, NotFound,
    IOFailure, LarderError."""
    if destination is None:
        run_pack([os.path.abspath(os.path.expanduser(os.fspath(source)))], options, quiet)
        return
    destination = os.path.abspath(os.path.expanduser(os.fspath(destination)))
    importer = importers.importer_of(source, image, label, labels)
    if importer is None:
        if image is not None or label is not None or classes is not None:
            raise InvalidArgument(f"{source}: image=, label= and classes= are for sources that are no images in files")
        several = isinstance(source, (list, tuple))
        whole = _list_file.made_of(source) if several else _sources.of(source).dataset
        text = os.path.expanduser(os.fspath(whole))
        run_pack([f"{text}#labels={labels}" if labels else text, destination], options, quiet)
        return
    with _Alone(destination, quiet):
        done = _has(destination, "index.larder")
        if not done:
            _check_about(importer, destination)
        if not done and not _has(destination, "unfinished.larder"):
            if hasattr(importer, "about") and not quiet:
                print(f"{importer.about}. Images that are no encoded bytes are encoded anew: encode={encode!r}",
                      file=sys.stderr, flush=True)
            _import(importer, destination, max(1, min(workers, len(importer.pieces))), classes or importer.classes,
                    (encode, quality), quiet)
        labels = getattr(importer, "labels", None)
        if not labels:
            run_pack([destination], options, quiet)
            return
        if not done:
            run_pack([f"{log_of(destination)}#labels={labels}", destination], options, quiet)
        shutil.rmtree(log_of(destination), ignore_errors=True)


def _has(destination, name):
    return os.path.exists(os.path.join(destination, name))


class _Alone:
    """Holds the lock of a destination's log, unless a store is there. The processes that read have it too: those of a
    run that was killed end with their next sample, and are waited for."""

    def __init__(self, destination, quiet):
        self._destination, self._folder, self._quiet = destination, log_of(destination), quiet
        self._fd = -1

    def __enter__(self):
        while not _has(self._destination, "index.larder"):
            os.makedirs(self._folder, exist_ok=True)
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not self._quiet:
                    print(f"waiting for another process that packs into {self._destination}", file=sys.stderr)
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                if os.path.samestat(os.stat(self._folder), os.fstat(self._fd)):
                    return
            except FileNotFoundError:
                pass
            self.__exit__()  # it has packed the log, and removed it

    def __exit__(self, *_):
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)  # where nothing has come into it
        os.close(self._fd)
        self._fd = -1


def _import(importer, destination, workers, classes, encoding, quiet):
    """Writes all pieces into the log, each as a writer of its own: the log is the same however many processes wrote,
    and what is whole is not done again."""
    context = multiprocessing.get_context("fork")  # the source may be anything, and need not be picklable
    job = _Job(context, importer, destination, classes, encoding, workers)
    started = [context.Process(target=job.work, args=(number,), daemon=True) for number in range(workers)]
    for process in started:
        process.start()
    try:
        _wait(job, started, quiet)
    finally:
        for process in started:
            process.terminate()
            process.join()


def _check_about(importer, destination):
    """Raises where there is nothing to pack, or where the log is of something else."""
    if not importer.pieces:
        raise InvalidArgument("the source has no sample")
    if len(importer.pieces) > _PIECES_MAX:
        raise InvalidArgument(f"{len(importer.pieces)} pieces: at most {_PIECES_MAX}")
    files = [(path, os.path.getsize(path), os.stat(path).st_mtime_ns) for path in getattr(importer, "files", [])]
    about = json.dumps({"is": type(importer).__name__, "samples": importer.count, "pieces": len(importer.pieces),
                        "columns": [getattr(importer, name, None) for name in ("image", "label", "labels")],
                        "files": files})
    folder = log_of(destination)
    path = os.path.join(folder, _ABOUT)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() != about:
                raise InvalidArgument(f"{folder}: another source was being packed, or this one has changed: remove "
                                      "that folder, or choose another destination")
    except FileNotFoundError:
        if shards(folder):
            raise InvalidArgument(f"{folder}: Writers have written there: choose another destination") from None
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(about)
        os.replace(path + ".new", path)


class _Job:
    """What the processes share. Each takes the next piece that nobody has."""

    def __init__(self, context, importer, destination, classes, encoding, workers):
        self.importer, self.pieces = importer, importer.pieces
        self._destination, self._folder = destination, log_of(destination)
        self._classes, self._encoding = classes, encoding
        self._next = context.Value("q", 0)
        self.pieces_done = context.RawArray("q", workers)  # each process writes its own number alone
        self.samples = context.RawArray("q", workers)  # of this run
        self.kept = context.RawArray("q", workers)  # of an earlier one
        self.failed = context.SimpleQueue()
        self._parent = os.getpid()

    def work(self, number):
        try:
            while True:
                with self._next.get_lock():
                    piece = self._next.value
                    self._next.value += 1
                if piece >= len(self.pieces):
                    return
                if getattr(self.importer, "whole_files", False):
                    self._copy(piece)
                else:
                    self._write(piece, number)
                self.pieces_done[number] += 1
        except BaseException as error:  # told to the process that asked
            self.failed.put((type(error).__name__ if isinstance(error, LarderError) else None,
                             str(error) if isinstance(error, LarderError) else traceback.format_exc()))

    def _check_parent(self):
        if os.getppid() != self._parent:
            os._exit(1)  # it was killed, and another may go on

    def _write(self, piece, number):
        form, quality = self._encoding
        writer = Writer(self._destination, self._classes, writer=piece, encode=form, quality=quality,
                        shard_bytes=1 << 62)  # a piece is one shard
        done, last = writer.done, None
        self.kept[number] += done
        if writer.whole:
            writer.close()
            return
        with writer:
            for at, (image, label, key) in enumerate(self.importer.read(self.pieces[piece])):
                self._check_parent()
                if at < done:
                    continue
                if key == last:
                    key = None
                else:
                    last = key
                writer.write(image, label, key)
                self.samples[number] += 1

    def _copy(self, piece):
        """A shard that is decompressed."""
        path = os.path.join(self._folder, f"{piece:06}-{0:012}.tar")
        if os.path.exists(path):
            return
        own = path + OPEN[len(ENDING):]
        try:
            with self.importer.open(self.pieces[piece]) as packed, open(own, "wb") as file:
                while data := packed.read(_COPY_BYTES):
                    self._check_parent()
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(own, path)
        except (EOFError, ValueError, OSError) as error:
            raise errors.FormatError(f"{self.pieces[piece]}: {error}") from None
        finally:
            if os.path.exists(own):
                os.unlink(own)


def _wait(job, processes, quiet):
    """Until all have ended, or one has failed."""
    began = shown = time.monotonic()
    terminal = sys.stderr.isatty()
    running = list(processes)
    while running:
        ended = multiprocessing.connection.wait([process.sentinel for process in running],
                                                _BAR_S if terminal and not quiet else _LINE_S)
        if not job.failed.empty():
            kind, text = job.failed.get()
            raise getattr(errors, kind)(text) if kind else LarderError(f"reading the source failed:\n{text}")
        for process in [process for process in running if process.sentinel in ended]:
            process.join()
            running.remove(process)
            if process.exitcode:
                raise LarderError(f"a process that read the source ended by itself (exit status {process.exitcode}): "
                                  "if it was killed for want of memory, give fewer workers. The same call goes on")
        if not quiet and (terminal or time.monotonic() - shown >= _LINE_S):
            shown = time.monotonic()
            print("\r\033[K" + _line(job, shown - began) if terminal else _line(job, shown - began),
                  end="" if terminal else "\n", file=sys.stderr, flush=True)
    if not quiet and terminal:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _line(job, seconds):
    """How far the import is: "importing: 1,200 of 50,000 samples, 3 of 40 pieces, 800/s, 1:01 left"."""
    samples, kept, pieces = sum(job.samples), sum(job.kept), sum(job.pieces_done)
    whole = job.importer.count
    text = f"importing: {samples + kept:,}" + (f" of {whole:,}" if whole else "") + " samples"
    text += f", {pieces} of {len(job.pieces)} pieces"
    if seconds < 1:
        return text
    if samples:
        text += f", {samples / seconds:,.0f}/s"
    if whole and samples:
        left = (whole - samples - kept) * seconds / samples
    elif pieces:
        left = (len(job.pieces) - pieces) * seconds / pieces
    else:
        return text
    return text + f", {int(left) // 60}:{int(left) % 60:02} left"
