"""Which pipeline each epoch has: one for all of them, or another from some epochs on (progressive resizing).

A job has one pipeline. So where the pipeline changes, the Loader's job ends with an epoch, and another one begins with
the next. Its name has that epoch's number behind it: of several ranks some may still be in the epoch before.
"""

from . import _options, _wire
from .errors import FormatError, InvalidArgument


class Schedule:
    """`texts`: the pipelines as JSON, by the epoch that each of them is the first of. None is of epoch 0 at least."""

    def __init__(self, texts):
        self.texts = dict(sorted(texts.items()))

    def start(self, epoch):
        """The epoch in which the pipeline of this one began."""
        return max(first for first in self.texts if first <= epoch)

    def at(self, epoch):
        return self.texts[self.start(epoch)]

    def suffix(self, epoch):
        """What a job's name has behind it in this epoch."""
        start = self.start(epoch)
        return b"~%d" % start if start else b""

    def begins(self, epoch):
        """Whether this epoch has another pipeline than the one before."""
        return epoch in self.texts and epoch > 0 and self.texts[epoch] != self.at(epoch - 1)

    def change(self, epoch, text):
        """From this epoch on, and whatever was to come later, it is this pipeline."""
        self.texts = {first: known for first, known in self.texts.items() if first < epoch}
        if not self.texts or self.at(epoch) != text:
            self.texts[epoch] = text

    @property
    def changes(self):
        """Whether it is not one pipeline for all epochs."""
        return len(self.texts) > 1

    def to_state(self):
        return [[epoch, text.decode()] for epoch, text in self.texts.items()]


def from_arguments(pipeline, views, pipelines, samples):
    """What Loader(pipeline=, views=, pipelines=) says; the last is a dictionary from epochs to pipelines, each of which
    has these views, or these parts (_samples.Samples)."""
    if pipelines is None:
        return Schedule({0: samples.program(pipeline, views).encode()})
    if pipeline is not None:
        raise InvalidArgument("pipeline is given and pipelines too: the latter has them all, from epoch 0 on")
    try:
        pairs = list(pipelines.items())
    except AttributeError:
        raise InvalidArgument(f"pipelines is a {type(pipelines).__name__}, and no dictionary from epochs to pipelines: "
                              "{0: small, 10: large}") from None
    texts = {_options.whole("an epoch of pipelines", epoch, 0, _wire.EPOCHS_MAX - 1):
             samples.program(one, views).encode() for epoch, one in pairs}
    if 0 not in texts:
        raise InvalidArgument("pipelines has none for epoch 0")
    schedule = Schedule({})
    for epoch in sorted(texts):
        schedule.change(epoch, texts[epoch])
    return schedule


def from_state(made):
    """The Schedule that to_state wrote. FormatError for what is none."""
    if type(made) is not list or len(made) < 2 or not all(
            type(row) is list and len(row) == 2 and type(row[0]) is int and type(row[1]) is str for row in made):
        raise FormatError("the state is damaged: pipelines are no list of epochs and pipelines")
    epochs = [row[0] for row in made]
    if epochs[0] != 0 or sorted(set(epochs)) != epochs or epochs[-1] >= _wire.EPOCHS_MAX:
        raise FormatError("the state is damaged: the epochs of its pipelines are not in order")
    return Schedule({epoch: text.encode() for epoch, text in made})
