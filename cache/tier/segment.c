/* segment.c: the segment files of a folder, and their indices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"

void segment_name(const char *kind, uint32_t number, char out[SEGMENT_NAME_BYTES])
{
    snprintf(out, SEGMENT_NAME_BYTES, "%s-%08x", kind, number);
}

int segment_scan(int fd, uint64_t from, uint64_t len_bytes, segment_found_fn *found, void *ctx, uint64_t *end)
{
    uint8_t header[RECORD_HEADER_BYTES];
    struct record record;
    while (len_bytes - from > RECORD_HEADER_BYTES) {
        if (file_read_at(fd, header, sizeof header, from))
            return LARDER_EIO;
        uint64_t offset = from + RECORD_HEADER_BYTES;
        if (!tier_header_parse(header, &record) || record.len_bytes > len_bytes - offset)
            break;
        int code = found(ctx, &record, offset);
        if (code)
            return code;
        from = offset + record.len_bytes;
    }
    *end = from;
    return 0;
}

bool segment_index_load(int dir_fd, uint32_t number, uint64_t file_bytes, struct segment_index *out)
{
    char name[SEGMENT_NAME_BYTES];
    struct stat st;
    segment_name("index", number, name);
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= INDEX_BYTES_MAX;
    uint8_t *bytes = good ? malloc((size_t)st.st_size + 1) : NULL;
    good = bytes && file_read_at(fd, bytes, (size_t)st.st_size, 0) == 0 &&
           index_parse(bytes, (size_t)st.st_size, number, out);
    free(bytes);
    close(fd);
    if (good && out->sealed_bytes > file_bytes) { /* the segment was cut off */
        free(out->places);
        return false;
    }
    return good;
}

/* number_of returns the number in a file's name, if it is one of this kind. */
static bool number_of(const char *name, const char *kind, uint32_t *out)
{
    char again[SEGMENT_NAME_BYTES];
    size_t len = strlen(kind);
    if (strncmp(name, kind, len) != 0 || name[len] != '-')
        return false;
    *out = (uint32_t)strtoul(name + len + 1, NULL, 16);
    segment_name(kind, *out, again);
    return *out <= SEGMENT_NUMBER_MAX && strcmp(name, again) == 0;
}

bool segment_is_named(const char *name)
{
    uint32_t number;
    return number_of(name, "segment", &number) || number_of(name, "index", &number);
}

int segment_remove(int dir_fd, uint32_t number)
{
    char name[SEGMENT_NAME_BYTES];
    segment_name("index", number, name);
    unlinkat(dir_fd, name, 0);
    segment_name("segment", number, name);
    return unlinkat(dir_fd, name, 0) && errno != ENOENT ? -1 : 0;
}

static bool is_left_over(int dir_fd, const char *name)
{
    char segment[SEGMENT_NAME_BYTES];
    uint32_t number;
    size_t len = strlen(name);
    if (number_of(name, "index", &number)) {
        segment_name("segment", number, segment);
        return faccessat(dir_fd, segment, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    }
    return len > strlen(FILE_TEMPORARY) && strcmp(name + len - strlen(FILE_TEMPORARY), FILE_TEMPORARY) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int segment_numbers(int dir_fd, bool keep, uint32_t **numbers, size_t *count)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return LARDER_EIO;
    }
    uint32_t *all = NULL, number;
    size_t n = 0, cap = 0;
    int code = 0;
    for (struct dirent *entry; !code && (entry = readdir(dir));) {
        if (number_of(entry->d_name, "segment", &number)) {
            if (n == cap) {
                cap = cap ? cap * 2 : 64;
                uint32_t *grown = realloc(all, cap * sizeof *all);
                code = grown ? 0 : LARDER_ENOMEM;
                all = grown ? grown : all;
            }
            if (!code)
                all[n++] = number;
        } else if (!keep && is_left_over(dir_fd, entry->d_name)) {
            unlinkat(dir_fd, entry->d_name, 0);
        }
    }
    closedir(dir);
    if (code) {
        free(all);
        return code;
    }
    if (n)
        qsort(all, n, sizeof *all, by_number);
    *numbers = all;
    *count = n;
    return 0;
}
