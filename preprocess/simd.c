#include "preprocess/simd.h"

static enum simd selected = SIMD_PORTABLE;

static bool available(enum simd simd)
{
#if defined(__x86_64__)
    if (simd == SIMD_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
    if (simd == SIMD_AVX2)
        return __builtin_cpu_supports("avx2");
#endif
    return simd == SIMD_PORTABLE;
}

bool simd_use(enum simd simd)
{
    if (!available(simd))
        return false;
    selected = simd;
    return true;
}

void simd_select(void)
{
    for (int simd = SIMD_VERSIONS - 1; simd >= 0; simd--) {
        if (simd_use((enum simd)simd))
            return;
    }
}

enum simd simd_selected(void)
{
    return selected;
}

const char *simd_name(void)
{
    static const char *const names[SIMD_VERSIONS] = {"portable", "avx2", "avx512"};
    return names[selected];
}
