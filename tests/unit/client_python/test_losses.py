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

    def test_a_job_that_is_given_up(self):
        """A loss ends with its job: a state that is loaded meanwhile, and an error that ends the job in the next daemon,
        begin anew, and no time of it counts at the next loss."""
        for loads in (True, False):
            with self.subTest(loads=loads):
                self.serve(n_samples=60)
                loader = self.loader(timeout=0.1)
                link, iterator = loader._job.link, iter(loader)
                state = loader.state_dict()
                next(iterator)
                self.die()
                with self.assertRaises(larder.Timeout):
                    next(iterator)
                link._lost_s -= 50  # of the 60 s that it may take
                if loads:
                    loader.load_state_dict(state)
                    self.serve()
                else:
                    self.serve(n_samples=60, dataset=(5, 5))
                    with self.assertRaises(larder.SourceChanged):
                        next(iterator)
                iterator = iter(loader)
                self.assertEqual(loader.stats()["reconnects"], 0)
                self.replace()
                next(iterator)
                self.assertEqual(loader.stats()["reconnects"], 1)
                self.assertLess(link._spent_s, 50)
                loader.close()


if __name__ == "__main__":
    main()
