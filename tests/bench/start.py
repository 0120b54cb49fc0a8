#!/usr/bin/env python3
"""How long a first script waits where no daemon runs, the shared memory that jobs take, and how it goes back.

    start.py [--photos FOLDER] [--starts 7] [--rounds 3] [--arena-mib 20480]

The dataset is the photographs of FOLDER and a copy of each under another name (500 photographs: 1,000 files). Without
FOLDER images are made. Random resized crop to 224 and flip, batches of 64, prefetch 2.

1. Seconds from the call of larder.Loader to the first batch, each time in a new script with a runtime folder, a cache
   and a configuration of its own; the script starts the daemon. Importing is not in it.
2. One job, which takes --epochs epochs of a daemon with a large budget: MiB of the arena that the status says to be
   reserved and used, and that the kernel has for the memfd, after each epoch. Then the job leaves: seconds from its
   end until the kernel has less than 32 MiB, memory.linger (2 s) included. The same where memory lingers for an hour,
   and tasks on the machine begin to wait for memory: while the job is connected, and when it has left.
3. Eight jobs with a budget of --full-mib: samples/s of all, CPU ms of the daemon and the clients for each delivered
   sample, and MiB of the memfd. The first row is of a new daemon, from the opening of the loaders on, while the arena
   grows. The second row is of the same jobs' next epochs.
4. The same jobs by turns on two daemons that have served as many jobs of another dataset before. One has kept the
   memory of these. The other has given it back, so that its arena grows anew. samples/s from the opening of the
   loaders on, and of the next epochs.

LARDER_BIN says which build.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import loops
from hand_over import PHOTOS, run, size_of
from system import BIN, Daemon, larder, make_tree, until

MIB = 1 << 20
LINGER_S = 2
LEFT_MIB = 32
CONFIG = """\
memory: {{arena: {arena}MiB, encoded: 256MiB, linger: {linger}}}
metrics: {{enabled: false}}
{more}
"""
NO_CHECKPOINT = "catalog: {checkpoint: none}"


def twice(source, out):
    """A tree with all files of the source, each under two names. They are copies: a link would be the same sample."""
    for path, _, names in os.walk(source):
        folder = os.path.join(out, os.path.relpath(path, source))
        os.makedirs(folder, exist_ok=True)
        for name in names:
            for begin in ("a-", "b-"):
                shutil.copyfile(os.path.join(path, name), os.path.join(folder, begin + name))
    return out


def first_script(dataset):
    """Takes one batch, and prints how long that took since before the call of Loader."""
    try:
        import torch  # noqa: F401  Loader takes it where it is; what importing costs is not measured
    except ImportError:
        pass
    began = time.perf_counter()
    loader = larder.Loader(dataset, PHOTOS, 64)
    next(iter(loader))
    print(time.perf_counter() - began, flush=True)


def command_of(pid):
    """Empty where the process has ended, although init may not have waited for it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def start_once(dataset, arena_mib, folder):
    """Seconds to the first batch of a script that has to start its daemon; the daemon ends with it."""
    runtime = tempfile.mkdtemp(prefix="start-", dir=folder)
    config = os.path.join(runtime, "larder.yaml")
    with open(config, "w") as file:
        file.write(CONFIG.format(arena=arena_mib, linger=60, more=""))
    environment = dict(os.environ, XDG_RUNTIME_DIR=runtime, XDG_CACHE_HOME=runtime, LARDER_CONFIG=config,
                       LARDERD=os.path.join(BIN, "larderd"))
    environment.pop("LARDER_SOCKET", None)
    socket = os.path.join(runtime, "larder", "larder.sock")
    try:
        said = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), "--first", dataset], env=environment,
                              stdout=subprocess.PIPE, check=True)
    finally:
        status = subprocess.run([os.path.join(BIN, "larder"), "status", "--json", "--socket", socket],
                                stdout=subprocess.PIPE)
        if status.returncode == 0:
            pid = json.loads(status.stdout)["daemon"]["pid"]
            os.kill(pid, signal.SIGTERM)
            if not until(lambda: not command_of(pid), 20):
                raise SystemExit(f"the daemon {pid} does not stop")
    return float(said.stdout)


def starts(options, dataset, folder):
    took = sorted(start_once(dataset, options.arena_mib, folder) for _ in range(options.starts))
    print(f"\nfirst batch after the call of Loader, no daemon there, {size_of(dataset)} files, arena "
          f"{options.arena_mib} MiB:\n{', '.join(f'{seconds:.3f}' for seconds in took)} s; median "
          f"{statistics.median(took):.3f}", flush=True)


def new_daemon(folder, arena_mib, linger=LINGER_S, more=""):
    return Daemon(tempfile.mkdtemp(prefix="daemon-", dir=folder),
                  CONFIG.format(arena=arena_mib, linger=linger, more=NO_CHECKPOINT + more))


def specification(dataset, daemon):
    return {"kind": "larder", "warm": 0, "dataset": dataset, "pipeline": PHOTOS, "batch_size": 64, "prefetch": 2,
            "socket": daemon.socket}


def one_job(options, dataset, folder):
    print(f"\none job, {size_of(dataset)} files, arena {options.arena_mib} MiB, memory.linger {LINGER_S} s\n"
          f"{'':10} {'epoch':>6} {'reserved':>9} {'used':>9} {'memfd MiB':>10}", flush=True)
    went = []
    for number in range(options.rounds):
        daemon = new_daemon(folder, options.arena_mib)
        try:
            with loops.Loops([specification(dataset, daemon)]) as job:
                for epoch in range(options.epochs):
                    run(job, 1, size_of(dataset))
                    arena, shared = daemon.status()["memory"]["arena"], daemon.shared_bytes()
                    print(f"round {number + 1:<4} {epoch + 1:6} {arena['reserved_bytes'] / MIB:9.0f} "
                          f"{arena['used_bytes'] / MIB:9.0f} {shared / MIB:10.0f}", flush=True)
            left = time.perf_counter()
            if not shared:
                raise SystemExit("the daemon has no arena that could go")
            if not until(lambda daemon=daemon: daemon.shared_bytes() < LEFT_MIB * MIB, 30):
                raise SystemExit(f"{daemon.shared_bytes() / MIB:.0f} MiB stay when the job has left")
            went.append(time.perf_counter() - left)
        finally:
            daemon.stop()
    print(f"less than {LEFT_MIB} MiB after the job has left: {', '.join(f'{seconds:.2f}' for seconds in went)} s; "
          f"median {statistics.median(went):.2f}", flush=True)


class Machine:
    """What the daemon reads of /proc about memory: plenty is free. At each waits() some task has waited for more."""

    def __init__(self, folder):
        self.root = tempfile.mkdtemp(prefix="machine-", dir=folder)
        os.makedirs(os.path.join(self.root, "proc", "pressure"))
        shutil.copyfile("/proc/meminfo", os.path.join(self.root, "proc", "meminfo"))
        self._stalled_us = 0
        self.waits()

    def waits(self):
        path = os.path.join(self.root, "proc", "pressure", "memory")
        with open(path + ".new", "w") as file:
            file.write(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={self._stalled_us}\n")
        os.rename(path + ".new", path)
        self._stalled_us += 10 ** 6


def seconds_to_shrink(machine, daemon):
    def small():
        machine.waits()
        return daemon.shared_bytes() < LEFT_MIB * MIB

    before, began = daemon.shared_bytes(), time.perf_counter()
    if before < LEFT_MIB * MIB or not until(small, 30):
        raise SystemExit(f"{before / MIB:.0f} MiB were there, and {daemon.shared_bytes() / MIB:.0f} are")
    return f"{before / MIB:.0f} MiB, {time.perf_counter() - began:.2f} s"


def short_of_memory(options, dataset, folder):
    for connected in (True, False):
        went = []
        for _ in range(options.rounds):
            machine = Machine(folder)
            daemon = new_daemon(folder, options.arena_mib, 3600, f"\ndebug: {{memory_root: {machine.root}}}")
            try:
                with loops.Loops([specification(dataset, daemon)]) as job:
                    run(job, options.epochs, size_of(dataset))
                    if connected:
                        went.append(seconds_to_shrink(machine, daemon))
                if not connected:
                    went.append(seconds_to_shrink(machine, daemon))
            finally:
                daemon.stop()
        print(f"less than {LEFT_MIB} MiB under pressure, the job {'is connected' if connected else 'has left'}: "
              f"{'; '.join(went)}", flush=True)


def eight_jobs(options, dataset, folder):
    rows = {"new daemon": [], "next epochs": []}
    for _ in range(options.rounds):
        daemon = new_daemon(folder, options.full_mib)
        try:
            with loops.Loops([specification(dataset, daemon)] * options.jobs) as jobs:
                for row in rows.values():
                    taken = run(jobs, options.epochs, size_of(dataset), daemon)
                    row.append((taken.rate, (taken.daemon_us + taken.client_us) / 1e3, taken.per_sample("prepared"),
                                daemon.shared_bytes() / MIB))
        finally:
            daemon.stop()
    print(f"\n{options.jobs} jobs, {size_of(dataset)} files, arena {options.full_mib} MiB, {options.epochs} epochs\n"
          f"{'':12} {'samples/s':>10} {'CPU ms':>8} {'prepared':>9} {'memfd MiB':>10}")
    for name, row in rows.items():
        rate, cpu_ms, prepared, shared = map(statistics.median, zip(*row))
        print(f"{name:12} {rate:10.0f} {cpu_ms:8.3f} {prepared:9.3f} {shared:10.0f}", flush=True)


def grown(options, dataset, other, folder):
    kinds, rows = ["kept", "grows"], {}
    for _ in range(options.rounds):
        for kind in kinds:
            daemon = new_daemon(folder, options.full_mib, 3600 if kind == "kept" else LINGER_S)
            try:
                with loops.Loops([specification(other, daemon)] * options.jobs) as jobs:
                    run(jobs, options.epochs, size_of(other))
                if kind == "grows" and not until(lambda daemon=daemon: daemon.shared_bytes() == 0, 30):
                    raise SystemExit("the arena's memory does not go back")
                before = daemon.shared_bytes() / MIB
                with loops.Loops([specification(dataset, daemon)] * options.jobs) as jobs:
                    rates = [run(jobs, options.epochs, size_of(dataset)).rate for _ in range(2)]
                    after = daemon.shared_bytes() / MIB
                rows.setdefault(kind, []).append(rates)
                print(f"{kind:6} {before:5.0f} MiB before, {after:5.0f} after: "
                      f"{rates[0]:8.0f} samples/s, then {rates[1]:8.0f}", flush=True)
            finally:
                daemon.stop()
        kinds.reverse()
    ratios = [[grows / kept for grows, kept in zip(*pair)] for pair in zip(rows["grows"], rows["kept"])]
    for name, each in zip((f"the first {options.epochs} epochs", "the next ones"), zip(*ratios)):
        print(f"grows / kept, {name}: {', '.join(f'{ratio:.3f}' for ratio in each)}; median "
              f"{statistics.median(each):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", help="class-per-folder tree of images; default: 500 made ones")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3, help="of all else")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--arena-mib", type=int, default=20480)
    parser.add_argument("--full-mib", type=int, default=2048)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        return first_script(options.first)
    folder = tempfile.mkdtemp(prefix="larder-start-")
    try:
        photos = options.photos or make_tree(os.path.join(folder, "made"), 500, width=400, height=300)
        dataset = twice(photos, os.path.join(folder, "photos"))
        if options.starts:
            starts(options, dataset, folder)
        if options.rounds:
            one_job(options, dataset, folder)
            short_of_memory(options, dataset, folder)
            eight_jobs(options, dataset, folder)
            grown(options, dataset, twice(photos, os.path.join(folder, "others")), folder)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
