/* test_convert: a class's JPEGs are written in planes while nothing holds the thread, each stays what it was to whoever
 * wants its bytes' pixels, and whatever has no planes stays as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>
#include <cmocka.h>

#include "common/check.h"
#include "preprocess/decode/jpeg_rewrite.h"
#include "server/storage/convert.h"
#include "tests/unit/cache/catalog/tree_maker.h"
#include "tests/unit/preprocess/images.h"

enum { SAMPLES = 6, SIDE = 160, ODD = SAMPLES - 1, OWNER = 7 };
#define SIZE (UINT64_C(8) << 20)

static const struct convert_config config = {.memory_bytes = UINT64_C(4) << 20, .scans_max = 100};
static char folder[TREE_NAME_MAX];
static struct encoded samples[SAMPLES]; /* the last one is no image */

static int set_up(void **state)
{
    (void)state;
    tree_new(folder);
    for (int i = 0; i < ODD; i++) {
        const struct jpeg_form form = {.components = 3, .h_samp = 2, .v_samp = 2, .progressive = i == 1, .quality = 90};
        uint8_t *pixels = picture(SIDE, SIDE, 3, (uint64_t)i);
        samples[i] = encode_jpeg(pixels, SIDE, SIDE, &form);
        free(pixels);
    }
    samples[ODD] = (struct encoded){(uint8_t *)xstrdup("no image"), 8};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++)
        free(samples[i].data);
    tree_remove(folder);
    return 0;
}

static struct tier_key key_of(int number)
{
    return (struct tier_key){(uint64_t)number * UINT64_C(0x9e3779b97f4a7c15), (uint64_t)number};
}

static struct tier *open_class(void)
{
    struct tier *tier = NULL;
    struct error err = {0};
    if (tier_open(folder, SIZE, &tier, &err))
        fail_msg("%s", err.text);
    return tier;
}

static void write_all(struct tier *tier)
{
    struct tier_record records[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        records[i] = (struct tier_record){key_of(i), samples[i].data, samples[i].len_bytes};
    assert_int_equal(tier_write(tier, OWNER, records, SAMPLES), SAMPLES);
}

static struct tier_stats stats_of(struct tier *tier)
{
    struct tier_stats stats;
    tier_stats(tier, &stats);
    return stats;
}

static struct convert *start(struct tier *tier, const struct convert_config *how)
{
    struct convert *convert = NULL;
    struct error err = {0};
    assert_int_equal(convert_create(tier, how, &convert, &err), 0);
    return convert;
}

static void wait_for_all(struct tier *tier)
{
    while (stats_of(tier).unmoved > 0)
        sched_yield();
}

/* Reads a sample; planes are compared with those that jpeg_rewrite_in_planes makes. */
static void check(struct tier *tier, int number, bool in_planes)
{
    size_t planes_bytes = 0;
    uint8_t *planes = jpeg_rewrite_in_planes(samples[number].data, samples[number].len_bytes, &planes_bytes);
    size_t room = planes_bytes > samples[number].len_bytes ? planes_bytes : samples[number].len_bytes;
    struct tier_read read = {
        .key = key_of(number), .bytes = samples[number].len_bytes, .buf = xmalloc(room), .room = room};
    assert_int_equal(tier_read_many(tier, &read, 1), 1);
    assert_int_equal(read.planes_bytes, in_planes ? planes_bytes : 0);
    assert_memory_equal(read.buf, in_planes ? planes : samples[number].data,
                        in_planes ? planes_bytes : samples[number].len_bytes);
    assert_int_equal(tier_find_planes(tier, key_of(number)), read.planes_bytes);
    read.room = 0; /* who takes no planes gets none */
    assert_int_equal(tier_read_many(tier, &read, 1), !in_planes);
    free(read.buf);
    free(planes);
}

static void check_all(struct tier *tier)
{
    assert_int_equal(stats_of(tier).samples, SAMPLES);
    assert_int_equal(stats_of(tier).planes, ODD);
    for (int i = 0; i < SAMPLES; i++)
        check(tier, i, i != ODD);
}

/* All JPEGs are in planes, the other sample is there once, and nothing is written again by a class that opens anew. */
static void test_all(void **state)
{
    (void)state;
    struct tier *tier = open_class();
    struct convert *convert = start(tier, &config);
    write_all(tier);
    convert_wake(convert);
    wait_for_all(tier);
    check_all(tier);
    convert_destroy(convert);
    uint64_t used_bytes = stats_of(tier).used_bytes;
    tier_close(tier);
    for (int i = 0; i < 2; i++) {
        tier = open_class();
        convert = start(tier, &config);
        convert_destroy(convert);
        assert_int_equal(stats_of(tier).unmoved, 0);
        assert_int_equal(stats_of(tier).used_bytes, used_bytes);
        check_all(tier);
        tier_close(tier);
    }
}

/* While something holds the thread nothing is written; it is afterwards. */
static void test_held(void **state)
{
    (void)state;
    struct tier *tier = open_class();
    struct convert *convert = start(tier, &config);
    convert_hold(convert, 2);
    write_all(tier);
    convert_wake(convert);
    convert_hold(convert, -1);
    convert_destroy(convert);
    assert_int_equal(stats_of(tier).unmoved, SAMPLES);
    assert_int_equal(stats_of(tier).planes, 0);
    tier_close(tier);
    tier = open_class();
    convert = start(tier, &config);
    convert_hold(convert, 1);
    convert_hold(convert, -1);
    wait_for_all(tier);
    check_all(tier);
    convert_destroy(convert);
    tier_close(tier);
}

/* Images that would take too much memory, or have too many scans, stay as they were. */
static void test_bounds(void **state)
{
    (void)state;
    struct convert_config small = config, few = config;
    small.memory_bytes = JPEG_REWRITE_PIXEL_BYTES * SIDE * SIDE - 1;
    few.scans_max = 2;
    struct tier *tier = open_class();
    write_all(tier);
    tier_close(tier);
    tier = open_class();
    struct convert *convert = start(tier, &few);
    wait_for_all(tier);
    convert_destroy(convert);
    assert_int_equal(stats_of(tier).planes, ODD - 1);
    check(tier, 0, true);
    check(tier, 1, false);
    tier_close(tier);
    tree_remove(folder);
    tree_new(folder);
    tier = open_class();
    convert = start(tier, &small);
    write_all(tier);
    convert_wake(convert);
    wait_for_all(tier);
    convert_destroy(convert);
    assert_int_equal(stats_of(tier).planes, 0);
    tier_close(tier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
