#!/usr/bin/env python3
"""What the clients do with a batch that is there: how fast they copy it, and the CPU time they take for a sample.

    client_copy.py [--batches 160] [--files 20000] [--epochs 4]

The first table is of batches of 64 samples of 150,528 bytes. The client's copy is timed beside one memcpy of as many
bytes in one piece, from the same mapping of the arena into the same buffer, a batch each in turn, so that both find the
caches as the batch before has left them. Medians in GB/s, and their ratio.

The second table is of files of 1 kB, pipeline=[], batches of 256, all of them in the daemon's memory: CPU us a sample
of the client's process, with the connection and the wait; and samples/s. The ways take turns epoch by epoch; medians.

The C library is called through ctypes, once a batch for each function.
LARDER_BIN says which build.
"""

import argparse
import ctypes
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import BIN, CONFIG, Daemon, larder, make_tree  # noqa: E402

import larder._epoch as epoch_module  # noqa: E402
import numpy as np  # noqa: E402

MIB = 1 << 20
PIXELS = [{"resize": {"size": [224, 224]}}]
PIXELS_JSON = b'[{"resize": {"size": [224, 224]}}]'


class COptions(ctypes.Structure):
    """struct larder_options, as far as it is set here."""

    _fields_ = [("size_bytes", ctypes.c_size_t), ("socket", ctypes.c_char_p), ("dataset", ctypes.c_char_p),
                ("pipeline", ctypes.c_char_p), ("subset", ctypes.c_char_p), ("job", ctypes.c_char_p),
                ("seed", ctypes.c_uint64), ("open_timeout_ms", ctypes.c_int64), ("batch_size", ctypes.c_uint32),
                ("prefetch", ctypes.c_uint32), ("epochs", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 256)]


class CSample(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("len_bytes", ctypes.c_size_t), ("id", ctypes.c_uint32),
                ("index", ctypes.c_uint32), ("label", ctypes.c_int32)]


class CLoader:
    """The C library's loader."""

    def __init__(self, library, socket, dataset, pipeline, batch_size):
        self.library, self.loader, self.epoch = library, ctypes.c_void_p(), 0
        options = COptions()
        library.larder_options_init_sized(ctypes.byref(options), 192)
        options.socket, options.dataset, options.pipeline = socket.encode(), dataset.encode(), pipeline
        options.batch_size, options.prefetch = batch_size, 2
        self._check(library.larder_open(ctypes.byref(options), ctypes.byref(self.loader)), None)

    def _check(self, code, loader):
        if code:
            raise SystemExit(self.library.larder_last_error(loader).decode())

    def batches(self):
        """Each batch of the next epoch, as (handle, bytes, samples); the caller copies it before the next."""
        library, batch = self.library, ctypes.c_void_p()
        self._check(library.larder_start_epoch(self.loader, self.epoch), self.loader)
        self.epoch += 1
        while library.larder_next(self.loader, ctypes.c_int64(60000), ctypes.byref(batch)) == 0:
            yield batch, library.larder_batch_bytes(batch), library.larder_batch_count(batch)
            self._check(library.larder_batch_release(ctypes.byref(batch)), self.loader)

    def copy(self, batch, out):
        address = ctypes.c_void_p(out.ctypes.data)
        self._check(self.library.larder_batch_copy(batch, address, ctypes.c_size_t(out.nbytes)), self.loader)

    def places(self, batch, count):
        """The addresses of its samples."""
        sample, found = CSample(), []
        for position in range(count):
            self._check(self.library.larder_batch_sample(batch, position, ctypes.byref(sample)), self.loader)
            found.append(sample.data)
        return found

    def close(self):
        self.library.larder_close(ctypes.byref(self.loader))


def c_library():
    library = ctypes.CDLL(os.path.join(BIN, "..", "lib", "liblarder.so"))
    library.larder_batch_bytes.restype = ctypes.c_size_t
    library.larder_last_error.restype = ctypes.c_char_p
    return library


class Turns:
    """Two ways to fill a buffer, in turn; the first batches only warm."""

    WARM = 16

    def __init__(self):
        self.count, self.seconds, self.bytes = 0, ([], []), 0

    def __call__(self, copy, memcpy, n_bytes):
        side = self.count % 2
        began = time.perf_counter()
        (copy, memcpy)[side]()
        took = time.perf_counter() - began
        self.count += 1
        self.bytes = n_bytes
        if self.count > self.WARM:
            self.seconds[side].append(took)
        if side:
            copy()

    def tell(self, name):
        ours, theirs = (self.bytes / statistics.median(side) / 1e9 for side in self.seconds)
        print(f"{name:10} {ours:10.2f} {theirs:10.2f} {ours / theirs:8.2f}", flush=True)


def stretch(places, length):
    """Where so many bytes begin in one piece, of which the batch's samples are a part: another one each time, so that
    no cache has it from the time before."""
    fitting = [place for place in places if place + len(places) * length <= max(places) + length]
    return random.choice(fitting or [min(places)])


def python_pixels(daemon, tree, batches):
    turns, copy_slots = Turns(), epoch_module.copy_slots

    def timed(arena, offsets, length, target):
        address, out = (np.frombuffer(memory, np.uint8).ctypes.data for memory in (arena, target))
        source, n_bytes = address + stretch(offsets.tolist(), length), offsets.size * length
        turns(lambda: copy_slots(arena, offsets, length, target), lambda: ctypes.memmove(out, source, n_bytes), n_bytes)

    epoch_module.copy_slots = timed
    loader = larder.Loader(tree, PIXELS, 64, drop_last=True, socket=daemon.socket, output="numpy")
    while turns.count < batches:
        for _ in loader:
            pass
    loader.close()
    epoch_module.copy_slots = copy_slots
    turns.tell("Python")


def c_pixels(library, daemon, tree, batches):
    turns, out = Turns(), np.empty(64 * 150528, np.uint8)
    loader = CLoader(library, daemon.socket, tree, PIXELS_JSON, 64)
    while turns.count < batches:
        for batch, n_bytes, count in loader.batches():
            source = stretch(loader.places(batch, count), n_bytes // count)
            turns(lambda batch=batch: loader.copy(batch, out),
                  lambda source=source, n=n_bytes: ctypes.memmove(out.ctypes.data, source, n), n_bytes)
    loader.close()
    turns.tell("C")


def pixels(options, folder, library):
    print(f"{'':10} {'copy GB/s':>10} {'memcpy':>10} {'ratio':>8}", flush=True)
    tree = make_tree(os.path.join(folder, "images"), 512)
    daemon = Daemon(folder, CONFIG.replace("arena: 128MiB", "arena: 256MiB"))
    try:
        c_pixels(library, daemon, tree, options.batches)
        python_pixels(daemon, tree, options.batches)
    finally:
        daemon.stop()


def make_files(root, files, classes=50):
    for label in range(classes):
        os.makedirs(os.path.join(root, f"c{label:03d}"))
    for i in range(files):
        with open(os.path.join(root, f"c{i % classes:03d}", f"{i:06d}.jpg"), "wb") as file:
            file.write(i.to_bytes(4, "little") * 256)


def c_epoch(loader):
    out = np.empty(256 * 1024, np.uint8)
    samples = 0
    for batch, _, count in loader.batches():
        loader.copy(batch, out)
        samples += count
    return samples


def python_epoch(loader):
    samples = 0
    for _, labels in loader:
        samples += len(labels)
    return samples


def raw(options, folder, library):
    root = os.path.join(folder, "files")
    make_files(root, options.files)
    daemon = Daemon(folder, CONFIG)
    ways = {"C": (c_epoch, CLoader(library, daemon.socket, root, None, 256))}
    for name, more in (("Python", {}), ("zero_copy", {"zero_copy": True})):
        ways[name] = python_epoch, larder.Loader(root, [], 256, socket=daemon.socket, output="numpy", **more)
    cpu_us, rates = {name: [] for name in ways}, {name: [] for name in ways}
    try:
        for turn in range(options.epochs + 1):
            for name, (run, loader) in ways.items():
                began, cpu = time.perf_counter(), time.process_time()
                samples = run(loader)
                cpu, took = time.process_time() - cpu, time.perf_counter() - began
                assert samples == options.files
                if turn:  # the first one fills the daemon's memory
                    cpu_us[name].append(1e6 * cpu / samples)
                    rates[name].append(samples / took)
        for _, loader in ways.values():
            loader.close()
    finally:
        daemon.stop()
    print(f"\n{'':10} {'CPU us':>10} {'samples/s':>10}")
    for name in ways:
        print(f"{name:10} {statistics.median(cpu_us[name]):10.2f} {statistics.median(rates[name]):10.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=160)
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    folder, library = tempfile.mkdtemp(prefix="larder-copy-"), c_library()
    try:
        pixels(options, folder, library)
        raw(options, folder, library)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
