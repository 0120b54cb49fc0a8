/* plan_copies.c: copies of a sample that are dealt together: each to another rank. */
#include <string.h>

#include "common/check.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"

/* rank_for_copy returns the rank for which least is planned and kept, of those that have not had a copy; NULL: the
 * shares of all of them are full. Since it is the one with least, no two ranks are apart by more than one copy. So the
 * shares have room for the copies of each sample at different ranks, up to the end of the epoch. */
static struct job_queue *rank_for_copy(const struct job *job, const bool *had)
{
    struct job_queue *best = NULL;
    uint64_t least = queue_share(job);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        uint64_t has = queue->epoch.planned + queue_reserve_count(&queue->reserve);
        if (queue->epoch.done || had[rank] || has >= least)
            continue;
        best = queue;
        least = has;
    }
    return best;
}

/* may_have_another tells whether ranks that had a copy may have another: all had one, or a copy would be left over
 * otherwise. Under drop_last some are left over in any case. */
static bool may_have_another(const struct job *job, const bool *had)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++)
        count += had[rank];
    return !job->terms.drop_last || count == job->terms.world_size;
}

struct job_queue *plan_next_copy(const struct job *job, struct job_queue *otherwise, bool had[ENGINE_RANKS_MAX])
{
    struct job_queue *queue = rank_for_copy(job, had);
    if (!queue && may_have_another(job, had)) {
        memset(had, 0, job->terms.world_size * sizeof *had);
        queue = rank_for_copy(job, had);
    }
    queue = queue ? queue : otherwise;
    if (queue)
        had[queue->rank] = true;
    return queue;
}

uint32_t plan_deal_later(struct plan *plan, struct job *job, struct allotted sample, uint32_t copies)
{
    bool had[ENGINE_RANKS_MAX] = {false};
    for (struct job_queue *queue; copies > 0 && (queue = plan_next_copy(job, NULL, had)); copies--) {
        job->progress.drawn++;
        plan->dealt++;
        queue_reserve_add(&queue->reserve, sample);
    }
    return copies;
}

/* Without memory it counts as one of which a copy has come. */
void plan_set_whole(struct job *job, sample_id id, uint32_t copies)
{
    if (job->progress.whole && bag_put(job->progress.whole, id, copies))
        CHECK(!bag_has(job->progress.whole, id));
}
