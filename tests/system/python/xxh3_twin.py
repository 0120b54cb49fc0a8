"""Other bytes of the same XXH3-128: what the hash that packed samples are known by does not protect against.

XXH3 adds each 8-byte lane of a stripe to a neighbour's accumulator, and the product of the lane's halves, mixed with a
public secret, to its own. Where a half equals the secret's the product is nothing and the other half is free: two such
stripes after the last scrambling bring any accumulators to any others."""

import struct

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
START = (P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0])
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
STRIPE, BLOCK = 64, 1024


def _lanes(data, at):
    return struct.unpack_from("<8Q", data, at)


def _stripe(sums, lanes, secret_at):
    for i, (value, key) in enumerate(zip(lanes, _lanes(SECRET, secret_at))):
        mixed = value ^ key
        sums[i ^ 1] = (sums[i ^ 1] + value) & M64
        sums[i] = (sums[i] + (mixed & M32) * (mixed >> 32)) & M64


def _sums(data):
    """The accumulators after all of data, which is longer than 240 bytes; its length and they make the hash."""
    sums, last_block = list(START), (len(data) - 1) // BLOCK * BLOCK
    for at in range(0, len(data) - STRIPE, STRIPE):
        _stripe(sums, _lanes(data, at), at % BLOCK // 8)
        if at % BLOCK == BLOCK - STRIPE and at < last_block:
            for i, key in enumerate(_lanes(SECRET, 128)):
                sums[i] = (sums[i] ^ sums[i] >> 47 ^ key) * P32[0] & M64
    _stripe(sums, _lanes(data, len(data) - STRIPE), 128 - 7)
    return sums


def room(length):
    """The least length that a model for an image of so many bytes can have."""
    return (length + BLOCK - 1) // BLOCK * BLOCK + 4 * STRIPE


def twin(model, image):
    """Bytes of the model's length and hash that begin with image. The model's length is room(…) of at least image's."""
    assert len(model) % STRIPE == 0 and len(model) % BLOCK >= 3 * STRIPE and len(model) >= room(len(image))
    first, second = len(model) - 3 * STRIPE, len(model) - 2 * STRIPE
    data = bytearray(image.ljust(len(model), b"\0"))
    first_keys, second_keys = (_lanes(SECRET, at % BLOCK // 8) for at in (first, second))
    tops = [key >> 32 << 32 for key in first_keys]      # of the first stripe's lanes: their low halves are free
    bottoms = [key & M32 for key in second_keys]        # of the second's: their high halves are free
    struct.pack_into("<8Q", data, first, *tops)
    struct.pack_into("<8Q", data, second, *bottoms)
    lacking = [(want - have) & M64 for want, have in zip(_sums(model), _sums(data))]
    for i in range(8):
        struct.pack_into("<Q", data, first + 8 * i, tops[i] | lacking[i ^ 1] & M32)
        struct.pack_into("<Q", data, second + 8 * i, bottoms[i] | lacking[i ^ 1] >> 32 << 32)
    assert _sums(data) == _sums(model)
    return bytes(data)
