#include "preprocess/decode/planes_file.h"

#include <string.h>

#include "common/little_endian.h"

bool planes_file_open(struct planes_file *file, const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < PLANES_HEAD_BYTES || memcmp(bytes, PLANES_MAGIC, 8) != 0)
        return false;
    *file = (struct planes_file){.tables = bytes + PLANES_HEAD_BYTES,
                                 .end = bytes + len_bytes,
                                 .header_bytes = get_u32(bytes + 8),
                                 .interval = get_u16(bytes + 12),
                                 .n_tables = bytes[14]};
    size_t before = PLANES_HEAD_BYTES + (size_t)file->n_tables * PLANES_TABLE_BYTES;
    if (file->n_tables == 0 || file->n_tables > PLANES_TABLES_MAX || file->interval == 0 ||
        file->interval > PLANES_INTERVAL_MAX || bytes[15] != 0 || len_bytes < before ||
        len_bytes - before < file->header_bytes)
        return false;
    file->header = bytes + before;
    file->lengths = file->header + file->header_bytes;
    return true;
}

bool planes_file_segments(struct planes_file *file, uint64_t n_segments)
{
    uint64_t left = (uint64_t)(file->end - file->lengths), sum = 0;
    if (n_segments > left / 2)
        return false;
    for (uint64_t i = 0; i < n_segments; i++) {
        uint32_t bytes = get_u16(file->lengths + i * 2);
        if (bytes > PLANES_SEGMENT_MAX)
            return false;
        sum += bytes;
    }
    file->segments = file->lengths + n_segments * 2;
    return sum == left - n_segments * 2;
}
