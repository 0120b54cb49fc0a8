/* model_memory.c: the arena as a list of tagged ranges, and the encoded bytes as a list of handles. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"

/* prepares_max returns how many preparations may be out at most, besides copies. */
static uint32_t prepares_max(const struct scenario *sc)
{
    uint32_t least = sc->config.inflight_prepares, most = sc->config.prepares_ns ? sc->config.prepares_max : 0;
    return least > most ? least : most;
}

static uint64_t arena_end(const struct model *model)
{
    return model->scenario->config.arena_bytes / EXTENT_ALIGN * EXTENT_ALIGN;
}

/* What is there of the arena at a daemon's start: nothing, where it grows. */
static void reserve_first(struct model *model)
{
    away_free(&model->away);
    if (model->scenario->config.reserve_bytes)
        away_add(&model->away, 0, arena_end(model));
    model->reserved_bytes = arena_end(model) - away_bytes(&model->away);
}

void model_memory_create(struct model *model)
{
    const struct scenario *sc = model->scenario;
    model->loading = xcalloc(sc->n_samples, sizeof *model->loading);
    model->ready = xcalloc(sc->n_samples, sizeof *model->ready);
    model->offered = xcalloc(sc->n_samples, sizeof *model->offered);
    uint32_t copies = sc->config.copy_bytes ? ENGINE_COPIES_MAX : 0;
    model->tasks = xcalloc(prepares_max(sc) + copies + 1, sizeof *model->tasks);
    reserve_first(model);
}

void model_memory_destroy(struct model *model)
{
    for (size_t i = 0; i < model->n_made; i++)
        free(model->all_made[i]);
    for (size_t i = 0; i < model->n_handles; i++)
        free(model->handles[i]);
    away_free(&model->away);
    free(model->all_made);
    free(model->arena);
    free(model->handles);
    free(model->loading);
    free(model->ready);
    free(model->offered);
    free(model->tasks);
    table_free(&model->instances);
    table_free(&model->had);
    table_free(&model->variants);
}

void model_drop_handle(void *handle)
{
    ((struct handle *)handle)->ends++;
}

void model_ended(struct model *model)
{
    for (size_t i = 0; i < model->n_handles; i++) {
        const struct handle *handle = model->handles[i];
        if (handle->ends != !handle->dropped)
            model_break(model, RULE_ENCODED, "the engine ended, and the bytes of sample %u, which it %s, came %u times",
                        handle->id, handle->dropped ? "had not" : "had", handle->ends);
    }
}

void model_memory_crash(struct model *model)
{
    const struct scenario *sc = model->scenario;
    for (size_t i = 0; i < model->n_arena; i++) {
        model->arena[i]->state = MADE_OVER;
        model->arena[i]->held = 0;
    }
    for (size_t i = 0; i < model->n_handles; i++) {
        model->handles[i]->dropped = true;
        model->handles[i]->ends = 0;
    }
    memset(model->loading, 0, sc->n_samples * sizeof *model->loading);
    memset(model->ready, 0, sc->n_samples * sizeof *model->ready);
    memset(model->offered, 0, sc->n_samples * sizeof *model->offered);
    model->n_offered = 0;
    model->n_arena = model->n_tasks = model->n_copies = model->n_loading = 0;
    reserve_first(model);
    model->reserving_bytes = 0;
    model->refused = false;
    model->encoded_bytes = model->loaded = model->loaded_bytes = model->prepared = model->n_reads = 0;
    table_free(&model->instances);
    table_free(&model->had);
    table_free(&model->variants);
}

/* ── the arena ── */

/* The first range that ends behind `offset`. */
static size_t arena_find(const struct model *model, uint64_t offset)
{
    size_t low = 0, high = model->n_arena;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->arena[middle]->offset + model->arena[middle]->bytes > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct made *model_made_at(const struct model *model, uint64_t offset, uint64_t bytes)
{
    size_t at = arena_find(model, offset);
    if (at == model->n_arena || model->arena[at]->offset != offset || model->arena[at]->bytes != bytes)
        return NULL;
    return model->arena[at];
}

uint64_t model_idle_bytes(const struct model *model)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < model->n_arena; i++) {
        const struct made *made = model->arena[i];
        if (made->state == MADE_DONE && made->held == 0)
            bytes += engine_slot_bytes(&model->scenario->config, made->bytes);
    }
    return bytes;
}

static void arena_remove(struct model *model, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        model->arena[i]->state = MADE_OVER;
    if (end > first) /* there may be no array yet */
        memmove(&model->arena[first], &model->arena[end], (model->n_arena - end) * sizeof *model->arena);
    model->n_arena -= end - first;
}

/* Writes a tag over whatever lay in its range, all of which must have been nobody's. */
static void arena_write(struct model *model, struct made *made)
{
    size_t first = arena_find(model, made->offset), end = first;
    for (; end < model->n_arena && model->arena[end]->offset < made->offset + made->bytes; end++) {
        const struct made *old = model->arena[end];
        if (old->state == MADE_RUNNING || old->held)
            model_break(model, RULE_SLOT, "slot %llu+%llu of sample %u is written over that of sample %u, which is %s",
                        (unsigned long long)made->offset, (unsigned long long)made->bytes, made->id, old->id,
                        old->held ? "held by a client" : "being prepared");
    }
    model->arena = xgrow(model->arena, sizeof *model->arena, &model->cap_arena, model->n_arena + 1);
    arena_remove(model, first, end);
    memmove(&model->arena[first + 1], &model->arena[first], (model->n_arena - first) * sizeof *model->arena);
    model->arena[first] = made;
    model->n_arena++;
}

static struct made *made_new(struct model *model)
{
    model->all_made = xgrow(model->all_made, sizeof *model->all_made, &model->cap_made, model->n_made + 1);
    struct made *made = xcalloc(1, sizeof *made);
    made->serial = model->n_made;
    model->all_made[model->n_made++] = made;
    return made;
}

uint64_t model_reserved(const struct model *model)
{
    return model->reserved_bytes;
}

void model_on_reserve(struct model *model, const struct engine_action *action)
{
    uint64_t unit = model->scenario->config.reserve_bytes, bytes = action->reserve.bytes;
    uint64_t arena = arena_end(model);
    if (model->reserving_bytes || bytes == 0 || bytes > arena || (bytes < arena && (unit == 0 || bytes % unit)))
        model_break(model, RULE_TASK, "RESERVE of %llu bytes while %llu are there and %llu asked for",
                    (unsigned long long)bytes, (unsigned long long)model->reserved_bytes,
                    (unsigned long long)model->reserving_bytes);
    model->reserving_bytes = bytes;
    model_check_budget(model, SAMPLE_NONE, "a RESERVE instead");
}

void model_on_reserved(struct model *model, const struct engine_event *event)
{
    uint64_t bytes = event->reserved.bytes;
    model->reserved_bytes = bytes > model->reserved_bytes ? bytes : model->reserved_bytes;
    away_remove(&model->away, 0, bytes);
    model->reserving_bytes = 0;
    model->refused = event->reserved.refused;
}

/* What is taken away must be nobody's. While a RESERVE is out nothing is, since its answer may have the same bytes. */
void model_on_return(struct model *model, const struct engine_action *action)
{
    uint64_t from = action->give_back.from, to = action->give_back.to;
    if (from >= to || to > arena_end(model) || model->reserving_bytes || !model->scenario->config.reserve_bytes)
        model_break(model, RULE_TASK, "RETURN of %llu to %llu bytes of %llu while %llu are asked for",
                    (unsigned long long)from, (unsigned long long)to, (unsigned long long)arena_end(model),
                    (unsigned long long)model->reserving_bytes);
    size_t first = arena_find(model, from), end = first;
    for (; end < model->n_arena && model->arena[end]->offset < to; end++) {
        const struct made *made = model->arena[end];
        if (made->state == MADE_RUNNING || made->held)
            model_break(model, RULE_SLOT, "slot %llu+%llu of sample %u is taken away, which is %s",
                        (unsigned long long)made->offset, (unsigned long long)made->bytes, made->id,
                        made->held ? "held by a client" : "being prepared");
    }
    arena_remove(model, first, end); /* a job that is given one of these is given wrong bytes */
    away_add(&model->away, from, to);
    model->reserved_bytes = from < model->reserved_bytes ? from : model->reserved_bytes;
}

/* ── encoded bytes ── */

/* Encoded samples may have what they are lent of the arena's budget, while it is neither there nor asked for. */
void model_check_budget(struct model *model, sample_id id, const char *what)
{
    const struct engine_config *config = &model->scenario->config;
    uint64_t left = away_bytes_from(&model->away, model->reserving_bytes);
    uint64_t budget = config->encoded_bytes + (left < config->lent_bytes ? left : config->lent_bytes);
    if (model->encoded_bytes > budget)
        model_break(model, RULE_ENCODED, "%llu encoded bytes with %s of sample %u, the budget is %llu",
                    (unsigned long long)model->encoded_bytes, what, id, (unsigned long long)budget);
}

void *model_make_handle(struct model *model, sample_id id)
{
    model->handles = xgrow(model->handles, sizeof *model->handles, &model->cap_handles, model->n_handles + 1);
    struct handle *handle = xcalloc(1, sizeof *handle);
    *handle = (struct handle){.id = id, .bytes = model->scenario->samples[id].bytes};
    model->handles[model->n_handles++] = handle;
    return handle;
}

void model_on_loaded(struct model *model, const struct engine_event *event)
{
    sample_id id = event->loaded.id;
    CHECK(model->loading[id]);
    model->loading[id] = false;
    model->n_loading--;
    model_source_loaded(model, event);
    model->encoded_bytes -= scenario_load_bytes(model->scenario, id);
    if (event->loaded.encoded == NULL)
        return;
    model->encoded_bytes += event->loaded.bytes;
    model->ready[id] = event->loaded.encoded;
    model->loaded++;
    model->loaded_bytes += event->loaded.bytes;
}

static bool dataset_fits(struct model *model, const void *dataset, sample_id id, const char *what)
{
    struct scenario *sc = model->scenario;
    uint32_t index = 0;
    while (index < sc->n_datasets && &sc->datasets[index] != dataset)
        index++;
    if (index == sc->n_datasets || id >= sc->n_samples || sc->datasets[index].position[id] == SCENARIO_NOT_THERE) {
        model_break(model, RULE_TASK, "%s of sample %u from a dataset that does not contain it", what, id);
        return false;
    }
    if (sc->datasets[index].users == 0)
        model_break(model, RULE_JOB, "%s of sample %u from dataset %u, which no job uses any more", what, id, index);
    return true;
}

static bool chunk_in(const struct scenario *sc, uint32_t dataset, sample_id id, uint32_t *chunk)
{
    const struct scenario_dataset *in = &sc->datasets[dataset];
    *chunk = in->chunk_base + in->position[id] / sc->chunk_samples;
    return in->in_chunks && in->position[id] != SCENARIO_NOT_THERE;
}

/* LOADs in a row that have a read's number in common must lie in one chunk. A sample of several datasets is in several
 * chunks, and the engine goes by the one it heard of first: any will do that has them all. */
static void check_read(struct model *model, const struct engine_action *action)
{
    const struct scenario *sc = model->scenario;
    if (model->n_reads == 0 || action->load.read != model->read || model->read_step != model->step) {
        model->n_reads++;
        model->read = action->load.read;
        model->read_step = model->step;
        model->read_first = action->load.id;
        model->read_from = action->load.dataset;
        model->read_datasets = UINT32_MAX;
        return;
    }
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        uint32_t first, this;
        if (!chunk_in(sc, i, model->read_first, &first) || !chunk_in(sc, i, action->load.id, &this) || first != this)
            model->read_datasets &= ~(UINT32_C(1) << i);
    }
    if ((model->read_datasets & ((UINT32_C(1) << sc->n_datasets) - 1)) == 0 || action->load.dataset != model->read_from)
        model_break(model, RULE_TASK, "LOAD of sample %u in a read of another chunk", action->load.id);
}

void model_on_load(struct model *model, const struct engine_action *action)
{
    sample_id id = action->load.id;
    const struct engine_config *config = &model->scenario->config;
    if (!dataset_fits(model, action->load.dataset, id, "LOAD"))
        return;
    model_restore_check_idle(model, action->job, "a LOAD");
    check_read(model, action);
    if (model->loading[id] || model->ready[id])
        model_break(model, RULE_TASK, "LOAD of sample %u, which is %s", id,
                    model->loading[id] ? "being loaded" : "in memory");
    uint64_t bytes = scenario_load_bytes(model->scenario, id);
    if (action->load.bytes != bytes)
        model_break(model, RULE_ENCODED, "LOAD of sample %u says %llu bytes, it has %llu", id,
                    (unsigned long long)action->load.bytes, (unsigned long long)bytes);
    model_source_load(
        model, (uint32_t)((const struct scenario_dataset *)action->load.dataset - model->scenario->datasets), id);
    model->loading[id] = true;
    model->n_loading++;
    model->encoded_bytes += bytes;
    if (model->n_loading > config->inflight_loads)
        model_break(model, RULE_TASK, "%u loads out, %u allowed", model->n_loading, config->inflight_loads);
    model_check_budget(model, id, "the load");
}

void model_on_drop(struct model *model, const struct engine_action *action)
{
    struct handle *handle = action->drop.encoded;
    if (handle && !handle->dropped && model_form_dropped(model, handle))
        return;
    if (handle == NULL || handle->dropped || model->ready[handle->id] != handle) {
        model_break(model, RULE_ENCODED, "DROP_ENCODED of bytes that are not there (sample %u)",
                    handle ? handle->id : SAMPLE_NONE);
        return;
    }
    if (handle->running)
        model_break(model, RULE_ENCODED, "DROP_ENCODED of sample %u while a PREPARE reads it", handle->id);
    handle->dropped = true;
    model->ready[handle->id] = NULL;
    model->encoded_bytes -= handle->bytes;
}

/* ── prepares ── */

/* Is an instance of the variant another each time? Those of `strict` jobs that have variants are the same whenever they
 * are made. */
static bool is_drawn(const struct model *model, uint64_t variant)
{
    for (uint32_t i = 0; variant && i < model->scenario->n_clients; i++)
        if (model->scenario->clients[i].variant == variant && model->scenario->clients[i].shuffle != SHUFFLE_STRICT)
            return true;
    return variant == 0;
}

/* Tags one output; NULL when it makes no sense. */
static struct made *output_made(struct model *model, sample_id id, const struct engine_output *output)
{
    const struct scenario *sc = model->scenario;
    if (output->pipeline >= ENGINE_PIPELINES_MAX || model->number_users[output->pipeline] == 0) {
        model_break(model, RULE_JOB, "PREPARE of sample %u for pipeline %u, which no job uses", id, output->pipeline);
        return NULL;
    }
    uint32_t pipeline = model->number_pipeline[output->pipeline];
    uint64_t bytes = scenario_begun_bytes(sc, pipeline, id);
    if (output->bytes != bytes)
        model_break(model, RULE_SLOT, "slot of %llu bytes for an instance of %llu", (unsigned long long)output->bytes,
                    (unsigned long long)bytes);
    uint64_t end = arena_end(model);
    if (output->bytes > end || output->offset > end - output->bytes ||
        away_overlaps(&model->away, output->offset, output->offset + output->bytes)) {
        model_break(model, RULE_SLOT, "slot %llu+%llu is outside the %llu bytes of the arena that are there",
                    (unsigned long long)output->offset, (unsigned long long)output->bytes,
                    (unsigned long long)(end - away_bytes(&model->away)));
        return NULL;
    }
    /* 16 bits of the number's meaning, 16 of the sample, 32 of the instance */
    uint64_t key = (uint64_t)model->number_meaning[output->pipeline] << 48 | (uint64_t)id << 32 |
                   (uint32_t)output->instance;
    uint64_t *begun = table_at(&model->instances, key);
    bool anew = is_drawn(model, output->variant);
    if ((*begun && anew) || output->instance > UINT32_MAX || (!anew && output->instance))
        model_break(model, RULE_INSTANCE, "instance %llu of sample %u and pipeline %u is made again",
                    (unsigned long long)output->instance, id, output->pipeline);
    *begun = anew;
    struct made *made = made_new(model);
    made->id = id;
    made->pipeline = pipeline;
    made->instance = output->instance;
    made->variant = output->variant;
    made->offset = output->offset;
    made->bytes = output->bytes;
    made->state = MADE_RUNNING;
    arena_write(model, made);
    return made;
}

/* may_run tells whether the PREPARE may be out beside the others. A copy makes nothing but raw instances. */
static bool may_run(const struct model *model, const struct engine_action *action)
{
    const struct engine_config *config = &model->scenario->config;
    if (action->prepare.n_outputs == 0 || action->prepare.n_outputs > ENGINE_OUTPUTS_MAX)
        return false;
    if (!action->prepare.copy)
        return model->n_tasks - model->n_copies < prepares_max(model->scenario);
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++)
        if (action->prepare.outputs[i].pipeline >= ENGINE_PIPELINES_MAX ||
            model->number_pipeline[action->prepare.outputs[i].pipeline] != model->scenario->raw_pipeline)
            return false;
    return action->prepare.encoded_bytes <= config->copy_bytes && config->copy_bytes &&
           model->n_copies < ENGINE_COPIES_MAX;
}

void model_on_prepare(struct model *model, const struct engine_action *action)
{
    sample_id id = action->prepare.id;
    if (!dataset_fits(model, action->prepare.dataset, id, "PREPARE"))
        return;
    model_restore_check_idle(model, action->job, "a PREPARE");
    struct handle *handle = model->ready[id];
    if (handle == NULL || action->prepare.encoded != handle || action->prepare.encoded_bytes != handle->bytes ||
        action->prepare.decoded != handle->form) {
        model_break(model, RULE_ENCODED, "PREPARE of sample %u with bytes that are not its own", id);
        return;
    }
    for (uint32_t i = 0; i < model->n_tasks; i++)
        if (model->tasks[i].task == action->prepare.task)
            model_break(model, RULE_TASK, "PREPARE task %u runs already", action->prepare.task);
    if (!may_run(model, action)) {
        model_break(model, RULE_TASK, "PREPARE of %u outputs while %u run and %u copies, %u and %d allowed",
                    action->prepare.n_outputs, model->n_tasks - model->n_copies, model->n_copies,
                    prepares_max(model->scenario), ENGINE_COPIES_MAX);
        return;
    }
    struct running_task *task = &model->tasks[model->n_tasks++];
    *task = (struct running_task){.task = action->prepare.task, .copy = action->prepare.copy, .handle = handle};
    model->n_copies += task->copy;
    handle->running++;
    model_form_granted(model, task, action);
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
        struct made *made = output_made(model, id, &action->prepare.outputs[i]);
        if (made && (handle->form || handle->planes) && made->pipeline == model->scenario->raw_pipeline)
            model_break(model, RULE_BYTES, "a raw instance of sample %u is made of other bytes", id);
        if (made)
            task->outputs[task->n_outputs++] = made;
    }
}

/* task_of returns the number of the task that a PREPARED is about. */
static uint32_t task_of(const struct model *model, const struct engine_event *event)
{
    uint32_t at = 0;
    while (at < model->n_tasks && model->tasks[at].task != event->prepared.task)
        at++;
    CHECK(at < model->n_tasks);
    return at;
}

void model_measure(const struct model *model, struct engine_event *event)
{
    const struct running_task *task = &model->tasks[task_of(model, event)];
    uint64_t task_ns = event->prepared.core_ns;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct made *made = task->outputs[i];
        if (model->scenario->sized >> made->pipeline & 1)
            event->prepared.bytes[i] = (uint32_t)scenario_made_bytes(model->scenario, made->pipeline, made->id,
                                                                     made->instance);
        if (model->scenario->unlike) {
            uint64_t own_ns = task_ns << 2 * (made->pipeline % 4);
            event->prepared.own_ns[i] = own_ns < UINT32_MAX ? (uint32_t)own_ns : UINT32_MAX;
            event->prepared.core_ns += event->prepared.own_ns[i];
        }
    }
}

void model_on_prepared(struct model *model, const struct engine_event *event)
{
    struct running_task *task = &model->tasks[task_of(model, event)];
    task->handle->running--;
    model_form_made(model, task, event);
    model->outputs_ended = task->n_outputs;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        struct made *made = task->outputs[i];
        model->outputs_begun[i] = made->bytes;
        if (event->prepared.reasons[i])
            model_sample_failed(model, made->pipeline, made->id);
        if (made->state != MADE_RUNNING)
            continue; /* written over: reported when it happened */
        size_t place = arena_find(model, made->offset);
        CHECK(model->arena[place] == made);
        made->state = MADE_DONE;
        if (event->prepared.reasons[i])
            arena_remove(model, place, place + 1);
        else
            model->prepared++;
        if (event->prepared.bytes[i])
            made->bytes = event->prepared.bytes[i]; /* what lies behind it may be anybody's */
    }
    model->n_copies -= task->copy;
    *task = model->tasks[--model->n_tasks];
}

static bool is_among(sample_id id, const sample_id *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

void model_forgotten(struct model *model, const sample_id *ids, uint32_t count)
{
    for (size_t i = model->n_arena; i-- > 0;) {
        const struct made *made = model->arena[i];
        if (!is_among(made->id, ids, count))
            continue;
        if (made->held || made->state == MADE_RUNNING)
            model_break(model, RULE_SLOT, "sample %u was forgotten while an instance of it is %s", made->id,
                        made->held ? "held" : "being made");
        arena_remove(model, i, i + 1); /* a job that is given it from now on is given wrong bytes */
    }
    for (size_t i = 0; i < model->n_handles; i++) {
        if (!model->handles[i]->dropped && is_among(model->handles[i]->id, ids, count))
            model_break(model, RULE_ENCODED, "sample %u was forgotten, and its bytes were not dropped",
                        model->handles[i]->id);
    }
}

uint32_t model_outputs_ended(const struct model *model)
{
    return model->outputs_ended;
}

uint64_t model_output_begun(const struct model *model, uint32_t output)
{
    return model->outputs_begun[output];
}

void *model_busy_handle(const struct model *model)
{
    return model->n_tasks ? model->tasks[0].handle : NULL;
}

bool model_held_slot(const struct model *model, uint64_t *offset)
{
    for (size_t i = 0; i < model->n_arena; i++) {
        if (model->arena[i]->held) {
            *offset = model->arena[i]->offset;
            return true;
        }
    }
    return false;
}

void model_let_go(struct model *model, struct held_batch *held, uint32_t *n, uint64_t *held_bytes, uint32_t at)
{
    for (uint32_t i = 0; i < held[at].count; i++) {
        struct made *made = held[at].made[i];
        if (made->state != MADE_DONE || model_made_at(model, made->offset, made->bytes) != made)
            model_break(model, RULE_BYTES, "at its RELEASE the slot of sample %u holds something else", made->id);
        made->held--;
        *held_bytes -= made->bytes;
    }
    free(held[at].made);
    held[at] = held[--*n];
}
