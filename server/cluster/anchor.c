#include "server/cluster/anchor.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

struct anchor {
    const struct peers *peers;
    struct map_desc map_desc;
    sample_id *ids;
    uint32_t *chunk_of;
    uint32_t count;
    bool lone, spread; /* spread: homes are asked in this epoch */

    struct map *map; /* the map for the view numbered `changes`; NULL: all chunks are at home here */
    uint64_t changes;
    uint32_t numbers[MAP_NODES_MAX]; /* the peer number of each node of the map */
    uint64_t guests[MAP_NODES_MAX];  /* by peer: the last guest that was asked there; 0: none */

    struct pace paces[MAP_NODES_MAX]; /* by peer */
    uint64_t lacks;                   /* as the merge was told last */

    struct merge *merge; /* the merge of the epoch; NULL: nothing was elsewhere, or no epoch has begun */
    uint64_t now_ns, term, serial;
    uint32_t epoch;
    bool attached;       /* guests of it have been somewhere */
    bool elsewhere;      /* some samples of this epoch are elsewhere */
    struct idset *moved; /* samples of the epoch that were moved */
    struct anchor_counts counts;
    struct anchor_action *actions; /* a queue */
    size_t first, length, cap;
};

int anchor_create(const struct anchor_desc *desc, struct anchor **out)
{
    struct anchor *anchor = xcalloc(1, sizeof *anchor);
    anchor->peers = desc->peers;
    anchor->map_desc = (struct map_desc){.n_chunks = desc->n_chunks, .bound = desc->bound};
    memcpy(anchor->map_desc.fingerprint, desc->fingerprint, sizeof desc->fingerprint);
    anchor->count = desc->count;
    anchor->attached = desc->resumed;
    anchor->changes = UINT64_MAX;
    anchor->ids = malloc((desc->count + (size_t)1) * sizeof *anchor->ids);
    anchor->chunk_of = malloc((desc->count + (size_t)1) * sizeof *anchor->chunk_of);
    anchor->lone = desc->lone;
    if (!anchor->ids || !anchor->chunk_of) {
        anchor_destroy(anchor);
        return LARDER_ENOMEM;
    }
    memcpy(anchor->ids, desc->ids, desc->count * sizeof *anchor->ids);
    memcpy(anchor->chunk_of, desc->chunk_of, desc->count * sizeof *anchor->chunk_of);
    *out = anchor;
    return 0;
}

void anchor_destroy(struct anchor *anchor)
{
    if (!anchor)
        return;
    for (struct anchor_action action; anchor_take(anchor, &action);) {
        if (action.type == ANCHOR_ATTACH)
            bag_destroy(action.attach.ids);
        else if (action.type == ANCHOR_BACK)
            idset_destroy(action.back);
    }
    merge_destroy(anchor->merge);
    map_destroy(anchor->map);
    idset_destroy(anchor->moved);
    free(anchor->actions);
    free(anchor->ids);
    free(anchor->chunk_of);
    free(anchor);
}

/* ── actions ── */

static struct anchor_action *put(struct anchor *anchor, enum anchor_action_type type, const struct merge_action *from)
{
    anchor->actions = xgrow(anchor->actions, sizeof *anchor->actions, &anchor->cap, anchor->length + 1);
    struct anchor_action *action = &anchor->actions[anchor->length++];
    *action = (struct anchor_action){.type = type,
                                     .request = from->request,
                                     .guest = from->guest,
                                     .term = from->term,
                                     .peer = from->node,
                                     .epoch = anchor->epoch};
    return action;
}

bool anchor_take(struct anchor *anchor, struct anchor_action *out)
{
    if (anchor->first == anchor->length) {
        anchor->first = anchor->length = 0;
        return false;
    }
    *out = anchor->actions[anchor->first++];
    return true;
}

static void put_attach(struct anchor *anchor, const struct merge_action *from)
{
    struct anchor_action *action = put(anchor, ANCHOR_ATTACH, from);
    CHECK(bag_copy(from->attach.ids, &action->attach.ids) == 0);
    action->attach.again = from->attach.again || anchor->attached || anchor->guests[from->node];
    action->attach.predecessor = anchor->guests[from->node];
}

static void put_next(struct anchor *anchor, const struct merge_action *from)
{
    struct anchor_action *action = put(anchor, ANCHOR_NEXT, from);
    anchor->guests[from->node] = from->guest;
    action->next.seq = from->next.seq;
    action->next.acked = from->next.acked;
    action->next.more = from->next.more;
    action->next.n = from->next.n;
    action->next.wait_ms = from->next.wait_ms;
    action->next.fresh = from->next.again;
    memcpy(action->next.tasks, from->next.tasks, from->next.n * sizeof *action->next.tasks);
}

static void put_arrive(struct anchor *anchor, const struct merge_action *from)
{
    struct anchor_action *action = put(anchor, ANCHOR_ARRIVE, from);
    action->arrive.task = from->arrive.task;
    action->arrive.sample = from->arrive.sample;
    action->arrive.serial = anchor->serial;
}

static void move(struct anchor *anchor, const struct merge_action *from);

/* put_all puts the merge's actions into the queue. They end with the next step of the merge, so a MOVE, which makes
 * some, is the last. */
static void put_all(struct anchor *anchor, const struct merge_action *actions, size_t count)
{
    struct merge_action *moves = NULL;
    size_t n_moves = 0, cap = 0;
    for (size_t i = 0; i < count; i++) {
        const struct merge_action *from = &actions[i];
        switch (from->type) {
        case MERGE_ATTACH: put_attach(anchor, from); break;
        case MERGE_NEXT: put_next(anchor, from); break;
        case MERGE_CANCEL: put(anchor, ANCHOR_CANCEL, from); break;
        case MERGE_DETACH: put(anchor, ANCHOR_DETACH, from); break;
        case MERGE_ARRIVE: put_arrive(anchor, from); break;
        case MERGE_MOVE:
            moves = xgrow(moves, sizeof *moves, &cap, n_moves + 1);
            moves[n_moves++] = *from; /* its set is the part's, which stays until MOVED */
            break;
        }
    }
    for (size_t i = 0; i < n_moves; i++)
        move(anchor, &moves[i]);
    free(moves);
}

static void step(struct anchor *anchor, struct merge_event event)
{
    const struct merge_action *actions;
    event.now_ns = anchor->now_ns;
    size_t count = merge_step(anchor->merge, &event, &actions);
    put_all(anchor, actions, count);
}

/* ── who gives what ── */

/* see_view makes the map anew when the view has changed. */
static int see_view(struct anchor *anchor)
{
    const struct members_view *view = &anchor->peers->view;
    if (anchor->changes == anchor->peers->changes)
        return 0;
    struct map *map = NULL;
    anchor->map_desc.n_nodes = view->n_nodes;
    anchor->map_desc.nodes = view->nodes;
    int code = view->n_nodes > 1 ? map_create(&anchor->map_desc, &map) : 0;
    anchor->map_desc.nodes = NULL;
    if (code)
        return code;
    map_destroy(anchor->map);
    anchor->map = map;
    anchor->changes = anchor->peers->changes;
    for (uint32_t i = 0; i < view->n_nodes; i++)
        anchor->numbers[i] = peers_number(anchor->peers, view->nodes[i].id);
    return 0;
}

static bool asks(const struct anchor *anchor, uint32_t number)
{
    return peers_asks(anchor->peers, number) && (number >= MAP_NODES_MAX || !anchor->paces[number].left);
}

static void leave_slow(struct anchor *anchor, const struct merge_action *from)
{
    struct pace *pace = &anchor->paces[from->node];
    pace_leave(pace, anchor->epoch);
    put(anchor, ANCHOR_LEFT, from)->pause = pace->pause;
}

/* giver returns the first node of the chunk, of this rank on, that is asked; PEER_SELF when there is none. */
static uint32_t giver(const struct anchor *anchor, uint32_t chunk, uint32_t but)
{
    for (int place = 0; anchor->map && place < MAP_PLACES; place++) {
        uint8_t node = map_chunk_at(anchor->map, chunk)->nodes[place];
        if (node != MAP_NODE_NONE && anchor->numbers[node] != but && asks(anchor, anchor->numbers[node]))
            return anchor->numbers[node];
    }
    return PEER_SELF;
}

/* Draws by their givers; NULL where there are none. */
struct split {
    struct bag *by[MAP_NODES_MAX + 1];
};

static void split_free(struct split *split)
{
    for (int i = 0; i <= MAP_NODES_MAX; i++)
        bag_destroy(split->by[i]);
}

static int split_add(struct split *split, uint32_t number, sample_id id, uint32_t times)
{
    int code = split->by[number] ? 0 : bag_create(&split->by[number]);
    return code ? code : bag_put(split->by[number], id, times);
}

/* split_view sorts by their givers what is left of the samples with homes elsewhere, or nothing if left is NULL.
 * `there` has all of these samples. */
static int split_view(struct anchor *anchor, const struct bag *left, struct split *split, struct idset *there)
{
    int code = see_view(anchor);
    if (code || !anchor->map)
        return code;
    uint32_t *givers = malloc((anchor->map_desc.n_chunks + (size_t)1) * sizeof *givers);
    if (!givers)
        return LARDER_ENOMEM;
    for (uint32_t chunk = 0; chunk < anchor->map_desc.n_chunks; chunk++)
        givers[chunk] = giver(anchor, chunk, PEER_UNKNOWN);
    for (uint32_t i = 0; !code && i < anchor->count; i++) {
        uint32_t number = givers[anchor->chunk_of[i]];
        if (number == PEER_SELF)
            continue;
        idset_add(there, anchor->ids[i]);
        uint32_t times = left ? bag_times(left, anchor->ids[i]) : 0;
        if (times)
            code = split_add(split, number, anchor->ids[i], times);
    }
    free(givers);
    return code;
}

/* end_epoch ends what the epoch before still has under way. A guest of which there is to be another one now stays for
 * that one to take its place. */
static void end_epoch(struct anchor *anchor, const struct split *next)
{
    const struct merge_action *actions;
    if (!anchor->merge)
        return;
    size_t count = merge_end(anchor->merge, &actions);
    for (size_t i = 0; i < count; i++) {
        bool stays = next && actions[i].type == MERGE_DETACH && next->by[actions[i].node];
        if (!stays)
            put_all(anchor, &actions[i], 1);
    }
    anchor->term = merge_term(anchor->merge);
    merge_destroy(anchor->merge);
    anchor->merge = NULL;
    anchor->attached = true;
    anchor->serial++;
    anchor->lacks = 0;
    anchor->elsewhere = false;
    idset_destroy(anchor->moved);
    anchor->moved = NULL;
}

static void put_part(struct anchor *anchor, uint32_t number, struct bag *ids)
{
    step(anchor, (struct merge_event){.type = MERGE_PART, .part = {number, ids, &anchor->paces[number]}});
}

/* put_parts asks the homes for their parts, which become the merge's. */
static void put_parts(struct anchor *anchor, struct split *split)
{
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
        if (!split->by[number])
            continue;
        anchor->elsewhere = true;
        put_part(anchor, number, split->by[number]);
        split->by[number] = NULL;
    }
}

static int begin_epoch(struct anchor *anchor, struct split *split)
{
    int code = idset_create(&anchor->moved);
    code = code ? code : merge_create(anchor->term, &anchor->merge);
    if (!code)
        put_parts(anchor, split);
    return code;
}

int anchor_elsewhere(const void *ctx, uint32_t epoch, const struct bag *left, struct idset **out)
{
    struct anchor *anchor = (struct anchor *)ctx;
    struct split split = {0};
    struct idset *there = NULL;
    int code = idset_create(&there);
    anchor->spread = !anchor->lone;
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++)
        pace_begin(&anchor->paces[number], epoch);
    if (!code && anchor->spread)
        code = split_view(anchor, left, &split, there);
    if (!code) {
        end_epoch(anchor, &split);
        anchor->epoch = epoch;
        code = begin_epoch(anchor, &split);
    }
    split_free(&split);
    if (code)
        idset_destroy(there);
    else
        *out = there;
    return code;
}

void anchor_set_lone(struct anchor *anchor, bool lone)
{
    anchor->lone = lone;
}

bool anchor_is_lone(const struct anchor *anchor)
{
    return !anchor->spread;
}

uint32_t anchor_epoch(const struct anchor *anchor)
{
    return anchor->epoch;
}

int anchor_homes(struct anchor *anchor, struct idset **out)
{
    int code = idset_create(out);
    if (!code)
        code = split_view(anchor, NULL, NULL, *out);
    if (code) {
        idset_destroy(*out);
        *out = NULL;
    }
    return code;
}

static uint32_t chunk_at(const struct anchor *anchor, sample_id id)
{
    uint32_t low = 0, high = anchor->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(anchor->ids[middle] <= id ? &low : &high) = middle;
    }
    return anchor->chunk_of[low];
}

/* split_bag sorts draws by their givers; those that this node gives go to PEER_SELF. With a MOVE's action they are what
 * its node does not give: what the engine waits for, or was moved before, is given here. */
static int split_bag(struct anchor *anchor, const struct bag *bag, const struct merge_action *from, struct split *split)
{
    struct idset *set = NULL;
    int code = see_view(anchor);
    if (!code)
        code = bag_ids(bag, &set);
    uint64_t count = set ? idset_count(set) : 0;
    sample_id *ids = malloc((count + 1) * sizeof *ids);
    code = code ? code : ids ? 0 : LARDER_ENOMEM;
    if (!code)
        idset_to_array(set, ids);
    for (uint64_t i = 0; !code && i < count; i++) {
        bool here = from && (idset_contains(anchor->moved, ids[i]) || idset_contains(from->move.soon, ids[i]));
        uint32_t but = from ? from->node : PEER_UNKNOWN;
        uint32_t number = here ? PEER_SELF : giver(anchor, chunk_at(anchor, ids[i]), but);
        code = split_add(split, number, ids[i], bag_times(bag, ids[i]));
    }
    if (!code && from)
        idset_add_all(anchor->moved, set);
    idset_destroy(set);
    free(ids);
    return code;
}

/* back has the engine draw here what is in the bag. */
static void back(struct anchor *anchor, const struct bag *bag)
{
    struct idset *ids = NULL;
    anchor->counts.back += bag_count(bag);
    CHECK(bag_ids(bag, &ids) == 0);
    put(anchor, ANCHOR_BACK, &(struct merge_action){.node = PEER_SELF})->back = ids;
}

/* move finds other nodes for what one does not give. Without memory for that, this node has it all. */
static void move(struct anchor *anchor, const struct merge_action *from)
{
    struct split split = {0};
    if (from->move.slow)
        leave_slow(anchor, from);
    if (split_bag(anchor, from->move.ids, from, &split)) {
        split_free(&split);
        split = (struct split){0};
        CHECK(bag_copy(from->move.ids, &split.by[PEER_SELF]) == 0);
    }
    uint64_t request = from->request;
    if (split.by[PEER_SELF])
        back(anchor, split.by[PEER_SELF]);
    bag_destroy(split.by[PEER_SELF]);
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
        if (!split.by[number])
            continue;
        anchor->counts.moved += bag_count(split.by[number]);
        put_part(anchor, number, split.by[number]);
    }
    step(anchor, (struct merge_event){.type = MERGE_MOVED, .request = request});
}

static void see_time(struct anchor *anchor, uint64_t now_ns);

void anchor_away(struct anchor *anchor, uint64_t now_ns, struct bag *moved)
{
    struct split split = {0};
    see_time(anchor, now_ns);
    anchor->spread = true;
    if (!anchor->merge || split_bag(anchor, moved, NULL, &split)) {
        split_free(&split);
        back(anchor, moved);
        bag_destroy(moved);
        return;
    }
    bag_destroy(moved);
    if (split.by[PEER_SELF])
        back(anchor, split.by[PEER_SELF]);
    bag_destroy(split.by[PEER_SELF]);
    split.by[PEER_SELF] = NULL;
    put_parts(anchor, &split);
}

/* ── events ── */

static void see_time(struct anchor *anchor, uint64_t now_ns)
{
    CHECK(now_ns >= anchor->now_ns);
    anchor->now_ns = now_ns;
}

void anchor_expect(struct anchor *anchor, uint64_t now_ns, uint32_t task, sample_id id, uint64_t ahead)
{
    see_time(anchor, now_ns);
    if (!anchor->elsewhere) {
        struct anchor_action *none = put(anchor, ANCHOR_ARRIVE, &(struct merge_action){.node = PEER_SELF});
        none->arrive.task = task;
        none->arrive.sample.id = SAMPLE_NONE;
        none->arrive.serial = UINT64_MAX; /* no merge waits for what becomes of it */
        return;
    }
    step(anchor, (struct merge_event){.type = MERGE_EXPECT, .expect = {task, id, ahead}});
}

void anchor_lacks(struct anchor *anchor, uint64_t now_ns, uint64_t samples, double sample_s)
{
    if (!anchor->merge || samples == anchor->lacks)
        return;
    see_time(anchor, now_ns);
    anchor->lacks = samples;
    step(anchor, (struct merge_event){.type = MERGE_LACKS, .lacks = {samples, sample_s}});
}

void anchor_step(struct anchor *anchor, const struct merge_event *event)
{
    see_time(anchor, event->now_ns);
    if (anchor->merge)
        step(anchor, *event);
}

void anchor_arrived(struct anchor *anchor, uint64_t now_ns, const struct anchor_action *action, bool taken, bool over)
{
    see_time(anchor, now_ns);
    anchor->counts.received += taken && !action->arrive.sample.reason;
    anchor->counts.refused += !taken && action->arrive.sample.id != SAMPLE_NONE;
    if (action->arrive.serial == anchor->serial && anchor->merge)
        step(anchor, (struct merge_event){.type = MERGE_TAKEN, .taken = {taken, over}});
}

void anchor_end(struct anchor *anchor)
{
    end_epoch(anchor, NULL);
}

bool anchor_acts(const struct anchor *anchor)
{
    return anchor->first < anchor->length;
}

uint64_t anchor_alarm(const struct anchor *anchor)
{
    return anchor->merge ? merge_alarm(anchor->merge) : UINT64_MAX;
}

struct anchor_counts anchor_counts(const struct anchor *anchor)
{
    return anchor->counts;
}

size_t anchor_statuses(const struct anchor *anchor, struct merge_status *out, size_t max)
{
    return anchor->merge ? merge_statuses(anchor->merge, out, max) : 0;
}
