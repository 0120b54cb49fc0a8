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

/* What a job did in the second between two statuses, and what is known of it. Each rank stood still for so long. */
struct made {
    double load_s, prepare_s, room_s, rank_s;
    double load_ms, prepare_ms, train_ms;
    double cpu_s; /* of the daemon, in that second */
    int delivered;
    int prefetch, ranks, ranks_there;
    bool fits; /* memory.encoded could hold the dataset */
    /* The settings, 0: the status does not have them; what the governor makes of them; 4 and 8 where it is 0. */
    int workers, loaders, preparers_now, loaders_now;
    double quota;
    int dealt; /* loaders of the job */
    bool packed, classed;
    int forms; /* decoded images in memory, of 8 kB each */
};

static json_t *queues_of(const struct made *made)
{
    json_t *queues = json_array();
    for (int rank = 0; rank < made->ranks; rank++)
        json_array_append_new(queues, json_pack("{s:i,s:b,s:b,s:{s:f,s:f,s:f}}", "rank", rank, "attached",
                                                rank < made->ranks_there, "done", rank < made->ranks_there, "governor",
                                                "load_ms", made->load_ms, "prepare_ms", made->prepare_ms, "train_ms",
                                                made->train_ms));
    return queues;
}

/* status_at returns the status before (0) or after (1) that second. */
static json_t *status_at(const struct made *made, int after)
{
    double times = after * made->ranks_there;
    json_t *job = json_pack("{s:s,s:i,s:i,s:b,s:i,s:i,s:i,s:i,s:i,s:{s:f,s:f,s:f,s:f},s:o}", "name", "a", "job", 0,
                            "batch_size", 100, "started", 1, "prefetch", made->prefetch, "prefetch_asked", 8,
                            "view_samples", 1000000, "epoch", 0, "epochs", 2, "stall_s", "load", times * made->load_s,
                            "prepare", times * made->prepare_s, "room", times * made->room_s, "rank",
                            times * made->rank_s, "queues", queues_of(made));
    assert_non_null(job);
    json_object_set_new(job, "loaders", json_integer(made->dealt));
    json_object_set_new(job, "delivered", json_integer(after * made->delivered));
    if (made->packed)
        json_object_set_new(job, "store", json_object());
    json_t *status = json_pack(
        "{s:{s:i,s:f,s:f,s:{s:i,s:i,s:i}},s:{s:i,s:I},s:{s:{s:I,s:I},s:{s:I}},s:{s:i,s:i},s:[o]}", "daemon", "pid",
        4711, "time_s", 100.0 + after, "cpu_s", after * made->cpu_s, "threads", "load", 0, "prepare", 4, "idle", 0,
        "samples", "loaded", 1000, "loaded_bytes", (json_int_t)(made->fits ? 10000000 : 1000000000), "memory", "arena",
        "budget_bytes", (json_int_t)1 << 30, "pinned_bytes", (json_int_t)1 << 30, "encoded", "budget_bytes",
        (json_int_t)1 << 30, "governor", "preparers", made->preparers_now ? made->preparers_now : 4, "loaders",
        made->loaders_now ? made->loaders_now : 8, "jobs", job);
    assert_non_null(status);
    if (made->workers)
        json_object_set_new(json_object_get(status, "daemon"), "settings",
                            json_pack("{s:i,s:i,s:f}", "threads.workers", made->workers, "threads.loaders",
                                      made->loaders, "jobs.quota", made->quota));
    if (made->forms)
        json_object_update_new(json_object_get(json_object_get(status, "memory"), "encoded"),
                               json_pack("{s:i,s:i}", "decoded_samples", made->forms, "decoded_bytes",
                                         made->forms * 8000));
    if (made->classed)
        json_object_set_new(status, "storage", json_pack("{s:[{}]}", "classes"));
    return status;
}

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

#define LOADS .prepare_ms = 4, .train_ms = 50, .cpu_s = 4, .prefetch = 8, .ranks = 1, .ranks_there = 1
#define NORMAL LOADS, .load_ms = 2

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

#define GIB (UINT64_C(1) << 30)

#define SET .workers = 4, .loaders = 8, .quota = 1, .delivered = 1000
#define ROOMY .available_bytes = 64 * GIB
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
        cmocka_unit_test(names_who_keeps),
        cmocka_unit_test(names_the_neighbour),
        cmocka_unit_test(divides_the_threads),
        cmocka_unit_test(counts_its_own_cores),
        cmocka_unit_test(tells_reads_apart),
        cmocka_unit_test(names_other_programs),
        cmocka_unit_test(takes_anything),
        cmocka_unit_test(advises_what_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
