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
        {"3\ncat/img 0.jpg\nroot:secret\n", ":3:1: names no sample"},
        {"\n1000\n", ":2:1: index beyond"},
        {"99999999999999999999999999\n", ":1:1: index beyond"},
        {"/data/set\n", ":1:1: names no sample"},
        {"/data/set/\n", ":1:1: names no sample"},
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

/* A dataset whose names have in them what separates fields elsewhere. */
static const char *const odd_keys[] = {"c/a b.png",   "c/a,b.png",  "c/#1.png",  "#/2.png",
                                       "c/\"q\".png", "c/x.png",    "c/x.png 7", "c/back\\.png",
                                       "c/ end.png ", "c/\xe4.png", "c/1;2.png", "c/\xc3\xa4.png"};
enum { ODD = sizeof odd_keys / sizeof *odd_keys };

static const char *odd_key(const void *dataset, uint32_t index)
{
    (void)dataset;
    return odd_keys[index];
}

static int32_t no_label(const void *dataset, uint32_t index)
{
    (void)dataset;
    (void)index;
    return 0;
}

static const struct view_source odd = {.path = "/data/set",
                                       .given_path = "/link",
                                       .count = ODD,
                                       .n_classes = 1,
                                       .id = id_of,
                                       .label = no_label,
                                       .key = odd_key,
                                       .class_name = odd_key};

/* Writes bits of the samples that a list of `len` bytes names; the error's text where it is refused. */
static unsigned odd_bits(const char *text, size_t len, struct error *err)
{
    struct list_file file = write_list("");
    FILE *out = fopen(file.path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
    uint32_t indices[ODD], count = 0;
    unsigned bits = 0;
    err->text[0] = '\0';
    if (view_list_select(file.path, &odd, indices, &count, err) == 0) {
        for (uint32_t i = 0; i < count; i++)
            bits |= 1u << indices[i];
    }
    unlink(file.path);
    return bits;
}

#define LINE(text) text, sizeof(text) - 1

/* What lines say: the whole line first, so that names with commas, blanks, quotes and # in them are names; then what
 * programs put around a name. */
static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        unsigned bits;
    } rows[] = {
        {LINE("c/a b.png\nc/a,b.png\nc/1;2.png\n"), 0x403},
        {LINE("c/a b.png 1\nc/a,b.png,1\nc/1;2.png;1\n"), 0x403},
        {LINE("c/a b.png\t1\nc/a,b.png, 1\nc/1;2.png ; 1.5e3\n"), 0x403},
        {LINE("c/#1.png\n#/2.png\n# c/x.png\n#c/x.png\n"), 0xc},
        {LINE("\"c/a b.png\"\n\"c/\"\"q\"\".png\",\"3\"\nc/\"q\".png\n"), 0x11},
        {LINE("c/x.png 7\n"), 0x40},     /* the whole line is a name */
        {LINE("\"c/x.png\" 7\n"), 0x20}, /* it is none in quotes */
        {LINE("c/x.png,7\n"), 0x20},
        {LINE("c/x.png 8\nc/a b.png cat\nc/a b.png,1,0,1\nc/x.png,\n"), 0x21},
        {LINE("c/back\\.png\nc/ end.png \n"), 0x180},
        {LINE("  c/x.png  \n\tc/a b.png\t\n"), 0x21},
        {LINE("c/\xe4.png\nc/\xc3\xa4.png\n"), 0xa00},
        {LINE("\xef\xbb\xbf"
              "c/x.png\r\n"),
         0x20},
        {LINE("\xef\xbb\xbf"
              "path,label\r\nc/x.png,1\r\n"),
         0x20},
        {LINE("\xef\xbb\xbf\"file_name\";\"label\"\r\n\"c/x.png\";1\r\n"), 0x20},
        {LINE("# made by hand\n\nImage Label\nc/x.png 1\n"), 0x20},
        {LINE("c/x.png\rc/a b.png\r"), 0x21},
        {LINE(".//c///x.png\n././c/./a b.png\n/data/set//c/a,b.png\n/link/./c/#1.png\n"), 0x27},
        {LINE("/data/set/c/x.png 3\n./c/a b.png,4\n\"/link/c/a,b.png\"\n"), 0x23},
        {LINE("0\n 11 \n"), 0x801},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        unsigned bits = odd_bits(rows[i].text, rows[i].len, &err);
        if (bits != rows[i].bits)
            fail_msg("row %zu: %x, not %x: %s", i, bits, rows[i].bits, err.text);
    }
}

/* What cannot be meant is refused, with line and column and what to do: nothing that a list says is passed over. */
static void test_wrong_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *says;
    } rows[] = {
        {LINE("c/x.png\n c/y.png\n"), ":2:2: names no sample"},
        {LINE("c/x.png 7 8\n"), ":1:1: may name two samples: put"},
        {LINE("c/x.png c/a b.png\n"), ":1:8: something that is no label"},
        {LINE("c/x.png b.png\n"), ":1:8: something that is no label"},
        {LINE("\"c/x.png\" b.png\n"), ":1:10: something that is no label"},
        {LINE("\"c/x.png\n"), ":1:1: names no sample"},
        {LINE("c\\x.png\n"), "keys have /"},
        {LINE("x.png\n"), "this line has no folder"},
        {LINE("c/x\n"), "names no sample"},
        {LINE("set/c/x.png\n"), "names no sample"},
        {LINE("c/../c/x.png\n"), "names no sample"},
        {LINE("/elsewhere/c/x.png\n"), "does not lie below it"},
        {LINE("\xff\xfe"
              "c\0/\0x\0.\0p\0n\0g\0\n\0"),
         ":1:1: is UTF-16"},
        {LINE("c\0/\0x\0.\0p\0n\0g\0\n\0"), "zero bytes"},
        {LINE("c/\xf6.png\n"), "is not UTF-8"},
        {LINE("c/x.png\npath,label\n"), ":2:1: names no sample"},
        {LINE("path,label\npath,label\n"), ":2:1: names no sample"},
        {LINE("0,1,2\n"), ":1:1: names no sample"},
        {LINE("12\n"), ":1:1: index beyond"},
        {LINE("-1\n"), ":1:1: names no sample"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        unsigned bits = odd_bits(rows[i].text, rows[i].len, &err);
        if (bits || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %x, \"%s\", and not \"%s\"", i, bits, err.text, rows[i].says);
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
        cmocka_unit_test(test_list),         cmocka_unit_test(test_list_refusals), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_wrong_forms),  cmocka_unit_test(test_interrupts),    cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_endless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
