"""The Loader in the hands of Accelerate: gradients that are accumulated over several batches are applied with an
epoch's last one. Accelerate is played by what it looks at, in the form that it had first and in today's; with the real
one too, where it is installed."""

import sys
import types
import unittest
import weakref
from unittest import mock

from support import Case, larder, main

try:
    import torch
except ImportError:
    torch = None
try:
    import accelerate
except ImportError:
    accelerate = None


class Skips:
    """Accelerate's SkipBatchSampler."""

    def __init__(self, batch_sampler, batches):
        self.batch_sampler, self.batches = batch_sampler, batches

    def __iter__(self):
        for number, indices in enumerate(self.batch_sampler):
            if number >= self.batches:
                yield indices

    def __len__(self):
        return len(self.batch_sampler) - self.batches


class FirstState:
    """Accelerate's GradientState of 0.20: strong references."""

    _shared_state = {}

    def __init__(self):
        self.__dict__ = self._shared_state
        if not self._shared_state:
            self.active_dataloader, self.dataloader_references = None, [None]

    def _add_dataloader(self, dataloader):
        self.active_dataloader = dataloader
        self.dataloader_references.append(dataloader)

    def _remove_dataloader(self, dataloader):
        self.dataloader_references.remove(dataloader)
        self.active_dataloader = self.dataloader_references[-1]


class TodaysState:
    """That of 1.15: weak references."""

    _shared_state = {}

    def __init__(self):
        self.__dict__ = self._shared_state
        if not self._shared_state:
            self._references = [None]

    @property
    def dataloader_references(self):
        return [reference and reference() for reference in self._references]

    @property
    def active_dataloader(self):
        return self.dataloader_references[-1]

    def _add_dataloader(self, dataloader):
        self._references.append(weakref.ref(dataloader))

    def _remove_dataloader(self, dataloader):
        self._references = [reference for reference in self._references if not reference or reference() != dataloader]


class Steps:
    """What Accelerator.accumulate makes of its state: which batches end with a step of the optimizer."""

    def __init__(self, state, accumulate):
        self.state, self.accumulate, self.count = state, accumulate, 0

    def take(self):
        active = self.state.active_dataloader
        if active is not None and active.end_of_dataloader:
            self.count = 0
            return True
        self.count += 1
        return self.count % self.accumulate == 0


class Played:
    """Tests with an Accelerate that is played by `kind`."""

    def setUp(self):
        super().setUp()
        self.kind._shared_state = {}
        patch = mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=self.kind)})
        patch.start()
        self.addCleanup(patch.stop)
        self.state = self.kind()

    def test_the_last_batch_makes_a_step(self):
        """Of 4 batches, three to a step, the third and the last end with one, in every epoch; also where the epoch's
        end comes by itself after the last samples."""
        daemon = self.daemon()
        loader = self.loader(prefetch=1, with_ids=True)
        for empty_last in (False, True, False):
            daemon.empty_last = empty_last
            steps, seen, took = Steps(self.state, 3), [], []
            for _, _, indices in loader:
                took.append(steps.take())
                seen += indices.tolist()
                self.assertEqual(loader.last_indices.tolist(), indices.tolist())
                self.assertEqual(self.state.active_dataloader.remainder, 0)
            self.assertEqual(took, [False, False, True, True])
            self.assertEqual(sorted(seen), list(range(20)))
            self.assertIsNone(self.state.active_dataloader)

    def test_one_within_another(self):
        """A Loader that is read within an epoch of another, to its end or not, leaves the other as
        the one that counts."""
        self.daemon()
        outer, inner = self.loader(), self.loader()
        steps, took = Steps(self.state, 3), []
        for number, _ in enumerate(outer):
            for _ in inner:
                if number % 2:
                    break
            took.append(steps.take())
        self.assertEqual(took, [False, False, True, True])
        self.assertEqual(self.state.dataloader_references, [None])

    def test_a_daemon_that_dies(self):
        """When the daemon has gone for good nothing is said of the epoch's end; the next batch is the error."""
        daemon = self.daemon()
        iterator = iter(self.loader(prefetch=1, reconnect=0))
        next(iterator)
        daemon.connections[0].hang_up()
        daemon.connections[0].join(60)
        self.assertFalse(self.state.active_dataloader.end_of_dataloader)
        with self.assertRaises(larder.DaemonGone):
            next(iterator)


class First(Played, Case):
    kind = FirstState


class Todays(Played, Case):
    kind = TodaysState


class Accelerate(Case):
    def test_one_that_cannot_be_told(self):
        """An Accelerate that knows no way to be told is refused with what to do; one that is not in
        use hinders nobody."""
        self.daemon()
        loader = self.loader()
        old = type("GradientState", (), {"_shared_state": {"sync_gradients": True}})
        with mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=old)}):
            with self.assertRaisesRegex(larder.LarderError, "install a newer one"):
                iter(loader)
            self.assertEqual(loader.epoch, 0)
        unused = type("GradientState", (), {"_shared_state": {}})
        with mock.patch.dict(sys.modules, {"accelerate.state": types.SimpleNamespace(GradientState=unused)}):
            self.assertEqual(len(list(loader)), 4)

    @unittest.skipUnless(accelerate, "this Python has no accelerate")
    def test_with_the_real_one(self):
        """Of 4 batches, three to a step, the third and the last end with one; gather_for_metrics
        gives all of an epoch."""
        self.daemon(empty_last=True)
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
        model = torch.nn.Linear(72, 1)
        loader = self.loader(with_ids=True, output="torch")
        model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01), loader)
        for _ in range(2):
            took, seen = [], []
            for images, _, indices in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(images.flatten(1).float()).mean())
                    took.append(accelerator.sync_gradients)
                    optimizer.step()
                    optimizer.zero_grad()
                seen += accelerator.gather_for_metrics(indices).tolist()
            self.assertEqual(took, [False, False, True, True])
            self.assertEqual(sorted(seen), list(range(20)))

    def skipping(self, loader, batches):
        """What Accelerate's skip_first_batches makes of a loader; in its words where it is not installed."""
        if accelerate:
            accelerate.PartialState()
            return accelerate.skip_first_batches(loader, batches)
        return torch.utils.data.DataLoader(loader.dataset, batch_sampler=Skips(loader.batch_sampler, batches),
                                           collate_fn=loader.collate_fn)

    @unittest.skipUnless(torch, "this Python has no torch")
    def test_first_batches_are_skipped(self):
        """skip_first_batches leaves out the first batches of an epoch, of to_device too; those that a state says were
        taken are the first, and fewer than these cannot be left out. What is drawn anew is warned of."""
        daemon = self.daemon()
        daemon.order = "sequential"
        options = {"with_ids": True, "output": "torch", "shuffle": "none"}
        whole = [batch[2].tolist() for batch in self.loader(**options)]
        for skip in range(len(whole) + 1):
            loader = self.loader(**options)
            for each in (loader, larder.to_device(loader, "cpu")):
                kept = self.skipping(each, skip)
                self.assertEqual(len(kept), len(whole) - skip)
                self.assertEqual([batch[2].tolist() for batch in kept], whole[skip:])
                loader.set_epoch(0)
        loader = self.loader(**options)
        batches = iter(loader)
        next(batches), next(batches)
        state = loader.state_dict()
        for skip in (2, 3):
            kept = self.skipping(self.loader(state=state, **options), skip)
            self.assertEqual([batch[2].tolist() for batch in kept], whole[skip:])
        with self.assertRaisesRegex(larder.InvalidArgument, "iterate over the Loader itself"):
            list(self.skipping(self.loader(state=state, **options), 1))
        with self.assertWarnsRegex(UserWarning, "drawn anew"):
            list(self.skipping(self.loader(**dict(options, shuffle="dependent")), 1))


if __name__ == "__main__":
    main()
