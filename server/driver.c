#include "server/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/driver_priv.h"
#include "server/thread.h"

enum { MESSAGES_AT_ONCE = 64 };

/* ── jobs and pipelines ── */

static uint64_t text_hash(const char *text) /* FNV-1a: names a pipeline in random keys */
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The number of a pipeline that means the same, or a new one; ENGINE_PIPELINES_MAX when all are in use. Takes no reference
 * but the table's own. */
static uint32_t pipeline_number(struct driver *driver, struct pipeline *pipeline)
{
    uint32_t unused = ENGINE_PIPELINES_MAX, idle = ENGINE_PIPELINES_MAX;
    for (uint32_t number = 0; number < ENGINE_PIPELINES_MAX; number++) {
        struct driver_pipeline *row = &driver->pipelines[number];
        if (row->pipeline && strcmp(pipeline_canonical(row->pipeline), pipeline_canonical(pipeline)) == 0)
            return number;
        if (!row->pipeline && unused == ENGINE_PIPELINES_MAX)
            unused = number;
        if (row->pipeline && row->jobs == 0)
            idle = number;
    }
    uint32_t number = unused;
    if (number == ENGINE_PIPELINES_MAX && idle != ENGINE_PIPELINES_MAX) { /* one that no job uses gives its number up */
        struct engine_event event = {.type = ENGINE_PIPELINE_GONE, .pipeline_gone = {.pipeline = idle}};
        driver_step(driver, &event);
        pipeline_unref(&driver->pipelines[idle].pipeline);
        number = idle;
    }
    if (number != ENGINE_PIPELINES_MAX) {
        driver->pipelines[number].pipeline = pipeline_ref(pipeline);
        driver->pipelines[number].seed = text_hash(pipeline_canonical(pipeline));
    }
    return number;
}

struct driver_job *driver_find_job(struct driver *driver, uint64_t client)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        struct driver_job *job = &driver->jobs[place];
        if (job->reg && job->reg->client == client)
            return job;
    }
    return NULL;
}

static size_t count_jobs(const struct driver *driver)
{
    size_t count = 0;
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        count += driver->jobs[place].reg != NULL;
    return count;
}

/* Clients whose registration is with the registrar; `gone` ones left meanwhile. */
static struct driver_coming *find_coming(struct driver *driver, uint64_t client)
{
    for (size_t i = 0; i < driver->n_coming; i++) {
        if (driver->coming[i].client == client)
            return &driver->coming[i];
    }
    return NULL;
}

static void on_coming(struct driver *driver, uint64_t client)
{
    if (driver->n_coming == driver->coming_cap) { /* bounded by the session's limit on connections */
        driver->coming_cap = driver->coming_cap ? driver->coming_cap * 2 : 16;
        driver->coming = xrealloc(driver->coming, driver->coming_cap, sizeof *driver->coming);
    }
    driver->coming[driver->n_coming++] = (struct driver_coming){.client = client};
}

static void refuse(struct driver *driver, const struct registration *reg, int code, const char *text)
{
    log_warn("msg=\"job refused\" job=\"%s\" dataset=\"%s\" code=%s err=\"%s\"", reg->name, reg->source, larder_err_name(code), text);
    session_send_error(driver->session, reg->client, reg->seq, code, true, text);
}

static void name_job(struct driver *driver, struct registration *reg)
{
    if (reg->name[0])
        return;
    free(reg->name);
    char name[32];
    snprintf(name, sizeof name, "job-%llu", (unsigned long long)++driver->named);
    reg->name = xstrdup(name);
}

static void on_registered(struct driver *driver, struct registration *reg)
{
    struct driver_coming *coming = find_coming(driver, reg->client);
    CHECK(coming);
    bool gone = coming->gone;
    *coming = driver->coming[--driver->n_coming];
    name_job(driver, reg);
    if (gone) {
        log_info("msg=\"client left before its job was ready\" job=\"%s\" dataset=\"%s\"", reg->name, reg->source);
    } else if (reg->code) {
        refuse(driver, reg, reg->code, reg->err.text);
    } else if (count_jobs(driver) >= driver->config.jobs_max) {
        char text[160];
        snprintf(text, sizeof text, "%u jobs are running already, which is limits.jobs: stop one, or raise the limit",
                 driver->config.jobs_max);
        refuse(driver, reg, LARDER_ELIMIT, text);
    } else {
        uint32_t number = pipeline_number(driver, reg->pipeline);
        if (number == ENGINE_PIPELINES_MAX) {
            refuse(driver, reg, LARDER_ELIMIT, "too many different pipelines are in use: stop a job first");
        } else {
            struct sample_shape shape = pipeline_shape(reg->pipeline);
            struct engine_job_desc desc = {.client = reg->client,
                                           .name = reg->name,
                                           .dataset = reg->dataset,
                                           .pipeline = number,
                                           .slot_bytes = shape.bytes,
                                           .batch_size = reg->batch_size,
                                           .prefetch = reg->prefetch,
                                           .epochs = reg->epochs,
                                           .drop_last = reg->flags & WIRE_DROP_LAST,
                                           .shuffle = reg->shuffle,
                                           .bad_policy = reg->bad_policy,
                                           .seed = reg->seed,
                                           .view = reg->view,
                                           .order = reg->order};
            struct engine_event event = {.type = ENGINE_JOB_ADD, .job_add = &desc};
            driver->adding = reg;
            driver_step(driver, &event); /* takes reg over when the job is added */
            reg = driver->adding;
            driver->adding = NULL;
        }
    }
    registration_destroy(reg);
}

/* ── messages ── */

static void on_gone(struct driver *driver, uint64_t client)
{
    struct driver_coming *coming = find_coming(driver, client);
    if (coming)
        coming->gone = true;
    struct driver_job *job = driver_find_job(driver, client);
    if (job) {
        struct engine_event event = {.type = ENGINE_JOB_GONE, .job_gone = {.job = (uint32_t)(job - driver->jobs)}};
        driver_step(driver, &event);
    }
}

static void on_classes(struct driver *driver, uint64_t client, uint32_t seq, uint32_t first)
{
    struct driver_job *job = driver_find_job(driver, client);
    if (!job)
        return;
    const struct registration *reg = job->reg;
    uint32_t total = reg->classes ? reg->n_classes : dataset_classes(reg->dataset);
    if (first > total) {
        session_send_error(driver->session, client, seq, LARDER_EINVAL, false, "there are not that many classes");
        return;
    }
    struct wire_message message = {.type = WIRE_CLASSES, .seq = seq, .classes = {.first = first, .total = total}};
    uint32_t used = 0;
    for (uint32_t label = first; label < total; label++) {
        const char *name = dataset_class(reg->dataset, reg->classes ? reg->classes[label] : label);
        if (wire_class_put(driver->names, sizeof driver->names, &used, name, strlen(name)))
            break;
        message.classes.count++;
    }
    message.classes.names = (struct wire_text){driver->names, used};
    session_send(driver->session, client, &message);
}

/* A question that another thread waits with. */
struct driver_question {
    struct daemon_status *status; /* STATUS */
    const char *cancel;           /* CANCEL: the job's name */
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

static void on_status(struct driver *driver, struct driver_question *question)
{
    struct daemon_status *status = question->status;
    struct engine_job_status *rows = xcalloc(JOBS_MAX, sizeof *rows);
    engine_totals(driver->engine, &status->totals);
    status->n_jobs = engine_job_statuses(driver->engine, clock_now_ns(), rows, JOBS_MAX);
    status->jobs = xcalloc(status->n_jobs, sizeof *status->jobs);
    status->draining = driver->draining;
    for (size_t i = 0; i < status->n_jobs; i++) {
        const struct registration *reg = driver->jobs[rows[i].job].reg;
        status->jobs[i] = (struct status_job){.engine = rows[i],
                                              .pid = reg->pid,
                                              .client = xstrdup(reg->client_name),
                                              .dataset = xstrdup(dataset_path(reg->dataset)),
                                              .pipeline = xstrdup(pipeline_canonical(reg->pipeline))};
    }
    free(rows);
    answer(question, 0);
}

static void on_cancel(struct driver *driver, struct driver_question *question)
{
    const struct registration *reg = NULL;
    for (uint32_t place = 0; place < JOBS_MAX && !reg; place++) {
        if (driver->jobs[place].reg && strcmp(driver->jobs[place].reg->name, question->cancel) == 0)
            reg = driver->jobs[place].reg;
    }
    if (reg) {
        log_info("msg=\"job cancelled\" job=\"%s\"", reg->name);
        session_send_error(driver->session, reg->client, 0, LARDER_EGONE, true, "the job was cancelled with `larder cancel`");
    }
    answer(question, reg ? 0 : LARDER_ENOENT);
}

static void on_simple(struct driver *driver, const struct inbox_message *message)
{
    struct engine_event event = {.type = ENGINE_DRAIN};
    driver->draining |= message->type == INBOX_DRAIN;
    struct driver_job *job = NULL;
    if (message->type == INBOX_NEXT || message->type == INBOX_RELEASE) {
        job = driver_find_job(driver, message->type == INBOX_NEXT ? message->next.client : message->release.client);
        if (!job)
            return; /* refused, or on its way out */
    }
    uint32_t place = job ? (uint32_t)(job - driver->jobs) : 0;
    if (message->type == INBOX_NEXT) {
        event = (struct engine_event){.type = ENGINE_NEXT, .next = {place, message->next.epoch, message->next.credits}};
    } else if (message->type == INBOX_RELEASE) {
        event = (struct engine_event){.type = ENGINE_RELEASE, .release = {place, message->release.batch}};
    } else if (message->type == INBOX_LOADED) {
        event.type = ENGINE_LOADED;
        event.loaded.id = message->loaded.id;
        event.loaded.encoded = message->loaded.encoded;
        event.loaded.bytes = message->loaded.bytes;
        event.loaded.reason = message->loaded.reason;
    } else if (message->type == INBOX_PREPARED) {
        event = (struct engine_event){.type = ENGINE_PREPARED, .prepared = {message->prepared.task, message->prepared.reason}};
    }
    driver_step(driver, &event);
}

static bool take(struct driver *driver, const struct inbox_message *message)
{
    switch (message->type) {
    case INBOX_COMING:
        on_coming(driver, message->client);
        break;
    case INBOX_REGISTERED:
        on_registered(driver, message->registration);
        break;
    case INBOX_GONE:
        on_gone(driver, message->client);
        break;
    case INBOX_CLASSES:
        on_classes(driver, message->classes.client, message->classes.seq, message->classes.first);
        break;
    case INBOX_STATUS:
        on_status(driver, message->question);
        break;
    case INBOX_CANCEL:
        on_cancel(driver, message->question);
        break;
    case INBOX_STOP:
        return false;
    case INBOX_NEXT:
    case INBOX_RELEASE:
    case INBOX_LOADED:
    case INBOX_PREPARED:
    case INBOX_DRAIN:
        on_simple(driver, message);
        break;
    }
    return true;
}

static void *run(void *arg)
{
    struct driver *driver = arg;
    struct inbox_message messages[MESSAGES_AT_ONCE];
    size_t count;
    bool going = true;
    while (going && queue_pop_many(driver->config.inbox, messages, MESSAGES_AT_ONCE, &count, -1) == 0) {
        for (size_t i = 0; i < count; i++)
            going = take(driver, &messages[i]) && going;
    }
    return NULL;
}

/* ── life ── */

int driver_create(const struct driver_config *config, struct driver **out, struct error *err)
{
    struct driver *driver = xcalloc(1, sizeof *driver);
    driver->config = *config;
    int code = engine_create(&config->engine, &driver->engine, err);
    if (code) {
        free(driver);
        return code;
    }
    *out = driver;
    return 0;
}

int driver_start(struct driver *driver, struct session *session, struct workers *workers, struct error *err)
{
    driver->session = session;
    driver->workers = workers;
    if (thread_start(&driver->thread, "engine", run, driver))
        return error_set(err, LARDER_ELIMIT, "the engine's thread could not be started: check the limit on threads (ulimit -u)");
    driver->running = true;
    return 0;
}

void driver_stop(struct driver *driver)
{
    if (!driver->running)
        return;
    struct inbox_message message = {.type = INBOX_STOP};
    CHECK(queue_push(driver->config.inbox, &message) == 0);
    pthread_join(driver->thread, NULL);
    driver->running = false;
}

void driver_destroy(struct driver *driver)
{
    if (!driver)
        return;
    driver_stop(driver);
    engine_destroy(driver->engine);
    for (uint32_t number = 0; number < ENGINE_PIPELINES_MAX; number++)
        pipeline_unref(&driver->pipelines[number].pipeline);
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        registration_destroy(driver->jobs[place].reg);
    free(driver->coming);
    free(driver->entries);
    free(driver);
}

/* ── questions from other threads ── */

static int ask(struct driver *driver, enum inbox_type type, struct daemon_status *status, const char *cancel)
{
    struct driver_question question = {
        .status = status, .cancel = cancel, .mutex = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};
    struct inbox_message message = {.type = type, .question = &question};
    CHECK(queue_push(driver->config.inbox, &message) == 0);
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
    ask(driver, INBOX_STATUS, status, NULL);
}

int driver_cancel(struct driver *driver, const char *name, struct error *err)
{
    int code = ask(driver, INBOX_CANCEL, NULL, name);
    return code ? error_set(err, code, "there is no job \"%s\": `larder status` lists them", name) : 0;
}
