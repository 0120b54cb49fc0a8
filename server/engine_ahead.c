/* engine_ahead.c: how far ahead each queue may plan.
 *
 * The arena is promised in rows: one batch for each rank of a job. Every job has its `least` rows for as long as it is
 * there, two or what its clients were promised that they may hold; these are never taken back, and a new job is refused
 * only when its own do not fit beside those of the others. What remains is divided again whenever a job comes or goes:
 * every job gets the same part of the look-ahead that it asked for. A job whose rows become fewer gives up what it
 * planned last; that is planned again, in the same order, when there is room. Clients never hold more than the `least`,
 * so that none that holds on to its batches keeps room from another. */
#include "server/engine_priv.h"

enum { DIVIDE_STEPS = 40 }; /* of a bisection */

uint64_t engine_least_bytes(const struct engine *engine)
{
    uint64_t bytes = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        if (job->state != JOB_FREE)
            bytes += job->least * job->row_bytes;
    }
    return bytes;
}

uint64_t engine_wanted_bytes(const struct engine *engine)
{
    uint64_t bytes = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        if (engine->jobs[place].state != JOB_FREE)
            bytes += engine->jobs[place].asked * engine->jobs[place].row_bytes;
    }
    return bytes;
}

static void set_rows(struct engine *engine, uint32_t place, uint32_t rows)
{
    struct job *job = &engine->jobs[place];
    uint32_t before = job->rows;
    engine->quota_bytes = engine->quota_bytes - job->quota_bytes + rows * job->row_bytes;
    job->rows = rows;
    job->quota_bytes = rows * job->row_bytes;
    job->quota_slots = rows * job->batch_slots;
    for (uint32_t rank = 0; rank < job->world_size && rows < before; rank++)
        engine_queue_shorten(engine, place, &job->queues[rank], job->quota_slots);
    if (before == 0) /* a new job: JOB_ADDED says it */
        return;
    engine->totals.ahead_shortened += rows < before;
    struct engine_action *action = engine_act_job(engine, ENGINE_AHEAD, place);
    action->ahead.quota_bytes = job->quota_bytes;
    action->ahead.from = before - ENGINE_ROWS_MIN;
    action->ahead.to = rows - ENGINE_ROWS_MIN;
    action->ahead.wanted_bytes = engine_wanted_bytes(engine);
}

/* What the rows cost when each job gets this part, 0 … 1, of those between its least and its most. */
static uint64_t deal(const struct engine *engine, double part, uint32_t *rows)
{
    uint64_t bytes = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        rows[place] = 0;
        if (job->state == JOB_FREE)
            continue;
        rows[place] = job->least + (uint32_t)(part * (job->most - job->least));
        bytes += rows[place] * job->row_bytes;
    }
    return bytes;
}

void engine_divide_arena(struct engine *engine)
{
    uint32_t rows[JOBS_MAX];
    double part = 1;
    if (deal(engine, part, rows) > engine->config.arena_bytes) {
        double low = 0, high = 1; /* at 0 it fits */
        for (int i = 0; i < DIVIDE_STEPS; i++) {
            part = (low + high) / 2;
            if (deal(engine, part, rows) > engine->config.arena_bytes)
                high = part;
            else
                low = part;
        }
        deal(engine, low, rows);
    }
    for (int given = 0; given <= 1; given++) { /* first what is given back, then what is given */
        for (uint32_t place = 0; place < engine->jobs_end; place++) {
            if (given ? rows[place] > engine->jobs[place].rows : rows[place] < engine->jobs[place].rows)
                set_rows(engine, place, rows[place]);
        }
    }
}
