/* read.c: the bytes of a dataset's samples, which its source reads. Any thread; nothing here changes a dataset but its
 * stale mark. */
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/files.h"
#include "common/check.h"

/* A sample is not what was indexed: the next open must not trust what was recorded, nor may the next start. */
static void mark_stale(const struct dataset *dataset)
{
    atomic_bool *stale = (atomic_bool *)&dataset->stale; /* the one part of a const dataset that changes */
    if (atomic_load(&dataset->source->changed) && !atomic_exchange(stale, true) && dataset->checkpoint)
        unlink(dataset->checkpoint);
}

bool dataset_apart(const struct dataset *dataset)
{
    return dataset_source(dataset)->kind->read == files_read;
}

uint32_t dataset_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(count <= CHUNK_SAMPLES_MAX);
    uint32_t failed = source_read(dataset->source, reads, count, until_ns);
    mark_stale(dataset);
    return failed;
}

int dataset_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err)
{
    struct sample_read read = {.index = index, .buf = buf};
    if (dataset_read_many(dataset, &read, 1, 0) == 0)
        return 0;
    return error_set(err, read.err.code, "%s", read.err.text);
}

int dataset_hash(const struct dataset *dataset, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                 struct error *err)
{
    CHECK(index < dataset->count);
    int code = source_hash(dataset->source, index, interrupt, out, err);
    mark_stale(dataset);
    return code;
}
