#include "server/bench_balance.h"

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

struct best {
    double stall_s, imbalance;
    uint32_t loaders, preparers;
    bool any;
};

static int try_split(const struct balance_scenario *scenario, enum balance_mode mode, uint32_t loaders,
                     uint32_t preparers, struct best *best, struct balance_result *result, struct error *err)
{
    int code = balance_run(scenario, mode, loaders, preparers, result, err);
    if (code)
        return code;
    if (result->stuck) {
        printf("  %10s %10s", "never", "");
        return 0;
    }
    printf("  %9.2fs %10.4f", result->stall_s, imbalance(result));
    if (!best->any || result->stall_s < best->stall_s)
        *best = (struct best){result->stall_s, imbalance(result), loaders, preparers, true};
    return 0;
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

/* Look-ahead by need against the whole of it. */
static int compare_ahead(const struct balance_scenario *scenario, const struct balance_result *by_need, bool *holds, struct error *err)
{
    struct balance_scenario whole = *scenario;
    struct balance_result *result = xcalloc(1, sizeof *result);
    whole.ahead_ms = 0;
    int code = balance_run(&whole, BALANCE_AUTO, 0, 0, result, err);
    if (!code) {
        *holds &= hold("look-ahead", by_need->stall_s, scenario->expect_ahead, result->stall_s, "stall with the whole of it");
        *holds &= hold("held", by_need->held, scenario->expect_held, result->held, "samples with the whole of it");
    }
    free(result);
    return code;
}

static int compare(const struct balance_scenario *scenario, struct balance_result *result, struct error *err)
{
    struct best even = {0}, shared = {0};
    uint32_t workers = (uint32_t)scenario->workers, extra = (uint32_t)scenario->extra_loaders;
    int code = 0;
    printf("load prepare  even: stall  imbalance  shared: stall imbalance\n");
    for (uint32_t preparers = 1; !code && preparers < workers + (extra > 0); preparers++) {
        uint32_t loaders = workers - preparers + extra;
        printf("%4u %7u", loaders, preparers);
        code = try_split(scenario, BALANCE_EVEN, loaders, preparers, &even, result, err);
        if (!code)
            code = try_split(scenario, BALANCE_SHARED, loaders, preparers, &shared, result, err);
        putchar('\n');
    }
    if (!code)
        code = balance_run(scenario, BALANCE_AUTO, 0, 0, result, err);
    if (code)
        return code;
    bool shared_better = shared.any && (!even.any || shared.stall_s < even.stall_s);
    struct best best = shared_better ? shared : even;
    printf("\nbest even split    load %u, prepare %u: stall %.3f s, imbalance %.4f\n", even.loaders, even.preparers,
           even.stall_s, even.imbalance);
    printf("best shared split  load %u, prepare %u: stall %.3f s, imbalance %.4f\n", shared.loaders, shared.preparers,
           shared.stall_s, shared.imbalance);
    bool holds = !result->stuck;
    holds &= hold("stall", result->stall_s, scenario->expect_stall, best.stall_s,
                  shared_better ? "best fixed (shared)" : "best fixed (even)");
    hold("stall", result->stall_s, 0, even.stall_s, "best even");
    holds &= hold("imbalance", imbalance(result), scenario->expect_imbalance, even.imbalance, "best even");
    if (scenario->ahead_ms > 0)
        code = compare_ahead(scenario, result, &holds, err);
    return code ? code : holds ? 0 : 1;
}

/* ── the command ── */

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: larder bench %s SCENARIO.yaml [--governor auto | fixed:LOADERS,PREPARERS | "
            "shared:LOADERS,PREPARERS | --compare] [--seed N]\n",
            name);
    return 2;
}

struct options {
    const char *path;
    enum balance_mode mode;
    uint32_t loaders, preparers; /* of a fixed split */
    bool comparing;
    uint64_t seed; /* 0: the scenario's own */
};

static bool parse_mode(const char *text, struct options *options)
{
    char end;
    options->mode = strncmp(text, "shared:", 7) == 0 ? BALANCE_SHARED : BALANCE_EVEN;
    if (strcmp(text, "auto") == 0) {
        options->mode = BALANCE_AUTO;
        return true;
    }
    if (strncmp(text, "fixed:", 6) != 0 && options->mode != BALANCE_SHARED)
        return false;
    return sscanf(strchr(text, ':') + 1, "%4u,%4u%c", &options->loaders, &options->preparers, &end) == 2 &&
           options->loaders && options->preparers;
}

static bool parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.mode = BALANCE_AUTO};
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
    return options->path && !(options->comparing && options->mode != BALANCE_AUTO);
}

static int check_split(const struct options *options, const struct balance_scenario *scenario, struct error *err)
{
    uint64_t all = scenario->workers + scenario->extra_loaders;
    if (options->mode == BALANCE_AUTO ||
        (options->preparers <= scenario->workers && options->loaders + options->preparers <= all))
        return 0;
    return error_set(err, LARDER_EINVAL, "%s has %llu workers: %u loaders and %u preparers are more", options->path,
                     (unsigned long long)scenario->workers, options->loaders, options->preparers);
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
    } else if (!code && (code = balance_run(scenario, options->mode, options->loaders, options->preparers, result,
                                            &err)) == 0) {
        print_run(scenario, result);
        status = result->stuck ? 1 : 0;
        if (result->stuck)
            printf("never ends: a queue has no loader\n");
    }
    if (code) {
        fprintf(stderr, "larder bench balance: %s\n", err.text);
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
