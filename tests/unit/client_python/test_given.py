"""Which rank this process is, where a loader was told nothing: as the environment says, also when it says so late."""

import os
import unittest
from unittest import mock

from support import main

from larder import _ranks


class Given(unittest.TestCase):
    def test_late(self):
        """What asks at each batch learns of variables that a launcher adds, and what is taken away again still holds.
        """
        nothing = {key: value for key, value in os.environ.items()
                   if key not in {name for names in _ranks._LAUNCHERS for name in names}}
        with mock.patch.dict(os.environ, nothing, clear=True):
            given = _ranks.Given(None, None, "")
            self.assertEqual((given.still(), given.still()), ((0, 1), (0, 1)))
            with mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "3"}):
                self.assertEqual((given.still(), given.now()), ((1, 3), (1, 3)))
            self.assertEqual((given.still(), given.now()), ((1, 3), (1, 3)))
            with mock.patch.dict(os.environ, {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}):
                self.assertEqual(given.still(), (2, 4))
        self.assertEqual(_ranks.Given(2, 5, "").still(), (2, 5))


if __name__ == "__main__":
    main()
