"""A daemon that only speaks the session protocol, for the Python package's tests: a real socket, a real sealed memfd.

Pixels are a function of the sample's index (see `pixels`), and a slot is overwritten as soon as its batch is released,
so a client that reads too late, or from the wrong place, gets wrong bytes. The messages are packed here by hand, after
common/wire.c, and not with the package's own codec. What belongs to whom is fake_job.py's.
"""

import contextlib
import fcntl
import itertools
import mmap
import os
import random
import select
import socket
import struct
import threading

from fake_job import DEPENDENT, Job, parse

MAGIC, VERSION = 0x3152444C, 13
TURN_NONE = AHEAD = 0xFFFFFFFF
(HELLO, WELCOME, REGISTER, REGISTERED, CLASSES_GET, CLASSES, NEXT, BATCH, RELEASE, ERROR, BYE, TURNS, STATE_GET,
 STATE) = range(1, 15)
F_ADD_SEALS = 1033
SEALS = 1 | 2 | 4  # seal, shrink, grow
POISON = 0xEE


def message(kind, seq, body, version=VERSION):
    return struct.pack("<IHHII", MAGIC, version, kind, seq, 16 + len(body)) + body


def text(value):
    return struct.pack("<I", len(value)) + value


def field(name, kind, dtype, dims, offset=0, rank=None):
    """A field of a sample as REGISTERED has it."""
    return struct.pack("<24s8I", name, kind, dtype, len(dims) if rank is None else rank,
                       *dims, *(0,) * (4 - len(dims)), offset)


def pixels(index, count):
    """The bytes of sample `index`: no two samples are the same, and no byte is the poison's."""
    return bytes((index * 7 + i * 3) % 200 for i in range(251)) * (count // 251 + 1)


class FakeDaemon:
    """Serves until closed. Attributes may be set before a client connects:

    order        "shuffled" or "sequential"
    gap_bytes    between two slots of the arena, or "random"
    held_max     batches the client may hold
    silent_after batches after which nothing more comes in a connection (None: never)
    die_after    batches after which the connection is closed
    error_after  batches after which ERROR (code, text) comes: error_after, error
    mangle       called with each outgoing message's (type, bytes); returns what is sent
    weight       that batches say the job has (None: the registered one)
    lost         samples that batches say were left out
    turns        (position, index) of TURNS, which comes before each batch that has samples
    empty_last   end an epoch with an empty batch of its own
    indices      the view: positions in the dataset, which has dataset_samples
    bad          those that cannot be read
    impatient    answer a STATE_GET that would have to wait with a Timeout
    fields       of a sample, as REGISTERED has them (else: one image)
    """

    def __init__(self, path, n_samples=20, height=4, width=6, classes=(b"cat", b"dog"), seed=1):
        self.path, self.n_samples, self.shape, self.classes = path, n_samples, (height, width, 3), list(classes)
        self.sample_bytes = height * width * 3
        self.order, self.gap_bytes, self.held_max = "shuffled", 0, 4
        self.silent_after = self.die_after = self.error_after = None
        self.error = (-11, b"sample 'x.jpg' is bad")
        self.register_error = None
        self.mangle = lambda kind, data: data
        self.empty_last = False
        self.encoded = False
        self.weight = None
        self.lost = 0
        self.turns = ()
        self.page = 1000
        self.indices, self.dataset_samples, self.bad = range(n_samples), n_samples, ()
        self.dataset, self.view, self.version = (11, 12), (13, 14), (15, 16, 17, 18)
        self.impatient = False
        self.jobs, self.lock, self.dead = {}, threading.RLock(), False
        self.numbers = itertools.count(5)  # of the jobs that it names
        self.dtype = self.layout = 0
        self.fields = ()
        self.itemsize = 1
        self.seals = SEALS
        self.arena_extra = 0  # promised beyond what there is
        self.random = random.Random(seed)
        self.registrations, self.records, self.log, self.connections, self.problems = [], [], [], [], []
        self.arena_bytes = 1 << 20
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(16)
        self._stopping = False
        self._wake = os.pipe()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            ready, _, _ = select.select([self._listener, self._wake[0]], [], [])
            if self._wake[0] in ready:
                return
            sock, _ = self._listener.accept()
            connection = Connection(self, sock)
            self.connections.append(connection)
            connection.start()

    def new_name(self):
        """A name that no job has: one that the daemon before had named may have come with its name."""
        return next(name for name in (b"job-%d" % number for number in self.numbers) if name not in self.jobs)

    def good(self):
        return self.random.choice([index for index in self.indices if index not in self.bad])

    def fingerprints(self, asked):
        """A record of a job of which nothing was taken."""
        return {"dataset_0": self.dataset[0], "dataset_1": self.dataset[1], "view_0": self.view[0],
                "view_1": self.view[1], "seed": asked["seed"], "shuffle": asked["shuffle"], "epoch": 0, "batches": 0,
                "samples": self.dataset_samples, "base": set(), "segments": []}

    def kill(self):
        """As kill -9 does it: every socket closes, the path stays."""
        if not self._wake:
            return
        os.write(self._wake[1], b"x")
        self._thread.join()
        self._listener.close()
        with self.lock:  # at once: a daemon that is dead does nothing for those who are left
            self.dead = True
            for connection in self.connections:
                connection.hang_up()
        for connection in self.connections:
            connection.join()
        for fd in self._wake:
            os.close(fd)
        self._wake = ()

    def close(self):
        self.kill()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Connection(threading.Thread):
    """One client: the memfd, one job, the batches it holds."""

    def __init__(self, daemon, sock):
        super().__init__(daemon=True)
        self.daemon_, self.sock = daemon, sock
        self.fd = os.memfd_create("fake-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, daemon.arena_bytes)
        self.arena = mmap.mmap(self.fd, daemon.arena_bytes)
        fcntl.fcntl(self.fd, F_ADD_SEALS, daemon.seals)
        self.job = self.shared = None
        self.epoch, self.credits, self.sent, self.next_batch = -1, 0, 0, 1
        self.asked, self.held = {}, {}
        self.questions = []
        self.over = threading.Event()

    def hang_up(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def run(self):
        try:
            while True:
                data, fds, _, _ = socket.recv_fds(self.sock, 1 << 17, 4)
                if not data:
                    break
                magic, version, kind, seq, length = struct.unpack_from("<IHHII", data)
                assert (magic, version, length) == (MAGIC, VERSION, len(data)), "the client sent a bad header"
                if kind == BYE:
                    self.daemon_.log.append("bye")
                    break
                with self.daemon_.lock:
                    if self.daemon_.dead:
                        break
                    self.handle(kind, seq, data[16:], fds)
        except OSError:
            pass
        except Exception as problem:
            self.daemon_.problems.append(repr(problem))
            raise
        finally:
            with self.daemon_.lock:
                self.leave()
            self.sock.close()
            os.close(self.fd)
            self.over.set()

    def send(self, kind, seq, body, fds=()):
        data = self.daemon_.mangle(kind, message(kind, seq, body))
        if fds:
            self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
        else:
            self.sock.send(data, socket.MSG_NOSIGNAL)

    def leave(self):
        job = self.shared
        if job is not None and job.ranks.get(self.job["rank"]) is self:
            del job.ranks[self.job["rank"]]
            if not job.ranks:
                self.daemon_.jobs.pop(job.asked["name"], None)

    def handle(self, kind, seq, body, fds):
        daemon = self.daemon_
        if kind == HELLO:
            promised = daemon.arena_bytes + daemon.arena_extra
            self.send(WELCOME, seq, struct.pack("<QII", promised, os.getpid(), 8192), [self.fd])
        elif kind == REGISTER:
            self.register(seq, body, fds)
        elif kind == CLASSES_GET:
            first, = struct.unpack("<I", body)
            names = daemon.classes[first:first + daemon.page]
            packed = b"".join(struct.pack("<H", len(name)) + name for name in names)
            self.send(CLASSES, seq, struct.pack("<III", first, len(names), len(daemon.classes)) + text(packed))
        elif kind == NEXT:
            epoch, credits, awaited = struct.unpack("<III", body)
            daemon.log.append(("next", epoch, credits, awaited))
            self.on_next(epoch, credits)
        elif kind == STATE_GET:
            self.questions.append((seq, *struct.unpack("<III", body)))
            daemon.log.append(("state", *self.questions[-1][1:]))
            self.answer()
        elif kind == RELEASE:
            self.on_release(*struct.unpack("<Q", body))

    def register(self, seq, body, fds):
        daemon = self.daemon_
        if daemon.register_error:
            code, why = daemon.register_error
            self.send(ERROR, seq, struct.pack("<iI", code, 1) + text(why))
            return
        names = ("batch_size", "prefetch", "world_size", "rank", "epochs", "shuffle", "bad_policy", "flags", "seed",
                 "weight", "local_world_size", "local_first", "sampler", "copies", "draws", "deal",
                 "mix")
        self.job = dict(zip(names, struct.unpack_from("<8IQd4IQ2I", body)))
        at = 80
        for name in ("name", "dataset", "pipeline", "subset"):
            length, = struct.unpack_from("<I", body, at)
            self.job[name] = body[at + 4:at + 4 + length]
            at += 4 + length
        assert at == len(body), "REGISTER has bytes too many"
        assert len(fds) == (self.job["flags"] >> 6 & 1), "a descriptor comes with the flag, and only then"
        record = None
        for fd in fds:
            record = parse(os.pread(fd, 1 << 24, 0))
            os.close(fd)
        self.job["flags"] &= 63
        daemon.registrations.append(self.job)
        daemon.records.append(record)
        if not self.attach(seq, record):
            return
        size = self.job["batch_size"]
        n_batches = daemon.n_samples // size if self.job["flags"] & 1 else -(-daemon.n_samples // size)
        height, width, channels = daemon.shape
        dims = (channels, height, width) if daemon.layout else (height, width, channels)
        fields = [] if daemon.encoded else daemon.fields or [field(b"image", daemon.layout, daemon.dtype, dims)]
        self.send(REGISTERED, seq, struct.pack(
            "<7I5Q2I4Q", 5, daemon.n_samples, n_batches, len(daemon.classes), daemon.held_max,
            *self.shared.stands(self.job["rank"]), daemon.sample_bytes * daemon.itemsize, *daemon.dataset,
            *daemon.view, daemon.dataset_samples, len(fields), *daemon.version)
            + b"".join(fields) + text(self.shared.asked["name"]))
        self.shared.turn()

    def attach(self, seq, record):
        """Makes the job, or joins it; false after it was refused."""
        daemon = self.daemon_
        name = self.job["name"] or daemon.new_name()
        job = daemon.jobs.get(name)
        if job is None:
            job = daemon.jobs[name] = Job(daemon, dict(self.job, name=name))
        refusal = job.attach(self, record)
        if refusal:
            self.send(ERROR, seq, struct.pack("<iI", refusal[0], 1) + text(refusal[1]))
            self.hang_up()
            return False
        self.shared = job
        return True

    def on_next(self, epoch, credits):
        if epoch > max(self.epoch, *self.asked, -1):
            self.asked.clear()
        self.asked[epoch] = self.asked.get(epoch, 0) + credits
        assert self.asked[epoch] <= 64, "more credits than the protocol allows"
        if epoch == self.epoch:
            self.begin(epoch)
            return
        at_once = self.shared.next(self.job["rank"], epoch)
        if at_once == "empty":
            self.send_batch(epoch, [], 0, 0, True)
        elif at_once == "error":
            self.send(ERROR, 0, struct.pack("<iI", -1, 0) + text(b"ranks leave an epoch together"))
        elif self.shared.epoch == epoch and self.epoch != epoch:
            self.begin(epoch)

    def begin(self, epoch):
        """The job is in the epoch that was asked for."""
        if epoch != self.epoch:
            self.epoch, self.credits = epoch, 0
        self.credits += self.asked.pop(epoch, 0)
        self.pump()

    def pump(self):
        daemon = self.daemon_
        if self.shared.epoch != self.epoch:
            return
        while self.credits and self.shared.plans.get(self.job["rank"]) and len(self.held) < daemon.held_max:
            if daemon.silent_after is not None and self.sent >= daemon.silent_after:
                return
            if daemon.die_after is not None and self.sent >= daemon.die_after:
                self.hang_up()
                return
            if daemon.error_after is not None and self.sent >= daemon.error_after:
                self.send(ERROR, 0, struct.pack("<iI", daemon.error[0], 0) + text(daemon.error[1]))
                return
            self.credits -= 1
            self.sent += 1
            entries, number, through, last = self.shared.take(self.job["rank"])
            self.send_batch(self.epoch, entries, number, through, last)
            for connection in list(self.shared.ranks.values()):
                connection.answer()
            if last:
                self.shared.turn()

    def send_batch(self, epoch, planned, index, through, last):
        daemon, number = self.daemon_, self.next_batch
        slots = self.slots(len(planned))
        size = daemon.sample_bytes * daemon.itemsize
        entries = b""
        for (sample, _, _), offset in zip(planned, slots):
            length = 5 + sample if daemon.encoded else size
            self.arena[offset:offset + length] = pixels(sample, length)[:length]
            entries += struct.pack("<QIIIi", offset, length, 1000 + sample, sample, sample % len(daemon.classes))
        self.held[number] = (slots, size)
        self.next_batch += 1
        turns = [turn for turn in daemon.turns if turn[0] < len(planned)]
        if self.job["shuffle"] == DEPENDENT:
            turns = turns or [(at, turn) for at, (sample, turn, _) in enumerate(planned) if turn != sample]
        if turns:
            self.send(TURNS, 0, struct.pack("<QI", number, len(turns)) +
                      b"".join(struct.pack("<II", *turn) for turn in turns))
        weight = daemon.weight or self.job["weight"]
        self.send(BATCH, 0, struct.pack("<QIIIIIId", number, epoch, index, last, len(planned), daemon.lost, through,
                                        weight) + entries)

    def answer(self):
        """Answers what was asked of a state, when all ranks are so far."""
        while self.questions:
            seq, epoch, batches, _ = self.questions[0]
            token = self.shared.token(batches)
            if epoch != self.shared.epoch:
                self.send(ERROR, seq, struct.pack("<iI", -1, 0) + text(b"it is in another epoch"))
            elif isinstance(token, bytes):
                fd = os.memfd_create("fake-state", os.MFD_CLOEXEC)
                os.pwrite(fd, token, 0)
                self.send(STATE, seq, struct.pack("<I", len(token)), [fd])
                os.close(fd)
            elif self.daemon_.impatient:
                had = len(self.shared.given[token])
                self.send(ERROR, seq, struct.pack("<iI", -13, 0) + text(
                    b"rank %d of %d has had %d batches of epoch %d and not %d within 1 s" % (
                        token, self.shared.world_size, had, epoch, batches)))
            else:
                return
            self.questions.pop(0)

    def slots(self, count):
        """Offsets that no held batch uses: each batch has a place of its own, the next that is free."""
        daemon, size = self.daemon_, self.daemon_.sample_bytes * self.daemon_.itemsize
        used = [slot for slots, _ in self.held.values() for slot in slots]
        at, offsets = 0, []
        for _ in range(count):
            offsets.append(at)
            at += size + (daemon.random.choice((0, 0, 64, 128)) if daemon.gap_bytes == "random" else daemon.gap_bytes)
        for turn in range(64):
            base = daemon.arena_bytes // 64 * ((self.next_batch + turn) % 64)
            if base + at <= daemon.arena_bytes and not any(base - size < slot < base + at for slot in used):
                return [base + offset for offset in offsets]
        raise AssertionError("no place in the arena")

    def on_release(self, number):
        slots, size = self.held.pop(number)
        self.daemon_.log.append(("release", number))
        for offset in slots:
            self.arena[offset:offset + size] = bytes([POISON]) * size
        self.shared.turn()
        self.pump()
