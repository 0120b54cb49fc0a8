#include "server/governor/governor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "server/governor/source.h"
#include "server/governor/split.h"

#define GOVERNOR_MAGIC 0x676f7665u
#define GAIN           0.02  /* hysteresis: what a move of preparers must bring */
#define PRESSURE_NEW   0.5   /* of what waits now in the smoothed pressure */
#define PART_NEW       0.3   /* of a window in the mixture of classes */
#define NEARLY_ALL     0.9   /* of the threads */
#define MOVE_S_MIN     0.002 /* hysteresis: predicted lateness that a new deal must save */

enum {
    AWAY = 8, /* windows: tasks of a class that came in none of them are not part of the mixture */
    FULL = 8  /* windows in a row with all threads at work, until anything is tried */
};

struct queue {
    bool there;
    struct governor_queue desc;
    struct governor_times read; /* seconds a read */
    struct governor_times size; /* samples a read */
    struct governor_times prepare, train;
    /* at the last decision; load_s: a sample, as a read brings them together */
    double load_s, read_s, prepare_s, train_s;
    double pressure;
    uint32_t skipped;
    uint64_t loads; /* samples of this window */
};

struct prepare_class {
    uint32_t pipeline, size; /* size: binary logarithm of the encoded bytes */
    uint64_t window;         /* tasks */
    uint32_t away;           /* windows since the last task */
};

struct governor {
    uint32_t magic;
    struct governor_limits limits;
    struct queue queues[GOVERNOR_QUEUES_MAX];
    struct governor_source sources[GOVERNOR_SOURCES_MAX];
    struct prepare_class classes[GOVERNOR_CLASSES_MAX];
    struct governor_curve curves[GOVERNOR_CLASSES_MAX];
    double parts[GOVERNOR_CLASSES_MAX];
    size_t n_classes;
    double loads_per_prepare; /* smoothed; what sharing and redirection save */
    bool decided;
    bool steady;      /* the last decision left the number of preparers, and the most there may be, as they were */
    uint64_t busy;    /* threads that prepared when each of this window's tasks began: their sum, */
    double preparing; /* and the mean of the last window's */
    uint32_t full;    /* windows in a row with nearly all threads at work, */
    uint32_t pressed; /* and with nearly all preparers */
    uint32_t settled; /* preparers, apart from probes */
    struct governor_decision decision;
};

int governor_create(const struct governor_limits *limits, struct governor **out)
{
    if (limits->workers < 1 || limits->workers > GOVERNOR_THREADS_MAX || limits->extra_loaders > GOVERNOR_THREADS_MAX)
        return LARDER_EINVAL;
    struct governor *governor = xcalloc(1, sizeof *governor);
    governor->magic = GOVERNOR_MAGIC;
    governor->limits = *limits;
    governor->loads_per_prepare = 1;
    /* Rather too many: those that have nothing to prepare load, and what is only loaded brings nobody a batch. */
    bool all_prepare = limits->extra_loaders > 0 || limits->workers == 1;
    governor->decision.preparers = all_prepare ? limits->workers : limits->workers * 3 / 5;
    governor->settled = governor->decision.preparers;
    governor->decision.loaders = limits->workers - governor->decision.preparers + limits->extra_loaders;
    governor->decision.preparers_most = limits->workers;
    /* What comes to be prepared does not wait for slow storage, where there are threads for that. */
    governor->decision.loaders_most = limits->workers + limits->extra_loaders - (limits->extra_loaders > 0);
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++)
        governor->decision.source_most[i] = limits->workers + limits->extra_loaders;
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
    governor->decided = false; /* the old deal is none of today's */
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
    struct queue *queue = &governor->queues[number];
    if (!queue->there || read->samples == 0)
        return;
    governor_times_add(&queue->read, read->seconds);
    governor_times_add(&queue->size, read->samples);
    queue->loads += read->samples;
    governor_source_read(&governor->sources[queue->desc.source], read->seconds, read->busy);
}

static double sum_of_parts(const struct governor *governor)
{
    double sum = 0;
    for (size_t i = 0; i < governor->n_classes; i++)
        sum += governor->parts[i];
    return sum;
}

/* What classes that left were of the mixture goes to the others in proportion. */
static void share_out(struct governor *governor, double sum_before)
{
    double sum = sum_of_parts(governor);
    for (size_t i = 0; i < governor->n_classes && sum > 0; i++)
        governor->parts[i] *= sum_before / sum;
}

/* The class whose place, and part of the mixture, another may have: of those without a task in this window the one that
 * has had none for longest, of several the rarest. GOVERNOR_CLASSES_MAX: none. */
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

/* The class that is most like it. */
static size_t class_nearest(const struct governor *governor, uint32_t pipeline, uint32_t size)
{
    const uint32_t other_pipeline = 64; /* as far as no size is from another */
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

/* ── decisions ── */

/* Each class's part of the preparations; gives how many the window had. While there are none it stays, but who has been
 * away for long is no part of what comes then. */
static uint64_t fold_classes(struct governor *governor)
{
    uint64_t prepares = 0;
    double part_new = sum_of_parts(governor) > 0 ? PART_NEW : 1; /* the parts' sum is 1 as soon as any are known */
    for (size_t i = 0; i < governor->n_classes; i++)
        prepares += governor->classes[i].window;
    for (size_t i = 0; i < governor->n_classes; i++) {
        struct prepare_class *class = &governor->classes[i];
        governor_curve_fold(&governor->curves[i], governor->steady);
        double part = prepares ? (double)class->window / (double)prepares : governor->parts[i];
        governor->parts[i] += (part - governor->parts[i]) * part_new;
        class->away = class->window ? 0 : class->away + 1;
        class->window = 0;
    }
    governor->preparing = prepares ? (double)governor->busy / (double)prepares : 0;
    governor->busy = 0;
    double before = sum_of_parts(governor);
    for (size_t i = 0; i < governor->n_classes && prepares; i++)
        governor->parts[i] = governor->classes[i].away < AWAY ? governor->parts[i] : 0;
    share_out(governor, before);
    return prepares;
}

static void fold(struct governor *governor)
{
    uint64_t prepares = fold_classes(governor), loads = 0;
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++) {
        struct queue *queue = &governor->queues[i];
        if (!queue->there)
            continue;
        loads += queue->loads;
        queue->loads = 0;
        queue->read_s = governor_times_mean(&queue->read);
        queue->load_s = queue->read_s > 0 ? queue->read_s / governor_times_mean(&queue->size) : 0;
        queue->prepare_s = governor_times_mean(&queue->prepare);
        queue->train_s = governor_times_mean(&queue->train);
    }
    if (prepares) {
        double ratio = (double)loads / (double)prepares;
        governor->loads_per_prepare += ((ratio > 1 ? 1 : ratio) - governor->loads_per_prepare) * PART_NEW;
    }
}

static uint32_t ranks_of(const struct governor *governor, uint32_t queue)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++)
        ranks += governor->queues[i].there && governor->queues[i].desc.job == governor->queues[queue].desc.job;
    return ranks;
}

/* Samples a second that a queue would take if nothing held it up: ranks of a job go at the pace of the slowest trainer.
 */
static double demand(const struct governor *governor, const struct governor_backlog *backlog)
{
    const struct queue *queue = &governor->queues[backlog->queue];
    double step = queue->train_s;
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++) {
        if (governor->queues[i].there && governor->queues[i].desc.job == queue->desc.job)
            step = fmax(step, governor->queues[i].train_s);
    }
    return step > 0 ? backlog->batch_size / step : 0;
}

/* Loader time of one sample in the queues' mixture, and what of it is each source's. A queue whose training step is not
 * known counts like the others. */
static double mean_load_s(const struct governor *governor, const struct governor_backlog *backlogs, size_t n,
                          double parts[GOVERNOR_SOURCES_MAX])
{
    double demands = 0, seconds = 0;
    uint32_t known = 0;
    memset(parts, 0, GOVERNOR_SOURCES_MAX * sizeof *parts);
    for (size_t i = 0; i < n; i++) {
        double each = demand(governor, &backlogs[i]);
        demands += each;
        known += each > 0;
    }
    double usual = known ? demands / known : 1;
    demands = 0;
    for (size_t i = 0; i < n; i++) {
        const struct queue *queue = &governor->queues[backlogs[i].queue];
        double each = demand(governor, &backlogs[i]);
        each = each > 0 ? each : usual;
        if (queue->load_s <= 0)
            continue;
        demands += each;
        seconds += each * queue->load_s;
        parts[queue->desc.source] += each * queue->load_s;
    }
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX && seconds > 0; i++)
        parts[i] /= seconds;
    return demands > 0 ? seconds / demands : 0;
}

/* Some queue has no batch ready. Where all have, nothing need be tried. */
static bool anyone_waits(const struct governor_backlog *backlogs, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= backlogs[i].ready_batches == 0;
    return any;
}

/* Gives the loaders that all sources in use may have; *at_once: the reads under way in the last window. */
static uint32_t limit_loaders(struct governor *governor, const double parts[GOVERNOR_SOURCES_MAX], bool waits,
                              double *at_once)
{
    struct governor_decision *decision = &governor->decision;
    uint32_t all = governor->limits.workers + governor->limits.extra_loaders, limit = 0;
    *at_once = 0;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++)
        *at_once += parts[i] > 0 ? governor_source_at_once(&governor->sources[i]) : 0;
    bool pressed = waits && governor->preparing >= decision->preparers * NEARLY_ALL;
    bool full = waits && governor->preparing + *at_once >= all * NEARLY_ALL;
    governor->pressed = pressed ? governor->pressed + 1 : 0;
    governor->full = full ? governor->full + 1 : 0;
    enum governor_need need = governor->full >= FULL ? NEED_LASTING : waits ? NEED_NOW : NEED_NONE;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        decision->source_most[i] = governor_source_decide(&governor->sources[i], all, need);
        limit += parts[i] > 0 ? decision->source_most[i] : 0;
    }
    return limit && limit < all ? limit : all;
}

static bool tries_reads(const struct governor *governor)
{
    bool tries = false;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++)
        tries |= governor->sources[i].trial != TRIAL_NONE;
    return tries;
}

static void decide_split(struct governor *governor, const struct governor_backlog *backlogs, size_t n)
{
    struct governor_decision *decision = &governor->decision;
    struct governor_balance balance = {.workers = governor->limits.workers,
                                       .extra_loaders = governor->limits.extra_loaders,
                                       .curves = governor->curves,
                                       .parts = governor->parts,
                                       .n_classes = governor->n_classes};
    double parts[GOVERNOR_SOURCES_MAX];
    balance.load_s = mean_load_s(governor, backlogs, n, parts) * governor->loads_per_prepare;
    double at_once;
    uint32_t all = balance.workers + balance.extra_loaders;
    uint32_t limit = limit_loaders(governor, parts, anyone_waits(backlogs, n), &at_once);
    balance.enough = limit < all ? limit : 0;
    if (balance.enough && at_once > balance.enough)
        balance.load_s *= balance.enough / at_once; /* with so many fewer reads take so much shorter */
    uint32_t probe;
    governor->settled = governor_preparers(&balance, governor->settled, GAIN, &probe);
    if (governor->pressed < FULL || tries_reads(governor)) /* one thing at a time */
        probe = 0;
    uint32_t preparers = probe ? probe : governor->settled;
    uint32_t most = probe ? preparers : governor_preparers_most(&balance, preparers);
    governor->steady = preparers == decision->preparers && most == decision->preparers_most;
    decision->moves += preparers != decision->preparers;
    decision->preparers = preparers;
    decision->preparers_most = most;
    decision->loaders = limit < all - preparers ? limit : all - preparers;
    decision->prepare_rate = governor_prepare_rate(&balance, preparers);
    decision->load_rate = governor_load_rate(&balance, decision->loaders);
}

/* Preparing time of a sample, over the queues; 0: not known. */
static double usual_prepare_s(const struct governor *governor, const struct governor_backlog *backlogs, size_t n)
{
    double sum = 0;
    uint32_t known = 0;
    for (size_t i = 0; i < n; i++) {
        sum += governor->queues[backlogs[i].queue].prepare_s;
        known += governor->queues[backlogs[i].queue].prepare_s > 0;
    }
    return known ? sum / known : 0;
}

/* Training that goes on while the batch comes: its own step, and those of the batches that lie ready. */
static struct governor_forecast forecast(const struct governor *governor, const struct governor_backlog *backlog,
                                         size_t n, double usual_s)
{
    const struct queue *queue = &governor->queues[backlog->queue];
    uint32_t missing = backlog->pending_loads < backlog->batch_size ? backlog->pending_loads : backlog->batch_size;
    double rate = governor->decision.prepare_rate / (double)n;
    double prepare = rate > 0 ? backlog->batch_size / rate : 0;
    if (queue->train_s <= 0)
        return (struct governor_forecast){0};
    if (queue->prepare_s > 0 && usual_s > 0)
        prepare *= queue->prepare_s / usual_s;
    return (struct governor_forecast){.load_s = missing * queue->load_s,
                                      .rest_s = prepare - queue->train_s * (1 + backlog->ready_batches)};
}

static double worst(const struct governor_forecast *forecasts, size_t n, const uint32_t *loaders)
{
    double late = -1e9;
    for (size_t i = 0; i < n; i++)
        late = fmax(late, governor_late(&forecasts[i], loaders[i]));
    return late;
}

static uint32_t ahead(const struct governor *governor, const struct governor_backlog *backlog, uint32_t loaders)
{
    const struct queue *queue = &governor->queues[backlog->queue];
    if (queue->train_s <= 0 || queue->read_s <= 0)
        return 0;
    double prepare = governor->decision.prepare_rate > 0 ? backlog->batch_size / governor->decision.prepare_rate : 0;
    double latency = queue->read_s + backlog->batch_size * queue->load_s / (loaders ? loaders : 1) + prepare;
    double batches = ceil(latency / queue->train_s) + 1;
    return batches > GOVERNOR_AHEAD_MAX ? GOVERNOR_AHEAD_MAX : (uint32_t)batches;
}

static void decide_queues(struct governor *governor, const struct governor_backlog *backlogs, size_t n)
{
    struct governor_claim claims[GOVERNOR_QUEUES_MAX];
    struct governor_forecast forecasts[GOVERNOR_QUEUES_MAX];
    uint32_t dealt[GOVERNOR_QUEUES_MAX], floor[GOVERNOR_QUEUES_MAX], before[GOVERNOR_QUEUES_MAX], kept = 0;
    struct governor_decision *decision = &governor->decision;
    bool fits = governor->decided;
    if (n == 0)
        return;
    double usual_s = usual_prepare_s(governor, backlogs, n);
    for (size_t i = 0; i < n; i++) {
        struct queue *queue = &governor->queues[backlogs[i].queue];
        double each = queue->load_s > 0 ? queue->load_s : 1e-3; /* not known yet: small, and alike */
        queue->pressure += (backlogs[i].pending_loads * each - queue->pressure) * PRESSURE_NEW;
        uint32_t most = decision->source_most[queue->desc.source], reads = backlogs[i].pending_reads;
        claims[i] = (struct governor_claim){.pressure = queue->pressure * queue->desc.weight,
                                            .weight = queue->desc.weight / ranks_of(governor, backlogs[i].queue),
                                            .most = reads > most ? most : reads,
                                            .skipped = queue->skipped};
        forecasts[i] = forecast(governor, &backlogs[i], n, usual_s);
        before[i] = decision->queue_loaders[backlogs[i].queue];
        kept += before[i];
    }
    governor_deal(claims, n, decision->loaders, governor->limits.share, dealt);
    governor_guaranteed(claims, n, decision->loaders, governor->limits.share, floor);
    for (size_t i = 0; i < n; i++) {
        fits = fits && (before[i] > 0 || dealt[i] == 0);
    }
    governor_relieve(forecasts, n, governor->limits.tau_s, floor, dealt);
    /* Moving threads for a few milliseconds is not worth it, as long as the old deal is one of today's. */
    bool keep =
        fits && kept == decision->loaders && worst(forecasts, n, before) - worst(forecasts, n, dealt) < MOVE_S_MIN;
    for (size_t i = 0; i < n; i++) {
        uint32_t loaders = keep ? before[i] : dealt[i];
        struct queue *queue = &governor->queues[backlogs[i].queue];
        queue->skipped = loaders == 0 && backlogs[i].pending_reads ? queue->skipped + 1 : 0;
        decision->queue_loaders[backlogs[i].queue] = loaders;
        decision->ahead[backlogs[i].queue] = ahead(governor, &backlogs[i], loaders);
        decision->views[backlogs[i].queue] =
            (struct governor_view){.load_s = queue->load_s,
                                   .prepare_s = queue->prepare_s,
                                   .train_s = queue->train_s,
                                   .late_s = queue->train_s > 0 ? governor_late(&forecasts[i], loaders) : 0};
    }
}

const struct governor_decision *governor_decide(struct governor *governor, const struct governor_backlog *backlogs,
                                                size_t n)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    CHECK(n <= GOVERNOR_QUEUES_MAX);
    for (size_t i = 0; i < n; i++)
        CHECK(backlogs[i].queue < GOVERNOR_QUEUES_MAX && governor->queues[backlogs[i].queue].there);
    fold(governor);
    decide_split(governor, backlogs, n);
    decide_queues(governor, backlogs, n);
    governor->decided = true;
    return &governor->decision;
}
