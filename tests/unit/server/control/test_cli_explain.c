/* `larder explain` and `larder doctor`: what they make of made situations. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cli/cli.h"
#include "client/cli/doctor.h"
#include "client/cli/explain.h"
#include "server/config/config.h"

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

/* follow checks that what is advised is another value than the present one, and that larderd takes it. */
static void follow(const char *change)
{
    regex_t advice;
    regmatch_t found[6];
    struct error err = {0};
    struct config *config;
    assert_int_equal(config_load(NULL, &config, &err), 0);
    assert_int_equal(
        regcomp(&advice, "([a-z]+\\.[a-z]+) from ([0-9.]+( [KMGT]iB|%)?) to ([0-9.]+( [KMGT]iB|%)?)", REG_EXTENDED), 0);
    for (; regexec(&advice, change, 6, found, 0) == 0; change += found[0].rm_eo) {
        char part[3][64];
        for (int i = 0; i < 3; i++) {
            regmatch_t at = found[i == 0 ? 1 : 2 * i];
            snprintf(part[i], sizeof part[i], "%.*s", (int)(at.rm_eo - at.rm_so), change + at.rm_so);
        }
        assert_string_not_equal(part[1], part[2]);
        if (config_set(config, part[0], part[1], &err) || config_set(config, part[0], part[2], &err))
            fail_msg("%s: %s", change, err.text);
    }
    regfree(&advice);
    config_destroy(config);
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
    follow(told.change);
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
    assert_non_null(strstr(told.change, "raise memory.encoded from 1.0 GiB to 9.8 GiB"));
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
    told = explained(&(struct made){NORMAL, .prepare_s = 0.02}, 0);
    assert_string_equal(told.cause, "training");
    assert_non_null(strstr(told.figure, "a step takes 50 ms for 100 samples"));
    told = explained(&(struct made){NORMAL, .prepare_s = 0.5}, 0.4);
    assert_string_equal(told.cause, "quota");
    assert_non_null(strstr(told.change, "raise the cgroup's CPU quota from 1.5 to 4 cores"));
    assert_non_null(strstr(told.figure, "40 %"));
}

/* A script without a training step, and one that works for a small part of its time, show nothing of what they would
 * take: no figure and no advice is made of it. */
static void says_nothing_of_no_step(void **state)
{
    (void)state;
    struct made made = {NORMAL, .workers = 4, .loaders = 8, .quota = 1, .prepare_s = 0.9, .delivered = 400};
    struct explanation told;
    static const struct {
        double train_ms;
        const char *figure;
    } steps[] = {{50, "the job gets 400 samples/s and would take 2000"},
                 {11, "the job gets 400 samples/s: its script works on a batch for only 11 ms"},
                 {0.04, "the job gets 400 samples/s: its script works on a batch for only 0.04 ms"},
                 {0, "the job gets 400 samples/s"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        made.train_ms = steps[i].train_ms;
        told = explained(&made, 0);
        const char *tail = strstr(told.figure, "the job");
        assert_non_null(tail);
        assert_string_equal(tail, steps[i].figure);
        assert_non_null(strstr(told.change, i ? "more cores than 4" : "8 cores instead of 4"));
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

#define SET .workers = 4, .loaders = 8, .quota = 1
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
    {{NORMAL, SET, .prepare_s = 0.5}, {.cores = 2, ROOMY}, 0, "8 cores instead of 2"},
    /* where images stand decoded in memory: more of it, if there is any */
    {{NORMAL, SET, .prepare_s = 0.5, .forms = 9}, {.cores = 8, ROOMY}, 0, "raise threads.workers from 4 to 8"},
    {{NORMAL, SET, .prepare_s = 0.5, .forms = 9},
     {.cores = 4, ROOMY},
     0,
     "raise memory.encoded from 1.0 GiB to 7.8 GiB"},
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
    {{NORMAL, .workers = 8, .loaders = 8, .prepare_s = 0.5},
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
     "8 cores instead of 4"},
    /* memory.encoded, threads.loaders, storage */
    {{NORMAL, SET, .load_s = 0.5, .fits = true},
     {.cores = 4, ROOMY},
     0,
     "raise memory.encoded from 1.0 GiB to 9.8 GiB"},
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
    assert_non_null(strstr(told.figure, "2 of 4 ranks are missing"));
    assert_true(told.waits > 0.89 && told.waits < 0.91);
    made.ranks_there = 0;
    told = explained(&made, 0);
    assert_string_equal(told.cause, "gone");
    assert_non_null(strstr(told.why, "no script of a is there"));
    assert_string_equal(told.change, "start its ranks 0, 1, 2, 3 again");
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
    struct doctor_report report = {.count = 0};
    doctor_judge(nothing, &(struct cli_machine){.cores = 0}, &report);
    doctor_look_at_datasets(nothing, &report);
    assert_true(doctor_is_bad(&report)); /* the version */
    json_decref(nothing);
    json_decref(job);
}

/* Of shards that a pattern names the folder is looked at. */
static void doctor_finds_shards(void **state)
{
    static const struct {
        const char *dataset;
        bool good;
    } cases[] = {{"/tmp/shard-{000..009}.tar", true},
                 {"/tmp/*.tar#labels=cls", true},
                 {"/tmp/no-such-folder/{0..9}.tar", false},
                 {"/tmp/no-such-folder", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doctor_report report = {.count = 0};
        json_t *status = json_pack("{s:[{s:s}]}", "jobs", "dataset", cases[i].dataset);
        doctor_look_at_datasets(status, &report);
        assert_int_equal(report.count, 1);
        assert_int_equal(report.all[0].verdict, cases[i].good ? DOCTOR_GOOD : DOCTOR_BAD);
        json_decref(status);
    }
}

static enum doctor_verdict verdict_of(const struct doctor_report *report, const char *of)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->all[i].of, of) == 0)
            return report->all[i].verdict;
    }
    fail_msg("nothing is said of %s", of);
    return DOCTOR_UNKNOWN;
}

static struct doctor_report judged_of(int workers, double arena_bytes, double open_fds, double max_fds,
                                      struct cli_machine machine)
{
    struct doctor_report report = {.count = 0};
    json_t *status = json_pack("{s:{s:s,s:f,s:f,s:{s:i}},s:{s:{s:f}},s:{s:i}}", "daemon", "version", LARDER_VERSION,
                               "open_fds", open_fds, "max_fds", max_fds, "settings", "threads.workers", workers,
                               "memory", "arena", "budget_bytes", arena_bytes, "governor", "preparers", 1);
    assert_non_null(status);
    doctor_judge(status, &machine, &report);
    for (size_t i = 0; i < report.count; i++)
        follow(report.all[i].todo);
    json_decref(status);
    return report;
}

static struct doctor_report judged(double arena_bytes, double open_fds, double max_fds, struct cli_machine machine)
{
    return judged_of(4, arena_bytes, open_fds, max_fds, machine);
}

static const char *todo_of(const struct doctor_report *report, const char *of)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->all[i].of, of) == 0)
            return report->all[i].todo;
    }
    fail_msg("nothing is said of %s", of);
    return NULL;
}

/* Classes that a daemon has left out are told, and only those. */
static void doctor_counts_classes(void **state)
{
    (void)state;
    for (int asked = 0; asked < 3; asked++) {
        struct doctor_report report = {.count = 0};
        json_t *status = json_pack("{s:{s:{s:i}},s:{s:[{}]}}", "daemon", "settings", "storage", asked, "storage",
                                   "classes");
        doctor_judge(status, &(struct cli_machine){.cores = 0}, &report);
        if (asked > 0)
            assert_int_equal(strlen(todo_of(&report, "storage")) > 0, asked == 2);
        json_decref(status);
    }
}

/* What the doctor says is to be done can be done, and is not done already. */
static void doctor_advises_what_helps(void **state)
{
    (void)state;
    static const struct {
        int workers;
        double arena, open_fds, max_fds;
        struct cli_machine machine;
        const char *of, *todo;
    } rows[] = {
#define SOUND .memory_bytes = 1000, .available_bytes = 500
        {4, 950, 20, 4096, {.cores = 8, SOUND}, "memory", "lower memory.arena or memory.encoded before the kernel"},
        {4, 500, 20, 4096, {.cores = 8, SOUND, .limit_bytes = 400}, "memory", "raise the cgroup's limit"},
        {4, 950, 20, 4096, {.cores = 8, SOUND, .limit_bytes = 4000}, "memory", "memory.encoded before the kernel"},
        {4, 500, 20, 256, {.cores = 8, SOUND}, "descriptors", "LimitNOFILE=65536"},
        {4, 500, 65000, 65536, {.cores = 8, SOUND}, "descriptors", "LimitNOFILE=131072"},
        {4,
         500,
         20,
         4096,
         {.cores = 8, SOUND, .quota_cores = 2},
         "processors",
         "raise the quota (CPUQuota=), or set threads.workers from 4 to 2"},
        {4, 500, 20, 4096, {.cores = 8, SOUND, .quota_cores = .2}, "processors", "set threads.workers from 4 to 1"},
        {2,
         500,
         20,
         4096,
         {.cores = 8, SOUND, .quota_cores = 2, .periods = 10, .throttled_periods = 5},
         "processors",
         "raise the quota (CPUQuota=)"},
        {8, 500, 20, 4096, {.cores = 2, SOUND, .quota_cores = 2}, "processors", "set threads.workers from 8 to 2"},
        {2,
         500,
         20,
         4096,
         {.cores = 2, SOUND, .quota_cores = 2, .periods = 10, .throttled_periods = 5},
         "processors",
         "move other programs out of the cgroup"},
        {4,
         500,
         20,
         4096,
         {.cores = 8, .memory_bytes = 1000, .available_bytes = 10},
         "page cache",
         "end programs that take much, or lower memory.arena"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct doctor_report report = judged_of(rows[i].workers, rows[i].arena, rows[i].open_fds, rows[i].max_fds,
                                                rows[i].machine);
        const char *todo = todo_of(&report, rows[i].of);
        if (!strstr(todo, rows[i].todo))
            fail_msg("row %zu: \"%s\", and not \"%s\"", i, todo, rows[i].todo);
        bool whole = strstr(rows[i].todo, "raise the quota (CPUQuota=)") == rows[i].todo;
        assert_true(!whole || strstr(rows[i].todo, "threads.workers") || strcmp(todo, rows[i].todo) == 0);
    }
}

/* Each thing that is wrong is told with what to do, and alone. */
static void doctor_finds(void **state)
{
    (void)state;
    const struct cli_machine sound = {.cores = 8, .memory_bytes = 1000, .available_bytes = 500};
    struct doctor_report report = judged(500, 20, 4096, sound);
    assert_false(doctor_is_bad(&report));
    report = judged(950, 20, 4096, sound);
    assert_int_equal(verdict_of(&report, "memory"), DOCTOR_BAD);
    struct cli_machine machine = sound;
    machine.limit_bytes = 400;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "memory"), DOCTOR_BAD);
    assert_int_equal(verdict_of(&report, "processors"), DOCTOR_GOOD);
    report = judged(500, 3900, 4096, sound);
    assert_int_equal(verdict_of(&report, "descriptors"), DOCTOR_BAD);
    report = judged(500, 20, 256, sound);
    assert_int_equal(verdict_of(&report, "descriptors"), DOCTOR_BAD);
    machine = sound;
    machine.quota_cores = 2;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "processors"), DOCTOR_BAD);
    machine = sound;
    machine.available_bytes = 10;
    report = judged(500, 20, 4096, machine);
    assert_int_equal(verdict_of(&report, "page cache"), DOCTOR_BAD);
    for (size_t i = 0; i < report.count; i++)
        assert_true((report.all[i].verdict == DOCTOR_BAD) == (report.all[i].todo[0] != '\0'));
}

static void put(const char *root, const char *path, const char *text)
{
    char whole[4096];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(whole, sizeof whole, "%s%.*s", root, (int)(slash - path), path);
        mkdir(whole, 0700);
    }
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The limits of both kinds of cgroups are read, those of the groups around a process's own too. */
static void reads_machines(void **state)
{
    (void)state;
    struct cli_machine machine;
    char root[] = "/tmp/larder-machine-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    cli_machine_read(root, 7, &machine);
    assert_true(machine.memory_bytes == 0 && machine.limit_bytes == 0 && machine.quota_cores == 0);
    put(root, "/proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\nCached: 500 kB\n");
    put(root, "/proc/7/cgroup", "0::/a/b\n");
    put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put(root, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put(root, "/sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 10\n");
    put(root, "/sys/fs/cgroup/a/b/memory.max", "4096\n");
    cli_machine_read(root, 7, &machine);
    assert_true(machine.memory_bytes == 2000 * 1024 && machine.available_bytes == 1000 * 1024);
    assert_true(machine.quota_cores == 1.5 && machine.periods == 40 && machine.throttled_periods == 10);
    assert_int_equal(machine.limit_bytes, 4096);
    put(root, "/proc/8/cgroup", "5:cpu:/c\n4:memory:/c\n");
    put(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
    put(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    put(root, "/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    cli_machine_read(root, 8, &machine);
    assert_true(machine.quota_cores == 0.5 && machine.limit_bytes == 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_nothing_of_no_step),
        cmocka_unit_test(names_causes),
        cmocka_unit_test(names_ranks),
        cmocka_unit_test(jobs_agrees),
        cmocka_unit_test(doctor_finds_shards),
        cmocka_unit_test(says_where),
        cmocka_unit_test(takes_anything),
        cmocka_unit_test(doctor_finds),
        cmocka_unit_test(doctor_counts_classes),
        cmocka_unit_test(advises_what_helps),
        cmocka_unit_test(doctor_advises_what_helps),
        cmocka_unit_test(reads_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
