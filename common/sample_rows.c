/* sample_rows.c: rows of numbers as bytes. See sample_rows.h. */
#include "common/sample_rows.h"

#include <string.h>

#include "common/little_endian.h"

size_t sample_rows_bytes(uint32_t count, uint32_t width)
{
    return SAMPLE_ROWS_HEAD_BYTES + (size_t)count * width * sizeof(double);
}

int sample_rows_read(const void *bytes, size_t len_bytes, struct sample_rows *out, struct error *err)
{
    if (len_bytes < SAMPLE_ROWS_HEAD_BYTES)
        return error_set(err, LARDER_EFORMAT, "it is no rows of numbers");
    struct sample_rows rows = {.count = get_u32(bytes), .width = get_u32((const uint8_t *)bytes + 4)};
    if (rows.count > SAMPLE_ROWS_MAX || rows.width > SAMPLE_ROW_NUMBERS_MAX ||
        len_bytes != sample_rows_bytes(rows.count, rows.width))
        return error_set(err, LARDER_EFORMAT, "it is no rows of numbers, or is damaged");
    rows.numbers = (const uint8_t *)bytes + SAMPLE_ROWS_HEAD_BYTES;
    *out = rows;
    return 0;
}

double sample_rows_at(const struct sample_rows *rows, uint32_t row, uint32_t i)
{
    uint64_t bits = get_u64((const uint8_t *)rows->numbers + ((size_t)row * rows->width + i) * sizeof bits);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void sample_rows_write(uint32_t count, uint32_t width, void *to)
{
    put_u32(put_u32(to, count), width);
}

void sample_rows_put(void *to, size_t number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u64((uint8_t *)to + SAMPLE_ROWS_HEAD_BYTES + number * sizeof bits, bits);
}
