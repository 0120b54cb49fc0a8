#!/usr/bin/env python3
"""Hugging Face's Trainer: as_dict gives batches that its models take.

    train_hf.py FOLDER
"""

import tempfile

import torch
from transformers import Trainer, TrainingArguments

from common import EVALUATE, TRAIN, arguments, larder, network, parts, report


class Model(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.network = network(classes)

    def forward(self, pixel_values, labels):
        logits = self.network(pixel_values.float() / 255 - 0.5)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class LarderTrainer(Trainer):
    def get_train_dataloader(self):
        return self.train_dataset

    def get_eval_dataloader(self, eval_dataset=None):
        return eval_dataset or self.eval_dataset


def main():
    options = arguments(__doc__)
    subset, rest = parts(options.folder)
    common = {"output": "torch", "as_dict": ("pixel_values", "labels")}
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, **common)
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, shuffle="none", **common)
    with tempfile.TemporaryDirectory() as folder:
        trainer = LarderTrainer(Model(len(train.classes)), TrainingArguments(
            folder, num_train_epochs=options.epochs, per_device_train_batch_size=options.batch_size, report_to=[],
            save_strategy="no", disable_tqdm=True), train_dataset=train, eval_dataset=val)
        trainer.train()
        print(f"validation loss {trainer.evaluate()['eval_loss']:.4f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
