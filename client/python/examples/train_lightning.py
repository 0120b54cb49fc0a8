#!/usr/bin/env python3
"""Lightning: Loaders stand where it takes DataLoaders. Its checkpoints have the Loaders' states, and so it goes on in
the middle of an epoch.

    train_lightning.py FOLDER --checkpoint run
"""

import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from common import EVALUATE, TRAIN, arguments, larder, network, parts, report


class Model(lightning.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.network = network(classes)

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.network(batch[0].float() / 255 - 0.5), batch[1])

    def validation_step(self, batch, _):
        hits = self.network(batch[0].float() / 255 - 0.5).argmax(1) == batch[1]
        self.log("validation", hits.float().mean(), batch_size=len(hits))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    options = arguments(__doc__, checkpoint=None, every=4)
    subset, rest = parts(options.folder)
    train = larder.Loader(options.folder, TRAIN, options.batch_size, subset=subset, output="torch")
    val = larder.Loader(options.folder, EVALUATE, options.batch_size, subset=rest, output="torch", shuffle="none")
    last, callbacks = None, []
    if options.checkpoint:
        callbacks = [ModelCheckpoint(options.checkpoint, "last", every_n_train_steps=options.every,
                                     enable_version_counter=False)]
        last = os.path.join(options.checkpoint, "last.ckpt")
        last = last if os.path.exists(last) else None
    trainer = lightning.Trainer(max_epochs=options.epochs, logger=False, callbacks=callbacks, enable_progress_bar=False,
                                enable_checkpointing=bool(callbacks), enable_model_summary=False)
    model = Model(len(train.classes))
    trainer.fit(model, train, val, ckpt_path=last)
    print(f"{trainer.global_step} steps, validation {trainer.callback_metrics['validation']:.3f}", flush=True)
    report(train)


if __name__ == "__main__":
    main()
