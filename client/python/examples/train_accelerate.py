#!/usr/bin/env python3
"""Accelerate: prepare() hands a Loader through, which knows its rank and tells where an epoch ends.

    train_accelerate.py FOLDER
"""

import torch
from accelerate import Accelerator

from common import TRAIN, arguments, larder, network, report


def main():
    options = arguments(__doc__)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    train = larder.Loader(options.folder, TRAIN, options.batch_size, output="torch")
    model = network(len(train.classes))
    model, optimizer, train = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05), train)
    for epoch in range(options.epochs):
        for images, labels in train:
            images, labels = images.to(accelerator.device), labels.to(accelerator.device)
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(images.float() / 255 - 0.5), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")
    if accelerator.is_main_process:
        report(train)


if __name__ == "__main__":
    main()
