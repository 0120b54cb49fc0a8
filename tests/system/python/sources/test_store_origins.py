"""A store and the files that it was packed from share what is prepared, where its samples are these files' bytes; and
nobody gets another picture, whatever became of the files."""

import io
import os
import shutil
import subprocess
import tarfile

import above  # noqa: F401
from system import BIN, Case, Daemon, files_of, larder, main, make_tree, until

COUNT, BATCH = 96, 8
RESIZE = [{"resize": {"size": [48, 64]}}]  # draws nothing
FRESH_NS = 60_000_000  # a file that is younger when it is packed is not taken for known


class Origins(Case):
    def setUp(self):
        super().setUp()
        self.tree = make_tree(os.path.join(self.folder, "tree"), COUNT, classes=4)
        self.files = files_of(self.tree)
        self.store = os.path.join(self.folder, "store")

    def pack(self, source, store, *options):
        """Packs once the file system's clock is past the files' times."""
        newest = max(os.stat(path).st_ctime_ns for path in self.files)
        probe = os.path.join(self.folder, "probe")

        def later():
            with open(probe, "w") as file:
                file.write("x")
            return os.stat(probe).st_ctime_ns > newest + FRESH_NS

        self.assertTrue(until(later, 20))
        subprocess.run([os.path.join(BIN, "larder"), "pack", source, store, "--quiet", "--chunk-size", "8", *options],
                       check=True, stdout=subprocess.DEVNULL)

    def look(self, source):
        said = subprocess.run([os.path.join(BIN, "larder"), "look", source], check=True, stdout=subprocess.PIPE)
        return " ".join(said.stdout.decode().split())

    def rewrite_the_largest(self):
        """Gives the largest file the smallest one's picture, and has it keep its size and time: their indices."""
        smallest, *_, largest = sorted(range(COUNT), key=lambda index: os.stat(self.files[index]).st_size)
        path = self.files[largest]
        before = os.stat(path)
        with open(self.files[smallest], "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data.ljust(before.st_size, b"\0"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return smallest, largest

    def list_of_files(self):
        path = os.path.join(self.folder, "files.csv")
        with open(path, "w") as file:
            file.write("path,label\n")
            for name in reversed(self.files):
                file.write(f"{name},{name.split('/')[-2]}\n")
        return path

    def epochs(self, daemon, *sources):
        """An epoch of a job on each of the sources, batch by batch in turn: {index: (id, pixels)} of each."""
        jobs = [self.loader(daemon, source, pipeline=RESIZE, batch_size=BATCH) for source in sources]
        epochs, got = [iter(job) for job in jobs], [{} for _ in jobs]
        for _ in range(COUNT // BATCH):
            for job, epoch, samples in zip(jobs, epochs, got):
                images, _, indices = next(epoch)
                for image, index, sample in zip(images, indices.tolist(), job.last_ids.tolist()):
                    self.assertNotIn(index, samples)
                    samples[index] = sample, bytes(image)
        self.assertEqual([len(samples) for samples in got], [COUNT] * len(jobs))
        return got

    def test_tree_store_and_list(self):
        """Three jobs on the same images as folder, store and list have each prepared once for all of them, whichever
        came first; each index has one id, and its pixels."""
        self.pack(self.tree, self.store)
        sources = self.tree, self.store, self.list_of_files()
        for order in (0, 1, 2), (1, 0, 2), (2, 1, 0):
            daemon = self.daemon()
            got = dict(zip(order, self.epochs(daemon, *(sources[which] for which in order))))
            self.assertEqual(got[0], got[1])
            self.assertEqual(got[0], {COUNT - 1 - index: sample for index, sample in got[2].items()})
            counts = daemon.status()["samples"]
            self.assertEqual((counts["prepared"], counts["loaded"]), (COUNT, COUNT))
            self.assertTrue(daemon.logged(f"shared={COUNT} samples={COUNT}"))
            daemon.stop()
        self.assertIn("shares with jobs on the files that it was packed from", self.look(self.store))

    def test_tar(self):
        """A store shares with the shards that it was packed from. These and the folder that they were made of share
        nothing: they are other files, and nothing says that their bytes are the same."""
        os.mkdir(os.path.join(self.folder, "shards"))
        shard = os.path.join(self.folder, "shards", "all.tar")
        with tarfile.open(shard, "w") as tar:
            for number, path in enumerate(self.files):
                with open(path, "rb") as file:
                    data = file.read()
                member = tarfile.TarInfo(f"{number:04}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        self.files.append(shard)
        self.pack(shard + "#labels=none", self.store)
        daemon = self.daemon()
        tar, store, folder = self.epochs(daemon, shard + "#labels=none", self.store, self.tree)
        self.assertEqual(tar, store)
        self.assertFalse({sample for sample, _ in tar.values()} & {sample for sample, _ in folder.values()})
        self.assertEqual({index: image for index, (_, image) in tar.items()},
                         {index: image for index, (_, image) in folder.items()})
        self.assertEqual(daemon.status()["samples"]["prepared"], 2 * COUNT)

    def test_a_changed_file(self):
        """A file that was rewritten after the packing, with its size and time, is a sample of its own: its job gets its
        new pixels, and the store's job the old ones."""
        self.pack(self.tree, self.store)
        smallest, largest = self.rewrite_the_largest()
        copied = next(index for index in range(COUNT) if index not in (smallest, largest))
        shutil.copy2(self.files[copied], self.files[copied] + ".new")
        os.rename(self.files[copied] + ".new", self.files[copied])
        for sources in (self.tree, self.store), (self.store, self.tree):
            daemon = self.daemon()
            got = dict(zip(sources, self.epochs(daemon, *sources)))
            tree, store = got[self.tree], got[self.store]
            for index in range(COUNT):
                self.assertEqual(tree[index][0] == store[index][0], index not in (largest, copied), index)
                self.assertEqual(tree[index][1] == store[index][1], index != largest, index)
            self.assertEqual(daemon.status()["samples"]["prepared"], COUNT + 2)
            daemon.stop()

    def test_a_file_that_changed_between_two_runs(self):
        """A file that is rewritten, with its size and time, between the run of a pack that read it and the run that
        ends the pack is no file that the store was packed from."""
        self.pack(self.tree, self.store)
        with open(os.path.join(self.store, "origins.larder"), "rb") as file:
            data = file.read()
        plan = [int.from_bytes(data[at:at + 8], "little") for at in (48, 40)]
        mark, index = (os.path.join(self.store, name) for name in ("unfinished.larder", "index.larder"))
        packed_ns = os.stat(os.path.join(self.store, "origins.larder")).st_mtime_ns
        os.unlink(index)  # as if that run had been killed before its last step
        with open(mark, "w") as file:
            file.write("%016x%016x\n" % tuple(plan))
        os.utime(mark, ns=(packed_ns, packed_ns))
        _, largest = self.rewrite_the_largest()
        self.pack(self.tree, self.store)
        self.assertTrue(os.path.exists(index))
        daemon = self.daemon()
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.assertEqual([number for number in range(COUNT) if tree[number][0] != store[number][0]], [largest])
        self.assertIn(f"shares {COUNT - 1} of its samples", self.look(self.store))

    def test_equal_files(self):
        """Copies of one image in a folder and its store stay samples of their own, each once an epoch."""
        for index in 1, 2, 3:
            shutil.copyfile(self.files[0], self.files[index])
        self.pack(self.tree, self.store)
        for sources in (self.tree, self.store), (self.store, self.tree):
            daemon = self.daemon()
            tree, store = self.epochs(daemon, *sources)
            self.assertEqual(tree, store)
            self.assertEqual(len({sample for sample, _ in tree.values()}), COUNT)
            daemon.stop()

    def test_not_shared(self):
        """A store whose bytes are others, and a copy of a store, share nothing with the folder, and `larder look` says
        why."""
        self.pack(self.tree, self.store)
        copy, rows = os.path.join(self.folder, "copy"), os.path.join(self.folder, "rows")
        shutil.copytree(self.store, copy)
        self.pack(self.tree, rows, "--restart-rows")
        daemon = self.daemon()
        tree, copied, rewritten = self.epochs(daemon, self.tree, copy, rows)
        for other in copied, rewritten:
            self.assertFalse({sample for sample, _ in tree.values()} & {sample for sample, _ in other.values()})
            self.assertEqual([tree[index][1] for index in range(COUNT)], [other[index][1] for index in range(COUNT)])
        self.assertEqual(daemon.status()["samples"]["prepared"], 3 * COUNT)
        self.assertIn("shares nothing with jobs on the files that it was packed from: it is a copy", self.look(copy))
        self.assertIn("shares nothing with jobs on the files that it was packed from: its images were written anew",
                      self.look(rows))

    def test_a_killed_daemon(self):
        """Jobs on a folder and its store go on after the daemon was killed: each has each sample once, with its own
        pixels."""
        self.pack(self.tree, self.store)
        daemon = self.daemon()
        want, _ = self.epochs(daemon, self.tree, self.store)
        jobs = [self.loader(daemon, source, pipeline=RESIZE, batch_size=BATCH) for source in (self.tree, self.store)]
        epochs, got = [iter(job) for job in jobs], [{} for _ in jobs]
        for step in range(COUNT // BATCH):
            if step in (3, 7):
                daemon.kill()
                daemon = Daemon(os.path.dirname(daemon.socket))
                self.addCleanup(daemon.stop)
            for epoch, samples in zip(epochs, got):
                images, _, indices = next(epoch)
                for image, index in zip(images, indices.tolist()):
                    self.assertNotIn(index, samples)
                    samples[index] = bytes(image)
        for samples in got:
            self.assertEqual(samples, {index: image for index, (_, image) in want.items()})
        self.assertTrue(daemon.logged(f"shared={COUNT}"))

    def test_a_damaged_file(self):
        """What says what a store was packed from may be cut or changed: then the store shares nothing, is told of, and
        is trained on all the same."""
        self.pack(self.tree, self.store)
        path = os.path.join(self.store, "origins.larder")
        with open(path, "r+b") as file:
            file.seek(100)
            file.write(b"changed")
        daemon = self.daemon()
        tree, store = self.epochs(daemon, self.tree, self.store)
        self.assertEqual([tree[index][1] for index in range(COUNT)], [store[index][1] for index in range(COUNT)])
        self.assertEqual(daemon.status()["samples"]["prepared"], 2 * COUNT)
        self.assertTrue(daemon.logged("origins.larder is damaged"))
        verified = subprocess.run([os.path.join(BIN, "larder"), "verify", self.store], stdout=subprocess.PIPE)
        self.assertEqual((verified.returncode, b"origins.larder" in verified.stdout), (1, True))
        os.unlink(path)
        self.assertEqual(larder.Loader(self.store, RESIZE, BATCH, socket=daemon.socket).dataset_size, COUNT)
        self.assertIn("does not say which files", self.look(self.store))


if __name__ == "__main__":
    main()
