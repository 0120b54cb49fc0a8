"""Clients of older releases with this daemon: each gets what it asked for. Of version 4, and of the version before
this one, with the packages of those days; of all versions with a client of raw bytes. And a client of a release to
come, which this daemon does not know: it is told so.

larder-wireN.zip holds what a script imports of the package that spoke version N, with the package's folder at the root
of the zip, so that a Python whose path has the zip imports it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import above  # noqa: F401
import raw
import system
from system import HERE, PACKAGE, SLOW, Case, files_of, main, tree, until

OLD, LAST = (os.path.join(HERE, f"larder-wire{version}.zip") for version in (4, 9))


class OldClient(Case):
    def old(self, daemon, dataset, **options):
        return self.script(daemon, dataset=dataset, pipeline=system.PIPELINE,
                           **{"package": OLD, "batch_size": 16, "epochs": 2, "timeout": 60 * SLOW, **options})

    def finish(self, *scripts):
        for script in scripts:
            self.assertEqual(script.wait(), 0, (script.end, script.errors))

    def test_they_are_the_old_ones(self):
        """The zips' packages are imported, and speak versions 4 and 9."""
        code = "from larder import _wire; print(_wire.__file__, _wire.VERSION)"
        for package, version in ((OLD, "4"), (LAST, "9")):
            out = subprocess.run([sys.executable, "-B", "-c", code], env=dict(os.environ, PYTHONPATH=package),
                                 stdout=subprocess.PIPE, check=True, text=True).stdout
            self.assertEqual(out.split(), [os.path.join(package, "larder", "_wire.py"), version])

    def test_epochs(self):
        """Two epochs, copied and as zero-copy views, beside a client of this release: each sample comes once in
        each epoch."""
        daemon, folder = self.daemon(), tree(203)
        scripts = [self.old(daemon, folder), self.old(daemon, folder, hold=2, prefetch=3),
                   self.old(daemon, folder, hold=2, prefetch=3, package=LAST),
                   self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=16, epochs=2)]
        self.finish(*scripts)
        for script in scripts:
            self.assertEqual(script.epochs(), [list(range(203))] * 2)

    def test_orders_and_subsets(self):
        """A subset in two epochs has its samples once each; a strict order is that of this release's client."""
        daemon, folder = self.daemon(), tree(203)
        part = self.old(daemon, folder, subset={"range": [20, 90]})
        strict = self.old(daemon, folder, shuffle="strict", seed=3)
        last = self.old(daemon, folder, shuffle="strict", seed=3, package=LAST)
        new = self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=16, epochs=2, shuffle="strict",
                          seed=3)
        self.finish(part, strict, last, new)
        self.assertEqual(part.epochs(), [list(range(20, 90))] * 2)
        for script in (strict, last):
            self.assertEqual([batch[1:] for batch in script.batches], [batch[1:] for batch in new.batches])

    def test_ranks(self):
        """Three ranks, each of another release, share each epoch: every sample once, and a repeat to fill up."""
        daemon, folder = self.daemon(), tree(203)
        options = {"name": "train", "world_size": 3}
        scripts = [self.old(daemon, folder, rank=0, **options),
                   self.old(daemon, folder, rank=1, package=LAST, **options),
                   self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=16, epochs=2, rank=2,
                               timeout=60 * SLOW, **options)]
        self.finish(*scripts)
        for epoch in range(2):
            shares = [[index for _, number, indices in script.batches if number == epoch for index in indices]
                      for script in scripts]
            self.assertEqual([len(share) for share in shares], [68] * 3)
            counts = Counter(sum(shares, []))
            self.assertEqual((set(counts), sum(counts.values())), (set(range(203)), 204))

    def test_bad_samples(self):
        """A bad sample is replaced or left out, and the client understands all that comes."""
        daemon, folder = self.daemon(), system.make_tree(os.path.join(self.folder, "tree"), 60)
        with open(files_of(folder)[7], "wb") as file:
            file.write(b"no picture")
        replaced, skipped = self.old(daemon, folder, bad_samples="replace"), self.old(daemon, folder)
        self.finish(replaced, skipped)
        for epoch in replaced.epochs():
            self.assertEqual((set(epoch), len(epoch)), (set(range(60)) - {7}, 60))
        self.assertEqual(skipped.epochs(), [[index for index in range(60) if index != 7]] * 2)

    def test_the_daemon_stops(self):
        """A daemon that stops says so in words that the old client reads."""
        daemon = self.daemon()
        script = self.old(daemon, tree(203), step_s=0.05, epochs=1000)
        self.assertTrue(until(lambda: script.batches, 30))
        daemon.stop()
        self.assertEqual(script.wait(), 1)
        self.assertEqual(script.end["error"], "DaemonGone")
        self.assertIn("is stopping", script.end["text"])

    def test_the_client_is_newer(self):
        """A package that speaks a version to come is refused with a text that names both sides' versions, and
        nothing of the daemon's is lost by it."""
        daemon, folder = self.daemon(), tree(203)
        newer = os.path.join(self.folder, "newer")
        shutil.copytree(os.path.join(PACKAGE, "larder"), os.path.join(newer, "larder"))
        path = os.path.join(newer, "larder", "_wire.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        version = int(re.search(r"(?m)^VERSION = (\d+)$", text).group(1))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(f"\nVERSION = {version}\n", f"\nVERSION = {version + 1}\n"))
        script = self.old(daemon, folder, package=newer)
        self.assertEqual(script.wait(), 1)
        self.assertEqual(script.end["error"], "VersionMismatch")
        self.assertRegex(script.end["text"], rf"version {version + 1}, this side versions \d+ to {version}: install")
        now = self.script(daemon, dataset=folder, pipeline=system.PIPELINE, batch_size=16, epochs=1)
        self.finish(now)
        self.assertEqual(now.epochs(), [list(range(203))])


class Versions(Case):
    def test_each_version(self):
        """A client of each version of the protocol is told what its samples are like, in the words of its version, and
        gets each of them once. What the daemon of the release before said of them is written down here."""
        daemon, folder = self.daemon(), tree(40)
        crop = {"center_crop": {"size": [6, 4]}}
        made = {"to_dtype": {"dtype": "float16", "scale": True}}
        cases = (((crop,), (6, 4, 3, 0, 0), 72, [(0, 0, 3, 6, 4, 3, 0, 0)]),
                 ((crop, made, {"layout": {"layout": "CHW"}}), (6, 4, 3, 1, 1), 144, [(1, 1, 3, 3, 6, 4, 0, 0)]),
                 ((), (0, 0, 0, 0, 0), max(map(os.path.getsize, files_of(folder))), []))
        for version in range(4, 11):
            for pipeline, image, sample_bytes, fields in cases:
                with self.subTest(version=version, pipeline=pipeline):
                    client = raw.Client(daemon.socket, version)
                    self.addCleanup(client.close)
                    info = client.register(folder, pipeline=pipeline)
                    self.assertEqual((info["n_samples"], info["sample_bytes"]), (40, sample_bytes))
                    if version < 8:
                        names = ("height", "width", "channels", "dtype", "layout")
                        self.assertEqual(tuple(info[name] for name in names), image)
                    names, numbers = [field[0] for field in info["fields"]], [field[1:] for field in info["fields"]]
                    self.assertEqual(numbers, fields if version > 7 else [])
                    self.assertEqual({name.rstrip(b"\0") for name in names}, {b"image"} if names else set())
                    indices = sum((batch.indices for batch in client.epoch(0)), [])
                    self.assertEqual(sorted(indices), list(range(40)))
                    client.close()

    def test_several_views(self):
        """Clients that know one image a sample alone are told so where there are several views, and the job ends with
        them; a client of this version gets them."""
        daemon, folder = self.daemon(), tree(40)
        program = {"views": [{"count": 2, "steps": [{"center_crop": {"size": [6, 4]}}]}]}
        for version in range(4, 8):
            client = raw.Client(daemon.socket, version)
            self.addCleanup(client.close)
            with self.assertRaisesRegex(raw.Refused, "EVERSION.*several views|several views") as met:
                client.register(folder, pipeline=program)
            self.assertEqual((met.exception.code, met.exception.fatal), ("EVERSION", True))
            self.assertTrue(until(lambda: not daemon.jobs(), 30))
        client = raw.Client(daemon.socket, 8)
        self.addCleanup(client.close)
        fields = client.register(folder, pipeline=program)["fields"]
        self.assertEqual([(field[0].rstrip(b"\0"), field[-1]) for field in fields], [(b"view_0", 0), (b"view_1", 128)])
        self.assertEqual(sorted(sum((batch.indices for batch in client.epoch(0)), [])), list(range(40)))


if __name__ == "__main__":
    main()
