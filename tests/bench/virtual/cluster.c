#include "tests/bench/virtual/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/fleet.h"
#include "tests/bench/virtual/order.h"
#include "tests/bench/virtual/sharing_priv.h"

_Static_assert(SHARING_NODES_MAX == FLEET_NODES_MAX && SHARING_JOBS_MAX <= FLEET_JOBS_MAX, "a scenario fits");

struct cluster_bench;

/* A rank of a training at several nodes. */
struct cluster_rank {
    const struct cluster_bench *bench;
    const struct sharing_player *player;
    struct idset *home; /* what it has there, if it is dealt so */
};

struct cluster_bench {
    struct sharing_bench ledger;
    struct fleet *fleet;
    struct chunk_slot *places;
    uint32_t number[SHARING_JOBS_MAX], asked[SHARING_JOBS_MAX]; /* in the fleet; batches of the epoch */
    struct sharing_player *of[FLEET_JOBS_MAX];
    struct cluster_rank rank[SHARING_JOBS_MAX];
    bool lone[SHARING_JOBS_MAX]; /* a part of a training that shares with no other one */
    struct order *orders;
    struct rng rng;
    uint64_t free_ns[SHARING_NODES_MAX]; /* when the node has prepared all that it was asked for */
    uint64_t ended[SHARING_JOBS_MAX];    /* the step in which the job ended */
};

/* ── what the fleet shows ── */

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return SHARING_SAMPLE_BYTES;
}

static uint64_t travel(void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx, (void)from, (void)to;
    return CLUSTER_MESSAGE_NS;
}

static uint64_t core(void *ctx, uint32_t node, const struct engine_action *action)
{
    const struct cluster_bench *bench = ctx;
    const struct sharing_takes *takes = &bench->ledger.scenario->takes;
    double steps = action->prepare.n_outputs * takes->prepare * (node == takes->slow ? takes->times : 1);
    return (uint64_t)llround(steps * CLUSTER_STEP_NS);
}

static uint64_t takes(void *ctx, uint32_t node, const struct engine_action *action)
{
    struct cluster_bench *bench = ctx;
    if (action->type != ENGINE_PREPARE || bench->ledger.scenario->takes.prepare <= 0)
        return 0;
    uint64_t now_ns = fleet_now(bench->fleet), *free_ns = &bench->free_ns[node];
    double jitter = bench->ledger.scenario->takes.jitter;
    double times = 1 - jitter + jitter * -log(((double)random_below(&bench->rng, 1000000) + 1) / 1e6);
    *free_ns = (*free_ns > now_ns ? *free_ns : now_ns) + (uint64_t)((double)core(ctx, node, action) * times);
    return *free_ns - now_ns;
}

static void works(void *ctx, uint32_t node, const struct engine_action *action)
{
    struct cluster_bench *bench = ctx;
    sharing_works(&bench->ledger, node, NULL, action);
}

static void delivered(void *ctx, uint32_t job, const struct engine_action *action, const uint64_t *instances)
{
    struct cluster_bench *bench = ctx;
    struct sharing_player *player = bench->of[job];
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        sample_id id = action->deliver.entries[i].id;
        CHECK(fleet_instance_sample(bench->fleet, instances[i]) == id);
        sharing_takes(&bench->ledger, player, id, instances[i]);
    }
    if (action->deliver.last)
        sharing_epoch_done(&bench->ledger, player);
}

/* ── a run ── */

static void see_all(struct cluster_bench *bench)
{
    struct members_view view = {.n_nodes = bench->ledger.scenario->nodes};
    for (uint32_t i = 0; i < view.n_nodes; i++) {
        fleet_id(i, view.nodes[i].id);
        view.nodes[i].weight = 1;
    }
    for (uint32_t i = 0; i < view.n_nodes; i++)
        fleet_see(bench->fleet, i, &view);
}

uint64_t cluster_least_slots(const struct sharing_scenario *scenario)
{
    return (uint64_t)scenario->n_jobs * (scenario->batch + GUESTS_BATCH) * (scenario->prefetch + 8ull);
}

/* node_least_slots: of trainings with ranks, a node has some, and is asked for samples by all others. */
static uint64_t node_least_slots(const struct sharing_scenario *scenario)
{
    uint64_t slots = 0, guest = (uint64_t)GUESTS_BATCH * GUESTS_HOLD;
    bool ranks = false;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        ranks = ranks || scenario->jobs[i].ranks > 1;
        slots += scenario->jobs[i].node == 0 ? (uint64_t)scenario->batch * (scenario->prefetch + 2ull) : guest;
    }
    return ranks ? slots : cluster_least_slots(scenario);
}

static int make_fleet(struct cluster_bench *bench, struct error *err)
{
    const struct sharing_scenario *scenario = bench->ledger.scenario;
    uint64_t slots = (uint64_t)llround(scenario->prepared * scenario->samples);
    uint64_t least = node_least_slots(scenario);
    uint64_t encoded = (uint64_t)llround(scenario->encoded * scenario->samples);
    struct fleet_hooks hooks = {
        .ctx = bench, .travel = travel, .takes = takes, .core = core, .works = works, .delivered = delivered};
    struct fleet_config config = {.n_nodes = scenario->nodes,
                                  .engine = {.seed = scenario->seed,
                                             .arena_bytes = (slots < least ? least : slots) * FLEET_SLOT_BYTES,
                                             .encoded_bytes = (encoded ? encoded : least) * SHARING_SAMPLE_BYTES,
                                             .sample_bytes = sample_bytes,
                                             .inflight_loads = scenario->chunk * 4,
                                             .inflight_prepares = 64,
                                             .redirect_width = scenario->redirect ? scenario->width : 0},
                                  .guests = {.guests = GUESTS_MAX, .lease_ns = UINT64_C(30000000000)},
                                  .places = bench->places,
                                  .n_samples = scenario->samples,
                                  .n_chunks = bench->ledger.n_chunks,
                                  .chunk_samples = scenario->chunk,
                                  .fingerprint = {(uint8_t)scenario->seed},
                                  .hooks = hooks};
    int code = fleet_create(&config, &bench->fleet, err);
    if (!code && !scenario->apart)
        see_all(bench);
    return code;
}

/* ── trainings with ranks ── */

static int share(const void *ctx, uint32_t epoch, const struct idset *gone, struct idset **out)
{
    const struct cluster_rank *rank = ctx;
    CHECK(!gone); /* no job here goes on from a state */
    return sharing_share(&rank->bench->ledger, rank->player->desc, epoch, out);
}

/* shares tells whether another training wants what the job does. One that is dealt at home asks no other node. */
static bool shares(const struct cluster_bench *bench, const struct sharing_job *job)
{
    for (uint32_t i = 0; job->mix < 0 && i < bench->ledger.scenario->n_jobs; i++) {
        const struct sharing_player *other = &bench->ledger.players[i];
        if (other->running && other->desc->mix < 0 && other->desc->training != job->training &&
            other->desc->pipeline == job->pipeline)
            return true;
    }
    return false;
}

/* review has homes give to parts of trainings as daemons do (`cluster.spread: auto`), when jobs have come or gone. */
static void review(struct cluster_bench *bench)
{
    for (uint32_t i = 0; i < bench->ledger.scenario->n_jobs; i++) {
        const struct sharing_player *player = &bench->ledger.players[i];
        bool lone = !shares(bench, player->desc);
        if (!player->running || player->desc->ranks <= 1 || lone == bench->lone[i])
            continue;
        bench->lone[i] = lone;
        if (lone)
            fleet_set_lone(bench->fleet, bench->number[i], true);
        else
            fleet_spread(bench->fleet, bench->number[i]);
    }
}

static void join(struct cluster_bench *bench, uint32_t number)
{
    const struct sharing_scenario *scenario = bench->ledger.scenario;
    struct sharing_player *player = &bench->ledger.players[number];
    struct fleet_job_desc desc = {.node = player->desc->node,
                                  .view = player->view,
                                  .batch = scenario->batch,
                                  .prefetch = scenario->prefetch,
                                  .epochs = player->desc->epochs,
                                  .pipeline = player->desc->pipeline,
                                  .seed = scenario->seed + number};
    if (player->desc->ranks > 1) {
        bench->rank[number] = (struct cluster_rank){bench, player, NULL};
        CHECK(player->desc->mix < 0 || sharing_home(&bench->ledger, player->desc, &bench->rank[number].home) == 0);
        desc.part = (struct engine_part){.world_size = player->desc->ranks,
                                         .first = player->desc->of_rank,
                                         .share = share,
                                         .deal = &bench->rank[number],
                                         .home = bench->rank[number].home};
        desc.family = player->desc->mix < 0 ? player->desc->training + 1 : 0;
        desc.lone = bench->lone[number] = !shares(bench, player->desc);
    }
    bench->number[number] = fleet_add(bench->fleet, &desc);
    if (bench->number[number] == UINT32_MAX) {
        fprintf(stderr, "larder_bench cluster: job %u does not fit into its node\n", number);
        exit(1);
    }
    bench->of[bench->number[number]] = player;
    player->running = true;
}

/* A job asks for its next batch when it has the one before. */
static bool waits(const struct cluster_bench *bench, uint32_t number)
{
    const struct sharing_player *player = &bench->ledger.players[number];
    uint64_t asked = (uint64_t)bench->asked[number] * bench->ledger.scenario->batch;
    return !player->ended_epoch && player->position < asked;
}

static bool consume(struct cluster_bench *bench)
{
    bool any = false;
    uint32_t batch = bench->ledger.scenario->batch;
    for (uint32_t i = 0; i < bench->ledger.scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->ledger.players[i];
        if (!player->running || player->due < batch - 1e-9 || waits(bench, i))
            continue;
        player->due -= batch;
        if (player->ended_epoch) {
            player->ended_epoch = false;
            player->epoch++;
            sharing_epoch_begins(&bench->ledger, player);
            player->loaded = bench->ledger.loaded;
            bench->asked[i] = 0;
        }
        bench->asked[i]++;
        fleet_next(bench->fleet, bench->number[i], player->epoch, 1);
        any = true;
    }
    return any;
}

static void leave_done(struct cluster_bench *bench)
{
    bool any = false;
    for (uint32_t i = 0; i < bench->ledger.scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->ledger.players[i];
        if (player->running && player->ended_epoch && player->epoch + 1 == player->desc->epochs) {
            fleet_gone(bench->fleet, bench->number[i]);
            player->running = false;
            player->done = any = true;
            bench->ended[i] = fleet_now(bench->fleet) / CLUSTER_STEP_NS;
        }
    }
    if (any)
        review(bench);
}

static bool step(struct cluster_bench *bench, uint64_t now)
{
    const struct sharing_scenario *scenario = bench->ledger.scenario;
    bool more = false, joined = false;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->ledger.players[i];
        if (!player->running && !player->done && (double)now >= player->desc->start * scenario->samples) {
            join(bench, i);
            joined = true;
        }
        more |= !player->done;
        if (player->running && (scenario->takes.prepare <= 0 || !waits(bench, i))) /* it trains on what it has */
            player->due += player->desc->rate;
    }
    if (joined)
        review(bench);
    while (consume(bench))
        leave_done(bench);
    fleet_until(bench->fleet, fleet_now(bench->fleet) + CLUSTER_STEP_NS);
    leave_done(bench);
    return more;
}

/* ── the report ── */

static void add_orders(const struct cluster_bench *bench, json_t *run)
{
    static const char *const told[] = {"position_echo", "position_chi_square", "class_mix", "chunk_mates_in_batch"};
    json_t *rows = json_array(), *row;
    size_t at;
    orders_report(bench->orders, bench->ledger.scenario, "cluster", run, rows);
    json_array_foreach(rows, at, row) {
        size_t number = (size_t)json_integer_value(json_object_get(row, "job"));
        json_t *job = json_array_get(json_object_get(run, "jobs"), number);
        for (size_t i = 0; i < sizeof told / sizeof *told; i++)
            json_object_set(job, told[i], json_object_get(row, told[i]));
    }
    json_decref(rows);
}

/* Nodes work for all jobs, so work is no job's; and the peaks are those of one engine. */
static void drop_unknown(json_t *run)
{
    static const char *const of_run[] = {"decoded", "peak_prepared", "peak_encoded"};
    static const char *const of_job[] = {"prepared", "prepared_per_delivered", "chunk_loads",
                                         "loads_per_chunk_per_epoch", "bytes_read_per_byte"};
    json_t *job;
    size_t at;
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        json_object_del(run, of_run[i]);
    json_array_foreach(json_object_get(run, "jobs"), at, job) {
        for (size_t i = 0; i < sizeof of_job / sizeof *of_job; i++)
            json_object_del(job, of_job[i]);
    }
}

static void add_ends(const struct cluster_bench *bench, json_t *run)
{
    json_t *job;
    size_t at;
    json_array_foreach(json_object_get(run, "jobs"), at, job)
        json_object_set_new(job, "ended", json_integer((json_int_t)bench->ended[at]));
}

static json_t *report(const struct cluster_bench *bench)
{
    struct fleet_counts counts = fleet_counts(bench->fleet);
    double samples = (double)bench->ledger.delivered;
    json_t *run = sharing_report(&bench->ledger);
    json_t *more = json_pack("{s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "nodes",
                             (json_int_t)bench->ledger.scenario->nodes, "requests_per_delivered",
                             (double)counts.nexts / samples, "carried_per_delivered", (double)counts.carried / samples,
                             "busiest_node",
                             counts.carried ? (double)counts.most_of_a_node / (double)counts.carried : 0, "attachments",
                             (json_int_t)counts.attaches, "refused", (json_int_t)counts.refused, "moved",
                             (json_int_t)counts.moved, "back", (json_int_t)counts.back);
    CHECK(more && json_object_update(run, more) == 0);
    json_decref(more);
    drop_unknown(run);
    add_ends(bench, run);
    if (bench->orders)
        add_orders(bench, run);
    return run;
}

int cluster_run(const struct sharing_scenario *scenario, json_t **out)
{
    struct cluster_bench *bench = xcalloc(1, sizeof *bench);
    struct error err;
    bench->ledger.scenario = scenario;
    random_seed_keys(&bench->rng, scenario->seed, 0, 0, 0);
    bench->ledger.slot_bytes = SHARING_SLOT_BYTES; /* its own instances: there are none */
    sharing_begin(&bench->ledger);
    bench->orders = orders_fit(scenario) ? orders_begin(scenario) : NULL;
    bench->ledger.got = bench->orders ? orders_got : NULL;
    bench->ledger.got_ctx = bench->orders;
    bench->places = xcalloc(scenario->samples, sizeof *bench->places);
    for (uint32_t i = 0; i < scenario->samples; i++)
        bench->places[i] = (struct chunk_slot){bench->ledger.chunk_of[i], bench->ledger.slot_of[i]};
    int code = make_fleet(bench, &err);
    if (code)
        fprintf(stderr, "larder_bench cluster: %s\n", err.text);
    for (uint64_t now = 0; !code && step(bench, now);)
        now++;
    if (!code)
        *out = report(bench);
    fleet_destroy(bench->fleet);
    for (uint32_t i = 0; i < SHARING_JOBS_MAX; i++)
        idset_destroy(bench->rank[i].home);
    if (bench->orders)
        orders_end(bench->orders, scenario);
    sharing_end(&bench->ledger);
    free(bench->places);
    free(bench);
    return code ? 1 : 0;
}
