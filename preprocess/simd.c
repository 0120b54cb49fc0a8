#include "preprocess/simd.h"

#include "common/cpu.h"

static enum simd selected = SIMD_PORTABLE;

static bool available(enum simd simd)
{
    if (simd == SIMD_AVX512)
        return cpu_has(CPU_AVX512 | CPU_VNNI);
    return simd == SIMD_PORTABLE || cpu_has(CPU_AVX2);
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
