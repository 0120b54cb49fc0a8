/* plan_elsewhere.c: samples that other nodes give to a job.
 *
 * The rest of a job's epoch has two multisets: R_j, and the draws left elsewhere. Each pick falls on one of them in
 * proportion to its size, so each draw is uniform over all that is left. A pick from elsewhere makes an entry that
 * expects the sample y. The node that has y is asked for any sample of the job's, and gives x, by its own draw. Then
 * the entry is for x, and y is left again; but if another entry expected x, that one gets it, and this one goes on
 * expecting y. So draws only change places: whatever the nodes give, and however often, each draw has one place: it is
 * left elsewhere, or an entry or a reserve has it and is marked `elsewhere`, until it has come. */
#include <stdlib.h>

#include "common/check.h"
#include "sampler/bag.h"
#include "server/engine/plan.h"
#include "server/engine/resume.h"

/* ── an epoch begins ── */

/* told_of returns what a rank had of this epoch before the job was made; NULL: nothing. */
static const struct resume_rank *told_of(const struct job *job, uint32_t rank)
{
    const struct resume *resume = job->resume;
    const struct resume_rank *told = &resume->ranks[rank];
    return resume->epoch == job->progress.epoch && told->told && told->epoch == resume->epoch ? told : NULL;
}

/* find_gone makes the set of the samples that nobody gives in this epoch: other nodes' ranks get them, or ranks here
 * had them before the job was made. */
static int find_gone(const struct job *job, struct idset **out)
{
    const struct resume *resume = job->resume;
    int code = job->progress.away ? idset_copy(job->progress.away, out) : idset_create(out);
    if (!code && resume && resume->epoch == job->progress.epoch && resume->base)
        idset_add_all(*out, resume->base);
    for (uint32_t rank = 0; !code && resume && rank < resume->world_size; rank++) {
        const struct resume_rank *told = told_of(job, rank);
        if (told && told->turns)
            idset_add_all(*out, told->turns);
    }
    return code;
}

/* A multiset's draws, counted by sample. */
struct draw_counts {
    const sample_id *ids; /* of the multiset, `n` of them */
    uint32_t n;
    uint32_t *here, *left; /* those that are drawn here; those to come, of all */
};

/* count_had adds what was had: a set, which may be NULL, and further draws. */
static int count_had(struct bag *had, const struct idset *set, const struct engine_again *again)
{
    uint64_t count = set ? idset_count(set) : 0;
    sample_id *ids = malloc((count + 1) * sizeof *ids);
    int code = ids ? 0 : LARDER_ENOMEM;
    if (!code && count)
        idset_to_array(set, ids);
    for (uint64_t i = 0; !code && i < count; i++)
        code = bag_put(had, ids[i], bag_times(had, ids[i]) + 1);
    for (uint64_t i = 0; !code && i < again->count; i++)
        code = bag_put(had, again->ids[i], bag_times(had, again->ids[i]) + 1);
    free(ids);
    return code;
}

/* find_had makes the bag of the draws that ranks here had before the job was made. */
static int find_had(const struct job *job, struct bag **out)
{
    const struct resume *resume = job->resume;
    int code = bag_create(out);
    if (!code && resume && resume->epoch == job->progress.epoch)
        code = count_had(*out, resume->base, &resume->base_again);
    for (uint32_t rank = 0; !code && resume && rank < resume->world_size; rank++) {
        const struct resume_rank *told = told_of(job, rank);
        if (told)
            code = count_had(*out, told->turns, &told->again);
    }
    return code;
}

/* left_of_set makes a bag of the samples that are to come in this epoch. */
static int left_of_set(const struct job *job, struct bag **out)
{
    struct idset *gone = NULL, *left = NULL;
    int code = find_gone(job, &gone);
    if (!code)
        code = idset_difference(job->terms.view, gone, &left);
    if (!code)
        code = bag_of_set(left, out);
    idset_destroy(gone);
    idset_destroy(left);
    return code;
}

/* left_of_draws does it where an epoch is a multiset, and counts them. */
static int left_of_draws(const struct job *job, struct draw_counts *counted, struct bag **out)
{
    struct bag *had = NULL;
    int code = find_had(job, &had);
    if (!code)
        code = bag_create(out);
    for (uint32_t i = 0; !code && i < counted->n; i++) {
        uint32_t gone = bag_times(had, counted->ids[i]), all = counted->here[i];
        counted->left[i] = gone < all ? all - gone : 0;
        if (counted->left[i])
            code = bag_put(*out, counted->ids[i], counted->left[i]);
    }
    bag_destroy(had);
    return code;
}

/* begin_set takes out of either sampler what is in the other. What was had is in R_j yet. */
static int begin_set(struct plan *plan, const struct job *job, const struct bag *left, const struct idset *there)
{
    struct idset *ids = NULL, *elsewhere = NULL, *rest = NULL;
    sampler_start_epoch(plan->env->elsewhere, job->no, 0);
    int code = bag_ids(left, &ids);
    if (!code)
        code = idset_intersection(ids, there, &elsewhere);
    if (!code)
        code = idset_difference(job->terms.view, elsewhere, &rest);
    if (!code)
        code = sampler_take_all(plan->env->elsewhere, job->no, rest);
    if (!code)
        code = sampler_take_all(plan->env->sampler, job->no, elsewhere);
    idset_destroy(ids);
    idset_destroy(elsewhere);
    idset_destroy(rest);
    return code;
}

static int begin_draws(struct plan *plan, const struct job *job, struct draw_counts *counted, const struct idset *there)
{
    uint32_t most = 0; /* all of a sample's draws may come to be in either */
    for (uint32_t i = 0; i < counted->n; i++) {
        most = counted->here[i] > most ? counted->here[i] : most;
        counted->left[i] = idset_contains(there, counted->ids[i]) ? counted->left[i] : 0;
        counted->here[i] -= counted->left[i];
    }
    int code = sampler_start_multiset(plan->env->elsewhere, job->no, counted->left, most);
    return code ? code : sampler_start_multiset(plan->env->sampler, job->no, counted->here, most);
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

/* begin asks for what is elsewhere of what is left, and parts it. */
static int begin(struct plan *plan, struct job *job, struct draw_counts *counted, bool *changed)
{
    const struct engine_homes *homes = &job->terms.homes;
    struct bag *left = NULL;
    struct idset *there = NULL, *here = NULL;
    int code = counted ? left_of_draws(job, counted, &left) : left_of_set(job, &left);
    if (!code)
        code = homes->elsewhere(homes->map, job->progress.epoch, left, &there);
    if (!code)
        code = counted ? begin_draws(plan, job, counted, there) : begin_set(plan, job, left, there);
    if (!code)
        code = idset_difference(job->terms.view, there, &here);
    if (!code)
        *changed = see_here(job, here);
    bag_destroy(left);
    idset_destroy(there);
    return code;
}

int plan_elsewhere_begin(struct plan *plan, struct job *job, uint32_t *counts, bool *changed)
{
    struct draw_counts counted = {.here = counts};
    *changed = false;
    if (!job->terms.homes.elsewhere)
        return 0;
    bag_destroy(job->progress.whole);
    job->progress.whole = NULL;
    if (job_is_together(job) && bag_create(&job->progress.whole))
        return LARDER_ENOMEM;
    if (!counts)
        return begin(plan, job, NULL, changed);
    counted.ids = multiset_ids(job->terms.multiset, &counted.n);
    counted.left = malloc(((size_t)counted.n + 1) * sizeof *counted.left);
    int code = counted.left ? begin(plan, job, &counted, changed) : LARDER_ENOMEM;
    free(counted.left);
    return code;
}

/* ── draws ── */

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

/* put_left has draws of a sample be left again, elsewhere or here. */
static void put_left(struct plan *plan, const struct job *job, sample_id id, uint32_t draws, bool elsewhere)
{
    sampler_put_back(elsewhere ? plan->env->elsewhere : plan->env->sampler, job->no, id, draws);
    if (draws && !elsewhere)
        residents_back(plan->residents, job->no, id);
}

/* entry_becomes makes the entry, which is not READY, that of another sample. */
static void entry_becomes(struct plan *plan, uint32_t index, sample_id id, bool elsewhere)
{
    struct entry *entry = &plan->queues->entries[index];
    entry->id = entry->turn = id;
    entry->elsewhere = elsewhere;
    if (entry->state == ENTRY_WAITING)
        tasks_rename(plan->tasks, plan->prepared->instances[entry->instance].task, id);
}

/* find_expecting returns the job's entry that expects the sample, or has yet to be placed to do so; ENGINE_NONE when
 * there is none. */
static uint32_t find_expecting(const struct plan *plan, const struct job *job, sample_id id)
{
    const struct entry *entries = plan->queues->entries;
    INSTANCES_OF(plan->prepared, id, at) {
        const struct instance *instance = &plan->prepared->instances[at];
        uint32_t waiter = instance->expected ? instance->waiters : ENGINE_NONE;
        if (waiter != ENGINE_NONE && entries[waiter].job == job->no && entries[waiter].elsewhere)
            return waiter;
    }
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct rank_line *line = &job->queues[rank].line;
        for (uint32_t at = line->unplaced ? line->entries.head : ENGINE_NONE; at != ENGINE_NONE;
             at = entries[at].in_line.next) {
            if (entries[at].state == ENTRY_UNPLACED && entries[at].id == id && entries[at].elsewhere)
                return at;
        }
    }
    return ENGINE_NONE;
}

/* find_reserved returns the place of the sample in a reserve of the job's that expects it, and its rank; NULL when it
 * is in none. */
static struct allotted *find_reserved(const struct job *job, sample_id id, uint32_t *of)
{
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct reserve *reserve = &job->queues[rank].reserve;
        for (uint64_t at = reserve->at; at < reserve->end; at++) {
            *of = rank;
            if (reserve->samples[at].id == id && reserve->samples[at].elsewhere)
                return &reserve->samples[at];
        }
    }
    return NULL;
}

/* trade_instances has the entry `other`, which expects the sample x, get the instance that came for it to the entry
 * `index`, which gets the other's. */
static void trade_instances(struct plan *plan, uint32_t index, uint32_t other)
{
    struct entry *entries = plan->queues->entries;
    const uint32_t pair[] = {index, other};
    uint32_t instance = entries[index].instance;
    entries[index].instance = entries[other].instance;
    entries[other].instance = instance;
    for (int i = 0; i < 2; i++) {
        struct instance *its = &plan->prepared->instances[entries[pair[i]].instance];
        its->waiters = pair[i];
        tasks_rename(plan->tasks, its->task, entries[pair[i]].id);
    }
    entries[other].elsewhere = false;
}

/* find_placed returns an entry of the rank's that expects a sample and has a place for it; ENGINE_NONE: there is
 * none. */
static uint32_t find_placed(const struct plan *plan, const struct job *job, uint32_t rank)
{
    const struct entry *entries = plan->queues->entries;
    uint32_t at = job->queues[rank].line.entries.head;
    while (at != ENGINE_NONE && !(entries[at].elsewhere && entries[at].state == ENTRY_WAITING))
        at = entries[at].in_line.next;
    return at;
}

/* become has what expects a sample without a place expect another one: an entry, or with ENGINE_NONE the reserve. */
static void become(struct plan *plan, uint32_t entry, struct allotted *reserved, sample_id id, bool elsewhere)
{
    if (entry != ENGINE_NONE)
        entry_becomes(plan, entry, id, elsewhere);
    else
        *reserved = (struct allotted){.id = id, .turn = id, .elsewhere = elsewhere};
}

/* ── copies that are dealt together ── */

/* The copies of a sample are dealt to different ranks. So all of them change places with those of another sample, or
 * none does: as soon as one has come, each of the others has its rank. */

/* find_whole returns a sample with so many copies, of which all are expected and none has come: y, or one that an entry
 * with a place expects; SAMPLE_NONE when there is none. */
static sample_id find_whole(const struct plan *plan, const struct job *job, sample_id y, uint32_t copies)
{
    const struct entry *entries = plan->queues->entries;
    const struct bag *whole = job->progress.whole;
    if (!whole || bag_times(whole, y) == copies)
        return whole ? y : SAMPLE_NONE;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        uint32_t at = job->queues[rank].line.entries.head;
        for (; at != ENGINE_NONE; at = entries[at].in_line.next) {
            bool placed = entries[at].elsewhere && entries[at].state == ENTRY_WAITING;
            if (placed && bag_times(whole, entries[at].id) == copies)
                return entries[at].id;
        }
    }
    return SAMPLE_NONE;
}

/* bind has the copies of the sample x, which are left elsewhere, expected by ranks: those of a sample of which none has
 * come, y if possible, are left instead. Without such a sample those of x are dealt as if they had been drawn. It
 * returns false when no share has room for any. */
static bool bind(struct plan *plan, struct job *job, sample_id x, sample_id y)
{
    uint32_t copies = sampler_take_draws(plan->env->elsewhere, job->no, x), rank;
    sample_id z = find_whole(plan, job, y, copies);
    if (z == SAMPLE_NONE) {
        uint32_t left = plan_deal_later(plan, job, (struct allotted){x, x, 0, true}, copies);
        put_left(plan, job, x, left, true);
        return left < copies;
    }
    for (uint32_t copy = 0; copy < copies; copy++) {
        uint32_t entry = find_expecting(plan, job, z);
        become(plan, entry, entry == ENGINE_NONE ? find_reserved(job, z, &rank) : NULL, x, true);
    }
    put_left(plan, job, z, copies, true);
    plan_set_whole(job, z, 0);
    plan_set_whole(job, x, copies);
    return true;
}

/* What becomes of a sample that came. */
enum receipt {
    REFUSED,  /* it is not among what the job is to get from elsewhere */
    RECEIVED, /* an entry with a place gets it */
    EARLY,    /* it came to another rank's place, and its own has none yet */
};

/* receive_dealt gives the sample x, which came to the entry, to what expects it. Where a sample's copies are dealt
 * together, that is the rank that x was dealt to; else the entry takes the place of what has none. */
static enum receipt receive_dealt(struct plan *plan, uint32_t index, sample_id x)
{
    struct entry *entries = plan->queues->entries, *entry = &entries[index];
    const struct job *job = job_at(plan->jobs, entry->job);
    uint32_t other = find_expecting(plan, job, x), rank = 0;
    struct allotted *reserved = other == ENGINE_NONE ? find_reserved(job, x, &rank) : NULL;
    if (other == ENGINE_NONE && !reserved)
        return REFUSED;
    if (other == ENGINE_NONE || entries[other].state == ENTRY_UNPLACED) {
        uint32_t placed = find_placed(plan, job, reserved ? rank : entries[other].rank);
        if (placed == ENGINE_NONE && job_is_together(job)) {
            become(plan, other, reserved, x, false);
            job->queues[reserved ? rank : entries[other].rank].line.no_room_since = 0;
            tasks_rename(plan->tasks, plan->prepared->instances[entry->instance].task, x);
            return EARLY;
        }
        if (placed == ENGINE_NONE || placed == index) {
            become(plan, other, reserved, entry->id, entry->elsewhere);
            entry_becomes(plan, index, x, false);
            return RECEIVED;
        }
        become(plan, other, reserved, entries[placed].id, true);
        entry_becomes(plan, placed, x, true);
        other = placed;
    }
    trade_instances(plan, index, other);
    return RECEIVED;
}

/* receive gives the sample x, which came to the entry, to one that expects it, or has it take the place of the sample y
 * that the entry expects. */
static enum receipt receive(struct plan *plan, uint32_t index, sample_id x)
{
    struct entry *entry = &plan->queues->entries[index];
    struct job *job = job_at(plan->jobs, entry->job);
    sample_id y = entry->id;
    bool left = x != y && sampler_wants(plan->env->elsewhere, job->no, x);
    if (left && !job_is_together(job)) {
        sampler_take(plan->env->elsewhere, job->no, x);
        put_left(plan, job, y, 1, entry->elsewhere);
        entry_becomes(plan, index, x, false);
        return RECEIVED;
    }
    uint32_t rank;
    if (left && find_expecting(plan, job, x) == ENGINE_NONE && !find_reserved(job, x, &rank) && !bind(plan, job, x, y))
        return REFUSED;
    if (entry->id != x)
        return receive_dealt(plan, index, x);
    entry->elsewhere = false;
    return RECEIVED;
}

void plan_on_arrived(struct plan *plan, const struct engine_event *event)
{
    uint32_t task = event->arrived.task;
    sample_id id = event->arrived.id;
    CHECK(task < plan->tasks->slab.size && plan->tasks->tasks[task].state == TASK_EXPECTED);
    CHECK(event->arrived.reason >= 0 && event->arrived.reason < BAD_REASONS);
    uint32_t waiter = plan->prepared->instances[plan->tasks->tasks[task].outputs[0]].waiters;
    enum receipt receipt = id != SAMPLE_NONE && waiter != ENGINE_NONE ? receive(plan, waiter, id) : REFUSED;
    *event->arrived.taken = receipt != REFUSED;
    *event->arrived.over = waiter == ENGINE_NONE || id == SAMPLE_NONE || *event->arrived.taken;
    plan->env->counts.samples_arrived += *event->arrived.taken;
    plan->env->counts.arrivals_refused += id != SAMPLE_NONE && !*event->arrived.taken;
    if (!*event->arrived.over)
        return;
    if (receipt != REFUSED)
        plan_set_whole(job_at(plan->jobs, plan->tasks->tasks[task].job), id, 0);
    if (receipt == REFUSED || (receipt == EARLY && event->arrived.reason))
        tasks_arrived_not(plan->tasks, task);
    else if (receipt == EARLY)
        tasks_arrived_early(plan->tasks, task, event->arrived.bytes);
    else if (event->arrived.reason)
        tasks_fail(plan->tasks, task, event->arrived.reason);
    else
        tasks_arrived(plan->tasks, task, event->arrived.bytes);
}

/* A set of samples that comes back to a job. */
struct coming_back {
    struct plan *plan;
    struct job *job;
};

static void come_back(void *context, sample_id id)
{
    const struct coming_back *back = context;
    uint32_t draws = sampler_take_draws(back->plan->env->elsewhere, back->job->no, id);
    put_left(back->plan, back->job, id, draws, false);
    plan_set_whole(back->job, id, 0);
}

/* expect_no_more has nothing of the set be expected of other nodes any more. */
static void expect_no_more(struct plan *plan, const struct job *job, const struct idset *ids)
{
    struct entry *entries = plan->queues->entries;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct job_queue *queue = &job->queues[rank];
        for (uint32_t at = queue->line.entries.head; at != ENGINE_NONE; at = entries[at].in_line.next) {
            entries[at].elsewhere = entries[at].elsewhere && !idset_contains(ids, entries[at].id);
        }
        for (uint64_t at = queue->reserve.at; at < queue->reserve.end; at++) {
            struct allotted *sample = &queue->reserve.samples[at];
            sample->elsewhere = sample->elsewhere && !idset_contains(ids, sample->id);
        }
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
    struct job *job = job_at(plan->jobs, event->back.job);
    struct coming_back back = {plan, job};
    if (job->state != JOB_RUNNING || job->progress.epoch != event->back.epoch || !job->terms.homes.elsewhere)
        return 0;
    int code = each_of(event->back.ids, come_back, &back);
    if (!code)
        expect_no_more(plan, job, event->back.ids);
    return code;
}

/* ── from here to homes elsewhere ── */

/* The samples of a set that the job has left here. */
struct leaving {
    struct plan *plan;
    uint32_t job;
    struct bag *moved;
    int code;
};

static void move_away(void *context, sample_id id)
{
    struct leaving *leaving = context;
    const struct plan *plan = leaving->plan;
    uint32_t draws = leaving->code ? 0 : sampler_take_draws(plan->env->sampler, leaving->job, id);
    if (draws == 0)
        return;
    leaving->code = bag_put(leaving->moved, id, draws);
    sampler_put_back(leaving->code ? plan->env->sampler : plan->env->elsewhere, leaving->job, id, draws);
    if (!leaving->code) {
        residents_left(plan->residents, leaving->job, id);
        encoded_drop_if_idle(plan->encoded, id);
    }
}

/* expects_any tells whether the job is to get anything from elsewhere. */
static bool expects_any(const struct plan *plan, const struct job *job)
{
    const struct entry *entries = plan->queues->entries;
    bool any = job_left_elsewhere(plan->env, job) > 0;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct job_queue *queue = &job->queues[rank];
        for (uint32_t at = queue->line.entries.head; at != ENGINE_NONE; at = entries[at].in_line.next)
            any = any || entries[at].elsewhere;
        for (uint64_t at = queue->reserve.at; at < queue->reserve.end; at++)
            any = any || queue->reserve.samples[at].elsewhere;
    }
    return any;
}

/* Without memory for all that leaves, what has left already comes back. */
bool plan_on_away(struct plan *plan, const struct engine_event *event)
{
    struct job *job = job_at(plan->jobs, event->away.job);
    struct leaving leaving = {plan, job->no, NULL, 0};
    struct idset *here = NULL;
    *event->away.moved = NULL;
    if (job->state != JOB_RUNNING || job->progress.epoch != event->away.epoch || !job->terms.homes.elsewhere ||
        expects_any(plan, job) || bag_create(&leaving.moved))
        return false;
    int code = idset_difference(job->terms.view, event->away.ids, &here);
    if (!code)
        code = each_of(event->away.ids, move_away, &leaving);
    if (!code && leaving.code)
        CHECK(each_of(event->away.ids, come_back, &(struct coming_back){plan, job}) == 0);
    if (code || leaving.code) {
        bag_destroy(leaving.moved);
        idset_destroy(here);
        return false;
    }
    *event->away.moved = leaving.moved;
    return see_here(job, here);
}
