"""Lists of places: what larder.index writes of each container is trained on as the container's own library reads it;
bytes that were changed reach nobody; what cannot be pointed at is refused with what to do."""

import csv
import gzip
import io
import os
import pickle
import shutil
import subprocess
import tarfile
import zipfile

import numpy as np

import above  # noqa: F401
import containers
from system import BIN, Case, files_of, larder, main, tree

COUNT = 30
CROP = [larder.Resize(40), larder.CenterCrop(32)]  # which draws nothing
WHOLE = [larder.CenterCrop(32)]  # of 32 x 32 pixels: these


class Places(Case):
    def setUp(self):
        super().setUp()
        self.tree = tree(COUNT, classes=3)
        self.files = files_of(self.tree)
        self.names = [os.path.relpath(path, self.tree).split("/")[0] for path in self.files]
        number = {name: n for n, name in enumerate(sorted(set(self.names)))}
        self.labels = [number[name] for name in self.names]
        self.images = [self.bytes_of(path) for path in self.files]
        random = np.random.default_rng(3)
        self.pixels = random.integers(0, 256, (COUNT, 3, 32, 32), np.uint8)

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def samples(self, loader):
        """Of each position: its pixels and label."""
        found = {}
        for images, labels, indices in loader:
            for image, label, index in zip(images, labels, indices):
                self.assertNotIn(int(index), found)
                found[int(index)] = image.copy(), int(label)
        return [found[index] for index in range(len(found))]

    def rows(self, path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def check_encoded(self, daemon, source, order=None, name="list.csv", **options):
        """The list of a source gives the pixels and labels of the folder's files, in an order of its own."""
        listed = self.at(name)
        self.assertEqual(larder.index(source, listed, **options), COUNT)
        for row, image in zip(self.rows(listed), [self.images[n] for n in order or range(COUNT)]):
            path = os.path.join(self.folder, row["path"])
            with open(path, "rb") as file:
                file.seek(int(row["offset"]))
                self.assertEqual(file.read(int(row["bytes"])), image)
        with self.loader(daemon, listed, pipeline=CROP) as loader:
            found = self.samples(loader)
        with self.loader(daemon, self.tree, pipeline=CROP) as loader:
            wanted = self.samples(loader)
        for place, number in enumerate(order or range(COUNT)):
            np.testing.assert_array_equal(found[place][0], wanted[number][0])
        return [label for _, label in found]

    def check_pixels(self, daemon, source, wanted, labels, pipeline=WHOLE, **options):
        """The list of a source gives these pixels, (N, H, W, 3), and labels."""
        listed = self.at("list.csv")
        self.assertEqual(larder.index(source, listed, **options), len(wanted))
        with self.loader(daemon, listed, pipeline=pipeline) as loader:
            found = self.samples(loader)
        np.testing.assert_array_equal(np.stack([pixels for pixels, _ in found]), wanted)
        self.assertEqual([label for _, label in found], labels)
        return self.rows(listed)

    def test_encoded(self):
        """zip, MDS and TFRecord of the folder's files."""
        daemon = self.daemon()
        with zipfile.ZipFile(self.at("x.zip"), "w") as archive:
            for path in self.files:
                archive.write(path, "train/" + os.path.relpath(path, self.tree))
            archive.writestr("train/notes.txt", "no image")
        self.assertEqual(self.check_encoded(daemon, self.at("x.zip")), self.labels)
        containers.mds(self.at("mds"), self.images, self.labels)
        self.assertEqual(self.check_encoded(daemon, self.at("mds")), self.labels)
        for part in range(3):
            containers.tfrecord(self.at(f"x-{part}.tfrecord"), self.images[part * 10:part * 10 + 10],
                                self.labels[part * 10:part * 10 + 10])
        self.assertEqual(self.check_encoded(daemon, self.at("x-*.tfrecord"), name="tfrecords.csv"), self.labels)
        self.assertEqual(self.check_encoded(daemon, self.at("x-*.tfrecord"), label=self.names, crc32=False),
                         self.labels)
        look = subprocess.run([os.path.join(BIN, "larder"), "look", self.at("list.csv")], stdout=subprocess.PIPE,
                              text=True, check=True).stdout
        self.assertIn("a list of places in files", look)
        self.assertIn("files    3, of", look)

    def test_pixels(self):
        """npy, MDS's pil and both forms of CIFAR-10 and -100, channels first and last."""
        daemon, last = self.daemon(), np.ascontiguousarray(self.pixels.transpose(0, 2, 3, 1))
        names = ["apple", "bear", "cat", "dog"]
        labels = [n % 4 for n in range(COUNT)]
        np.save(self.at("first.npy"), self.pixels)
        np.save(self.at("last.npy"), last)
        np.save(self.at("labels.npy"), np.array(labels))
        self.check_pixels(daemon, self.at("first.npy"), last, labels, label=self.at("labels.npy"))
        rows = self.check_pixels(daemon, self.at("last.npy"), last, labels, label=np.array(labels))
        self.assertEqual([int(row["crc32"]) for row in rows], containers.crc_of_rows(last))
        containers.mds(self.at("pil"), [containers.pil(one) for one in last], labels, kinds=("pil", "int"))
        self.check_pixels(daemon, self.at("pil"), last, labels)
        containers.cifar_binary(self.at("cifar-10-batches-bin"), self.pixels, labels, names)
        rows = self.check_pixels(daemon, self.at("cifar-10-batches-bin"), last, labels)
        self.assertEqual([row["class"] for row in rows], [names[label] for label in labels])
        containers.cifar_python(self.at("cifar-10-batches-py"), self.pixels, labels, names)
        rows = self.check_pixels(daemon, self.at("cifar-10-batches-py"), last, labels)
        self.assertEqual([row["class"] for row in rows], [names[label] for label in labels])
        self.check_pixels(daemon, self.at("cifar-10-batches-py", "test_batch"), last[:2], [1, 2])
        containers.cifar_python(self.at("cifar-100-python"), self.pixels, labels, names, hundred=True)
        self.check_pixels(daemon, self.at("cifar-100-python"), last, labels)
        rows = self.check_pixels(daemon, self.at("cifar-100-python"), last, [n // 2 for n in labels], label="coarse")
        self.assertEqual({row["class"] for row in rows}, set(names[::2]))

    def test_mnist(self):
        """Grey pixels of 28 x 28, which come as RGB, as Pillow's convert makes them."""
        daemon, grey = self.daemon(), self.pixels[:, 0, :28, :28]
        labels = [n % 10 for n in range(COUNT)]
        containers.mnist(self.at("raw"), grey, labels)
        wanted = np.repeat(grey[..., None], 3, axis=3)
        self.check_pixels(daemon, self.at("raw"), wanted, labels, [larder.CenterCrop(28)])
        self.check_pixels(daemon, self.at("raw", "train-images-idx3-ubyte"), wanted, labels, [larder.CenterCrop(28)])

    def test_torchvision(self):
        """torchvision's own CIFAR10 and MNIST read the same from the same files."""
        try:
            from torchvision import datasets
        except ImportError:
            self.skipTest("this Python has no torchvision")
        labels, names = [n % 4 for n in range(COUNT)], ["apple", "bear", "cat", "dog"]
        containers.cifar_python(self.at("cifar-10-batches-py"), self.pixels, labels, names)
        containers.mnist(self.at("MNIST", "raw"), self.pixels[:, 0, :28, :28], labels)
        for name in ("images-idx3", "labels-idx1"):
            shutil.copy(self.at("MNIST", "raw", f"train-{name}-ubyte"), self.at("MNIST", "raw", f"t10k-{name}-ubyte"))

        class Cifar(datasets.CIFAR10):
            meta = {**datasets.CIFAR10.meta, "md5": None}

            def _check_integrity(self):
                return True

        daemon = self.daemon()
        for theirs, source, side in ((Cifar(self.folder), self.at("cifar-10-batches-py"), 32),
                                     (datasets.MNIST(self.folder), self.at("MNIST", "raw"), 28)):
            wanted = np.stack([np.asarray(image.convert("RGB")) for image, _ in theirs])
            self.check_pixels(daemon, source, wanted, [int(label) for _, label in theirs],
                              [larder.CenterCrop(side)])

    def check_library(self, name):
        try:
            return __import__(name)
        except ImportError:
            self.skipTest(f"this Python has no {name}")

    def test_parquet(self):
        """A file as the Hub has it, with values that repeat, and names of classes."""
        self.check_library("pyarrow")
        import json
        import pyarrow as arrow
        import pyarrow.parquet as parquet
        images = [{"bytes": image, "path": None} for image in self.images]
        features = {"image": {"_type": "Image"}, "label": {"names": ["c", "a", "b"], "_type": "ClassLabel"}}
        table = arrow.table({"image": images, "label": self.labels}).replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})})
        daemon = self.daemon()
        for options in ({"use_dictionary": False}, {}, {"data_page_version": "2.0"}):
            parquet.write_table(table, self.at("x.parquet"), compression="none", row_group_size=7, **options)
            self.assertEqual(self.check_encoded(daemon, self.at("x.parquet")), self.labels)
            self.assertEqual([row["class"] for row in self.rows(self.at("list.csv"))],
                             [["c", "a", "b"][label] for label in self.labels])
        parquet.write_table(table, self.at("x.parquet"))
        with self.assertRaisesRegex(larder.InvalidArgument, r"compressed \(SNAPPY\).*larder.pack"):
            larder.index(self.at("x.parquet"), self.at("list.csv"))

    def test_lmdb(self):
        lmdb = self.check_library("lmdb")
        with lmdb.open(self.at("x.lmdb"), map_size=1 << 28) as environment, environment.begin(write=True) as write:
            for number, image in enumerate(self.images):
                write.put(f"{number:04}".encode(), image)
            write.put(b"num-samples", b"30")
        self.check_encoded(self.daemon(), self.at("x.lmdb"), label=self.labels)
        self.assertEqual(self.rows(self.at("list.csv"))[7]["key"], "0007")

    def test_hdf5(self):
        h5py = self.check_library("h5py")
        last = np.ascontiguousarray(self.pixels.transpose(0, 2, 3, 1))
        labels = [n % 4 for n in range(COUNT)]
        with h5py.File(self.at("x.h5"), "w") as file:
            file.create_dataset("train/images", data=last)
            file.create_dataset("train/y", data=labels)
            file.create_dataset("packed", data=last, compression="gzip")
        self.check_pixels(self.daemon(), self.at("x.h5"), last, labels, image="train/images", label="train/y")
        with self.assertRaisesRegex(larder.InvalidArgument, "in chunks, compressed"):
            larder.index(self.at("x.h5"), self.at("list.csv"), image="packed")

    def test_missing_library(self):
        """What is not installed is named, with the package."""
        with open(self.at("x.parquet"), "wb") as file:
            file.write(b"PAR1")
        import sys
        sys.modules["pyarrow.parquet"] = None
        self.addCleanup(sys.modules.pop, "pyarrow.parquet")
        with self.assertRaisesRegex(larder.InvalidArgument, "pip install pyarrow"):
            larder.index(self.at("x.parquet"), self.at("list.csv"))

    def test_changed(self):
        """A byte that was changed under a CRC-32 makes a bad sample, though the file's size and time are the same."""
        path, listed = self.at("x.npy"), self.at("list.csv")
        np.save(path, self.pixels)
        larder.index(path, listed)
        row, before = self.rows(listed)[11], os.stat(path)
        with open(path, "r+b") as file:
            file.seek(int(row["offset"]) + 100)
            file.write(bytes([self.pixels[11].tobytes()[100] ^ 1]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        daemon = self.daemon()
        loader = self.loader(daemon, listed, pipeline=WHOLE)
        with self.assertWarns(larder.BadSamplesWarning):
            positions = sorted(index for _, _, indices in loader for index in indices.tolist())
        self.assertEqual(positions, [n for n in range(COUNT) if n != 11])
        self.assertTrue(daemon.logged(f"x.npy/11, at byte {row['offset']} of the file: its CRC-32"))
        os.utime(path)  # the file is another one for a job that began before
        with self.assertRaises(larder.SourceChanged):
            for _ in range(2):
                list(loader)
        with open(path, "r+b") as file:
            file.truncate(int(self.rows(listed)[28]["offset"]) + 100)
        loader = self.loader(daemon, listed, pipeline=WHOLE)
        with self.assertWarns(larder.BadSamplesWarning):
            positions = sorted(index for _, _, indices in loader for index in indices.tolist())
        self.assertEqual(positions, [n for n in range(28) if n != 11])

    def test_shared_with_shards(self):
        """A list of the members of a shard has the shard's samples: each is prepared once. Paths name them."""
        with tarfile.open(self.at("x.tar"), "w") as shard:
            for number, image in enumerate(self.images):
                member = tarfile.TarInfo(f"{number:04}.jpg")
                member.size = len(image)
                shard.addfile(member, io.BytesIO(image))
        with tarfile.open(self.at("x.tar")) as shard, open(self.at("list.csv"), "w") as file:
            print("path,offset,bytes,key", file=file)
            for member in shard:
                print("x.tar", member.offset_data, member.size, member.name, sep=",", file=file)
        daemon = self.daemon()
        ids = []
        for dataset in (self.at("x.tar"), self.at("list.csv")):
            with self.loader(daemon, dataset, pipeline=CROP) as loader:
                found = {}
                for _, _, indices in loader:
                    found.update(zip(indices.tolist(), loader.last_ids.tolist()))
                ids.append(found)
        self.assertEqual(*ids)
        with self.loader(daemon, self.at("list.csv"), pipeline=CROP, with_paths=True) as loader:
            for _, _, indices, paths in loader:
                self.assertEqual(paths, [self.at("x.tar", f"{n:04}.jpg") for n in indices])

    def test_not_proved_by_another(self):
        """A list whose CRC-32 is not that of the bytes does not get what another list, which has none, has had made of
        them."""
        with open(self.at("pixels"), "wb") as file:
            file.write(bytes(range(48)) * 40)
        for name, crc in (("none", ""), ("wrong", "1")):
            with open(self.at(name + ".csv"), "w") as file:
                print("path,offset,bytes,raw,crc32", file=file)
                for n in range(40):
                    print("pixels", n * 48, 48, "4x4x3", crc if n == 7 else "", sep=",", file=file)
        daemon = self.daemon()
        for name, count in (("none", 40), ("wrong", 39)):
            with self.loader(daemon, self.at(name + ".csv"), pipeline=WHOLE, bad_samples="skip") as loader:
                positions = sorted(index for _, _, indices in loader for index in indices.tolist())
            self.assertEqual(positions, [n for n in range(40) if count == 40 or n != 7])

    def test_huge(self):
        """A row of 1 TiB is a bad sample, and is never held: neither for a job, nor to tell the list's version."""
        with open(self.at("sparse"), "wb") as file:
            os.truncate(file.fileno(), 1 << 40)
        with open(self.at("list.csv"), "w") as file:
            print("path,offset,bytes", file=file)
            print("sparse", 0, 1 << 40, sep=",", file=file)
        daemon = self.daemon()
        with self.loader(daemon, self.at("list.csv"), pipeline=WHOLE) as loader, \
                self.assertRaisesRegex(larder.BadSample, "too_large"):
            list(loader)
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("out of memory", daemon.log())

    def test_refused(self):
        """What is compressed, or no images, is refused with what to do, and the list stays as it was."""
        listed = self.at("list.csv")
        with open(listed, "w") as file:
            file.write("as it was")
        with zipfile.ZipFile(self.at("x.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(self.files[0], "a.jpg")
        containers.mds(self.at("mds"), self.images, self.labels)
        os.unlink(self.at("mds", "shard.00001.mds"))
        with gzip.open(self.at("x.tfrecord"), "wb") as file:
            file.write(containers.record(b""))
        with gzip.open(self.at("train-images-idx3-ubyte.gz"), "wb") as file:
            file.write(b"")
        np.save(self.at("float.npy"), self.pixels.astype(np.float32))
        np.save(self.at("order.npy"), np.asfortranarray(self.pixels))
        np.save(self.at("five.npy"), np.zeros((2, 5, 32, 32), np.uint8))
        np.save(self.at("objects.npy"), np.array([{}]), allow_pickle=True)
        os.mkdir(self.at("empty"))
        os.mkdir(self.at("py"))
        with open(self.at("py", "data_batch_1"), "wb") as file:
            pickle.dump({"data": self.pixels.reshape(COUNT, -1), "labels": [0] * COUNT}, file, protocol=2)
        for name, words in (("x.zip", "'a.jpg' compressed.*zip -0, or pack it once: larder.pack"),
                            ("mds", "shard.00001.mds is not there"), ("x.tfrecord", "gunzip"),
                            ("train-images-idx3-ubyte.gz", "gunzip"), ("float.npy", "float32, and pixels are uint8"),
                            ("order.npy", "Fortran"), ("five.npy", "1 or 3 channels"), ("objects.npy", "object"),
                            ("py", "not as they are.*protocol=4., or pack a Dataset that reads it once: larder.pack"),
                            ("nothing", "no such file"), ("empty", "larder.index knows")):
            with self.subTest(name), self.assertRaisesRegex(larder.LarderError, words):
                larder.index(self.at(name), listed)
        with self.assertRaisesRegex(larder.InvalidArgument, "format='rar' is none of array, cifar, coco, hdf5"):
            larder.index(self.at("empty"), listed, format="rar")
        with self.assertRaisesRegex(larder.FormatError, "objects.npy"):
            np.save(self.at("sound.npy"), self.pixels)
            larder.index(self.at("sound.npy"), listed, label=self.at("objects.npy"))
        with self.assertRaisesRegex(larder.IOFailure, "Is a directory"):
            larder.index(self.at("empty"), listed, format="zip")
        with self.assertRaisesRegex(larder.IOFailure, "no/list.csv|No such file"):
            larder.index(self.at("float.npy"), self.at("no", "list.csv"))
        with self.assertRaisesRegex(larder.InvalidArgument, "x.zip.* compressed, .*larder.pack"):
            self.loader(self.daemon(), self.at("x.zip"))
        with self.assertRaisesRegex(larder.InvalidArgument, "does not end in .csv"):
            larder.index(self.at("x.zip"), self.at("list.txt"))
        with self.assertRaisesRegex(larder.InvalidArgument, "1 rows, and there are 30 images"):
            containers.tfrecord(self.at("y.tfrecord"), self.images, self.labels)
            larder.index(self.at("y.tfrecord"), listed, label=[1])
        with open(listed) as file:
            self.assertEqual(file.read(), "as it was")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".csv")], ["list.csv"])

    def test_hostile(self):
        """Files that only begin as what they say, or that would run something, are refused and run nothing."""
        class Evil:
            def __reduce__(self):
                return os.mkdir, (path,)

        path = self.at("ran")
        os.mkdir(self.at("py"))
        containers.tfrecord(self.at("t.tfrecord"), self.images[:3], self.labels[:3])
        with zipfile.ZipFile(self.at("x.zip"), "w") as archive:
            archive.writestr("a.jpg", self.images[0])
            archive.writestr("b.jpg", self.images[1])
        np.save(self.at("x.npy"), self.pixels)
        containers.mds(self.at("mds"), self.images, self.labels, shard=COUNT)
        with open(self.at("py", "data_batch_1"), "wb") as file:
            pickle.dump({"data": Evil(), "labels": [0]}, file)
        with self.assertRaisesRegex(larder.FormatError, "only arrays, bytes, numbers"):
            larder.index(self.at("py"), self.at("list.csv"))
        self.assertFalse(os.path.exists(path))
        random = np.random.default_rng(5)
        for name in ("t.tfrecord", "x.zip", "x.npy", os.path.join("mds", "shard.00000.mds"),
                     os.path.join("mds", "index.json")):
            sound = self.bytes_of(self.at(name))
            source = self.at("mds") if name.startswith("mds") else self.at(name)
            for _ in range(60):
                broken = bytearray(sound[:random.integers(0, len(sound))] if random.random() < .5 else sound)
                for at in random.integers(0, min(len(broken), 300), 4) if broken else ():
                    broken[at] = random.integers(0, 256)
                with open(self.at(name), "wb") as file:
                    file.write(broken)
                try:
                    larder.index(source, self.at("list.csv"))
                except larder.LarderError:
                    pass
            with open(self.at(name), "wb") as file:
                file.write(sound)


class Many(Case):
    def listed(self, count):
        """A list of so many places in a file, which are one image."""
        images, path = os.path.join(self.folder, "images"), os.path.join(self.folder, f"{count}.csv")
        if not os.path.exists(images):
            shutil.copy(files_of(tree(1, classes=1))[0], images)
        size = os.path.getsize(images)
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([["path", "offset", "bytes", "label"], *[["images", 0, size, 0]] * count])
        return path

    def test_what_catalogs_take(self):
        """What is known of samples is counted, and a dataset beyond limits.catalogs is refused while others train."""
        daemon = self.daemon("memory: {arena: 64MiB, encoded: 64MiB}\nlimits: {catalogs: 1MiB}\n")
        self.assertEqual(daemon.status()["memory"]["catalogs"], {"budget_bytes": 1 << 20, "samples_bytes": 0,
                                                                 "paths_bytes": 0, "identities_bytes": 0})
        with self.loader(daemon, self.listed(2000), pipeline=WHOLE) as loader:
            taken = daemon.status()["memory"]["catalogs"]
            self.assertTrue(2000 * 8 < taken["samples_bytes"] < 2000 * 64, taken)
            self.assertTrue(2000 * len("images/@0") < taken["paths_bytes"] < 2000 * 32, taken)
            with self.assertRaisesRegex(larder.LimitReached, "of its 80000 samples .* the 1048576 bytes of "
                                                             "limits.catalogs: set that higher"):
                self.loader(daemon, self.listed(80000), pipeline=WHOLE)
            self.whole(loader, 2000)
            self.loader(daemon, self.listed(20), pipeline=WHOLE).close()  # what was refused is in nobody's way


if __name__ == "__main__":
    main()
