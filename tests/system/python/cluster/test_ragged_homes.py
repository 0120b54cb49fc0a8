"""Samples that differ in size, for jobs at several nodes: homes give them as others, each as long as it is and with its
own numbers, whatever dies."""

import json
import os

import above  # noqa: F401
import numpy as np
import system
from cluster_case import ClusterCase, in_step
from system import SLOW, larder

COUNT = 800  # with four chunks at least for each of three nodes
BATCH = 8


def size_of(index):
    """A height and a width."""
    return 8 + index % 37, 8 + index // 29


def boxes_of(index):
    height, width = size_of(index)
    return [[i, i, width - i, height - 2 * i] for i in range(index % 4)]


class RaggedHomes(ClusterCase):
    def setUp(self):
        super().setUp()
        self.images = [np.random.default_rng(index).integers(0, 256, (*size_of(index), 3), np.uint8)
                       for index in range(COUNT)]
        self.listed = os.path.join(self.folder, "list.jsonl")
        with open(self.listed, "w") as file:
            for index, image in enumerate(self.images):
                path = os.path.join(self.folder, f"{index:03}.ppm")
                with open(path, "wb") as out:
                    out.write(b"P6 %d %d 255\n" % image.shape[1::-1] + image.tobytes())
                file.write(json.dumps({"image": path, "boxes": boxes_of(index)}) + "\n")

    def jobs(self):
        """A job at each of the first two nodes."""
        return [self.loader(node, self.listed, pipeline=[larder.RandomHorizontalFlip()], batch_size=BATCH, epochs=2,
                            name=f"ragged-{at}", labels="none", parts={"image": "image", "boxes": "boxes"},
                            ragged=True, reconnect=60 * SLOW) for at, node in enumerate(self.nodes[:2])]

    def check_sample(self, index, image, boxes):
        """It is the index's image and its boxes, both mirrored or neither."""
        wanted, found = self.images[index], np.array(boxes_of(index), np.float32).reshape(-1, 4)
        if not np.array_equal(image, wanted):
            wanted = wanted[:, ::-1]
            found[:, [0, 2]] = wanted.shape[1] - found[:, [2, 0]]
        np.testing.assert_array_equal(image, wanted)
        np.testing.assert_array_equal(boxes, found)

    def train(self, iterators, batches=None):
        """How often each sample comes to each job, in so many batches or in the rest of the epoch."""
        counts = np.zeros((len(iterators), COUNT), int)
        for job, batch in in_step(iterators, batches):
            for index, image, boxes in zip(batch["index"].tolist(), batch["image"], batch["boxes"]):
                self.check_sample(index, image, boxes)
                counts[job, index] += 1
        return counts

    def through(self, dies=None):
        """Two epochs, in the first of which a node dies, if one does, and comes again."""
        loaders = self.jobs()
        for _ in range(2):
            iterators = [iter(loader) for loader in loaders]
            counts = self.train(iterators, 12)
            if dies is not None:
                self.nodes[dies].kill()
                self.nodes[dies] = self.start(dies)
                dies = None
            self.assertEqual((counts + self.train(iterators)).tolist(), np.ones((2, COUNT), int).tolist())
        for loader in loaders:
            loader.close()

    def test_each_is_prepared_once_for_both(self):
        """Alone, each node would prepare what its job receives. A node that gets so little of the machine that it does
        not answer in time is left to its own."""
        self.cluster(2)
        self.through()
        rows = [self.from_others(node) for node in self.nodes]
        self.assertGreater(min(row[0] for row in rows), 0)
        if not any(sum(row[2:]) for row in rows):
            self.assertLess(self.prepared(), .55 * 2 * 2 * COUNT)

    def test_a_home_is_killed(self):
        """It has no job of its own."""
        self.cluster(3)
        self.through(2)

    def test_a_jobs_own_daemon_is_killed(self):
        """It is a home of the other job, too. Its job goes on, and is asked for no more than the rest of its epoch."""
        self.cluster(2)
        self.through(0)


if __name__ == "__main__":
    system.main()
