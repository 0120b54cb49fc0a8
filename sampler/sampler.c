/* sampler.c: jobs, their epochs and their orders; dependent jobs draw together (dependent_priv.h), the others alone.
 *
 * `strict` is a Fisher–Yates shuffle of the given order, its generator keyed by (seed, epoch) alone and run one swap a
 * draw; `none` walks that order. Both keep the order beside the remaining set, so that sampler_wants answers alike
 * for all three. */
#include "sampler/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "sampler/dependent_priv.h"
#include "sampler/layers_priv.h"
#include "sampler/remaining_priv.h"

#define SAMPLER_MAGIC UINT32_C(0x5a3b1e25)

struct place {
    bool used;
    enum shuffle_mode shuffle;
    uint64_t seed;
    struct remaining *set;
    struct layers *layers; /* NULL: an epoch has each sample once. Otherwise `set` is the first layer. */
    sample_id *order;      /* `strict` and `none`: order[drawn …] are still to come */
    /* the ids that its epochs begin from; NULL: the view's ids ascending (`strict`), or the order itself */
    sample_id *base;
    uint64_t n_order; /* samples in the order */
    uint64_t drawn;
    uint32_t epoch;           /* of the order */
    struct sampler_part part; /* stride 0: the order is that of the whole view */
    sample_id *heads;         /* for a part: the first part.stride samples of the whole order */
    struct rng rng;           /* `strict`: of the running epoch */
};

struct sampler {
    uint32_t magic;
    struct rng rng;
    struct place places[JOBS_MAX];
    unsigned n_dependent;
    unsigned dependent[JOBS_MAX]; /* the dependent jobs, ascending by remaining count as it was at their last rounds */
};

struct sampler *sampler_create(uint64_t seed)
{
    struct sampler *sampler = xcalloc(1, sizeof *sampler);
    sampler->magic = SAMPLER_MAGIC;
    random_seed(&sampler->rng, seed);
    return sampler;
}

static const struct place *place_of(const struct sampler *sampler, unsigned job)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    CHECK(job < JOBS_MAX && sampler->places[job].used);
    return &sampler->places[job];
}

static struct place *own_place_of(struct sampler *sampler, unsigned job)
{
    place_of(sampler, job);
    return &sampler->places[job];
}

static void place_clear(struct place *place)
{
    if (place->layers)
        layers_end(place->layers);
    free(place->layers);
    remaining_destroy(place->set);
    free(place->order);
    free(place->base);
    free(place->heads);
    memset(place, 0, sizeof *place);
}

void sampler_destroy(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    for (unsigned job = 0; job < JOBS_MAX; job++)
        place_clear(&sampler->places[job]);
    sampler->magic = 0;
    free(sampler);
}

int sampler_add_job(struct sampler *sampler, unsigned job, const struct sampler_job *desc, struct error *err)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    CHECK(job < JOBS_MAX && !sampler->places[job].used);
    uint64_t count = idset_count(desc->view);
    CHECK(count > 0);

    struct place place = {.used = true,
                          .shuffle = desc->shuffle,
                          .seed = desc->seed,
                          .n_order = count,
                          .epoch = UINT32_MAX,
                          .part = desc->part};
    if (remaining_create(desc->view, &place.set))
        goto no_memory;
    CHECK(!desc->multiset || desc->shuffle == SHUFFLE_DEPENDENT);
    place.layers = desc->multiset ? calloc(1, sizeof *place.layers) : NULL;
    if (desc->multiset && place.layers == NULL)
        goto no_memory;
    if (desc->multiset)
        layers_begin(place.layers, desc->multiset, place.set);
    if (desc->shuffle != SHUFFLE_DEPENDENT) {
        place.order = malloc(count * sizeof *place.order);
        if (place.order == NULL)
            goto no_memory;
    }
    if (desc->shuffle == SHUFFLE_NONE)
        memcpy(place.order, desc->order, count * sizeof *place.order);
    bool in_part = desc->shuffle != SHUFFLE_DEPENDENT && desc->part.stride > 0;
    CHECK(!in_part || (uint64_t)desc->part.first + desc->part.ranks <= desc->part.stride);
    if ((desc->shuffle == SHUFFLE_STRICT && desc->order) || (desc->shuffle == SHUFFLE_NONE && in_part)) {
        place.base = malloc(count * sizeof *place.base);
        if (place.base == NULL)
            goto no_memory;
        memcpy(place.base, desc->order, count * sizeof *place.base);
    }
    place.heads = in_part ? malloc(desc->part.stride * sizeof *place.heads) : NULL;
    if (in_part && place.heads == NULL)
        goto no_memory;
    if (desc->shuffle == SHUFFLE_DEPENDENT)
        sampler->dependent[sampler->n_dependent++] = job;
    sampler->places[job] = place;
    return 0;

no_memory:
    place_clear(&place);
    return error_set(err, LARDER_ENOMEM, "no memory for a view of %llu samples: free memory or lower the budgets",
                     (unsigned long long)count);
}

void sampler_remove_job(struct sampler *sampler, unsigned job)
{
    struct place *place = own_place_of(sampler, job);
    if (place->shuffle == SHUFFLE_DEPENDENT) {
        unsigned at = 0;
        while (sampler->dependent[at] != job)
            at++;
        sampler->n_dependent--;
        memmove(&sampler->dependent[at], &sampler->dependent[at + 1],
                (sampler->n_dependent - at) * sizeof *sampler->dependent);
    }
    place_clear(place);
}

/* draw_from swaps the next sample of the order with the one at `other`, and draws it. */
static sample_id draw_from(struct place *place, uint64_t other)
{
    uint64_t at = place->drawn++;
    sample_id id = place->order[other];
    place->order[other] = place->order[at];
    place->order[at] = id;
    return id;
}

/* shuffles tells whether a draw takes any sample of those that are left. A part of an order is shuffled at once. */
static bool shuffles(const struct place *place)
{
    return place->shuffle == SHUFFLE_STRICT && !place->heads;
}

/* A shuffle takes its samples from random places of the order. In a large view each is a cache miss. The places depend
 * only on the generator, so they are known ahead and prefetched together. */
static void shuffle_some(struct place *place, sample_id *ids, size_t n)
{
    uint64_t others[SAMPLER_SOME], end = place->n_order;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = place->drawn + i;
        others[i] = at + random_below(&place->rng, end - at);
        __builtin_prefetch(&place->order[others[i]], 1);
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = draw_from(place, others[i]);
}

/* keep_part leaves in the order what the job gets of it, or of the rest of it. */
static void keep_part(struct place *place, const struct sampler_rest *rest)
{
    const struct sampler_part *part = &place->part;
    uint64_t count = place->set->view_count, left = 0;
    for (sample_id ids[SAMPLER_SOME]; place->shuffle == SHUFFLE_STRICT && place->drawn < count;)
        shuffle_some(place, ids, count - place->drawn < SAMPLER_SOME ? count - place->drawn : SAMPLER_SOME);
    place->n_order = place->drawn = 0;
    for (uint64_t i = 0; i < count; i++) {
        sample_id id = place->order[i];
        if (rest && rest->gone(rest->context))
            continue;
        if (left < part->stride)
            place->heads[left] = id;
        if (left++ % part->stride - part->first < part->ranks)
            place->order[place->n_order++] = id;
    }
    for (uint64_t i = left; left && i < part->stride; i++)
        place->heads[i] = place->heads[i % left];
}

/* start_order makes the order of the epoch, with nothing drawn yet. */
static void start_order(struct place *place, uint32_t epoch, const struct sampler_rest *rest)
{
    uint64_t count = place->set->view_count;
    place->drawn = 0;
    place->n_order = count;
    place->epoch = epoch;
    if (place->base)
        memcpy(place->order, place->base, count * sizeof *place->order);
    else if (place->shuffle == SHUFFLE_STRICT)
        remaining_view_ids(place->set, place->order);
    if (place->shuffle == SHUFFLE_STRICT)
        random_seed_keys(&place->rng, place->seed, epoch, 0, 0);
    if (place->heads)
        keep_part(place, rest);
}

static void start_epoch(struct place *place, uint32_t epoch, const struct sampler_rest *rest)
{
    if (place->layers) {
        layers_clear(place->layers);
        return;
    }
    if (place->shuffle != SHUFFLE_DEPENDENT)
        start_order(place, epoch, rest);
    if (!place->heads) {
        remaining_refill(place->set);
        return;
    }
    remaining_clear(place->set);
    for (uint64_t i = 0; i < place->n_order; i++)
        remaining_add(place->set, place->order[i]);
}

void sampler_start_epoch(struct sampler *sampler, unsigned job, uint32_t epoch)
{
    start_epoch(own_place_of(sampler, job), epoch, NULL);
}

void sampler_start_rest(struct sampler *sampler, unsigned job, uint32_t epoch, const struct sampler_rest *rest)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->heads);
    start_epoch(place, epoch, rest);
}

int sampler_start_multiset(struct sampler *sampler, unsigned job, const uint32_t *counts, uint32_t most)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->layers);
    return layers_fill(place->layers, counts, most);
}

sample_id sampler_first(const struct sampler *sampler, unsigned job, uint64_t position)
{
    const struct place *place = place_of(sampler, job);
    CHECK(place->heads && position < place->part.stride);
    return place->heads[position];
}

bool sampler_wants(const struct sampler *sampler, unsigned job, sample_id id)
{
    return remaining_has(place_of(sampler, job)->set, id);
}

uint64_t sampler_remaining(const struct sampler *sampler, unsigned job)
{
    const struct place *place = place_of(sampler, job);
    return place->layers ? place->layers->count : place->set->count;
}

int sampler_copy_left(const struct sampler *sampler, unsigned job, struct sampler_left *out)
{
    const struct place *place = place_of(sampler, job);
    return place->shuffle == SHUFFLE_DEPENDENT ? remaining_copy(place->set, out) : LARDER_EINVAL;
}

void sampler_each_left(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context)
{
    remaining_each(place_of(sampler, job)->set, false, visit, context);
}

void sampler_each_viewed(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context)
{
    remaining_each(place_of(sampler, job)->set, true, visit, context);
}

uint64_t sampler_bytes(const struct sampler *sampler)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    uint64_t bytes = sizeof *sampler;
    for (unsigned job = 0; job < JOBS_MAX; job++) {
        const struct place *place = &sampler->places[job];
        if (place->used)
            bytes += remaining_bytes(place->set) + (place->layers ? layers_bytes(place->layers) : 0) +
                     (place->heads ? place->part.stride * sizeof *place->heads : 0) +
                     ((place->order != NULL) + (place->base != NULL)) * place->set->view_count * sizeof *place->order;
    }
    return bytes;
}

static sample_id draw_ordered(struct place *place)
{
    uint64_t left = place->n_order - place->drawn;
    return draw_from(place, place->drawn + (shuffles(place) ? random_below(&place->rng, left) : 0));
}

/* set_for_draw returns the set that the job's next draw is from. Jobs choose their layers by one number, so that equal
 * jobs choose the same. */
static struct remaining *set_for_draw(const struct place *place, uint64_t number)
{
    return place->layers && !multiset_is_together(place->layers->multiset) ? layers_choose(place->layers, number)
                                                                           : place->set;
}

/* take removes the id, or one of its draws, from what is left. */
static void take(struct place *place, sample_id id)
{
    if (!place->layers) {
        remaining_remove(place->set, id);
        return;
    }
    uint64_t times = layers_times(place->layers, id);
    CHECK(times > 0);
    layers_change(place->layers, id, times - 1);
}

static bool has_layers(const struct sampler *sampler)
{
    bool found = false;
    for (unsigned i = 0; i < sampler->n_dependent && !found; i++)
        found = sampler->places[sampler->dependent[i]].layers;
    return found;
}

/* The dependent jobs of a round that have something left, ascending by how much. Counts change by little from round to
 * round, so the order of the last round is nearly right and an insertion sort repairs it in linear time. */
static unsigned line_up(struct sampler *sampler, const struct jobset *need, struct contender *jobs)
{
    unsigned n = 0, n_seats = 0, seats[JOBS_MAX];
    uint64_t number = has_layers(sampler) ? random_u64(&sampler->rng) : 0;
    for (unsigned i = 0; i < sampler->n_dependent; i++) {
        unsigned job = sampler->dependent[i];
        if (!jobset_has(need, job) || sampler->places[job].set->count == 0)
            continue;
        struct contender contender = {.job = job, .set = set_for_draw(&sampler->places[job], number)};
        unsigned at = n++;
        for (; at > 0 && jobs[at - 1].set->count > contender.set->count; at--)
            jobs[at] = jobs[at - 1];
        jobs[at] = contender;
        seats[n_seats++] = i;
    }
    for (unsigned i = 0; i < n; i++)
        sampler->dependent[seats[i]] = jobs[i].job;
    return n;
}

size_t sampler_round(struct sampler *sampler, const struct jobset *need, struct pick *picks)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    struct contender jobs[JOBS_MAX];
    unsigned n = line_up(sampler, need, jobs);
    size_t n_picks = dependent_round(&sampler->rng, jobs, n, picks);
    JOBSET_EACH(job, need) {
        struct place *place = own_place_of(sampler, job);
        if (place->shuffle != SHUFFLE_DEPENDENT && place->set->count > 0)
            jobset_add(&pick_of(picks, &n_picks, draw_ordered(place))->jobs, job);
    }
    for (size_t i = 0; i < n_picks; i++)
        JOBSET_EACH(job, &picks[i].jobs)
            take(&sampler->places[job], picks[i].id);
    return n_picks;
}

void sampler_take(struct sampler *sampler, unsigned job, sample_id id)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT);
    take(place, id);
}

uint32_t sampler_take_draws(struct sampler *sampler, unsigned job, sample_id id)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT);
    if (!remaining_has(place->set, id))
        return 0;
    uint32_t draws = place->layers ? (uint32_t)layers_times(place->layers, id) : 1;
    if (place->layers)
        layers_change(place->layers, id, 0);
    else
        remaining_remove(place->set, id);
    return draws;
}

void sampler_put_back(struct sampler *sampler, unsigned job, sample_id id, uint32_t draws)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT);
    if (draws > 0 && place->layers)
        layers_change(place->layers, id, layers_times(place->layers, id) + draws);
    else if (draws > 0)
        remaining_add(place->set, id);
}

int sampler_take_all(struct sampler *sampler, unsigned job, const struct idset *ids)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT && !place->layers);
    return remaining_remove_all(place->set, ids);
}

int sampler_places(const struct sampler *sampler, unsigned job, uint32_t epoch, uint32_t *at)
{
    const struct place *own = place_of(sampler, job);
    uint64_t count = own->set->view_count;
    CHECK(own->shuffle != SHUFFLE_DEPENDENT);
    /* The order is the same in all epochs, or it is a part of the running one, which is kept as it was made. */
    bool there = own->heads ? own->n_order && own->epoch == epoch : own->shuffle == SHUFFLE_NONE;
    for (uint64_t i = 0; there && i < own->n_order; i++)
        at[own->order[i]] = (uint32_t)i;
    if (there)
        return 0;
    struct place place = *own; /* an order of its own for the same view */
    place.order = malloc((count + 1) * sizeof *place.order);
    place.heads = own->heads ? malloc(own->part.stride * sizeof *place.heads) : NULL;
    bool made = place.order && (place.heads || !own->heads);
    if (made) {
        start_order(&place, epoch, NULL);
        for (sample_id ids[SAMPLER_SOME]; shuffles(&place) && place.drawn < count;)
            shuffle_some(&place, ids, count - place.drawn < SAMPLER_SOME ? count - place.drawn : SAMPLER_SOME);
        for (uint64_t i = 0; i < place.n_order; i++)
            at[place.order[i]] = (uint32_t)i;
    }
    free(place.order);
    free(place.heads);
    return made ? 0 : LARDER_ENOMEM;
}

void sampler_draw_some(struct sampler *sampler, unsigned job, sample_id *ids, size_t n)
{
    struct place *place = own_place_of(sampler, job);
    CHECK(place->shuffle != SHUFFLE_DEPENDENT && n <= SAMPLER_SOME && place->set->count >= n);
    if (shuffles(place))
        shuffle_some(place, ids, n);
    for (size_t i = 0; i < n && !shuffles(place); i++)
        ids[i] = place->order[place->drawn++];
    for (size_t i = 0; i < n; i++)
        remaining_prefetch(place->set, ids[i]);
    for (size_t i = 0; i < n; i++)
        remaining_remove(place->set, ids[i]);
}
