/* deal.c: shares of an epoch. */
#include "server/cluster/deal.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"

#define DEAL_MAGIC UINT32_C(0xdea15e75)
/* No other use of keyed streams begins with one of these. */
#define KEY_DEAL UINT64_C(0x6c616564)
#define KEY_HOMES UINT64_C(0x656d6f68)

struct deal {
    uint32_t magic;
    uint32_t count, n_chunks;
    sample_id *ids; /* sorted by chunk, and inside a chunk in the dataset's order */
    bool at_home;   /* with mix, as deal_at_home says */
    uint32_t mix;
    uint32_t *begin; /* chunk c has ids[begin[c] … begin[c + 1] - 1]; n_chunks + 1 of them */
};

/* A part of the sequence: positions first … end - 1. */
struct run {
    uint32_t first, end;
};

void deal_destroy(struct deal *deal)
{
    if (deal == NULL)
        return;
    CHECK_MAGIC(deal, DEAL_MAGIC);
    free(deal->ids);
    free(deal->begin);
    deal->magic = 0;
    free(deal);
}

void deal_at_home(struct deal *deal, uint32_t mix)
{
    CHECK_MAGIC(deal, DEAL_MAGIC);
    CHECK(mix <= DEAL_MIX_ALL);
    deal->at_home = true;
    deal->mix = mix;
}

/* Counts each chunk's samples, and puts the ids behind each other chunk by chunk. */
static void sort_by_chunk(struct deal *deal, const sample_id *ids, const uint32_t *chunk_of)
{
    uint32_t *begin = deal->begin;
    for (uint32_t i = 0; i < deal->count; i++) {
        CHECK(chunk_of[i] < deal->n_chunks);
        begin[chunk_of[i] + 1]++;
    }
    for (uint32_t c = 0; c < deal->n_chunks; c++)
        begin[c + 1] += begin[c];
    for (uint32_t i = 0; i < deal->count; i++)
        deal->ids[begin[chunk_of[i]]++] = ids[i];
    /* Each begin has moved to its chunk's end, which is where the next one begins. */
    memmove(begin + 1, begin, deal->n_chunks * sizeof *begin);
    begin[0] = 0;
}

int deal_create(const sample_id *ids, const uint32_t *chunk_of, uint32_t count, uint32_t n_chunks, struct deal **out)
{
    struct deal *deal = xcalloc(1, sizeof *deal);
    deal->magic = DEAL_MAGIC;
    deal->count = count;
    deal->n_chunks = chunk_of ? n_chunks : count;
    deal->ids = malloc(((size_t)count + 1) * sizeof *deal->ids);
    deal->begin = calloc((size_t)deal->n_chunks + 1, sizeof *deal->begin);
    if (deal->ids == NULL || deal->begin == NULL) {
        deal_destroy(deal);
        return LARDER_ENOMEM;
    }
    if (chunk_of) {
        sort_by_chunk(deal, ids, chunk_of);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            deal->ids[i] = ids[i];
            deal->begin[i + 1] = i + 1;
        }
    }
    *out = deal;
    return 0;
}

/* run_first returns the first position of the rank's run. Without drop_last the first ranks get one sample more. */
static uint32_t run_first(uint32_t count, const struct deal_ranks *ranks, uint32_t rank)
{
    uint32_t each = count / ranks->world_size, more = ranks->drop_last ? 0 : count % ranks->world_size;
    return each * rank + (rank < more ? rank : more);
}

static struct run run_of(uint32_t count, const struct deal_ranks *ranks)
{
    CHECK(ranks->world_size >= 1 && ranks->first <= ranks->world_size &&
          ranks->n_ranks <= ranks->world_size - ranks->first);
    return (struct run){run_first(count, ranks, ranks->first), run_first(count, ranks, ranks->first + ranks->n_ranks)};
}

uint32_t deal_count(uint32_t count, const struct deal_ranks *ranks)
{
    struct run run = run_of(count, ranks);
    return run.end - run.first;
}

/* Permutes the numbers (Fisher and Yates). */
static void permute(struct rng *rng, uint32_t *numbers, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t other = (uint32_t)random_below(rng, left), number = numbers[left - 1];
        numbers[left - 1] = numbers[other];
        numbers[other] = number;
    }
}

/* mix_some permutes some of the chunks, drawn without putting back, among the places that they have. */
static int mix_some(struct rng *rng, uint32_t *chunks, uint32_t count, uint32_t some)
{
    uint32_t *places = malloc(((size_t)count + 1) * sizeof *places);
    if (places == NULL)
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        places[i] = i;
    for (uint32_t i = 0; i < some; i++) {
        uint32_t other = i + (uint32_t)random_below(rng, count - i), place = places[other];
        places[other] = places[i];
        places[i] = place;
    }
    for (uint32_t left = some; left > 1; left--) {
        uint32_t *last = &chunks[places[left - 1]], *other = &chunks[places[random_below(rng, left)]], chunk = *last;
        *last = *other;
        *other = chunk;
    }
    free(places);
    return 0;
}

/* order_of returns the chunks that have samples of the view, `*n` of them, in the epoch's order. Others are left out,
 * so that the deal depends only on the view's own chunks. At home the order of all chunks is the same for all views, so
 * that most chunks have one home in views of one dataset. The caller frees them. NULL: no memory. */
static uint32_t *order_of(const struct deal *deal, uint64_t seed, uint32_t epoch, uint32_t *n)
{
    uint32_t *chunks = malloc(((size_t)deal->n_chunks + 1) * sizeof *chunks);
    struct rng rng;
    *n = 0;
    if (chunks == NULL)
        return NULL;
    for (uint32_t c = 0; c < deal->n_chunks; c++)
        chunks[c] = c;
    if (deal->at_home) {
        random_seed_keys(&rng, KEY_HOMES, 0, 0, 0);
        permute(&rng, chunks, deal->n_chunks);
    }
    for (uint32_t i = 0; i < deal->n_chunks; i++)
        if (deal->begin[chunks[i]] < deal->begin[chunks[i] + 1])
            chunks[(*n)++] = chunks[i];
    random_seed_keys(&rng, KEY_DEAL, seed, epoch, 0);
    if (!deal->at_home)
        permute(&rng, chunks, *n);
    else if (mix_some(&rng, chunks, *n, (uint32_t)(((uint64_t)*n * deal->mix + DEAL_MIX_ALL / 2) / DEAL_MIX_ALL))) {
        free(chunks);
        return NULL;
    }
    return chunks;
}

/* slots_of returns the numbers of a chunk's samples in the chunk's own order. The caller frees them. NULL: no
 * memory. */
static uint32_t *slots_of(const struct deal *deal, uint64_t seed, uint32_t epoch, uint32_t chunk)
{
    uint32_t count = deal->begin[chunk + 1] - deal->begin[chunk];
    uint32_t *slots = malloc(count * sizeof *slots);
    struct rng rng;
    if (slots == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        slots[i] = i;
    random_seed_keys(&rng, KEY_DEAL, seed, epoch, UINT64_C(1) + chunk);
    permute(&rng, slots, count);
    return slots;
}

/* part_of returns what the run has of the `count` places from `at` on, counted from there. Its end is not behind its
 * first if it has none. */
static struct run part_of(struct run run, uint32_t at, uint32_t count)
{
    uint32_t end = run.end > at ? run.end - at : 0;
    return (struct run){run.first > at ? run.first - at : 0, end < count ? end : count};
}

/* left_in returns how many samples of a chunk are not gone. */
static uint32_t left_in(const struct deal *deal, uint32_t chunk, const struct idset *gone)
{
    uint32_t left = deal->begin[chunk + 1] - deal->begin[chunk];
    for (uint32_t s = deal->begin[chunk]; gone && s < deal->begin[chunk + 1]; s++)
        left -= idset_contains(gone, deal->ids[s]);
    return left;
}

/* add_whole adds what is left of a chunk, add_cut a part of it, in the chunk's own order. */
static void add_whole(const struct deal *deal, uint32_t chunk, const struct idset *gone, struct idset *share)
{
    if (!gone)
        idset_add_many(share, deal->ids + deal->begin[chunk], deal->begin[chunk + 1] - deal->begin[chunk]);
    for (uint32_t s = deal->begin[chunk]; gone && s < deal->begin[chunk + 1]; s++)
        if (!idset_contains(gone, deal->ids[s]))
            idset_add(share, deal->ids[s]);
}

static void add_cut(const struct deal *deal, uint32_t chunk, const uint32_t *slots, const struct idset *gone,
                    struct run part, struct idset *share)
{
    uint32_t count = deal->begin[chunk + 1] - deal->begin[chunk], at = 0;
    for (uint32_t i = 0; i < count && at < part.end; i++) {
        sample_id id = deal->ids[deal->begin[chunk] + slots[i]];
        if (gone && idset_contains(gone, id))
            continue;
        if (at++ >= part.first)
            idset_add(share, id);
    }
}

int deal_share(const struct deal *deal, uint64_t seed, uint32_t epoch, const struct idset *gone,
               const struct deal_ranks *ranks, struct idset **out)
{
    CHECK_MAGIC(deal, DEAL_MAGIC);
    struct run run = run_of(deal->count - (uint32_t)(gone ? idset_count(gone) : 0), ranks);
    struct idset *share = NULL;
    uint32_t n, at = 0; /* the place of the chunk's first sample in the sequence */
    uint32_t *chunks = order_of(deal, seed, epoch, &n);
    int rc = chunks ? idset_create(&share) : LARDER_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < n && at < run.end; i++) {
        uint32_t count = left_in(deal, chunks[i], gone);
        struct run part = part_of(run, at, count);
        bool whole = part.first == 0 && part.end == count;
        uint32_t *slots = !whole && part.first < part.end ? slots_of(deal, seed, epoch, chunks[i]) : NULL;
        if (whole)
            add_whole(deal, chunks[i], gone, share);
        else if (part.first < part.end && !slots)
            rc = LARDER_ENOMEM;
        else if (slots)
            add_cut(deal, chunks[i], slots, gone, part, share);
        free(slots);
        at += count;
    }
    free(chunks);
    if (rc)
        idset_destroy(share);
    else
        *out = share;
    return rc;
}

/* cut_draws leaves of each sample of a chunk as many turns as the part has. */
static int cut_draws(const struct deal *deal, const uint32_t *slots, uint32_t chunk, struct run part, uint32_t *counts)
{
    uint32_t at = 0;
    if (slots == NULL)
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < deal->begin[chunk + 1] - deal->begin[chunk]; i++) {
        uint32_t *count = &counts[deal->ids[deal->begin[chunk] + slots[i]]], had = *count;
        struct run turns = part_of(part, at, had);
        *count = turns.first < turns.end ? turns.end - turns.first : 0;
        at += had;
    }
    return 0;
}

/* ── copies of which each is another rank's ── */

/* Where all samples come equally often, and no oftener than there are ranks, no rank gets one twice. Ranks are dealt to
 * in groups of neighbours, as many as there are copies or a few more. A group gets a run of the sequence, and its ranks
 * the places of that in turn. So the copies of a sample, which lie beside each other, come to different ranks, and to
 * one node if it has the whole group. */
struct groups {
    const struct deal_ranks *ranks;
    uint32_t draws, copies, size; /* size: ranks of a group; 0: there are no groups */
};

/* group_size returns the ranks of a group: a divisor of all, so that groups are equal. The least power of two comes
 * first, since nodes often have as many ranks. */
static uint32_t group_size(uint32_t copies, uint32_t world_size)
{
    for (uint32_t size = 2; size <= world_size; size *= 2)
        if (size >= copies && world_size % size == 0)
            return size;
    uint32_t size = copies;
    while (world_size % size)
        size++;
    return size;
}

static struct groups groups_of(const struct deal *deal, const struct deal_ranks *ranks, const uint32_t *counts)
{
    struct groups groups = {.ranks = ranks, .copies = deal->count ? counts[0] : 0};
    bool equal = groups.copies >= 2 && groups.copies <= ranks->world_size;
    for (uint32_t i = 0; i < deal->count && equal; i++)
        equal = counts[i] == groups.copies;
    groups.draws = equal ? deal->count * groups.copies : 0;
    groups.size = equal ? group_size(groups.copies, ranks->world_size) : 0;
    return groups;
}

/* group_run returns the run of a group. */
static struct run group_run(const struct groups *groups, uint32_t group)
{
    return (struct run){run_first(groups->draws, groups->ranks, group * groups->size),
                        run_first(groups->draws, groups->ranks, (group + 1) * groups->size)};
}

/* lies_whole tells whether the places lie in groups all ranks of which are here: then the node has all of them. */
static bool lies_whole(const struct groups *groups, struct run places)
{
    uint32_t first = (groups->ranks->first + groups->size - 1) / groups->size;
    uint32_t end = (groups->ranks->first + groups->ranks->n_ranks) / groups->size;
    return first < end && places.first >= group_run(groups, first).first &&
           places.end <= group_run(groups, end - 1).end;
}

/* of_place tells whether a place is a rank's here. *group is the one that the place before was in, or the first. */
static bool of_place(const struct groups *groups, uint32_t place, uint32_t *group)
{
    uint32_t first = groups->ranks->first;
    while (*group < groups->ranks->world_size / groups->size && place >= group_run(groups, *group).end)
        ++*group;
    if (*group == groups->ranks->world_size / groups->size)
        return false; /* drop_last has left it over */
    uint32_t rank = *group * groups->size + (place - group_run(groups, *group).first) % groups->size;
    return rank >= first && rank < first + groups->ranks->n_ranks;
}

/* group_draws is deal_draws where there are groups. */
static int group_draws(const struct deal *deal, const struct groups *groups, uint64_t seed, uint32_t epoch,
                       uint32_t *counts)
{
    uint32_t n, at = 0, group = 0, first = groups->ranks->first, end = first + groups->ranks->n_ranks;
    uint32_t *chunks = order_of(deal, seed, epoch, &n);
    int rc = chunks ? 0 : LARDER_ENOMEM;
    struct run near = {0, 0}; /* of all groups of which some rank is here */
    if (first < end)
        near = (struct run){group_run(groups, first / groups->size).first,
                            group_run(groups, (end - 1) / groups->size).end};
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        const sample_id *ids = deal->ids + deal->begin[chunks[i]];
        uint32_t count = deal->begin[chunks[i] + 1] - deal->begin[chunks[i]];
        struct run places = {at, at + count * groups->copies};
        at = places.end;
        if (lies_whole(groups, places))
            continue;
        bool none = places.first >= near.end || places.end <= near.first;
        uint32_t *slots = none ? NULL : slots_of(deal, seed, epoch, chunks[i]);
        rc = none || slots ? 0 : LARDER_ENOMEM;
        for (uint32_t s = 0; s < count; s++)
            counts[ids[s]] = 0;
        for (uint32_t place = places.first; slots && place < places.end; place++)
            counts[ids[slots[(place - places.first) / groups->copies]]] += of_place(groups, place, &group);
        free(slots);
    }
    free(chunks);
    return rc;
}

int deal_draws(const struct deal *deal, uint64_t seed, uint32_t epoch, const struct deal_ranks *ranks, uint32_t *counts)
{
    CHECK_MAGIC(deal, DEAL_MAGIC);
    struct groups groups = groups_of(deal, ranks, counts);
    if (groups.size)
        return group_draws(deal, &groups, seed, epoch, counts);
    uint32_t n, at = 0, draws = 0;
    for (uint32_t i = 0; i < deal->count; i++)
        draws += counts[i];
    struct run run = run_of(draws, ranks);
    uint32_t *chunks = order_of(deal, seed, epoch, &n);
    int rc = chunks ? 0 : LARDER_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint32_t first = deal->begin[chunks[i]], end = deal->begin[chunks[i] + 1], count = 0;
        for (uint32_t s = first; s < end; s++)
            count += counts[deal->ids[s]];
        struct run part = part_of(run, at, count);
        for (uint32_t s = first; s < end && part.first >= part.end; s++)
            counts[deal->ids[s]] = 0;
        if (part.first < part.end && part.end - part.first < count) {
            uint32_t *slots = slots_of(deal, seed, epoch, chunks[i]);
            rc = cut_draws(deal, slots, chunks[i], part, counts);
            free(slots);
        }
        at += count;
    }
    free(chunks);
    return rc;
}
