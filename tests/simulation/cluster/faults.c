/* faults.c: what goes wrong. */
#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum { KEY_LEAVE = 10 };

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

/* What is said of a number is said again when it is asked for again. */
void faults_stop_short(const struct cluster *cluster, struct fleet_given *given)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, given->home + given->boot * CLUSTER_NODES_MAX, given->guest, given->seq);
    given->last = given->last || random_below(&rng, 1000) < cluster->stops_short;
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

static void stop(struct cluster *cluster, uint32_t node, uint64_t most_ns)
{
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        if (cluster->trainers[i].node == node) {
            cluster->trainers[i].job = UINT32_MAX;
            cluster->trainers[i].asked = false;
        }
    }
    fleet_kill(cluster->fleet, node);
    cluster->booted_ns[node] = after(cluster, most_ns);
}

static bool runs(const struct cluster *cluster, uint32_t node)
{
    return fleet_lives(cluster->fleet, node) && !cluster->stands_until_ns[node];
}

static void die(struct cluster *cluster)
{
    uint32_t node = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    if (runs(cluster, node))
        stop(cluster, node, 20 * CLUSTER_S);
}

static void stand(struct cluster *cluster)
{
    uint32_t node = (uint32_t)random_below(&cluster->rng, cluster->n_nodes);
    if (!runs(cluster, node))
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

/* ── a node leaves ── */

void faults_begin(struct cluster *cluster)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_LEAVE, 0, 0);
    cluster->leaves = random_below(&rng, 5) == 0 || cluster->spoil == SPOIL_STAY;
    cluster->leaver = (uint32_t)random_below(&rng, cluster->n_nodes);
    cluster->leave_ns = cluster->leaves ? (8 + random_below(&rng, 30)) * CLUSTER_S : 0;
    cluster->leaver_ends_ns = cluster->leaves ? cluster->leave_ns + random_below(&rng, 60 * CLUSTER_S) : 0;
}

/* leave has the node leave if it runs then, and end later. One that stands still ends when it goes on. */
static void leave(struct cluster *cluster)
{
    uint64_t now_ns = fleet_now(cluster->fleet);
    if (cluster->leave_ns && cluster->leave_ns <= now_ns) {
        cluster->leave_ns = 0;
        if (runs(cluster, cluster->leaver)) {
            cluster->left_ns = now_ns;
            if (cluster->spoil != SPOIL_STAY)
                etcd_leave(cluster, cluster->leaver);
            else
                cluster->spoiled = cluster->faults == 0; /* else others may be as late */
            fleet_leave(cluster->fleet, cluster->leaver);
        }
    }
    if (cluster->leaver_ends_ns && cluster->leaver_ends_ns <= now_ns) {
        bool stands = cluster->left_ns && cluster->stands_until_ns[cluster->leaver];
        cluster->leaver_ends_ns = stands ? cluster->stands_until_ns[cluster->leaver] + 1 : 0;
        if (cluster->left_ns && runs(cluster, cluster->leaver))
            stop(cluster, cluster->leaver, 5 * CLUSTER_S);
        cluster->left_ns = stands ? cluster->left_ns : 0;
    }
}

/* ── faults end ── */

static void boot(struct cluster *cluster, uint32_t node)
{
    cluster->booted_ns[node] = 0;
    cluster->left_ns = cluster->leaver == node ? 0 : cluster->left_ns; /* it is back */
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
    leave(cluster);
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
    if (cluster->leave_ns && cluster->leave_ns < alarm)
        alarm = cluster->leave_ns;
    if (cluster->leaver_ends_ns && cluster->leaver_ends_ns < alarm)
        alarm = cluster->leaver_ends_ns;
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        uint64_t boots = cluster->booted_ns[node], goes = cluster->stands_until_ns[node];
        alarm = boots && boots < alarm ? boots : alarm;
        alarm = goes && goes < alarm ? goes : alarm;
    }
    return alarm;
}
