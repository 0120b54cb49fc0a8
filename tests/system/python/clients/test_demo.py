"""./run demo: three scripts train, the figures are right, and Ctrl-C at any moment leaves nothing behind."""

import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

import above  # noqa: F401
from system import BIN, PATIENCE, SLOW, SOURCE, Case, main, tree, until

DEMO = os.path.join(SOURCE, "client", "python", "examples", "demo.py")
COUNT = 2000  # much more than the scripts get while the demo asks larderd for its figures and kills it


class Demo(Case):
    def command(self, *arguments):
        return [sys.executable, "-B", DEMO, "--bin", BIN, *arguments]

    def environment(self):
        return dict(os.environ, TMPDIR=self.folder)

    def left_behind(self):
        """Files of the demo, and processes that name one of its files."""
        files = [os.path.join(self.folder, name) for name in os.listdir(self.folder)]
        processes = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.folder.encode() in file.read():
                        processes.append(pid)
            except OSError:
                pass
        return files + processes

    def test_three_scripts_train(self):
        """The plain output has a falling loss and a table, and says that nothing was lost though larderd was killed."""
        done = subprocess.run(self.command(tree(COUNT, width=200, height=150)), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120 * SLOW, env=self.environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertNotIn("\r", done.stdout)
        first, second = [], []
        for number in (1, 2, 3):
            losses = [
                float(loss) for loss in re.findall(rf"script-{number}: epoch \d of 2: loss ([\d.]+)", done.stdout)]
            self.assertEqual(len(losses), 2)
            first.append(losses[0])
            second.append(losses[1])
            self.assertRegex(done.stdout, rf"script-{number} +{2 * COUNT:,} +[\d,]+ +[\d.]+ s +2 of 2")
        # Two epochs of a few batches: what a machine has ready first decides how each of them goes.
        self.assertLess(min(second), max(first))
        self.assertRegex(done.stdout, r"killed larderd \(pid \d+\) in the middle of an epoch")
        self.assertRegex(done.stdout, r"larderd was killed once, and [1-3] scripts connected again: each still got")
        prepared, delivered, ratio = re.search(r"prepared ([\d,]+), delivered ([\d,]+): ([\d.]+) ",
                                               done.stdout).groups()
        prepared, delivered = int(prepared.replace(",", "")), int(delivered.replace(",", ""))
        self.assertGreaterEqual(prepared, COUNT)
        self.assertEqual(delivered, 3 * 2 * COUNT)  # what the table has, though a daemon was killed
        self.assertAlmostEqual(float(ratio), prepared / delivered, places=2)
        self.assertRegex(done.stdout, r"\nSaved: on their own, 3 scripts would have read, decoded and augmented "
                                      rf"{delivered:,} images; larderd did it for {prepared:,}, \d+% less work\n")
        self.assertRegex(done.stdout.splitlines()[-1], r"^larderd's page was http://127\.0\.0\.1:\d+/ while it ran")
        self.assertEqual(self.left_behind(), [])

    def test_readme(self):
        """README.md's excerpt adds up as the demo's output does."""
        with open(os.path.join(os.path.dirname(DEMO), "..", "..", "..", "README.md"), encoding="utf-8") as file:
            text = file.read().replace(",", "")
        samples = [int(count) for count in re.findall(r"script-\d +(\d+) ", text)]
        delivered, prepared, part = map(int, re.search(r"augmented (\d+) images; larderd did it for\n(\d+) (\d+)% less",
                                                       text).groups())
        self.assertEqual((len(samples), sum(samples)), (3, delivered))
        self.assertEqual(f"{(delivered - prepared) / delivered:.0%}", f"{part}%")

    def test_slow_source(self):
        """With --slow-source a storage class has what was read, also after larderd was started anew. On a machine with
        much else to do some of it may not have been written yet."""
        slow = os.path.join(os.path.dirname(DEMO), "demo_slow.py")
        done = subprocess.run([sys.executable, "-B", slow, "--bin", BIN, tree(COUNT, width=200, height=150)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * SLOW,
                              env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        read = [float(part) for part in re.findall(r"epoch \d +[\d.]+ s +([\d.]+) MB", done.stdout)]
        self.assertEqual(len(read), 3, done.stdout)
        self.assertLess(read[2], 0.5 * read[0], done.stdout)
        self.assertRegex(done.stdout, r"What was read once is kept: the last epoch read \d+% of the bytes")
        self.assertEqual(self.left_behind(), [])

    def test_watch(self):
        """With --watch three jobs run, and the daemon tells of them over HTTP, until Ctrl-C; then it says what was
        saved, and ends well."""
        with subprocess.Popen(self.command("--watch", tree(COUNT, width=200, height=150)), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=self.environment()) as demo:
            self.addCleanup(demo.kill)
            page = None
            while page is None:
                page = re.search(r"page is (http://\S+/);", demo.stdout.readline() or self.fail(demo.stderr.read()))

            def jobs():
                with urllib.request.urlopen(page.group(1) + "api/v1/status", timeout=20 * SLOW) as answer:
                    return [job["delivered"] for job in json.load(answer)["jobs"]]

            self.assertTrue(until(lambda: len(jobs()) == 3 and min(jobs()) > 0, 60), jobs())
            demo.send_signal(signal.SIGINT)
            output, errors = demo.communicate(timeout=60 * SLOW)
        self.assertEqual((demo.returncode, errors), (0, ""), output)
        self.assertRegex(output, r"Saved: .*\nlarderd's page was http://")
        self.assertEqual(self.left_behind(), [])

    def test_ctrl_c_leaves_nothing(self):
        """Ctrl-C in the demo's terminal at seeded moments: it ends with status 130, and no process or file stays. The
        demo has more epochs than it could end in the time."""
        seed = int(os.environ.get("LARDER_TEST_SEED", "1"))
        print(f"LARDER_TEST_SEED={seed}", flush=True)
        moments = random.Random(seed)
        for limit_s in (0.3, 0.6, 1.0, 1.6, 2.5):
            wait_s = moments.uniform(0.15, limit_s)
            status, output = self.interrupted(wait_s)
            self.assertEqual(status, 130, f"after {wait_s:.3f} s: {output}")
            self.assertTrue(until(lambda: not self.left_behind(), 2), f"after {wait_s:.3f} s: {self.left_behind()}")

    def interrupted(self, wait_s):
        """Runs the demo on a terminal, types Ctrl-C once it has begun and wait_s have passed: (status, output)."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = self.command("--epochs", "100000")
            os.execve(command[0], command, self.environment())
        output, typed, deadline = b"", False, time.monotonic() + 60 * SLOW
        begun = None
        try:
            while time.monotonic() < deadline:
                ready, _, _ = select.select([terminal], [], [], 0.01)
                if ready:
                    try:
                        output += os.read(terminal, 65536)
                    except OSError:  # the terminal's other side has closed
                        break
                begun = begun or (time.monotonic() if b"Making" in output else None)
                if begun and not typed and time.monotonic() > begun + wait_s * PATIENCE:
                    os.write(terminal, b"\x03")
                    typed = True
        finally:
            os.close(terminal)
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return status, output.decode(errors="replace")


if __name__ == "__main__":
    main()
