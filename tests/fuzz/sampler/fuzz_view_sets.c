/* fuzz_view_sets.c: proves that no file of sets makes view_sets_open or view_eval crash, or select what the dataset
 * does not have. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "common/little_endian.h"
#include "sampler/view.h"
#include "tests/fuzz/fuzz.h"

#define NAME "0123456789abcdef0123456789abcdef"

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= 2)
        return 0;
    CHECK(cap >= 4 + 2 * (VIEW_SET_NAME_BYTES + 4 + 12));
    uint32_t n_sets = (uint32_t)index + 1;
    uint8_t *at = put_u32(buf, n_sets);
    for (uint32_t set = 0; set < n_sets; set++) {
        memcpy(at, set + 1 == n_sets ? NAME : "ffffffffffffffffffffffffffffffff", VIEW_SET_NAME_BYTES);
        at = put_u32(at + VIEW_SET_NAME_BYTES, 3);
        for (uint32_t i = 0; i < 3; i++)
            at = put_u32(at, i * 20 + set);
    }
    return (size_t)(at - buf);
}

static sample_id id_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return index;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char json[] = "{\"indices\": \"" NAME "\"}";
    struct view_source source = {.path = "/data", .count = 66, .id = id_of};
    struct view_sets *sets = NULL;
    struct view_result result = {0};
    struct view *view;
    struct error err = {0};
    uint64_t end = 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    CHECK(view_parse(json, sizeof json - 1, &view, &err) == 0);
    if (view_sets_open(fd, &sets, &end, &err) == 0)
        CHECK(end <= size);
    source.sets = sets;
    if (view_eval(view, &source, &result, &err) == 0) {
        CHECK(sets && result.count > 0);
        for (uint32_t i = 0; i < result.count; i++)
            CHECK(result.indices[i] < source.count && (i == 0 || result.indices[i - 1] < result.indices[i]));
    } else {
        CHECK(err.text[0]);
    }
    view_result_clear(&result);
    view_destroy(view);
    view_sets_close(sets);
    close(fd);
    return 0;
}
