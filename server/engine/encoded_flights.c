/* encoded_flights.c: what each dataset's source has in flight. */
#include "common/check.h"
#include "server/engine/encoded.h"

/* flight_of returns the number of the dataset's flight. ENGINE_NONE: nothing of it is in flight. */
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

const struct flight *encoded_flight(const struct encoded_store *store, const void *dataset)
{
    uint32_t index = flight_of(store, dataset);
    return index == ENGINE_NONE ? NULL : &store->flights[index];
}
