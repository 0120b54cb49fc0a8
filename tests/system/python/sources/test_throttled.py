"""The daemon with every read delayed: its threads wait side by side."""

import os
import statistics
import sys
import time

import above  # noqa: F401
from system import HERE, PATIENCE, QUIET, Case, main, skip, tree

sys.path.insert(0, os.path.join(HERE, "..", "store"))
from stores import pack  # noqa: E402

COUNT, BATCH, LOADERS, WORKERS = 12000, 64, 8, 2
ROUNDS = 5
EPOCHS = 5  # where rates are held against each other


class Throttled(Case):
    def middle(self, store, delay_ms, epochs=1):
        """Samples and reads a second between a fifth and four fifths of the epochs, and the samples that a read
        brought."""
        daemon = self.daemon("memory: {arena: 128MiB, encoded: 8MiB}\n"
                             f"threads: {{workers: {WORKERS}, loaders: {LOADERS}}}\ndebug: {{load_delay: {delay_ms}}}\n"
                             "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n")
        loader = self.loader(daemon, store, batch_size=BATCH, epochs=epochs, prefetch=16,
                             pipeline=[{"resize": {"size": [64, 64]}}])
        marks = {COUNT * epochs // 5 // BATCH: None, COUNT * epochs * 4 // 5 // BATCH: None}
        for number, _ in enumerate(batch for _ in range(epochs) for batch in loader):
            if number in marks:
                status = daemon.status()
                marks[number] = (time.monotonic(), status["samples"]["reads"], status["samples"]["loaded"])
        daemon.stop()
        (began, before, loaded_before), (ended, after, loaded) = marks.values()
        seconds = ended - began
        return ((max(marks) - min(marks)) * BATCH / seconds, (after - before) / seconds,
                (loaded - loaded_before) / (after - before))

    def test_loaders_work_side_by_side(self):
        """With reads that take 80 ms longer, at least a fifth (on a quiet machine half) of the reads are done that
        the loaders could do side by side: one after the other they would do a ninth. How near to all of them it comes
        depends on what else the machine does; on a quiet one the rates with other delays are printed. The best of
        up to ROUNDS runs counts. In each, a read brings what the engine wanted of a chunk together, also where
        samples are dropped to make room for it."""
        store = pack(tree(COUNT, pictures=500), os.path.join(self.folder, "store"), "--chunk-size", 64)
        for delay_ms in (0, 5, 20) if QUIET else ():
            print(f"{delay_ms} ms: %.0f samples/s, %.0f reads/s, %.1f samples a read" % self.middle(store, delay_ms),
                  flush=True)
        allowed, most = (LOADERS + WORKERS - 1) / 0.080, 0
        for _ in range(ROUNDS):
            samples, reads, brought = self.middle(store, 80)
            most = max(most, reads)
            print(f"80 ms: {samples:.0f} samples/s, {reads:.0f} of {allowed:.0f} reads/s, {brought:.1f} samples a read",
                  flush=True)
            self.assertGreater(brought, 12)
            if most >= (0.5 if QUIET else 0.2) * allowed:
                return
        self.fail(f"{most:.0f} of {allowed:.0f} reads a second")

    def test_nine_tenths(self):
        """With reads that take 5, 20 and 80 ms longer, a job gets at least 90 % of what either the preparers alone or
        the reads alone would give: the second counts the loaders that may run, and what a read brings. How fast the
        machine is changes: both sides are measured in turns, and the median of three to ROUNDS rounds counts."""
        store = pack(tree(COUNT, pictures=500), os.path.join(self.folder, "store"), "--chunk-size", 64)
        parts = {5: [], 20: [], 80: []}
        for round_ in range(ROUNDS):
            prepare = self.middle(store, 0, EPOCHS)[0]
            for delay_ms in parts:
                rate, _, brought = self.middle(store, delay_ms, EPOCHS)
                load = (LOADERS + WORKERS - 1) * brought / (delay_ms / 1000)
                parts[delay_ms].append(rate / min(prepare, load))
            medians = {delay_ms: round(statistics.median(values), 3) for delay_ms, values in parts.items()}
            print(f"round {round_}: prepare limit {prepare:.0f} samples/s, parts of the lower limit "
                  f"{[round(values[-1], 3) for values in parts.values()]}, medians {medians}", flush=True)
            if round_ >= 2 and min(medians.values()) >= 0.9:
                return
        self.fail(f"of the lower limit: {medians}")


if __name__ == "__main__":
    if PATIENCE > 1:
        skip("under a sanitizer decoding is the limit, not reading")
    quiet = "--rate" in sys.argv
    if quiet and not QUIET:
        skip("rates are held against 90 % of the limits on a machine that does nothing else: set "
             "LARDER_TEST_QUIET=1 there")
    sys.argv[1:] = ["Throttled.test_nine_tenths" if quiet else "Throttled.test_loaders_work_side_by_side"]
    main()
