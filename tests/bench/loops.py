#!/usr/bin/env python3
"""Training loops in processes of their own that take epochs together, and what the daemon's threads take for them.

Started as a program, with the JSON of a specification, this is one of the loops. It says "ready", and takes as many
epochs as each line of its standard input tells it. After each line it says what it got and what that took.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

# A daemon's threads by the beginnings of their names; all others, with the main thread, are "others".
ROLES = {"engine": "engine", "larder-work": "workers", "larder-session": "session"}


@dataclasses.dataclass
class Use:
    """What threads have taken since they began: seconds of processor time, and how often they began to wait."""

    cpu_s: float = 0
    switches: int = 0


def use_of(pid):
    """Role -> Use of the process's threads."""
    uses = {role: Use() for role in (*ROLES.values(), "others")}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            name, ran, status = (_read(f"/proc/{pid}/task/{thread}/{file}") for file in ("comm", "schedstat", "status"))
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        use = uses[next((role for begin, role in ROLES.items() if name.startswith(begin)), "others")]
        use.cpu_s += int(ran.split()[0]) / 1e9  # stat's ticks are 10 ms
        use.switches += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return uses


def _read(path):
    with open(path) as file:
        return file.read()


@dataclasses.dataclass
class Taken:
    """What loops got together in one run, and what it took."""

    samples: int
    seconds: float  # from the first one's begin to the last one's end
    cpu_s: float  # of the loops' processes
    daemon: dict = None  # role -> Use in that time
    counts: dict = None  # what status --json counts of samples, in that time

    @property
    def rate(self):
        return self.samples / self.seconds

    def cpu_us(self, role):
        """For each delivered sample."""
        return 1e6 * self.daemon[role].cpu_s / self.samples

    @property
    def daemon_us(self):
        return sum(self.cpu_us(role) for role in self.daemon)

    @property
    def client_us(self):
        return 1e6 * self.cpu_s / self.samples

    def switches(self, role):
        """For 50 delivered samples."""
        return 50 * self.daemon[role].switches / self.samples

    def per_sample(self, count):
        return self.counts[count] / self.samples


class Loops:
    """One process for each specification. All have begun, and have taken the epochs that warm them, when this is
    there."""

    def __init__(self, specifications):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        environment.pop("LARDER_SOCKET", None)
        self.processes = [
            subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), json.dumps(specification)],
                             env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for specification in specifications]
        try:
            for process in self.processes:
                self._hear(process)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _hear(process):
        line = process.stdout.readline()
        if not line:
            raise SystemExit("a training loop has failed")
        return json.loads(line)

    def run(self, epochs, daemon=None):
        """All take so many epochs."""
        counts = daemon and daemon.status()["samples"]
        before = daemon and use_of(daemon.process.pid)
        for process in self.processes:
            process.stdin.write(f"{epochs}\n")
            process.stdin.flush()
        told = [self._hear(process) for process in self.processes]
        taken = Taken(sum(row["samples"] for row in told),
                      max(row["ended"] for row in told) - min(row["began"] for row in told),
                      sum(row["cpu_s"] for row in told))
        if daemon:
            after = use_of(daemon.process.pid)
            taken.daemon = {role: Use(use.cpu_s - before[role].cpu_s, use.switches - before[role].switches)
                            for role, use in after.items()}
            taken.counts = {name: value - counts[name] for name, value in daemon.status()["samples"].items()
                            if isinstance(value, int)}
        return taken

    def close(self):
        """Returns when all processes have ended."""
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()
            process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def larder_epoch(**options):
    from system import larder

    loader = larder.Loader(**options)
    return lambda: sum(len(batch[1]) for batch in loader)


def tensor_epoch(files, length, batch_size, whole):
    """torch's DataLoader over a TensorDataset, shuffled: one sample at a time, or whole batches."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    torch.set_num_threads(1)
    dataset = TensorDataset(torch.zeros(files, length, dtype=torch.uint8), torch.zeros(files, dtype=torch.int64))
    if whole:
        batches = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)
        loader = DataLoader(dataset, sampler=batches, batch_size=None)
    else:
        loader = DataLoader(dataset, batch_size, shuffle=True)
    return lambda: sum(len(batch[1]) for batch in loader)


KINDS = {"larder": larder_epoch, "tensors": tensor_epoch}


def main():
    """`warm` epochs come before "ready". Where it is 0 the loader, too, is opened only by the first line."""
    specification = json.loads(sys.argv[1])
    make, warm = KINDS[specification.pop("kind")], specification.pop("warm")
    if specification.get("output") != "numpy":
        try:
            import torch  # noqa: F401  Loader takes it where it is; what importing costs is not measured
        except ImportError:
            pass
    import system  # noqa: F401

    epoch = make(**specification) if warm else None
    for _ in range(warm):
        epoch()
    print('"ready"', flush=True)
    for line in sys.stdin:
        began, cpu = time.monotonic(), time.process_time()
        epoch = epoch or make(**specification)
        samples = sum(epoch() for _ in range(int(line)))
        cpu = time.process_time() - cpu
        print(json.dumps({"samples": samples, "cpu_s": cpu, "began": began, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main()
