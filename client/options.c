/* options.c: what the program asks for: defaults, checks, and the copy with which a loader asks for the same again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

#define OPEN_TIMEOUT_MS 300000
#define RECONNECT_MS 60000
#define MIX 100000

/* The size of the first struct, without what came later: hold, weight, state, reconnect_ms, local_world_size,
 * deal. */
#define OPTIONS_BYTES_MIN offsetof(struct larder_options, hold)
_Static_assert(sizeof(struct larder_options) == offsetof(struct larder_options, mix) + sizeof(uint32_t),
               "padding would hide a later field from size_bytes");
_Static_assert((int)LARDER_SHUFFLE_NONE == (int)SHUFFLE_NONE && (int)LARDER_SHUFFLE_STRICT == (int)SHUFFLE_STRICT,
               "a program's order is the wire's");
_Static_assert((int)LARDER_BAD_REPLACE == (int)BAD_REPLACE && (int)LARDER_BAD_ERROR == (int)BAD_ERROR,
               "a program's policy is the wire's");
_Static_assert((int)LARDER_FLOAT16 == (int)PIXEL_FLOAT16 && (int)LARDER_FLOAT32 == (int)PIXEL_FLOAT32 &&
                   (int)LARDER_CHW == (int)LAYOUT_CHW,
               "the wire's pixels are a program's");
_Static_assert((int)LARDER_DEAL_HOME == (int)WIRE_DEAL_HOME, "a program's deal is the wire's");

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
    defaults.reconnect_ms = RECONNECT_MS;
    defaults.mix = MIX;
    memset(options, 0, size_bytes);
    memcpy(options, &defaults, size_bytes < sizeof defaults ? size_bytes : sizeof defaults);
    options->size_bytes = size_bytes;
}

/* read_given takes over what the program's version of the struct holds; a newer program's extra options must be
 * unset. */
static int read_given(const struct larder_options *given, struct larder_options *out, struct error *err)
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

/* check_local: the ranks at this node are some of the job's, and this one is one of them. */
static int check_local(const struct larder_options *o, struct error *err)
{
    bool none = o->local_world_size == 0 && o->local_first == 0;
    if (none || (o->local_world_size > 0 && o->local_first < o->world_size &&
                 o->local_world_size <= o->world_size - o->local_first && o->rank >= o->local_first &&
                 o->rank - o->local_first < o->local_world_size))
        return 0;
    return error_set(
        err, LARDER_EINVAL,
        "local_world_size is %u and local_first %u: they name neighbours among the %u ranks, of which %u is "
        "one",
        o->local_world_size, o->local_first, o->world_size, o->rank);
}

static int check_options(const struct larder_options *o, struct error *err)
{
    int rc;
    if (!(o->weight >= JOB_WEIGHT_MIN && o->weight <= JOB_WEIGHT_MAX))
        return error_set(err, LARDER_EINVAL, "weight is %g: give %g to %g", o->weight, JOB_WEIGHT_MIN, JOB_WEIGHT_MAX);
    if (!o->state && o->state_bytes)
        return error_set(err, LARDER_EINVAL, "state_bytes is %zu, and state is NULL", o->state_bytes);
    if (!o->dataset || !*o->dataset)
        return error_set(err, LARDER_EINVAL,
                         "no dataset is named: set options.dataset to a folder or a configured name");
    if ((rc = check_number("batch_size", o->batch_size, 1, WIRE_BATCH_MAX, err)) ||
        (rc = check_number("prefetch", o->prefetch, 1, WIRE_CREDITS_MAX, err)) ||
        (rc = check_number("world_size", o->world_size, 1, UINT32_MAX, err)) ||
        (rc = check_number("rank", o->rank, 0, o->world_size - 1, err)) || (rc = check_local(o, err)) ||
        (rc = check_number("shuffle", o->shuffle, LARDER_SHUFFLE_DEPENDENT, LARDER_SHUFFLE_NONE, err)) ||
        (rc = check_number("deal", o->deal, LARDER_DEAL_EPOCH, LARDER_DEAL_HOME, err)) ||
        (rc = check_number("mix", o->mix, 0, WIRE_MIX_ALL, err)) ||
        (rc = check_number("bad", o->bad, LARDER_BAD_SKIP, LARDER_BAD_ERROR, err)) ||
        (rc = check_text("job", o->job, WIRE_NAME_MAX, err)) ||
        (rc = check_text("dataset", o->dataset, WIRE_PATH_MAX, err)) ||
        (rc = check_text("pipeline", o->pipeline, WIRE_SPEC_MAX, err)))
        return rc;
    if (o->deal == LARDER_DEAL_HOME && o->shuffle != LARDER_SHUFFLE_DEPENDENT)
        return error_set(err, LARDER_EINVAL,
                         "shuffle is %u, whose order says which rank gets which sample, and deal is LARDER_DEAL_HOME: "
                         "leave one of the two out",
                         o->shuffle);
    return check_text("subset", o->subset, WIRE_SPEC_MAX, err);
}

/* dataset_path makes relative paths absolute: the daemon runs elsewhere. Several patterns of tar shards are joined by
 * "::". */
static int dataset_path(const char *dataset, char *out, size_t size, struct error *err)
{
    size_t used = 0;
    for (const char *part = dataset, *end; part; part = *end ? end + 2 : NULL) {
        end = strstr(part, "::");
        end = end ? end : part + strlen(part);
        size_t len = (size_t)(end - part);
        bool dots = len && len <= 2 && strspn(part, ".") >= len;
        bool folder = dots || memchr(part, '/', len) || (len > 4 && memcmp(end - 4, ".tar", 4) == 0);
        char here[WIRE_PATH_MAX + 1] = "";
        if (folder && *part != '/' && !getcwd(here, sizeof here))
            return error_set(err, LARDER_EIO, "the current folder, which %s is relative to, has no path: %s", dataset,
                             strerror(errno));
        int put = snprintf(out + used, size - used, "%s%s%s%.*s", used ? "::" : "", here, *here ? "/" : "", (int)len,
                           part);
        if (put < 0 || (size_t)put >= size - used)
            return error_set(err, LARDER_ELIMIT, "the dataset's path has more than %zu bytes with the current folder",
                             size - 1);
        used += (size_t)put;
    }
    return 0;
}

int options_read(const struct larder_options *given, struct larder_options *out, struct error *err)
{
    struct larder_options o;
    int rc = read_given(given, &o, err);
    if (rc == 0)
        rc = check_options(&o, err);
    if (rc == 0)
        *out = o;
    return rc;
}

/* keep appends a text to the loader's copies; NULL stays NULL. */
static const char *keep(char **to, const char *text)
{
    if (!text)
        return NULL;
    char *at = *to;
    size_t bytes = strlen(text) + 1;
    memcpy(at, text, bytes);
    *to += bytes;
    return at;
}

int options_keep(struct larder_loader *loader, const struct larder_options *o)
{
    char dataset[WIRE_PATH_MAX + 1];
    int rc = dataset_path(o->dataset, dataset, sizeof dataset, &loader->error);
    if (rc)
        return rc;
    const char *texts[] = {dataset, o->pipeline ? o->pipeline : "[]", o->subset, o->job};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        bytes += texts[i] ? strlen(texts[i]) + 1 : 0;
    char *to = loader->asked_texts = malloc(bytes);
    if (!to)
        return error_set(&loader->error, LARDER_ENOMEM, "no memory for the options");
    loader->asked = *o;
    loader->asked.socket = NULL; /* the connection has its path */
    loader->asked.state = NULL;  /* loader->taken has a copy */
    loader->asked.dataset = keep(&to, texts[0]);
    loader->asked.pipeline = keep(&to, texts[1]);
    loader->asked.subset = keep(&to, texts[2]);
    loader->asked.job = keep(&to, texts[3]);
    return 0;
}
