/* part.h: how many samples of an epoch the ranks here get, of a job some of whose ranks may be at other nodes. Pure. */
#ifndef LARDER_SERVER_ENGINE_PART_H
#define LARDER_SERVER_ENGINE_PART_H

#include "server/engine/engine.h"

/* part_ranks returns the ranks here. */
uint32_t part_ranks(const struct engine_job_desc *desc);
bool part_well_formed(const struct engine_job_desc *desc);
/* part_draws returns the draws of a whole epoch: the view's samples, unless it is a multiset. */
uint64_t part_draws(const struct engine_job_desc *desc);
/* part_rank_samples returns the samples that each rank of the job gets in a whole epoch, repeats included, without
 * drop_last. */
uint64_t part_rank_samples(const struct engine_job_desc *desc);
/* part_samples returns how many samples the ranks here get together when `draws` are dealt to all ranks, repeats
 * included, of a job with ranks at other nodes: all ranks get equally many. 0: all of the job's ranks are here. */
uint64_t part_samples(const struct engine_job_desc *desc, uint64_t draws);
/* part_epoch_samples returns how many of `draws` are for the ranks here: all, or a share of them. */
uint64_t part_epoch_samples(const struct engine_job_desc *desc, uint64_t draws);

#endif
