"""Lists of samples (larder.List) and files of labels (labels=) take the same lines: one table of forms proves it of
both."""

import os
import shutil

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, tree

# Names that have in them what stands between fields elsewhere.
KEYS = ["a/1 2.jpg", "a/x,y.jpg", "a/x;y.jpg", "b/#3.jpg", "b/plain.jpg", 'b/"q".jpg', "b/\u00e4.jpg", "b/\udce4.jpg"]
PLAIN = ["a/1 2.jpg", "a/x,y.jpg", "b/plain.jpg"]
BOM = b"\xef\xbb\xbf"


def lines(template, end="\n", keys=PLAIN):
    return "".join(template.format(key=key, quoted=key.replace('"', '""'), n=KEYS.index(key)) + end
                   for key in keys).encode("utf-8", "surrogateescape")


# What people's programs write: the form, the file's bytes, and the keys that it names.
FORMS = [
    ("comma", lines("{key},{n}"), PLAIN),
    ("semicolon", lines("{key};{n}"), PLAIN),
    ("tab", lines("{key}\t{n}"), PLAIN),
    ("blank, as Caffe writes", lines("{key} {n}"), PLAIN),
    ("comma and blanks", lines("  {key} ,  {n}  "), PLAIN),
    ("Windows", BOM + lines("{key},{n}", "\r\n"), PLAIN),
    ("old Macintosh", lines("{key},{n}", "\r"), PLAIN),
    ("titles", b"path,label\n" + lines("{key},{n}"), PLAIN),
    ("titles in quotes", BOM + b'"File_Name";"Class"\r\n' + lines('"{quoted}";"{n}"', "\r\n"), PLAIN),
    ("comments and empty lines", b"# mine\n\n \n" + lines("{key},{n}", "\n\n# next\n"), PLAIN),
    ("quotes", lines('"{quoted}",{n}'), PLAIN),
    ("quotes everywhere", lines('"{quoted}","{n}"'), PLAIN),
    ("./", lines("./{key},{n}"), PLAIN),
    ("doubled slashes", lines(".//{key},{n}").replace(b"b/", b"b//"), PLAIN),
    ("absolute", lines("ROOT/{key},{n}"), PLAIN),
    ("absolute, with ./", lines("ROOT/.//{key} {n}"), PLAIN),
    ("absolute, in quotes", lines('"ROOT/{quoted}" {n}'), PLAIN),
    ("odd names", lines("{key},{n}", keys=KEYS), KEYS),
    ("odd names in quotes", lines('"{quoted}";{n}', keys=KEYS), KEYS),
    ("no newline at the end", lines("{key},{n}").rstrip(), PLAIN),
]

# What cannot be meant: the form, the file's bytes, and what both say of it.
WRONG = [
    ("UTF-16", lines("{key},{n}").decode().encode("utf-16"), ":1:1: is UTF-16"),
    ("UTF-16 without a mark", lines("{key},{n}").decode().encode("utf-16-le"), ":1:1: .*zero bytes"),
    ("Latin-1", lines("{key},{n}") + "b/\u00f6.jpg,1\n".encode("latin-1"), ":4:1: .*not UTF-8"),
    ("backslashes", b"b\\plain.jpg,1\n", r":1:1: .*keys have /"),
    ("no folder", b"plain.jpg,1\n", ":1:1: .*no folder"),
    ("no ending", b"b/plain,1\n", ":1:1: .*no"),
    ("the root's name before it", b"set/b/plain.jpg,1\n", ":1:1: .*no"),
    ("another root", b"/elsewhere/b/plain.jpg,1\n", ":1:1: .*does not lie below it"),
    ("titles in the middle", lines("{key},{n}") + b"path,label\n", ":4:1: "),
    ("a name that none has", lines("{key},{n}") + b"  b/none.jpg,1\n", ":4:3: "),
    ("two names", b"b/plain.jpg a/x,y.jpg\n", ":1:12: |:1:1: "),
]


class Lists(Case):
    def setUp(self):
        super().setUp()
        image = files_of(tree(1))[0]
        self.root = os.path.join(self.folder, "set")
        for key in KEYS:
            path = os.path.join(self.root, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy(image, path)
        self.order = sorted(KEYS, key=lambda key: os.fsencode(key).decode("utf-8", "surrogateescape"))

    def write(self, said):
        path = os.path.join(self.folder, "said")
        with open(path, "wb") as file:
            file.write(said.replace(b"ROOT", os.fsencode(self.root)))
        return path

    def test_forms(self):
        """Each form names the same samples to both, and its labels are those behind the names."""
        daemon = self.daemon()
        for form, said, keys in FORMS:
            with self.subTest(form):
                path = self.write(said)
                wanted = sorted(self.order.index(key) for key in keys)
                with self.loader(daemon, self.root, subset=larder.List(path), pipeline=[]) as loader:
                    self.assertEqual(sorted(index for batch in loader for index in batch[-1].tolist()), wanted)
                with self.loader(daemon, self.root, labels=path, pipeline=[],
                                 subset=larder.Indices(wanted)) as loader:
                    got = {int(index): int(label) for batch in loader for label, index in zip(*batch[1:])}
                self.assertEqual(got, {self.order.index(key): KEYS.index(key) for key in keys})

    def test_wrong(self):
        """What cannot be meant is refused by both, with line and column."""
        daemon = self.daemon()
        for form, said, says in WRONG:
            path = self.write(said)
            for options in ({"subset": larder.List(path)}, {"labels": path, "subset": larder.Range(0, 1)}):
                with self.subTest(form, of=list(options)[0]), self.assertRaisesRegex(larder.LarderError, says) as told:
                    self.loader(daemon, self.root, **options)
                self.assertIn(path, str(told.exception))

    def test_mapping(self):
        """The keys of a mapping are found as names in a file are."""
        labels = {f"./{key}" if n % 2 else os.path.join(self.root, key): n for n, key in enumerate(KEYS)}
        loader = self.loader(self.daemon(), self.root, labels=labels)
        np.testing.assert_array_equal(loader.dataset.targets, [KEYS.index(key) for key in self.order])


if __name__ == "__main__":
    main()
