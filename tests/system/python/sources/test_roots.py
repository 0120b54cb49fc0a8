"""The folders below which a daemon serves datasets (`roots:`)."""

import os
import subprocess

import above  # noqa: F401
from system import BIN, CONFIG, Case, larder, main, make_tree

LARDERD = os.path.join(BIN, "larderd")


class Roots(Case):
    def setUp(self):
        super().setUp()
        self.inside, self.outside = (os.path.join(self.folder, name) for name in ("data/in", "data-too/out"))
        for folder in (self.inside, self.outside):
            os.makedirs(os.path.dirname(folder))
            make_tree(folder, 32)

    def config(self, *roots, more=""):
        return CONFIG + "roots:\n" + "".join(f"  - {os.path.join(self.folder, root)}\n" for root in roots) + more

    def test_below(self):
        """Datasets below a root are served; others are not, by whatever name; the error says what to do."""
        os.symlink(self.outside, os.path.join(self.folder, "data", "link"))
        os.symlink(self.inside, os.path.join(self.folder, "in-link"))
        daemon = self.daemon(self.config("data", "nowhere", more=f"datasets:\n  far:\n    path: {self.outside}\n"))
        for path in (self.inside, os.path.join(self.folder, "in-link"), os.path.join(self.inside, "..", "in")):
            with self.loader(daemon, path) as loader:
                self.whole(loader, 32)
        for path in (self.outside, os.path.join(self.folder, "data", "link"), "far",
                     os.path.join(self.folder, "data", "..", "data-too", "out")):
            with self.assertRaises(larder.LarderError) as raised:
                self.loader(daemon, path)
            self.assertEqual(raised.exception.code, "EPERM")
            self.assertRegex(str(raised.exception), "is below none of the folders that this daemon serves .*: put it "
                                                    "there, or add its folder to `roots` in .*")
            self.assertIn(os.path.join(self.folder, "data"), str(raised.exception))

    def test_linked_root(self):
        """A root may be a link."""
        os.symlink(os.path.join(self.folder, "data"), os.path.join(self.folder, "root"))
        daemon = self.daemon(self.config("root"))
        with self.loader(daemon, self.inside) as loader:
            self.whole(loader, 32)

    def test_check(self):
        """`larderd check` warns of a dataset below no root and of a root that is not there; --show has the roots."""
        path = os.path.join(self.folder, "check.yaml")
        with open(path, "w") as file:
            file.write(self.config("data", "nowhere", more=f"datasets:\n  far:\n    path: {self.outside}\n"))
        done = subprocess.run([LARDERD, "check", "--show", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("roots[1]", done.stderr)
        self.assertRegex(done.stderr, "datasets.far: .* is below none of the folders of roots")
        self.assertIn(f'roots:\n  - "{self.folder}/data"', done.stdout)


if __name__ == "__main__":
    main()
