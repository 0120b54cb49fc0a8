#include "fake_daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/thread.h"

#define ENTRY_STRIDE 16u

static struct wire_text text(const char *value)
{
    return (struct wire_text){.data = value, .len_bytes = (uint32_t)strlen(value)};
}

struct sample_layout fake_layout(uint32_t height, uint32_t width, uint32_t channels)
{
    return sample_layout_of_image(&(struct image_shape){.height = height, .width = width, .channels = channels});
}

void fake_init(struct fake_daemon *daemon)
{
    memset(daemon, 0, sizeof *daemon);
    daemon->held_max = 4;
    daemon->arena_claim_bytes = FAKE_ARENA_BYTES;
    daemon->fd = daemon->listener = daemon->arena_fd = -1;
    daemon->job = (struct wire_registered){.job = 3,
                                           .n_samples = 100,
                                           .n_batches = 25,
                                           .n_classes = FAKE_CLASSES,
                                           .sample_bytes = FAKE_SAMPLE_BYTES,
                                           .fingerprint = {7, 8},
                                           .view = {9, 10},
                                           .dataset_samples = FAKE_DATASET_SAMPLES,
                                           .version = {{11, 12}, {13, 14}},
                                           .layout = fake_layout(2, 2, 3),
                                           .name = text("job-3")};
}

static void make_arena(struct fake_daemon *daemon)
{
    daemon->arena_fd = memfd_create("fake-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(daemon->arena_fd >= 0 && ftruncate(daemon->arena_fd, FAKE_ARENA_BYTES) == 0);
    daemon->arena = mmap(NULL, FAKE_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, daemon->arena_fd, 0);
    CHECK(daemon->arena != MAP_FAILED);
    for (uint32_t i = 0; i < FAKE_ARENA_BYTES; i++)
        daemon->arena[i] = (uint8_t)(i / ENTRY_STRIDE);
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    CHECK(daemon->unsealed || fcntl(daemon->arena_fd, F_ADD_SEALS, seals) == 0);
}

void fake_send_bytes(struct fake_daemon *daemon, const void *bytes, size_t len, int passed_fd, unsigned n_fds)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed_fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *at = CMSG_FIRSTHDR(&header);
        at->cmsg_level = SOL_SOCKET;
        at->cmsg_type = SCM_RIGHTS;
        at->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        for (unsigned i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(at) + i * sizeof(int), &passed_fd, sizeof(int));
    }
    ssize_t sent = sendmsg(daemon->fd, &header, MSG_NOSIGNAL);
    (void)sent; /* a client that has closed is part of some tests */
}

void fake_send(struct fake_daemon *daemon, const struct wire_message *msg, int passed_fd)
{
    size_t len = 0;
    CHECK(wire_encode(msg, daemon->out, sizeof daemon->out, &len) == 0);
    fake_send_bytes(daemon, daemon->out, len, passed_fd, 1);
}

static void note(struct fake_daemon *daemon, const struct wire_message *msg)
{
    if (msg->type == WIRE_RELEASE) {
        CHECK(daemon->n_released < 256);
        daemon->released[daemon->n_released++] = msg->release.batch;
    } else if (msg->type == WIRE_NEXT) {
        if (msg->next.epoch != daemon->epoch)
            daemon->credits = 0;
        daemon->epoch = msg->next.epoch;
        daemon->credits += msg->next.credits;
        daemon->ended = false;
        if (msg->next.credits == 0) {
            daemon->waits++;
            daemon->awaited = msg->next.awaited;
        }
    } else if (msg->type == WIRE_BYE) {
        daemon->bye = true;
    }
}

/* receive gives the length of a message, and the descriptor that comes with it; -1 without. */
static ssize_t receive(struct fake_daemon *daemon, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = daemon->in, .iov_len = sizeof daemon->in};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(daemon->fd, &header, MSG_CMSG_CLOEXEC);
    struct cmsghdr *at = got > 0 ? CMSG_FIRSTHDR(&header) : NULL;
    *fd = -1;
    if (at)
        memcpy(fd, CMSG_DATA(at), sizeof *fd);
    return got;
}

static void read_record(struct fake_daemon *daemon, int fd)
{
    ssize_t got = pread(fd, daemon->record_bytes, sizeof daemon->record_bytes, 0);
    struct error err;
    CHECK(got >= 0);
    int rc = record_decode(daemon->record_bytes, (size_t)got, &daemon->record, &err);
    if (rc)
        fprintf(stderr, "the client presents: %s\n", err.text);
    CHECK(rc == 0);
    close(fd);
}

bool fake_receive(struct fake_daemon *daemon, struct wire_message *out)
{
    int fd;
    ssize_t got = receive(daemon, &fd);
    if (got <= 0)
        return false;
    struct error err;
    int rc = wire_decode(daemon->in, (size_t)got, out, &err);
    if (rc)
        fprintf(stderr, "the client sent: %s\n", err.text);
    CHECK(rc == 0);
    daemon->presents = out->type == WIRE_REGISTER ? out->reg.flags & WIRE_WITH_STATE : daemon->presents;
    CHECK((fd >= 0) == (out->type == WIRE_REGISTER && daemon->presents));
    if (fd >= 0)
        read_record(daemon, fd);
    note(daemon, out);
    if (out->type != WIRE_CLASSES_GET || out->classes_get.first < FAKE_CLASSES)
        return true;
    struct wire_message none = {.type = WIRE_CLASSES,
                                .seq = out->seq}; /* asked at a rank's end, for its answer alone */
    none.classes = (struct wire_classes){.first = FAKE_CLASSES, .total = FAKE_CLASSES};
    fake_send(daemon, &none, -1);
    return fake_receive(daemon, out);
}

void fake_error(struct fake_daemon *daemon, uint32_t seq, int code, bool fatal, const char *why)
{
    struct wire_message msg = {.type = WIRE_ERROR, .seq = seq};
    msg.error = (struct wire_error){.code = code, .fatal = fatal, .text = text(why)};
    fake_send(daemon, &msg, -1);
}

void fake_batch(struct fake_daemon *daemon, uint64_t number, uint32_t epoch, uint32_t index, uint32_t first_id,
                uint32_t count, bool last)
{
    uint8_t entries[64 * WIRE_ENTRY_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = first_id + i;
        wire_entry_put(entries, i,
                       &(struct wire_entry){.offset = (uint64_t)id * ENTRY_STRIDE,
                                            .id = id,
                                            .index = id + 1000,
                                            .len_bytes = FAKE_SAMPLE_BYTES,
                                            .label = (int32_t)(id % 5)});
    }
    struct wire_message msg = {.type = WIRE_BATCH};
    msg.batch = (struct wire_batch){.batch = number,
                                    .epoch = epoch,
                                    .index = index,
                                    .count = count,
                                    .entries = entries,
                                    .lost = daemon->lost,
                                    .through = daemon->reg.shuffle ? index * FAKE_BATCH_SIZE + count : 0,
                                    .flags = last ? WIRE_BATCH_LAST : 0};
    fake_send(daemon, &msg, -1);
}

bool fake_wait_credits(struct fake_daemon *daemon, uint32_t epoch, uint32_t credits)
{
    struct wire_message msg;
    while (daemon->epoch != epoch || daemon->credits < credits) {
        if (!fake_receive(daemon, &msg))
            return false;
    }
    daemon->credits -= credits;
    return true;
}

bool fake_wait_released(struct fake_daemon *daemon, uint32_t count)
{
    struct wire_message msg;
    while (daemon->n_released < count) {
        if (!fake_receive(daemon, &msg))
            return false;
    }
    return true;
}

void fake_until_closed(struct fake_daemon *daemon)
{
    struct wire_message msg;
    while (fake_receive(daemon, &msg))
        ;
}

void fake_serve_some(struct fake_daemon *daemon, uint32_t n_batches, uint32_t most)
{
    struct wire_message msg;
    uint32_t index = 0, epoch = UINT32_MAX, released = daemon->n_released;
    uint64_t sent = 0;
    while (sent < most && fake_receive(daemon, &msg)) {
        if (daemon->epoch != epoch && daemon->credits) {
            epoch = daemon->epoch;
            index = epoch == daemon->job.epoch ? daemon->job.batch : 0;
        }
        while (daemon->credits && index < n_batches && sent < most &&
               sent + released - daemon->n_released < daemon->held_max) {
            fake_batch(daemon, ++sent, epoch, index, index * FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, index + 1 == n_batches);
            index++;
            daemon->credits--;
        }
        if (daemon->credits && index == n_batches && epoch == daemon->job.epoch && daemon->job.batch == n_batches) {
            fake_batch(daemon, ++sent, epoch, index++, 0, 0, true); /* nothing was left */
            daemon->credits = 0;
        }
    }
}

void fake_serve(struct fake_daemon *daemon, uint32_t n_batches)
{
    fake_serve_some(daemon, n_batches, UINT32_MAX);
}

/* ── the conversation up to REGISTERED ───────────────────────────────────────────────────────────────────────────── */

static void keep(char *to, size_t cap, const struct wire_text *value)
{
    CHECK(value->len_bytes < cap);
    memcpy(to, value->data, value->len_bytes);
    to[value->len_bytes] = 0;
}

/* Class names go out in pages of two, so that the client has to ask again. */
static void send_classes(struct fake_daemon *daemon, const struct wire_message *msg)
{
    char names[64], name[16];
    uint32_t used = 0, first = msg->classes_get.first, count = 0;
    for (; count < 2 && first + count < FAKE_CLASSES; count++) {
        int len = snprintf(name, sizeof name, "class %u", first + count);
        CHECK(wire_class_put(names, sizeof names, &used, name, (size_t)len) == 0);
    }
    struct wire_message answer = {.type = WIRE_CLASSES, .seq = msg->seq};
    answer.classes = (struct wire_classes){
        .first = first, .count = count, .total = FAKE_CLASSES, .names = {.data = names, .len_bytes = used}};
    fake_send(daemon, &answer, -1);
}

static bool greet(struct fake_daemon *daemon)
{
    struct wire_message msg;
    if (!fake_receive(daemon, &msg))
        return false;
    CHECK(msg.type == WIRE_HELLO && msg.hello.pid == (uint32_t)getpid());
    keep(daemon->client, sizeof daemon->client, &msg.hello.client);
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = daemon->arena_claim_bytes, .daemon_pid = 1, .batch_max = 64};
    fake_send(daemon, &answer, daemon->arena_fd);
    if (!fake_receive(daemon, &msg))
        return false;
    CHECK(msg.type == WIRE_REGISTER);
    daemon->reg = msg.reg;
    keep(daemon->dataset, sizeof daemon->dataset, &msg.reg.dataset);
    keep(daemon->pipeline, sizeof daemon->pipeline, &msg.reg.pipeline);
    keep(daemon->name, sizeof daemon->name, &msg.reg.name);
    if (daemon->refuse) {
        keep(daemon->refused_name, sizeof daemon->refused_name, &msg.reg.name);
        fake_error(daemon, msg.seq, daemon->refuse, true, "it is refused");
        daemon->refuse = 0;
        return false;
    }
    if (daemon->presents && !daemon->ignores_record) {
        daemon->job.epoch = daemon->record.epoch;
        daemon->job.batch = daemon->record.batches + daemon->record.n_batches;
    }
    answer = (struct wire_message){.type = WIRE_REGISTERED, .seq = msg.seq, .registered = daemon->job};
    answer.registered.held_max = daemon->held_max;
    fake_send(daemon, &answer, -1);
    bool again = daemon->presents && daemon->record.world_size; /* then the client has the names */
    for (uint32_t page = 0; page < (FAKE_CLASSES + 1) / 2 && !again; page++) {
        if (!fake_receive(daemon, &msg))
            return false;
        CHECK(msg.type == WIRE_CLASSES_GET);
        send_classes(daemon, &msg);
    }
    return true;
}

static void *run(void *arg)
{
    struct fake_daemon *daemon = arg;
    for (uint32_t i = 0; i < daemon->n_scripts; i++) {
        struct pollfd comes = {.fd = daemon->listener, .events = POLLIN};
        while (poll(&comes, 1, -1) < 0) /* accept4 takes a descriptor before it waits, and a test may leave none */
            ;
        daemon->fd = accept4(daemon->listener, NULL, NULL, SOCK_CLOEXEC);
        if (daemon->fd < 0)
            return NULL;
        daemon->connections++;
        daemon->credits = 0;
        if ((daemon->opening_only || greet(daemon)) && daemon->scripts[i])
            daemon->scripts[i](daemon);
        if (i + 1 == daemon->n_scripts)
            shutdown(daemon->listener, SHUT_RDWR); /* nobody answers any more */
        close(daemon->fd);
    }
    return NULL;
}

void fake_then(struct fake_daemon *daemon, fake_script *script)
{
    CHECK(daemon->n_scripts < FAKE_SCRIPTS_MAX);
    daemon->scripts[daemon->n_scripts++] = script;
}

void fake_start(struct fake_daemon *daemon, fake_script *script)
{
    strcpy(daemon->folder, "/tmp/larder-fake-XXXXXX");
    CHECK(mkdtemp(daemon->folder));
    snprintf(daemon->path, sizeof daemon->path, "%s/larder.sock", daemon->folder);
    fake_come(daemon, script);
}

void fake_come(struct fake_daemon *daemon, fake_script *script)
{
    CHECK(daemon->n_scripts < FAKE_SCRIPTS_MAX);
    memmove(daemon->scripts + 1, daemon->scripts, daemon->n_scripts++ * sizeof *daemon->scripts);
    daemon->scripts[0] = script;
    CHECK(sem_init(&daemon->told, 0, 0) == 0);
    make_arena(daemon);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, daemon->path, sizeof address.sun_path);
    daemon->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(bind(daemon->listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(daemon->listener, 8) == 0);
    CHECK(thread_start(&daemon->thread, "fake-daemon", run, daemon) == 0); /* the signals are the client's */
}

void fake_until_told(struct fake_daemon *daemon)
{
    while (sem_wait(&daemon->told) != 0)
        ;
}

void fake_leave(struct fake_daemon *daemon)
{
    if (daemon->listener < 0)
        return;
    sem_post(&daemon->told);
    shutdown(daemon->listener, SHUT_RDWR); /* wakes an accept that nobody came to */
    pthread_join(daemon->thread, NULL);
    close(daemon->listener);
    close(daemon->arena_fd);
    munmap(daemon->arena, FAKE_ARENA_BYTES);
    unlink(daemon->path);
    sem_destroy(&daemon->told);
    daemon->n_scripts = 0;
    daemon->listener = -1;
}

size_t fake_count_fds(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

void fake_stop(struct fake_daemon *daemon)
{
    fake_leave(daemon);
    rmdir(daemon->folder);
}
