/* balance_run.c: one run: timed events around the engine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "server/bench/balance_priv.h"
#include "server/bench/play.h"

enum { SLOT_BYTES = 64, ENCODED_BYTES = 1024, KEY_READ = 1, KEY_PREPARE = 2, KEY_BURST = 3 };
#define SPREAD(scenario_spread, unit) (1 + (scenario_spread) * (2 * (unit)-1))

struct rank {
    uint32_t job;
    uint32_t place, number; /* the engine's job, and which rank of it */
    struct line reads, prepares;
    uint32_t reading, preparing;
    uint64_t reads_begun;
    uint64_t batch; /* held */
    uint32_t ended; /* the last batch of its epoch came */
    uint64_t asked_ns, came_ns;
    bool came;
    double wait_s;
    struct rng burst;
    uint64_t burst_from_ns, burst_until_ns;
};

struct group {
    uint64_t iteration;
    uint32_t missing; /* ranks without their batch */
    bool done;
};

struct bench {
    const struct balance_scenario *scenario;
    enum balance_mode mode;
    struct play play;
    struct governor *governor;
    const struct governor_decision *decision;
    uint32_t loaders, preparers; /* fixed splits */
    struct balance_result *result;
    uint64_t order; /* of what waits */
    struct agenda agenda;
    struct rank ranks[BALANCE_QUEUES_MAX];
    struct group groups[BALANCE_QUEUES_MAX];
    uint32_t first_at[JOBS_MAX]; /* by the engine's place: the queue of its first rank */
    uint32_t adding, running;
    uint32_t reading, preparing;
};

static double seconds(uint64_t ns)
{
    return (double)ns / (double)CLOCK_NS_PER_S;
}

static uint64_t from_ms(double ms)
{
    return (uint64_t)(ms * (double)CLOCK_NS_PER_MS);
}

/* ── storage and processors ── */

static const struct balance_phase *phase(const struct bench *bench, uint64_t iteration)
{
    static const struct balance_phase usual = {.load = 1, .prepare = 1};
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

static bool in_burst(struct bench *bench, struct rank *rank, const struct balance_source *source)
{
    if (source->burst_factor <= 1)
        return false;
    while (bench->play.now_ns >= rank->burst_until_ns) { /* quiet times are uniform about their mean */
        double quiet = (source->burst_every_ms - source->burst_for_ms) * 2 * random_unit(&rank->burst);
        rank->burst_from_ns = rank->burst_until_ns + from_ms(quiet > 1 ? quiet : 1);
        rank->burst_until_ns = rank->burst_from_ns + from_ms(source->burst_for_ms);
    }
    return bench->play.now_ns >= rank->burst_from_ns;
}

static uint32_t reading_from(const struct bench *bench, uint32_t source)
{
    uint32_t reading = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++)
        reading += bench->scenario->source_of[i] == source ? bench->ranks[i].reading : 0;
    return reading;
}

static double read_ms(struct bench *bench, uint32_t queue, sample_id id)
{
    struct rank *rank = &bench->ranks[queue];
    uint32_t number = bench->scenario->source_of[queue];
    const struct balance_source *source = &bench->scenario->sources[number];
    struct rng rng;
    random_seed_keys(&rng, bench->scenario->seed, KEY_READ, queue, id);
    double ms =
        source->ms * SPREAD(source->spread, random_unit(&rng)) * phase(bench, bench->groups[rank->job].iteration)->load;
    if (in_burst(bench, rank, source))
        ms *= source->burst_factor;
    uint32_t at_once = reading_from(bench, number);
    if (!source->parallel || at_once <= source->parallel)
        return ms;
    double rate = (double)source->parallel - (at_once - (double)source->parallel) * source->loss;
    return ms * at_once / (rate > 0.5 ? rate : 0.5);
}

static double prepare_ms(const struct bench *bench, uint32_t queue, sample_id id)
{
    const struct balance_scenario *scenario = bench->scenario;
    struct rng rng;
    random_seed_keys(&rng, scenario->seed, KEY_PREPARE, queue, id);
    double ms = scenario->prepare_ms * SPREAD(scenario->prepare_spread, random_unit(&rng)) *
                phase(bench, bench->groups[bench->ranks[queue].job].iteration)->prepare;
    double over = (double)bench->preparing - (double)scenario->prepare_peak;
    if (over <= 0)
        return ms;
    double rate = (double)scenario->prepare_peak - over * scenario->prepare_loss;
    return ms * bench->preparing / (rate > 0.5 ? rate : 0.5);
}

/* ── threads ── */

static void start_read(struct bench *bench, uint32_t queue)
{
    struct rank *rank = &bench->ranks[queue];
    struct waiting row = line_take(&rank->reads);
    rank->reading++;
    rank->reads_begun++;
    bench->reading++;
    agenda_put(&bench->agenda, (struct timed){.at_ns = bench->play.now_ns + from_ms(read_ms(bench, queue, row.id)),
                                              .what = READ_DONE,
                                              .queue = queue,
                                              .busy = reading_from(bench, bench->scenario->source_of[queue]),
                                              .id = row.id,
                                              .began_ns = bench->play.now_ns});
}

static void start_prepare(struct bench *bench, uint32_t queue)
{
    struct rank *rank = &bench->ranks[queue];
    struct waiting row = line_take(&rank->prepares);
    rank->preparing++;
    bench->preparing++;
    agenda_put(&bench->agenda, (struct timed){.at_ns = bench->play.now_ns + from_ms(prepare_ms(bench, queue, row.id)),
                                              .what = PREPARE_DONE,
                                              .queue = queue,
                                              .task = row.task,
                                              .busy = bench->preparing,
                                              .began_ns = bench->play.now_ns});
}

static struct line *line_of(struct rank *rank, bool reads)
{
    return reads ? &rank->reads : &rank->prepares;
}

/* Gives a queue with work of this kind, BALANCE_QUEUES_MAX for none: the oldest work's. */
static uint32_t oldest(struct bench *bench, bool reads)
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

static uint32_t threads_of(const struct bench *bench, uint32_t job, bool reads)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint32_t threads = 0;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++)
        threads += reads ? bench->ranks[i].reading : bench->ranks[i].preparing;
    return threads;
}

static bool source_full(const struct bench *bench, uint32_t source)
{
    uint32_t known = source < GOVERNOR_SOURCES_MAX ? source : GOVERNOR_SOURCES_MAX - 1;
    return reading_from(bench, source) >= bench->decision->source_most[known];
}

/* The same, by the governor's rule. Ranks exchange what is prepared: of one job's the oldest goes first. */
static uint32_t governed(struct bench *bench, bool reads)
{
    struct governor_candidate candidates[BALANCE_QUEUES_MAX];
    uint32_t queues[BALANCE_QUEUES_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++) {
        struct rank *rank = &bench->ranks[i];
        const struct balance_job *job = &bench->scenario->jobs[rank->job];
        if (!line_of(rank, reads)->length || (reads && source_full(bench, bench->scenario->source_of[i])))
            continue;
        queues[n] = i;
        candidates[n++] = (struct governor_candidate){
            .job = rank->job,
            .job_part = (1.0 + threads_of(bench, rank->job, reads)) / job->weight,
            .share = reads ? bench->decision->queue_loaders[i] : job->weight / job->ranks,
            .busy = reads ? rank->reading : rank->preparing,
            .ahead = reads ? (double)rank->reads_begun / (double)job->batch - (double)bench->groups[rank->job].iteration
                           : (double)rank->prepares.rows[rank->prepares.head].order};
    }
    return n ? queues[governor_next_queue(candidates, n, bench->scenario->share)] : BALANCE_QUEUES_MAX;
}

static void start_even(struct bench *bench)
{
    uint32_t n = bench->scenario->n_queues;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t own = bench->loaders / n + (i < bench->loaders % n);
        while (bench->ranks[i].reads.length && bench->ranks[i].reading < own)
            start_read(bench, i);
    }
}

static void start_up_to(struct bench *bench, bool reads, uint32_t most)
{
    bool by_rule = bench->mode == BALANCE_AUTO;
    uint32_t threads = (uint32_t)(bench->scenario->workers + bench->scenario->extra_loaders);
    while ((reads ? bench->reading : bench->preparing) < most && bench->preparing + bench->reading < threads) {
        uint32_t queue = by_rule ? governed(bench, reads) : oldest(bench, reads);
        if (queue == BALANCE_QUEUES_MAX)
            break;
        if (reads)
            start_read(bench, queue);
        else
            start_prepare(bench, queue);
    }
}

/* By the governor's rule a thread without work of its kind takes the other. */
static void start_threads(struct bench *bench)
{
    bool by_rule = bench->mode == BALANCE_AUTO;
    start_up_to(bench, false, by_rule ? bench->decision->preparers : bench->preparers);
    if (bench->mode == BALANCE_EVEN || bench->mode == BALANCE_DEALT) {
        start_even(bench);
        return;
    }
    start_up_to(bench, true, by_rule ? bench->decision->loaders : bench->loaders);
    if (by_rule) {
        start_up_to(bench, false, bench->decision->preparers_most);
        start_up_to(bench, true, bench->decision->loaders_most);
    }
}

/* ── the engine ── */

static void iteration_begins(struct bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        const struct rank *rank = &bench->ranks[i];
        bench->result->stall_s += seconds(bench->play.now_ns - rank->asked_ns);
        first = rank->came_ns < first ? rank->came_ns : first;
        last = rank->came_ns > last ? rank->came_ns : last;
    }
    bench->result->iterations++;
    bench->result->imbalanced += last - first > from_ms(bench->scenario->tau_ms);
    agenda_put(&bench->agenda,
               (struct timed){.at_ns = bench->play.now_ns + from_ms(desc->step_ms), .what = STEP_DONE, .job = job});
}

static uint32_t queue_of(const struct bench *bench, const struct engine_action *action)
{
    CHECK(action->rank != ENGINE_RANK_NONE);
    return bench->first_at[action->job] + action->rank;
}

static void delivered(struct bench *bench, const struct engine_action *action)
{
    uint32_t queue = queue_of(bench, action);
    struct rank *rank = &bench->ranks[queue];
    CHECK(!rank->came);
    rank->came = true;
    rank->batch = action->deliver.batch;
    rank->came_ns = bench->play.now_ns;
    bench->result->wait_s[queue] += seconds(bench->play.now_ns - rank->asked_ns);
    if (--bench->groups[rank->job].missing == 0)
        iteration_begins(bench, rank->job);
}

/* Loads and preparations wait for threads, and batches for their iteration's end. */
static bool see(void *ctx, const struct engine_action *action)
{
    struct bench *bench = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        bench->ranks[bench->adding].place = action->job;
        bench->first_at[action->job] = bench->adding - action->rank;
        break;
    case ENGINE_LOAD:
        line_put(&bench->ranks[queue_of(bench, action)].reads,
                 (struct waiting){bench->order++, action->load.id, 0});
        break;
    case ENGINE_PREPARE:
        line_put(&bench->ranks[queue_of(bench, action)].prepares,
                 (struct waiting){bench->order++, action->prepare.id, action->prepare.task});
        break;
    case ENGINE_DELIVER:
        delivered(bench, action);
        break;
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
    case ENGINE_JOB_ENDED:
        break;
    default:
        CHECK(!"the scenario gives no reason for a refusal or an error");
    }
    return true;
}

static void ask(struct bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    bench->groups[job].missing = desc->ranks;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        struct rank *rank = &bench->ranks[i];
        rank->came = false;
        rank->asked_ns = bench->play.now_ns;
        play_push(&bench->play, (struct engine_event){.type = ENGINE_NEXT, .rank = rank->number, .next = {rank->place, 0, 1}});
    }
}

static void step_done(struct bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    struct group *group = &bench->groups[job];
    bool more = ++group->iteration < bench->scenario->iterations;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        struct rank *rank = &bench->ranks[i];
        play_push(&bench->play, (struct engine_event){
                        .type = ENGINE_RELEASE, .rank = rank->number, .release = {rank->place, rank->batch}});
        if (bench->governor)
            governor_trained(bench->governor, i, desc->step_ms / 1e3);
        if (!more)
            play_push(&bench->play, (struct engine_event){
                            .type = ENGINE_JOB_GONE, .rank = rank->number, .job_gone = {rank->place}});
        if (!more && bench->governor)
            governor_queue_end(bench->governor, i);
    }
    group->done = !more;
    bench->running -= !more;
    if (more)
        ask(bench, job);
}

/* ── decisions ── */

static void trace(struct bench *bench)
{
    struct balance_result *result = bench->result;
    const struct balance_trace *last = result->n_trace ? &result->trace[result->n_trace - 1] : NULL;
    struct balance_trace now = {.at_s = seconds(bench->play.now_ns), .preparers = bench->decision->preparers};
    memcpy(now.queue_loaders, bench->decision->queue_loaders, sizeof now.queue_loaders);
    if (result->n_trace < BALANCE_TRACE_MAX &&
        (!last || last->preparers != now.preparers ||
         memcmp(last->queue_loaders, now.queue_loaders, sizeof now.queue_loaders) != 0))
        result->trace[result->n_trace++] = now;
}

static void decide(struct bench *bench)
{
    struct governor_backlog backlogs[BALANCE_QUEUES_MAX];
    struct engine_queue_status rows[BALANCE_QUEUES_MAX];
    size_t n = 0;
    double held = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++) {
        const struct rank *rank = &bench->ranks[i];
        uint32_t pending = rank->reads.length + rank->reading;
        if (bench->groups[rank->job].done)
            continue;
        if (rank->number == 0)
            engine_queue_statuses(bench->play.engine, rank->place, bench->play.now_ns, rows, BALANCE_QUEUES_MAX);
        backlogs[n++] = (struct governor_backlog){.queue = i,
                                                  .batch_size = (uint32_t)bench->scenario->jobs[rank->job].batch,
                                                  .pending_loads = pending,
                                                  .pending_reads = pending,
                                                  .ready_batches = rows[rank->number].ready_batches};
        held += (double)rows[rank->number].held_slots;
    }
    bench->result->held += (held - bench->result->held) / (double)++bench->result->decisions;
    bench->decision = governor_decide(bench->governor, backlogs, n);
    trace(bench);
    agenda_put(&bench->agenda,
               (struct timed){.at_ns = bench->play.now_ns + from_ms(bench->scenario->decide_ms), .what = DECIDE});
}

static void happen(struct bench *bench, const struct timed *timed)
{
    double took = seconds(timed->at_ns - timed->began_ns);
    switch (timed->what) {
    case READ_DONE:
        bench->ranks[timed->queue].reading--;
        bench->reading--;
        if (bench->governor)
            governor_loaded(bench->governor, timed->queue, &(struct governor_read){took, 1, timed->busy});
        play_push(&bench->play, (struct engine_event){.type = ENGINE_LOADED, .loaded = {timed->id, bench, ENCODED_BYTES, 0}});
        break;
    case PREPARE_DONE:
        bench->ranks[timed->queue].preparing--;
        bench->preparing--;
        if (bench->governor)
            governor_prepared(bench->governor, timed->queue,
                              &(struct governor_preparation){0, timed->busy, ENCODED_BYTES, took});
        play_push(&bench->play, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = timed->task}});
        break;
    case STEP_DONE:
        step_done(bench, timed->job);
        break;
    case DECIDE:
        decide(bench);
        break;
    }
}

/* ── a run ── */

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return ENCODED_BYTES;
}

/* For each queue: so many that an epoch never ends in a run. */
uint64_t balance_samples(const struct balance_scenario *scenario)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct balance_job *job = &scenario->jobs[i];
        uint64_t samples = (scenario->iterations + job->prefetch + 2) * job->batch;
        most = samples > most ? samples : most;
    }
    return most;
}

/* A queue with samples of its own is a job of one rank; else it is one of the job's ranks, which draw from all of its. */
static void join(struct bench *bench, uint32_t job, uint32_t queue)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint64_t samples = balance_samples(bench->scenario);
    struct idset *view;
    uint32_t first = bench->mode == BALANCE_EVEN ? queue : desc->first_queue;
    uint32_t ranks = bench->mode == BALANCE_EVEN ? 1 : desc->ranks;
    char name[16] = {'q', (char)('0' + first / 10), (char)('0' + first % 10)};
    CHECK(idset_from_range((uint32_t)(first * samples), (uint32_t)((first + ranks) * samples), &view) == 0);
    struct engine_job_desc added = {.client = queue + 1,
                                    .name = name,
                                    .dataset = bench,
                                    .pipeline = 0,
                                    .slot_bytes = SLOT_BYTES,
                                    .batch_size = (uint32_t)desc->batch,
                                    .prefetch = (uint32_t)desc->prefetch,
                                    .epochs = 1,
                                    .shuffle = SHUFFLE_DEPENDENT,
                                    .seed = bench->scenario->seed + first,
                                    .view = view,
                                    .rank = queue - first,
                                    .world_size = ranks};
    struct rank *rank = &bench->ranks[queue];
    rank->job = job;
    rank->number = queue - first;
    random_seed_keys(&rank->burst, bench->scenario->seed, KEY_BURST, queue, 0);
    bench->adding = queue;
    play_push(&bench->play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &added});
    play_settle(&bench->play);
    idset_destroy(view);
    if (bench->governor)
        governor_queue_begin(bench->governor, queue,
                             &(struct governor_queue){job, bench->scenario->source_of[queue], desc->weight});
}

static void begin(struct bench *bench)
{
    const struct balance_scenario *scenario = bench->scenario;
    for (uint32_t job = 0; job < scenario->n_jobs; job++) {
        const struct balance_job *desc = &scenario->jobs[job];
        for (uint32_t rank = 0; rank < desc->ranks; rank++)
            join(bench, job, desc->first_queue + rank);
        bench->running++;
    }
    for (uint32_t job = 0; job < scenario->n_jobs; job++)
        ask(bench, job);
    play_settle(&bench->play);
    if (bench->governor)
        decide(bench);
    start_threads(bench);
}

static void end(struct bench *bench)
{
    play_end(&bench->play);
    governor_destroy(bench->governor);
    for (uint32_t i = 0; i < BALANCE_QUEUES_MAX; i++) {
        free(bench->ranks[i].reads.rows);
        free(bench->ranks[i].prepares.rows);
    }
    free(bench->agenda.rows);
    free(bench);
}

int balance_run(const struct balance_scenario *scenario, const struct balance_split *split,
                struct balance_result *out, struct error *err)
{
    struct bench *bench = xcalloc(1, sizeof *bench);
    *bench = (struct bench){.scenario = scenario,
                            .mode = split->mode,
                            .loaders = split->loaders,
                            .preparers = split->preparers,
                            .result = out};
    memset(out, 0, sizeof *out);
    uint64_t ahead = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++)
        ahead += scenario->jobs[i].ranks * (scenario->jobs[i].prefetch + 2) * scenario->jobs[i].batch;
    struct engine_config config = {.seed = scenario->seed,
                                   .arena_bytes = ahead * SLOT_BYTES,
                                   .encoded_bytes = ahead * ENCODED_BYTES * 2,
                                   .ahead_window_ns = from_ms(scenario->ahead_ms),
                                   .inflight_loads = (uint32_t)ahead,
                                   .inflight_prepares = (uint32_t)ahead,
                                   .sample_bytes = sample_bytes};
    int code = play_create(config, &bench->play, err);
    bench->play.see = see;
    bench->play.ctx = bench;
    if (!code && split->mode == BALANCE_AUTO) {
        struct governor_limits limits = {.workers = (uint32_t)scenario->workers,
                                         .extra_loaders = (uint32_t)scenario->extra_loaders,
                                         .tau_s = scenario->tau_ms / 1e3,
                                         .share = scenario->share};
        CHECK(governor_create(&limits, &bench->governor) == 0);
    }
    if (!code)
        begin(bench);
    while (!code && bench->running && bench->agenda.length && !out->gave_up) {
        struct timed timed = agenda_take(&bench->agenda);
        bench->play.now_ns = timed.at_ns;
        happen(bench, &timed);
        play_settle(&bench->play);
        start_threads(bench);
        out->gave_up = split->give_up_s > 0 && out->stall_s > split->give_up_s;
    }
    out->stuck = bench->running > 0 && !out->gave_up;
    out->time_s = seconds(bench->play.now_ns);
    end(bench);
    return code;
}
