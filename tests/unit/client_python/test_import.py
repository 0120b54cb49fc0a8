"""What `import larder` costs: nothing but a table of names, until one of them is asked for. And what it says where
another project's package of that name is installed too."""

import os
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, main

PROBE = """
import sys
sys.path[:0] = {path!r}
before = set(sys.modules)
import larder
print(*sorted(set(sys.modules) - before - {{"importlib"}}))
larder.LarderError
print("numpy" in sys.modules)
larder.Loader
print("numpy" in sys.modules, "torch" in sys.modules)
assert set(larder._HOMES) <= set(larder.__all__) and len(set(larder.__all__)) == len(larder.__all__)
for name in larder.__all__:
    getattr(larder, name)
assert set(larder.__all__) <= set(dir(larder)) and larder.transforms.Resize is larder.Resize
try:
    larder.Nothing
except AttributeError as error:
    print(error)
"""


class Import(unittest.TestCase):
    def test_nothing_is_loaded_before_it_is_used(self):
        """The package loads none of its modules; an error class does not load NumPy; nothing loads PyTorch."""
        done = subprocess.run([sys.executable, "-B", "-c", PROBE.format(path=[PACKAGE, *sys.path])],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.stderr, "")
        loaded, *rest = done.stdout.splitlines()
        self.assertEqual([name for name in loaded.split() if name.startswith("larder")], ["larder"])
        self.assertNotIn("numpy", loaded.split())
        self.assertEqual(rest, ["False", "True False", "module 'larder' has no attribute 'Nothing'"])


class Stranger(unittest.TestCase):
    def said(self, *distributions):
        """What a script that imports the Loader prints to standard error, where these distributions are installed."""
        with tempfile.TemporaryDirectory() as site:
            for name, version in distributions:
                info = os.path.join(site, f"{name}-{version}.dist-info")
                os.mkdir(info)
                with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as file:
                    file.write(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            code = f"import sys\nsys.path[:0] = {[PACKAGE, *sys.path, site]!r}\nimport larder\nlarder.Loader"
            done = subprocess.run([sys.executable, "-B", "-c", code], stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr.replace(site, "SITE")

    def test_it_is_named(self):
        """The distribution `larder` is another project's: a warning says so, where it is, and what to do."""
        said = self.said(("larder", "0.0.9"), ("larderd", "0.1.0"))
        self.assertIn("the distribution 'larder' 0.0.9 in SITE is another project", said)
        self.assertIn("pip uninstall larder larderd && pip install larderd", said)
        self.assertEqual(said.count("another project"), 1)

    def test_only_it(self):
        """Nothing is said of the distribution that brings this package, nor of others whose names begin alike."""
        self.assertEqual(self.said(("larderd", "0.1.0"), ("larder_tools", "1.0"), ("larderdom", "2")), "")


if __name__ == "__main__":
    main()
