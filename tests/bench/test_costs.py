"""larder_bench sharing with costs: times add up, nothing beats the bound, and Seneca's rule does what its paper says.

    test_costs.py LARDER_BENCH PART

PART: times, bound, forms, split, ods, refused or scenarios. Everything is in virtual time, so each figure is the same
on every machine."""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import seneca  # noqa: E402

N = 2048  # samples of the scenarios made here: whole chunks
SCENARIOS = ("seneca-one", "seneca-four", "seneca-speeds", "seneca-twelve", "joader")


def scenario(jobs=("",), memory="prepared: 0.0625, encoded: 1", settings="", costs=None, epochs=3, train_s=1e-6):
    said = {"cores": 4, "decode_s": 0.001, "prepare_s": 0.0005, "encoded_bytes": 100000, "decoded": 5, "prepared": 5,
            "read": "[{bytes_s: 1.0e+12}]", **(costs or {})}
    rows = "".join(f"  - {{train_s: {train_s}, epochs: {epochs}{job}}}\n" for job in jobs)
    return (f"samples: {N}\nchunk: 64\nmemory: {{{memory}}}\nseed: 1\n"
            f"settings: {{shuffle: dependent, batch: 8, prefetch: 2{settings}}}\ncosts:\n" +
            "".join(f"  {key}: {value}\n" for key, value in said.items()) + f"jobs:\n{rows}")


def run(text, *options):
    return seneca.bench(LARDER_BENCH, text, *options)


def expect(what, value, low, high):
    good = low <= value <= high
    print(f"{'ok  ' if good else 'FAIL'} {what}: {value:.4f} in [{low:.4f}, {high:.4f}]", flush=True)
    if not good:
        failures.append(what)


def both(text):
    """By the engine, and by Seneca's rule."""
    yield "engine", run(text)
    yield "Seneca", run(text, "--seneca")


def times():
    """Where one thing alone takes long, the makespan is what that takes: training, the cores, the one medium, or the
    slower of two. CPU is what was decoded and prepared. A job waits for its start, and for its turn."""
    cases = {"training": (scenario(train_s=0.001), N * .003),
             "cores": (scenario(settings=", decoded: never"), N * 3 * .0015 / 4),
             "medium": (scenario(costs={"read": "[{bytes_s: 5.0e+7, file_s: 0.002}]"}, epochs=1), N * .004),
             "slower medium": (scenario(costs={"read": "[{part: 0.5}, {bytes_s: 2.5e+7}]"}, epochs=1), N / 2 * .004),
             "start": (scenario((", start: 5",), train_s=0.001), 5 + N * .003),
             "one at a time": (scenario(("", "", ""), costs={"at_once": 1}, train_s=0.001), N * .009)}
    for name, (text, takes_s) in cases.items():
        for rule, result in both(text):
            costs = result["costs"]
            what = f"{name}, {rule}"
            expect(f"{what}: makespan", costs["makespan_s"], takes_s * 0.9999, takes_s * 1.05)
            worked_s = costs["decodes"] * 0.001 + result["prepared"] * 0.0005
            expect(f"{what}: CPU", costs["cpu_s"], worked_s * 0.9999, worked_s * 1.0001)
            expect(f"{what}: hits", sum(costs["hits"].values()), 0.9999, 1.0001)
            expect(f"{what}: delivered", result["delivered"] % N, 0, 0)


def least(text, step=1e-4):
    """The bound of one job, by trying all parts that are decoded."""
    def said(key):
        return float(re.search(rf"\b{key}: ([0-9.e+-]+)", text)[1])
    n, epochs, ratio = said("samples"), said("epochs"), said("decoded") if "decoded: 5" in text else 0
    prepared, encoded = (float(part) for part in re.search(r"prepared: ([0-9.]+), encoded: ([0-9.]+)", text).groups())
    room = encoded + prepared * 5
    read, more = said("encoded_bytes") / said("bytes_s"), epochs - 1
    decode, prepare, train = said("decode_s") / said("cores"), said("prepare_s") / said("cores"), said("train_s")
    best = float("inf")
    for at in range(int(min(1, room / ratio) / step) + 1):
        d = at * step
        e = max(0, min(1 - d, room - ratio * d))
        again = more * (prepare + decode * (1 - d))
        later = max(read * more * (1 - e - d), train * more, again - min(1, room / 5) * (prepare + decode))
        best = min(best, max(max(read, decode + prepare, train) + later, decode + prepare + again))
    return n * best


def bound():
    """What is printed is the least over all parts that are decoded. No rule beats it in any scenario. One job and jobs
    in step come within a tenth of it, as the scenarios stand."""
    for memory in (0.25, 1, 2, 4):
        for medium in ("1.0e+8", "1.0e+9"):
            text = scenario(memory=f"prepared: 0.0625, encoded: {memory}", settings=", decoded: auto",
                            costs={"read": f"[{{bytes_s: {medium}}}]"}, epochs=5)
            costs = run(text)["costs"]
            expect(f"bound, memory {memory}, {medium}", costs["bound_s"] / least(text), 0.9995, 1.0001)
    for name in SCENARIOS:
        for rule, result in both(seneca.read(name)):
            expect(f"{name}, {rule}: makespan over the bound", result["costs"]["over_bound"], 1, 10)
    for name in ("seneca-one", "seneca-four"):
        costs = run(seneca.read(name))["costs"]
        expect(f"{name}: in step", costs["in_step"], 1, 1)
        expect(f"{name}: makespan over the bound", costs["over_bound"], 1, 1.1)


def forms():
    """Decoded forms save decodes where memory has room beside the files; all of them after the first epoch where all
    fit, but for the first preparations, which tell what a form takes. Where the files do not fit none is made."""
    for memory, least_hits, most_hits in ((0.5, 0, 0), (3, 0.3, 0.5), (5.5, 0.745, 0.7501)):
        text = scenario(memory=f"prepared: 0.0625, encoded: {memory}", settings=", decoded: auto", epochs=4)
        auto, never = run(text)["costs"], run(text.replace("auto", "never"))["costs"]
        expect(f"memory {memory}: from decoded forms", auto["hits"]["decoded"], least_hits, most_hits)
        expect(f"memory {memory}, never: from decoded forms", never["hits"]["decoded"], 0, 0)
        saved = never["cpu_s"] - auto["cpu_s"]
        expect(f"memory {memory}: CPU saved", saved - auto["hits"]["decoded"] * 4 * N * 0.001, -1e-3, 1e-3)


def model(text, split):
    """The rate of Seneca's model with a split, by a calculation of its own."""
    def said(key):
        return float(re.search(rf"\n  {key}: ([0-9.e+-]+)", text)[1])
    n = float(re.search("samples: ([0-9]+)", text)[1])
    slots, encoded = (float(number) for number in re.search(r"prepared: ([0-9.]+), encoded: ([0-9.]+)", text).groups())
    slots = max(round(slots * n), len(re.findall("train_s", text)) * 64)
    part = (round(encoded * n) + slots * said("prepared")) / 100
    train = sum(1 / float(value) for value in re.findall("train_s: ([0-9.e-]+)", text))
    whole = min(train, said("cores") / (said("decode_s") + said("prepare_s")))
    storage = min(whole, float(re.search(r"bytes_s: ([0-9.e+]+)", text)[1]) / said("encoded_bytes"))
    augmented = min(n, int(split[2] * part / said("prepared") + 1e-9))
    decoded = min(n - augmented, int(split[1] * part / said("decoded") + 1e-9))
    as_read = min(n - augmented - decoded, int(split[0] * part + 1e-9))
    rest = n - augmented - decoded - as_read
    from_decoded = min(train, said("cores") / said("prepare_s"))
    return (augmented * train + decoded * from_decoded + as_read * whole + rest * storage) / n


def split():
    """Seneca's split is the best of all by its model, which prefers other forms on other machines."""
    found = set()
    for machine in seneca.MACHINES:
        for cache_gb in seneca.CACHES_GB:
            text = seneca.on_machine(seneca.read("seneca-four"), machine, cache_gb)
            chosen = tuple(run(text, "--seneca")["split"].values())
            found.add(chosen)
            most = max(model(text, (100 - d - a, d, a)) for a in range(101) for d in range(101 - a))
            expect(f"{machine}, {cache_gb} GB, {chosen}: rate over the best", model(text, chosen) / most, 0.999999, 1)
    expect("different splits", len(found), 2, 6)


def ods():
    """Seneca's sampling hits as often as its paper says, 54 and 66 % with 20 and 40 % of the samples cached: there are
    no fewer hits. Where what was read in the background counts as read, there are at most 6 points fewer."""
    for part, paper in ((.2, .54), (.4, .66)):
        chosen, hits, unread = seneca.ods(LARDER_BENCH, part)
        expect(f"{part} cached, {chosen}: without a read", unread, paper - 0.06, paper)
        expect(f"{part} cached, {chosen}: hits", hits, paper, 1)


def refused():
    """A scenario that says what only others have is refused, with its place; so is a split that is none."""
    plain = "samples: 100\njobs:\n  - {epochs: 1}\n"
    text = scenario()
    cases = [(plain.replace("epochs: 1", "train_s: 1"), [], "`train_s` is for scenarios with `costs`"),
             (scenario((", rate: 0.5",)), [], "no `rate`"), (plain + "costs: {cores: 2}\n", [], "`train_s`"),
             (text.replace("cores: 4", "cores: 0"), [], "cores: must be"),
             (text.replace("cores", "kernels"), [], "kernels"),
             (text.replace("[{bytes_s", "[{part: 0.7}, {part: 0.7}, {bytes_s"), [], "more than all"),
             (plain, ["--seneca"], "needs `costs`"), (text, ["--seneca", "--split", "50,60,0"], "come to 100"),
             (scenario((", view: {fraction: 0.5}",)), ["--seneca"], "on all samples"), (text, ["--quick"], "usage")]
    for number, (bad, options, says) in enumerate(cases):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(bad)
            file.flush()
            result = subprocess.run([LARDER_BENCH, "sharing", file.name, *options], capture_output=True, text=True)
        told = says in result.stderr and result.returncode == 2 and not result.stdout
        expect(f"case {number}, {says!r}: told", told, 1, 1)
        if not told:
            print(result.returncode, result.stderr)


def scenarios():
    """Exactly once in Seneca's scenarios on every machine, and not slower than by its rule; but one job in the house is
    2 % slower, as it waits for the cores alone, which forms would relieve if they might take the room of files. Room
    that moves makes nothing slower by more than 1 %, and where storage decides and jobs differ much faster."""
    worse = {("seneca-one", "in-house", 115): 1.02, ("seneca-twelve", "Azure", 115): 0.8,
             ("seneca-twelve", "in-house", 115): 0.855}
    moves = {("seneca-twelve", "Azure", 115): 0.88, ("seneca-speeds", "Azure", 115): 0.95}
    for name in seneca.SCENARIOS:
        for machine in seneca.MACHINES:
            for cache_gb in seneca.CACHES_GB:
                text = seneca.on_machine(seneca.read(name), machine, cache_gb)
                result, rival = run(text), run(text, "--seneca")
                what = f"{name}, {machine}, {cache_gb} GB"
                for key in ("missing", "duplicates", "instance_repeats"):
                    expect(f"{what}: {key}", result[key], 0, 0)
                fixed = run(text.replace("decoded: auto", "decoded: auto, split: never"))["costs"]["makespan_s"]
                expect(f"{what}: over a fixed split", result["costs"]["makespan_s"] / fixed, 0,
                       moves.get((name, machine, cache_gb), 1.01))
                ratio = result["costs"]["makespan_s"] / rival["costs"]["makespan_s"]
                expect(f"{what}: over Seneca", ratio, 0, worse.get((name, machine, cache_gb), 1))
                expect(f"{what}: over the bound", result["costs"]["over_bound"], 1, 2)


failures = []
LARDER_BENCH, part = sys.argv[1], sys.argv[2]
PARTS = {"times": times, "bound": bound, "forms": forms, "split": split, "ods": ods, "refused": refused,
         "scenarios": scenarios}
PARTS[part]()
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
