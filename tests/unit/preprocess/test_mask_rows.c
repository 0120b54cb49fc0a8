/* test_mask_rows: the numbers of a mask's pixels, by every version of the loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preprocess/image.h"
#include "preprocess/mask_rows.h"
#include "preprocess/simd.h"

enum { MOST = 200, FILL = -7 };

static const struct mask_rows *const versions[] = SIMD_TABLES(mask_rows);

/* A row whose every fifth pixel is outside of the image, among numbers of 16 bits. The greatest number has a pixel that
 * differs from those in the last byte alone. */
static void make_row(uint8_t *row, int32_t *numbers)
{
    for (int i = 0; i < MOST; i++) {
        uint8_t *pixel = row + (size_t)i * IMAGE_CHANNELS;
        if (i % 5 == 0) {
            memset(pixel, MASK_FILLED, IMAGE_CHANNELS);
            numbers[i] = FILL;
            continue;
        }
        numbers[i] = i % 5 == 1 ? 0xffff : i * 300;
        pixel[0] = (uint8_t)numbers[i];
        pixel[1] = (uint8_t)(numbers[i] >> 8);
        pixel[2] = 0;
    }
}

/* Proves: each version makes of a row of any length the numbers that its pixels stand for, as wide as they are asked
 * for, and writes nothing behind them. */
static void test_numbers(void **state)
{
    (void)state;
    uint8_t row[MOST * IMAGE_CHANNELS];
    int32_t numbers[MOST];
    make_row(row, numbers);
    for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
        if (!simd_use((enum simd)simd))
            continue;
        for (uint32_t count = 1; count < MOST; count++) {
            uint8_t bytes[MOST];
            int32_t words[MOST];
            int64_t longs[MOST];
            bytes[count] = 0xa5, words[count] = longs[count] = 0xa5;
            versions[simd]->bytes(row, count, FILL, bytes);
            versions[simd]->words(row, count, FILL, words);
            versions[simd]->longs(row, count, FILL, longs);
            for (uint32_t i = 0; i < count; i++)
                assert_true(bytes[i] == (uint8_t)numbers[i] && words[i] == numbers[i] && longs[i] == numbers[i]);
            assert_true(bytes[count] == 0xa5 && words[count] == 0xa5 && longs[count] == 0xa5);
        }
    }
    simd_select();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
