/* tar_reader.c: reads pieces of a shard. See tar_reader.h. */
#include "cache/source/tar_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "cache/file.h"

#define READ_LEAST 4096

void tar_reader_begin(struct tar_reader *reader, int fd, uint64_t size)
{
    reader->fd = fd;
    reader->size = size;
    reader->at = 0;
    reader->have = 0;
    reader->step = READ_LEAST;
}

const uint8_t *tar_reader_bytes(struct tar_reader *reader, uint64_t offset, size_t len)
{
    uint64_t end = reader->at + reader->have;
    if (offset >= reader->at && offset <= end && len <= end - offset)
        return reader->buf + (offset - reader->at);
    errno = 0;
    if (len > TAR_READ_MOST || offset > reader->size || len > reader->size - offset)
        return NULL;
    if (!reader->buf && !(reader->buf = malloc(TAR_READ_MOST)))
        return NULL;
    bool near = offset >= reader->at && offset < end + reader->step;
    reader->step = !near ? READ_LEAST : reader->step < TAR_READ_MOST ? reader->step * 2 : TAR_READ_MOST;
    size_t wanted = reader->step > len ? reader->step : len;
    if (wanted > reader->size - offset)
        wanted = (size_t)(reader->size - offset);
    reader->have = 0;
    if (file_read_at(reader->fd, reader->buf, wanted, offset))
        return NULL;
    reader->at = offset;
    reader->have = wanted;
    return reader->buf;
}

void tar_reader_free(struct tar_reader *reader)
{
    free(reader->buf);
    *reader = (struct tar_reader){0};
}
