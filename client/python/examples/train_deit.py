#!/usr/bin/env python3
"""DeiT's data: timm's RandAugment, repeated augmentation, MixUp and CutMix; its epochs are a third of the Loader's.

    train_deit.py FOLDER
"""

import timm
import torch
from timm.data import Mixup, create_transform
from timm.loss import SoftTargetCrossEntropy

from common import SIDE, arguments, larder, report

REPEATS = 3


def main():
    options = arguments(__doc__, model="resnet10t", epochs=REPEATS)
    transform = create_transform(SIDE, is_training=True, color_jitter=0.4, auto_augment="rand-m9-mstd0.5-inc1",
                                 interpolation="bicubic", re_prob=0.25, re_mode="pixel", re_count=1)
    # In DeiT's main.py these two lines take the place of RASampler and DataLoader; nothing else changes.
    loader = larder.Loader(options.folder, larder.from_torchvision(transform), options.batch_size, output="torch",
                           drop_last=True, repeat=REPEATS)
    train = larder.Parts(loader, REPEATS)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=len(train.classes))
    model = timm.create_model(options.model, num_classes=len(train.classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.05)
    criterion = SoftTargetCrossEntropy()
    for epoch in range(options.epochs):
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            images, targets = mixup(images, labels)
            loss = criterion(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
