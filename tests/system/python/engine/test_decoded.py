#!/usr/bin/env python3
"""Decoded forms: samples that stand in encoded memory decoded give the same bytes, for as long as their files are the
same, and take no more than memory.encoded."""

import os
import shutil

import above  # noqa: F401
import numpy
from system import Case, files_of, main, tree

COUNT = 60
MIB = 1 << 20
CROP = [{"random_resized_crop": {"size": 48}}, "random_horizontal_flip"]
SETTINGS = "memory: {arena: 32MiB, encoded: %dMiB, decoded: %s}\ncatalog: {checkpoint: none}\n" + \
           "metrics: {enabled: false}\n"



def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Decoded(Case):
    def ready(self, decoded="auto", encoded_mib=64):
        return self.daemon(SETTINGS % (encoded_mib, decoded))

    def epochs(self, daemon, images, epochs, pipeline=CROP, shuffle="strict"):
        """The samples of each epoch, by their number."""
        with self.loader(daemon, images, 10, pipeline, shuffle=shuffle, seed=3, epochs=epochs) as loader:
            return [{index: sample.copy() for data, _, ids in loader for sample, index in zip(data, ids.tolist())}
                    for _ in range(epochs)]

    def assert_same(self, some, others):
        self.assertEqual(len(some), len(others))
        for one, other in zip(some, others):
            self.assertEqual(one.keys(), other.keys())
            self.assertTrue(all(numpy.array_equal(one[index], other[index]) for index in one))

    def test_same_bytes(self):
        """Each epoch has the bytes that it has without decoded forms, and later ones are made of forms."""
        images, got = tree(COUNT, width=320, height=240), {}
        for decoded in ("never", "auto"):
            daemon = self.ready(decoded)
            got[decoded] = self.epochs(daemon, images, 4)
            samples = daemon.status()["samples"]
            self.assertEqual(samples["decoded"] + samples["from_decoded"], 4 * COUNT)
            self.assertEqual(samples["loaded"], COUNT)
            if decoded == "never":
                self.assertEqual(samples["from_decoded"], 0)
            else:
                self.assertGreaterEqual(samples["from_decoded"], 2 * COUNT)
            daemon.stop()
        self.assert_same(got["never"], got["auto"])

    def test_encoded_bytes_after_forms(self):
        """A job that takes the files' own bytes, or that scales while decoding, gets what the files give, while another
        job has had forms of them made. That job goes on."""
        images = tree(COUNT, width=320, height=240)
        daemon = self.ready()
        with self.loader(daemon, images, 10, CROP, seed=1, epochs=3) as crops:
            self.whole(crops, COUNT)
            self.assertGreater(daemon.status()["memory"]["encoded"]["decoded_samples"], COUNT // 2)
            with self.loader(daemon, images, 10, [], shuffle=False) as raw:
                given = [bytes(data) for batch in raw for data in batch[0]]
            self.whole(crops, COUNT)
            self.assertEqual(given, [bytes_of(path) for path in files_of(images)])
            self.whole(crops, COUNT)
        scaled = [{"resize": {"size": [20, 20], "dct_scaling": True}}]
        self.assert_same(self.epochs(daemon, images, 1, scaled), self.fresh(images, scaled))

    def fresh(self, images, pipeline):
        """One epoch by a daemon of its own."""
        folder, self.folder = self.folder, os.path.join(self.folder, "other")
        os.mkdir(self.folder)
        daemon = self.ready("never")
        self.folder = folder
        return self.epochs(daemon, images, 1, pipeline)

    def test_changed_file(self):
        """A form does not outlive its file: after a file has changed, the next job gets the new picture."""
        images = os.path.join(self.folder, "images")
        shutil.copytree(tree(COUNT, width=320, height=240), images)
        daemon = self.ready()
        before, *_ = self.epochs(daemon, images, 3)
        self.assertGreater(daemon.status()["samples"]["from_decoded"], 0)
        one, other = files_of(images)[0], files_of(images)[1]
        with open(other, "rb") as source, open(one, "wb") as target:
            target.write(source.read())
        os.utime(one, (1, 1))
        still = [{"resize": {"size": [48, 48]}}]
        after, = self.epochs(daemon, images, 1, still)
        self.assertTrue(numpy.array_equal(after[0], after[1]))
        self.assert_same([after], self.fresh(images, still))
        self.assertEqual(len(before), COUNT)

    def test_budget(self):
        """Forms take what memory.encoded leaves beside all files, and no more."""
        images = tree(150, width=480, height=360)
        daemon = self.ready(encoded_mib=2 * sum(map(os.path.getsize, files_of(images))) // MIB)
        for _ in self.epochs(daemon, images, 3, shuffle="dependent"):
            encoded = daemon.status()["memory"]["encoded"]
            self.assertLessEqual(encoded["used_bytes"], encoded["budget_bytes"])
        samples = daemon.status()["samples"]
        self.assertGreater(samples["from_decoded"], 0)
        self.assertGreater(samples["decoded"], 150)  # not all have room


if __name__ == "__main__":
    main()
