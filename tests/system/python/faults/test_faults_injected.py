"""Calls that fail inside the daemon, and files that change under it: each fault ends in an error that somebody sees, or
in a bad sample; never in a hang, a crash or wrong bytes.

    test_faults_injected.py [--long]    all of them, and more of each
"""

import contextlib
import errno
import os
import subprocess
import threading
import warnings

import above  # noqa: F401
from faulty import CONFIG, COUNT, FaultsCase
from system import BIN, LONG, SLOW, files_of, larder, main, only_long

CHECKPOINTS = CONFIG.replace("{checkpoint: none}", "{checkpoint: FOLDER}")


class Reads(FaultsCase):
    def test_a_file_that_cannot_be_read(self):
        """Reading one file says EIO, whatever is tried: it is a bad sample, named in the log, and all others come."""
        name = files_of(self.tree)[7]
        self.faults.begin("READ", errno.EIO, path=name)
        daemon = self.serve()
        loader = self.job(daemon)
        self.exact(loader, bad=[7])
        self.assertTrue(daemon.logged(f'msg="bad sample" file="{name}"'), daemon.log())
        self.faults.end()
        self.exact(loader)

    @only_long
    def test_storage_that_fails_for_a_while(self):
        """Fifty reads in a row say EIO: nothing is bad, nothing is missing. When each third says so for good, a file
        whose reads failed three times is bad, as docs/reference/files.md has it, and counted."""
        daemon = self.serve()
        for seed, shuffle in enumerate(("dependent", "strict", "none"), 1):
            tree = self.make(f"tree-{seed}", seed)
            self.faults.begin("READ", errno.EIO, times=50, path=tree)
            self.exact(self.job(daemon, tree, shuffle=shuffle), seed=seed)
            self.assertEqual(self.faults.struck("READ"), 50)
        self.assertNotIn("bad sample", daemon.log())
        self.faults.begin("READ", errno.EIO, every=3, path=self.folder)
        loader, seen = self.job(daemon, shuffle="strict"), set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", larder.BadSamplesWarning)
            for batch in loader:
                self.check(batch, seen)
        self.assertEqual(len(seen) + loader.lost, COUNT)
        self.assertEqual(daemon.status()["samples"]["bad"].get("unreadable", 0), loader.lost)

    @only_long
    def test_storage_that_is_gone(self):
        """All reads say EIO: the job fails when limits.source_wait is over, and the daemon serves on."""
        daemon = self.serve(CONFIG + "limits: {source_wait: 1}\n")
        self.faults.begin("READ", errno.EIO, path=self.tree)
        with self.assertRaisesRegex(larder.IOFailure, "limits.source_wait"):
            list(self.job(daemon))
        self.exact(self.job(daemon, self.make("other", 2)), seed=2)
        self.faults.end()
        self.exact(self.job(daemon))

    def test_short_and_interrupted(self):
        """Reads that give a part, or that a signal has interrupted, change nothing: not for trees and stores, not for
        checkpoints and the notes of poisonous files."""
        store = os.path.join(self.folder, "store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store, "--quiet"], check=True)
        config = CHECKPOINTS.replace("FOLDER", os.path.join(self.folder, "checkpoints"))
        for number in range(2 if LONG else 1):
            self.faults.begin("READ", errno.EINTR, every=3)
            self.faults.begin("READ_SHORT", every=2)
            daemon = self.serve(config)
            for dataset in (self.tree, store):
                self.exact(self.job(daemon, dataset))
            struck = self.faults.struck("READ"), self.faults.struck("READ_SHORT")
            self.assertGreater(min(struck), COUNT / 2)
            self.faults.begin("WRITE", errno.EINTR, every=3, path=".catalog")
            self.faults.begin("WRITE_SHORT", path=".catalog")
            self.exact(self.job(daemon, self.make(f"other-{number}", 2)), seed=2)
            self.assertGreater(self.faults.struck("WRITE_SHORT"), 1)
            daemon.kill()
            self.assertNotIn("bad sample", daemon.log())
            self.assertNotIn("is rebuilt", daemon.log())

    @only_long
    def test_a_list(self):
        """A list file that cannot be read, or only in short pieces: its job is refused, or gets just what it names."""
        listed = os.path.join(self.folder, "list")
        with open(listed, "w") as file:
            file.write("".join(f"{index}\n" + 2000 * "\n" for index in range(COUNT)))  # several reads
        daemon = self.serve()
        self.faults.begin("READ", errno.EIO, path=listed)
        with self.assertRaisesRegex(larder.LarderError, "list.*" + os.strerror(errno.EIO)):
            self.job(daemon, subset=larder.List(listed))
        self.faults.begin("READ", errno.EINTR, every=2, path=listed)
        self.faults.begin("READ_SHORT", path=listed)
        self.exact(self.job(daemon, subset=larder.List(listed)))
        self.assertGreater(self.faults.struck("READ_SHORT"), 3)

    @only_long
    def test_a_store(self):
        """EIO of a store's segments now and then is no bad sample; reads of it that never work fail its job only."""
        store = os.path.join(self.folder, "store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store, "--quiet"], check=True)
        daemon = self.serve(CONFIG + "limits: {source_wait: 1}\n")
        self.faults.begin("READ", errno.EIO, path=store)
        with contextlib.suppress(larder.LarderError):
            list(self.job(daemon, store))
            self.fail("a store that cannot be read was delivered")
        self.faults.begin("READ", errno.EIO, every=3, path=store)
        self.exact(self.job(daemon, self.make("other", 2)), seed=2)
        self.faults.end()
        self.exact(self.job(daemon, store))


class Files(FaultsCase):
    def rewrite(self, path, content):
        """In place, in two halves: a read may see one of each."""
        with open(path, "r+b", buffering=0) as file:
            file.write(content[:len(content) // 2])
            file.write(content[len(content) // 2:])

    def run_while(self, daemon, change, files, at_once=0, seeds=(1,)):
        """Trains while `change` is done to the files, to the first `at_once` before the first batch is asked for:
        which came, how many were bad, and the job's failure."""
        loader, seen, failure = self.job(daemon, prefetch=1), set(), None
        self.assertEqual(len(loader), -(-COUNT // 8))  # it has come: these files are its own
        for path in files[:at_once]:
            change(path)
        other = threading.Thread(target=lambda: [change(path) for path in files[at_once:]])
        other.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", larder.BadSamplesWarning)
                for batch in loader:
                    self.check(batch, seen, *seeds)
        except larder.SourceChanged as error:
            failure = error
        finally:
            other.join()
        self.alive(daemon)
        if not failure:
            self.assertEqual(len(seen) + loader.lost, COUNT)
        loader.close()
        return seen, loader.lost, failure

    def test_files_that_vanish(self):
        """Files that are deleted while they are served are bad samples. A tenth may be."""
        files = files_of(self.tree)
        _, lost, failure = self.run_while(self.serve(), os.unlink, files[::12], at_once=3)
        self.assertIsNone(failure)
        self.assertIn(lost, range(3, 6))

    @only_long
    def test_files_that_are_cut_or_grow(self):
        """Files that become shorter or longer, or are overwritten, while they are served: the job is told."""
        daemon = self.serve()
        for number, change in enumerate((lambda path: os.truncate(path, 100), lambda path: os.truncate(path, 1 << 20),
                                         lambda path: self.rewrite(path, b"\0" * os.path.getsize(path)))):
            self.tree = self.make(f"tree-{number}")
            _, _, failure = self.run_while(daemon, change, files_of(self.tree)[::3], at_once=1)
            self.assertIn("not the one that was indexed", str(failure))
        self.assertTrue(daemon.logged("changed file"), daemon.log())

    def test_other_images_in_their_place(self):
        """Files that are rewritten in place as other images of the same size, while they are read: no sample is half
        the one and half the other, and a job that comes afterwards gets what the files hold then."""
        contents, daemon, failed = {}, self.serve(), 0
        for old, new in zip(files_of(self.tree), files_of(self.make("other", 2))):
            both = []
            for path in (old, new):
                with open(path, "rb") as file:
                    both.append(file.read())
            size = max(map(len, both))
            contents[old] = [content.ljust(size, b"\0") for content in both]  # behind the image's end
        for path, both in contents.items():
            self.rewrite(path, both[0])
        for number in range(1, 40 if LONG else 3):
            for path in contents:
                os.utime(path, (1e9 + number, 1e9 + number))
            with self.job(daemon) as loader:
                self.exact(loader, seed=2 - number % 2)
            for path in contents:
                os.utime(path, (2e9 + number, 2e9 + number))

            def change(path, now=number % 2):
                self.rewrite(path, contents[path][now])

            _, lost, failure = self.run_while(daemon, change, list(contents), seeds=(1, 2))
            self.assertEqual(lost, 0)
            failed += failure is not None
        print(f"{failed} of {number} jobs were told", flush=True)


class Descriptors(FaultsCase):
    def test_accepting(self):
        """While no connection can be accepted clients wait; then they are served, and `larder status` too."""
        daemon = self.serve()
        self.exact(self.job(daemon))
        self.faults.begin("DESCRIPTOR", errno.EMFILE)
        done, failures = threading.Event(), []

        def train():
            try:
                self.exact(self.job(daemon, self.make("other", 2)), seed=2)
            except Exception as error:  # noqa: B902 - whatever it is, it is reported below
                failures.append(error)
            done.set()

        trainer = threading.Thread(target=train)
        trainer.start()
        self.assertTrue(daemon.logged("no client can be accepted now"), daemon.log())
        self.assertFalse(done.is_set())
        self.faults.end()
        trainer.join()
        self.assertEqual(failures, [])
        self.assertEqual(daemon.status()["samples"]["bad"].get("unreadable", 0), 0)

    def test_opening_images(self):
        """Each second file cannot be opened for lack of descriptors: they are read when it can be, nothing is bad."""
        daemon = self.serve()
        self.faults.begin("OPEN", errno.EMFILE, every=2, path=".jpg")
        for number in (errno.EMFILE, errno.ENFILE)[:1 + LONG]:
            self.faults.begin("OPEN", number, every=2, path=".jpg")
            self.exact(self.job(daemon, self.make(f"tree-{number}")))
            self.assertGreater(self.faults.struck("OPEN"), COUNT / 2)
        self.assertTrue(daemon.logged("reads wait until a file descriptor is free"), daemon.log())
        self.assertNotIn("bad sample", daemon.log())

    @only_long
    def test_opening_a_dataset(self):
        """A dataset whose folders cannot be opened is refused with a text, and served when they can."""
        daemon = self.serve()
        for path in (self.tree, "class"):
            for number in (errno.EMFILE, errno.EIO, errno.EACCES):
                self.faults.begin("OPEN", number, times=1, path=path)
                failure = None
                try:
                    loader = self.job(daemon)
                except larder.LarderError as error:
                    failure = error
                if self.faults.struck("OPEN"):
                    self.assertIsNotNone(failure, (path, number))
                    self.assertIn(os.strerror(number), str(failure))
                else:
                    loader.close()
        self.faults.end()
        self.exact(self.job(daemon))

    def test_a_state_of_ranks(self):
        """A state that the daemon cannot put into a memfd is an error that says so; the epoch goes on."""
        daemon = self.serve()
        ranks = [self.job(daemon, rank=rank, world_size=2, name="both") for rank in range(2)]
        iterators, seen = [iter(loader) for loader in ranks], set()
        for iterator in iterators:
            self.check(next(iterator), seen)
        self.faults.begin("DESCRIPTOR", errno.EMFILE)
        with self.assertRaisesRegex(larder.LimitReached, "open files"):
            ranks[0].state_dict()
        self.faults.end()
        self.assertEqual(ranks[0].state_dict()["batches"], 1)
        for iterator in iterators:
            for batch in iterator:
                self.check(batch, seen)
        self.assertEqual(seen, set(range(COUNT)))

    @only_long
    def test_starting(self):
        """A daemon that gets no descriptor for something that it needs says so and ends."""
        config = CONFIG.replace("enabled: false", "socket: auto")
        for number in range(40):
            self.faults.begin("DESCRIPTOR", errno.EMFILE, skip=number, times=1)
            daemon = self.serve(config, expect_ready=False)
            if not self.faults.struck("DESCRIPTOR"):
                break
            if not daemon.ready:
                self.assertEqual(daemon.process.wait(20 * SLOW), 1, daemon.log())
                self.assertRegex(daemon.log(), "cannot start.*(Too many open files|Out of files|descriptors)")
            daemon.stop()
            os.unlink(daemon.log_path)
        self.assertEqual(self.faults.struck("DESCRIPTOR"), 0)
        self.exact(self.job(daemon))


if __name__ == "__main__":
    main()
