"""larder.huggingface: a Trainer that takes Loaders, saves their states with its checkpoints, and goes on from there.
transformers is played by what the module asks of it; with the real one
tests/system/python/clients/test_examples.py --long runs."""

import os
import sys
import types
from unittest import mock

from support import Case, larder, main
from test_state import indices_of


class Callback:
    """transformers.TrainerCallback."""


def skip_first_batches(dataloader, num_batches=0):
    """Accelerate's, as the module of transformers.Trainer has it."""
    raise AssertionError(f"{num_batches} batches of {dataloader} were to be skipped")


class Trainer:
    """transformers.Trainer: saves a checkpoint after each second batch, and stops after so many."""

    def __init__(self, folder, train_dataset=None, eval_dataset=None):
        self.args = types.SimpleNamespace(output_dir=folder, ignore_data_skip=False)
        self.train_dataset, self.eval_dataset, self.callbacks = train_dataset, eval_dataset, []
        self.is_zero, self.seen, self.resumed = True, [], None

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def get_train_dataloader(self):
        return "torch's"

    def get_eval_dataloader(self, eval_dataset=None):
        return f"torch's, of {eval_dataset}"

    def get_test_dataloader(self, test_dataset):
        return f"torch's, of {test_dataset}"

    def train(self, resume_from_checkpoint=None, batches=1000):
        self.resumed = resume_from_checkpoint
        steps = int(resume_from_checkpoint.rpartition("-")[2]) if resume_from_checkpoint else 0
        self.in_epoch = 0 if self.args.ignore_data_skip else steps % len(self.train_dataset)
        batches_to_come = self.get_train_dataloader()
        if self.in_epoch:
            batches_to_come = skip_first_batches(batches_to_come, self.in_epoch)
        for number, batch in enumerate(batches_to_come, steps + 1):
            self.seen.append(batch)
            if number % 2 == 0:
                folder = os.path.join(self.args.output_dir, f"checkpoint-{number}")
                os.makedirs(folder, exist_ok=True)
                state = types.SimpleNamespace(global_step=number, is_world_process_zero=self.is_zero)
                for callback in self.callbacks:
                    callback.on_save(self.args, state, None, model=None)
            if number == batches:
                return


class HuggingFace(Case):
    def setUp(self):
        super().setUp()
        played = types.ModuleType("transformers")
        played.Trainer, played.TrainerCallback = Trainer, Callback
        patch = mock.patch.dict(sys.modules, {"transformers": played})
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(sys.modules.pop, "larder.huggingface", None)
        from larder import huggingface
        self.module = huggingface
        self.daemon(n_samples=60)

    def given(self, **options):
        loader = self.loader(with_ids=True, **options)
        self.addCleanup(loader.close)
        return loader

    def trainer(self, **options):
        return self.module.Trainer(self.folder, **options)

    def test_goes_on(self):
        """What was trained on up to the last whole checkpoint, and what comes after it, is each sample once."""
        first = self.trainer(train_dataset=self.given())
        first.train(batches=5)
        first.train_dataset.close()
        os.makedirs(os.path.join(self.folder, "checkpoint-6"))  # the script died before the state came there
        last = os.path.join(self.folder, "checkpoint-4")
        self.assertEqual(self.module.last_checkpoint(self.folder), last)
        for asked in (True, last):
            again = self.trainer(train_dataset=self.given())
            again.train(resume_from_checkpoint=asked)
            again.train_dataset.close()
            self.assertEqual((again.resumed, again.args.ignore_data_skip, again.in_epoch), (last, False, 4))
            self.assertEqual(sorted(indices_of(first.seen[:4] + again.seen)), list(range(60)))

    def test_the_end_of_an_epoch(self):
        """A checkpoint of an epoch's last batch goes on with the next epoch, whole, and not with an empty one."""
        first = self.trainer(train_dataset=self.given())
        batches = len(first.train_dataset)
        first.train(batches=batches)
        first.train_dataset.close()
        again = self.trainer(train_dataset=self.given())
        again.train(resume_from_checkpoint=os.path.join(self.folder, f"checkpoint-{batches}"))
        self.assertEqual((again.in_epoch, again.train_dataset.epoch), (0, 2))
        self.assertEqual(sorted(indices_of(again.seen)), list(range(60)))

    def test_another_transformers(self):
        """Where batches are skipped in another way, no step of the epoch is counted as trained before."""
        first = self.trainer(train_dataset=self.given())
        first.train(batches=2)
        first.train_dataset.close()
        again = self.trainer(train_dataset=self.given())
        with mock.patch.dict(sys.modules, {Trainer.__module__: types.ModuleType("other")}):
            again.train(resume_from_checkpoint=True)
        self.assertTrue(again.args.ignore_data_skip)
        self.assertEqual(sorted(indices_of(first.seen + again.seen)), list(range(60)))

    def test_the_tenth_comes_after_the_second(self):
        """Checkpoints go by number, not by name."""
        trainer = self.trainer(train_dataset=self.given())
        trainer.train(batches=10)
        self.assertEqual(os.path.basename(self.module.last_checkpoint(self.folder)), "checkpoint-10")

    def test_nothing_to_go_on_from(self):
        """What is missing is said, and nothing is trained from the beginning instead."""
        trainer = self.trainer(train_dataset=self.given())
        with self.assertRaisesRegex(ValueError, "there is no checkpoint with a Loader's state"):
            trainer.train(resume_from_checkpoint=True)
        with self.assertRaisesRegex(ValueError, "has no Loader's state"):
            trainer.train(resume_from_checkpoint=self.folder)
        self.assertEqual(trainer.seen, [])

    def test_another_rank(self):
        """Rank 0 alone saves."""
        trainer = self.trainer(train_dataset=self.given())
        trainer.is_zero = False
        trainer.train(batches=2)
        self.assertIsNone(self.module.last_checkpoint(self.folder))

    def test_who_evaluates(self):
        """Loaders are taken as they are, also by name; all else is transformers' own."""
        loader, other = self.given(), self.given()
        trainer = self.trainer(train_dataset=loader, eval_dataset={"a": other, "b": "images"})
        self.assertIs(trainer.get_train_dataloader(), loader)
        self.assertIs(trainer.get_eval_dataloader("a"), other)
        self.assertEqual(trainer.get_eval_dataloader("b"), "torch's, of b")
        self.assertIs(trainer.get_eval_dataloader(loader), loader)
        self.assertIs(trainer.get_test_dataloader(loader), loader)
        self.assertEqual(trainer.get_test_dataloader("images"), "torch's, of images")
        self.assertIs(self.trainer(eval_dataset=other).get_eval_dataloader(), other)
        plain = self.trainer(train_dataset="images")
        self.assertEqual((plain.get_train_dataloader(), plain.callbacks), ("torch's", []))


if __name__ == "__main__":
    main()
