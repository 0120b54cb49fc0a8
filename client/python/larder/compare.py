"""What several trainings cost with torch's DataLoader, and with one larderd, on this machine and these images.

    larder plan FOLDER --compare [--jobs 4] [--epochs 2] [--images 1000] [--compose MODULE:NAME] [--json]

Both read the same images with the same transforms, and do nothing with the batches. The DataLoader is torch's with two
worker processes over torchvision's ImageFolder. Larder is a daemon of its own, which ends with this program, with one
job a script. Files are read once before, so that both find them in the page cache. Processor time is counted of
everything that works for the jobs: their loops, the DataLoader's workers, the daemon. It hardly depends on what else
runs. What it does is told on standard error, a line a step. Exit status: 0 compared, 1 failed, 2 wrong usage, 130
stopped by a signal."""

import argparse
import contextlib
import importlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

WORKERS = 2
BATCH_SIZE = 64
CONFIG = "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED = 130
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(words=None):
    parser = argparse.ArgumentParser(prog="larder plan --compare", description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="one folder a class, as torchvision's ImageFolder reads it")
    parser.add_argument("--jobs", type=int, default=4, help="trainings side by side, 1 to 64 (4)")
    parser.add_argument("--epochs", type=int, default=2, help="of each (2)")
    parser.add_argument("--images", type=int, default=1000, help="so many of the folder, drawn at random (1000)")
    parser.add_argument("--compose", metavar="MODULE:NAME", help="a torchvision Compose of a module of yours; else "
                        "RandomResizedCrop(224), RandomHorizontalFlip()")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--side", choices=("torch", "larder"), help=argparse.SUPPRESS)
    parser.add_argument("--indices", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if not 1 <= options.jobs <= 64 or options.epochs < 1 or options.images < 1:
        parser.error("--jobs is 1 to 64; --epochs and --images are 1 or more")
    if options.side:
        return _side(options)
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    return _compare(options)


class _Beginning:
    """Whether a process is being started, and whether a signal has come meanwhile."""

    now = late = False


def _begin(keep, words, **how):
    """Starts a process, in a session of its own, and gives it to keep(). A signal that comes meanwhile stops this one
    after that: else it would not know of the process, and leave it."""
    _Beginning.now = True
    try:
        keep(subprocess.Popen(words, start_new_session=True, **how))
    finally:
        _Beginning.now = False
        if _Beginning.late:
            _stop()


def _stop(*_):
    """Ends the comparison where it is: whatever it began is cleared away on the way out."""
    _Beginning.late = True
    if _Beginning.now:
        return
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _say("stopped")
    raise SystemExit(STOPPED)


def _say(text):
    print(f"larder.compare: {text}", file=sys.stderr, flush=True)


def _compare(options):
    _say(f"trains up to {options.epochs} x {options.images:,} images of {options.folder} with torch's DataLoader and "
         "with Larder, without a model: a minute or so on a quiet machine, several on a busy one. Loading torch …")
    try:
        import torch  # noqa: F401
        import torchvision
    except (ImportError, OSError) as missing:  # OSError: a library that torch needs is missing
        _say(f"{sys.executable} was asked, and cannot load torch and torchvision, which this compares with: {missing}. "
             "With the Python that you train with: YOUR_PYTHON -m larder.compare FOLDER …")
        return 1
    from . import InvalidArgument, from_torchvision
    try:
        from_torchvision(_compose(options))
        data = torchvision.datasets.ImageFolder(options.folder)
    except (ImportError, AttributeError, InvalidArgument) as error:
        _say(f"{options.compose}: {error}")
        return 1
    except OSError as error:  # no such folder, or one without classes
        _say(f"{options.folder}: {error}")
        return 1
    compared = Comparison(options, data).run()
    print(json.dumps(compared) if options.json else told(compared))
    return 0


# ── the two sides, each in processes of its own ──

def _compose(options):
    if options.compose:
        module, _, name = options.compose.partition(":")
        sys.path.insert(0, os.getcwd())
        return getattr(importlib.import_module(module), name)
    from torchvision import transforms
    return transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                               transforms.PILToTensor()])


def _torch_batches(options, indices):
    import torch
    from torchvision.datasets import ImageFolder
    torch.set_num_threads(1)
    data = torch.utils.data.Subset(ImageFolder(options.folder, _compose(options)), indices)
    return torch.utils.data.DataLoader(data, BATCH_SIZE, shuffle=True, num_workers=WORKERS)


def _larder_batches(options, indices):
    import larder
    pipeline = (larder.from_torchvision(_compose(options)) if options.compose else
                [larder.RandomResizedCrop(224), larder.RandomHorizontalFlip()])
    return larder.Loader(options.folder, pipeline, BATCH_SIZE, subset=larder.Indices(indices), epochs=options.epochs)


def _processor_s():
    """Of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _side(options):
    """One training: it says when it is ready, begins when it is told to, and prints what it took."""
    with open(options.indices, encoding="utf-8") as file:
        indices = json.load(file)
    batches = (_torch_batches if options.side == "torch" else _larder_batches)(options, indices)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return 1  # who asked is gone
    before, samples = _processor_s(), 0
    for _ in range(options.epochs):
        for _, labels in batches:
            samples += len(labels)
    print(json.dumps({"samples": samples, "processor_s": _processor_s() - before}), flush=True)
    return 0


# ── what is measured ──

class Comparison:
    """Both sides over the same images of a folder."""

    def __init__(self, options, data):
        self.options, self.size = options, len(data)
        self.indices = sorted(random.Random(1).sample(range(self.size), min(options.images, self.size)))
        self.paths = [data.samples[index][0] for index in self.indices]

    def run(self):
        several = self.options.jobs > 1
        self._steps = iter(range(1, 4 if several else 3))
        self._of, self._began = 3 if several else 2, time.monotonic()
        for path in self.paths:
            with open(path, "rb") as file:
                file.read()
        with tempfile.TemporaryDirectory(prefix="larder-compare-") as folder:
            list_path = os.path.join(folder, "indices")
            with open(list_path, "w", encoding="utf-8") as file:
                json.dump(self.indices, file)
            self._step("one DataLoader")
            torch = self._trained("torch", 1, list_path, {})
            self._step("one job of Larder")
            one = many = self._with_daemon(folder, 1, list_path)
            if several:
                self._step(f"{self.options.jobs} jobs of Larder at once")
                many = self._with_daemon(folder, self.options.jobs, list_path)
        return {"folder": self.options.folder, "dataset": self.size, "images": len(self.indices),
                "epochs": self.options.epochs, "jobs": self.options.jobs, "compose": self.options.compose,
                "cores": len(os.sched_getaffinity(0)), "dataloader": torch, "larder_1": one, "larder": many}

    def _step(self, what):
        _say(f"{time.monotonic() - self._began:.0f} s: step {next(self._steps)} of {self._of}: {what}, "
             f"{self.options.epochs} x {len(self.indices):,} images")

    def _trained(self, side, jobs, indices, environment):
        """So many trainings at once: their samples and processor time together."""
        words = [sys.executable, "-m", "larder.compare", self.options.folder, "--side", side, "--indices", indices,
                 "--epochs", str(self.options.epochs)]
        words += ["--compose", self.options.compose] if self.options.compose else []
        path = os.pathsep.join(filter(None, (PACKAGES, os.environ.get("PYTHONPATH"))))
        scripts = []
        try:
            for _ in range(jobs):  # in sessions of their own: Ctrl-C is for this process, which ends them
                _begin(scripts.append, words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                       env=dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1", **environment))
            for script in scripts:
                if script.stdout.readline() != "ready\n":
                    raise SystemExit(f"larder.compare: {side}: it did not begin: the error above says why")
            for script in scripts:
                script.stdin.write("go\n")
                script.stdin.flush()
            took = [json.loads(script.stdout.readline() or "null") for script in scripts]
            if None in took:
                raise SystemExit(f"larder.compare: {side}: a training ended early: the error above says why")
        finally:
            for script in scripts:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(script.pid, signal.SIGKILL)  # the DataLoader's workers too
                script.communicate()
        return {"samples": sum(one["samples"] for one in took), "processor_s": sum(one["processor_s"] for one in took)}

    def _with_daemon(self, folder, jobs, indices):
        """The same with a fresh daemon, whose own time counts too."""
        with Daemon(folder) as daemon:
            before = daemon.processor_s()
            took = self._trained("larder", jobs, indices, {"LARDER_SOCKET": daemon.socket})
            took["processor_s"] += daemon.processor_s() - before
            took["prepared"] = daemon.prepared()
        return took


class Daemon:
    """A larderd on a socket of its own, as it is without a configuration."""

    def __init__(self, folder):
        from ._autostart import find_daemon
        program = find_daemon()
        if not program:
            raise SystemExit("larder.compare: no larderd was found: set LARDERD to it, or put it in PATH")
        self.socket = os.path.join(folder, "socket")
        config = os.path.join(folder, "larder.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        ready, far = os.pipe()
        self.process = None
        try:
            with open(os.path.join(folder, "log"), "ab") as log:
                _begin(self._keep, [program, "--config", config, "--socket", self.socket, "--ready-fd", str(far)],
                       pass_fds=(far,), stdin=subprocess.DEVNULL, stderr=log)
            os.close(far)
            with open(ready, "rb", closefd=True) as said:
                came = said.readline()  # dots, and a line's end when scripts can connect
            if not came.endswith(b"\n"):
                with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as log:
                    raise SystemExit("larder.compare: larderd did not start: " + log.read())
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def _keep(self, process):
        self.process = process

    def processor_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def prepared(self):
        from ._control import status
        told = status(self.socket)
        return None if told is None else told["samples"]["prepared"]


# ── what is said ──

def _cost_ms(side):
    return 1000 * side["processor_s"] / max(side["samples"], 1)


def told(compared):
    jobs, cores = compared["jobs"], compared["cores"]
    rows = [("1 DataLoader", compared["dataloader"], 1), (f"{jobs} DataLoaders", compared["dataloader"], jobs),
            ("1 job of Larder", compared["larder_1"], 1), (f"{jobs} jobs of Larder", compared["larder"], jobs)]
    lines = [f"{compared['folder']}: {compared['images']:,} of {compared['dataset']:,} images, {compared['epochs']} "
             f"epochs, {cores} cores", "", f"{'':18}{'core-ms':>10}{'images a':>14}{'images/s that':>19}",
             f"{'':18}{'an image':>10}{'core-second':>14}{'each job can get':>19}"]
    for name, side, count in rows if jobs > 1 else rows[::2]:
        cost = max(_cost_ms(side), 1e-6)
        lines.append(f"{name:18}{cost:>10.2f}{1000 / cost:>14,.0f}{1000 * cores / cost / count:>19,.0f}")
    theirs, ours = (jobs * compared["dataset"] * _cost_ms(compared[side]) / 1000 for side in ("dataloader", "larder"))
    what = "1 job" if jobs == 1 else f"{jobs} jobs"
    lines += ["", f"An epoch of {what} over the whole folder takes the DataLoader {theirs:,.1f} core-seconds and "
                  f"Larder {ours:,.1f}:", f"{100 * (1 - ours / theirs):.0f} % less."]
    if compared["larder"].get("prepared") is not None:
        delivered = compared["larder"]["samples"]
        lines[-1] += (f" Larder prepared {compared['larder']['prepared']:,} images for {delivered:,} that it "
                      "delivered.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
