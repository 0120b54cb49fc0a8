#!/usr/bin/env python3
"""Two sweeps side by side, each over daemons that share by an etcd of their own. One etcd is stopped for a while.

    etcd_stopped.py [--seconds 600] [--nodes 3] [--jobs 3] [--step 0.5] [--images 2000]

Each script waits --step seconds in each training step, so the jobs take little of the machine and want their batches
in time. The etcd is stopped (SIGSTOP) when all scripts train, and goes on after --seconds, when all leases have ended.
Each job then trains to the end of its epoch. For each sweep it prints what the jobs had:

    lost, twice     samples that a job did not get in an epoch, and that it got more than once
    prepared        samples that the daemons prepared, for one that was delivered
    moved, back     samples that a job asked another node for, or took from storage, since their node did not answer
    seen            nodes that each daemon holds for UP, when the etcd has stood for half of its time, and in the end
    wait            what scripts waited for a batch while the etcd stood, and in all but the first batch

Its exit status is 1 if a sample was lost or came twice. LARDER_BIN says which build.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

import etcd  # noqa: E402
import system  # noqa: E402
from cluster_case import FROM_OTHERS  # noqa: E402

BATCH = 32
LEASE_S = 15
STARTED = 5  # batches that each script has before anything is stopped


class Sweep:
    """Daemons that find each other by an etcd, and a script at each."""

    def __init__(self, folder, options, images):
        self.etcd = etcd.Etcd(folder)
        self.daemons, self.scripts = [], []
        for number in range(options.nodes):
            home, address = os.path.join(folder, f"node-{number}"), f"127.0.0.1:{system.free_port()}"
            os.mkdir(home)
            self.daemons.append(system.Daemon(home, system.CONFIG + f"""\
cluster:
  name: bench
  node: node-{number}
  discovery: etcd
  etcd: ["{self.etcd.url}"]
  lease: {LEASE_S}
  listen: {address}
  advertise: {address}
  security: none
"""))
        for daemon in self.daemons:
            if not system.until(lambda daemon=daemon: f"nodes={options.nodes}" in daemon.log(), 60):
                raise SystemExit("the daemons did not find each other: " + daemon.log())
        batches = -(-options.images // BATCH)
        self.count, self.epochs = options.images, 1 + round(1.05 * options.seconds / options.step / batches)
        for number in range(options.jobs):
            self.scripts.append(system.Script(
                self.daemons[number % options.nodes].socket, dataset=images, pipeline=system.PIPELINE, batch_size=BATCH,
                epochs=self.epochs, step_s=options.step, timeout=600))

    def seen(self):
        return [sum(node["state"] == "UP" for node in daemon.status()["cluster"]["nodes"]) for daemon in self.daemons]

    def trains(self):
        return all(len(script.batches) > STARTED for script in self.scripts)

    def ends(self):
        for script in self.scripts:
            if script.wait(3600):
                raise SystemExit(f"a script failed: {script.end} {script.errors}")

    def ledger(self):
        lost = twice = 0
        for script in self.scripts:
            had = Counter((epoch, index) for _, epoch, indices in script.batches for index in indices)
            lost += sum((epoch, index) not in had for epoch in range(self.epochs) for index in range(self.count))
            twice += sum(had.values()) - len(had)
        return lost, twice

    def waits(self, begin, end):
        """What was waited for each batch that was asked for from begin to end, in ms, the longest first."""
        waits = []
        for script in self.scripts:
            for number in range(1, len(script.batches)):
                waited = script.waits[number] - script.waits[number - 1]
                if begin <= script.batches[number][0] - waited <= end:
                    waits.append(1000 * waited)
        return sorted(waits, reverse=True)

    def from_others(self):
        rows = [[int(number) for number in row] for daemon in self.daemons for row in FROM_OTHERS.findall(daemon.log())]
        return [sum(column) for column in zip(*rows)] or [0] * 4

    def stop(self):
        for script in self.scripts:
            script.close()
        for daemon in self.daemons:
            daemon.stop()
        self.etcd.go_on()
        self.etcd.kill()


def tell(what, sweep, begin, end, seen):
    lost, twice = sweep.ledger()
    rows = [daemon.status() for daemon in sweep.daemons]
    prepared = sum(row["samples"]["prepared"] for row in rows)
    delivered = sum(len(indices) for script in sweep.scripts for _, _, indices in script.batches)
    received, refused, moved, back = sweep.from_others()
    print(f"{what:12}  jobs {len(sweep.scripts)}  epochs {sweep.epochs}  delivered {delivered}  lost {lost}  "
          f"twice {twice}  prepared {prepared / delivered:.3f}\n"
          f"              from other nodes {received}  refused {refused}  moved {moved}  back {back}  "
          f"seen {seen}, in the end {sweep.seen()}")
    for name, waits in (("while it stood", sweep.waits(begin, end)), ("in all", sweep.waits(0, float("inf")))):
        print(f"              wait {name}: {len(waits)} batches  longest {waits[0]:.1f} ms  1 in 100 above "
              f"{waits[len(waits) // 100]:.1f} ms  median {waits[len(waits) // 2]:.1f} ms", flush=True)
    return lost or twice


def measure(options, scratch):
    images = system.make_tree(os.path.join(scratch, "images"), options.images)
    sweeps = []
    try:
        for name in ("stopped", "not-stopped"):
            os.mkdir(os.path.join(scratch, name))
            sweeps.append(Sweep(os.path.join(scratch, name), options, images))
        if not system.until(lambda: all(sweep.trains() for sweep in sweeps), 60):
            raise SystemExit("the scripts do not train")
        begin = time.monotonic()
        sweeps[0].etcd.stop()
        time.sleep(options.seconds / 2)
        seen = [sweep.seen() for sweep in sweeps]
        time.sleep(max(0, begin + options.seconds - time.monotonic()))
        sweeps[0].etcd.go_on()
        end = time.monotonic()
        print(f"etcd stood for {end - begin:.1f} s", flush=True)
        for sweep in sweeps:
            sweep.ends()
        wrong = [tell(*row, begin, end, nodes)
                 for *row, nodes in zip(("stopped", "not stopped"), sweeps, seen)]
        there = system.until(lambda: len(sweeps[0].etcd.nodes()) == options.nodes, 60)
        print(f"the etcd that was stopped has {len(sweeps[0].etcd.nodes())} of {options.nodes} nodes again")
        return 1 if any(wrong) or not there else 0
    finally:
        for sweep in sweeps:
            sweep.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--step", type=float, default=.5)
    parser.add_argument("--images", type=int, default=2000)
    options = parser.parse_args()
    if not etcd.there_is_one():
        print("skipped: this machine has no etcd")
        return 77
    scratch = tempfile.mkdtemp(prefix="larder-etcd-")
    try:
        return measure(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
