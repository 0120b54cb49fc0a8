"""What surrounds a loss of the daemon: what is kept of it and what is forgotten, what is said and when, and that nothing
is taken that the loop is not given."""

import weakref

from support import larder, main
from test_reconnect import Reconnecting


class Kept(Reconnecting):
    """What a loss leaves in the Loader."""

    def test_no_frames(self):
        """A loss that is over keeps nothing alive of what the script had in its functions when it came."""
        class Large:
            pass
        self.serve(n_samples=60)
        iterator = iter(self.loader())

        def step():
            large = Large()
            self.replace()
            next(iterator)
            return weakref.ref(large)
        for _ in range(2):
            self.assertIsNone(step()())

    def test_no_frames_of_a_later_error(self):
        """An error that ended the job elsewhere is raised at the next batch, and holds no frame until then."""
        self.serve(n_samples=60)
        loader = self.loader(rank=0, world_size=1)
        iterator = iter(loader)
        job = loader._job
        next(iterator)
        job.returning = True
        self.replace(n_samples=60, dataset=(5, 5))
        job.link.lose(larder._socket.gone(self.path))
        larder._watch._try(job)
        each = job.error
        while each is not None:
            self.assertIsNone(each.__traceback__)
            each = each.__cause__ or each.__context__
        with self.assertRaises(larder.SourceChanged):
            next(iterator)


if __name__ == "__main__":
    main()
