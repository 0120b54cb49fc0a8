#!/usr/bin/env python3
"""Jobs on one set of small images and photographs in each form of it get equal samples, each exactly once an epoch.

    same_samples.py --small FOLDER --photographs FOLDER [--epochs 20] [--jobs 3]

Both folders are of class folders. They become one, and that a list, tar shards, places in these, a store and a Writer's
log. For each form as many jobs as that train beside each other on the bytes of the images. Of each epoch of each job a
ledger has what came, with the CRC-32 of its bytes and its label. Prints a line for each form, and ends with 1 where a
sample came twice, or not, or with other bytes, another label or another key than the folder has."""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from same_set import write_csv  # noqa: E402
from system import BIN, Daemon, larder  # noqa: E402

SETTINGS = "memory: {arena: 128MiB, encoded: 64MiB}\nmetrics: {enabled: false}\n"
SHARDS = 5


def tree_of(folder, sources):
    """One tree of the class folders of several: its path, and [(name, class, bytes)] in its order."""
    tree = os.path.join(folder, "tree")
    for source in sources:
        for top, _, names in os.walk(source):
            if names and top != source:
                os.makedirs(os.path.join(tree, os.path.basename(top)), exist_ok=True)
            for name in names if top != source else ():
                stem, ending = os.path.splitext(name)  # a key of shards ends at the first dot
                shutil.copyfile(os.path.join(top, name),
                                os.path.join(tree, os.path.basename(top), stem.replace(".", "_") + ending))
    found = []
    for name in sorted(os.path.relpath(os.path.join(top, name), tree) for top, _, names in os.walk(tree)
                       for name in names):
        with open(os.path.join(tree, name), "rb") as file:
            found.append((name, os.path.dirname(name), file.read()))
    return tree, found


def shards_of(folder, samples, numbers):
    """Tar shards of the samples with their labels, and a row for each sample's place in them."""
    rows, each = [], -(-len(samples) // SHARDS)
    for shard in range(SHARDS):
        path = os.path.join(folder, f"set-{shard:03}.tar")
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, label, data in samples[shard * each:(shard + 1) * each]:
                for ending, body in ((os.path.splitext(name)[1], data), (".cls", b"%d" % numbers[label])):
                    member = tarfile.TarInfo(os.path.splitext(name)[0] + ending)
                    member.size = len(body)
                    tar.addfile(member, _Once(body))
        with tarfile.open(path) as tar:
            rows += [(path, member.offset_data, member.size, None, member.name) for member in tar
                     if not member.name.endswith(".cls")]
    return os.path.join(folder, f"set-{{000..{SHARDS - 1:03}}}.tar"), \
        [(path, at, size, zlib.crc32(data), name, label)
         for (path, at, size, _, name), (_, label, data) in zip(rows, samples)]


class _Once:
    """What tarfile reads a member's bytes from."""

    def __init__(self, data):
        self._data = data

    def read(self, size):
        data, self._data = self._data[:size], self._data[size:]
        return data


def forms(folder, tree, samples):
    """{form: source}"""
    numbers = {label: number for number, label in enumerate(sorted({label for _, label, _ in samples}))}
    shards, rows = shards_of(folder, samples, numbers)
    made = {"folder": tree,
            "list": write_csv(os.path.join(tree, "list.csv"), ("file_name", "label"),
                              [(name, label) for name, label, _ in samples]),
            "tar shards": shards,
            "places": write_csv(os.path.join(folder, "places.csv"),
                                ("file_name", "offset", "bytes", "crc32", "key", "label"), rows),
            "store": os.path.join(folder, "set.store")}
    subprocess.run([os.path.join(BIN, "larder"), "pack", tree, made["store"], "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    with larder.Writer(os.path.join(folder, "written.store"), sorted(numbers), writer=0) as writer:
        for name, label, data in samples:
            writer.write(data, label, name)
    made["log"] = writer.log
    return made


def run(loader, epochs, want):
    """Goes through the epochs, and returns what differs. want: {name: (CRC-32, label)}"""
    wrong = []
    keys = [path for path, _ in loader.dataset.samples]
    for epoch in range(epochs):
        ledger = dict.fromkeys(want, 0)
        for images, labels, ids in loader:
            for image, label, index in zip(images, labels.tolist(), ids.tolist()):
                name = named(keys[index], want)
                if want.get(name) != (zlib.crc32(image), loader.classes[label] if loader.classes else label):
                    wrong.append(f"epoch {epoch}: {keys[index]} has other bytes or another label")
                ledger[name] = ledger.get(name, 0) + 1
        wrong += [f"epoch {epoch}: {name} came {count} times" for name, count in ledger.items() if count != 1]
    return wrong


def named(key, want):
    """The set's name of a sample: some containers have a folder before it, and others no ending behind it."""
    stem = "/".join(key.split("/")[-2:]).split(".")[0]
    return stem if stem in want else key


def train(daemon, source, given, want):
    """What differs, of all jobs on one form."""
    loaders = [larder.Loader(source, [], 64, output="numpy", socket=daemon.socket, epochs=given.epochs,
                                        with_ids=True) for _ in range(given.jobs)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as jobs:
        wrong = sum(jobs.map(lambda loader: run(loader, given.epochs, want), loaders), [])
    for loader in loaders:
        loader.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("small", "photographs"):
        parser.add_argument(f"--{name}", required=True, metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=3)
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="larder-same-samples-") as folder:
        tree, samples = tree_of(folder, (given.small, given.photographs))
        made, daemon = forms(folder, tree, samples), Daemon(folder, SETTINGS)
        for name, source in made.items():
            numbers = sorted({label for _, label, _ in samples})
            by_number = name == "tar shards"  # .cls has the numbers
            want = {os.path.splitext(key)[0]: (zlib.crc32(data), str(numbers.index(label)) if by_number else label)
                    for key, label, data in samples}
            wrong = train(daemon, source, given, want)
            failed = failed or bool(wrong)
            print(f"{name}: {len(samples)} samples, {given.jobs} jobs, {given.epochs} epochs:",
                  f"{len(wrong)} WRONG, {wrong[0]}" if wrong else "each exactly once an epoch, equal bytes and labels",
                  flush=True)
        print(f"loaded {daemon.status()['samples']['loaded']:,}, "
              f"delivered {len(samples) * given.jobs * given.epochs * len(made):,}")
        daemon.kill()
    return failed


if __name__ == "__main__":
    sys.exit(main())
