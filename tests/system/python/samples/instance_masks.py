"""Masks of instances as COCO has them, made from a seed, and what they are in pixels: a reference of its own, which
goes along each polygon step by step as pycocotools does."""

import numpy as np


def walk(polygon):
    """The points of a closed polygon's outline in fifths of a pixel, as pycocotools rounds them."""
    corners = [int(5 * number + .5) for number in polygon]
    corners = list(zip(corners[::2], corners[1::2]))
    points = []
    for (x, y), (to_x, to_y) in zip(corners, corners[1:] + corners[:1]):
        wide, high = abs(to_x - x), abs(to_y - y)
        back = x > to_x if wide >= high else y > to_y
        if back:
            x, y, to_x, to_y = to_x, to_y, x, y
        if wide >= high:
            slope = (to_y - y) / wide if wide else 0.0
            edge = [(x + step, int(y + slope * step + .5)) for step in range(wide + 1)]
        else:
            slope = (to_x - x) / high
            edge = [(int(x + slope * step + .5), y + step) for step in range(high + 1)]
        points += edge[::-1] if back else edge
    return points


def of_polygon(polygon, height, width):
    """A mask (H, W): column by column, it changes wherever the outline passes the middle of the column."""
    changes = np.zeros(height * width + 1, np.int64)
    points = walk(polygon)
    for (x, y), (next_x, next_y) in zip(points, points[1:]):
        column = (min(x, next_x) if abs(x - next_x) == 1 else next_x if next_x < x else next_x - 1) - 2
        if x != next_x and column % 5 == 0 and 0 <= column // 5 < width:
            row = min(max(-(-(min(y, next_y) - 2) // 5), 0), height)
            changes[column // 5 * height + row] += 1
    return (np.cumsum(changes[:-1]) % 2).reshape(width, height).T.astype(np.uint8)


def of_runs(counts, height, width):
    return np.repeat(np.arange(len(counts)) % 2, counts).reshape(width, height).T.astype(np.uint8)


def text_of(counts):
    """Counts as pycocotools writes them in a text."""
    text = ""
    for place, count in enumerate(counts):
        number = count - counts[place - 2] if place > 2 else count
        while True:
            bits, number = number & 31, number >> 5
            last = number == (-1 if bits & 16 else 0)
            text += chr(48 + bits + (0 if last else 32))
            if last:
                break
    return text


def polygon(rng, height, width):
    """One that mostly lies within an image, of corners that are whole, of tenths, or anything."""
    corners = rng.uniform((-.2 * width, -.2 * height), (1.2 * width, 1.2 * height), (rng.integers(3, 9), 2))
    digits = rng.integers(0, 4)
    return (corners.round(digits) if digits < 3 else corners).ravel().tolist()


def instance(rng, height, width):
    """A value of a list, and the mask that it is."""
    kind = rng.integers(0, 4)
    if kind == 0:  # no pixel, or runs of all lengths, 0 too
        edges = np.sort(rng.integers(0, height * width + 1, rng.integers(0, 12)))
        counts = np.diff(np.concatenate([[0], edges, [height * width]])).tolist()
        stored = counts if rng.integers(0, 2) else text_of(counts)
        return {"size": [height, width], "counts": stored}, of_runs(counts, height, width)
    polygons = [polygon(rng, height, width) for _ in range(rng.integers(0 if kind == 1 else 1, 4))]
    whole = np.zeros((height, width), np.uint8)
    for one in polygons:
        whole |= of_polygon(one, height, width)
    return polygons, whole


def by_pycocotools(value, height, width):
    """The same by pycocotools. ImportError: it is not there."""
    from pycocotools import mask
    if isinstance(value, dict):
        value = {**value, "counts": value["counts"].encode()} if isinstance(value["counts"], str) else \
            mask.frPyObjects(value, height, width)
        return mask.decode(value)
    if not value:  # which pycocotools does not take
        return np.zeros((height, width), np.uint8)
    return mask.decode(mask.merge(mask.frPyObjects(value, height, width)))
