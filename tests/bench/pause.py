#!/usr/bin/env python3
"""How long training stands still when the daemon is killed and started again.

    pause.py FOLDER [--kills 20] [--batch-size 32] [--step-ms 5] [--every 1.5]

Three jobs train on FOLDER's images at once: one with shuffle dependent, one strict, one of two ranks. larderd is
killed (SIGKILL) and started again at once, so many times. For each kill and script the table has the time from the
kill until the first batch that the new daemon gave, and that time without the daemon's own start (from its fork until
it says that it is ready). Scripts hold one batch in advance. Nobody may raise an error.

LARDER_BIN says which build.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import Daemon, Script, until  # noqa: E402

PIPELINE = [{"random_resized_crop": {"size": 128}}, "random_horizontal_flip"]
IN_ADVANCE = 4  # batches that a script may have had before the kill, or that were on their way
EPOCHS = 100000


def scripts_of(options, daemon):
    common = {"dataset": os.path.abspath(options.folder), "pipeline": PIPELINE, "batch_size": options.batch_size,
              "epochs": EPOCHS, "step_s": options.step_ms / 1000, "prefetch": 1}
    scripts = {"dependent": Script(daemon.socket, name="dependent", **common),
               "strict": Script(daemon.socket, name="strict", shuffle="strict", seed=1, **common)}
    for rank in range(2):
        scripts[f"rank {rank} of 2"] = Script(daemon.socket, name="ranks", rank=rank, world_size=2, **common)
    return scripts


def came(script, count):
    if script.end:
        raise SystemExit(f"a script ended: {script.end} {script.errors}")
    return len(script.batches) >= count


def kill_once(folder, daemon, scripts):
    """(the new daemon, how long it took to start, {script: seconds from the kill to its batches})."""
    killed = time.monotonic()
    daemon.kill()
    started = time.monotonic()
    daemon = Daemon(folder)
    ready = time.monotonic()
    before = {name: sum(batch[0] < ready for batch in list(script.batches)) for name, script in scripts.items()}
    for name, script in scripts.items():
        if not until(lambda script=script, count=before[name] + IN_ADVANCE: came(script, count), 60):
            raise SystemExit(f"{name}: no batches came again: {daemon.log()}")
    return daemon, ready - started, {name: script.batches[before[name]][0] - killed
                                     for name, script in scripts.items()}


def row(name, seconds):
    print(f"{name:34} {1000 * statistics.median(seconds):9.0f} {1000 * max(seconds):9.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--step-ms", type=float, default=5)
    parser.add_argument("--every", type=float, default=1.5, help="seconds between a return and the next kill")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="larder-pause-")
    daemon = Daemon(folder)
    scripts = scripts_of(options, daemon)
    starts, backs = [], {name: [] for name in scripts}
    try:
        for script in scripts.values():
            until(lambda script=script: came(script, 2 * IN_ADVANCE), 60)
        for _ in range(options.kills):
            time.sleep(options.every)
            daemon, start_s, back = kill_once(folder, daemon, scripts)
            starts.append(start_s)
            for name, seconds in back.items():
                backs[name].append(seconds)
        print(f"{options.kills} kills; milliseconds {'':6} {'median':>9} {'most':>9}")
        row("the daemon's start", starts)
        for name, seconds in backs.items():
            row(f"{name}: until batches", seconds)
            row(f"{name}: without the start", [back - start for back, start in zip(seconds, starts)])
    finally:
        for script in scripts.values():
            script.process.kill()
            script.process.wait()
        daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
