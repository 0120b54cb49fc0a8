#!/usr/bin/env python3
"""./run demo --nodes N: N daemons of one cluster on this machine, each with a folder, memory and name of its own. They
find each other by etcd where that is installed, else by a list, and talk over TLS.

A sweep of three jobs runs over them, and one job of four ranks on two of them. In the middle of an epoch one daemon
is killed and started again. Then the ledger is counted from what the scripts received: each sample once an epoch
for each job, or the exit status is 1. Everything lives in one temporary folder, and goes with this program.
"""

import argparse
import collections
import os
import shutil
import subprocess
import sys
import time
import urllib.request

import demo

NODES_MOST = 8
SWEEP = 3
RANKS = 4
RANKS_A_NODE = 2
EPOCHS = 3
IMAGES_A_NODE = 320  # each node is the home of four chunks of 64 at least
SHAPE = (10, 320, 240)
FOUND_S = 60

CONFIG = """\
memory: {{arena: 192MiB, encoded: 128MiB}}
catalog: {{checkpoint: none}}
metrics: {{enabled: false}}
cluster:
  name: demo
  node: node-{number}
  listen: 127.0.0.1:{port}
  advertise: 127.0.0.1:{port}
  bundle: {bundle}
  discovery: {discovery}
"""


def command(options, *words):
    """Runs larder with these words, and raises Failed where that fails."""
    result = subprocess.run([os.path.join(options.bin, "larder"), *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if result.returncode:
        raise demo.Failed(f"larder {' '.join(words[:2])} failed: {result.stderr.decode(errors='replace').strip()}")


def ports(count):
    """Ports that nobody has, each another one."""
    found = set()
    while len(found) < count:
        found.add(demo.free_port())
    return list(found)


def start_etcd(scratch, processes):
    """An etcd of the demo's own; gives its address when it answers."""
    client, peer = (f"http://127.0.0.1:{port}" for port in ports(2))
    log = os.path.join(scratch, "etcd.log")
    with open(log, "wb") as errors:
        etcd = processes.start(
            ["etcd", "--data-dir", os.path.join(scratch, "etcd"), "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}", "--log-level", "error"], stdout=errors, stderr=errors)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline_s = time.monotonic() + demo.READY_S
    while etcd.poll() is None and time.monotonic() < deadline_s:
        try:
            with direct.open(client + "/health", timeout=5):
                return client
        except OSError:
            time.sleep(0.05)
    raise demo.Failed("etcd did not start: " + demo.read(log)[-2000:])


class Node:
    """A node's daemon, and the one after it where it is killed."""

    def __init__(self, number, folder, text, options, processes):
        self.name, self._folder, self._text = f"node-{number}", folder, text
        self._options, self._processes = options, processes
        self._before = {}  # the figures of the daemon that was killed
        os.mkdir(folder)
        self.start()

    def start(self):
        self.process, self.socket, self.log = demo.start_daemon(self._options.bin, self._folder, self._processes,
                                                                self._text)

    def kill(self):
        """Its figures are asked for just before. What it did after that is not in them."""
        self._before = demo.daemon_status(self._options.bin, self.socket)["samples"]
        self.process.kill()
        self.process.wait()

    def samples(self, name):
        return demo.daemon_status(self._options.bin, self.socket)["samples"][name] + self._before.get(name, 0)

    def check(self):
        """A daemon that failed ends the demo."""
        if self.process.poll():
            raise demo.Failed(f"{self.name}'s larderd ended with status {self.process.returncode}: "
                              + demo.read(self.log)[-2000:])


class Cluster:
    """The nodes. One of them is killed and started again, once a script has come far enough."""

    def __init__(self, options, scratch, processes, screen):
        self._screen, self.killed = screen, None
        at = ports(options.nodes)
        if options.discovery == "etcd":
            found = f"etcd\n  etcd: [{start_etcd(scratch, processes)}]"
        else:
            found = f"static\n  nodes: [{', '.join(f'127.0.0.1:{port}' for port in at)}]"
        authority = os.path.join(scratch, "authority.pem")
        command(options, "cluster", "keygen", "--cluster", "demo", "--authority", authority)
        self.nodes = []
        for number, port in enumerate(at, 1):
            bundle = os.path.join(scratch, f"node-{number}.pem")
            command(options, "cluster", "keygen", "--authority", authority, "--node", f"node-{number}", bundle)
            text = CONFIG.format(number=number, port=port, bundle=bundle, discovery=found)
            folder = os.path.join(scratch, f"node-{number}")
            self.nodes.append(Node(number, folder, text, options, processes))
        self._wait()

    def _wait(self):
        """Until each node has all the others."""
        words = f"nodes={len(self.nodes)}"
        deadline_s = time.monotonic() + FOUND_S
        for node in self.nodes:
            while words not in demo.read(node.log):
                node.check()
                if time.monotonic() > deadline_s:
                    raise demo.Failed(f"{node.name} did not find the others: {demo.read(node.log)[-2000:]}")
                time.sleep(0.05)

    def look(self, scripts):
        """Kills the third node's daemon, where no rank of the job of four is; of two nodes the second's."""
        self.check()
        if self.killed or not demo.far_enough(scripts):
            return
        self.killed = self.nodes[min(2, len(self.nodes) - 1)]
        self.killed.kill()
        self._screen.line(f"killed {self.killed.name}'s larderd (pid {self.killed.process.pid}) in the middle of an "
                          "epoch")
        self.killed.start()
        self._screen.line(f"started it again (pid {self.killed.process.pid})")

    def samples(self, name):
        return sum(node.samples(name) for node in self.nodes)

    def check(self):
        for node in self.nodes:
            node.check()


class Job:
    """A training: one script, or one for each of its ranks."""

    def __init__(self, name, nodes, scripts):
        self.name, self.nodes, self.scripts = name, nodes, scripts

    def ledger(self):
        """Counts, over all epochs, from what its scripts received: (received, missing, twice, left out)."""
        reports = [script.figures() for script in self.scripts]
        size, world_size = reports[0]["dataset_size"], len(reports)
        received = missing = twice = left_out = 0
        for epoch in range(len(reports[0]["had"])):
            counts = collections.Counter(index for report in reports for index in report["had"][epoch])
            bad = sum(report["left_out"][epoch] for report in reports)
            # Where ranks cannot have the same number of samples, some come again to fill up.
            filling = world_size * max(len(report["had"][epoch]) for report in reports) - size + bad
            spare = min(filling, world_size - 1 + bad) if world_size > 1 else 0
            received += sum(counts.values())
            missing += max(0, size - len(counts) - bad)
            twice += max(0, sum(counts.values()) - len(counts) - spare)
            left_out += bad
        return received, missing, twice, left_out

    def received_at(self, node):
        """How many samples its scripts received at one of the nodes."""
        return sum(script.figures()["samples"] for script in self.scripts if script.node is node)


def start_jobs(cluster, folder, scratch, processes):
    """The sweep's jobs go to the nodes in turn, and the ranks of the other job to the first two."""

    def script(name, node, environment, job):
        made = demo.Script(name, folder, node.socket, scratch, processes, EPOCHS, ["--ids", "--name", job], environment)
        made.node, made.quiet = node, job != name and environment["RANK"] != "0"
        return made

    jobs = []
    for number in range(SWEEP):
        node, name = cluster.nodes[number % len(cluster.nodes)], f"sweep-{number + 1}"
        jobs.append(Job(name, [node], [script(name, node, {"RANK": "0", "WORLD_SIZE": "1"}, name)]))
    ranks = []
    for rank in range(RANKS):
        node = cluster.nodes[rank // RANKS_A_NODE]
        environment = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank % RANKS_A_NODE),
                       "LOCAL_WORLD_SIZE": str(RANKS_A_NODE)}
        ranks.append(script(f"ddp-rank-{rank}", node, environment, "ddp"))
    return [*jobs, Job(f"ddp, {RANKS} ranks", cluster.nodes[:RANKS // RANKS_A_NODE], ranks)]


def show_ledger(jobs, screen):
    """A table of what each job received. Gives the number of samples of all, and whether it is right."""
    screen.line()
    screen.line(f"{'':14} {'nodes':16} {'received':>9} {'missing':>8} {'twice':>6} {'left out':>9}")
    total, right = 0, True
    for job in jobs:
        received, missing, twice, left_out = job.ledger()
        where = ", ".join(node.name for node in job.nodes)
        screen.line(f"{job.name:14} {where:16} {received:9,} {missing:8,} {twice:6,} {left_out:9,}")
        total += received
        right = right and missing == 0 and twice == 0
    screen.line()
    return total, right


def show_savings(jobs, cluster, folder, received, screen):
    prepared, read = cluster.samples("prepared"), cluster.samples("loaded_bytes")
    sizes = [os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names]
    alone = received * sum(sizes) / len(sizes)
    # A daemon in no cluster prepares at least as much as the job that receives most there.
    apart = sum(max(job.received_at(node) for job in jobs) for node in cluster.nodes)
    screen.line(f"{len(cluster.nodes)} daemons   prepared {prepared:,}, received {received:,}: "
                f"{prepared / received:.3f} prepared for each one received")
    screen.line(f"            beside 1.0 for scripts alone, and {apart / received:.3f} at least for daemons alone")
    screen.line(f"            read {read / 1e6:,.1f} MB, beside {alone / 1e6:,.1f} MB for scripts alone")
    for job in jobs:
        again = sum(script.figures()["reconnects"] for script in job.scripts)
        if again:
            screen.line(f"            {job.name} connected again")


def show(options, scratch, processes, screen):
    folder = options.folder and os.path.abspath(options.folder)
    if not folder:
        folder = os.path.join(scratch, "images")
        demo.make_images(options.bin, folder, processes, screen, IMAGES_A_NODE * max(3, options.nodes), SHAPE)
    cluster = Cluster(options, scratch, processes, screen)
    screen.line(f"{options.nodes} daemons have found each other by "
                f"{'etcd' if options.discovery == 'etcd' else 'a list'}, and talk over TLS")
    screen.line(f"A sweep of {SWEEP} jobs, and a job of {RANKS} ranks on two nodes; {EPOCHS} epochs, batches of "
                f"{demo.BATCH_SIZE}")
    jobs = start_jobs(cluster, folder, scratch, processes)
    demo.follow([script for job in jobs for script in job.scripts], cluster, screen)
    cluster.check()
    received, right = show_ledger(jobs, screen)
    show_savings(jobs, cluster, folder, received, screen)
    processes.stop()
    cluster.check()
    if not cluster.killed:
        raise demo.Failed("no daemon was killed: the jobs ended too soon")
    if not right:
        raise demo.Failed("a job did not get each sample exactly once in each epoch")
    screen.line(f"{cluster.killed.name}'s larderd was killed once: each job still got each sample exactly once an "
                "epoch")


def nodes(text):
    number = int(text)
    if not 2 <= number <= NODES_MOST:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="a folder with one folder a class; without it images are made")
    parser.add_argument("--nodes", type=nodes, default=3, help=f"how many daemons, 2 to {NODES_MOST}")
    parser.add_argument("--discovery", choices=["etcd", "static"], default="etcd" if shutil.which("etcd") else "static")
    parser.add_argument("--bin", default=os.path.join(demo.HERE, "..", "..", "..", "build", "bin"),
                        help="where larderd is")
    return demo.run(parser.parse_args(), show)


if __name__ == "__main__":
    sys.exit(main())
