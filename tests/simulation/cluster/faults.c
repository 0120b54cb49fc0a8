/* faults.c: what goes wrong. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

bool faults_cut(const struct cluster *cluster, uint32_t from, uint32_t to)
{
    return cluster->cut_until_ns[from][to] > fleet_now(cluster->fleet);
}

uint64_t faults_travel(void *ctx, uint32_t from, uint32_t to)
{
    struct cluster *cluster = ctx;
    if (faults_cut(cluster, from, to) || cluster_odds(cluster, cluster->lost))
        return FLEET_LOST;
    uint64_t takes = CLUSTER_MS / 10 + random_below(&cluster->rng, CLUSTER_MS);
    bool late = (cluster->faults & FAULT_LOSS) && cluster_odds(cluster, 5);
    return late ? takes + random_below(&cluster->rng, 6 * CLUSTER_S) : takes;
}

uint64_t faults_again(void *ctx, uint32_t from, uint32_t to)
{
    struct cluster *cluster = ctx;
    (void)from, (void)to;
    return cluster_odds(cluster, cluster->again) ? random_below(&cluster->rng, 3 * CLUSTER_S) : FLEET_LOST;
}

/* ── faults begin ── */

static uint64_t after(struct cluster *cluster, uint64_t most_ns)
{
    return fleet_now(cluster->fleet) + 1 + random_below(&cluster->rng, most_ns);
}

static void cut(struct cluster *cluster)
{
    uint32_t a = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    uint32_t b = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    uint64_t until_ns = after(cluster, 15 * CLUSTER_S);
    if (a == b)
        return;
    cluster->cut_until_ns[a][b] = until_ns;
    if (cluster_odds(cluster, 500))
        cluster->cut_until_ns[b][a] = until_ns;
    cluster->last_fault_ns = until_ns > cluster->last_fault_ns ? until_ns : cluster->last_fault_ns;
}

static void die(struct cluster *cluster)
{
    uint32_t node = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    if (!fleet_lives(cluster->fleet, node) || cluster->stands_until_ns[node])
        return;
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        if (cluster->trainers[i].node == node) {
            cluster->trainers[i].job = UINT32_MAX;
            cluster->trainers[i].asked = false;
        }
    }
    fleet_kill(cluster->fleet, node);
    cluster->booted_ns[node] = after(cluster, 20 * CLUSTER_S);
}

static void stand(struct cluster *cluster)
{
    uint32_t node = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    if (!fleet_lives(cluster->fleet, node) || cluster->stands_until_ns[node])
        return;
    fleet_stop(cluster->fleet, node);
    cluster->stands_until_ns[node] = after(cluster, cluster_odds(cluster, 200) ? 60 * CLUSTER_S : 5 * CLUSTER_S);
}

static void fail_etcd(struct cluster *cluster)
{
    if (cluster->etcd.stands)
        return;
    if (cluster_odds(cluster, 300)) {
        etcd_wipe(cluster);
        return;
    }
    cluster->etcd.stands = true;
    cluster->etcd_until_ns = after(cluster, 40 * CLUSTER_S);
}

static void begin_fault(struct cluster *cluster)
{
    static void (*const kinds[])(struct cluster *) = {NULL, cut, die, stand, fail_etcd};
    uint32_t kind = 1 + (uint32_t)random_below(&cluster->rng, 4);
    cluster->last_fault_ns = fleet_now(cluster->fleet);
    if (cluster->faults & (1u << kind))
        kinds[kind](cluster);
    cluster->next_fault_ns = after(cluster, 6 * CLUSTER_S);
    if (cluster->next_fault_ns > cluster->faults_end_ns)
        cluster->next_fault_ns = UINT64_MAX;
}

/* ── faults end ── */

static void boot(struct cluster *cluster, uint32_t node)
{
    cluster->booted_ns[node] = 0;
    cluster->view_most[node] = 0;
    fleet_start(cluster->fleet, node);
    etcd_begin_node(cluster, node);
    cluster->last_fault_ns = fleet_now(cluster->fleet);
}

static void go(struct cluster *cluster, uint32_t node)
{
    cluster->stands_until_ns[node] = 0;
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        if (cluster->trainers[i].node == node)
            cluster->trainers[i].asked_ns = fleet_now(cluster->fleet);
    }
    fleet_go(cluster->fleet, node);
    cluster->last_fault_ns = fleet_now(cluster->fleet);
}

void faults_happen(struct cluster *cluster)
{
    uint64_t now_ns = fleet_now(cluster->fleet);
    if (cluster->next_fault_ns <= now_ns)
        begin_fault(cluster);
    if (cluster->etcd.stands && cluster->etcd_until_ns <= now_ns) {
        cluster->etcd.stands = false;
        cluster->last_fault_ns = now_ns;
    }
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        if (cluster->booted_ns[node] && cluster->booted_ns[node] <= now_ns)
            boot(cluster, node);
        if (cluster->stands_until_ns[node] && cluster->stands_until_ns[node] <= now_ns)
            go(cluster, node);
    }
}

uint64_t faults_alarm(const struct cluster *cluster)
{
    uint64_t alarm = cluster->next_fault_ns;
    if (cluster->etcd.stands && cluster->etcd_until_ns < alarm)
        alarm = cluster->etcd_until_ns;
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        uint64_t boots = cluster->booted_ns[node], goes = cluster->stands_until_ns[node];
        alarm = boots && boots < alarm ? boots : alarm;
        alarm = goes && goes < alarm ? goes : alarm;
    }
    return alarm;
}

/* ── wrong deeds ── */

static void spoil_back(struct cluster *cluster, struct idset *back)
{
    for (sample_id id = 0; id < cluster->n_samples; id++) {
        if (idset_contains(back, id) && cluster_odds(cluster, 500)) {
            idset_remove(back, id);
            cluster->spoiled = true;
        }
    }
}

static bool spoil_action(struct cluster *cluster, struct anchor_action *action)
{
    if (cluster->spoil == SPOIL_ACKED && action->type == ANCHOR_NEXT && action->next.acked + 1 < action->next.seq) {
        action->next.acked = action->next.seq - 1;
        cluster->spoiled = true;
    } else if (cluster->spoil == SPOIL_TERMS && action->type <= ANCHOR_DETACH) {
        cluster->spoiled = cluster->spoiled || action->term > 1;
        action->term = 1;
    } else if (cluster->spoil == SPOIL_BACK && action->type == ANCHOR_BACK) {
        cluster->spoiled = true;
        return true;
    } else if (cluster->spoil == SPOIL_PART && action->type == ANCHOR_BACK) {
        spoil_back(cluster, action->back);
    }
    return false;
}

static void spoil_answer(struct cluster *cluster, const struct merge_event *event)
{
    struct merge_sample *samples = (struct merge_sample *)event->batch.samples;
    if (event->type != MERGE_BATCH || event->batch.count < 2)
        return;
    struct merge_sample first = samples[0];
    if (cluster->spoil == SPOIL_BYTES) {
        samples[0] = samples[1];
        samples[1] = first;
        cluster->spoiled = true;
    } else if (cluster->spoil == SPOIL_TAKEN) { /* its second arrival is to be refused */
        samples[1] = first;
    }
}

static void spoil_given(struct cluster *cluster, struct fleet_given *given)
{
    struct merge_sample *samples = (struct merge_sample *)given->samples;
    uint64_t *instances = (uint64_t *)given->instances;
    if (cluster->spoil != SPOIL_OTHER || given->n_samples < 2 || !ledger_has(cluster, given))
        return;
    struct merge_sample sample = samples[0];
    uint64_t instance = instances[0];
    samples[0] = samples[1];
    instances[0] = instances[1];
    samples[1] = sample;
    instances[1] = instance;
    cluster->spoiled = true;
}

bool faults_spoil(void *ctx, enum fleet_spoil what, void *thing)
{
    struct cluster *cluster = ctx;
    bool *set = thing;
    if (what == FLEET_SPOIL_ACTION)
        return spoil_action(cluster, thing);
    if (what == FLEET_SPOIL_ANSWER)
        spoil_answer(cluster, thing);
    if (what == FLEET_SPOIL_GIVEN)
        spoil_given(cluster, thing);
    if (what == FLEET_SPOIL_TAKEN && cluster->spoil == SPOIL_TAKEN && !set[0] && !set[1])
        set[0] = cluster->spoiled = true;
    return false;
}
