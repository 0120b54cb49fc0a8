"""What the Python package gets from the real daemon: order, labels, pixels, epochs, subsets, bad samples, forks."""

import os
import pickle
import re
import shutil
import sys
import threading

import numpy as np

import above  # noqa: F401
from system import CONFIG, SLOW, Case, files_of, larder, main, make_tree, skip, tree

COUNT = 120
STILL = [{"resize": {"size": [48, 64]}}]


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Delivery(Case):
    def test_in_order_it_is_the_image_folder(self):
        """shuffle="none" gives ImageFolder's order, labels and classes."""
        files = files_of(tree(COUNT))
        loader = self.loader(self.daemon(), tree(COUNT), pipeline=STILL, shuffle="none")
        self.assertEqual(loader.classes, sorted(os.listdir(tree(COUNT))))
        got = [item for _, *batch in loader for item in zip(*batch)]
        self.assertEqual([index for _, index in got], list(range(COUNT)))
        self.assertEqual([label for label, _ in got], [loader.class_to_idx[path.split("/")[-2]] for path in files])

    def test_zero_copy_shows_the_same_pixels(self):
        """A deterministic pipeline gives the same pixels copied, in place, and in another order."""
        daemon = self.daemon()
        in_order = self.loader(daemon, tree(COUNT), pipeline=STILL, shuffle="none")
        expected = np.concatenate([images for images, _, _ in in_order])
        self.assertEqual(expected.shape, (COUNT, 48, 64, 3))
        self.assertGreater(expected.std(), 10)
        for options in ({"zero_copy": True}, {"shuffle": "strict"}, {}):
            for images, _, indices in self.loader(daemon, tree(COUNT), pipeline=STILL, **options):
                for image, index in zip(images, indices):
                    self.assertTrue((image == expected[index]).all())
                del image, images

    def test_strict_order_depends_on_seed_and_epoch_alone(self):
        """Two strict jobs of one seed see one order an epoch, whatever else runs; other epochs and seeds differ."""
        daemon = self.daemon()
        noise = iter(self.loader(daemon, tree(COUNT)))
        next(noise)

        def orders(seed):
            loader = self.loader(daemon, tree(COUNT), shuffle="strict", seed=seed)
            return [[index for batch in loader for index in batch[-1].tolist()] for _ in range(2)]
        first = orders(5)
        self.assertEqual(first, orders(5))
        self.assertNotEqual(first[0], first[1])
        self.assertNotEqual(first[0], orders(6)[0])

    def test_breaking_off_and_going_on(self):
        """After a break at any point the next epoch is whole."""
        loader = self.loader(self.daemon(), tree(COUNT), prefetch=4)
        for stop in (0, 1, 5, 7):
            for number, _ in enumerate(loader):
                if number == stop:
                    break
            self.whole(loader, COUNT)

    def test_drop_last(self):
        """drop_last leaves out what does not fill a batch, and len() knows."""
        loader = self.loader(self.daemon(), tree(COUNT), batch_size=50, drop_last=True)
        for _ in range(3):
            batches = [indices.tolist() for _, _, indices in loader]
            self.assertEqual([len(batch) for batch in batches], [50, 50])
            self.assertEqual(len(set(sum(batches, []))), 100)
        self.assertEqual(len(loader), 2)

    def test_fork_and_pickle(self):
        """A forked child and a pickled copy are jobs of their own; the parent's epoch stays whole."""
        daemon = self.daemon()
        loader = self.loader(daemon, tree(COUNT), name="parent")
        iterator = iter(loader)
        seen = next(iterator)[2].tolist()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self.whole(loader, COUNT)
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        copy = pickle.loads(pickle.dumps(self.loader(daemon, tree(COUNT))))
        self.whole(copy, COUNT)
        copy.close()
        seen += [index for batch in iterator for index in batch[2].tolist()]
        self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_threads_share_an_iterator(self):
        """Six threads take the batches of one iterator: each sample comes to one of them, once an epoch."""
        daemon = self.daemon()
        loader = self.loader(daemon, tree(600), 4)
        for _ in range(2):
            iterator, seen, errors = iter(loader), [], []

            def work():
                try:
                    for _, _, indices in iterator:
                        seen.extend(indices.tolist())
                except Exception as error:
                    errors.append(error)
            threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60 * SLOW)
            self.assertEqual(errors, [])
            self.assertEqual(sorted(seen), list(range(600)))

    def test_holding_too_many_views(self):
        """With the daemon's own held_max the zero-copy limit is an error, and releasing goes on."""
        loader = self.loader(self.daemon(), tree(COUNT), batch_size=4, zero_copy=True, prefetch=2)
        iterator, kept = iter(loader), []
        with self.assertRaises(larder.LimitReached):
            for _ in range(30):
                kept.append(next(iterator))
        self.assertGreaterEqual(len(kept), 2)
        seen = [index for batch in kept for index in batch[2].tolist()]
        kept.clear()
        for batch in iterator:
            seen += batch[2].tolist()
            del batch
        self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_who_holds_all_it_may_is_in_nobodys_way(self):
        """Slots of two sizes in an arena hardly larger than both jobs keep: one holds a whole epoch, the other trains
        on."""
        daemon = self.daemon("memory: {arena: 1MiB, encoded: 64MiB}\njobs: {quota: 100%}\ncatalog: {checkpoint: none}\n"
                             "metrics: {enabled: false}\n")
        large = self.loader(daemon, tree(COUNT), 8, [{"resize": {"size": [96, 128]}}], prefetch=1)
        small = self.loader(daemon, tree(COUNT), 8, [{"resize": {"size": [32, 32]}}], prefetch=16, zero_copy=True)
        kept, seen = [], []
        for batch, (_, _, indices) in zip(small, large):
            kept.append(batch)
            seen += indices.tolist()
        self.assertEqual(sorted(seen), list(range(COUNT)))
        for _ in range(3):
            self.whole(large, COUNT)
        self.assertEqual(sorted(index for batch in kept for index in batch[2].tolist()), list(range(COUNT)))

    def test_a_missing_class_folder_is_no_image_folder(self):
        """An empty class and a folder without classes are refused as ImageFolder refuses them, by name."""
        daemon = self.daemon()
        folder = os.path.join(self.folder, "data")
        make_tree(folder, 4, 2)
        os.mkdir(os.path.join(folder, "class_99"))
        with self.assertRaisesRegex(larder.InvalidArgument, "class_99"):
            self.loader(daemon, folder)
        os.mkdir(os.path.join(self.folder, "empty"))
        with self.assertRaisesRegex(larder.InvalidArgument, "empty"):
            self.loader(daemon, os.path.join(self.folder, "empty"))


class BadSamples(Case):
    """Five files of 100 are truncated, empty, garbage, or gone: each costs one sample, as the job's policy says."""

    def setUp(self):
        super().setUp()
        self.tree = make_tree(os.path.join(self.folder, "data"), 100, 5)
        files = files_of(self.tree)
        self.bad = [3, 24, 50, 77, 99]
        for index, content in zip(self.bad[:4], (bytes_of(files[3])[:700], b"", os.urandom(2000), b"\xff\xd8\xff")):
            with open(files[index], "wb") as file:
                file.write(content)
        self.served = self.daemon()
        self.gone = files[99]

    def epoch(self, **options):
        loader = self.loader(self.served, self.tree, **options)
        self.assertEqual(loader.dataset_size, 100 if os.path.exists(self.gone) else 99)
        if os.path.exists(self.gone):
            os.unlink(self.gone)
        return [index for batch in loader for index in batch[-1].tolist()]

    def test_skip(self):
        """skip: all others exactly once; the daemon has counted the bad ones and named them in its log."""
        self.assertEqual(sorted(self.epoch(bad_samples="skip")), sorted(set(range(100)) - set(self.bad)))
        self.assertEqual(sum(self.served.status()["samples"]["bad"].values()), 5)
        for index in self.bad:
            name = os.path.basename(files_of(self.tree)[index]) if index != 99 else os.path.basename(self.gone)
            self.assertTrue(self.served.logged(name), name)

    def test_replace(self):
        """replace: as many samples as before; good ones stand in for the bad ones."""
        seen = self.epoch(bad_samples="replace")
        self.assertEqual(len(seen), 100)
        self.assertEqual(set(seen), set(range(100)) - set(self.bad))

    def test_error(self):
        """error: an error that names a file, and the other jobs go on."""
        with self.assertRaisesRegex(larder.BadSample, r"\.jpg"):
            self.epoch(bad_samples="error")
        self.assertEqual(len(self.epoch(bad_samples="skip")), 95)

    def test_all_bad(self):
        """A dataset of bad samples alone is an error under every policy, and nobody trains on nothing; so is one that
        has less than a batch left under drop_last. With a batch left it is served."""
        files = files_of(self.tree)
        self.assertEqual(len(self.epoch(bad_samples="skip", batch_size=94, drop_last=True)), 94)
        with self.assertRaisesRegex(larder.BadSample, "nothing is left"):
            self.epoch(bad_samples="skip", batch_size=96, drop_last=True)
        for path in files:
            shutil.copyfile("/dev/null", path)
        for policy in ("skip", "replace", "error"):
            for shuffle in ("dependent", "strict", "none"):
                with self.assertRaisesRegex(larder.BadSample,
                                            r"/class_0\d/.*\.jpg \((not_an_image|unreadable)\).*: job .* bad"):
                    self.epoch(bad_samples=policy, shuffle=shuffle)

    def test_too_many(self):
        """Of a small dataset, whatever limits.bad says, no more than a tenth may be bad: the error says how many are,
        and names three of them and the log. A tenth may."""
        for more in ("", "limits: {bad: 100%}\n"):
            self.served.stop()
            served = self.served = self.daemon(CONFIG + more)
            for policy, shuffle in (("skip", "dependent"), ("replace", "strict"), ("skip", "none")):
                loader = self.loader(served, self.tree, bad_samples=policy, shuffle=shuffle,
                                     subset=larder.Range(0, 40))  # two of them are bad
                self.assertEqual(sum(len(batch[-1]) for batch in loader), 38 if policy == "skip" else 40)
                loader = self.loader(served, self.tree, bad_samples=policy, shuffle=shuffle,
                                     subset=larder.Range(0, 40) - larder.Range(4, 24) - larder.Range(25, 30))
                with self.assertRaisesRegex(larder.BadSample, r"2 of 15 samples are bad .* allows 1, never more than a "
                                            r"tenth.*log names all: " + re.escape(served.log_path)) as caught:
                    list(loader)
                self.assertEqual(len(re.findall(r"\.jpg", str(caught.exception))), 2)
        files = files_of(self.tree)
        with open(files[30], "rb") as file:
            image = file.read()
        for path, content in zip(files[30:35], (b"a text\n", image[:len(image) // 2]) * 2 + (b"a text\n",)):
            with open(path, "wb") as file:
                file.write(content)
        named = r"(class_0\d/\w+\.jpg) \((\w+)\)"
        with self.assertRaisesRegex(larder.BadSample, rf"/{named}, {named} and {named}: job") as caught:
            list(self.loader(self.served, self.tree, subset=larder.Range(26, 46)))
        reasons = {os.path.relpath(path, self.tree): reason for path, reason in
                   zip(files[30:35], ("not_an_image", "corrupt") * 2 + ("not_an_image",))}
        for name, reason in re.findall(named, str(caught.exception)):
            self.assertEqual(reason, reasons.get(name, reason), name)

    def test_a_class_is_lost(self):
        """A class without a good sample is an error that says so, however few its samples are; as long as one is good
        it is none. Where the script has labels of its own, folders are no classes."""
        files, lone = files_of(self.tree), os.path.join(self.tree, "class_09")
        os.mkdir(lone)
        for name, source in (("a.jpg", files[0]), ("b.jpg", files[3])):
            shutil.copyfile(source, os.path.join(lone, name))
        loader = self.loader(self.served, self.tree)
        self.assertEqual(sum(len(batch[-1]) for batch in loader), 97)
        os.unlink(os.path.join(lone, "a.jpg"))
        for policy in ("skip", "replace"):
            with self.assertRaisesRegex(larder.BadSample, r"class_09/b\.jpg .*all samples of its class.*subset"):
                list(self.loader(self.served, self.tree, bad_samples=policy))
        loader = self.loader(self.served, self.tree, labels=np.arange(101) % 2)
        self.assertEqual(sum(len(batch[-1]) for batch in loader), 96)


if __name__ == "__main__":
    if sys.byteorder != "little":
        skip("the tests compare bytes of little-endian machines")
    main()
