"""Ranks that come up after the Loader was made, as under Lightning: two real processes of torch.distributed. And
loaders in the hands of torch's DataLoader."""

import json
import os
import textwrap

import above  # noqa: F401
import system
from nursery import Born
from system import SLOW, larder

try:
    import torch.distributed
    import torch.utils.data
except (ImportError, OSError):
    system.skip("this Python has no torch")
if not torch.distributed.is_available() or not getattr(torch.distributed, "is_gloo_available", lambda: True)():
    system.skip("this torch has no gloo")

COUNT = 61
# A rank: makes its loaders, then brings torch.distributed up, then iterates. Prints JSON.
RANK = textwrap.dedent("""\
    import json, os, sys
    import torch.distributed as dist
    import larder

    folder, name, begin_first = sys.argv[1], sys.argv[2] or None, sys.argv[3] == "1"
    # A trainer's own environment: how many there are, and not yet which this is.
    number = int(os.environ.pop("NUMBER"))
    loaders = [larder.Loader(folder, ["resize"], 8, output="numpy", with_ids=True, name=name and name + str(i),
                             timeout=float(sys.argv[4])) for i in range(2)]
    out = {"before": [loaders[0].world_size, len(loaders[0])]}
    if begin_first:
        iterator = iter(loaders[0])
        next(iterator)
    dist.init_process_group("gloo", rank=number, world_size=2)
    if number == 0:
        out["dataset_size"] = loaders[1].dataset_size  # one rank alone may look at a loader
    try:
        if begin_first:
            next(iterator)
        out.update(length=len(loaders[0]), job=loaders[0].name, rank=loaders[0].rank, world_size=loaders[0].world_size)
        for which, loader in zip(("train", "val"), loaders):
            out[which] = [i for batch in loader for i in batch[2].tolist()]
    except larder.LarderError as error:
        out["error"] = type(error).__name__ + ": " + str(error)
    dist.barrier()
    print(json.dumps(out))
    """).replace('["resize"]', json.dumps(system.PIPELINE))


class LateRanks(system.Case):
    def ranks(self, name="", begin_first=False, environment=()):
        """Runs two ranks; gives what each printed."""
        daemon, folder = self.daemon(), system.tree(COUNT)
        common = dict(os.environ, LARDER_SOCKET=daemon.socket, PYTHONPATH=system.PACKAGE, MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(system.free_port()), OMP_NUM_THREADS="1")
        for key in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
            common.pop(key, None)
        path = os.path.join(self.folder, "rank.py")
        with open(path, "w") as file:
            file.write(RANK)
        words = [path, folder, name, str(int(begin_first)), str(60 * SLOW)]
        ranks = [Born(words, {**common, "NUMBER": str(number), **(environment[number] if environment else {})},
                      ("larder.loader", "torch")) for number in range(2)]
        outputs = []
        for rank in ranks:
            self.addCleanup(rank.kill)
        for rank in ranks:
            out, errors = rank.communicate(timeout=120 * SLOW)
            self.assertEqual(rank.returncode, 0, errors + daemon.log())
            outputs.append(json.loads(out))
        return outputs

    def check(self, outputs, length):
        for output in outputs:
            self.assertNotIn("error", output)
            self.assertEqual((output["length"], output["world_size"]), (length, 2))
        self.assertEqual([output["rank"] for output in outputs], [0, 1])
        self.assertEqual(outputs[0]["job"], outputs[1]["job"])
        for which in ("train", "val"):
            parts = [output[which] for output in outputs]
            self.assertEqual([len(part) for part in parts], [(COUNT + 1) // 2] * 2)
            self.assertEqual(set(sum(parts, [])), set(range(COUNT)))

    def test_made_before_the_ranks(self):
        """Loaders that are made before torch.distributed is initialised, and iterated after it, give each rank its
        part: together each sample once, and len() is that of the part."""
        outputs = self.ranks()
        self.assertEqual([output["before"] for output in outputs], [[1, 8]] * 2)
        self.check(outputs, 4)

    def test_with_a_name(self):
        """So do loaders with a name, of which the processes that Lightning starts leave the first
        the name's own job."""
        self.check(self.ranks(name="set", environment=[{}, {"WORLD_SIZE": "2", "LOCAL_RANK": "1"}]), 4)

    def test_begun_before_the_ranks(self):
        """A Loader whose epoch began before the ranks came up refuses to go on, and says what to do."""
        for output in self.ranks(begin_first=True):
            self.assertIn("Begin iterating after torch.distributed is initialised", output["error"])


class Wrapped(torch.utils.data.IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


class InDataLoader(system.Case):
    def test_workers(self):
        """In a DataLoader's workers, one or several, a Loader refuses to iterate and says what to do: each would give
        every sample. Without workers a wrapped Loader gives its batches."""
        loader = self.loader(self.daemon(), system.tree(COUNT), output="torch")
        for workers in (1, 2):
            with self.assertRaisesRegex(larder.LarderError, "iterate over the Loader itself"):
                list(torch.utils.data.DataLoader(Wrapped(loader), batch_size=None, num_workers=workers))
        self.whole(torch.utils.data.DataLoader(Wrapped(loader), batch_size=None), COUNT)

    def test_as_a_dataset(self):
        """A Loader given to a DataLoader as its dataset says what to do; it is no sequence otherwise."""
        loader = self.loader(self.daemon(), system.tree(COUNT), output="torch")
        with self.assertRaisesRegex(TypeError, "do not wrap it in a torch DataLoader"):
            next(iter(torch.utils.data.DataLoader(loader)))
        self.whole(iter(loader), COUNT)


if __name__ == "__main__":
    system.main()
