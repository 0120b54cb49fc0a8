/* sharing_anchor.c: samples of this node's jobs that other nodes give. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "server/registration/ranks.h"
#include "server/registration/text_hash.h"
#include "server/sharing/sharing_priv.h"

/* nothing_comes answers an EXPECT of a job that is gone. */
static void nothing_comes(struct sharing *sharing, uint32_t task)
{
    bool taken = false, over = false;
    struct engine_event event = {.type = ENGINE_ARRIVED,
                                 .arrived = {.task = task, .id = SAMPLE_NONE, .taken = &taken, .over = &over}};
    step(sharing, &event);
}

/* tell_expected tells anchors what the engine expects. It comes before the engine is told of an arrival, because that
 * may change what entries expect. */
static bool tell_expected(struct sharing *sharing)
{
    bool any = sharing->n_expected > 0;
    for (size_t i = 0; i < sharing->n_expected; i++) {
        const struct sharing_expected expected = sharing->expected[i];
        struct sharing_anchor *anchor = &sharing->anchors[expected.job];
        if (anchor->anchor && anchor->serial == expected.serial)
            anchor_expect(anchor->anchor, clock_now_ns(), expected.task, expected.id, expected.ahead);
        else
            nothing_comes(sharing, expected.task);
    }
    sharing->n_expected = 0;
    return any;
}

/* ── requests ── */

/* not_sent: the request could not even begin. Its anchor hears of it as of one that found nobody. */
static void not_sent(struct sharing *sharing, uint32_t job, uint64_t request)
{
    struct sharing_anchor *anchor = &sharing->anchors[job];
    struct merge_event event = {.type = MERGE_FAILED, .now_ns = clock_now_ns(), .request = request, .refused = true};
    anchor_step(anchor->anchor, &event);
}

static struct sharing_sent begin(const struct sharing *sharing, uint32_t job, const struct anchor_action *action,
                                 enum peer_type type)
{
    struct sharing_sent sent = {
        .type = type, .job = job, .serial = sharing->anchors[job].serial, .request = action->request};
    memcpy(sent.node, sharing->peers.all[action->peer].id, sizeof sent.node);
    return sent;
}

static struct peer_blob blob(const char *text)
{
    return (struct peer_blob){(const uint8_t *)text, (uint32_t)strlen(text)};
}

static sample_id index_of(const void *dataset, sample_id id)
{
    uint32_t index;
    CHECK(dataset_index(dataset, id, &index));
    return index;
}

/* indices_of returns a bag of samples as one of their indices in the dataset, flat, as one serial. LARDER_ENOMEM;
 * LARDER_ELIMIT: samples come too often for that. */
static int indices_of(const struct dataset *dataset, const struct bag *bag, uint8_t **bytes, size_t *len_bytes)
{
    struct idset *flat = NULL;
    struct bag *indices = NULL;
    int code = bag_renumber(bag, index_of, dataset, &indices);
    if (!code)
        code = bag_flat(indices, dataset_count(dataset), &flat);
    if (!code)
        code = idset_write(flat, bytes, len_bytes);
    idset_destroy(flat);
    bag_destroy(indices);
    return code;
}

/* part_weight: the guests of a training have its weight together. */
static double part_weight(struct sharing_job job)
{
    double weight = job.weight / sharing_members(job.reg);
    return weight < JOB_WEIGHT_MIN ? JOB_WEIGHT_MIN : weight;
}

static void send_attach(struct sharing *sharing, uint32_t job, const struct anchor_action *action)
{
    const struct registration *reg = job_of(sharing, job).reg;
    struct sharing_sent sent = begin(sharing, job, action, PEER_ATTACH);
    const char *pipeline = pipeline_canonical(reg->found.pipeline);
    uint8_t *view = NULL;
    size_t view_bytes = 0;
    struct peer_message message = {.type = PEER_ATTACH,
                                   .attach = {.anchor_boot = sharing->host.boot,
                                              .job = (uint32_t)sharing->anchors[job].serial,
                                              .epoch = action->attach.again, /* not 0: there were guests of it before */
                                              .term = action->term,
                                              .path = blob(dataset_text(reg->found.dataset)),
                                              .pipeline = blob(pipeline),
                                              .flags = reg->asked.flags & WIRE_ALL_FILES ? PEER_ALL_FILES : 0,
                                              .pipeline_hash = text_hash(pipeline),
                                              .prep_id = sharing->prep_id,
                                              .slot_bytes = reg->found.slot_bytes,
                                              .seed = reg->asked.seed,
                                              .together = reg->found.multiset &&
                                                          multiset_is_together(reg->found.multiset),
                                              .form = PEER_PREPARED,
                                              .shuffle = SHUFFLE_DEPENDENT,
                                              .weight = part_weight(job_of(sharing, job)),
                                              .predecessor = action->attach.predecessor,
                                              .family = sharing->anchors[job].training,
                                              .members = sharing_members(reg)}};
    uint64_t fingerprint[2];
    dataset_fingerprint(reg->found.dataset, fingerprint);
    memcpy(message.attach.fingerprint, fingerprint, sizeof message.attach.fingerprint);
    dataset_version(reg->found.dataset, &message.attach.version);
    memcpy(message.attach.anchor, sharing->peers.self, sizeof message.attach.anchor);
    int code = indices_of(reg->found.dataset, action->attach.ids, &view, &view_bytes);
    message.attach.view = (struct peer_blob){view, (uint32_t)view_bytes};
    if (code || !sharing_send(sharing, &sent, &message, false, MERGE_ANSWER_MS))
        not_sent(sharing, job, action->request);
    free(view);
    bag_destroy(action->attach.ids);
}

static void send_next(struct sharing *sharing, uint32_t job, const struct anchor_action *action)
{
    struct sharing_sent sent = begin(sharing, job, action, PEER_NEXT);
    sent.n = action->next.n;
    memcpy(sent.tasks, action->next.tasks, sent.n * sizeof *sent.tasks);
    struct peer_message message = {.type = PEER_NEXT,
                                   .next = {.guest = action->guest,
                                            .term = action->term,
                                            .seq = action->next.seq,
                                            .acked = action->next.acked,
                                            .more = action->next.more,
                                            .n = (uint16_t)action->next.n,
                                            .wait_ms = (uint16_t)action->next.wait_ms}};
    if (!sharing_send(sharing, &sent, &message, action->next.fresh, action->next.wait_ms + MERGE_ANSWER_MS))
        not_sent(sharing, job, action->request);
}

static void send_detach(struct sharing *sharing, const struct anchor_action *action)
{
    struct sharing_sent sent = {.type = PEER_DETACH};
    memcpy(sent.node, sharing->peers.all[action->peer].id, sizeof sent.node);
    struct peer_message message = {.type = PEER_DETACH, .guest = {.guest = action->guest, .term = action->term}};
    sharing_send(sharing, &sent, &message, false, MERGE_ANSWER_MS); /* without it the guest ends by its lease */
}

static void cancel(struct sharing *sharing, uint64_t serial, uint64_t request)
{
    for (size_t i = 0; i < sharing->n_sent; i++) {
        const struct sharing_sent *sent = &sharing->sent[i];
        if (sent->serial != serial || sent->request != request ||
            (sent->type != PEER_ATTACH && sent->type != PEER_NEXT))
            continue;
        peering_cancel(sharing->peering, sent->ticket);
        sharing->sent[i] = sharing->sent[--sharing->n_sent];
        return;
    }
}

/* ── the engine ── */

static void arrive(struct sharing *sharing, uint32_t job, const struct anchor_action *action)
{
    bool taken = false, over = false;
    tell_expected(sharing);
    struct engine_event event = {.type = ENGINE_ARRIVED,
                                 .arrived = {.task = action->arrive.task,
                                             .id = action->arrive.sample.id,
                                             .reason = action->arrive.sample.reason,
                                             .bytes = action->arrive.sample.bytes,
                                             .taken = &taken,
                                             .over = &over}};
    step(sharing, &event);
    if (sharing->anchors[job].anchor) /* the job may have ended by it */
        anchor_arrived(sharing->anchors[job].anchor, clock_now_ns(), action, taken, over);
}

static void back(struct sharing *sharing, uint32_t job, const struct anchor_action *action)
{
    struct engine_event event = {.type = ENGINE_BACK, .back = {job, action->epoch, action->back}};
    step(sharing, &event);
    idset_destroy(action->back);
}

void sharing_anchor_spread(struct sharing *sharing, uint32_t job)
{
    struct anchor *anchor = sharing->anchors[job].anchor;
    struct idset *homes = NULL;
    struct bag *moved = NULL;
    if (anchor_homes(anchor, &homes))
        return; /* from the next epoch on */
    struct engine_event event = {.type = ENGINE_AWAY, .away = {job, anchor_epoch(anchor), homes, &moved}};
    step(sharing, &event);
    idset_destroy(homes);
    if (moved && sharing->anchors[job].anchor == anchor)
        anchor_away(anchor, clock_now_ns(), moved);
    else
        bag_destroy(moved);
}

static void tell_left(const struct sharing *sharing, uint32_t job, const struct anchor_action *action)
{
    struct peering_named named = {.url = ""};
    peering_name(sharing->peering, sharing->peers.all[action->peer].id, &named);
    log_info_limited("msg=\"a job stands still for a slow node, and goes on without it\" job=\"%s\" url=\"%s\" "
                     "epochs=%u",
                     job_of(sharing, job).reg->name, named.url, action->pause);
}

static bool carry_out_all(struct sharing *sharing, uint32_t job)
{
    uint64_t serial = sharing->anchors[job].serial;
    bool any = false;
    for (struct anchor_action action; sharing->anchors[job].serial == serial && sharing->anchors[job].anchor &&
                                      anchor_take(sharing->anchors[job].anchor, &action);
         any = true) {
        switch (action.type) {
        case ANCHOR_ATTACH: send_attach(sharing, job, &action); break;
        case ANCHOR_NEXT: send_next(sharing, job, &action); break;
        case ANCHOR_CANCEL: cancel(sharing, serial, action.request); break;
        case ANCHOR_DETACH: send_detach(sharing, &action); break;
        case ANCHOR_LEFT: tell_left(sharing, job, &action); break;
        case ANCHOR_ARRIVE: arrive(sharing, job, &action); break;
        case ANCHOR_BACK: back(sharing, job, &action); break;
        }
    }
    return any;
}

static void tell(struct sharing *sharing, uint32_t job, struct merge_event event)
{
    event.now_ns = clock_now_ns();
    anchor_step(sharing->anchors[job].anchor, &event);
    carry_out_all(sharing, job);
}

/* end ends all that is under way for a job that is gone. */
static void end(struct sharing *sharing, const struct sharing_anchor *ended)
{
    anchor_end(ended->anchor);
    for (struct anchor_action action; anchor_take(ended->anchor, &action);) {
        if (action.type == ANCHOR_CANCEL)
            cancel(sharing, ended->serial, action.request);
        else if (action.type == ANCHOR_DETACH)
            send_detach(sharing, &action);
        else if (action.type == ANCHOR_ATTACH)
            bag_destroy(action.attach.ids);
        else if (action.type == ANCHOR_BACK)
            idset_destroy(action.back);
        else if (action.type == ANCHOR_ARRIVE)
            nothing_comes(sharing, action.arrive.task);
    }
    sharing_count_ended(sharing, ended->anchor);
    anchor_destroy(ended->anchor);
}

/* tell_lack tells the job's anchor what the job lacks. It returns whether that has the anchor do anything. */
static bool tell_lack(struct sharing *sharing, uint32_t job)
{
    struct anchor *anchor = sharing->anchors[job].anchor;
    if (!anchor)
        return false;
    anchor_lacks(anchor, clock_now_ns(), sharing->host.lacks(sharing->host.ctx, job),
                 sharing->host.prepare_s(sharing->host.ctx, job) / sharing->host.workers);
    return carry_out_all(sharing, job);
}

bool sharing_anchors_go_on(struct sharing *sharing)
{
    bool any = tell_expected(sharing);
    while (sharing->n_ended) {
        struct sharing_anchor ended = sharing->ended[--sharing->n_ended];
        end(sharing, &ended);
        any = true;
    }
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (!sharing->anchors[job].anchor)
            continue;
        any = carry_out_all(sharing, job) || any; /* actions that an epoch's begin asked for */
        if (sharing->anchors[job].anchor && anchor_alarm(sharing->anchors[job].anchor) <= clock_now_ns()) {
            tell(sharing, job, (struct merge_event){.type = MERGE_TICK});
            any = any || sharing->n_expected || sharing->home.n_notes;
        }
        any = tell_lack(sharing, job) || any;
    }
    return any;
}

bool sharing_has_anchors(const struct sharing *sharing)
{
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (sharing->anchors[job].anchor)
            return true;
    }
    return false;
}

uint64_t sharing_anchors_alarm(const struct sharing *sharing)
{
    uint64_t alarm = sharing->n_expected || sharing->n_ended ? 0 : UINT64_MAX;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (sharing->anchors[job].anchor && anchor_acts(sharing->anchors[job].anchor))
            return 0;
        uint64_t at = sharing->anchors[job].anchor ? anchor_alarm(sharing->anchors[job].anchor) : UINT64_MAX;
        alarm = at < alarm ? at : alarm;
    }
    return alarm;
}

/* ── answers ── */

/* is_length tells whether a sample of the job can be this long. */
static bool is_length(const struct registration *reg, uint32_t bytes)
{
    if (pipeline_is_ragged(reg->found.pipeline))
        return bytes > 0 && bytes <= reg->found.sample_bytes;
    return bytes == reg->found.sample_bytes;
}

/* take_samples puts the payloads into the slots that the request had, and names the samples. False: they are not what
 * the job can take. */
static bool take_samples(struct sharing *sharing, const struct sharing_sent *sent, const struct peering_event *event,
                         struct merge_sample *samples)
{
    const struct registration *reg = job_of(sharing, sent->job).reg;
    const struct peer_batch *batch = &event->message.batch;
    uint32_t count = dataset_count(reg->found.dataset);
    char *base = arena_base(sharing->host.arena);
    const uint8_t *payload = event->payload;
    if ((uint32_t)batch->count + batch->bad > sent->n)
        return false;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct peer_entry entry = peer_entry_get(batch, i);
        if (entry.index >= count || !is_length(reg, entry.len_bytes))
            return false;
        samples[i] = (struct merge_sample){.id = dataset_id(reg->found.dataset, entry.index), .bytes = entry.len_bytes};
        memcpy(base + sharing->offset_of[sent->tasks[i]], payload, entry.len_bytes);
        payload += entry.len_bytes;
    }
    for (uint32_t i = 0; i < batch->bad; i++) {
        struct peer_bad bad = peer_bad_get(batch, i);
        if (bad.index >= count)
            return false;
        samples[batch->count + i] = (struct merge_sample){.id = dataset_id(reg->found.dataset, bad.index),
                                                          .reason = bad.reason};
    }
    return true;
}

void sharing_anchors_hear(struct sharing *sharing, const struct sharing_sent *sent, const struct peering_event *event)
{
    struct merge_sample samples[PEER_SAMPLES_MAX];
    struct merge_event told = {.type = MERGE_FAILED, .request = sent->request, .refused = event->code == LARDER_EGONE};
    if (!sharing->anchors[sent->job].anchor || sharing->anchors[sent->job].serial != sent->serial)
        return;
    switch (event->code ? PEER_DONE : event->message.type) {
    case PEER_ATTACHED:
        told.type = MERGE_ATTACHED;
        told.guest = event->message.attached.guest;
        break;
    case PEER_REFUSED:
        told.type = MERGE_REFUSED;
        log_warn_limited("msg=\"another node gives nothing to a job\" job=\"%s\" code=%s err=\"%.*s\"",
                         job_of(sharing, sent->job).reg->name, larder_err_name(event->message.refused.code),
                         (int)event->message.refused.text.len_bytes, (const char *)event->message.refused.text.data);
        break;
    case PEER_STALE: told.type = MERGE_STALE; break;
    case PEER_EMPTY: told.type = MERGE_EMPTY; break;
    case PEER_GONE: told.type = MERGE_GONE; break;
    case PEER_BATCH:
        if (sent->type != PEER_NEXT || !take_samples(sharing, sent, event, samples))
            break;
        told.type = MERGE_BATCH;
        told.batch.last = event->message.batch.flags & PEER_LAST;
        told.batch.count = (uint32_t)event->message.batch.count + event->message.batch.bad;
        told.batch.samples = samples;
        break;
    default: break;
    }
    tell(sharing, sent->job, told);
}
