"""larder_bench sharing keeps its promises: the six scenarios of the design's table, the loading cases, and odd ones.

    test_sharing.py LARDER_BENCH PART [--seeds N]

PART: redirect, off, loading, parts, chunks, fits, keeps, known, thin, order or odd. Every run is exactly once and
gives no instance twice to a job; the limits are named at each part. Seeds are 1 … N, so that a failure is found again;
with one alone the costly cases are left out."""

import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")
# prepared per delivered: at most with redirection, and what dependent sampling alone comes to
SIX = {"same-speed": (0.250, 0.250), "speeds": (0.415, 0.593), "staggered": (0.348, 0.550),
       "staggered-speeds": (0.481, 0.657), "subsets": (0.296, 0.658), "subsets-speeds": (0.402, 0.707)}
# Means of seeds 1 to 12: loads a chunk and epoch, bytes read of each byte, and spread. What a seed comes to may be
# worse by these parts.
MEANS = {"same-speed": (2.00, 1.000, 0.888), "speeds": (2.46, 0.978, 0.911), "staggered": (3.06, 1.234, 0.783),
         "staggered-speeds": (3.20, 1.248, 0.913), "subsets": (2.29, 1.002, 0.810),
         "subsets-speeds": (8.13, 1.785, 0.955)}
WORSE_READS, WORSE_SPREAD = 0.03, 0.025


def run(text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([LARDER_BENCH, "sharing", file.name], capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"exit {result.returncode}: {result.stderr}\n{text}")
    return json.loads(result.stdout)


def scenario(name, seed, settings="shuffle: dependent"):
    with open(os.path.join(HERE, name + ".yaml")) as file:
        text = file.read()
    assert "seed: 1\n" in text and text.count("shuffle: dependent") == 1
    return text.replace("seed: 1\n", f"seed: {seed}\n", 1).replace("shuffle: dependent", settings)


def expect(what, value, low, high):
    good = low <= value <= high
    print(f"{'ok  ' if good else 'FAIL'} {what}: {value:.4f} in [{low:.4f}, {high:.4f}]", flush=True)
    if not good:
        failures.append(what)


def exactly_once(what, result):
    for key in ("missing", "duplicates", "instance_repeats"):
        if result[key]:
            failures.append(what)
            print(f"FAIL {what}: {key} {result[key]}", flush=True)


def runs(texts):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, texts))


def redirect(seeds):
    """The six scenarios need no more preparations than a fiber of 64 samples does in the design's simulation. They
    read about as often and as much, and spread a chunk's samples about as far, as when the limits were set."""
    for seed in seeds:
        for name, result in zip(SIX, runs([scenario(name, seed) for name in SIX])):
            exactly_once(f"{name}, seed {seed}", result)
            expect(f"{name}, seed {seed}: prepared per delivered", result["prepared_per_delivered"],
                   0, SIX[name][0] + 0.0005)
            loads, read, spread = MEANS[name]
            expect(f"{name}, seed {seed}: loads", result["loads_per_chunk_per_epoch"], 0, loads * (1 + WORSE_READS))
            expect(f"{name}, seed {seed}: bytes read", result["bytes_read_per_byte"], 0, read * (1 + WORSE_READS))
            expect(f"{name}, seed {seed}: spread", result["position_spread"], spread * (1 - WORSE_SPREAD), 1.05)
            expect(f"{name}, seed {seed}: prepared memory", result["peak_prepared"], 0, 2000)
            expect(f"{name}, seed {seed}: encoded memory", result["peak_encoded"], 0, 2000)


def off(seeds):
    """Without redirection they need what JOADER's simulation needs, within 5 %: the baseline is honest."""
    for seed in seeds:
        for name, result in zip(SIX, runs([scenario(name, seed, "shuffle: dependent, redirect: off") for name in SIX])):
            exactly_once(f"{name}, seed {seed}", result)
            joader = SIX[name][1]
            expect(f"{name}, off, seed {seed}: prepared per delivered", result["prepared_per_delivered"],
                   joader * 0.95, joader * 1.05)


def pair(percent, seed, chunk=64, **second):
    """Two jobs of 4 epochs with memory for so many percent; the second as told."""
    text = scenario(f"loading-{percent}-two", seed).replace("chunk: 64", f"chunk: {chunk}")
    first, end = text.rsplit("{epochs: 4}", 1)
    return first + "{" + ", ".join(f"{key}: {value}" for key, value in {"epochs": 4, **second}.items()) + "}" + end


# The second of two jobs. Both end after 4 epochs of the first and what the second came later.
OTHERS = {"half an epoch later": {"start": 0.5}, "a quarter later": {"start": 0.25}, "a tenth later": {"start": 0.1},
          "speed 0.9": {"rate": 0.9, "epochs": 3}, "speed 0.75": {"rate": 0.75, "epochs": 3},
          "speed 0.7": {"rate": 0.7, "epochs": 2}, "speed 0.5": {"rate": 0.5, "epochs": 2}}


# Those of them that came nearest to their limits.
FEW = {name: OTHERS[name] for name in ("half an epoch later", "a quarter later", "speed 0.7")}


def apart(percent, seed, alone, others, chunk=64):
    """Two jobs load at most 1.10 times what one alone, which came to `alone` in 4 epochs, loads in the same time."""
    for name, result in zip(others, runs([pair(percent, seed, chunk, **second) for second in others.values()])):
        what = f"two jobs, chunks of {chunk}, {percent} %, {name}, seed {seed}"
        exactly_once(what, result)
        ratio = result["chunk_loads"] / (alone * (4 + others[name].get("start", 0)) / 4)
        expect(what + ": loads over those of one", ratio, 0, 1.1)


def loading(seeds):
    """One job loads a chunk at most 2.5 times and spreads it by 0.65 or more; w = 1 loads as the papers do; a second
    job, in step, at another speed or at another place in its epoch, adds at most 10 % to what one loads alone in the
    same time."""
    for seed in seeds:
        for percent in (25, 10, 4):
            names = [f"loading-{percent}", f"loading-{percent}-papers", f"loading-{percent}-two"]
            one, papers, two = runs([scenario(name, seed) for name in names])
            for name, result in zip(names, (one, papers, two)):
                exactly_once(f"{name}, seed {seed}", result)
                expect(f"{name}, seed {seed}: encoded memory", result["peak_encoded"], 0, 200 * percent)
            expect(f"{names[0]}, seed {seed}: loads", one["loads_per_chunk_per_epoch"], 1, 2.5)
            expect(f"{names[0]}, seed {seed}: spread", one["position_spread"], 0.65, 1.05)
            expect(f"{names[0]}, seed {seed}: bytes read", one["bytes_read_per_byte"],
                   0.8 if percent == 25 else 0.999, 1.02)
            expect(f"{names[1]}, seed {seed}: loads", papers["loads_per_chunk_per_epoch"], 6, 10)
            expect(f"{names[2]}, seed {seed}: loads over those of one", two["chunk_loads"] / one["chunk_loads"], 0, 1.1)
            apart(percent, seed, one["chunk_loads"], OTHERS if len(seeds) > 1 else FEW)
        if seed == 1 and len(seeds) > 1:  # where single seeds came nearest to the limit
            for more in range(2, 7):
                alone = run(scenario("loading-4", more))["chunk_loads"]
                apart(4, more, alone, {name: OTHERS[name] for name in ("half an epoch later", "a quarter later")})


def parts(seeds):
    """However large chunks and datasets are, however few chunks memory holds and however little of each a job's view
    has: at most 2.5 loads, and spread by 0.65 or more where memory holds three chunks."""
    for seed in seeds:
        cases = [(samples, chunk, percent, view)
                 for samples, chunk in ((20000, 16), (20000, 256), (5000, 64), (2000, 16))
                 for percent in (25, 10, 4) for view in ("all", "{fraction: 0.3, seed: 3}", "{fraction: 0.7, seed: 4}")]
        results = runs([f"samples: {samples}\nchunk: {chunk}\nmemory: {{prepared: 0, encoded: {percent / 100}}}\n"
                        f"seed: {seed}\nsettings: {{shuffle: dependent}}\njobs:\n  - {{epochs: 4, view: {view}}}\n"
                        for samples, chunk, percent, view in cases])
        for (samples, chunk, percent, view), result in zip(cases, results):
            what = f"{samples} samples, chunks of {chunk}, {percent} %, view {view}, seed {seed}"
            exactly_once(what, result)
            expect(what + ": encoded memory", result["peak_encoded"], 0, samples * percent // 100)
            expect(what + ": loads", result["loads_per_chunk_per_epoch"], 0.4 if percent == 25 else 0.9, 2.5)
            expect(what + ": spread", result["position_spread"], 0.65, 1.05)


CHUNKS = (10, 16), (4, 16), (10, 256), (4, 128), (4, 256)  # the first makes most of memory, and the last fewest


def chunks(seeds):
    """Two jobs out of step load at most 1.10 times what one does, whether memory holds fifty chunks or three."""
    for seed in seeds:
        for percent, chunk in CHUNKS if len(seeds) > 1 else CHUNKS[::4]:
            alone = run(scenario(f"loading-{percent}", seed).replace("chunk: 64", f"chunk: {chunk}"))["chunk_loads"]
            apart(percent, seed, alone, FEW, chunk)


def fits(seeds):
    """With encoded memory for all that jobs want each chunk is read once, however many epochs, jobs and orders there
    are, and a chunk's samples lie as far apart as in a full shuffle."""
    for seed in seeds:
        cases = [(memory, jobs) for memory, jobs in (
            (1, "{epochs: 4}"), (1, "{epochs: 4}\n  - {epochs: 4, start: 0.5}\n  - {epochs: 3, rate: 0.7}"),
            (1, "{epochs: 4, shuffle: strict}"), (1, "{epochs: 4, shuffle: none}\n  - {epochs: 4, shuffle: strict}"),
            (0.1, "{epochs: 4, view: {fraction: 0.1, seed: 3}}"),
            (0.6, "{epochs: 4, view: {range: [0, 8000]}}\n  - {epochs: 4, view: {range: [4000, 12000]}}"))]
        results = runs([f"samples: 20000\nchunk: 64\nmemory: {{prepared: 0.1, encoded: {memory}}}\nseed: {seed}\n"
                        f"settings: {{shuffle: dependent}}\njobs:\n  - {jobs}\n" for memory, jobs in cases])
        for (memory, jobs), result in zip(cases, results):
            what = f"memory {memory}, seed {seed}, jobs {jobs!r}"
            exactly_once(what, result)
            expect(what + ": encoded memory", result["peak_encoded"], 0, 20000 * memory)
            expect(what + ": chunk loads", result["chunk_loads"], 1, 20000 / 64 * 1.05)
            expect(what + ": spread", result["position_spread"], 0.9, 1.05)


# By encoded memory: what one job reads at most of each byte in an epoch, once the first is over; and two and four jobs
# out of step in the time of an epoch.
KEPT = {0.5: (0.55, 0.593, 0.612), 0.75: (0.3, 0.317, 0.315), 0.9: (0.15, 0.135, 0.136)}


def read_after_first(memory, seed, jobs, prepared=0):
    """Bytes read for each byte and epoch after the first, which reads all; and the report. Jobs have 4 epochs."""
    last = max(job.get("start", 0) for job in jobs)
    rows = "".join("  - {" + ", ".join(f"{key}: {value}" for key, value in {"epochs": 4, **job}.items()) + "}\n"
                   for job in jobs)
    result = run(f"samples: 20000\nchunk: 64\nmemory: {{prepared: {prepared}, encoded: {memory}}}\n"
                 f"seed: {seed}\nsettings: {{shuffle: dependent}}\njobs:\n{rows}")
    return (result["bytes_read_per_byte"] * 4 - 1) / (3 + last), result


def keeps(seeds):
    """Memory for a part of the dataset keeps nearly that part over all epochs, for jobs alone, apart, and of two
    pipelines. Kept samples come no earlier in an epoch than others, and orders are as without."""
    for seed in seeds:
        for memory, (alone, two, four) in KEPT.items():
            cases = [("one job", [{}], alone), ("two apart", [{}, {"start": 0.5}], two), ("in step", [{}, {}], alone),
                     ("two pipelines", [{"pipeline": "a"}, {"pipeline": "b"}], alone),
                     ("four apart", [{"start": part} for part in (0, 0.25, 0.5, 0.75)], four)]
            # With one seed only the least memory has all of them.
            for name, jobs, most in cases if len(seeds) > 1 or memory == 0.5 else cases[4:] if memory == 0.9 else ():
                read, result = read_after_first(memory, seed, jobs)
                what = f"memory {memory}, {name}, seed {seed}"
                exactly_once(what, result)
                expect(what + ": bytes read of each byte and epoch", read, 0, most)
                expect(what + ": spread", result["position_spread"], 0.75, 1.05)
                expect(what + ": encoded memory", result["peak_encoded"], 0, 20000 * memory)
                if name == "two pipelines":
                    expect(what + ": decodes a sample", result["decoded"] / 80000, 0, 1.04)
        result = read_after_first(1, seed, [{"pipeline": "a"}, {"pipeline": "b", "start": 0.02}], prepared=0.1)[1]
        expect(f"two pipelines, all kept, the second 0.02 epochs later, seed {seed}: decodes a sample",
               result["decoded"] / 80000, 0, 1.04)
        for memory in (0.5, 0.9) if len(seeds) > 1 else ():  # `order` has the first
            as_a_full_shuffle(f"memory {memory}", kept(memory, seed), seed)


def known(seeds):
    """Jobs whose orders are known read no more of each byte and epoch than memory cannot hold. Two jobs read less than
    they did when what nobody wanted any more in an epoch went at its end."""
    for seed in seeds:
        for memory in (0.1, 0.25, 0.5, 0.75, 0.9) if len(seeds) > 1 else (0.1, 0.5, 0.9):
            for order in ("strict", "none"):
                read, result = read_after_first(memory, seed, [{"shuffle": order}])
                what = f"memory {memory}, {order}, seed {seed}"
                exactly_once(what, result)
                expect(what + ": bytes read of each byte and epoch", read, 1 - memory - 1e-6, 1 - memory + 0.01)
                expect(what + ": encoded memory", result["peak_encoded"], 0, 20000 * memory)
        for jobs, most in (([{"shuffle": "strict"}, {"shuffle": "strict", "start": 0.5}], 0.75),
                           ([{"shuffle": "strict"}, {"shuffle": "none"}], 0.8)):
            read, result = read_after_first(0.5, seed, jobs)
            exactly_once(f"{jobs}, seed {seed}", result)
            expect(f"{jobs}, seed {seed}: bytes read of each byte and epoch", read, 0, most)


# Preparations for each delivered sample, and how many more there may be with all bytes in memory than with a tenth.
THIN_MOST, THIN_WORSE = 0.345, 0.006


def thin_scenario(seed, part, encoded, view=None, chunk=64):
    """thin.yaml with jobs on another part of the dataset, still .3 of their epochs apart. Memory is for a twentieth of
    that part prepared, and for `encoded` of it encoded."""
    text = scenario("thin", seed).replace("chunk: 64", f"chunk: {chunk}")
    memory = f"{{prepared: {0.05 * part:g}, encoded: {encoded * part:g}}}"
    text = text.replace("{prepared: 0.005, encoded: 0.1}", memory)
    for number in (1, 2, 3):
        text = text.replace(f"start: {number * 0.03:g},", f"start: {number * 0.3 * part:g},")
    return text.replace("{fraction: 0.1, seed: 7}", view or f"{{fraction: {part:g}, seed: 7}}")


def thin(seeds):
    """Jobs apart share as much on a few samples as on all of a dataset, and no less when more bytes are in memory:
    whether the samples lie anywhere or together, and in chunks of any size."""
    for seed in seeds:
        cases = [(part, None, 64) for part in (1, 0.5, 0.2, 0.1, 0.05)]
        cases += [(0.1, "{range: [4000, 6000]}", 64), (0.1, None, 16), (0.1, None, 256)]
        for part, view, chunk in cases:
            little, whole = runs([thin_scenario(seed, part, encoded, view, chunk) for encoded in (0.1, 1)])
            what = f"{view or part} of a dataset, chunks of {chunk}, seed {seed}"
            exactly_once(what, little)
            exactly_once(what, whole)
            most = min(THIN_MOST, little["prepared_per_delivered"] + THIN_WORSE)
            expect(f"{what}: prepared per delivered", whole["prepared_per_delivered"], 0, most)


def orders(text, epochs=40):
    """Of 20 epochs all that is measured stays within half of its limits; of more it is nearer to what it should be."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text.replace("samples: 20000", "samples: 6400").replace("epochs: 4", f"epochs: {epochs}"))
        file.flush()
        result = subprocess.run([LARDER_BENCH, "order", file.name], stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)["orders"]


def kept(memory, seed):
    return scenario("loading-25", seed).replace("encoded: 0.25", f"encoded: {memory}")


def as_a_full_shuffle(name, text, seed, epochs=40):
    for row in orders(text, epochs):
        what = f"{name}, order of {row['order']}, seed {seed}"
        expect(what + ": positions' chi-square over its degrees of freedom", row["position_chi_square"], 0.95, 1.05)
        expect(what + ": position against that in the epoch before", row["position_echo"], -0.03, 0.03)
        most = (0.9, 1.1) if row["order"] != "runs of sorted shards" else (1.5, 99)
        expect(what + ": classes' chi-square in a batch over that of a full shuffle", row["class_mix"], *most)
        if row["order"] != "full shuffle":  # a known order does not depend on what memory has
            expect(what + ": kept samples in each tenth, against all", row["kept_uneven"], 0, 0.03)


def order(seeds):
    """An order spreads samples over an epoch as a full shuffle does: no position is favoured at any width, none depends
    on the epoch before, and batches mix classes as drawn at random, runs of shards that were shuffled too; of shards
    that are sorted by class runs do not. Of two jobs half an epoch apart, which can share
    only as far as positions depend on each other, no more than that dependence is there."""
    for seed in seeds:
        # Memory of a tenth and of a half; with one seed the half, where more samples are kept.
        if len(seeds) > 1:
            as_a_full_shuffle("memory 0.1", scenario("loading-10", seed), seed)
        as_a_full_shuffle("memory 0.5", kept(0.5, seed), seed, 40 if len(seeds) > 1 else 20)
        for percent, most in ((25, 0.25), (10, 0.45)) if len(seeds) > 1 else ():
            for row in orders(pair(percent, seed, start=0.5)):
                if row["order"] in ("full shuffle", "redirect off", "width 32"):
                    what = (f"order of {row['order']}, two jobs half an epoch apart, {percent} %, job {row['job']}, "
                            f"seed {seed}")
                    echo = most if row["order"] == "width 32" else 0.03
                    expect(what + ": position against that in the epoch before", row["position_echo"], -echo, echo)
                    expect(what + ": classes' chi-square in a batch", row["class_mix"], 0.9, 1.1)


def odd_scenario(rng):
    """Jobs of every kind, in their own orders, chunks larger than memory, memory for almost nothing. With the budgets'
    samples, and those that the jobs look ahead."""
    samples = rng.choice([100, 1000, 5000])
    jobs, mixed = [], rng.random() < 0.3
    for number in range(rng.choice([1, 2, 5, 12])):
        parts = [f"rate: {rng.choice([1, 0.3, 0.77, 2.5])}", f"epochs: {rng.choice([1, 2, 4])}",
                 f"start: {rng.choice([0, 0, 0.3, 1.2])}", f"pipeline: {rng.choice('aabc')}"]
        if mixed:
            parts.append(f"shuffle: {rng.choice(['dependent', 'dependent', 'strict', 'none'])}")
        view = rng.randrange(4)
        if view == 0:
            parts.append(f"view: {{fraction: {rng.choice([0.05, 0.5, 0.9])}, seed: {number}}}")
        elif view == 1:
            first = rng.randrange(samples // 2)
            parts.append(f"view: {{range: [{first}, {rng.randrange(first + 1, samples + 1)}]}}")
        jobs.append("  - {" + ", ".join(parts) + "}\n")
    width = rng.choice(["", "", ", redirect: off", ", redirect: {width: 1}", ", redirect: {width: 7}",
                        ", redirect: {width: 300}"])
    shuffle = rng.choice(["dependent", "dependent", "dependent", "strict", "none"])
    prepared, encoded = rng.choice([0, 0.01, 0.2, 1]), rng.choice([0, 0.01, 0.1, 1])
    batch, prefetch = rng.choice([1, 1, 32]), rng.choice([1, 3])
    text = (f"samples: {samples}\nchunk: {rng.choice([1, 16, 64, 100, 1000])}\nseed: {rng.randrange(1000)}\n"
            f"memory: {{prepared: {prepared}, encoded: {encoded}}}\n"
            f"settings: {{shuffle: {shuffle}{width}, batch: {batch}, prefetch: {prefetch}}}\njobs:\n" + "".join(jobs))
    least = len(jobs) * batch * (prefetch + 2)
    return text, max(round(prepared * samples), least), round(encoded * samples) or least, least


def odd(seeds):
    """Random scenarios of any kind end, exactly once, within their budgets, with one preparation and one decode for
    each delivered sample or fewer. What a decode makes for another pipeline too takes room that is free, and waits
    there for its job: one that comes may push it out for its own look-ahead, no more."""
    for seed in seeds:
        rng = random.Random(seed)
        for text, prepared, encoded, ahead in [odd_scenario(rng) for _ in range(15)]:
            result = run(text)
            delivered = result["delivered"]
            exactly_once(f"odd, seed {seed}:\n{text}", result)
            several = len(set(re.findall("pipeline: .", text))) > 1
            expect(f"odd, seed {seed}: prepared", result["prepared"], 0, delivered + (ahead if several else 0))
            expect(f"odd, seed {seed}: decoded", result["decoded"], 0, delivered)
            expect(f"odd, seed {seed}: prepared memory", result["peak_prepared"], 1, prepared)
            expect(f"odd, seed {seed}: encoded memory", result["peak_encoded"], 1, encoded)


failures = []
LARDER_BENCH, part = sys.argv[1], sys.argv[2]
count = int(sys.argv[4]) if sys.argv[3:4] == ["--seeds"] else 2
PARTS = {"redirect": redirect, "off": off, "loading": loading, "parts": parts, "chunks": chunks, "fits": fits,
         "keeps": keeps, "known": known, "thin": thin, "order": order, "odd": odd}
PARTS[part](range(1, count + 1))
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
