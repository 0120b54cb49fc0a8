#include "server/driver/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "server/driver/driver_priv.h"
#include "server/driver/text_hash.h"
#include "server/workers/thread.h"

enum {
    MESSAGES_AT_ONCE = 64,
    TICK_MS = 250, /* while a job waits for ranks or room, or may: time must pass without messages too */
};

#define RETIRED_PAUSE_NS (100 * CLOCK_NS_PER_MS) /* while something is under way under some of the ids */

/* ── jobs and pipelines ── */

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
        driver_step(driver, &event, 1);
        governor_live_pipeline_gone(driver->governor, idle);
        pipeline_unref(&driver->pipelines[idle].pipeline);
        number = idle;
    }
    if (number != ENGINE_PIPELINES_MAX) {
        driver->pipelines[number].pipeline = pipeline_ref(pipeline);
        driver->pipelines[number].seed = text_hash(pipeline_canonical(pipeline));
    }
    return number;
}

struct driver_job *driver_find_job(struct driver *driver, uint64_t client, uint32_t *rank)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        struct driver_job *job = &driver->jobs[place];
        for (uint32_t i = 0; job->reg && i < job->reg->world_size; i++) {
            if (job->ranks[i].there && job->ranks[i].client == client) {
                *rank = i;
                return job;
            }
        }
    }
    return NULL;
}

struct driver_job *driver_find_name(struct driver *driver, const char *name)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (driver->jobs[place].reg && strcmp(driver->jobs[place].reg->name, name) == 0)
            return &driver->jobs[place];
    }
    return NULL;
}

bool driver_has_client(const struct driver_job *job)
{
    for (uint32_t rank = 0; rank < job->reg->world_size; rank++) {
        if (job->ranks[rank].there)
            return true;
    }
    return false;
}

/* Ranks that may be missing, or jobs that wait for room. */
static bool needs_ticks(const struct driver *driver)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (driver->jobs[place].reg && driver->jobs[place].reg->world_size > 1)
            return true;
    }
    return engine_waits_for_room(driver->engine);
}

/* Until the engine needs a tick for a source that does not answer; below 0: it does not. */
static int64_t until_wakes_ms(const struct driver *driver)
{
    uint64_t wakes_ns = engine_wakes_ns(driver->engine), now_ns = clock_now_ns();
    if (wakes_ns == UINT64_MAX)
        return -1;
    return wakes_ns > now_ns ? (int64_t)((wakes_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

size_t driver_count_jobs(const struct driver *driver)
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
    log_warn_limited("msg=\"job refused\" job=\"%s\" dataset=\"%s\" code=%s err=\"%s\"", reg->name, reg->source,
                     larder_err_name(code), text);
    session_send_error(driver->session, reg->client, reg->seq, code, true, text);
}

static void name_job(struct driver *driver, struct registration *reg)
{
    if (reg->name[0])
        return;
    char name[32];
    do {
        snprintf(name, sizeof name, "job-%llu", (unsigned long long)++driver->named);
    } while (driver_find_name(driver, name)); /* somebody chose it */
    free(reg->name);
    reg->name = xstrdup(name);
}

/* The number of a dataset's first chunk. */
static uint32_t chunk_base(struct driver *driver, const struct dataset *dataset)
{
    const struct dataset *in_use[JOBS_MAX + 1] = {dataset};
    size_t n = 1;
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        const struct registration *reg = driver->jobs[place].reg;
        size_t at = 0;
        while (reg && at < n && in_use[at] != reg->dataset)
            at++;
        if (reg && at == n)
            in_use[n++] = reg->dataset;
    }
    return chunk_numbers_base(&driver->chunks, driver->engine, dataset, in_use, n);
}

/* Whose augmentations the job may share: 0, everybody's. A strict job's depend on its seed, its dataset and the epoch alone.
 * Where nothing is drawn there is nothing to keep apart. */
static uint64_t variant_of(const struct registration *reg)
{
    uint64_t fingerprint[2];
    if (!pipeline_is_random(reg->pipeline))
        return 0;
    if (reg->shuffle == SHUFFLE_STRICT) {
        dataset_fingerprint(reg->dataset, fingerprint);
        return random_mix64(random_mix64(reg->seed + 1) ^ fingerprint[0] ^ random_mix64(fingerprint[1])) | 1;
    }
    return reg->flags & WIRE_PRIVATE_AUGMENT ? random_mix64(text_hash(reg->name) ^ random_mix64(reg->seed)) | 1 : 0;
}

/* What the engine cannot compare: ids are the same in another dataset with the same files, labels need not be. */
static const char *mismatch(const struct registration *first, const struct registration *reg)
{
    uint64_t a[2], b[2];
    dataset_fingerprint(first->dataset, a);
    dataset_fingerprint(reg->dataset, b);
    uint32_t differ = first->flags ^ reg->flags;
    return memcmp(a, b, sizeof a) != 0      ? "dataset"
           : differ & WIRE_RELABEL          ? "relabel"
           : differ & WIRE_PRIVATE_AUGMENT  ? "augment (C: private_augment)"
                                            : NULL;
}

/* Gives the job to the engine, which takes reg over when it accepts it. */
static void add_job(struct driver *driver, struct registration *reg, uint32_t pipeline)
{
    uint32_t base = chunk_base(driver, reg->dataset);
    for (uint32_t i = 0; i < reg->view.count; i++)
        reg->places[i].chunk += base;
    struct engine_job_desc desc = {.client = reg->client,
                                   .name = reg->name,
                                   .dataset = reg->dataset,
                                   .pipeline = pipeline,
                                   .slot_bytes = reg->slot_bytes,
                                   .by_size = pipeline_shape(reg->pipeline).bytes == 0,
                                   .batch_size = reg->batch_size,
                                   .prefetch = reg->prefetch,
                                   .hold = reg->flags & WIRE_HOLD ? reg->prefetch + 1 : 0,
                                   .epochs = reg->epochs,
                                   .drop_last = reg->flags & WIRE_DROP_LAST,
                                   .shuffle = reg->shuffle,
                                   .bad_policy = reg->bad_policy,
                                   .seed = reg->seed,
                                   .variant = variant_of(reg),
                                   .view = reg->view.ids,
                                   .order = reg->view.order,
                                   .places = reg->places,
                                   .chunk_base = base,
                                   .chunk_count = dataset_chunk_count(reg->dataset),
                                   .chunk_samples = dataset_chunk_size(reg->dataset),
                                   .rank = reg->rank,
                                   .world_size = reg->world_size,
                                   .weight = reg->weight,
                                   .ordered = reg->flags & WIRE_ORDERED};
    struct engine_event event = {.type = ENGINE_JOB_ADD, .job_add = &desc};
    driver->adding = reg;
    driver->adding_pipeline = pipeline;
    driver_step(driver, &event, 1);
    registration_destroy(driver->adding); /* NULL when the job was added */
    driver->adding = NULL;
}

static void on_registered(struct driver *driver, struct registration *reg)
{
    struct driver_coming *coming = find_coming(driver, reg->client);
    CHECK(coming);
    bool gone = coming->gone;
    *coming = driver->coming[--driver->n_coming];
    name_job(driver, reg);
    uint32_t pipeline = ENGINE_PIPELINES_MAX;
    const struct driver_job *known = reg->world_size > 1 ? driver_find_name(driver, reg->name) : NULL;
    const char *field = known && !reg->code ? mismatch(known->reg, reg) : NULL;
    char text[160];
    if (gone) {
        log_info_limited("msg=\"client left before its job was ready\" job=\"%s\" dataset=\"%s\"", reg->name,
                         reg->source);
    } else if (reg->code) {
        refuse(driver, reg, reg->code, reg->err.text);
    } else if (known && known->cancelled) {
        refuse(driver, reg, LARDER_EGONE, "the job was cancelled, and ends when its ranks have gone: start all of them again");
    } else if (field) {
        snprintf(text, sizeof text, "rank %u has another %s than the job's first rank: all ranks of a job give the same", reg->rank,
                 field);
        refuse(driver, reg, LARDER_EINVAL, text);
    } else if (!known && driver_count_jobs(driver) >= driver->config.jobs_max) {
        snprintf(text, sizeof text, "%u jobs are running already, which is limits.jobs: stop one, or raise the limit",
                 driver->config.jobs_max);
        refuse(driver, reg, LARDER_ELIMIT, text);
    } else if ((pipeline = pipeline_number(driver, reg->pipeline)) == ENGINE_PIPELINES_MAX) {
        refuse(driver, reg, LARDER_ELIMIT, "too many different pipelines are in use: stop a job first");
    } else {
        add_job(driver, reg, pipeline);
        return;
    }
    registration_destroy(reg);
}

/* ── messages ── */

static void on_gone(struct driver *driver, uint64_t client)
{
    struct driver_coming *coming = find_coming(driver, client);
    if (coming)
        coming->gone = true;
    uint32_t rank;
    struct driver_job *job = driver_find_job(driver, client, &rank);
    if (job) {
        struct engine_event event = {
            .type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {.job = (uint32_t)(job - driver->jobs)}};
        if (job->reg->world_size > 1)
            log_info_limited("msg=\"rank left\" job=\"%s\" rank=%u", job->reg->name, rank);
        job->ranks[rank].there = false;
        driver_step(driver, &event, 1);
        if (job->cancelled && !driver_has_client(job))
            driver_step(driver, &event, 1); /* without a rank it would only wait for others: this ends it */
    }
}

static void on_classes(struct driver *driver, uint64_t client, uint32_t seq, uint32_t first)
{
    uint32_t rank;
    struct driver_job *job = driver_find_job(driver, client, &rank);
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

/* A cancelled job is over, though some client may still hold batches of it. */
static size_t count_live_jobs(const struct driver *driver)
{
    size_t count = 0;
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        count += driver->jobs[place].reg && !driver->jobs[place].cancelled;
    return count;
}

static void tell_drained(struct driver *driver)
{
    if (!driver->draining || driver->drained || driver->n_coming || count_live_jobs(driver))
        return;
    driver->drained = true;
    driver->config.drained(driver->config.ctx);
}

/* What a source said instead of an answer, for the jobs that read from it. Takes the text over, which may be NULL. */
static void note_source(struct driver *driver, const void *dataset, char *text)
{
    for (uint32_t place = 0; text && place < JOBS_MAX; place++) {
        struct driver_job *job = &driver->jobs[place];
        if (!job->reg || job->reg->dataset != dataset)
            continue;
        free(job->source_said);
        job->source_said = xstrdup(text);
    }
    free(text);
}

/* What is the engine's own: the event it is, false when it concerns nobody any more. */
static bool as_event(struct driver *driver, const struct inbox_message *message, struct engine_event *event)
{
    const struct driver_job *job = NULL;
    uint32_t rank = 0, place;
    uint64_t now_ns = clock_now_ns();
    switch (message->type) {
    case INBOX_NEXT:
        job = driver_find_job(driver, message->next.client, &rank);
        if (!job)
            return false;
        place = (uint32_t)(job - driver->jobs);
        governor_live_acted(driver->governor, place, rank, message->next.credits, now_ns);
        *event = (struct engine_event){
            .type = ENGINE_NEXT, .rank = rank, .next = {place, message->next.epoch, message->next.credits}};
        return true;
    case INBOX_RELEASE:
        job = driver_find_job(driver, message->release.client, &rank);
        if (!job)
            return false;
        place = (uint32_t)(job - driver->jobs);
        governor_live_acted(driver->governor, place, rank, 0, now_ns);
        *event = (struct engine_event){
            .type = ENGINE_RELEASE, .rank = rank, .release = {place, message->release.batch}};
        return true;
    case INBOX_READ:
        driver->reads += message->read.took_ns > 0; /* else it was not begun */
        governor_live_read(driver->governor, message->read.queue, message->read.samples, message->read.took_ns);
        return false;
    case INBOX_LOADED:
        note_source(driver, message->loaded.dataset, message->loaded.text);
        *event = (struct engine_event){.type = ENGINE_LOADED,
                                       .loaded = {.id = message->loaded.id,
                                                  .encoded = message->loaded.encoded,
                                                  .bytes = message->loaded.bytes,
                                                  .reason = (int)message->loaded.reason,
                                                  .fate = message->loaded.fate}};
        return true;
    default:
        CHECK(message->type == INBOX_PREPARED);
        governor_live_prepared(driver->governor, &message->prepared.cost);
        *event = (struct engine_event){
            .type = ENGINE_PREPARED,
            .prepared = {.task = message->prepared.task, .core_ns = message->prepared.cost.core_ns}};
        memcpy(event->prepared.reasons, message->prepared.reasons, sizeof event->prepared.reasons);
        return true;
    }
}

static bool is_event(enum inbox_type type)
{
    return type == INBOX_NEXT || type == INBOX_RELEASE || type == INBOX_LOADED || type == INBOX_READ || type == INBOX_PREPARED;
}

/* Everything else. False: it is the last message. */
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
    case INBOX_CANCEL:
    case INBOX_WEIGHT:
    case INBOX_DRAIN:
    case INBOX_HALT:
    case INBOX_SETTLE:
        driver_answer(driver, message->type, message->question);
        break;
    default:
        return false;
    }
    return true;
}

/* The governor decides when it is time for it; the engine gets to know how fast the ranks' clients are. */
static void govern(struct driver *driver)
{
    struct engine_event paces[MESSAGES_AT_ONCE];
    uint32_t cursor = 0;
    size_t n;
    if (!governor_live_tick(driver->governor, driver->engine, clock_now_ns()))
        return;
    while ((n = governor_live_paces(driver->governor, &cursor, paces, MESSAGES_AT_ONCE)) > 0)
        driver_step(driver, paces, n);
}

/* The engine drops what it keeps under ids that no dataset has any more; only then they are given to other samples. A
 * dataset ends with the last of its jobs, tasks and registrations, so what still comes of a task finds its id kept. */
static void forget_retired(struct driver *driver)
{
    if (!driver->config.catalog || clock_now_ns() < driver->retired_again_ns)
        return;
    uint32_t count = catalog_take_retired(driver->config.catalog, driver->retired, RETIRED_AT_ONCE), kept = 0;
    if (count == 0)
        return;
    struct engine_event event = {.type = ENGINE_SAMPLES_GONE,
                                 .samples_gone = {.ids = driver->retired, .count = count, .kept = &kept}};
    driver_step(driver, &event, 1);
    catalog_settle_retired(driver->config.catalog, driver->retired, kept, false);
    catalog_settle_retired(driver->config.catalog, driver->retired + kept, count - kept, true);
    if (kept > 0)
        driver->retired_again_ns = clock_now_ns() + RETIRED_PAUSE_NS;
}

/* Messages that came together are one step of the engine as far as they are its own: queues that got room together pick
 * together. */
static void *run(void *arg)
{
    struct driver *driver = arg;
    struct inbox_message messages[MESSAGES_AT_ONCE];
    struct engine_event events[MESSAGES_AT_ONCE];
    size_t count, n_events = 0;
    bool going = true;
    while (going) {
        int64_t wait_ms = governor_live_wait_ms(driver->governor, clock_now_ns());
        bool ticks = needs_ticks(driver);
        if (ticks && (wait_ms < 0 || wait_ms > TICK_MS))
            wait_ms = TICK_MS;
        int64_t wakes_ms = until_wakes_ms(driver);
        if (wakes_ms >= 0 && (wait_ms < 0 || wait_ms > wakes_ms))
            wait_ms = wakes_ms;
        int code = queue_pop_many(driver->config.inbox, messages, MESSAGES_AT_ONCE, &count, wait_ms);
        if (code && code != LARDER_ETIMEOUT)
            break;
        if (code) {
            count = 0;
            driver_step(driver, &(struct engine_event){.type = ENGINE_TICK}, ticks || wakes_ms >= 0);
        }
        for (size_t i = 0; i < count; i++) {
            if (is_event(messages[i].type)) {
                n_events += as_event(driver, &messages[i], &events[n_events]);
                continue;
            }
            driver_step(driver, events, n_events); /* what came before comes first */
            n_events = 0;
            going = take(driver, &messages[i]) && going;
        }
        driver_step(driver, events, n_events);
        n_events = 0;
        tell_drained(driver);
        forget_retired(driver);
        govern(driver);
    }
    return NULL;
}

/* ── life ── */

int driver_create(const struct driver_config *config, struct driver **out, struct error *err)
{
    struct driver *driver = xcalloc(1, sizeof *driver);
    driver->config = *config;
    int code = engine_create(&config->engine, &driver->engine, err);
    if (!code)
        code = governor_live_create(config->workers, config->loaders, &driver->governor, err);
    if (code) {
        engine_destroy(driver->engine);
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
    governor_live_attach(driver->governor, workers);
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
    governor_live_destroy(driver->governor);
    for (uint32_t number = 0; number < ENGINE_PIPELINES_MAX; number++)
        pipeline_unref(&driver->pipelines[number].pipeline);
    for (uint32_t place = 0; place < JOBS_MAX; place++)
        driver_job_clear(&driver->jobs[place]);
    free(driver->coming);
    chunk_numbers_clear(&driver->chunks);
    free(driver->entries);
    free(driver);
}
