/* ranks.h: which ranks of a job are at this node. Pure. */
#ifndef LARDER_SERVER_REGISTRATION_RANKS_H
#define LARDER_SERVER_REGISTRATION_RANKS_H

#include "server/registration/registration.h"

/* ranks_here returns which of the job's ranks are here: all, or neighbours. */
struct deal_ranks ranks_here(const struct registration *registration);
/* ranks_job_name returns the name that the job has in this daemon. If the job has ranks at other nodes, the name says
 * which ranks are here. The caller frees it. */
char *ranks_job_name(const struct wire_register *wire);
/* ranks_clash tells whether two registrations give one name and number of ranks, and parts of it that overlap and
 * differ: the ranks of a node have no neighbouring numbers then. */
bool ranks_clash(const struct registration *a, const struct registration *b);
/* ranks_training names a job whose ranks are at several nodes, or that is in several parts at one, alike for all of
 * them. It is never 0. */
uint64_t ranks_training(const struct registration *registration);
/* ranks_rule returns a number that tells apart how epochs are dealt, by `deal` and `mix`. */
uint64_t ranks_rule(const struct registration *registration);
/* ranks_stay_home has the deal deal at home, and finds the samples that have their homes here. LARDER_ENOMEM. */
int ranks_stay_home(struct registration *registration);
/* ranks_share gives the engine the share of an epoch that the ranks here have, of a `dependent` job with ranks at other
 * nodes. `registration` is a struct registration. Fails as deal_share does. */
int ranks_share(const void *registration, uint32_t epoch, const struct idset *gone, struct idset **out);
/* ranks_draws does it where an epoch is a multiset. Fails as deal_draws does. */
int ranks_draws(const void *registration, uint32_t epoch, uint32_t *counts);

#endif
