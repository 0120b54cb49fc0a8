#include "server/cluster/home.h"

#include <stdlib.h>

#include "common/check.h"

int home_begin(const struct guests_config *config, struct home *home)
{
    *home = (struct home){0};
    return guests_create(config, &home->guests);
}

void home_end(struct home *home)
{
    guests_destroy(home->guests);
    free(home->notes);
    *home = (struct home){0};
}

struct home_note *home_note(struct home *home, struct guests_event event)
{
    home->notes = xgrow(home->notes, sizeof *home->notes, &home->notes_cap, home->n_notes + 1);
    struct home_note *note = &home->notes[home->n_notes++];
    note->event = event;
    return note;
}

void home_tell(struct home *home, const struct home_means *means, struct guests_event event)
{
    const struct guests_action *actions;
    event.now_ns = means->now_ns(means->ctx);
    size_t count = guests_step(home->guests, &event, &actions);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].type == GUESTS_ANSWER)
            means->answer(means->ctx, &actions[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (actions[i].type == GUESTS_RESOLVE)
            means->resolve(means->ctx, &actions[i]);
        else if (actions[i].type != GUESTS_ANSWER && means->is_guests(means->ctx, actions[i].job))
            means->engine(means->ctx, &actions[i]);
    }
}

bool home_go_on(struct home *home, const struct home_means *means)
{
    struct home_note *notes = home->notes;
    size_t count = home->n_notes;
    home->notes = NULL;
    home->n_notes = home->notes_cap = 0;
    for (size_t i = 0; i < count; i++) {
        if (notes[i].event.type == GUESTS_DELIVERED)
            notes[i].event.delivered.samples = notes[i].samples;
        home_tell(home, means, notes[i].event);
    }
    free(notes);
    if (guests_alarm(home->guests) <= means->now_ns(means->ctx))
        home_tell(home, means, (struct guests_event){.type = GUESTS_TICK});
    return count > 0 || home->n_notes > 0;
}
