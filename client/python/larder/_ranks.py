"""Which rank of how many this process is: as told, as torch.distributed knows, or as the launcher's environment says.

Ranks of one job find each other by the job's name. Where none is given it comes from what all processes of a launch
have in common, and from the order in which each makes its loaders, which is the same in all of them.

Trainers may bring the ranks up after the script has made its loaders: until its first epoch begins a loader is what
`now` says at each look, and changes its job when that has changed.
"""

import os
import sys

from . import _wire
from ._options import whole
from .errors import InvalidArgument

# Of torchrun and what is like it, of srun, of Open MPI's mpirun: rank and world size, and the same among the ranks of
# this node. Of Slurm only what srun says: sbatch tells a script that it runs once how many tasks there might be.
_LAUNCHERS = (("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
              ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
              ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE"))
_LATE = "-ranks"
_numbered = 0  # loaders of this process whose ranks were left to be found


class Given:
    """What a loader was told of its rank, its job's name, and its place among the loaders that were told nothing."""

    def __init__(self, rank, world_size, name, local_world_size=None):
        global _numbered
        if (rank is None) != (world_size is None):
            raise InvalidArgument("rank and world_size go together: give both, or neither")
        self.fixed = None if rank is None else _checked(rank, world_size)
        self.here = None if local_world_size is None else whole("local_world_size", local_world_size, 1, 2**32 - 1)
        self.found = None  # what was found last; what is found no more still holds
        self._variables = 0  # of the environment, when that was looked at last
        self.launch = ""
        self.name = name or ""
        if not isinstance(self.name, str):
            raise InvalidArgument(f"name is {name!r}, no text")
        if self.fixed is None or self.fixed[1] > 1:
            _numbered += 1
        self.number = _numbered
        self.late = self.now()[1] == 1  # when it was made, others of its ranks may have had a job of this name each

    def __setstate__(self, state):
        global _numbered
        self.__dict__.update(state)
        self._variables = 0
        _numbered = max(_numbered, self.number)  # loaders that this process makes come after those it was given

    def now(self):
        """(rank, world_size) of this process as of now."""
        if self.fixed:
            return self.fixed
        found = _from_torch() or _from_environment()
        if found:
            self.found = _checked(*found)
        return self.found or (0, 1)

    def still(self):
        """As now(), for what asks at each batch. A launcher that comes late adds variables: they are looked at again
        when their number has changed."""
        if self.fixed:
            return self.fixed
        if len(os.environ) != self._variables or ("torch" in sys.modules and _from_torch()):
            self._variables = len(os.environ)
            return self.now()
        return self.found or (0, 1)

    def local(self, rank, world_size):
        """(how many ranks are at this node, the first of them), of neighbours; (0, 0) where all are."""
        if self.here is not None:
            found = rank % self.here, self.here
        else:
            found = _local_from_environment(rank, world_size)
        if found is None or found[1] >= world_size:
            return 0, 0
        first = rank - found[0]
        if self.here is not None and world_size % self.here:
            raise InvalidArgument(f"local_world_size is {self.here} and world_size {world_size}: it is the same number "
                                  "at each node, so that world_size is a multiple of it")
        if not 0 <= found[0] < found[1] or first < 0 or first + found[1] > world_size:
            raise InvalidArgument(f"this is rank {rank} of {world_size}, and one of {found[1]} at its node, whose "
                                  "numbers are no neighbours: they must be (srun: --distribution=block, mpirun: "
                                  "--map-by slot)")
        return found[1], first

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
    world_size = whole("world_size", world_size, 1, 2**32 - 1)
    return whole(f"of world_size {world_size} rank", rank, 0, world_size - 1), world_size


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
    for rank, world_size, _, _ in _LAUNCHERS:
        try:
            return int(os.environ[rank]), int(os.environ[world_size])
        except (KeyError, ValueError):
            pass
    return None


def _local_from_environment(rank, world_size):
    """(rank, how many ranks) at this node, as the launcher says that gave this rank of that world; None: none did."""
    for its_rank, its_size, local_rank, local_size in _LAUNCHERS:
        try:
            if (int(os.environ[its_rank]), int(os.environ[its_size])) != (rank, world_size):
                continue
            if local_rank == "SLURM_LOCALID":
                size, first = _slurm_tasks(os.environ[local_size], int(os.environ["SLURM_NODEID"]))
                return rank - first, size  # not its SLURM_LOCALID where the tasks of a node are no neighbours
            place, size = int(os.environ[local_rank]), int(os.environ[local_size])
            # mpirun says nothing of other nodes. Where all have as many, neighbours begin at a multiple of that.
            mixed = local_rank.startswith("OMPI_") and size and world_size % size == 0 and rank % size != place
            return (-1 if mixed else place), size
        except (KeyError, ValueError, IndexError):
            pass
    _check_alone(rank, world_size)
    return None


def _check_alone(rank, world_size):
    """A launcher that says which rank of its node this is, and not of how many, may have ranks at other nodes."""
    try:
        local_rank = int(os.environ["LOCAL_RANK"])
    except (KeyError, ValueError):
        return
    if local_rank != rank and world_size > 1 and "LOCAL_WORLD_SIZE" not in os.environ:
        raise InvalidArgument(f"this is rank {rank} of {world_size}, and rank {local_rank} of its node: the ranks are "
                              "at several nodes, and the launcher does not say how many are at this one. Give "
                              "local_world_size=, the same in all of them")


def _slurm_tasks(text, node):
    """How many tasks are at a node and at those before it, of a text such as "4(x2),3": four at each of the first two
    nodes, three at the third."""
    tasks = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        tasks += [int(count)] * (int(times.rstrip(")")) if times else 1)
    return tasks[node], sum(tasks[:node])


def _launch():
    """What the processes of this launch have in common, and no other launch of this machine; "" where nothing is."""
    given = os.environ.get
    address, port, run = given("MASTER_ADDR", ""), given("MASTER_PORT", ""), given("TORCHELASTIC_RUN_ID", "")
    if run == "none":  # as torchrun says where it was given none
        run = ""
    if run or (address and port):
        return f"{run or 'ranks'}-{address}:{port}"[:96]
    if given("SLURM_JOB_ID") and given("SLURM_STEP_ID"):
        return f"slurm-{given('SLURM_JOB_ID')}.{given('SLURM_STEP_ID')}"[:96]
    return given("PMIX_NAMESPACE", "")[:96]
