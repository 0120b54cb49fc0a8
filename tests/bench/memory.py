#!/usr/bin/env python3
"""Memory over a run: eight jobs of different views, pipelines and speeds against a daemon with little memory.

    memory.py [--seconds 60] [--folder IMAGES] [--arena-mib 96] [--encoded-mib 16] [--limit-mib N] [--threads N]

Samples what the daemon says of itself (`larder status --json`) and the kernel of it (/proc/PID/status), and states

    over = resident memory - arena - encoded budget

at its highest, and whether it still grows: the highest of the last third of the run less that of the middle third. One
of the jobs comes and goes all the time. Prints a line a second and a JSON summary. The exit status is 1 when a job
failed, or with --limit-mib when `over` was above it. IMAGES is a class-per-folder tree; without it images are made.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import BIN, SLOW, Daemon, larder, make_tree  # noqa: E402

MIB = 1 << 20
CROP = [{"random_resized_crop": {"size": 224}}, "random_horizontal_flip"]
SMALL = [{"random_resized_crop": {"size": 96}}, "random_horizontal_flip"]
STILL = [{"resize": {"size": 256}}, {"center_crop": {"size": 224}}]
# view as a part of the dataset (begin, end), pipeline, batch size, seconds a step, comes anew every so many batches
JOBS = (((0, 1), CROP, 32, 0, None), ((0, 1), CROP, 32, 0.02, None), ((0, 0.6), CROP, 16, 0.01, None),
        ((0.4, 1), SMALL, 64, 0.05, None), ((0, 1), SMALL, 8, 0.005, None), ((0.2, 0.8), STILL, 24, 0.03, None),
        ((0, 0.3), STILL, 16, 0.1, None), ((0.5, 0.9), CROP, 16, 0.01, 20))


def job_main(options):
    """One job: trains until its time is over; one that comes anew opens a new loader each time."""
    (begin, end), pipeline, batch_size, step_s, anew = options["job"]
    batches = 0
    while time.time() < options["until"]:
        with larder.Loader(options["dataset"], pipeline, batch_size, output="numpy", socket=options["socket"],
                           subset=larder.Range(int(begin * options["count"]), int(end * options["count"])),
                           timeout=60 * SLOW) as loader:
            while time.time() < options["until"]:
                for _ in loader:
                    time.sleep(step_s)
                    batches += 1
                    if time.time() >= options["until"] or (anew and batches % anew == 0):
                        break
                if anew:
                    break
    print(batches)


def memory_of(pid):
    """Bytes by name from /proc/PID/status: VmRSS, RssAnon, RssFile, RssShmem."""
    with open(f"/proc/{pid}/status") as file:
        rows = (line.split() for line in file if line.startswith(("VmRSS", "Rss")))
        return {row[0][:-1]: int(row[1]) * 1024 for row in rows}


def watch(daemon, arguments, until):
    """Samples until the time is over; a row a sample."""
    rows, shown = [], 0
    began = time.time()
    while time.time() < until:
        status, memory = daemon.status(), memory_of(daemon.process.pid)
        over = max(memory["VmRSS"], status["daemon"]["rss_bytes"]) - (arguments.arena_mib + arguments.encoded_mib) * MIB
        rows.append({"time": time.time() - began, "over": over, "anon": memory["RssAnon"], "file": memory["RssFile"],
                     "shared": memory["RssShmem"], "arena_used": status["memory"]["arena"]["used_bytes"],
                     "encoded_used": status["memory"]["encoded"]["used_bytes"], "jobs": len(status["jobs"]),
                     "delivered": status["samples"]["delivered"],
                     "cpu_ms": 1e3 * status["daemon"]["cpu_s"] / max(status["samples"]["prepared"], 1)})
        if time.time() - shown >= 1:
            shown, row = time.time(), rows[-1]
            print("{time:6.1f} s: over {over:5.1f}, anonymous {anon:5.1f}, files {file:5.1f}, shared {shared:5.1f}, "
                  "arena used {arena_used:5.1f}, encoded used {encoded_used:5.1f} MiB".format(
                      **{key: value if key in ("time", "jobs") else value / MIB for key, value in row.items()}),
                  "{} jobs, {} delivered".format(row["jobs"], row["delivered"]), flush=True)
        time.sleep(0.1)
    return rows


def summary(rows, arguments):
    def highest(key, part=(0, 1)):
        some = rows[int(part[0] * len(rows)):max(int(part[1] * len(rows)), 1)] or rows
        return round(max(row[key] for row in some) / MIB, 1)
    return {"seconds": arguments.seconds, "samples": len(rows), "delivered": rows[-1]["delivered"],
            "cpu_ms_per_prepared": round(rows[-1]["cpu_ms"], 3), "arena_mib": arguments.arena_mib,
            "encoded_mib": arguments.encoded_mib, "over_mib": highest("over"), "anonymous_mib": highest("anon"),
            "files_mib": highest("file"), "shared_mib": highest("shared"), "arena_used_mib": highest("arena_used"),
            "encoded_used_mib": highest("encoded_used"),
            "growth_mib": round(highest("anon", (2 / 3, 1)) - highest("anon", (1 / 3, 2 / 3)), 1)}


def run(arguments, folder):
    dataset = arguments.folder or make_tree(os.path.join(folder, "tree"), 800, width=360, height=270)
    count = sum(len(names) for _, _, names in os.walk(dataset))
    daemon = Daemon(folder, f"memory: {{arena: {arguments.arena_mib}MiB, encoded: {arguments.encoded_mib}MiB}}\n"
                    f"threads: {{workers: {arguments.threads}}}\n"
                    "catalog: {checkpoint: none}\nmetrics: {enabled: false}\n")
    until, jobs = time.time() + arguments.seconds, []
    try:
        for job in JOBS:
            options = {"job": job, "dataset": os.path.abspath(dataset), "count": count, "socket": daemon.socket,
                       "until": until}
            jobs.append(subprocess.Popen([sys.executable, "-B", __file__, "--job", json.dumps(options)],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
        rows = watch(daemon, arguments, until)
        batches = [job.communicate(timeout=90 * SLOW)[0] for job in jobs]
        failed = [number for number, job in enumerate(jobs) if job.returncode]
    finally:
        for job in jobs:
            job.kill()
        daemon.stop()
    result = {**summary(rows, arguments), "batches": [int(text or 0) for text in batches], "failed_jobs": failed}
    print(json.dumps(result), flush=True)
    if failed:
        print(daemon.log()[-3000:])
    return 1 if failed or (arguments.limit_mib and result["over_mib"] > arguments.limit_mib) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--folder", help="class-per-folder tree of images")
    parser.add_argument("--arena-mib", type=int, default=96)
    parser.add_argument("--encoded-mib", type=int, default=16)
    parser.add_argument("--limit-mib", type=float)
    parser.add_argument("--threads", type=int, default=4, help="workers")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        return job_main(json.loads(arguments.job))
    print(f"larderd from {BIN}", flush=True)
    with tempfile.TemporaryDirectory(prefix="larder-") as folder:
        return run(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
