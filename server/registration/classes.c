/* classes.c: in folders and stores the samples of a class are neighbours in the dataset's order, and in mixed shards
 * one is never far. So what is asked for is mostly near. */
#include "server/registration/classes.h"

#include "cache/catalog/catalog.h"
#include "common/check.h"
#include "sampler/idset.h"

static bool is_good(const struct dataset *dataset, uint32_t index, const struct idset *view, const struct idset *bad)
{
    sample_id id = dataset_id(dataset, index);
    return idset_contains(view, id) && !idset_contains(bad, id);
}

bool classes_is_left(const void *dataset, sample_id id, const struct idset *view, const struct idset *bad)
{
    uint32_t index, count = dataset_count(dataset);
    CHECK(dataset_index(dataset, id, &index));
    int32_t label = dataset_label(dataset, index);
    bool left = false;
    for (uint32_t away = 1; !left && (away <= index || away < count - index); away++) {
        bool before = away <= index && dataset_label(dataset, index - away) == label;
        bool behind = away < count - index && dataset_label(dataset, index + away) == label;
        left = (before && is_good(dataset, index - away, view, bad)) ||
               (behind && is_good(dataset, index + away, view, bad));
    }
    return left;
}
