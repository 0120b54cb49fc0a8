"""What memory keeps from one epoch to the next: samples of pipelines without chance, and a part of the files."""

import os

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, tree

COUNT = 1500
VALIDATION = [larder.Resize(48), larder.CenterCrop(40)]
TRAIN = [larder.RandomResizedCrop(32), larder.RandomHorizontalFlip()]
MEMORY = """\
memory:
  arena: {arena}
  encoded: {encoded}
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


class Epochs(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, width=120, height=90)
        self.bytes = sum(os.path.getsize(path) for path in files_of(self.dataset))

    def run_epochs(self, loader, epochs):
        """For each epoch {index: pixels}; each sample came once."""
        taken = []
        for _ in range(epochs):
            seen = {}
            for images, _, indices in loader:
                seen.update((index, np.array(image)) for index, image in zip(indices.tolist(), images))
            self.assertEqual(sorted(seen), list(range(COUNT)))
            taken.append(seen)
        return taken

    def test_validation_is_prepared_once(self):
        """Without chance in the pipeline the second epoch reads and decodes nothing, whatever the order, and gives the
        same pixels. Encoded memory is for half of the files: prepared memory alone has all samples."""
        daemon = self.daemon(MEMORY.format(arena="64MiB", encoded="4MiB"))
        for options in ({"shuffle": False}, {"shuffle": "strict"}, {"shuffle": "dependent"}):
            with self.subTest(**options):
                loader = self.loader(daemon, self.dataset, 16, VALIDATION, **options)
                first, = self.run_epochs(loader, 1)
                before = daemon.status()["samples"]
                self.assertEqual(before["decoded"], COUNT)  # of the first job: the others find what it has left
                for again in self.run_epochs(loader, 2):
                    self.assertTrue(all(np.array_equal(first[index], again[index]) for index in first))
                after = daemon.status()["samples"]
                new = {level: count - before["delivered_from"][level]
                       for level, count in after["delivered_from"].items()}
                self.assertEqual(new, {"prepared": 2 * COUNT, "encoded": 0, "read": 0})
                self.assertEqual((after["decoded"], after["loaded"]), (before["decoded"], before["loaded"]))

    def test_validation_beside_training(self):
        """A training job takes what room is left, and the validation set stays."""
        daemon = self.daemon(MEMORY.format(arena="32MiB", encoded="4MiB"))
        training = self.loader(daemon, self.dataset, 16, TRAIN)
        validation = self.loader(daemon, self.dataset, 16, VALIDATION, shuffle=False)
        self.run_epochs(validation, 1)
        for _ in range(3):
            self.run_epochs(training, 1)
            before = daemon.status()["samples"]["decoded"]
            self.run_epochs(validation, 1)
            self.assertLessEqual(daemon.status()["samples"]["decoded"] - before, COUNT // 10)

    def test_a_part_of_the_files_stays(self):
        """With encoded memory for three quarters of the files, an epoch after the first reads what does not stay.
        Memory for eight of the 24 chunks is for these, so that they are shuffled."""
        daemon = self.daemon(MEMORY.format(arena="8MiB", encoded=f"{self.bytes * 3 // 4 + (1 << 20)}B"))
        loader = self.loader(daemon, self.dataset, 16, TRAIN)
        self.run_epochs(loader, 1)
        first = daemon.status()["samples"]["loaded_bytes"]
        self.assertAlmostEqual(first / self.bytes, 1, delta=0.05)
        self.run_epochs(loader, 3)
        again = (daemon.status()["samples"]["loaded_bytes"] - first) / 3 / self.bytes
        print(f"{again:.3f} of all bytes are read again", flush=True)
        self.assertLess(again, 0.7)
        self.assertGreater(again, 0.3)


if __name__ == "__main__":
    main()
