"""Proves that the catalog reads odd trees as torchvision's own ImageFolder does: the same classes, labels, files and
order, and a refusal where it refuses. catalog_parity.py CATALOG_DUMP [SEED [TREES]]; 77: no torchvision here."""

import os
import random
import shutil
import subprocess
import sys
import tempfile

try:
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import IMG_EXTENSIONS, has_file_allowed_extension
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

STEMS = [
    "a", "A", "b", "ab", "a-b", "a b", "a.b", "a+", "a0", "10", "9", "Z", "_", ".hidden", "\u00e9t\u00e9", "e\u0301",
    "\u00df", "\u4e2d", "\ud7ff", "\ue000", "\uffee", "\U0001f431", "line\nbreak", "tab\t", "quote'\"", "\u212a",
    "\u0130", "~", "%s", "\udc80", "x\udcffy", "\udcc3", "\udced\udca0\udc80"]
ENDINGS = [
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".JPG", ".JpEg", ".TIF", ".WebP", ".PNG",
    ".jpg.txt", ".gif", ".txt", "", ".", ".jp", ".jpgx", ".t\u0130f", "jpg", ".npy"]


def write(path, size):
    with open(path, "wb") as out:
        out.write(b"x" * size)


def fill(rng, folder, depth, others):
    """Puts files, folders and links into a folder; `others` are folders and files made so far that a link may name."""
    for _ in range(rng.choice([0, 1, 2, 3, 6])):
        path = os.path.join(folder, rng.choice(STEMS) + rng.choice(ENDINGS))
        if os.path.lexists(path):
            continue
        kind = rng.random()
        if kind < 0.55:
            write(path, rng.randrange(20))
            others.append(path)
        elif kind < 0.70 and depth < 4:
            os.mkdir(path)
            fill(rng, path, depth + 1, others)
            others.append(path)
        elif kind < 0.85 and others:
            target = rng.choice(others)
            if not (os.path.isdir(target) and
                    (os.path.realpath(path) + "/").startswith(os.path.realpath(target) + "/")):
                os.symlink(target if rng.random() < 0.5 else os.path.relpath(target, os.path.realpath(folder)), path)
        elif kind < 0.88:
            os.symlink("dangling-target", path)
        elif kind < 0.90:
            os.symlink(os.path.basename(path), path)  # a link to itself: no folder, so a file that cannot be read
        elif depth < 4:
            os.mkdir(path)


def make_tree(rng, root):
    os.mkdir(root)
    others = []
    for _ in range(rng.choice([0, 1, 2, 4, 8])):
        path = os.path.join(root, rng.choice(STEMS) + rng.choice(["", "", "", ".jpg"]))
        if os.path.lexists(path):
            continue
        kind = rng.random()
        if kind < 0.1:
            write(path, 3)
        elif kind < 0.15:
            os.symlink("dangling-target", path)
        elif kind < 0.25 and others:
            os.symlink(os.path.relpath(rng.choice(others), root), path)
        else:
            os.mkdir(path)
            if rng.random() < 0.9:  # else an empty class, most likely
                write(os.path.join(path, rng.choice(STEMS) + ".jpg"), rng.randrange(20))
            fill(rng, path, 1, others)
            others.append(path)


def has_loop(folder, above=()):
    """A link back to a folder above it: ImageFolder walks on until the kernel stops it, Larder refuses."""
    key = os.stat(folder)[1:3]
    if key in above:
        return True
    return any(has_loop(entry.path, above + (key,)) for entry in os.scandir(folder) if is_folder(entry))


def is_folder(entry):
    try:
        return entry.is_dir()
    except OSError:
        return False


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def flat(root):
    """A folder of images without folders, which only Larder takes: one class, the files in order. None: it is none."""
    names = sorted(name for name in os.listdir(root) if has_file_allowed_extension(name, IMG_EXTENSIONS))
    if not names or any(is_folder(entry) for entry in os.scandir(root)):
        return None
    return ["."], [(name, 0, size_of(os.path.join(root, name))) for name in names]


def theirs(root):
    try:
        folder = ImageFolder(root)
    except (FileNotFoundError, OSError) as error:
        if flat(root):
            return flat(root)
        return f"{type(error).__name__}: {error}"
    return folder.classes, [(os.path.relpath(path, root), label, size_of(path)) for path, label in folder.samples]


def ours(dump, roots):
    out = subprocess.run([dump, *map(os.fsencode, roots)], check=True, stdout=subprocess.PIPE).stdout
    trees = []
    for block in out.split(b"tree\n")[1:]:
        lines = block.decode(errors="replace").split("\n")
        if lines[0].startswith("refused"):
            trees.append(lines[0])
            continue
        classes, samples = [], []
        for line in filter(None, lines):
            kind, *facts, name = line.split(" ")
            name = os.fsdecode(bytes.fromhex(name))
            if kind == "class":
                classes.append(name)
            else:
                samples.append((name, int(facts[0]), int(facts[1])))
        trees.append((classes, samples))
    return trees


def main():
    dump = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 600
    top = os.path.realpath(tempfile.mkdtemp(prefix="larder-parity-"))
    agreed = refused = loops = samples = 0
    try:
        roots = [os.path.join(top, str(number)) for number in range(count)]
        for number, root in enumerate(roots):
            make_tree(random.Random(seed * 1000003 + number), root)
        for number, (root, mine) in enumerate(zip(roots, ours(dump, roots))):
            if has_loop(root):
                loops += 1
                assert isinstance(mine, str), f"tree {number}: a loop was walked"
                continue
            reference = theirs(root)
            if isinstance(reference, str) and isinstance(mine, str):
                refused += 1
            elif reference != mine:
                print(f"seed {seed}, tree {number} differs:\n  torchvision: {reference!r}\n  larder:      {mine!r}")
                return 1
            else:
                agreed += 1
                samples += len(mine[1])
    finally:
        shutil.rmtree(top)
    print(f"seed {seed}: {agreed} trees with {samples} samples agree, {refused} refused by both, {loops} with loops "
          "refused")
    return 0 if agreed > count // 4 and refused else 1


if __name__ == "__main__":
    sys.exit(main())
