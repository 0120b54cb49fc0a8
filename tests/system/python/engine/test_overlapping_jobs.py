"""Real scripts on overlapping parts of one dataset, that come and go: each gets exactly its part in every epoch, and a
strict order stays what it is. On generated images, and on photographs where LARDER_TEST_IMAGES names a folder."""

import os
import random

import above  # noqa: F401
from system import Case, files_of, main, tree, until

COUNT, CLASSES = 600, 20
PIPELINE = [{"random_resized_crop": {"size": 64}}, "random_horizontal_flip"]
PHOTOGRAPHS = os.environ.get("LARDER_TEST_IMAGES")
SEED = int(os.environ.get("LARDER_TEST_SEED", "1"))


class OverlappingJobs(Case):
    def images(self):
        return tree(COUNT, classes=CLASSES)

    def setUp(self):
        super().setUp()
        self.files = files_of(self.images())
        self.count = len(self.files)
        self.random = random.Random(SEED)
        print(f"LARDER_TEST_SEED={SEED}: {self.count} images", flush=True)

    def random_part(self, name, share=0.6):
        """A subset, as a list file, and its indices."""
        indices = sorted(self.random.sample(range(self.count), round(share * self.count)))
        path = self.file(name)
        with open(path, "w") as file:
            file.writelines(f"{index}\n" for index in indices)
        return {"list": path}, indices

    def first_classes(self, n):
        classes = sorted({path.split("/")[-2] for path in self.files})[:n]
        return {"classes": classes}, [i for i, path in enumerate(self.files) if path.split("/")[-2] in classes]

    def start(self, daemon, name, **options):
        options = {"dataset": self.images(), "pipeline": PIPELINE, "batch_size": 16, "epochs": 2, **options}
        return self.script(daemon, name=name, **options)

    def exact(self, script, indices, epochs=2):
        self.assertEqual(script.wait(120), 0, script.errors or script.end)
        self.assertEqual(script.epochs(), [indices] * epochs)

    def wait_for(self, *scripts, batches):
        for script in scripts:
            self.assertTrue(until(lambda: len(script.batches) >= batches or script.end, 60), script.errors)
            self.assertIsNone(script.end)

    def file(self, name):
        return os.path.join(self.folder, name)

    def go(self, name):
        open(self.file(name), "w").close()

    def test_five_scripts(self):
        """Four scripts on random 60 % and one on ten classes: every id of its part exactly once in each epoch, and
        hardly more preparations than there are samples in any part."""
        daemon = self.daemon()
        parts = [self.random_part(f"part-{number}") for number in range(4)] + [self.first_classes(10)]
        scripts = [self.start(daemon, f"script-{number}", subset=subset, start_after=self.file("go"),
                              batch_size=8 + 8 * number) for number, (subset, _) in enumerate(parts)]
        self.assertTrue(until(lambda: len(daemon.jobs()) == 5, 60), [script.errors for script in scripts])
        self.assertEqual({name: job["view_samples"] for name, job in daemon.jobs().items()},
                         {f"script-{number}": len(indices) for number, (_, indices) in enumerate(parts)})
        self.go("go")
        for script, (_, indices) in zip(scripts, parts):
            self.exact(script, indices)
        samples = daemon.status()["samples"]
        total, needed = (2 * sum(len(indices) for _, indices in parts),
                         2 * len(set().union(*(indices for _, indices in parts))))
        print(f"prepared {samples['prepared']}, delivered {samples['delivered']}, least {needed}", flush=True)
        self.assertEqual(samples["delivered"], total)
        self.assertLess(samples["prepared"], 1.2 * needed)

    def test_a_script_joins_halfway(self):
        """A script that joins when another is in the middle of its epoch gets all of its part, from its own beginning,
        and the other's epochs stay whole."""
        daemon, half = self.daemon(), self.count * 3 // 10 // 16
        subset, indices = self.random_part("first")
        first = self.start(daemon, "first", subset=subset, pause=[half, self.file("go")])
        self.wait_for(first, batches=half)
        subset, others = self.random_part("second")
        second = self.start(daemon, "second", subset=subset)
        self.wait_for(second, batches=1)
        self.go("go")
        self.exact(second, others)
        self.exact(first, indices)

    def test_a_script_leaves_halfway(self):
        """kill -9 of a script in the middle of its epoch: the others get exactly their parts, and its job goes."""
        daemon, half = self.daemon(), self.count * 3 // 10 // 16
        parts = [self.random_part(f"part-{number}") for number in range(3)]
        scripts = [self.start(daemon, f"script-{number}", subset=subset, pause=[half, self.file(f"go-{number > 0}")])
                   for number, (subset, _) in enumerate(parts)]
        self.wait_for(*scripts, batches=half)
        scripts[0].kill()
        self.go("go-True")
        for script, (_, indices) in list(zip(scripts, parts))[1:]:
            self.exact(script, indices)
        self.assertEqual(len(scripts[0].batches), half)
        self.assertTrue(until(lambda: not daemon.jobs(), 5))

    def order(self, daemon, name, **options):
        script = self.start(daemon, name, seed=11, **options)
        self.assertEqual(script.wait(120), 0, script.errors or script.end)
        return [index for _, _, indices in script.batches for index in indices]

    def test_fixed_orders_whoever_comes_and_goes(self):
        """A strict order is the same in a daemon of its own and where others run, join, end and are killed; `none` is
        the catalog's order there too."""
        subset, indices = self.random_part("ours")
        alone = self.daemon()
        expected = self.order(alone, "strict", shuffle="strict", subset=subset)
        self.assertEqual([sorted(expected[:len(indices)]), sorted(expected[len(indices):])], [indices] * 2)
        self.assertNotEqual(expected[:len(indices)], expected[len(indices):])
        alone.stop()

        daemon = self.daemon()
        self.start(daemon, "stays", epochs=99, step_s=0.02)
        killed = self.start(daemon, "killed", subset=self.random_part("theirs")[0], epochs=99, step_s=0.005)
        options = {"subset": subset, "pause": [3, self.file("go")], "step_s": 0.01}
        strict = self.start(daemon, "strict", shuffle="strict", seed=11, **options)
        in_order = self.start(daemon, "none", shuffle="none", **options)
        self.wait_for(strict, in_order, killed, batches=3)
        joined = self.start(daemon, "joined", subset=self.first_classes(10)[0], epochs=1)
        killed.kill()
        self.go("go")
        for script, order in ((strict, expected), (in_order, indices * 2)):
            self.assertEqual(script.wait(120), 0, script.errors or script.end)
            self.assertEqual([index for _, _, batch in script.batches for index in batch], order)
        self.assertEqual(joined.wait(60), 0, joined.errors or joined.end)
        self.assertEqual(list(daemon.jobs()), ["stays"])


class OnPhotographs(OverlappingJobs):
    """The same on real photographs."""

    def images(self):
        return PHOTOGRAPHS

    def setUp(self):
        if not PHOTOGRAPHS:
            self.skipTest("LARDER_TEST_IMAGES names no folder of photographs")
        super().setUp()


if __name__ == "__main__":
    main()
