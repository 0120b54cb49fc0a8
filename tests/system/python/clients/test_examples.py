"""Each example trains, prints what was saved, and goes on after it was killed. Those that need more than NumPy and
torch run with --long, and only where their packages are."""

import glob
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import wave

import above  # noqa: F401
from nursery import Born
from system import BIN, PACKAGE, SLOW, SOURCE, Case, files_of, main, tree, until

LOADED = ("larder.loader", "torch")  # before all examples but train_numpy.py, which is started as a person would
EXAMPLES = os.path.join(SOURCE, "client", "python", "examples")
SAVED = r"[0-9]+ samples in [0-9]+ batches.*the daemon prepared [0-9]+ and delivered [0-9]+: [0-9]+ saved"
COUNT = 200


def torchrun_works():
    """torch 1.13's does not under Python 3.11."""
    try:
        from torch.distributed.elastic.multiprocessing import api
        return api.Std.from_str("0") is not None
    except (ImportError, AttributeError):
        return False


class Runs(Case):
    def environment(self, daemon):
        return dict(os.environ, LARDER_SOCKET=daemon.socket, PYTHON=sys.executable, OMP_NUM_THREADS="1",
                    PYTHONDONTWRITEBYTECODE="1")

    def need(self, *packages):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"this Python has no {package}")

    def example(self, words):
        return self.saved(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           env=self.environment(self.daemon())))

    def saved(self, process):
        output, errors = process.communicate(timeout=120 * SLOW)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(output, SAVED)
        print(output, flush=True)
        return output

    def killed(self, script, checkpoint):
        """Runs a script until a path that matches `checkpoint` is there, and kills it."""
        self.assertTrue(until(lambda: glob.glob(checkpoint) or script.poll() is not None, 60))
        script.kill()
        script.communicate()
        self.assertEqual(script.returncode, -signal.SIGKILL)

    def start(self, daemon, name, *more):
        return Born([os.path.join(EXAMPLES, name), *more], dict(self.environment(daemon), PYTHONPATH=PACKAGE), LOADED)

    def python(self, name, *more):
        return self.saved(self.start(self.daemon(), name, tree(COUNT), *more))


class Examples(Runs):
    def test_numpy(self):
        self.example([sys.executable, "-B", os.path.join(EXAMPLES, "train_numpy.py"), tree(COUNT)])

    def test_dino(self):
        """Two epochs with ten views of each image."""
        self.need("torch")
        printed = self.python("train_dino.py", "--batch-size", "20")
        self.assertEqual(printed.count("10 views of each image"), 2)

    def test_clip(self):
        """Two epochs of images and their captions."""
        self.need("torch")
        path = os.path.join(self.folder, "captions.jsonl")
        with open(path, "w") as file:
            file.writelines(json.dumps({"image": image, "caption": f"number {i}" * (i > 0)}) + "\n"
                            for i, image in enumerate(files_of(tree(COUNT))))
        printed = self.saved(self.start(self.daemon(), "train_clip.py", path, "--side", "32", "--batch-size", "20"))
        self.assertEqual(printed.count(f"{COUNT} images with captions"), 2)

    def test_speech(self):
        """Two epochs of pieces of sounds."""
        self.need("torch")
        folder = os.path.join(self.folder, "clips", "all")
        os.makedirs(folder)
        for i in range(24):
            with wave.open(os.path.join(folder, f"{i}.wav"), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes(random.Random(i).randbytes(2 * 8000))
        daemon = self.daemon()
        if "libsndfile" not in subprocess.run([os.path.join(BIN, "larderd"), "--version"], check=True,
                                              stdout=subprocess.PIPE, text=True).stdout:
            self.skipTest("this larderd was built without sound")
        printed = self.saved(self.start(daemon, "train_speech.py", os.path.dirname(folder), "--seconds", "0.25",
                                        "--batch-size", "8"))
        self.assertEqual(printed.count("24 pieces of 0.25 s"), 2)

    def test_ddp(self):
        """Two ranks that torchrun starts."""
        self.need("torch")
        if not torchrun_works():
            self.skipTest("this torch's torchrun does not work with this Python; test_ddp has the example itself")
        self.example([sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                      os.path.join(EXAMPLES, "train_ddp.py"), tree(COUNT)])

    def test_eight_scripts(self):
        """A shell loop of eight: all end well, and together they prepared less than they got."""
        printed = self.example([os.path.join(EXAMPLES, "sweep.sh"), tree(COUNT)])
        self.assertEqual(printed.count("samples in"), 8)

    def test_killed_and_resumed(self):
        """PyTorch with validation: two epochs of nine tenths of the images. Killed after a checkpoint, the script goes
        on in that epoch, and ends as one that was not killed."""
        self.need("torch")
        daemon = self.daemon()
        checkpoint = os.path.join(self.folder, "run.pt")
        words = ["train.py", tree(COUNT), "--batch-size", "4"]
        whole = self.saved(self.start(daemon, *words))
        self.assertEqual(whole.count(": 180 samples"), 2)
        words += ["--checkpoint", checkpoint]
        self.killed(self.start(daemon, *words), checkpoint)
        resumed = self.saved(self.start(daemon, *words))
        self.assertIn("goes on in epoch", resumed)
        last = [[line for line in text.splitlines() if line.startswith("epoch 1")][0] for text in (whole, resumed)]
        self.assertEqual(last[0].split(",")[1:], last[1].split(",")[1:])

    def test_slurm(self):
        """The shell takes it."""
        subprocess.run(["bash", "-n", os.path.join(EXAMPLES, "slurm_array.sh")], check=True)


class Trainers(Runs):
    """Those that need more packages."""

    def rest_after_death(self, name, checkpoint):
        """Killed after a checkpoint, a trainer makes all its steps in the end, and gets what it had not at that
        checkpoint: of 2 epochs of 180 samples, all but those of a multiple of 4 steps."""
        daemon = self.daemon()
        folder = os.path.join(self.folder, "run")
        words = [name, tree(COUNT), "--batch-size", "4", "--checkpoint", folder]
        self.killed(self.start(daemon, *words), os.path.join(folder, checkpoint))
        resumed = self.saved(self.start(daemon, *words))
        self.assertIn("90 steps", resumed)
        had = 360 - int(re.search(r"(\d+) samples in", resumed)[1])
        self.assertGreater(had, 0)
        self.assertEqual(had % (4 * 4), 0)

    def test_lightning(self):
        self.need("lightning")
        self.python("train_lightning.py")

    def test_lightning_killed_and_resumed(self):
        self.need("lightning")
        self.rest_after_death("train_lightning.py", "last.ckpt")

    def test_hf_killed_and_resumed(self):
        self.need("transformers", "accelerate")
        self.rest_after_death("train_hf.py", "checkpoint-*/larder.json")

    def test_accelerate(self):
        self.need("accelerate")
        self.python("train_accelerate.py")

    def test_hf(self):
        self.need("transformers", "accelerate")
        self.python("train_hf.py")

    def test_timm(self):
        self.need("timm")
        self.python("train_timm.py")

    def test_deit(self):
        self.need("timm")
        printed = self.python("train_deit.py", "--batch-size", "20")
        self.assertIn("epoch 2", printed)

    def test_optuna(self):
        self.need("optuna")
        self.python("sweep_optuna.py")


if __name__ == "__main__":
    if "--long" in sys.argv:
        sys.argv[sys.argv.index("--long")] = "Trainers"
    elif len(sys.argv) == 1:
        sys.argv.append("Examples")
    main()
