"""Ranks at several nodes compare what they were given through a store, here a played one."""

import sys
import unittest
from types import SimpleNamespace
from unittest import mock

from support import main

from larder import _agree, _wire
from larder.errors import InvalidArgument

CONTENT = (1, 2, 3, 4)  # the version of a dataset


class Store:
    """What torch.distributed's stores do."""

    def __init__(self):
        self.rows, self.asked = {}, 0

    def compare_set(self, key, expected, wanted):
        self.asked += 1
        if self.rows.get(key, "") == expected:
            self.rows[key] = wanted
        return self.rows[key].encode()

    def add(self, key, more):
        self.asked += 1
        self.rows[key] = self.rows.get(key, 0) + more
        return self.rows[key]


class NoStore(Store):
    """One that cannot compare, as some of torch's are."""

    def compare_set(self, key, expected, wanted):
        raise NotImplementedError("compare_set")


def job(rank, name=b"train", version=CONTENT, local_world_size=1, **different):
    """One of two ranks."""
    fields = dict.fromkeys(_wire.Register._fields, 0)
    fields.update(rank=rank, world_size=2, local_world_size=local_world_size, name=name, **different)
    info = SimpleNamespace(dataset_samples=9, n_samples=9, fingerprint=(1, 2), view=(3, 4), version=version)
    return SimpleNamespace(asked=_wire.Register(**fields), info=info, epoch=0, loaded=None, history=None)


class Agree(unittest.TestCase):
    def setUp(self):
        self.store = Store()
        self.world_size = 2
        torch = mock.Mock()
        torch.distributed.get_world_size = lambda: self.world_size
        torch.distributed.distributed_c10d._get_default_store = lambda: self.store
        for patch in (mock.patch.dict(sys.modules, torch=torch), mock.patch.dict(_agree._turns, clear=True)):
            patch.start()
            self.addCleanup(patch.stop)

    def begun(self, *jobs, processes=True):
        """Agreements of ranks in processes of their own."""
        made = []
        for one in jobs:
            if processes:
                _agree._turns.clear()
            made.append(_agree.Agreement(one))
            made[-1].begin()
        return made

    def test_asked_no_more(self):
        """The store is asked at ever fewer batches, and no more once all agree. Both name it alike when it is another
        Loader's turn."""
        first, = self.begun(job(0))
        before = self.store.asked
        for _ in range(1000):
            first.look()
        self.assertLessEqual(self.store.asked - before, 20)
        second, = self.begun(job(1))
        first.begin()
        before = self.store.asked
        for _ in range(100):
            first.look()
            second.look()
        self.assertEqual(self.store.asked, before)
        self.begun(job(0, seed=1), processes=False)

    def test_told_again(self):
        """Who begins once more is told once more, and so are the others at each batch at which they ask."""
        first, = self.begun(job(0))
        _agree._turns.clear()
        second = _agree.Agreement(job(1, seed=7))
        for _ in range(2):
            with self.assertRaisesRegex(InvalidArgument, "seed is 0 in rank 0 at .*, and 7 in rank 1 at "):
                second.begin()
            with self.assertRaisesRegex(InvalidArgument, "seed is 0 in rank 0 at .*, and 7 in rank 1 at "):
                first.begin()
        with self.assertRaises(InvalidArgument):
            first.look()

    def test_contents(self):
        """Files of the same names and sizes with other contents, where both nodes know them."""
        self.begun(job(0), job(1, version=(5, 6, 0, 0)))
        with self.assertRaisesRegex(InvalidArgument, "same names and sizes, and other contents"):
            self.begun(job(0, b"other"), job(1, b"other", version=(1, 2, 3, 5)))

    def test_not_compared(self):
        """Of ranks at one node, and of processes that are not the job's ranks, no store is asked. One that cannot
        compare is told of in the log, once."""
        self.begun(job(0, local_world_size=0), job(1, local_world_size=0, seed=7))
        self.world_size = 8
        self.begun(job(0), job(1, seed=7))
        self.assertEqual(self.store.asked, 0)
        self.world_size, self.store = 2, NoStore()
        with self.assertLogs("larder", "WARNING") as log:
            agreement, = self.begun(job(0))
        self.assertIn("is not compared: compare_set", log.output[0])
        agreement.look()
        agreement.begin()


if __name__ == "__main__":
    main()
