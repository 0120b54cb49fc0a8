/* sharing_wants.c: whether homes give samples to a training with ranks at several nodes. Nodes tell each other what
 * their jobs want, with an ATTACH for no samples, which is refused. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/registration/ranks.h"
#include "server/registration/text_hash.h"
#include "server/sharing/sharing_priv.h"

enum { TELL_MS = 2000 };

static uint64_t preparation_of(const uint64_t fingerprint[2], uint64_t pipeline_hash, uint64_t prep_id)
{
    uint64_t parts[] = {fingerprint[0], fingerprint[1], pipeline_hash, prep_id};
    return XXH3_64bits(parts, sizeof parts);
}

/* training_of names a training the same at all its nodes. */
static uint64_t training_of(const struct sharing *sharing, const struct registration *reg)
{
    uint64_t training = ranks_training(reg);
    if (!reg->asked.all_ranks)
        training ^= XXH3_64bits(sharing->peers.self, sizeof sharing->peers.self) ^ sharing->serials;
    return training | 1; /* never 0 */
}

static bool pays(const struct sharing *sharing, const struct sharing_anchor *anchor, const struct registration *reg,
                 double prepare_s)
{
    uint32_t trainings = wants_count(&sharing->wants, anchor->training, anchor->preparation, clock_now_ns());
    if (!anchor->nodes || sharing->spread != SHARING_SPREAD_AUTO)
        return !anchor->nodes || sharing->spread == SHARING_SPREAD_ALWAYS;
    return wants_pays(trainings, prepare_s, (double)reg->found.sample_bytes * sharing->byte_s);
}

bool sharing_wants_job(struct sharing *sharing, const struct registration *reg, struct sharing_anchor *anchor)
{
    uint64_t fingerprint[2];
    dataset_fingerprint(reg->found.dataset, fingerprint);
    anchor->nodes = reg->asked.all_ranks > 0;
    anchor->training = training_of(sharing, reg);
    anchor->preparation = preparation_of(fingerprint, text_hash(pipeline_canonical(reg->found.pipeline)),
                                         sharing->prep_id);
    return !pays(sharing, anchor, reg, 0);
}

void sharing_wants_job_ended(struct sharing *sharing, const struct sharing_anchor *anchor)
{
    for (uint32_t job = 0; job < JOBS_MAX; job++) { /* more of its ranks may be here as another job */
        if (sharing->anchors[job].anchor && sharing->anchors[job].training == anchor->training)
            return;
    }
    wants_end(&sharing->wants, anchor->training);
}

void sharing_wants_hear(struct sharing *sharing, const struct peer_attach *attach)
{
    uint64_t fingerprint[2];
    memcpy(fingerprint, attach->fingerprint, sizeof fingerprint);
    uint64_t preparation = preparation_of(fingerprint, attach->pipeline_hash, attach->prep_id);
    if (attach->family && wants_hear(&sharing->wants, attach->family, preparation, clock_now_ns()))
        sharing->review = true;
}

/* tell tells the other nodes what the job wants. No job's guests have the key of job 0. */
static void tell(struct sharing *sharing, uint32_t job)
{
    struct sharing_anchor *anchor = &sharing->anchors[job];
    const struct registration *reg = job_of(sharing, job).reg;
    const char *path = dataset_text(reg->found.dataset);
    struct peer_message message = {.type = PEER_ATTACH,
                                   .attach = {.anchor_boot = sharing->host.boot,
                                              .path = {(const uint8_t *)path, (uint32_t)strlen(path)},
                                              .pipeline_hash = text_hash(pipeline_canonical(reg->found.pipeline)),
                                              .prep_id = sharing->prep_id,
                                              .form = PEER_PREPARED,
                                              .shuffle = SHUFFLE_DEPENDENT,
                                              .weight = 1,
                                              .family = anchor->training,
                                              .members = sharing_members(reg)}};
    uint64_t fingerprint[2];
    dataset_fingerprint(reg->found.dataset, fingerprint);
    memcpy(message.attach.fingerprint, fingerprint, sizeof message.attach.fingerprint);
    dataset_version(reg->found.dataset, &message.attach.version);
    memcpy(message.attach.anchor, sharing->peers.self, sizeof message.attach.anchor);
    struct idset *none = NULL;
    uint8_t *view = NULL;
    size_t view_bytes = 0;
    if (!idset_create(&none) && !idset_write(none, &view, &view_bytes)) {
        message.attach.view = (struct peer_blob){view, (uint32_t)view_bytes};
        for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
            struct sharing_sent sent = {.type = PEER_ATTACH}; /* no anchor waits for the answer */
            memcpy(sent.node, sharing->peers.all[number].id, sizeof sent.node);
            if (peers_asks(&sharing->peers, number))
                sharing_send(sharing, &sent, &message, false, TELL_MS); /* if it fails, the next time will do */
        }
    }
    idset_destroy(none);
    free(view);
    anchor->told = true;
}

/* review has homes give to the jobs for which that pays now. When it pays no more, their next epochs are lone. */
static void review(struct sharing *sharing)
{
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        struct sharing_anchor *anchor = &sharing->anchors[job];
        if (!anchor->anchor || !anchor->nodes)
            continue;
        bool lone = !pays(sharing, anchor, job_of(sharing, job).reg, sharing->host.prepare_s(sharing->host.ctx, job));
        anchor_set_lone(anchor->anchor, lone);
        if (!lone && anchor_is_lone(anchor->anchor))
            sharing_anchor_spread(sharing, job);
    }
}

void sharing_wants_go_on(struct sharing *sharing)
{
    uint64_t now_ns = clock_now_ns();
    bool due = now_ns >= sharing->tell_ns, any = sharing->review;
    if (due)
        sharing->tell_ns = now_ns + WANTS_AGAIN_NS;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        const struct sharing_anchor *anchor = &sharing->anchors[job];
        if (!anchor->anchor || (anchor->told && !due))
            continue;
        any = wants_hear(&sharing->wants, anchor->training, anchor->preparation, now_ns) || any;
        tell(sharing, job);
    }
    if (any || due)
        review(sharing);
    sharing->review = false;
}

uint64_t sharing_wants_alarm(const struct sharing *sharing)
{
    uint64_t alarm = UINT64_MAX;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (sharing->anchors[job].anchor)
            alarm = sharing->anchors[job].told ? (sharing->tell_ns < alarm ? sharing->tell_ns : alarm) : 0;
        if (alarm == 0)
            break;
    }
    return sharing->review ? 0 : alarm;
}
