/* test_vast.c: arrays keep what is in them as they grow, whether they are short, become long or are long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/vast.h"

enum { ELEMENTS = 1 << 19 };

/* grows grows an array of elements of `size` bytes one by one, each with its number in its last bytes. */
static void grows(size_t size)
{
    size_t cap = 0, moved = 0;
    char *all = NULL;
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        size_t before = cap;
        all = vast_grow(all, size, &cap, (size_t)i + 1);
        assert_true(cap > i && cap >= before);
        moved += cap != before;
        memcpy(all + (i + (size_t)1) * size - sizeof i, &i, sizeof i);
    }
    assert_true(moved < 20); /* it doubles */
    for (uint32_t i = 0; i < ELEMENTS; i++)
        assert_memory_equal(all + (i + (size_t)1) * size - sizeof i, &i, sizeof i);
    vast_free(all, size, cap);
}

static void test_arrays_keep_what_is_in_them(void **state)
{
    (void)state;
    grows(sizeof(uint32_t));
    grows(7);
    vast_free(NULL, 8, 0);
}

static void test_memory_that_does_not_grow(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= (size_t)1 << 25; bytes = 3 * bytes + 1) {
        unsigned char *array = vast_malloc(bytes);
        assert_non_null(array);
        memset(array, 7, bytes);
        free(array);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arrays_keep_what_is_in_them),
                                       cmocka_unit_test(test_memory_that_does_not_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
