/* sabotage_states.c: wrong deeds to states: to what a client that comes back says it has had, and to what the daemon
 * says that all ranks have had. */
#include "tests/simulation/sabotage_priv.h"

/* ── what a client says ── */

/* One that it has had is left out: the last number of its part, or the lowest turn. */
static bool drop(struct sabotage *sabotage, struct engine_resume *resume)
{
    const struct idset *turns = resume->turns;
    sample_id id;
    if (resume->delivered == 0)
        return false;
    resume->delivered--;
    if (resume->through > 0) {
        resume->through--;
        return true;
    }
    if (!turns || idset_copy(turns, &sabotage->turns) || !idset_select(turns, 0, &id))
        return false;
    idset_remove(sabotage->turns, id);
    resume->turns = sabotage->turns;
    return true;
}

/* The samples that each rank has at the least, of what the base leaves. */
static uint64_t share_of(const struct engine_job_desc *desc)
{
    const struct engine_resume *resume = desc->resume;
    uint64_t samples = engine_segments_left(resume->segments, resume->n_segments, idset_count(desc->sampled.view));
    return (samples - (resume->base ? idset_count(resume->base) : 0)) / desc->world_size;
}

/* One that it has not had is added: the next number of its part, or the lowest of the view. */
static bool add(struct sabotage *sabotage, const struct engine_job_desc *desc, struct engine_resume *resume)
{
    uint64_t count = idset_count(desc->sampled.view);
    sample_id id;
    if (desc->sampled.shuffle != SHUFFLE_DEPENDENT) {
        resume->through++;
        return true;
    }
    if (desc->world_size > 1) /* another rank may have had it */
        return false;
    for (uint64_t at = 0; at < count && idset_select(desc->sampled.view, at, &id); at++) {
        if ((resume->base && idset_contains(resume->base, id)) ||
            (resume->turns && idset_contains(resume->turns, id)) || model_has_failed(sabotage->model, id))
            continue;
        if (resume->turns ? idset_copy(resume->turns, &sabotage->turns) : idset_create(&sabotage->turns))
            return false;
        idset_add(sabotage->turns, id);
        resume->turns = sabotage->turns;
        return true;
    }
    return false;
}

/* The daemon is to take the rank for one that begins. */
static bool mislead(struct sabotage *sabotage, struct engine_job_desc *desc)
{
    if (desc->world_size == 1 || !desc->resume->presented || !model_is_new(sabotage->model, desc->name))
        return false;
    sabotage->client = desc->client;
    desc->resume = NULL;
    return true;
}

void sabotage_last_daemon(struct sabotage *sabotage)
{
    sabotage->lasting = true;
}

/* The client goes on to the end of the epoch with what it has said. */
static bool is_steady(const struct sabotage *sabotage, const struct client_plan *plan)
{
    return sabotage->lasting && plan->stop_after == UINT32_MAX && plan->cut_ns == SCENARIO_NEVER &&
           plan->cancel_ns == SCENARIO_NEVER && plan->break_percent == 0 && !plan->drop_last;
}

void sabotage_add(struct sabotage *sabotage, const struct client_plan *plan, struct engine_event *event)
{
    struct engine_job_desc *desc = &sabotage->desc;
    bool may = false;
    sabotage->desc = *event->job_add;
    sabotage->resume = *event->job_add->resume;
    desc->resume = &sabotage->resume;
    bool room = sabotage->resume.delivered + 2 < share_of(desc) && is_steady(sabotage, plan);
    bool skips = desc->bad_policy == BAD_SKIP; /* a bad one leaves nothing open that another may fill */
    if (sabotage->kind == SABOTAGE_STATE_EARLY)
        may = mislead(sabotage, desc);
    else if (sabotage->kind == SABOTAGE_STATE_DROP)
        may = room && drop(sabotage, &sabotage->resume);
    else if (sabotage->kind == SABOTAGE_STATE_MORE || sabotage->kind == SABOTAGE_STATE_TWICE)
        may = room && skips && (sabotage->kind == SABOTAGE_STATE_TWICE || add(sabotage, desc, &sabotage->resume));
    if (may && sabotage_take(sabotage)) {
        sabotage->resume.delivered += sabotage->kind != SABOTAGE_STATE_DROP;
        sabotage->misled = sabotage->kind == SABOTAGE_STATE_EARLY;
        event->job_add = desc;
        return;
    }
    idset_destroy(sabotage->turns);
    sabotage->turns = NULL;
}

/* A turn that it has had becomes one that nobody has had: the first is to come again, the other never. */
static void swap_turn(struct sabotage *sabotage, const struct scenario *sc, const struct client_plan *plan,
                      const struct record *record)
{
    const struct scenario_dataset *dataset = &sc->datasets[plan->dataset];
    for (uint32_t i = 0; i < plan->n_view && record->n_turns > 0 && plan->world_size == 1; i++) {
        uint32_t index = dataset->position[plan->view[i]];
        bool had = record_turn_over(record, index);
        for (uint32_t at = 0; at < record->n_turns && !had; at++)
            had = record_turn(record, at) == index;
        if (had || model_has_failed(sabotage->model, plan->view[i]))
            continue;
        if (sabotage_take(sabotage))
            put_u32((uint8_t *)record->turns, index); /* the state's own bytes */
        return;
    }
}

/* In a fixed order one more of the rank's part is over: that one never comes. */
static void skip_one(struct sabotage *sabotage, const struct client_plan *plan, const struct record *record)
{
    if (record->n_batches == 0)
        return;
    struct record_batch last = record_batch_get(record, record->n_batches - 1);
    if (++last.through < plan->n_view / plan->world_size && sabotage_take(sabotage))
        record_batch_put((uint8_t *)record->history, record->n_batches - 1, &last); /* the state's own bytes */
}

void sabotage_record(struct sabotage *sabotage, const struct scenario *scenario, const struct client_plan *plan,
                     struct state *record)
{
    if (sabotage->kind != SABOTAGE_RECORD_WRONG || sabotage->done || plan->bad_policy != BAD_SKIP ||
        !is_steady(sabotage, plan))
        return;
    if (plan->shuffle == SHUFFLE_DEPENDENT)
        swap_turn(sabotage, scenario, plan, &record->record);
    else
        skip_one(sabotage, plan, &record->record);
}

void sabotage_answer(struct sabotage *sabotage, struct engine_action *answer)
{
    answer->job_added.epoch = sabotage->resume.epoch;
    answer->job_added.batch = sabotage->resume.base_batches + sabotage->resume.batches;
    sabotage->misled = false;
}

/* ── what the daemon says ── */

/* Of a set: finds an index whose turn is over, or is not. */
static bool change_set(const struct scenario *sc, const struct client_plan *plan, struct record *record, bool over)
{
    uint8_t *set = (uint8_t *)record->over; /* the state's own bytes */
    for (uint32_t i = 0; record->over_bytes && i < plan->n_view; i++) {
        uint32_t index = sc->datasets[plan->dataset].position[plan->view[i]];
        if (record_turn_over(record, index) != over)
            continue;
        set[index / 8] ^= (uint8_t)(1u << index % 8);
        return true;
    }
    return false;
}

/* A number more or less of rank 0's part, or of all parts where they are alike. What is bad is said to be over or not:
 * only where nothing may be bad each number counts. */
static bool change_order(const struct client_plan *plan, struct record *record, bool less)
{
    if (record->n_segments != 1 || plan->bad_policy != BAD_ERROR)
        return false;
    const struct record_segment *segment = &record->segments[0];
    uint8_t *at = (uint8_t *)segment->through; /* the state's own bytes */
    uint32_t through = get_u32(at);
    if (less ? through == 0 : through >= plan->n_view / segment->world_size)
        return false;
    put_u32(at, less ? through - 1 : through + 1);
    return true;
}

void sabotage_token(struct sabotage *sabotage, const struct scenario *scenario, const struct client_plan *plan,
                    struct state *token)
{
    bool less = sabotage->kind == SABOTAGE_TOKEN_DROP;
    if (sabotage->done || (!less && sabotage->kind != SABOTAGE_TOKEN_MORE))
        return;
    if (sabotage->wait > 0) {
        sabotage->wait--;
        return;
    }
    sabotage->done = plan->shuffle == SHUFFLE_DEPENDENT ? change_set(scenario, plan, &token->record, less)
                                                        : change_order(plan, &token->record, less);
}

bool sabotage_refuses(struct sabotage *sabotage)
{
    return !sabotage->done && sabotage->kind == SABOTAGE_TOKEN_REFUSED && sabotage_take(sabotage);
}
