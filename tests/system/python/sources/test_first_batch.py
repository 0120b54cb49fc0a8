"""Storage that takes long for each file: the first batch does not wait until whole chunks have been read. The storage
is that of tests/tools/faulty.c."""

import os

import above  # noqa: F401
from faulty import PIPELINE, FaultsCase
from system import main, tree

COUNT = 192
BATCH = 8
READS_S = 5


class FirstBatch(FaultsCase):
    def test_files(self):
        """When the first batch comes, at most a fourth of the files has been read: those of its samples, and what other
        readers had under way."""
        dataset = tree(COUNT)
        daemon = self.serve()
        sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(dataset) for name in names]
        self.faults.begin("SLOW", path=dataset, from_bytes=sum(sizes) * READS_S // COUNT)
        with self.loader(daemon, dataset, BATCH, PIPELINE) as loader:
            next(iter(loader))
            self.assertLess(self.faults.calls("SLOW"), COUNT / 4)
            self.faults.end()


if __name__ == "__main__":
    main()
