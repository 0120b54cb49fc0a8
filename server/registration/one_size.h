/* one_size.h: finds what a pipeline leaves to the dataset: the size of its images, and the most rows of boxes, points
 * and labels that a sample has. */
#ifndef LARDER_SERVER_REGISTRATION_ONE_SIZE_H
#define LARDER_SERVER_REGISTRATION_ONE_SIZE_H

#include "cache/catalog/catalog.h"
#include "preprocess/pipeline.h"
#include "preprocess/prepare.h"

struct watch_thread;

#define ONE_SIZE_LOOKS 16                           /* images that are looked at, at most */
#define ONE_SIZE_BYTES_MAX ((uint64_t)32 << 20)     /* a longer file is not looked at */
#define ONE_SIZE_SCRATCH_BYTES ((uint64_t)32 << 20) /* scratch memory for reading a header */

/* The samples to look at. All pointers are borrowed. */
struct one_size_wish {
    const struct dataset *dataset;
    const uint32_t *indices; /* indices in the dataset; NULL: all of its samples */
    uint32_t count;
    struct prepare_limits limits;      /* only pixels_max and scans_max are used */
    struct watch_thread *watched;      /* the calling thread; NULL: it is not watched */
    const struct interrupt *interrupt; /* NULL: nobody can set it */
};

/* one_size_close gives parts of rows their bounds (pipeline_bound), and closes an open pipeline (pipeline_is_open) with
 * the size that most of the images have; any other it leaves alone. It looks at the headers of a few images, evenly
 * spread over the samples and the same ones each time. If more than a quarter of them have another size, it refuses the
 * pipeline: too much of the dataset could be unusable. Images that cannot be read do not count. It blocks on the disk.
 * LARDER_EINVAL: the sizes differ, or rows do not fit. LARDER_EGONE: it was
 * interrupted. LARDER_ENOMEM. If no image could be looked at: the errors of dataset_read and prepare_size. */
int one_size_close(struct pipeline **pipeline, const struct one_size_wish *wish, struct error *err);

#endif
