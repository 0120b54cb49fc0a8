#include "preprocess/decode/form_tiff.h"

#include <string.h>

#include "preprocess/image.h"

#define ENTRIES_MAX 4096
#define BANDS_MAX 6
#define ORIENTATIONS 8

enum kind { KIND_SHORT = 3, KIND_LONG = 4 };
enum photometric { PHOTO_WHITE_FIRST, PHOTO_BLACK_FIRST, PHOTO_RGB, PHOTO_PALETTE, PHOTO_INKS = 5, PHOTO_YCBCR };
enum compression { PACK_NONE = 1, PACK_FAX_FIRST, PACK_FAX_LAST = 4, PACK_LZW, PACK_JPEG = 7, PACK_DEFLATE };
enum compression_more { PACK_BITS = 32773, PACK_OLD_DEFLATE = 32946, PACK_LZMA = 34925, PACK_ZSTD = 50000 };
enum number { NUMBER_UNSIGNED = 1, NUMBER_SIGNED, NUMBER_FLOAT };

/* The fields that say what pixels are. */
enum field {
    FIELD_WIDTH,
    FIELD_HEIGHT,
    FIELD_BITS,
    FIELD_COMPRESSION,
    FIELD_PHOTOMETRIC,
    FIELD_FILL,
    FIELD_ORIENTATION,
    FIELD_BANDS,
    FIELD_ROWS, /* rows of a strip */
    FIELD_PLANES,
    FIELD_COLORS,
    FIELD_TILE_WIDTH,
    FIELD_TILE_HEIGHT,
    FIELD_INKS,
    FIELD_EXTRA,
    FIELD_NUMBER,
    FIELD_XMP,
    FIELD_STRIPS, /* the strips' places; the values of this field and the rest are not read */
    FIELD_TILES,
    FIELDS
};
static const uint16_t tags[FIELDS] = {
    [FIELD_WIDTH] = 256,       [FIELD_HEIGHT] = 257,      [FIELD_BITS] = 258,   [FIELD_COMPRESSION] = 259,
    [FIELD_PHOTOMETRIC] = 262, [FIELD_FILL] = 266,        [FIELD_STRIPS] = 273, [FIELD_ORIENTATION] = 274,
    [FIELD_BANDS] = 277,       [FIELD_ROWS] = 278,        [FIELD_PLANES] = 284, [FIELD_COLORS] = 320,
    [FIELD_TILE_WIDTH] = 322,  [FIELD_TILE_HEIGHT] = 323, [FIELD_TILES] = 324,  [FIELD_INKS] = 332,
    [FIELD_EXTRA] = 338,       [FIELD_NUMBER] = 339,      [FIELD_XMP] = 700,
};

struct entry {
    uint32_t kind;
    uint64_t count; /* 0: the file does not have it */
    size_t at;      /* offset of the first value in the file */
};

struct tiff {
    const uint8_t *bytes;
    size_t len_bytes;
    bool big_endian, big; /* big: BigTIFF, with places of 8 bytes */
    struct entry entries[FIELDS];
};

bool form_is_tiff(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t heads[][4] = {{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (len_bytes >= sizeof *heads && memcmp(bytes, heads[i], sizeof *heads) == 0)
            return true;
    }
    return false;
}

static uint64_t get(const struct tiff *tiff, size_t at, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | tiff->bytes[at + (tiff->big_endian ? i : width - 1 - i)];
    return value;
}

static bool has(const struct tiff *tiff, uint64_t at, uint64_t len_bytes)
{
    return at <= tiff->len_bytes && len_bytes <= tiff->len_bytes - at;
}

static unsigned width_of(uint32_t kind)
{
    return kind == KIND_SHORT ? 2 : kind == KIND_LONG ? 4 : 0;
}

/* Notes one entry of the directory. False: it is one of the fields, and there twice, of another kind or cut off. */
static bool note(struct tiff *tiff, size_t at)
{
    uint64_t tag = get(tiff, at, 2);
    for (int i = 0; i < FIELDS; i++) {
        if (tags[i] != tag)
            continue;
        struct entry entry = {.kind = (uint32_t)get(tiff, at + 2, 2), .count = get(tiff, at + 4, tiff->big ? 8 : 4)};
        unsigned room = tiff->big ? 8 : 4, width = i >= FIELD_XMP ? 1 : width_of(entry.kind);
        size_t value = at + 4 + room;
        if (!width || !entry.count || entry.count > tiff->len_bytes || tiff->entries[i].count)
            return false;
        if (i >= FIELD_STRIPS) {
            tiff->entries[i] = entry;
            continue;
        }
        entry.at = entry.count * width <= room ? value : (size_t)get(tiff, value, room);
        if (!has(tiff, entry.at, entry.count * width))
            return false;
        tiff->entries[i] = entry;
    }
    return true;
}

static bool read_directory(struct tiff *tiff)
{
    tiff->big_endian = tiff->bytes[0] == 'M';
    tiff->big = get(tiff, 2, 2) == 43;
    unsigned place = tiff->big ? 8 : 4, counted = tiff->big ? 8 : 2, entry = tiff->big ? 20 : 12;
    if (!has(tiff, 0, 16))
        return false;
    uint64_t at = get(tiff, tiff->big ? 8 : 4, place);
    if (!has(tiff, at, counted))
        return false;
    uint64_t count = get(tiff, (size_t)at, counted);
    at += counted;
    if (count > ENTRIES_MAX || !has(tiff, at, count * entry))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!note(tiff, (size_t)(at + i * entry)))
            return false;
    }
    return true;
}

static uint32_t value(const struct tiff *tiff, enum field field, uint64_t index)
{
    const struct entry *entry = &tiff->entries[field];
    unsigned width = width_of(entry->kind);
    return (uint32_t)get(tiff, entry->at + (size_t)index * width, width);
}

/* common_value returns the value that a field has for all bands. `usual`: the file leaves the field out. 0: the bands
 * have different ones. */
static uint32_t common_value(const struct tiff *tiff, enum field field, uint32_t bands, uint32_t usual)
{
    uint64_t count = tiff->entries[field].count;
    if (!count)
        return usual;
    if (count != bands && count != 1)
        return 0;
    for (uint64_t i = 1; i < count; i++) {
        if (value(tiff, field, i) != value(tiff, field, 0))
            return 0;
    }
    return value(tiff, field, 0);
}

static uint32_t single(const struct tiff *tiff, enum field field, uint32_t usual)
{
    return common_value(tiff, field, 1, usual);
}

/* The directory's values. 0: it has none that makes sense. */
struct says {
    uint32_t photometric, bands, bits, number, compression, fill, planes, inks;
    bool tiled;
};

/* Bands behind the colors: an alpha that is not multiplied in, or one of no meaning, then ones of no meaning. Older
 * versions of Pillow refuse others, and ones of no meaning behind grey. */
static bool extra_bands_are_known(const struct tiff *tiff, const struct says *says, uint32_t colors)
{
    uint64_t count = tiff->entries[FIELD_EXTRA].count, extra = says->bands - colors;
    if (says->bands < colors || says->bands > BANDS_MAX)
        return false;
    if (!extra)
        return !count;
    if (count != extra)
        return extra == 1 && !count && says->photometric == PHOTO_RGB;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t meaning = value(tiff, FIELD_EXTRA, i);
        if (meaning != 0 && (meaning != 2 || i > 0))
            return false;
    }
    if (says->photometric == PHOTO_RGB)
        return extra == 1 || says->bits == 8;
    return says->photometric == PHOTO_BLACK_FIRST && extra == 1 && says->bits == 8 && value(tiff, FIELD_EXTRA, 0) == 2;
}

/* Some readers take a palette whose numbers are all small for one of 8 bits, and Pillow never does. */
static bool palette_is_known(const struct tiff *tiff, const struct says *says)
{
    uint64_t count = tiff->entries[FIELD_COLORS].count;
    if (says->bits > 8 || count != (uint64_t)IMAGE_CHANNELS << says->bits)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (value(tiff, FIELD_COLORS, i) > 255)
            return true;
    }
    return false;
}

static bool numbers_are_known(const struct tiff *tiff, const struct says *says)
{
    bool narrow = says->bits == 1 || says->bits == 2 || says->bits == 4 || says->bits == 8;
    bool whole = says->number == NUMBER_UNSIGNED;
    switch (says->photometric) {
    case PHOTO_WHITE_FIRST: return narrow && whole && extra_bands_are_known(tiff, says, 1);
    case PHOTO_BLACK_FIRST:
        return extra_bands_are_known(tiff, says, 1) &&
               ((narrow && whole) || (says->bits == 16 && says->number <= NUMBER_SIGNED) ||
                (says->bits == 32 && says->number <= NUMBER_FLOAT && !(whole && tiff->big_endian)));
    case PHOTO_RGB: return (says->bits == 8 || says->bits == 16) && whole && extra_bands_are_known(tiff, says, 3);
    case PHOTO_PALETTE: return whole && says->bands == 1 && palette_is_known(tiff, says);
    case PHOTO_INKS:
        return (says->bits == 8 || (says->bits == 16 && !tiff->big_endian)) && whole && says->inks == 1 &&
               extra_bands_are_known(tiff, says, 4);
    case PHOTO_YCBCR: return says->bits == 8 && whole && says->bands == 3 && says->compression == PACK_JPEG;
    default: return false;
    }
}

static bool layout_is_known(const struct tiff *tiff, const struct says *says)
{
    bool small = says->bits < 8;
    if (tiff->big_endian && says->number != NUMBER_UNSIGNED && says->compression != PACK_NONE)
        return false; /* Pillow takes their bytes in the wrong order */
    switch (says->compression) {
    case PACK_NONE:
    case PACK_LZW:
    case PACK_DEFLATE:
    case PACK_OLD_DEFLATE:
    case PACK_BITS:
    case PACK_LZMA:
    case PACK_ZSTD: break;
    case PACK_JPEG:
        if (says->bits != 8 || says->photometric == PHOTO_WHITE_FIRST || says->photometric == PHOTO_PALETTE)
            return false;
        break;
    default:
        if (says->compression < PACK_FAX_FIRST || says->compression > PACK_FAX_LAST || says->bits != 1)
            return false;
    }
    if (says->planes != 1 && !(says->planes == 2 && says->photometric == PHOTO_RGB && says->bands == 3 &&
                               says->bits == 8 && says->compression == PACK_NONE))
        return false;
    return (says->fill == 1 || (says->fill == 2 && small)) && !(says->tiled && small);
}

/* xmp_turns tells whether only XMP has an orientation. Newer versions of Pillow turn such a picture, and older ones do
 * not. */
static bool xmp_turns(const struct tiff *tiff)
{
    static const char name[] = "tiff:Orientation";
    static const char *const upright[] = {"=\"1", ">1"};
    const struct entry *xmp = &tiff->entries[FIELD_XMP];
    if (!xmp->count || tiff->entries[FIELD_ORIENTATION].count)
        return false;
    const uint8_t *end = tiff->bytes + xmp->at + xmp->count;
    const uint8_t *found = memmem(tiff->bytes + xmp->at, (size_t)xmp->count, name, sizeof name - 1);
    if (!found)
        return false;
    found += sizeof name - 1;
    for (int i = 0; i < 2; i++) {
        size_t len_bytes = strlen(upright[i]);
        if ((size_t)(end - found) >= len_bytes && memcmp(found, upright[i], len_bytes) == 0)
            return false;
    }
    return true;
}

static uint64_t pieces_along(uint32_t whole, uint32_t piece)
{
    return ((uint64_t)whole + piece - 1) / piece;
}

/* Whether there are as many strips or tiles as the size asks for. If some are missing, readers differ in the picture
 * that they make. */
static bool pieces_are_there(const struct tiff *tiff, const struct says *says)
{
    uint32_t width = single(tiff, FIELD_WIDTH, 0), height = single(tiff, FIELD_HEIGHT, 0);
    uint32_t piece_width = single(tiff, FIELD_TILE_WIDTH, width);
    uint32_t piece_height = single(tiff, says->tiled ? FIELD_TILE_HEIGHT : FIELD_ROWS, says->tiled ? 0 : height);
    if (!piece_width || !piece_height)
        return false;
    uint64_t wanted = pieces_along(width, piece_width) * pieces_along(height, piece_height) *
                      (says->planes == 2 ? says->bands : 1);
    return tiff->entries[FIELD_STRIPS].count == (says->tiled ? 0 : wanted) &&
           tiff->entries[FIELD_TILES].count == (says->tiled ? wanted : 0);
}

int form_read_tiff(const uint8_t *bytes, size_t len_bytes, uint32_t *orientation, struct decode_fault *fault)
{
    struct tiff tiff = {.bytes = bytes, .len_bytes = len_bytes};
    if (!read_directory(&tiff))
        return decode_fail(fault, BAD_CORRUPT, "TIFF: its first directory is damaged");
    struct says says = {.photometric = single(&tiff, FIELD_PHOTOMETRIC, UINT32_MAX),
                        .bands = single(&tiff, FIELD_BANDS, 1),
                        .compression = single(&tiff, FIELD_COMPRESSION, PACK_NONE),
                        .fill = single(&tiff, FIELD_FILL, 1),
                        .planes = single(&tiff, FIELD_PLANES, 1),
                        .inks = single(&tiff, FIELD_INKS, 1),
                        .tiled = tiff.entries[FIELD_TILE_WIDTH].count > 0};
    says.bits = common_value(&tiff, FIELD_BITS, says.bands, says.bands == 1 ? 1 : 0);
    says.number = common_value(&tiff, FIELD_NUMBER, says.bands, NUMBER_UNSIGNED);
    uint32_t turned = single(&tiff, FIELD_ORIENTATION, FORM_UPRIGHT);
    if (!says.bits || !says.number || !numbers_are_known(&tiff, &says) || !layout_is_known(&tiff, &says) ||
        (tiff.big && tiff.big_endian))
        return decode_fail(
            fault, BAD_NOT_AN_IMAGE,
            "TIFF: photometric interpretation %d with %u bands of %u bits, sample format %u, compression "
            "%u is not supported: save it as PNG",
            (int)says.photometric, says.bands, says.bits, says.number, says.compression);
    if (!pieces_are_there(&tiff, &says))
        return decode_fail(fault, BAD_CORRUPT, "TIFF: its strips or tiles are not as many as its size asks for");
    if (xmp_turns(&tiff))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "TIFF: an orientation in XMP alone is not supported: save it as PNG, or give the tag");
    if (tiff.entries[FIELD_ORIENTATION].count > 1)
        return decode_fail(fault, BAD_CORRUPT, "TIFF: it has more than one orientation");
    *orientation = turned >= 1 && turned <= ORIENTATIONS ? turned : FORM_UPRIGHT;
    return 0;
}
