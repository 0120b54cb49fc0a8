#include "server/driver/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "server/driver/states.h"
#include "server/registration/registrar.h"
#include "server/sharing/sharing.h"

enum {
    MESSAGES_AT_ONCE = 64,
    TICK_MS = 250, /* between ticks while needs_ticks holds */
};

#define RETIRED_PAUSE_NS (100 * CLOCK_NS_PER_MS) /* before the next try, when the engine had to keep some of the ids */

/* needs_ticks tells whether the engine must see time pass even when no message comes: ranks may be missing, or jobs may
 * wait for room. */
static bool needs_ticks(const struct driver *driver)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        if (driver->tables.jobs[place].reg && driver->tables.jobs[place].reg->asked.world_size > 1)
            return true;
    }
    return engine_waits_for_room(driver->engine);
}

/* until_wakes_ms returns the time until the engine needs a tick, because a source does not answer or memory was
 * refused. Below 0: it needs none. */
static int64_t until_wakes_ms(const struct driver *driver)
{
    uint64_t wakes_ns = engine_wakes_ns(driver->engine), now_ns = clock_now_ns();
    if (wakes_ns == UINT64_MAX)
        return -1;
    return wakes_ns > now_ns ? (int64_t)((wakes_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

/* ── messages ── */

static void on_gone(struct driver *driver, uint64_t client, bool bye)
{
    struct driver_client *row = tables_client(&driver->tables, client);
    if (!row)
        return;
    if (row->phase != CLIENT_SEATED) {
        row->phase = CLIENT_LEFT;
        return;
    }
    struct driver_job *job = &driver->tables.jobs[row->job];
    struct engine_event event = {
        .type = ENGINE_JOB_GONE, .rank = row->rank, .job_gone = {.job = row->job, .died = !bye}};
    if (job->reg->asked.world_size > 1)
        log_info_limited("msg=\"rank left\" job=\"%s\" rank=%u", job->reg->name,
                         job->reg->asked.first_rank + row->rank);
    states_gone(driver, row);
    if (driver->registrar)
        registrar_abandon(driver->registrar, client); /* a column that it had asked for last */
    tables_unseat(&driver->tables, row, bye);
    driver_step(driver, &event, 1);
    if (job->cancelled && !job->attached)
        driver_step(driver, &event, 1); /* without this the cancelled job would wait for other ranks */
}

/* find_seated returns the row of a client that is a rank of a job. NULL: the client is no rank, or has left. */
static const struct driver_client *find_seated(const struct driver *driver, uint64_t client)
{
    const struct driver_client *row = tables_client(&driver->tables, client);
    return row && row->phase == CLIENT_SEATED ? row : NULL;
}

static void on_classes(struct driver *driver, uint64_t client, uint32_t seq, uint32_t first)
{
    const struct driver_client *row = find_seated(driver, client);
    if (!row)
        return;
    const struct registration *reg = driver->tables.jobs[row->job].reg;
    const uint32_t *classes = reg->found.labels.classes;
    uint32_t total = registration_classes(reg);
    if (first > total) {
        session_send_error(driver->session, client, seq, LARDER_EINVAL, false, "there are not that many classes");
        return;
    }
    struct wire_message message = {.type = WIRE_CLASSES, .seq = seq, .classes = {.first = first, .total = total}};
    uint32_t used = 0;
    for (uint32_t label = first; label < total; label++) {
        const char *name = dataset_class(reg->found.dataset, classes ? classes[label] : label);
        if (wire_class_put(driver->names, sizeof driver->names, &used, name, strlen(name)))
            break;
        message.classes.count++;
    }
    message.classes.names = (struct wire_text){driver->names, used};
    session_send(driver->session, client, &message);
}

static void on_state_get(struct driver *driver, const struct inbox_message *message)
{
    const struct driver_client *row = find_seated(driver, message->state_get.client);
    if (row)
        states_asked(driver, row, message->state_get.seq, &message->state_get.get);
}

static void tell_drained(struct driver *driver)
{
    if (!driver->drain.asked || driver->drain.told || driver->tables.n_coming ||
        tables_count_jobs(&driver->tables, true) || sharing_gives(driver->sharing))
        return;
    driver->drain.told = true;
    driver->config.drained(driver->config.ctx);
}

static void tell_left(struct driver *driver)
{
    if (!driver->leave.asked || driver->leave.told || sharing_gives(driver->sharing))
        return;
    driver->leave.told = true;
    sharing_has_left(driver->sharing);
    driver->config.left(driver->config.ctx);
}

static struct engine_event next_event(const struct driver_client *row, const struct wire_next *next)
{
    uint32_t awaited = next->awaited == WIRE_AHEAD ? ENGINE_ASKS_AHEAD : next->awaited;
    return (struct engine_event){
        .type = ENGINE_NEXT, .rank = row->rank, .next = {row->job, next->epoch, next->credits, awaited}};
}

/* A sample of a read, and how soon it is needed: see engine_needed. */
struct needed {
    uint64_t needed;
    uint32_t at; /* its place in the read */
    struct worker_sample sample;
};

static int by_need(const void *a, const void *b)
{
    const struct needed *one = a, *other = b;
    if (one->needed != other->needed)
        return one->needed < other->needed ? -1 : 1;
    return one->at < other->at ? -1 : 1;
}

/* order_rest puts what is needed first first in the rest of a read, where samples are read one by one. A slow source
 * would have a batch wait for one sample of each of many chunks. */
static void order_rest(struct driver *driver, struct worker_load *rest)
{
    struct needed *order = xcalloc(rest->count, sizeof *order);
    for (uint32_t i = 0; i < rest->count; i++)
        order[i] = (struct needed){engine_needed(driver->engine, rest->samples[i].id), i, rest->samples[i]};
    qsort(order, rest->count, sizeof *order, by_need);
    for (uint32_t i = 0; i < rest->count; i++)
        rest->samples[i] = order[i].sample;
    rest->needed = order[0].needed;
    free(order);
}

static void read_ended(struct driver *driver, struct worker_read read)
{
    if (read.rest.count && read.rest.apart)
        order_rest(driver, &read.rest);
    driver->reads += read.took_ns > 0; /* 0: the read was not begun */
    OBSERVERS_TELL(driver, on_read, &read);
}

/* as_event converts a message for which is_event holds to an event of the engine. False: the engine gets none, because
 * the client has left or the message concerns only observers. */
static bool as_event(struct driver *driver, const struct inbox_message *message, struct engine_event *event)
{
    const struct driver_client *row;
    switch (message->type) {
    case INBOX_NEXT:
        row = find_seated(driver, message->next.client);
        if (!row)
            return false;
        states_wanted(driver, row, message->next.asked.epoch);
        *event = next_event(row, &message->next.asked);
        return true;
    case INBOX_RELEASE:
        row = find_seated(driver, message->release.client);
        if (!row)
            return false;
        states_released(driver, row, message->release.batch);
        *event = (struct engine_event){
            .type = ENGINE_RELEASE, .rank = row->rank, .release = {row->job, message->release.batch}};
        return true;
    case INBOX_READ: read_ended(driver, message->read); return false;
    case INBOX_LOADED:
        tables_note_source(&driver->tables, message->loaded.dataset, message->loaded.text);
        *event = (struct engine_event){.type = ENGINE_LOADED,
                                       .loaded = {.id = message->loaded.id,
                                                  .encoded = message->loaded.encoded,
                                                  .bytes = message->loaded.bytes,
                                                  .planes = message->loaded.planes,
                                                  .reason = (int)message->loaded.reason,
                                                  .fate = message->loaded.fate}};
        return true;
    default:
        CHECK(message->type == INBOX_PREPARED);
        OBSERVERS_TELL(driver, on_prepared, &message->prepared.cost);
        driver_note_beyond(driver, message->prepared.id, message->prepared.beyond);
        *event = (struct engine_event){.type = ENGINE_PREPARED,
                                       .prepared = {.task = message->prepared.task,
                                                    .core_ns = message->prepared.cost.core_ns,
                                                    .decoded = message->prepared.decoded,
                                                    .decoded_bytes = message->prepared.decoded_bytes}};
        memcpy(event->prepared.reasons, message->prepared.reasons, sizeof event->prepared.reasons);
        memcpy(event->prepared.bytes, message->prepared.bytes, sizeof event->prepared.bytes);
        memcpy(event->prepared.own_ns, message->prepared.own_ns, sizeof event->prepared.own_ns);
        return true;
    }
}

static bool is_event(enum inbox_type type)
{
    return type == INBOX_NEXT || type == INBOX_RELEASE || type == INBOX_LOADED || type == INBOX_READ ||
           type == INBOX_PREPARED;
}

/* take carries out a message that is no event of the engine. False: it was the last message. */
static bool take(struct driver *driver, const struct inbox_message *message)
{
    switch (message->type) {
    case INBOX_COMING: tables_client_comes(&driver->tables, message->client); break;
    case INBOX_REGISTERED:
        if (message->registration->column.name)
            driver_column_made(driver, message->registration);
        else
            driver_comes(driver, message->registration);
        break;
    case INBOX_COLUMN_GET: driver_column_asked(driver, message->registration); break;
    case INBOX_GONE: on_gone(driver, message->gone.client, message->gone.bye); break;
    case INBOX_CLASSES:
        on_classes(driver, message->classes.client, message->classes.seq, message->classes.first);
        break;
    case INBOX_STATE_GET: on_state_get(driver, message); break;
    case INBOX_RESERVED: driver_reserved(driver, message->reserved.bytes, message->reserved.refused); break;
    case INBOX_PRESSURE: driver_pressure(driver); break;
    case INBOX_PEERS: sharing_told(driver->sharing, message->peers); break;
    case INBOX_ALONE:
    case INBOX_LEAVE:
    case INBOX_STATUS:
    case INBOX_LEFT:
    case INBOX_CANCEL:
    case INBOX_WEIGHT:
    case INBOX_DRAIN:
    case INBOX_HALT:
    case INBOX_SETTLE: driver_answer(driver, message->type, message->question); break;
    default: return false;
    }
    return true;
}

/* govern lets the governor decide when it is time. After a decision it tells the engine how fast the ranks' clients
 * are. */
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

/* forget_retired makes the engine drop what it keeps under ids that no dataset has any more. Only then may the catalog
 * give these ids to other samples. A dataset lives until its last job, task and registration have ended; so an id is
 * still kept when the result of a task comes. */
static void forget_retired(struct driver *driver)
{
    struct driver_retired *retired = &driver->retired;
    if (!driver->config.catalog || clock_now_ns() < retired->again_ns)
        return;
    uint32_t count = catalog_take_retired(driver->config.catalog, retired->ids, RETIRED_AT_ONCE), kept = 0;
    if (count == 0)
        return;
    struct engine_event event = {.type = ENGINE_SAMPLES_GONE,
                                 .samples_gone = {.ids = retired->ids, .count = count, .kept = &kept}};
    driver_step(driver, &event, 1);
    catalog_settle_retired(driver->config.catalog, retired->ids, kept, false);
    catalog_settle_retired(driver->config.catalog, retired->ids + kept, count - kept, true);
    if (kept > 0)
        retired->again_ns = clock_now_ns() + RETIRED_PAUSE_NS;
}

static int64_t sooner(int64_t a_ms, int64_t b_ms) /* gives the shorter of two waits; below 0 means for ever */
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* run is the engine's thread. Messages that came together and are events of the engine become one step, so that queues
 * that got room at the same time pick at the same time. */
static void *run(void *arg)
{
    struct driver *driver = arg;
    struct inbox_message messages[MESSAGES_AT_ONCE];
    struct engine_event events[MESSAGES_AT_ONCE];
    size_t count, n_events = 0;
    bool going = true;
    while (going) {
        int64_t ticks_ms = needs_ticks(driver) ? TICK_MS : -1, wakes_ms = until_wakes_ms(driver);
        int64_t wait_ms = sooner(governor_live_wait_ms(driver->governor, clock_now_ns()), sooner(ticks_ms, wakes_ms));
        wait_ms = sooner(sooner(wait_ms, states_wait_ms(driver)), sharing_wait_ms(driver->sharing));
        wait_ms = driver->copies.count || !TAILQ_EMPTY(&driver->placing) ? 0 : wait_ms;
        int code = mailbox_pop_many(driver->config.inbox, messages, MESSAGES_AT_ONCE, &count, wait_ms);
        if (code && code != LARDER_ETIMEOUT)
            break;
        if (code)
            count = 0;
        if (driver->copies.count) {
            driver_step_copies(driver);
        } else if (code) {
            driver_step(driver, &(struct engine_event){.type = ENGINE_TICK}, ticks_ms >= 0 || wakes_ms >= 0);
        }
        for (size_t i = 0; i < count; i++) {
            if (is_event(messages[i].type)) {
                n_events += as_event(driver, &messages[i], &events[n_events]);
                continue;
            }
            driver_step(driver, events, n_events); /* the messages keep their order */
            n_events = 0;
            going = take(driver, &messages[i]) && going;
        }
        driver_step(driver, events, n_events);
        n_events = 0;
        driver_place_some(driver);
        sharing_settle(driver->sharing);
        states_expire(driver);
        tell_drained(driver);
        tell_left(driver);
        forget_retired(driver);
        govern(driver);
    }
    return NULL;
}

/* ── life ── */

/* All are sharing_host's. */
static struct sharing_job sharing_job(const void *ctx, uint32_t place)
{
    const struct driver *driver = ctx;
    return (struct sharing_job){driver->tables.jobs[place].reg, driver->tables.jobs[place].weight};
}

static void sharing_step(void *driver, const struct engine_event *event)
{
    driver_step(driver, event, 1);
}

static double sharing_prepare_s(const void *ctx, uint32_t place)
{
    const struct driver *driver = ctx;
    return engine_prepare_s(driver->engine, place);
}

static uint64_t sharing_lacks(const void *ctx, uint32_t place)
{
    const struct driver *driver = ctx;
    return engine_lacks(driver->engine, place);
}

int driver_create(const struct driver_config *config, struct driver **out, struct error *err)
{
    struct driver *driver = xcalloc(1, sizeof *driver);
    TAILQ_INIT(&driver->placing);
    driver->config = *config;
    int code = engine_create(&config->engine, &driver->engine, err);
    if (!code)
        code = governor_live_create(config->workers, config->reads, &driver->governor, err);
    struct sharing_host host = {.ctx = driver,
                                .job = sharing_job,
                                .step = sharing_step,
                                .prepare_s = sharing_prepare_s,
                                .lacks = sharing_lacks,
                                .workers = config->workers,
                                .arena = config->arena,
                                .boot = config->boot};
    if (!code && config->node && sharing_create(config->node, &host, &driver->sharing))
        code = error_set(err, LARDER_ENOMEM, "no memory to share with other nodes");
    if (code) {
        governor_live_destroy(driver->governor);
        engine_destroy(driver->engine, blocks_give);
        free(driver);
        return code;
    }
    if (config->rates)
        governor_live_keep(driver->governor, config->rates);
    driver->observers[0] = (struct driver_observer){.ctx = driver->governor,
                                                    .on_event = governor_live_on_event,
                                                    .on_action = governor_live_on_action,
                                                    .on_read = governor_live_on_read,
                                                    .on_prepared = governor_live_on_prepared};
    driver->observers[1] = (struct driver_observer){.ctx = driver, .on_action = driver_news};
    driver->observers[2] = (struct driver_observer){.ctx = driver,
                                                    .on_action = driver_times_action,
                                                    .on_read = driver_times_read,
                                                    .on_prepared = driver_times_prepared};
    driver->gives = gives_create(config->engine.arena_bytes, config->engine.slot_least);
    driver->observers[3] = (struct driver_observer){.ctx = driver->gives, .on_action = gives_on_action};
    driver->observers[4] = (struct driver_observer){
        .ctx = driver, .on_event = driver_fates_event, .on_action = driver_fates_action};
    driver->rows = xcalloc(JOBS_MAX, sizeof *driver->rows);
    *out = driver;
    return 0;
}

int driver_start(struct driver *driver, struct session *session, struct workers *workers, struct registrar *registrar,
                 struct error *err)
{
    driver->session = session;
    driver->workers = workers;
    driver->registrar = registrar;
    governor_live_attach(driver->governor, workers);
    struct reserver_config reserver = {.arena = driver->config.arena,
                                       .inbox = driver->config.inbox,
                                       .engine = &driver->config.engine,
                                       .root = driver->config.memory_root};
    int code = driver->config.arena ? reserver_start(&reserver, &driver->reserve.reserver, err) : 0;
    if (code)
        return code;
    if (thread_start(&driver->thread, "engine", run, driver))
        return error_set(err, LARDER_ELIMIT,
                         "the engine's thread could not be started: check the limit on threads (ulimit -u)");
    driver->running = true;
    return 0;
}

void driver_share(struct driver *driver, struct peering *peering, struct registrar *registrar)
{
    sharing_begin(driver->sharing, peering, registrar);
}

void driver_stop(struct driver *driver)
{
    if (!driver->running)
        return;
    struct inbox_message message = {.type = INBOX_STOP};
    CHECK(mailbox_push(driver->config.inbox, &message) == 0);
    pthread_join(driver->thread, NULL);
    driver->running = false;
}

void driver_destroy(struct driver *driver)
{
    if (!driver)
        return;
    driver_stop(driver);
    reserver_stop(driver->reserve.reserver); /* after the thread that asks it */
    sharing_destroy(driver->sharing);
    engine_destroy(driver->engine, blocks_give);
    governor_live_destroy(driver->governor);
    for (struct registration *reg; (reg = TAILQ_FIRST(&driver->placing));) {
        TAILQ_REMOVE(&driver->placing, reg, link);
        registration_destroy(reg);
    }
    tables_clear(&driver->tables);
    gives_destroy(driver->gives);
    free(driver->batch.entries);
    free(driver->batch.turns);
    free(driver->batch.over);
    free(driver->preparing.all);
    free(driver->rows);
    for (uint32_t i = 0; i < DRIVER_BEYOND_MAX; i++)
        free(driver->beyond.all[i].text);
    free(driver);
}
