"""Image files in forms that few programs write, made here from their bytes: TIFF, PNG, BMP, PNM and GIF of every kind
of colour, depth, number of bands and orientation, and JPEG of every colour space."""

import itertools
import struct
import zlib

import numpy as np

from pictures import encode, picture

WIDTH, HEIGHT = 37, 21
RGB = picture(WIDTH, HEIGHT, 5)
SHORT, LONG, BYTE = 3, 4, 1


def random_values(bands, bits, seed=1):
    """HEIGHT × WIDTH × bands random whole numbers."""
    return np.random.default_rng(seed).integers(0, 1 << bits, (HEIGHT, WIDTH, bands), dtype=np.uint64)


def pack_rows(values, bits):
    """Whole numbers as bits, the highest first, rows filled up to bytes."""
    rows = values.reshape(values.shape[0], -1)
    ones = (rows[..., None] >> np.arange(bits - 1, -1, -1, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(ones.reshape(len(rows), -1).astype(np.uint8), axis=1).tobytes()


def samples(values, bits, order):
    if bits in (1, 2, 4, 12):
        return pack_rows(values, bits)
    return values.astype(f"{order}u{bits // 8}").tobytes()


def tiff(data, photometric, bits, bands=1, order="<", tags=(), strips=None, big=False, width=WIDTH, height=HEIGHT):
    """A TIFF of one directory. data: bytes, or a list of them, one a strip or tile; tags: (tag, type, values) more, or
    instead of the usual ones; values None leaves the tag out."""
    pieces = data if isinstance(data, list) else [data]
    entries = {256: (LONG, [width]), 257: (LONG, [height]), 258: (SHORT, [bits] * bands), 259: (SHORT, [1]),
               262: (SHORT, [photometric]), 277: (SHORT, [bands]), 278: (LONG, [strips or height])}
    entries[273], entries[279] = (LONG, None), (LONG, [len(piece) for piece in pieces])
    for tag, kind, values in tags:
        entries[tag] = (kind, values)
        if values is None:
            del entries[tag]
    places, counts = (324, 325) if 322 in entries else (273, 279)
    if places == 324:
        entries[325] = entries.pop(279)
        entries[324] = entries.pop(273)
    head = 16 if big else 8
    place_form, entry_bytes = ("Q", 20) if big else ("I", 12)
    directory_bytes = (8 if big else 2) + len(entries) * entry_bytes + (8 if big else 4)
    extra, at = b"", head + directory_bytes
    offsets = []
    for piece in pieces:
        offsets.append(at + len(extra))
        extra += piece + b"\0" * (len(piece) % 2)
    entries[places] = (LONG, offsets)
    out = struct.pack(order + ("Q" if big else "H"), len(entries))
    for tag, (kind, values) in sorted(entries.items()):
        code = {BYTE: "B", 2: "c", SHORT: "H", LONG: "I", 7: "B", 12: "d"}[kind]
        packed = struct.pack(f"{order}{len(values)}{code}", *values)
        room = 8 if big else 4
        out += struct.pack(f"{order}HH{place_form}", tag, kind, len(values))
        if len(packed) <= room:
            out += packed.ljust(room, b"\0")
        else:
            out += struct.pack(order + place_form, at + len(extra))
            extra += packed + b"\0" * (len(packed) % 2)
    out += struct.pack(order + place_form, 0)
    start = {"<": b"II", ">": b"MM"}[order]
    start += struct.pack(order + ("HHHQ" if big else "HI"), *((43, 8, 0, head) if big else (42, head)))
    return start + out + extra


EXTRA, FORMAT, FILL, PLANAR, ORIENTATION, COLORMAP = 338, 339, 266, 284, 274, 320


def tiff_depths():
    """Every photometric interpretation with every depth and number of bands, in both orders of bytes."""
    for order in "<>":
        for photometric, bits, bands in itertools.product((0, 1, 2, 3, 5, 6, 8, 9, 32844), (1, 2, 4, 8, 12, 16, 32),
                                                          (1, 2, 3, 4, 5, 6)):
            color = {2: 3, 6: 3, 8: 3, 9: 3, 5: 4}.get(photometric, 1)
            if bands < color or bits < 8 and bands > 1 or bands > color + 2:
                continue
            data = samples(random_values(bands, bits), bits, order)
            base = []
            if photometric == 3:
                base.append((COLORMAP, SHORT, list(np.random.default_rng(2).integers(0, 65536, 3 << min(bits, 8)))))
            for extra in ((0,), (1,), (2,), None) if bands == color + 1 else ((0, 0), (2, 0), None):
                tags = list(base)
                if bands > color and extra:
                    tags.append((EXTRA, SHORT, list(extra)))
                name = f"tiff {'IM'['<>'.index(order)]} photometric {photometric} bits {bits} bands {bands}"
                yield (f"{name} extra {extra if bands > color else ''}",
                       tiff(data, photometric, bits, bands, order, tags))
                if bands == color:
                    break


def tiff_numbers():
    """Signed numbers and floating point."""
    rng = np.random.default_rng(3)
    for order, photometric, bands in itertools.product("<>", (0, 1, 2), (1, 3)):
        if (photometric == 2) != (bands == 3):
            continue
        for kind, bits in (("i", 8), ("i", 16), ("i", 32), ("f", 16), ("f", 32), ("f", 64)):
            values = rng.uniform(-40, 300, (HEIGHT, WIDTH, bands)).astype(f"{order}{kind}{bits // 8}" if bits > 8 else
                                                                          "i1")
            tags = [(FORMAT, SHORT, [2 if kind == "i" else 3] * bands)]
            yield (f"tiff {'IM'['<>'.index(order)]} photometric {photometric} {kind}{bits} bands {bands}",
                   tiff(values.tobytes(), photometric, bits, bands, order, tags))


def tiff_layouts():
    """Strips, tiles, planes, orders of bits, orientations, compressions."""
    rgb = np.asarray(RGB)
    for orientation in range(0, 10):
        tags = [(ORIENTATION, SHORT, [orientation])]
        yield f"tiff orientation {orientation}", tiff(rgb.tobytes(), 2, 8, 3, tags=tags)
        yield f"tiff orientation {orientation} grey", tiff(rgb[..., 0].tobytes(), 1, 8, 1, ">", tags)
        if orientation not in range(1, 9):
            continue
        for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
            yield (f"tiff orientation {orientation} {compression}",
                   encode(RGB, "TIFF", compression=compression, tiffinfo={ORIENTATION: orientation}))
        yield (f"tiff orientation {orientation} bits",
               encode(RGB.convert("1"), "TIFF", compression="group4", tiffinfo={ORIENTATION: orientation}))
    yield "tiff orientation as LONG", tiff(rgb.tobytes(), 2, 8, 3, tags=[(ORIENTATION, LONG, [6])])
    yield "tiff orientation as BYTE", tiff(rgb.tobytes(), 2, 8, 3, tags=[(ORIENTATION, BYTE, [6])])
    yield "tiff orientations, two", tiff(rgb.tobytes(), 2, 8, 3, tags=[(ORIENTATION, SHORT, [6, 3])])
    for text in (b'<x tiff:Orientation="6"/>', b"<tiff:Orientation>3</tiff:Orientation>", b"<x/>"):
        yield f"tiff with XMP {text}", tiff(rgb.tobytes(), 2, 8, 3, tags=[(700, BYTE, list(text))])
    yield "tiff, XMP and tag", tiff(rgb.tobytes(), 2, 8, 3, tags=[(700, BYTE, list(b'<x tiff:Orientation="6"/>')),
                                                                   (ORIENTATION, SHORT, [1])])
    for compression, image in itertools.product(
            ("raw", "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "packbits", "zstd", "lzma", "webp"),
            (RGB, RGB.convert("L"), RGB.convert("1"), RGB.quantize(60), RGB.convert("CMYK"), RGB.convert("RGBA"),
             RGB.convert("LA"), RGB.convert("YCbCr"))):
        try:
            yield f"tiff {compression} {image.mode}", encode(image, "TIFF", compression=compression)
        except Exception:
            pass
    for image in (RGB, RGB.convert("L"), RGB.convert("CMYK"), RGB.convert("YCbCr")):
        try:
            yield f"tiff jpeg {image.mode}", encode(image, "TIFF", compression="jpeg")
        except Exception:
            pass
    for compression in ("group3", "group4", "tiff_ccitt"):
        yield f"tiff {compression}", encode(RGB.convert("1"), "TIFF", compression=compression)
    planes = [rgb[..., c].tobytes() for c in range(3)]
    yield "tiff planes", tiff(planes, 2, 8, 3, tags=[(PLANAR, SHORT, [2])])
    alpha = [*planes, rgb[..., 1].tobytes()]
    for extra in (0, 1, 2):
        yield f"tiff planes alpha {extra}", tiff(alpha, 2, 8, 4, tags=[(PLANAR, SHORT, [2]), (EXTRA, SHORT, [extra])])
    yield "tiff planes cmyk", tiff(alpha, 5, 8, 4, tags=[(PLANAR, SHORT, [2])])
    yield "tiff planes 16", tiff([(rgb[..., c].astype("<u2") * 251).tobytes() for c in range(3)], 2, 16, 3,
                                 tags=[(PLANAR, SHORT, [2])])
    strips = [rgb[y:y + 4].tobytes() for y in range(0, HEIGHT, 4)]
    yield "tiff strips", tiff(strips, 2, 8, 3, strips=4)
    tiles = []
    wide = np.zeros((32, 48, 3), np.uint8)
    wide[:HEIGHT, :WIDTH] = rgb
    for y, x in itertools.product(range(0, 32, 16), range(0, 48, 16)):
        tiles.append(wide[y:y + 16, x:x + 16].tobytes())
    tiled = [(322, LONG, [16]), (323, LONG, [16]), (278, LONG, None)]
    yield "tiff tiles", tiff(tiles, 2, 8, 3, tags=tiled)
    yield "tiff tiles turned", tiff(tiles, 2, 8, 3, tags=[*tiled, (ORIENTATION, SHORT, [7])])
    for photometric, bits in itertools.product((0, 1), (1, 2, 4, 8, 16)):
        data = samples(random_values(1, bits), bits, "<")
        yield f"tiff bits backwards {photometric} {bits}", tiff(data, photometric, bits, tags=[(FILL, SHORT, [2])])
    yield "tiff bits backwards rgb", tiff(rgb.tobytes(), 2, 8, 3, tags=[(FILL, SHORT, [2])])
    for order in "<>":
        yield f"big tiff {order}", tiff(rgb.tobytes(), 2, 8, 3, order, big=True)
        yield f"big tiff turned {order}", tiff(rgb.tobytes(), 2, 8, 3, order, [(ORIENTATION, SHORT, [8])], big=True)
    yield "tiff without photometric", tiff(rgb[..., 0].tobytes(), 1, 8, tags=[(262, SHORT, None)])
    yield "tiff without photometric, bits", tiff(pack_rows(random_values(1, 1), 1), 1, 1, tags=[(262, SHORT, None)])
    yield "tiff rgb without photometric", tiff(rgb.tobytes(), 2, 8, 3, tags=[(262, SHORT, None)])
    yield "tiff without bands", tiff(rgb.tobytes(), 2, 8, 3, tags=[(277, SHORT, None)])
    yield "tiff one value of bits", tiff(rgb.tobytes(), 2, 8, 3, tags=[(258, SHORT, [8])])
    yield "tiff without bits", tiff(pack_rows(random_values(1, 1), 1), 1, 1, tags=[(258, SHORT, None)])
    yield "tiff bits of other kinds", tiff(pack_rows(random_values(2, 8), 8) + b"x" * 999, 2, 8, 3,
                                           tags=[(258, SHORT, [5, 6, 5])])
    yield "tiff cmyk inks", tiff(samples(random_values(4, 8), 8, "<"), 5, 8, 4, tags=[(332, SHORT, [2])])
    yield "tiff predictor", encode(RGB, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    pages = [RGB, RGB.rotate(180)]
    yield "tiff pages", encode(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    yield "tiff reduced first", tiff(rgb.tobytes(), 2, 8, 3, tags=[(254, LONG, [1])])
    for horizontal, vertical in ((1, 1), (2, 1), (2, 2)):
        data, y = b"", np.asarray(RGB.convert("YCbCr"))
        for top, left in itertools.product(range(0, HEIGHT, vertical), range(0, WIDTH, horizontal)):
            for j, i in itertools.product(range(vertical), range(horizontal)):
                data += bytes([y[min(top + j, HEIGHT - 1), min(left + i, WIDTH - 1), 0]])
            data += y[top, left, 1:].tobytes()
        yield (f"tiff ycbcr {horizontal} {vertical}",
               tiff(data, 6, 8, 3, tags=[(530, SHORT, [horizontal, vertical])]))


def tiff_packed():
    """Deflated strips and tiles of each depth, in both orders of bytes, with and without a predictor; palettes."""
    rng = np.random.default_rng(12)
    palette = [int(v) for v in rng.integers(0, 65536, 768)]
    kinds = [(1, 1, 1, "u"), (0, 1, 1, "u"), (1, 4, 1, "u"), (1, 8, 1, "u"), (0, 8, 1, "u"), (1, 16, 1, "u"),
             (1, 16, 1, "i"), (1, 32, 1, "i"), (1, 32, 1, "u"), (1, 32, 1, "f"), (2, 8, 3, "u"), (2, 16, 3, "u"),
             (2, 8, 4, "u"), (2, 16, 4, "u"), (3, 8, 1, "u"), (3, 4, 1, "u"), (5, 8, 4, "u"), (5, 16, 4, "u")]
    for order, (photometric, bits, bands, kind), tiled, packed in itertools.product("<>", kinds, (False, True),
                                                                                     (False, True)):
        height, width = (32, 48) if tiled else (HEIGHT, WIDTH)
        if kind == "u":
            values = rng.integers(0, min(1 << bits, 1 << 10), (height, width, bands), dtype=np.uint64)
        else:
            values = rng.uniform(-40, 300, (height, width, bands)).astype(f"{order}{kind}{bits // 8}")
        whole = []
        for y, x in itertools.product(range(0, height, 16), range(0, width, 16)) if tiled else [(0, 0)]:
            part = values[y:y + 16, x:x + 16] if tiled else values
            whole.append(samples(np.ascontiguousarray(part), bits, order) if kind == "u" else part.tobytes())
        tags = [(FORMAT, SHORT, [{"u": 1, "i": 2, "f": 3}[kind]] * bands)]
        if photometric == 3:
            tags.append((COLORMAP, SHORT, palette[:3 << bits]))
        if bands == 4 and photometric == 2:
            tags.append((EXTRA, SHORT, [2]))
        if packed:
            whole = [zlib.compress(piece) for piece in whole]
            tags.append((259, SHORT, [8]))
        if tiled:
            tags += [(322, LONG, [16]), (323, LONG, [16]), (278, LONG, None)]
        yield (f"tiff {'IM'['<>'.index(order)]} {photometric} {kind}{bits} {bands} {'tiled ' * tiled}"
               f"{'packed' * packed}", tiff(whole, photometric, bits, bands, order, tags))
    for name, colors in (("small", rng.integers(0, 256, 768)), ("greys", np.tile(np.arange(256) * 257, 3)),
                         ("small greys", np.tile(np.arange(256), 3)), ("odd", rng.integers(200, 300, 768))):
        yield (f"tiff palette {name}", tiff(samples(random_values(1, 8), 8, "<"), 3, 8,
                                           tags=[(COLORMAP, SHORT, [int(v) for v in colors])]))
    odd = np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, 254.99, 255.5, 1e30, -1e30, 1e-40], "<f4"),
                    HEIGHT * WIDTH)
    rgb = np.asarray(RGB).tobytes()
    yield "tiff with a strip too many", tiff([rgb, rgb], 2, 8, 3)
    yield "tiff with a strip too few", tiff([rgb[:WIDTH * 30], rgb[WIDTH * 30:WIDTH * 60]], 2, 8, 3, strips=10)
    yield "tiff odd numbers", tiff(odd[odd == odd].tobytes().ljust(HEIGHT * WIDTH * 4, b"\0"), 1, 32,
                                   tags=[(FORMAT, SHORT, [3])])
    yield "tiff no numbers", tiff(odd.tobytes(), 1, 32, tags=[(FORMAT, SHORT, [3])])


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(color, bits, chunks=(), bands=1, interlaced=False):
    rows = samples(random_values(bands, bits, 7), bits, ">")
    each = len(rows) // HEIGHT
    data = b"".join(b"\0" + rows[y * each:(y + 1) * each] for y in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, bits, color, 0, 0, 0)
    out = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header)
    for chunk in chunks:
        out += png_chunk(*chunk)
    return out + png_chunk(b"IDAT", zlib.compress(data)) + png_chunk(b"IEND", b"")


def pngs():
    palette = bytes(np.random.default_rng(4).integers(0, 256, 768, dtype=np.uint8))
    for color, bands, depths in ((0, 1, (1, 2, 4, 8, 16)), (2, 3, (8, 16)), (3, 1, (1, 2, 4, 8)), (4, 2, (8, 16)),
                                 (6, 4, (8, 16))):
        for bits in depths:
            base = [(b"PLTE", palette[:3 << bits])] if color == 3 else []
            name = f"png color {color} bits {bits}"
            yield name, png(color, bits, base, bands)
            yield name + " gamma", png(color, bits, [(b"gAMA", struct.pack(">I", 100000)), *base], bands)
            yield name + " sBIT", png(color, bits, [(b"sBIT", bytes([min(bits, 3)] * (3 if color == 3 else bands))),
                                                    *base], bands)
            yield name + " srgb, chrm", png(color, bits, [(b"sRGB", b"\0"), (b"cHRM", struct.pack(">8I", *range(8))),
                                                          *base], bands)
            yield name + " background", png(color, bits, [*base, (b"bKGD", b"\0" if color == 3 else
                                                                  b"\0\1" * (1 if color in (0, 4) else 3))], bands)
            if color in (0, 2, 3):
                clear = {0: struct.pack(">H", 1), 2: struct.pack(">3H", 1, 2, 3), 3: b"\0\x80\xff"[:1 << bits]}[color]
                yield name + " clear", png(color, bits, [*base, (b"tRNS", clear)], bands)
    yield "png short palette", png(3, 8, [(b"PLTE", palette[:30])])
    exif = b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
    yield "png turned by eXIf", png(2, 8, [(b"eXIf", exif)], 3)


def bmp(bits, data, palette=b"", compression=0, info=40, height=HEIGHT, masks=b"", colors=0, offset=None):
    head = struct.pack("<IiiHHIIiiII", info, WIDTH, height, 1, bits, compression, len(data), 0, 0, colors, 0)
    if info == 12:
        head = struct.pack("<IHHHH", 12, WIDTH, height, 1, bits)
    head = (head + (masks if info > 40 else b"")).ljust(info, b"\0")
    after = masks if info == 40 else b""
    start = 14 + len(head) + len(after) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, offset or start) + head + after + palette + data


def bmp_rows(values, bits):
    rows = pack_rows(values, bits) if bits <= 4 else values.astype("<u1").tobytes()
    each = len(rows) // HEIGHT
    return b"".join(rows[y * each:(y + 1) * each] + b"\0" * (-each % 4) for y in range(HEIGHT))


def bmps():
    colors = bytes(np.random.default_rng(6).integers(0, 256, 1024, dtype=np.uint8))
    grey = b"".join(bytes([i, i, i, 0]) for i in range(256))
    for bits in (1, 2, 4, 8):
        data = bmp_rows(random_values(1, bits, 8), bits)
        for name, palette in (("colours", colors), ("greys", grey), ("inverted", grey[::-1])):
            yield f"bmp {bits} {name}", bmp(bits, data, palette[:4 << bits])
        yield f"bmp {bits} downwards", bmp(bits, data, colors[:4 << bits], height=-HEIGHT)
        yield f"bmp {bits} os2", bmp(bits, data, colors[:3 << bits], info=12)
        yield f"bmp {bits} of 64", bmp(bits, data, colors[:4 << bits], info=64)
        few = max(2, (1 << bits) // 2)
        yield f"bmp {bits} few colours", bmp(bits, data, colors[:4 * few], colors=few)
        yield f"bmp {bits} few greys", bmp(bits, data, grey[:4 * few], colors=few)
        yield f"bmp {bits} black and white", bmp(bits, data, b"\0\0\0\0\xff\xff\xff\0", colors=2)
        yield f"bmp {bits} white and black", bmp(bits, data, b"\xff\xff\xff\0\0\0\0\0", colors=2)
        yield f"bmp {bits} offset of the palette", bmp(bits, data, colors[:4 << bits], offset=54)
    for bits, bands in ((16, 2), (24, 3), (32, 4)):
        data = bmp_rows(random_values(bands, 8, 9), 8)
        for info in (12, 40, 52, 56, 64, 108, 124):
            yield f"bmp {bits} info {info}", bmp(bits, data, info=info)
            for masks in ((0xff0000, 0xff00, 0xff, 0), (0xff0000, 0xff00, 0xff, 0xff000000),
                          (0xff000000, 0xff0000, 0xff00, 0xff), (0xff000000, 0xff0000, 0xff00, 0),
                          (0xff, 0xff00, 0xff0000, 0xff000000), (0xff, 0xff00, 0xff0000, 0), (0, 0, 0, 0),
                          (0xf800, 0x7e0, 0x1f, 0), (0x7c00, 0x3e0, 0x1f, 0)):
                if info > 12:
                    yield (f"bmp {bits} info {info} masks {masks}",
                           bmp(bits, data, compression=3, info=info,
                               masks=struct.pack("<4I", *masks)[:12 if info < 56 else 16]))
        yield f"bmp {bits} downwards", bmp(bits, data, height=-HEIGHT)
    run = b"".join(bytes([WIDTH, y, 0, 0]) for y in range(HEIGHT)) + b"\0\1"
    yield "bmp rle8", bmp(8, run, colors, compression=1)
    yield "bmp rle4", bmp(4, run, colors[:64], compression=2)


def pnms():
    rng = np.random.default_rng(10)
    for kind, bands in ((5, 1), (6, 3)):
        for most in (1, 3, 15, 85, 127, 254, 255, 256, 1000, 4095, 32767, 65534, 65535):
            values = rng.integers(0, most + 1, (HEIGHT, WIDTH, bands))
            data = values.astype(">u2" if most > 255 else "u1").tobytes()
            yield f"pnm P{kind} to {most}", b"P%d %d %d %d\n" % (kind, WIDTH, HEIGHT, most) + data
        over = rng.integers(0, 256, (HEIGHT, WIDTH, bands)).astype("u1").tobytes()
        yield f"pnm P{kind} above its most", b"P%d %d %d 100\n" % (kind, WIDTH, HEIGHT) + over
        over = rng.integers(0, 65536, (HEIGHT, WIDTH, bands)).astype(">u2").tobytes()
        yield f"pnm P{kind} above its most, wide", b"P%d %d %d 1000\n" % (kind, WIDTH, HEIGHT) + over
        text = " ".join(str(v) for v in rng.integers(0, 256, HEIGHT * WIDTH * bands)).encode()
        yield f"pnm P{kind - 3}", b"P%d %d %d 255\n" % (kind - 3, WIDTH, HEIGHT) + text
        data = rng.integers(0, 256, (HEIGHT, WIDTH, bands)).astype("u1").tobytes()
        for head in (b"P%d#a\n%d %d\n255\n", b"P%d\n#a\r%d %d\n255\n", b"P%d %d#b\n %d 255 ",
                     b"P%d\r\n%d\r\n%d\r\n255\n", b"P%d %d#b\n%d 255#c\n", b"P%d\x0b%d\x0c%d\x0b255\x0b",
                     b"P%d 0%d 00%d 0255\n", b"P%d\0%d %d 255\n",
                     b"P%d %d %d 255\r\n"):
            yield f"pnm P{kind} header {head}", head % (kind, WIDTH, HEIGHT) + data
    bits = pack_rows(random_values(1, 1, 11), 1)
    yield "pnm P4", b"P4 %d %d\n" % (WIDTH, HEIGHT) + bits
    yield "pnm P1", b"P1 %d %d\n" % (WIDTH, HEIGHT) + b"01" * (WIDTH * HEIGHT)
    yield "pnm P7", (b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" % (WIDTH, HEIGHT) +
                     np.asarray(RGB).tobytes())
    for kind, bands, scale in ((b"Pf", 1, -1.0), (b"PF", 3, -1.0), (b"Pf", 1, 1.0)):
        values = rng.uniform(-10, 300, (HEIGHT, WIDTH, bands)).astype("<f4" if scale < 0 else ">f4").tobytes()
        yield f"pnm {kind} {scale}", kind + b"\n%d %d\n%g\n" % (WIDTH, HEIGHT, scale) + values
    yield "pnm CMYK", b"P0CMYK %d %d 255\n" % (WIDTH, HEIGHT) + bytes(WIDTH * HEIGHT * 4)


def adobe(transform):
    return b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform])


def without_app(data, marker):
    """A JPEG without the first segment of that marker."""
    at = 2
    while data[at + 1] != marker:
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        if data[at + 1] == 0xda:
            return data
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]:]


def with_ids(data, ids):
    """A JPEG whose components have other ids."""
    out = bytearray(data)
    frame = next(i for i in range(2, len(data)) if data[i] == 0xff and data[i + 1] in (0xc0, 0xc2))
    scan = data.index(b"\xff\xda")
    for i, name in enumerate(ids):
        out[frame + 10 + 3 * i] = name
        out[scan + 5 + 2 * i] = name
    return bytes(out)


def jpegs():
    for progressive, sampling in itertools.product((False, True), (0, 1, 2)):
        how = dict(quality=90, subsampling=sampling, progressive=progressive)
        name = f"{'progressive' if progressive else 'baseline'} {sampling}"
        plain = encode(RGB, "JPEG", **how)
        bare = without_app(plain, 0xe0)
        yield f"jpeg JFIF {name}", plain
        yield f"jpeg without JFIF {name}", bare
        for transform in (0, 1, 2):
            yield f"jpeg JFIF and Adobe {transform} {name}", plain[:2] + adobe(transform) + plain[2:]
            yield f"jpeg Adobe {transform} {name}", bare[:2] + adobe(transform) + bare[2:]
        yield f"jpeg ids RGB {name}", with_ids(bare, b"RGB")
        yield f"jpeg ids 0 1 2 {name}", with_ids(bare, b"\0\1\2")
        yield f"jpeg ids YCC {name}", with_ids(bare, b"abc")
        yield f"jpeg JFIF, ids RGB {name}", with_ids(plain, b"RGB")
        inks = encode(RGB.convert("CMYK"), "JPEG", **how)
        bare = without_app(inks, 0xee)
        yield f"jpeg inks {name}", inks
        yield f"jpeg inks without Adobe {name}", bare
        for transform in (0, 1, 2):
            yield f"jpeg inks Adobe {transform} {name}", bare[:2] + adobe(transform) + bare[2:]
        grey = encode(RGB.convert("L"), "JPEG", **how)
        yield f"jpeg grey {name}", grey
        yield f"jpeg grey Adobe {name}", grey[:2] + adobe(0) + grey[2:]


def webps():
    alpha = RGB.copy()
    alpha.putalpha(RGB.convert("L"))
    for lossless in (False, True):
        yield f"webp lossless {lossless}", encode(RGB, "WEBP", lossless=lossless)
        yield f"webp alpha lossless {lossless}", encode(alpha, "WEBP", lossless=lossless, exact=True)
        yield f"webp moving {lossless}", encode(RGB, "WEBP", lossless=lossless, save_all=True,
                                               append_images=[RGB.rotate(90)])
        yield f"webp moving alpha {lossless}", encode(alpha, "WEBP", lossless=lossless, save_all=True, exact=True,
                                                     append_images=[alpha.rotate(90)])
        yield f"webp moving on a background {lossless}", encode(
            alpha, "WEBP", lossless=lossless, save_all=True, exact=True, append_images=[alpha.rotate(90)],
            background=(10, 200, 30, 255))


def gifs():
    indexed = RGB.quantize(64)
    yield "gif", encode(indexed, "GIF")
    yield "gif interlaced", encode(indexed, "GIF", interlace=1)
    for clear in (0, 3, 63):
        yield f"gif clear {clear}", encode(indexed, "GIF", transparency=clear)
    yield "gif grey", encode(RGB.convert("L"), "GIF")
    yield "gif moving", encode(indexed, "GIF", save_all=True, append_images=[indexed.rotate(180)])
    yield "gif moving clear", encode(indexed, "GIF", save_all=True, append_images=[indexed.rotate(180)],
                                     transparency=5, disposal=2)
    data = encode(indexed, "GIF")
    for background in (0, 7):
        larger = data[:6] + struct.pack("<HH", WIDTH + 9, HEIGHT + 6) + data[10:11] + bytes([background]) + data[12:]
        yield f"gif of a part, background {background}", larger
    frame = data.index(b",\0\0\0\0")
    yield "gif aside", data[:6] + struct.pack("<HH", WIDTH + 9, HEIGHT + 6) + data[10:frame + 1] + struct.pack(
        "<HH", 5, 4) + data[frame + 5:]


def forms():
    """(name, bytes) of all."""
    for kind in (tiff_depths, tiff_numbers, tiff_layouts, tiff_packed, pngs, bmps, pnms, jpegs, webps, gifs):
        yield from kind()
