/* encoded_forms.c: decoded forms of samples, in the place of their encoded bytes.
 *
 * A form saves the decode at each later preparation, and takes some times the bytes. A preparation that decodes anyway
 * makes it on the way. A read costs more than it brings to decode fewer samples. So forms go first when room is needed,
 * and whoever reads counts what they take as free. A form that goes is read again as well. So one is made only if there
 * is room for all that reads bring until it has paid. Of the sample's own dataset that is all that is missing: each
 * epoch needs it. Of another dataset it is no more than its jobs take in this time. So nothing is kept free for a
 * source that does not answer.
 *
 * Nobody knows what a form takes before the image's header was read. So a task is granted a number of bytes, which
 * count from then on. It makes no form that takes more, but tells what it would take. */
#include "common/check.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"
#include "server/engine/outbox.h"

enum { SHED_FORMS = 64 }; /* forms that one step drops when none may be there: the caller frees each */

bool encoded_is_other(const struct encoded_store *store, sample_id id)
{
    uint32_t index = encoded_sample(store, id)->encoded;
    return index != ENGINE_NONE && (store->encodeds[index].decoded || store->encodeds[index].planes);
}

void encoded_forms_measure(struct encoded_store *store)
{
    struct forms *forms = &store->forms;
    forms->most_bytes = encoded_sure(store);
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        if (job->terms.needs_encoded)
            forms->most_bytes = 0;
    }
    if (!store->env->config.decoded)
        forms->most_bytes = 0;
}

/* set_bytes changes what the encoded takes. */
static void set_bytes(struct encoded_store *store, uint32_t index, uint64_t bytes)
{
    struct encoded *encoded = &store->encodeds[index];
    store->used_bytes += bytes - encoded->bytes;
    store->forms.extra_bytes += (int64_t)(bytes - encoded->bytes);
    store->pinned_bytes += residency_pins(store->residency, index) > 0 ? bytes - encoded->bytes : 0;
    encoded->bytes = bytes;
}

/* all_stay tells whether the arena has room for all instances of a job that may get them again in each epoch. */
static bool all_stay(const struct encoded_store *store, const struct job *job)
{
    uint64_t slot = engine_slot_bytes(&store->env->config, job->terms.slot_bytes);
    return job->terms.repeatable && job->shape.view_samples <= store->prepared->growth.most_bytes / slot;
}

/* pays tells whether enough preparations of the sample are to be expected after this one. */
static bool pays(const struct encoded_store *store, sample_id id)
{
    uint64_t uses = 0;
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        uint64_t epochs = job_epochs(job) - (job->progress.began ? job->progress.epoch + (uint64_t)1 : 0);
        uses += demand_wants_encoded(store->jobs, job->no, id);
        if (job->state != JOB_FAILED && !all_stay(store, job) && idset_contains(job_drawn(job), id))
            uses += epochs;
    }
    return uses >= FORM_USES_LEAST;
}

/* pace returns the samples per nanosecond that the job takes. It had one batch when it came, so that a job whose first
 * samples are still on their way does not seem to stand still. */
static double pace(const struct encoded_store *store, const struct job *job)
{
    return (double)(job->tallies.samples_delivered + job->shape.batch_slots) /
           (double)(store->env->now_ns - job->tallies.came_ns + 1);
}

/* pays_after returns the nanoseconds in which the sample is prepared FORM_USES_LEAST times. */
static double pays_after(const struct encoded_store *store, sample_id id)
{
    double uses = 0; /* per nanosecond */
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job)) {
        if (job->state != JOB_FAILED && idset_contains(job_drawn(job), id))
            uses += pace(store, job) / (double)job->shape.view_samples;
    }
    return FORM_USES_LEAST / uses;
}

/* most_taken returns the samples that the dataset's jobs take in so many nanoseconds. */
static double most_taken(const struct encoded_store *store, const void *dataset, double ns)
{
    double samples = 0;
    for (const struct job *job = jobs_first(store->jobs); job; job = jobs_after(store->jobs, job))
        samples += job->terms.dataset == dataset ? pace(store, job) * ns : 0;
    return samples;
}

/* to_come returns the bytes that reads bring before a form of the encoded has paid. */
static double to_come(const struct encoded_store *store, const struct encoded *encoded)
{
    double bytes = 0, ns = 0;
    for (uint32_t i = 0; i < store->n_flights; i++) {
        const struct flight *flight = &store->flights[i];
        if (flight->wanted <= flight->samples)
            continue;
        double missing = (double)(flight->wanted - flight->samples);
        if (i != encoded->flight) {
            ns = ns > 0 ? ns : pays_after(store, encoded->id);
            double taken = most_taken(store, flight->dataset, ns);
            missing = taken < missing ? taken : missing;
        }
        bytes += missing * (double)flight->mean_bytes;
    }
    return bytes;
}

/* form_ratio returns what forms of the dataset's samples take, by the bytes as read; 1 before one was measured. The
 * first that are granted too little tell what they would take. */
static double form_ratio(const struct flight *flight)
{
    return flight->formed_from ? (double)flight->formed / (double)flight->formed_from : 1;
}

uint64_t encoded_form_grant(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    const struct forms *forms = &store->forms;
    if (forms->most_bytes == 0 || encoded->decoded || encoded->granted || encoded->formless || !encoded->kept)
        return 0;
    uint64_t bytes = (uint64_t)((double)encoded->bytes * form_ratio(&store->flights[encoded->flight]) *
                                FORM_GRANT_MORE);
    bytes = encoded->form_bytes ? encoded->form_bytes : bytes;
    double left = (double)forms->most_bytes - (double)store->used_bytes - (double)bytes;
    if (left < 0 || store->used_bytes + bytes > encoded_most(store) || !pays(store, encoded->id) ||
        left < to_come(store, encoded))
        return 0;
    encoded->granted = bytes;
    set_bytes(store, index, encoded->bytes + bytes);
    return bytes;
}

/* drop gives a handle back to the caller. */
static void drop(struct encoded_store *store, void *handle)
{
    if (handle)
        outbox_add(store->outbox, ENGINE_DROP_ENCODED)->drop.encoded = handle;
}

void encoded_form_made(struct encoded_store *store, uint32_t index, void *form, uint64_t bytes)
{
    struct encoded *encoded = &store->encodeds[index];
    struct forms *forms = &store->forms;
    uint64_t as_read = encoded_handle_bytes(store, index);
    CHECK(encoded->granted && !encoded->decoded && (!form || bytes <= encoded->granted));
    store->flights[encoded->flight].formed += bytes;
    store->flights[encoded->flight].formed_from += bytes ? as_read : 0;
    encoded->formless = !form && bytes <= encoded->granted;
    encoded->form_bytes = bytes;
    encoded->granted = 0;
    if (!form || forms->most_bytes == 0 || encoded->readers > 0) {
        drop(store, form);
        set_bytes(store, index, as_read);
        return;
    }
    drop(store, encoded->handle);
    encoded->handle = form;
    encoded->decoded = true;
    encoded->read_bytes = as_read;
    set_bytes(store, index, bytes);
    forms->count++;
    forms->bytes += bytes;
    line_append(&forms->line, LINKS(store->encodeds, in_forms), index);
}

void encoded_forms_shed(struct encoded_store *store)
{
    const struct forms *forms = &store->forms;
    for (int dropped = 0; forms->most_bytes == 0 && forms->count > 0 && dropped < SHED_FORMS; dropped++) {
        uint32_t index = encoded_forms_victim(store);
        if (index == RESIDENT_NONE)
            return;
        encoded_free(store, index, true);
    }
}
