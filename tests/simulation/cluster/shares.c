/* shares.c: where the samples of each job's epoch are, by three that know of it apart: the engine, which draws them or
 * expects them; the anchor's parts, which are to give them; and the ledger of what was had. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { PARTS_MAX = MERGE_PARTS_MAX };

static void check_counts(struct cluster *cluster, struct trainer *trainer, const struct inside_share *share)
{
    uint64_t samples = epochs_samples(cluster, trainer);
    uint64_t found = share->here + share->elsewhere + share->pinned + trainer->n_had;
    if (found != samples)
        cluster_break(cluster, RULE_SHARE,
                      "a job of node %u has %u samples in epoch %u, and %u are here, %u elsewhere, %u planned, %u had",
                      trainer->node, (unsigned)samples, trainer->epoch, (unsigned)share->here,
                      (unsigned)share->elsewhere, (unsigned)share->pinned, trainer->n_had);
}

/* What the parts are to give is what is elsewhere: none of it is in two parts, and none in no part. Each entry that has
 * a place for one of them has it in some part; so may one that nobody waits for any more. */
static void check_parts(struct cluster *cluster, const struct trainer *trainer, const struct inside_share *share,
                        const struct merge_status *parts, size_t n_parts)
{
    uint64_t left = 0, slots = 0;
    for (size_t i = 0; i < n_parts; i++) {
        left += parts[i].left;
        slots += parts[i].asked + parts[i].waiting;
    }
    if (slots < share->placed)
        cluster_break(cluster, RULE_SHARE, "%u entries of a job of node %u have places, and its parts have %u",
                      (unsigned)share->placed, trainer->node, (unsigned)slots);
    if (left != share->elsewhere)
        cluster_break(cluster, RULE_SHARE, "%u samples of a job of node %u are elsewhere, and %u are in its parts",
                      (unsigned)share->elsewhere, trainer->node, (unsigned)left);
}

static void check_trainer(struct cluster *cluster, struct trainer *trainer)
{
    struct merge_status parts[PARTS_MAX];
    struct inside_share share;
    fleet_share(cluster->fleet, trainer->job, &share);
    if (!share.runs || share.epoch != trainer->epoch) {
        trainer->look.there = false;
        return;
    }
    size_t n_parts = fleet_parts(cluster->fleet, trainer->job, parts, PARTS_MAX);
    CHECK(n_parts <= PARTS_MAX);
    check_counts(cluster, trainer, &share);
    check_parts(cluster, trainer, &share, parts, n_parts);
    at_home_check_parts(cluster, trainer, share.elsewhere, n_parts);
    const struct multiset *multiset = epochs_of(cluster, trainer);
    if (!multiset || !multiset_is_together(multiset)) /* copies are not drawn one by one */
        uniform_look(cluster, trainer, &share, parts, n_parts);
}

void shares_check(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        struct trainer *trainer = &cluster->trainers[i];
        bool there = trainer->job != UINT32_MAX && fleet_lives(cluster->fleet, trainer->node) && !trainer->done;
        if (there && !cluster->stands_until_ns[trainer->node])
            check_trainer(cluster, trainer);
        else if (!there)
            trainer->look.there = false;
    }
}
