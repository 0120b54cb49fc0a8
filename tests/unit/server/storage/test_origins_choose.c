/* test_origins_choose: curves say what was measured, and reads go to where they take the least time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/storage/origins_priv.h"

#define MB 1000000

static void assert_about(double value, double expected)
{
    if (value < expected * 0.99 || value > expected * 1.01)
        fail_msg("%g is not about %g", value, expected);
}

/* A curve is constant below the first and above the last number of reads that was measured, and linear between; what
 * nobody has measured is not known. */
static void test_curve(void **state)
{
    (void)state;
    struct curve curve = {.seen = {0}};
    assert_true(curve_at(&curve, 1) == 0);
    for (int i = 0; i < 50; i++) {
        curve_note(&curve, 2, MB, 0.02); /* two reads, each 50 MB/s */
        curve_note(&curve, 8, MB, 0.04); /* eight reads, each 25 MB/s */
    }
    assert_about(curve_at(&curve, 1), 100 * MB);
    assert_about(curve_at(&curve, 2), 100 * MB);
    assert_about(curve_at(&curve, 5), 150 * MB);
    assert_about(curve_at(&curve, 8), 200 * MB);
    assert_about(curve_at(&curve, 100), 200 * MB);
}

/* One read that took very long changes a curve by less than half, and what lasts changes it wholly. */
static void test_hiccup(void **state)
{
    (void)state;
    struct curve curve = {.seen = {0}};
    for (int i = 0; i < 50; i++)
        curve_note(&curve, 1, MB, 0.01);
    curve_note(&curve, 1, MB, 100);
    assert_true(curve_at(&curve, 1) > 50 * MB);
    for (int i = 0; i < 200; i++)
        curve_note(&curve, 1, MB, 0.1);
    assert_about(curve_at(&curve, 1), 10 * MB);
    curve_note(&curve, 1, 0, 1);
    curve_note(&curve, 1, MB, 0);
    assert_about(curve_at(&curve, 1), 10 * MB);
}

static struct origins *make(double class_s, double source_s)
{
    struct origins *origins = xcalloc(1, sizeof *origins);
    origins->n_classes = 1;
    origins->classes[0].threads = 4;
    uint32_t source = origins_source_locked(origins, 7);
    for (int i = 0; i < 20 && class_s > 0; i++)
        curve_note(&origins->classes[0].origin.curve, 1, MB, class_s);
    for (int i = 0; i < 20 && source_s > 0; i++)
        curve_note(&origins->sources[source].curve, 1, MB, source_s);
    return origins;
}

static uint32_t count_chosen(struct origins *origins, uint32_t reads)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < reads; i++)
        chosen += origins_choose_locked(origins, &origins->classes[0], 7, MB);
    return chosen;
}

/* The class is read from unless the source is clearly quicker; then it is left alone but for a few reads, until they
 * find that it has become quicker. */
static void test_choice(void **state)
{
    (void)state;
    static const struct {
        double class_s, source_s;
        uint32_t chosen; /* of 640 */
        bool left_alone;
    } cases[] = {{0.001, 0.05, 640, false},
                 {0.010, 0.009, 640, false},
                 {0.010, 0.001, 20, true},
                 {0, 0.001, 640, false},  /* nothing is known of the class: it is tried */
                 {0.001, 0, 630, false}}; /* nothing is known of the source: it is tried now and then */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct origins *origins = make(cases[i].class_s, cases[i].source_s);
        assert_int_equal(count_chosen(origins, 640), cases[i].chosen);
        assert_int_equal(origins_left_alone(&origins->classes[0]), cases[i].left_alone);
        for (int n = 0; n < 200; n++)
            curve_note(&origins->classes[0].origin.curve, 1, MB, 0.0001);
        count_chosen(origins, 1);
        assert_false(origins_left_alone(&origins->classes[0]));
        free(origins);
    }
}

/* A class that is left alone is written to again once the source is slower, though it may have no sample to be read. */
static void test_fills(void **state)
{
    (void)state;
    struct origins *origins = make(0.01, 0.001);
    struct origin_class *class = &origins->classes[0];
    assert_true(origins_fills_locked(origins, class, 7, MB));
    count_chosen(origins, 20);
    assert_false(origins_fills_locked(origins, class, 7, MB));
    for (int n = 0; n < 200; n++)
        curve_note(&origins->sources[0].curve, 1, MB, 0.1);
    assert_true(origins_fills_locked(origins, class, 7, MB));
    assert_false(origins_left_alone(class));
    free(origins);
}

/* What is under way counts: a class that has much to do gives a read to an idle source, and the other way round. */
static void test_under_way(void **state)
{
    (void)state;
    struct origins *origins = make(0.01, 0.02);
    struct origin *class = &origins->classes[0].origin;
    assert_int_equal(count_chosen(origins, 1), 1);
    class->under_way = 4;
    class->bytes_under_way = 4 * MB;
    assert_int_equal(count_chosen(origins, 1), 0);
    origins->sources[0].under_way = 4;
    origins->sources[0].bytes_under_way = 4 * MB;
    assert_int_equal(count_chosen(origins, 1), 1);
    free(origins);
}

/* More sources than there are places share the last. */
static void test_sources(void **state)
{
    (void)state;
    struct origins *origins = make(0, 0);
    for (uint64_t device = 100; device < 150; device++)
        assert_true(origins_source_locked(origins, device) < ORIGIN_SOURCES_MAX);
    assert_int_equal(origins_source_locked(origins, 7), 0);
    assert_int_equal(origins_source_locked(origins, 149), ORIGIN_SOURCES_MAX - 1);
    free(origins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curve), cmocka_unit_test(test_hiccup),    cmocka_unit_test(test_choice),
        cmocka_unit_test(test_fills), cmocka_unit_test(test_under_way), cmocka_unit_test(test_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
