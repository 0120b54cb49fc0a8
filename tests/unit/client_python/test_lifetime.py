"""The Loader when things end: forks, pickles, Ctrl-C, closed loaders, dead and hostile daemons."""

import gc
import os
import pickle
import signal
import struct
import threading
import time

import fake_daemon as fake
from support import Case, impatient, larder, main


def in_child(work):
    """Runs work() in a forked child; the child's exit status is 0 when it returned true."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Fork(Case):
    def test_a_child_has_a_job_of_its_own(self):
        """After a fork both go on: the parent in its epoch, the child with its own connection and a whole epoch."""
        daemon = self.daemon()
        loader = self.loader(with_ids=True, name="mine")
        iterator = iter(loader)
        seen = next(iterator)[2].tolist()

        def child():
            return sorted(i for _, _, indices in loader for i in indices.tolist()) == list(range(20))
        self.assertEqual(in_child(child), 0)
        seen += [i for _, _, indices in iterator for i in indices.tolist()]
        self.assertEqual(sorted(seen), list(range(20)))
        self.assertEqual(daemon.registrations[0]["name"], b"mine")
        self.assertRegex(daemon.registrations[1]["name"], rb"^mine-\d+$")

    def test_a_child_does_not_keep_the_parents_lease(self):
        """When the parent closes, the daemon sees the connection end, though a forked child still lives."""
        daemon = self.daemon()
        loader = self.loader()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        try:
            loader.close()
            self.assertTrue(daemon.connections[0].over.wait(60))
        finally:
            os.close(writer)
            os.close(reader)
            os.waitpid(pid, 0)

    def test_a_childs_end_is_not_the_parents_goodbye(self):
        """A child that drops its copy of the loader, or of a zero-copy batch, tells the daemon nothing."""
        daemon = self.daemon()
        loader = self.loader(zero_copy=True)
        batch = next(iter(loader))

        def child():
            nonlocal loader, batch
            loader.close()
            del loader, batch
            gc.collect()
            return True
        self.assertEqual(in_child(child), 0)
        self.assertNotIn("bye", daemon.log)
        self.assertIn(1, daemon.connections[0].held)
        self.assertEqual(len(batch[1]), 6)

    def test_the_parents_iterator_is_refused_in_the_child(self):
        """Going on with an inherited iterator is an error with a remedy, not a stolen batch."""
        self.daemon()
        iterator = iter(self.loader())
        next(iterator)

        def child():
            try:
                next(iterator)
            except larder.LarderError as error:
                return "iter(loader)" in str(error)
        self.assertEqual(in_child(child), 0)
        self.assertEqual(len(list(iterator)), 3)


class PickledTuple:
    """Arrives as what a release did that pickled the registration as a tuple of its fields."""

    def __init__(self, fields):
        self.fields = tuple(fields)

    def __reduce__(self):
        return larder._wire.Register, self.fields


class Pickle(Case):
    def test_a_copy_opens_its_own_job(self):
        """A pickled loader (as multiprocessing's spawn sends it) carries its settings and registers by itself."""
        daemon = self.daemon()
        loader = self.loader(seed=7, with_ids=True)
        next(iter(loader))
        copy = pickle.loads(pickle.dumps(loader))
        self.assertEqual(len(daemon.registrations), 1)
        self.assertEqual(sorted(i for _, _, indices in copy for i in indices.tolist()), list(range(20)))
        self.assertEqual(daemon.registrations[1], daemon.registrations[0])
        self.assertEqual(loader.stats()["batches"], 1)

    def test_a_changed_weight_goes_along(self):
        """The weight that `larder weight` gave a job is what its Loader registers with from then on: a copy by pickle,
        in a forked child, and after the connection was lost. Ranks are told by what all of them were given, and keep
        that."""
        daemon = self.daemon()
        loader = self.loader(weight=2, reconnect=0)
        ranks = self.loader(weight=2, name="ranks", rank=0, world_size=2)
        daemon.weight = 9.0
        for one in (loader, ranks):
            next(iter(one))
            self.assertEqual(one.weight, 9)
        daemon.weight = None
        self.assertEqual(pickle.loads(pickle.dumps(loader)).dataset_size, 20)
        self.assertEqual(in_child(lambda: loader.dataset_size == 20), 0)
        daemon.connections[0].hang_up()
        with self.assertRaises(larder.DaemonGone):
            list(loader)
        self.assertEqual(loader.dataset_size, 20)
        copied = pickle.dumps(ranks)
        ranks.close()
        self.assertTrue(daemon.connections[1].over.wait(60))
        self.assertEqual(pickle.loads(copied).dataset_size, 20)
        self.assertEqual([job["weight"] for job in daemon.registrations], [2, 2, 9, 9, 9, 2])

    def test_pickles_of_another_release(self):
        """What another release has pickled, with a field more or less or in another form, says so
        and says what to do."""
        self.daemon()
        loader = self.loader()
        state = loader.__getstate__()
        job = state["job"]
        fewer = {key: value for key, value in job.items() if key != "weight"}
        others = [dict(state, job=fewer), dict(state, job=dict(job, more=1)), dict(state, job=None),
                  {key: value for key, value in state.items() if key != "job"},
                  {key: value for key, value in state.items() if key != "_weight"}]
        for other in others:
            with self.assertRaisesRegex(larder.VersionMismatch, "another release"):
                larder.Loader.__new__(larder.Loader).__setstate__(other)
        with self.assertRaisesRegex(larder.VersionMismatch, "another release"):
            pickle.loads(pickle.dumps(PickledTuple(fewer.values())))


class Interrupt(Case):
    def setUp(self):
        super().setUp()
        # Started in the background of a shell, a process ignores SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def interrupt(self, action):
        """Runs action() and sends SIGINT to this process a moment later."""
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            action()
        timer.join()

    def test_ctrl_c_while_waiting_loses_nothing(self):
        """Ctrl-C ends the wait at once; the same iterator goes on when batches come again."""
        daemon = self.daemon(silent_after=1)
        iterator = iter(self.loader(with_ids=True, timeout=None))
        seen = next(iterator)[2].tolist()
        self.interrupt(lambda: next(iterator))
        daemon.silent_after = None
        daemon.connections[0].pump()
        seen += [i for _, _, indices in iterator for i in indices.tolist()]
        self.assertEqual(sorted(seen), list(range(20)))
        self.assertEqual(len(daemon.registrations), 1)

    def test_a_handler_while_waiting(self):
        """What a signal's handler raises while a batch is waited for comes to the script as it is, an OSError too, and
        the connection stays. A handler that raises nothing ends no wait, and one that closes the Loader ends it."""
        daemon = self.daemon(silent_after=1)
        loader = self.loader(with_ids=True, timeout=None)
        iterator, handled = iter(loader), []
        seen = next(iterator)[2].tolist()

        def with_handler(handler):
            signal.signal(signal.SIGINT, handler)
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                return next(iterator)
            finally:
                timer.join()

        def too_long(*_):
            raise TimeoutError("this takes too long")

        def goes_on(*_):
            handled.append(True)
            daemon.silent_after = 2
            daemon.connections[0].pump()
        with self.assertRaisesRegex(TimeoutError, "this takes too long"):
            with_handler(too_long)
        seen += with_handler(goes_on)[2].tolist()
        self.assertEqual((len(handled), len(set(seen)), len(daemon.registrations)), (1, 12, 1))
        with self.assertRaisesRegex(larder.LarderError, "closed"):
            with_handler(lambda *_: loader.close())

    def test_ctrl_c_while_registering_leaves_nothing_open(self):
        """Ctrl-C while the daemon indexes closes the connection."""
        def slowly(kind, data):
            if kind == fake.REGISTERED:
                os.kill(os.getpid(), signal.SIGINT)
                self.interrupted.wait(60)
            return data
        self.interrupted = threading.Event()
        daemon = self.daemon(mangle=slowly)
        with self.assertRaises(KeyboardInterrupt):
            self.loader()
        self.interrupted.set()
        self.assertTrue(daemon.connections[0].over.wait(60))

    def test_ctrl_c_anywhere_leaves_the_loader_usable(self):
        """Signals at random moments of iterating (seeded) never hang the loader or break its next epoch."""
        self.daemon(n_samples=60)
        loader = self.loader(with_ids=True)
        for round_number in range(60):
            timer = threading.Timer(0.0002 * round_number, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    for _ in loader:
                        pass
            except KeyboardInterrupt:
                timer.join()
            seen = sorted(i for _, _, indices in loader for i in indices.tolist())
            self.assertEqual(seen, list(range(60)))


class Ends(Case):
    def test_close_says_goodbye_and_is_final(self):
        """A closed loader, or one left by `with`, gives everything back and refuses to go on."""
        daemon = self.daemon()
        with self.loader() as loader:
            self.assertEqual(len(list(loader)), 4)
        self.assertTrue(daemon.connections[0].over.wait(60))
        self.assertIn("bye", daemon.log)
        loader.close()
        with self.assertRaisesRegex(larder.LarderError, "closed"):
            iter(loader)

    def test_a_dropped_loader_closes(self):
        """Without close() the connection ends with the last reference."""
        daemon = self.daemon()
        self.loader()
        gc.collect()
        self.assertTrue(daemon.connections[0].over.wait(60))

    def test_a_dead_daemon_is_named(self):
        """When the daemon dies, also while a batch is waited for, the error names its socket and does not wait."""
        for die_after in (0, 1, 3):
            path = f"{self.path}{die_after}"
            self.daemon(path, die_after=die_after)
            iterator = iter(self.loader(socket=path, reconnect=0))
            with self.assertRaisesRegex(larder.DaemonGone, path):
                list(iterator)
            with self.assertRaisesRegex(larder.DaemonGone, path):
                next(iterator)

    def test_iterating_again_finds_the_next_daemon(self):
        """After the daemon was replaced, the next iteration registers with the new one and is whole."""
        daemon = self.daemon()
        loader = self.loader(with_ids=True, reconnect=0)
        next(iter(loader))
        daemon.kill()
        with self.assertRaises(larder.DaemonGone):
            list(loader)
        os.unlink(self.path)
        self.daemon()
        self.assertEqual(sorted(i for _, _, indices in loader for i in indices.tolist()), list(range(20)))

    def test_a_daemon_that_notices_late(self):
        """A daemon may hear of another job's registration before it hears that the Loader has closed the last one. The
        Loader then tries again, also without `reconnect`."""
        daemon = self.daemon()
        loader = self.loader(name="mine", reconnect=0)
        loader.set_epoch(5)
        list(loader)
        loader.set_epoch(2)
        daemon.register_error = (-7, b"rank is there already")
        threading.Timer(0.1, setattr, (daemon, "register_error", None)).start()
        self.assertEqual((len(list(loader)), loader.epoch), (4, 3))

    def test_set_epoch(self):
        """set_epoch goes forward in the same job; to an earlier epoch, or after the daemon was lost, in another job.
        What it chose is given once; ranks only go forward."""
        daemon = self.daemon()
        loader = self.loader(name="mine", reconnect=0)
        loader.set_epoch(5)
        self.assertEqual((len(list(loader)), loader.epoch), (4, 6))
        loader.set_epoch(6)
        list(loader)
        self.assertEqual(len(daemon.registrations), 1)
        loader.set_epoch(2)
        self.assertEqual((len(list(loader)), loader.epoch), (4, 3))
        self.assertGreaterEqual(len(daemon.registrations), 2)  # more, where the daemon notices late that the last left
        iterator = iter(loader)
        daemon.connections[-1].hang_up()
        with self.assertRaises(larder.DaemonGone):
            list(iterator)
        loader.set_epoch(3)
        self.assertEqual(len(list(loader)), 4)
        asked = [entry[1] for entry in daemon.log if entry[0] == "next"]
        self.assertEqual(sorted(set(asked), key=asked.index), [5, 6, 2, 3])
        ranks = self.loader(name="ranks", rank=0, world_size=2)
        ranks.set_epoch(2)
        list(ranks)
        with self.assertRaisesRegex(larder.InvalidArgument, "only go forward: the next is 3"):
            ranks.set_epoch(1)
        for wrong in (-1, 2**32 - 1, 2**32):
            with self.assertRaisesRegex(larder.InvalidArgument, "epoch is"):
                loader.set_epoch(wrong)

    def test_no_daemon_at_a_given_socket(self):
        """A socket that was named is not autostarted: the error says where nobody answers. LARDER_SOCKET counts too."""
        with self.assertRaisesRegex(larder.DaemonGone, self.path):
            self.loader()
        os.environ["LARDER_SOCKET"] = self.path + "2"
        with self.assertRaisesRegex(larder.DaemonGone, self.path + "2"):
            self.loader(socket=None)

    def test_a_socket_path_too_long(self):
        """A path that no socket can have is refused with its length."""
        with self.assertRaisesRegex(larder.LimitReached, "has 201 bytes"):
            self.loader(socket="/" + 200 * "x")

    def test_the_daemons_refusal_is_raised(self):
        """An error that answers the registration arrives as the class of its code with the daemon's text."""
        self.daemon(register_error=(-4, b"/data: no such folder"))
        with self.assertRaisesRegex(larder.NotFound, "/data: no such folder") as caught:
            self.loader()
        self.assertEqual(caught.exception.code, "ENOENT")

    def test_a_bad_sample_ends_the_iteration(self):
        """With bad_samples="error" the daemon's error is raised once; the next iteration is a job anew."""
        daemon = self.daemon(error_after=2)
        loader = self.loader(bad_samples="error")
        iterator = iter(loader)
        with self.assertRaisesRegex(larder.BadSample, "x.jpg"):
            list(iterator)
        with self.assertRaises(larder.LarderError):
            next(iterator)
        daemon.error_after = None
        self.assertEqual(len(list(loader)), 4)

    def test_timeout_leaves_the_loader_usable(self):
        """A timeout is raised in time, and the same iterator goes on afterwards."""
        daemon = self.daemon(silent_after=1)
        loader = self.loader()
        iterator = iter(loader)
        next(iterator)
        began = time.monotonic()
        with impatient(loader):
            with self.assertRaisesRegex(larder.Timeout, "batch"):
                next(iterator)
        self.assertLess(time.monotonic() - began, 50)
        daemon.silent_after = None
        daemon.connections[0].pump()
        self.assertEqual(len(list(iterator)), 3)

    def test_wrong_arguments(self):
        """What cannot be right is refused before a connection is opened."""
        for options in ({"batch_size": 0}, {"batch_size": 8193}, {"batch_size": None}, {"batch_size": 32.0},
                        {"prefetch": 65}, {"seed": -1}, {"seed": "1"}, {"epochs": 0}, {"weight": 0}, {"weight": 100.1},
                        {"weight": -1}, {"weight": float("nan")}, {"weight": float("inf")}, {"shuffle": "some"},
                        {"bad_samples": "drop"}, {"output": "jax"}):
            with self.assertRaisesRegex(larder.InvalidArgument, next(iter(options))):
                self.loader(**options)


class Hostile(Case):
    """A daemon that lies costs an error: the client checks each offset and length against the mapping."""

    def refused(self, words, pipeline=("resize",), **attributes):
        path = os.path.join(self.folder, str(len(os.listdir(self.folder))))
        self.daemon(path, **attributes)
        with self.assertRaisesRegex(larder.LarderError, words):
            for _ in self.loader(socket=path, pipeline=pipeline):
                pass

    @staticmethod
    def at(kind, offset, form, value):
        """A mangle function that puts a value into messages of one type."""
        def mangle(got, data):
            if got != kind:
                return data
            changed = bytearray(data)
            struct.pack_into(form, changed, offset, value)
            return bytes(changed)
        return mangle

    def test_offsets_beyond_the_arena(self):
        """No offset or length is believed: beyond the end, just beyond, and so large that adding would wrap."""
        for offset in (1 << 20, (1 << 20) - 71, 2**64 - 1, 2**63):
            self.refused("beyond its arena", mangle=self.at(fake.BATCH, 16 + 40, "<Q", offset))
        self.refused("registered size", mangle=self.at(fake.BATCH, 16 + 40 + 8, "<I", 73))
        long = self.at(fake.BATCH, 16 + 40 + 8, "<I", 2**31)
        self.refused("beyond its arena", mangle=long, encoded=True, pipeline=[])

    def test_more_samples_than_the_batch_size(self):
        """A batch larger than the job's would overrun the client's buffer."""
        daemon_entries = struct.pack("<QIIIi", 0, 72, 0, 0, 0) * 7

        def mangle(kind, data):
            if kind != fake.BATCH:
                return data
            return fake.message(kind, 0, struct.pack("<QIIIIIId", 1, 0, 0, 0, 7, 0, 0, 0) + daemon_entries)
        self.refused("batch of 7", mangle=mangle)

    def test_shapes_that_do_not_fit(self):
        """Height, width and bytes of a sample must agree, and it must fit the arena."""
        height = 16 + 108 + 24 + 12
        self.refused("end at byte 90", mangle=self.at(fake.REGISTERED, height, "<I", 5))
        self.refused("end at byte 386", mangle=self.at(fake.REGISTERED, height, "<I", 2**31))
        self.refused("its arena has 1048576", fields=[fake.field(b"image", 0, 0, (72, 2**14, 2))], itemsize=2**15)

    def test_several_fields(self):
        """Samples of more than an image, or with something before it, are refused: the package cannot show them."""
        image = fake.field(b"image", 0, 0, (4, 6, 3))
        self.refused("several fields .image uint8 HWC of 4x6x3, mask uint8", fields=[
            image, fake.field(b"mask", 0, 0, (1, 72, 1), 72)], itemsize=2)
        self.refused("several fields", fields=[fake.field(b"image", 0, 0, (4, 6, 3), 72)], itemsize=2)

    def test_arenas_that_could_fault(self):
        """A memfd without seals, or smaller than promised, is not mapped: reading it could end the process."""
        self.refused("not sealed, or smaller", seals=0)
        self.refused("not sealed, or smaller", arena_extra=4096)

    def test_garbage(self):
        """Messages that are no messages, or of the wrong kind at this moment."""
        self.refused("magic", mangle=lambda kind, data: b"x" * 64)
        self.refused("shorter than a header", mangle=lambda kind, data: data[:7] if kind == fake.BATCH else data)
        self.refused("was not asked", mangle=self.at(fake.REGISTERED, 8, "<I", 255))


if __name__ == "__main__":
    main()
