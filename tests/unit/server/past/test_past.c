/* test_past.c: proves that the past keeps what it says, in virtual time: rates and waits of seconds and of minutes, no
 * more than its bounds, what jobs became, who gave to whom, and the same after it was bytes; damaged bytes are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/past/past.h"

#define BEGAN_S 1000000020.0 /* where a minute begins */

static struct past *make(void)
{
    struct past *past = NULL;
    assert_int_equal(past_create(&past), 0);
    past_restarted(past, BEGAN_S, "larderd 0");
    return past;
}

/* tick takes a sample in which each of the jobs has got `per_s` samples a second since BEGAN_S, half of them prepared
 * for others, and has waited a quarter of the time for reads. */
static void tick(struct past *past, uint32_t n_jobs, double per_s, double at_s)
{
    struct past_job_sample jobs[JOBS_MAX];
    char names[JOBS_MAX][16];
    struct past_sample sample = {.time_s = BEGAN_S + at_s, .jobs = jobs, .n_jobs = n_jobs};
    uint64_t got = (uint64_t)(per_s * at_s);
    for (uint32_t i = 0; i < n_jobs; i++) {
        snprintf(names[i], sizeof names[i], "job-%u", i);
        jobs[i] = (struct past_job_sample){.place = i, .name = names[i]};
        jobs[i].figures = (struct past_figures){
            .delivered = got, .shared = got / 2, .prepared = got - got / 2, .ranks = 2, .waits_s = {at_s / 2}};
    }
    sample.values[PAST_DELIVERED] = (double)got * n_jobs;
    sample.values[PAST_CORES] = 1.5 * at_s;
    sample.values[PAST_READ + 1] = 4096 * at_s;
    sample.values[PAST_ARENA] = 7e9;
    past_add(past, &sample);
}

static void come(struct past *past, uint32_t n_jobs)
{
    char name[16];
    for (uint32_t i = 0; i < n_jobs; i++) {
        snprintf(name, sizeof name, "job-%u", i);
        past_came(past, i, name, BEGAN_S);
    }
}

struct seen {
    struct past_step steps[2000];
    struct past_job_step jobs[2000];
    size_t known, known_job; /* steps */
};

/* look reads the curves of the daemon, and of the job in the slot. */
static struct seen *look(const struct past *past, double from_s, double step_s, size_t count, uint16_t slot)
{
    uint16_t row[PAST_JOBS];
    struct seen *seen = calloc(1, sizeof *seen);
    struct past_span span = {BEGAN_S + from_s, step_s, count};
    memset(row, 0xff, sizeof row);
    row[slot] = 0;
    assert_true(count <= 2000);
    past_curves(past, &span, seen->steps, row, seen->jobs);
    for (size_t i = 0; i < count; i++) {
        seen->known += seen->steps[i].seconds > 0;
        seen->known_job += seen->jobs[i].seconds > 0;
    }
    return seen;
}

/* Counters become rates; waiting is that of a rank; steps of seconds and of minutes say the same. */
static void test_curves(void **state)
{
    (void)state;
    struct past *past = make();
    come(past, 2);
    for (int at = 0; at <= 300; at++)
        tick(past, 2, 40, at);
    for (double step = 1; step <= 60; step += 59) {
        struct seen *seen = look(past, 60, step, (size_t)(180 / step), 1);
        assert_int_equal(seen->known, 180 / step);
        assert_int_equal(seen->known_job, 180 / step);
        for (size_t i = 0; i < seen->known; i++) {
            assert_float_equal(seen->steps[i].values[PAST_DELIVERED], 80, 0.01);
            assert_float_equal(seen->steps[i].values[PAST_CORES], 1.5, 0.01);
            assert_float_equal(seen->steps[i].values[PAST_READ], 0, 0);
            assert_float_equal(seen->steps[i].values[PAST_READ + 1], 4096, 1);
            assert_float_equal(seen->steps[i].values[PAST_ARENA], 7e9, 1000);
            assert_float_equal(seen->jobs[i].per_s, 40, 0.01);
            assert_float_equal(seen->jobs[i].shared_per_s, 20, 0.01);
            assert_float_equal(seen->jobs[i].waits[0], 0.25, 0.01);
            assert_float_equal(seen->jobs[i].waits[1], 0, 0);
        }
        free(seen);
    }
    past_destroy(past);
}

/* Where samples stayed away, nothing is known, and no rate is made up. */
static void test_gap(void **state)
{
    (void)state;
    struct past *past = make();
    come(past, 1);
    for (int at = 0; at <= 10; at++)
        tick(past, 1, 40, at);
    for (int at = 100; at <= 110; at++)
        tick(past, 1, 40, at);
    tick(past, 1, 40, 50); /* a clock that goes back is not believed */
    struct seen *seen = look(past, 0, 1, 110, 0);
    assert_int_equal(seen->known, 20);
    assert_int_equal(seen->known_job, 20);
    assert_true(seen->steps[9].seconds > 0 && seen->steps[10].seconds <= 0 && seen->steps[99].seconds <= 0);
    assert_float_equal(seen->steps[100].values[PAST_DELIVERED], 40, 0.01);
    free(seen);
    past_destroy(past);
}

/* An hour of seconds and a day of minutes are kept, and no more; with very many jobs less, but the newest. */
static void test_bounds(void **state)
{
    (void)state;
    struct past *past = make();
    come(past, 1);
    for (int at = 0; at <= 26 * 3600; at++)
        tick(past, 1, 40, at);
    struct seen *seconds = look(past, 25 * 3600 - 1000, 1, 2000, 0), *minutes = look(past, 0, 60, 26 * 60, 0);
    assert_int_equal(seconds->known, 1000);
    assert_int_equal(minutes->known, PAST_MINUTES + 1); /* and the one that goes on */
    assert_true(minutes->steps[0].seconds <= 0);
    free(seconds);
    free(minutes);
    past_destroy(past);

    past = make();
    come(past, JOBS_MAX);
    for (int at = 0; at <= 1500; at++)
        tick(past, JOBS_MAX, 4, at);
    seconds = look(past, 0, 1, 1500, JOBS_MAX - 1);
    assert_int_equal(seconds->known, PAST_SECOND_POINTS / JOBS_MAX);
    assert_int_equal(seconds->known_job, PAST_SECOND_POINTS / JOBS_MAX);
    assert_true(seconds->steps[1499].seconds > 0);
    assert_true(past_bytes(past) < 8 << 20);
    free(seconds);
    past_destroy(past);
}

static const struct past_job *named(const struct past *past, const char *name)
{
    const struct past_job *found = NULL;
    for (uint32_t slot = 0; slot < PAST_JOBS; slot++) {
        const struct past_job *job = past_job(past, slot);
        if (job && strcmp(job->name, name) == 0 && (!found || job->id > found->id))
            found = job;
    }
    return found;
}

/* A job that waits for its ranks when the daemon ends by itself is lost, and no daemon was killed. */
static void test_stops(void **state)
{
    (void)state;
    struct past *past = make();
    come(past, 1);
    tick(past, 1, 40, 1);
    assert_true(past_stops(past, BEGAN_S + 5));
    assert_false(past_stops(past, BEGAN_S + 6));
    past_restarted(past, BEGAN_S + 20, "larderd 0");
    const struct past_job *job = named(past, "job-0");
    assert_int_equal(job->state, PAST_LOST);
    assert_float_equal(job->ended_s, BEGAN_S + 5, 0.001);
    for (size_t i = 0; i < past_n_events(past); i++)
        assert_int_not_equal(past_event(past, i)->kind, PAST_INTERRUPT);
    past_destroy(past);
}

/* What became of each job, with its last figures; one that ran when the daemon died is lost. */
static void test_ends(void **state)
{
    (void)state;
    struct past *past = make();
    const struct past_figures last = {.delivered = 401, .shared = 200, .ranks = 2};
    come(past, 4);
    for (int at = 0; at <= 10; at++)
        tick(past, 4, 40, at);
    past_ended(past, 0, PAST_ENDED, &last, BEGAN_S + 10.5);
    past_ended(past, 1, PAST_CANCELLED, &last, BEGAN_S + 10.5);
    past_failed(past, 2, BEGAN_S + 10.2, "its disk is away");
    past_ended(past, 2, PAST_DIED, &last, BEGAN_S + 10.5);
    past_ended(past, 2, PAST_DIED, &last, BEGAN_S + 10.5); /* nobody is there any more */
    past_restarted(past, BEGAN_S + 20, "larderd 0");
    static const uint8_t states[] = {PAST_ENDED, PAST_CANCELLED, PAST_FAILED, PAST_LOST};
    for (uint32_t i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "job-%u", i);
        const struct past_job *job = named(past, name);
        assert_int_equal(job->state, states[i]);
        assert_int_equal(job->figures.delivered, i < 3 ? 401 : 400);
        assert_float_equal(job->ended_s, BEGAN_S + (i < 3 ? 10.5 : 10), 0.001);
    }
    static const uint8_t kinds[] = {PAST_RESTART, PAST_CAME,   PAST_CAME,    PAST_CAME,      PAST_CAME,
                                    PAST_WENT,    PAST_CANCEL, PAST_FAILURE, PAST_INTERRUPT, PAST_RESTART};
    assert_int_equal(past_n_events(past), sizeof kinds);
    for (size_t i = 0; i < sizeof kinds; i++)
        assert_int_equal(past_event(past, i)->kind, kinds[i]);
    assert_string_equal(past_event(past, 7)->text, "its disk is away");
    assert_string_equal(past_event(past, 8)->text, "the daemon was killed");
    past_destroy(past);
}

/* A job whose script was gone without a word has died, unless it had had all its epochs. What leaves because the daemon
 * stops is interrupted, and no event of its own. */
static void test_deaths(void **state)
{
    (void)state;
    static const struct {
        enum past_state how;
        struct past_figures last;
        enum past_state state;
        uint8_t kind;
    } ends[] = {
        {PAST_DIED, {.delivered = 1, .epochs = 3, .epochs_done = 2.9}, PAST_DIED, PAST_DEATH},
        {PAST_DIED, {.delivered = 1, .epochs = 3, .epochs_done = 3}, PAST_ENDED, PAST_WENT},
        {PAST_DIED, {.delivered = 1, .epochs = 0, .epochs_done = 3}, PAST_DIED, PAST_DEATH},
        {PAST_ENDED, {.delivered = 1, .epochs = 3, .epochs_done = 2}, PAST_ENDED, PAST_WENT},
        {PAST_ENDED, {.delivered = 1, .epochs = 0, .epochs_done = 2.25}, PAST_LEFT, PAST_LEAVING},
        {PAST_CANCELLED, {.delivered = 1, .epochs = 3, .epochs_done = 3}, PAST_CANCELLED, PAST_CANCEL},
        {PAST_LOST, {.delivered = 1, .epochs = 3, .epochs_done = 1}, PAST_LOST, PAST_CAME},
        {PAST_LOST, {.delivered = 1, .epochs = 3, .epochs_done = 3}, PAST_ENDED, PAST_WENT},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct past *past = make();
        come(past, 1);
        past_ended(past, 0, ends[i].how, &ends[i].last, BEGAN_S + 1);
        assert_int_equal(named(past, "job-0")->state, ends[i].state);
        assert_int_equal(past_event(past, past_n_events(past) - 1)->kind, ends[i].kind);
        past_destroy(past);
    }
}

/* A job that took nothing is forgotten when it ends or dies, or its daemon stops; one that was cancelled, or whose
 * daemon was killed, is not: what it took since it came nobody knows. */
static void test_took_nothing(void **state)
{
    (void)state;
    struct past *past = make();
    const struct past_figures none = {0};
    come(past, 5);
    past_ended(past, 0, PAST_ENDED, &none, BEGAN_S + 1);
    past_ended(past, 1, PAST_CANCELLED, &none, BEGAN_S + 1);
    past_ended(past, 2, PAST_DIED, &none, BEGAN_S + 1);
    past_ended(past, 3, PAST_LOST, &none, BEGAN_S + 1);
    past_restarted(past, BEGAN_S + 2, "larderd 0");
    assert_null(named(past, "job-0"));
    assert_int_equal(named(past, "job-1")->state, PAST_CANCELLED);
    assert_null(named(past, "job-2"));
    assert_null(named(past, "job-3"));
    assert_int_equal(named(past, "job-4")->state, PAST_LOST);
    past_destroy(past);
}

/* Of many short jobs the latest are remembered, a long one among them stays, and events are bounded. */
static void test_many_jobs(void **state)
{
    (void)state;
    struct past *past = make();
    const struct past_figures few = {.delivered = 8};
    char name[16];
    past_came(past, 7, "long", BEGAN_S);
    for (uint32_t i = 0; i < 3 * PAST_JOBS; i++) {
        snprintf(name, sizeof name, "short-%u", i);
        past_came(past, 0, name, BEGAN_S + i);
        past_ended(past, 0, PAST_ENDED, &few, BEGAN_S + i);
    }
    assert_int_equal(named(past, "long")->state, PAST_RUNNING);
    assert_non_null(named(past, name));
    assert_null(named(past, "short-0"));
    assert_int_equal(past_n_events(past), PAST_EVENTS);
    past_destroy(past);
}

/* gives takes a sample in which job 1 got that many samples of job 0 so far, and one that is gone gave it 5. */
static void gives(struct past *past, double at_s, uint32_t samples)
{
    const struct past_giver givers[] = {{0, samples}, {JOBS_MAX, 5}};
    const struct past_figures figures = {.delivered = 9000};
    struct past_job_sample jobs[] = {
        {.place = 0, .name = "job-0", .figures = figures},
        {.place = 1, .name = "job-1", .figures = figures, .givers = givers, .n_givers = 2}};
    past_add(past, &(struct past_sample){.time_s = BEGAN_S + at_s, .jobs = jobs, .n_jobs = 2});
}

/* Who gave to whom is counted over the time that is asked for, whatever the counters were before. */
static void test_gifts(void **state)
{
    (void)state;
    struct past *past = make();
    struct past_gift gave[4];
    come(past, 2);
    gives(past, 1, 10);
    gives(past, 2, 30);
    gives(past, 100, 130);
    assert_int_equal(past_gave(past, BEGAN_S, gave, 4), 2);
    assert_int_equal(gave[0].samples, 130);
    assert_int_equal(gave[0].to, 1);
    assert_int_equal(gave[0].from, 0);
    assert_int_equal(gave[1].samples, 5);
    assert_int_equal(gave[1].from, PAST_NONE);
    assert_int_equal(past_gave(past, BEGAN_S + 50, gave, 4), 1);
    assert_int_equal(gave[0].samples, 100);
    assert_int_equal(past_gave(past, BEGAN_S, gave, 1), 1);
    past_destroy(past);
}

static struct past *busy(void)
{
    struct past *past = make();
    const struct past_figures last = {.delivered = 9000};
    come(past, 3);
    for (int at = 0; at <= 200; at++)
        tick(past, 3, 40, at);
    gives(past, 201, 44);
    past_ended(past, 2, PAST_DIED, &last, BEGAN_S + 202);
    return past;
}

/* After it was bytes, all of it is as it was, and it goes on. */
static void test_bytes(void **state)
{
    (void)state;
    struct past *past = busy(), *again = NULL;
    uint8_t *bytes = NULL, *twice = NULL;
    size_t len, len_twice;
    struct error err;
    assert_int_equal(past_encode(past, &bytes, &len), 0);
    assert_int_equal(past_decode(bytes, len, BEGAN_S + 300, &again, &err), 0);
    assert_int_equal(past_encode(again, &twice, &len_twice), 0);
    assert_int_equal(len, len_twice);
    assert_memory_equal(bytes, twice, len);
    past_restarted(again, BEGAN_S + 300, "larderd 1");
    assert_int_equal(named(again, "job-2")->state, PAST_DIED);
    assert_int_equal(named(again, "job-2")->figures.delivered, 9000);
    assert_int_equal(named(again, "job-0")->state, PAST_LOST);
    struct seen *seen = look(again, 0, 1, 200, 1);
    assert_int_equal(seen->known_job, 200);
    free(seen);
    past_came(again, 0, "job-0", BEGAN_S + 301);
    assert_true(named(again, "job-0")->id > named(again, "job-2")->id);
    free(bytes);
    free(twice);
    past_destroy(past);
    past_destroy(again);
}

/* Bytes with any one bit turned, cut anywhere, of another version or of the future are refused, and nothing is made. */
static void test_damage(void **state)
{
    (void)state;
    struct past *past = busy(), *again = NULL;
    uint8_t *bytes = NULL;
    size_t len;
    struct error err;
    assert_int_equal(past_encode(past, &bytes, &len), 0);
    for (size_t i = 0; i < len; i += 1 + len / 500) {
        bytes[i] ^= 4;
        assert_int_not_equal(past_decode(bytes, len, BEGAN_S + 300, &again, &err), 0);
        bytes[i] ^= 4;
        assert_int_not_equal(past_decode(bytes, i, BEGAN_S + 300, &again, &err), 0);
    }
    assert_int_equal(past_decode(bytes, len, BEGAN_S + 100, &again, &err), LARDER_EFORMAT);
    bytes[4] = 9;
    assert_int_equal(past_decode(bytes, len, BEGAN_S + 300, &again, &err), LARDER_EVERSION);
    assert_null(again);
    free(bytes);
    past_destroy(past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves),    cmocka_unit_test(test_gap),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_stops),     cmocka_unit_test(test_ends),   cmocka_unit_test(test_took_nothing),
        cmocka_unit_test(test_many_jobs), cmocka_unit_test(test_gifts),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
