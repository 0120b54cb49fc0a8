/* resume.c: checks a rank's record of an epoch, compares it with those of the others, and keeps it. */
#include "server/engine/resume.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/part.h"

/* count_of returns the ids of a set that may be missing. */
static uint64_t count_of(const struct idset *set)
{
    return set ? idset_count(set) : 0;
}

static bool is_within(const struct idset *set, const struct idset *view)
{
    return !set || idset_intersection_count(set, view) == idset_count(set);
}

/* is_apart tells whether two sets have nothing in common. Those of a multiset may: whether a sample was had too often
 * is seen when the epoch begins. */
static bool is_apart(const struct engine_job_desc *desc, const struct idset *a, const struct idset *b)
{
    return desc->sampled.multiset || !a || !b || idset_intersection_count(a, b) == 0;
}

/* draws_left returns the draws of the epoch that the base leaves to all ranks of the job. */
static uint64_t draws_left(const struct engine_job_desc *desc)
{
    uint64_t draws = part_draws(desc);
    if (desc->sampled.shuffle == SHUFFLE_DEPENDENT)
        return draws - count_of(desc->resume->base) - desc->resume->base_again.count;
    return engine_segments_left(desc->resume->segments, desc->resume->n_segments, draws);
}

/* order_part returns how many positions of a fixed order a rank here has of what the base leaves. */
static uint64_t order_part(const struct engine_job_desc *desc, uint32_t rank)
{
    uint32_t ranks = desc->part.world_size ? desc->part.world_size : part_ranks(desc);
    return resume_part(draws_left(desc), ranks, desc->part.first + rank);
}

/* flaw_of_copies looks only for what the engine cannot take. Wrong ranks would make for wrong ranks. */
static const char *flaw_of_copies(const struct engine_job_desc *desc)
{
    const struct engine_resume *resume = desc->resume;
    for (uint32_t i = 0; i < resume->n_copies; i++)
        if (resume->copies[i].rank >= part_ranks(desc))
            return "it has copies of a rank that the job has not";
    return NULL;
}

static const char *flaw_of_sets(const struct engine_job_desc *desc)
{
    const struct engine_resume *resume = desc->resume;
    if (!is_within(resume->base, desc->sampled.view) || !is_within(resume->turns, desc->sampled.view))
        return "it has samples that the job's view has not";
    if (!is_apart(desc, resume->base, resume->turns))
        return "it has a sample twice";
    if (desc->sampled.multiset && count_of(resume->base) + resume->base_again.count > part_draws(desc))
        return "more was taken than the epoch has";
    return count_of(resume->turns) + resume->again.count > resume->delivered
               ? "it has more samples than batches brought"
               : flaw_of_copies(desc);
}

static const char *flaw_of_segments(const struct engine_job_desc *desc)
{
    const struct engine_resume *resume = desc->resume;
    uint64_t samples = part_draws(desc);
    if (resume->n_segments > ENGINE_SEGMENTS_MAX)
        return "the epoch was begun again too often";
    for (uint32_t i = 0; i < resume->n_segments; i++) {
        const struct engine_segment *segment = &resume->segments[i];
        if (segment->world_size < 1 || segment->world_size > ENGINE_RANKS_MAX || !resume_segment_fits(segment, samples))
            return "more was taken than the epoch has";
        samples = engine_segments_left(segment, 1, samples);
    }
    return resume->through > order_part(desc, desc->rank) ? "a rank has had more than its part" : NULL;
}

/* flaw_of_done returns what is wrong with what the rank tells of another one. */
static const char *flaw_of_done(const struct engine_job_desc *desc, const struct engine_done *done, uint64_t most)
{
    const struct engine_resume *resume = desc->resume;
    bool fixed = desc->sampled.shuffle != SHUFFLE_DEPENDENT;
    if (!resume->presented || done->rank >= part_ranks(desc) || done->rank == desc->rank)
        return "it tells of a rank that cannot be done";
    if (fixed && done->through > order_part(desc, done->rank))
        return "a rank has had more than its part";
    if (!is_within(done->turns, desc->sampled.view) || !is_apart(desc, resume->base, done->turns) ||
        !is_apart(desc, resume->turns, done->turns) || count_of(done->turns) + done->again.count > done->delivered)
        return "another rank has had samples that it cannot have had";
    return done->delivered > most || done->batches > UINT32_MAX - resume->base_batches
               ? "a rank has had more than its share"
               : NULL;
}

/* rank_most returns the most samples that a rank can have received of the rest after the base. */
static uint64_t rank_most(const struct engine_job_desc *desc)
{
    return desc->part.world_size ? part_samples(desc, draws_left(desc)) / part_ranks(desc)
                                 : resume_part(draws_left(desc), part_ranks(desc), 0);
}

const char *resume_flaw(const struct engine_job_desc *desc)
{
    const struct engine_resume *resume = desc->resume;
    bool fixed = desc->sampled.shuffle != SHUFFLE_DEPENDENT;
    const char *flaw = fixed ? flaw_of_segments(desc) : flaw_of_sets(desc);
    if (flaw)
        return flaw;
    if (desc->part.world_size && desc->sampled.multiset && (resume->base_batches || count_of(resume->base)))
        return "the job's ranks are at several nodes, and with a sampler such a job goes on from a checkpoint made "
               "between two epochs only";
    if (resume->batches > UINT32_MAX - resume->base_batches)
        return "it has too many batches";
    if (resume->epoch == ENGINE_EPOCHS_MAX && (resume->base_batches || resume->batches || resume->delivered ||
                                               resume->through || resume->n_segments || count_of(resume->base)))
        return "something was taken after the last epoch";
    if (resume->delivered > rank_most(desc))
        return "a rank has had more than its share";
    for (uint32_t i = 0; !flaw && i < resume->n_done; i++)
        flaw = flaw_of_done(desc, &resume->done[i], rank_most(desc));
    return flaw;
}

static uint32_t through_of(const struct engine_job_desc *desc)
{
    return desc->sampled.shuffle == SHUFFLE_DEPENDENT ? 0 : (uint32_t)desc->resume->through;
}

/* is_same_as tells whether the rank tells what it told before. */
static bool is_same_as(const struct resume_rank *rank, const struct engine_job_desc *desc)
{
    const struct engine_resume *told = desc->resume;
    return rank->epoch == told->epoch && rank->batches == told->base_batches + told->batches &&
           rank->delivered == told->delivered && rank->through == through_of(desc) &&
           count_of(rank->turns) == count_of(told->turns) && rank->again.count == told->again.count &&
           (!rank->turns || !told->turns || idset_equal(rank->turns, told->turns));
}

/* clash_of_two returns why two ranks do not fit together. Ranks that come back may be an epoch apart: one of them had
 * begun an epoch when the others had not. */
static const char *clash_of_two(const struct resume_rank *rank, const struct engine_job_desc *desc)
{
    const struct engine_resume *told = desc->resume;
    if (rank->epoch != told->epoch)
        return rank->presented && told->presented ? NULL : "goes on in another epoch than the other ranks";
    return is_apart(desc, rank->turns, told->turns) ? NULL : "has had samples that another rank has had";
}

/* clash_of_done returns why what the rank tells of another one that is done does not fit what a third has told. */
static const char *clash_of_done(const struct resume *resume, uint32_t of, const struct resume_rank *told,
                                 const struct engine_job_desc *desc)
{
    const struct engine_resume *by = desc->resume;
    const char *clash = NULL;
    for (uint32_t i = 0; told->epoch == by->epoch && !clash && i < by->n_done; i++) {
        bool known = resume->ranks[by->done[i].rank].told;
        if (by->done[i].rank != of && !known && !is_apart(desc, told->turns, by->done[i].turns))
            clash = "tells of a rank that has had samples that another rank has had";
    }
    return clash;
}

/* A rank that was left behind an epoch has nothing of the next one. So that one has no base. */
const char *resume_clash(const struct resume *resume, const struct engine_job_desc *desc)
{
    const struct engine_resume *told = desc->resume;
    const char *clash = NULL;
    if (told->epoch == resume->epoch ? told->key != resume->key || told->base_batches != resume->base_batches
                                     : (told->epoch > resume->epoch ? told->base_batches : resume->base_batches) > 0)
        return "goes on from another state than the other ranks";
    for (uint32_t rank = 0; rank < resume->world_size && !clash; rank++) {
        const struct resume_rank *other = &resume->ranks[rank];
        if (!other->told)
            continue;
        if (rank != desc->rank)
            clash = clash_of_two(other, desc);
        else if (!other->done && !is_same_as(other, desc))
            clash = "came with another state before";
        clash = clash ? clash : clash_of_done(resume, rank, other, desc);
    }
    return clash;
}

bool resume_is_of_the_start(const struct resume *resume)
{
    bool presented = true;
    for (uint32_t rank = 0; rank < resume->world_size; rank++)
        presented = presented && (!resume->ranks[rank].told || resume->ranks[rank].presented);
    return presented && resume->epoch == 0 && resume->base_batches == 0 && resume->n_segments == 0 &&
           count_of(resume->base) == 0;
}

bool resume_had(const struct resume *resume, uint32_t rank)
{
    const struct resume_rank *told = &resume->ranks[rank];
    return told->told && (told->epoch || told->batches || told->delivered || told->through || count_of(told->turns));
}

/* ── keeping ── */

void resume_forget(struct resume *resume, uint32_t rank)
{
    idset_destroy(resume->ranks[rank].turns);
    free((sample_id *)resume->ranks[rank].again.ids);
    resume->ranks[rank] = (struct resume_rank){.told = false};
}

/* copy_segments makes the segments those of the base. All their numbers are in one array. */
static void copy_segments(struct resume *resume, const struct engine_segment *segments, uint32_t n_segments)
{
    size_t count = 0, at = 0;
    for (uint32_t i = 0; i < n_segments; i++)
        count += segments[i].world_size;
    resume->segments = xcalloc(n_segments + 1, sizeof *resume->segments);
    resume->numbers = xmalloc(count * sizeof *resume->numbers);
    for (uint32_t i = 0; i < n_segments; at += segments[i++].world_size) {
        memcpy(resume->numbers + at, segments[i].through, segments[i].world_size * sizeof *resume->numbers);
        resume->segments[i] = (struct engine_segment){segments[i].world_size, resume->numbers + at};
    }
    resume->n_segments = n_segments;
}

static void drop_base(struct resume *resume)
{
    free(resume->segments);
    free(resume->numbers);
    idset_destroy(resume->base);
    free((sample_id *)resume->base_again.ids);
    free(resume->copies);
}

/* copy_again copies the draws. */
static int copy_again(const struct engine_again *again, struct engine_again *out)
{
    *out = (struct engine_again){NULL, again->count};
    sample_id *ids = again->count ? malloc(again->count * sizeof *ids) : NULL;
    if (again->count && !ids)
        return LARDER_ENOMEM;
    if (ids)
        memcpy(ids, again->ids, again->count * sizeof *ids);
    out->ids = ids;
    return 0;
}

/* A base: its set, and what of it lies in arrays. */
struct base {
    struct idset *set;
    struct engine_again again;
    struct engine_copy *copies;
};

static void base_free(struct base *base)
{
    idset_destroy(base->set);
    free((sample_id *)base->again.ids);
    free(base->copies);
}

/* copy_base copies the base that is told. LARDER_ENOMEM: a part of it is there. */
static int copy_base(const struct engine_resume *told, bool dependent, struct base *out)
{
    *out = (struct base){NULL};
    int code = dependent && told->base ? idset_copy(told->base, &out->set) : 0;
    if (!code)
        code = copy_again(&told->base_again, &out->again);
    if (code || told->n_copies == 0)
        return code;
    out->copies = malloc(told->n_copies * sizeof *out->copies);
    if (!out->copies)
        return LARDER_ENOMEM;
    memcpy(out->copies, told->copies, told->n_copies * sizeof *out->copies);
    return 0;
}

/* take_base makes the description's base that of the highest epoch. What was copied of it becomes the resume's. */
static void take_base(struct resume *resume, const struct engine_job_desc *desc, const struct base *base)
{
    const struct engine_resume *told = desc->resume;
    drop_base(resume);
    resume->epoch = told->epoch;
    resume->key = told->key;
    resume->base_batches = told->base_batches;
    resume->base = base->set;
    resume->base_again = base->again;
    resume->copies = base->copies;
    resume->n_copies = told->n_copies;
    resume->draws = draws_left(desc);
    resume->samples = part_epoch_samples(desc, resume->draws);
    resume->part_samples = part_samples(desc, resume->draws);
    copy_segments(resume, told->segments, desc->sampled.shuffle == SHUFFLE_DEPENDENT ? 0 : told->n_segments);
}

/* set keeps what is told of a rank: what it received itself, in the epoch of `told`. */
static int set(struct resume *resume, const struct engine_resume *told, const struct engine_done *had, bool dependent,
               bool done)
{
    struct idset *turns = NULL;
    struct engine_again again;
    if (copy_again(&had->again, &again))
        return LARDER_ENOMEM;
    if (dependent && had->turns && idset_copy(had->turns, &turns)) {
        free((sample_id *)again.ids);
        return LARDER_ENOMEM;
    }
    resume_forget(resume, had->rank);
    resume->ranks[had->rank] = (struct resume_rank){.told = true,
                                                    .presented = told->presented,
                                                    .done = done,
                                                    .epoch = told->epoch,
                                                    .batches = told->base_batches + had->batches,
                                                    .delivered = had->delivered,
                                                    .through = dependent ? 0 : (uint32_t)had->through,
                                                    .turns = turns,
                                                    .again = again};
    return 0;
}

/* add keeps what the rank tells, and with `based` its base. */
static int add(struct resume *resume, const struct engine_job_desc *desc, bool based)
{
    const struct engine_resume *told = desc->resume;
    bool dependent = desc->sampled.shuffle == SHUFFLE_DEPENDENT;
    struct base base = {NULL};
    struct engine_done own = {desc->rank, told->batches, told->delivered, told->through, told->turns, told->again};
    int code = based ? copy_base(told, dependent, &base) : 0;
    if (!code)
        code = set(resume, told, &own, dependent, false);
    for (uint32_t i = 0; !code && i < told->n_done; i++) {
        if (!resume->ranks[told->done[i].rank].told)
            code = set(resume, told, &told->done[i], dependent, true);
    }
    if (code) {
        base_free(&base);
        return code;
    }
    if (based)
        take_base(resume, desc, &base);
    return 0;
}

int resume_create(const struct engine_job_desc *desc, struct resume **out)
{
    struct resume *resume = xcalloc(1, sizeof *resume);
    resume->world_size = part_ranks(desc);
    resume->ranks = xcalloc(resume->world_size, sizeof *resume->ranks);
    int code = add(resume, desc, true);
    if (code) {
        resume_destroy(resume);
        return code;
    }
    *out = resume;
    return 0;
}

int resume_add(struct resume *resume, const struct engine_job_desc *desc)
{
    const struct resume_rank *rank = &resume->ranks[desc->rank];
    return rank->told && !rank->done ? 0 : add(resume, desc, desc->resume->epoch > resume->epoch);
}

bool resume_is_done(const struct resume *resume, uint32_t rank)
{
    return resume->ranks[rank].done && resume->ranks[rank].epoch == resume->epoch;
}

void resume_destroy(struct resume *resume)
{
    if (!resume)
        return;
    for (uint32_t rank = 0; rank < resume->world_size; rank++)
        resume_forget(resume, rank);
    drop_base(resume);
    free(resume->ranks);
    free(resume);
}
