/* state.c: larder_state. In a job of one rank this loader itself knows what was taken. In a larger job only the daemon
 * knows what all ranks took up to this rank's last batch: in `dependent` order it gives each rank what is ready. */
#include "client/loader_priv.h"

static int make_state(struct larder_loader *loader, int64_t timeout_ms)
{
    const struct loader_stream *stream = &loader->stream;
    const struct taken *taken = &loader->taken;
    struct record token;
    uint8_t through[4];
    bool apart = loader->asked.local_world_size && loader->asked.local_world_size < loader->asked.world_size;
    if (stream->told || (apart && stream->ended)) /* all ranks train in step */
        return token_keep_start(loader, stream->epoch + 1);
    if (stream->started && stream->epoch != taken->base.epoch)
        return token_keep_start(loader, stream->epoch);
    if (!taken->known)
        return error_set(&loader->error, LARDER_EINVAL,
                         "this rank came into epoch %u after %u batches that it was not told of: give it the state in "
                         "options.state, or save one in the next epoch",
                         taken->base.epoch, taken->base.batches);
    if (taken->world_size > 1 && taken->n_batches)
        return loader->broken ? loader->broken : question_ask(loader, NULL, timeout_ms);
    int rc = taken_token(taken, through, &token, &loader->error);
    return rc ? rc : token_keep(loader, &token);
}

int larder_state(struct larder_loader *loader, int64_t timeout_ms, const void **state, size_t *state_bytes)
{
    int rc = loader_enter(loader);
    if (rc && !loader_failed(loader))
        return rc;
    if (!state || !state_bytes)
        return error_set(&loader->error, LARDER_EINVAL, "larder_state was called without a place for the state");
    rc = make_state(loader, timeout_ms);
    question_over(loader);
    if (rc)
        return rc;
    *state = loader->token;
    *state_bytes = loader->token_bytes;
    return 0;
}
