/* test_view_list.c: lists of samples in files select what they name, or are refused with the line; and an evaluation
 * ends when it is interrupted. */
#include <unistd.h>

#include "tests/unit/sampler/view_fixture.h"

struct list_file {
    char path[64], json[96];
};

static struct list_file write_list(const char *text)
{
    struct list_file file = {.path = "/tmp/larder-list-XXXXXX"};
    int fd = mkstemp(file.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    snprintf(file.json, sizeof file.json, "{\"list\": \"%s\"}", file.path);
    return file;
}

/* A list names samples by key, by path with or without links, by index, with either line end, repeated or not. */
static void test_list(void **state)
{
    (void)state;
    bool flags[SAMPLES];
    struct list_file file = write_list(
        "cat/img 0.jpg\r\n\n3\n/data/set/dog/img 99.jpg\n"
        "./cat/img 1.jpg\n/home/me/link/cat/img 0.jpg\n/home/me/link/cat/img 2.jpg\n999");
    select_flags(file.json, flags);
    unsigned count = 0;
    for (unsigned i = 0; i < SAMPLES; i++)
        count += flags[i];
    assert_int_equal(count, 6);
    assert_true(flags[702] && flags[700] && flags[3] && flags[899] && flags[701] && flags[999]);
    unlink(file.path);

    file = write_list("");
    expect_eval_error(file.json, LARDER_EINVAL, "selects none");
    unlink(file.path);
}

/* A line that names nothing is refused with its number; what it says is not repeated, for the file may be anybody's. */
static void test_list_refusals(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"3\ncat/img 0.jpg\nroot:secret\n", ":3: names no sample"},
        {"\n1000\n", ":2: index beyond"},
        {"99999999999999999999999999\n", ":1: index beyond"},
        {"/data/set\n", ":1: names no sample"},
        {"/data/set/\n", ":1: names no sample"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct list_file file = write_list(wrong[i][0]);
        expect_eval_error(file.json, LARDER_EINVAL, wrong[i][1]);
        struct view *view = parse(file.json);
        struct view_result result;
        struct error err = {0};
        assert_true(view_eval(view, &source, &result, &err) != 0 && strstr(err.text, "secret") == NULL);
        view_destroy(view);
        unlink(file.path);
    }
}

enum { MANY = 1000000 };

/* A dataset that counts how often it is asked for anything, and interrupts whoever asks for the `last` time. */
struct asked {
    struct interrupt interrupt;
    unsigned count, last;
};

static void ask(const void *dataset)
{
    struct asked *asked = (struct asked *)dataset;
    if (++asked->count == asked->last)
        interrupt_set(&asked->interrupt);
}

static int32_t label_when_asked(const void *dataset, uint32_t index)
{
    ask(dataset);
    return (int32_t)(index % MANY);
}

static const char *text_when_asked(const void *dataset, uint32_t index)
{
    static char text[16];
    ask(dataset);
    snprintf(text, sizeof text, "%u.jpg", index);
    return text;
}

/* How often the dataset is asked when an expression is interrupted at the `last` time. */
static unsigned asked_until_it_ends(const char *json, unsigned last)
{
    struct asked asked = {.last = last};
    if (last == 0)
        interrupt_set(&asked.interrupt);
    struct view_source counted = {.dataset = &asked,
                                  .count = MANY,
                                  .n_classes = MANY,
                                  .id = id_of,
                                  .label = label_when_asked,
                                  .key = text_when_asked,
                                  .class_name = text_when_asked,
                                  .interrupt = &asked.interrupt};
    struct view *view = json ? parse(json) : NULL;
    struct view_result result;
    struct error err = {0};
    assert_int_equal(view_eval(view, &counted, &result, &err), LARDER_EGONE);
    assert_non_null(strstr(err.text, "interrupted"));
    view_destroy(view);
    return asked.count;
}

/* Whatever an evaluation is at, it ends soon after the interrupt: long before it has asked for all samples, let alone
 * as often as the expression has parts. */
static void test_interrupts(void **state)
{
    (void)state;
    struct list_file file = write_list("0.jpg\n999999.jpg\n");
    char json[16384], slashes[100];
    memset(slashes, '/', sizeof slashes);
    size_t len = (size_t)snprintf(json, sizeof json, "{\"union\":[%s", file.json);
    for (int i = 1; i < 100; i++) /* spelled in another way each: the same part would not be evaluated twice */
        len += (size_t)snprintf(json + len, sizeof json - len, ",{\"list\":\"%.*s%s\"}", i, slashes, file.path);
    assert_true(len < sizeof json - 3);
    strcpy(json + len, "]}");
    assert_in_range(asked_until_it_ends(json, 1), 1, 100000);
    assert_in_range(asked_until_it_ends(json, 100000), 100000, 200000);
    assert_in_range(asked_until_it_ends(json, MANY + 10), MANY + 10, MANY + 100000);
    assert_in_range(asked_until_it_ends("{\"classes\":[\"no such class\",\"nor this one\"]}", 10), 10, 20);
    assert_in_range(asked_until_it_ends("{\"classes\":[\"*\"]}", MANY + 10), MANY + 10, MANY + 100000);
    static const char *const all[] = {NULL, "{\"classes\":[\"*\"]}", "{\"fraction\":0.5}", "{\"range\":[0,1000000]}"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(asked_until_it_ends(all[i], 0), 0);
    assert_int_equal(asked_until_it_ends(json, 0), 0);
    unlink(file.path);
}

/* Lines are whole wherever the pieces that the file is read in end, and lines of any number that say nothing take no
 * memory: a list that is many times as long as a piece selects the same samples. */
static void test_long_list(void **state)
{
    (void)state;
    static const char lines[] = "cat/img 0.jpg\r\n\n\n\n3\n/data/set/dog/img 99.jpg\n";
    enum { TIMES = 20000, FILLER = 7 };
    bool flags[SAMPLES];
    char *text = malloc(TIMES * (sizeof lines + FILLER) + VIEW_LIST_LINE_MAX + 2), *end = text;
    assert_non_null(text);
    for (int i = 0; i < TIMES; i++) {
        memcpy(end, lines, sizeof lines - 1);
        end += sizeof lines - 1;
        for (int newlines = i % FILLER; newlines > 0; newlines--)
            *end++ = '\n';
    }
    *end = '\0';
    struct list_file file = write_list(text);
    select_flags(file.json, flags);
    unsigned count = 0;
    for (unsigned i = 0; i < SAMPLES; i++)
        count += flags[i];
    assert_int_equal(count, 3);
    assert_true(flags[700] && flags[3] && flags[899]);
    unlink(file.path);

    memset(end, 'x', VIEW_LIST_LINE_MAX);
    end[VIEW_LIST_LINE_MAX] = '\0';
    file = write_list(text);
    expect_eval_error(file.json, LARDER_EINVAL, "names no sample");
    unlink(file.path);
    free(text);
}

/* A line that is longer than any path is refused for its length, before the rest of it is read. */
static void test_endless_line(void **state)
{
    (void)state;
    size_t len = (size_t)1 << 20;
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    struct list_file file = write_list(text);
    expect_eval_error(file.json, LARDER_ELIMIT, ":1: a line of more than");
    unlink(file.path);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),      cmocka_unit_test(test_list_refusals), cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_long_list), cmocka_unit_test(test_endless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
