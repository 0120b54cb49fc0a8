"""A daemon that only speaks the session protocol, for the Python package's tests: a real socket, a real sealed memfd.

Pixels are a function of the sample's index (see `pixels`), and a slot is overwritten as soon as its batch is released,
so a client that reads too late, or from the wrong place, gets wrong bytes. The messages are packed here by hand, after
common/wire.c, and not with the package's own codec.
"""

import fcntl
import mmap
import os
import random
import select
import socket
import struct
import threading

MAGIC, VERSION = 0x3152444C, 5
TURN_NONE = 0xFFFFFFFF
(HELLO, WELCOME, REGISTER, REGISTERED, CLASSES_GET, CLASSES, NEXT, BATCH, RELEASE, ERROR, BYE, TURNS, STATE_GET,
 STATE) = range(1, 15)
F_ADD_SEALS = 1033
SEALS = 1 | 2 | 4  # seal, shrink, grow
POISON = 0xEE


def message(kind, seq, body, version=VERSION):
    return struct.pack("<IHHII", MAGIC, version, kind, seq, 16 + len(body)) + body


def text(value):
    return struct.pack("<I", len(value)) + value


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
        self.dtype = self.layout = 0
        self.itemsize = 1
        self.seals = SEALS
        self.arena_extra = 0  # promised beyond what there is
        self.random = random.Random(seed)
        self.registrations, self.log, self.connections, self.problems = [], [], [], []
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

    def kill(self):
        """As kill -9 does it: every socket closes, the path stays."""
        os.write(self._wake[1], b"x")
        self._thread.join()
        self._listener.close()
        for connection in self.connections:
            connection.hang_up()
            connection.join()

    def close(self):
        self.kill()
        for fd in self._wake:
            os.close(fd)
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
        self.job = None
        self.epoch, self.credits, self.sent, self.next_batch = -1, 0, 0, 1
        self.plan, self.held, self.index = [], {}, 0
        self.over = threading.Event()

    def hang_up(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def run(self):
        try:
            while True:
                data = self.sock.recv(1 << 17)
                if not data:
                    break
                magic, version, kind, seq, length = struct.unpack_from("<IHHII", data)
                assert (magic, version, length) == (MAGIC, VERSION, len(data)), "the client sent a bad header"
                if kind == BYE:
                    self.daemon_.log.append("bye")
                    break
                self.handle(kind, seq, data[16:])
        except OSError:
            pass
        except Exception as problem:
            self.daemon_.problems.append(repr(problem))
            raise
        finally:
            self.sock.close()
            os.close(self.fd)
            self.over.set()

    def send(self, kind, seq, body, fds=()):
        data = self.daemon_.mangle(kind, message(kind, seq, body))
        if fds:
            self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
        else:
            self.sock.send(data, socket.MSG_NOSIGNAL)

    def handle(self, kind, seq, body):
        daemon = self.daemon_
        if kind == HELLO:
            promised = daemon.arena_bytes + daemon.arena_extra
            self.send(WELCOME, seq, struct.pack("<QII", promised, os.getpid(), 8192), [self.fd])
        elif kind == REGISTER:
            self.register(seq, body)
        elif kind == CLASSES_GET:
            first, = struct.unpack("<I", body)
            names = daemon.classes[first:first + daemon.page]
            packed = b"".join(struct.pack("<H", len(name)) + name for name in names)
            self.send(CLASSES, seq, struct.pack("<III", first, len(names), len(daemon.classes)) + text(packed))
        elif kind == NEXT:
            epoch, credits = struct.unpack("<II", body)
            daemon.log.append(("next", epoch, credits))
            self.on_next(epoch, credits)
        elif kind == RELEASE:
            self.on_release(*struct.unpack("<Q", body))

    def register(self, seq, body):
        daemon = self.daemon_
        if daemon.register_error:
            code, why = daemon.register_error
            self.send(ERROR, seq, struct.pack("<iI", code, 1) + text(why))
            return
        names = ("batch_size", "prefetch", "world_size", "rank", "epochs", "shuffle", "bad_policy", "flags", "seed",
                 "weight")
        self.job = dict(zip(names, struct.unpack_from("<8IQd", body)))
        at = 48
        for name in ("name", "dataset", "pipeline", "subset"):
            length, = struct.unpack_from("<I", body, at)
            self.job[name] = body[at + 4:at + 4 + length]
            at += 4 + length
        assert at == len(body), "REGISTER has bytes too many"
        daemon.registrations.append(self.job)
        height, width, channels = (0, 0, 0) if daemon.encoded else daemon.shape
        size = self.job["batch_size"]
        n_batches = daemon.n_samples // size if self.job["flags"] & 1 else -(-daemon.n_samples // size)
        self.send(REGISTERED, seq, struct.pack(
            "<12I5Q2I", 5, daemon.n_samples, n_batches, len(daemon.classes), height, width, channels, daemon.dtype,
            daemon.layout, daemon.held_max, 0, 0, daemon.sample_bytes * daemon.itemsize, 11, 12, 13, 14,
            daemon.n_samples, 0)
            + text(self.job["name"] or b"job-5"))

    def on_next(self, epoch, credits):
        daemon = self.daemon_
        if epoch > self.epoch:
            size = self.job["batch_size"]
            order = list(range(daemon.n_samples))
            if daemon.order == "shuffled":
                daemon.random.shuffle(order)
            self.plan = [order[i:i + size] for i in range(0, len(order), size)]
            if self.job["flags"] & 1 and len(self.plan[-1]) < size:
                self.plan.pop()
            if daemon.empty_last:
                self.plan.append([])
            self.epoch, self.credits, self.index = epoch, 0, 0
        if epoch == self.epoch:
            self.credits += credits
        assert self.credits <= 64, "more credits than the protocol allows"
        self.pump()

    def pump(self):
        daemon = self.daemon_
        while self.credits and self.plan and len(self.held) < daemon.held_max:
            if daemon.silent_after is not None and self.sent >= daemon.silent_after:
                return
            if daemon.die_after is not None and self.sent >= daemon.die_after:
                self.hang_up()
                return
            if daemon.error_after is not None and self.sent >= daemon.error_after:
                self.send(ERROR, 0, struct.pack("<iI", daemon.error[0], 0) + text(daemon.error[1]))
                return
            self.deliver(self.plan.pop(0))

    def deliver(self, indices):
        daemon, number = self.daemon_, self.next_batch
        slots = self.slots(len(indices))
        entries = b""
        for index, offset in zip(indices, slots):
            size = daemon.sample_bytes * daemon.itemsize
            length = 5 + index if daemon.encoded else size
            self.arena[offset:offset + length] = pixels(index, length)[:length]
            entries += struct.pack("<QIIIi", offset, length, 1000 + index, index, index % len(daemon.classes))
        self.held[number] = (slots, daemon.sample_bytes * daemon.itemsize)
        self.next_batch += 1
        self.sent += 1
        self.credits -= 1
        weight = daemon.weight or self.job["weight"]
        body = struct.pack("<QIIIIIId", number, self.epoch, self.index, 0 if self.plan else 1, len(indices),
                           daemon.lost, 0, weight)
        self.index += 1
        if daemon.turns and indices:
            self.send(TURNS, 0, struct.pack("<QI", number, len(daemon.turns)) +
                      b"".join(struct.pack("<II", *turn) for turn in daemon.turns))
        self.send(BATCH, 0, body + entries)

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
        self.pump()
