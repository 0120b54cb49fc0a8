/* test_etcd_answer.c: what etcd's gateway says, as version 3.4 said it, is read. Anything else is refused with a
 * reason. What is asked reads as etcd's documentation has it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/check.h"
#include "server/discovery/base64.h"
#include "server/discovery/etcd_answer.h"
#include "server/discovery/etcd_ask.h"
#include "server/discovery/node_value.h"

#define HEADER "\"header\":{\"cluster_id\":\"15875391935852295136\",\"revision\":\"4\",\"raft_term\":\"2\"}"

static struct etcd_answer read_text(const char *text)
{
    struct etcd_answer answer;
    struct error err = {.text = ""};
    if (etcd_answer_read(text, strlen(text), &answer, &err))
        fail_msg("%s: %s", text, err.text);
    return answer;
}

static void test_leases(void **state)
{
    (void)state;
    struct etcd_answer answer = read_text("{" HEADER ",\"ID\":\"1353509838812812805\",\"TTL\":\"3\"}");
    assert_true(answer.revision == 4 && answer.id == INT64_C(1353509838812812805) && answer.ttl == 3);
    assert_int_equal(answer.code, 0);
    answer = read_text("{\"result\":{" HEADER ",\"ID\":\"77\",\"TTL\":\"3\"}}\n");
    assert_true(answer.id == 77 && answer.ttl == 3);
    answer = read_text("{\"result\":{" HEADER ",\"ID\":\"79\"}}"); /* dead */
    assert_true(answer.id == 79 && answer.ttl == 0);
    answer = read_text("{\"ID\":77,\"TTL\":3}"); /* numbers as numbers would do as well */
    assert_true(answer.id == 77 && answer.ttl == 3);
}

static void test_keys(void **state)
{
    (void)state;
    struct etcd_answer answer = read_text("{" HEADER
                                          ",\"kvs\":[{\"key\":\"L2Evbm9kZXMveA==\",\"create_revision\":\"3\","
                                          "\"mod_revision\":\"3\",\"value\":\"dg==\",\"lease\":\"77\"},"
                                          "{\"key\":\"AP8=\"}],\"more\":true,\"count\":\"2\"}");
    assert_int_equal(answer.n_kvs, 2);
    assert_true(answer.more && answer.kvs[0].mod_revision == 3 && !answer.kvs[0].deleted);
    assert_string_equal(answer.kvs[0].key, "/a/nodes/x");
    assert_string_equal(answer.kvs[0].value, "v");
    assert_int_equal(answer.kvs[1].key_bytes, 2);
    assert_memory_equal(answer.kvs[1].key, "\0\xff", 3);
    assert_int_equal(answer.kvs[1].value_bytes, 0);
    etcd_answer_free(&answer);
    answer = read_text("{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}");
    assert_true(answer.succeeded && answer.n_kvs == 0);
    answer = read_text("{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"value\":\"dg==\"}]}}]}");
    assert_true(!answer.succeeded && answer.n_kvs == 1);
    etcd_answer_free(&answer);
}

static void test_watch(void **state)
{
    (void)state;
    struct etcd_answer answer = read_text("{\"result\":{" HEADER ",\"created\":true}}");
    assert_true(answer.created && answer.n_kvs == 0);
    answer = read_text("{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"eA==\",\"value\":\"dg==\"}},"
                       "{\"type\":\"DELETE\",\"kv\":{\"key\":\"eA==\",\"mod_revision\":\"4\"}}]}}");
    assert_int_equal(answer.n_kvs, 2);
    assert_true(!answer.kvs[0].deleted && answer.kvs[1].deleted && answer.kvs[1].mod_revision == 4);
    etcd_answer_free(&answer);
    answer = read_text("{\"result\":{\"canceled\":true,\"compact_revision\":\"4\"}}");
    assert_true(answer.cancelled && answer.compact_revision == 4);
}

static void test_refusals(void **state)
{
    (void)state;
    struct etcd_answer answer = read_text("{\"error\":\"etcdserver: x\",\"message\":\"etcdserver: y\",\"code\":5}");
    assert_int_equal(answer.code, ETCD_NOT_FOUND);
    assert_string_equal(answer.text, "etcdserver: y");
    answer = read_text("{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}");
    assert_int_equal(answer.code, ETCD_UNAVAILABLE);
    answer = read_text("{\"error\":\"x\",\"code\":99999}");
    assert_int_equal(answer.code, ETCD_UNKNOWN);
}

static void check_bad(const char *text, size_t len, int code)
{
    struct etcd_answer answer;
    struct error err = {.text = ""};
    int rc = etcd_answer_read(text, len, &answer, &err);
    if (rc != code || err.text[0] == 0)
        fail_msg("%.80s: %s, '%s'", text, larder_err_name(rc), err.text);
}

static void test_bad(void **state)
{
    (void)state;
    const char *const texts[] = {"",
                                 "Not Found",
                                 "[]",
                                 "7",
                                 "{\"ID\":\"x\"}",
                                 "{\"ID\":\"1x\"}",
                                 "{\"ID\":\"\"}",
                                 "{\"ID\":\" 1\"}",
                                 "{\"ID\":[]}",
                                 "{\"ID\":\"9223372036854775808\"}",
                                 "{\"result\":[]}",
                                 "{\"kvs\":{}}",
                                 "{\"kvs\":[1]}",
                                 "{\"events\":[{}]}",
                                 "{\"kvs\":[{\"key\":\"a\"}]}",
                                 "{\"kvs\":[{\"key\":\"====\"}]}",
                                 "{\"kvs\":[{\"key\":\"a=aa\"}]}",
                                 "{\"kvs\":[{\"key\":7}]}",
                                 "{\"succeeded\":\"true\"}",
                                 "{\"token\":7}",
                                 "{\"responses\":{}}",
                                 "{\"events\":[{\"type\":\"MOVE\",\"kv\":{}}]}",
                                 "{\"token\":\"\\u0000\"}",
                                 "{} {}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_bad(texts[i], strlen(texts[i]), LARDER_EFORMAT);
    char deep[100];
    memset(deep, '[', sizeof deep);
    check_bad(deep, sizeof deep, LARDER_ELIMIT);
    char *large = xmalloc(ETCD_ANSWER_MAX + 1);
    memset(large, ' ', ETCD_ANSWER_MAX + 1);
    check_bad(large, ETCD_ANSWER_MAX + 1, LARDER_ELIMIT);
    size_t len = (size_t)sprintf(large, "{\"kvs\":[{}");
    for (int i = 0; i < ETCD_KVS_MAX; i++)
        len += (size_t)sprintf(large + len, ",{}");
    len += (size_t)sprintf(large + len, "]}");
    check_bad(large, len, LARDER_ELIMIT);
    free(large);
}

static void check_body(char *body, const char *wanted)
{
    assert_string_equal(body, wanted);
    free(body);
}

static void test_asked(void **state)
{
    (void)state;
    struct etcd_bytes key = {"/a/", 3}, value = {"v", 1}, none = {NULL, 0}, after = {"/a/\xff", 4};
    check_body(etcd_ask_grant(15), "{\"TTL\":\"15\"}");
    check_body(etcd_ask_lease(INT64_MAX), "{\"ID\":\"9223372036854775807\"}");
    check_body(etcd_ask_put(key, value, 7), "{\"key\":\"L2Ev\",\"value\":\"dg==\",\"lease\":\"7\"}");
    check_body(etcd_ask_create(key, value, 0),
               "{\"compare\":[{\"key\":\"L2Ev\",\"target\":\"CREATE\",\"result\":\"EQUAL\",\"createRevision\":\"0\"}],"
               "\"success\":[{\"requestPut\":{\"key\":\"L2Ev\",\"value\":\"dg==\",\"lease\":\"0\"}}],"
               "\"failure\":[{\"requestRange\":{\"key\":\"L2Ev\"}}]}");
    check_body(etcd_ask_range(key, none, 64, 0),
               "{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"limit\":\"64\",\"revision\":\"0\"}");
    check_body(etcd_ask_range(key, after, 64, 9),
               "{\"key\":\"L2Ev/wA=\",\"range_end\":\"L2Ew\",\"limit\":\"64\",\"revision\":\"9\"}");
    check_body(etcd_ask_watch(key, 10),
               "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"start_revision\":\"10\"}}");
    check_body(etcd_ask_login("me", "a\"b"), "{\"name\":\"me\",\"password\":\"a\\\"b\"}");
    assert_null(etcd_ask_login("me", "\xff"));
}

static void test_base64(void **state)
{
    (void)state;
    /* RFC 4648, section 10 */
    const char *const pairs[][2] = {{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *text = base64_encode(pairs[i][0], strlen(pairs[i][0])), *data;
        size_t len;
        assert_string_equal(text, pairs[i][1]);
        assert_int_equal(base64_decode(text, strlen(text), &data, &len), 0);
        assert_int_equal(len, strlen(pairs[i][0]));
        assert_string_equal(data, pairs[i][0]);
        free(text);
        free(data);
    }
}

/* ── values ── */

static void test_node(void **state)
{
    (void)state;
    struct discovery_node node = {.id = {0xab, 1}, .boot = UINT64_MAX, .prep_id = 1, .weight = 16, .leaving = true};
    struct discovery_node again = {.id = {0xab, 1}};
    char *text, digits[NODE_ID_DIGITS + 1];
    strcpy(node.name, "node \"ä\"");
    strcpy(node.url, "https://[::1]:9451");
    strcpy(node.version, "1.0");
    memcpy(node.roots, "/data\0/b", sizeof "/data\0/b");
    node.n_roots = 2;
    assert_int_equal(node_value_write(&node, &text, NULL), 0);
    assert_int_equal(node_value_read(text, strlen(text), &again, NULL), 0);
    assert_memory_equal(&node, &again, sizeof node);
    free(text);
    node_id_write(node.id, digits);
    assert_string_equal(digits, "ab010000000000000000000000000000");
    assert_true(node_id_read(digits, NODE_ID_DIGITS, again.id) && again.id[0] == 0xab);
    digits[3] = 'A';
    assert_false(node_id_read(digits, NODE_ID_DIGITS, again.id));
    assert_false(node_id_read(digits, NODE_ID_DIGITS - 1, again.id));
    strcpy(node.name, "\xff");
    assert_int_equal(node_value_write(&node, &text, NULL), LARDER_EINVAL);
}

#define GOOD                                                                                                         \
    "\"name\":\"n\",\"url\":\"http://n\",\"version\":\"1\",\"prep_id\":\"0000000000000000\",\"roots\":[],\"state\":" \
    "\"up\""

static void test_bad_node(void **state)
{
    (void)state;
    const char *const texts[] = {"",
                                 "[]",
                                 "{}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\"}",
                                 "{" GOOD ",\"weight\":1}",
                                 "{" GOOD ",\"boot\":\"0000000000000000\",\"weight\":1}",
                                 "{" GOOD ",\"boot\":\"000000000000001\",\"weight\":1}",
                                 "{" GOOD ",\"boot\":\"000000000000000X\",\"weight\":1}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":0}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":17}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1.5}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1,\"url\":\"file:///etc/passwd\"}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1,\"name\":\"a\\nb\"}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1,\"roots\":[\"a\"]}",
                                 "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1,\"state\":\"down\"}"};
    struct discovery_node node = {0};
    struct error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (node_value_read(texts[i], strlen(texts[i]), &node, &err) != LARDER_EFORMAT)
            fail_msg("%s", texts[i]);
    const char *good = "{" GOOD ",\"boot\":\"0000000000000001\",\"weight\":1,\"later\":{}}";
    assert_int_equal(node_value_read(good, strlen(good), &node, &err), 0);
    char large[NODE_VALUE_MAX + 1];
    memset(large, ' ', sizeof large);
    assert_int_equal(node_value_read(large, sizeof large, &node, &err), LARDER_ELIMIT);
}

static void test_config(void **state)
{
    (void)state;
    struct error err;
    uint32_t bound = 0;
    char *text = node_config_write(105);
    assert_string_equal(text, "{\"format\":1,\"bound\":105}");
    assert_int_equal(node_config_read(text, strlen(text), &bound, &err), 0);
    assert_int_equal(bound, 105);
    free(text);
    assert_int_equal(node_config_read("{\"format\":2}", 12, &bound, &err), LARDER_EVERSION);
    assert_non_null(strstr(err.text, "format 2"));
    assert_int_equal(node_config_read("{\"format\":1}", 12, &bound, &err), LARDER_EFORMAT);
    assert_int_equal(node_config_read("{\"format\":1,\"bound\":99}", 23, &bound, &err), LARDER_EFORMAT);
    assert_int_equal(node_config_read("hello", 5, &bound, &err), LARDER_EFORMAT);
    assert_int_equal(bound, 105);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases),   cmocka_unit_test(test_keys), cmocka_unit_test(test_watch),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_bad),  cmocka_unit_test(test_asked),
        cmocka_unit_test(test_base64),   cmocka_unit_test(test_node), cmocka_unit_test(test_bad_node),
        cmocka_unit_test(test_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
