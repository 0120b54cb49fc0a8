#!/usr/bin/env python3
"""A sample that only a limit of the daemon's keeps out: the error names the limit and where it is set, and with a
larger one the sample comes."""

import os
import shutil

import above  # noqa: F401
from system import Case, files_of, larder, main, tree

CONFIG = """\
memory:
  arena: 16MiB
  encoded: {encoded}
  scratch: 32MiB
limits:
  pixels: {pixels}
metrics:
  enabled: false
"""
SMALL = [{"resize": {"size": [8, 8]}}]


class Limits(Case):
    def raised(self, dataset, error, small, large):
        """The dataset's job fails with the error under the settings `small`, and has all samples under `large`."""
        checkpoint = f"catalog:\n  checkpoint: {self.folder}/cache\n"
        daemon = self.daemon(CONFIG.format(**small) + checkpoint)
        with self.assertRaisesRegex(larder.BadSample, error):
            list(self.loader(daemon, dataset, 4, pipeline=SMALL, bad_samples="error"))
        daemon.stop()
        daemon = self.daemon(CONFIG.format(**large) + checkpoint)
        with self.loader(daemon, dataset, 4, pipeline=SMALL, bad_samples="error") as loader:
            self.whole(loader, len(files_of(dataset)))
        daemon.stop()

    def test_pixels(self):
        """An image of more pixels than limits.pixels."""
        self.raised(tree(12), r"pixels are more than the 10 that the daemon takes: raise limits\.pixels, .*"
                              r"\(limits\.pixels: in \S+:6\)",
                    {"encoded": "16MiB", "pixels": 10}, {"encoded": "16MiB", "pixels": 100000000})

    def test_encoded(self):
        """A file that is larger than memory.encoded. The log names it too."""
        dataset = os.path.join(self.folder, "images")
        shutil.copytree(tree(12), dataset)
        with open(files_of(dataset)[3], "ab") as file:
            file.write(bytes(3 << 19))
        self.raised(dataset, r"the file is larger than all 1 MiB of memory\.encoded: raise memory\.encoded, .*"
                             r"\(memory\.encoded: in \S+:3\)",
                    {"encoded": "1MiB", "pixels": 100000000}, {"encoded": "16MiB", "pixels": 100000000})


if __name__ == "__main__":
    main()
