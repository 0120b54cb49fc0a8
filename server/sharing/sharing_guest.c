/* sharing_guest.c: other nodes' jobs, to which this one gives samples. A guest is a job of the engine; guests.h knows
 * what becomes of its batches. In guests.h samples are named by their indices in the dataset, as between nodes. */
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "server/registration/registrar.h"
#include "server/sharing/sharing_priv.h"

enum { RETRY_MS = 1000 };
#define GUEST_CLIENT (UINT64_C(1) << 63) /* no session's client has such a number */

/* ── its job ── */

/* resolve has the registrar find the dataset of the ATTACH that is being taken. The outcome comes later. */
static void resolve(void *ctx, const struct guests_action *action)
{
    struct sharing *sharing = ctx;
    const struct peer_attach *attach = &sharing->attaching->message.attach;
    struct session_peer peer = {.client = "another node"};
    struct wire_register wire = {.batch_size = GUESTS_BATCH,
                                 .prefetch = GUESTS_PREFETCH,
                                 .world_size = 1,
                                 .epochs = 1,
                                 .shuffle = SHUFFLE_DEPENDENT,
                                 .bad_policy = BAD_SKIP,
                                 .flags = attach->flags & PEER_ALL_FILES ? WIRE_ALL_FILES : 0,
                                 .seed = attach->seed,
                                 .weight = attach->weight,
                                 .dataset = {(const char *)attach->path.data, attach->path.len_bytes},
                                 .pipeline = {(const char *)attach->pipeline.data, attach->pipeline.len_bytes},
                                 .subset = {"", 0},
                                 .name = {"", 0}};
    struct registration *reg = registration_create(GUEST_CLIENT | ++sharing->numbers, 0, &peer, &wire, -1);
    struct error err;
    reg->guest.number = action->guest;
    reg->guest.family = attach->members > 1 ? attach->family : 0;
    reg->guest.together = attach->together;
    reg->guest.all = action->resolve.all;
    reg->guest.predecessor = action->resolve.predecessor;
    memcpy(reg->guest.fingerprint, attach->fingerprint, sizeof reg->guest.fingerprint);
    reg->guest.version = attach->version;
    reg->guest.key = (struct guests_key){.boot = attach->anchor_boot, .job = attach->job};
    memcpy(reg->guest.key.anchor, attach->anchor, sizeof reg->guest.key.anchor);
    /* Once submitted, the registration is the registrar's, whose thread writes reg->code. */
    int code = idset_read(attach->view.data, attach->view.len_bytes, &reg->guest.part, &err);
    if (!code)
        code = registrar_submit(sharing->registrar, reg);
    if (code) {
        home_note(&sharing->home,
                  (struct guests_event){.type = GUESTS_REFUSED, .guest = action->guest, .refused.code = code});
        registration_destroy(reg);
    }
}

/* ── answers ── */

/* put_samples makes a batch's head and copies its payloads out of the arena. */
static void put_samples(const struct sharing *sharing, const struct guests_action *action, struct peer_message *message,
                        uint8_t *entries, uint8_t *bads, void **payload, size_t *payload_bytes)
{
    const char *base = arena_base(sharing->host.arena);
    struct peer_batch *batch = &message->batch;
    *payload_bytes = 0;
    for (uint32_t i = 0; i < action->answer.n_samples; i++)
        *payload_bytes += action->answer.samples[i].reason ? 0 : action->answer.samples[i].bytes;
    char *at = *payload = peering_block(*payload_bytes);
    CHECK(at);
    for (uint32_t i = 0; i < action->answer.n_samples; i++) {
        const struct guests_sample *sample = &action->answer.samples[i];
        if (sample->reason) {
            peer_bad_put(bads, batch->bad++, &(struct peer_bad){sample->id, sample->reason});
            continue;
        }
        memcpy(at, base + sample->offset, sample->bytes);
        peer_entry_put(entries, batch->count++,
                       &(struct peer_entry){sample->id, (uint32_t)sample->bytes, XXH3_64bits(at, sample->bytes)});
        at += sample->bytes;
    }
    batch->guest = action->guest;
    batch->seq = action->answer.seq;
    batch->flags = action->answer.last ? PEER_LAST : 0;
    batch->entries = (struct peer_blob){entries, batch->count * (uint32_t)PEER_ENTRY_BYTES};
    batch->bads = (struct peer_blob){bads, batch->bad * (uint32_t)PEER_BAD_BYTES};
}

static void answer(void *ctx, const struct guests_action *action)
{
    struct sharing *sharing = ctx;
    static const enum peer_type types[] = {
        [GUESTS_ATTACHED] = PEER_ATTACHED, [GUESTS_IS_REFUSED] = PEER_REFUSED, [GUESTS_STALE] = PEER_STALE,
        [GUESTS_BATCH_IS] = PEER_BATCH,    [GUESTS_EMPTY] = PEER_EMPTY,        [GUESTS_IS_GONE] = PEER_GONE,
        [GUESTS_DONE] = PEER_DONE};
    uint8_t entries[GUESTS_SAMPLES_MAX * PEER_ENTRY_BYTES], bads[GUESTS_SAMPLES_MAX * PEER_BAD_BYTES];
    struct peer_message message = {.type = types[action->answer.kind]};
    void *payload = NULL;
    size_t payload_bytes = 0;
    if (message.type == PEER_ATTACHED) {
        message.attached.guest = action->guest;
        message.attached.count = (uint32_t)action->answer.count;
    } else if (message.type == PEER_REFUSED) {
        const char *why = action->answer.code == LARDER_ECHANGED ? "the dataset is another one at that node"
                                                                 : larder_err_name(action->answer.code);
        message.refused.code = action->answer.code;
        message.refused.retry_ms = RETRY_MS;
        message.refused.text = (struct peer_blob){(const uint8_t *)why, (uint32_t)strlen(why)};
    } else if (message.type == PEER_BATCH) {
        put_samples(sharing, action, &message, entries, bads, &payload, &payload_bytes);
        sharing->counts.given += action->request ? message.batch.count : 0;
    }
    if (action->request)
        peering_answer(sharing->peering, action->request, &message, payload, payload_bytes);
    else
        peering_block_free(payload);
}

/* ── events ── */

static uint64_t now_ns(void *ctx)
{
    (void)ctx;
    return clock_now_ns();
}

static bool is_guests(void *ctx, uint32_t job)
{
    const struct sharing *sharing = ctx;
    const struct registration *reg = job < JOBS_MAX ? job_of(sharing, job).reg : NULL;
    return reg && reg->guest.number;
}

static void tell_engine(void *ctx, const struct guests_action *action)
{
    struct engine_event told = {.type = ENGINE_JOB_GONE, .job_gone = {.job = action->job}};
    if (action->type == GUESTS_ASK)
        told = (struct engine_event){.type = ENGINE_NEXT, .next = {action->job, 0, action->credits, 0}};
    else if (action->type == GUESTS_RELEASE)
        told = (struct engine_event){.type = ENGINE_RELEASE, .release = {action->job, action->batch}};
    step(ctx, &told);
}

static struct home_means means_of(struct sharing *sharing)
{
    return (struct home_means){sharing, now_ns, answer, resolve, is_guests, tell_engine};
}

static void gone(struct sharing *sharing, uint32_t job)
{
    if (is_guests(sharing, job))
        step(sharing, &(struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = job}});
}

bool sharing_end_guests(struct sharing *sharing)
{
    bool any = false;
    for (uint32_t job = 0; sharing && job < JOBS_MAX; job++) {
        any = any || is_guests(sharing, job);
        gone(sharing, job);
    }
    return any;
}

bool sharing_guests_go_on(struct sharing *sharing)
{
    while (sharing->n_failed)
        gone(sharing, sharing->failed[--sharing->n_failed]);
    const struct home_means means = means_of(sharing);
    return home_go_on(&sharing->home, &means);
}

void sharing_guests_leave(struct sharing *sharing)
{
    const struct home_means means = means_of(sharing);
    home_tell(&sharing->home, &means, (struct guests_event){.type = GUESTS_LEAVE});
}

/* attach makes an event of the request. False: its part is no set of samples. */
static bool attach(const struct peer_message *message, struct guests_event *event)
{
    const struct peer_attach *from = &message->attach;
    struct error err;
    event->type = GUESTS_ATTACH;
    event->attach.key = (struct guests_key){.boot = from->anchor_boot, .job = from->job};
    memcpy(event->attach.key.anchor, from->anchor, sizeof event->attach.key.anchor);
    event->attach.term = from->term;
    event->attach.prep_id = from->prep_id;
    event->attach.again = from->epoch != 0;
    event->attach.predecessor = from->predecessor;
    struct idset *part = NULL;
    int code = idset_read(from->view.data, from->view.len_bytes, &part, &err);
    event->attach.count = part ? idset_count(part) : 0;
    idset_destroy(part);
    return code == 0;
}

void sharing_guests_asked(struct sharing *sharing, const struct peering_event *asked)
{
    const struct peer_message *message = &asked->message;
    struct guests_event event = {.request = asked->number};
    bool known = true;
    if (message->type == PEER_ATTACH) {
        sharing_wants_hear(sharing, &message->attach);
        known = attach(message, &event);
    } else if (message->type == PEER_NEXT) {
        const struct peer_next *next = &message->next;
        event.type = GUESTS_NEXT;
        event.guest = next->guest;
        event.next.term = next->term;
        event.next.seq = next->seq;
        event.next.acked = next->acked;
        event.next.more = next->more;
        event.next.n = next->n;
        event.next.extra = next->extra;
        event.next.wait_ms = next->wait_ms;
    } else if (message->type == PEER_DETACH) {
        event.type = GUESTS_DETACH;
        event.guest = message->guest.guest;
        event.detach.term = message->guest.term;
    } else {
        known = false;
    }
    if (!known) {
        static const char why[] = "this daemon does not understand the request";
        struct peer_message refused = {.type = PEER_REFUSED,
                                       .refused = {LARDER_EFORMAT, 0, {(const uint8_t *)why, sizeof why - 1}}};
        peering_answer(sharing->peering, asked->number, &refused, NULL, 0);
        return;
    }
    const struct home_means means = means_of(sharing);
    sharing->attaching = asked;
    home_tell(&sharing->home, &means, event);
    sharing->attaching = NULL;
}
