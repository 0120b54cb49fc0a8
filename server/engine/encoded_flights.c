/* encoded_flights.c: what of the loads in flight, and of memory, each dataset's source has.
 *
 * A source that is slow, or never answers, keeps what it has in flight. So one source may have as much in flight as is
 * left for all others: half of all when it is the only one, a third when two have as much as they may. Then whoever
 * comes later finds room, however many sources are silent already. A source with nothing in flight may read as soon as
 * there is any room. */
#include "common/check.h"
#include "server/engine/encoded.h"

/* flight_of gives the number of the dataset's flight. ENGINE_NONE: nothing of it is in flight. */
static uint32_t flight_of(const struct encoded_store *store, const void *dataset)
{
    for (uint32_t i = 0; i < store->n_flights; i++) {
        if (store->flights[i].loads && store->flights[i].dataset == dataset)
            return i;
    }
    return ENGINE_NONE;
}

uint32_t encoded_flight_begin(struct encoded_store *store, const void *dataset, uint64_t bytes)
{
    uint32_t index = flight_of(store, dataset);
    for (uint32_t i = 0; index == ENGINE_NONE && i < store->n_flights; i++) {
        if (store->flights[i].loads == 0)
            index = i;
    }
    if (index == ENGINE_NONE) {
        index = store->n_flights++;
        store->flights = xgrow(store->flights, sizeof *store->flights, &store->flights_cap, store->n_flights);
        store->flights[index] = (struct flight){.loads = 0};
    }
    struct flight *flight = &store->flights[index];
    flight->dataset = dataset;
    flight->loads++;
    flight->bytes += bytes;
    store->loading++;
    store->loading_bytes += bytes;
    return index;
}

void encoded_flight_end(struct encoded_store *store, const struct encoded *encoded)
{
    struct flight *flight = &store->flights[encoded->flight];
    CHECK(encoded->state == ENCODED_LOADING && store->loading > 0 && flight->loads > 0);
    flight->loads--;
    flight->bytes -= encoded->bytes;
    store->loading--;
    store->loading_bytes -= encoded->bytes;
}

/* share tells whether one that has so much may get `more`, when all together have so much of the most. */
static bool share(uint64_t has, uint64_t more, uint64_t all, uint64_t most)
{
    return has + more + all + more <= most;
}

bool encoded_share_for_read(const struct encoded_store *store, const void *dataset, uint32_t samples, uint64_t bytes)
{
    uint32_t index = flight_of(store, dataset);
    if (index == ENGINE_NONE)
        return true;
    const struct flight *flight = &store->flights[index];
    return share(flight->loads, samples, store->loading, store->env->config.inflight_loads) &&
           share(flight->bytes, bytes, store->loading_bytes, encoded_for_reads(store));
}

uint64_t encoded_left_by_others(const struct encoded_store *store, const void *dataset)
{
    uint32_t index = flight_of(store, dataset);
    uint64_t others = store->loading_bytes - (index == ENGINE_NONE ? 0 : store->flights[index].bytes);
    uint64_t all = encoded_for_reads(store);
    return all > others ? all - others : 0;
}

bool encoded_has_flight(const struct encoded_store *store, const void *dataset)
{
    return flight_of(store, dataset) != ENGINE_NONE;
}
