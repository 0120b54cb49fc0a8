#include "server/driver/arrivals.h"

#include "common/check.h"
#include "common/clock.h"
#include "server/driver/inbox.h"

static void post(struct arrivals *arrivals, const struct inbox_message *message)
{
    CHECK(mailbox_push(arrivals->inbox, message) == 0); /* the inbox outlives sessions and workers */
}

/* ── the registrar ── */

void arrivals_registered(void *arrivals, struct registration *registration)
{
    post(arrivals, &(struct inbox_message){.type = INBOX_REGISTERED, .registration = registration});
}

/* ── sessions ── */

static void on_register(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *wire, int file_fd)
{
    struct arrivals *arrivals = ctx;
    struct registration *reg = registration_create(client, seq, peer, wire, file_fd);
    post(arrivals, &(struct inbox_message){.type = INBOX_COMING, .client = client});
    if (registrar_submit(arrivals->registrar, reg)) {
        reg->code = error_set(&reg->err, LARDER_ELIMIT, "too many jobs are being registered at this moment: try again");
        arrivals_registered(arrivals, reg);
    }
}

static void on_classes(void *ctx, uint64_t client, uint32_t seq, uint32_t first)
{
    post(ctx, &(struct inbox_message){.type = INBOX_CLASSES, .classes = {client, seq, first}});
}

static void on_next(void *ctx, uint64_t client, const struct wire_next *next)
{
    post(ctx, &(struct inbox_message){.type = INBOX_NEXT, .next = {client, *next}});
}

static void on_release(void *ctx, uint64_t client, uint64_t batch)
{
    post(ctx, &(struct inbox_message){.type = INBOX_RELEASE, .release = {client, batch}});
}

static void on_state_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_state_get *get)
{
    post(ctx, &(struct inbox_message){.type = INBOX_STATE_GET, .state_get = {client, seq, *get}});
}

static void on_column_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_text *name)
{
    struct registration *asked = registration_of_column(client, seq, name);
    post(ctx, &(struct inbox_message){.type = INBOX_COLUMN_GET, .registration = asked});
}

static void on_gone(void *ctx, uint64_t client, bool bye)
{
    struct arrivals *arrivals = ctx;
    atomic_store(&arrivals->last_client_ns, clock_now_ns());
    /* GONE goes before the refusal that registrar_abandon causes, so that no refusal is sent to this client. */
    post(arrivals, &(struct inbox_message){.type = INBOX_GONE, .gone = {client, bye}});
    registrar_abandon(arrivals->registrar, client);
}

static void on_lost(void *ctx)
{
    struct arrivals *arrivals = ctx;
    arrivals->on_lost(arrivals->ctx);
}

struct session_handlers arrivals_of_sessions(struct arrivals *arrivals)
{
    return (struct session_handlers){.ctx = arrivals,
                                     .on_register = on_register,
                                     .on_classes = on_classes,
                                     .on_next = on_next,
                                     .on_release = on_release,
                                     .on_state_get = on_state_get,
                                     .on_column_get = on_column_get,
                                     .on_gone = on_gone,
                                     .on_lost = on_lost};
}

/* ── workers ── */

static void post_all(struct arrivals *arrivals, const struct inbox_message *messages, uint32_t count)
{
    CHECK(mailbox_push_many(arrivals->inbox, messages, count) == 0);
}

static void on_loaded(void *ctx, const struct worker_loaded *loaded, uint32_t count)
{
    struct inbox_message messages[WORKER_RESULTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        messages[i] = (struct inbox_message){.type = INBOX_LOADED, .loaded = loaded[i]};
    post_all(ctx, messages, count);
}

static void on_read(void *ctx, const struct worker_read *read)
{
    post(ctx, &(struct inbox_message){.type = INBOX_READ, .read = *read});
}

static void on_prepared(void *ctx, const struct worker_prepared *prepared, uint32_t count)
{
    struct inbox_message messages[WORKER_RESULTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        messages[i] = (struct inbox_message){.type = INBOX_PREPARED, .prepared = prepared[i]};
    post_all(ctx, messages, count);
}

struct worker_results arrivals_of_workers(struct arrivals *arrivals)
{
    return (
        struct worker_results){.ctx = arrivals, .on_loaded = on_loaded, .on_read = on_read, .on_prepared = on_prepared};
}
