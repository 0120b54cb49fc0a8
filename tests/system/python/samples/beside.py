"""What tests of several parts share: images of one size, the crop that they are made with, and a script that runs."""

import os
import subprocess
import sys
import unittest

from system import SLOW, SOURCE, Case, files_of, larder, tree

HEIGHT, WIDTH = 72, 96
SIDE = 50
CROP = [larder.CenterCrop(SIDE)]
TOP, LEFT = (HEIGHT - SIDE) // 2, (WIDTH - SIDE) // 2


class Beside(Case):
    """`jpegs` are COUNT images; an example runs as a person would run it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.jpegs = files_of(tree(cls.COUNT))

    def example(self, daemon, name, *arguments):
        """What a script of the examples prints."""
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "client", "python", "examples", name),
                               *arguments], text=True, timeout=60 * SLOW, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE,
                              env={**os.environ, "LARDER_SOCKET": daemon.socket, "OMP_NUM_THREADS": "1"})
        if "No module named 'torch'" in done.stderr:
            raise unittest.SkipTest("this Python has no torch")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout
