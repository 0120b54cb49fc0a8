"""Preparing rates are kept between runs: a daemon begins with those of the one before, before it has prepared anything;
and a damaged file of them is no worse than none."""

import os
import threading

import above  # noqa: F401
from system import Case, main, tree, until

COUNT = 120
DELAY_MS = 6000
CONFIG = """\
memory: {{arena: 16MiB, encoded: 8MiB}}
threads: {{workers: 1, loaders: 1}}
catalog: {{checkpoint: {checkpoint}}}
metrics: {{enabled: false}}
"""


class Rates(Case):
    def setUp(self):
        super().setUp()
        self.tree = tree(COUNT, width=640, height=480, pictures=20)
        self.checkpoints = os.path.join(self.folder, "checkpoints")
        self.path = os.path.join(self.checkpoints, "preparing-rates")

    def serve(self, more=""):
        return self.daemon(CONFIG.format(checkpoint=self.checkpoints) + more)

    def rate(self, daemon):
        return daemon.status()["governor"]["prepare_rate"]

    def kept(self):
        """The rate that the file says for one thread: of all sizes in their mixture."""
        with open(self.path) as file:
            title, *rows, checksum = file.read().splitlines()
        self.assertEqual(title, "larder preparing rates 1")
        self.assertTrue(checksum.startswith("checksum "))
        rows = [(float(part), float(dict(point.split("=") for point in points)["1"]))
                for _, _, part, *points in map(str.split, rows)]
        return sum(part for part, _ in rows) / sum(part / rate for part, rate in rows)

    def learned(self):
        """A daemon prepares until it knows its rate, and stops."""
        daemon = self.serve()
        loader = self.loader(daemon, self.tree, 8)
        for _ in range(100):
            for _ in loader:
                pass
            if self.rate(daemon):
                break
        self.assertTrue(self.rate(daemon), daemon.status())
        daemon.stop()

    def begins_with(self):
        """The rate that a daemon says before its first read has come, and its log."""
        daemon = self.serve(f"debug: {{load_delay: {DELAY_MS}}}\n")
        loader = self.loader(daemon, self.tree, 1, epochs=1)  # a batch is one read
        taking = threading.Thread(target=lambda: next(iter(loader)))
        taking.start()
        seen = []
        self.assertTrue(until(lambda: seen.append(daemon.status()) or seen[-1]["jobs"], 30), daemon.log())
        status = seen[-1]
        self.assertEqual(status["samples"]["prepared"], 0)  # no read has come
        taking.join()
        loader.close()
        return status["governor"]["prepare_rate"], daemon.log()

    def test_second_start(self):
        self.learned()
        kept = self.kept()
        second, log = self.begins_with()
        self.assertIsNotNone(second)
        self.assertLess(abs(second / kept - 1), 0.01, (kept, second))
        self.assertNotIn("preparing rates", log)

    def test_damaged(self):
        self.learned()
        with open(self.path, "r+") as file:
            file.seek(30)
            file.write("~")
        rate, log = self.begins_with()
        self.assertIsNone(rate)
        self.assertIn("preparing rates of an earlier run are not used", log)

    def test_none(self):
        """With catalog.checkpoint none, nothing is kept."""
        self.checkpoints = "none"
        self.learned()
        self.assertFalse(os.path.exists(self.path))
        self.assertIsNone(self.begins_with()[0])


if __name__ == "__main__":
    main()
