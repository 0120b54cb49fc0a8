/* slow.c: one job, whose training takes twice what its node would need to prepare for it. In every other run the last
 * node, which is a home, takes SLOW_TIMES as long. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum {
    SLOW_TIMES = 20,
    SLOW_BATCH = 16,
    SLOW_EPOCHS = CLUSTER_EPOCHS_MAX,
    /* Samples that it gives in an epoch before it is left: the answers that prove it, what was under way, what its
     * guest has besides, and what the job's first look-ahead had. */
    SLOW_GIVES = (PACE_DEVIATIONS * PACE_DEVIATIONS + 1) * MERGE_SAMPLES_MOST,
    SLOW_GIVES_BESIDES = MERGE_UNDER_WAY_MOST + GUESTS_AHEAD + 2 * SLOW_BATCH,
    SLOW_ASKED = 2, /* epochs that ask it: one, and after a pause of one another */
};
#define SLOW_PREPARE_NS CLUSTER_MS

void slow_begin(struct cluster *cluster)
{
    struct trainer *trainer = &cluster->trainers[cluster->n_trainers++];
    cluster->slow_times = cluster->seed % 2 ? SLOW_TIMES : 1;
    *trainer = (struct trainer){.node = 0,
                                .job = UINT32_MAX,
                                .batch = SLOW_BATCH,
                                .prefetch = 2 + (uint32_t)(cluster->seed / 2 % 3),
                                .epochs = SLOW_EPOCHS,
                                .seed = cluster->seed,
                                .step_ns = 2 * SLOW_BATCH * SLOW_PREPARE_NS,
                                .next_ns = 4 * CLUSTER_S,
                                .n_view = cluster->n_samples};
    CHECK(idset_create(&trainer->view) == 0);
    for (sample_id id = 0; id < cluster->n_samples; id++)
        idset_add(trainer->view, id);
}

uint64_t slow_core(const struct cluster *cluster, uint32_t node, const struct engine_action *action)
{
    return action->prepare.n_outputs * (node + 1 == cluster->n_nodes ? cluster->slow_times : 1) * SLOW_PREPARE_NS;
}

uint64_t slow_takes(struct cluster *cluster, uint32_t node, const struct engine_action *action)
{
    if (action->type != ENGINE_PREPARE)
        return 0;
    uint64_t now_ns = fleet_now(cluster->fleet), *free_ns = &cluster->free_ns[node];
    *free_ns = (*free_ns > now_ns ? *free_ns : now_ns) + slow_core(cluster, node, action);
    return *free_ns - now_ns;
}

void slow_check(struct cluster *cluster, const struct trainer *trainer)
{
    struct anchor_counts counts = fleet_received(cluster->fleet, trainer->job);
    uint64_t most_ns = (uint64_t)(SLOW_GIVES + SLOW_ASKED * SLOW_GIVES_BESIDES) * SLOW_TIMES * SLOW_PREPARE_NS;
    if (cluster->slow_times > 1 && trainer->stood_ns > most_ns)
        cluster_break(cluster, RULE_SLOW, "a job stood still for %.1f s, and not for %.1f s at most",
                      (double)trainer->stood_ns / 1e9, (double)most_ns / 1e9);
    if (cluster->slow_times == 1 && counts.moved + counts.back)
        cluster_break(cluster, RULE_SLOW, "a home that was not slow was left: %llu samples moved, %llu back",
                      (unsigned long long)counts.moved, (unsigned long long)counts.back);
}
