"""Daemons of a cluster, each with jobs of its own: each sample is prepared once for all of them, and each job gets each
sample once an epoch, whatever dies."""

import os
import signal

import system
from system import SLOW

COUNT = 2000


class Cluster(system.Case):
    def setUp(self):
        super().setUp()
        self.ports, self.nodes = [], []

    def config(self, number):
        nodes = ", ".join(f"127.0.0.1:{port}" for port in self.ports)
        return system.CONFIG + (f"cluster:\n  name: test\n  node: node-{number}\n  nodes: [{nodes}]\n"
                                f"  listen: 127.0.0.1:{self.ports[number]}\n"
                                f"  advertise: 127.0.0.1:{self.ports[number]}\n  security: none\n")

    def start(self, number):
        folder = os.path.join(self.folder, f"node-{number}")
        os.makedirs(folder, exist_ok=True)
        daemon = system.Daemon(folder, self.config(number))
        self.addCleanup(daemon.stop)
        return daemon

    def cluster(self, count):
        """Daemons that have found each other."""
        self.ports = [system.free_port() for _ in range(count)]
        self.nodes = [self.start(number) for number in range(count)]
        for node in self.nodes:
            self.assertTrue(system.until(lambda node=node: f"nodes={count}" in node.log(), 60), node.log())
        return self.nodes

    def scripts(self, nodes=None, **options):
        options = {"dataset": system.tree(COUNT), "pipeline": system.PIPELINE, "batch_size": 32, "epochs": 3,
                   "timeout": 60 * SLOW, **options}
        return [self.script(node, **options) for node in nodes or self.nodes]

    def check(self, scripts, epochs=3):
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
            self.assertEqual(script.epochs(), [list(range(COUNT))] * epochs)

    def prepared(self):
        return sum(node.status()["samples"]["prepared"] for node in self.nodes)

    def test_each_sample_is_prepared_once_for_all(self):
        self.cluster(2)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .75 * 2 * 3 * COUNT)

    def test_four_nodes(self):
        self.cluster(4)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .4 * 4 * 3 * COUNT)

    def in_the_middle(self, scripts):
        for script in scripts:
            self.assertTrue(system.until(lambda script=script: len(script.batches) > 20, 60))

    def test_a_home_is_killed(self):
        """What it was to give is drawn by others: the job goes on, and gets each sample once. It comes again, too."""
        self.cluster(3)
        scripts = self.scripts(self.nodes[:2], step_s=.02)
        self.in_the_middle(scripts)
        self.nodes[2].kill()
        self.nodes[2] = self.start(2)
        self.check(scripts)

    def test_a_home_stands_still(self):
        self.cluster(2)
        scripts = self.scripts(self.nodes[:1], step_s=.01)
        self.in_the_middle(scripts)
        self.nodes[1].process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.nodes[1].process.send_signal, signal.SIGCONT)
        self.check(scripts)

    def test_a_scripts_own_daemon_is_killed(self):
        self.cluster(2)
        scripts = self.scripts(step_s=.02, reconnect=60 * SLOW)
        self.in_the_middle(scripts)
        self.nodes[0].kill()
        self.nodes[0] = self.start(0)
        self.check(scripts)

    def test_ranks_at_one_node(self):
        self.cluster(2)
        options = {"name": "ranks", "world_size": 2, "epochs": 2}
        scripts = [script for rank in range(2) for script in self.scripts(self.nodes[:1], rank=rank, **options)]
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        for epoch in range(2):
            self.assertEqual(sorted(sum((script.epochs()[epoch] for script in scripts), [])), list(range(COUNT)))

    def test_bad_samples(self):
        """What a home cannot prepare comes back to the job's own node, which finds that out for itself."""
        tree = system.make_tree(os.path.join(self.folder, "tree"), COUNT)
        for path in system.files_of(tree)[::400]:
            with open(path, "wb") as file:
                file.write(b"no image")
        self.cluster(2)
        script = self.scripts(self.nodes[:1], dataset=tree, epochs=1, bad_samples="skip")[0]
        self.assertEqual(script.wait(), 0, (script.end, script.errors))
        self.assertEqual(script.epochs(), [[index for index in range(COUNT) if index % 400]])

    def test_scripts_that_are_killed(self):
        """Nothing of theirs stays in the arena."""
        self.cluster(2)
        for _ in range(4):
            script = self.scripts(self.nodes[:1], step_s=.02)[0]
            self.in_the_middle([script])
            script.kill()
            script.wait()
        self.assertTrue(system.until(lambda: self.nodes[0].status()["memory"]["arena"]["pinned_bytes"] == 0, 60),
                        self.nodes[0].status()["memory"])


if __name__ == "__main__":
    system.main()
