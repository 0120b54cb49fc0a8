#!/usr/bin/env python3
"""What decoded forms bring: the daemon's CPU for one job's later epochs over its first one, with memory.decoded auto
and never by turns.

    decoded.py IMAGES [--copies 4] [--epochs 3] [--rounds 2] [--only CASE]

IMAGES is a class-per-folder tree, which is copied so that the files are different ones. Each case says the pipeline and
the encoded memory, as a multiple of the files' bytes. A warming epoch of another daemon brings the files into the page
cache. The CPU of an epoch is what the daemon took from the arrival of its first batch to that of the next epoch's.
Prints a line a run, and for each case the least of the later epochs' CPU by the least of the first epochs' under
`never`."""

import argparse
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import Daemon, larder  # noqa: E402

MIB = 1 << 20
CROP = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
JITTER = CROP + [{"color_jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}}]
RANDOM = CROP + [{"rand_augment": {"num_ops": 2, "magnitude": 9}}]
CASES = {"all": (CROP, 6), "jitter": (JITTER, 6), "rand_augment": (RANDOM, 6), "half": (CROP, 2.9),
         "fifth": (CROP, 1.7), "small": (CROP, 0.5)}


def copy_tree(images, copies, folder):
    """Copies the tree several times into one; returns the bytes of all files."""
    total = 0
    for top, _, names in os.walk(images):
        to = os.path.join(folder, os.path.relpath(top, images))
        os.makedirs(to, exist_ok=True)
        for name in names:
            total += copies * os.path.getsize(os.path.join(top, name))
            for copy in range(copies):
                shutil.copy(os.path.join(top, name), os.path.join(to, f"{copy}-{name}"))
    return total


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(folder, pipeline, encoded_mib, decoded, epochs):
    """One daemon, one job; the CPU seconds of each epoch, and the daemon's status at the end."""
    settings = (f"memory: {{arena: 256MiB, encoded: {encoded_mib}MiB, decoded: {decoded}}}\n"
                "metrics: {enabled: false}\ncatalog: {checkpoint: none}\n")
    with tempfile.TemporaryDirectory() as own:
        daemon = Daemon(own, settings)
        took, before = [], None
        with larder.Loader(folder, pipeline, 64, output="numpy", socket=daemon.socket, epochs=epochs + 1) as loader:
            for epoch in range(epochs + 1):
                for number, _ in enumerate(loader):
                    if number == 0:
                        now = cpu_s(daemon.process.pid)
                        if before is not None:
                            took.append(now - before)
                        before = now
                        if epoch == epochs:
                            break
        status = daemon.status()
        daemon.stop()
        return took, status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        total = copy_tree(arguments.images, arguments.copies, folder)
        run(folder, CROP, 16, "never", 1)
        for case, (pipeline, times) in CASES.items():
            if arguments.only and case not in arguments.only.split(","):
                continue
            took = {"auto": [], "never": []}
            for _ in range(arguments.rounds):
                for decoded in ("never", "auto"):
                    cpu, status = run(folder, pipeline, int(times * total / MIB) + 1, decoded, arguments.epochs)
                    took[decoded].append(cpu)
                    encoded = status["memory"]["encoded"]
                    print(f"{case:13} {decoded:6} " + " ".join(f"{epoch:6.2f}" for epoch in cpu) +
                          f"  RSS {status['daemon']['rss_bytes'] / MIB:.0f} MiB, encoded "
                          f"{encoded['used_bytes'] / MIB:.0f} of {encoded['budget_bytes'] / MIB:.0f} MiB, load "
                          f"{os.getloadavg()[0]:.1f}", flush=True)
            first = min(cpu[0] for cpu in took["never"])
            later = {name: min(min(cpu[1:]) for cpu in runs) for name, runs in took.items()}
            print(f"{case:13} later / first: never {later['never'] / first:.2f}, auto {later['auto'] / first:.2f}; "
                  f"first epoch, auto / never: {min(cpu[0] for cpu in took['auto']) / first:.2f}", flush=True)


if __name__ == "__main__":
    main()
