"""Writers with the real daemon: whatever is killed, and whenever, each sample comes once, with its own bytes."""

import io
import os
import pickle
import shutil
import signal
import subprocess
import tarfile
import unittest

import above  # noqa: F401
import numpy as np
from system import BIN, Case, larder, main

from larder import _log

COUNT = 40
CLASSES = ["wren", "auk", "owl", "tern"]  # not sorted
STEPS = ("open", "write", "pwrite", "fsync", "rename", "unlink", "ftruncate")


def image(number):
    """A PPM of its own size and pixels."""
    width = 3 + number % 7
    pixels = bytes((number * 7 + at) % 251 for at in range(width * 5 * 3))
    return b"P6 %d 5 255\n" % width + pixels


def write(destination, count=COUNT, close=True, **options):
    """Writes what is missing of so many samples."""
    options.setdefault("classes", CLASSES)
    writer = larder.Writer(destination, **options)
    for number in range(writer.done, count):
        writer.write(image(number), number % 4, f"bird/{number:04}")
        if number % 5 == 4:
            writer.flush()
    if close:
        writer.close()
    else:
        writer._log.leave()


def samples_of(folder):
    """(key, image, label) of each sample of all shards, by Python's tarfile, which also proves that they are tars."""
    found = []
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".tar")):
        with tarfile.open(os.path.join(folder, name)) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}
        found += [(key[:-4], data, int(members[key[:-4] + ".cls"])) for key, data in members.items()
                  if not key.endswith(".cls") and not key.startswith("__")]
    return found


def fail():
    raise OSError(28, "No space left on device")


def killed(do, at):
    """Runs do() in a process that kills itself before its call number `at` of the system calls that change something; a
    write is cut in two by that. True: it came so far."""
    child = os.fork()
    if child == 0:
        calls = [0]

        def wrap(name):
            real = getattr(os, name)

            def call(*arguments, **named):
                calls[0] += 1
                if calls[0] == at:
                    if name == "write":
                        real(arguments[0], memoryview(arguments[1])[:len(arguments[1]) // 2 + at])
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **named)
            setattr(os, name, call)

        for name in STEPS:
            wrap(name)
        do()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


class Written(Case):
    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.folder, "birds.store")
        self.log = self.store + ".log"
        self.want = [(f"bird/{number:04}", image(number), number % 4) for number in range(COUNT)]
        self._daemon = None
        real, os.fsync = os.fsync, lambda fd: None  # kills cost nothing that the kernel has
        self.addCleanup(setattr, os, "fsync", real)
        found = os.environ.get("LARDERD")
        os.environ["LARDERD"] = os.path.join(BIN, "larderd")
        self.addCleanup(lambda: os.environ.update(LARDERD=found) if found else os.environ.pop("LARDERD"))

    def delivered(self, source, count=COUNT, **options):
        """(bytes, label) of each sample by its index; each comes once in each of two epochs."""
        self._daemon = self._daemon or self.daemon()
        loader = self.loader(self._daemon, source, pipeline=[], batch_size=8, **options)
        epochs = []
        for _ in range(2):
            got = [(int(index), bytes(data), int(label)) for images, labels, indices in loader
                   for data, label, index in zip(images, labels, indices)]
            self.assertEqual(sorted(index for index, _, _ in got), list(range(count)))
            epochs.append({index: rest for index, *rest in got})
        self.assertEqual(epochs[0], epochs[1])
        return [tuple(epochs[0][index]) for index in range(count)], loader

    def test_store(self):
        """What is written is what is trained on, in a store with the classes in the order given; the log is gone."""
        write(self.store)
        self.assertFalse(os.path.exists(self.log))
        got, loader = self.delivered(self.store)
        self.assertEqual(got, [(data, label) for _, data, label in self.want])
        self.assertEqual(loader.classes, CLASSES)
        with self.assertRaisesRegex(larder.InvalidArgument, "a store is there already"):
            larder.Writer(self.store)

    def test_log(self):
        """A log is trained on before it is packed, while its writer goes on: all shards that are whole."""
        writer = larder.Writer(self.store, CLASSES, writer=0, shard_bytes=1)
        for number in range(COUNT):
            writer.write(image(number), CLASSES[number % 4], f"bird/{number:04}.PPM")
            if number % 20 == 19:
                writer.flush()  # ends the shard
        writer.write(image(0), 0)
        self.addCleanup(writer.close)
        got, loader = self.delivered(self.log)
        self.assertEqual(got, [(data, label) for _, data, label in self.want])
        self.assertEqual(loader.classes, CLASSES)

    def test_cut_anywhere(self):
        """A shard is cut at every 97th byte, as a kill in a write does it: a Writer goes on behind what is whole, and
        the log becomes what an undisturbed one is."""
        write(self.store, close=False)
        name, = (name for name in os.listdir(self.log) if name.endswith(".open"))
        size = os.path.getsize(os.path.join(self.log, name))
        for cut in (*range(0, size, 97), size):
            copy = os.path.join(self.folder, "copy.store")
            shutil.copytree(self.log, copy + ".log")
            os.truncate(os.path.join(copy + ".log", name), cut)
            write(copy, writer=0)
            self.assertEqual(samples_of(copy + ".log"), self.want, f"cut at byte {cut}")
            self.assertEqual(os.listdir(copy + ".log"), [name[:-len(".open")]])
            shutil.rmtree(copy + ".log")

    def test_killed_anywhere(self):
        """A process that writes is killed at each of its system calls. What another makes of that is trained on."""
        at = 1
        while killed(lambda: write(self.store, writer=0, shard_bytes=3000), at):
            write(self.store, writer=0, shard_bytes=3000)
            self.assertEqual(samples_of(self.log), self.want, f"killed at call {at}")
            at += 1
            if at % 10:
                shutil.rmtree(self.log)
                continue
            larder.pack(self.store, quiet=True)
            got, _ = self.delivered(self.store)
            self.assertEqual(got, [(data, label) for _, data, label in self.want])
            shutil.rmtree(self.store)
        self.assertGreater(at, 50)

    def test_machine_went_down(self):
        """After a start of the machine only what was on the disk counts."""
        write(self.store, close=False)
        name, = (name for name in os.listdir(self.log) if name.endswith(".open"))
        state = os.path.join(self.log, "000000.state")
        with open(state) as file:
            boot, first, size = file.read().split()
        self.assertEqual(int(size), os.path.getsize(os.path.join(self.log, name)))
        with open(state, "r+") as file:
            file.write(f"{'0' * len(boot)} {first} {int(size) // 2}".ljust(127))
        with open(os.path.join(self.log, name), "r+b") as file:
            file.seek(int(size) // 2)
            file.write(bytes(int(size) // 2))  # as a file system may leave it
        writer = larder.Writer(self.store, CLASSES)
        self.assertTrue(COUNT // 3 < writer.done < COUNT * 2 // 3, writer.done)
        writer._log.leave()
        write(self.store, writer=0)
        self.assertEqual(samples_of(self.log), self.want)

    def test_several(self):
        """Four processes write at once, one is killed, and all that they have written is packed, in their order."""
        each = COUNT // 4

        def part(number, until=each):
            writer = larder.Writer(self.store, CLASSES, writer=number)
            for at in range(number * each + writer.done, number * each + until):
                writer.write(image(at), at % 4, f"bird/{at:04}")
            writer.flush()
            if until < each:
                os.kill(os.getpid(), signal.SIGKILL)
            writer.close()

        def start(*arguments):
            child = os.fork()
            if child == 0:
                part(*arguments)
                os._exit(0)
            return child

        for child in [start(0), start(1), start(2, 7), start(3)]:
            os.waitpid(child, 0)
        with self.assertRaisesRegex(larder.LarderError, "000002.*Writer is at work, or was stopped"):
            larder.pack(self.store, quiet=True)
        part(2)
        larder.pack(self.store, quiet=True)
        got, _ = self.delivered(self.store)
        self.assertEqual(got, [(data, label) for _, data, label in self.want])

    def test_refused(self):
        """What a Writer cannot keep is refused, in words that say why, and costs no other sample."""
        writer = larder.Writer(self.store, CLASSES, writer=3)
        self.addCleanup(writer.close)
        with self.assertRaisesRegex(larder.Busy, "writer 3 is at work"):
            larder.Writer(self.store, CLASSES, writer=3)
        writer.write(image(0), 1, "a/b")
        for arguments, why in (((image(1), 1, "a/b"), "twice in a row"), ((image(1), 1, "../b"), "'..'"),
                               ((image(1), 1, "b.c"), "a dot"), ((image(1), 1, "__x__/b"), "__NAME__"),
                               ((image(1), 1, "/b"), "is a path"), ((image(1), 1, ""), "is a path"),
                               ((image(1), 4, "b"), "0 to 3"), ((image(1), -1, "b"), "0 to 3"),
                               ((image(1), "gull", "b"), "none of the classes"), ((image(1), 1.5, "b"), "whole number"),
                               ((image(1), None, "b"), "without a label"), ((b"", 1, "b"), "0 bytes"),
                               ((np.zeros((3, 4, 5), np.uint8), 1, "b"), "shape"),
                               ((np.zeros((3, 4), np.float32), 1, "b"), "float32")):
            with self.assertRaisesRegex(larder.InvalidArgument, why):
                writer.write(*arguments)
        self.assertEqual(writer.done, 1)
        long = "folder/" * 30 + "x" * 200
        writer.write(image(2), np.int64(2), long)
        writer.write(bytearray(image(3)), "owl")
        writer.close()
        self.assertEqual(samples_of(self.log), [("a/b", image(0), 1), (long, image(2), 2),
                                                ("000000000002", image(3), 2)])
        with self.assertRaisesRegex(larder.InvalidArgument, "closed"):
            writer.write(image(1), 1)
        with self.assertRaisesRegex(larder.InvalidArgument, "other classes"):
            larder.Writer(self.store, ["one"], writer=3)
        for wrong in ([], ["a", "a"], ["a\nb"]):
            with self.assertRaisesRegex(larder.InvalidArgument, "class"):
                larder.Writer(self.store, wrong)

    def test_disk_full(self):
        """A write that fails leaves what was whole; the same Writer goes on when there is room again."""
        writer = larder.Writer(self.store, CLASSES, writer=0)
        writer.write(image(0), 0, "bird/0000")
        writer.flush()
        real = os.write

        def half(fd, data):
            real(fd, data[:len(data) // 2 + 99])
            raise OSError(28, "No space left on device")

        os.write = half
        try:
            writer.write(image(1), 1, "bird/0001")
            with self.assertRaisesRegex(larder.IOFailure, "No space left"):
                writer.flush()
        finally:
            os.write = real
        writer.write(image(2), 2, "bird/0002")
        writer.close()
        self.assertEqual(samples_of(self.log), self.want[:3])

    def test_close_fails(self):
        """A Writer whose close() fails, at each of its steps, may be closed again, and has lost nothing."""
        for call in "write", "fsync", "rename", "unlink", "pack":
            writer = larder.Writer(self.store, CLASSES)
            for number in range(COUNT):
                writer.write(image(number), number % 4, f"bird/{number:04}")
            where, name = (larder.writer, "run_pack") if call == "pack" else (os, call)
            real = getattr(where, name)

            def fail(*_):
                raise larder.IOFailure("No space left") if call == "pack" else OSError(28, "No space left on device")

            setattr(where, name, fail)
            try:
                for _ in range(2):
                    with self.assertRaisesRegex(larder.IOFailure, "No space left"):
                        writer.close()
            finally:
                setattr(where, name, real)
            writer.close()
            writer.close()  # does nothing
            self.assertEqual(writer.done, COUNT)
            got, _ = self.delivered(self.store)
            self.assertEqual(got, [(data, label) for _, data, label in self.want], call)
            shutil.rmtree(self.store)

    def test_left(self):
        """After a `with` whose end fails, and after a Writer that nobody has any more, another one of the same process
        goes on."""
        real = os.rename
        os.rename = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        try:
            with self.assertRaisesRegex(larder.IOFailure, "No space left"), larder.Writer(self.store, CLASSES) as kept:
                kept.write(image(0), 0, "bird/0000")
        finally:
            os.rename = real
        writer = larder.Writer(self.store, CLASSES)
        self.assertEqual(writer.done, 1)
        writer.write(image(1), 1, "bird/0001")
        writer.flush()
        del writer
        with larder.Writer(self.store, CLASSES) as writer:
            self.assertEqual(writer.done, 2)
        got, _ = self.delivered(self.store, 2)
        self.assertEqual(got, [(data, label) for _, data, label in self.want[:2]])

    def test_buffers(self):
        """A buffer's bytes are those that it had when write() was called, whatever becomes of it, and whatever its
        form; one whose write failed is not there, and comes once when it is given again."""
        data = [image(number) + bytes(30000 * number) for number in range(3)]
        writer = larder.Writer(self.store, CLASSES, writer=0)
        for number, form in enumerate((bytearray, memoryview, lambda data: memoryview(bytearray(data)).cast("b"))):
            buffer = form(bytearray(data[number]))
            real = os.write
            os.write = lambda fd, data: real(fd, data[:len(data) // 2]) and fail()
            try:
                writer._log._due = 0
                with self.assertRaisesRegex(larder.IOFailure, "No space left"):
                    writer.write(buffer, number, f"bird/{number:04}")
            finally:
                os.write = real
            self.assertEqual(writer.done, number)
            writer._log._due = float("inf")  # no other reason to write at once
            writer.write(buffer, number, f"bird/{number:04}")
            buffer[:100] = memoryview(bytes(100)).cast(getattr(buffer, "format", "B"))
        writer.close()
        self.assertEqual(samples_of(self.log), [(key, data[number], label)
                                                for number, (key, _, label) in enumerate(self.want[:3])])

    def test_ending_fails(self):
        """A shard whose ending fails stays open, and loses nothing that comes behind it."""
        for call in ("fsync", "rename"):
            writer = larder.Writer(self.store, CLASSES, writer=0, shard_bytes=1)
            writer.write(image(0), 0, "bird/0000")
            writer.write(image(1), 1, "bird/0001")
            real = getattr(os, call)

            def fail(*_):
                raise OSError(28, "No space left on device")

            setattr(os, call, fail)
            try:
                with self.assertRaisesRegex(larder.IOFailure, "No space left"):
                    writer.flush()
            finally:
                setattr(os, call, real)
            writer.write(image(2), 2, "bird/0002")
            writer.close()
            self.assertEqual(samples_of(self.log), self.want[:3])
            shutil.rmtree(self.log)

    def test_failed_again(self):
        """A sample whose write() fails, or is interrupted with its bytes half or all written, is not in the log: given
        again, it is there once."""
        for failure, part in ((OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 2),
                              (KeyboardInterrupt(), 1)):
            writer = larder.Writer(self.store, CLASSES, writer=0)
            writer.write(image(0), 0, "bird/0000")
            writer._log._due = 0  # the next one writes
            real = os.write

            def fail(fd, data):
                real(fd, data[:len(data) // part])
                raise failure

            os.write = fail
            try:
                with self.assertRaises((larder.IOFailure, KeyboardInterrupt)):
                    writer.write(image(1), 1, "bird/0001")
            finally:
                os.write = real
            self.assertEqual(writer.done, 1)
            writer.write(image(1), 1, "bird/0001")
            writer.close()
            self.assertEqual(samples_of(self.log), self.want[:2])
            shutil.rmtree(self.log)

    def test_forked(self):
        """A process that was forked leaves its parent's Writer alone, however it ends; a Writer is not pickled."""
        with larder.Writer(self.store, CLASSES, writer=0) as writer:
            for number in range(3):
                writer.write(image(number), number, f"bird/{number:04}")
            for what in (writer.flush, writer.close, lambda: writer.write(image(9), 1)):
                child = os.fork()
                if child == 0:
                    try:
                        what()
                    except larder.InvalidArgument as error:
                        os._exit(3 if "belongs to process" in str(error) else 2)
                    os._exit(1)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
            child = os.fork()
            if child == 0:
                writer.__exit__(SystemExit, SystemExit(), None)
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            with self.assertRaisesRegex(larder.InvalidArgument, "pickled"):
                pickle.dumps(writer)
        self.assertEqual(samples_of(self.log), self.want[:3])

    def test_pixels(self):
        """Arrays and Pillow's images come back as they were, by the daemon's decoder."""
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow")
        daemon = self.daemon()
        rng = np.random.default_rng(1)
        arrays = [rng.integers(0, 256, (9, 7, 3), np.uint8) for _ in range(8)]
        for form in ("png", "webp"):
            store = os.path.join(self.folder, form)
            with larder.Writer(store, encode=form) as writer:
                for number, array in enumerate(arrays):
                    writer.write(Image.fromarray(array) if number % 2 else array, f"kind {number % 3}")
            loader = self.loader(daemon, store, pipeline=[{"center_crop": {"size": [9, 7]}}], batch_size=1)
            self.assertEqual(loader.classes, ["kind 0", "kind 1", "kind 2"])
            got = {int(index[0]): (data[0], int(label[0])) for data, label, index in loader}
            for number, array in enumerate(arrays):
                self.assertTrue(np.array_equal(np.asarray(got[number][0]), array), f"{form} {number}")
                self.assertEqual(got[number][1], number % 3)

    def test_pack_killed(self):
        """Whatever is left of a log that was packed is removed, and what is not packed stays."""
        write(self.store)
        os.makedirs(self.log + ".packed")
        with open(os.path.join(self.log + ".packed", "000000-000000000000.tar"), "w"):
            pass
        ran = subprocess.run([os.path.join(BIN, "larder"), "pack", self.store], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stdout), (0, f"{self.store}: this store is there already, nothing to "
                                                           "do\n"), ran.stderr)
        self.assertFalse(os.path.exists(self.log + ".packed"))
        ran = subprocess.run([os.path.join(BIN, "larder"), "pack", self.store + "x"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("no log of a Writer is there", ran.stderr)

    def test_all_files(self):
        """`larder pack --all-files` packs files of any kind, and such an index is kept between runs."""
        folder = os.path.join(self.folder, "texts")
        for number in range(12):
            path = os.path.join(folder, f"class{number % 2}", f"{number:02}.txt")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(f"text {number}")
        ran = subprocess.run([os.path.join(BIN, "larder"), "pack", folder, self.store, "--all-files", "--quiet"],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        got, _ = self.delivered(self.store, 12)
        self.assertEqual(got, [(f"text {number}".encode(), number % 2) for number in (*range(0, 12, 2),
                                                                                      *range(1, 12, 2))])
        self.assertEqual(self.delivered(folder, 12, all_files=True)[0], got)


class Scan(unittest.TestCase):
    def test_headers(self):
        """A header is what Python's tarfile reads, whatever the name's length."""
        for length in (1, 99, 100, 101, 511, 512, 513, 3000):
            name = ("d" * 90 + "/") * (length // 91) + "x" * (length % 91 or 1)
            data = b"y" * (length % 7)
            tar = tarfile.open(fileobj=io.BytesIO(_log.header(name.encode(), len(data)) + _log.padded(data)))
            member, = tar.getmembers()
            self.assertEqual((member.name, tar.extractfile(member).read()), (name, data))


if __name__ == "__main__":
    main()
