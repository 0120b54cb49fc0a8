"""What the examples share: their arguments, a small network, and what they print at their end."""

import argparse
import contextlib
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import larder  # noqa: E402
from larder import _control  # noqa: E402

SIDE = 64
TRAIN = [larder.RandomResizedCrop(SIDE), larder.RandomHorizontalFlip()]
EVALUATE = [larder.Resize(SIDE), larder.CenterCrop(SIDE)]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def arguments(doc, **more):
    """The folder, --epochs and --batch-size; and what `more` names, with its default."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("folder", help="a folder with one folder a class")
    for name, default in {"epochs": 2, "batch_size": 32, **more}.items():
        kind = str if default is None else type(default)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=default)
    return parser.parse_args()


def parts(folder):
    """Subsets for training and validation: nine tenths of the folder, and what they leave."""
    train = larder.Fraction(0.9, seed=1)
    return train, larder.Fraction(1) - train


def temporary(folder):
    """The folder, or where there is none, one that is removed at the end."""
    return contextlib.nullcontext(folder) if folder else tempfile.TemporaryDirectory()


def network(classes):
    import torch
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
                               torch.nn.Flatten(), torch.nn.Linear(128, classes))


def report(loader):
    """One line: what this script got, and how many preparations the daemon made for all that it delivered."""
    stats = loader.stats()
    words = f"{stats['samples']} samples in {stats['batches']} batches, waited {stats['wait_s']:.2f} s for them"
    told = _control.status(loader._job.link.path)
    if told:
        prepared, delivered = told["samples"]["prepared"], told["samples"]["delivered"]
        words += f"; the daemon prepared {prepared} and delivered {delivered}: {max(0, delivered - prepared)} saved"
    print(words, flush=True)
