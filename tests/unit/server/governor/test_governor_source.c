/* test_governor_source.c: how many reads at once a source may have, found by trying. */
#include "server/governor/source.h"

#include "common/random.h"
#include "tests/unit/server/governor/governor_scene.h"

enum { ALL = 40 };

/* A window of reads, as many at once as are allowed, of a source that serves no more than `parallel` at once. */
static uint32_t window(struct governor_source *source, uint32_t allowed, uint32_t parallel, double wait_s)
{
    double seconds = allowed > parallel ? wait_s * allowed / parallel : wait_s;
    for (int i = 0; i < 60; i++)
        governor_source_read(source, &(struct governor_read){seconds, 1, allowed, 0});
    return governor_source_decide(source, ALL, NEED_LASTING);
}

/* A saturated source is allowed about as many reads as it serves at once, whatever that number is, found in few
 * windows; one that only lets wait is allowed all. */
static void test_found(void **state)
{
    (void)state;
    for (uint32_t parallel = 2; parallel <= ALL; parallel += 2) {
        struct governor_source source = {.cap = 0};
        uint32_t allowed = ALL;
        for (int i = 0; i < 30; i++)
            allowed = window(&source, allowed, parallel, 0.020);
        uint32_t settled = source.cap ? source.cap : ALL;
        if (parallel > 36)
            assert_int_equal(settled, ALL);
        else
            assert_true(settled >= parallel * 4 / 5 && settled <= parallel * 4 / 3 + 2);
    }
}

/* Of a source that only lets wait fewer reads are tried in no more than three of a thousand windows. */
static void test_tries_are_rare(void **state)
{
    (void)state;
    struct governor_source source = {.cap = 0};
    uint32_t allowed = ALL, fewer = 0;
    for (int i = 0; i < 1000; i++) {
        allowed = window(&source, allowed, 1000, 0.020);
        fewer += allowed < ALL;
    }
    assert_true(fewer >= 1 && fewer <= 3);
}

/* Without a reason nothing is tried: reads beside many others come as fast as those beside few, or nobody waits. Where
 * they do not and somebody does, half as many are tried at once. */
static void test_reasons(void **state)
{
    (void)state;
    for (int slower = 0; slower <= 2; slower++) {
        struct governor_source source = {.cap = 0};
        enum governor_need need = slower < 2 ? NEED_NOW : NEED_NONE;
        assert_int_equal(governor_source_decide(&source, ALL, need), ALL);
        for (int i = 0; i < 20; i++) {
            governor_source_read(&source, &(struct governor_read){0.010, 1, 4, 0});
            governor_source_read(&source, &(struct governor_read){slower ? 0.090 : 0.010, 1, 36, 0});
        }
        assert_int_equal(governor_source_decide(&source, ALL, need), slower == 1 ? 10 : ALL);
    }
}

/* Storage with bursts, of the length of a few windows or of many, is not taken for saturated: in few windows it is
 * allowed fewer reads. */
static void test_bursts(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed());
    for (uint32_t length = 2; length <= 32; length *= 2) {
        struct governor_source source = {.cap = 0};
        uint32_t allowed = ALL, fewer = 0, left = 0;
        bool burst = false;
        for (int i = 0; i < 2000; i++) {
            if (left-- == 0) {
                burst = !burst;
                left = 1 + (uint32_t)random_below(&rng, 2 * length);
            }
            allowed = window(&source, allowed, 1000, burst ? 0.080 : 0.020);
            fewer += allowed < ALL;
        }
        if (fewer > 100)
            fail_msg("bursts of %u windows: fewer allowed in %u of 2000", length, fewer);
    }
}

/* Reads so slow that each window sees two of them are told from others too. */
static void test_slow_reads(void **state)
{
    (void)state;
    for (int saturated = 0; saturated <= 1; saturated++) {
        struct governor_source source = {.cap = 0};
        uint32_t allowed = ALL;
        for (int i = 0; i < 600; i++) {
            for (int k = 0; k < 2; k++)
                governor_source_read(&source, &(struct governor_read){
                                                  saturated && allowed > 8 ? 4.0 * allowed / 8 : 4.0, 1, allowed, 0});
            allowed = governor_source_decide(&source, ALL, NEED_LASTING);
        }
        uint32_t settled = source.cap ? source.cap : ALL;
        assert_true(saturated ? settled >= 6 && settled <= 12 : settled == ALL);
    }
}

/* A source that was saturated and no longer is gets all reads again soon, and one that comes to be is found out. */
static void test_changes(void **state)
{
    (void)state;
    struct governor_source source = {.cap = 0};
    uint32_t allowed = ALL;
    for (int i = 0; i < 40; i++)
        allowed = window(&source, allowed, 8, 0.020);
    assert_true(source.cap >= 6 && source.cap <= 12);
    for (int i = 0; i < 120; i++)
        allowed = window(&source, allowed, 1000, 0.020);
    assert_int_equal(source.cap, 0);
    for (int i = 0; i < 300; i++)
        allowed = window(&source, allowed, 8, 0.020);
    assert_true(source.cap >= 6 && source.cap <= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),  cmocka_unit_test(test_tries_are_rare), cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_bursts), cmocka_unit_test(test_slow_reads),     cmocka_unit_test(test_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
