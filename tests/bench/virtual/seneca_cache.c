/* seneca_cache.c: which samples Seneca has in memory in which form, and which of them a job has not seen yet. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/seneca_priv.h"

/* ── sets ── */

void seneca_set_create(struct seneca_set *set, uint32_t samples)
{
    *set = (struct seneca_set){.ids = xcalloc(samples, sizeof *set->ids), .at = xcalloc(samples, sizeof *set->at)};
    memset(set->at, 0xff, samples * sizeof *set->at);
}

void seneca_set_free(struct seneca_set *set)
{
    free(set->ids);
    free(set->at);
}

void seneca_set_add(struct seneca_set *set, uint32_t id)
{
    if (set->at[id] != SENECA_ABSENT)
        return;
    set->at[id] = set->count;
    set->ids[set->count++] = id;
}

void seneca_set_remove(struct seneca_set *set, uint32_t id)
{
    uint32_t at = set->at[id];
    if (at == SENECA_ABSENT)
        return;
    uint32_t last = set->ids[--set->count];
    set->ids[at] = last;
    set->at[last] = at;
    set->at[id] = SENECA_ABSENT;
}

uint32_t seneca_set_draw(const struct seneca_set *set, struct rng *rng)
{
    CHECK(set->count > 0);
    return set->ids[random_below(rng, set->count)];
}

/* ── the cache ── */

void seneca_cache_create(struct seneca_cache *cache, const struct sharing_scenario *scenario,
                         const struct seneca_split *split)
{
    uint32_t samples = scenario->samples;
    *cache = (struct seneca_cache){.samples = samples,
                                   .form = xcalloc(samples, sizeof *cache->form),
                                   .uses = xcalloc(samples, sizeof *cache->uses),
                                   .views = xcalloc(scenario->n_jobs, sizeof *cache->views),
                                   .n_views = scenario->n_jobs};
    seneca_counts(scenario, split, cache->room);
    for (uint32_t i = 0; i < cache->n_views; i++) {
        seneca_set_create(&cache->views[i].left, samples);
        for (int form = 0; form < SENECA_FORMS; form++)
            seneca_set_create(&cache->views[i].cached[form], samples);
    }
}

void seneca_cache_free(struct seneca_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_views; i++) {
        seneca_set_free(&cache->views[i].left);
        for (int form = 0; form < SENECA_FORMS; form++)
            seneca_set_free(&cache->views[i].cached[form]);
    }
    free(cache->views);
    free(cache->form);
    free(cache->uses);
}

void seneca_epoch_begins(struct seneca_cache *cache, uint32_t job)
{
    struct seneca_view *view = &cache->views[job];
    CHECK(view->left.count == 0);
    view->runs = true;
    for (uint32_t id = 0; id < cache->samples; id++) {
        seneca_set_add(&view->left, id);
        if (cache->form[id] != SENECA_NONE)
            seneca_set_add(&view->cached[cache->form[id]], id);
    }
}

uint32_t seneca_draw(struct seneca_cache *cache, uint32_t job, struct rng *rng)
{
    struct seneca_view *view = &cache->views[job];
    uint32_t id = seneca_set_draw(&view->left, rng);
    for (int form = SENECA_AUGMENTED; form > SENECA_NONE && cache->form[id] == SENECA_NONE; form--) {
        if (view->cached[form].count)
            id = seneca_set_draw(&view->cached[form], rng);
    }
    seneca_set_remove(&view->left, id);
    seneca_set_remove(&view->cached[cache->form[id]], id);
    return id;
}

void seneca_admit(struct seneca_cache *cache, uint32_t id, uint32_t uses, bool augmented_only)
{
    int least = augmented_only ? SENECA_AUGMENTED : SENECA_ENCODED, form = SENECA_AUGMENTED;
    while (form >= least && cache->count[form] >= cache->room[form])
        form--;
    if (form < least || cache->form[id] != SENECA_NONE)
        return;
    cache->form[id] = (uint8_t)form;
    cache->uses[id] = uses;
    cache->count[form]++;
    for (uint32_t i = 0; i < cache->n_views; i++) {
        struct seneca_view *view = &cache->views[i];
        if (view->runs && view->left.at[id] != SENECA_ABSENT)
            seneca_set_add(&view->cached[form], id);
    }
}

void seneca_evict(struct seneca_cache *cache, uint32_t id)
{
    for (uint32_t i = 0; i < cache->n_views; i++)
        seneca_set_remove(&cache->views[i].cached[cache->form[id]], id);
    cache->count[cache->form[id]]--;
    cache->form[id] = SENECA_NONE;
}

uint32_t seneca_running(const struct seneca_cache *cache)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < cache->n_views; i++)
        running += cache->views[i].runs;
    return running;
}
