/* fleet_node.c: a node's engine, and what it asks for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/fleet_priv.h"

/* ── what the engine does ── */

static bool is_guest(const struct engine_action *action)
{
    return action->client >= FLEET_GUEST_CLIENT;
}

static uint64_t guest_of(const struct engine_action *action)
{
    return action->client - FLEET_GUEST_CLIENT;
}

static void see_guest_batch(struct fleet_node *node, const struct engine_action *action)
{
    struct guests_event event = {.type = GUESTS_DELIVERED, .guest = guest_of(action)};
    event.delivered.batch = action->deliver.batch;
    event.delivered.count = action->deliver.count;
    event.delivered.last = action->deliver.last;
    CHECK(action->deliver.count <= GUESTS_BATCH);
    struct home_note *noted = home_note(&node->home, event);
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        const struct engine_entry *entry = &action->deliver.entries[i];
        noted->samples[i] = (struct guests_sample){
            .id = entry->id, .offset = entry->offset, .bytes = entry->bytes, .reason = 0};
    }
}

static void see_own_batch(struct fleet_node *node, const struct engine_action *action)
{
    const struct fleet_hooks *hooks = &node->fleet->config.hooks;
    uint64_t *instances = xcalloc(action->deliver.count + (size_t)1, sizeof *instances);
    for (uint32_t i = 0; i < action->deliver.count; i++)
        instances[i] = node->slots[action->deliver.entries[i].offset / FLEET_SLOT_BYTES];
    if (hooks->delivered)
        hooks->delivered(hooks->ctx, (uint32_t)action->client, action, instances);
    free(instances);
}

static void see_expect(struct fleet_node *node, const struct engine_action *action)
{
    uint32_t job = (uint32_t)action->client;
    size_t before = node->offsets_cap;
    node->offset_of = xgrow(node->offset_of, sizeof *node->offset_of, &node->offsets_cap,
                            (size_t)action->expect.task + 1);
    for (size_t i = before; i < node->offsets_cap; i++)
        node->offset_of[i] = 0;
    node->offset_of[action->expect.task] = action->expect.offset;
    node->expects = xgrow(node->expects, sizeof *node->expects, &node->expects_cap, node->n_expects + 1);
    node->expects[node->n_expects++] = (struct fleet_expect){job, action->expect.task, action->expect.id,
                                                             action->expect.ahead};
}

/* see_prepare gives each output its instance, and notes in the answer how long these are. */
static void see_prepare(struct fleet_node *node, const struct engine_action *action, struct engine_event *answer)
{
    struct fleet *fleet = node->fleet;
    const struct fleet_hooks *hooks = &fleet->config.hooks;
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
        fleet->instances = xgrow(fleet->instances, sizeof *fleet->instances, &fleet->instances_cap,
                                 fleet->n_instances + 1);
        fleet->instances[fleet->n_instances] = action->prepare.id;
        if (hooks->length)
            answer->prepared.bytes[i] = hooks->length(hooks->ctx, fleet->n_instances);
        node->slots[action->prepare.outputs[i].offset / FLEET_SLOT_BYTES] = fleet->n_instances++;
    }
}

/* see_work answers a LOAD or PREPARE after the time that it takes. */
static bool see_work(struct fleet_node *node, const struct engine_action *action)
{
    const struct fleet_hooks *hooks = &node->fleet->config.hooks;
    struct engine_event prepared = {.type = ENGINE_PREPARED, .prepared.task = action->prepare.task};
    if (action->type == ENGINE_PREPARE)
        see_prepare(node, action, &prepared);
    if (action->type == ENGINE_PREPARE && hooks->core)
        prepared.prepared.core_ns = hooks->core(hooks->ctx, node->no, action);
    if (hooks->works)
        hooks->works(hooks->ctx, node->no, action);
    uint64_t at_ns = node->play.now_ns + (hooks->takes ? hooks->takes(hooks->ctx, node->no, action) : 0);
    if (action->type == ENGINE_PREPARE)
        play_push_at(&node->play, at_ns, prepared);
    else
        play_answer_at(&node->play, at_ns, action);
    return true;
}

static void see_guest_job(struct fleet_node *node, const struct engine_action *action)
{
    bool added = action->type == ENGINE_JOB_ADDED;
    struct guests_event event = {.type = added ? GUESTS_ADDED : GUESTS_ENDED, .guest = guest_of(action)};
    if (added) {
        event.added.job = action->job;
        event.added.hold = action->job_added.held_max;
    }
    node->guest_at[action->job] = added;
    home_note(&node->home, event);
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct fleet_node *node = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
    case ENGINE_JOB_ENDED:
        if (is_guest(action))
            see_guest_job(node, action);
        return false;
    case ENGINE_JOB_REFUSED:
        if (is_guest(action))
            home_note(&node->home, (struct guests_event){.type = GUESTS_REFUSED,
                                                         .guest = guest_of(action),
                                                         .refused.code = action->error.error.code});
        return false;
    case ENGINE_JOB_ERROR: CHECK(!"a job of the fleet failed"); return false;
    case ENGINE_LOAD:
    case ENGINE_PREPARE: return see_work(node, action);
    case ENGINE_EXPECT: see_expect(node, action); return true;
    case ENGINE_DELIVER:
        if (is_guest(action))
            see_guest_batch(node, action);
        else
            see_own_batch(node, action);
        return is_guest(action); /* that is released when the anchor has it */
    default: return false;
    }
}

/* ── jobs ── */

static int add(struct fleet_node *node, struct engine_job_desc *desc, const struct idset *view)
{
    const struct fleet_config *config = &node->fleet->config;
    uint64_t count = idset_count(view);
    sample_id *ids = xcalloc(count + 1, sizeof *ids);
    struct chunk_slot *places = xcalloc(count + 1, sizeof *places);
    idset_to_array(view, ids);
    for (uint64_t i = 0; i < count; i++)
        places[i] = config->places[ids[i]];
    desc->dataset = node->fleet;
    desc->sized = config->sized >> desc->pipeline & 1;
    desc->slot_bytes = desc->sized ? FLEET_SIZED_BYTES : FLEET_SLOT_BYTES;
    desc->bad_policy = BAD_SKIP;
    desc->sampled.shuffle = SHUFFLE_DEPENDENT;
    desc->sampled.view = view;
    desc->chunks = (struct engine_chunks){
        .places = places, .key = {1}, .count = config->n_chunks, .samples = config->chunk_samples};
    uint32_t job = play_add(&node->play, desc);
    free(ids);
    free(places);
    return job == UINT32_MAX ? node->play.refused : 0;
}

static struct anchor *make_anchor(struct fleet_node *node, const struct fleet_job_desc *job)
{
    const struct fleet_config *config = &node->fleet->config;
    uint64_t count = idset_count(job->view);
    sample_id *ids = xcalloc(count + 1, sizeof *ids);
    uint32_t *chunk_of = xcalloc(count + 1, sizeof *chunk_of);
    struct anchor_desc desc = {.peers = &node->peers,
                               .n_chunks = config->n_chunks,
                               .bound = MAP_BOUND,
                               .resumed = job->resume != NULL || job->family,
                               .lone = job->lone,
                               .ids = ids,
                               .chunk_of = chunk_of,
                               .count = (uint32_t)count};
    struct anchor *anchor = NULL;
    for (int i = 0; i < MAP_FINGERPRINT_BYTES; i++)
        desc.fingerprint[i] = config->fingerprint[i];
    idset_to_array(job->view, ids);
    for (uint64_t i = 0; i < count; i++)
        chunk_of[i] = config->places[ids[i]].chunk;
    CHECK(anchor_create(&desc, &anchor) == 0);
    free(ids);
    free(chunk_of);
    return anchor;
}

static bool end_guests(struct fleet_node *node)
{
    bool any = false;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        if (!node->guest_at[job])
            continue;
        any = true;
        play_gone(&node->play, job, 0);
    }
    return any;
}

int fleet_add_job(struct fleet_node *node, uint32_t number, const struct fleet_job_desc *job)
{
    char name[32];
    snprintf(name, sizeof name, "job %u", number);
    struct anchor *anchor = make_anchor(node, job);
    struct engine_job_desc desc = {.client = number,
                                   .name = name,
                                   .pipeline = job->pipeline,
                                   .batch_size = job->batch,
                                   .prefetch = job->prefetch,
                                   .epochs = job->epochs,
                                   .sampled.seed = job->seed,
                                   .part = job->part,
                                   .sampled.multiset = job->multiset,
                                   .homes = {anchor_elsewhere, anchor},
                                   .family = job->family,
                                   .inherits = job->part.world_size && job->resume ? ENGINE_INHERITS_ALL
                                                                                   : ENGINE_INHERITS_NOTHING,
                                   .resume = job->resume};
    struct fleet_job *added = &node->fleet->jobs[number];
    *added = (struct fleet_job){.there = true,
                                .serial = ++node->fleet->job_serials,
                                .node = node->no,
                                .pipeline = job->pipeline,
                                .view = job->view,
                                .multiset = job->multiset,
                                .family = job->family,
                                .anchor = anchor};
    int code = add(node, &desc, job->view);
    if (code && end_guests(node)) /* jobs of this node come first */
        code = add(node, &desc, job->view);
    added->job = node->play.job;
    if (code) {
        anchor_destroy(anchor);
        *added = (struct fleet_job){0};
    }
    return code;
}

/* make_given makes what a guest's epoch is of the part that it was asked for. It stays NULL if that is a set. */
static struct multiset *make_given(const struct fleet_message *attach, const struct idset *view)
{
    uint32_t count = (uint32_t)idset_count(view);
    if (bag_count(attach->ids) == count)
        return NULL;
    struct multiset *given = NULL;
    struct error err;
    sample_id *ids = xcalloc(count, sizeof *ids);
    uint32_t *counts = xcalloc(count, sizeof *counts);
    idset_to_array(view, ids);
    for (uint32_t i = 0; i < count; i++)
        counts[i] = bag_times(attach->ids, ids[i]);
    struct multiset_spec spec = {
        .kind = MULTISET_GIVEN, .ids = ids, .counts = counts, .count = count, .together = attach->together};
    CHECK(multiset_create(&spec, &given, &err) == 0);
    free(ids);
    free(counts);
    return given;
}

void fleet_add_guest(struct fleet_node *node, const struct guests_action *action)
{
    char name[32];
    struct idset *view = NULL;
    CHECK(bag_ids(node->attaching->ids, &view) == 0);
    struct multiset *given = make_given(node->attaching, view);
    snprintf(name, sizeof name, "guest %llu", (unsigned long long)action->guest);
    struct engine_job_desc desc = {.client = FLEET_GUEST_CLIENT + action->guest,
                                   .name = name,
                                   .pipeline = node->attaching->pipeline,
                                   .sampled.multiset = given,
                                   .batch_size = GUESTS_BATCH,
                                   .prefetch = GUESTS_PREFETCH,
                                   .hold = GUESTS_HOLD,
                                   .family = node->attaching->family,
                                   .inherits = ENGINE_INHERITS_NOTHING};
    if (action->resolve.all)
        desc.inherits = ENGINE_INHERITS_ALL;
    if (action->resolve.predecessor != GUESTS_NO_JOB) {
        desc.inherits = ENGINE_INHERITS_JOB;
        desc.predecessor = action->resolve.predecessor;
    }
    if (add(node, &desc, view) == 0) {
        multiset_destroy(node->given_at[node->play.job]); /* of a guest that is gone */
        node->given_at[node->play.job] = given;
    } else {
        multiset_destroy(given);
    }
    idset_destroy(view);
}

void fleet_end_job(struct fleet *fleet, struct fleet_job *job)
{
    struct anchor_counts counts = anchor_counts(job->anchor);
    fleet->counts.moved += counts.moved;
    fleet->counts.back += counts.back;
    anchor_destroy(job->anchor);
    *job = (struct fleet_job){0};
}

/* ── a daemon's life ── */

void fleet_id(uint32_t node, uint8_t id[MAP_NODE_ID_BYTES])
{
    memset(id, 0, MAP_NODE_ID_BYTES);
    id[0] = (uint8_t)(node + 1);
}

uint32_t fleet_node(const uint8_t id[MAP_NODE_ID_BYTES])
{
    return id[0] - 1u;
}

void fleet_begin_node(struct fleet *fleet, uint32_t no)
{
    struct fleet_node *node = &fleet->nodes[no];
    struct engine_config config = fleet->config.engine;
    struct guests_config guests = fleet->config.guests;
    struct map_node self = {.weight = 1};
    struct error err;
    node->fleet = fleet;
    node->no = no;
    node->boot++;
    node->lives = true;
    node->stands = false;
    config.seed = random_mix64(config.seed + random_mix64(no + FLEET_NODES_MAX * node->boot));
    fleet_id(no, self.id);
    peers_init(&node->peers, &self);
    CHECK(play_create(config, &node->play, &err) == 0);
    guests.boot = node->boot;
    CHECK(home_begin(&guests, &node->home) == 0);
    memset(node->guest_at, 0, sizeof node->guest_at);
    node->slots = xcalloc(config.arena_bytes / FLEET_SLOT_BYTES + 1, sizeof *node->slots);
    node->play.now_ns = fleet->now_ns;
    node->play.see = see;
    node->play.ctx = node;
}

void fleet_end_node(struct fleet_node *node)
{
    if (!node->lives)
        return;
    for (uint32_t number = 0; number < node->fleet->jobs_end; number++) {
        struct fleet_job *job = &node->fleet->jobs[number];
        if (job->there && job->node == node->no) {
            fleet_end_job(node->fleet, job);
        }
    }
    home_end(&node->home);
    play_end(&node->play);
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        multiset_destroy(node->given_at[job]);
        node->given_at[job] = NULL;
    }
    free(node->slots);
    for (size_t i = 0; i < node->n_waiting; i++)
        fleet_free(node->waiting[i]);
    node->n_waiting = node->n_expects = 0;
    for (uint32_t i = 0; i < FLEET_SENT_MAX; i++)
        node->sent[i] = (struct fleet_sent){0};
    node->lives = false;
}
