#!/usr/bin/env python3
"""What neighbours cost a job: how long it waits for batches alone, and beside jobs that are slow, stopped or dying, and
beside a data-parallel job one of whose ranks is slow.

    neighbours.py --dataset FOLDER        medians of 5 runs of each, in turn
    neighbours.py --short                 a test: small made images, 3 runs, and limits

The job takes a fixed time a training step. Its stall is what it waits after its first batch. The neighbours have a
pipeline of their own, so that they share nothing prepared and take whatever the daemon gives them. The ranks' shares
are checked: exact, and the same number of batches each.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system", "python"))
import system  # noqa: E402

CONFIG = system.CONFIG.replace("arena: 128MiB", "arena: 256MiB") + "threads:\n  workers: 2\n  loaders: 2\n"
RANKS = 4


class Scene:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="larder-")
        self.daemon = system.Daemon(self.folder.name, CONFIG)
        self.scripts = []

    def script(self, name, step_s, crop, **more):
        options = {"dataset": self.options.dataset, "name": name, "batch_size": 16, "epochs": 1, "step_s": step_s,
                   "pipeline": [{"random_resized_crop": {"size": crop}}, "random_horizontal_flip"],
                   "timeout": 60 * system.SLOW, **more}
        script = system.Script(self.daemon.socket, **options)
        self.scripts.append(script)
        return script

    def got(self, script, batches):
        if not system.until(lambda: len(script.batches) >= batches or script.process.poll() is not None, 60):
            raise AssertionError("a job gets no batches: " + self.daemon.log())

    def job(self):
        """The job that is measured, to its end: its stall in seconds."""
        subset = {"range": [0, self.options.samples]}
        script = self.script("measured", self.options.step, 192, subset=subset)
        if script.wait(180):
            raise AssertionError(f"{script.end} {script.errors} {self.daemon.log()}")
        if sum(len(indices) for _, _, indices in script.batches) != self.options.samples:
            raise AssertionError("the job did not get its samples")
        return script.waits[-1] - script.waits[0]

    def close(self):
        for script in self.scripts:
            script.close()
        self.daemon.stop()
        self.folder.cleanup()


def alone(scene):
    return scene.job()


def beside_slow(scene):
    scene.got(scene.script("slow", scene.options.step * 8, 160, epochs=100), 2)
    return scene.job()


def beside_stopped(scene):
    stopped = scene.script("stopped", 0, 160, epochs=100)
    scene.got(stopped, 4)
    stopped.kill(signal.SIGSTOP)
    return scene.job()


def beside_dying(scene):
    """One is killed while the job runs, and another has just been."""
    for name in ("died", "dies"):
        dying = scene.script(name, scene.options.step, 160, epochs=100)
        scene.got(dying, 4)
        if name == "died":
            dying.kill()
    script = scene.script("measured", scene.options.step, 192, subset={"range": [0, scene.options.samples]})
    scene.got(script, max(2, scene.options.samples // 16 // 3))
    dying.kill()
    if script.wait(180):
        raise AssertionError(f"{script.end} {script.errors}")
    return script.waits[-1] - script.waits[0]


def check_lines(scene):
    """The governor sees each rank, and a job beside them, as a queue of its own, and measures its training step."""
    ranks = [scene.script("ddp", scene.options.step, 160, rank=rank, world_size=RANKS, epochs=1000)
             for rank in range(RANKS)]
    ranks.append(scene.script("beside", scene.options.step, 192, epochs=1000))
    rows = []

    def measured():
        jobs = scene.daemon.jobs()
        rows[:] = [queue["governor"] for name in ("ddp", "beside") if name in jobs for queue in jobs[name]["queues"]]
        return len(rows) == RANKS + 1 and all(row["train_ms"] and row["prepare_ms"] for row in rows)

    for script in ranks:
        scene.got(script, 4)
    if not system.until(measured, 60):
        raise AssertionError(f"what the governor knows of the ranks: {rows} {scene.daemon.log()}")
    if len({row["line"] for row in rows}) != RANKS + 1:
        raise AssertionError(f"ranks share queues of the governor: {rows}")


def beside_ranks(scene):
    """Four ranks, one of which takes twice as long a step."""
    ranks = [scene.script("ddp", scene.options.step * (4 if rank == 0 else 2), 160, rank=rank, world_size=RANKS,
                          subset={"range": [0, scene.options.samples]}) for rank in range(RANKS)]
    scene.got(ranks[-1], 1)
    stall = scene.job()
    for script in ranks:
        if script.wait(180):
            raise AssertionError(f"{script.end} {script.errors} {scene.daemon.log()}")
    shares = [[index for _, _, indices in script.batches for index in indices] for script in ranks]
    counts = Counter(sum(shares, []))
    repeats = -(-scene.options.samples // RANKS) * RANKS - scene.options.samples
    if len({len(script.batches) for script in ranks}) != 1 or len({len(share) for share in shares}) != 1:
        raise AssertionError(f"ranks got {[len(share) for share in shares]} samples")
    if set(counts) != set(range(scene.options.samples)) or sum(counts.values()) - len(counts) != repeats:
        raise AssertionError("the ranks' shares are not the dataset once")
    scene.options.rank_stalls.append([script.waits[-1] - script.waits[0] for script in ranks])
    return stall


KINDS = (alone, beside_slow, beside_stopped, beside_dying, beside_ranks)


def measure(options):
    stalls = {kind: [] for kind in KINDS}
    for _ in range(options.runs):
        for kind in KINDS:
            scene = Scene(options)
            try:
                stalls[kind].append(kind(scene))
            finally:
                scene.close()
    return stalls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", help="a folder of images; by default small ones are made")
    parser.add_argument("--samples", type=int, default=960)
    parser.add_argument("--step", type=float, default=0.06, help="seconds a step of the measured job takes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    options.rank_stalls = []
    if options.short:
        options.samples, options.step, options.runs = 322, 0.03, 3
    options.dataset = os.path.abspath(options.dataset) if options.dataset else system.tree(max(options.samples, 400))
    began = time.monotonic()
    scene = Scene(options)
    try:
        check_lines(scene)
    finally:
        scene.close()
    stalls = measure(options)
    busy = options.samples / 16 * options.step
    base = statistics.median(stalls[alone])
    print(f"{options.samples} samples in batches of 16, {busy:.1f} s of training; stall in seconds, median (all runs)")
    failed = False
    for kind in KINDS:
        median = statistics.median(stalls[kind])
        print(f"{kind.__name__:<16}{median:8.3f}   ({', '.join(f'{stall:.3f}' for stall in sorted(stalls[kind]))})")
        failed |= options.short and median > base + max(0.25 * busy, 0.3) * system.SLOW
    ranks = zip(*options.rank_stalls)
    medians = ", ".join(f"{statistics.median(rank):.3f}" for rank in ranks)
    print(f"ranks' own stalls, medians: {medians} (the first is slow)")
    print(f"measured in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
