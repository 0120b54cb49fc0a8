"""Nodes that leave their cluster: told to, drained, stopped by a signal, idle. Other nodes' jobs have what is left of
their epochs first."""

import os
import re
import subprocess

import above  # noqa: F401
import system
from cluster_case import ClusterCase
from system import SLOW, only_long

VIEW = re.compile(r'msg="the cluster has changed" nodes=(\d+)')


class Leaving(ClusterCase):
    def setUp(self):
        super().setUp()
        self.lists_nobody = []  # the numbers of the nodes that others have to find

    def settings(self, number):
        return {**super().settings(number), **({"nodes": "[]"} if number in self.lists_nobody else {})}

    def guests(self, node):
        return node.status()["cluster"]["guests"]

    def taken_from_nobody(self, nodes):
        """No node's share of an epoch was given by another one in the middle."""
        for node in nodes:
            _, _, moved, back = self.from_others(node)
            if system.QUIET:  # else a node may get so little of the machine that it does not answer in time
                self.assertEqual((moved, back), (0, 0), node.log())

    def paused(self, home, others, **options):
        """Scripts at the other nodes, which stand still in their first epoch until `go_on`, with guests at the home."""
        scripts = self.scripts(others, pause=[20, os.path.join(self.folder, "go on")], epochs=2, **options)
        for script in scripts:
            self.assertTrue(system.until(lambda script=script: len(script.batches) >= 19, 60))
        self.assertTrue(system.until(lambda: self.guests(home) == len(others), 60), home.status())
        return scripts

    def go_on(self, others):
        """The scripts do, now that their nodes begin no epoch with the home any more."""
        rest = str(len(self.nodes) - 1)
        for node in others:
            self.assertTrue(system.until(lambda node=node: VIEW.findall(node.log())[-1] == rest, 60), node.log())
        with open(os.path.join(self.folder, "go on"), "w"):
            pass

    def test_a_home_leaves(self):
        """It gives what is left of the epochs under way, and then nothing more; its own job gets from the others."""
        self.cluster(3)
        scripts = self.paused(self.nodes[2], self.nodes[:2], step_s=.01)
        self.larder(self.nodes[2], "cluster", "leave")
        self.larder(self.nodes[2], "cluster", "leave")  # changes nothing
        for node in self.nodes:
            self.assertTrue(system.until(lambda node=node: self.state_of(node, 2) == ["LEAVING"], 60), node.status())
        self.go_on(self.nodes[:2])
        self.assertTrue(system.until(lambda: self.guests(self.nodes[2]) == 0, 60), self.nodes[2].status())
        self.check(scripts, epochs=2)
        self.taken_from_nobody(self.nodes[:2])
        given = self.nodes[2].status()["cluster"]["given"]
        self.assertGreater(given, 0)
        self.check(self.scripts(self.nodes, epochs=1), epochs=1)
        self.assertEqual(self.nodes[2].status()["cluster"]["given"], given)
        self.assertGreater(self.from_others(self.nodes[2])[0], 0)

    @only_long
    def test_a_home_is_drained(self):
        """It ends when nobody wants anything more of the epochs under way."""
        self.cluster(3)
        scripts = self.paused(self.nodes[2], self.nodes[:2], step_s=.01)
        self.larder(self.nodes[2], "drain")
        self.assertTrue(self.nodes[2].logged("leaving the cluster"), self.nodes[2].log())
        self.go_on(self.nodes[:2])
        self.assertEqual(self.nodes[2].process.wait(60 * SLOW), 0)
        self.check(scripts, epochs=2)
        self.taken_from_nobody(self.nodes[:2])

    def in_a_long_epoch(self, nodes):
        """Scripts at the nodes, in an epoch that takes far longer than 30 s; each other node has guests of theirs."""
        scripts = self.scripts(nodes, step_s=2)
        for node in self.nodes:
            guests = len(nodes) - (node in nodes)
            self.assertTrue(system.until(lambda node=node, n=guests: self.guests(node) == n, 60), node.status())
        self.assertTrue(system.until(lambda: all(script.batches for script in scripts), 60))
        return scripts

    def left(self, node, behind):
        """The node has ended by itself, when so many guests were there still, and none was ended by the limit."""
        self.assertEqual(node.process.wait(60 * SLOW), 0)
        self.assertIn(f'msg="has left the cluster" left_behind={behind} cut_short=0', node.log())

    def stopped_in_the_middle(self, home, others, stop):
        """The home is stopped, and ends once it has given to jobs of the other nodes."""
        scripts = self.paused(home, others, step_s=.03)
        stop()
        self.assertTrue(home.logged("leaving the cluster"), home.log())
        self.assertEqual(self.guests(home), len(others))
        self.go_on(others)
        self.left(home, 0)
        self.check(scripts, epochs=2)
        self.taken_from_nobody(others)

    def test_a_home_is_stopped(self):
        """After SIGTERM it gives what is left of the epochs under way, and ends."""
        self.cluster(3)
        self.stopped_in_the_middle(self.nodes[2], self.nodes[:2], self.nodes[2].process.terminate)

    @only_long
    def test_an_idle_home_is_stopped(self):
        """So it does when none of its own clients has been there for a while."""
        if not system.QUIET:
            self.skipTest("its loader must come within a second: only on a machine that does nothing else")
        tree = system.tree(60)
        self.ports = [system.free_port() for _ in range(2)]
        home = self.start(1, options=("--idle-exit", "1"))
        loader = self.loader(home, tree)
        self.nodes = [self.start(0), home]
        self.found(2)
        self.stopped_in_the_middle(home, self.nodes[:1], loader.close)
        self.assertIn('msg="no client for a while, stopping"', home.log())

    @only_long
    def test_a_home_that_lists_nobody_is_stopped(self):
        """It does so for nodes too of which it knows only that they ask."""
        self.lists_nobody = [1]
        self.ports = [system.free_port() for _ in range(2)]
        self.nodes = [self.start(number) for number in range(2)]
        self.assertTrue(self.nodes[0].logged('msg="the cluster has changed" nodes=2'), self.nodes[0].log())
        self.stopped_in_the_middle(self.nodes[1], self.nodes[:1], self.nodes[1].process.terminate)

    def test_stopped_at_once(self):
        """A second signal is not made to wait."""
        self.cluster(2)
        self.in_a_long_epoch(self.nodes[:1])
        self.nodes[1].process.terminate()
        self.assertTrue(self.nodes[1].logged("leaving the cluster"))
        self.nodes[1].process.terminate()
        self.assertEqual(self.nodes[1].process.wait(60 * SLOW), 0)
        self.assertEqual(self.nodes[1].log().count('msg="stopping" signal=SIGTERM'), 2)
        self.assertNotIn("has left the cluster", self.nodes[1].log())

    @only_long
    def test_guests_of_a_killed_node(self):
        """They hold no other node up that is stopped: neither while their node is away, nor when it is there again. One
        that was waited for would be gone when the node ends, by its lease."""
        self.cluster(3)
        script = self.in_a_long_epoch(self.nodes[:1])[0]
        self.nodes[0].kill()
        script.kill()
        script.wait()
        self.nodes[1].process.terminate()
        self.left(self.nodes[1], 1)
        self.nodes[0] = self.start(0)
        self.assertTrue(system.until(lambda: self.state_of(self.nodes[2], 0) == ["UP"], 60), self.nodes[2].status())
        self.nodes[2].process.terminate()
        self.left(self.nodes[2], 1)

    def test_nodes_are_stopped_together(self):
        """Each has a guest of the other, and they do not hold each other up for 30 s, when guests are ended."""
        self.cluster(2)
        self.in_a_long_epoch(self.nodes)
        for node in self.nodes:
            node.process.terminate()
        for node in self.nodes:
            self.left(node, 1)

    def test_nobody_to_leave(self):
        node = self.daemon()
        result = subprocess.run([os.path.join(system.BIN, "larder"), "cluster", "leave", "--socket", node.socket],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * SLOW)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("in no cluster", result.stdout)


if __name__ == "__main__":
    system.main()
