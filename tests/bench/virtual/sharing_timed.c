/* sharing_timed.c: a scenario with costs. The engine's reads and preparations take their times on the machine. A job
 * trains on one batch after the other, and asks for the next one when it begins to train on one: so it holds the batch
 * at hand and one more. What a batch took of the arena it gives back at once, as it copies it. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/sharing_priv.h"

struct timed {
    struct sharing_bench *bench;
    struct costs_machine *machine;
    uint8_t *fresh;   /* by sample: it was read, and nothing was made of it yet */
    uint8_t *made_of; /* by instance: enum costs_hit */
    size_t made_cap;
};

static void load(struct timed *timed, const struct engine_action *action)
{
    struct sharing_bench *bench = timed->bench;
    sample_id id = action->load.id;
    timed->fresh[id] = 1;
    uint64_t at_ns = costs_read(timed->machine, bench->play.now_ns, (double)bench->chunk_of[id] / bench->n_chunks);
    play_answer_at(&bench->play, at_ns, action);
}

/* prepare_event returns the answer to a PREPARE: all its outputs, and a decoded form if that may take what it takes. */
static struct engine_event prepare_event(const struct timed *timed, const struct engine_action *action)
{
    static char form; /* the engine never looks at it */
    struct engine_event event = {.type = ENGINE_PREPARED, .rank = action->rank};
    event.prepared.task = action->prepare.task;
    if (action->prepare.form_bytes == 0)
        return event;
    event.prepared.decoded_bytes = (uint64_t)(timed->machine->costs->decoded * SHARING_SAMPLE_BYTES);
    if (event.prepared.decoded_bytes <= action->prepare.form_bytes)
        event.prepared.decoded = &form;
    return event;
}

static void prepare(struct timed *timed, const struct engine_action *action)
{
    struct sharing_bench *bench = timed->bench;
    const struct costs *costs = timed->machine->costs;
    bool decoded = action->prepare.decoded;
    sample_id id = action->prepare.id;
    uint32_t outputs = action->prepare.n_outputs;
    timed->made_of = xgrow(timed->made_of, 1, &timed->made_cap, bench->instances);
    for (uint64_t i = bench->instances - outputs; i < bench->instances; i++)
        timed->made_of[i] = timed->fresh[id] ? COSTS_READ : decoded ? COSTS_DECODED : COSTS_ENCODED;
    timed->fresh[id] = 0;
    timed->machine->decodes += !decoded;
    struct engine_event event = prepare_event(timed, action);
    timed->machine->forms += event.prepared.decoded != NULL;
    double core_s = (decoded ? 0 : costs->decode_s) + outputs * costs->prepare_s;
    play_push_at(&bench->play, costs_work(timed->machine, bench->play.now_ns, core_s), event);
}

/* deliver has the job train on the batch after those that it has, and ask for the next one then. */
static void deliver(struct timed *timed, const struct engine_action *action)
{
    struct play *play = &timed->bench->play;
    struct sharing_player *player = timed->bench->at[action->job];
    uint64_t begins_ns = player->trains_until_ns > play->now_ns ? player->trains_until_ns : play->now_ns;
    player->trains_until_ns = begins_ns + costs_ns(action->deliver.count * player->desc->train_s);
    if (action->deliver.last && player->epoch + 1 == player->desc->epochs) {
        play_push_at(play, player->trains_until_ns,
                     (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = action->job}});
        player->running = false;
        player->done = true;
        return;
    }
    player->epoch += action->deliver.last;
    play_push_at(play, begins_ns,
                 (struct engine_event){.type = ENGINE_NEXT,
                                       .next = {.job = action->job, .epoch = player->epoch, .credits = 1}});
}

static void count_hits(struct timed *timed, const struct engine_action *action)
{
    struct sharing_bench *bench = timed->bench;
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        uint64_t instance = bench->slots[action->deliver.entries[i].offset / bench->slot_bytes].instance;
        timed->machine->hits[bench->had[instance] ? COSTS_PREPARED : timed->made_of[instance]]++;
    }
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct timed *timed = ctx;
    if (action->type == ENGINE_DELIVER)
        count_hits(timed, action);
    sharing_sees(timed->bench, action);
    switch (action->type) {
    case ENGINE_LOAD: load(timed, action); return true;
    case ENGINE_PREPARE:
        prepare(timed, action);
        sharing_peaks(timed->bench);
        return true;
    case ENGINE_DELIVER: deliver(timed, action); return false;
    default: return false;
    }
}

/* joins_ns returns when the first job that has not joined does: UINT64_MAX if there is none, or no place for it. */
static uint64_t joins_ns(const struct sharing_bench *bench, uint32_t *number)
{
    const struct sharing_scenario *scenario = bench->scenario;
    uint32_t places = scenario->costs.at_once ? scenario->costs.at_once : SHARING_JOBS_MAX;
    uint64_t first_ns = UINT64_MAX;
    uint32_t running = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct sharing_player *player = &bench->players[i];
        bool trains = player->done && player->trains_until_ns > bench->play.now_ns;
        running += player->running || trains;
        uint64_t start_ns = costs_ns(player->desc->start);
        if (player->running || player->done || start_ns >= first_ns)
            continue;
        first_ns = start_ns;
        *number = i;
    }
    return running < places ? first_ns : UINT64_MAX;
}

static void join(struct sharing_bench *bench, uint32_t number)
{
    struct sharing_player *player = &bench->players[number];
    player->trains_until_ns = bench->play.now_ns;
    sharing_join(bench, number);
    play_push(&bench->play, (struct engine_event){.type = ENGINE_NEXT, .next = {.job = player->place, .credits = 1}});
}

/* next_event_ns returns when the engine is to take its next step, UINT64_MAX if never. */
static uint64_t next_event_ns(const struct sharing_bench *bench)
{
    const struct play *play = &bench->play;
    uint64_t at_ns = play->at_hand.count ? play->now_ns : agenda_next_ns(&play->later);
    uint64_t wakes_ns = UINT64_MAX;
    for (uint32_t i = 0; i < bench->scenario->n_jobs && wakes_ns == UINT64_MAX; i++)
        wakes_ns = bench->players[i].running ? engine_wakes_ns(play->engine) : wakes_ns;
    at_ns = wakes_ns < at_ns ? wakes_ns : at_ns;
    return at_ns > play->now_ns ? at_ns : play->now_ns;
}

/* instances_at_end returns how many instances memory has room for, over the samples. */
static double instances_at_end(const struct sharing_bench *bench)
{
    const struct sharing_scenario *scenario = bench->scenario;
    struct engine_totals totals;
    engine_totals(bench->play.engine, &totals);
    uint64_t arena = sharing_slots(scenario) * bench->slot_bytes;
    uint64_t all = arena + sharing_encoded(scenario) * SHARING_SAMPLE_BYTES;
    return (double)(all - totals.encoded.budget_bytes) / (double)bench->slot_bytes / scenario->samples;
}

void sharing_timed(struct sharing_bench *bench, struct costs_machine *machine)
{
    struct timed timed = {.bench = bench, .machine = machine};
    struct play *play = &bench->play;
    uint32_t number = 0;
    timed.fresh = xcalloc(bench->scenario->samples, 1);
    play->see = see;
    play->ctx = &timed;
    for (;;) {
        uint64_t join_ns = joins_ns(bench, &number), next_ns = next_event_ns(bench);
        if (next_ns == UINT64_MAX && join_ns == UINT64_MAX)
            break;
        if (join_ns <= next_ns) {
            play_until(play, join_ns > play->now_ns ? join_ns : play->now_ns);
            join(bench, number);
        } else {
            play_until(play, next_ns);
        }
    }
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        CHECK(bench->players[i].done);
        if (bench->players[i].trains_until_ns > machine->makespan_ns)
            machine->makespan_ns = bench->players[i].trains_until_ns;
    }
    sharing_peaks(bench);
    machine->instances = instances_at_end(bench);
    free(timed.fresh);
    free(timed.made_of);
}
