"""Larder: one daemon for all jobs, on a store with restart rows. The daemon starts with the measurement's server, and
every job connects after the start, so nothing is prepared before the clock runs."""

import contextlib
import os
import subprocess
import sys
import tempfile

import job

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
SYSTEM = os.path.join(SOURCE, "tests", "system", "python")
BIN = os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin"))

PACKAGES = ()
WARM = False
LISTS = {"crop": lambda larder: [],
         "jitter": lambda larder: [larder.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)],
         "blur": lambda larder: [larder.GaussianBlur(kernel_size=23, sigma=(0.1, 2.0))],
         "rand_augment": lambda larder: [larder.RandAugment()],
         "float32": lambda larder: [larder.ToDtype("float32", scale=True), larder.Normalize(job.MEAN, job.STD),
                                    larder.Layout("CHW")]}

CONFIG = """\
memory:
  arena: {memory}MiB
  encoded: 256MiB
threads:
  workers: {threads}
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


def available():
    missing = [name for name in ("larderd", "larder") if not os.access(os.path.join(BIN, name), os.X_OK)]
    if missing:
        return None, f"{' and '.join(missing)} not in {BIN}"
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  Loader takes it where it is; what importing costs is not measured
    said = subprocess.run([os.path.join(BIN, "larderd"), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return said.stdout.split("\n")[0], None


STORES = {"rows": "--restart-rows", "planes": "--planes"}


def store_of(spec, store):
    """The store's path. "folder" is the folder as it is."""
    if store == "folder":
        return spec.folder
    return os.path.join(spec.data, store + ".store")


def prepare(spec, store="rows"):
    if not os.path.exists(store_of(spec, store)):
        subprocess.run([os.path.join(BIN, "larder"), "pack", spec.folder, store_of(spec, store), STORES[store]],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def server(spec):
    """Gives the daemon's socket."""
    sys.path.insert(0, SYSTEM)
    import system

    with tempfile.TemporaryDirectory(prefix="larder-peers-") as folder:
        daemon = system.Daemon(folder, CONFIG.format(threads=spec.threads, memory=spec.memory_mib))
        try:
            yield daemon.socket
        finally:
            daemon.stop()


def loader(spec, store="rows", **crop):
    """store: one of STORES, or "folder"; crop: what else RandomResizedCrop is told."""
    sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
    import larder

    opened = []

    def epoch():
        if not opened:
            pipeline = [larder.RandomResizedCrop(job.SIZE, **crop), larder.RandomHorizontalFlip(),
                        *LISTS[spec.list](larder)]
            opened.append(larder.Loader(store_of(spec, store), pipeline, batch_size=job.BATCH, socket=spec.address,
                                        epochs=spec.epochs, with_ids=True, name=f"job-{spec.index}"))
        for images, _, indices in opened[0]:
            yield images, indices

    return epoch
