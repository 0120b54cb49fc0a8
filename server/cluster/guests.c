#include "server/cluster/guests.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"

#define NS_PER_MS UINT64_C(1000000)
#define NO_BATCH 0
#define NUMBER_BITS 24 /* of a guest's number that count the guests of a life */

/* A sample that was delivered, and the engine's batch that it came in. */
struct held {
    struct guests_sample sample;
    uint64_t batch; /* NO_BATCH: a bad one, which is in none */
};

struct held_list {
    struct held *all;
    size_t count, cap;
};

/* A batch of the engine's, of which so many samples are held. */
struct open_batch {
    uint64_t batch;
    uint32_t held;
};

/* A request that waits; seq 0: none. */
struct asked {
    uint64_t seq, request, until_ns;
    uint32_t n, extra;
};

/* An answer that is kept; seq 0: none. */
struct kept {
    uint64_t seq;
    struct held_list samples;
    bool last;
};

struct guest {
    uint64_t number, term; /* number 0: an unused place */
    struct guests_key key;
    bool there; /* The engine has its job. */
    uint32_t job;
    uint32_t predecessor;    /* the engine's job that it takes the place of, until it is there; GUESTS_NO_JOB: none */
    uint64_t attaching;      /* the request that waits for the engine's answer */
    uint64_t count;          /* samples of its part */
    struct idset *rest;      /* of them, those that no answer has had */
    struct idset *withdrawn; /* and those that never come */
    struct held_list ready;
    struct open_batch *batches;
    size_t n_batches, batches_cap;
    struct asked asked[GUESTS_ASKED_MAX];
    struct kept kept[GUESTS_ASKED_MAX];
    uint64_t acked, more; /* what is acknowledged: all up to a number, and bit i: acked + 1 + i */
    uint32_t credits;     /* batches that the engine was asked for and has not delivered */
    bool last;            /* The engine has no more. */
    bool stays;           /* It was through when its lease was over. */
    uint64_t lease_until_ns;
};

struct guests {
    struct guests_config config;
    uint64_t now_ns, numbers;
    bool leaving;
    struct guest all[GUESTS_MAX];
    int used;                      /* places from here on are unused */
    struct idset *told;            /* what an ANSWER of this step points to */
    struct guests_sample *samples; /* the same, of BATCH */
    size_t samples_cap;
    struct guests_action *actions;
    size_t n_actions, actions_cap;
};

int guests_create(const struct guests_config *config, struct guests **out)
{
    CHECK(config->guests <= GUESTS_MAX);
    struct guests *guests = calloc(1, sizeof *guests);
    if (!guests)
        return LARDER_ENOMEM;
    guests->config = *config;
    guests->numbers = config->boot << NUMBER_BITS;
    *out = guests;
    return 0;
}

static struct guests_action *act(struct guests *guests, enum guests_action_type type, const struct guest *guest)
{
    guests->actions = xgrow(guests->actions, sizeof *guests->actions, &guests->actions_cap, guests->n_actions + 1);
    struct guests_action *action = &guests->actions[guests->n_actions++];
    *action = (struct guests_action){.type = type};
    if (guest) {
        action->guest = guest->number;
        action->job = guest->job;
    }
    return action;
}

static struct guests_action *answer(struct guests *guests, const struct guest *guest, uint64_t request,
                                    enum guests_answer kind)
{
    struct guests_action *action = act(guests, GUESTS_ANSWER, guest);
    action->request = request;
    action->answer.kind = kind;
    return action;
}

static void refuse(struct guests *guests, uint64_t request, int code)
{
    answer(guests, NULL, request, GUESTS_IS_REFUSED)->answer.code = code;
}

/* ── what is held ── */

static void put_held(struct held_list *list, struct held held)
{
    list->all = xgrow(list->all, sizeof *list->all, &list->cap, list->count + 1);
    list->all[list->count++] = held;
}

/* let_go counts a sample out of its batch. The engine has the batch back when none of it is held. */
static void let_go(struct guests *guests, struct guest *guest, uint64_t batch)
{
    for (size_t i = 0; i < guest->n_batches; i++) {
        struct open_batch *open = &guest->batches[i];
        if (open->batch != batch || --open->held > 0)
            continue;
        act(guests, GUESTS_RELEASE, guest)->batch = batch;
        *open = guest->batches[--guest->n_batches];
        return;
    }
}

static void let_all_go(struct guests *guests, struct guest *guest, struct kept *kept)
{
    for (size_t i = 0; i < kept->samples.count; i++) {
        if (kept->samples.all[i].batch != NO_BATCH)
            let_go(guests, guest, kept->samples.all[i].batch);
    }
    kept->samples.count = 0;
    kept->seq = 0;
}

/* ── guests come and go ── */

static void free_guest(struct guest *guest)
{
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        free(guest->kept[i].samples.all);
    idset_destroy(guest->rest);
    idset_destroy(guest->withdrawn);
    free(guest->ready.all);
    free(guest->batches);
    *guest = (struct guest){0};
}

void guests_destroy(struct guests *guests)
{
    if (!guests)
        return;
    for (int i = 0; i < guests->used; i++)
        free_guest(&guests->all[i]);
    idset_destroy(guests->told);
    free(guests->samples);
    free(guests->actions);
    free(guests);
}

static void end_job(struct guests *guests, const struct guest *guest, uint32_t job)
{
    if (job != GUESTS_NO_JOB)
        act(guests, GUESTS_GONE, guest)->job = job;
}

/* answer_waiting answers all requests that wait for the guest. */
static void answer_waiting(struct guests *guests, const struct guest *guest)
{
    if (guest->attaching)
        answer(guests, guest, guest->attaching, GUESTS_STALE);
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        if (guest->asked[i].seq)
            answer(guests, guest, guest->asked[i].request, GUESTS_IS_GONE);
    }
}

/* end_guest ends it. When the engine still has its job, it is told. */
static void end_guest(struct guests *guests, struct guest *guest, bool tell_engine)
{
    answer_waiting(guests, guest);
    end_job(guests, guest, guest->there && tell_engine ? guest->job : GUESTS_NO_JOB);
    end_job(guests, guest, guest->predecessor);
    free_guest(guest);
}

/* replace_guest ends it for another one. It gives the engine's job that the other one takes the place of, and which
 * stays there: only of a guest that the anchor names is it known that it had all that the job was given here. */
static uint32_t replace_guest(struct guests *guests, struct guest *guest, uint64_t named)
{
    uint32_t job = guest->there && guest->number == named ? guest->job : GUESTS_NO_JOB;
    if (job == GUESTS_NO_JOB) {
        end_guest(guests, guest, true);
        return job;
    }
    answer_waiting(guests, guest);
    free_guest(guest);
    return job;
}

static struct guest *find(struct guests *guests, uint64_t number)
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

/* find_key gives the guest of the key. Guests of an anchor that has started anew end: nobody knows of them any more. */
static struct guest *find_key(struct guests *guests, const struct guests_key *key)
{
    struct guest *found = NULL;
    for (int i = 0; i < guests->used; i++) {
        struct guest *guest = &guests->all[i];
        if (!guest->number || !same_anchor(&guest->key, key))
            continue;
        if (guest->key.boot != key->boot)
            end_guest(guests, guest, true);
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
                            .count = idset_count(event->attach.part),
                            .rest = event->attach.part,
                            .lease_until_ns = guests->now_ns + guests->config.lease_ns};
    if (idset_create(&guest->withdrawn)) {
        end_job(guests, guest, predecessor);
        free_guest(guest);
        refuse(guests, event->request, LARDER_ENOMEM);
        return;
    }
    guest->number = ++guests->numbers;
    struct guests_action *action = act(guests, GUESTS_RESOLVE, guest);
    action->request = event->request;
    action->resolve.predecessor = predecessor;
    action->resolve.all = event->attach.again && predecessor == GUESTS_NO_JOB;
}

static void tell_attached(struct guests *guests, const struct guest *guest, uint64_t request)
{
    answer(guests, guest, request, GUESTS_ATTACHED)->answer.count = guest->count;
}

/* known answers an attachment that is there, or is being made; it gives false when another one is to be made. */
static bool known(struct guests *guests, struct guest *guest, const struct guests_event *event)
{
    if (event->attach.term < guest->term) {
        answer(guests, guest, event->request, GUESTS_STALE);
        return true;
    }
    if (event->attach.term > guest->term)
        return false;
    guest->lease_until_ns = guests->now_ns + guests->config.lease_ns;
    if (guest->there) {
        tell_attached(guests, guest, event->request);
    } else {
        answer(guests, guest, guest->attaching, GUESTS_EMPTY);
        guest->attaching = event->request;
    }
    return true;
}

static void on_attach(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find_key(guests, &event->attach.key);
    int code = guests->leaving                                           ? LARDER_EGONE
               : event->attach.prep_id != guests->config.prep_id         ? LARDER_EVERSION
               : idset_count(event->attach.part) == 0                    ? LARDER_EINVAL
               : !guest && guests_count(guests) >= guests->config.guests ? LARDER_ELIMIT
                                                                         : 0;
    if (guest && known(guests, guest, event)) {
        idset_destroy(event->attach.part);
    } else if (code) {
        idset_destroy(event->attach.part);
        refuse(guests, event->request, code);
    } else {
        make_guest(guests, event, guest ? replace_guest(guests, guest, event->attach.predecessor) : GUESTS_NO_JOB);
    }
}

static void on_added(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    if (!guest || guest->there) { /* it has ended in the meantime */
        struct guests_action *action = act(guests, GUESTS_GONE, NULL);
        action->guest = event->guest;
        action->job = event->added.job;
        return;
    }
    end_job(guests, guest, guest->predecessor);
    guest->predecessor = GUESTS_NO_JOB;
    guest->there = true;
    guest->job = event->added.job;
    tell_attached(guests, guest, guest->attaching);
    guest->attaching = 0;
}

static void on_refused(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    if (!guest || guest->there)
        return;
    refuse(guests, guest->attaching, event->refused.code);
    end_job(guests, guest, guest->predecessor);
    free_guest(guest);
}

/* ── requests for samples ── */

static struct kept *find_kept(struct guest *guest, uint64_t seq)
{
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        if (guest->kept[i].seq == seq)
            return &guest->kept[i];
    }
    return NULL;
}

static struct asked *find_asked(struct guest *guest, uint64_t seq)
{
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        if (guest->asked[i].seq == seq)
            return &guest->asked[i];
    }
    return NULL;
}

static void tell_kept(struct guests *guests, const struct guest *guest, uint64_t request, const struct kept *kept)
{
    size_t before = 0;
    for (size_t i = 0; i < guests->n_actions; i++) {
        if (guests->actions[i].type == GUESTS_ANSWER)
            before += guests->actions[i].answer.n_samples;
    }
    CHECK(before + kept->samples.count <= guests->samples_cap);
    struct guests_action *action = answer(guests, guest, request, GUESTS_BATCH_IS);
    for (size_t i = 0; i < kept->samples.count; i++)
        guests->samples[before + i] = kept->samples.all[i].sample;
    action->answer.samples = guests->samples + before;
    action->answer.n_samples = (uint32_t)kept->samples.count;
    action->answer.seq = kept->seq;
    action->answer.last = kept->last;
}

static void take_ready(struct guest *guest, struct kept *kept, size_t count, bool bad)
{
    for (size_t i = 0; i < count; i++) {
        struct held held = guest->ready.all[i];
        if ((held.sample.reason != 0) != bad)
            continue;
        put_held(&kept->samples, held);
        idset_remove(guest->rest, held.sample.id);
    }
}

/* fill makes the answer to a request of what is ready. */
static void fill(struct guest *guest, const struct asked *asked, struct kept *kept)
{
    size_t count = guest->ready.count, most = asked->n + asked->extra;
    count = count < most ? count : most;
    kept->seq = asked->seq;
    take_ready(guest, kept, count, false);
    take_ready(guest, kept, count, true);
    guest->ready.count -= count;
    for (size_t i = 0; i < guest->ready.count; i++)
        guest->ready.all[i] = guest->ready.all[i + count];
    kept->last = guest->last && guest->ready.count == 0;
}

/* first_asked gives the waiting request with the lowest sequence number; NULL when none waits. */
static struct asked *first_asked(struct guest *guest)
{
    struct asked *first = NULL;
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        struct asked *asked = &guest->asked[i];
        if (asked->seq && (!first || asked->seq < first->seq))
            first = asked;
    }
    return first;
}

/* serve answers the requests that can be, in the order of their numbers, and those that have waited long enough. An
 * anchor that acknowledges nothing gets nothing more. */
static void serve(struct guests *guests, struct guest *guest)
{
    for (struct asked *asked; (asked = first_asked(guest));) {
        struct kept *kept = find_kept(guest, 0);
        bool over = guests->now_ns >= asked->until_ns, some = guest->ready.count > 0 || guest->last;
        if (!kept || !(guest->ready.count >= asked->n || guest->last || (over && some)))
            break;
        fill(guest, asked, kept);
        tell_kept(guests, guest, asked->request, kept);
        *asked = (struct asked){0};
    }
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        struct asked *asked = &guest->asked[i];
        if (!asked->seq || (guests->now_ns < asked->until_ns && find_kept(guest, 0)))
            continue;
        answer(guests, guest, asked->request, GUESTS_EMPTY);
        *asked = (struct asked){0};
    }
}

/* ask_engine asks for what requests wait for, and for a little more. */
static void ask_engine(struct guests *guests, struct guest *guest)
{
    uint64_t wanted = GUESTS_AHEAD, comes = guest->ready.count + (uint64_t)guest->credits * GUESTS_BATCH;
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        wanted += guest->asked[i].seq ? guest->asked[i].n : 0;
    if (guest->last || wanted < comes + GUESTS_BATCH)
        return;
    uint32_t credits = (uint32_t)((wanted - comes) / GUESTS_BATCH);
    guest->credits += credits;
    act(guests, GUESTS_ASK, guest)->credits = credits;
}

static bool is_acked(const struct guest *guest, uint64_t seq)
{
    uint64_t above = seq - guest->acked - 1;
    return seq <= guest->acked || (above < 64 && guest->more >> above & 1);
}

static void acknowledge(struct guests *guests, struct guest *guest, uint64_t acked, uint64_t more)
{
    if (acked > guest->acked)
        guest->more = 0;
    if (acked >= guest->acked) {
        guest->acked = acked;
        guest->more |= more;
    }
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        if (guest->kept[i].seq && is_acked(guest, guest->kept[i].seq))
            let_all_go(guests, guest, &guest->kept[i]);
    }
}

/* asker gives the guest that a request is for, whose lease begins anew; NULL when the request has its answer. */
static struct guest *asker(struct guests *guests, const struct guests_event *event, uint64_t term)
{
    struct guest *guest = find(guests, event->guest);
    if (!guest || !guest->there || guest->stays || term != guest->term) {
        answer(guests, NULL, event->request, guest && term < guest->term ? GUESTS_STALE : GUESTS_IS_GONE);
        return NULL;
    }
    guest->lease_until_ns = guests->now_ns + guests->config.lease_ns;
    return guest;
}

static void on_next(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = asker(guests, event, event->next.term);
    if (!guest)
        return;
    uint64_t seq = event->next.seq;
    acknowledge(guests, guest, event->next.acked < seq ? event->next.acked : seq - 1, event->next.more);
    const struct kept *kept = seq ? find_kept(guest, seq) : NULL;
    struct asked *asked = seq ? find_asked(guest, seq) : NULL;
    if (kept) {
        tell_kept(guests, guest, event->request, kept);
        return;
    }
    if (asked)
        answer(guests, guest, asked->request, GUESTS_EMPTY);
    else
        asked = find_asked(guest, 0);
    bool fits = event->next.n >= 1 && event->next.n <= GUESTS_SAMPLES_MAX &&
                event->next.extra <= GUESTS_SAMPLES_MAX - event->next.n;
    if (!asked || seq == 0 || is_acked(guest, seq) || !fits) {
        if (asked)
            *asked = (struct asked){0};
        answer(guests, guest, event->request, GUESTS_EMPTY);
        return;
    }
    uint64_t wait_ms = event->next.wait_ms < GUESTS_WAIT_MAX_MS ? event->next.wait_ms : GUESTS_WAIT_MAX_MS;
    *asked = (struct asked){.seq = seq,
                            .request = event->request,
                            .until_ns = guests->now_ns + wait_ms * NS_PER_MS,
                            .n = event->next.n,
                            .extra = event->next.extra};
    serve(guests, guest);
    ask_engine(guests, guest);
}

/* ── withdrawing ── */

/* drop_ready takes what was withdrawn out of what is ready. */
static void drop_ready(struct guests *guests, struct guest *guest)
{
    size_t kept = 0;
    for (size_t i = 0; i < guest->ready.count; i++) {
        struct held held = guest->ready.all[i];
        if (!idset_contains(guest->withdrawn, held.sample.id))
            guest->ready.all[kept++] = held;
        else if (held.batch != NO_BATCH)
            let_go(guests, guest, held.batch);
    }
    guest->ready.count = kept;
}

/* The answer has all that was ever withdrawn of the ids, so that it is right when the request comes again. */
static void on_withdraw(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = asker(guests, event, event->withdraw.term);
    struct idset *ids = NULL;
    if (!guest)
        return;
    const struct idset *asked = event->withdraw.ids;
    int code = asked ? idset_intersection(guest->rest, asked, &ids) : idset_copy(guest->rest, &ids);
    if (!code) {
        idset_add_all(guest->withdrawn, ids);
        idset_remove_all(guest->rest, ids);
        drop_ready(guests, guest);
        idset_destroy(guests->told);
        guests->told = NULL;
        code = asked ? idset_intersection(guest->withdrawn, asked, &guests->told)
                     : idset_copy(guest->withdrawn, &guests->told);
    }
    idset_destroy(ids);
    if (code)
        refuse(guests, event->request, code);
    else
        answer(guests, guest, event->request, GUESTS_WITHDRAWN)->answer.ids = guests->told;
    serve(guests, guest);
}

static void on_detach(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    if (guest && event->withdraw.term < guest->term) {
        answer(guests, guest, event->request, GUESTS_STALE);
        return;
    }
    if (guest)
        end_guest(guests, guest, true);
    answer(guests, NULL, event->request, GUESTS_DONE);
}

/* ── the engine ── */

static void on_delivered(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    uint32_t held = 0;
    if (!guest)
        return; /* the engine was told that it is gone */
    guest->credits -= guest->credits > 0;
    guest->last = guest->last || event->delivered.last;
    for (uint32_t i = 0; i < event->delivered.count; i++) {
        const struct guests_sample *sample = &event->delivered.samples[i];
        if (idset_contains(guest->withdrawn, sample->id))
            continue;
        put_held(&guest->ready, (struct held){*sample, event->delivered.batch});
        held++;
    }
    if (held == 0) {
        act(guests, GUESTS_RELEASE, guest)->batch = event->delivered.batch;
    } else {
        guest->batches = xgrow(guest->batches, sizeof *guest->batches, &guest->batches_cap, guest->n_batches + 1);
        guest->batches[guest->n_batches++] = (struct open_batch){event->delivered.batch, held};
    }
    serve(guests, guest);
    ask_engine(guests, guest);
}

static void on_bad(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    if (!guest || idset_contains(guest->withdrawn, event->bad.id))
        return;
    put_held(&guest->ready, (struct held){{.id = event->bad.id, .reason = event->bad.reason}, NO_BATCH});
    serve(guests, guest);
}

/* is_through tells whether the guest has given all its part. */
static bool is_through(const struct guest *guest)
{
    return guest->there && guest->last && guest->ready.count == 0;
}

/* lease_over ends a guest that nobody has asked for a lease. One that is through holds nothing any more, and stays. */
static void lease_over(struct guests *guests, struct guest *guest)
{
    if (!is_through(guest) || guest->stays) {
        end_guest(guests, guest, true);
        return;
    }
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        let_all_go(guests, guest, &guest->kept[i]);
    guest->stays = true;
    guest->lease_until_ns = guests->now_ns + GUESTS_THROUGH_LEASES * guests->config.lease_ns;
}

static void on_tick(struct guests *guests)
{
    for (int i = 0; i < guests->used; i++) {
        struct guest *guest = &guests->all[i];
        if (!guest->number)
            continue;
        if (guests->now_ns >= guest->lease_until_ns)
            lease_over(guests, guest);
        else
            serve(guests, guest);
    }
}

static void on_ended(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = find(guests, event->guest);
    if (guest)
        end_guest(guests, guest, false);
}

size_t guests_step(struct guests *guests, const struct guests_event *event, const struct guests_action **actions)
{
    CHECK(event->now_ns >= guests->now_ns);
    guests->now_ns = event->now_ns;
    guests->n_actions = 0;
    /* One step answers no more than all requests that wait at one guest, and a tick those of all. */
    size_t most = (size_t)GUESTS_SAMPLES_MAX * GUESTS_ASKED_MAX * (event->type == GUESTS_TICK ? GUESTS_MAX : 1);
    guests->samples = xgrow(guests->samples, sizeof *guests->samples, &guests->samples_cap, most);
    switch (event->type) {
    case GUESTS_TICK: on_tick(guests); break;
    case GUESTS_ATTACH: on_attach(guests, event); break;
    case GUESTS_ADDED: on_added(guests, event); break;
    case GUESTS_REFUSED: on_refused(guests, event); break;
    case GUESTS_NEXT: on_next(guests, event); break;
    case GUESTS_WITHDRAW: on_withdraw(guests, event); break;
    case GUESTS_DETACH: on_detach(guests, event); break;
    case GUESTS_DELIVERED: on_delivered(guests, event); break;
    case GUESTS_BAD: on_bad(guests, event); break;
    case GUESTS_ENDED: on_ended(guests, event); break;
    case GUESTS_LEAVE: guests->leaving = true; break;
    }
    *actions = guests->actions;
    return guests->n_actions;
}

uint64_t guests_alarm(const struct guests *guests)
{
    uint64_t alarm = UINT64_MAX;
    for (int i = 0; i < guests->used; i++) {
        const struct guest *guest = &guests->all[i];
        if (!guest->number)
            continue;
        alarm = guest->lease_until_ns < alarm ? guest->lease_until_ns : alarm;
        for (int at = 0; at < GUESTS_ASKED_MAX; at++) {
            if (guest->asked[at].seq && guest->asked[at].until_ns < alarm)
                alarm = guest->asked[at].until_ns;
        }
    }
    return alarm;
}
