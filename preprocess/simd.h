/* simd.h: which version of the code over pixels runs: portable, AVX2 or AVX-512.
 *
 * All versions give the same bytes. Some are written by hand for each, as the resampler's. Others (*_rows.c) are plain
 * C that CMake compiles once for each version, with SIMD_VERSION set; the compiler makes the vectors. Either way a
 * version is a table of functions, NAME_portable, NAME_avx2 or NAME_avx512. */
#ifndef LARDER_PREPROCESS_SIMD_H
#define LARDER_PREPROCESS_SIMD_H

#include <stdbool.h>

enum simd { SIMD_PORTABLE, SIMD_AVX2, SIMD_AVX512, SIMD_VERSIONS };

/* simd_select chooses the fastest version that this processor runs. Call it before there are threads. */
void simd_select(void);
/* simd_use chooses a version, for tests and measurements. It returns false when the processor cannot run it. */
bool simd_use(enum simd simd);
enum simd simd_selected(void);
const char *simd_name(void);

/* SIMD_TABLES lists NAME's versions in enum simd's order; SIMD_NAME is the name of the one being compiled. */
#if defined(__x86_64__)
#define SIMD_TABLES(name)                              \
    {                                                  \
        &name##_portable, &name##_avx2, &name##_avx512 \
    }
#else
#define SIMD_TABLES(name) \
    {                     \
        &name##_portable  \
    }
#endif
#ifndef SIMD_VERSION
#define SIMD_VERSION portable
#endif
#define SIMD_PASTE(name, version) name##_##version
#define SIMD_PASTE_LATER(name, version) SIMD_PASTE(name, version)
#define SIMD_NAME(name) SIMD_PASTE_LATER(name, SIMD_VERSION)

#endif
