"""A cluster with certificates: its nodes share, and who is none of them is refused, with a line in the log, while the
nodes' jobs go on."""

import http.client
import os
import re
import ssl
import unittest

import above  # noqa: F401
import bundles
import peer
import system
from cluster_case import COUNT, ClusterCase
from system import SLOW, only_long

NOBODY = "nobody of this cluster answers at an address of the list"


class Secure(ClusterCase):
    def setUp(self):
        super().setUp()
        self.authority = bundles.authority(self.path("authority.pem"), "test")
        self.stranger = {}  # the settings of node 2

    def path(self, name):
        return os.path.join(self.folder, name)

    def settings(self, number):
        settings = super().settings(number)
        if number == 2:
            return {**settings, **self.stranger}
        bundle = self.path(f"node-{number}.pem")
        if not os.path.exists(bundle):
            bundles.issue(self.authority, f"node-{number}", bundle)
        return {**settings, "security": "bundle", "bundle": bundle}

    @only_long
    def test_nodes_with_bundles_share(self):
        self.cluster(2)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .85 * 2 * 3 * COUNT)

    def refused(self, stranger, *why):
        """A third daemon, whose address the nodes' lists have, is no node: the nodes and it say so, the nodes' jobs are
        exact, and its own too, alone."""
        self.cluster(2, addresses=3)
        scripts = self.scripts(step_s=.02)
        self.in_the_middle(scripts)
        before = [len(node.log()) for node in self.nodes]
        self.stranger = stranger
        third = self.start(2)
        self.assertTrue(third.logged(NOBODY), third.log())
        alone = self.scripts([third], epochs=1)
        self.check(scripts)
        self.check(alone, epochs=1)
        for node, at in zip(self.nodes, before):
            for text in why:
                self.assertTrue(system.until(lambda: re.search(text, node.log()[at:]), 60), node.log())
            self.assertNotIn("nodes=3", node.log())
            self.assertEqual(self.from_others(node)[1], 0)
        self.assertNotRegex(third.log(), r"nodes=[23]")
        self.assertEqual(self.from_others(third), (0, 0, 0, 0))
        self.assertEqual([node.stop() for node in [*self.nodes, third]], [0, 0, 0])

    def test_a_node_without_a_certificate(self):
        self.refused({}, "a connection ended before its first request")

    @only_long
    def test_a_node_of_another_authority(self):
        other = bundles.authority(self.path("other.pem"), "test")
        bundle = bundles.issue(other, "node-2", self.path("stranger.pem"))
        self.refused({"security": "bundle", "bundle": bundle}, "a connection ended before its first request")

    @only_long
    @unittest.skipUnless(bundles.can_forge(), "this machine has no openssl")
    def test_a_node_of_another_cluster(self):
        """Even with a certificate of the nodes' own authority."""
        bundle = bundles.forge(self.authority, "other", 30, self.path("stranger.pem"))
        self.refused({"name": "other", "security": "bundle", "bundle": bundle},
                     "a peer was refused.*The certificate is of cluster 'other', this is 'test'")

    @unittest.skipUnless(bundles.can_forge(), "this machine has no openssl")
    def test_a_daemon_does_not_start_with_a_bundle_that_is_none_of_its_cluster(self):
        self.ports = [system.free_port() for _ in range(3)]
        for name, cluster, days, why in (("expired", "test", -1, "expired"), ("other", "other", 30, "'other'")):
            bundle = bundles.forge(self.authority, cluster, days, self.path(name + ".pem"))
            self.stranger = {"security": "bundle", "bundle": bundle}
            daemon = self.start(2, expect_ready=False)
            self.assertFalse(daemon.ready)
            self.assertNotEqual(daemon.process.wait(60 * SLOW), 0)
            self.assertIn(why, daemon.log())

    def status_for(self, node, bundle):
        """With what the node answers somebody who shows a bundle, or none, and does not care who the node is."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if bundle:
            context.load_cert_chain(bundle)
        connection = http.client.HTTPSConnection("127.0.0.1", self.ports[node], timeout=60 * SLOW, context=context)
        sender = peer.Sender(peer.xxh3(b"test"), b"s" * 16, 1)
        connection.request("POST", peer.PATHS[peer.PROBE], sender.request(peer.PROBE))
        status = connection.getresponse().status
        connection.close()
        return status

    @unittest.skipUnless(bundles.can_forge(), "this machine has no openssl")
    def test_clients_that_believe_everybody(self):
        """Nobody is answered whose certificate is not of the nodes' own, while a job goes on."""
        self.cluster(2)
        scripts = self.scripts(step_s=.02)
        self.in_the_middle(scripts)
        others = bundles.authority(self.path("others.pem"), "test")
        shown = {None: "It shows no certificate",
                 bundles.issue(others, "node-0", self.path("foreign.pem")): "The certificate is NOT trusted",
                 bundles.forge(self.authority, "other", 30, self.path("other.pem")): "is of cluster 'other'",
                 bundles.forge(self.authority, "test", -1, self.path("expired.pem")): "expired"}
        for bundle, why in shown.items():
            self.assertEqual(self.status_for(0, bundle), 403, bundle)
            self.assertTrue(system.until(lambda: re.search(f"a peer was refused.*{why}", self.nodes[0].log()), 60),
                            (bundle, self.nodes[0].log()))
        good = bundles.issue(self.authority, "node-9", self.path("good.pem"))
        self.assertEqual(self.status_for(0, good), 200)
        self.check(scripts)
        for node in self.nodes:
            self.assertGreater(self.from_others(node)[0], 0)


if __name__ == "__main__":
    system.main()
