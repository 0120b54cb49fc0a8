"""What `import larder` costs: nothing but a table of names, until one of them is asked for."""

import subprocess
import sys
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


if __name__ == "__main__":
    main()
