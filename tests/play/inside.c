#include "tests/play/inside.h"

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"

static void count_queue(const struct engine *engine, const struct job_queue *queue, struct inside_share *out)
{
    const struct entry *entries = engine->queues.entries;
    for (uint32_t at = queue->line.entries.head; at != ENGINE_NONE; at = entries[at].in_line.next) {
        bool expected = entries[at].elsewhere;
        out->placed += expected && entries[at].state != ENTRY_UNPLACED;
        out->unplaced += expected && entries[at].state == ENTRY_UNPLACED;
        out->pinned += !expected && !entry_is_repeat(&entries[at]);
    }
    for (uint64_t at = queue->reserve.at; at < queue->reserve.end; at++) {
        const struct allotted *sample = &queue->reserve.samples[at];
        out->reserved += sample->elsewhere;
        out->pinned += !sample->elsewhere && sample->turn != SAMPLE_NONE;
    }
}

void inside_share(const struct engine *engine, uint32_t no, struct inside_share *out)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    const struct job *job = job_at(&engine->jobs, no);
    CHECK(job->state != JOB_FREE);
    *out = (struct inside_share){.runs = job->state == JOB_RUNNING, .epoch = job->progress.epoch};
    if (!out->runs)
        return;
    out->here = sampler_remaining(engine->env.sampler, no);
    out->undrawn = job_left_elsewhere(&engine->env, job);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        out->delivered += job->queues[rank].epoch.delivered;
        count_queue(engine, &job->queues[rank], out);
    }
    out->elsewhere = out->undrawn + out->placed + out->unplaced + out->reserved;
}

void inside_forget_chunks(struct engine *engine, const uint64_t chunk_key[ENGINE_CHUNK_KEY])
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    struct chunk_range *range = chunks_find_range(&engine->chunks, chunk_key);
    if (range)
        residents_forget_range(&engine->residents, range);
}
