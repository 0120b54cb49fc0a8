"""What the tests of chunk stores share: the larder command's packing and verifying, and looking at a store's files."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from system import BIN, SLOW, larder  # noqa: E402

LARDER = os.path.join(BIN, "larder")


def command(*arguments, program="larder", **options):
    """Runs `larder ARGUMENTS…`, its output read as text."""
    return subprocess.run([os.path.join(BIN, program), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * SLOW, **options)


def bench(*arguments):
    """Runs `larder_bench ARGUMENTS…`."""
    return command(*arguments, program="larder_bench")


def pack(source, dest, *options):
    result = command("pack", source, dest, *options)
    if result.returncode:
        raise AssertionError("larder pack: " + result.stderr)
    return dest


def contents(folder):
    """The bytes of a folder's files, by name, but for the one that is this folder's own."""
    files = {}
    for name in set(os.listdir(folder)) - {"origins.larder"}:
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return files


def change(path, offset, flip):
    """Flips bits of one byte."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ flip]))


def everything(loader):
    """One epoch: {index: (label, image)}; an index that comes twice is an error."""
    got = {}
    for images, labels, indices in loader:
        for image, label, index in zip(images, labels.tolist(), indices.tolist()):
            if index in got:
                raise AssertionError(f"index {index} came twice")
            got[index] = (label, image)
    return got


__all__ = ["LARDER", "change", "command", "contents", "everything", "larder", "pack"]
