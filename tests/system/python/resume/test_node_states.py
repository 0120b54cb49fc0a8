"""States of jobs whose ranks are at several nodes, in the middle of an epoch: the parts of all nodes together go on
with any number of nodes and ranks, and what all of them had in the epoch is each sample once."""

import json
import os
import sys
import threading
from collections import Counter
from unittest import mock

import above  # noqa: F401
import system
from cluster_case import ClusterCase
from system import SLOW, larder

COUNT = 203


class Nodes:
    """What tests of a case have in common: loaders of all ranks in this process."""

    count = COUNT

    def ranks(self, daemons, each, state=None, name="train", **options):
        """A Loader a rank, `each` of them at each daemon, in an epoch that has begun."""
        world_size = each * len(daemons)
        options = {"batch_size": 4, "prefetch": 1, "timeout": 60 * SLOW, "output": "numpy", "with_ids": True,
                   "world_size": world_size, "local_world_size": each, "name": name, **options}
        loaders = [self.loader(daemons[rank // each], system.tree(self.count), rank=rank, state=state, **options)
                   for rank in range(world_size)]
        return loaders, [iter(loader) for loader in loaders]

    def take(self, iterators, batches, ledger):
        """All ranks take so many batches, in step; None: all that is left, and all have as many."""
        had = [0] * len(iterators)
        while batches is None or had[0] < batches:
            came = [next(iterator, None) for iterator in iterators]
            if came[0] is None:
                self.assertEqual(came, [None] * len(iterators))
                break
            for rank, batch in enumerate(came):
                ledger.update(batch[2].tolist())
                had[rank] += 1
        self.assertEqual(len(set(had)), 1)

    def parts(self, loaders, each):
        """What each node's ranks say, as a checkpoint keeps it."""
        return json.loads(json.dumps([loader.state_dict(part=True) for loader in loaders[::each]]))

    def check(self, ledger, world_size, drop_last=False):
        """Each sample once, but for repeats that fill up shares, or what is no share."""
        total = sum(ledger.values())
        if drop_last:
            self.assertEqual(max(ledger.values()), 1)
            self.assertLess(self.count - total, world_size * 4)
        else:
            self.assertEqual(set(ledger), set(range(self.count)))
            self.assertLess(total - self.count, world_size)


class Distributed:
    """torch.distributed of ranks that are threads."""

    def __init__(self, ranks):
        self.ranks, self.rows = ranks, [None] * ranks
        self.barrier = threading.Barrier(ranks)

    def is_available(self):
        return True

    is_initialized = is_available

    def get_world_size(self):
        return self.ranks

    def all_gather_object(self, out, mine):
        self.rows[_of_thread.rank] = json.loads(json.dumps(mine))
        self.barrier.wait(60 * SLOW)
        out[:] = self.rows
        self.barrier.wait(60 * SLOW)


_of_thread = threading.local()


class NodeStates(Nodes, system.Case):
    def go_on(self, worlds, **options):
        """An epoch of one world after another, each with new daemons, which are killed; the last takes all that is
        left."""
        ledger, state = Counter(), None
        for nodes, each, batches in worlds:
            daemons = [self.node() for _ in range(nodes)]
            loaders, iterators = self.ranks(daemons, each, state, **options)
            self.take(iterators, batches, ledger)
            if batches is not None:
                parts = self.parts(loaders, each)
                state = larder.merge_states(parts) if len(parts) > 1 else parts[0]
                self.assertNotIn("part", state)
            else:
                self.assertEqual({loader.epoch for loader in loaders}, {1})
                self.assertEqual(loaders[0].state_dict()["epoch"], 1)
            for daemon in daemons:
                daemon.kill()
            for loader in loaders:
                loader.close()
        self.check(ledger, nodes * each, options.get("drop_last", False))

    def test_other_nodes_and_ranks(self):
        """4 ranks at two nodes, 2 at one, 8 at two, and 3 at three, which have the rest. In all orders and deals."""
        for options in ({}, {"shuffle": "strict"}, {"shuffle": "none"}, {"deal": "home"}):
            with self.subTest(**options):
                self.go_on(((2, 2, 3), (1, 2, 2), (2, 4, 1), (3, 1, None)), **options)

    def test_same_ranks(self):
        """The same nodes and ranks three times, with drop_last: what is no whole batch is left out once."""
        for shuffle in ("dependent", "strict"):
            with self.subTest(shuffle=shuffle):
                self.go_on(((2, 2, 3), (2, 2, 2), (2, 2, None)), shuffle=shuffle, drop_last=True)

    def test_a_daemon_dies_in_the_rest(self):
        """A node's daemon is killed after the job went on, and its ranks present what they had of the rest."""
        for shuffle in ("dependent", "strict"):
            with self.subTest(shuffle=shuffle):
                ledger, daemons = Counter(), [self.node(), self.node()]
                loaders, iterators = self.ranks(daemons, 2, shuffle=shuffle)
                self.take(iterators, 2, ledger)
                parts = self.parts(loaders, 2)
                for loader in loaders:
                    loader.close()
                loaders, iterators = self.ranks(daemons, 2, parts, shuffle=shuffle)  # load_state_dict takes the parts
                self.take(iterators, 2, ledger)
                daemons[1].kill()
                daemons[1] = system.Daemon(os.path.dirname(daemons[1].socket), system.CONFIG)
                self.addCleanup(daemons[1].stop)
                self.take(iterators, 2, ledger)
                parts = self.parts(loaders, 2)
                for loader in loaders:
                    loader.close()
                _, iterators = self.ranks(daemons, 1, larder.merge_states(parts), shuffle=shuffle)
                self.take(iterators, None, ledger)
                self.check(ledger, 2)

    def test_wrong_parts(self):
        """A part alone, a missing one, one that is there twice, and those of other moments, jobs and epochs are refused
        with what is wrong."""
        daemons = [self.node(), self.node()]
        loaders, iterators = self.ranks(daemons, 1, reconnect=0)
        with self.assertRaisesRegex(larder.InvalidArgument, "some of the states are whole"):
            self.take(iterators, 1, Counter())
            larder.merge_states([loaders[0].state_dict(part=True), self.whole_state(daemons[0])])
        first = self.parts(loaders, 1)
        self.take(iterators, 1, Counter())
        second = self.parts(loaders, 1)
        with self.assertRaisesRegex(larder.InvalidArgument, "what rank 1 of 2 took.*larder.gather_state"):
            loaders[1].state_dict()
        others = []
        for options in ({"seed": 7}, {"batch_size": 4, "state": first}):
            fresh, begun = self.ranks(daemons, 1, name=f"other-{len(others)}", **options)
            self.take(begun, 1, Counter())
            others.append(self.parts(fresh, 1))
        for states, words in (([second[1]], "the part of rank 0 of 2 is missing"),
                              ([second[0]], "the part of rank 1 of 2 is missing"),
                              ([second[0], second[0], second[1]], "the part of rank 0 of 2 is there twice"),
                              ([first[0], second[1]], "rank 0 of 2 had taken 1 batches of epoch 0, and rank 1 of 2 2"),
                              ([first[0], others[0][1]], "have not the same seed"),
                              ([second[0], others[1][1]], "did not begin with the same state"),
                              ([], "no states to merge"), ("ab", "give a list")):
            with self.subTest(words=words), self.assertRaisesRegex(larder.InvalidArgument, words):
                larder.merge_states(states)
        with self.assertRaisesRegex(larder.InvalidArgument, "what rank 1 of 2 took, and nothing of rank 0 of 2"):
            loaders[0].load_state_dict(second[1])
        for change in ({"part": [0, 2, 2, 0, ""]}, {"part": [1, 1, 2, 0, 5]}, {"part": [0, 1, 2, 0]}, {"batches": 9}):
            with self.assertRaisesRegex(larder.FormatError, "damaged"):
                larder.merge_states([{**second[0], **change}, second[1]])
        self.assertEqual(larder.merge_states(second), larder.merge_states(second[::-1]))

    def whole_state(self, daemon):
        with self.loader(daemon, system.tree(COUNT), 4) as loader:
            next(iter(loader))
            return loader.state_dict()

    def test_gathered(self):
        """All ranks get one state of all from their processes' torch.distributed, here threads; or the error of the one
        that has none."""
        loaders, iterators = self.ranks([self.node(), self.node()], 2)
        ledger = Counter()
        self.take(iterators, 3, ledger)
        self.assertEqual(loaders[0].epoch, 1)
        with mock.patch.dict(sys.modules, torch=mock.Mock(distributed=Distributed(4))):
            states = self.in_threads(loaders)
            with mock.patch.object(loaders[2], "state_dict", side_effect=larder.Timeout("rank 3 is late")):
                errors = self.in_threads(loaders)
        self.assertEqual([type(error) for error in errors], [larder.LarderError] * 2 + [larder.Timeout] +
                         [larder.LarderError])
        self.assertEqual(str(errors[0]), "rank 2 of 4 has no state: rank 3 is late")
        self.assertEqual(states, [larder.merge_states(self.parts(loaders, 2))] * 4)
        for loader in loaders:
            loader.close()
        _, iterators = self.ranks([self.node()], 1, states[3], name="alone")
        self.take(iterators, None, ledger)
        self.check(ledger, 1)

    def in_threads(self, loaders):
        """What gather_state returns, or raises, in each."""
        def gather(rank):
            _of_thread.rank = rank
            try:
                results[rank] = larder.gather_state(loaders[rank])
            except larder.LarderError as error:
                results[rank] = error

        results = [None] * len(loaders)
        threads = [threading.Thread(target=gather, args=(rank,)) for rank in range(len(loaders))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def test_samplers(self):
        """Of a job with a sampler there are states between two epochs only."""
        loaders, iterators = self.ranks([self.node(), self.node()], 1, repeat=2)
        self.take(iterators, 1, Counter())
        with self.assertRaisesRegex(larder.InvalidArgument, "has a sampler, and ranks at several nodes"):
            loaders[0].state_dict(part=True)

    def test_after_an_epoch(self):
        """When an epoch has ended, any rank's state is that of all of them."""
        loaders, iterators = self.ranks([self.node(), self.node()], 1)
        before = [loader.state_dict() for loader in loaders]
        self.take(iterators, None, Counter())
        after = [loader.state_dict() for loader in loaders]
        self.assertEqual([state["epoch"] for state in before + after], [0, 0, 1, 1])
        self.assertEqual(larder.merge_states(after), after[0])


class ClusterStates(Nodes, ClusterCase):
    count = 2000

    def test_homes(self):
        """Two trainings that share in a cluster go on from their states twice: homes give what is left, and nothing
        twice."""
        self.cluster(2)
        states, ledgers = [None, None], [Counter(), Counter()]
        for generation, (each, batches) in enumerate(((1, 8), (2, 8), (1, None))):
            trainings = [self.ranks(self.nodes, each, state, f"train-{generation}-{seed}", seed=seed, batch_size=16)
                         for seed, state in enumerate(states, 1)]
            self.assertTrue(system.until(lambda: self.sharing() == [True] * 4, 60))
            before = self.received()
            for (_, iterators), ledger in zip(trainings, ledgers):
                self.take(iterators, batches, ledger)
            self.assertGreater(self.received(), before)
            if batches is None:
                break
            states = [larder.merge_states(self.parts(loaders, each)) for loaders, _ in trainings]
            for loaders, _ in trainings:
                for loader in loaders:
                    loader.close()
        for ledger in ledgers:
            self.check(ledger, 2)

    def sharing(self):
        """Whether the jobs' samples come from their homes, by node."""
        return [row["homes"] for node in self.nodes for row in node.status()["cluster"]["jobs"]]

    def received(self):
        return sum(node.status()["cluster"]["received"] for node in self.nodes)


if __name__ == "__main__":
    system.main()
