#include "server/governor/governor.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "server/governor/governor_priv.h"

#define PART_NEW 0.3 /* the part of the latest window in the mixture of classes */

enum { AWAY = 8 }; /* A class without a task in this many windows leaves the mixture. */

int governor_create(const struct governor_limits *limits, struct governor **out)
{
    if (limits->workers < 1 || limits->workers > GOVERNOR_THREADS_MAX || limits->reads < 1 ||
        limits->reads > GOVERNOR_READS_MAX)
        return LARDER_EINVAL;
    struct governor *governor = xcalloc(1, sizeof *governor);
    governor->magic = GOVERNOR_MAGIC;
    governor->limits = *limits;
    governor->loads_per_prepare = 1;
    governor->decision.preparers = limits->workers;
    governor->settled = governor->decision.preparers;
    governor->decision.loaders = limits->reads;
    governor->decision.preparers_most = limits->workers;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++)
        governor->decision.source_most[i] = limits->reads;
    *out = governor;
    return 0;
}

void governor_destroy(struct governor *governor)
{
    if (!governor)
        return;
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    governor->magic = 0;
    free(governor);
}

void governor_queue_begin(struct governor *governor, uint32_t queue, const struct governor_queue *desc)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    CHECK(queue < GOVERNOR_QUEUES_MAX && !governor->queues[queue].there && desc->weight > 0);
    governor->queues[queue] = (struct queue){.there = true, .desc = *desc};
    if (desc->source >= GOVERNOR_SOURCES_MAX)
        governor->queues[queue].desc.source = GOVERNOR_SOURCES_MAX - 1;
}

void governor_queue_weight(struct governor *governor, uint32_t queue, double weight)
{
    CHECK(queue < GOVERNOR_QUEUES_MAX && governor->queues[queue].there && weight > 0);
    governor->queues[queue].desc.weight = weight;
    governor->decided = false; /* the old deal no longer suits the weights */
}

void governor_queue_end(struct governor *governor, uint32_t queue)
{
    CHECK(queue < GOVERNOR_QUEUES_MAX && governor->queues[queue].there);
    governor->queues[queue].there = false;
    governor->decision.queue_loaders[queue] = 0;
    governor->decision.ahead[queue] = 0;
    governor->decision.views[queue] = (struct governor_view){0};
}

/* ── measurements ── */

void governor_loaded(struct governor *governor, uint32_t number, const struct governor_read *read)
{
    CHECK(number < GOVERNOR_QUEUES_MAX);
    CHECK(read->tier < GOVERNOR_TIERS_MAX);
    struct queue *queue = &governor->queues[number];
    struct tier *tier = &governor->tiers[read->tier];
    if (!queue->there || read->samples == 0)
        return;
    governor_times_add(read->tier ? &tier->read : &queue->read, read->seconds);
    governor_times_add(read->tier ? &tier->size : &queue->size, read->samples);
    queue->loads[read->tier] += read->samples;
    if (read->tier == 0)
        governor_source_read(&governor->sources[queue->desc.source], read);
}

static double sum_of_parts(const struct governor *governor)
{
    double sum = 0;
    for (size_t i = 0; i < governor->n_classes; i++)
        sum += governor->parts[i];
    return sum;
}

/* share_out gives the parts of the classes that left the mixture to the others, in proportion. */
static void share_out(struct governor *governor, double sum_before)
{
    double sum = sum_of_parts(governor);
    for (size_t i = 0; i < governor->n_classes && sum > 0; i++)
        governor->parts[i] *= sum_before / sum;
}

/* class_to_replace returns the class whose place, and share of the mixture, another class may take. It must have no
 * task in this window. The one idle for longest comes first, and among equals the rarest. GOVERNOR_CLASSES_MAX: there
 * is none. */
static size_t class_to_replace(const struct governor *governor)
{
    size_t best = GOVERNOR_CLASSES_MAX;
    for (size_t i = 0; i < governor->n_classes; i++) {
        const struct prepare_class *class = &governor->classes[i];
        if (class->window)
            continue;
        if (best == GOVERNOR_CLASSES_MAX || class->away > governor->classes[best].away ||
            (class->away == governor->classes[best].away && governor->parts[i] < governor->parts[best]))
            best = i;
    }
    return best;
}

/* class_nearest returns the known class that is most like this pipeline and size. */
static size_t class_nearest(const struct governor *governor, uint32_t pipeline, uint32_t size)
{
    const uint32_t other_pipeline = 64; /* more than any two sizes differ by */
    size_t best = 0;
    uint32_t best_far = UINT32_MAX;
    for (size_t i = 0; i < governor->n_classes; i++) {
        const struct prepare_class *class = &governor->classes[i];
        uint32_t far = class->size > size ? class->size - size : size - class->size;
        far += class->pipeline == pipeline ? 0 : other_pipeline;
        if (far < best_far) {
            best = i;
            best_far = far;
        }
    }
    return best;
}

static size_t class_of(struct governor *governor, uint32_t pipeline, uint64_t encoded_bytes)
{
    uint32_t size = 0;
    while (encoded_bytes >>= 1)
        size++;
    for (size_t i = 0; i < governor->n_classes; i++) {
        if (governor->classes[i].pipeline == pipeline && governor->classes[i].size == size)
            return i;
    }
    size_t place = governor->n_classes < GOVERNOR_CLASSES_MAX ? governor->n_classes++ : class_to_replace(governor);
    if (place == GOVERNOR_CLASSES_MAX)
        return class_nearest(governor, pipeline, size);
    governor->classes[place] = (struct prepare_class){.pipeline = pipeline, .size = size};
    governor->curves[place] = (struct governor_curve){.age = {0}};
    return place;
}

void governor_pipeline_gone(struct governor *governor, uint32_t pipeline)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    double before = sum_of_parts(governor);
    for (size_t i = governor->n_classes; i-- > 0;) {
        if (governor->classes[i].pipeline != pipeline)
            continue;
        size_t last = --governor->n_classes;
        governor->classes[i] = governor->classes[last];
        governor->curves[i] = governor->curves[last];
        governor->parts[i] = governor->parts[last];
        governor->parts[last] = 0;
    }
    share_out(governor, before);
}

void governor_source_gone(struct governor *governor, uint32_t source)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    CHECK(source < GOVERNOR_SOURCES_MAX);
    governor->sources[source] = (struct governor_source){.cap = 0};
}

void governor_prepared(struct governor *governor, uint32_t queue, const struct governor_preparation *preparation)
{
    CHECK(queue < GOVERNOR_QUEUES_MAX || queue == GOVERNOR_QUEUE_NONE);
    size_t class = class_of(governor, preparation->pipeline, preparation->encoded_bytes);
    uint32_t busy = preparation->busy;
    uint32_t threads = busy < 1 ? 1 : busy > governor->limits.workers ? governor->limits.workers : busy;
    governor_curve_note(&governor->curves[class], threads, preparation->seconds);
    governor->classes[class].window++;
    governor->busy += threads;
    if (queue != GOVERNOR_QUEUE_NONE && governor->queues[queue].there)
        governor_times_add(&governor->queues[queue].prepare, preparation->seconds);
}

void governor_trained(struct governor *governor, uint32_t queue, double seconds)
{
    CHECK(queue < GOVERNOR_QUEUES_MAX);
    if (governor->queues[queue].there)
        governor_times_add(&governor->queues[queue].train, seconds);
}

/* ── the end of a window ── */

/* fold_classes updates each class's share of the preparations and returns the number of preparations in the window. In
 * a window without any the parts stay. A class that has been away for long leaves the mixture. */
static uint64_t fold_classes(struct governor *governor)
{
    uint64_t prepares = 0;
    bool known = !governor->guessed && sum_of_parts(governor) > 0; /* then the sum of the parts is 1 */
    for (size_t i = 0; i < governor->n_classes; i++)
        prepares += governor->classes[i].window;
    for (size_t i = 0; i < governor->n_classes; i++) {
        struct prepare_class *class = &governor->classes[i];
        governor_curve_fold(&governor->curves[i], governor->steady);
        double part = prepares ? (double)class->window / (double)prepares : governor->parts[i];
        governor->parts[i] += (part - governor->parts[i]) * (known ? PART_NEW : 1);
        class->away = class->window ? 0 : class->away + 1;
        class->window = 0;
    }
    governor->guessed = governor->guessed && !prepares;
    governor->preparing = prepares ? (double)governor->busy / (double)prepares : 0;
    governor->busy = 0;
    double before = sum_of_parts(governor);
    for (size_t i = 0; i < governor->n_classes && prepares; i++)
        governor->parts[i] = governor->classes[i].away < AWAY ? governor->parts[i] : 0;
    share_out(governor, before);
    return prepares;
}

static void fold_tiers(struct governor *governor)
{
    for (uint32_t i = 1; i < GOVERNOR_TIERS_MAX; i++) {
        struct tier *tier = &governor->tiers[i];
        tier->read_s = governor_times_mean(&tier->read);
        tier->sample_s = tier->read_s > 0 ? tier->read_s / governor_times_mean(&tier->size) : 0;
    }
}

/* fold_loads makes a queue's loading times: its source's, and the classes', in the mixture that it loads. It returns
 * how many samples the window had. */
static uint64_t fold_loads(const struct governor *governor, struct queue *queue)
{
    double read_s[GOVERNOR_TIERS_MAX] = {governor_times_mean(&queue->read)};
    uint64_t loads = 0;
    queue->sample_s[0] = read_s[0] > 0 ? read_s[0] / governor_times_mean(&queue->size) : 0;
    for (uint32_t tier = 0; tier < GOVERNOR_TIERS_MAX; tier++) {
        if (tier > 0) {
            read_s[tier] = governor->tiers[tier].read_s;
            queue->sample_s[tier] = governor->tiers[tier].sample_s;
        }
        loads += queue->loads[tier];
    }
    governor_tiers_mix(queue->parts, queue->loads, PART_NEW);
    memset(queue->loads, 0, sizeof queue->loads);
    queue->read_s = governor_tiers_seconds(queue->parts, read_s, 0);
    queue->load_s = governor_tiers_seconds(queue->parts, queue->sample_s, 0);
    return loads;
}

void governor_fold(struct governor *governor)
{
    uint64_t prepares = fold_classes(governor), loads = 0;
    fold_tiers(governor);
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++) {
        struct queue *queue = &governor->queues[i];
        if (!queue->there)
            continue;
        loads += fold_loads(governor, queue);
        queue->prepare_s = governor_times_mean(&queue->prepare);
        queue->train_s = governor_times_mean(&queue->train);
    }
    if (prepares) {
        double ratio = (double)loads / (double)prepares;
        governor->loads_per_prepare += ((ratio > 1 ? 1 : ratio) - governor->loads_per_prepare) * PART_NEW;
    }
}
