#!/usr/bin/env python3
"""Larder beside other loaders: CPU time for each sample delivered, and which samples were lost.

    run.py --folder IMAGES --data FOLDER --out RESULTS.json [--jobs 1,2,4,8] [--speeds 1,.8,.5,.25] [--core 0] …

The peers take turns, round by round. Every measurement is added to RESULTS.json at once; table.py and plot.py read it.
README.md says what is measured."""

import argparse
import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

import job
import measure

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("larder", "larder_planes", "larder_folder", "larder_no_antialias", "larder_dct", "torchvision",
         "torchvision_v2", "dali", "ffcv", "ffcv_raw", "tfdata", "tfdata_antialias", "tfservice", "tfservice_shared",
         "tensorsocket", "spdl")


class Failed(Exception):
    pass


class Peer:
    """The process of job.py for one peer, from which its jobs are forked."""

    def __init__(self, spec):
        self.name = spec.peer
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2")
        self.process = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "job.py")], cwd=HERE, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.said = []
        self.rest = b""
        self.tell(dataclasses.asdict(spec))

    def tell(self, what):
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()

    def go_on(self, jobs):
        self.process.stdin.write(b"\n" * jobs)
        self.process.stdin.flush()

    def lines(self, word):
        """What was said that begins with the word. Libraries may print lines of their own."""
        return [line for line in self.said if line.split(" ")[0] == word]

    def wait_for(self, word, times, limit_s):
        deadline = time.monotonic() + limit_s
        while len(self.lines(word)) < times:
            came, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if came else b""
            *lines, self.rest = (self.rest + more).split(b"\n")
            self.said += [line.decode(errors="replace") for line in lines]
            if not came:
                self.process.terminate()  # ends the jobs, of which it says that they failed
                self.wait_for("failed", 1, limit_s)
                raise Failed(f"{self.name}: no '{word}' in time")
            if not more or (self.lines("failed") and word != "failed"):
                self.errors.seek(0)
                raise Failed(f"{self.name}: {self.errors.read()[-2000:].decode(errors='replace')}")

    def close(self):
        for end in (self.process.terminate, self.process.stdin.close, self.process.wait, self.process.stdout.close,
                    self.errors.close):
            with contextlib.suppress(BrokenPipeError):
                end()


def specs_of(peer, cell, options, folder, address):
    speeds = cell["speeds"] or [1] * cell["jobs"]
    epochs = options.epochs_of.get(peer, options.epochs)
    return [job.Spec(peer=peer, folder=options.folder, data=options.data, count=options.count,
                     threads=len(os.sched_getaffinity(0)), jobs=len(speeds), index=index,
                     epochs=max(1, int(epochs * speed + 0.5)), step_s=cell["step_s"] / speed,
                     ledger=os.path.join(folder, f"ledger-{index}"), address=address or "",
                     memory_mib=options.memory, list=cell["list"])
            for index, speed in enumerate(speeds)]


def judge(specs):
    """Samples delivered in the measured epochs, and how many were lost or came twice in all of them."""
    samples = lost = twice = epochs = 0
    for spec in specs:
        ledger = job.read_ledger(spec.ledger)
        for epoch in range(1, spec.epochs + 1):
            missing, again = measure.lost_and_twice(ledger.get(epoch, []), spec.count)
            samples, lost, twice = samples + len(ledger.get(epoch, [])), lost + missing, twice + again
            epochs += 1
    return {"samples": samples, "lost": lost, "twice": twice, "epochs": epochs}


def one(process, cell, options):
    """One measurement: all jobs from the same moment to the end of the last."""
    peer, module = process.name, job.peer_module(process.name)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="larder-peers-"))
        general = specs_of(peer, cell, options, folder, None)[0]
        address = stack.enter_context(module.server(general)) if hasattr(module, "server") else None
        specs = specs_of(peer, cell, options, folder, address)
        process.said.clear()
        process.tell([dataclasses.asdict(spec) for spec in specs])
        process.wait_for("ready", len(specs), options.limit)
        began, cpu = time.monotonic(), measure.below_s(os.getpid())
        process.go_on(len(specs))
        process.wait_for("done", len(specs), options.limit)
        cpu, wall = measure.below_s(os.getpid()) - cpu, time.monotonic() - began
        result = judge(specs)
        process.go_on(len(specs))
        process.wait_for("ended", 1, options.limit)
    if not result["samples"]:
        raise Failed(f"{peer} delivered nothing")
    return {**result, "cpu_s": round(cpu, 3), "wall_s": round(wall, 3),
            "cpu_ms": round(1000 * cpu / result["samples"], 4)}


class Results:
    """A file that is whole at any moment."""

    def __init__(self, path):
        self.path = path
        self.all = {"versions": {}, "missing": {}, "rows": []}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.all = json.load(file)

    def save(self):
        if self.path:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump(self.all, file, indent=1)
            os.rename(self.path + ".new", self.path)


def ask(peer, options):
    """(process, version, None), or (None, None, why it is not there). It has written what it keeps if it is there."""
    cell = {"jobs": 1, "speeds": None, "step_s": 0, "list": "crop"}
    process = Peer(specs_of(peer, cell, options, options.data, None)[0])
    version = None
    try:
        process.wait_for("answer", 1, options.limit)
        version, reason = json.loads(process.lines("answer")[-1].partition(" ")[2])
    except Failed as why:
        reason = str(why)
    if version:
        return process, version, None
    process.close()
    return None, None, reason


def choose(options, results, stack):
    """The processes of the peers that are there; of the others, why not."""
    chosen = []
    for peer in options.peers:
        process, version, reason = ask(peer, options)
        if process:
            results.all["versions"][peer] = version
            results.all["missing"].pop(peer, None)
            chosen.append(stack.enter_context(contextlib.closing(process)))
        else:
            results.all["missing"].setdefault(peer, reason)
            print(f"{peer}: not here: {reason}", flush=True)
    return chosen


def measure_all(options, results, stack):
    """Every cell, round by round, the peers in turn. True when nothing failed."""
    peers = choose(options, results, stack)
    fine = True
    for number in range(options.rounds):
        for cell in options.cells:
            for peer in peers[number % len(peers):] + peers[: number % len(peers)]:
                if cell["list"] not in getattr(job.peer_module(peer.name), "LISTS", ("crop",)):
                    continue
                row = {"peer": peer.name, "cell": cell["name"], "cores": len(os.sched_getaffinity(0)), "round": number}
                try:
                    row.update(one(peer, cell, options))
                except Failed as reason:
                    row["failed"] = str(reason)
                    fine = False
                row["load"] = round(os.getloadavg()[0], 1)
                print(json.dumps(row), flush=True)
                results.all["rows"].append(row)
                results.save()
    return fine


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",") if word]


def of_peers(text):
    return {name: int(number) for name, _, number in (word.partition("=") for word in text.split(","))}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, help="images, one folder a class")
    parser.add_argument("--data", required=True, help="a folder for stores and packed datasets, kept between runs")
    parser.add_argument("--out", help="the results, JSON; what is there is added to")
    parser.add_argument("--jobs", type=numbers(int), default=[], help="1,2,4,8: so many jobs, as fast as they can")
    parser.add_argument("--speeds", type=numbers(float), default=[], help="1,.8,.5,.25: a job of each speed")
    parser.add_argument("--step", type=float, default=0.4, help="with --speeds, seconds a step of speed 1 takes")
    parser.add_argument("--epochs", type=int, default=4, help="measured epochs of a job of speed 1")
    parser.add_argument("--epochs-of", type=of_peers, default={}, metavar="PEER=N,…", help="in its place")
    parser.add_argument("--memory", type=int, default=256, metavar="MIB", help="Larder's arena")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300,
                        help="seconds that a measurement's start may take, and its epochs: some peers hang")
    parser.add_argument("--peers", type=numbers(str), default=list(PEERS))
    parser.add_argument("--lists", type=numbers(str), default=["crop"], help="what follows the crop and the flip")
    parser.add_argument("--core", type=int, help="everything on this core")
    options = parser.parse_args(given)
    options.folder, options.data = os.path.abspath(options.folder), os.path.abspath(options.data)
    options.count = len(job.files_of(options.folder))
    options.cells = [{"name": f"{jobs} job{'s' * (jobs > 1)}" + (name != "crop") * f", {name}", "jobs": jobs,
                      "speeds": None, "step_s": 0, "list": name} for name in options.lists for jobs in options.jobs]
    if options.speeds:
        options.cells.append({"name": "speeds " + " : ".join(f"{speed:g}" for speed in options.speeds),
                              "jobs": len(options.speeds), "speeds": options.speeds, "step_s": options.step,
                              "list": options.lists[0]})
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # jobs are in sessions of their own, and end with `finally`
    os.makedirs(options.data, exist_ok=True)
    if options.core is not None:
        os.sched_setaffinity(0, [options.core])
    with contextlib.ExitStack() as stack:
        return 0 if measure_all(options, Results(options.out), stack) else 1


if __name__ == "__main__":
    sys.exit(main())
