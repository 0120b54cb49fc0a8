"""Autostart with the real larderd: eight scripts get one daemon, which stays after them."""

import os
import signal

from system import BIN, Case, larder, main, tree, until

PIPELINE = [{"resize": {"size": [32, 32]}}]


class Autostart(Case):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.folder, "larder", "larder.sock")
        for name, value in (("XDG_RUNTIME_DIR", self.folder), ("XDG_CACHE_HOME", self.folder),
                            ("LARDERD", os.path.join(BIN, "larderd"))):
            before = os.environ.get(name)
            os.environ[name] = value
            self.addCleanup(self.restore, name, before)
        self.addCleanup(self.stop_all)

    @staticmethod
    def restore(name, value):
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value

    def daemons(self):
        """Processes that serve this test's socket."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"/larderd") and self.socket.encode() in words:
                found.append(int(pid))
        return found

    def stop_all(self):
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not self.daemons(), 20))

    def test_eight_scripts_get_one_daemon(self):
        """Eight scripts that start at once, no daemon there: one daemon serves all of them whole epochs, and is there
        for the next script, too."""
        scripts = [self.script(None, dataset=tree(60), pipeline=PIPELINE, batch_size=16, epochs=1) for _ in range(8)]
        for script in scripts:
            self.assertEqual(script.wait(120), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(60))])
        self.assertEqual(len(self.daemons()), 1)
        first = self.daemons()
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            self.assertEqual(len(list(loader)), 4)
        self.assertEqual(self.daemons(), first)

    def test_after_a_killed_daemon(self):
        """A killed daemon's socket does not keep the next Loader from starting another."""
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            pid, = self.daemons()
            os.kill(pid, signal.SIGKILL)
            with self.assertRaises(larder.DaemonGone):
                for _ in range(9):
                    list(loader)
        self.assertTrue(until(lambda: not self.daemons(), 10))
        with larder.Loader(tree(60), PIPELINE, 16, output="numpy") as loader:
            self.assertEqual(len(list(loader)), 4)


if __name__ == "__main__":
    main()
