"""What surrounds a loss of the daemon: what is kept of it and what is forgotten, what is said and when, and that
nothing is taken that the loop is not given."""

import contextlib
import fcntl
import importlib
import os
import queue
import socket
import struct
import sys
import threading
import types
import weakref
from unittest import mock

import fake_daemon as fake
from support import larder, main, until
from test_reconnect import Reconnecting
from test_state import indices_of
from test_trainers import TodaysState

TIOCOUTQ = 0x5411  # the bytes that the other side has not read
SESSION = importlib.import_module("larder._session")
NUMBER = 1000  # of a descriptor that nobody else has


class Kept(Reconnecting):
    """What a loss leaves in the Loader."""

    def test_no_frames(self):
        """A loss that is over keeps nothing alive of what the script had in its functions when it came."""
        class Large:
            pass
        self.serve(n_samples=60)
        iterator = iter(self.loader())

        def step():
            large = Large()
            self.replace()
            next(iterator)
            return weakref.ref(large)
        for _ in range(2):
            self.assertIsNone(step()())

    def test_no_frames_of_a_later_error(self):
        """An error that ended the job elsewhere is raised at the next batch, and holds no frame until then."""
        self.serve(n_samples=60)
        loader = self.loader(rank=0, world_size=1)
        iterator = iter(loader)
        job = loader._job
        next(iterator)
        job.returning = True
        self.replace(n_samples=60, dataset=(5, 5))
        job.link.lose(larder._socket.gone(self.path))
        larder._watch._try(job)
        each = job.error
        while each is not None:
            self.assertIsNone(each.__traceback__)
            each = each.__cause__ or each.__context__
        with self.assertRaises(larder.SourceChanged):
            next(iterator)

    def test_ctrl_c_slows_nothing_down(self):
        """However often Ctrl-C ends a try to connect again, the next one is made at once."""
        self.serve(n_samples=60)
        loader = self.loader()
        link, iterator = loader._job.link, iter(loader)
        next(iterator)
        self.replace()
        with mock.patch.object(link, "_opened", side_effect=KeyboardInterrupt):
            for _ in range(5):
                with self.assertRaises(KeyboardInterrupt):
                    next(iterator)
                self.assertEqual(link._pause_s, 0)
        next(iterator)

    def test_a_job_that_is_given_up(self):
        """A loss ends with its job: a state that is loaded meanwhile, and an error that ends the job in the next
        daemon, begin anew, and no time of it counts at the next loss."""
        for loads in (True, False):
            with self.subTest(loads=loads):
                self.serve(n_samples=60)
                loader = self.loader()
                link, iterator = loader._job.link, iter(loader)
                state = loader.state_dict()
                next(iterator)
                self.die()
                with mock.patch.object(link, "_timeout_s", 0.1), self.assertRaises(larder.Timeout):
                    next(iterator)
                link._lost_s -= 50  # of the 60 s that it may take
                if loads:
                    loader.load_state_dict(state)
                    self.serve()
                else:
                    self.serve(n_samples=60, dataset=(5, 5))
                    with self.assertRaises(larder.SourceChanged):
                        next(iterator)
                iterator = iter(loader)
                self.assertEqual(loader.stats()["reconnects"], 0)
                self.replace()
                next(iterator)
                self.assertEqual(loader.stats()["reconnects"], 1)
                loader.close()


class GivenUp(Reconnecting):
    """The error when no daemon has come in time."""

    def give_up(self, **options):
        """A loader that is given up in its epoch, whose next daemon is there and not usable; and the error."""
        loader = self.loader(reconnect=0.3, **options)
        iterator = iter(loader)
        next(iterator)
        self.die()
        os.unlink(self.path)
        yield loader
        with mock.patch.object(loader._job.link, "_timeout_s", 0.4):
            with self.assertRaises(larder.LarderError) as caught:
                next(iterator)
        with self.assertRaisesRegex(larder.DaemonGone, "iter.loader. begins it again"):
            next(iterator)
        yield caught.exception

    def test_a_daemon_that_answers_nobody(self):
        """One that is there and greets nobody: the error is no Timeout, as it is final, and says what was lost, for how
        long it was tried, and what came of the last try. The epoch is broken off, and the next iteration begins it."""
        self.serve(n_samples=60)
        steps = self.give_up()
        loader = next(steps)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind(self.path)
            silent.listen(16)
            error = next(steps)
        self.assertIs(type(error), larder.DaemonGone)
        self.assertRegex(str(error), "has gone away.*No daemon took the job over within 0.3 s: the daemon's "
                                     "greeting did not come in time")
        self.serve()
        self.assertEqual(sorted(indices_of(loader)), list(range(60)))

    def test_a_name_that_others_have(self):
        """Where others have the job's name in the next daemon the error stays Busy, and says the same."""
        self.serve(n_samples=60)
        steps = self.give_up(name="mine")
        next(steps)
        self.serve(n_samples=60, register_error=(-7, b"job 'mine' is there already"))
        error = next(steps)
        self.assertIs(type(error), larder.Busy)
        self.assertRegex(str(error), "has gone away.*within 0.3 s: job 'mine' is there already")

    def test_daemons_that_go_again(self):
        """Where daemons come and go before a batch the error says so."""
        daemon = self.serve(n_samples=60)
        loader = self.loader(reconnect=0.2)
        iterator = iter(loader)
        next(iterator)
        daemon.die_after = 0
        daemon.connections[-1].hang_up()
        words = "went before a batch came, for 0.2 s|over within 0.2 s"
        with self.assertRaisesRegex(larder.DaemonGone, words) as caught:
            next(iterator)
        self.assertFalse(caught.exception.lost)


class Told(Reconnecting):
    """What the log says while it is tried."""

    def test_a_daemon_that_takes_nobody(self):
        """What a daemon says that takes no job is in the log at once, and once, and it is tried on."""
        self.serve(n_samples=60)
        loader = self.loader()
        iterator = iter(loader)
        seen = indices_of([next(iterator)])
        for code in (-9, -7):
            self.replace(n_samples=60, register_error=(code, b"the daemon is being drained: try another"))
            self.beside(lambda: until(lambda: len(self.told) == 2) and setattr(self.served, "register_error", None))
            seen += indices_of([next(iterator)])
            self.assertEqual(len(self.told), 2)
            self.assertRegex(self.told[0], "Connecting again, for up to 60 s")
            self.assertRegex(self.told[1], "the daemon is being drained: try another. Trying again, for up to 60 s")
            self.told.clear()
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))


class Watched(Reconnecting):
    """The connections that are watched while the script does something else."""

    def session(self):
        """A session, always of the same number, and the daemon's end of it."""
        session = SESSION.Session(self.path)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        session._sock = socket.socket(fileno=os.dup2(near.fileno(), NUMBER, inheritable=False))
        near.close()
        self.addCleanup(far.close)
        self.addCleanup(session.abandon)
        return session, far

    def test_numbers_that_come_again(self):
        """A connection is watched on when the hang-up that was told is of one before, whose descriptor had the number
        that it has now: one that is still open elsewhere, or that was told of before it was closed."""
        came = queue.Queue()
        with mock.patch.object(larder._watch, "_come_back", lambda job, session: came.put(session)):
            watcher, job = larder._watch._Watcher(), self.loader
            old, far = self.session()
            elsewhere = os.dup(old.fileno())  # as in a child of which Python knows nothing
            self.addCleanup(os.close, elsewhere)
            watcher.add(job, old)
            old.abandon()
            new, new_far = self.session()
            watcher.add(job, new)
            far.close()
            with self.assertRaises(queue.Empty):
                came.get(timeout=0.2)
            with watcher.lock:
                self.assertEqual(list(watcher.watched), [NUMBER])
            new_far.close()
            self.assertIs(came.get(timeout=60), new)

    def test_a_closed_session(self):
        """One that was closed meanwhile is not watched, and hinders nothing."""
        session, _ = self.session()
        session.abandon()
        larder._watch.watch(self.loader, session)
        self.assertNotIn(-1, larder._watch._watcher.watched)


class AtEnd(Reconnecting):
    """Accelerate asks after each batch whether it was the epoch's last, which looks at the message that comes next."""

    def setUp(self):
        super().setUp()
        TodaysState._shared_state = {}
        patch = mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=TodaysState)})
        patch.start()
        self.addCleanup(patch.stop)
        self.state = TodaysState()

    def is_last(self):
        return self.state.active_dataloader.end_of_dataloader

    def test_no_batch_is_lost(self):
        """The last batch is empty, as its samples are bad, and the daemon dies just when that is known. In the next one
        they are sound, and are asked for as there is room: what counts as taken the loop was given."""
        look, kept = SESSION.Session.next_is_empty, []

        def dies(session):
            empty = look(session)
            if empty:
                kept[0].release()
                self.replace(n_samples=18)
            return empty
        self.serve(n_samples=18, bad=range(12, 18), order="sequential", empty_last=True, held_max=3)
        loader = self.loader(zero_copy=True, prefetch=2)
        with mock.patch.object(SESSION.Session, "next_is_empty", dies):
            for batch in loader:
                kept.append(batch)
                self.is_last()
        self.assertEqual(sum(len(batch[-1]) for batch in kept), loader.stats()["samples"])

    def test_an_iterator_that_is_over(self):
        """An epoch that was broken off, or that a newer one has followed, is asked for nothing any more."""
        self.serve(n_samples=60, error_after=2)
        loader = self.loader(prefetch=1)
        iterator = iter(loader)
        next(iterator), next(iterator)
        with self.assertRaises(larder.BadSample):
            next(iterator)
        registered = len(self.served.registrations)
        self.assertFalse(self.is_last())
        self.assertEqual(len(self.served.registrations), registered)
        with self.assertRaisesRegex(larder.DaemonGone, "begins it again"):
            next(iterator)
        self.served.error_after = None
        first = iter(loader)
        position = self.state.active_dataloader
        next(first)
        second = iter(loader)
        seen = indices_of([next(second)])
        self.assertFalse(position.end_of_dataloader)
        self.assertEqual(sorted(seen + indices_of(second)), list(range(60)))
        with self.assertRaisesRegex(larder.LarderError, "a newer one of its Loader has begun"):
            next(first)

    def test_a_daemon_that_is_given_up(self):
        """What is given up while the end is asked for is raised at the next batch, and no other job is begun."""
        daemon = self.serve(n_samples=60)
        loader = self.loader(reconnect=0.2)
        iterator = iter(loader)
        next(iterator)
        daemon.die_after = 0
        daemon.connections[-1].hang_up()
        self.assertFalse(self.is_last())
        daemon.die_after = None
        registered = len(daemon.registrations)
        self.assertFalse(self.is_last())
        self.assertEqual(len(daemon.registrations), registered)
        with self.assertRaisesRegex(larder.DaemonGone, "0.2 s"):
            next(iterator)
        self.assertEqual(len(indices_of(loader)), 60)


class InterruptingLock:
    """A lock that a signal comes with as it is left, once."""

    def __init__(self, lock):
        self.lock, self.armed = lock, True

    def __getattr__(self, name):
        return getattr(self.lock, name)

    def __enter__(self):
        return self.lock.__enter__()

    def __exit__(self, *raised):
        self.lock.__exit__(*raised)
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


class HeldBatches(Reconnecting):
    """Ctrl-C in the middle of a batch, while the loop holds zero-copy batches of the job."""

    def interrupted(self, iterator):
        try:
            next(iterator)
        except KeyboardInterrupt as error:
            return error  # and its traceback, as an interactive Python keeps it
        self.fail("nothing was interrupted")

    def interruptions(self, loader, iterator):
        for patch in (mock.patch.object(larder._epoch, "views", side_effect=KeyboardInterrupt),
                      mock.patch.object(larder._epoch._Batches, "_parts", side_effect=KeyboardInterrupt),
                      mock.patch.object(loader._job, "lock", InterruptingLock(loader._job.lock))):
            with patch:
                error = self.interrupted(iterator)
            yield error

    def test_a_job_with_a_name(self):
        """The name is that connection's that the batches hold: the next call says so, and loses nothing. When the loop
        has released them it goes on, in the same epoch and under the same name."""
        self.serve(n_samples=60)
        loader = self.loader(zero_copy=True, name="mine")
        iterator = iter(loader)
        held = next(iterator)
        seen, errors = held[-1].tolist(), []
        for error in self.interruptions(loader, iterator):
            errors.append(error)
            for _ in range(2):
                with self.assertRaisesRegex(larder.LimitReached, "release.. them, before it goes on"):
                    next(iterator)
            self.check_pixels(held[0], held[-1])
            held.release()
            held = next(iterator)
            seen += held[-1].tolist()
        self.assertEqual(loader.state_dict()["batches"], 4)
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))
        self.assertEqual({job["name"] for job in self.served.registrations}, {b"mine"})

    def test_a_job_without(self):
        """It goes on at once, under another name."""
        self.serve(n_samples=60)
        loader = self.loader(zero_copy=True)
        iterator = iter(loader)
        held, errors = [next(iterator)], []
        for error in self.interruptions(loader, iterator):
            errors.append(error)
            held.append(next(iterator))
        for batch in held:
            self.check_pixels(batch[0], batch[-1])
        seen = indices_of(held)
        del held, batch
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))

    def test_nothing_held(self):
        """Where the loop holds nothing, no batch that it was not given is held by the interruption."""
        self.serve(n_samples=60)
        loader = self.loader(zero_copy=True, name="mine")
        iterator = iter(loader)
        seen, errors = indices_of([next(iterator)]), []
        for error in self.interruptions(loader, iterator):
            errors.append(error)
            seen += indices_of([next(iterator)])
        self.assertEqual(sorted(seen + indices_of(iterator)), list(range(60)))


class Full(Reconnecting):
    """A daemon that does not read what it is sent."""

    def session(self):
        """A session whose socket holds few requests, and the daemon's end of it."""
        session = SESSION.Session(self.path)
        session._sock, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        session._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as few as there can be
        session.info = types.SimpleNamespace(held_max=64)
        self.addCleanup(session.abandon)
        self.addCleanup(far.close)
        self.addCleanup(session.interrupt)
        return session, far

    @staticmethod
    def read(far):
        """The requests that are there: (type, their numbers)."""
        requests = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data = far.recv(4096, socket.MSG_DONTWAIT)
                kind, = struct.unpack_from("<H", data, 6)
                requests.append((kind, *struct.unpack("<Q" if kind == fake.RELEASE else "<III", data[16:])))
        return requests

    def test_release_tells_of_the_end(self):
        """A full socket is one that is still there. Whatever lay in it: once the daemon has hung up, releasing a batch
        says so, at once and from then on."""
        for unread in (True, False):
            with self.subTest(unread=unread):
                session, far = self.session()
                number = 0
                while unread and not session._unsent:
                    self.assertTrue(session.release(number))
                    number += 1
                self.assertTrue(session.release(number))
                far.close()
                self.assertEqual([session.release(number) for _ in range(3)], [False] * 3)
                self.assertRaises(larder.DaemonGone, session.raise_end)

    def test_a_message_in_the_inbox(self):
        """What wait() has taken off the socket answers a question, and the socket is not waited for."""
        session, far = self.session()
        session.info.n_classes = 0
        far.send(fake.message(fake.CLASSES, session._seq + 1, struct.pack("<IIII", 0, 0, 0, 0)))
        session.wait(0)
        self.assertRaises(BlockingIOError, session._sock.recv, 1, socket.MSG_DONTWAIT)
        with mock.patch.object(SESSION, "SETTLE_S", 0):
            session.settle()

    def test_both_sides(self):
        """A daemon that reads no request before the client has read its batches: sending reads them, and keeps them."""
        session, far = self.session()
        body = [struct.pack("<QIIIIIId", number, 0, number, 0, 0, 0, 0, 0) for number in range(5)]
        for each in body:
            far.send(fake.message(fake.BATCH, 0, each))

        def ask():
            for epoch in range(40):
                session.begin(epoch)
                session.ask(2)
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()

        def unread():
            return struct.unpack("i", fcntl.ioctl(far, TIOCOUTQ, bytes(4)))[0]
        self.assertTrue(until(lambda: unread() == 0, 10), "the client waits for the daemon, and the daemon for it")
        requests = []
        self.assertTrue(until(lambda: requests.extend(self.read(far)) or not thread.is_alive()))
        requests += self.read(far)
        self.assertEqual(requests, [(fake.NEXT, epoch, 2, fake.AHEAD) for epoch in range(40)])
        self.assertEqual([batch.index for _, batch in session._came], list(range(5)))

    def test_in_time(self):
        """Where nothing comes either, sending ends after the Loader's timeout, and the next call sends what is left."""
        session, far = self.session()
        session._timeout_s = 0.05
        session.begin(0)
        session._unsent.extend(range(30))
        with self.assertRaisesRegex(larder.Timeout, "does not read: it is busy or stopped"):
            session.ask(3)
        requests = self.read(far)
        self.assertLess(len(requests), 30)
        self.assertEqual(session.outstanding, 0)
        while session.outstanding == 0:
            with contextlib.suppress(larder.Timeout):
                session.ask(3)
            requests += self.read(far)
        self.assertEqual(requests, [(fake.RELEASE, number) for number in range(30)] +
                         [(fake.NEXT, 0, 3, fake.AHEAD)])

    def test_its_end(self):
        """The end of the connection ends it, with the daemon's last words."""
        for words in (None, b"the job was cancelled"):
            session, far = self.session()
            session.begin(0)
            session._unsent.extend(range(30))
            errors = []

            def ask():
                try:
                    session.ask(3)
                except larder.LarderError as error:
                    errors.append(error)
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            self.assertTrue(until(lambda: len(session._unsent) < 30))
            if words:
                far.send(fake.message(fake.ERROR, 0, struct.pack("<iI", -9, 0) + fake.text(words)))
            far.close()
            thread.join(60)
            self.assertFalse(thread.is_alive())
            self.assertRegex(str(errors[0]), words.decode() if words else "has gone away")

    def test_last_words_unread(self):
        """The daemon's last words come, though it closed with messages unread, which the kernel tells first."""
        session, far = self.session()
        session.begin(0)
        session.ask(1)
        far.send(fake.message(fake.ERROR, 0, struct.pack("<iI", -9, 0) + fake.text(b"the job was cancelled")))
        far.close()
        with self.assertRaisesRegex(larder.LarderError, "the job was cancelled"):
            session.receive()

    def test_a_loader(self):
        """Such a Timeout loses nothing, at an epoch's beginning, in it and at its end."""
        ask, counts = SESSION.Session.ask, {"asks": 0}

        def times_out(session, prefetch, **said):
            counts["asks"] += 1
            if counts["asks"] % 3:
                raise larder.Timeout("the daemon does not read")
            ask(session, prefetch, **said)
        self.serve(n_samples=60)
        loader, seen, timeouts = self.loader(epochs=3), [], 0
        with mock.patch.object(SESSION.Session, "ask", times_out):
            for epoch in range(3):
                iterator, seen, ended = None, [], False
                while not ended:
                    try:
                        iterator = iterator or iter(loader)
                        seen += next(iterator)[-1].tolist()
                    except larder.Timeout:
                        timeouts += 1
                    except StopIteration:
                        ended = True
                self.assertEqual(sorted(seen), list(range(60)))
        self.assertGreater(timeouts, 30)
        self.assertEqual(len(self.served.registrations), 1)


if __name__ == "__main__":
    main()
