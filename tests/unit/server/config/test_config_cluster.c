/* The section `cluster` of larderd's configuration: what it accepts, fills in and refuses. */
#include <unistd.h>

#include "tests/unit/server/config/config_fixture.h"

#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16

/* Without the section a daemon is alone, and nothing is filled in. */
static void test_alone(void **state)
{
    (void)state;
    struct config *config = parse(NULL);
    assert_string_equal(config->cluster_name, "");
    assert_string_equal(config->cluster_node, "");
    assert_int_equal(config->cluster_discovery, CONFIG_DISCOVERY_STATIC);
    assert_null(config->cluster_etcd);
    assert_int_equal(config->n_cluster_etcd, 0);
    assert_null(config->cluster_nodes);
    assert_int_equal(config->n_cluster_nodes, 0);
    assert_string_equal(config->cluster_listen, "0.0.0.0:9451");
    assert_string_equal(config->cluster_advertise, "");
    assert_int_equal(config->cluster_security, CONFIG_SECURITY_BUNDLE);
    assert_string_equal(config->cluster_bundle, "");
    assert_false(config->cluster_insecure);
    assert_int_equal(config->cluster_lease_s, 15);
    config_destroy(config);
}

/* In a cluster the node's name and address follow the host's name and cluster.listen, also when that changes later,
 * until an address is given. */
static void test_filled_in(void **state)
{
    (void)state;
    char host[65] = "", expected[80];
    struct error err;
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    if (!host[0] || strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != strlen(host)) {
        print_message("this host's name is no node's name: '%s'\n", host);
        skip();
    }
    struct config *config = parse("cluster: {name: a, bundle: /x.pem}\n");
    assert_string_equal(config->cluster_node, host);
    snprintf(expected, sizeof expected, "%s:9451", host);
    assert_string_equal(config->cluster_advertise, expected);
    assert_int_equal(config_set_on(config, &machine, "cluster.listen", "10.0.0.7:12", &err), 0);
    snprintf(expected, sizeof expected, "%s:12", host);
    assert_string_equal(config->cluster_advertise, expected);
    assert_int_equal(config_set_on(config, &machine, "cluster.advertise", "node-7:13", &err), 0);
    assert_int_equal(config_set_on(config, &machine, "cluster.listen", "10.0.0.7:14", &err), 0);
    assert_string_equal(config->cluster_advertise, "node-7:13");
    config_destroy(config);
}

/* What a cluster may be made of. */
static void test_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "cluster: {name: a, bundle: /x.pem}\n", /* alone until another is found */
        "cluster: {name: a, bundle: /x.pem, nodes: []}\n",
        "cluster: {name: " X64 ", bundle: /x.pem, nodes: [a:1, 10.0.0.1:65535, \"[::1]:9451\"]}\n",
        "cluster: {name: a, bundle: /x.pem, discovery: slurm}\n",
        "cluster: {name: a, bundle: /x.pem, discovery: dns, nodes: [larder.default.svc:9451]}\n",
        "cluster: {name: a, bundle: /x.pem, discovery: etcd, etcd: [http://127.0.0.1:2379]}\n",
        "cluster: {name: a, security: none, listen: 127.9.9.9:1}\n",
        "cluster: {name: a, security: none, listen: \"[::1]:1\"}\n",
        "cluster: {name: a, security: none, insecure: true}\n",
        "cluster: {name: 7, node: \"null\", bundle: /x.pem}\n",
        "cluster:\n#  name: a\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        config_destroy(parse(texts[i]));
}

static const struct {
    const char *text, *expected;
} refused[] = {
    /* which settings go together */
    {"cluster:\n  name: a\n", "f.yaml:2:9: cluster.name: a cluster needs this node's certificates: make them with "
                              "`larder cluster keygen`, and write `bundle: /PATH/OF/THEM` below `cluster:`"},
    {"cluster:\n  security: none\n  name: a\n",
     "f.yaml:2:13: cluster.security: none, and other machines reach cluster.listen (0.0.0.0:9451): write `security: "
     "bundle`, or `insecure: true` if all who reach it may read the samples"},
    {"cluster: {name: a, security: none, listen: \"[::]:9451\"}\n",
     "f.yaml:1:30: cluster.security: none, and other machines reach cluster.listen ([::]:9451): write `security: "
     "bundle`, or `insecure: true` if all who reach it may read the samples"},
    {"cluster: {discovery: etcd}\n", "f.yaml:1:22: cluster.discovery: etcd needs its endpoints: write `etcd: "
                                     "[https://HOST:2379]` below `cluster:`"},
    {"cluster: {discovery: dns}\n",
     "f.yaml:1:22: cluster.discovery: dns needs one name that stands for all nodes, and cluster.nodes has 0: write "
     "`nodes: [NAME:PORT]` below `cluster:`"},
    {"cluster: {discovery: dns, nodes: [a:1, b:1]}\n",
     "f.yaml:1:22: cluster.discovery: dns needs one name that stands for all nodes, and cluster.nodes has 2: write "
     "`nodes: [NAME:PORT]` below `cluster:`"},
    /* unknown keys, with the nearest known one */
    {"clutser: {name: a}\n", "f.yaml:1:1: clutser: no such section: did you mean cluster?"},
    {"cluster:\n  advertize: a:1\n", "f.yaml:2:3: cluster.advertize: no such setting: did you mean cluster.advertise?"},
    {"cluster:\n  zzz: 1\n",
     "f.yaml:2:3: cluster.zzz: no such setting: `cluster` has name, node, discovery, etcd, nodes, listen, advertise, "
     "security, bundle, spread, insecure, lease"},
    /* names */
    {"cluster: {name: a/b}\n",
     "f.yaml:1:17: cluster.name: 'a/b' is not a name: write 1 to 64 letters, digits, - _ or ."},
    {"cluster: {node: \"a b\"}\n",
     "f.yaml:1:17: cluster.node: 'a b' is not a name: write 1 to 64 letters, digits, - _ or ."},
    {"cluster: {name: x" X64 "}\n",
     "f.yaml:1:17: cluster.name: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' has 65 bytes: write "
     "0 to 64 (letters, digits, - _ and ., or nothing)"},
    /* addresses */
    {"cluster: {listen: 9451}\n", "f.yaml:1:19: cluster.listen: '9451' is not an address to listen at: write "
                                  "ADDRESS:PORT, such as 0.0.0.0:9451 or [::]:9451"},
    {"cluster: {listen: localhost:9451}\n",
     "f.yaml:1:19: cluster.listen: 'localhost:9451' is not an address to listen at: write ADDRESS:PORT, such as "
     "0.0.0.0:9451 or [::]:9451"},
    {"cluster: {listen: 0.0.0.0:0}\n", "f.yaml:1:19: cluster.listen: '0.0.0.0:0' is not an address to listen at: "
                                       "write ADDRESS:PORT, such as 0.0.0.0:9451 or [::]:9451"},
    {"cluster: {listen: 0.0.0.0:65536}\n",
     "f.yaml:1:19: cluster.listen: '0.0.0.0:65536' is not an address to listen at: write ADDRESS:PORT, such as "
     "0.0.0.0:9451 or [::]:9451"},
    {"cluster: {listen: \"::1:9451\"}\n", "f.yaml:1:19: cluster.listen: '::1:9451' is not an address to listen at: "
                                          "write ADDRESS:PORT, such as 0.0.0.0:9451 or [::]:9451"},
    {"cluster: {listen: \"\"}\n", "f.yaml:1:19: cluster.listen: '' has 0 bytes: write 1 to 261 (ADDRESS:PORT)"},
    {"cluster: {advertise: auto}\n",
     "f.yaml:1:22: cluster.advertise: 'auto' is not an address: write HOST:PORT, or \"\" for the host's name with the "
     "port of cluster.listen"},
    /* lists */
    {"cluster: {nodes: a:9451}\n", "f.yaml:1:18: cluster.nodes: 'a:9451' is not a list: write `[a:9451]` "
                                   "(HOST:PORT each)"},
    {"cluster: {nodes: {a: 9451}}\n", "f.yaml:1:18: cluster.nodes: is a mapping: write a list (HOST:PORT each)"},
    {"cluster:\n  nodes:\n    - a:9451\n    - b\n",
     "f.yaml:4:7: cluster.nodes[1]: 'b' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [\"[::z]:1\"]}\n",
     "f.yaml:1:19: cluster.nodes[0]: '[::z]:1' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [\":1\"]}\n",
     "f.yaml:1:19: cluster.nodes[0]: ':1' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [\"[]:1\"]}\n",
     "f.yaml:1:19: cluster.nodes[0]: '[]:1' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [\"]:1\"]}\n",
     "f.yaml:1:19: cluster.nodes[0]: ']:1' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [\"[:1\"]}\n",
     "f.yaml:1:19: cluster.nodes[0]: '[:1' is not a node's address: write HOST:PORT, such as node-1:9451"},
    {"cluster: {nodes: [~]}\n", "f.yaml:1:19: cluster.nodes[0]: write one text (HOST:PORT each)"},
    {"cluster: {nodes: [[a]]}\n", "f.yaml:1:19: cluster.nodes[0]: write one text (HOST:PORT each)"},
    {"cluster: {etcd: [etcd-0:2379]}\n",
     "f.yaml:1:18: cluster.etcd[0]: 'etcd-0:2379' is not an endpoint: write its URL, such as https://etcd-0:2379"},
    {"cluster: {etcd: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}\n",
     "f.yaml:1:17: cluster.etcd: has 17 texts: at most 16 are possible"},
    /* the others */
    {"cluster: {bundle: x.pem}\n",
     "f.yaml:1:19: cluster.bundle: 'x.pem' is not an absolute path: write an absolute path, auto or none"},
    {"cluster: {bundle: auto}\n",
     "f.yaml:1:19: cluster.bundle: 'auto' is not possible here: write an absolute path or none"},
    {"cluster: {lease: 1}\n", "f.yaml:1:18: cluster.lease: 1 is out of range: write a whole number from 2 to 3600 "
                              "(seconds), without quotes"},
    {"cluster: {discovery: kubernetes}\n",
     "f.yaml:1:22: cluster.discovery: 'kubernetes' is none of the choices: write one of static|slurm|dns|etcd"},
};

/* What cannot be a cluster is refused with its place, its key and what to do. */
static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i].text, strlen(refused[i].text), refused[i].expected);
}

/* A change that is refused leaves the lists as they were, and one that is not keeps them. */
static void test_set_keeps_lists(void **state)
{
    (void)state;
    struct error err;
    struct config *config = parse("cluster: {discovery: dns, nodes: [a:1]}\n");
    assert_int_equal(config_set_on(config, &machine, "cluster.nodes", "[]", &err), LARDER_EINVAL);
    assert_int_equal(config->n_cluster_nodes, 1);
    assert_string_equal(config->cluster_nodes[0].text, "a:1");
    assert_int_equal(config_set_on(config, &machine, "cluster.lease", "7", &err), 0);
    assert_int_equal(config->cluster_lease_s, 7);
    assert_string_equal(config->cluster_nodes[0].text, "a:1");
    assert_int_equal(config->cluster_nodes[0].at.column, 35);
    config_destroy(config);
}

int main(void)
{
    set_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),   cmocka_unit_test(test_filled_in),       cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_set_keeps_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
