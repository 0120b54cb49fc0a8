#include "tests/bench/virtual/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bench_fail(struct bench_reader *reader, const struct doc_node *node, const char *key, const char *what)
{
    return config_fail(reader->err, LARDER_EINVAL, reader->file, node->at, key, "%s", what);
}

int bench_number(struct bench_reader *reader, const struct doc_node *node, const char *key, double min, double max,
                 double *out)
{
    char *end;
    if (node->kind != DOC_SCALAR || node->quoted || !*node->text)
        return bench_fail(reader, node, key, "must be a number");
    errno = 0;
    double value = strtod(node->text, &end);
    if (*end || errno || !(value >= min && value <= max))
        return config_fail(reader->err, LARDER_EINVAL, reader->file, node->at, key,
                           "must be a number from %g to %g, and is %s", min, max, config_shown(node->text));
    *out = value;
    return 0;
}

int bench_count(struct bench_reader *reader, const struct doc_node *node, const char *key, double min, double max,
                uint64_t *out)
{
    double value;
    int code = bench_number(reader, node, key, min, max, &value);
    if (code)
        return code;
    if (value != (double)(uint64_t)value)
        return bench_fail(reader, node, key, "must be a whole number");
    *out = (uint64_t)value;
    return 0;
}

int bench_name(struct bench_reader *reader, const struct doc_node *node, const char *key, uint32_t *out)
{
    if (node->kind != DOC_SCALAR)
        return bench_fail(reader, node, key, "must be a name");
    uint32_t at = 0;
    while (at < reader->names.count && strcmp(reader->names.name[at], node->text) != 0)
        at++;
    if (at == BENCH_NAMES_MAX)
        return bench_fail(reader, node, key, "there are too many different ones");
    if (at == reader->names.count)
        reader->names.name[reader->names.count++] = node->text;
    *out = at;
    return 0;
}

int bench_mapping(struct bench_reader *reader, const struct doc_node *node, const char *key, bench_key each, void *into)
{
    if (node->kind != DOC_MAPPING)
        return bench_fail(reader, node, key, "must be a mapping");
    for (uint32_t i = 0; i + 1 < node->n_children; i += 2) {
        int code = each(reader, node->children[i]->text, node->children[i + 1], into);
        if (code == LARDER_ENOENT)
            return bench_fail(reader, node->children[i], node->children[i]->text,
                              "is no key of a scenario here: see docs/internals/bench.md");
        if (code)
            return code;
    }
    return 0;
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
    return whole ? 0
                 : error_set(err, LARDER_EIO, "%s: cannot be read, or is larger than %u bytes", path,
                             CONFIG_FILE_MAX_BYTES);
}

int bench_document(struct bench_reader *reader, bench_key each,
                   int (*check)(struct bench_reader *, const struct doc_node *, void *), void *into)
{
    char *text = NULL;
    size_t len_bytes = 0;
    struct doc doc = {0};
    int code = read_text(reader->file, &text, &len_bytes, reader->err);
    if (!code)
        code = doc_parse(reader->file, text, len_bytes, &doc, reader->err);
    if (!code)
        code = doc.root
                   ? bench_mapping(reader, doc.root, "", each, into)
                   : error_set(reader->err, LARDER_EINVAL, "%s: is empty: see docs/internals/bench.md", reader->file);
    if (!code)
        code = check(reader, doc.root, into);
    doc_clear(&doc);
    free(text);
    return code;
}
