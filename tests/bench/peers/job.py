"""One training script of the comparison: takes batches of one peer, and writes which samples it got to a ledger.

usage: job.py SPEC

SPEC is the JSON of a Spec. The script says "ready" once it has what it needs, waits for a line on its standard input,
takes its epochs, says "done", and waits for another line before it lets go of anything (unless the peer LEAVES). So
what is measured between "ready" and "done" is neither importing nor tearing down."""

import dataclasses
import importlib
import json
import os
import sys
import time

SIZE = 224
BATCH = 64


@dataclasses.dataclass
class Spec:
    """What a job is told. A peer's module gets it as well."""

    peer: str  # the module is peer_PEER.py
    folder: str  # images, one folder a class
    data: str  # a folder for what peers write once: stores, packed datasets
    count: int  # images in the folder
    threads: int  # processor cores that there are for all jobs together
    jobs: int = 1
    index: int = 0  # of this job among the jobs
    epochs: int = 2
    step_s: float = 0  # how long a training step takes
    ledger: str = ""  # the file to write to
    memory_mib: int = 256  # Larder's arena
    address: str = ""  # of the peer's server, where it has one
    list: str = "crop"  # what is done behind the crop and the flip: one of the peer's LISTS


def files_of(folder):
    """All files in ImageFolder's order: a sample's index is its place here, for every peer."""
    return [os.path.join(folder, label, name) for label in sorted(os.listdir(folder))
            if os.path.isdir(os.path.join(folder, label)) for name in sorted(os.listdir(os.path.join(folder, label)))]


def peer_module(name):
    return importlib.import_module("peer_" + name)


class Ledger:
    def __init__(self, path):
        self.file = open(path, "w", encoding="ascii")

    def write(self, epoch, images, indices):
        """images: 64 or fewer of SIZE x SIZE, whichever way the axes are ordered. indices: as many."""
        indices = [int(index) for index in indices]
        shape = tuple(images.shape)
        if shape[0] != len(indices) or sorted(shape[1:]) != [3, SIZE, SIZE]:
            raise AssertionError(f"a batch of shape {shape} with {len(indices)} indices")
        self.file.write(json.dumps([epoch, indices]) + "\n")

    def close(self):
        self.file.close()


def read_ledger(path):
    """Epoch -> the indices of its samples."""
    epochs = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            epoch, indices = json.loads(line)
            epochs.setdefault(epoch, []).extend(indices)
    return epochs


def take(epoch, loader, ledger, step_s):
    for images, indices in loader():
        ledger.write(epoch, images, indices)
        if step_s:
            time.sleep(step_s)


def say(word):
    print(word, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("whoever started this job is gone")


def main():
    spec = Spec(**json.loads(sys.argv[1]))
    peer = peer_module(spec.peer)
    ledger = Ledger(spec.ledger)
    loader = peer.loader(spec)
    if getattr(peer, "WARM", True):
        take(0, loader, ledger, 0)
    say("ready")
    for epoch in range(1, spec.epochs + 1):
        take(epoch, loader, ledger, spec.step_s)
    ledger.close()
    if getattr(peer, "LEAVES", False):
        print("done", flush=True)
    else:
        say("done")
    os._exit(0)  # what is judged is written; some peers' threads outlive their loaders


if __name__ == "__main__":
    main()
