#!/usr/bin/env python3
"""./run demo --slow-source: one larderd reads from slow storage once. A storage class, a folder on the local disk, has
what was read: the second epoch reads nothing more from the source, nor does one after larderd was started anew.

The source is made slow by a delay of each read. Everything lives in one temporary folder, and goes with this program.
"""

import argparse
import os
import sys
import time

import demo

sys.path.insert(0, os.path.join(demo.HERE, ".."))

import larder  # noqa: E402

DELAY_MS = 500
EPOCHS = 2  # before larderd is started anew; one more after it
WRITTEN_S = 30
# Memory holds a small part of the images, so that each epoch must read. Half of encoded memory may wait to be written.
# That is less than two chunks of photographs, and what does not fit there is read again: so there is one loader.
CONFIG = """\
memory: {{arena: 96MiB, encoded: 24MiB}}
threads: {{loaders: 1}}
catalog: {{checkpoint: {scratch}/checkpoints}}
metrics: {{enabled: false}}
storage:
  - {{path: {scratch}/class, size: {size}B}}
debug: {{load_delay: {delay}}}
"""


def size_of(folder):
    return sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names)


def storage(options, socket):
    return demo.daemon_status(options.bin, socket)["storage"]


def epoch(loader, options, socket, words, screen):
    """One epoch, and where its bytes came from."""
    before, began_s, seen = storage(options, socket), time.monotonic(), set()
    for _, _, indices in loader:
        seen.update(indices.tolist())
    took_s, after = time.monotonic() - began_s, storage(options, socket)
    if len(seen) != loader.dataset_size:
        raise demo.Failed(f"an epoch gave {len(seen)} of {loader.dataset_size} images")
    source = after["source"]["bytes"] - before["source"]["bytes"]
    kept = after["classes"][0]["read"]["bytes"] - before["classes"][0]["read"]["bytes"]
    screen.line(f"{words:28} {took_s:6.2f} s {source / 1e6:10.1f} MB {kept / 1e6:10.1f} MB")
    return source


def written(options, socket):
    """Waits until the class has what was read."""
    until_s = time.monotonic() + WRITTEN_S
    while storage(options, socket)["classes"][0]["waiting_bytes"] and time.monotonic() < until_s:
        time.sleep(0.05)


def show(options, scratch, processes, screen):
    folder = options.folder and os.path.abspath(options.folder)
    if not folder:
        folder = os.path.join(scratch, "images")
        demo.make_images(options.bin, folder, processes, screen)
    config = CONFIG.format(scratch=scratch, size=2 * size_of(folder) + (64 << 20), delay=DELAY_MS)
    screen.line(f"One larderd; each read of the source takes {DELAY_MS} ms more; a storage class in {scratch}/class")
    screen.line(f"{'':28} {'time':>8} {'from source':>13} {'from class':>13}")
    read = 0
    for begun in ("", "larderd started anew: "):
        daemon, socket, log = demo.start_daemon(options.bin, scratch, processes, config)
        with larder.Loader(folder, [larder.RandomResizedCrop(224)], 64, socket=socket, output="numpy", with_ids=True,
                           name="demo") as loader:
            for number in range(1 if begun else EPOCHS):
                words = begun + f"epoch {number + 1}"
                read = epoch(loader, options, socket, words, screen)
                written(options, socket)
        demo.end(daemon)
        if daemon.returncode:
            raise demo.Failed(f"larderd ended with status {daemon.returncode}: {demo.read(log)[-2000:]}")
    share = read / size_of(folder)
    screen.line()
    screen.line(f"What was read once is kept: the last epoch read {share:.0%} of the bytes from the slow source")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="a folder with one folder a class; without it images are made")
    parser.add_argument("--bin", default=os.path.join(demo.HERE, "..", "..", "..", "build", "bin"),
                        help="where larderd is")
    return demo.run(parser.parse_args(), show)


if __name__ == "__main__":
    sys.exit(main())
