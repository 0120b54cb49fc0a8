#!/usr/bin/env python3
"""One job over several nodes: torchrun on each, a daemon for each, and a ledger of what every rank got.

    several_nodes.py FOLDER [--epochs 20] [--worlds 2 3 4 8]

For each world size two agents of torchrun start the ranks of two "nodes" of this machine, each with the socket of a
daemon of its own. It prints, for each: samples of an epoch that no rank got, those that came twice beyond the repeats
that fill shares up, and epochs in which ranks had other numbers of batches than others. LARDER_BIN says which build.
Its exit status is 1 if any of these is not 0.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

import system  # noqa: E402

BATCH = 32


def rank(options):
    """A training script: writes down which samples it got, in each epoch."""
    from system import larder
    loader = larder.Loader(options.folder, system.PIPELINE, BATCH, epochs=options.epochs, with_ids=True,
                           output="numpy", shuffle=options.shuffle, drop_last=options.drop_last, timeout=120)
    epochs = []
    for _ in range(options.epochs):
        epochs.append([batch[-1].tolist() for batch in loader])
    with open(os.path.join(options.rank_of, f"{loader.rank}.json"), "w") as file:
        json.dump({"epochs": epochs, "count": loader.dataset_size}, file)


def run(options, daemons, world_size, shuffle, drop_last, scratch):
    out = tempfile.mkdtemp(dir=scratch)
    split = ((world_size + 1) // 2, world_size // 2)
    port = system.free_port()
    agents = []
    for node, (daemon, here) in enumerate(zip(daemons, split)):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node_rank", str(node),
                   "--nproc_per_node", str(here), "--master_addr", "127.0.0.1", "--master_port", str(port),
                   "--redirects", "1", "--tee", "1", "--log_dir", out,  # the defaults of torch 1.13 fail on Python 3.11
                   os.path.abspath(__file__), options.folder, "--epochs", str(options.epochs), "--rank-of", out,
                   "--shuffle", shuffle, *(["--drop-last"] if drop_last else [])]
        agents.append(subprocess.Popen(command, env=dict(os.environ, LARDER_SOCKET=daemon.socket),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for agent in agents:
        output, _ = agent.communicate(timeout=600)
        if agent.returncode:
            raise SystemExit(output[-3000:])
    ranks = []
    for number in range(world_size):
        with open(os.path.join(out, f"{number}.json")) as file:
            ranks.append(json.load(file))
    return check(ranks, world_size, drop_last)


def check(ranks, world_size, drop_last):
    """(samples that nobody got, samples that came twice, epochs in which ranks had other numbers of batches)."""
    lost = twice = uneven = 0
    count = ranks[0]["count"]
    for parts in zip(*(one["epochs"] for one in ranks)):
        uneven += len({len(batches) for batches in parts}) > 1
        counts = Counter(index for batches in parts for batch in batches for index in batch)
        given = sum(counts.values())
        missing = count - len(counts)
        repeats = 0 if drop_last else -(-count // world_size) * world_size - count
        lost += max(0, missing - (count - given if drop_last else 0))
        twice += given - len(counts) - repeats
    return lost, twice, uneven


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--worlds", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--shuffle", default="dependent")
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        rank(options)
        return 0
    scratch, failed = tempfile.mkdtemp(prefix="larder-nodes-"), False
    daemons = []
    try:
        for node in range(2):
            folder = os.path.join(scratch, f"node-{node}")
            os.mkdir(folder)
            daemons.append(system.Daemon(folder))
        for world_size in options.worlds:
            for shuffle, drop_last in (("dependent", False), ("dependent", True), ("strict", False)):
                lost, twice, uneven = run(options, daemons, world_size, shuffle, drop_last, scratch)
                failed = failed or lost or twice or uneven
                print(f"ranks {world_size}  {shuffle:9}  drop_last {drop_last!s:5}  epochs {options.epochs}  "
                      f"lost {lost}  twice {twice}  epochs with uneven ranks {uneven}", flush=True)
    finally:
        for daemon in daemons:
            daemon.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
