"""Epochs that are multisets, by repeat=, Weights and Balanced, of a job whose ranks are at several nodes of a cluster:
over all ranks of all nodes each sample comes as often as its epoch has it."""

import threading

import above  # noqa: F401
import numpy as np
import system
from cluster_case import ClusterCase
from system import larder

COUNT = 400
EPOCHS = 3
TRAIN = [{"random_resized_crop": {"size": 32}}, "random_horizontal_flip"]


def samplers():
    weights = np.random.default_rng(3).random(COUNT) ** 3
    return {"repeat": {"repeat": 3}, "weights": {"sampler": larder.Weights(weights, 602), "seed": 7},
            "balanced": {"sampler": larder.Balanced(303), "seed": 7}}


class NodeSamplers(ClusterCase):
    def setUp(self):
        super().setUp()
        self.dataset = system.tree(COUNT)
        self.alone = self.daemon()

    def ranks(self, nodes, here, **options):
        """A Loader a rank, `here` of them at each node."""
        world_size = len(nodes) * here
        return [self.loader(nodes[rank // here], self.dataset, 8, TRAIN, rank=rank, world_size=world_size,
                            local_world_size=here, **{"name": "train", **options}) for rank in range(world_size)]

    def train(self, iterators, batches=None):
        """How often each sample comes, by rank, in so many batches of each rank, or in the rest of the epoch. The ranks
        train side by side."""
        counts, steps = np.zeros((len(iterators), COUNT), int), [0] * len(iterators)

        def train(rank):
            while steps[rank] != batches:
                batch = next(iterators[rank], None)
                if batch is None:
                    return
                steps[rank] += 1
                np.add.at(counts[rank], batch[-1], 1)

        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(len(iterators))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return counts

    def multiplicities(self, options, epochs=EPOCHS):
        """Those of a job of one rank, at a daemon that knows of no other: they go by the seed and the epoch alone."""
        with self.loader(self.alone, self.dataset, 8, TRAIN, **options) as loader:
            return [self.train([iter(loader)])[0] for _ in range(epochs)]

    def check(self, counts, wanted):
        """Each as often as the epoch has it. Ranks get equally many: fewer samples than there are ranks come again to
        fill their shares up, and these are of the epoch."""
        each = -(-wanted.sum() // len(counts))
        self.assertEqual(counts.sum(axis=1).tolist(), [each] * len(counts))
        over = counts.sum(axis=0) - wanted
        self.assertTrue((over >= 0).all(), f"{np.flatnonzero(over < 0)} is missing")
        self.assertLess(over.sum(), len(counts))
        self.assertTrue((over[wanted == 0] == 0).all())

    def test_ledger(self):
        """W = 2 and 4 at two nodes, and 4 at four: several epochs of each sampler, which all nodes work out alike."""
        nodes = self.cluster(4)
        for name, options in samplers().items():
            wanted = self.multiplicities(options)
            if name != "repeat":
                self.assertFalse((wanted[0] == wanted[1]).all())
            for count, here in ((2, 1), (2, 2), (4, 1)):
                with self.subTest(sampler=name, nodes=count, here=here):
                    loaders = self.ranks(nodes[:count], here, name=f"{name}-{count}-{here}", **options)
                    for epoch in range(EPOCHS):
                        self.check(self.train([iter(loader) for loader in loaders]), wanted[epoch])
                    for loader in loaders:
                        loader.close()

    def test_copies(self):
        """repeat=3 with two ranks at each of two nodes: the copies of a sample are at three of them. With fewer ranks
        than copies a rank has several, each with other draws."""
        loaders = self.ranks(self.cluster(2), 2, repeat=3)
        for _ in range(2):
            counts = self.train([iter(loader) for loader in loaders])
            self.assertEqual((counts.max(), counts.sum(axis=0).tolist()), (1, [3] * COUNT))
        with self.loader(self.nodes[0], self.dataset, 8, TRAIN, rank=0, world_size=2, local_world_size=1, repeat=3,
                         name="pixels") as loader:
            images = {}
            for pixels, _, indices in loader:
                for image, index in zip(pixels, indices.tolist()):
                    images.setdefault(index, set()).add(bytes(image))
        # Two draws may be the same crop of a small image; one instance for all copies would be a third of this.
        self.assertGreater(sum(map(len, images.values())), .9 * 3 * COUNT / 2)

    def test_a_daemon_is_killed(self):
        """kill -9 of one node's daemon in the middle of an epoch, and another comes: as often all the same."""
        nodes = self.cluster(2)
        for name, options in samplers().items():
            wanted = self.multiplicities(options, 2)
            for here in (1, 2):
                with self.subTest(sampler=name, here=here):
                    loaders = self.ranks(nodes, here, name=f"{name}-{here}", **options)
                    iterators = [iter(loader) for loader in loaders]
                    counts = self.train(iterators, 5)
                    nodes[1].kill()
                    nodes[1] = self.start(1)
                    counts += self.train(iterators)
                    self.check(counts, wanted[0])
                    self.check(self.train([iter(loader) for loader in loaders]), wanted[1])
                    for loader in loaders:
                        loader.close()

    def test_beside_others(self):
        """One of each sampler and two without, over the same nodes. Homes give to all, and each is exact."""
        nodes = self.cluster(2)
        jobs = {**samplers(), "plain-1": {"seed": 1}, "plain-2": {"seed": 2}}
        wanted = {name: self.multiplicities(options, 2) for name, options in jobs.items()}
        jobs = {name: self.ranks(nodes, 1, name=name, **options) for name, options in jobs.items()}
        for epoch in range(2):
            counts = self.train([iter(loader) for loaders in jobs.values() for loader in loaders])
            for number, name in enumerate(jobs):
                self.check(counts[2 * number:2 * number + 2], wanted[name][epoch])
        rows = nodes[0].status()["cluster"]["jobs"]
        self.assertEqual({row["name"].split()[0]: row["homes"] for row in rows}, dict.fromkeys(wanted, True))

    def test_a_node_is_gone_for_good(self):
        """A state is made between two epochs, and then a node dies. Ranks at the other one go on from it. Inside an
        epoch there is none, as without samplers."""
        nodes = self.cluster(2)
        for name, options in samplers().items():
            with self.subTest(sampler=name):
                wanted = self.multiplicities(options, 3)
                loaders = self.ranks(nodes, 2, **options)
                self.check(self.train([iter(loader) for loader in loaders]), wanted[0])
                state = loaders[0].state_dict()
                iterators = [iter(loader) for loader in loaders]
                self.train(iterators, 2)
                with self.assertRaisesRegex(larder.LarderError, "several nodes.*between two epochs"):
                    loaders[0].state_dict()
                for loader in loaders:
                    loader.close()
                nodes[1].kill()
                loaders = self.ranks(nodes[:1], 3, name="rest", state=state, **options)
                for epoch in (1, 2):
                    self.check(self.train([iter(loader) for loader in loaders]), wanted[epoch])
                for loader in loaders:
                    loader.close()
                nodes[1] = self.start(1)

    def test_drop_last(self):
        """All ranks get as many whole batches, and no sample more often than the epoch has it."""
        nodes = self.cluster(2)
        for name, options in samplers().items():
            with self.subTest(sampler=name):
                wanted = self.multiplicities(options, 1)[0]
                counts = self.train([iter(loader) for loader in self.ranks(nodes, 2, name=name, drop_last=True,
                                                                           **options)])
                each = wanted.sum() // 4 // 8 * 8
                self.assertEqual(counts.sum(axis=1).tolist(), [each] * 4)
                self.assertTrue((counts.sum(axis=0) <= wanted).all())


if __name__ == "__main__":
    system.main()
