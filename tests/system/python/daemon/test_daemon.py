"""larderd's own life: starting, refusing to start, stopping; with the documented exit status and a helpful text."""

import contextlib
import os
import subprocess
import time

import above  # noqa: F401
from system import BIN, CONFIG, SLOW, Case, Script, files_of, larder, main, tree, until

USAGE, BUSY = 2, 3


class Life(Case):
    def refused(self, status, words, config="", options=()):
        """larderd ends at once, with this status and these words in its log."""
        began = time.monotonic()
        daemon = self.daemon(config, options, expect_ready=False)
        self.assertFalse(daemon.ready)
        self.assertEqual(daemon.process.wait(20 * SLOW), status, daemon.log())
        self.took_at_most(time.monotonic() - began, 5)
        for word in words:
            self.assertIn(word, daemon.log())

    def test_sigterm_stops_cleanly(self):
        """SIGTERM with a client in the middle: exit status 0, both sockets gone, the client told."""
        daemon = self.daemon()
        iterator = iter(self.loader(daemon, tree(60), batch_size=8, reconnect=0))
        next(iterator)
        self.assertEqual(daemon.stop(), 0, daemon.log())
        self.assertFalse(os.path.exists(daemon.socket))
        self.assertFalse(os.path.exists(daemon.socket + ".control"))
        with self.assertRaises(larder.DaemonGone):
            for _ in range(100):
                next(iterator)

    def starting(self, config):
        """A larderd that tells of its progress, and what it tells."""
        ready, ready_far = os.pipe()
        path, log = os.path.join(self.folder, "larder.yaml"), os.path.join(self.folder, "log")
        with open(path, "w") as file:
            file.write(config)
        with open(log, "wb") as file:
            process = subprocess.Popen([os.path.join(BIN, "larderd"), "--config", path, "--socket", self.folder + "/s",
                                        "--ready-fd", str(ready_far), "--progress"], stderr=file, pass_fds=(ready_far,))
        os.close(ready_far)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, open(ready, "rb", buffering=0), log

    def test_progress(self):
        """With --progress larderd writes the line's end when clients can connect, and no dot where nothing keeps it
        waiting."""
        process, ready, _ = self.starting(CONFIG)
        with ready:
            told = b""
            while not told.endswith(b"\n"):
                came = ready.read(1)
                self.assertTrue(came)
                told += came
        self.assertEqual(told, b"\n")
        process.terminate()
        self.assertEqual(process.wait(30 * SLOW), 0)

    def test_closed_standard_streams(self):
        """A daemon that is started without standard streams opens no file in their place: its log would go there."""
        daemon = self.daemon(before=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
        streams = [os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}") for fd in range(3)]
        self.assertEqual(streams, ["/dev/null"] * 3)

    def test_a_second_instance_is_refused(self):
        """On a live daemon's socket another one ends with status 3, and the first one goes on."""
        daemon = self.daemon()
        self.refused(BUSY, [daemon.socket])
        self.whole(self.loader(daemon, tree(60)), 60)

    def test_an_arena_larger_than_memory(self):
        """An arena that memory cannot hold is refused at the start, and not met later as a crash."""
        self.refused(USAGE, ["larder.yaml:2:10", "memory.arena"], CONFIG.replace("128MiB", "64TiB"))

    def test_a_socket_path_too_long(self):
        """A path that no socket can have: status 2, with the limit."""
        self.refused(USAGE, ["socket.path", "at most"], options=("--socket", "/tmp/" + "x" * 120))

    def test_a_wrong_configuration(self):
        """An unknown key is refused with file, line and column."""
        self.refused(USAGE, ["larder.yaml:2:3", "arenas"], "memory:\n  arenas: 1GiB\n")

    def test_idle_exit(self):
        """--idle-exit counts from the last client's end, not from the start."""
        dataset = tree(60)
        for idle_s in (1, 4, 16, 64):  # more, where the daemon has left before the loader came
            daemon = self.daemon(options=("--idle-exit", str(idle_s)))
            with contextlib.suppress(larder.DaemonGone):
                loader = self.loader(daemon, dataset, reconnect=0)
                break
            self.assertTrue(until(lambda: daemon.process.poll() is not None, 10))
        time.sleep(idle_s + 0.5)
        self.whole(loader, 60)
        self.assertIsNone(daemon.process.poll())
        closing = time.monotonic()
        loader.close()
        self.assertTrue(until(lambda: daemon.process.poll() is not None, 10))
        self.assertGreater(time.monotonic() - closing, idle_s - 0.1)
        self.assertEqual(daemon.process.returncode, 0, daemon.log())


class ShortBudgets(Case):
    def test_look_ahead_is_shortened(self):
        """A job whose look-ahead the arena cannot hold goes on with less, exactly once, and the log says so."""
        daemon = self.daemon(CONFIG.replace("128MiB", "2MiB"))
        loader = self.loader(daemon, tree(60), batch_size=16, prefetch=32, name="far-ahead")
        self.whole(loader, 60)
        self.assertLess(daemon.jobs()["far-ahead"]["prefetch"], 32)
        self.assertTrue(daemon.logged("look-ahead shortened"))
        self.assertIn("far-ahead", daemon.log())

    def test_reads_wait_for_encoded_memory(self):
        """Where encoded memory holds less than what jobs look ahead all comes exactly once, and log
        and metrics say so."""
        daemon = self.daemon(CONFIG.replace("64MiB", "1MiB"))
        loader = self.loader(daemon, tree(60, width=640, height=480), batch_size=16, prefetch=8, name="far-ahead")
        self.whole(loader, 60)
        self.assertTrue(daemon.logged("raise memory.encoded to"))
        encoded = daemon.status()["memory"]["encoded"]
        self.assertGreater(encoded["look_ahead_bytes"], encoded["budget_bytes"])
        self.assertLessEqual(encoded["used_bytes"], encoded["budget_bytes"])

    def test_look_ahead_is_given_back(self):
        """A second job that comes when the first has taken the arena gets its part while the first one hangs with
        batches in its hands; both are told in the log, both get all they should, and who stays gets its part back."""
        daemon = self.daemon(CONFIG.replace("128MiB", "1MiB") + "jobs:\n  quota: 100%\n")
        first = self.loader(daemon, tree(60), batch_size=4, prefetch=32, name="first", epochs=1)
        began = iter(first)
        seen = next(began)[-1].tolist()
        wide = daemon.jobs()["first"]["prefetch"]
        self.assertTrue(until(lambda: daemon.jobs()["first"]["held_slots"] > 8, 10))
        second = self.loader(daemon, tree(60), batch_size=4, prefetch=32, name="second",
                             pipeline=[{"resize": {"size": [48, 48]}}])
        narrow = daemon.jobs()["first"]["prefetch"]
        self.assertLess(narrow, wide)
        self.assertTrue(daemon.logged(f"look-ahead shortened from {wide} to {narrow} batches"))
        self.assertIn("raise memory.arena to", daemon.log())
        self.whole(second, 60)
        second.close()
        self.assertTrue(until(lambda: daemon.jobs()["first"]["prefetch"] == wide, 10))
        for batch in began:
            seen += batch[-1].tolist()
        self.assertEqual(sorted(seen), list(range(60)))

    def test_reads_with_little_encoded_memory(self):
        """With encoded memory for a tenth of the dataset, and look-ahead for much more, a chunk is read a few times an
        epoch and not for each sample or two."""
        folder = tree(320, width=400, height=300, pictures=40)
        encoded = sum(os.path.getsize(path) for path in files_of(folder)) // 10
        daemon = self.daemon(CONFIG.replace("64MiB", f"{encoded}B"))
        loader = self.loader(daemon, folder, batch_size=64, epochs=3)
        for _ in range(3):
            self.whole(loader, 320)
        status = daemon.status()
        self.assertLess(status["samples"]["reads"] / 5 / 3, 10)
        self.assertLess(status["samples"]["loaded"] / 320 / 3, 1.5)

    def test_the_least_does_not_fit(self):
        """A job is refused when not even two batches of it fit beside two of each other; the text says what would
        do."""
        daemon = self.daemon(CONFIG.replace("128MiB", "1MiB") + "jobs:\n  quota: 100%\n")
        first = self.loader(daemon, tree(60), batch_size=30, name="first")
        with self.assertRaisesRegex(larder.QuotaExceeded, "raise memory.arena to at least 1474560"):
            self.loader(daemon, tree(60), batch_size=30, name="second")
        self.whole(first, 60)
        self.assertTrue(daemon.logged("second"))


class Refusals(Case):
    def test_jobs_that_cannot_run(self):
        """What a job asks in vain is an error at once, of the right class, that names the thing; the daemon goes on."""
        daemon = self.daemon()
        for error, words, arguments in (
                (larder.NotFound, "/no/such/folder", {"dataset": "/no/such/folder"}),
                (larder.InvalidArgument, "sharpen", {"pipeline": ["sharpen"]}),
                (larder.InvalidArgument, "pipeline", {"pipeline": "[{]"}),
                (larder.InvalidArgument, "none was given", {"pipeline": None}),
                (larder.QuotaExceeded, "batch", {"batch_size": 8192, "pipeline": [{"resize": {"size": [512, 512]}}]})):
            began = time.monotonic()
            with self.assertRaisesRegex(error, words):
                self.loader(daemon, **{"dataset": tree(60), **arguments})
            self.took_at_most(time.monotonic() - began, 2)
        self.whole(self.loader(daemon, tree(60)), 60)

    def test_a_name_that_is_taken(self):
        """Two jobs of one name: the second is refused, and may come when the first has gone. A script that has the
        first itself is told to close it."""
        daemon = self.daemon()
        first = self.loader(daemon, tree(60), name="same")
        with self.assertRaisesRegex(larder.Busy, "\"same\" is that of another Loader of this process: close"):
            self.loader(daemon, tree(60), name="same")
        other = Script(daemon.socket, dataset=tree(60), name="same", pipeline=[{"resize": {"size": [8, 8]}}], epochs=1)
        self.assertEqual((other.wait(), other.end["error"]), (1, "Busy"))
        self.assertIn("another job has this name", other.end["text"])
        first.close()
        self.assertTrue(until(lambda: not daemon.jobs(), 5))
        self.whole(self.loader(daemon, tree(60), name="same"), 60)

    def test_status_without_a_daemon(self):
        """larder status says which socket it tried, and fails."""
        result = subprocess.run([os.path.join(BIN, "larder"), "status", "--socket", os.path.join(self.folder, "none")],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30 * SLOW)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(os.path.join(self.folder, "none"), result.stderr.decode())


if __name__ == "__main__":
    main()
