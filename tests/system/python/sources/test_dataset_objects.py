"""What a Loader takes as dataset beside paths: what larder.index reads, torchvision's datasets, torch's Subsets and
Hugging Face's datasets. Each gives what the object itself gives, sample by sample, or says why it cannot."""

import concurrent.futures
import datetime
import math
import os

import numpy as np

import above  # noqa: F401
import containers
from system import Case, files_of, larder, main, skip, tree

try:
    import torch
    from torchvision import datasets as tv
    from torchvision import transforms as T

    from published import Cifar, cifar
except ImportError as error:
    skip(f"this Python has no torchvision: {error}")
try:
    import datasets as hub
    hub.disable_progress_bars()
except ImportError:
    hub = None

SIDE = 16
NUMBERS = np.random.default_rng(5)
ALL = T.Compose([T.Resize((SIDE, SIDE)), T.ToTensor()])
STEPS = [larder.Resize(20), larder.CenterCrop(SIDE)]


def mnist(root, count=9):
    folder = os.path.join(root, "MNIST", "raw")
    containers.mnist(folder, NUMBERS.integers(0, 256, (count, 28, 28), np.uint8),
                     NUMBERS.integers(0, 10, count).astype(np.uint8))
    for name in os.listdir(folder):
        os.link(os.path.join(folder, name), os.path.join(folder, name.replace("train", "t10k")))
    return root


class Objects(Case):
    def open(self, daemon, dataset, *arguments, **options):
        loader = larder.Loader(dataset, *arguments, socket=daemon.socket, **options)
        self.addCleanup(loader.close)
        return loader

    def check(self, daemon, dataset, within=1e-6, **options):
        """A Loader gives what the object does, one by one."""
        loader = self.open(daemon, dataset, batch_size=1, shuffle=False, **options)
        self.assertEqual(loader.dataset_size, len(dataset))
        count = 0
        for (images, labels), (image, label) in zip(loader, dataset):
            self.assertEqual((images[0].shape, images.dtype, int(labels[0])), (image.shape, image.dtype, label))
            self.assertLessEqual((images[0] - image).abs().max().item(), within)
            count += 1
        self.assertEqual(count, len(dataset))


class Torchvision(Objects):
    def test_arrays(self):
        """CIFAR and MNIST, to train on and to test, of one channel where torchvision has one; a Subset; other
        labels."""
        daemon = self.daemon()
        cifar(self.folder)
        mnist(self.folder)
        one = T.Compose([T.CenterCrop(28), T.ToTensor(), T.Normalize((0.1307,), (0.3081,))])
        for train in (True, False):
            self.check(daemon, Cifar(self.folder, train=train, transform=T.ToTensor()))
            self.check(daemon, tv.MNIST(self.folder, train=train, transform=one))
        test = Cifar(self.folder, train=False, transform=T.ToTensor())
        self.check(daemon, torch.utils.data.Subset(torch.utils.data.Subset(test, [0, 1, 3, 5]), [1, 3]))
        test.targets = [9 - label for label in test.targets]
        self.check(daemon, test)
        given = self.open(daemon, test, [larder.CenterCrop(8)], batch_size=6)  # in place of its own
        self.assertEqual(next(iter(given))[0].shape, (6, 3, 8, 8))

    def test_folder(self):
        daemon, dataset = self.daemon(), tree(12, classes=3)
        folder = tv.ImageFolder(dataset, ALL)
        self.check(daemon, folder, 1.5 / 255)
        loader = self.open(daemon, folder, batch_size=4, shuffle=False, labels=[7] * 12)
        self.assertEqual(next(iter(loader))[1].tolist(), [7] * 4)

    def test_refused(self):
        """What the daemon would read otherwise than the object gives it."""
        daemon, dataset = self.daemon(), tree(12, classes=3)
        cifar(self.folder)
        changed = Cifar(self.folder, transform=T.ToTensor())
        changed.data[3, 4, 5, 1] ^= 1
        fewer = tv.ImageFolder(dataset, ALL)
        fewer.samples = fewer.samples[1:]
        others = tv.ImageFolder(dataset, ALL)
        others.targets[0] = 2
        others.samples[0] = (others.samples[0][0], 2)

        class Mine(tv.ImageFolder):
            def __getitem__(self, index):
                return super().__getitem__(index)[::-1]

        class Shorter(Cifar):
            def __len__(self):
                return 3

        class Noisy(torch.utils.data.Subset):
            def __getitem__(self, index):
                return super().__getitem__(index)[::-1]

            def __getitems__(self, indices):  # newer PyTorch wants both
                return [self[index] for index in indices]

        def default_loader(path):
            return tv.folder.default_loader(path).rotate(180)

        whole = Cifar(self.folder, transform=T.ToTensor())
        for given, words in ((Shorter(self.folder, transform=T.ToTensor()), "Shorter.*larder.pack"),
                             (Noisy(whole, [1, 2]), "Noisy.*larder.pack"),
                             (torch.utils.data.Subset(Noisy(whole, [1, 2]), [0]), "Noisy.*larder.pack"),
                             (torch.utils.data.Subset(whole, [4, 1, 4]), "more than once"),
                             (tv.ImageFolder(dataset, ALL, loader=default_loader), "loader of its own"),
                             (changed, "not the pixels of its files"), (fewer, "not those of its folder"),
                             (others, "not those of its folder"), (tv.FakeData(4), "FakeData.*larder.pack"),
                             (tv.ImageFolder(dataset, ALL, target_transform=str), "target_transform"),
                             (tv.ImageFolder(dataset, ALL, loader=lambda path: path), "loader of its own"),
                             (Mine(dataset, ALL), "Mine.*larder.pack"),
                             (tv.ImageFolder(dataset, T.Lambda(lambda image: image.rotate(3))), "Lambda"),
                             (tv.ImageFolder(dataset), "pipeline")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                self.open(daemon, given)
        with self.assertRaisesRegex(larder.InvalidArgument, "subset= is given too"):
            self.open(daemon, torch.utils.data.Subset(changed, [1]), subset=larder.Range(0, 3))
        descending = torch.utils.data.Subset(whole, [4, 1])
        self.assertEqual(self.open(daemon, descending, batch_size=2).dataset_size, 2)
        with self.assertRaisesRegex(larder.InvalidArgument, "ascending"):
            self.open(daemon, descending, batch_size=2, shuffle=False)


class Containers(Objects):
    def test_as_it_is(self):
        """A folder of CIFAR and a file are taken as they are; scripts that come at once have one list; one that was
        written anew has another."""
        daemon, folder = self.daemon(), cifar(self.folder)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            loaders = list(threads.map(lambda _: self.open(daemon, folder, [larder.CenterCrop(32)], 30), range(8)))
        self.assertEqual(len({loader.dataset.root for loader in loaders}), 1)
        wanted = Cifar(self.folder).data
        for loader in loaders[:2]:
            (images, labels), = loader
            self.assertEqual(sorted(labels.tolist()), sorted(loader.dataset.targets))
            self.assertEqual(int(images.int().sum()), int(wanted.sum(dtype=np.int64)))
        array = os.path.join(self.folder, "x.npy")
        for count in (4, 7):
            np.save(array, NUMBERS.integers(0, 256, (count, 8, 8, 3), np.uint8))
            self.assertEqual(self.open(daemon, array, [larder.CenterCrop(8)]).dataset_size, count)


class HuggingFace(Objects):
    def setUp(self):
        super().setUp()
        if hub is None:
            self.skipTest("this Python has no datasets (pip install datasets)")
        self.tree = tree(20, classes=3)
        features = hub.Features({"image": hub.Image(), "label": hub.ClassLabel(names=["a", "b", "c"]),
                                 "text": hub.Value("string"), "ids": hub.Sequence(hub.Value("int64"))})
        images = []
        for path in files_of(self.tree):
            with open(path, "rb") as file:
                images.append({"bytes": file.read(), "path": None})
        self.memory = hub.Dataset.from_dict(
            {"image": images, "label": [number % 3 for number in range(20)],
             "text": [f'"{number}"\nä' for number in range(20)], "ids": [[number, 2, 3] for number in range(20)]},
            features=features)
        self.memory.save_to_disk(os.path.join(self.folder, "saved"))
        self.saved = hub.load_from_disk(os.path.join(self.folder, "saved"))

    def check_rows(self, daemon, dataset):
        loader = self.open(daemon, dataset, STEPS, 1, shuffle=False, columns=["text", "ids"])
        self.assertEqual(loader.dataset_size, len(dataset))
        for (images, labels, texts, ids), row in zip(loader, dataset):
            wanted = T.PILToTensor()(T.CenterCrop(SIDE)(T.Resize(20)(row["image"].convert("RGB"))))
            self.assertLessEqual((images[0].int() - wanted.int()).abs().max().item(), 1)
            self.assertEqual((int(labels[0]), texts[0], ids[0].tolist()), (row["label"], row["text"], row["ids"]))

    def test_rows(self):
        """Its images, labels and columns in its order, whatever was chosen, shuffled, split, joined or mapped."""
        daemon, saved = self.daemon(), self.saved
        self.memory.to_parquet(os.path.join(self.folder, "x.parquet"))
        parquet = hub.load_dataset("parquet", data_files=os.path.join(self.folder, "x.parquet"), split="train",
                                   cache_dir=os.path.join(self.folder, "cache"))
        for dataset in (saved, saved.shuffle(seed=1), saved.select([3, 5, 9]), parquet,
                        saved.train_test_split(0.3, seed=1)["train"], saved.filter(lambda row: row["label"] == 1),
                        hub.concatenate_datasets([saved.select(range(4)), saved.shuffle(seed=2)]),
                        saved.map(lambda row: {"text": row["text"] + "!"})):
            self.check_rows(daemon, dataset)

    def test_columns_left_out(self):
        """Columns that no list of JSON has are named once, with the reason, and the others are there."""
        dataset = self.saved.add_column("when", [datetime.datetime(2026, 1, 2)] * 20) \
            .add_column("score", [.5] * 19 + [math.nan]).add_column("raw", [b"x"] * 20).add_column("key", [1] * 20)
        with self.assertWarns(UserWarning) as caught:
            self.check_rows(self.daemon(), dataset)
        told = [str(one.message) for one in caught.warnings if "columns=" in str(one.message)]
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], "'when' \\(timestamp.*'score' \\(NaN.*'raw' \\(bytes\\).*'key' \\(Larder's own")

    def test_files(self):
        """A folder of images, of which the library keeps the paths."""
        daemon = self.daemon()
        dataset = hub.load_dataset("imagefolder", data_dir=self.tree, split="train",
                                   cache_dir=os.path.join(self.folder, "cache"))
        loader = self.open(daemon, dataset, STEPS, 20, shuffle=False)
        self.assertEqual(next(iter(loader))[1].tolist(), dataset["label"][:])

    def test_refused(self):
        daemon = self.daemon()
        for given, words in ((self.memory, "save_to_disk.*larder.pack"), (self.saved.to_iterable_dataset(), "streams"),
                             (hub.DatasetDict(train=self.saved), "choose one of 'train'"),
                             (self.saved.add_column("times", [.5] * len(self.saved)).remove_columns("label")
                              .rename_column("times", "label"), "0.5 as 'label' of row 0"),
                             (self.saved.remove_columns("label").add_column("label", [math.nan] * len(self.saved)),
                              "nan as 'label' of row 0"),
                             (self.saved.cast_column("image", hub.Image(mode="L")), "converts its images to L"),
                             (self.saved.select([]), "empty"), (self.saved.remove_columns("image"), "no column of")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                self.open(daemon, given, STEPS)


if __name__ == "__main__":
    main()
