"""Whose the bytes are: batches in a full arena, batches whose lease is over, iterators that threads share."""

import os
import socket
import struct
import sys
import threading

import fake_daemon as fake
import numpy as np
from support import Case, larder, main, until
from test_lifetime import in_child

ENTRY = np.dtype([("offset", "<u8"), ("len_bytes", "<u4"), ("id", "<u4"), ("index", "<u4"), ("label", "<i4")])
ENTRIES_AT = 56  # of a BATCH message


def with_entries(change):
    """A fake daemon's `mangle` that lets `change` alter the entries of each batch."""
    def mangle(kind, data):
        if kind != fake.BATCH:
            return data
        data = bytearray(data)
        change(np.frombuffer(data, ENTRY, offset=ENTRIES_AT))
        return bytes(data)
    return mangle


class FullArena(Case):
    def test_a_short_sample_may_lie_at_the_arenas_end(self):
        """Samples of mixed sizes: the last one in the arena may end where the arena ends, though the batch's longest
        would not fit there."""
        daemon = self.daemon(encoded=True, order="sequential")

        def change(entries):
            shortest = entries[entries["len_bytes"].argmin()]
            arena, length = daemon.connections[-1].arena, int(shortest["len_bytes"])
            shortest["offset"] = daemon.arena_bytes - length
            arena[-length:] = fake.pixels(int(shortest["index"]), length)[:length]
            entries[entries["len_bytes"].argmin()] = shortest
        daemon.mangle = with_entries(change)
        for zero_copy in (False, True):
            with self.loader(with_ids=True, zero_copy=zero_copy, prefetch=1) as loader:
                images, _, indices = next(iter(loader))
                for image, index in zip(images, indices):
                    self.assertEqual(bytes(image), fake.pixels(int(index), 5 + index)[:5 + index])

    def test_nothing_beyond_the_arena_is_read(self):
        """One byte beyond the arena's end, a length greater than the arena, and sums that wrap around, are refused."""
        daemon = self.daemon(encoded=True)
        size = daemon.arena_bytes
        for offset, length in ((size - 4, 5), (size, 1), (0, size + 1), (2**64 - 1, 1), (2**64 - 8, 16),
                               (2**63, 2**32 - 1), (size, 2**32 - 1)):
            def change(entries):
                entries["offset"][1], entries["len_bytes"][1] = offset, length
            daemon.mangle = with_entries(change)
            with self.subTest(offset=offset, length=length), self.loader() as loader:
                with self.assertRaisesRegex(larder.LarderError, "beyond its arena"):
                    next(iter(loader))


class OverLeases(Case):
    def begin(self, daemon, **options):
        """A loader whose first batches lie in its socket, its iterator, and the daemon's side of the connection."""
        loader = self.loader(**options)
        self.addCleanup(loader.close)
        iterator = iter(loader)
        connection = daemon.connections[-1]
        self.assertTrue(until(lambda: connection.sent >= 2))
        return iterator, connection

    def test_a_batch_is_not_handed_out_after_the_daemon_hung_up(self):
        """The daemon hangs up and gives the slots to others while batches lie unread: they are never handed out."""
        daemon = self.daemon(n_samples=60)
        for zero_copy in (False, True):
            iterator, connection = self.begin(daemon, zero_copy=zero_copy, reconnect=0)
            connection.hang_up()
            connection.arena[:] = bytes([fake.POISON]) * daemon.arena_bytes
            with self.assertRaisesRegex(larder.DaemonGone, "has gone away"):
                next(iterator)

    def test_the_daemons_last_word_is_the_error(self):
        """What the daemon said before it hung up is what the script is told, whatever batches lie before it."""
        daemon = self.daemon(n_samples=60)
        iterator, connection = self.begin(daemon)
        connection.send(fake.ERROR, 0, struct.pack("<iI", -9, 0) + fake.text(b"the job was cancelled"))
        connection.hang_up()
        connection.arena[:] = bytes([fake.POISON]) * daemon.arena_bytes
        with self.assertRaisesRegex(larder.JobCancelled, "the job was cancelled"):
            next(iterator)

    def test_held_views_keep_the_connection_after_an_error(self):
        """A zero-copy batch that was handed out before the job failed is leased until its views have gone."""
        daemon = self.daemon(error_after=2)
        with self.loader(zero_copy=True, with_ids=True) as loader:
            iterator = iter(loader)
            first, second = next(iterator), next(iterator)
            with self.assertRaises(larder.BadSample):
                next(iterator)
            connection = daemon.connections[0]
            first.release()
            self.assertTrue(until(lambda: 1 not in connection.held))
            connection.send(fake.ERROR, 0, struct.pack("<iI", -9, 0) + fake.text(b"is anybody there?"))
            self.check_pixels(second[0], second[2])
            del second
            self.assertTrue(connection.over.wait(60))


class Threads(Case):
    def share(self, iterator, count=8):
        """What `count` threads get of one iterator, and the errors they saw."""
        seen, errors = [], []

        def work():
            try:
                for images, _, indices in iterator:
                    seen.append((images.copy(), indices))
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        self.assertEqual(errors, [])
        self.assertFalse(any(thread.is_alive() for thread in threads))
        return seen

    def test_each_batch_goes_to_one_thread(self):
        """Eight threads share an iterator: each batch comes once, whole, and all of them learn of the epoch's end."""
        self.daemon(n_samples=1200)
        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        sys.setswitchinterval(1e-6)
        for zero_copy in (False, True):
            with self.loader(with_ids=True, zero_copy=zero_copy) as loader:
                seen = []
                for images, indices in self.share(iter(loader), 2 if zero_copy else 8):
                    self.check_pixels(images, indices)
                    seen += indices.tolist()
                self.assertEqual(sorted(seen), list(range(1200)))

    def waiting(self, **attributes):
        """A loader, and a thread that waits for a batch that never comes; the list gets the error it ends with."""
        daemon = self.daemon(silent_after=1, n_samples=60, **attributes)
        loader = self.loader(timeout=None)
        self.addCleanup(loader.close)
        iterator, ended, began = iter(loader), [], threading.Event()

        def work():
            try:
                next(iterator)
                began.set()
                next(iterator)
            except Exception as error:
                ended.append(error)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.assertTrue(began.wait(60))
        self.assertTrue(until(loader_is_busy(loader)))
        return loader, thread, ended, daemon

    def test_close_ends_what_another_thread_waits_for(self):
        """close() does not wait for a batch that another thread waits for: that thread gets an error that says so."""
        loader, thread, ended, _ = self.waiting()
        self.assertEqual(len(loader), 10)
        loader.close()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        self.assertRegex(str(ended[0]), "this Loader is closed")

    def test_a_fork_while_another_thread_waits(self):
        """A child of a process whose other thread waits for a batch can use its copy of the loader."""
        loader, _, _, _ = self.waiting()
        self.assertEqual(in_child(lambda: len(next(iter(loader))[1]) == 6), 0)


def loader_is_busy(loader):
    def busy():
        if loader._lock.acquire(blocking=False):
            loader._lock.release()
            return False
        return True
    return busy


class Connecting(Case):
    def test_a_daemon_that_never_accepts(self):
        """Connecting has a time limit where the daemon's backlog is full."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen(0)
            waiting = []
            while True:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                sock.setblocking(False)
                waiting.append(sock)
                self.addCleanup(sock.close)
                try:
                    sock.connect(self.path)
                except BlockingIOError:
                    break
            errors = []

            def work():
                try:
                    self.loader(timeout=0.2)
                except larder.LarderError as error:
                    errors.append(error)
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            thread.join(60)
            self.assertFalse(thread.is_alive(), "connecting never ends")
            self.assertIsInstance(errors[0], larder.Timeout)
            self.assertRegex(str(errors[0]), "does not accept connections")

    def test_a_greeting_that_never_comes(self):
        """A daemon that accepts nobody while its backlog has room is waited for as long as `timeout` says."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen(8)
            with self.assertRaisesRegex(larder.Timeout, "greeting did not come in time"):
                self.loader(timeout=0.2)

    def test_a_long_name_after_a_fork(self):
        """A job's name of the greatest length is cut for a child's job, between two characters."""
        daemon = self.daemon()
        for name in ("n" * 128, "é" * 64, "n" + "日" * 42, "🐟" * 32, "n" * 124):
            with self.loader(name=name) as loader:
                self.assertEqual(in_child(lambda: len(next(iter(loader))[1]) == 6), 0, name)
            mine, childs = (daemon.registrations[-2]["name"], daemon.registrations[-1]["name"])
            self.assertEqual(mine, name.encode())
            stem, _, pid = childs.decode().rpartition("-")
            self.assertTrue(pid.isdigit() and name.startswith(stem) and 128 - 3 <= len(childs) <= 128, childs)


if __name__ == "__main__":
    main()
