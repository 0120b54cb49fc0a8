"""Three scripts at once: each gets every sample exactly once an epoch, and most samples are prepared once for all."""

import os

import above  # noqa: F401
from system import Case, main, tree, until

COUNT, EPOCHS = 500, 2
TRAIN = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
CONFIG = """\
memory:
  arena: 384MiB
  encoded: 128MiB
catalog:
  checkpoint: none
metrics:
  enabled: false
"""


class ThreeScripts(Case):
    def three_scripts(self, folder, count):
        daemon = self.daemon(CONFIG)
        go = os.path.join(self.folder, "go")
        scripts = [self.script(daemon, dataset=folder, pipeline=TRAIN, batch_size=64, epochs=EPOCHS, start_after=go,
                               name=f"script-{number}") for number in range(3)]
        self.assertTrue(until(lambda: len(daemon.jobs()) == 3, 60), [script.errors for script in scripts])
        open(go, "w").close()
        for script in scripts:
            self.assertEqual(script.wait(240), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(count))] * EPOCHS)
        samples = daemon.status()["samples"]
        print(f"prepared {samples['prepared']}, delivered {samples['delivered']}", flush=True)
        self.assertEqual(samples["delivered"], 3 * EPOCHS * count)
        self.assertGreaterEqual(samples["prepared"], EPOCHS * count)
        self.assertLessEqual(samples["prepared"], 1.35 * EPOCHS * count)


class Sharing(ThreeScripts):
    def test_generated_images(self):
        """Exactly once by index for each of three, and at most 1.35 preparations a sample and epoch."""
        self.three_scripts(tree(COUNT, width=200, height=150), COUNT)


if __name__ == "__main__":
    main()
