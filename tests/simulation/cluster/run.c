/* run.c: a seed: a cluster is made, its trainers train, and in the end all is as it was. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "tests/simulation/cluster/cluster.h"

enum {
    KEY_SCENARIO = 7,
    KEY_TIGHT,
    KEY_SIZED = 19,
    SLOTS_LEAST = 600,
    TIGHT_BATCH = 6,                                 /* the largest of a tight run */
    TIGHT_SLOTS = 2 * ENGINE_ROWS_MIN * TIGHT_BATCH, /* what a node's two jobs are sure of */
};

void cluster_break(struct cluster *cluster, enum cluster_rule rule, const char *fmt, ...)
{
    va_list list;
    if (cluster->broken)
        return;
    cluster->broken = rule;
    va_start(list, fmt);
    vsnprintf(cluster->text, sizeof cluster->text, fmt, list);
    va_end(list);
}

bool cluster_odds(struct cluster *cluster, uint32_t of_1000)
{
    return random_below(&cluster->rng, 1000) < of_1000;
}

static uint32_t between(struct cluster *cluster, uint32_t least, uint32_t most)
{
    return least + (uint32_t)random_below(&cluster->rng, most - least + 1);
}

/* ── what a seed is ── */

static void place_samples(struct cluster *cluster, uint32_t chunk)
{
    cluster->n_chunks = (cluster->n_samples + chunk - 1) / chunk;
    for (uint32_t id = 0; id < cluster->n_samples; id++)
        cluster->places[id] = (struct chunk_slot){id % cluster->n_chunks, id / cluster->n_chunks};
}

static void make_view(struct cluster *cluster, struct trainer *trainer)
{
    bool whole = cluster_odds(cluster, 700);
    CHECK(idset_create(&trainer->view) == 0);
    for (sample_id id = 0; id < cluster->n_samples; id++) {
        if (whole || cluster_odds(cluster, 500))
            idset_add(trainer->view, id);
    }
    trainer->n_view = (uint32_t)idset_count(trainer->view);
}

static void make_trainer(struct cluster *cluster, uint32_t node)
{
    struct trainer *trainer = &cluster->trainers[cluster->n_trainers++];
    trainer->node = node;
    trainer->job = UINT32_MAX;
    trainer->batch = between(cluster, 1, 32);
    if (cluster->tight)
        trainer->batch = 1 + trainer->batch % TIGHT_BATCH;
    trainer->prefetch = between(cluster, 1, 4);
    trainer->epochs = between(cluster, 1, 3);
    trainer->pipeline = cluster_odds(cluster, 200);
    trainer->seed = random_u64(&cluster->rng);
    trainer->step_ns = (1 + random_below(&cluster->rng, cluster_odds(cluster, 100) ? 400 : 60)) * CLUSTER_MS;
    trainer->next_ns = 3 * CLUSTER_S + random_below(&cluster->rng, 3 * CLUSTER_S);
    make_view(cluster, trainer);
    trainer->multiset = epochs_multiset(cluster, cluster->n_trainers, trainer->view);
}

/* Some are as long as they may be, and some very short. */
uint32_t cluster_length(void *ctx, uint64_t instance)
{
    const struct cluster *cluster = ctx;
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_SIZED, 1, instance);
    uint64_t kind = random_below(&rng, 8), bytes = 1 + random_below(&rng, FLEET_SIZED_BYTES);
    return kind == 0 ? FLEET_SIZED_BYTES : kind == 1 ? 1 : (uint32_t)bytes;
}

/* In a third of the runs instances of one pipeline or of both differ in length. They have a key of their own. */
static void draw_sized(struct cluster *cluster)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_SIZED, 0, 0);
    cluster->sized = random_below(&rng, 3) ? 0 : 1 + (uint32_t)random_below(&rng, 3);
}

static uint64_t takes(void *ctx, uint32_t node, const struct engine_action *action)
{
    struct cluster *cluster = ctx;
    if (cluster->kind == KIND_SLOW)
        return slow_takes(cluster, node, action);
    return random_below(&cluster->rng, action->type == ENGINE_LOAD ? 10 * CLUSTER_MS : CLUSTER_MS);
}

/* Some runs have hardly more memory than what the jobs are sure of. They have a key of their own. */
static void draw_tight(struct cluster *cluster)
{
    struct rng rng;
    random_seed_keys(&rng, cluster->seed, KEY_TIGHT, 0, 0);
    cluster->tight = random_below(&rng, 5) == 0;
    cluster->tight_slots = TIGHT_SLOTS + (uint32_t)random_below(&rng, 8 * TIGHT_SLOTS);
}

static uint64_t core(void *ctx, uint32_t node, const struct engine_action *action)
{
    const struct cluster *cluster = ctx;
    return cluster->kind == KIND_SLOW ? slow_core(cluster, node, action) : 0;
}

static void make_fleet(struct cluster *cluster, uint32_t chunk)
{
    struct error err;
    uint32_t slots = SLOTS_LEAST + between(cluster, 0, 2 * cluster->n_samples);
    if (cluster->tight)
        slots = cluster->tight_slots;
    struct fleet_config config = {
        .n_nodes = cluster->n_nodes,
        .engine = {.seed = random_u64(&cluster->rng),
                   .arena_bytes = (uint64_t)slots * (cluster->sized ? FLEET_SIZED_BYTES : FLEET_SLOT_BYTES),
                   .encoded_bytes = (uint64_t)(50 + between(cluster, 0, cluster->n_samples)) * PLAY_SAMPLE_BYTES,
                   .inflight_loads = 64,
                   .inflight_prepares = 16,
                   .redirect_width = cluster_odds(cluster, 700) ? ENGINE_REDIRECT_HALF : 0},
        .guests = {.guests = GUESTS_MAX, .lease_ns = 5 * CLUSTER_S},
        .places = cluster->places,
        .n_samples = cluster->n_samples,
        .n_chunks = cluster->n_chunks,
        .chunk_samples = chunk,
        .fingerprint = {(uint8_t)cluster->seed, 1},
        .sized = cluster->sized,
        .hooks = {cluster, faults_travel, faults_again, takes, core, NULL, ledger_delivered, cluster_length, etcd_heard,
                  ledger_asked, ledger_gives, ledger_takes, spoil_deed}};
    CHECK(fleet_create(&config, &cluster->fleet, &err) == 0);
}

/* find_homes finds out the samples' homes when all nodes know each other. */
static void find_homes(struct cluster *cluster)
{
    struct map_node nodes[CLUSTER_NODES_MAX];
    struct map_desc desc = {.fingerprint = {(uint8_t)cluster->seed, 1},
                            .n_chunks = cluster->n_chunks,
                            .n_nodes = cluster->n_nodes,
                            .nodes = nodes,
                            .bound = MAP_BOUND};
    struct map *map = NULL;
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        nodes[node].weight = 1;
        fleet_id(node, nodes[node].id);
    }
    CHECK(map_create(&desc, &map) == 0);
    for (sample_id id = 0; id < cluster->n_samples; id++)
        cluster->home[id] = map_chunk_at(map, cluster->places[id].chunk)->nodes[0];
    map_destroy(map);
}

/* calm takes out of a run of a slow home all that goes wrong otherwise. */
static void calm(struct cluster *cluster)
{
    cluster->faults = cluster->lost = cluster->again = cluster->stops_short = 0;
    cluster->tight = false;
    cluster->sized = 0;
    cluster->n_samples = CLUSTER_SAMPLES_MAX;
}

static void begin(struct cluster *cluster)
{
    random_seed_keys(&cluster->rng, cluster->seed, KEY_SCENARIO, 0, 0);
    draw_tight(cluster);
    draw_sized(cluster);
    uint32_t chunk = between(cluster, 4, 16);
    cluster->n_nodes = between(cluster, 2, CLUSTER_NODES_MAX);
    uint32_t all_homes = chunk * cluster->n_nodes * MAP_CHUNKS_MIN; /* with fewer samples some nodes are no homes */
    cluster->n_samples = cluster->seed % 4 == 3 ? between(cluster, chunk, all_homes)
                                                : between(cluster, all_homes, CLUSTER_SAMPLES_MAX);
    cluster->faults = cluster_odds(cluster, 150) ? 0 : (uint32_t)random_below(&cluster->rng, 32);
    cluster->lost = cluster->faults & FAULT_LOSS ? between(cluster, 1, 40) : 0;
    cluster->again = cluster->faults & FAULT_LOSS ? between(cluster, 1, 40) : 0;
    cluster->stops_short = cluster->faults & FAULT_LOSS || cluster->spoil == SPOIL_LAST ? 10 : 0;
    cluster->faults_end_ns = (10 + random_below(&cluster->rng, 50)) * CLUSTER_S;
    if (cluster->kind == KIND_SLOW)
        calm(cluster);
    cluster->next_fault_ns = cluster->faults & ~FAULT_LOSS ? 4 * CLUSTER_S : UINT64_MAX;
    place_samples(cluster, chunk);
    make_fleet(cluster, chunk);
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        etcd_begin_node(cluster, node);
        for (uint32_t jobs = cluster->kind == KIND_SLOW ? 0 : between(cluster, 0, 2); jobs > 0; jobs--)
            make_trainer(cluster, node);
    }
    find_homes(cluster);
    if (cluster->kind == KIND_SLOW) {
        slow_begin(cluster);
        return;
    }
    if (cluster->n_trainers == 0)
        make_trainer(cluster, 0);
    launch_begin(cluster);
    faults_begin(cluster);
}

/* ── training ── */

/* had_set returns what the trainer had of its epoch. Of a repeated sample only the turn counts. */
static struct idset *had_set(const struct cluster *cluster, const struct trainer *trainer)
{
    struct idset *set = NULL;
    CHECK(idset_create(&set) == 0);
    for (sample_id id = 0; id < cluster->n_samples; id++) {
        if (trainer->had[id])
            idset_add(set, id);
    }
    return set;
}

/* had_again returns the turns that the trainer had of samples beyond the first of each. */
static struct engine_again had_again(const struct cluster *cluster, const struct trainer *trainer)
{
    sample_id *ids = xcalloc(trainer->n_had + 1, sizeof *ids);
    uint64_t count = 0;
    for (sample_id id = 0; id < cluster->n_samples; id++) {
        for (uint32_t turn = 1; turn < trainer->had[id]; turn++)
            ids[count++] = id;
    }
    return (struct engine_again){ids, count};
}

/* join has the trainer's job, which goes on from what the trainer had. A rank of several nodes tells of its own. */
static void join(struct cluster *cluster, struct trainer *trainer)
{
    struct engine_resume resume = {.epoch = trainer->epoch, .key = 1, .base_batches = trainer->batches};
    struct idset *had = NULL;
    struct engine_again again = {NULL, 0};
    struct fleet_job_desc desc = {.node = trainer->node,
                                  .view = trainer->view,
                                  .batch = trainer->batch,
                                  .prefetch = trainer->prefetch,
                                  .pipeline = trainer->pipeline,
                                  .multiset = trainer->multiset,
                                  .seed = trainer->seed};
    if (trainer->dealt)
        launch_desc(cluster, trainer, &desc);
    if (trainer->epoch || trainer->n_had) {
        had = had_set(cluster, trainer);
        again = had_again(cluster, trainer);
        if (trainer->dealt) {
            resume = (struct engine_resume){.epoch = trainer->epoch,
                                            .key = 1,
                                            .batches = trainer->batches,
                                            .delivered = trainer->n_had + trainer->repeats,
                                            .turns = had,
                                            .again = again,
                                            .presented = true};
        } else {
            resume.base = had;
            resume.base_again = again;
        }
        desc.resume = &resume;
    }
    trainer->job = fleet_add(cluster->fleet, &desc);
    CHECK(trainer->job != UINT32_MAX);
    idset_destroy(had);
    free((sample_id *)again.ids);
}

static bool trains(const struct cluster *cluster, const struct trainer *trainer)
{
    return !trainer->done && fleet_lives(cluster->fleet, trainer->node) && !cluster->stands_until_ns[trainer->node];
}

static void train(struct cluster *cluster, struct trainer *trainer)
{
    uint64_t now_ns = fleet_now(cluster->fleet);
    if (trainer->done && trainer->job != UINT32_MAX && !cluster->stands_until_ns[trainer->node]) {
        fleet_gone(cluster->fleet, trainer->job);
        trainer->job = UINT32_MAX;
    }
    if (!trains(cluster, trainer) || trainer->asked || trainer->next_ns > now_ns || launch_waits(cluster, trainer))
        return;
    if (trainer->job == UINT32_MAX)
        join(cluster, trainer);
    trainer->asked = true;
    trainer->asked_ns = now_ns;
    fleet_next(cluster->fleet, trainer->job, trainer->epoch, 1);
}

static void check_stalls(struct cluster *cluster)
{
    if (fleet_stuck(cluster->fleet))
        cluster_break(cluster, RULE_STALL, "something goes round without end");
    bool quiet = (cluster->faults & ~FAULT_ETCD) == 0;
    uint64_t bound = quiet ? CLUSTER_STALL_ETCD_NS : CLUSTER_STALL_NS;
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        const struct trainer *trainer = &cluster->trainers[i];
        if (trains(cluster, trainer) && trainer->asked && fleet_now(cluster->fleet) > trainer->asked_ns + bound)
            cluster_break(cluster, RULE_STALL, "job %u of node %u has waited for %.1f s in epoch %u with %u of %u", i,
                          trainer->node, (double)(fleet_now(cluster->fleet) - trainer->asked_ns) / 1e9, trainer->epoch,
                          trainer->n_had, epochs_draws(cluster, trainer));
    }
}

/* check_left: a node that has left is in nobody's view soon, and has no guests when their time is over. */
static void check_left(struct cluster *cluster)
{
    bool seen = cluster->faults == 0 && cluster->left_ns &&
                fleet_now(cluster->fleet) > cluster->left_ns + CLUSTER_LEFT_NS;
    for (uint32_t node = 0; seen && node < cluster->n_nodes; node++) {
        if (fleet_lives(cluster->fleet, node) && etcd_sees(cluster, node, cluster->leaver))
            cluster_break(cluster, RULE_LEFT, "node %u has left, and node %u sees it", cluster->leaver, node);
    }
    uint32_t node = cluster->leaver;
    bool runs = fleet_lives(cluster->fleet, node) && !cluster->stands_until_ns[node];
    uint64_t over_ns = cluster->left_ns + GUESTS_LEAVE_NS + CLUSTER_S;
    if (cluster->left_ns && runs && fleet_now(cluster->fleet) > over_ns && fleet_guests(cluster->fleet, node))
        cluster_break(cluster, RULE_LEFT, "node %u has left, and has %u guests", node,
                      fleet_guests(cluster->fleet, node));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* advance takes the cluster to the next moment at which something happens, or to until_ns. */
static void advance(struct cluster *cluster, uint64_t until_ns)
{
    uint64_t at = least(least(until_ns, fleet_alarm(cluster->fleet)),
                        least(least(etcd_alarm(cluster), faults_alarm(cluster)), launch_alarm(cluster)));
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        const struct trainer *trainer = &cluster->trainers[i];
        if (trains(cluster, trainer) && !trainer->asked && !launch_waits(cluster, trainer))
            at = least(at, trainer->next_ns);
    }
    uint64_t now_ns = fleet_now(cluster->fleet);
    fleet_until(cluster->fleet, at > now_ns ? at : now_ns);
    faults_happen(cluster);
    etcd_happens(cluster);
    launch_happens(cluster);
    for (uint32_t i = 0; i < cluster->n_trainers; i++)
        train(cluster, &cluster->trainers[i]);
    shares_check(cluster); /* first: it says more than that a job stands still */
    check_stalls(cluster);
    check_left(cluster);
}

/* ── in the end ── */

static bool all_done(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n_trainers; i++) {
        if (!cluster->trainers[i].done || cluster->trainers[i].job != UINT32_MAX)
            return false;
    }
    return faults_alarm(cluster) == UINT64_MAX;
}

static void pass(struct cluster *cluster, uint64_t until_ns)
{
    while (!cluster->broken && fleet_now(cluster->fleet) < until_ns)
        advance(cluster, until_ns);
}

static void check_healed(struct cluster *cluster)
{
    pass(cluster, least(cluster->last_fault_ns, UINT64_MAX - 60 * CLUSTER_S) + 60 * CLUSTER_S);
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        const struct peers *peers = fleet_peers(cluster->fleet, node);
        if (peers->view.n_nodes != cluster->n_nodes)
            cluster_break(cluster, RULE_HEALED, "node %u sees %u of %u nodes", node, peers->view.n_nodes,
                          cluster->n_nodes);
        for (uint32_t i = 0; i < peers->view.n_nodes; i++) {
            uint32_t number = peers_number(peers, peers->view.nodes[i].id);
            if (!cluster->lost && !peers_asks(peers, number))
                cluster_break(cluster, RULE_HEALED, "node %u does not ask node %u", node,
                              fleet_node(peers->view.nodes[i].id));
        }
    }
    pass(cluster, fleet_now(cluster->fleet) + (GUESTS_THROUGH_LEASES + 2) * 5 * CLUSTER_S);
    for (uint32_t node = 0; node < cluster->n_nodes; node++) {
        if (fleet_guests(cluster->fleet, node))
            cluster_break(cluster, RULE_HEALED, "node %u has %u guests, and there is no job", node,
                          fleet_guests(cluster->fleet, node));
    }
}

enum cluster_rule cluster_run(struct cluster *cluster, uint64_t seed, enum cluster_spoil spoil, enum cluster_kind kind)
{
    *cluster = (struct cluster){.seed = seed, .spoil = spoil, .kind = kind, .at_home = kind == KIND_HOME};
    begin(cluster);
    if (spoil)
        spoil_begin(cluster);
    uint64_t turns = 0;
    while (!cluster->broken && !all_done(cluster)) {
        advance(cluster, UINT64_MAX);
        if (++turns % 500 == 0)
            fleet_check(cluster->fleet);
    }
    if (!cluster->broken)
        check_healed(cluster);
    if (!cluster->broken)
        fleet_check(cluster->fleet);
    spoil_end();
    return cluster->broken;
}

void cluster_end(struct cluster *cluster)
{
    fleet_destroy(cluster->fleet);
    for (uint32_t i = 0; i < cluster->n_trainers; i++)
        idset_destroy(cluster->trainers[i].view);
    for (uint32_t i = 0; i < cluster->n_trainers; i++)
        multiset_destroy(cluster->trainers[i].multiset);
    launch_end(cluster);
    agenda_free(&cluster->agenda);
    ledger_free(cluster);
}
