/* residents_places.c: samples get the places that they have in their datasets' chunks, and lose them again. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/residents.h"

/* take_place puts the sample into its place. From then on its residents count in its fiber. It fails with
 * LARDER_ENOMEM. */
static int take_place(struct residents *residents, const struct chunk_range *range, sample_id id,
                      struct chunk_slot place)
{
    if (chunks_put(residents->chunks, range, id, place))
        return LARDER_ENOMEM;
    INSTANCES_OF(residents->prepared, id, i) {
        if (prepared_is_listed(residents->prepared, i))
            prepared_fiber_enter(residents->prepared, i);
    }
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_fiber_enter(residents->encoded, encoded_sample(residents->encoded, id)->encoded);
    return 0;
}

/* lose_place takes the sample's place away. Its residents stay in memory. */
static void lose_place(struct residents *residents, sample_id id)
{
    INSTANCES_OF(residents->prepared, id, i) {
        if (prepared_is_listed(residents->prepared, i))
            prepared_fiber_leave(residents->prepared, i);
    }
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_fiber_leave(residents->encoded, encoded_sample(residents->encoded, id)->encoded);
    *chunks_place(residents->chunks, id) = CHUNK_PLACE_NONE;
    idset_remove(residents->chunks->placed, id);
    residents->chunks->moves++;
}

void residents_keep(struct residents *residents, uint64_t ahead_bytes)
{
    encoded_keep_measure(residents->encoded, ahead_bytes);
    residents_drop_idle(residents);
    encoded_shed(residents->encoded);
    if (residents->chunks->stale)
        residents_arrange(residents);
}

/* ── forgetting ── */

/* forget_samples takes the places of all samples in the range away. */
static void forget_samples(struct residents *residents, const struct chunk_range *range)
{
    /* goes by samples: another sample may have got a member's slot */
    for (uint64_t id = 0; id < residents->env->samples.ids; id++) {
        uint32_t chunk = chunks_place(residents->chunks, id)->chunk;
        if (chunk != ENGINE_NONE && chunk >= range->base && chunk - range->base < range->count)
            lose_place(residents, (sample_id)id);
    }
}

void residents_forget_range(struct residents *residents, struct chunk_range *range)
{
    forget_samples(residents, range);
    for (struct job *job = jobs_first(residents->jobs); job; job = jobs_after(residents->jobs, job)) {
        if (job->shape.chunk_base == range->base)
            job->shape.chunk_count = 0;
    }
    chunks_leave(residents->chunks, range);
    chunks_drop_range(residents->chunks, range);
    residents_arrange(residents);
}

/* count_in_use returns how many datasets in chunks the jobs have, with that of the job that comes. `coming` may be
 * NULL. */
static size_t count_in_use(const struct residents *residents, const struct job *coming)
{
    size_t count = 1;
    for (const struct job *job = jobs_first(residents->jobs); job; job = jobs_after(residents->jobs, job)) {
        const struct job *same = jobs_first(residents->jobs);
        while (same != job &&
               (same == coming || same->shape.chunk_count == 0 || same->shape.chunk_base != job->shape.chunk_base))
            same = jobs_after(residents->jobs, same);
        count += job != coming && job->shape.chunk_count > 0 && same == job;
    }
    return count;
}

/* count_want counts a viewed sample in the range that it lies in. */
static void count_want(void *context, sample_id id)
{
    const struct residents *residents = context;
    uint32_t chunk = chunks_place(residents->chunks, id)->chunk;
    if (chunk != ENGINE_NONE)
        chunks_range_of(residents->chunks, chunk)->wants++;
}

/* count_wants counts for each range how many samples in it jobs have in their views. */
static void count_wants(struct residents *residents, const struct job *coming)
{
    for (size_t i = 0; i < residents->chunks->n_ranges; i++)
        residents->chunks->ranges[i].wants = 0;
    for (const struct job *job = jobs_first(residents->jobs); job; job = jobs_after(residents->jobs, job)) {
        if (job != coming)
            sampler_each_viewed(residents->env->sampler, job->no, count_want, residents);
    }
    if (coming)
        sampler_each_viewed(residents->env->sampler, coming->no, count_want, residents);
}

/* forget_ranges forgets ranges before there are too many. It forgets half of the spare ones at once, because comparing
 * them takes a look at each sample in use. */
static void forget_ranges(struct residents *residents, const struct job *coming)
{
    size_t in_use = count_in_use(residents, coming);
    if (residents->chunks->n_ranges < 2 * in_use + CHUNK_RANGES_SPARE)
        return;
    count_wants(residents, coming);
    while (residents->chunks->n_ranges > in_use + CHUNK_RANGES_SPARE / 2)
        residents_forget_range(residents, chunks_least_wanted(residents->chunks));
}

/* ── placing ── */

/* enter returns the dataset's range, which a job came with before, or else a new one, for a job that comes or, NULL,
 * will come. NULL when there is no memory for a new one. */
static struct chunk_range *enter(struct residents *residents, const struct engine_chunks *dataset,
                                 const struct job *job)
{
    struct chunk_range *range = chunks_find_range(residents->chunks, dataset->key);
    if (!range) {
        forget_ranges(residents, job);
        range = chunks_add_range(residents->chunks, dataset->key, dataset->count);
        if (chunks_enter(residents->chunks, dataset, range)) {
            chunks_drop_range(residents->chunks, range);
            return NULL;
        }
    }
    CHECK(range->count == dataset->count);
    range->used = ++residents->chunks->uses;
    return range;
}

/* place gives those of the samples places that have none. One that waits for its load gets none: its task counts in no
 * chunk. It fails with LARDER_ENOMEM. */
static int place(struct residents *residents, const struct chunk_range *range, const struct engine_chunks *dataset,
                 const sample_id *ids, uint64_t count)
{
    sample_id *taken = malloc((count + 1) * sizeof *taken);
    size_t n_taken = 0;
    int code = taken ? 0 : LARDER_ENOMEM;
    for (uint64_t i = 0; i < count && !code; i++) {
        struct chunk_slot at = dataset->places[i];
        CHECK(at.chunk < dataset->count && at.slot < dataset->samples);
        if (chunks_place(residents->chunks, ids[i])->chunk != ENGINE_NONE ||
            encoded_sample(residents->encoded, ids[i])->pending)
            continue;
        code = take_place(residents, range, ids[i], at);
        if (!code)
            taken[n_taken++] = ids[i];
    }
    idset_add_many(residents->chunks->placed, taken, n_taken);
    free(taken);
    return code;
}

void residents_place_some(struct residents *residents, const struct engine_placing *placing)
{
    if (!placing->count || !placing->chunks.count || !residents->env->config.redirect_width ||
        samples_make_room(&residents->env->samples, placing->ids[placing->count - 1]))
        return;
    const struct chunk_range *range = enter(residents, &placing->chunks, NULL);
    if (range)
        (void)place(residents, range, &placing->chunks, placing->ids, placing->count); /* JOB_ADD finds out */
}

/* place_view returns places to those of the view's samples that have none. It fails with LARDER_ENOMEM. */
static int place_view(struct residents *residents, const struct chunk_range *range, const struct engine_job_desc *desc)
{
    const struct idset *view = desc->sampled.view;
    uint64_t count = idset_count(view);
    if (idset_intersection_count(view, residents->chunks->placed) == count)
        return 0;
    sample_id *ids = malloc(count * sizeof *ids);
    if (!ids)
        return LARDER_ENOMEM;
    idset_to_array(view, ids);
    int code = place(residents, range, &desc->chunks, ids, count);
    free(ids);
    return code;
}

/* count_touched returns how many chunks the view has samples in; 0: there is no memory to find out. */
static uint32_t count_touched(const struct engine_job_desc *desc)
{
    uint64_t count = idset_count(desc->sampled.view);
    uint32_t touched = desc->chunks.touched;
    bool *seen = touched ? NULL : calloc(desc->chunks.count, sizeof *seen);
    for (uint64_t i = 0; seen && i < count; i++) {
        touched += !seen[desc->chunks.places[i].chunk];
        seen[desc->chunks.places[i].chunk] = true;
    }
    free(seen);
    return touched;
}

int residents_place(struct residents *residents, const struct engine_job_desc *desc, struct job *job)
{
    const struct engine_chunks *dataset = &desc->chunks;
    if (!dataset->places || !dataset->count || !residents->env->config.redirect_width)
        return 0;
    const struct chunk_range *range = enter(residents, dataset, job);
    uint32_t touched = count_touched(desc);
    if (!range || !touched || place_view(residents, range, desc))
        return LARDER_ENOMEM;
    job->shape.chunk_base = range->base;
    job->shape.chunk_count = dataset->count;
    job->shape.chunk_samples = (double)idset_count(desc->sampled.view) / touched;
    return 0;
}
