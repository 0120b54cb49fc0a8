"""A store of another user whose images were made to have the hashes of images in a store of this one."""

import os
import shutil
import subprocess

import numpy as np

import above  # noqa: F401
from system import BIN, Case, files_of, main, make_tree
from xxh3_twin import room, twin

COUNT = 16
STRANGER = 54321
RESIZE = [{"resize": {"size": [32, 32]}}]


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class CraftedStore(Case):
    def pack(self, tree, store):
        store = os.path.join(self.folder, store)
        subprocess.run([os.path.join(BIN, "larder"), "pack", tree, store, "--quiet"], check=True)
        return store

    def make_stores(self):
        """Two stores with the same names and other images, each valid, that have each other's content hashes."""
        known = make_tree(os.path.join(self.folder, "known"), COUNT, classes=2, seed=1)
        crafted = make_tree(os.path.join(self.folder, "crafted"), COUNT, classes=2, seed=2)
        for a, b in zip(files_of(known), files_of(crafted)):
            image, other = bytes_of(a), bytes_of(b)
            model = image.ljust(max(room(len(image)), room(len(other))), b"\0")
            for path, content in ((a, model), (b, twin(model, other))):
                with open(path, "wb") as file:
                    file.write(content)
        stores = self.pack(known, "known.store"), self.pack(crafted, "crafted.store")
        for store in stores:
            subprocess.run([os.path.join(BIN, "larder"), "verify", store], check=True, stdout=subprocess.DEVNULL)
        return stores

    def give_away(self, store):
        """To another user; where only root could, to everybody."""
        if os.geteuid() == 0:
            for path in (store, *(os.path.join(store, name) for name in os.listdir(store))):
                os.chown(path, STRANGER, STRANGER)
        else:
            os.chmod(store, 0o777)

    def images(self, loader):
        """An epoch's images by index."""
        got = {}
        for images, _, indices in loader:
            got.update(zip(indices.tolist(), np.array(images)))
        self.assertEqual(sorted(got), list(range(COUNT)))
        return got

    def test_each_store_gives_its_own_images(self):
        """Two jobs with one pipeline, one on each store, at once: each gets the images of its own store, which the same
        job alone at a daemon gets. A second store of this user with the same images shares them all."""
        known, crafted = self.make_stores()
        again = os.path.join(self.folder, "again.store")
        shutil.copytree(known, again)
        self.give_away(crafted)
        alone = {}
        for store in (known, crafted):
            daemon = self.daemon()
            with self.loader(daemon, store, pipeline=RESIZE, epochs=1) as loader:
                alone[store] = self.images(loader)
            daemon.stop()
        daemon = self.daemon()
        loaders = [self.loader(daemon, store, pipeline=RESIZE, epochs=1)
                   for store in (known, crafted, again)]
        together = [self.images(loader) for loader in loaders]
        foreign = [sum(not np.array_equal(got[i], alone[store][i]) for i in range(COUNT))
                   for got, store in zip(together, (known, crafted, known))]
        self.assertEqual(foreign, [0, 0, 0], f"of {COUNT} images each so many were another store's")
        self.assertEqual(daemon.status()["samples"]["decoded"], 2 * COUNT)


if __name__ == "__main__":
    main()
