/* pixels.h: images that a file has as pixels, without a header: which they are, and how they become binary PNM, which
 * decoders and people know. Pure. */
#ifndef LARDER_CACHE_SOURCE_PIXELS_H
#define LARDER_CACHE_SOURCE_PIXELS_H

#include <stdbool.h>
#include <stdint.h>

#define PIXELS_SIDE_MAX (1u << 20)

/* Pixels of one byte a channel. A zeroed one says that a sample is no pixels, but a file of some format. */
struct pixels {
    uint32_t width, height;
    uint32_t channels; /* 1 or 3 */
    bool planar;       /* all of the first channel come first */
};

/* pixels_parse reads "32x32x3" (height, width, channels), "3x32x32" (channels first) or "28x28" (grey). What ends in x1
 * or x3 has its channels there. False: it is none of these, or a side is 0 or above PIXELS_SIDE_MAX. */
bool pixels_parse(const char *text, struct pixels *out);
/* pixels_fit says whether the numbers are those of a shape, or of a zeroed one. */
bool pixels_fit(const struct pixels *pixels);
/* pixels_bytes returns how many bytes of the file the pixels are. */
uint64_t pixels_bytes(const struct pixels *pixels);
/* pixels_head writes the header of a PNM, and returns its length. `out` has room for PIXELS_HEAD_MAX bytes; what lies
 * behind the header may be written too. */
#define PIXELS_HEAD_MAX 32
uint32_t pixels_head(const struct pixels *pixels, uint8_t *out);
/* pixels_settle makes the file's bytes those of a PNM: the channels of each pixel together. LARDER_ENOMEM. */
int pixels_settle(const struct pixels *pixels, uint8_t *bytes);

#endif
