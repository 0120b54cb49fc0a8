"""A pack that is killed or stopped goes on where it stood, and its store is the one that an undisturbed pack makes."""

import ctypes
import functools
import os
import select
import shutil
import signal
import subprocess
import time

from stores import LARDER, command, contents, pack
from system import SLOW, Case, main, tree

COUNT = 1500
SEGMENTS = ("--segment-mib", "1")


def source():
    return tree(COUNT, width=200, height=150)


def segments(folder):
    """Finished segments; none before the folder is there."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith("segment") and name.endswith(".larder"))
    except FileNotFoundError:
        return []


class Watch:
    """What the kernel says of names that come into a folder. Whoever sleeps until it does is woken at once, also where
    many others compute; whoever looks again and again must wait for its turn, and the pack is over by then."""
    MOVED_TO, CREATE = 0x80, 0x100

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(folder), self.MOVED_TO | self.CREATE) < 0:
            raise OSError(ctypes.get_errno(), folder)

    def wait(self, limit_s):
        """Until some have come; not whether they were seen before."""
        if select.select([self._fd], [], [], max(0, limit_s))[0]:
            os.read(self._fd, 1 << 16)

    def close(self):
        os.close(self._fd)


class TooLate(Exception):
    """A pack was done before it was interrupted."""


def in_time(test):
    """A pack takes a few tens of milliseconds, and on a busy machine this process may not run for as long: then once
    more."""
    @functools.wraps(test)
    def again(self):
        for _ in range(100):
            try:
                return test(self)
            except TooLate:
                shutil.rmtree(self.dest)
        return self.fail("each time the pack was done before it was interrupted")
    return again


class Interrupted(Case):
    options = ()
    wholes = {}  # what an undisturbed pack makes, by its options

    def setUp(self):
        super().setUp()
        self.dest = os.path.join(self.folder, "store")
        self.alone = (*SEGMENTS, *self.options, "--threads", "1")

    def start(self):
        os.makedirs(self.dest, exist_ok=True)  # so that it can be watched
        process = subprocess.Popen([LARDER, "pack", source(), self.dest, *self.alone], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, finished):
        """Until there are so many segments."""
        deadline = time.monotonic() + 30 * SLOW
        watch = Watch(self.dest)
        while len(segments(self.dest)) < finished:
            self.assertLess(time.monotonic(), deadline)
            watch.wait(deadline - time.monotonic())
        watch.close()

    def stop_after(self, process, finished, number):
        """Sends the signal once there are so many segments; gives status, output, errors."""
        self.wait_for(finished)
        process.send_signal(number)
        output, errors = process.communicate(timeout=30 * SLOW)
        self.check_unfinished(process)
        return process.returncode, output, errors

    def check_unfinished(self, process):
        if "index.larder" in os.listdir(self.dest):
            process.kill()
            process.communicate()
            raise TooLate

    def undisturbed(self):
        if self.options not in self.wholes:
            self.wholes[self.options] = self.pack_whole()
        return self.wholes[self.options]

    def pack_whole(self):
        return contents(pack(source(), os.path.join(self.folder, "whole"), *SEGMENTS, *self.options,
                             "--threads", "3"))

    @in_time
    def test_kill_9_and_again(self):
        """Killed three times, each time after a few more segments: what is there is no store yet, verify says so, each
        run keeps the finished segments, and in the end all bytes are those of an undisturbed pack."""
        expected, kept = self.undisturbed(), {}
        for finished in (2, 5, 8):
            status, _, errors = self.stop_after(self.start(), finished, signal.SIGKILL)
            self.assertEqual(status, -signal.SIGKILL, errors)
            self.assertGreaterEqual(len(segments(self.dest)), finished)
            for name, inode in kept.items():
                self.assertEqual(os.stat(os.path.join(self.dest, name)).st_ino, inode, "was packed again")
            kept = {name: os.stat(os.path.join(self.dest, name)).st_ino for name in segments(self.dest)}
            result = command("verify", self.dest)
            self.assertEqual(result.returncode, 1)
            self.assertIn("run it again", result.stderr)
        result = command("pack", source(), self.dest, *self.alone)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("going on where an earlier run stopped", result.stderr)
        self.assertIn("of them from an earlier run", result.stdout)
        self.assertEqual(contents(self.dest), expected)
        self.assertEqual(command("verify", self.dest).returncode, 0)

    @in_time
    def test_ctrl_c_and_again(self):
        """SIGINT and SIGTERM end a pack with status 130 and a sentence that says how to go on, which then works."""
        expected = self.undisturbed()
        for number in (signal.SIGINT, signal.SIGTERM):
            # No subTest: in_time is to see what it raises.
            status, output, errors = self.stop_after(self.start(), 2, number)
            self.assertEqual((status, output), (130, ""), errors)
            self.assertIn("The same command goes on after the segments that are finished", errors)
            kept = {name: os.stat(os.path.join(self.dest, name)).st_ino for name in segments(self.dest)}
            self.assertGreaterEqual(len(kept), 2)
            pack(source(), self.dest, *self.alone)
            self.assertEqual({name: os.stat(os.path.join(self.dest, name)).st_ino for name in kept}, kept)
            self.assertEqual(contents(self.dest), expected)
            shutil.rmtree(self.dest)

    @in_time
    def test_other_options_do_not_mix_in(self):
        """What one pack left unfinished, a pack with another seed does not go on with."""
        self.stop_after(self.start(), 2, signal.SIGKILL)
        before = contents(self.dest)
        result = command("pack", source(), self.dest, *self.alone, "--seed", 2)
        self.assertEqual(result.returncode, 1)
        self.assertIn("unfinished pack", result.stderr)
        self.assertEqual(contents(self.dest), before)

    @in_time
    def test_two_at_once(self):
        """A second pack into the same folder is refused while the first runs, and does it no harm."""
        process = self.start()
        self.wait_for(2)
        process.send_signal(signal.SIGSTOP)
        self.check_unfinished(process)
        result = command("pack", source(), self.dest, *self.alone)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(result.returncode, 1)
        self.assertIn("another pack is writing there", result.stderr)
        _, errors = process.communicate(timeout=60 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(contents(self.dest), self.undisturbed())

    def test_a_full_disk(self):
        """A pack that may not write more says so with the file's name, and goes on when it may."""
        limited = ["bash", "-c", 'ulimit -f 512; trap "" XFSZ; exec "$@"', "_"]
        result = subprocess.run([*limited, LARDER, "pack", source(), self.dest, *self.alone], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, "larder pack: .*segment-00000.larder.tmp")
        pack(source(), self.dest, *self.alone)
        self.assertEqual(contents(self.dest), self.undisturbed())


class Shrinking(Interrupted):
    """The same of packs that make every image smaller, so that a segment's length is known only once it is made."""
    options = ("--max-side", "190", "--quality", "95")


if __name__ == "__main__":
    main()
