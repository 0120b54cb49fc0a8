/* simulate.c: runs seeds, and tells of a failing one how to see it again.
 *
 *   simulate --seeds 1 5000            check the rules that never bend in these scenarios
 *   simulate --seed 17 --verbose       one scenario, every event and action
 *   simulate --seeds 1 1500 --twice 100   and up to seed 100 the same seed gives the same events and actions again
 *   simulate --seeds 1 500 --sabotage KIND   the model finds each wrong deed of the kind (`--sabotage list` lists them)
 *   … --deeds N                        the seeds end where N wrong deeds were done
 *   simulate --regressions             seeds that found something once
 *   simulate --seeds 1 5000 --hash     prints one hash of all that the engine did: a change that moves code keeps it
 *   … --restarts                       daemons die, and runs go on from states, see scenario.h
 *   … --tight                          in arenas hardly larger than what the jobs are sure of, see scenario.h
 *   … --multisets                     epochs are multisets, see scenario.h; not with --restarts
 *   … --planes                         loads bring planes in place of bytes, see scenario.h
 *   … --forms                          samples stand in memory in decoded forms, see scenario.h
 *   … --ragged                         samples differ in length, see scenario.h
 *   … --unlike                         what pipelines make takes times far apart, see scenario.h
 *   … --times                          how long the engine's longest step took
 *   … --check-every K                  engine_check after every K-th step, whatever it costs */
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/random.h"
#include "tests/simulation/regressions.h"
#include "tests/simulation/world.h"

#define FAILURES_SHOWN 10

struct options {
    uint64_t first, last;
    uint64_t deeds; /* of a sabotage; seeds end with the last of them */
    uint64_t twice; /* the last seed that is run twice */
    bool regressions, hash;
    unsigned kind; /* enum scenario_kind */
    struct world_options world;
};

struct tally {
    uint64_t runs, failures, steps, sabotaged, found, missed;
    uint64_t delivered, prepared, loaded, bad, retries, no_rooms;
    uint64_t longest_ns; /* of all steps, in the thread's time */
    struct world_restarts restarts;
    uint64_t hash; /* of all runs' events and actions, in the order of the seeds */
};

/* What a crash is told with: nothing but write() is safe then. */
static char replay[256];

static void on_crash(int signal_number)
{
    ssize_t ignored = write(STDERR_FILENO, replay, strlen(replay));
    (void)ignored;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void tell_failure(struct tally *tally, uint64_t seed, const char *how, const char *rule, const char *text)
{
    if (tally->failures++ < FAILURES_SHOWN)
        printf("seed %" PRIu64 ": %s: %s\n  replay: simulate --seed %" PRIu64 " --verbose --check-every 1%s\n", seed,
               rule, text, seed, how);
}

static bool has_ranks(const struct scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->n_clients; i++)
        if (scenario->clients[i].world_size > 1)
            return true;
    return false;
}

static void add_restarts(struct world_restarts *sum, const struct world_restarts *one)
{
    sum->crashes += one->crashes;
    sum->legs += one->legs;
    sum->states += one->states;
    sum->resumed += one->resumed;
    sum->epochs += one->epochs;
    sum->runs += one->runs;
    sum->dead += one->dead;
}

static void run_seed(uint64_t seed, const struct options *options, struct tally *tally)
{
    enum sabotage_kind sabotage = options->world.sabotage;
    char how[96];
    snprintf(how, sizeof how, "%s%s%s%s%s%s%s%s%s", options->kind & SCENARIO_TIGHT ? " --tight" : "",
             options->kind & SCENARIO_RESTARTS ? " --restarts" : "",
             options->kind & SCENARIO_MULTISETS ? " --multisets" : "", options->kind & SCENARIO_FORMS ? " --forms" : "",
             options->kind & SCENARIO_PLANES ? " --planes" : "", options->kind & SCENARIO_RAGGED ? " --ragged" : "",
             options->kind & SCENARIO_UNLIKE ? " --unlike" : "", sabotage ? " --sabotage " : "",
             sabotage ? sabotage_name(sabotage) : "");
    snprintf(replay, sizeof replay,
             "seed %" PRIu64 ": the engine crashed\n  replay: simulate --seed %" PRIu64
             " --verbose --check-every 1%s\n",
             seed, seed, how);
    struct scenario *scenario = scenario_create(seed, options->kind);
    struct world_result result, again;
    if ((sabotage_needs_ranks(sabotage) && !has_ranks(scenario)) ||
        (sabotage_needs_restarts(sabotage) && !scenario->restarts)) {
        scenario_destroy(scenario);
        return;
    }
    world_run(scenario, &options->world, &result);
    tally->runs++;
    tally->steps += result.steps;
    tally->longest_ns = result.longest_ns > tally->longest_ns ? result.longest_ns : tally->longest_ns;
    tally->hash = random_mix64(tally->hash ^ result.hash);
    tally->delivered += result.totals.counts.samples_delivered;
    tally->prepared += result.totals.counts.instances_prepared;
    tally->loaded += result.totals.counts.samples_loaded;
    tally->retries += result.totals.counts.source_retries;
    tally->no_rooms += result.no_rooms;
    add_restarts(&tally->restarts, &result.restarts);
    for (size_t i = 0; i < sizeof result.totals.counts.bad_samples / sizeof result.totals.counts.bad_samples[0]; i++)
        tally->bad += result.totals.counts.bad_samples[i];
    tally->sabotaged += result.sabotaged;
    if (result.sabotaged && sabotage_expects(sabotage, result.broken))
        tally->found++;
    else if (result.sabotaged && result.broken == RULE_NONE)
        tally->missed = seed;
    else if (result.broken)
        tell_failure(tally, seed, how, rule_name(result.broken), result.text);
    if (seed <= options->twice && !result.broken) {
        world_run(scenario, &options->world, &again);
        if (again.hash != result.hash || again.steps != result.steps)
            tell_failure(tally, seed, how, "deterministic", "a second run gave other events and actions");
    }
    scenario_destroy(scenario);
}

static void run_seeds(const struct options *options, struct tally *tally)
{
    if (options->regressions) {
        for (size_t i = 0; i < sizeof regressions / sizeof regressions[0]; i++) {
            printf("regression '%s', seed %" PRIu64 "\n", regressions[i].what, regressions[i].seed);
            struct options its = *options;
            its.kind = regressions[i].kind;
            run_seed(regressions[i].seed, &its, tally);
        }
        return;
    }
    for (uint64_t seed = options->first;
         seed <= options->last && tally->failures < FAILURES_SHOWN && tally->sabotaged < options->deeds; seed++)
        run_seed(seed, options, tally);
}

/* Runs one kind of sabotage, or none; true when all was as it should be. */
static bool run(const struct options *options)
{
    struct tally tally = {0};
    uint64_t started_ns = clock_now_ns();
    run_seeds(options, &tally);
    double seconds = (double)(clock_now_ns() - started_ns) * 1e-9;
    enum sabotage_kind sabotage = options->world.sabotage;
    if (sabotage) {
        printf("%-15s %4" PRIu64 " wrong deeds in %" PRIu64 " seeds, %" PRIu64 " found\n", sabotage_name(sabotage),
               tally.sabotaged, tally.runs, tally.found);
        bool enough = sabotage_found_enough(sabotage, tally.sabotaged, tally.found);
        if (!enough && tally.missed)
            printf("  one that was not: simulate --seed %" PRIu64 " --verbose --sabotage %s\n", tally.missed,
                   sabotage_name(sabotage));
        return tally.failures == 0 && enough;
    }
    printf("%" PRIu64 " seeds, %" PRIu64 " failures, %.1f s: %" PRIu64 " steps, %" PRIu64 " samples delivered, %" PRIu64
           " prepared, %" PRIu64 " loaded, %" PRIu64 " tried again, %" PRIu64 " bad, %" PRIu64 " jobs without room\n",
           tally.runs, tally.failures, seconds, tally.steps, tally.delivered, tally.prepared, tally.loaded,
           tally.retries, tally.bad, tally.no_rooms);
    if (options->world.timed)
        printf("the longest step took %.3f ms\n", (double)tally.longest_ns / 1e6);
    const struct world_restarts *restarts = &tally.restarts;
    if (options->kind & SCENARIO_RESTARTS)
        printf(
            "%u daemons died, %u jobs went on, %u states were saved, %u legs went on from some; %u runs had %u whole "
            "epochs, %u ended early\n",
            restarts->crashes, restarts->resumed, restarts->states, restarts->legs, restarts->runs, restarts->epochs,
            restarts->dead);
    if (options->hash)
        printf("hash %016" PRIx64 "\n", tally.hash);
    return tally.failures == 0;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0';
}

static bool parse_sabotage(const char *name, struct options *options)
{
    if (name && strcmp(name, "list") == 0) {
        for (int kind = 1; kind < SABOTAGE_COUNT; kind++)
            puts(sabotage_name((enum sabotage_kind)kind));
        exit(0);
    }
    options->world.sabotage = name ? sabotage_find(name) : SABOTAGE_NONE;
    return options->world.sabotage != SABOTAGE_NONE;
}

static bool parse(int argc, char **argv, struct options *options)
{
    (void)argc;
    uint64_t number;
    for (char **arg = argv + 1; *arg; arg++) {
        if (strcmp(*arg, "--verbose") == 0) {
            options->world.verbose = true;
        } else if (strcmp(*arg, "--times") == 0) {
            options->world.timed = true;
        } else if (strcmp(*arg, "--twice") == 0 && parse_number(arg[1], &options->twice)) {
            arg++;
        } else if (strcmp(*arg, "--tight") == 0) {
            options->kind |= SCENARIO_TIGHT;
        } else if (strcmp(*arg, "--restarts") == 0) {
            options->kind |= SCENARIO_RESTARTS;
        } else if (strcmp(*arg, "--multisets") == 0) {
            options->kind |= SCENARIO_MULTISETS;
        } else if (strcmp(*arg, "--planes") == 0) {
            options->kind |= SCENARIO_PLANES;
        } else if (strcmp(*arg, "--forms") == 0) {
            options->kind |= SCENARIO_FORMS;
        } else if (strcmp(*arg, "--ragged") == 0) {
            options->kind |= SCENARIO_RAGGED;
        } else if (strcmp(*arg, "--unlike") == 0) {
            options->kind |= SCENARIO_UNLIKE;
        } else if (strcmp(*arg, "--hash") == 0) {
            options->hash = true;
        } else if (strcmp(*arg, "--regressions") == 0) {
            options->regressions = true;
        } else if (strcmp(*arg, "--seed") == 0 && parse_number(arg[1], &number)) {
            options->first = options->last = number;
            arg++;
        } else if (strcmp(*arg, "--seeds") == 0 && parse_number(arg[1], &options->first) &&
                   parse_number(arg[2], &options->last)) {
            arg += 2;
        } else if (strcmp(*arg, "--check-every") == 0 && parse_number(arg[1], &number) && number > 0 &&
                   number <= UINT32_MAX) {
            options->world.check_every = (uint32_t)number;
            arg++;
        } else if (strcmp(*arg, "--deeds") == 0 && parse_number(arg[1], &options->deeds)) {
            arg++;
        } else if (strcmp(*arg, "--sabotage") == 0 && parse_sabotage(arg[1], options)) {
            arg++;
        } else {
            fprintf(stderr, "simulate: '%s' is not understood, or what belongs to it: see the top of simulate.c\n",
                    *arg);
            return false;
        }
    }
    if (options->kind & SCENARIO_RESTARTS && options->kind & SCENARIO_MULTISETS)
        fprintf(stderr, "simulate: --restarts and --multisets do not go together\n");
    return !(options->kind & SCENARIO_RESTARTS && options->kind & SCENARIO_MULTISETS);
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .last = 200, .deeds = UINT64_MAX};
    if (!parse(argc, argv, &options))
        return 2;
#ifdef M_MMAP_MAX /* glibc has it */
    /* Thousands of engines of half a megabyte come and go. It would take a third of the processor to give their pages
     * back to the system each time. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
    signal(SIGABRT, on_crash);
    signal(SIGFPE, on_crash);
    signal(SIGSEGV, on_crash);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before a crash is what one needs */
    return run(&options) ? 0 : 1;
}
