#!/usr/bin/env python3
"""What a sample costs on its way from the daemon to training loops.

    hand_over.py [--files 50000] [--cifar FOLDER] [--photos FOLDER] [--rounds 5] [--epochs 6]
    hand_over.py --smoke      a test: made images, one round, few samples; the counts must be right

All tables have medians over the rounds; within a round all rows take turns. CPU is for each delivered sample.

1. Files of 1 kB, pipeline=[], batches of 256, nothing read any more. First the bytes are in encoded memory, and the
   arena holds an eighth of them. Then all are in the arena. The columns are samples/s of all clients together, CPU us
   of the daemon's threads and of the clients, and voluntary context switches for 50 delivered samples. `made` is how
   many were copied into the arena, and `read` how many were read, for each delivered sample. Beside it a TensorDataset
   of as many bytes, where torch is there: through a DataLoader one sample at a time, and in whole batches (BatchSampler
   as sampler, batch_size=None). --files 0 leaves this out.
2. Small JPEGs of FOLDER (CIFAR), one client, batches of 128: CPU us of the whole daemon, and of its threads. `bare` is
   plain libjpeg-turbo decoding whole images of the same files, by `larder bench prepare`, CPU time as well.
3. Photographs of FOLDER, random resized crop to 224 and flip, uint8, batches of 64, so many jobs in step: CPU ms of the
   daemon and the clients, from the opening of the loaders on a new daemon. `regional` is plain libjpeg-turbo decoding
   what the crops need, by `larder bench prepare`, and `reg./CPU` its part of what a sample of one job costs. With
   --restart-rows also from a store with restart rows, as peers/run.py has it.

LARDER_BIN says which build.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import tempfile

import loops
from client_copy import make_files
from system import BIN, Daemon, make_tree

CONFIG = """\
memory: {{arena: {arena}MiB, encoded: {encoded}MiB}}
catalog: {{checkpoint: none}}
metrics: {{enabled: false}}
"""
LENGTH = 1024  # bytes of one of client_copy's files
FLIP = "random_horizontal_flip"
WHOLE = [{"center_crop": {"size": 32}}, FLIP]
SMALL = {"random crop, flip": [{"random_crop": {"size": 32, "padding": 4}}, FLIP], "center crop, flip": WHOLE}
PHOTOS = [{"random_resized_crop": {"size": 224}}, FLIP]


class Rows:
    """Rows of figures by name; each figure of a row is added once a round."""

    def __init__(self, columns):
        self.columns, self.rows = columns, {}

    def add(self, name, figures):
        self.rows.setdefault(name, []).append(figures)

    def tell(self, title):
        print(f"\n{title}\n{'':34}" + "".join(f" {column.split(':')[0]:>9}" for column in self.columns))
        for name, rounds in self.rows.items():
            row = f"{name:34}"
            for column, figures in zip(self.columns, zip(*rounds)):
                known = [figure for figure in figures if figure is not None]
                text = f"{statistics.median(known):.{column.split(':')[1]}f}" if known else ""
                row += f" {text:>9}"
            print(row, flush=True)


class Stage:
    """Daemons and training loops that end with it."""

    def __init__(self, folder, more):
        """`more` is what every Loader is given besides."""
        self.folder, self.more, self.stack = folder, more, contextlib.ExitStack()

    def daemon(self, arena_mib, encoded_mib):
        folder = tempfile.mkdtemp(prefix="daemon-", dir=self.folder)
        daemon = Daemon(folder, CONFIG.format(arena=arena_mib, encoded=encoded_mib))
        self.stack.callback(daemon.stop)
        return daemon

    def loops(self, count, **specification):
        return self.stack.enter_context(loops.Loops([{**specification, **self.more}] * count))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()


def run(crowd, epochs, size, daemon=None):
    """As Loops.run. The loops together must get as many samples as their epochs have."""
    taken = crowd.run(epochs, daemon)
    expected = size * epochs * len(crowd.processes)
    if taken.samples != expected:
        raise SystemExit(f"{taken.samples} samples came, not {expected}")
    return taken


def size_of(folder):
    return sum(len(names) for _, _, names in os.walk(folder))


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def small_files(options, folder, root, in_arena):
    whole_mib = options.files * LENGTH // (1 << 20) + 1
    arena = 4 * whole_mib + 64 if in_arena else max(4, whole_mib // 8)
    figures = Rows(("samples/s:0", "engine:2", "workers:2", "others:2", "client:2", "sw engine:2", "workers:2",
                    "session:2", "made:2", "read:2"))
    with Stage(folder, options.more) as stage:
        cells = []
        for count in options.clients:
            daemon = stage.daemon(arena, 4 * whole_mib + 64)
            crowd = stage.loops(count, kind="larder", warm=2, dataset=root, pipeline=[], batch_size=256,
                                socket=daemon.socket)
            cells.append((f"Larder, {count} client(s)", crowd, daemon))
        for whole, name in ((False, "one at a time"), (True, "whole batches")):
            for count in options.clients if options.torch else ():
                crowd = stage.loops(count, kind="tensors", warm=1, files=options.files, length=LENGTH, batch_size=256,
                                    whole=whole)
                cells.append((f"TensorDataset, {name}, {count}", crowd, None))
        for _ in range(options.rounds):
            for name, crowd, daemon in cells:
                taken = run(crowd, options.epochs, options.files, daemon)
                if daemon:
                    if options.smoke and (taken.counts["loaded"] or taken.counts["prepared"] > taken.samples):
                        raise SystemExit(f"files were read again, or copied more often than taken: {taken.counts}")
                    figures.add(name, (taken.rate, *map(taken.cpu_us, ("engine", "workers")),
                                       taken.cpu_us("session") + taken.cpu_us("others"), taken.client_us,
                                       *map(taken.switches, ("engine", "workers", "session")),
                                       taken.per_sample("prepared"), taken.per_sample("loaded")))
                else:
                    figures.add(name, (taken.rate, None, None, None, taken.client_us, *[None] * 5))
    place = "all in the arena" if in_arena else f"all in encoded memory, arena {arena} MiB"
    figures.tell(f"{options.files} files of {LENGTH} bytes, batches of 256, pipeline=[], {place}; CPU us a sample, "
                 "switches for 50")


def bare_us(folder, pipeline, seconds):
    """CPU us that plain libjpeg-turbo takes to decode what the pipeline needs of one of the folder's images."""
    said = subprocess.run([os.path.join(BIN, "larder"), "bench", "prepare", folder, "--seconds", str(seconds),
                           "--pipeline", json.dumps(pipeline)], stdout=subprocess.PIPE, check=True)
    return 1e6 / json.loads(said.stdout)["regional_decode_per_s"]


def small_images(options, folder):
    size = size_of(options.cifar)
    figures = Rows(("samples/s:0", "daemon:2", "engine:2", "workers:2", "client:2", "decoded:2", "bare:2", "ratio:2"))
    with Stage(folder, options.more) as stage:
        cells = []
        for name, pipeline in SMALL.items():
            daemon = stage.daemon(128, 64)
            crowd = stage.loops(1, kind="larder", warm=2, dataset=options.cifar, pipeline=pipeline, batch_size=128,
                                socket=daemon.socket)
            cells.append((name, crowd, daemon))
        for _ in range(options.rounds):
            for name, crowd, daemon in cells:
                taken = run(crowd, options.cifar_epochs, size, daemon)
                bare = bare_us(options.cifar, WHOLE, options.seconds)
                figures.add(name, (taken.rate, taken.daemon_us, taken.cpu_us("engine"), taken.cpu_us("workers"),
                                   taken.client_us, taken.per_sample("decoded"), bare, taken.daemon_us / bare))
    figures.tell(f"{size} small JPEGs, batches of 128, one client; CPU us a sample; ratio: daemon / bare")


def photographs(options, folder):
    size = size_of(options.photos)
    figures = Rows(("samples/s:0", "CPU ms:3", "daemon:3", "clients:3", "decoded:3", "prepared:3", "regional:3",
                    "reg./CPU:2"))
    datasets = {"": options.photos}
    if options.restart_rows:
        datasets[", restart rows"] = os.path.join(folder, "rows.store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", options.photos, datasets[", restart rows"],
                        "--restart-rows"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(options.rounds):
        for count, kind in itertools.product(options.jobs, datasets):
            with Stage(folder, options.more) as stage:
                daemon = stage.daemon(options.arena, 256)
                crowd = stage.loops(count, kind="larder", warm=0, dataset=datasets[kind], pipeline=PHOTOS,
                                    batch_size=64, socket=daemon.socket, epochs=options.photo_epochs)
                taken = run(crowd, options.photo_epochs, size, daemon)
            if options.smoke and not 0 < taken.counts["decoded"] <= taken.samples:
                raise SystemExit(f"more photographs were decoded than taken, or none: {taken.counts}")
            regional = bare_us(options.photos, PHOTOS, options.seconds)
            cpu_us = taken.daemon_us + taken.client_us
            figures.add(f"{count} job(s){kind}", (taken.rate, cpu_us / 1e3, taken.daemon_us / 1e3,
                                                  taken.client_us / 1e3, taken.per_sample("decoded"),
                                                  taken.per_sample("prepared"), regional / 1e3,
                                                  regional / cpu_us if count == 1 else None))
    figures.tell(f"{size} photographs, random resized crop 224 and flip, batches of 64, {options.photo_epochs} epochs "
                 f"on a new daemon, arena {options.arena} MiB; CPU ms a sample")


def smoke(options, folder):
    """Little of everything, for a test that looks at nothing but counts."""
    options.files, options.rounds, options.epochs, options.seconds = 1000, 1, 1, 0.1
    options.cifar_epochs = options.photo_epochs = 1
    options.clients, options.jobs = (1, 2), (2,)
    options.more = {"output": "numpy"}  # without torch, which takes longer to import than all the rest
    options.cifar = make_tree(os.path.join(folder, "small"), 200, width=32, height=32)
    options.photos = make_tree(os.path.join(folder, "photos"), 64, width=320, height=240)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50000, help="of 1 kB")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4], help="of the first two tables")
    parser.add_argument("--cifar", help="class-per-folder tree of JPEGs of 32 x 32")
    parser.add_argument("--photos", help="class-per-folder tree of JPEGs")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 8], help="on the photographs")
    parser.add_argument("--restart-rows", action="store_true", help="the photographs also from a store with these")
    parser.add_argument("--arena", type=int, default=256, help="MiB, for the photographs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6, help="a round, of the small files")
    parser.add_argument("--cifar-epochs", type=int, default=30, help="a round")
    parser.add_argument("--photo-epochs", type=int, default=4, help="a round")
    parser.add_argument("--seconds", type=float, default=2, help="of each run of `larder bench prepare`")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    options.torch, options.more = not options.smoke and has_torch(), {}
    folder = tempfile.mkdtemp(prefix="larder-hand-over-")
    try:
        if options.smoke:
            smoke(options, folder)
        if not options.torch:
            print("without a TensorDataset, which needs torch", flush=True)
        if options.files:
            root = os.path.join(folder, "files")
            make_files(root, options.files)
            for in_arena in (False, True):
                small_files(options, folder, root, in_arena)
        if options.cifar:
            small_images(options, folder)
        if options.photos:
            photographs(options, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
