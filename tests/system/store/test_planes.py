"""Stores that were packed with --planes: the tree's pixels and indices from coefficients in bit planes, and the way
back to JPEGs."""

import ctypes
import functools
import json
import os
import random
import re
import shutil
import struct
import tempfile

import numpy as np

from stores import change, command, contents, everything, larder, pack
from system import FALSE_PLANES, Case, files_of, main, odd_photographs

COUNT, ODD, ODD_ONES = 120, 3, (3, 50, 70)
GOOD = COUNT - ODD
SIDE = 200
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))
CROP = [{"center_crop": {"size": [50, 60]}}]
PIPELINES = {
    "crop": CROP,
    "resize": [{"resize": {"size": 64}}, {"center_crop": {"size": 48}}],
    "random": [{"random_resized_crop": {"size": [40, 56]}}, "random_horizontal_flip"],
}


def version(store):
    with open(os.path.join(store, "index.larder"), "rb") as file:
        return int.from_bytes(file.read(12)[8:], "little")


ENTRY = 80  # bytes of a sample in the index, at whose end all stand


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def say_that_the_fake_has_planes(store):
    """Makes the index say so of the one sample of its size, and seals it."""
    hash_of = ctypes.CDLL("libxxhash.so.0").XXH3_128bits  # the daemon's own
    hash_of.restype, hash_of.argtypes = Hash, (ctypes.c_char_p, ctypes.c_size_t)
    path = os.path.join(store, "index.larder")
    with open(path, "rb") as file:
        index = bytearray(file.read())
    at, = [at for at in range(len(index) - ENTRY * COUNT, len(index), ENTRY)
           if struct.unpack_from("<Q", index, at + 16)[0] == len(FALSE_PLANES)]
    struct.pack_into("<I", index, at + 52, 8)
    payload = bytes(index[40:])
    digest = hash_of(payload, len(payload))
    struct.pack_into("<QQ", index, 24, digest.low, digest.high)
    with open(path, "wb") as file:
        file.write(index)


class Planes(Case):
    def setUp(self):
        super().setUp()
        self.tree = shutil.copytree(self.made, os.path.join(self.folder, "tree"))
        self.odd = [files_of(self.tree)[number] for number in ODD_ONES]
        self.store = os.path.join(self.folder, "planes")
        self.result = command("pack", self.tree, self.store, "--planes")

    @classmethod
    def setUpClass(cls):
        """Each test has a copy."""
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix="larder-planes-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.made = odd_photographs(os.path.join(folder, "tree"),
                                   {"a": (320, 240), "b": (199, 301), "c": (160, 97)}, COUNT // 3, ODD_ONES)
        for path in files_of(cls.made):
            os.utime(path, (1e9, 1e9))

    @functools.cached_property
    def server(self):
        return self.daemon()

    def packed(self, name, source, *options):
        return pack(source, os.path.join(self.folder, name), *options)

    def encoded(self, store):
        """What the store holds of each file."""
        got = {}
        for samples, _, indices in self.loader(self.server, store, pipeline=[]):
            got.update((index, bytes(sample)) for sample, index in zip(samples, indices.tolist()))
        self.assertEqual(sorted(got), list(range(COUNT)))
        return got

    def assert_same_pixels(self, one, other, pipeline):
        got = [everything(self.loader(self.server, path, pipeline=pipeline, shuffle="strict", seed=SEED,
                                      bad_samples="skip"))
               for path in (one, other)]
        self.assertEqual(len(got[0]), GOOD)
        self.assertEqual(list(got[0]), list(got[1]))
        for index, (label, image) in got[0].items():
            self.assertEqual(label, got[1][index][0])
            self.assertTrue(np.array_equal(image, got[1][index][1]), index)

    def test_what_pack_and_verify_say(self):
        """Both count what is in planes; the store is the same bytes again with other threads. Without the option the
        version is what it was."""
        self.assertEqual((self.result.returncode, self.result.stderr), (0, ""))
        self.assertIn(f"{GOOD} of them rewritten and {ODD} as they were", self.result.stdout)
        self.assertIn(f", {GOOD} of them in planes", self.result.stdout)
        self.assertIn(f", {GOOD} in planes, restart rows in 0", command("verify", self.store).stdout)
        again = self.packed("again", self.tree, "--planes", "--threads", 1)
        self.assertEqual(contents(self.store), contents(again))
        self.assertIn("nothing to do", command("pack", self.tree, self.store, "--planes", "--restart-rows").stdout)
        rows = self.packed("rows", self.tree, "--restart-rows")
        self.assertEqual((version(self.store), version(rows)), (4, 2))

    def test_another_option_is_another_store(self):
        """Neither kind of pack goes over a store of the other kind."""
        rows = self.packed("rows", self.tree, "--restart-rows")
        for dest, options in ((self.store, []), (self.store, ["--restart-rows"]), (rows, ["--planes"]),
                              (self.store, ["--planes", "--max-side", SIDE])):
            result = command("pack", self.tree, dest, *options)
            self.assertEqual(result.returncode, 1)
            self.assertIn("already holds a store", result.stderr)

    def test_the_same_pixels(self):
        """Index for index the labels and pixels are the tree's, for crops, resizing, random crops of a strict job."""
        for name, pipeline in PIPELINES.items():
            with self.subTest(name):
                self.assert_same_pixels(self.tree, self.store, pipeline)

    def test_a_job_goes_on(self):
        """A job that began on the tree goes on with the store, or with one made of it or of restart rows: the rest of
        its epoch, each sample once. It does not where others could have written to what the store was made of."""
        options = {"pipeline": CROP, "batch_size": 20, "bad_samples": "skip"}
        loader = self.loader(self.server, self.tree, **options)
        batches = iter(loader)
        begun = [index for _ in range(2) for index in next(batches)[-1].tolist()]
        state = loader.state_dict()
        loader.close()
        theirs = self.packed("theirs", self.store, "--planes")
        os.chmod(theirs, 0o777)
        for store in (self.store, self.packed("back", self.store), self.packed("again", self.store, "--planes"),
                      self.packed("later", self.packed("rows", self.tree, "--restart-rows"), "--planes")):
            resumed = self.loader(self.server, store, **options)
            resumed.load_state_dict(state)
            rest = everything(resumed)
            self.assertEqual(len(begun) + len(rest), GOOD)
            self.assertEqual(len({*begun, *rest}), GOOD)
            resumed.close()
        with self.loader(self.server, self.packed("mine", theirs), **options) as resumed:
            with self.assertRaises(larder.SourceChanged):
                resumed.load_state_dict(state)

    def test_encoded(self):
        """Without operators a job is refused, and told what to do, whatever samples it asks for."""
        for options in ({}, {"subset": larder.Range(3, 4)}):
            with self.assertRaisesRegex(larder.LarderError, f"{self.store} was packed with --planes, so its samples "
                                        "are no JPEGs; give a pipeline, or pack it again with --restart-rows"):
                next(iter(self.loader(self.server, self.store, pipeline=[], **options)))

    def test_nothing_in_planes(self):
        """Without operators a job gets what a store holds that has no sample in planes."""
        tree = os.path.join(self.folder, "no images")
        os.makedirs(os.path.join(tree, "a"))
        for number in range(COUNT):
            with open(os.path.join(tree, "a", f"{number:03}.jpg"), "w") as file:
                file.write(f"no image {number}")
        got = self.encoded(self.packed("none", tree, "--planes"))
        self.assertEqual(got, {number: b"no image %d" % number for number in range(COUNT)})

    def test_back(self):
        """Packed without --planes, the store gives the JPEGs that --restart-rows makes of the tree, byte for byte, in
        version 2. With --planes its samples stay as they are."""
        rows = self.encoded(self.packed("rows", self.tree, "--restart-rows"))
        for name, options in (("plain", ()), ("restored", ("--restart-rows",))):
            back = os.path.join(self.folder, name)
            result = command("pack", self.store, back, *options)
            self.assertEqual((result.returncode, version(back)), (0, 2))
            self.assertIn("1 could not be decoded and are as they were", result.stdout)
            self.assertRegex(result.stderr, 'level=warn .*err="its planes are damaged"')
            self.assertEqual(self.encoded(back), rows)
            self.assertIn(f"restart rows in {GOOD}", command("verify", back).stdout)
        again = os.path.join(self.folder, "again")
        self.assertIn(f", 0 of them rewritten and {COUNT} as they were", command("pack", self.store, again,
                                                                                 "--planes").stdout)
        self.assertIn(f", {GOOD} in planes", command("verify", again).stdout)
        self.assert_same_pixels(self.tree, again, CROP)

    def test_broken_planes(self):
        """A sample in planes that give no image ends the pack, by its name. With --skip-unreadable it is one that
        cannot be read, and no job gets its planes."""
        say_that_the_fake_has_planes(self.store)
        name = os.path.relpath(self.odd[2], self.tree)
        for number, options in enumerate(((), ("--planes",), ("--max-side", SIDE), ("--max-side", SIDE, "--planes"))):
            with self.subTest(options):
                store = os.path.join(self.folder, str(number))
                result = command("pack", self.store, store, *options)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"larder pack: {name}: its planes are damaged", result.stderr)
                result = command("pack", self.store, store, *options, "--skip-unreadable")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(", 1 could not be read and will be bad samples", result.stdout)
                self.assertEqual(command("verify", store).returncode, 0)
        got = everything(self.loader(self.server, os.path.join(self.folder, "0"), pipeline=[], bad_samples="skip"))
        self.assertEqual(len(got), COUNT - 1)
        self.assertEqual([index for index, (_, image) in got.items() if bytes(image[:8]) == FALSE_PLANES[:8]], [])

    def test_smaller_images(self):
        """With --max-side the pixels are those of --max-side alone, and the way back gives its JPEGs."""
        options = ("--max-side", SIDE, "--restart-rows")
        rows, planes = self.packed("rows", self.tree, *options), self.packed("smaller", self.tree, *options, "--planes")
        self.assertEqual((version(rows), version(planes)), (3, 4))
        self.assert_same_pixels(rows, planes, PIPELINES["random"])
        said = command("verify", planes).stdout
        self.assertRegex(said, rf", {GOOD} in planes, restart rows in 0, \d+ shrunk to {SIDE} pixels as JPEG of "
                         f"quality 90, {ODD} could not be decoded")
        self.assertEqual(self.encoded(self.packed("back", planes)), self.encoded(rows))
        later = self.packed("later", self.store, *options, "--planes")
        self.assert_same_pixels(rows, later, CROP)

    def test_status(self):
        """`larder status --json` and `larder datasets` say that a store has planes, and how many."""
        loader = self.loader(self.server, self.store, pipeline=CROP, name="job")
        next(iter(loader))
        expected = {"max_side": None, "quality": None, "shrunk": 0, "undecoded": 0, "restart_rows": 0,
                    "planes": GOOD}
        self.assertEqual(self.server.status()["jobs"][0]["store"], expected)
        rows = json.loads(command("datasets", "--json", "--socket", self.server.socket).stdout)
        self.assertEqual([row["store"] for row in rows], [expected])
        self.assertIn(f"  a store, planes in {GOOD}  ", command("datasets", "--socket", self.server.socket).stdout)

    def test_damage(self):
        """A flipped bit is found by verifying, by name, and costs the sample that it lies on."""
        print(f"LARDER_TEST_SEED={SEED}", flush=True)
        path = os.path.join(self.store, "segment-00000.larder")
        offset = random.Random(SEED).randrange(8192, os.path.getsize(path) // 2)
        change(path, offset, 1)
        result = command("verify", self.store)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "^segment-00000.larder: sample .* is damaged")
        damaged = os.path.join(self.tree, re.search("sample (.*) is damaged", result.stdout)[1])
        got = everything(self.loader(self.server, self.store, pipeline=CROP, bad_samples="skip"))
        files = files_of(self.tree)
        self.assertEqual(sorted(got), [index for index, path in enumerate(files) if path not in {*self.odd, damaged}])


if __name__ == "__main__":
    main()
