/* limits.h: how large one image may be, and how much memory it may take. */
#ifndef LARDER_PREPROCESS_LIMITS_H
#define LARDER_PREPROCESS_LIMITS_H

#include <stdint.h>

#include "preprocess/scratch_budget.h"

struct prepare_limits {
    uint64_t pixels_max;           /* most pixels of a decoded image */
    uint32_t scans_max;            /* most scans of a progressive JPEG */
    uint64_t memory_max;           /* bytes of scratch for one image; 0: what pixels_max needs at worst */
    struct scratch_budget *budget; /* shared by all threads; borrowed; NULL: none. See scratch_budget.h */
};

#endif
