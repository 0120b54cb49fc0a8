/* cpu.h: which instructions this processor has, and the kernel lets be used. The compilers' own words for it need a
 * library of theirs, which is empty in Zig's. */
#ifndef LARDER_COMMON_CPU_H
#define LARDER_COMMON_CPU_H

#include <stdbool.h>

enum cpu_feature {
    CPU_SSSE3 = 1 << 0,
    CPU_AVX2 = 1 << 1,
    CPU_BITS = 1 << 2,   /* BMI1, BMI2 and POPCNT, with a fast pdep */
    CPU_AVX512 = 1 << 3, /* F, BW, DQ and VL */
    CPU_VNNI = 1 << 4,   /* AVX-512's */
};

/* Set before main, and read only. On other processors than x86-64 it is 0. */
extern unsigned cpu_features;

/* cpu_has says whether there are all of these. Any thread may ask. */
static inline bool cpu_has(unsigned features)
{
    return (cpu_features & features) == features;
}

#endif
