#include "preprocess/decode/planes.h"

#include <string.h>

#include "common/cpu.h"
#include "preprocess/decode/planes_priv.h"

const uint8_t planes_natural[PLANES_PLACES] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                               12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                               35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                               58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

const _Alignas(64) uint16_t planes_zigzag[PLANES_PLACES] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};

planes_extract_fn *planes_extract = planes_extract_portable;
static planes_read_fn *read_mcus = planes_read_portable;

static planes_read_fn *available(enum planes_simd simd)
{
#if defined(__x86_64__)
    if (simd == PLANES_AVX512 && cpu_has(CPU_BITS | CPU_AVX2 | CPU_AVX512))
        return planes_read_avx512;
    if (simd == PLANES_AVX2 && cpu_has(CPU_BITS | CPU_AVX2))
        return planes_read_avx2;
#endif
    return simd == PLANES_PORTABLE ? planes_read_portable : NULL;
}

bool planes_use(enum planes_simd simd)
{
    planes_read_fn *wanted = available(simd);
    if (!wanted)
        return false;
    read_mcus = wanted;
    planes_extract = planes_extract_portable;
#if defined(__x86_64__)
    if (simd != PLANES_PORTABLE)
        planes_extract = planes_extract_bmi2;
#endif
    return true;
}

void planes_select(void)
{
    for (int simd = PLANES_SIMDS - 1; simd >= 0; simd--) {
        if (planes_use((enum planes_simd)simd))
            return;
    }
}

bool planes_read(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                 uint32_t count)
{
    return read_mcus(segment, mcu, skip, column, count);
}

bool planes_done(const struct planes_segment *segment)
{
    uint64_t left = segment->end - segment->at;
    return segment->at <= segment->end && left < 8 &&
           (left == 0 || segment->bytes[segment->at >> 3] >> (segment->at & 7) == 0);
}

void planes_complete(struct planes_class *kind)
{
    uint32_t blank = 0;
    memset(kind->low, 0, sizeof kind->low);
    kind->low[0] = 1;
    for (uint32_t place = 0; place < PLANES_PLACES; place++) {
        kind->units[place] = (uint8_t)(1u << kind->shifts[place]);
        kind->narrow[place] = (uint8_t)kind->shifts[place];
        blank += place ? kind->shifts[place] + 1u : 0;
        kind->blank[place] = (uint16_t)blank;
        for (uint32_t i = 0; i < kind->shifts[place]; i++)
            kind->low[i] |= UINT64_C(1) << place;
    }
}

bool planes_table_read(struct planes_table *table, const uint8_t *bytes)
{
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        struct planes_class *kind = &table->classes[c];
        kind->last_shift = *bytes++;
        kind->dc_shift = bytes[0] & 15;
        if (kind->last_shift < PLANES_LAST_SHIFT_MIN || kind->last_shift > PLANES_LAST_SHIFT_MAX ||
            kind->dc_shift > PLANES_DC_SHIFT_MAX)
            return false;
        for (uint32_t place = 0; place < PLANES_PLACES; place++) {
            kind->shifts[place] = place ? bytes[place / 2] >> place % 2 * 4 & 15 : 0;
            if (kind->shifts[place] > PLANES_SHIFT_MAX)
                return false;
        }
        bytes += PLANES_PLACES / 2;
        planes_complete(kind);
    }
    return true;
}

void planes_table_write(const struct planes_table *table, uint8_t *bytes)
{
    memset(bytes, 0, PLANES_TABLE_BYTES);
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        const struct planes_class *kind = &table->classes[c];
        *bytes++ = (uint8_t)kind->last_shift;
        bytes[0] = (uint8_t)kind->dc_shift;
        for (uint32_t place = 1; place < PLANES_PLACES; place++)
            bytes[place / 2] |= (uint8_t)(kind->shifts[place] << place % 2 * 4);
        bytes += PLANES_PLACES / 2;
    }
}
