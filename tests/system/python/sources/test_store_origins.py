"""A store and the files that it was packed from share what is prepared. Whatever becomes of the files, a job on the
store gets the store's pictures, and a job on the files those of the files as they were indexed, or an error."""

import mmap
import os
import shutil
import tempfile
import unittest

import above  # noqa: F401
import fuse
from system import CONFIG, Daemon, files_of, free_port, larder, main, make_tree
from origins_case import HEADER, HINT, ORIGIN, ORIGINS, OriginsCase, seal

COUNT, BATCH = 24, 8
RESIZE = [{"resize": {"size": [48, 64]}}]  # draws nothing


class StoreOrigins(OriginsCase):
    @classmethod
    def fill(cls, folder):
        make_tree(os.path.join(folder, "tree"), COUNT, classes=4)

    @classmethod
    def copied(cls):
        path = max(files_of(os.path.join(cls.folders, "test_mapped_writers", "tree")), key=os.path.getsize)
        with open(path, "r+b") as file:
            cls.mapped = mmap.mmap(file.fileno(), 0)
        cls.addClassCleanup(cls.mapped.close)
        cls.mapped[0] = cls.mapped[0]  # from now on the page is written to without another time

    def setUp(self):
        super().setUp()
        self.tree = os.path.join(self.here, "tree")
        self.files = files_of(self.tree)
        sizes = [os.stat(path).st_size for path in self.files]
        self.smallest, self.largest = sizes.index(min(sizes)), sizes.index(max(sizes))

    def pack(self, store=None, *options):
        super().pack(self.tree, store or self.store, *options)

    def other_picture(self):
        """The smallest file's picture, as long as the largest file is."""
        with open(self.files[self.smallest], "rb") as file:
            return file.read().ljust(os.stat(self.files[self.largest]).st_size, b"\0")

    def rewrite(self):
        """Gives the largest file another picture in place, and its time back."""
        path = self.files[self.largest]
        before, picture = os.stat(path), self.other_picture()
        with open(path, "r+b") as file:
            file.write(picture)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(os.stat(path).st_mtime_ns, before.st_mtime_ns)

    def read(self, *jobs):
        """An epoch of each of the jobs, batch by batch in turn: {index: (id, pixels)} of each."""
        epochs, got = [iter(job) for job in jobs], [{} for _ in jobs]
        going = list(range(len(jobs)))
        while going:
            for number in list(going):
                batch = next(epochs[number], None)
                if batch is None:
                    going.remove(number)
                    continue
                images, _, indices = batch
                for image, index, sample in zip(images, indices.tolist(), jobs[number].last_ids.tolist()):
                    self.assertNotIn(index, got[number])
                    got[number][index] = sample, bytes(image)
        return got

    def jobs(self, daemon, *sources):
        return [self.loader(daemon, source, pipeline=RESIZE, batch_size=BATCH) for source in sources]

    def epochs(self, daemon, *sources):
        got = self.read(*self.jobs(daemon, *sources))
        self.assertEqual([len(samples) for samples in got], [COUNT] * len(sources))
        return got

    def pictures(self):
        """The pixels of the files as they are, which a daemon of its own reads without sharing."""
        alone = tempfile.mkdtemp(dir=self.folder)
        copy = os.path.join(alone, "copy")
        shutil.copytree(self.tree, copy)
        daemon = Daemon(alone)
        self.addCleanup(daemon.stop)
        got, = self.epochs(daemon, copy)
        daemon.stop()
        return {index: image for index, (_, image) in got.items()}

    def check_pixels(self, got, want):
        for index, (_, image) in got.items():
            self.assertEqual(image, want[index], index)

    def check_apart(self, tree, store, *apart):
        """Exactly these samples are two."""
        self.assertEqual([index for index in range(COUNT) if tree[index][0] != store[index][0]], sorted(apart))

    def test_shared(self):
        """Jobs on the same images as folder, store, list and copy of the store have each prepared once for all of them,
        whichever came first, before and after a restart; each index has one id, and its pixels. `larder look` and the
        log say with what a source shares."""
        self.assertIn("their folder names none", self.look(self.tree))
        self.pack()
        want, copy, listed = self.pictures(), os.path.join(self.folder, "copied store"), self.folder + "/files.csv"
        shutil.copytree(self.store, copy)
        with open(listed, "w") as file:
            file.write("path,label\n" + "".join(f"{name},{name.split('/')[-2]}\n" for name in reversed(self.files)))
        sources = self.tree, self.store, listed, copy
        keeps = CONFIG.replace("none", os.path.join(self.folder, "checkpoints"))
        for order in (0, 1, 2, 3), (3, 1, 2, 0):
            daemon = self.daemon(keeps)
            got = dict(zip(order, self.epochs(daemon, *(sources[which] for which in order))))
            self.check_pixels(got[0], want)
            self.assertEqual(got[0], got[1])
            self.assertEqual(got[0], got[3])
            self.assertEqual(got[0], {COUNT - 1 - index: sample for index, sample in got[2].items()})
            counts = daemon.status()["samples"]
            self.assertEqual((counts["prepared"], counts["loaded"], counts["prepared_per_delivered"]),
                             (COUNT, COUNT, .25))
            self.assertTrue(daemon.logged(f"of the same files, and with the store {self.store}"))
            daemon.stop()
        self.assertIn("and with the files that it was packed from", self.look(self.store))
        self.assertIn(f"and with the store {self.store}", self.look(self.tree))

    def test_rewritten_before_the_job(self):
        """A file that was rewritten after the packing, with its size and time, is a sample of its own, and so are a
        copy that was moved over another, and one that has another name now: jobs on the folder get the files' new
        pixels,
        those on the store its own. An earlier daemon's index makes no difference."""
        self.pack()
        old = self.pictures()
        keeps = CONFIG.replace("none", os.path.join(self.folder, "checkpoints"))
        daemon = self.daemon(keeps)
        self.epochs(daemon, self.tree)  # leaves its index behind
        daemon.stop()
        self.rewrite()  # which the folders do not show: the index is taken
        self.check_now(keeps, old, self.tree, self.store, self.largest)
        copied, linked = [index for index in range(COUNT) if index not in (self.smallest, self.largest)][:2]
        shutil.copy2(self.files[copied], self.files[copied] + ".new")
        os.rename(self.files[copied] + ".new", self.files[copied])
        os.link(self.files[linked], os.path.join(self.folders, "link"))
        self.check_now(keeps, old, self.store, self.tree, self.largest, copied, linked)
        self.assertIn(f"and {COUNT - 3} of them with the store", self.look(self.tree))

    def check_now(self, config, old, first, second, *apart):
        """A new daemon's jobs on the folder have the files' pixels, and those on the store the old ones."""
        new = self.pictures()
        self.assertNotEqual(old[self.largest], new[self.largest])
        daemon = self.daemon(config)
        got = dict(zip((first, second), self.epochs(daemon, first, second)))
        self.check_pixels(got[self.tree], new)
        self.check_pixels(got[self.store], old)
        self.check_apart(got[self.tree], got[self.store], *apart)
        daemon.stop()

    def check_rewritten(self, *order):
        """Jobs that know the old index when a file is rewritten read in this order."""
        self.pack()
        old = self.pictures()
        daemon = self.daemon()
        jobs = dict(zip((self.tree, self.store), self.jobs(daemon, self.tree, self.store)))
        self.rewrite()
        new = self.pictures()
        self.assertNotEqual(old[self.largest], new[self.largest])
        for source in order:
            try:
                got, = self.read(jobs[source])
            except larder.errors.SourceChanged:
                self.assertEqual((source, order[0]), (self.tree, self.tree))
            else:
                self.assertEqual(len(got), COUNT)
                self.assertNotEqual((source, order[0]), (self.tree, self.tree))
                self.check_pixels(got, old)
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.check_pixels(tree, new)
        self.check_pixels(store, old)
        self.check_apart(tree, store, self.largest)

    def test_rewritten_and_the_folder_first(self):
        """A file is rewritten in place, with its size and time, while jobs know its old index. The folder's job ends
        with an error, and the store's has the store's pixels. The next job on the folder has the file's own."""
        self.check_rewritten(self.tree, self.store)

    def test_rewritten_and_the_store_first(self):
        """The same where the store's job reads first: the folder's job has what it indexed."""
        self.check_rewritten(self.store, self.tree)

    def test_mapped_writers(self):
        """A file that somebody has mapped for writing when it is packed may change without another time: it is a sample
        of its own. One that is mapped afterwards changes its time."""
        self.pack()
        old, picture = self.pictures(), self.other_picture()
        self.mapped[:] = picture
        with open(self.files[self.smallest], "r+b") as file, mmap.mmap(file.fileno(), 0) as later:
            later[-1] = later[-1]
            new = self.pictures()
            self.assertNotEqual(old[self.largest], new[self.largest])
            daemon = self.daemon()
            store, tree = self.epochs(daemon, self.store, self.tree)
        self.check_pixels(tree, new)
        self.check_pixels(store, old)
        self.check_apart(tree, store, self.largest, self.smallest)
        self.assertIn(f"and {COUNT - 2} of them with the store", self.look(self.tree))

    def test_others_files_and_new_ones(self):
        """A file that others may write to when it is packed is a sample of its own, and so is a new one."""
        os.chmod(self.files[3], 0o666)
        future = os.stat(self.files[5]).st_mtime_ns + 3600 * 10**9
        os.utime(self.files[5], ns=(future, future))  # as new as can be, however slow the machine is
        self.pack()
        daemon = self.daemon()
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.assertNotEqual(tree[3][0], store[3][0])
        self.assertNotEqual(tree[5][0], store[5][0])
        self.assertEqual(tree[7], store[7])
        self.assertEqual({index: image for index, (_, image) in tree.items()},
                         {index: image for index, (_, image) in store.items()})

    def test_another_folder_in_its_place(self):
        """Another folder that came to the path of the packed one, with all its times and attributes, as from another
        machine, shares nothing, and jobs on it get its pixels."""
        self.pack()
        old = self.pictures()
        daemon = self.daemon()
        self.epochs(daemon, self.tree, self.store)
        other = os.path.join(self.folder, "other")
        self.rewrite()
        shutil.copytree(self.tree, other)
        os.setxattr(other, HINT, os.getxattr(self.tree, HINT))
        os.rename(self.tree, self.tree + ".away")
        os.rename(other, self.tree)
        new = self.pictures()
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.check_pixels(tree, new)
        self.check_pixels(store, old)
        self.check_apart(tree, store, *range(COUNT))
        self.assertIn("and not with the store", self.look(self.tree))

    def test_in_a_cluster(self):
        """A daemon that takes samples from other nodes shares nothing between files and a store: nobody compares what
        the nodes prepared with the store's hashes."""
        self.pack()
        address = f"127.0.0.1:{free_port()}"
        daemon = self.daemon(CONFIG + f"cluster: {{name: alone, node: a, nodes: ['{address}'], listen: '{address}', "
                                      f"security: none}}\n")
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.check_apart(tree, store, *range(COUNT))
        self.assertTrue(daemon.logged("and with no store: nodes of a cluster"))

    def test_store_that_lies(self):
        """A store that names another file's bytes for a file costs the folder's job an error. Its next job shares
        nothing, and has the files' pixels; the store's has its own all the time."""
        self.pack()
        want = self.pictures()
        path = os.path.join(self.store, ORIGINS)
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            one, two = HEADER + 16, HEADER + ORIGIN + 16
            data[one:one + 16], data[two:two + 16] = data[two:two + 16], data[one:one + 16]
            file.seek(0)
            file.write(seal(bytes(data)))
        daemon = self.daemon()
        with self.assertRaises(larder.errors.SourceChanged):
            self.epochs(daemon, self.tree)
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.check_pixels(tree, want)
        self.check_pixels(store, want)
        self.check_apart(tree, store, *range(COUNT))
        self.assertTrue(daemon.logged("and with no store: it says of a file that it has other bytes"))

    def test_damaged_and_missing(self):
        """A store whose word for its files is damaged, or gone, or that others may write to, or whose bytes are others,
        shares nothing with them, and `larder look` says why."""
        rows, path = os.path.join(self.folder, "rows"), os.path.join(self.store, ORIGINS)
        self.pack(rows, "--restart-rows")
        self.assertIn("its bytes are others", self.look(rows))
        self.pack()
        with open(path, "r+b") as file:
            file.seek(100)
            file.write(b"changed")
        daemon = self.daemon()
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.check_apart(tree, store, *range(COUNT))
        self.assertTrue(daemon.logged("origins.larder is damaged: its checksum does not match"))
        os.truncate(path, 1 << 31)
        self.assertIn("is damaged, too large, or cannot be read", self.look(self.tree))
        os.unlink(path)
        self.assertIn("does not say which files", self.look(self.tree))
        self.assertIn("as this one was not", self.look(self.store))
        os.chmod(self.store, 0o777)
        self.assertIn("others than you may write to it", self.look(self.tree))
        self.assertIn("others than you may write to it", self.look(self.store))
        os.setxattr(self.tree, HINT, b"/\x1b[31m/nothing\n")
        self.assertIn("with the store /?[31m/nothing?: it is gone", self.look(self.tree))

    @unittest.skipUnless(os.access("/dev/fuse", os.W_OK), "this process may mount no FUSE file system")
    def test_store_that_hangs(self):
        """A folder whose store lies on a mount that answers nothing is opened all the same: nobody asks the mount."""
        self.pack()
        try:
            mount = fuse.Mount(self.folder, self.store)
        except OSError as error:
            self.skipTest(f"this process may mount no FUSE file system: {error}")
        self.addCleanup(mount.end)
        mount.hang()
        link = os.path.join(self.folder, "link")
        os.symlink(self.store, link)
        for named in self.store, os.path.join(link, "below"):
            os.setxattr(self.tree, HINT, os.fsencode(named))
            daemon = self.daemon()
            self.epochs(daemon, self.tree)
            daemon.stop()
            self.assertIn("it lies on no local ext4", self.look(self.tree))
            self.assertEqual(mount.n_waiting, 0)


if __name__ == "__main__":
    main()
