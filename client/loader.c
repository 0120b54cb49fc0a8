/* loader.c: what a loader knows about itself, how it fails, and how it ends. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/loader_priv.h"

int loader_enter(struct larder_loader *loader)
{
    if (!loader || loader->magic != LOADER_MAGIC)
        return LARDER_EINVAL;
    if (loader->pid != getpid())
        return error_set(&loader->error, LARDER_EPERM,
                         "this loader belongs to process %ld and cannot be used in its child %ld: open one here",
                         (long)loader->pid, (long)getpid());
    if (loader->broken)
        loader->error = loader->failure;
    return loader->broken;
}

bool loader_failed(const struct larder_loader *loader)
{
    return loader && loader->magic == LOADER_MAGIC && loader->broken && loader->pid == getpid();
}

void loader_close(struct larder_loader *loader)
{
    if (loader->arena && loader->arena->state == ARENA_LEASED)
        loader->arena->state = ARENA_LOST;
    connection_close(&loader->connection);
}

int loader_break(struct larder_loader *loader)
{
    loader->broken = loader->error.code;
    loader->failure = loader->error;
    waiting_drop(loader);
    if (!loader->batches || connection_lost(&loader->connection))
        loader_close(loader);
    return loader->broken;
}

int larder_info_sized(const struct larder_loader *loader, struct larder_info *out, size_t size_bytes)
{
    if (!loader || loader->magic != LOADER_MAGIC || !out)
        return LARDER_EINVAL;
    const struct wire_registered *job = &loader->job;
    struct image_shape image = {0}; /* encoded bytes have none */
    sample_layout_image(&job->layout, &image);
    struct larder_info info = {
        .n_samples = job->n_samples,
        .n_batches = job->n_batches,
        .n_classes = job->n_classes,
        .held_max = job->held_max,
        .height = image.height,
        .width = image.width,
        .channels = image.channels,
        .dtype = image.dtype,
        .layout = image.layout,
        .epoch = job->epoch,
        .sample_bytes = job->sample_bytes,
        .fingerprint = {job->fingerprint[0], job->fingerprint[1]},
        .job = loader->job_name,
        .batch = job->batch,
        .reconnects = loader->link.reconnects,
        .view = {job->view[0], job->view[1]},
    };
    memset(out, 0, size_bytes);
    memcpy(out, &info, size_bytes < sizeof info ? size_bytes : sizeof info);
    return 0;
}

uint32_t larder_field_count(const struct larder_loader *loader)
{
    return loader && loader->magic == LOADER_MAGIC ? loader->job.layout.n : 0;
}

int larder_field_sized(const struct larder_loader *loader, uint32_t number, struct larder_field *out, size_t size_bytes)
{
    if (!out || number >= larder_field_count(loader))
        return LARDER_EINVAL;
    const struct sample_field *field = &loader->job.layout.fields[number];
    struct sample_layout alone = {.n = 1, .fields = {*field}};
    struct image_shape image = {0};
    alone.fields[0].offset = 0;
    sample_layout_image(&alone, &image);
    uint64_t bytes = pixel_dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->rank; i++)
        bytes *= field->dims[i];
    struct larder_field made = {
        .name = field->name,
        .height = image.height,
        .width = image.width,
        .channels = image.channels,
        .dtype = field->dtype,
        .layout = image.layout,
        .offset = field->offset,
        .bytes = bytes,
    };
    memset(out, 0, size_bytes);
    memcpy(out, &made, size_bytes < sizeof made ? size_bytes : sizeof made);
    return 0;
}

const char *larder_class_name(const struct larder_loader *loader, int32_t label)
{
    if (!loader || loader->magic != LOADER_MAGIC || label < 0 || (uint32_t)label >= loader->job.n_classes)
        return NULL;
    return loader->classes.texts + loader->classes.start[label];
}

int larder_fd(const struct larder_loader *loader)
{
    return loader && loader->magic == LOADER_MAGIC && !loader->broken ? loader->connection.set_fd : -1;
}

void loader_destroy(struct larder_loader *loader)
{
    connection_close(&loader->connection);
    waiting_drop(loader);
    while (loader->batches) {
        struct larder_batch *batch = loader->batches;
        loader->batches = batch->next;
        waiting_free(batch);
    }
    arena_unref(&loader->arena);
    taken_free(&loader->taken);
    free(loader->stream.turns);
    free(loader->classes.texts);
    free(loader->classes.start);
    free(loader->asked_texts);
    free(loader->token);
    loader->magic = 0;
    free(loader);
}

void larder_close(struct larder_loader **loader)
{
    if (!loader || !*loader || (*loader)->magic != LOADER_MAGIC)
        return;
    if (loader_enter(*loader) == 0 && (*loader)->link.state == LINK_UP) {
        if ((*loader)->asked.world_size > 1 && (*loader)->stream.ended)
            join_settle(*loader);
        struct wire_message bye = {.type = WIRE_BYE};
        connection_send(&(*loader)->connection, &bye, -1, 0, NULL); /* a courtesy: closing says the same */
    }
    loader_destroy(*loader);
    *loader = NULL;
}
