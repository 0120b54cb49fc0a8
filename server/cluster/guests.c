#include "server/cluster/guests.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "server/cluster/guests_priv.h"

#define NUMBER_BITS 24 /* bits of a guest's number that count the guests of one boot */

int guests_create(const struct guests_config *config, struct guests **out)
{
    CHECK(config->guests <= GUESTS_MAX);
    struct guests *guests = calloc(1, sizeof *guests);
    if (!guests)
        return LARDER_ENOMEM;
    if (!alarms_init(&guests->alarms, GUESTS_MAX)) {
        free(guests);
        return LARDER_ENOMEM;
    }
    guests->config = *config;
    guests->numbers = config->boot << NUMBER_BITS;
    *out = guests;
    return 0;
}

void guests_destroy(struct guests *guests)
{
    if (!guests)
        return;
    for (int i = 0; i < guests->used; i++)
        guests_free(&guests->all[i]);
    alarms_free(&guests->alarms);
    free(guests->samples);
    free(guests->actions);
    free(guests);
}

static void on_detach(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (guest && event->detach.term < guest->term) {
        guests_reply(guests, guest, event->request, GUESTS_STALE);
        return;
    }
    if (guest)
        guests_end(guests, guest, true);
    guests_reply(guests, NULL, event->request, GUESTS_DONE);
}

/* ── the engine ── */

static void on_delivered(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (!guest)
        return; /* the engine was told that it is gone */
    guest->came_ns = guests->now_ns;
    guest->credits -= guest->credits > 0;
    guest->last = guest->last || event->delivered.last;
    for (uint32_t i = 0; i < event->delivered.count; i++)
        guests_put_held(&guest->ready, (struct held){event->delivered.samples[i], event->delivered.batch});
    if (event->delivered.count == 0) {
        guests_act(guests, GUESTS_RELEASE, guest)->batch = event->delivered.batch;
    } else {
        guest->batches = xgrow(guest->batches, sizeof *guest->batches, &guest->batches_cap, guest->n_batches + 1);
        guest->batches[guest->n_batches++] = (struct open_batch){event->delivered.batch, event->delivered.count};
    }
    guests_serve(guests, guest);
    guests_ask_engine(guests, guest);
}

static void on_bad(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (!guest)
        return;
    guests_put_held(&guest->ready, (struct held){{.id = event->bad.id, .reason = event->bad.reason}, NO_BATCH});
    guests_serve(guests, guest);
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
        guests_end(guests, guest, true);
        return;
    }
    for (int i = 0; i < GUESTS_ASKED_MAX; i++)
        guests_let_all_go(guests, guest, &guest->kept[i]);
    guest->stays = true;
    guest->lease_until_ns = guests->now_ns + GUESTS_THROUGH_LEASES * guests->config.lease_ns;
}

/* set_alarm finds out when the guest at this place is to be looked at, if nothing comes. */
static void set_alarm(struct guests *guests, int place)
{
    const struct guest *guest = &guests->all[place];
    uint64_t alarm = ALARMS_NEVER, still_at = guests_still_at(guest);
    if (guest->number) {
        alarm = guest->lease_until_ns;
        alarm = guests->leaving && guests->leave_until_ns < alarm ? guests->leave_until_ns : alarm;
    }
    for (int at = 0; at < GUESTS_ASKED_MAX && guest->number; at++) {
        uint64_t until_ns = guest->asked[at].until_ns < still_at ? guest->asked[at].until_ns : still_at;
        if (guest->asked[at].seq && until_ns < alarm)
            alarm = until_ns;
    }
    alarms_set(&guests->alarms, (uint32_t)place, alarm);
}

/* set_alarms sets the alarms of those that the event may have changed. Of most it is one guest. */
static void set_alarms(struct guests *guests, const struct guest *changed, enum guests_event_type type)
{
    if (type == GUESTS_ATTACH || type == GUESTS_LEAVE) {
        for (int i = 0; i < guests->used; i++)
            set_alarm(guests, i);
    } else if (changed) {
        set_alarm(guests, (int)(changed - guests->all));
    }
}

static void on_leave(struct guests *guests)
{
    if (!guests->leaving)
        guests->leave_until_ns = guests->now_ns + GUESTS_LEAVE_NS;
    guests->leaving = true;
}

/* on_tick looks at the guests whose time has come, in the order of their places. The others have what they could have
 * since their last event. */
static void on_tick(struct guests *guests)
{
    bool left = guests->leaving && guests->now_ns >= guests->leave_until_ns;
    for (uint32_t place; (place = alarms_take(&guests->alarms, guests->now_ns)) != ALARMS_NONE;)
        guests->due[place] = true;
    for (int i = 0; i < guests->used; i++) {
        struct guest *guest = &guests->all[i];
        if (!guests->due[i])
            continue;
        guests->due[i] = false;
        guests->cut += left;
        if (left)
            guests_end(guests, guest, true);
        else if (guests->now_ns >= guest->lease_until_ns)
            lease_over(guests, guest);
        else
            guests_serve(guests, guest);
        set_alarm(guests, i);
    }
}

static void on_ended(struct guests *guests, const struct guests_event *event)
{
    struct guest *guest = guests_find(guests, event->guest);
    if (guest)
        guests_end(guests, guest, false);
}

size_t guests_step(struct guests *guests, const struct guests_event *event, const struct guests_action **actions)
{
    CHECK(event->now_ns >= guests->now_ns);
    guests->now_ns = event->now_ns;
    guests->n_actions = 0;
    /* One step answers no more than all requests that wait at one guest, and a tick those of all. */
    size_t most = (size_t)GUESTS_SAMPLES_MAX * GUESTS_ASKED_MAX * (event->type == GUESTS_TICK ? GUESTS_MAX : 1);
    guests->samples = xgrow(guests->samples, sizeof *guests->samples, &guests->samples_cap, most);
    const struct guest *changed = guests_find(guests, event->guest);
    switch (event->type) {
    case GUESTS_TICK: on_tick(guests); break;
    case GUESTS_ATTACH: guests_on_attach(guests, event); break;
    case GUESTS_ADDED: guests_on_added(guests, event); break;
    case GUESTS_REFUSED: guests_on_refused(guests, event); break;
    case GUESTS_NEXT: guests_on_next(guests, event); break;
    case GUESTS_DETACH: on_detach(guests, event); break;
    case GUESTS_DELIVERED: on_delivered(guests, event); break;
    case GUESTS_BAD: on_bad(guests, event); break;
    case GUESTS_ENDED: on_ended(guests, event); break;
    case GUESTS_LEAVE: on_leave(guests); break;
    }
    set_alarms(guests, changed, event->type);
    *actions = guests->actions;
    return guests->n_actions;
}

uint64_t guests_alarm(const struct guests *guests)
{
    return guests->alarms.next_ns;
}
