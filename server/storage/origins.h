/* origins.h: chooses the origin of a read, a storage class or the dataset's source, by predicted time (HDMLP 3.5 to
 * 3.7). Samples that came from a source are written behind to the first class with room.
 *
 * Each class and source has a curve, which is measured while running; reads under way there count in the prediction. A
 * class is read if it has the sample, unless the source would be clearly quicker. A class that was slower for long is
 * left alone: nothing is written to it, and only a few reads go there, to see whether it still is slower.
 *
 * Any thread may call all functions but create and destroy. Only reads block on the disk. */
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
        bool planes;      /* its JPEGs are written once more, in planes, while nothing else is done (convert.h) */
    } classes[ORIGIN_CLASSES_MAX];
    uint32_t n_classes;
    uint64_t behind_bytes; /* most bytes that may wait to be written, for each class */
    uint32_t scans_max;    /* most scans of a progressive JPEG */
    const char *curves;    /* the file that keeps the curves between runs; NULL: none does. Borrowed */
};

/* origins_create opens the classes. One that cannot be opened is left out, and the log says so. LARDER_EINVAL: a folder
 * has something else in it. */
int origins_create(const struct origins_config *config, struct origins **out, struct error *err);
/* origins_destroy writes the waiting samples, saves the curves and closes the classes. Accepts NULL. */
void origins_destroy(struct origins *origins);

/* origins_want says which datasets have jobs now: their samples are not evicted from classes. count ≤
 * TIER_OWNERS_MAX. as_read: some job takes samples as they were read, and meanwhile none is written in planes. One
 * thread calls it. */
void origins_want(struct origins *origins, const struct dataset *const *datasets, uint32_t count, bool as_read);

/* origins_hold says that workers begin so many preparations, or have ended them, if `more` is negative. While some are
 * under way nothing is written in planes. Accepts NULL. */
void origins_hold(struct origins *origins, int more);
/* origins_planes returns the length of a sample's planes; 0: no class has it in planes. */
uint64_t origins_planes(struct origins *origins, const struct dataset *dataset, uint32_t index);

/* Some samples of one dataset to be read. */
struct origins_read {
    const struct dataset *dataset;
    uint64_t device; /* device of its source */
    struct sample_read *reads;
    bool *done; /* indexed as `reads`: the sample has come */
    uint32_t count;
};

/* The part of a read that comes from storage classes. */
struct origins_classed {
    uint32_t class;   /* number of the class that brings most, from 1; 0: none brings anything */
    uint32_t samples; /* samples from all classes together */
};

/* origins_read_classes reads the samples that lie in a class which is quick enough, and sets their `done`. */
struct origins_classed origins_read_classes(struct origins *origins, const struct origins_read *read);
/* origins_expect predicts the part of a read of these samples that will come from classes: the samples that lie in one
 * which is not left alone. as_read: planes are not taken. */
struct origins_classed origins_expect(struct origins *origins, const struct dataset *dataset, const uint32_t *indexes,
                                      uint32_t count, bool as_read);

/* A read of a source that is under way. */
struct origins_source {
    uint32_t source, under_way;
    uint64_t bytes;
};
/* origins_source_begin says that `bytes` are about to be read from a source. origins_source_end reports the result: all
 * reads that are not `done` were tried, in took_s without waits for descriptors. It passes the samples on to be written
 * behind. */
struct origins_source origins_source_begin(struct origins *origins, uint64_t device, uint64_t bytes);
void origins_source_end(struct origins *origins, struct origins_source source, const struct origins_read *read,
                        double took_s);

struct origins_class_status {
    const char *path; /* borrowed: lives as long as the origins */
    struct tier_stats tier;
    uint64_t read_samples, read_bytes;
    uint64_t waiting_bytes, skipped; /* bytes waiting to be written; samples not written because too many waited */
    bool left_alone;
    bool planes;        /* JPEGs are written in planes */
    double bytes_per_s; /* bandwidth with one read under way; 0: not known */
};

struct origins_status {
    struct origins_class_status classes[ORIGIN_CLASSES_MAX];
    uint32_t n_classes;
    uint64_t source_samples, source_bytes;
};
void origins_status(struct origins *origins, struct origins_status *out);

#endif
