"""`larder drain --for-restart` makes room for another daemon: at once, and completely."""

import os
import subprocess

import above  # noqa: F401
import raw
from system import BIN, SLOW, Case, Daemon, main, tree

COUNT = 60
WIRE = 4


class HandOver(Case):
    def hand_over(self, daemon):
        return subprocess.run([os.path.join(BIN, "larder"), "drain", "--for-restart", "--socket", daemon.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * SLOW)

    def gone(self, daemon, result):
        """The command is done, the daemon has ended in order and has left nothing in another's way."""
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "the daemon has gone; its jobs wait for the next one\n")
        self.assertEqual(daemon.process.wait(1 * SLOW), 0, daemon.log())
        for name in (daemon.socket, daemon.socket + ".lock", daemon.socket + ".control"):
            self.assertFalse(os.path.exists(name), name)
        self.assertIn("making room for another daemon", daemon.log())

    def test_jobs_do_not_hold_it_up(self):
        """A job in the middle of its epoch, with batches that it has not given back and others that it asked for, is
        told that the daemon goes; nothing comes after that, and another daemon can start when the command is done."""
        daemon = self.daemon()
        client = raw.Client(daemon.socket, WIRE)
        self.addCleanup(client.close)
        client.register(tree(COUNT), batch_size=4, name="job")
        client.next(0, 2)
        first = client.batch()
        self.assertEqual(len(first.indices), 4)
        result = self.hand_over(daemon)
        self.gone(daemon, result)
        with self.assertRaisesRegex(raw.Refused, "the daemon at .* is stopping") as caught:
            client.answer()
        self.assertEqual((caught.exception.code, caught.exception.fatal), ("EGONE", True))
        with self.assertRaises(EOFError):
            client.receive()
        successor = self.daemon()
        self.whole(self.loader(successor, tree(COUNT), name="job"), COUNT)

    def test_an_idle_daemon(self):
        """Nor is there anything to wait for with no job there."""
        daemon = self.daemon()
        self.gone(daemon, self.hand_over(daemon))
        self.assertEqual(self.hand_over(daemon).returncode, 3)

    def test_a_successor_that_is_early(self):
        """A daemon that is started while the other one leaves takes its place."""
        daemon = self.daemon()
        client = raw.Client(daemon.socket, WIRE)  # that the daemon waits for, half a second
        self.addCleanup(client.close)
        client.register(tree(COUNT), batch_size=4)
        leaving = subprocess.Popen([os.path.join(BIN, "larder"), "drain", "--for-restart", "--socket", daemon.socket],
                                   stdout=subprocess.PIPE, text=True)
        with self.assertRaises(raw.Refused):
            client.answer()
        successor = Daemon(self.folder)
        self.addCleanup(successor.stop)
        self.assertEqual(leaving.communicate(timeout=120 * SLOW)[0],
                         "the daemon has gone; its jobs wait for the next one\n")
        self.whole(self.loader(successor, tree(COUNT)), COUNT)


if __name__ == "__main__":
    main()
