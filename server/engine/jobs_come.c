/* jobs_come.c: jobs and their ranks come and go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/encoded.h"
#include "server/engine/engine_priv.h"
#include "server/engine/family.h"
#include "server/engine/job.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/residents.h"
#include "server/engine/resume.h"
#include "server/engine/sources.h"

/* ── coming ── */

/* check_job refuses a description that is not well formed, whose view is empty, or whose state is not right. */
static int check_job(struct outbox *outbox, const struct engine_job_desc *desc)
{
    if (!job_well_formed(desc))
        return jobs_refuse(outbox, desc, LARDER_EINVAL, "an argument is out of its range");
    if (idset_count(desc->sampled.view) == 0)
        return jobs_refuse(outbox, desc, LARDER_EINVAL, "its view of the dataset is empty");
    const char *flaw = desc->resume ? resume_flaw(desc) : NULL;
    if (flaw)
        return jobs_refuse(outbox, desc, LARDER_EINVAL, "the state that rank %u goes on from is not right: %s",
                           desc->part.first + desc->rank, flaw);
    return 0;
}

/* make_room_for_ids makes records of the view's samples. */
static int make_room_for_ids(struct engine *engine, const struct idset *view)
{
    sample_id last = 0;
    CHECK(idset_select(view, idset_count(view) - 1, &last));
    return samples_make_room(&engine->env.samples, last);
}

/* queues_begin makes the queues of the job's ranks. In a fixed order a rank's reserve may hold all of its share. */
static int queues_begin(struct job *job)
{
    uint64_t share = (job->shape.epoch_samples + job->terms.world_size - 1) / job->terms.world_size;
    bool reserves = job->terms.world_size > 1 && job->terms.shuffle != SHUFFLE_DEPENDENT;
    job->queues = xcalloc(job->terms.world_size, sizeof *job->queues);
    if (reserves && job->terms.part.world_size == 0)
        job->progress.first = xcalloc(job->terms.world_size, sizeof *job->progress.first);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        if (queue_begin(&job->queues[rank], rank, job->quota.held_max, reserves ? share : 0))
            return LARDER_ENOMEM;
    }
    return 0;
}

void jobs_free(struct job *job)
{
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++)
        queue_end(&job->queues[rank]);
    free(job->queues);
    free(job->progress.first);
    idset_destroy(job->terms.view);
    idset_destroy(job->progress.bad);
    idset_destroy(job->progress.away);
    idset_destroy(job->progress.support);
    idset_destroy(job->progress.here);
    bag_destroy(job->progress.whole);
    resume_destroy(job->resume);
    free(job->quota.needs);
    *job = (struct job){.state = JOB_FREE, .no = job->no};
}

/* job_make fills in the job and takes nothing but memory. The view becomes the job's, also when job_make fails. */
static int job_make(struct engine *engine, uint32_t no, const struct engine_job_desc *desc, struct idset *view)
{
    struct job *job = job_at(&engine->jobs, no);
    uint64_t slot_bytes = job_mean_slot(&engine->env.config, desc);
    *job = (struct job){.state = JOB_IDLE,
                        .no = no,
                        .terms.client = desc->client,
                        .terms.serial = engine->jobs.n_serial++,
                        .terms.dataset = desc->dataset,
                        .terms.view = view,
                        .terms.multiset = desc->sampled.multiset,
                        .terms.world_size = part_ranks(desc),
                        .terms.part = desc->part,
                        .terms.homes = desc->homes,
                        .terms.family = desc->family,
                        .kin = {no, no},
                        .terms.shuffle = desc->sampled.shuffle,
                        .terms.seed = desc->sampled.seed,
                        .terms.ordered = desc->ordered || desc->sampled.shuffle != SHUFFLE_DEPENDENT,
                        .terms.pipeline = desc->pipeline,
                        .terms.program = desc->program,
                        .terms.variant = desc->variant,
                        .progress.variant = desc->variant,
                        .progress.samples = part_epoch_samples(desc, part_draws(desc)),
                        .terms.slot_bytes = desc->slot_bytes,
                        .terms.raw = desc->raw,
                        .terms.sized = desc->raw || desc->sized,
                        .terms.needs_encoded = desc->needs_encoded || desc->raw,
                        .terms.repeatable = desc->repeatable,
                        .terms.batch_size = desc->batch_size,
                        .terms.prefetch = desc->prefetch,
                        .terms.hold = desc->hold,
                        .terms.epochs = desc->epochs,
                        .terms.drop_last = desc->drop_last,
                        .terms.bad_policy = desc->bad_policy,
                        .terms.bad_unlimited = desc->bad_unlimited,
                        .terms.own_labels = desc->own_labels,
                        .terms.redirected = engine->env.config.redirect_width > 0 &&
                                            desc->sampled.shuffle == SHUFFLE_DEPENDENT && desc->chunks.places,
                        .tallies.came_ns = engine->env.now_ns,
                        .shape.view_samples = idset_count(desc->sampled.view),
                        .shape.epoch_samples = part_epoch_samples(desc, part_draws(desc)),
                        .shape.part_samples = part_samples(desc, part_draws(desc)),
                        .shape.mean_bytes = job_mean_bytes(&engine->jobs, desc),
                        .shape.batch_slots = job_batch_slots(desc),
                        .shape.row_bytes = job_batch_slots(desc) * slot_bytes * part_ranks(desc),
                        .turns.weight = job_asked_weight(desc),
                        .terms.weight = job_asked_weight(desc),
                        .turns.effective_weight = job_asked_weight(desc),
                        .turns.lists = {{LINE_EMPTY, 0}, {LINE_EMPTY, 0}}};
    strcpy(job->terms.name, desc->name); /* job_well_formed has checked the length */
    quota_begin(&engine->quota, job);
    int code = queues_begin(job);
    if (!code)
        code = idset_create(&job->progress.bad);
    return code || !desc->resume ? code : resume_create(desc, &job->resume);
}

/* job_begin gives the job its source and its part of the arena. */
static void job_begin(struct engine *engine, uint32_t no)
{
    sources_join(&engine->sources, job_at(&engine->jobs, no));
    if (no >= engine->jobs.end)
        engine->jobs.end = no + 1;
    plan_divide_arena(&engine->plan);
    plan_zone_enter(&engine->plan, job_at(&engine->jobs, no));
    split_keep(&engine->split);
}

/* ── a new job ── */

/* smaller says what makes the job's batches smaller. */
static const char *smaller(const struct engine_job_desc *desc)
{
    return desc->sized ? "lower batch_size, say the most pixels of an image with ragged=PIXELS" : "lower batch_size";
}

/* refuse_too_large refuses a job whose least rows do not fit. A job whose least fits is not refused, whatever
 * look-ahead the others must give back for it. */
static bool refuse_too_large(struct engine *engine, const struct engine_job_desc *desc, uint64_t batch, uint64_t slot)
{
    uint64_t row_bytes = batch * slot * part_ranks(desc), promise, most, kept = quota_least_bytes(&engine->quota);
    quota_room(&engine->quota, row_bytes, &promise, &most);
    if (promise >= ENGINE_ROWS_MIN)
        return false;
    uint64_t needed = ENGINE_ROWS_MIN * row_bytes, cap = engine->env.config.job_quota_bytes;
    char need[160];
    snprintf(need, sizeof need, "it needs %llu bytes, two batches for each of %u ranks of %llu samples of %llu bytes",
             (unsigned long long)needed, part_ranks(desc), (unsigned long long)batch, (unsigned long long)slot);
    if (most < ENGINE_ROWS_MIN && cap && cap < engine->env.config.arena_bytes)
        jobs_refuse(&engine->outbox, desc, LARDER_EQUOTA,
                    "%s, and one job may have %llu: %s, or raise jobs.quota or memory.arena", need,
                    (unsigned long long)cap, smaller(desc));
    else
        jobs_refuse(&engine->outbox, desc, LARDER_EQUOTA,
                    "%s, and of the arena's %llu bytes the other jobs keep %llu even with their look-ahead given back: "
                    "%s, stop a job, or raise memory.arena to at least %llu",
                    need, (unsigned long long)engine->env.config.arena_bytes, (unsigned long long)kept, smaller(desc),
                    (unsigned long long)(kept + needed));
    return true;
}

/* samplers_leave takes the job out of the samplers. */
static void samplers_leave(struct engine *engine, uint32_t no, bool has_homes)
{
    sampler_remove_job(engine->env.sampler, no);
    if (has_homes)
        sampler_remove_job(engine->env.elsewhere, no);
}

/* samplers_join adds the job to the samplers. */
static int samplers_join(struct engine *engine, uint32_t no, const struct engine_job_desc *desc, struct error *err)
{
    struct sampler_job sampled = desc->sampled, elsewhere = {.shuffle = SHUFFLE_DEPENDENT,
                                                             .view = desc->sampled.view,
                                                             .multiset = desc->sampled.multiset};
    sampled.part = (struct sampler_part){desc->part.world_size, desc->part.first, part_ranks(desc)};
    int code = sampler_add_job(engine->env.sampler, no, &sampled, err);
    if (code || !desc->homes.elsewhere)
        return code;
    code = sampler_add_job(engine->env.elsewhere, no, &elsewhere, err);
    if (code)
        sampler_remove_job(engine->env.sampler, no);
    return code;
}

/* add_job adds a job for its first rank, or refuses. */
static void add_job(struct engine *engine, const struct engine_job_desc *desc)
{
    uint64_t slot = job_mean_slot(&engine->env.config, desc), batch = job_batch_slots(desc);
    if (slot > engine->env.config.arena_bytes || batch * slot > engine->env.config.arena_bytes) {
        jobs_refuse(
            &engine->outbox, desc, LARDER_EQUOTA,
            "a batch of %llu samples of %llu bytes is larger than the arena of %llu bytes: %s, or raise memory.arena",
            (unsigned long long)batch, (unsigned long long)slot, (unsigned long long)engine->env.config.arena_bytes,
            smaller(desc));
        return;
    }
    if (refuse_too_large(engine, desc, batch, slot))
        return;
    uint32_t no = job_free_place(&engine->jobs);
    struct error err;
    struct idset *view = NULL;
    int code = idset_copy(desc->sampled.view, &view);
    if (code)
        error_set(&err, code, "no memory for its view");
    else
        code = samplers_join(engine, no, desc, &err);
    if (code) {
        idset_destroy(view);
        jobs_refuse(&engine->outbox, desc, code, "%s", err.text);
        return;
    }
    code = job_make(engine, no, desc, view);
    if (!code)
        code = make_room_for_ids(engine, desc->sampled.view);
    if (!code)
        code = residents_place(&engine->residents, desc, job_at(&engine->jobs, no));
    if (code) {
        jobs_free(job_at(&engine->jobs, no));
        samplers_leave(engine, no, desc->homes.elsewhere);
        jobs_refuse(&engine->outbox, desc, code,
                    "no memory for what is kept of each of its %llu samples: free memory, or lower the budgets",
                    (unsigned long long)idset_count(desc->sampled.view));
        return;
    }
    job_begin(engine, no);
    family_join(&engine->jobs, job_at(&engine->jobs, no));
    residents_inherit(&engine->residents, job_at(&engine->jobs, no), desc);
    jobs_answer(engine, no, desc, false);
}

void jobs_on_add(struct engine *engine, const struct engine_job_desc *desc)
{
    if (check_job(&engine->outbox, desc))
        return;
    const struct job *known = job_find_name(&engine->jobs, desc->name);
    if (known && known->attached == 0 && desc->resume && !engine->draining) {
        jobs_end(engine, known->no); /* its ranks have begun again from a checkpoint */
        known = NULL;
    }
    if (known) {
        jobs_attach(engine, known->no, desc);
        return;
    }
    if (engine->draining)
        jobs_refuse(&engine->outbox, desc, LARDER_EGONE, "the daemon is stopping and takes no new jobs");
    else if (job_free_place(&engine->jobs) == JOBS_MAX)
        jobs_refuse(&engine->outbox, desc, LARDER_ELIMIT,
                    "%d jobs are running already, which is the limit: stop one first", JOBS_MAX);
    else
        add_job(engine, desc);
}

void jobs_on_weight(const struct jobs *jobs, uint32_t no, double weight)
{
    struct job *job = job_at(jobs, no);
    CHECK(weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX);
    if (job->state != JOB_FREE)
        job->turns.weight = weight;
}

/* ── going ── */

void jobs_on_cancel(struct engine *engine, uint32_t no)
{
    const struct job *job = job_at(&engine->jobs, no);
    if (job->state != JOB_FREE && job->state != JOB_FAILED)
        jobs_fail(engine, no, FAILURE_OTHER, LARDER_EGONE, "it was cancelled with `larder cancel`");
}

void jobs_end(struct engine *engine, uint32_t no)
{
    struct job *job = job_at(&engine->jobs, no);
    plan_zone_leave(&engine->plan, job);
    if (job->state == JOB_RUNNING) {
        job->state = JOB_IDLE;
        residents_turned(&engine->residents, no);
        residents_drop_remaining(&engine->residents, no);
    }
    residents_forget_job(&engine->residents, job);
    encoded_next_forget(&engine->encoded, no);
    samplers_leave(engine, no, job->terms.homes.elsewhere);
    struct engine_action *action = job_act(&engine->outbox, ENGINE_JOB_ENDED, job_at(&engine->jobs, no));
    action->job_ended.dataset = job->terms.dataset;
    action->job_ended.pipeline = job->terms.pipeline;
    quota_set_rows(&engine->quota, job, 0);
    sources_leave(&engine->sources, job);
    jobs_free(job);
    plan_divide_arena(&engine->plan);
    while (engine->jobs.end && job_at(&engine->jobs, engine->jobs.end - 1)->state == JOB_FREE)
        engine->jobs.end--;
    split_keep(&engine->split);
}

/* lingers tells whether a job of which no rank is there waits for some all the same; see engine.h. */
static bool lingers(const struct engine_config *config, const struct job *job)
{
    bool to_come = false, done = false, open = false, missed = false;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct job_queue *queue = &job->queues[rank];
        to_come = to_come || queue->client.presence == RANK_TO_COME;
        done = done || queue->epoch.done;
        open = open || !queue->epoch.done;
        /* A script that died begins anew, and would miss what it had. If it had a part, it may go on with its rest. */
        missed = missed || (queue->client.died && queue->epoch.done);
    }
    return config->rank_timeout_ns && job->terms.world_size > 1 && !job->terms.part.world_size &&
           job->state != JOB_FAILED && !missed && (to_come || (job->state == JOB_RUNNING && done && open));
}

void jobs_on_gone(struct engine *engine, uint32_t no, uint32_t rank, bool died)
{
    struct job *job = job_at(&engine->jobs, no);
    if (job->state == JOB_FREE)
        return;
    CHECK(rank < job->terms.world_size);
    struct job_queue *queue = &job->queues[rank];
    if (queue->client.presence != RANK_THERE) {
        if (job->attached == 0)
            jobs_end(engine, no);
        return;
    }
    plan_put_back(&engine->plan, no, queue);
    queue->client.presence = RANK_AWAY;
    queue->client.died = died;
    queue->next.asked = queue->epoch.returned = false;
    queue->epoch.credits = 0;
    job->empty_since_ns = engine->env.now_ns;
    if (--job->attached == 0 && !lingers(&engine->env.config, job))
        jobs_end(engine, no);
}
