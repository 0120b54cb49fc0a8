"""Daemons of a cluster, each with jobs of its own: each sample is prepared once for all of them, and each job gets each
sample once an epoch, whatever dies."""

import signal

import system
from cluster_case import COUNT, ClusterCase
from system import SLOW


class Cluster(ClusterCase):
    def test_each_sample_is_prepared_once_for_all(self):
        self.cluster(2)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .75 * 2 * 3 * COUNT)

    def test_four_nodes(self):
        self.cluster(4)
        self.check(self.scripts())
        self.assertLess(self.prepared(), .4 * 4 * 3 * COUNT)

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


if __name__ == "__main__":
    system.main()
