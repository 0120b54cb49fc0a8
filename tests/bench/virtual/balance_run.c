/* balance_run.c: one run: timed events around the engine. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/balance_priv.h"

enum { SLOT_BYTES = 64, ENCODED_BYTES = 1024 };

/* ── the engine ── */

static void iteration_begins(struct balance_bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        const struct rank *rank = &bench->ranks[i];
        bench->result->stall_s += balance_seconds(bench->play.now_ns - rank->asked_ns);
        first = rank->came_ns < first ? rank->came_ns : first;
        last = rank->came_ns > last ? rank->came_ns : last;
    }
    bench->result->iterations++;
    bench->result->imbalanced += last - first > balance_from_ms(bench->scenario->tau_ms);
    agenda_put(&bench->agenda, &(struct timed){.due.at_ns = bench->play.now_ns + balance_from_ms(desc->step_ms),
                                               .what = STEP_DONE,
                                               .job = job});
}

static uint32_t queue_of(const struct balance_bench *bench, const struct engine_action *action)
{
    CHECK(action->rank != ENGINE_RANK_NONE);
    return bench->first_at[action->job] + action->rank;
}

static void delivered(struct balance_bench *bench, const struct engine_action *action)
{
    uint32_t queue = queue_of(bench, action);
    struct rank *rank = &bench->ranks[queue];
    CHECK(!rank->came);
    rank->came = true;
    rank->batch = action->deliver.batch;
    rank->came_ns = bench->play.now_ns;
    bench->result->wait_s[queue] += balance_seconds(bench->play.now_ns - rank->asked_ns);
    if (--bench->groups[rank->job].missing == 0)
        iteration_begins(bench, rank->job);
}

/* load adds a sample to the read that came last, or begins another one. Reads ahead are the first rank's. */
static void load(struct balance_bench *bench, const struct engine_action *action)
{
    uint32_t queue = bench->first_at[action->job] + (action->rank == ENGINE_RANK_NONE ? 0 : action->rank);
    struct rank *rank = &bench->ranks[queue];
    struct line *line = &rank->reads;
    struct waiting *last = line->length ? &line->rows[(line->head + line->length - 1) % line->cap] : NULL;
    uint32_t chunk = (uint32_t)bench->scenario->sources[bench->scenario->source_of[queue]].chunk;
    bool classed = balance_classed(bench, queue, action->load.id);
    rank->classed += classed;
    rank->samples++;
    if (!last || last->read != action->load.read || last->count == chunk) {
        line_put(line, (struct waiting){.order = bench->order++,
                                        .classed = classed,
                                        .ids = xcalloc(chunk, sizeof(sample_id)),
                                        .read = action->load.read});
        last = &line->rows[(line->head + line->length - 1) % line->cap];
    }
    last->ids[last->count++] = action->load.id;
}

/* Loads and preparations wait for threads, and batches for their iteration's end. */
static bool see(void *ctx, const struct engine_action *action)
{
    struct balance_bench *bench = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        bench->ranks[bench->adding].place = action->job;
        bench->first_at[action->job] = bench->adding - action->rank;
        break;
    case ENGINE_LOAD: load(bench, action); break;
    case ENGINE_PREPARE:
        line_put(&bench->ranks[queue_of(bench, action)].prepares,
                 (struct waiting){.order = bench->order++, .id = action->prepare.id, .task = action->prepare.task});
        break;
    case ENGINE_DELIVER: delivered(bench, action); break;
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
    case ENGINE_JOB_ENDED: break;
    default: CHECK(!"the scenario gives no reason for a refusal or an error");
    }
    return true;
}

static void ask(struct balance_bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    bench->groups[job].missing = desc->ranks;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        struct rank *rank = &bench->ranks[i];
        rank->came = false;
        rank->asked_ns = bench->play.now_ns;
        play_push(&bench->play,
                  (struct engine_event){.type = ENGINE_NEXT, .rank = rank->number, .next = {rank->place, 0, 1, 0}});
    }
}

static void step_done(struct balance_bench *bench, uint32_t job)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    struct group *group = &bench->groups[job];
    bool more = ++group->iteration < bench->scenario->iterations;
    for (uint32_t i = desc->first_queue; i < desc->first_queue + desc->ranks; i++) {
        struct rank *rank = &bench->ranks[i];
        play_push(
            &bench->play,
            (struct engine_event){.type = ENGINE_RELEASE, .rank = rank->number, .release = {rank->place, rank->batch}});
        if (bench->governor)
            governor_trained(bench->governor, i, desc->step_ms / 1e3);
        if (!more)
            play_push(
                &bench->play,
                (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank->number, .job_gone = {.job = rank->place}});
        if (!more && bench->governor)
            governor_queue_end(bench->governor, i);
    }
    group->done = !more;
    bench->running -= !more;
    if (!more && job == 0)
        bench->result->first_s = balance_seconds(bench->play.now_ns);
    if (more)
        ask(bench, job);
}

/* ── decisions ── */

static void trace(struct balance_bench *bench)
{
    struct balance_result *result = bench->result;
    const struct balance_trace *last = result->n_trace ? &result->trace[result->n_trace - 1] : NULL;
    struct balance_trace now = {.at_s = balance_seconds(bench->play.now_ns), .preparers = bench->decision->preparers};
    memcpy(now.queue_loaders, bench->decision->queue_loaders, sizeof now.queue_loaders);
    if (result->n_trace < BALANCE_TRACE_MAX &&
        (!last || last->preparers != now.preparers ||
         memcmp(last->queue_loaders, now.queue_loaders, sizeof now.queue_loaders) != 0))
        result->trace[result->n_trace++] = now;
}

static void decide(struct balance_bench *bench)
{
    struct governor_backlog backlogs[BALANCE_QUEUES_MAX];
    struct engine_queue_status rows[BALANCE_QUEUES_MAX];
    size_t n = 0;
    double held = 0;
    for (uint32_t i = 0; i < bench->scenario->n_queues; i++) {
        const struct rank *rank = &bench->ranks[i];
        if (bench->groups[rank->job].done || !rank->there)
            continue;
        if (rank->number == 0)
            engine_queue_statuses(bench->play.engine, rank->place, bench->play.now_ns, rows, BALANCE_QUEUES_MAX);
        backlogs[n++] = (struct governor_backlog){.queue = i,
                                                  .batch_size = (uint32_t)bench->scenario->jobs[rank->job].batch,
                                                  .pending_loads = rank->samples,
                                                  .pending_reads = rank->reads.length + rank->reading,
                                                  .ready_batches = rows[rank->number].delivery.ready_batches,
                                                  .pending_tiers[1] = bench->one_tier ? 0 : rank->classed};
        held += (double)rows[rank->number].delivery.held_slots;
    }
    bench->result->held += (held - bench->result->held) / (double)++bench->result->decisions;
    bench->decision = governor_decide(bench->governor, backlogs, n);
    trace(bench);
    agenda_put(&bench->agenda,
               &(struct timed){.due.at_ns = bench->play.now_ns + balance_from_ms(bench->scenario->decide_ms),
                               .what = DECIDE});
}

/* put_rest makes what is left of a read the next of its queue. If the source may have more reads at once, and none
 * waits, it becomes two reads. */
static void put_rest(struct balance_bench *bench, uint32_t queue, struct waiting row)
{
    struct line *reads = &bench->ranks[queue].reads;
    bool alone = reads->length == 0;
    line_put_first(reads, row);
    if (!alone || row.count == 1 || row.classed || bench->mode != BALANCE_AUTO || balance_source_full(bench, queue))
        return;
    struct waiting first = line_take(reads), second = row;
    second.ids = xcalloc(row.count / 2, sizeof *second.ids);
    first.count = second.count = 0;
    for (uint32_t i = 0; i < row.count; i++) {
        struct waiting *to = i % 2 ? &second : &first;
        to->ids[to->count++] = row.ids[i];
    }
    line_put_first(reads, second);
    line_put_first(reads, first);
}

/* read_done takes a piece of a read. What is left is the next of its queue. */
static void read_done(struct balance_bench *bench, const struct timed *timed)
{
    struct rank *rank = &bench->ranks[timed->queue];
    struct waiting row = timed->work;
    rank->reading--;
    rank->classed -= row.classed;
    rank->classed_reading -= row.classed;
    rank->samples -= timed->samples;
    bench->reading--;
    if (bench->governor)
        governor_loaded(bench->governor, timed->queue,
                        &(struct governor_read){balance_seconds(timed->due.at_ns - timed->began_ns), timed->samples,
                                                timed->busy, row.classed && !bench->one_tier});
    for (uint32_t i = 0; i < timed->samples; i++)
        play_push(&bench->play,
                  (struct engine_event){.type = ENGINE_LOADED,
                                        .loaded = {.id = row.ids[i], .encoded = bench, .bytes = ENCODED_BYTES}});
    row.count -= timed->samples;
    memmove(row.ids, row.ids + timed->samples, row.count * sizeof *row.ids);
    rank->begun -= row.count;
    if (row.count)
        put_rest(bench, timed->queue, row);
    else
        free(row.ids);
}

static void happen(struct balance_bench *bench, const struct timed *timed)
{
    double took = balance_seconds(timed->due.at_ns - timed->began_ns);
    switch (timed->what) {
    case READ_DONE: read_done(bench, timed); break;
    case PREPARE_DONE:
        bench->ranks[timed->queue].preparing--;
        bench->preparing--;
        if (bench->governor)
            governor_prepared(bench->governor, timed->queue,
                              &(struct governor_preparation){0, timed->busy, ENCODED_BYTES, took});
        play_push(&bench->play, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = timed->work.task}});
        break;
    case STEP_DONE: step_done(bench, timed->job); break;
    case DECIDE: decide(bench); break;
    }
}

/* ── a run ── */

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return ENCODED_BYTES;
}

/* balance_samples returns each queue so many samples that an epoch never ends in a run. */
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

/* places_of returns the places of samples that lie in chunks in the order of their ids; malloc'ed, the caller's. */
static struct chunk_slot *places_of(uint64_t samples, uint32_t chunk)
{
    struct chunk_slot *places = xcalloc(samples, sizeof *places);
    for (uint64_t i = 0; i < samples; i++)
        places[i] = (struct chunk_slot){(uint32_t)(i / chunk), (uint32_t)(i % chunk)};
    return places;
}

/* join adds a queue to the engine. A queue with samples of its own is a job of one rank. Otherwise it is one of the
 * job's ranks, which draw from all samples of the job. */
static void join(struct balance_bench *bench, uint32_t job, uint32_t queue)
{
    const struct balance_job *desc = &bench->scenario->jobs[job];
    uint64_t samples = balance_samples(bench->scenario);
    struct idset *view;
    struct chunk_slot *places = NULL;
    uint32_t first = bench->mode == BALANCE_EVEN ? queue : desc->first_queue;
    uint32_t ranks = bench->mode == BALANCE_EVEN ? 1 : desc->ranks;
    char name[16] = {'q', (char)('0' + first / 10), (char)('0' + first % 10)};
    CHECK(idset_from_range((uint32_t)(first * samples), (uint32_t)((first + ranks) * samples), &view) == 0);
    uint32_t chunk = (uint32_t)bench->scenario->sources[bench->scenario->source_of[queue]].chunk;
    if (chunk > 1)
        places = places_of(samples * ranks, chunk);
    struct engine_job_desc added = {
        .client = queue + 1,
        .name = name,
        .dataset = &bench->ranks[first], /* each job has its own */
        .pipeline = 0,
        .slot_bytes = SLOT_BYTES,
        .batch_size = (uint32_t)desc->batch,
        .prefetch = (uint32_t)desc->prefetch,
        .epochs = 1,
        .sampled = {.shuffle = SHUFFLE_DEPENDENT, .seed = bench->scenario->seed + first, .view = view},
        .chunks = {.places = places,
                   .key = {first + 1},
                   .count = (uint32_t)((samples * ranks + chunk - 1) / chunk),
                   .samples = chunk},
        .rank = queue - first,
        .world_size = ranks};
    if (!places)
        added.chunks = (struct engine_chunks){.places = NULL};
    struct rank *rank = &bench->ranks[queue];
    rank->there = true;
    rank->job = job;
    rank->number = queue - first;
    random_seed_keys(&rank->burst, bench->scenario->seed, BALANCE_KEY_BURST, queue, 0);
    bench->adding = queue;
    play_push(&bench->play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &added});
    play_settle(&bench->play);
    idset_destroy(view);
    free(places);
    if (bench->governor)
        governor_queue_begin(bench->governor, queue,
                             &(struct governor_queue){job, bench->scenario->source_of[queue], desc->weight});
}

static void begin(struct balance_bench *bench)
{
    const struct balance_scenario *scenario = bench->scenario;
    for (uint32_t job = 0; job < bench->n_jobs; job++) {
        const struct balance_job *desc = &scenario->jobs[job];
        for (uint32_t rank = 0; rank < desc->ranks; rank++)
            join(bench, job, desc->first_queue + rank);
        bench->running++;
    }
    for (uint32_t job = 0; job < bench->n_jobs; job++)
        ask(bench, job);
    play_settle(&bench->play);
    if (bench->governor)
        decide(bench);
    balance_start_threads(bench);
}

static void end(struct balance_bench *bench)
{
    play_end(&bench->play);
    governor_destroy(bench->governor);
    for (struct timed timed; bench->agenda.length;) {
        agenda_take(&bench->agenda, &timed);
        free(timed.work.ids);
    }
    for (uint32_t i = 0; i < BALANCE_QUEUES_MAX; i++) {
        while (bench->ranks[i].reads.length)
            free(line_take(&bench->ranks[i].reads).ids);
        free(bench->ranks[i].reads.rows);
        free(bench->ranks[i].prepares.rows);
    }
    agenda_free(&bench->agenda);
    free(bench);
}

/* loads_inflight returns how many samples of chunks may be out as LOAD at once, as in the daemon; 0: there are no
 * chunks. */
static uint64_t loads_inflight(const struct balance_scenario *scenario)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < scenario->n_queues; i++) {
        uint64_t chunk = scenario->sources[scenario->source_of[i]].chunk;
        most = chunk > most ? chunk : most;
    }
    return most > 1 ? (scenario->workers + scenario->extra_loaders) * most * 4 : 0;
}

/* is_over tells whether all jobs have ended, or the one that matters. */
static bool is_over(const struct balance_bench *bench)
{
    return bench->running == 0 || (bench->scenario->expect.beside > 0 && bench->groups[0].done);
}

int balance_run(const struct balance_scenario *scenario, const struct balance_split *split, struct balance_result *out,
                struct error *err)
{
    struct balance_bench *bench = xcalloc(1, sizeof *bench);
    *bench = (struct balance_bench){.scenario = scenario,
                                    .mode = split->mode,
                                    .one_tier = split->one_tier,
                                    .n_jobs = split->alone ? 1 : scenario->n_jobs,
                                    .loaders = split->loaders,
                                    .preparers = split->preparers,
                                    .agenda = {.row_bytes = sizeof(struct timed)},
                                    .result = out};
    memset(out, 0, sizeof *out);
    uint64_t ahead = 0, inflight = loads_inflight(scenario);
    for (uint32_t i = 0; i < scenario->n_jobs; i++)
        ahead += scenario->jobs[i].ranks * (scenario->jobs[i].prefetch + 2) * scenario->jobs[i].batch;
    struct engine_config config = {.seed = scenario->seed,
                                   .arena_bytes = ahead * SLOT_BYTES,
                                   .encoded_bytes = ahead * ENCODED_BYTES * 2,
                                   .ahead_window_ns = balance_from_ms(scenario->ahead_ms),
                                   .inflight_loads = (uint32_t)(inflight ? inflight : ahead),
                                   .inflight_prepares = (uint32_t)ahead,
                                   .redirect_width = inflight ? ENGINE_REDIRECT_HALF : 0,
                                   .sample_bytes = sample_bytes};
    int code = play_create(config, &bench->play, err);
    bench->play.see = see;
    bench->play.ctx = bench;
    if (!code && split->mode == BALANCE_AUTO) {
        struct governor_limits limits = {.workers = (uint32_t)scenario->workers,
                                         .reads = (uint32_t)(scenario->workers + scenario->extra_loaders),
                                         .tau_s = scenario->tau_ms / 1e3,
                                         .share = scenario->share};
        CHECK(governor_create(&limits, &bench->governor) == 0);
    }
    if (!code)
        begin(bench);
    while (!code && !is_over(bench) && agenda_next_ns(&bench->agenda) < UINT64_MAX && !out->gave_up) {
        struct timed timed;
        agenda_take(&bench->agenda, &timed);
        bench->play.now_ns = timed.due.at_ns;
        happen(bench, &timed);
        play_settle(&bench->play);
        balance_start_threads(bench);
        out->gave_up = split->give_up_s > 0 && out->stall_s > split->give_up_s;
    }
    out->stuck = !is_over(bench) && !out->gave_up;
    out->time_s = balance_seconds(bench->play.now_ns);
    end(bench);
    return code;
}
