#include "server/registration/registration.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "server/registration/ranks.h"

static char *copy_text(struct wire_text text)
{
    char *copy = xmalloc((size_t)text.len_bytes + 1);
    memcpy(copy, text.data, text.len_bytes);
    copy[text.len_bytes] = '\0';
    return copy;
}

struct registration *registration_create(uint64_t client, uint32_t seq, const struct session_peer *peer,
                                         const struct wire_register *wire, int file_fd)
{
    bool part = wire->local_world_size > 0 && wire->local_world_size < wire->world_size;
    struct registration *reg = xcalloc(1, sizeof *reg);
    *reg = (struct registration){.client = client,
                                 .seq = seq,
                                 .pid = (uint32_t)peer->pid,
                                 .client_name = xstrdup(peer->client),
                                 .name = ranks_job_name(wire),
                                 .asked = {.source = copy_text(wire->dataset),
                                           .pipeline_json = copy_text(wire->pipeline),
                                           .subset_json = copy_text(wire->subset),
                                           .batch_size = wire->batch_size,
                                           .prefetch = wire->prefetch,
                                           .epochs = wire->epochs,
                                           .rank = part ? wire->rank - wire->local_first : wire->rank,
                                           .world_size = part ? wire->local_world_size : wire->world_size,
                                           .all_ranks = part ? wire->world_size : 0,
                                           .first_rank = part ? wire->local_first : 0,
                                           .flags = wire->flags & ~(uint32_t)WIRE_WITH_FILE,
                                           .shuffle = (enum shuffle_mode)wire->shuffle,
                                           .bad_policy = (enum bad_policy)wire->bad_policy,
                                           .seed = wire->seed,
                                           .weight = wire->weight,
                                           .epochs_are = (enum multiset_kind)wire->sampler,
                                           .copies = wire->copies,
                                           .draws = wire->draws,
                                           .at_home = part && wire->deal == WIRE_DEAL_HOME,
                                           .mix = part ? wire->mix : 0,
                                           .file_fd = file_fd,
                                           .has_sets = wire->flags & WIRE_WITH_INDICES,
                                           .has_record = wire->flags & WIRE_WITH_STATE}};
    return reg;
}

struct registration *registration_of_column(uint64_t client, uint32_t seq, const struct wire_text *name)
{
    struct registration *reg = xcalloc(1, sizeof *reg);
    *reg = (struct registration){.client = client,
                                 .seq = seq,
                                 .asked = {.file_fd = -1},
                                 .column = {.name = copy_text(*name), .made = {.fd = -1}}};
    return reg;
}

void registration_make_column(struct registration *reg, const struct resolver *with)
{
    reg->code = dataset_column(reg->found.dataset, reg->column.name, with->config->columns_bytes, &reg->unwanted,
                               &reg->column.made, &reg->err);
}

uint32_t registration_classes(const struct registration *registration)
{
    const struct dense_labels *labels = &registration->found.labels;
    return labels->classes ? labels->n_classes : dataset_classes(registration->found.dataset);
}

void registration_close_file(struct registration *registration)
{
    if (registration->asked.file_fd >= 0)
        close(registration->asked.file_fd);
    registration->asked.file_fd = -1;
}

void registration_drop_found(struct registration *registration)
{
    struct registration_found *found = &registration->found;
    if (found->selection && !found->selection->text)
        selection_unref(&found->selection);
    restore_destroy(found->restore);
    found->restore = NULL;
}

void registration_destroy(struct registration *registration)
{
    if (!registration)
        return;
    free(registration->client_name);
    free(registration->name);
    free(registration->asked.source);
    free(registration->asked.pipeline_json);
    free(registration->asked.subset_json);
    selection_unref(&registration->found.selection);
    dataset_unref(&registration->found.dataset);
    pipeline_unref(&registration->found.pipeline);
    registration_drop_found(registration);
    free(registration->found.labels.of);
    free(registration->found.labels.classes);
    deal_destroy(registration->found.deal);
    idset_destroy(registration->found.home);
    multiset_destroy(registration->found.multiset);
    idset_destroy(registration->guest.part);
    bag_destroy(registration->guest.draws);
    registration_close_file(registration);
    if (registration->column.name && registration->column.made.fd >= 0)
        close(registration->column.made.fd);
    free(registration->column.name);
    free(registration);
}
