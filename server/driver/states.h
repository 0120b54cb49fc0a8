/* states.h: what the ranks of each job received in its epoch, and answers to clients that ask for a token of it. Jobs
 * of one rank have no such state, because their client knows all by itself. Only the engine's thread calls these
 * functions. */
#ifndef LARDER_SERVER_DRIVER_STATES_H
#define LARDER_SERVER_DRIVER_STATES_H

#include "server/driver/driver_priv.h"

/* states_begin: a job begins; reg is its first rank's. */
void states_begin(struct driver *driver, uint32_t place, const struct registration *reg);
/* states_came: a rank has come, perhaps with what it had in an earlier daemon. */
void states_came(struct driver *driver, uint32_t place, const struct registration *reg);
/* states_delivered: a batch goes to a rank. `over` has the indices whose turn is over with it. */
void states_delivered(struct driver *driver, const struct engine_action *action, const uint32_t *over, uint32_t n_over);
/* states_wanted: a rank asks for batches of an epoch. */
void states_wanted(struct driver *driver, const struct driver_client *row, uint32_t epoch);
void states_released(struct driver *driver, const struct driver_client *row, uint64_t batch);
/* states_gone: a rank's client has left. It is called before the engine knows, because what the engine puts back then
 * may go to another rank at once. */
void states_gone(struct driver *driver, const struct driver_client *row);
void states_end(struct driver *driver, uint32_t place); /* open requests for the job's tokens get no answer */

/* states_asked: a client asks for a token. It is answered at once, or when the last rank has received its batches, or
 * with an error at its deadline. */
void states_asked(struct driver *driver, const struct driver_client *row, uint32_t seq,
                  const struct wire_state_get *get);
/* states_wait_ms returns the time until the first deadline; below 0: there is none. states_expire answers those whose
 * deadline has come. */
int64_t states_wait_ms(const struct driver *driver);
void states_expire(struct driver *driver);

#endif
