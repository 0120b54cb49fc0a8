"""What tests with the raw client share: a dataset, a part of it to train on, ranks that take batches in turns."""

import os
import random

import raw
from system import Case, tree

COUNT = 120
SHUFFLES = (raw.DEPENDENT, raw.STRICT, raw.NONE)
SUBSET = {"difference": [{"range": [3, COUNT]}, {"range": [50, 57]}]}
VIEW = sorted(set(range(3, COUNT)) - set(range(50, 57)))


def turns_of(batches):
    return [turn for batch in batches for turn in batch.turns if turn is not None]


class RawCase(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT)
        self.seed = int(os.environ.get("LARDER_SEED", "1"))
        self.draw = random.Random(self.seed)
        print(f"LARDER_SEED={self.seed}", flush=True)

    def client(self, daemon):
        client = raw.Client(daemon.socket)
        self.addCleanup(client.close)
        return client

    def ranks(self, daemon, world_size, states=None, name="job", **options):
        """All ranks of a job. states: of each what it presents, or the same for all."""
        options = {"batch_size": 4, "subset": SUBSET, "seed": 11, **options}
        clients = [self.client(daemon) for _ in range(world_size)]
        for rank, client in enumerate(clients):
            state = states[rank] if isinstance(states, list) else states
            client.register(self.dataset, world_size=world_size, rank=rank, name=name, state=state, **options)
        return clients

    def take(self, clients, epoch, counts):
        """So many batches of each rank, one at a time in turns."""
        taken = [[] for _ in clients]
        for step in range(max(counts)):
            ranks = [rank for rank, count in enumerate(counts) if step < count]
            for rank in ranks:
                clients[rank].next(epoch)
            for rank in ranks:
                taken[rank].append(clients[rank].batch())
                clients[rank].release(taken[rank][-1].batch)
        return taken

    def rest(self, clients, epoch):
        """What is left of the epoch, taken rank by rank in turns."""
        taken, open_ranks = [[] for _ in clients], set(range(len(clients)))
        while open_ranks:
            for rank in open_ranks:
                clients[rank].next(epoch)
            for rank in list(open_ranks):
                batch = clients[rank].batch()
                if batch.indices:
                    clients[rank].release(batch.batch)
                    taken[rank].append(batch)
                if batch.last:
                    open_ranks.remove(rank)
        return taken

    def leave(self, clients):
        for client in clients:
            client.close()
