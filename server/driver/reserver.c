#include "server/driver/reserver.h"

#include <pthread.h>
#include <stdlib.h>

#include "cache/memory/memory_free.h"
#include "common/blocks.h"
#include "common/check.h"
#include "common/log.h"
#include "common/thread.h"
#include "server/driver/inbox.h"

enum {
    /* With this many open requests a return waits. The wait ends, because the thread itself waits for others only after
     * a reserve. */
    REQUESTS_MAX = 1024,
    LOOK_MS = 1000 /* between two looks at whether memory is short */
};
/* The most that is taken at once, so that what has come is used, and the daemon can stop. The engine asks for the rest
 * again. */
#define PIECE_BYTES (UINT64_C(256) << 20)
#define TOLD_BYTES (UINT64_C(16) << 20)   /* a return of this size is logged */
#define STALLED_US 100000                 /* per LOOK_MS: some task waited for memory for a tenth of the time */
#define SHORT_BYTES (UINT64_C(128) << 20) /* less than this free is short, too */

enum request_type { RESERVE, RETURN, STOP };

struct request {
    enum request_type type;
    uint64_t from, to; /* bytes of the arena */
};

struct reserver {
    struct reserver_config config;
    struct mailbox *requests;
    pthread_t thread;
    /* Only the thread uses what follows. */
    uint64_t reserved_bytes;
    uint64_t stalled_us; /* when it looked last */
    bool told;           /* it has logged that memory was refused, and got none since */
};

static void answer(struct reserver *reserver, struct inbox_message message)
{
    CHECK(mailbox_push(reserver->config.inbox, &message) == 0); /* the inbox outlives this thread */
}

/* leave_room has memory of blocks that nobody uses any more go, which the arena takes when it has `arena_bytes`. */
static void leave_room(const struct reserver *reserver, uint64_t arena_bytes)
{
    const struct engine_config *engine = reserver->config.engine;
    uint64_t left = engine->arena_bytes > arena_bytes ? engine->arena_bytes - arena_bytes : 0;
    blocks_keep(engine->encoded_bytes + (left < engine->lent_bytes ? left : engine->lent_bytes));
}

static void reserve(struct reserver *reserver, const struct request *request)
{
    struct error err;
    uint64_t got, from = request->from, room = request->to - from;
    uint64_t to = from + (room < PIECE_BYTES ? room : PIECE_BYTES);
    leave_room(reserver, to > reserver->reserved_bytes ? to : reserver->reserved_bytes);
    int code = arena_reserve(reserver->config.arena, from, to, &got, &err);
    if (code && !reserver->told)
        log_warn("msg=\"the arena cannot grow: jobs go on with what there is, and it is tried again\" arena_mib=%llu "
                 "err=\"%s\"",
                 (unsigned long long)(got >> 20), err.text);
    reserver->told = code != 0;
    reserver->reserved_bytes = got > reserver->reserved_bytes ? got : reserver->reserved_bytes;
    reserver->stalled_us = memory_stalled_us(reserver->config.root);
    answer(reserver, (struct inbox_message){.type = INBOX_RESERVED, .reserved = {.bytes = got, .refused = code != 0}});
}

static void give_back(struct reserver *reserver, const struct request *request)
{
    struct error err;
    if (arena_return(reserver->config.arena, request->from, request->to, &err))
        log_warn_limited("msg=\"some of the arena's memory could not be given back\" err=\"%s\"", err.text);
    else if (request->to - request->from >= TOLD_BYTES)
        log_info_limited("msg=\"gave memory of the arena back\" mib=%llu arena_mib=%llu",
                         (unsigned long long)((request->to - request->from) >> 20),
                         (unsigned long long)(request->from >> 20));
    if (request->from < reserver->reserved_bytes)
        reserver->reserved_bytes = request->from;
    leave_room(reserver, reserver->reserved_bytes);
}

/* look tells the engine's thread when memory is short. */
static void look(struct reserver *reserver)
{
    struct memory_free left;
    struct error err;
    uint64_t stalled_us = memory_stalled_us(reserver->config.root);
    bool is_short = stalled_us >= reserver->stalled_us + STALLED_US;
    reserver->stalled_us = stalled_us;
    if (memory_free_read(reserver->config.root, &left, &err) == 0)
        is_short = is_short || left.machine_bytes < SHORT_BYTES || left.cgroup_bytes < SHORT_BYTES;
    /* not pushed if the inbox is full, since the engine's thread may be waiting for this one: the next look tries
     * again */
    if (is_short)
        (void)mailbox_try_push(reserver->config.inbox, &(struct inbox_message){.type = INBOX_PRESSURE});
}

static void *run(void *arg)
{
    struct reserver *reserver = arg;
    for (;;) {
        struct request request;
        if (mailbox_pop(reserver->requests, &request, reserver->reserved_bytes > 0 ? LOOK_MS : -1))
            look(reserver);
        else if (request.type == RESERVE)
            reserve(reserver, &request);
        else if (request.type == RETURN)
            give_back(reserver, &request);
        else
            return NULL;
    }
}

int reserver_start(const struct reserver_config *config, struct reserver **out, struct error *err)
{
    struct reserver *reserver = xcalloc(1, sizeof *reserver);
    reserver->config = *config;
    if (mailbox_create(REQUESTS_MAX, sizeof(struct request), &reserver->requests)) {
        free(reserver);
        return error_set(err, LARDER_ENOMEM, "no memory for the arena's thread");
    }
    if (thread_start(&reserver->thread, "reserver", run, reserver)) {
        mailbox_destroy(reserver->requests);
        free(reserver);
        return error_set(err, LARDER_ELIMIT,
                         "the arena's thread could not be started: check the limit on threads (ulimit -u)");
    }
    *out = reserver;
    return 0;
}

static void ask(struct reserver *reserver, struct request request)
{
    CHECK(mailbox_push(reserver->requests, &request) == 0);
}

void reserver_stop(struct reserver *reserver)
{
    if (!reserver)
        return;
    ask(reserver, (struct request){.type = STOP});
    pthread_join(reserver->thread, NULL);
    mailbox_destroy(reserver->requests);
    free(reserver);
}

void reserver_reserve(struct reserver *reserver, uint64_t from, uint64_t to)
{
    ask(reserver, (struct request){.type = RESERVE, .from = from, .to = to});
}

void reserver_return(struct reserver *reserver, uint64_t from, uint64_t to)
{
    ask(reserver, (struct request){.type = RETURN, .from = from, .to = to});
}
