/* guests_attach.c: guests come and go. */
#include <stdlib.h>
#include <string.h>

#include "common/larder_err.h"
#include "server/cluster/guests_priv.h"

void guests_free(struct guest *guest)
{
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        free(guest->kept[i].samples.all);
    free(guest->ready.all);
    free(guest->batches);
    *guest = (struct guest){0};
}

static void end_job(struct guests *guests, const struct guest *guest, uint32_t job)
{
    if (job != GUESTS_NO_JOB)
        guests_act(guests, GUESTS_GONE, guest)->job = job;
}

/* answer_waiting answers all requests that wait for the guest. */
static void answer_waiting(struct guests *guests, const struct guest *guest)
{
    if (guest->attaching)
        guests_reply(guests, guest, guest->attaching, GUESTS_STALE);
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        if (guest->asked[i].seq)
            guests_reply(guests, guest, guest->asked[i].request, GUESTS_IS_GONE);
    }
}

/* guests_end ends it. When the engine still has its job, it is told. */
void guests_end(struct guests *guests, struct guest *guest, bool tell_engine)
{
    answer_waiting(guests, guest);
    end_job(guests, guest, guest->there && tell_engine ? guest->job : GUESTS_NO_JOB);
    end_job(guests, guest, guest->predecessor);
    guests_free(guest);
}

/* replace_guest ends it for another one. It returns the engine's job that the other one takes the place of, and which
 * stays there: only of a guest that the anchor names is it known that it had all that the job was given here. */
static uint32_t replace_guest(struct guests *guests, struct guest *guest, uint64_t named)
{
    uint32_t job = guest->there && guest->number == named ? guest->job : GUESTS_NO_JOB;
    if (job == GUESTS_NO_JOB) {
        guests_end(guests, guest, true);
        return job;
    }
    answer_waiting(guests, guest);
    guests_free(guest);
    return job;
}

struct guest *guests_find(struct guests *guests, uint64_t number)
{
    for (int i = 0; number && i < guests->used; i++) {
        if (guests->all[i].number == number)
            return &guests->all[i];
    }
    return NULL;
}

static bool same_anchor(const struct guests_key *a, const struct guests_key *b)
{
    return memcmp(a->anchor, b->anchor, sizeof a->anchor) == 0;
}

/* find_key returns the guest of the key. Guests of an anchor that has started anew end: nobody knows of them any
 * more. */
static struct guest *find_key(struct guests *guests, const struct guests_key *key)
{
    struct guest *found = NULL;
    for (int i = 0; i < guests->used; i++) {
        struct guest *guest = &guests->all[i];
        if (!guest->number || !same_anchor(&guest->key, key))
            continue;
        if (guest->key.boot != key->boot)
            guests_end(guests, guest, true);
        else if (guest->key.job == key->job)
            found = guest;
    }
    return found;
}

uint32_t guests_count(const struct guests *guests)
{
    uint32_t count = 0;
    for (int i = 0; i < guests->used; i++)
        count += guests->all[i].number != 0;
    return count;
}

uint32_t guests_behind(const struct guests *guests)
{
    uint32_t count = 0;
    for (int i = 0; i < guests->used; i++)
        count += guests->all[i].number != 0 && !guests->all[i].past;
    return count;
}

uint32_t guests_cut(const struct guests *guests)
{
    return guests->cut;
}

const struct guests_key *guests_wanted(const struct guests *guests, int *cursor)
{
    while (*cursor < guests->used) {
        const struct guest *guest = &guests->all[(*cursor)++];
        if (guest->number && !guest->stays && !guest->past)
            return &guest->key;
    }
    return NULL;
}

static void make_guest(struct guests *guests, const struct guests_event *event, uint32_t predecessor)
{
    int at = 0;
    while (guests->all[at].number)
        at++;
    guests->used = at >= guests->used ? at + 1 : guests->used;
    struct guest *guest = &guests->all[at];
    *guest = (struct guest){.term = event->attach.term,
                            .key = event->attach.key,
                            .predecessor = predecessor,
                            .attaching = event->request,
                            .count = event->attach.count,
                            .lease_until_ns = guests->now_ns + guests->config.lease_ns};
    guest->number = ++guests->numbers;
    struct guests_action *action = guests_act(guests, GUESTS_RESOLVE, guest);
    action->request = event->request;
    action->resolve.predecessor = predecessor;
    action->resolve.all = event->attach.again && predecessor == GUESTS_NO_JOB;
}

static void tell_attached(struct guests *guests, const struct guest *guest, uint64_t request)
{
    guests_reply(guests, guest, request, GUESTS_ATTACHED)->answer.count = guest->count;
}

/* known answers an attachment that exists, or is being made; it returns false if a new one must be made. */
static bool known(struct guests *guests, struct guest *guest, const struct guests_event *event)
{
    if (event->attach.term < guest->term) {
        guests_reply(guests, guest, event->request, GUESTS_STALE);
        return true;
    }
    if (event->attach.term > guest->term)
        return false;
    guest->lease_until_ns = guests->now_ns + guests->config.lease_ns;
    if (guest->there) {
        tell_attached(guests, guest, event->request);
    } else {
        guests_reply(guests, guest, guest->attaching, GUESTS_EMPTY);
        guest->attaching = event->request;
    }
    return true;
}

void guests_on_attach(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find_key(guests, &event->attach.key);
    int code = guests->leaving                                           ? LARDER_EGONE
               : event->attach.prep_id != guests->config.prep_id         ? LARDER_EVERSION
               : event->attach.count == 0                                ? LARDER_EINVAL
               : !guest && guests_count(guests) >= guests->config.guests ? LARDER_ELIMIT
                                                                         : 0;
    if (guest && known(guests, guest, event))
        return;
    if (code) {
        if (guest)
            guest->past = true;
        guests_refuse(guests, event->request, code);
    } else {
        make_guest(guests, event, guest ? replace_guest(guests, guest, event->attach.predecessor) : GUESTS_NO_JOB);
    }
}

void guests_on_added(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (!guest || guest->there) { /* it has ended in the meantime */
        struct guests_action *action = guests_act(guests, GUESTS_GONE, NULL);
        action->guest = event->guest;
        action->job = event->added.job;
        return;
    }
    end_job(guests, guest, guest->predecessor);
    guest->predecessor = GUESTS_NO_JOB;
    guest->there = true;
    guest->job = event->added.job;
    guest->hold = event->added.hold;
    tell_attached(guests, guest, guest->attaching);
    guest->attaching = 0;
}

void guests_on_refused(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (!guest || guest->there)
        return;
    guests_refuse(guests, guest->attaching, event->refused.code);
    end_job(guests, guest, guest->predecessor);
    guests_free(guest);
}
