"""The wheel of the Python package alone: it is made without a compiler, the same twice, installed by pip, and trains
with a daemon from elsewhere."""

import os
import subprocess
import sys
import zipfile

import above  # noqa: F401
import system
from system import SLOW, SOURCE, Case, main, tree

BUILDER = os.path.join(SOURCE, "client", "python")
BUILD = f"""
import os, sys
sys.path.insert(0, {BUILDER!r})
os.chdir(sys.argv[1])
import larder_build
print(larder_build.build_wheel(sys.argv[2]))
"""


class Pure(Case):
    def setUp(self):
        super().setUp()
        for module in ("setuptools", "wheel", "pip"):
            if subprocess.run([sys.executable, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode:
                self.skipTest(f"this Python has no {module}")

    def wheel(self, name):
        """setuptools writes beside what it packs, so that is a copy."""
        work, out = os.path.join(self.folder, name), os.path.join(self.folder, name + "-out")
        os.makedirs(os.path.join(work, "client"))
        os.makedirs(out)
        subprocess.run(["cp", "-r", BUILDER, os.path.join(work, "client")], check=True)
        os.symlink(os.path.join(SOURCE, "server"), os.path.join(work, "server"))
        os.symlink(os.path.join(SOURCE, "LICENSE"), os.path.join(work, "LICENSE"))
        code = BUILD.replace(BUILDER, os.path.join(work, "client", "python"))
        done = subprocess.run([sys.executable, "-B", "-c", code, os.path.join(work, "client", "python"), out],
                              env=dict(os.environ, LARDER_WHEEL="pure", PATH="/usr/bin:/bin"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return os.path.join(out, done.stdout.splitlines()[-1])

    def test_it_trains(self):
        """Installed by pip, without a network, it trains with a daemon that it did not bring; and says that it brings
        none where none is."""
        wheel, site = self.wheel("one"), os.path.join(self.folder, "site")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site,
                        wheel], check=True, stderr=subprocess.DEVNULL)
        self.assertFalse(os.path.exists(os.path.join(site, "larder", "bin")))
        daemon, folder = self.daemon(), tree(60)
        script = self.script(daemon, package=site, dataset=folder, pipeline=system.PIPELINE, batch_size=16, epochs=2,
                             timeout=60 * SLOW)
        self.assertEqual(script.wait(), 0, (script.end, script.errors))
        self.assertEqual(script.epochs(), [list(range(60))] * 2)
        code = f"import larder\nlarder.Loader({folder!r}, [], epochs=1).classes"
        alone = subprocess.run([sys.executable, "-B", "-c", code], stderr=subprocess.PIPE, text=True,
                               env={"PATH": self.folder, "PYTHONPATH": site, "XDG_RUNTIME_DIR": self.folder})
        self.assertIn("`pip install larderd` brings one", alone.stderr)

    def test_twice(self):
        """Two builds are equal byte for byte; its name is larderd, for any machine, and it names its licence and has
        the words."""
        first, second = self.wheel("one"), self.wheel("two")
        with open(first, "rb") as one, open(second, "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.assertRegex(os.path.basename(first), r"^larderd-[\d.]+-py3-none-any\.whl$")
        with zipfile.ZipFile(first) as archive:
            info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = archive.read(info).decode()
            words = archive.read(info.replace("METADATA", "licenses/LICENSE")).decode()
        self.assertIn("\nName: larderd\n", metadata)
        self.assertIn("\nLicense-Expression: Apache-2.0\n", metadata)
        self.assertIn("Apache License", words)


if __name__ == "__main__":
    main()
