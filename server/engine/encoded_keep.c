/* encoded_keep.c: which encoded samples stay over all epochs.
 *
 * If memory has room for all samples of the jobs' views, all stay. If not, whole chunks stay, as many as fit beside the
 * memory that the others need to be shuffled. At the end of an epoch all samples of the others are dropped. Otherwise
 * they would come at the beginning of the next one, and each order would echo the one before. Kept chunks have fibers
 * of their own (chunks.h), so a kept sample never replaces a pick that must be read: kept samples come no earlier in an
 * epoch than others.
 *
 * When all jobs have orders of their own, which are known, every sample stays until its room is needed
 * (encoded_next.c).
 *
 * Chunks that more jobs want stay first. Among equals their order (chunks.h) decides. It is always the same, so when
 * jobs come and go, few chunks change. */
#include <stdlib.h>

#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"

/* The samples that jobs want, and their bytes, estimated from the mean of some. If the estimate is too low, the oldest
 * samples are evicted after all. */
struct wanted {
    struct idset *all;
    double bytes;
};

/* A chunk's samples in views, and the number of jobs that want them. */
struct claim {
    uint32_t chunk, place; /* its number, and its place among its range's chunks */
    uint32_t samples;
    uint64_t wants; /* samples, summed over the jobs */
    uint32_t level; /* jobs that want a sample of it, on the mean */
};

/* first_known and after_known go over the jobs whose samples drawn here are known. For a job with homes they are known
 * only from its first epoch on. Before that it would count as drawing its whole view here, and kept samples of others
 * would make way for it. */
static const struct job *known_from(const struct encoded_store *store, const struct job *job)
{
    while (job && job->terms.homes.elsewhere && !job->progress.here)
        job = jobs_after(store->jobs, job);
    return job;
}

static const struct job *first_known(const struct encoded_store *store)
{
    return known_from(store, jobs_first(store->jobs));
}

static const struct job *after_known(const struct encoded_store *store, const struct job *job)
{
    return known_from(store, jobs_after(store->jobs, job));
}

static int add_view(struct encoded_store *store, const struct job *job, struct wanted *wanted)
{
    struct idset *more;
    int code = idset_union(wanted->all, job_drawn(job), &more);
    if (code)
        return code;
    size_t samples = idset_count(more) - idset_count(wanted->all);
    wanted->bytes += (double)(samples * job->shape.mean_bytes);
    encoded_flight_want(store, job, samples);
    idset_destroy(wanted->all);
    wanted->all = more;
    return 0;
}

/* add_views makes the union of the jobs' views, which the caller destroys. It fails with LARDER_ENOMEM. */
static int add_views(struct encoded_store *store, struct wanted *wanted)
{
    encoded_flight_want_none(store);
    int code = idset_create(&wanted->all);
    for (const struct job *job = first_known(store); !code && job; job = after_known(store, job))
        code = add_view(store, job, wanted);
    return code;
}

/* ── chunks that stay ── */

static void forget_counted(struct counted *counted)
{
    idset_destroy(counted->set);
    free(counted->samples);
    *counted = (struct counted){NULL};
}

/* count_set fills in how many samples of the set each chunk has, unless this is known. It fails with LARDER_ENOMEM. */
static int count_set(struct encoded_store *store, const struct idset *set)
{
    const struct chunks *chunks = store->chunks;
    struct counted *counted = &store->counted;
    if (counted->set && counted->moves == chunks->moves && counted->n_chunks == chunks->n_chunks &&
        idset_equal(counted->set, set))
        return 0;
    size_t count = idset_count(set);
    sample_id *ids = malloc((count + 1) * sizeof *ids);
    forget_counted(counted);
    counted->samples = calloc((size_t)chunks->n_chunks + 1, sizeof *counted->samples);
    if (!ids || !counted->samples || idset_copy(set, &counted->set)) {
        free(ids);
        return LARDER_ENOMEM;
    }
    counted->moves = chunks->moves;
    counted->n_chunks = chunks->n_chunks;
    idset_to_array(set, ids);
    for (size_t i = 0; i < count; i++) {
        uint32_t chunk = chunks_place(chunks, ids[i])->chunk;
        if (chunk != ENGINE_NONE)
            counted->samples[chunk]++;
    }
    free(ids);
    return 0;
}

/* count_in_chunks adds the set's samples to the claims of their chunks: to `samples`, or `times` of each to `wants`. It
 * fails with LARDER_ENOMEM. */
static int count_in_chunks(struct encoded_store *store, const struct idset *set, uint32_t times, struct claim *claims)
{
    if (count_set(store, set))
        return LARDER_ENOMEM;
    for (uint32_t chunk = 0; chunk < store->counted.n_chunks; chunk++) {
        claims[chunk].samples += times ? 0 : store->counted.samples[chunk];
        claims[chunk].wants += (uint64_t)times * store->counted.samples[chunk];
    }
    return 0;
}

/* count_alike returns how many jobs have the job's view; 0 when an earlier one has it too. */
static uint32_t count_alike(const struct encoded_store *store, const struct job *job)
{
    uint32_t count = 0;
    bool before = true;
    for (const struct job *other = first_known(store); other; other = after_known(store, other)) {
        before = before && other != job;
        if (other != job && !idset_equal(job_drawn(other), job_drawn(job)))
            continue;
        if (before)
            return 0;
        count++;
    }
    return count;
}

/* is_first_of_family tells whether no known job of the job's family has a lower number. */
static bool is_first_of_family(const struct encoded_store *store, const struct job *job)
{
    FAMILY_EACH(store->jobs, job, member)
    {
        const struct job *other = job_at(store->jobs, member);
        if (member < job->no && known_from(store, other) == other)
            return false;
    }
    return true;
}

/* count_family adds one want of all samples in chunks of the family's dataset. Each member wants some of the chunks,
 * and others in its next epoch, when members of the epoch before are still there. If they counted each for itself,
 * other chunks would stay with each member that comes or goes. */
static void count_family(const struct encoded_store *store, const struct job *job, struct claim *claims)
{
    for (uint32_t i = 0; i < job->shape.chunk_count && job->shape.chunk_base + i < store->chunks->n_chunks; i++)
        claims[job->shape.chunk_base + i].wants += claims[job->shape.chunk_base + i].samples;
}

/* parts_of returns into how many parts trainings divide the range's chunks: the members of the largest family. */
static uint32_t parts_of(const struct encoded_store *store, const struct chunk_range *range)
{
    uint32_t most = 1;
    for (const struct job *job = first_known(store); job; job = after_known(store, job)) {
        uint32_t members = 0;
        FAMILY_EACH(store->jobs, job, member)
        members++;
        most = job->shape.chunk_base == range->base && members > most ? members : most;
    }
    return most;
}

/* make_claims fills in the claims, by chunk. It fails with LARDER_ENOMEM. */
static int make_claims(struct encoded_store *store, const struct wanted *wanted, struct claim *claims)
{
    const struct chunks *chunks = store->chunks;
    int code = count_in_chunks(store, wanted->all, 0, claims);
    for (const struct job *job = first_known(store); !code && job; job = after_known(store, job)) {
        uint32_t alike = family_is_known(job) ? 0 : count_alike(store, job);
        if (alike)
            code = count_in_chunks(store, job_drawn(job), alike, claims);
        if (family_is_known(job) && is_first_of_family(store, job))
            count_family(store, job, claims);
    }
    for (size_t i = 0; i < chunks->n_ranges; i++) {
        const struct chunk_range *range = &chunks->ranges[i];
        for (uint32_t place = 0; place < range->count; place++)
            claims[range->base + range->order[place]].place = place;
    }
    for (uint32_t chunk = 0; chunk < chunks->n_chunks; chunk++) {
        struct claim *claim = &claims[chunk];
        claim->chunk = chunk;
        if (claim->samples)
            claim->level = (uint32_t)((claim->wants + claim->samples / 2) / claim->samples);
    }
    return code;
}

static int by_level(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;
    if (a->level != b->level)
        return a->level > b->level ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->chunk < b->chunk ? -1 : 1;
}

/* keepable returns how many of the wanted `bytes` may stay; 0 when they are too few. */
static double keepable(const struct encoded_store *store, double bytes, double chunk_bytes, double ahead_bytes)
{
    double all = (double)encoded_sure(store), fixed = REST_CHUNKS * chunk_bytes;
    double part = store->env->config.home ? REST_PART_HOME : REST_PART;
    double by_part = (all - bytes * part) / (1 - part);
    fixed = ahead_bytes > fixed ? ahead_bytes : fixed;
    double most = by_part < all - fixed ? by_part : all - fixed;
    return most * KEPT_PART < bytes ? 0 : most;
}

/* mark returns whether it changed the chunk's mark. */
static bool mark(struct chunks *chunks, uint32_t chunk, bool kept)
{
    bool changes = chunks->chunks[chunk].kept != kept;
    chunks->stale = chunks->stale || changes;
    chunks->chunks[chunk].kept = kept;
    return changes;
}

static void mark_all(struct chunks *chunks, bool kept)
{
    for (size_t i = 0; i < chunks->n_ranges; i++) {
        for (uint32_t chunk = 0; chunk < chunks->ranges[i].count; chunk++)
            (void)mark(chunks, chunks->ranges[i].base + chunk, kept);
    }
}

/* choose marks the chunks that stay, and returns their approximate bytes. *changed is set if they are others. */
static double choose(struct encoded_store *store, struct claim *claims, double mean, double left, bool *changed)
{
    struct chunks *chunks = store->chunks;
    double taken = 0;
    qsort(claims, chunks->n_chunks, sizeof *claims, by_level);
    for (uint32_t i = 0; i < chunks->n_chunks; i++) {
        double more = claims[i].samples * mean;
        bool kept = claims[i].samples > 0 && taken + more <= left;
        *changed = mark(chunks, claims[i].chunk, kept) || *changed;
        taken += kept ? more : 0;
        if (!kept && claims[i].samples > 0)
            chunks_range_of(chunks, claims[i].chunk)->rest += claims[i].samples;
    }
    return taken;
}

/* hold tells each range how many samples of its chunks that are not kept memory holds. `held` is for all ranges
 * together, and is divided in proportion to their slots. */
static void hold(struct chunks *chunks, double held)
{
    double slots = 0;
    for (size_t i = 0; i < chunks->n_ranges; i++)
        slots += chunks->ranges[i].rest ? (double)chunks->ranges[i].count * chunks->ranges[i].samples : 0;
    for (size_t i = 0; i < chunks->n_ranges; i++) {
        struct chunk_range *range = &chunks->ranges[i];
        chunks_hold(chunks, range, (uint64_t)(slots > 0 ? held * range->count * range->samples / slots : held));
    }
}

/* keep_samples makes the set of the samples that are wanted of the chunks that stay. It fails with LARDER_ENOMEM. */
static int keep_samples(struct encoded_store *store, const struct idset *all)
{
    size_t count = idset_count(all), kept = 0;
    sample_id *ids = malloc((count + 1) * sizeof *ids);
    if (!ids || idset_copy(all, &store->kept_of)) {
        free(ids);
        return LARDER_ENOMEM;
    }
    store->kept_moves = store->chunks->moves;
    idset_to_array(all, ids);
    for (size_t i = 0; i < count; i++) {
        uint32_t chunk = chunks_place(store->chunks, ids[i])->chunk;
        if (chunk != ENGINE_NONE && store->chunks->chunks[chunk].kept)
            ids[kept++] = ids[i];
    }
    int code = kept ? idset_from_sorted(ids, kept, &store->kept) : 0;
    free(ids);
    return code;
}

/* keep_part chooses the chunks that stay, and makes the set of the samples that are wanted of them. If nothing has
 * changed, these are those of before. It fails with LARDER_ENOMEM. */
static int keep_part(struct encoded_store *store, const struct wanted *wanted, double ahead_bytes, struct idset *before)
{
    uint32_t most = 0;
    bool changed = false;
    double mean = wanted->bytes / (double)idset_count(wanted->all);
    struct claim *claims = calloc(store->chunks->n_chunks + 1, sizeof *claims);
    int code = claims ? make_claims(store, wanted, claims) : LARDER_ENOMEM;
    if (!code) {
        for (uint32_t i = 0; i < store->chunks->n_chunks; i++)
            most = claims[i].samples > most ? claims[i].samples : most;
        double left = keepable(store, wanted->bytes, most * mean, ahead_bytes);
        store->kept_most = (uint64_t)choose(store, claims, mean, left, &changed);
        hold(store->chunks, ((double)encoded_sure(store) - (double)store->kept_most) / mean);
    }
    free(claims);
    if (!code && !changed && store->kept_of && store->kept_moves == store->chunks->moves &&
        idset_equal(store->kept_of, wanted->all)) {
        store->kept = before;
        return 0;
    }
    idset_destroy(store->kept_of);
    store->kept_of = NULL;
    return code ? code : keep_samples(store, wanted->all);
}

/* settle_encoded has the encoded kept if its sample is in the set now, and else no longer; nobody may want it then. */
static void settle_encoded(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    bool kept = encoded_keeps(store, encoded->id);
    if (encoded->kept == kept)
        return;
    encoded->kept = kept;
    uint64_t bytes = encoded_as_read(encoded);
    uint64_t pinned = residency_pins(store->residency, index) > 0 ? bytes : 0;
    store->kept_bytes = kept ? store->kept_bytes + bytes : store->kept_bytes - bytes;
    store->kept_pinned_bytes = kept ? store->kept_pinned_bytes + pinned : store->kept_pinned_bytes - pinned;
    encoded_shift_want(store, index, kept ? KEPT_WANT : -KEPT_WANT);
    encoded_drop_if_idle(store, encoded->id);
}

/* settle_missing settles what memory has of the samples in `from` that are not in `in`. It returns false when these are
 * more than it has, or when there is no memory to find out. */
static bool settle_missing(struct encoded_store *store, const struct idset *from, const struct idset *in)
{
    struct idset *missing = NULL;
    bool few = idset_difference(from, in, &missing) == 0 && idset_count(missing) <= store->slab.taken;
    size_t count = few ? idset_count(missing) : 0;
    sample_id *ids = few ? malloc((count + 1) * sizeof *ids) : NULL;
    few = ids != NULL;
    if (few)
        idset_to_array(missing, ids);
    for (size_t i = 0; i < count && few; i++) {
        if (encoded_sample(store, ids[i])->encoded != ENGINE_NONE)
            settle_encoded(store, encoded_sample(store, ids[i])->encoded);
    }
    free(ids);
    idset_destroy(missing);
    return few;
}

/* settle settles what memory has of samples that were in the kept set and are not, or the other way round. */
static void settle(struct encoded_store *store, const struct idset *before)
{
    if (before && store->kept && settle_missing(store, before, store->kept) &&
        settle_missing(store, store->kept, before))
        return;
    for (uint32_t index = 0; (before || store->kept) && index < store->slab.size; index++) {
        if (store->encodeds[index].state != ENCODED_FREE)
            settle_encoded(store, index);
    }
}

/* some_come_and_go tells whether a job also draws samples that are not worth keeping. Memory is left to shuffle them,
 * and their chunks have fibers of their own, even if all the others fit. */
static bool some_come_and_go(const struct encoded_store *store)
{
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        if (job->terms.part.home)
            return true;
    }
    return false;
}

static bool all_orders_known(const struct encoded_store *store)
{
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        if (job->terms.shuffle == SHUFFLE_DEPENDENT)
            return false;
    }
    return true;
}

void encoded_keep_measure(struct encoded_store *store, uint64_t ahead_bytes)
{
    struct wanted wanted = {.bytes = 0};
    struct idset *before = store->kept;
    store->kept = NULL;
    store->kept_most = 0;
    for (size_t i = 0; i < store->chunks->n_ranges; i++) {
        chunks_part(store->chunks, &store->chunks->ranges[i], parts_of(store, &store->chunks->ranges[i]));
        store->chunks->ranges[i].rest = 0;
    }
    int code = add_views(store, &wanted);
    bool fits = wanted.bytes <= (double)encoded_sure_alone(store) && !some_come_and_go(store);
    bool known = !code && !fits && all_orders_known(store);
    if (!known) /* gives back what orders took, before room is counted */
        encoded_next_measure(store, false);
    if (!code && (fits || known)) {
        store->kept_most = encoded_sure(store);
        store->kept = wanted.all;
        wanted.all = NULL;
        mark_all(store->chunks, true);
    } else if (!code) {
        code = keep_part(store, &wanted, (double)ahead_bytes, before);
    }
    if (code || fits || known) {
        idset_destroy(store->kept_of);
        store->kept_of = NULL;
    }
    if (code) { /* without memory to find out, nothing is kept */
        mark_all(store->chunks, false);
        store->kept_most = 0;
    }
    if (store->kept != before) {
        settle(store, before);
        idset_destroy(before);
    }
    encoded_next_measure(store, known);
    encoded_forms_measure(store);
    idset_destroy(wanted.all);
}

void encoded_keep_destroy(struct encoded_store *store)
{
    idset_destroy(store->kept);
    idset_destroy(store->kept_of);
    forget_counted(&store->counted);
}
