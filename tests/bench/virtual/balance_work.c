/* balance_work.c: what a read and a preparation cost, and which of those that wait a thread does next. */
#include <math.h>

#include "common/random.h"
#include "tests/bench/virtual/balance_priv.h"

#define NEVER 1e300
#define PIECE_MS 100 /* a read ends with the sample after so long, as the daemon's do (WORKER_PIECE_NS) */

enum { KEY_READ = 1, KEY_PREPARE = 2, KEY_CLASS = 4 };
#define SPREAD(scenario_spread, unit) (1 + (scenario_spread) * (2 * (unit)-1))

/* ── storage and processors ── */

static const struct balance_phase *phase(const struct balance_bench *bench, uint64_t iteration)
{
    static const struct balance_phase usual = {.load = 1, .prepare = 1, .class = 1};
    uint64_t all = 0;
    for (uint32_t i = 0; i < bench->scenario->n_phases; i++)
        all += bench->scenario->phases[i].iterations;
    if (!all)
        return &usual;
    const struct balance_phase *at = bench->scenario->phases;
    for (iteration %= all; iteration >= at->iterations; at++)
        iteration -= at->iterations;
    return at;
}

static bool in_burst(struct balance_bench *bench, struct rank *rank, const struct balance_source *source)
{
    if (source->burst_factor <= 1)
        return false;
    while (bench->play.now_ns >= rank->burst_until_ns) { /* quiet times are uniform about their mean */
        double quiet = (source->burst_every_ms - source->burst_for_ms) * 2 * random_unit(&rank->burst);
        rank->burst_from_ns = rank->burst_until_ns + balance_from_ms(quiet > 1 ? quiet : 1);
        rank->burst_until_ns = rank->burst_from_ns + balance_from_ms(source->burst_for_ms);
    }
    return bench->play.now_ns >= rank->burst_from_ns;
}

static uint32_t reading_from(const struct balance_bench *bench, uint32_t source)
{
    uint32_t reading = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++)
        reading += bench->scenario->source_of[i] == source ? bench->ranks[i].reading : 0;
    return reading;
}

/* from_source returns the reads under way that the source itself brings. */
static uint32_t from_source(const struct balance_bench *bench, uint32_t source)
{
    uint32_t reading = reading_from(bench, source);
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++)
        reading -= bench->scenario->source_of[i] == source ? bench->ranks[i].classed_reading : 0;
    return reading;
}

bool balance_classed(const struct balance_bench *bench, uint32_t queue, sample_id id)
{
    const struct balance_source *source = &bench->scenario->sources[bench->scenario->source_of[queue]];
    double part = source->class_part * phase(bench, bench->groups[bench->ranks[queue].job].iteration)->class;
    struct rng rng;
    random_seed_keys(&rng, bench->scenario->seed, KEY_CLASS, queue, id);
    return part > 0 && random_unit(&rng) < part;
}

/* sample_ms returns what one sample of a read takes. */
static double sample_ms(struct balance_bench *bench, uint32_t queue, sample_id id, bool classed)
{
    struct rank *rank = &bench->ranks[queue];
    uint32_t number = bench->scenario->source_of[queue];
    const struct balance_source *source = &bench->scenario->sources[number];
    struct rng rng;
    random_seed_keys(&rng, bench->scenario->seed, KEY_READ, queue, id);
    double spread = SPREAD(source->spread, random_unit(&rng));
    if (classed)
        return source->class_ms * spread;
    double ms = source->ms * spread * phase(bench, bench->groups[rank->job].iteration)->load;
    if (in_burst(bench, rank, source))
        ms *= source->burst_factor;
    uint32_t at_once = from_source(bench, number);
    if (!source->parallel || at_once <= source->parallel)
        return ms;
    double rate = (double)source->parallel - (at_once - (double)source->parallel) * source->loss;
    return ms * at_once / (rate > 0.5 ? rate : 0.5);
}

static double prepare_ms(const struct balance_bench *bench, uint32_t queue, sample_id id)
{
    const struct balance_preparing *preparing = &bench->scenario->preparing;
    struct rng rng;
    random_seed_keys(&rng, bench->scenario->seed, KEY_PREPARE, queue, id);
    double ms = preparing->ms * SPREAD(preparing->spread, random_unit(&rng)) *
                phase(bench, bench->groups[bench->ranks[queue].job].iteration)->prepare;
    double over = (double)bench->preparing - (double)preparing->peak;
    if (over <= 0)
        return ms;
    double rate = (double)preparing->peak - over * preparing->loss;
    return ms * bench->preparing / (rate > 0.5 ? rate : 0.5);
}

/* piece_ms returns what the first piece of a read takes, and fills how many samples it brings. */
static double piece_ms(struct balance_bench *bench, uint32_t queue, const struct waiting *row, uint32_t *samples)
{
    double ms = 0;
    for (*samples = 0; *samples < row->count && (ms < PIECE_MS || *samples == 0); ++*samples)
        ms += sample_ms(bench, queue, row->ids[*samples], row->classed);
    return ms;
}

/* stopped_ms returns how much longer a read takes because its source stops. NEVER: the source stops for ever. */
static double stopped_ms(const struct balance_bench *bench, uint32_t queue, double ms)
{
    const struct balance_source *source = &bench->scenario->sources[bench->scenario->source_of[queue]];
    double now_ms = (double)bench->play.now_ns / (double)CLOCK_NS_PER_MS;
    if (!source->stops || now_ms + ms <= source->stop_at_ms)
        return 0;
    if (source->stop_for_ms <= 0)
        return NEVER;
    double left = source->stop_at_ms + source->stop_for_ms - fmax(now_ms, source->stop_at_ms);
    return left > 0 ? left : 0;
}

/* ── threads ── */

static void start_read(struct balance_bench *bench, uint32_t queue)
{
    struct rank *rank = &bench->ranks[queue];
    struct waiting row = line_take(&rank->reads);
    uint32_t samples;
    rank->reading++;
    rank->classed_reading += row.classed;
    rank->begun += row.count;
    bench->reading++;
    double ms = piece_ms(bench, queue, &row, &samples), stopped = stopped_ms(bench, queue, ms);
    agenda_put(&bench->agenda,
               &(struct timed){.due.at_ns = stopped >= NEVER ? UINT64_MAX
                                                             : bench->play.now_ns + balance_from_ms(ms + stopped),
                               .what = READ_DONE,
                               .queue = queue,
                               .busy = bench->one_tier ? reading_from(bench, bench->scenario->source_of[queue])
                                                       : from_source(bench, bench->scenario->source_of[queue]),
                               .samples = samples,
                               .work = row,
                               .began_ns = bench->play.now_ns});
}

static void start_prepare(struct balance_bench *bench, uint32_t queue)
{
    struct rank *rank = &bench->ranks[queue];
    struct waiting row = line_take(&rank->prepares);
    rank->preparing++;
    bench->preparing++;
    agenda_put(&bench->agenda,
               &(struct timed){.due.at_ns = bench->play.now_ns + balance_from_ms(prepare_ms(bench, queue, row.id)),
                               .what = PREPARE_DONE,
                               .queue = queue,
                               .work = row,
                               .busy = bench->preparing,
                               .began_ns = bench->play.now_ns});
}

static struct line *line_of(struct rank *rank, bool reads)
{
    return reads ? &rank->reads : &rank->prepares;
}

/* oldest gives the queue with the oldest waiting work of this kind. BALANCE_QUEUES_MAX: no work waits. */
static uint32_t oldest(struct balance_bench *bench, bool reads)
{
    uint32_t best = BALANCE_QUEUES_MAX;
    uint64_t best_order = UINT64_MAX;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++) {
        const struct line *line = line_of(&bench->ranks[i], reads);
        if (line->length && line->rows[line->head].order < best_order) {
            best = i;
            best_order = line->rows[line->head].order;
        }
    }
    return best;
}

static uint32_t threads_of(const struct balance_bench *bench, uint32_t job, bool reads)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint32_t threads = 0;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++)
        threads += reads ? bench->ranks[i].reading : bench->ranks[i].preparing;
    return threads;
}

bool balance_source_full(const struct balance_bench *bench, uint32_t queue)
{
    const struct line *reads = &bench->ranks[queue].reads;
    uint32_t source = bench->scenario->source_of[queue];
    uint32_t known = source < GOVERNOR_SOURCES_MAX ? source : GOVERNOR_SOURCES_MAX - 1;
    if (bench->one_tier)
        return reading_from(bench, source) >= bench->decision->source_most[known];
    return !reads->rows[reads->head].classed && from_source(bench, source) >= bench->decision->source_most[known];
}

/* governed gives the queue that comes next by the governor's rule. Ranks exchange what is prepared, so the oldest
 * preparation of a job goes first. */
static uint32_t governed(struct balance_bench *bench, bool reads)
{
    struct governor_candidate candidates[BALANCE_QUEUES_MAX];
    uint32_t queues[BALANCE_QUEUES_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++) {
        struct rank *rank = &bench->ranks[i];
        const struct balance_job *job = &bench->scenario->jobs[rank->job];
        if (!line_of(rank, reads)->length || (reads && balance_source_full(bench, i)))
            continue;
        queues[n] = i;
        candidates[n++] = (struct governor_candidate){
            .job = rank->job,
            .job_part = (1.0 + threads_of(bench, rank->job, reads)) / job->weight,
            .share = reads ? bench->decision->queue_loaders[i] : job->weight / job->ranks,
            .busy = reads ? rank->reading : rank->preparing,
            .ahead = reads ? (double)rank->begun / (double)job->batch - (double)bench->groups[rank->job].iteration
                           : (double)rank->prepares.rows[rank->prepares.head].order};
    }
    return n ? queues[governor_next_queue(candidates, n, bench->scenario->share)] : BALANCE_QUEUES_MAX;
}

static void start_even(struct balance_bench *bench)
{
    uint32_t n = bench->scenario->n_queues;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t own = bench->loaders / n + (i < bench->loaders % n);
        while (bench->ranks[i].reads.length && bench->ranks[i].reading < own)
            start_read(bench, i);
    }
}

static void start_up_to(struct balance_bench *bench, bool reads, uint32_t most)
{
    bool by_rule = bench->mode == BALANCE_AUTO;
    while ((reads ? bench->reading : bench->preparing) < most) {
        uint32_t queue = by_rule ? governed(bench, reads) : oldest(bench, reads);
        if (queue == BALANCE_QUEUES_MAX)
            break;
        if (reads)
            start_read(bench, queue);
        else
            start_prepare(bench, queue);
    }
}

void balance_start_threads(struct balance_bench *bench)
{
    bool by_rule = bench->mode == BALANCE_AUTO;
    start_up_to(bench, false, by_rule ? bench->decision->preparers_most : bench->preparers);
    if (bench->mode == BALANCE_EVEN || bench->mode == BALANCE_DEALT)
        start_even(bench);
    else
        start_up_to(bench, true, by_rule ? UINT32_MAX : bench->loaders);
}
