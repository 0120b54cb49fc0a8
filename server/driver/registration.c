#include "server/driver/registration.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static char *copy_text(struct wire_text text)
{
    char *copy = xmalloc((size_t)text.len_bytes + 1);
    memcpy(copy, text.data, text.len_bytes);
    copy[text.len_bytes] = '\0';
    return copy;
}

struct registration *registration_create(uint64_t client, uint32_t seq, const struct session_peer *peer,
                                         const struct wire_register *wire)
{
    struct registration *reg = xcalloc(1, sizeof *reg);
    *reg = (struct registration){.client = client,
                                 .seq = seq,
                                 .pid = (uint32_t)peer->pid,
                                 .client_name = xstrdup(peer->client),
                                 .name = copy_text(wire->name),
                                 .source = copy_text(wire->dataset),
                                 .pipeline_json = copy_text(wire->pipeline),
                                 .subset_json = copy_text(wire->subset),
                                 .batch_size = wire->batch_size,
                                 .prefetch = wire->prefetch,
                                 .epochs = wire->epochs,
                                 .rank = wire->rank,
                                 .world_size = wire->world_size,
                                 .flags = wire->flags,
                                 .shuffle = (enum shuffle_mode)wire->shuffle,
                                 .bad_policy = (enum bad_policy)wire->bad_policy,
                                 .seed = wire->seed,
                                 .weight = wire->weight};
    return reg;
}

void registration_destroy(struct registration *registration)
{
    if (!registration)
        return;
    free(registration->client_name);
    free(registration->name);
    free(registration->source);
    free(registration->pipeline_json);
    free(registration->subset_json);
    dataset_unref(&registration->dataset);
    pipeline_unref(&registration->pipeline);
    view_result_clear(&registration->view);
    free(registration->places);
    free(registration->dense_label);
    free(registration->classes);
    free(registration);
}
