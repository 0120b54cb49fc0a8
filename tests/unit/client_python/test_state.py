"""Checkpoints: a state says where the training loop stands, and a Loader that is given it goes on with exactly the
rest; what is no state, or of something else, is refused in clear words."""

import base64
import io
import json
import os
import pickle
import random
import statistics
import time
import unittest
import warnings
import zlib

from support import Case, larder, main
from test_lifetime import in_child
from larder import _history, _record, _state, _wire

import numpy as np

try:
    import torch
except ImportError:
    torch = None

SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))


def indices_of(batches):
    return [index for batch in batches for index in batch[-1].tolist()]


class States(Case):
    def loader(self, **options):
        loader = super().loader(**{"with_ids": True, **options})
        self.addCleanup(loader.close)
        return loader

    def restored(self, state, **options):
        """What the next epoch of a new Loader gives that was given the state, and that Loader."""
        loader = self.loader(state=state, **options)
        return indices_of(loader), loader


class Places(States):
    """Where a state can be taken, and what it then is."""

    def test_between_any_two_batches(self):
        """Saved after each batch, before the first and after the last, in each order and with each way of delivery: the
        epoch that goes on and the one that is restored have exactly the rest. A prefetched batch is not taken."""
        self.daemon(n_samples=45)
        for shuffle in ("dependent", "strict", "none"):
            for options in ({}, {"zero_copy": True}, {"drop_last": True}, {"prefetch": 7}, {"epochs": 2}):
                with self.subTest(shuffle=shuffle, **options):
                    loader = self.loader(shuffle=shuffle, seed=3, **options)
                    states, seen, whole = [loader.state_dict()], [], []
                    for batch in loader:
                        seen.append(batch[-1].tolist())
                        del batch
                        states.append(loader.state_dict())
                    states.append(loader.state_dict())
                    whole = sum(seen, [])
                    self.assertEqual([state["epoch"] for state in states], [0] * (len(seen) + 1) + [1])
                    self.assertEqual([state["batches"] for state in states], [*range(len(seen) + 1), 0])
                    for taken, state in enumerate(states[:-1]):
                        rest, again = self.restored(state, shuffle=shuffle, seed=3, **options)
                        if shuffle != "dependent":
                            self.assertEqual(rest, sum(seen[taken:], []))
                        elif "drop_last" not in options:
                            self.assertEqual(sorted(rest), sorted(sum(seen[taken:], [])))
                        self.assertEqual(len(rest), len(whole) - len(sum(seen[:taken], [])))
                        self.assertFalse(set(rest) & set(sum(seen[:taken], [])))
                        self.assertEqual(again.epoch, 1)
                        self.assertEqual(len(indices_of(again)), len(whole))
                    loader.close()

    def test_it_does_not_disturb_the_epoch(self):
        """With a state after each batch the order is that of an epoch without."""
        self.daemon(n_samples=60)
        plain = indices_of(self.loader(shuffle="strict"))
        loader = self.loader(shuffle="strict")
        seen = []
        for batch in loader:
            seen += batch[-1].tolist()
            self.assertEqual(loader.state_dict(), loader.state_dict())
        self.assertEqual(seen, plain)

    def test_after_the_last_batch(self):
        """After the last batch and before the loop has ended: all of this epoch was taken, and a Loader that goes on
        there gives an empty epoch, and then the next. Once the loop has ended: the next epoch, and nothing of it."""
        daemon = self.daemon()
        for empty_last in (False, True):
            daemon.empty_last = empty_last
            loader = self.loader()
            iterator = iter(loader)
            seen = [next(iterator) for _ in range(4)]
            self.assertEqual(len(indices_of(seen)), 20)
            before_end = loader.state_dict()
            self.assertEqual(list(iterator), [])
            after_end = loader.state_dict()
            self.assertEqual((before_end["epoch"], after_end["epoch"], after_end["batches"]), (0, 1, 0))
            rest, again = self.restored(before_end)
            self.assertEqual((rest, again.epoch, again.state_dict()), ([], 1, after_end))
            self.assertEqual((sorted(indices_of(again)), again.epoch), (list(range(20)), 2))
            rest, again = self.restored(after_end)
            self.assertEqual((sorted(rest), again.epoch), (list(range(20)), 2))

    def test_after_an_early_break(self):
        """An epoch that was left stays the present one until the next begins; the state of one that an error broke off
        has what was taken of it."""
        daemon = self.daemon(n_samples=60)
        loader = self.loader()
        for batch in loader:
            seen = batch[-1].tolist()
            break
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["batches"]), (0, 1))
        rest, _ = self.restored(state)
        self.assertEqual(sorted(seen + rest), list(range(60)))
        iterator = iter(loader)
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batches"]), (1, 0))
        del iterator
        daemon.error_after = 3
        loader = self.loader()
        seen = []
        with self.assertRaises(larder.BadSample):
            for batch in loader:
                seen += batch[-1].tolist()
        daemon.error_after = None
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["batches"]), (0, 3))
        rest, _ = self.restored(state)
        self.assertEqual(sorted(seen + rest), list(range(60)))
        self.assertEqual(sorted(indices_of(loader)), list(range(60)))  # without the state it begins again

    def test_it_goes_on_here_as_elsewhere(self):
        """A state may be loaded before the Loader was used, in the middle of its epoch, and after it; the iterator that
        there was is over. The epoch and what follows are those of the state."""
        daemon = self.daemon(n_samples=60)
        first = self.loader()
        iterator = iter(first)
        seen = indices_of([next(iterator), next(iterator)])
        state = first.state_dict()
        loader = self.loader(name="mine")
        for use in (lambda: None, lambda: next(iter(loader)), lambda: list(loader), lambda: loader.set_epoch(7)):
            use()
            loader.load_state_dict(state)
            self.assertEqual((loader.epoch, loader.state_dict()), (0, state))
            self.assertEqual(len(loader), 10)
            self.assertEqual((loader.epoch, loader.state_dict()), (0, state))
            self.assertEqual(sorted(seen + indices_of(loader)), list(range(60)))
            self.assertEqual((loader.epoch, loader.name), (1, "mine"))
        older = iter(loader)
        next(older)
        loader.load_state_dict(state)
        with self.assertRaisesRegex(larder.LarderError, "or a state was loaded"):
            next(older)
        self.assertEqual(daemon.problems, [])

    def test_set_epoch(self):
        """set_epoch to the epoch of a state keeps it, to another one drops it."""
        self.daemon(n_samples=60)
        first = self.loader()
        first.set_epoch(3)
        seen = indices_of([next(iter(first))])
        state = first.state_dict()
        self.assertEqual(state["epoch"], 3)
        for epoch in (3, 2, 4):
            loader = self.loader(state=state)
            loader.set_epoch(epoch)
            self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batches"]), (epoch, epoch == 3))
            self.assertEqual(sorted(indices_of(loader) + seen * (epoch == 3)), list(range(60)))
            self.assertEqual(loader.epoch, epoch + 1)

    def test_a_chain_of_them(self):
        """Saved and restored again and again at random (seeded), every sample comes once, in the strict order without a
        gap."""
        rng = random.Random(SEED)
        self.daemon(n_samples=150)
        for shuffle in ("dependent", "strict", "none") * 4:
            state, seen = None, []
            plain = indices_of(self.loader(shuffle=shuffle, seed=9))
            while len(seen) < 150:
                loader = self.loader(batch_size=rng.randrange(1, 9), shuffle=shuffle, seed=9, state=state)
                for _, batch in zip(range(rng.randrange(8)), loader):
                    seen += batch[-1].tolist()
                if len(seen) < 150:
                    state = loader.state_dict()
                loader.close()
            self.assertEqual(sorted(seen), list(range(150)), SEED)
            if shuffle != "dependent":
                self.assertEqual(seen, plain, SEED)

    def test_subsets_and_bad_samples(self):
        """Of a subset only its samples count. Bad ones are tried again after a restore where they were skipped, and are
        over where others took their places; the numbers of a fixed order do not shift."""
        view, bad = [3 * i for i in range(20)], (3, 27, 57)
        self.daemon(n_samples=20, indices=view, dataset_samples=64, bad=bad)
        for shuffle in ("dependent", "strict", "none"):
            for policy in ("skip", "replace"):
                for relabel in (False, True):
                    if shuffle != "dependent" and policy == "replace":
                        continue
                    options = {"shuffle": shuffle, "seed": 5, "bad_samples": policy, "relabel": relabel,
                               "subset": larder.Range(0, 58)}
                    with self.subTest(**options):
                        loader = self.loader(**options)
                        iterator = iter(loader)
                        seen = indices_of([next(iterator), next(iterator)])
                        state = loader.state_dict()
                        rest, _ = self.restored(state, **options)
                        self.assertEqual(json.loads(state["subset"]), {"range": [0, 58]})
                        self.assertEqual(set(seen + rest), set(view) - set(bad))
                        self.assertEqual(len(seen + rest), 17 if policy == "skip" else 20)
                        if shuffle != "dependent":
                            self.assertEqual(rest, indices_of(iterator))

    def test_copies(self):
        """A pickled Loader and a forked child begin whole epochs, whatever their original has taken; where a state was
        loaded that has not begun, they go on from it too."""
        self.daemon(n_samples=60)
        first = self.loader()
        next(iter(first))
        state = first.state_dict()
        for loader, count in ((first, 60), (self.loader(state=state), 54)):
            copy = pickle.loads(pickle.dumps(loader))
            self.assertEqual(len(indices_of(copy)), count)
            self.assertEqual(copy.state_dict()["batches"], 0)
            self.assertEqual(in_child(lambda: len(indices_of(loader)) == count), 0)
        self.assertEqual(len(indices_of(loader)), 54)

    def test_known_epochs(self):
        """The state of the last epoch's end leaves an empty epoch, and none after it."""
        self.daemon()
        loader = self.loader(epochs=2)
        list(loader)
        iterator = iter(loader)
        for _ in range(4):
            next(iterator)
        rest, again = self.restored(loader.state_dict(), epochs=2)
        self.assertEqual(rest, [])
        with self.assertRaises(larder.EpochsOver):
            iter(again)

    def test_the_last_epoch(self):
        """The last epoch that a Loader without an end may have is given whole. Then all are over, for it and for those
        that go on from its state."""
        self.daemon()
        for shuffle in ("dependent", "strict"):
            loader = self.loader(shuffle=shuffle)
            loader.set_epoch(2**32 - 2)
            self.assertEqual(sorted(indices_of(loader)), list(range(20)))
            state = loader.state_dict()
            self.assertEqual((loader.epoch, state["epoch"]), (2**32 - 1, 2**32 - 1))
            for over in (loader, self.loader(shuffle=shuffle, state=state)):
                with self.assertRaisesRegex(larder.EpochsOver, "all 4294967295 epochs"):
                    iter(over)
                over.set_epoch(7)
                self.assertEqual(sorted(indices_of(over)), list(range(20)))

    @unittest.skipUnless(torch, "this Python has no torch")
    def test_torch_keeps_it(self):
        """torch.save writes it, and torch.load reads it with weights_only."""
        self.daemon(n_samples=60)
        for shuffle in ("dependent", "strict"):
            loader = self.loader(shuffle=shuffle, output="torch")
            next(iter(loader))
            file = io.BytesIO()
            torch.save({"loader": loader.state_dict()}, file)
            file.seek(0)
            state = torch.load(file, weights_only=True)["loader"]
            self.assertEqual(state, loader.state_dict())
            rest = [index for batch in self.loader(shuffle=shuffle, output="torch", state=state)
                    for index in batch[-1].tolist()]
            self.assertEqual(len(rest), 54)


class Refused(States):
    """What is no state, or of something else."""

    def saved(self, **options):
        loader = self.loader(**options)
        next(iter(loader))
        return loader.state_dict()

    def check_of(self, state):
        return dict(state, check=_state._check_of({key: value for key, value in state.items() if key != "check"}))

    def test_of_something_else(self):
        """A state of another dataset, subset, shuffle, seed or pipeline is refused, in words that say which, and the
        Loader stays as it is. Seed and pipeline matter under strict alone; otherwise another pipeline is warned of."""
        daemon = self.daemon()
        states = {shuffle: self.saved(shuffle=shuffle, seed=1) for shuffle in ("dependent", "strict")}
        loader = self.loader(shuffle="dependent", seed=2)
        loader.load_state_dict(states["dependent"])
        with self.assertRaisesRegex(larder.InvalidArgument, "'strict', and this Loader has shuffle='dependent'"):
            loader.load_state_dict(states["strict"])
        self.assertEqual(loader.state_dict(), dict(states["dependent"], seed=2,
                                                   check=loader.state_dict()["check"]))
        with self.assertRaisesRegex(larder.InvalidArgument, "seed=1, and this Loader has seed=2"):
            self.loader(shuffle="strict", seed=2, state=states["strict"])
        with self.assertRaisesRegex(larder.InvalidArgument, "another pipeline"):
            self.loader(shuffle="strict", seed=1, state=states["strict"], pipeline=["grayscale"])
        with self.assertWarnsRegex(UserWarning, "another pipeline") as caught:
            self.loader(state=states["dependent"], pipeline=["grayscale"])
        self.assertEqual(caught.filename, __file__.replace("test_state", "support"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.loader(shuffle="strict", seed=1, state=states["strict"], pipeline=[" resize"[1:]])
        daemon.view = (13, 15)
        with self.assertRaisesRegex(larder.InvalidArgument, r'subset was None, and this Loader.s is .*range'):
            self.loader(state=states["dependent"], subset=larder.Range(0, 20))
        daemon.dataset = (11, 13)
        with self.assertRaisesRegex(larder.SourceChanged, "another dataset, of 20 samples, than '/data' is now"):
            self.loader(state=states["dependent"])
        other = self.loader()
        with self.assertRaises(larder.SourceChanged):
            other.load_state_dict(states["dependent"])
        self.assertEqual(len(indices_of(other)), 20)

    def test_of_another_version(self):
        """A state of files with other content is refused; of others with the same content, or of which nothing is said,
        it goes on. A state of before there were versions says nothing."""
        daemon = self.daemon()
        state = self.saved()
        self.assertEqual((state["times"], state["content"]), (f"{15:016x}{16:016x}", f"{17:016x}{18:016x}"))
        old = {key: value for key, value in state.items() if key not in ("times", "content")}
        for version in ((15, 16, 19, 18), (1, 2, 19, 18), (1, 2, 0, 0)):
            daemon.version = version
            with self.assertRaisesRegex(larder.SourceChanged, "another version of '/data'"):
                self.loader(state=state)
            other = self.loader()
            with self.assertRaisesRegex(larder.SourceChanged, "another version of '/data'"):
                other.load_state_dict(state)
            self.loader(state=self.check_of(dict(old, version=1)))
            self.assertEqual(daemon.records[-1]["version"], (0, 0, 0, 0))
        for version in ((15, 16, 17, 18), (1, 2, 17, 18), (15, 16, 0, 0), (0, 0, 0, 0)):
            daemon.version = version
            loader = self.loader(state=state)
            self.assertEqual(daemon.records[-1]["version"], (15, 16, 17, 18))
            self.assertEqual(loader.state_dict()["content"], f"{version[2]:016x}{version[3]:016x}")

    def test_of_wrong_form(self):
        """Each field that is missing, foreign or of a wrong type or value is named."""
        self.daemon()
        dependent, strict = self.saved(), self.saved(shuffle="strict")
        loader = self.loader()
        for state, words in (
                (None, "is a NoneType"), ([], "no states"), ({}, "has no version"), ({"version": 1}, "has no check"),
                (dict(dependent, version=3), "version 3, and this release of larder reads versions 1 to 2"),
                (dict(dependent, version=1), "content is foreign"),
                (dict(dependent, version="1"), "version '1'"), (dict(dependent, more=1), "more is foreign"),
                ({key: value for key, value in dependent.items() if key != "view"}, "view is missing"),
                (dict(dependent, epoch=-1), "epoch is -1, not 0 to"), (dict(dependent, epoch=2**32), "epoch is"),
                (dict(dependent, epoch=True), "epoch is True"), (dict(dependent, batches=1.0), "batches is a float"),
                (dict(dependent, samples=10**5000), "samples is a int"), (dict(dependent, seed=2**64), "seed is"),
                (dict(dependent, subset=b""), "subset is a bytes, no text"), (dict(dependent, taken=[]), "taken is"),
                (dict(strict, order=[[1]]), "order is a list"), (dict(strict, order=[[1, -1]]), "order is a list"),
                (dict(strict, order=[[1, 1]] * 65), "order is a list"), (dict(strict, order="b"), "order is 'b'"),
                (dict(strict, order=[[1, True]]), "order is a list"), (dict(dependent, epoch=1), "check does not fit"),
                (self.check_of(dict(dependent, shuffle="some")), "shuffle is 'some'"),
                (self.check_of(dict(dependent, shuffle="none")), "order is missing"),
                (self.check_of(dict(dependent, dataset="0" * 31)), "dataset is '0000"),
                (self.check_of(dict(dependent, view="G" * 32)), "view is 'GGG"),
                (self.check_of(dict(dependent, taken="bAAAA=")), "cannot be read"),
                (self.check_of(dict(dependent, taken="xAAAA")), "cannot be read"),
                (self.check_of(dict(dependent, taken="zAAAA")), "cannot be read"),
                (self.check_of(dict(dependent, taken="bAAAAAA==")), "has 4 bytes and not 3"),
                (self.check_of(dict(dependent, taken="bAAAA//")), "cannot be read|bytes and not 3"),
                (self.check_of(dict(dependent, taken="b////")), "beyond its 20 samples"),
                (self.check_of(dict(strict, order=[[2, 1, 2, 3]])), "2 ranks has 3 numbers"),
                (self.check_of(dict(strict, order=[[0, 1]])), "0 ranks"),
                (self.check_of(dict(strict, order=[[1, 21]])), "21 numbers of 20"),
                (self.check_of(dict(dependent, epoch=2**32 - 1)), "taken of epoch 4294967295"),
                (self.check_of(dict(strict, epoch=2**32 - 1)), "taken of epoch 4294967295"),
                (self.check_of(dict(strict, epoch=2**32 - 1, batches=0, order="all")), "epoch 4294967295 was taken")):
            with self.subTest(words), self.assertRaisesRegex(larder.LarderError, words):
                loader.load_state_dict(state)
        bomb = "z" + base64.b64encode(zlib.compress(bytes(1 << 24))).decode()
        with self.assertRaisesRegex(larder.FormatError, "cannot be read|bytes and not 3"):
            loader.load_state_dict(self.check_of(dict(dependent, taken=bomb)))
        self.assertEqual(len(indices_of(loader)), 20)

    def mutated(self, rng, state):
        """The state with something changed, as files are damaged and as people change them."""
        state = json.loads(json.dumps(state))
        for _ in range(rng.choice((1, 1, 2, 3))):
            key = rng.choice(list(state))
            value = state[key]
            if rng.random() < 0.1:
                del state[key]
            elif rng.random() < 0.1:
                state[key] = rng.choice((None, 1.5, -1, 2**70, "", "x", [], [[]], [["a"]], True, {}))
            elif rng.random() < 0.05:
                state[rng.choice(("a", "taken", "order", ""))] = value
            elif isinstance(value, str) and value:
                at, length = rng.randrange(len(value)), rng.choice((0, 1, 1, 1, 5))
                letters = "".join(rng.choice("0123456789abcdefABzb+/= ü") for _ in range(rng.choice((0, 1, 1, 4))))
                state[key] = rng.choice((value[:at], value[:at] + letters + value[at + length:]))
            elif isinstance(value, int):
                state[key] = rng.choice((value + 1, value - 1, value ^ 1 << rng.randrange(70), 0, -value))
            elif isinstance(value, list) and value:
                row = rng.choice(value)
                if row and isinstance(row, list):
                    row[rng.randrange(len(row))] = rng.choice((0, 1, -1, 2**32, 300, "1", None, 3))
                else:
                    value.pop()
            if not state:
                break
        return state

    def test_mutations(self):
        """Of 10,000 states that were altered, and cut, none is taken for what it was: each is refused with a
        LarderError, or is what was saved. One whose check fits what was altered never does worse either."""
        print("seed", SEED)
        rng = random.Random(SEED)
        self.daemon(n_samples=61)
        saved = [self.saved(), self.saved(shuffle="strict")]
        loader = self.loader(shuffle="strict")
        next(iter(loader))
        loader.close()
        taken = accepted = 0
        for number in range(10000):
            state = rng.choice(saved)
            other = self.mutated(rng, state)
            try:
                _state.from_dict(other)
                self.assertEqual(other, state, (SEED, number))
                taken += 1
            except larder.LarderError as error:
                self.assertTrue(str(error))
            if isinstance(other.get("check"), str):
                try:
                    checked = self.check_of(other)
                    _record.encode(_record.Record((1, 2), (3, 4), 0, 0 if "taken" in other else 1, 1, 1,
                                                  other.get("samples"), *_state.from_dict(checked).base[1:3]))
                    accepted += 1
                except larder.LarderError:
                    pass
        self.assertLess(taken, 1000)
        self.assertGreater(accepted, 0)


class Large(States):
    def test_the_size_of_imagenets(self):
        """Half an epoch of 1.28 million samples taken at random: what torch.save writes has at most 220,000 bytes; a
        fixed order's has a few hundred. How long a state takes is printed."""
        samples = 1281167
        info = _wire.Registered(1, samples, 5005, 1000, 4, 0, 0, 150528, (2**64 - 1, 5), (6, 7), samples,
                                (8, 9, 10, 11), (), "job")
        order = np.random.default_rng(SEED).permutation(samples).astype("<u4")
        for shuffle in (0, 1):
            job = _wire.Register(256, 2, 1, 0, 90, shuffle, 0, 0, 2**64 - 1, 1.0, 0, 0, 0, 0, 0, 0, 0, b"",
                                 b"/data/imagenet/train",
                                 b'[{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]', b"", b"", b"")
            history, spent = _history.History(17, shuffle == 1), []
            for at in range(0, samples // 2, 256):
                history.take(256, at + 256, order[at:at + 256] if shuffle == 0 else _record.NO_TURNS, False)
                if at % 256 == 0 and at > samples // 2 - 50 * 256:
                    began = time.perf_counter()
                    made = _state.to_dict(_state.of_job(job, info, 17, history.after(samples)))
                    spent.append(time.perf_counter() - began)
            file = io.BytesIO()
            (torch.save if torch else pickle.dump)(made, file)
            print(f"shuffle {shuffle}: {len(file.getvalue())} bytes, a state takes "
                  f"{statistics.median(spent) * 1e3:.2f} ms at the median, the first {spent[0] * 1e3:.2f} ms")
            self.assertLessEqual(len(file.getvalue()), 220000 if shuffle == 0 else 2000)
            self.assertEqual(_state.from_dict(made).base, history.after(samples))

    def test_all_densities(self):
        """Whatever part of the epoch was taken, the state is no longer than at its half, and reads back."""
        rng = np.random.default_rng(SEED)
        for part in (0, 0.001, 0.03, 0.2, 0.4, 0.6, 0.97, 1):
            taken = np.packbits(rng.random(80000) < part, bitorder="little").tobytes()
            text = _state._packed(taken)
            self.assertEqual(_state._unpacked(text, len(taken)), taken)
            self.assertLessEqual(len(text), 1 + -(-len(taken) // 3) * 4)
            if part < 0.1 or part > 0.9:
                self.assertLess(len(text), len(taken))


if __name__ == "__main__":
    main()
