/* `larder plan` from measurements on: curves and what shares them, runs in virtual time whose figures can be worked out
 * by hand, which settings are tried, and what is advised. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "server/plan/plan_station.h"

enum { SAMPLES = 2048, BYTES = 100000, SLOT = 150528 };

#define MIB (UINT64_C(1) << 20)
#define DATASET_BYTES ((uint64_t)SAMPLES * BYTES)

static uint64_t sizes[SAMPLES];

/* A source of 20 MB/s, an SSD of 500, and workers that prepare 1,000 samples a second: reading is the limit. */
static struct plan_case some_case(void)
{
    struct plan_case plan = {.samples = SAMPLES,
                             .dataset_bytes = DATASET_BYTES,
                             .played = SAMPLES,
                             .sizes = sizes,
                             .chunk = 64,
                             .slot_bytes = SLOT,
                             .class_writes_per_s = 500e6,
                             .workers = 2,
                             .loaders = 8,
                             .redirect_width = PLAN_WIDTH_HALF,
                             .quota_share = 0.5,
                             .jobs = 1,
                             .epochs = 3,
                             .batch = 64,
                             .prefetch = 2,
                             .seed = 7,
                             .runs = 1};
    for (uint32_t i = 0; i < SAMPLES; i++)
        sizes[i] = BYTES;
    plan_curve_add(&plan.source, 1, 20e6);
    plan_curve_add(&plan.class, 1, 500e6);
    plan_curve_add(&plan.preparing, 1, 500);
    plan_curve_add(&plan.preparing, 2, 1000);
    return plan;
}

static const struct plan_setting little = {.encoded_bytes = 16 * MIB, .arena_bytes = 128 * MIB};
static const struct plan_setting enough = {.encoded_bytes = 300 * MIB, .arena_bytes = 128 * MIB};

static struct plan_row play(const struct plan_case *plan, struct plan_setting setting)
{
    struct plan_row row;
    struct error err = {.text = ""};
    if (plan_play(plan, &setting, &row, &err))
        fail_msg("%s", err.text);
    return row;
}

static void near(double value, double expected, double part)
{
    if (fabs(value - expected) > part * expected + 1e-9)
        fail_msg("%g is not within %g of %g", value, part, expected);
}

/* A curve is linear between its points, constant outside, and takes no point that is no rate or out of order. */
static void test_curves(void **state)
{
    (void)state;
    struct plan_curve curve = {0};
    assert_true(plan_curve_at(&curve, 1) == 0);
    plan_curve_add(&curve, 1, 100);
    plan_curve_add(&curve, 1, 500);
    plan_curve_add(&curve, 4, 0);
    plan_curve_add(&curve, 4, 400);
    assert_int_equal(curve.count, 2);
    near(plan_curve_at(&curve, 0.5), 100, 0);
    near(plan_curve_at(&curve, 2), 200, 1e-12);
    near(plan_curve_at(&curve, 90), 400, 0);
}

/* What is under way shares the rate, and what comes later slows it down from then on. */
static void test_station(void **state)
{
    (void)state;
    struct plan_curve curve = {0};
    struct plan_station station = {.curve = &curve};
    plan_curve_add(&curve, 1, 100);
    assert_true(station_next_ns(&station) == UINT64_MAX);
    station_begin(&station, 0, 1, 100);
    assert_true(station_next_ns(&station) == CLOCK_NS_PER_S);
    near(station_takes_s(&station, 50), 1.5, 1e-9);
    station_begin(&station, CLOCK_NS_PER_S / 2, 2, 100); /* the first has 50 left and gets half of the rate */
    assert_true(station_next_ns(&station) == 3 * CLOCK_NS_PER_S / 2);
    assert_int_equal(station_end(&station), 1);
    assert_true(station_next_ns(&station) == 2 * CLOCK_NS_PER_S);
    assert_int_equal(station_end(&station), 2);
    assert_true(station_next_ns(&station) == UINT64_MAX);
    station_free(&station);
}

/* An epoch that reading limits takes as long as the source needs for the bytes; one that memory has whole takes as long
 * as preparing, and reads nothing. Each sample comes once, and is decoded once for all jobs in step. */
static void test_limits(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_row reading = play(&plan, little), preparing = play(&plan, enough);
    struct plan_rates first = plan_rates(&plan, &preparing.first), later = plan_rates(&plan, &preparing.later);
    assert_int_equal(reading.first.delivered + reading.later.delivered, 3 * SAMPLES);
    near((double)(reading.first.took_s + reading.later.took_s), 3 * DATASET_BYTES / 20e6, 0.06);
    near(first.source, 1, 0);
    assert_true(later.source == 0);
    near(later.epoch_s, SAMPLES / 1000.0, 0.05);
    near(later.decoded, 1, 0.1);
    assert_int_equal(plan_limit(&plan, &reading), PLAN_READING);
    assert_int_equal(plan_limit(&plan, &preparing), PLAN_PREPARING);
    plan.jobs = 4;
    reading = play(&plan, little);
    assert_int_equal(reading.first.delivered + reading.later.delivered, 12 * SAMPLES);
    near((double)(reading.first.decoded + reading.later.decoded), 3 * SAMPLES, 0.03);
}

/* With memory for all forms, epochs after the first decode nothing, and take the part of the time that a form leaves.
 * With memory for the files alone, hardly a form is made. */
static void test_forms(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    plan.forms = (struct plan_forms){.ratio = 2.5, .making = 1.5, .of_form = 0.25};
    struct plan_setting all = enough, files = enough;
    all.encoded_bytes = 4 * (uint64_t)DATASET_BYTES;
    files.encoded_bytes = (uint64_t)(1.02 * DATASET_BYTES);
    struct plan_row row = play(&plan, all), without = play(&plan, files);
    struct plan_rates later = plan_rates(&plan, &row.later);
    near((double)(row.first.decoded + row.later.decoded), SAMPLES, 0.03);
    near((double)(row.first.from_decoded + row.later.from_decoded), 2 * SAMPLES, 0.03);
    near(later.epoch_s, 0.25 * SAMPLES / 1000.0, 0.1);
    near(later.of_forms, 1, 0.03);
    near(later.core_ms / plan_rates(&plan, &without.later).core_ms, 0.25, 0.1);
    assert_true(without.first.from_decoded + without.later.from_decoded < SAMPLES / 10);
}

/* Steps that take much longer than reading hide it. Steps that take half as long leave the other half as a stall. */
static void test_steps(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    double read_s = 64 * BYTES / 20e6; /* of a batch */
    plan.step_s = read_s * 3;
    struct plan_row row = play(&plan, little);
    assert_true(plan_rates(&plan, &row.later).stall < 0.02);
    assert_int_equal(plan_limit(&plan, &row), PLAN_TRAINING);
    plan.step_s = read_s / 2;
    row = play(&plan, little);
    near(plan_rates(&plan, &row.later).stall, 0.5, 0.1);
}

/* A class for the whole dataset spares the source from the second epoch on, one for half of it half. One that is slower
 * than the source is left alone, but for a few samples while the source is busy. */
static void test_class(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_setting setting = {.encoded_bytes = 64 * MIB, .arena_bytes = 128 * MIB, .class_bytes = 220 * MIB};
    struct plan_row row = play(&plan, setting);
    assert_true(plan_rates(&plan, &row.later).source < 0.1);
    assert_true(plan_rates(&plan, &row.later).class > 0.5);
    setting.class_bytes = DATASET_BYTES / 2;
    row = play(&plan, setting);
    double source = plan_rates(&plan, &row.later).source;
    assert_true(source > 0.2 && source < 0.6);
    plan.class = (struct plan_curve){0};
    plan_curve_add(&plan.class, 1, 1e6);
    row = play(&plan, setting);
    assert_true(row.later.class_bytes + row.first.class_bytes <= DATASET_BYTES / 100);
}

/* Prepared samples of a pipeline without chance stay, so later epochs prepare nothing. Those of others are made
 * anew. */
static void test_repeatable(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_setting setting = {.encoded_bytes = 64 * MIB, .arena_bytes = 400 * MIB};
    plan.repeatable = true;
    struct plan_row row = play(&plan, setting);
    assert_int_equal(row.first.prepared + row.later.prepared, SAMPLES);
    plan.repeatable = false;
    row = play(&plan, setting);
    assert_int_equal(row.first.prepared + row.later.prepared, 3 * SAMPLES);
}

/* Encoded samples that are delivered as they are: nothing is decoded. */
static void test_raw(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    plan.slot_bytes = 0;
    struct plan_row row = play(&plan, little);
    assert_int_equal(row.first.delivered + row.later.delivered, 3 * SAMPLES);
    assert_int_equal(row.first.decoded + row.later.decoded, 0);
}

/* A part of a large dataset, with as much less memory, gives the figures of the whole. */
static void test_part(void **state)
{
    (void)state;
    struct plan_case whole = some_case(), part = some_case();
    part.samples = 10 * SAMPLES;
    part.dataset_bytes = 10 * DATASET_BYTES;
    part.batch = 640;
    struct plan_setting setting = {.encoded_bytes = 120 * MIB, .arena_bytes = 128 * MIB},
                        tenfold = {.encoded_bytes = 1200 * MIB, .arena_bytes = 1280 * MIB};
    struct plan_row one = play(&whole, setting), ten = play(&part, tenfold);
    struct plan_rates of_one = plan_rates(&whole, &one.later), of_ten = plan_rates(&part, &ten.later);
    near(of_ten.source, of_one.source, 0.02);
    near(of_ten.epoch_s, 10 * of_one.epoch_s, 0.05);
}

/* Jobs that begin together have their parts of the arena before one of them asks. None of them looks ahead with what
 * the next one takes back, so next to nothing is decoded twice. */
static void test_together(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_setting setting = {.encoded_bytes = 300 * MIB, .arena_bytes = 100 * MIB};
    plan.jobs = 4;
    plan.step_s = 0.64;
    plan.runs = 8;
    struct plan_row row = play(&plan, setting);
    near((double)row.first.decoded, SAMPLES, 0.02);
}

/* The same case gives the same row, and a row of several runs is their mean. */
static void test_same(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    plan.jobs = 3;
    plan.apart = 0.3;
    struct plan_row one = play(&plan, little), two = play(&plan, little);
    assert_memory_equal(&one.first, &two.first, sizeof one.first);
    assert_memory_equal(&one.later, &two.later, sizeof one.later);
    plan.seed++;
    two = play(&plan, little);
    plan.seed--;
    plan.runs = 2;
    struct plan_row both = play(&plan, little);
    near(both.later.stall_s, (one.later.stall_s + two.later.stall_s) / 2, 1e-9);
    near((double)both.first.source_bytes, (double)(one.first.source_bytes + two.first.source_bytes) / 2, 1e-6);
    assert_int_equal(both.later.epochs, one.later.epochs);
    assert_int_equal(both.runs, 2);
    double apart_s = one.first.stall_s + one.later.stall_s - two.first.stall_s - two.later.stall_s;
    near(both.stall_sd_s, fabs(apart_s) / sqrt(2), 1e-6);
    assert_true(both.stall_sd_s > 0 && one.stall_sd_s == 0);
}

/* Runs end when the mean stall is certain: soon where chance decides little, late or never where it decides much. */
static void test_runs(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    plan.runs = 200;
    assert_int_equal(play(&plan, little).runs, 8);
    plan.samples = plan.played = 512;
    plan.dataset_bytes = (uint64_t)512 * BYTES;
    plan.jobs = 4;
    plan.batch = 50;
    plan.step_s = 0.4;
    struct plan_setting chance = {.encoded_bytes = 10 * MIB, .arena_bytes = 128 * MIB};
    struct plan_row row = play(&plan, chance);
    assert_in_range(row.runs, 9, 199);
    assert_true(row.stall_sd_s / sqrt(row.runs) <= 0.03 * (row.first.stall_s + row.later.stall_s));
    plan.runs = row.runs - 1;
    assert_int_equal(play(&plan, chance).runs, plan.runs);
}

static uint32_t try_all(const struct plan_case *plan, const struct plan_machine *machine,
                        struct plan_row rows[PLAN_ROWS_MAX])
{
    struct plan_setting settings[PLAN_ROWS_MAX];
    uint32_t count = plan_settings(plan, machine, NULL, 0, settings);
    for (uint32_t i = 0; i < count; i++)
        rows[i] = play(plan, settings[i]);
    return count;
}

/* Where reading is the limit and the machine has the memory, memory for all is advised; where it has not, a class. */
static void test_advice_reading(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_machine machine = {.now = little, .room_bytes = 2000 * MIB};
    struct plan_row rows[PLAN_ROWS_MAX];
    struct plan_advice advice = plan_advise(&plan, rows, try_all(&plan, &machine, rows));
    assert_int_equal(advice.now, PLAN_READING);
    assert_true(rows[advice.row].setting.encoded_bytes > DATASET_BYTES);
    assert_true(rows[advice.row].setting.class_bytes == 0);
    assert_true(advice.saved > 0.5);
    assert_int_equal(advice.sparing, advice.row);
    machine.room_bytes = 150 * MIB;
    advice = plan_advise(&plan, rows, try_all(&plan, &machine, rows));
    assert_true(rows[advice.row].setting.class_bytes >= DATASET_BYTES);
    assert_true(rows[advice.row].setting.encoded_bytes == little.encoded_bytes);
}

/* Where preparing is the limit nothing is advised; what would spare the source is named all the same. */
static void test_advice_preparing(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_machine machine = {.now = little, .room_bytes = 2000 * MIB};
    struct plan_row rows[PLAN_ROWS_MAX];
    plan.preparing = (struct plan_curve){0};
    plan_curve_add(&plan.preparing, 1, 50);
    plan_curve_add(&plan.preparing, 2, 100);
    struct plan_advice advice = plan_advise(&plan, rows, try_all(&plan, &machine, rows));
    assert_int_equal(advice.now, PLAN_PREPARING);
    assert_int_equal(advice.row, 0);
    assert_int_not_equal(advice.sparing, 0);
    assert_true(plan_rates(&plan, &rows[advice.sparing].later).source < 0.1);
    assert_int_equal(advice.thrifty, advice.row);
}

/* Where training is the limit, memory that holds images decoded saves no time, but processors: it is named for these,
 * and no more memory than that needs. */
static void test_advice_thrifty(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_machine machine = {.now = enough, .room_bytes = 2000 * MIB};
    struct plan_row rows[PLAN_ROWS_MAX];
    plan.forms = (struct plan_forms){.ratio = 2.5, .making = 1.5, .of_form = 0.25};
    plan.step_s = 1;
    machine.now.encoded_bytes = (uint64_t)(1.05 * DATASET_BYTES);
    struct plan_advice advice = plan_advise(&plan, rows, try_all(&plan, &machine, rows));
    assert_int_equal(advice.now, PLAN_TRAINING);
    assert_int_equal(advice.row, 0);
    assert_int_not_equal(advice.thrifty, 0);
    assert_true(plan_rates(&plan, &rows[advice.thrifty].later).of_forms > 0.95);
    assert_true(plan_rates(&plan, &rows[advice.thrifty - 1].later).of_forms < 0.9);
}

/* Today's setting is first, nothing goes beyond what the machine has, and sizes that were asked for are taken as they
 * are. Prepared memory is tried where prepared samples are of use again. */
static void test_settings(void **state)
{
    (void)state;
    struct plan_case plan = some_case();
    struct plan_machine machine = {.now = little, .room_bytes = 300 * MIB};
    struct plan_setting out[PLAN_ROWS_MAX];
    uint64_t asked[] = {5 * MIB, 5000 * MIB};
    uint32_t count = plan_settings(&plan, &machine, NULL, 0, out);
    assert_int_equal(out[0].encoded_bytes, little.encoded_bytes);
    assert_int_equal(out[0].arena_bytes, little.arena_bytes);
    assert_int_equal(out[0].moves, little.moves);
    assert_int_equal(out[0].class_bytes, little.class_bytes);
    assert_true(count > 3);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(out[i].encoded_bytes + out[i].arena_bytes <= machine.room_bytes);
        assert_true(out[i].arena_bytes == little.arena_bytes);
    }
    count = plan_settings(&plan, &machine, asked, 2, out);
    assert_true(out[1].encoded_bytes == asked[0] && out[2].encoded_bytes == asked[1]);
    machine.room_bytes = 3000 * MIB;
    plan.repeatable = true;
    count = plan_settings(&plan, &machine, NULL, 0, out);
    assert_true(out[count - 1].arena_bytes > (uint64_t)SAMPLES * SLOT);
    plan.class.count = 0;
    machine.room_bytes = 0;
    assert_int_equal(plan_settings(&plan, &machine, NULL, 0, out), 1);
}

/* A case that is out of bounds is refused, and so is memory that has no room for the jobs. */
static void test_refused(void **state)
{
    (void)state;
    struct plan_case plans[9];
    struct plan_row row;
    struct error err;
    for (int i = 0; i < 9; i++)
        plans[i] = some_case();
    plans[0].samples = 0;
    plans[1].played = SAMPLES + 1;
    plans[2].jobs = PLAN_JOBS_MAX + 1;
    plans[3].epochs = 1;
    plans[4].source.count = 0;
    plans[5].preparing.at[1].at_once = 1;
    plans[6].step_s = NAN;
    plans[7].class_writes_per_s = 0;
    plans[8].runs = 0;
    for (int i = 0; i < 9; i++)
        assert_int_equal(plan_play(&plans[i], &little, &row, &err), LARDER_EINVAL);
    struct plan_case plan = some_case();
    struct plan_setting none = {.encoded_bytes = 16 * MIB, .arena_bytes = MIB};
    assert_int_not_equal(plan_play(&plan, &none, &row, &err), 0);
    assert_true(strlen(err.text) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_station),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_class),
        cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_advice_reading),
        cmocka_unit_test(test_advice_preparing),
        cmocka_unit_test(test_advice_thrifty),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
