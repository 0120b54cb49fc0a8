"""Jobs with several ranks, one process each, with the real daemon."""

import os
import re
import unittest
from collections import Counter
from unittest import mock

import above  # noqa: F401
import system
from system import SLOW, larder

import larder._ranks  # noqa: E402

CONFIG = system.CONFIG + "limits:\n  rank_timeout: 5\n"


class Ranks(system.Case):
    def ranks(self, daemon, dataset, world_size, extra=None, **options):
        """A script a rank; `extra` has what only some of them get."""
        options = {"dataset": dataset, "pipeline": system.PIPELINE, "batch_size": 8, "epochs": 2, "name": "train",
                   "timeout": 60 * SLOW, **options}
        return [self.script(daemon, rank=rank, world_size=world_size, **{**options, **(extra or {}).get(rank, {})})
                for rank in range(world_size)]

    def shares(self, scripts, epoch):
        return [[index for _, number, indices in script.batches if number == epoch for index in indices]
                for script in scripts]

    def finish(self, scripts):
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))

    def test_exact_parts(self):
        """Ranks of which one is slow get as many batches each; together the dataset once, and one repeat to fill up."""
        daemon, folder = self.daemon(), system.tree(203)
        scripts = self.ranks(daemon, folder, 4, {2: {"step_s": 0.05}})
        self.finish(scripts)
        for epoch in range(2):
            shares = self.shares(scripts, epoch)
            self.assertEqual([len(share) for share in shares], [51] * 4)
            counts = Counter(sum(shares, []))
            self.assertEqual(set(counts), set(range(203)))
            self.assertEqual(sum(counts.values()), 204)
        self.assertEqual([len(script.batches) for script in scripts], [14] * 4)

    def test_all_die(self):
        """Scripts that are killed when one had its whole share of the epoch and the other had not, and are started
        again without a state, get whole epochs."""
        daemon, folder = self.daemon(system.CONFIG + f"limits:\n  rank_timeout: {int(60 * SLOW)}\n"), system.tree(203)
        scripts = self.ranks(daemon, folder, 2, {1: {"pause": [3, os.path.join(self.folder, "never")]}})
        self.assertTrue(system.until(lambda: [len(script.batches) for script in scripts] == [13, 3], 30))
        for script in scripts:
            script.kill()
        self.assertTrue(system.until(lambda: not daemon.jobs(), 10))
        scripts = self.ranks(daemon, folder, 2)
        self.finish(scripts)
        for epoch in range(2):
            self.assertEqual(set(sum(self.shares(scripts, epoch), [])), set(range(203)))

    def test_a_part_is_missed(self):
        """A script that goes on in the middle of an epoch, of which a process that died had a part, is told what it
        misses, once; the other rank, which comes anew, is told nothing."""
        daemon, folder = self.daemon(system.CONFIG + f"limits:\n  rank_timeout: {int(60 * SLOW)}\n"), system.tree(203)
        first = self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=8, epochs=2, name="train",
                            rank=0, world_size=2, timeout=60 * SLOW, pause=[3, os.path.join(self.folder, "never")])
        self.assertTrue(system.until(lambda: len(first.batches) == 3, 30), first.errors)
        first.kill()
        first.wait()
        scripts = self.ranks(daemon, folder, 2)
        self.finish(scripts)
        told = re.findall("goes on in the middle of epoch 0: another process of this rank had its first (\\d) batches",
                          scripts[0].errors)
        self.assertEqual(len(told), 1, scripts[0].errors)
        self.assertIn("larder cancel train", scripts[0].errors)
        self.assertNotIn("goes on in the middle", scripts[1].errors)
        self.assertEqual([len(script.batches) for script in scripts], [26 - int(told[0]), 26])

    def test_drop_last(self):
        """With drop_last all batches are whole, and nothing comes twice."""
        daemon, folder = self.daemon(), system.tree(203)
        scripts = self.ranks(daemon, folder, 3, drop_last=True, epochs=1)
        self.finish(scripts)
        shares = self.shares(scripts, 0)
        self.assertEqual([len(share) for share in shares], [64] * 3)
        self.assertEqual(max(Counter(sum(shares, [])).values()), 1)

    def test_samples_of_very_different_size(self):
        """Where one sample in nine takes a hundred times as long as the others, and one rank's step longer than the
        others', each rank gets as many batches of the same size, and together they get each sample once."""
        daemon = self.daemon()
        folder = system.make_tree(os.path.join(self.folder, "mixed"), 180)
        system.make_tree(os.path.join(self.folder, "large"), 20, width=1200, height=900, seed=2)
        for path in system.files_of(os.path.join(self.folder, "large")):
            os.rename(path, os.path.join(folder, os.path.basename(os.path.dirname(path)), "z" + os.path.basename(path)))
        scripts = self.ranks(daemon, folder, 4, {3: {"step_s": 0.03}})
        self.finish(scripts)
        for epoch in range(2):
            shares = self.shares(scripts, epoch)
            self.assertEqual([len(share) for share in shares], [50] * 4)
            self.assertEqual(sorted(sum(shares, [])), list(range(200)))
        sizes = [[len(indices) for _, _, indices in script.batches] for script in scripts]
        self.assertEqual(sizes, [[8, 8, 8, 8, 8, 8, 2] * 2] * 4)

    def test_strict_order(self):
        """strict: each rank gets every W-th sample of the order that one process alone would see, as DistributedSampler
        deals it, however fast each is."""
        daemon, folder = self.daemon(), system.tree(203)
        alone = self.loader(daemon, folder, shuffle="strict", seed=5, rank=0, world_size=1)
        order = [index for batch in alone for index in batch[-1].tolist()]
        scripts = self.ranks(daemon, folder, 4, {0: {"step_s": 0.02}}, shuffle="strict", seed=5, epochs=1)
        self.finish(scripts)
        filled = order + order[:1]
        self.assertEqual(self.shares(scripts, 0), [filled[rank::4] for rank in range(4)])

    def test_set_epoch(self):
        """set_epoch begins with a later epoch, in ranks as in one process: strict orders are that epoch's."""
        daemon, folder = self.daemon(), system.tree(96)
        options = {"shuffle": "strict", "seed": 5, "batch_size": 16}
        alone = self.loader(daemon, folder, **options)
        orders = [[index for batch in alone for index in batch[-1].tolist()] for _ in range(3)]
        alone.set_epoch(1)
        self.assertEqual([index for batch in alone for index in batch[-1].tolist()], orders[1])
        ranks = [self.loader(daemon, folder, name="train", rank=rank, world_size=2, **options) for rank in range(2)]
        for loader in ranks:
            loader.set_epoch(2)
        for rank, iterator in enumerate([iter(loader) for loader in ranks]):
            self.assertEqual([index for batch in iterator for index in batch[-1].tolist()], orders[2][rank::2])

    def test_an_end_while_a_rank_is_missing(self):
        """The daemon ends as it should while a job waits for a rank that never came, for which it has kept what another
        job read: a sanitizer finds nothing that was left."""
        daemon, folder = self.daemon(), system.tree(40)
        lone = self.loader(daemon, folder, name="train", rank=0, world_size=2)
        begun = iter(lone)
        self.whole(self.loader(daemon, folder), 40)
        self.assertEqual([job["name"] for job in daemon.status()["jobs"]].count("train"), 1)
        self.assertEqual(daemon.stop(), 0, daemon.log())
        del begun

    def test_a_rank_is_killed(self):
        """A rank that is killed and started again goes on with its part: every sample comes once over both lives."""
        daemon, folder = self.daemon(), system.tree(240)
        go_on = os.path.join(self.folder, "go on")
        scripts = self.ranks(daemon, folder, 3, {1: {"pause": [3, go_on]}})
        self.assertTrue(system.until(lambda: len(scripts[1].batches) == 3, 30))
        scripts[1].kill()
        scripts[1].wait()
        again = self.script(daemon, rank=1, world_size=3, dataset=folder, pipeline=system.PIPELINE, batch_size=8,
                            epochs=2, name="train", timeout=60 * SLOW)
        self.finish([scripts[0], again, scripts[2]])
        scripts[1].batches += again.batches
        shares = self.shares(scripts, 0)
        self.assertEqual([len(share) for share in shares], [80] * 3)
        self.assertEqual(sorted(sum(shares, [])), list(range(240)))

    def test_killed_at_the_end_of_its_part(self):
        """A rank that is killed while it holds the last batches of its part, when the other is through and waits for
        the next epoch, gets them again: nothing of the epoch is lost."""
        daemon, folder = self.daemon(system.CONFIG), system.tree(203)
        go = os.path.join(self.folder, "never")
        first, other = self.ranks(daemon, folder, 2, {0: {"hold": 2, "pause": [13, go]}}, hold=1)
        self.assertTrue(system.until(lambda: len(first.batches) == 13 and len(other.batches) >= 13, 30), first.errors)
        first.kill()
        first.wait()
        again = self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=8, epochs=2, name="train",
                            timeout=60 * SLOW, rank=0, world_size=2, hold=1)
        self.finish([again, other])
        for epoch in range(2):
            self.assertEqual(set(sum(self.shares([first, again, other], epoch), [])), set(range(203)))
        held = sum((indices for _, _, indices in first.batches[-2:]), [])
        self.assertEqual(sorted(self.shares([again], 0)[0]), sorted(held))

    def test_a_rank_is_missing(self):
        """Ranks that wait for one that never comes get an error after the stated time, and it says which."""
        daemon = self.daemon(CONFIG)
        scripts = self.ranks(daemon, system.tree(96), 3)[:2]
        scripts[1].kill()
        first = self.script(daemon, rank=0, world_size=2, dataset=system.tree(96), pipeline=system.PIPELINE,
                            batch_size=8, epochs=3, name="other", timeout=60 * SLOW)
        self.assertEqual(first.wait(), 1)
        self.assertEqual(first.end["error"], "Timeout")
        self.assertIn("rank 1 of 2 has not come within 5 s", first.end["text"])

    def test_a_rank_stays_away(self):
        """When a rank was killed and does not come back, all others get the error that names it, after all their own
        part."""
        daemon = self.daemon(CONFIG)
        begin = os.path.join(self.folder, "begin")
        scripts = self.ranks(daemon, system.tree(96), 3, {1: {"pause": [2, os.path.join(self.folder, "never")]}},
                             start_after=begin)
        self.assertTrue(system.until(lambda: [queue["attached"] for job in daemon.jobs().values()
                                              for queue in job["queues"]] == [True] * 3, 60))
        open(begin, "w").close()
        self.assertTrue(system.until(lambda: len(scripts[1].batches) == 2, 30))
        scripts[1].kill()
        for script in (scripts[0], scripts[2]):
            self.assertEqual(script.wait(), 1)
            self.assertEqual((script.end["error"], len(script.batches)), ("Timeout", 4))
            self.assertIn("rank 1 of 3 has not come back within 5 s", script.end["text"])

    def test_all_ranks_at_once(self):
        """When all ranks are killed in mid-epoch and started again, they are a new job, which begins with the first
        epoch."""
        daemon, folder = self.daemon(), system.tree(96)
        go_on = os.path.join(self.folder, "go on")
        scripts = self.ranks(daemon, folder, 2, {rank: {"pause": [2, go_on]} for rank in range(2)})
        self.assertTrue(system.until(lambda: all(len(script.batches) == 2 for script in scripts), 30))
        for script in scripts:
            script.kill()
        self.assertTrue(system.until(lambda: not daemon.jobs(), 30))
        again = self.ranks(daemon, folder, 2)
        self.finish(again)
        for epoch in range(2):
            self.assertEqual(sorted(sum(self.shares(again, epoch), [])), list(range(96)))

    def test_ranks_must_agree(self):
        """A rank that gives another batch size, dataset or label numbering is refused, and the text names it."""
        daemon, folder = self.daemon(), system.tree(96)
        common = {"world_size": 2, "name": "train"}
        self.loader(daemon, folder, rank=0, **common)
        for rank, change, word in ((1, {"batch_size": 7}, "batch_size"), (1, {"relabel": True}, "relabel"),
                                   (1, {"subset": larder.Range(0, 50)}, "dataset or subset"),
                                   (1, {"ordered": True}, "ordered"), (1, {"zero_copy": True}, "zero_copy"),
                                   (1, {"bad_samples": "error"}, "bad_samples"),
                                   (1, {"augment": "private"}, "augment")):
            with self.assertRaisesRegex(larder.InvalidArgument, word):
                self.loader(daemon, folder, rank=rank, **common, **change)
        with self.assertRaisesRegex(larder.InvalidArgument, "dataset"):
            self.loader(daemon, system.tree(80), rank=1, **common)
        with self.assertRaises(larder.Busy):
            self.loader(daemon, folder, rank=0, **common)
        with self.assertRaisesRegex(larder.InvalidArgument, "name"):
            self.loader(daemon, folder, rank=0, world_size=2)

    def test_from_the_environment(self):
        """What torchrun, srun or mpirun sets makes a loader a rank, and the launch gives all of them one name."""
        daemon, folder = self.daemon(), system.tree(96)
        torchrun = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512"}
        for rank_is, size_is, launch, name in (
                ("RANK", "WORLD_SIZE", torchrun, "ranks-127.0.0.1:29512-1"),
                ("RANK", "WORLD_SIZE", {**torchrun, "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29513"},
                 "ranks-127.0.0.1:29513-1"),
                ("RANK", "WORLD_SIZE", {**torchrun, "TORCHELASTIC_RUN_ID": "mine"}, "mine-127.0.0.1:29512-1"),
                ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}, "slurm-77.0-1"),
                ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE": "prte-node-12@1"},
                 "prte-node-12@1-1")):
            names = []
            for rank in range(2):
                with mock.patch.dict(os.environ, {rank_is: str(rank), size_is: "2", **launch}):
                    larder._ranks._numbered = 0  # as in a process of its own
                    loader = self.loader(daemon, folder)
                self.assertEqual((loader.rank, loader.world_size), (rank, 2))
                names.append(loader.name)
            self.assertEqual(names, [name, name])
            queues = daemon.jobs()[names[0]]["queues"]
            self.assertEqual([(queue["rank"], queue["attached"]) for queue in queues], [(0, True), (1, True)])

    def test_a_script_of_sbatch_is_no_rank(self):
        """A script that sbatch runs once is one process, however many tasks its allocation has."""
        with mock.patch.dict(os.environ, {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"}):
            loader = self.loader(self.daemon(), system.tree(96))
        self.assertEqual((loader.rank, loader.world_size), (0, 1))


if __name__ == "__main__":
    system.main()
