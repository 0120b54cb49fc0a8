"""A client that speaks to a daemon as another node does (server/cluster/peer_wire.h), byte by byte. So it can say what
a node of ours never says."""

import ctypes
import http.client
import struct
from typing import NamedTuple

(PROBE, ATTACH, NEXT, WITHDRAW, DETACH, STATE_GET, ALIVE, ATTACHED, REFUSED, STALE, BATCH, EMPTY, GONE, WITHDRAWN, DONE,
 STATE) = range(1, 17)
PATHS = {PROBE: "/1/probe", ATTACH: "/1/attach", NEXT: "/1/next", WITHDRAW: "/1/withdraw", DETACH: "/1/detach",
         STATE_GET: "/1/state"}
MAGIC, VERSION = b"LDRP", 1
ANSWER = struct.Struct("<HHQ")


def xxh3(data):
    """OSError: this machine has no libxxhash."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    return library.XXH3_64bits(bytes(data), ctypes.c_size_t(len(data)))


def text(data):
    return struct.pack("<I", len(data)) + data


def view(*runs, ids=None, pages=None):
    """The serial form of a set of runs (first, last) within the first 65536 (sampler/idset_serial.c). `ids` and `pages`
    are what it says that it has, where that is a lie."""
    count = sum(last - first + 1 for first, last in runs) % (1 << 64)
    body = struct.pack("<IHHQII", 0x5344494C, 1, 0, count if ids is None else ids, 1 if pages is None else pages, 0)
    body += struct.pack("<HBBI", 0, 2, 0, len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)
    return body + struct.pack("<Q", xxh3(body))


class Attach(NamedTuple):
    anchor: bytes
    anchor_boot: int
    job: int
    epoch: int
    term: int
    fingerprint: bytes
    path: bytes
    flags: int
    pipeline: bytes
    pipeline_hash: int
    prep_id: int
    form: int
    slot_bytes: int
    shuffle: int
    seed: int
    together: int
    weight: float
    predecessor: int
    family: int
    members: int
    view: bytes
    version: bytes  # of the dataset: times and content

    LAYOUT = ("16s", "Q", "I", "I", "Q", "16s", "text", "I", "text", "Q", "Q", "B", "Q", "B", "Q", "Q", "d", "Q", "Q",
              "H", "text", "32s")

    def encode(self):
        return b"".join(text(value) if form == "text" else struct.pack("<" + form, value)
                        for form, value in zip(self.LAYOUT, self))

    @classmethod
    def decode(cls, data):
        at, values = 0, []
        for form in cls.LAYOUT:
            if form == "text":
                (length,) = struct.unpack_from("<I", data, at)
                values.append(data[at + 4:at + 4 + length])
                at += 4 + length
            else:
                values.append(struct.unpack_from("<" + form, data, at)[0])
                at += struct.calcsize("<" + form)
        assert at == len(data)
        return cls(*values)


class Sender(NamedTuple):
    """Who asks, as each request's head says."""
    cluster: int
    node: bytes
    boot: int

    HEAD = struct.Struct("<4sHHQ16sQ")

    def request(self, kind, fields=b""):
        return self.HEAD.pack(MAGIC, VERSION, kind, self.cluster, self.node, self.boot) + fields

    @classmethod
    def of(cls, request):
        return cls(*cls.HEAD.unpack_from(request)[3:])

    def next(self, guest, term, seq, acked=0, more=0, n=8, extra=0, wait_ms=0, dry_ms=0):
        return self.request(NEXT, struct.pack("<QQQQQHHHI", guest, term, seq, acked, more, n, extra, wait_ms, dry_ms))

    def attach(self, attach):
        return self.request(ATTACH, attach.encode())

    def detach(self, guest, term):
        return self.request(DETACH, struct.pack("<QQ", guest, term))

    def withdraw(self, guest, term, ids):
        return self.request(WITHDRAW, struct.pack("<QQ", guest, term) + text(ids))

    def state(self, job, launch, epoch, batch):
        return self.request(STATE_GET, text(job) + struct.pack("<QII", launch, epoch, batch))


def requests_of(stream, kind):
    """The bodies of the requests of a kind in what a node sent over a connection."""
    found, at = [], 0
    stream = bytes(stream)
    while (end := stream.find(b"\r\n\r\n", at)) >= 0:
        head = stream[at:end].decode("latin-1")
        lengths = [int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        body = stream[end + 4:end + 4 + lengths[0]]
        if head.startswith(f"POST {PATHS[kind]} ") and len(body) == lengths[0]:
            found.append(body)
        at = end + 4 + lengths[0]
    return found


class Answer(NamedTuple):
    status: int
    kind: int = 0  # 0: the status says it all
    body: bytes = b""

    def guest(self):
        """Of ATTACHED."""
        return struct.unpack_from("<Q", self.body, ANSWER.size)[0]


class Peer:
    """A connection to a daemon's port of 127.0.0.1, which is begun anew when the daemon ended it."""

    def __init__(self, port, timeout_s):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def ask(self, path, body):
        for again in (False, True):
            try:
                self._connection.request("POST", path, body, {"Content-Type": "application/x-larder"})
                response = self._connection.getresponse()
                data = response.read()
                break
            except (ConnectionError, http.client.HTTPException):
                self._connection.close()
                if again:
                    raise
        if response.status != 200:
            return Answer(response.status)
        version, kind, _ = ANSWER.unpack_from(data)
        assert version == VERSION and ALIVE <= kind <= STATE, data[:64]
        return Answer(200, kind, data)

    def close(self):
        self._connection.close()
