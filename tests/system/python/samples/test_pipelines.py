"""Jobs with different pipelines on one dataset, and what augmentations depend on."""

import itertools
import json
import os
import re
import shutil
import threading

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, make_tree, tree, until

COUNT = 1200
TRAIN = [larder.RandomResizedCrop(48), larder.RandomHorizontalFlip(), larder.ColorJitter(0.4, 0.4)]
OTHER = [larder.RandomResizedCrop(32), larder.RandomVerticalFlip()]
WORKERS = """\
memory:
  arena: 128MiB
  encoded: 64MiB
threads:
  workers: {}
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


def run(loaders, epochs=1):
    """Iterates over all loaders at once and gives for each its epochs as {index: pixels}. One thread takes a batch of
    each in turn, so that they are as far as each other however busy the machine is: what they share is then a matter
    of the daemon, not of which thread had a core."""
    results = [[] for _ in loaders]
    for _ in range(epochs):
        seen = [{} for _ in loaders]
        for batches in itertools.zip_longest(*loaders):
            for number, batch in enumerate(batches):
                if batch is not None:
                    images, _, indices = batch
                    seen[number].update((index, np.array(image)) for index, image in zip(indices.tolist(), images))
        for number, taken in enumerate(seen):
            results[number].append(taken)
    return results


def same(a, b):
    """How many of the samples that both have are equal in every pixel."""
    return sum(np.array_equal(a[index], b[index]) for index in a.keys() & b.keys())


class Pipelines(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, width=120, height=90)

    def test_one_decode_for_two_pipelines(self):
        """Two jobs of different pipelines that run together load and decode each sample once, or nearly, and get all of
        it. What is above 1 is what one of them decodes before the other has begun, or ahead of an epoch that the
        other has not begun: with 4 batches of look-ahead .02 to .08, however busy the machine."""
        daemon = self.daemon()
        loaders = [self.loader(daemon, self.dataset, 16, pipeline, epochs=3, prefetch=4) for pipeline in (TRAIN, OTHER)]
        for epochs in run(loaders, 3):
            for seen in epochs:
                self.assertEqual(sorted(seen), list(range(COUNT)))
        counts = daemon.status()["samples"]
        counts["decoded"] += counts["from_decoded"]
        print(f"{counts['loaded'] / COUNT / 3:.3f} loads and {counts['decoded'] / COUNT / 3:.3f} decodes a sample, "
              f"{counts['prepared'] / COUNT / 3:.3f} instances", flush=True)
        self.assertGreaterEqual(counts["decoded"], 3 * COUNT)
        self.assertLessEqual(counts["decoded"], 1.15 * 3 * COUNT)
        self.assertLessEqual(counts["loaded"], 1.15 * 3 * COUNT)
        self.assertLessEqual(counts["prepared"], 2.1 * 3 * COUNT)

    def test_shared_pixels(self):
        """Two jobs of one pipeline, written differently, get the same pixels of nearly every sample; those of
        another epoch are others."""
        daemon = self.daemon()
        again = [{"random_resized_crop": {"size": [48, 48]}}, {"random_horizontal_flip": {"p": 0.5}},
                 {"color_jitter": {"brightness": [0.6, 1.4], "contrast": 0.4}}]
        a, b = run([self.loader(daemon, self.dataset, 16, pipeline, epochs=2) for pipeline in (TRAIN, again)], 2)
        self.assertGreater(same(a[0], b[0]), 0.9 * COUNT)
        self.assertLess(same(a[0], a[1]), 0.01 * COUNT)

    def test_private_pixels(self):
        """Private jobs of one pipeline get pixels of their own, and share the decode."""
        daemon = self.daemon()
        a, b = run([self.loader(daemon, self.dataset, 16, TRAIN, augment="private") for _ in range(2)])
        self.assertEqual((len(a[0]), len(b[0])), (COUNT, COUNT))
        self.assertLess(same(a[0], b[0]), 0.01 * COUNT)
        self.assertLessEqual(daemon.status()["samples"]["decoded"], 1.15 * COUNT)

    def test_one_pipeline_fails(self):
        """Where a tenth of the images is too small for one job's crop, that job goes without them, and another that
        shares its decodes gets every sample, as does one that wants the bytes alone. Each too small image counts once,
        and is logged with what is wrong with it."""
        daemon = self.daemon()
        root = os.path.join(self.folder, "mixed")
        shutil.copytree(tree(400), root)
        for path in files_of(make_tree(os.path.join(self.folder, "small"), 40, width=16, height=16)):
            shutil.copyfile(path, os.path.join(root, "class_00", "small_" + os.path.basename(path)))
        small = {index for index, path in enumerate(files_of(root)) if os.path.basename(path).startswith("small_")}
        self.assertEqual(len(small), 40)
        pipelines = ([{"resize": {"size": [8, 8]}}], [{"random_crop": {"size": 32}}], [])
        loaders = [self.loader(daemon, root, 16, pipeline, name=name) for name, pipeline in zip("abc", pipelines)]
        a, b, c = (set(epochs[0]) for epochs in run(loaders))
        self.assertEqual((len(a), len(c)), (440, 440))
        self.assertEqual(b, set(range(440)) - small)
        status = daemon.status()
        self.assertEqual({job["name"]: job["bad_samples"] for job in status["jobs"]}, {"a": 0, "b": 40, "c": 0})
        bad = {reason: count for reason, count in status["samples"]["bad"].items() if count}
        self.assertEqual(bad, {"too_small": 40})
        line = r'bad sample.*/small_.*reason=too_small.*random_crop'
        self.assertTrue(until(lambda: re.search(line, daemon.log()), 5), daemon.log())

    def counts(self, pipelines, options, epochs=1):
        """Loads, decodes and instances a sample of jobs that run together in a daemon of their own."""
        daemon = self.daemon()
        loaders = [self.loader(daemon, self.dataset, 16, pipeline, epochs=epochs, prefetch=4, **more)
                   for pipeline, more in zip(pipelines, options)]
        for taken in run(loaders, epochs):
            for seen in taken:
                self.assertEqual(sorted(seen), list(range(COUNT)))
        samples = daemon.status()["samples"]
        samples["decoded"] += samples["from_decoded"]
        for loader in loaders:
            loader.close()
        daemon.stop()
        return [samples[what] / COUNT / epochs for what in ("loaded", "decoded", "prepared")]

    def test_what_is_the_same_is_shared(self):
        """One list in another spelling, with other keys first and other spaces, is one pipeline. So is one without
        chance, whatever the jobs' orders: a strict job and a private one are given what another job has had made."""
        text = json.dumps([{"random_resized_crop": {"size": 48, "scale": [0.2, 1], "ratio": [0.75, 1.25]}},
                           "random_horizontal_flip"])
        again = """[ {"random_resized_crop" :
            {"ratio": [75e-2, 1.25], "antialias": true, "scale": [0.20, 1.0], "size": [48, 48]} },
            {"random_horizontal_flip":{"p":0.5}} ]"""
        fixed = [larder.Resize(64), larder.CenterCrop(48)]
        for pipelines, options in (((text, again), ({}, {})), ((fixed, fixed), ({}, {"shuffle": "strict"})),
                                   ((fixed, fixed), ({}, {"augment": "private"})),
                                   ((fixed, fixed), ({"shuffle": "strict", "seed": 1},
                                                     {"shuffle": "strict", "seed": 2}))):
            loaded, decoded, prepared = self.counts(pipelines, options)
            self.assertLessEqual(max(loaded, decoded, prepared), 1.05, (pipelines, options))

    def test_a_longer_list_shares_the_decode(self):
        """Of two lists of which one goes on where the other ends, and of two jobs in one order of their own, each
        sample is decoded once, or nearly."""
        fixed = [larder.Resize(64), larder.CenterCrop(48)]
        longer = fixed + [larder.ToDtype("float32", scale=True), larder.Normalize([0.5] * 3, [0.2] * 3)]
        for pipelines, same in (((fixed, longer), {}), ((fixed, fixed + [larder.RandomHorizontalFlip()]), {}),
                                ((TRAIN, longer), {"shuffle": "strict", "seed": 3}),
                                ((fixed, longer), {"shuffle": "none"})):
            loaded, decoded, prepared = self.counts(pipelines, (same, same))
            self.assertLessEqual(max(loaded, decoded), 1.15, (pipelines, same))
            self.assertLessEqual(prepared, 2.05, (pipelines, same))

    def strict(self, workers, beside):
        """Two epochs of a strict job as one array each, in a daemon of its own that other jobs may keep busy."""
        daemon = self.daemon(WORKERS.format(workers))
        others = [self.loader(daemon, self.dataset, 32, pipeline) for pipeline in beside]
        stop = threading.Event()

        def busy(loader):
            while not stop.is_set():
                for _ in loader:
                    if stop.is_set():
                        break

        threads = [threading.Thread(target=busy, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        with self.loader(daemon, self.dataset, 24, TRAIN, shuffle="strict", seed=42) as loader:
            epochs = []
            for _ in range(2):
                batches = list(loader)
                epochs.append((np.concatenate([images for images, _, _ in batches]),
                               np.concatenate([indices for _, _, indices in batches])))
        stop.set()
        for thread in threads:
            thread.join()
        for other in others:
            other.close()
        daemon.stop()
        return epochs

    def test_strict_jobs_are_reproducible(self):
        """The same seed gives the same batches bit by bit in two daemons, one with a single worker and the job alone,
        one with four and other jobs of the same and another pipeline beside it; epochs differ."""
        alone, crowded = self.strict(1, ()), self.strict(4, (TRAIN, OTHER))
        for (images, indices), (images_again, indices_again) in zip(alone, crowded):
            np.testing.assert_array_equal(indices, indices_again)
            np.testing.assert_array_equal(images, images_again)
        by_index = [dict(zip(indices.tolist(), images)) for images, indices in alone]
        self.assertLess(same(*by_index), 0.01 * COUNT)

    def drawn(self, **options):
        """What a job gets in its first epoch, as {index: pixels}, in a daemon of its own."""
        daemon = self.daemon()
        with self.loader(daemon, self.dataset, 16, TRAIN, seed=42, name="again", **options) as loader:
            (seen,), = run([loader])
        daemon.stop()
        return seen

    def test_a_new_daemon_draws_anew(self):
        """Whatever a daemon drew, the next one does not draw again for the same job: not what jobs share, not what is a
        job's own, not in a fixed order. Under strict it draws the very same."""
        for options in ({}, {"augment": "private"}, {"shuffle": "none"}):
            before, after = self.drawn(**options), self.drawn(**options)
            self.assertEqual((len(before), len(after)), (COUNT, COUNT), options)
            self.assertLess(same(before, after), 0.01 * COUNT, options)
        self.assertEqual(same(self.drawn(shuffle="strict"), self.drawn(shuffle="strict")), COUNT)


if __name__ == "__main__":
    main()
