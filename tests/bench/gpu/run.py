#!/usr/bin/env python3
"""Several real trainings side by side on one GPU, fed in turns by DataLoaders, Larder, DALI and synthetic data.

    run.py --data FOLDER --out REPORT.json [--limit 570] [--jobs 4,8,1,2,6] [--models resnet18,resnet50] …

One go, within --limit seconds: it makes its dataset, and measures cell by cell, the most telling first. REPORT.json,
and the same as tables in REPORT.md, are written after each cell; what there was no time for, or what failed, is named.
README.md says what is measured."""

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
sys.path[1:1] = [os.path.join(SOURCE, "tests", "bench", "peers"), os.path.join(SOURCE, "tests", "system", "python")]

import measure  # noqa: E402
import report  # noqa: E402
import system  # noqa: E402

BETWEEN_S = 12  # what a cell takes besides measuring, at most in general
CONFIG = """\
memory:
  arena: {arena}
  encoded: {encoded}
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


class Failed(Exception):
    pass


class Script:
    """A process of train.py."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "train.py")], cwd=HERE, text=True,
                                        env=dict(os.environ, OMP_NUM_THREADS="1"), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)

    def ask(self, **command):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def answer(self):
        """What it says next; libraries may print lines of their own before it."""
        for line in self.process.stdout:
            if line.startswith("{"):
                said = json.loads(line)
                if "failed" in said:
                    raise Failed(said["failed"])
                return said
        raise Failed(f"the training ended with {self.process.wait()}")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Gpu:
    """What NVML tells of the first GPU: its name, how busy it is, what it has used. Nothing where there is no NVML."""

    def __init__(self):
        self._nvml = self._device = None
        with contextlib.suppress(Exception):  # no package, or no driver
            import pynvml
            pynvml.nvmlInit()
            self._device = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._nvml = pynvml

    @property
    def name(self):
        name = self._nvml.nvmlDeviceGetName(self._device) if self._nvml else None
        return name.decode() if isinstance(name, bytes) else name

    def joules(self):
        with contextlib.suppress(Exception):
            return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device) / 1000
        return None

    @contextlib.contextmanager
    def watched(self):
        """A list that gets how busy it is, in %, five times a second."""
        found, over = [], threading.Event()

        def watch():
            while not over.wait(.2):
                found.append(self._nvml.nvmlDeviceGetUtilizationRates(self._device).gpu)

        thread = threading.Thread(target=watch)
        if self._nvml:
            thread.start()
        try:
            yield found
        finally:
            over.set()
            if self._nvml:
                thread.join()


class Run:
    def __init__(self, options):
        self.options, self.gpu, self.cores = options, Gpu(), len(os.sched_getaffinity(0))
        self.end = time.monotonic() + options.limit
        self.images = os.path.join(options.data, f"images-{options.images}")
        self.store = self.images + ".store"
        self.scripts = []
        self.report = {"machine": self.machine(), "options": vars(options), "cells": [], "left_out": []}

    def machine(self):
        import torch
        import torchvision
        larderd = subprocess.run([os.path.join(system.BIN, "larderd"), "--version"], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.splitlines()[0]
        return {"gpu": self.gpu.name, "cores": self.cores, "torch": torch.__version__,
                "torchvision": torchvision.__version__, "cuda": torch.version.cuda, "larder": larderd,
                "python": platform.python_version(), "kernel": platform.release()}

    def save(self):
        with open(self.options.out + ".new", "w", encoding="utf-8") as file:
            json.dump(self.report, file, indent=1)
        os.replace(self.options.out + ".new", self.options.out)
        with open(os.path.splitext(self.options.out)[0] + ".md", "w", encoding="utf-8") as file:
            file.write(report.tables(self.report))

    def left_s(self):
        return self.end - time.monotonic()

    def attempt(self, what, least_s, function, *arguments):
        """What the function gives goes into the report; so does that it failed, or that there was no time."""
        print(f"{self.left_s():6.0f} s left: {what}", flush=True)
        if self.left_s() < least_s:
            self.report["left_out"].append(f"{what}: no time")
        else:
            try:
                function(*arguments)
            except Exception as error:  # what else there is to measure is measured
                self.report["left_out"].append(f"{what}: {str(error)[-1500:]}")
                self.renew()
        self.save()

    def renew(self):
        """After a failure a training may be anywhere: all begin anew."""
        for script in self.scripts:
            script.close()
        self.scripts = []

    def trainings(self, count):
        fresh = [Script() for _ in range(count - len(self.scripts))]
        self.scripts += fresh
        for script in fresh:
            script.answer()  # that it is up
        return self.scripts[:count]

    def prepare(self):
        import images
        images.make(self.images, self.options.images, self.cores)
        if not os.path.exists(self.store):
            subprocess.run([os.path.join(system.BIN, "larder"), "pack", self.images, self.store, "--planes"],
                           check=True, stdout=subprocess.DEVNULL)

    @contextlib.contextmanager
    def daemon(self, variant):
        """The socket of a daemon that has prepared nothing yet, for Larder's variants."""
        if not variant.startswith("larder"):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="larder-gpu-") as folder:
            daemon = system.Daemon(folder, CONFIG.format(arena=self.options.arena, encoded=self.options.encoded))
            try:
                yield daemon.socket
            finally:
                daemon.stop()

    def spec(self, variant, model, jobs, socket, seed):
        divided = max(1, self.cores // jobs)
        return {"variant": variant, "model": model, "device": self.options.device, "batch": self.options.batch,
                "size": self.options.size, "seed": seed, "socket": socket, "seconds": self.options.seconds,
                "steps": self.options.steps, "folder": self.store if variant == "larder-planes" else self.images,
                "workers": self.cores if variant == "loader-all" else divided}

    def together(self, do, variant, model, jobs):
        """What each of the trainings answers, and what there is to tell of the time in which they trained."""
        with self.daemon(variant) as socket:
            scripts = self.trainings(jobs)
            for seed, script in enumerate(scripts):
                script.ask(do=do, **self.spec(variant, model, jobs, socket, seed))
            for script in scripts:
                script.answer()  # that it is ready
            with self.gpu.watched() as busy:
                cpu, joules, began = measure.below_s(os.getpid()), self.gpu.joules(), time.monotonic()
                for script in scripts:
                    script.ask(do="go")
                answers = [script.answer() for script in scripts]
                took = time.monotonic() - began
            now = self.gpu.joules()
            return answers, {"cpu_s": measure.below_s(os.getpid()) - cpu, "wall_s": took,
                             "gpu_busy": statistics.mean(busy) if busy else None,
                             "joules": None if joules is None or now is None else now - joules}

    def cell(self, variant, model, jobs):
        answers, more = self.together("cell", variant, model, jobs)
        self.report["cells"].append({"variant": variant, "model": model, "jobs": jobs, "trainings": answers, **more})

    def losses(self, model, jobs):
        self.report["losses"] = {variant: [answer["losses"] for answer in
                                           self.together("losses", variant, model, jobs)[0]]
                                 for variant in ("loader-divided", "larder")}

    def copies(self):
        import copies
        self.report["copies"] = copies.measure()

    def all(self):
        options = self.options
        self.attempt("the dataset", 0, self.prepare)
        if options.device == "cuda":
            self.attempt("copies to the device", 20, self.copies)
        cell_s = options.seconds + BETWEEN_S
        for at, (model, jobs) in enumerate((model, jobs) for model in options.models for jobs in options.jobs):
            for variant in options.variants:
                self.attempt(f"{model}, {jobs} jobs, {variant}", cell_s, self.cell, variant, model, jobs)
            if at == 0:
                self.attempt("losses", 3 * cell_s, self.losses, model, jobs)


def words(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def variants_here():
    """All that is asked for without a word: DALI's where it is installed."""
    there = importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.dali")
    return ["loader-divided", "loader-all", "larder", "larder-planes", "synthetic",
            *(["dali-cpu", "dali-gpu"] if there else [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="a folder for the dataset, kept between runs")
    parser.add_argument("--out", required=True, help="the report, JSON; tables are written beside it")
    parser.add_argument("--limit", type=float, default=570, help="seconds that it may take")
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--jobs", type=words(int), default=[4, 8, 1, 2, 6])
    parser.add_argument("--models", type=words(str), default=["resnet18", "resnet50"], help="or tiny, for a CPU")
    parser.add_argument("--variants", type=words(str), default=variants_here())
    parser.add_argument("--seconds", type=float, default=8, help="that a cell is measured for")
    parser.add_argument("--steps", type=int, default=200, help="of which losses are compared")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--arena", default="25%", help="the daemon's memory for prepared samples")
    parser.add_argument("--encoded", default="10%", help="and for files' bytes")
    options = parser.parse_args()
    options.data, options.out = os.path.abspath(options.data), os.path.abspath(options.out)
    os.makedirs(options.data, exist_ok=True)
    run = Run(options)
    try:
        run.all()
    finally:
        run.renew()
        run.save()
    return 1 if any("no time" not in text for text in run.report["left_out"]) else 0


if __name__ == "__main__":
    sys.exit(main())
