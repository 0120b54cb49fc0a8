#!/usr/bin/env python3
"""A rough hour: what goes wrong around training, one thing after another, and a ledger of what every loop took.

    rough.py [--hours H | --seconds 60] [--lanes 3] [--only WORD] [--seed N]

Each lane plays scenes in turn. A scene has daemons, data and jobs of its own, and draws what happens to them:

- versions: files are rewritten in place, touched or left alone while a daemon is away, or between a state and its
  return. No epoch has pixels of two versions, unless the Loader raises. Files of the same content are no reason to;
- nodes: two nodes whose copies differ, or whose shared folder is rewritten between two epochs. The same holds;
- bad: some samples cannot be read. All others come once, or the Loader raises, and says which rule it broke;
- ranks: some ranks end while others are behind, and the daemon is killed or handed over. All samples come once;
- subsets: labels of 63 bits, and a subset of hundreds of runs, over a daemon's death;
- classes: a storage class is damaged between two daemons. All samples come once, with their own pixels;
- pictures: forms of TIFF, PNG, BMP, WebP and JPEG, beside Pillow's pixels;
- first: a user of whom nothing is there but a home starts the daemon with the first Loader. Only as root.

It prints a line for each kind of scene, and fails where a sample was lost, came twice or with wrong pixels.
LARDER_BIN says which build.
"""

import argparse
import collections
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

import numpy  # noqa: E402
from system import BIN, SLOW, Daemon, free_port, larder, until  # noqa: E402

CONFIG = """\
memory: {{arena: {arena}, encoded: {encoded}}}
threads: {{workers: 2, loaders: 2}}
catalog: {{checkpoint: {checkpoint}}}
metrics: {{enabled: false}}
log: {{level: info}}
{more}"""
NODE = """\
cluster:
  name: rough
  node: n{number}
  nodes: ["127.0.0.1:{ports[0]}", "127.0.0.1:{ports[1]}"]
  listen: 127.0.0.1:{port}
  advertise: 127.0.0.1:{port}
  security: none
"""
WHOLE = [{"resize": {"size": [8, 8]}}]
FLIPPED = [{"resize": {"size": [8, 8]}}, "random_horizontal_flip"]
CLASSES = 4
SIDE = 16
LONG_AGO = 1_500_000_000  # seconds since 1970: no file looks as if it were still being written


class Wrong(Exception):
    """A promise that did not hold."""


def color(index, version):
    """The one colour of an image: which sample it is, and which version of the files it is from."""
    return index & 255, index >> 8 & 255, ((index * 7) ^ 0x5A) & 0x7F | (version << 7)


def told(pixel):
    """What color() has put into a pixel: (index, version)."""
    index = int(pixel[0]) | int(pixel[1]) << 8
    if int(pixel[2]) & 0x7F != ((index * 7) ^ 0x5A) & 0x7F:
        raise Wrong(f"a pixel of no image: {pixel}")
    return index, int(pixel[2]) >> 7


def paths(root, count):
    each = -(-count // CLASSES)
    return [os.path.join(root, f"c{index // each}", f"{index:06}.ppm") for index in range(count)]


def write_tree(root, count, version=0, when=LONG_AGO):
    for index, path in enumerate(paths(root, count)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (SIDE, SIDE) + bytes(color(index, version)) * (SIDE * SIDE))
        os.utime(path, (when, when))
    return root


class Scene:
    """A folder, daemons that end with it, and what loops took: by epoch, how often each sample came, and versions."""

    def __init__(self, draw):
        self.draw = draw
        self.folder = tempfile.mkdtemp(prefix="larder-rough-")
        self.daemons = []
        self.counts, self.versions = {}, {}
        self.refused = 0

    def place(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def daemon(self, name="d", arena="8MiB", encoded="1MiB", more="", checkpoint="none", **options):
        config = CONFIG.format(arena=arena, encoded=encoded, more=more, checkpoint=checkpoint)
        daemon = Daemon(self.place(name), config, **options)
        self.daemons.append(daemon)
        return daemon

    def end(self, daemon):
        """The daemon goes as daemons do: killed, stopped, or handed over."""
        how = self.draw.choice(("kill", "kill", "stop", "hand over"))
        if how == "kill":
            daemon.kill()
        elif how == "stop":
            daemon.stop()
        else:
            subprocess.run([os.path.join(BIN, "larder"), "drain", "--for-restart", "--socket", daemon.socket],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60 * SLOW)
            daemon.stop()
        return how

    def loader(self, daemon, data, pipeline=None, batch_size=16, **options):
        options = {"output": "numpy", "with_ids": True, "timeout": 60 * SLOW, "reconnect": 60 * SLOW,
                   "socket": daemon.socket, **options}
        return larder.Loader(data, pipeline or self.draw.choice((WHOLE, FLIPPED)), batch_size, **options)

    def take(self, batch, epoch, book=""):
        images, _, ids = batch
        counts = self.counts.setdefault((book, epoch), collections.Counter())
        for image, index in zip(images, ids.tolist()):
            shown, version = told(image[0, 0])
            if shown != index or told(image[-1, -1]) != (shown, version):
                raise Wrong(f"sample {index} has the pixels of {shown}")
            self.versions.setdefault((book, epoch), set()).add(version)
            counts[index] += 1

    def exact(self, wanted, repeats=0):
        """Every epoch that was taken to its end has all of `wanted` once; so many may have come a second time."""
        for key, counts in self.counts.items():
            more = sum(counts.values()) - len(counts)
            if set(counts) != set(wanted) or more > repeats:
                raise Wrong(f"{key}: {len(set(wanted) - set(counts))} of {len(wanted)} lost, {more} twice, "
                            f"{len(set(counts) - set(wanted))} of others")

    def one_version(self):
        for key, versions in self.versions.items():
            if len(versions) > 1:
                raise Wrong(f"{key} has pixels of two versions, without an error")

    def close(self):
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def versions(scene):
    draw = scene.draw
    count, name = draw.randint(100, 600), f"v{draw.random()}"
    data = write_tree(scene.place("data"), count)
    options = {"arena": draw.choice(("1MiB", "8MiB")), "checkpoint": draw.choice(("none", scene.place("catalog")))}
    daemon = scene.daemon(**options)
    pipeline = draw.choice((WHOLE, FLIPPED))
    loader = scene.loader(daemon, data, pipeline, name=name)
    way, change = draw.choice(("daemon", "state")), draw.choice(("rewrite", "rewrite", "touch", "nothing"))
    epochs, at = 3, draw.randint(0, 3 * (count // 16))
    done = 0
    try:
        while loader.epoch < epochs:
            epoch = loader.epoch
            for batch in loader:
                scene.take(batch, epoch)
                done += 1
                if done != at:
                    continue
                state = loader.state_dict() if way == "state" else None
                if state:
                    loader.close()
                scene.end(daemon)
                if change != "nothing":
                    write_tree(data, count, version=change == "rewrite", when=LONG_AGO + 5)
                daemon = scene.daemon(**options)
                if state:
                    loader = scene.loader(daemon, data, pipeline, name=name, state=state)
                    break
    except larder.LarderError as error:
        scene.refused += 1
        if change != "rewrite":
            raise Wrong(f"the files have the same content, and yet: {error}") from None
        scene.counts = {}
    finally:
        loader.close()
    scene.one_version()
    scene.exact(range(count))


def train(scene, daemon, data, book, epochs, pace, between=None):
    """A job of its own in a thread; gives the thread. What it raises stands in scene.raised."""
    def run():
        try:
            with_name = scene.loader(daemon, data, WHOLE, name=book)
            try:
                for epoch in range(epochs):
                    for batch in with_name:
                        scene.take(batch, epoch, book)
                        time.sleep(pace)
                    if between:
                        between(epoch)
            finally:
                with_name.close()
        except larder.LarderError:
            scene.refused += 1
            scene.counts = {key: counts for key, counts in scene.counts.items() if key[0] != book}
        except Exception as error:  # noqa: BLE001 - the lane must hear of it, whatever it is
            scene.raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def nodes(scene):
    draw = scene.draw
    count = draw.randint(300, 700)
    data = write_tree(scene.place("data"), count)
    other = write_tree(scene.place("other"), count, version=1, when=LONG_AGO + draw.choice((0, 7)))
    apart = os.geteuid() == 0 and draw.random() < 0.5
    ports = [free_port(), free_port()]
    before = ["unshare", "-m", "sh", "-c", f'mount --bind {other} {data} && exec "$@"', "sh"]
    pair = [scene.daemon(f"n{number}", more=NODE.format(number=number, ports=ports, port=ports[number]),
                         before=before if apart and number else ()) for number in range(2)]
    if not all(until(lambda node=node: "nodes=2" in node.log(), 60) for node in pair):
        raise Wrong("the nodes do not find each other")
    scene.raised, both = [], draw.random() < 0.7
    gate = threading.Barrier(1 + both)

    def between(epoch):
        if not apart and epoch == 0:
            if gate.wait(120 * SLOW) == 0:
                write_tree(data, count, version=1, when=LONG_AGO + 9)
            gate.wait(120 * SLOW)

    threads = [train(scene, daemon, data, f"job {number}", 3, 0.002, between)
               for number, daemon in enumerate(pair[:1 + both])]
    for thread in threads:
        thread.join()
    for error in scene.raised:
        raise error
    scene.one_version()
    scene.exact(range(count))
    if apart and any(versions != {int(key[0][-1])} for key, versions in scene.versions.items()):
        raise Wrong(f"a node's job has the other's pixels: {scene.versions}")


def bad(scene):
    draw = scene.draw
    count = draw.choice((40, 101, 240, 500))
    data = write_tree(scene.place("data"), count)
    broken = draw.sample(range(count), draw.choice((1, count // 12, count // 9, count // 2, count - 1)))
    if draw.random() < 0.2:
        broken = list(range(-(-count // CLASSES)))  # a class
    for index in broken:
        with open(paths(data, count)[index], "wb") as file:
            file.write(b"version https://git-lfs.github.com/spec/v1\n")
    daemon = scene.daemon()
    each = -(-count // CLASSES)
    left = {index // each for index in range(count)} - {index // each for index in set(range(count)) - set(broken)}
    refused = None
    loader = scene.loader(daemon, data, name=f"b{draw.random()}")
    try:
        for epoch in range(2):
            for batch in loader:
                scene.take(batch, epoch)
    except larder.LarderError as error:
        refused = str(error)
    finally:
        loader.close()
    forbidden = len(broken) > count // 10 or left
    if refused and not forbidden:
        raise Wrong(f"{len(broken)} of {count} bad: {refused}")
    if forbidden and not refused:
        raise Wrong(f"{len(broken)} of {count} bad, classes {left} gone, and nothing was said")
    if refused:
        scene.refused += 1
        return
    scene.exact(set(range(count)) - set(broken))


def ranks(scene):
    draw = scene.draw
    count, world = draw.randint(100, 500), draw.randint(2, 4)
    data = write_tree(scene.place("data"), count)
    more = "limits: {rank_timeout: 30}\n"
    daemon = scene.daemon(more=more)
    epochs, shuffle, name = draw.randint(1, 2), draw.choice(("dependent", "strict", "none")), f"r{draw.random()}"
    pipeline = draw.choice((WHOLE, FLIPPED))
    behind = draw.randint(1, world - 1)  # so many ranks wait in their last epoch
    waits, ready = threading.Event(), threading.Semaphore(0)
    scene.raised, lock = [], threading.Lock()

    def run(rank):
        try:
            loader = scene.loader(daemon, data, pipeline, batch_size=8, name=name, rank=rank, world_size=world,
                                  epochs=epochs, shuffle=shuffle)
            stop = draw.randint(1, max(1, count // world // 8 - 1))
            for epoch in range(epochs):
                for number, batch in enumerate(loader):
                    with lock:
                        scene.take(batch, epoch)
                    if rank < behind and epoch == epochs - 1 and number == stop:
                        ready.release()
                        waits.wait(120 * SLOW)
            loader.close()
        except Exception as error:  # noqa: BLE001
            scene.raised.append(error)
        ready.release()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads[behind:]:
        thread.join()
    for _ in range(world):
        ready.acquire(timeout=60 * SLOW)
    how = scene.end(daemon)
    scene.daemon(more=more)
    waits.set()
    for thread in threads:
        thread.join()
    for error in scene.raised:
        raise Wrong(f"world {world}, {behind} behind, {shuffle}, {how}: {type(error).__name__}: {error}")
    scene.exact(range(count), repeats=-count % world)


def subsets(scene):
    draw = scene.draw
    count = draw.randint(700, 1500)
    data = write_tree(scene.place("data"), count)
    wanted = sorted(draw.sample(range(count), count // 2))
    labels = numpy.array([2**63 - 1 - index for index in range(count)], dtype=numpy.uint64)
    daemon = scene.daemon()
    loader = scene.loader(daemon, data, subset=larder.Indices(wanted), labels=labels, name=f"s{draw.random()}",
                          shuffle=draw.choice(("dependent", "strict")))
    at = draw.randint(1, len(wanted) // 16)
    try:
        for epoch in range(2):
            for number, batch in enumerate(loader):
                scene.take(batch, epoch)
                if [int(label) for label in batch[1]] != [2**63 - 1 - index for index in batch[2].tolist()]:
                    raise Wrong("labels of other samples")
                if epoch == 0 and number == at:
                    scene.end(daemon)
                    daemon = scene.daemon()
    finally:
        loader.close()
    scene.exact(wanted)


def damage(draw, folder):
    """Spoils a few files of a storage class, as a crash or a bad disk may."""
    for name in draw.sample(sorted(os.listdir(folder)), 1):
        path = os.path.join(folder, name)
        size = os.path.getsize(path)
        how = draw.choice(("flip", "empty", "zeros", "cut", "gone"))
        if how == "gone":
            os.unlink(path)
        elif how in ("empty", "cut"):
            os.truncate(path, 0 if how == "empty" else size // 2)
        elif size:
            with open(path, "r+b") as file:
                for _ in range(20 if how == "flip" else 1):
                    at = draw.randrange(min(size, 4096))
                    file.seek(at)
                    byte = file.read(1)
                    file.seek(at)
                    file.write(bytes([byte[0] ^ 1 << draw.randrange(8)]) if how == "flip" else bytes(size - at))


def classes(scene):
    draw = scene.draw
    count = draw.randint(100, 500)
    data = write_tree(scene.place("data"), count)
    folder = os.path.join(scene.folder, "class")
    more = f"storage:\n  - {{path: {folder}, size: 8MiB}}\n"
    for life in range(4):
        daemon = scene.daemon(more=more)
        loader = scene.loader(daemon, data, FLIPPED, name=f"c{life}-{draw.random()}")
        try:
            for batch in loader:
                scene.take(batch, life)
        finally:
            loader.close()
        scene.end(daemon)
        if os.path.isdir(folder):
            damage(draw, folder)
    scene.exact(range(count))


def picture(draw, image, path):
    """Saves the image in some form; gives false where this Pillow cannot."""
    kinds = {"tiff": ("1", "L", "P", "RGB", "RGBA", "CMYK", "LA"), "png": ("1", "L", "P", "RGB", "RGBA", "LA"),
             "bmp": ("1", "L", "P", "RGB"), "webp": ("RGB", "RGBA"), "jpg": ("L", "RGB", "CMYK")}
    kind = draw.choice(sorted(kinds))
    mode = draw.choice(kinds[kind])
    options = {}
    if kind == "tiff":
        options = {"compression": draw.choice((None, "tiff_lzw", "tiff_deflate", "packbits")),
                   "tiffinfo": {274: draw.randint(1, 8)}}
    image.convert(mode).save(f"{path}.{kind}", **options)
    return f"{path}.{kind}"


def pictures(scene):
    try:
        from PIL import Image
    except ImportError:
        return
    draw = scene.draw
    data = scene.place("data")
    os.makedirs(os.path.join(data, "c"))
    noise = numpy.random.default_rng(draw.randrange(1 << 30))
    files = [picture(draw, Image.fromarray(noise.integers(0, 256, (24, 24, 3), dtype=numpy.uint8)),
                     os.path.join(data, "c", f"{number:04}")) for number in range(40)]
    daemon = scene.daemon()
    loader = scene.loader(daemon, data, [{"center_crop": {"size": 24}}], name=f"p{draw.random()}")
    seen = collections.Counter()
    try:
        for images, _, ids in loader:
            for image, index in zip(images, ids.tolist()):
                seen[index] += 1
                with Image.open(files[index]) as file:
                    if not numpy.array_equal(numpy.asarray(file.convert("RGB")), image):
                        raise Wrong(f"not Pillow's picture: {files[index]}, {file.mode}")
    finally:
        loader.close()
    scene.counts[("", 0)] = seen
    scene.exact(range(len(files)))


FIRST = """
import os, sys
os.umask(0o77)
sys.path.insert(0, sys.argv[1])
import larder
seen = sorted(i for batch in larder.Loader(sys.argv[2], [larder.CenterCrop(8)], 16, output="numpy", with_ids=True,
                                           timeout=float(sys.argv[3])) for i in batch[2].tolist())
print("whole" if seen == list(range(int(sys.argv[4]))) else seen)
"""


def of_user(user):
    """The processes of a user."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                yield int(name)
        except OSError:
            pass  # it has ended


def first(scene):
    draw = scene.draw
    if os.geteuid() != 0:
        return
    count, user = draw.randint(20, 60), draw.randint(40000, 59999)
    data, home = write_tree(scene.place("data"), count), scene.place("home")
    os.chown(home, user, user)
    os.chmod(scene.folder, 0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": home, "LARDERD": os.path.join(BIN, "larderd")}
    runtime = draw.choice((None, "/run/user/12345678", "/root", "relative"))
    if runtime:
        environment["XDG_RUNTIME_DIR"] = runtime
    ignored = draw.choice(([], ["env", "--ignore-signal=CHLD"]))
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *ignored, sys.executable, "-B", "-c",
               FIRST, larder.__path__[0].rpartition("/")[0], data, str(60 * SLOW), str(count)]
    try:
        result = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=120 * SLOW)
        if result.stdout.strip() != "whole":
            raise Wrong(f"{runtime}, {ignored}: {result.stdout} {result.stderr[-600:]}")
        scene.counts[("", 0)] = collections.Counter(range(count))
    finally:
        for process in of_user(user):
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(f"/tmp/larder-{user}", ignore_errors=True)


SCENES = {scene.__name__: scene for scene in (versions, nodes, bad, ranks, subsets, classes, pictures, first)}


class Run:
    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.tally = {name: collections.Counter() for name in SCENES if options.only in name}
        self.failures, self.next = 0, 0
        self.end = time.monotonic() + options.seconds

    def lane(self):
        while time.monotonic() < self.end and not self.failures:
            with self.lock:
                number, self.next = self.next, self.next + 1
            name = list(self.tally)[number % len(self.tally)]
            self.play(name, self.options.seed * 1000003 + number)

    def play(self, name, seed):
        scene, wrong = Scene(random.Random(seed)), None
        try:
            SCENES[name](scene)
        except Exception as error:  # noqa: BLE001 - anything that is not expected fails the run
            wrong = error
        finally:
            logs = [daemon.log()[-600:] for daemon in scene.daemons] if wrong else []
            scene.close()
        with self.lock:
            self.tally[name].update(scenes=1, refused=scene.refused,
                                    samples=sum(sum(counts.values()) for counts in scene.counts.values()))
            if wrong:
                self.failures += 1
                self.tally[name].update(failures=1)
                print(f"FAILED: {name}, --scene {seed}: {type(wrong).__name__}: {wrong}", *logs, sep="\n", flush=True)

    def run(self):
        lanes = [threading.Thread(target=self.lane) for _ in range(self.options.lanes)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        for name, counts in self.tally.items():
            print(f"{name:10}" + "".join(f"  {what} {counts[what]:8}"
                                         for what in ("scenes", "samples", "refused", "failures")), flush=True)
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--only", default="", help="scenes with this word in their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scene", type=int, help="plays one scene, as a failure names it; with --only")
    options = parser.parse_args()
    if options.hours:
        options.seconds = options.hours * 3600
    logging.getLogger("larder").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    run = Run(options)
    if options.scene is not None:
        run.play(next(iter(run.tally)), options.scene)
        return 1 if run.failures else 0
    print("seed", options.seed, flush=True)
    return run.run()


if __name__ == "__main__":
    sys.exit(main())
