"""./run demo --nodes: daemons of a cluster share, one is killed, each job gets each sample exactly once an epoch, and
nothing is left behind. What is wrong in the ledger is seen."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types

import above  # noqa: F401
from system import BIN, PATIENCE, SLOW, SOURCE, Case, main, only_long, tree, until

EXAMPLES = os.path.join(SOURCE, "client", "python", "examples")
sys.path.insert(0, EXAMPLES)

import demo_nodes  # noqa: E402

COUNT = 1001  # four ranks have 250 each, and three of them one more, or all 251 with three repeats
RECEIVED = demo_nodes.EPOCHS * COUNT
RANKS_RECEIVED = demo_nodes.EPOCHS * 4 * 251


class DemoNodes(Case):
    def start(self, *arguments):
        """The demo on images of this test, or on those that it makes."""
        command = [sys.executable, "-B", os.path.join(EXAMPLES, "demo_nodes.py"), "--bin", BIN, *arguments]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, TMPDIR=self.folder))
        self.addCleanup(demo.kill)
        self.addCleanup(demo.stdout.close)
        self.addCleanup(demo.stderr.close)
        return demo

    def left_behind(self):
        """Files of the demo, and processes that name one of its files."""
        files = os.listdir(self.folder)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.folder.encode() in file.read():
                        files.append(pid)
            except OSError:
                pass
        return files

    def check(self, nodes, discovery):
        demo = self.start("--nodes", str(nodes), "--discovery", discovery, tree(COUNT))
        output, errors = demo.communicate(timeout=180 * SLOW)
        self.assertEqual((demo.returncode, errors), (0, ""), output)
        self.assertIn(f"{nodes} daemons have found each other by {'etcd' if discovery == 'etcd' else 'a list'}", output)
        for number in (1, 2, 3):
            node = (number - 1) % nodes + 1
            self.assertRegex(output, rf"sweep-{number} +node-{node} +{RECEIVED:,} +0 +0 +0\n")
        self.assertRegex(output, rf"ddp, 4 ranks +node-1, node-2 +{RANKS_RECEIVED:,} +0 +0 +0\n")
        killed = min(3, nodes)
        self.assertRegex(output, rf"killed node-{killed}'s larderd \(pid \d+\) in the middle of an epoch\n"
                                 r"started it again")
        self.assertIn(f"node-{killed}'s larderd was killed once: each job still got each sample exactly once", output)
        prepared, received = (int(figure.replace(",", "")) for figure in re.search(
            r"prepared ([\d,]+), received ([\d,]+): ", output).groups())
        self.assertEqual(received, 3 * RECEIVED + RANKS_RECEIVED)
        self.assertGreaterEqual(prepared, RECEIVED)
        self.assertEqual(self.left_behind(), [])
        return prepared / received, output

    def test_three_nodes_by_a_list(self):
        """Three daemons that do not share prepare at least the three jobs of the sweep, nearly .75 of what all
        received."""
        part, output = self.check(3, "static")
        self.assertRegex(output, r"and 0\.7[45]\d at least for daemons alone")
        self.assertLess(part, .74, output)

    def test_two_nodes_by_etcd(self):
        """The daemon that is killed has two ranks of the job of four. They connect to the next one."""
        if not shutil.which("etcd"):
            self.skipTest("no etcd")
        self.check(2, "etcd")

    @only_long
    def test_ctrl_c_leaves_nothing(self):
        """Ctrl-C before the daemons have found each other, and while scripts train."""
        for words, wait_s in (("Making", .3), ("have found each other", 1)):
            with self.subTest(words=words):
                demo = self.start("--nodes", "3")
                for line in demo.stdout:
                    if words in line:
                        break
                time.sleep(wait_s * PATIENCE)
                demo.send_signal(signal.SIGINT)
                output, errors = demo.communicate(timeout=60 * SLOW)
                self.assertEqual((demo.returncode, errors), (130, "demo: interrupted\n"), output)
                self.assertTrue(until(lambda: not self.left_behind(), 2), self.left_behind())

    def test_ledger(self):
        """A sample that is missing or comes twice is counted. Repeats that fill up the ranks are not, nor is a sample
        that was left out as bad."""
        def ledger(*had, left_out=0):
            scripts = [types.SimpleNamespace(figures=lambda part=part: {
                "had": [part], "left_out": [left_out], "dataset_size": 5}) for part in had]
            return demo_nodes.Job("job", [], scripts).ledger()

        self.assertEqual(ledger([4, 3, 2, 1, 0]), (5, 0, 0, 0))
        self.assertEqual(ledger([4, 3, 2, 1]), (4, 1, 0, 0))
        self.assertEqual(ledger([4, 3, 2, 1], left_out=1), (4, 0, 0, 1))
        self.assertEqual(ledger([4, 3, 2, 1, 1]), (5, 1, 1, 0))
        self.assertEqual(ledger([4, 3, 2, 1, 0, 0]), (6, 0, 1, 0))
        self.assertEqual(ledger([4, 3, 2], [1, 0, 4]), (6, 0, 0, 0))
        self.assertEqual(ledger([4, 3, 2, 4], [1, 0, 4, 1]), (8, 0, 2, 0))
        self.assertEqual(ledger([4, 3, 2], [1, 4, 3]), (6, 1, 1, 0))


if __name__ == "__main__":
    main()
