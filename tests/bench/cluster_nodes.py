#!/usr/bin/env python3
"""A sweep over several daemons, as a cluster and alone: what is prepared, read, asked and computed for a sample.

    cluster_nodes.py FOLDER [--nodes 4] [--copies 6] [--epochs 3] [--rounds 2] [--batch-size 64] [--prefetch 4]
                     [--arena 128MiB] [--encoded 32MiB] [--security bundle] [--namespaces]

Each node of this machine is a daemon with one worker and one loader. By turns the daemons share as a cluster, with a
certificate each, or know nothing of the others. A job trains at each, all on the same files: those of FOLDER, under
--copies names. With --namespaces each node has a network namespace of its own, and all are on one bridge; else they
have ports of one. For each round a line has, for a sample that a job received:

    prepared, read   samples that the daemons prepared, and read, all together
    requests         between the daemons, with those that attach; probes go by time, two seconds each
    daemons, ms      of CPU of all daemons, and of all daemons and scripts
    network, ms      of CPU of the daemons' threads that ask and answer: all that TLS costs, and more

Then the medians, and their ratio. A job that does not get each sample once an epoch ends it with status 1. LARDER_BIN
says which build.
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

import bundles  # noqa: E402
import namespaces  # noqa: E402
import system  # noqa: E402

PIPELINE = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
CONFIG = """\
memory: {arena: ARENA, encoded: ENCODED}
threads: {loaders: 1, workers: 1}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""
NETWORK = ("network", "larder-serve")
PORT = 9451
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def cpu_ms(stat):
    """utime and stime of a process or thread."""
    fields = stat.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


def read(path):
    with open(path) as file:
        return file.read()


def of_threads(pid, names):
    tasks = f"/proc/{pid}/task"
    return sum(cpu_ms(read(f"{tasks}/{task}/stat")) for task in os.listdir(tasks)
               if read(f"{tasks}/{task}/comm").strip() in names)


def copies(folder, number, scratch):
    """The files of FOLDER under so many names."""
    root = os.path.join(scratch, "files")
    for path in system.files_of(folder):
        kind = os.path.join(root, os.path.basename(os.path.dirname(path)))
        os.makedirs(kind, exist_ok=True)
        for copy in range(number):
            os.symlink(os.path.abspath(path), os.path.join(kind, f"{copy}-{os.path.basename(path)}"))
    return root


class Nodes:
    """Daemons, which share where `shared`."""

    def __init__(self, options, scratch, shared):
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.network = options.network
        addresses = [f"{self.network.address(number)}:{PORT}" if self.network else f"127.0.0.1:{system.free_port()}"
                     for number in range(options.nodes)]
        secure = options.security == "bundle"
        authority = bundles.authority(os.path.join(self.folder, "authority.pem"), "bench") if secure else None
        self.daemons = []
        self.texts = []
        for number, address in enumerate(addresses):
            home = os.path.join(self.folder, f"node-{number}")
            os.mkdir(home)
            text = CONFIG.replace("ARENA", options.arena).replace("ENCODED", options.encoded)
            if shared:
                text += (f"cluster:\n  name: bench\n  node: node-{number}\n  security: {options.security}\n"
                         f"  listen: {address}\n  advertise: {address}\n  nodes: [{', '.join(addresses)}]\n"
                         f"  insecure: {str(not secure).lower()}\n")
                if secure:
                    bundle = bundles.issue(authority, f"node-{number}", os.path.join(home, "bundle.pem"))
                    text += f"  bundle: {bundle}\n"
            self.texts.append((home, text))
            self.daemons.append(system.Daemon(home, text, before=self.enter(number)))
        for daemon in self.daemons if shared else ():
            if not system.until(lambda daemon=daemon: f"nodes={options.nodes}" in daemon.log(), 60):
                raise SystemExit("the daemons did not find each other: " + daemon.log())

    def enter(self, number):
        """What begins a command that runs at a node."""
        return self.network.enter(number) if self.network else []

    def kill(self, number):
        """Kills a daemon, and starts it again."""
        self.daemons[number].kill()
        self.daemons[number] = system.Daemon(*self.texts[number], before=self.enter(number))

    def counts(self, daemons=None):
        rows = [daemon.status() for daemon in daemons or self.daemons]
        return {"prepared": sum(row["samples"]["prepared"] for row in rows),
                "read": sum(row["samples"]["loaded"] for row in rows),
                "requests": sum(row["cluster"]["requests"] for row in rows if row.get("cluster")),
                "given": sum(row["cluster"]["received"] for row in rows if row.get("cluster"))}

    def cpu(self):
        pids = [daemon.process.pid for daemon in self.daemons]
        return {"daemons": sum(cpu_ms(read(f"/proc/{pid}/stat")) for pid in pids),
                "network": sum(of_threads(pid, NETWORK) for pid in pids)}

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()


def train(options, folder, nodes):
    """A script a node. Gives the samples they received, and the CPU that they took."""
    before = sum(os.times()[2:4])
    scripts = [subprocess.Popen([*nodes.enter(number), sys.executable, os.path.abspath(__file__), folder, "--script-of",
                                 daemon.socket, "--epochs", str(options.epochs), "--batch-size",
                                 str(options.batch_size), "--prefetch", str(options.prefetch)],
                                stdout=subprocess.PIPE, text=True) for number, daemon in enumerate(nodes.daemons)]
    received = [json.loads(script.communicate()[0] or "null") for script in scripts]
    if any(script.returncode for script in scripts) or not all(received):
        raise SystemExit("a script failed, or did not get each sample once an epoch")
    return sum(received), (sum(os.times()[2:4]) - before) * 1000


def script(options):
    """A training script without a step: each sample of each epoch must come once."""
    loader = system.larder.Loader(options.folder, PIPELINE, options.batch_size, epochs=options.epochs, with_ids=True,
                                  output="numpy", socket=options.script_of, prefetch=options.prefetch)
    received = 0
    for _ in range(options.epochs):
        seen = [index for batch in loader for index in batch[2].tolist()]
        if sorted(seen) != list(range(loader.dataset_size)):
            return 1
        received += len(seen)
    print(received)
    return 0


def measure(options, folder, scratch, shared):
    nodes = Nodes(options, scratch, shared)
    try:
        before = nodes.cpu()
        received, scripts_ms = train(options, folder, nodes)
        after, counts = nodes.cpu(), nodes.counts()
    finally:
        nodes.stop()
    row = {name: number / received for name, number in counts.items()}
    row.update({name: (after[name] - before[name]) / received for name in after})
    row["each"] = row["network"] / row["given"] if row["given"] else 0
    row["all"] = row["daemons"] + scripts_ms / received
    what = "cluster" if shared else "alone"
    print(f"{what:8} received {received}  prepared {row['prepared']:.4f}  read {row['read']:.4f}  requests "
          f"{row['requests']:.4f}  daemons {row['daemons']:.3f} ms  with scripts {row['all']:.3f} ms  network "
          f"{row['network']:.3f} ms, {row['each']:.3f} a sample from another node", flush=True)
    return row


def arguments(doc, copies, epochs, batch_size, prefetch, arena):
    """A parser of what a bench of several nodes is told, with its defaults."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--copies", type=int, default=copies)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch-size", type=int, default=batch_size)
    parser.add_argument("--prefetch", type=int, default=prefetch)
    parser.add_argument("--arena", default=arena)
    parser.add_argument("--encoded", default="32MiB")
    parser.add_argument("--security", choices=("bundle", "none"), default="bundle")
    parser.add_argument("--namespaces", action="store_true")
    return parser


def bench(options, what):
    """Calls what(files, a folder for daemons) with the network there. Gives the exit status."""
    if options.namespaces:
        if not namespaces.can():
            print("skipped: nobody may have a network of their own here")
            return 77
        namespaces.ready()
    options.network = namespaces.Network(options.nodes) if options.namespaces else None
    scratch = tempfile.mkdtemp(prefix="larder-cluster-")
    try:
        what(copies(options.folder, options.copies, scratch), scratch)
    finally:
        if options.network:
            options.network.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def compare(options, folder, scratch):
    rows = [[measure(options, folder, scratch, shared) for shared in (False, True)] for _ in range(options.rounds)]
    alone, shared = ({name: statistics.median(row[at][name] for row in rows) for name in rows[0][0]} for at in (0, 1))
    print(f"medians  prepared {shared['prepared']:.4f} a sample; read {shared['read'] * options.nodes:.3f} times an "
          f"epoch, alone {alone['read'] * options.nodes:.2f}; requests {shared['requests']:.4f}; CPU of the daemons "
          f"{shared['daemons'] / alone['daemons']:.3f} of alone, with the scripts {shared['all'] / alone['all']:.3f}; "
          f"network {shared['each']:.3f} ms a sample from another node")


def main():
    parser = arguments(__doc__, copies=6, epochs=3, batch_size=64, prefetch=4, arena="128MiB")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--script-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    return script(options) if options.script_of else bench(options, functools.partial(compare, options))


if __name__ == "__main__":
    sys.exit(main())
