/* fuzz_etcd.c: proves that no answer of etcd's, nor value in it, nor list of hosts makes their readers read outside
 * them, and that what is refused has a reason. What a value is read as is written and read as the same again. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/discovery/etcd_answer.h"
#include "server/discovery/node_value.h"
#include "server/discovery/slurm.h"
#include "tests/fuzz/fuzz.h"

#define HEADER "\"header\":{\"revision\":\"4\"}"
#define KEY "\"key\":\"L2xhcmRlci8xL2Evbm9kZXMveA==\""

static const char node_value[] =
    "{\"boot\":\"00000000000000ff\",\"name\":\"n\",\"url\":\"https://n:9451\",\"version\":\"1\",\"prep_id\":"
    "\"0123456789abcdef\",\"weight\":16,\"roots\":[\"/data\",\"/more\"],\"state\":\"leaving\"}";

static const char *const seeds[] = {
    "{" HEADER ",\"ID\":\"1353509838812812805\",\"TTL\":\"3\"}",
    "{\"result\":{" HEADER ",\"ID\":\"77\",\"TTL\":\"3\"}}",
    "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}",
    "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{" KEY ",\"value\":\"eyJmb3JtYXQiOjF9\"}]}}]}",
    "{" HEADER ",\"kvs\":[{" KEY ",\"mod_revision\":\"3\",\"value\":\"dg==\",\"lease\":\"77\"}],\"more\":true}",
    "{\"result\":{" HEADER ",\"created\":true}}",
    "{\"result\":{" HEADER ",\"events\":[{\"kv\":{" KEY ",\"value\":\"dg==\"}},{\"type\":\"DELETE\",\"kv\":{" KEY
    "}}]}}",
    "{\"result\":{\"canceled\":true,\"compact_revision\":\"4\"}}",
    "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}",
    "{\"error\":\"etcdserver: x\",\"message\":\"etcdserver: requested lease not found\",\"code\":5}",
    "{\"token\":\"abc.7\"}",
    node_value,
    "{\"format\":1,\"bound\":105}",
    "n[01-03,7],m1",
    "rack[1-2]n[1-2,5]-ib0.example.org",
};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[index]);
    CHECK(len <= cap);
    memcpy(buf, seeds[index], len);
    return len;
}

static void read_value(const char *text, size_t len_bytes)
{
    struct discovery_node node = {0}, again = {0};
    struct error err = {.text = ""};
    uint32_t bound = 0;
    char *written;
    if (node_value_read(text, len_bytes, &node, &err)) {
        CHECK(err.text[0]);
    } else if (node_value_write(&node, &written, NULL) == 0) {
        CHECK(node_value_read(written, strlen(written), &again, NULL) == 0);
        CHECK(memcmp(&node, &again, sizeof node) == 0);
        free(written);
    }
    if (node_config_read(text, len_bytes, &bound, &err) == 0)
        CHECK(bound >= 100 && bound <= MAP_BOUND_MAX);
}

static void read_answer(const char *text, size_t len_bytes)
{
    struct etcd_answer answer;
    struct error err = {.text = ""};
    if (etcd_answer_read(text, len_bytes, &answer, &err)) {
        CHECK(err.text[0]);
        return;
    }
    for (size_t i = 0; i < answer.n_kvs; i++) {
        CHECK(answer.kvs[i].key[answer.kvs[i].key_bytes] == 0);
        read_value(answer.kvs[i].value, answer.kvs[i].value_bytes);
    }
    etcd_answer_free(&answer);
}

static void read_hosts(const char *list)
{
    struct slurm_hosts hosts;
    struct error err = {.text = ""};
    if (slurm_expand(list, &hosts, &err)) {
        CHECK(err.text[0]);
        return;
    }
    CHECK(hosts.count >= 1 && hosts.count <= SLURM_HOSTS_MAX);
    for (uint32_t i = 0; i < hosts.count; i++)
        CHECK(hosts.names[i][0] && strlen(hosts.names[i]) < SLURM_HOST_MAX);
    slurm_free(&hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    read_answer(text, size);
    read_value(text, size);
    char *list = strndup(text, size);
    CHECK(list);
    read_hosts(list);
    free(list);
    return 0;
}
