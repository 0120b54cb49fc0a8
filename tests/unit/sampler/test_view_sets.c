/* test_view_sets.c: sets of indices that come beside an expression select what they say, or are refused with what is
 * wrong with them. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/little_endian.h"
#include "tests/unit/sampler/view_fixture.h"

#define NAME_A "0123456789abcdef0123456789abcdef"
#define NAME_B "ffffffffffffffffffffffffffffffff"

struct file {
    uint8_t bytes[4096];
    size_t len;
    int fd;
};

static void add_u32(struct file *file, uint32_t number)
{
    put_u32(file->bytes + file->len, number);
    file->len += 4;
}

static void add_set(struct file *file, const char *name, uint32_t count, const uint32_t *indices)
{
    memcpy(file->bytes + file->len, name, VIEW_SET_NAME_BYTES);
    file->len += VIEW_SET_NAME_BYTES;
    add_u32(file, count);
    for (uint32_t i = 0; i < count; i++)
        add_u32(file, indices[i]);
}

static int memfd_of(const struct file *file)
{
    int fd = memfd_create("sets", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file->bytes, file->len), (ssize_t)file->len);
    return fd;
}

static int evaluate(const char *json, const struct view_sets *sets, struct view_result *result, struct error *err)
{
    struct view_source with = source;
    with.sets = sets;
    struct view *view = parse(json);
    int rc = view_eval(view, &with, result, err);
    view_destroy(view);
    return rc;
}

/* Sets combine with other expressions, in whatever order they came; what lies behind them in the file is left alone. */
static void test_sets_select(void **state)
{
    (void)state;
    struct file file = {0};
    struct view_sets *sets;
    struct view_result result;
    struct error err;
    uint64_t end;
    add_u32(&file, 2);
    add_set(&file, NAME_B, 3, (const uint32_t[]){0, 7, 999});
    add_set(&file, NAME_A, 2, (const uint32_t[]){7, 8});
    size_t sets_bytes = file.len;
    add_u32(&file, 12345);
    int fd = memfd_of(&file);
    assert_int_equal(view_sets_open(fd, &sets, &end, &err), 0);
    assert_int_equal(end, sets_bytes);
    assert_int_equal(evaluate("{\"union\": [{\"indices\": \"" NAME_A "\"}, {\"difference\": [{\"indices\": \"" NAME_B
                              "\"}, {\"range\": [999, 1000]}]}]}",
                              sets, &result, &err),
                     0);
    assert_int_equal(result.count, 3);
    assert_true(result.indices[0] == 0 && result.indices[1] == 7 && result.indices[2] == 8);
    view_result_clear(&result);
    view_sets_close(sets);
    close(fd);
}

/* A set that the file does not have, or no file, and names that are none. */
static void test_missing_sets(void **state)
{
    (void)state;
    struct view_result result;
    struct error err;
    assert_int_equal(evaluate("{\"indices\": \"" NAME_A "\"}", NULL, &result, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "did not come with the registration"));
    static const char *const wrong[] = {"{\"indices\": [1, 2]}", "{\"indices\": \"abc\"}",
                                        "{\"indices\": \"0123456789ABCDEF0123456789abcdef\"}",
                                        "{\"indices\": \"" NAME_A "0\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct view *view;
        assert_int_equal(view_parse(wrong[i], strlen(wrong[i]), &view, &err), LARDER_EINVAL);
        assert_non_null(strstr(err.text, "subset.indices: is what larder.Indices makes"));
    }
}

/* Sets whose indices lie beyond the dataset, do not ascend, or are more than it has samples. */
static void test_wrong_indices(void **state)
{
    (void)state;
    static const uint32_t beyond[] = {3, 1000}, falls[] = {5, 4}, twice[] = {5, 5};
    uint32_t many[900];
    for (uint32_t i = 0; i < 900; i++)
        many[i] = i;
    const struct {
        const uint32_t *indices;
        uint32_t count;
        int code;
        const char *text;
    } cases[] = {{beyond, 2, LARDER_EINVAL, "there is position 1000, and the dataset has 1000"},
                 {falls, 2, LARDER_EFORMAT, "do not ascend"},
                 {twice, 2, LARDER_EFORMAT, "do not ascend"},
                 {many, SAMPLES + 1, LARDER_EFORMAT, "do not ascend"},
                 {many, 0, LARDER_EINVAL, "selects none"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file file = {0};
        struct view_sets *sets;
        struct view_result result;
        struct error err;
        uint64_t end;
        add_u32(&file, 1);
        add_set(&file, NAME_A, cases[i].count < 900 ? cases[i].count : 900, cases[i].indices);
        put_u32(file.bytes + 4 + VIEW_SET_NAME_BYTES, cases[i].count);
        int fd = memfd_of(&file);
        assert_int_equal(ftruncate(fd, 8192), 0);
        assert_int_equal(view_sets_open(fd, &sets, &end, &err), 0);
        assert_int_equal(evaluate("{\"indices\": \"" NAME_A "\"}", sets, &result, &err), cases[i].code);
        if (!strstr(err.text, cases[i].text))
            fail_msg("\"%s\" without \"%s\"", err.text, cases[i].text);
        view_sets_close(sets);
        close(fd);
    }
}

/* Files that are no memfd, cut anywhere, or that say they have more than they do, also once they were looked at. */
static void test_wrong_files(void **state)
{
    (void)state;
    struct view_sets *sets;
    struct view_result result;
    struct error err;
    struct file file = {0};
    uint64_t end;
    int ends[2], null = open("/dev/null", O_RDONLY);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(view_sets_open(ends[0], &sets, &end, &err), LARDER_EINVAL);
    assert_int_equal(view_sets_open(null, &sets, &end, &err), LARDER_EINVAL);
    close(ends[0]);
    close(ends[1]);
    close(null);
    add_u32(&file, 2);
    add_set(&file, NAME_A, 2, (const uint32_t[]){1, 2});
    add_set(&file, NAME_B, 0, NULL);
    int fd = memfd_of(&file);
    for (size_t len = file.len; len-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        assert_int_equal(view_sets_open(fd, &sets, &end, &err), LARDER_EFORMAT);
    }
    assert_int_equal(pwrite(fd, file.bytes, file.len, 0), (ssize_t)file.len);
    assert_int_equal(view_sets_open(fd, &sets, &end, &err), 0);
    assert_int_equal(ftruncate(fd, 45), 0);
    assert_int_equal(evaluate("{\"indices\": \"" NAME_A "\"}", sets, &result, &err), LARDER_EFORMAT);
    view_sets_close(sets);
    put_u32(file.bytes, VIEW_NODES_MAX + 1);
    assert_int_equal(pwrite(fd, file.bytes, file.len, 0), (ssize_t)file.len);
    assert_int_equal(view_sets_open(fd, &sets, &end, &err), LARDER_ELIMIT);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_select),
        cmocka_unit_test(test_missing_sets),
        cmocka_unit_test(test_wrong_indices),
        cmocka_unit_test(test_wrong_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
