"""What the system tests of clusters share: daemons that have found each other, and jobs that must be exact."""

import os
import re
import subprocess

import system
from system import SLOW

COUNT = 2000
FROM_OTHERS = re.compile(r'msg="samples from other nodes" job="[^"]*" received=(\d+) refused=(\d+) moved=(\d+) '
                         r'back=(\d+)')


def in_step(iterators, batches=None):
    """(job, batch) of jobs that train in step: so many batches of each, or the rest of the epoch."""
    while batches != 0:
        came = [(job, batch) for job, batch in enumerate([next(iterator, None) for iterator in iterators])
                if batch is not None]
        if not came:
            return
        yield from came
        batches = batches and batches - 1


class ClusterCase(system.Case):
    def setUp(self):
        super().setUp()
        self.ports, self.nodes = [], []

    def settings(self, number):
        """The section `cluster` of a node's configuration."""
        address = f"127.0.0.1:{self.ports[number]}"
        return {"name": "test", "node": f"node-{number}",
                "nodes": f"[{', '.join(f'127.0.0.1:{port}' for port in self.ports)}]",
                "listen": address, "advertise": address, "security": "none"}

    def config(self, number):
        return system.CONFIG + "cluster:\n" + "".join(f"  {key}: {value}\n"
                                                      for key, value in self.settings(number).items())

    def start(self, number, **options):
        folder = os.path.join(self.folder, f"node-{number}")
        os.makedirs(folder, exist_ok=True)
        daemon = system.Daemon(folder, self.config(number), **options)
        self.addCleanup(daemon.stop)
        return daemon

    def cluster(self, count, addresses=None):
        """Daemons that have found each other. The lists may have more addresses than there are daemons."""
        self.ports = [system.free_port() for _ in range(addresses or count)]
        self.nodes = [self.start(number) for number in range(count)]
        self.found(count)
        return self.nodes

    def found(self, count):
        for node in self.nodes:
            self.assertTrue(system.until(lambda node=node: f"nodes={count}" in node.log(), 60), node.log())

    def scripts(self, nodes=None, **options):
        options = {"dataset": system.tree(COUNT), "pipeline": system.PIPELINE, "batch_size": 32, "epochs": 3,
                   "timeout": 60 * SLOW, **options}
        return [self.script(node, **options) for node in nodes or self.nodes]

    def check(self, scripts, epochs=3):
        """Each script has got each sample once an epoch."""
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
            self.assertEqual(script.epochs(), [list(range(COUNT))] * epochs)

    def prepared(self):
        return sum(node.status()["samples"]["prepared"] for node in self.nodes)

    def in_the_middle(self, scripts):
        for script in scripts:
            self.assertTrue(system.until(lambda script=script: len(script.batches) > 20, 60))

    def larder(self, node, *words):
        result = subprocess.run([os.path.join(system.BIN, "larder"), *words, "--socket", node.socket],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * SLOW)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def state_of(self, node, other):
        """What a node says of another one, by its number: [state]."""
        url = f"http://127.0.0.1:{self.ports[other]}"
        return [row["state"] for row in node.status()["cluster"]["nodes"] if row.get("url") == url]

    def from_others(self, node, jobs=1):
        """What the node's jobs, which have ended, had of other nodes: (received, refused, moved, back) in all."""
        self.assertTrue(system.until(lambda: len(FROM_OTHERS.findall(node.log())) >= jobs, 60), node.log())
        rows = [[int(number) for number in row] for row in FROM_OTHERS.findall(node.log())]
        return tuple(map(sum, zip(*rows)))
