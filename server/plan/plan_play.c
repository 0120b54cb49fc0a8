/* plan_play.c: one run of `larder plan` in virtual time: threads as the pool has them, reads and preparations that take
 * as long as was measured, and clients that train.
 *
 * Reads wait in one line and preparations in another. A loader only reads; a worker reads when it has nothing to
 * prepare. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/config/config.h"
#include "server/plan/plan_priv.h"

enum { TASKS_PER_THREAD = 2, CHUNK_SAMPLES = 64, READS_SHARES = 2, PLAYED_BATCH_MIN = 8, RUNS_LEAST = 8 };

/* Runs are enough when the standard error of their mean stall is so small a part of it, or of the jobs' time. */
#define CERTAIN_STALL 0.03
#define CERTAIN_TIME 0.001

#define AHEAD_WINDOW_NS (UINT64_C(30) * CLOCK_NS_PER_S)

_Static_assert(PLAN_BATCH_MAX == ENGINE_BATCH_MAX && PLAN_PREFETCH_MAX == ENGINE_PREFETCH_MAX &&
                   PLAN_WIDTH_HALF == ENGINE_REDIRECT_HALF,
               "a plan says what the engine takes");

/* ── preparations ── */

static void start_prepare(struct plan_run *run)
{
    const struct plan_forms *forms = &run->plan->forms;
    const struct plan_task *task = &run->tasks.all[run->tasks.begun];
    double part = task->of_form ? forms->of_form : task->form_bytes ? forms->making : 1;
    plan_part_now(run)->work += part * task->outputs;
    station_begin(&run->preparers, run->play.now_ns, run->tasks.begun++, part * task->outputs);
}

/* end_prepare ends the preparation that is over next. */
static void end_prepare(struct plan_run *run)
{
    static char form; /* the handle of every form: the engine never looks at it */
    const struct plan_task *task = &run->tasks.all[station_end(&run->preparers)];
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.task = task->number}};
    if (task->form_bytes) {
        event.prepared.decoded_bytes = (uint64_t)(run->plan->forms.ratio * (double)run->plan->sizes[task->id]) + 1;
        event.prepared.decoded = event.prepared.decoded_bytes <= task->form_bytes ? &form : NULL;
    }
    play_push(&run->play, event);
}

static void see_prepare(struct plan_run *run, const struct engine_action *action)
{
    struct plan_tasks *tasks = &run->tasks;
    tasks->all = xgrow(tasks->all, sizeof *tasks->all, &tasks->cap, tasks->count + 1);
    tasks->all[tasks->count++] = (struct plan_task){.number = action->prepare.task,
                                                    .outputs = action->prepare.n_outputs,
                                                    .id = action->prepare.id,
                                                    .of_form = action->prepare.decoded,
                                                    .form_bytes = action->prepare.form_bytes};
    plan_part_now(run)->decoded += run->plan->slot_bytes > 0 && !action->prepare.decoded;
    plan_part_now(run)->from_decoded += action->prepare.decoded;
    plan_part_now(run)->prepared += action->prepare.n_outputs;
}

static void start_threads(struct plan_run *run)
{
    const struct plan_case *plan = run->plan;
    while (run->tasks.begun < run->tasks.count && run->preparers.count < plan->workers)
        start_prepare(run);
    while (run->reads.begun < run->reads.count && run->reading < plan->workers + plan->loaders)
        plan_read_start(run);
}

/* ── clients ── */

static void ask(struct plan_run *run, const struct plan_job *job, uint32_t epoch, uint32_t credits)
{
    play_push(&run->play, (struct engine_event){.type = ENGINE_NEXT, .next = {job->place, epoch, credits, 0}});
}

/* A client copies its batch, gives it back at once, and asks for the next. */
static void take(struct plan_run *run, struct plan_job *job)
{
    struct plan_batch batch = job->came[job->head];
    struct plan_part *part = plan_part_now(run);
    job->head = (job->head + 1) % PLAN_CAME_MAX;
    job->n_came--;
    job->training = true;
    job->last = batch.last;
    job->had += batch.count;
    part->stall_s += plan_to_s(run->play.now_ns - job->idle_ns);
    part->train_s += batch.count ? run->step_s : 0;
    part->delivered += batch.count;
    play_push(&run->play,
              (struct engine_event){.type = ENGINE_RELEASE, .release = {.job = job->place, .batch = batch.number}});
    if (!batch.last)
        ask(run, job, job->epoch, 1);
    else if (job->epoch + 1 < run->plan->epochs)
        ask(run, job, job->epoch + 1, job->credits);
    agenda_put(&run->agenda,
               &(struct plan_timed){.due.at_ns = run->play.now_ns +
                                                 (batch.count ? (uint64_t)(run->step_s * (double)CLOCK_NS_PER_S) : 0),
                                    .job = (uint32_t)(job - run->jobs)});
}

static void see_deliver(struct plan_run *run, const struct engine_action *action)
{
    struct plan_job *job = run->at[action->job];
    CHECK(job->n_came < PLAN_CAME_MAX);
    job->came[(job->head + job->n_came++) % PLAN_CAME_MAX] = (struct plan_batch){
        action->deliver.batch, action->deliver.count, action->deliver.last};
    if (!job->training)
        take(run, job);
}

static void epoch_over(struct plan_run *run, struct plan_job *job)
{
    if (job == run->jobs) {
        struct plan_part *part = job->epoch == 0 ? &run->row->first : &run->row->later;
        part->took_s += plan_to_s(run->play.now_ns - job->epoch_ns);
        part->epochs++;
    }
    job->epoch_ns = run->play.now_ns;
    if (++job->epoch < run->plan->epochs)
        return;
    job->done = true;
    run->running--;
    play_push(&run->play, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {job->place}});
}

static void step_over(struct plan_run *run, struct plan_job *job)
{
    job->training = false;
    job->idle_ns = run->play.now_ns;
    if (job->last)
        epoch_over(run, job);
    if (!job->done && job->n_came)
        take(run, job);
}

static void see_added(struct plan_run *run, const struct engine_action *action)
{
    struct plan_job *job = run->adding;
    job->place = action->job;
    job->credits = run->plan->prefetch < action->job_added.held_max ? run->plan->prefetch : action->job_added.held_max;
    run->at[action->job] = job;
    run->running++;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct plan_run *run = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED: see_added(run, action); break;
    case ENGINE_LOAD: plan_see_load(run, action); break;
    case ENGINE_PREPARE: see_prepare(run, action); break;
    case ENGINE_DELIVER: see_deliver(run, action); break;
    case ENGINE_RESERVE: return false; /* the memory comes at once */
    default: break;
    }
    return true;
}

/* ── a run ── */

static uint64_t slot_bytes(const struct plan_run *run)
{
    return run->plan->slot_bytes ? run->plan->slot_bytes : run->longest_bytes;
}

static void join(struct plan_run *run)
{
    const struct plan_case *plan = run->plan;
    char name[16];
    uint32_t number = run->joined++;
    snprintf(name, sizeof name, "job-%u", number);
    struct engine_job_desc desc = {
        .client = number + 1,
        .name = name,
        .dataset = run,
        .slot_bytes = slot_bytes(run),
        .repeatable = plan->repeatable,
        .raw = plan->slot_bytes == 0,
        .needs_encoded = plan->forms.ratio == 0,
        .batch_size = run->batch,
        .prefetch = plan->prefetch,
        .epochs = plan->epochs,
        .sampled = {.shuffle = plan->shuffle, .seed = plan->seed + number, .view = run->view},
        .chunks = {
            .places = run->places, .count = (plan->played + plan->chunk - 1) / plan->chunk, .samples = plan->chunk}};
    run->adding = &run->jobs[number];
    play_push(&run->play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    play_settle(&run->play);
}

static void begin_training(struct plan_run *run, struct plan_job *job)
{
    job->idle_ns = job->epoch_ns = run->play.now_ns;
    ask(run, job, 0, job->credits);
    play_settle(&run->play);
}

/* The next job joins when the first has received enough, or has ended. Jobs that begin together have all joined before
 * one of them asks, so none looks ahead with memory that another gets. They ask one after the other: two programs
 * hardly ask within one step of the engine. */
static void join_due(struct plan_run *run)
{
    uint32_t before = run->joined;
    while (run->joined < run->plan->jobs && !run->play.refused &&
           ((double)run->jobs[0].had >= run->joined * run->plan->apart * run->plan->played - 1e-9 || run->jobs[0].done))
        join(run);
    for (uint32_t i = before; i < run->joined && !run->play.refused; i++)
        begin_training(run, &run->jobs[i]);
}

/* happen_next takes what comes next in virtual time. False: nothing comes any more. */
static bool happen_next(struct plan_run *run)
{
    struct plan_timed timed;
    uint64_t prepared_ns = station_next_ns(&run->preparers), class_ns = station_next_ns(&run->class),
             source_ns = station_next_ns(&run->source), now_ns = agenda_next_ns(&run->agenda);
    now_ns = prepared_ns < now_ns ? prepared_ns : now_ns;
    now_ns = class_ns < now_ns ? class_ns : now_ns;
    now_ns = source_ns < now_ns ? source_ns : now_ns;
    if (now_ns == UINT64_MAX)
        return false;
    run->play.now_ns = now_ns;
    if (prepared_ns == now_ns) {
        end_prepare(run);
    } else if (class_ns == now_ns) {
        plan_class_read(run, station_end(&run->class));
    } else if (source_ns == now_ns) {
        plan_source_read(run, station_end(&run->source));
    } else {
        agenda_take(&run->agenda, &timed);
        step_over(run, &run->jobs[timed.job]);
    }
    return true;
}

static int drive(struct plan_run *run, struct error *err)
{
    join_due(run);
    start_threads(run);
    while (!run->play.refused && !run->play.failed && happen_next(run)) {
        play_settle(&run->play);
        join_due(run);
        start_threads(run);
    }
    if (run->play.refused || run->play.failed)
        return error_set(err, run->play.refused ? run->play.refused : run->play.failed, "%s", run->play.text);
    return run->running ? error_set(err, LARDER_ELIMIT, "jobs stand still with so little memory") : 0;
}

/* ── its memory ── */

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    const struct plan_run *run = dataset;
    return run->plan->sizes[id];
}

/* All memory is smaller by as much as fewer samples are played, but for what the jobs cannot do without. */
static struct engine_config engine_of(const struct plan_run *run, const struct plan_setting *setting)
{
    const struct plan_case *plan = run->plan;
    double part = (double)plan->played / plan->samples;
    uint64_t rows = (uint64_t)plan->jobs * run->batch * ENGINE_ROWS_MIN, arena, encoded;
    uint64_t slot = engine_slot_bytes(&(struct engine_config){.slot_least = 0}, slot_bytes(run));
    arena = (uint64_t)((double)setting->arena_bytes * part);
    encoded = (uint64_t)((double)setting->encoded_bytes * part);
    if (part < 1 && arena < rows * slot_bytes(run) * 2)
        arena = rows * slot_bytes(run) * 2;
    if (part < 1 && encoded < rows * run->longest_bytes * 2)
        encoded = rows * run->longest_bytes * 2;
    return (struct engine_config){.seed = plan->seed,
                                  .arena_bytes = arena,
                                  .reserve_bytes = setting->moves ? slot : 0,
                                  .lent_bytes = setting->moves ? arena : 0,
                                  .job_quota_bytes = (uint64_t)((double)arena * plan->quota_share),
                                  .encoded_bytes = encoded,
                                  .instance_bytes = ENGINE_INSTANCE_BYTES,
                                  .slot_least = engine_slot_least(arena, encoded),
                                  .inflight_loads = (plan->workers + plan->loaders) * TASKS_PER_THREAD * CHUNK_SAMPLES *
                                                    READS_SHARES,
                                  .inflight_prepares = plan->workers * TASKS_PER_THREAD,
                                  .decoded = plan->forms.ratio > 0,
                                  .redirect_width = plan->redirect_width,
                                  .ahead_window_ns = AHEAD_WINDOW_NS,
                                  .sample_bytes = sample_bytes};
}

static void make_run(struct plan_run *run, const struct plan_setting *setting)
{
    const struct plan_case *plan = run->plan;
    double part = (double)plan->played / plan->samples;
    run->batch = (uint32_t)lround(part * plan->batch);
    run->batch = run->batch < PLAYED_BATCH_MIN ? PLAYED_BATCH_MIN : run->batch;
    run->batch = run->batch > plan->batch ? plan->batch : run->batch;
    run->step_s = plan->step_s * run->batch / plan->batch;
    run->class_room = plan->class.count ? (uint64_t)((double)setting->class_bytes * part) : 0;
    run->behind.room = (double)config_behind_bytes(setting->encoded_bytes);
    run->source.curve = &plan->source;
    run->class.curve = &plan->class;
    run->preparers.curve = &plan->preparing;
    run->agenda.row_bytes = sizeof(struct plan_timed);
    run->in_class = xcalloc(plan->played, sizeof *run->in_class);
    run->places = xcalloc(plan->played, sizeof *run->places);
    for (uint32_t i = 0; i < plan->played; i++) {
        run->places[i] = (struct chunk_slot){i / plan->chunk, i % plan->chunk};
        run->longest_bytes = plan->sizes[i] > run->longest_bytes ? plan->sizes[i] : run->longest_bytes;
        run->mean_bytes += (double)plan->sizes[i] / plan->played;
    }
    CHECK(idset_from_range(0, plan->played, &run->view) == 0);
}

static void end(struct plan_run *run)
{
    for (uint32_t i = 0; i < run->reads.count; i++)
        free(run->reads.all[i].ids);
    free(run->reads.all);
    free(run->tasks.all);
    free(run->in_class);
    free(run->places);
    idset_destroy(run->view);
    agenda_free(&run->agenda);
    station_free(&run->source);
    station_free(&run->class);
    station_free(&run->preparers);
    free(run);
}

static int play_once(const struct plan_case *plan, const struct plan_setting *setting, struct plan_row *row,
                     struct error *err)
{
    struct plan_run *run = xcalloc(1, sizeof *run);
    run->plan = plan;
    run->row = row;
    make_run(run, setting);
    int code = play_create(engine_of(run, setting), &run->play, err);
    if (!code) {
        run->play.see = see;
        run->play.ctx = run;
        code = drive(run, err);
        play_end(&run->play);
    }
    end(run);
    return code;
}

static void divide(struct plan_part *part, uint32_t runs)
{
    part->delivered /= runs;
    part->decoded /= runs;
    part->from_decoded /= runs;
    part->prepared /= runs;
    part->work /= runs;
    part->source_bytes /= runs;
    part->class_bytes /= runs;
    part->stall_s /= runs;
    part->train_s /= runs;
    part->took_s /= runs;
    part->epochs /= runs;
}

static double stall_s(const struct plan_row *row)
{
    return row->first.stall_s + row->later.stall_s;
}

/* The standard deviation of a run's stall, from the sums over all runs: the row's, and that of the stalls' squares. */
static double stall_sd_s(const struct plan_row *row, double squares)
{
    double sum = stall_s(row), runs = row->runs;
    return row->runs < 2 ? 0 : sqrt(fmax(0, squares - sum * sum / runs) / (runs - 1));
}

/* certain says whether more runs would hardly change the mean stall of a row of sums. */
static bool certain(const struct plan_row *row, double squares)
{
    double sum = stall_s(row), time = sum + row->first.train_s + row->later.train_s;
    double error_of_sum = stall_sd_s(row, squares) * sqrt(row->runs);
    return row->runs >= RUNS_LEAST && error_of_sum <= fmax(CERTAIN_STALL * sum, CERTAIN_TIME * time);
}

int plan_play(const struct plan_case *plan, const struct plan_setting *setting, struct plan_row *out, struct error *err)
{
    struct plan_row row = {.setting = *setting};
    struct plan_case seeded = *plan;
    double squares = 0;
    int code = plan_fail_case(plan, err);
    while (!code && row.runs < plan->runs && !certain(&row, squares)) {
        double before_s = stall_s(&row);
        code = play_once(&seeded, setting, &row, err);
        row.runs++;
        seeded.seed++;
        squares += (stall_s(&row) - before_s) * (stall_s(&row) - before_s);
    }
    if (code)
        return code;
    row.stall_sd_s = stall_sd_s(&row, squares);
    divide(&row.first, row.runs);
    divide(&row.later, row.runs);
    *out = row;
    return 0;
}
