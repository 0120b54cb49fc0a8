"""The ranks of a job whose daemon dies: each comes back by itself, and together they go on with exactly the rest."""

import random
import select
import threading
import time
from unittest import mock

from support import larder, main, until
from test_reconnect import Reconnecting
from test_state import SEED, indices_of


class Ranks(Reconnecting):
    def ranks(self, world_size, **options):
        return [self.loader(rank=rank, world_size=world_size, name="train", batch_size=4, **options)
                for rank in range(world_size)]

    def run_all(self, work):
        """work(rank) in a thread each; the first error is raised."""
        errors = []

        def one(rank):
            try:
                work(rank)
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(self.loaders))]
        for thread in threads:
            thread.start()
        return threads, errors

    def join(self, threads, errors):
        for thread in threads:
            thread.join(60)
        self.assertEqual([thread.is_alive() for thread in threads], [False] * len(threads))
        if errors:
            raise errors[0]

    def check(self, seen, samples, epochs):
        for epoch in range(epochs):
            parts = [part[epoch] for part in seen]
            self.assertEqual([len(part) for part in parts], [-(-samples // len(parts))] * len(parts))
            self.assertEqual(set(sum(parts, [])), set(range(samples)))

    def test_all_of_them_come_back(self):
        """Three ranks, each at its own pace, whose daemon dies again and again: together they have every sample once an
        epoch, each as many, also when some had begun the next one, or had taken their last batch."""
        rng = random.Random(SEED)
        for shuffle, epochs in (("dependent", None), ("strict", 4), ("none", None), ("dependent", 4)):
            self.serve(n_samples=100)
            self.loaders = self.ranks(3, shuffle=shuffle, epochs=epochs)
            seen = [[[] for _ in range(3)] for _ in range(3)]

            def work(rank):
                pace = random.Random(SEED + rank)
                for epoch in range(3):
                    for batch in self.loaders[rank]:
                        seen[rank][epoch] += batch[-1].tolist()
                        time.sleep(pace.random() * 0.01)
            threads, errors = self.run_all(work)
            taken, more = 0, True
            while more:
                taken += rng.randrange(1, 30)
                more = until(lambda: sum(map(len, sum(seen, []))) > taken * 4 or
                             not any(thread.is_alive() for thread in threads)) and \
                    any(thread.is_alive() for thread in threads)
                self.replace()
            self.join(threads, errors)
            self.check(seen, 100, 3)
            self.assertGreater(sum(loader.stats()["reconnects"] for loader in self.loaders), 0)
            for loader in self.loaders:
                loader.close()
            self.assertEqual(self.served.problems, [])

    def test_one_that_waits_elsewhere(self):
        """Ranks that wait for each other after each batch, as in all_reduce: one that has its batch comes back by
        itself when the daemon dies, so that the others get theirs."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(3)
        seen = [[[] for _ in range(2)] for _ in range(3)]
        together = threading.Barrier(3, timeout=60)

        def work(rank):
            for epoch in range(2):
                for batch in self.loaders[rank]:
                    seen[rank][epoch] += batch[-1].tolist()
                    if rank == 0:
                        time.sleep(0.02)  # so that the others wait at the barrier when the daemon dies
                        self.replace()
                    together.wait()
        threads, errors = self.run_all(work)
        self.join(threads, errors)
        self.check(seen, 96, 2)

    def test_one_that_dies_before_it_was_noticed(self):
        """A daemon that dies while the thread that was to come back after the death before has not had its turn: that
        thread finds a connection, which the script has made, and that it is lost."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(2)
        iterators = [iter(loader) for loader in self.loaders]
        for iterator in iterators:
            next(iterator)
        job, has_begun, turn = self.loaders[0]._job, threading.Event(), threading.Event()

        def pause(_):
            has_begun.set()
            turn.wait(60)

        def coming_back():
            return [thread.name for thread in threading.enumerate()].count("larder-again")
        with mock.patch.object(job.link, "pause", pause):
            self.addCleanup(turn.set)
            self.replace()
            self.assertTrue(has_begun.wait(60))
            next(iterators[0])
            self.replace()
            self.assertTrue(until(lambda: set(self.served.jobs[b"train"].ranks) == {1} if self.served.jobs else False))
            self.assertTrue(until(lambda: coming_back() == 1))
            turn.set()
            self.assertTrue(until(lambda: coming_back() == 0))
        self.assertEqual(set(self.served.jobs[b"train"].ranks), {0, 1})
        for iterator in iterators:
            next(iterator)

    def test_a_descriptor_that_another_connection_has_now(self):
        """Word of the end of a connection that comes late, when its descriptor is another connection's: that one stays
        watched."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(2)
        iterators = [iter(loader) for loader in self.loaders]
        for iterator in iterators:
            next(iterator)
        fd = self.loaders[0]._job.link.session.fileno()
        late = mock.Mock(poll=mock.Mock(side_effect=[[(fd, select.EPOLLHUP)], InterruptedError]))
        with self.assertRaises(InterruptedError):
            larder._watch._watcher._run(late)
        self.replace()
        self.assertTrue(until(lambda: b"train" in self.served.jobs and len(self.served.jobs[b"train"].ranks) == 2, 20))
        for iterator in iterators:
            next(iterator)

    def test_what_ends_it_elsewhere(self):
        """What hinders a rank from coming back while its script does something else is raised at its next batch."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(2)
        iterator = iter(self.loaders[0])
        iter(self.loaders[1])
        next(iterator)
        self.replace(n_samples=96, dataset=(5, 5))
        job = self.loaders[0]._job
        self.assertTrue(until(lambda: job.error is not None))
        with self.assertRaisesRegex(larder.SourceChanged, "another one than before"):
            next(iterator)

    def test_states_without_a_daemon(self):
        """state_dict() of ranks connects again where the daemon has died; a daemon that does not come is a Timeout."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(2)
        iterators = [iter(loader) for loader in self.loaders]
        seen = [indices_of([next(iterator) for _ in range(3)]) for iterator in iterators]
        self.die()
        self.wait_at_most(self.loaders[0], 0.5)
        with self.assertRaises(larder.Timeout):
            self.loaders[0].state_dict()
        self.wait_at_most(self.loaders[0], 60)
        self.serve()
        self.assertTrue(until(lambda: all(loader._job.is_running for loader in self.loaders)))
        state = self.loaders[0].state_dict()
        self.assertEqual((state["epoch"], state["batches"]), (0, 3))
        for loader in self.loaders:
            loader.close()
        again = self.loader(batch_size=4, state=state)
        self.assertEqual(sorted(sum(seen, []) + indices_of(again)), list(range(96)))

    def test_a_rank_without_its_past(self):
        """A rank that was started again without a state goes on with its part; when the daemon dies as well, what it
        had taken before is not known, and it says so."""
        self.serve(n_samples=96)
        self.loaders = self.ranks(2)
        iterators = [iter(loader) for loader in self.loaders]
        for iterator in iterators:
            next(iterator)
        self.loaders[1].close()
        self.assertTrue(until(lambda: 1 not in self.served.jobs[b"train"].ranks))
        again = self.loader(rank=1, world_size=2, name="train", batch_size=4)
        iterator = iter(again)
        next(iterator)
        self.assertEqual(self.loaders[0].state_dict()["batches"], 1)
        self.replace()
        with self.assertRaisesRegex(larder.LarderError, "start all ranks from their last checkpoint"):
            next(iterator)


if __name__ == "__main__":
    main()
