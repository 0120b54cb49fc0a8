/* prepared_wants.c: which jobs want an instance.
 *
 * want(instance) = jobs that may be given it, with the sample in R_j, that have not had it, each counted twice; and one
 * more if a job will want it again (demand_count). It is kept up to date as samples leave remaining sets. An instance
 * follows changes to many at once only when it is settled (changes.h). */
#include "server/engine/demand.h"
#include "server/engine/prepared.h"

/* A fiber lists those instances of its samples that somebody wants, and that are not alone. */
void prepared_fiber_enter(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    struct fiber *fiber = chunks_fiber(prepared->chunks, instance->form.id);
    if (!fiber || instance->arranged == prepared->chunks->arranged)
        return;
    instance->arranged = prepared->chunks->arranged;
    chunks_add_member(&fiber->instances, index);
}

void prepared_fiber_leave(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    if (instance->arranged != prepared->chunks->arranged)
        return;
    instance->arranged = 0;
    chunks_remove_member(&chunks_fiber(prepared->chunks, instance->form.id)->instances, index);
}

bool prepared_is_wanted(const struct prepared *prepared, uint32_t index)
{
    return prepared->instances[index].want >= DEMAND_NOW;
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
    prepared->instances[index].want = want & INSTANCE_WANT_MASK;
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
    prepared_set_want(prepared, index, prepared->instances[index].want - DEMAND_NOW);
}

void prepared_back(struct prepared *prepared, uint32_t index, uint32_t job)
{
    struct instance *instance = &prepared->instances[index];
    if (jobset_has(&instance->wanted, job) || !demand_wants_instance(prepared->jobs, job, &instance->form))
        return;
    jobset_add(&instance->wanted, job);
    prepared_set_want(prepared, index, prepared->instances[index].want + DEMAND_NOW);
}

/* count_job counts anew whether the job wants the instance. */
static void count_job(struct prepared *prepared, struct instance *instance, uint32_t job, uint32_t *want)
{
    if (jobset_has(&instance->wanted, job) == demand_wants_instance(prepared->jobs, job, &instance->form))
        return;
    if (jobset_has(&instance->wanted, job)) {
        jobset_remove(&instance->wanted, job);
        *want -= DEMAND_NOW;
    } else {
        jobset_add(&instance->wanted, job);
        *want += DEMAND_NOW;
    }
}

/* follow_one takes what one change says of the instance. A job that has gone or has just come wants nothing. Whether a
 * job wants it goes by what holds now, so the last line that names the job has the last word. */
static void follow_one(struct prepared *prepared, uint32_t index, const struct change *change, uint32_t *want)
{
    struct instance *instance = &prepared->instances[index];
    struct form *form = &instance->form;
    if (change->kind == CHANGE_FORGOTTEN)
        jobset_remove(&form->had, change->job);
    if (form->pipeline != change->pipeline)
        return;
    switch (change->kind) {
    case CHANGE_WANTS: count_job(prepared, instance, change->job, want); break;
    case CHANGE_RENEWED:
        jobset_remove(&form->had, change->other);
        prepared_set_alone(prepared, index);
        count_job(prepared, instance, change->job, want);
        *want = (*want & ~DEMAND_AGAIN) | demand_again(prepared->jobs, form);
        break;
    case CHANGE_AGAIN: *want = (*want & ~DEMAND_AGAIN) | demand_again(prepared->jobs, form); break;
    case CHANGE_INHERITED_ALL: jobset_add(&form->had, change->job); break;
    case CHANGE_INHERITED:
        if (jobset_has(&form->had, change->other))
            jobset_add(&form->had, change->job);
        break;
    case CHANGE_PIPELINE_GONE:
        form->pipeline = PIPELINE_GONE;
        *want = demand_count(prepared->jobs, form, &instance->wanted);
        break;
    case CHANGE_FORGOTTEN:
    case CHANGE_USES: break;
    }
}

bool prepared_follow(struct prepared *prepared, uint32_t index, const struct change *changes, uint32_t count)
{
    uint32_t before = prepared->instances[index].want, want = before;
    bool alone = prepared->instances[index].alone;
    for (uint32_t i = 0; i < count; i++)
        follow_one(prepared, index, &changes[i], &want);
    if (want != before)
        prepared_set_want(prepared, index, want);
    return want != before || prepared->instances[index].alone != alone;
}

bool prepared_catch_up(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    uint32_t count;
    const struct change *changes = changes_after(prepared->changes, instance->settled, &count);
    instance->settled = prepared->changes->end;
    return prepared_follow(prepared, index, changes, count);
}
