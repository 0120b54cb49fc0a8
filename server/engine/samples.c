#include "server/engine/samples.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/vast.h"

enum { SAMPLES_LEAST = 1024, SAMPLES_STEP = 4096 };

int samples_make_room(struct samples *samples, sample_id last)
{
    uint64_t ids = samples->ids ? samples->ids : SAMPLES_LEAST;
    while (ids <= last)
        ids += ids < SAMPLES_PAGE ? ids : SAMPLES_STEP;
    for (; samples->ids < ids; samples->ids++) {
        struct sample **page = &samples->pages[samples->ids >> SAMPLES_PAGE_BITS];
        if (!*page && !(*page = vast_malloc(SAMPLES_PAGE * sizeof **page)))
            return LARDER_ENOMEM;
        *samples_at(samples, (sample_id)samples->ids) = (struct sample){
            .place = CHUNK_PLACE_NONE, .prepared.instances = ENGINE_NONE, .encoded.encoded = ENGINE_NONE};
    }
    return 0;
}

void samples_destroy(struct samples *samples)
{
    for (uint64_t page = 0; page < SAMPLES_PAGES && samples->pages[page]; page++)
        free(samples->pages[page]);
}
