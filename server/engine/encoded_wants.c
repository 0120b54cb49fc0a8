/* encoded_wants.c: which jobs want an encoded. An encoded follows changes to many at once only when it is settled
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
static int count_job(const struct encoded_store *store, struct encoded *encoded, uint32_t job)
{
    bool counted = jobset_has(&encoded->wanted, job), wants = demand_wants_encoded(store->jobs, job, encoded->id);
    if (counted == wants)
        return 0;
    if (wants)
        jobset_add(&encoded->wanted, job);
    else
        jobset_remove(&encoded->wanted, job);
    return wants ? 1 : -1;
}

bool encoded_follow(struct encoded_store *store, uint32_t index, const struct change *changes, uint32_t count)
{
    struct encoded *encoded = &store->encodeds[index];
    int by = 0;
    bool again = false; /* when it is used next is to be worked out again */
    for (uint32_t i = 0; i < count; i++) {
        int more = changes[i].kind == CHANGE_WANTS ? count_job(store, encoded, changes[i].job) : 0;
        by += more;
        again = again || more || changes[i].kind == CHANGE_USES;
    }
    if (again)
        encoded_shift_want(store, index, by);
    return by != 0;
}

bool encoded_catch_up(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    uint32_t count;
    const struct change *changes = changes_after(store->changes, encoded->settled, &count);
    encoded->settled = store->changes->end;
    return encoded_follow(store, index, changes, count);
}
