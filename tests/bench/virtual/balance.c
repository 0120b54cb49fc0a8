#include "tests/bench/virtual/balance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static double imbalance(const struct balance_result *result)
{
    return result->iterations ? (double)result->imbalanced / (double)result->iterations : 0;
}

/* ── one run ── */

static void print_run(const struct balance_scenario *scenario, const struct balance_result *result)
{
    printf("time        %.3f s\nstall       %.3f s over all queues\nimbalance   %.4f of %llu iterations (tau %g ms)\n",
           result->time_s, result->stall_s, imbalance(result), (unsigned long long)result->iterations,
           scenario->tau_ms);
    if (scenario->n_jobs > 1)
        printf("first job   %.3f s\n", result->first_s);
    if (result->decisions)
        printf("held        %.1f samples on the mean\n", result->held);
    for (uint32_t i = 0; i < scenario->n_queues; i++)
        printf("queue %-2u    waited %.3f s\n", i, result->wait_s[i]);
    for (uint32_t i = 0; i < result->n_trace; i++) {
        const struct balance_trace *trace = &result->trace[i];
        printf("%8.2f s  prepare %-3u load", trace->at_s, trace->preparers);
        for (uint32_t queue = 0; queue < scenario->n_queues; queue++)
            printf(" %u", trace->queue_loaders[queue]);
        putchar('\n');
    }
    if (result->n_trace == BALANCE_TRACE_MAX)
        printf("            (only the first %d changes)\n", BALANCE_TRACE_MAX);
}

/* ── all fixed splits against the governor ── */

static const char *const mode_names[] = {
    [BALANCE_EVEN] = "even", [BALANCE_DEALT] = "dealt", [BALANCE_SHARED] = "shared"};

struct best {
    struct balance_split split;
    double stall_s, imbalance;
    bool any;
};

/* What is known of a split: its whole result, or only that it is worse than the best. */
struct tried {
    double stall_s, imbalance;
    bool stuck, gave_up;
};

static int try_split(const struct balance_scenario *scenario, struct balance_split split, struct best *best,
                     struct tried *out, struct error *err)
{
    struct balance_result *result = xcalloc(1, sizeof *result);
    split.give_up_s = best->any ? best->stall_s : 0;
    int code = balance_run(scenario, &split, result, err);
    *out = (struct tried){result->stall_s, imbalance(result), result->stuck, result->gave_up};
    if (!code && !out->stuck && !out->gave_up)
        *best = (struct best){split, out->stall_s, out->imbalance, true};
    free(result);
    return code;
}

static void print_tried(const struct tried *tried)
{
    if (tried->stuck)
        printf("  %10s %10s", "never", "");
    else if (tried->gave_up)
        printf("  %10s %10s", "more", "");
    else
        printf("  %9.2fs %10.4f", tried->stall_s, tried->imbalance);
}

/* This tries every number of preparers with all threads at work. It goes from the middle outwards: the best splits are
 * mostly there, so that the others are soon given up. */
static int try_all(const struct balance_scenario *scenario, struct best bests[BALANCE_AUTO], struct error *err)
{
    struct tried tried[BALANCE_WORKERS_MAX + 1][BALANCE_AUTO];
    uint32_t workers = (uint32_t)scenario->workers, extra = (uint32_t)scenario->extra_loaders;
    uint32_t end = workers + (extra > 0), count = end - 1, middle = end / 2;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t off = (i + 1) / 2, preparers = i % 2 && middle > off ? middle - off : middle + off;
        for (int mode = 0; mode < BALANCE_AUTO; mode++) {
            struct balance_split split = {
                (enum balance_mode)mode, workers - preparers + extra, preparers, 0, false, false};
            int code = try_split(scenario, split, &bests[mode], &tried[preparers][mode], err);
            if (code)
                return code;
        }
    }
    printf("load prepare  even: stall  imbalance  dealt: stall  imbalance shared: stall  imbalance\n");
    for (uint32_t preparers = 1; preparers < end; preparers++) {
        printf("%4u %7u", workers - preparers + extra, preparers);
        for (int mode = 0; mode < BALANCE_AUTO; mode++)
            print_tried(&tried[preparers][mode]);
        putchar('\n');
    }
    return 0;
}

/* This tries fewer loaders than there are threads, which is better if more of them slow storage down. */
static int try_fewer(const struct balance_scenario *scenario, struct best *best, struct error *err)
{
    struct balance_split split = best->split;
    struct tried tried;
    int code = 0;
    for (uint32_t loaders = split.loaders - 1; !code && loaders > 0; loaders--) {
        split.loaders = loaders;
        code = try_split(scenario, split, best, &tried, err);
    }
    return code;
}

static bool hold(const char *what, double value, double most, double of, const char *whose)
{
    bool holds = most <= 0 || value <= most * of + 1e-9;
    printf("%-10s governor %.4f, %s %.4f: ratio %.3f", what, value, whose, of,
           of > 0      ? value / of
           : value > 0 ? INFINITY
                       : 1);
    if (most > 0)
        printf(", at most %.2f: %s", most, holds ? "holds" : "MISSED");
    putchar('\n');
    return holds;
}

/* With fewer loaders than queues, a split that gives each queue its own loaders cannot run. */
static void print_best(enum balance_mode mode, const struct best *best)
{
    if (best->any)
        printf("best %-6s split  load %u, prepare %u: stall %.3f s, imbalance %.4f\n", mode_names[mode],
               best->split.loaders, best->split.preparers, best->stall_s, best->imbalance);
    else
        printf("best %-6s split  none runs: a queue has no loader\n", mode_names[mode]);
}

/* This compares look-ahead by need with whole look-ahead. */
static int compare_ahead(const struct balance_scenario *scenario, const struct balance_result *by_need, bool *holds,
                         struct error *err)
{
    struct balance_scenario whole = *scenario;
    struct balance_result *result = xcalloc(1, sizeof *result);
    whole.ahead_ms = 0;
    int code = balance_run(&whole, &(struct balance_split){.mode = BALANCE_AUTO}, result, err);
    if (!code) {
        *holds &= hold("look-ahead", by_need->stall_s, scenario->expect.ahead, result->stall_s,
                       "stall with the whole of it");
        *holds &= hold("held", by_need->held, scenario->expect.held, result->held, "samples with the whole of it");
    }
    free(result);
    return code;
}

/* This compares with a governor to which all reads are reads of sources. */
static int compare_tiers(const struct balance_scenario *scenario, const struct balance_result *told, bool *holds,
                         struct error *err)
{
    struct balance_result *result = xcalloc(1, sizeof *result);
    int code = balance_run(scenario, &(struct balance_split){.mode = BALANCE_AUTO, .one_tier = true}, result, err);
    if (!code)
        *holds &= hold("tiers", told->stall_s, scenario->expect.tiers, result->stall_s,
                       "stall with one mean over tiers");
    free(result);
    return code;
}

/* compare_beside compares the first job with the same job alone. */
static int compare_beside(const struct balance_scenario *scenario, struct balance_result *beside, struct error *err)
{
    struct balance_result *result = xcalloc(1, sizeof *result);
    bool holds = false;
    int code = balance_run(scenario, &(struct balance_split){.mode = BALANCE_AUTO, .alone = true}, result, err);
    if (!code)
        code = balance_run(scenario, &(struct balance_split){.mode = BALANCE_AUTO}, beside, err);
    if (!code)
        holds = hold("beside", beside->first_s, scenario->expect.beside, result->first_s,
                     "time of the first job alone") &&
                !beside->stuck;
    free(result);
    return code ? code : holds ? 0 : 1;
}

static bool has_classes(const struct balance_scenario *scenario)
{
    bool has = false;
    for (uint32_t i = 0; i < scenario->n_queues; i++)
        has |= scenario->sources[scenario->source_of[i]].class_part > 0;
    return has;
}

/* compare_fixed compares with all fixed splits, and with less that the governor could be told. */
static int compare_fixed(const struct balance_scenario *scenario, struct balance_result *result, struct error *err)
{
    struct best bests[BALANCE_AUTO] = {{.any = false}};
    const struct best *even = &bests[BALANCE_EVEN], *dealt = &bests[BALANCE_DEALT], *best = even;
    int code = try_all(scenario, bests, err);
    if (!code)
        code = try_fewer(scenario, &bests[BALANCE_SHARED], err);
    if (!code)
        code = balance_run(scenario, &(struct balance_split){.mode = BALANCE_AUTO}, result, err);
    if (code)
        return code;
    putchar('\n');
    for (int mode = 0; mode < BALANCE_AUTO; mode++) {
        print_best((enum balance_mode)mode, &bests[mode]);
        best = bests[mode].any && (!best->any || bests[mode].stall_s < best->stall_s) ? &bests[mode] : best;
    }
    char name[32];
    snprintf(name, sizeof name, "best fixed (%s)", mode_names[best->split.mode]);
    bool holds = !result->stuck;
    holds &= hold("stall", result->stall_s, scenario->expect.stall, best->stall_s, name);
    if (even->any) {
        hold("stall", result->stall_s, 0, even->stall_s, "best even");
        holds &= hold("imbalance", imbalance(result), scenario->expect.imbalance, even->imbalance, "best even");
    }
    if (dealt->any)
        hold("imbalance", imbalance(result), 0, dealt->imbalance, "best dealt");
    if (scenario->ahead_ms > 0)
        code = compare_ahead(scenario, result, &holds, err);
    if (!code && has_classes(scenario))
        code = compare_tiers(scenario, result, &holds, err);
    return code ? code : holds ? 0 : 1;
}

static int compare(const struct balance_scenario *scenario, struct balance_result *result, struct error *err)
{
    return scenario->expect.beside > 0 ? compare_beside(scenario, result, err) : compare_fixed(scenario, result, err);
}

/* ── the command ── */

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: larder_bench %s SCENARIO.yaml [--governor auto | fixed:LOADERS,PREPARERS | dealt:LOADERS,PREPARERS "
            "| shared:LOADERS,PREPARERS | --compare] [--seed N]\n",
            name);
    return 2;
}

struct options {
    const char *path;
    struct balance_split split;
    bool comparing;
    uint64_t seed; /* 0: the scenario's own */
};

static bool parse_mode(const char *text, struct options *options)
{
    static const char *const names[] = {
        [BALANCE_EVEN] = "fixed:", [BALANCE_DEALT] = "dealt:", [BALANCE_SHARED] = "shared:"};
    char end;
    if (strcmp(text, "auto") == 0) {
        options->split.mode = BALANCE_AUTO;
        return true;
    }
    uint32_t mode = 0;
    while (mode < BALANCE_AUTO && strncmp(text, names[mode], strlen(names[mode])) != 0)
        mode++;
    options->split.mode = (enum balance_mode)mode;
    if (mode == BALANCE_AUTO)
        return false;
    return sscanf(strchr(text, ':') + 1, "%4u,%4u%c", &options->split.loaders, &options->split.preparers, &end) == 2 &&
           options->split.loaders && options->split.preparers;
}

static bool parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.split.mode = BALANCE_AUTO};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        char *end;
        if (strcmp(argv[i], "--compare") == 0) {
            options->comparing = true;
        } else if (strcmp(argv[i], "--governor") == 0 && more) {
            if (!parse_mode(argv[++i], options))
                return false;
        } else if (strcmp(argv[i], "--seed") == 0 && more) {
            options->seed = strtoull(argv[++i], &end, 10);
            if (*end || !options->seed)
                return false;
        } else if (argv[i][0] == '-' || options->path) {
            return false;
        } else {
            options->path = argv[i];
        }
    }
    return options->path && !(options->comparing && options->split.mode != BALANCE_AUTO);
}

static int check_split(const struct options *options, const struct balance_scenario *scenario, struct error *err)
{
    uint64_t all = scenario->workers + scenario->extra_loaders;
    if (options->split.mode == BALANCE_AUTO ||
        (options->split.preparers <= scenario->workers && options->split.loaders + options->split.preparers <= all))
        return 0;
    return error_set(err, LARDER_EINVAL, "%s has %llu workers: %u loaders and %u preparers are more", options->path,
                     (unsigned long long)scenario->workers, options->split.loaders, options->split.preparers);
}

static int bench(const struct options *options)
{
    struct balance_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct balance_result *result = xcalloc(1, sizeof *result);
    struct error err;
    int status = 2, code = balance_read(options->path, scenario, &err);
    if (!code && options->seed)
        scenario->seed = options->seed;
    if (!code)
        code = check_split(options, scenario, &err);
    if (!code && options->comparing) {
        status = compare(scenario, result, &err);
        code = status < 0 ? status : 0;
    } else if (!code && (code = balance_run(scenario, &options->split, result, &err)) == 0) {
        print_run(scenario, result);
        status = result->stuck ? 1 : 0;
        if (result->stuck)
            printf("never ends: a queue has no loader\n");
    }
    if (code) {
        fprintf(stderr, "larder_bench balance: %s\n", err.text);
        status = 2;
    }
    free(result);
    free(scenario);
    return status;
}

int balance_bench_main(int argc, char **argv)
{
    struct options options;
    return parse(argc, argv, &options) ? bench(&options) : usage(argv[0]);
}
