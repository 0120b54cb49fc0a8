"""Epochs that are multisets, with the real daemon: repeat, Weights and Balanced. A ledger of what scripts got says that
each position came as often as its multiplicity, with ranks, through kill -9 of the daemon and of scripts, and when
other ranks go on from a state."""

import os
import threading
from collections import Counter

import above  # noqa: F401
import numpy as np
import system
from system import SLOW, larder

from larder import _record, _state

PLAIN = [{"resize": {"size": 32}}, {"center_crop": {"size": 32}}]
TRAIN = [{"random_resized_crop": {"size": 32}}, "random_horizontal_flip"]
COUNT, CLASSES = 120, 10
# Each check of chi-square is passed by draws as they should be but with a chance of one in a million; seeds are fixed,
# so it passes always or never.
SIGMAS = 4.75


def chi_square(observed, expected):
    """How far the draws are from what is expected, in the sigmas of a normal number (Wilson and Hilferty)."""
    chi = float((((observed - expected) ** 2) / expected).sum())
    freedom = len(expected) - 1
    return ((chi / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / (2 / (9 * freedom)) ** 0.5


class Samplers(system.Case):
    def counts(self, loader, count=COUNT):
        """How often each position comes in the loader's next epoch."""
        drawn = np.concatenate([batch[-1] for batch in loader])
        return np.bincount(drawn, minlength=count)

    def in_step(self, loaders, batches):
        """How often each position comes in so many batches of each rank. The ranks train side by side. None: in the
        rest of their epoch."""
        batches_of = self.batches_of(loaders, batches)
        return Counter(index for rank in batches_of for batch in rank for index in batch)

    def batches_of(self, loaders, batches):
        """The positions in so many batches, by rank and batch."""
        got = [[] for _ in loaders]

        def train(rank):
            iterator = self.iterators[rank]
            for _ in range(batches) if batches is not None else iter(int, 1):
                batch = next(iterator, None)
                if batch is None:
                    return
                got[rank].append(batch[-1].tolist())

        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(len(loaders))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return got

    def ranks(self, daemon, world_size, **options):
        return [self.loader(daemon, self.dataset, 8, TRAIN, name="train", rank=rank, world_size=world_size,
                            **options) for rank in range(world_size)]

    def setUp(self):
        super().setUp()
        self.dataset = system.tree(COUNT, classes=CLASSES)

    def samplers(self):
        weights = np.random.default_rng(3).random(COUNT) ** 3
        return {"repeat": {"repeat": 3}, "weights": {"sampler": larder.Weights(weights, 300), "seed": 7},
                "balanced": {"sampler": larder.Balanced(203), "seed": 7}}


class Ledger(Samplers):
    def multiplicities(self, daemon, options, epochs):
        """Of each epoch, as a job of one rank gets them from beginning to end: what is drawn depends on the seed and
        the epoch alone."""
        loader = self.loader(daemon, self.dataset, 8, PLAIN, **options)
        return [self.counts(loader) for _ in range(epochs)]

    def test_draws(self):
        """Of 20 epochs each has as many draws as it should, repeat each sample 3 times, Balanced each class as often
        and within it each sample; Weights' draws are in proportion to the weights, by chi-square, and differ from epoch
        to epoch. len() is the number of batches."""
        daemon = self.daemon()
        drawn = {name: self.multiplicities(daemon, options, 20) for name, options in self.samplers().items()}
        self.assertTrue(all((counts == 3).all() for counts in drawn["repeat"]))
        labels = np.unique([os.path.dirname(path) for path in system.files_of(self.dataset)], return_inverse=True)[1]
        for counts in drawn["balanced"]:
            self.assertEqual(counts.sum(), 203)
            of_class = np.bincount(labels, counts)
            self.assertLessEqual(of_class.max() - of_class.min(), 1)
            for label in range(CLASSES):
                own = counts[labels == label]
                self.assertLessEqual(own.max() - own.min(), 1)
        weights = self.samplers()["weights"]["sampler"].weights
        total = sum(drawn["weights"])
        self.assertEqual([counts.sum() for counts in drawn["weights"]], [300] * 20)
        self.assertEqual(len({counts.tobytes() for counts in drawn["weights"]}), 20)
        expected = weights / weights.sum() * total.sum()
        few = expected < 5  # chi-square wants enough of each
        pooled = [np.append(each[~few], each[few].sum()) for each in (total, expected)]
        self.assertLess(chi_square(*pooled), SIGMAS)

    def test_through_everything(self):
        """20 epochs by 1, 2 and 4 ranks, of which some end in the middle: the daemon is killed, or a state is saved and
        loaded by another number of ranks. Each position comes as often as its multiplicity."""
        for name, options in self.samplers().items():
            with self.subTest(sampler=name):
                self.through_everything(options)

    def through_everything(self, options):
        daemon = self.daemon()
        wanted = self.multiplicities(daemon, options, 20)
        epoch, leg, state, got = 0, 0, None, Counter()
        while epoch < 20:
            world_size = (1, 4, 2, 1, 2, 4, 4)[leg % 7]
            loaders = self.ranks(daemon, world_size, state=state, **options)
            for loader in loaders if state is None else ():
                loader.set_epoch(epoch)
            self.iterators = [iter(loader) for loader in loaders]
            got.update(self.in_step(loaders, 1 + leg % 3))
            if leg % 3 == 1:
                daemon.kill()
                daemon = self.daemon()
            got.update(self.in_step(loaders, 1))
            if leg % 4 == 2:  # other ranks go on with the epoch
                state = loaders[-1].state_dict()
            else:
                got.update(self.in_step(loaders, None))
                over = np.array([got[index] for index in range(COUNT)]) - wanted[epoch]
                # Ranks get equally many: a few of the epoch's samples come again to fill their shares up.
                words = f"epoch {epoch}, {world_size} ranks"
                self.assertTrue((over >= 0).all(), f"{words}: {np.flatnonzero(over < 0)} is missing")
                self.assertLess(over.sum(), 4 if state is None else 7, words)
                self.assertTrue((over[wanted[epoch] == 0] == 0).all(), words)
                epoch, state, got = epoch + 1, None, Counter()
            for loader in loaders:
                loader.close()
            self.assertTrue(system.until(lambda: "train" not in daemon.jobs(), 30))
            leg += 1
        daemon.stop()

    def test_a_script_is_killed(self):
        """Of two scripts, ranks of a job, one is killed and started again: what it had not released comes again, and
        each sample comes twice."""
        daemon = self.daemon(system.CONFIG + "limits:\n  rank_timeout: 30\n")
        options = {"dataset": self.dataset, "pipeline": TRAIN, "batch_size": 8, "epochs": 1, "name": "train",
                   "repeat": 2, "timeout": 60 * SLOW, "world_size": 2}
        go = os.path.join(self.folder, "go")
        first = self.script(daemon, rank=0, **options)
        other = self.script(daemon, rank=1, pause=[3, go], **options)
        self.assertTrue(system.until(lambda: len(other.batches) == 3, 30), other.errors)
        other.kill()
        other.wait()
        again = self.script(daemon, rank=1, **options)
        for script in (first, again):
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        batches = first.batches + other.batches + again.batches
        got = Counter(index for _, _, indices in batches for index in indices)
        self.assertEqual(got, Counter({index: 2 for index in range(COUNT)}))

    def test_drop_last(self):
        """Under drop_last batches are whole, and nothing comes more often than it should."""
        daemon = self.daemon()
        for world_size in (1, 2, 4):
            loaders = self.ranks(daemon, world_size, drop_last=True, repeat=3)
            self.iterators = [iter(loader) for loader in loaders]
            got = self.batches_of(loaders, None)
            self.assertEqual([len(rank) for rank in got], [360 // world_size // 8] * world_size)
            self.assertEqual([len(loader) for loader in loaders], [360 // world_size // 8] * world_size)
            counts = Counter(index for rank in got for batch in rank for index in batch)
            self.assertLessEqual(max(counts.values()), 3)
            for loader in loaders:
                loader.close()
            self.assertTrue(system.until(lambda: "train" not in daemon.jobs(), 30))

    def test_copies_are_together(self):
        """repeat=3: of three ranks each gets one copy of each sample; in planned order the copies of a sample come in
        the same step, and no two of them have the same pixels."""
        daemon = self.daemon()
        loaders = self.ranks(daemon, 3, repeat=3, ordered=True)
        self.iterators, pixels = [iter(loader) for loader in loaders], {}
        places = [{} for _ in loaders]

        def train(rank):
            for number, (images, _, indices) in enumerate(self.iterators[rank]):
                for image, index in zip(images, indices.tolist()):
                    self.assertNotIn(index, places[rank])
                    places[rank][index] = number
                    pixels.setdefault(index, set()).add(image.tobytes())

        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(had) for had in places], [COUNT] * 3)
        apart = [max(had[index] for had in places) - min(had[index] for had in places) for index in range(COUNT)]
        self.assertEqual(max(apart), 0)
        self.assertEqual({len(three) for three in pixels.values()}, {3})


    def test_copies_of_two_parts(self):
        """repeat=2 of two containers' parts of a job at one daemon, a rank each: both have each sample once, and no two
        of its copies have the same pixels."""
        daemon, pixels = self.daemon(), {}
        loaders = [self.loader(daemon, self.dataset, 8, TRAIN, name="train", rank=rank, world_size=2,
                               local_world_size=1, repeat=2) for rank in range(2)]
        for batches in zip(*loaders):
            for images, _, indices in batches:
                for image, index in zip(images, indices.tolist()):
                    pixels.setdefault(index, set()).add(image.tobytes())
        self.assertEqual([len(pixels[index]) for index in range(COUNT)], [2] * COUNT)


class Apart(Samplers):
    def legs(self, world_size, repeat, drop_last):
        """How often each rank got each sample of an epoch that was left three times: the daemon is killed, then a state
        is loaded, then the daemon is killed that goes on from it, and again a state is loaded. Ranks are some batches
        apart when that happens."""
        daemon, got, state = self.daemon(), [Counter() for _ in range(world_size)], None
        for leg in range(3):
            loaders = self.ranks(daemon, world_size, repeat=repeat, drop_last=drop_last, state=state)
            self.iterators = [iter(loader) for loader in loaders]
            had = self.batches_of(loaders, 1)
            had[-1].append(next(self.iterators[-1])[-1].tolist())
            daemon.kill()
            daemon = self.daemon()
            more = self.batches_of(loaders, None if leg == 2 else 1)
            had = [one + other for one, other in zip(had, more)]
            if leg < 2:
                state = loaders[0].state_dict()
                had = [batches[:2] for batches in had]
            for rank, batches in enumerate(had):
                got[rank].update(index for batch in batches for index in batch)
            for loader in loaders:
                loader.close()
            self.assertTrue(system.until(lambda: "train" not in daemon.jobs(), 30))
        daemon.stop()
        return got

    def test_copies_at_other_ranks(self):
        """Each sample comes as often as it should, and to each rank once, where there are as many ranks as copies;
        else to each rank as often as to others, give or take one. The epoch divides, so nothing is filled up."""
        for world_size, repeat, drop_last in ((2, 2, False), (3, 2, False), (4, 3, False), (4, 2, True), (3, 3, True),
                                              (2, 3, False)):
            with self.subTest(world_size=world_size, repeat=repeat, drop_last=drop_last):
                got = self.legs(world_size, repeat, drop_last)
                most = -(-repeat // world_size)
                self.assertLessEqual(max(max(counts.values()) for counts in got), most)
                times = sum(got, Counter())
                if drop_last:
                    self.assertLessEqual(max(times.values()), repeat)
                    self.assertEqual(times.total(), COUNT * repeat // world_size // 8 * 8 * world_size)
                else:
                    self.assertEqual(times, dict.fromkeys(range(COUNT), repeat))


class Parts(Samplers):
    def parts(self, daemon, **options):
        return larder.Parts(self.loader(daemon, self.dataset, 7, TRAIN, repeat=3, **options), 3)

    def test_whole(self):
        """The parts of an epoch have all of its draws between them, and as many batches as len() said, whatever part
        is left early."""
        train, drawn = self.parts(self.daemon()), []
        for epoch in range(6):
            train.sampler.set_epoch(epoch)
            said, batches = len(train), []
            for batch in train:
                self.assertEqual(len(train), said)  # as a progress bar asks
                batches.append(batch)
                if epoch == 1:
                    break
            self.assertEqual(len(batches), said if epoch != 1 else 1)
            drawn += [index for batch in batches for index in batch[-1].tolist()]
            if epoch == 1:
                drawn += [index for batch in train for index in batch[-1].tolist()]
            if epoch % 3 == 2:
                self.assertEqual(Counter(drawn), dict.fromkeys(range(COUNT), 3))
                drawn = []
        self.assertEqual((train.epoch, train.dataset_size), (2, COUNT))

    def test_states(self):
        """A state goes on with the rest of its part, and the next parts follow."""
        daemon = self.daemon()
        train = self.parts(daemon)
        drawn = [index for batch in train for index in batch[-1].tolist()]
        part = iter(train)
        for _ in range(4):
            drawn += next(part)[-1].tolist()
        rest, state = len(train) - 4, train.state_dict()
        again = self.parts(daemon)
        again.load_state_dict(state)
        self.assertEqual(len(again), rest)
        for _ in range(2):
            drawn += [index for batch in again for index in batch[-1].tolist()]
        self.assertEqual(Counter(drawn), dict.fromkeys(range(COUNT), 3))
        self.assertEqual(again.epoch, 1)


class Shared(Samplers):
    def test_four_jobs_with_repeat(self):
        """Four jobs with repeat=3 take at most .26 preparations a delivered sample."""
        prepared, delivered = self.together((3, 3, 3, 3), {3: 2})
        self.assertLessEqual(prepared, 0.26 * delivered)

    def test_with_and_without(self):
        """A job with repeat=3 and one without share: what the one without gets was prepared for the other."""
        prepared, delivered = self.together((3, 1), {3: 2, 1: 2})
        self.assertEqual(delivered, 8 * COUNT)
        self.assertLessEqual(prepared, 6.2 * COUNT)

    def together(self, repeats, epochs):
        daemon = self.daemon(system.CONFIG.replace("128MiB", "256MiB"))
        go = os.path.join(self.folder, "go")
        if os.path.exists(go):
            os.remove(go)
        scripts = [self.script(daemon, dataset=self.dataset, pipeline=TRAIN, batch_size=8, epochs=epochs[repeat],
                               repeat=repeat, start_after=go, name=f"script-{number}", timeout=60 * SLOW)
                   for number, repeat in enumerate(repeats)]
        self.assertTrue(system.until(lambda: len(daemon.jobs()) == len(repeats), 60), [each.errors for each in scripts])
        open(go, "w").close()
        for script, repeat in zip(scripts, repeats):
            self.assertEqual(script.wait(240), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [sorted(list(range(COUNT)) * repeat)] * epochs[repeat])
        samples = daemon.status()["samples"]
        print(f"{repeats}: prepared {samples['prepared']}, delivered {samples['delivered']}", flush=True)
        daemon.stop()
        return samples["prepared"], samples["delivered"]

    def test_weights(self):
        """Two jobs with the same weights and seed share what they draw."""
        daemon, options = self.daemon(), self.samplers()["weights"]
        loaders = [self.loader(daemon, self.dataset, 10, TRAIN, **options) for _ in range(2)]
        got = [[] for _ in loaders]
        for batches in zip(*loaders):
            for had, batch in zip(got, batches):
                had += batch[-1].tolist()
        self.assertEqual(Counter(got[0]), Counter(got[1]))
        samples = daemon.status()["samples"]
        self.assertEqual(samples["delivered"], 600)
        self.assertLessEqual(samples["prepared"], 330)


class Refused(Samplers):
    def test_arguments(self):
        """What cannot be is refused with a text that says what to do."""
        daemon = self.daemon()
        for options, text in (({"repeat": 65}, "repeat is 65, not a whole number from 1 to 64"),
                              ({"repeat": 2, "sampler": larder.Balanced()}, "give one of the two"),
                              ({"repeat": 2, "shuffle": "strict"}, "leave shuffle out"),
                              ({"sampler": larder.Balanced(), "labels": [0] * COUNT}, "goes by the dataset's own"),
                              ({"sampler": [1, 2]}, r"sampler= is a list.* larder.Weights\(weights, n\) or"),
                              ({"sampler": larder.Weights([1.0] * 7)}, "there are 7 weights, and the dataset has 120"),
                              ({"sampler": larder.Weights([1.0] + [0] * 119), "subset": larder.Range(1, 9)},
                               "sum up to 0: some must be above 0")):
            with self.assertRaisesRegex(larder.InvalidArgument, text):
                self.loader(daemon, self.dataset, **options)
        for weights, text in (([], "shape"), ([[1.0]], "shape"), ([1, -1], "sample 1 is -1"),
                              ([0, 0], "all weights are"), (["a"], "a number for each"),
                              ([float("nan")], "sample 0 is nan")):
            with self.assertRaisesRegex(larder.InvalidArgument, text):
                larder.Weights(weights)
        with self.assertRaisesRegex(larder.InvalidArgument, "n is 0"):
            larder.Balanced(0)

    def test_other_ranks_and_states(self):
        """Ranks that differ in it are refused, and so is a state of other epochs, whatever it is."""
        daemon, samplers = self.daemon(), self.samplers()
        first = self.loader(daemon, self.dataset, name="train", rank=0, world_size=2, repeat=3)
        with self.assertRaisesRegex(larder.InvalidArgument, "rank 1 has another repeat or sampler"):
            self.loader(daemon, self.dataset, name="train", rank=1, world_size=2, repeat=2)
        first.close()
        loader = self.loader(daemon, self.dataset, **samplers["repeat"])
        next(iter(loader))
        state = loader.state_dict()
        self.assertEqual(state["sampler"], "repeat=3")
        for options in ({}, {"repeat": 2}, samplers["weights"]):
            with self.assertRaisesRegex(larder.InvalidArgument, "the state is of epochs with repeat=3, and this"):
                self.loader(daemon, self.dataset, state=state, **options)

    def test_more_than_the_epoch_has(self):
        """A state that says that a sample was taken which its epoch does not have, or more often than it has it, ends
        the job with a text; so does one of more draws than there are. The next job is none the worse."""
        daemon, options = self.daemon(), self.samplers()["weights"]
        loader = self.loader(daemon, self.dataset, 10, TRAIN, **options)
        for batch, _ in zip(loader, range(3)):
            state = loader.state_dict()
        loader.close()
        known = _state.from_dict(state)
        counts = _record.counts_of(known.base.taken, COUNT)
        wanted = self.counts(self.loader(daemon, self.dataset, 10, PLAIN, **options))
        never, least = int(np.flatnonzero(wanted == 0)[0]), int(np.flatnonzero((wanted == 1) & (counts == 0))[0])
        for index, times, error, text in ((never, 1, larder.InvalidArgument, "more often than this epoch has it"),
                                          (least, 2, larder.InvalidArgument, "more often than this epoch has it"),
                                          (least, 400, larder.FormatError, "draws of an epoch of 300 were taken")):
            wrong = counts.copy()
            wrong[index] = times
            base = known.base._replace(taken=_record.sets_of(wrong))
            made = _state.to_dict(known._replace(base=base))
            with self.assertRaisesRegex(error, text):
                next(iter(self.loader(daemon, self.dataset, 10, TRAIN, state=made, **options)))
        again = self.loader(daemon, self.dataset, 10, TRAIN, state=state, **options)
        self.assertEqual((self.counts(again) + counts).tolist(), wanted.tolist())

    def test_status(self):
        """`larder status` has the draws of an epoch."""
        daemon = self.daemon()
        loader = self.loader(daemon, self.dataset, 8, TRAIN, name="train", repeat=3)
        self.assertEqual((len(loader), loader.dataset_size), (45, COUNT))
        next(iter(loader))
        job = daemon.jobs()["train"]
        self.assertEqual((job["epoch_samples"], job["view_samples"]), (360, COUNT))


if __name__ == "__main__":
    system.main()
