"""What a Loader has to know of the trainer around it. Nothing is imported here: what is not there already is not in use.
"""

import sys

from .errors import LarderError


def refuse_worker():
    """Refuses to iterate in a worker process of a torch DataLoader. Each worker would give the whole epoch; and as its
    copy of the Loader ends with it, one alone would give the same epoch again and again."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    if worker is not None:
        raise LarderError(f"this Loader is iterated in worker {worker.id} of {worker.num_workers} of a torch DataLoader, "
                          "each of which would give every sample: iterate over the Loader itself, its daemon has the "
                          "threads, or give the DataLoader num_workers=0")
