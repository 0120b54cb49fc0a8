/* sabotage_ranks.c: wrong deeds to jobs of several ranks. */
#include <string.h>

#include "tests/simulation/sabotage_priv.h"

/* A job of several ranks whose every batch counts. */
static const struct client_plan *sure_ranks(const struct sabotage *sabotage, const struct engine_action *action)
{
    bool delivers = action->type == ENGINE_DELIVER && action->deliver.count > 0;
    const struct client_plan *plan = delivers ? model_clean_ranks(sabotage->model, action->job) : NULL;
    return plan && plan->bad_policy != BAD_REPLACE ? plan : NULL;
}

/* The batch as another rank's. */
static bool to_other_rank(const struct sabotage *sabotage, struct engine_action *action)
{
    struct model_rank other;
    if (!model_other_rank(sabotage->model, action->job, action->rank, &other) || other.last != action->deliver.last)
        return false;
    action->rank = other.rank;
    action->client = other.client;
    action->deliver.index = other.index;
    return true;
}

/* Its own copy of the entries, the first of which is one that another rank has had. */
static bool again(struct sabotage *sabotage, const struct client_plan *plan, struct engine_action *action)
{
    memcpy(sabotage->entries, action->deliver.entries, action->deliver.count * sizeof *sabotage->entries);
    action->deliver.entries = sabotage->entries;
    return plan->shuffle == SHUFFLE_DEPENDENT && plan->n_draws % plan->world_size == 0 &&
           model_others_sample(sabotage->model, action->job, sabotage->entries);
}

/* The last batch is not the last: an empty one follows. */
static size_t one_more(const struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out)
{
    if (!action->deliver.last || !model_may_have_more(sabotage->model, action->job, action->rank))
        return 0;
    out[1] = *action;
    out[0].deliver.last = false;
    out[1].deliver.index++;
    out[1].deliver.batch += NO_BATCH;
    out[1].deliver.count = 0;
    return 2;
}

static size_t deliver_wrong(struct sabotage *sabotage, const struct client_plan *plan,
                            const struct engine_action *action, struct engine_action *out)
{
    switch (sabotage->kind) {
    case SABOTAGE_RANK_SHARE:
        return plan->shuffle != SHUFFLE_DEPENDENT && plan->n_view > plan->world_size && to_other_rank(sabotage, out);
    case SABOTAGE_RANK_TWICE:
        out[1] = *action;
        out[1].deliver.batch += NO_BATCH;
        return to_other_rank(sabotage, &out[1]) ? 2 : 0;
    case SABOTAGE_RANK_AGAIN: return again(sabotage, plan, out);
    case SABOTAGE_RANK_MORE: return one_more(sabotage, action, out);
    case SABOTAGE_RANK_FEWER: out->deliver.last = true; return !action->deliver.last;
    default: return 0;
    }
}

static bool loses_rank(const struct sabotage *sabotage, const struct engine_action *action)
{
    if (sabotage->kind == SABOTAGE_RANK_LOST)
        return action->type == ENGINE_DELIVER && model_is_owed(sabotage->model, action->job, action->rank);
    return sabotage->kind == SABOTAGE_RANK_UNTOLD && action->type == ENGINE_JOB_ERROR &&
           model_has_ranks(sabotage->model, action->job);
}

/* What becomes of an action that concerns a rank; 0: there is no opportunity. */
static size_t rank_wrong(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out)
{
    const struct client_plan *plan = sure_ranks(sabotage, action);
    const struct error *error = &action->error.error;
    if (plan)
        return deliver_wrong(sabotage, plan, action, out);
    if (sabotage->kind == SABOTAGE_RANK_ASTRAY && action->type == ENGINE_JOB_ADDED) {
        out->job_added.batch++;
        return action->job_added.attached;
    }
    if (sabotage->kind == SABOTAGE_RANK_ACCUSED && action->type == ENGINE_JOB_ERROR && error->code == LARDER_ETIMEOUT) {
        const char *of = strstr(error->text, " of ");
        error_set(&out->error.error, LARDER_ETIMEOUT, "rank %u%s", action->rank, of ? of : "");
        return of != NULL;
    }
    return 0;
}

size_t sabotage_rank(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out)
{
    if (loses_rank(sabotage, action))
        return sabotage_take(sabotage) ? 0 : 1;
    size_t count = rank_wrong(sabotage, action, out);
    if (count > 0 && sabotage_take(sabotage))
        return count;
    out[0] = *action;
    return 1;
}
