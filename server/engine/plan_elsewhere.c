/* plan_elsewhere.c: samples that other nodes give to a job.
 *
 * The rest of a job's epoch has two sets: R_j, and the samples left elsewhere. Each pick falls on one of them in
 * proportion to its size, so each draw is uniform over all that is left. A pick from elsewhere makes an entry that
 * expects the sample y. The node that has y is asked for any sample of the job's, and gives x, by its own draw. Then
 * the entry is for x. If another entry expected x, that one now expects y; otherwise y is left again. So samples only
 * change places: whatever the nodes give, and however often, each sample has one place. */
#include "common/check.h"
#include "server/engine/plan.h"
#include "server/engine/resume.h"

/* begin_both takes out of either sampler what is in the other. */
static int begin_both(struct plan *plan, const struct job *job)
{
    struct idset *rest = NULL;
    int code = idset_difference(job->terms.view, job->progress.elsewhere, &rest);
    if (!code)
        code = sampler_take_all(plan->env->elsewhere, job->no, rest);
    if (!code)
        code = sampler_take_all(plan->env->sampler, job->no, job->progress.elsewhere);
    idset_destroy(rest);
    return code;
}

/* find_gone makes the set of the samples that nobody gives in this epoch: other nodes' ranks get them, or ranks here
 * had them before the job was made. */
static int find_gone(const struct job *job, struct idset **out)
{
    const struct resume *resume = job->resume && job->resume->epoch == job->progress.epoch ? job->resume : NULL;
    int code = job->progress.away ? idset_copy(job->progress.away, out) : idset_create(out);
    if (!code && resume && resume->base)
        idset_add_all(*out, resume->base);
    for (uint32_t rank = 0; !code && resume && rank < resume->world_size; rank++) {
        const struct resume_rank *told = &resume->ranks[rank];
        if (told->told && told->epoch == resume->epoch && told->turns)
            idset_add_all(*out, told->turns);
    }
    return code;
}

/* see_here takes note of which samples of the view have no homes elsewhere; the set becomes the job's. It tells whether
 * that differs from before. */
static bool see_here(struct job *job, struct idset *here)
{
    bool changed = !job->progress.here || !idset_equal(job->progress.here, here);
    idset_destroy(job->progress.here);
    job->progress.here = here;
    return changed;
}

int plan_elsewhere_begin(struct plan *plan, struct job *job, bool *changed)
{
    const struct engine_homes *homes = &job->terms.homes;
    struct idset *gone = NULL, *there = NULL, *here = NULL;
    *changed = false;
    if (!homes->elsewhere)
        return 0;
    idset_destroy(job->progress.elsewhere);
    job->progress.elsewhere = NULL;
    sampler_start_epoch(plan->env->elsewhere, job->no, 0);
    int code = find_gone(job, &gone);
    if (!code)
        code = homes->elsewhere(homes->map, job->progress.epoch, gone, &there);
    if (!code)
        code = idset_difference(there, gone, &job->progress.elsewhere);
    if (!code)
        code = begin_both(plan, job);
    if (!code)
        code = idset_difference(job->terms.view, there, &here);
    if (!code)
        *changed = see_here(job, here);
    idset_destroy(gone);
    idset_destroy(there);
    return code;
}

int plan_take_had(struct plan *plan, struct job *job, const struct idset *had)
{
    const struct idset *elsewhere = job->progress.elsewhere;
    struct idset *here = NULL, *there = NULL;
    if (!elsewhere)
        return sampler_take_all(plan->env->sampler, job->no, had);
    int code = idset_difference(had, elsewhere, &here);
    if (!code)
        code = idset_intersection(had, elsewhere, &there);
    if (!code)
        code = sampler_take_all(plan->env->sampler, job->no, here);
    if (!code)
        code = sampler_take_all(plan->env->elsewhere, job->no, there);
    if (!code)
        idset_remove_all(job->progress.elsewhere, there);
    idset_destroy(here);
    idset_destroy(there);
    return code;
}

bool plan_goes_elsewhere(struct plan *plan, const struct job *job)
{
    uint64_t here = sampler_remaining(plan->env->sampler, job->no);
    return here == 0 || random_below(&plan->env->rng, job_left(plan->env, job)) >= here;
}

sample_id plan_draw_elsewhere(struct plan *plan, uint32_t job)
{
    struct jobset need = {{0}};
    struct pick pick;
    jobset_add(&need, job);
    CHECK(sampler_round(plan->env->elsewhere, &need, &pick) == 1);
    return pick.id;
}

/* A repeat counts as no sample, and a substitute counts as another one: both are prepared here. */
bool plan_expects(const struct plan *plan, const struct entry *entry)
{
    const struct idset *elsewhere = job_at(plan->jobs, entry->job)->progress.elsewhere;
    return elsewhere && entry->turn == entry->id && !entry->substitute && idset_contains(elsewhere, entry->id);
}

/* put_left has a sample be left again, here or elsewhere. */
static void put_left(struct plan *plan, const struct job *job, sample_id id)
{
    if (idset_contains(job->progress.elsewhere, id)) {
        sampler_put_back(plan->env->elsewhere, job->no, id);
        return;
    }
    sampler_put_back(plan->env->sampler, job->no, id);
    residents_back(plan->residents, job->no, id);
}

/* entry_becomes makes the entry, which is not READY, that of another sample. */
static void entry_becomes(struct plan *plan, uint32_t index, sample_id id)
{
    struct entry *entry = &plan->queues->entries[index];
    entry->id = entry->turn = id;
    if (entry->state == ENTRY_WAITING)
        tasks_rename(plan->tasks, plan->prepared->instances[entry->instance].task, id);
}

/* find_expecting returns the job's entry that expects the sample, or has yet to be placed to do so; ENGINE_NONE when
 * there is none. */
static uint32_t find_expecting(const struct plan *plan, const struct job *job, sample_id id)
{
    INSTANCES_OF(plan->prepared, id, at) {
        const struct instance *instance = &plan->prepared->instances[at];
        if (instance->expected && instance->waiters != ENGINE_NONE &&
            plan->queues->entries[instance->waiters].job == job->no)
            return instance->waiters;
    }
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct rank_line *line = &job->queues[rank].line;
        for (uint32_t at = line->unplaced ? line->entries.head : ENGINE_NONE; at != ENGINE_NONE;
             at = plan->queues->entries[at].in_line.next) {
            const struct entry *entry = &plan->queues->entries[at];
            if (entry->state == ENTRY_UNPLACED && entry->id == id && plan_expects(plan, entry))
                return at;
        }
    }
    return ENGINE_NONE;
}

/* find_reserved returns the place of the sample in a reserve of the job's; NULL when it is in none. */
static struct allotted *find_reserved(const struct job *job, sample_id id)
{
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct reserve *reserve = &job->queues[rank].reserve;
        for (uint64_t at = reserve->at; at < reserve->end; at++) {
            if (reserve->samples[at].id == id && reserve->samples[at].turn == id)
                return &reserve->samples[at];
        }
    }
    return NULL;
}

/* receive has the sample x take the place of the one that the entry expects. It returns false when x is not among what
 * the job is to get from elsewhere. */
static bool receive(struct plan *plan, uint32_t index, sample_id x)
{
    const struct entry *entry = &plan->queues->entries[index];
    struct job *job = job_at(plan->jobs, entry->job);
    sample_id y = entry->id;
    if (x != y && !idset_contains(job->progress.elsewhere, x))
        return false;
    bool left = x != y && sampler_wants(plan->env->elsewhere, job->no, x);
    /* only while x is elsewhere can an entry that is not placed yet expect it */
    uint32_t other = x == y || left ? ENGINE_NONE : find_expecting(plan, job, x);
    idset_remove(job->progress.elsewhere, x);
    if (x == y)
        return true;
    if (left) {
        sampler_take(plan->env->elsewhere, job->no, x);
        put_left(plan, job, y);
    } else {
        struct allotted *reserved = other == ENGINE_NONE ? find_reserved(job, x) : NULL;
        CHECK(other != ENGINE_NONE || reserved);
        if (other != ENGINE_NONE)
            entry_becomes(plan, other, y);
        else
            reserved->id = reserved->turn = y;
    }
    entry_becomes(plan, index, x);
    return true;
}

void plan_on_arrived(struct plan *plan, const struct engine_event *event)
{
    uint32_t task = event->arrived.task;
    sample_id id = event->arrived.id;
    CHECK(task < plan->tasks->slab.size && plan->tasks->tasks[task].state == TASK_EXPECTED);
    CHECK(event->arrived.reason >= 0 && event->arrived.reason < BAD_REASONS);
    uint32_t waiter = plan->prepared->instances[plan->tasks->tasks[task].outputs[0]].waiters;
    *event->arrived.taken = id != SAMPLE_NONE && waiter != ENGINE_NONE && receive(plan, waiter, id);
    *event->arrived.over = waiter == ENGINE_NONE || id == SAMPLE_NONE || *event->arrived.taken;
    plan->env->counts.samples_arrived += *event->arrived.taken;
    plan->env->counts.arrivals_refused += id != SAMPLE_NONE && !*event->arrived.taken;
    if (!*event->arrived.over)
        return;
    if (!*event->arrived.taken)
        tasks_arrived_not(plan->tasks, task);
    else if (event->arrived.reason)
        tasks_fail(plan->tasks, task, event->arrived.reason);
    else
        tasks_arrived(plan->tasks, task);
}

/* A set of samples that comes back to a job. */
struct coming_back {
    struct plan *plan;
    const struct job *job;
};

static void come_back(void *context, sample_id id)
{
    const struct coming_back *back = context;
    struct idset *elsewhere = back->job->progress.elsewhere;
    struct sampler *sampler = back->plan->env->elsewhere;
    if (!idset_contains(elsewhere, id))
        return;
    idset_remove(elsewhere, id);
    if (sampler_wants(sampler, back->job->no, id)) {
        sampler_take(sampler, back->job->no, id);
        put_left(back->plan, back->job, id);
    }
}

/* A visit of each sample of a set. */
struct visit_each {
    sampler_visit *visit;
    void *context;
};

static void visit_page(void *context, uint32_t page, const uint64_t *words)
{
    const struct visit_each *each = context;
    for (uint32_t word = 0; word < IDSET_PAGE_WORDS; word++) {
        for (uint64_t bits = words[word]; bits; bits &= bits - 1)
            each->visit(each->context, (page * IDSET_PAGE_WORDS + word) * 64 + (uint32_t)__builtin_ctzll(bits));
    }
}

static int each_of(const struct idset *ids, sampler_visit *visit, void *context)
{
    return idset_each_page(ids, visit_page, &(struct visit_each){visit, context});
}

int plan_on_back(struct plan *plan, const struct engine_event *event)
{
    const struct job *job = job_at(plan->jobs, event->back.job);
    struct coming_back back = {plan, job};
    if (job->state != JOB_RUNNING || job->progress.epoch != event->back.epoch || !job->progress.elsewhere)
        return 0;
    return each_of(event->back.ids, come_back, &back);
}

/* ── from here to homes elsewhere ── */

/* The samples of a set that the job has left here. */
struct leaving {
    const struct plan *plan;
    uint32_t job;
    struct idset *left;
};

static void visit_left(void *context, sample_id id)
{
    struct leaving *leaving = context;
    if (sampler_wants(leaving->plan->env->sampler, leaving->job, id))
        idset_add(leaving->left, id);
}

static void move_away(void *context, sample_id id)
{
    const struct leaving *leaving = context;
    const struct plan *plan = leaving->plan;
    sampler_take(plan->env->sampler, leaving->job, id);
    sampler_put_back(plan->env->elsewhere, leaving->job, id);
    residents_left(plan->residents, leaving->job, id);
    encoded_drop_if_idle(plan->encoded, id);
}

bool plan_on_away(struct plan *plan, const struct engine_event *event)
{
    struct job *job = job_at(plan->jobs, event->away.job);
    struct leaving leaving = {plan, job->no, NULL};
    struct idset *here = NULL;
    *event->away.moved = NULL;
    if (job->state != JOB_RUNNING || job->progress.epoch != event->away.epoch || !job->progress.elsewhere ||
        idset_count(job->progress.elsewhere) > 0 || idset_create(&leaving.left))
        return false;
    int code = each_of(event->away.ids, visit_left, &leaving);
    if (!code)
        code = idset_difference(job->terms.view, event->away.ids, &here);
    if (!code)
        code = each_of(leaving.left, move_away, &leaving); /* the last that may fail: it moves all or none */
    if (code) {
        idset_destroy(leaving.left);
        idset_destroy(here);
        return false;
    }
    idset_add_all(job->progress.elsewhere, leaving.left);
    *event->away.moved = leaving.left;
    return see_here(job, here);
}
