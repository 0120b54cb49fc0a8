/* open.c: from options to a registered job: connect, HELLO, WELCOME with the arena, REGISTER, REGISTERED, the class
 * names. Class names are fetched here so that later on only batches and errors arrive, and nothing has to be kept
 * aside. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

#define CLIENT_NAME "c/" LARDER_VERSION
#define CLASSES_MAX (UINT32_C(1) << 22)
#define CLASS_TEXTS_MAX ((size_t)1 << 28)
#define OPEN_TIMEOUT_MS 300000

/* The size of the first struct, without what came later: hold, weight. */
#define OPTIONS_BYTES_MIN offsetof(struct larder_options, hold)
_Static_assert(sizeof(struct larder_options) == offsetof(struct larder_options, weight) + sizeof(double),
               "padding would hide a later field from size_bytes");
_Static_assert((int)LARDER_SHUFFLE_NONE == (int)SHUFFLE_NONE && (int)LARDER_SHUFFLE_STRICT == (int)SHUFFLE_STRICT,
               "a program's order is the wire's");
_Static_assert((int)LARDER_BAD_REPLACE == (int)BAD_REPLACE && (int)LARDER_BAD_ERROR == (int)BAD_ERROR,
               "a program's policy is the wire's");
_Static_assert((int)LARDER_FLOAT16 == (int)PIXEL_FLOAT16 && (int)LARDER_FLOAT32 == (int)PIXEL_FLOAT32 &&
                   (int)LARDER_CHW == (int)LAYOUT_CHW,
               "the wire's pixels are a program's");

static _Thread_local struct error open_error;

void larder_options_init_sized(struct larder_options *options, size_t size_bytes)
{
    struct larder_options defaults;
    if (!options || size_bytes < sizeof options->size_bytes)
        return;
    memset(&defaults, 0, sizeof defaults);
    defaults.open_timeout_ms = OPEN_TIMEOUT_MS;
    defaults.batch_size = 32;
    defaults.prefetch = 2;
    defaults.world_size = 1;
    defaults.weight = 1;
    memset(options, 0, size_bytes);
    memcpy(options, &defaults, size_bytes < sizeof defaults ? size_bytes : sizeof defaults);
    options->size_bytes = size_bytes;
}

/* read_options takes over what the program's version of the struct holds; a newer program's extra options must be
 * unset. */
static int read_options(const struct larder_options *given, struct larder_options *out, struct error *err)
{
    if (!given)
        return error_set(err, LARDER_EINVAL, "larder_open was called without options");
    if (given->size_bytes < OPTIONS_BYTES_MIN || given->size_bytes > 65536)
        return error_set(err, LARDER_EINVAL, "the options were not set up: call larder_options_init first");
    const unsigned char *bytes = (const unsigned char *)given;
    for (size_t i = sizeof *out; i < given->size_bytes; i++) {
        if (bytes[i])
            return error_set(
                err, LARDER_EVERSION,
                "the program sets options that this liblarder (%s) does not know: install the one it was built with",
                LARDER_VERSION);
    }
    larder_options_init_sized(out, sizeof *out);
    memcpy(out, given, given->size_bytes < sizeof *out ? given->size_bytes : sizeof *out);
    return 0;
}

static int check_number(const char *name, uint32_t value, uint32_t min, uint32_t max, struct error *err)
{
    if (value >= min && value <= max)
        return 0;
    return error_set(err, LARDER_EINVAL, "%s is %u: give %u to %u", name, value, min, max);
}

static int check_text(const char *name, const char *value, size_t max, struct error *err)
{
    size_t len = value ? strlen(value) : 0;
    if (len <= max)
        return 0;
    return error_set(err, LARDER_ELIMIT, "%s has %zu bytes: give at most %zu", name, len, max);
}

static int check_options(const struct larder_options *o, struct error *err)
{
    int rc;
    if (!(o->weight >= JOB_WEIGHT_MIN && o->weight <= JOB_WEIGHT_MAX))
        return error_set(err, LARDER_EINVAL, "weight is %g: give %g to %g", o->weight, JOB_WEIGHT_MIN, JOB_WEIGHT_MAX);
    if (!o->dataset || !*o->dataset)
        return error_set(err, LARDER_EINVAL,
                         "no dataset is named: set options.dataset to a folder or a configured name");
    if ((rc = check_number("batch_size", o->batch_size, 1, WIRE_BATCH_MAX, err)) ||
        (rc = check_number("prefetch", o->prefetch, 1, WIRE_CREDITS_MAX, err)) ||
        (rc = check_number("world_size", o->world_size, 1, UINT32_MAX, err)) ||
        (rc = check_number("rank", o->rank, 0, o->world_size - 1, err)) ||
        (rc = check_number("shuffle", o->shuffle, LARDER_SHUFFLE_DEPENDENT, LARDER_SHUFFLE_NONE, err)) ||
        (rc = check_number("bad", o->bad, LARDER_BAD_SKIP, LARDER_BAD_ERROR, err)) ||
        (rc = check_text("job", o->job, WIRE_NAME_MAX, err)) ||
        (rc = check_text("dataset", o->dataset, WIRE_PATH_MAX, err)) ||
        (rc = check_text("pipeline", o->pipeline, WIRE_SPEC_MAX, err)))
        return rc;
    return check_text("subset", o->subset, WIRE_SPEC_MAX, err);
}

/* dataset_path makes a relative folder absolute: the daemon runs elsewhere. */
static int dataset_path(const char *dataset, char *out, size_t size, struct error *err)
{
    bool folder = strchr(dataset, '/') || strcmp(dataset, ".") == 0 || strcmp(dataset, "..") == 0;
    char here[WIRE_PATH_MAX + 1] = "";
    if (folder && *dataset != '/' && !getcwd(here, sizeof here))
        return error_set(err, LARDER_EIO, "the current folder, which %s is relative to, has no path: %s", dataset,
                         strerror(errno));
    int len = snprintf(out, size, "%s%s%s", here, *here ? "/" : "", dataset);
    if (len < 0 || (size_t)len >= size)
        return error_set(err, LARDER_ELIMIT, "the dataset's path has more than %zu bytes with the current folder",
                         size - 1);
    return 0;
}

static struct wire_text text_of(const char *value)
{
    return (struct wire_text){.data = value, .len_bytes = value ? (uint32_t)strlen(value) : 0};
}

/* ── the exchange ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* request sends msg and waits for the answer of type `wanted`, or the ERROR that refuses it. */
static int request(struct larder_loader *loader, struct wire_message *msg, enum wire_type wanted, uint64_t deadline_ns,
                   struct wire_message *answer, int *passed_fd)
{
    struct error *err = &loader->error;
    msg->seq = ++loader->seq;
    int rc = connection_send(&loader->connection, msg, deadline_ns, err);
    if (rc && rc != LARDER_EGONE)
        return rc; /* a daemon that went may have said why */
    struct wire_message got;
    rc = connection_receive(&loader->connection, &got, passed_fd, deadline_ns, err);
    if (rc)
        return rc;
    if (got.type == wanted && got.seq == msg->seq) {
        *answer = got;
        return 0;
    }
    if (passed_fd && *passed_fd >= 0)
        close(*passed_fd);
    if (got.type == WIRE_ERROR)
        return loader_daemon_error(&got.error, err);
    return error_set(err, LARDER_EFORMAT, "the daemon at %s answered with a message of type %d where type %d was due",
                     loader->connection.path, (int)got.type, (int)wanted);
}

static int say_hello(struct larder_loader *loader, uint64_t deadline_ns)
{
    struct wire_message answer, msg = {.type = WIRE_HELLO, .hello = {.pid = (uint32_t)loader->pid}};
    int fd = -1;
    msg.hello.client = text_of(CLIENT_NAME);
    int rc = request(loader, &msg, WIRE_WELCOME, deadline_ns, &answer, &fd);
    if (rc)
        return rc;
    rc = arena_map(loader, fd, answer.welcome.arena_bytes, &loader->error);
    if (rc == 0 && loader->asked.batch_size > answer.welcome.batch_max)
        rc = error_set(&loader->error, LARDER_ELIMIT, "batch_size is %u, and the daemon at %s allows %u",
                       loader->asked.batch_size, loader->connection.path, answer.welcome.batch_max);
    return rc;
}

static int check_registered(const struct larder_loader *loader, const struct wire_registered *job, struct error *err)
{
    static const uint64_t pixel_bytes[] = {[PIXEL_UINT8] = 1, [PIXEL_FLOAT16] = 2, [PIXEL_FLOAT32] = 4};
    uint64_t pixels = 0;
    bool fits = true;
    if (job->height) {
        fits = !__builtin_mul_overflow((uint64_t)job->height * job->width, job->channels, &pixels) &&
               !__builtin_mul_overflow(pixels, pixel_bytes[job->dtype], &pixels) && pixels > 0 &&
               pixels == job->sample_bytes && pixels <= UINT32_MAX;
    }
    if (!fits || job->held_max == 0 || job->n_classes > CLASSES_MAX)
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s described a job that cannot be: %u×%u×%u of type %u in %llu bytes, %u "
                         "batches to hold, %u classes",
                         loader->connection.path, job->height, job->width, job->channels, job->dtype,
                         (unsigned long long)job->sample_bytes, job->held_max, job->n_classes);
    return 0;
}

static int register_job(struct larder_loader *loader, const struct larder_options *o, uint64_t deadline_ns)
{
    char dataset[WIRE_PATH_MAX + 1];
    int rc = dataset_path(o->dataset, dataset, sizeof dataset, &loader->error);
    if (rc)
        return rc;
    struct wire_message answer, msg = {.type = WIRE_REGISTER};
    msg.reg = (struct wire_register){
        .batch_size = o->batch_size,
        .prefetch = o->prefetch,
        .world_size = o->world_size,
        .rank = o->rank,
        .epochs = o->epochs,
        .shuffle = o->shuffle,
        .bad_policy = o->bad,
        .seed = o->seed,
        .weight = o->weight,
        .flags = (o->drop_last ? WIRE_DROP_LAST : 0u) | (o->relabel ? WIRE_RELABEL : 0u) |
                 (o->private_augment ? WIRE_PRIVATE_AUGMENT : 0u) | (o->ordered ? WIRE_ORDERED : 0u) |
                 (o->all_files ? WIRE_ALL_FILES : 0u) | (o->hold ? WIRE_HOLD : 0u),
        .name = text_of(o->job),
        .dataset = text_of(dataset),
        .pipeline = text_of(o->pipeline ? o->pipeline : "[]"),
        .subset = text_of(o->subset),
    };
    rc = request(loader, &msg, WIRE_REGISTERED, deadline_ns, &answer, NULL);
    if (rc == 0)
        rc = check_registered(loader, &answer.registered, &loader->error);
    if (rc)
        return rc;
    loader->job = answer.registered;
    memcpy(loader->job_name, answer.registered.name.data, answer.registered.name.len_bytes); /* ≤ WIRE_NAME_MAX */
    loader->job.name = text_of(loader->job_name);
    return 0;
}

/* take_classes appends a page of names. */
static int take_classes(struct larder_loader *loader, const struct wire_classes *page, uint32_t *have, size_t *used)
{
    size_t wanted = *used + page->names.len_bytes; /* two bytes of length each make room for the NUL */
    if (page->first != *have || page->count == 0 || page->total != loader->job.n_classes || wanted > CLASS_TEXTS_MAX)
        return error_set(&loader->error, LARDER_EFORMAT,
                         "the daemon at %s sent class names that do not continue after %u of %u",
                         loader->connection.path, *have, loader->job.n_classes);
    char *texts = realloc(loader->classes.texts, wanted);
    if (!texts)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for %u class names", page->total);
    loader->classes.texts = texts;
    uint32_t cursor = 0;
    struct wire_text name;
    while (wire_class_next(&page->names, &cursor, &name) == 0) { /* wire_decode has checked them and their count */
        loader->classes.start[(*have)++] = *used;
        memcpy(texts + *used, name.data, name.len_bytes);
        texts[*used + name.len_bytes] = 0;
        *used += name.len_bytes + 1;
    }
    return 0;
}

static int fetch_classes(struct larder_loader *loader, uint64_t deadline_ns)
{
    uint32_t have = 0;
    size_t used = 0;
    if (loader->job.n_classes == 0)
        return 0;
    loader->classes.start = calloc(loader->job.n_classes, sizeof *loader->classes.start);
    if (!loader->classes.start)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for %u class names", loader->job.n_classes);
    while (have < loader->job.n_classes) {
        struct wire_message answer, msg = {.type = WIRE_CLASSES_GET, .classes_get = {.first = have}};
        int rc = request(loader, &msg, WIRE_CLASSES, deadline_ns, &answer, NULL);
        if (rc == 0)
            rc = take_classes(loader, &answer.classes, &have, &used);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_loader(struct larder_loader *loader, const struct larder_options *o)
{
    struct error *err = &loader->error;
    char path[SOCKET_PATH_MAX];
    uint64_t deadline_ns = deadline_after(o->open_timeout_ms);
    int rc = o->socket ? 0 : socket_path_default(path, sizeof path, err);
    if (rc == 0)
        rc = connection_open(&loader->connection, o->socket ? o->socket : path, deadline_ns, err);
    if (rc == 0)
        rc = say_hello(loader, deadline_ns);
    if (rc == 0)
        rc = register_job(loader, o, deadline_ns);
    return rc ? rc : fetch_classes(loader, deadline_ns);
}

int larder_open(const struct larder_options *options, struct larder_loader **out)
{
    struct larder_options o;
    int rc = out ? read_options(options, &o, &open_error)
                 : error_set(&open_error, LARDER_EINVAL, "larder_open was called without a place for the loader");
    if (rc == 0)
        rc = check_options(&o, &open_error);
    if (rc)
        return rc;
    struct larder_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return error_set(&open_error, LARDER_ENOMEM, "no memory for a loader");
    loader->magic = LOADER_MAGIC;
    loader->pid = getpid();
    loader->connection.fd = -1;
    loader->asked = (struct loader_asked){.batch_size = o.batch_size, .prefetch = o.prefetch, .epochs = o.epochs};
    rc = open_loader(loader, &o);
    if (rc) {
        open_error = loader->error;
        loader_destroy(loader);
        return rc;
    }
    *out = loader;
    return 0;
}

const char *larder_last_error(const struct larder_loader *loader)
{
    if (!loader)
        return open_error.text;
    return loader->magic == LOADER_MAGIC ? loader->error.text : "this is no loader, or one that was closed";
}
