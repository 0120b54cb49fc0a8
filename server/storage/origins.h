/* origins.h: where the bytes of a read come from: a storage class or the dataset's source, whichever is predicted to
 * take less time (HDMLP 3.5 to 3.7). And what came from a source goes behind to the first class with room.
 *
 * Of each class and source a curve is kept while running. What is under way there is counted in. A class is read from
 * when it has a sample, unless the source would be clearly quicker. A class that long was slower is left alone: nothing
 * is written to it either, and few reads go there, to see whether it still is.
 *
 * Any thread may call all functions but create and destroy. Reads block on the disk, nothing else does. */
#ifndef LARDER_SERVER_STORAGE_ORIGINS_H
#define LARDER_SERVER_STORAGE_ORIGINS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/catalog/catalog.h"
#include "cache/tier/tier.h"

#define ORIGIN_CLASSES_MAX 8
#define ORIGIN_SOURCES_MAX 16 /* told apart; further ones share the last place */

struct origins;

struct origins_config {
    struct {
        const char *path;
        uint64_t size_bytes;
        uint32_t threads; /* reads at once, ≥ 1 */
    } classes[ORIGIN_CLASSES_MAX];
    uint32_t n_classes;
    uint64_t behind_bytes; /* that may wait to be written, for each class */
    const char *curves;    /* the file that keeps the curves between runs; NULL: none does. Borrowed */
};

/* origins_create opens the classes. One that cannot be opened is left out, and the log says so. LARDER_EINVAL: a folder
 * has something else in it. */
int origins_create(const struct origins_config *config, struct origins **out, struct error *err);
/* origins_destroy writes what waits, saves the curves and closes the classes. Accepts NULL. */
void origins_destroy(struct origins *origins);

/* origins_want says which datasets have jobs now: their samples do not give place. count ≤ TIER_OWNERS_MAX. */
void origins_want(struct origins *origins, const struct dataset *const *datasets, uint32_t count);

/* Some samples of one dataset to be read. */
struct origins_read {
    const struct dataset *dataset;
    uint64_t device; /* of its source */
    struct sample_read *reads;
    bool *done; /* by read: it has come */
    uint32_t count;
};

/* What storage classes bring of a read. */
struct origins_classed {
    uint32_t class;   /* the one that brings most, by its number from 1; 0: none brings anything */
    uint32_t samples; /* of all of them together */
};

/* origins_read_classes reads what lies in a class that is quick enough: it sets `done`. */
struct origins_classed origins_read_classes(struct origins *origins, const struct origins_read *read);
/* origins_expect returns what classes will probably bring of a read of these samples: what lies in one that is not left
 * alone. */
struct origins_classed origins_expect(struct origins *origins, const struct dataset *dataset, const uint32_t *indexes,
                                      uint32_t count);

/* A read of a source that is under way. */
struct origins_source {
    uint32_t source, under_way;
    uint64_t bytes;
};
/* origins_source_begin says that `bytes` are about to be read from a source; origins_source_end says what came of it:
 * those reads that are not `done` were tried. took_s: without waiting for descriptors. What was read goes behind. */
struct origins_source origins_source_begin(struct origins *origins, uint64_t device, uint64_t bytes);
void origins_source_end(struct origins *origins, struct origins_source source, const struct origins_read *read,
                        double took_s);

struct origins_class_status {
    const char *path; /* borrowed: lives as long as the origins */
    struct tier_stats tier;
    uint64_t read_samples, read_bytes;
    uint64_t waiting_bytes, skipped; /* to be written, and samples that were not because of too many */
    bool left_alone;
    double bytes_per_s; /* with one read under way; 0: not known */
};

struct origins_status {
    struct origins_class_status classes[ORIGIN_CLASSES_MAX];
    uint32_t n_classes;
    uint64_t source_samples, source_bytes;
};
void origins_status(struct origins *origins, struct origins_status *out);

#endif
