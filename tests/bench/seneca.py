#!/usr/bin/env python3
"""Larder's engine beside Seneca's rule, on the machines of Seneca's table 5, in virtual time; the figures stand in
docs/internals/measured/seneca.md.

    seneca.py LARDER_BENCH makespan [--only SCENARIO] [--free]    a table for each of the scenarios
    seneca.py LARDER_BENCH hits                                   samples that need no read, by what memory holds

makespan plays tests/bench/scenarios/ with the figures of each machine and each size of its cache in the place of those
that stand there. --free: training takes no time. The split that Seneca's model chooses is played, and all splits in
steps of a fifth, of which the best is told. So is the best of some splits for the engine, where room does not move."""

import argparse
import json
import os
import re
import subprocess
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")
CORES, SAMPLE_GB, DATASET_GB = 16, 114.62e-6, 1281167 * 114.62e-6
# Samples a second: decoding and augmenting, augmenting alone, training on all GPUs (assumed). Bytes a second: storage.
MACHINES = {"in-house": (2132, 4050, 4550, 5e8), "AWS": (3432, 6520, 9989, 2.56e8),
            "Azure": (9783, 12930, 14301, 2.5e8)}
CACHES_GB = (115, 400)
SCENARIOS = ("seneca-one", "seneca-four", "seneca-speeds", "seneca-twelve")
FREE_S = 1e-9
PREPARED = (0.001, 0.02, 0.05, 0.1)  # instances that memory holds, over the samples
SPLITS = [(20 * e, 20 * d, 100 - 20 * e - 20 * d) for e in range(6) for d in range(6 - e)]


def bench(program, text, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([program, "sharing", file.name, *options], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{result.stderr}\n{text}")
    return json.loads(result.stdout)


def read(name):
    with open(os.path.join(HERE, name + ".yaml")) as file:
        return file.read()


def with_key(text, key, value):
    """The text with another number in the place of each of the key's; value is one, or makes one of the old one."""
    made = value if callable(value) else lambda old: value
    changed, count = re.subn(rf"\b{key}: ([0-9.e+-]+)", lambda match: f"{key}: {made(float(match[1])):.12g}", text)
    assert count, key
    return changed


def look_ahead(text):
    """The least room for instances, over the samples: as sharing_slots has it."""
    at_once = re.search(r"at_once: ([0-9]+)", text)
    jobs = int(at_once[1]) if at_once else text.count("train_s")
    batch, prefetch = (int(re.search(rf"{key}: ([0-9]+)", text)[1]) for key in ("batch", "prefetch"))
    return jobs * batch * (prefetch + 2) / int(re.search("samples: ([0-9]+)", text)[1])


def on_machine(text, machine, cache_gb, free=False):
    both, augment, trains, storage = MACHINES[machine]
    slower = MACHINES["in-house"][2] / trains
    text = with_key(text, "decode_s", CORES * (1 / both - 1 / augment))
    text = with_key(text, "prepare_s", CORES / augment)
    text = with_key(text, "train_s", lambda old: FREE_S if free else old * slower)
    text = re.sub(r"bytes_s: [0-9.e+]+", f"bytes_s: {storage:.1f}", text)
    prepared = max(float(re.search(r"memory: {prepared: ([0-9.]+)", text)[1]), look_ahead(text))
    instance = float(re.search(r"\n  prepared: ([0-9.]+)", text)[1])
    return re.sub(r"encoded: [0-9.]+}", f"encoded: {cache_gb / DATASET_GB - prepared * instance:.6f}}}", text, count=1)


def shown(split):
    return "-".join(str(part) for part in (split.values() if isinstance(split, dict) else split))


def engines(program, name, machine, cache_gb, free):
    """The engine with the split of the scenario, without and with decoded forms; with room that moves; and with the
    best of PREPARED."""
    fixed = read(name).replace("decoded: auto", "decoded: auto, split: never")
    text = on_machine(fixed, machine, cache_gb, free)
    never = bench(program, text.replace("decoded: auto", "decoded: never"))["costs"]
    tried = []
    for prepared in PREPARED:
        other = re.sub(r"prepared: [0-9.]+, encoded", f"prepared: {prepared}, encoded", fixed)
        tried.append((bench(program, on_machine(other, machine, cache_gb, free))["costs"], prepared))
    auto = bench(program, on_machine(read(name), machine, cache_gb, free))["costs"]
    return never, bench(program, text)["costs"], auto, min(tried, key=lambda one: one[0]["makespan_s"])


def row(program, name, machine, cache_gb, free):
    text = on_machine(read(name), machine, cache_gb, free)
    chosen = bench(program, text, "--seneca")
    tried = [(bench(program, text, "--seneca", "--split", ",".join(map(str, split)))["costs"]["makespan_s"], split)
             for split in SPLITS]
    seneca, least = chosen["costs"], min(tried)
    never, fixed, auto, (best, prepared) = engines(program, name, machine, cache_gb, free)
    ratio = auto["makespan_s"] / seneca["makespan_s"]
    return (f"| {machine} {cache_gb} GB | {seneca['makespan_s']:.1f} ({shown(chosen['split'])}) | "
            f"{least[0]:.1f} ({shown(least[1])}) | {never['makespan_s']:.1f} | {fixed['makespan_s']:.1f} | "
            f"{auto['makespan_s']:.1f} | {best['makespan_s']:.1f} ({prepared}) | {auto['bound_s']:.1f} | {ratio:.2f} | "
            f"{auto['makespan_s'] / least[0]:.2f} | "
            f"{auto['bound_s'] / seneca['makespan_s']:.2f} | {auto['over_bound']:.2f} | "
            f"{auto['cpu_ms_per_delivered'] / seneca['cpu_ms_per_delivered']:.2f} |")


def makespan(options):
    for name in [options.only] if options.only else SCENARIOS:
        print(f"\n{name}{', training takes no time' if options.free else ''}\n\n"
              "| machine | Seneca | its best | never | fixed | auto | by hand | bound | auto / Seneca | "
              "auto / its best | bound / Seneca | auto / bound | CPU |\n|" + "---|" * 13)
        for machine in MACHINES:
            for cache_gb in CACHES_GB:
                print(row(options.program, name, machine, cache_gb, options.free), flush=True)


LOOK_AHEAD = 4 * 16 * 4 / 8000  # of the jobs of seneca-four: the least room for instances


def ods(program, part):
    """Seneca's rule with four jobs, where memory has room for a part of the samples, whatever their form."""
    text = read("seneca-four").replace("prepared: 5.12", "prepared: 1").replace("decoded: 5.12", "decoded: 1")
    text = re.sub(r"memory: {.*}", f"memory: {{prepared: 0, encoded: {part - LOOK_AHEAD}}}", text)
    result = bench(program, text, "--seneca")
    seneca = result["costs"]
    return shown(result["split"]), 1 - seneca["hits"]["read"], 1 - seneca["reads"] / result["delivered"]


def engine_hits(program, part):
    text = read("seneca-hits").replace("encoded: 0.2}", f"encoded: {part}}}")
    result = bench(program, text)
    jobs = result["jobs"]
    epochs = sum(job["delivered"] for job in jobs) / 20000
    return 1 - result["bytes_read_per_byte"] * 6 / epochs


def hits(options):
    print("memory  Larder, without a read  Seneca's rule: split, hits, without a read")
    for part in (.2, .4, .6, .8):
        split, hit, unread = ods(options.program, part)
        print(f"{100 * part:4.0f} % {100 * engine_hits(options.program, part):18.1f} {split:>22} {100 * hit:8.1f} "
              f"{100 * unread:8.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", metavar="LARDER_BENCH")
    parser.add_argument("what", choices=("makespan", "hits"))
    parser.add_argument("--only")
    parser.add_argument("--free", action="store_true")
    options = parser.parse_args()
    (hits if options.what == "hits" else makespan)(options)


if __name__ == "__main__":
    main()
