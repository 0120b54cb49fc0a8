/* Whatever the bytes of a configuration file are, reading it ends with settings in their bounds or with an error that
 * has a text, and never with a crash; what was accepted comes back the same after it was written out and read again. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/config/config_priv.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "memory:\n  arena: 25%\n  encoded: 512MiB\nthreads: {workers: 0, loaders: 8}\n",
    "socket:\n  path: \"/tmp/l.sock\"\nlog: {level: debug}\nmetrics: {enabled: true, address: ::1, port: 0}\n",
    "limits:\n  jobs: 5\n  pixels: 1000\n  scans: 7\n  idle_exit: 60\ncontrol: {enabled: false}\n",
    "catalog: {checkpoint: none}\njobs:\n  prefetch: 9\n  bad_samples: error\n  quota: 12.5%\n",
    ("datasets:\n  cats:\n    path: /data/cats\n    pipeline:\n      - random_resized_crop: {size: 224, scale: [0.25, "
     "1]}\n"
     "      - random_horizontal_flip\n      - x: {mean: 1e-1, exact: true, nothing: ~, text: 'it''s', more: "
     "\"\\x41\\u00e9\"}\n"),
    ("datasets: {a: {path: /d, subset: {union: [{classes: [\"n0*\", '7']}, {difference: [{range: [0, 9]}, {fraction: "
     "0.5, seed: 3}]}]}}}\n"),
    "memory:\n  arena: 90%\n",
    ("cluster:\n  name: lab\n  node: n-1\n  discovery: etcd\n  etcd: [https://e:2379, 'http://[::1]:1']\n  nodes: "
     "[a:9451]\n  listen: \"[::]:9451\"\n  advertise: \"\"\n  bundle: /b.pem\n  lease: 4\n"),
    "cluster: {name: a, security: none, insecure: true, listen: 127.0.0.1:1, advertise: 'b:2', nodes: []}\n",
    "--- &a !t\nmemory: *a\n? [x]\n: |\n  text\n...\n---\n%TAG ! a\n",
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

static char *dump(const struct config *config, size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);
    CHECK(out != NULL);
    config_dump(config, out);
    CHECK(fclose(out) == 0);
    return text;
}

/* without_comments cuts the sources off, in which the two differ. */
static void without_comments(char *text)
{
    char *to = text;
    for (char *from = text; *from;) {
        char *comment = strstr(from, "  # "), *end = strchr(from, '\n');
        size_t len = (size_t)((comment && comment < end ? comment : end) - from);
        memmove(to, from, len);
        to += len;
        *to++ = '\n';
        from = end + 1;
    }
    *to = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct config_machine machine = {
        .memory_bytes = UINT64_C(1) << 34, .available_bytes = UINT64_C(1) << 33, .cores = 4};
    struct config *config = NULL, *again = NULL;
    struct error err = {0};
    int rc = config_parse("f", (const char *)data, size, &machine, &config, &err);
    if (rc) {
        CHECK(err.code == rc && err.text[0] != '\0' && config == NULL);
        return 0;
    }
    CHECK(config->samples_bytes <= machine.memory_bytes && config->workers >= 1);
    CHECK(config->arena_bytes + config_sure_bytes(config) <= config->samples_bytes);
    CHECK(config_sure_bytes(config) > 0 && config_lent_bytes(config) <= config->arena_bytes);
    CHECK(config->socket_path && config->checkpoint_dir && config->metrics_address);
    size_t len;
    char *first = dump(config, &len), *second;
    rc = config_parse("f", first, len, &machine, &again, &err);
    CHECK(rc == 0);
    second = dump(again, &len);
    without_comments(first);
    without_comments(second);
    CHECK(strcmp(first, second) == 0);
    config_destroy(config);
    config_destroy(again);
    free(first);
    free(second);
    return 0;
}
