"""Checkpoints of a job of several ranks: the state of any of them is that of all, and any number of ranks goes on from
it."""

import json
import random
import threading

from support import impatient, larder, main, until
from test_state import SEED, States, indices_of


class Ranks(States):
    def ranks(self, world_size, state=None, **options):
        self.jobs = getattr(self, "jobs", 0) + 1
        return [self.loader(rank=rank, world_size=world_size, name=f"train{self.jobs}", state=state,
                            **{"batch_size": 3, **options}) for rank in range(world_size)]

    def step(self, iterators):
        return [next(iterator)[-1].tolist() for iterator in iterators]

    def test_any_rank_speaks_for_all(self):
        """The state of any rank after its batch b is that of all of them, whoever asks, and however far the others are:
        restored with any number of ranks, the union is the rest."""
        rng = random.Random(SEED)
        self.daemon(n_samples=100)
        for shuffle in ("dependent", "strict", "none"):
            for before, after in ((4, 3), (3, 4), (1, 4), (4, 1), (4, 4)):
                with self.subTest(shuffle=shuffle, before=before, after=after, seed=SEED):
                    loaders = self.ranks(before, shuffle=shuffle, seed=2)
                    iterators = [iter(loader) for loader in loaders]
                    steps = rng.randrange(1, 5)
                    seen = [self.step(iterators) for _ in range(steps)]
                    taken = sum(sum(seen, []), [])
                    asked = rng.randrange(before)
                    state = loaders[asked].state_dict()
                    self.assertEqual(state["batches"], steps)
                    self.assertEqual({json.dumps(loader.state_dict()) for loader in loaders}, {json.dumps(state)})
                    for loader in loaders:
                        loader.close()
                    again = self.ranks(after, state, shuffle=shuffle, seed=2)
                    parts = self.finish([iter(loader) for loader in again])
                    union = sum(parts, [])
                    self.assertEqual(set(union) | set(taken), set(range(100)))
                    left = 100 - len(set(taken))
                    self.assertEqual([len(part) for part in parts], [-(-left // after)] * after)
                    self.assertEqual(len(union) - left, -left % after)
                    for loader in again:
                        loader.close()

    def finish(self, iterators):
        """What each rank's iterator gives, all of them at once."""
        parts = [[] for _ in iterators]

        def take(rank):
            for batch in iterators[rank]:
                parts[rank] += batch[-1].tolist()
        threads = [threading.Thread(target=take, args=(rank,)) for rank in range(len(iterators))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return parts

    def test_it_waits_for_the_last_rank(self):
        """Where a rank has not taken so many batches, the state waits for it; the batches that come meanwhile are kept
        and come in their order."""
        self.daemon(n_samples=96)
        loaders = self.ranks(2, prefetch=3, shuffle="none")
        iterators = [iter(loader) for loader in loaders]
        plain = list(range(96))
        seen = indices_of([next(iterators[0]) for _ in range(5)])
        made = []
        thread = threading.Thread(target=lambda: made.append(loaders[0].state_dict()))
        thread.start()
        others = indices_of([next(iterators[1]) for _ in range(5)])
        thread.join(60)
        self.assertEqual((made[0]["batches"], made[0]["order"]), (5, [[2, 15]]))
        seen += indices_of(iterators[0])
        others += indices_of(iterators[1])
        self.assertEqual((seen, others), (plain[0::2], plain[1::2]))

    def test_a_rank_that_does_not_come(self):
        """Where it waits too long the error names the rank that lacks the batch, and the epoch goes on."""
        self.daemon(n_samples=96, impatient=True)
        loaders = self.ranks(2, prefetch=1)
        iterators = [iter(loader) for loader in loaders]
        seen = indices_of([next(iterators[0]) for _ in range(5)])
        next(iterators[1])
        with self.assertRaisesRegex(larder.Timeout, "rank 1 of 2 has had .* and not 5"):
            loaders[0].state_dict()
        self.assertEqual(len(seen + indices_of(iterators[0])), 48)

    def test_the_time_it_waits(self):
        """It waits as long as the Loader's timeout says, and a minute at the most."""
        daemon = self.daemon(n_samples=96, impatient=True)
        for timeout, expected in ((7, 7000), (None, 60000), (600, 60000)):
            loaders = self.ranks(2, timeout=timeout, prefetch=1)
            for loader in loaders:
                next(iter(loader))
            loaders[0].state_dict()
            self.assertEqual([entry for entry in daemon.log if entry[0] == "state"][-1], ("state", 0, 1, expected))
            for loader in loaders:
                loader.close()
            self.assertTrue(until(lambda: not daemon.jobs))

    def test_an_answer_that_was_not_awaited(self):
        """When the daemon says nothing the client gives up by itself, and the answer that comes late is not taken for
        that of the next question."""
        daemon = self.daemon(n_samples=96)
        loaders = self.ranks(2, prefetch=1)
        first, second = [iter(loader) for loader in loaders]
        next(first)
        next(first)
        late = larder._session.STATE_LATE_S
        larder._session.STATE_LATE_S = 0
        try:
            with impatient(loaders[0]):
                with self.assertRaisesRegex(larder.Timeout, "what the ranks have taken did not come"):
                    loaders[0].state_dict()
        finally:
            larder._session.STATE_LATE_S = late
        taken = indices_of([next(second), next(second)])
        next(first)
        taken += indices_of([next(second)])
        self.assertEqual(loaders[0].state_dict()["batches"], 3)
        self.assertEqual(daemon.problems, [])

    def test_places(self):
        """Before the first batch and after the end no rank asks; after its last batch a rank's state says that all was
        taken, also when the others have begun the next epoch; then all restore an empty epoch."""
        daemon = self.daemon(n_samples=24)
        loaders = self.ranks(2, epochs=3, batch_size=4)
        start = loaders[0].state_dict()
        self.assertEqual((start["epoch"], start["batches"]), (0, 0))
        iterators = [iter(loader) for loader in loaders]
        self.assertEqual(loaders[1].state_dict(), start)
        self.assertFalse([entry for entry in daemon.log if entry[0] == "state"])
        for _ in range(3):
            self.step(iterators)
        at_end = [loader.state_dict() for loader in loaders]
        self.assertEqual([(state["epoch"], state["taken"]) for state in at_end], [(0, "all")] * 2)
        self.assertEqual(next(iterators[1], None), None)
        next(iter(loaders[1]))
        self.assertEqual(loaders[0].state_dict(), at_end[0])
        self.assertEqual(next(iterators[0], None), None)
        after = loaders[0].state_dict()
        self.assertEqual((after["epoch"], after["batches"]), (1, 0))
        for loader in loaders:
            loader.close()
        for state in (at_end[0], after, start):
            again = self.ranks(3, state, batch_size=4)
            if state is at_end[0]:
                self.assertEqual([indices_of(loader) for loader in again], [[]] * 3)
            union = sum(self.finish([iter(loader) for loader in again]), [])
            self.assertEqual(sorted(union), list(range(24)))
            self.assertEqual({loader.epoch for loader in again}, {1 if state is start else 2})
            for loader in again:
                loader.close()

    def test_loaded_into_ranks_that_run(self):
        """Ranks in the middle of an epoch that are given a state leave their job, one after the other, and go on
        together where it says."""
        self.daemon(n_samples=60)
        loaders = self.ranks(3)
        iterators = [iter(loader) for loader in loaders]
        seen = sum(self.step(iterators), [])
        state = loaders[2].state_dict()
        self.step(iterators)
        self.step(iterators)
        for loader in loaders:
            loader.load_state_dict(state)
        parts = self.finish([iter(loader) for loader in loaders])
        self.assertEqual(sorted(seen + sum(parts, [])), list(range(60)))

    def test_drop_last(self):
        """With drop_last the steps are those that were left."""
        self.daemon(n_samples=110)
        for shuffle in ("dependent", "strict"):
            loaders = self.ranks(3, drop_last=True, batch_size=4, shuffle=shuffle)
            iterators = [iter(loader) for loader in loaders]
            for _ in range(4):
                self.step(iterators)
            state = loaders[0].state_dict()
            for loader in loaders:
                loader.close()
            again = self.ranks(3, state, drop_last=True, batch_size=4, shuffle=shuffle)
            parts = self.finish([iter(loader) for loader in again])
            self.assertEqual([len(part) for part in parts], [20] * 3)
            for loader in again:
                loader.close()


if __name__ == "__main__":
    main()
