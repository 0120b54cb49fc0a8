#!/usr/bin/env python3
"""./run demo: one larderd on a private socket feeds three training scripts at once, and the figures afterwards. In the
middle of an epoch larderd is killed and started again, and the scripts go on as if nothing had been. With --watch
nothing is killed, and the scripts train until Ctrl-C.

Everything lives in one temporary folder, and every process in a session of its own that ends with this program, by
Ctrl-C as well. Progress is drawn on a terminal; elsewhere there are plain lines.
"""

import argparse
import json
import os
import random
import selectors
import shutil
import signal
import socket as sockets
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = 3
EPOCHS = 2
EPOCHS_WATCHED = 1_000_000
BATCH_SIZE = 64
IMAGES = 600
GRACE_S = 20
READY_S = 60
KILL_AT = 0.4  # of the first epoch, by the script that is furthest, and once all have begun
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

CONFIG = """\
memory:
  arena: 512MiB
  encoded: 256MiB
catalog:
  checkpoint: none
metrics:
  port: {port}
"""


class Failed(Exception):
    """The demo cannot go on; the text says why."""


class Screen:
    """A line that is drawn over on a terminal, and plain lines above it; elsewhere only the plain lines."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self._drawn = False

    def line(self, text=""):
        print(("\r\033[K" if self._drawn else "") + text, flush=True)
        self._drawn = False

    def progress(self, text):
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + text[:width], end="", flush=True)
            self._drawn = True

    def clear(self):
        if self._drawn:
            print("\r\033[K", end="", flush=True)
            self._drawn = False


class Processes:
    """What this program has started. None outlives stop(): a signal that comes while one is being started waits until
    it is known."""

    def __init__(self):
        self._started = []
        self._starting = False
        self._interrupted = False
        for number in SIGNALS:
            signal.signal(number, self._interrupt)

    def _interrupt(self, _number, _frame):
        self._interrupted = True
        if not self._starting:
            raise KeyboardInterrupt

    def start(self, command, **options):
        self._starting = True
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
            self._started.append(process)
        finally:
            self._starting = False
        if self._interrupted:
            raise KeyboardInterrupt
        return process

    def stop(self):
        """The scripts first, in reverse order of starting, and the daemon after them."""
        for process in reversed(self._started):
            end(process)
        self._started.clear()


def end(process):
    """Asks a process to end, and ends it when it does not."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


def bar(share, width=12):
    full = round(min(1, share) * width)
    return "█" * full + "░" * (width - full)


def make_images(bin_folder, folder, processes, screen, count=IMAGES, shape=()):
    """A tree of so many images. `shape`, the number of classes, the width and the height, may be left out."""
    screen.line(f"Making {count:,} photo-like JPEGs …")
    log = folder + ".log"
    command = [os.path.join(bin_folder, "larder_make_images"), folder, str(count), *map(str, shape)]
    with open(log, "wb") as errors:
        maker = processes.start(command, stderr=errors)
    while maker.poll() is None:
        made = sum(len(files) for _, _, files in os.walk(folder))
        screen.progress(f"{bar(made / count, 30)} {made:,} of {count:,}")
        time.sleep(0.1)
    screen.clear()
    if maker.returncode:
        raise Failed("making images failed: " + read(log))


def read(path):
    with open(path, errors="replace") as file:
        return file.read().strip()


def free_port():
    """A port that nobody has, below those that the system gives out by itself: the daemon is started on it twice."""
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with sockets.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise Failed("no free port from 20000 to 32000")


def start_daemon(bin_folder, scratch, processes, text):
    """larderd on a socket in the scratch folder, with this configuration, ready to serve."""
    config, log, socket = (os.path.join(scratch, name) for name in ("larder.yaml", "larderd.log", "socket"))
    with open(config, "w") as file:
        file.write(text)
    ready, ready_far = os.pipe()
    try:
        with open(log, "ab") as errors:
            command = [os.path.join(bin_folder, "larderd"), "--config", config, "--socket", socket]
            command += ["--ready-fd", str(ready_far)]
            daemon = processes.start(command, stdout=errors, stderr=errors, pass_fds=(ready_far,))
        os.close(ready_far)
        ready_far = -1
        with selectors.DefaultSelector() as selector:
            selector.register(ready, selectors.EVENT_READ)
            if not selector.select(READY_S) or not os.read(ready, 1):
                raise Failed("larderd did not start: " + read(log))
    finally:
        os.close(ready)
        if ready_far >= 0:
            os.close(ready_far)
    return daemon, socket, log


class Script:
    """One training script: its process, how far it is, and what it reported. `options` are more of its arguments, and
    `environment` more of its environment."""

    def __init__(self, name, folder, socket, scratch, processes, epochs, options=(), environment=None):
        self.epochs, self.epoch = epochs, 0
        self.name, self.quiet = name, False
        self.report = os.path.join(scratch, self.name + ".json")
        self._errors = os.path.join(scratch, self.name + ".log")
        self._batches = 0
        self.share = 0.0
        self._rest = b""
        command = [sys.executable, os.path.join(HERE, "demo_train.py"), folder, "--epochs", str(epochs), "--batch-size",
                   str(BATCH_SIZE), "--name", self.name, "--report", self.report, "--progress", *options]
        with open(self._errors, "wb") as errors:
            self.process = processes.start(command, stdout=subprocess.PIPE, stderr=errors,
                                           env=dict(os.environ, LARDER_SOCKET=socket, OMP_NUM_THREADS="1",
                                                    OPENBLAS_NUM_THREADS="1", **(environment or {})))

    def read(self, screen):
        """Takes what the script has printed; False at its end."""
        data = os.read(self.process.stdout.fileno(), 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(), screen)
        return bool(data)

    def _take(self, line, screen):
        words = line.split()
        if words[:2] == ["@", "of"]:
            self._batches = max(1, int(words[2]))
        elif words[:1] == ["@"]:
            self.epoch, part = int(words[1]), int(words[2]) / self._batches
            self.share = part if self.epochs == EPOCHS_WATCHED else (self.epoch + part) / self.epochs
        elif self.epochs != EPOCHS_WATCHED and not self.quiet:
            screen.line(f"{self.name}: {line}")

    @property
    def begun(self):
        return self._batches > 0

    def progress(self):
        epoch = f" epoch {self.epoch + 1}" if self.epochs == EPOCHS_WATCHED else ""
        return f"{self.name}{epoch} {bar(self.share)} {self.share:4.0%}"

    def figures(self):
        if self.process.wait():
            raise Failed(f"{self.name} failed: {read(self._errors) or 'status %d' % self.process.returncode}")
        with open(self.report) as file:
            return json.load(file)


def far_enough(scripts):
    """Whether the daemon may be killed: a script that begins while none is there would fail."""
    farthest = max(script.share * script.epochs for script in scripts)
    return farthest >= KILL_AT and all(script.begun for script in scripts)


class Served:
    """The daemon that serves the scripts, and the one after it: it is killed once, in the middle of an epoch."""

    def __init__(self, bin_folder, scratch, processes, screen, spared):
        self._bin, self._scratch, self._processes, self._screen = bin_folder, scratch, processes, screen
        self._before = {}  # the figures of the daemon that was killed
        self._spared, self.killed = spared, False
        self._port = free_port()
        self.page = f"http://127.0.0.1:{self._port}/"
        self._start()

    def _start(self):
        self.process, self.socket, self.log = start_daemon(self._bin, self._scratch, self._processes,
                                                            CONFIG.format(port=self._port))

    def look(self, scripts):
        """Kills the daemon and starts another, once a script has come far enough."""
        if self._spared or self.killed or not far_enough(scripts):
            return
        self._before = daemon_status(self._bin, self.socket)["samples"]
        self.process.kill()
        self.process.wait()
        self.killed = True
        self._screen.line(f"killed larderd (pid {self.process.pid}) in the middle of an epoch")
        self._start()
        self._screen.line(f"started larderd again (pid {self.process.pid})")

    def check(self):
        if self.process.poll() is not None:
            raise Failed("larderd ended: " + read(self.log)[-2000:])

    def samples(self):
        """What both daemons prepared and delivered, as far as the first could be asked."""
        samples = daemon_status(self._bin, self.socket)["samples"]
        return {name: samples[name] + self._before.get(name, 0) for name in ("prepared", "delivered")}


def follow(scripts, served, screen):
    """Shows what the scripts print until the last one ends."""
    with selectors.DefaultSelector() as selector:
        for script in scripts:
            selector.register(script.process.stdout, selectors.EVENT_READ, script)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.read(screen):
                    selector.unregister(key.fileobj)
            served.look(scripts)
            screen.progress("   ".join(s.progress() for s in scripts))
    screen.clear()


def daemon_status(bin_folder, socket):
    result = subprocess.run([os.path.join(bin_folder, "larder"), "status", "--json", "--socket", socket],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    if result.returncode:
        raise Failed("larder status failed: " + result.stderr.decode(errors="replace").strip())
    return json.loads(result.stdout)


def table(scripts, figures, samples, screen):
    screen.line()
    screen.line(f"{'':10} {'samples':>9} {'images/s':>9} {'waiting':>9} {'epochs whole':>13}")
    for script, row in zip(scripts, figures):
        rate = row["samples"] / row["seconds"]
        whole = f"{sum(row['whole'])} of {len(row['whole'])}"
        screen.line(f"{script.name:10} {row['samples']:9,} {rate:9,.0f} {row['wait_s']:7.2f} s {whole:>13}")
    prepared, delivered = samples["prepared"], samples["delivered"]
    ratio = f"{prepared / delivered:.3f}" if delivered else "–"
    screen.line()
    screen.line(f"larderd    prepared {prepared:,}, delivered {delivered:,}: {ratio} prepared for each one delivered")


def verdict(figures, served, screen):
    """Says what the kill cost: nothing, or the demo has failed."""
    if not all(all(row["whole"]) for row in figures):
        raise Failed("a script did not get each sample exactly once in each epoch: " + read(served.log)[-2000:])
    if served.killed:
        again = sum(row["reconnects"] > 0 for row in figures)
        who = f"{again} scripts connected again" if again else "the scripts had all they needed by then"
        screen.line(f"larderd was killed once, and {who}: each still got each sample exactly once an epoch")


def saved(samples, page, screen):
    """In words what sharing saved, and where a daemon of one's own shows it."""
    prepared, delivered = samples["prepared"], samples["delivered"]
    if delivered > prepared:
        part = (delivered - prepared) / delivered
        screen.line(f"Saved: on their own, {SCRIPTS} scripts would have read, decoded and augmented {delivered:,} "
                    f"images; larderd did it for {prepared:,}, {part:.0%} less work")
    else:
        screen.line("Saved: nothing this time; the scripts were too far from each other to share")
    screen.line(f"larderd's page was {page} while it ran; ./run demo --watch keeps it there until Ctrl-C")


def watch(scripts, served, processes, screen):
    """Lets the scripts train until Ctrl-C."""
    screen.line(f"larderd's page is {served.page}; Ctrl-C ends this")
    try:
        follow(scripts, served, screen)
        served.check()
        for script in scripts:
            script.figures()
    except KeyboardInterrupt:
        screen.clear()
    samples = served.samples()
    processes.stop()
    saved(samples, served.page, screen)


def show(options, scratch, processes, screen):
    folder = options.folder and os.path.abspath(options.folder)
    if not folder:
        folder = os.path.join(scratch, "images")
        make_images(options.bin, folder, processes, screen)
    served = Served(options.bin, scratch, processes, screen, options.watch)
    epochs = EPOCHS_WATCHED if options.watch else options.epochs
    screen.line(f"One larderd (pid {served.process.pid}), {SCRIPTS} training scripts, "
                f"{'' if options.watch else f'{epochs} epochs, '}batches of {BATCH_SIZE}")
    scripts = [Script(f"script-{number + 1}", folder, served.socket, scratch, processes, epochs)
               for number in range(SCRIPTS)]
    if options.watch:
        watch(scripts, served, processes, screen)
        return
    follow(scripts, served, screen)
    served.check()
    figures = [script.figures() for script in scripts]
    # What a daemon delivers between the last question to it and its end, it tells nobody: the scripts know all of it.
    samples = {**served.samples(), "delivered": sum(row["samples"] for row in figures)}
    processes.stop()
    if served.process.returncode:
        raise Failed(f"larderd ended with status {served.process.returncode}: {read(served.log)[-2000:]}")
    table(scripts, figures, samples, screen)
    verdict(figures, served, screen)
    saved(samples, served.page, screen)


def run(options, show):
    """Runs show(options, scratch, processes, screen) with a folder and processes that end with it. Gives the exit
    status."""
    screen, processes = Screen(), Processes()
    scratch = tempfile.mkdtemp(prefix="larder-demo-")
    status = 0
    try:
        show(options, scratch, processes, screen)
    except Failed as error:
        screen.clear()
        print(f"demo: {error}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        screen.clear()
        print("demo: interrupted", file=sys.stderr)
        status = 130
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it behind
        processes.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="a folder with one folder a class; without it images are made")
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "..", "..", "build", "bin"), help="where larderd is")
    parser.add_argument("--watch", action="store_true", help="train until Ctrl-C")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    return run(parser.parse_args(), show)


if __name__ == "__main__":
    sys.exit(main())
