"""The C library's Writer beside the Python package's: they write the same bytes, and go on with each other's logs."""

import os
import shutil
import signal
import subprocess

import above  # noqa: F401
from system import BIN, Case, larder, main
DRIVER = os.path.join(BIN, "larder_writer_driver")
CLASSES = ["wren", "auk", "owl", "tern"]  # not sorted
COUNT = 24
STARTS = (b"P6", b"P2", b"\x89P", b"\xff\xd8", b"RI", b"II", b"MM", b"BM", b"..", b"P3")


def sample(number):
    """(key, data, label): all forms of names, some with headers of their own, and sizes around a block."""
    keys = (None, f"bird/{number:04}", f"bird/{number:04}.PPM", f"b.c/{'x' * (85 + number)}",
            "d" * 93 + f"/{number:03}", f"tief/größer/{number}.webp")
    data = STARTS[number % len(STARTS)] + bytes((number * 7 + at) % 251 for at in range(400 + number * 11))
    return keys[number % len(keys)], data, number % 4


class Driver:
    """A process that writes through the C library."""

    def __init__(self, destination, writer=0, shard_bytes=1 << 28, classes=CLASSES):
        self.process = subprocess.Popen([DRIVER, destination, str(writer), str(shard_bytes), *classes],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.done = 0
        try:
            self.answer()
        except ValueError:
            self.end_process()
            raise

    def answer(self):
        code, done, text = self.process.stdout.readline().decode().rstrip("\n").split(" ", 2)
        self.done = int(done)
        if code != "0":
            raise ValueError(f"{code} {text}")

    def ask(self, line, data=b""):
        self.process.stdin.write(line.encode() + b"\n" + data)
        self.process.stdin.flush()
        self.answer()

    def write(self, data, label, key):
        self.ask(f"add {key or '-'} {-1 if label is None else label} {len(data)}", data)

    def flush(self):
        self.ask("flush")

    def end(self, how="close"):
        self.ask(how)
        self.end_process()

    def end_process(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end_process()


class OfPython:
    """The Python package's Writer, asked the same way."""

    def __init__(self, destination, writer=0, shard_bytes=1 << 28, classes=CLASSES):
        self.writer = larder.Writer(destination, classes or None, writer=writer, shard_bytes=shard_bytes)
        self.write, self.flush = self.writer.write, self.writer.flush

    @property
    def done(self):
        return self.writer.done

    def end(self, how="close"):
        (self.writer.close if how == "close" else self.writer._log.leave)()


def write(kind, destination, until=COUNT, how="close", **options):
    """Writes what is missing of so many samples, each in a write of its own."""
    writer = kind(destination, **options)
    for number in range(writer.done, until):
        key, data, label = sample(number)
        writer.write(data, label if options.get("classes", CLASSES) else None, key)
        writer.flush()
    writer.end(how)


def files(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


class CWriter(Case):
    def setUp(self):
        super().setUp()
        self.one, self.two = (os.path.join(self.folder, name) for name in ("one.store", "two.store"))
        real, os.fsync = os.fsync, lambda fd: None  # kills cost nothing that the kernel has
        self.addCleanup(setattr, os, "fsync", real)
        found = os.environ.get("LARDERD")
        os.environ["LARDERD"] = os.path.join(BIN, "larderd")
        self.addCleanup(lambda: os.environ.update(LARDERD=found) if found else os.environ.pop("LARDERD"))

    def check_same(self, when):
        self.maxDiff = 0
        self.assertEqual(files(self.one + ".log"), files(self.two + ".log"), when)

    def test_same_bytes(self):
        """Shards, names and states are the same, with classes and labels and without, open and whole."""
        for options in ({"shard_bytes": 9000}, {"classes": [], "writer": 7}):
            for how in ("leave", "close"):
                write(OfPython, self.one, how=how, **options)
                write(Driver, self.two, how=how, **options)
                self.check_same((options, how))
            for store in (self.one, self.two):
                shutil.rmtree(store + ".log")

    def test_in_turns(self):
        """Each goes on with what the other left; what comes of it is what one of them makes alone."""
        write(OfPython, self.one, shard_bytes=9000)
        for until in range(1, COUNT + 1):
            write(Driver if until % 2 else OfPython, self.two, until, "leave", shard_bytes=9000)
        write(Driver, self.two, shard_bytes=9000)
        self.check_same("in turns")

    def test_cut(self):
        """Of a shard that is cut, both find the same samples whole, and say so in the same state."""
        write(OfPython, self.one, 6, how="leave")
        name = "000000-000000000000.tar.open"
        whole = files(self.one + ".log")
        size = len(whole[name])
        for cut in (*range(0, size, 331), *range(0, size, 512), size):
            for store, kind in ((self.one, OfPython), (self.two, Driver)):
                shutil.rmtree(store + ".log", ignore_errors=True)
                os.mkdir(store + ".log")
                for file, data in whole.items():
                    with open(os.path.join(store + ".log", file), "wb") as out:
                        out.write(data[:cut] if file == name else data)
                write(kind, store, 0, how="leave")
            self.check_same(f"cut at byte {cut}")

    def test_several(self):
        """Four write at once, in C and Python, one is killed and gone on with; a Loader reads the log, and the store
        that is packed of it, which has all samples in the writers' order."""
        each = COUNT // 4
        writers = [Driver(self.one, 0), OfPython(self.one, 1), Driver(self.one, 2), Driver(self.one, 3)]
        with self.assertRaisesRegex(ValueError, "EBUSY .*writer 2 is at work there"):
            Driver(self.one, 2)
        for at in range(each):
            for number, writer in enumerate(writers):
                key, data, label = sample(number * each + at)
                if number != 2 or at < 3:
                    writer.write(data, label, key)
        writers[2].flush()
        writers[2].kill()
        for number in (0, 1, 3):
            writers[number].end()
        with self.assertRaisesRegex(larder.LarderError, "000002.*Writer is at work, or was stopped"):
            larder.pack(self.one, quiet=True)
        again = Driver(self.one, 2)
        self.assertEqual(again.done, 3)
        for at in range(again.done, each):
            key, data, label = sample(2 * each + at)
            again.write(data, label, key)
        again.end()
        daemon = self.daemon()
        self.check_delivered(daemon, self.one + ".log")
        larder.pack(self.one, quiet=True)
        self.check_delivered(daemon, self.one)

    def check_delivered(self, daemon, source):
        loader = self.loader(daemon, source, pipeline=[], batch_size=8)
        got = {int(index): (bytes(data), int(label)) for images, labels, indices in loader
               for data, label, index in zip(images, labels, indices)}
        self.assertEqual([got[number] for number in sorted(got)],
                         [sample(number)[1:] for number in range(COUNT)])
        self.assertEqual(loader.classes, CLASSES)


if __name__ == "__main__":
    main()
