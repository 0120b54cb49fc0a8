/* nodes_run.c: a training under one policy, event by event.
 *
 * Each node computes, and has a stream of reads for each class that it fills: one into the staging buffer, in the order
 * of use, and under HDMLP one into each other class. A stream is all threads of its class, and reads without a pause.
 * Under Larder a node has one into memory, which reads ahead what any node will need of the node's own share.
 * At one moment first all that ends is ended, then all that can begin is begun, and then the new reads learn how many
 * nodes read from the file system. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/nodes_priv.h"

/* A read that is under way, or none. */
struct stream {
    double until; /* INFINITY: none, or it has just begun */
    bool begun;
    uint32_t id;
    enum nodes_source source;
    uint32_t reader; /* the node that reads for it */
    uint8_t disk;    /* the reader's class that it reads from; 0: none that others share with it */
    bool awaits;     /* a read ahead brings the sample */
};

enum phase { COMPUTE_WAITS, COMPUTE_FETCHES, COMPUTE_RUNS, COMPUTE_AT_BARRIER };

struct node {
    struct stream streams[NODES_CLASSES_MAX]; /* by class */
    struct nodes_list lists[NODES_CLASSES_MAX];
    uint64_t fetched; /* the stream into the staging buffer has dealt with so many of the node's samples */
    double staged;    /* MB in the staging buffer, with what is being read */
    uint64_t used;    /* samples computed */
    enum phase phase;
    struct stream demand;                   /* what it computes or reads for itself now */
    double computed;                        /* seconds that it computed in this batch */
    uint32_t pfs_reads;                     /* of its own under way */
    uint32_t disk_reads[NODES_CLASSES_MAX]; /* streams that read from these classes of it */
};

struct run {
    const struct nodes_scenario *scenario;
    const struct nodes_policy *policy;
    struct nodes_places places;
    struct nodes_deal deal;
    struct nodes_costs costs;
    struct nodes_homes homes; /* under Larder alone */
    struct node nodes[NODES_MAX];
    uint32_t n_nodes;
    uint32_t reading; /* nodes that read from the file system */
    uint64_t batch;
    double now, batch_began;
    struct nodes_result *result;
};

static bool has_homes(const struct run *run)
{
    return run->policy->keeps == NODES_KEEPS_HOMES;
}

static void count_pfs(struct run *run, struct node *node, int change)
{
    run->reading -= node->pfs_reads > 0;
    node->pfs_reads = (uint32_t)((int)node->pfs_reads + change);
    run->reading += node->pfs_reads > 0;
}

/* ── what begins ── */

/* find_at_home: a sample comes from its home. Who wants what a read ahead is just bringing waits for that. What a home
 * reads from the file system for another node counts as the other node's read. */
static void find_at_home(struct run *run, uint32_t number, struct stream *stream)
{
    bool ahead = stream != &run->nodes[number].streams[0];
    uint8_t class = run->places.lowest[stream->id];
    stream->reader = run->homes.home[stream->id];
    stream->awaits = !ahead && run->homes.until[stream->id] > 0;
    if (stream->awaits)
        stream->source = stream->reader == number ? NODES_OWN + 1 : NODES_OTHERS;
    else if (stream->source != NODES_PFS && class > 1)
        run->nodes[stream->reader].disk_reads[stream->disk = class]++;
    if (!stream->awaits && class != 1 && (ahead || run->homes.kept[stream->id]))
        nodes_homes_reserve(&run->homes, &run->places, stream->id);
}

static void begin_read(struct run *run, struct node *node, struct stream *stream, uint32_t id)
{
    uint32_t number = (uint32_t)(node - run->nodes);
    *stream = (struct stream){.until = INFINITY, .begun = true, .id = id, .reader = number};
    stream->source = run->policy->deals == NODES_LOCAL
                         ? (enum nodes_source)(NODES_OWN + nodes_own(&run->places, number, id))
                         : nodes_choose(&run->places, &run->costs, number, id);
    if (has_homes(run))
        find_at_home(run, number, stream);
    run->result->read[stream->source] += run->places.sizes[id];
    if (stream->source == NODES_PFS)
        count_pfs(run, node, 1);
}

/* Whether the staging buffer leaves this sample out, because the node reads it when it needs it. */
static bool on_demand(const struct run *run, uint32_t id)
{
    return run->policy->reads == NODES_ON_DEMAND && run->places.lowest[id] == 0;
}

static void begin_staging(struct run *run, struct node *node)
{
    uint32_t number = (uint32_t)(node - run->nodes);
    uint64_t picks = nodes_picks(&run->deal, number);
    if (node->streams[0].until < INFINITY)
        return;
    while (node->fetched < picks) {
        uint32_t id = nodes_pick(&run->deal, number, node->fetched);
        double size = run->places.sizes[id];
        if (on_demand(run, id)) {
            node->fetched++;
            continue;
        }
        bool empty = node->used == node->fetched; /* a sample larger than the buffer goes through it alone */
        if (!empty && node->staged + size > run->scenario->classes[0].capacity)
            return;
        node->staged = empty ? size : node->staged + size;
        begin_read(run, node, &node->streams[0], id);
        return;
    }
}

static bool is_staged(const struct run *run, uint64_t place)
{
    uint64_t at;
    const struct node *node = &run->nodes[nodes_getter(&run->deal, place, &at)];
    bool reads = node->streams[0].begun || node->streams[0].until < INFINITY;
    return at < node->fetched + reads;
}

/* begin_ahead reads what any node will need next of the node's share, and memory does not have. */
static void begin_ahead(struct run *run, struct node *node)
{
    uint32_t number = (uint32_t)(node - run->nodes);
    uint64_t *next = &run->homes.next[number], end = run->deal.batches * run->deal.batch;
    if (run->scenario->n_classes < 2 || node->streams[1].until < INFINITY)
        return;
    for (; *next < end; ++*next) {
        uint32_t id = run->deal.ids[*next];
        if (run->homes.home[id] != number || run->places.lowest[id] == 1 || run->homes.until[id] > 0 ||
            is_staged(run, *next))
            continue;
        if (!nodes_homes_room(&run->homes, &run->places, id))
            return;
        begin_read(run, node, &node->streams[1], id);
        ++*next;
        return;
    }
}

static void begin_streams(struct run *run, struct node *node)
{
    if (run->policy->reads != NODES_FREE)
        begin_staging(run, node);
    if (has_homes(run))
        begin_ahead(run, node);
    for (uint32_t class = 1; class < run->scenario->n_classes; ++class) {
        struct nodes_list *list = &node->lists[class];
        if (node->streams[class].until == INFINITY && list->next < list->count)
            begin_read(run, node, &node->streams[class], list->ids[list->next++]);
    }
}

static void compute(struct run *run, struct node *node, uint32_t id, double preprocess)
{
    double size = run->places.sizes[id];
    node->phase = COMPUTE_RUNS;
    node->computed += size * run->costs.compute;
    node->demand.until = run->now + size * (preprocess + run->costs.compute);
}

static void begin_compute(struct run *run, struct node *node)
{
    if (node->phase != COMPUTE_WAITS)
        return;
    uint32_t id = nodes_pick(&run->deal, (uint32_t)(node - run->nodes), node->used);
    if (run->policy->reads != NODES_FREE && on_demand(run, id)) {
        node->phase = COMPUTE_FETCHES;
        begin_read(run, node, &node->demand, id);
    } else if (run->policy->reads == NODES_FREE || node->used < node->fetched) {
        node->demand.id = id;
        compute(run, node, id, 0);
    }
}

/* ── how long it takes ── */

static double fetch_cost(const struct run *run, uint32_t number, const struct stream *stream)
{
    double cost = nodes_fetch_cost(&run->places, &run->costs, stream->source, stream->id, run->reading);
    if (stream->awaits)
        return stream->source == NODES_OTHERS ? run->costs.others[1] : cost;
    if (stream->disk)
        cost *= run->nodes[stream->reader].disk_reads[stream->disk];
    return stream->source == NODES_PFS && stream->reader != number ? cost + run->costs.network : cost;
}

static void time_stream(struct run *run, uint32_t number, uint32_t class)
{
    struct stream *stream = &run->nodes[number].streams[class];
    if (!stream->begun)
        return;
    stream->begun = false;
    stream->until = (stream->awaits ? run->homes.until[stream->id] : run->now) +
                    run->places.sizes[stream->id] *
                        nodes_read_cost(&run->costs, class, fetch_cost(run, number, stream));
    if (has_homes(run) && !stream->awaits && run->homes.until[stream->id] > 0)
        run->homes.until[stream->id] = stream->until;
}

static void time_demand(struct run *run, struct node *node)
{
    if (node->demand.begun) {
        node->demand.begun = false;
        node->demand.until = run->now +
                             run->places.sizes[node->demand.id] *
                                 nodes_fetch_cost(&run->places, &run->costs, NODES_PFS, node->demand.id, run->reading);
    }
}

/* ── what ends ── */

static void end_at_home(struct run *run, struct stream *stream, uint32_t class)
{
    if (stream->disk)
        run->nodes[stream->reader].disk_reads[stream->disk]--;
    if (class == 1)
        nodes_homes_in_memory(&run->homes, &run->places, stream->id);
    if (stream->source == NODES_PFS)
        nodes_homes_write_behind(&run->homes, &run->places, &run->costs, stream->id, run->now);
    if (class == 0)
        nodes_homes_used(&run->homes, &run->places, stream->id);
}

static void end_read(struct run *run, struct node *node, uint32_t class)
{
    struct stream *stream = &node->streams[class];
    uint32_t number = (uint32_t)(node - run->nodes);
    stream->until = INFINITY;
    if (stream->source == NODES_PFS)
        count_pfs(run, node, -1);
    if (class == 0)
        node->fetched++;
    if (has_homes(run)) {
        end_at_home(run, stream, class);
        return;
    }
    bool keeps = class > 0 || (run->policy->keeps == NODES_KEEPS_READ && run->scenario->n_classes > 1 &&
                               run->places.lowest[stream->id] == 0);
    if (keeps)
        nodes_put(&run->places, number, class > 0 ? class : 1, stream->id);
}

static void end_compute(struct run *run, struct node *node)
{
    uint32_t number = (uint32_t)(node - run->nodes), id = node->demand.id;
    node->demand.until = INFINITY;
    if (node->phase == COMPUTE_FETCHES) {
        count_pfs(run, node, -1);
        compute(run, node, id, run->costs.preprocess);
        return;
    }
    if (!on_demand(run, id))
        node->staged -= run->places.sizes[id];
    node->used++;
    node->phase = node->used == (run->batch + 1) * nodes_part(&run->deal, number) ? COMPUTE_AT_BARRIER : COMPUTE_WAITS;
}

static void end_batch(struct run *run)
{
    double computed = 0;
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        if (run->nodes[i].phase != COMPUTE_AT_BARRIER)
            return;
        computed = fmax(computed, run->nodes[i].computed);
    }
    run->result->stall += run->now - run->batch_began - computed;
    run->batch++;
    run->batch_began = run->now;
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        run->nodes[i].phase = COMPUTE_WAITS;
        run->nodes[i].computed = 0;
    }
}

/* ── a run ── */

static double sooner(double a, double b)
{
    return b < a ? b : a;
}

static double next_moment(const struct run *run)
{
    double next = INFINITY;
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        const struct node *node = &run->nodes[i];
        next = sooner(next, node->demand.until);
        for (uint32_t class = 0; class < run->scenario->n_classes; ++class)
            next = sooner(next, node->streams[class].until);
    }
    return next;
}

static void begin_all(struct run *run)
{
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        begin_streams(run, &run->nodes[i]);
        begin_compute(run, &run->nodes[i]);
    }
    /* Staging comes last: it may wait for another node's read ahead. */
    for (uint32_t class = run->scenario->n_classes; class -- > 0;) {
        for (uint32_t i = 0; i < run->n_nodes; i++)
            time_stream(run, i, class);
    }
    for (uint32_t i = 0; i < run->n_nodes; i++)
        time_demand(run, &run->nodes[i]);
}

static void end_all(struct run *run)
{
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        struct node *node = &run->nodes[i];
        for (uint32_t class = 0; class < run->scenario->n_classes; ++class) {
            if (node->streams[class].until <= run->now)
                end_read(run, node, class);
        }
        if (node->demand.until <= run->now)
            end_compute(run, node);
    }
    end_batch(run);
}

static void train(struct run *run)
{
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        struct node *node = &run->nodes[i];
        node->demand.until = INFINITY;
        for (uint32_t class = 0; class < run->scenario->n_classes; ++class)
            node->streams[class].until = INFINITY;
        if (run->policy->keeps == NODES_KEEPS_FREQUENT)
            nodes_frequent(run->scenario, run->places.sizes, &run->deal, i, node->lists);
    }
    while (run->batch < run->deal.batches) {
        begin_all(run);
        run->now = next_moment(run);
        CHECK(run->now < INFINITY);
        end_all(run);
    }
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        for (uint32_t class = 0; class < run->scenario->n_classes; ++class)
            free(run->nodes[i].lists[class].ids);
    }
}

static const char *refusal(const struct run *run)
{
    const struct nodes_scenario *scenario = run->scenario;
    double all = 0, memory = scenario->n_classes > 1 ? scenario->classes[1].capacity * (double)scenario->nodes : 0;
    for (uint64_t id = 0; id < scenario->samples; id++)
        all += run->places.sizes[id];
    return run->policy->whole && all > memory ? "the dataset does not fit into class 1 of all nodes" : NULL;
}

void nodes_run(const struct nodes_scenario *scenario, const double *sizes, const struct nodes_policy *policy,
               struct nodes_result *out)
{
    struct run *run = xcalloc(1, sizeof *run);
    *out = (struct nodes_result){.refused = NULL};
    run->scenario = scenario;
    run->policy = policy;
    run->n_nodes = (uint32_t)scenario->nodes;
    run->result = out;
    nodes_costs(scenario, &run->costs);
    nodes_places_create(&run->places, scenario, sizes);
    out->refused = refusal(run);
    if (!out->refused && policy->loads != NODES_LOADS_NOTHING)
        out->loading = nodes_load(&run->places, &run->costs, policy->loads == NODES_LOADS_CLASSES, out->read);
    if (!out->refused && !nodes_deal_create(&run->deal, policy, &run->places))
        out->refused = "its classes hold no sample to train on";
    if (has_homes(run))
        nodes_homes_create(&run->homes, scenario, sizes);
    if (!out->refused)
        train(run);
    out->runtime = out->loading + run->now;
    out->stall = fmax(0, out->stall); /* rounding */
    out->batches = run->batch;
    nodes_homes_free(&run->homes);
    nodes_deal_free(&run->deal);
    nodes_places_free(&run->places);
    free(run);
}
