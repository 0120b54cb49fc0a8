/* sharing_note.c: what a step of the engine means to the cluster. It is noted here, and dealt with when the step is
 * over. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "server/sharing/sharing_priv.h"

#define HEAD_BYTES_MAX 65536 /* length of an answer's head, before the samples */

/* ── jobs ── */

/* fits tells whether it is known how long a sample may be, and an answer has room for it. */
static bool fits(const struct registration *reg)
{
    uint64_t bytes = pipeline_layout(reg->found.pipeline)->bytes;
    return bytes > 0 && bytes <= PEER_ANSWER_MAX - HEAD_BYTES_MAX;
}

/* may_share tells whether other nodes may give samples to the job: it shares its instances with any other of its
 * pipeline, in an order of the daemon's choice. A merge of several nodes' orders deals each sample once. A job that is
 * dealt at home has its samples in its nodes' memory, and spares the network. */
static bool may_share(const struct registration *reg)
{
    const uint32_t alone = WIRE_PRIVATE_AUGMENT | WIRE_ORDERED;
    return reg->guest.number == 0 && !reg->asked.at_home && reg->asked.shuffle == SHUFFLE_DEPENDENT &&
           (reg->asked.flags & alone) == 0 && fits(reg) &&
           strlen(pipeline_canonical(reg->found.pipeline)) <= PEER_PIPELINE_MAX &&
           strlen(dataset_text(reg->found.dataset)) <= PEER_PATH_MAX;
}

void sharing_anchor(struct sharing *sharing, const struct registration *reg, struct engine_job_desc *desc)
{
    if (!sharing || !sharing->peering || !may_share(reg))
        return;
    struct sharing_anchor adding = {.serial = ++sharing->serials};
    uint32_t count = reg->found.selection->view.count;
    sample_id *ids = malloc((count + (size_t)1) * sizeof *ids);
    uint32_t *chunk_of = malloc((count + (size_t)1) * sizeof *chunk_of);
    struct anchor_desc anchor = {.peers = &sharing->peers,
                                 .n_chunks = dataset_chunk_count(reg->found.dataset),
                                 .bound = MAP_BOUND,
                                 /* another node's anchor may have been given instances that this one gets later */
                                 .resumed = reg->found.restore != NULL || reg->asked.all_ranks,
                                 .lone = sharing_wants_job(sharing, reg, &adding),
                                 .ids = ids,
                                 .chunk_of = chunk_of,
                                 .count = count};
    uint64_t fingerprint[2];
    dataset_fingerprint(reg->found.dataset, fingerprint);
    memcpy(anchor.fingerprint, fingerprint, sizeof anchor.fingerprint);
    if (ids && chunk_of) {
        idset_to_array(reg->found.selection->view.ids, ids);
        for (uint32_t i = 0; i < count; i++)
            chunk_of[i] = reg->found.selection->places[i].chunk;
    }
    CHECK(!sharing->adding.anchor);
    if (ids && chunk_of && anchor_create(&anchor, &adding.anchor) == 0) {
        sharing->adding = adding;
        desc->homes = (struct engine_homes){anchor_elsewhere, adding.anchor};
        desc->family = adding.nodes ? adding.training : 0;
        if (adding.nodes && reg->found.restore)
            desc->inherits = ENGINE_INHERITS_ALL;
    } else {
        log_warn_limited("msg=\"no memory to share this job's samples with other nodes\" job=\"%s\"", reg->name);
    }
    free(ids);
    free(chunk_of);
}

void sharing_job_added(struct sharing *sharing, const struct engine_action *action, const struct registration *reg)
{
    if (!sharing)
        return;
    if (reg->guest.number) {
        home_note(&sharing->home, (struct guests_event){.type = GUESTS_ADDED,
                                                        .guest = reg->guest.number,
                                                        .added = {action->job, action->job_added.held_max}});
    } else if (sharing->adding.anchor) {
        sharing->anchors[action->job] = sharing->adding;
        sharing->adding = (struct sharing_anchor){0};
    }
}

void sharing_job_refused(struct sharing *sharing, const struct registration *reg, int code)
{
    if (!sharing)
        return;
    anchor_destroy(sharing->adding.anchor);
    sharing->adding = (struct sharing_anchor){0};
    if (reg->guest.number)
        sharing_guest_refused(sharing, reg, code);
}

void sharing_job_ended(struct sharing *sharing, uint32_t job)
{
    if (!sharing)
        return;
    const struct registration *reg = job_of(sharing, job).reg;
    if (reg->guest.number)
        home_note(&sharing->home, (struct guests_event){.type = GUESTS_ENDED, .guest = reg->guest.number});
    struct sharing_anchor *anchor = &sharing->anchors[job];
    if (!anchor->anchor)
        return;
    struct anchor_counts counts = anchor_counts(anchor->anchor);
    log_info_limited("msg=\"samples from other nodes\" job=\"%s\" received=%llu refused=%llu moved=%llu back=%llu",
                     reg->name, (unsigned long long)counts.received, (unsigned long long)counts.refused,
                     (unsigned long long)counts.moved, (unsigned long long)counts.back);
    sharing->ended = xgrow(sharing->ended, sizeof *sharing->ended, &sharing->ended_cap, sharing->n_ended + 1);
    sharing->ended[sharing->n_ended++] = *anchor;
    struct sharing_anchor ended = *anchor;
    *anchor = (struct sharing_anchor){0};
    sharing_wants_job_ended(sharing, &ended);
}

void sharing_expect(struct sharing *sharing, const struct engine_action *action)
{
    CHECK(sharing);
    sharing->offset_of = xgrow(sharing->offset_of, sizeof *sharing->offset_of, &sharing->offsets_cap,
                               (size_t)action->expect.task + 1);
    sharing->offset_of[action->expect.task] = action->expect.offset;
    sharing->expected = xgrow(sharing->expected, sizeof *sharing->expected, &sharing->expected_cap,
                              sharing->n_expected + 1);
    sharing->expected[sharing->n_expected++] = (struct sharing_expected){action->job, action->expect.task,
                                                                         action->expect.id, action->expect.ahead,
                                                                         sharing->anchors[action->job].serial};
}

/* ── guests ── */

void sharing_guest_failed(struct sharing *sharing, uint32_t job)
{
    sharing->failed = xgrow(sharing->failed, sizeof *sharing->failed, &sharing->failed_cap, sharing->n_failed + 1);
    sharing->failed[sharing->n_failed++] = job;
}

const char *sharing_guest_mismatch(struct sharing *sharing, const struct registration *reg)
{
    uint64_t fingerprint[2];
    struct dataset_version version;
    if (!sharing->peering)
        return "this daemon leaves";
    if (!fits(reg))
        return "samples of this pipeline are too long to be sent, or of no known length";
    dataset_fingerprint(reg->found.dataset, fingerprint);
    if (memcmp(fingerprint, reg->guest.fingerprint, sizeof fingerprint) != 0)
        return "the dataset is another one here: its folder has other files";
    dataset_version(reg->found.dataset, &version);
    return versions_may_give(&sharing->given, &reg->guest.key, &reg->guest.version, &version);
}

void sharing_guest_desc(const struct registration *reg, struct engine_job_desc *desc)
{
    desc->hold = GUESTS_HOLD;
    desc->bad_unlimited = true;
    desc->family = reg->guest.family;
    desc->inherits = ENGINE_INHERITS_NOTHING;
    if (reg->guest.all)
        desc->inherits = ENGINE_INHERITS_ALL;
    if (reg->guest.predecessor != GUESTS_NO_JOB) {
        desc->inherits = ENGINE_INHERITS_JOB;
        desc->predecessor = reg->guest.predecessor;
    }
}

void sharing_guest_refused(struct sharing *sharing, const struct registration *reg, int code)
{
    home_note(&sharing->home,
              (struct guests_event){.type = GUESTS_REFUSED, .guest = reg->guest.number, .refused.code = code});
}

void sharing_guest_batch(struct sharing *sharing, const struct engine_action *action)
{
    const struct registration *reg = job_of(sharing, action->job).reg;
    struct home_note *noted = home_note(&sharing->home,
                                        (struct guests_event){.type = GUESTS_DELIVERED,
                                                              .guest = reg->guest.number,
                                                              .delivered = {.batch = action->deliver.batch,
                                                                            .count = action->deliver.count,
                                                                            .last = action->deliver.last}});
    CHECK(action->deliver.count <= GUESTS_BATCH);
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        const struct engine_entry *entry = &action->deliver.entries[i];
        noted->samples[i] = (struct guests_sample){.offset = entry->offset, .bytes = entry->bytes};
        CHECK(dataset_index(reg->found.dataset, entry->id, &noted->samples[i].id));
    }
}
