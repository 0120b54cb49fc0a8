/* sources.c: sources that do not answer.
 *
 * A source is what the samples of one dataset are read from. A load may fail for no fault of its sample: the root or a folder is
 * away, the system says EIO, ESTALE, EACCES, there is no memory. Then the source is away, for all its jobs:
 *
 *   answers ── a load fails so ──▶ away: nothing is read ── pause over ──▶ one sample is read ── it comes, or is bad ──▶ answers
 *                                   ▲ pause, twice as long each time ──────────── fails so ──┘
 *
 * - What was to be loaded goes back to the front of its job's line and holds nothing meanwhile: no memory, no place among the
 *   loads in flight, no thread. Who has the sample from a source that answers has it from there.
 * - A load that nobody waits for is not tried again.
 * - What counts is loads that began after the last failure: what was read before tells nothing.
 * - A job that has waited for its source for source_wait_ns fails.
 * - The fault may be one sample's alone (a bad sector, a file that may not be read): what is read to see whether the source
 *   answers is another sample. One that has failed ENGINE_SOURCE_TRIES times, each after the source had answered for others, is
 *   bad. */
#include <stdio.h>

#include "server/engine/engine_priv.h"

enum { PROBE_DRAWS = 64 }; /* samples that are looked at for one to be read */

static struct data_source *find_source(struct engine *engine, const void *dataset)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        if (engine->sources[i].users && engine->sources[i].dataset == dataset)
            return &engine->sources[i];
    }
    return NULL;
}

void engine_source_join(struct engine *engine, struct job *job)
{
    struct data_source *source = find_source(engine, job->dataset);
    for (uint32_t i = 0; !source; i++) {
        CHECK(i < JOBS_MAX); /* there are no more sources than jobs */
        if (engine->sources[i].users == 0)
            source = &engine->sources[i];
    }
    if (source->users++ == 0)
        *source = (struct data_source){
            .dataset = job->dataset, .users = 1, .failed = engine->source_rounds, .probe = SAMPLE_NONE};
    job->source = (uint32_t)(source - engine->sources);
}

void engine_source_leave(struct engine *engine, struct job *job)
{
    struct data_source *source = &engine->sources[job->source];
    CHECK(source->users > 0);
    if (--source->users == 0)
        *source = (struct data_source){.probe = SAMPLE_NONE};
}

void engine_source_load(struct engine *engine, uint32_t job, uint32_t encoded)
{
    engine->encoded[encoded].dataset = engine->jobs[job].dataset;
    engine->encoded[encoded].round = engine->source_rounds;
}

bool engine_waits_for_source(const struct engine *engine, uint32_t job)
{
    return engine->jobs[job].state == JOB_RUNNING && engine_source_away(engine, job) &&
           engine->jobs[job].lists[TASK_LOADS].head != ENGINE_NONE;
}

/* Which sources answer has changed: nothing waits for one that does not while another has it. */
static void rearrange(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs_end; job++) {
        if (!engine_waits_for_source(engine, job))
            continue;
        for (uint32_t index = engine->jobs[job].lists[TASK_LOADS].head, next; index != ENGINE_NONE; index = next) {
            next = engine->tasks[index].next;
            uint32_t heir = engine_task_heir(engine, &engine->tasks[index], job);
            CHECK(heir != ENGINE_NONE);
            if (!engine_source_away(engine, heir))
                engine_task_move(engine, index, heir);
        }
    }
}

static struct engine_action *act_news(struct engine *engine, const struct data_source *source, enum engine_source_news news)
{
    struct engine_action *action = engine_act(engine, ENGINE_SOURCE);
    action->source.news = news;
    action->source.dataset = source->dataset;
    action->source.id = SAMPLE_NONE;
    return action;
}

void engine_source_answered(struct engine *engine, const struct encoded *encoded)
{
    struct data_source *source = find_source(engine, encoded->dataset);
    if (!source)
        return;
    source->probe = source->probe == encoded->id ? SAMPLE_NONE : source->probe;
    if (encoded->round > source->answered)
        source->answered = encoded->round;
    if (!source->away || encoded->round < source->failed)
        return;
    source->away = false;
    if (source->told) {
        struct engine_action *action = act_news(engine, source, ENGINE_SOURCE_BACK);
        action->source.waited_ns = engine->now_ns - source->since_ns;
        action->source.retries = source->retries;
    }
    rearrange(engine);
    engine_read_ahead_again(engine);
}

/* Counts a failure against the sample when, since the one before, its source has answered for another. True: it has failed
 * often enough. */
static bool count_tries(struct engine *engine, const struct data_source *source, uint32_t first)
{
    bool enough = false;
    for (uint32_t index = first; index != ENGINE_NONE; index = engine->tasks[index].next) {
        struct task *task = &engine->tasks[index];
        if (task->tries == 0 || source->answered >= task->tried) {
            task->tries++;
            task->tried = engine->source_rounds;
        }
        enough = enough || task->tries == ENGINE_SOURCE_TRIES;
    }
    for (uint32_t index = first; enough && index != ENGINE_NONE; index = engine->tasks[index].next)
        engine->tasks[index].tries = 0; /* another dataset may have it */
    return enough;
}

static void go_away(struct engine *engine, struct data_source *source)
{
    source->away = true;
    source->told = false;
    source->since_ns = engine->now_ns;
    source->retries = 0;
    source->pause_ns = ENGINE_SOURCE_PAUSE_NS;
    source->until_ns = engine->now_ns + source->pause_ns;
    rearrange(engine);
}

static void stay_away(struct engine *engine, struct data_source *source)
{
    uint64_t pause_ns = source->pause_ns * 2;
    source->pause_ns = pause_ns < ENGINE_SOURCE_PAUSE_MAX_NS ? pause_ns : ENGINE_SOURCE_PAUSE_MAX_NS;
    source->until_ns = engine->now_ns + source->pause_ns;
    if (!source->told)
        act_news(engine, source, ENGINE_SOURCE_AWAY);
    source->told = true;
}

bool engine_source_failed(struct engine *engine, const struct encoded *encoded, uint32_t first, int reason)
{
    struct data_source *source = find_source(engine, encoded->dataset);
    if (!source) /* all its jobs have gone: who waits has another */
        return true;
    bool probe = source->probe == encoded->id;
    source->probe = probe ? SAMPLE_NONE : source->probe;
    source->failed = ++engine->source_rounds;
    if (count_tries(engine, source, first)) {
        struct engine_action *action = act_news(engine, source, ENGINE_SOURCE_GAVE_UP);
        action->source.id = encoded->id;
        action->source.reason = reason;
        return false;
    }
    if (!source->away)
        go_away(engine, source);
    else if (probe)
        stay_away(engine, source);
    source->retries++;
    engine->totals.source_retries++;
    return true;
}

/* ── asking again ── */

/* May the sample be read to see whether the source answers? `fresh`: only one that has not failed itself. What lies in memory
 * unused is read anew. */
static bool may_probe(struct engine *engine, const struct job *job, sample_id id, bool fresh)
{
    const struct sample_state *sample = &engine->samples[id];
    uint64_t bytes = engine->config.sample_bytes(job->dataset, id);
    if (bytes == ENGINE_NOT_THERE || bytes > engine->config.encoded_bytes || (fresh && sample->failed))
        return false;
    if (sample->encoded == ENGINE_NONE)
        return true;
    if (engine->encoded[sample->encoded].state != ENCODED_READY || residency_pins(engine->encodeds, sample->encoded) > 0)
        return false;
    engine_free_encoded(engine, sample->encoded, true);
    return true;
}

/* Any sample of the job's view, best one that has not failed; SAMPLE_NONE: all that were drawn are in use. */
static sample_id draw_probe(struct engine *engine, const struct job *job)
{
    for (int fresh = 1; fresh >= 0; fresh--) {
        for (int draws = 0; draws < PROBE_DRAWS; draws++) {
            sample_id id;
            CHECK(idset_select(job->view, random_below(&engine->rng, job->view_samples), &id));
            if (may_probe(engine, job, id, fresh))
                return id;
        }
    }
    return SAMPLE_NONE;
}

/* When there is no room for it now it is asked later. */
static void ask(struct engine *engine, struct data_source *source, uint32_t job)
{
    source->until_ns = engine->now_ns + source->pause_ns;
    if (engine->loads_inflight == engine->config.inflight_loads)
        return;
    sample_id id = draw_probe(engine, &engine->jobs[job]);
    if (id == SAMPLE_NONE || !engine_load(engine, job, id, engine->config.sample_bytes(engine->jobs[job].dataset, id)))
        return;
    engine->totals.reads++;
    source->probe = id;
}

void engine_ask_sources(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs_end; job++) {
        struct data_source *source = &engine->sources[engine->jobs[job].source];
        if (engine_waits_for_source(engine, job) && source->probe == SAMPLE_NONE && engine->now_ns >= source->until_ns)
            ask(engine, source, job);
    }
}

/* ── waiting ── */

static void fail(struct engine *engine, uint32_t place)
{
    char text[160];
    size_t told = engine->n_actions;
    snprintf(text, sizeof text, "its storage did not answer for %.3g s (limits.source_wait): see that the dataset can be "
             "read, and start the job again", (double)engine->config.source_wait_ns / 1e9);
    engine_job_fail(engine, place, SAMPLE_NONE, LARDER_EIO, text);
    for (; told < engine->n_actions; told++) {
        if (engine->actions[told].type == ENGINE_JOB_ERROR)
            engine->actions[told].error.of_source = true;
    }
}

void engine_watch_sources(struct engine *engine)
{
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        struct job *job = &engine->jobs[place];
        bool waits = engine_waits_for_source(engine, place);
        if (waits && !job->source_waits)
            job->source_since_ns = engine->now_ns;
        job->source_waits = waits;
        if (waits && engine->now_ns - job->source_since_ns >= engine->config.source_wait_ns)
            fail(engine, place);
    }
}

uint64_t engine_wakes_ns(const struct engine *engine)
{
    uint64_t wakes_ns = UINT64_MAX;
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        const struct data_source *source = &engine->sources[job->source];
        if (!engine_waits_for_source(engine, place))
            continue;
        uint64_t fails_ns = (job->source_waits ? job->source_since_ns : engine->now_ns) + engine->config.source_wait_ns;
        wakes_ns = fails_ns < wakes_ns ? fails_ns : wakes_ns;
        if (source->probe == SAMPLE_NONE && source->until_ns < wakes_ns)
            wakes_ns = source->until_ns;
    }
    return wakes_ns;
}
