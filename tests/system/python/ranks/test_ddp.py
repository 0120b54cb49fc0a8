"""The example train_ddp.py: real torch.distributed, DistributedDataParallel on a Larder loader."""

import json
import os
import subprocess
import sys

import above  # noqa: F401
import system

try:
    import torch.distributed
except (ImportError, OSError):
    system.skip("this Python has no torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available() \
        if hasattr(torch.distributed, "is_gloo_available") else not torch.distributed.is_available():
    system.skip("this torch has no gloo")

COUNT = 213
SAVED = r"[0-9]+ samples in [0-9]+ batches.*the daemon prepared [0-9]+ and delivered [0-9]+: [0-9]+ saved"
EXAMPLE = os.path.join(system.PACKAGE, "examples", "train_ddp.py")


class Ddp(system.Case):
    def train(self, processes):
        daemon, folder = self.daemon(), system.tree(COUNT)
        report = os.path.join(self.folder, "report")
        environment = dict(os.environ, LARDER_SOCKET=daemon.socket)
        for key in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            environment.pop(key, None)
        result = subprocess.run([sys.executable, "-B", EXAMPLE, folder, "--processes", str(processes), "--epochs", "2",
                                 "--batch-size", "8", "--report", report], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=240 * system.SLOW)
        self.assertEqual(result.returncode, 0, result.stdout + daemon.log())
        self.assertRegex(result.stdout, SAVED)
        reports = []
        for rank in range(processes):
            with open(f"{report}.{rank}") as file:
                reports.append(json.load(file))
        return reports

    def check(self, processes):
        """All ranks end with the same weights, saw equal parts, and together the dataset once an epoch."""
        reports = self.train(processes)
        share = -(-COUNT // processes)
        for epoch in range(2):
            parts = [report["indices"][epoch] for report in reports]
            self.assertEqual([len(part) for part in parts], [share] * processes)
            seen = sum(parts, [])
            self.assertEqual(set(seen), set(range(COUNT)))
            self.assertEqual(len(seen) - COUNT, share * processes - COUNT)
        for report in reports[1:]:
            self.assertAlmostEqual(report["weights"], reports[0]["weights"], places=6)
            self.assertEqual(report["losses"], reports[0]["losses"])

    def test_two_processes(self):
        """Two ranks train in step, whose parts need one repeat."""
        self.check(2)

    @system.only_long
    def test_three_processes(self):
        """Three ranks train in step, whose parts need no repeats."""
        self.check(3)

    @system.only_long
    def test_four_processes(self):
        """Four ranks train in step, whose parts need three repeats."""
        self.check(4)


if __name__ == "__main__":
    system.main()
