"""Storage that answers nothing costs only the jobs that read from it."""

import os
import tempfile
import unittest

import above  # noqa: F401
import fuse
from system import PIPELINE, SLOW, Case, main, tree, until

CONFIG = """\
memory: {arena: 64MiB, encoded: 1MiB}
threads: {workers: 1, loaders: 1}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""
MANY, EPOCHS = 600, 3
with tempfile.TemporaryDirectory() as tried:
    CAN_MOUNT = fuse.can(tried)


class SilentSource(Case):
    @unittest.skipUnless(CAN_MOUNT, "this process may mount no FUSE file system")
    def test_others_go_on(self):
        """While a job waits for a mount that answers nothing, a job that comes later on other storage takes whole
        epochs; when the mount answers, the first has all of its epoch."""
        silent = os.path.join(self.folder, "mount")
        os.mkdir(silent)
        with fuse.Mount(tree(MANY), silent) as mount:
            mount.hang()
            daemon = self.daemon(CONFIG)
            waits = self.script(daemon, dataset=silent, pipeline=PIPELINE, batch_size=8, epochs=1)
            self.assertTrue(until(lambda: mount.n_waiting > 0, 60), waits.errors)
            goes = self.script(daemon, dataset=tree(MANY, seed=2), pipeline=PIPELINE, batch_size=8, epochs=EPOCHS)
            self.assertEqual(goes.wait(120 * SLOW), 0, goes.errors or goes.end)
            self.assertEqual(goes.epochs(), [list(range(MANY))] * EPOCHS)
            self.assertEqual(waits.batches, [])
            mount.let_go()
            self.assertEqual(waits.wait(120 * SLOW), 0, waits.errors or waits.end)
            self.assertEqual(waits.epochs(), [list(range(MANY))])


if __name__ == "__main__":
    main()
