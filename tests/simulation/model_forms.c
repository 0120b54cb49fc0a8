/* model_forms.c: decoded forms in the model: what a preparation may take for one, and which of a sample's handles is in
 * memory. */
#include "common/check.h"
#include "tests/simulation/model_priv.h"

void model_form_granted(struct model *model, struct running_task *task, const struct engine_action *action)
{
    uint64_t bytes = action->prepare.form_bytes;
    if (bytes == 0)
        return;
    task->form_bytes = bytes;
    model->encoded_bytes += bytes;
    if (action->prepare.decoded || action->prepare.copy)
        model_break(model, RULE_ENCODED, "a form of sample %u is wanted that cannot be made", action->prepare.id);
    model_check_budget(model, action->prepare.id, "the form");
}

struct handle *model_load_handle(struct model *model, struct engine_event *event)
{
    sample_id id = event->loaded.id;
    struct handle *handle = model_make_handle(model, id);
    uint64_t planes = model->scenario->planes ? scenario_planes((void *)model->scenario, NULL, id) : 0;
    if (planes && planes <= scenario_load_bytes(model->scenario, id) && random_mix64(id + model->n_handles) % 2) {
        handle->planes = event->loaded.planes = true;
        handle->bytes = event->loaded.bytes = planes;
    }
    return handle;
}

/* Some samples have no form. Of the others a form is one to six times as large as the sample. */
void model_make_form(struct model *model, struct engine_event *event, bool fails)
{
    const struct running_task *task = NULL;
    for (uint32_t i = 0; i < model->n_tasks; i++)
        task = model->tasks[i].task == event->prepared.task ? &model->tasks[i] : task;
    if (!task || task->form_bytes == 0 || fails || task->handle->id % 11 == 10)
        return;
    sample_id id = task->handle->id;
    event->prepared.decoded_bytes = model->scenario->samples[id].bytes * (1 + id % 6) + 1;
    if (event->prepared.decoded_bytes > task->form_bytes)
        return;
    struct handle *form = model_make_handle(model, id);
    form->form = true;
    form->bytes = event->prepared.decoded_bytes;
    event->prepared.decoded = form;
}

void model_form_made(struct model *model, const struct running_task *task, const struct engine_event *event)
{
    struct handle *form = event->prepared.decoded;
    model->encoded_bytes -= task->form_bytes;
    if (!form)
        return;
    CHECK(!model->offered[form->id]);
    model->offered[form->id] = form;
    model->n_offered++;
    model->encoded_bytes += form->bytes;
}

bool model_form_dropped(struct model *model, struct handle *handle)
{
    struct handle *form = model->offered[handle->id];
    if (!form)
        return false;
    struct handle *other = handle == form ? model->ready[form->id] : form;
    model->offered[form->id] = NULL;
    model->n_offered--;
    if (handle != form && (handle != model->ready[form->id] || handle->running))
        model_break(model, RULE_ENCODED,
                    "a form takes the place of other bytes than those of sample %u, or of bytes "
                    "that a PREPARE reads",
                    form->id);
    model->ready[form->id] = other;
    model->forms += other == form;
    handle->dropped = true;
    model->encoded_bytes -= handle->bytes;
    return true;
}

void model_forms_settle(struct model *model)
{
    if (model->n_offered)
        model_break(model, RULE_ENCODED, "%u forms were neither taken nor given back", model->n_offered);
}

void *model_replaced_handle(const struct model *model, sample_id id)
{
    for (size_t i = 0; model->ready[id] && model->ready[id]->form && i < model->n_handles; i++) {
        if (model->handles[i]->id == id && model->handles[i]->dropped)
            return model->handles[i];
    }
    return NULL;
}
