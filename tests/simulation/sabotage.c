/* sabotage.c: each kind is a small change of one event or action; which opportunity it takes is drawn from the seed. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/sabotage_priv.h"

#define KEY_SABOTAGE UINT64_C(0x5ab07a6e)
#define OPPORTUNITIES 12    /* of the first so many one is taken */
#define OPPORTUNITIES_FEW 3 /* where there are not as many */

static const struct {
    const char *name;
    unsigned rules; /* bits */
    unsigned flags;
} kinds[SABOTAGE_COUNT] = {[SABOTAGE_NONE] = {"none", 0, 0},
#define RULE_BIT(rule) (1u << RULE_##rule)
#define KIND(id, name, rules, flags) [SABOTAGE_##id] = {name, rules, flags},
                           SABOTAGE_KINDS(KIND, RULE_BIT)
#undef KIND
#undef RULE_BIT
};

const char *sabotage_name(enum sabotage_kind kind)
{
    return kinds[kind].name;
}

enum sabotage_kind sabotage_find(const char *name)
{
    int kind = SABOTAGE_COUNT - 1;
    while (kind > 0 && strcmp(kinds[kind].name, name) != 0)
        kind--;
    return (enum sabotage_kind)kind;
}

bool sabotage_expects(enum sabotage_kind kind, enum rule rule)
{
    return kinds[kind].rules >> rule & 1;
}

bool sabotage_needs_ranks(enum sabotage_kind kind)
{
    return kind == SABOTAGE_RANK_COPY || (kind >= SABOTAGE_RANK_SHARE && kind < SABOTAGE_STATE_DROP);
}

bool sabotage_needs_restarts(enum sabotage_kind kind)
{
    return kind >= SABOTAGE_STATE_DROP && kind < SABOTAGE_TRIM_MORE;
}

bool sabotage_found_enough(enum sabotage_kind kind, uint64_t done, uint64_t found)
{
    return done > 0 && (kinds[kind].flags & SABOTAGE_OFTEN ? found * 2 >= done : found == done);
}

struct sabotage *sabotage_create(enum sabotage_kind kind, const struct scenario *scenario, struct model *model)
{
    struct sabotage *sabotage = xcalloc(1, sizeof *sabotage);
    struct rng rng;
    random_seed_keys(&rng, KEY_SABOTAGE, scenario->seed, kind, 0);
    sabotage->kind = kind;
    sabotage->model = model;
    sabotage->scenario = scenario;
    sabotage->calm = scenario->n_outages == 0;
    sabotage->arena_bytes = scenario->config.arena_bytes;
    bool few = kind >= SABOTAGE_RANK_SHARE || kinds[kind].flags & SABOTAGE_RARE;
    sabotage->wait = (uint32_t)random_below(&rng, few ? OPPORTUNITIES_FEW : OPPORTUNITIES);
    model_compare_totals(model, kinds[kind].flags & SABOTAGE_FIGURES);
    sabotage_inside(sabotage);
    return sabotage;
}

void sabotage_destroy(struct sabotage *sabotage)
{
    if (sabotage == NULL)
        return;
    table_free(&sabotage->prepared);
    idset_destroy(sabotage->turns);
    sabotage_inside(NULL);
    free(sabotage);
}

bool sabotage_done(const struct sabotage *sabotage)
{
    return sabotage && sabotage->done;
}

/* A job whose every batch counts: its client goes through all epochs, no bad sample ends them, and no sample is left
 * over. */
static const struct client_plan *sure_plan(const struct sabotage *sabotage, uint32_t job)
{
    const struct client_plan *plan = model_steady_plan(sabotage->model, job);
    bool calm = sabotage->calm || sabotage->kind == SABOTAGE_LOSE_RETRY;
    return plan && calm && plan->bad_policy == BAD_SKIP && !plan->drop_last ? plan : NULL;
}

/* Of a PREPARED: whether one of its outputs failed and another was made; the former, and why it failed. */
static bool failed_in_part(const struct sabotage *sabotage, const struct engine_event *event, uint32_t *bad)
{
    uint32_t failed = 0, count = event->type == ENGINE_PREPARED ? model_outputs_ended(sabotage->model) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (event->prepared.reasons[i])
            *bad = i;
        failed += event->prepared.reasons[i] != 0;
    }
    return failed > 0 && failed < count;
}

/* Of a PREPARED: changes the length of an output that was cut off. */
static bool mistrim(const struct sabotage *sabotage, struct engine_event *event)
{
    uint32_t count = event->type == ENGINE_PREPARED ? model_outputs_ended(sabotage->model) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *bytes = &event->prepared.bytes[i], begun = (uint32_t)model_output_begun(sabotage->model, i);
        if (event->prepared.reasons[i] || *bytes < 2 || *bytes == begun)
            continue;
        *bytes = sabotage->kind == SABOTAGE_TRIM_MORE ? *bytes / 2 : begun;
        return true;
    }
    return false;
}

/* Whether the job is to be told of as of another multiset than it has. */
static bool may_redraw(bool calm, const struct client_plan *comes)
{
    return calm && comes && comes->multiset && comes->world_size == 1 && !comes->invalid && !comes->drop_last &&
           comes->bad_policy == BAD_SKIP && !multiset_is_together(comes->multiset) &&
           comes->vanish_ns == SCENARIO_NEVER && comes->cancel_ns == SCENARIO_NEVER &&
           comes->stop_ns == SCENARIO_NEVER && comes->break_percent == 0 && comes->n_view > 8 && comes->n_draws > 8;
}

/* A job that was refused comes again, and is the same then. */
static void redraw(struct sabotage *sabotage, struct engine_event *event, const struct client_plan *comes)
{
    if (event->type != ENGINE_JOB_ADD || !sabotage->redrawn || sabotage->redrawn != comes)
        return;
    sabotage->desc = *event->job_add;
    sabotage->desc.sampled.multiset = comes->other;
    event->job_add = &sabotage->desc;
}

/* More than is allowed, where that is so little that the engine mostly has use for more. */
void sabotage_config(struct sabotage *sabotage, const struct scenario *scenario, struct engine_config *config)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < scenario->n_samples; i++)
        all += scenario->samples[i].bytes;
    if (sabotage->kind == SABOTAGE_MORE_LOADS && config->inflight_loads <= 2) {
        config->inflight_loads += 16;
    } else if (sabotage->kind == SABOTAGE_MORE_PREPARES && config->inflight_prepares <= 2 && !config->prepares_ns) {
        config->inflight_prepares += 16;
    } else if (sabotage->kind == SABOTAGE_MORE_ENCODED && config->encoded_bytes < all / 4) {
        config->encoded_bytes *= 8;
    } else {
        return;
    }
    sabotage->done = true;
}

bool sabotage_event(struct sabotage *sabotage, struct engine_event *event, const struct client_plan *comes)
{
    redraw(sabotage, event, comes);
    if (sabotage->done)
        return true;
    const struct client_plan *plan;
    struct engine_event other_event;
    uint64_t other;
    uint32_t bad;
    switch (sabotage->kind) {
    case SABOTAGE_LOSE_NEXT:
        plan = event->type == ENGINE_NEXT ? sure_plan(sabotage, event->next.job) : NULL;
        return plan == NULL || plan->ask != 1 || !sabotage_take(sabotage);
    case SABOTAGE_LOSE_RELEASE:
        return event->type != ENGINE_RELEASE || model_steady_plan(sabotage->model, event->release.job) == NULL ||
               !sabotage_take(sabotage);
    case SABOTAGE_LOSE_WEIGHT: return event->type != ENGINE_WEIGHT || !sabotage_take(sabotage);
    case SABOTAGE_WRONG_RELEASE:
        if (event->type == ENGINE_RELEASE && model_steady_plan(sabotage->model, event->release.job) &&
            model_other_held(sabotage->model, event->release.job, event->release.batch, &other) &&
            sabotage_take(sabotage))
            event->release.batch = other;
        return true;
    case SABOTAGE_EXTRA_CREDIT:
        plan = event->type == ENGINE_NEXT ? model_steady_plan(sabotage->model, event->next.job) : NULL;
        if (plan && plan->ask == 1 && plan->prefetch > 1 && plan->n_draws > 4 * plan->batch_size &&
            sabotage_take(sabotage))
            event->next.credits++;
        return true;
    case SABOTAGE_FAIL_ALL:
        if (failed_in_part(sabotage, event, &bad) && sabotage_take(sabotage))
            memset(event->prepared.reasons, event->prepared.reasons[bad], sizeof event->prepared.reasons);
        return true;
    case SABOTAGE_PASS_BAD:
        if (failed_in_part(sabotage, event, &bad) && sabotage_take(sabotage))
            event->prepared.reasons[bad] = BAD_NONE;
        return true;
    case SABOTAGE_TRIM_MORE:
    case SABOTAGE_TRIM_LESS:
        other_event = *event;
        if (mistrim(sabotage, &other_event) && sabotage_take(sabotage))
            *event = other_event;
        return true;
    case SABOTAGE_OUTAGE_AS_BAD:
        if (event->type == ENGINE_LOADED && !event->loaded.encoded && event->loaded.fate == ENGINE_FATE_SOURCE &&
            sabotage_take(sabotage))
            event->loaded.fate = ENGINE_FATE_SAMPLE;
        return true;
    case SABOTAGE_OTHER_DRAWS:
        if (event->type == ENGINE_JOB_ADD && !sabotage->redrawn && may_redraw(sabotage->calm, comes))
            sabotage->redrawn = comes;
        redraw(sabotage, event, comes);
        return true;
    default:
        if (event->type == ENGINE_JOB_ADD && event->job_add->resume)
            sabotage_add(sabotage, comes, event);
        return true;
    }
}

/* ── actions ── */

static bool may_lose(const struct sabotage *sabotage, const struct engine_action *action)
{
    switch (sabotage->kind) {
    case SABOTAGE_LOSE_BATCH:
        return action->type == ENGINE_DELIVER && !action->deliver.last && sure_plan(sabotage, action->job);
    case SABOTAGE_LOSE_LOAD: return action->type == ENGINE_LOAD && sure_plan(sabotage, action->job);
    case SABOTAGE_LOSE_RETRY:
        return action->type == ENGINE_LOAD && sure_plan(sabotage, action->job) &&
               model_source_answers(sabotage->model, action->load.dataset) &&
               model_is_retry(sabotage->model, action->load.id);
    case SABOTAGE_LOSE_PREPARE: return action->type == ENGINE_PREPARE && sure_plan(sabotage, action->job);
    case SABOTAGE_LOSE_DROP: return action->type == ENGINE_DROP_ENCODED;
    case SABOTAGE_LOSE_ENDED: return action->type == ENGINE_JOB_ENDED;
    case SABOTAGE_LOSE_ANSWER: return action->type == ENGINE_JOB_ADDED || action->type == ENGINE_JOB_REFUSED;
    default: return false;
    }
}

/* Gives the second action that follows the first, when the kind adds one. */
static bool may_add(const struct sabotage *sabotage, const struct engine_action *action, struct engine_action *added)
{
    *added = *action;
    const struct client_plan *plan = model_steady_plan(sabotage->model, action->job);
    switch (sabotage->kind) {
    case SABOTAGE_DELIVER_TWICE: return action->type == ENGINE_DELIVER;
    case SABOTAGE_OVER_HELD:
        added->deliver.batch += NO_BATCH;
        return action->type == ENGINE_DELIVER && model_is_full(sabotage->model, action->job);
    case SABOTAGE_LOAD_TWICE: return action->type == ENGINE_LOAD;
    case SABOTAGE_DROP_TWICE: return action->type == ENGINE_DROP_ENCODED;
    case SABOTAGE_DROP_BUSY:
        *added = (struct engine_action){.type = ENGINE_DROP_ENCODED,
                                        .drop.encoded = model_busy_handle(sabotage->model)};
        return added->drop.encoded != NULL;
    case SABOTAGE_FALSE_ERROR:
        *added = (struct engine_action){.type = ENGINE_JOB_ERROR, .client = action->client, .job = action->job};
        added->error.id = SAMPLE_NONE;
        error_set(&added->error.error, LARDER_ESAMPLE, "sabotage");
        return action->type == ENGINE_DELIVER && plan && plan->bad_policy == BAD_SKIP;
    default: return false;
    }
}

/* A sample of the batch is told with the bytes that it was begun with, and not with those that it has. */
static bool tell_begun(const struct sabotage *sabotage, uint32_t pipeline, struct engine_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t begun = scenario_begun_bytes(sabotage->scenario, pipeline, entries[i].id);
        if (entries[i].bytes < begun) {
            entries[i].bytes = begun;
            return true;
        }
    }
    return false;
}

/* Changes a DELIVER whose entries are ours by now. */
static bool may_change_deliver(struct sabotage *sabotage, const struct client_plan *plan, struct engine_action *action)
{
    struct engine_entry *entry = sabotage->entries, first = entry[0];
    uint32_t count = action->deliver.count;
    bool last = action->deliver.last;
    bool two = count >= 2 && entry[0].id != entry[1].id;
    switch (sabotage->kind) {
    case SABOTAGE_DROP_ENTRY: action->deliver.count--; return count > 0 && !last;
    case SABOTAGE_FORGET_SAMPLE:
        action->deliver.count--;
        return count > 0 && last && !plan->drop_last &&
               !model_could_miss(sabotage->model, action->job, entry[count - 1].id);
    case SABOTAGE_DOUBLE_ENTRY: entry[1] = first; return two;
    case SABOTAGE_WRONG_ID: entry[0].id++; return count > 0;
    case SABOTAGE_SWAP_SLOTS:
        entry[0].offset = entry[1].offset;
        entry[1].offset = first.offset;
        return two;
    case SABOTAGE_SWAP_ORDER:
        entry[0] = entry[1];
        entry[1] = first;
        return two && plan->shuffle != SHUFFLE_DEPENDENT && plan->bad_policy == BAD_ERROR;
    case SABOTAGE_TRIM_UNTOLD: return tell_begun(sabotage, plan->pipeline, entry, count);
    case SABOTAGE_LOSE_LAST: action->deliver.last = false; return count > 0 && last;
    case SABOTAGE_EARLY_LAST: action->deliver.last = true; return count > 0 && !last && plan->bad_policy == BAD_ERROR;
    default: return false;
    }
}

/* Changes a PREPARE whose outputs are ours by now. */
static bool may_change_prepare(struct sabotage *sabotage, struct engine_action *action)
{
    struct engine_output *output = sabotage->outputs;
    uint64_t *made = table_at(&sabotage->prepared, (uint64_t)output->pipeline << 32 | action->prepare.id);
    uint64_t before = output->variant == 0 ? *made : 0; /* one of a variant may well be the same again */
    if (output->variant == 0)
        *made = output->instance + 1;
    switch (sabotage->kind) {
    case SABOTAGE_WRONG_FORM: action->prepare.decoded = !action->prepare.decoded; return true;
    case SABOTAGE_STALE_FORM:
        action->prepare.encoded = model_replaced_handle(sabotage->model, action->prepare.id);
        return action->prepare.encoded != NULL;
    case SABOTAGE_ALIAS_SLOT: return model_held_slot(sabotage->model, &output->offset);
    case SABOTAGE_SHORT_SLOT: output->bytes--; return true;
    case SABOTAGE_OUTSIDE_ARENA: output->offset = sabotage->arena_bytes - output->bytes + 1; return true;
    case SABOTAGE_SAME_INSTANCE: output->instance = before - 1; return before > 0;
    default: return false;
    }
}

/* Makes `changed` the action with our own copy of its list, changed; false where this kind finds nothing to change. */
static bool may_change(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *changed)
{
    const struct client_plan *plan = model_steady_plan(sabotage->model, action->job);
    *changed = *action;
    if (action->type == ENGINE_DELIVER && plan && action->deliver.count > 0) {
        memcpy(sabotage->entries, action->deliver.entries, action->deliver.count * sizeof *sabotage->entries);
        changed->deliver.entries = sabotage->entries;
        return may_change_deliver(sabotage, plan, changed);
    }
    if (action->type == ENGINE_PREPARE && action->prepare.n_outputs <= ENGINE_OUTPUTS_MAX) {
        memcpy(sabotage->outputs, action->prepare.outputs, action->prepare.n_outputs * sizeof *sabotage->outputs);
        changed->prepare.outputs = sabotage->outputs;
        return may_change_prepare(sabotage, changed);
    }
    if (action->type == ENGINE_JOB_ADDED && sabotage->kind == SABOTAGE_SMALL_HELD) {
        changed->job_added.held_max = 1;
        return action->job_added.held_max > 1 && action->job_added.n_batches > 4;
    }
    if (action->type == ENGINE_JOB_ENDED) /* the number may mean another pipeline from now on */
        table_free(&sabotage->prepared);
    return false;
}

size_t sabotage_action(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out)
{
    out[0] = *action;
    if (action->type == ENGINE_JOB_ADDED && sabotage->misled && action->client == sabotage->client)
        sabotage_answer(sabotage, out);
    if (sabotage->redrawn && action->type == ENGINE_JOB_ADDED && action->client == sabotage->desc.client)
        sabotage->done = true; /* a job that is refused has done no wrong */
    if (sabotage->done)
        return 1;
    if (sabotage_needs_ranks(sabotage->kind))
        return sabotage_rank(sabotage, action, out);
    if (may_lose(sabotage, action))
        return sabotage_take(sabotage) ? 0 : 1;
    if (may_add(sabotage, action, &out[1]))
        return sabotage_take(sabotage) ? 2 : 1;
    if (!may_change(sabotage, action, &out[0]) || !sabotage_take(sabotage))
        out[0] = *action;
    return 1;
}
