/* codec.h: reads or writes a layout of little-endian numbers and bytes, for formats that others' bytes arrive in.
 *
 * A layout is written down once, in a function that names its fields in order and serves both directions, so that what
 * is encoded and what is decoded cannot drift apart. A codec that ran out of bytes is marked failed, and every later
 * field does nothing. Pure: no allocation, any thread. */
#ifndef LARDER_COMMON_CODEC_H
#define LARDER_COMMON_CODEC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct codec {
    uint8_t *out;      /* encoding; NULL when decoding */
    const uint8_t *in; /* decoding */
    size_t pos, cap;
    bool failed;
};

/* codec_number writes the low `count` bytes of value, or reads as many and returns them. */
static inline uint64_t codec_number(struct codec *codec, uint64_t value, unsigned count)
{
    if (codec->failed || codec->cap - codec->pos < count) {
        codec->failed = true;
        return value;
    }
    uint64_t little = htole64(value); /* the number is its first bytes */
    if (codec->out) {
        memcpy(codec->out + codec->pos, &little, count);
    } else {
        little = 0;
        memcpy(&little, codec->in + codec->pos, count);
    }
    codec->pos += count;
    return le64toh(little);
}

static inline void codec_u16(struct codec *codec, uint16_t *value)
{
    *value = (uint16_t)codec_number(codec, *value, 2);
}

static inline void codec_u32(struct codec *codec, uint32_t *value)
{
    *value = (uint32_t)codec_number(codec, *value, 4);
}

static inline void codec_u64(struct codec *codec, uint64_t *value)
{
    *value = codec_number(codec, *value, 8);
}

static inline void codec_f64(struct codec *codec, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    codec_u64(codec, &bits);
    memcpy(value, &bits, sizeof bits);
}

/* codec_bytes writes len_bytes of data, or skips as many. It returns their address: data itself, or the place in the
 * input, which the caller then borrows; NULL when they do not fit. */
static inline const uint8_t *codec_bytes(struct codec *codec, const void *data, size_t len_bytes)
{
    if (codec->failed || codec->cap - codec->pos < len_bytes) {
        codec->failed = true;
        return NULL;
    }
    const uint8_t *at = codec->out ? data : codec->in + codec->pos;
    if (codec->out && len_bytes)
        memcpy(codec->out + codec->pos, data, len_bytes);
    codec->pos += len_bytes;
    return at;
}

#endif
