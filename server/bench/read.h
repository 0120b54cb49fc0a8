/* read.h: the parts that readers of scenario files share: values with bounds, mappings key by key, strict as
 * configurations are. */
#ifndef LARDER_SERVER_BENCH_READ_H
#define LARDER_SERVER_BENCH_READ_H

#include "server/config/config_priv.h"

#define BENCH_NAMES_MAX 64

struct bench_names {
    const char *name[BENCH_NAMES_MAX]; /* borrowed from the document */
    uint32_t count;
};

struct bench_reader {
    const char *file;
    struct error *err;
    struct bench_names names;
};

int bench_fail(struct bench_reader *reader, const struct doc_node *node, const char *key, const char *what);
int bench_number(struct bench_reader *reader, const struct doc_node *node, const char *key, double min, double max,
                 double *out);
int bench_count(struct bench_reader *reader, const struct doc_node *node, const char *key, double min, double max,
                uint64_t *out);
/* bench_name gives a name's number, a new one where it is new. */
int bench_name(struct bench_reader *reader, const struct doc_node *node, const char *key, uint32_t *out);

/* Returns from the calling function. */
#define BENCH_COUNT(reader, node, key, min, max, field)                 \
    do {                                                                \
        uint64_t number_;                                               \
        int code_ = bench_count(reader, node, key, min, max, &number_); \
        if (code_)                                                      \
            return code_;                                               \
        (field) = number_;                                              \
        return 0;                                                       \
    } while (0)

/* LARDER_ENOENT: no such key. */
typedef int (*bench_key)(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into);
int bench_mapping(struct bench_reader *reader, const struct doc_node *node, const char *key, bench_key each,
                  void *into);

/* bench_document parses a file and reads its top mapping; `check` then sees the root, while names still live. */
int bench_document(struct bench_reader *reader, bench_key each,
                   int (*check)(struct bench_reader *, const struct doc_node *, void *), void *into);

#endif
