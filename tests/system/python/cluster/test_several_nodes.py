"""A job whose ranks are at several nodes, each with a daemon of its own that knows nothing of the others."""

import os
from collections import Counter
from unittest import mock

import above  # noqa: F401
import system
from system import SLOW, larder

from larder import _ranks

EPOCHS = 3
COUNT = 203
CHUNK = 64  # samples


class SeveralNodes(system.Case):
    def scripts(self, daemons, split, first_epoch=None, **options):
        """A script a rank; split[i] of them at daemons[i]."""
        options = {"dataset": system.tree(COUNT), "pipeline": system.PIPELINE, "batch_size": 8, "epochs": EPOCHS,
                   "name": "train", "timeout": 60 * SLOW, **options}
        return [self.script(daemon, **options) for daemon in self.ranks_at(daemons, split)]

    def check(self, scripts, drop_last=False):
        """Each epoch: each rank as many batches, and together the dataset once, but for repeats that fill up."""
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        world_size = len(scripts)
        each = COUNT // world_size // 8 * 8 if drop_last else -(-COUNT // world_size)
        for epoch in range(EPOCHS):
            shares = [[index for _, number, indices in script.batches if number == epoch for index in indices]
                      for script in scripts]
            self.assertEqual([len(share) for share in shares], [each] * world_size)
            counts = Counter(sum(shares, []))
            if drop_last:
                self.assertEqual(max(counts.values()), 1)
            else:
                self.assertEqual(set(counts), set(range(COUNT)))
                self.assertLess(each * world_size - COUNT, world_size)

    def test_each_sample_once(self):
        """Two daemons, or one that serves both nodes; worlds of 2, 3, 4 and 8; all orders; with and without
        drop_last."""
        daemons = [self.node(), self.node()]
        for split, shuffle, drop_last in (((1, 1), "dependent", False), ((2, 1), "dependent", True),
                                          ((2, 2), "dependent", False), ((2, 2), "strict", False),
                                          ((1, 2), "none", False), ((4, 4), "dependent", False),
                                          ((3, 5), "strict", True)):
            with self.subTest(split=split, shuffle=shuffle, drop_last=drop_last):
                self.check(self.scripts(daemons, split, shuffle=shuffle, drop_last=drop_last), drop_last)
        self.check(self.scripts([daemons[0]] * 2, (2, 2)))

    def test_reads(self):
        """Four ranks at two nodes, which both have little memory: no chunk is read at both, and none often."""
        count, epochs = 2000, 2
        config = system.CONFIG.replace("encoded: 64MiB", "encoded: 1MiB")
        daemons = [self.node(config), self.node(config)]
        for script in self.scripts(daemons, (2, 2), dataset=system.tree(count), epochs=epochs):
            self.assertEqual(script.wait(), 0, (script.end, script.errors))
        samples = [daemon.status()["samples"] for daemon in daemons]
        self.assertLess(sum(row["reads"] for row in samples), 2.3 * epochs * count / CHUNK)
        self.assertLess(sum(row["loaded"] for row in samples), 1.1 * epochs * count)
        self.assertEqual(sum(row["prepared"] for row in samples), epochs * count)

    def test_strict_is_distributed_samplers(self):
        """A rank gets the batches that it gets where all ranks are at one node."""
        one = [self.node()]
        two = [self.node(), self.node()]
        alone = self.scripts(one, (4,), shuffle="strict", seed=5)
        apart = self.scripts(two, (3, 1), shuffle="strict", seed=5)
        self.check(alone)
        self.check(apart)
        for rank in range(4):
            self.assertEqual([batch[1:] for batch in alone[rank].batches], [batch[1:] for batch in apart[rank].batches])

    def test_a_daemon_is_killed(self):
        """A node's daemon dies in the middle of an epoch and another comes: each sample once all the same."""
        daemons = [self.node(), self.node()]
        for split, shuffle in (((2, 2), "dependent"), ((2, 2), "strict"), ((1, 1), "dependent"), ((1, 1), "none")):
            with self.subTest(split=split, shuffle=shuffle):
                scripts = self.scripts(daemons, split, shuffle=shuffle, step_s=0.02, name=f"train-{shuffle}-{split[0]}")
                self.assertTrue(system.until(lambda: min(len(script.batches) for script in scripts) >= 9, 60))
                daemons[1].kill()
                daemons[1] = system.Daemon(os.path.dirname(daemons[1].socket))
                self.addCleanup(daemons[1].stop)
                self.check(scripts)

    def test_state_between_epochs(self):
        """The state of all ranks is refused inside an epoch, since no node knows what the others' ranks have had. After
        an epoch it is that of the next one, and a job with ranks elsewhere goes on from it. A rank that is not the
        job's first is told why it waits."""
        daemon, folder = self.daemon(), system.tree(64)
        options = {"batch_size": 8, "rank": 1, "world_size": 2, "local_world_size": 1, "name": "s", "epochs": 4}
        with self.loader(daemon, folder, **options) as loader:
            batches = iter(loader)
            next(batches)
            with self.assertRaisesRegex(larder.LarderError, "several nodes.*gather_state"):
                loader.state_dict()
            self.assertTrue(system.until(lambda: loader.stats()["stall"], 10))
            for _ in batches:
                pass
            state = loader.state_dict()
        with self.loader(daemon, folder, state=state, **options) as loader:
            self.assertEqual(loader.epoch, 1)
            self.assertEqual(sum(1 for _ in loader), 4)

    def test_parts_that_overlap(self):
        """Ranks of a node that are no neighbours, as mpirun --map-by node has them, are told by the daemon at least."""
        daemon, name = self.daemon(), "overlap"
        self.loader(daemon, system.tree(64), rank=0, world_size=4, local_world_size=2, name=name)
        with mock.patch.object(_ranks.Given, "local", lambda *_: (2, 1)):
            with self.assertRaisesRegex(larder.InvalidArgument, "rank 2 says that ranks 1 to 2 are here, and rank 0"):
                self.loader(daemon, system.tree(64), rank=2, world_size=4, name=name)
            self.loader(daemon, system.tree(64), rank=2, world_size=4, name=name + "2")  # another job

    def test_many_ranks_come_back(self):
        """A rank of 300, alone at its node, goes on after its daemon's death."""
        daemons = [self.node()]
        loader = self.loader(daemons[0], system.tree(1200, width=16, height=16), 2, rank=299, world_size=300,
                             local_world_size=1, name="many", reconnect=60)
        batches = iter(loader)
        had = next(batches)[2].tolist()
        daemons[0].kill()
        again = system.Daemon(os.path.dirname(daemons[0].socket))
        self.addCleanup(again.stop)
        had += [index for batch in batches for index in batch[2].tolist()]
        self.assertEqual((len(had), len(set(had))), (4, 4))

    def test_too_many_ranks(self):
        """A job of more ranks than there may be costs nobody anything but its own registration."""
        daemon = self.daemon()
        for shuffle in ("dependent", "strict"):
            with self.assertRaisesRegex(larder.LimitReached, "65536 ranks over all nodes"):
                self.loader(daemon, system.tree(64), rank=2**32 - 2, world_size=2**32 - 1, local_world_size=1, name="m",
                            shuffle=shuffle)
        self.assertEqual(daemon.jobs(), {})

    def test_wrong_ranks(self):
        """Ranks of a node that are no neighbours are told so."""
        for environment, ranks in (({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3"}, None),
                                   ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, None),
                                   ({}, 3)):
            with mock.patch.dict(os.environ, environment):
                given = _ranks.Given(*((4, 5) if ranks else (None, None)), "n", ranks)
                with self.assertRaisesRegex(larder.InvalidArgument, "no neighbours|a multiple of it"):
                    given.local(*given.now())

    def test_launchers(self):
        """What torchrun, srun and Open MPI say of the ranks at a node."""
        slurm = {"SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "11", "SLURM_LOCALID": "1", "SLURM_NODEID": "2",
                 "SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}
        mpi = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
               "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
        for environment, local in ((slurm, (3, 8)), (mpi, (2, 2)), (torchrun, (4, 4)),
                                   ({**torchrun, "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8"}, (0, 0)),
                                   ({"RANK": "5", "WORLD_SIZE": "8"}, (0, 0))):
            with mock.patch.dict(os.environ, environment):
                given = _ranks.Given(None, None, "n")
                self.assertEqual(given.local(*given.now()), local)
        with mock.patch.dict(os.environ, {**slurm, "SLURM_PROCID": "5"}):
            with self.assertRaisesRegex(larder.InvalidArgument, "distribution=block"):
                _ranks.Given(None, None, "n").local(5, 11)
        by_node = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                   "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        untold = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
        for environment, words in ((by_node, "map-by slot"), (untold, "Give local_world_size=")):
            with mock.patch.dict(os.environ, environment):
                given = _ranks.Given(None, None, "n")
                with self.assertRaisesRegex(larder.InvalidArgument, words):
                    given.local(*given.now())
        cyclic = {**slurm, "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1", "SLURM_NODEID": "0",
                  "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_DISTRIBUTION": "cyclic"}
        with mock.patch.dict(os.environ, cyclic):  # all at one node
            given = _ranks.Given(None, None, "n")
            self.assertEqual(given.local(*given.now()), (0, 0))
        with mock.patch.dict(os.environ, torchrun):  # the script says something else of its ranks
            self.assertEqual(_ranks.Given(0, 2, "n").local(0, 2), (0, 0))


if __name__ == "__main__":
    system.main()
