"""Which rank of how many this process is: as told, as torch.distributed knows, or as the launcher's environment says.

Ranks of one job find each other by the job's name. Where none is given it comes from what all processes of a launch
have in common, and from the order in which each makes its loaders, which is the same in all of them.
"""

import os
import sys
from collections import Counter

from .errors import InvalidArgument

# Of torchrun and what is like it, of srun, of Open MPI's mpirun. Of Slurm only what srun says: sbatch tells a script that
# it runs once how many tasks there might be.
_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
              ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
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
    launch = _launch()
    if not launch:
        raise InvalidArgument(f"this is one of {world_size} ranks, and they need a name to find each other by: give "
                              "name=, the same in all of them, or set MASTER_ADDR and MASTER_PORT as torchrun does")
    _made[launch] += 1
    return f"{launch}-{_made[launch]}"


def _from_torch():
    torch = sys.modules.get("torch")  # one that was never imported has no process group either
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment():
    for rank, world_size in _LAUNCHERS:
        try:
            return int(os.environ[rank]), int(os.environ[world_size])
        except (KeyError, ValueError):
            pass
    return None


def _launch():
    """What the processes of this launch have in common, and no other launch of this machine; "" where nothing is."""
    given = os.environ.get
    address, port, run = given("MASTER_ADDR", ""), given("MASTER_PORT", ""), given("TORCHELASTIC_RUN_ID", "")
    if run or (address and port):
        return f"{run or 'ranks'}-{address}:{port}"[:96]
    if given("SLURM_JOB_ID") and given("SLURM_STEP_ID"):
        return f"slurm-{given('SLURM_JOB_ID')}.{given('SLURM_STEP_ID')}"[:96]
    return given("PMIX_NAMESPACE", "")[:96]
