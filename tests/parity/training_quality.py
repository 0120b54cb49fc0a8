"""Does a CNN train as well on Larder's order as on a full shuffle?

Two arms, the same network, hyper-parameters, initial weights and prepared pixels (32 x 32, no augmentation in the
pipeline; flips and shifts are drawn by the trainer from the seed alone):

  full    torch's own order: a fresh uniform permutation an epoch
  larder  the order that a real daemon delivered: shuffle `dependent` with redirection, while two more jobs of other
          speeds run on the same dataset, with encoded memory for a third of it, so that a read brings many samples of
          a chunk

One pair a seed; both arms see the same initial weights. The hypothesis that the arms have the same mean test accuracy
is tested two-sidedly by permutation of the signs of the paired differences; that they differ by no more than --margin
by TOST (two one-sided t tests) on the pairs. The report tells the power: the difference that the sign test would have
found with probability 0.8, from the pairs' spread.

  training_quality.py --bin BUILD/bin [--data cifar-small] [--seeds 12] [--epochs 8] [--nodes 1]

With --nodes so many daemons share as a cluster, with that memory all together, and each job is at another one. It
prints the orders' echo: how a sample's place in an epoch correlates with its place in the epoch before. Where homes
have hardly more memory for prepared samples than their own jobs are sure of, guests wait seconds for a request's
samples: --prepared-share .8 is enough for four nodes.

With --deal each training has a rank at each node, one training runs after another, and a step is on the batches of all
ranks together, as gradients that are averaged have it. The nodes must divide BATCH.

Without --data (or LARDER_CIFAR) images are generated: ten classes of coloured, noisy gratings. Exit 77: something is
missing. Exit 1: the arms differ at the 1 % level, or an epoch was not exactly once."""

import argparse
import json
import math
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
    import torch
    from PIL import Image
    from torch import nn
except ImportError as missing:
    print("skipped: needs NumPy, PyTorch and Pillow:", missing)
    sys.exit(77)

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
import larder  # noqa: E402

SIDE, CLASSES, BATCH, LOADED = 32, 10, 50, 25  # LOADED: a loader's batch
JOBS = 3  # that run at a time
PIPELINE = [{"resize": {"size": [2 * SIDE, 2 * SIDE]}}]  # each pixel four times, as in the files
CONFIG = """\
memory:
  arena: {arena}
  encoded: {encoded}
catalog:
  checkpoint: none
metrics:
  enabled: false
"""
CLUSTER = """\
cluster:
  name: quality
  node: node-{number}
  listen: {address}
  advertise: {address}
  nodes: [{nodes}]
  security: none
"""


def generate(folder, count, seed):
    """Ten classes that a small network can nearly, but not quite, tell apart."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    for index in range(count):
        label = index % CLASSES
        angle = math.pi * label / CLASSES + rng.normal(0, 0.12)
        wave = np.sin(2 * math.pi * (4 * (x * math.cos(angle) + y * math.sin(angle)) + rng.random()))
        pixels = 128 + 45 * wave[..., None] * rng.uniform(0.4, 1, 3) + rng.normal(0, 45, (SIDE, SIDE, 3))
        where = os.path.join(folder, f"class{label}")
        os.makedirs(where, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(os.path.join(where, f"{index:05}.jpg"), quality=92)


def split(source, folder, test_share, seed):
    """Copies the tree into train/ and test/, by a seeded draw in each class: as uncompressed PNG of twice the side, so
    that parts of a small dataset are more than the least that memory may have."""
    rng = np.random.default_rng(seed)
    size = 0
    for label in sorted(os.listdir(source)):
        names = sorted(os.listdir(os.path.join(source, label)))
        order = rng.permutation(len(names))
        for rank, at in enumerate(order):
            part = "test" if rank < test_share * len(names) else "train"
            where = os.path.join(folder, part, label)
            os.makedirs(where, exist_ok=True)
            path = os.path.join(where, os.path.splitext(names[at])[0] + ".png")
            with Image.open(os.path.join(source, label, names[at])) as image:
                image.convert("RGB").resize((2 * SIDE, 2 * SIDE), Image.NEAREST).save(path, compress_level=0)
            size += os.path.getsize(path) * (part == "train")
    return os.path.join(folder, "train"), os.path.join(folder, "test"), size


class Daemon:
    def __init__(self, folder, bin_folder, config):
        self.socket, path = os.path.join(folder, "s"), os.path.join(folder, "larder.yaml")
        with open(path, "w") as file:
            file.write(config)
        ready, far = os.pipe()
        self.bin, self.log = bin_folder, open(os.path.join(folder, "log"), "wb")
        self.process = subprocess.Popen(
            [os.path.join(bin_folder, "larderd"), "--config", path, "--socket", self.socket, "--ready-fd", str(far)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(far,))
        os.close(far)
        came, _, _ = select.select([ready], [], [], 30)
        if not came or not os.read(ready, 1):
            self.process.kill()
            raise SystemExit("larderd did not start: " + self.logged())

    def logged(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def status(self):
        command = [os.path.join(self.bin, "larder"), "status", "--json", "--socket", self.socket]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def addresses(count):
    """Free ports of 127.0.0.1."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return found


def start(daemons, folder, options, arena, encoded):
    """Adds the daemons, all of which have found each other."""
    nodes = addresses(options.nodes)
    for number, address in enumerate(nodes):
        home = os.path.join(folder, f"node-{number}")
        os.mkdir(home)
        config = CONFIG.format(arena=f"{arena}B", encoded=f"{encoded}B")
        if options.nodes > 1 and not options.deal:
            config += CLUSTER.format(number=number, address=address, nodes=", ".join(nodes))
        daemons.append(Daemon(home, options.bin, config))
    deadline = time.monotonic() + 60
    for daemon in daemons if options.nodes > 1 and not options.deal else ():
        while f"nodes={options.nodes}" not in daemon.logged():
            if time.monotonic() > deadline:
                raise SystemExit("the daemons did not find each other: " + daemon.logged())
            time.sleep(0.05)


def load_all(daemon, folder):
    """Every sample's pixels and label, as the daemon prepares them, by index."""
    with larder.Loader(folder, PIPELINE, LOADED, shuffle="none", epochs=1, output="numpy", with_ids=True,
                       socket=daemon.socket) as loader:
        parts = [(i, x, y) for x, y, i in loader]
    at = np.concatenate([p[0] for p in parts])
    pixels, labels = np.concatenate([p[1][:, ::2, ::2] for p in parts]), np.concatenate([p[2] for p in parts])
    back = np.argsort(at)
    return pixels[back], labels[back]


def larder_orders(daemons, folder, count, options):
    """An order for each seed: indices by epoch. JOBS jobs run at a time, each at a pace of its own and at the next
    daemon; their orders are all used, since each is a job beside two others."""
    epochs, runs = options.epochs, options.seeds
    orders, errors = [], []
    lock = threading.Lock()

    def job(number, pause_s):
        try:
            with larder.Loader(folder, PIPELINE, LOADED, epochs=epochs, output="numpy", with_ids=True,
                               socket=daemons[number % len(daemons)].socket, name=f"run-{number}",
                               prefetch=1) as loader:
                mine = []
                for _ in range(epochs):
                    epoch = []
                    for _, _, indices in loader:
                        epoch.append(indices)
                        time.sleep(pause_s)
                    mine.append(np.concatenate(epoch))
            with lock:
                orders.append(mine)
        except Exception as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    if options.deal:
        orders = [dealt_order(daemons, folder, options.first + number, options) for number in range(runs)]
    for first in range(0, 0 if options.deal else runs, JOBS):
        together(job, [(first + n, options.pace / 1000 * (1 + n)) for n in range(JOBS)])
    if errors:
        raise errors[0]
    for order in orders:
        for epoch in order:
            if not np.array_equal(np.sort(epoch), np.arange(count)):
                raise SystemExit("an epoch was not exactly once")
    return orders[:runs]


def together(function, calls):
    """Calls the function with each of the arguments, all at the same time, and waits for all."""
    threads = [threading.Thread(target=function, args=arguments) for arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dealt_order(daemons, folder, number, options):
    """The order of a training with a rank at each node: of each step the ranks' batches, one behind the other."""
    batches, errors = [None] * len(daemons), []

    def rank_of(rank):
        try:
            with larder.Loader(folder, PIPELINE, BATCH // len(daemons), epochs=options.epochs, output="numpy",
                               with_ids=True, socket=daemons[rank].socket, name=f"run-{number}", rank=rank, prefetch=1,
                               world_size=len(daemons), local_world_size=1, seed=number, deal=options.deal) as loader:
                batches[rank] = [[indices for _, _, indices in loader] for _ in range(options.epochs)]
        except Exception as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    together(rank_of, [(rank,) for rank in range(len(daemons))])
    if errors:
        raise errors[0]
    return [np.concatenate([part for step in zip(*epoch) for part in step]) for epoch in zip(*batches)]


def echo(order):
    """How a sample's place in an epoch correlates with that in the epoch before; 0 in a full shuffle."""
    places = [np.argsort(epoch) - (len(epoch) - 1) / 2 for epoch in order]
    return float(sum((a * b).sum() for a, b in zip(places, places[1:])) / sum((b * b).sum() for b in places[1:]))


def network():
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(block(3, 16), block(16, 32), block(32, 48), nn.Flatten(), nn.Linear(48 * 16, CLASSES))


def augment(batch, generator):
    flip = torch.rand(len(batch), generator=generator) < 0.5
    batch[flip] = batch[flip].flip(3)
    dy, dx = (int(v) for v in torch.randint(-3, 4, (2,), generator=generator))
    return torch.roll(batch, (dy, dx), (2, 3))


def train(pixels, labels, test_pixels, test_labels, orders, seed):
    """Test accuracy after training on the given order of each epoch."""
    torch.manual_seed(seed)
    model, generator = network(), torch.Generator().manual_seed(seed + 1)
    steps = sum(math.ceil(len(order) / BATCH) for order in orders)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    for order in orders:
        model.train()
        for first in range(0, len(order), BATCH):
            at = torch.from_numpy(order[first:first + BATCH].astype(np.int64))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(augment(pixels[at], generator)), labels[at]).backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        return float((model(test_pixels).argmax(1) == test_labels).float().mean())


def normal_quantile(p):
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < p else (low, middle)
    return low


def t_tail(t, df):
    """P(T > t), by numerical integration."""
    x = np.linspace(0, abs(t), 20001)
    factor = np.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    density = factor * (1 + x * x / df) ** (-(df + 1) / 2)
    inside = float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
    return 0.5 - inside if t > 0 else 0.5 + inside


def compare(full, other, margin):
    """Paired tests: sign permutation for a difference, TOST for none above the margin."""
    d = np.asarray(other) - np.asarray(full)
    n, mean = len(d), float(d.mean())
    if n <= 16:
        signs = 1 - 2 * ((np.arange(2 ** n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (200000, n))
    p_differ = float((np.abs(signs @ d) >= abs(d.sum()) - 1e-12).mean())
    error = float(d.std(ddof=1)) / math.sqrt(n)
    p_equal = max(t_tail((margin + mean) / error, n - 1), t_tail((margin - mean) / error, n - 1)) if error else 0.0
    found = (normal_quantile(0.975) + normal_quantile(0.8)) * error
    return {
        "mean_difference": mean, "standard_error": error, "p_two_sided": p_differ, "margin": margin, "p_tost": p_equal,
        "difference_found_with_power_0.8": found}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin")))
    parser.add_argument("--data", default=os.environ.get("LARDER_CIFAR"))
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=1, help="daemons that share as a cluster")
    parser.add_argument("--deal", choices=("epoch", "home"), help="trainings with a rank at each node, dealt so")
    parser.add_argument("--images", type=int, default=2000, help="how many to generate without --data")
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--encoded-share", type=float, default=0.35)
    parser.add_argument("--prepared-share", type=float, default=0.45)
    parser.add_argument("--pace", type=float, default=1, help="ms that the first job takes for a batch of its loader; "
                        "the others take 2 and 3 times that")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="write the report there too")
    return parser.parse_args()


def tell_shared(before, after, received):
    """What the daemons did for the orders."""
    def grew(section, name):
        return sum(row.get(section, {}).get(name, 0) for row in after) - sum(
            row.get(section, {}).get(name, 0) for row in before)
    print(f"the daemons prepared {grew('samples', 'prepared') / received:.3f} a sample and loaded "
          f"{grew('samples', 'loaded') / received:.3f}; {grew('cluster', 'received') / received:.3f} came from another "
          f"node", flush=True)


def report(options, folder):
    data = options.data
    if not data:
        data = os.path.join(folder, "generated")
        generate(data, options.images, 1)
    train_folder, test_folder, size = split(data, folder, 0.25, 1)
    prepared = 12 * SIDE * SIDE * sum(len(files) for _, _, files in os.walk(train_folder))
    encoded = max(int(size * options.encoded_share / options.nodes), 1 << 20)
    arena = max(int(prepared * options.prepared_share / options.nodes), 1 << 20)
    daemons = []
    try:
        start(daemons, folder, options, arena, encoded)
        pixels, labels = load_all(daemons[0], train_folder)
        test_pixels, test_labels = load_all(daemons[0], test_folder)
        began, before = time.monotonic(), [daemon.status() for daemon in daemons]
        orders = larder_orders(daemons, train_folder, len(labels), options)
        took_s, after = time.monotonic() - began, [daemon.status() for daemon in daemons]
    finally:
        for daemon in daemons:
            daemon.stop()
    print(f"{len(labels)} training and {len(test_labels)} test images, {options.nodes} nodes, encoded memory "
          f"{options.nodes * encoded} of {size} bytes, prepared {options.nodes * arena} of {prepared}; "
          f"{len(orders)} orders of {options.epochs} epochs in {took_s:.1f} s", flush=True)
    tell_shared(before, after, sum(len(epoch) for order in orders for epoch in order))
    if options.epochs > 1:
        echoes = [echo(order) for order in orders]
        print(f"echo of the orders: mean {np.mean(echoes):.3f}, least {min(echoes):.3f}, most {max(echoes):.3f}",
              flush=True)

    def tensor(array):
        return (torch.from_numpy(array).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    data = [tensor(pixels), torch.from_numpy(labels), tensor(test_pixels), torch.from_numpy(test_labels)]
    accuracies = {"full": [], "larder": []}
    for order, seed in zip(orders, range(options.first, options.first + options.seeds)):
        rng = np.random.default_rng(seed)
        shuffled = [rng.permutation(len(labels)) for _ in range(options.epochs)]
        accuracies["full"].append(train(*data, shuffled, seed))
        accuracies["larder"].append(train(*data, order, seed))
        print(f"seed {seed}: full {accuracies['full'][-1]:.4f} larder {accuracies['larder'][-1]:.4f}", flush=True)
    result = compare(accuracies["full"], accuracies["larder"], options.margin)
    result.update({
        arm: {"mean": float(np.mean(a)), "sd": float(np.std(a, ddof=1)), "accuracies": a}
        for arm, a in accuracies.items()})
    return result


def main():
    options = arguments()
    if options.seeds < 2:
        sys.exit("--seeds must be at least 2")
    if not os.access(os.path.join(options.bin, "larderd"), os.X_OK):
        print("skipped: no larderd in", options.bin)
        sys.exit(77)
    torch.set_num_threads(options.threads)
    folder = tempfile.mkdtemp(prefix="larder-quality-")
    try:
        result = report(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result, indent=2))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)
    sys.exit(1 if result["p_two_sided"] < 0.01 else 0)


if __name__ == "__main__":
    main()
