"""Ranks at two nodes that were given different things are each told what, in which ranks and where. They compare it
through the store of a real torch.distributed."""

import json
import os
import re
import sys

import above  # noqa: F401
import system
from nursery import Born
from system import SLOW, larder

try:
    import torch.distributed as dist
except (ImportError, OSError):
    system.skip("this Python has no torch")
if not dist.is_available() or not dist.is_gloo_available() if hasattr(dist, "is_gloo_available") else \
        not dist.is_available():
    system.skip("this torch has no gloo")

COUNT = 200
RANKS = 3  # two at the first node, one at the other
ALIKE = {"batch_size": 8, "deal": "home", "mix": .1, "seed": 5}
# What rank 2 is given instead, and what all are told: of what one of the first two has, and of what rank 2 has.
CASES = (({}, None),
         ({"mix": .2}, ("mix", "0.1", "0.2")),
         ({"deal": "epoch", "mix": None}, ("deal", "home", "epoch")),
         ({"seed": 6}, ("seed", "5", "6")),
         ({"batch_size": 4}, ("batch_size", "8", "4")),
         ({"drop_last": True}, ("drop_last", "False", "True")),
         ({"repeat": 2}, ("repeat or sampler", "none", "repeat=2")),
         ({"subset": larder.Indices(range(100))}, ("subset", "200 samples .*", "100 samples .*")),
         ({"epochs": 3}, ("epochs", "None", "3")),
         ({"deal": "epoch", "mix": None, "shuffle": "strict"}, ("shuffle", "dependent", "strict")),
         ({"folder": 1}, ("dataset", "200 samples .*", "201 samples .*")),
         ({"begin": 2}, ("the epoch that begins", "0", "2")),
         ({"state": True}, ("what a state says was taken", "nothing", "2 batches a rank .*")),
         ({"prefetch": 3, "weight": 2}, None))


class Agree(system.Case):
    def test_each_rank_is_told(self):
        """Whatever of what deals and batches depend on one node's rank has otherwise, all ranks of both nodes are told
        both values. What is a node's own matter may differ."""
        folders, processes, port = [system.tree(COUNT), system.tree(COUNT + 1)], [], "0"
        for daemon in self.ranks_at([self.node(), self.node()], (2, 1)):
            processes.append(Born([os.path.abspath(__file__), "rank", port, *folders],
                                  dict(os.environ, LARDER_SOCKET=daemon.socket), ("larder.loader", "torch")))
            self.addCleanup(processes[-1].kill)
            port = port if len(processes) > 1 else processes[0].stdout.readline().strip()  # of the first one's store
        told, errors = zip(*(process.communicate(timeout=240 * SLOW) for process in processes))
        self.assertEqual([process.returncode for process in processes], [0] * RANKS, (told, errors))
        place = f"at {re.escape(os.uname().nodename)}"
        for (different, words), texts in zip(CASES, zip(*map(json.loads, told))):
            with self.subTest(**different):
                self.assertEqual(len(set(texts)), 1, texts)
                expected = words and f"{words[0]} is {words[1]} in rank [01] {place}, and {words[2]} in rank 2 {place}"
                self.assertRegex(texts[0], expected or "^$")


def rank_of(port, *folders):
    """One of the ranks. It prints what each case told it."""
    rank, texts = int(os.environ["RANK"]), []
    store = dist.TCPStore("127.0.0.1", int(port), RANKS, rank == 0, wait_for_workers=False)
    if rank == 0:
        print(store.port, flush=True)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    for number, (different, _) in enumerate(CASES):
        options = {**ALIKE, **(different if rank == 2 else {}), "name": f"case-{number}"}
        folder, begin = folders[options.pop("folder", 0)], options.pop("begin", 0)
        state = state_of(folder, options) if options.pop("state", False) else None
        with larder.Loader(folder, system.PIPELINE, output="numpy", timeout=60 * SLOW, **options) as loader:
            loader.set_epoch(begin)
            if state:
                loader.load_state_dict(state)
            if rank == 2:
                dist.barrier()
            iterator, text = tried(iter, loader)
            for _ in range(1 if rank == 2 else 2):
                dist.barrier()  # rank 2 has been told when the others take their next batch
            texts.append(text or tried(next, iterator)[1])
            dist.barrier()
    print(json.dumps(texts))


def state_of(folder, options):
    """A state in the middle of an epoch, of a job of one rank."""
    with larder.Loader(folder, system.PIPELINE, output="numpy", rank=0, world_size=1, **options) as loader:
        iterator = iter(loader)
        for _ in range(2):
            next(iterator)
        return loader.state_dict()


def tried(function, argument):
    try:
        return function(argument), ""
    except larder.InvalidArgument as error:
        return None, str(error)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_of(*sys.argv[2:])
    else:
        system.main()
