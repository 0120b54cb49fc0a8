/* `larder explain`: what it makes of made situations. */
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
#include "tests/unit/server/control/advice.h"
#include "tests/unit/server/control/explain_made.h"

static struct explanation explained_on(const struct made *made, const struct cli_machine *machine, double throttled)
{
    struct explain_facts facts = {.before = status_at(made, 0), .now = status_at(made, 1)};
    struct explanation told;
    facts.machine_before = facts.machine_now = *machine;
    facts.machine_before.periods = 100;
    facts.machine_now.periods = 200;
    facts.machine_now.throttled_periods = (uint64_t)(100 * throttled);
    cli_explain(&facts, cli_find_job(facts.now, "a"), &told);
    printf("%s: %s (%.0f %%); %s; %s\n", told.cause, told.why, 100 * told.waits, told.change, told.figure);
    advice_follow(told.change);
    json_decref((json_t *)facts.before);
    json_decref((json_t *)facts.now);
    return told;
}

static struct explanation explained(const struct made *made, double throttled)
{
    struct cli_machine machine = {.cores = 4, .available_bytes = UINT64_C(64) << 30};
    machine.quota_cores = throttled > 0 ? 1.5 : 0;
    return explained_on(made, &machine, throttled);
}

/* A slow source, few cores, a small arena, a slow trainer, a missing rank and a throttled cgroup are each named, with
 * the change that helps and the figure it is based on. */
static void names_causes(void **state)
{
    (void)state;
    struct explanation told = explained(&(struct made){NORMAL, .load_s = 0.6, .prepare_s = 0.1, .fits = true}, 0);
    assert_string_equal(told.cause, "source");
    assert_true(told.waits > 0.69 && told.waits < 0.71);
    assert_non_null(strstr(told.change, "raise memory.encoded from 1.0 GiB to 10.0 GiB"));
    assert_non_null(strstr(told.figure, "a sample takes 2.0 ms to load, its storage may have 8 reads at once"));
    told = explained(&(struct made){NORMAL, .load_s = 0.6, .fits = true, .moves = true}, 0);
    assert_non_null(strstr(told.change, "raise memory.samples from 2.0 GiB to 11.0 GiB: then each file is read once"));
    told = explained(&(struct made){NORMAL, .load_s = 0.6}, 0);
    assert_string_equal(told.cause, "source");
    assert_non_null(strstr(told.change, "a storage class on a fast disk"));
    told = explained(&(struct made){NORMAL, .load_s = 0.1, .prepare_s = 0.5}, 0);
    assert_string_equal(told.cause, "cores");
    assert_non_null(strstr(told.change, "as many threads.workers as there are cores"));
    assert_non_null(strstr(told.figure, "4.0 ms of a thread, 4 threads prepare, and the job gets 0 samples/s and would "
                                        "take 2000"));
    told = explained(&(struct made){NORMAL, .room_s = 0.4, .prepare_s = 0.1}, 0);
    assert_string_equal(told.cause, "memory");
    told = explained(&(struct made){.load_ms = 2,
                                    .prepare_ms = 4,
                                    .train_ms = 50,
                                    .cpu_s = 1,
                                    .prefetch = 2,
                                    .ranks = 1,
                                    .ranks_there = 1,
                                    .prepare_s = 0.3},
                     0);
    assert_string_equal(told.cause, "memory");
    assert_non_null(strstr(told.change, "raise memory.arena from 1.0 GiB to 2.5 GiB"));
    assert_non_null(strstr(told.figure, "2 batches ahead where it asked for 8"));
    told = explained(&(struct made){NORMAL, .prepare_s = 0.06}, 0);
    assert_string_equal(told.cause, "training");
    assert_non_null(strstr(told.change, "nothing in Larder"));
    assert_non_null(strstr(told.figure, "its script takes 50 ms from one batch of 100 samples to the next"));
    told = explained(&(struct made){NORMAL, .prepare_s = 0.5, .delivered = 500}, 0.4);
    assert_string_equal(told.cause, "quota");
    assert_non_null(strstr(told.change, "raise the cgroup's CPU quota from 1.5 to 3 cores"));
    assert_non_null(strstr(told.figure, "40 %"));
}

/* What a job would take is measured over the same time as what it gets and as its waiting: the three agree. A script
 * without a training step, and one that works for a small part of its time, show nothing of what they would take: no
 * figure and no advice is made of it. */
static void says_nothing_of_no_step(void **state)
{
    (void)state;
    struct made made = {NORMAL, .workers = 4, .loaders = 8, .quota = 1, .prepare_s = 0.9, .delivered = 400};
    struct explanation told;
    static const struct {
        double train_ms;
        const char *figure;
    } steps[] = {{50, "the job gets 400 samples/s and would take 4000; larderd got 4.0 of the 4 cores"},
                 {11, "the job gets 400 samples/s: its script works on a batch for only 11 ms; larderd"},
                 {0.04, "the job gets 400 samples/s: its script works on a batch for only 0.04 ms; larderd"},
                 {0, "the job gets 400 samples/s; larderd"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        made.train_ms = steps[i].train_ms;
        told = explained(&made, 0);
        const char *tail = strstr(told.figure, "the job");
        assert_non_null(tail);
        assert_int_equal(strncmp(tail, steps[i].figure, strlen(steps[i].figure)), 0);
        assert_non_null(strstr(told.change, i ? "more cores than 4" : "40 cores instead of 4"));
    }
    made.train_ms = 0.04;
    made.prepare_s = 0;
    made.load_s = 0.9;
    made.dealt = 12;
    told = explained(&made, 0);
    assert_non_null(strstr(told.change, "raise threads.loaders from 8 to 16"));
    assert_non_null(strstr(told.figure, "only 0.04 ms"));
}

#define SET .workers = 4, .loaders = 8, .quota = 1, .delivered = 1000
static const struct {
    struct made made;
    struct cli_machine machine;
    double throttled;
    const char *change;
} situations[] = {
    /* threads.workers: by the setting, not by how many the governor lets prepare */
    {{NORMAL, SET, .prepare_s = 0.5, .preparers_now = 1}, {.cores = 8, ROOMY}, 0, "raise threads.workers from 4 to 8"},
    {{NORMAL, SET, .prepare_s = 0.5, .preparers_now = 1}, {.cores = 4, ROOMY}, 0, "8 cores instead of 4"},
    {{NORMAL, SET, .prepare_s = 0.5}, {.cores = 2, ROOMY}, 0, "4 cores instead of 2"},
    /* where images stand decoded in memory: more of it, if there is any */
    {{NORMAL, SET, .prepare_s = 0.5, .forms = 9}, {.cores = 8, ROOMY}, 0, "raise threads.workers from 4 to 8"},
    {{NORMAL, SET, .prepare_s = 0.5, .forms = 9},
     {.cores = 4, ROOMY},
     0,
     "raise memory.encoded from 1.0 GiB to 8.0 GiB"},
    {{NORMAL, SET, .prepare_s = 0.5, .forms = 9},
     {.cores = 4, ROOMY, .limit_bytes = 8 * GIB},
     0,
     "8 cores instead of 4"},
    {{NORMAL, SET, .prepare_s = 0.5}, {.cores = 8, .quota_cores = 4, ROOMY}, 0, "8 cores instead of 4"},
    {{NORMAL, SET, .prepare_s = 0.5},
     {.cores = 64, .quota_cores = 6.5, ROOMY},
     0,
     "raise threads.workers from 4 to 6, as many as its cgroup"},
    {{NORMAL, .prepare_s = 0.5, .preparers_now = 1},
     {.cores = 16, ROOMY},
     0,
     "as many threads.workers as there are cores"},
    /* the cgroup's quota */
    {{NORMAL, SET, .prepare_s = 0.5},
     {.cores = 8, .quota_cores = 4, ROOMY},
     0.4,
     "raise the cgroup's CPU quota from 4.0 to 8 cores"},
    {{NORMAL, .workers = 8, .loaders = 8, .prepare_s = 0.5, .delivered = 1000},
     {.cores = 8, .quota_cores = 4, ROOMY},
     0.4,
     "raise the cgroup's CPU quota from 4.0 to 8 cores"},
    {{NORMAL, SET, .prepare_s = 0.5}, {.cores = 4, .quota_cores = 4, ROOMY}, 0.4, "8 cores instead of 4"},
    /* memory.arena, jobs.quota */
    {{NORMAL, SET, .room_s = 0.5}, {.cores = 4, ROOMY}, 0, "raise memory.arena from 1.0 GiB to 2.0 GiB"},
    {{NORMAL, SET, .room_s = 0.5},
     {.cores = 4, .available_bytes = GIB},
     0,
     "lower prefetch: there is no memory for an arena of 2.0 GiB"},
    {{NORMAL, SET, .room_s = 0.5},
     {.cores = 4, ROOMY, .limit_bytes = 3 * GIB},
     0,
     "lower prefetch: there is no memory"},
    {{NORMAL, .workers = 4, .loaders = 8, .quota = 0.3, .room_s = 0.5},
     {.cores = 4, ROOMY},
     0,
     "raise jobs.quota from 30% to 60%"},
    {{NORMAL, .workers = 4, .loaders = 8, .quota = 0.5, .room_s = 0.5},
     {.cores = 4, ROOMY},
     0,
     "raise jobs.quota from 50% to 100%"},
    /* look-ahead cut short, and cores at work: it is the cores */
    {{.load_ms = 2,
      .prepare_ms = 4,
      .train_ms = 50,
      .cpu_s = 3.5,
      .prefetch = 2,
      .ranks = 1,
      .ranks_there = 1,
      .prepare_s = 0.3,
      SET},
     {.cores = 4, ROOMY},
     0,
     "6 cores instead of 4"},
    /* memory.encoded, threads.loaders, storage */
    {{NORMAL, SET, .load_s = 0.5, .fits = true},
     {.cores = 4, ROOMY},
     0,
     "raise memory.encoded from 1.0 GiB to 10.0 GiB"},
    {{NORMAL, SET, .load_s = 0.5, .fits = true},
     {.cores = 4, ROOMY, .limit_bytes = 4 * GIB},
     0,
     "a storage class on a fast disk"},
    {{LOADS, SET, .load_s = 0.5, .load_ms = 10, .dealt = 12, .loaders_now = 12},
     {.cores = 4, ROOMY},
     0,
     "raise threads.loaders from 8 to 16"},
    /* another source has as many reads of its own; and one that was found saturated wants no more */
    {{LOADS, SET, .load_s = 0.5, .load_ms = 10, .dealt = 12, .loaders_now = 24},
     {.cores = 4, ROOMY},
     0,
     "raise threads.loaders from 8 to 16"},
    {{LOADS, SET, .load_s = 0.5, .load_ms = 10, .dealt = 5, .loaders_now = 5},
     {.cores = 4, ROOMY},
     0,
     "a storage class"},
    {{LOADS, SET, .load_s = 0.5, .load_ms = 10000, .dealt = 12},
     {.cores = 4, ROOMY},
     0,
     "raise threads.loaders from 8 to 1024"},
    {{LOADS, .workers = 4, .loaders = 1024, .quota = 1, .load_s = 0.5, .load_ms = 10000, .dealt = 1028},
     {.cores = 4, ROOMY},
     0,
     "a storage class"},
    {{LOADS, SET, .load_s = 0.5, .load_ms = 10, .dealt = 3}, {.cores = 4, ROOMY}, 0, "a storage class"},
    {{NORMAL, SET, .load_s = 0.5, .packed = true}, {.cores = 4, ROOMY}, 0, "a storage class on a fast disk"},
    {{NORMAL, SET, .load_s = 0.5, .classed = true}, {.cores = 4, ROOMY}, 0, "a chunk store"},
    {{NORMAL, SET, .load_s = 0.5, .classed = true, .packed = true}, {.cores = 4, ROOMY}, 0, "faster storage"},
    {{LOADS, .load_s = 0.5, .load_ms = 10}, {.cores = 4, ROOMY}, 0, "a storage class"},
};

/* All that is advised, each where following it is possible and changes what holds the job up; and what is advised
 * where the setting is already as it would be, where the cores or the memory are not there, or where more of it would
 * lie idle. */
static void advises_what_helps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
        struct explanation told = explained_on(&situations[i].made, &situations[i].machine, situations[i].throttled);
        if (!strstr(told.change, situations[i].change))
            fail_msg("row %zu: \"%s\", and not \"%s\"", i, told.change, situations[i].change);
    }
}

/* Ranks that are not there are named; if all are there, those that are late. */
static void names_ranks(void **state)
{
    (void)state;
    struct made made = {NORMAL, .rank_s = 0.9};
    made.ranks = 4;
    made.ranks_there = 2;
    struct explanation told = explained(&made, 0);
    assert_string_equal(told.cause, "rank");
    assert_non_null(strstr(told.why, "2, 3"));
    assert_string_equal(told.change, "start ranks 2, 3; if they run on another machine, give local_world_size=");
    assert_non_null(strstr(told.figure, "2 of 4 ranks are missing"));
    assert_true(told.waits > 0.89 && told.waits < 0.91);
    made.ranks_there = 0;
    told = explained(&made, 0);
    assert_string_equal(told.cause, "gone");
    assert_non_null(strstr(told.why, "no script of a is there"));
    assert_string_equal(told.change, "start ranks 0, 1, 2, 3");
    assert_string_equal(told.figure, "0 of 4 ranks are there");
}

/* said_by_jobs returns what `larder jobs` has in the column FOR. */
static void said_by_jobs(const struct explain_facts *facts, char said[16])
{
    char *text = NULL, waits[16];
    size_t len;
    FILE *out = open_memstream(&text, &len);
    cli_jobs_print(facts->now, facts->before, false, out);
    fclose(out);
    const char *row = strchr(text, '\n');
    assert_int_equal(sscanf(row, " a %*s %*s %*s %*s %*s %15s %15s", waits, said), 2);
    free(text);
}

/* jobs says what explain says, whatever is known of the job. */
static void jobs_agrees(void **state)
{
    static const struct {
        struct made made;
        bool new, idle;
        const char *cause, *by_jobs;
    } cases[] = {
        {{NORMAL, .load_s = 0.5}, false, false, "source", "load"},
        {{NORMAL, .prepare_s = 0.5}, false, false, "cores", "prepare"},
        {{NORMAL, .room_s = 0.5}, false, false, "memory", "room"},
        {{.load_ms = 2, .prepare_ms = 4, .cpu_s = 4, .prefetch = 8, .ranks = 1, .ranks_there = 1, .prepare_s = 0.5},
         false,
         false,
         "cores",
         "prepare"},
        {{NORMAL, .prepare_s = 0.02}, false, false, "training", "-"},
        {{NORMAL, .prepare_s = 0.5}, true, false, "new", "-"},
        {{NORMAL}, false, true, "idle", "idle"},
        {{.ranks = 2, .ranks_there = 1, .rank_s = 0.9}, false, false, "rank", "rank"},
        {{.ranks = 2, .ranks_there = 0}, false, false, "gone", "gone"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *before = cases[i].new ? NULL : status_at(&cases[i].made, 0), *now = status_at(&cases[i].made, 1);
        struct explain_facts facts = {.before = before, .now = now, .machine_now = {.cores = 4}};
        struct explanation told;
        char said[16];
        json_object_set_new(json_array_get(json_object_get(now, "jobs"), 0), "started", json_boolean(!cases[i].idle));
        cli_explain(&facts, cli_find_job(now, "a"), &told);
        assert_string_equal(told.cause, cases[i].cause);
        said_by_jobs(&facts, said);
        assert_string_equal(said, cases[i].by_jobs);
        json_decref(before);
        json_decref(now);
    }
}

/* Where the samples of a job over several nodes are prepared is said, and why; of other jobs nothing. */
static void says_where(void **state)
{
    static const struct {
        const char *spread, *where;
        int homes, trainings;
    } cases[] = {
        {NULL, "", 1, 3},
        {"auto", "The samples of a come from their chunks' homes, because 3 trainings of the cluster want the same", 1,
         3},
        {"auto",
         "The samples of a come from their chunks' homes, until its epoch ends: no other training of the cluster wants "
         "the same",
         1, 1},
        {"auto",
         "The samples of a are prepared at its ranks' own nodes, because no other training of the cluster wants the "
         "same",
         0, 1},
        {"auto",
         "The samples of a are prepared at its ranks' own nodes, because sending them costs more than 3 trainings save "
         "by sharing",
         0, 3},
        {"always", "The samples of a come from their chunks' homes, because cluster.spread is always", 1, 1},
        {"never", "The samples of a are prepared at its ranks' own nodes, because cluster.spread is never", 0, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct made made = {NORMAL, .prepare_s = 0.1};
        struct explain_facts facts = {.before = status_at(&made, 0)};
        struct explanation told;
        json_t *now = status_at(&made, 1);
        json_object_set_new(now, "cluster",
                            json_pack("{s:[{s:s,s:s?,s:b,s:i},{s:s,s:s,s:b,s:i}]}", "jobs", "name", "a", "spread",
                                      cases[i].spread, "homes", cases[i].homes, "trainings", cases[i].trainings, "name",
                                      "b", "spread", "auto", "homes", !cases[i].homes, "trainings", 7));
        facts.now = now;
        cli_explain(&facts, cli_find_job(now, "a"), &told);
        assert_string_equal(told.where, cases[i].where);
        json_decref((json_t *)facts.before);
        json_decref(now);
    }
}

/* A job that is dealt at home has no row in the cluster's status. */
static void says_home(void **state)
{
    const struct made made = {NORMAL, .prepare_s = 0.1};
    struct explain_facts facts = {.before = status_at(&made, 0)};
    struct explanation told;
    json_t *now = status_at(&made, 1);
    (void)state;
    json_object_set_new((json_t *)cli_find_job(now, "a"), "mix", json_real(.25));
    facts.now = now;
    cli_explain(&facts, cli_find_job(now, "a"), &told);
    assert_string_equal(told.where, "The samples of a are prepared at its ranks' own nodes, because of deal=\"home\": "
                                    "25 % of the chunks change nodes in an epoch");
    json_decref((json_t *)facts.before);
    json_decref(now);
}

/* A status with nothing in it, and one of another daemon, are explained too. */
static void takes_anything(void **state)
{
    (void)state;
    struct explanation told;
    json_t *nothing = json_object(), *job = json_object();
    struct explain_facts facts = {.before = nothing, .now = nothing};
    cli_explain(&facts, job, &told);
    assert_string_equal(told.cause, "idle");
    json_object_set_new(job, "started", json_true());
    cli_explain(&facts, job, &told);
    assert_string_equal(told.cause, "new");
    assert_false(told.known);
    json_decref(nothing);
    json_decref(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_nothing_of_no_step),
        cmocka_unit_test(names_causes),
        cmocka_unit_test(names_ranks),
        cmocka_unit_test(jobs_agrees),
        cmocka_unit_test(says_where),
        cmocka_unit_test(says_home),
        cmocka_unit_test(takes_anything),
        cmocka_unit_test(advises_what_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
