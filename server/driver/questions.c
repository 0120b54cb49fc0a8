/* questions.c: other threads ask the engine's thread for the status or for a change, and wait for the answer. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/driver/driver_priv.h"
#include "server/sharing/sharing.h"

/* The samples that a job has left. */
struct driver_left {
    char name[ENGINE_NAME_MAX];
    struct sampler_left set;
};

/* A question to the engine's thread. The thread that asks owns it, and keeps it until it is answered. */
struct driver_question {
    struct daemon_status *status; /* STATUS */
    const char *job;              /* CANCEL, WEIGHT: the job's name */
    double weight;                /* WEIGHT */
    bool ends;                    /* LEAVE: the daemon is to end when it has left */
    uint32_t place;               /* LEFT: the job's number */
    struct driver_left *left;     /* LEFT */
    int code;
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool done;
};

static void answer(struct driver_question *question, int code)
{
    pthread_mutex_lock(&question->mutex);
    question->code = code;
    question->done = true;
    pthread_cond_signal(&question->answered);
    pthread_mutex_unlock(&question->mutex);
}

/* ── answers ── */

static struct status_store store_of(const struct dataset *dataset)
{
    struct packing packing;
    dataset_packing(dataset, &packing);
    return (struct status_store){.packed = packing.packed,
                                 .restart_rows = packing.restart_rows,
                                 .max_side = packing.max_side,
                                 .quality = packing.max_side ? packing.quality : 0,
                                 .samples_shrunk = packing.samples_shrunk,
                                 .samples_undecoded = packing.samples_undecoded,
                                 .samples_restart_rows = packing.samples_restart_rows,
                                 .planes = packing.planes,
                                 .samples_planes = packing.samples_planes};
}

static struct status_job job_of(const struct driver *driver, const struct engine_job_status *row)
{
    const struct driver_job *job = &driver->tables.jobs[row->job];
    const struct registration *reg = job->reg;
    struct status_job out = {.engine = *row,
                             .queues = xcalloc(reg->asked.world_size, sizeof *out.queues),
                             .governed = xcalloc(reg->asked.world_size, sizeof *out.governed),
                             .clients = xcalloc(reg->asked.world_size, sizeof *out.clients),
                             .n_queues = reg->asked.world_size,
                             .first_rank = reg->asked.first_rank,
                             .mix = reg->asked.at_home ? (double)reg->asked.mix / DEAL_MIX_ALL : -1,
                             .waits = job->waits,
                             .intervals = job->intervals,
                             .pid = job->ranks[reg->asked.rank].pid,
                             .client = xstrdup(job->ranks[reg->asked.rank].client_name),
                             .dataset = xstrdup(dataset_text(reg->found.dataset)),
                             .dataset_samples = dataset_count(reg->found.dataset),
                             .store = store_of(reg->found.dataset),
                             .pipeline = pipeline_shown(reg->found.pipeline)};
    for (uint32_t rank = 0; rank < reg->asked.world_size; rank++)
        out.clients[rank].pid = job->ranks[rank].pid;
    out.n_givers = gives_to(driver->gives, row->job, &out.givers);
    engine_queue_statuses(driver->engine, row->job, clock_now_ns(), out.queues, reg->asked.world_size);
    return out;
}

/* is_guest tells whether the job at this place is another node's. */
static bool is_guest(const struct driver *driver, uint32_t place)
{
    const struct registration *reg = driver->tables.jobs[place].reg;
    return reg && reg->guest.number;
}

static void on_status(struct driver *driver, struct driver_question *question)
{
    struct daemon_status *status = question->status;
    status->draining = driver->drain.asked;
    engine_totals(driver->engine, &status->totals);
    status->totals.counts.reads = driver->reads; /* reads done, where the engine counts reads asked for */
    status->loads = driver->loads;
    status->preparations = driver->preparations;
    status->steps = driver->steps;
    status->history_bytes += gives_bytes(driver->gives);
    size_t n_rows = engine_job_statuses(driver->engine, clock_now_ns(), driver->rows, JOBS_MAX);
    status->jobs = xcalloc(n_rows, sizeof *status->jobs);
    for (size_t i = 0; i < n_rows; i++) {
        if (!is_guest(driver, driver->rows[i].job))
            status->jobs[status->n_jobs++] = job_of(driver, &driver->rows[i]);
    }
    status->cluster = sharing_status(driver->sharing);
    governor_live_status(driver->governor, status);
    answer(question, 0);
}

/* on_left: in `larder tree` are this node's own jobs alone. */
static void on_left(struct driver *driver, struct driver_question *question)
{
    struct driver_left *left = question->left;
    answer(question, is_guest(driver, question->place)
                         ? LARDER_ENOENT
                         : engine_copy_left(driver->engine, question->place, left->name, &left->set));
}

/* find_own returns the place of this node's job of that name; JOBS_MAX: there is none. */
static uint32_t find_own(const struct driver *driver, const char *name)
{
    uint32_t place = tables_find_job(&driver->tables, name);
    return place < JOBS_MAX && is_guest(driver, place) ? JOBS_MAX : place;
}

static void on_cancel(struct driver *driver, struct driver_question *question)
{
    uint32_t place = find_own(driver, question->job);
    struct driver_job *job = place < JOBS_MAX ? &driver->tables.jobs[place] : NULL;
    if (job && job->reg->guest.number)
        job = NULL; /* it is another node's */
    if (job && !job->cancelled) {
        struct engine_event cancel = {.type = ENGINE_JOB_CANCEL, .job_cancel = {.job = place}};
        struct engine_event gone = {.type = ENGINE_JOB_GONE, .job_gone = {.job = place}};
        log_info_limited("msg=\"job cancelled\" job=\"%s\"", job->reg->name);
        job->cancelled = true;
        /* JOB_ERROR tells the job's clients. They keep what they hold until they leave. A job that has no client, and
         * only waits for ranks, ends at once. */
        driver_step(driver, job->attached ? &cancel : &gone, 1);
    }
    answer(question, job ? 0 : LARDER_ENOENT);
}

static void on_halt(struct driver *driver, struct driver_question *question)
{
    struct engine_event events[] = {{.type = ENGINE_DRAIN}, {.type = ENGINE_HALT}};
    driver->drain.asked = driver->halted = true;
    driver_step(driver, events, 2);
    answer(question, 0);
}

static void on_weight(struct driver *driver, struct driver_question *question)
{
    uint32_t place = find_own(driver, question->job);
    if (place < JOBS_MAX) {
        struct driver_job *job = &driver->tables.jobs[place];
        struct engine_event event = {.type = ENGINE_WEIGHT, .weight = {place, question->weight}};
        job->weight = question->weight;
        log_info_limited("msg=\"job has another weight\" job=\"%s\" weight=%g", job->reg->name, question->weight);
        driver_step(driver, &event, 1); /* the step may end the job, if its time to wait for a rank is over */
    }
    answer(question, place < JOBS_MAX ? 0 : LARDER_ENOENT);
}

static void on_leave(struct driver *driver, struct driver_question *question)
{
    driver->leave.asked = driver->leave.asked || question->ends;
    answer(question, sharing_leave(driver->sharing));
}

static void on_drain(struct driver *driver, struct driver_question *question)
{
    struct engine_event event = {.type = ENGINE_DRAIN};
    if (!driver->drain.asked)
        log_info_limited("msg=\"taking no new jobs, stopping after the last\" jobs=%zu",
                         tables_count_jobs(&driver->tables, false));
    driver->drain.asked = true;
    driver_step(driver, &event, 1);
    sharing_leave(driver->sharing);
    answer(question, 0);
}

void driver_answer(struct driver *driver, enum inbox_type type, struct driver_question *question)
{
    switch (type) {
    case INBOX_STATUS: on_status(driver, question); break;
    case INBOX_LEFT: on_left(driver, question); break;
    case INBOX_CANCEL: on_cancel(driver, question); break;
    case INBOX_WEIGHT: on_weight(driver, question); break;
    case INBOX_LEAVE: on_leave(driver, question); break;
    case INBOX_DRAIN: on_drain(driver, question); break;
    case INBOX_HALT: on_halt(driver, question); break;
    case INBOX_ALONE:
        sharing_alone(driver->sharing);
        answer(question, 0);
        break;
    default: CHECK(type == INBOX_SETTLE); answer(question, 0);
    }
}

/* ── in the thread that asks ── */

static int ask(struct driver *driver, enum inbox_type type, struct driver_question question)
{
    pthread_mutex_init(&question.mutex, NULL);
    pthread_cond_init(&question.answered, NULL);
    struct inbox_message message = {.type = type, .question = &question};
    CHECK(mailbox_push(driver->config.inbox, &message) == 0);
    pthread_mutex_lock(&question.mutex);
    while (!question.done)
        pthread_cond_wait(&question.answered, &question.mutex);
    pthread_mutex_unlock(&question.mutex);
    pthread_cond_destroy(&question.answered);
    pthread_mutex_destroy(&question.mutex);
    return question.code;
}

void driver_status(struct driver *driver, struct daemon_status *status)
{
    ask(driver, INBOX_STATUS, (struct driver_question){.status = status});
}

static int ascending(const void *a, const void *b)
{
    const struct driver_left *left = a, *right = b;
    return (left->set.count > right->set.count) - (left->set.count < right->set.count);
}

/* The engine's thread copies one job's set at a time, so that nobody waits for all of them; meanwhile samples go on
 * being drawn. */
void driver_tree(struct driver *driver, struct status_tree *tree)
{
    struct driver_left *lefts = xcalloc(JOBS_MAX, sizeof *lefts);
    struct sampler_left sets[JOBS_MAX];
    uint64_t shared[JOBS_MAX], own[JOBS_MAX];
    size_t n = 0;
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        n += ask(driver, INBOX_LEFT, (struct driver_question){.place = place, .left = &lefts[n]}) == 0;
    qsort(lefts, n, sizeof *lefts, ascending);
    for (size_t i = 0; i < n; i++)
        sets[i] = lefts[i].set;
    *tree = (struct status_tree){.count = sampler_tree(sets, n, shared, own) == 0 ? n : 0};
    for (size_t i = 0; i < n; i++) {
        struct status_vertex *vertex = &tree->jobs[i];
        *vertex = (struct status_vertex){.left = lefts[i].set.count, .shared = shared[i], .own = own[i]};
        memcpy(vertex->name, lefts[i].name, sizeof vertex->name);
        sampler_left_clear(&lefts[i].set);
    }
    free(lefts);
}

void driver_halt(struct driver *driver)
{
    if (driver->running)
        ask(driver, INBOX_HALT, (struct driver_question){.job = NULL});
}

void driver_alone(struct driver *driver)
{
    if (driver->running && driver->sharing)
        ask(driver, INBOX_ALONE, (struct driver_question){.job = NULL});
}

void driver_settle(struct driver *driver)
{
    if (driver->running)
        ask(driver, INBOX_SETTLE, (struct driver_question){.job = NULL});
}

static int unknown_job(int code, const char *name, struct error *err)
{
    return error_set(err, code,
                     "there is no job \"%s\": `larder jobs` lists them, and `larder history` those that have ended",
                     name);
}

int driver_cancel(struct driver *driver, const char *name, struct error *err)
{
    int code = ask(driver, INBOX_CANCEL, (struct driver_question){.job = name});
    return code ? unknown_job(code, name, err) : 0;
}

int driver_leave(struct driver *driver, struct error *err)
{
    int code = ask(driver, INBOX_LEAVE, (struct driver_question){.job = NULL});
    return code ? error_set(err, code, "this daemon is in no cluster") : 0;
}

void driver_leave_then(struct driver *driver)
{
    ask(driver, INBOX_LEAVE, (struct driver_question){.ends = true});
}

void driver_drain(struct driver *driver)
{
    ask(driver, INBOX_DRAIN, (struct driver_question){.job = NULL});
}

bool driver_takes_jobs(const struct driver *driver)
{
    return !atomic_load(&driver->drain.asked);
}

int driver_set_weight(struct driver *driver, const char *name, double weight, struct error *err)
{
    int code = ask(driver, INBOX_WEIGHT, (struct driver_question){.job = name, .weight = weight});
    return code ? unknown_job(code, name, err) : 0;
}
