"""A list of images with their boxes, of COCO's instances_*.json. See larder.index."""

import json
import math
import os
from typing import NamedTuple

from ._places import Fail
from .errors import InvalidArgument

_KEYS = ("boxes", "labels", "area", "iscrowd", "masks")


class _Annotation(NamedTuple):
    """What is kept of an annotation, which is little of it without masks: polygons are most of such a file."""
    image_id: int
    bbox: list
    category_id: int
    area: float
    iscrowd: int
    mask: str  # its segmentation, in JSON


def _kept(found, masks):
    """What stands for an object of the file as soon as it is read, so that polygons need no memory, or little."""
    if "image_id" not in found or "category_id" not in found:
        return found
    mask = json.dumps(found.get("segmentation") or [], separators=(",", ":")) if masks else None
    return _Annotation(found["image_id"], found.get("bbox"), found["category_id"], found.get("area", 0),
                       found.get("iscrowd", 0), mask)


def is_coco(paths):
    """Told by its beginning: an object with one of COCO's own names."""
    if len(paths) != 1 or not paths[0].lower().endswith(".json") or not os.path.isfile(paths[0]):
        return False
    with open(paths[0], "rb") as file:
        start = file.read(4096).lstrip()
    return start.startswith(b"{") and any(b'"%s"' % name in start for name in
                                          (b"images", b"annotations", b"categories", b"licenses", b"info"))


def rows(path, folder, masks=False):
    """A row for each image, in the file's order, with the boxes of its annotations in theirs."""
    folder = _folder(path, folder)
    with open(path, encoding="utf-8") as file:
        try:
            whole = json.load(file, object_hook=lambda found: _kept(found, masks))
        except (ValueError, RecursionError) as why:
            raise Fail(f"{path} is no JSON: {why}") from None
    if not isinstance(whole, dict) or not all(isinstance(whole.get(name), list) for name in ("images", "annotations")):
        raise Fail(f"{path} is not COCO's: it has no lists called images and annotations")
    images = _images(path, whole["images"])
    known = _categories(path, whole.get("categories"))
    for place, one in enumerate(whole["annotations"]):
        if not isinstance(one, _Annotation):
            raise Fail(f"{path}: annotation {place} lacks image_id or category_id")
        images[_known(path, place, "image", one.image_id, images)].append(_row(path, place, one, known))
    for image in whole["images"]:
        boxes = images[image["id"]]
        row = {"image": os.path.join(folder, image["file_name"]), "image_id": image["id"],
               **{key: [box[i] for box in boxes] for i, key in enumerate(_KEYS)}}
        row["masks"] = list(map(json.loads, row["masks"])) if masks else None
        yield row if masks else {key: value for key, value in row.items() if key != "masks"}


def _images(path, images):
    """A list for the boxes of each image, by the images' ids."""
    of_image = {}
    for place, image in enumerate(images):
        if not isinstance(image, dict) or not isinstance(image.get("file_name"), str) or "id" not in image:
            raise Fail(f"{path}: image {place} lacks file_name or id")
        if not isinstance(image["id"], (int, str)) or image["id"] in of_image:
            raise Fail(f"{path}: image {place} has the id {image['id']!r}, which is another one's or no number")
        of_image[image["id"]] = []
    return of_image


def _categories(path, categories):
    """The ids that annotations may have; None: the file does not say."""
    if not categories:
        return None
    if not isinstance(categories, list) or not all(isinstance(one, dict) and "id" in one for one in categories):
        raise Fail(f"{path}: its categories are no list of objects with an id")
    return {one["id"] for one in categories}


def _known(path, place, what, number, among):
    """The id, if there is such an image or category."""
    if isinstance(number, (int, str)) and (among is None or number in among):
        return number
    raise Fail(f"{path}: annotation {place} is of {what} {number!r}, and the file has no such {what}: add that, or "
               "leave the annotation out")


def _row(path, place, one, categories):
    numbers = one.bbox if isinstance(one.bbox, list) else []
    if len(numbers) != 4 or not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise Fail(f"{path}: annotation {place} has no bbox of 4 numbers")
    x, y, width, height = numbers
    if width < 0 or height < 0:
        raise Fail(f"{path}: annotation {place} has a bbox that is {width} wide and {height} high: a bbox is "
                   "[left, top, width, height]")
    return [x, y, x + width, y + height], _known(path, place, "category", one.category_id, categories), one.area, \
        one.iscrowd, one.mask


def _folder(path, folder):
    """Where the images are: instances_train2017.json has them in train2017, beside it or beside its folder."""
    if folder is not None:
        return os.path.abspath(os.path.expanduser(os.fspath(folder)))
    name = os.path.splitext(os.path.basename(path))[0].partition("_")[2]
    here = os.path.dirname(path)
    for place in (os.path.join(here, name), os.path.join(os.path.dirname(here), name)):
        if name and os.path.isdir(place):
            return place
    raise InvalidArgument(f"{path}: the folder of its images is not beside it: give it as image=\"/data/train2017\"")
