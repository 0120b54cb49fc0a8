#include "server/driver/registrar.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/utf8.h"
#include "sampler/view.h"
#include "server/workers/thread.h"

enum {
    THREADS = 4, /* of each lane */
    WAITING_MAX = 1024,
    KNOWN_MAX = 1024,
    QUICK_MS = 1000 /* a source that took longer, though it was opened before, is not taken for known */
};

/* Sources that were opened before mostly are again in no time: they do not wait behind those that are new, whose
 * indexing may take minutes each. */
enum lane_kind { LANE_NEW, LANE_KNOWN };
#define LANES 2

struct lane {
    struct registrar *registrar;
    enum lane_kind kind;
    pthread_t threads[THREADS];
    unsigned n_threads;
    pthread_cond_t arrived;       /* something waits, or the end has come */
    struct registrations waiting; /* this and n_waiting: under the registrar's lock */
    unsigned n_waiting;
};

struct registrar {
    struct catalog *catalog;
    const struct config *config;
    struct engine_config engine; /* only what engine_slot_bytes looks at */
    struct queue *inbox;
    struct interrupt stopping; /* set by registrar_stop; above each registration's */
    struct lane lanes[LANES];
    pthread_mutex_t lock; /* of what is below, and of what waits in the lanes */
    struct registrations underway;
    uint64_t known[KNOWN_MAX];  /* hashes of sources, at hash % KNOWN_MAX; 0: none. Only the lane depends on them. */
};

void registration_destroy(struct registration *registration)
{
    if (!registration)
        return;
    free(registration->client_name);
    free(registration->name);
    free(registration->source);
    free(registration->pipeline_json);
    free(registration->subset_json);
    dataset_unref(&registration->dataset);
    pipeline_unref(&registration->pipeline);
    view_result_clear(&registration->view);
    free(registration->places);
    free(registration->dense_label);
    free(registration->classes);
    free(registration);
}

/* What a view asks of a dataset. */
static sample_id source_id(const void *dataset, uint32_t index)
{
    return dataset_id(dataset, index);
}

static int32_t source_label(const void *dataset, uint32_t index)
{
    return dataset_label(dataset, index);
}

static const char *source_key(const void *dataset, uint32_t index)
{
    return dataset_key(dataset, index);
}

static const char *source_class(const void *dataset, uint32_t label)
{
    return dataset_class(dataset, label);
}

static int parse_view(const char *json, struct view **out, struct error *err)
{
    return json && *json ? view_parse(json, strlen(json), out, err) : 0;
}

/* The part of the dataset that the job trains on: what it asks for, of what the configuration leaves of the dataset. */
static int select_view(struct registration *reg, const struct config_dataset *named, const char *given_path,
                       struct error *err)
{
    struct view *view = NULL, *configured = NULL;
    struct view_source source = {.dataset = reg->dataset,
                                 .path = dataset_path(reg->dataset),
                                 .given_path = given_path,
                                 .count = dataset_count(reg->dataset),
                                 .n_classes = dataset_classes(reg->dataset),
                                 .id = source_id,
                                 .label = source_label,
                                 .key = source_key,
                                 .class_name = source_class,
                                 .interrupt = &reg->unwanted};
    const char *narrowed_to = named ? named->subset : NULL;
    int code = parse_view(reg->subset_json, &view, err);
    if (!code)
        code = parse_view(narrowed_to, &configured, err);
    if (!code) {
        view = view_intersect(view, configured);
        configured = NULL;
        code = view_eval(view, &source, &reg->view, err);
        if (code && narrowed_to)
            code = error_prefix(err, code, "dataset %s, which the configuration narrows to %.200s", named->name,
                                narrowed_to);
    }
    view_destroy(view);
    view_destroy(configured);
    return code;
}

/* WIRE_RELABEL: the view's classes get the numbers 0, 1, 2 … in their order. */
static int make_dense_labels(struct registration *reg, struct error *err)
{
    uint32_t classes = dataset_classes(reg->dataset);
    reg->dense_label = malloc((classes + UINT64_C(1)) * sizeof *reg->dense_label);
    reg->classes = malloc((classes + UINT64_C(1)) * sizeof *reg->classes);
    if (!reg->dense_label || !reg->classes)
        return error_set(err, LARDER_ENOMEM, "no memory for the numbers of %u classes: free memory, or lower the budgets",
                         classes);
    for (uint32_t label = 0; label < classes; label++)
        reg->dense_label[label] = -1;
    for (uint32_t i = 0; i < reg->view.count; i++)
        reg->dense_label[dataset_label(reg->dataset, reg->view.indices[i])] = 0;
    for (uint32_t label = 0; label < classes; label++) {
        if (reg->dense_label[label] == 0) {
            reg->dense_label[label] = (int32_t)reg->n_classes;
            reg->classes[reg->n_classes++] = label;
        }
    }
    return 0;
}

struct placed {
    sample_id id;
    struct engine_place place;
};

static int compare_placed(const void *a, const void *b)
{
    sample_id x = ((const struct placed *)a)->id, y = ((const struct placed *)b)->id;
    return (x > y) - (x < y);
}

/* Where the view's samples are stored, by ascending id. */
static int find_places(struct registration *reg, struct error *err)
{
    uint32_t count = reg->view.count;
    struct placed *placed = malloc(count * sizeof *placed);
    reg->places = malloc(count * sizeof *reg->places);
    if (!placed || !reg->places) {
        free(placed);
        return error_set(err, LARDER_ENOMEM, "no memory for the places of %u samples", count);
    }
    bool ascending = true;
    for (uint32_t i = 0; i < count; i++) {
        placed[i].id = reg->view.order[i];
        placed[i].place.chunk = dataset_chunk_of(reg->dataset, reg->view.indices[i], &placed[i].place.slot);
        ascending = ascending && (i == 0 || placed[i - 1].id < placed[i].id);
    }
    if (!ascending)
        qsort(placed, count, sizeof *placed, compare_placed);
    for (uint32_t i = 0; i < count; i++)
        reg->places[i] = placed[i].place;
    free(placed);
    return 0;
}

static int compare_descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* What a sample takes in the arena. Without operators that is the file's size, and what counts is the mean of the
 * longest ones: a job holds two batches for each rank or more, and two epochs meet in them, so a sample may be held
 * twice. */
static int size_slots(struct registration *reg, const struct engine_config *engine, struct error *err)
{
    reg->sample_bytes = reg->slot_bytes = pipeline_shape(reg->pipeline).bytes;
    if (reg->sample_bytes)
        return 0;
    uint32_t count = reg->view.count;
    uint64_t *sizes = malloc(count * sizeof *sizes);
    if (!sizes)
        return error_set(err, LARDER_ENOMEM, "no memory for the sizes of %u samples", count);
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = dataset_size(reg->dataset, reg->view.indices[i]);
    qsort(sizes, count, sizeof *sizes, compare_descending);
    reg->sample_bytes = sizes[0];
    uint64_t longest = (uint64_t)reg->batch_size * reg->world_size, sum = 0;
    longest = longest < count ? longest : count;
    for (uint64_t i = 0; i < longest; i++)
        sum += engine_slot_bytes(engine, sizes[i]);
    free(sizes);
    reg->slot_bytes = (sum + longest - 1) / longest;
    return reg->sample_bytes <= UINT32_MAX
               ? 0
               : error_set(err, LARDER_ELIMIT, "a file of %llu bytes is too long to be delivered: leave files over 4 GiB out",
                           (unsigned long long)reg->sample_bytes);
}

/* 0 where it cannot be told: only which thing is slow depends on it. */
static uint64_t device_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_dev : 0;
}

static int resolve(struct registrar *registrar, struct registration *reg, struct error *err)
{
    const struct config_dataset *named = config_dataset_find(registrar->config, reg->source);
    const char *path = named ? named->path : reg->source;
    const char *pipeline = reg->pipeline_json;
    if (!*pipeline && named && named->pipeline)
        pipeline = named->pipeline;
    if (!utf8_printable(reg->name)) /* two such names could look the same in the metrics */
        return error_set(err, LARDER_EINVAL, "the job's name is not UTF-8, or has control characters: give it another");
    if (reg->world_size > ENGINE_RANKS_MAX)
        return error_set(err, LARDER_ELIMIT, "world_size is %u, and a job may have %d ranks at one daemon", reg->world_size,
                         ENGINE_RANKS_MAX);
    if (reg->world_size > 1 && !*reg->name)
        return error_set(err, LARDER_EINVAL, "a job of %u ranks needs a name, which all of them give", reg->world_size);
    if (path[0] != '/')
        return error_set(err, LARDER_EINVAL,
                         "dataset \"%s\" is neither an absolute path nor a name under `datasets` in the daemon's configuration", path);
    int code = pipeline_parse(pipeline, strlen(pipeline), &reg->pipeline, err);
    struct catalog_wish wish = {
        .path = path, .every_file = reg->flags & WIRE_ALL_FILES, .interrupt = &reg->unwanted};
    if (!code)
        code = catalog_open_for(registrar->catalog, &wish, &reg->dataset, err);
    if (!code)
        reg->device = device_of(dataset_path(reg->dataset));
    if (!code)
        code = select_view(reg, named, path, err);
    if (!code)
        code = find_places(reg, err);
    if (!code)
        code = size_slots(reg, &registrar->engine, err);
    if (!code && reg->flags & WIRE_RELABEL)
        code = make_dense_labels(reg, err);
    return code;
}

/* ── lanes ── */

static uint64_t source_hash(const struct registration *reg) /* FNV-1a */
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (reg->flags & WIRE_ALL_FILES);
    for (const char *text = reg->source; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
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

static void work_on(struct lane *lane, struct registration *reg)
{
    uint64_t hash = source_hash(reg), began_ns = clock_now_ns();
    reg->code = resolve(lane->registrar, reg, &reg->err);
    bool quick = clock_now_ns() - began_ns < QUICK_MS * CLOCK_NS_PER_MS;
    if (reg->dataset || !quick)
        set_known(lane->registrar, hash, reg->dataset && (quick || lane->kind == LANE_NEW));
}

static void finish(struct registrar *registrar, struct registration *reg)
{
    struct inbox_message message = {.type = INBOX_REGISTERED, .registration = reg};
    CHECK(queue_push(registrar->inbox, &message) == 0); /* the inbox outlives the registrar */
}

static void take_out_locked(struct lane *lane, struct registration *reg)
{
    TAILQ_REMOVE(&lane->waiting, reg, link);
    lane->n_waiting--;
}

/* Waits for a registration, which is under way then; NULL at the end. */
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
    struct registration *reg;
    while ((reg = next_registration(lane))) {
        if (interrupt_is_set(&registrar->stopping))
            reg->code = error_set(&reg->err, LARDER_EGONE, "the daemon is stopping and takes no new jobs");
        else
            work_on(lane, reg);
        pthread_mutex_lock(&registrar->lock);
        TAILQ_REMOVE(&registrar->underway, reg, link);
        pthread_mutex_unlock(&registrar->lock);
        finish(registrar, reg);
    }
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

int registrar_create(struct catalog *catalog, const struct config *config, struct queue *inbox, struct registrar **out,
                     struct error *err)
{
    struct registrar *registrar = xcalloc(1, sizeof *registrar);
    registrar->catalog = catalog;
    registrar->config = config;
    registrar->engine.slot_least = engine_slot_least(config->arena_bytes, config->encoded_bytes, ENGINE_INSTANCE_BYTES);
    registrar->inbox = inbox;
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
        return error_set(err, code, "the registrar's threads could not be started: check the limit on threads (ulimit -u)");
    }
    *out = registrar;
    return 0;
}

int registrar_submit(struct registrar *registrar, struct registration *registration)
{
    enum lane_kind kind = is_known(registrar, source_hash(registration)) ? LANE_KNOWN : LANE_NEW;
    struct lane *lane = &registrar->lanes[kind];
    registration->unwanted.above = &registrar->stopping;
    pthread_mutex_lock(&registrar->lock);
    bool room = lane->n_waiting < WAITING_MAX;
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
    TAILQ_FOREACH (reg, list, link) {
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
        catalog_interrupted(registrar->catalog);
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
    catalog_interrupted(registrar->catalog);
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
