#include "tests/unit/server/engine/engine_play.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

void engine_play(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t n_events,
                 void (*react)(void *scene, const struct engine_action *action), void *scene)
{
    const struct engine_action *actions;
    size_t count = engine_step_all(engine, now_ns, events, n_events, &actions);
    /* The actions are the engine's until its next step, which reactions take: copy them, and what they point to. */
    struct engine_action *copy = xcalloc(count, sizeof *copy);
    struct engine_entry **entries = xcalloc(count, sizeof *entries);
    memcpy(copy, actions, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        if (copy[i].type != ENGINE_DELIVER || copy[i].deliver.count == 0)
            continue;
        entries[i] = xcalloc(copy[i].deliver.count, sizeof **entries);
        memcpy(entries[i], copy[i].deliver.entries, copy[i].deliver.count * sizeof **entries);
        copy[i].deliver.entries = entries[i];
    }
    engine_check(engine);
    for (size_t i = 0; i < count; i++) {
        react(scene, &copy[i]);
        free(entries[i]);
    }
    free(entries);
    free(copy);
}
