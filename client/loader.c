/* loader.c: what a loader knows about itself, how it fails, and how it ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    return loader->broken;
}

int loader_break(struct larder_loader *loader)
{
    loader->broken = loader->error.code;
    if (!loader->batches || connection_lost(&loader->connection))
        connection_close(&loader->connection);
    return loader->broken;
}

int loader_daemon_error(const struct wire_error *message, struct error *err)
{
    return error_set(err, message->code, "%.*s", (int)message->text.len_bytes, message->text.data);
}

int loader_lost(struct larder_loader *loader)
{
    struct wire_message msg;
    int rc;
    do { /* what is still in the socket: at most what was asked for, then an ERROR perhaps, then the end */
        rc = connection_receive(&loader->connection, &msg, NULL, 0, &loader->error);
    } while (rc == 0 && msg.type != WIRE_ERROR);
    if (rc == 0)
        loader_daemon_error(&msg.error, &loader->error);
    return loader_break(loader);
}

int larder_info_sized(const struct larder_loader *loader, struct larder_info *out, size_t size_bytes)
{
    if (!loader || loader->magic != LOADER_MAGIC || !out)
        return LARDER_EINVAL;
    const struct wire_registered *job = &loader->job;
    struct larder_info info = {
        .n_samples = job->n_samples,
        .n_batches = job->n_batches,
        .n_classes = job->n_classes,
        .held_max = job->held_max,
        .height = job->height,
        .width = job->width,
        .channels = job->channels,
        .dtype = job->dtype,
        .layout = job->layout,
        .epoch = job->epoch,
        .sample_bytes = job->sample_bytes,
        .fingerprint = {job->fingerprint[0], job->fingerprint[1]},
        .job = loader->job_name,
    };
    memset(out, 0, size_bytes);
    memcpy(out, &info, size_bytes < sizeof info ? size_bytes : sizeof info);
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
    return loader && loader->magic == LOADER_MAGIC && !loader->broken ? loader->connection.fd : -1;
}

void loader_destroy(struct larder_loader *loader)
{
    connection_close(&loader->connection);
    if (loader->arena.data)
        munmap((void *)(uintptr_t)loader->arena.data, (size_t)loader->arena.bytes);
    while (loader->batches) {
        struct larder_batch *batch = loader->batches;
        loader->batches = batch->next;
        batch->magic = 0;
        free(batch);
    }
    free(loader->classes.texts);
    free(loader->classes.start);
    loader->magic = 0;
    free(loader);
}

void larder_close(struct larder_loader **loader)
{
    if (!loader || !*loader || (*loader)->magic != LOADER_MAGIC)
        return;
    if (loader_enter(*loader) == 0) {
        struct wire_message bye = {.type = WIRE_BYE};
        connection_send(&(*loader)->connection, &bye, 0, NULL); /* a courtesy: closing says the same */
    }
    loader_destroy(*loader);
    *loader = NULL;
}
