/* reserve.c: the arena's memory: what has come is told to the engine, and what nobody has wanted for config.linger_ns
 * goes back. The engine's own requests go to the reserver in actions.c. */
#include "common/clock.h"
#include "server/driver/driver_priv.h"

#define AGAIN_NS CLOCK_NS_PER_S /* before giving memory back is tried again */

/* is_idle tells whether nobody can have a use for the arena: no job is there or comes, and no client is connected. */
static bool is_idle(const struct driver *driver)
{
    struct session_counts counts;
    if (driver->tables.n_coming > 0 || tables_count_jobs(&driver->tables, false) > 0)
        return false;
    session_counts(driver->session, &counts);
    return counts.connections == 0;
}

/* has_memory tells whether some of the arena's memory could be given back. */
static bool has_memory(const struct driver_reserve *reserve)
{
    return reserve->reserved_bytes > 0 || reserve->surplus;
}

void driver_reserved(struct driver *driver, uint64_t bytes, bool refused)
{
    struct engine_event event = {.type = ENGINE_RESERVED, .reserved = {.bytes = bytes, .refused = refused}};
    driver->reserve.asked = false;
    driver->reserve.reserved_bytes = bytes;
    driver->reserve.surplus = driver->reserve.surplus || refused; /* some pages may have come before the refusal */
    driver_step(driver, &event, 1);
}

void driver_renewed(struct driver *driver, bool renewed)
{
    driver->reserve.renewing = false;
    driver->reserve.surplus = driver->reserve.surplus && !renewed;
}

/* give_back evicts what is there, and gives the memory back when nothing is left. A task that still runs for a job that
 * has gone keeps its place until it is done. */
static void give_back(struct driver *driver)
{
    struct driver_reserve *reserve = &driver->reserve;
    struct engine_event shrink = {.type = ENGINE_SHRINK};
    reserve->again_ns = clock_now_ns() + AGAIN_NS;
    if (reserve->asked)
        return;
    if (reserve->reserved_bytes > 0)
        driver_step(driver, &shrink, 1);
    if (reserve->reserved_bytes > 0 || reserve->renewing || !reserve->surplus)
        return;
    reserve->renewing = true;
    reserver_renew(reserve->reserver);
}

void driver_pressure(struct driver *driver)
{
    if (has_memory(&driver->reserve) && is_idle(driver))
        give_back(driver);
}

void driver_linger(struct driver *driver)
{
    struct driver_reserve *reserve = &driver->reserve;
    uint64_t now_ns = clock_now_ns();
    if (!has_memory(reserve) || now_ns < reserve->again_ns)
        return;
    if (!is_idle(driver)) {
        reserve->idle_ns = 0;
        reserve->again_ns = now_ns + AGAIN_NS;
    } else if (reserve->idle_ns == 0) {
        reserve->idle_ns = now_ns;
        reserve->again_ns = now_ns + driver->config.linger_ns;
    } else if (now_ns - reserve->idle_ns >= driver->config.linger_ns) {
        give_back(driver);
    }
}

int64_t driver_linger_wait_ms(const struct driver *driver)
{
    uint64_t now_ns = clock_now_ns(), again_ns = driver->reserve.again_ns;
    if (!has_memory(&driver->reserve))
        return -1;
    return again_ns > now_ns ? (int64_t)((again_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}
