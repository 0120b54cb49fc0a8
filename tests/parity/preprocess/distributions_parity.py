"""Proves that what preprocess/ draws is distributed as what torchvision draws: two-sample Kolmogorov-Smirnov tests.

usage: distributions_parity.py LIBRARY [DRAWS]

The statistic of each test is compared with its critical value at a significance of 1e-4 for each; with a fixed seed the
outcome is fixed. A draw that is wrong in form (an area not log-uniform, a position off by one) fails by far."""

import math
import sys

SKIPPED = 77
try:
    import numpy as np
    import torch
    import torchvision.transforms as T
    from PIL import Image
except ImportError as reason:
    print(f"skipped: {reason}; install python3-torchvision")
    sys.exit(SKIPPED)

from probe import Probe

DRAWS = int(sys.argv[2]) if len(sys.argv) > 2 else 12000
SEED = 7
SIGNIFICANCE = 1e-4


def statistic(a, b):
    """The greatest distance between two empirical distributions; ties are treated as one step."""
    points = np.unique(np.concatenate([a, b]))
    below_a = np.searchsorted(np.sort(a), points, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), points, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())


def critical(n, m):
    return math.sqrt(-math.log(SIGNIFICANCE / 2) / 2 * (n + m) / (n * m))


class Comparison:
    def __init__(self):
        self.failures = 0

    def check(self, what, ours, theirs):
        ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
        d, limit = statistic(ours, theirs), critical(len(ours), len(theirs))
        bad = d > limit
        self.failures += bad
        print(f"{'FAILED' if bad else 'ok':<7} {what:<60} D = {d:.4f}, critical {limit:.4f}")


def resized_crop(probe, comparison, seed):
    for (width, height), arguments in [((500, 375), {}), ((375, 500), {"scale": [0.3, 0.9], "ratio": [0.5, 2.0]}),
                                       ((900, 100), {}), ((33, 35), {"scale": [0.05, 1.0]})]:
        scale, ratio = arguments.get("scale", [0.08, 1.0]), arguments.get("ratio", [3 / 4, 4 / 3])
        pipeline = [{"random_resized_crop": {"size": 224, **arguments}}]
        plans = [probe.plan(pipeline, (seed, 1, i), width, height) for i in range(DRAWS)]
        ours = np.array([(p.y, p.x, p.height, p.width) for p in plans], float)
        image = Image.new("L", (width, height))
        theirs = np.array([T.RandomResizedCrop.get_params(image, scale, ratio) for _ in range(DRAWS)], float)
        name = f"random_resized_crop of {width}x{height}"
        for label, of in [("area", lambda r: r[:, 2] * r[:, 3]), ("ratio", lambda r: r[:, 3] / r[:, 2]),
                          ("place across", lambda r: r[:, 1]), ("place down", lambda r: r[:, 0]),
                          ("place across, of the room", lambda r: r[:, 1] / np.maximum(1, width - r[:, 3])),
                          ("area and place together", lambda r: r[:, 2] * r[:, 3] * (1 + r[:, 1]))]:
            comparison.check(f"{name}: {label}", of(ours), of(theirs))


def chances(probe, comparison, seed):
    for name, p in [("random_horizontal_flip", 0.5), ("random_vertical_flip", 0.1), ("random_grayscale", 0.3),
                    ("random_equalize", 0.9)]:
        plans = [
            probe.plan([{"center_crop": {"size": 8}}, {name: {"p": p}}], (seed, 2, i), 9, 9, op=1)
            for i in range(DRAWS)]
        theirs = (torch.rand(DRAWS) < p).numpy()
        comparison.check(f"{name}: done", [not p.skip for p in plans], theirs)
        together = [(not a.skip) == (not b.skip) for a, b in zip(plans, plans[1:])]
        comparison.check(f"{name}: the same twice running", together, theirs[:-1] == theirs[1:])


def random_crop(probe, comparison, seed):
    pipeline = [{"random_crop": {"size": 32, "padding": 4}}]
    plans = [probe.plan(pipeline, (seed, 3, i), 32, 32) for i in range(DRAWS)]
    theirs = np.array([T.RandomCrop.get_params(Image.new("L", (40, 40)), (32, 32)) for _ in range(DRAWS)])
    comparison.check("random_crop: place across", [p.x for p in plans], theirs[:, 1])
    comparison.check("random_crop: place down", [p.y for p in plans], theirs[:, 0])


def jitter(probe, comparison, seed):
    pipeline = [{"center_crop": {"size": 8}},
                {"color_jitter": {"brightness": 0.4, "contrast": [0.2, 1.4], "saturation": 3, "hue": 0.1}}]
    plans = [probe.plan(pipeline, (seed, 4, i), 9, 9, op=1) for i in range(DRAWS)]
    transform = T.ColorJitter(0.4, (0.2, 1.4), 3, 0.1)
    theirs = [
        T.ColorJitter.get_params(transform.brightness, transform.contrast, transform.saturation, transform.hue)
        for _ in range(DRAWS)]
    for part, name in enumerate(["brightness", "contrast", "saturation", "hue"]):
        comparison.check(f"color_jitter: {name}", [p.real[part] for p in plans], [t[part + 1] for t in theirs])
    number = np.array([1000, 100, 10, 1])
    comparison.check("color_jitter: order", [np.dot(p.choice[:4], number) for p in plans],
                     [np.dot(t[0].numpy(), number) for t in theirs])


def erasing(probe, comparison, seed):
    pipeline = [{"center_crop": {"size": [60, 90]}}, {"random_erasing": {"p": 1}}]
    plans = [probe.plan(pipeline, (seed, 5, i), 90, 60, op=1) for i in range(DRAWS)]
    image = torch.zeros(3, 60, 90)
    theirs = np.array([T.RandomErasing.get_params(image, (0.02, 0.33), (0.3, 3.3), [0])[:4] for _ in range(DRAWS)])
    theirs = theirs[theirs[:, 2] < 60]
    ours = np.array([(p.y, p.x, p.height, p.width) for p in plans if not p.skip])
    for column, name in enumerate(["place down", "place across", "height", "width"]):
        comparison.check(f"random_erasing: {name}", ours[:, column], theirs[:, column])


def angles(probe, comparison, seed):
    pipeline = [{"center_crop": {"size": 8}}, {"random_rotation": {"degrees": [-30, 50]}}]
    plans = [probe.plan(pipeline, (seed, 6, i), 9, 9, op=1) for i in range(DRAWS)]
    ours = [p.real[6] - 360 if p.real[6] > 180 else p.real[6] for p in plans]
    comparison.check("random_rotation: angle", ours, [T.RandomRotation.get_params([-30, 50]) for _ in range(DRAWS)])
    plans = [
        probe.plan([{"center_crop": {"size": 8}}, {"gaussian_blur": {"kernel_size": 3}}], (seed, 7, i), 9, 9, op=1)
        for i in range(DRAWS)]
    comparison.check("gaussian_blur: sigma", [p.real[0] for p in plans],
                     [T.GaussianBlur.get_params(0.1, 2.0) for _ in range(DRAWS)])
    plans = [
        probe.plan([{"center_crop": {"size": 8}}, "trivial_augment_wide"], (seed, 8, i), 9, 9, op=1)
        for i in range(DRAWS)]
    comparison.check("trivial_augment_wide: change", [p.choice[0] for p in plans], torch.randint(14, (DRAWS,)).numpy())


def moved(probe, comparison, seed):
    how = {"degrees": 40, "translate": [0.2, 0.4], "scale": [0.5, 1.5], "shear": [-9, 9, -5, 20]}
    pipeline = [{"exact_size": {"size": [60, 90]}}, {"random_affine": how}]
    plans = [probe.plan(pipeline, (seed, 9, i), 90, 60, op=1) for i in range(DRAWS)]
    theirs = [T.RandomAffine.get_params([-40, 40], [0.2, 0.4], [0.5, 1.5], [-9, 9, -5, 20], [90, 60])
              for _ in range(DRAWS)]
    flat = np.array([[angle, *move, scale, *shear] for angle, move, scale, shear in theirs])
    for column, name in enumerate(["angle", "move across", "move down", "scale", "shear across", "shear down"]):
        comparison.check(f"random_affine: {name}", [p.real[6 + column] for p in plans], flat[:, column])
    pipeline = [{"exact_size": {"size": [60, 90]}}, {"random_perspective": {"p": 1, "distortion_scale": 0.6}}]
    plans = [probe.plan(pipeline, (seed, 10, i), 90, 60, op=1) for i in range(DRAWS)]
    theirs = np.array([np.ravel(T.RandomPerspective.get_params(90, 60, 0.6)[1]) for _ in range(DRAWS)])
    for corner in range(8):
        comparison.check(f"random_perspective: number {corner}", [p.real[8 + corner] for p in plans], theirs[:, corner])


def mixed(probe, comparison, seed):
    for alpha in (0.2, 1, 3):
        pipeline = [{"exact_size": {"size": 20}}, {"aug_mix": {"alpha": alpha}}]
        plans = [probe.plan(pipeline, (seed, 11, i), 20, 20, op=1) for i in range(DRAWS)]
        both = torch._sample_dirichlet(torch.full((DRAWS, 2), float(alpha)))
        parts = torch._sample_dirichlet(torch.full((DRAWS, 3), float(alpha)))
        for name, place, theirs in (("share of the chains", 40, both[:, 1]), ("the first chain's", 32, parts[:, 0])):
            comparison.check(f"aug_mix, alpha {alpha}: {name}", [p.real[place] for p in plans], theirs.numpy())
    comparison.check("aug_mix: length of a chain", [list(p.choice[:4]).index(-2) for p in plans],
                     torch.randint(1, 4, (DRAWS,)).numpy())
    pipeline = [{"exact_size": {"size": 20}}, {"timm_rand_augment": {"num_ops": 1, "magnitude": 5, "mstd": 2,
                                                                     "transforms": "3a", "prob": 1}}]
    plans = [probe.plan(pipeline, (seed, 12, i), 20, 20, op=1) for i in range(DRAWS)]
    radii = [p.real[0] for p in plans if p.choice[0] & 0xff == 23]  # a blur, from 0.1 to 2
    theirs = 0.1 + 0.19 * np.clip(np.random.default_rng(seed).normal(5, 2, DRAWS), 0, 10)
    comparison.check("timm_rand_augment: magnitude", radii, theirs)


def main():
    torch.manual_seed(SEED)
    probe, comparison = Probe(sys.argv[1]), Comparison()
    for part in (resized_crop, chances, random_crop, jitter, erasing, angles, moved, mixed):
        part(probe, comparison, SEED)
    print(f"{comparison.failures} failures")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
