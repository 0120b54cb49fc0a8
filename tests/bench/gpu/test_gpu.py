#!/usr/bin/env python3
"""The GPU bench runs at a small size on a CPU: every variant that is here trains, its losses are there, and a cell for
which there is no time is named. Figures are not judged."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = ["--device", "cpu", "--images", "48", "--jobs", "2", "--models", "tiny", "--batch", "8", "--size", "32",
         "--seconds", "1", "--steps", "4", "--arena", "64MiB", "--encoded", "64MiB",
         "--variants", "loader-divided,larder,larder-planes,synthetic"]


def run(folder, *words):
    out = os.path.join(folder, "report.json")
    done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "run.py"), "--data", folder, "--out", out, *SMALL,
                           *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    with open(out, encoding="utf-8") as file:
        report = json.load(file)
    with open(os.path.join(folder, "report.md"), encoding="utf-8") as file:
        return done, report, file.read()


def main():
    if not all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "PIL")):
        print("skipped: this Python has no torch, torchvision and Pillow")
        return 77
    with tempfile.TemporaryDirectory(prefix="larder-gpu-") as folder:
        done, report, text = run(folder)
        assert done.returncode == 0 and not report["left_out"], (done.stdout, report["left_out"])
        assert [cell["variant"] for cell in report["cells"]] == SMALL[-1].split(",")
        for cell in report["cells"]:
            assert len(cell["trainings"]) == 2 and all(each["samples"] for each in cell["trainings"]), cell
        assert [len(each) for each in report["losses"]["larder"]] == [4, 4]
        assert "| larder-planes |" in text and "## Losses" in text, text
        done, report, text = run(folder, "--limit", "1")
        assert done.returncode == 0 and not report["cells"] and "larder-planes: no time" in text, (done.stdout, text)
    print("fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
