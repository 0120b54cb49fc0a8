"""Jobs whose epochs are multisets, by repeat=, Weights and Balanced, each at one node of a cluster: homes give to them
as to others, and each sample comes as often as the epoch has it, whatever dies."""

import above  # noqa: F401
import numpy as np
import system
from cluster_case import ClusterCase, in_step
from system import SLOW, larder

COUNT = 800  # with four chunks at least for each of three nodes


def samplers():
    """Each with a pipeline of its own, so that none gets what another has left."""
    weights = np.random.default_rng(3).random(COUNT) ** 3
    found = {"repeat": {"repeat": 3}, "weights": {"sampler": larder.Weights(weights, 1002), "seed": 7},
             "balanced": {"sampler": larder.Balanced(603), "seed": 7}}
    return {name: {"pipeline": [{"random_resized_crop": {"size": 32 + number}}, "random_horizontal_flip"], **options}
            for number, (name, options) in enumerate(found.items())}


class SamplerHomes(ClusterCase):
    def setUp(self):
        super().setUp()
        self.dataset = system.tree(COUNT)
        self.alone = self.daemon()

    def jobs(self, name, **options):
        """A job of one rank at each of the first two nodes."""
        return [self.loader(node, self.dataset, batch_size=8, name=f"{name}-{at}", reconnect=60 * SLOW, **options)
                for at, node in enumerate(self.nodes[:2])]

    def train(self, iterators, batches=None):
        """How often each sample comes to each job, in so many batches or in the rest of the epoch."""
        counts = np.zeros((len(iterators), COUNT), int)
        for job, batch in in_step(iterators, batches):
            np.add.at(counts[job], batch[-1], 1)
        return counts

    def multiplicities(self, options, epochs=2):
        """Those of a job at a daemon that knows of no other."""
        with self.loader(self.alone, self.dataset, batch_size=8, **options) as loader:
            return [self.train([iter(loader)])[0] for _ in range(epochs)]

    def exact(self, counts, wanted):
        self.assertEqual(counts.tolist(), [wanted.tolist()] * 2)

    def test_each_draw_is_prepared_once_for_both(self):
        """Alone, each node would prepare what its job receives. A node that gets so little of the machine that it does
        not answer in time is left to its own."""
        self.cluster(2)
        for number, (name, options) in enumerate(samplers().items()):
            with self.subTest(sampler=name):
                wanted, before = self.multiplicities(options), self.prepared()
                loaders = self.jobs(name, **options)
                for epoch in range(2):
                    self.exact(self.train([iter(loader) for loader in loaders]), wanted[epoch])
                for loader in loaders:
                    loader.close()
                rows = [self.from_others(node, number + 1) for node in self.nodes]
                if not any(sum(row[2:]) for row in rows):
                    self.assertLess(self.prepared() - before, .65 * 2 * sum(counts.sum() for counts in wanted))
        self.assertGreater(min(row[0] for row in rows), 0)

    def copies(self, count, dies=None):
        """Two epochs of repeat=3 with three ranks at each of two nodes. Homes give copies one after the other, and know
        no ranks. Each rank has each sample once an epoch all the same."""
        self.cluster(count)
        jobs = [[self.loader(node, self.dataset, batch_size=8, name=f"ranks-{at}", rank=rank, world_size=3,
                             reconnect=60 * SLOW, **samplers()["repeat"]) for rank in range(3)]
                for at, node in enumerate(self.nodes[:2])]
        for _ in range(2):
            iterators = [iter(loader) for loaders in jobs for loader in loaders]
            counts = self.train(iterators, 12)
            if dies is not None:
                self.nodes[dies].kill()
                self.nodes[dies] = self.start(dies)
                dies = None
            self.assertEqual((counts + self.train(iterators)).tolist(), np.ones((6, COUNT), int).tolist())
        for loaders in jobs:
            for loader in loaders:
                loader.close()

    def test_copies_come_to_different_ranks(self):
        self.copies(2)
        rows = [self.from_others(node, 1) for node in self.nodes]
        self.assertGreater(min(row[0] for row in rows), 0)
        if not any(sum(row[2:]) for row in rows):
            self.assertLess(self.prepared(), .55 * 2 * 6 * COUNT)

    def test_copies_and_a_home_is_killed(self):
        self.copies(3, 2)

    def test_copies_and_a_jobs_own_daemon_is_killed(self):
        self.copies(2, 0)

    def through(self, count, dies):
        """Two epochs of each sampler, in the first of which a node dies and comes again."""
        self.cluster(count)
        for name, options in samplers().items():
            with self.subTest(sampler=name):
                wanted = self.multiplicities(options)
                loaders = self.jobs(name, **options)
                iterators = [iter(loader) for loader in loaders]
                counts = self.train(iterators, 12)
                self.nodes[dies].kill()
                self.nodes[dies] = self.start(dies)
                self.exact(counts + self.train(iterators), wanted[0])
                self.exact(self.train([iter(loader) for loader in loaders]), wanted[1])
                for loader in loaders:
                    loader.close()

    def test_a_home_is_killed(self):
        """It has no job of its own."""
        self.through(3, 2)

    def test_a_jobs_own_daemon_is_killed(self):
        """It is a home of the other job, too. Its job goes on, and is asked for no more than the rest of its epoch."""
        self.through(2, 0)


if __name__ == "__main__":
    system.main()
