"""How often the real daemon reads a store's chunks, beside what `larder_bench sharing` says for the same case."""

import json
import os

from stores import bench, pack
from system import Case, main, tree

COUNT, CHUNK, EPOCHS = 6000, 64, 2
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
        result = bench("sharing", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["loads_per_chunk_per_epoch"]

    def reads(self, store, jobs, share=SHARE, shuffle="dependent"):
        """Reads a chunk and epoch by a new daemon that serves so many jobs at once; each gets every sample once."""
        encoded = max(int(size_of(store) * share * 4 / 3), 1 << 20)  # a quarter is for prepared samples' bookkeeping
        daemon = self.daemon(f"memory: {{arena: 64MiB, encoded: {encoded >> 10}KiB}}\nthreads: {{workers: 2}}\n"
                             "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n")
        loaders = [self.loader(daemon, store, batch_size=16, epochs=EPOCHS, shuffle=shuffle,
                               pipeline=[{"resize": {"size": [32, 32]}}])
                   for _ in range(jobs)]
        for _ in range(EPOCHS):
            got = [[] for _ in range(jobs)]
            for batches in zip(*loaders):
                for indices, batch in zip(got, batches):
                    indices.extend(batch[-1].tolist())
            for indices in got:
                self.assertEqual(sorted(indices), list(range(COUNT)))
        samples = daemon.status()["samples"]
        daemon.stop()
        self.assertLessEqual(samples["loaded"], 1.1 * COUNT * EPOCHS)
        return samples["reads"] / -(-COUNT // CHUNK) / EPOCHS

    def test_reads_a_chunk(self):
        """With encoded memory for a tenth of a store one job reads each sample about once an epoch and each chunk at
        most 2.5 times, and within 40 % of the bench, which looks one sample ahead and not batches; two jobs read no
        chunk more than a tenth more often than one."""
        store = pack(tree(COUNT, pictures=500), os.path.join(self.folder, "store"), "--chunk-size", CHUNK)
        bench, one, two = self.bench(), self.reads(store, 1), self.reads(store, 2)
        print(f"reads a chunk and epoch: bench {bench:.2f}, one job {one:.2f}, two jobs {two:.2f}", flush=True)
        self.assertGreaterEqual(one, 1)
        self.assertLessEqual(one, min(2.5, 1.4 * bench))
        self.assertLessEqual(two, 1.1 * one)

    def test_reads_for_an_order_of_its_own(self):
        """A job in an order of its own is given no other sample than the next, but what a read can bring for later
        comes with it: with memory for all, a chunk is read about once an epoch; with memory for a tenth, fewer times
        than it has samples, by a quarter."""
        store = pack(tree(COUNT, pictures=500), os.path.join(self.folder, "store"), "--chunk-size", CHUNK)
        for shuffle in ("strict", "none"):
            scarce, ample = self.reads(store, 1, shuffle=shuffle), self.reads(store, 1, 2, shuffle)
            print(f"{shuffle}: reads a chunk and epoch {scarce:.1f}, with memory for all {ample:.2f}", flush=True)
            self.assertLessEqual(scarce, 0.75 * CHUNK)
            self.assertLessEqual(ample, 1.5)


if __name__ == "__main__":
    main()
