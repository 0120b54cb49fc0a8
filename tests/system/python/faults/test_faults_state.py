"""A full state folder, a log that nobody takes, and a clock that jumps: the daemon serves on and says what is wrong.

    test_faults_state.py [--long]    all of them, and more of each
"""

import errno
import os
import subprocess

import above  # noqa: F401
from faulty import CONFIG, FaultsCase
from system import BIN, LONG, SLOW, files_of, main, only_long, until

CHECKPOINTS = CONFIG.replace("{checkpoint: none}", "{checkpoint: FOLDER}")


class State(FaultsCase):
    def test_a_full_folder(self):
        """No room for checkpoints, nor for the notes of poisonous files: the daemon says so and serves, leaves nothing
        half-written, and keeps them when there is room."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        config = CHECKPOINTS.replace("FOLDER", checkpoints)
        os.mkdir(checkpoints)
        cases = ((errno.ENOSPC, checkpoints, "catalog checkpoint not kept"),
                 (errno.EIO, checkpoints, "catalog checkpoint not kept"),
                 (errno.ENOSPC, ".poison", "a sample that kills the daemon will not be found"))
        for number, path, says in cases if LONG else cases[::2]:
            self.faults.begin("WRITE", number, path=path)
            self.faults.begin("WRITE_SHORT", path=path)
            daemon = self.serve(config)
            self.exact(self.job(daemon))
            self.faults.end()
            self.assertTrue(daemon.logged(says), daemon.log())
            self.assertTrue(daemon.logged(os.strerror(number)), daemon.log())
            kept = path != checkpoints  # by a thread of its own; other files lie beside it
            self.assertTrue(until(lambda: sum(name.endswith(".catalog") for name in os.listdir(checkpoints)) == kept,
                                  10))
            self.assertEqual(daemon.stop(), 0)
            os.unlink(daemon.log_path)
        daemon = self.serve(config)
        self.exact(self.job(daemon))
        self.assertNotIn("err=", daemon.log())

    @only_long
    def test_each_write(self):
        """Each single write of a start and of a checkpoint fails once: the daemon serves all the same, and the next
        one does not take a broken checkpoint for a whole one."""
        config = CHECKPOINTS.replace("FOLDER", os.path.join(self.folder, "checkpoints"))
        for number in range(40):
            self.faults.begin("WRITE", errno.ENOSPC, skip=number, times=1, path=self.folder)
            daemon = self.serve(config, expect_ready=False)
            if daemon.ready:
                self.exact(self.job(daemon))
            else:
                self.assertIn(os.strerror(errno.ENOSPC), daemon.log())
            daemon.stop()  # after the checkpoint, which a thread of its own writes
            struck = self.faults.struck("WRITE")
            self.faults.end()
            if not struck:
                break
            os.utime(os.path.dirname(files_of(self.tree)[0]))  # the next daemon writes it anew
        self.assertEqual(struck, 0)
        self.assertGreater(number, 5)

    @only_long
    def test_a_log_that_takes_nothing(self):
        """Standard error is on a full disk: the daemon serves, and says afterwards how many lines were lost."""
        daemon = self.serve()
        self.faults.begin("WRITE", errno.ENOSPC, path=daemon.log_path)
        for _ in range(3):
            with self.job(daemon) as loader:
                self.exact(loader)
        self.assertTrue(until(lambda: self.faults.struck("WRITE"), 10))
        self.faults.end()
        self.exact(self.job(daemon))
        self.assertTrue(daemon.logged("log lines were dropped"), daemon.log())

    @only_long
    def test_packing(self):
        """`larder pack` onto a full disk fails with a text, and what it leaves is no store."""
        store = os.path.join(self.folder, "store")
        environment = dict(os.environ, **self.faults.environment)
        for number in range(40):
            self.faults.begin("WRITE", errno.ENOSPC, skip=number, path=store)
            result = subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store, "--quiet"],
                                    capture_output=True, text=True, env=environment, timeout=60 * SLOW)
            if not self.faults.struck("WRITE"):
                break
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(os.strerror(errno.ENOSPC), result.stderr)
        self.faults.end()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(number, 3)
        self.exact(self.job(self.serve(), store))


class Clock(FaultsCase):
    def test_jumps(self):
        """The time of day jumps by a year and back while jobs come, train, have a time-out and go: they get what they
        asked for, and a daemon that is told to stop does."""
        config = CHECKPOINTS.replace("FOLDER", os.path.join(self.folder, "checkpoints"))
        daemon = self.serve(config)
        loader, year = self.job(daemon), 365 * 86400
        shifts = (year, -year, 1 << 31, -(1 << 30)) if LONG else (year, -year)
        for shift_s in shifts:
            self.faults.begin("CLOCK", shift_s=shift_s)
            self.exact(self.job(daemon))
            self.faults.begin("CLOCK", shift_s=shift_s, every=2)  # to and fro with each look
            self.exact(loader)
            name = files_of(self.tree)[0]
            os.utime(name, (1e9 + abs(shift_s), 1e9 + abs(shift_s)))
            self.exact(self.job(daemon))
        self.assertGreater(self.faults.struck("CLOCK"), 0)
        self.assertEqual(len(daemon.jobs()), 1 + 2 * len(shifts))
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    main()
