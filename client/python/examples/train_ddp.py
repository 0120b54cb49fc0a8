#!/usr/bin/env python3
"""Trains a small network on several processes with DistributedDataParallel and one Larder job.

    train_ddp.py FOLDER --processes 4            starts four processes on this machine
    torchrun --nproc_per_node 4 train_ddp.py FOLDER

The only thing a Larder loader needs to know, its rank, it takes from torch.distributed. Every rank gets another part of
each epoch, all as many batches, so that no process is left waiting in a gradient's all-reduce.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import common  # noqa: E402
import larder  # noqa: E402

SIDE = 64


def network(classes):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
        torch.nn.Linear(128, classes))


def train(options):
    """One rank: returns (mean loss, positions of the samples it got) of each epoch."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    pipeline = [larder.RandomResizedCrop(SIDE), larder.RandomHorizontalFlip()]
    loader = larder.Loader(options.folder, pipeline, options.batch_size, epochs=options.epochs, with_ids=True,
                           output="torch")
    model = DistributedDataParallel(network(len(loader.classes)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epochs = []
    for epoch in range(loader.epoch, options.epochs):
        losses, indices = [], []
        for images, labels, positions in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images.float() / 255 - 0.5), labels)
            loss.backward()  # averages the gradients over all ranks
            optimizer.step()
            losses.append(loss.item())
            indices.extend(positions.tolist())
        mean = torch.tensor(sum(losses) / max(1, len(losses)))
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        epochs.append((mean, indices))
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item():.4f}, {len(losses)} batches a rank", flush=True)
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    report(options, epochs, weights.double().sum().item())
    if dist.get_rank() == 0:
        common.report(loader)
    loader.close()
    dist.destroy_process_group()
    # The group ends with the model. If one of its threads were then the last to hold a tensor of an all_reduce, it
    # would wait for the interpreter, which waits for that thread (torch 1.13): `epochs` still has them.
    del model


def report(options, epochs, weights):
    if options.report:
        with open(f"{options.report}.{dist.get_rank()}", "w") as file:
            json.dump({"losses": [loss.item() for loss, _ in epochs], "indices": [indices for _, indices in epochs],
                       "weights": weights}, file)


def start(options):
    """Starts the ranks as torchrun would, and waits for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(options.processes),
                  OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(shared, RANK=str(rank)))
             for rank in range(options.processes)]
    return max(abs(rank.wait()) for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", help="write each rank's losses and samples to REPORT.<rank>, as JSON")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        return start(options)
    train(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
