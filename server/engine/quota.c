/* quota.c: how far ahead each queue may plan.
 *
 * The arena is promised in rows: one batch for each rank of a job. Every job has its `least` rows for as long as it is
 * there: two, or as many as its clients were promised to hold. These are never taken back. A new job is refused only
 * when its own least does not fit beside those of the others. The rest of the arena is divided again whenever a job
 * comes or goes: every job gets the same fraction of the look-ahead that it asked for. A job that gets fewer rows gives
 * up its last planned entries. They are planned again in the same order when there is room. Clients never hold more
 * than the `least`, so a client that holds on to its batches keeps no room from another.
 *
 * Need. A queue uses only some of its rows: those that cover twice the longest time that a sample took from plan to
 * ready, at the pace of its client, and the one in use. The rest is cache. Needs are met first when the arena is
 * divided. The time is the longest of ENGINE_AHEAD_WINDOWS windows. Each window takes at least config.ahead_window_ns
 * and WINDOW_BATCHES batches. Until that many windows are over, a queue has use for all of its rows. A need grows at
 * once with each longer time. A queue whose client had to wait has use for all of its rows until the windows have
 * passed again. */
#include <math.h>

#include "common/check.h"
#include "server/engine/quota.h"

enum {
    WINDOW_BATCHES = 8, /* batches that a window has at the least */
    STEP_KEPT = 16,     /* steps in the moving mean */
    STEP_LONGEST = 4    /* In means: a longer step is a pause, and counts as so long. */
};

enum { DIVIDE_STEPS = 40 }; /* steps of a bisection */
#define COVER 2.0           /* times the longest latency */

uint64_t quota_least_bytes(const struct quota *quota)
{
    uint64_t bytes = 0;
    for (const struct job *job = jobs_first(quota->jobs); job; job = jobs_after(quota->jobs, job))
        bytes += job->quota.ahead_min * job->shape.row_bytes;
    return bytes;
}

uint64_t quota_wanted_bytes(const struct quota *quota)
{
    uint64_t bytes = 0;
    for (uint32_t no = 0; no < quota->jobs->end; no++) {
        if (job_at(quota->jobs, no)->state != JOB_FREE)
            bytes += job_at(quota->jobs, no)->quota.ahead_asked * job_at(quota->jobs, no)->shape.row_bytes;
    }
    return bytes;
}

uint64_t quota_ahead_encoded_bytes(const struct quota *quota)
{
    uint64_t bytes = 0;
    for (const struct job *job = jobs_first(quota->jobs); job; job = jobs_after(quota->jobs, job))
        bytes += job->quota.ahead_now * job->shape.batch_slots * job->terms.world_size * job->shape.mean_bytes;
    return bytes;
}

/* rows_needed returns how many of `most` rows are of use to the rank with the greatest need. */
static uint32_t rows_needed(const struct job *job, uint32_t most)
{
    uint32_t rows = job->quota.ahead_min < most ? job->quota.ahead_min : most;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        uint32_t need = job->quota.needs[rank].rows;
        if (need == 0 || need >= most)
            return most;
        rows = need > rows ? need : rows;
    }
    return rows;
}

uint32_t quota_rows_needed(const struct job *job)
{
    return rows_needed(job, job->quota.ahead_now);
}

uint64_t quota_depth_slots(const struct job *job, uint32_t rank)
{
    uint32_t need = job->quota.needs[rank].rows, rows = need > job->quota.ahead_min ? need : job->quota.ahead_min;
    return need == 0 || rows > job->quota.ahead_now ? job->quota.slots : rows * job->shape.batch_slots;
}

void quota_room(const struct quota *quota, uint64_t row_bytes, uint64_t *promise, uint64_t *most)
{
    uint64_t arena = quota->env->config.arena_bytes, cap = quota->env->config.job_quota_bytes;
    uint64_t room = arena - quota_least_bytes(quota);
    cap = cap && cap < arena ? cap : arena;
    *promise = (room < cap ? room : cap) / row_bytes;
    *most = cap / row_bytes;
}

void quota_begin(const struct quota *quota, struct job *job)
{
    uint64_t promise, most;
    uint32_t hold = job->terms.hold ? job->terms.hold : ENGINE_ROWS_MIN, asked = job->terms.prefetch + ENGINE_ROWS_MIN;
    quota_room(quota, job->shape.row_bytes, &promise, &most);
    hold = hold < promise ? hold : (uint32_t)promise;
    uint32_t least = hold > ENGINE_ROWS_MIN ? hold : ENGINE_ROWS_MIN;
    asked = asked > least ? asked : least;
    job->quota = (struct job_quota){.ahead_min = least,
                                    .ahead_max = most < asked ? (uint32_t)most : asked,
                                    .ahead_asked = asked,
                                    .held_max = hold,
                                    .needs = xcalloc(job->terms.world_size, sizeof *job->quota.needs)};
}

void quota_set_rows(struct quota *quota, struct job *job, uint32_t rows)
{
    quota->promised_bytes -= job->quota.bytes;
    job->quota.ahead_now = rows;
    job->quota.bytes = rows * job->shape.row_bytes;
    job->quota.slots = rows * job->shape.batch_slots;
    quota->promised_bytes += job->quota.bytes;
}

void quota_keep_least(struct quota *quota, struct job *job)
{
    job->quota.ahead_max = job->quota.ahead_asked = job->quota.ahead_min;
    quota->divide = true;
}

/* deal sets rows[] by job number, and returns the arena bytes that these rows take. A part from 0 to 1 gives each job
 * that part of the rows between its least and its need. A part from 1 to 2 gives the need, and part - 1 of the rows
 * between its need and its most. */
static uint64_t deal(const struct quota *quota, double part, uint32_t *rows)
{
    uint64_t bytes = 0;
    for (uint32_t no = 0; no < quota->jobs->end; no++) {
        const struct job *job = job_at(quota->jobs, no);
        rows[no] = 0;
        if (job->state == JOB_FREE)
            continue;
        uint32_t need = rows_needed(job, job->quota.ahead_max);
        if (part < 1)
            rows[no] = job->quota.ahead_min + (uint32_t)(part * (need - job->quota.ahead_min));
        else
            rows[no] = need + (uint32_t)((part - 1) * (job->quota.ahead_max - need));
        bytes += rows[no] * job->shape.row_bytes;
    }
    return bytes;
}

void quota_divide(struct quota *quota, uint32_t *rows)
{
    double part = 2, low = 0, high = part; /* a part of 0 always fits */
    quota->divide = false;
    if (deal(quota, part, rows) <= quota->env->config.arena_bytes)
        return;
    for (int i = 0; i < DIVIDE_STEPS; i++) {
        part = (low + high) / 2;
        if (deal(quota, part, rows) > quota->env->config.arena_bytes)
            high = part;
        else
            low = part;
    }
    deal(quota, low, rows);
}

/* ── by need ── */

/* measured_rows returns the rows that cover the longest time of all windows. */
static uint32_t measured_rows(const struct job *job, const struct look_ahead *need)
{
    uint64_t worst_ns = 0;
    for (uint32_t i = 0; i < ENGINE_AHEAD_WINDOWS; i++)
        worst_ns = need->worst_ns[i] > worst_ns ? need->worst_ns[i] : worst_ns;
    /* A client that may hold more than ENGINE_ROWS_MIN batches holds all but the last of its least. */
    uint32_t in_use = job->quota.ahead_min > ENGINE_ROWS_MIN ? job->quota.ahead_min - 1 : 1;
    double rows = in_use + ceil(COVER * (double)worst_ns / (need->step_ns > 1 ? need->step_ns : 1));
    return rows < job->quota.ahead_min   ? job->quota.ahead_min
           : rows < job->quota.ahead_max ? (uint32_t)rows
                                         : job->quota.ahead_max;
}

/* set_need sets a need, and has the arena divided again if that changes it. */
static void set_need(struct quota *quota, struct look_ahead *need, uint32_t rows)
{
    quota->divide = quota->divide || need->rows != rows;
    need->rows = rows;
}

void quota_note_ready(struct quota *quota, struct job *job, uint32_t rank, uint64_t planned_ns)
{
    struct look_ahead *need = &job->quota.needs[rank];
    uint64_t took_ns = quota->env->now_ns - planned_ns;
    if (took_ns <= need->worst_ns[0])
        return;
    need->worst_ns[0] = took_ns;
    if (need->rows && measured_rows(job, need) > need->rows)
        set_need(quota, need, measured_rows(job, need));
}

/* note_step adds the time since the last delivery to the moving mean, without what the client waited. */
static void note_step(const struct quota *quota, struct look_ahead *need, uint64_t waited_ns)
{
    double step_ns = (double)(quota->env->now_ns - need->delivered_ns) - (double)(waited_ns - need->waited_ns);
    need->waited_ns = waited_ns;
    if (need->delivered_ns == 0) {
        need->began_ns = quota->env->now_ns;
    } else {
        need->steps += need->steps < STEP_KEPT;
        if (need->steps == STEP_KEPT && step_ns > STEP_LONGEST * need->step_ns)
            step_ns = STEP_LONGEST * need->step_ns;
        need->step_ns += (step_ns - need->step_ns) / need->steps;
    }
    need->delivered_ns = quota->env->now_ns;
}

void quota_note_delivery(struct quota *quota, struct job *job, uint32_t rank, uint64_t waited_ns)
{
    struct look_ahead *need = &job->quota.needs[rank];
    note_step(quota, need, waited_ns);
    need->batches++;
    if (quota->env->config.ahead_window_ns == 0 || need->batches < WINDOW_BATCHES ||
        quota->env->now_ns - need->began_ns < quota->env->config.ahead_window_ns)
        return;
    need->windows += need->windows < ENGINE_AHEAD_WINDOWS;
    if (need->windows == ENGINE_AHEAD_WINDOWS)
        set_need(quota, need, measured_rows(job, need));
    for (uint32_t i = ENGINE_AHEAD_WINDOWS - 1; i > 0; i--)
        need->worst_ns[i] = need->worst_ns[i - 1];
    need->worst_ns[0] = 0;
    need->batches = 0;
    need->began_ns = quota->env->now_ns;
}

/* An epoch begins with waiting until the queue has been full once. Such waits tell nothing. */
void quota_note_wait(struct quota *quota, struct job *job, uint32_t rank, uint32_t batch_index)
{
    if (batch_index <= job->quota.ahead_now)
        return;
    job->quota.needs[rank].windows = 0;
    set_need(quota, &job->quota.needs[rank], 0);
}
