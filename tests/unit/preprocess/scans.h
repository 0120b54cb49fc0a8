/* scans.h: progressive JPEGs whose scans are drawn at random. */
#ifndef TESTS_PREPROCESS_SCANS_H
#define TESTS_PREPROCESS_SCANS_H

#include "common/random.h"
#include "images.h"

/* scan_jpeg: the same coefficients in another order of scans, with other bands and bits, all of them complete, and a
 * restart marker every `interval` MCUs; 0: none. The caller frees. */
struct encoded scan_jpeg(const struct encoded *jpeg, unsigned interval, struct rng *rng);

#endif
