#!/usr/bin/env python3
"""Optuna: trials that run at once, in threads, share what is prepared.

    sweep_optuna.py FOLDER
"""

import optuna
import torch

from common import TRAIN, arguments, larder, network, report


def main():
    options = arguments(__doc__, trials=4)

    def trial(which):
        rate = which.suggest_float("lr", 1e-3, 1e-1, log=True)
        with larder.Loader(options.folder, TRAIN, options.batch_size, output="torch") as train:
            model = network(len(train.classes))
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            for _ in range(options.epochs):
                for images, labels in train:
                    loss = torch.nn.functional.cross_entropy(model(images.float() / 255 - 0.5), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            report(train)
            return loss.item()

    study = optuna.create_study()
    study.optimize(trial, n_trials=options.trials, n_jobs=2)
    print(f"best learning rate {study.best_params['lr']:.4f}", flush=True)


if __name__ == "__main__":
    main()
