"""Datasets whose files have the same names and sizes, and other content: nodes, daemons and states never mix two
versions in one epoch, and what is only a copy, or only touched, goes on."""

import itertools
import json
import os
import shutil
import subprocess
import unittest
import zlib

import above  # noqa: F401
import system
from cluster_case import ClusterCase
from system import Case, files_of, larder, main

COUNT, SHARED = 60, 512
MADE_S = itertools.count(1_100_000_000, 1000)
PIPELINE = [{"resize": {"size": [4, 4]}}]
OLD, NEW = 10, 200


def can_unshare():
    """Whether a process may have mounts of its own."""
    try:
        done = subprocess.run(["unshare", "-Urm", "mount", "--bind", system.HERE, system.HERE],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return done.returncode == 0


def write(path, index, version):
    """An image of one colour, which says the index and the version; in place where there is one."""
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(b"P6 8 8 255\n" + bytes((index % 256, index // 256, version)) * 64)


def make(folder, count, version=OLD):
    """Files with times of their own, long ago: what is written within one tick of the kernel's clock has one time."""
    made_s = next(MADE_S)
    for index in range(count):
        name = os.path.join(folder, f"c{index * 4 // count}", f"{index:04d}.ppm")
        os.makedirs(os.path.dirname(name), exist_ok=True)
        write(name, index, version)
        os.utime(name, (made_s + index, made_s + index))
    return folder


def rewrite(folder, indices=None):
    """All files, or some, in place: names and sizes stay."""
    names = files_of(folder)
    for index in range(len(names)) if indices is None else indices:
        write(names[index], index, NEW)


def touch(folder):
    for name in files_of(folder):
        os.utime(name, (1e9, 1e9))


def versions_of(loader):
    """{version: indices} of what is left of the loader's epoch; each sample has its own colour."""
    found = {}
    for images, _, indices in loader:
        for image, index in zip(images[:, 0, 0], indices.tolist()):
            assert (image[0], image[1]) == (index % 256, index // 256), (image, index)
            found.setdefault(int(image[2]), []).append(index)
    return found


class Restarted(Case):
    def setUp(self):
        super().setUp()
        self.dataset = make(os.path.join(self.folder, "data"), COUNT)
        self.served = self.daemon()

    def loader(self, dataset=None, **options):
        return super().loader(self.served, dataset or self.dataset, batch_size=4, pipeline=PIPELINE, prefetch=1,
                              **options)

    def begun(self, **options):
        """A loader that has had two batches, and their indices."""
        loader = self.loader(**options)
        batches = iter(loader)
        had = [index for _ in range(2) for index in next(batches)[2].tolist()]
        return loader, batches, had

    def replace(self, change, hand_over=False):
        """Another daemon, and what happens while there is none."""
        if hand_over:
            subprocess.run([os.path.join(system.BIN, "larder"), "drain", "--for-restart", "--socket",
                            self.served.socket], check=True, stdout=subprocess.DEVNULL)
            self.served.process.wait(60 * system.SLOW)
        else:
            self.served.kill()
        change()
        self.served = self.daemon()

    def refused(self, what):
        with self.assertRaisesRegex(larder.SourceChanged, "rewritten"):
            what()

    def rest(self, batches, had, version=OLD):
        found = versions_of(batches)
        self.assertEqual(sorted(found.get(version, []) + had), list(range(COUNT)))

    def test_rewritten_meanwhile(self):
        """Killed or handed over, with one rank or in a fixed order: an epoch does not go on with other files."""
        for hand_over, options in ((False, {}), (True, {}), (False, {"shuffle": "strict"})):
            with self.subTest(hand_over=hand_over, **options):
                shutil.rmtree(self.dataset)
                make(self.dataset, COUNT)
                loader, batches, _ = self.begun(**options)
                self.replace(lambda: rewrite(self.dataset), hand_over)
                self.refused(lambda: versions_of(batches))
                self.assertEqual(sorted(versions_of(loader)[NEW]), list(range(COUNT)))
                loader.close()

    def test_ranks(self):
        """Each of two ranks is told."""
        ranks = [self.loader(name="ranks", world_size=2, rank=rank) for rank in range(2)]
        begun = [iter(rank) for rank in ranks]
        for batches in begun:
            next(batches)
        self.replace(lambda: rewrite(self.dataset))
        for batches in begun:
            self.refused(lambda batches=batches: versions_of(batches))

    def test_touched_meanwhile(self):
        """Other times alone are no other version."""
        _, batches, had = self.begun()
        self.replace(lambda: touch(self.dataset))
        self.rest(batches, had)

    def saved(self, **options):
        loader, _, had = self.begun(**options)
        state = loader.state_dict()
        loader.close()
        return state, had

    def test_state_of_rewritten_files(self):
        """Given to a new Loader or loaded by one, it is refused, by the daemon that has both and by a later one."""
        state, _ = self.saved()
        rewrite(self.dataset)
        self.refused(lambda: self.loader(state=state))
        self.refused(lambda: self.loader().load_state_dict(state))
        self.replace(lambda: None)
        self.refused(lambda: self.loader(state=state))
        self.assertEqual(sorted(versions_of(self.loader())[NEW]), list(range(COUNT)))

    def test_state_of_a_copy(self):
        """It goes on with copies, with the times and without, with touched files, and with the store of the folder."""
        state, had = self.saved()
        copies = [os.path.join(self.folder, name) for name in ("rsync", "plain", "store")]
        shutil.copytree(self.dataset, copies[0])
        shutil.copytree(self.dataset, copies[1], copy_function=shutil.copyfile)
        subprocess.run([os.path.join(system.BIN, "larder"), "pack", self.dataset, copies[2]], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for copy in copies:
            with self.subTest(copy=os.path.basename(copy)):
                self.rest(self.loader(copy, state=state), had)
        touch(self.dataset)
        self.rest(self.loader(state=state), had)

    def test_state_of_before_there_were_versions(self):
        """It says nothing of the version, and goes on with whatever there is."""
        state, had = self.saved()
        old = {key: value for key, value in state.items() if key not in ("times", "content", "check")}
        old["version"] = 1
        old["check"] = f"{zlib.crc32(json.dumps(old, sort_keys=True, separators=(',', ':')).encode()):08x}"
        rewrite(self.dataset)
        self.rest(self.loader(state=old), had, NEW)

    def test_store_packed_anew(self):
        """A store that was packed again from other files of the same names and sizes is another version."""
        store, packed = os.path.join(self.folder, "store"), [os.path.join(self.folder, name) for name in ("a", "b")]
        make(os.path.join(self.folder, "new"), COUNT, NEW)
        for source, to in zip(("data", "new"), packed):
            subprocess.run([os.path.join(system.BIN, "larder"), "pack", os.path.join(self.folder, source), to],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.copytree(packed[0], store)
        state, _ = self.saved(dataset=store)
        _, batches, _ = self.begun(dataset=store)

        def exchange():
            shutil.rmtree(store)
            shutil.copytree(packed[1], store)
        self.replace(exchange)
        self.refused(lambda: versions_of(batches))
        self.refused(lambda: self.loader(store, state=state))


class TwoNodes(ClusterCase):
    """A job at node 0, which node 1 gives a part of the samples."""

    def job(self, dataset, **options):
        return self.loader(self.nodes[0], dataset, pipeline=PIPELINE, prefetch=1, **options)

    def found_by_both(self, before=()):
        self.ports = [system.free_port() for _ in range(2)]
        self.nodes = [self.start(0), self.start(1, before=before)]
        self.found(2)

    def received(self, loader):
        loader.close()
        return self.from_others(self.nodes[0])[0]

    def refuses(self):
        self.assertTrue(self.nodes[0].logged("another node gives nothing to a job"), self.nodes[0].log())
        self.assertTrue(self.nodes[1].logged("the dataset is another one here"), self.nodes[1].log())


class Shared(TwoNodes):
    def rewritten_between_epochs(self, indices=None):
        """Node 1 has given its part of the first epoch; then files are rewritten. The second may have been asked for
        before. Nothing of the new version comes in any, whatever the job is told when it needs one of the files."""
        self.found_by_both()
        dataset = make(os.path.join(self.folder, "data"), SHARED)
        loader = self.job(dataset, epochs=3)
        self.assertEqual(sorted(versions_of(loader)[OLD]), list(range(SHARED)))
        self.assertGreater(self.nodes[0].status()["cluster"]["received"], 0)
        rewrite(dataset, indices)
        try:
            for _ in range(2):
                self.assertEqual(list(versions_of(loader)), [OLD])
        except larder.SourceChanged:
            pass
        self.refuses()

    def test_rewritten_between_epochs(self):
        """A shared folder: no epoch has both versions."""
        self.rewritten_between_epochs()

    def test_few_rewritten_between_epochs(self):
        """As few as no sample that stands for the content need be among them: the home knows what it gave before."""
        self.rewritten_between_epochs(range(0, SHARED, SHARED // 16))


@unittest.skipUnless(can_unshare(), "this machine lets nobody have mounts of its own")
class Copies(TwoNodes):
    """Node 1 has a copy at the dataset's path."""

    def copied(self, change=None, **how):
        """Of a job's only epoch at node 0: what came, and how much of it node 1 gave."""
        path = make(os.path.join(self.folder, "data"), SHARED)
        other = shutil.copytree(path, os.path.join(self.folder, "other"), **how)
        if change:
            change(other)
        self.found_by_both(["unshare", "-Urm", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', other, path])
        loader = self.job(path, epochs=1)
        found = versions_of(loader)
        self.assertEqual(sorted(found.pop(OLD)), list(range(SHARED)))
        self.assertEqual(found, {})
        return self.received(loader)

    def test_a_copy_that_differs(self):
        """It gives nothing, and both nodes say why."""
        self.assertEqual(self.copied(rewrite), 0)
        self.refuses()

    def test_a_copy_with_its_times(self):
        """As rsync -a makes it: it gives its part."""
        self.assertGreater(self.copied(), 0)

    def test_a_plain_copy(self):
        """With other times: so does it."""
        self.assertGreater(self.copied(copy_function=shutil.copyfile), 0)


if __name__ == "__main__":
    main()
