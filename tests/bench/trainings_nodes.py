#!/usr/bin/env python3
"""Trainings over several daemons with certificates: what is prepared for a sample that a rank received.

    trainings_nodes.py FOLDER [--nodes 4] [--trainings 8] [--speeds 1] [--epochs 2] [--copies 34] [--kill]
                       [--batch-size 16] [--prefetch 2] [--arena 12MiB] [--encoded 32MiB] [--namespaces]

Each training has a rank on each node, and a seed of its own. One thread takes the batches of all ranks in turn, so no
training gets ahead of its speed, however busy the machine is. --speeds 1,2,3,4 takes that many batches a turn, and so
many times the epochs, of the trainings in this order, again and again. With --kill the last daemon is killed in the
middle, and started again. Each sample must come once in each epoch of each training: else it ends with status 1.
LARDER_BIN says which build.
"""

import functools
import sys

import cluster_nodes
from cluster_nodes import system  # it says where cluster_case is
from cluster_case import FROM_OTHERS

PIPELINE = [{"random_resized_crop": {"size": 64}}, "random_horizontal_flip"]


class Training:
    """Its ranks, one at each daemon, and what they had of the epoch that they are in."""

    def __init__(self, options, folder, nodes, number):
        self.speed = options.speeds[number % len(options.speeds)]
        self.epochs = options.epochs * self.speed
        self.ranks = [system.larder.Loader(
            folder, PIPELINE, options.batch_size, epochs=self.epochs, with_ids=True, output="numpy", rank=rank,
            world_size=options.nodes, local_world_size=1, seed=number + 1, name=f"training-{number}",
            socket=daemon.socket, prefetch=options.prefetch, reconnect=120, timeout=600)
            for rank, daemon in enumerate(nodes.daemons)]
        self.count = self.ranks[0].dataset_size
        self.received = 0

    def batches(self):
        """A turn: yields after a batch of each rank. Raises where an epoch is not exact."""
        for _ in range(self.epochs):
            iterators, had = [iter(rank) for rank in self.ranks], []
            while any(came := [next(iterator, None) for iterator in iterators]):
                had += [index for batch in came if batch is not None for index in batch[2].tolist()]
                yield
            if sorted(had) != list(range(self.count)):
                raise SystemExit(f"{self.ranks[0].name}: {len(had)} samples came, {len(set(had))} of {self.count}")
            self.received += len(had)

    def close(self):
        for rank in self.ranks:
            rank.close()


def train(trainings, after, then):
    """Takes the turns of all trainings until each has ended; calls then() after `after` of them."""
    going, turns = [(training, training.batches()) for training in trainings], 0
    while going:
        going = [(training, batches) for training, batches in going
                 if all(next(batches, going) is not going for _ in range(training.speed))]
        turns += 1
        if turns == after:
            then()


def measure(options, folder, scratch):
    nodes = cluster_nodes.Nodes(options, scratch, shared=True)
    lost = []

    def kill():
        lost.append(nodes.counts(nodes.daemons[-1:]))
        nodes.kill(len(nodes.daemons) - 1)

    try:
        trainings = [Training(options, folder, nodes, number) for number in range(options.trainings)]
        turns = options.epochs * trainings[0].count // (options.nodes * options.batch_size)
        train(trainings, turns // 2 if options.kill else 0, kill)
        counts = nodes.counts()
        for training in trainings:
            training.close()
        told = [row for daemon in nodes.daemons for row in FROM_OTHERS.findall(daemon.log())]
    finally:
        nodes.stop()
    received = sum(training.received for training in trainings)
    counts = {name: value + sum(row[name] for row in lost) for name, value in counts.items()}
    speeds = [training.speed for training in trainings]
    print(f"{options.trainings} trainings of {options.nodes} ranks, speeds {options.speeds}"
          f"{', a home killed' if options.kill else ''}: "
          f"received {received}, each once; prepared {counts['prepared'] / received:.4f} (least "
          f"{max(speeds) / sum(speeds):.4f}), read {counts['read'] / received:.4f}, requests "
          f"{counts['requests'] / received:.4f}; from others, refused, moved, back: "
          + " ".join(f"{sum(map(int, column)) / received:.4f}" for column in zip(*told)), flush=True)


def main():
    parser = cluster_nodes.arguments(__doc__, copies=34, epochs=2, batch_size=16, prefetch=2, arena="12MiB")
    parser.add_argument("--trainings", type=int, default=8)
    parser.add_argument("--speeds", type=lambda text: [int(word) for word in text.split(",")], default=[1])
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    return cluster_nodes.bench(options, functools.partial(measure, options))


if __name__ == "__main__":
    sys.exit(main())
