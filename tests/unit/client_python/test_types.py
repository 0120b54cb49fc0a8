"""mypy reads the stubs: it finds nothing in right uses of the package, and each wrong one."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.normpath(os.path.join(HERE, "..", "..", "..", "client", "python"))
MYPY = [sys.executable, "-m", "mypy"] if importlib.util.find_spec("mypy") else [shutil.which("mypy")]
if not MYPY[0]:
    print("skipped: mypy is not installed")
    sys.exit(77)
if not importlib.util.find_spec("numpy"):
    print("skipped: this Python has no NumPy")
    sys.exit(77)

RIGHT = '''\
import pathlib
import larder

def train() -> dict[str, int]:
    subset = (larder.Classes("n015*", ["cat"]) & larder.Fraction(0.1, seed=3)) - larder.List(pathlib.Path("few"))
    pipeline = [larder.RandomResizedCrop(224, scale=(0.2, 1)), larder.RandomHorizontalFlip(), "grayscale",
                {"pad": {"padding": 2}}]
    operators: list[larder.Operator] = larder.from_torchvision(object())
    larder.Loader("imagenet", operators)
    taken, rest = larder.split(object())
    larder.Loader("imagenet", taken, transform=rest, collate_fn=lambda samples: samples)
    larder.Loader("imagenet", taken, transform=larder.OnBatch(lambda images, labels: (images, labels)))
    larder.Loader("imagenet", None, state=None)
    larder.Loader("imagenet", views=larder.recipes.DINO(size=192))
    larder.Loader("imagenet", pipeline, views=2)
    larder.Loader("imagenet", views=[pipeline, larder.View(operators, 8, name="small")])
    with larder.Loader(pathlib.Path("/data"), pipeline, 32, shuffle=False, subset=subset, epochs=2) as loader:
        for epoch in range(loader.epoch, 2):
            loader.set_epoch(epoch)
            for images, labels in loader:
                images.float()
        for batch in loader:
            if isinstance(batch, larder.Batch):
                batch.release()
        try:
            loader.load_state_dict(loader.state_dict())
        except (larder.Timeout, larder.SourceChanged) as error:
            print(error.code)
        if loader.last_ids is not None:
            print(loader.last_ids.tolist(), loader.stats()["wait_s"] + loader.weight, len(loader))
        return loader.class_to_idx
'''
# One mistake in each line that says so.
WRONG = '''\
import larder

larder.Loader("/data", [], shuffle="random")  # wrong
larder.Loader("/data", [], bach_size=3)  # wrong
larder.Loader("/data", larder.CenterCrop)  # wrong
larder.RandomCrop()  # wrong
larder.Resize(8, sise=8)  # wrong
larder.Fraction("half")  # wrong
larder.Classes("a") & {"range": [1, 2]}  # wrong
loader = larder.Loader("/data", [])
loader[0]  # wrong
loader.epoch = 3  # wrong
loader.stats()["wait_ms"]  # wrong
loader.state_dict().count  # wrong
larder.NoSuchThing  # wrong
'''


class Types(unittest.TestCase):
    def lines_with_errors(self, text):
        """What mypy finds in this program: numbers of lines, and all that it said."""
        with tempfile.TemporaryDirectory(prefix="larder-") as folder:
            with open(os.path.join(folder, "program.py"), "w") as file:
                file.write(text)
            command = [*MYPY, "--strict", "--python-executable", sys.executable, "--cache-dir",
                       os.path.join(folder, "cache"), "program.py"]
            result = subprocess.run(command, cwd=folder, env=dict(os.environ, MYPYPATH=PACKAGE), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertIn(result.returncode, (0, 1), result.stdout)
        places = re.findall(r"^(\S+?):(\d+): error: ", result.stdout, re.MULTILINE)
        self.assertEqual([place for place in places if place[0] != "program.py"], [], result.stdout)
        return sorted({int(line) for _, line in places}), result.stdout

    def test_right_uses(self):
        lines, said = self.lines_with_errors(RIGHT)
        self.assertEqual(lines, [], said)

    def test_wrong_uses(self):
        lines, said = self.lines_with_errors(WRONG)
        wrong = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
        self.assertEqual(lines, wrong, said)


if __name__ == "__main__":
    unittest.main(verbosity=1)
