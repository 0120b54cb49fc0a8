/* wire_priv.h: what the codec's files share. */
#ifndef LARDER_COMMON_WIRE_PRIV_H
#define LARDER_COMMON_WIRE_PRIV_H

#include "common/wire.h"

/* wire_check says whether a message's fields are within their ranges: LARDER_EINVAL for one that is not, and for an
 * unknown type; LARDER_ELIMIT for one that is too long. Pure; any thread. */
int wire_check(const struct wire_message *msg, struct error *err);

#endif
