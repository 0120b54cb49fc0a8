"""Tokens and records at the real daemon, told and asked byte by byte: what ranks of a job took of an epoch is what the
daemon says they took, and going on from it gives the rest, each sample once. LARDER_SEED sets the seed."""

import os
import shutil

import above  # noqa: F401
import raw
from raw_case import COUNT, SHUFFLES, SUBSET, VIEW, RawCase, turns_of
from system import CONFIG, files_of, main, until

SKIP, REPLACE = 0, 1


class Asked(RawCase):
    """STATE_GET."""

    def test_four_ranks(self):
        """What the daemon says that four ranks had after n batches each is what they got, in whatever order they took
        them and ask; whoever asks before the last rank has its batches waits for that. Who has gone on cannot ask for
        where it was."""
        daemon = self.daemon()
        clients = self.ranks(daemon, 4)
        taken = self.take(clients, 0, (0, 1, 1, 0))
        for had, more in zip(taken, self.take(clients, 0, (3, 0, 1, 2))):
            had += more
        clients[1].next(0, 2)
        taken[1] += [clients[1].batch(), clients[1].batch()]
        for batches in (1, 2, 1, 2):  # of three that it has had, and of which it has given one back
            clients[1].ask_state(0, batches)
            token = clients[1].state()
            self.assertEqual(token.over, {turn for had in taken for turn in turns_of(had[:batches])})
            self.assertEqual((token.epoch, token.batches, token.shuffle), (0, batches, raw.DEPENDENT))
        clients[1].ask_state(0, 0)
        self.refused(clients[1], "EINVAL", "after 0 batches of epoch 0, and rank 1 has gone on and given back 1")
        for batch in taken[1][1:]:
            clients[1].release(batch.batch)
        for had, more in zip(taken, self.take(clients, 0, (1, 0, 1, 1))):
            had += more
        clients[0].ask_state(0, 4)
        clients[2].ask_state(0, 3)
        self.assertEqual(clients[2].state().over, {turn for had in taken for turn in turns_of(had[:3])})
        for had, more in zip(taken, self.take(clients, 0, (0, 1, 1, 1))):
            had += more
        self.assertEqual(clients[0].state().over, {turn for had in taken for turn in turns_of(had[:4])})

    def test_fixed_orders(self):
        """Of a fixed order the token has how far each part is through."""
        daemon = self.daemon()
        for shuffle in (raw.STRICT, raw.NONE):
            clients = self.ranks(daemon, 3, shuffle=shuffle, name=str(shuffle))
            self.take(clients, 0, (2, 3, 2))
            clients[2].ask_state(0, 2)
            token = clients[2].state()
            self.assertEqual(token.segments, ((3, (8,)),))
            self.assertEqual((token.batches, token.shuffle, token.seed), (2, shuffle, 11))
            self.leave(clients)

    def refused(self, client, code, text):
        with self.assertRaisesRegex(raw.Refused, text) as caught:
            client.state()
        self.assertEqual((caught.exception.code, caught.exception.fatal), (code, False))

    def test_questions_without_an_answer(self):
        """Another epoch than the running one, more batches than one has had, and a job of one rank are told so; a rank
        that is late, or away, is named at the deadline. The asker goes on as if it had not asked."""
        daemon = self.daemon()
        clients = self.ranks(daemon, 4)
        clients[0].ask_state(0, 1)
        self.refused(clients[0], "EINVAL", "after 1 batches, and no epoch has begun")
        clients[0].ask_state(0, 0)
        self.assertEqual(clients[0].state().over, set())
        self.take(clients, 1, (2, 2, 2, 1))
        clients[0].ask_state(0, 1)
        self.refused(clients[0], "EINVAL", "asked for in epoch 0, and the job is in epoch 1")
        clients[0].ask_state(2, 1)
        self.refused(clients[0], "EINVAL", "asked for in epoch 2, and the job is in epoch 1")
        clients[0].ask_state(1, 3)
        self.refused(clients[0], "EINVAL", "after 3 batches of epoch 1, and rank 0 has had 2")
        for timeout_ms, told in ((0, "0 s"), (200, "0.2 s")):
            clients[0].ask_state(1, 2, timeout_ms)
            self.refused(clients[0], "ETIMEOUT",
                         f"rank 3 of 4 has had 1 batches of epoch 1 and not 2 within {told}: it is slower")
        clients[3].close()
        self.assertTrue(until(lambda: "rank left" in daemon.log(), 10))
        clients[0].ask_state(1, 2, 200)
        self.refused(clients[0], "ETIMEOUT", "rank 3 of 4 .* it is not connected")
        self.take(clients[:3], 1, (1, 1, 1))
        alone = self.client(daemon)
        alone.register(self.dataset)
        alone.ask_state(0, 0)
        self.refused(alone, "EINVAL", "a job of one rank knows its state itself")

    def test_after_the_last_batch(self):
        """A rank that is at its last batch is answered, though the others have gone on to the next epoch."""
        daemon = self.daemon()
        clients = self.ranks(daemon, 2, epochs=2)
        taken = self.rest(clients, 0)
        first = self.take(clients, 1, (1, 1))
        clients[0].ask_state(0, len(taken[0]))
        token = clients[0].state()
        self.assertEqual((token.epoch, sorted(token.over)), (0, VIEW))
        clients[1].ask_state(1, 1)
        self.assertEqual(clients[1].state().over, set(turns_of(first[0] + first[1])))

    def test_what_is_put_back(self):
        """A batch that its rank has not released when its connection ends is not taken: the rank gets it again, and a
        token has it when it does."""
        daemon = self.daemon()
        clients = self.ranks(daemon, 2)
        taken = self.take(clients, 0, (1, 2))
        clients[0].next(0)
        clients[0].batch()
        clients[0].close()
        self.assertTrue(until(lambda: "rank left" in daemon.log(), 10))
        clients[1].ask_state(0, 2)
        clients[0] = self.client(daemon)
        info = clients[0].register(self.dataset, world_size=2, rank=0, name="job", batch_size=4, subset=SUBSET, seed=11)
        self.assertEqual((info["epoch"], info["batch"]), (0, 1))
        taken[0] += self.take(clients[:1], 0, (1,))[0]
        self.assertEqual(clients[1].state().over, set(turns_of(taken[0] + taken[1])))

    def test_who_asks_for_the_next_epoch_has_taken_all_of_this(self):
        """A rank that asks for the next epoch has taken what it was given of this one, released or not: when its
        connection ends, that is no less, and who is at the last batch still gets its token."""
        daemon = self.daemon()
        clients = self.ranks(daemon, 3)
        batches = -(-len(VIEW) // 12)
        taken = self.take(clients, 0, (batches, batches - 2, batches))
        clients[1].next(0, 2)
        taken[1] += [clients[1].batch(), clients[1].batch()]  # it does not release them
        self.assertTrue(taken[1][-1].last)
        clients[1].next(1)
        clients[1].close()
        self.assertTrue(until(lambda: "rank left" in daemon.log(), 10))
        clients[0].ask_state(0, batches, 1000)
        token = clients[0].state()
        self.assertEqual((token.epoch, token.batches, sorted(token.over)), (0, batches, VIEW))

    def test_askers_that_leave(self):
        """Who asks and leaves is forgotten, and so is who asks of a job that ends."""
        daemon = self.daemon()
        for number in range(20):
            clients = self.ranks(daemon, 2, name=str(number))
            self.take(clients, 0, (2, 1))
            clients[0].ask_state(0, 2, self.draw.choice((1, 50, 100000)))
            self.draw.shuffle(clients)
            self.leave(clients)
        self.whole(self.loader(daemon, self.dataset), COUNT)


class Restored(RawCase):
    """Jobs that begin from a token, or whose ranks present what they had."""

    def whole_view(self, *taken):
        """All these batches of all ranks have each turn of the view once."""
        self.assertEqual(sorted(turn for ranks in taken for batches in ranks for turn in turns_of(batches)), VIEW)

    def covered(self, shuffle, *taken):
        """Each sample once, but for repeats at the end, fewer than the last world size."""
        if shuffle == raw.DEPENDENT:
            self.whole_view(*taken)
            return
        indices = [index for ranks in taken for batches in ranks for batch in batches for index in batch.indices]
        self.assertEqual(sorted(set(indices)), VIEW)
        self.assertLess(len(indices) - len(VIEW), len(taken[-1]))

    def test_other_numbers_of_ranks(self):
        """A token of W ranks goes on with any other number, in another daemon, and again with another: the epoch is
        whole with each sample once, ranks take the same number of steps, and the next epoch is a whole one."""
        for shuffle in SHUFFLES:
            for sizes in ((4, 3, 4), (3, 4), (1, 4), (4, 1), (4, 4, 2, 2)):
                with self.subTest(shuffle=shuffle, sizes=sizes):
                    self.elastic(shuffle, sizes)

    def elastic(self, shuffle, sizes):
        token, taken, batches = None, [], 0
        for at, world_size in enumerate(sizes):
            daemon = self.daemon()
            clients = self.ranks(daemon, world_size, token, shuffle=shuffle)
            for client in clients:
                self.assertEqual((client.info["epoch"], client.info["batch"]), (0, batches))
            if at == len(sizes) - 1:
                break
            count = self.draw.randrange(1, 3)
            taken.append(self.take(clients, 0, [count] * world_size))
            batches += count
            if world_size > 1:
                clients[0].ask_state(0, count)
                token = clients[0].state()
            else:
                token = self.token_of_one(clients[0], token, taken[-1][0])
            self.assertEqual(token.batches, batches)
            self.leave(clients)
            daemon.kill()
        taken.append(self.rest(clients, 0))
        self.covered(shuffle, *taken)
        self.assertEqual(len({len(had) for had in taken[-1]}), 1)
        self.assertEqual(taken[-1][0][0].index, batches)
        self.covered(shuffle, self.rest(clients, 1))
        self.leave(clients)
        daemon.kill()

    def token_of_one(self, client, base, batches):
        """The token that the client of a job of one rank makes itself."""
        base = client.record(0, base)
        if base.shuffle == raw.DEPENDENT:
            return base._replace(over=base.over | set(turns_of(batches)), batches=base.batches + len(batches))
        segments = base.segments[:-1] if base.segments and base.segments[-1][0] == 1 else base.segments
        return base._replace(segments=(*segments, (1, (batches[-1].through,))), batches=base.batches + len(batches))

    def test_a_killed_daemon(self):
        """Ranks that are anywhere in their epoch, and a daemon that is killed: each presents what it took, and gets
        exactly the rest. Nobody gets anything before the last one has come; then a token has what they had."""
        for shuffle in SHUFFLES:
            for world_size in (1, 2, 4):
                with self.subTest(shuffle=shuffle, world_size=world_size):
                    self.killed(shuffle, world_size)

    def killed(self, shuffle, world_size):
        daemon = self.daemon()
        clients = self.ranks(daemon, world_size, shuffle=shuffle)
        counts = [self.draw.randrange(5) for _ in clients]
        taken = self.take(clients, 0, counts)
        clients[0].next(0)
        clients[0].batch()  # that came, and is not taken
        states = [client.record(0, None, batches) for client, batches in zip(clients, taken)]
        self.leave(clients)
        daemon.kill()
        daemon = self.daemon()
        clients = [self.client(daemon) for _ in clients]
        least, asker = min(counts), None
        for came, rank in enumerate(self.draw.sample(range(world_size), world_size), 1):
            info = clients[rank].register(self.dataset, world_size=world_size, rank=rank, name="job", batch_size=4,
                                          subset=SUBSET, seed=11, shuffle=shuffle, state=states[rank])
            self.assertEqual((info["epoch"], info["batch"]), (0, counts[rank]))
            if not asker and world_size > 1 and counts[rank] == least:
                clients[rank].ask_state(0, least)
                asker = clients[rank]
            clients[rank].next(0)
            if came < world_size:
                self.assertEqual(daemon.status()["samples"]["prepared"], 0)
        if asker and shuffle == raw.DEPENDENT:
            self.assertEqual(asker.state().over, {turn for had in taken for turn in turns_of(had[:least])})
        elif asker:
            self.assertEqual(asker.state().segments, ((world_size, (4 * least,)),) if least else ())
        first = [client.batch() for client in clients]
        for client, batch in zip(clients, first):
            client.release(batch.batch)
        rest = [[batch, *more] for batch, more in zip(first, self.rest(clients, 0))]
        self.assertEqual([batches[0].index for batches in rest], counts)
        self.covered(shuffle, taken, rest)
        self.assertEqual(len({len(had) + len(more) for had, more in zip(taken, rest)}), 1)
        self.covered(shuffle, self.rest(clients, 1))
        self.leave(clients)
        daemon.kill()

    def test_a_daemon_killed_between_epochs(self):
        """Some ranks present all of an epoch and others the next: who is at the end of the first one is told that all
        of it is over, whoever comes first and whenever it asks, and the next one goes on."""
        for shuffle in SHUFFLES:
            for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
                with self.subTest(shuffle=shuffle, order=order):
                    self.killed_between_epochs(shuffle, order)

    def killed_between_epochs(self, shuffle, order):
        daemon = self.daemon()
        clients = self.ranks(daemon, 3, shuffle=shuffle)
        taken = self.rest(clients, 0)
        first = self.take(clients, 1, (0, 1, 0))[1]
        states = [clients[0].record(0, None, taken[0]), clients[1].record(1, None, first),
                  clients[2].record(0, None, taken[2])]
        self.leave(clients)
        daemon.kill()
        daemon, batches = self.daemon(), len(taken[0])
        clients = [self.client(daemon) for _ in clients]
        for rank in order:
            clients[rank].register(self.dataset, world_size=3, rank=rank, name="job", batch_size=4, subset=SUBSET,
                                   seed=11, shuffle=shuffle, state=states[rank])
            if rank == 0:
                clients[0].ask_state(0, batches)
        token = clients[0].state()
        self.assertEqual((token.epoch, token.batches), (0, batches))
        if shuffle == raw.DEPENDENT:
            self.assertEqual(sorted(token.over), VIEW)
        else:
            self.assertEqual(token.segments, ((3, tuple(len(VIEW[rank::3]) for rank in range(3))),))
        clients[2].ask_state(0, batches)
        self.assertEqual(clients[2].state(), token)
        rest = self.rest(clients, 1)
        rest[1] = first + rest[1]
        self.covered(shuffle, rest)
        self.leave(clients)
        daemon.kill()
        daemon = self.daemon()
        clients = self.ranks(daemon, 2, token, shuffle=shuffle)
        self.assertEqual(self.rest(clients, 0), [[], []])
        self.covered(shuffle, self.rest(clients, 1))
        self.leave(clients)
        daemon.kill()

    def test_bad_samples(self):
        """Bad samples, left out or replaced, before a daemon is killed and after it: every other sample once. Where it
        is replaced, the bad one's turn is over, and it is not tried again."""
        root = os.path.join(self.folder, "some-bad")
        shutil.copytree(self.dataset, root)
        bad = set(self.draw.sample(VIEW, 8))
        for index, path in enumerate(files_of(root)):
            if index in bad:
                with open(path, "wb") as file:
                    file.write(b"no image")
        self.dataset = root
        for shuffle in SHUFFLES:
            for policy in (SKIP, REPLACE):
                with self.subTest(shuffle=shuffle, policy=policy):
                    self.some_bad(shuffle, policy, bad)

    def some_bad(self, shuffle, policy, bad):
        options = {"shuffle": shuffle, "bad_policy": policy, "pipeline": [{"resize": {"size": [8, 8]}}]}
        daemon = self.daemon()
        clients = self.ranks(daemon, 2, **options)
        taken = self.take(clients, 0, [self.draw.randrange(5, 9) for _ in clients])
        states = [client.record(0, None, batches) for client, batches in zip(clients, taken)]
        self.leave(clients)
        daemon.kill()
        daemon = self.daemon()
        clients = self.ranks(daemon, 2, states, **options)
        rest = self.rest(clients, 0)
        indices = [index for batches in (*taken, *rest) for batch in batches for index in batch.indices]
        turns = [turn for batches in (*taken, *rest) for turn in turns_of(batches)]
        self.assertEqual(sorted(set(indices)), sorted(set(VIEW) - bad))
        if shuffle == raw.DEPENDENT:
            self.assertEqual(sorted(turns), sorted(set(VIEW) - (bad if policy == SKIP else set())))
        self.assertEqual(len({len(had) + len(more) for had, more in zip(taken, rest)}), 1)
        repeats = len(indices) - len(VIEW) if policy == REPLACE else len(indices) - len(VIEW) + len(bad)
        self.assertLess(repeats, 2 if policy == REPLACE else len(bad) + 2)
        self.leave(clients)
        daemon.kill()


if __name__ == "__main__":
    main()
