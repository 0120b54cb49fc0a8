"""Proves that the catalog finds in tar shards the samples that webdataset finds: the same keys, images and order, in
archives of each form with odd names, links, folders and ends. webdataset reads with Python's tarfile, which is what
this compares with; where webdataset is installed, it is asked too. tar_parity.py CATALOG_DUMP [SEED [SHARDS]]"""

import io
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings

try:
    import webdataset
except ImportError:
    webdataset = None
    print("webdataset is not installed: compared with tarfile and its rules alone")

IMAGES = ["jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp", "ppm", "pgm"]  # the first that a sample has is its image
STEMS = ["a", "b", "A", "0001", "n01440764_10026", "a b", "été", "中", "x" * 90, "y" * 99, "z" * 160, "w" * 300, "-",
         ".", ".hidden", "__meta__", "__index", "__", "___", "a__", "..", "a..b", "\u0130"]
FOLDERS = ["", "", "", "./", "x/", "x.1/", "x/y/", "x.1/y/", "__meta__/", "/abs/", "../", "x//", "f" * 120 + "/"]
PARTS = ["jpg", "jpg", "jpg", "png", "JPG", "Jpeg", "cls", "cls", "json", "txt", "seg.png", "jpg.txt", "", "webp",
         "tiff"]
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
TYPES = [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]


def name_of(rng):
    part = rng.choice(PARTS)
    return rng.choice(FOLDERS) + rng.choice(STEMS) + ("." + part if part or rng.random() < 0.5 else "")


def make_archive(rng, form):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=form) as tar:
        last = None
        for _ in range(rng.choice([0, 1, 3, 8, 30])):
            name = name_of(rng)
            if last and rng.random() < 0.6:  # another part of the sample before it
                name = last.split(".")[0] + "." + rng.choice(PARTS)
            member = tarfile.TarInfo(name)
            member.mtime = rng.choice([0, 1.5, 2**33 + 0.25]) if form == tarfile.PAX_FORMAT else 7
            try:
                if rng.random() < 0.1:
                    member.type = rng.choice(TYPES)
                    member.linkname = name_of(rng)
                    tar.addfile(member)
                else:
                    member.size = rng.choice([0, 1, 3, 511, 512, 513, 2000])
                    tar.addfile(member, io.BytesIO(bytes(rng.choices(range(256), k=member.size))))
            except ValueError:  # the form has no room for such a name
                continue
            last = name
        end = tar.offset
    return data.getvalue(), end


def make_shard(rng, path):
    data, end = make_archive(rng, rng.choice(FORMATS))
    ending = rng.random()
    if ending < 0.2 and end:
        data = data[:end]  # no zeros at the end
    elif ending < 0.3:
        data += make_archive(rng, tarfile.GNU_FORMAT)[0]  # which nobody reads
    with open(path, "wb") as out:
        out.write(data)


def members_of(path):
    with tarfile.open(path, "r|*") as tar:
        for member in tar:
            if member.isreg() and not re.match(r"__[^/]*__($|/)", member.name):
                match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", member.name)
                if match:
                    yield member, match.group(1), re.sub("[A-Z]", lambda letter: letter.group().lower(),
                                                         match.group(2))


def samples_of(path):
    """(key, its parts) by webdataset's rules; what repeats a part begins a sample, where webdataset raises."""
    samples, repeats = [], False
    for member, key, part in members_of(path):
        again = bool(samples) and samples[-1][0] == key and part in samples[-1][1]
        repeats |= again
        if not samples or samples[-1][0] != key or again:
            samples.append((key, {}))
        samples[-1][1][part] = member
    return samples, repeats


def expected(path, samples):
    shard = os.path.basename(path)
    for _, parts in samples:
        image = next((parts[part] for part in IMAGES if part in parts), None)
        if image:
            yield image.size, f"{shard}/{image.name}"


def ask_webdataset(path, samples):
    """That the rules above are webdataset's."""
    given = [(sample["__key__"], {part: len(data) for part, data in sample.items() if not part.startswith("__")})
             for sample in webdataset.WebDataset(path, shardshuffle=False, empty_check=False)]
    ours = [(key, {part: member.size for part, member in parts.items() if not part.startswith("__")})
            for key, parts in samples]
    # It names parts in Unicode's lower case, and has sizes of what it gives.
    assert [key for key, _ in given] == [key for key, _ in ours], (path, given, ours)
    assert [sorted(parts.values()) for _, parts in given] == [sorted(parts.values()) for _, parts in ours], path


def check(dump, seed, number, folder):
    rng = random.Random(f"{seed}-{number}")
    path = os.path.join(folder, f"{number}.tar")
    make_shard(rng, path)
    samples, repeats = samples_of(path)
    if webdataset and not repeats:
        ask_webdataset(path, samples)
    want = list(expected(path, samples))
    result = subprocess.run([dump, path + "#labels=none"], stdout=subprocess.PIPE, check=True, timeout=60)
    lines = result.stdout.decode().splitlines()
    got = [(int(line.split(" ")[2]), bytes.fromhex(line.split(" ")[3]).decode(errors="surrogateescape"))
           for line in lines if line.startswith("sample ")]
    refused = [line for line in lines if line.startswith("refused ")]
    if got != want or bool(refused) != (not want):
        os.rename(path, f"/tmp/larder-tar-parity-{seed}-{number}.tar")
        sys.exit(f"seed {seed}, shard {number}, kept in /tmp: Larder has\n{got}\n{refused}\nand webdataset\n{want}")


def main():
    dump, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    print(f"seed {seed}, {count} shards")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            check(dump, seed, number, folder)


main()
