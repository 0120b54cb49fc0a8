/* config_priv.h: the parts of the configuration reader (this folder only).
 *
 *   file ── doc.c: libyaml events to nodes ── apply.c: nodes to settings ── value.c: text to value ── rows.c: the table
 *                                             storage.c: the storage classes; roots.c: the roots
 *                                             list.c: the memory of lists of texts
 *                                             config.c: defaults, and checks across settings
 *                                             cluster.c: the same of the section cluster
 *                                             write.c: settings to text; where.c: where they stand */
#ifndef LARDER_SERVER_CONFIG_CONFIG_PRIV_H
#define LARDER_SERVER_CONFIG_CONFIG_PRIV_H

#include "server/config/config.h"

/* ── values ────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum config_kind {
    CONFIG_BOOL,
    CONFIG_COUNT,
    CONFIG_WIDTH,
    CONFIG_BYTES,
    CONFIG_SIZE, /* a size with a unit, of no memory */
    CONFIG_SHARE,
    CONFIG_BAD,
    CONFIG_CHOICE,
    CONFIG_PATH,
    CONFIG_FOLDER, /* an absolute path */
    CONFIG_ADDRESS,
    CONFIG_TEXT,
    CONFIG_LIST, /* its field is a struct config_text * */
};

struct config_row {
    enum config_kind kind;
    size_t offset; /* offset of the field in struct config */
    const char *section, *key, *key_path, *initial, *unit, *help;
    uint64_t min, max;
};

extern const struct config_row config_rows[CONFIG_SETTINGS];

struct config_scalar {
    const char *text;
    bool quoted; /* the text is never taken for a number, a truth value or one of the words auto and none */
};

/* config_value_set reads a text as the row's kind and puts the value into config. err says what is wrong and what to
 * do, without the place and the key. If it fails, nothing has changed. A path becomes NULL for `auto`, empty for
 * `none`. */
int config_value_set(struct config *config, const struct config_row *row, struct config_scalar value,
                     const struct config_machine *machine, struct error *err);
/* config_value_read does the same for a field that lies elsewhere. */
int config_value_read(void *field, const struct config_row *row, struct config_scalar value,
                      const struct config_machine *machine, struct error *err);
/* config_value_print writes the effective value as a file would. */
void config_value_print(const struct config *config, const struct config_row *row, FILE *out);
/* config_bytes_print writes "1.5 GiB" and the like into buf. */
void config_bytes_print(uint64_t bytes, char *buf, size_t cap);

/* config_shown returns text without control characters, cut to a presentable length. The result lies in one of a few
 * static buffers of the thread, and is overwritten after a few calls. */
const char *config_shown(const char *text);

/* ── documents ─────────────────────────────────────────────────────────────────────────────────────────────────── */

#define DOC_DEPTH_MAX 16
#define DOC_NODES_MAX 65536u
#define DOC_CHILDREN_MAX 2048u /* entries of one mapping or sequence */

enum doc_kind { DOC_SCALAR, DOC_SEQUENCE, DOC_MAPPING };

struct doc_node {
    enum doc_kind kind;
    struct config_mark at;
    char *text; /* a scalar's text, without NUL bytes */
    bool quoted;
    struct doc_node **children; /* a mapping has key, value, key, value …; keys are scalars, and none comes twice */
    uint32_t n_children;
    size_t cap;
    struct doc_node *next; /* next in the document's list of all nodes */
};

struct doc {
    struct doc_node *root; /* NULL: the document is empty */
    struct doc_node *all;
    uint32_t n_nodes;
};

/* doc_parse reads one YAML document without anchors, aliases and tags. Messages show the file's name. doc_clear frees
 * the document. */
int doc_parse(const char *file, const char *text, size_t len_bytes, struct doc *doc, struct error *err);
void doc_clear(struct doc *doc);
/* doc_is_null tells whether a value was left out: nothing, ~ or null. */
bool doc_is_null(const struct doc_node *node);

/* config_fail writes "file:line:column: key: …" into err and returns code. key may be "". file NULL: no place is
 * given. */
__attribute__((format(printf, 6, 7))) int config_fail(struct error *err, int code, const char *file,
                                                      struct config_mark at, const char *key, const char *fmt, ...);

/* config_fail_setting does the same at a setting of the table, with its key and where the file gave it. */
__attribute__((format(printf, 5, 6))) int config_fail_setting(const struct config *config, enum config_setting setting,
                                                              struct error *err, int code, const char *fmt, ...);

/* ── putting it together ───────────────────────────────────────────────────────────────────────────────────────── */

/* config_apply puts the document's settings into config. */
int config_apply(struct config *config, const struct doc_node *root, const struct config_machine *machine,
                 struct error *err);
/* config_pipeline_json turns a sequence of operators into JSON and remembers where each stands. */
int config_pipeline_json(const char *file, const struct doc_node *node, const char *key, struct config_dataset *dataset,
                         struct error *err);
/* config_subset_json turns an expression of sampler/view.h into JSON, and refuses one that is not valid. */
int config_subset_json(const char *file, const struct doc_node *node, const char *key, struct config_dataset *dataset,
                       struct error *err);
/* config_storage_apply reads the list of storage classes; config_storage_print writes it, config_storage_free frees
 * it. */
int config_storage_apply(struct config *config, const struct doc_node *value, struct error *err);
void config_storage_print(const struct config *config, FILE *out);
void config_storage_free(struct config *config);
/* The same for the list of roots. */
int config_roots_apply(struct config *config, const struct doc_node *value, struct error *err);
void config_roots_print(const struct config *config, FILE *out);
void config_roots_free(struct config *config);
/* config_list_count returns the number of texts. The copy owns its texts. All accept NULL, a list without texts. */
uint32_t config_list_count(const struct config_text *list);
struct config_text *config_list_copy(const struct config_text *list);
void config_list_free(struct config_text *list);
/* config_cluster_finish fills in the node's name and address, and checks the settings of cluster against each other. A
 * second run changes nothing. */
int config_cluster_finish(struct config *config, struct error *err);
/* config_parse is config_load for a text and a given machine, for tests and the fuzzer. text NULL: the defaults alone.
 */
int config_parse(const char *file, const char *text, size_t len_bytes, const struct config_machine *machine,
                 struct config **out, struct error *err);

/* config_set_on is config_set for a given machine. */
int config_set_on(struct config *config, const struct config_machine *machine, const char *key, const char *text,
                  struct error *err);

#endif
