#include "server/cluster/merge.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "server/cluster/merge_priv.h"

#define MS UINT64_C(1000000)

int merge_create(uint64_t term, struct merge **out)
{
    struct merge *merge = calloc(1, sizeof *merge);
    if (!merge)
        return LARDER_ENOMEM;
    merge->term = term;
    *out = merge;
    return 0;
}

void merge_destroy(struct merge *merge)
{
    if (!merge)
        return;
    for (size_t i = 0; i < merge->n_parts; i++) {
        bag_destroy(merge->parts[i]->left);
        idset_destroy(merge->parts[i]->soon);
        free(merge->parts[i]->waiting.all);
        free(merge->parts[i]);
    }
    free(merge->homeless.all);
    free(merge->arrivals);
    free(merge->actions);
    free(merge);
}

/* ── events ── */

/* part_at returns the part that the node gives; NULL when there is none. A node has one guest of a job at most, so it
 * has one part. */
static struct part *part_at(const struct merge *merge, uint32_t node)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        if (merge->parts[i]->node == node && merge->parts[i]->state != PART_GIVEN_UP)
            return merge->parts[i];
    }
    return NULL;
}

static struct part *new_part(struct merge *merge, uint32_t node, struct bag *ids, struct pace *pace)
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
    part->pace = pace;
    part->most = MERGE_SAMPLES_MOST;
    part->left = ids;
    part->state = PART_DONE;
    return part;
}

static void on_part(struct merge *merge, const struct merge_event *event)
{
    struct part *part = part_at(merge, event->part.node);
    struct bag *ids = event->part.ids;
    bool more = bag_count(ids) > 0;
    if (part) {
        CHECK(bag_put_all(part->left, ids) == 0);
        bag_destroy(ids);
    } else {
        part = new_part(merge, event->part.node, ids, event->part.pace);
    }
    part->tries = 0;
    if (more)
        merge_attach(merge, part);
}

/* measure finds out what is left, and whether the slots are as many. */
static void measure(struct merge *merge)
{
    uint64_t slots = merge->homeless.count + merge->n_arrivals - merge->first_arrival;
    merge->left = 0;
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct part *part = merge->parts[i];
        slots += part->waiting.count + merge_under_way(part);
        merge->left += part->left ? bag_count(part->left) : 0;
    }
    merge->closing = slots >= merge->left;
}

static void tend_all(struct merge *merge)
{
    measure(merge);
    for (size_t i = 0; i < merge->n_parts; i++)
        merge_tend(merge, merge->parts[i]);
}

static void on_lacks(struct merge *merge, const struct merge_event *event)
{
    merge->lacks = event->lacks.samples;
    merge->sample_s = event->lacks.sample_s;
}

static void on_expect(struct merge *merge, const struct merge_event *event)
{
    struct slot slot = {.task = event->expect.task, .id = event->expect.id};
    CHECK(merge->n_parts > 0);
    merge->ahead = event->expect.ahead;
    merge_place(merge, slot);
}

/* A sample came to another slot than one that expected it: they change places, as in the engine. Of a sample that has
 * draws left besides, the engine may have taken one of those instead. Then a slot is asked for where it is not
 * expected, which does no harm: any sample may come to any slot. */
struct exchange {
    sample_id came, expected;
    bool done;
};

static void change_places(void *ctx, sample_id *id)
{
    struct exchange *exchange = ctx;
    if (exchange->done || *id != exchange->came)
        return;
    *id = exchange->expected;
    exchange->done = true;
}

static void on_taken(struct merge *merge, const struct merge_event *event)
{
    CHECK(merge->first_arrival < merge->n_arrivals);
    struct arrival arrival = merge->arrivals[merge->first_arrival++];
    arrival.part->arriving--;
    if (event->taken.taken) {
        struct part *owner = merge_part_of(merge, arrival.id, false);
        owner = owner ? owner : merge_part_of(merge, arrival.id, true);
        if (owner) /* else the engine had it back, and took it all the same */
            bag_take(owner->left, arrival.id);
        if (arrival.id != arrival.slot.id)
            merge_each_slot(merge, change_places, &(struct exchange){arrival.id, arrival.slot.id, false});
        arrival.part->tries = 0;
        arrival.part->starved_ns = merge->now_ns + MERGE_STARVED_NS;
    } else if (!event->taken.over) {
        merge_place(merge, arrival.slot);
    }
    tend_all(merge);
}

static void on_moved(struct merge *merge, const struct merge_event *event)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        if (part->state == PART_GIVEN_UP && part->move == event->request) {
            bag_destroy(part->left);
            idset_destroy(part->soon);
            part->left = NULL;
            part->soon = NULL;
        }
    }
    merge_place_all(merge, &merge->homeless);
    tend_all(merge);
}

/* fit learns how many samples a node can hold at once. A node that is asked for more waits in vain for the rest, and
 * the samples that it has wait too. If another request was under way, the node is first asked one request at a time,
 * and only then for fewer samples. A node that answered because its time was over is only slow. */
static void fit(const struct merge *merge, struct part *part, const struct request *answered, uint32_t count, bool last)
{
    bool over = merge->now_ns >= answered->asked_ns + MERGE_WAIT_MS * MS;
    if (count < answered->n && !last && !answered->again && !over) {
        if (answered->alone)
            part->most = count > MERGE_SAMPLES_LEAST ? count : MERGE_SAMPLES_LEAST;
        part->tight = true;
        part->whole = 0;
    } else if (count >= part->most && ++part->whole == MERGE_WHOLE) {
        part->most = 2 * part->most < MERGE_SAMPLES_MOST ? 2 * part->most : MERGE_SAMPLES_MOST;
        part->tight = part->most < MERGE_SAMPLES_MOST;
        part->whole = 0;
    }
}

/* back puts slots that an answer left empty among the waiting ones. They need not wait for others to be asked with
 * them. */
static void back(struct part *part, const struct request *request, uint32_t from)
{
    merge_put_slots(&part->waiting, request, from);
    if (from < request->n)
        part->since_ns = 0;
}

/* had_none notes that the node has answered, and had nothing. */
static void had_none(const struct merge *merge, struct part *part)
{
    part->again_ns = merge->now_ns + MERGE_EMPTY_NS;
    if (part->starved_ns < merge->now_ns + MERGE_EMPTY_MORE_NS)
        part->starved_ns = merge->now_ns + MERGE_EMPTY_MORE_NS;
}

static void on_batch(struct merge *merge, struct part *part, struct request *request, const struct merge_event *event)
{
    struct request answered = *request;
    merge_seq_took(part, answered.seq);
    uint32_t count = event->batch.count < answered.n ? event->batch.count : answered.n;
    *request = (struct request){0};
    fit(merge, part, &answered, count, event->batch.last);
    part->held += part == merge->stalls_alone ? count : 0;
    part->dry = part->dry || event->batch.last;
    for (uint32_t i = 0; i < count; i++)
        merge_arrive(merge, part, (struct slot){.task = answered.tasks[i], .id = answered.ids[i]},
                     event->batch.samples[i]);
    if (count == 0 && !event->batch.last) /* the same as EMPTY */
        had_none(merge, part);
    back(part, &answered, count);
}

static void on_failed(struct merge *merge, struct part *part, struct request *request, bool refused)
{
    if (request->again || request->failed || refused) {
        merge_give_up(merge, part);
    } else if (request->seq) {
        request->again = true;
        merge_send_next(merge, part, request);
    } else {
        merge_send_attach(merge, part, true);
    }
}

/* find returns the part and the request with this number; false: it is not under way. */
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
        back(part, request, 0);
        merge_seq_leave(part, request->seq);
        *request = (struct request){0};
        had_none(merge, part);
    } else if (event->type == MERGE_REFUSED) {
        merge_give_up(merge, part);
    } else { /* GONE, STALE, or an answer to another question */
        merge_attach(merge, part);
    }
    merge_tend(merge, part);
}

size_t merge_step(struct merge *merge, const struct merge_event *event, const struct merge_action **actions)
{
    CHECK(event->now_ns >= merge->now_ns);
    merge_stood(merge, event->now_ns - merge->now_ns);
    merge->now_ns = event->now_ns;
    merge->n_actions = 0;
    merge->alarm_stands = false;
    switch (event->type) {
    case MERGE_TICK: tend_all(merge); break;
    case MERGE_PART: on_part(merge, event); break;
    case MERGE_LACKS: on_lacks(merge, event); break;
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
    merge_find_stall(merge, event->type == MERGE_BATCH);
    *actions = merge->actions;
    return merge->n_actions;
}

size_t merge_end(struct merge *merge, const struct merge_action **actions)
{
    merge->n_actions = 0;
    merge->alarm_stands = false;
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        merge_cancel_all(merge, part, &part->waiting);
        if (part->state == PART_OPEN || part->state == PART_DONE)
            merge_detach(merge, part);
        merge_arrive_none(merge, part, &part->waiting);
    }
    if (merge->n_parts)
        merge_arrive_none(merge, merge->parts[0], &merge->homeless);
    *actions = merge->actions;
    return merge->n_actions;
}

static uint64_t find_alarm(const struct merge *merge)
{
    uint64_t alarm = merge->placed ? merge->now_ns : UINT64_MAX;
    for (size_t i = 0; i < merge->n_parts; i++) {
        const struct part *part = merge->parts[i];
        uint64_t at = part->since_ns + MERGE_GATHER_NS;
        bool asked = part->waiting.count || merge_under_way(part);
        if (asked && (part->state == PART_OPEN || part->state == PART_ATTACHING) && part->starved_ns < alarm)
            alarm = part->starved_ns;
        if (part->state != PART_OPEN || part->dry || !part->waiting.count || merge_under_way_all(part))
            continue;
        at = part->again_ns > merge->now_ns ? part->again_ns : at > merge->now_ns ? at : UINT64_MAX;
        alarm = at < alarm ? at : alarm;
    }
    return alarm;
}

uint64_t merge_alarm(struct merge *merge)
{
    if (!merge->alarm_stands)
        merge->alarm_ns = find_alarm(merge);
    merge->alarm_stands = true;
    return merge->alarm_ns;
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
                                       .left = part->left ? bag_count(part->left) : 0,
                                       .waiting = (uint32_t)part->waiting.count,
                                       .open = part->state == PART_OPEN};
        for (int at = 0; at < MERGE_ASKED_MAX; at++)
            out[i].asked += part->asked[at].n;
    }
    return merge->n_parts;
}
