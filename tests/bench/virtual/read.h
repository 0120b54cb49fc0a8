/* read.h: what the readers of scenario files share: values with bounds, and mappings key by key. Scenarios are read as
 * strictly as configurations. The functions that return an int return 0 or an error's code. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_READ_H
#define LARDER_TESTS_BENCH_VIRTUAL_READ_H

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
/* bench_name returns a name's number. A name that was not seen before gets the next number. */
int bench_name(struct bench_reader *reader, const struct doc_node *node, const char *key, uint32_t *out);

/* BENCH_COUNT reads a count into field and returns from the function that uses it. */
#define BENCH_COUNT(reader, node, key, min, max, field)                 \
    do {                                                                \
        uint64_t number_;                                               \
        int code_ = bench_count(reader, node, key, min, max, &number_); \
        if (code_)                                                      \
            return code_;                                               \
        (field) = number_;                                              \
        return 0;                                                       \
    } while (0)

/* A bench_key reads one key of a mapping. LARDER_ENOENT: there is no such key. */
typedef int (*bench_key)(struct bench_reader *reader, const char *key, const struct doc_node *value, void *into);
int bench_mapping(struct bench_reader *reader, const struct doc_node *node, const char *key, bench_key each,
                  void *into);

/* bench_document parses a file and reads its top mapping. Then it calls `check` with the root, while the names are
 * still valid. */
int bench_document(struct bench_reader *reader, bench_key each,
                   int (*check)(struct bench_reader *, const struct doc_node *, void *), void *into);

#endif
