/* source.c: what holds for sources of every kind. See source.h. */
#include "cache/source/source.h"

#include <stdlib.h>

int source_create(const struct source_kind *kind, struct source **out, struct error *err)
{
    struct source *source = calloc(1, kind->bytes);
    if (!source)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    source->kind = kind;
    atomic_init(&source->changed, false);
    atomic_init(&source->doubted, false);
    *out = source;
    return 0;
}

int source_index(const struct source_kind *kind, const struct source_wish *wish, struct source **out, struct error *err)
{
    struct source *source = NULL;
    int code = source_create(kind, &source, err);
    if (code)
        return code;
    code = kind->index(wish, source, err);
    if (!code && index_pack(&source->index))
        code = error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    if (code)
        source_free(&source);
    else
        *out = source;
    return code;
}

void source_free(struct source **pointer)
{
    struct source *source = *pointer;
    *pointer = NULL;
    if (!source)
        return;
    if (source->kind->destroy)
        source->kind->destroy(source);
    index_free(&source->index);
    chunking_free(&source->chunking);
    free(source->origins.store);
    free(source);
}

uint64_t source_device(const struct source *source)
{
    return medium_device(source->medium.root);
}

uint64_t source_bytes(const struct source *source, uint64_t *paths)
{
    const struct index *index = &source->index;
    *paths = index->strings_len_bytes;
    return source->own_bytes + index->rows.len_bytes + packed_rows_blocks(index->rows.count) * PACKED_HEAD_BYTES +
           index->class_count * sizeof *index->classes + index->folder_count * sizeof *index->folders +
           index->blob_count * sizeof *index->blobs +
           (index->contents ? index->sample_count * sizeof *index->contents : 0) +
           (source->chunking.members ? index->sample_count * 2 * sizeof *source->chunking.members : 0);
}

struct index_sample source_sample(const struct source *source, uint32_t index)
{
    struct index_sample sample = index_sample(&source->index, index);
    const struct identity *content = index_content(&source->index, index);
    if (content) {
        sample.mtime_ns = INDEX_MTIME_STORED;
        sample.ctime_ns = 0;
        sample.device = content->low;
        sample.inode = content->high;
    } else if (source->stored && !(sample.flags & INDEX_UNREACHABLE)) {
        sample.device = source->stored[index].low;
        sample.inode = source->stored[index].high;
    }
    return sample;
}

struct identity source_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    if (!index_content(&source->index, index))
        return source->kind->identity(source, index, apart, seed);
    const struct index_sample sample = source_sample(source, index);
    return index_identity(&sample, apart, NULL, seed);
}

struct read_call {
    const struct source *source;
    struct sample_read *reads;
    uint32_t count, failed;
    uint64_t until_ns;
};

static void call_read(void *context)
{
    struct read_call *call = context;
    call->failed = call->source->kind->read(call->source, call->reads, call->count, call->until_ns);
}

uint32_t source_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    struct read_call call = {.source = source, .reads = reads, .count = count, .until_ns = until_ns};
    medium_run(&source->medium, call_read, &call);
    return call.failed;
}

struct hash_call {
    const struct source *source;
    uint32_t index;
    int code;
    const struct interrupt *interrupt;
    struct identity *out;
    struct error *err;
};

static void call_hash(void *context)
{
    struct hash_call *call = context;
    call->code = call->source->kind->hash(call->source, call->index, call->interrupt, call->out, call->err);
}

int source_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                struct error *err)
{
    struct hash_call call = {.source = source, .index = index, .interrupt = interrupt, .out = out, .err = err};
    medium_run(&source->medium, call_hash, &call);
    return call.code;
}
