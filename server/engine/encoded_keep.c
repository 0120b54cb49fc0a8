/* encoded_keep.c: are encoded samples kept that nobody wants any more in this epoch?
 *
 * When memory has room for all that the jobs' views have, they stay, and each sample is read once for all epochs. When it has
 * not, they go: what is left of an epoch's end would come at the next one's beginning, and each order would echo the one
 * before. Nor when jobs prepare differently: what only some want stays in step with the others by what is in memory, and
 * decoding for each alone costs more than reading. */
#include "server/engine/demand.h"
#include "server/engine/encoded.h"

/* Adds the job's view to the union of those before, and about how many bytes that brings to *bytes: told from
 * the mean of some samples. When it is too few the oldest go again. */
static int add_view(const struct job *job, struct idset **all, double *bytes)
{
    struct idset *more;
    int code = idset_union(*all, job->terms.view, &more);
    if (code)
        return code;
    *bytes += (double)((idset_count(more) - idset_count(*all)) * job->shape.mean_bytes);
    idset_destroy(*all);
    *all = more;
    return 0;
}

/* The union of the jobs' views; NULL when it is more than memory may keep (or there is no memory to find out). */
static struct idset *all_that_fits(const struct engine *engine)
{
    struct idset *all = NULL;
    double bytes = 0;
    int code = idset_create(&all);
    for (uint32_t place = 0; !code && place < engine->jobs.end; place++) {
        if (engine->jobs.all[place].state != JOB_FREE)
            code = add_view(&engine->jobs.all[place], &all, &bytes);
    }
    if (!code && bytes <= (double)encoded_sure(engine))
        return all;
    idset_destroy(all);
    return NULL;
}

/* Lets go what was kept and is no more: those samples where they are few, else all that nobody wants are gone through. */
static void settle_lost(struct engine *engine, const struct idset *before)
{
    struct idset *lost = NULL;
    if (engine->encoded.kept && idset_difference(before, engine->encoded.kept, &lost) == 0 &&
        idset_count(lost) < residency_idle(engine->encoded.residency)) {
        sample_id id = 0;
        for (uint64_t rank = 0; idset_select(lost, rank, &id); rank++)
            encoded_drop_if_idle(engine, id);
    } else {
        encoded_drop_idle(engine);
    }
    idset_destroy(lost);
}

void encoded_keep_measure(struct engine *engine)
{
    struct idset *before = engine->encoded.kept;
    engine->encoded.kept = demand_prepare_alike(engine) ? all_that_fits(engine) : NULL;
    if (before)
        settle_lost(engine, before);
    idset_destroy(before);
}

bool encoded_keeps(const struct engine *engine, sample_id id)
{
    return engine->encoded.kept && idset_contains(engine->encoded.kept, id);
}
