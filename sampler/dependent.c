/* dependent.c: the walk of dependent_priv.h. Positions are 0 … n - 1; `left_behind` is the position whose suffix
 * intersection is P, NOWHERE while P is empty. */
#include "sampler/dependent_priv.h"

#include <string.h>

#include "common/check.h"

#define NOWHERE (-1)
#define RUN_SLOTS 16

struct walk {
    struct rng *rng;
    const struct contender *jobs;
    int n;
    int left_behind;
    int counted_from;          /* suffix intersections are counted for this position and all after it; n: for none */
    uint64_t common[JOBS_MAX]; /* |S| by position, where counted; per block in the sets' `common` */
};

/* The last position from `from` on whose set lacks id, or `from` - 1: then id is in the suffix intersection of `from`.
 * */
static int last_lacking(const struct walk *walk, int from, sample_id id)
{
    int at = walk->n - 1;
    while (at >= from && remaining_has(walk->jobs[at].set, id))
        at--;
    return at;
}

static bool is_left_behind(const struct walk *walk, sample_id id)
{
    return last_lacking(walk, walk->left_behind, id) < walk->left_behind;
}

/* The part of count_common in RUN_SLOTS blocks of the last set. Set after set, so that each one's words are read in a
 * row: block after block takes twice as long with many sets. */
static void count_run(struct walk *walk, const struct remaining *last, uint32_t slot)
{
    uint64_t acc[RUN_SLOTS][BLOCK_WORDS];
    uint32_t left[RUN_SLOTS], n_left = last->n_slots - slot < RUN_SLOTS ? last->n_slots - slot : RUN_SLOTS;
    for (uint32_t i = 0; i < n_left; i++)
        left[i] = i;
    memset(acc, 0xff, n_left * sizeof *acc);
    for (int at = walk->n - 1; n_left && at >= walk->left_behind; at--) {
        struct remaining *set = walk->jobs[at].set;
        uint32_t n = n_left;
        n_left = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t own = remaining_slot(set, last->block_of[slot + left[i]]);
            uint32_t count = block_intersect(acc[left[i]], remaining_words(set, own));
            if (count == 0)
                continue;
            set->common[own] = (uint16_t)count;
            walk->common[at] += count;
            left[n_left++] = left[i];
        }
    }
}

/* Counts the suffix intersections from left_behind on: |S| in all and per block. */
static void count_common(struct walk *walk)
{
    const struct remaining *last = walk->jobs[walk->n - 1].set;
    int first = walk->left_behind;
    for (int at = first; at < walk->n; at++) {
        struct remaining *set = walk->jobs[at].set;
        memset(set->common, 0, set->n_slots * sizeof *set->common); /* the empty slot's stays 0 */
        walk->common[at] = 0;
    }
    for (uint32_t slot = 0; slot < last->n_slots; slot += RUN_SLOTS)
        count_run(walk, last, slot);
    walk->counted_from = first;
}

/* A uniform draw from Dj \ P by exact counts. */
static sample_id draw_counted(const struct walk *walk, int j)
{
    const struct remaining *set = walk->jobs[j].set, *behind = walk->jobs[walk->left_behind].set;
    uint64_t rank = random_below(walk->rng, set->count - walk->common[walk->left_behind]);
    uint32_t slot = 0;
    for (;; slot++) {
        CHECK(slot < set->n_slots);
        uint32_t here = set->counts[slot] - behind->common[remaining_slot(behind, set->block_of[slot])];
        if (rank < here)
            break;
        rank -= here;
    }
    uint32_t block = set->block_of[slot];
    uint64_t acc[BLOCK_WORDS];
    memcpy(acc, remaining_words(set, slot), sizeof acc);
    for (int at = walk->left_behind; at < walk->n; at++)
        block_intersect(acc, remaining_words(walk->jobs[at].set, remaining_slot(walk->jobs[at].set, block)));
    const uint64_t *words = remaining_words(set, slot);
    for (unsigned i = 0; i < BLOCK_WORDS; i++)
        acc[i] = words[i] & ~acc[i];
    return (block << BLOCK_BITS) + block_select(acc, (uint32_t)rank);
}

/* A uniform draw from Dj' = Dj \ P. */
static sample_id draw_outside(struct walk *walk, int j)
{
    const struct remaining *set = walk->jobs[j].set;
    if (walk->left_behind == NOWHERE)
        return remaining_draw(set, walk->rng);
    for (int tries = 0; walk->counted_from == walk->n && tries < DEPENDENT_TRIES; tries++) {
        sample_id id = remaining_draw(set, walk->rng);
        if (!is_left_behind(walk, id))
            return id;
    }
    if (walk->counted_from == walk->n)
        count_common(walk);
    return draw_counted(walk, j);
}

/* Whether job i chooses the intersection, given that job i - 1 did: true with probability |D(i-1)'| / |Di'|. */
static bool follows(struct walk *walk, int i)
{
    const struct remaining *set = walk->jobs[i].set, *before = walk->jobs[i - 1].set;
    if (before->count == set->count)
        return true;
    if (walk->left_behind == NOWHERE)
        return random_below(walk->rng, set->count) < before->count;
    for (int tries = 0; walk->counted_from == walk->n && tries < DEPENDENT_TRIES; tries++) {
        if (random_below(walk->rng, set->count) >= before->count)
            return false;
        if (!is_left_behind(walk, remaining_draw(before, walk->rng)))
            return true;
    }
    if (walk->counted_from == walk->n)
        count_common(walk);
    uint64_t behind = walk->common[walk->left_behind];
    return random_below(walk->rng, set->count - behind) < before->count - behind;
}

struct pick *pick_of(struct pick *picks, size_t *n_picks, sample_id id)
{
    for (size_t at = 0; at < *n_picks; at++)
        if (picks[at].id == id)
            return &picks[at];
    picks[*n_picks] = (struct pick){.id = id};
    return &picks[(*n_picks)++];
}

size_t dependent_round(struct rng *rng, const struct contender *jobs, unsigned n, struct pick *picks)
{
    CHECK(n <= JOBS_MAX);
    struct walk walk; /* `common` is written before it is read: clearing it would cost more than a draw */
    walk.rng = rng;
    walk.jobs = jobs;
    walk.n = walk.counted_from = (int)n;
    walk.left_behind = NOWHERE;
    size_t n_picks = 0;
    for (int j = 0; j < walk.n;) {
        sample_id id = draw_outside(&walk, j);
        int next = j + 1;
        if (last_lacking(&walk, j + 1, id) == j)
            while (next < walk.n && follows(&walk, next))
                next++;
        struct pick *pick = pick_of(picks, &n_picks, id);
        for (int i = j; i < next; i++)
            jobset_add(&pick->jobs, jobs[i].job);
        walk.left_behind = j;
        j = next;
    }
    return n_picks;
}
