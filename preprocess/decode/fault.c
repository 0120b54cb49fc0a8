#include "preprocess/decode/fault.h"

#include <stdarg.h>
#include <stdio.h>

/* A side's length whatever the limits: strides and offsets stay far from their ends. */
#define SIDE_MAX (1u << 20)

int decode_fail(struct decode_fault *fault, enum bad_reason reason, const char *fmt, ...)
{
    static const int codes[BAD_REASONS] = {
        [BAD_UNREADABLE] = LARDER_EIO,     [BAD_NOT_AN_IMAGE] = LARDER_EFORMAT, [BAD_CORRUPT] = LARDER_EFORMAT,
        [BAD_TOO_LARGE] = LARDER_ELIMIT,   [BAD_NO_MEMORY] = LARDER_ENOMEM,     [BAD_TOO_SMALL] = LARDER_ELIMIT,
        [BAD_OTHER_SIZE] = LARDER_EFORMAT,
    };
    va_list args;
    va_start(args, fmt);
    char text[ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fault->reason = reason;
    return error_set(&fault->error, codes[reason], "%s", text);
}

int decode_limits(const struct prepare_limits *limits, uint64_t width, uint64_t height, struct decode_fault *fault)
{
    if (width == 0 || height == 0)
        return decode_fail(fault, BAD_CORRUPT, "an image of %llu × %llu pixels", (unsigned long long)width,
                           (unsigned long long)height);
    if (width > SIDE_MAX || height > SIDE_MAX)
        return decode_fail(fault, BAD_TOO_LARGE, "an image of %llu × %llu pixels: a side may have %u at most",
                           (unsigned long long)width, (unsigned long long)height, SIDE_MAX);
    if (width > limits->pixels_max / height)
        return decode_fail(fault, BAD_TOO_LARGE,
                           "its %llu × %llu pixels are more than the %llu that the daemon takes: raise limits.pixels, "
                           "or leave the file out",
                           (unsigned long long)width, (unsigned long long)height,
                           (unsigned long long)limits->pixels_max);
    return 0;
}
