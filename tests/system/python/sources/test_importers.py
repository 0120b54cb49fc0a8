"""larder.pack of other forms: what the real daemon delivers of the store is what the form's own library reads."""

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import signal
import struct
import tarfile
import unittest
import zipfile

import above  # noqa: F401
import containers
import numpy as np
from system import BIN, Case, files_of, larder, main, tree

from larder import _log, importers

COUNT = 50


def image(number):
    """A PGM of its own size and pixels."""
    width = 3 + number % 7
    return b"P5 %d 5 255\n" % width + bytes((number * 7 + at) % 251 for at in range(width * 5))


def library(name):
    """A library that a form is of; its test is skipped without it."""
    try:
        return importers.need(name)
    except larder.InvalidArgument as error:
        raise unittest.SkipTest(str(error)) from None


class Imported(Case):
    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.folder, "made.store")
        self.want = [(image(number), number % 3) for number in range(COUNT)]
        self._daemon = None
        found = os.environ.get("LARDERD")
        os.environ["LARDERD"] = os.path.join(BIN, "larderd")
        self.addCleanup(lambda: os.environ.update(LARDERD=found) if found else os.environ.pop("LARDERD"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def delivered(self, count=COUNT, pipeline=(), source=None):
        """(bytes, label) of each sample of the store, in order, each of which comes once; the Loader."""
        self._daemon = self._daemon or self.daemon()
        loader = self.loader(self._daemon, source or self.store, pipeline=list(pipeline), batch_size=7)
        got = [(int(index), bytes(data) if not pipeline else np.asarray(data), int(label))
               for images, labels, indices in loader for data, label, index in zip(images, labels, indices)]
        self.assertEqual(sorted(index for index, _, _ in got), list(range(count)))
        return [rest for _, *rest in sorted(got, key=lambda sample: sample[0])], loader

    def check(self, classes=("0", "1", "2")):
        self.assertFalse(os.path.exists(self.store + ".log"))
        got, loader = self.delivered()
        self.assertEqual([tuple(sample) for sample in got], self.want)
        self.assertEqual(loader.classes, list(classes))

    def test_files_of_torchvision(self):
        """ImageFolder, DatasetFolder and a Subset without transform: the files' own bytes, labels and classes. With a
        transform what it makes is stored, which is said beforehand."""
        try:
            from torch.utils.data import Subset
            from torchvision.datasets import DatasetFolder, ImageFolder
            from torchvision.datasets.folder import default_loader
        except ImportError as error:
            raise unittest.SkipTest(str(error)) from None
        dataset = tree(COUNT)
        whole = ImageFolder(dataset)
        every = list(range(COUNT))
        for made, positions in ((whole, every), (DatasetFolder(dataset, default_loader, (".jpg",)), every),
                                (Subset(whole, [9, 2, 30]), [9, 2, 30])):
            self.store = self.path(f"{type(made).__name__}.store")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                larder.pack(made, self.store)
            self.assertNotIn("transform", said.getvalue())
            self.want = []
            for path, label in (whole.samples[at] for at in positions):
                with open(path, "rb") as file:
                    self.want.append((file.read(), label))
            got, loader = self.delivered(len(positions))
            self.assertTrue([tuple(sample) for sample in got] == self.want, type(made).__name__)
            self.assertEqual(loader.classes, whole.classes)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            larder.pack(ImageFolder(dataset, transform=lambda one: one.resize((5, 6))), self.path("changed.store"))
        self.assertRegex(said.getvalue().splitlines()[0], "ImageFolder has a transform: .*is stored.*"
                         + re.escape(f"larder.pack({dataset!r}, …)") + ".*encode='png'")
        got, _ = self.delivered(COUNT, source=self.path("changed.store"))
        self.assertEqual({bytes(data[:8]) for data, _ in got}, {b"\x89PNG\r\n\x1a\n"})

    def test_samples(self):
        """A Dataset with len() and [index]: its classes, and pixels as arrays."""
        class Pixels:
            classes = ["b", "c", "a"]

            def __len__(self):
                return COUNT

            def __getitem__(self, index):
                return np.full((6, 6, 3), index * 5, np.uint8), np.int64(index % 3)

        try:
            import PIL  # noqa: F401
        except ImportError:
            self.skipTest("no Pillow")
        larder.pack(Pixels(), self.store, workers=3, quiet=True)
        got, loader = self.delivered(pipeline=[{"center_crop": {"size": [6, 6]}}])
        for index, (pixels, label) in enumerate(got):
            self.assertTrue((pixels == index * 5).all())
            self.assertEqual(label, index % 3)
        self.assertEqual(loader.classes, ["b", "c", "a"])

    def test_iterated(self):
        """What can only be gone through, and dictionaries."""
        larder.pack(({"img": data, "label": f"class {label}"} for data, label in self.want), self.store, quiet=True)
        self.check(["class 0", "class 1", "class 2"])

    def test_paths(self):
        """A list of paths, as a Loader takes it."""
        paths = []
        os.mkdir(self.path("images"))
        for number, (data, _) in enumerate(self.want):
            paths.append(self.path(f"images/{number:03}.pgm"))
            with open(paths[-1], "wb") as file:
                file.write(data)
        self.want = [(data, 0) for data, _ in reversed(self.want)]
        larder.pack(paths[::-1], self.store, quiet=True)
        self.check(["unlabelled"])

    def test_pointed_at(self):
        """What larder.index points into, and so a Loader takes: pixels, and encoded images."""
        labels = [label for _, label in self.want]
        containers.mnist(self.path("mnist"), np.random.default_rng(1).integers(0, 256, (COUNT, 8, 8), np.uint8), labels)
        images = []
        for path in files_of(tree(COUNT)):
            with open(path, "rb") as file:
                images.append(file.read())
        containers.tfrecord(self.path("a.tfrecord"), images, labels)
        for name in "mnist", "a.tfrecord":
            self.want = [tuple(sample) for sample in self.delivered(source=self.path(name))[0]]
            self.assertEqual([label for _, label in self.want], labels)
            larder.pack(self.path(name), self.store, quiet=True)
            self.check()
            shutil.rmtree(self.store)

    def test_zip(self):
        """Deflated and stored members, in ImageFolder's order; a folder of zips."""
        os.mkdir(self.path("zips"))
        with zipfile.ZipFile(self.path("zips/a.zip"), "w", zipfile.ZIP_DEFLATED) as one, \
                zipfile.ZipFile(self.path("zips/b.zip"), "w") as two:
            for number, (data, label) in enumerate(self.want):
                (one if number % 2 else two).writestr(f"set/train/class{label}/{number:03}.v1.pgm", data)
            one.writestr("__MACOSX/set/train/._000.pgm", b"x")
            one.writestr("set/readme.txt", b"x")
        larder.pack([self.path("zips/a.zip"), self.path("zips/b.zip")], self.path("list.store"), quiet=True)
        larder.pack(self.path("zips"), self.store, quiet=True)
        for name in ("list.store", "made.store"):
            made = set(os.listdir(self.path(name))) - {"origins.larder"}  # where the log was seconds old
            self.assertEqual(len(made), 2)
        self.want.sort(key=lambda sample: sample[1])
        self.check(["class0", "class1", "class2"])

    def test_tar(self):
        """Compressed tars have what tars have, with labels by .cls and by a key of .json."""
        def write(path):
            with tarfile.open(path, "w:gz" if path.endswith("gz") else "w:xz") as tar:
                first = 0 if path.endswith("gz") else COUNT // 2
                for number in range(first, first + COUNT // 2):
                    data, label = self.want[number]
                    for name, part in ((f"{number}.pgm", data), (f"{number}.cls", b"%d" % label),
                                       (f"{number}.json", b'{"kind": "k%d"}' % label), (f"{number}.txt", b"text")):
                        member = tarfile.TarInfo(name)
                        member.size = len(part)
                        tar.addfile(member, io.BytesIO(part))
            return path

        paths = [write(self.path("a.tar.gz")), write(self.path("b.tar.xz"))]
        larder.pack(importers.Tar(paths), self.store, workers=2, quiet=True)
        self.check()
        shutil.rmtree(self.store)
        larder.pack(importers.Tar(paths, labels="json:kind"), self.store, quiet=True)
        self.check(["k0", "k1", "k2"])
        with open(paths[0], "r+b") as file:
            file.truncate(os.path.getsize(paths[0]) - 20)
        with self.assertRaisesRegex(larder.FormatError, "a.tar.gz"):
            larder.pack(importers.Tar(paths), self.path("cut.store"), quiet=True)

    def mds(self, folder, compression):
        """As MDSWriter lays it out."""
        os.mkdir(folder)
        shards = []
        for number, first in enumerate(range(0, COUNT, 20)):
            part = self.want[first:first + 20]
            bodies = [struct.pack("<I", len(data)) + data + struct.pack("<q", label) for data, label in part]
            head = 4 + 4 * (len(part) + 1)
            places = np.cumsum([head, *map(len, bodies)]).astype("<u4")
            raw = struct.pack("<I", len(part)) + places.tobytes() + b"".join(bodies)
            name = f"shard.{number:05}.mds"
            about = {"column_encodings": ["bytes", "int"], "column_names": ["image", "label"],
                     "column_sizes": [None, 8], "compression": compression, "format": "mds", "samples": len(part),
                     "raw_data": {"basename": name, "bytes": len(raw)}, "zip_data": None}
            if compression:
                about["zip_data"] = {"basename": name + ".gz"}
                raw = gzip.compress(raw)
            with open(os.path.join(folder, name + (".gz" if compression else "")), "wb") as file:
                file.write(raw)
            shards.append(about)
        with open(os.path.join(folder, "index.json"), "w") as file:
            json.dump({"shards": shards, "version": 2}, file)
        return folder

    def test_mds(self):
        """MDS, compressed and not, as its description has it."""
        for compression in (None, "gz"):
            larder.pack(self.mds(self.path(f"mds-{compression}"), compression), self.store, quiet=True)
            self.check()
            shutil.rmtree(self.store)

    def test_mds_library(self):
        """MDS that MosaicML's own writer made, compressed by zstd."""
        streaming, _ = library("streaming"), library("zstandard")
        with streaming.MDSWriter(out=self.path("mds"), columns={"image": "bytes", "label": "int"}, size_limit=1 << 12,
                                 compression="zstd") as writer:
            for data, label in self.want:
                writer.write({"image": data, "label": label})
        larder.pack(self.path("mds"), self.store, quiet=True)
        self.check()

    def test_parquet(self):
        """Encoded images as the Hub has them, with the names of classes in the schema; any row groups."""
        arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
        told = {"info": {"features": {"img": {"_type": "Image"}, "label": {"_type": "ClassLabel",
                                                                           "names": ["x", "z", "y"]}}}}
        table = arrow.table({"img": arrow.array([{"bytes": data, "path": None} for data, _ in self.want]),
                             "label": arrow.array([label for _, label in self.want])})
        table = table.replace_schema_metadata({"huggingface": json.dumps(told)})
        os.mkdir(self.path("hub"))
        parquet.write_table(table[:30], self.path("hub/train-0.parquet"), row_group_size=7)
        parquet.write_table(table[30:], self.path("hub/train-1.parquet"), compression="zstd")
        larder.pack(self.path("hub"), self.store, quiet=True)
        self.check(["x", "z", "y"])
        shutil.rmtree(self.store)
        larder.pack(self.path("hub/*.parquet"), self.store, label=False, quiet=True)
        self.want = [(data, 0) for data, _ in self.want]
        self.check(["unlabelled"])

    def test_datasets(self):
        """A Dataset of Hugging Face's library, also shuffled."""
        datasets, _ = library("datasets"), library("PIL")
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["x", "z", "y"])})
        made = datasets.Dataset.from_dict({"image": [{"bytes": data, "path": None} for data, _ in self.want],
                                           "label": [label for _, label in self.want]}, features=features)
        larder.pack(made, self.store, workers=2, quiet=True)
        self.check(["x", "z", "y"])
        shutil.rmtree(self.store)
        order = np.random.default_rng(1).permutation(COUNT).tolist()
        larder.pack(made.select(order), self.store, quiet=True)
        self.want = [self.want[index] for index in order]
        self.check(["x", "z", "y"])

    def test_hdf5(self):
        """Chunked and compressed pixels, in both orders of axes, and encoded images of any lengths."""
        h5py = library("h5py")
        pixels = np.random.default_rng(1).integers(0, 256, (COUNT, 5, 6, 3), np.uint8)
        for name, stored in (("hwc", pixels), ("chw", pixels.transpose(0, 3, 1, 2))):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file.create_dataset("images", data=stored, chunks=(7, *stored.shape[1:]), compression="gzip")
                file["labels"] = [number % 3 for number in range(COUNT)]
            larder.pack(self.path(name + ".h5"), self.store, quiet=True)
            got, _ = self.delivered(pipeline=[{"center_crop": {"size": [5, 6]}}])
            for index, (back, label) in enumerate(got):
                self.assertTrue((back == pixels[index]).all())
                self.assertEqual(label, index % 3)
            shutil.rmtree(self.store)
        with h5py.File(self.path("encoded.h5"), "w") as file:
            rows = file.create_dataset("image", (COUNT,), dtype=h5py.vlen_dtype(np.uint8), chunks=(8,))
            for number, (data, _) in enumerate(self.want):
                rows[number] = np.frombuffer(data, np.uint8)
            file["label"] = [label for _, label in self.want]
        larder.pack(self.path("encoded.h5"), self.store, quiet=True)
        self.check()

    def test_killed(self):
        """The process that packs is killed by its source, after ever more samples; the next call goes on."""
        class Deadly:
            files = []
            classes, image, label, count = None, None, None, COUNT
            pieces = importers.ranges(COUNT, 11)

            def __init__(self, want, after):
                self.want, self.left = want, after

            def read(self, piece):
                for number in range(*piece):
                    if self.left == 0:
                        os.kill(os.getppid(), signal.SIGKILL)
                        while os.getppid() == parent:
                            pass
                    self.left -= 1
                    yield (*self.want[number], f"key/{number}")

        for after in (0, 1, 10, 12, 12, 12):
            child = os.fork()
            if child == 0:
                parent = os.getpid()
                _log._HOLD_BYTES = 1  # each sample is in the log at once
                larder.pack(Deadly(self.want, after), self.store, workers=1, quiet=True)
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], signal.SIGKILL)
            self.assertFalse(os.path.exists(self.store))
        self.assertEqual(len([name for name in os.listdir(self.store + ".log") if name.endswith(".tar")]), 3)
        larder.pack(Deadly(self.want, -1), self.store, workers=4, quiet=True)
        self.check()

    def test_refused(self):
        """Sources that have nothing to take, and one that changes while it is packed, are named."""
        class Broken:
            def __len__(self):
                return 3

            def __getitem__(self, index):
                if index == 2:
                    raise KeyError("the third is not there")
                return image(index), 0

        with self.assertRaisesRegex(larder.LarderError, "the third is not there"):
            larder.pack(Broken(), self.store, quiet=True)
        with self.assertRaisesRegex(larder.InvalidArgument, "another source was being packed"):
            larder.pack([(image(0), 0)], self.store, quiet=True)
        with self.assertRaisesRegex(larder.NotFound, "no file is there"):
            larder.pack(self.path("none.parquet"), self.path("x.store"), quiet=True)
        with self.assertRaisesRegex(larder.InvalidArgument, "give image="):
            larder.pack([{"a": b"x"}], self.path("x.store"), quiet=True)
        with self.assertRaisesRegex(larder.InvalidArgument, "no sample"):
            larder.pack([], self.path("y.store"), quiet=True)
        self.assertFalse(os.path.exists(self.path("y.store.log")))
        with self.assertRaisesRegex(larder.LarderError, "larder pack .* failed: .*cannot open"):
            larder.pack(self.path("nothing"), self.path("z.store"), quiet=True)


if __name__ == "__main__":
    main()
