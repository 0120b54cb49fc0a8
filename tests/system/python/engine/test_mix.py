"""larder.Mix with the real daemon: every batch has each part's rows, each part goes through its dataset sample by
sample, pass after pass, through kill -9 of the daemon and of the script, with ranks; and its jobs share what is
prepared with a job on one of the datasets."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter

import above  # noqa: F401
import numpy as np
import system
from system import PACKAGE, SLOW, larder

try:
    import torch
except (ImportError, OSError):
    torch = None

PLAIN = [{"resize": {"size": 16}}, {"center_crop": {"size": 16}}]
COUNTS = {"a": 60, "b": 33, "c": 17}
WEIGHTS = {"a": .5, "b": .3, "c": .2}
ROWS = {"a": 5, "b": 3, "c": 2}

# A script that mixes, tells of each batch what it has and where it stands then, and is killed in the middle.
SCRIPT = """
import json, sys
import larder
mix = larder.Mix(json.loads(sys.argv[1]), **json.loads(sys.argv[2]))
while True:
    for images, labels, indices in mix:
        print(json.dumps([mix.last_parts.tolist(), indices.tolist(), mix.state_dict()]), flush=True)
"""


class Mixing(system.Case):
    def setUp(self):
        super().setUp()
        self.trees = {key: system.tree(count, classes=3, seed=at + 1) for at, (key, count) in enumerate(COUNTS.items())}
        self.ledger = {key: [] for key in COUNTS}  # positions in the order in which they were given
        self.options = {"batch_size": 10, "samples": 100, "output": "numpy", "timeout": 30 * SLOW, "with_ids": True}

    def parts(self):
        return {key: (self.trees[key], WEIGHTS[key]) for key in COUNTS}

    def mix(self, daemon, parts=None, **options):
        mix = larder.Mix(self.parts() if parts is None else parts, options.pop("pipeline", PLAIN),
                         **{**self.options, "socket": daemon.socket, **options})
        self.addCleanup(mix.close)
        return mix

    def enter(self, parts, indices, keys=tuple(COUNTS)):
        for part, index in zip(parts, indices):
            self.ledger[keys[part]].append(index)

    def take(self, mix, batches=None):
        """So many batches of the next epoch, or all, into the ledger."""
        for at, batch in enumerate(mix, 1):
            self.enter(mix.last_parts.tolist(), batch[2].tolist())
            if at == batches:
                break

    def check_passes(self, least=1):
        """Each part's passes have each sample once; the one that goes on has none twice."""
        for key, given in self.ledger.items():
            passes = [given[at:at + COUNTS[key]] for at in range(0, len(given), COUNTS[key])]
            self.assertGreater(len(passes), least, key)
            for one in passes[:-1]:
                self.assertEqual(sorted(one), list(range(COUNTS[key])), key)
            self.assertEqual(len(set(passes[-1])), len(passes[-1]), key)


class Alone(Mixing):
    def test_passes(self):
        """Of 12 epochs every batch has 5, 3 and 2 rows of the parts, fewer only where a part's pass ends; every pass
        has each sample once; and each row is the picture and the label of its position."""
        daemon = self.daemon()
        pictures, labels = {}, {}
        for at, key in enumerate(COUNTS):
            loader = self.loader(daemon, self.trees[key], 8, PLAIN, shuffle="none")
            for images, numbers, indices in loader:
                for row, index in enumerate(indices.tolist()):
                    pictures[at, index], labels[at, index] = images[row].copy(), numbers[row]
            loader.close()
        mix = self.mix(daemon)
        self.assertEqual((mix.rows, len(mix), mix.dataset_size), (ROWS, 10, 110))
        orders, short = set(), 0
        for epoch in range(12):
            self.assertEqual(mix.epoch, epoch)
            for images, numbers, indices in mix:
                places = list(zip(mix.last_parts.tolist(), indices.tolist()))
                for row, place in enumerate(places):
                    self.assertTrue((images[row] == pictures[place]).all())
                    self.assertEqual(numbers[row], labels[place])
                self.enter(mix.last_parts.tolist(), indices.tolist())
                came = np.bincount(mix.last_parts, minlength=3)
                self.assertTrue((came <= [5, 3, 2]).all() and came.all(), came)
                ends = [len(self.ledger[key]) % COUNTS[key] == 0 for key in COUNTS]
                self.assertTrue(all(end or count == whole for end, count, whole in zip(ends, came, (5, 3, 2))), came)
                short += len(indices) < 10
                orders.add(tuple(mix.last_parts.tolist()))
        self.check_passes(least=5)
        self.assertEqual(mix.stats()["batches"], 120)
        self.assertGreater(len(orders), 100)  # the rows are not always in one order
        ended = sum(len(given) // COUNTS[key] for key, given in self.ledger.items() if COUNTS[key] % ROWS[key])
        self.assertLessEqual(short, ended)

    def test_drop_last(self):
        """With drop_last all batches are whole, and a pass leaves out what does not fill its part of a batch."""
        daemon = self.daemon()
        mix = self.mix(daemon, drop_last=True)
        given = {key: [] for key in COUNTS}
        for _ in range(6):
            for _, _, indices in mix:
                self.assertEqual(np.bincount(mix.last_parts).tolist(), [5, 3, 2])
                for part, index in zip(mix.last_parts.tolist(), indices.tolist()):
                    given[tuple(COUNTS)[part]].append(index)
        for key, count in COUNTS.items():
            length = count - count % ROWS[key]
            for at in range(0, len(given[key]) - length + 1, length):
                self.assertEqual(len(set(given[key][at:at + length])), length)

    def test_the_same_again(self):
        """With shuffle="strict" two mixtures of one seed have the same rows in the same places; and of another seed
        not."""
        daemon = self.daemon()
        given = []
        for seed in (4, 4, 5):
            with self.mix(daemon, shuffle="strict", seed=seed) as mix:
                given.append([(mix.last_parts.tolist(), batch[2].tolist()) for batch in mix])
        self.assertEqual(given[0], given[1])
        self.assertNotEqual(given[0], given[2])

    def test_kinds_of_batches(self):
        """Encoded bytes, several views, paths, dictionaries, a transform and tensors are mixed as a Loader gives
        them."""
        daemon = self.daemon()
        with self.mix(daemon, pipeline=[], with_paths=True) as mix:
            images, _, _, paths = next(iter(mix))
            for image, path in zip(images, paths):
                with open(path, "rb") as file:
                    self.assertEqual(image, file.read())
        small = [{"resize": {"size": [8, 12]}}]
        with self.mix(daemon, pipeline=None, views=[PLAIN, small], as_dict=("x", "y", "at")) as mix:
            batch = next(iter(mix))
            self.assertEqual([view.shape for view in batch["x"]], [(10, 16, 16, 3), (10, 8, 12, 3)])
        means = larder.OnBatch(lambda images, *rest: (images.mean(axis=(1, 2, 3)), *rest))
        with self.mix(daemon, transform=means) as mix:
            self.assertEqual(next(iter(mix))[0].shape, (10,))
        if torch is not None:
            with self.mix(daemon, output="torch", with_ids=False, shuffle="strict") as mix, \
                    self.mix(daemon, shuffle="strict") as arrays:
                images, labels = next(iter(mix))
                same, numbers, _ = next(iter(arrays))
                self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
                self.assertTrue((images.permute(0, 2, 3, 1).numpy() == same).all())
                self.assertEqual(labels.tolist(), numbers.tolist())

    def listed(self, key, score):
        """A list of the part's files, each with its name as a caption, and a score."""
        path = os.path.join(self.folder, f"{key}.csv")
        files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.trees[key]) for name in names)
        with open(path, "w") as file:
            file.write("path,label,caption,score\n")
            file.writelines(f"{name},{at % 3},{os.path.basename(name)},{score}\n" for at, name in enumerate(files))
        return path

    def test_columns(self):
        """Columns come with their rows, last; whole numbers of one part are float32 where another's are not whole."""
        daemon = self.daemon()
        parts = {"a": (self.listed("a", 3), .5), "b": (self.listed("b", 2.5), .5)}
        with self.mix(daemon, parts, with_paths=True, columns=["caption", "score"]) as mix:
            _, _, _, paths, captions, scores = next(iter(mix))
            self.assertEqual(captions, [os.path.basename(path) for path in paths])
            self.assertEqual(scores.dtype, np.float32)
            self.assertEqual(scores.tolist(), [2.5 if part else 3 for part in mix.last_parts])
        taken = self.loader(daemon, parts["a"][0], batch_size=3)
        with self.mix(daemon, {"a": (taken, 1)}, columns="caption", as_dict=("x", "y", "at")) as mix:
            self.assertEqual(list(next(iter(mix))), ["x", "y", "at", "caption"])

    def test_labels(self):
        """Parts with other classes are refused unless labels says what they mean: by name, behind each other, or each
        its own."""
        daemon = self.daemon()
        folders = {"a": self.trees["a"], "b": os.path.join(self.folder, "renamed")}
        os.mkdir(folders["b"])
        first, *rest = sorted(os.listdir(self.trees["b"]))
        for old, new in zip([first, *rest], ["other", *rest]):
            os.symlink(os.path.join(self.trees["b"], old), os.path.join(folders["b"], new))
        parts = {key: (folder, 1) for key, folder in folders.items()}
        with self.assertRaisesRegex(larder.InvalidArgument, "parts 'a' and 'b' have different classes"):
            self.mix(daemon, parts)
        with self.assertRaisesRegex(larder.InvalidArgument, "of 'n' are numbers.*\"class\"} does"):
            self.mix(daemon, {"a": (folders["a"], 1), "n": (self.numbered(), 1)}, labels="names")
        names = {key: sorted(os.listdir(folder)) for key, folder in folders.items()}
        for how, classes in (("names", sorted({*names["a"], *names["b"]})),
                             ("offset", [f"{key}/{name}" for key in folders for name in names[key]]),
                             ("own", names["a"])):
            with self.subTest(labels=how), self.mix(daemon, parts, labels=how, with_paths=True) as mix:
                self.assertEqual(mix.classes, classes)
                for _, labels, _, paths in mix:
                    for part, label, path in zip(mix.last_parts.tolist(), labels.tolist(), paths):
                        key, name = "ab"[part], os.path.basename(os.path.dirname(path))
                        wanted = {"names": name, "offset": f"{key}/{name}"}.get(how)
                        self.assertEqual(classes[label] if wanted else names[key][label], wanted or name)

    def numbered(self):
        """A dataset whose classes are called 0 and 1."""
        folder = os.path.join(self.folder, "numbered")
        os.mkdir(folder)
        for number, name in enumerate(sorted(os.listdir(self.trees["a"]))[:2]):
            os.symlink(os.path.join(self.trees["a"], name), os.path.join(folder, str(number)))
        return folder

    def test_sources(self):
        """A part may be a dictionary of a Loader's arguments, or a Loader, which the Mix takes over."""
        daemon = self.daemon()
        loader = self.loader(daemon, self.trees["b"], 8, PLAIN, subset=larder.Range(0, 12))
        mix = self.mix(daemon, {"a": ({"dataset": self.trees["a"], "subset": larder.Range(50, 60)}, 1),
                                "b": (loader, 3)}, batch_size=8)
        seen = Counter()
        for _ in range(3):
            for _, _, indices in mix:
                seen.update(zip(mix.last_parts.tolist(), indices.tolist()))
        self.assertLessEqual(set(seen), {(0, at) for at in range(50, 60)} | {(1, at) for at in range(12)})
        self.assertEqual(len(seen), 22)
        self.assertEqual(len(daemon.jobs()), 2)  # that of the Loader has ended
        with self.assertRaises(larder.LarderError):
            next(iter(loader))

    def test_refused(self):
        """What makes no mixture is refused, with a word on what to do."""
        daemon = self.daemon()
        a, b = self.trees["a"], self.trees["b"]
        for parts, options, text in (
                ({}, {}, "not {name:"), ({"a": a}, {}, r"name: \(source, weight\)"),
                ({"a": (a, 0), "b": (b, 1)}, {}, "weight of part 'a' is 0"),
                ({"a": (a, .01), "b": (b, 1)}, {}, "no row in a batch of 10.* batch_size of 101 or more"),
                ({"a": (a, 1), "b": (b, 1)}, {"zero_copy": True}, "no zero_copy="),
                ({"a": ({"dataset": a, "as_dict": "x"}, 1)}, {}, "give as_dict= to the Mix"),
                ({"a": ({"subset": None}, 1)}, {}, 'has a "dataset"'),
                ({"a": (a, 1)}, {"labels": [1, 2]}, "labels is"),
                ({"a": (self.loader(daemon, a, as_dict=("x", "y", "z")), 1)}, {}, "leave them out there")):
            with self.subTest(text=text), self.assertRaisesRegex(larder.InvalidArgument, text):
                self.mix(daemon, parts, **options)
        mix = self.mix(daemon, {"a": (a, 1), "b": ({"dataset": b, "pipeline": [{"resize": {"size": [8, 8]}}]}, 1)})
        with self.assertRaisesRegex(larder.InvalidArgument, "pipelines of one size"):
            next(iter(mix))
        with self.assertWarnsRegex(UserWarning, "drop_last leaves no batch"):
            mix = self.mix(daemon, {"a": ({"dataset": a, "subset": larder.Range(0, 3)}, 1)}, drop_last=True)
        with self.assertRaisesRegex(larder.InvalidArgument, "'a' has no batch"):
            next(iter(mix))


class Resumed(Mixing):
    def test_daemon_and_script_killed(self):
        """kill -9 of the daemon in the middle of an epoch, then of the script; another goes on from its last state
        with other weights, in another daemon. Each part's passes have each sample once, and the epoch as many
        batches as it should."""
        daemon = self.daemon()
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", SCRIPT, json.dumps(self.parts()),
             json.dumps({**self.options, "pipeline": PLAIN, "socket": daemon.socket})],
            stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for at in range(27):
            parts, indices, state = json.loads(process.stdout.readline())
            self.enter(parts, indices)
            if at == 13:
                daemon.kill()
                daemon = self.daemon()
        process.kill()
        self.assertEqual((state["epoch"], state["samples"]), (2, 70))
        daemon.kill()
        daemon = self.daemon()
        parts = {key: (tree, 1) for key, (tree, _) in self.parts().items()}
        mix = self.mix(daemon, parts, batch_size=12, state=state)
        self.assertEqual(mix.epoch, 2)
        before = mix.stats()["batches"]
        self.take(mix)
        self.assertEqual(mix.stats()["batches"] - before, len(mix) - 70 // 12)
        for _ in range(4):
            self.take(mix)
        self.check_passes()

    def test_interrupted_between_parts(self):
        """An error of the script's own function, or a state that is asked for while a part's batch is there and the
        next one's is not: no row is lost, and none comes twice."""
        daemon = self.daemon()
        fails = [True]

        def once(*parts):
            if fails.pop() if fails else False:
                raise KeyboardInterrupt
            return parts

        mix = self.mix(daemon, transform=larder.OnBatch(once))
        for _ in range(9):
            iterator = iter(mix)
            for at in range(10):
                fails[:] = [True] if at % 3 == 0 else []
                if fails:
                    with self.assertRaises(KeyboardInterrupt):
                        next(iterator)
                if at % 6 == 0:
                    mix.state_dict()  # gives back what has come
                _, _, indices = next(iterator)
                self.enter(mix.last_parts.tolist(), indices.tolist())
            self.assertIsNone(next(iterator, None))
        self.check_passes(least=5)

    def test_states(self):
        """A state of other parts, of no Mix, of another version, or a damaged one is refused."""
        daemon = self.daemon()
        mix = self.mix(daemon)
        self.take(mix, 3)
        state = mix.state_dict()
        other = {key: state["parts"][key] for key in "ab"}
        for wrong, error in (({**state, "mix": 2}, larder.VersionMismatch), (state["parts"]["a"], larder.FormatError),
                             ({**state, "epoch": -1}, larder.FormatError), (None, larder.FormatError),
                             ({**state, "parts": other}, larder.InvalidArgument),
                             ({**state, "parts": {**other, "c": {}}}, larder.FormatError)):
            with self.assertRaises(error):
                mix.load_state_dict(wrong)
        self.take(mix)  # nothing has changed: this is epoch 1, and the passes go on
        self.assertEqual(mix.epoch, 2)
        self.take(mix)
        self.check_passes(least=0)


class Shared(Mixing):
    def test_ranks(self):
        """Two ranks have as many batches of the same make-up, and together each sample of a part once a pass; a state
        of one goes on with one rank."""
        daemon = self.daemon()
        self.trees = {key: system.tree(count, classes=2, seed=9) for key, count in (("a", 60), ("b", 24))}
        parts = {"a": (self.trees["a"], 3), "b": (self.trees["b"], 1)}
        mixes = [self.mix(daemon, parts, batch_size=8, samples=96, name="mix", rank=rank, world_size=2)
                 for rank in range(2)]
        self.assertEqual([len(mix) for mix in mixes], [6, 6])
        given, states = [[], []], [None, None]

        def train(rank):
            for _ in range(3):
                for _, _, indices in mixes[rank]:
                    given[rank].append((mixes[rank].last_parts.tolist(), indices.tolist()))
            states[rank] = mixes[rank].state_dict()

        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(*[[sorted(parts) for parts, _ in one] for one in given])
        for batches in zip(*given):
            for parts_of, indices in batches:
                self.enter(parts_of, indices, ("a", "b"))
        self.assertEqual(states[0], states[1])
        for mix in mixes:
            mix.close()
        alone = self.mix(daemon, parts, batch_size=8, samples=96, state=states[0])
        for _ in range(2):
            for _, _, indices in alone:
                self.enter(alone.last_parts.tolist(), indices.tolist(), ("a", "b"))
        for key, count in (("a", 60), ("b", 24)):
            passes = [self.ledger[key][at:at + count] for at in range(0, len(self.ledger[key]), count)]
            self.assertGreater(len(passes), 2)
            for one in passes[:-1]:
                self.assertEqual(sorted(one), list(range(count)), key)

    def test_beside_a_job_on_one(self):
        """A job that trains on one of the datasets alone, in step with the mixture, gets what that has prepared."""
        daemon = self.daemon()
        mix = self.mix(daemon, batch_size=10, samples=120)
        alone = self.loader(daemon, self.trees["a"], 5, PLAIN, epochs=2)
        together, mixed = iter(alone), 0
        for _, _, indices in mix:  # 12 batches: all of a's 60 samples
            mixed += len(indices)
            next(together)
        samples = daemon.status()["samples"]
        print(f"prepared {samples['prepared']}, delivered {samples['delivered']}", flush=True)
        self.assertGreaterEqual(samples["delivered"], mixed + 60)
        self.assertLessEqual(samples["prepared"], samples["delivered"] - 60 + 10)


if __name__ == "__main__":
    system.main()
