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


class Job:
    """A process of job.py in a session of its own, so that it goes with all that it started."""

    def __init__(self, spec):
        self.spec = spec
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2")
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "job.py"), json.dumps(dataclasses.asdict(spec))], cwd=HERE,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True)
        self.said = b""

    def wait_for(self, word, deadline):
        """Libraries may print lines of their own before the word."""
        while word.encode() not in self.said.split(b"\n"):
            came, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if came else b""
            if not more:
                self.errors.seek(0)
                why = self.errors.read()[-2000:].decode(errors="replace") if came else f"no '{word}' in time"
                raise Failed(f"{self.spec.peer}, job {self.spec.index}: {why}")
            self.said += more

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(BrokenPipeError):
                file.close()


def specs_of(peer, cell, options, folder, address):
    speeds = cell["speeds"] or [1] * cell["jobs"]
    return [job.Spec(peer=peer, folder=options.folder, data=options.data, count=options.count,
                     threads=len(os.sched_getaffinity(0)), jobs=len(speeds), index=index,
                     epochs=max(1, int(options.epochs * speed + 0.5)), step_s=cell["step_s"] / speed,
                     ledger=os.path.join(folder, f"ledger-{index}"), address=address or "",
                     memory_mib=options.memory, list=options.list)
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


def one(peer, cell, options):
    """One measurement: all jobs from the same moment to the end of the last."""
    module = job.peer_module(peer)
    jobs = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="larder-peers-"))
        general = specs_of(peer, cell, options, folder, None)[0]
        address = stack.enter_context(module.server(general)) if hasattr(module, "server") else None
        try:
            for spec in specs_of(peer, cell, options, folder, address):
                jobs.append(Job(spec))
            deadline = time.monotonic() + options.limit
            for each in jobs:
                each.wait_for("ready", deadline)
            began, cpu = time.monotonic(), measure.below_s(os.getpid())
            for each in jobs:
                each.go_on()
            deadline = time.monotonic() + options.limit
            for each in jobs:
                each.wait_for("done", deadline)
            cpu, wall = measure.below_s(os.getpid()) - cpu, time.monotonic() - began
            result = judge([each.spec for each in jobs])
        finally:
            for each in jobs:
                each.close()
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
    """(version, None), or (None, why it is not there). A peer that is there has written what it keeps."""
    spec = specs_of(peer, {"jobs": 1, "speeds": None, "step_s": 0}, options, options.data, None)[0]
    asked = subprocess.run([sys.executable, "-B", os.path.join(HERE, "ask.py"), json.dumps(dataclasses.asdict(spec))],
                           cwd=HERE, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2"), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    answers = [line.partition(" ")[2] for line in asked.stdout.split("\n") if line.startswith("answer ")]
    if not answers:
        return None, f"ended with {asked.returncode}: {asked.stderr.strip()[-500:]}"
    if asked.returncode:
        raise SystemExit(f"{peer} is there, and could not write what it keeps: {asked.stderr[-2000:]}")
    return json.loads(answers[-1])


def choose(options, results):
    """The peers that are there; of the others, why not."""
    chosen = []
    for peer in options.peers:
        version, reason = ask(peer, options)
        if version and options.list not in getattr(job.peer_module(peer), "LISTS", ("crop",)):
            version, reason = None, f"it has no list {options.list}"
        if version:
            results.all["versions"][peer] = version
            results.all["missing"].pop(peer, None)
            chosen.append(peer)
        else:
            results.all["missing"].setdefault(peer, reason)
            print(f"{peer}: not here: {reason}", flush=True)
    return chosen


def measure_all(options, results):
    """Every cell, round by round, the peers in turn. True when nothing failed."""
    peers = choose(options, results)
    fine = True
    for cell in options.cells:
        for number in range(options.rounds):
            for peer in peers[number % len(peers):] + peers[: number % len(peers)]:
                row = {"peer": peer, "cell": cell["name"], "cores": len(os.sched_getaffinity(0)), "round": number}
                try:
                    row.update(one(peer, cell, options))
                except Failed as reason:
                    row["failed"] = str(reason)
                    fine = False
                print(json.dumps(row), flush=True)
                results.all["rows"].append(row)
                results.save()
    return fine


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",") if word]


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, help="images, one folder a class")
    parser.add_argument("--data", required=True, help="a folder for stores and packed datasets, kept between runs")
    parser.add_argument("--out", help="the results, JSON; what is there is added to")
    parser.add_argument("--jobs", type=numbers(int), default=[], help="1,2,4,8: so many jobs, as fast as they can")
    parser.add_argument("--speeds", type=numbers(float), default=[], help="1,.8,.5,.25: a job of each speed")
    parser.add_argument("--step", type=float, default=0.4, help="with --speeds, seconds a step of speed 1 takes")
    parser.add_argument("--epochs", type=int, default=4, help="measured epochs of a job of speed 1")
    parser.add_argument("--memory", type=int, default=256, metavar="MIB",
                        help="Larder's arena")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300,
                        help="seconds that a measurement's start may take, and its epochs: some peers hang")
    parser.add_argument("--peers", type=numbers(str), default=list(PEERS))
    parser.add_argument("--list", default="crop", help="what is done behind the crop and the flip")
    parser.add_argument("--core", type=int, help="everything on this core")
    options = parser.parse_args(given)
    options.folder, options.data = os.path.abspath(options.folder), os.path.abspath(options.data)
    options.count = len(job.files_of(options.folder))
    named = "" if options.list == "crop" else f", {options.list}"
    options.cells = [{"name": f"{jobs} job{'s' * (jobs > 1)}{named}", "jobs": jobs, "speeds": None, "step_s": 0}
                     for jobs in options.jobs]
    if options.speeds:
        options.cells.append({"name": "speeds " + " : ".join(f"{speed:g}" for speed in options.speeds),
                              "jobs": len(options.speeds), "speeds": options.speeds, "step_s": options.step})
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # jobs are in sessions of their own, and end with `finally`
    os.makedirs(options.data, exist_ok=True)
    if options.core is not None:
        os.sched_setaffinity(0, [options.core])
    return 0 if measure_all(options, Results(options.out)) else 1


if __name__ == "__main__":
    sys.exit(main())
