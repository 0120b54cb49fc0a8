"""Daemons of a cluster, each with jobs of its own: each sample is prepared once for all of them, and each job gets each
sample once an epoch, whatever dies."""

import itertools
import json
import os
import signal
import socket
import subprocess
import urllib.request

import above  # noqa: F401
import system
from cluster_case import COUNT, ClusterCase
from system import SLOW, only_long

CHUNK = 64  # samples


class Cluster(ClusterCase):
    def setUp(self):
        super().setUp()
        self.metrics_ports = []  # of the nodes; empty: they have no metrics
        self.encoded = "64MiB"  # a node's encoded memory

    def config(self, number):
        metrics = f"port: {self.metrics_ports[number]}" if self.metrics_ports else "enabled: false"
        return super().config(number).replace("enabled: false", metrics).replace("encoded: 64MiB",
                                                                                 f"encoded: {self.encoded}")

    def test_each_sample_is_prepared_once_for_all(self):
        """By three nodes for the scripts of two, which begin together. Their memory holds two fifths of the dataset. A
        node that gets so little of the machine that it does not answer in time is left to its own."""
        self.encoded = "1MiB"
        self.cluster(3)
        begin = os.path.join(self.folder, "begin")
        scripts = self.scripts(self.nodes[:2], step_s=.02, start_after=begin)
        self.assertTrue(system.until(lambda: all(node.status()["jobs"] for node in self.nodes[:2]), 60))
        with open(begin, "w"):
            pass
        self.check(scripts)
        late = sum(sum(self.from_others(node)[2:]) for node in self.nodes[:2])
        self.assertLess(self.prepared(), (.85 if late and not system.QUIET else .55) * 2 * 3 * COUNT)
        samples = [node.status()["samples"] for node in self.nodes]
        self.assertGreater(min(row["reads"] for row in samples), 0)
        if system.QUIET or not late:
            self.assertLess(sum(row["reads"] for row in samples), 2.3 * 3 * COUNT / CHUNK)
            self.assertLess(sum(row["loaded"] for row in samples), 1.1 * 3 * COUNT)

    def test_a_small_dataset(self):
        """It has one home, which prepares each sample once for the scripts of all nodes."""
        count = 100
        self.cluster(3)
        begin = os.path.join(self.folder, "begin")
        scripts = self.scripts(dataset=system.tree(count), batch_size=8, step_s=.02, start_after=begin)
        self.assertTrue(system.until(lambda: all(node.status()["jobs"] for node in self.nodes), 60))
        with open(begin, "w"):
            pass
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
            self.assertEqual(script.epochs(), [list(range(count))] * 3)
        had = [self.from_others(node) for node in self.nodes]
        late = sum(sum(row[2:]) for row in had)
        if not late:
            self.assertEqual(sorted(row[0] for row in had), [0, 3 * count, 3 * count])
        self.assertLess(self.prepared(), (1 if late and not system.QUIET else .5) * 3 * 3 * count)

    @only_long
    def test_four_nodes(self):
        self.cluster(4)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .6 * 4 * 3 * COUNT)

    def test_a_home_is_killed(self):
        """What it was to give is drawn by others: the job goes on, and gets each sample once. It comes again, too."""
        self.cluster(3)
        scripts = self.scripts(self.nodes[:2], step_s=.02)
        self.in_the_middle(scripts)
        self.nodes[2].kill()
        self.nodes[2] = self.start(2)
        self.check(scripts)

    @only_long
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

    @only_long
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

    def test_a_checkpoint(self):
        """A job that goes on in an epoch gets the rest of it, and asks for no more."""
        self.cluster(2)
        options = {"batch_size": 32, "epochs": 1}
        loader = self.loader(self.nodes[0], system.tree(COUNT), **options)
        had = [index for batch in itertools.islice(loader, 40) for index in batch[-1].tolist()]
        state = loader.state_dict()
        loader.close()
        loader = self.loader(self.nodes[1], system.tree(COUNT), state=state, **options)
        rest = [index for batch in loader for index in batch[-1].tolist()]
        loader.close()
        self.assertEqual(sorted(had + rest), list(range(COUNT)))
        received, refused, _, _ = self.from_others(self.nodes[1])
        self.assertEqual(refused, 0)
        self.assertLessEqual(received, len(rest))

    def metrics(self, number):
        url = f"http://127.0.0.1:{self.metrics_ports[number]}/metrics"
        with urllib.request.urlopen(url, timeout=20 * SLOW) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def look(self, job):
        """The status of both nodes at a moment when each gives to the other."""
        found = []

        def gives():
            found[:] = [node.status()["cluster"] for node in self.nodes]
            return all(cluster["guests"] and cluster["given"] and cluster["received"] and
                       any(row["name"] == job for row in cluster["jobs"]) for cluster in found)
        self.assertTrue(system.until(gives, 60), found)
        return found

    def test_status(self):
        """Each node tells of both, and of what it gets and gives while jobs train. The other's job is a guest, and no
        job, wherever jobs are listed."""
        self.metrics_ports = [system.free_port() for _ in range(2)]
        self.cluster(2)
        seen = os.path.join(self.folder, "seen")  # the scripts stand still in their second epoch until this is there
        scripts = self.scripts(step_s=.02, name="mine", pause=[100, seen])
        for number, cluster in enumerate(self.look("mine")):
            self.assertEqual((cluster["name"], cluster["node"]), ("test", f"node-{number}"))
            self.assertEqual([(node["state"], node["self"], node["asked"]) for node in cluster["nodes"]],
                             [("UP", True, False), ("UP", False, True)])
            self.assertEqual([node["url"] for node in cluster["nodes"]],
                             [f"http://127.0.0.1:{port}" for port in (self.ports[number], self.ports[1 - number])])
            self.assertEqual(cluster["id"], cluster["nodes"][0]["id"])
            parts = [part for row in cluster["jobs"] for part in row["parts"]]
            self.assertLessEqual({part["node"] for part in parts}, {cluster["nodes"][1]["id"]})
        node = self.nodes[0]
        self.assertEqual([job["name"] for job in node.status()["jobs"]], ["mine"])
        self.assertIn("cluster  test: 2 of 2 nodes UP; guests: ", self.larder(node, "status"))
        self.assertIn(f"127.0.0.1:{self.ports[1]}", self.larder(node, "cluster", "status"))
        self.assertEqual(json.loads(self.larder(node, "cluster", "status", "--json"))["name"], "test")
        for words in (("jobs",), ("top",), ("tree",), ("datasets",), ("status",), ("jobs", "--json")):
            self.assertNotIn("guest-", self.larder(node, *words))
        found = self.metrics(0)
        self.assertEqual(found["larder_jobs"], 1)
        self.assertEqual(found['larder_cluster_nodes{state="UP"}'], 2)
        self.assertGreater(found["larder_cluster_requests_total"], 0)
        self.assertFalse([name for name in found if "guest-" in name])
        with open(seen, "w"):
            pass
        self.check(scripts)
        gave, got = [node.status()["cluster"] for node in self.nodes]
        self.assertEqual(gave["jobs"], [])
        self.assertGreater(gave["received"], 0)
        self.assertGreaterEqual(gave["given"], got["received"])
        self.assertGreaterEqual(got["given"], gave["received"])

    @only_long
    def test_status_of_a_lost_node(self):
        self.cluster(2)
        self.nodes[1].kill()

        def other():
            return self.nodes[0].status()["cluster"]["nodes"][1]
        self.assertTrue(system.until(lambda: other()["state"] == "LOST", 60), other())
        self.assertFalse(other()["asked"])
        self.assertIn("is LOST", self.larder(self.nodes[0], "status"))

    def test_no_cluster(self):
        node = self.daemon()
        self.assertNotIn("cluster", node.status())
        self.assertIn("in no cluster", self.larder(node, "cluster", "status"))
        self.assertIsNone(json.loads(self.larder(node, "cluster", "status", "--json")))

    def probe(self, status, *words):
        """What `larder cluster probe` says; the other stream has nothing."""
        result = subprocess.run([os.path.join(system.BIN, "larder"), "cluster", "probe", *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW)
        self.assertEqual(result.returncode, status, result)
        said, nothing = (result.stdout, result.stderr)[::1 if status == 0 else -1]
        self.assertEqual(nothing, "")
        self.assertEqual(len(said.splitlines()), 1, said)
        return said

    def test_probe(self):
        """A node is known by its cluster's name. Another cluster's, another program and nobody are no nodes of it."""
        self.ports = [system.free_port()]
        address, node = f"127.0.0.1:{self.ports[0]}", self.start(0)
        self.assertIn(node.status()["cluster"]["id"], self.probe(0, "--cluster", "test", address))
        self.assertIn("another cluster", self.probe(1, "--cluster", "other", address))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            self.assertIn("connect", self.probe(1, "--cluster", "test", f"127.0.0.1:{silent.getsockname()[1]}"))
        self.probe(2, "--cluster", "test")
        self.probe(2, address)
        self.probe(2, "--cluster", "test", "nowhere")

    def test_probe_with_bundles(self):
        """Where nodes have bundles, one of their authority's is needed."""
        def keygen(*words):
            subprocess.run([os.path.join(system.BIN, "larder"), "cluster", "keygen", *words], check=True,
                           stdout=subprocess.DEVNULL, timeout=60 * SLOW)
        path = {name: os.path.join(self.folder, name + ".pem") for name in ("ours", "theirs", "node", "stranger")}
        for authority, bundle, cluster in (("ours", "node", "test"), ("theirs", "stranger", "test")):
            keygen("--cluster", cluster, "--authority", path[authority])
            keygen("--authority", path[authority], "--node", bundle, path[bundle])
        port = system.free_port()
        self.daemon(system.CONFIG + f"cluster: {{name: test, node: node, listen: '127.0.0.1:{port}', "
                                    f"bundle: {path['node']}}}\n")
        address = f"127.0.0.1:{port}"
        self.assertIn("a node of test", self.probe(0, "--cluster", "test", "--bundle", path["node"], address))
        self.probe(1, "--cluster", "test", "--bundle", path["stranger"], address)
        self.probe(1, "--cluster", "test", address)
        self.assertIn("of the cluster test", self.probe(1, "--cluster", "lab", "--bundle", path["node"], address))


if __name__ == "__main__":
    system.main()
