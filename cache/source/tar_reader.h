/* tar_reader.h: reads pieces of a shard at rising offsets: little where they lie far from each other, and more and more
 * where they lie close. It belongs to one thread; it blocks. */
#ifndef LARDER_CACHE_SOURCE_TAR_READER_H
#define LARDER_CACHE_SOURCE_TAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_READ_MOST (256u << 10) /* the longest piece */

struct tar_reader {
    int fd;
    uint64_t size; /* of the file */
    uint64_t at;   /* where the bytes in buf begin */
    size_t have, step;
    uint8_t *buf;
};

/* tar_reader_begin turns to another file. A zeroed reader has none. */
void tar_reader_begin(struct tar_reader *reader, int fd, uint64_t size);
/* tar_reader_bytes returns bytes of the file, which stay until the next call. NULL: an errno, 0 where the file ends
 * before them. */
const uint8_t *tar_reader_bytes(struct tar_reader *reader, uint64_t offset, size_t len);
void tar_reader_free(struct tar_reader *reader);

#endif
