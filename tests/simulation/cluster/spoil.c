/* spoil.c: wrong deeds of a node, each of which must be found. Some are done between the fleet's parts, others inside
 * the engine or a merge: the linker puts them into the place of the function that they are about. */
#include "common/check.h"
#include "server/cluster/merge_priv.h"
#include "server/engine/plan.h"
#include "tests/simulation/cluster/cluster.h"

/* The run in which a wrong deed is done; NULL: none is. */
static struct cluster *wrong;

/* ── the engine's draws ── */

bool __real_plan_goes_elsewhere(struct plan *plan, const struct job *job);
bool __wrap_plan_goes_elsewhere(struct plan *plan, const struct job *job);
sample_id __real_plan_draw_elsewhere(struct plan *plan, uint32_t job);
sample_id __wrap_plan_draw_elsewhere(struct plan *plan, uint32_t job);

/* What is here and what is elsewhere are not drawn in proportion. */
bool __wrap_plan_goes_elsewhere(struct plan *plan, const struct job *job)
{
    bool goes = __real_plan_goes_elsewhere(plan, job);
    if (!wrong || wrong->spoil != SPOIL_ORDER || goes || random_below(&plan->env->rng, 4))
        return goes;
    wrong->spoiled = true;
    return true;
}

/* Homes are not drawn in proportion: of two samples that with the lower home is taken. */
sample_id __wrap_plan_draw_elsewhere(struct plan *plan, uint32_t job)
{
    sample_id first = __real_plan_draw_elsewhere(plan, job);
    if (!wrong || wrong->spoil != SPOIL_HOMES || random_below(&plan->env->rng, 4) ||
        sampler_remaining(plan->env->elsewhere, job) == 0)
        return first;
    sample_id second = __real_plan_draw_elsewhere(plan, job);
    bool swapped = wrong->home[second] < wrong->home[first];
    sampler_put_back(plan->env->elsewhere, job, swapped ? first : second, 1);
    wrong->spoiled = true;
    return swapped ? second : first;
}

/* ── a merge's parts ── */

void __real_merge_attach(struct merge *merge, struct part *part);
void __wrap_merge_attach(struct merge *merge, struct part *part);

/* A home that has said LAST is believed: what is left of the part is asked of nobody. */
void __wrap_merge_attach(struct merge *merge, struct part *part)
{
    if (!wrong || wrong->spoil != SPOIL_LAST || !part->dry || bag_count(part->left) == 0) {
        __real_merge_attach(merge, part);
        return;
    }
    bag_destroy(part->left);
    CHECK(bag_create(&part->left) == 0);
    part->state = PART_DONE;
    part->dry = false;
    wrong->spoiled = true;
}

bool __real_pace_saw(struct pace *pace, double signed_s);
bool __wrap_pace_saw(struct pace *pace, double signed_s);

/* No home is slow, or each is that the job stood still for. */
bool __wrap_pace_saw(struct pace *pace, double signed_s)
{
    bool slow = __real_pace_saw(pace, signed_s), wrong_one = slow;
    if (wrong && wrong->spoil == SPOIL_KEEP)
        wrong_one = false;
    if (wrong && wrong->spoil == SPOIL_FLEE)
        wrong_one = true;
    if (slow != wrong_one)
        wrong->spoiled = true;
    return wrong_one;
}

void spoil_begin(struct cluster *cluster)
{
    wrong = cluster;
}

void spoil_end(void)
{
    wrong = NULL;
}

/* ── others ── */

/* Half of a set is left out. */
static void spoil_back(struct cluster *cluster, struct idset *back)
{
    for (sample_id id = 0; id < cluster->n_samples; id++) {
        if (idset_contains(back, id) && cluster_odds(cluster, 500)) {
            idset_remove(back, id);
            cluster->spoiled = true;
        }
    }
}

static bool spoil_action(struct cluster *cluster, struct anchor_action *action)
{
    if (cluster->spoil == SPOIL_ACKED && action->type == ANCHOR_NEXT && action->next.acked + 1 < action->next.seq) {
        action->next.acked = action->next.seq - 1;
        cluster->spoiled = true;
    } else if (cluster->spoil == SPOIL_TERMS && action->type <= ANCHOR_DETACH) {
        cluster->spoiled = cluster->spoiled || action->term > 1;
        action->term = 1;
    } else if (cluster->spoil == SPOIL_BACK && action->type == ANCHOR_BACK) {
        cluster->spoiled = true;
        return true;
    } else if (cluster->spoil == SPOIL_PART && action->type == ANCHOR_BACK) {
        spoil_back(cluster, action->back);
    }
    return false;
}

static void spoil_answer(struct cluster *cluster, const struct merge_event *event)
{
    struct merge_sample *samples = (struct merge_sample *)event->batch.samples;
    if (event->type != MERGE_BATCH || event->batch.count < 2)
        return;
    if (cluster->spoil == SPOIL_LENGTH && cluster->sized == 3 && samples[0].bytes < FLEET_SIZED_BYTES) {
        samples[0].bytes = FLEET_SIZED_BYTES;
        cluster->spoiled = true;
    }
    struct merge_sample first = samples[0];
    if (cluster->spoil == SPOIL_BYTES) {
        samples[0] = samples[1];
        samples[1] = first;
        cluster->spoiled = true;
    } else if (cluster->spoil == SPOIL_TAKEN) { /* its second arrival is to be refused */
        samples[1] = first;
    }
}

static void spoil_given(struct cluster *cluster, struct fleet_given *given)
{
    struct merge_sample *samples = (struct merge_sample *)given->samples;
    uint64_t *instances = (uint64_t *)given->instances;
    if (cluster->spoil != SPOIL_OTHER || given->n_samples < 2 || !ledger_has(cluster, given))
        return;
    struct merge_sample sample = samples[0];
    uint64_t instance = instances[0];
    samples[0] = samples[1];
    instances[0] = instances[1];
    samples[1] = sample;
    instances[1] = instance;
    cluster->spoiled = true;
}

static bool spoil_away(struct cluster *cluster, struct bag *moved)
{
    bool both = cluster->spoil == SPOIL_BOTH && bag_count(moved) > 0;
    for (sample_id id = 0; cluster->spoil == SPOIL_AWAY && id < cluster->n_samples; id++) {
        if (!bag_has(moved, id) || !cluster_odds(cluster, 500))
            continue;
        CHECK(bag_put(moved, id, 0) == 0);
        cluster->spoiled = true;
    }
    cluster->spoiled = cluster->spoiled || both;
    return both;
}

static void spoil_family(struct cluster *cluster, uint64_t *family)
{
    if (cluster->spoil != SPOIL_KIN || !*family)
        return;
    *family = 0;
    cluster->spoiled = true;
}

bool spoil_deed(void *ctx, enum fleet_spoil what, void *thing)
{
    struct cluster *cluster = ctx;
    bool *set = thing;
    if (what == FLEET_SPOIL_ACTION)
        return spoil_action(cluster, thing);
    if (what == FLEET_SPOIL_AWAY)
        return spoil_away(cluster, thing);
    if (what == FLEET_SPOIL_FAMILY)
        spoil_family(cluster, thing);
    if (what == FLEET_SPOIL_ANSWER)
        spoil_answer(cluster, thing);
    if (what == FLEET_SPOIL_GIVEN)
        faults_stop_short(cluster, thing);
    if (what == FLEET_SPOIL_GIVEN)
        spoil_given(cluster, thing);
    if (what == FLEET_SPOIL_TAKEN && cluster->spoil == SPOIL_TAKEN && !set[0] && !set[1])
        set[0] = cluster->spoiled = true;
    return false;
}
