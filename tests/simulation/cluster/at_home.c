/* at_home.c: a job over several nodes that is dealt at home. Each node keeps its part but for what is mixed, and asks
 * no other node. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { KEY_AT_HOME = 23 };

/* name_samples makes a set of samples of that of their numbers in a multiset. */
static void name_samples(const struct launch *launch, struct idset **set)
{
    uint32_t n;
    const sample_id *ids = multiset_ids(launch->multiset, &n);
    struct idset *named = NULL;
    CHECK(idset_create(&named) == 0);
    for (uint32_t i = 0; i < n; i++) {
        if (idset_contains(*set, i))
            idset_add(named, ids[i]);
    }
    idset_destroy(*set);
    *set = named;
}

void at_home_begin(struct cluster *cluster, uint64_t seed)
{
    static const uint32_t mixes[] = {0, 1, 5, 10};
    struct launch *launch = &cluster->launch;
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_AT_HOME, 0, 0);
    launch->mix = DEAL_MIX_ALL / 10 * mixes[random_below(&rng, 4)];
    launch->lone = true; /* it asks nobody, */
    if (cluster->spoil != SPOIL_STRAY)
        launch->turn_ns = UINT64_MAX; /* and never will */
    deal_at_home(launch->deal, 0);
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        struct deal_ranks ranks = {.world_size = launch->ranks, .first = rank, .n_ranks = 1};
        CHECK(deal_share(launch->deal, seed, 0, NULL, &ranks, &launch->homes[rank]) == 0);
        if (launch->multiset)
            name_samples(launch, &launch->homes[rank]);
    }
    deal_at_home(launch->deal, launch->mix);
}

void at_home_deals(struct cluster *cluster, uint32_t rank)
{
    struct launch *launch = &cluster->launch;
    uint32_t mix = launch->mix;
    if (!cluster->at_home)
        return;
    if (cluster->spoil == SPOIL_STIR && rank == 0)
        mix = mix ? mix / 2 : DEAL_MIX_ALL / 2;
    else if (cluster->spoil == SPOIL_LEAVE && mix == 0)
        mix = DEAL_MIX_ALL;
    cluster->spoiled = cluster->spoiled || mix != launch->mix;
    deal_at_home(launch->deal, mix);
}

/* What leaves its home is what is mixed, and parts of the chunks that are cut. Where chunks differ in length, each cut
 * may move by as much as is mixed. Draws of a multiset move them further. */
void at_home_check(struct cluster *cluster, uint32_t epoch)
{
    const struct launch *launch = &cluster->launch;
    uint64_t mixed = ((uint64_t)cluster->n_chunks * launch->mix + DEAL_MIX_ALL / 2) / DEAL_MIX_ALL, away = 0;
    uint64_t chunk = (cluster->n_samples + cluster->n_chunks - 1) / cluster->n_chunks;
    uint64_t most = (mixed * launch->ranks + launch->ranks - 1) * chunk;
    if (!cluster->at_home || launch->multiset)
        return;
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        const struct idset *share = launch->shares[rank][epoch];
        if (!share)
            return;
        away += idset_count(share) - idset_intersection_count(share, launch->homes[rank]);
    }
    if (away > most)
        cluster_break(cluster, RULE_HOME, "%u samples are away from home in epoch %u, and %u may be", (unsigned)away,
                      epoch, (unsigned)most);
}

void at_home_check_parts(struct cluster *cluster, const struct trainer *trainer, uint64_t elsewhere, size_t n_parts)
{
    if (cluster->at_home && trainer->dealt && (elsewhere || n_parts))
        cluster_break(cluster, RULE_HOME, "node %u has %u samples elsewhere, of a job dealt at home", trainer->node,
                      (unsigned)elsewhere);
}
