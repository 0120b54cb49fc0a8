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
    for (uint32_t i = 0; i < count; i++) {
        chunk_of[i] = cluster->places[ids[i]].chunk;
        if (cluster->launch.multiset)
            ids[i] = i;
    }
    CHECK(deal_create(ids, chunk_of, count, cluster->n_chunks, &cluster->launch.deal) == 0);
}

/* Half of the runs with room for it have one. Its first trainer is like the others' last; it has a key of its own,
 * so that all else is as without it. */
void launch_begin(struct cluster *cluster)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_LAUNCH, 0, 0);
    if (cluster->tight || (!cluster->at_home && random_below(&rng, 2))) {
        cluster->at_home = false;
        return;
    }
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
    cluster->launch.multiset = epochs_multiset(cluster, 0, like.view);
    make_deal(cluster, like.view);
    if (cluster->at_home)
        at_home_begin(cluster, like.seed + 1);
}

/* check_draws checks the draws of an epoch, when all nodes have theirs. */
static void check_draws(struct cluster *cluster, uint32_t epoch)
{
    const struct launch *launch = &cluster->launch;
    uint32_t counts[CLUSTER_SAMPLES_MAX], n;
    const sample_id *ids = multiset_ids(launch->multiset, &n);
    CHECK(multiset_epoch(launch->multiset, epoch, counts) == 0);
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        if (!launch->shares[rank][epoch])
            return;
        for (uint32_t i = 0; i < n; i++)
            counts[i] -= launch->draws[rank][epoch][ids[i]];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (counts[i])
            cluster_break(cluster, RULE_DEAL, "the nodes have %d turns too few of sample %u in epoch %u",
                          (int32_t)counts[i], ids[i], epoch);
    }
}

/* check_dealt checks a share beside those of the other nodes. */
static void check_dealt(struct cluster *cluster, uint32_t epoch, uint32_t rank)
{
    const struct launch *launch = &cluster->launch;
    const struct idset *share = launch->shares[rank][epoch];
    uint64_t samples = 0;
    if (launch->multiset) {
        check_draws(cluster, epoch);
        return;
    }
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

/* dealt_epoch returns the epoch whose deal the rank is given. */
static uint32_t dealt_epoch(const struct launch_rank *of, uint32_t epoch)
{
    bool spoils = of->cluster->spoil == SPOIL_DEAL && of->rank == 0;
    CHECK(epoch < CLUSTER_EPOCHS_MAX);
    of->cluster->spoiled = of->cluster->spoiled || spoils;
    return spoils ? epoch + 1 : epoch;
}

static struct deal_ranks ranks_of(const struct launch_rank *of)
{
    at_home_deals(of->cluster, of->rank);
    return (struct deal_ranks){.world_size = of->cluster->launch.ranks, .first = of->rank, .n_ranks = 1};
}

/* keep_share compares a share with what the rank had before, and with those of the others. */
static void keep_share(const struct launch_rank *of, uint32_t epoch, const struct idset *dealt)
{
    struct idset **kept = &of->cluster->launch.shares[of->rank][epoch];
    if (*kept && !idset_equal(*kept, dealt))
        cluster_break(of->cluster, RULE_DEAL, "node %u has another share of epoch %u than before", of->rank, epoch);
    if (!*kept) {
        CHECK(idset_copy(dealt, kept) == 0);
        check_dealt(of->cluster, epoch, of->rank);
        at_home_check(of->cluster, epoch);
    }
}

static int share(const void *ctx, uint32_t epoch, const struct idset *gone, struct idset **out)
{
    const struct launch_rank *of = ctx;
    struct deal_ranks ranks = ranks_of(of);
    const struct trainer *trainer = trainer_of(of->cluster, of->rank);
    int code = deal_share(of->cluster->launch.deal, trainer->seed, dealt_epoch(of, epoch), gone, &ranks, out);
    if (!code)
        keep_share(of, epoch, *out);
    return code;
}

/* draws is for a multiset what share is for a view. */
static int draws(const void *ctx, uint32_t epoch, uint32_t *counts)
{
    const struct launch_rank *of = ctx;
    struct launch *launch = &of->cluster->launch;
    struct deal_ranks ranks = ranks_of(of);
    struct idset *dealt = NULL;
    uint32_t n;
    const sample_id *ids = multiset_ids(launch->multiset, &n);
    int code = deal_draws(launch->deal, trainer_of(of->cluster, of->rank)->seed, dealt_epoch(of, epoch), &ranks,
                          counts);
    if (code)
        return code;
    CHECK(idset_create(&dealt) == 0);
    for (uint32_t i = 0; i < n; i++) {
        launch->draws[of->rank][epoch][ids[i]] = counts[i];
        if (counts[i])
            idset_add(dealt, ids[i]);
    }
    keep_share(of, epoch, dealt);
    idset_destroy(dealt);
    return 0;
}

void launch_desc(const struct cluster *cluster, struct trainer *trainer, struct fleet_job_desc *desc)
{
    desc->part = (struct engine_part){.world_size = cluster->launch.ranks,
                                      .first = trainer->launched.rank,
                                      .share = share,
                                      .draws = draws,
                                      .deal = &trainer->launched,
                                      .home = cluster->launch.homes[trainer->launched.rank]};
    desc->multiset = cluster->launch.multiset;
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
        cluster->spoiled = cluster->spoiled || cluster->at_home;
    }
}

const struct idset *launch_share(const struct cluster *cluster, const struct trainer *trainer)
{
    return trainer->done ? NULL : cluster->launch.shares[trainer->launched.rank][trainer->epoch];
}

uint32_t launch_samples(const struct cluster *cluster, const struct trainer *trainer)
{
    const struct idset *its = launch_share(cluster, trainer);
    uint32_t samples = 0;
    if (!its)
        return epochs_draws(cluster, trainer);
    if (!cluster->launch.multiset)
        return (uint32_t)idset_count(its);
    for (sample_id id = 0; id < cluster->n_samples; id++)
        samples += launch_times(cluster, trainer, id);
    return samples;
}

uint32_t launch_times(const struct cluster *cluster, const struct trainer *trainer, sample_id id)
{
    const struct launch *launch = &cluster->launch;
    if (launch->multiset)
        return launch->draws[trainer->launched.rank][trainer->epoch][id];
    return idset_contains(launch_share(cluster, trainer), id);
}

void launch_end(struct cluster *cluster)
{
    deal_destroy(cluster->launch.deal);
    multiset_destroy(cluster->launch.multiset);
    for (uint32_t rank = 0; rank < cluster->launch.ranks; rank++) {
        idset_destroy(cluster->launch.homes[rank]);
        for (uint32_t epoch = 0; epoch < CLUSTER_EPOCHS_MAX; epoch++)
            idset_destroy(cluster->launch.shares[rank][epoch]);
    }
}
