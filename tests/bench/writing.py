#!/usr/bin/env python3
"""What writing samples costs in CPU time: by larder.Writer, by the C library, and from Parquet by larder.pack.

    writing.py [--samples 200000] [--photographs 3000] [--rounds 5] [--folder FOLDER]

Prints samples a second and core of the Writer with samples of 1 kB, with keys and without, and of the C library with
keys, to the log alone; and what a sample of 110 kB from Parquet takes, to the log and to the store. System time and
syncs count. The log and the store are new files: what the kernel takes for as many bytes of one new file stands beside
them, and what it takes where the file's pages are in memory already, with medians of the rounds. Parquet needs pyarrow.
"""

import argparse
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

IMAGE_BYTES = 110_000
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import BIN, larder  # noqa: E402


def cpu_seconds():
    """Of this process and of those that ended."""
    return sum(used.ru_utime + used.ru_stime
               for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def small(folder, count, keys):
    data = b"\xff\xd8" + os.urandom(998)
    writer = larder.Writer(os.path.join(folder, "small.store"), writer=0)
    before = cpu_seconds()
    for number in range(count):
        writer.write(data, number % 1000, f"n01440764/n01440764_{number}.JPEG" if keys else None)
    writer.close()
    took = cpu_seconds() - before
    shutil.rmtree(writer.log)
    return count / took


def small_in_c(folder, count):
    store = os.path.join(folder, "c.store")
    took = float(subprocess.run([os.path.join(BIN, "larder_writer_driver"), "--rate", store, str(count), "1000"],
                                check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(store + ".log")
    print(f"C library, 1 kB, with keys: {count / took:,.0f} samples a second and core")


def write_parquet(path, count):
    import pyarrow
    import pyarrow.parquet
    rows = [os.urandom(IMAGE_BYTES) for _ in range(100)]
    schema = pyarrow.schema([("image", pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])),
                             ("label", pyarrow.int64())])
    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        for first in range(0, count, 100):
            images = [{"bytes": data, "path": None} for data in rows]
            file.write_table(pyarrow.table([images, [*range(100)]], schema=schema))


def to_log(path, folder):
    importer = larder.importers.Parquet(path)
    writer = larder.Writer(os.path.join(folder, "log.store"), writer=0)
    before = cpu_seconds()
    for piece in importer.pieces:
        for sample in importer.read(piece):
            writer.write(*sample)
    writer.close()
    took = cpu_seconds() - before
    shutil.rmtree(writer.log)
    return took


def to_store(path, folder):
    store = os.path.join(folder, "large.store")
    before = cpu_seconds()
    larder.pack(path, store, workers=2, quiet=True)
    took = cpu_seconds() - before
    shutil.rmtree(store)
    return took


def by_the_kernel(folder, count):
    """(seconds to write as many bytes to a new file, to write them over)."""
    path, data, took = os.path.join(folder, "bytes"), os.urandom(64 * IMAGE_BYTES), []
    for _ in range(2):
        with open(path, "r+b" if took else "wb", buffering=0) as file:
            before = cpu_seconds()
            for _ in range(count // 64):
                file.write(data)
            took.append((cpu_seconds() - before) * count / (count // 64 * 64))
    os.unlink(path)
    return took


def warmed(folder, count, run, *args):
    """run(*args) with pages that the machine has already: a virtual one takes them from its host at their first use."""
    path = os.path.join(folder, "warm")
    with open(path, "wb", buffering=0) as file:
        for _ in range(3 * count // 64):
            file.write(bytes(64 * IMAGE_BYTES))
    os.unlink(path)
    return run(*args)


def large(folder, count, rounds):
    path = os.path.join(folder, "photographs.parquet")
    write_parquet(path, count)
    runs = [(warmed(folder, count, to_log, path, folder), warmed(folder, count, to_store, path, folder),
             *warmed(folder, count, by_the_kernel, folder, count)) for _ in range(rounds)]
    log, store, new, over = (statistics.median(each) / count * 1e6 for each in zip(*runs))
    print(f"Parquet, 110 kB, to the log: {log:.0f} us of CPU a sample, of which the new file {new:.0f}\n"
          f"Parquet, 110 kB, to the store, by larder.pack: {store:.0f}, of which the two new files {2 * new:.0f}\n"
          f"The same bytes written over, where their pages are in memory: {over:.0f} "
          f"(load {os.getloadavg()[0]:.0f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=200000)
    parser.add_argument("--photographs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    given = parser.parse_args()
    os.environ.setdefault("LARDERD", os.path.join(BIN, "larderd"))
    folder = tempfile.mkdtemp(prefix="larder-writing-", dir=given.folder)
    try:
        runs = [[small(folder, given.samples, keys) for keys in (False, True)] for _ in range(given.rounds)]
        for told, rates in zip(("without keys", "with keys"), zip(*runs)):
            print(f"Writer, 1 kB, {told}: {statistics.median(rates):,.0f} samples a second and core")
        small_in_c(folder, given.samples)
        if importlib.util.find_spec("pyarrow"):
            large(folder, given.photographs // 100 * 100, given.rounds)
        else:
            print("Parquet: not measured: pip install pyarrow")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
