/* tar_maker.h: writes tar archives by hand, sound ones and others. Whatever cannot be written stops the test. */
#ifndef LARDER_TESTS_UNIT_CACHE_SOURCE_TAR_MAKER_H
#define LARDER_TESTS_UNIT_CACHE_SOURCE_TAR_MAKER_H

#include <stddef.h>
#include <stdint.h>

struct tar_made {
    uint8_t *bytes;
    size_t len, cap;
};

/* tar_block appends a header of that type flag, with a checksum that fits, and gives its offset. */
size_t tar_block(struct tar_made *tar, char flag, const char *name, uint64_t size);
void tar_body(struct tar_made *tar, const void *body, size_t len); /* up to a whole block */
/* tar_file appends a file, and gives its header's offset. */
size_t tar_file(struct tar_made *tar, const char *name, const char *body);
void tar_zeros(struct tar_made *tar, size_t blocks);
void tar_sign(uint8_t *block); /* makes the checksum fit */
/* tar_pax appends a pax header with a line for each of the words, "path" and "size" for instance; NULL ends them. */
void tar_pax(struct tar_made *tar, char flag, const char *const *words_and_values);
void tar_write(struct tar_made *tar, const char *path); /* writes the file, and empties what was made */

#endif
