"""Stores that were packed with --max-side: smaller images under the tree's indices, in a dataset of its own."""

import json
import os
import random
import struct

import numpy as np

from stores import change, command, contents, everything, larder, pack
from system import Case, files_of, main, make_tree

COUNT, ODD = 60, 6
SIDE = 160
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))
SQUARE = [{"resize": {"size": [40, 40]}}]
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"  # orientation 6


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def segments(jpeg):
    """The segments before the first scan: (marker, data)."""
    at = 2
    while jpeg[at + 1] != 0xDA:
        size = struct.unpack(">H", jpeg[at + 2:at + 4])[0]
        yield jpeg[at + 1], jpeg[at + 4:at + 2 + size]
        at += 2 + size


def shape(jpeg):
    """Width, height, components of a JPEG."""
    _, height, width, components = next(struct.unpack(">BHHB", data[:6]) for marker, data in segments(jpeg)
                                        if marker in (0xC0, 0xC2))
    return width, height, components


class MaxSide(Case):
    def setUp(self):
        """Photographs above the size in class a; of it and below in b and c; and in odd a colour and a grey image of
        other formats, one with an orientation, one that is cut short, one whose data are damaged, and no image."""
        super().setUp()
        self.tree = os.path.join(self.folder, "tree")
        for name, width, height in (("a", 320, 240), ("b", SIDE, 120), ("c", 90, 100)):
            made = make_tree(os.path.join(self.folder, name), COUNT // 3, classes=1, width=width, height=height)
            os.makedirs(self.tree, exist_ok=True)
            os.rename(os.path.join(made, "class_00"), os.path.join(self.tree, name))
        draw, odd = random.Random(5), os.path.join(self.tree, "odd")
        os.mkdir(odd)
        image = read(files_of(self.tree)[0])
        files = {"0.ppm": b"P6 200 300 255\n" + draw.randbytes(200 * 300 * 3),
                 "1.pgm": b"P5 1000 1 255\n" + draw.randbytes(1000),
                 "2.jpg": image[:2] + b"\xff\xe1" + struct.pack(">H", len(EXIF) + 2) + EXIF + image[2:],
                 "3.jpg": image[:-500], "4.jpg": image[:1500] + b"\xff\xd9", "5.jpg": b"no image at all"}
        for name, data in files.items():
            write(os.path.join(odd, name), data)
        for path in files_of(self.tree):
            os.utime(path, (1e9, 1e9))
        self.count = COUNT + ODD
        self.store = os.path.join(self.folder, "store")

    def shrunk(self, *options, name="store"):
        return pack(self.tree, os.path.join(self.folder, name), "--max-side", SIDE, *options)

    def bytes_of(self, store):
        """What the store holds of each file."""
        got = {}
        for samples, _, indices in self.loader(self.daemon(), store, pipeline=[]):
            got.update((index, bytes(sample)) for sample, index in zip(samples, indices.tolist()))
        self.assertEqual(sorted(got), list(range(self.count)))
        return [got[index] for index in range(self.count)]

    def test_what_pack_and_verify_say(self):
        """Both count what was shrunk and what could not be decoded, and files that cannot be are named. The same
        command twice gives the same bytes, with other threads too."""
        result = command("pack", self.tree, self.store, "--max-side", SIDE)
        self.assertEqual(result.returncode, 0, result.stderr)
        shrunk = COUNT // 3 + 3
        self.assertIn(f"{shrunk} of them rewritten and {self.count - shrunk} as they were", result.stdout)
        self.assertIn(f"{shrunk} of them shrunk to {SIDE} pixels, 3 could not be decoded and are as they were",
                      result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 3, result.stderr)
        for name in "345":
            self.assertRegex(result.stderr, f'level=warn .*file="odd/{name}.jpg" err="')
        again = self.shrunk("--threads", 1, name="again")
        self.assertEqual(contents(self.store), contents(again))
        self.assertIn("nothing to do", command("pack", self.tree, self.store, "--max-side", SIDE).stdout)
        result = command("verify", self.store)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"no restart rows, {shrunk} shrunk to {SIDE} pixels as JPEG of quality 90, 3 could not be "
                      "decoded when it was packed", result.stdout)
        rows = self.shrunk("--restart-rows", "--quality", 75, name="rows")
        self.assertIn(f"restart rows in {self.count - 3}, {shrunk} shrunk to {SIDE} pixels as JPEG of quality 75",
                      command("verify", rows).stdout)

    def test_files(self):
        """Each image above the size has the size, as a JPEG, grey where it was grey, and keeps its orientation. All
        others are the source's bytes."""
        files, got = files_of(self.tree), self.bytes_of(self.shrunk())
        expected = {**{os.path.basename(path): (SIDE, 120, 3) for path in files[:COUNT // 3]},
                    "0.ppm": (107, SIDE, 3), "1.pgm": (SIDE, 1, 1), "2.jpg": (SIDE, 120, 3)}
        for path, data in zip(files, got):
            shrunk = os.path.dirname(path).endswith(("a", "odd")) and os.path.basename(path) in expected
            if not shrunk:
                self.assertEqual(data, read(path), path)
                continue
            self.assertEqual(shape(data), expected[os.path.basename(path)], path)
            oriented = [exif for marker, exif in segments(data) if marker == 0xE1]
            self.assertEqual(oriented, [EXIF] if path.endswith("odd/2.jpg") else [], path)

    def test_pixels(self):
        """A job on the store gets what a job on the tree gets of images that it resizes with Lanczos's filter, but for
        what JPEG loses. With restart rows the pixels are the same to the bit."""
        daemon, few = self.daemon(), larder.Classes("a")
        plain, rows = self.shrunk("--quality", 98), self.shrunk("--quality", 98, "--restart-rows", name="rows")
        lanczos = [{"resize": {"size": [120, SIDE], "interpolation": "lanczos"}}]
        expected = everything(self.loader(daemon, self.tree, pipeline=lanczos, subset=few))
        got = everything(self.loader(daemon, plain, pipeline=[{"center_crop": {"size": [120, SIDE]}}], subset=few))
        self.assertEqual(sorted(got), list(range(COUNT // 3)))
        for index, (label, image) in got.items():
            self.assertEqual(label, expected[index][0])
            difference = np.abs(image.astype(int) - expected[index][1]).mean()
            self.assertLess(difference, 6, index)
        crop = [{"random_crop": {"size": 64, "pad_if_needed": True}}]
        pair = [everything(self.loader(daemon, store, pipeline=crop, shuffle="strict", seed=SEED, bad_samples="skip"))
                for store in (plain, rows)]
        self.assertEqual(len(pair[0]), self.count - 3)
        self.assertEqual(list(pair[0]), list(pair[1]))
        for index, (_, image) in pair[0].items():
            self.assertTrue(np.array_equal(image, pair[1][index][1]), index)

    def test_a_dataset_of_its_own(self):
        """A job's state on the tree is none for the store, nor is that of another size or quality; nothing prepared is
        shared with the plain store. With another seed, and with restart rows, it is the same dataset."""
        daemon = self.daemon()
        stores = [pack(self.tree, os.path.join(self.folder, "plain")), self.shrunk(),
                  self.shrunk("--quality", 80, name="lower"),
                  pack(self.tree, os.path.join(self.folder, "smaller"), "--max-side", 50)]
        for store in stores:
            loader = self.loader(daemon, store, pipeline=SQUARE, subset=larder.Classes("b"))
            state = loader.state_dict()
            loader.close()
            for other in stores:
                resumed = self.loader(daemon, other, pipeline=SQUARE, subset=larder.Classes("b"))
                if other == store:
                    resumed.load_state_dict(state)
                    self.assertEqual(len(everything(resumed)), COUNT // 3)
                else:
                    with self.assertRaises(larder.LarderError, msg=(store, other)):
                        resumed.load_state_dict(state)
                        next(iter(resumed))
                resumed.close()
        same = self.shrunk("--seed", 7, "--restart-rows", name="same")
        loader = self.loader(daemon, stores[1], pipeline=SQUARE, subset=larder.Classes("b"))
        state = loader.state_dict()
        resumed = self.loader(daemon, same, pipeline=SQUARE, subset=larder.Classes("b"))
        resumed.load_state_dict(state)
        self.assertEqual(len(everything(resumed)), COUNT // 3)

    def test_no_sharing_with_the_originals(self):
        """Jobs on the plain store and on the smaller one, at once, have every image prepared for each. Jobs on two
        equal smaller ones share."""
        daemon, few = self.daemon(), larder.Classes("a") | larder.Classes("b")
        plain = pack(self.tree, os.path.join(self.folder, "plain"))
        first, second = self.shrunk(), self.shrunk("--seed", 3, name="second")
        for size, (a, b), expected in ((40, (plain, first), (1, 1)), (41, (first, second), (0.5, 0.6))):
            before = daemon.status()["samples"]["prepared"]
            loaders = [self.loader(daemon, store, pipeline=[{"resize": {"size": [size, 40]}}], batch_size=10,
                                   subset=few) for store in (a, b)]
            delivered = sum(len(batch[-1]) for batches in zip(*loaders) for batch in batches)
            prepared = daemon.status()["samples"]["prepared"] - before
            self.assertEqual(delivered, 2 * 2 * COUNT // 3)
            self.assertGreaterEqual(prepared, expected[0] * delivered)
            self.assertLessEqual(prepared, expected[1] * delivered)
            for loader in loaders:
                loader.close()

    def test_status(self):
        """`larder status --json` and `larder datasets` say how a store was packed, and what was not."""
        daemon, shrunk = self.daemon(), COUNT // 3 + 3
        cases = ((self.tree, None, "not packed"),
                 (pack(self.tree, os.path.join(self.folder, "plain")),
                  {"max_side": None, "quality": None, "shrunk": 0, "undecoded": 0, "restart_rows": None,
                   "planes": None}, "a store"),
                 (pack(self.tree, os.path.join(self.folder, "rows"), "--restart-rows"),
                  {"max_side": None, "quality": None, "shrunk": 0, "undecoded": 0, "restart_rows": COUNT + 1,
                   "planes": None},
                  f"a store, restart rows in {COUNT + 1}"),
                 (self.shrunk("--restart-rows", "--quality", 80),
                  {"max_side": SIDE, "quality": 80, "shrunk": shrunk, "undecoded": 3, "restart_rows": COUNT + 3,
                   "planes": None},
                  f"a store, {shrunk} shrunk to {SIDE} (quality 80), restart rows in {COUNT + 3}"))
        loaders = [self.loader(daemon, path, pipeline=SQUARE, name=f"job{number}")
                   for number, (path, _, _) in enumerate(cases)]
        for loader in loaders:
            next(iter(loader))
        jobs = {job["name"]: job for job in daemon.status()["jobs"]}
        rows = json.loads(command("datasets", "--json", "--socket", daemon.socket).stdout)
        shown = command("datasets", "--socket", daemon.socket).stdout.splitlines()
        self.assertEqual(len(rows), len(cases))
        for number, (path, expected, words) in enumerate(cases):
            self.assertEqual(jobs[f"job{number}"]["store"], expected)
            self.assertEqual([row["store"] for row in rows if row["dataset"] == path], [expected])
            self.assertTrue(any(f"  {words}  " in line and line.endswith(f" job{number}") for line in shown), shown)

    def test_wrong_use(self):
        """Sizes and qualities that cannot be are wrong usage, which says what can; nothing is made."""
        for options, text in ((("--max-side", 0), "from 1 to 65500"), (("--max-side", -1), "from 1 to 65500"),
                              (("--max-side", 65501), "from 1 to 65500"), (("--max-side", "a"), "from 1 to 65500"),
                              (("--max-side", ""), "from 1 to 65500"), (("--max-side",), "--max-side needs a value"),
                              (("--max-side", 100, "--quality", 0), "from 1 to 100"),
                              (("--max-side", 100, "--quality", 101), "from 1 to 100"),
                              (("--max-side", 100, "--quality", "90%"), "from 1 to 100"),
                              (("--quality", 80), "give both"),
                              (("--quality", 80, "--restart-rows"), "give both")):
            result = command("pack", self.tree, self.store, *options)
            self.assertEqual((result.returncode, result.stdout), (2, ""), options)
            self.assertRegex(result.stderr, "^larder pack: .*" + text, options)
            self.assertFalse(os.path.exists(self.store))

    def test_other_options_are_another_store(self):
        """A pack of another size, quality or kind does not go over a store that is there."""
        before = contents(self.shrunk())
        for options in ((), ("--restart-rows",), ("--max-side", SIDE + 1), ("--max-side", SIDE, "--quality", 91),
                        ("--max-side", SIDE, "--restart-rows")):
            result = command("pack", self.tree, self.store, *options)
            self.assertEqual(result.returncode, 1, options)
            self.assertIn("already holds a store", result.stderr)
        self.assertEqual(contents(self.store), before)

    def test_unreadable_files(self):
        """A file that cannot be read is none that cannot be decoded: it ends the pack, or is left out."""
        os.symlink("/nowhere/at/all", os.path.join(self.tree, "b", "gone.jpg"))
        self.assertEqual(command("pack", self.tree, self.store, "--max-side", SIDE).returncode, 1)
        result = command("pack", self.tree, self.store, "--max-side", SIDE, "--skip-unreadable")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3 could not be decoded and are as they were, 1 could not be read", result.stdout)
        self.assertEqual(command("verify", self.store).returncode, 0)

    def test_any_flipped_bit_is_named(self):
        """A bit flipped anywhere in the index or a segment is found, and the file named."""
        print(f"LARDER_TEST_SEED={SEED}", flush=True)
        draw, store = random.Random(SEED), self.shrunk("--restart-rows")
        for name in sorted(os.listdir(store)):
            path = os.path.join(store, name)
            size = os.path.getsize(path)
            places = [draw.randrange(size) for _ in range(20)] + list(range(88, 104, 2)) + [size - 3]
            for offset in places:
                flip = 1 << draw.randrange(8)
                change(path, offset, flip)
                result = command("verify", store)
                change(path, offset, flip)
                self.assertEqual(result.returncode, 1, (name, offset, flip))
                self.assertEqual({line.split(":")[0] for line in result.stdout.splitlines()}, {name}, result.stdout)
        self.assertEqual(command("verify", store).returncode, 0)

    def test_a_store_as_source(self):
        """A plain store is packed like its folder: every sample is what it is in the store packed from the folder."""
        of_store = pack(pack(self.tree, os.path.join(self.folder, "plain")), os.path.join(self.folder, "of_store"),
                        "--max-side", SIDE)
        daemon = self.daemon()
        got = [everything(self.loader(daemon, store, pipeline=SQUARE, bad_samples="skip"))
               for store in (self.shrunk(), of_store)]
        self.assertEqual(len(got[0]), self.count - 3)
        self.assertEqual(sorted(got[0]), sorted(got[1]))
        for index, (_, image) in got[0].items():
            self.assertTrue(np.array_equal(image, got[1][index][1]), index)


if __name__ == "__main__":
    main()
