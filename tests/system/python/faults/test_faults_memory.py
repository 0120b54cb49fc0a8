"""Memory that runs out inside the daemon: what a client or a file asked for is refused, or waits; where the daemon ends
because its own bookkeeping gets none, or the system kills it, the next one goes on with the rest of the epoch.

    test_faults_memory.py [--long]    more of the allocations
"""

import errno
import os
import signal
import subprocess
import sys
import threading
import uuid
import warnings

import above  # noqa: F401
from faulty import CONFIG, COUNT, FaultsCase
from system import LONG, SLOW, Daemon, files_of, larder, main, make_tree, only_long, until

STRIDE = 1 if LONG else 13


def touch(tree, time_s):
    """All files and folders get another time: for the daemon they are other samples."""
    paths = files_of(tree)
    for path in {os.path.dirname(path) for path in paths}.union(paths):
        os.utime(path, (time_s, time_s))


class Restarted:
    """Starts a daemon again when it has died, without faults then; `deaths` has the signals."""

    def __init__(self, case, **more):
        self.case, self.more, self.deaths, self.over = case, more, [], False
        self.daemon = case.serve(**more)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        case.addCleanup(self.stop)

    def _run(self):
        while True:
            self.daemon.process.wait()
            if self.over:
                return
            self.deaths.append(-self.daemon.process.returncode)
            self.case.faults.end()
            self.daemon = Daemon(self.case.folder, CONFIG)
            if self.over:
                self.daemon.kill()
                return

    def stop(self):
        """The thread ends a daemon that it is just starting."""
        self.over = True
        self.daemon.kill()
        self.thread.join()


class Allocations(FaultsCase):
    def test_a_registration(self):
        """Each allocation in proportion to the dataset that a job comes with fails in turn: the job is refused, the
        daemon lives, and the next job of it comes."""
        count, listed = 2500, os.path.join(self.folder, "list")  # 4 bytes of each are more than any pipeline takes
        tree = make_tree(os.path.join(self.folder, "large"), count, width=16, height=16)
        with open(listed, "w") as file:
            file.write("\n".join(map(str, range(count))))
        daemon, refused = self.serve(), 0
        with self.job(daemon, tree, batch_size=100) as loader:
            self.whole(loader, count)  # tables that are the daemon's own have grown by then
        for number in range(0, 400, STRIDE):
            touch(tree, 1_000_000_000 + number)
            self.faults.begin("ALLOC", errno.ENOMEM, skip=number, times=1, from_bytes=4 * count)
            try:
                with self.job(daemon, tree, batch_size=100, reconnect=0, subset=larder.List(listed)) as loader:
                    self.assertEqual(len(loader), count // 100)
            except larder.OutOfMemory:
                refused += 1
            except larder.DaemonGone:
                self.fail(f"allocation {number}: {daemon.log()}")
            self.alive(daemon)
            if not self.faults.struck("ALLOC"):
                break
        self.assertEqual(self.faults.struck("ALLOC"), 0)
        self.assertGreater(refused, 20 / STRIDE)
        self.faults.end()
        with self.job(daemon, tree, batch_size=100, subset=larder.List(listed)) as loader:
            self.whole(loader, count)

    def test_reading(self):
        """Every third allocation for a file's bytes fails: those are read again, or bad when that fails thrice; all
        others are right."""
        sizes = [os.path.getsize(path) for path in files_of(self.tree)]
        daemon = self.serve()
        loader, seen = self.job(daemon), set()
        self.assertEqual(len(loader), -(-COUNT // 8))
        # The engine has laid out the job's part of the arena by then: its own tables are not what fails here.
        self.assertTrue(until(lambda: daemon.status()["memory"]["arena"]["reserved_bytes"] > 0, 10))
        self.faults.begin("ALLOC", errno.ENOMEM, every=3, from_bytes=min(sizes), to_bytes=max(sizes))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", larder.BadSamplesWarning)
            for batch in loader:
                self.check(batch, seen)
        self.assertGreater(self.faults.struck("ALLOC"), COUNT / 4)
        self.faults.end()
        self.assertEqual(len(seen) + loader.lost, COUNT)
        self.assertEqual(daemon.status()["samples"]["bad"]["no_memory"], loader.lost)
        self.exact(self.job(daemon))

    @only_long
    def test_decoding(self):
        """Allocations for pixels fail, each image being larger than the one before: these samples are bad, the
        others are right; without the faults all come."""
        tree = os.path.join(self.folder, "sizes", "all")
        os.makedirs(tree)
        for number in range(1, 9):
            path = make_tree(os.path.join(self.folder, str(number)), 1, 1, 300 * number, 200 * number)
            os.rename(files_of(path)[0], os.path.join(tree, f"{number}.jpg"))
        daemon, got = self.serve(), []
        for every in (2, 0):
            self.faults.begin("ALLOC", errno.ENOMEM, every=every, from_bytes=100_000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", larder.BadSamplesWarning)
                with self.job(daemon, os.path.dirname(tree), 1, shuffle="none") as loader:
                    got.append({batch[-1].item(): batch[0].tobytes() for batch in loader})
                    self.assertEqual(len(got[-1]) + loader.lost, 8)
            self.assertEqual(self.faults.struck("ALLOC") > 0, every > 0)
        self.assertEqual(len(got[1]), 8)
        self.assertLessEqual(got[0].items(), got[1].items())

    def test_any(self):
        """Any one allocation fails while a job comes and trains. Either the job is refused, or it gets exactly its
        samples; if the daemon ended over it (its log says so, or an assertion of a library does) after a pause."""
        supervisor, ended, number = None, 0, 0
        for number in range(5 if LONG else 20, 2000, 6 if LONG else 120):
            touch(self.tree, 1_000_000_000 + number)
            if supervisor is None or supervisor.deaths:
                if supervisor:
                    supervisor.stop()
                supervisor = Restarted(self)
            self.faults.begin("ALLOC", errno.ENOMEM, skip=number, times=1)
            try:
                with self.job(supervisor.daemon, subset=larder.Range(0, COUNT), reconnect=60 * SLOW) as loader:
                    self.exact(loader)
            except (larder.OutOfMemory, larder.InvalidArgument) as error:
                self.assertIn("memory", str(error))
            except larder.DaemonGone:  # it was ending when the job came, over this allocation or the one before
                self.assertTrue(until(lambda: supervisor.deaths, 60), "no daemon answers, and none has ended")
            if not self.faults.struck("ALLOC") and not supervisor.deaths:
                break
            for death in supervisor.deaths:
                self.assertIn(death, (signal.SIGABRT, signal.SIGSEGV))  # the set library asserts, or does not look
            ended += len(supervisor.deaths)
        print(f"{ended} daemons ended, {number} allocations", flush=True)
        self.assertLess(number, 1990)


class Group:
    """A control group of memory, of either version; where none can be made `why` says so."""

    ROOTS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))

    def __init__(self, limit_bytes):
        self.why = "no control group can be made here"
        for root, limit in self.ROOTS:
            self.path = os.path.join(root, f"larder-test-{uuid.uuid4().hex}")
            try:
                if os.statvfs(root).f_flag & os.ST_RDONLY or not os.path.exists(os.path.join(root, "cgroup.procs")):
                    continue
                os.mkdir(self.path)
            except OSError as error:
                self.why = str(error)
                continue
            try:
                self._write(limit, limit_bytes)
                self.why = None
                return
            except OSError as error:
                self.why = str(error)
                os.rmdir(self.path)

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def take(self, pid):
        self._write("cgroup.procs", pid)

    def remove(self):
        def is_removed():
            try:
                os.rmdir(self.path)
            except OSError as error:
                return error.errno != errno.EBUSY  # the last process is still going
            return True

        until(is_removed, 10)


HOG = """
import sys
sys.stdin.readline()
kept = []
while True:
    kept.append(bytearray(b"x" * (1 << 20)))
"""


class OutOfMemory(FaultsCase):
    def test_a_killed_daemon(self):
        """The system kills the daemon because its control group has no memory left: for the job it is a pause."""
        group = Group(400 << 20)
        if group.why:
            self.skipTest(group.why)
        self.addCleanup(group.remove)
        supervisor = Restarted(self)
        pid = supervisor.daemon.process.pid
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")  # the daemon, not who takes the memory
        group.take(pid)
        loader, seen = self.job(supervisor.daemon, reconnect=60 * SLOW, prefetch=1, batch_size=4), set()
        iterator = iter(loader)
        self.check(next(iterator), seen)
        hog = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE)
        try:
            group.take(hog.pid)
            hog.stdin.write(b"\n")
            hog.stdin.flush()
            self.assertTrue(until(lambda: supervisor.deaths, 60))
        finally:
            hog.kill()
            hog.wait()
            hog.stdin.close()
        for batch in iterator:
            self.check(batch, seen)
        self.assertEqual(seen, set(range(COUNT)))
        self.assertEqual(loader.lost, 0)
        self.assertEqual(supervisor.deaths, [signal.SIGKILL])
        self.assertEqual(loader.stats()["reconnects"], 1)
        supervisor.stop()


if __name__ == "__main__":
    main()
