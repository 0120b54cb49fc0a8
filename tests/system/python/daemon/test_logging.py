"""The daemon's log at others' hands: floods are limited and counted, and a standard error that nobody reads holds up
nothing."""

import collections
import os
import re
import select
import subprocess
import sys
import time

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, SLOW, Case, larder, main, make_tree, tree, until

REFUSALS = 400
FAULTS_PER_S = 10  # LOG_FAULTS_PER_S

REFUSED_IN_A_LOOP = """
import sys, larder
for number in range(int(sys.argv[2])):
    try:
        larder.Loader("/nowhere/at/all", [], 8, output="numpy", socket=sys.argv[1], name=f"refused-{number}")
    except larder.LarderError:
        continue
    sys.exit("was not refused")
"""

# Jobs whose lines in the log are long, for three seconds at least: the lines that may pass in two of them are more than
# the daemon keeps, and so are those of as many jobs where all of them pass.
JOBS_IN_A_LOOP = """
import sys, time, larder
began, count = time.monotonic(), 0
pipeline = [{"resize": {"size": [8, 8]}}] + [{"random_horizontal_flip": {"p": 0.5}}] * 40
while count < 150 or time.monotonic() - began < 3:
    larder.Loader(sys.argv[2], pipeline, 8, output="numpy", socket=sys.argv[1], name="x" * 100, timeout=600).close()
    count += 1
"""


def run(script, *arguments, limit_s=30):
    """A Python script in a process of its own; its exit status, or None when it does not end."""
    environment = dict(os.environ, PYTHONPATH=PACKAGE)
    try:
        return subprocess.run([sys.executable, "-B", "-c", script, *map(str, arguments)], env=environment,
                              timeout=limit_s * SLOW).returncode
    except subprocess.TimeoutExpired:
        return None


def lines_of(log, message):
    return [line for line in log.splitlines() if f'msg="{message}"' in line]


def held_back(log, message):
    """How many lines of a kind the log says were held back."""
    told = lines_of(log, message) + [line for line in log.splitlines() if f'like="{message}"' in line]
    return sum(int(count) for line in told for count in re.findall(r" held_back=(\d+)$", line))


class Floods(Case):
    def check_limited(self, daemon, message, count):
        """Few lines a second, and with what was held back they are `count`."""
        self.assertTrue(until(lambda: len(lines_of(daemon.log(), message)) +
                              held_back(daemon.log(), message) == count, 10),
                        (count, len(lines_of(daemon.log(), message)), held_back(daemon.log(), message)))
        lines = lines_of(daemon.log(), message)
        self.assertGreater(len(lines), 0)
        seconds = collections.Counter(re.match(r"time=([^.]*)\.", line).group(1) for line in lines)
        self.assertLessEqual(max(seconds.values()), 2 * FAULTS_PER_S)  # two of the limit's seconds meet in one

    def test_refusals(self):
        """A script that is refused in a loop brings a few lines a second; the others are counted, all of them."""
        daemon = self.daemon()
        self.assertEqual(run(REFUSED_IN_A_LOOP, daemon.socket, REFUSALS), 0)
        self.check_limited(daemon, "job refused", REFUSALS)

    def test_bad_samples(self):
        """Bad samples that all threads meet at once share one limit."""
        folder = make_tree(os.path.join(self.folder, "tree"), 600, 2)
        for label in sorted(os.listdir(folder)):
            for name in sorted(os.listdir(os.path.join(folder, label)))[:30]:
                with open(os.path.join(folder, label, name), "wb") as file:
                    file.write(b"no image")
        daemon = self.daemon(CONFIG + "limits: {bad: 100%}\n")
        loader = self.loader(daemon, folder, bad_samples="skip")
        got = sum(len(batch[-1]) for batch in loader)
        loader.close()
        bad = sum(daemon.status()["samples"]["bad"].values())
        self.assertEqual(got, 540)
        self.assertGreaterEqual(bad, 60)
        self.check_limited(daemon, "bad sample", bad)


class Stalled(Case):
    def setUp(self):
        super().setUp()
        self.near, far = os.pipe()
        self.served = self.daemon(CONFIG + "log:\n  level: debug\n", stderr=far)
        os.close(far)
        self.filler = os.open(f"/proc/{self.served.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(lambda: [os.close(fd) for fd in (self.near, self.filler)])

    def fill(self):
        """Nothing fits into the pipe any more."""
        for size in (4096, 1):
            try:
                while True:
                    os.write(self.filler, b"\n" * size)
            except BlockingIOError:
                pass

    def read_until(self, pattern, limit_s=10):
        """What comes out of the pipe, to where it holds what matches; fails when that does not come."""
        text = b""
        deadline = time.monotonic() + limit_s * SLOW
        while not re.search(pattern, text):
            ready, _, _ = select.select([self.near], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"no {pattern} in {text[-2000:]}")
            text += os.read(self.near, 1 << 16)
        return text.decode()

    def test_nobody_waits(self):
        """With a standard error that takes nothing jobs train to their end, the daemon answers, and SIGTERM stops it;
        when somebody reads again, a line says how many others were dropped."""
        folder = tree(64, classes=4)
        self.fill()
        self.assertEqual(run(JOBS_IN_A_LOOP, self.served.socket, folder), 0)
        scripts = [self.script(self.served, dataset=folder, pipeline=[], batch_size=8, epochs=2) for _ in range(2)]
        for script in scripts:
            self.assertEqual(script.wait(30), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(64))] * 2)
        ping = subprocess.run([os.path.join(BIN, "larder"), "ping", "--socket", self.served.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30 * SLOW)
        self.assertEqual(ping.returncode, 0, ping.stdout)
        text = self.read_until(rb" dropped=\d+\n")
        self.assertGreater(int(re.search(r" dropped=(\d+)\n", text).group(1)), 0)
        self.assertIn('msg="job registered"', text)
        with self.assertRaises(larder.LarderError):
            self.loader(self.served, "/nowhere/at/all")
        self.read_until(rb"/nowhere/at/all")
        self.fill()
        self.assertEqual(self.served.stop(), 0)


if __name__ == "__main__":
    main()
