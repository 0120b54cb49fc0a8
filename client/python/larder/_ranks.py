"""Which rank of how many this process is: as told, as torch.distributed knows, or as the launcher's environment says.

Ranks of one job find each other by the job's name. Where none is given it comes from what all processes of a launch
have in common, and from the order in which each makes its loaders, which is the same in all of them.

Trainers may bring the ranks up after the script has made its loaders: until its first epoch begins a loader is what
`now` says at each look, and changes its job when that has changed.
"""

import os
import sys

from . import _wire
from .errors import InvalidArgument

# Of torchrun and what is like it, of srun, of Open MPI's mpirun. Of Slurm only what srun says: sbatch tells a script
# that it runs once how many tasks there might be.
_LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
              ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
_LATE = "-ranks"
_numbered = 0  # loaders of this process whose ranks were left to be found


class Given:
    """What a loader was told of its rank, its job's name, and its place among the loaders that were told nothing."""

    def __init__(self, rank, world_size, name):
        global _numbered
        if (rank is None) != (world_size is None):
            raise InvalidArgument("rank and world_size go together: give both, or neither")
        self.fixed = None if rank is None else _checked(rank, world_size)
        self.found = None  # what was found last; what is found no more still holds
        self.launch = ""
        self.name = name or ""
        if self.fixed is None or self.fixed[1] > 1:
            _numbered += 1
        self.number = _numbered
        self.late = self.now()[1] == 1  # when it was made, others of its ranks may have had a job of this name each

    def __setstate__(self, state):
        global _numbered
        self.__dict__.update(state)
        _numbered = max(_numbered, self.number)  # loaders that this process makes come after those it was given

    def now(self):
        """(rank, world_size) of this process as of now."""
        if self.fixed:
            return self.fixed
        found = _from_torch() or _from_environment()
        if found:
            self.found = _checked(*found)
        return self.found or (0, 1)

    def job_name(self, world_size, beginning):
        """The job's name: the given one, or with several ranks one that all of them make alike. Where a launcher says
        that there will be ranks and not yet which, one process leaves the name to others of them until it begins."""
        if world_size == 1:
            return "" if self.fixed is None and not beginning and _are_to_come() else self.name
        if self.name:
            return _shortened(self.name, _wire.NAME_MAX - len(_LATE)) + _LATE if self.late else self.name
        self.launch = self.launch or _launch()
        if not self.launch:
            raise InvalidArgument(f"this is one of {world_size} ranks, and they need a name to find each other by: "
                                  "give name=, the same in all of them, or set MASTER_ADDR and MASTER_PORT as torchrun "
                                  "does")
        return f"{self.launch}-{self.number}"


def _checked(rank, world_size):
    if world_size < 1 or not 0 <= rank < world_size:
        raise InvalidArgument(f"rank is {rank} and world_size {world_size}: ranks are 0 to world_size - 1")
    return int(rank), int(world_size)


def _shortened(name, most_bytes):
    return name.encode("utf-8", "surrogateescape")[:most_bytes].decode("utf-8", "ignore")


def _are_to_come():
    """Whether a launcher has said how many processes there are, and not which this is: Lightning to those it starts."""
    try:
        return int(os.environ["WORLD_SIZE"]) > 1
    except (KeyError, ValueError):
        return False


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
