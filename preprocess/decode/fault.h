/* fault.h: why an image cannot be decoded, and the limits on its size. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_FAULT_H
#define LARDER_PREPROCESS_DECODE_FAULT_H

#include "common/error.h"
#include "preprocess/limits.h"
#include "preprocess/prepare.h" /* enum bad_reason */

/* Why one image could not be decoded. */
struct decode_fault {
    enum bad_reason reason;
    struct error error;
};

/* decode_fail fills the fault and returns the error's code, which follows from the reason. */
int decode_fail(struct decode_fault *fault, enum bad_reason reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* decode_limits returns 0, or refuses a size that the limits do not allow. */
int decode_limits(const struct prepare_limits *limits, uint64_t width, uint64_t height, struct decode_fault *fault);

#endif
