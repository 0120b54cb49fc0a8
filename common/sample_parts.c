/* sample_parts.c: the head of a sample that has several parts. See sample_parts.h. */
#include "common/sample_parts.h"

#include <string.h>

#include "common/little_endian.h"

#define MAGIC "\x93LRDPRT\n"
#define MAGIC_BYTES 8
#define HEAD_BYTES 16
#define ROW_BYTES (SAMPLE_NAME_BYTES + 8)

bool sample_part_is_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return name[0] >= 'a' && name[0] <= 'z' && name[len] == 0 && len < SAMPLE_NAME_BYTES;
}

bool sample_parts_are(const void *bytes, size_t len_bytes)
{
    return len_bytes >= HEAD_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

/* Whether a name is sound: it ends, and no other part before it has it. */
static bool is_new_name(const struct sample_parts *parts, uint32_t number)
{
    const char *name = parts->parts[number].name;
    bool is = name[SAMPLE_NAME_BYTES - 1] == 0 && sample_part_is_name(name);
    for (uint32_t i = 0; is && i < number; i++)
        is = strcmp(parts->parts[i].name, name) != 0;
    return is;
}

int sample_parts_read(const void *bytes, size_t len_bytes, struct sample_parts *out, struct error *err)
{
    const uint8_t *at = (const uint8_t *)bytes + MAGIC_BYTES;
    struct sample_parts parts = {.n = get_u32(at)};
    if (parts.n == 0 || parts.n > SAMPLE_PARTS_MAX || len_bytes < HEAD_BYTES + (size_t)parts.n * ROW_BYTES)
        return error_set(err, LARDER_EFORMAT, "its head says that it has %u parts: it is damaged", parts.n);
    at += HEAD_BYTES - MAGIC_BYTES;
    uint64_t left = len_bytes - (HEAD_BYTES + (uint64_t)parts.n * ROW_BYTES);
    for (uint32_t i = 0; i < parts.n; i++, at += ROW_BYTES) {
        struct sample_part *part = &parts.parts[i];
        memcpy(part->name, at, SAMPLE_NAME_BYTES);
        part->bytes = get_u64(at + SAMPLE_NAME_BYTES);
        if (!is_new_name(&parts, i) || part->bytes > left)
            return error_set(err, LARDER_EFORMAT, "its head is damaged at part %u of %u", i, parts.n);
        left -= part->bytes;
    }
    if (left)
        return error_set(err, LARDER_EFORMAT, "its parts end %llu bytes before it does: it is damaged",
                         (unsigned long long)left);
    sample_parts_place(&parts);
    *out = parts;
    return 0;
}

uint64_t sample_parts_place(struct sample_parts *parts)
{
    uint64_t end = HEAD_BYTES + (uint64_t)parts->n * ROW_BYTES;
    for (uint32_t i = 0; i < parts->n; i++) {
        parts->parts[i].offset = end;
        end += parts->parts[i].bytes;
    }
    return end;
}

void sample_parts_write(const struct sample_parts *parts, void *to)
{
    uint8_t *at = to;
    memcpy(at, MAGIC, MAGIC_BYTES);
    at = put_u32(put_u32(at + MAGIC_BYTES, parts->n), 0);
    for (uint32_t i = 0; i < parts->n; i++) {
        memcpy(at, parts->parts[i].name, SAMPLE_NAME_BYTES);
        at = put_u64(at + SAMPLE_NAME_BYTES, parts->parts[i].bytes);
    }
}
