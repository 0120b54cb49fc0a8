/* launch.c: a job whose ranks are at several nodes. Each epoch's samples are dealt to the nodes: what one has is no
 * other's. Homes give them from the beginning, from some time on, or never. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { KEY_LAUNCH = 9, FAMILY_LAUNCH = 77 };

static struct trainer *trainer_of(struct cluster *cluster, uint32_t rank)
{
    struct trainer *trainer = cluster->trainers;
    while (!trainer->dealt || trainer->launched.rank != rank)
        trainer++;
    return trainer;
}

static void make_deal(struct cluster *cluster, const struct idset *view)
{
    sample_id ids[CLUSTER_SAMPLES_MAX];
    uint32_t chunk_of[CLUSTER_SAMPLES_MAX], count = (uint32_t)idset_count(view);
    idset_to_array(view, ids);
    for (uint32_t i = 0; i < count; i++)
        chunk_of[i] = cluster->places[ids[i]].chunk;
    CHECK(deal_create(ids, chunk_of, count, cluster->n_chunks, &cluster->launch.deal) == 0);
}

/* Half of the runs with room for it have one. Its first trainer is like the others' last; it has a key of its own,
 * so that all else is as without it. */
void launch_begin(struct cluster *cluster)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_LAUNCH, 0, 0);
    if (cluster->tight || random_below(&rng, 2))
        return;
    const struct trainer like = cluster->trainers[cluster->n_trainers - 1];
    cluster->launch.ranks = 2 + (uint32_t)random_below(&rng, cluster->n_nodes - 1);
    for (uint32_t rank = 0; rank < cluster->launch.ranks; rank++) {
        struct trainer *trainer = &cluster->trainers[cluster->n_trainers++];
        *trainer = (struct trainer){.node = rank,
                                    .job = UINT32_MAX,
                                    .dealt = true,
                                    .launched = {cluster, rank},
                                    .batch = like.batch,
                                    .prefetch = like.prefetch,
                                    .epochs = like.epochs,
                                    .pipeline = like.pipeline,
                                    .seed = like.seed + 1,
                                    .step_ns = (1 + random_below(&rng, 60)) * CLUSTER_MS,
                                    .next_ns = 3 * CLUSTER_S + random_below(&rng, 3 * CLUSTER_S),
                                    .n_view = like.n_view};
        CHECK(idset_copy(like.view, &trainer->view) == 0);
    }
    cluster->launch.lone = random_below(&rng, 2);
    cluster->launch.turn_ns = random_below(&rng, 4) ? 4 * CLUSTER_S + random_below(&rng, 4 * CLUSTER_S) : UINT64_MAX;
    make_deal(cluster, like.view);
}

/* check_dealt checks a share beside those of the other nodes. */
static void check_dealt(struct cluster *cluster, uint32_t epoch, uint32_t rank)
{
    const struct launch *launch = &cluster->launch;
    const struct idset *share = launch->shares[rank][epoch];
    uint64_t samples = 0;
    for (uint32_t other = 0; other < launch->ranks; other++) {
        const struct idset *its = launch->shares[other][epoch];
        if (its && other != rank && idset_intersection_count(its, share))
            cluster_break(cluster, RULE_DEAL, "nodes %u and %u both have %u samples of epoch %u", rank, other,
                          (unsigned)idset_intersection_count(its, share), epoch);
        if (!its)
            return;
        samples += idset_count(its);
    }
    const struct trainer *trainer = trainer_of(cluster, rank);
    if (samples != trainer->n_view)
        cluster_break(cluster, RULE_DEAL, "the nodes have %u of %u samples of epoch %u", (unsigned)samples,
                      trainer->n_view, epoch);
}

static int share(const void *ctx, uint32_t epoch, struct idset **out)
{
    const struct launch_rank *of = ctx;
    struct cluster *cluster = of->cluster;
    struct launch *launch = &cluster->launch;
    const struct trainer *trainer = trainer_of(cluster, of->rank);
    struct deal_ranks ranks = {.world_size = launch->ranks, .first = of->rank, .n_ranks = 1};
    bool spoils = cluster->spoil == SPOIL_DEAL && of->rank == 0;
    CHECK(epoch < CLUSTER_EPOCHS_MAX);
    cluster->spoiled = cluster->spoiled || spoils;
    int code = deal_share(launch->deal, trainer->seed, spoils ? epoch + 1 : epoch, &ranks, out);
    struct idset **kept = &launch->shares[of->rank][epoch];
    if (code)
        return code;
    if (*kept && !idset_equal(*kept, *out))
        cluster_break(cluster, RULE_DEAL, "node %u has another share of epoch %u than before", of->rank, epoch);
    if (!*kept) {
        CHECK(idset_copy(*out, kept) == 0);
        check_dealt(cluster, epoch, of->rank);
    }
    return 0;
}

void launch_desc(const struct cluster *cluster, struct trainer *trainer, struct fleet_job_desc *desc)
{
    desc->part = (struct engine_part){.world_size = cluster->launch.ranks,
                                      .first = trainer->launched.rank,
                                      .share = share,
                                      .deal = &trainer->launched};
    desc->family = FAMILY_LAUNCH;
    desc->lone = cluster->launch.lone;
}

/* Ranks train in step. */
bool launch_waits(const struct cluster *cluster, const struct trainer *trainer)
{
    for (uint32_t i = 0; trainer->dealt && i < cluster->n_trainers; i++) {
        const struct trainer *other = &cluster->trainers[i];
        bool behind = other->epoch < trainer->epoch ||
                      (other->epoch == trainer->epoch && other->batches < trainer->batches);
        if (other->dealt && behind)
            return true;
    }
    return false;
}

uint64_t launch_alarm(const struct cluster *cluster)
{
    return cluster->launch.lone ? cluster->launch.turn_ns : UINT64_MAX;
}

void launch_happens(struct cluster *cluster)
{
    struct launch *launch = &cluster->launch;
    if (launch_alarm(cluster) > fleet_now(cluster->fleet))
        return;
    launch->lone = false;
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        const struct trainer *trainer = trainer_of(cluster, rank);
        if (trainer->job != UINT32_MAX && fleet_lives(cluster->fleet, trainer->node))
            fleet_spread(cluster->fleet, trainer->job);
    }
}

const struct idset *launch_share(const struct cluster *cluster, const struct trainer *trainer)
{
    return trainer->done ? NULL : cluster->launch.shares[trainer->launched.rank][trainer->epoch];
}

uint32_t launch_samples(const struct cluster *cluster, const struct trainer *trainer)
{
    const struct idset *its = trainer->dealt ? launch_share(cluster, trainer) : NULL;
    return its ? (uint32_t)idset_count(its) : trainer->n_view;
}

void launch_end(struct cluster *cluster)
{
    deal_destroy(cluster->launch.deal);
    for (uint32_t rank = 0; rank < cluster->launch.ranks; rank++) {
        for (uint32_t epoch = 0; epoch < CLUSTER_EPOCHS_MAX; epoch++)
            idset_destroy(cluster->launch.shares[rank][epoch]);
    }
}
