/* test_cpu.c: the processor has what the compiler's own library says that it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cpu.h"

#if defined(__x86_64__)
static void test_features(void **state)
{
    (void)state;
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(cpu_has(CPU_SSSE3), __builtin_cpu_supports("ssse3") != 0);
    assert_int_equal(cpu_has(CPU_AVX2), __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(cpu_has(CPU_AVX512), avx512);
    assert_int_equal(cpu_has(CPU_AVX512 | CPU_VNNI), avx512 && __builtin_cpu_supports("avx512vnni"));
    if (__builtin_cpu_is("intel"))
        assert_int_equal(cpu_has(CPU_BITS), bits);
    else
        assert_false(cpu_has(CPU_BITS) && (!bits || __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2")));
}
#else
static void test_features(void **state)
{
    (void)state;
    assert_int_equal(cpu_features, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_features)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
