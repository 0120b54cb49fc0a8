"""What the Python package tells its script beside the batches: samples lost, look-ahead shortened, the length."""

import os

import above  # noqa: F401
from system import CONFIG, PIPELINE, Case, larder, main, make_tree, tree

BATCH = 10


class Told(Case):
    def spoiled(self, count, bad):
        """A tree of which so many files are no images."""
        folder = make_tree(os.path.join(self.folder, "tree"), count)
        label = sorted(os.listdir(folder))[0]
        names = sorted(os.listdir(os.path.join(folder, label)))[:bad]
        self.assertEqual(len(names), bad)
        for name in names:
            with open(os.path.join(folder, label, name), "wb") as file:
                file.write(b"no image")
        return folder

    def test_lost_samples(self):
        """The log has the first bad sample of an epoch, and later ones when there are twice as many; len() is the
        number of batches that come, and stays so in the next epoch."""
        loader = self.loader(self.daemon(CONFIG + "limits: {bad: 50%}\n"), self.spoiled(61, 5), batch_size=BATCH)
        self.assertEqual(len(loader), 7)
        with self.assertLogs("larder", "WARNING") as said, self.assertWarns(larder.BadSamplesWarning):
            batches = len(list(loader))
        self.assertEqual((batches, len(loader), loader.lost), (6, 6, 5))
        self.assertLessEqual(len(said.output), 3)
        self.assertIn("of epoch 0 could not be read or decoded so far", said.output[0])
        epoch = iter(loader)
        self.assertEqual(len(loader), 6)
        self.assertEqual(len(list(epoch)), 6)
        loader.close()

    def test_replaced_samples(self):
        """Where others take the place of bad samples, there are as many batches as ever."""
        loader = self.loader(self.daemon(CONFIG + "limits: {bad: 50%}\n"), self.spoiled(61, 5), batch_size=BATCH,
                             bad_samples="replace")
        with self.assertWarns(larder.BadSamplesWarning):
            batches = len(list(loader))
        self.assertEqual((batches, len(loader)), (7, 7))

    def test_shortened(self):
        """At an epoch's end the log says once that the arena has no room for the look-ahead."""
        server = self.daemon(CONFIG.replace("128MiB", "8MiB"))
        loader = self.loader(server, tree(200), batch_size=BATCH, prefetch=64,
                             pipeline=[{"resize": {"size": [200, 200]}}])
        with self.assertLogs("larder", "WARNING") as said:
            for _ in range(2):
                self.assertEqual(len(list(loader)), 20)
        self.assertEqual(len(said.output), 1, said.output)
        self.assertRegex(said.output[0], r"prepares \d+ batches ahead, where prefetch asks for 64")

    def test_stall_is_not_needed(self):
        """Without a control socket, and before the first epoch, stats() does not say what the waiting was for."""
        server = self.daemon(CONFIG + "control: {enabled: false}\n")
        loader = self.loader(server, tree(60), batch_size=BATCH)
        self.assertIsNone(loader.stats()["stall"])
        self.assertEqual(len(list(loader)), 6)
        stats = loader.stats()
        self.assertIsNone(stats["stall"])
        self.assertEqual((stats["samples"], stats["batches"], stats["reconnects"]), (60, 6, 0))


if __name__ == "__main__":
    main()
