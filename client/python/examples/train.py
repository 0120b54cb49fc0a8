#!/usr/bin/env python3
"""Plain PyTorch with validation, and with a checkpoint from which it goes on in the middle of an epoch.

    train.py FOLDER --checkpoint run.pt
"""

import os

import torch

from common import EVALUATE, MEAN, STD, TRAIN, arguments, larder, network, parts, report


def validate(model, val):
    correct = total = 0
    with torch.no_grad():
        for images, labels in val:
            correct += (model(images).argmax(1) == labels).sum().item()
            total += len(labels)
    return correct / max(1, total)


def save(path, model, optimizer, train):
    """Written beside and then renamed: a script that is killed meanwhile leaves the one before."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()},
               path + ".new")
    os.replace(path + ".new", path)


def main():
    options = arguments(__doc__, checkpoint=None, every=4)
    torch.manual_seed(0)
    subset, rest = parts(options.folder)
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, output="torch", shuffle="strict")
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, output="torch", shuffle="none")
    model = network(len(train.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if options.checkpoint and os.path.exists(options.checkpoint):
        state = torch.load(options.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        train.load_state_dict(state["loader"])
        print(f"goes on in epoch {train.epoch}", flush=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    held_out = larder.to_device(val, device, normalize=(MEAN, STD))
    mean, std = (torch.tensor(part, device=device).reshape(1, 3, 1, 1) for part in (MEAN, STD))
    for epoch in range(train.epoch, options.epochs):
        taken = 0
        for number, (images, labels) in enumerate(train, 1):
            taken += len(labels)
            images = (images.to(device).float() / 255 - mean) / std
            loss = torch.nn.functional.cross_entropy(model(images), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if options.checkpoint and number % options.every == 0:
                save(options.checkpoint, model, optimizer, train)
        print(f"epoch {epoch}: {taken} samples, loss {loss.item():.4f}, validation {validate(model, held_out):.3f}",
              flush=True)
    report(train)


if __name__ == "__main__":
    main()
