#!/usr/bin/env python3
"""What a batch costs the Python client beside its bytes: CPU us of the script's process, all of its threads, a batch.

    batch_cpu.py [--rounds 9] [--packages NAME=FOLDER …] [--sizes 1 32] [--ways WAY …] [--scripts ready waits]

Packages are folders that have a package larder (client/python of another checkout); by default this checkout's. In a
row they take turns. Samples are 32 x 32 x 3 uint8 that are in the arena. `ready`: the script sleeps between two
batches, so that each is there when it is asked for; counted is what iterating takes. `waits`: the script does nothing
else, and waits for each one. Medians, and the least of the rounds, which says more on a busy machine.

`bare` is what the system calls of a batch take in Python: a request is sent, a message of as many bytes as BATCH is
waited for and received, and its release is sent, to a process that does nothing but answer.

LARDER_BIN says which daemon.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = {"numpy": {"output": "numpy"}, "torch": {"output": "torch"},
        "numpy zero_copy": {"output": "numpy", "zero_copy": True},
        "torch zero_copy": {"output": "torch", "zero_copy": True}}
BATCHES = 1000    # of a turn, at least
SLEEP_S = 0.0005  # between two batches that are to be there
REQUEST, RELEASE, FIXED, ENTRY = 28, 24, 56, 24  # bytes of messages, and of a BATCH for each sample


def overhead_s():
    """What the clock itself takes."""
    began = time.process_time()
    for _ in range(1000):
        time.process_time()
    return (time.process_time() - began) / 1000


def epoch(loader, ready, clock_s):
    """Batches, and the seconds of CPU that they took."""
    if not ready:
        began = time.process_time()
        return sum(1 for _ in loader), time.process_time() - began
    count, cpu_s, batches = 0, 0.0, iter(loader)
    while True:
        time.sleep(SLEEP_S)
        began = time.process_time()
        batch = next(batches, None)
        cpu_s += time.process_time() - began - clock_s
        if batch is None:
            return count, cpu_s
        count += 1
        del batch


def epochs(loader, ready, clock_s):
    """The same, of so many epochs that they have BATCHES."""
    count, cpu_s = 0, 0.0
    while count < BATCHES:
        more, took_s = epoch(loader, ready, clock_s)
        count, cpu_s = count + more, cpu_s + took_s
    return count, cpu_s


def answer(sock, message):
    """Until the other side closes."""
    try:
        while True:
            length = len(sock.recv(4096))
            if length == 0:
                break
            if length == REQUEST:
                sock.send(message)
    except OSError:  # it had not taken all
        pass
    os._exit(0)


def bare(ready, batch_size, clock_s):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        answer(theirs, b"b" * (FIXED + ENTRY * batch_size))
    theirs.close()
    inbox, cpu_s = bytearray(200704), 0.0
    request, release = b"r" * REQUEST, b"r" * RELEASE
    ours.send(request)
    for _ in range(BATCHES):
        if ready:
            time.sleep(SLEEP_S)
        began = time.process_time()
        ours.send(request)
        ours.recv_into(inbox)
        ours.send(release)
        cpu_s += time.process_time() - began - clock_s
    ours.close()
    os.wait()
    return BATCHES, cpu_s


def work(specification):
    ready, batch_size, options = specification["ready"], specification["batch_size"], specification["options"]
    clock_s = overhead_s()
    if options is None:
        run = lambda: bare(ready, batch_size, clock_s)  # noqa: E731
    else:
        import larder
        if options["output"] == "torch":
            import torch
            torch.set_num_threads(1)
        loader = larder.Loader(specification["dataset"], [{"resize": {"size": [32, 32]}}], batch_size,
                               socket=specification["socket"], **options)
        run = lambda: epochs(loader, ready, clock_s)  # noqa: E731
        run()
    print('"ready"', flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)


class Worker:
    def __init__(self, package, **specification):
        environment = dict(os.environ, PYTHONPATH=package)
        self.process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--work",
                                         json.dumps(specification)], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self._hear()
        self.us = []

    def _hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a script has failed")
        return json.loads(line)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        count, cpu_s = self._hear()
        self.us.append(1e6 * cpu_s / count)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(options, folder):
    sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))
    from system import CONFIG, PACKAGE, Daemon, make_tree
    packages = dict(pair.split("=", 1) for pair in options.packages) or {"us": PACKAGE}
    tree = make_tree(os.path.join(folder, "images"), 2048, width=32, height=32)
    daemon = Daemon(folder, CONFIG)
    ways = {"bare": None, **{name: WAYS[name] for name in options.ways}}
    print(f"{'':34}" + "".join(f" {name:>9} {'least':>9}" for name in packages) +
          f"   load {os.getloadavg()[0]:.1f}", flush=True)
    try:
        for script in options.scripts:
            ready = script == "ready"
            for batch_size in options.sizes:
                for name, more in ways.items():
                    workers = [Worker(package, ready=ready, batch_size=batch_size, options=more, dataset=tree,
                                      socket=daemon.socket) for package in packages.values()]
                    for _ in range(options.rounds):
                        for worker in workers:
                            worker.turn()
                    for worker in workers:
                        worker.close()
                    title = f"{script}, batches of {batch_size}, {name}"
                    print(f"{title:34}" + "".join(f" {statistics.median(worker.us):9.1f} {min(worker.us):9.1f}"
                                                  for worker in workers), flush=True)
    finally:
        daemon.stop()


def main():
    if sys.argv[1:2] == ["--work"]:
        work(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--packages", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--scripts", nargs="+", default=["ready", "waits"], choices=["ready", "waits"])
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="larder-batch-cpu-")
    try:
        measure(options, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
