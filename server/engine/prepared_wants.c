/* prepared_wants.c: which jobs want an instance.
 *
 * want(instance) = jobs that may be given it, with the sample in R_j, that have not had it, each counted twice; and one
 * more if a job will want it again (demand_count). It is kept up to date as samples leave remaining sets. What changes
 * for many instances at once each follows when it is settled (changes.h). */
#include "server/engine/demand.h"
#include "server/engine/prepared.h"

/* A fiber lists those instances of its samples that somebody wants, and that are not alone. */
void prepared_fiber_enter(struct prepared *prepared, uint32_t index)
{
    struct fiber *fiber = chunks_fiber(prepared->chunks, prepared->instances[index].form.id);
    if (fiber)
        line_prepend(&fiber->instances, LINKS(prepared->instances, in_fiber), index);
}

void prepared_fiber_leave(struct prepared *prepared, uint32_t index)
{
    struct fiber *fiber = chunks_fiber(prepared->chunks, prepared->instances[index].form.id);
    if (fiber)
        line_remove(&fiber->instances, LINKS(prepared->instances, in_fiber), index);
}

bool prepared_is_wanted(const struct prepared *prepared, uint32_t index)
{
    return residency_want(prepared->residency, index) >= DEMAND_NOW;
}

bool prepared_is_listed(const struct prepared *prepared, uint32_t index)
{
    return prepared_is_wanted(prepared, index) && !prepared->instances[index].alone;
}

void prepared_set_alone(struct prepared *prepared, uint32_t index)
{
    if (prepared_is_listed(prepared, index))
        prepared_fiber_leave(prepared, index);
    prepared->instances[index].alone = true;
}

void prepared_set_want(struct prepared *prepared, uint32_t index, uint32_t want)
{
    bool before = prepared_is_listed(prepared, index);
    residency_set_want(prepared->residency, index, want);
    bool now = prepared_is_listed(prepared, index);
    if (!before && now)
        prepared_fiber_enter(prepared, index);
    else if (before && !now)
        prepared_fiber_leave(prepared, index);
}

void prepared_count_wants(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    prepared_set_want(prepared, index, demand_count(prepared->jobs, &instance->form, &instance->wanted));
}

void prepared_left(struct prepared *prepared, uint32_t index, uint32_t job)
{
    struct jobset *wanted = &prepared->instances[index].wanted;
    if (!jobset_has(wanted, job))
        return;
    jobset_remove(wanted, job);
    prepared_set_want(prepared, index, residency_want(prepared->residency, index) - DEMAND_NOW);
}

void prepared_back(struct prepared *prepared, uint32_t index, uint32_t job)
{
    struct instance *instance = &prepared->instances[index];
    if (jobset_has(&instance->wanted, job) || !demand_wants_instance(prepared->jobs, job, &instance->form))
        return;
    jobset_add(&instance->wanted, job);
    prepared_set_want(prepared, index, residency_want(prepared->residency, index) + DEMAND_NOW);
}

/* What an instance has to count anew. */
struct recount {
    struct jobset jobs;
    bool any, again, all;
};

static void recount_job(struct recount *recount, uint32_t job)
{
    jobset_add(&recount->jobs, job);
    recount->any = true;
}

/* follow takes what one change says of the instance, but for its want. A job that has gone or has just come wants
 * nothing. */
static void follow(struct prepared *prepared, uint32_t index, const struct change *change, struct recount *recount)
{
    struct instance *instance = &prepared->instances[index];
    struct form *form = &instance->form;
    if (change->kind != CHANGE_FORGOTTEN && form->pipeline != change->pipeline)
        return;
    switch (change->kind) {
    case CHANGE_WANTS: recount_job(recount, change->job); break;
    case CHANGE_RENEWED:
        jobset_remove(&form->had, change->job);
        prepared_set_alone(prepared, index);
        recount_job(recount, change->job);
        recount->again = true;
        break;
    case CHANGE_AGAIN: recount->again = true; break;
    case CHANGE_FORGOTTEN: jobset_remove(&form->had, change->job); break;
    case CHANGE_INHERITED_ALL: jobset_add(&form->had, change->job); break;
    case CHANGE_INHERITED:
        if (jobset_has(&form->had, change->other))
            jobset_add(&form->had, change->job);
        break;
    case CHANGE_PIPELINE_GONE:
        form->pipeline = PIPELINE_GONE;
        recount->all = true;
        break;
    case CHANGE_USES: break;
    }
}

/* count_again counts those jobs of the recount that want the instance by now. */
static void count_again(struct prepared *prepared, uint32_t index, const struct recount *recount)
{
    struct instance *instance = &prepared->instances[index];
    uint32_t want = residency_want(prepared->residency, index);
    JOBSET_EACH(job, &recount->jobs) {
        if (jobset_has(&instance->wanted, job) == demand_wants_instance(prepared->jobs, job, &instance->form))
            continue;
        instance->wanted.word[job / 64] ^= UINT64_C(1) << (job % 64);
        want = jobset_has(&instance->wanted, job) ? want + DEMAND_NOW : want - DEMAND_NOW;
    }
    if (recount->again)
        want = (want & ~DEMAND_AGAIN) | demand_again(prepared->jobs, &instance->form);
    prepared_set_want(prepared, index, want);
}

void prepared_follow(struct prepared *prepared, uint32_t index, const struct change *changes, uint32_t count)
{
    struct recount recount = {.any = false};
    for (uint32_t i = 0; i < count; i++)
        follow(prepared, index, &changes[i], &recount);
    if (recount.all)
        prepared_count_wants(prepared, index);
    else if (recount.any || recount.again)
        count_again(prepared, index, &recount);
}

bool prepared_catch_up(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    uint32_t count, before = residency_want(prepared->residency, index);
    const struct change *changes = changes_after(prepared->changes, instance->settled, &count);
    bool alone = instance->alone;
    instance->settled = prepared->changes->end;
    prepared_follow(prepared, index, changes, count);
    return residency_want(prepared->residency, index) != before || instance->alone != alone;
}
