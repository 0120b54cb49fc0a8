"""What a Loader has to know of the trainer around it. Nothing is imported here: what is not there
already is not in use.
"""

import sys
import weakref

from .errors import LarderError


class _Position:
    """What Accelerate asks of the loader that is being iterated."""

    def __init__(self, at_end, repeats):
        self._at_end = at_end
        # Of what gather_for_metrics puts together at an epoch's end: 0, there is nothing to leave out; -1, the caller
        # knows what. Repeats that make all ranks' parts as long are not at the end of what is put together.
        self.remainder = -1 if repeats else 0

    @property
    def end_of_dataloader(self):
        return self._at_end()


def tell_accelerate(iterator, at_end, repeats):
    """Where Accelerate is in use: lets it know of this iterator of an epoch, so that gradients which are accumulated
    over several batches are applied with the epoch's last one. at_end() says whether the batch given last is that.
    Gives a function to call when the epoch is over, which otherwise is called when the iterator goes; None without
    Accelerate."""
    state = _gradient_state()
    if state is None:
        return None
    position = _Position(at_end, repeats)
    state._add_dataloader(position)
    over = weakref.finalize(iterator, _leave, state, position)
    over.atexit = False
    return over


def _gradient_state():
    """Accelerate's, once an Accelerator was made; else None."""
    known = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    if known is None or not getattr(known, "_shared_state", None):
        return None
    if not hasattr(known, "_add_dataloader"):
        raise LarderError("this version of accelerate cannot be told where an epoch of a larder.Loader ends, and would "
                          "lose the gradients it accumulates there: install a newer one, or do without it")
    return known()


def _leave(state, position):
    if any(each is position for each in getattr(state, "dataloader_references", ())):
        state._remove_dataloader(position)


def check():
    """Refuses to iterate where that would go wrong: under an Accelerate that cannot be told of it, and in a worker
    process of a torch DataLoader. Each worker would give the whole epoch; and as its copy of the Loader ends with it,
    one alone would give the same epoch again and again."""
    _gradient_state()
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    if worker is not None:
        raise LarderError(f"this Loader is iterated in worker {worker.id} of {worker.num_workers} of a torch "
                          "DataLoader, each of which would give every sample: iterate over the Loader itself, its "
                          "daemon has the threads, or give the DataLoader num_workers=0")
