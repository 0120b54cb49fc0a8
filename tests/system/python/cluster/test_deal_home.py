"""deal="home": nodes keep their parts of the dataset over epochs, and each epoch is exact all the same."""

import os
import subprocess
from collections import Counter

import above  # noqa: F401
import system
from cluster_case import ClusterCase
from system import larder

EPOCHS = 3
COUNT = 2000


class DealHome(ClusterCase):
    def training(self, daemons, split, **options):
        """A script a rank; split[i] of them at daemons[i]."""
        options = {"batch_size": 16, "epochs": EPOCHS, "name": "train", "deal": "home", **options}
        return [script for daemon in self.ranks_at(daemons, split) for script in self.scripts([daemon], **options)]

    def exact(self, scripts, drop_last=False, epochs=EPOCHS, copies=1):
        """Each epoch: each rank as many samples, and together each as often as it should come, but for repeats that
        fill up."""
        world_size, all_of = len(scripts), COUNT * copies
        each = all_of // world_size // 16 * 16 if drop_last else -(-all_of // world_size)
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        for epoch in range(epochs):
            shares = [self.of_epoch(script, epoch) for script in scripts]
            self.assertEqual([len(share) for share in shares], [each] * world_size)
            counts = Counter(sum(shares, []))
            if drop_last:
                self.assertLessEqual(max(counts.values()), copies)
            else:
                self.assertEqual([index for index in range(COUNT) if counts[index] < copies], [])

    def of_epoch(self, script, epoch):
        return [index for _, number, indices in script.batches if number == epoch for index in indices]

    def test_each_sample_once(self):
        """Two daemons and three; ranks at each that are as many or not; drop_last; copies; draws of classes alike."""
        daemons = [self.node(), self.node(), self.node()]
        for split, options in (((1, 1), {}), ((2, 2), {"drop_last": True}), ((3, 1), {"mix": 0}),
                               ((1, 1, 1), {"mix": 1}), ((1, 2), {"repeat": 2})):
            with self.subTest(split=split, **options):
                self.exact(self.training(daemons, split, **options), "drop_last" in options,
                           copies=options.get("repeat", 1))
        scripts = self.training(daemons, (1, 1), sampler={"Balanced": [1000]})
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
            self.assertEqual([len(self.of_epoch(script, epoch)) for epoch in range(EPOCHS)], [500] * EPOCHS)

    def test_memory_adds_up(self):
        """Two nodes with memory for 60 % of the dataset each read little after the first epoch, and the part of a node
        stays what it was but for a tenth of the chunks, half of which stay all the same. Dealt anew, they read much of
        it in each epoch."""
        store, epochs = os.path.join(self.folder, "samples.store"), 5
        subprocess.run([os.path.join(system.BIN, "larder"), "pack", system.tree(COUNT, width=128, height=96), store,
                        "--chunk-size", "16", "--quiet"], check=True)  # eight chunks are left to shuffle the others
        size = sum(os.path.getsize(os.path.join(store, name)) for name in os.listdir(store))
        config = system.CONFIG.replace("encoded: 64MiB", f"encoded: {size * 6 // 10 // 1024}KiB")
        loaded = {}
        for deal in ("home", "epoch"):
            daemons = [self.node(config), self.node(config)]
            scripts = self.training(daemons, (1, 1), dataset=store, deal=deal, epochs=epochs)
            self.exact(scripts, epochs=epochs)
            samples = [daemon.status()["samples"] for daemon in daemons]
            loaded[deal] = (sum(row["loaded"] for row in samples) - COUNT) / (epochs - 1) / COUNT
            first, *later = (set(self.of_epoch(scripts[0], epoch)) for epoch in range(epochs))
            stays = [len(first & share) / len(share) for share in later]
            self.assertTrue(all(part > .85 if deal == "home" else part < .75 for part in stays), stays)
            for daemon in daemons:
                daemon.stop()
        self.assertLess(loaded["home"], .33)
        self.assertGreater(loaded["epoch"], .5)

    def test_a_daemon_is_killed(self):
        """A node's daemon dies in the middle of an epoch and another comes, which deals as the one before did."""
        daemons = [self.node(), self.node()]
        scripts = self.training(daemons, (2, 2), step_s=.03)
        self.in_the_middle(scripts)
        daemons[1].kill()
        daemons[1] = system.Daemon(os.path.dirname(daemons[1].socket))
        self.addCleanup(daemons[1].stop)
        self.exact(scripts)

    def test_no_network(self):
        """In a cluster whose homes give to all trainings, those that are dealt at home ask for nothing. Two of them, of
        other seeds, share at each node what both have there."""
        self.cluster(2)
        begin = os.path.join(self.folder, "begin")
        trainings = [self.training(self.nodes, (1, 1), seed=seed, name=f"t-{seed}", step_s=.01, start_after=begin)
                     for seed in (1, 2)]
        self.assertTrue(system.until(lambda: all(len(node.status()["jobs"]) == 2 for node in self.nodes), 60))
        with open(begin, "w"):
            pass
        self.in_the_middle(trainings[0])
        told = self.larder(self.nodes[0], "explain", "t-1 [0-0/2]", "--interval", ".2")
        self.assertIn("at its ranks' own nodes, because of deal=\"home\": 10 % of the chunks", " ".join(told.split()))
        for scripts in trainings:
            self.exact(scripts)
        for node in self.nodes:
            self.assertEqual(node.status()["cluster"]["requests"], 0)
        if system.QUIET:
            self.assertLess(self.prepared(), .65 * 2 * EPOCHS * COUNT)

    def test_what_does_not_go(self):
        """Orders that say themselves who gets what, a mix of nothing, and ranks that differ are refused."""
        daemon, folder = self.daemon(), system.tree(64)
        for options, words in (({"deal": "node"}, "'epoch', 'home'"), ({"mix": .1}, "leave mix out"),
                               ({"deal": "home", "shuffle": "strict"}, "leave one of the two out"),
                               ({"deal": "home", "shuffle": False}, "leave one of the two out"),
                               ({"deal": "home", "mix": 1.5}, "0 to 1"), ({"deal": "home", "mix": "x"}, "0 to 1"),
                               ({"deal": "home", "mix": 10 ** 400}, "0 to 1"),
                               ({"deal": "home", "mix": float("nan")}, "0 to 1")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                self.loader(daemon, folder, **options)
        ranks = {"world_size": 4, "local_world_size": 2, "name": "differs"}
        self.loader(daemon, folder, rank=0, deal="home", **ranks)
        for options in ({}, {"deal": "home", "mix": .2}):
            with self.assertRaisesRegex(larder.InvalidArgument, "rank 1 has another deal or mix"):
                self.loader(daemon, folder, rank=1, **ranks, **options)
        self.assertEqual(daemon.jobs()["differs [0-1/4]"]["mix"], .1)
        with self.loader(daemon, folder, deal="home") as loader:  # alone: all samples are at home
            self.assertEqual(sum(len(labels) for _, labels, *_ in loader), 64)


if __name__ == "__main__":
    system.main()
