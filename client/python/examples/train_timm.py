#!/usr/bin/env python3
"""timm: its datasets, transforms, MixUp, models and optimizers. timm's own train.py takes the same one line.

    train_timm.py FOLDER
"""

import timm
import timm.optim
import torch
from timm.data import FastCollateMixup, create_dataset
from timm.loss import SoftTargetCrossEntropy

from common import SIDE, arguments, report
from larder.timm import create_loader  # in train.py: behind the line that imports timm's


def main():
    options = arguments(__doc__, model="resnet10t")
    dataset = create_dataset("", options.folder)
    classes = len(dataset.reader.class_to_idx)
    train = create_loader(dataset, (3, SIDE, SIDE), options.batch_size, is_training=True, re_prob=0.25,
                          auto_augment="rand-m9-mstd0.5-inc1", device=torch.device("cpu"),
                          collate_fn=FastCollateMixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=classes))
    model = timm.create_model(options.model, num_classes=classes)
    optimizer = timm.optim.create_optimizer_v2(model, "sgd", lr=0.01)
    criterion = SoftTargetCrossEntropy()
    for epoch in range(options.epochs):
        train.sampler.set_epoch(epoch)
        for images, targets in train:
            loss = criterion(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    report(train.loader)


if __name__ == "__main__":
    main()
