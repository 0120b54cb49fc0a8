"""Which rank of how many this process is: as told, as torch.distributed knows, or as the launcher's environment says.

Ranks of one job find each other by the job's name. Where none is given it comes from what all processes of a launch
have in common, and from the order in which each makes its loaders, which is the same in all of them.
"""

import os
import sys
from collections import Counter

from .errors import InvalidArgument

_made = Counter()  # loaders that were named here, by launch


def find(rank, world_size):
    """(rank, world_size) of this process; what is None is looked for."""
    if rank is None and world_size is None:
        rank, world_size = _from_torch() or _from_environment() or (0, 1)
    elif rank is None or world_size is None:
        raise InvalidArgument("rank and world_size go together: give both, or neither")
    if world_size < 1 or not 0 <= rank < world_size:
        raise InvalidArgument(f"rank is {rank} and world_size {world_size}: ranks are 0 to world_size - 1")
    return int(rank), int(world_size)


def job_name(name, world_size):
    """The job's name: the given one, or with several ranks one that all of them make alike."""
    if name or world_size == 1:
        return name or ""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    launch = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if not launch and not (address and port):
        raise InvalidArgument(f"this is one of {world_size} ranks, and they need a name to find each other by: give "
                              "name=, the same in all of them, or set MASTER_ADDR and MASTER_PORT as torchrun does")
    launch = f"{launch or 'ranks'}-{address or ''}:{port or ''}"[:96]
    _made[launch] += 1
    return f"{launch}-{_made[launch]}"


def _from_torch():
    torch = sys.modules.get("torch")  # one that was never imported has no process group either
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment():
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None
