/* others.h: makes instances of what is no image: sounds, and arrays as they are stored. */
#ifndef LARDER_PREPROCESS_OTHERS_H
#define LARDER_PREPROCESS_OTHERS_H

#include "preprocess/decode/fault.h"
#include "preprocess/pipeline.h"
#include "preprocess/scratch.h"

/* others_make makes an instance of a pipeline without views, whose samples are no images, at dst, which has room for
 * its layout. It takes memory of the scratch. It returns 0, or the fault's code. */
int others_make(struct scratch *memory, const struct pipeline *pipeline, const uint64_t key[3], const void *encoded,
                size_t len_bytes, void *dst, struct decode_fault *fault);

#endif
