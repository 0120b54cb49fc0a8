/* config.h: larderd's settings: defaults, a YAML file over them, the command line over that.
 *
 * table.h declares each setting once, with type, default, unit, bounds and help; a field of struct config is
 * named there. A file is read strictly: what it says and Larder does not know, or would have to guess, is refused with
 * `file:line:column: key: what and what to do`. Used by one thread; a struct config does not change after it was
 * loaded, apart from config_set. */
#ifndef LARDER_SERVER_CONFIG_CONFIG_H
#define LARDER_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "common/types.h"

#define CONFIG_FILE_MAX_BYTES (1u << 20)
#define CONFIG_DATASETS_MAX 1024u
#define CONFIG_THREADS_MAX 1024 /* the most workers, and the most loaders */
#define CONFIG_WIDTH_MAX 4096   /* the largest redirect.width: the slots of the largest chunk */
#define CONFIG_MIB (UINT64_C(1) << 20)
#define CONFIG_MEMORY_MAX (UINT64_C(1) << 46)
#define CONFIG_SCRATCH_MIN (16 * CONFIG_MIB)
/* A unix socket's path has 107 bytes, and the control socket's name is 8 bytes longer. */
#define CONFIG_SOCKET_PATH_MAX 99
#define CONFIG_WIDTH_HALF UINT64_MAX
#define CONFIG_STORAGE_CLASSES_MAX 8u
#define CONFIG_STORAGE_PATH_MAX 3000 /* names of files are put behind it */
#define CONFIG_ROOTS_MAX 64u
#define CONFIG_ROOT_PATH_MAX 4095
#define CONFIG_NAME_MAX 64       /* bytes of a cluster's or a node's name */
#define CONFIG_HOST_PORT_MAX 261 /* bytes of a host's name, a colon and a port */
#define CONFIG_CLUSTER_ETCD_MAX 16
#define CONFIG_CLUSTER_NODES_MAX 64
#define CONFIG_LIST_TEXT_MAX 512 /* bytes of a text in a list */
#define CONFIG_STORAGE_MIN CONFIG_MIB
#define CONFIG_STORAGE_MAX (UINT64_C(1) << 50)
#define CONFIG_STORAGE_THREADS 4
#define CONFIG_STORAGE_THREADS_MAX 64

enum config_setting {
#define SETTING(kind, field, ...) SETTING_##field,
#include "server/config/table.h"
#undef SETTING
    CONFIG_SETTINGS
};

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_COMMAND_LINE };

/* A place in the file. Both numbers count from 1. 0: it is not from a file. */
struct config_mark {
    uint32_t line, column;
};

/* The choices of cluster.discovery and cluster.security, in the order of table.h. */
enum config_discovery {
    CONFIG_DISCOVERY_STATIC,
    CONFIG_DISCOVERY_SLURM,
    CONFIG_DISCOVERY_DNS,
    CONFIG_DISCOVERY_ETCD,
};
enum config_security { CONFIG_SECURITY_BUNDLE, CONFIG_SECURITY_NONE };
enum config_form { CONFIG_FORM_AS_READ, CONFIG_FORM_PLANES }; /* of a storage class */
enum config_decoded { CONFIG_DECODED_AUTO, CONFIG_DECODED_NEVER };
enum config_spread { CONFIG_SPREAD_AUTO, CONFIG_SPREAD_ALWAYS, CONFIG_SPREAD_NEVER };

/* A text in a list. The list ends with a text that is NULL. */
struct config_text {
    char *text;
    struct config_mark at;
};

/* A dataset that clients may name instead of giving its folder. */
struct config_dataset {
    char *name;
    char *path;
    char *pipeline;                  /* JSON, as pipeline_parse reads it; NULL: none given */
    struct config_mark *pipeline_at; /* places of the operators, and last that of the list itself */
    uint32_t n_pipeline_at;
    char *subset; /* JSON of the part that jobs get, which view_parse has parsed once; NULL: jobs get all of it */
    struct config_mark at;
};

/* A storage class (cache/tier/tier.h). */
struct config_storage {
    char *path;
    uint64_t size_bytes;
    uint64_t threads; /* reads that it may have at once */
    int form;         /* enum config_form */
    struct config_mark at;
};

/* A folder below which datasets may lie. */
struct config_root {
    char *path;
    struct config_mark at;
};

/* How many samples may be bad: the greater of count and share. automatic: the two CONFIG_BAD_AUTO_… hold. */
struct config_bad {
    bool automatic;
    uint64_t count;
    double share;
};
#define CONFIG_BAD_AUTO_COUNT 100
#define CONFIG_BAD_AUTO_SHARE 0.01

#define CONFIG_C_BOOL bool
#define CONFIG_C_COUNT uint64_t
#define CONFIG_C_WIDTH uint64_t
#define CONFIG_C_BYTES uint64_t
#define CONFIG_C_SHARE double
#define CONFIG_C_BAD struct config_bad
#define CONFIG_C_CHOICE int
#define CONFIG_C_PATH char *
#define CONFIG_C_ADDRESS char *
#define CONFIG_C_TEXT char *
#define CONFIG_C_LIST struct config_text *

struct config {
#define SETTING(kind, field, ...) CONFIG_C_##kind field;
#include "server/config/table.h"
#undef SETTING
    /* After loading no path is NULL. checkpoint_dir, metrics_socket and cluster_bundle are empty for `none`. workers is
     * the number of cores for 0. */
    bool metrics_socket_auto; /* metrics_socket follows socket_path */
    uint64_t encoded_alone;   /* what encoded samples have beside an arena whose size was asked for */
    /* In a cluster neither cluster_node nor cluster_advertise is empty. Alone (cluster_name is empty) the cluster's
     * settings mean nothing. A list without texts is NULL. */
    bool cluster_advertise_auto; /* cluster_advertise follows cluster_listen */
    uint32_t n_cluster_etcd, n_cluster_nodes;

    struct config_dataset *datasets; /* in the file's order */
    uint32_t n_datasets;
    struct config_storage *storage; /* the fastest first */
    uint32_t n_storage;
    struct config_root *roots; /* in the file's order; none: datasets may lie anywhere */
    uint32_t n_roots;
    char *file;          /* NULL: no file was read */
    char *settings_file; /* the file to change a setting in; it may not be there yet. NULL: there is none */
    enum config_source source[CONFIG_SETTINGS];
    struct config_mark mark[CONFIG_SETTINGS];
};

/* What a machine has, as far as settings depend on it. */
struct config_machine {
    uint64_t memory_bytes;    /* physical memory or the cgroup's limit, whichever is less */
    uint64_t available_bytes; /* the part of it that is free at the moment */
    uint32_t cores;           /* cores that this process may run on */
};

/* config_machine_read looks below root for /proc/meminfo and the cgroup files; outside of tests root is "". It cannot
 * fail: a file that is missing sets no limit, and without /proc/meminfo sysconf tells how much memory there is. */
void config_machine_read(const char *root, struct config_machine *out);

/* config_load returns the settings of a file over the defaults. path NULL: the defaults alone. It reads the machine's
 * memory and the environment (LARDER_SOCKET, XDG_RUNTIME_DIR, CACHE_DIRECTORY, XDG_CACHE_HOME, HOME). The caller
 * destroys the configuration. LARDER_EINVAL and LARDER_EFORMAT (the file's text is wrong), LARDER_ENOENT, LARDER_EPERM,
 * LARDER_EIO, LARDER_ELIMIT (the file is too large), LARDER_ENOMEM. */
int config_load(const char *path, struct config **out, struct error *err);
void config_destroy(struct config *config); /* accepts NULL */

/* config_set changes one setting by its full key ("memory.arena", "2GiB"), as the command line does. It reads the text
 * as in a file. If it fails, nothing has changed. */
int config_set(struct config *config, const char *key, const char *text, struct error *err);

/* config_dataset_find returns the dataset of that name, which the configuration owns. NULL: there is none. */
const struct config_dataset *config_dataset_find(const struct config *config, const char *name);

/* config_encoded_read reads the size of encoded memory as memory.encoded of a file is read. */
int config_encoded_read(const char *text, const struct config_machine *machine, uint64_t *out, struct error *err);

/* config_roots_allow tells whether a dataset may lie at a path, which is resolved (no links). It resolves the roots. */
bool config_roots_allow(const struct config *config, const char *resolved);
/* config_roots_tell writes the roots, with commas, into buf, as far as there is room. */
void config_roots_tell(const struct config *config, char *buf, size_t cap);

/* config_sure_bytes returns what encoded samples have of memory.samples when the arena has all that it may;
 * config_lent_bytes how much of what the arena may have is theirs while it does not need it. */
uint64_t config_sure_bytes(const struct config *config);
uint64_t config_lent_bytes(const struct config *config);

/* config_behind_bytes returns how many bytes of samples may wait to be written to a storage class: half of what encoded
 * samples may take, from 4 to 64 MiB. So the chunks of two reads that end together find room. */
uint64_t config_behind_bytes(uint64_t encoded_bytes);

/* config_place says where a setting stands: "in FILE:LINE", "in FILE (not set there, default 25%)", or that there is no
 * file. Of an unknown key it writes "". */
void config_place(const struct config *config, const char *key, char *buf, size_t cap);
/* config_tell_places copies a text, and says behind it where the settings stand that it names by their full keys, two
 * at most. Of a text that is too long the end is cut off, and never the places. config NULL: nothing is said. cap is at
 * least ERROR_TEXT_MAX. */
void config_tell_places(const struct config *config, const char *text, char *buf, size_t cap);

/* config_check_pipelines parses every dataset's pipeline (preprocess/pipeline.h). The error has the operator's line. */
int config_check_pipelines(const struct config *config, struct error *err);

/* config_text_print writes a double-quoted YAML text. */
void config_text_print(const char *text, FILE *out);
/* config_dump writes the effective settings, each with its source, as YAML that config_load reads back to the same. */
void config_dump(const struct config *config, FILE *out);
/* config_example writes the fully commented default file: configs/larder.yaml. */
void config_example(FILE *out);

/* config_check_main is `larderd check …`; argv[0] is "check". It returns the exit status. 0: the configuration is
 * right. 1: it is wrong. 2: wrong usage. */
int config_check_main(int argc, char **argv);

#endif
