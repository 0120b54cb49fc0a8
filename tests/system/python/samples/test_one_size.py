"""Pipelines without a crop, on datasets whose images have one size: the daemon finds the size out, and an image of
another one is a bad sample."""

import json
import os
import subprocess
import threading
import zlib

import numpy as np

import above  # noqa: F401
from system import BIN, CONFIG, SLOW, Case, files_of, larder, main, tree

COUNT = 40
FLIP = [larder.RandomHorizontalFlip()]
AS_IT_IS = [larder.Layout("HWC")]
SIZED = '[{"exact_size":{"size":[32,32]}},'


def write_png(path, pixels):
    """An 8-bit PNG of an array: (height, width), grey, or (height, width, 3)."""
    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    height, width = pixels.shape[:2]
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2 if pixels.ndim == 3 else 0, 0, 0, 0])
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
                   + chunk(b"IEND", b""))


def noise(index, *shape):
    return np.random.default_rng(index).integers(0, 256, shape, dtype=np.uint8)


def by_index(loader):
    """One epoch: {index: pixels}."""
    return {index: np.array(image) for images, _, indices in loader for index, image in zip(indices.tolist(), images)}


def together(work, count):
    """What work(0) … work(count - 1) give, each in a thread of its own."""
    results = [None] * count

    def one(number):
        results[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class OneSize(Case):
    def pngs(self, name="tree", odd=(), shape=(32, 32, 3), other=(32, 40, 3)):
        """A tree of PNGs in two classes, those of the indices in `odd` of another size."""
        root = os.path.join(self.folder, name)
        for index in range(COUNT):
            folder = os.path.join(root, f"c{2 * index // COUNT}")
            os.makedirs(folder, exist_ok=True)
            write_png(os.path.join(folder, f"{index:03d}.png"), noise(index, *(other if index in odd else shape)))
        return root

    def run_tool(self, *words):
        result = subprocess.run([os.path.join(BIN, "larder"), *words], capture_output=True, text=True, check=False,
                                timeout=120 * SLOW)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_colour(self):
        """A JPEG dataset of one size in every order, with chance and without: each sample once, in that size, with the
        pixels that a crop of all of it gives."""
        daemon, small = self.daemon(), tree(120, width=32, height=32)
        crop = by_index(self.loader(daemon, small, pipeline=[larder.CenterCrop(32)]))
        for shuffle in ("dependent", "strict", "none"):
            got = by_index(self.loader(daemon, small, pipeline=AS_IT_IS, shuffle=shuffle))
            self.assertEqual(sorted(got), list(range(120)))
            for index, image in got.items():
                np.testing.assert_array_equal(image, crop[index])
            train = [*FLIP, larder.ToDtype("float32", scale=True), larder.Normalize([0.5] * 3, [0.25] * 3)]
            for index, image in by_index(self.loader(daemon, small, pipeline=train, shuffle=shuffle)).items():
                plain = (crop[index].astype(np.float32) / 255 - 0.5) / 0.25
                self.assertEqual((image.shape, image.dtype), ((32, 32, 3), np.float32))
                self.assertTrue(np.allclose(image, plain, atol=1e-5) or np.allclose(image, plain[:, ::-1], atol=1e-5))

    def test_grey(self):
        """Grey PNGs of 28 × 28, in one channel and in three, are as they were written."""
        daemon, root = self.daemon(), self.pngs(shape=(28, 28))
        tensor = [larder.Grayscale(), larder.ToDtype("float32", scale=True), larder.Layout("CHW")]
        for index, image in by_index(self.loader(daemon, root, pipeline=tensor)).items():
            np.testing.assert_allclose(image, noise(index, 28, 28)[None].astype(np.float32) / 255, atol=1e-6)
        for index, image in by_index(self.loader(daemon, root, pipeline=AS_IT_IS)).items():
            np.testing.assert_array_equal(image, np.repeat(noise(index, 28, 28)[:, :, None], 3, axis=2))

    def test_what_follows_from_the_size(self):
        """Lists that make their size from the images' have it: a shorter edge, a border, a group."""
        daemon, root = self.daemon(), self.pngs(shape=(24, 36, 3))
        for pipeline, shape in (([larder.Resize(12)], (12, 18, 3)), ([larder.Pad([1, 2])], (28, 38, 3)),
                                ([larder.RandomApply(FLIP)], (24, 36, 3)), ([larder.ExactSize([24, 36])], (24, 36, 3)),
                                ([larder.RandomRotation(20)], (24, 36, 3))):
            got = by_index(self.loader(daemon, root, pipeline=pipeline))
            self.assertEqual((len(got), {image.shape for image in got.values()}), (COUNT, {shape}), pipeline)
        for pipeline, words in (([larder.RandomRotation(20, expand=True)], "different sizes: end it with a crop"),
                                ([larder.ExactSize([24, 36]), larder.ExactSize(24)], "not 24 × 24"),
                                ([larder.RandomApply([larder.Pad(1)])],
                                 "for images of 36 × 24 pixels.*different shapes")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                self.loader(daemon, root, pipeline=pipeline)
        with self.assertRaisesRegex(larder.InvalidArgument, "for images of 8193 × 1 pixels: .*from 1 to 8192"):
            self.loader(daemon, self.pngs("long", shape=(1, 8193, 3)), pipeline=FLIP)

    def test_another_size(self):
        """One image of another size, the first or a later one, is a bad sample under each policy, with its name and
        both sizes in the log; all others come."""
        daemon = self.daemon(CONFIG + "limits: {bad: 50%}\n")
        for odd in (0, 23):
            root = self.pngs(f"odd-{odd}", {odd})
            rest = sorted(set(range(COUNT)) - {odd})
            with self.assertWarns(larder.BadSamplesWarning):
                self.assertEqual(sorted(by_index(self.loader(daemon, root, pipeline=FLIP))), rest)
            with self.assertWarns(larder.BadSamplesWarning):
                replaced = [index for _, _, indices in self.loader(daemon, root, pipeline=FLIP, bad_samples="replace")
                            for index in indices.tolist()]
            self.assertEqual((len(replaced), sorted(set(replaced))), (COUNT, rest))
            with self.assertRaisesRegex(larder.BadSample, rf"/{odd:03d}\.png \(other_size\)"):
                list(self.loader(daemon, root, pipeline=FLIP, bad_samples="error"))
            self.assertTrue(daemon.logged(f'{odd:03d}.png" reason=other_size err="pipeline[0] exact_size: it has '
                                          '40 × 32 pixels where all images must have 32 × 32'), daemon.log())
        bad = {reason: count for reason, count in daemon.status()["samples"]["bad"].items() if count}
        self.assertEqual(list(bad), ["other_size"])

    def test_sizes_that_differ(self):
        """A dataset of which more than a quarter has another size is refused with two of its files, whose sizes are
        told; the part of it that has one size is served."""
        daemon, root = self.daemon(), self.pngs(odd=range(COUNT // 2, COUNT))
        with self.assertRaisesRegex(larder.InvalidArgument, "different sizes.* of 16 that were looked at, c0/000.png "
                                    "has 32 × 32 pixels and c1/020.png has 40 × 32; end it with a crop"):
            self.loader(daemon, root, pipeline=FLIP)
        for subset, shape in (("c0", (32, 32, 3)), ("c1", (32, 40, 3))):
            got = by_index(self.loader(daemon, root, pipeline=FLIP, subset=larder.Classes(subset)))
            self.assertEqual((len(got), {image.shape for image in got.values()}), (COUNT // 2, {shape}))

    def test_unreadable(self):
        """Images that cannot be read have no say in the size; where none can be, the job is refused with the name of
        one, and the daemon goes on."""
        daemon, root = self.daemon(), self.pngs()
        files = files_of(root)
        for path in files[:-2]:
            with open(path, "wb") as file:
                file.write(b"no image")
        some = self.loader(daemon, root, pipeline=FLIP, subset=larder.Range(COUNT - 14, COUNT))
        with self.assertRaisesRegex(larder.BadSample, "2 of 14 samples are bad"):
            list(some)
        with self.assertRaisesRegex(larder.FormatError, "of 2 that were looked at none could be read.*/c0/000.png: "):
            self.loader(daemon, root, pipeline=FLIP, subset=larder.Range(0, 2))
        os.unlink(files[0])
        os.symlink("nowhere", files[0])
        with self.assertRaisesRegex(larder.LarderError, "of 1 that were looked at none could be read.*000.png"):
            self.loader(daemon, root, pipeline=FLIP, subset=larder.Range(0, 1))
        self.assertEqual(len(list(self.loader(daemon, root, 8, pipeline=[], subset=larder.Range(8, 16)))), 1)

    def test_shared(self):
        """Jobs without a size, and one that names it, are of one pipeline: together they prepare each sample once, on
        parts of the dataset too."""
        daemon, root = self.daemon(), self.pngs()
        loaders = [self.loader(daemon, root, 8, AS_IT_IS), self.loader(daemon, root, 8, AS_IT_IS, shuffle="none"),
                   self.loader(daemon, root, 8, [larder.ExactSize(32), *AS_IT_IS]),
                   self.loader(daemon, root, 8, AS_IT_IS, subset=larder.Range(3, COUNT))]
        self.assertEqual(len({job["pipeline"] for job in daemon.status()["jobs"]}), 1)
        got = together(lambda number: by_index(loaders[number]), 4)
        self.assertEqual([len(epoch) for epoch in got], [COUNT, COUNT, COUNT, COUNT - 3])
        self.assertEqual(daemon.status()["samples"]["prepared"], COUNT)

    def test_ranks(self):
        """Ranks each find the same size: together they get each sample once."""
        daemon, root = self.daemon(), self.pngs()

        def rank(number):
            with self.loader(daemon, root, 3, FLIP, name="train", rank=number, world_size=4) as loader:
                return list(by_index(loader))

        self.assertEqual(sorted(sum(together(rank, 4), [])), list(range(COUNT)))

    def test_another_daemon(self):
        """After a daemon was killed the job goes on with the rest of its epoch, in the next one, under the same
        pipeline; so does one that is restored of a state."""
        daemon, root = self.daemon(), self.pngs(odd={0})
        loader = self.loader(daemon, root, 4, FLIP, name="train", seed=3, bad_samples="replace")
        pipeline = daemon.jobs()["train"]["pipeline"]
        self.assertTrue(pipeline.startswith(SIZED), pipeline)
        epoch = iter(loader)
        taken = [index for _ in range(3) for index in next(epoch)[-1].tolist()]
        state = loader.state_dict()
        daemon.kill()
        daemon = self.daemon()
        rest = [index for batch in epoch for index in batch[-1].tolist()]
        self.assertEqual(daemon.jobs()["train"]["pipeline"], pipeline)
        self.assertEqual((len(taken + rest), set(taken + rest)), (COUNT, set(range(1, COUNT))))
        loader.close()
        daemon.stop()
        daemon = self.daemon()
        with self.loader(daemon, root, 4, FLIP, name="train", seed=3, bad_samples="replace", state=state) as restored:
            rest = [index for batch in restored for index in batch[-1].tolist()]
            self.assertEqual(daemon.jobs()["train"]["pipeline"], pipeline)
        self.assertEqual((len(taken + rest), set(taken + rest)), (COUNT, set(range(1, COUNT))))

    def test_store(self):
        """A packed store, and a dataset whose pipeline the configuration gives."""
        root, store = self.pngs(), os.path.join(self.folder, "store")
        self.run_tool("pack", root, store, "--quiet")
        named = f'datasets: {{small: {{path: "{store}", pipeline: [{{random_horizontal_flip: {{p: 1}}}}]}}}}\n'
        daemon = self.daemon(CONFIG + named)
        for dataset, pipeline, step in ((store, AS_IT_IS, 1), ("small", None, -1)):
            got = by_index(self.loader(daemon, dataset, pipeline=pipeline))
            pixels = sorted(image.tobytes() for image in got.values())
            expected = sorted(noise(index, 32, 32, 3)[:, ::step].tobytes() for index in range(COUNT))
            self.assertEqual(pixels, expected)
        self.run_tool("check", os.path.join(self.folder, "larder.yaml"))

    def test_tools(self):
        """The commands that take a pipeline take one without a crop, too."""
        small = tree(120, width=32, height=32)
        sheet = os.path.join(self.folder, "sheet.png")
        pipeline = json.dumps([step.spec for step in FLIP])
        self.run_tool("prepare", files_of(small)[0], "--pipeline", pipeline, "--out", sheet, "--grid", "4")
        with open(sheet, "rb") as file:
            header = file.read(24)
        self.assertEqual([int.from_bytes(header[at:at + 4], "big") for at in (16, 20)], [64, 64])
        told = json.loads(self.run_tool("bench", "prepare", small, "--pipeline", pipeline, "--seconds", "0.1"))
        self.assertTrue(told["pipeline"].startswith(SIZED), told)
        self.assertEqual(told["images"], 120)
        told = self.run_tool("plan", small, "--pipeline", pipeline, "--warm", "--json")
        self.assertGreater(json.loads(told)["rows"][0]["first"]["prepared"], 0)


if __name__ == "__main__":
    main()
