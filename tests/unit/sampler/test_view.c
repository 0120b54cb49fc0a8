/* test_view.c: expressions are parsed or refused as view.h says, and select what they should. */
#include "tests/unit/sampler/view_fixture.h"

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
        {"{\"classes\": [\"a\", 3]}",
         "subset.classes[1]: must be a text, in quotes where it is a number: a class name"},
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

/* Two views become what both select; without one it is the other. */
static void test_intersect(void **state)
{
    (void)state;
    struct view *both = view_intersect(parse("{\"range\": [150, 250]}"), parse("{\"classes\": [\"n01491361\"]}"));
    struct view_result result;
    struct error err;
    assert_int_equal(view_eval(both, &source, &result, &err), 0);
    assert_int_equal(result.count, 50);
    assert_int_equal(result.indices[0], 150);
    view_result_clear(&result);
    assert_ptr_equal(view_intersect(NULL, both), both);
    assert_ptr_equal(view_intersect(both, NULL), both);
    assert_null(view_intersect(NULL, NULL));
    view_destroy(both);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_fraction),
        cmocka_unit_test(test_fraction_is_uniform),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_intersect),
        cmocka_unit_test(test_eval_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
