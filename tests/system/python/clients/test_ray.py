"""Daemons on a Ray cluster of three nodes on this machine: each node has one, they share, a sweep over them gets each
sample once an epoch, and they end with what started them."""

import json
import os
import shutil
import signal
import subprocess
import sys

import above  # noqa: F401
from system import BIN, PACKAGE, SLOW, Case, main, skip, tree, until

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    skip("this Python has no ray")

NODES, SAMPLES = 3, 800  # at least 256 samples a node, or a job works alone
SETTINGS = {"memory": {"arena": "128MiB", "encoded": "64MiB"}, "catalog": {"checkpoint": "none"},
            "metrics": {"socket": "auto"}}


def train(folder, epochs):
    """What a job on the node where this runs gets."""
    import larder
    import larder.ray as larder_ray
    loader = larder.Loader(folder, [larder.CenterCrop(32)], 16, output="numpy", epochs=epochs, with_ids=True,
                           timeout=120, socket=larder_ray.socket())
    got = [sorted(index for *_, ids in loader for index in ids.tolist()) for _ in range(epochs)]
    loader.close()
    return got


class Daemons(Case):
    @classmethod
    def setUpClass(cls):
        os.environ.update(LARDERD=os.path.join(BIN, "larderd"), PYTHONPATH=PACKAGE, RAY_DISABLE_DASHBOARD="1",
                          RAY_USAGE_STATS_ENABLED="0")
        cls.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        for _ in range(NODES - 1):
            cls.cluster.add_node(num_cpus=2)
        ray.init(address=cls.cluster.address, log_to_driver=False)
        cls.addClassCleanup(cls.cluster.shutdown)
        cls.addClassCleanup(ray.shutdown)

    def setUp(self):
        super().setUp()
        from larder import ray as larder_ray
        self.module = larder_ray

    def on_each_node(self, daemons, *arguments):
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        task = ray.remote(num_cpus=1)(train)
        return ray.get([task.options(scheduling_strategy=strategy(node, soft=False)).remote(*arguments)
                        for node in daemons.sockets()], timeout=120 * SLOW)

    @staticmethod
    def pid(path):
        told = subprocess.run([os.path.join(BIN, "larder"), "status", "--json", "--socket", path],
                              stdout=subprocess.PIPE, check=True).stdout
        return json.loads(told)["daemon"]["pid"]


    @staticmethod
    def answers(path):
        return subprocess.run([os.path.join(BIN, "larder"), "ping", "--socket", path], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def test_a_sweep(self):
        """A job on each of three nodes gets each sample once an epoch, from daemons that know each other; when the
        block ends none of them is left."""
        folder = tree(SAMPLES)
        with self.module.Daemons(SETTINGS) as daemons:
            sockets = daemons.sockets()
            self.assertEqual(len(set(sockets.values())), NODES)
            for got in self.on_each_node(daemons, folder, 2):
                self.assertEqual(got, [list(range(SAMPLES))] * 2)
            for path in sockets.values():
                told = subprocess.run([os.path.join(BIN, "larder"), "cluster", "status", "--socket", path],
                                      stdout=subprocess.PIPE, text=True, check=True).stdout
                self.assertEqual(told.split().count("UP"), NODES, told)
            with self.assertRaisesRegex(self.module.NotFound, "no daemon named 'other'"):
                self.module.socket("other")
        for path in sockets.values():
            self.assertFalse(os.path.exists(path))

    def test_a_daemon_is_killed(self):
        """A daemon that is killed is started again, and serves its node."""
        with self.module.Daemons(SETTINGS, name="killed", share=False) as daemons:
            path = next(iter(daemons.sockets().values()))
            before = self.pid(path)
            os.kill(before, signal.SIGKILL)
            self.assertTrue(until(lambda: self.answers(path), 60))
            self.assertNotEqual(self.pid(path), before)

    def test_a_wrong_setting(self):
        """A setting that larderd refuses is an error with its words, and no daemon is left."""
        with self.assertRaisesRegex(Exception, "arenas"):
            self.module.Daemons({"memory": {"arenas": "1GiB"}}, name="wrong")

    def test_the_driver_ends(self):
        """A driver that ends without closing its daemons takes them along. Ray kills them, so their folders stay."""
        code = ("import ray, larder.ray, sys\n"
                f"ray.init(address={self.cluster.address!r}, log_to_driver=False)\n"
                f"daemons = larder.ray.Daemons({SETTINGS!r}, name='left', share=False)\n"
                "print(*daemons.sockets().values())\nsys.stdout.flush()\n__import__('os')._exit(0)")
        done = subprocess.run([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True, check=True)
        paths = done.stdout.split()
        self.assertEqual(len(paths), NODES)
        for path in paths:
            self.addCleanup(shutil.rmtree, os.path.dirname(path))
        self.assertTrue(until(lambda: not any(map(self.answers, paths)), 60))


if __name__ == "__main__":
    main()
