#!/usr/bin/env python3
"""A soak: one daemon with little memory, and clients that do all that clients should not.

    soak.py [--seconds 60 | --hours H] [--scripts 5] [--seed N] [--growth-mib N]

For so long, five training scripts at a time with random datasets, views, pipelines and speeds are killed (SIGKILL),
killed and started again from their checkpoint, stopped and continued, cancelled, break epochs off, or are left alone;
others register wrong things, leave while they register or send bytes that are no message; status and metrics are asked
for all the time. Then it holds the daemon to this:

- a script that was left alone, or that went on from its checkpoint, took every sample of its view exactly once in each
  epoch that it finished. What a killed one took after its checkpoint does not count;
- no metric series came twice in an answer;
- with all clients gone nothing is left of them: no job, session, pinned or quota bytes, load or preparation under way;
- resident memory did not grow between the middle and the last third of the run by more than --growth-mib, where given;
- descriptors, threads and the arena's size at the end are those of the middle: with all clients gone, no more than a
  fresh daemon has;
- it stops within 3 s of SIGTERM although clients are at it, with status 0 and no sanitizer's report in its log.

LARDER_BIN says which build; LARDER_TEST_PATIENCE multiplies the time limits under a sanitizer (thread: setarch -R).
"""

import argparse
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import BIN, PACKAGE, PATIENCE, SLOW, Daemon, free_port, larder, make_tree, until  # noqa: E402

from larder import _wire  # noqa: E402

CONFIG = """\
memory: {{samples: 26MiB, arena: 24MiB}}
threads: {{workers: 3, loaders: 3}} # READS together
limits: {{jobs: 12}}
log: {{level: warn}}
catalog: {{checkpoint: none}}
metrics: {{port: {port}}}
"""
PIPELINES = ([{"resize": {"size": [64, 64]}}, "random_horizontal_flip"],
             [{"random_resized_crop": {"size": 96}}],
             [{"resize": {"size": 80}}, {"center_crop": {"size": 64}}])
READS = 6
HOLDS_MORE = 4  # descriptors or threads: a connection of the status, a timer of nng
REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error", "check failed")


def client_main(options):
    """A training script: prints what it took of each epoch, batch by batch, and whether it finished the epoch. It saves
    a checkpoint every few steps, and goes on from the one that is there."""
    logging.getLogger("larder").addHandler(Said())
    begin, end = options["view"]
    point = {"step": 0, "state": None}
    if os.path.exists(options["checkpoint"]):
        with open(options["checkpoint"]) as file:
            point = json.load(file)
    step = point["step"]
    print(json.dumps({"from": step}), flush=True)
    try:
        loader = larder.Loader(options["dataset"], options["pipeline"], options["batch_size"], output="numpy",
                               with_ids=True, subset=larder.Range(begin, end), shuffle=options["shuffle"],
                               epochs=options["epochs"], prefetch=options["prefetch"], name=options["name"],
                               zero_copy=options["zero_copy"], timeout=60 * SLOW, state=point["state"])
        while loader.epoch < options["epochs"]:
            epoch, finished = loader.epoch, True
            for number, batch in enumerate(loader):
                step += 1
                print(json.dumps({"step": step, "epoch": epoch, "indices": batch[2].tolist()}), flush=True)
                del batch
                if step % options["save_every"] == 0:
                    save(options["checkpoint"], {"step": step, "state": loader.state_dict()})
                time.sleep(options["step_s"])
                if epoch == 0 and number == options["break_after"]:
                    finished = False
                    break
            print(json.dumps({"epoch": epoch, "finished": finished, "step": step}), flush=True)
    except larder.LarderError as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    return 0


def save(path, what):
    with open(path + ".new", "w") as file:
        json.dump(what, file)
    os.rename(path + ".new", path)


class Said(logging.Handler):
    """What the package says of the job is a line of its own, which takes nothing."""

    def emit(self, record):
        print(json.dumps({"said": record.getMessage()}), flush=True)


class Script:
    """A client of client_main in a process of its own, and what is done to it."""

    def __init__(self, soak, number):
        draw = soak.draw
        begin, end = sorted(draw.sample(range(soak.count + 1), 2)) if draw.random() < 0.5 else (0, soak.count)
        self.options = {"dataset": draw.choice(soak.trees), "pipeline": draw.choice(PIPELINES), "view": (begin, end),
                        "batch_size": draw.choice((4, 16, 32)), "epochs": draw.randint(1, 3),
                        "name": f"script-{number} \"é\\", "prefetch": draw.randint(1, 4),
                        "zero_copy": draw.random() < 0.3, "step_s": draw.choice((0, 0.002, 0.02)),
                        "shuffle": draw.choice(("dependent", "dependent", "strict", "none")),
                        "break_after": draw.choice((-1, -1, 2)), "save_every": draw.choice((1, 2, 5)),
                        "checkpoint": os.path.join(soak.folder, f"checkpoint-{number}")}
        self.fate = draw.choice(("alone", "alone", "kill", "again", "again", "stop", "cancel"))
        self.lives = draw.randint(1, 4) if self.fate == "again" else 0  # how often it is killed and started again
        if self.lives:  # it is to be killed while it trains
            self.options["epochs"] += 3
            self.options["step_s"] = self.options["step_s"] or 0.01
        self.due = time.monotonic() + draw.uniform(0.3, 4) * PATIENCE
        self.number, self.resume = number, None
        self.log = open(os.path.join(soak.folder, f"script-{number}"), "a+")
        self.start(soak)

    def start(self, soak):
        self.log.seek(0)
        whole = self.log.read().rpartition("\n")  # a line that SIGKILL has cut off is after the last checkpoint
        os.truncate(self.log.name, len((whole[0] + whole[1]).encode()))
        environment = dict(os.environ, PYTHONPATH=PACKAGE, LARDER_SOCKET=soak.daemon.socket)
        command = [sys.executable, "-B", os.path.abspath(__file__), "--client", json.dumps(self.options)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=environment)

    def act(self, soak):
        now = time.monotonic()
        if self.resume and now > self.resume:
            self.process.send_signal(signal.SIGCONT)
            self.resume = None
        if self.fate == "alone" or now < self.due:
            return
        if self.fate == "kill":
            self.process.kill()
        elif self.fate == "again":
            self.process.kill()
            self.process.wait()
            self.start(soak)
            self.lives -= 1
            soak.resumed += 1
            self.due = now + soak.draw.uniform(0.3, 4) * PATIENCE
            self.fate = "again" if self.lives else "alone"
            return
        elif self.fate == "stop":
            self.process.send_signal(signal.SIGSTOP)
            self.resume = now + soak.draw.uniform(0.1, 2)
            self.due, self.fate = self.resume + 0.1, soak.draw.choice(("alone", "stop", "kill"))
            return
        else:
            command = [os.path.join(BIN, "larder"), "cancel", self.options["name"], "--socket", soak.daemon.socket]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.due = now + 0.5  # it may not have been registered yet
            return
        self.fate = "done"

    def judge(self, soak):
        self.log.seek(0)
        lines = self.log.read().splitlines()
        self.log.close()
        os.unlink(self.log.name)
        if os.path.exists(self.options["checkpoint"]):
            os.unlink(self.options["checkpoint"])
        wanted = list(range(*self.options["view"]))
        entries = []
        for line in lines:
            if line.startswith("{") and line.endswith("}"):
                entries.append(json.loads(line))
            elif self.fate == "alone":
                soak.fail(f"script {self.number}: {lines}")
                return
        taken, finished = kept(entries)
        for epoch, got in taken.items():
            if len(set(got)) != len(got) or not set(got) <= set(wanted) or \
                    (epoch in finished and sorted(got) != wanted):
                soak.fail(f"script {self.number} took {len(got)} of {len(wanted)} samples of epoch {epoch}, "
                          f"{len(set(got))} different: {self.options}")
        soak.taken += sum(map(len, taken.values()))
        if self.fate == "alone":
            soak.whole += 1
            refused = entries and "error" in entries[-1] and ("LimitReached" in entries[-1]["error"] or not wanted)
            if self.process.returncode and not refused:
                soak.fail(f"script {self.number}: {entries[-1:]} {self.options}")


def kept(entries):
    """What counts of a ledger: a life that goes on from a step strikes what earlier lives took after it. Gives the
    indices of each epoch, and the epochs that were finished."""
    taken, finished, lowest = {}, set(), float("inf")
    for entry in reversed(entries):
        if "from" in entry:
            lowest = min(lowest, entry["from"])
        elif entry.get("step", 0) <= lowest and "indices" in entry:
            taken.setdefault(entry["epoch"], []).extend(entry["indices"])
        elif entry.get("step", float("inf")) <= lowest and entry.get("finished"):
            finished.add(entry["epoch"])
    return taken, finished


class Soak:
    def __init__(self, options, folder):
        self.folder, self.options, self.failures = folder, options, []
        self.whole = self.asked = self.resumed = self.taken = 0
        self.draw = random.Random(options.seed)
        self.count = 300
        self.trees = [make_tree(os.path.join(folder, f"tree-{seed}"), self.count, seed=seed) for seed in (1, 2)]
        self.port = free_port()
        self.daemon = Daemon(folder, CONFIG.format(port=self.port))
        self.ending = threading.Event()
        self.memory = []
        self.fresh = self.daemon_holds()

    def fail(self, what):
        print("FAILED:", what, flush=True)
        self.failures.append(what)

    def daemon_holds(self):
        """How many descriptors and threads the daemon has, but for as many threads that read as its one source may have
        reads at once: these come as they are needed, and stay."""
        process = f"/proc/{self.daemon.process.pid}"
        names = []
        for task in os.listdir(f"{process}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                with open(f"{process}/task/{task}/comm", encoding="ascii") as file:
                    names.append(file.read())
        reading = sum(name.startswith("larder-read") for name in names)
        return [len(os.listdir(f"{process}/fd")), len(names) - min(reading, READS)]

    # ── those who ask ──

    def ask(self):
        draw = random.Random(self.options.seed + 1)
        began = time.monotonic()
        while not self.ending.is_set():
            try:
                status = self.daemon.status()
                self.memory.append((time.monotonic() - began, status["daemon"]["rss_bytes"], *self.daemon_holds(),
                                    status["memory"]["arena"]["used_bytes"]))
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20 * SLOW) as answer:
                    lines = answer.read().splitlines()
                series = [line.rsplit(b" ", 1)[0] for line in lines if not line.startswith(b"#")]
                if len(set(series)) != len(series):
                    self.fail("a metric series came twice")
                self.asked += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure
                if not self.ending.is_set():
                    self.fail(f"asking: {error}")
                    return
            time.sleep(draw.uniform(0, 0.2))

    # ── those who do wrong ──

    def register_message(self, draw, **changes):
        job = _wire.Register(batch_size=8, prefetch=2, world_size=1, rank=0, epochs=0, shuffle=0, bad_policy=0,
                             flags=0, seed=0, weight=1.0, local_world_size=0, local_first=0, sampler=0,
                             copies=0, draws=0, deal=0, mix=0, name=b"",
                             dataset=self.trees[0].encode(), pipeline=json.dumps(PIPELINES[0]).encode(),
                             subset=b"", sets=b"", weights=b"")
        return _wire.register(draw.randrange(1 << 31), job._replace(**changes))

    def wrong_messages(self, draw):
        good = self.register_message(draw)
        noise = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 200)))
        cut = bytearray(good)
        cut[draw.randrange(len(cut))] ^= 1 << draw.randrange(8)
        return draw.choice((
            [], [noise], [bytes(cut)], [good], [good, good], [good, _wire.next_batches(0, 3)],
            [good, None, _wire.next_batches(0, 64), None],
            [good, None, _wire.next_batches(7, 2), _wire.next_batches(9, 2), None],
            [good, None, _wire.release(12345)], [good, None, _wire.next_batches(3, 1), _wire.next_batches(1, 1), None],
            [self.register_message(draw, dataset=b"/nowhere")], [self.register_message(draw, dataset=b"\xff\n\"x")],
            [self.register_message(draw, pipeline=b"[{\"resize\":")],
            [self.register_message(draw, batch_size=8192), None],
            [self.register_message(draw, weight=draw.choice((0.0, -1.0, 101.0, float("nan"), float("inf")))), None],
            [self.register_message(draw, name=b"a\xff"), None],
            [self.register_message(draw, name=b"a\"\nlevel=error\\"), None],
            [self.register_message(draw, name=b"one name"), None, _wire.next_batches(0, 2), None],
            [self.register_message(draw, subset=b"{\"range\":[5,2]}"), None]))

    def misbehave(self, seed):
        draw = random.Random(seed)
        while not self.ending.is_set():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(draw.choice((0.05, 0.5)))
                try:
                    sock.connect(self.daemon.socket)
                    if draw.random() < 0.95:
                        sock.send(_wire.hello(1, os.getpid(), b"soak \"x\n"))
                        sock.recv(1 << 18)
                    for message in self.wrong_messages(draw):
                        if message is None:
                            sock.recv(1 << 18)
                        else:
                            sock.send(message)
                    if draw.random() < 0.5:
                        time.sleep(draw.uniform(0, 0.3))
                except OSError:
                    pass
            time.sleep(draw.uniform(0, 0.05))

    # ── the run ──

    def run(self):
        threads = [threading.Thread(target=self.ask)]
        threads += [threading.Thread(target=self.misbehave, args=(self.options.seed + 10 + i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        scripts, number, end = [], 0, time.monotonic() + self.options.seconds
        while (time.monotonic() < end or scripts) and self.daemon.process.poll() is None:
            while len(scripts) < self.options.scripts and time.monotonic() < end:
                scripts.append(Script(self, number))
                number += 1
            for script in list(scripts):
                if script.process.poll() is not None:
                    script.judge(self)
                    scripts.remove(script)
                elif time.monotonic() > end + 100 * SLOW:
                    self.fail(f"script {script.number} hangs: {script.options}")
                    script.process.kill()
                else:
                    script.act(self)
            time.sleep(0.02)
        self.ending.set()
        for thread in threads:
            thread.join()
        for script in scripts:  # the daemon is gone
            script.process.kill()
            script.process.wait()
        print(f"{number} scripts, {self.whole} of them left alone in their last life; {self.resumed} times one was "
              f"killed and went on from its checkpoint; {self.taken} samples taken; asked {self.asked} times",
              flush=True)

    def nothing_left(self):
        status = self.daemon.status()
        left = {"jobs": len(status["jobs"]), "sessions": status["daemon"]["sessions"],
                "pinned": status["memory"]["arena"]["pinned_bytes"], "quota": status["memory"]["arena"]["quota_bytes"],
                "loads": status["engine"]["loads_inflight"], "prepares": status["engine"]["prepares_inflight"]}
        self.left = {what: value for what, value in left.items() if value}
        return not self.left

    def judge(self):
        if self.daemon.process.poll() is not None:
            self.fail(f"the daemon ended with {self.daemon.process.returncode}")
        elif not until(self.nothing_left, 5):
            self.fail(f"left when all were gone: {self.left}")
        thirds = [[rss for at, rss, *_ in self.memory
                   if part <= 3 * at / max(self.memory[-1][0], 1e-9) <= part + 1] for part in (1, 2)]
        grown_mib = (max(thirds[1], default=0) - max(thirds[0], default=0)) / (1 << 20)
        self.print_memory()
        holds = self.daemon_holds() if self.daemon.process.poll() is None else self.fresh
        if any(now > fresh + HOLDS_MORE for now, fresh in zip(holds, self.fresh)):
            self.fail(f"with all clients gone the daemon has {holds} descriptors and threads, where it began with "
                      f"{self.fresh}")
        print(f"resident at most {max((row[1] for row in self.memory), default=0) >> 20} MiB, "
              f"{grown_mib:+.1f} MiB from the middle third to the last", flush=True)
        if self.options.growth_mib is not None and grown_mib > self.options.growth_mib:
            self.fail(f"resident memory grew by {grown_mib:.1f} MiB")
        self.stop_while_busy()
        log = self.daemon.log()
        for report in REPORTS:
            if report in log:
                self.fail(log[max(0, log.index(report) - 200):][:6000])
                break

    def print_memory(self):
        """A row for each tenth of the run: the most that the daemon had of each."""
        length = max(self.memory[-1][0], 1e-9) if self.memory else 1
        print("tenth   resident MiB   descriptors   threads   arena used MiB")
        for tenth in range(10):
            rows = [row for row in self.memory if tenth <= 10 * row[0] / length <= tenth + 1]
            most = [max((row[column] for row in rows), default=0) for column in (1, 2, 3, 4)]
            print(f"{tenth + 1:5} {most[0] / (1 << 20):14.1f} {most[1]:13} {most[2]:9} {most[3] / (1 << 20):16.1f}",
                  flush=True)

    def stop_while_busy(self):
        if self.daemon.process.poll() is not None:
            return
        scripts = [Script(self, f"last-{i}") for i in range(2)]
        self.ending.clear()
        threads = [threading.Thread(target=self.misbehave, args=(self.options.seed + 20 + i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(self.daemon.status()["jobs"]) >= 2, 10)
        began = time.monotonic()
        self.daemon.process.terminate()
        try:
            code = self.daemon.process.wait(20 * SLOW)
        except subprocess.TimeoutExpired:
            code = "nothing: it hangs"
            self.daemon.kill()
        took_s = time.monotonic() - began
        self.ending.set()
        for thread in threads:
            thread.join()
        for script in scripts:
            script.process.kill()
            script.process.wait()
            script.log.close()
        print(f"stopped in {took_s:.2f} s with {code}", flush=True)
        if code != 0 or took_s > 3 * SLOW:
            self.fail(f"the daemon stopped in {took_s:.2f} s with {code}: {self.daemon.log()[-4000:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--scripts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--growth-mib", type=float)
    parser.add_argument("--keep-log", help="file to copy the daemon's log to")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        return client_main(json.loads(options.client))
    if options.hours:
        options.seconds = options.hours * 3600
    print("seed", options.seed, flush=True)
    folder = tempfile.mkdtemp(prefix="larder-soak-")
    try:
        soak = Soak(options, folder)
        try:
            soak.run()
            soak.judge()
        finally:
            soak.ending.set()
            soak.daemon.kill()
            if options.keep_log:
                shutil.copy(soak.daemon.log_path, options.keep_log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
