#!/usr/bin/env python3
"""A small network that is killed and goes on from its checkpoint three times ends with the weights of one that ran
through, bit for bit.

    bit_equal.py [--folder IMAGES] [--epochs 4] [--kills 3] [--seed N]

Both train the same network in `strict` order with random crops and flips, on one core, with the same seed. One is left
alone. The other is killed with SIGKILL at random steps, and the daemon with it every other time; it loads model,
optimizer and Loader from its last checkpoint and goes on. Without --folder images of 32 x 32 are made.

LARDER_BIN says which build. Exits with 77 where torch is missing.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import SLOW, Daemon, larder, make_tree, skip  # noqa: E402

try:
    import torch
except ImportError:
    skip("this Python has no torch")

CONFIG = """\
memory: {arena: 32MiB, encoded: 16MiB, scratch: 32MiB}
threads: {workers: 2, loaders: 2}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""
PIPELINE = [larder.RandomCrop(32, padding=4), larder.RandomHorizontalFlip(), larder.ToDtype("float32", scale=True),
            larder.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))]
BATCH_SIZE = 50


def network(n_classes):
    conv = [torch.nn.Conv2d(3, 12, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(4),
            torch.nn.Conv2d(12, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2)]
    return torch.nn.Sequential(*conv, torch.nn.Flatten(), torch.nn.Linear(96, n_classes))


def train(options):
    """Trains to the end, from the checkpoint if there is one. Prints each step, and at the end the weights' hash."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    loader = larder.Loader(options.folder, PIPELINE, BATCH_SIZE, shuffle="strict", seed=options.seed, output="torch",
                           timeout=60 * SLOW, reconnect=60 * SLOW, socket=options.socket)
    model = network(len(loader.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    if os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    while loader.epoch < options.epochs:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 7 == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "loader": loader.state_dict(), "step": step}, options.checkpoint + ".new")
                os.replace(options.checkpoint + ".new", options.checkpoint)
            print("step", step, float(loss), flush=True)
    weights = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        weights.update(name.encode() + tensor.numpy().tobytes())
    if not all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values()):
        sys.exit("FAILED: a weight is not a number, so equal weights would say nothing")
    print("weights", weights.hexdigest(), step, float(loss), flush=True)


class Trainer:
    """A training process, and what it prints."""

    def __init__(self, options, folder, socket, checkpoint):
        command = [sys.executable, "-B", os.path.abspath(__file__), "--folder", folder, "--socket", socket,
                   "--checkpoint", checkpoint, "--epochs", str(options.epochs), "--seed", str(options.seed)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.weights = None

    def steps(self):
        """Each step as it is done; ends with the process."""
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "weights":
                self.weights = line.strip()
            else:
                yield int(words[1])
        self.process.wait()


def run(options, folder, scratch, kills):
    os.mkdir(scratch)
    daemon = Daemon(scratch, CONFIG)
    checkpoint = os.path.join(scratch, "checkpoint")
    draw = random.Random(options.seed)
    try:
        for number in range(kills + 1):
            trainer = Trainer(options, folder, daemon.socket, checkpoint)
            steps, more = 0, draw.randint(8, 30)
            for step in trainer.steps():
                steps += 1
                if number < kills and steps == more:
                    trainer.process.kill()
            if number < kills:
                print(f"killed at step {step}", "with the daemon" if number % 2 else "", flush=True)
            if number < kills and number % 2:
                daemon.kill()
                daemon = Daemon(scratch, CONFIG)
        return trainer.weights
    finally:
        trainer.process.kill()
        trainer.process.wait()
        daemon.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="images, one folder a class; without it they are made")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.socket:
        train(options)
        return 0
    print("seed", options.seed, flush=True)
    scratch = tempfile.mkdtemp(prefix="larder-bits-")
    try:
        folder = options.folder or make_tree(os.path.join(scratch, "images"), 1020, width=32, height=32, seed=4)
        through = run(options, folder, os.path.join(scratch, "through"), 0)
        again = run(options, folder, os.path.join(scratch, "again"), options.kills)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print("ran through: ", through, flush=True)
    print("killed, went on:", again, flush=True)
    if through is None or through != again:
        print("FAILED: the weights differ", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
