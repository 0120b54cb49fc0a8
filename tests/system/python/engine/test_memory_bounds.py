#!/usr/bin/env python3
"""Resident memory stays within the budgets, and 128 MiB beside them, whatever images, lists and files there are."""

import os
import struct
import threading

import above  # noqa: F401
from system import Case, files_of, larder, main, make_tree, tree, until

MIB = 1 << 20
BESIDE_MIB = 128  # threads' stacks, libraries, what each job and sample takes
PIXELS = [{"resize": {"size": [32, 32]}}]


def flat_jpeg(width, height):
    """A progressive JPEG of one grey, in three planes: a decoder keeps all its coefficients, and the file is small."""
    def segment(marker, payload):
        return bytes((0xFF, marker)) + struct.pack(">H", len(payload) + 2) + payload

    components = b"".join(bytes((number, 0x11, 0)) for number in (1, 2, 3))
    frame = struct.pack(">BHHB", 8, height, width, 3) + components
    scan = bytes((3, 1, 0, 2, 0, 3, 0)) + bytes((0, 0, 0))
    blocks = 3 * -(-width // 8) * -(-height // 8)  # a bit each: no difference from the one before
    return (b"\xff\xd8" + segment(0xDB, bytes(1) + bytes([1]) * 64) + segment(0xC2, frame) +
            segment(0xC4, bytes(1) + bytes([1]) + bytes(15) + bytes(1)) + segment(0xDA, scan) +
            bytes(-(-blocks // 8)) + b"\xff\xd9")


class Bounds(Case):
    budgets = ()

    def bounded(self, arena, encoded, scratch, more=""):
        """A daemon with budgets of so many MiB."""
        self.budgets = (arena, encoded, scratch)
        return self.daemon(f"memory:\n  arena: {arena}MiB\n  encoded: {encoded}MiB\n  scratch: {scratch}MiB\n"
                           "catalog:\n  checkpoint: none\nmetrics:\n  enabled: false\n" + more)

    def resident(self, daemon, name="VmHWM"):
        with open(f"/proc/{daemon.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))

    def assert_within(self, daemon):
        if SANITIZED:
            return
        most = self.resident(daemon)
        print(f"resident at most {most / MIB:.0f} MiB, budgets {'+'.join(map(str, self.budgets))} MiB", flush=True)
        self.assertLess(most, (sum(self.budgets) + BESIDE_MIB) * MIB)


class Scratch(Bounds):
    """What workers decode in."""

    def images(self, count, side):
        folder = os.path.join(self.folder, "images", "grey")
        os.makedirs(folder)
        for number in range(count):
            with open(os.path.join(folder, f"{number}.jpg"), "wb") as file:
                file.write(flat_jpeg(side, side))
        return os.path.dirname(folder)

    def test_large_images_wait_for_room(self):
        """Images of which one fits into the budget at a time are all delivered, by as many workers as there are."""
        daemon = self.bounded(16, 16, 320, "threads:\n  workers: 4\n")
        with self.loader(daemon, self.images(6, 5000), 2, PIXELS) as loader:
            self.whole(loader, 6)
        self.assert_within(daemon)
        self.assertGreater(daemon.status()["memory"]["scratch"]["waits"], 0)

    def test_an_image_that_never_fits(self):
        """Two of 100 megapixels are bad samples in a budget of 32 MiB, the log names the setting,
        and the others come."""
        daemon = self.bounded(16, 16, 32, "threads:\n  workers: 2\n")
        folder = self.images(2, 10000)
        for number in range(20):  # a tenth may be bad
            with open(os.path.join(folder, "grey", f"small{number:02}.jpg"), "wb") as file:
                file.write(flat_jpeg(64, 64))
        with self.loader(daemon, folder, 2, PIXELS) as loader:
            came = sorted(index for batch in loader for index in batch[-1].tolist())
        self.assert_within(daemon)
        self.assertEqual(came, list(range(2, 22)))
        self.assertEqual(daemon.status()["samples"]["bad"]["too_large"], 2)
        self.assertTrue(daemon.logged("raise memory.scratch"))


class Lists(Bounds):
    """What a registration takes."""

    def test_a_list_of_empty_lines(self):
        """A list file of 200 MiB of empty lines and one key is read in bounded memory, by several jobs at once too."""
        path = os.path.join(self.folder, "list")
        with open(path, "wb") as file:
            for _ in range(200):
                file.write(b"\n" * MIB)
            file.write(b"5\n")
        daemon = self.bounded(16, 16, 32)
        dataset = tree(20)
        came = []

        def train():
            with self.loader(daemon, dataset, 4, PIXELS, subset=larder.List(path)) as loader:
                came.append([index for batch in loader for index in batch[-1].tolist()])

        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(came, [[5], [5]])
        self.assert_within(daemon)


class Instances(Bounds):
    """What is known of each prepared sample."""

    def test_tiny_slots(self):
        """Prepared samples of 192 bytes fill the arena, because a job that stands still wants them, and their
        bookkeeping stays within memory.encoded: beside what the first epoch brought the heap grows by no more."""
        daemon = self.bounded(8, 4, 16)
        count, tiny = 4000, [{"resize": {"size": [8, 8]}}, "random_horizontal_flip"]
        folder = tree(count, width=16, height=16)
        stands = iter(self.loader(daemon, folder, 100, tiny))
        next(stands)
        with self.loader(daemon, folder, 100, tiny) as loader:
            self.whole(loader, count)
            before = self.resident(daemon, "RssAnon")
            for _ in range(11):
                self.whole(loader, count)
            grown = self.resident(daemon, "RssAnon") - before
        arena = daemon.status()["memory"]["arena"]
        print(f"heap grown by {grown / MIB:.1f} MiB, arena used {arena['used_bytes'] / MIB:.1f} MiB", flush=True)
        self.assertGreater(arena["used_bytes"], arena["budget_bytes"] * 0.9)
        self.assertTrue(daemon.logged("192 bytes take"))
        self.assert_within(daemon)
        if not SANITIZED:
            self.assertLess(grown, 4 * MIB)


class Room(Bounds):
    """Prepared samples and files have one budget."""
    EPOCHS = 40  # it takes three or four

    def padded(self, count, size):
        """Files of that size, whose image is small."""
        folder = os.path.join(self.folder, "images", "grey")
        os.makedirs(folder)
        for number in range(count):
            with open(os.path.join(folder, f"{number}.jpg"), "wb") as file:
                file.write(flat_jpeg(64, 64).ljust(size, b"\0"))
        return os.path.dirname(folder)

    def test_room_moves_to_what_jobs_wait_for(self):
        """Half of the files fit beside the arena's bound. A job that waits for reads gets room for all of them: from
        then on it reads nothing. All together stays within memory.samples."""
        count = 200
        folder = tree(count, width=512, height=384)
        files = sum(map(os.path.getsize, files_of(folder)))
        arena = files + 4 * MIB
        self.budgets = ((arena + files // 2) // MIB, 16)
        daemon = self.daemon(f"memory:\n  samples: {arena + files // 2}B\n  arena: {arena}B\n  scratch: 16MiB\n"
                             "catalog:\n  checkpoint: none\nmetrics:\n  enabled: false\ndebug:\n  load_delay: 20\n")
        self.assertLess(daemon.status()["memory"]["encoded"]["budget_bytes"], files * 0.6)
        loaded = [0]
        with self.loader(daemon, folder, 8, [*PIXELS, "random_horizontal_flip"]) as loader:
            while len(loaded) <= self.EPOCHS and (len(loaded) < 2 or loaded[-1] > loaded[-2]):
                self.whole(loader, count)
                loaded.append(daemon.status()["samples"]["loaded"])
            memory = daemon.status()["memory"]
        print("loaded after each epoch:", *loaded, flush=True)
        self.assertEqual(loaded[-1], loaded[-2])
        self.assertGreater(memory["encoded"]["budget_bytes"], files)
        self.assertGreaterEqual(memory["encoded"]["used_bytes"], files)
        self.assertLessEqual(memory["encoded"]["used_bytes"] + memory["arena"]["reserved_bytes"], arena + files // 2)
        self.assert_within(daemon)


    def test_what_files_had_goes_when_jobs_look_ahead(self):
        """Files have nearly all memory, which prepared samples do not need yet. A job that looks far ahead gets the
        room for it, and what the files took goes back to the system before the arena has it."""
        count, side, samples, arena = 2000, 384, 280, 200
        folder = self.padded(count, 120000)
        self.budgets = (samples, 16)
        daemon = self.daemon(f"memory:\n  samples: {samples}MiB\n  arena: {arena}MiB\n  scratch: 16MiB\n"
                             "catalog:\n  checkpoint: none\nmetrics:\n  enabled: false\n")
        stands = iter(self.loader(daemon, folder, 8, [*PIXELS, "random_horizontal_flip"]))
        next(stands)
        with self.loader(daemon, folder, 8, [*PIXELS, "random_horizontal_flip"]) as loader:
            self.whole(loader, count)
        encoded = daemon.status()["memory"]["encoded"]["used_bytes"]
        print(f"files take {encoded / MIB:.0f} MiB", flush=True)
        self.assertGreater(encoded, 200 * MIB)
        with self.loader(daemon, folder, 32, [{"resize": {"size": [side, side]}}], prefetch=10) as loader:
            self.whole(loader, count)
            arena_now = daemon.status()["memory"]["arena"]["reserved_bytes"]
        print(f"the arena has {arena_now / MIB:.0f} MiB", flush=True)
        self.assertGreater(arena_now, 150 * MIB)
        self.assert_within(daemon)


class Ids(Bounds):
    """What is known of each file that ever was in a dataset."""

    ROUNDS, SETTLED = 30, 10

    def touch(self, dataset, time_s):
        """Every file's time becomes another: for the daemon they are other samples. The folders' do too, so that it
        looks."""
        paths = files_of(dataset)
        for path in {os.path.dirname(path) for path in paths}.union(paths):
            os.utime(path, (time_s, time_s))

    def test_files_that_change_again_and_again(self):
        """Two trees, all of whose files are touched before each registration, take no more memory after thirty rounds
        than after ten, and nobody is given the other's images under ids that both have had."""
        count = 4000
        trees = [make_tree(os.path.join(self.folder, str(seed)), count, classes=1, width=16, height=16, seed=seed)
                 for seed in (1, 2)]
        daemon = self.bounded(16, 8, 16)
        grown, first = [], {}
        for number in range(self.ROUNDS):
            dataset = trees[number % 2]
            self.touch(dataset, 1_000_000_000 + number)
            with self.loader(daemon, dataset, 500, [{"resize": {"size": [8, 8]}}], shuffle="none") as loader:
                images = b"".join(batch[0].tobytes() for batch in loader)
            self.assertTrue(first.setdefault(dataset, images) == images)
            grown.append(self.resident(daemon, "RssAnon"))
        print("heap after each round:", " ".join(f"{heap / MIB:.1f}" for heap in grown), "MiB", flush=True)
        self.assertTrue(until(lambda: daemon.log().count("indexing it anew") == self.ROUNDS - 2, 5), daemon.log())
        if not SANITIZED:
            self.assertLess(grown[-1] - grown[self.SETTLED - 1], 3 * MIB)


SANITIZED = float(os.environ.get("LARDER_TEST_PATIENCE", "1")) > 1  # its own memory is many times the program's

if __name__ == "__main__":
    main()
