"""The pictures of the parity tests: made here, in every form an image file comes in; photographs too when
LARDER_TEST_IMAGES names a folder."""

import io
import os
import pathlib

import numpy as np
import PIL
import PIL.Image


def picture(width, height, seed):
    """Smooth in parts and busy in others."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    wave = 127.5 + 100 * np.sin(0.05 * x[..., None] + np.arange(3)) * np.cos(0.04 * y[..., None] + 0.7 * np.arange(3))
    busy = ((x // 16) ^ (y // 24)) & 1
    noise = np.where(busy[..., None], rng.integers(-60, 60, (height, width, 3)),
                     rng.integers(-2, 3, (height, width, 3)))
    return PIL.Image.fromarray(np.clip(wave + noise, 0, 255).astype(np.uint8))


def encode(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pillow(data):
    return PIL.Image.open(io.BytesIO(data)).convert("RGB")


def resized(image, size, mode):
    """A resize to (width, height) as Pillow does it since version 13: columns go first where the height shrinks by more
    than twice as many pixels as the width. An older one is asked for one side after the other, which is the same."""
    rows_less, columns_less = image.height - size[1], image.width - size[0]
    if int(PIL.__version__.split(".")[0]) < 13 and rows_less > max(0, 2 * columns_less):
        image = image.resize((image.width, size[1]), mode)
    return image.resize(size, mode)


def odd_files():
    """(name, bytes) of every form of image file that Pillow writes and reads."""
    for index, (width, height) in enumerate([(1, 1), (1, 300), (300, 1), (17, 31), (160, 120), (255, 257), (640, 427)]):
        rgb = picture(width, height, index)
        for sampling in (0, 1, 2):
            yield f"jpeg {width}x{height} sampling {sampling}", encode(rgb, "JPEG", quality=88, subsampling=sampling)
            data = encode(rgb, "JPEG", quality=80, subsampling=sampling, progressive=True)
            yield f"progressive {width}x{height} sampling {sampling}", data
        yield f"grey jpeg {width}x{height}", encode(rgb.convert("L"), "JPEG")
        yield f"cmyk jpeg {width}x{height}", encode(rgb.convert("CMYK"), "JPEG")
        alpha = rgb.copy()
        alpha.putalpha(rgb.convert("L"))
        yield f"png {width}x{height}", encode(rgb, "PNG")
        yield f"png alpha {width}x{height}", encode(alpha, "PNG")
        yield f"png grey {width}x{height}", encode(rgb.convert("L"), "PNG")
        yield f"png grey alpha {width}x{height}", encode(alpha.convert("LA"), "PNG")
        yield f"png palette {width}x{height}", encode(rgb.quantize(200), "PNG")
        yield f"png 4 colours {width}x{height}", encode(rgb.quantize(4), "PNG")
        yield f"png bits {width}x{height}", encode(rgb.convert("1"), "PNG")
        yield f"webp {width}x{height}", encode(rgb, "WEBP", quality=80)
        yield f"webp lossless alpha {width}x{height}", encode(alpha, "WEBP", lossless=True, exact=True)
        yield f"tiff {width}x{height}", encode(rgb, "TIFF")
        yield f"tiff lzw {width}x{height}", encode(rgb, "TIFF", compression="tiff_lzw")
        yield f"tiff cmyk {width}x{height}", encode(rgb.convert("CMYK"), "TIFF")
        yield f"tiff palette {width}x{height}", encode(rgb.quantize(100), "TIFF")
        for mode in ("RGB", "L", "1", "P"):
            other = rgb.quantize(100) if mode == "P" else rgb.convert(mode)
            yield f"bmp {mode} {width}x{height}", encode(other, "BMP")
            if mode != "P":
                yield f"pnm {mode} {width}x{height}", encode(other, "PPM")
        dim = np.asarray(rgb.convert("L")) // 3
        yield f"pnm to 85 {width}x{height}", b"P5\n# made here\n%d %d\n85\n" % (width, height) + dim.tobytes()
        wide = np.asarray(rgb).astype(">u2") * 257
        yield f"pnm 16 {width}x{height}", b"P6 %d %d 65535\n" % (width, height) + wide.tobytes()
        yield f"gif {width}x{height}", encode(rgb.quantize(64), "GIF")
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    yield "jpeg, turned by EXIF", encode(picture(90, 60, 9), "JPEG", exif=exif)


def photographs():
    folder = os.environ.get("LARDER_TEST_IMAGES")
    files = sorted(p for p in pathlib.Path(folder).rglob("*")
                   if p.suffix.lower() in (".jpg", ".jpeg", ".png")) if folder else []
    return [(str(path), path.read_bytes()) for path in files]
