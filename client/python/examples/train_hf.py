#!/usr/bin/env python3
"""Hugging Face's Trainer: as_dict gives batches that its models take. With a folder for checkpoints it goes on from the
last one, in the middle of an epoch.

    train_hf.py FOLDER --checkpoint run
"""

import glob
import json
import os

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from common import EVALUATE, TRAIN, arguments, larder, network, parts, report, temporary


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


class SaveLoader(TrainerCallback):
    """Puts the Loader's state into each checkpoint. It is the last that comes there: without it one is not whole."""

    def __init__(self, loader):
        self._loader = loader

    def on_save(self, args, state, control, **_):
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "loader.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._loader.state_dict(), file)
        os.replace(path + ".new", path)


def last_checkpoint(folder):
    """The last one that is whole; None where there is none."""
    found = glob.glob(os.path.join(folder, "checkpoint-*", "loader.json"))
    return max(map(os.path.dirname, found), key=lambda path: int(path.rpartition("-")[2]), default=None)


def main():
    options = arguments(__doc__, checkpoint=None, every=4)
    subset, rest = parts(options.folder)
    common = {"output": "torch", "as_dict": ("pixel_values", "labels")}
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, **common)
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, shuffle="none", **common)
    with temporary(options.checkpoint) as folder:
        # ignore_data_skip: the Loader itself goes on after what was taken, and nothing is to be skipped.
        trainer = LarderTrainer(Model(len(train.classes)), TrainingArguments(
            folder, num_train_epochs=options.epochs, per_device_train_batch_size=options.batch_size, report_to=[],
            save_strategy="steps" if options.checkpoint else "no", save_steps=options.every, save_total_limit=3,
            ignore_data_skip=True, disable_tqdm=True), train_dataset=train, eval_dataset=val,
            callbacks=[SaveLoader(train)])
        checkpoint = last_checkpoint(folder)
        if checkpoint:
            with open(os.path.join(checkpoint, "loader.json"), encoding="utf-8") as file:
                train.load_state_dict(json.load(file))
            print(f"goes on in epoch {train.epoch}, from {os.path.basename(checkpoint)}", flush=True)
        trainer.train(resume_from_checkpoint=checkpoint)
        print(f"{trainer.state.global_step} steps, validation loss {trainer.evaluate()['eval_loss']:.4f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
