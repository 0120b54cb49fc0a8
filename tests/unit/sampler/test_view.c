/* test_view.c: expressions are parsed or refused as view.h says, and select what they should. */
#include "tests/unit/sampler/helpers.h"

#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sampler/view.h"
#include "sampler/view_priv.h"

#define SAMPLES 1000
#define PER_CLASS 100

static const char *const class_names[] = {"n01440764", "n01491361", "n01500000", "n01530575", "n01622779",
                                          "n02000000", "n02100000", "cat",       "dog",       "[odd]*"};

/* A dataset of ten classes with a hundred samples each; ids go down as indices go up, in pairs. */
static sample_id id_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return 5000 + (index ^ 1);
}

static int32_t label_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return (int32_t)(index / PER_CLASS);
}

static const char *key_of(const void *dataset, uint32_t index)
{
    static char key[64];
    (void)dataset;
    snprintf(key, sizeof key, "%s/img %u.jpg", class_names[index / PER_CLASS], index % PER_CLASS);
    return key;
}

static const char *class_of(const void *dataset, uint32_t label)
{
    (void)dataset;
    return class_names[label];
}

static const struct view_source source = {
    .path = "/data/set", .given_path = "/home/me/link/", .count = SAMPLES, .n_classes = 10,
    .id = id_of, .label = label_of, .key = key_of, .class_name = class_of};

static struct view *parse(const char *json)
{
    struct view *view;
    struct error err;
    if (view_parse(json, strlen(json), &view, &err))
        fail_msg("%s: %s", json, err.text);
    return view;
}

static void select_flags(const char *json, bool flags[SAMPLES])
{
    struct view *view = json ? parse(json) : NULL;
    struct view_result result;
    struct error err;
    if (view_eval(view, &source, &result, &err))
        fail_msg("%s: %s", json, err.text);
    memset(flags, 0, SAMPLES);
    assert_int_equal(idset_count(result.ids), result.count);
    for (uint32_t i = 0; i < result.count; i++) {
        assert_true(i == 0 || result.indices[i - 1] < result.indices[i]);
        assert_int_equal(result.order[i], id_of(NULL, result.indices[i]));
        assert_true(idset_contains(result.ids, result.order[i]));
        flags[result.indices[i]] = true;
    }
    view_result_clear(&result);
    view_result_clear(&result);
    view_destroy(view);
}

static uint32_t count_selected(const char *json)
{
    bool flags[SAMPLES];
    uint32_t count = 0;
    select_flags(json, flags);
    for (unsigned i = 0; i < SAMPLES; i++)
        count += flags[i];
    return count;
}

/* Each leaf selects what it says: whole classes by name or pattern, half-open ranges, exact fractions; no view selects
 * all. */
static void test_leaves(void **state)
{
    (void)state;
    bool flags[SAMPLES];
    assert_int_equal(count_selected(NULL), SAMPLES);
    assert_int_equal(count_selected("{\"classes\": [\"n015*\"]}"), 200);
    assert_int_equal(count_selected("{\"classes\": [\"cat\", \"d?g\", \"cat\"]}"), 200);
    assert_int_equal(count_selected("{\"classes\": [\"[odd]*\"]}"), 200); /* itself by name, dog by pattern */
    assert_int_equal(count_selected("{\"classes\": [\"\\\\[odd\\\\]\\\\*\"]}"), 100);
    select_flags("{\"range\": [10, 12]}", flags);
    assert_true(!flags[9] && flags[10] && flags[11] && !flags[12]);
    assert_int_equal(count_selected("{\"range\": [0, 1000]}"), SAMPLES);
    assert_int_equal(count_selected("{\"fraction\": 1}"), SAMPLES);
    assert_int_equal(count_selected("{\"fraction\": 0.1234, \"seed\": 3}"), 123);
    assert_int_equal(count_selected("{\"fraction\": 0.0005}"), 1);
}

/* A fraction depends on seed and index alone: again the same, another with another seed, and a smaller one inside a
 * larger. */
static void test_fraction(void **state)
{
    (void)state;
    bool tenth[SAMPLES], again[SAMPLES], other[SAMPLES], third[SAMPLES];
    select_flags("{\"fraction\": 0.1, \"seed\": 3}", tenth);
    select_flags("{\"seed\": 3, \"fraction\": 1e-1}", again);
    select_flags("{\"fraction\": 0.1, \"seed\": 4}", other);
    select_flags("{\"fraction\": 0.3, \"seed\": 3}", third);
    assert_memory_equal(tenth, again, sizeof tenth);
    assert_memory_not_equal(tenth, other, sizeof tenth);
    for (unsigned i = 0; i < SAMPLES; i++)
        assert_true(!tenth[i] || third[i]);
}

/* Over many seeds every index is in a tenth as often as any other. */
static void test_fraction_is_uniform(void **state)
{
    (void)state;
    uint32_t counts[SAMPLES] = {0};
    uint64_t seed = test_seed(30);
    for (uint64_t i = 0; i < 2000; i++) {
        char json[96];
        bool flags[SAMPLES];
        snprintf(json, sizeof json, "{\"fraction\": 0.1, \"seed\": %llu}", (unsigned long long)((seed << 20) + i));
        select_flags(json, flags);
        for (unsigned index = 0; index < SAMPLES; index++)
            counts[index] += flags[index];
    }
    assert_true(uniform_z(counts, SAMPLES) < CHI_Z);
}

/* Unions, intersections and differences agree with the flags of their parts. */
static void test_combinations(void **state)
{
    (void)state;
    const char *a = "{\"classes\": [\"n01*\"]}", *b = "{\"fraction\": 0.5, \"seed\": 1}";
    const char *c = "{\"range\": [250, 777]}";
    bool in_a[SAMPLES], in_b[SAMPLES], in_c[SAMPLES], got[SAMPLES];
    char json[512];
    select_flags(a, in_a);
    select_flags(b, in_b);
    select_flags(c, in_c);
    static const char *const words[] = {"union", "intersection", "difference"};
    for (int word = 0; word < 3; word++) {
        snprintf(json, sizeof json, "{\"%s\": [%s, %s, %s]}", words[word], a, b, c);
        select_flags(json, got);
        for (unsigned i = 0; i < SAMPLES; i++)
            assert_int_equal(got[i], word == 0   ? in_a[i] || in_b[i] || in_c[i]
                                     : word == 1 ? in_a[i] && in_b[i] && in_c[i]
                                                 : in_a[i] && !in_b[i] && !in_c[i]);
    }
    snprintf(json, sizeof json, "{\"intersection\": [{\"difference\": [%s, %s]}, {\"union\": [%s]}]}", a, b, c);
    select_flags(json, got);
    for (unsigned i = 0; i < SAMPLES; i++)
        assert_int_equal(got[i], in_a[i] && !in_b[i] && in_c[i]);
}

/* What is wrong is refused with its place and a reason. */
static void test_refusals(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "line 1"},
        {"{\"classes\": [\"a\"]", "line 1, column"},
        {"[]", "subset: must be an object"},
        {"{}", "subset: must have exactly one"},
        {"{\"class\": [\"a\"]}", "exactly one of classes"},
        {"{\"classes\": [\"a\"], \"range\": [0, 1]}", "exactly one"},
        {"{\"classes\": [\"a\"], \"seed\": 1}", "exactly one"},
        {"{\"classes\": [\"a\"], \"classes\": [\"b\"]}", "duplicate"},
        {"{\"classes\": \"a\"}", "subset.classes: must be a list"},
        {"{\"classes\": []}", "subset.classes: must be a list"},
        {"{\"classes\": [\"a\", 3]}", "subset.classes[1]: must be a text, in quotes where it is a number: a class name"},
        {"{\"classes\": [\"\"]}", "subset.classes[0]"},
        {"{\"range\": [1]}", "subset.range: must be two"},
        {"{\"range\": [0, 1.5]}", "subset.range: must be two"},
        {"{\"range\": [5, 5]}", "subset.range: must be [first, end]"},
        {"{\"range\": [-1, 5]}", "subset.range"},
        {"{\"range\": [0, 4294967296]}", "subset.range"},
        {"{\"fraction\": 0}", "subset.fraction: must be a number above 0"},
        {"{\"fraction\": 1.01}", "subset.fraction"},
        {"{\"fraction\": \"0.1\"}", "subset.fraction"},
        {"{\"fraction\": 0.1, \"seed\": -1}", "subset.seed: must be a whole number"},
        {"{\"fraction\": 0.1, \"sead\": 1}", "exactly one"},
        {"{\"list\": \"relative.txt\"}", "subset.list: must be the absolute path"},
        {"{\"list\": \"\"}", "subset.list"},
        {"{\"union\": []}", "subset.union: must be a list of expressions"},
        {"{\"difference\": [{\"range\": [0, 1]}]}", "subset.difference: must be a list of two"},
        {"{\"union\": [{\"range\": [0, 1]}, {\"intersection\": [7]}]}",
         "subset.union[1].intersection[0]: must be an object"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct view *view = NULL;
        struct error err = {0};
        assert_int_equal(view_parse(wrong[i][0], strlen(wrong[i][0]), &view, &err), LARDER_EINVAL);
        assert_null(view);
        if (strstr(err.text, wrong[i][1]) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i][0], err.text, wrong[i][1]);
    }
}

/* Depth, number and length are bounded; what reaches the bound is still taken. */
static void test_bounds(void **state)
{
    (void)state;
    static char json[VIEW_TEXT_MAX + 2];
    struct view *view;
    struct error err;
    for (unsigned depth = VIEW_DEPTH_MAX; depth <= VIEW_DEPTH_MAX + 1; depth++) {
        char *at = json;
        for (unsigned i = 1; i < depth; i++)
            at += sprintf(at, "{\"union\":[");
        at += sprintf(at, "{\"range\":[0,1]}");
        for (unsigned i = 1; i < depth; i++)
            at += sprintf(at, "]}");
        int rc = view_parse(json, strlen(json), &view, &err);
        assert_int_equal(rc, depth == VIEW_DEPTH_MAX ? 0 : LARDER_EINVAL);
        if (rc == 0)
            view_destroy(view);
    }
    for (unsigned parts = VIEW_NODES_MAX - 1; parts <= VIEW_NODES_MAX; parts++) {
        char *at = json + sprintf(json, "{\"union\":[{\"range\":[0,1]}");
        for (unsigned i = 1; i < parts; i++)
            at += sprintf(at, ",{\"range\":[0,%u]}", i);
        strcpy(at, "]}");
        int rc = view_parse(json, strlen(json), &view, &err);
        assert_int_equal(rc, parts == VIEW_NODES_MAX - 1 ? 0 : LARDER_EINVAL);
        if (rc == 0)
            view_destroy(view);
    }
    memset(json, ' ', sizeof json);
    memcpy(json, "{\"range\":[0,1]}", 15);
    assert_int_equal(view_parse(json, VIEW_TEXT_MAX, &view, &err), 0);
    view_destroy(view);
    assert_int_equal(view_parse(json, VIEW_TEXT_MAX + 1, &view, &err), LARDER_EINVAL);
    memset(json, '[', sizeof json);
    assert_int_equal(view_parse(json, VIEW_TEXT_MAX, &view, &err), LARDER_EINVAL);
}

/* Spellings of one selection have one normal form; different ones do not; the order of a difference counts. */
static void test_canonical(void **state)
{
    (void)state;
    struct view *a = parse("{\"union\": [{\"classes\": [\"b\", \"a\", \"b\"]}, {\"fraction\": 5e-1}, "
                           "{\"range\": [1,  2]}]}");
    struct view *b = parse(" {\"union\":[{\"range\":[1,2]},{\"seed\":0,\"fraction\":0.5},{\"classes\":[\"a\",\"b\"]},"
                           "{\"classes\":[\"\\u0062\",\"a\"]}]}");
    struct view *c = parse("{\"difference\": [{\"range\": [1, 2]}, {\"range\": [0, 1]}]}");
    struct view *d = parse("{\"difference\": [{\"range\": [0, 1]}, {\"range\": [1, 2]}]}");
    assert_string_equal(view_canonical(a), view_canonical(b));
    assert_string_equal(view_canonical(a),
                        "{\"union\":[{\"classes\":[\"a\",\"b\"]},{\"fraction\":0.5,\"seed\":0},{\"range\":[1,2]}]}");
    assert_string_not_equal(view_canonical(c), view_canonical(d));
    view_destroy(a);
    view_destroy(b);
    view_destroy(c);
    view_destroy(d);
}

/* Two views become what both select, with the normal form of their intersection; without one it is the other. */
static void test_intersect(void **state)
{
    (void)state;
    struct view *both = view_intersect(parse("{\"range\": [150, 250]}"), parse("{\"classes\": [\"n01491361\"]}"));
    struct view *written = parse("{\"intersection\": [{\"classes\": [\"n01491361\"]}, {\"range\": [150, 250]}]}");
    struct view_result result;
    struct error err;
    assert_string_equal(view_canonical(both), view_canonical(written));
    assert_int_equal(view_eval(both, &source, &result, &err), 0);
    assert_int_equal(result.count, 50);
    assert_int_equal(result.indices[0], 150);
    view_result_clear(&result);
    assert_ptr_equal(view_intersect(NULL, both), both);
    assert_ptr_equal(view_intersect(both, NULL), both);
    assert_null(view_intersect(NULL, NULL));
    view_destroy(both);
    view_destroy(written);
}

static void expect_eval_error(const char *json, int code, const char *says)
{
    struct view *view = parse(json);
    struct view_result result;
    struct error err = {0};
    assert_int_equal(view_eval(view, &source, &result, &err), code);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", json, err.text, says);
    view_destroy(view);
}

/* What parses and does not fit the dataset is refused when it is evaluated, with its name. */
static void test_eval_refusals(void **state)
{
    (void)state;
    expect_eval_error("{\"classes\": [\"cat\", \"n03*\"]}", LARDER_EINVAL, "'n03*' matches none");
    expect_eval_error("{\"range\": [0, 1001]}", LARDER_EINVAL, "ends beyond the dataset's 1000 samples");
    expect_eval_error("{\"difference\": [{\"range\": [0, 5]}, {\"range\": [0, 9]}]}", LARDER_EINVAL, "selects none");
    expect_eval_error("{\"fraction\": 0.0001}", LARDER_EINVAL, "selects none");
    expect_eval_error("{\"list\": \"/no/such/list\"}", LARDER_ENOENT, "/no/such/list");
    expect_eval_error("{\"list\": \"/tmp\"}", LARDER_EINVAL, "not a regular file");
    expect_eval_error("{\"list\": \"/dev/zero\"}", LARDER_EINVAL, "not a regular file");
}

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
    struct list_file file = write_list("cat/img 0.jpg\r\n\n3\n/data/set/dog/img 99.jpg\n"
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

/* ── interrupts ── */

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
    struct view_source counted = {.dataset = &asked, .count = MANY, .n_classes = MANY, .id = id_of,
                                  .label = label_when_asked, .key = text_when_asked, .class_name = text_when_asked,
                                  .interrupt = &asked.interrupt};
    struct view *view = json ? parse(json) : NULL;
    struct view_result result;
    struct error err = {0};
    assert_int_equal(view_eval(view, &counted, &result, &err), LARDER_EGONE);
    assert_non_null(strstr(err.text, "interrupted"));
    view_destroy(view);
    return asked.count;
}

/* Whatever an evaluation is at, it ends soon after the interrupt: long before it has asked for all samples, let alone as
 * often as the expression has parts. */
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

/* Patterns match as the C library's fnmatch does, on random patterns and names of the characters that matter; a bracket
 * that is not closed, which POSIX leaves open, stands for itself. */
static void test_glob_is_fnmatch(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, test_seed(31));
    static const char *const pieces[] = {"a", "b", "c", "*", "*", "?", "[ab]", "[!ab]", "[a-c]", "[]a]", "[a-]",
                                         "[!]-]",
                                         "\\*", "\\[", "[\\]a]", "[^a-b]", "]", "-", "!"};
    static const char in_names[] = "aabbc-]![*";
    unsigned matches = 0;
    for (int i = 0; i < 300000; i++) {
        char pattern[64] = "", name[8] = "";
        for (uint64_t n = random_below(&rng, 7); n; n--)
            strcat(pattern, pieces[random_below(&rng, sizeof pieces / sizeof *pieces)]);
        for (uint64_t at = 0, n = random_below(&rng, sizeof name); at < n; at++)
            name[at] = in_names[random_below(&rng, sizeof in_names - 1)];
        bool theirs = fnmatch(pattern, name, 0) == 0;
        if (glob_match(pattern, name) != theirs)
            fail_msg("pattern %s, name %s: fnmatch says %d", pattern, name, theirs);
        matches += theirs;
    }
    assert_true(matches > 3000);
    assert_true(glob_match("[b*", "[bcd") && glob_match("a\\", "a\\"));
    assert_false(glob_match("[b*", "b"));
}

/* A pattern of many stars takes no time to speak of. */
static void test_glob_is_quick(void **state)
{
    (void)state;
    char pattern[256] = "", name[256];
    for (unsigned i = 0; i < 120; i++)
        memcpy(pattern + 2 * i, "*a", 2);
    strcat(pattern, "b");
    memset(name, 'a', 255);
    name[255] = '\0';
    for (int i = 0; i < 1000; i++)
        assert_false(glob_match(pattern, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_fraction),
        cmocka_unit_test(test_fraction_is_uniform),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_intersect),
        cmocka_unit_test(test_eval_refusals),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_refusals),
        cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_glob_is_fnmatch),
        cmocka_unit_test(test_glob_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
