"""A client that speaks the session protocol (common/wire.h) byte by byte, and makes records (common/record.h). So it
can say what a client of ours never says."""

import fcntl
import json
import os
import socket
import struct
from typing import NamedTuple

from system import SLOW, larder

MAGIC, RECORD_MAGIC = 0x3152444C, 0x5352444C
(HELLO, WELCOME, REGISTER, REGISTERED, CLASSES_GET, CLASSES, NEXT, BATCH, RELEASE, ERROR, BYE, TURNS, STATE_GET,
 STATE, DONE, COLUMN_GET, COLUMN) = range(1, 18)
DEPENDENT, STRICT, NONE = range(3)
DROP_LAST, HOLD, HAS_STATE = 1, 32, 64
REPLY_MAX = 200704
HEADER = struct.Struct("<IHHII")
FIELD = struct.Struct("<24s8I")  # name, kind, dtype, rank, four dims, offset
NOBODY = 0xFFFFFFFF
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Batch(NamedTuple):
    batch: int
    epoch: int
    index: int
    last: bool
    lost: int
    through: int
    indices: list
    turns: list  # of each sample the index whose turn it is; None: nobody's


class Record(NamedTuple):
    """What was taken of an epoch."""
    dataset: tuple
    view: tuple
    samples: int
    seed: int = 0
    shuffle: int = DEPENDENT
    epoch: int = 0
    batches: int = 0     # of the base
    over: frozenset = frozenset()  # the base of a dependent job: indices whose turn is over
    segments: tuple = ()           # the base of a fixed order: (world_size, (through, …)) each
    world_size: int = 0  # of the history; 0: there is none
    rank: int = 0
    taken: tuple = ()    # (delivered, through, (turn, …)) of each batch

    def encode(self):
        parts = [struct.pack("<IHH5Q4I", RECORD_MAGIC, 1, self.shuffle != DEPENDENT, *self.dataset, *self.view,
                             self.seed, self.shuffle, self.epoch, self.batches, self.samples)]
        if self.shuffle == DEPENDENT:
            bits = sum(1 << index for index in self.over)
            parts.append(text(bits.to_bytes((self.samples + 7) // 8, "little") if self.over else b""))
        else:
            parts.append(struct.pack("<I", len(self.segments)))
            parts += [struct.pack(f"<II{len(through)}I", world_size, len(through), *through)
                      for world_size, through in self.segments]
        parts.append(struct.pack("<III", self.world_size, self.rank, len(self.taken)))
        parts += [struct.pack("<III", delivered, through, len(turns)) for delivered, through, turns in self.taken]
        parts += [struct.pack(f"<{len(turns)}I", *turns) for _, _, turns in self.taken]
        return b"".join(parts)

    @classmethod
    def decode(cls, data):
        """Of a token: a record without history."""
        magic, version, order, *head = struct.unpack_from("<IHH5Q4I", data)
        dataset, view, (seed, shuffle, epoch, batches, samples) = tuple(head[:2]), tuple(head[2:4]), head[4:]
        assert (magic, version, order) == (RECORD_MAGIC, 1, int(shuffle != DEPENDENT))
        (count,), at, over, segments = struct.unpack_from("<I", data, 64), 68, frozenset(), []
        if shuffle == DEPENDENT:
            bits, at = int.from_bytes(data[at:at + count], "little"), at + count
            over = frozenset(index for index in range(samples) if bits >> index & 1)
            assert bits >> samples == 0
        else:
            for _ in range(count):
                world_size, n = struct.unpack_from("<II", data, at)
                segments.append((world_size, struct.unpack_from(f"<{n}I", data, at + 8)))
                at += 8 + 4 * n
        assert data[at:] == bytes(12), "a token has no history"
        return cls(dataset, view, samples, seed, shuffle, epoch, batches, over, tuple(segments))


class Refused(Exception):
    """The daemon's ERROR; `code` is the C name, "EGONE"."""

    def __init__(self, number, fatal, text):
        super().__init__(text)
        self.code, self.fatal = larder.errors.from_code(number, text).code, bool(fatal)


def text(value):
    return struct.pack("<I", len(value)) + value


class Client:
    """One connection. Whatever comes and is not asked for just now is kept."""

    def __init__(self, path, version=5):
        self.version, self.seq, self.kept, self.fds = version, 0, [], []
        self.asked, self.info = {}, None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30 * SLOW)
        self.socket.connect(path)
        self.send(HELLO, struct.pack("<I", os.getpid()) + text(b"raw"))
        self.answer(WELCOME)
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    # ── messages ──

    def send(self, kind, body, fds=()):
        self.seq += 1
        message = HEADER.pack(MAGIC, self.version, kind, self.seq, HEADER.size + len(body)) + body
        socket.send_fds(self.socket, [message], list(fds))
        return self.seq

    def receive(self):
        """(type, seq, body) of the next message. EOFError: the daemon has closed the connection."""
        message, fds, _, _ = socket.recv_fds(self.socket, REPLY_MAX, 4)
        self.fds += fds
        if not message:
            raise EOFError
        magic, version, kind, seq, length = HEADER.unpack_from(message)
        assert (magic, version, length) == (MAGIC, self.version, len(message)), message[:16]
        return kind, seq, message[HEADER.size:]

    def answer(self, *kinds):
        """(type, body) of the next message of these types. An ERROR is raised."""
        for at, (kind, _, body) in enumerate(self.kept):
            if kind in kinds:
                del self.kept[at]
                return kind, body
        while True:
            kind, seq, body = self.receive()
            if kind == ERROR and ERROR not in kinds:
                code, fatal, length = struct.unpack_from("<iII", body)
                raise Refused(code, fatal, body[12:12 + length].decode())
            if kind in kinds:
                return kind, body
            self.kept.append((kind, seq, body))

    # ── requests ──

    def register(self, dataset, batch_size=8, prefetch=2, world_size=1, rank=0, epochs=0, shuffle=DEPENDENT,
                 bad_policy=0, flags=0, seed=0, name="", pipeline=(), subset=None, state=None):
        """REGISTER and its answer, by field. state: a Record, bytes, or a descriptor that may hold anything."""
        self.asked = {"world_size": world_size, "rank": rank, "shuffle": shuffle, "seed": seed}
        if isinstance(state, Record):
            state = state.encode()
        fds = [memfd(state)] if isinstance(state, bytes) else [] if state is None else [state]
        body = struct.pack("<8IQd", batch_size, prefetch, world_size, rank, epochs, shuffle, bad_policy,
                           flags | (HAS_STATE if fds else 0), seed, 1.0)
        body += struct.pack("<2I", 0, 0) if self.version >= 5 else b""  # all ranks are here
        body += struct.pack("<2IQ", 0, 0, 0) if self.version >= 9 else b""  # each sample once
        pipeline = pipeline if isinstance(pipeline, dict) else list(pipeline)
        body += (text(name.encode()) + text(dataset.encode()) + text(json.dumps(pipeline).encode()) +
                 text(json.dumps(subset).encode() if subset else b""))
        try:
            self.send(REGISTER, body, fds)
        finally:
            if isinstance(state, bytes):
                os.close(fds[0])
        _, body = self.answer(REGISTERED)
        image = " height width channels dtype layout" if self.version < 8 else ""
        names = f"job n_samples n_batches n_classes{image} held_max epoch batch sample_bytes".split()
        numbers = struct.Struct(f"<{len(names) - 1}IQ")
        fields = dict(zip(names, numbers.unpack_from(body)))
        fields["fingerprint"] = struct.unpack_from("<2Q", body, numbers.size)
        at, n_fields = numbers.size + 16, 0
        if self.version >= 5:
            fields["view"] = struct.unpack_from("<2Q", body, at)
            fields["dataset_samples"], n_fields = struct.unpack_from("<2I", body, at + 16)
            assert n_fields == 0 or self.version >= 8
            at += 24
        if self.version >= 7:
            fields["version"] = struct.unpack_from("<4Q", body, at)
            at += 32
        fields["fields"] = [FIELD.unpack_from(body, at + FIELD.size * field) for field in range(n_fields)]
        at += FIELD.size * n_fields
        (length,) = struct.unpack_from("<I", body, at)
        fields["name"] = body[at + 4:at + 4 + length].decode()
        assert at + 4 + length == len(body)
        self.info = fields
        return fields

    def next(self, epoch, credits=1, awaited=0):
        self.send(NEXT, struct.pack("<II", epoch, credits) + (struct.pack("<I", awaited) if self.version >= 6 else b""))

    def release(self, batch):
        self.send(RELEASE, struct.pack("<Q", batch))

    def batch(self):
        """The next batch, with whose turns its samples have."""
        kind, body = self.answer(BATCH, TURNS)
        others, of = {}, None
        if kind == TURNS:
            of, count = struct.unpack_from("<QI", body)
            assert len(body) == 12 + 8 * count and count > 0
            others = dict(struct.unpack_from("<II", body, 12 + 8 * at) for at in range(count))
            assert len(others) == count
            kind, body = self.answer(BATCH, TURNS)
            assert kind == BATCH, "TURNS is followed by its batch"
        head = struct.Struct("<QIIIIIId" if self.version >= 5 else "<QIIIIId")
        number, epoch, index, flags, count, lost, *through, _ = head.unpack_from(body)
        assert len(body) == head.size + 24 * count
        indices = [struct.unpack_from("<I", body, head.size + 24 * at + 16)[0] for at in range(count)]
        turns = [others.get(at, indices[at]) for at in range(count)]
        assert of in (None, number) and all(at < count and others[at] != indices[at] for at in others)
        return Batch(number, epoch, index, bool(flags & 1), lost, through[0] if through else 0, indices,
                     [None if turn == NOBODY else turn for turn in turns])

    def take(self, epoch):
        """Asks for one batch, gets it and gives it back."""
        self.next(epoch)
        got = self.batch()
        if got.indices:
            self.release(got.batch)
        return got

    def epoch(self, epoch):
        """All batches of an epoch that are left."""
        batches = []
        while not batches or not batches[-1].last:
            batches.append(self.take(epoch))
        return batches

    def record(self, epoch=0, base=None, batches=None):
        """What this rank presents when it has taken the batches since the base; None: a token, the base alone."""
        asked, info = self.asked, self.info
        base = base or Record(info["fingerprint"], info["view"], info["dataset_samples"], asked["seed"],
                              asked["shuffle"], epoch)
        if batches is None:
            return base
        dependent = base.shuffle == DEPENDENT
        taken = tuple((len(batch.indices), batch.through,
                       tuple(turn for turn in batch.turns if turn is not None) if dependent else ())
                      for batch in batches)
        return base._replace(world_size=asked["world_size"], rank=asked["rank"], taken=taken)

    def ask_state(self, epoch, batches, timeout_ms=30000):
        return self.send(STATE_GET, struct.pack("<III", epoch, batches, timeout_ms))

    def state(self):
        """The token that answers STATE_GET, and that came in a memfd which nobody can change."""
        _, body = self.answer(STATE)
        (n_bytes,) = struct.unpack("<I", body)
        fd = self.fds.pop(0)
        try:
            seals, data = fcntl.fcntl(fd, fcntl.F_GET_SEALS), os.pread(fd, n_bytes + 1, 0)
        finally:
            os.close(fd)
        assert len(data) == n_bytes and seals & SEALS == SEALS
        return Record.decode(data)


def memfd(content):
    """A memfd with these bytes, sealed as a client of ours seals it."""
    fd = os.memfd_create("state", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd
