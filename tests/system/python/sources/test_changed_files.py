"""Files that change while jobs train on them: nobody is given one file's bytes as another's."""

import contextlib
import os

import above  # noqa: F401
from system import Case, files_of, larder, main

CONFIG = """\
memory:
  arena: 64MiB
  encoded: 64MiB
catalog:
  checkpoint: {checkpoint}
metrics:
  enabled: false
"""
SIZE = 3000


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class ChangedFiles(Case):
    def setUp(self):
        super().setUp()
        self.dataset = os.path.join(self.folder, "files")

    def make(self, count):
        """Files of one size and time; below folders that are as old, so that their times prove something at once."""
        for number in range(count):
            folder = os.path.join(self.dataset, f"class-{number % 2}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{number:04d}.jpg"), "wb") as file:
                file.write(f"{number:04d} ".encode() * (SIZE // 5))
        for folder, _, names in os.walk(self.dataset):
            for name in names:
                os.utime(os.path.join(folder, name), (1e9, 1e9))
            os.utime(folder, (1e9, 1e9))
        return files_of(self.dataset)

    def rewrite(self, path, text):
        """In place, as long as before: the folder does not change, the file's time does."""
        with open(path, "r+b") as file:
            file.write(text * (SIZE // len(text)))

    def bytes_loader(self, daemon, dataset, **options):
        return self.loader(daemon, dataset, pipeline=[], **options)

    def epoch(self, loader):
        return [(index, bytes(data)) for batch, _, indices in loader for index, data in zip(indices.tolist(), batch)]

    def keeping_daemon(self):
        """A daemon that keeps checkpoints."""
        return self.daemon(CONFIG.format(checkpoint=os.path.join(self.folder, "checkpoints")))

    def expect_contents(self, loader):
        """An epoch brings each file once, as it is now."""
        files = files_of(self.dataset)
        got = self.epoch(loader)
        self.assertEqual(len(got), len(files), "samples of the epoch")
        self.assertEqual(sorted(index for index, _ in got), list(range(len(files))))
        wrong = sum(data != bytes_of(files[index]) for index, data in got)
        self.assertEqual(wrong, 0, f"of {len(files)} samples so many are not what their files hold")

    def test_exchanged_names(self):
        """Files of one size and time exchange their names after a job has come. That job is given nothing that is not
        what was indexed, and a job on hard links to the same files, which nobody touched, is given each as it is."""
        files = self.make(16)
        links = os.path.join(self.folder, "links")
        for path in files:
            link = os.path.join(links, os.path.relpath(path, self.dataset))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.link(path, link)
        indexed = [bytes_of(path) for path in files]
        daemon = self.daemon(CONFIG.format(checkpoint="none"))
        first, second = self.bytes_loader(daemon, self.dataset), self.bytes_loader(daemon, links)
        for one, other in zip(files[::2], files[1::2]):
            os.rename(one, one + "~")
            os.rename(other, one)
            os.rename(one + "~", other)
        swapped = []
        with contextlib.suppress(larder.LarderError):  # it may be told that nothing is left, or that files changed
            swapped = self.epoch(first)
        linked = self.epoch(second)
        wrong = [sum(data != indexed[index] for index, data in got) for got in (swapped, linked)]
        self.assertEqual((len(linked), wrong), (16, [0, 0]), "samples of the links, and how many are another file's")
        with self.bytes_loader(daemon, self.dataset) as loader:
            self.expect_contents(loader)

    def test_rewritten_in_place(self):
        """200 of 600 files are rewritten while their folders' times stay. A job that comes then gets what the files
        hold in each of its epochs, although memory holds what they held for the job before it."""
        files = self.make(600)
        daemon = self.keeping_daemon()
        before = self.bytes_loader(daemon, self.dataset, batch_size=50)
        self.expect_contents(before)
        for path in files[::3]:
            self.rewrite(path, b"newer")
        after = self.bytes_loader(daemon, self.dataset, batch_size=50)
        self.expect_contents(after)
        self.expect_contents(after)

    def test_rewritten_while_down(self):
        """The same while no daemon runs: the next one finds the checkpoint of what the files held,
        and does not use it."""
        files = self.make(600)
        daemon = self.keeping_daemon()
        with self.bytes_loader(daemon, self.dataset, batch_size=50) as loader:
            self.expect_contents(loader)
        daemon.stop()
        for path in files[1::3]:
            self.rewrite(path, b"newest")
        daemon = self.keeping_daemon()
        with self.bytes_loader(daemon, self.dataset, batch_size=50) as loader:
            self.expect_contents(loader)
        self.assertTrue(daemon.logged("source changed: indexing it anew"))

    def test_found_by_reading(self):
        """Where a read is the first to meet a change, the next job gets what the file holds, although nothing shows the
        change any more by then."""
        files = self.make(40)
        daemon = self.keeping_daemon()
        with self.bytes_loader(daemon, self.dataset, batch_size=4) as loader:
            self.rewrite(files[5], b"newer")
            with contextlib.suppress(larder.LarderError):
                self.assertEqual([index for index, data in self.epoch(loader) if data != bytes_of(files[index])], [])
        os.utime(files[5], (1e9, 1e9))
        with self.bytes_loader(daemon, self.dataset) as loader:
            self.expect_contents(loader)
        self.assertTrue(daemon.logged("changed since it was indexed"))


if __name__ == "__main__":
    main()
