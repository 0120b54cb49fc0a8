/* encoded_wants.c: which jobs want an encoded. What changes for many at once each follows when it is settled
 * (changes.h). */
#include "server/engine/demand.h"
#include "server/engine/encoded.h"

void encoded_shift_want(struct encoded_store *store, uint32_t index, int by)
{
    residency_set_want(store->residency, index, residency_want(store->residency, index) + (uint32_t)by);
    encoded_next_note(store, index);
}

void encoded_left(struct encoded_store *store, uint32_t index, uint32_t job)
{
    struct jobset *wanted = &store->encodeds[index].wanted;
    if (!jobset_has(wanted, job))
        return;
    jobset_remove(wanted, job);
    encoded_shift_want(store, index, -1);
}

void encoded_back(struct encoded_store *store, uint32_t index, uint32_t job)
{
    struct jobset *wanted = &store->encodeds[index].wanted;
    if (jobset_has(wanted, job))
        return;
    jobset_add(wanted, job);
    encoded_shift_want(store, index, 1);
}

/* count_job counts anew whether the job wants the encoded, and returns by how much its want changes. */
static int count_job(struct encoded_store *store, uint32_t index, uint32_t job)
{
    struct encoded *encoded = &store->encodeds[index];
    bool wants = demand_wants_encoded(store->jobs, job, encoded->id);
    if (jobset_has(&encoded->wanted, job) == wants)
        return 0;
    if (wants)
        jobset_add(&encoded->wanted, job);
    else
        jobset_remove(&encoded->wanted, job);
    return wants ? 1 : -1;
}

void encoded_follow(struct encoded_store *store, uint32_t index, const struct change *changes, uint32_t count)
{
    int by = 0;
    bool other = false;
    for (uint32_t i = 0; i < count; i++) {
        int more = changes[i].kind == CHANGE_WANTS ? count_job(store, index, changes[i].job) : 0;
        by += more;
        other = other || more || changes[i].kind == CHANGE_USES;
    }
    if (other)
        encoded_shift_want(store, index, by);
}

bool encoded_catch_up(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    uint32_t count, before = residency_want(store->residency, index);
    const struct change *changes = changes_after(store->changes, encoded->settled, &count);
    encoded->settled = store->changes->end;
    encoded_follow(store, index, changes, count);
    return residency_want(store->residency, index) != before;
}
