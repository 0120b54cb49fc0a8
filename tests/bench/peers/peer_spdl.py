"""SPDL: threads of one process, FFmpeg decodes. The crop, the size and the flip are one FFmpeg filter an image, which
is how SPDL takes transforms while it decodes; FFmpeg does them before it converts to RGB, on fewer bytes."""

import importlib.metadata
import math
import random

PACKAGES = ("spdl",)


def available():
    try:
        import spdl.dataloader
        import spdl.io.utils

        spdl.io.utils.get_ffmpeg_log_level()  # loads its libraries
    except (ImportError, RuntimeError, OSError, AttributeError) as reason:
        return None, str(reason).split("\n")[0]
    return f"spdl {importlib.metadata.version('spdl')}", None


def box_of(width, height):
    """RandomResizedCrop's rectangle: width, height, x, y."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return w, h, random.randint(0, width - w), random.randint(0, height - h)
    side = min(width, height)
    return side, side, (width - side) // 2, (height - side) // 2


def loader(spec):
    import job
    import numpy as np
    import spdl.dataloader
    import spdl.io

    files = job.files_of(spec.folder)
    order = list(range(len(files)))

    def source():
        random.shuffle(order)
        return iter(order)

    def decoded(index):
        packets = spdl.io.demux_image(files[index])
        w, h, x, y = box_of(packets.codec.width, packets.codec.height)
        flip = ",hflip" if random.random() < 0.5 else ""
        text = f"crop={w}:{h}:{x}:{y}:exact=1,scale={job.SIZE}:{job.SIZE}:flags=bilinear{flip},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=text), index

    def batch(parts):
        frames, indices = zip(*parts)
        return spdl.io.to_numpy(spdl.io.convert_frames(list(frames))), np.array(indices)

    def epoch():
        return iter(spdl.dataloader.DataLoader(source(), preprocessor=decoded, batch_size=job.BATCH, aggregator=batch,
                                               num_threads=spec.threads))

    return epoch
