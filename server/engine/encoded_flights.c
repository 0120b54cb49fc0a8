/* encoded_flights.c: what each dataset's source has in flight, what memory has of it, and what jobs want of it. */
#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"

static bool is_free(const struct flight *flight)
{
    return flight->samples == 0 && flight->wanted == 0;
}

/* flight_of returns the number of the dataset's flight; ENGINE_NONE when it has none. */
static uint32_t flight_of(const struct encoded_store *store, const void *dataset)
{
    for (uint32_t i = 0; i < store->n_flights; i++) {
        if (!is_free(&store->flights[i]) && store->flights[i].dataset == dataset)
            return i;
    }
    return ENGINE_NONE;
}

/* flight_make returns the number of the dataset's flight, a new one if it has none. */
static uint32_t flight_make(struct encoded_store *store, const void *dataset)
{
    uint32_t index = flight_of(store, dataset);
    for (uint32_t i = 0; index == ENGINE_NONE && i < store->n_flights; i++) {
        if (is_free(&store->flights[i]))
            index = i;
    }
    if (index == ENGINE_NONE) {
        index = store->n_flights++;
        store->flights = xgrow(store->flights, sizeof *store->flights, &store->flights_cap, store->n_flights);
        store->flights[index] = (struct flight){.loads = 0};
    }
    if (store->flights[index].dataset != dataset)
        store->flights[index] = (struct flight){.dataset = dataset};
    return index;
}

uint32_t encoded_flight_begin(struct encoded_store *store, const void *dataset, uint64_t bytes)
{
    uint32_t index = flight_make(store, dataset);
    struct flight *flight = &store->flights[index];
    flight->samples++;
    flight->loads++;
    flight->bytes += bytes;
    store->loading++;
    store->loading_bytes += bytes;
    return index;
}

double encoded_flight_brings(const struct encoded_store *store, const struct flight *flight)
{
    return flight->brought / (1 + (double)(store->env->now_ns - flight->ended_ns) / FLIGHT_NS);
}

void encoded_flight_end(struct encoded_store *store, const struct encoded *encoded)
{
    struct flight *flight = &store->flights[encoded->flight];
    CHECK(encoded->state == ENCODED_LOADING && store->loading > 0 && flight->loads > 0);
    flight->loads--;
    flight->bytes -= encoded->bytes;
    flight->brought = encoded_flight_brings(store, flight) + (double)encoded->bytes;
    flight->ended_ns = store->env->now_ns;
    store->loading--;
    store->loading_bytes -= encoded->bytes;
}

void encoded_flight_free(struct encoded_store *store, const struct encoded *encoded)
{
    CHECK(store->flights[encoded->flight].samples > 0);
    store->flights[encoded->flight].samples--;
}

void encoded_flight_want(struct encoded_store *store, const struct job *job, uint64_t samples)
{
    uint32_t index = flight_make(store, job->terms.dataset);
    struct flight *flight = &store->flights[index];
    flight->wanted += samples;
    flight->mean_bytes = job->shape.mean_bytes;
}

void encoded_flight_want_none(struct encoded_store *store)
{
    for (uint32_t i = 0; i < store->n_flights; i++)
        store->flights[i].wanted = 0;
}

const struct flight *encoded_flight(const struct encoded_store *store, const void *dataset)
{
    uint32_t index = flight_of(store, dataset);
    return index == ENGINE_NONE || store->flights[index].loads == 0 ? NULL : &store->flights[index];
}
