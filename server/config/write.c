/* write.c: settings as the text of a file: those in effect, and an example of all. */
#include <string.h>

#include "server/config/config_priv.h"

#define HELP_COLUMNS 110

static const char *const source_names[] = {"default", "file", "command line"};

static void begin_section(size_t index, FILE *out)
{
    const struct config_row *row = &config_rows[index];
    if (index == 0 || strcmp(config_rows[index - 1].section, row->section) != 0)
        fprintf(out, "%s:\n", row->section);
}

void config_dump(const struct config *config, FILE *out)
{
    char size[32];
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const struct config_row *row = &config_rows[i];
        begin_section(i, out);
        fprintf(out, "  %s: ", row->key);
        config_value_print(config, row, out);
        fprintf(out, "  # %s", source_names[config->source[i]]);
        if (config->source[i] == CONFIG_FROM_FILE)
            fprintf(out, " line %u", config->mark[i].line);
        if (row->kind == CONFIG_BYTES) {
            config_bytes_print(*(const uint64_t *)((const char *)config + row->offset), size, sizeof size);
            fprintf(out, ", %s", size);
        }
        fputc('\n', out);
    }
    config_storage_print(config, out);
    config_roots_print(config, out);
    if (config->n_datasets)
        fputs("datasets:\n", out);
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        const struct config_dataset *dataset = &config->datasets[i];
        fprintf(out, "  %s:\n    path: ", dataset->name);
        config_text_print(dataset->path, out);
        fprintf(out, dataset->pipeline ? "\n    pipeline: %s\n" : "\n", dataset->pipeline);
        if (dataset->subset)
            fprintf(out, "    subset: %s\n", dataset->subset);
    }
}

/* wrap writes a text as comment lines. */
static void wrap(const char *text, const char *indent, FILE *out)
{
    while (*text) {
        size_t len = strlen(text);
        if (len > HELP_COLUMNS) {
            len = HELP_COLUMNS;
            while (len > 0 && text[len] != ' ')
                len--;
        }
        fprintf(out, "%s# %.*s\n", indent, (int)len, text);
        text += len + (text[len] == ' ');
    }
}

static void print_bounds(const struct config_row *row, FILE *out)
{
    char min[32], max[32];
    fprintf(out, "  # %s", row->unit);
    switch (row->kind) {
    case CONFIG_COUNT:
    case CONFIG_WIDTH:
        fprintf(out, ", %llu to %llu", (unsigned long long)row->min, (unsigned long long)row->max);
        break;
    case CONFIG_LIST: fprintf(out, ", at most %llu", (unsigned long long)row->max); break;
    case CONFIG_SHARE:
        fprintf(out, ", %llu%% to %llu%%", (unsigned long long)row->min, (unsigned long long)row->max);
        break;
    case CONFIG_BYTES:
        config_bytes_print(row->min, min, sizeof min);
        config_bytes_print(row->max, max, sizeof max);
        fprintf(out, ", %s to %s", min, max);
        break;
    default: break;
    }
    fputc('\n', out);
}

void config_example(FILE *out)
{
    fputs("# larderd: every setting with its default. What is left out keeps its default, so a file needs only what "
          "differs.\n"
          "# Made by `larder check --example`; `larder check FILE` checks a file.\n\n",
          out);
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const struct config_row *row = &config_rows[i];
        begin_section(i, out);
        wrap(row->help, "  ", out);
        fprintf(out, "  %s: %s", row->key, row->initial);
        print_bounds(row, out);
        if (i + 1 == CONFIG_SETTINGS || strcmp(config_rows[i + 1].section, row->section) != 0)
            fputc('\n', out);
    }
    fputs(
        "# Folders on local disks, the fastest first, that keep what was read from slower storage, over restarts too\n"
        "# (docs/reference/storage.md). Each is its own daemon's alone. threads: reads that it has at once, 1 to 64.\n"
        "# With the form planes, JPEGs are written once more while nothing else is done, and are decoded faster.\n"
        "storage:\n"
        "  # - {path: /nvme/larder, size: 800GiB, threads: 4, form: as_read}\n\n",
        out);
    fputs("# The folders below which datasets must lie, links resolved. Without them: anywhere that the daemon may "
          "read.\n"
          "roots:\n"
          "  # - /data\n\n",
          out);
    fputs("# Datasets that clients may name instead of giving the folder, each with a pipeline for those that name "
          "none,\n# and perhaps narrowed to a subset: what a client asks for is then of that.\n"
          "datasets:\n"
          "  # imagenet-train:\n"
          "  #   path: /data/imagenet/train\n"
          "  #   pipeline:\n"
          "  #     - random_resized_crop: {size: 224}\n"
          "  #     - random_horizontal_flip\n"
          "  #   subset: {classes: [\"n015*\"]}\n",
          out);
}
