"""Proves: of every form of image file the library gives Pillow's pixels, of the whole and of a part, or refuses the
sample with a reason; and it refuses no other forms than docs/internals/preprocess.md says.

usage: forms_parity.py LIBRARY"""

import io
import math
import re
import sys
import warnings

SKIPPED = 77
try:
    import numpy as np
    import PIL.Image
except ImportError as reason:
    print(f"skipped: {reason}; install python3-pil and python3-numpy")
    sys.exit(SKIPPED)

from forms import HEIGHT, WIDTH, forms
from pictures import pillow
from probe import Bad, Probe

# What Pillow reads and the library refuses.
REFUSED = [
    # TIFF: rare colours, depths and bands behind the colours
    r"tiff [IM] photometric (0 bits 16|1 bits 12|6|8) .*", r"tiff [IM] photometric 0 f32 .*",
    r"tiff [IM] photometric 1 i8 .*", r"tiff [IM] photometric 2 bits \d+ bands 4 extra \(1,\)",
    r"tiff [IM] photometric [13] bits 8 bands 2 extra .*", r"tiff [IM] photometric 5 bits 8 bands [56] extra .*",
    r"tiff M (photometric )?5 (bits |u)16 .*", r"tiff M 1 [if]\d+ 1 (tiled )?packed",
    # TIFF: layouts
    r"tiff webp .*", r"tiff planes (alpha \d|cmyk|16)", r"tiff bits backwards (1 8|1 16|rgb)",
    r"tiff [IM] [013] u[14] 1 tiled.*", r"tiff palette small.*", r"tiff without photometric.*",
    r"tiff .*YCbCr", r"tiff ycbcr .*", r"tiff cmyk inks",
    r"tiff with a strip too (many|few)",
    # TIFF: orientations
    r"tiff orientation as BYTE", r"tiff orientations, two", r"tiff with XMP b'<(x )?tiff.*",
    # the others
    r"bmp 16 .*", r"bmp \d+ info (52|56).*", r"bmp (24|32) info \d+ masks .*", r"bmp rle\d", r"bmp 2 .*",
    r"bmp [48] (few|black|white|offset).*", r"bmp 1 offset.*", r"pnm P[1-3]", r"pnm b'P[fF]' .*", r"pnm CMYK",
    r"gif (of a part|aside).*",
]
# Of these, Pillow made other pixels before that version.
NEWER = {"png short palette": 12}


def theirs_of(data):
    try:
        return np.asarray(pillow(data))
    except Exception:
        return None


def ours_of(probe, size, data):
    try:
        return probe.prepare([{"center_crop": {"size": size}}], data)
    except Bad as bad:
        return bad


def part(probe, number, image, data):
    """A part, and where it lies."""
    size = [max(1, image.shape[0] * (1 + number % 3) // 4), max(1, image.shape[1] * (3 - number % 3) // 4)]
    pipeline, key = [{"random_crop": {"size": size}}], (11, number, 0)
    plan = probe.plan(pipeline, key, image.shape[1], image.shape[0])
    return probe.prepare(pipeline, data, key), image[plan.y:plan.y + size[0], plan.x:plan.x + size[1]]


def check(probe, number, name, data):
    """What is wrong, or nothing; and whether the library reads it."""
    theirs = theirs_of(data)
    ours = ours_of(probe, [HEIGHT, WIDTH] if theirs is None else list(theirs.shape[:2]), data)
    if isinstance(ours, Bad):
        if not str(ours):
            return "it is refused without a reason", False
        if theirs is not None and not any(re.fullmatch(form, name) for form in REFUSED):
            return f"Pillow reads it, and the library does not: {ours}", False
        return None, False
    if int(PIL.__version__.split(".")[0]) < NEWER.get(name, 0):
        return None, True
    if theirs is None:
        return "the library reads it, and Pillow does not", True
    if not np.array_equal(ours, theirs):
        return f"it differs by {np.abs(ours.astype(int) - theirs).max()}", True
    mine, other = part(probe, number, theirs, data)
    return (None if np.array_equal(mine, other) else "a part differs"), True


def limit(probe):
    """Proves: as many pixels as Pillow allows are read, and no more."""
    failures, crop = [], [{"random_crop": {"size": [2, 2]}}]
    most = 2 * PIL.Image.MAX_IMAGE_PIXELS
    side = math.isqrt(most)
    for wide, allowed in ((side, True), (side + 1, side * (side + 1) <= most), (side + 2, False)):
        data = b"P4 %d %d\n" % (wide, side) + bytes((wide + 7) // 8 * side)
        try:
            PIL.Image.open(io.BytesIO(data))
            theirs = True
        except PIL.Image.DecompressionBombError:
            theirs = False
        try:
            probe.prepare(crop, data)
            ours = True
        except Bad:
            ours = False
        if not theirs == ours == allowed:
            failures.append(f"{wide} × {side} pixels: Pillow {theirs}, the library {ours}")
    return failures


def main():
    warnings.simplefilter("ignore")  # Pillow's, of broken files
    probe, counts = Probe(sys.argv[1], 2 * PIL.Image.MAX_IMAGE_PIXELS), {}
    failures = limit(probe)
    for number, (name, data) in enumerate(forms()):
        failure, read = check(probe, number, name, data)
        count = counts.setdefault(name.split()[0], [0, 0])
        count[not read] += 1
        if failure:
            failures.append(f"{name}: {failure}")
    for kind, (read, refused) in counts.items():
        print(f"{kind:<6} {read:>4} read, {refused:>4} refused")
        if not read:
            failures.append(f"{kind}: nothing is read")
    for line in failures[:60]:
        print("FAILED", line)
    print(f"Pillow {PIL.__version__}: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
