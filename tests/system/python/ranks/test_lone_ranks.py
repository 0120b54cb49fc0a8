"""A rank that is behind in its last epoch has the rest of its share though the daemon goes: the scripts of the ranks
that were faster may have ended, and do not come to the next daemon."""

import collections
import os
import re
import subprocess
import threading

import above  # noqa: F401
import system
from system import BIN, PIPELINE, SLOW, larder, until

COUNT, BATCH = 203, 8  # which neither ranks nor batches divide
CONFIG = system.CONFIG + f"limits:\n  rank_timeout: {int(60 * SLOW)}\n"


class LoneRanks(system.Case):
    def setUp(self):
        super().setUp()
        self.served = self.daemon(CONFIG)
        self.data, self.number = system.tree(COUNT), 0

    def again(self, hand_over):
        """The daemon goes, and another comes."""
        if hand_over:
            subprocess.run([os.path.join(BIN, "larder"), "drain", "--for-restart", "--socket", self.served.socket],
                           check=True, stdout=subprocess.DEVNULL, timeout=60 * SLOW)
            self.served.process.wait(60 * SLOW)
        else:
            self.served.kill()
        self.served = self.daemon(CONFIG)

    def train(self, world, slow, hand_over=False, batches=3, epochs=1, ended="before", restarts=1, **options):
        """All ranks train; those in `slow` stand still after so many batches of the last epoch, until the others have
        had theirs, have ended before the daemon goes or while none is there, and another daemon has come. Gives the
        indices of the last epoch, by rank."""
        self.number += 1
        loaders = [self.loader(self.served, self.data, BATCH, PIPELINE, rank=rank, world_size=world, epochs=epochs,
                               name=f"train-{self.number}", **options) for rank in range(world)]
        got, errors, go = [[] for _ in range(world)], [], threading.Event()
        stand = threading.Barrier(world + 1)

        def run(rank):
            try:
                for epoch in range(epochs):
                    seen, last = [], epoch == epochs - 1
                    iterator = iter(loaders[rank])
                    for number in range(1 << 30):
                        if last and rank in slow and number == batches:
                            stand.wait(60 * SLOW)
                            go.wait(120 * SLOW)
                        batch = next(iterator, None)
                        if batch is None:
                            break
                        seen += batch[-1].tolist()
                got[rank] = seen
                if rank not in slow:
                    if ended == "before":
                        loaders[rank].close()
                    stand.wait(60 * SLOW)
            except BaseException as error:
                errors.append(error)
                stand.abort()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        stand.wait(60 * SLOW)
        for number in range(restarts):
            if ended == "between" and number == 0:
                self.served.kill()
                for rank in set(range(world)) - set(slow):
                    loaders[rank].close()
            self.again(hand_over)
            if number + 1 < restarts:  # the next one goes when this one has the job
                self.assertTrue(system.until(lambda: len(self.served.jobs()) == 1, 30))
        go.set()
        for thread in threads:
            thread.join(120 * SLOW)
        for loader in loaders:
            loader.close()
        if errors:
            raise errors[0]
        return got

    def check(self, got, drop_last=False):
        """Every rank has as much as any other, and all together each sample once, but for what fills shares up."""
        world, counts = len(got), collections.Counter(sum(got, []))
        each = COUNT // world // BATCH * BATCH if drop_last else -(-COUNT // world)
        self.assertEqual([len(share) for share in got], [each] * world)
        if drop_last:
            self.assertEqual(max(counts.values()), 1)
        else:
            self.assertEqual(set(counts), set(range(COUNT)))

    def test_one_is_behind(self):
        """One of two is behind when the daemon is killed, or hands over: with every order, the last batch dropped or
        filled up, in the first epoch or a later one, before its first batch of it too."""
        for hand_over, shuffle, more in ((False, "dependent", {}), (True, "dependent", {}),
                                         (False, "strict", {"drop_last": True}), (True, "none", {}),
                                         (False, "dependent", {"drop_last": True, "epochs": 2}),
                                         (False, "strict", {"epochs": 2, "batches": 0}),
                                         (True, "dependent", {"epochs": 2, "batches": 0})):
            with self.subTest(hand_over=hand_over, shuffle=shuffle, **more):
                self.check(self.train(2, [0], hand_over, shuffle=shuffle, **more), more.get("drop_last", False))

    def test_several(self):
        """Of four ranks one, two or three are behind, whichever they are, through two daemons that go."""
        for slow, shuffle, restarts in (([3], "dependent", 2), ([0, 2], "dependent", 1), ([1, 2, 3], "strict", 2)):
            with self.subTest(slow=slow, shuffle=shuffle):
                self.check(self.train(4, slow, shuffle=shuffle, restarts=restarts))

    def test_ended_while_no_daemon_is_there(self):
        """The other script ends between the two daemons: what it had was told when it had it."""
        self.check(self.train(2, [1], ended="between"))

    def test_bad_samples(self):
        """Bad samples on either side change nothing of it."""
        self.data = system.make_tree(os.path.join(self.folder, "bad"), COUNT)
        for path in system.files_of(self.data)[10:200:20]:
            with open(path, "wb") as file:
                file.write(b"no image")
        got = self.train(2, [0], bad_samples="skip")
        self.assertEqual(set(sum(got, [])), set(range(COUNT)) - set(range(10, 200, 20)))

    def test_at_several_nodes(self):
        """Of four ranks two are at this node: one of them is behind, and gets the rest of this node's share."""
        for shuffle in ("dependent", "strict"):
            with self.subTest(shuffle=shuffle):
                whole = self.node_share(shuffle, False)
                self.assertEqual(self.node_share(shuffle, True), whole)

    def node_share(self, shuffle, restart):
        """What the two ranks of this node have in an epoch, sorted."""
        loaders = [self.loader(self.served, self.data, BATCH, PIPELINE, rank=rank, world_size=4, local_world_size=2,
                               epochs=1, name=f"{shuffle}-{restart}", shuffle=shuffle) for rank in range(2)]
        got, slow = [], iter(loaders[0])
        first = [next(slow) for _ in range(2)]
        fast = threading.Thread(target=lambda: got.extend(loaders[1]))
        fast.start()
        fast.join(60 * SLOW)
        loaders[1].close()
        if restart:
            self.again(False)
        return sorted(index for batch in [*first, *slow, *got] for index in batch[-1].tolist())

    def test_one_that_crashed_is_waited_for(self):
        """A rank that went with a part of its share is not taken for one that is done: the others are told, at the end
        of rank_timeout, which it is."""
        loaders = [self.loader(self.served, self.data, BATCH, PIPELINE, rank=rank, world_size=2, epochs=1, name="train")
                   for rank in range(2)]
        iterators = [iter(loader) for loader in loaders]
        for iterator in iterators:
            next(iterator)
        loaders[1].close()
        self.served.kill()
        self.served = self.daemon(system.CONFIG + "limits:\n  rank_timeout: 1\n")  # in which one rank alone comes
        with self.assertRaisesRegex(larder.Timeout, "rank 1 of 2 has not come"):
            list(iterators[0])

    def test_one_that_never_came(self):
        """A Timeout in the second epoch, which waits for all, names the ranks that have not come, and how to say that
        they are at another node."""
        give = "on another machine, give local_world_size="
        for world, options, text in ((2, {}, f"rank 1 is not here; if it runs {give}$"),
                                     (3, {}, f"ranks 1, 2 are not here; if they run {give}$"),
                                     (4, {"local_world_size": 2}, "rank 1 is not here$")):
            loader = self.loader(self.served, self.data, BATCH, PIPELINE, rank=0, world_size=world, name=f"of-{world}",
                                 **options)
            list(loader)
            iterator, loader._timeout_s = iter(loader), 0.1
            self.assertTrue(until(lambda: re.search(f"a batch did not come in time .*: {text}", self.late(iterator)),
                                  60 * SLOW), self.late(iterator))  # a busy daemon may not tell at once

    def late(self, iterator):
        with self.assertRaises(larder.Timeout) as caught:
            next(iterator)
        return str(caught.exception)


if __name__ == "__main__":
    system.main()
