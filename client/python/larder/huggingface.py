"""Hugging Face's Trainer, for Loaders. It needs transformers.

    from larder.huggingface import Trainer
    trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=val)
    trainer.train(resume_from_checkpoint=True)

The Loaders give batches as models take them: as_dict=("pixel_values", "labels"). Each checkpoint has the training
Loader's state beside it, and training goes on from it in the middle of an epoch, with any number of ranks.
"""

import contextlib
import glob
import json
import os
import sys

import transformers

from .loader import Loader

_STATE = "larder.json"


def last_checkpoint(folder):
    """The last checkpoint in a Trainer's output_dir from which training can go on; None where there is none. A Loader's
    state is the last that comes there: a checkpoint without it is not whole."""
    found = map(os.path.dirname, glob.glob(os.path.join(glob.escape(folder), "checkpoint-*", _STATE)))
    return max(found, key=lambda path: int(path.rpartition("-")[2]), default=None)


class _SaveState(transformers.TrainerCallback):
    """Puts the training Loader's state into each checkpoint. Rank 0's is that of all ranks."""

    def __init__(self, loader):
        self._loader = loader

    def on_save(self, args, state, control, **_):
        if not state.is_world_process_zero:
            return
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", _STATE)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._loader.state_dict(), file)
        os.replace(path + ".new", path)


@contextlib.contextmanager
def _nothing_skipped(args):
    """transformers counts the steps of an epoch from those that were trained before, by which it logs and accumulates
    gradients, only where it also skips their batches: the Loader itself goes on behind them."""
    module = sys.modules[transformers.Trainer.__module__]
    skip = getattr(module, "skip_first_batches", None)
    args.ignore_data_skip = skip is None
    if skip is None:
        yield
        return

    def goes_on(dataloader, batches=0):
        return dataloader if isinstance(dataloader, Loader) else skip(dataloader, batches)

    module.skip_first_batches = goes_on
    try:
        yield
    finally:
        module.skip_first_batches = skip


class Trainer(transformers.Trainer):
    """transformers.Trainer that takes Loaders where it takes datasets. With other datasets it is transformers' own."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        if isinstance(self.train_dataset, Loader):
            self.add_callback(_SaveState(self.train_dataset))

    def get_train_dataloader(self):
        return self.train_dataset if isinstance(self.train_dataset, Loader) else super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset=None):
        named = isinstance(eval_dataset, str)
        dataset = self.eval_dataset[eval_dataset] if named else eval_dataset or self.eval_dataset
        return dataset if isinstance(dataset, Loader) else super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset):
        return test_dataset if isinstance(test_dataset, Loader) else super().get_test_dataloader(test_dataset)

    def train(self, resume_from_checkpoint=None, *args, **options):
        """resume_from_checkpoint: a checkpoint's folder, or True: the last whole one in output_dir. ValueError where
        there is none, or where the Loader's state is missing."""
        if not isinstance(self.train_dataset, Loader):
            return super().train(resume_from_checkpoint, *args, **options)
        if resume_from_checkpoint:
            resume_from_checkpoint = self._restore(resume_from_checkpoint)
        with _nothing_skipped(self.args):
            return super().train(resume_from_checkpoint, *args, **options)

    def _restore(self, checkpoint):
        if checkpoint is True:
            checkpoint = last_checkpoint(self.args.output_dir)
            if checkpoint is None:
                raise ValueError(f"{self.args.output_dir}: there is no checkpoint with a Loader's state ({_STATE}): "
                                 "train without resume_from_checkpoint")
        try:
            with open(os.path.join(checkpoint, _STATE), encoding="utf-8") as file:
                state = json.load(file)
        except FileNotFoundError:
            raise ValueError(f"{checkpoint}: has no Loader's state ({_STATE}): larder.huggingface.Trainer writes it") \
                from None
        self.train_dataset.load_state_dict(state)
        if "all" in (state.get("taken"), state.get("order")):  # transformers begins the next epoch
            self.train_dataset.set_epoch(state["epoch"] + 1)
        return checkpoint
