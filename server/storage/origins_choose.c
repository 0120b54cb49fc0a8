/* origins_choose.c: the model. Pure but for the counts of what it was asked. */
#include "server/storage/origins_priv.h"

#define CLEARLY 0.8 /* the source is chosen when it takes less than this part of the class's time */

enum {
    READS_LEAST = 4,  /* reads of a class before it may be found slower */
    PATIENCE = 8,     /* decisions against a class in succession until it is left alone */
    PROBE_CLASS = 32, /* one in this many decisions against a class goes there all the same */
    PROBE_SOURCE = 64 /* while a source was not measured, one in this many decisions goes there */
};

/* predict returns the seconds until `bytes` more would be read, after those under way. at_once: most reads under way at
 * once. 0: not known. */
static double predict(const struct origin *origin, uint64_t bytes, uint32_t at_once)
{
    double reads = origin->under_way + 1.0;
    double rate = curve_at(&origin->curve, reads < at_once ? reads : at_once);
    return rate > 0 ? (double)(origin->bytes_under_way + bytes) / rate : 0;
}

uint32_t origins_source_locked(struct origins *origins, uint64_t device)
{
    for (uint32_t i = 0; i < origins->n_sources; i++) {
        if (origins->sources[i].name == device)
            return i;
    }
    for (uint32_t i = 0; i < origins->n_sources && origins->n_sources == ORIGIN_SOURCES_MAX; i++) {
        struct origin *source = &origins->sources[i];
        if (source->earlier && source->samples == 0 && source->under_way == 0) {
            *source = (struct origin){.name = device};
            return i;
        }
    }
    if (origins->n_sources == ORIGIN_SOURCES_MAX)
        return ORIGIN_SOURCES_MAX - 1;
    origins->sources[origins->n_sources] = (struct origin){.name = device};
    return origins->n_sources++;
}

bool origins_left_alone(const struct origin_class *class)
{
    return class->slower >= PATIENCE;
}

/* is_clearly_slower compares what a read would take; false as long as one of both is not known. */
static bool is_clearly_slower(struct origins *origins, const struct origin_class *class, uint64_t device,
                              uint64_t bytes)
{
    const struct origin *source = &origins->sources[origins_source_locked(origins, device)];
    double here = predict(&class->origin, bytes, class->threads);
    double there = predict(source, bytes, UINT32_MAX);
    uint32_t reads = 0; /* one that waited for a processor says nothing of the disk */
    for (uint32_t knot = 0; knot < CURVE_KNOTS; knot++)
        reads += class->origin.curve.seen[knot];
    return reads >= READS_LEAST && here > 0 && there > 0 && there < here * CLEARLY;
}

bool origins_fills_locked(struct origins *origins, struct origin_class *class, uint64_t device, uint64_t bytes)
{
    if (origins_left_alone(class) && !is_clearly_slower(origins, class, device, bytes))
        class->slower = 0;
    return !origins_left_alone(class);
}

bool origins_choose_locked(struct origins *origins, struct origin_class *class, uint64_t device, uint64_t bytes)
{
    const struct origin *source = &origins->sources[origins_source_locked(origins, device)];
    class->asked++;
    if (curve_at(&class->origin.curve, 1) == 0)
        return true;
    if (curve_at(&source->curve, 1) == 0)
        return class->asked % PROBE_SOURCE != 0;
    if (!is_clearly_slower(origins, class, device, bytes)) {
        class->slower = 0;
        return true;
    }
    class->slower += class->slower < PATIENCE;
    return class->asked % PROBE_CLASS == 0;
}
