"""A daemon of a cluster without certificates is told what no node says: 2,000 requests, made from real ones with a
fixed seed, while a job trains. Nothing is given to whoever says it, the job is exact, and the daemon stays as it
was."""

import os
import random
import struct
import unittest

import above  # noqa: F401
import peer
import system
from cluster_case import COUNT, ClusterCase
from proxy import Proxy
from system import SLOW

SEED, REQUESTS = 20240, 2000
LATE = 150  # batches of 189, after which a job waits until all was asked
GROWTH_MAX = 64 << 20
SANITIZED = system.PATIENCE > 1  # its own memory is many times the program's
HEAD = peer.Sender.HEAD.size
NOTHING_GIVEN = {peer.ALIVE, peer.REFUSED, peer.STALE, peer.EMPTY, peer.GONE, peer.DONE}
NUMBERS = (0, 1, 255, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
try:
    peer.xxh3(b"")
    XXHASH = True
except OSError:
    XXHASH = False


def resident(process):
    with open(f"/proc/{process.pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS:"))


class Liar:
    """Makes requests that no daemon must give anything for. `attach` is one of a node's, and `sender` that node."""

    PIPELINES = (b"", b"{", b"[", b"null", b"7", b'["nothing"]', b'[{"resize": {"size": [0, 0]}}]',
                 b'[{"resize": {"size": [1000000, 1000000]}}]', b"[" * 24576, b"\xff\xfe",
                 b'["random_horizontal_flip",]')

    def __init__(self, attach, sender, outside, seed):
        self.attach, self.sender, self.outside, self.random = attach, sender, outside, random.Random(seed)
        self.makers = (self.flipped, self.cut, self.longer, self.lengths, self.numbers, self.requests, self.views,
                       self.places, self.pipelines, self.others)

    def make(self):
        """(path, body)"""
        return self.random.choice(self.makers)()

    def any_path(self):
        return self.random.choice(list(peer.PATHS.values()))

    def number(self, bits, but=None):
        """A number of so many bits, and another one than `but`."""
        numbers = [*NUMBERS, (1 << bits) - 1, self.random.getrandbits(bits)]
        return self.random.choice([value for value in numbers if value < 1 << bits and value != but])

    def plain(self):
        """A request that is well made, for guests that there are not, or for another dataset at the path."""
        attach = self.own()._replace(fingerprint=self.random.randbytes(16))
        guest, term = self.number(64), self.number(64)
        return self.random.choice((
            (peer.PROBE, self.sender.request(peer.PROBE)),
            (peer.ATTACH, self.sender.attach(attach)),
            (peer.NEXT, self.sender.next(guest, term, 1 + self.number(32))),
            (peer.WITHDRAW, self.sender.withdraw(guest, term, peer.view((0, self.number(8))))),
            (peer.DETACH, self.sender.detach(guest, term)),
            (peer.STATE_GET, self.sender.state(b"job", self.number(64), self.number(32), self.number(32)))))

    def own(self):
        """The real request, as of a job of one's own."""
        return self.attach._replace(anchor=self.random.randbytes(16), anchor_boot=self.number(64), job=self.number(32))

    def asked(self, attach):
        return peer.PATHS[peer.ATTACH], self.sender.attach(attach)

    def flipped(self):
        kind, body = self.plain()
        body = bytearray(body)
        for _ in range(self.random.randint(1, 8)):
            body[self.random.randrange(len(body))] ^= 1 << self.random.randrange(8)
        return peer.PATHS[kind], bytes(body)

    def cut(self):
        kind, body = self.plain()
        return peer.PATHS[kind], body[:self.random.randrange(len(body))]

    def longer(self):
        kind, body = self.plain()
        return peer.PATHS[kind], body + self.random.randbytes(self.random.choice((1, 7, 300, 100000)))

    def lengths(self):
        """A text or a set that is said to be longer or shorter than it is."""
        body = bytearray(self.sender.attach(self.own()))
        path_at = HEAD + 16 + 8 + 4 + 4 + 8 + 16
        pipeline_at = path_at + 4 + len(self.attach.path) + 4
        view_at = len(body) - 32 - 4 - len(self.attach.view)
        at = self.random.choice((path_at, pipeline_at, view_at))
        (real,) = struct.unpack_from("<I", body, at)
        lie = self.random.choice([value for value in (real - 1, real + 1, *NUMBERS) if value != real])
        struct.pack_into("<I", body, at, lie)
        return peer.PATHS[peer.ATTACH], bytes(body)

    def numbers(self):
        """Fields that mean something else than what they say."""
        changes = ({"form": 2}, {"form": 255}, {"shuffle": 3}, {"flags": 2}, {"weight": 0.}, {"weight": -1.},
                   {"weight": float("nan")}, {"weight": float("inf")}, {"prep_id": self.attach.prep_id ^ 1},
                   {"fingerprint": bytes(16)}, {"version": bytes(32)},
                   {"version": self.random.randbytes(32)}, {"view": b""}, {"view": self.random.randbytes(200)})
        return self.asked(self.own()._replace(**self.random.choice(changes)))

    def requests(self):
        """For guests that there are not, and more than anybody may ask for."""
        return peer.PATHS[peer.NEXT], self.sender.next(
            self.number(64), self.number(64), self.number(64), self.number(64), self.number(64), self.number(16),
            self.number(16), self.number(16), self.number(32))

    def views(self):
        """Indices beyond the dataset and its 32 planes, and sets that lie about themselves."""
        return self.asked(self.own()._replace(view=self.random.choice((
            peer.view((0, 32 * COUNT)), peer.view((32 * COUNT, 32 * COUNT)), peer.view((65000, 65535)),
            peer.view((0, 65535)),
            peer.view((5, 1)), peer.view((0, 9), (5, 20)), peer.view((0, 9), ids=self.number(64, 10)),
            peer.view((0, 9), pages=self.number(32, 1)), peer.view(),
            self.attach.view[:-1], self.attach.view + b"\0"))))

    def places(self):
        path = self.attach.path
        return self.asked(self.own()._replace(path=self.random.choice((
            self.outside, b"", b"/", b".", b"..", b"data", b"./" + os.path.basename(path), path[1:], path + b"/../..",
            path + b"/../../" + self.outside, b"/proc/self/fd", b"/dev/zero", b"/etc/passwd", b"x" * 4096,
            b"/" * 4096, path + b"\0", path + b"/nothing", b"s3://there/is/none", b"\xff\xfe"))))

    def pipelines(self):
        return self.asked(self.own()._replace(pipeline=self.random.choice(self.PIPELINES)))

    def others(self):
        """By another's path, of another cluster or version, or no message at all."""
        kind, body = self.plain()
        stranger = self.sender._replace(cluster=self.sender.cluster ^ 1)
        return self.random.choice((
            (self.random.choice([path for other, path in peer.PATHS.items() if other != kind]), body),
            ("/" + "x" * self.random.randrange(2000), body),
            (self.any_path(), stranger.attach(self.own())),
            (self.any_path(), body[:4] + struct.pack("<H", self.number(16, 1)) + body[6:]),
            (self.any_path(), b""),
            (self.any_path(), peer.ANSWER.pack(1, peer.ATTACHED, 1) + struct.pack("<QII", 1, 1, 1)),
            (self.any_path(), self.random.randbytes(self.random.randrange(4096)))))


@unittest.skipUnless(XXHASH, "this machine has no libxxhash")
class Hostile(ClusterCase):
    def setUp(self):
        super().setUp()
        self.proxy = None

    def config(self, number):
        """Node 0 talks to node 1 over a proxy."""
        return super().config(number) + f"roots:\n  - {system.tree(COUNT)}\n"

    def settings(self, number):
        if not self.proxy:
            self.proxy = Proxy(self.ports[1], remember=True)
            self.addCleanup(self.proxy.close)
        other = self.ports[0] if number else self.proxy.port
        return {**super().settings(number), "nodes": f"[127.0.0.1:{other}]"}

    def real(self):
        """A request with which node 0 has attached a job at node 1, and its sender."""
        bodies = [body for sent in self.proxy.remembered for body in peer.requests_of(sent, peer.ATTACH)]
        attach, body = next((attach, body) for attach, body in ((peer.Attach.decode(body[HEAD:]), body)
                                                                for body in bodies)
                            if attach.job)  # the others tell what is wanted, and are for no samples
        sender = peer.Sender.of(body)
        self.assertEqual(sender.attach(attach), body)
        return attach, sender

    def begun(self, **options):
        """Both nodes have run a job, which has filled what they fill. Gives a real request and jobs that train, which
        do not end before `unharmed`."""
        self.cluster(2)
        self.check(self.scripts())
        attach, sender = self.real()
        scripts = self.scripts(pause=[LATE, os.path.join(self.folder, "over")], **options)
        self.in_the_middle(scripts)
        asker = peer.Peer(self.ports[1], 60 * SLOW)
        self.addCleanup(asker.close)
        return attach, sender, scripts, asker

    def trained(self, scripts):
        return sum(len(script.batches) for script in scripts)

    def unharmed(self, scripts, before):
        self.assertTrue(all(script.process.poll() is None for script in scripts), "a job has ended")
        with open(os.path.join(self.folder, "over"), "w"):
            pass
        self.check(scripts)
        self.assertIsNone(self.nodes[1].process.poll(), self.nodes[1].log()[-4000:])
        if not SANITIZED:
            self.assertLess(resident(self.nodes[1].process) - before, GROWTH_MAX)
        self.assertEqual([node.stop() for node in self.nodes], [0, 0])

    def test_lies(self):
        """Each is refused, and nothing is given for any."""
        attach, sender, scripts, asker = self.begun(step_s=.04)
        outside = system.tree(64)
        liar = Liar(attach, sender, outside.encode(), SEED)
        before, batches = resident(self.nodes[1].process), self.trained(scripts)
        refused = 0
        for number in range(REQUESTS):
            path, body = liar.make()
            answer = asker.ask(path, body)
            self.assertTrue(400 <= answer.status < 500 or answer.kind in NOTHING_GIVEN,
                            (SEED, number, path, answer[:2], body[:400]))
            refused += answer.status != 200
        self.assertTrue(.2 * REQUESTS < refused < .95 * REQUESTS, refused)
        self.assertGreater(self.trained(scripts), batches)
        self.unharmed(scripts, before)

    def test_a_node_that_is_not_itself(self):
        """Somebody attaches as the real node's real job with any terms, asks for anything, and lets it go. The job
        loses its guests again and again, and is exact."""
        attach, sender, scripts, asker = self.begun(step_s=.03)
        dice = random.Random(SEED)
        before, batches = resident(self.nodes[1].process), self.trained(scripts)
        given, guests = set(), [(0, 0)]
        for _ in range(REQUESTS // 4):
            guest, term = dice.choice(guests)
            body = dice.choice((
                lambda: sender.attach(attach._replace(
                    job=dice.randrange(8), epoch=dice.randrange(2), term=dice.choice((0, 1, 2, 3, 1 << 63)),
                    predecessor=guest, view=peer.view((0, dice.randrange(COUNT))))),
                lambda: sender.next(guest, term, dice.choice((1, 2, 3, 4, 5, 1 << 63)), acked=0,
                                    more=dice.getrandbits(64), n=dice.randint(1, 200), extra=dice.randint(0, 56),
                                    wait_ms=dice.choice((0, 0, 20, 80))),
                lambda: sender.detach(guest, term),
                lambda: sender.withdraw(guest, term, b"")))()
            kind = struct.unpack_from("<H", body, 6)[0]
            answer = asker.ask(peer.PATHS[kind], body)
            self.assertEqual(answer.status, 200)
            given.add(answer.kind)
            if answer.kind == peer.ATTACHED:
                asked = peer.Attach.decode(body[HEAD:])
                guests = [*guests, (answer.guest(), asked.term)][-8:]
        self.assertLessEqual({peer.ATTACHED, peer.BATCH, peer.DONE}, given)
        self.assertGreater(self.trained(scripts), batches)
        self.unharmed(scripts, before)


if __name__ == "__main__":
    system.main()
