/* encoded_next.c: eviction by the farthest next use, where orders are known (Belady).
 *
 * A job with `strict` or `none` has an order that is known for this epoch and the next one. So it is known when it will
 * use each sample again. When all jobs are like that, and memory does not hold all that they want, every sample stays
 * until its room is needed. Then the one goes whose next use is farthest away, over all jobs. One that nobody will use
 * again goes at once.
 *
 * Time is counted in draws of the first of these jobs: the distance of another job's use counts by how fast it draws
 * beside that one. Jobs change their speed, so the farthest use is worked out again before its sample goes. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"

#define NEVER 1e300 /* later than any use */

/* ── orders ── */

static void drop_places(struct next_uses *next, uint32_t *places, size_t end)
{
    if (places)
        next->bytes -= end * sizeof *places;
    free(places);
}

static void forget_order(struct next_uses *next, struct known_order *order)
{
    if (order->next != order->now)
        drop_places(next, order->next, order->end);
    drop_places(next, order->now, order->end);
    *order = (struct known_order){.now = NULL};
}

/* make_places returns the places of the epoch's order, by id; NULL when there is no memory. They count in next.bytes,
 * until drop_places. */
static uint32_t *make_places(struct encoded_store *store, const struct job *job, uint32_t epoch, size_t end)
{
    uint64_t bytes = end * sizeof(uint32_t);
    if ((double)(store->next.bytes + bytes) > (1 - AHEAD_SHARE) * (double)store->env->config.encoded_bytes)
        return NULL;
    uint32_t *at = malloc(bytes);
    if (!at)
        return NULL;
    memset(at, 0xff, bytes);
    store->next.bytes += bytes;
    if (sampler_places(store->env->sampler, job->no, epoch, at)) {
        drop_places(&store->next, at, end);
        return NULL;
    }
    return at;
}

/* has_more tells whether the job begins another epoch. */
static bool has_more(const struct job *job)
{
    return !job->progress.began || job->progress.epoch + 1 < job_epochs(job);
}

/* learn fills in the order of the job's present or last epoch, or leaves it unknown if there is no memory. It returns
 * whether next uses may have changed. They have not if the order of the epoch was known before it began. */
static bool learn(struct encoded_store *store, const struct job *job)
{
    struct known_order *order = &store->next.orders[job->no], before = *order;
    uint32_t epoch = job->progress.epoch;
    bool more = has_more(job), follows = before.now && before.epoch + 1 == epoch;
    if (before.now && before.epoch == epoch)
        return false;
    if (job->terms.shuffle == SHUFFLE_NONE && before.now) {
        order->epoch = epoch;
        order->more = more;
        return !follows;
    }
    follows = follows && before.next && before.end == store->env->samples.ids;
    *order = (struct known_order){.epoch = epoch, .end = store->env->samples.ids, .more = more};
    if (follows) {
        order->now = before.next;
        before.next = before.now;
    } else {
        order->now = make_places(store, job, epoch, order->end);
    }
    order->next = job->terms.shuffle == SHUFFLE_NONE ? order->now
                  : more                             ? make_places(store, job, epoch + 1, order->end)
                                                     : NULL;
    forget_order(&store->next, &before);
    if (!order->now || (more && !order->next)) {
        forget_order(&store->next, order);
        return true;
    }
    return !follows;
}

/* unknown_distance returns the mean distance of a use by a job whose order had no memory, or that is in no epoch yet
 * and has `left` samples left. */
static double unknown_distance(const struct job *job, sample_id id, uint64_t left, bool wants)
{
    if (wants)
        return (double)left / 2;
    if (job->state == JOB_FAILED || !has_more(job) || !idset_contains(job->terms.view, id))
        return NEVER;
    return (double)(job->state == JOB_RUNNING ? left : 0) + (double)job->shape.epoch_samples / 2;
}

/* distance returns the job's draws until its next use of the sample; NEVER when there is none. */
static double distance(const struct encoded_store *store, const struct job *job, sample_id id)
{
    const struct known_order *order = &store->next.orders[job->no];
    uint64_t samples = job->shape.epoch_samples, left = sampler_remaining(store->env->sampler, job->no);
    uint64_t drawn = samples - left;
    bool wants = demand_wants_encoded(store->jobs, job->no, id);
    if (!order->now || id >= order->end)
        return unknown_distance(job, id, left, wants);
    if (wants)
        return (double)order->now[id] - (double)drawn;
    if (job->terms.world_size > 1 && job->state == JOB_RUNNING && order->now[id] < drawn) {
        uint32_t rank = order->now[id] % job->terms.world_size, number = order->now[id] / job->terms.world_size;
        uint64_t planned = store->rank_planned(job, rank);
        if (number >= planned) /* it was dealt to the rank, which has not come to it */
            return (double)(number - planned);
    }
    if (job->state == JOB_FAILED || !order->more ||
        (order->now[id] == UINT32_MAX && !idset_contains(job->terms.view, id))) /* a part has others in each epoch */
        return NEVER;
    return (double)order->next[id] + (job->state == JOB_RUNNING ? (double)(samples - drawn) : 0);
}

/* next_use returns when the sample is used next; NEVER: never. */
static double next_use(const struct encoded_store *store, sample_id id)
{
    const struct job *first = jobs_first(store->jobs);
    if (!first)
        return NEVER;
    double now = (double)first->progress.epoch * (double)first->shape.epoch_samples +
                 (double)(first->shape.epoch_samples - sampler_remaining(store->env->sampler, first->no));
    double best = NEVER, rate = demand_job_rate(store->jobs, first);
    for (const struct job *job = first; job; job = jobs_after(store->jobs, job)) {
        double away = distance(store, job, id), own = job == first ? rate : demand_job_rate(store->jobs, job);
        if (away < NEVER && own > 0 && rate > 0)
            away *= rate / own;
        best = away < best ? away : best;
    }
    return now + best;
}

/* ── the heap: encodeds without pins, the farthest next use first ── */

static bool farther(const struct encoded_store *store, uint32_t a, uint32_t b)
{
    return store->encodeds[a].next_use > store->encodeds[b].next_use;
}

static void put_at(struct encoded_store *store, uint32_t at, uint32_t index)
{
    store->next.heap[at] = index;
    store->encodeds[index].heap_at = at;
}

/* settle moves the encoded at this place up or down to where it belongs. */
static void settle(struct encoded_store *store, uint32_t at)
{
    const uint32_t *heap = store->next.heap;
    uint32_t index = heap[at];
    for (; at > 0 && farther(store, index, heap[(at - 1) / 2]); at = (at - 1) / 2)
        put_at(store, at, heap[(at - 1) / 2]);
    for (uint32_t child = 2 * at + 1; child < store->next.count; child = 2 * at + 1) {
        child += child + 1 < store->next.count && farther(store, heap[child + 1], heap[child]);
        if (!farther(store, heap[child], index))
            break;
        put_at(store, at, heap[child]);
        at = child;
    }
    put_at(store, at, index);
}

void encoded_next_remove(struct encoded_store *store, uint32_t index)
{
    uint32_t at = store->encodeds[index].heap_at;
    if (at == ENGINE_NONE)
        return;
    store->encodeds[index].heap_at = ENGINE_NONE;
    uint32_t last = store->next.heap[--store->next.count];
    if (last == index)
        return;
    put_at(store, at, last);
    settle(store, at);
}

void encoded_next_note(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    if (!store->next.known || residency_pins(store->residency, index) > 0)
        return;
    encoded->next_use = next_use(store, encoded->id);
    if (encoded->heap_at == ENGINE_NONE) {
        store->next.heap = xgrow(store->next.heap, sizeof *store->next.heap, &store->next.cap,
                                 (size_t)store->next.count + 1);
        put_at(store, store->next.count++, index);
    }
    settle(store, encoded->heap_at);
}

uint32_t encoded_next_victim(struct encoded_store *store)
{
    for (int reviews = 0; store->next.count > 0 && reviews < SETTLE_VICTIMS; reviews++) {
        uint32_t index = store->next.heap[0];
        double before = store->encodeds[index].next_use;
        encoded_next_note(store, index);
        if (store->encodeds[index].next_use >= before)
            return index;
    }
    return store->next.count > 0 ? store->next.heap[0] : RESIDENT_NONE;
}

bool encoded_next_is_never(const struct encoded_store *store, uint32_t index)
{
    return store->next.known && next_use(store, store->encodeds[index].id) >= NEVER;
}

bool encoded_next_has_way(struct encoded_store *store, sample_id id)
{
    uint64_t mean = store->slab.taken ? store->used_bytes / store->slab.taken : 0;
    uint64_t idle = residency_count(store->residency, KEPT_WANT) * mean;
    /* What reads ahead do not fill is left to samples that nobody wants in this epoch. */
    bool full = (double)idle <= (1 - AHEAD_SHARE) * (double)store->used_bytes;
    uint32_t victim = store->next.known && !full ? encoded_next_victim(store) : RESIDENT_NONE;
    return victim != RESIDENT_NONE && residency_want(store->residency, victim) == KEPT_WANT &&
           next_use(store, id) < store->encodeds[victim].next_use;
}

/* ── what is known ── */

/* note_all works out the next use of all that memory has. */
static void note_all(struct encoded_store *store)
{
    for (uint32_t index = 0; index < store->slab.size; index++) {
        if (store->encodeds[index].state == ENCODED_READY)
            encoded_next_note(store, index);
    }
}

bool encoded_next_epoch(struct encoded_store *store, const struct job *job)
{
    return store->next.known && learn(store, job);
}

void encoded_next_forget(struct encoded_store *store, uint32_t job)
{
    if (store->next.orders)
        forget_order(&store->next, &store->next.orders[job]);
    store->next.stale = true;
}

/* A job that comes brings next uses nearer at its first epoch. One that has left makes the heap stale, and so does one
 * that becomes the first. */
void encoded_next_measure(struct encoded_store *store, bool known)
{
    const struct job *first = jobs_first(store->jobs);
    uint32_t first_no = first ? first->no : ENGINE_NONE;
    if (known && store->next.known && !store->next.stale && first_no == store->next.first)
        return;
    while (store->next.count > 0)
        store->encodeds[store->next.heap[--store->next.count]].heap_at = ENGINE_NONE;
    store->next.known = known;
    store->next.stale = false;
    store->next.first = first_no;
    if (!known) {
        for (uint32_t no = 0; store->next.orders && no < JOBS_MAX; no++)
            forget_order(&store->next, &store->next.orders[no]);
        return;
    }
    if (!store->next.orders)
        store->next.orders = xcalloc(JOBS_MAX, sizeof *store->next.orders);
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        if (job->progress.began)
            learn(store, job);
    }
    note_all(store);
}

void encoded_next_destroy(struct encoded_store *store)
{
    for (uint32_t no = 0; store->next.orders && no < JOBS_MAX; no++)
        forget_order(&store->next, &store->next.orders[no]);
    free(store->next.orders);
    free(store->next.heap);
}

void encoded_next_check(const struct encoded_store *store)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < store->slab.size; index++) {
        const struct encoded *encoded = &store->encodeds[index];
        if (encoded->state == ENCODED_FREE)
            continue;
        bool there = store->next.known && residency_pins(store->residency, index) == 0;
        CHECK((encoded->heap_at != ENGINE_NONE) == there);
        CHECK(!there || store->next.heap[encoded->heap_at] == index);
        CHECK(!there || encoded->heap_at == 0 || !farther(store, index, store->next.heap[(encoded->heap_at - 1) / 2]));
        count += there;
    }
    CHECK(count == store->next.count);
}
