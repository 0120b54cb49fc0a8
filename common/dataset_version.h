/* dataset_version.h: which version of a dataset is meant, beside its fingerprint, which has names, sizes and labels.
 *
 * A version has two hashes. `times` is of the modification times of all files; of a packed store, of what the index
 * knows of all contents. `content` is of the bytes of a few dozen samples, chosen by the fingerprint (cache/catalog).
 * Both 0: nothing is known of it, as in states and messages from before there were versions. content 0 alone: the
 * samples could not be read, or not yet. Pure; any thread. */
#ifndef LARDER_COMMON_DATASET_VERSION_H
#define LARDER_COMMON_DATASET_VERSION_H

#include <stdbool.h>
#include <stdint.h>

struct dataset_version {
    uint64_t times[2], content[2];
};

static inline bool dataset_version_has_content(const struct dataset_version *version)
{
    return version->content[0] || version->content[1];
}

static inline bool dataset_version_is_known(const struct dataset_version *version)
{
    return version->times[0] || version->times[1] || dataset_version_has_content(version);
}

static inline bool dataset_version_same_times(const struct dataset_version *a, const struct dataset_version *b)
{
    return a->times[0] == b->times[0] && a->times[1] == b->times[1];
}

/* dataset_version_agrees says whether two datasets of one fingerprint count as one. If both contents are known they
 * decide: copies have other times, and equal times may have been set. Otherwise the times decide. A version that is not
 * known agrees with every other. */
static inline bool dataset_version_agrees(const struct dataset_version *a, const struct dataset_version *b)
{
    if (!dataset_version_is_known(a) || !dataset_version_is_known(b))
        return true;
    if (dataset_version_has_content(a) && dataset_version_has_content(b))
        return a->content[0] == b->content[0] && a->content[1] == b->content[1];
    return dataset_version_same_times(a, b);
}

#endif
