/* queue_check.c: what must hold of queues between steps. */
#include "common/check.h"
#include "server/engine/queue.h"

/* count_leased adds the leased samples of the queue to the users of their instances. */
static void count_leased(const struct job_queue *queue, uint32_t *users)
{
    for (uint32_t at = 0; at < queue->n_leases; at++) {
        for (uint32_t i = 0; i < queue->leases[at].count; i++)
            users[queue->leases[at].samples[i].instance]++;
    }
}

uint32_t *queues_count_users(const struct queues *queues)
{
    uint32_t *users = xcalloc(queues->prepared->slab.size, sizeof *users);
    for (uint32_t index = 0; index < queues->slab.size; index++) {
        if (queues->entries[index].state > ENTRY_UNPLACED)
            users[queues->entries[index].instance]++;
    }
    for (uint32_t no = 0; no < queues->jobs->end; no++) {
        for (uint32_t rank = 0; rank < job_at(queues->jobs, no)->terms.world_size; rank++)
            count_leased(&job_at(queues->jobs, no)->queues[rank], users);
    }
    return users;
}

/* check_rank checks the entries, leases and counts of one rank's queue. */
static void check_rank(const struct queues *queues, uint32_t no, uint32_t rank)
{
    const struct job *job = job_at(queues->jobs, no);
    const struct job_queue *queue = &job->queues[rank];
    uint64_t leased = 0;
    uint32_t queued = 0, ready = 0, unplaced = 0, making = 0, prev = ENGINE_NONE;
    bool open = false;
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE;
         prev = index, index = queues->entries[index].in_line.next) {
        const struct entry *entry = &queues->entries[index];
        CHECK(entry->job == no && entry->rank == rank && entry->state != ENTRY_FREE && entry->in_line.prev == prev);
        CHECK(entry->place_in_line < queue->line.numbered &&
              (prev == ENGINE_NONE || queues->entries[prev].place_in_line < entry->place_in_line));
        open = open || index == queue->line.first_waiting;
        CHECK(open || entry->state != ENTRY_WAITING);
        queued++;
        ready += entry->state == ENTRY_READY;
        unplaced += entry->state == ENTRY_UNPLACED;
        making += entry->making;
        CHECK(!entry->making || entry->state == ENTRY_WAITING);
    }
    for (uint32_t at = 0; at < queue->n_leases; at++)
        leased += queue->leases[at].count;
    CHECK(prev == queue->line.entries.tail && (open || queue->line.first_waiting == ENGINE_NONE));
    CHECK(queued == queue->line.queued && ready == queue->line.ready && unplaced == queue->line.unplaced &&
          making == queue->line.making);
    CHECK(queue->held_slots == queued + leased && queue->held_slots <= job->quota.slots);
    CHECK(queue->n_leases <= job->quota.held_max && job->quota.held_max <= job->quota.ahead_min &&
          job->quota.ahead_min <= job->quota.ahead_now);
    CHECK(queued == 0 || job->zoned || job->terms.sized);
    CHECK((job->state == JOB_RUNNING && !queue->epoch.done) ||
          (queued == 0 && queue_reserve_count(&queue->reserve) == 0));
    CHECK(queue->client.presence == RANK_THERE ||
          (queue->held_slots == 0 && queue->epoch.credits == 0 && !queue->next.asked));
    CHECK(job->state != JOB_RUNNING || queue->epoch.planned == queued + queue->epoch.delivered);
    CHECK(!job_in_step(job) || job->state != JOB_RUNNING || queued == 0 || queue->epoch.planned <= queue_share(job));
}

/* Nothing is lost: what was planned in this epoch is queued or delivered. The rest is kept for a rank or still to be
 * picked, except bad samples and what ranks left behind. */
void queues_check(const struct queues *queues, uint32_t no)
{
    const struct job *job = job_at(queues->jobs, no);
    uint64_t planned = 0, reserved = 0;
    uint32_t attached = 0;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        check_rank(queues, no, rank);
        planned += job->queues[rank].epoch.planned;
        reserved += queue_reserve_count(&job->queues[rank].reserve);
        attached += job->queues[rank].client.presence == RANK_THERE;
    }
    CHECK(!job->resume || (!job->progress.began && job->state != JOB_RUNNING));
    CHECK(attached == job->attached && (attached > 0 || job->terms.world_size > 1));
    if (job->state == JOB_RUNNING)
        CHECK(planned + reserved + job->progress.lost + job->progress.abandoned + job_left(queues->env, job) ==
              job->progress.samples + job->progress.repeats);
}
