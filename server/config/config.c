#include "server/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"
#include "common/socket_path.h"
#include "server/config/config_priv.h"

/* ── defaults and checks across settings ───────────────────────────────────────────────────────────────────────── */

/* set_least: a share of little memory may be less than the least that is possible. */
static int set_least(struct config *config, const struct config_row *row, const struct config_machine *machine,
                     struct error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%lluB", (unsigned long long)row->min);
    return config_value_set(config, row, (struct config_scalar){.text = text}, machine, err);
}

/* arena_part returns how much of the memory for samples the arena may have by default. */
static uint64_t arena_part(uint64_t samples_bytes)
{
    return samples_bytes - samples_bytes * 2 / 7;
}

/* set_defaults reads the table's defaults. A default share of the memory is also at most twice that share of the free
 * memory: a machine that others already use must not begin to swap because of a daemon that nobody has configured. */
static int set_defaults(struct config *config, const struct config_machine *machine, struct error *err)
{
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const struct config_row *row = &config_rows[i];
        struct config_machine on = *machine;
        if (row->kind == CONFIG_BYTES && on.memory_bytes > 2 * on.available_bytes)
            on.memory_bytes = 2 * on.available_bytes;
        bool empty = strcmp(row->initial, "\"\"") == 0;
        struct config_scalar initial = {.text = empty ? "" : row->initial, .quoted = empty};
        int rc = config_value_set(config, row, initial, &on, err);
        if (rc && row->kind == CONFIG_BYTES)
            rc = set_least(config, row, machine, err);
        if (rc)
            return error_prefix(err, rc, "%s (its default; give a size in a configuration file)", row->key_path);
    }
    config->encoded_alone = config->samples_bytes - arena_part(config->samples_bytes);
    if (config->encoded_alone < CONFIG_MIB)
        config->encoded_alone = CONFIG_MIB;
    return 0;
}

static int find_socket(struct config *config, struct error *err)
{
    char path[SOCKET_PATH_MAX], control[SOCKET_PATH_MAX];
    int rc = 0;
    if (!config->socket_path) {
        rc = socket_path_default(path, sizeof path, err);
        if (rc)
            return rc;
        config->socket_path = xstrdup(path);
    }
    rc = socket_path_control(config->socket_path, control, sizeof control, err);
    return rc ? error_prefix(err, rc, "the control socket") : 0;
}

static void find_metrics_socket(struct config *config)
{
    char path[SOCKET_PATH_MAX];
    config->metrics_socket_auto |= !config->metrics_socket;
    if (!config->metrics_socket_auto)
        return;
    free(config->metrics_socket);
    /* ".metrics" is as long as ".control", which fits */
    snprintf(path, sizeof path, "%s.metrics", config->socket_path);
    config->metrics_socket = xstrdup(path);
}

/* cache_of_service returns the folder that systemd made for this process (CacheDirectory=). A program that a service
 * starts inherits the variable, but then the folder belongs to that service. */
static bool cache_of_service(char *out, size_t size)
{
    const char *folder = getenv("CACHE_DIRECTORY"), *pid = getenv("SYSTEMD_EXEC_PID");
    if (!folder || *folder != '/' || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return false;
    size_t len = strcspn(folder, ":"); /* the first folder of several */
    if (len >= size)
        return false;
    memcpy(out, folder, len);
    out[len] = '\0';
    return true;
}

static void find_checkpoint_dir(struct config *config)
{
    char path[4096] = "";
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (config->checkpoint_dir)
        return;
    bool found = cache_of_service(path, sizeof path);
    if (!found && cache && *cache == '/')
        snprintf(path, sizeof path, "%s/larder", cache);
    else if (!found && geteuid() == 0)
        snprintf(path, sizeof path, "/var/cache/larder");
    else if (!found && home && *home == '/')
        snprintf(path, sizeof path, "%s/.cache/larder", home);
    config->checkpoint_dir = xstrdup(path);
}

/* The default of memory.scratch gives way to the sizes that were asked for. All sizes that were asked for must fit. The
 * least scratch always does, for a configuration that is written out says what its default became. */
static int fit_scratch(struct config *config, const struct config_machine *machine, struct error *err)
{
    char scratch[32], memory[32];
    uint64_t room = machine->memory_bytes - config->samples_bytes;
    if (room < CONFIG_SCRATCH_MIN)
        room = CONFIG_SCRATCH_MIN;
    if (config->scratch_bytes <= room)
        return 0;
    if (config->source[SETTING_scratch_bytes] == CONFIG_FROM_DEFAULT) {
        config->scratch_bytes = room;
        return 0;
    }
    config_bytes_print(config->scratch_bytes, scratch, sizeof scratch);
    config_bytes_print(machine->memory_bytes, memory, sizeof memory);
    return config_fail_setting(config, SETTING_scratch_bytes, err, LARDER_EINVAL,
                               "memory.scratch (%s) and memory.samples (memory.arena and memory.encoded) together are "
                               "more than the %s of memory this machine (or cgroup) has: make one smaller",
                               scratch, memory);
}

static bool is_own(const struct config *config, enum config_setting setting)
{
    return config->source[setting] != CONFIG_FROM_DEFAULT;
}

uint64_t config_sure_bytes(const struct config *config)
{
    uint64_t left = config->samples_bytes - config->arena_bytes;
    return config->encoded_bytes < left ? config->encoded_bytes : left;
}

uint64_t config_lent_bytes(const struct config *config)
{
    uint64_t most = config->encoded_bytes < config->samples_bytes ? config->encoded_bytes : config->samples_bytes;
    return most - config_sure_bytes(config);
}

/* share_memory works out the three sizes of memory for samples from those of them that were asked for, and checks them
 * against each other. */
static int share_memory(struct config *config, const struct config_machine *machine, struct error *err)
{
    char arena[32], encoded[32], samples[32], memory[32];
    bool arena_own = is_own(config, SETTING_arena_bytes), encoded_own = is_own(config, SETTING_encoded_bytes);
    bool samples_own = is_own(config, SETTING_samples_bytes);
    uint64_t beside = encoded_own ? config->encoded_bytes : config->encoded_alone;
    if (samples_own && !arena_own)
        config->arena_bytes = arena_part(config->samples_bytes);
    if (!samples_own)
        config->samples_bytes = config->arena_bytes + beside;
    if (!encoded_own)
        config->encoded_bytes = config->samples_bytes;
    config_bytes_print(config->arena_bytes, arena, sizeof arena);
    config_bytes_print(beside, encoded, sizeof encoded);
    config_bytes_print(config->samples_bytes, samples, sizeof samples);
    config_bytes_print(machine->memory_bytes, memory, sizeof memory);
    if (config->samples_bytes > machine->memory_bytes)
        return config_fail_setting(config, arena_own ? SETTING_arena_bytes : SETTING_encoded_bytes, err, LARDER_EINVAL,
                                   "memory.arena (%s) and memory.encoded (%s) together are more than the %s of memory "
                                   "this machine (or cgroup) has: make one smaller",
                                   arena, encoded, memory);
    if (config->samples_bytes < config->arena_bytes + CONFIG_MIB)
        return config_fail_setting(config, SETTING_arena_bytes, err, LARDER_EINVAL,
                                   "memory.arena (%s) leaves less than 1 MiB of memory.samples (%s) for samples as "
                                   "they lie on disk: make it smaller, or memory.samples larger",
                                   arena, samples);
    return 0;
}

/* finish fills in what `auto` and 0 stand for, and checks settings against each other. A second run changes nothing. */
static int finish(struct config *config, const struct config_machine *machine, struct error *err)
{
    int rc = share_memory(config, machine, err);
    rc = rc ? rc : fit_scratch(config, machine, err);
    if (rc)
        return rc;
    if (config->workers == 0)
        config->workers = machine->cores;
    find_checkpoint_dir(config);
    if (!config->memory_root) /* auto is none */
        config->memory_root = xstrdup("");
    rc = find_socket(config, err);
    if (rc == 0)
        find_metrics_socket(config);
    return rc ? rc : config_cluster_finish(config, err);
}

/* ── loading ───────────────────────────────────────────────────────────────────────────────────────────────────── */

int config_parse(const char *file, const char *text, size_t len_bytes, const struct config_machine *machine,
                 struct config **out, struct error *err)
{
    struct config *config = xcalloc(1, sizeof *config);
    struct doc doc = {0};
    int rc = set_defaults(config, machine, err);
    if (rc == 0 && text) {
        config->file = xstrdup(file);
        rc = doc_parse(file, text, len_bytes, &doc, err);
        if (rc == 0)
            rc = config_apply(config, doc.root, machine, err);
        doc_clear(&doc);
    }
    if (rc == 0)
        rc = finish(config, machine, err);
    if (rc) {
        config_destroy(config);
        return rc;
    }
    *out = config;
    return 0;
}

static int fail_errno(const char *path, const char *doing, struct error *err)
{
    int code = errno == ENOENT || errno == ENOTDIR ? LARDER_ENOENT
               : errno == EACCES || errno == EPERM ? LARDER_EPERM
                                                   : LARDER_EIO;
    return error_set(err, code, "%s: cannot %s the configuration: %s", path, doing, strerror(errno));
}

/* read_file returns the file's bytes, malloc'ed; at most CONFIG_FILE_MAX_BYTES. */
static int read_file(const char *path, char **out, size_t *len_bytes, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_errno(path, "open", err);
    char *text = xmalloc(CONFIG_FILE_MAX_BYTES + 1);
    size_t len = 0;
    ssize_t got = 1;
    while (got > 0 && len <= CONFIG_FILE_MAX_BYTES) {
        got = read(fd, text + len, CONFIG_FILE_MAX_BYTES + 1 - len);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            len += (size_t)got;
    }
    int rc = 0;
    if (got < 0)
        rc = fail_errno(path, "read", err);
    else if (len > CONFIG_FILE_MAX_BYTES)
        rc = error_set(err, LARDER_ELIMIT, "%s: larger than 1 MiB: this is not a configuration of larderd", path);
    close(fd);
    if (rc) {
        free(text);
        return rc;
    }
    *out = text;
    *len_bytes = len;
    return 0;
}

int config_load(const char *path, struct config **out, struct error *err)
{
    struct config_machine machine;
    char *text = NULL;
    size_t len = 0;
    config_machine_read("", &machine);
    int rc = path ? read_file(path, &text, &len, err) : 0;
    if (rc)
        return rc;
    rc = config_parse(path, text, len, &machine, out, err);
    free(text);
    return rc;
}

static bool is_text(const struct config_row *row)
{
    return row->kind == CONFIG_PATH || row->kind == CONFIG_ADDRESS || row->kind == CONFIG_TEXT;
}

/* own_texts gives a copied configuration its own texts. The datasets stay shared. */
static void own_texts(struct config *config)
{
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        void *field = (char *)config + config_rows[i].offset;
        if (is_text(&config_rows[i]))
            *(char **)field = xstrdup(*(char **)field);
        else if (config_rows[i].kind == CONFIG_LIST)
            *(struct config_text **)field = config_list_copy(*(struct config_text **)field);
    }
}

static void free_texts(struct config *config)
{
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        void *field = (char *)config + config_rows[i].offset;
        if (is_text(&config_rows[i]))
            free(*(char **)field);
        else if (config_rows[i].kind == CONFIG_LIST)
            config_list_free(*(struct config_text **)field);
    }
}

void config_destroy(struct config *config)
{
    if (!config)
        return;
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        free(config->datasets[i].name);
        free(config->datasets[i].path);
        free(config->datasets[i].pipeline);
        free(config->datasets[i].pipeline_at);
        free(config->datasets[i].subset);
    }
    free(config->datasets);
    config_storage_free(config);
    config_roots_free(config);
    free(config->file);
    free(config->settings_file);
    free_texts(config);
    free(config);
}

int config_set_on(struct config *config, const struct config_machine *machine, const char *key, const char *text,
                  struct error *err)
{
    size_t index = 0;
    while (index < CONFIG_SETTINGS && strcmp(config_rows[index].key_path, key) != 0)
        index++;
    if (index == CONFIG_SETTINGS)
        return error_set(err, LARDER_EINVAL, "%s: no such setting: `larder check --example` lists them all",
                         config_shown(key));
    struct config trial =
        *config; /* changed and checked first, so that a change that does not fit the other settings does not stay */
    own_texts(&trial);
    int rc = config_value_set(&trial, &config_rows[index], (struct config_scalar){.text = text}, machine, err);
    if (rc)
        rc = error_prefix(err, rc, "%s", key);
    trial.source[index] = CONFIG_FROM_COMMAND_LINE;
    if (index == SETTING_metrics_socket)
        trial.metrics_socket_auto = false;
    if (index == SETTING_cluster_advertise)
        trial.cluster_advertise_auto = false;
    if (rc == 0)
        rc = finish(&trial, machine, err);
    struct config old = *config;
    if (rc == 0)
        *config = trial;
    free_texts(rc ? &trial : &old);
    return rc;
}

int config_set(struct config *config, const char *key, const char *text, struct error *err)
{
    struct config_machine machine;
    config_machine_read("", &machine);
    return config_set_on(config, &machine, key, text, err);
}

uint64_t config_behind_bytes(uint64_t encoded_bytes)
{
    const uint64_t least = 4 * CONFIG_MIB, most = 64 * CONFIG_MIB;
    uint64_t half = encoded_bytes / 2;
    return half < least ? least : half > most ? most : half;
}

const struct config_dataset *config_dataset_find(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->n_datasets; i++) {
        if (strcmp(config->datasets[i].name, name) == 0)
            return &config->datasets[i];
    }
    return NULL;
}
