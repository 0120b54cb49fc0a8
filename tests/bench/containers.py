#!/usr/bin/env python3
"""What a sample of tar shards costs in CPU time, beside a packed store and beside webdataset; and what one of a folder
costs beside an earlier version.

    containers.py [--rounds 5] [--large 3000] [--small 60000] [--images 800] [--webdataset PYTHON] [--old TREE]

Each run is the second epoch of one job of a new daemon, or one pass of webdataset, with the files in the page cache. It
counts the CPU time of the daemon and the script, so without indexing and without the first touch of the daemon's
memory, which is smaller than the files. The runs of a comparison take turns. Prints the median of each, and of the
rounds' ratios:

    store / tar, images prepared to 224 x 224              what has the daemon decode
    tar / webdataset, encoded bytes of 110 kB and 1 kB     needs a PYTHON with webdataset
    earlier / now, images of a folder prepared             needs a TREE of its sources, built in TREE/build
"""

import argparse
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CROP = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
SETTINGS = "memory: {arena: 64MiB, encoded: 32MiB}\nmetrics: {enabled: false}\ncatalog: {checkpoint: none}\n"
WEBDATASET = """
import sys, time, webdataset
began, count = time.process_time(), 0
for sample in webdataset.WebDataset(sys.argv[1], shardshuffle=False):
    count += len(sample["jpg"]) > 0
print((time.process_time() - began) / count * 1e6)
"""


def cpu_s(pid):
    """CPU time of a process: Linux numbers the clock of each."""
    return time.clock_gettime((~pid << 3) | 2)


def one(tree, dataset, pipeline, in_place=""):
    """In a process of its own: prints the CPU microseconds a sample with the package and daemon of that tree."""
    sys.path.insert(0, os.path.join(tree, "tests", "system", "python"))
    from system import Daemon, larder
    with tempfile.TemporaryDirectory() as own:
        daemon = Daemon(own, SETTINGS)
        with larder.Loader(dataset, json.loads(pipeline), 64, output="numpy", socket=daemon.socket, epochs=2,
                           zero_copy=bool(in_place)) as loader:
            before = count = 0
            for epoch in range(2):
                before = cpu_s(daemon.process.pid) + time.process_time()
                count = sum(len(batch[0]) for batch in loader)
            print((cpu_s(daemon.process.pid) + time.process_time() - before) / count * 1e6)
        daemon.kill()


def run_one(tree, dataset, pipeline, in_place=False):
    environment = dict(os.environ, LARDER_BIN=os.path.join(tree, "build", "bin"))
    words = ["--one", tree, dataset, json.dumps(pipeline), *(["in place"] if in_place else [])]
    return float(subprocess.run([sys.executable, "-B", __file__, *words], env=environment, check=True,
                                stdout=subprocess.PIPE, text=True).stdout)


def run_webdataset(python, path):
    return float(subprocess.run([python, "-c", WEBDATASET, path], check=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True).stdout)


def write_tar(path, samples):
    """samples: (key, bytes, label)."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, data, label in samples:
            for name, body in ((f"{key}.jpg", data), (f"{key}.cls", b"%d" % label)):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))


def compare(what, rounds, over, under):
    """Runs both by turns; prints medians, and that of over / under."""
    pairs = []
    for turn in range(rounds):
        first = over() if turn % 2 else None
        below = under()
        pairs.append((first if turn % 2 else over(), below))
    ratio = statistics.median(above / below for above, below in pairs)
    medians = [statistics.median(side) for side in zip(*pairs)]
    print(f"{what}: {medians[0]:.1f} / {medians[1]:.1f} us of CPU a sample, {ratio:.3f} "
          f"(load {os.getloadavg()[0]:.0f})", flush=True)


def prepared(folder, given):
    tree, tar, store = (os.path.join(folder, name) for name in ("tree", "tree.tar", "tree.store"))
    bins = os.path.join(SOURCE, "build", "bin")
    subprocess.run([os.path.join(bins, "larder_make_images"), tree, str(given.images), "10", "500", "375", "1"],
                   check=True, stdout=subprocess.DEVNULL)
    samples = []
    for label, name in enumerate(sorted(os.listdir(tree))):
        for file in sorted(os.listdir(os.path.join(tree, name))):
            with open(os.path.join(tree, name, file), "rb") as image:
                samples.append((f"{name}/{file.split('.')[0]}", image.read(), label))
    write_tar(tar, samples)
    subprocess.run([os.path.join(bins, "larder"), "pack", tree, store, "--quiet"], check=True)
    compare("images, store / tar", given.rounds, lambda: run_one(SOURCE, store, CROP),
            lambda: run_one(SOURCE, tar, CROP))
    if given.old:
        compare("images of a folder, earlier / now", given.rounds, lambda: run_one(given.old, tree, CROP),
                lambda: run_one(SOURCE, tree, CROP))


def encoded(folder, given):
    for bytes_each, count in ((110_000, given.large), (1000, given.small)):
        tar = os.path.join(folder, f"{bytes_each}.tar")
        write_tar(tar, ((f"{number:08}", b"\xff\xd8" + os.urandom(bytes_each - 2), number % 10)
                        for number in range(count)))
        for how in ("copied", "zero_copy"):
            compare(f"encoded, {bytes_each:,} bytes, {how}, tar / webdataset", given.rounds,
                    lambda: run_one(SOURCE, tar, [], how == "zero_copy"), lambda: run_webdataset(given.webdataset, tar))


def main():
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, count in (("rounds", 5), ("large", 3000), ("small", 60000), ("images", 800)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--webdataset", metavar="PYTHON")
    parser.add_argument("--old", metavar="TREE")
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="larder-containers-")
    try:
        if given.webdataset:
            encoded(folder, given)
        prepared(folder, given)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
