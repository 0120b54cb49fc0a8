/* storage.c: the list of storage classes. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/nearest.h"
#include "server/config/config_priv.h"

enum { STORAGE_ROWS = 4, KEY_MAX = 160 };

#define FORM_AS_READ "as_read"
#define FORM_PLANES "planes"

static const struct config_row rows[STORAGE_ROWS] = {
    {.kind = CONFIG_FOLDER,
     .offset = offsetof(struct config_storage, path),
     .key = "path",
     .unit = "an absolute path",
     .min = 1,
     .max = CONFIG_STORAGE_PATH_MAX},
    {.kind = CONFIG_SIZE,
     .offset = offsetof(struct config_storage, size_bytes),
     .key = "size",
     .unit = "a size",
     .min = CONFIG_STORAGE_MIN,
     .max = CONFIG_STORAGE_MAX},
    {.kind = CONFIG_COUNT,
     .offset = offsetof(struct config_storage, threads),
     .key = "threads",
     .unit = "reads at once",
     .min = 1,
     .max = CONFIG_STORAGE_THREADS_MAX},
    {.kind = CONFIG_CHOICE,
     .offset = offsetof(struct config_storage, form),
     .key = "form",
     .unit = FORM_AS_READ "|" FORM_PLANES,
     .max = CONFIG_FORM_PLANES},
};

static int fail_at(const struct config *config, const struct doc_node *node, const char *key, const char *text,
                   struct error *err)
{
    return config_fail(err, LARDER_EINVAL, config->file, node->at, key, "%s", text);
}

static int unknown_key(const struct config *config, const char *path, const struct doc_node *key, struct error *err)
{
    struct nearest suggestion = {.given = key->text};
    for (int i = 0; i < STORAGE_ROWS; i++)
        nearest_consider(&suggestion, rows[i].key, rows[i].key);
    if (suggestion.best)
        return config_fail(err, LARDER_EINVAL, config->file, key->at, path, "no such setting: did you mean %s?",
                           suggestion.best);
    return fail_at(config, key, path, "no such setting: a storage class has path, size, threads and form", err);
}

static int apply_value(const struct config *config, const char *prefix, const struct doc_node *key,
                       const struct doc_node *value, struct config_storage *storage, struct error *err)
{
    static const struct config_machine no_machine; /* no value here depends on it */
    char path[KEY_MAX];
    struct error why;
    int row = 0;
    snprintf(path, sizeof path, "%s.%s", prefix, config_shown(key->text));
    while (row < STORAGE_ROWS && strcmp(rows[row].key, key->text) != 0)
        row++;
    if (row == STORAGE_ROWS)
        return unknown_key(config, path, key, err);
    if (value->kind != DOC_SCALAR || doc_is_null(value))
        return config_fail(err, LARDER_EINVAL, config->file, value->at, path, "write one value (%s)", rows[row].unit);
    int code = config_value_read((char *)storage + rows[row].offset, &rows[row],
                                 (struct config_scalar){.text = value->text, .quoted = value->quoted}, &no_machine,
                                 &why);
    return code ? config_fail(err, code, config->file, value->at, path, "%s", why.text) : 0;
}

static int apply_class(struct config *config, uint32_t number, const struct doc_node *node, struct error *err)
{
    struct config_storage *storage = &config->storage[number];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "storage[%u]", number);
    storage->at = node->at;
    storage->threads = CONFIG_STORAGE_THREADS;
    if (node->kind != DOC_MAPPING)
        return fail_at(config, node, prefix, "is a storage class: write `{path: /a/folder, size: 100GiB}`", err);
    for (uint32_t i = 0; i < node->n_children; i += 2) {
        int code = apply_value(config, prefix, node->children[i], node->children[i + 1], storage, err);
        if (code)
            return code;
    }
    if (!storage->path)
        return fail_at(config, node, prefix, "has no path: write `path: /a/folder`, a folder of its own", err);
    if (!storage->size_bytes)
        return fail_at(config, node, prefix, "has no size: write how much it may take of the disk, `size: 100GiB`",
                       err);
    for (uint32_t i = 0; i < number; i++) {
        if (strcmp(config->storage[i].path, storage->path) == 0)
            return fail_at(config, node, prefix, "has the path of an earlier one: give each a folder of its own", err);
    }
    return 0;
}

int config_storage_apply(struct config *config, const struct doc_node *value, struct error *err)
{
    if (doc_is_null(value))
        return 0;
    if (value->kind != DOC_SEQUENCE)
        return fail_at(config, value, "storage",
                       "is a list of storage classes, the fastest first: write `- {path: /a/folder, size: 100GiB}`",
                       err);
    if (value->n_children > CONFIG_STORAGE_CLASSES_MAX)
        return fail_at(config, value, "storage", "too many storage classes: at most 8 are possible", err);
    if (value->n_children == 0)
        return 0;
    config->storage = xcalloc(value->n_children, sizeof *config->storage);
    config->n_storage = value->n_children;
    for (uint32_t i = 0; i < value->n_children; i++) {
        int code = apply_class(config, i, value->children[i], err);
        if (code)
            return code;
    }
    return 0;
}

void config_storage_print(const struct config *config, FILE *out)
{
    char size[32];
    if (config->n_storage)
        fputs("storage:\n", out);
    for (uint32_t i = 0; i < config->n_storage; i++) {
        const struct config_storage *storage = &config->storage[i];
        config_bytes_print(storage->size_bytes, size, sizeof size);
        fputs("  - path: ", out);
        config_text_print(storage->path, out);
        fprintf(out, "\n    size: %lluB  # %s\n    threads: %llu\n    form: %s\n",
                (unsigned long long)storage->size_bytes, size, (unsigned long long)storage->threads,
                storage->form == CONFIG_FORM_PLANES ? FORM_PLANES : FORM_AS_READ);
    }
}

void config_storage_free(struct config *config)
{
    for (uint32_t i = 0; i < config->n_storage; i++)
        free(config->storage[i].path);
    free(config->storage);
}
