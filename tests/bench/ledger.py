#!/usr/bin/env python3
"""A ledger of what training loops took, while their processes and the daemon are killed at random moments.

    ledger.py [--clients 20] [--daemons 20] [--folder IMAGES] [--seed N]

Jobs of one rank and jobs of four ranks that step together train on one daemon, in `dependent` and in `strict` order.
Each writes a line to its ledger for every batch that its loop took: (life, rank, step, epoch, indices). Each saves a
checkpoint every few steps: the step, and the Loader's state_dict(), which rank 0 alone asks for.

Meanwhile a process of a job is killed with SIGKILL so many times (--clients), and the daemon so many times (--daemons).
A killed daemon is started again; the jobs do nothing about it. A killed job is started again from its last checkpoint,
all ranks of it. What it had taken after that checkpoint is struck from the ledger, as it is from the model's weights.

At the end each epoch of each job must hold each sample once: 0 lost, 0 twice. With drop_last only the remainder of
less than a batch a rank may be missing. The program prints the count of all that, and fails otherwise.

LARDER_BIN says which build.
"""

import argparse
import array
import json
import logging
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import SLOW, Daemon, larder, make_tree  # noqa: E402

CONFIG = """\
memory: {{arena: 64MiB, encoded: 16MiB, scratch: 64MiB}}
threads: {{workers: 2, loaders: 2}}
limits: {{rank_timeout: {timeout}}}
log: {{level: warn}}
catalog: {{checkpoint: {folder}/checkpoints}}
metrics: {{enabled: false}}
control: {{enabled: false}}
"""
PIPELINE = [{"random_resized_crop": {"size": 48}}, "random_horizontal_flip"]
STUCK_S = 60    # without a batch of any job in so long, something hangs
SAVE_EVERY = 7  # steps, about


class Book:
    """A job's ledger and its checkpoint, both files, so that they outlive every process. A line of the ledger is one
    write."""

    def __init__(self, folder, name):
        self.ledger = os.path.join(folder, name + ".ledger")
        self.checkpoint = os.path.join(folder, name + ".checkpoint")

    def load(self):
        try:
            with open(self.checkpoint) as file:
                return json.load(file)
        except FileNotFoundError:
            return {"step": 0, "state": None}

    def save(self, step, state):
        with open(self.checkpoint + ".new", "w") as file:
            json.dump({"step": step, "state": state}, file)
        os.rename(self.checkpoint + ".new", self.checkpoint)

    def lines(self):
        try:
            with open(self.ledger) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []


def begin(job, rank, socket, state):
    """The Loader of a new life. One that begins while no daemon is there is told so, and tries again."""
    while True:
        try:
            return larder.Loader(job.dataset, PIPELINE, job.batch_size, shuffle=job.shuffle, seed=5,
                                 drop_last=job.drop_last, name=job.name, rank=rank, world_size=job.world_size,
                                 output="numpy", with_ids=True, socket=socket, timeout=STUCK_S * SLOW,
                                 reconnect=STUCK_S * SLOW, state=state, zero_copy=job.zero_copy)
        except larder.DaemonGone:
            select.select([], [], [], 0.02)


def train(job, rank, life, socket, step_together, ended):
    """A rank's training loop, in a process of its own. Ends with status 0 when `ended` says so, at an epoch's end."""
    book = job.book
    point = book.load()
    draw = random.Random(job.seed * 1000 + life * 10 + rank)
    loader = begin(job, rank, socket, point["state"])
    ledger = os.open(book.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    step = point["step"]
    os.write(ledger, json.dumps({"life": life, "rank": rank, "from": step}).encode() + b"\n")
    save_at = step + draw.randint(1, 2 * SAVE_EVERY)
    while True:
        epoch = loader.epoch
        for batch in loader:
            step += 1
            line = {"life": life, "rank": rank, "step": step, "epoch": epoch, "indices": batch[-1].tolist()}
            os.write(ledger, json.dumps(line).encode() + b"\n")
            del batch
            step_together(rank)
            if rank == 0 and step >= save_at:
                book.save(step, loader.state_dict())
                save_at = step + draw.randint(1, 2 * SAVE_EVERY)
        step_together(rank)
        if ended(job.name, epoch):
            return


class Job:
    """A job: its processes, and how they are started again. All ranks of one life are forked here, so that a start
    costs no more than a fork."""

    def __init__(self, run, name, **options):
        self.run, self.name, self.book = run, name, Book(run.folder, name)
        self.dataset, self.seed, self.drop_last, self.zero_copy = run.dataset, run.seed, False, False
        self.world_size, self.shuffle, self.batch_size = 1, "dependent", 16
        self.__dict__.update(options)
        self.life, self.pids, self.done = 0, {}, False

    def start(self):
        self.life += 1
        meet = Meeting(self.world_size)
        self.pids = {}
        for rank in range(self.world_size):
            pid = os.fork()
            if pid == 0:
                self.child(rank, meet)
            self.pids[pid] = rank
        meet.close()

    def child(self, rank, meet):
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            logging.getLogger("larder").setLevel(logging.ERROR)  # each pause is a warning
            train(self, rank, self.life, self.run.socket, meet.step_together, self.run.ended)
            status = 0
        except BaseException:  # noqa: BLE001 - a fork must not go on in its parent's code
            with open(os.path.join(self.run.folder, f"{self.name}.{self.life}.{rank}.error"), "w") as file:
                traceback.print_exc(file=file)
        finally:
            os._exit(status)

    def ended(self, pid, status):
        """A process of this job has ended: true when that was by itself, with an error."""
        self.pids.pop(pid)
        if os.WIFSIGNALED(status):
            for other in list(self.pids):  # as a launcher does: all ranks begin again
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            self.pids = {}
            self.start()
            return False
        if os.WEXITSTATUS(status) == 0:
            self.done = not self.pids
            return False
        return True

    def all_begun(self):
        """Whether each rank has taken a batch."""
        lines = self.book.lines()
        return len({line["rank"] for line in lines if "epoch" in line}) == self.world_size

    def kill(self, draw):
        os.kill(draw.choice(sorted(self.pids)), signal.SIGKILL)


class Meeting:
    """Where the ranks of a job meet after each step, as in an all-reduce. A pipe a rank: each writes a byte to all
    others, and waits until it has had as many from each. A rank whose sibling has died waits until it is killed
    itself."""

    def __init__(self, world_size):
        self.ends = [os.pipe() for _ in range(world_size)] if world_size > 1 else []
        self.came = [0] * world_size
        self.meetings = 0

    def step_together(self, rank):
        self.meetings += 1
        for other, (_, writer) in enumerate(self.ends):
            if other != rank:
                os.write(writer, bytes([rank]))
        self.came[rank] = self.meetings
        while self.ends and min(self.came) < self.meetings:
            for sender in os.read(self.ends[rank][0], 64):
                self.came[sender] += 1

    def close(self):
        for reader, writer in self.ends:
            os.close(reader)
            os.close(writer)


class Run:
    def __init__(self, options, folder):
        self.folder, self.options, self.seed = folder, options, options.seed
        self.draw = random.Random(options.seed)
        self.dataset = options.folder or make_tree(os.path.join(folder, "images"), options.images, seed=3)
        self.count = sum(len(files) for _, _, files in os.walk(self.dataset))
        self.end_file = os.path.join(folder, "end")
        self.daemon, self.failures = None, []
        self.kills = {"clients": 0, "daemons": 0}
        self.socket = os.path.join(folder, "s")
        self.jobs = [Job(self, "dependent", zero_copy=True), Job(self, "strict", shuffle="strict"),
                     Job(self, "ranks", world_size=4, batch_size=8),
                     Job(self, "ranks-strict", world_size=4, batch_size=8, shuffle="strict", drop_last=True)]

    def fail(self, what):
        print("FAILED:", what, flush=True)
        self.failures.append(what)

    def ended(self, name, epoch):
        """Asked by a job's process at each epoch's end: whether this epoch is its last. All ranks of a job hear the
        same, because the file names an epoch that none of them has begun."""
        try:
            with open(self.end_file) as file:
                return epoch >= json.load(file)[name]
        except FileNotFoundError:
            return False

    def start_daemon(self):
        self.daemon = Daemon(self.folder, CONFIG.format(folder=self.folder, timeout=int(60 * SLOW)))

    def reap(self):
        """Deals with the processes that have ended; false when one failed."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.daemon.process.pid:
                self.daemon.process.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else 1
                self.fail(f"the daemon ended by itself, status {status}: {self.daemon.log()[-2000:]}")
                return
            for job in self.jobs:
                if pid in job.pids and job.ended(pid, status):
                    self.fail(f"job {job.name} ended with an error: {self.errors(job)}")

    def errors(self, job):
        texts = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith(job.name + ".") and name.endswith(".error"):
                with open(os.path.join(self.folder, name)) as file:
                    texts.append(name + ": " + file.read()[-1500:])
        return "\n".join(texts[-4:])

    def sizes(self):
        return [os.path.getsize(job.book.ledger) if os.path.exists(job.book.ledger) else 0 for job in self.jobs]

    def wait_for_progress(self, share, limit_s):
        """Waits a random moment in which jobs take batches: until the ledgers have grown, or a while is over."""
        sizes, end, stuck = self.sizes(), time.monotonic() + share, time.monotonic() + limit_s
        while not self.failures:
            self.reap()
            now = time.monotonic()
            if now >= end and self.sizes() != sizes:
                return
            if now >= stuck:
                self.fail(f"no job took a batch within {limit_s:.0f} s: {self.daemon.log()[-3000:]}")
                return
            select.select([], [], [], 0.005)

    def run(self):
        self.start_daemon()
        for job in self.jobs:
            job.start()
        while not all(job.all_begun() for job in self.jobs):  # a rank that is yet to come must not begin the job anew
            self.wait_for_progress(0, STUCK_S * SLOW)
            if self.failures:
                return
        todo = ["clients"] * self.options.clients + ["daemons"] * self.options.daemons
        self.draw.shuffle(todo)
        for number, what in enumerate(todo):
            self.wait_for_progress(self.draw.expovariate(1 / self.options.pause), STUCK_S * SLOW)
            if self.failures:
                return
            self.kills[what] += 1
            if what == "clients":
                self.draw.choice(self.jobs).kill(self.draw)
            else:
                self.daemon.kill()
                select.select([], [], [], self.draw.choice((0, 0, 0.1)))
                self.start_daemon()
            if (number + 1) % 100 == 0:
                print(f"{number + 1} of {len(todo)} kills, {sum(self.sizes()) >> 20} MiB of ledger", flush=True)
        self.finish()

    def finish(self):
        """Each job ends two epochs after the one it is in: none of its ranks can have got there meanwhile."""
        last = {job.name: 2 + max((line["epoch"] for line in job.book.lines()[-40:] if "epoch" in line), default=0)
                for job in self.jobs}
        with open(self.end_file + ".new", "w") as file:
            json.dump(last, file)
        os.rename(self.end_file + ".new", self.end_file)
        sizes, stuck = self.sizes(), time.monotonic() + STUCK_S * SLOW
        while not self.failures and not all(job.done for job in self.jobs):
            self.reap()
            if self.sizes() != sizes:
                sizes, stuck = self.sizes(), time.monotonic() + STUCK_S * SLOW
            elif time.monotonic() > stuck:
                self.fail("a job does not end: " + ", ".join(job.name for job in self.jobs if not job.done))
            select.select([], [], [], 0.01)

    def stop(self):
        for job in self.jobs:
            for pid in job.pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if self.daemon:
            self.daemon.kill()

    # ── the judgement ──

    def judge(self, job):
        """Strikes what later lives took again, and counts each epoch of what is left."""
        begun = {}  # life → the step that it began from
        taken = {}  # epoch → how often each sample was taken
        struck = batches = 0
        lines = job.book.lines()
        for line in lines:
            if "from" in line:
                begun[line["life"]] = line["from"]
        last_life = max(begun)
        floor = {}  # life → the lowest step that a later life began from
        lowest = float("inf")
        for life in range(last_life, 0, -1):
            floor[life] = lowest
            lowest = min(lowest, begun.get(life, lowest))
        steps = set()
        for line in lines:
            if "step" not in line:
                continue
            if line["step"] > floor[line["life"]]:
                struck += 1
                continue
            key = (line["rank"], line["step"])
            if key in steps:
                self.fail(f"{job.name}: step {key} stands twice in the ledger")
            steps.add(key)
            batches += 1
            counts = taken.setdefault(line["epoch"], array.array("L", bytes(8 * self.count)))
            for index in line["indices"]:
                counts[index] += 1
        lost = twice = dropped = 0
        full = self.count // job.world_size // job.batch_size * job.batch_size * job.world_size
        spare = self.count - full if job.drop_last else 0
        repeats = 0 if job.drop_last else -self.count % job.world_size
        for epoch in sorted(taken):
            missing = sum(1 for count in taken[epoch] if count == 0)
            more = sum(count - 1 for count in taken[epoch] if count > 1)
            dropped += min(missing, spare)
            lost += max(0, missing - spare) + max(0, spare - missing)
            twice += max(0, more - repeats)
            if missing != spare or more > repeats:
                self.fail(f"{job.name}: epoch {epoch} lacks {missing} samples ({spare} dropped) and has {more} twice")
        print(f"{job.name:14} ranks {job.world_size}  lives {last_life:5}  epochs {len(taken):4}  batches {batches:7}  "
              f"struck {struck:6}  samples {sum(sum(c) for c in taken.values()):9}  dropped {dropped}  "
              f"lost {lost}  twice {twice}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=20, help="kills of a job's process")
    parser.add_argument("--daemons", type=int, default=20, help="kills of the daemon")
    parser.add_argument("--folder", help="images, one folder a class; without it they are made")
    parser.add_argument("--images", type=int, default=401, help="how many to make")
    parser.add_argument("--pause", type=float, default=0.3, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    folder = tempfile.mkdtemp(prefix="larder-ledger-")
    run = None
    try:
        run = Run(options, folder)
        try:
            run.run()
        finally:
            run.stop()
        if not run.failures:
            for job in run.jobs:
                run.judge(job)
        print(f"killed: {run.kills['clients']} times a client, {run.kills['daemons']} times the daemon; "
              f"{len(run.failures)} failures", flush=True)
    finally:
        if not run or not run.failures or not os.environ.get("LARDER_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
