/* reserve.c: what the reserver says is told to the engine. Its own requests go to the reserver in actions.c. */
#include "server/driver/driver_priv.h"

void driver_reserved(struct driver *driver, uint64_t bytes, bool refused)
{
    struct driver_reserve *reserve = &driver->reserve;
    struct engine_event event = {.type = ENGINE_RESERVED, .reserved = {.bytes = bytes, .refused = refused}};
    reserve->there_bytes = bytes > reserve->there_bytes ? bytes : reserve->there_bytes;
    driver_step(driver, &event, 1);
}

void driver_pressure(struct driver *driver)
{
    struct engine_event event = {.type = ENGINE_SHRINK};
    driver_step(driver, &event, 1);
}
