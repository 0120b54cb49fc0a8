/* columns.c: the columns of a source: those that every source has, of its index, and those that its kind reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file.h"
#include "cache/source/source.h"

/* ── of the index ── */

static int add_keys(const struct index *index, struct cells *cells)
{
    int code = 0;
    for (size_t i = 0; !code && i < index->sample_count; i++) {
        const char *key = index_key(index, i);
        code = cells_add_text(cells, key, strlen(key));
    }
    return code;
}

static int add_paths(const struct index *index, struct cells *cells)
{
    const char *root = strcmp(index->root, "/") == 0 ? "" : index->root;
    int code = 0;
    for (size_t i = 0; !code && i < index->sample_count; i++) {
        char *path = NULL;
        int len = asprintf(&path, "%s/%s", root, index_key(index, i));
        code = len < 0 ? LARDER_ENOMEM : cells_add_text(cells, path, (size_t)len);
        free(len < 0 ? NULL : path);
    }
    return code;
}

static int add_classes(const struct index *index, struct cells *cells)
{
    int code = 0;
    for (size_t i = 0; !code && i < index->class_count; i++) {
        const char *name = index->strings + index->classes[i];
        code = cells_add_text(cells, name, strlen(name));
    }
    return code;
}

static int labels_of(const struct index *index, uint64_t bytes_max, struct column *out)
{
    struct column column = {.kind = COLUMN_WHOLE, .width = 1, .count = index->sample_count};
    if (column_bytes(&column) > bytes_max)
        return LARDER_ELIMIT;
    column.words = malloc(index->sample_count * sizeof *column.words);
    if (!column.words)
        return LARDER_ENOMEM;
    for (size_t i = 0; i < index->sample_count; i++)
        column.words[i] = (uint64_t)(int64_t)index_label(index, i);
    *out = column;
    return 0;
}

/* ── any ── */

struct column_call {
    const struct source *source;
    const char *name;
    const struct interrupt *interrupt;
    struct cells cells;
    int code;
    struct error *err;
};

static void call_column(void *context)
{
    struct column_call *call = context;
    call->code = call->source->kind->column(call->source, call->name, call->interrupt, &call->cells, call->err);
}

static bool is_of_index(const char *name)
{
    static const char *const names[] = {COLUMN_PATH, COLUMN_ROOT, COLUMN_CLASSES};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* Gathers the cells of a column: the kind comes first, for it may know one of every source better. */
static int gather(struct column_call *call)
{
    const struct source *source = call->source;
    call->code = LARDER_ENOENT;
    if (source->kind->column && !is_of_index(call->name))
        medium_run(&source->medium, call_column, call);
    if (call->code != LARDER_ENOENT)
        return call->code;
    if (strcmp(call->name, COLUMN_NAMES) == 0)
        return 0;
    if (strcmp(call->name, COLUMN_CLASSES) == 0)
        return add_classes(&source->index, &call->cells);
    if (strcmp(call->name, COLUMN_ROOT) == 0)
        return cells_add_text(&call->cells, source->index.root, strlen(source->index.root));
    if (strcmp(call->name, COLUMN_KEY) == 0)
        return add_keys(&source->index, &call->cells);
    if (strcmp(call->name, COLUMN_PATH) == 0)
        return add_paths(&source->index, &call->cells);
    return LARDER_ENOENT;
}

static int say_why(const struct column_call *call, int code)
{
    struct shown text, name;
    const char *of = path_shown(call->source->index.text, &text), *what = path_shown(call->name, &name);
    if (code == LARDER_ENOENT)
        return error_set(call->err, code, "%s, which is %s, has no column \"%s\"", of, call->source->kind->name, what);
    if (code == LARDER_ELIMIT)
        return error_set(call->err, code, "column \"%s\" of %s takes more than the %llu bytes of limits.columns", what,
                         of, (unsigned long long)call->cells.bytes_max);
    if (code == LARDER_ENOMEM)
        return error_set(call->err, code, "out of memory for column \"%s\" of %s", what, of);
    return code;
}

int source_column(const struct source *source, const char *name, uint64_t bytes_max, const struct interrupt *interrupt,
                  struct column *out, struct error *err)
{
    struct error own = {0};
    struct column_call call = {
        .source = source, .name = name, .interrupt = interrupt, .cells = {.bytes_max = bytes_max}, .err = &own};
    int code;
    if (strcmp(name, COLUMN_LABEL) == 0) {
        code = labels_of(&source->index, bytes_max, out);
    } else {
        code = gather(&call);
        code = code ? code : cells_finish(&call.cells, out);
        cells_free(&call.cells);
    }
    if (!code)
        return 0;
    if (!*own.text)
        say_why(&call, code);
    return error_set(err, code, "%s", own.text);
}
