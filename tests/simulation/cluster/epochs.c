/* epochs.c: what the trainers' epochs are. Those of some are multisets: a sample comes as often as it is in one. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { KEY_MULTISET = 18 };

struct multiset *epochs_multiset(const struct cluster *cluster, uint32_t number, const struct idset *view)
{
    sample_id ids[CLUSTER_SAMPLES_MAX];
    double weights[CLUSTER_SAMPLES_MAX];
    int32_t labels[CLUSTER_SAMPLES_MAX];
    struct multiset_spec spec = {.ids = ids, .weights = weights, .labels = labels, .seed = cluster->seed};
    struct multiset *made = NULL;
    struct rng rng;
    struct error err;
    random_seed_keys(&rng, cluster->seed, KEY_MULTISET, number, 0);
    if (random_below(&rng, 3))
        return NULL;
    spec.kind = MULTISET_REPEAT + (enum multiset_kind)random_below(&rng, 3);
    spec.count = (uint32_t)idset_count(view);
    spec.copies = 2 + (uint32_t)random_below(&rng, 3);
    spec.draws = 1 + random_below(&rng, 2 * spec.count);
    idset_to_array(view, ids);
    for (uint32_t i = 0; i < spec.count; i++) {
        weights[i] = i == 0 ? 1 : (double)random_below(&rng, 5);
        labels[i] = (int32_t)random_below(&rng, 4);
    }
    CHECK(multiset_create(&spec, &made, &err) == 0);
    return made;
}

/* see_epoch works out what the trainer's present epoch is. */
static void see_epoch(struct trainer *trainer)
{
    uint32_t counts[CLUSTER_SAMPLES_MAX], n;
    if (trainer->times_known && trainer->times_epoch == trainer->epoch)
        return;
    const sample_id *ids = multiset_ids(trainer->multiset, &n);
    CHECK(multiset_epoch(trainer->multiset, trainer->epoch, counts) == 0);
    for (uint32_t i = 0; i < n; i++)
        trainer->times[ids[i]] = counts[i];
    trainer->times_known = true;
    trainer->times_epoch = trainer->epoch;
}

const struct multiset *epochs_of(const struct cluster *cluster, const struct trainer *trainer)
{
    return trainer->dealt ? cluster->launch.multiset : trainer->multiset;
}

uint32_t epochs_times(const struct cluster *cluster, struct trainer *trainer, sample_id id)
{
    if (trainer->dealt)
        return launch_times(cluster, trainer, id);
    if (!trainer->multiset)
        return idset_contains(trainer->view, id);
    see_epoch(trainer);
    return trainer->times[id];
}

uint32_t epochs_samples(const struct cluster *cluster, struct trainer *trainer)
{
    return trainer->dealt ? launch_samples(cluster, trainer) : epochs_draws(cluster, trainer);
}

uint32_t epochs_draws(const struct cluster *cluster, const struct trainer *trainer)
{
    const struct multiset *multiset = epochs_of(cluster, trainer);
    return multiset ? (uint32_t)multiset_draws(multiset) : trainer->n_view;
}
