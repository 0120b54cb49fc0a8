"""Storage classes of the form `planes`: JPEGs are written once more while nothing else is done, the pixels stay those
of the files, and who wants the files' bytes gets them, whatever happens to the daemon or the disk."""

import errno
import os
import random
import shutil
import subprocess
import tempfile
import warnings

import above  # noqa: F401
import numpy as np
from faulty import Faults
from system import BIN, LONG, Case, files_of, main, odd_photographs, until

COUNT, ODD = 60, 3
GOOD = COUNT - ODD
KILLS = 100 if LONG else 6
SLOW_SOURCE = 2_000_000  # bytes a second
SEED = int(os.environ.get("LARDER_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
CROP = [{"random_resized_crop": {"size": 32}}, "random_horizontal_flip"]
PIPELINES = {
    "crop": [{"center_crop": {"size": [50, 60]}}],
    "resize": [{"resize": {"size": 64}}, {"center_crop": {"size": 48}}],
    "scaled": [{"resize": {"size": 40, "dct_scaling": True}}, {"center_crop": {"size": 32}}],
    "random": CROP,
}
CONFIG = """\
memory: {{arena: 5MiB, encoded: 1MiB, decoded: never}}
threads: {{workers: 2, loaders: 4}}
catalog: {{checkpoint: {checkpoint}}}
metrics: {{enabled: false}}
storage:
  - {{path: {path}, size: {size}B, form: {form}}}
"""


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class StoragePlanes(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix="larder-class-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.made = odd_photographs(os.path.join(folder, "tree"),
                                   {"a": (320, 240), "b": (199, 301), "c": (640, 480)}, COUNT // 3, (3, 25, 40))

    def setUp(self):
        super().setUp()
        self.faults = Faults(self.folder)
        self.tree = shutil.copytree(self.made, os.path.join(self.folder, "tree"))
        self.files = files_of(self.tree)
        self.total = sum(os.path.getsize(path) for path in self.files)
        self.path = os.path.join(self.folder, "class")
        self.faults.begin("SLOW", path=self.tree, from_bytes=SLOW_SOURCE)
        warnings.simplefilter("ignore")  # some samples are bad
        print("seed", SEED)

    def serve(self, form="planes", size=None):
        config = CONFIG.format(checkpoint=os.path.join(self.folder, "checkpoints"), path=self.path, form=form,
                               size=size or 3 * self.total)
        return self.daemon(config, environment=self.faults.environment)

    def job(self, daemon, **options):
        return self.loader(daemon, self.tree, 8, **{"pipeline": CROP, "bad_samples": "skip", **options})

    def pixels(self, daemon, pipeline, **options):
        """What a strict job gets: of each sample its label and pixels."""
        got = {}
        with self.job(daemon, pipeline=pipeline, shuffle="strict", seed=SEED, **options) as loader:
            for batch, labels, indices in loader:
                got.update((index, (label, np.array(image)))
                           for image, label, index in zip(batch, labels.tolist(), indices.tolist()))
        return got

    def want(self, pipeline):
        """What a daemon without classes gives."""
        daemon = self.daemon()
        pixels = self.pixels(daemon, pipeline)
        daemon.stop()
        return pixels

    def assert_pixels(self, one, other):
        self.assertEqual(len(one), GOOD)
        self.assertEqual(list(one), list(other))
        for index, (label, image) in one.items():
            self.assertEqual(label, other[index][0])
            self.assertTrue(np.array_equal(image, other[index][1]), index)

    def assert_bytes(self, daemon, **options):
        """A job without operators gets each file's bytes."""
        seen = set()
        with self.job(daemon, pipeline=[], **options) as loader:
            for batch, _, indices in loader:
                for index, data in zip(indices.tolist(), batch):
                    seen.add(index)
                    self.assertEqual(bytes(data), bytes_of(self.files[index]), f"the bytes of sample {index}")
        self.assertEqual(len(seen), COUNT)

    def read(self, daemon):
        """Samples read from the source so far, and from the class."""
        storage = daemon.status()["storage"]
        return storage["source"]["samples"], storage["classes"][0]["read"]["samples"]

    def state(self, daemon):
        return daemon.status()["storage"]["classes"][0]

    def fill(self, daemon):
        """Has the class written, and waits until what can be in planes is."""
        with self.job(daemon) as loader:
            for _ in range(100):
                for _ in loader:
                    pass
                self.assertTrue(until(lambda: self.state(daemon)["waiting_bytes"] == 0, 30), daemon.log())
                if self.state(daemon)["samples"] == COUNT:
                    break
        self.assertTrue(until(lambda: self.state(daemon)["planes_left"] == 0, 60), self.state(daemon))
        self.assertEqual(self.state(daemon)["planes"], GOOD)

    def larder(self, *arguments):
        return subprocess.run([os.path.join(BIN, "larder"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def verify(self):
        verified = self.larder("cache", self.path, "--verify")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        return verified.stdout

    def test_the_same_pixels(self):
        """Whole pipelines give the files' pixels from planes, over a restart too, without a read of the source. The
        class says what it has, and keeps nothing twice."""
        plain = self.serve(form="as_read")
        want = {name: self.pixels(plain, pipeline) for name, pipeline in PIPELINES.items()}
        with self.job(plain) as loader:
            for _ in range(100):
                for _ in loader:
                    pass
                if self.state(plain)["samples"] == COUNT and self.state(plain)["waiting_bytes"] == 0:
                    break
        before = self.state(plain)
        self.assertEqual((before["form"], before["planes"], before["samples"]), ("as_read", 0, COUNT))
        plain.stop()
        for stop in ("stop", "kill"):
            daemon = self.serve()
            self.fill(daemon)
            state, (source, own) = self.state(daemon), self.read(daemon)
            self.assertEqual((state["form"], state["samples"], state["corrupt"]), ("planes", COUNT, 0))
            self.assertLess(state["used_bytes"], 1.1 * before["used_bytes"])
            for name, pipeline in PIPELINES.items():
                if name != "scaled":
                    self.assert_pixels(want[name], self.pixels(daemon, pipeline))
            self.assertEqual(self.read(daemon)[0], source)
            self.assertGreater(self.read(daemon)[1], own)
            self.assert_pixels(want["scaled"], self.pixels(daemon, PIPELINES["scaled"]))
            self.assertIn(f"{GOOD} of {COUNT} samples in planes", self.larder("status", "--socket",
                                                                             daemon.socket).stdout)
            getattr(daemon, stop)()
            self.assertIn(f"{GOOD} of the samples", self.verify())
        back = self.serve(form="as_read")
        self.assert_pixels(want["crop"], self.pixels(back, PIPELINES["crop"]))
        self.assertEqual(self.state(back)["planes"], GOOD)

    def test_as_read(self):
        """While a job without operators runs, nothing is written in planes, and what is in planes comes to it from the
        source; also beside a job that reads planes, and of samples that this one has in memory."""
        want = self.want(CROP)
        daemon = self.serve()
        raw = self.job(daemon, pipeline=[], name="raw")
        for _ in range(3):
            for _ in raw:
                pass
            self.assertTrue(until(lambda: self.state(daemon)["waiting_bytes"] == 0, 30), daemon.log())
        self.assertEqual(self.state(daemon)["planes"], 0)
        raw.close()
        self.fill(daemon)
        for _ in range(2):  # nothing is left in memory
            daemon.stop()
            daemon = self.serve()
            loader = self.job(daemon, epochs=3)
            batches = iter(loader)
            next(batches)
            source = self.read(daemon)[0]
            self.assert_bytes(daemon)
            self.assertGreaterEqual(self.read(daemon)[0] - source, GOOD // 2)
            self.assert_pixels(want, self.pixels(daemon, CROP))
            next(batches)
            loader.close()
            self.assertEqual(self.state(daemon)["planes"], GOOD)

    def test_killed_while_written(self):
        """Daemons are killed at random moments while they write planes: the class has each sample once, in one of its
        forms, and pixels stay right."""
        generator = random.Random(SEED)
        want = self.want(CROP)
        plain = self.serve(form="as_read")
        self.pixels(plain, CROP)
        self.assertTrue(until(lambda: self.state(plain)["waiting_bytes"] == 0, 30), plain.log())
        samples, planes = self.state(plain)["samples"], []
        plain.stop()
        for _ in range(KILLS):
            daemon = self.serve()
            self.assertEqual(self.state(daemon)["samples"], samples)
            least = min(GOOD, (planes or [0])[-1] + generator.randrange(GOOD // 3))
            self.assertTrue(until(lambda: self.state(daemon)["planes"] >= least, 60), self.state(daemon))
            daemon.kill()
            self.verify()
            planes.append(least)
        print("in planes at each kill, at least:", planes)
        daemon = self.serve()
        self.fill(daemon)
        self.assert_pixels(want, self.pixels(daemon, CROP))
        self.assertEqual(self.state(daemon)["corrupt"], 0)

    def test_disk_full(self):
        """A disk that takes no more while planes are written: the class is switched off for writing, and has every
        sample, some in planes."""
        want = self.want(CROP)
        plain = self.serve(form="as_read")
        self.pixels(plain, CROP)
        self.assertTrue(until(lambda: self.state(plain)["waiting_bytes"] == 0, 30), plain.log())
        samples = self.state(plain)["samples"]
        plain.stop()
        self.faults.begin("WRITE", errno.ENOSPC, skip=20, path="segment-")
        daemon = self.serve()
        self.assertTrue(until(lambda: self.state(daemon)["state"] == "read_only", 60), self.state(daemon))
        state = self.state(daemon)
        self.assertEqual(state["samples"], samples)
        self.assertGreater(state["planes"], 0)
        self.assertLess(state["planes"], samples - ODD)
        source = self.read(daemon)[0]
        self.assert_pixels(want, self.pixels(daemon, CROP))
        self.assertEqual(self.read(daemon)[0] - source, COUNT - samples)
        self.faults.end()
        daemon.stop()
        self.verify()

    def test_damaged(self):
        """Planes that are changed on the disk cost a read of the source: no wrong pixel comes, and they are counted,
        and written again."""
        want = self.want(CROP)
        daemon = self.serve()
        self.fill(daemon)
        for name in os.listdir(self.path):
            if "segment" in name:
                with open(os.path.join(self.path, name), "r+b") as file:
                    for at in range(1000, os.path.getsize(file.name), 50_000):
                        file.seek(at)
                        file.write(b"damage")
        self.assert_pixels(want, self.pixels(daemon, CROP))
        self.assertGreater(self.state(daemon)["corrupt"], 10)
        self.fill(daemon)

    def test_changed_files(self):
        """A file that was replaced gives its new pixels: planes are of one version of a file."""
        daemon = self.serve()
        self.fill(daemon)
        one, other = self.files[0], self.files[COUNT // 2]
        moved = os.path.join(self.folder, "moved")
        shutil.copyfile(one, moved)
        shutil.copyfile(other, one)
        os.replace(moved, other)
        daemon.stop()
        want = self.want(CROP)
        daemon = self.serve()
        self.assert_pixels(want, self.pixels(daemon, CROP))

    def test_full(self):
        """A class for half of the dataset stays within its size while samples are written in planes, and a class that
        was full before has some room made."""
        want = self.want(CROP)
        for forms in (("planes", "planes"), ("as_read", "planes")):
            shutil.rmtree(self.path, ignore_errors=True)
            size = self.total // 2
            for form in forms:
                daemon = self.serve(form=form, size=size)
                for _ in range(3):
                    self.assert_pixels(want, self.pixels(daemon, CROP))
                    self.assertTrue(until(lambda: self.state(daemon)["waiting_bytes"] == 0, 30), daemon.log())
                    self.assertLessEqual(self.state(daemon)["used_bytes"], size)
                loader = self.job(daemon, epochs=100)
                if form == "planes":
                    self.assertTrue(until(lambda: self.state(daemon)["planes_left"] == 0, 60), self.state(daemon))
                    self.assertGreater(self.state(daemon)["planes"], 0)
                    self.assertLessEqual(self.state(daemon)["used_bytes"], size)
                loader.close()
                daemon.stop()
                self.verify()


if __name__ == "__main__":
    main()
