#!/usr/bin/env python3
"""One set of images as a folder, a list, tar shards, places in them, a zip's places and a store: which of these share.

    same_set.py [--images 60]

Jobs on all of them run in one daemon. Samples that have one id are one sample to it: they are read, decoded and
prepared once for all jobs. Prints for each two how many samples they share, and what `larder look` says of each."""

import argparse
import contextlib
import csv
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import BIN, Daemon, larder, make_tree  # noqa: E402


def write_csv(path, names, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def forms(folder, count):
    """{name: source} of one set of images."""
    tree = make_tree(os.path.join(folder, "tree"), count)
    files = sorted(os.path.relpath(os.path.join(top, name), tree) for top, _, names in os.walk(tree) for name in names)
    made = {"folder": tree, "list": write_csv(
        os.path.join(tree, "list.csv"), ("file_name", "label"), [(name, os.path.dirname(name)) for name in files])}
    for name in ("tars", "stores"):
        os.mkdir(os.path.join(folder, name))
    made["tar"] = os.path.join(folder, "tars", "tree.tar")
    with tarfile.open(made["tar"], "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in files:
            tar.add(os.path.join(tree, name), name)
    with tarfile.open(made["tar"]) as tar:
        rows = [("tars/tree.tar", member.offset_data, member.size, os.path.dirname(member.name)) for member in tar]
    made["places in the tar"] = write_csv(os.path.join(folder, "places.csv"),
                                          ("file_name", "offset", "bytes", "label"), rows)
    with zipfile.ZipFile(os.path.join(folder, "tree.zip"), "w") as out:
        for name in files:
            out.write(os.path.join(tree, name), name)
    larder.index(os.path.join(folder, "tree.zip"), os.path.join(folder, "zip.csv"))
    made["places in a zip"] = os.path.join(folder, "zip.csv")
    time.sleep(3.1)  # a younger file shares with no store
    for name, source in (("store of the folder", tree), ("store of the tar", made["tar"])):
        made[name] = os.path.join(folder, "stores", name.replace(" ", "-"))
        subprocess.run([os.path.join(BIN, "larder"), "pack", source, made[name], "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
    return made


def ids(loader):
    """The daemon's numbers of the samples. They are one where the sample is, for as long as a job has it."""
    found = set()
    for _ in loader:
        found.update(map(int, loader.last_ids))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="larder-same-set-") as folder:
        made = forms(folder, given.images)
        daemon = Daemon(folder, "memory: {arena: 64MiB, encoded: 32MiB}\nmetrics: {enabled: false}\n")
        with contextlib.ExitStack() as stack:
            loaders = {name: stack.enter_context(larder.Loader(source, [{"resize": {"size": [32, 32]}}], 16, epochs=1,
                                                               output="numpy", socket=daemon.socket))
                       for name, source in made.items()}
            found = {name: ids(loader) for name, loader in loaders.items()}
        daemon.kill()
        for one, of_one in found.items():
            print(f"{one}: " + ", ".join(f"{len(of_one & of_two)} with {two}"
                                         for two, of_two in found.items() if two != one))
        for name, source in made.items():
            said = subprocess.run([os.path.join(BIN, "larder"), "look", source], capture_output=True, text=True)
            print(f"\n== {name}\n{said.stdout}{said.stderr}", end="")


if __name__ == "__main__":
    main()
