#!/usr/bin/env python3
"""Proves that the comparison with other loaders runs with what is installed here, that Larder's and torchvision's jobs
each get every sample of every epoch exactly once, and that a table and a plot come of it. Times are not judged, nor is
what other peers lose or where they fail.

What the measuring is made of is tested first, without any peer. LARDER_PEERS_PYTHON names another Python, one that has
more peers."""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system", "python"))
import system  # noqa: E402

sys.path.insert(0, HERE)
import measure  # noqa: E402
import plot  # noqa: E402
import table  # noqa: E402

PYTHON = os.environ.get("LARDER_PEERS_PYTHON", sys.executable)
OURS = ("larder", "larder_planes", "larder_folder", "larder_no_antialias", "larder_dct")
SURE = OURS + ("torchvision", "torchvision_v2")  # they lose nothing; of the others it is measured
BUSY = "import time\nwhile time.process_time() < {}: pass\n"


def check_losses():
    assert measure.lost_and_twice([0, 1, 2], 3) == (0, 0)
    assert measure.lost_and_twice([0, 1, 1, 1], 3) == (1, 2)
    assert measure.lost_and_twice([], 3) == (3, 0)


def check_cpu():
    """A child's time counts, and that of a grandchild that has ended, too."""
    began = measure.below_s(os.getpid())
    work = BUSY.format(0.5)
    grandchild = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}], check=True)\n"
    with subprocess.Popen([sys.executable, "-c", grandchild + work + "print(flush=True); sys.stdin.read()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        spent = measure.below_s(os.getpid()) - began
        child.stdin.close()
    assert 0.9 <= spent, f"two processes worked for 0.5 s each, and {spent:.2f} s were counted"
    after = measure.below_s(os.getpid()) - began
    assert after >= spent, f"what has ended is forgotten: {after:.2f} s of {spent:.2f} s"


def check_pictures():
    rows = [{"peer": peer, "cell": "1 job", "cores": 2, "round": number, "samples": 9, "lost": lost, "twice": 0,
             "cpu_ms": cost + number}
            for peer, cost, lost in (("larder", 1, 0), ("other", 4, 1)) for number in range(3)]
    text = "\n".join(table.table("title", rows, lambda its, ours: table.times(its, ours)))
    assert "| other | 2.5 |" in text, text
    assert table.losses(table.rows_of(rows, "other", ("1 job", 2))) == "3 lost, 0 twice, of 30"
    tree = xml.etree.ElementTree.fromstring(plot.chart(rows))
    heights = [float(each.get("height")) for each in tree.iter("{http://www.w3.org/2000/svg}rect")
               if each.find("{http://www.w3.org/2000/svg}title") is not None]
    assert len(heights) == 2 and abs(heights[1] / heights[0] - 2.5) < 0.01, heights


def check_run(folder):
    images, data = os.path.join(folder, "images"), os.path.join(folder, "data")
    system.make_tree(images, 150, width=256, height=240)
    out = os.path.join(folder, "results.json")
    code = subprocess.run([PYTHON, "-B", os.path.join(HERE, "run.py"), "--folder", images, "--data", data, "--out", out,
                           "--jobs", "2", "--speeds", "1,.5", "--step", ".05", "--epochs", "2",
                           "--rounds", "1", "--limit", str(60 * system.SLOW)]).returncode
    with open(out, encoding="utf-8") as file:
        results = json.load(file)
    assert set(OURS) <= set(results["versions"]), results["missing"]
    if set(results["versions"]) == set(OURS):
        system.skip(f"no other loader is installed for {PYTHON}: {results['missing']}")
    assert len(results["rows"]) == 2 * len(results["versions"])
    for row in results["rows"]:
        if row["peer"] in SURE:
            assert "failed" not in row and (row["lost"], row["twice"]) == (0, 0), row
            assert row["samples"] == 150 * row["epochs"], row
    assert bool(code) == any("failed" in row for row in results["rows"]), f"run.py ended with {code}"
    table.print_all(results)
    xml.etree.ElementTree.fromstring(plot.chart(results["rows"]))


def main():
    check_losses()
    check_cpu()
    check_pictures()
    with tempfile.TemporaryDirectory(prefix="larder-peers-") as folder:
        check_run(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
