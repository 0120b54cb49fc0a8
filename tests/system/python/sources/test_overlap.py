"""Datasets that consist of the same files, by hard link or symbolic link, share their samples by themselves, whatever
each calls them."""

import os
import shutil

import numpy as np

import above  # noqa: F401
from system import Case, files_of, main, make_tree, tree

COUNT, OWN, BATCH = 120, 24, 12
PIPELINE = [{"resize": {"size": [48, 64]}}]
NOTHING = (np.empty(0),) * 3


class Overlap(Case):
    def second_tree(self, place):
        """The first tree's images in two classes, in another order and under other names, and some of its own."""
        second = os.path.join(self.folder, "second")
        for label in ("odd", "even", "own"):
            os.makedirs(os.path.join(second, label))
        for number, source in enumerate(reversed(files_of(tree(COUNT)))):
            place(source, os.path.join(second, ("odd", "even")[number % 2], f"{number:03}.jpg"))
        for number, source in enumerate(files_of(make_tree(os.path.join(self.folder, "own"), OWN, 2, seed=9))):
            place(source, os.path.join(second, "own", f"{number:03}.jpg"))
        return second

    def two_jobs(self, second):
        """An epoch of two jobs, batch by batch in turn, each with its own tree's labels. Gives what each got as
        {file: (id, image)}, and the daemon's counts."""
        daemon = self.daemon()
        folders = (tree(COUNT), second)
        jobs = [self.loader(daemon, folder, pipeline=PIPELINE, batch_size=BATCH) for folder in folders]
        epochs, got = [iter(job) for job in jobs], [{}, {}]
        for _ in range((COUNT + OWN) // BATCH):
            for job, epoch, folder, samples in zip(jobs, epochs, folders, got):
                images, labels, indices = next(epoch, NOTHING)
                ids = job.last_ids if len(images) else []
                for image, label, index, sample in zip(images, labels.tolist(), indices.tolist(), ids):
                    path = files_of(folder)[index]
                    self.assertEqual(job.classes[label], path.split("/")[-2])
                    self.assertNotIn(path, samples)
                    samples[path] = int(sample), image
        self.assertEqual([len(samples) for samples in got], [COUNT, COUNT + OWN])
        counts = daemon.status()["samples"]
        print(f"prepared {counts['prepared']}, delivered {counts['delivered']}", flush=True)
        self.assertEqual(counts["delivered"], 2 * COUNT + OWN)
        return got, counts

    def all_shared(self, place):
        first, second = two = [{}, {}]
        got, counts = self.two_jobs(self.second_tree(place))
        for samples, by_inode in zip(got, two):
            by_inode.update({os.stat(path).st_ino: sample for path, sample in samples.items()})
        for inode, (sample, image) in first.items():
            self.assertEqual(second[inode][0], sample)
            self.assertTrue((second[inode][1] == image).all())
        self.assertEqual(counts["prepared"], COUNT + OWN)
        self.assertEqual(counts["loaded"], COUNT + OWN)

    def test_hard_links(self):
        """Two jobs on two trees of the same inodes: each image is loaded and prepared once for both, has one id and the
        same pixels in both, and its own tree's label."""
        self.all_shared(os.link)

    def test_symbolic_links(self):
        """The same for a tree of symbolic links."""
        self.all_shared(os.symlink)

    def test_a_strict_order_is_of_the_dataset(self):
        """A strict order, and that of `none`, is the same in a daemon that gave the files other ids before, because it
        has met them in another tree's order."""
        second = self.second_tree(os.link)

        def orders(daemon):
            got = []
            for shuffle in ("strict", "none"):
                with self.loader(daemon, tree(COUNT), pipeline=PIPELINE, shuffle=shuffle, seed=5) as job:
                    ids, indices = zip(*[(job.last_ids.tolist(), batch[2].tolist()) for batch in job])
                    got.append((sum(indices, []), sum(ids, [])))
            return got
        first = self.daemon()
        (strict, ids), (in_order, _) = orders(first)
        first.stop()
        daemon = self.daemon()
        self.loader(daemon, second, pipeline=PIPELINE).close()
        (again, other_ids), (again_in_order, _) = orders(daemon)
        self.assertNotEqual(ids, other_ids)
        self.assertEqual(strict, again)
        self.assertEqual([in_order, again_in_order], [list(range(COUNT))] * 2)

    def test_copies_are_other_samples(self):
        """In a plain tree a copy is another sample, so that nothing is shared by mistake."""
        got, counts = self.two_jobs(self.second_tree(shutil.copyfile))
        ids = [{sample for sample, _ in samples.values()} for samples in got]
        self.assertFalse(ids[0] & ids[1])
        self.assertEqual(counts["prepared"], 2 * COUNT + OWN)


if __name__ == "__main__":
    main()
