#include "preprocess/command_files.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/check.h"
#include "preprocess/decode/jpeg_rewrite.h"

int command_file_read(const char *path, struct command_file *out, struct error *err)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st) || !S_ISREG(st.st_mode)) {
        int rc = error_set(err, LARDER_EIO, "%s: %s", path, file ? "not a file" : strerror(errno));
        if (file)
            fclose(file);
        return rc;
    }
    struct command_file read = {.len_bytes = (size_t)st.st_size};
    read.data = malloc(read.len_bytes + 1);
    int rc = 0;
    if (!read.data || fread(read.data, 1, read.len_bytes, file) != read.len_bytes) {
        rc = error_set(err, LARDER_EIO, "%s cannot be read", path);
        free(read.data);
    } else {
        read.path = xstrdup(path);
        *out = read;
    }
    fclose(file);
    return rc;
}

static bool is_image(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".ppm", ".pgm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++) {
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    }
    return false;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

int command_files_read(const char *folder, uint64_t max_bytes, struct command_files *out, struct error *err)
{
    struct command_files files = {0};
    char *const roots[] = {(char *)folder, NULL};
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    int rc = tree ? 0 : error_set(err, LARDER_EIO, "%s: %s", folder, strerror(errno));
    for (FTSENT *entry; rc == 0 && files.bytes < max_bytes && (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_F || !is_image(entry->fts_name))
            continue;
        files.items = xrealloc(files.items, files.count + 1, sizeof *files.items);
        rc = command_file_read(entry->fts_path, &files.items[files.count], err);
        if (rc == 0)
            files.bytes += files.items[files.count++].len_bytes;
    }
    if (tree)
        fts_close(tree);
    if (rc == 0 && files.count == 0)
        rc = error_set(err, LARDER_ENOENT, "%s: no image files there", folder);
    if (rc)
        command_files_free(&files);
    else
        *out = files;
    return rc;
}

/* Makes other bytes of a file, which the caller frees, or none where the file is to stay. */
typedef uint8_t *remake_fn(const struct command_file *file, uint32_t interval, size_t *new_bytes);

static struct command_files remake(const struct command_files *files, remake_fn *fn, uint32_t interval)
{
    struct command_files made = {.items = xcalloc(files->count, sizeof *made.items), .count = files->count};
    for (size_t i = 0; i < files->count; i++) {
        const struct command_file *file = &files->items[i];
        struct command_file *copy = &made.items[i];
        copy->path = xstrdup(file->path);
        copy->data = fn(file, interval, &copy->len_bytes);
        if (!copy->data) {
            copy->len_bytes = file->len_bytes;
            copy->data = xmalloc(file->len_bytes + 1);
            memcpy(copy->data, file->data, file->len_bytes);
        }
        made.bytes += copy->len_bytes;
    }
    return made;
}

static uint8_t *mark(const struct command_file *file, uint32_t interval, size_t *new_bytes)
{
    return jpeg_rewrite(file->data, file->len_bytes, interval, new_bytes);
}

static uint8_t *in_planes(const struct command_file *file, uint32_t interval, size_t *new_bytes)
{
    uint8_t *planes = jpeg_rewrite_in_planes(file->data, file->len_bytes, new_bytes);
    return planes ? planes : mark(file, interval, new_bytes);
}

struct command_files command_files_mark(const struct command_files *files, uint32_t interval)
{
    return remake(files, mark, interval);
}

struct command_files command_files_in_planes(const struct command_files *files)
{
    return remake(files, in_planes, JPEG_REWRITE_MCUS);
}

void command_files_free(struct command_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].data);
    }
    free(files->items);
    *files = (struct command_files){0};
}
