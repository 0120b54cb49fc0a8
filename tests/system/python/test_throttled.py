"""What slow storage leaves of the throughput: the daemon with every read delayed, against what its threads can do."""

import time

from system import Case, main, tree

COUNT, BATCH, LOADERS, WORKERS = 12000, 64, 8, 2
DELAYS_MS, ROUNDS = (5, 20, 80), 4


class Throttled(Case):
    def middle(self, delay_ms):
        """Samples a second, and samples a read, between a fifth and four fifths of an epoch."""
        daemon = self.daemon("memory: {arena: 128MiB, encoded: 8MiB}\n"
                             f"threads: {{workers: {WORKERS}, loaders: {LOADERS}}}\ndebug: {{load_delay: {delay_ms}}}\n"
                             "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n")
        loader = self.loader(daemon, tree(COUNT), batch_size=BATCH, epochs=1, prefetch=16,
                             pipeline=[{"resize": {"size": [64, 64]}}])
        marks = {COUNT // 5 // BATCH: None, COUNT * 4 // 5 // BATCH: None}
        for number, _ in enumerate(loader):
            if number in marks:
                status = daemon.status()
                marks[number] = (time.monotonic(), status["samples"], status["governor"])
        daemon.stop()
        (began, before, _), (ended, after, governor) = marks.values()
        samples = (max(marks) - min(marks)) * BATCH
        return samples / (ended - began), samples / max(after["reads"] - before["reads"], 1), governor

    def test_delays(self):
        """With reads that take 5, 20 and 80 ms longer, a job gets at least 90 % of what either the preparers alone or
        the reads alone would give: the second counts the loaders that may run, and what a read brings. What else the
        machine does only slows: the best of up to ROUNDS runs counts, on both sides."""
        prepare, best = 0, {}
        for round_ in range(ROUNDS):
            prepare = max(prepare, self.middle(0)[0])
            for delay_ms in DELAYS_MS:
                rate, per_read, governor = self.middle(delay_ms)
                load = (LOADERS + WORKERS - 1) * per_read / (delay_ms / 1000)
                best[delay_ms] = max(best.get(delay_ms, (0, 0)), (rate, load))
                print(f"{delay_ms} ms: {rate:.0f} samples/s, load limit {load:.0f}, governor {governor}", flush=True)
            parts = {delay_ms: rate / min(prepare, load) for delay_ms, (rate, load) in best.items()}
            shown = {delay_ms: round(part, 3) for delay_ms, part in parts.items()}
            print(f"round {round_}: prepare limit {prepare:.0f}, parts {shown}", flush=True)
            if round_ and min(parts.values()) >= 0.9:
                return
        self.fail(f"of the lower limit: {shown}")


if __name__ == "__main__":
    main()
