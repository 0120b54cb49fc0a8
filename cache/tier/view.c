/* view.c: looks at a class from outside, and empties one. A daemon may use the class meanwhile: segments that have gone
 * since they were listed are passed over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"

struct viewing {
    const struct tier_viewer *viewer;
    struct tier_view *view;
    char name[SEGMENT_NAME_BYTES];
    int fd;
    uint8_t *bytes; /* one sample's */
    size_t cap;
    bool stopped;
};

static void tell(const struct viewing *viewing, const char *what)
{
    if (viewing->viewer->problem)
        viewing->viewer->problem(viewing->viewer->ctx, viewing->name, what);
}

/* is_right reads a record's bytes and compares their hash. */
static bool is_right(struct viewing *viewing, const struct record *record, uint64_t offset)
{
    if (viewing->cap < record->len_bytes) {
        free(viewing->bytes);
        viewing->cap = record->len_bytes;
        viewing->bytes = malloc(viewing->cap);
    }
    if (!viewing->bytes) {
        viewing->cap = 0;
        return false;
    }
    return file_read_at(viewing->fd, viewing->bytes, record->len_bytes, offset) == 0 &&
           tier_hash(viewing->bytes, record->len_bytes) == record->hash;
}

static int see_record(void *ctx, const struct record *record, uint64_t offset)
{
    struct viewing *viewing = ctx;
    const struct tier_viewer *viewer = viewing->viewer;
    if (viewer->go_on && !viewer->go_on(viewer->ctx)) {
        viewing->stopped = true;
        return LARDER_EGONE;
    }
    viewing->view->samples++;
    viewing->view->planes += record->form == TIER_PLANES;
    viewing->view->sample_bytes += record->len_bytes;
    if (viewer->verify && !is_right(viewing, record, offset)) {
        char what[96];
        snprintf(what, sizeof what, "the record at byte %llu is damaged: it will be read from the source instead",
                 (unsigned long long)offset);
        tell(viewing, what);
        viewing->view->broken++;
    }
    return 0;
}

static void see_segment(struct viewing *viewing, int dir_fd, uint32_t number)
{
    struct tier_view *view = viewing->view;
    struct segment_index index;
    struct stat st;
    segment_name("segment", number, viewing->name);
    viewing->fd = openat(dir_fd, viewing->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (viewing->fd < 0 && errno == ENOENT)
        return;
    if (viewing->fd < 0 || fstat(viewing->fd, &st)) {
        tell(viewing, strerror(errno));
        view->broken++;
    } else {
        uint64_t end = (uint64_t)st.st_size, file_bytes = end;
        bool indexed = segment_index_load(dir_fd, number, file_bytes, &index);
        view->segments++;
        view->used_bytes += file_bytes;
        if (segment_scan(viewing->fd, 0, file_bytes, see_record, viewing, &end) == LARDER_EIO) {
            tell(viewing, "cannot be read");
            view->broken++;
        } else if (!viewing->stopped) {
            view->sealed_segments += indexed && index.sealed_bytes == end;
            view->unfinished_bytes += file_bytes - end;
            if (indexed && index.sealed_bytes > end) {
                tell(viewing, "a record's header is damaged; those behind it are found by the index");
                view->broken++;
            }
        }
        if (indexed)
            free(index.places);
    }
    if (viewing->fd >= 0)
        close(viewing->fd);
}

int tier_view_read(const char *path, const struct tier_viewer *viewer, struct tier_view *out, struct error *err)
{
    struct folder folder = {.lock_fd = -1};
    struct tier_view view = {0};
    struct viewing viewing = {.viewer = viewer, .view = &view};
    uint32_t *numbers = NULL;
    size_t count = 0;
    folder.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.dir_fd < 0)
        return file_error(err, path, "open it");
    int code = folder_read_class(path, folder.dir_fd, &folder, err);
    if (!code && segment_numbers(folder.dir_fd, true, &numbers, &count))
        code = file_error(err, path, "list its files");
    view.in_use = folder_is_locked(folder.dir_fd);
    view.size_bytes = folder.size_bytes;
    for (size_t i = 0; !code && !viewing.stopped && i < count; i++)
        see_segment(&viewing, folder.dir_fd, numbers[i]);
    if (viewing.stopped)
        code = error_set(err, LARDER_EGONE, "%s: stopped", path);
    free(viewing.bytes);
    free(numbers);
    folder_close(&folder);
    if (!code)
        *out = view;
    return code;
}

int tier_empty(const char *path, struct error *err)
{
    struct folder folder;
    uint32_t *numbers = NULL;
    size_t count = 0;
    int code = folder_open_class(path, 0, &folder, err);
    if (code)
        return code;
    if (segment_numbers(folder.dir_fd, false, &numbers, &count))
        code = file_error(err, path, "list its files");
    for (size_t i = 0; !code && i < count; i++) {
        if (segment_remove(folder.dir_fd, numbers[i]))
            code = file_error(err, path, "remove one of its segments");
    }
    free(numbers);
    folder_close(&folder);
    return code;
}
