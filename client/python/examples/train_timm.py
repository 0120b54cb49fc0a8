#!/usr/bin/env python3
"""timm: a list of create_transform, a model and an optimizer of timm's.

    train_timm.py FOLDER
"""

import timm
import timm.optim
import torch
from timm.data import create_transform

from common import SIDE, arguments, larder, report


def main():
    options = arguments(__doc__, model="resnet10t")
    pipeline = larder.from_torchvision(create_transform((3, SIDE, SIDE), is_training=True))
    train = larder.Loader(options.folder, pipeline, options.batch_size, output="torch", drop_last=True)
    model = timm.create_model(options.model, num_classes=len(train.classes))
    optimizer = timm.optim.create_optimizer_v2(model, "sgd", lr=0.01)
    for epoch in range(options.epochs):
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
