"""Columns: what a dataset has for each sample besides its image, of every container, in batches and as a whole; and
clients that ask for them as no client of ours does."""

import csv
import fcntl
import io
import json
import math
import os
import shutil
import struct
import subprocess
import tarfile

import above  # noqa: F401
import numpy as np
import raw
from system import BIN, Case, files_of, larder, main, tree, until

COUNT, CLASSES = 60, 4
CROP = [larder.Resize(40), larder.CenterCrop(32)]
LIMITED = "memory: {{arena: 64MiB, encoded: 64MiB}}\nlimits: {{columns: {columns}}}\nmetrics: {{enabled: false}}\n"


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


class ColumnsCase(Case):
    def setUp(self):
        super().setUp()
        self.tree = tree(COUNT, classes=CLASSES)
        self.files = files_of(self.tree)
        self.names = [path.split("/")[-2] for path in self.files]
        self.classes = sorted(set(self.names))
        self.captions = [f"a picture, \"{n}\"\nof ä" * (n % 3) for n in range(COUNT)]

    def csv(self, name="list.csv", count=COUNT):
        path = os.path.join(self.folder, name)
        with open(path, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["file_name", "label", "caption", "number", "score", "lacks"])
            rows.writerows([self.files[n], self.names[n], self.captions[n], n - 5, n / 7, n if n % 2 else ""]
                           for n in range(count))
        return path

    def jsonl(self):
        path = os.path.join(self.folder, "list.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for n in range(COUNT):
                row = {"path": self.files[n], "label": self.names[n], "vector": [n, n / 3], "boxes": [[n]] * (n % 3),
                       "caption": self.captions[n]}
                file.write(json.dumps(row) + "\n")
        return path

    def shards(self):
        """Two shards, in another order than the tree's."""
        folder = os.path.join(self.folder, "shards")
        os.mkdir(folder)
        for shard in range(2):
            with tarfile.open(f"{folder}/train-{shard}.tar", "w") as tar:
                for n in range(shard, COUNT, 2):
                    with open(self.files[n], "rb") as file:
                        add(tar, f"x/{n:03}.jpg", file.read())
                    add(tar, f"x/{n:03}.cls", str(self.classes.index(self.names[n])).encode())
                    if self.captions[n]:
                        add(tar, f"x/{n:03}.txt", self.captions[n].encode())
                    add(tar, f"x/{n:03}.json", json.dumps({"n": n, "v": [n, 0.5], "kind": self.names[n]}).encode())
        return folder

    def kept(self, daemon):
        return daemon.status()["memory"]["columns"]["used_bytes"]


class Columns(ColumnsCase):
    def test_every_container(self):
        """samples, targets, classes, with_paths and labels= by key answer for a tree, its store, a list and shards."""
        store = os.path.join(self.folder, "store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", self.tree, store, "--quiet"], check=True)
        keys = [os.path.relpath(path, self.tree) for path in self.files]
        shards = self.shards()
        order = [*range(0, COUNT, 2), *range(1, COUNT, 2)]
        of_shards = [f"{shards}/train-{n % 2}.tar/x/{n:03}.jpg" for n in order]
        daemon = self.daemon()
        for dataset, paths, samples, called, classes in (
                (self.tree, self.files, range(COUNT), keys, self.classes),
                (store, [os.path.join(store, key) for key in keys], range(COUNT), keys, self.classes),
                (self.csv(), self.files, range(COUNT), keys, self.classes),
                (shards, of_shards, order, [f"x/{n:03}" for n in order], [str(n) for n in range(CLASSES)]),
                (shards + "/train-{0..1}.tar", of_shards, order, [f"train-{n % 2}.tar/x/{n:03}" for n in order],
                 [str(n) for n in range(CLASSES)])):
            with self.subTest(dataset), self.loader(daemon, dataset, 16, CROP, with_paths=True) as loader:
                targets = [self.classes.index(self.names[n]) for n in samples]
                self.assertEqual(loader.dataset.samples, list(zip(paths, targets)))
                self.assertEqual((loader.dataset.targets, loader.classes), (targets, classes))
                seen = 0
                for _, labels, indices, got in loader:
                    self.assertEqual([loader.dataset.samples[n] for n in indices], list(zip(got, labels.tolist())))
                    seen += len(got)
                self.assertEqual(seen, COUNT)
                with self.loader(daemon, dataset, 16, CROP, labels={key: -n for n, key in enumerate(called)}) as own:
                    self.assertEqual(own.dataset.targets, [-n for n in range(COUNT)])

    def test_lists(self):
        """Whole numbers, numbers, vectors and texts of lists, as a whole and in batches."""
        daemon = self.daemon()
        with self.loader(daemon, self.csv(), 16, CROP, columns=["score", "caption", "number"],
                         as_dict=("image", "label", "at")) as loader:
            columns = loader.dataset.columns
            self.assertEqual(list(columns), ["file_name", "label", "caption", "number", "score", "lacks"])
            self.assertEqual((columns["number"].dtype, columns["number"].tolist()),
                             (np.int64, [n - 5 for n in range(COUNT)]))
            self.assertEqual(columns["score"].tolist(), [n / 7 for n in range(COUNT)])
            self.assertEqual([None if math.isnan(n) else n for n in columns["lacks"].tolist()],
                             [n if n % 2 else None for n in range(COUNT)])
            self.assertEqual(list(columns["caption"]), self.captions)
            self.assertEqual(columns["caption"][-1:] + [columns["label"][3]], [self.captions[-1], self.names[3]])
            self.assertIn("__key__", columns)
            self.assertNotIn("Score", columns)
            with self.assertRaises(ValueError):
                columns["number"][0] = 1
            for batch in loader:
                self.assertEqual(list(batch), ["image", "label", "at", "score", "caption", "number"])
                self.assertEqual(batch["caption"], [self.captions[n] for n in batch["at"]])
                self.assertEqual(batch["score"].dtype, np.float32)
                self.assertEqual(batch["number"].tolist(), [n - 5 for n in batch["at"]])
        with self.loader(daemon, self.jsonl(), 16, CROP, columns="vector") as loader:
            self.assertEqual(loader.dataset.columns["vector"].tolist(), [[n, n / 3] for n in range(COUNT)])
            self.assertEqual([json.loads(text) for text in loader.dataset.columns["boxes"]],
                             [[[n]] * (n % 3) for n in range(COUNT)])
            for _, _, indices, vectors in loader:
                self.assertEqual(vectors.tolist(), np.float32([[n, n / 3] for n in indices]).tolist())
        with self.assertRaisesRegex(larder.NotFound, "no column \"nothing\". It has 'file_name', 'label', 'c"):
            self.loader(daemon, self.csv(), columns=["nothing"])
        for name in ("", 3, ["caption", "caption"]):
            with self.subTest(name), self.assertRaises(larder.LarderError):
                self.loader(daemon, self.csv(), columns=name if name == ["caption", "caption"] else [name])

    def test_names(self):
        """Each name that is listed is a column's: not the empty one that pandas writes, nor one twice; a name that no
        column can have is a KeyError, and costs the connection nothing."""
        path, daemon = os.path.join(self.folder, "list.csv"), self.daemon()
        with open(path, "w") as file:
            print("", "path", "n", "n", "x" * 1025, "y" * 1024, sep=",", file=file)
            print(0, self.files[0], 1, 2, 3, 4, sep=",", file=file)
        with self.loader(daemon, path, 16, CROP) as loader:
            columns = loader.dataset.columns
            self.assertEqual(list(columns), ["path", "n", "y" * 1024])
            self.assertEqual([list(columns[name]) for name in columns], [[self.files[0]], [1], [4]])
            session = loader._job.open()
            for name in ("", "x" * 1025, "a\0", "\ud800", "\udc80"):
                self.assertNotIn(name, columns)
            self.assertIs(loader._job.open(), session)
        with open(path[:-3] + "jsonl", "w") as file:
            json.dump({"path": self.files[0], **{f"c{n}": n for n in range(5000)}}, file)
        with self.loader(daemon, path[:-3] + "jsonl", 16, CROP) as loader:
            self.assertEqual(loader.dataset.columns["c4999"].tolist(), [4999])
            with self.assertRaisesRegex(larder.LimitReached, "list.jsonl: its columns are more than 4,096"):
                list(loader.dataset.columns)

    def test_look(self):
        """larder look names the columns of a list and of shards, a part that is no text not among them; it shows what
        a terminal can show, and not all of many. Of a tree it says nothing."""
        def look(source):
            told = subprocess.run([os.path.join(BIN, "larder"), "look", source], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            return [line for line in told.splitlines() if line.startswith("columns")]

        self.assertEqual(look(self.tree), [])
        self.assertEqual(look(self.csv()), ["columns  file_name, label, caption, number, score, lacks"])
        shards = self.shards()
        with tarfile.open(f"{shards}/train-0.tar", "a") as tar:
            for part, data in (("jpg", b""), ("cls", b"0"), ("npy", b"\0\1"), ("\33[31m", b"a text")):
                add(tar, "x/999." + part, data)
        self.assertEqual(look(shards), ["columns  cls, json, json:n, json:v, json:kind, txt, ?[31m"])
        with open(os.path.join(self.folder, "many.csv"), "w") as file:
            print("path", *(f"c{n}" for n in range(30)), sep=",", file=file)
            print(self.files[0], *range(30), sep=",", file=file)
        self.assertTrue(look(file.name)[0].endswith(", c18, ..."))

    def test_beyond_64_bits(self):
        """Whole numbers beyond 64 bits in JSON Lines make their column one of texts, as in CSV, without a lost digit;
        other columns of such a row are what they were. As a label, or as a place, one costs a sentence."""
        path = os.path.join(self.folder, "list.jsonl")
        hashes = [7, 2**63, -2**63 - 1, 10**40]
        texts = ['a "quoted" 99999999999999999999', "\\", "{", "-123456789012345678901"]

        def write(**more):
            with open(path, "w") as file:
                for n, value in enumerate(hashes):
                    print(json.dumps({"path": self.files[n], "hash": value, "id": 2**63 - 1 - n, "real": n + 1e20,
                                      "text": texts[n], "pair": [n, n], **more}), file=file)

        write()
        daemon = self.daemon()
        with self.loader(daemon, path, 2, CROP) as loader:
            columns = loader.dataset.columns
            self.assertEqual(list(columns["hash"]), [str(value) for value in hashes])
            self.assertEqual(columns["id"].tolist(), [2**63 - 1 - n for n in range(4)])
            self.assertEqual(columns["real"].tolist(), [n + 1e20 for n in range(4)])
            self.assertEqual(list(columns["text"]), texts)
            self.assertEqual(columns["pair"].tolist(), [[n, n] for n in range(4)])
        write(offset=2**64, bytes=1)
        with self.assertRaisesRegex(larder.FormatError, "list.jsonl:1:1: its offset is no whole number from 0 to"):
            self.loader(daemon, path, 2, CROP)

    def test_descriptors(self):
        """Columns take half of the daemon's descriptors at most: the other half is for clients and files."""
        path = os.path.join(self.folder, "list.csv")
        with open(path, "w") as file:
            print("path", *(f"c{n}" for n in range(100)), sep=",", file=file)
            for name in self.files:
                print(name, *range(100), sep=",", file=file)
        daemon = self.daemon(before=("/bin/sh", "-c", 'ulimit -n 100; exec "$@"', "sh"))
        with self.loader(daemon, path, 16, CROP) as loader:
            for n in range(100):
                try:
                    loader.dataset.columns[f"c{n}"]
                except larder.LimitReached as error:
                    self.assertIn("ulimit -n", str(error))
                    break
            self.assertTrue(10 < n < 50, n)
            self.whole(loader, COUNT)
            with self.loader(daemon, self.tree, 16, CROP) as other:
                self.whole(other, COUNT)

    def test_shards(self):
        """Parts of shards, and words of their .json; a sample that lacks one has none."""
        order = [*range(0, COUNT, 2), *range(1, COUNT, 2)]
        with self.loader(self.daemon(), self.shards(), 16, CROP, columns=["txt", "json:n"], labels="kind") as loader:
            self.assertEqual(loader.classes, self.classes)
            columns = loader.dataset.columns
            self.assertEqual(list(columns["txt"]), [self.captions[n] for n in order])
            self.assertEqual(list(columns["__key__"]), [f"x/{n:03}" for n in order])
            self.assertEqual(columns["json:n"].tolist(), order)
            self.assertEqual(columns["json:v"].tolist(), [[n, 0.5] for n in order])
            self.assertEqual(columns["cls"].tolist(), [self.classes.index(self.names[n]) for n in order])
            self.assertNotIn("json:no", columns)
            self.assertEqual(list(columns), ["cls", "json", "json:n", "json:v", "json:kind", "txt"])
            for _, _, indices, texts, numbers in loader:
                self.assertEqual(numbers.tolist(), [order[n] for n in indices])
                self.assertEqual(texts, [self.captions[n] for n in numbers])

    def test_shared_and_freed(self):
        """Two jobs have one column; a process that was forked still has it; when no job is left, nothing is kept."""
        daemon, path = self.daemon(), self.csv()
        with self.loader(daemon, path, 16, CROP) as first, self.loader(daemon, path, 16, CROP) as second:
            number = first.dataset.columns["number"]
            self.assertEqual(self.kept(daemon), 8 * COUNT)
            self.assertEqual(second.dataset.columns["number"].tolist(), number.tolist())
            self.assertEqual(self.kept(daemon), 8 * COUNT)
            child = os.fork()
            if child == 0:
                same = number.sum() == sum(range(-5, COUNT - 5)) and len(second.dataset.columns["caption"]) == COUNT
                os._exit(0 if same else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(until(lambda: self.kept(daemon) == 0, 30))
        self.assertEqual(number[7], 2)

    def test_killed(self):
        """Another daemon takes the job over, in the middle of an epoch: columns come from that one, and fit."""
        daemon, path = self.daemon(), self.csv()
        with self.loader(daemon, path, 8, CROP, columns=["number"]) as loader:
            batches = iter(loader)
            seen = [next(batches)]
            daemon.kill()
            self.daemon()
            self.assertEqual(list(loader.dataset.columns["caption"]), self.captions)
            seen += batches
            positions = np.concatenate([batch[2] for batch in seen])
            self.assertEqual(sorted(positions), list(range(COUNT)))
            self.assertEqual(np.concatenate([batch[3] for batch in seen]).tolist(), (positions - 5).tolist())

    def test_changed(self):
        """A list that is another one than was indexed gives no columns; a column beyond limits.columns is refused."""
        daemon, path = self.daemon(LIMITED.format(columns="1MiB")), self.csv()
        with self.loader(daemon, path, 16, CROP) as loader:
            self.csv(count=COUNT - 1)
            with self.assertRaisesRegex(larder.SourceChanged, "list.csv: it changed since it was indexed"):
                loader.dataset.columns["number"]
            self.assertEqual(len(loader.dataset.samples), COUNT)  # the daemon knows what it indexed
        shards = self.shards()
        with self.loader(daemon, shards, 16, CROP) as loader:
            shutil.copytree(shards, shards + "2")
            shutil.rmtree(shards)
            os.rename(shards + "2", shards)  # the same sizes, names and times, of other files
            with open(os.path.join(shards, "train-1.tar"), "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\0")
            with self.assertRaisesRegex(larder.SourceChanged, "changed since it was indexed"):
                loader.dataset.columns["txt"]
        self.captions = ["x" * 30000] * COUNT
        with self.loader(daemon, self.csv(), 16, CROP) as loader:
            with self.assertRaisesRegex(larder.LimitReached, "more than the 1048576 bytes of limits.columns"):
                loader.dataset.columns["caption"]
            self.assertEqual(len(loader.dataset.columns["number"]), COUNT)


class Hostile(ColumnsCase):
    def client(self, daemon, version=10):
        client = raw.Client(daemon.socket, version)
        self.addCleanup(client.close)
        client.register(self.csv(), pipeline=({"center_crop": {"size": [6, 4]}},))
        return client

    def ask(self, client, name, *kinds):
        client.send(raw.COLUMN_GET, raw.text(name))
        return client.answer(*kinds)

    def test_names(self):
        """Names that no column has are no error of the connection; the memory is sealed; what breaks the rules ends
        the connection, and nobody else's."""
        daemon = self.daemon()
        client = self.client(daemon)
        for _ in range(50):
            for name in (b"no such", b"\xff\n", b"x" * 1024):
                with self.assertRaises(raw.Refused) as met:
                    self.ask(client, name, raw.COLUMN)
                self.assertEqual((met.exception.code, met.exception.fatal), ("ENOENT", False))
        _, body = self.ask(client, b"number", raw.COLUMN)
        self.assertEqual(struct.unpack("<IIQQ", body), (0, 1, COUNT, 8 * COUNT))
        fd = client.fds[0]
        self.assertEqual(os.pread(fd, 16, 0), struct.pack("<2q", -5, -4))
        self.assertEqual(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & raw.SEALS, raw.SEALS)
        with self.assertRaises(PermissionError):
            os.pwrite(fd, b"x", 0)
        self.assertEqual(sorted(sum((batch.indices for batch in client.epoch(0)), [])), list(range(COUNT)))
        for body in (raw.text(b""), raw.text(b"x" * 1025), raw.text(b"a\0b"), b"", raw.text(b"a")[:-1]):
            self.broken(self.client(daemon), body)
        self.broken(self.client(daemon, 9), raw.text(b"number"))
        self.assertEqual(self.ask(self.client(daemon), b"score", raw.COLUMN)[0], raw.COLUMN)

    def broken(self, client, body):
        with self.assertRaises(raw.Refused) as met:
            client.send(raw.COLUMN_GET, body)
            client.answer(raw.COLUMN)
        self.assertTrue(met.exception.fatal)

    def test_questions(self):
        """A second question before the answer to the first breaks the rules; a client that leaves in the middle of
        many leaves nothing behind."""
        daemon = self.daemon()
        client = self.client(daemon)
        client.send(raw.COLUMN_GET, raw.text(b"caption"))
        for _ in range(3):
            client.send(raw.COLUMN_GET, raw.text(b"caption"))
        with self.assertRaises(raw.Refused) as met:
            for _ in range(4):  # the first answer may come before
                client.answer(raw.COLUMN)
        self.assertTrue(met.exception.fatal)
        for _ in range(40):
            client = self.client(daemon)
            client.send(raw.COLUMN_GET, raw.text(b"caption"))
            client.close()
        client = self.client(daemon)
        self.assertEqual(self.ask(client, b"caption", raw.COLUMN)[0], raw.COLUMN)
        client.close()
        self.assertTrue(until(lambda: not daemon.jobs() and self.kept(daemon) == 0, 30))


if __name__ == "__main__":
    main()
