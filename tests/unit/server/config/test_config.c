/* What larderd's configuration accepts, and what it makes of it. */
#include <unistd.h>

#include "common/log.h"
#include "tests/unit/server/config/config_fixture.h"

static char *dump(const struct config *config)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    config_dump(config, out);
    fclose(out);
    return text;
}

/* Without a file every setting has the table's default, and what depends on the machine and the environment is worked
 * out. */
static void test_defaults(void **state)
{
    (void)state;
    struct config *config = parse(NULL);
    assert_int_equal(config->arena_bytes, 4 * GIB);
    assert_int_equal(config_sure_bytes(config), 16 * GIB / 10);
    assert_int_equal(config->samples_bytes, 4 * GIB + 16 * GIB / 10);
    assert_int_equal(config->encoded_bytes, config->samples_bytes);
    assert_int_equal(config_lent_bytes(config), config->arena_bytes);
    assert_int_equal(config->scratch_bytes, 16 * GIB / 10);
    assert_int_equal(config->workers, 6);
    assert_int_equal(config->loaders, 8);
    assert_int_equal(config->jobs_max, 256);
    assert_int_equal(config->pixels_max, 178956970); /* Pillow's: more is a DecompressionBombError */
    assert_int_equal(config->idle_exit_s, 0);
    assert_int_equal(config->log_level, LOG_INFO);
    assert_true(config->metrics_enabled);
    assert_string_equal(config->metrics_address, "127.0.0.1");
    assert_int_equal(config->metrics_port, 9450);
    assert_string_equal(config->metrics_socket, "");
    assert_true(config->control_enabled);
    assert_string_equal(config->socket_path, "/run/user/7/larder/larder.sock");
    assert_string_equal(config->checkpoint_dir, "/home/x/.cache-there/larder");
    assert_true(config->job_quota_share == 0.5);
    assert_int_equal(config->n_datasets, 0);
    assert_int_equal(config->source[SETTING_arena_bytes], CONFIG_FROM_DEFAULT);
    config_destroy(config);
}

/* Of the three sizes of memory for samples those that are given hold, and the others follow. Encoded samples always
 * have what the arena leaves, and are lent no more than their own bound. */
static void test_memory_for_samples(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t samples, arena, sure, lent;
    } cases[] = {
        {"memory: {samples: 7GiB}\n", 7 * GIB, 5 * GIB, 2 * GIB, 5 * GIB},
        {"memory: {samples: 7GiB, arena: 1GiB}\n", 7 * GIB, GIB, 6 * GIB, GIB},
        {"memory: {samples: 7GiB, encoded: 3GiB}\n", 7 * GIB, 5 * GIB, 2 * GIB, GIB},
        {"memory: {samples: 7GiB, encoded: 1GiB}\n", 7 * GIB, 5 * GIB, GIB, 0},
        {"memory: {arena: 1GiB, encoded: 2GiB}\n", 3 * GIB, GIB, 2 * GIB, 0},
        {"memory: {encoded: 2GiB}\n", 6 * GIB, 4 * GIB, 2 * GIB, 0},
        {"memory: {arena: 1GiB}\n", GIB + 16 * GIB / 10, GIB, 16 * GIB / 10, GIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *config = parse(cases[i].text);
        for (int again = 0; again < 2; again++) { /* as it is written, it is read */
            assert_int_equal(config->samples_bytes, cases[i].samples);
            assert_int_equal(config->arena_bytes, cases[i].arena);
            assert_int_equal(config_sure_bytes(config), cases[i].sure);
            assert_int_equal(config_lent_bytes(config), cases[i].lent);
            char *text = dump(config);
            config_destroy(config);
            config = parse(text);
            free(text);
        }
        config_destroy(config);
    }
}

/* The environment decides about the socket's path and the checkpoint folder in the documented order. */
static void test_environment(void **state)
{
    (void)state;
    setenv("LARDER_SOCKET", "/tmp/other.sock", 1);
    struct config *config = parse(NULL);
    assert_string_equal(config->socket_path, "/tmp/other.sock");
    config_destroy(config);
    config = parse("socket: {path: /tmp/from-file.sock}\ncatalog: {checkpoint: none}\n");
    assert_string_equal(config->socket_path, "/tmp/from-file.sock");
    assert_string_equal(config->checkpoint_dir, "");
    config_destroy(config);
    char text[200], lengthy[130];
    memset(lengthy, 'x', sizeof lengthy);
    snprintf(text, sizeof text, "/tmp/%.100s",
             lengthy); /* fits a socket's address, and the control socket's does not */
    setenv("LARDER_SOCKET", text, 1);
    struct error err;
    assert_int_equal(config_parse(NULL, NULL, 0, &machine, &config, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "the control socket: "));
    unsetenv("LARDER_SOCKET");
}

/* A default share of memory goes down when others use the machine; a share that somebody wrote does not. */
static void test_busy_machine(void **state)
{
    (void)state;
    struct config_machine busy = {.memory_bytes = 16 * GIB, .available_bytes = 2 * GIB, .cores = 1};
    struct config *config = NULL;
    struct error err;
    assert_int_equal(config_parse("f.yaml", NULL, 0, &busy, &config, &err), 0);
    assert_int_equal(config->arena_bytes, GIB);
    config_destroy(config);
    const char *text = "memory: {arena: 25%}";
    assert_int_equal(config_parse("f.yaml", text, strlen(text), &busy, &config, &err), 0);
    assert_int_equal(config->arena_bytes, 4 * GIB);
    config_destroy(config);
}

static const char everything[] = "# a comment\n"
                                 "socket:\n"
                                 "  path: \"/tmp/larder test/l.sock\"\n"
                                 "memory:\n"
                                 "  samples: 1.75GiB\n"
                                 "  arena: 1.5GiB\n"
                                 "  encoded: 100 MB\n"
                                 "  scratch: 70MiB\n"
                                 "  decoded: never\n"
                                 "  linger: 9\n"
                                 "threads: {workers: 3, loaders: 2}\n"
                                 "debug: {load_delay: 7, memory_root: /tmp/m}\n"
                                 "redirect: {width: 4}\n"
                                 "limits:\n"
                                 "  jobs: 5\n"
                                 "  pixels: 1000\n"
                                 "  scans: 7\n"
                                 "  idle_exit: 60\n"
                                 "  columns: 2MiB\n"
                                 "  catalogs: 3MiB\n"
                                 "  rank_timeout: 45\n"
                                 "  source_wait: 7\n"
                                 "  bad: 2.5%\n"
                                 "log: {level: debug}\n"
                                 "metrics:\n"
                                 "  enabled: false\n"
                                 "  address: ::1\n"
                                 "  port: 0\n"
                                 "  socket: /tmp/m.sock\n"
                                 "control: {enabled: false}\n"
                                 "catalog: {checkpoint: /var/tmp/c}\n"
                                 "jobs:\n"
                                 "  quota: 12.5%\n"
                                 "cluster:\n"
                                 "  name: lab-1\n"
                                 "  node: node.7\n"
                                 "  discovery: etcd\n"
                                 "  etcd: [https://etcd-0:2379, \"http://[::1]:2379\"]\n"
                                 "  nodes:\n"
                                 "    - node-1:9451\n"
                                 "  listen: \"[::]:77\"\n"
                                 "  advertise: \"[fd00::7]:78\"\n"
                                 "  security: none\n"
                                 "  bundle: /etc/larder/cluster.pem\n"
                                 "  insecure: true\n"
                                 "  spread: never\n"
                                 "  lease: 4\n"
                                 "storage:\n"
                                 "  - {path: \"/nvme/my class\", size: 800GiB, threads: 9, form: planes}\n"
                                 "  - path: /ssd\n"
                                 "    size: 2.5TB\n"
                                 "roots: [/data, \"/more data\"]\n"
                                 "datasets:\n"
                                 "  cats-1:\n"
                                 "    path: /data/cats\n"
                                 "    pipeline:\n"
                                 "      - random_resized_crop: {size: 224, scale: [0.25, 1], mode: \"1\"}\n"
                                 "      - random_horizontal_flip\n"
                                 "      - normalize: {mean: 1e-1, exact: true, nothing: ~}\n"
                                 "  dogs:\n"
                                 "    path: '/data/my dogs'\n"
                                 "    subset:\n"
                                 "      difference:\n"
                                 "        - classes: [\"n015*\", \"7\"]\n"
                                 "        - fraction: 0.5\n"
                                 "          seed: 3\n";

static void assert_cluster(const struct config *config)
{
    assert_string_equal(config->cluster_name, "lab-1");
    assert_string_equal(config->cluster_node, "node.7");
    assert_int_equal(config->cluster_discovery, CONFIG_DISCOVERY_ETCD);
    assert_int_equal(config->n_cluster_etcd, 2);
    assert_string_equal(config->cluster_etcd[0].text, "https://etcd-0:2379");
    assert_string_equal(config->cluster_etcd[1].text, "http://[::1]:2379");
    assert_int_equal(config->n_cluster_nodes, 1);
    assert_string_equal(config->cluster_nodes[0].text, "node-1:9451");
    assert_string_equal(config->cluster_listen, "[::]:77");
    assert_string_equal(config->cluster_advertise, "[fd00::7]:78");
    assert_int_equal(config->cluster_security, CONFIG_SECURITY_NONE);
    assert_string_equal(config->cluster_bundle, "/etc/larder/cluster.pem");
    assert_true(config->cluster_insecure);
    assert_int_equal(config->cluster_lease_s, 4);
    assert_int_equal(config->cluster_spread, CONFIG_SPREAD_NEVER);
}

static void assert_everything(const struct config *config)
{
    assert_string_equal(config->socket_path, "/tmp/larder test/l.sock");
    assert_int_equal(config->samples_bytes, 7 * GIB / 4);
    assert_int_equal(config->arena_bytes, 3 * GIB / 2);
    assert_int_equal(config->encoded_bytes, 100000000);
    assert_int_equal(config->scratch_bytes, 70 * CONFIG_MIB);
    assert_int_equal(config->decoded, CONFIG_DECODED_NEVER);
    assert_int_equal(config->workers, 3);
    assert_int_equal(config->n_roots, 2);
    assert_string_equal(config->roots[1].path, "/more data");
    assert_int_equal(config->n_storage, 2);
    assert_string_equal(config->storage[0].path, "/nvme/my class");
    assert_int_equal(config->storage[0].size_bytes, 800 * GIB);
    assert_int_equal(config->storage[0].threads, 9);
    assert_int_equal(config->storage[0].form, CONFIG_FORM_PLANES);
    assert_int_equal(config->storage[1].form, CONFIG_FORM_AS_READ);
    assert_string_equal(config->storage[1].path, "/ssd");
    assert_int_equal(config->storage[1].size_bytes, UINT64_C(2500000000000));
    assert_int_equal(config->storage[1].threads, CONFIG_STORAGE_THREADS);
    assert_int_equal(config->loaders, 2);
    assert_int_equal(config->load_delay_ms, 7);
    assert_string_equal(config->memory_root, "/tmp/m");
    assert_int_equal(config->linger_s, 9);
    assert_int_equal(config->redirect_width, 4);
    assert_int_equal(config->jobs_max, 5);
    assert_int_equal(config->pixels_max, 1000);
    assert_int_equal(config->scans_max, 7);
    assert_int_equal(config->idle_exit_s, 60);
    assert_int_equal(config->rank_timeout_s, 45);
    assert_int_equal(config->source_wait_s, 7);
    assert_int_equal(config->columns_bytes, 2 << 20);
    assert_int_equal(config->catalogs_bytes, 3 << 20);
    assert_true(config->bad_max.share == 0.025 && config->bad_max.count == 0);
    assert_int_equal(config->log_level, LOG_DEBUG);
    assert_false(config->metrics_enabled);
    assert_string_equal(config->metrics_address, "::1");
    assert_int_equal(config->metrics_port, 0);
    assert_string_equal(config->metrics_socket, "/tmp/m.sock");
    assert_false(config->control_enabled);
    assert_string_equal(config->checkpoint_dir, "/var/tmp/c");
    assert_true(config->job_quota_share == 0.125);
    assert_cluster(config);
    assert_int_equal(config->n_datasets, 2);
    const struct config_dataset *cats = config_dataset_find(config, "cats-1");
    assert_non_null(cats);
    assert_string_equal(cats->path, "/data/cats");
    assert_string_equal(cats->pipeline,
                        "[{\"random_resized_crop\":{\"size\":224,\"scale\":[0.25,1],\"mode\":\"1\"}},"
                        "\"random_horizontal_flip\","
                        "{\"normalize\":{\"mean\":0.10000000000000001,\"exact\":true,\"nothing\":null}}]");
    assert_int_equal(cats->n_pipeline_at, 3);
    assert_string_equal(config_dataset_find(config, "dogs")->path, "/data/my dogs");
    assert_null(cats->subset);
    assert_null(config_dataset_find(config, "dogs")->pipeline);
    assert_string_equal(config_dataset_find(config, "dogs")->subset,
                        "{\"difference\":[{\"classes\":[\"n015*\",\"7\"]},{\"fraction\":0.5,\"seed\":3}]}");
    assert_null(config_dataset_find(config, "birds"));
}

/* A file that sets everything sets everything, remembers where, and turns pipelines into JSON. */
static void test_everything(void **state)
{
    (void)state;
    struct config *config = parse(everything);
    assert_everything(config);
    for (size_t i = 0; i < CONFIG_SETTINGS; i++)
        assert_int_equal(config->source[i], CONFIG_FROM_FILE);
    assert_int_equal(config->mark[SETTING_arena_bytes].line, 6);
    assert_int_equal(config->mark[SETTING_arena_bytes].column, 10);
    assert_int_equal(config->datasets[0].pipeline_at[1].line, 58);
    assert_int_equal(config->datasets[0].pipeline_at[1].column, 9);
    config_destroy(config);
}

static char *dumped(const char *file)
{
    struct config *config = parse(file);
    char *text = dump(config);
    config_destroy(config);
    return text;
}

/* What config_dump writes, read back, gives the same settings. */
static void test_dump_round_trip(void **state)
{
    (void)state;
    char *text = dumped(everything);
    assert_non_null(strstr(text, "  arena: 1610612736B  # file line 6, 1.5 GiB\n"));
    struct config *config = parse(text);
    assert_everything(config);
    config_destroy(config);
    free(text);
}

/* Where arena and encoded bytes have taken all memory, scratch becomes the least possible; that can be read again. */
static void test_dump_of_least_scratch(void **state)
{
    (void)state;
    char *text = dumped("memory:\n  arena: 90%\n");
    struct config *config = parse(text);
    assert_true(config->samples_bytes > 16 * GIB - CONFIG_SCRATCH_MIN);
    assert_int_equal(config->scratch_bytes, CONFIG_SCRATCH_MIN);
    config_destroy(config);
    free(text);
}

/* Where a default's share of the memory is less than the setting's minimum, it is the minimum, whether the machine has
 * so little or others leave so little. */
static void test_least_of_little_memory(void **state)
{
    (void)state;
    static const struct config_machine little[] = {
        {64 * CONFIG_MIB, 64 * CONFIG_MIB, 2}, {16 * GIB, 70 * CONFIG_MIB, 2}, {16 * GIB, 1 * CONFIG_MIB, 2}};
    for (size_t i = 0; i < sizeof little / sizeof *little; i++) {
        struct config *config = NULL;
        struct error err = {0};
        if (config_parse("f.yaml", NULL, 0, &little[i], &config, &err) != 0)
            fail_msg("refused: %s", err.text);
        assert_int_equal(config->scratch_bytes, CONFIG_SCRATCH_MIN);
        assert_true(config->arena_bytes >= CONFIG_MIB && config_sure_bytes(config) >= CONFIG_MIB);
        config_destroy(config);
    }
}

/* A fiber's width is half a chunk unless the file says otherwise, in slots or with a word, and
 * config_dump says the same. */
static void test_widths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *dumped;
        uint64_t width;
    } widths[] = {{"", "  width: half", CONFIG_WIDTH_HALF},
                  {"redirect: {width: half}\n", "  width: half", CONFIG_WIDTH_HALF},
                  {"redirect: {width: off}\n", "  width: 0", 0},
                  {"redirect: {width: 0}\n", "  width: 0", 0},
                  {"redirect: {width: 4096}\n", "  width: 4096", 4096}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char *text = NULL;
        size_t len = 0;
        struct config *config = parse(widths[i].text);
        FILE *out = open_memstream(&text, &len);
        config_dump(config, out);
        fclose(out);
        assert_true(config->redirect_width == widths[i].width);
        assert_non_null(strstr(text, widths[i].dumped));
        config_destroy(config);
        free(text);
    }
}

/* Files with nothing in them, and sections with everything commented out, are the defaults. */
static void test_empty_files(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "# nothing\n", "---\n", "--- ~\n...\n", "memory:\n#  arena: 1GiB\nstorage:\ndatasets:\n", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct config *config = parse(texts[i]);
        assert_int_equal(config->arena_bytes, 4 * GIB);
        config_destroy(config);
    }
}

/* Files are read whole, and ones that are missing, too large or folders are refused with their name. */
static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/larder-config-XXXXXX", expected[256];
    struct config *config = NULL;
    struct error err;
    assert_int_equal(config_load("/nowhere/larder.yaml", &config, &err), LARDER_ENOENT);
    assert_string_equal(err.text, "/nowhere/larder.yaml: cannot open the configuration: No such file or directory");
    assert_int_equal(config_load("/tmp", &config, &err), LARDER_EIO);
    assert_string_equal(err.text, "/tmp: cannot read the configuration: Is a directory");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "log: {level: warn}\n", 19), 19);
    assert_int_equal(config_load(path, &config, &err), 0);
    assert_int_equal(config->log_level, LOG_WARN);
    config_destroy(config);
    config = NULL;
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX_BYTES + 1), 0);
    assert_int_equal(config_load(path, &config, &err), LARDER_ELIMIT);
    snprintf(expected, sizeof expected, "%s: larger than 1 MiB: this is not a configuration of larderd", path);
    assert_string_equal(err.text, expected);
    assert_null(config);
    close(fd);
    unlink(path);
}

/* The command line's way in reads values as a file does, and leaves everything as it was when it refuses. */
static void test_set(void **state)
{
    (void)state;
    struct config *config = parse(NULL);
    struct error err;
    assert_int_equal(config_set_on(config, &machine, "limits.idle_exit", "30", &err), 0);
    assert_int_equal(config->idle_exit_s, 30);
    assert_int_equal(config->source[SETTING_idle_exit_s], CONFIG_FROM_COMMAND_LINE);
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/x.sock", &err), 0);
    assert_string_equal(config->socket_path, "/tmp/x.sock");
    assert_int_equal(config_set_on(config, &machine, "socket.path", "x.sock", &err), LARDER_EINVAL);
    assert_string_equal(err.text, "socket.path: 'x.sock' is not an absolute path: write an absolute path or auto");
    assert_string_equal(config->socket_path, "/tmp/x.sock");
    assert_int_equal(config_set_on(config, &machine, "memory.encoded", "100%", &err), LARDER_EINVAL);
    assert_int_equal(config_sure_bytes(config), 16 * GIB / 10);
    assert_int_equal(config_set_on(config, &machine, "memory.aren", "1GiB", &err), LARDER_EINVAL);
    assert_string_equal(err.text, "memory.aren: no such setting: `larder check --example` lists them all");
    assert_int_equal(config_set_on(config, &machine, "catalog.checkpoint", "none", &err), 0);
    assert_string_equal(config->checkpoint_dir, "");
    config_destroy(config);
}

/* configs/larder.yaml is what the table says: every setting with its default and its help; and it means the defaults.
 */
static void test_example_file(void **state)
{
    (void)state;
    char *expected = NULL, *text;
    size_t len = 0;
    FILE *out = open_memstream(&expected, &len);
    config_example(out);
    fclose(out);
    FILE *file = fopen(LARDER_SOURCE_DIR "/configs/larder.yaml", "r");
    if (!file)
        fail_msg("configs/larder.yaml is missing");
    text = calloc(1, CONFIG_FILE_MAX_BYTES);
    assert_true(fread(text, 1, CONFIG_FILE_MAX_BYTES - 1, file) > 0);
    fclose(file);
    if (strcmp(text, expected) != 0)
        fail_msg("configs/larder.yaml is stale: larderd check --example > configs/larder.yaml");
    struct config *given = parse(text), *defaults = parse(NULL);
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        assert_int_equal(given->source[i], CONFIG_FROM_FILE);
        given->source[i] = CONFIG_FROM_DEFAULT;
    }
    char *a = NULL, *b = NULL;
    out = open_memstream(&a, &len);
    config_dump(given, out);
    fclose(out);
    out = open_memstream(&b, &len);
    config_dump(defaults, out);
    fclose(out);
    assert_string_equal(a, b);
    config_destroy(given);
    config_destroy(defaults);
    free(a);
    free(b);
    free(text);
    free(expected);
}

/* The minimal example is a file that works. */
static void test_minimal_file(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct error err;
    if (config_load(LARDER_SOURCE_DIR "/configs/larder-minimal.yaml", &config, &err) != 0)
        fail_msg("%s", err.text);
    config_destroy(config);
}

/* The folder that systemd made for the daemon holds its checkpoints, before the user's own; what it made for a service
 * that only started the daemon does not. */
static void test_service_cache(void **state)
{
    (void)state;
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("CACHE_DIRECTORY", "/var/cache/larder:/var/cache/more", 1);
    struct config *config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/var/cache/larder");
    config_destroy(config);
    setenv("SYSTEMD_EXEC_PID", pid, 1);
    config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/var/cache/larder");
    config_destroy(config);
    setenv("SYSTEMD_EXEC_PID", "1", 1);
    config = parse(NULL);
    assert_string_equal(config->checkpoint_dir, "/home/x/.cache-there/larder");
    config_destroy(config);
    unsetenv("SYSTEMD_EXEC_PID");
    config = parse("catalog: {checkpoint: /var/tmp/c}\n");
    assert_string_equal(config->checkpoint_dir, "/var/tmp/c");
    config_destroy(config);
    unsetenv("CACHE_DIRECTORY");
}

/* A metrics socket that is left to Larder goes with the session's socket, wherever that is set. */
static void test_metrics_socket(void **state)
{
    (void)state;
    struct error err;
    struct config *config = parse("socket: {path: /tmp/a.sock}\nmetrics: {socket: auto}\n");
    assert_string_equal(config->metrics_socket, "/tmp/a.sock.metrics");
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/b.sock", &err), 0);
    assert_string_equal(config->metrics_socket, "/tmp/b.sock.metrics");
    assert_int_equal(config_set_on(config, &machine, "metrics.socket", "/tmp/m.sock", &err), 0);
    assert_int_equal(config_set_on(config, &machine, "socket.path", "/tmp/c.sock", &err), 0);
    assert_string_equal(config->metrics_socket, "/tmp/m.sock");
    assert_int_equal(config_set_on(config, &machine, "metrics.socket", "none", &err), 0);
    assert_string_equal(config->metrics_socket, "");
    config_destroy(config);
}

static const char *placed(const struct config *config, const char *text, char buf[ERROR_TEXT_MAX])
{
    config_tell_places(config, text, buf, ERROR_TEXT_MAX);
    return buf;
}

/* A text that names settings is followed by where they stand: in a line of the file, nowhere in it, on the command
 * line, or that there is no file. One that names none, or only a word that begins as a setting does, is left alone. */
static void test_places(void **state)
{
    (void)state;
    char text[ERROR_TEXT_MAX], longest[ERROR_TEXT_MAX];
    struct error err;
    struct config *config = parse("limits:\n  jobs: 3\nmemory: {arena: 1GiB}\n");
    assert_string_equal(placed(NULL, "raise limits.jobs", text), "raise limits.jobs");
    assert_string_equal(placed(config, "raise limits.jobs", text),
                        "raise limits.jobs (limits.jobs: larderd was started without a settings file, give it one with "
                        "--config)");
    config->settings_file = strdup("/etc/f.yaml");
    assert_string_equal(placed(config, "limits.jobs: raise limits.jobs", text),
                        "limits.jobs: raise limits.jobs (limits.jobs: in /etc/f.yaml:2)");
    assert_string_equal(placed(config, "raise jobs.quota or memory.arena.", text),
                        "raise jobs.quota or memory.arena. (jobs.quota: in /etc/f.yaml (not set there, default 50%); "
                        "memory.arena: in /etc/f.yaml:3)");
    assert_string_equal(placed(config, "/d/limits.jobs.jpg and limits.jobs_more", text),
                        "/d/limits.jobs.jpg and limits.jobs_more");
    assert_int_equal(config_set(config, "limits.jobs", "4", &err), 0);
    assert_string_equal(placed(config, "limits.jobs", text), "limits.jobs (limits.jobs: on larderd's command line)");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "memory.arena ", 13);
    placed(config, longest, text);
    assert_int_equal(strlen(text), ERROR_TEXT_MAX - 1);
    assert_non_null(strstr(text, "xxx... (memory.arena: in /etc/f.yaml:3)"));
    config_destroy(config);
}

int main(void)
{
    set_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_memory_for_samples),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_busy_machine),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_dump_round_trip),
        cmocka_unit_test(test_dump_of_least_scratch),
        cmocka_unit_test(test_least_of_little_memory),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_example_file),
        cmocka_unit_test(test_minimal_file),
        cmocka_unit_test(test_service_cache),
        cmocka_unit_test(test_metrics_socket),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
