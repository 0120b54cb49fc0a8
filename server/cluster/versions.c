#include "server/cluster/versions.h"

#include <string.h>

static bool is(const struct versions_row *row, const struct guests_key *key)
{
    return row->used && row->key.boot == key->boot && row->key.job == key->job &&
           memcmp(row->key.anchor, key->anchor, sizeof key->anchor) == 0;
}

/* row_of returns the job's row. A job that has none gets a free row, or else that of the job which was not heard of for
 * longest. */
static struct versions_row *row_of(struct versions *versions, const struct guests_key *key)
{
    struct versions_row *oldest = &versions->rows[0];
    for (size_t i = 0; i < VERSIONS_MAX; i++) {
        struct versions_row *row = &versions->rows[i];
        if (is(row, key))
            return row;
        if (row->used < oldest->used)
            oldest = row;
    }
    *oldest = (struct versions_row){.key = *key};
    return oldest;
}

const char *versions_may_give(struct versions *versions, const struct guests_key *key,
                              const struct dataset_version *wanted, const struct dataset_version *here)
{
    if (!dataset_version_agrees(wanted, here))
        return "the dataset is another one here: files of the same names and sizes have other content";
    struct versions_row *row = row_of(versions, key);
    if (row->used && !dataset_version_same_times(&row->given, here))
        return "the dataset is another one here than this job was given before: its files were written to";
    row->given = *here;
    row->used = ++versions->uses;
    return NULL;
}
