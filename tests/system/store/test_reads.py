"""How often the real daemon reads a store's chunks, beside what `larder bench sharing` says for the same case."""

import json
import os

from stores import command, pack
from system import Case, main, tree

COUNT, CHUNK, EPOCHS = 6000, 64, 3
SHARE = 0.1  # of the dataset's bytes, for encoded samples


def size_of(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


class Reads(Case):
    def bench(self):
        """Loads a chunk and epoch, of one job in virtual time."""
        path = os.path.join(self.folder, "scenario.yaml")
        with open(path, "w") as file:
            file.write(f"samples: {COUNT}\nchunk: {CHUNK}\nmemory: {{prepared: {SHARE}, encoded: {SHARE}}}\nseed: 1\n"
                       f"settings: {{shuffle: dependent}}\njobs:\n  - {{epochs: {EPOCHS}}}\n")
        result = command("bench", "sharing", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["loads_per_chunk_per_epoch"]

    def test_one_job(self):
        """One job on a store, encoded memory a tenth of it: every sample is read about once an epoch, a chunk with at most
        3 reads, and within 40 % of the bench, whose job looks one sample ahead and not two batches."""
        store = pack(tree(COUNT), os.path.join(self.folder, "store"), "--chunk-size", CHUNK)
        encoded = max(int(size_of(store) * SHARE), 1 << 20)
        daemon = self.daemon(f"memory: {{arena: 64MiB, encoded: {encoded >> 10}KiB}}\nthreads: {{workers: 2}}\n"
                             "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n")
        loader = self.loader(daemon, store, batch_size=16, epochs=EPOCHS, pipeline=[{"resize": {"size": [32, 32]}}])
        for _ in range(EPOCHS):
            self.whole(loader, COUNT)
        samples = daemon.status()["samples"]
        chunks = -(-COUNT // CHUNK)
        reads, bench = samples["reads"] / chunks / EPOCHS, self.bench()
        read = samples["loaded"] / COUNT / EPOCHS
        print(f"reads a chunk and epoch: daemon {reads:.2f}, bench {bench:.2f}; times a sample was read: {read:.3f}", flush=True)
        self.assertLessEqual(read, 1.1)
        self.assertLessEqual(reads, 3)
        self.assertLessEqual(reads, 1.4 * bench)
        self.assertGreaterEqual(reads, 1)


if __name__ == "__main__":
    main()
