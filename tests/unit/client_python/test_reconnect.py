"""A daemon that dies is a pause: the Loader connects to the next one, says what was taken, and the epoch goes on with
exactly the rest. What is no death of the daemon is raised as ever."""

import gc
import itertools
import logging
import os
import pickle
import random
import signal
import struct
import sys
import threading
import time
import types
from unittest import mock

import fake_daemon as fake
from support import Case, larder, main, until
from test_lifetime import in_child
from test_state import SEED, indices_of
from test_trainers import Steps, TodaysState


class Reconnecting(Case):
    def setUp(self):
        super().setUp()
        self.told = []
        handler = logging.Handler()
        handler.emit = lambda record: self.told.append(record.getMessage())
        log = logging.getLogger("larder")
        log.addHandler(handler)
        self.addCleanup(log.removeHandler, handler)
        self.addCleanup(setattr, log, "propagate", log.propagate)
        log.propagate = False
        self.settings = {}

    def loader(self, **options):
        loader = super().loader(**{"with_ids": True, **options})
        self.addCleanup(loader.close)
        return loader

    def serve(self, **attributes):
        """The daemon, in place of the one before."""
        self.settings = attributes or self.settings
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.served = self.daemon(**self.settings)
        return self.served

    def die(self):
        """kill -9: all connections end, and nobody listens any more."""
        self.served.kill()

    def replace(self, **attributes):
        self.die()
        return self.serve(**attributes)

    def beside(self, work):
        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)

    @staticmethod
    def wait_at_most(loader, timeout_s):
        """Another `timeout` from here on: a short one from the start would measure how busy the machine is."""
        loader._timeout_s = loader._job.timeout_s = loader._job.link._timeout_s = timeout_s


class OneRank(Reconnecting):
    def test_the_rest_comes(self):
        """Killed at random moments (seeded) and replaced, in each order and each way of delivery: the epoch goes on
        with exactly the rest, in the order's own order; each time is counted and told."""
        rng = random.Random(SEED)
        self.serve(n_samples=90)
        for shuffle in ("dependent", "strict", "none"):
            for options in ({}, {"zero_copy": True}, {"prefetch": 8}, {"epochs": 5}, {"drop_last": True,
                                                                                      "batch_size": 7}):
                with self.subTest(shuffle=shuffle, seed=SEED, **options):
                    plain = self.loader(shuffle=shuffle, seed=4)
                    loader = self.loader(shuffle=shuffle, seed=4, **options)
                    deaths = 0
                    for epoch in range(3):
                        seen, order = [], indices_of(plain)
                        for number, batch in enumerate(loader):
                            self.check_pixels(batch[0], batch[-1])
                            seen += batch[-1].tolist()
                            del batch
                            if rng.random() < 0.2:
                                self.replace()
                                deaths += 1
                        expected = order[:84] if "drop_last" in options else order
                        self.assertEqual(seen if shuffle != "dependent" else sorted(seen)[:len(expected)],
                                         expected if shuffle != "dependent" else sorted(set(seen)))
                        self.assertEqual(len(set(seen)), len(expected))
                        if rng.random() < 0.5:
                            self.replace()
                    self.assertGreaterEqual(loader.stats()["reconnects"], deaths - 3)
                    self.assertEqual(loader.stats()["samples"], 3 * len(expected))
                    loader.close()
                    plain.close()
        self.assertRegex(self.told[0],
                         "^job job-.*: the daemon at .* has gone away.* Connecting again, for up to 60 s$")

    def test_what_is_presented(self):
        """The record has the fingerprints, the batches with their boundaries, and the turns: a substitute has that of
        the bad sample in whose place it came, and a repeat has none."""
        self.serve(n_samples=40, turns=((1, 39), (3, fake.TURN_NONE)))
        loader = self.loader(seed=9, shuffle="dependent", batch_size=4)
        iterator = iter(loader)
        came = [next(iterator)[-1].tolist() for _ in range(2)]
        self.replace(n_samples=40)
        next(iterator)
        record = self.served.records[0]
        turns = [[batch[0], 39, batch[2]] for batch in came]
        self.assertEqual(record["history"], [(4, 0, turns[0]), (4, 0, turns[1])])
        self.assertEqual({key: record[key] for key in ("dataset_0", "dataset_1", "view_0", "view_1", "seed", "shuffle",
                                                       "epoch", "batches", "samples", "world_size", "rank", "base")},
                         {"dataset_0": 11, "dataset_1": 12, "view_0": 13, "view_1": 14, "seed": 9, "shuffle": 0,
                          "epoch": 0, "batches": 0, "samples": 40, "world_size": 1, "rank": 0, "base": set()})

    def test_prefetched_batches_come_again(self):
        """Batches that lay in the socket when the daemon died were not taken: they are of the rest."""
        self.serve(n_samples=60)
        loader = self.loader(prefetch=6)
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        self.assertTrue(until(lambda: self.served.connections[-1].sent >= 4))
        self.served.connections[-1].arena[:] = bytes([fake.POISON]) * self.served.arena_bytes
        self.replace()
        for batch in iterator:
            self.check_pixels(batch[0], batch[-1])
            seen += batch[-1].tolist()
        self.assertEqual(sorted(seen), list(range(60)))
        self.assertEqual(len(self.served.records[0]["history"]), 1)

    def test_while_it_waits(self):
        """The daemon dies while a batch is waited for, and the next one comes a moment later."""
        self.serve(n_samples=60, silent_after=2)
        loader = self.loader(timeout=None)
        iterator = iter(loader)
        seen = indices_of([next(iterator), next(iterator)])
        self.settings = {"n_samples": 60}

        def away():
            time.sleep(0.1)  # so that the loop waits for a batch
            self.die()
            self.assertTrue(until(lambda: self.told))
            time.sleep(0.1)  # and then for a daemon
            self.serve()
        self.beside(away)
        seen += indices_of(iterator)
        self.assertEqual(sorted(seen), list(range(60)))
        self.assertEqual(loader.stats()["reconnects"], 1)
        self.assertEqual(len(self.told), 1)

    def test_between_two_epochs(self):
        """It dies after the last batch, with the next epoch asked for or not, before the loop's end and after it: that
        epoch stays as it was, and the next one is whole."""
        for epochs in (None, 5):
            self.serve(n_samples=24)
            loader = self.loader(epochs=epochs)
            for before_end in (True, False, True):
                iterator = iter(loader)
                seen = indices_of([next(iterator) for _ in range(4)])
                if before_end:
                    self.replace()
                self.assertEqual(list(iterator), [])
                if not before_end:
                    self.replace()
                self.assertEqual(sorted(seen), list(range(24)))
            self.assertEqual(sorted(indices_of(loader)), list(range(24)))
            self.assertEqual(loader.epoch, 4)

    def test_a_restored_epoch(self):
        """A daemon that dies in an epoch that a state was restored in: what was taken before counts as well."""
        self.serve(n_samples=60)
        for shuffle in ("dependent", "strict"):
            first = self.loader(shuffle=shuffle)
            seen = indices_of([batch for _, batch in zip(range(3), first)])
            loader = self.loader(shuffle=shuffle, state=first.state_dict())
            for batch in loader:
                seen += batch[-1].tolist()
                state = loader.state_dict()
                self.replace()
                self.assertEqual(loader.state_dict(), state)
            self.assertEqual(sorted(seen), list(range(60)))
            first.close()

    def test_a_state_that_has_not_begun(self):
        """One that was loaded is presented to the daemon that is there when its epoch begins."""
        self.serve(n_samples=60)
        first = self.loader()
        seen = indices_of([next(iter(first))])
        loader = self.loader(state=first.state_dict())
        self.replace()
        self.assertEqual(sorted(seen + indices_of(loader)), list(range(60)))

    def test_after_a_break(self):
        """An epoch that was left early, and then the daemon died: the next one is whole."""
        self.serve(n_samples=60)
        loader = self.loader()
        for _ in loader:
            break
        self.replace()
        self.assertEqual(sorted(indices_of(loader)), list(range(60)))
        self.assertEqual(loader.epoch, 2)

    def test_names(self):
        """A job that the daemon had named keeps its name with the next one, or gets another where somebody has it; one
        that the script named waits for it."""
        self.serve(n_samples=60)
        loader, mine = self.loader(), self.loader(name="mine")
        iterators = [iter(loader), iter(mine)]
        name = loader.name
        seen = [indices_of([next(iterator)]) for iterator in iterators]
        self.replace()
        other = self.loader(name=name)
        self.assertEqual(len(other), 10)
        taken = self.loader(name="mine")

        def leave():
            self.assertTrue(until(lambda: [job["name"] for job in self.served.registrations].count(b"mine") > 2))
            taken.close()
        self.beside(leave)
        for number, iterator in enumerate(iterators):
            self.assertEqual(sorted(seen[number] + indices_of(iterator)), list(range(60)))
        self.assertNotEqual(loader.name, name)
        self.assertEqual((mine.name, [job["name"] for job in self.served.registrations].count(name.encode())),
                         ("mine", 2))

    def test_views_outlive_their_daemon(self):
        """Zero-copy batches that are held of a daemon that died keep their bytes, and do not count with the next
        one."""
        self.serve(n_samples=60, held_max=3)
        loader = self.loader(zero_copy=True)
        iterator = iter(loader)
        kept = [next(iterator) for _ in range(3)]
        self.replace()
        kept += [next(iterator) for _ in range(3)]
        with self.assertRaises(larder.LimitReached):
            next(iterator)
        for images, _, indices in kept:
            self.check_pixels(images, indices)
        kept[0].release()
        del kept[1:], images
        gc.collect()
        self.assertEqual(len(indices_of(iterator)), 24)

    def test_threads_share_an_iterator(self):
        """Four threads that share an iterator get each batch once while daemons come and go."""
        self.serve(n_samples=600)
        loader = self.loader()
        iterator, seen, errors = iter(loader), [], []

        def work():
            try:
                for batch in iterator:
                    seen.append(batch[-1].tolist())
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for count in (20, 40, 60):
            self.assertTrue(until(lambda: len(seen) >= count or errors))
            self.replace()
        for thread in threads:
            thread.join(60)
        self.assertEqual((sorted(sum(seen, [])), errors), (list(range(600)), []))

    def test_fork_and_pickle(self):
        """While it is without a daemon a Loader can be copied: the copies begin epochs of their own, and it goes on."""
        self.serve(n_samples=60)
        loader = self.loader()
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        self.die()
        self.wait_at_most(loader, 0.1)
        with self.assertRaises(larder.Timeout):
            next(iterator)
        self.wait_at_most(loader, 60)
        copied = pickle.dumps(loader)
        self.serve()
        self.assertEqual(len(indices_of(pickle.loads(copied))), 60)
        self.assertEqual(in_child(lambda: len(indices_of(loader)) == 60), 0)
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))

    def test_accelerate_knows_the_end(self):
        """Of 10 batches, three to a step, every third and the last end with one, though daemons die between."""
        TodaysState._shared_state = {}
        with mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=TodaysState)}):
            self.serve(n_samples=60)
            for empty_last in (False, True):
                self.served.empty_last = empty_last
                self.settings = {"n_samples": 60, "empty_last": empty_last}
                steps, took = Steps(TodaysState(), 3), []
                for _ in self.loader(prefetch=1):
                    self.replace()
                    took.append(steps.take())
                self.assertEqual(took, [False, False, True] * 3 + [True])


class NoDaemon(Reconnecting):
    """While there is none."""

    def test_a_timeout_loses_nothing(self):
        """Where no daemon comes within the Loader's timeout the call raises Timeout, and a later one goes on."""
        self.serve(n_samples=60)
        loader = self.loader()
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        self.die()
        self.wait_at_most(loader, 0.1)
        for _ in range(3):
            with self.assertRaisesRegex(larder.Timeout, "no daemon answers.*the next call goes on"):
                next(iterator)
        self.wait_at_most(loader, 60)
        self.serve()
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))
        self.assertEqual((len(self.told), loader.stats()["reconnects"]), (1, 1))

    def test_ctrl_c_loses_nothing(self):
        """Ctrl-C ends the wait for a daemon at once, and the same iterator goes on later."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        self.serve(n_samples=60)
        loader = self.loader(timeout=None)
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        self.die()

        def interrupt():
            self.assertTrue(until(lambda: self.told))
            os.kill(os.getpid(), signal.SIGINT)
        self.beside(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            next(iterator)
        self.serve()
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))

    def test_ctrl_c_anywhere(self):
        """Signals at random moments (seeded) within the iterator, with daemons that die between: the same iterator goes
        on, and every sample comes once."""
        within = larder._epoch.Epoch.__next__.__code__

        def interrupt(_, frame):
            while frame is not None:
                if frame.f_code is within:
                    raise KeyboardInterrupt
                frame = frame.f_back
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        rng = random.Random(SEED)
        self.serve(n_samples=900)
        iterator, seen, interrupted = iter(self.loader(batch_size=3)), [], 0
        while len(seen) < 900:
            for _ in range(3):
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + rng.random() * 0.004)
                try:
                    while signal.getitimer(signal.ITIMER_REAL)[0] and len(seen) < 900:
                        seen += next(iterator)[-1].tolist()
                except KeyboardInterrupt:
                    interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if len(seen) < 900:  # a busy machine may need longer than that for a connection: this batch is let come
                seen += next(iterator)[-1].tolist()
            if rng.random() < 0.05:
                self.replace()
        self.assertEqual(sorted(seen), list(range(900)), SEED)
        self.assertEqual(list(iterator), [])
        self.assertGreater(interrupted, 0)

    def test_it_gives_up(self):
        """After the time for it is over the error says that nobody answers; the state of the broken epoch is there, and
        the next iteration begins it again."""
        self.serve(n_samples=60)
        loader = self.loader(reconnect=0.2)
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        self.die()
        began = time.monotonic()
        with self.assertRaisesRegex(larder.DaemonGone, "no daemon answers"):
            next(iterator)
        self.assertGreater(time.monotonic() - began, 0.19)
        with self.assertRaisesRegex(larder.DaemonGone, "begins it again"):
            next(iterator)
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["batches"], loader.epoch), (0, 1, 0))
        self.serve()
        self.assertEqual(sorted(indices_of(loader)), list(range(60)))
        loader.load_state_dict(state)
        self.assertEqual(sorted(seen + indices_of(loader)), list(range(60)))
        self.assertEqual(loader.stats()["reconnects"], 0)

    def test_daemons_that_die_again_and_again(self):
        """A daemon that takes the job and dies before its first batch, each time, is given up as well; one that gives a
        batch each time is not. By a clock of which a second goes by at each look."""
        ticks = itertools.count()
        clock = mock.patch.object(larder._link, "time", types.SimpleNamespace(monotonic=lambda: next(ticks)))
        clock.start()
        self.addCleanup(clock.stop)
        daemon = self.serve(n_samples=60)
        loader = self.loader(reconnect=5, prefetch=1)
        iterator = iter(loader)
        next(iterator)
        daemon.die_after = 0
        daemon.connections[-1].hang_up()
        with self.assertRaises(larder.DaemonGone):
            next(iterator)
        self.assertIn(len(daemon.registrations), range(3, 7))
        daemon.die_after = 1
        self.assertEqual(sorted(indices_of(loader)), list(range(60)))
        self.assertGreaterEqual(loader.stats()["reconnects"], 9)

    def test_close_ends_it(self):
        """close() from another thread ends the wait for a daemon, and for the greeting of one that is silent."""
        for silent in (False, True):
            self.serve(n_samples=60)
            loader = self.loader(timeout=None)
            iterator, ended = iter(loader), []
            next(iterator)
            self.die()

            def work():
                try:
                    next(iterator)
                except larder.LarderError as error:
                    ended.append(error)
            if silent:
                os.unlink(self.path)
                listener = fake.socket.socket(fake.socket.AF_UNIX, fake.socket.SOCK_SEQPACKET)
                self.addCleanup(listener.close)
                listener.bind(self.path)
                listener.listen(1)
            thread = threading.Thread(target=work)
            thread.start()
            if silent:
                accepted = listener.accept()[0]
                self.addCleanup(accepted.close)
                accepted.recv(4096)
            else:
                self.assertTrue(until(lambda: self.told))
            loader.close()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            self.assertRegex(str(ended[0]), "this Loader is closed")
            if silent:
                os.unlink(self.path)

    def test_none(self):
        """With reconnect=0 the error is raised at once, as before there was a next daemon; other values are refused."""
        self.serve(n_samples=60)
        loader = self.loader(reconnect=0)
        iterator = iter(loader)
        next(iterator)
        self.replace()
        with self.assertRaisesRegex(larder.DaemonGone, r"has gone away \(its log says why, unless it was killed\)"):
            list(iterator)
        self.assertEqual(len(indices_of(loader)), 60)
        with open(self.path + ".log", "w"):  # of a daemon that a script has started
            iterator = iter(loader)
        next(iterator)
        self.replace()
        with self.assertRaisesRegex(larder.DaemonGone, f"has gone away .its log, {self.path}.log, says why, unless"):
            list(iterator)
        self.assertEqual((self.told, loader.stats()["reconnects"]), ([], 0))
        for wrong in (-1, "x", None, float("nan")):
            with self.assertRaisesRegex(larder.InvalidArgument, "reconnect is"):
                self.loader(reconnect=wrong)


class OtherEnds(Reconnecting):
    """What is not the death of the daemon, or leads to another one than it was."""

    def test_a_daemon_that_says_it_goes(self):
        """A fatal EGONE means that the daemon goes; its word is in the log."""
        self.serve(n_samples=60)
        loader = self.loader(prefetch=1)
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        connection = self.served.connections[-1]
        connection.send(fake.ERROR, 0, struct.pack("<iI", -9, 1) + fake.text(b"the daemon is stopping"))
        connection.hang_up()
        self.replace()
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))
        self.assertRegex(self.told[0], "the daemon is stopping. Connecting again")

    def test_the_jobs_own_end(self):
        """A job that was cancelled, has a bad sample or failed otherwise is not made again: its error is raised."""
        for code, kind in ((-9, larder.JobCancelled), (-11, larder.BadSample), (-3, larder.IOFailure),
                           (-13, larder.Timeout)):
            self.serve(n_samples=60, error_after=2, error=(code, b"what it was"))
            loader = self.loader(prefetch=1)
            with self.assertRaisesRegex(kind, "what it was"):
                list(loader)
            self.assertEqual(len(self.served.registrations), 1)
            loader.close()
        self.assertEqual(self.told, [])

    def test_another_dataset(self):
        """A dataset, subset, or shape that is another one than before is an error that says so; the next iteration
        takes it as it is."""
        for change, kind, words in (({"dataset": (11, 13)}, larder.SourceChanged, "the dataset '/data' is another one"),
                                    ({"dataset_samples": 61}, larder.SourceChanged, "the dataset '/data' is another"),
                                    ({"version": (15, 17, 17, 19)}, larder.SourceChanged, "and were rewritten"),
                                    ({"version": (16, 16, 0, 0)}, larder.SourceChanged, "and were rewritten"),
                                    ({"view": (1, 2)}, larder.SourceChanged, "the subset of '/data' is another one"),
                                    ({"height": 5}, larder.InvalidArgument, "layout .* of 5x6x3, and was .* of 4x6x3"),
                                    ({"dtype": 2, "itemsize": 4}, larder.InvalidArgument, "layout .* is image float32"),
                                    ({"classes": (b"cat",)}, larder.InvalidArgument, "n_classes")):
            with self.subTest(words):
                self.serve(n_samples=60)
                loader = self.loader()
                iterator = iter(loader)
                next(iterator)
                self.replace(n_samples=60, **change)
                with self.assertRaisesRegex(kind, words):
                    next(iterator)
                self.assertEqual(len(indices_of(loader)), 60)
                loader.close()

    def test_touched_files(self):
        """Files with other times and the same content are the same ones; so are those of which nothing is known."""
        for version in ((1, 2, 17, 18), (15, 16, 0, 0), (0, 0, 0, 0)):
            with self.subTest(version=version):
                self.serve(n_samples=60)
                loader = self.loader()
                iterator = iter(loader)
                had = next(iterator)[2].tolist()
                self.replace(n_samples=60, version=version)
                self.assertEqual(sorted(had + indices_of(iterator)), list(range(60)))
                self.assertEqual(self.served.records[0]["version"], (15, 16, 17, 18))
                loader.close()

    def test_batches_out_of_place(self):
        """A batch with another number than the one that comes next is refused: samples would be lost, or come twice."""
        def mangle(kind, data):
            if kind != fake.BATCH or struct.unpack_from("<I", data, 16 + 12)[0] != 2:
                return data
            return data[:16 + 12] + struct.pack("<I", 3) + data[16 + 16:]
        self.serve(n_samples=60, mangle=mangle)
        with self.assertRaisesRegex(larder.FormatError, "batch 3 of epoch 0 where 2 comes next"):
            list(self.loader())

    def test_samples_that_are_not_there(self):
        """Indices and turns beyond the dataset, and turns of another batch, are refused."""
        for turns in (((0, 60),), ((0, 2**32 - 2),)):
            self.serve(n_samples=60, turns=turns)
            with self.assertRaisesRegex(larder.FormatError, "beyond the 60 of the dataset"):
                list(self.loader())

        def mangle(kind, data):
            return data[:16] + b"\7" + data[17:] if kind == fake.TURNS else data
        self.serve(n_samples=60, turns=((0, 1),), mangle=mangle)
        with self.assertRaisesRegex(larder.FormatError, "do not belong to their batch"):
            list(self.loader())


if __name__ == "__main__":
    main()
