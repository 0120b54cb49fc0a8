"""The training scripts of one peer: each takes batches of it, and writes which samples it got to a ledger.

The process reads lines of JSON. The first is a Spec. It answers whether the peer is there ("answer", and [version,
null] or [null, reason]), has it write what it keeps, and has its libraries imported then. One process for each peer,
because libraries of two can make one process crash: TensorFlow's and torchvision's, for one.

Each further line is a list of Specs, and a script is forked for each. It says "ready" once it has what it needs, waits
for a byte on its standard input, takes its epochs, says "done", and waits for another byte before it lets go of
anything (unless the peer LEAVES). So what is measured between "ready" and "done" is neither importing nor tearing down.
When all have ended the process says "ended". If one of them fails, or on SIGTERM, it ends all, and says "failed"."""

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import sys
import time
import traceback

SIZE = 224
BATCH = 64
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the list float32, for values of 0 to 1


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


def put(text):
    os.write(1, f"\n{text}\n".encode())  # libraries may have begun a line


def say(word):
    put(word)
    if not os.read(0, 1):
        raise SystemExit("whoever started this job is gone")


def read_line():
    """A line that is not empty, no byte behind it, which may be a script's; or nothing where the input has ended."""
    line = b""
    while byte := os.read(0, 1):
        line = line + byte if byte != b"\n" else line
        if byte == b"\n" and line:
            return line
    return b""


def work(spec, peer):
    ledger = Ledger(spec.ledger)
    loader = peer.loader(spec)
    if getattr(peer, "WARM", True):
        take(0, loader, ledger, 0)
    say("ready")
    for epoch in range(1, spec.epochs + 1):
        take(epoch, loader, ledger, spec.step_s)
    ledger.close()
    if getattr(peer, "LEAVES", False):
        put("done")
    else:
        say("done")


def forked(what, *arguments):
    """A process that does what is asked for. It ends at once then, since some peers' threads outlive their loaders."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, group[0])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        what(*arguments)
        code = 0
    except BaseException:  # nothing may go on behind this in the child
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


group = [0]  # the process group of those that were forked last


def end_group(*_):
    if group[0]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group[0], signal.SIGKILL)


def do_all(what, arguments):
    """Does it in a process for each of the arguments. True when none has failed."""
    left, fine = set(), True
    group[0] = 0
    for each in arguments:
        pid = forked(what, *each)
        with contextlib.suppress(PermissionError, ProcessLookupError):  # it has done so itself, or has ended
            os.setpgid(pid, group[0])
        group[0] = group[0] or pid
        left.add(pid)
    while left:
        pid, status = os.wait()
        left.discard(pid)
        if status:
            fine = False
            end_group()
    end_group()  # what they have started
    return fine


def main():
    spec = Spec(**json.loads(read_line()))
    peer = peer_module(spec.peer)
    signal.signal(signal.SIGTERM, end_group)
    version, reason = peer.available()
    if version and hasattr(peer, "prepare") and not do_all(peer.prepare, [(spec,)]):
        raise SystemExit("it is there, and could not write what it keeps")
    put("answer " + json.dumps([version, reason]))
    while line := read_line():
        fine = do_all(work, [(Spec(**fields), peer) for fields in json.loads(line)])
        put("ended" if fine else "failed")


if __name__ == "__main__":
    main()
