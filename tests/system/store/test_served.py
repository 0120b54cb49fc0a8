"""Stores served by the real daemon: the same data as the tree they were packed from, in its order, once an epoch."""

import os
import re

import numpy as np

from stores import change, contents, everything, larder, pack
from system import Case, files_of, main, make_tree, tree

COUNT = 200
STILL = [{"resize": {"size": [48, 64]}}]


class Served(Case):
    def store(self, name="store", source=None, options=()):
        return pack(source or tree(COUNT), os.path.join(self.folder, name), *options)

    def test_the_same_as_its_tree(self):
        """Index for index a store gives its tree's labels and pixels, with its classes and, unshuffled, its order:
        ImageFolder's."""
        daemon = self.daemon()
        of_tree = self.loader(daemon, tree(COUNT), pipeline=STILL, shuffle="none")
        of_store = self.loader(daemon, self.store(), pipeline=STILL, shuffle="none")
        self.assertEqual(of_store.classes, of_tree.classes)
        self.assertEqual(of_store.class_to_idx, of_tree.class_to_idx)
        expected, got = everything(of_tree), everything(of_store)
        self.assertEqual(list(got), list(range(COUNT)))
        files = files_of(tree(COUNT))
        for index in range(COUNT):
            self.assertEqual(got[index][0], of_tree.class_to_idx[files[index].split("/")[-2]])
            self.assertEqual(got[index][0], expected[index][0])
            self.assertTrue(np.array_equal(got[index][1], expected[index][1]))

    def test_exactly_once(self):
        """Shuffled, by two scripts at different speeds, over several epochs: every index once an epoch."""
        daemon, store = self.daemon(), self.store()
        scripts = [self.script(daemon, dataset=store, pipeline=STILL, batch_size=16, epochs=epochs, step_s=step_s)
                   for epochs, step_s in ((4, 0), (2, 0.01))]
        for script, epochs in zip(scripts, (4, 2)):
            self.assertEqual(script.wait(), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(COUNT))] * epochs)

    def test_subsets(self):
        """Classes and ranges of a store are those of its tree."""
        daemon, store = self.daemon(), self.store()
        subset = larder.Classes("class_0[0-4]") - larder.Range(10, 30)
        of_tree = self.loader(daemon, tree(COUNT), pipeline=STILL, subset=subset)
        of_store = self.loader(daemon, store, pipeline=STILL, subset=subset)
        self.assertEqual(sorted(everything(of_store)), sorted(everything(of_tree)))

    def both_at_once(self, daemon, first, second):
        """An epoch of two jobs, batch by batch in turn; gives what was prepared for it. Each time with a pipeline of
        its own, so that nothing is there already."""
        before, self.size = daemon.status()["samples"]["prepared"], getattr(self, "size", 32) + 1
        loaders = [self.loader(daemon, path, pipeline=[{"resize": {"size": [self.size, 32]}}], batch_size=10)
                   for path in (first, second)]
        got = [[], []]
        for batches in zip(*loaders):
            for indices, batch in zip(got, batches):
                indices.extend(batch[-1].tolist())
        for indices in got:
            self.assertEqual(sorted(indices), list(range(COUNT)))
        for loader in loaders:
            loader.close()
        return daemon.status()["samples"]["prepared"] - before

    def test_two_stores_share_their_images(self):
        """The same images in two stores, of other seeds and chunk sizes, are the same samples: two jobs, one on each,
        have each prepared once, or in a tenth more at most. A store of other images shares nothing."""
        daemon = self.daemon()
        other = make_tree(os.path.join(self.folder, "tree"), COUNT, seed=2)
        a = self.store("a")
        for name, options in (("seed", ("--seed", 2)), ("chunks", ("--chunk-size", 60)),
                              ("small", ("--chunk-size", 7))):
            with self.subTest(name):
                prepared = self.both_at_once(daemon, a, self.store(name, options=options))
                print(f"{name}: {prepared} prepared for {2 * COUNT} delivered", flush=True)
                self.assertLessEqual(prepared, 1.1 * COUNT)
        self.assertEqual(self.both_at_once(daemon, a, self.store("other", other)), 2 * COUNT)

    def test_chunks_of_two_sizes(self):
        """Two stores of one tree with as many chunks, but not of as many samples: jobs on parts of one and all of the
        other keep apart what is stored where."""
        daemon = self.daemon()
        parts = [self.loader(daemon, self.store("60", options=("--chunk-size", 60)), pipeline=STILL,
                             subset=larder.Range(begin, begin + 50)) for begin in (0, 100)]
        whole = self.loader(daemon, self.store("64", options=("--chunk-size", 64)), pipeline=STILL)
        for _ in range(2):
            self.whole(whole, COUNT)
            for begin, part in zip((0, 100), parts):
                self.assertEqual(sorted(everything(part)), list(range(begin, begin + 50)))

    def test_damaged_samples_cost_themselves(self):
        """A store damaged under two images: these are skipped, counted and named, and no wrong pixel comes."""
        store, files = self.store(), files_of(tree(COUNT))
        name, data = next((name, data) for name, data in contents(store).items() if name.startswith("segment"))
        for index in (3, 77):
            with open(files[index], "rb") as file:
                change(os.path.join(store, name), data.find(file.read()) + 200, 0x04)
        daemon = self.daemon()
        expected = everything(self.loader(daemon, tree(COUNT), pipeline=STILL, shuffle="none"))
        daemon.stop()
        daemon = self.daemon()  # which has nothing of the tree's files, whose samples are the store's
        got = everything(self.loader(daemon, store, pipeline=STILL))
        self.assertEqual(sorted(got), [index for index in range(COUNT) if index not in (3, 77)])
        for index, (label, image) in got.items():
            self.assertEqual(label, expected[index][0])
            self.assertTrue(np.array_equal(image, expected[index][1]))
        self.assertEqual(daemon.status()["samples"]["bad"]["unreadable"], 2)
        for index in (3, 77):
            self.assertTrue(daemon.logged(os.path.basename(files[index])))
            self.assertRegex(daemon.log(), re.escape(os.path.basename(files[index])) + ".*damaged")

    def test_a_truncated_segment(self):
        """A segment cut short under the daemon costs the samples behind the cut, by name, and nothing else."""
        store, daemon = self.store(), self.daemon()
        loader = self.loader(daemon, store, pipeline=STILL)
        self.whole(loader, COUNT)
        path = os.path.join(store, "segment-00000.larder")
        os.truncate(path, os.path.getsize(path) * 19 // 20)
        loader.close()
        got = everything(self.loader(daemon, store, pipeline=[{"resize": {"size": [40, 40]}}]))
        bad = daemon.status()["samples"]["bad"]["unreadable"]
        self.assertEqual(len(got), COUNT - bad)
        self.assertGreater(bad, 0)
        self.assertLessEqual(bad, COUNT // 10)
        self.assertTrue(daemon.logged("truncated"))

    def test_what_is_no_store(self):
        """A damaged index and an unfinished pack are refused when a job registers, with the file's name."""
        store, daemon = self.store(), self.daemon()
        change(os.path.join(store, "index.larder"), 900, 1)
        with self.assertRaisesRegex(larder.LarderError, "index.larder"):
            self.loader(daemon, store)
        os.rename(os.path.join(store, "index.larder"), os.path.join(store, "unfinished.larder"))
        with self.assertRaisesRegex(larder.LarderError, "larder pack"):
            self.loader(daemon, store)


if __name__ == "__main__":
    main()
