"""When a Loader tells the daemon that its script stands still, and for how many batches: the fake daemon's log has what
each NEXT said."""

import select

import fake_daemon as fake
from support import Case, impatient, larder, main, until


class Waiting(Case):
    def begin(self, sent, held_max=4, **options):
        """A daemon that sends so many batches and no more, a loader of it, and its iterator."""
        daemon = self.daemon(n_samples=60, silent_after=sent, held_max=held_max)
        loader = self.loader(prefetch=2, **options)
        self.addCleanup(loader.close)
        return daemon, loader, iter(loader)

    def there(self, loader):
        """Waits until the next batch lies in the loader's socket."""
        self.assertTrue(select.select([loader._job.link.session], [], [], 60)[0])

    def said(self, daemon, count):
        """What NEXT said, when it has come so often: credits and awaited."""
        self.assertTrue(until(lambda: len([entry for entry in daemon.log if entry[0] == "next"]) >= count))
        return [entry[2:] for entry in daemon.log if entry[0] == "next"]

    def stands(self, loader, batches):
        with impatient(loader):
            with self.assertRaises(larder.Timeout):
                next(batches)

    def test_batches_that_are_there(self):
        """Whose next batch is there says nothing more than its requests, whether it copies or keeps what it got."""
        for options in ({}, {"zero_copy": True}):
            daemon, loader, batches = self.begin(9, **options)
            kept = []
            for _ in range(8):
                self.there(loader)
                kept.append(next(batches))
                if len(kept) > 2 and "zero_copy" in options:
                    kept.pop(0).release()
            for batch in kept if "zero_copy" in options else ():
                batch.release()
            self.assertTrue(until(lambda: len([entry for entry in daemon.log if entry[0] == "release"]) == 8))
            self.assertNotIn(0, [entry[2] for entry in daemon.log if entry[0] == "next"])
            loader.close()
            daemon.close()

    def test_a_request_says_it(self):
        """A script that copies asks when it wants the next batch: its request has how many it waits for, and no message
        is there besides."""
        daemon, loader, batches = self.begin(1)
        self.there(loader)
        next(batches)
        self.stands(loader, batches)
        self.stands(loader, batches)
        self.assertEqual(self.said(daemon, 2), [(2, fake.AHEAD), (1, 2)])

    def test_nothing_to_ask_for(self):
        """A script that keeps as many batches as leave no room to ask for more says that it stands still, once for a
        batch."""
        daemon, loader, batches = self.begin(2, held_max=3, zero_copy=True)
        kept = []
        for _ in range(2):
            self.there(loader)
            kept.append(next(batches))  # the second with one more asked for
        self.stands(loader, batches)
        self.stands(loader, batches)
        self.assertEqual(self.said(daemon, 3), [(2, fake.AHEAD), (1, 2), (0, 1)])
        for batch in kept:
            batch.release()


if __name__ == "__main__":
    main()
