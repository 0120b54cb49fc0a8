#!/usr/bin/env python3
"""Hugging Face's Trainer: as_dict gives batches that its models take. With a folder for checkpoints it goes on from the
last one, in the middle of an epoch.

    train_hf.py FOLDER --checkpoint run
"""

import os

import torch
from transformers import TrainingArguments

from common import EVALUATE, TRAIN, arguments, larder, network, parts, report, temporary
from larder.huggingface import Trainer, last_checkpoint


class Model(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.network = network(classes)

    def forward(self, pixel_values, labels):
        logits = self.network(pixel_values.float() / 255 - 0.5)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def main():
    options = arguments(__doc__, checkpoint=None, every=4)
    subset, rest = parts(options.folder)
    common = {"output": "torch", "as_dict": ("pixel_values", "labels")}
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, **common)
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, shuffle="none", **common)
    with temporary(options.checkpoint) as folder:
        trainer = Trainer(Model(len(train.classes)), TrainingArguments(
            folder, num_train_epochs=options.epochs, per_device_train_batch_size=options.batch_size, report_to=[],
            save_strategy="steps" if options.checkpoint else "no", save_steps=options.every, save_total_limit=3,
            disable_tqdm=True), train_dataset=train, eval_dataset=val)
        checkpoint = last_checkpoint(folder)
        if checkpoint:
            print(f"goes on from {os.path.basename(checkpoint)}", flush=True)
        trainer.train(resume_from_checkpoint=checkpoint)
        print(f"{trainer.state.global_step} steps, validation loss {trainer.evaluate()['eval_loss']:.4f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
