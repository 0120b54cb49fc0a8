"""Samples of several parts: an image and its mask are made alike, wherever they lie, and come together."""

import collections
import os
import shutil
import struct
import subprocess
import tarfile
import zlib

import above  # noqa: F401
import numpy as np
from beside import CROP, HEIGHT, LEFT, TOP, WIDTH, Beside
from system import BIN, SLOW, larder, main, tree

COUNT = 60
PARTS = {"image": "images/*.jpg", "mask": "masks/*_seg.png"}


def png(numbers, palette=True):
    """A PNG that has these numbers, of 8 bits or of 16, as indices of a palette or as grey."""
    bits = 8 * numbers.dtype.itemsize
    rows = b"".join(b"\0" + row.tobytes() for row in numbers.astype(numbers.dtype.newbyteorder(">")))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", numbers.shape[1], numbers.shape[0], bits, 3 if palette else 0, 0, 0, 0)
    colors = chunk(b"PLTE", bytes(255 - i // 3 for i in range(768))) if palette else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + colors + chunk(b"IDAT", zlib.compress(rows)) + \
        chunk(b"IEND", b"")


def numbers_of(index):
    """The mask of a sample, which no other has."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return ((x * 7 + y * 3 + index) % 256).astype(np.uint8)


class Parts(Beside):
    COUNT = COUNT

    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.folder, "seg")
        os.makedirs(os.path.join(self.root, "images"))
        os.makedirs(os.path.join(self.root, "masks"))
        for index, path in enumerate(self.jpegs):
            shutil.copyfile(path, self.image(index))
            self.write(self.mask(index), png(numbers_of(index), index % 2))

    def image(self, index):
        return os.path.join(self.root, "images", f"p{index:03}.jpg")

    def mask(self, index):
        return os.path.join(self.root, "masks", f"p{index:03}_seg.png")

    @staticmethod
    def write(path, data):
        with open(path, "wb") as file:
            file.write(data)

    def parts(self, daemon, dataset=None, parts=PARTS, pipeline=CROP, **options):
        return self.loader(daemon, dataset or self.root, pipeline=pipeline, parts=parts, **options)

    def epoch(self, daemon, dataset=None, parts=PARTS, **options):
        """{index: (image, mask)} of an epoch, and its first batch."""
        with self.parts(daemon, dataset, parts, **options) as loader:
            batches = list(loader)
        return {index: pair for batch in batches
                for index, *pair in zip(batch["index"].tolist(), batch["image"], batch["mask"])}, batches[0]

    def check_all(self, made, order=range(COUNT)):
        """Each sample came once, and its mask is its own, cut where the image was."""
        self.assertEqual(sorted(made), list(range(COUNT)))
        for position, index in enumerate(order):
            mask = numbers_of(index)[TOP:TOP + 50, LEFT:LEFT + 50]
            np.testing.assert_array_equal(made[position][1], mask, f"the mask of {index}")

    def test_a_folder(self):
        """Files go together by what stands for the star. Images are what they are without masks."""
        daemon = self.daemon()
        made, batch = self.epoch(daemon)
        self.check_all(made)
        self.assertEqual(list(batch), ["image", "mask", "index"])
        self.assertEqual((batch["image"].shape, batch["mask"].shape), ((16, 50, 50, 3), (16, 50, 50)))
        with self.loader(daemon, self.jpegs, pipeline=CROP) as loader:
            for images, _, indices in loader:
                for image, index in zip(images, indices.tolist()):
                    np.testing.assert_array_equal(made[index][0], image)

    def test_a_folder_with_signs(self):
        """What stands for something in a pattern stands for itself in the folder's name."""
        root, self.root = self.root, os.path.join(self.folder, "seg [v2]*? \\ a")
        os.rename(root, self.root)
        os.mkdir(os.path.join(self.folder, "seg v"))
        self.check_all(self.epoch(self.daemon())[0])

    def test_look(self):
        """`larder look` names the parts of two folders that go together, and of no others."""
        def look(folder):
            return subprocess.run([os.path.join(BIN, "larder"), "look", folder], stdout=subprocess.PIPE, text=True,
                                  timeout=30 * SLOW, check=True).stdout
        self.assertIn('parts={"image": "images/*.jpg", "mask": "masks/*_seg.png"}\n', look(self.root))
        self.assertNotIn("parts=", look(tree(COUNT)))
        os.rename(self.mask(3), os.path.join(self.root, "masks", "p003.png"))
        self.assertNotIn("parts=", look(self.root))

    def test_several_stars(self):
        """Files go together by what stands for the stars, also where there is something else between them."""
        root = os.path.join(self.folder, "deep")
        for index in range(COUNT):
            for path, to in ((self.image(index), "images/{}-small.jpg"), (self.mask(index), "masks/{}_x.png")):
                to = os.path.join(root, "ab"[index % 2], to.format(index // 2))
                os.makedirs(os.path.dirname(to), exist_ok=True)
                os.link(path, to)
        parts = {"image": "*/images/*-*.jpg", "mask": "*/masks/*_*.png"}
        daemon = self.daemon()
        with self.assertRaisesRegex(larder.LarderError, "a/0/small has the part image and no mask"):
            self.parts(daemon, root, parts)
        parts = {"image": "*/images/*-small.jpg", "mask": "*/masks/*_x.png"}
        with self.parts(daemon, root, parts) as loader:
            for batch in loader:
                for index, mask in zip(batch["index"].tolist(), batch["mask"]):
                    folder, number = loader.dataset.columns["__key__"][index].split("/images/")
                    original = 2 * int(number.split("-")[0]) + "ab".index(folder)
                    np.testing.assert_array_equal(mask, numbers_of(original)[TOP:TOP + 50, LEFT:LEFT + 50])

    def test_one_draw(self):
        """What is drawn for the image is drawn for its mask, and each sample has draws of its own: where both have the
        same numbers, both are equal after random crops and flips."""
        daemon = self.daemon()
        for index in range(COUNT):
            grey = numbers_of(index)
            self.write(self.image(index)[:-3] + "png", png(grey, palette=False))
        pipeline = [larder.RandomCrop(40), larder.RandomHorizontalFlip(), larder.RandomVerticalFlip(),
                    larder.Pad(3, fill=9)]
        made, _ = self.epoch(daemon, parts={**PARTS, "image": "images/*.png"}, pipeline=pipeline)
        places = collections.Counter()
        for index, (image, mask) in made.items():
            for channel in range(3):
                np.testing.assert_array_equal(image[..., channel], mask, f"sample {index}")
            places[int(mask[3, 3]) - index] += 1
        self.assertGreater(len(places), COUNT // 4)

    def test_containers(self):
        """A list, a list of paths, tar shards and a packed store have the same samples as the folder."""
        daemon = self.daemon()
        rows = [(self.image(index), self.mask(index)) for index in range(COUNT)]
        listed = os.path.join(self.folder, "list.csv")
        with open(listed, "w") as file:
            file.write("photo,label,numbers,caption\n")
            file.writelines(f"{image},{index % 3},{mask},no {index}\n" for index, (image, mask) in enumerate(rows))
        shards = os.path.join(self.folder, "s-{0..1}.tar")
        for number in range(2):
            with tarfile.open(shards.replace("{0..1}", str(number)), "w") as tar:
                for index in range(number * COUNT // 2, (number + 1) * COUNT // 2):
                    for path, ending in zip(rows[index], ("jpg", "seg.png")):
                        with open(path, "rb") as file:
                            member = tarfile.TarInfo(f"{index:03}.{ending}")
                            member.size = os.path.getsize(path)
                            tar.addfile(member, file)
        store = os.path.join(self.folder, "store")
        text = f"{self.root}#parts=image={PARTS['image']}&mask={PARTS['mask']}"
        subprocess.run([os.path.join(BIN, "larder"), "pack", "--seed", "3", text, store], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        folder, _ = self.epoch(daemon)
        for dataset, parts in ((listed, {"image": "photo", "mask": "numbers"}), (rows, ("image", "mask")),
                               ([{"mask": mask, "image": image} for image, mask in rows], ("image", "mask")),
                               (shards, {"image": "png;jpg", "mask": "SEG.PNG"})):
            with self.subTest(dataset=dataset if isinstance(dataset, str) else type(dataset[0]).__name__):
                made, batch = self.epoch(daemon, dataset, parts, columns=["caption"] if dataset == listed else ())
                self.check_all(made)
                for index, (image, _) in made.items():
                    np.testing.assert_array_equal(image, folder[index][0])
                if dataset == listed:
                    self.assertEqual(list(batch), ["image", "mask", "label", "index", "caption"])
                    self.assertEqual(batch["label"].tolist(), (batch["index"] % 3).tolist())
                    self.assertEqual(batch["caption"], [f"no {index}" for index in batch["index"]])
        stored, _ = self.epoch(daemon, store, ("image", "mask"))
        self.assertEqual(sorted(image.tobytes() + mask.tobytes() for image, mask in stored.values()),
                         sorted(image.tobytes() + mask.tobytes() for image, mask in folder.values()))

    def test_what_goes_together(self):
        """A sample without all parts is named, and so is what names no parts."""
        daemon = self.daemon()
        lost = self.mask(7)
        os.rename(lost, lost + ".old")
        for parts, words in ((PARTS, "p007 has the part image and no mask"),
                             ({"mask": PARTS["mask"], "image": PARTS["image"]}, "p007 has the part image and no mask"),
                             ({"image": "images/*.gif"}, "no file fits images/*.gif"),
                             ({"image": "../*.jpg"}, "no pattern of files below the folder"),
                             ({"image": "images/*.jpg;../*.jpg"}, "no pattern of files below the folder"),
                             ({"image": "images/*.jpg;images/p001.jpg"}, "no pattern of files below the folder"),
                             ({"image": "images/*0.jpg;images/*00.jpg"}, "both fit")):
            with self.subTest(words=words), self.assertRaises(larder.LarderError) as caught:
                self.parts(daemon, parts=parts)
            self.assertIn(words, str(caught.exception))
        os.rename(lost + ".old", lost)
        with self.parts(daemon, labels="none") as loader:  # there are none, and it may be said
            self.assertEqual(next(iter(loader)).keys(), {"image", "mask", "index"})
        with self.assertRaisesRegex(larder.LarderError, "have no labels, and \"cls\" is asked for"):
            self.parts(daemon, labels="cls")
        with self.assertRaisesRegex(larder.InvalidArgument, "a mask cannot follow it: use random_resized_crop"):
            self.parts(daemon, parts={"image": PARTS["image"], "mask": "masks/*.old"},
                       pipeline=[larder.RandAugment(), larder.CenterCrop(50)])
        for steps, what in (([larder.RandomSegment(frames=9), larder.ToMono()], "sounds"),
                            ([larder.Array("uint8", 16)], "arrays")):
            for parts in (PARTS, {"image": PARTS["image"]}, {"mask": PARTS["mask"]}):
                with self.assertRaisesRegex(larder.InvalidArgument, f"`steps` are for {what}"):
                    self.parts(daemon, parts=parts, pipeline=steps)
        with self.assertRaisesRegex(larder.InvalidArgument, "does not say what it is"):
            self.parts(daemon, parts={"photo": PARTS["image"]})
        with self.assertRaisesRegex(larder.InvalidArgument, "row 1 of the dataset has no 'mask'"):
            self.loader(daemon, [{"image": lost, "mask": lost}, {"image": lost}], pipeline=[larder.CenterCrop(50)],
                        parts=("image", "mask"))

    def test_bad_parts(self):
        """A mask that is damaged, of another size, or gone costs its sample alone, and the image of it is not given
        without it."""
        daemon = self.daemon()
        with open(self.mask(3), "r+b") as file:
            file.truncate(300)
        self.write(self.mask(4), png(numbers_of(4)[1:]))
        with open(self.image(5), "rb") as file:
            self.write(self.mask(5), file.read())
        with self.parts(daemon) as loader:
            with self.assertWarns(larder.BadSamplesWarning):
                made = [index for batch in loader for index in batch["index"].tolist()]
            self.assertEqual(sorted(made), [index for index in range(COUNT) if index not in (3, 4, 5)])
            self.assertEqual(loader.lost, 3)

    def test_another_mask(self):
        """A mask that was replaced is seen at the next registration, and a new file too."""
        daemon = self.daemon()
        self.check_all(self.epoch(daemon)[0])
        self.write(self.mask(9) + ".new", png(numbers_of(200)))
        os.utime(self.mask(9) + ".new", ns=(1, 1))
        os.replace(self.mask(9) + ".new", self.mask(9))
        made, _ = self.epoch(daemon)
        self.check_all(made, [200 if index == 9 else index for index in range(COUNT)])
        os.remove(self.image(COUNT - 1))
        os.remove(self.mask(COUNT - 1))
        self.assertEqual(len(self.epoch(daemon)[0]), COUNT - 1)

    def test_jobs_share(self):
        """Two jobs of one program have one preparation of each sample, which is the image's and the mask's."""
        daemon = self.daemon()
        with self.parts(daemon, shuffle="none") as one, self.parts(daemon, shuffle="none") as other:
            for pair in zip(one, other):
                for name in ("image", "mask", "index"):
                    np.testing.assert_array_equal(pair[0][name], pair[1][name])
            self.assertEqual(daemon.status()["samples"]["prepared"], COUNT)

    def test_forms(self):
        """Tuples, types and fills of masks, functions of the script, views of the daemon's memory, and torch."""
        daemon = self.daemon()
        parts = {"image": PARTS["image"], "mask": larder.Mask(PARTS["mask"], dtype="int64", fill=-100)}
        with self.parts(daemon, parts=parts, pipeline=[larder.CenterCrop(70), larder.Pad(2)], shuffle="none",
                        as_tuple=("mask", "image")) as loader:
            mask, image = next(iter(loader))
        self.assertEqual((mask.dtype, mask.shape, image.shape), (np.int64, (16, 74, 74), (16, 74, 74, 3)))
        self.assertEqual(np.unique(mask[:, :2]).tolist(), [-100])
        self.assertGreaterEqual(mask[:, 2:-2, 2:-2].min(), 0)
        with self.parts(daemon, shuffle="none", transform=lambda one: {"sum": one["mask"].sum(), **one}) as loader:
            batch = next(iter(loader))
        self.assertEqual(int(batch["sum"][1]), int(batch["mask"][1].sum()))
        with self.parts(daemon, shuffle="none", collate_fn=lambda some: [one["mask"] for one in some]) as loader:
            np.testing.assert_array_equal(next(iter(loader))[2], batch["mask"][2])
        with self.parts(daemon, shuffle="none", zero_copy=True) as loader:
            seen = next(iter(loader))[0]
            np.testing.assert_array_equal(np.stack(list(seen["mask"])), batch["mask"])
            np.testing.assert_array_equal(np.stack(list(seen["image"])), batch["image"])
            del seen

    def test_the_example(self):
        """The example of segmentation trains on all images, each with its mask."""
        for index in range(COUNT):
            self.write(os.path.join(self.root, "masks", f"p{index:03}.png"), png(numbers_of(index) % 21))
            os.remove(self.mask(index))
        daemon = self.daemon()
        printed = self.example(daemon, "train_segmentation.py", self.root, "--side", "16")
        self.assertEqual(printed.count(f"{COUNT} images with masks"), 2, printed)


if __name__ == "__main__":
    main()
