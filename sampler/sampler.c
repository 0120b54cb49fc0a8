/* sampler.c: independent uniform draws; a round's jobs share a pick where they happen to draw the same sample.
 *
 * `strict` is a Fisher–Yates shuffle of the sorted view, its generator keyed by (seed, epoch) alone and run one swap a
 * draw; `none` walks the given order. Both keep the order beside the remaining set, so that sampler_wants answers alike
 * for all three. */
#include "sampler/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"

#define SAMPLER_MAGIC UINT32_C(0x5a3b1e25)

struct sampler_place {
    bool used;
    enum shuffle_mode shuffle;
    uint64_t seed;
    struct idset *view;
    struct idset *remaining;
    sample_id *order; /* `strict` and `none`: order[drawn …] are still to come */
    uint64_t n_order, drawn;
    struct rng rng; /* `strict`: of the running epoch */
};

struct sampler {
    uint32_t magic;
    struct rng rng;
    struct sampler_place places[JOBS_MAX];
};

int sampler_create(uint64_t seed, struct sampler **out)
{
    struct sampler *sampler = xcalloc(1, sizeof *sampler);
    sampler->magic = SAMPLER_MAGIC;
    random_seed(&sampler->rng, seed);
    *out = sampler;
    return 0;
}

static struct sampler_place *place_of(const struct sampler *sampler, unsigned job)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    CHECK(job < JOBS_MAX && sampler->places[job].used);
    return (struct sampler_place *)&sampler->places[job];
}

static void place_clear(struct sampler_place *place)
{
    idset_destroy(place->view);
    idset_destroy(place->remaining);
    free(place->order);
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

    struct sampler_place place = {.used = true, .shuffle = desc->shuffle, .seed = desc->seed};
    if (idset_copy(desc->view, &place.view) || idset_create(&place.remaining))
        goto no_memory;
    if (desc->shuffle != SHUFFLE_DEPENDENT) {
        place.order = malloc(count * sizeof *place.order);
        if (place.order == NULL)
            goto no_memory;
        place.n_order = place.drawn = count;
        if (desc->shuffle == SHUFFLE_NONE)
            memcpy(place.order, desc->order, count * sizeof *place.order);
    }
    sampler->places[job] = place;
    return 0;

no_memory:
    place_clear(&place);
    return error_set(err, LARDER_ENOMEM, "no memory for a view of %llu samples: free memory or lower the budgets",
                     (unsigned long long)count);
}

void sampler_remove_job(struct sampler *sampler, unsigned job)
{
    place_clear(place_of(sampler, job));
}

void sampler_start_epoch(struct sampler *sampler, unsigned job, uint32_t epoch)
{
    struct sampler_place *place = place_of(sampler, job);
    idset_destroy(place->remaining);
    place->remaining = NULL;
    CHECK(idset_copy(place->view, &place->remaining) == 0);
    place->drawn = 0;
    if (place->shuffle == SHUFFLE_STRICT) {
        idset_to_array(place->view, place->order);
        random_seed_keys(&place->rng, place->seed, epoch, 0, 0);
    }
}

bool sampler_wants(const struct sampler *sampler, unsigned job, sample_id id)
{
    return idset_contains(place_of(sampler, job)->remaining, id);
}

uint64_t sampler_remaining(const struct sampler *sampler, unsigned job)
{
    return idset_count(place_of(sampler, job)->remaining);
}

static sample_id draw_ordered(struct sampler_place *place)
{
    uint64_t at = place->drawn++;
    if (place->shuffle == SHUFFLE_STRICT) {
        uint64_t other = at + random_below(&place->rng, place->n_order - at);
        sample_id id = place->order[other];
        place->order[other] = place->order[at];
        place->order[at] = id;
    }
    return place->order[at];
}

static sample_id draw_uniform(struct sampler *sampler, const struct sampler_place *place)
{
    sample_id id = SAMPLE_NONE;
    CHECK(idset_select(place->remaining, random_below(&sampler->rng, idset_count(place->remaining)), &id));
    return id;
}

size_t sampler_round(struct sampler *sampler, const struct jobset *need, struct pick *picks)
{
    CHECK_MAGIC(sampler, SAMPLER_MAGIC);
    size_t n_picks = 0;
    JOBSET_EACH(job, need) {
        struct sampler_place *place = place_of(sampler, job);
        if (idset_count(place->remaining) == 0)
            continue;
        sample_id id = place->shuffle == SHUFFLE_DEPENDENT ? draw_uniform(sampler, place) : draw_ordered(place);
        idset_remove(place->remaining, id);
        size_t at = 0;
        while (at < n_picks && picks[at].id != id)
            at++;
        if (at == n_picks)
            picks[n_picks++] = (struct pick){.id = id};
        jobset_add(&picks[at].jobs, job);
    }
    return n_picks;
}

void sampler_take(struct sampler *sampler, unsigned job, sample_id id)
{
    struct sampler_place *place = place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT && idset_contains(place->remaining, id));
    idset_remove(place->remaining, id);
}

void sampler_put_back(struct sampler *sampler, unsigned job, sample_id id)
{
    struct sampler_place *place = place_of(sampler, job);
    CHECK(place->shuffle == SHUFFLE_DEPENDENT && !idset_contains(place->remaining, id));
    idset_add(place->remaining, id);
}
