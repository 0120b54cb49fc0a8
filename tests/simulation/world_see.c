/* world_see.c: what is told to the engine and what it does: the hash of a run, and what --verbose prints. */
#include <stdarg.h>
#include <stdio.h>

#include "tests/simulation/world_priv.h"

void world_say(const struct world *world, const char *fmt, ...)
{
    if (!world->options.verbose)
        return;
    printf("%12.6f ", (double)world->now_ns * 1e-9);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void note(struct world *world, uint64_t value)
{
    world->hash = random_mix64(world->hash ^ value);
}

static void see_resume(struct world *world, const struct engine_resume *resume)
{
    note(world, resume->epoch);
    note(world, resume->delivered);
    world_say(world, "  %s epoch %u, %u + %u batches, %llu samples, through %llu, %llu turns, base %llu, %u segments",
              resume->presented ? "comes back to" : "goes on in", resume->epoch, resume->base_batches, resume->batches,
              (unsigned long long)resume->delivered, (unsigned long long)resume->through,
              (unsigned long long)(resume->turns ? idset_count(resume->turns) : 0),
              (unsigned long long)(resume->base ? idset_count(resume->base) : 0), resume->n_segments);
}

void world_see_event(struct world *world, const struct engine_event *event)
{
    note(world, event->type);
    note(world, world->now_ns);
    switch (event->type) {
    case ENGINE_JOB_ADD:
        if (event->job_add->resume)
            see_resume(world, event->job_add->resume);
        world_say(
            world, "> JOB_ADD '%s' rank %u of %u pipeline %u batch %u prefetch %u epochs %u shuffle %d policy %d%s",
            event->job_add->name, event->job_add->rank, event->job_add->world_size, event->job_add->pipeline,
            event->job_add->batch_size, event->job_add->prefetch, event->job_add->epochs,
            event->job_add->sampled.shuffle, event->job_add->bad_policy, event->job_add->drop_last ? " drop_last" : "");
        break;
    case ENGINE_JOB_GONE: world_say(world, "> JOB_GONE job %u rank %u", event->job_gone.job, event->rank); break;
    case ENGINE_JOB_CANCEL: world_say(world, "> JOB_CANCEL job %u", event->job_cancel.job); break;
    case ENGINE_NEXT:
        world_say(world, "> NEXT job %u rank %u epoch %u credits %u", event->next.job, event->rank, event->next.epoch,
                  event->next.credits);
        break;
    case ENGINE_RELEASE:
        world_say(world, "> RELEASE job %u rank %u batch %llu", event->release.job, event->rank,
                  (unsigned long long)event->release.batch);
        break;
    case ENGINE_LOADED:
        world_say(world, "> LOADED sample %u%s", event->loaded.id,
                  event->loaded.encoded                       ? ""
                  : event->loaded.fate == ENGINE_FATE_SOURCE  ? " failed for its source"
                  : event->loaded.fate == ENGINE_FATE_CHANGED ? " is another by now"
                                                              : " failed");
        break;
    case ENGINE_PREPARED:
        world_say(world, "> PREPARED task %u", event->prepared.task);
        for (uint32_t i = 0; i < ENGINE_OUTPUTS_MAX; i++) {
            if (event->prepared.reasons[i])
                world_say(world, "      output %u failed", i);
        }
        break;
    case ENGINE_WEIGHT: world_say(world, "> WEIGHT job %u: %g", event->weight.job, event->weight.weight); break;
    case ENGINE_PACE:
        world_say(world, "> PACE job %u rank %u: %llu ns", event->pace.job, event->rank,
                  (unsigned long long)event->pace.batch_ns);
        break;
    case ENGINE_PIPELINE_GONE: world_say(world, "> PIPELINE_GONE number %u", event->pipeline_gone.pipeline); break;
    case ENGINE_SAMPLES_GONE:
        world_say(world, "> SAMPLES_GONE %u ids from %u on", event->samples_gone.count, event->samples_gone.ids[0]);
        break;
    case ENGINE_RESERVED:
        note(world, event->reserved.bytes);
        world_say(world, "> RESERVED %llu bytes%s", (unsigned long long)event->reserved.bytes,
                  event->reserved.refused ? ", and no more" : "");
        break;
    case ENGINE_PLACE:
        world_say(world, "> PLACE %u samples from %u on", event->place->count, event->place->ids[0]);
        break;
    case ENGINE_SHRINK: world_say(world, "> SHRINK"); break;
    default: world_say(world, event->type == ENGINE_DRAIN ? "> DRAIN" : "> TICK");
    }
}

static void see_prepare(struct world *world, const struct engine_action *action)
{
    note(world, action->prepare.id);
    note(world, action->prepare.task);
    if (action->prepare.form_bytes || action->prepare.decoded)
        note(world, action->prepare.form_bytes);
    world_say(world, "  < PREPARE task %u sample %u%s%s", action->prepare.task, action->prepare.id,
              action->prepare.decoded ? " of its form" : "", action->prepare.form_bytes ? ", a form is wanted" : "");
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
        const struct engine_output *output = &action->prepare.outputs[i];
        note(world, output->offset);
        note(world, output->instance);
        world_say(world, "      pipeline %u instance %llu at %llu+%llu", output->pipeline,
                  (unsigned long long)output->instance, (unsigned long long)output->offset,
                  (unsigned long long)output->bytes);
    }
}

static void see_deliver(struct world *world, const struct engine_action *action)
{
    note(world, action->deliver.batch);
    note(world, action->deliver.last);
    world_say(world, "  < DELIVER job %u rank %u batch %llu: epoch %u index %u, %u samples%s", action->job,
              action->rank, (unsigned long long)action->deliver.batch, action->deliver.epoch, action->deliver.index,
              action->deliver.count, action->deliver.last ? ", LAST" : "");
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        const struct engine_entry *entry = &action->deliver.entries[i];
        note(world, entry->id);
        note(world, entry->offset);
        world_say(world, "      sample %u at %llu+%llu", entry->id, (unsigned long long)entry->offset,
                  (unsigned long long)entry->bytes);
        if (entry->turn != entry->id)
            world_say(world, "        in the turn of sample %d", (int)entry->turn);
    }
}

void world_see_action(struct world *world, const struct engine_action *action)
{
    note(world, action->type);
    note(world, action->job);
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        world_say(world, "  < JOB_ADDED job %u rank %u: %u batches, held_max %u, quota %llu", action->job, action->rank,
                  action->job_added.n_batches, action->job_added.held_max,
                  (unsigned long long)action->job_added.quota_bytes);
        break;
    case ENGINE_JOB_REFUSED:
    case ENGINE_JOB_ERROR:
        world_say(world, "  < %s rank %u: %s: %s", action->type == ENGINE_JOB_ERROR ? "JOB_ERROR" : "JOB_REFUSED",
                  action->rank, larder_err_name(action->error.error.code), action->error.error.text);
        break;
    case ENGINE_LOAD:
        note(world, action->load.id);
        world_say(world, "  < LOAD sample %u, %llu bytes, read %llu", action->load.id,
                  (unsigned long long)action->load.bytes, (unsigned long long)action->load.read);
        break;
    case ENGINE_AHEAD:
        note(world, action->ahead.to);
        world_say(world, "  < AHEAD job %u: from %u to %u batches, quota %llu", action->job, action->ahead.from,
                  action->ahead.to, (unsigned long long)action->ahead.quota_bytes);
        break;
    case ENGINE_PREPARE: see_prepare(world, action); break;
    case ENGINE_SOURCE:
        note(world, action->source.news);
        note(world, action->source.id);
        world_say(world, "  < SOURCE %s, sample %d",
                  action->source.news == ENGINE_SOURCE_AWAY   ? "away"
                  : action->source.news == ENGINE_SOURCE_BACK ? "back"
                                                              : "gave up",
                  (int)action->source.id);
        break;
    case ENGINE_DELIVER: see_deliver(world, action); break;
    case ENGINE_RESERVE:
        note(world, action->reserve.bytes);
        world_say(world, "  < RESERVE %llu bytes", (unsigned long long)action->reserve.bytes);
        break;
    case ENGINE_RETURN:
        note(world, action->give_back.from);
        note(world, action->give_back.to);
        world_say(world, "  < RETURN %llu to %llu bytes", (unsigned long long)action->give_back.from,
                  (unsigned long long)action->give_back.to);
        break;
    default:
        world_say(world, action->type == ENGINE_DROP_ENCODED ? "  < DROP_ENCODED" : "  < JOB_ENDED job %u",
                  action->job);
    }
}
