/* decide.c: decides by what was measured how many threads prepare, how many load, and for which queues. */
#include <math.h>
#include <string.h>

#include "common/check.h"
#include "server/governor/governor_priv.h"
#include "server/governor/split.h"

#define GAIN 0.02        /* hysteresis: the part by which a move of preparers must raise the rate */
#define PRESSURE_NEW 0.5 /* the part of the latest backlog in the smoothed pressure */
#define NEARLY_ALL 0.9   /* the part of the threads that counts as nearly all */
#define UNKNOWN_S 1e-3   /* the loading time of a sample, when none is known */
#define MOVE_S_MIN 0.002 /* hysteresis: the predicted lateness that a new deal must save, in seconds */
#define ROUNDING 1e-9
#define READS_LEAST 0.01 /* with fewer samples read for each one prepared, how fast they are read is not known */

enum { FULL = 8 }; /* windows in a row with nearly all threads at work, before anything is tried */

static uint32_t ranks_of(const struct governor *governor, uint32_t queue)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++)
        ranks += governor->queues[i].there && governor->queues[i].desc.job == governor->queues[queue].desc.job;
    return ranks;
}

/* demand gives the samples a second that a queue would take if nothing held it up. The ranks of a job go at the pace of
 * the slowest trainer. */
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

/* mean_load_s gives the loader time of one sample in the queues' mixture, and in parts what each source has of it; the
 * rest is the storage classes'. A queue whose training step is not known counts like the others. */
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
        parts[queue->desc.source] += each * queue->parts[0] * queue->sample_s[0];
    }
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX && seconds > 0; i++)
        parts[i] /= seconds;
    return demands > 0 ? seconds / demands : 0;
}

/* anyone_waits tells whether some queue has no batch ready. If all have one, nothing need be tried. */
static bool anyone_waits(const struct governor_backlog *backlogs, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= backlogs[i].ready_batches == 0;
    return any;
}

/* What the sources in use allow together. */
struct limit {
    double part;      /* what they have of the loading time */
    uint32_t most;    /* reads that they may have at once */
    double at_once;   /* reads that were under way there in the last window */
    uint32_t loaders; /* beyond which more bring nothing, those included that read from classes */
};

static struct limit limit_loaders(struct governor *governor, const double parts[GOVERNOR_SOURCES_MAX], bool waits)
{
    struct governor_decision *decision = &governor->decision;
    uint32_t all = governor->limits.workers + governor->limits.extra_loaders;
    struct limit limit = {.part = 0};
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        limit.at_once += parts[i] > 0 ? governor_source_at_once(&governor->sources[i]) : 0;
        limit.part += parts[i];
    }
    limit.part = limit.part > 1 - ROUNDING ? 1 : limit.part;
    double reading = limit.part > 0 ? limit.at_once / limit.part : 0; /* those that read from classes included */
    bool pressed = waits && governor->preparing >= decision->preparers * NEARLY_ALL;
    bool full = waits && governor->preparing + reading >= all * NEARLY_ALL;
    governor->pressed = pressed ? governor->pressed + 1 : 0;
    governor->full = full ? governor->full + 1 : 0;
    enum governor_need need = governor->full >= FULL ? NEED_LASTING : waits ? NEED_NOW : NEED_NONE;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        decision->source_most[i] = governor_source_decide(&governor->sources[i], all, need);
        limit.most += parts[i] > 0 ? decision->source_most[i] : 0;
    }
    limit.loaders = limit.most && limit.most < all ? governor_tiers_enough(limit.most, limit.part, all) : all;
    return limit;
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
    uint32_t all = balance.workers + balance.extra_loaders;
    struct limit limit = limit_loaders(governor, parts, anyone_waits(backlogs, n));
    balance.enough = limit.loaders < all ? limit.loaders : 0;
    if (balance.enough && limit.at_once > limit.most) /* with so many fewer reads there, each takes so much less time */
        balance.load_s = balance.load_s * (1 - limit.part) + balance.load_s * limit.part * (limit.most / limit.at_once);
    uint32_t probe;
    governor->settled = governor_preparers(&balance, governor->settled, GAIN, &probe);
    if (governor->pressed < FULL || tries_reads(governor)) /* only one thing is tried at a time */
        probe = 0;
    uint32_t preparers = probe ? probe : governor->settled;
    uint32_t most = probe ? preparers : governor_preparers_most(&balance, preparers);
    governor->steady = preparers == decision->preparers && most == decision->preparers_most;
    decision->moves += preparers != decision->preparers;
    decision->preparers = preparers;
    decision->preparers_most = most;
    decision->loaders = limit.loaders < all - preparers ? limit.loaders : all - preparers;
    decision->prepare_rate = governor_prepare_rate(&balance, preparers);
    /* In samples that are read. When next to none is, the old times say nothing of the next read. */
    bool reads = governor->loads_per_prepare >= READS_LEAST;
    decision->load_rate = reads ? governor_load_rate(&balance, decision->loaders) * governor->loads_per_prepare : 0;
}

/* usual_prepare_s gives the mean preparing time of a sample over the queues. 0: not known. */
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

/* pending_s gives the loading time of what waits for the queue: the sum over tiers of what comes from each at its rate.
 * A tier whose rate is not known counts as what the queue loads usually; if that is not known either, as a little time
 * that is equal for all queues. */
static double pending_s(const struct queue *queue, const struct governor_backlog *backlog)
{
    double samples[GOVERNOR_TIERS_MAX], source = backlog->pending_loads;
    for (uint32_t tier = 1; tier < GOVERNOR_TIERS_MAX; tier++) {
        samples[tier] = fmin(source, backlog->pending_tiers[tier]);
        source -= samples[tier];
    }
    samples[0] = source;
    return governor_tiers_seconds(samples, queue->sample_s, queue->load_s > 0 ? queue->load_s : UNKNOWN_S);
}

/* forecast predicts a queue's next batch. Training goes on while the batch comes: the current step, and the steps of
 * the batches that lie ready. */
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
    double each = backlog->pending_loads ? pending_s(queue, backlog) / backlog->pending_loads : 0;
    return (struct governor_forecast){.load_s = queue->load_s > 0 ? missing * each : 0,
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
        queue->pressure += (pending_s(queue, &backlogs[i]) - queue->pressure) * PRESSURE_NEW;
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
    /* As long as the old deal still suits the queues, moving threads to save a few milliseconds is not worth it. */
    bool keep = fits && kept == decision->loaders &&
                worst(forecasts, n, before) - worst(forecasts, n, dealt) < MOVE_S_MIN;
    for (size_t i = 0; i < n; i++) {
        uint32_t loaders = keep ? before[i] : dealt[i];
        struct queue *queue = &governor->queues[backlogs[i].queue];
        queue->skipped = loaders == 0 && backlogs[i].pending_reads ? queue->skipped + 1 : 0;
        decision->queue_loaders[backlogs[i].queue] = loaders;
        decision->ahead[backlogs[i].queue] = ahead(governor, &backlogs[i], loaders);
        decision->views[backlogs[i].queue] = (struct governor_view){
            .load_s = queue->load_s,
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
    governor_fold(governor);
    decide_split(governor, backlogs, n);
    decide_queues(governor, backlogs, n);
    governor->decided = true;
    return &governor->decision;
}
