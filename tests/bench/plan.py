#!/usr/bin/env python3
"""What `larder plan` says beforehand against what the daemon then does with the same settings, from a slow source.

    plan.py FOLDER [--rows 1,2,…] [--runs 10] [--rate 20]

FOLDER has 500 photographs or so: the rows' memory is for those. Its files are read at --rate MB/s, by the plan and by
the daemon (tests/tools/faulty.c). Jobs are scripts that sleep for a step. Bytes are per byte of the dataset, over all
epochs; stall is what all jobs waited together.

Runs are short, and which reads meet in them is chance. The plan is a mean, of as many runs in virtual time as it takes.
So each row's daemon runs --runs times too, the same number for all rows, and its means are what the plan is held
against. A row is right where bytes and decodes are within 15 % (or .02), and stall within 30 % or 1 % of the jobs'
time. A "~" says that the daemon's own mean is uncertain: its standard error is more than a third of what the plan may
be off.

LARDER_BIN says which build, LARDER_FAULTY_SHIM which shim.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from faulty import Faults  # noqa: E402
from system import BIN, Daemon, Script, until  # noqa: E402

RANDOM = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
SURE = [{"resize": {"size": 256}}, {"center_crop": {"size": 224}}]
# jobs, step in ms, part of an epoch apart, epochs, batch, encoded MiB, MiB of a storage class, pipeline
ROWS = [
    (1, 100, 0, 3, 50, 10, 0, RANDOM),
    (1, 100, 0, 3, 50, 30, 0, RANDOM),
    (1, 100, 0, 3, 50, 100, 0, RANDOM),
    (1, 100, 0, 3, 50, 10, 30, RANDOM),
    (1, 100, 0, 3, 50, 10, 100, RANDOM),
    (1, 100, 0, 3, 50, 30, 100, RANDOM),
    (1, 20, 0, 4, 32, 10, 0, RANDOM),
    (1, 20, 0, 4, 32, 100, 0, RANDOM),
    (1, 250, 0, 3, 32, 10, 0, RANDOM),
    (2, 100, 0, 3, 50, 10, 0, SURE),
    (3, 200, .3, 3, 50, 30, 0, RANDOM),
    (4, 400, 0, 3, 50, 10, 0, RANDOM),
    (4, 400, 0, 3, 50, 100, 0, RANDOM),
]
CONFIG = """\
memory: {{arena: 100MiB, encoded: {encoded}MiB}}
threads: {{workers: 2, loaders: 8}}
catalog: {{checkpoint: none}}
metrics: {{enabled: false}}
"""
COUNTS, STALL, OF_RUN = .15, .30, .01


def uncached(folder):
    """The files leave the page cache."""
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(path, name), os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def planned(options, row, config, environment):
    jobs, step_ms, apart, epochs, batch, _, _, pipeline = row
    words = [os.path.join(BIN, "larder"), "plan", options.folder, "--json", "--config", config, "--jobs", str(jobs),
             "--epochs", str(epochs), "--batch", str(batch), "--step-ms", str(step_ms), "--apart", str(apart),
             "--pipeline", json.dumps(pipeline)]
    told = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True,
                                     env=dict(os.environ, **environment)).stdout)
    first, later = told["rows"][0]["first"], told["rows"][0]["later"]
    sums = {key: first[key] + later[key] for key in ("delivered", "decoded", "source_bytes", "class_bytes", "stall_s")}
    sums["rates"] = "/".join(f"{at['mb_per_s']:.0f}" for at in told["measured"]["source"])
    sums["stall_sd_s"], sums["runs"] = told["rows"][0]["stall_sd_s"], told["rows"][0]["runs"]
    return sums, told["bytes"]


def expect(condition, seconds, what):
    if not until(condition, seconds):
        raise SystemExit(what)


def touch(path):
    with open(path, "w"):
        pass


def begin(options, row, daemon, go):
    """Scripts that begin together wait with their Loaders made; those apart are up, and make theirs when it is time."""
    jobs, step_ms, apart, epochs, batch, _, _, pipeline = row
    files = [f"{go}-{job}" for job in range(jobs)]
    scripts = [Script(daemon.socket, dataset=options.folder, pipeline=pipeline, batch_size=batch, epochs=epochs,
                      step_s=step_ms / 1000, name=f"job{job}", **{"load_after" if apart else "start_after": file})
               for job, file in enumerate(files)]
    if apart:
        expect(lambda: all(os.path.exists(file + "-up") for file in files), 60, "scripts do not start")
    else:
        expect(lambda: len(daemon.jobs()) == jobs, 60, "jobs do not come")
    for script, file in zip(scripts, files):
        touch(file)
        expect(lambda script=script: script.end or len(script.batches) >= apart * 500 / batch, 600,
               "a script stands still")
    return scripts


def really(options, row, config, faults, folder):
    uncached(options.folder)
    daemon = Daemon(folder, config, environment=faults.environment)
    start = time.monotonic()
    scripts = begin(options, row, daemon, os.path.join(folder, "go"))
    if any(script.wait(600) for script in scripts):
        raise SystemExit(f"a script failed: {[script.end for script in scripts]}")
    seconds = time.monotonic() - start
    samples, storage = daemon.status()["samples"], daemon.status()["storage"]
    daemon.stop()
    return {"delivered": samples["delivered"], "decoded": samples["decoded"],
            "source_bytes": storage["source"]["bytes"],
            "class_bytes": sum(row["read"]["bytes"] for row in storage["classes"]),
            "stall_s": sum(script.waits[-1] for script in scripts), "jobs_s": seconds * row[0]}


def in_folder(options, row, what):
    """What what(configuration, faults, folder) gives, where the source is slow and a storage class is empty."""
    folder = tempfile.mkdtemp(prefix="larder-plan-")
    faults = Faults(folder)
    faults.begin("SLOW", path=os.path.realpath(options.folder)[-79:], from_bytes=int(options.rate * 1e6))
    text = CONFIG.format(encoded=row[5])
    if row[6]:
        os.mkdir(os.path.join(folder, "class"))
        text += f"storage:\n  - {{path: {folder}/class, size: {row[6]}MiB}}\n"
    try:
        return what(text, faults, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def plan_of(options, row):
    def plan(text, faults, folder):
        config = os.path.join(folder, "plan.yaml")
        with open(config, "w") as file:
            file.write(text)
        uncached(options.folder)
        return planned(options, row, config, faults.environment)
    return in_folder(options, row, plan)


def runs_of(options, row):
    """The means of some runs of the daemon, and the standard deviation of a run's stall."""
    runs = [in_folder(options, row, lambda text, faults, folder: really(options, row, text, faults, folder))
            for _ in range(options.runs)]
    stalls = [run["stall_s"] for run in runs]
    if options.verbose:
        print("    " + "; ".join(f"{run['stall_s']:.2f} s, {run['decoded']}" for run in runs), flush=True)
    means = {key: statistics.mean(run[key] for run in runs) for key in runs[0]}
    return means, statistics.stdev(stalls) if len(stalls) > 1 else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--rows", default="", help="numbers of rows, from 1; default: all")
    parser.add_argument("--runs", type=int, default=10, help="of the daemon, for each row")
    parser.add_argument("--verbose", action="store_true", help="each run's stall, and what it decoded")
    parser.add_argument("--rate", type=float, default=20, help="of the source, MB/s")
    options = parser.parse_args()
    options.folder = os.path.abspath(options.folder)
    wanted = [int(number) for number in options.rows.split(",") if number] or range(1, len(ROWS) + 1)
    right = {"counts": 0, "stall": 0}
    print("row jobs step encoded class | of the source     | of the class      | decoded/delivered | stall, s: "
          "plan ± sd (runs), daemon ± sd, off ± standard error | MB/s with 1/2/4/8 reads")
    for number in wanted:
        row = ROWS[number - 1]
        plan, total = plan_of(options, row)
        there, sd = runs_of(options, row)
        pairs = [(plan[key] / total, there[key] / total) for key in ("source_bytes", "class_bytes")]
        pairs.append((plan["decoded"] / plan["delivered"], there["decoded"] / there["delivered"]))
        off, error = plan["stall_s"] - there["stall_s"], sd / options.runs ** .5
        may = max(STALL * there["stall_s"], OF_RUN * there["jobs_s"])
        right["counts"] += all(abs(one - other) <= max(COUNTS * other, .02) for one, other in pairs)
        right["stall"] += abs(off) <= may
        print(f"{number:3} {row[0]:4} {row[1]:4} {row[5]:7} {row[6]:5}", *(f"| {one:7.3f}, {other:7.3f} "
              for one, other in pairs), f"| {plan['stall_s']:6.2f} ± {plan['stall_sd_s']:4.2f} ({plan['runs']:2}), "
              f"{there['stall_s']:6.2f} ± {sd:4.2f}, {100 * off / there['stall_s']:4.0f} ± "
              f"{100 * error / there['stall_s']:2.0f} % {'ok' if abs(off) <= may else 'NO'}"
              f"{'' if error <= may / 3 else ' ~'} | {plan['rates']}", flush=True)
    print(f"of {len(wanted)} rows, counts within 15 %: {right['counts']}; stall within 30 % or 1 % of the jobs' time: "
          f"{right['stall']}")


if __name__ == "__main__":
    main()
