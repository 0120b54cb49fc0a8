"""What happens to a cluster from outside: etcd stands still and forgets all, the network between two nodes is cut, a
node has other files. Each job gets each sample once an epoch."""

import os
import shutil
import subprocess
import time
import unittest

import above  # noqa: F401
import etcd
import system
from cluster_case import COUNT, ClusterCase
from proxy import Proxy
from system import only_long

LEASE_S = 3


def can_unshare():
    """Whether a process may have mounts of its own."""
    try:
        done = subprocess.run(["unshare", "-Urm", "mount", "--bind", system.HERE, system.HERE],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return done.returncode == 0


@unittest.skipUnless(etcd.there_is_one(), "this machine has no etcd")
class ByEtcd(ClusterCase):
    def setUp(self):
        super().setUp()
        self.etcd = etcd.Etcd(self.folder)
        self.addCleanup(self.etcd.kill)

    def settings(self, number):
        settings = super().settings(number)
        del settings["nodes"]
        return {**settings, "discovery": "etcd", "etcd": f'["{self.etcd.url}"]', "lease": LEASE_S}

    def begun(self):
        """Scripts that train on two nodes of three."""
        self.cluster(3)
        self.assertEqual(len(self.etcd.nodes()), 3)
        scripts = self.scripts(self.nodes[:2], step_s=.05)
        self.in_the_middle(scripts)
        return scripts

    def unnoticed(self, scripts):
        """Nothing was lost, asked for anew or taken from another node, and they shared."""
        before = [len(script.batches) for script in scripts]
        self.assertTrue(all(count < 3 * COUNT // 32 for count in before), "the jobs ended before the fault did")
        self.check(scripts)
        for node, script in zip(self.nodes, scripts):
            received, _, moved, back = self.from_others(node)
            self.assertGreater(received, 0)
            if system.QUIET:  # else a node may get so little of the machine that it does not answer in time
                self.assertEqual((moved, back), (0, 0), node.log())
            self.assertEqual(script.end["stats"]["reconnects"], 0)
        self.assertLess(self.prepared(), .85 * 2 * 3 * COUNT)

    def registered_again(self):
        self.assertTrue(system.until(lambda: len(self.etcd.nodes()) == 3, 60), self.etcd.keys())

    def test_it_stands_still(self):
        """All leases end, and all keys are gone at once."""
        scripts = self.begun()
        self.etcd.stop()
        self.addCleanup(self.etcd.go_on)
        time.sleep(2 * LEASE_S)
        self.etcd.go_on()
        self.unnoticed(scripts)
        self.registered_again()

    @only_long
    def test_a_node_leaves(self):
        """Its key says so, and so do the others; started again, it is back."""
        self.cluster(2)
        self.larder(self.nodes[1], "cluster", "leave")
        self.assertTrue(system.until(lambda: self.state_of(self.nodes[0], 1) == ["LEAVING"], 60),
                        self.nodes[0].status())
        self.assertEqual(sorted(node["state"] for node in self.etcd.nodes().values()), ["leaving", "up"])
        self.nodes[1].stop()
        self.nodes[1] = self.start(1)
        self.assertTrue(system.until(lambda: "UP" in self.state_of(self.nodes[0], 1), 60), self.nodes[0].status())

    @only_long
    def test_it_is_killed_and_forgets_all(self):
        scripts = self.begun()
        self.etcd.kill()
        time.sleep(LEASE_S)
        self.etcd.wipe()
        self.etcd.start()
        self.unnoticed(scripts)
        self.registered_again()


class Cut(ClusterCase):
    """Three nodes, and a proxy for each direction of each pair."""

    def setUp(self):
        super().setUp()
        self.proxies = {}

    def settings(self, number):
        nodes = ", ".join(f"127.0.0.1:{self.proxy(number, other).port}" for other in range(3) if other != number)
        return {**super().settings(number), "nodes": f"[{nodes}]"}

    def proxy(self, asker, asked):
        """What the one asks the other goes over it."""
        if (asker, asked) not in self.proxies:
            self.proxies[asker, asked] = Proxy(self.ports[asked])
            self.addCleanup(self.proxies[asker, asked].close)
        return self.proxies[asker, asked]

    def carry(self, whence, where, carries):
        """Whether bytes get from one node to another: requests, and answers to the other's requests."""
        self.proxy(whence, where).forth = self.proxy(where, whence).back = carries

    def cut(self, ways, heal=False):
        self.cluster(3)
        scripts = self.scripts(step_s=.03)
        self.in_the_middle(scripts)
        for way in ways:
            self.carry(*way, False)
        for node in self.nodes[:2]:
            self.assertTrue(system.until(lambda node=node: "a node does not answer" in node.log(), 60), node.log())
        for way in ways if heal else ():
            self.carry(*way, True)
        self.check(scripts)
        for node in self.nodes:
            self.assertGreater(self.from_others(node)[0], 0)
        return [self.from_others(node) for node in self.nodes]

    def moved(self, given):
        """Both nodes of the pair took to others what the other one was to give."""
        for _, _, moved, back in given[:2]:
            self.assertGreater(moved + back, 0, given)
        self.unnoticed(given)

    def unnoticed(self, given):
        """The third took nothing away from anybody."""
        if system.QUIET:
            self.assertEqual(given[2][2:], (0, 0), given)

    def test_one_direction(self):
        self.moved(self.cut([(0, 1)]))

    def test_both_directions(self):
        self.moved(self.cut([(0, 1), (1, 0)]))

    @only_long
    def test_both_directions_for_a_while(self):
        self.unnoticed(self.cut([(0, 1), (1, 0)], heal=True))


@unittest.skipUnless(can_unshare(), "this machine lets nobody have mounts of its own")
class OtherFiles(ClusterCase):
    """Node 1 has another folder at the dataset's path."""

    @only_long
    def test_a_node_with_other_files(self):
        """It gives nothing of it, says why, and the jobs of the others go on; its own job has its own files."""
        path, other = os.path.join(self.folder, "data"), os.path.join(self.folder, "other")
        shutil.copytree(system.tree(COUNT), path)
        shutil.copytree(path, other)
        name = system.files_of(other)[0]
        with open(name, "ab") as file:
            file.write(b"\0")
        self.ports = [system.free_port() for _ in range(3)]
        self.nodes = [self.start(number, before=["unshare", "-Urm", "sh", "-c", 'mount --bind "$0" "$1" && shift && '
                                                 'exec "$@"', other, path] if number == 1 else ())
                      for number in range(3)]
        self.found(3)
        scripts = self.scripts([self.nodes[0], self.nodes[2]], dataset=path)
        self.check(scripts)
        self.assertTrue(self.nodes[1].logged("its folder has other files"), self.nodes[1].log())
        self.assertEqual(self.nodes[1].status()["samples"]["prepared"], 0)
        self.assertLess(self.prepared(), .85 * 2 * 3 * COUNT)
        own = self.scripts([self.nodes[1]], dataset=path, epochs=1)
        self.check(own, epochs=1)
        self.assertEqual(self.from_others(self.nodes[1])[0], 0)


if __name__ == "__main__":
    system.main()
