/* sample_parts.h: the encoded bytes of a sample that has several parts, such as an image and its mask.
 *
 * They are a head that names the parts, and then the parts one behind the other. The head has 8 bytes that no format of
 * images begins with, the number of parts as u32, 4 bytes of 0, and of each part its name (SAMPLE_NAME_BYTES, ended and
 * filled up by bytes of 0) and its length as u64; all little-endian. So a sample's bytes alone say what it has,
 * wherever they lie: in memory, in a store, at another node. Pure. */
#ifndef LARDER_COMMON_SAMPLE_PARTS_H
#define LARDER_COMMON_SAMPLE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/layout.h"

#define SAMPLE_PARTS_MAX SAMPLE_FIELDS_MAX
#define SAMPLE_PARTS_HEAD_MAX (16 + SAMPLE_PARTS_MAX * (SAMPLE_NAME_BYTES + 8))

struct sample_part {
    char name[SAMPLE_NAME_BYTES]; /* as a field's; with bytes of 0 up to the end */
    uint64_t offset, bytes;       /* where it lies among the sample's bytes */
};

struct sample_parts {
    uint32_t n;
    struct sample_part parts[SAMPLE_PARTS_MAX];
};

/* sample_part_is_name says whether a part, and a field, may have this name. */
bool sample_part_is_name(const char *name);
/* sample_parts_are says whether bytes are a sample of parts; if they are not, the sample is one image. */
bool sample_parts_are(const void *bytes, size_t len_bytes);
/* sample_parts_read reads such a sample's head. LARDER_EFORMAT: it is damaged. */
int sample_parts_read(const void *bytes, size_t len_bytes, struct sample_parts *out, struct error *err);
/* sample_parts_place finds where each part lies, from their lengths, and returns the sample's length. */
uint64_t sample_parts_place(struct sample_parts *parts);
/* sample_parts_write writes the head of a sample whose parts have places. They lie behind it. */
void sample_parts_write(const struct sample_parts *parts, void *to);

#endif
