"""./run where there is no apt: it names the packages that are needed as the system's own, and builds with what is
there. And ./run build --prefix: it takes the libraries of a folder."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
TOOLS = ("bash", "dirname", "readlink", "cat", "mkdir", "nproc", "awk", "grep", "head")
CMAKE = '#!/bin/sh\nprintf "%s\\n" "$@" "PKG_CONFIG_PATH=$PKG_CONFIG_PATH" >>"$ASKED"\n' \
    '[ "$1" = --build ] && for percent in 40 41 45 100; do echo "[ $percent%] Building"; done; true\n'
# What each names the image library, and the C library's headers.
MANAGERS = {"dnf": ("dnf install", "vips-devel", "glibc-devel"), "apk": ("apk add", "vips-dev", "musl-dev"),
            "pacman": ("pacman -S --needed", "libvips", "glibc")}
PROGRAM = os.path.join(os.environ.get("LARDER_BIN", ""), "larderd")
DEBIAN_12 = 'VERSION_ID="12"'


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        shutil.copy(os.path.join(SOURCE, "run"), self.folder)
        for tool in TOOLS:
            os.symlink(os.path.realpath(shutil.which(tool)), os.path.join(self.bin, tool))
        self.program("cmake", CMAKE)

    def program(self, name, text="#!/bin/sh\nexit 1\n"):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_it(self, *words):
        """(exit status, what it says, what CMake was asked)"""
        asked = os.path.join(self.folder, "asked")
        open(asked, "w", encoding="utf-8").close()
        done = subprocess.run([os.path.join(self.bin, "bash"), os.path.join(self.folder, "run"), *words],
                              env={"PATH": self.bin, "ASKED": asked}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        with open(asked, encoding="utf-8") as file:
            return done.returncode, done.stdout, file.read().splitlines()

    def test_packages(self):
        """Each kind of system gets the command that installs all that is needed, in its own names, and the build goes
        on with what is there."""
        with open(os.path.join(SOURCE, "run"), encoding="utf-8") as file:
            wanted = re.search(r"(?s)BUILD_PACKAGES=\((.*?)\)", file.read()).group(1).split()
        for manager, (command, *names) in MANAGERS.items():
            with self.subTest(manager):
                self.program(manager)
                status, said, asked = self.run_it("build")
                os.remove(os.path.join(self.bin, manager))
                self.assertEqual((status, bool(asked)), (0, True), said)
                told = re.search(re.escape(f"as root: {command} ") + "(.*)", said).group(1).split()
                self.assertLessEqual(set(names), set(told))
                self.assertEqual(len(told), len(wanted))
                self.assertFalse([name for name in told if name.startswith("lib") and name.endswith("-dev")
                                  and manager != "apk"])

    def lists(self):
        """The packages that the page names for a machine that runs, and for one that builds."""
        with open(os.path.join(SOURCE, "docs", "reference", "install.md"), encoding="utf-8") as file:
            found = re.findall(r"    apt-get install --no-install-recommends ((?:.*\\\n)*.*)\n", file.read())
        running, building = (set(text.replace("\\", "").split()) for text in found)
        return running, building

    def test_list_to_build(self):
        """The page's list for a machine that builds is ./run's, without what only tests need."""
        with open(os.path.join(SOURCE, "run"), encoding="utf-8") as file:
            wanted = re.search(r"(?s)BUILD_PACKAGES=\((.*?)\)", file.read()).group(1).replace("'", "").split()
        self.assertEqual(self.lists()[1], {name.split("|")[0] for name in wanted} - {"libvips-dev", "libcmocka-dev"})

    @unittest.skipUnless(os.path.exists(PROGRAM) and shutil.which("readelf") and shutil.which("dpkg-query") and
                         DEBIAN_12 in open("/etc/os-release", encoding="utf-8").read(),
                         "needs Debian 12, readelf and LARDER_BIN")
    def test_list_to_run(self):
        """The page's list for a machine that runs has the packages of all libraries that larderd names, but the C
        library's, and of those that it loads; and no other but Python's."""
        told = subprocess.run(["readelf", "-d", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", told)
        told = subprocess.run([PROGRAM, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        names += re.search(r"(?m)^loads when needed (.*)$", told)[1].split(", ")
        owners = set()
        for name in names:
            answer = subprocess.run(["dpkg-query", "-S", f"*-linux-gnu/{name}"], stdout=subprocess.PIPE, text=True,
                                    check=True).stdout
            owners.add(answer.split(":")[0])
        self.assertGreater(len(owners), 15)
        self.assertEqual(self.lists()[0], owners - {"libc6"} | {"python3", "python3-numpy"})

    def test_no_manager(self):
        """Where none of them is, Debian's names are said."""
        status, said, asked = self.run_it("build")
        self.assertEqual(status, 0)
        self.assertIn("--target larder_product", " ".join(asked))
        self.assertIn("run: configuring build\nrun: building build\nrun: 40 % built\nrun: 45 % built\n"
                      "run: 100 % built\n", said)
        self.assertIn("Needed are what Debian calls: cmake make gcc libc6-dev", said)

    def test_demo_builds_once(self):
        """The demo has what it needs built in one go, so what is built is told once. Here there is nothing to show."""
        _, said, asked = self.run_it("demo")
        self.assertEqual((said.count("run: configuring build\n"), said.count("run: building build\n"),
                          said.count("run: 100 % built\n")), (1, 1, 1), said)
        at = asked.index("--target")
        self.assertEqual(asked[at + 1:at + 3], ["larder_product", "larder_make_images"])
        self.assertEqual(asked.count("--target"), 1)

    def test_prefix(self):
        """With --prefix CMake and pkg-config look there first, tests are not built, and no package is asked for."""
        prefix = os.path.join(self.folder, "conda")
        os.mkdir(prefix)
        status, said, asked = self.run_it("build", "--prefix", prefix)
        self.assertEqual((status, "needed" in said.lower()), (0, False), said)
        for word in ("-DCMAKE_PREFIX_PATH=" + prefix, f"-DCMAKE_BUILD_RPATH={prefix}/lib", "-DLARDER_TESTS=OFF",
                     f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig:{prefix}/share/pkgconfig"):
            self.assertIn(word, asked)

    def test_wrong_words(self):
        """A prefix that is no folder, and any other word, are refused by name."""
        for words, text in ((("--prefix", "/no/where"), "--prefix takes a folder"), (("--prefix",), "takes a folder"),
                            (("--quick",), "there is --prefix FOLDER, and no --quick")):
            status, said, asked = self.run_it("build", *words)
            self.assertEqual((status, asked), (1, []))
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
