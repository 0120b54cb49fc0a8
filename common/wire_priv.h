/* wire_priv.h: what the codec's files share. */
#ifndef LARDER_COMMON_WIRE_PRIV_H
#define LARDER_COMMON_WIRE_PRIV_H

#include "common/wire.h"

/* wire_type_last returns the greatest type that a version has. */
static inline enum wire_type wire_type_last(uint16_t version)
{
    return version > 9 ? WIRE_COLUMN : version > 4 ? WIRE_DONE : WIRE_BYE;
}

/* wire_check says whether a message's fields are within their ranges: LARDER_EINVAL for one that is not, and for a
 * version that is not spoken or a type that its version does not have; LARDER_ELIMIT for one that is too long. Pure;
 * any thread. */
int wire_check(const struct wire_message *msg, struct error *err);

#endif
