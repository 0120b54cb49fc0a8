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
            self.assertTrue(system.until(lambda: f"nodes={count}" in node.log(), 60), node.log())  # pylint: disable=W0640
        return self.nodes

    def scripts(self, **options):
        options = {"dataset": system.tree(COUNT), "pipeline": system.PIPELINE, "batch_size": 32, "epochs": 3,
                   "timeout": 60 * SLOW, **options}
        return [self.script(node, **options) for node in self.nodes]

    def check(self, scripts, epochs=3):
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
            self.assertEqual(script.epochs(), [list(range(COUNT))] * epochs)

    def prepared(self):
        return sum(node.status()["samples"]["prepared"] for node in self.nodes)

    def test_each_sample_is_prepared_once_for_all(self):
        self.cluster(2)
        self.check(self.scripts())
        print("prepared a delivered sample", self.prepared() / (2 * 3 * COUNT)); print([n.log()[-1500:] for n in self.nodes])
        self.assertLess(self.prepared(), .75 * 2 * 3 * COUNT)


if __name__ == "__main__":
    system.main()
