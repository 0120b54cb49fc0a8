"""Lists as datasets: CSV, TSV, JSON Lines, a folder with metadata, a list of paths; beside the folder of the same
files."""

import json
import os
import shutil
import zlib

import above  # noqa: F401
from system import Case, files_of, larder, main, tree

COUNT = 30
CROP = [larder.Resize(40), larder.CenterCrop(32)]  # which draws nothing


class Lists(Case):
    def setUp(self):
        super().setUp()
        self.tree = os.path.join(self.folder, "tree")
        shutil.copytree(tree(COUNT, classes=3), self.tree)
        self.files = files_of(self.tree)
        self.keys = [os.path.relpath(path, self.tree) for path in self.files]
        self.names = [key.split("/")[0] for key in self.keys]

    def write(self, name, *lines, folder=None):
        path = os.path.join(folder or self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def samples(self, loader):
        """Of each position: its pixels and label."""
        found = {}
        for images, labels, indices in loader:
            for image, label, index in zip(images, labels, indices):
                self.assertNotIn(int(index), found)
                found[int(index)] = zlib.crc32(image.tobytes()), int(label)
        return [found[index] for index in range(len(found))]

    def forms(self):
        rows = list(zip(self.files, self.names))
        number = {name: n for n, name in enumerate(sorted(set(self.names)))}
        quoted = [f'"{path}"' for path in self.files]
        yield "names", self.write("a/names.csv", "id,label,file_name", *(f"{n},{name},{path}" for n, (path, name) in
                                                                         enumerate(rows))), {}
        yield "numbers", self.write("a/numbers.TSV", "path\tlabel",
                                    *(f"{path}\t{number[name]}" for path, name in rows)), {}
        yield "column", self.write("a/column.csv", "file,label,kind", *(f"{path},7,{name}" for path, name in rows)), \
            {"labels": "kind"}
        yield "objects", self.write("a/objects.jsonl", *(json.dumps({"image": path, "label": name, "more": [1]})
                                                         for path, name in rows)), {}
        yield "quotes", self.write("a/quotes.csv", '\ufeff"path","label"', *(f'{path},"{name}"' for path, name in
                                                                             zip(quoted, self.names)), ""), {}
        yield "own labels", self.write("a/own.csv", "path", *quoted), {"labels": [number[name] for name in self.names]}
        yield "a list of paths", self.files, {"labels": self.names}
        below = os.path.basename(self.tree)
        yield "relative", self.write("list.csv", "path,label", *(f"./{below}//{key},{name}" for key, name in
                                                                 zip(self.keys, self.names))), {}

    def test_forms(self):
        """Each form gives the samples and labels of the folder, and shares them with it."""
        daemon = self.daemon()
        with self.loader(daemon, self.tree, 16, CROP) as loader:
            wanted, ids = self.samples(loader), {}
            for _, _, indices in loader:
                ids.update(zip(indices.tolist(), loader.last_ids.tolist()))
        for name, dataset, options in self.forms():
            with self.subTest(name), self.loader(daemon, dataset, 16, CROP, **options) as loader:
                self.assertEqual(self.samples(loader), wanted)
                for _, _, indices in loader:
                    self.assertEqual([ids[index] for index in indices.tolist()], loader.last_ids.tolist())
                self.assertEqual([path for path, _ in loader.dataset.samples], self.files)
                self.assertEqual(loader.dataset.targets, [label for _, label in wanted])

    def test_folder(self):
        """A folder with metadata beside its images, as the Hub has it; its classes are named by the list."""
        folder = os.path.join(self.folder, "hub")
        os.mkdir(folder)
        for number, path in enumerate(self.files):
            os.link(path, os.path.join(folder, f"{number:03}.jpg"))
        self.write("metadata.csv", "file_name,label", *(f"{n:03}.jpg,{name}" for n, name in enumerate(self.names)),
                   folder=folder)
        with self.loader(self.daemon(), folder, with_paths=True) as loader:
            self.assertEqual(loader.classes, sorted(set(self.names)))
            for _, labels, indices, paths in loader:
                self.assertEqual([loader.classes[label] for label in labels], [self.names[n] for n in indices])
                self.assertEqual(paths, [os.path.join(folder, f"{n:03}.jpg") for n in indices])

    def test_repeated_and_gone(self):
        """A file may stand in several rows; one that is not there is a bad sample."""
        rows = [*self.files, self.files[0], os.path.join(self.tree, "no", "such.jpg")]
        loader = self.loader(self.daemon(), rows)
        with self.assertWarns(larder.BadSamplesWarning):
            positions = sorted(index for _, _, indices in loader for index in indices.tolist())
        self.assertEqual(positions, list(range(COUNT + 1)))

    def test_changes(self):
        """A list that is written anew is another dataset for the next job; a daemon that starts again knows it."""
        daemon = self.daemon()
        path = self.write("x.csv", "path", *self.files[:20])
        with self.loader(daemon, path) as loader:
            self.assertEqual(len(self.samples(loader)), 20)
        self.write("x.csv", "path", *self.files)
        with self.loader(daemon, path) as loader:
            self.assertEqual(len(self.samples(loader)), COUNT)
        daemon.stop()
        with self.loader(self.daemon(), path) as loader:
            self.assertEqual(len(self.samples(loader)), COUNT)

    def test_rewritten(self):
        """A list that was written anew with as many bytes, and its time set back, is another one too."""
        daemon = self.daemon()
        for label in (1, 2):
            path = self.write("x.csv", "path,label", *(f"{file},{label}" for file in self.files))
            os.utime(path, (1e9, 1e9))
            with self.loader(daemon, path) as loader:
                self.assertEqual({label for _, label in self.samples(loader)}, {label})

    def test_links(self):
        """A link called a list is one, whatever it leads to, and its paths are below the link's folder: so it is in the
        cache of Hugging Face's Hub. A link to what is called a list is that list."""
        daemon = self.daemon()
        with self.loader(daemon, self.tree, 10, CROP, shuffle=False) as loader:
            want = self.samples(loader)
        rows = "file_name,label", *(f"tree/{key},{name}" for key, name in zip(self.keys, self.names))
        blob = self.write("3f9ac1", *rows, folder=os.path.join(self.folder, "blobs"))
        os.symlink(os.path.relpath(blob, self.folder), os.path.join(self.folder, "train.csv"))
        other = self.write("other.csv", *rows)
        os.symlink(other, os.path.join(self.folder, "blobs", "link.csv"))
        for name in "train.csv", "blobs/link.csv", "train.csv#labels=label":
            with self.loader(daemon, os.path.join(self.folder, name), 10, CROP, shuffle=False) as loader:
                self.assertEqual(self.samples(loader), want, name)

    def test_folders_called_lists(self):
        """A folder is one, whatever it is called."""
        daemon = self.daemon()
        for name in "tree.csv", "tree.jsonl", "tree.tar":
            path = os.path.join(self.folder, name)
            os.rename(self.tree, path)
            self.tree = path
            with self.loader(daemon, path, 10, CROP) as loader:
                self.whole(loader, COUNT)

    def test_words(self):
        """Classes may be called as no numbers are."""
        path = self.write("x.csv", "path,label", f"{self.files[0]},nan", f"{self.files[1]},inf", f"{self.files[2]},0x1")
        with self.loader(self.daemon(), path) as loader:
            self.assertEqual(loader.classes, ["0x1", "inf", "nan"])

    def test_refused(self):
        """What cannot be used is refused with the line."""
        daemon, file = self.daemon(), self.files[0]
        for lines, options, words in (
                (["name,label", "a,b"], {}, "x.csv:1:1: no column of paths"),
                (["path,label", f"{file},1.5"], {}, "x.csv:2:1: .*fraction"),
                (["path", "../a.jpg"], {}, r'x.csv:2:1: its path has "\.\."'),
                (["path,label", f"{file},1", f"{file},cat"], {}, "make them all one"),
                (["path,label", f"{file},1", f"{file},"], {}, "it has no label, and others have"),
                (["path", f'"{file}'], {}, "within double quotes"), (["path"], {}, "no row"),
                (["path,label", ",1"], {}, "x.csv:2:1: the row has no path"),
                (["path", file], {"labels": "breed"}, 'no column "breed"'),
                (["path,label", f"{file},-1"], {}, "not 0 to")):
            with self.subTest(words), self.assertRaisesRegex(larder.LarderError, words):
                self.loader(daemon, self.write("x.csv", *lines), **options)
        with self.assertRaisesRegex(larder.LarderError, "y.jsonl:2:.*no JSON object"):
            self.loader(daemon, self.write("y.jsonl", json.dumps({"path": file}), "{"))
        with self.assertRaisesRegex(larder.InvalidArgument, "empty list"):
            self.loader(daemon, [])
        with self.assertRaisesRegex(larder.LarderError, "cannot open the list"):
            self.loader(daemon, "/no/such.csv")


if __name__ == "__main__":
    main()
