"""What scripts look for at a Loader: dataset, sampler, drop_last, paths, batches as dictionaries, and subsets by
position."""

import os
import pickle
import random
import shutil
import subprocess
import sys
import types
from unittest import mock

import numpy as np

import above  # noqa: F401
from system import BIN, CONFIG, Case, files_of, larder, main, tree

COUNT, CLASSES = 60, 4


class Dataset(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, classes=CLASSES)

    def test_attributes(self):
        """dataset has an ImageFolder's attributes, and its samples and targets are those of the batches."""
        files = files_of(self.dataset)
        loader = self.loader(self.daemon(), self.dataset, 8, drop_last=True)
        found = loader.dataset
        names = sorted(os.listdir(self.dataset))
        self.assertEqual((len(found), found.classes, found.root), (COUNT, names, self.dataset))
        self.assertEqual(found.class_to_idx, {name: index for index, name in enumerate(names)})
        self.assertEqual([path for path, _ in found.samples], files)
        self.assertEqual(found.targets, [names.index(path.split("/")[-2]) for path in files])
        self.assertEqual(found.imgs, found.samples)
        self.assertEqual((loader.batch_size, loader.drop_last), (8, True))
        for _, labels, indices in loader:
            self.assertEqual(labels.tolist(), [found.targets[index] for index in indices])
        with self.assertRaisesRegex(TypeError, "iterate over the Loader"):
            found[0]

    def pack(self, store, *options):
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.dataset, store, "--quiet", *options], check=True)

    def test_packed_store(self):
        """A store of each version has the samples of the folder that it was packed from: keys, labels, order."""
        daemon = self.daemon()
        folder = self.loader(daemon, self.dataset, 8)
        for number, options in enumerate(([], ["--restart-rows"], ["--max-side", "40"], ["--planes"])):
            store = os.path.join(self.folder, f"store{number}")
            self.pack(store, *options)
            loader = self.loader(daemon, store, 8, with_ids=True, with_paths=True)
            found, expected = loader.dataset, folder.dataset
            self.assertEqual((found.classes, found.targets), (expected.classes, expected.targets))
            self.assertEqual([(os.path.relpath(path, store), label) for path, label in found.samples],
                             [(os.path.relpath(path, self.dataset), label) for path, label in expected.samples])
            for _, labels, indices, paths in loader:
                self.assertEqual([found.samples[index] for index in indices], list(zip(paths, labels.tolist())))
        keys = [os.path.relpath(path, self.dataset) for path, _ in folder.dataset.samples]
        given = self.loader(daemon, store, 8, labels={key: index for index, key in enumerate(keys)})
        self.assertEqual(given.dataset.targets, list(range(COUNT)))

    def test_nested_and_other_files(self):
        """The order of the paths is the daemon's too where folders lie in each other and other files beside them."""
        folder = os.path.join(self.folder, "tree")
        source = files_of(self.dataset)
        names = ["a/1.jpg", "a/b/2.JPG", "a-b/3.png", "a/b-c/4.jpeg", "a/b/c/5.jpg", ".h/6.jpg", "a/.7.jpg", "A/8.webp"]
        for name in [*names, "a/notes.txt", "a/jpg", "top.jpg"]:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(source[names.index(name) if name in names else 0], os.path.join(folder, name))
        daemon = self.daemon()
        for every in (False, True):
            # Each file's bytes are another's nowhere: what comes tells which one it is.
            loader = self.loader(daemon, folder, 3, [], all_files=every, with_paths=True, shuffle="none")
            for images, labels, indices, paths in loader:
                for image, label, index, path in zip(images, labels, indices, paths):
                    with open(path, "rb") as file:
                        self.assertEqual(bytes(image), file.read(), path)
                    self.assertEqual(loader.dataset.samples[index], (path, label))

    def test_files_came(self):
        """Where files were added after the daemon had indexed the folder, samples are those that it gives."""
        folder = os.path.join(self.folder, "tree")
        shutil.copytree(self.dataset, folder)
        files = files_of(folder)
        loader = self.loader(self.daemon(), folder)
        shutil.copy(files[0], os.path.join(os.path.dirname(files[0]), "0.jpg"))
        self.assertEqual([path for path, _ in loader.dataset.samples], files)

    def test_subset(self):
        """len() is the subset's; samples and targets keep the dataset's positions. Relabelled, targets are too."""
        names = sorted(os.listdir(self.dataset))
        loader = self.loader(self.daemon(), self.dataset, subset=larder.Classes(*names[2:]), relabel=True)
        found = loader.dataset
        self.assertEqual(len(found), sum(target >= 0 for target in found.targets))
        self.assertEqual(found.class_to_idx, {names[2]: 0, names[3]: 1})
        for _, labels, indices in loader:
            self.assertEqual(labels.tolist(), [found.targets[index] for index in indices])

    def test_sampler(self):
        """set_epoch of the sampler chooses the epoch in strict order; where order does not depend on it, an epoch that
        is over takes nothing back."""
        daemon = self.daemon()
        strict = self.loader(daemon, self.dataset, COUNT, shuffle="strict")
        first = next(iter(strict))[2].tolist()
        second = next(iter(strict))[2].tolist()
        strict.sampler.set_epoch(0)
        self.assertEqual(next(iter(strict))[2].tolist(), first)
        self.assertNotEqual(first, second)
        for shuffle in ("dependent", "none"):
            loader = self.loader(daemon, self.dataset, shuffle=shuffle)
            name = loader.name
            for _ in range(3):
                loader.sampler.set_epoch(0)
                self.whole(loader, COUNT)
            self.assertEqual((loader.name, loader.epoch), (name, 3))
        self.assertEqual(len(loader.sampler), COUNT)

    def test_dictionaries(self):
        """as_dict names a batch's parts; a name too few, or zero_copy, is refused."""
        daemon = self.daemon()
        loader = self.loader(daemon, self.dataset, as_dict=("pixel_values", "labels", "at", "path"), with_paths=True)
        seen = []
        for batch in pickle.loads(pickle.dumps(loader)):
            self.assertEqual(list(batch), ["pixel_values", "labels", "at", "path"])
            self.assertEqual(batch["pixel_values"].shape[1:], (64, 64, 3))
            self.assertEqual(batch["path"], [loader.dataset.samples[index][0] for index in batch["at"]])
            seen += batch["path"]
        self.assertEqual(sorted(seen), files_of(self.dataset))
        for options in ({"as_dict": ("a", "b")}, {"as_dict": ("a", "b", "b")}, {"as_dict": "abc"},
                        {"as_dict": ("a", "b", "c"), "zero_copy": True}):
            with self.assertRaisesRegex(larder.InvalidArgument, "as_dict"):
                self.loader(daemon, self.dataset, **options)

    def test_paths_of_what_is_no_folder(self):
        """A dataset that only the daemon's configuration knows has the daemon's paths."""
        config = CONFIG + f"datasets: {{pets: {{path: {self.dataset}}}}}\n"
        daemon = self.daemon(config)
        self.assertEqual(len(self.loader(daemon, "pets").dataset), COUNT)
        loader = self.loader(daemon, "pets", with_paths=True)
        self.assertEqual([path for path, _ in loader.dataset.samples], files_of(os.path.realpath(self.dataset)))
        self.assertEqual(sorted(path for batch in loader for path in batch[3]),
                         files_of(os.path.realpath(self.dataset)))

    def test_indices(self):
        """Indices of any form select just these; many scattered ones too."""
        daemon = self.daemon()
        sevenths = np.arange(COUNT) % 7 == 2
        for given, expected in (([5, 3, 3, 4], [3, 4, 5]), (np.array([3, 4, 5], np.uint8), [3, 4, 5]),
                                ((n for n in (3, 5, 4)), [3, 4, 5]), (sevenths, list(range(2, COUNT, 7))),
                                (sevenths.tolist(), list(range(2, COUNT, 7)))):
            loader = self.loader(daemon, self.dataset, subset=larder.Indices(given))
            self.assertEqual(sorted(i for batch in loader for i in batch[2].tolist()), expected)
        seed = random.randrange(1 << 30)
        print("seed", seed)
        big = tree(1200, width=16, height=16)
        chosen = sorted(random.Random(seed).sample(range(1200), 700))
        wide = [2 * n for n in range(600)]
        for positions in (chosen, wide):
            loader = self.loader(daemon, big, 100, subset=larder.Indices(positions))
            self.assertEqual(sorted(i for batch in loader for i in batch[2].tolist()), positions)
        self.assertEqual(larder.Indices(wide), larder.Indices(np.array(wide)))
        self.assertIn("indices", larder.Indices(wide).spec)
        self.assertIn("union", (larder.Indices(wide) | larder.Classes("x")).spec)

    def test_indices_go_by_descriptor(self):
        """Many scattered positions touch no file: they come with each registration, also with a copy's in another
        process, with a state's, and that of a job which comes back after a daemon's death."""
        daemon, big = self.daemon(), tree(1200, width=16, height=16)
        odd, thirds = list(range(1, 1200, 2)), list(range(0, 1200, 3))
        subset = larder.Range(0, 1200) & larder.Indices(odd) - larder.Indices(thirds)
        wanted = sorted(set(odd) - set(thirds))
        refuse = mock.Mock(side_effect=OSError(30, "Read-only file system"))
        with mock.patch.multiple(os, makedirs=refuse, mkdir=refuse, replace=refuse), \
                mock.patch("tempfile.NamedTemporaryFile", refuse):
            loader = self.loader(daemon, big, 50, subset=pickle.loads(pickle.dumps(subset)), reconnect=60)
            batches = iter(loader)
            had = next(batches)[2].tolist()
            state = loader.state_dict()
            copied = pickle.dumps(loader)
        daemon.kill()
        daemon = self.daemon()
        rest = [i for batch in batches for i in batch[2].tolist()]
        self.assertEqual(sorted(had + rest), wanted)
        other = self.loader(daemon, big, 50, subset=subset, state=state)
        self.assertEqual(sorted(had + [i for batch in other for i in batch[2].tolist()]), wanted)
        code = "import pickle, sys; print(sorted(i for b in pickle.load(sys.stdin.buffer) for i in b[2].tolist()))"
        copy = subprocess.run([sys.executable, "-c", code], input=copied, capture_output=True, 
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(copy.stdout.decode(), f"{wanted}\n", copy.stderr.decode())

    def test_indices_of_ranks(self):
        """Each rank brings the positions; ranks that bring others are refused."""
        daemon, big = self.daemon(), tree(1200, width=16, height=16)
        even = list(range(0, 1200, 2))
        ranks = [self.loader(daemon, big, 50, subset=larder.Indices(even), rank=rank, world_size=2, name="pair")
                 for rank in range(2)]
        seen = [[i for batch in loader for i in batch[2].tolist()] for loader in ranks]
        self.assertEqual(sorted(seen[0] + seen[1]), even)
        with self.assertRaisesRegex(larder.LarderError, "pair"):
            self.loader(daemon, big, 50, subset=larder.Indices(even[1:]), rank=0, world_size=2, name="pair")

    def test_wrong_positions(self):
        """Positions beyond the dataset, and JSON that was torn from its Indices, are refused with what to do."""
        daemon = self.daemon()
        with self.assertRaisesRegex(larder.InvalidArgument, f"there is position 60, and the dataset has {COUNT}"):
            self.loader(daemon, self.dataset, subset=larder.Indices(range(0, 2000, 2)))
        with self.assertRaisesRegex(larder.InvalidArgument, "did not come with the registration"):
            self.loader(daemon, self.dataset, subset=larder.Indices(range(0, 2000, 2)).spec)

    def test_torch_subset(self):
        """A torch Subset, also one of a Subset, means its positions in the dataset below."""
        whole = types.SimpleNamespace()
        outer = types.SimpleNamespace(dataset=whole, indices=list(range(10, 30)))
        inner = types.SimpleNamespace(dataset=outer, indices=np.array([0, 2, 19]))
        loader = self.loader(self.daemon(), self.dataset, subset=inner)
        self.assertEqual(sorted(i for batch in loader for i in batch[2].tolist()), [10, 12, 29])

    def test_refused_indices(self):
        """What is no position, or becomes another one where it is made narrower."""
        for given in ([], [1.5], [1.0], ["a"], [-1], [[1, 2]], [2**32], [2**64 + 1], [-2**64], np.zeros(4, bool),
                      [True, 5], np.array([1.0]), np.array([2**64 - 1], np.uint64), np.float32([3])):
            with self.assertRaisesRegex(larder.InvalidArgument, "Indices"):
                larder.Indices(given)


if __name__ == "__main__":
    main()
