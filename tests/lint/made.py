"""What the tests share of tools that make files from a table of the source, and tell where they differ."""

import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Made(unittest.TestCase):
    """A folder with copies of `files`, and `command`, the tool with its arguments, which works on that folder."""

    files, command = (), ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="larder-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path in self.files:
            os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, path), os.path.join(self.root, path))
        self.check("--fix")  # so that a difference in the tree itself fails one test alone

    def check(self, *options, root=None):
        done = subprocess.run([*self.command, "--root", root or self.root, *options], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def change(self, path, old, new):
        text = self.read(path)
        self.assertIn(old, text, path)
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
