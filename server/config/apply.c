/* apply.c: puts a document's sections, their keys and the datasets into the settings. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/nearest.h"
#include "server/config/config_priv.h"

#define DATASET_NAME_MAX 128
#define KEY_MAX 256

static const char dataset_keys[][12] = {"path", "pipeline", "subset"};

static int fail_at(const struct config *config, const struct doc_node *node, const char *key, const char *text,
                   struct error *err)
{
    return config_fail(err, LARDER_EINVAL, config->file, node->at, key, "%s", text);
}

/* ── sections ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool section_known(const char *name)
{
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        if (strcmp(config_rows[i].section, name) == 0)
            return true;
    }
    return false;
}

static int unknown_section(const struct config *config, const struct doc_node *key, struct error *err)
{
    const char *shown = config_shown(key->text);
    struct nearest suggestion = {.given = key->text};
    nearest_consider(&suggestion, "datasets", "datasets:");
    nearest_consider(&suggestion, "storage", "storage:");
    nearest_consider(&suggestion, "roots", "roots:");
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const struct config_row *row = &config_rows[i];
        if (strcmp(key->text, row->key_path) == 0)
            return config_fail(err, LARDER_EINVAL, config->file, key->at, shown,
                               "is written in two levels: put `%s:` below `%s:`", row->key, row->section);
        nearest_consider(&suggestion, row->section, row->section);
        nearest_consider(&suggestion, row->key, row->key_path);
    }
    if (suggestion.best)
        return config_fail(err, LARDER_EINVAL, config->file, key->at, shown, "no such section: did you mean %s?",
                           suggestion.best);
    return config_fail(err, LARDER_EINVAL, config->file, key->at, shown,
                       "no such section: the sections are socket, memory, threads, redirect, limits, log, metrics, "
                       "control, catalog, jobs, cluster, storage, roots and datasets");
}

static int unknown_key(const struct config *config, const char *section, const struct doc_node *key, struct error *err)
{
    char path[KEY_MAX], known[KEY_MAX] = "";
    struct nearest suggestion = {.given = key->text};
    size_t len = 0;
    snprintf(path, sizeof path, "%s.%s", section, config_shown(key->text));
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const struct config_row *row = &config_rows[i];
        if (strcmp(row->section, section) == 0) {
            nearest_consider(&suggestion, row->key, row->key_path);
            len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", len ? ", " : "", row->key);
            CHECK(len < sizeof known);
        }
    }
    for (size_t i = 0; i < CONFIG_SETTINGS && !suggestion.best; i++) {
        if (strcmp(config_rows[i].key, key->text) == 0)
            suggestion.best = config_rows[i].key_path; /* the word is right, but the section is wrong */
    }
    if (suggestion.best)
        return config_fail(err, LARDER_EINVAL, config->file, key->at, path, "no such setting: did you mean %s?",
                           suggestion.best);
    return config_fail(err, LARDER_EINVAL, config->file, key->at, path, "no such setting: `%s` has %s", section, known);
}

static int apply_text(const struct config *config, const struct config_row *row, uint32_t number,
                      const struct doc_node *item, char **out, struct error *err)
{
    const struct config_row text = {.kind = CONFIG_TEXT, .unit = "bytes", .min = 1, .max = CONFIG_LIST_TEXT_MAX};
    static const struct config_machine no_machine; /* no text depends on it */
    char key[KEY_MAX];
    struct error why;
    snprintf(key, sizeof key, "%s[%u]", row->key_path, number);
    if (item->kind != DOC_SCALAR || doc_is_null(item))
        return config_fail(err, LARDER_EINVAL, config->file, item->at, key, "write one text (%s)", row->unit);
    int code = config_value_read(out, &text, (struct config_scalar){.text = item->text, .quoted = item->quoted},
                                 &no_machine, &why);
    return code ? config_fail(err, code, config->file, item->at, key, "%s", why.text) : 0;
}

static int apply_list(struct config *config, const struct config_row *row, const struct doc_node *value,
                      struct error *err)
{
    struct config_text **field = (struct config_text **)(void *)((char *)config + row->offset);
    if (value->n_children > row->max)
        return config_fail(err, LARDER_EINVAL, config->file, value->at, row->key_path,
                           "has %u texts: at most %llu are possible", value->n_children, (unsigned long long)row->max);
    struct config_text *list = value->n_children ? xcalloc(value->n_children + 1u, sizeof *list) : NULL;
    for (uint32_t i = 0; i < value->n_children; i++) {
        list[i].at = value->children[i]->at;
        int code = apply_text(config, row, i, value->children[i], &list[i].text, err);
        if (code) {
            config_list_free(list);
            return code;
        }
    }
    config_list_free(*field);
    *field = list;
    return 0;
}

static int apply_scalar(struct config *config, const struct config_row *row, const struct doc_node *value,
                        const struct config_machine *machine, struct error *err)
{
    struct error why;
    if (value->kind != DOC_SCALAR)
        return config_fail(err, LARDER_EINVAL, config->file, value->at, row->key_path,
                           row->kind == CONFIG_LIST ? "is a mapping: write a list (%s)"
                                                    : "is a list or a mapping: write one value (%s)",
                           row->unit);
    int rc = config_value_set(config, row, (struct config_scalar){.text = value->text, .quoted = value->quoted},
                              machine, &why);
    return rc ? config_fail(err, rc, config->file, value->at, row->key_path, "%s", why.text) : 0;
}

static int apply_setting(struct config *config, const char *section, const struct doc_node *key,
                         const struct doc_node *value, const struct config_machine *machine, struct error *err)
{
    size_t index = 0;
    while (index < CONFIG_SETTINGS &&
           (strcmp(config_rows[index].section, section) != 0 || strcmp(config_rows[index].key, key->text) != 0))
        index++;
    if (index == CONFIG_SETTINGS)
        return unknown_key(config, section, key, err);
    const struct config_row *row = &config_rows[index];
    int rc = row->kind == CONFIG_LIST && value->kind == DOC_SEQUENCE ? apply_list(config, row, value, err)
                                                                     : apply_scalar(config, row, value, machine, err);
    if (rc)
        return rc;
    config->source[index] = CONFIG_FROM_FILE;
    config->mark[index] = value->at;
    return 0;
}

static int apply_section(struct config *config, const struct doc_node *key, const struct doc_node *value,
                         const struct config_machine *machine, struct error *err)
{
    if (doc_is_null(value))
        return 0; /* everything in the section is commented out */
    if (value->kind != DOC_MAPPING)
        return fail_at(config, value, key->text, "is a section: write its settings below it as `key: value`, indented",
                       err);
    for (uint32_t i = 0; i < value->n_children; i += 2) {
        int rc = apply_setting(config, key->text, value->children[i], value->children[i + 1], machine, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* ── datasets ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool name_allowed(const char *name)
{
    size_t len = strlen(name);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return len > 0 && len <= DATASET_NAME_MAX && strspn(name, letters) == len && name[0] != '.';
}

static int unknown_dataset_key(const struct config *config, const char *prefix, const struct doc_node *key,
                               struct error *err)
{
    char path[2 * KEY_MAX];
    struct nearest suggestion = {.given = key->text};
    for (size_t i = 0; i < sizeof dataset_keys / sizeof *dataset_keys; i++)
        nearest_consider(&suggestion, dataset_keys[i], dataset_keys[i]);
    snprintf(path, sizeof path, "%s.%s", prefix, config_shown(key->text));
    if (suggestion.best)
        return config_fail(err, LARDER_EINVAL, config->file, key->at, path, "no such setting: did you mean %s?",
                           suggestion.best);
    return fail_at(config, key, path, "no such setting: a dataset has path, pipeline and subset", err);
}

static int dataset_path(const struct config *config, const char *key, const struct doc_node *value, char **out,
                        struct error *err)
{
    if (value->kind != DOC_SCALAR || value->text[0] != '/')
        return fail_at(config, value, key, "is not an absolute path: write the dataset's folder, from / on", err);
    if (strlen(value->text) > 4095)
        return fail_at(config, value, key, "the path is too long: at most 4095 bytes are possible", err);
    for (const char *at = value->text; *at; at++) {
        if ((unsigned char)*at < ' ')
            return fail_at(config, value, key, "the path has a control character in it: remove it", err);
    }
    *out = xstrdup(value->text);
    return 0;
}

static int apply_dataset(struct config *config, const struct doc_node *key, const struct doc_node *value,
                         struct config_dataset *dataset, struct error *err)
{
    char prefix[KEY_MAX], path[2 * KEY_MAX];
    snprintf(prefix, sizeof prefix, "datasets.%s", config_shown(key->text));
    if (!name_allowed(key->text))
        return fail_at(config, key, prefix,
                       "not a name for a dataset: write 1 to 128 letters, digits, _ - or . (no . first)", err);
    if (value->kind != DOC_MAPPING)
        return fail_at(config, value, prefix, "is a dataset: write `path: /its/folder` below it, indented", err);
    dataset->name = xstrdup(key->text);
    dataset->at = key->at;
    for (uint32_t i = 0; i < value->n_children; i += 2) {
        const struct doc_node *item = value->children[i], *to = value->children[i + 1];
        int rc;
        snprintf(path, sizeof path, "%s.%s", prefix, config_shown(item->text));
        if (strcmp(item->text, "path") == 0)
            rc = dataset_path(config, path, to, &dataset->path, err);
        else if (strcmp(item->text, "pipeline") == 0)
            rc = config_pipeline_json(config->file, to, path, dataset, err);
        else if (strcmp(item->text, "subset") == 0)
            rc = config_subset_json(config->file, to, path, dataset, err);
        else
            rc = unknown_dataset_key(config, prefix, item, err);
        if (rc)
            return rc;
    }
    if (!dataset->path)
        return fail_at(config, key, prefix, "has no path: write `path: /its/folder` below it", err);
    return 0;
}

static int apply_datasets(struct config *config, const struct doc_node *value, struct error *err)
{
    if (doc_is_null(value))
        return 0;
    if (value->kind != DOC_MAPPING)
        return fail_at(config, value, "datasets",
                       "maps names to datasets: write `name:` below it and `path: /its/folder` below that", err);
    uint32_t count = value->n_children / 2;
    if (count > CONFIG_DATASETS_MAX)
        return fail_at(config, value, "datasets", "too many datasets: at most 1024 are possible", err);
    if (count == 0)
        return 0;
    config->datasets = xcalloc(count, sizeof *config->datasets);
    config->n_datasets = count;
    for (uint32_t i = 0; i < count; i++) {
        int rc = apply_dataset(config, value->children[2 * i], value->children[2 * i + 1], &config->datasets[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

int config_apply(struct config *config, const struct doc_node *root, const struct config_machine *machine,
                 struct error *err)
{
    if (!root || doc_is_null(root))
        return 0;
    if (root->kind != DOC_MAPPING)
        return fail_at(
            config, root, "",
            "not a configuration: write sections such as `memory:` with settings such as `arena: 2GiB` below them",
            err);
    for (uint32_t i = 0; i < root->n_children; i += 2) {
        const struct doc_node *key = root->children[i], *value = root->children[i + 1];
        int rc;
        if (strcmp(key->text, "datasets") == 0)
            rc = apply_datasets(config, value, err);
        else if (strcmp(key->text, "storage") == 0)
            rc = config_storage_apply(config, value, err);
        else if (strcmp(key->text, "roots") == 0)
            rc = config_roots_apply(config, value, err);
        else if (section_known(key->text))
            rc = apply_section(config, key, value, machine, err);
        else
            rc = unknown_section(config, key, err);
        if (rc)
            return rc;
    }
    return 0;
}
