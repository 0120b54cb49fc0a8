/* test_jpeg_scaled.c: rectangles of JPEGs that libjpeg makes smaller while it decodes them. Takes a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "images.h"
#include "preprocess/decode/decode.h"

#define MEMORY_MAX ((size_t)64 << 20)

static const struct prepare_limits limits = {.pixels_max = 1 << 20, .scans_max = 20, .memory_max = MEMORY_MAX};
static uint64_t seed = 1;

/* Something to decode with. What is taken from its memory holds garbage. */
struct desk {
    struct decoder *decoder;
    struct scratch memory;
};

static void desk_begin(struct desk *desk)
{
    assert_int_equal(decoder_create(&limits, &desk->decoder), 0);
    scratch_init(&desk->memory, MEMORY_MAX, NULL);
}

static void desk_end(struct desk *desk)
{
    decoder_destroy(desk->decoder);
    scratch_free(&desk->memory);
}

static struct rect scaled_size(struct rect whole, uint32_t divisor)
{
    return (struct rect){.width = (whole.width + divisor - 1) / divisor,
                         .height = (whole.height + divisor - 1) / divisor};
}

/* Takes no more memory than it reserves: a rectangle of the image divided by `divisor`; rng NULL: all of it. */
static struct image decode(struct desk *desk, const struct encoded *jpeg, uint32_t divisor, struct rng *rng,
                           struct rect *rect, int garbage)
{
    struct decode_fault fault;
    struct image image;
    struct rect whole;
    scratch_reset(&desk->memory);
    assert_int_equal(scratch_expect(&desk->memory, MEMORY_MAX / 16), 0);
    memset(scratch_take(&desk->memory, MEMORY_MAX / 16), garbage, MEMORY_MAX / 16);
    scratch_reset(&desk->memory);
    assert_int_equal(decode_open(desk->decoder, jpeg->data, jpeg->len_bytes, &desk->memory, &whole, &fault), 0);
    assert_int_equal(decode_scale(desk->decoder, divisor), divisor);
    *rect = scaled_size(whole, divisor);
    if (rng) {
        rect->x = (uint32_t)random_below(rng, rect->width), rect->y = (uint32_t)random_below(rng, rect->height);
        rect->width = 1 + (uint32_t)random_below(rng, rect->width - rect->x);
        rect->height = 1 + (uint32_t)random_below(rng, rect->height - rect->y);
    }
    assert_int_equal(decode_reserve(desk->decoder, *rect, &fault), 0);
    assert_int_equal(decode_region(desk->decoder, *rect, &image, &fault), 0);
    assert_true(desk->memory.taken_bytes <= desk->memory.expected_bytes);
    decode_close(desk->decoder);
    return image;
}

static void compare_some(const struct encoded *jpeg, uint32_t divisor, struct rng *rng)
{
    struct desk desks[2];
    struct rect all, part;
    desk_begin(&desks[0]), desk_begin(&desks[1]);
    struct image expected = decode(&desks[0], jpeg, divisor, NULL, &all, 0);
    for (int draw = 0; draw < 30; draw++) {
        struct image got = decode(&desks[1], jpeg, divisor, rng, &part, draw);
        for (uint32_t y = 0; y < part.height; y++)
            assert_memory_equal(image_row(&got, y), image_row(&expected, part.y + y) + (size_t)part.x * IMAGE_CHANNELS,
                                (size_t)part.width * IMAGE_CHANNELS);
    }
    desk_end(&desks[0]), desk_end(&desks[1]);
}

/* Proves: whatever the sampling and the divisor, a rectangle has the pixels of the whole scaled image, also where
 * libjpeg scales chroma less than luma. */
static void test_rectangles(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0},  {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 80, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {3, 4, 2, false, 80, -3, 0}, {3, 2, 4, false, 80, 2, 0}, {3, 2, 4, true, 80, 0, 0},
        {3, 4, 2, true, 80, 0, 0},  {1, 1, 1, false, 90, 0, 0},  {4, 1, 1, false, 75, 0, 0}, {3, 2, 2, true, 90, -5, 0},
        {3, 1, 1, true, 99, 0, 0},  {1, 1, 1, true, 80, 0, 0},   {4, 1, 1, true, 75, 0, 0},
    };
    struct rng rng;
    random_seed(&rng, seed);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        uint8_t *pixels = picture(227, 139, (unsigned)forms[f].components, f);
        struct encoded jpeg = encode_jpeg(pixels, 227, 139, &forms[f]);
        for (uint32_t divisor = 1; divisor <= 8; divisor *= 2)
            compare_some(&jpeg, divisor, &rng);
        encoded_free(&jpeg);
        free(pixels);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rectangles)};
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
