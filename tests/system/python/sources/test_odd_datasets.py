"""Datasets as nobody plans them: what can be served is, exactly once, and all else is refused or ends with an error
that says what is wrong, with which file, and what to do."""

import os
import shutil
import threading

import above  # noqa: F401
from system import Case, files_of, larder, main, make_tree, tree, until

COUNT = 40
SHUFFLES = ("dependent", "strict", "none")


def epochs(loader, count):
    """The indices of each epoch, by batch."""
    return [[batch[-1].tolist() for batch in loader] for _ in range(count)]


def together(work, count):
    """What work(0) … work(count - 1) give, each in a thread of its own; an error in place of what
    it kept from coming."""
    results = [None] * count

    def one(number):
        try:
            results[number] = work(number)
        except larder.LarderError as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class OddDatasets(Case):
    def setUp(self):
        super().setUp()
        self.served = self.daemon()
        self.images = files_of(tree(COUNT, classes=4))

    def folder_of(self, name, files):
        """A dataset of {path below it: file to copy, or None for an empty one}."""
        root = os.path.join(os.fsencode(self.folder), os.fsencode(name))
        for path, source in files.items():
            path = os.path.join(root, os.fsencode(path))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(source or "/dev/null", path)
        return os.fsdecode(root)

    def test_empty_views(self):
        """A subset that selects nothing, or goes by what the dataset has not, is refused with the reason."""
        for subset, reason in ((larder.Classes("nothing*"), "'nothing\\*' matches none of the dataset's 4 classes"),
                               (larder.Classes("class_00") & larder.Classes("class_01"), "selects none"),
                               (larder.Classes("*") - larder.Classes("*"), "selects none"),
                               (larder.Fraction(0.001), "selects none"), (larder.Range(5, 5), "first < end"),
                               (larder.Range(30, 99), "beyond the dataset's 40 samples"),
                               (larder.Classes(os.fsdecode(b"c\xff")), "must be UTF-8.*pattern")):
            with self.assertRaisesRegex(larder.InvalidArgument, reason):
                self.loader(self.served, os.path.dirname(os.path.dirname(self.images[0])), subset=subset)

    def test_less_than_a_batch(self):
        """One sample is an epoch, in any order, again and again; less than a batch under drop_last
        is none, and ends."""
        one = self.folder_of("one", {"a/x.jpg": self.images[0]})
        for shuffle in SHUFFLES:
            loader = self.loader(self.served, one, 64, shuffle=shuffle)
            self.assertEqual(epochs(loader, 3), [[[0]]] * 3)
            loader = self.loader(self.served, one, 64, shuffle=shuffle, drop_last=True)
            self.assertEqual((len(loader), epochs(loader, 3)), (0, [[]] * 3))

    def test_more_ranks_than_samples(self):
        """Each of five ranks gets a batch of three samples' epoch, with all three among them; under
        drop_last none does."""
        three = self.folder_of("three", {f"a/{i}.jpg": self.images[i] for i in range(3)})
        for shuffle in SHUFFLES:
            for drop_last in (False, True):
                def rank(number):
                    with self.loader(self.served, three, 4, rank=number, world_size=5, job=f"{shuffle}-{drop_last}",
                                     epochs=1, shuffle=shuffle, drop_last=drop_last) as loader:
                        return epochs(loader, 1)[0]
                got = together(rank, 5)
                if drop_last:
                    self.assertEqual(got, [[]] * 5)
                else:
                    self.assertEqual([[len(batch) for batch in batches] for batches in got], [[1]] * 5, got)
                    self.assertEqual({batch[0] for batches in got for batch in batches}, {0, 1, 2})

    def test_empty_files(self):
        """Without a pipeline files of no bytes are samples like others."""
        empty = self.folder_of("empty", {f"a/{i}.jpg": None for i in range(10)})
        got = [sample for files, _, _ in self.loader(self.served, empty, 4, pipeline=[]) for sample in files]
        self.assertEqual(got, [b""] * 10)

    def test_names(self):
        """Names of files, folders and classes may be any that the system allows; a job's is UTF-8 in 128 bytes. What is
        logged of them stays on its line."""
        names = [b"a\nclass/line\n.jpg", b"b\xff\xfe/\xff.jpg", "c\u732b/\u00e9.jpg".encode(),
                 b"d/" + b"x" * 251 + b".jpg", b"e" * 255 + b"/y.jpg", b"f/q\"\\ level=error.jpg"]
        root = self.folder_of(b"ro\not\xff", {name: self.images[i] for i, name in enumerate(names)})
        loader = self.loader(self.served, root, 4, name="\u732b" * 42 + "xx")
        self.assertEqual([os.fsencode(name) for name in loader.classes], [name.split(b"/")[0] for name in names])
        self.whole(loader, len(names))
        for index, pattern in enumerate(("a\nclass", "b*", "c\u732b", "d", "e" * 255, "f")):
            loader = self.loader(self.served, root, 4, subset=larder.Classes(pattern))
            self.assertEqual(epochs(loader, 1), [[[index]]])
        with self.assertRaisesRegex(larder.BadSample, r"\.jpg \(not_an_image\)"):
            list(self.loader(self.served, self.folder_of(b"em\npty\xff", dict.fromkeys(names)), 4))
        with self.assertRaisesRegex(larder.BadSample, r"/d/x+\.\.\.x+\.jpg \(not_an_image\)"):
            list(self.loader(self.served, self.folder_of("long", dict.fromkeys(names[3:4])), 4))
        self.assertTrue(all(line.startswith("time=") for line in self.served.log().splitlines()))
        for name, error in (("a\nb", larder.InvalidArgument), (os.fsdecode(b"a\xff"), larder.InvalidArgument),
                            ("x" * 129, larder.LimitReached)):
            with self.assertRaisesRegex(error, "name"):
                self.loader(self.served, root, 4, name=name)

    def test_what_is_no_file(self):
        """A pipe, a device, a folder, a link to nothing and one to itself, all named as images, cost one sample each or
        are none, and nobody waits for them."""
        good = 48  # so that those that are none are less than a tenth
        root = self.folder_of("no-files", {f"a/{i}.jpg": self.images[i % 2] for i in range(good)})
        os.mkfifo(os.path.join(root, "a", "pipe.jpg"))
        os.makedirs(os.path.join(root, "a", "folder.jpg"))
        for name, target in (("device.jpg", "/dev/zero"), ("nothing.jpg", "/nowhere"), ("itself.jpg", "itself.jpg")):
            os.symlink(target, os.path.join(root, "a", name))
        loader = self.loader(self.served, root, 4)
        self.assertEqual(sum(map(len, epochs(loader, 1)[0])), good)
        with self.assertRaisesRegex(larder.BadSample, r"/a/\w+\.jpg \(unreadable\): job .* repair it"):
            list(self.loader(self.served, root, 4, bad_samples="error"))

    def test_one_folder_by_many_paths(self):
        """One folder under several paths, by links to it, to its files, or to the same inodes, is the same samples:
        each is prepared once for all."""
        root = os.path.dirname(os.path.dirname(self.images[0]))
        paths = [root, root + "//", root + "/../" + os.path.basename(root) + "/."]
        for name, make in (("link", lambda path: os.symlink(root, path)),
                           ("links", lambda path: shutil.copytree(root, path, copy_function=os.symlink)),
                           ("hard", lambda path: shutil.copytree(make_tree(self.folder + "/own", COUNT, 4), path,
                                                                 copy_function=os.link))):
            paths.append(os.path.join(self.folder, name))
            make(paths[-1])
        paths.append(self.folder + "/own")
        for got in together(lambda number: epochs(self.loader(self.served, paths[number]), 1), len(paths)):
            self.assertEqual(sorted(sum(got[0], [])), list(range(COUNT)))
        samples = self.served.status()["samples"]
        self.assertEqual((samples["loaded"], samples["prepared"]), (2 * COUNT, 2 * COUNT))

    def test_a_folder_that_vanishes(self):
        """A folder goes while a job trains on it: whatever its policy, the job goes on with what is in memory, waits as
        long as limits.source_wait, then ends with an error that names the folder, and the daemon serves others."""
        self.served.stop()
        little = self.daemon("memory: {arena: 64MiB, encoded: 1MiB}\ncatalog: {checkpoint: none}\n"
                             "limits: {source_wait: 1}\nmetrics: {enabled: false}\n")
        for policy in ("skip", "replace", "error"):
            root = make_tree(os.path.join(self.folder, policy), 300, width=384, height=288)
            self.assertGreater(sum(os.path.getsize(path) for path in files_of(root)), 2 << 20)
            loader = self.loader(little, root, 8, bad_samples=policy)
            next(iter(loader))
            os.rename(root, root + "~")  # at once: a file that is gone from a folder that is there is a bad sample
            with self.assertRaisesRegex(larder.IOFailure, r"1 s \(limits.source_wait\).*" + root):
                epochs(loader, 4)
            with self.assertRaisesRegex(larder.NotFound, root):
                self.loader(little, root)
            loader.close()
        self.assertTrue(until(lambda: little.status()["jobs"] == [], 10))
        self.whole(self.loader(little, os.path.dirname(os.path.dirname(self.images[0]))), COUNT)

    def test_a_folder_that_memory_has(self):
        """With memory for all that jobs of one pipeline want each file is read once for all their epochs, shuffled or
        not, and a folder may go once it was read."""
        root = make_tree(os.path.join(self.folder, "root"), 300)
        loaders = [self.loader(self.served, root, 8, shuffle=shuffle, seed=1)
                   for shuffle in ("dependent", "none", "dependent")]
        for got in together(lambda number: epochs(loaders[number], 2), len(loaders)):
            self.assertEqual([sorted(sum(epoch, [])) for epoch in got], 2 * [list(range(300))])
        shutil.rmtree(root)
        for got in together(lambda number: epochs(loaders[number], 2), len(loaders)):
            self.assertEqual([sorted(sum(epoch, [])) for epoch in got], 2 * [list(range(300))])
        self.assertEqual(self.served.status()["samples"]["loaded"], 300)
        for loader in loaders:
            loader.close()
        self.assertTrue(until(lambda: self.served.status()["memory"]["encoded"]["used_bytes"] == 0, 10))


if __name__ == "__main__":
    main()
