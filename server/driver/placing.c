/* placing.c: samples get their places in the engine before the first job on them is added. A dataset of millions would
 * take a step of many milliseconds, in which nobody is delivered to. So the engine's thread places some of them, sees
 * to its messages, and places more. */
#include "server/driver/driver_priv.h"
#include "server/registration/chunk_key.h"

/* lacks_places tells whether samples of a registration that was resolved are without places. Those of datasets whose
 * ids do not follow their order get theirs when the job is added. */
static bool lacks_places(const struct registration *reg)
{
    const struct selection *selection = reg->found.selection;
    return !reg->code && selection->ascending && selection->placed < selection->view.count;
}

void driver_comes(struct driver *driver, struct registration *reg)
{
    if (lacks_places(reg))
        TAILQ_INSERT_TAIL(&driver->placing, reg, link);
    else
        driver_registered(driver, reg);
}

void driver_place_some(struct driver *driver)
{
    struct registration *reg = TAILQ_FIRST(&driver->placing);
    if (!reg)
        return;
    struct selection *selection = reg->found.selection;
    uint32_t left = selection->view.count - selection->placed;
    struct engine_placing placing = {.ids = selection->view.order + selection->placed,
                                     .count = left < ENGINE_PLACED_AT_ONCE ? left : ENGINE_PLACED_AT_ONCE,
                                     .chunks = {.places = selection->places + selection->placed,
                                                .count = dataset_chunk_count(selection->dataset),
                                                .samples = dataset_chunk_size(selection->dataset)}};
    struct engine_event event = {.type = ENGINE_PLACE, .place = &placing};
    chunk_key(selection->dataset, placing.chunks.key);
    driver_step(driver, &event, 1);
    selection->placed += placing.count;
    if (lacks_places(reg))
        return;
    TAILQ_REMOVE(&driver->placing, reg, link);
    driver_registered(driver, reg);
}
