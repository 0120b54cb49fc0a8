/* cpu.c: asks the processor, as Intel's and AMD's manuals say. */
#include "common/cpu.h"

unsigned cpu_features;

#if defined(__x86_64__)
#include <cpuid.h>

#define BIT(n) (1u << (n))
/* What the kernel keeps for each thread: XMM and YMM registers; for AVX-512 the masks and ZMM registers besides. */
#define STATE_AVX (BIT(1) | BIT(2))
#define STATE_AVX512 (STATE_AVX | BIT(5) | BIT(6) | BIT(7))
#define FAMILY_ZEN3 0x19u
#define HYGON_ECX 0x656e6975u /* the last letters of "HygonGenuine" */

struct answer {
    unsigned a, b, c, d;
};

/* Zeros, where the processor has no such leaf. */
static struct answer ask(unsigned leaf)
{
    struct answer answer = {0, 0, 0, 0};
    __get_cpuid_count(leaf, 0, &answer.a, &answer.b, &answer.c, &answer.d);
    return answer;
}

static bool all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static unsigned state_kept(const struct answer *basic)
{
    if (!(basic->c & bit_OSXSAVE))
        return 0;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Before Zen 3, pdep takes hundreds of cycles on AMD's processors, and on Hygon's, which are like them. */
static bool slow_pdep(const struct answer *basic)
{
    unsigned maker = ask(0).c, family = ((basic->a >> 8) & 0xf) + ((basic->a >> 20) & 0xff);
    return (maker == signature_AMD_ecx || maker == HYGON_ECX) && family < FAMILY_ZEN3;
}

__attribute__((constructor)) static void find_features(void)
{
    struct answer basic = ask(1), more = ask(7);
    unsigned kept = state_kept(&basic);
    if (basic.c & bit_SSSE3)
        cpu_features |= CPU_SSSE3;
    if (all(basic.c, bit_POPCNT) && all(more.b, bit_BMI | bit_BMI2) && !slow_pdep(&basic))
        cpu_features |= CPU_BITS;
    if (all(kept, STATE_AVX) && all(basic.c, bit_AVX) && all(more.b, bit_AVX2))
        cpu_features |= CPU_AVX2;
    if (!all(kept, STATE_AVX512) || !all(more.b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return;
    cpu_features |= CPU_AVX512;
    if (more.c & bit_AVX512VNNI)
        cpu_features |= CPU_VNNI;
}
#endif
