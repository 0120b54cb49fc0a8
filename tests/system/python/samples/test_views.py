"""Views in all three languages, YAML, Python and C: the same samples, the same refusals, labels kept or made dense."""

import json
import os
import subprocess
import time

import above  # noqa: F401
from system import BIN, PIPELINE, SLOW, Case, files_of, larder, main, tree

COUNT, CLASSES = 240, 12
SHUFFLES = ("dependent", "strict", "none")
SMALL = [{"resize": {"size": [16, 16]}}]
READER = os.path.join(BIN, "larder_view_reader")
CONFIG = """\
memory:
  arena: 64MiB
  encoded: 32MiB
catalog:
  checkpoint: none
metrics:
  enabled: false
datasets:
"""


def images():
    return tree(COUNT, classes=CLASSES)


def labels():
    """The class of each sample, by index."""
    return [path.split("/")[-2] for path in files_of(images())]


class Views(Case):
    def configured(self, **subsets):
        """A daemon whose datasets are one tree, each narrowed to a subset that is written as YAML."""
        text = CONFIG + f"  all: {{path: {images()}}}\n"
        for name, subset in subsets.items():
            text += f"  {name}:\n    path: {images()}\n    pipeline: {json.dumps(SMALL)}\n    subset: {subset}\n"
        return self.daemon(text)

    def python(self, daemon, dataset, **options):
        """[(index, label)] of an epoch, in the order of delivery, and the class names."""
        with self.loader(daemon, dataset, pipeline=SMALL, batch_size=7, **options) as loader:
            return [pair for _, *batch in loader for pair in zip(batch[1].tolist(), batch[0].tolist())], loader.classes

    def in_c(self, daemon, dataset, subset="", relabel=0, shuffle=0):
        """The same through the C library; a refusal as its text."""
        done = subprocess.run([READER, daemon.socket, dataset, subset, str(relabel), str(shuffle)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60 * SLOW)
        if done.returncode:
            return done.stderr
        first, *rest = done.stdout.splitlines()
        return [tuple(map(int, line.split())) for line in rest], first.split(": ")[1].split()

    def test_three_languages_select_the_same(self):
        """One expression selects the same samples, with the same labels, in YAML, in Python and in C."""
        listed = os.path.join(self.folder, "list")
        with open(listed, "w") as file:
            file.write("3\n200\n" + os.path.relpath(files_of(images())[17], images()) + "\n")
        third = {index for index, label in enumerate(labels()) if label == "class_03"}
        zeros = {index for index, label in enumerate(labels()) if label < "class_10"}
        cases = {
            "classes": ('{classes: ["class_03"]}', larder.Classes("class_03"), third),
            "pattern": ('{classes: ["class_0*"]}', larder.Classes("class_0*"), zeros),
            "range": ("{range: [10, 30]}", larder.Range(10, 30), set(range(10, 30))),
            "list": (f"{{list: {listed}}}", larder.List(listed), {3, 17, 200}),
            "less": ('{difference: [{range: [0, 99]}, {classes: ["class_03"]}]}',
                     larder.Range(0, 99) - larder.Classes("class_03"), set(range(99)) - third),
            "either": ('{union: [{range: [0, 5]}, {classes: ["class_03"]}]}',
                       larder.Range(0, 5) | larder.Classes("class_03"), set(range(5)) | third),
            "both": ('{intersection: [{classes: ["class_0*"]}, {fraction: 0.25, seed: 3}]}',
                     larder.Classes("class_0*") & larder.Fraction(0.25, seed=3), None),
        }
        daemon = self.configured(**{name: text for name, (text, _, _) in cases.items()})
        fraction = {index for index, _ in self.python(daemon, "all", subset=larder.Fraction(0.25, seed=3))[0]}
        self.assertEqual(len(fraction), COUNT // 4)
        label_of, names = [sorted(set(labels())).index(label) for label in labels()], sorted(set(labels()))
        for name, (_, subset, expected) in cases.items():
            with self.subTest(subset=subset):
                expected = zeros & fraction if expected is None else expected
                pairs = sorted((index, label_of[index]) for index in expected)
                for got, classes in (self.python(daemon, name), self.python(daemon, images(), subset=subset),
                                     self.in_c(daemon, name), self.in_c(daemon, images(), json.dumps(subset.spec))):
                    self.assertEqual(sorted(got), pairs)
                    self.assertEqual(classes, names)

    def test_a_client_narrows_what_the_configuration_leaves(self):
        """A client's subset of a narrowed dataset is of both: their intersection, with indices still the dataset's."""
        daemon = self.configured(zeros='{classes: ["class_0*"]}')
        zeros = [index for index, label in enumerate(labels()) if label < "class_10"]
        both = [index for index in zeros if index >= 150]
        self.assertTrue(0 < len(both) < len(zeros) < COUNT)
        self.assertEqual(sorted(index for index, _ in self.python(daemon, "zeros")[0]), zeros)
        subset = larder.Range(150, COUNT)
        self.assertEqual(sorted(index for index, _ in self.python(daemon, "zeros", subset=subset)[0]), both)
        self.assertEqual(sorted(index for index, _ in self.in_c(daemon, "zeros", json.dumps(subset.spec))[0]), both)

    def test_relabel(self):
        """relabel numbers the view's classes 0, 1, 2 …, and the class names are those; without it both are the
        dataset's."""
        daemon = self.configured(some='{classes: ["class_02", "class_1?"]}')
        subset = larder.Classes("class_02", "class_1?") - larder.Range(0, 45)  # of class_02 a part, the others whole
        chosen = ["class_02", "class_10", "class_11"]
        expected = [(index, chosen.index(label)) for index, label in enumerate(labels())
                    if label in chosen and index >= 45]
        text = json.dumps(subset.spec)
        self.assertIn("class_02", {labels()[index] for index, _ in expected})
        for dataset in (images(), "some"):
            for got, classes in (self.python(daemon, dataset, subset=subset, relabel=True),
                                 self.in_c(daemon, dataset, text, relabel=1)):
                self.assertEqual(sorted(got), expected)
                self.assertEqual(classes, chosen)
        kept = [(index, int(chosen[dense][-2:])) for index, dense in expected]
        for got, classes in (self.python(daemon, "some", subset=subset), self.in_c(daemon, "some", text)):
            self.assertEqual(sorted(got), kept)
            self.assertEqual(len(classes), CLASSES)
        with self.loader(daemon, "some", relabel=True) as loader:
            self.assertEqual(loader.class_to_idx, {name: index for index, name in enumerate(chosen)})

    def test_shuffles_of_a_view(self):
        """Within a view too `none` is the catalog's order, `strict` repeats itself in C and in Python, and `dependent`
        is another order each time."""
        daemon = self.configured()
        subset = larder.Classes("class_0[2-6]") | larder.Range(200, 230)
        orders = {shuffle: [[index for index, _ in got] for got in (
            self.python(daemon, images(), subset=subset, shuffle=shuffle)[0],
            self.python(daemon, images(), subset=subset, shuffle=shuffle)[0],
            self.in_c(daemon, images(), json.dumps(subset.spec), shuffle=number)[0])]
            for number, shuffle in enumerate(SHUFFLES)}
        view = sorted(orders["none"][0])
        self.assertEqual(len(view), 5 * COUNT // CLASSES + 30)
        self.assertEqual(orders["none"], [view] * 3)
        self.assertEqual(orders["strict"], [orders["strict"][0]] * 3)
        self.assertEqual(len({tuple(order) for order in (*orders["dependent"], orders["strict"][0], view)}), 5)
        for order in (*orders["dependent"], orders["strict"][0]):
            self.assertEqual(sorted(order), view)

    def test_refused_at_once(self):
        """What selects nothing, names no class or reaches past the end is refused at registration, by every client,
        with a text that says what is wrong; the daemon goes on."""
        daemon = self.configured(nobody='{classes: ["dog"]}', beyond=f"{{range: [0, {COUNT + 1}]}}",
                                 empty="{difference: [{range: [0, 9]}, {range: [0, 9]}]}",
                                 zeros='{classes: ["class_00"]}')
        wrong = [
            (images(), larder.Classes("dog"), "'dog' matches none of the dataset's 12 classes"),
            (images(), larder.Range(5, COUNT + 1), "ends beyond the dataset's 240 samples"),
            (images(), larder.Range(7, 7), "0 <= first < end"),
            (images(), larder.Range(0, 9) - larder.Range(0, 9), "selects none of the dataset's 240 samples"),
            (images(), larder.Fraction(0.001), "selects none of the dataset's 240 samples"),
            (images(), larder.Fraction(1.5), "subset.fraction: must be a number above 0 and at most 1"),
            (images(), larder.Range(0, 9) & larder.Subset({"clases": ["x"]}), "subset.intersection[1]: must have"),
            (images(), larder.List("/no/such/list"), "/no/such/list"),
            ("zeros", larder.Classes("class_01"), "dataset zeros, which the configuration narrows to"),
            ("nobody", None, "'dog' matches none of the dataset's 12 classes"),
            ("beyond", None, "ends beyond the dataset's 240 samples"),
            ("empty", None, "selects none of the dataset's 240 samples"),
        ]
        self.python(daemon, images())  # indexed now, so that a refusal is all that takes time below
        for dataset, subset, says in wrong:
            with self.subTest(dataset=dataset, subset=subset):
                began = time.monotonic()
                with self.assertRaises(larder.LarderError) as caught:
                    self.loader(daemon, dataset, subset=subset)
                self.assertIn(says, str(caught.exception))
                self.assertEqual(caught.exception.code, "ENOENT" if "no/such" in says else "EINVAL")
                in_c = self.in_c(daemon, dataset, json.dumps(subset.spec) if subset else "")
                self.assertEqual(in_c, f"{caught.exception.code} {caught.exception}\n")
                self.took_at_most(time.monotonic() - began, 2)
        self.assertEqual(daemon.jobs(), {})
        self.whole(self.loader(daemon, "all", pipeline=PIPELINE), COUNT)

    def test_a_wrong_expression_in_the_configuration(self):
        """The daemon does not start with a subset that cannot be, and names its line and column."""
        daemon = self.daemon(CONFIG + "  a:\n    path: /data\n    subset:\n      union:\n        - range: [0, 9]\n"
                             "        - classes: [cat, 7]\n", expect_ready=False)
        self.assertFalse(daemon.ready)
        self.assertIn("larder.yaml:14:26: datasets.a.subset.union[1].classes[1]: must be a text", daemon.log())


if __name__ == "__main__":
    main()
