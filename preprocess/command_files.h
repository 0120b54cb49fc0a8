/* command_files.h: the commands' images, in memory. */
#ifndef LARDER_PREPROCESS_COMMAND_FILES_H
#define LARDER_PREPROCESS_COMMAND_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct command_file {
    char *path;
    uint8_t *data;
    size_t len_bytes;
};

/* Owns its files; command_files_free frees them. */
struct command_files {
    struct command_file *items;
    size_t count;
    uint64_t bytes; /* total of all files */
};

/* command_file_read reads one file. The caller frees path and data. */
int command_file_read(const char *path, struct command_file *out, struct error *err);
/* command_files_read reads the image files (by extension) below a folder, in order of path, up to max_bytes. */
int command_files_read(const char *folder, uint64_t max_bytes, struct command_files *out, struct error *err);
/* command_files_mark returns the same files, the JPEGs of them with restart markers (jpeg_rewrite.h). */
struct command_files command_files_mark(const struct command_files *files, uint32_t interval);
/* command_files_in_planes returns the same files, the JPEGs of them in bit planes (jpeg_planes.h), as in a store. */
struct command_files command_files_in_planes(const struct command_files *files);
void command_files_free(struct command_files *files);

#endif
