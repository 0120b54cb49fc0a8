/* encoded_keep.c: are encoded samples kept that nobody wants any more in this epoch?
 *
 * When memory has room for all that the jobs' views have, they stay, and each sample is read once for all epochs. When
 * it has not, they go: what is left of an epoch's end would come at the next one's beginning, and each order would echo
 * the one before. Nor when jobs prepare differently: what only some want stays in step with the others by what is in
 * memory, and decoding for each alone costs more than reading. */
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
static struct idset *all_that_fits(const struct encoded_store *store)
{
    struct idset *all = NULL;
    double bytes = 0;
    int code = idset_create(&all);
    for (uint32_t no = 0; !code && no < store->jobs->end; no++) {
        if (job_at(store->jobs, no)->state != JOB_FREE)
            code = add_view(job_at(store->jobs, no), &all, &bytes);
    }
    if (!code && bytes <= (double)encoded_sure(store))
        return all;
    idset_destroy(all);
    return NULL;
}

/* Lets go what was kept and is no more: those samples where they are few, else all that nobody
 * wants are gone through. */
static void settle_lost(struct encoded_store *store, const struct idset *before)
{
    struct idset *lost = NULL;
    if (store->kept && idset_difference(before, store->kept, &lost) == 0 &&
        idset_count(lost) < residency_idle(store->residency)) {
        sample_id id = 0;
        for (uint64_t rank = 0; idset_select(lost, rank, &id); rank++)
            encoded_drop_if_idle(store, id);
    } else {
        encoded_drop_idle(store);
    }
    idset_destroy(lost);
}

void encoded_keep_measure(struct encoded_store *store)
{
    struct idset *before = store->kept;
    store->kept = demand_prepare_alike(store->jobs) ? all_that_fits(store) : NULL;
    if (before)
        settle_lost(store, before);
    idset_destroy(before);
}
