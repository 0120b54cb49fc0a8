"""Pipelines by epoch (progressive resizing): each epoch has its own, every sample once, over states and deaths."""

import pickle
import threading

import above  # noqa: F401
from system import Case, larder, main, tree

COUNT = 40


def crop(size):
    return [larder.RandomResizedCrop(size)]


SIZES = {0: crop(16), 2: crop(24), 3: crop(16)}


class Sizes(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, classes=3)

    def epoch(self, loader):
        """The next epoch's sizes and positions, the latter sorted."""
        sizes, positions = set(), []
        for images, _, indices in loader:
            sizes.add(images.shape[1])
            positions += indices.tolist()
        return sizes, sorted(positions)

    def has(self, loader, *sizes):
        for size in sizes:
            self.assertEqual(self.epoch(loader), ({size}, list(range(COUNT))))

    def test_given(self):
        """Each holds until the next, with and without a name, and where the next epoch would be requested ahead."""
        daemon = self.daemon()
        for options in ({}, {"name": "run"}, {"epochs": 5}, {"shuffle": "strict"}):
            with self.subTest(**options):
                loader = self.loader(daemon, self.dataset, 16, None, pipelines=SIZES, **options)
                self.has(loader, 16, 16, 24, 16, 16)
                self.assertEqual((loader.epoch, loader.name), (5, "run~3" if "name" in options else loader.name))
                loader.close()

    def test_set(self):
        """set_pipeline acts from the next epoch on; the one that goes on keeps its own. A copy has it too."""
        loader = self.loader(self.daemon(), self.dataset, 16, crop(16))
        batches = iter(loader)
        first = next(batches)
        loader.set_pipeline(crop(32))
        rest = [first, *batches]
        self.assertEqual([batch[0].shape[1] for batch in rest], [16, 16, 16])
        self.assertEqual(sorted(index for batch in rest for index in batch[2].tolist()), list(range(COUNT)))
        copy = pickle.loads(pickle.dumps(loader))
        self.has(loader, 32)
        self.has(copy, 32)
        copy.close()
        loader.set_pipeline(crop(16))
        loader.set_epoch(7)
        self.has(loader, 16)
        loader.set_epoch(0)
        self.has(loader, 16, 32, 16)

    def test_left_early(self):
        """Epochs that are broken off count as epochs; views of the last one that are still held stand in nobody's
        way."""
        loader = self.loader(self.daemon(), self.dataset, 16, None, pipelines=SIZES, zero_copy=True, name="run")
        held = []
        for size in (16, 16, 24, 16):
            batch = next(iter(loader))
            held.append(batch)
            self.assertEqual(batch[0][0].shape[0], size)

    def test_states(self):
        """An epoch goes on from its state with its own pipeline, which the state knows where the script does not
        say."""
        daemon = self.daemon()
        for shuffle in ("dependent", "strict"):
            loader = self.loader(daemon, self.dataset, 16, None, pipelines=SIZES, shuffle=shuffle)
            self.has(loader, 16, 16)
            batches = iter(loader)
            taken = next(batches)[2].tolist()
            state = loader.state_dict()
            for options in ({"pipelines": SIZES}, {"pipeline": crop(16)}):
                with self.subTest(shuffle, options=list(options)):
                    pipeline = options.pop("pipeline", None)
                    again = self.loader(daemon, self.dataset, 16, pipeline, shuffle=shuffle, state=state, **options)
                    sizes, positions = self.epoch(again)
                    self.assertEqual((sizes, sorted(positions + taken)), ({24}, list(range(COUNT))))
                    self.has(again, 16, 16)
                    again.close()
            damaged = dict(state, pipelines=[[1, "[]"], [0, "[]"]])
            with self.assertRaisesRegex(larder.FormatError, "damaged"):
                loader.load_state_dict(damaged)

    def test_daemon_dies(self):
        """An epoch of a later pipeline goes on in the next daemon."""
        daemon = self.daemon()
        loader = self.loader(daemon, self.dataset, 8, None, pipelines=SIZES, name="run")
        self.has(loader, 16, 16)
        batches, positions = iter(loader), []
        for _ in range(2):
            positions += next(batches)[2].tolist()
        daemon.kill()
        self.daemon()
        for images, _, indices in batches:
            self.assertEqual(images.shape[1], 24)
            positions += indices.tolist()
        self.assertEqual(sorted(positions), list(range(COUNT)))
        self.has(loader, 16)

    def test_ranks(self):
        """Two ranks change at the same epochs, and share each of them."""
        daemon = self.daemon()
        got = [[], []]

        def run(rank):
            loader = self.loader(daemon, self.dataset, 8, None, pipelines=SIZES, name="run", rank=rank, world_size=2)
            for _ in range(4):
                got[rank].append(self.epoch(loader))
            loader.close()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([[sizes for sizes, _ in rank] for rank in got], [[{16}, {16}, {24}, {16}]] * 2)
        for epoch in range(4):
            self.assertEqual(sorted(got[0][epoch][1] + got[1][epoch][1]), list(range(COUNT)))

    def test_refused(self):
        """What is no schedule is refused with what one is."""
        daemon = self.daemon()
        for pipelines, pipeline, words in (({1: []}, None, "none for epoch 0"), ([[]], None, "no dictionary"),
                                           ({0: []}, [], "pipelines too"), ({-1: [], 0: []}, None, "an epoch of")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                self.loader(daemon, self.dataset, 8, pipeline, pipelines=pipelines)


if __name__ == "__main__":
    main()
