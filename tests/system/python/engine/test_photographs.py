"""Three scripts at once on real photographs (LARDER_TEST_IMAGES, or ../shared/data/imagenet-sample beside the tree)."""

import os

import above  # noqa: F401
from system import SOURCE, files_of, main, skip
from test_sharing import ThreeScripts

FOLDER = os.environ.get("LARDER_TEST_IMAGES", os.path.join(SOURCE, "..", "shared", "data", "imagenet-sample"))


class Photographs(ThreeScripts):
    def test_photographs(self):
        """Exactly once by index for each of three, and at most 1.35 preparations a sample and epoch."""
        self.three_scripts(FOLDER, len(files_of(FOLDER)))


if __name__ == "__main__":
    if not os.path.isdir(FOLDER):
        skip(f"no photographs at {FOLDER}: set LARDER_TEST_IMAGES to a folder with one folder a class")
    main()
