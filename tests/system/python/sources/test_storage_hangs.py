"""Storage that does not answer keeps no daemon from ending: its jobs go on with the next one. The calls that hang are
those of tests/tools/faulty.c, reads that bring a byte a second, and of a FUSE file system, which no signal ends."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import above  # noqa: F401
import fuse
from faulty import CONFIG, PIPELINE, FaultsCase
from system import BIN, SLOW, main, tree, until

SMALL = CONFIG.replace("encoded: 32MiB", "encoded: 1MiB")
HANGS = {"from_bytes": 1}  # a byte a second: days for what is read here
MANY = 600
with tempfile.TemporaryDirectory() as tried:
    CAN_MOUNT = fuse.can(tried)


class Hangs(FaultsCase):
    def setUp(self):
        super().setUp()
        self.many = shutil.copytree(tree(MANY), os.path.join(self.folder, "many"))

    def job_that_hangs(self, daemon):
        """A script in the middle of its epoch, whose next samples do not come: memory holds less than the dataset."""
        script = self.script(daemon, dataset=self.many, pipeline=PIPELINE, batch_size=4, epochs=1, step_s=0.02)
        self.assertTrue(until(lambda: len(script.batches) > 3, 60), script.errors)
        self.faults.begin("SLOW", path=self.many, **HANGS)
        self.assertTrue(until(lambda: self.faults.struck("SLOW") > 0, 60), script.errors)
        return script

    def goes_on(self, script):
        """The next daemon at the same place is there for the script, and takes no sample for one that kills."""
        self.faults.end()
        daemon = self.serve(CONFIG)
        self.assertEqual(script.wait(120 * SLOW), 0, script.errors or script.end)
        self.assertEqual(script.epochs(), [list(range(MANY))])
        poison = subprocess.run([os.path.join(BIN, "larder"), "poison", "list", "--socket", daemon.socket],
                                stdout=subprocess.PIPE, text=True, timeout=60 * SLOW)
        self.assertNotIn(self.many, poison.stdout)

    def ended(self, daemon):
        self.assertEqual(daemon.process.wait(60 * SLOW), 0, daemon.log())
        self.assertIn("does not answer: it ends without that", daemon.log())

    def test_reads(self):
        """SIGTERM ends a daemon whose reads of samples hang."""
        daemon = self.serve(SMALL)
        script = self.job_that_hangs(daemon)
        daemon.process.send_signal(signal.SIGTERM)
        self.ended(daemon)
        self.goes_on(script)

    @unittest.skipUnless(CAN_MOUNT, "this process may mount no FUSE file system")
    def test_a_mount(self):
        """SIGTERM ends a daemon whose reads wait for a FUSE file system, before that has answered; its job goes on."""
        self.many = os.path.join(self.folder, "mount")
        os.mkdir(self.many)
        with fuse.Mount(tree(MANY), self.many) as mount:
            daemon = self.daemon(SMALL)
            script = self.script(daemon, dataset=self.many, pipeline=PIPELINE, batch_size=4, epochs=1, step_s=0.02)
            self.assertTrue(until(lambda: len(script.batches) > 3, 60), script.errors)
            mount.hang()
            self.assertTrue(until(lambda: mount.n_waiting > 0, 60), script.errors)
            daemon.process.send_signal(signal.SIGTERM)
            self.ended(daemon)
            mount.let_go()
            self.goes_on(script)

    def test_checkpoints(self):
        """SIGTERM ends a daemon that reads a dataset's checkpoint, and one that has not started because it reads what
        the last one has measured."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        config = CONFIG.replace("checkpoint: none", f"checkpoint: {checkpoints}")
        other = self.make("other", seed=2)
        daemon = self.serve(config)
        self.exact(self.job(daemon, other), seed=2)
        daemon.stop()
        rates = os.path.join(checkpoints, "preparing-rates")
        kept, = (name for name in os.listdir(checkpoints) if name.endswith(".catalog"))
        self.faults.begin("SLOW", path=os.path.join(checkpoints, kept), **HANGS)
        opening = self.serve(config)
        waits = self.script(opening, dataset=other, pipeline=PIPELINE, batch_size=4, epochs=1)
        self.assertTrue(until(lambda: self.faults.struck("SLOW") > 0, 60), waits.errors)
        opening.process.send_signal(signal.SIGTERM)
        self.ended(opening)
        waits.kill()
        self.faults.begin("SLOW", path=rates, **HANGS)
        starting = subprocess.Popen([os.path.join(BIN, "larderd"), "--config", opening.socket[:-1] + "larder.yaml",
                                     "--socket", opening.socket], env=dict(os.environ, **self.faults.environment),
                                    stderr=subprocess.DEVNULL)
        self.addCleanup(starting.kill)
        self.assertTrue(until(lambda: self.faults.struck("SLOW") > 0, 60))
        starting.send_signal(signal.SIGTERM)
        self.assertEqual(starting.wait(60 * SLOW), 0)

    def test_hand_over(self):
        """`larder drain --for-restart` ends such a daemon too, and says so once it has gone."""
        daemon = self.serve(SMALL)
        script = self.job_that_hangs(daemon)
        done = subprocess.run([os.path.join(BIN, "larder"), "drain", "--for-restart", "--socket", daemon.socket],
                              stdout=subprocess.PIPE, text=True, timeout=60 * SLOW)
        self.assertIn("the daemon has gone", done.stdout)
        self.ended(daemon)
        self.goes_on(script)


if __name__ == "__main__":
    main()
