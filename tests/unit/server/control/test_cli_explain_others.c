/* `larder explain`: what other jobs, and other programs, have that a job waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/cli.h"
#include "client/cli/explain.h"
#include "tests/unit/server/control/explain_made.h"

/* with_holder adds a job that keeps 700 MiB of the arena and whose script has all of its three batches, and says where
 * memory.arena stands. */
static json_t *with_holder(json_t *status)
{
    json_t *holder = json_pack("{s:s,s:i,s:b,s:i,s:i,s:{s:i},s:[{s:i,s:b,s:i,s:i,s:f,s:i}]}", "name", "keeper", "job",
                               1, "started", 1, "held_max", 3, "quota_bytes", 700 << 20, "stall_s", "load", 0, "queues",
                               "rank", 0, "attached", 1, "leased_batches", 3, "batches", 3, "oldest_lease_s", 4.0,
                               "pid", 77);
    json_array_append_new(json_object_get(status, "jobs"), holder);
    json_object_set_new(json_object_get(status, "daemon"), "places", json_pack("{s:s}", "memory.arena", "in f.yaml:3"));
    return status;
}

/* A script that has all batches that it may have is said to, and not to be as fast as its training step; a job that
 * waits for memory is told who keeps it, and where the setting stands. */
static void names_who_keeps(void **state)
{
    (void)state;
    const struct made made = {NORMAL, .room_s = 0.4};
    struct explain_facts facts = {.before = with_holder(status_at(&made, 0)), .now = with_holder(status_at(&made, 1))};
    struct explanation told;
    facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4, .available_bytes = UINT64_C(64) << 30};
    cli_explain(&facts, cli_find_job(facts.now, "keeper"), &told);
    assert_string_equal(told.cause, "script");
    assert_non_null(strstr(told.why, "the script of keeper has 3 of the 3 batches that it may have at once"));
    assert_non_null(strstr(told.change, "release() them, or leave zero_copy out; else look what process 77 does"));
    cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
    assert_string_equal(told.cause, "memory");
    assert_non_null(
        strstr(told.figure, "; keeper keeps 700 MiB of it, of which its script holds 3 batches of zero_copy"));
    assert_non_null(strstr(told.change, " (memory.arena: in f.yaml:3)"));
    json_decref((json_t *)facts.before);
    json_decref((json_t *)facts.now);
}

static json_t *with_prepared(json_t *status, int prepared)
{
    json_object_set_new(json_array_get(json_object_get(status, "jobs"), 0), "prepared", json_integer(prepared));
    return status;
}

/* with_neighbour adds a job whose samples take 60 ms of a thread each, and of which `prepared` were in the second. */
static json_t *with_neighbour(json_t *status, int prepared, double weight)
{
    json_t *job = json_pack("{s:s,s:f,s:i,s:[{s:i,s:b,s:{s:f}}]}", "name", "heavy", "weight", weight, "prepared",
                            prepared, "queues", "rank", 0, "attached", 1, "governor", "prepare_ms", 60.0);
    json_object_set_new(json_array_get(json_object_get(status, "jobs"), 0), "weight", json_real(2));
    json_array_append_new(json_object_get(status, "jobs"), job);
    return status;
}

/* A job that waits for threads is told which other one has most of them, and the weight that gives it more; not of one
 * that has next to none, or less than itself, and of no weight that there is not. */
static void names_the_neighbour(void **state)
{
    (void)state;
    const struct made made = {NORMAL, .prepare_s = 0.5};
    const struct {
        int prepared;
        double weight;
        const char *told;
        int mine;
    } cases[] = {
        {40, 1, "; heavy (60 ms a sample) has 60 % of the threads' time: `larder weight a 6` gives this one more", 0},
        {40, 4, "`larder weight a 12` gives", 0},
        {100, 1, "has 100 % of the threads' time", 0}, /* the second was a little longer */
        {40, 50, NULL, 0},
        {40, 1, "heavy", 500},
        {40, 1, NULL, 700},
        {6, 1, NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct explain_facts facts = {.before = with_neighbour(status_at(&made, 0), 0, cases[i].weight),
                                      .now = with_neighbour(status_at(&made, 1), cases[i].prepared, cases[i].weight)};
        struct explanation told;
        with_prepared((json_t *)facts.before, 0);
        with_prepared((json_t *)facts.now, cases[i].mine);
        facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4};
        cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
        assert_string_equal(told.cause, "cores");
        if (cases[i].told)
            assert_non_null(strstr(told.change, cases[i].told));
        else
            assert_null(strstr(told.change, "heavy"));
        json_decref((json_t *)facts.before);
        json_decref((json_t *)facts.now);
    }
}

/* Where the jobs' samples seem to have been in more threads than there are, each has its part of those. */
static void divides_the_threads(void **state)
{
    (void)state;
    const struct made made = {NORMAL, .prepare_s = 0.5};
    struct explain_facts facts = {.before = with_neighbour(with_neighbour(status_at(&made, 0), 0, 1), 0, 1),
                                  .now = with_neighbour(with_neighbour(status_at(&made, 1), 90, 1), 110, 1)};
    struct explanation told;
    json_object_set_new(json_array_get(json_object_get(facts.before, "jobs"), 1), "name", json_string("light"));
    json_object_set_new(json_array_get(json_object_get(facts.now, "jobs"), 1), "name", json_string("light"));
    facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4};
    cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
    assert_non_null(strstr(told.change, "heavy (60 ms a sample) has 55 % of the threads' time"));
    json_decref((json_t *)facts.before);
    json_decref((json_t *)facts.now);
}

/* The cores that a job would need are told as if other jobs went on as they do: of four, a quarter is its own here.
 * What it got from others counts as its own. */
static void counts_its_own_cores(void **state)
{
    (void)state;
    const struct made made = {NORMAL, .prepare_s = 0.5, .workers = 4, .delivered = 200};
    for (int shared = 0; shared < 2; shared++) {
        struct explain_facts facts = {.before = with_prepared(with_neighbour(status_at(&made, 0), 0, 1), 0),
                                      .now = with_prepared(with_neighbour(status_at(&made, 1), shared ? 7 : 40, 1),
                                                           shared ? 95 : 200)};
        struct explanation told;
        facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4};
        cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
        assert_non_null(strstr(told.change, shared ? "about 8 cores instead of 4" : "about 5 cores instead of 4"));
        json_decref((json_t *)facts.before);
        json_decref((json_t *)facts.now);
    }
}

/* A job that waits for reads waits for its storage if reads are under way, for cores that other programs have if next
 * to none is, and for room if the jobs look further ahead than encoded memory holds. */
static void tells_reads_apart(void **state)
{
    (void)state;
    const struct {
        double load_ms;
        json_int_t ahead;
        const char *cause, *text;
    } cases[] = {
        {40, 0, "source", "its storage is slower"},
        {0.1, 0, "crowd", "other programs have the cores"},
        {0.1, 3 * (json_int_t)GIB, "encoded", "raise memory.encoded from 1.0 GiB to 6.0 GiB"},
        {0.1, 50 * (json_int_t)GIB, "encoded", "lower prefetch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made made = {LOADS, .load_ms = cases[i].load_ms, .load_s = 0.5};
        made.cpu_s = 0.8;
        struct explain_facts facts = {.before = status_at(&made, 0), .now = status_at(&made, 1)};
        struct explanation told;
        json_object_set_new(json_object_get(facts.now, "samples"), "loaded", json_integer(1100));
        json_object_set_new(json_object_get(json_object_get(facts.now, "memory"), "encoded"), "look_ahead_bytes",
                            json_integer(cases[i].ahead));
        facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4, .idle_s = 7, ROOMY};
        facts.machine_now.idle_s += 0.5;
        cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
        assert_string_equal(told.cause, cases[i].cause);
        assert_true(strstr(told.why, cases[i].text) || strstr(told.change, cases[i].text));
        json_decref((json_t *)facts.before);
        json_decref((json_t *)facts.now);
    }
}

/* A job that waits for cores of which larderd gets few, while none is idle, is told that other programs have them,
 * whatever else could be advised. */
static void names_other_programs(void **state)
{
    (void)state;
    for (int crowded = 0; crowded < 2; crowded++) {
        struct made made = {NORMAL, .prepare_s = 0.5};
        made.cpu_s = 0.8;
        struct explain_facts facts = {.before = with_neighbour(status_at(&made, 0), 0, 1),
                                      .now = with_neighbour(status_at(&made, 1), 40, 1)};
        struct explanation told;
        facts.machine_before = facts.machine_now = (struct cli_machine){.cores = 4, .idle_s = 7};
        facts.machine_now.idle_s += crowded ? 0.5 : 3.1;
        cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
        assert_string_equal(told.cause, crowded ? "crowd" : "cores");
        assert_non_null(strstr(told.figure, crowded ? "larderd got 0.8 of the 4 cores, 0.5 were idle"
                                                    : "larderd got 0.8 of the 4 cores"));
        assert_int_equal(strstr(told.why, "other programs have the cores") != NULL, crowded);
        json_decref((json_t *)facts.before);
        json_decref((json_t *)facts.now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_who_keeps),     cmocka_unit_test(names_the_neighbour),
        cmocka_unit_test(divides_the_threads), cmocka_unit_test(counts_its_own_cores),
        cmocka_unit_test(tells_reads_apart),   cmocka_unit_test(names_other_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
