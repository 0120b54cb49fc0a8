"""Trainings with ranks on several nodes of a cluster: homes give to them when another wants the same, and each epoch is
exact."""

import os

import above  # noqa: F401
import system
from cluster_case import COUNT, ClusterCase

EPOCHS = 3


class Trainings(ClusterCase):
    def training(self, seed, nodes=None, **options):
        """A script a node: its rank."""
        nodes = nodes or self.nodes
        return [script for node in self.ranks_at(nodes, [1] * len(nodes))
                for script in self.scripts([node], name=f"train-{seed}", seed=seed, step_s=.03, **options)]

    def exact(self, scripts):
        """The ranks have had each sample once in each epoch."""
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        for epoch in range(EPOCHS):
            had = [index for script in scripts for _, number, indices in script.batches if number == epoch
                   for index in indices]
            self.assertEqual(sorted(had), list(range(COUNT)))

    def shared(self, node):
        return {row["name"]: (row["homes"], row["trainings"]) for row in node.status()["cluster"]["jobs"]}

    def test_two_seeds(self):
        """Each sample is prepared once for both, wherever it was dealt to."""
        self.cluster(2)
        begin, seen = (os.path.join(self.folder, name) for name in ("begin", "seen"))
        trainings = [self.training(seed, start_after=begin, pause=[2, seen]) for seed in (1, 2)]
        self.assertTrue(system.until(lambda: all(len(node.status()["jobs"]) == 2 for node in self.nodes), 60))
        with open(begin, "w"):
            pass
        self.assertTrue(system.until(lambda: all(row == (True, 2) for node in self.nodes
                                                 for row in self.shared(node).values()), 60))
        self.assertIn("by homes, 2 wanting it", self.larder(self.nodes[0], "cluster", "status"))
        told = self.larder(self.nodes[0], "explain", next(iter(self.shared(self.nodes[0]))), "--interval", ".2")
        self.assertIn("come from their chunks' homes, because 2 trainings of the cluster want the same.", told)
        with open(seen, "w"):
            pass
        for scripts in trainings:
            self.exact(scripts)
        if system.QUIET:
            self.assertLess(self.prepared(), .56 * 2 * EPOCHS * COUNT)

    def test_one_alone(self):
        """Its nodes ask each other for nothing, until another comes. It may come in the middle of an epoch."""
        self.cluster(2)
        seen = os.path.join(self.folder, "seen")
        alone = self.training(1, pause=[22, seen])
        self.in_the_middle(alone)
        for node in self.nodes:
            self.assertTrue(system.until(lambda node=node: self.shared(node), 60))
            self.assertEqual(list(self.shared(node).values()), [(False, 1)])
            self.assertEqual(node.status()["cluster"]["requests"], 0)
        other = self.training(2, pause=[2, seen])
        self.assertTrue(system.until(lambda: all((True, 2) in self.shared(node).values() for node in self.nodes), 60))
        with open(seen, "w"):
            pass
        self.exact(alone)
        self.exact(other)
        self.assertGreater(sum(node.status()["cluster"]["received"] for node in self.nodes), 0)

    def test_a_home_is_killed(self):
        """Two trainings over two of three nodes. The third, which is a home for both, dies and comes again."""
        self.cluster(3)
        trainings = [self.training(seed, self.nodes[:2]) for seed in (1, 2)]
        for scripts in trainings:
            self.in_the_middle(scripts)
        self.nodes[2].kill()
        self.nodes[2] = self.start(2)
        for scripts in trainings:
            self.exact(scripts)


if __name__ == "__main__":
    system.main()
