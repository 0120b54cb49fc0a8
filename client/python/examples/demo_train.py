#!/usr/bin/env python3
"""Trains a softmax regression on small averages of a Larder dataset's images, in NumPy: a small training script.

    demo_train.py FOLDER --epochs 2

Prints the mean loss of each epoch. With --report it also writes as JSON what it received, whether each epoch was whole,
and how long it waited, with --ids the indices of each epoch's samples too, and with --progress it prints a line
"@ epoch batches" a batch. They are for ./run demo, which runs several of these at once.
"""

import argparse
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import numpy as np  # noqa: E402

import larder  # noqa: E402

SIDE = 8         # pixels of the averaged image
LEARNING_RATE = 0.5


def features(images):
    """(B, 224, 224, 3) uint8 → (B, SIDE · SIDE · 3 + 1) float32 around 0, the last column constant."""
    cell = images.shape[1] // SIDE
    step = max(1, cell // 7)
    cells = images[:, :SIDE * cell:step, :SIDE * cell:step]
    per_cell = cells.shape[1] // SIDE
    means = cells.reshape(len(images), SIDE, per_cell, SIDE, per_cell, 3).mean((2, 4), dtype=np.float32)
    flat = means.reshape(len(images), -1) / 127.5 - 1
    return np.hstack([flat, np.ones((len(images), 1), np.float32)])


class Softmax:
    """Multinomial logistic regression, plain gradient descent."""

    def __init__(self, n_features, n_classes):
        self.weights = np.zeros((n_features, n_classes), np.float32)

    def step(self, x, labels):
        """One step down the gradient; returns the loss before it."""
        rows = np.arange(len(labels))
        logits = x @ self.weights
        logits -= logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        loss = -np.log(probabilities[rows, labels] + 1e-9).mean()
        probabilities[rows, labels] -= 1
        self.weights -= LEARNING_RATE / len(labels) * (x.T @ probabilities)
        return float(loss)


def train(loader, epochs, progress):
    """Gives for each epoch whether the loop got each sample exactly once, the indices that it got, and how many bad
    samples were left out."""
    model = Softmax(SIDE * SIDE * 3 + 1, len(loader.classes))
    whole, had, lost = [], [], []
    for epoch in range(epochs):
        losses, taken = [], []
        for images, labels, indices in loader:
            losses.append(model.step(features(images), labels))
            taken += indices.tolist()
            if progress:
                print("@", epoch, len(losses), flush=True)
        whole.append(len(taken) + loader.lost == loader.dataset_size and len(set(taken)) == len(taken))
        had.append(taken)
        lost.append(loader.lost)
        print(f"epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.3f}", flush=True)
    return whole, had, lost


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a folder with one folder a class")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--name", help="the job's name in larder status")
    parser.add_argument("--report", help="a file for the figures, as JSON")
    parser.add_argument("--ids", action="store_true", help="the report has the indices of all samples, too")
    parser.add_argument("--progress", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        loader = larder.Loader(options.folder, [larder.RandomResizedCrop(224), larder.RandomHorizontalFlip()],
                               options.batch_size, epochs=options.epochs, name=options.name, output="numpy",
                               with_ids=True)
        with loader:
            if options.progress:
                print("@ of", len(loader), flush=True)
            began = time.monotonic()
            whole, had, lost = train(loader, options.epochs, options.progress)
            seconds = time.monotonic() - began
    except larder.LarderError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.report:
        report = dict(loader.stats(), seconds=seconds, whole=whole)
        if options.ids:
            report.update(had=had, left_out=lost, dataset_size=loader.dataset_size)
        with open(options.report, "w") as file:
            json.dump(report, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
