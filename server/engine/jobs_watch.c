/* jobs_watch.c: what time brings: ranks that are away, jobs that wait for room or for their source. */
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/jobs.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/resume.h"
#include "server/engine/sources.h"

/* most jobs that an error names as holders of batches */
enum { HOLDERS_TOLD = 4 };

/* needed tells whether the rank is not there and somebody waits for it, or its share of the epoch is open. */
static bool needed(const struct job *job, const struct job_queue *queue, bool somebody_waits)
{
    return queue->client.presence != RANK_THERE && !(job->resume && resume_is_done(job->resume, queue->rank)) &&
           (somebody_waits || (job->state == JOB_RUNNING && !queue->epoch.done));
}

/* watch_ranks_of fails the job when a rank that is needed has been away for rank_timeout_ns. */
static void watch_ranks_of(struct engine *engine, uint32_t no)
{
    struct job *job = job_at(&engine->jobs, no);
    bool waits = false;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++)
        waits = waits || job->queues[rank].next.asked;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        bool missed = needed(job, queue, waits);
        if (missed && !queue->client.missed)
            queue->client.missed_since_ns = engine->env.now_ns;
        queue->client.missed = missed;
        if (!missed || engine->env.now_ns - queue->client.missed_since_ns < engine->env.config.rank_timeout_ns)
            continue;
        char text[160];
        snprintf(text, sizeof text,
                 "rank %u of %u %s within %.3g s (limits.rank_timeout): look why it stopped, and start all ranks again",
                 job->terms.part.first + rank, job_all_ranks(job),
                 queue->client.presence != RANK_TO_COME ? "has not come back" : "has not come",
                 (double)engine->env.config.rank_timeout_ns / 1e9);
        jobs_fail(engine, no, FAILURE_OTHER, LARDER_ETIMEOUT, text);
        return;
    }
}

/* A job of which no rank is there ends: nobody is there to be told of a failure. */
void jobs_watch_ranks(struct engine *engine)
{
    for (uint32_t no = 0; engine->env.config.rank_timeout_ns && no < engine->jobs.end; no++) {
        const struct job *job = job_at(&engine->jobs, no);
        if (job->state == JOB_FREE || job->state == JOB_FAILED || job->terms.world_size == 1)
            continue;
        if (job->attached > 0)
            watch_ranks_of(engine, no);
        else if (engine->env.now_ns - job->empty_since_ns >= engine->env.config.rank_timeout_ns)
            jobs_end(engine, no);
    }
}

/* longest_place returns the bytes of the longest place that is asked for: a slot of any job, or what a sample of this
 * job that has no room is begun with. */
static uint64_t longest_place(const struct engine *engine, const struct job *job)
{
    uint64_t longest = 0;
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        uint64_t bytes = job_at(&engine->jobs, no)->state != JOB_FREE ? job_at(&engine->jobs, no)->terms.slot_bytes : 0;
        longest = bytes > longest ? bytes : longest;
    }
    for (uint32_t rank = 0; job->terms.sized && rank < job->terms.world_size; rank++) {
        uint32_t index = job->queues[rank].line.entries.head;
        for (; index != ENGINE_NONE; index = engine->queues.entries[index].in_line.next) {
            const struct entry *entry = &engine->queues.entries[index];
            uint64_t bytes = job_begun_bytes(&engine->env.config, &job->terms, entry->id, entry->elsewhere);
            if (entry->state == ENTRY_UNPLACED && bytes > longest)
                longest = bytes;
        }
    }
    return engine_slot_bytes(&engine->env.config, longest);
}

/* enough_bytes returns the size of an arena that has room for the job, wherever clients hold theirs. The free space
 * between two places that clients hold is less than a place; otherwise a place would be there. */
static uint64_t enough_bytes(const struct engine *engine, const struct job *job)
{
    uint64_t held = 0;
    for (uint32_t no = 0; no < engine->jobs.end; no++)
        held += job_at(&engine->jobs, no)->state != JOB_FREE ? queue_slots_of(job_at(&engine->jobs, no)) : 0;
    return quota_least_bytes(&engine->quota) + held * longest_place(engine, job);
}

/* fail_of_memory fails the job, for which the machine had no memory. */
static void fail_of_memory(struct engine *engine, uint32_t no)
{
    char text[ERROR_TEXT_MAX];
    snprintf(
        text, sizeof text,
        "no room in the arena for %.3g s: %llu bytes of it are there, and the machine (or cgroup) has no memory for "
        "more of the %llu bytes of memory.arena: free some, or stop a job",
        (double)engine->env.config.room_timeout_ns / 1e9, (unsigned long long)prepared_there_bytes(&engine->prepared),
        (unsigned long long)engine->env.config.arena_bytes);
    jobs_fail(engine, no, FAILURE_OTHER, LARDER_EQUOTA, text);
}

/* fail fails the job, which has waited too long for room. The text begins with the remedy, because its end may be cut
 * off. */
static void fail(struct engine *engine, uint32_t no)
{
    char text[ERROR_TEXT_MAX];
    int used = snprintf(text, sizeof text,
                        "no room in the arena for %.3g s, free space lies in pieces between what clients hold: raise "
                        "memory.arena to %llu bytes, stop a job, or give batches back sooner (zero_copy, C: hold)",
                        (double)engine->env.config.room_timeout_ns / 1e9,
                        (unsigned long long)enough_bytes(engine, job_at(&engine->jobs, no)));
    for (uint32_t other = 0, told = 0; other < engine->jobs.end && told < HOLDERS_TOLD; other++) {
        uint32_t batches = queue_batches_held(job_at(&engine->jobs, other));
        if (batches > 0 && used < ERROR_TEXT_MAX)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%s holds %u", told++ ? ", " : "; ",
                             job_at(&engine->jobs, other)->terms.name, batches);
    }
    jobs_fail(engine, no, FAILURE_OTHER, LARDER_EQUOTA, text);
}

/* starves tells whether the rank's client waits and nothing under way leads to its next batch. */
static bool starves(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    if (job->state != JOB_RUNNING || queue->epoch.credits == 0 || queue->n_leases >= job->quota.held_max)
        return false;
    if (!job->terms.sized)
        return true; /* nothing is planned for the job yet */
    if (queue->line.unplaced == 0 || queue_batch_ready(queues, job, queue))
        return false;
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE; index = queues->entries[index].in_line.next)
        if (queues->entries[index].state == ENTRY_WAITING)
            return false;
    return true;
}

/* watch_room_of notes which ranks of the job starve, and fails the job when one has starved for room_timeout_ns. */
static void watch_room_of(struct engine *engine, uint32_t no)
{
    struct job *job = job_at(&engine->jobs, no);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        uint64_t timeout_ns = engine->env.config.room_timeout_ns;
        if (job->zoned || prepared_may_grow(&engine->prepared) || !starves(&engine->queues, job, queue)) {
            queue->starves_since_ns = 0;
            continue;
        }
        /* The reserved memory may be too little, but it is not too much. If it were given back, the job would wait
         * anew. */
        prepared_lack(&engine->prepared, engine->prepared.growth.limit);
        if (queue->starves_since_ns == 0) {
            queue->starves_since_ns = engine->env.now_ns ? engine->env.now_ns : 1;
        } else if (timeout_ns && engine->env.now_ns >= queue->starves_since_ns + timeout_ns) {
            engine->plan.zone_again_ns = 0; /* The job's zone is tried a last time, out of order. */
            plan_zone_enter(&engine->plan, job);
            if (job->zoned || engine->plan.zone_goes_on)
                return;
            if (job->terms.sized && plan_sized_enter(&engine->plan, job, queue)) {
                queue->starves_since_ns = 0;
                continue;
            }
            if (engine->prepared.growth.refused)
                fail_of_memory(engine, no);
            else
                fail(engine, no);
            return;
        }
    }
}

/* may_wait tells whether the job may wait for room: it has no zone. */
static bool may_wait(const struct job *job)
{
    return job->state != JOB_FREE && job->state != JOB_FAILED && !job->zoned;
}

bool engine_waits_for_room(const struct engine *engine)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    for (uint32_t no = 0; no < engine->jobs.end; no++)
        if (may_wait(job_at(&engine->jobs, no)))
            return true;
    return false;
}

void jobs_watch_room(struct engine *engine)
{
    struct plan *plan = &engine->plan;
    plan->zone_goes_on = plan->zone_goes_on && may_wait(job_at(&engine->jobs, plan->zone_turn));
    for (uint32_t i = 0; i < engine->jobs.end && engine->env.now_ns >= plan->zone_again_ns; i++) {
        uint32_t no = plan->zone_goes_on ? plan->zone_turn : (plan->zone_turn + 1) % engine->jobs.end;
        plan->zone_turn = no;
        if (may_wait(job_at(&engine->jobs, no)))
            plan_zone_enter(plan, job_at(&engine->jobs, no));
    }
    for (uint32_t no = 0; no < engine->jobs.end; no++)
        if (may_wait(job_at(&engine->jobs, no)))
            watch_room_of(engine, no);
}

/* fail_of_source fails the job, which has waited too long for its source. */
static void fail_of_source(struct engine *engine, uint32_t no)
{
    char text[160];
    snprintf(text, sizeof text,
             "its storage did not answer for %.3g s (limits.source_wait): see that the dataset can be read, and start "
             "the job again",
             (double)engine->env.config.source_wait_ns / 1e9);
    jobs_fail(engine, no, &(struct failure){.id = SAMPLE_NONE, .of_source = true}, LARDER_EIO, text);
}

/* is_asked tells whether a load from the job's source is out that shows whether it answers. The job's own task may have
 * begun it, and is then not in line. */
static bool is_asked(const struct engine *engine, const struct job *job)
{
    const struct data_source *source = &engine->sources.all[job->source.at];
    return job->state == JOB_RUNNING && source->away && source->probe != SAMPLE_NONE;
}

void jobs_watch_sources(struct engine *engine)
{
    if (engine->sources.n_away == 0 && engine->sources.n_waiting == 0)
        return;
    engine->sources.n_waiting = 0;
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        struct job *job = job_at(&engine->jobs, no);
        bool waits = sources_waits(&engine->sources, no);
        if (waits && !job->source.waits)
            job->source.waits_since_ns = engine->env.now_ns;
        job->source.waits = waits || (job->source.waits && is_asked(engine, job));
        engine->sources.n_waiting += job->source.waits;
        if (waits && engine->env.now_ns - job->source.waits_since_ns >= engine->env.config.source_wait_ns)
            fail_of_source(engine, no);
    }
}

uint64_t engine_wakes_ns(const struct engine *engine)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    uint64_t wakes_ns = engine->halted ? UINT64_MAX : prepared_wakes_ns(&engine->prepared);
    if (!engine->halted && (!residents_swept(&engine->residents) || engine->tasks.ahead_left || engine->plan.goes_on))
        return engine->env.now_ns;
    if (engine->plan.zone_goes_on && !engine->halted && engine->plan.zone_again_ns < wakes_ns)
        wakes_ns = engine->plan.zone_again_ns;
    for (uint32_t no = 0; engine->sources.n_away > 0 && no < engine->jobs.end; no++) {
        const struct job *job = job_at(&engine->jobs, no);
        const struct data_source *source = &engine->sources.all[job->source.at];
        if (!sources_waits(&engine->sources, no))
            continue;
        uint64_t fails_ns = (job->source.waits ? job->source.waits_since_ns : engine->env.now_ns) +
                            engine->env.config.source_wait_ns;
        wakes_ns = fails_ns < wakes_ns ? fails_ns : wakes_ns;
        if (source->probe == SAMPLE_NONE && source->until_ns < wakes_ns)
            wakes_ns = source->until_ns;
    }
    return wakes_ns;
}
