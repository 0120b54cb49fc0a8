/* restore_priv.h: what restore*.c share.
 *
 *   restore.c        the memfd, and whether its record fits the job
 *   restore_set.c    what was taken of a dependent job
 *   restore_order.c  what was taken of a fixed order, and how many batches */
#ifndef LARDER_SERVER_REGISTRATION_RESTORE_PRIV_H
#define LARDER_SERVER_REGISTRATION_RESTORE_PRIV_H

#include "server/registration/restore.h"

static inline int restore_no_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "no memory for the state: free memory, or lower the budgets");
}

/* These translate restore->record into restore->engine. restore_take_set is for dependent jobs. It checks that each
 * sample is in the view and occurs once. restore_take_order is for fixed orders. It checks that parts are no longer
 * than the order. restore_take_batches takes the batches, after one of these. LARDER_EFORMAT, LARDER_ENOMEM. */
int restore_take_set(struct restore *restore, const struct registration *reg, struct error *err);
int restore_take_order(struct restore *restore, const struct registration *reg, struct error *err);
int restore_take_batches(struct restore *restore, const struct registration *reg, struct error *err);
/* restore_key returns a number for the record's base. */
uint64_t restore_key(const struct record *record);

#endif
