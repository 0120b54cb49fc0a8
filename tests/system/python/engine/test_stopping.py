"""Registrations that take long end when nobody waits for them any more: others have their turn, and SIGTERM waits for
none. How much work the daemon does is measured in its own time on cores, against one list of a subset of many."""

import json
import os
import signal
import time

import above  # noqa: F401
from system import SLOW, Case, main, tree, until

COUNT = 40
LINES = 4_000_000
PARTS = 150
CLIENTS = 6  # more than a lane has threads
AT_WORK = 4  # as many as it has


class Stopping(Case):
    def setUp(self):
        super().setUp()
        self.list = os.path.join(self.folder, "list")
        with open(self.list, "w") as file:
            file.write("0\n1\n" * (LINES // 2))
        self.served = self.daemon()
        before = self.cpu_s()
        with self.loader(self.served, tree(COUNT), subset=self.lists(1)) as loader:
            self.assertEqual(len(loader), 1)
        self.one_s = max(self.cpu_s() - before, 0.01)
        # A full one takes PARTS times as much, and AT_WORK of them are under way.
        self.few_s = self.one_s * PARTS * AT_WORK / 6

    def lists(self, count):
        """A subset of one list many times, each spelled in another way: the same one would be read once."""
        return json.dumps({"union": [{"list": "/" * number + self.list} for number in range(1, count + 1)]})

    def cpu_s(self):
        """What the daemon has had of the cores."""
        with open(f"/proc/{self.served.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def register_many(self):
        """Clients whose registrations take long, once the daemon is at them."""
        before = self.cpu_s()
        scripts = [self.script(self.served, dataset=tree(COUNT), subset=self.lists(PARTS), pipeline=[], batch_size=1,
                               epochs=1)
                   for _ in range(CLIENTS)]
        self.assertTrue(until(lambda: self.served.status()["daemon"]["sessions"] == CLIENTS and
                              self.cpu_s() - before > 2 * self.one_s, 30), self.served.log())
        return scripts

    def test_clients_gone(self):
        """When the clients have gone their registrations end soon, and another client's gets through."""
        for script in self.register_many():
            script.kill()
        before = self.cpu_s()
        with self.loader(self.served, tree(COUNT), timeout=600) as loader:
            self.whole(loader, COUNT)
        # A client that was killed between its connection and its registration left nothing behind.
        self.assertTrue(until(lambda: self.served.log().count("client left before its job was ready") >= AT_WORK, 30),
                        self.served.log())
        self.assertLess(self.cpu_s() - before, self.few_s, (self.one_s, "one list"))

    def test_sigterm(self):
        """SIGTERM ends the daemon soon, however many registrations are under way."""
        self.register_many()
        at_end = before = self.cpu_s()
        self.served.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60 * SLOW
        while self.served.process.poll() is None and time.monotonic() < deadline and at_end - before < self.few_s:
            at_end = self.cpu_s()  # a process that has ended and was not waited for is still there
            time.sleep(0.02)
        self.assertLess(at_end - before, self.few_s, (self.one_s, "one list"))
        self.assertEqual(self.served.process.wait(10 * SLOW), 0, self.served.log())


if __name__ == "__main__":
    main()
