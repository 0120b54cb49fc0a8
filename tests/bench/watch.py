#!/usr/bin/env python3
"""What it costs to look at a daemon: metrics and the live page, on this machine's cores.

    watch.py [--rounds 7] [--seconds 6] [--jobs 64] [--samples 100000] [--only idle|busy|loop]

idle   So many jobs (--jobs), each on all of so many samples, and none of them trains. Another process asks for /metrics
       and for the page's JSON (/api/v1/live) once a second each. Processor time of the whole daemon with and without
       it, by turns. Then how long an answer of each takes that is made anew.
busy   Three jobs that train. The same process asks, by turns with none. Processor time of the thread that answers, what
       the jobs get, and the part of the time that their scripts stand still.
loop   One job that takes all it can get. Another process, another user's where this is root's, asks for /metrics and
       for the page's JSON as fast as it is answered, by turns with none. What the job gets; and, which other programs
       on the machine change less, the processor time of the thread that answers and of the one who asks.

Medians over the rounds, and all rounds' figures. LARDER_BIN says which build.
"""

import argparse
import encodings.idna  # noqa: F401 (http.client imports it late, when its user may not read this Python any more)
import http.client
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import Daemon, Script, free_port, larder, tree, until  # noqa: E402

PATHS = ("/metrics", "/api/v1/live")
CONFIG = """\
memory: {{arena: 256MiB, encoded: 256MiB}}
catalog: {{checkpoint: none}}
metrics: {{port: {port}}}
limits: {{jobs: 128}}
"""
PIPELINE = [{"random_resized_crop": {"size": 160}}, "random_horizontal_flip"]
EPOCHS = 1000000
FRESH_S = 1.1   # an answer is at most a second old
SETTLE_S = 0.5  # after each turn
NOBODY = 65534
ANSWERS = 12


def ask(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {body.decode()}")
    return body


def asks(port, period_s):
    """What the process that asks does, until it is killed."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    count = 0
    signal.signal(signal.SIGTERM, lambda *_: (print(count, time.process_time(), flush=True), os._exit(0)))
    while True:
        for path in PATHS:
            ask(connection, path)
            count += 1
        time.sleep(period_s)


class Asker:
    """The process that asks; `answers` is how many answers it got, `cpu_s` its processor time."""

    def __init__(self, port, period_s):
        self._process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--asks", str(port),
                                          str(period_s)], stdout=subprocess.PIPE, text=True)
        self.answers, self.cpu_s = 0, 0.0

    def __enter__(self):
        time.sleep(SETTLE_S)
        if self._process.poll() is not None:
            raise SystemExit("the process that asks has ended")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        answers, cpu_s = self._process.communicate()[0].split()
        self.answers, self.cpu_s = int(answers), float(cpu_s)
        time.sleep(SETTLE_S)


class Nobody:
    """In the turns in which nobody asks."""

    answers, cpu_s = 0, 0.0

    def __enter__(self):
        time.sleep(SETTLE_S)
        return self

    def __exit__(self, *_):
        time.sleep(SETTLE_S)


def thread_times(pid):
    """By name: nanoseconds that the threads of a process were on a core."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                times[name] = times.get(name, 0) + int(file.read().split()[0])
        except OSError:
            pass  # it has ended
    return times


def over(daemon, seconds):
    """(begin, end, {thread: share of a core}) of so many seconds."""
    began, before = time.monotonic(), thread_times(daemon.process.pid)
    time.sleep(seconds)
    after, ended = thread_times(daemon.process.pid), time.monotonic()
    return began, ended, {name: (after[name] - before.get(name, 0)) / 1e9 / (ended - began) for name in after}


def by_turns(options, daemon, port, period_s, look):
    """look(begin, end, shares) of each round's turn without and with somebody who asks: two lists."""
    without, asked, answers, cpu_s, seconds = [], [], 0, 0.0, 0.0
    for number in range(options.rounds):
        for watched in (False, True) if number % 2 == 0 else (True, False):
            watcher, began = Asker(port, period_s) if watched else Nobody(), time.monotonic()
            with watcher:
                (asked if watched else without).append(look(*over(daemon, options.seconds)))
            answers, cpu_s = answers + watcher.answers, cpu_s + watcher.cpu_s
            seconds += (time.monotonic() - began) * watched
    print(f"  {answers} answers in {seconds:.0f} s; who asks took {100 * cpu_s / seconds:.2f} % of a core")
    return without, asked


def told(name, values, form):
    print(f"  {name:<44}{form.format(statistics.median(values)):>10}   "
          f"({', '.join(form.format(value) for value in values)})", flush=True)


def small_files(folder, count, classes=10):
    for label in range(classes):
        os.makedirs(os.path.join(folder, str(label)))
    for number in range(count):
        with open(os.path.join(folder, str(number % classes), f"{number:07}"), "wb") as file:
            file.write(b"%d" % number)
    return folder


def idle(options, folder):
    port = free_port()
    data = small_files(os.path.join(folder, "files"), options.samples)
    daemon = Daemon(folder, CONFIG.format(port=port))
    loaders = [larder.Loader(data, [], 8, name=f"job {number}", socket=daemon.socket, output="numpy", all_files=True,
                             prefetch=1) for number in range(options.jobs)]
    for loader in loaders:
        next(iter(loader))
    print(f"idle: {options.jobs} jobs of {options.samples:,} samples")
    without, asked = by_turns(options, daemon, port, 1, lambda began, ended, shares: 100 * sum(shares.values()))
    told("daemon, nobody asks: % of a core", without, "{:.2f}")
    told("daemon, both asked once a second: % of a core", asked, "{:.2f}")
    told("difference", [b - a for a, b in zip(without, asked)], "{:.2f}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for path in PATHS:
        took_ms, size = [], 0
        for _ in range(ANSWERS):
            time.sleep(FRESH_S)
            began = time.perf_counter()
            size = len(ask(connection, path))
            took_ms.append(1e3 * (time.perf_counter() - began))
        told(f"{path}, {size:,} bytes: ms, made anew", sorted(took_ms), "{:.1f}")
    connection.close()
    for loader in loaders:
        loader.close()
    daemon.stop()


def trained(script, began, ended):
    """(samples a second, the part of the time that it stood still) of a script between two moments."""
    inside = [(batch, wait_s) for batch, wait_s in zip(list(script.batches), list(script.waits))
              if began <= batch[0] <= ended]
    if len(inside) < 3:
        raise SystemExit(f"a script gets no batches: {script.errors}")
    seconds = inside[-1][0][0] - inside[0][0][0]
    return (sum(len(batch[2]) for batch, _ in inside[1:]) / seconds, (inside[-1][1] - inside[0][1]) / seconds)


def train(options, daemon, data, names, step_s):
    scripts = [Script(daemon.socket, dataset=data, pipeline=PIPELINE, batch_size=32, epochs=EPOCHS, name=name,
                      step_s=step_s) for name in names]
    for script in scripts:
        if not until(lambda script=script: len(script.batches) > 20 or script.end, 60) or script.end:
            raise SystemExit(f"a script gets no batches: {script.end} {script.errors} {daemon.log()}")
    return scripts


def busy(options, folder):
    port = free_port()
    daemon = Daemon(folder, CONFIG.format(port=port))
    scripts = train(options, daemon, tree(1200, width=320, height=240), ("one", "two", "three"), options.step)
    print(f"busy: 3 jobs, a training step of 32 samples takes {1000 * options.step:.0f} ms")

    def look(began, ended, shares):
        jobs = [trained(script, began, ended) for script in scripts]
        return 100 * shares["larder-http"], sum(job[0] for job in jobs), 100 * statistics.mean(job[1] for job in jobs)

    without, asked = by_turns(options, daemon, port, 1, look)
    told("thread that answers: % of a core", [row[0] for row in asked], "{:.2f}")
    for number, name in ((1, "samples/s of the three jobs"), (2, "time that their scripts stand still, %")):
        told(f"{name}, nobody asks", [row[number] for row in without], "{:.2f}")
        told(f"{name}, asked", [row[number] for row in asked], "{:.2f}")
    for script in scripts:
        script.close()
    daemon.stop()


def loop(options, folder):
    port = free_port()
    daemon = Daemon(folder, CONFIG.format(port=port))
    scripts = train(options, daemon, tree(1200, width=320, height=240), ("one",), 0)
    print("loop: one job that takes all it can get, and one who asks as fast as it is answered")
    without, asked = by_turns(options, daemon, port, 0, lambda began, ended, shares:
                              (trained(scripts[0], began, ended)[0], 100 * shares["larder-http"]))
    told("thread that answers: % of a core", [share for _, share in asked], "{:.2f}")
    told("samples/s, nobody asks", [rate for rate, _ in without], "{:.0f}")
    told("samples/s, asked in a loop", [rate for rate, _ in asked], "{:.0f}")
    told("part that is left, %", [100 * b[0] / a[0] for a, b in zip(without, asked)], "{:.1f}")
    scripts[0].close()
    daemon.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6, help="how long each turn takes")
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--samples", type=int, default=100000)
    parser.add_argument("--step", type=float, default=0.05, help="of the jobs of `busy`: seconds a training step takes")
    parser.add_argument("--only", choices=("idle", "busy", "loop"))
    parser.add_argument("--asks", nargs=2, metavar=("PORT", "PERIOD_S"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.asks:
        return asks(int(options.asks[0]), float(options.asks[1]))
    for part in (idle, busy, loop):
        if options.only in (None, part.__name__):
            with tempfile.TemporaryDirectory(prefix="larder-") as folder:
                part(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
