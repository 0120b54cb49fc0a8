#include "server/cluster/merge.h"

#include <stdlib.h>

#include "common/check.h"

enum { MORE_BITS = 64 };

enum part_state { PART_ATTACHING, PART_OPEN, PART_DONE, PART_GIVEN_UP };

/* The slot of an EXPECT, and the sample that the engine expects there. */
struct slot {
    uint32_t task;
    sample_id id;
    bool failed; /* It was in a request that failed. */
};

/* Slots that are in no request. */
struct slots {
    struct slot *all;
    size_t count, cap;
};

/* A request under way; number 0: none. */
struct request {
    uint64_t number, seq; /* seq 0: an ATTACH */
    bool again;           /* It has failed once, */
    bool failed;          /* or one that had some of its slots before. */
    uint32_t n;
    uint32_t tasks[MERGE_SAMPLES_MOST];
    sample_id ids[MERGE_SAMPLES_MOST];
};

struct part {
    enum part_state state;
    uint32_t node;
    struct idset *left;
    uint64_t guest, term, seq;        /* guest and seq of this attachment */
    uint64_t acked, more;             /* as in NEXT */
    uint64_t unused[MERGE_ASKED_MAX]; /* sequence numbers that were answered by nothing; 0: none */
    bool attached_before, dry;        /* dry: its guest has no more */
    uint64_t move;                    /* the number of its MOVE, while it is GIVEN_UP */
    struct idset *soon;               /* what that says */
    uint32_t tries;                   /* attachments since the engine took something */
    uint64_t again_ns;                /* It is not asked before. */
    uint64_t since_ns;                /* since when slots have waited */
    uint64_t starved_ns;              /* when it is given up, unless it answers */
    uint32_t arriving;                /* ARRIVEs of its slots whose results have not come */
    struct slots waiting;
    struct request attach, asked[MERGE_ASKED_MAX];
};

/* An ARRIVE whose result has not come. */
struct arrival {
    struct part *part;
    struct slot slot;
    sample_id id;
};

struct merge {
    uint64_t term, requests; /* the last numbers given */
    uint64_t now_ns;
    bool placed;          /* slots were, and may be asked for */
    bool closing;         /* all that is left is expected: nothing more will come to wait */
    uint64_t ahead, left; /* samples: of the look-ahead that are elsewhere; of all parts that are left */
    struct part *parts[MERGE_PARTS_MAX];
    size_t n_parts;
    struct idset *received; /* in this epoch */
    struct slots homeless;  /* of parts that were given up, until MOVED */
    struct arrival *arrivals;
    size_t first_arrival, n_arrivals, arrivals_cap;
    struct merge_action *actions;
    size_t n_actions, actions_cap;
};

int merge_create(uint64_t term, struct merge **out)
{
    struct merge *merge = xcalloc(1, sizeof *merge);
    merge->term = term;
    int code = idset_create(&merge->received);
    if (code)
        free(merge);
    else
        *out = merge;
    return code;
}

void merge_destroy(struct merge *merge)
{
    if (!merge)
        return;
    for (size_t i = 0; i < merge->n_parts; i++) {
        idset_destroy(merge->parts[i]->left);
        idset_destroy(merge->parts[i]->soon);
        free(merge->parts[i]->waiting.all);
        free(merge->parts[i]);
    }
    idset_destroy(merge->received);
    free(merge->homeless.all);
    free(merge->arrivals);
    free(merge->actions);
    free(merge);
}

/* ── slots ── */

static void put_slot(struct slots *slots, struct slot slot)
{
    slots->all = xgrow(slots->all, sizeof *slots->all, &slots->cap, slots->count + 1);
    slots->all[slots->count++] = slot;
}

static void put_slots(struct slots *slots, const struct request *request, uint32_t from)
{
    for (uint32_t i = from; i < request->n; i++)
        put_slot(slots, (struct slot){request->tasks[i], request->ids[i], request->again || request->failed});
}

/* part_of gives the part that has the sample to give; NULL when there is none. */
static struct part *part_of(const struct merge *merge, sample_id id, bool given_up)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        if (part->left && (part->state == PART_GIVEN_UP) == given_up && idset_contains(part->left, id))
            return part;
    }
    return NULL;
}

/* ── actions ── */

static struct merge_action *act(struct merge *merge, enum merge_action_type type, const struct part *part)
{
    merge->actions = xgrow(merge->actions, sizeof *merge->actions, &merge->actions_cap, merge->n_actions + 1);
    struct merge_action *action = &merge->actions[merge->n_actions++];
    *action = (struct merge_action){.type = type};
    if (part) {
        action->node = part->node;
        action->guest = part->guest;
        action->term = part->term;
    }
    return action;
}

static void arrive(struct merge *merge, struct part *part, struct slot slot, struct merge_sample sample)
{
    struct merge_action *action = act(merge, MERGE_ARRIVE, NULL);
    action->arrive.task = slot.task;
    action->arrive.id = sample.id;
    action->arrive.reason = sample.reason;
    if (merge->first_arrival == merge->n_arrivals)
        merge->first_arrival = merge->n_arrivals = 0;
    merge->arrivals = xgrow(merge->arrivals, sizeof *merge->arrivals, &merge->arrivals_cap, merge->n_arrivals + 1);
    merge->arrivals[merge->n_arrivals++] = (struct arrival){part, slot, sample.id};
    part->arriving++;
}

static void arrive_none(struct merge *merge, struct part *part, struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        arrive(merge, part, slots->all[i], (struct merge_sample){.id = SAMPLE_NONE});
    slots->count = 0;
}

static void cancel(struct merge *merge, struct part *part, struct request *request, struct slots *to)
{
    if (!request->number)
        return;
    act(merge, MERGE_CANCEL, part)->request = request->number;
    put_slots(to, request, 0);
    *request = (struct request){0};
}

static void cancel_all(struct merge *merge, struct part *part, struct slots *to)
{
    cancel(merge, part, &part->attach, to);
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        cancel(merge, part, &part->asked[i], to);
}

static void detach(struct merge *merge, const struct part *part)
{
    if (part->guest)
        act(merge, MERGE_DETACH, part);
}

/* ── parts ── */

/* each_slot calls for the sample of each slot. */
static void each_slot(struct merge *merge, void (*each)(void *ctx, sample_id *id), void *ctx)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        for (size_t at = 0; at < part->waiting.count; at++)
            each(ctx, &part->waiting.all[at].id);
        for (int request = 0; request < MERGE_ASKED_MAX; request++)
            for (uint32_t at = 0; at < part->asked[request].n; at++)
                each(ctx, &part->asked[request].ids[at]);
    }
    for (size_t i = 0; i < merge->homeless.count; i++)
        each(ctx, &merge->homeless.all[i].id);
    for (size_t i = merge->first_arrival; i < merge->n_arrivals; i++)
        each(ctx, &merge->arrivals[i].slot.id);
}

static void add_soon(void *ctx, sample_id *id)
{
    struct part *part = ctx;
    if (idset_contains(part->left, *id))
        idset_add(part->soon, *id);
}

static void give_up(struct merge *merge, struct part *part)
{
    CHECK(idset_create(&part->soon) == 0);
    each_slot(merge, add_soon, part);
    cancel_all(merge, part, &part->waiting);
    for (size_t i = 0; i < part->waiting.count; i++)
        put_slot(&merge->homeless, part->waiting.all[i]);
    part->waiting.count = 0;
    detach(merge, part);
    part->state = PART_GIVEN_UP;
    part->move = ++merge->requests;
    struct merge_action *action = act(merge, MERGE_MOVE, part);
    action->request = part->move;
    action->move.ids = part->left;
    action->move.soon = part->soon;
}

static void send_attach(struct merge *merge, struct part *part, bool again)
{
    part->attach = (struct request){.number = ++merge->requests, .again = again};
    struct merge_action *action = act(merge, MERGE_ATTACH, part);
    action->request = part->attach.number;
    action->attach.ids = part->left;
    action->attach.again = part->attached_before;
}

/* attach begins another attachment. What is still under way for the one before is not waited for. */
static void attach(struct merge *merge, struct part *part)
{
    cancel_all(merge, part, &part->waiting);
    if (part->tries++ == MERGE_TRIES) {
        give_up(merge, part);
        return;
    }
    part->state = PART_ATTACHING;
    part->dry = false;
    part->guest = part->seq = 0;
    part->acked = part->more = 0;
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        part->unused[i] = 0;
    part->term = ++merge->term;
    send_attach(merge, part, false);
    part->attached_before = true;
}

/* under_way gives the samples that are asked for. */
static size_t under_way(const struct part *part)
{
    size_t count = 0;
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        count += part->asked[i].n;
    return count;
}

/* under_way_all tells whether there is no room for another request. */
static bool under_way_all(const struct part *part)
{
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (!part->asked[i].number)
            return false;
    }
    return true;
}

/* enough tells whether as many slots wait as a request is worth: three of four that the look-ahead has for the part. So
 * requests are large where the look-ahead is long, and the others are there while they are under way. When nothing else
 * is to come, or slots have waited for long because there are fewer, nobody waits. */
static bool enough(const struct merge *merge, const struct part *part)
{
    uint64_t window = merge->left ? merge->ahead * idset_count(part->left) / merge->left : 0;
    uint64_t least = 3 * window / 4;
    return part->waiting.count >= (least < MERGE_SAMPLES_MOST ? least : MERGE_SAMPLES_MOST) || merge->closing ||
           merge->now_ns >= part->since_ns + MERGE_GATHER_NS;
}

/* took_seq notes that the answer with this number is here. */
static void took_seq(struct part *part, uint64_t seq)
{
    if (seq <= part->acked || seq - part->acked > MORE_BITS)
        return;
    part->more |= UINT64_C(1) << (seq - part->acked - 1);
    for (; part->more & 1; part->more >>= 1)
        part->acked++;
}

/* next_seq gives a number for a request. One that was answered by nothing is asked for again: the node may have come to
 * give something for it after all, if that request came to it twice. */
static uint64_t next_seq(struct part *part)
{
    uint64_t *first = NULL;
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (part->unused[i] && (!first || part->unused[i] < *first))
            first = &part->unused[i];
    }
    if (!first)
        return ++part->seq;
    uint64_t seq = *first;
    *first = 0;
    return seq;
}

/* has_seq tells whether there is a number for another request: the node hears of so many answers at once. */
static bool has_seq(const struct part *part)
{
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (part->unused[i])
            return true;
    }
    return part->seq - part->acked < MORE_BITS;
}

/* leave_seq keeps the number for another request. No more are unused than requests can be under way. */
static void leave_seq(struct part *part, uint64_t seq)
{
    int i = 0;
    while (part->unused[i])
        i++;
    part->unused[i] = seq;
}

static void send_next(struct merge *merge, struct part *part, struct request *request)
{
    request->number = ++merge->requests;
    struct merge_action *action = act(merge, MERGE_NEXT, part);
    action->request = request->number;
    action->next.seq = request->seq;
    action->next.acked = part->acked;
    action->next.more = part->more;
    action->next.n = request->n;
    action->next.wait_ms = request->again ? 0 : MERGE_WAIT_MS;
    action->next.again = request->again;
    action->next.tasks = request->tasks;
}

/* ask sends requests for the slots that wait, in bundles. */
static void ask(struct merge *merge, struct part *part)
{
    for (uint32_t at = 0; at < MERGE_ASKED_MAX && part->waiting.count; at++) {
        struct request *request = &part->asked[at];
        if (request->number)
            continue;
        if (!enough(merge, part) || !has_seq(part))
            return;
        size_t n = part->waiting.count < MERGE_SAMPLES_MOST ? part->waiting.count : MERGE_SAMPLES_MOST;
        *request = (struct request){.seq = next_seq(part), .n = (uint32_t)n};
        for (size_t i = 0; i < n; i++) {
            request->tasks[i] = part->waiting.all[i].task;
            request->ids[i] = part->waiting.all[i].id;
            request->failed = request->failed || part->waiting.all[i].failed;
        }
        part->waiting.count -= n;
        for (size_t i = 0; i < part->waiting.count; i++)
            part->waiting.all[i] = part->waiting.all[i + n];
        send_next(merge, part, request);
    }
}

static void place_all(struct merge *merge, struct slots *slots);

/* tend does what the part's state asks for now. */
static void tend(struct merge *merge, struct part *part)
{
    if (part->state == PART_OPEN && !part->arriving && idset_count(part->left) == 0) {
        cancel_all(merge, part, &part->waiting); /* its guest stays: that of the next epoch takes its place */
        part->state = PART_DONE;
    }
    if (part->state == PART_OPEN && part->dry && !part->arriving && !under_way(part))
        attach(merge, part);
    if ((part->state == PART_OPEN || part->state == PART_ATTACHING) && merge->now_ns >= part->starved_ns &&
        (part->waiting.count || under_way(part))) {
        give_up(merge, part);
        return;
    }
    if (!part->waiting.count)
        part->since_ns = UINT64_MAX - MERGE_GATHER_NS;
    else if (part->since_ns > merge->now_ns)
        part->since_ns = merge->now_ns;
    if (part->state == PART_OPEN && !part->dry && merge->now_ns >= part->again_ns && part->waiting.count)
        ask(merge, part);
    if (part->state == PART_DONE && part->waiting.count)
        place_all(merge, &part->waiting);
}

/* ── events ── */

/* part_at gives the part that the node gives; NULL when there is none. A node has one guest of a job at most, so it has
 * one part. */
static struct part *part_at(const struct merge *merge, uint32_t node)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        if (merge->parts[i]->node == node && merge->parts[i]->state != PART_GIVEN_UP)
            return merge->parts[i];
    }
    return NULL;
}

static struct part *new_part(struct merge *merge, uint32_t node, struct idset *ids)
{
    struct part *part = NULL;
    for (size_t i = 0; i < merge->n_parts && !part; i++) {
        if (merge->parts[i]->state == PART_GIVEN_UP && !merge->parts[i]->left && !merge->parts[i]->arriving)
            part = merge->parts[i];
    }
    if (part) {
        free(part->waiting.all);
        *part = (struct part){0};
    } else {
        CHECK(merge->n_parts < MERGE_PARTS_MAX);
        part = merge->parts[merge->n_parts++] = xcalloc(1, sizeof *part);
    }
    part->node = node;
    part->left = ids;
    part->state = PART_DONE;
    return part;
}

static void on_part(struct merge *merge, const struct merge_event *event)
{
    struct part *part = part_at(merge, event->part.node);
    struct idset *ids = event->part.ids;
    idset_remove_all(ids, merge->received); /* some may have come since they were to move */
    bool more = idset_count(ids) > 0;
    if (part) {
        idset_add_all(part->left, ids);
        idset_destroy(ids);
    } else {
        part = new_part(merge, event->part.node, ids);
    }
    part->tries = 0;
    if (more)
        attach(merge, part);
}

static void put_waiting(const struct merge *merge, struct part *part, struct slot slot)
{
    if (!part->waiting.count && !under_way(part))
        part->starved_ns = merge->now_ns + MERGE_STARVED_NS;
    put_slot(&part->waiting, slot);
}

/* place puts a slot where it is asked for. When no part has the sample, the engine has it back by now, and hears that
 * nothing comes there. */
static void place(struct merge *merge, struct slot slot)
{
    bool moves = part_of(merge, slot.id, true) != NULL;

    merge->placed = true;
    struct part *part = moves ? NULL : part_of(merge, slot.id, false);
    if (moves)
        put_slot(&merge->homeless, slot);
    else if (part)
        put_waiting(merge, part, slot);
    else
        arrive(merge, merge->parts[0], slot, (struct merge_sample){.id = SAMPLE_NONE});
}

/* place_all places slots that a part has no samples for. */
static void place_all(struct merge *merge, struct slots *slots)
{
    struct slots all = *slots;
    *slots = (struct slots){0};
    for (size_t i = 0; i < all.count; i++)
        place(merge, all.all[i]);
    free(all.all);
}

/* measure finds out what is left, and whether the slots are as many. */
static void measure(struct merge *merge)
{
    uint64_t slots = merge->homeless.count + merge->n_arrivals - merge->first_arrival;
    merge->left = 0;
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct part *part = merge->parts[i];
        slots += part->waiting.count + under_way(part);
        merge->left += part->left ? idset_count(part->left) : 0;
    }
    merge->closing = slots >= merge->left;
}

static void tend_all(struct merge *merge)
{
    measure(merge);
    for (size_t i = 0; i < merge->n_parts; i++)
        tend(merge, merge->parts[i]);
}

static void on_expect(struct merge *merge, const struct merge_event *event)
{
    struct slot slot = {.task = event->expect.task, .id = event->expect.id};
    CHECK(merge->n_parts > 0);
    merge->ahead = event->expect.ahead;
    place(merge, slot);
}

/* A sample came to another slot than the one that expected it: they change places, as in the engine. */
struct exchange {
    sample_id came, expected;
};

static void change_places(void *ctx, sample_id *id)
{
    const struct exchange *exchange = ctx;
    if (*id == exchange->came)
        *id = exchange->expected;
}

static void on_taken(struct merge *merge, const struct merge_event *event)
{
    CHECK(merge->first_arrival < merge->n_arrivals);
    struct arrival arrival = merge->arrivals[merge->first_arrival++];
    arrival.part->arriving--;
    if (event->taken.taken) {
        struct part *owner = part_of(merge, arrival.id, false);
        owner = owner ? owner : part_of(merge, arrival.id, true);
        if (owner) /* else the engine had it back, and took it all the same */
            idset_remove(owner->left, arrival.id);
        idset_add(merge->received, arrival.id);
        if (arrival.id != arrival.slot.id)
            each_slot(merge, change_places, &(struct exchange){arrival.id, arrival.slot.id});
        arrival.part->tries = 0;
    } else if (!event->taken.over) {
        place(merge, arrival.slot);
    }
    tend_all(merge);
}

static void on_moved(struct merge *merge, const struct merge_event *event)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        if (part->state == PART_GIVEN_UP && part->move == event->request) {
            idset_destroy(part->left);
            idset_destroy(part->soon);
            part->left = part->soon = NULL;
        }
    }
    place_all(merge, &merge->homeless);
    tend_all(merge);
}

static void on_batch(struct merge *merge, struct part *part, struct request *request, const struct merge_event *event)
{
    struct request answered = *request;
    took_seq(part, answered.seq);
    part->starved_ns = merge->now_ns + MERGE_STARVED_NS;
    uint32_t count = event->batch.count < answered.n ? event->batch.count : answered.n;
    *request = (struct request){0};
    part->dry = part->dry || event->batch.last;
    for (uint32_t i = 0; i < count; i++)
        arrive(merge, part, (struct slot){.task = answered.tasks[i], .id = answered.ids[i]}, event->batch.samples[i]);
    if (count == 0 && !event->batch.last) /* as good as EMPTY */
        part->again_ns = merge->now_ns + MERGE_EMPTY_NS;
    put_slots(&part->waiting, &answered, count);
}

static void on_failed(struct merge *merge, struct part *part, struct request *request, bool refused)
{
    if (request->again || request->failed || refused) {
        give_up(merge, part);
    } else if (request->seq) {
        request->again = true;
        send_next(merge, part, request);
    } else {
        send_attach(merge, part, true);
    }
}

/* find gives the part and the request with this number; false: it is not under way. */
static bool find(const struct merge *merge, uint64_t number, struct part **part, struct request **request)
{
    for (size_t i = 0; number && i < merge->n_parts; i++) {
        *part = merge->parts[i];
        *request = &(*part)->attach;
        if ((*request)->number == number)
            return true;
        for (int at = 0; at < MERGE_ASKED_MAX; at++) {
            *request = &(*part)->asked[at];
            if ((*request)->number == number)
                return true;
        }
    }
    return false;
}

static void on_answer(struct merge *merge, const struct merge_event *event)
{
    struct part *part;
    struct request *request;
    if (!find(merge, event->request, &part, &request))
        return;
    bool attaches = request->seq == 0;
    if (event->type == MERGE_FAILED) {
        on_failed(merge, part, request, event->refused);
    } else if (event->type == MERGE_ATTACHED && attaches) {
        *request = (struct request){0};
        part->guest = event->guest;
        part->state = PART_OPEN;
    } else if (event->type == MERGE_BATCH && !attaches) {
        on_batch(merge, part, request, event);
    } else if (event->type == MERGE_EMPTY && !attaches) {
        put_slots(&part->waiting, request, 0);
        leave_seq(part, request->seq);
        if (part->starved_ns < merge->now_ns + MERGE_EMPTY_MORE_NS)
            part->starved_ns = merge->now_ns + MERGE_EMPTY_MORE_NS;
        *request = (struct request){0};
        part->again_ns = merge->now_ns + MERGE_EMPTY_NS;
    } else if (event->type == MERGE_REFUSED) {
        give_up(merge, part);
    } else { /* GONE, STALE, or an answer to another question */
        attach(merge, part);
    }
    tend(merge, part);
}

size_t merge_step(struct merge *merge, const struct merge_event *event, const struct merge_action **actions)
{
    CHECK(event->now_ns >= merge->now_ns);
    merge->now_ns = event->now_ns;
    merge->n_actions = 0;
    switch (event->type) {
    case MERGE_TICK: tend_all(merge); break;
    case MERGE_PART: on_part(merge, event); break;
    case MERGE_EXPECT: on_expect(merge, event); break;
    case MERGE_TAKEN: on_taken(merge, event); break;
    case MERGE_MOVED: on_moved(merge, event); break;
    case MERGE_ATTACHED:
    case MERGE_REFUSED:
    case MERGE_BATCH:
    case MERGE_EMPTY:
    case MERGE_GONE:
    case MERGE_STALE:
    case MERGE_FAILED: on_answer(merge, event); break;
    }
    while (merge->placed && event->type != MERGE_EXPECT) {
        merge->placed = false;
        tend_all(merge);
    }
    *actions = merge->actions;
    return merge->n_actions;
}

size_t merge_end(struct merge *merge, const struct merge_action **actions)
{
    merge->n_actions = 0;
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        cancel_all(merge, part, &part->waiting);
        if (part->state == PART_OPEN || part->state == PART_DONE)
            detach(merge, part);
        arrive_none(merge, part, &part->waiting);
    }
    if (merge->n_parts)
        arrive_none(merge, merge->parts[0], &merge->homeless);
    *actions = merge->actions;
    return merge->n_actions;
}

uint64_t merge_alarm(const struct merge *merge)
{
    uint64_t alarm = merge->placed ? merge->now_ns : UINT64_MAX;
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct part *part = merge->parts[i];
        uint64_t at = part->since_ns + MERGE_GATHER_NS;
        bool asked = part->waiting.count || under_way(part);
        if (asked && (part->state == PART_OPEN || part->state == PART_ATTACHING) && part->starved_ns < alarm)
            alarm = part->starved_ns;
        if (part->state != PART_OPEN || part->dry || !part->waiting.count || under_way_all(part))
            continue;
        at = part->again_ns > merge->now_ns ? part->again_ns : at > merge->now_ns ? at : UINT64_MAX;
        alarm = at < alarm ? at : alarm;
    }
    return alarm;
}

uint64_t merge_term(const struct merge *merge)
{
    return merge->term;
}

size_t merge_statuses(const struct merge *merge, struct merge_status *out, size_t max)
{
    for (size_t i = 0; i < merge->n_parts && i < max; i++) {
        const struct part *part = merge->parts[i];
        out[i] = (struct merge_status){.node = part->node,
                                       .left = part->left ? idset_count(part->left) : 0,
                                       .waiting = (uint32_t)part->waiting.count,
                                       .open = part->state == PART_OPEN};
        for (int at = 0; at < MERGE_ASKED_MAX; at++)
            out[i].asked += part->asked[at].n;
    }
    return merge->n_parts;
}
