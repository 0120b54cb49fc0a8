/* join.c: the handshake that makes a connection a rank's queue: HELLO, WELCOME with the arena, REGISTER with the record
 * of what was taken, REGISTERED. larder_open does it once. link.c repeats it with each later daemon, one message at a
 * time. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/loader_priv.h"

#define CLIENT_NAME "c/" LARDER_VERSION
#define CLASSES_MAX (UINT32_C(1) << 22)

/* ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

int join_ask(struct larder_loader *loader, struct wire_message *msg, int passed_fd, uint64_t deadline_ns, uint32_t *seq)
{
    if (++loader->seq == 0) /* is that of messages which answer nothing */
        ++loader->seq;
    *seq = msg->seq = loader->seq;
    int rc = connection_send(&loader->connection, msg, passed_fd, deadline_ns, &loader->error);
    return rc == LARDER_EGONE ? 0 : rc;
}

int join_take(struct larder_loader *loader, enum wire_type wanted, uint32_t seq, uint64_t deadline_ns,
              struct wire_message *answer, int *passed_fd)
{
    struct wire_message got;
    struct error *err = &loader->error;
    int rc = connection_receive(&loader->connection, &got, passed_fd, deadline_ns, err);
    if (rc)
        return rc;
    if (got.type == wanted && got.seq == seq) {
        *answer = got;
        return 0;
    }
    if (passed_fd && *passed_fd >= 0)
        close(*passed_fd);
    if (got.type == WIRE_ERROR)
        return connection_daemon_error(&got.error, err);
    return error_set(err, LARDER_EFORMAT, "the daemon at %s answered with a message of type %d where type %d was due",
                     loader->connection.path, (int)got.type, (int)wanted);
}

/* ── HELLO and WELCOME ───────────────────────────────────────────────────────────────────────────────────────────── */

int join_greet(struct larder_loader *loader, uint64_t deadline_ns, uint32_t *seq)
{
    struct wire_message msg = {.type = WIRE_HELLO, .hello = {.pid = (uint32_t)loader->pid}};
    msg.hello.client = text_of(CLIENT_NAME);
    return join_ask(loader, &msg, -1, deadline_ns, seq);
}

int join_take_welcome(struct larder_loader *loader, uint32_t seq, uint64_t deadline_ns)
{
    struct wire_message answer;
    int fd = -1;
    int rc = join_take(loader, WIRE_WELCOME, seq, deadline_ns, &answer, &fd);
    if (rc)
        return rc;
    rc = arena_map(loader, fd, answer.welcome.arena_bytes, &loader->arena, &loader->error);
    if (rc == 0 && loader->asked.batch_size > answer.welcome.batch_max)
        rc = error_set(&loader->error, LARDER_ELIMIT, "batch_size is %u, and the daemon at %s allows %u",
                       loader->asked.batch_size, loader->connection.path, answer.welcome.batch_max);
    return rc;
}

/* ── REGISTER and REGISTERED ─────────────────────────────────────────────────────────────────────────────────────── */

/* encode_to writes the record to a memory file that has room for it. */
static int encode_to(int fd, const struct record *record, size_t bytes, struct error *err)
{
    size_t len;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return error_set(err, LARDER_ENOMEM, "no memory for the record of what was taken: %s", strerror(errno));
    int rc = record_encode(record, at, bytes, &len);
    munmap(at, bytes);
    return rc ? error_set(err, rc, "what was taken cannot be put into a record (%s)", larder_err_name(rc)) : 0;
}

static int make_record(struct larder_loader *loader, const struct record *record, int *out)
{
    struct error *err = &loader->error;
    size_t bytes = record_bytes(record);
    int fd = memfd_create("larder-record", MFD_CLOEXEC);
    if (fd < 0)
        return descriptor_error(&loader->connection, errno, "no file of memory for the record of what was taken", err);
    int rc = 0, number;
    do { /* a page that cannot be had later ends the process with SIGBUS */
        number = posix_fallocate(fd, 0, (off_t)bytes);
    } while (number == EINTR);
    if (number)
        rc = error_set(err, LARDER_ENOMEM, "no memory for the record of what was taken: %s", strerror(number));
    else
        rc = encode_to(fd, record, bytes, err);
    if (rc)
        close(fd);
    else
        *out = fd;
    return rc;
}

void join_settle(struct larder_loader *loader)
{
    struct wire_message msg = {.type = WIRE_CLASSES_GET, .classes_get = {.first = loader->job.n_classes}}, got;
    uint64_t deadline_ns = deadline_after(SETTLE_TIMEOUT_MS);
    uint32_t seq;
    int fd = -1, rc = join_ask(loader, &msg, -1, deadline_ns, &seq);
    while (rc == 0) {
        rc = connection_receive(&loader->connection, &got, &fd, deadline_ns, &loader->error);
        if (rc == 0 && fd >= 0)
            close(fd);
        if (rc == 0 && got.seq == seq) /* its page of no names, or why there is none */
            return;
    }
}

static uint32_t flags_of(const struct larder_options *o)
{
    return (o->drop_last ? WIRE_DROP_LAST : 0u) | (o->relabel ? WIRE_RELABEL : 0u) |
           (o->private_augment ? WIRE_PRIVATE_AUGMENT : 0u) | (o->ordered ? WIRE_ORDERED : 0u) |
           (o->all_files ? WIRE_ALL_FILES : 0u) | (o->hold ? WIRE_HOLD : 0u);
}

int join_register(struct larder_loader *loader, const struct record *record, const char *name, uint64_t deadline_ns,
                  uint32_t *seq)
{
    const struct larder_options *o = &loader->asked;
    struct wire_message msg = {.type = WIRE_REGISTER};
    msg.reg = (struct wire_register){
        .batch_size = o->batch_size,
        .prefetch = o->prefetch,
        .world_size = o->world_size,
        .rank = o->rank,
        .epochs = o->epochs,
        .shuffle = o->shuffle,
        .bad_policy = o->bad,
        .seed = o->seed,
        .weight = o->weight,
        .local_world_size = o->local_world_size,
        .local_first = o->local_first,
        .deal = o->deal,
        .mix = o->deal == LARDER_DEAL_HOME ? o->mix : 0,
        .flags = flags_of(o) | (record ? WIRE_WITH_STATE : 0u) | (o->world_size > 1 ? WIRE_HEARS_DONE : 0u),
        .name = text_of(name),
        .dataset = text_of(o->dataset),
        .pipeline = text_of(o->pipeline),
        .subset = text_of(o->subset),
    };
    int fd = -1;
    int rc = record ? make_record(loader, record, &fd) : 0;
    if (rc == 0)
        rc = join_ask(loader, &msg, fd, deadline_ns, seq);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int check_registered(const struct larder_loader *loader, const struct wire_registered *job, struct error *err)
{
    if (job->held_max == 0 || job->n_classes > CLASSES_MAX || job->n_samples > job->dataset_samples)
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s described a job that cannot be: %u batches to hold, %u classes, %u samples "
                         "of %u",
                         loader->connection.path, job->held_max, job->n_classes, job->n_samples, job->dataset_samples);
    return 0;
}

int join_take_registered(struct larder_loader *loader, uint32_t seq, uint64_t deadline_ns, struct wire_registered *out)
{
    struct wire_message answer;
    int rc = join_take(loader, WIRE_REGISTERED, seq, deadline_ns, &answer, NULL);
    if (rc == 0)
        rc = check_registered(loader, &answer.registered, &loader->error);
    if (rc == 0)
        *out = answer.registered;
    return rc;
}

void join_name(struct larder_loader *loader, const struct wire_text *name)
{
    memcpy(loader->job_name, name->data, name->len_bytes); /* ≤ WIRE_NAME_MAX */
    loader->job_name[name->len_bytes] = 0;
    loader->job.name = text_of(loader->job_name);
}
