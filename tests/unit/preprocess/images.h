/* images.h: makes the images that the tests of preprocess/ run on, so that none need to be kept. */
#ifndef TESTS_PREPROCESS_IMAGES_H
#define TESTS_PREPROCESS_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct encoded {
    uint8_t *data;
    size_t len_bytes;
};

void encoded_free(struct encoded *encoded);

/* A picture that is smooth in parts and busy in others: `bands` interleaved channels, the same for the same seed. */
uint8_t *picture(uint32_t width, uint32_t height, unsigned bands, uint64_t seed);

struct jpeg_form {
    int components;     /* 1, 3 or 4 (CMYK with Adobe marker, stored inverted) */
    int h_samp, v_samp; /* of the first component; the others have 1 × 1 */
    bool progressive;
    int quality;
    int restart_rows;    /* a restart marker every so many MCU rows; below 0: every so many MCUs; 0: none */
    uint8_t orientation; /* in an EXIF segment; 0: no such segment */
};

struct encoded encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, const struct jpeg_form *form);
/* The same coefficients in one baseline scan, a restart marker every `interval` MCUs; 0: none. */
struct encoded mark_jpeg(const struct encoded *jpeg, unsigned interval);
/* suffix as libvips names savers, with options: ".png", ".webp[lossless]", ".tif[compression=lzw]". bits 8 or 16. */
struct encoded encode_vips(const void *pixels, uint32_t width, uint32_t height, unsigned bands, int bits,
                           const char *suffix);
/* The same in a child process, so that this one has none of libvips' threads afterwards. */
struct encoded encode_vips_apart(const void *pixels, uint32_t width, uint32_t height, unsigned bands, int bits,
                                 const char *suffix);
/* The plain full decode: libjpeg with its defaults, to RGB. The caller frees. */
uint8_t *decode_plain(const struct encoded *jpeg, uint32_t *width, uint32_t *height);

#endif
