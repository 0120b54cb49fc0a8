/* cluster_anchor.c: samples of this node's jobs that other nodes give. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "server/driver/cluster_priv.h"
#include "server/driver/ranks.h"
#include "server/driver/text_hash.h"

/* nothing_comes answers an EXPECT of a job that is gone. */
static void nothing_comes(struct driver *driver, uint32_t task)
{
    bool taken = false, over = false;
    struct engine_event event = {.type = ENGINE_ARRIVED,
                                 .arrived = {.task = task, .id = SAMPLE_NONE, .taken = &taken, .over = &over}};
    driver_step(driver, &event, 1);
}

/* tell_expected tells anchors what the engine expects. It comes before the engine is told of an arrival, because that
 * may change what entries expect. */
static bool tell_expected(struct driver *driver)
{
    struct driver_cluster *cluster = driver->cluster;
    bool any = cluster->n_expected > 0;
    for (size_t i = 0; i < cluster->n_expected; i++) {
        const struct cluster_expected expected = cluster->expected[i];
        struct cluster_anchor *anchor = &cluster->anchors[expected.job];
        if (anchor->anchor && anchor->serial == expected.serial)
            anchor_expect(anchor->anchor, clock_now_ns(), expected.task, expected.id, expected.ahead);
        else
            nothing_comes(driver, expected.task);
    }
    cluster->n_expected = 0;
    return any;
}

/* ── requests ── */

/* not_sent: the request could not even begin. Its anchor hears of it as of one that found nobody. */
static void not_sent(struct driver *driver, uint32_t job, uint64_t request)
{
    struct cluster_anchor *anchor = &driver->cluster->anchors[job];
    struct merge_event event = {.type = MERGE_FAILED, .now_ns = clock_now_ns(), .request = request, .refused = true};
    anchor_step(anchor->anchor, &event);
}

static struct cluster_sent begin(const struct driver_cluster *cluster, uint32_t job, const struct anchor_action *action,
                                 enum peer_type type)
{
    struct cluster_sent sent = {
        .type = type, .job = job, .serial = cluster->anchors[job].serial, .request = action->request};
    memcpy(sent.node, cluster->peers.all[action->peer].id, sizeof sent.node);
    return sent;
}

static struct peer_blob blob(const char *text)
{
    return (struct peer_blob){(const uint8_t *)text, (uint32_t)strlen(text)};
}

/* indices_of returns the samples by their indices in the dataset, as one serial. LARDER_ENOMEM. */
static int indices_of(const struct dataset *dataset, const struct idset *ids, uint8_t **bytes, size_t *len_bytes)
{
    uint64_t count = idset_count(ids);
    sample_id *all = malloc((count + 1) * sizeof *all);
    struct idset *indices = NULL;
    int code = all ? idset_create(&indices) : LARDER_ENOMEM;
    if (!code) {
        idset_to_array(ids, all);
        for (uint64_t i = 0; i < count; i++)
            CHECK(dataset_index(dataset, all[i], &all[i]));
        idset_add_many(indices, all, count);
        code = idset_write(indices, bytes, len_bytes);
    }
    idset_destroy(indices);
    free(all);
    return code;
}

static void send_attach(struct driver *driver, uint32_t job, const struct anchor_action *action)
{
    struct driver_cluster *cluster = driver->cluster;
    const struct registration *reg = driver->tables.jobs[job].reg;
    struct cluster_sent sent = begin(cluster, job, action, PEER_ATTACH);
    const char *pipeline = pipeline_canonical(reg->found.pipeline);
    uint8_t *view = NULL;
    size_t view_bytes = 0;
    struct peer_message message = {.type = PEER_ATTACH,
                                   .attach = {.anchor_boot = cluster->boot,
                                              .job = (uint32_t)cluster->anchors[job].serial,
                                              .epoch = action->attach.again, /* not 0: there were guests of it before */
                                              .term = action->term,
                                              .path = blob(dataset_path(reg->found.dataset)),
                                              .pipeline = blob(pipeline),
                                              .flags = reg->asked.flags & WIRE_ALL_FILES ? PEER_ALL_FILES : 0,
                                              .pipeline_hash = text_hash(pipeline),
                                              .prep_id = cluster->prep_id,
                                              .slot_bytes = reg->found.slot_bytes,
                                              .seed = reg->asked.seed,
                                              .form = PEER_PREPARED,
                                              .shuffle = SHUFFLE_DEPENDENT,
                                              .weight = driver->tables.jobs[job].weight,
                                              .predecessor = action->attach.predecessor,
                                              .members = 1}};
    uint64_t fingerprint[2];
    dataset_fingerprint(reg->found.dataset, fingerprint);
    memcpy(message.attach.fingerprint, fingerprint, sizeof message.attach.fingerprint);
    dataset_version(reg->found.dataset, &message.attach.version);
    memcpy(message.attach.anchor, cluster->peers.self, sizeof message.attach.anchor);
    int code = indices_of(reg->found.dataset, action->attach.ids, &view, &view_bytes);
    message.attach.view = (struct peer_blob){view, (uint32_t)view_bytes};
    if (code || !cluster_send(cluster, &sent, &message, false, MERGE_ANSWER_MS))
        not_sent(driver, job, action->request);
    free(view);
    idset_destroy(action->attach.ids);
}

static void send_next(struct driver *driver, uint32_t job, const struct anchor_action *action)
{
    struct driver_cluster *cluster = driver->cluster;
    struct cluster_sent sent = begin(cluster, job, action, PEER_NEXT);
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
    if (!cluster_send(cluster, &sent, &message, action->next.fresh, action->next.wait_ms + MERGE_ANSWER_MS))
        not_sent(driver, job, action->request);
}

static void send_detach(struct driver_cluster *cluster, const struct anchor_action *action)
{
    struct cluster_sent sent = {.type = PEER_DETACH};
    memcpy(sent.node, cluster->peers.all[action->peer].id, sizeof sent.node);
    struct peer_message message = {.type = PEER_DETACH, .guest = {.guest = action->guest, .term = action->term}};
    cluster_send(cluster, &sent, &message, false, MERGE_ANSWER_MS); /* without it the guest ends by its lease */
}

static void cancel(struct driver_cluster *cluster, uint64_t serial, uint64_t request)
{
    for (size_t i = 0; i < cluster->n_sent; i++) {
        const struct cluster_sent *sent = &cluster->sent[i];
        if (sent->serial != serial || sent->request != request ||
            (sent->type != PEER_ATTACH && sent->type != PEER_NEXT))
            continue;
        peering_cancel(cluster->peering, sent->ticket);
        cluster->sent[i] = cluster->sent[--cluster->n_sent];
        return;
    }
}

/* ── the engine ── */

static void arrive(struct driver *driver, uint32_t job, const struct anchor_action *action)
{
    struct driver_cluster *cluster = driver->cluster;
    bool taken = false, over = false;
    tell_expected(driver);
    struct engine_event event = {.type = ENGINE_ARRIVED,
                                 .arrived = {.task = action->arrive.task,
                                             .id = action->arrive.id,
                                             .reason = action->arrive.reason,
                                             .taken = &taken,
                                             .over = &over}};
    driver_step(driver, &event, 1);
    if (cluster->anchors[job].anchor) /* the job may have ended by it */
        anchor_arrived(cluster->anchors[job].anchor, clock_now_ns(), action, taken, over);
}

static void back(struct driver *driver, uint32_t job, const struct anchor_action *action)
{
    struct engine_event event = {.type = ENGINE_BACK, .back = {job, action->epoch, action->back}};
    driver_step(driver, &event, 1);
    idset_destroy(action->back);
}

static bool carry_out_all(struct driver *driver, uint32_t job)
{
    struct driver_cluster *cluster = driver->cluster;
    uint64_t serial = cluster->anchors[job].serial;
    bool any = false;
    for (struct anchor_action action; cluster->anchors[job].serial == serial && cluster->anchors[job].anchor &&
                                      anchor_take(cluster->anchors[job].anchor, &action);
         any = true) {
        switch (action.type) {
        case ANCHOR_ATTACH: send_attach(driver, job, &action); break;
        case ANCHOR_NEXT: send_next(driver, job, &action); break;
        case ANCHOR_CANCEL: cancel(cluster, serial, action.request); break;
        case ANCHOR_DETACH: send_detach(cluster, &action); break;
        case ANCHOR_ARRIVE: arrive(driver, job, &action); break;
        case ANCHOR_BACK: back(driver, job, &action); break;
        }
    }
    return any;
}

static void tell(struct driver *driver, uint32_t job, struct merge_event event)
{
    event.now_ns = clock_now_ns();
    anchor_step(driver->cluster->anchors[job].anchor, &event);
    carry_out_all(driver, job);
}

/* end ends all that is under way for a job that is gone. */
static void end(struct driver *driver, const struct cluster_anchor *ended)
{
    struct driver_cluster *cluster = driver->cluster;
    anchor_end(ended->anchor);
    for (struct anchor_action action; anchor_take(ended->anchor, &action);) {
        if (action.type == ANCHOR_CANCEL)
            cancel(cluster, ended->serial, action.request);
        else if (action.type == ANCHOR_DETACH)
            send_detach(cluster, &action);
        else if (action.type == ANCHOR_ATTACH)
            idset_destroy(action.attach.ids);
        else if (action.type == ANCHOR_BACK)
            idset_destroy(action.back);
        else if (action.type == ANCHOR_ARRIVE)
            nothing_comes(driver, action.arrive.task);
    }
    cluster_count_ended(cluster, ended->anchor);
    anchor_destroy(ended->anchor);
}

bool cluster_anchors_go_on(struct driver *driver)
{
    struct driver_cluster *cluster = driver->cluster;
    bool any = tell_expected(driver);
    while (cluster->n_ended) {
        struct cluster_anchor ended = cluster->ended[--cluster->n_ended];
        end(driver, &ended);
        any = true;
    }
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (!cluster->anchors[job].anchor)
            continue;
        any = carry_out_all(driver, job) || any; /* what an epoch's begin asked for */
        if (cluster->anchors[job].anchor && anchor_alarm(cluster->anchors[job].anchor) <= clock_now_ns()) {
            tell(driver, job, (struct merge_event){.type = MERGE_TICK});
            any = any || cluster->n_expected || cluster->home.n_notes;
        }
    }
    return any;
}

bool cluster_has_anchors(const struct driver_cluster *cluster)
{
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (cluster->anchors[job].anchor)
            return true;
    }
    return false;
}

uint64_t cluster_anchors_alarm(const struct driver_cluster *cluster)
{
    uint64_t alarm = cluster->n_expected || cluster->n_ended ? 0 : UINT64_MAX;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (cluster->anchors[job].anchor && anchor_acts(cluster->anchors[job].anchor))
            return 0;
        uint64_t at = cluster->anchors[job].anchor ? anchor_alarm(cluster->anchors[job].anchor) : UINT64_MAX;
        alarm = at < alarm ? at : alarm;
    }
    return alarm;
}

/* ── answers ── */

/* take_samples puts the payloads into the slots that the request had, and names the samples. False: they are not what
 * the job can take. */
static bool take_samples(struct driver *driver, const struct cluster_sent *sent, const struct peering_event *event,
                         struct merge_sample *samples)
{
    const struct registration *reg = driver->tables.jobs[sent->job].reg;
    const struct peer_batch *batch = &event->message.batch;
    uint32_t count = dataset_count(reg->found.dataset);
    char *base = arena_base(driver->config.arena);
    const uint8_t *payload = event->payload;
    if ((uint32_t)batch->count + batch->bad > sent->n)
        return false;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct peer_entry entry = peer_entry_get(batch, i);
        if (entry.index >= count || entry.len_bytes != reg->found.sample_bytes)
            return false;
        samples[i] = (struct merge_sample){.id = dataset_id(reg->found.dataset, entry.index)};
        memcpy(base + driver->cluster->offset_of[sent->tasks[i]], payload, entry.len_bytes);
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

void cluster_anchors_hear(struct driver *driver, const struct cluster_sent *sent, const struct peering_event *event)
{
    struct driver_cluster *cluster = driver->cluster;
    struct merge_sample samples[PEER_SAMPLES_MAX];
    struct merge_event told = {.type = MERGE_FAILED, .request = sent->request, .refused = event->code == LARDER_EGONE};
    if (!cluster->anchors[sent->job].anchor || cluster->anchors[sent->job].serial != sent->serial)
        return;
    switch (event->code ? PEER_DONE : event->message.type) {
    case PEER_ATTACHED:
        told.type = MERGE_ATTACHED;
        told.guest = event->message.attached.guest;
        break;
    case PEER_REFUSED:
        told.type = MERGE_REFUSED;
        log_warn_limited("msg=\"another node gives nothing to a job\" job=\"%s\" code=%s err=\"%.*s\"",
                         driver->tables.jobs[sent->job].reg->name, larder_err_name(event->message.refused.code),
                         (int)event->message.refused.text.len_bytes, (const char *)event->message.refused.text.data);
        break;
    case PEER_STALE: told.type = MERGE_STALE; break;
    case PEER_EMPTY: told.type = MERGE_EMPTY; break;
    case PEER_GONE: told.type = MERGE_GONE; break;
    case PEER_BATCH:
        if (sent->type != PEER_NEXT || !take_samples(driver, sent, event, samples))
            break;
        told.type = MERGE_BATCH;
        told.batch.last = event->message.batch.flags & PEER_LAST;
        told.batch.count = (uint32_t)event->message.batch.count + event->message.batch.bad;
        told.batch.samples = samples;
        break;
    default: break;
    }
    tell(driver, sent->job, told);
}
