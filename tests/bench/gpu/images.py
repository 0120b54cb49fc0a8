"""A dataset of JPEGs with ImageNet's sizes, made here: half of them are 500 pixels wide or high, as there, the others
from 100 to 2,000; 110 kB in the median. Each class has a colour and a coarse pattern of its own under noise, so that a
model learns something."""

import concurrent.futures
import os

import numpy as np
from PIL import Image

CLASSES = 20
# (width, height, how many of 100), about as ILSVRC2012's training images have them; the rest is drawn.
SIZES = ((500, 375, 36), (375, 500, 9), (500, 333, 10), (333, 500, 4), (500, 334, 3), (500, 500, 3), (400, 300, 2))


def size_of(random):
    at = random.integers(100)
    for width, height, share in SIZES:
        at -= share
        if at < 0:
            return width, height
    width = int(np.clip(random.lognormal(np.log(450), .6), 100, 2000))
    return width, int(np.clip(width * random.uniform(.6, 1.5), 100, 2000))


def picture(number, seed):
    """Class number, and an image of that class."""
    random = np.random.default_rng([seed, number])
    label = number % CLASSES
    own = np.random.default_rng([seed, 2**31 + label])
    pattern = own.integers(60, 196, (4, 4, 3))
    coarse = pattern + random.integers(-40, 41, (4, 4, 3))
    width, height = size_of(random)
    smooth = Image.fromarray(coarse.clip(0, 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    middle = Image.fromarray(random.integers(0, 256, (max(1, height // 6), max(1, width // 6), 3), np.uint8))
    middle = np.asarray(middle.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    fine = random.normal(0, 9, (height, width, 1)).astype(np.float32)
    mixed = np.asarray(smooth, np.float32) * .75 + middle * .25 + fine
    return label, Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def write(folder, number, seed):
    label, image = picture(number, seed)
    image.save(os.path.join(folder, f"class-{label:02}", f"{number:06}.jpg"), quality=94)


def make(folder, count, processes, seed=1):
    """Writes so many images, unless they are there."""
    done = os.path.join(folder, f".made-{count}")
    if os.path.exists(done):
        return
    for label in range(CLASSES):
        os.makedirs(os.path.join(folder, f"class-{label:02}"), exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        list(pool.map(write, [folder] * count, range(count), [seed] * count, chunksize=16))
    with open(done, "w", encoding="ascii"):
        pass
