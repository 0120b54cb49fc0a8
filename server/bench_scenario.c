/* bench_scenario.c: scenario files for `larder bench sharing`, read as strictly as configurations are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/bench_sharing.h"
#include "server/config_priv.h"

enum { NAMES_MAX = 64 };

struct reader {
    const char *file;
    struct error *err;
    char *pipelines[NAMES_MAX]; /* names seen, borrowed from the document */
    uint32_t n_pipelines;
};

static int fail(struct reader *reader, const struct doc_node *node, const char *key, const char *what)
{
    return config_fail(reader->err, LARDER_EINVAL, reader->file, node->at, key, "%s", what);
}

static int read_number(struct reader *reader, const struct doc_node *node, const char *key, double min, double max, double *out)
{
    char *end;
    if (node->kind != DOC_SCALAR || node->quoted || !*node->text)
        return fail(reader, node, key, "must be a number");
    errno = 0;
    double value = strtod(node->text, &end);
    if (*end || errno || !(value >= min && value <= max))
        return config_fail(reader->err, LARDER_EINVAL, reader->file, node->at, key, "must be a number from %g to %g, and is %s", min, max,
                           config_shown(node->text));
    *out = value;
    return 0;
}

static int read_count(struct reader *reader, const struct doc_node *node, const char *key, double min, double max, uint64_t *out)
{
    double value;
    int code = read_number(reader, node, key, min, max, &value);
    if (code)
        return code;
    if (value != (double)(uint64_t)value)
        return fail(reader, node, key, "must be a whole number");
    *out = (uint64_t)value;
    return 0;
}

#define COUNT(node, key, min, max, field)                                 \
    do {                                                                  \
        uint64_t number_;                                                 \
        int code_ = read_count(reader, node, key, min, max, &number_);    \
        if (code_)                                                        \
            return code_;                                                 \
        (field) = number_;                                                \
        return 0;                                                         \
    } while (0)

typedef int (*read_key)(struct reader *reader, const char *key, const struct doc_node *value, void *into);

static int read_mapping(struct reader *reader, const struct doc_node *node, const char *key, read_key each, void *into)
{
    if (node->kind != DOC_MAPPING)
        return fail(reader, node, key, "must be a mapping");
    for (uint32_t i = 0; i + 1 < node->n_children; i += 2) {
        int code = each(reader, node->children[i]->text, node->children[i + 1], into);
        if (code == LARDER_ENOENT)
            return fail(reader, node->children[i], node->children[i]->text, "is no key of a scenario here: see docs/bench.md");
        if (code)
            return code;
    }
    return 0;
}

static int view_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_job *job = into;
    if (strcmp(key, "fraction") == 0) {
        job->view = SHARING_FRACTION;
        return read_number(reader, value, key, 0, 1, &job->fraction);
    }
    if (strcmp(key, "seed") == 0)
        COUNT(value, key, 0, 9e15, job->view_seed);
    if (strcmp(key, "range") != 0)
        return LARDER_ENOENT;
    uint64_t bounds[2];
    if (value->kind != DOC_SEQUENCE || value->n_children != 2)
        return fail(reader, value, key, "must be [first, end]");
    for (int i = 0; i < 2; i++) {
        int code = read_count(reader, value->children[i], key, 0, SHARING_SAMPLES_MAX, &bounds[i]);
        if (code)
            return code;
    }
    if (bounds[0] >= bounds[1])
        return fail(reader, value, key, "must be [first, end] with first below end");
    job->view = SHARING_RANGE;
    job->first = (uint32_t)bounds[0];
    job->end = (uint32_t)bounds[1];
    return 0;
}

static int pipeline_number(struct reader *reader, const struct doc_node *node, uint32_t *out)
{
    if (node->kind != DOC_SCALAR)
        return fail(reader, node, "pipeline", "must be a name");
    for (*out = 0; *out < reader->n_pipelines; ++*out) {
        if (strcmp(reader->pipelines[*out], node->text) == 0)
            return 0;
    }
    if (reader->n_pipelines == NAMES_MAX)
        return fail(reader, node, "pipeline", "there are too many different ones");
    reader->pipelines[reader->n_pipelines++] = node->text;
    return 0;
}

static int job_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_job *job = into;
    if (strcmp(key, "start") == 0)
        return read_number(reader, value, key, 0, 1000, &job->start);
    if (strcmp(key, "rate") == 0)
        return read_number(reader, value, key, 0.001, 1, &job->rate);
    if (strcmp(key, "epochs") == 0)
        COUNT(value, key, 1, 1000, job->epochs);
    if (strcmp(key, "pipeline") == 0)
        return pipeline_number(reader, value, &job->pipeline);
    if (strcmp(key, "view") != 0)
        return LARDER_ENOENT;
    if (value->kind == DOC_SCALAR && strcmp(value->text, "all") == 0) {
        job->view = SHARING_ALL;
        return 0;
    }
    return read_mapping(reader, value, key, view_key, job);
}

static int read_jobs(struct reader *reader, const struct doc_node *node, struct sharing_scenario *out)
{
    if (node->kind != DOC_SEQUENCE || node->n_children == 0)
        return fail(reader, node, "jobs", "must be a list of at least one job");
    if (node->n_children > SHARING_JOBS_MAX)
        return fail(reader, node, "jobs", "there are too many");
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct sharing_job *job = &out->jobs[out->n_jobs++];
        *job = (struct sharing_job){.rate = 1, .epochs = 1, .view = SHARING_ALL};
        int code = read_mapping(reader, node->children[i], "jobs", job_key, job);
        if (code)
            return code;
    }
    return 0;
}

static int memory_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "prepared") == 0)
        return read_number(reader, value, key, 0, 1, &out->prepared);
    if (strcmp(key, "encoded") == 0)
        return read_number(reader, value, key, 0, 1, &out->encoded);
    return LARDER_ENOENT;
}

static int redirect_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "width") != 0)
        return LARDER_ENOENT;
    COUNT(value, key, 1, 65536, out->width);
}

static int settings_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    static const char *const modes[] = {"dependent", "strict", "none"};
    struct sharing_scenario *out = into;
    if (strcmp(key, "shuffle") == 0) {
        for (int mode = 0; value->kind == DOC_SCALAR && mode < 3; mode++) {
            if (strcmp(value->text, modes[mode]) == 0) {
                out->shuffle = (enum shuffle_mode)mode;
                return 0;
            }
        }
        return fail(reader, value, key, "must be dependent, strict or none");
    }
    if (strcmp(key, "redirect") != 0)
        return LARDER_ENOENT;
    out->redirect = !(value->kind == DOC_SCALAR && strcmp(value->text, "off") == 0);
    return out->redirect ? read_mapping(reader, value, key, redirect_key, out) : 0;
}

static int top_key(struct reader *reader, const char *key, const struct doc_node *value, void *into)
{
    struct sharing_scenario *out = into;
    if (strcmp(key, "samples") == 0)
        COUNT(value, key, 1, SHARING_SAMPLES_MAX, out->samples);
    if (strcmp(key, "chunk") == 0)
        COUNT(value, key, 1, 65536, out->chunk);
    if (strcmp(key, "seed") == 0)
        COUNT(value, key, 0, 9e15, out->seed);
    if (strcmp(key, "memory") == 0)
        return read_mapping(reader, value, key, memory_key, out);
    if (strcmp(key, "settings") == 0)
        return read_mapping(reader, value, key, settings_key, out);
    if (strcmp(key, "jobs") == 0)
        return read_jobs(reader, value, out);
    return LARDER_ENOENT;
}

static int check_views(struct reader *reader, const struct doc_node *root, const struct sharing_scenario *out)
{
    for (uint32_t i = 0; i < out->n_jobs; i++) {
        if (out->jobs[i].view == SHARING_RANGE && out->jobs[i].end > out->samples)
            return fail(reader, root, "jobs", "a range goes past the samples");
    }
    return out->samples && out->n_jobs ? 0 : fail(reader, root, "", "needs `samples` and `jobs`");
}

static int read_text(const char *path, char **text, size_t *len_bytes, struct error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, LARDER_ENOENT, "%s: %s", path, strerror(errno));
    *text = malloc(CONFIG_FILE_MAX_BYTES);
    *len_bytes = *text ? fread(*text, 1, CONFIG_FILE_MAX_BYTES, file) : 0;
    bool whole = *text && feof(file) && !ferror(file);
    fclose(file);
    return whole ? 0 : error_set(err, LARDER_EIO, "%s: cannot be read, or is larger than %u bytes", path, CONFIG_FILE_MAX_BYTES);
}

int sharing_read(const char *path, struct sharing_scenario *out, struct error *err)
{
    char *text = NULL;
    size_t len_bytes = 0;
    struct doc doc = {0};
    struct sharing_scenario scenario = {
        .chunk = 64, .prepared = 0.1, .encoded = 0.1, .seed = 1, .redirect = true, .width = SHARING_WIDTH_DEFAULT};
    struct reader reader = {.file = path, .err = err};
    int code = read_text(path, &text, &len_bytes, err);
    if (!code)
        code = doc_parse(path, text, len_bytes, &doc, err);
    if (!code)
        code = doc.root ? read_mapping(&reader, doc.root, "", top_key, &scenario)
                        : error_set(err, LARDER_EINVAL, "%s: is empty: see docs/bench.md", path);
    if (!code)
        code = check_views(&reader, doc.root, &scenario);
    doc_clear(&doc);
    free(text);
    if (!code)
        *out = scenario;
    return code;
}
