#!/usr/bin/env python3
"""What writing samples costs in CPU time: by larder.Writer, by the C library, and from Parquet by larder.pack.

    writing.py [--samples 200000] [--photographs 3000] [--folder FOLDER]

Prints samples a second and core of the Writer with samples of 1 kB, with keys and without, and of the C library with
keys, to the log alone; and what a sample of 110 kB from Parquet takes, to the log and to the store. System time and
syncs count. Parquet needs pyarrow.
"""

import argparse
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile

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
    print(f"Writer, 1 kB, {'with keys' if keys else 'without keys'}: {count / took:,.0f} samples a second and core")


def small_in_c(folder, count):
    store = os.path.join(folder, "c.store")
    took = float(subprocess.run([os.path.join(BIN, "larder_writer_driver"), "--rate", store, str(count), "1000"],
                                check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(store + ".log")
    print(f"C library, 1 kB, with keys: {count / took:,.0f} samples a second and core")


def large(folder, count):
    import pyarrow
    import pyarrow.parquet
    path = os.path.join(folder, "photographs.parquet")
    rows = [os.urandom(110_000) for _ in range(100)]
    schema = pyarrow.schema([("image", pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])),
                             ("label", pyarrow.int64())])
    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        for first in range(0, count, 100):
            images = [{"bytes": data, "path": None} for data in rows]
            file.write_table(pyarrow.table([images, [*range(100)]], schema=schema))
    importer = larder.importers.Parquet(path)
    writer = larder.Writer(os.path.join(folder, "log.store"), writer=0)
    before = cpu_seconds()
    for piece in importer.pieces:
        for sample in importer.read(piece):
            writer.write(*sample)
    writer.close()
    took = cpu_seconds() - before
    print(f"Parquet, 110 kB, to the log: {took / count * 1e6:.0f} us of CPU a sample")
    shutil.rmtree(writer.log)
    before = cpu_seconds()
    larder.pack(path, os.path.join(folder, "large.store"), workers=2, quiet=True)
    took = cpu_seconds() - before
    print(f"Parquet, 110 kB, to the store, by larder.pack: {took / count * 1e6:.0f} us of CPU a sample")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=200000)
    parser.add_argument("--photographs", type=int, default=3000)
    parser.add_argument("--folder")
    given = parser.parse_args()
    os.environ.setdefault("LARDERD", os.path.join(BIN, "larderd"))
    folder = tempfile.mkdtemp(prefix="larder-writing-", dir=given.folder)
    try:
        for keys in (False, True):
            small(folder, given.samples, keys)
        small_in_c(folder, given.samples)
        if importlib.util.find_spec("pyarrow"):
            large(folder, given.photographs // 100 * 100)
        else:
            print("Parquet: not measured: pip install pyarrow")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
