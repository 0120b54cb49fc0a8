"""An epoch in parts, for loops whose epochs are shorter than the Loader's."""

import itertools

from . import _options, _state


class Parts:
    """A Loader, an iteration of which gives one of `parts` equal parts of an epoch; len() says how many batches.

    DeiT's and timm's epochs with repeated augmentation are a third of what repeat=3 gives:
    larder.Parts(larder.Loader(…, repeat=3), 3) has their length, and the Loader's epochs still have every sample three
    times. A part that is left early goes on in the next iteration. Everything else is the Loader's; states have where
    the loop stands.
    """

    def __init__(self, loader, parts):
        self._loader = loader
        self._parts = _options.whole("parts", parts, 1, 2**16)
        self._batches = None  # the Loader's iterator, while an epoch is under way
        self._taken = 0       # batches of that epoch
        self._began = 0       # how many those were when the part began: len() is the part's, while it goes on

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def _part(self):
        """Batches of the part that goes on or comes next, and whether it is the epoch's last."""
        whole = len(self._loader)
        end = next((part for part in range(1, self._parts) if whole * part // self._parts > self._began), self._parts)
        return max(0, whole * end // self._parts - self._began), end == self._parts

    def __len__(self):
        return self._part()[0]

    def __iter__(self):
        self._began = self._taken
        count, last = self._part()
        if self._batches is None:
            self._batches = iter(self._loader)
        try:
            for batch in itertools.islice(self._batches, None if last else count):
                self._taken += 1
                yield batch
            if last:
                self._batches, self._taken = None, 0
        finally:
            self._began = self._taken

    @property
    def sampler(self):
        """For trainers that call its set_epoch: parts follow each other by themselves."""
        return self

    def set_epoch(self, epoch):
        """Before the first part: begins the Loader's epoch that has this one. Later it changes nothing."""
        if self._batches is None and self._taken == 0 and epoch // self._parts > self._loader.epoch:
            self._loader.set_epoch(epoch // self._parts)

    def load_state_dict(self, state):
        """As the Loader's: the next iteration gives the rest of the part in which the state was made."""
        self._loader.load_state_dict(state)
        base = _state.from_dict(state).base
        self._batches, self._taken = None, 0 if base.over else base.batches
        self._began = self._taken
