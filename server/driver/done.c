#include "server/driver/done.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/driver/token.h"

/* hears tells whether the rank's client is to be told of others. One that has asked for nothing yet is told when it
 * does, so that no message comes between its questions and their answers. */
static bool hears(const struct driver_job *job, uint32_t rank)
{
    const struct driver_rank *to = &job->ranks[rank];
    return to->there && to->hears_done && to->asked && !history_is_done(job->given.now, rank);
}

static void send(struct driver *driver, const struct driver_job *job, uint32_t to, const struct wire_message *message,
                 int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0)
        session_send_fd(driver->session, job->ranks[to].client, message, copy);
    else
        log_warn_limited("msg=\"no descriptor to tell a rank what another has had\" job=\"%s\"", job->reg->name);
}

/* tell sends the finished rank's history to the ranks from `first` to before `end`. */
static void tell(struct driver *driver, const struct driver_job *job, uint32_t rank, uint32_t first, uint32_t end)
{
    const struct registration_asked *asked = &job->reg->asked;
    struct wire_message message = {.type = WIRE_DONE, .done.rank = asked->first_rank + rank};
    uint32_t all = asked->all_ranks ? asked->all_ranks : asked->world_size;
    struct error err = {.text = "no memory"};
    uint8_t *bytes = NULL;
    size_t len;
    int fd;
    given_running(&job->given, &message.done.epoch);
    int rc = history_write(job->given.now, rank, message.done.rank, all, &bytes, &len);
    if (!rc)
        rc = token_bytes_memfd(bytes, len, &fd, &err);
    free(bytes);
    if (rc) {
        log_warn_limited("msg=\"no other rank could be told what this one has had\" job=\"%s\" rank=%u err=\"%s\"",
                         job->reg->name, message.done.rank, err.text);
        return;
    }
    message.done.n_bytes = (uint32_t)len;
    for (uint32_t to = first; to < end; to++) {
        if (to != rank && hears(job, to))
            send(driver, job, to, &message, fd);
    }
    close(fd);
}

void done_look(struct driver *driver, uint32_t place, uint32_t rank)
{
    const struct driver_job *job = &driver->tables.jobs[place];
    if (job->given.now && history_is_done(job->given.now, rank) && !history_told(job->given.now, rank))
        tell(driver, job, rank, 0, job->reg->asked.world_size);
}

void done_asked(struct driver *driver, const struct driver_client *row)
{
    const struct driver_job *job = &driver->tables.jobs[row->job];
    if (job->ranks[row->rank].asked)
        return;
    job->ranks[row->rank].asked = true;
    for (uint32_t rank = 0; job->given.now && rank < job->reg->asked.world_size; rank++) {
        if (rank != row->rank && hears(job, row->rank) && history_is_done(job->given.now, rank))
            tell(driver, job, rank, row->rank, row->rank + 1);
    }
}
