"""A state that was saved at a random batch, restored with other numbers of ranks by a fresh daemon in another folder:
what was taken before and after is each sample exactly once.

    test_resume.py [--cases N]    N cases of each order and each change of the number of ranks; LARDER_TEST_SEED
"""

import collections
import os
import random
import shutil
import sys
import tempfile

import above  # noqa: F401
from system import CONFIG, SLOW, Case, Daemon, larder, main, tree

CASES = 2
COUNT = 101
CHANGES = ((4, 3), (3, 4), (1, 4), (4, 1), (2, 2))
PIPELINE = [{"resize": {"size": [32, 32]}}, "random_horizontal_flip"]


def rounds(loaders):
    """The batches of one epoch of all ranks, step by step: a list of each rank's indices."""
    iterators = [iter(loader) for loader in loaders]
    while True:
        batches = [next(iterator, None) for iterator in iterators]
        if all(batch is None for batch in batches):
            return
        if any(batch is None for batch in batches):
            raise AssertionError(f"ranks with unequal numbers of batches: {[batch is None for batch in batches]}")
        yield [batch[-1].tolist() for batch in batches]


class Resume(Case):
    def ranks(self, daemon, world_size, **options):
        return [self.rank(daemon, rank, world_size, **options) for rank in range(world_size)]

    def rank(self, daemon, rank, world_size, **options):
        loader = larder.Loader(tree(COUNT), PIPELINE, rank=rank, world_size=world_size, name="resumed", **{
            "output": "numpy", "with_ids": True, "socket": daemon.socket, "timeout": 60 * SLOW, "seed": 3, **options})
        self.addCleanup(loader.close)
        return loader

    def fresh(self):
        folder = tempfile.mkdtemp(prefix="larder-fresh-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        daemon = Daemon(folder, CONFIG)
        self.addCleanup(daemon.kill)
        return daemon

    def save(self, daemon, draw, world_size, options):
        """Takes a random number of batches of a random epoch: (state, indices that were taken, epoch)."""
        loaders = self.ranks(daemon, world_size, **options)
        epoch = draw.randrange(2)
        for _ in range(epoch):
            collections.deque(rounds(loaders), 0)
        steps = draw.randint(0, len(loaders[0]))
        taken, state = [], None
        if steps == 0:
            state = draw.choice(loaders).state_dict()
        for number, batches in enumerate(rounds(loaders)):
            if number == steps:
                break
            taken += sum(batches, [])
            if number + 1 == steps:
                state = draw.choice(loaders).state_dict()
        for loader in loaders:
            loader.close()
        return state, taken, epoch

    def restore(self, daemon, world_size, state, options):
        loaders = self.ranks(daemon, world_size, state=state, **options)
        rest = []
        for batches in rounds(loaders):
            rest += sum(batches, [])
        after = [sum(batches, []) for batches in rounds(loaders)]  # the next epoch is whole again
        for loader in loaders:
            loader.close()
        return rest, sum(after, [])

    def exact(self, indices, repeats, words):
        counts = collections.Counter(indices)
        self.assertEqual(len(counts), COUNT, words)
        self.assertLessEqual(sum(counts.values()) - COUNT, repeats, words)

    def run_cases(self, shuffle):
        seed = int(os.environ.get("LARDER_TEST_SEED", "1"))
        print(f"LARDER_TEST_SEED={seed} {shuffle}", flush=True)
        draw = random.Random(f"{seed} {shuffle}")
        for before, after in CHANGES:
            first = self.fresh()
            for number in range(CASES):
                options = {"shuffle": shuffle, "batch_size": draw.randint(3, 9), "prefetch": draw.randint(1, 4)}
                second = self.fresh()
                state, taken, epoch = self.save(first, draw, before, options)
                words = f"seed {seed}, {shuffle}, {before} to {after} ranks, case {number}, {options}: {len(taken)}"
                self.assertEqual(state["epoch"], epoch, words)
                options["batch_size"] = draw.randint(3, 9) if before != after else options["batch_size"]
                rest, whole = self.restore(second, after, state, options)
                # Each sample has its turn once, before or after. Besides, as many come again as fill the ranks' shares
                # up: fewer than there are ranks, before and after, and in dependent order not always at the end.
                again = before - 1 + after - 1
                self.exact(taken + rest, again, words)
                self.assertLessEqual(len(taken) - len(set(taken)), before - 1, words)
                self.exact(whole, after - 1, words)
                second.kill()
            first.kill()

    def test_a_rank_that_comes_late(self):
        """A rank whose Loader is made when another rank goes on from a state already may load it, as all do. If it
        begins without one, it is refused, and holds nobody up."""
        daemon, after = self.fresh(), self.fresh()
        before = self.ranks(daemon, 2, batch_size=8)
        taken = sum(next(rounds(before)), [])
        state = before[0].state_dict()
        early = self.rank(after, 0, 2, batch_size=8)
        early.load_state_dict(state)
        begun = iter(early)  # from here on the job is one that goes on
        late = self.rank(after, 1, 2, batch_size=8)
        self.assertEqual((late.name, len(late), late.classes), ("resumed", len(before[1]), early.classes))
        with self.assertRaisesRegex(larder.InvalidArgument, "rank 1 brings no state"):
            iter(late)
        late.load_state_dict(state)
        rest = sum((sum(batches, []) for batches in rounds([begun, late])), [])
        self.exact(taken + rest, 2, f"{len(taken)} and {len(rest)}")

    def test_dependent(self):
        """The order that is shared with other jobs."""
        self.run_cases("dependent")

    def test_strict(self):
        """A permutation of seed and epoch."""
        self.run_cases("strict")

    def test_none(self):
        """The dataset's order."""
        self.run_cases("none")


if __name__ == "__main__":
    if "--cases" in sys.argv:
        at = sys.argv.index("--cases")
        CASES = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    main()
