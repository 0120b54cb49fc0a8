/* bench_materialised.c: `larder_bench tree --materialised`: the daemon's sampler and the tree that stores its
 * vertices, side by side. Both get the same sets and work by turns, so that whatever else the machine does meets
 * both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/bench/virtual/sampler/bench_tree_priv.h"
#include "tests/bench/virtual/sampler/materialised_priv.h"

#define TURN_ROUNDS 20 /* in a row, so that a side finds its own sets in the caches, not the other's */
#define HALF_ROUNDS 5  /* one may take a second in the tree */

enum side { SAMPLER, TREE, SIDES };
static const char *const side_names[SIDES] = {"sampler", "materialised"};

struct contest {
    unsigned n_jobs; /* places 0 … n_jobs - 1 */
    struct sampler *sampler;
    struct materialised *tree;
    struct rng rng; /* the tree's draws */
    struct times times[SIDES];
    uint64_t n_picks[SIDES], n_draws[SIDES];
    uint64_t interrupted[SIDES];
    long switches;
};

/* ── what is measured ────────────────────────────────────────────────────────────────────────────────────────────── */

static void insert(struct contest *contest, enum side side, unsigned job, const struct idset *left)
{
    if (side == SAMPLER)
        bench_insert(contest->sampler, job, left);
    else
        materialised_insert(contest->tree, job, left);
}

static void erase(struct contest *contest, enum side side, unsigned job)
{
    if (side == SAMPLER)
        sampler_remove_job(contest->sampler, job);
    else
        materialised_delete(contest->tree, job);
}

/* A round of all jobs, after which the picks are out of the sets. */
static size_t play_round(struct contest *contest, enum side side, struct pick *picks)
{
    struct jobset need = {{0}};
    for (unsigned job = 0; job < contest->n_jobs; job++)
        jobset_add(&need, job);
    if (side == SAMPLER)
        return sampler_round(contest->sampler, &need, picks);
    size_t n_picks = materialised_round(contest->tree, &contest->rng, picks);
    for (size_t i = 0; i < n_picks; i++)
        materialised_remove(contest->tree, picks[i].id, &picks[i].jobs);
    return n_picks;
}

/* A round in which every second job needs a sample. The tree has to do without the others meanwhile. */
static size_t play_half_round(struct contest *contest, enum side side, struct pick *picks)
{
    struct jobset need = {{0}};
    struct idset *left[JOBS_MAX];
    for (unsigned job = 0; job < contest->n_jobs; job += 2)
        jobset_add(&need, job);
    if (side == SAMPLER)
        return sampler_round(contest->sampler, &need, picks);
    for (unsigned job = 1; job < contest->n_jobs; job += 2) {
        left[job] = materialised_left(contest->tree, job);
        materialised_delete(contest->tree, job);
    }
    size_t n_picks = play_round(contest, TREE, picks);
    for (unsigned job = 1; job < contest->n_jobs; job += 2) {
        materialised_insert(contest->tree, job, left[job]);
        idset_destroy(left[job]);
    }
    return n_picks;
}

/* ── how ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct contest begin_contest(const struct bench *bench, uint64_t times_max)
{
    struct contest contest = {.tree = materialised_create(), .sampler = sampler_create(bench->seed)};
    random_seed(&contest.rng, ~bench->seed);
    for (int side = 0; side < SIDES; side++)
        contest.times[side].ns = xcalloc(times_max, sizeof(uint64_t));
    bench_interrupted(&contest.switches);
    return contest;
}

static void end_contest(struct contest *contest)
{
    sampler_destroy(contest->sampler);
    materialised_destroy(contest->tree);
    for (int side = 0; side < SIDES; side++)
        free(contest->times[side].ns);
}

static void forget_times(struct contest *contest)
{
    for (int side = 0; side < SIDES; side++)
        contest->times[side].count = 0;
}

static void note_time(struct contest *contest, enum side side, uint64_t since)
{
    contest->times[side].ns[contest->times[side].count++] = clock_now_ns() - since;
}

/* A slow round during which another process had the processor says nothing about either: its time is left out. */
static void leave_out_interrupted(struct contest *contest, enum side side)
{
    struct times *times = &contest->times[side];
    if (times->ns[times->count - 1] <= SLOW_ROUND_NS || !bench_interrupted(&contest->switches))
        return;
    times->count--;
    contest->interrupted[side]++;
}

/* False when an epoch is through. */
static bool time_round(struct contest *contest, enum side side)
{
    struct pick picks[JOBS_MAX];
    uint64_t since = clock_now_ns();
    size_t n_picks = play_round(contest, side, picks);
    note_time(contest, side, since);
    leave_out_interrupted(contest, side);
    contest->n_picks[side] += n_picks;
    for (size_t i = 0; i < n_picks; i++)
        contest->n_draws[side] += jobset_count(&picks[i].jobs);
    return n_picks > 0;
}

static void compare_rounds(struct contest *contest, uint64_t rounds)
{
    bool going = true;
    for (uint64_t first = 0; going && first < rounds; first += TURN_ROUNDS)
        for (unsigned turn = 0; turn < SIDES; turn++) {
            enum side side = (first / TURN_ROUNDS + turn) % SIDES;
            for (uint64_t i = first; i < rounds && i < first + TURN_ROUNDS; i++)
                going &= time_round(contest, side);
        }
}

static void compare_half_rounds(struct contest *contest)
{
    struct pick picks[JOBS_MAX];
    for (unsigned i = 0; i < HALF_ROUNDS; i++)
        for (unsigned turn = 0; turn < SIDES; turn++) {
            enum side side = (i + turn) % SIDES;
            uint64_t since = clock_now_ns();
            play_half_round(contest, side, picks);
            note_time(contest, side, since);
        }
}

/* ── insertion, deletion, memory ─────────────────────────────────────────────────────────────────────────────────── */

static void print_times(struct contest *contest, const char *name)
{
    printf("  \"%s\": {", name);
    for (int side = 0; side < SIDES; side++) {
        printf("%s\"%s\": {", side ? ",\n    " : "", side_names[side]);
        times_print(&contest->times[side]);
        printf("}");
    }
    printf("},\n");
}

static void print_memory(const struct contest *contest)
{
    printf("\"memory_bytes\": {\"%s\": %" PRIu64 ", \"%s\": %" PRIu64 "}", side_names[SAMPLER],
           sampler_bytes(contest->sampler), side_names[TREE], materialised_bytes(contest->tree));
}

static void compare_insertion(struct bench *bench)
{
    struct contest contest = begin_contest(bench, bench->datasets);
    for (unsigned job = 0; job < bench->datasets; job++) {
        uint64_t count = bench->min + random_below(&bench->rng, bench->max - bench->min + 1);
        struct idset *view = bench_random_subset(bench, bench->universe, count);
        for (unsigned turn = 0; turn < SIDES; turn++) {
            enum side side = (job + turn) % SIDES;
            uint64_t since = clock_now_ns();
            insert(&contest, side, job, view);
            note_time(&contest, side, since);
        }
        idset_destroy(view);
    }
    print_times(&contest, "insertion");
    printf("  ");
    print_memory(&contest);
    printf(",\n");
    forget_times(&contest);
    for (unsigned job = 0; job < bench->datasets; job++)
        for (unsigned turn = 0; turn < SIDES; turn++) {
            enum side side = (job + turn) % SIDES;
            uint64_t since = clock_now_ns();
            erase(&contest, side, job);
            note_time(&contest, side, since);
        }
    print_times(&contest, "deletion");
    end_contest(&contest);
}

/* ── draws ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void insert_jobs(struct bench *bench, struct contest *contest, unsigned n_jobs, enum sets sets)
{
    struct pick picks[JOBS_MAX];
    struct idset *all;
    CHECK(idset_from_range(0, IMAGENET_SAMPLES, &all) == 0);
    for (unsigned job = 0; job < n_jobs; job++) {
        for (unsigned i = 0; sets == SETS_STAGGERED && job && i < STAGGER_ROUNDS; i++)
            for (int side = 0; side < SIDES; side++)
                play_round(contest, (enum side)side, picks);
        struct idset *part = NULL;
        if (sets == SETS_RANDOM)
            part = bench_random_subset(bench, IMAGENET_SAMPLES, IMAGENET_SAMPLES * UINT64_C(6) / 10);
        for (int side = 0; side < SIDES; side++)
            insert(contest, (enum side)side, job, part ? part : all);
        idset_destroy(part);
        contest->n_jobs = job + 1;
    }
    idset_destroy(all);
}

static void print_rounds(struct contest *contest)
{
    for (int side = 0; side < SIDES; side++) {
        struct times *times = &contest->times[side];
        uint64_t n_draws = contest->n_draws[side];
        printf("     \"%s\": {\"rounds\": %zu, \"interrupted\": %" PRIu64 ", \"per_job_sample_ns\": %.1f, ",
               side_names[side], times->count, contest->interrupted[side], times_mean_ns(times) / contest->n_jobs);
        printf("\"picks_per_draw\": %.4f, ", n_draws ? (double)contest->n_picks[side] / (double)n_draws : 0);
        printf("\"round_median_us\": %.3f, \"round_p9999_us\": %.3f, \"round_max_us\": %.3f},\n",
               times_quantile_ns(times, 0.5) / 1e3, times_quantile_ns(times, 0.9999) / 1e3,
               times_quantile_ns(times, 1) / 1e3);
    }
}

static void compare_draws(struct bench *bench, unsigned n_jobs, enum sets sets, bool last)
{
    struct contest contest = begin_contest(bench, bench->rounds > HALF_ROUNDS ? bench->rounds : HALF_ROUNDS);
    insert_jobs(bench, &contest, n_jobs, sets);
    compare_rounds(&contest, bench->rounds);
    printf("    {\"jobs\": %u, \"sets\": \"%s\",\n", n_jobs, bench_set_names[sets]);
    print_rounds(&contest);
    forget_times(&contest);
    compare_half_rounds(&contest);
    printf("     \"half_round_median_us\": {");
    for (int side = 0; side < SIDES; side++)
        printf("\"%s\": %.3f%s", side_names[side], times_quantile_ns(&contest.times[side], 0.5) / 1e3,
               side ? "}, " : ", ");
    print_memory(&contest);
    printf("}%s\n", last ? "" : ",");
    end_contest(&contest);
}

void bench_materialised(struct bench *bench)
{
    const size_t n = SETS_KINDS * BENCH_JOBS_KINDS;
    compare_insertion(bench);
    printf("  \"draws\": [\n");
    for (size_t i = 0; i < n; i++) {
        compare_draws(bench, bench_jobs[i % BENCH_JOBS_KINDS], (enum sets)(i / BENCH_JOBS_KINDS), i == n - 1);
        fflush(stdout);
    }
    printf("  ]\n");
}
