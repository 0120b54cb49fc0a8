#include "server/governor/live.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/governor/governor.h"
#include "server/governor/kept.h"
#include "server/governor/pace.h"

#define DECIDE_NS (UINT64_C(250) * CLOCK_NS_PER_MS)
#define TAU_S 0.010

struct job {
    struct governor_pace *paces; /* indexed by rank; NULL: the place is free */
    uint32_t world_size;
};

struct governor_live {
    struct governor *governor;
    struct reads *reads;
    uint32_t n_workers, n_reads;
    const struct governor_decision *decision; /* NULL before the first */
    uint64_t decided_ns;
    uint32_t n_jobs;
    struct job jobs[JOBS_MAX];
    char *rates;                                 /* the file; NULL: rates are not kept */
    struct kept kept;                            /* rates of earlier runs, and of pipelines that are no longer used */
    uint64_t fingerprints[ENGINE_PIPELINES_MAX]; /* indexed by the pipeline's number; 0: no pipeline has it */
    double guess_rate;                           /* samples a second, before the first decision */
};

int governor_live_create(uint32_t workers, uint32_t reads, struct governor_live **out, struct error *err)
{
    struct governor *governor;
    struct governor_limits limits = {.workers = workers, .reads = reads, .tau_s = TAU_S, .share = READS_SHARE};
    if (governor_create(&limits, &governor))
        return error_set(err, LARDER_EINVAL, "threads.workers may be at most %d, and with threads.loaders %d",
                         GOVERNOR_THREADS_MAX, GOVERNOR_READS_MAX);
    struct governor_live *live = xcalloc(1, sizeof *live);
    live->governor = governor;
    live->reads = reads_create(&(struct reads_config){.governor = governor, .most = reads});
    kept_create(&live->kept);
    live->n_workers = workers;
    live->n_reads = reads;
    *out = live;
    return 0;
}

void governor_live_attach(struct governor_live *live, struct workers *workers)
{
    reads_attach(live->reads, workers);
}

void governor_live_keep(struct governor_live *live, const char *path)
{
    live->rates = xstrdup(path);
    kept_load(&live->kept, path);
}

void governor_live_pipeline(struct governor_live *live, uint32_t pipeline, uint64_t fingerprint)
{
    CHECK(pipeline < ENGINE_PIPELINES_MAX);
    live->fingerprints[pipeline] = fingerprint;
    live->guess_rate = governor_guess(live->governor, pipeline, fingerprint, &live->kept);
}

/* pipeline_gone keeps what was learned of a pipeline, and forgets its number. */
static void pipeline_gone(struct governor_live *live, uint32_t pipeline)
{
    if (live->fingerprints[pipeline])
        governor_learned(live->governor, pipeline, live->fingerprints[pipeline], &live->kept);
    live->fingerprints[pipeline] = 0;
    governor_pipeline_gone(live->governor, pipeline);
}

void governor_live_destroy(struct governor_live *live)
{
    if (!live)
        return;
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        free(live->jobs[i].paces);
    for (uint32_t pipeline = 0; pipeline < ENGINE_PIPELINES_MAX; pipeline++)
        pipeline_gone(live, pipeline);
    if (live->rates)
        kept_save(&live->kept, live->rates);
    kept_free(&live->kept);
    free(live->rates);
    reads_destroy(live->reads);
    governor_destroy(live->governor);
    free(live);
}

void governor_live_job_begin(struct governor_live *live, const struct reads_job *desc)
{
    reads_job_begin(live->reads, desc);
    live->jobs[desc->job] = (struct job){xcalloc(desc->world_size, sizeof(struct governor_pace)), desc->world_size};
    if (live->n_jobs++ == 0)
        live->decided_ns = clock_now_ns(); /* the first decision waits for measurements */
}

uint64_t governor_live_queue(const struct governor_live *live, uint32_t job, uint32_t rank)
{
    return reads_name(live->reads, job, rank);
}

void governor_live_load(struct governor_live *live, const struct worker_load *task)
{
    reads_put(live->reads, task);
}

/* ── what it watches ── */

static struct governor_pace *pace_of(struct governor_live *live, uint32_t job, uint32_t rank)
{
    CHECK(job < JOBS_MAX && live->jobs[job].paces && rank < live->jobs[job].world_size);
    return &live->jobs[job].paces[rank];
}

/* client_acted notes that the rank's client asked for `batches` batches. 0: it gave one back, or began to wait. */
static void client_acted(struct governor_live *live, uint32_t job, uint32_t rank, uint32_t batches)
{
    double train_s = governor_pace_acted(pace_of(live, job, rank), clock_now_ns(), batches);
    if (train_s > 0)
        governor_trained(live->governor, reads_queue(live->reads, job, rank), train_s);
}

void governor_live_on_event(void *ctx, const struct engine_event *event)
{
    struct governor_live *live = ctx;
    switch (event->type) {
    case ENGINE_NEXT: client_acted(live, event->next.job, event->rank, event->next.credits); break;
    case ENGINE_RELEASE: client_acted(live, event->release.job, event->rank, 0); break;
    case ENGINE_WEIGHT: reads_job_weight(live->reads, event->weight.job, event->weight.weight); break;
    case ENGINE_PIPELINE_GONE: pipeline_gone(live, event->pipeline_gone.pipeline); break;
    default: /* the governor measures nothing of the other events */ break;
    }
}

static void job_end(struct governor_live *live, uint32_t job)
{
    reads_job_end(live->reads, job);
    free(live->jobs[job].paces);
    live->jobs[job] = (struct job){.paces = NULL};
    live->n_jobs--;
}

void governor_live_on_action(void *ctx, const struct engine_action *action)
{
    struct governor_live *live = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        if (action->job_added.attached) /* another client is the rank now */
            *pace_of(live, action->job, action->rank) = (struct governor_pace){.acted_ns = 0};
        break;
    case ENGINE_DELIVER:
        governor_pace_came(pace_of(live, action->job, action->rank), clock_now_ns());
        reads_delivered(live->reads, action->job, action->rank);
        break;
    case ENGINE_JOB_ENDED: job_end(live, action->job); break;
    default: break;
    }
}

void governor_live_on_read(void *ctx, const struct worker_read *read)
{
    struct governor_live *live = ctx;
    reads_ended(live->reads, read);
}

void governor_live_on_prepared(void *ctx, const struct worker_cost *cost)
{
    struct governor_live *live = ctx;
    struct governor_preparation preparation = {.pipeline = cost->pipeline,
                                               .busy = cost->busy,
                                               .encoded_bytes = cost->encoded_bytes,
                                               .seconds = (double)cost->took_ns / (double)CLOCK_NS_PER_S};
    if (cost->took_ns)
        governor_prepared(live->governor, reads_named(live->reads, cost->queue), &preparation);
}

/* ── decisions ── */

int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns)
{
    if (live->n_jobs == 0)
        return -1;
    uint64_t due_ns = live->decided_ns + DECIDE_NS;
    return due_ns > now_ns ? (int64_t)((due_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
}

bool governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns)
{
    if (live->n_jobs == 0 || now_ns < live->decided_ns + DECIDE_NS)
        return false;
    struct governor_backlog backlogs[GOVERNOR_QUEUES_MAX];
    struct engine_queue_status ranks[ENGINE_RANKS_MAX];
    size_t n = 0;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (!live->jobs[job].paces)
            continue;
        CHECK(engine_queue_statuses(engine, job, now_ns, ranks, ENGINE_RANKS_MAX) == live->jobs[job].world_size);
        n += reads_backlogs(live->reads, job, ranks, &backlogs[n]);
    }
    live->decision = governor_decide(live->governor, backlogs, n);
    live->decided_ns = now_ns;
    reads_decided(live->reads, live->decision);
    return true;
}

size_t governor_live_paces(const struct governor_live *live, uint32_t *cursor, struct engine_event *out, size_t max)
{
    size_t n = 0;
    while (live->decision && *cursor < JOBS_MAX * ENGINE_RANKS_MAX && n < max) {
        uint32_t number = *cursor / ENGINE_RANKS_MAX, rank = *cursor % ENGINE_RANKS_MAX;
        const struct job *job = &live->jobs[number];
        if (!job->paces || job->world_size == 1 || rank == job->world_size) {
            *cursor = (number + 1) * ENGINE_RANKS_MAX;
            continue;
        }
        ++*cursor;
        double train_s = live->decision->views[reads_queue(live->reads, number, rank)].train_s;
        out[n++] = (struct engine_event){
            .type = ENGINE_PACE, .rank = rank, .pace = {number, (uint64_t)(train_s * (double)CLOCK_NS_PER_S)}};
    }
    return n;
}

/* ── status ── */

static void queue_status(const struct governor_live *live, uint32_t queue, struct status_queue *out)
{
    reads_status(live->reads, queue, out);
    if (!live->decision)
        return;
    const struct governor_view *view = &live->decision->views[queue];
    out->loaders = live->decision->queue_loaders[queue];
    out->ahead = live->decision->ahead[queue];
    out->load_s = view->load_s;
    out->prepare_s = view->prepare_s;
    out->train_s = view->train_s;
    out->late_s = view->late_s;
}

static void job_status(const struct governor_live *live, struct status_job *job)
{
    uint32_t number = job->engine.job;
    job->loaders = job->ahead = 0;
    for (uint32_t rank = 0; rank < job->n_queues; rank++) {
        struct status_queue *queue = &job->governed[rank];
        queue_status(live, reads_queue(live->reads, number, rank), queue);
        if (rank < reads_queues(live->reads, number)) { /* further ranks share these queues */
            job->loaders += queue->loaders;
            job->ahead = queue->ahead > job->ahead ? queue->ahead : job->ahead;
        }
    }
}

void governor_live_status(const struct governor_live *live, struct daemon_status *status)
{
    status->governor = (struct status_governor){
        .preparers = live->n_workers, .loaders = live->n_reads, .prepare_rate = live->guess_rate};
    if (live->decision)
        status->governor = (struct status_governor){.preparers = live->decision->preparers,
                                                    .loaders = live->decision->loaders,
                                                    .prepare_rate = live->decision->prepare_rate,
                                                    .load_rate = live->decision->load_rate,
                                                    .moves = live->decision->moves};
    for (size_t i = 0; i < status->n_jobs; i++)
        job_status(live, &status->jobs[i]);
}
