/* encoded_keep.c: are encoded samples kept that nobody wants any more in this epoch?
 *
 * When memory has room for all samples of the jobs' views, they stay, and each sample is read once for all epochs. When
 * it does not, they go. Otherwise what is left of an epoch's end would come at the beginning of the next one, and each
 * order would echo the one before. They go too when jobs prepare differently. Then jobs stay in step by what is in
 * memory, even for samples that only some of them want; decoding for each job alone costs more than reading. */
#include "server/engine/demand.h"
#include "server/engine/encoded.h"

/* add_view adds the job's view to the union of the views before, and to *bytes about how many bytes the view adds. The
 * mean of some samples gives the estimate. When it is too low, the oldest samples are evicted after all. */
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

/* all_that_fits gives the union of the jobs' views, which the caller owns. NULL when it is more than memory may keep,
 * or when there is no memory to find out. */
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

/* settle_lost lets go what was kept and is kept no longer. It goes through those samples when they are few, and
 * otherwise through all encodeds that nobody wants. */
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
