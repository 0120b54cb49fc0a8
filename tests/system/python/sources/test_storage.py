"""Storage classes: what was read once from slow storage comes from the fast disk, also after a restart, and it is right
whatever happens to the daemon or the disk."""

import errno
import os
import random
import re
import shutil
import subprocess
import sys

import above  # noqa: F401
from faulty import Faults
from system import BIN, LONG, PIPELINE, Case, Daemon, files_of, main, tree, until

COUNT = 200
KILLS = 200 if LONG else 20
SEED = int(os.environ.get("LARDER_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
SLOW_SOURCE = 20_000_000  # bytes a second
CONFIG = """\
memory: {{arena: 5MiB, encoded: 2MiB}}
threads: {{workers: 2, loaders: 4}}
catalog: {{checkpoint: {checkpoint}}}
metrics: {{enabled: false}}
"""


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Storage(Case):
    def setUp(self):
        super().setUp()
        self.faults = Faults(self.folder)
        self.tree = tree(COUNT, width=640, height=480)
        self.files = files_of(self.tree)
        self.sizes = [os.path.getsize(path) for path in self.files]
        self.total = sum(self.sizes)
        self.path = os.path.join(self.folder, "class")

    def serve(self, size=None, more=""):
        """A daemon with a class of so many bytes; by default the whole dataset has room."""
        config = CONFIG.format(checkpoint=os.path.join(self.folder, "checkpoints"))
        config += f"storage:\n  - {{path: {self.path}, size: {size or 2 * self.total}B}}\n" + more
        return self.daemon(config, environment=self.faults.environment)

    def throttle(self, path=None, rate=SLOW_SOURCE):
        """Reads of a folder, else of the dataset, bring so many bytes a second."""
        self.faults.begin("SLOW", path=path or self.tree, from_bytes=rate)

    def job(self, daemon, **options):
        return self.loader(daemon, self.tree, 8, **{"pipeline": [], **options})

    def epoch(self, loader):
        """One epoch: each sample once, and its bytes are its file's."""
        seen = set()
        for batch, _, indices in loader:
            for index, data in zip(indices.tolist(), batch):
                self.assertNotIn(index, seen)
                seen.add(index)
                self.assertEqual(bytes(data), bytes_of(self.files[index]), f"the bytes of sample {index}")
        self.assertEqual(len(seen), COUNT)

    def storage(self, daemon):
        return daemon.status()["storage"]

    def written(self, daemon):
        """Waits until nothing waits to be written; gives the class's status."""
        self.assertTrue(until(lambda: self.storage(daemon)["classes"][0]["waiting_bytes"] == 0, 30), daemon.log())
        return self.storage(daemon)["classes"][0]

    def fill(self, daemon, loader):
        """Goes through epochs until the class has all samples: one, unless the disk was very slow to take them, or the
        class is found slower than the source for a while."""
        for _ in range(100):
            self.epoch(loader)
            if self.written(daemon)["samples"] == COUNT:
                return
        self.fail(self.written(daemon))

    def make_full(self, daemon, loader):
        """Goes through epochs until the class takes nothing more."""
        for _ in range(100):
            self.epoch(loader)
            if self.written(daemon)["state"] == "full":
                return
        self.fail(self.written(daemon))

    def read_in(self, daemon, loader):
        """The bytes that one epoch reads, of the dataset's: from the source, and from the class."""
        before = self.storage(daemon)
        self.epoch(loader)
        after = self.storage(daemon)
        return ((after["source"]["bytes"] - before["source"]["bytes"]) / self.total,
                (after["classes"][0]["read"]["bytes"] - before["classes"][0]["read"]["bytes"]) / self.total)

    def larder(self, *arguments):
        return subprocess.run([os.path.join(BIN, "larder"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def test_whole(self):
        """A class with room for the whole dataset: the second epoch reads nothing from the source, nor does the first
        epoch after a restart, nor that of another daemon after a kill."""
        self.throttle()
        daemon = self.serve()
        loader = self.job(daemon)
        self.fill(daemon, loader)
        source, own = self.read_in(daemon, loader)
        print(f"second epoch: {source:.3f} of the bytes from the source, {own:.3f} from the class")
        self.assertEqual(source, 0)
        self.assertGreater(own, 0.5)
        loader.close()
        daemon.stop()
        for stop in ("stop", "kill"):
            daemon = self.serve()
            loader = self.job(daemon)
            source, own = self.read_in(daemon, loader)
            print(f"after a restart: {source:.3f} from the source, {own:.3f} from the class")
            self.assertEqual(source, 0)
            loader.close()
            getattr(daemon, stop)()

    def test_half(self):
        """A class with room for half of the dataset, of four epochs: of all but the first at most .55 of the bytes come
        from the source, and the class writes nothing more once it is full."""
        self.throttle()
        daemon = self.serve(size=self.total // 2)
        loader = self.job(daemon)
        self.make_full(daemon, loader)
        parts, written = [], []
        for _ in range(3):
            parts.append(self.read_in(daemon, loader))
            written.append(self.written(daemon)["written"]["bytes"])
        state = self.storage(daemon)["classes"][0]
        print("from the source, from the class:", [tuple(round(part, 3) for part in row) for row in parts])
        self.assertEqual(state["state"], "full")
        self.assertLessEqual(state["used_bytes"], self.total // 2)
        self.assertLessEqual(sum(source for source, _ in parts) / 3, 0.55)
        self.assertEqual(written[0], written[-1])

    def test_two_classes(self):
        """What does not fit into the first class goes to the second; together they spare the source, and no sample is
        in both."""
        self.throttle()
        second = os.path.join(self.folder, "second")
        daemon = self.serve(size=self.total // 2, more=f"  - {{path: {second}, size: {self.total}B}}\n")
        loader = self.job(daemon)
        for _ in range(10):
            self.epoch(loader)
            classes = self.storage(daemon)["classes"]
            if sum(row["samples"] for row in classes) == COUNT and not any(row["waiting_bytes"] for row in classes):
                break
        before = self.storage(daemon)
        self.epoch(loader)
        after = self.storage(daemon)
        self.assertEqual([row["state"] for row in after["classes"]], ["full", "filling"])
        self.assertEqual(sum(row["samples"] for row in after["classes"]), COUNT)
        self.assertEqual(after["source"], before["source"])
        for row, earlier in zip(after["classes"], before["classes"]):
            self.assertGreater(row["read"]["samples"], earlier["read"]["samples"] + COUNT // 4)

    def test_packed(self):
        """The samples of a packed store are known by their content: another copy of the store, which other jobs read,
        brings nothing from its source."""
        stores = [os.path.join(self.folder, f"store{number}") for number in range(2)]
        for store in stores:
            packed = self.larder("pack", self.tree, store, "--quiet")
            self.assertEqual(packed.returncode, 0, packed.stderr)
        self.throttle(os.path.join(self.folder, "store"))
        daemon = self.serve()
        first = self.loader(daemon, stores[0], 8, pipeline=[], name="first")
        self.fill(daemon, first)
        first.close()
        second = self.loader(daemon, stores[1], 8, pipeline=[], name="second")
        source, _ = self.read_in(daemon, second)
        self.assertEqual(source, 0)

    def test_slow_class(self):
        """A class that is slower than the source is left alone, and the status says so."""
        self.throttle(self.path, 1_000_000)
        daemon = self.serve()
        loader = self.job(daemon)
        parts = []
        self.epoch(loader)
        self.written(daemon)
        for _ in range(3):
            parts.append(self.read_in(daemon, loader))
        state = self.storage(daemon)["classes"][0]
        print("from the source, from the class:", [tuple(round(part, 3) for part in row) for row in parts], state)
        self.assertTrue(state["left_alone"])
        self.assertLess(parts[-1][1], 0.2)
        self.assertGreater(parts[-1][0], 0.5)

    def test_another_dataset(self):
        """A full class gives place to the dataset of a running job when no job wants what it has; while a job does, it
        does not."""
        self.throttle()
        other = tree(COUNT, width=640, height=480, seed=2)
        daemon = self.serve(size=self.total // 2)
        first = self.job(daemon)
        self.make_full(daemon, first)
        second = self.loader(daemon, other, 8, pipeline=[])
        for _ in second:
            pass
        before = self.written(daemon)
        self.assertEqual(before["given_up"], 0)
        first.close()
        self.assertTrue(until(lambda: len(daemon.jobs()) == 1, 20))
        for _ in second:
            pass
        self.assertGreater(self.written(daemon)["given_up"], 0)
        second.close()

    def test_all_files_changed(self):
        """When all files of a dataset have changed, a full class has nothing of it any more: what it has gives place,
        though the dataset's job runs, and the class is as useful as before."""
        self.tree = shutil.copytree(self.tree, os.path.join(self.folder, "changes"))
        self.files = files_of(self.tree)
        self.throttle()
        daemon = self.serve(size=self.total // 2)
        loader = self.job(daemon)
        self.make_full(daemon, loader)
        loader.close()
        self.assertTrue(until(lambda: not daemon.jobs(), 20))
        for path in self.files:
            os.utime(path, (1, 1))
        loader = self.job(daemon)
        self.epoch(loader)
        self.assertGreater(self.written(daemon)["given_up"], 0)
        self.make_full(daemon, loader)
        source, own = self.read_in(daemon, loader)
        print(f"with all files changed: {source:.3f} of the bytes from the source, {own:.3f} from the class")
        self.assertLessEqual(source, 0.6)
        self.assertGreater(own, 0.35)

    def test_killed_while_written(self):
        """Daemons are killed at random moments while they write the class: every byte that is delivered is right, the
        class opens each time, and in the end verifies."""
        self.throttle()
        generator = random.Random(SEED)
        print("seed", SEED)
        opened = []
        for _ in range(KILLS):
            daemon = self.serve()
            opened.append(self.storage(daemon)["classes"][0]["samples"])
            loader = self.job(daemon)
            batches = iter(loader)
            for _ in range(generator.randrange(1, COUNT // 8)):
                batch, _, indices = next(batches)
                for index, data in zip(indices.tolist(), batch):
                    self.assertEqual(bytes(data), bytes_of(self.files[index]), f"the bytes of sample {index}")
            daemon.kill()
            loader.close()
            shown = self.larder("cache", self.path)
            self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
            if generator.randrange(8) == 0:
                self.assertEqual(self.larder("cache", self.path, "--empty").returncode, 0)
        print("samples at each start:", opened)
        daemon = self.serve()
        self.epoch(self.job(daemon))
        daemon.stop()
        verified = self.larder("cache", self.path, "--verify")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_disk_full(self):
        """A disk that takes nothing more (ENOSPC), or fails to write (EIO): jobs go on, the class is switched off for
        writing, the log says so once, and what was written before still comes from the class."""
        self.throttle()
        for times, number in enumerate((errno.ENOSPC, errno.EIO), 1):
            self.path = os.path.join(self.folder, f"class{number}")
            daemon = self.serve()
            loader = self.job(daemon)
            self.faults.begin("WRITE", number, skip=8, path="segment-")
            self.epoch(loader)
            self.written(daemon)
            self.epoch(loader)
            self.faults.end()
            state = self.storage(daemon)["classes"][0]
            self.assertEqual(state["state"], "read_only")
            self.assertLess(state["samples"], COUNT)
            self.assertGreater(state["read"]["samples"], 0)
            self.assertTrue(until(lambda: daemon.log().count("switched off for writing") >= times, 5), daemon.log())
            self.assertEqual(daemon.log().count("switched off for writing"), times)
            loader.close()
            daemon.stop()

    def test_disk_gone(self):
        """A disk that does not answer when it is read from: the class is switched off, and all comes from the
        source."""
        self.throttle()
        daemon = self.serve()
        loader = self.job(daemon)
        self.epoch(loader)
        self.written(daemon)
        self.faults.begin("READ", errno.EIO, path="segment-")
        self.epoch(loader)
        self.faults.end()
        self.assertEqual(self.storage(daemon)["classes"][0]["state"], "off")
        self.assertTrue(daemon.logged("storage class switched off"), daemon.log())
        self.assertEqual(daemon.log().count("storage class switched off"), 1)
        self.epoch(loader)

    def test_damaged(self):
        """Bytes of the class that are changed behind the daemon's back cost a read of the source: no wrong byte comes,
        and the dropped samples are counted and written again."""
        self.throttle()
        daemon = self.serve()
        loader = self.job(daemon)
        self.fill(daemon, loader)
        name = os.path.join(self.path, sorted(name for name in os.listdir(self.path) if "segment" in name)[0])
        with open(name, "r+b") as file:
            for at in range(1000, os.path.getsize(name), 50_000):
                file.seek(at)
                file.write(b"damage")
        self.epoch(loader)
        self.assertGreater(self.written(daemon)["corrupt"], 10)
        self.fill(daemon, loader)

    def state_files(self, daemon):
        """All that a daemon keeps between runs for speed or as notes: the class, curves, rates, a checkpoint, and what
        it notes of samples that daemons died of."""
        files = [os.path.join(folder, name) for folder in (self.path, os.path.join(self.folder, "checkpoints"))
                 for name in os.listdir(folder)] + [daemon.socket + ".poison"]
        kinds = ("class", "lock", "segment-", "index-", "storage-curves", "preparing-rates", ".catalog", ".poison")
        for kind in kinds:
            self.assertTrue(any(kind in os.path.basename(path) for path in files), (kind, files))
        return files

    def test_state_damaged(self):
        """No damage to what is only a cache or a note keeps a daemon from starting and serving each sample: its files
        are emptied, filled with zeros or with anything, cut, or there is a folder, a link or a pipe instead, each file
        in another way each time."""
        def rewrite(change):
            def act(path):
                data = change(bytes_of(path) if os.path.isfile(path) else b"damage")
                with open(path, "wb") as file:
                    file.write(data)
            return act

        def replace(make):
            def act(path):
                os.unlink(path)
                make(path)
            return act

        acts = (rewrite(lambda data: b""), rewrite(lambda data: bytes(len(data))),
                rewrite(lambda data: random.Random(len(data)).randbytes(3000)),
                rewrite(lambda data: data[:len(data) // 2]), replace(os.mkdir), replace(os.mkfifo),
                replace(lambda path: os.symlink("/proc/self/mem", path)))
        for number in range(3):
            with self.subTest(number=number):
                for folder in (self.path, os.path.join(self.folder, "checkpoints")):
                    shutil.rmtree(folder, ignore_errors=True)
                daemon = self.serve()
                loader = self.job(daemon, pipeline=PIPELINE)
                for _ in loader:
                    pass
                self.written(daemon)
                self.assertTrue(until(lambda: daemon.status()["governor"]["prepare_rate"] is not None, 30))
                loader.close()
                daemon.stop()
                if not os.path.exists(daemon.socket + ".poison"):
                    with open(daemon.socket + ".poison", "wb") as file:
                        file.write(b"damage")
                for at, path in enumerate(sorted(self.state_files(daemon))):
                    acts[(at + 2 * number) % len(acts)](path)
                daemon = self.serve()
                self.epoch(self.job(daemon))
                self.assertEqual(daemon.stop(), 0)
                for path in (self.path, daemon.socket + ".poison"):
                    if os.path.isdir(path):
                        shutil.rmtree(path)
                    elif os.path.lexists(path):
                        os.unlink(path)

    def test_left_out(self):
        """A class that another daemon uses, that others may write to, or that another version made is left out with an
        error, and the daemon serves. A folder of something else is refused."""
        first = self.serve()
        self.fill(first, self.job(first))
        open_to_all, newer = os.path.join(self.folder, "open"), os.path.join(self.folder, "newer")
        for path, mode in ((open_to_all, 0o777), (newer, 0o700)):
            os.mkdir(path)
            os.chmod(path, mode)
        with open(os.path.join(newer, "class"), "w", encoding="utf-8") as file:
            file.write("larder storage class\nversion 2\n")
        folder = os.path.join(self.folder, "second")
        os.makedirs(folder)
        config = "memory: {arena: 16MiB, encoded: 4MiB}\nmetrics: {enabled: false}\nstorage:\n"
        second = Daemon(folder, config + "".join(f"  - {{path: {path}, size: 1GiB}}\n"
                                                 for path in (self.path, open_to_all, newer)))
        self.addCleanup(second.stop)
        self.epoch(self.job(second))
        doctor = self.larder("doctor", "--socket", second.socket)
        self.assertIn("0 of 3 storage classes are in use", doctor.stdout)
        for path, why in ((self.path, "another daemon uses"), (open_to_all, "chmod"), (newer, "of version 2")):
            self.assertTrue(re.search(f"level=error.*left out.*{re.escape(path)}.*{why}", second.log()), second.log())
        second.stop()
        third = Daemon(folder, config + f"  - {{path: {self.tree}, size: 1GiB}}\n", expect_ready=False)
        self.assertEqual(third.process.wait(60), 1)
        self.assertTrue(re.search(f"cannot start.*{re.escape(self.tree)}.*neither empty nor", third.log()), third.log())


if __name__ == "__main__":
    if LONG:
        sys.argv[1:] = ["Storage.test_killed_while_written"]
    main()
