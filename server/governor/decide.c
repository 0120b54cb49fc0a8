/* decide.c: decides by what was measured how many threads prepare, how many reads each source gets at once, and for
 * which queues. */
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
#define READS_LEAST 0.01 /* With fewer samples read for each prepared one, the reading rate counts as not known. */

enum { FULL = 8 }; /* windows in a row with nearly all threads at work, before anything is tried */

static uint32_t ranks_of(const struct governor *governor, uint32_t queue)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < GOVERNOR_QUEUES_MAX; i++)
        ranks += governor->queues[i].there && governor->queues[i].desc.job == governor->queues[queue].desc.job;
    return ranks;
}

/* demand returns the samples per second that a queue would take if nothing held it up. The ranks of a job go at the
 * pace of the slowest trainer. */
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

/* Time of reading, by the source of the queues that it is for. */
struct load_times {
    double all[GOVERNOR_SOURCES_MAX], own[GOVERNOR_SOURCES_MAX]; /* own: without what storage classes bring */
};

/* mean_load_s returns the time of reading of one sample in the queues' mixture, and in times what the queues of each
 * source have of it. A queue whose training step is not known counts like the others. */
static double mean_load_s(const struct governor *governor, const struct governor_backlog *backlogs, size_t n,
                          struct load_times *times)
{
    double demands = 0, seconds = 0;
    uint32_t known = 0;
    memset(times, 0, sizeof *times);
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
        times->all[queue->desc.source] += each * queue->load_s;
        times->own[queue->desc.source] += each * queue->parts[0] * queue->sample_s[0];
    }
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

/* source_needs says whether a source is worth a try: somebody waits, and it has long had all the reads that it may
 * have. */
static enum governor_need source_needs(struct governor *governor, uint32_t source, bool waits)
{
    double at_once = governor_source_at_once(&governor->sources[source]);
    bool full = waits && at_once >= governor->decision.source_most[source] * NEARLY_ALL;
    governor->full[source] = full ? governor->full[source] + 1 : 0;
    return governor->full[source] >= FULL ? NEED_LASTING : waits ? NEED_NOW : NEED_NONE;
}

/* decide_sources decides how many reads each source may have at once. `enough` is by source: the reads at once that
 * suffice for its queues, those of storage classes included. It returns the factor by which reading time shrinks if
 * fewer reads are under way. */
static double decide_sources(struct governor *governor, const struct load_times *times, bool waits,
                             uint32_t enough[GOVERNOR_SOURCES_MAX])
{
    struct governor_decision *decision = &governor->decision;
    uint32_t reads = governor->limits.reads;
    double before = 0, after = 0;
    decision->loaders = 0;
    for (uint32_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        double at_once = governor_source_at_once(&governor->sources[i]), all = times->all[i], own = times->own[i];
        uint32_t most = governor_source_decide(&governor->sources[i], reads, source_needs(governor, i, waits));
        decision->source_most[i] = most;
        enough[i] = own > 0 && own < all * (1 - ROUNDING) ? governor_tiers_enough(most, own / all, 2 * reads) : most;
        decision->loaders += all > 0 ? enough[i] : 0;
        before += all;
        after += all - own + (at_once > most ? own * most / at_once : own);
    }
    decision->loaders = decision->loaders ? decision->loaders : reads;
    return before > 0 ? after / before : 1;
}

static bool tries_reads(const struct governor *governor)
{
    bool tries = false;
    for (size_t i = 0; i < GOVERNOR_SOURCES_MAX; i++)
        tries |= governor->sources[i].trial != TRIAL_NONE;
    return tries;
}

static void decide_split(struct governor *governor, const struct governor_backlog *backlogs, size_t n,
                         uint32_t enough[GOVERNOR_SOURCES_MAX])
{
    struct governor_decision *decision = &governor->decision;
    struct governor_balance balance = {.workers = governor->limits.workers,
                                       .curves = governor->curves,
                                       .parts = governor->parts,
                                       .n_classes = governor->n_classes};
    struct load_times times;
    bool waits = anyone_waits(backlogs, n);
    bool pressed = waits && governor->preparing >= decision->preparers * NEARLY_ALL;
    governor->pressed = pressed ? governor->pressed + 1 : 0;
    balance.load_s = mean_load_s(governor, backlogs, n, &times) * governor->loads_per_prepare;
    balance.load_s *= decide_sources(governor, &times, waits, enough);
    balance.loaders = decision->loaders;
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
    decision->prepare_rate = governor_prepare_rate(&balance, preparers);
    /* In samples that are read. When next to none is, the old times say nothing of the next read. */
    bool reads = governor->loads_per_prepare >= READS_LEAST;
    decision->load_rate = reads ? governor_load_rate(&balance) * governor->loads_per_prepare : 0;
}

/* usual_prepare_s returns the mean preparing time of a sample over the queues. 0: not known. */
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

/* pending_s returns the loading time of the samples that wait for the queue: the sum over origins, each at its rate. An
 * origin whose rate is not known counts as the queue's usual one; if that is not known either, as a little time that is
 * equal for all queues. */
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

/* Means over all queues. */
struct usual {
    double prepare_s; /* preparing time of a sample; 0: not known */
    size_t queues;    /* queues that share the prepared samples */
};

/* forecast predicts a queue's next batch. Training goes on while the batch comes: the current step, and the steps of
 * the batches that lie ready. */
static struct governor_forecast forecast(const struct governor *governor, const struct governor_backlog *backlog,
                                         const struct usual *usual)
{
    const struct queue *queue = &governor->queues[backlog->queue];
    uint32_t missing = backlog->pending_loads < backlog->batch_size ? backlog->pending_loads : backlog->batch_size;
    double rate = governor->decision.prepare_rate / (double)usual->queues;
    double prepare = rate > 0 ? backlog->batch_size / rate : 0;
    if (queue->train_s <= 0)
        return (struct governor_forecast){0};
    if (queue->prepare_s > 0 && usual->prepare_s > 0)
        prepare *= queue->prepare_s / usual->prepare_s;
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

/* deal deals the reads at once of a source to its queues, whose backlogs these are. */
static void deal(struct governor *governor, const struct governor_backlog *backlogs, size_t n, uint32_t loaders,
                 const struct usual *usual)
{
    struct governor_claim claims[GOVERNOR_QUEUES_MAX];
    struct governor_forecast forecasts[GOVERNOR_QUEUES_MAX];
    uint32_t dealt[GOVERNOR_QUEUES_MAX], floor[GOVERNOR_QUEUES_MAX], before[GOVERNOR_QUEUES_MAX], kept = 0;
    struct governor_decision *decision = &governor->decision;
    bool fits = governor->decided;
    for (size_t i = 0; i < n; i++) {
        struct queue *queue = &governor->queues[backlogs[i].queue];
        queue->pressure += (pending_s(queue, &backlogs[i]) - queue->pressure) * PRESSURE_NEW;
        uint32_t reads = backlogs[i].pending_reads;
        claims[i] = (struct governor_claim){.pressure = queue->pressure * queue->desc.weight,
                                            .weight = queue->desc.weight / ranks_of(governor, backlogs[i].queue),
                                            .most = reads > loaders ? loaders : reads,
                                            .skipped = queue->skipped};
        forecasts[i] = forecast(governor, &backlogs[i], usual);
        before[i] = decision->queue_loaders[backlogs[i].queue];
        kept += before[i];
    }
    governor_deal(claims, n, loaders, governor->limits.share, dealt);
    governor_guaranteed(claims, n, loaders, governor->limits.share, floor);
    for (size_t i = 0; i < n; i++) {
        fits = fits && (before[i] > 0 || dealt[i] == 0);
    }
    governor_relieve(forecasts, n, governor->limits.tau_s, floor, dealt);
    /* As long as the old deal still suits the queues, moving reads to save a few milliseconds is not worth it. */
    bool keep = fits && kept == loaders && worst(forecasts, n, before) - worst(forecasts, n, dealt) < MOVE_S_MIN;
    for (size_t i = 0; i < n; i++) {
        uint32_t given = keep ? before[i] : dealt[i];
        struct queue *queue = &governor->queues[backlogs[i].queue];
        queue->skipped = given == 0 && backlogs[i].pending_reads ? queue->skipped + 1 : 0;
        decision->queue_loaders[backlogs[i].queue] = given;
        decision->ahead[backlogs[i].queue] = ahead(governor, &backlogs[i], given);
        decision->views[backlogs[i].queue] = (struct governor_view){
            .load_s = queue->load_s,
            .prepare_s = queue->prepare_s,
            .train_s = queue->train_s,
            .late_s = queue->train_s > 0 ? governor_late(&forecasts[i], given) : 0};
    }
}

static void decide_queues(struct governor *governor, const struct governor_backlog *backlogs, size_t n,
                          const uint32_t enough[GOVERNOR_SOURCES_MAX])
{
    struct governor_backlog of_source[GOVERNOR_QUEUES_MAX];
    bool dealt[GOVERNOR_SOURCES_MAX] = {false};
    const struct usual usual = {usual_prepare_s(governor, backlogs, n), n};
    for (size_t i = 0; i < n; i++) {
        uint32_t source = governor->queues[backlogs[i].queue].desc.source;
        size_t count = 0;
        for (size_t j = i; j < n && !dealt[source]; j++) {
            if (governor->queues[backlogs[j].queue].desc.source == source)
                of_source[count++] = backlogs[j];
        }
        if (count)
            deal(governor, of_source, count, enough[source], &usual);
        dealt[source] = true;
    }
}

const struct governor_decision *governor_decide(struct governor *governor, const struct governor_backlog *backlogs,
                                                size_t n)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    CHECK(n <= GOVERNOR_QUEUES_MAX);
    for (size_t i = 0; i < n; i++)
        CHECK(backlogs[i].queue < GOVERNOR_QUEUES_MAX && governor->queues[backlogs[i].queue].there);
    uint32_t enough[GOVERNOR_SOURCES_MAX];
    governor_fold(governor);
    decide_split(governor, backlogs, n, enough);
    decide_queues(governor, backlogs, n, enough);
    governor->decided = true;
    return &governor->decision;
}
