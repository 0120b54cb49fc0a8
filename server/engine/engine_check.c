/* engine_check.c: what must hold between steps. Each module checks itself. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"

/* A job has all the slots that it keeps, or none, unless its room is being made. It may fail or go while it is. */
static void check_slots(const struct engine *engine, const struct job *job)
{
    bool goes_on = engine->plan.zone_goes_on && engine->plan.zone_turn == job->no;
    CHECK(job->zoned ? job->zone_slots == queue_slots_of(job)
                     : job->zone_slots == 0 || goes_on || job->state == JOB_FAILED);
}

/* The samples that are in a chunk are those of chunks.placed. */
static void check_placed(const struct chunks *chunks)
{
    uint64_t placed = 0, count = idset_count(chunks->placed);
    sample_id *ids = xcalloc(count ? count : 1, sizeof *ids);
    idset_to_array(chunks->placed, ids);
    for (uint64_t i = 0; i < count; i++)
        CHECK(ids[i] < chunks->env->samples.ids && chunks_place(chunks, ids[i])->chunk != ENGINE_NONE);
    for (uint64_t id = 0; id < chunks->env->samples.ids; id++)
        placed += chunks_place(chunks, (sample_id)id)->chunk != ENGINE_NONE;
    CHECK(placed == count);
    free(ids);
}

void engine_check(const struct engine *engine)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    uint32_t *instance_users = queues_count_users(&engine->queues), *encoded_users = tasks_count_users(&engine->tasks);
    uint64_t quota = 0;
    prepared_check(&engine->prepared, instance_users);
    encoded_check(&engine->encoded, encoded_users, !residents_swept(&engine->residents));
    tasks_check(&engine->tasks);
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        if (job_at(&engine->jobs, no)->state != JOB_FREE)
            queues_check(&engine->queues, no);
        check_slots(engine, job_at(&engine->jobs, no));
        quota += job_at(&engine->jobs, no)->quota.bytes;
    }
    check_placed(&engine->chunks);
    CHECK(quota == engine->quota.promised_bytes && quota <= engine->env.config.arena_bytes);
    CHECK(engine->tasks.n_results == 0);
    uint64_t delivered = 0;
    for (int level = 0; level < ENGINE_LEVELS; level++)
        delivered += engine->env.counts.delivered_from[level];
    CHECK(delivered == engine->env.counts.samples_delivered);
    free(instance_users);
    free(encoded_users);
}
