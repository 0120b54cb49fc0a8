/* ledger.c: what holds of each batch that a trainer gets, and of each that a home gives. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

/* A batch of a home's, by its guest and number. */
struct given_batch {
    uint32_t home;
    uint64_t boot, guest, seq, content;
    bool taken;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return random_mix64(hash ^ random_mix64(value + 1));
}

static struct given_batch *find(const struct cluster *cluster, uint32_t home, uint64_t boot, uint64_t guest,
                                uint64_t seq)
{
    for (size_t i = cluster->n_given; i > 0; i--) { /* the newest are asked for most */
        struct given_batch *given = &cluster->given[i - 1];
        if (given->home == home && given->boot == boot && given->guest == guest && given->seq == seq)
            return given;
    }
    return NULL;
}

bool ledger_has(const struct cluster *cluster, const struct fleet_given *given)
{
    return find(cluster, given->home, given->boot, given->guest, given->seq) != NULL;
}

void ledger_gives(void *ctx, const struct fleet_given *given)
{
    struct cluster *cluster = ctx;
    uint64_t content = given->last;
    for (uint32_t i = 0; i < given->n_samples; i++)
        content = mix(mix(content, given->samples[i].id), given->instances[i]);
    struct given_batch *before = find(cluster, given->home, given->boot, given->guest, given->seq);
    if (before && before->content != content)
        cluster_break(cluster, RULE_SEQ, "node %u gave other samples for number %llu of guest %llu", given->home,
                      (unsigned long long)given->seq, (unsigned long long)given->guest);
    if (before)
        return;
    cluster->given = xgrow(cluster->given, sizeof *cluster->given, &cluster->given_cap, cluster->n_given + 1);
    cluster->given[cluster->n_given++] = (struct given_batch){given->home, given->boot, given->guest,
                                                              given->seq,  content,     false};
    cluster->hash = mix(cluster->hash, content);
}

void ledger_takes(void *ctx, uint32_t home, uint64_t boot, uint64_t guest, uint64_t seq)
{
    struct given_batch *given = find(ctx, home, boot, guest, seq);
    CHECK(given);
    given->taken = true;
}

static bool is_acked(const struct guests_event *event, uint64_t seq)
{
    uint64_t above = seq - event->next.acked - 1;
    return seq <= event->next.acked || (above < 64 && event->next.more >> above & 1);
}

/* An anchor acknowledges only what it has. */
void ledger_asked(void *ctx, uint32_t home, uint64_t boot, const struct guests_event *event)
{
    struct cluster *cluster = ctx;
    for (size_t i = 0; event->type == GUESTS_NEXT && i < cluster->n_given; i++) {
        const struct given_batch *given = &cluster->given[i];
        if (given->home == home && given->boot == boot && given->guest == event->guest && !given->taken &&
            is_acked(event, given->seq))
            cluster_break(cluster, RULE_SEQ, "number %llu of guest %llu at node %u was acknowledged and not taken",
                          (unsigned long long)given->seq, (unsigned long long)given->guest, home);
    }
    cluster->events++;
}

void ledger_free(struct cluster *cluster)
{
    free(cluster->given);
    free(cluster->had_by);
}

/* ── trainers ── */

/* had counts a sample; a repeat is nobody's turn, and one of the trainer's share. */
static void had(struct cluster *cluster, struct trainer *trainer, sample_id id, bool repeat)
{
    /* Where a rank's share is empty, because there are fewer draws than ranks, it gets any sample of the epoch. */
    bool none = repeat && trainer->dealt && cluster->launch.multiset && epochs_samples(cluster, trainer) == 0;
    uint32_t times = epochs_times(cluster, trainer, id);
    if (!none && (times == 0 || (!repeat && trainer->had[id] >= times)))
        cluster_break(cluster, RULE_TWICE, "a job got sample %u twice, or once too often, in epoch %u", id,
                      trainer->epoch);
    trainer->repeats += repeat;
    trainer->n_had += !repeat;
    trainer->had[id] = (uint8_t)(trainer->had[id] + !repeat); /* a repeat may come before the sample's own turn */
}

static void take(struct cluster *cluster, struct trainer *trainer, const struct engine_entry *entry, uint64_t instance)
{
    sample_id id = entry->id;
    /* The ranks of the job over several nodes are one. */
    uint64_t bit = UINT64_C(1) << (trainer->dealt ? CLUSTER_JOBS_MAX : trainer - cluster->trainers);
    size_t before = cluster->had_cap;
    if (fleet_instance_sample(cluster->fleet, instance) != id)
        cluster_break(cluster, RULE_BYTES, "a job got the pixels of sample %u for sample %u",
                      fleet_instance_sample(cluster->fleet, instance), id);
    uint64_t bytes = cluster->sized >> trainer->pipeline & 1 ? cluster_length(cluster, instance) : FLEET_SLOT_BYTES;
    if (entry->bytes != bytes)
        cluster_break(cluster, RULE_BYTES, "a job got %u bytes of sample %u, which has %u", (unsigned)entry->bytes, id,
                      (unsigned)bytes);
    had(cluster, trainer, id, entry->turn == SAMPLE_NONE);
    cluster->had_by = xgrow(cluster->had_by, sizeof *cluster->had_by, &cluster->had_cap, instance + 1);
    memset(cluster->had_by + before, 0, (cluster->had_cap - before) * sizeof *cluster->had_by);
    if (cluster->had_by[instance] & bit)
        cluster_break(cluster, RULE_INSTANCE, "a job of node %u got an instance of sample %u twice", trainer->node, id);
    cluster->had_by[instance] |= bit;
    cluster->samples++;
    cluster->hash = mix(mix(cluster->hash, id), instance);
}

static struct trainer *trainer_of(struct cluster *cluster, uint32_t job)
{
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        if (cluster->trainers[i].job == job)
            return &cluster->trainers[i];
    }
    return NULL;
}

static void end_epoch(struct cluster *cluster, struct trainer *trainer)
{
    uint32_t samples = epochs_samples(cluster, trainer), ranks = trainer->dealt ? cluster->launch.ranks : 1;
    if (trainer->n_had != samples)
        cluster_break(cluster, RULE_ALL, "a job got %u of %u samples in epoch %u", trainer->n_had, samples,
                      trainer->epoch);
    if (trainer->n_had + trainer->repeats != (epochs_draws(cluster, trainer) + ranks - 1) / ranks)
        cluster_break(cluster, RULE_ALL, "a rank of %u got %u samples and %u repeats of %u in epoch %u", ranks,
                      trainer->n_had, trainer->repeats, epochs_draws(cluster, trainer), trainer->epoch);
    memset(trainer->had, 0, sizeof trainer->had);
    trainer->n_had = trainer->batches = trainer->repeats = 0;
    trainer->epoch++;
    trainer->done = trainer->epoch == trainer->epochs;
}

void ledger_delivered(void *ctx, uint32_t job, const struct engine_action *action, const uint64_t *instances)
{
    struct cluster *cluster = ctx;
    struct trainer *trainer = trainer_of(cluster, job);
    CHECK(trainer);
    uint64_t now_ns = fleet_now(cluster->fleet), stall_ns = now_ns - trainer->asked_ns;
    for (uint32_t i = 0; i < action->deliver.count; i++)
        take(cluster, trainer, &action->deliver.entries[i], instances[i]);
    cluster->most_stall_ns = stall_ns > cluster->most_stall_ns ? stall_ns : cluster->most_stall_ns;
    trainer->stood_ns += trainer->epoch || trainer->batches ? stall_ns : 0;
    trainer->asked = false;
    trainer->next_ns = now_ns + trainer->step_ns;
    trainer->batches++;
    if (action->deliver.last)
        end_epoch(cluster, trainer);
    if (cluster->kind == KIND_SLOW && trainer->done)
        slow_check(cluster, trainer);
}
