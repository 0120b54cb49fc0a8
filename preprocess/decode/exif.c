#include "preprocess/decode/exif.h"

#include <stdbool.h>
#include <string.h>

#include "preprocess/decode/planes_file.h"

#define SOI 0xd8
#define APP1 0xe1
#define SOS 0xda
#define TIFF_AT 6 /* "Exif" and two zeros before it */
#define TIFF_HEADER_BYTES 8
#define ENTRY_BYTES 12
#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT 3
#define ORIENTATIONS 8

/* A TIFF structure in either order of bytes. */
struct tiff {
    const uint8_t *bytes;
    size_t len_bytes;
    bool big_endian;
};

static uint32_t get(const struct tiff *tiff, size_t at, unsigned width)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | tiff->bytes[at + (tiff->big_endian ? i : width - 1 - i)];
    return value;
}

static uint32_t orientation_of(const uint8_t *exif, size_t len_bytes)
{
    struct tiff tiff = {.bytes = exif + TIFF_AT, .len_bytes = len_bytes - TIFF_AT};
    if (tiff.len_bytes < TIFF_HEADER_BYTES)
        return EXIF_UPRIGHT;
    tiff.big_endian = tiff.bytes[0] == 'M';
    size_t at = get(&tiff, 4, 4);
    if (at > tiff.len_bytes - 2)
        return EXIF_UPRIGHT;
    uint32_t count = get(&tiff, at, 2);
    at += 2;
    for (; count && tiff.len_bytes - at >= ENTRY_BYTES; count--, at += ENTRY_BYTES) {
        if (get(&tiff, at, 2) != TAG_ORIENTATION || get(&tiff, at + 2, 2) != TYPE_SHORT)
            continue;
        uint32_t value = get(&tiff, at + 8, 2);
        return value >= 1 && value <= ORIENTATIONS ? value : EXIF_UPRIGHT;
    }
    return EXIF_UPRIGHT;
}

uint32_t exif_orientation(const uint8_t *jpeg, size_t len_bytes)
{
    static const uint8_t name[TIFF_AT] = "Exif";
    size_t at = 2;
    struct planes_file planes;
    if (planes_file_open(&planes, jpeg, len_bytes)) {
        jpeg = planes.header;
        len_bytes = planes.header_bytes;
    }
    if (len_bytes < 4 || jpeg[0] != 0xff || jpeg[1] != SOI)
        return EXIF_UPRIGHT;
    while (at <= len_bytes - 4 && jpeg[at] == 0xff && jpeg[at + 1] != SOS) {
        if (jpeg[at + 1] == 0xff) { /* a byte that fills */
            at++;
            continue;
        }
        size_t segment_bytes = (size_t)jpeg[at + 2] << 8 | jpeg[at + 3], data = at + 4;
        if (segment_bytes < 2 || segment_bytes > len_bytes - at - 2)
            return EXIF_UPRIGHT;
        if (jpeg[at + 1] == APP1 && segment_bytes - 2 >= sizeof name && memcmp(jpeg + data, name, sizeof name) == 0)
            return orientation_of(jpeg + data, segment_bytes - 2);
        at += 2 + segment_bytes;
    }
    return EXIF_UPRIGHT;
}

void exif_put(uint32_t orientation, uint8_t out[EXIF_BYTES])
{
    /* One directory at 8, of one entry: the orientation, one short. No directory follows. */
    static const uint8_t segment[EXIF_BYTES] = {'E', 'x', 'i', 'f', 0,    0,    'I',        'I', '*', 0, 8, 0,
                                                0,   0,   1,   0,   0x12, 0x01, TYPE_SHORT, 0,   1,   0, 0, 0};
    memcpy(out, segment, EXIF_BYTES);
    out[24] = (uint8_t)orientation;
}
