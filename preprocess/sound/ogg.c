#include "preprocess/sound/ogg.h"

#include <string.h>

#define PAGE_BYTES 27 /* of a page, before its table of segments */
#define CRC_AT 22
#define SERIAL_AT 14
#define HEADERS 3

/* The checksum of Ogg: the polynomial 0x04C11DB7, highest bit first, from 0, the checksum's own bytes taken as 0. */
static uint32_t crc_of(const uint8_t *page, size_t len)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint32_t)(i >= CRC_AT && i < CRC_AT + 4 ? 0 : page[i]) << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & UINT32_C(0x80000000) ? crc << 1 ^ UINT32_C(0x04C11DB7) : crc << 1;
    }
    return crc;
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* page_bytes returns the length of a sound page; 0: there is none. */
static size_t page_bytes(const uint8_t *page, size_t len)
{
    if (len < PAGE_BYTES || memcmp(page, "OggS", 4) != 0 || len < PAGE_BYTES + (size_t)page[26])
        return 0;
    size_t bytes = PAGE_BYTES + (size_t)page[26];
    for (size_t i = 0; i < page[26]; i++)
        bytes += page[PAGE_BYTES + i];
    return bytes <= len && crc_of(page, bytes) == get_u32(page + CRC_AT) ? bytes : 0;
}

/* The packets that are being counted. */
struct headers {
    unsigned whole; /* packets that have ended */
    bool within;    /* a packet has begun that ends on a later page */
};

/* take_page counts the packets that end on a page, and looks at the first bytes of those that begin there. */
static bool take_page(const uint8_t *page, struct headers *headers)
{
    static const char kinds[HEADERS] = {1, 3, 5};
    const uint8_t *at = page + PAGE_BYTES + page[26];
    for (size_t i = 0; i < page[26] && headers->whole < HEADERS; i++) {
        uint8_t segment = page[PAGE_BYTES + i];
        if (!headers->within &&
            (segment < 7 || at[0] != (uint8_t)kinds[headers->whole] || memcmp(at + 1, "vorbis", 6) != 0))
            return false;
        headers->within = segment == 255;
        headers->whole += segment < 255;
        at += segment;
    }
    return true;
}

bool ogg_vorbis_is_whole(const uint8_t *bytes, size_t len_bytes)
{
    struct headers headers = {0};
    size_t at = 0;
    while (headers.whole < HEADERS) {
        size_t page = page_bytes(bytes + at, len_bytes - at);
        if (page == 0)
            return false;
        bool ours = get_u32(bytes + at + SERIAL_AT) == get_u32(bytes + SERIAL_AT);
        if (ours && !take_page(bytes + at, &headers))
            return false;
        at += page;
    }
    return true;
}
