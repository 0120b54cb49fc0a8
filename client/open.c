/* open.c: from options to a registered job: connect, HELLO, WELCOME with the arena, REGISTER, REGISTERED, the class
 * names. Class names are fetched here so that later on only batches, errors and what a question asked for arrive. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

#define CLASS_TEXTS_MAX ((size_t)1 << 28)

static _Thread_local struct error open_error;

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
        uint32_t seq;
        int rc = join_ask(loader, &msg, -1, deadline_ns, &seq);
        if (rc == 0)
            rc = join_take(loader, WIRE_CLASSES, seq, deadline_ns, &answer, NULL);
        if (rc == 0)
            rc = take_classes(loader, &answer.classes, &have, &used);
        if (rc)
            return rc;
    }
    return 0;
}

static int join(struct larder_loader *loader, const struct record *state, uint64_t deadline_ns)
{
    uint32_t seq;
    struct wire_registered job;
    int rc = join_greet(loader, deadline_ns, &seq);
    if (rc == 0)
        rc = join_take_welcome(loader, seq, deadline_ns);
    if (rc == 0)
        rc = join_register(loader, state, loader->asked.job, deadline_ns, &seq);
    if (rc == 0)
        rc = join_take_registered(loader, seq, deadline_ns, &job);
    if (rc)
        return rc;
    loader->job = job;
    loader->missed = state || loader->asked.world_size < 2 ? 0 : job.batch;
    join_name(loader, &job.name);
    rc = token_identify(loader);
    return rc ? rc : fetch_classes(loader, deadline_ns);
}

static int open_loader(struct larder_loader *loader, const struct larder_options *o)
{
    struct error *err = &loader->error;
    char path[SOCKET_PATH_MAX];
    uint64_t deadline_ns = deadline_after(o->open_timeout_ms);
    int rc = options_keep(loader, o);
    if (rc == 0 && o->state)
        rc = token_read(loader, o->state, o->state_bytes);
    if (rc == 0 && !o->socket)
        rc = socket_path_default(path, sizeof path, err);
    if (rc == 0)
        rc = connection_init(&loader->connection, o->socket ? o->socket : path, err);
    if (rc == 0)
        rc = connection_dial(&loader->connection, deadline_ns, err);
    return rc ? rc : join(loader, o->state ? &loader->taken.base : NULL, deadline_ns);
}

int larder_open(const struct larder_options *options, struct larder_loader **out)
{
    struct larder_options o;
    int rc = out ? options_read(options, &o, &open_error)
                 : error_set(&open_error, LARDER_EINVAL, "larder_open was called without a place for the loader");
    if (rc)
        return rc;
    struct larder_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return error_set(&open_error, LARDER_ENOMEM, "no memory for a loader");
    loader->magic = LOADER_MAGIC;
    loader->pid = getpid();
    loader->connection.fd = loader->connection.set_fd = loader->connection.alarm_fd = -1;
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
