/* bench_tree.c: `larder_bench tree`: how long insertion, deletion and draws take, and how much memory the sampler
 * holds. With --materialised it is bench_materialised.c that measures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/option.h"
#include "tests/bench/virtual/sampler/bench_tree_priv.h"
#include "tests/bench/virtual/sampler/commands.h"

#define BENCH_UNIVERSE_MAX UINT64_C(1000000000)
#define BENCH_ROUNDS_MAX UINT64_C(100000000)

static void print_times(const char *name, struct times *times)
{
    printf("  \"%s\": {", name);
    times_print(times);
    printf("},\n");
}

static void bench_insertion(struct bench *bench)
{
    struct times insertion = {.ns = xcalloc(bench->datasets, sizeof(uint64_t)), .count = bench->datasets};
    struct times deletion = {.ns = xcalloc(bench->datasets, sizeof(uint64_t)), .count = bench->datasets};
    struct sampler *sampler = sampler_create(bench->seed);
    for (unsigned job = 0; job < bench->datasets; job++) {
        uint64_t count = bench->min + random_below(&bench->rng, bench->max - bench->min + 1);
        struct idset *view = bench_random_subset(bench, bench->universe, count);
        uint64_t start = clock_now_ns();
        bench_insert(sampler, job, view);
        insertion.ns[job] = clock_now_ns() - start;
        idset_destroy(view);
    }
    uint64_t bytes = sampler_bytes(sampler);
    for (unsigned i = 0; i < bench->datasets; i++) {
        uint64_t start = clock_now_ns();
        sampler_remove_job(sampler, i);
        deletion.ns[i] = clock_now_ns() - start;
    }
    print_times("insertion", &insertion);
    print_times("deletion", &deletion);
    printf("  \"memory_bytes\": %" PRIu64 ",\n", bytes);
    sampler_destroy(sampler);
    free(insertion.ns);
    free(deletion.ns);
}

/* Puts the jobs of a bench of draws into place. */
static void insert_jobs(struct bench *bench, struct sampler *sampler, unsigned n_jobs, enum sets sets)
{
    struct jobset before = {{0}};
    struct pick picks[JOBS_MAX];
    struct idset *all;
    CHECK(idset_from_range(0, IMAGENET_SAMPLES, &all) == 0);
    for (unsigned job = 0; job < n_jobs; job++) {
        for (unsigned i = 0; sets == SETS_STAGGERED && job && i < STAGGER_ROUNDS; i++)
            sampler_round(sampler, &before, picks);
        struct idset *part = NULL;
        if (sets == SETS_RANDOM)
            part = bench_random_subset(bench, IMAGENET_SAMPLES, IMAGENET_SAMPLES * UINT64_C(6) / 10);
        bench_insert(sampler, job, part ? part : all);
        idset_destroy(part);
        jobset_add(&before, job);
    }
    idset_destroy(all);
}

/* A round after another until `rounds` are through or the epoch is. A slow one during which another process had the
 * processor says nothing about the sampler: it is counted as interrupted and its time is left out. */
static void bench_draws(struct bench *bench, unsigned n_jobs, enum sets sets, bool last)
{
    struct sampler *sampler = sampler_create(bench->seed);
    struct jobset need = {{0}};
    struct pick picks[JOBS_MAX];
    insert_jobs(bench, sampler, n_jobs, sets);
    for (unsigned job = 0; job < n_jobs; job++)
        jobset_add(&need, job);
    struct times rounds = {.ns = xcalloc(bench->rounds, sizeof(uint64_t))};
    uint64_t n_picks = 0, n_draws = 0, interrupted = 0;
    long switches = 0;
    bench_interrupted(&switches);
    for (size_t drawn = 1; rounds.count + interrupted < bench->rounds && drawn;) {
        uint64_t before = clock_now_ns();
        drawn = sampler_round(sampler, &need, picks);
        uint64_t took = clock_now_ns() - before;
        if (took > SLOW_ROUND_NS && bench_interrupted(&switches))
            interrupted++;
        else
            rounds.ns[rounds.count++] = took;
        n_picks += drawn;
        for (size_t i = 0; i < drawn; i++)
            n_draws += jobset_count(&picks[i].jobs);
    }
    printf("    {\"jobs\": %u, \"sets\": \"%s\", \"rounds\": %zu, \"interrupted\": %" PRIu64 ", ", n_jobs,
           bench_set_names[sets], rounds.count, interrupted);
    printf("\"per_job_sample_ns\": %.1f, \"picks_per_draw\": %.4f, ", times_mean_ns(&rounds) / n_jobs,
           n_draws ? (double)n_picks / (double)n_draws : 0);
    printf("\"round_median_us\": %.3f, \"round_p9999_us\": %.3f, \"round_max_us\": %.3f}%s\n",
           times_quantile_ns(&rounds, 0.5) / 1e3, times_quantile_ns(&rounds, 0.9999) / 1e3,
           times_quantile_ns(&rounds, 1) / 1e3, last ? "" : ",");
    free(rounds.ns);
    sampler_destroy(sampler);
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < min || value > max)
        return false;
    *out = value;
    return true;
}

static int parse_options(int argc, char **argv, struct bench *bench, bool *materialised)
{
    static const struct option options[] = {
        {"datasets", required_argument, NULL, 'd'}, {"min", required_argument, NULL, 'a'},
        {"max", required_argument, NULL, 'b'},      {"universe", required_argument, NULL, 'u'},
        {"seed", required_argument, NULL, 's'},     {"rounds", required_argument, NULL, 'r'},
        {"materialised", no_argument, NULL, 'm'},   {NULL, 0, NULL, 0},
    };
    bool good = true;
    optind = 1;
    for (int c; good && (c = option_next(argc, argv, options, NULL)) != -1;) {
        switch (c) {
        case 'd': good = parse_number(optarg, 1, JOBS_MAX, &bench->datasets); break;
        case 'a': good = parse_number(optarg, 1, BENCH_UNIVERSE_MAX, &bench->min); break;
        case 'b': good = parse_number(optarg, 1, BENCH_UNIVERSE_MAX, &bench->max); break;
        case 'u': good = parse_number(optarg, 1, BENCH_UNIVERSE_MAX, &bench->universe); break;
        case 's': good = parse_number(optarg, 0, UINT64_MAX, &bench->seed); break;
        case 'r': good = parse_number(optarg, 1, BENCH_ROUNDS_MAX, &bench->rounds); break;
        case 'm': *materialised = true; break;
        default: good = false;
        }
    }
    if (good && optind == argc && bench->min <= bench->max && bench->max <= bench->universe)
        return 0;
    fprintf(stderr,
            "usage: %s [--datasets N] [--min A] [--max B] [--universe U] [--seed S] [--rounds R] [--materialised]\n"
            "N datasets (1 to %d) of A to B ids out of U, A <= B <= U; R rounds of draws for each number of jobs;\n"
            "--materialised: beside a tree that stores its vertices\n",
            argv[0], JOBS_MAX);
    return 2;
}

int tree_bench_main(int argc, char **argv)
{
    const size_t n = SETS_KINDS * BENCH_JOBS_KINDS;
    bool materialised = false;
    struct bench bench = {
        .datasets = 128, .min = 1000000, .max = 2000000, .universe = 2000000, .seed = 1, .rounds = 20000};
    int status = parse_options(argc, argv, &bench, &materialised);
    if (status)
        return status;
    random_seed(&bench.rng, bench.seed);
    bench.ids = malloc((bench.max > IMAGENET_SAMPLES ? bench.max : IMAGENET_SAMPLES) * sizeof *bench.ids);
    if (bench.ids == NULL) {
        fprintf(stderr, "%s: no memory for a set of %" PRIu64 " ids: lower --max\n", argv[0], bench.max);
        return 1;
    }
    printf("{\n  \"datasets\": %" PRIu64 ", \"min\": %" PRIu64 ", \"max\": %" PRIu64 ", \"universe\": %" PRIu64
           ", \"seed\": %" PRIu64 ",\n",
           bench.datasets, bench.min, bench.max, bench.universe, bench.seed);
    if (materialised) {
        bench_materialised(&bench);
    } else {
        bench_insertion(&bench);
        printf("  \"draws\": [\n");
        for (size_t i = 0; i < n; i++)
            bench_draws(&bench, bench_jobs[i % BENCH_JOBS_KINDS], (enum sets)(i / BENCH_JOBS_KINDS), i == n - 1);
        printf("  ]\n");
    }
    printf("}\n");
    free(bench.ids);
    return 0;
}
