"""`larder pack` and `larder verify`: what they make, find, say and return."""

import json
import os
import pty
import random
import re
import select
import shutil
import subprocess

from stores import LARDER, bench, change, command, contents, pack
from system import PATIENCE, Case, files_of, main, make_tree, tree

COUNT = 300
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))


class Commands(Case):
    def store(self, *options):
        return pack(tree(COUNT), os.path.join(self.folder, "store"), *options)

    def problems(self, store):
        """The lines of a verification that must find something."""
        result = command("verify", store)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        return result.stdout.splitlines()

    def test_help(self):
        """Every command that larderd lists explains itself on --help, with exit status 0 and nothing on stderr."""
        listed = command("bench", "--help").stdout.splitlines()
        names = [line.split()[:2] for line in listed if line.startswith("  bench")]
        self.assertEqual(len(names), 2, listed)
        names += [[name] for name in ("cache", "check", "pack", "prepare", "verify")]
        for name in names:
            result = command(*name, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)
            self.assertIn("usage: larder " + " ".join(name), result.stdout)
            self.assertGreater(len(result.stdout.splitlines()), 1, name)

    def test_wrong_bench(self):
        """`bench` without what to measure, or with what is none, is wrong usage and lists what there is."""
        for words in (["bench"], ["bench", "nothing"]):
            result = command(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertIn("bench storage PATH", result.stderr)
        self.assertIn('there is no "bench nothing"', result.stderr)

    def test_virtual_benches(self):
        """larder_bench lists its commands, each of which explains itself; any other word is wrong usage."""
        listed = bench("--help")
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))
        names = [line.split()[0] for line in listed.stdout.splitlines() if line.startswith("  ")]
        self.assertEqual(names, ["balance", "cluster", "engine", "nodes", "order", "scale", "sharing", "tree"])
        for name in names:
            result = bench(name, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)
            self.assertIn("usage: larder_bench " + name, result.stdout)
        for words in ([], ["prepare"]):
            result = bench(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertIn("sharing FILE", result.stderr)

    def test_bench_engine(self):
        """The engine delivers a batch in a few steps, not one a sample. What is in the arena is not made again."""
        result = bench("engine", "--samples", "2000", "--jobs", "4")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = json.loads(result.stdout)
        self.assertEqual([(row["case"], row["jobs"]) for row in rows],
                         [(case, jobs) for case in ("copied", "again", "prepared") for jobs in (1, 4)])
        for row in rows:
            self.assertGreater(row["ns"], 0, row)
            self.assertLess(row["steps"], 0.1, row)
            self.assertLessEqual(row["made"], 1 / row["jobs"], row)
            if row["case"] == "again":
                self.assertEqual(row["made"], 0, row)
            elif row["case"] == "prepared":
                self.assertAlmostEqual(row["made"], 1 / row["jobs"], delta=0.01)

    def test_bench_scale(self):
        """Each size has its rows, and what they tell in samples is as in `larder_bench sharing`."""
        may_be_none = ("enter_ms", "enter_longer_ms", "instructions")
        result = bench("scale", "--samples", "2000,1000")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = json.loads(result.stdout)
        self.assertEqual([row["samples"] for row in rows if "ns" in row], [2000, 1000])
        for row in rows:
            self.assertGreater(min(value for name, value in row.items() if name not in may_be_none), 0, row)
        self.assertEqual([row["part"] for row in rows if "part" in row], [1, 0.5, 0.2, 0.1, 0.05])
        self.assertLess(rows[2]["prepared_few_bytes"], 0.4)

    def test_bench_walls(self):
        """There are rows of each size, of jobs and of nodes, and all of them were measured. Other benches run the same
        engine with a sanitizer."""
        if PATIENCE > 1:
            self.skipTest("it measures an engine, which a sanitizer makes another")
        result = bench("scale", "--walls", "--samples", "1000,2000")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = json.loads(result.stdout)
        self.assertEqual([row["samples"] for row in rows if "read_ns" in row], [1000, 2000])
        self.assertEqual([row["jobs"] for row in rows if "ns" in row and "read_ns" not in row], [1, 16, 64, 256])
        self.assertEqual([row["nodes"] for row in rows if "us" in row], [1, 16, 32])
        for row in rows:
            self.assertGreater(min(row.values()), 0, row)

    def test_bench_prepare(self):
        """The parts of a preparation are there with and without restart markers and planes, which make no image
        unreadable."""
        spec = json.dumps([{"random_crop": {"size": 32, "pad_if_needed": True}}])
        result = command("bench", "prepare", tree(COUNT), "--pipeline", spec, "--seconds", "0.1", "--restart-rows", "2",
                         "--planes")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rates = json.loads(result.stdout)
        marked, planes = rates["restart_rows"], rates["planes"]
        self.assertEqual((rates["images"], marked["interval"]), (COUNT, 2))
        self.assertGreater(rates["prepare_per_s"], 0)
        for side in (marked, planes):
            self.assertGreater(min(side["prepare_per_s"], side["gain"], side["size"]), 0)
        self.assertNotEqual(marked["size"], planes["size"])
        for parts in (rates["parts_us"], marked["parts_us"], planes["parts_us"]):
            self.assertEqual(set(parts), {"entropy", "idct", "upsample_color", "resample", "copy"})
            self.assertGreaterEqual(min(parts.values()), 0)  # differences of times, which a busy machine blurs
            self.assertGreater(max(parts.values()), 0)

    def test_check_warns(self):
        """A configuration that names a dataset that is not there is right, and says where that stands."""
        path = os.path.join(self.folder, "larder.yaml")
        with open(path, "w") as file:
            file.write(f"datasets:\n  here: {{path: {self.folder}}}\n  gone: {{path: {self.folder}/none}}\n")
        result = command("check", path)
        self.assertEqual((result.returncode, result.stdout), (0, f"{path}: right\n"))
        self.assertRegex(result.stderr, r"^.*larder.yaml:3:\d+: warning: datasets.gone: .*/none: No such file")
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_pack_and_verify(self):
        """A packed tree verifies, says how much it is, and is the same bytes again with other threads."""
        result = command("pack", tree(COUNT), os.path.join(self.folder, "a"), "--chunk-size", 32, "--threads", 1)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"{COUNT} samples in 10 chunks of 32", result.stdout)
        again = pack(tree(COUNT), os.path.join(self.folder, "b"), "--chunk-size", 32, "--threads", 3)
        self.assertEqual(contents(os.path.join(self.folder, "a")), contents(again))
        result = command("verify", again)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"{COUNT} samples", result.stdout)

    def test_seed_and_chunk_size_change_the_store(self):
        """Another seed or chunk size is another store, and neither goes over one that is there."""
        first = contents(self.store())
        for option in ("--seed", "--chunk-size"):
            self.assertNotEqual(first, contents(pack(tree(COUNT), os.path.join(self.folder, option[2:]), option, 17)))
            result = command("pack", tree(COUNT), os.path.join(self.folder, "store"), option, 17)
            self.assertEqual(result.returncode, 1)
            self.assertIn("already holds a store", result.stderr)
        self.assertEqual(first, contents(os.path.join(self.folder, "store")))

    def test_a_finished_store_is_left_alone(self):
        """Packing once more does nothing and says so."""
        times = {name: os.stat(os.path.join(self.store(), name)).st_mtime_ns for name in os.listdir(self.store())}
        result = command("pack", tree(COUNT), os.path.join(self.folder, "store"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("nothing to do", result.stdout)
        self.assertEqual(times, {name: os.stat(os.path.join(self.store(), name)).st_mtime_ns for name in times})

    def test_any_flipped_bit_is_named(self):
        """A bit flipped anywhere in a segment or the index is found, and the file named."""
        print(f"LARDER_TEST_SEED={SEED}", flush=True)
        draw, store = random.Random(SEED), self.store()
        for name in sorted(os.listdir(store)):
            path = os.path.join(store, name)
            places = [draw.randrange(os.path.getsize(path)) for _ in range(12)] + list(range(0, 40, 4)) # and the header
            for offset in places:
                flip = 1 << draw.randrange(8)
                with self.subTest(file=name, offset=offset, flip=flip):
                    change(path, offset, flip)
                    result = command("verify", store)
                    change(path, offset, flip)
                    self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                    self.assertEqual({line.split(":")[0] for line in result.stdout.splitlines()}, {name}, result.stdout)
        self.assertEqual(command("verify", store).returncode, 0)

    def test_a_damaged_sample_is_named(self):
        """A flipped bit in an image names the image by its key, and no other."""
        with open(files_of(tree(COUNT))[5], "rb") as file:
            image = file.read()
        store = self.store()
        name, at = next((name, data.find(image)) for name, data in contents(store).items() if image in data)
        change(os.path.join(store, name), at + 100, 0x10)
        key = os.path.relpath(files_of(tree(COUNT))[5], tree(COUNT))
        self.assertEqual([line.split(" (")[0] for line in self.problems(store)], [f"{name}: sample {key} is damaged"])

    def test_truncated_missing_and_foreign_files_are_named(self):
        """A segment cut short, one that is gone, and a file that is none of the store's are each named."""
        store = pack(tree(COUNT, width=200, height=150), os.path.join(self.folder, "store"), "--segment-mib", 1)
        segments = sorted(name for name in os.listdir(store) if name.startswith("segment"))
        self.assertGreaterEqual(len(segments), 2)
        for name, extra in (("notes.txt", b"mine"), ("segment-00099.larder", b"")):
            with open(os.path.join(store, name), "wb") as file:
                file.write(extra)
        path = os.path.join(store, segments[0])
        os.truncate(path, os.path.getsize(path) - 1000)
        os.unlink(os.path.join(store, segments[1]))
        found = "\n".join(self.problems(store))
        for expected in (f"{segments[0]}: truncated", f"{segments[1]}: cannot open it", "notes.txt: does not belong",
                         "segment-00099.larder: does not belong"):
            self.assertIn(expected, found)

    def test_a_segment_of_another_store_is_named(self):
        """A segment of the same name and size from another store is not taken for this store's."""
        store, other = self.store(), pack(tree(COUNT), os.path.join(self.folder, "other"), "--seed", 2)
        shutil.copy(os.path.join(other, "segment-00000.larder"), store)
        self.assertRegex("\n".join(self.problems(store)), "segment-00000.larder: .*another")

    def test_unreadable_samples(self):
        """A file that cannot be read stops a pack, by name; with --skip-unreadable the others are packed, and it keeps
        its place in the order."""
        folder = make_tree(os.path.join(self.folder, "tree"), 60)
        os.unlink(files_of(folder)[7])
        os.symlink("/nowhere/at/all", os.path.join(folder, "class_00", "00999.jpg"))
        dest = os.path.join(self.folder, "store")
        result = command("pack", folder, dest)
        self.assertEqual(result.returncode, 1)
        self.assertIn("00999.jpg", result.stderr)
        result = command("pack", folder, dest, "--skip-unreadable")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 could not be read", result.stdout)
        self.assertIn("00999.jpg", result.stderr)
        self.assertEqual(command("verify", dest).returncode, 0)

    def test_wrong_use(self):
        """Wrong usage is exit status 2 and says what is possible; what cannot be packed is 1, and leaves nothing."""
        for arguments in (("pack",), ("pack", "a", "b", "c"), ("pack", "a", "b", "--chunk-size", "0"),
                          ("pack", "a", "b", "--seed", "-1"), ("pack", "a", "b", "--threads", "999"),
                          ("pack", "a", "b", "--nonsense"), ("verify",), ("verify", "a", "b"),
                          ("verify", "a", "--nonsense")):
            result = command(*arguments, cwd=self.folder)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertRegex(result.stderr, "usage: larder|larder pack: |larder verify: ")
        whole = make_tree(os.path.join(self.folder, "whole"), 20)
        inside = os.path.join(whole, "store")
        full = os.path.join(self.folder, "full")
        os.mkdir(full)
        with open(os.path.join(full, "mine"), "w") as file:
            file.write("mine")
        for arguments, text in ((("pack", "/no/such/folder", os.path.join(self.folder, "x")), "/no/such/folder"),
                                (("pack", whole, inside), "lies in the source"),
                                (("pack", tree(COUNT), full), "not empty"),
                                (("pack", tree(COUNT), "/proc/store"), "/proc/store"),
                                (("verify", "/no/such/store"), "/no/such/store"),
                                (("verify", tree(COUNT)), "no finished store")):
            result = command(*arguments)
            self.assertEqual((result.returncode, result.stdout), (1, ""), arguments)
            self.assertIn(text, result.stderr)
        self.assertFalse(os.path.exists(inside))
        self.assertEqual(os.listdir(full), ["mine"])
        for name in ("pack", "verify"):
            result = command(name, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(f"usage: larder {name}", result.stdout)

    def test_a_store_of_a_store(self):
        """A store is a source like a folder: packing it again gives the bytes that its tree would give."""
        again = pack(self.store(), os.path.join(self.folder, "again"), "--seed", 9)
        direct = pack(tree(COUNT), os.path.join(self.folder, "direct"), "--seed", 9)
        self.assertEqual([len(data) for _, data in sorted(contents(again).items())],
                         [len(data) for _, data in sorted(contents(direct).items())])
        self.assertEqual(command("verify", again).returncode, 0)


class Terminal(Case):
    def run_on_terminal(self, *arguments):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([LARDER, *arguments], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                select.select([ours], [], [])
                part = os.read(ours, 4096)
            except OSError: # the other end is closed
                break
            if not part:
                break
            text += part
        os.close(ours)
        output = process.stdout.read().decode()
        process.stdout.close()
        return process.wait(), text.decode(), output

    def test_a_bar(self):
        """On a terminal there is a bar, which is gone at the end; no line of it is wider than the terminal."""
        store = os.path.join(self.folder, "store")
        for arguments in (("pack", tree(COUNT), store), ("verify", store)):
            status, text, output = self.run_on_terminal(*arguments)
            self.assertEqual(status, 0, text)
            self.assertRegex(text, r"100 % \[#+\] 300 of 300 samples")
            self.assertTrue(text.endswith("\r\033[K"))
            self.assertLess(max(len(re.sub(r"\033\[K", "", line)) for line in re.split("[\r\n]", text)), 80)
            self.assertIn("300 samples", output)

    def test_quiet(self):
        """--quiet shows no progress."""
        status, text, _ = self.run_on_terminal("pack", tree(COUNT), os.path.join(self.folder, "store"), "--quiet")
        self.assertEqual((status, text), (0, ""))


if __name__ == "__main__":
    main()
