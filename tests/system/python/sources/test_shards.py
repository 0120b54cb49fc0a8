"""Tar shards with the real daemon: the samples of the folder that they were made of, and nobody gets other bytes than
were indexed, whatever is done to the shards."""

import io
import os
import random
import subprocess
import tarfile
import tempfile
import warnings

import above  # noqa: F401
import numpy as np
from system import BIN, Case, files_of, larder, main, tree, until

COUNT, SHARDS = 200, 4
RESIZE = [{"resize": {"size": [64, 64]}}]  # draws nothing
CONFIG = """\
memory:
  arena: 64MiB
  encoded: 64MiB
catalog:
  checkpoint: {checkpoint}
metrics:
  enabled: false
"""


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


class Shards(Case):
    def setUp(self):
        super().setUp()
        self.tree = tree(COUNT)
        self.files = files_of(self.tree)
        self.order = list(range(COUNT))
        random.Random(1).shuffle(self.order)
        self.shards = os.path.join(self.folder, "shards")
        self.text = os.path.join(self.shards, "train-{000..003}.tar")
        os.mkdir(self.shards)
        for number in range(SHARDS):
            self.write(number)

    def path(self, number):
        return os.path.join(self.shards, f"train-{number:03}.tar")

    def write(self, number, change=lambda data: data):
        """A shard, in place, of images that were changed or not."""
        each = COUNT // SHARDS
        with tarfile.open(self.path(number), "w") as tar:
            for position in self.order[number * each:(number + 1) * each]:
                with open(self.files[position], "rb") as file:
                    add(tar, f"{position:05}.jpg", change(file.read()))
                add(tar, f"{position:05}.cls", str(self.label(position)).encode())

    def label(self, position):
        return sorted(os.listdir(self.tree)).index(self.files[position].split("/")[-2])

    def epoch(self, loader):
        """(image, label) by index."""
        return {index: (bytes(image), int(label)) for images, labels, indices in loader
                for image, label, index in zip(images, labels, indices.tolist())}

    def keeping_daemon(self):
        return self.daemon(CONFIG.format(checkpoint=os.path.join(self.folder, "checkpoints")))

    def test_same_samples(self):
        """Pixels and labels of shards, by whichever text, are those of the folder that they were made of; each order
        has each sample once."""
        daemon = self.daemon()
        want = self.epoch(self.loader(daemon, self.tree, pipeline=RESIZE))
        for text in (self.text, self.shards, os.path.join(self.shards, "*.tar"),
                     self.path(0) + "::" + os.path.join(self.shards, "train-{001..003}.tar")):
            for shuffle in ("dependent", "strict", "none"):
                loader = self.loader(daemon, text, pipeline=RESIZE, shuffle=shuffle)
                got = self.epoch(loader)
                self.assertEqual(len(got), COUNT)
                for index, sample in got.items():
                    self.assertEqual(sample, want[self.order[index]], f"{text}, sample {index}")
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.shards)
        self.assertEqual(len(self.loader(daemon, "train-000.tar::./train-001.tar", pipeline=RESIZE)), 7)

    def test_configured(self):
        """A name of the configuration may be of shards, with labels as they are said there."""
        daemon = self.daemon(CONFIG.format(checkpoint="none") + "datasets:\n  mine:\n    path: '" + self.text +
                             "#labels=none'\n")
        self.assertEqual(self.loader(daemon, "mine").classes, ["unlabelled"])
        with self.assertRaisesRegex(larder.InvalidArgument, "#labels=cls"):
            self.loader(daemon, "mine", labels="cls")

    def test_roots(self):
        """Shards lie below the roots, or they are refused before anything of them is looked at."""
        daemon = self.daemon(CONFIG.format(checkpoint="none") + f"roots: ['{self.shards}']\n")
        self.assertEqual(self.loader(daemon, self.text).dataset_size, COUNT)
        for text in (os.path.join(self.tree, "*.tar"), self.path(0) + "::" + os.path.join(self.folder, "x.tar")):
            with self.assertRaisesRegex(larder.LarderError, "roots"):
                self.loader(daemon, text)

    def test_labels(self):
        """labels= names the member of a sample, or gives labels of the script's own, by position."""
        with tarfile.open(os.path.join(self.folder, "json.tar"), "w") as tar:
            for position in range(20):
                with open(self.files[position], "rb") as file:
                    add(tar, f"{position}.jpg", file.read())
                add(tar, f"{position}.json", b'{"kind": "%s"}' % (b"odd" if position % 2 else b"even"))
        daemon = self.daemon()
        path = os.path.join(self.folder, "json.tar")
        with self.assertWarnsRegex(UserWarning, "json.tar has shards without .cls members: every label is 0"):
            self.loader(daemon, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(self.loader(daemon, path, labels="none").classes, ["unlabelled"])
            loader = self.loader(daemon, path, labels="json:kind")
        self.assertEqual(loader.classes, ["even", "odd"])
        for _, labels, indices in loader:
            self.assertEqual(labels.tolist(), [index % 2 for index in indices.tolist()])
        self.assertEqual(self.loader(daemon, path, labels="json:kind", subset=larder.Classes("odd")).dataset_size, 10)
        loader = self.loader(daemon, path, labels=np.arange(20) * 10)
        for _, labels, indices in loader:
            self.assertEqual(labels.tolist(), [index * 10 for index in indices.tolist()])
        self.assertEqual(loader.dataset.samples, [(f"{path}/{n}.jpg", 10 * n) for n in range(20)])
        for keys in ("{}", "json.tar/{}", "json.tar/{}.jpg"):
            loader = self.loader(daemon, path, labels={keys.format(n): n + 1 for n in range(20)})
            self.assertEqual(loader.dataset.targets, list(range(1, 21)))
        with self.assertRaisesRegex(larder.NotFound, "is no sample of"):
            self.loader(daemon, path, labels={f"{n}.png": n for n in range(20)})
        self.assertEqual(self.loader(daemon, path, labels="kind").classes, ["even", "odd"])
        with self.assertRaisesRegex(larder.InvalidArgument, "it has no nothing"):
            self.loader(daemon, path, labels="json:nothing")

    def test_mixed(self):
        """mixed=False is for shards alone, whatever names them, and does not change their samples."""
        daemon = self.daemon()
        want = self.epoch(self.loader(daemon, self.text, pipeline=RESIZE))
        for text in (self.text, self.shards):
            for labels in (None, "cls"):
                loader = self.loader(daemon, text, pipeline=RESIZE, mixed=False, labels=labels)
                self.assertEqual(self.epoch(loader), want)
                self.assertEqual(loader.dataset.samples[0][0], self.path(0) + f"/{self.order[0]:05}.jpg")
        with self.assertRaisesRegex(larder.InvalidArgument, "names none"):
            self.loader(daemon, self.tree, mixed=False)

    def change(self):
        """Rewrites three shards: in place, by exchange, and to a shorter one."""
        self.write(0, lambda data: bytes(reversed(data)))
        os.rename(self.path(1), self.path(1) + ".old")
        self.write(1, lambda data: bytes(reversed(data)))
        os.truncate(self.path(2), 10000)

    def test_rewritten(self):
        """Shards are rewritten before a job reads any of them, and while it does. What comes is what was indexed, and
        the job ends where something else would come; one that begins afterwards gets what is there now."""
        before = self.epoch(self.loader(self.daemon(CONFIG.format(checkpoint="none")), self.text, pipeline=[]))
        for at in (0, 2):
            for number in range(SHARDS):
                self.write(number)
                os.utime(self.path(number), (1e9, 1e9))  # else what is changed may have the same time
            self.folder = tempfile.mkdtemp(dir=self.folder)  # of another daemon, which has read nothing yet
            daemon = self.daemon(CONFIG.format(checkpoint="none"))
            loader = self.loader(daemon, self.text, pipeline=[], batch_size=4, prefetch=1)
            if at == 0:
                self.change()
            try:
                for step, (images, labels, indices) in enumerate(loader, 1):
                    for image, label, index in zip(images, labels, indices.tolist()):
                        self.assertEqual((bytes(image), int(label)), before[index], f"sample {index}")
                    if step == at:
                        self.change()
                self.assertNotEqual(at, 0, "the shards were others before the first read")
            except larder.SourceChanged:
                pass
            self.write(2)
            loader = self.loader(daemon, self.text, pipeline=[])
            self.assertEqual(loader.dataset_size, COUNT)
            for index, (image, label) in self.epoch(loader).items():
                if index < 2 * COUNT // SHARDS:
                    image = bytes(reversed(image))
                self.assertEqual((image, label), before[index], f"sample {index}")

    def test_truncated(self):
        """Of a shard that ends too early one sample is bad, named by shard and byte; all others come."""
        size = os.path.getsize(self.path(1))
        with tarfile.open(self.path(1)) as tar:
            members = tar.getmembers()
        cut = members[60].offset_data + 10  # in an image
        os.truncate(self.path(1), cut)
        self.assertLess(cut, size)
        daemon = self.daemon()
        loader = self.loader(daemon, self.text, pipeline=RESIZE)
        self.assertEqual(loader.dataset_size, COUNT - 50 + 30 + 1)
        got = self.epoch(loader)
        self.assertEqual(sorted(set(range(loader.dataset_size)) - set(got)), [50 + 30])
        want = self.epoch(self.loader(daemon, self.tree, pipeline=RESIZE))
        for index, sample in got.items():
            self.assertEqual(sample, want[self.order[index if index < 80 else index + 19]], f"sample {index}")
        self.assertTrue(daemon.logged(f"train-001.tar/{self.order[80]:05}.jpg"), daemon.log())
        self.assertTrue(daemon.logged(f"at byte {members[60].offset} of the shard: the shard ends in the middle"))

    def test_killed(self):
        """A daemon that is killed goes on from its checkpoint, and the job from its state: each sample comes once."""
        daemon = self.keeping_daemon()
        loader = self.loader(daemon, self.text, pipeline=RESIZE, name="job", batch_size=10)
        seen, epoch = [], iter(loader)
        for _ in range(7):
            seen += next(epoch)[2].tolist()
        state = loader.state_dict()
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.assertTrue(until(lambda: any(name.endswith(".catalog") for name in os.listdir(checkpoints)), 30))
        daemon.kill()
        loader.close()
        again = self.keeping_daemon()
        loader = self.loader(again, self.text, pipeline=RESIZE, name="job", batch_size=10, state=state)
        for _, _, indices in loader:
            seen += indices.tolist()
        self.assertEqual(sorted(seen), list(range(COUNT)))
        self.assertNotIn("source changed", again.log())

    def test_look(self):
        """larder look tells shards whose neighbours have labels of all kinds from sorted ones, and names damage."""
        def look(text):
            return subprocess.run([os.path.join(BIN, "larder"), "look", text], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=True).stdout

        mixed = look(self.text)
        self.assertIn("is       tar shards\nsamples  200,", mixed)
        self.assertIn("10 classes: 0, 1, 2, ...\ncolumns  cls\nreading  mixed (samples of a class do not lie side by "
                      "side): one read brings 64 samples\n", mixed)
        self.assertNotIn("damaged", mixed)
        self.assertNotIn("every label is 0", mixed)
        none = look(f"{self.text}#labels=none")
        self.assertIn("1 class: unlabelled\n", none)
        self.assertNotIn("every label is 0", none)  # as was asked for
        bare = os.path.join(self.folder, "bare.tar")
        with tarfile.open(bare, "w") as out, tarfile.open(self.path(0)) as shard:
            for member in shard:
                if member.name.endswith(".jpg"):
                    out.addfile(member, shard.extractfile(member))
        self.assertIn("1 class: unlabelled\n         every label is 0: give labels=", look(bare))
        self.order.sort()
        for number in range(SHARDS):
            self.write(number)
        os.truncate(self.path(1), os.path.getsize(self.path(1)) // 2)
        sorted_ = look(self.shards)
        self.assertIn("sorted by class", sorted_)
        self.assertIn("damaged  1 sample", sorted_)
        self.assertIn("is       class folders", look(self.tree))
        failed = subprocess.run([os.path.join(BIN, "larder"), "look", self.shards + "/none.tar"],
                                stderr=subprocess.PIPE, text=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("no such shard", failed.stderr)

    def test_packed(self):
        """larder pack makes a store of shards, with the same samples, labels and order. It may lie beside the shards,
        but not within a folder that is the source."""
        store, pack = os.path.join(self.shards, "store"), [os.path.join(BIN, "larder"), "pack", "--quiet"]
        for folder in self.shards, f"{self.shards}#labels=cls":
            said = subprocess.run([*pack, folder, store], capture_output=True, text=True)
            self.assertIn("lies in the source itself", said.stderr)
        subprocess.run([*pack, self.text, store], check=True)
        daemon = self.daemon()
        shards, packed = (self.loader(daemon, source, pipeline=[]) for source in (self.text, store))
        self.assertEqual(shards.classes, packed.classes)
        self.assertEqual(self.epoch(shards), self.epoch(packed))


if __name__ == "__main__":
    main()
