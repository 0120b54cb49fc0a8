#include "server/recorder_events.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"

#define MAGIC UINT64_C(0x3153544e45564552)
#define FILE_BYTES_MAX (1u << 20)

/* As in memory: the file is of this machine, and of no other build of larderd, or its size or checksum is another. */
struct kept {
    uint64_t sum, magic; /* sum: over what follows it */
    double time_s;
    uint64_t job; /* the number of the job that it is about */
    struct recorder_event event;
};

void recorder_event_apply(struct past *past, const struct recorder_event *event, double now_s)
{
    switch (event->fate) {
    case DRIVER_CAME: past_came(past, event->place, event->text, now_s); break;
    case DRIVER_FAILED: past_failed(past, event->place, now_s, event->text); break;
    case DRIVER_ENDED: past_ended(past, event->place, event->end, &event->last, now_s); break;
    }
}

static uint64_t sum_of(const struct kept *kept)
{
    return XXH3_64bits((const char *)kept + sizeof kept->sum, sizeof *kept - sizeof kept->sum);
}

int recorder_events_append(const char *path, const struct past *past, const struct recorder_event *event, double now_s,
                           struct error *err)
{
    struct kept kept;
    memset(&kept, 0, sizeof kept); /* its gaps too, which the checksum covers */
    kept.magic = MAGIC + sizeof kept;
    kept.time_s = now_s;
    kept.job = event->fate == DRIVER_CAME ? past_next(past) : past_at(past, event->place);
    memcpy(&kept.event, event, sizeof *event);
    kept.sum = sum_of(&kept);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return file_error(err, path, "open it");
    off_t end = lseek(fd, 0, SEEK_END);
    int code = 0;
    if (end < 0 || end + (off_t)sizeof kept > FILE_BYTES_MAX)
        code = error_set(err, LARDER_ELIMIT, "%s: it is full, for the history beside it was not written", path);
    else if (write(fd, &kept, sizeof kept) != (ssize_t)sizeof kept)
        code = file_error(err, path, "write it");
    close(fd);
    return code;
}

static bool makes_sense(const struct kept *kept, double before_s, double now_s)
{
    const struct recorder_event *event = &kept->event;
    bool figures = isfinite(event->last.epochs_done) && event->last.epochs_done >= 0;
    for (size_t cause = 0; cause < PAST_CAUSES; cause++)
        figures = figures && isfinite(event->last.waits_s[cause]) && event->last.waits_s[cause] >= 0;
    return kept->magic == MAGIC + sizeof *kept && kept->sum == sum_of(kept) && kept->time_s >= before_s &&
           kept->time_s <= now_s && event->place < JOBS_MAX && event->end < PAST_STATES && figures &&
           memchr(event->text, '\0', sizeof event->text);
}

bool recorder_events_replay(const char *path, struct past *past, double now_s)
{
    uint8_t *bytes = NULL;
    size_t len_bytes = 0;
    bool any = false;
    double before_s = 0;
    struct error err;
    if (file_load(&(struct file_wanted){.path = path, .max_bytes = FILE_BYTES_MAX}, &bytes, &len_bytes, &err))
        return false;
    for (size_t at = 0; at + sizeof(struct kept) <= len_bytes; at += sizeof(struct kept)) {
        struct kept kept;
        memcpy(&kept, bytes + at, sizeof kept);
        if (!makes_sense(&kept, before_s, now_s))
            break;
        before_s = kept.time_s;
        bool comes = kept.event.fate == DRIVER_CAME;
        if (comes ? kept.job != past_next(past) : !past_put(past, kept.event.place, (uint32_t)kept.job))
            continue; /* the history has it already */
        recorder_event_apply(past, &kept.event, kept.time_s);
        any = true;
    }
    free(bytes);
    return any;
}

void recorder_events_clear(const char *path)
{
    unlink(path);
}
