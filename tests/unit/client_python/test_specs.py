"""Pipelines and subsets: Python expressions become the JSON that the daemon reads."""

import enum
import inspect
import json
import os
import pydoc
import re
import tempfile
import types

from support import Case, larder, main
from larder import subset, transforms


class Interpolation(enum.Enum):
    BICUBIC = "bicubic"


class Specs(Case):
    def test_operators_become_json(self):
        """Only what was given goes out, under torchvision's argument names, by position or by name."""
        steps = [larder.RandomResizedCrop(224, (0.2, 1), interpolation=Interpolation.BICUBIC),
                 larder.RandomHorizontalFlip(), larder.Resize([256, 128]), larder.Normalize((0.5,) * 3, std=[0.2] * 3)]
        self.assertEqual(json.loads(transforms.to_json(steps)), [
            {"random_resized_crop": {"size": 224, "scale": [0.2, 1], "interpolation": "bicubic"}},
            {"random_horizontal_flip": {}}, {"resize": {"size": [256, 128]}},
            {"normalize": {"mean": [0.5] * 3, "std": [0.2] * 3}}])

    def test_the_page_lists_the_operators(self):
        """The users' page lists the package's operators, those that tests/lint/operators does not write included, with
        the same arguments."""
        here = {getattr(transforms, name).name: name for name in transforms.__all__
                if name not in ("Operator", "View")}
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
        with open(os.path.join(root, "docs", "reference", "pipelines.md")) as file:
            rows = re.findall(r"^\| `(\w+)` \| `(\w+)\((.*?)\)`", file.read(), re.MULTILINE)
        self.assertEqual({row[0]: row[1] for row in rows}, here)
        for name, label, arguments in rows:
            with self.subTest(name):
                kind = getattr(transforms, label)
                plain = re.sub(r"[\[(].*?[\])]", "", arguments)
                written = [part.strip().partition("=") for part in plain.split(",") if part.strip()]
                self.assertEqual([part[0] for part in written], [key for key in kind.parameters if key != "inplace"])
                self.assertEqual(tuple(part[0] for part in written if not part[1]), kind.required)

    def test_operators_show_their_signatures(self):
        """help() and editors show torchvision's arguments, and the operator takes what they show."""
        shown = inspect.signature(larder.RandomResizedCrop)
        self.assertEqual(list(shown.parameters), list(larder.RandomResizedCrop.parameters))
        self.assertEqual(shown.bind(224, scale=(0.2, 1)).arguments, {"size": 224, "scale": (0.2, 1)})
        with self.assertRaises(TypeError):
            shown.bind()
        self.assertIn("RandomResizedCrop(size, scale=None, ratio=None", pydoc.render_doc(larder.RandomResizedCrop))

    def test_plain_json_is_taken_as_it_is(self):
        """Strings, dictionaries and JSON text stand beside operators; one step needs no list."""
        self.assertEqual(json.loads(transforms.to_json(["grayscale", {"pad": {"padding": 2}}])),
                         ["grayscale", {"pad": {"padding": 2}}])
        self.assertEqual(transforms.to_json('[{"resize": {"size": 8}}]'), '[{"resize": {"size": 8}}]')
        self.assertEqual(json.loads(transforms.to_json(larder.CenterCrop(8))), [{"center_crop": {"size": 8}}])
        self.assertEqual((transforms.to_json([]), transforms.to_json(None)), ("[]", ""))

    def test_what_is_no_operator_is_named(self):
        """A step that is no operator, a class that was not called, and transforms of torchvision, alone or in a list,
        are refused by position with what to do; an iterable of operators is as good as a list."""
        foreign = type("Compose", (), {"__module__": "torchvision.transforms.transforms"})()
        for pipeline, words in ((foreign, r"\[0\] is a torchvision.*larder.from_torchvision"),
                                ([larder.Resize(8), foreign], r"pipeline\[1\] .*larder.from_torchvision"),
                                ([larder.RandomHorizontalFlip], r"class RandomHorizontalFlip: call it"),
                                ([3], "int, not an operator"), (lambda image: image, r"own.*transform=.*larder\.split"),
                                ([len], r"pipeline\[0\] is len, a function.*transform=.*larder\.split\(transform\)")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                transforms.to_json(pipeline)
        self.assertEqual(transforms.to_json(iter([larder.Resize(8)])), transforms.to_json(larder.Resize(8)))

    def test_the_daemons_advice_is_python(self):
        """Operators in JSON that a text of the daemon has are operators of this package; other JSON stays."""
        for text, said in (('such as {"center_crop": {"size": 224}}, or', "such as larder.CenterCrop(224), or"),
                           ('put {"to_dtype": {"dtype": "float32", "scale": true}} before',
                            "put larder.ToDtype('float32', scale=True) before"),
                           ('{"size": 224}, {"name": {"size": 1}}', '{"size": 224}, {"name": {"size": 1}}')):
            self.assertEqual(transforms.in_python(text), said)

    def test_a_path_that_is_not_here(self):
        """A name that neither the daemon nor this folder has is told as the whole path, with the nearest one."""
        from larder import _options
        said = 'dataset "%s" is neither an absolute path nor a name under `datasets` in the configuration'
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        nearest = os.path.join(os.getcwd(), "train-images-here")
        os.mkdir(nearest)
        told = _options.not_here(said % "trian-images-here")
        self.assertIn(os.path.join(os.getcwd(), "trian-images-here") + ": there is no such file or folder here", told)
        self.assertIn(f"Did you mean {nearest}?", told)
        self.assertNotIn("Did you mean", _options.not_here(said % "q0"))
        self.assertEqual(_options.not_here("another"), "another")

    def test_wrong_arguments_are_named(self):
        """A missing, unknown or doubled argument fails where the operator is written."""
        for call, words in ((lambda: larder.Resize(), "needs the argument 'size'"),
                            (lambda: larder.Resize(1, sise=2), "no argument 'sise'"),
                            (lambda: larder.CenterCrop(1, 2), "at most 1"),
                            (lambda: larder.CenterCrop(1, size=2), "twice")):
            with self.assertRaisesRegex(TypeError, words):
                call()

    def test_numpy_and_torch_values_become_plain(self):
        """NumPy numbers and dtypes given by object go out as numbers and names."""
        import numpy as np
        step = larder.ToDtype(np.float32, scale=True)
        self.assertEqual(step.spec, {"to_dtype": {"dtype": "float32", "scale": True}})
        self.assertEqual(larder.Resize(np.int64(3)).spec, {"resize": {"size": 3}})
        self.assertEqual(repr(larder.Resize(3)), "Resize(size=3)")
        self.assertEqual(larder.Resize(3), larder.Resize(size=3))

    def test_torch_subset(self):
        """A torch Subset says its positions, in whatever order; one that has some twice is refused."""
        given = types.SimpleNamespace(indices=[7, 2, 5, 3], dataset=types.SimpleNamespace(indices=[*range(10, 20)],
                                                                                          dataset=None))
        self.assertEqual(json.loads(subset.to_wire(given)[0]), larder.Indices([12, 13, 15, 17]).spec)
        given.indices.append(2)
        with self.assertRaisesRegex(larder.InvalidArgument, "more than once.*larder.Weights"):
            subset.to_wire(given)

    def test_subsets_combine(self):
        """Operators nest with Python's precedence, and chains of one operator become one list."""
        a, b, c = larder.Classes("n015*"), larder.Fraction(0.1, seed=3), larder.Range(5, 9)
        self.assertEqual(subset.to_wire(None), (b"", b""))
        self.assertEqual((a & b & c).spec, {"intersection": [a.spec, b.spec, c.spec]})
        self.assertEqual((a | b & c).spec, {"union": [{"classes": ["n015*"]}, {"intersection": [
            {"fraction": 0.1, "seed": 3}, {"range": [5, 9]}]}]})
        self.assertEqual((a - b).spec, {"difference": [a.spec, b.spec]})
        self.assertEqual(larder.List("x.txt").spec["list"][0], "/")
        self.assertEqual(larder.Classes(["a", "b"], "c").spec, {"classes": ["a", "b", "c"]})
        self.assertEqual(json.loads(subset.to_wire({"range": [1, 2]})[0]), {"range": [1, 2]})
        with self.assertRaises(TypeError):
            a & {"range": [1, 2]}


if __name__ == "__main__":
    main()
