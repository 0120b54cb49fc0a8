#!/usr/bin/env python3
"""How long a tree that nobody has indexed keeps its first script waiting, beside torchvision's ImageFolder.

    scan.py [--files 50000 200000] [--classes N] [--runs 5] [--folder DIR]

Makes trees of small files below DIR (the system's temporary folder) and removes them. What the kernel keeps of them is
warm. The two sides take turns in each run:

    ImageFolder   torchvision's, the call of its constructor; without torchvision its walk alone, in the same calls
    Loader        a new daemon with an empty folder for checkpoints, and the call of larder.Loader on the tree
    scan          of that, what the daemon's log says that opening the dataset took
    again         a daemon that finds the checkpoint, and the call of larder.Loader

The table has medians in ms, CPU ms of both sides (ImageFolder's process, the daemon with all its threads), and the
ratios of Loader and scan to ImageFolder.

LARDER_BIN says which build.
"""

import argparse
import gc
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import CONFIG, Daemon, larder, until  # noqa: E402

try:
    from torchvision.datasets import ImageFolder
    THEIRS = "ImageFolder"
except ImportError:
    THEIRS = "its walk"
    EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

    def ImageFolder(root):
        samples = []
        for label, name in enumerate(sorted(entry.name for entry in os.scandir(root) if entry.is_dir())):
            for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
                for file in sorted(files):
                    path = os.path.join(folder, file)
                    if path.lower().endswith(EXTENSIONS):
                        samples.append((path, label))
        return samples

OPENED = re.compile(r'msg="dataset opened".* took_ms=(\d+)')


def make_tree(root, files, classes):
    """A tree whose names are as long as ImageNet's, made in an order that is not the sorted one."""
    for label in range(classes):
        os.makedirs(os.path.join(root, f"n{label:08d}"))
    for i in range(files):
        name = f"n{i % classes:08d}"
        with open(os.path.join(root, name, f"{name}_{i * 7919 % 999983}_{i}.JPEG"), "wb") as file:
            file.write(b"\xff\xd8" + bytes(1022))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def theirs(root, files):
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    dataset = ImageFolder(root)
    took = time.perf_counter() - began, time.process_time() - cpu
    assert len(dataset) == files
    return took


def ours(root, folder, files):
    """(seconds of the call, seconds of the scan, the daemon's CPU seconds)."""
    checkpoints = os.path.join(folder, "checkpoints")
    daemon = Daemon(folder, CONFIG.replace("checkpoint: none", f"checkpoint: {checkpoints}"))
    try:
        cpu, before = cpu_s(daemon.process.pid), len(daemon.log())
        began = time.perf_counter()
        loader = larder.Loader(root, [], 256, socket=daemon.socket, output="numpy")
        took = time.perf_counter() - began
        cpu = cpu_s(daemon.process.pid) - cpu
        assert loader.dataset_size == files
        loader.close()
        assert until(lambda: OPENED.search(daemon.log(), before), 5)
        scan = OPENED.search(daemon.log(), before)
    finally:
        daemon.stop()
    return took, int(scan.group(1)) / 1000, cpu


def measure(options, files, folder):
    root = os.path.join(folder, "tree")
    make_tree(root, files, options.classes or max(10, files // 500))
    columns = {name: [] for name in ("theirs", "their cpu", "loader", "scan", "cpu", "again")}
    for run in range(options.runs + 1):
        state = tempfile.mkdtemp(prefix="daemon-", dir=folder)
        row = theirs(root, files)
        row += ours(root, state, files)
        row += ours(root, state, files)[:1]
        if run:  # the first one warms
            for column, seconds in zip(columns.values(), row):
                column.append(seconds)
        shutil.rmtree(state)
    shutil.rmtree(root)
    medians = {name: 1000 * statistics.median(column) for name, column in columns.items()}
    print(f"{files:8} {medians['theirs']:12.0f} {medians['their cpu']:7.0f} {medians['loader']:7.0f} "
          f"{medians['scan']:6.0f} {medians['cpu']:6.0f} {medians['loader'] / medians['theirs']:8.2f} "
          f"{medians['scan'] / medians['theirs']:6.2f} {medians['again']:7.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=[50000, 200000])
    parser.add_argument("--classes", type=int, help="default: a class for 500 files")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="where the trees are made")
    options = parser.parse_args()
    print(f"{'files':>8} {THEIRS:>12} {'cpu':>7} {'Loader':>7} {'scan':>6} {'cpu':>6} {'L/theirs':>8} {'scan/':>6} "
          f"{'again':>7}", flush=True)
    folder = tempfile.mkdtemp(prefix="larder-scan-", dir=options.folder)
    try:
        for files in options.files:
            measure(options, files, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
