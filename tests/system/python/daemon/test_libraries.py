"""The libraries that larderd loads when it needs them first: what a daemon has of them, and what is without them."""

import os
import re
import struct
import subprocess
import unittest
import wave

import above  # noqa: F401
from system import BIN, Case, larder, main, tree, until

SOUND = [{"segment": {"frames": 100}}, "to_mono"]
SAID = subprocess.run([os.path.join(BIN, "larderd"), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
LOADED = re.findall(r"[^ ,]+\.so\.\d+", SAID)
# What comes with them, and with nothing else of larderd's.
BELOW = ("libstdc++", "libgomp", "libLerc", "libFLAC", "libvorbis", "libmpg123")


def write_tiff(path, level):
    """8 × 8 pixels of one grey, in one strip."""
    tags = [(256, 3, 8), (257, 3, 8), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1), (278, 3, 8),
            (279, 4, 64)]
    with open(path, "wb") as file:
        file.write(struct.pack("<2sHI", b"II", 42, 72) + bytes([level]) * 64 + struct.pack("<H", len(tags)))
        for tag, kind, value in tags:
            file.write(struct.pack("<HHII", tag, kind, 1, value))
        file.write(bytes(4))


@unittest.skipIf("libraries brought along" in SAID, "this larderd is linked with them")
@unittest.skipUnless("libsndfile" in SAID, "this larderd was built without sound")
class Libraries(Case):
    def setUp(self):
        super().setUp()
        self.assertEqual([name[:7] for name in LOADED], ["libcurl", "libtiff", "libsndf", "libsoxr"])
        self.broken = os.path.join(self.folder, "broken")
        self.images = os.path.join(self.folder, "images")
        self.clips = os.path.join(self.folder, "clips")
        os.mkdir(self.broken)
        for folder in (self.images, self.clips):
            os.makedirs(os.path.join(folder, "all"))
        for i in range(4):
            write_tiff(os.path.join(self.images, "all", f"{i}.tif"), 50 * i)
        for i in range(4):
            with wave.open(os.path.join(self.clips, "all", f"{i}.wav"), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes(bytes(400))

    def without(self, *words):
        """The environment of a machine whose libraries of these names cannot be loaded."""
        for name in LOADED:
            if any(word in name for word in words):
                with open(os.path.join(self.broken, name), "wb"):
                    pass
        paths = [self.broken, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(paths)}

    def install(self, word):
        os.remove(os.path.join(self.broken, next(name for name in LOADED if word in name)))

    def mapped(self, daemon):
        with open(f"/proc/{daemon.process.pid}/maps", encoding="utf-8") as file:
            return {os.path.basename(line.split()[-1]) for line in file if ".so" in line}

    def has(self, daemon, words):
        return [word for word in words if any(name.startswith(word) for name in self.mapped(daemon))]

    def test_when_needed(self):
        """A daemon has none of them, nor what they need, when it is idle and when it serves JPEG; libtiff with the
        first TIFF, and those for sounds with the first job of sounds."""
        daemon = self.daemon()
        with self.loader(daemon, tree(20), 20, [larder.Resize([8, 8])]) as loader:
            self.whole(loader, 20)
        daemon.status()
        self.assertEqual(self.has(daemon, LOADED), [])
        if not self.has(daemon, ["libasan"]):  # a sanitizer's own library needs some of it
            self.assertEqual(self.has(daemon, BELOW), [])
        with self.loader(daemon, self.images, 4, [larder.Resize([8, 8])], shuffle="none") as loader:
            (images, *_), = loader
            self.assertEqual(images[:, 0, 0, 0].tolist(), [0, 50, 100, 150])
        self.assertEqual([name[:7] for name in self.has(daemon, LOADED)], ["libtiff"])
        with self.loader(daemon, self.clips, 4, SOUND) as loader:
            self.whole(loader, 4)
        self.assertEqual([name[:7] for name in self.has(daemon, LOADED)], ["libtiff", "libsndf", "libsoxr"])

    def test_no_tiff(self):
        """Without libtiff TIFFs are bad samples, by name, and the log says what to install; all else is served, and
        TIFFs are as soon as the library is there."""
        daemon = self.daemon(environment=self.without("tiff"))
        with self.loader(daemon, tree(20), 20, [larder.Resize([8, 8])]) as loader:
            self.whole(loader, 20)
        with self.assertRaisesRegex(larder.BadSample, r"all/\d.tif \(unreadable\)"), \
                self.loader(daemon, self.images, 4, [larder.Resize([8, 8])], bad_samples="error") as loader:
            self.whole(loader, 4)
        self.assertTrue(until(lambda: re.search(r"all/\d.tif.*reading TIFF needs the library libtiff, which cannot be "
                                                r"loaded: install it \(.*libtiff", daemon.log()), 5), daemon.log())
        self.install("tiff")
        with self.loader(daemon, self.images, 4, [larder.Resize([8, 8])]) as loader:
            self.whole(loader, 4)

    def test_no_sound(self):
        """Without one of the two libraries a job of sounds is refused, and the error says what to install; it is
        taken as soon as the library is there."""
        daemon = self.daemon(environment=self.without("soxr"))
        with self.assertRaisesRegex(larder.InvalidArgument, "making sounds needs the library libsoxr, which cannot be "
                                                            "loaded: install it"):
            self.loader(daemon, self.clips, 4, SOUND)
        self.install("soxr")
        with self.loader(daemon, self.clips, 4, SOUND) as loader:
            self.whole(loader, 4)

    def test_told(self):
        """--version and doctor name those that are there, and say what is missing."""
        environment = dict(os.environ, **self.without("tiff"))
        daemon = self.daemon()
        for program in ("larderd", "larder"):
            said = subprocess.run([os.path.join(BIN, program), "--version"], env=environment, check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            self.assertRegex(said, "\nmissing: reading TIFF needs the library libtiff, which cannot be loaded: install")
            self.assertEqual(said.count("missing"), 1)
        said = subprocess.run([os.path.join(BIN, "larder"), "doctor", "--socket", daemon.socket], env=environment,
                              check=False, stdout=subprocess.PIPE, text=True).stdout
        self.assertRegex(said, r"(?m)^bad +libraries +reading TIFF needs the library libtiff.*\n +→ install it")
        self.assertRegex(said, r"(?m)^good +libraries +there, to be loaded when needed: libcurl\S*, libsndfile\S*, "
                               r"libsoxr\S*$")


if __name__ == "__main__":
    main()
