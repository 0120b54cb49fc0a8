#!/usr/bin/env python3
"""NumPy alone: a nearest-mean classifier, trained on one pass and tried on another.

    train_numpy.py FOLDER
"""

import numpy as np

from common import EVALUATE, TRAIN, arguments, larder, parts, report


def features(images):
    return images[:, ::8, ::8].reshape(len(images), -1) / 255


def main():
    options = arguments(__doc__)
    subset, rest = parts(options.folder)
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, output="numpy")
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, output="numpy", shuffle="none")
    sums, counts = 0, np.zeros(len(train.classes))
    for epoch in range(options.epochs):
        for images, labels in train:
            rows = np.eye(len(counts))[labels]
            sums = sums + rows.T @ features(images)
            counts += rows.sum(0)
        means = sums / np.maximum(counts, 1)[:, None]
        hits = [(np.square(features(images)[:, None] - means).sum(2).argmin(1) == labels) for images, labels in val]
        print(f"epoch {epoch}: validation {np.concatenate(hits).mean():.3f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
