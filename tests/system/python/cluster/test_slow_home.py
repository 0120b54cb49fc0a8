"""A home whose storage is slow is left, and one that is not slow is asked to the end."""

import above  # noqa: F401
import system
from cluster_case import COUNT, ClusterCase

# One read at a time, and memory for hardly any, so that the home is as slow in each epoch.
SLOW_STORAGE = "threads: {workers: 1, loaders: 1}\ndebug: {load_delay: 500}\n"


class SlowHome(ClusterCase):
    def config(self, number):
        """The second node's storage is slow."""
        config = super().config(number)
        return SLOW_STORAGE + config.replace("encoded: 64MiB", "encoded: 1MiB") if number == 1 else config

    def test_it_is_left(self):
        """The job goes on without it, and gets each sample once. What other nodes give is prepared there all the
        same."""
        self.cluster(3)
        scripts = self.scripts(self.nodes[:1], step_s=.02)
        left = system.until(lambda: "goes on without it" in self.nodes[0].log(), 60)
        self.assertTrue(left, self.nodes[0].log())
        self.check(scripts)
        received, _, moved, _ = self.from_others(self.nodes[0])
        self.assertGreater(moved, 0)
        self.assertGreater(received, COUNT / 3)  # two epochs' of the third node


if __name__ == "__main__":
    system.main()
