"""A store and the shards, or places in files, that it was packed from share what is prepared. Whatever becomes of the
shards, a job on the store gets the store's images, and one on the shards what they had when they were indexed, or an
error."""

import os
import shutil
import tarfile
import zlib

import above  # noqa: F401
from system import CONFIG, files_of, larder, main, make_tree
from origins_case import HEADER, HINT, ORIGIN, ORIGINS, OriginsCase, seal

COUNT, EACH = 24, 12
SETS = "train", "val"


def add(tar, path, name):
    member = tarfile.TarInfo(name)
    member.size = os.stat(path).st_size
    with open(path, "rb") as file:
        tar.addfile(member, file)


class ShardOrigins(OriginsCase):
    @classmethod
    def fill(cls, folder):
        """Two sets of two shards each and a folder of the same images."""
        for seed, name in enumerate(SETS, 1):
            tree = make_tree(os.path.join(folder, name), COUNT, classes=1, seed=seed)
            for shard in 0, 1:
                with tarfile.open(os.path.join(folder, f"{name}-{shard}.tar"), "w") as tar:
                    for number, path in list(enumerate(files_of(tree)))[shard * EACH:(shard + 1) * EACH]:
                        add(tar, path, f"{number:04}.jpg")

    def setUp(self):
        super().setUp()
        self.text, self.val = (os.path.join(self.here, f"{name}-*.tar") for name in SETS)
        self.shard = os.path.join(self.here, "train-0.tar")

    def read(self, loader):
        """{index: (id, bytes)} of an epoch."""
        got = {}
        for images, _, indices in loader:
            for image, index, sample in zip(images, indices.tolist(), loader.last_ids.tolist()):
                self.assertNotIn(index, got)
                got[index] = sample, bytes(image)
        self.assertEqual(len(got), loader.dataset_size)
        return got

    def epochs(self, daemon, *sources):
        """Of each source, with one job of each there at once."""
        jobs = [self.loader(daemon, source, pipeline=[], batch_size=8) for source in sources]
        return [self.read(job) for job in jobs]

    def members(self, *names):
        """The bytes of the members of shards, in their order, as they are now."""
        found = []
        for name in names:
            with tarfile.open(os.path.join(self.here, name)) as tar:
                found += [tar.extractfile(member).read() for member in tar]
        return dict(enumerate(found))

    def train(self):
        return self.members("train-0.tar", "train-1.tar")

    def check(self, got, want):
        self.assertEqual({index: image for index, (_, image) in got.items()}, want)

    def check_apart(self, one, other, apart):
        self.assertEqual({index for index in one if one[index][0] != other[index][0]}, set(apart))

    def places(self, name="places", crc32=None):
        """The list of the places of the first set's members, with what crc32(number, bytes) says, if it is given."""
        path, lines = os.path.join(self.folder, name + ".csv"), ["path,offset,bytes,crc32"]
        for shard in "train-0.tar", "train-1.tar":
            with tarfile.open(os.path.join(self.here, shard)) as tar:
                for number, member in enumerate(tar, len(lines) - 1):
                    said = crc32(number, tar.extractfile(member).read()) if crc32 else ""
                    lines.append(f"{os.path.join(self.here, shard)},{member.offset_data},{member.size},{said}")
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def test_shared(self):
        """Jobs on the same images as shards, as places in them, as a store of the shards, as a folder and as a store of
        the folder have each loaded once for all of them, before and after a restart. Two sets of shards in one folder
        share with a store each."""
        places, tree = self.places(), os.path.join(self.here, "train")
        stores = [os.path.join(self.folder, name) for name in ("store", "store of val", "store of the folder")]
        self.assertIn("their folder names none", self.look(self.text))
        for source, store in zip((self.text, self.val, tree), stores):
            self.pack(source, store)
        self.assertIn(f"and with the store {stores[0]}", self.look(self.text))
        sources = self.text, stores[0], places, stores[2], tree
        keeps = CONFIG.replace("none", os.path.join(self.folder, "checkpoints"))
        for order in (0, 1, 2, 3, 4), (4, 3, 2, 1, 0):
            daemon = self.daemon(keeps)
            for got in self.epochs(daemon, *(sources[which] for which in order)):
                self.check(got, self.train())
            self.assertEqual(daemon.status()["samples"]["loaded"], COUNT)
            one, other = self.epochs(daemon, self.val, stores[1])
            self.check(one, self.members("val-0.tar", "val-1.tar"))
            self.assertEqual(one, other)
            daemon.stop()
        self.assertIn("and with the files that it was packed from", self.look(stores[0]))

    def test_places_packed(self):
        """Of a list of places that was packed the same holds, of pixels too, which are other bytes in the store."""
        pixels = os.path.join(self.folder, "pixels.csv")
        with open(pixels, "w") as file:
            file.write("path,offset,bytes,raw\n" + "".join(f"{self.shard},{at},64,8x8\n" for at in range(0, 512, 64)))
        daemon = self.daemon()
        for number, source in enumerate((self.places(), pixels)):
            store = self.store + str(number)
            self.pack(source, store)
            one, other = self.epochs(daemon, source, store)
            self.assertEqual(one, other)

    def test_crc32(self):
        """A place with a CRC-32 shares with a store that was packed of a list that has it. One whose CRC-32 is wrong is
        a bad sample, whatever store was packed of these shards, and whoever has read it before."""
        self.pack(self.text, self.store)
        daemon, right = self.daemon(), self.places("right", lambda number, data: zlib.crc32(data))
        self.epochs(daemon, self.text, self.store)
        wrong = self.places("wrong", lambda number, data: zlib.crc32(data) ^ (number == 3))
        loader = self.loader(daemon, wrong, pipeline=[], batch_size=8, bad_samples="skip")
        got = sorted(index for _, _, indices in loader for index in indices.tolist())
        self.assertEqual(got, [index for index in range(COUNT) if index != 3])
        store = self.store + " of the list"
        self.pack(right, store)
        one, other = self.epochs(daemon, right, store)
        self.assertEqual(one, other)

    def change(self):
        """Gives the first shard's first member the second one's bytes, as many as there is room for, and the shard its
        time back."""
        before = os.stat(self.shard)
        with tarfile.open(self.shard) as tar:
            first, second = tar.getmembers()[:2]
            data = tar.extractfile(second).read()[:first.size].ljust(first.size, b"\0")
        with open(self.shard, "r+b") as file:
            file.seek(first.offset_data)
            file.write(data)
        os.utime(self.shard, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replace(self):
        """The same in a copy of the shard that takes its place."""
        shutil.copy2(self.shard, self.shard + ".new")
        os.rename(self.shard + ".new", self.shard)
        self.change()

    def check_touched(self, touch):
        """An earlier daemon's index makes no difference."""
        keeps, old = CONFIG.replace("none", os.path.join(self.folder, "checkpoints")), self.train()
        self.pack(self.text, self.store)
        daemon = self.daemon(keeps)
        one, other = self.epochs(daemon, self.text, self.store)
        self.assertEqual(one, other)
        daemon.stop()
        touch()
        daemon = self.daemon(keeps)
        one, other = self.epochs(daemon, self.text, self.store)
        self.check(one, self.train())
        self.check(other, old)
        self.check_apart(one, other, range(EACH))
        self.assertIn(f"and {COUNT - EACH} of them with the store", self.look(self.text))

    def test_written_in_place(self):
        """A shard that was written to, and has its size and time back, has samples of its own: jobs on the shards get
        what is there, those on the store what was packed."""
        self.check_touched(self.change)

    def test_replaced(self):
        """So has another one of its size and time that took its place."""
        self.check_touched(self.replace)

    def test_linked(self):
        """So has one that got a hard link, which nobody can tell from one that was written to."""
        self.check_touched(lambda: os.link(self.shard, self.shard + ".link"))

    def check_known(self, first):
        """A member is written to in place, with the shard's time restored, while jobs know the old index."""
        self.pack(self.text, self.store)
        old, daemon = self.train(), self.daemon()
        shards, store = (self.loader(daemon, source, pipeline=[], batch_size=8) for source in (self.text, self.store))
        self.change()
        self.assertNotEqual(self.train(), old)
        if first == "shards":
            with self.assertRaises(larder.errors.SourceChanged):
                self.read(shards)
            self.check(self.read(store), old)
        else:
            self.check(self.read(store), old)
            self.check(self.read(shards), old)
        one, other = self.epochs(daemon, self.text, self.store)
        self.check(one, self.train())
        self.check(other, old)
        self.check_apart(one, other, range(EACH))

    def test_known_and_the_shards_first(self):
        """The job on the shards ends with an error, and the store's has the store's bytes."""
        self.check_known("shards")

    def test_known_and_the_store_first(self):
        """The store's job reads first: the shards' has what they indexed."""
        self.check_known("store")

    def test_written_while_it_is_packed(self):
        """Shards that others may write to, or that somebody has open for writing, share nothing."""
        os.chmod(self.shard, 0o666)
        with open(os.path.join(self.here, "train-1.tar"), "r+b"):
            self.pack(self.text, self.store)
        one, other = self.epochs(self.daemon(), self.text, self.store)
        self.check_apart(one, other, range(COUNT))

    def test_store_that_lies(self):
        """A store that says of a place that it has another one's bytes costs the shards' job an error. Its next job
        shares nothing, and has the shards' bytes."""
        self.pack(self.text, self.store)
        path = os.path.join(self.store, ORIGINS)
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            one, two = HEADER + 16, HEADER + ORIGIN + 16
            data[one:one + 16], data[two:two + 16] = data[two:two + 16], data[one:one + 16]
            file.seek(0)
            file.write(seal(bytes(data)))
        daemon = self.daemon()
        with self.assertRaises(larder.errors.SourceChanged):
            self.epochs(daemon, self.text)
        shards, store = self.epochs(daemon, self.text, self.store)
        self.check(shards, self.train())
        self.check(store, self.train())
        self.check_apart(shards, store, range(COUNT))

    def test_folder_s_own_attribute(self):
        """A store of the folder that the shards lie in says nothing of them."""
        self.pack(self.text, self.store)
        names = [name for name in os.listxattr(self.here) if name.startswith(HINT)]
        self.assertEqual(len(names), 1)
        self.assertNotIn(HINT, names)
        os.setxattr(self.here, HINT, b"/nothing")
        self.assertIn(f"and with the store {self.store}", self.look(self.text))


if __name__ == "__main__":
    main()
