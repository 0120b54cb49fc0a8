"""labels=: arrays, mappings and CSVs by key, path or position, in place of class numbers."""

import os
import shutil
import subprocess
import tempfile

import numpy as np

import above  # noqa: F401
from system import BIN, Case, files_of, larder, main, tree

COUNT = 40


class Labels(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, classes=3)
        self.keys = [os.path.relpath(path, self.dataset) for path in files_of(self.dataset)]

    def csv(self, *lines):
        path = os.path.join(tempfile.mkdtemp(dir=self.folder), "labels.csv")
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def gives(self, loader, expected):
        expected = np.asarray(expected)
        for _, labels, indices in loader:
            self.assertEqual(labels.dtype, expected.dtype)
            np.testing.assert_array_equal(labels, expected[indices])

    def test_forms(self):
        """Each form of labels gives each sample its own row, whatever the order; types are those a loss takes."""
        daemon, some = self.daemon(), np.arange(COUNT) * 3 + 1
        floats, many = some / 8, np.stack([some, some % 2, -some], 1)
        for given, expected in (
                (some.tolist(), some), (some.astype(np.uint16), some), (floats, floats.astype(np.float32)),
                (many, many), (many % 2 == 0, (many % 2 == 0).astype(np.int64)),
                (dict(zip(self.keys, floats)), floats.astype(np.float32)),
                (dict(zip(reversed(range(COUNT)), reversed(some.tolist()))), some),
                (dict(zip(files_of(self.dataset), many)), many),
                (self.csv(*(f"{key},{value}" for key, value in zip(self.keys, some))), some)):
            with self.subTest(type(given).__name__, shape=expected.shape), \
                    self.loader(daemon, self.dataset, labels=given) as loader:
                self.gives(loader, expected)
                self.assertEqual(np.array(loader.dataset.targets).tolist(), expected.tolist())

    def test_csv(self):
        """A line of titles is passed over; several columns make a vector, and one number with a point makes floats."""
        daemon = self.daemon()
        rows = [(n % 2, n / 4) for n in range(COUNT)]
        path = self.csv("file,left,right", *(f"{n},{a},{b}" for n, (a, b) in enumerate(rows)))
        self.gives(self.loader(daemon, self.dataset, labels=path), np.array(rows, np.float32))

    def test_names(self):
        """Names in place of numbers are classes in their order, in each form that names may come in."""
        daemon = self.daemon()
        names = [("tabby cat", "dog", "elk, large", "a \"b\"")[n % 4] for n in range(COUNT)]
        classes = sorted(set(names))
        expected = [classes.index(name) for name in names]
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        for given in (names, np.array(names), np.array(names, object), dict(zip(self.keys, names)),
                      dict(enumerate(names)),
                      self.csv("id,breed", *(f"{key},{name}" for key, name in zip(self.keys, quoted))),
                      self.csv("id\tbreed", *(f"{n}\t{name}" for n, name in enumerate(quoted)))):
            with self.subTest(type(given).__name__), self.loader(daemon, self.dataset, labels=given) as loader:
                self.gives(loader, np.array(expected, np.int64))
                self.assertEqual(loader.classes, classes)
                self.assertEqual(loader.dataset.class_to_idx, {name: n for n, name in enumerate(classes)})
                self.assertEqual(loader.dataset.targets, expected)
        plain = self.csv(*(f"{key}, {name}" for key, name in zip(self.keys, ("tabby cat", "dog") * COUNT)))
        with self.loader(daemon, self.dataset, labels=plain) as loader:
            self.assertEqual(loader.classes, ["dog", "tabby cat"])

    def test_by_class(self):
        """A mapping from the dataset's classes, to numbers, vectors or names of coarser classes. Classes that a subset
        leaves out need none."""
        daemon = self.daemon()
        classes = sorted({key.split("/")[0] for key in self.keys})
        number = np.array([classes.index(key.split("/")[0]) for key in self.keys])
        vectors = np.arange(len(classes) * 2).reshape(-1, 2)
        for rows, expected in (([7, 5, 9], np.array([7, 5, 9])[number]),
                               (list(vectors), vectors[number]), (["b", "a", "b"], np.array([1, 0, 1])[number])):
            with self.subTest(rows), self.loader(daemon, self.dataset, labels=dict(zip(classes, rows))) as loader:
                self.gives(loader, expected)
        some = {classes[1]: 3}
        with self.loader(daemon, self.dataset, labels=some, subset=larder.Classes(classes[1])) as loader:
            self.gives(loader, np.full(COUNT, 3))
        with self.assertRaisesRegex(larder.InvalidArgument, f"none for sample 0, {self.keys[0]}"):
            self.loader(daemon, self.dataset, labels=some)

    def test_flat(self):
        """A folder of images alone is trained on: with a warning that all labels are 0, or with labels by name; its
        store gives the same."""
        daemon, flat = self.daemon(), os.path.join(self.folder, "flat")
        os.mkdir(flat)
        for path in files_of(self.dataset):
            shutil.copy(path, flat)
        names = sorted(os.listdir(flat))
        with self.assertWarnsRegex(UserWarning, "no class folders: every label is 0") as met:
            loader = self.loader(daemon, flat, with_paths=True)
        self.assertEqual(os.path.basename(met.filename), "system.py")  # which calls larder.Loader
        self.gives((batch[:3] for batch in loader), np.zeros(len(names), np.int64))
        self.assertEqual(loader.dataset.samples, [(os.path.join(flat, name), 0) for name in names])
        loader.close()
        given, store = {name: len(name) + n for n, name in enumerate(names)}, os.path.join(self.folder, "flat.store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", flat, store, "--quiet"], check=True)
        for dataset in (flat, store):
            with self.subTest(dataset), self.loader(daemon, dataset, labels=given) as loader:
                self.gives(loader, list(given.values()))

    def test_torch(self):
        """A tensor's values come as a tensor."""
        try:
            import torch
        except ImportError:
            self.skipTest("this Python has no torch")
        given = torch.arange(COUNT * 2, dtype=torch.float64).reshape(COUNT, 2)
        loader = self.loader(self.daemon(), self.dataset, labels=given, output="torch")
        for _, labels, indices in loader:
            self.assertTrue(torch.equal(labels, given[indices].float()))

    def test_some_alone(self):
        """Labels of a part go with a subset of that part; without one they are refused, by the name of what has
        none."""
        daemon = self.daemon()
        given = {key: 7 for key in self.keys[10:20]}
        loader = self.loader(daemon, self.dataset, labels=given, subset=larder.Indices(range(10, 20)))
        self.assertEqual([labels.tolist() for _, labels, _ in loader], [[7] * 10])
        with self.assertRaisesRegex(larder.InvalidArgument, f"sample 0, {self.keys[0]}"):
            self.loader(daemon, self.dataset, labels=given)
        loader = self.loader(daemon, self.dataset, labels=given, subset=larder.Range(10, 21))
        with self.assertRaisesRegex(larder.InvalidArgument, f"sample 20, {self.keys[20]}"):
            list(loader)

    def test_refused(self):
        """What is wrong is said when the Loader is made."""
        daemon = self.daemon()
        for given, words in (
                (np.zeros(COUNT + 1), "41 rows"), (["a"] * (COUNT - 1) + [1], "nor of names"), (["a"], "1 rows"),
                (3, "numbers"), ([[1], [2, 3]], "numbers"),
                ({"no/such.jpg": 1}, "no/such.jpg"), ({COUNT: 1}, "40 to 40"), ({0: 1, "0": 2}, "twice"),
                (self.csv("0,1", "1,1,2"), "labels.csv:2:1: has 2"), (self.csv("a", "b"), "labels.csv:1:1"),
                (self.csv("0", "1"), "labels.csv:1:2: has no label"),
                (self.csv("0,1", "1,cat"), "2:1: has 'cat', and the lines before it have 1"),
                (self.csv("0,cat", "1,cat,dog"), "2:3: 'cat,dog' is neither"), (self.csv("0,cat", "1,7"), "2:1: has 7"),
                (self.csv(f"{self.keys[0]} b/x.jpg"), "'b/x.jpg' is neither"),
                (self.csv("0,1", f"1,{2**63}"), "2:1: a number is beyond"), (self.csv("0;1,5"), "decimal comma"),
                (self.csv(",path,label", "0,a/b.jpg,1"), "index=False"), (self.csv("0,1", "1,"), "2:3: has no label"),
                (self.csv("0,1", "40,1"), "2:1: position 40 is beyond"), (self.csv("7,1", "7,1"), "2:1: .* line 1")):
            with self.subTest(words), self.assertRaisesRegex(larder.LarderError, words):
                self.loader(daemon, self.dataset, labels=given)


if __name__ == "__main__":
    main()
