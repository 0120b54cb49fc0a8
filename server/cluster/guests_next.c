/* guests_next.c: requests for samples, and what answers them. */
#include "common/check.h"
#include "server/cluster/guests_priv.h"

#define NS_PER_MS UINT64_C(1000000)

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
    struct guests_action *action = guests_reply(guests, guest, request, GUESTS_BATCH_IS);
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
        guests_put_held(&kept->samples, held);
    }
}

/* fitting returns how many of the first that are ready an answer has room for. */
static size_t fitting(const struct guest *guest)
{
    uint64_t bytes = 0;
    size_t count = 0;
    for (; count < guest->ready.count; count++) {
        bytes += guest->ready.all[count].sample.reason ? 0 : guest->ready.all[count].sample.bytes;
        if (count > 0 && bytes > GUESTS_ANSWER_BYTES)
            break;
    }
    return count;
}

/* is_full tells whether there is enough for an answer to the request. */
static bool is_full(const struct guest *guest, const struct asked *asked)
{
    return guest->ready.count >= asked->n || fitting(guest) < guest->ready.count;
}

/* fill makes the answer to a request of what is ready. */
static void fill(struct guest *guest, const struct asked *asked, struct kept *kept)
{
    size_t count = fitting(guest), most = asked->n + asked->extra;
    count = count < most ? count : most;
    kept->seq = asked->seq;
    take_ready(guest, kept, count, false);
    take_ready(guest, kept, count, true);
    guest->ready.count -= count;
    for (size_t i = 0; i < guest->ready.count; i++)
        guest->ready.all[i] = guest->ready.all[i + count];
    kept->last = guest->last && guest->ready.count == 0;
}

/* first_asked returns the waiting request with the lowest sequence number; NULL when none waits. */
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

uint64_t guests_still_at(const struct guest *guest)
{
    return guest->n_batches >= guest->hold ? guest->came_ns + GUESTS_STILL_NS : UINT64_MAX;
}

static bool waited(const struct guests *guests, const struct guest *guest, const struct asked *asked)
{
    return guests->now_ns >= asked->until_ns || guests->now_ns >= guests_still_at(guest);
}

/* serve answers the requests that can be, in the order of their numbers, and those that have waited long enough. An
 * anchor that acknowledges nothing gets nothing more. */
void guests_serve(struct guests *guests, struct guest *guest)
{
    for (struct asked *asked; (asked = first_asked(guest));) {
        struct kept *kept = find_kept(guest, 0);
        bool over = waited(guests, guest, asked), some = guest->ready.count > 0 || guest->last;
        if (!kept || !(is_full(guest, asked) || guest->last || (over && some)))
            break;
        fill(guest, asked, kept);
        tell_kept(guests, guest, asked->request, kept);
        *asked = (struct asked){0};
    }
    for (int i = 0; i < GUESTS_ASKED_MAX; i++) {
        struct asked *asked = &guest->asked[i];
        if (!asked->seq || (!waited(guests, guest, asked) && find_kept(guest, 0)))
            continue;
        guests_reply(guests, guest, asked->request, GUESTS_EMPTY);
        *asked = (struct asked){0};
    }
}

/* ask_engine asks for what requests wait for, and for a little more. */
void guests_ask_engine(struct guests *guests, struct guest *guest)
{
    uint64_t wanted = GUESTS_AHEAD, comes = guest->ready.count + (uint64_t)guest->credits * GUESTS_BATCH;
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        wanted += guest->asked[i].seq ? guest->asked[i].n : 0;
    if (guest->last || wanted < comes + GUESTS_BATCH)
        return;
    uint32_t credits = (uint32_t)((wanted - comes) / GUESTS_BATCH);
    guest->credits += credits;
    guests_act(guests, GUESTS_ASK, guest)->credits = credits;
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
            guests_let_all_go(guests, guest, &guest->kept[i]);
    }
}

/* asker_of returns the guest that a request is for, whose lease begins anew; NULL when the request has its
 * answer. */
static struct guest *asker_of(struct guests *guests, const struct guests_event *event, uint64_t term)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (!guest || !guest->there || guest->stays || term != guest->term) {
        guests_reply(guests, NULL, event->request, guest && term < guest->term ? GUESTS_STALE : GUESTS_IS_GONE);
        return NULL;
    }
    guest->lease_until_ns = guests->now_ns + guests->config.lease_ns;
    guest->came_ns = guests->now_ns;
    return guest;
}

void guests_on_next(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = asker_of(guests, event, event->next.term);
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
        guests_reply(guests, guest, asked->request, GUESTS_EMPTY);
    else
        asked = find_asked(guest, 0);
    bool fits = event->next.n >= 1 && event->next.n <= GUESTS_SAMPLES_MAX &&
                event->next.extra <= GUESTS_SAMPLES_MAX - event->next.n;
    if (!asked || seq == 0 || is_acked(guest, seq) || !fits) {
        if (asked)
            *asked = (struct asked){0};
        guests_reply(guests, guest, event->request, GUESTS_EMPTY);
        return;
    }
    uint64_t wait_ms = event->next.wait_ms < GUESTS_WAIT_MAX_MS ? event->next.wait_ms : GUESTS_WAIT_MAX_MS;
    *asked = (struct asked){.seq = seq,
                            .request = event->request,
                            .until_ns = guests->now_ns + wait_ms * NS_PER_MS,
                            .n = event->next.n,
                            .extra = event->next.extra};
    guests_serve(guests, guest);
    guests_ask_engine(guests, guest);
}
