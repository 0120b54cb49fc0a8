/* wire_parts.c: the repeated parts of messages: the samples of a batch, their turns, and the names of classes. */
#include <string.h>

#include "common/little_endian.h"
#include "common/wire.h"

void wire_entry_put(uint8_t *entries, uint32_t index, const struct wire_entry *entry)
{
    uint8_t *at = entries + (size_t)index * WIRE_ENTRY_BYTES;
    at = put_u64(at, entry->offset);
    at = put_u32(at, entry->len_bytes);
    at = put_u32(at, entry->id);
    at = put_u32(at, entry->index);
    put_u32(at, (uint32_t)entry->label);
}

struct wire_entry wire_entry_get(const uint8_t *entries, uint32_t index)
{
    const uint8_t *at = entries + (size_t)index * WIRE_ENTRY_BYTES;
    return (struct wire_entry){
        .offset = get_u64(at),
        .len_bytes = get_u32(at + 8),
        .id = get_u32(at + 12),
        .index = get_u32(at + 16),
        .label = (int32_t)get_u32(at + 20),
    };
}

void wire_turn_put(uint8_t *turns, uint32_t at, const struct wire_turn *turn)
{
    put_u32(put_u32(turns + (size_t)at * WIRE_TURN_BYTES, turn->position), turn->index);
}

struct wire_turn wire_turn_get(const uint8_t *turns, uint32_t at)
{
    const uint8_t *from = turns + (size_t)at * WIRE_TURN_BYTES;
    return (struct wire_turn){.position = get_u32(from), .index = get_u32(from + 4)};
}

int wire_class_next(const struct wire_text *names, uint32_t *cursor, struct wire_text *out)
{
    uint32_t at = *cursor;
    if (at >= names->len_bytes)
        return at == names->len_bytes ? LARDER_EEND : LARDER_EFORMAT;
    uint32_t left = names->len_bytes - at;
    const uint8_t *data = (const uint8_t *)names->data + at;
    uint32_t len = left < 2 ? UINT32_MAX : get_u16(data);
    if (left < 2 || len > left - 2 || memchr(data + 2, 0, len))
        return LARDER_EFORMAT;
    *out = (struct wire_text){.data = (const char *)data + 2, .len_bytes = len};
    *cursor = at + 2 + len;
    return 0;
}

int wire_class_put(char *names, uint32_t cap, uint32_t *used, const char *name, size_t len_bytes)
{
    if (len_bytes > UINT16_MAX || *used > cap || len_bytes + 2 > cap - *used)
        return LARDER_ELIMIT;
    if (len_bytes && memchr(name, 0, len_bytes))
        return LARDER_EINVAL;
    put_u16((uint8_t *)names + *used, (uint16_t)len_bytes);
    if (len_bytes)
        memcpy(names + *used + 2, name, len_bytes);
    *used += 2 + (uint32_t)len_bytes;
    return 0;
}
