"""What a release consists of: one version everywhere, and, with --long, a source archive that builds and a Debian
package that is the same twice and holds what it should."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
BIN = os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin"))
LONG = "--long" in sys.argv
LIMIT_S = 3600


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
                          check=False, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout[-4000:]}")
    return done.stdout


class Version(unittest.TestCase):
    def setUp(self):
        self.version = re.search(r'"(.*)"', read("client", "python", "larder", "_version.py")).group(1)

    def test_one_version(self):
        """Programs and the list of changes say the package's version, and no build file has one of its own."""
        for name in ("larder", "larderd"):
            said = run(os.path.join(BIN, name), "--version")
            self.assertEqual(said.split("\n")[0], f"{name} {self.version}")
        self.assertEqual(re.search(r"(?m)^## (\S+)", read("CHANGES.md")).group(1), self.version)
        for path in (("CMakeLists.txt",), ("client", "python", "pyproject.toml"), ("configs", "package.cmake")):
            self.assertNotIn(self.version, read(*path))

    def test_what_was_built_in(self):
        """--version names each library with its version, and how it was built."""
        said = run(os.path.join(BIN, "larder"), "--version")
        for library in ("libjpeg-turbo", "libpng", "libdeflate", "libtiff", "libwebp", "CRoaring", "libyaml",
                        "libmicrohttpd", "GnuTLS", "nng", "jansson", "xxHash"):
            self.assertRegex(said, library + r" \d+\.\d+")
        self.assertRegex(said, r"\nby \S+ \d+")


@unittest.skipUnless(LONG, "a long test")
class Archives(unittest.TestCase):
    def setUp(self):
        for program in ("git", "cmake", "cpack", "dpkg-deb", "dpkg-shlibdeps"):
            if not shutil.which(program):
                self.skipTest(f"no {program}")
        if not os.path.exists(os.path.join(SOURCE, ".git")):
            self.skipTest("no git checkout")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def release(self, name):
        out = os.path.join(self.folder, name)
        run(os.path.join(SOURCE, "configs", "release"), out, "deb")
        return {file: open(os.path.join(out, file), "rb").read() for file in os.listdir(out)}, out

    def test_debian_package(self):
        """The source archive builds the Debian package; twice gives the same bytes; it has all that it should."""
        first, out = self.release("1")
        self.assertEqual(len(first), 2, list(first))
        self.assertEqual(first, self.release("2")[0])
        package = next(os.path.join(out, name) for name in first if name.endswith(".deb"))
        has = run("dpkg-deb", "-c", package)
        for path in ("usr/bin/larderd", "usr/bin/larder", "usr/include/larder/larder.h", "liblarder.so.0",
                     "usr/lib/python3/dist-packages/larder/__init__.py", "usr/lib/systemd/system/larderd.service",
                     "usr/lib/systemd/system/larderd.socket", "usr/lib/systemd/user/larderd.service",
                     "usr/lib/sysusers.d/larder.conf", "usr/share/man/man1/larder.1.gz",
                     "usr/share/man/man8/larderd.8.gz", "etc/larder/larder.yaml", "usr/share/doc/larder/copyright",
                     "usr/share/doc/larder/docs/guide/start.md", "usr/share/doc/larder/examples/python/train.py",
                     "usr/share/doc/larder/examples/c/train.c",
                     "usr/share/doc/larder/examples/kubernetes/larderd.yaml"):
            self.assertIn(path, has)
        self.assertNotIn("__pycache__", has)
        depends = run("dpkg-deb", "-f", package, "Depends")
        # The last four are loaded when they are needed, not linked.
        for name in ("python3-numpy", "libjpeg", "libcurl", "libtiff", "libsndfile", "libsoxr"):
            self.assertIn(name, depends)
        if shutil.which("lintian"):
            faults = [line for line in run("lintian", "--fail-on", "none", package).split("\n")
                      if line.startswith("E:") and "bogus-mail-host" not in line]
            self.assertEqual(faults, [])


if __name__ == "__main__":
    sys.argv = [word for word in sys.argv if word != "--long"]
    unittest.main(verbosity=2)
