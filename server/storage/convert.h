/* convert.h: writes the JPEGs of a storage class once more, in planes (jpeg_planes.h), while the workers have nothing
 * to do. A thread of the class's own does it. It pauses, between two rows of an image too, as soon as a worker prepares
 * a sample, the class is read, or a job takes samples as they were read. It waits for the end of that, and never polls.
 */
#ifndef LARDER_SERVER_STORAGE_CONVERT_H
#define LARDER_SERVER_STORAGE_CONVERT_H

#include "cache/tier/tier.h"

struct convert;

struct convert_config {
    uint64_t memory_bytes; /* the most that the image at hand may take */
    uint32_t scans_max;    /* most scans of a progressive JPEG */
};

/* convert_create starts the thread. The class is borrowed, outlives it, and was not used before. LARDER_ELIMIT. */
int convert_create(struct tier *tier, const struct convert_config *config, struct convert **out, struct error *err);
/* convert_destroy ends the thread; an image that it has at hand stays as it is. Accepts NULL. */
void convert_destroy(struct convert *convert);

/* Any thread may call these; they never block on the disk, and accept NULL. convert_hold says that `more` things begin
 * that the thread must wait for, or have ended, if it is negative. convert_wake says that samples were written. */
void convert_hold(struct convert *convert, int more);
void convert_wake(struct convert *convert);

#endif
