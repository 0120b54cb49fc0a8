/* part.c: see part.h. */
#include "server/engine/part.h"

uint32_t part_ranks(const struct engine_job_desc *desc)
{
    return desc->world_size ? desc->world_size : 1;
}

static bool deals(const struct engine_job_desc *desc)
{
    return desc->sampled.multiset ? desc->part.draws != NULL : desc->part.share != NULL;
}

bool part_well_formed(const struct engine_job_desc *desc)
{
    const struct engine_part *part = &desc->part;
    return part->world_size == 0 || (part->world_size <= ENGINE_ALL_RANKS_MAX && part->first < part->world_size &&
                                     part_ranks(desc) <= part->world_size - part->first &&
                                     (deals(desc) || desc->sampled.shuffle != SHUFFLE_DEPENDENT));
}

uint64_t part_draws(const struct engine_job_desc *desc)
{
    return desc->sampled.multiset ? multiset_draws(desc->sampled.multiset) : idset_count(desc->sampled.view);
}

uint64_t part_rank_samples(const struct engine_job_desc *desc)
{
    uint32_t ranks = desc->part.world_size ? desc->part.world_size : part_ranks(desc);
    return (part_draws(desc) + ranks - 1) / ranks;
}

uint64_t part_samples(const struct engine_job_desc *desc, uint64_t draws)
{
    uint64_t ranks = desc->part.world_size;
    if (ranks == 0)
        return 0;
    return (desc->drop_last ? draws / ranks : (draws + ranks - 1) / ranks) * part_ranks(desc);
}

/* Without drop_last, or in a fixed order, the first ranks of the job get one sample more than the others if there is a
 * remainder. */
uint64_t part_epoch_samples(const struct engine_job_desc *desc, uint64_t draws)
{
    uint64_t first = desc->part.first;
    if (desc->part.world_size == 0)
        return draws;
    uint64_t each = draws / desc->part.world_size, more = draws % desc->part.world_size;
    if (desc->drop_last && desc->sampled.shuffle == SHUFFLE_DEPENDENT)
        more = 0;
    uint64_t with_more = more < first ? 0 : more - first;
    return each * part_ranks(desc) + (with_more < part_ranks(desc) ? with_more : part_ranks(desc));
}
