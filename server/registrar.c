#include "server/registrar.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "server/thread.h"

enum { THREADS = 4, WAITING_MAX = 1024 };

struct registrar {
    struct catalog *catalog;
    const struct config *config;
    struct queue *inbox, *waiting;
    atomic_bool stopping; /* set by registrar_stop, read by the threads between registrations */
    pthread_t threads[THREADS];
    unsigned n_threads;
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
    idset_destroy(registration->view);
    free(registration->order);
    free(registration->dense_label);
    free(registration->classes);
    free(registration);
}

static int compare_ids(const void *a, const void *b)
{
    sample_id x = *(const sample_id *)a, y = *(const sample_id *)b;
    return (x > y) - (x < y);
}

/* The view of a whole dataset. */
static int view_all(struct registration *reg, struct error *err)
{
    uint32_t count = dataset_count(reg->dataset);
    sample_id *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        return error_set(err, LARDER_ENOMEM, "no memory for a view of %u samples", count);
    memcpy(sorted, dataset_ids(reg->dataset), count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_ids);
    int code = idset_from_sorted(sorted, count, &reg->view);
    free(sorted);
    return code ? error_set(err, code, "no memory for a view of %u samples", count) : 0;
}

/* The view's ids in the dataset's order: what SHUFFLE_NONE delivers. */
static int view_order(struct registration *reg, struct error *err)
{
    const sample_id *ids = dataset_ids(reg->dataset);
    uint32_t count = dataset_count(reg->dataset);
    uint64_t size = idset_count(reg->view), n = 0;
    reg->order = malloc(size * sizeof *reg->order);
    if (!reg->order)
        return error_set(err, LARDER_ENOMEM, "no memory for an order of %llu samples", (unsigned long long)size);
    for (uint32_t index = 0; index < count; index++) {
        if (idset_contains(reg->view, ids[index]))
            reg->order[n++] = ids[index];
    }
    CHECK(n == size);
    return 0;
}

static int resolve(struct registrar *registrar, struct registration *reg, struct error *err)
{
    const struct config_dataset *named = config_dataset_find(registrar->config, reg->source);
    const char *path = named ? named->path : reg->source;
    const char *pipeline = reg->pipeline_json;
    if (!*pipeline && named && named->pipeline)
        pipeline = named->pipeline;
    if (reg->world_size != 1)
        return error_set(err, LARDER_EINVAL, "world_size is %u: a job has one rank; give each rank a job and a view of its own",
                         reg->world_size);
    if (path[0] != '/')
        return error_set(err, LARDER_EINVAL,
                         "dataset \"%s\" is neither an absolute path nor a name under `datasets` in the daemon's configuration", path);
    int code = pipeline_parse(pipeline, strlen(pipeline), &reg->pipeline, err);
    if (!code)
        code = catalog_open(registrar->catalog, path, &reg->dataset, err);
    if (!code)
        code = view_all(reg, err);
    if (!code && reg->shuffle == SHUFFLE_NONE)
        code = view_order(reg, err);
    return code;
}

static void *run(void *arg)
{
    struct registrar *registrar = arg;
    struct registration *reg;
    while (queue_pop(registrar->waiting, &reg, -1) == 0) {
        if (atomic_load(&registrar->stopping))
            reg->code = error_set(&reg->err, LARDER_EGONE, "the daemon is stopping and takes no new jobs");
        else
            reg->code = resolve(registrar, reg, &reg->err);
        struct inbox_message message = {.type = INBOX_REGISTERED, .registration = reg};
        CHECK(queue_push(registrar->inbox, &message) == 0); /* the inbox outlives the registrar */
    }
    return NULL;
}

int registrar_create(struct catalog *catalog, const struct config *config, struct queue *inbox, struct registrar **out,
                     struct error *err)
{
    struct registrar *registrar = xcalloc(1, sizeof *registrar);
    registrar->catalog = catalog;
    registrar->config = config;
    registrar->inbox = inbox;
    atomic_init(&registrar->stopping, false);
    int code = queue_create(WAITING_MAX, sizeof(struct registration *), &registrar->waiting);
    while (!code && registrar->n_threads < THREADS) {
        if (thread_start(&registrar->threads[registrar->n_threads], "registrar", run, registrar))
            code = LARDER_ELIMIT;
        else
            registrar->n_threads++;
    }
    if (code) {
        registrar_destroy(registrar);
        return error_set(err, code, "the registrar's threads could not be started: check the limit on threads (ulimit -u)");
    }
    *out = registrar;
    return 0;
}

int registrar_submit(struct registrar *registrar, struct registration *registration)
{
    return queue_try_push(registrar->waiting, &registration);
}

void registrar_stop(struct registrar *registrar)
{
    atomic_store(&registrar->stopping, true);
    if (registrar->waiting)
        queue_close(registrar->waiting);
    while (registrar->n_threads)
        pthread_join(registrar->threads[--registrar->n_threads], NULL);
}

void registrar_destroy(struct registrar *registrar)
{
    if (!registrar)
        return;
    registrar_stop(registrar);
    queue_destroy(registrar->waiting);
    free(registrar);
}
