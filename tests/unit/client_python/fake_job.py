"""The jobs of the fake daemon: what of an epoch is whose, what a record says was taken of it, and tokens.

Plain and slow, and written after docs and headers alone, not after the package: sets of indices, lists of positions.
"""

import random
import struct

DEPENDENT = 0
NOBODY = 0xFFFFFFFF
NAMES = ("dataset_0", "dataset_1", "view_0", "view_1", "seed", "shuffle", "epoch", "batches", "samples")


def parse(data):
    """The fields of a record, after common/record.h."""
    magic, version, kind = struct.unpack_from("<IHH", data)
    assert magic == 0x5352444C and version in (1, 2), "a record begins with its magic number and version"
    of = struct.unpack_from("<4Q", data, 8) if version == 2 else (0, 0, 0, 0)
    data = data[:8] + data[8 + 32 * (version == 2):]
    record = dict(zip(NAMES, struct.unpack_from("<5Q4I", data, 8)), version=of, base=set(), segments=[])
    count, = struct.unpack_from("<I", data, 64)
    at = 68
    if kind == 0:
        record["base"] = {8 * i + bit for i in range(count) for bit in range(8) if data[at + i] >> bit & 1}
        at += count
    for _ in range(count if kind == 1 else 0):
        ranks, n = struct.unpack_from("<II", data, at)
        record["segments"].append((ranks, struct.unpack_from(f"<{n}I", data, at + 8) * (ranks if n == 1 else 1)))
        at += 8 + 4 * n
    record["world_size"], record["rank"], n_batches = struct.unpack_from("<III", data, at)
    batches = [struct.unpack_from("<III", data, at + 12 + 12 * i) for i in range(n_batches)]
    at += 12 + 12 * n_batches
    record["history"] = []
    for delivered, through, n in batches:
        record["history"].append((delivered, through, list(struct.unpack_from(f"<{n}I", data, at))))
        at += 4 * n
    assert at == len(data), "a record has no bytes besides its fields"
    assert kind == (0 if record["shuffle"] == DEPENDENT else 1)
    return record


def pack(record):
    """A token: a record without history."""
    kind = 0 if record["shuffle"] == DEPENDENT else 1
    data = struct.pack("<IHH5Q4I", 0x5352444C, 1, kind, *(record[name] for name in NAMES))
    if record["shuffle"] == DEPENDENT:
        bits = bytearray(-(-record["samples"] // 8) if record["base"] else 0)
        for index in record["base"]:
            bits[index // 8] |= 1 << index % 8
        data += struct.pack("<I", len(bits)) + bits
    else:
        data += struct.pack("<I", len(record["segments"]))
        for ranks, through in record["segments"]:
            through = through[:1] if len(set(through)) == 1 else through
            data += struct.pack(f"<II{len(through)}I", ranks, len(through), *through)
    return data + struct.pack("<III", 0, 0, 0)


class Job:
    """One job of the daemon and its ranks. Each rank's plan is a list of batches of (index, turn, number in the part).
    """

    def __init__(self, daemon, asked):
        self.daemon, self.asked = daemon, asked
        self.world_size, self.batch_size = asked["world_size"], asked["batch_size"]
        self.ranks, self.records = {}, {}
        self.epoch, self.later, self.plans, self.given, self.done = -1, {}, {}, {}, set()
        self.base = None  # a record of the epoch that it was restored in

    def attach(self, connection, record):
        """None, or why the rank is refused: a code and a text."""
        rank = self.asked_rank(connection)
        if rank in self.ranks:
            return -7, b"rank is there already"
        if record and self.epoch >= 0:
            given = self.given.get(rank, [])
            if (record["epoch"], len(record["history"])) != (self.epoch, len(given)):
                return -7, b"the job goes on without you"
            record = None
        if bool(self.records) != bool(record) and (self.ranks or self.records) and self.epoch < 0:
            return -1, b"start all from the same checkpoint"
        self.ranks[rank] = connection
        if record:
            self.records[rank] = record
        return None

    @staticmethod
    def asked_rank(connection):
        return connection.job["rank"]

    def stands(self, rank):
        """Where the rank goes on: an epoch and a batch."""
        record = self.records.get(rank)
        if record:
            return record["epoch"], record["batches"] + len(record["history"])
        return max(self.epoch, 0), len(self.given.get(rank, [])) + (self.base["batches"] if self.base else 0)

    # ── epochs ──

    def next(self, rank, epoch):
        """The rank asks for the epoch. What is sent to it at once: None, an empty last batch, an error."""
        if self.epoch < 0 or epoch > self.epoch:
            self.later[rank] = epoch
            if self.epoch >= 0:
                self.done.add(rank)
                self.plans[rank] = []
            self.turn()
            return None
        if epoch < self.epoch:
            known = self.restored.get(rank, self.epoch) if self.restored else self.epoch
            return "empty" if known < self.epoch else "error"
        return None

    restored = None

    def turn(self):
        """Begins another epoch when nobody is in the present one any more."""
        everybody = set(range(self.world_size))
        if self.records and set(self.ranks) != everybody:
            return  # nothing is drawn before all of them have come
        if not self.later or self.epoch >= 0 and self.done != everybody:
            return
        if self.epoch >= 0 and any(slots for rank, connection in self.ranks.items() if rank not in self.later
                                   for slots, _ in connection.held.values()) and self.world_size > 1:
            return  # a rank may yet lose what it has not released
        epoch = min(self.later.values())
        self.restored = {rank: record["epoch"] for rank, record in self.records.items()}
        greatest = max(self.restored.values(), default=-1)
        if self.restored:  # a rank that has not asked yet may ask for that one
            epoch = min(self.later.get(rank, greatest) for rank in everybody)
            epoch = max(epoch, greatest)
        records = {rank: record if record["epoch"] == greatest else dict(record, history=[], base=set(), segments=[],
                                                                         batches=0)
                   for rank, record in self.records.items()} if epoch == greatest else {}
        self.records = {}
        self.begin(epoch, records)

    def begin(self, epoch, records):
        self.base = next((record for record in records.values() if record["epoch"] == epoch), None)
        self.epoch = epoch
        self.given = {rank: list(records.get(rank, {}).get("history", [])) for rank in range(self.world_size)}
        self.done = {rank for rank, asked in self.later.items() if asked > epoch}
        deal = self.deal_set if self.asked["shuffle"] == DEPENDENT else self.deal_order
        parts = deal()
        for rank, part in enumerate(parts):
            self.plans[rank] = [part[i:i + self.batch_size] for i in range(0, len(part), self.batch_size)]
            if self.asked["flags"] & 1 and part and len(self.plans[rank][-1]) < self.batch_size:
                self.plans[rank].pop()
            if self.daemon.empty_last or not self.plans[rank]:
                self.plans[rank].append([])
            if rank in self.done:
                self.plans[rank] = []
        for rank, connection in self.ranks.items():
            if self.later.get(rank) == epoch:
                del self.later[rank]
                connection.begin(epoch)

    def order(self):
        order = list(self.daemon.indices)
        if self.asked["shuffle"] == 1:
            random.Random(self.asked["seed"] * 1000 + self.epoch).shuffle(order)
        elif self.asked["shuffle"] == DEPENDENT and self.daemon.order == "shuffled":
            self.daemon.random.shuffle(order)
        return order

    def share(self, samples):
        share = -(-samples // self.world_size)
        if self.asked["flags"] & 1:
            share = samples // self.world_size // self.batch_size * self.batch_size
        return share

    def deal_set(self):
        base = self.base["base"] if self.base else set()
        taken = {index for history in self.given.values() for _, _, turns in history for index in turns}
        assert not base & taken, "a turn that the base has"
        rest = [index for index in self.order() if index not in base and index not in taken]
        share, parts = self.share(len(self.daemon.indices) - len(base)), []
        bad = set(self.daemon.bad)
        for rank in range(self.world_size):
            missing = share - sum(delivered for delivered, _, _ in self.given[rank])
            part, rest = rest[:missing], rest[missing:]
            part = [(self.daemon.good(), index, 0) if index in bad else (index, index, 0) for index in part
                    if index not in bad or self.asked["bad_policy"] == 1]
            if self.world_size > 1:
                part += [(self.daemon.good(), NOBODY, 0) for _ in range(missing - len(part))]
            parts.append(part)
        return parts

    def deal_order(self):
        rest, segments = self.order(), list(self.base["segments"]) if self.base else []
        through = dict.fromkeys(range(self.world_size), 0)
        if segments and segments[-1][0] == self.world_size:
            through = dict(enumerate(segments.pop()[1]))
        for ranks, numbers in segments:
            rest = [index for at, index in enumerate(rest) if at // ranks >= numbers[at % ranks]]
        parts = []
        for rank in range(self.world_size):
            part = [(index, index, number) for number, index in enumerate(rest[rank::self.world_size])]
            history = self.given[rank]
            self.ends = getattr(self, "ends", {})
            self.ends[rank] = len(part)
            part = [entry for entry in part if entry[0] not in self.daemon.bad]
            if self.world_size > 1:
                part += [(self.daemon.good(), NOBODY, len(part)) for _ in range(self.share(len(rest)) - len(part))]
            at = history[-1][1] if history else through[rank]
            parts.append([entry for entry in part if entry[2] >= at])
        return parts

    # ── batches ──

    def take(self, rank):
        """The rank's next batch: entries, its number in the epoch, through, and whether it is the last."""
        entries = self.plans[rank].pop(0)
        number = len(self.given[rank]) + (self.base["batches"] if self.base else 0)
        through = 0
        if self.asked["shuffle"] != DEPENDENT:
            following = self.plans[rank][0] if self.plans[rank] and self.plans[rank][0] else None
            through = following[0][2] if following else self.ends[rank]
        last = not self.plans[rank]
        if entries:
            turns = [turn for _, turn, _ in entries if turn != NOBODY] if self.asked["shuffle"] == DEPENDENT else []
            self.given[rank].append((len(entries), through, turns))
        if last:
            self.done.add(rank)
        return entries, number, through, last

    def token(self, batches):
        """What all ranks had when each had so many batches; the rank that has not."""
        for rank in range(self.world_size):
            if len(self.given[rank]) < batches and rank not in self.done:
                return rank
        token = dict(self.base or self.daemon.fingerprints(self.asked), epoch=self.epoch)
        token["batches"] += batches
        if self.asked["shuffle"] == DEPENDENT:
            token["base"] = token["base"] | {index for history in self.given.values()
                                             for _, _, turns in history[:batches] for index in turns}
        elif batches:
            kept = token["segments"]
            kept = kept[:-1] if kept and kept[-1][0] == self.world_size else kept
            token["segments"] = [*kept, (self.world_size, tuple(
                self.given[rank][:batches][-1][1] for rank in range(self.world_size)))]
        return pack(token)
