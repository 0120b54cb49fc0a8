#include "server/registration/registrar.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/thread.h"
#include "server/registration/text_hash.h"
#include "server/workers/watch.h"

enum {
    WAITING_MAX = 1024,
    KNOWN_MAX = 1024,
    QUICK_MS = 1000 /* a known source that took longer to open is no longer taken for known */
};

/* A source that was opened before mostly opens again in no time. It has a lane of its own, so that it does not wait
 * behind new sources, each of which may take minutes to index. A column may take as long, and has one too. */
enum lane_kind { LANE_NEW, LANE_KNOWN, LANE_COLUMNS };
#define LANES 3
#define THREADS (REGISTRAR_THREADS / LANES) /* threads of each lane */

struct lane {
    struct registrar *registrar;
    enum lane_kind kind;
    pthread_t threads[THREADS];
    unsigned n_threads;
    pthread_cond_t arrived;       /* something waits, or the registrar stops */
    struct registrations waiting; /* the registrar's lock guards this and n_waiting */
    unsigned n_waiting;
};

struct registrar {
    struct registrar_means means;
    struct engine_config engine; /* only what engine_slot_bytes needs is set */
    struct interrupt stopping;   /* set by registrar_stop; it interrupts each registration too */
    struct lane lanes[LANES];
    pthread_mutex_t lock; /* guards what is below, and what waits in the lanes */
    struct registrations underway;
    uint64_t known[KNOWN_MAX]; /* hashes of known sources, at hash % KNOWN_MAX; 0: none. They only choose the lane. */
};

static uint64_t source_hash(const struct registration *reg)
{
    uint64_t hash = text_hash(reg->asked.source) ^ (reg->asked.flags & WIRE_ALL_FILES);
    return hash ? hash : 1;
}

static bool is_known(struct registrar *registrar, uint64_t hash)
{
    pthread_mutex_lock(&registrar->lock);
    bool known = registrar->known[hash % KNOWN_MAX] == hash;
    pthread_mutex_unlock(&registrar->lock);
    return known;
}

static void set_known(struct registrar *registrar, uint64_t hash, bool known)
{
    pthread_mutex_lock(&registrar->lock);
    uint64_t *place = &registrar->known[hash % KNOWN_MAX];
    if (known)
        *place = hash;
    else if (*place == hash)
        *place = 0;
    pthread_mutex_unlock(&registrar->lock);
}

static void work_on(struct lane *lane, struct registration *reg, struct watch_thread *watched)
{
    struct registrar *registrar = lane->registrar;
    struct resolver with = {.catalog = registrar->means.catalog,
                            .config = registrar->means.config,
                            .engine = &registrar->engine,
                            .watched = watched};
    if (reg->column.name) {
        registration_make_column(reg, &with);
        return;
    }
    uint64_t hash = source_hash(reg), began_ns = clock_now_ns();
    registration_resolve(reg, &with);
    bool quick = clock_now_ns() - began_ns < QUICK_MS * CLOCK_NS_PER_MS;
    if (reg->found.dataset || !quick)
        set_known(registrar, hash, reg->found.dataset && (quick || lane->kind == LANE_NEW));
}

static void finish(struct registrar *registrar, struct registration *reg)
{
    registrar->means.done(registrar->means.ctx, reg);
}

static void take_out_locked(struct lane *lane, struct registration *reg)
{
    TAILQ_REMOVE(&lane->waiting, reg, link);
    lane->n_waiting--;
}

/* next_registration waits for a registration and moves it to those under way. NULL: the registrar stops, and nothing
 * waits in the lane any more. */
static struct registration *next_registration(struct lane *lane)
{
    struct registrar *registrar = lane->registrar;
    pthread_mutex_lock(&registrar->lock);
    while (TAILQ_EMPTY(&lane->waiting) && !interrupt_is_set(&registrar->stopping))
        pthread_cond_wait(&lane->arrived, &registrar->lock);
    struct registration *reg = TAILQ_FIRST(&lane->waiting);
    if (reg) {
        take_out_locked(lane, reg);
        TAILQ_INSERT_TAIL(&registrar->underway, reg, link);
    }
    pthread_mutex_unlock(&registrar->lock);
    return reg;
}

static void *run(void *arg)
{
    struct lane *lane = arg;
    struct registrar *registrar = lane->registrar;
    struct watch_thread *watched = watch_thread_begin(registrar->means.watch);
    struct registration *reg;
    while ((reg = next_registration(lane))) {
        if (interrupt_is_set(&registrar->stopping))
            reg->code = error_set(&reg->err, LARDER_EGONE, "the daemon is stopping and takes no new jobs");
        else
            work_on(lane, reg, watched);
        pthread_mutex_lock(&registrar->lock);
        TAILQ_REMOVE(&registrar->underway, reg, link);
        pthread_mutex_unlock(&registrar->lock);
        finish(registrar, reg);
    }
    watch_thread_end(watched);
    return NULL;
}

static int lane_start(struct lane *lane)
{
    while (lane->n_threads < THREADS) {
        if (thread_start(&lane->threads[lane->n_threads], "registrar", run, lane))
            return LARDER_ELIMIT;
        lane->n_threads++;
    }
    return 0;
}

int registrar_create(const struct registrar_means *means, struct registrar **out, struct error *err)
{
    const struct config *config = means->config;
    struct registrar *registrar = xcalloc(1, sizeof *registrar);
    registrar->means = *means;
    registrar->engine.slot_least = engine_slot_least(config->arena_bytes, config_sure_bytes(config));
    TAILQ_INIT(&registrar->underway);
    CHECK(pthread_mutex_init(&registrar->lock, NULL) == 0);
    for (int kind = 0; kind < LANES; kind++) {
        struct lane *lane = &registrar->lanes[kind];
        *lane = (struct lane){.registrar = registrar, .kind = (enum lane_kind)kind};
        TAILQ_INIT(&lane->waiting);
        CHECK(pthread_cond_init(&lane->arrived, NULL) == 0);
    }
    int code = 0;
    for (int kind = 0; kind < LANES && !code; kind++)
        code = lane_start(&registrar->lanes[kind]);
    if (code) {
        registrar_destroy(registrar);
        return error_set(err, code,
                         "the registrar's threads could not be started: check the limit on threads (ulimit -u)");
    }
    *out = registrar;
    return 0;
}

int registrar_submit(struct registrar *registrar, struct registration *registration)
{
    enum lane_kind kind = registration->column.name                        ? LANE_COLUMNS
                          : is_known(registrar, source_hash(registration)) ? LANE_KNOWN
                                                                           : LANE_NEW;
    struct lane *lane = &registrar->lanes[kind];
    registration->unwanted.above = &registrar->stopping;
    pthread_mutex_lock(&registrar->lock);
    bool room = lane->n_waiting < WAITING_MAX && !interrupt_is_set(&registrar->stopping);
    if (room) {
        TAILQ_INSERT_TAIL(&lane->waiting, registration, link);
        lane->n_waiting++;
        pthread_cond_signal(&lane->arrived);
    }
    pthread_mutex_unlock(&registrar->lock);
    return room ? 0 : LARDER_ELIMIT;
}

static struct registration *find_client(const struct registrations *list, uint64_t client)
{
    struct registration *reg;
    TAILQ_FOREACH(reg, list, link) {
        if (reg->client == client)
            return reg;
    }
    return NULL;
}

void registrar_abandon(struct registrar *registrar, uint64_t client)
{
    struct registration *waiting = NULL;
    pthread_mutex_lock(&registrar->lock);
    for (int kind = 0; kind < LANES && !waiting; kind++) {
        waiting = find_client(&registrar->lanes[kind].waiting, client);
        if (waiting)
            take_out_locked(&registrar->lanes[kind], waiting);
    }
    struct registration *underway = find_client(&registrar->underway, client);
    bool interrupted = underway != NULL;
    if (interrupted)
        interrupt_set(&underway->unwanted);
    pthread_mutex_unlock(&registrar->lock);
    if (interrupted)
        catalog_interrupted(registrar->means.catalog);
    if (waiting) {
        waiting->code = error_set(&waiting->err, LARDER_EGONE, "the client has gone");
        finish(registrar, waiting);
    }
}

void registrar_stop(struct registrar *registrar)
{
    pthread_mutex_lock(&registrar->lock);
    interrupt_set(&registrar->stopping);
    for (int kind = 0; kind < LANES; kind++)
        pthread_cond_broadcast(&registrar->lanes[kind].arrived);
    pthread_mutex_unlock(&registrar->lock);
    catalog_interrupted(registrar->means.catalog);
    for (int kind = 0; kind < LANES; kind++) {
        struct lane *lane = &registrar->lanes[kind];
        while (lane->n_threads)
            pthread_join(lane->threads[--lane->n_threads], NULL);
    }
}

void registrar_destroy(struct registrar *registrar)
{
    if (!registrar)
        return;
    registrar_stop(registrar);
    for (int kind = 0; kind < LANES; kind++)
        pthread_cond_destroy(&registrar->lanes[kind].arrived);
    pthread_mutex_destroy(&registrar->lock);
    free(registrar);
}
