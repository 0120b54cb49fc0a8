/* layout.c: where a pack puts what, and the number that stands for the whole plan. */
#include <endian.h>
#include <stdlib.h>
#include <xxhash.h>

#include "cache/pack/pack_priv.h"

uint64_t layout_align(uint64_t offset)
{
    return (offset + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN;
}

void layout_free(struct layout *layout)
{
    free(layout->chunks);
    free(layout->segments);
    *layout = (struct layout){0};
}

uint32_t layout_chunk_samples(const struct layout *layout, uint32_t chunk)
{
    uint32_t first = chunk * layout->chunk_size;
    return layout->sample_count - first < layout->chunk_size ? layout->sample_count - first : layout->chunk_size;
}

static uint64_t chunk_bytes(const struct dataset *dataset, const struct chunking *chunking, uint32_t first,
                            uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = dataset_size(dataset, chunking->members[first + i]);
        sum = size > UINT64_MAX - sum ? UINT64_MAX : sum + size;
    }
    return sum;
}

static void close_segment(struct layout *layout, uint64_t data_end)
{
    struct store_segment *segment = &layout->segments[layout->segment_count++];
    uint32_t samples = store_segment_samples(segment, layout->chunk_size, layout->sample_count);
    segment->file_bytes = data_end + store_footer_bytes(samples, layout->version);
}

void layout_move(struct layout *layout, uint32_t chunk, uint64_t len_bytes)
{
    struct layout_chunk *moved = &layout->chunks[chunk];
    struct store_segment *segment = &layout->segments[moved->segment];
    uint64_t end = chunk == segment->first_chunk ? STORE_ALIGN : moved[-1].offset + moved[-1].len_bytes;
    moved->offset = layout_align(end);
    moved->len_bytes = len_bytes;
    if (chunk + 1 < segment->first_chunk + segment->chunk_count)
        return;
    uint32_t samples = store_segment_samples(segment, layout->chunk_size, layout->sample_count);
    segment->file_bytes = moved->offset + len_bytes + store_footer_bytes(samples, layout->version);
}

int layout_make(const struct dataset *dataset, const struct chunking *chunking, uint64_t segment_bytes,
                uint32_t version, struct layout *out, struct error *err)
{
    struct layout layout = {
        .sample_count = dataset_count(dataset), .chunk_size = chunking->chunk_size, .version = version};
    layout.chunk_count = layout.sample_count / layout.chunk_size + (layout.sample_count % layout.chunk_size != 0);
    layout.chunks = calloc(layout.chunk_count, sizeof *layout.chunks);
    layout.segments = calloc(layout.chunk_count, sizeof *layout.segments); /* one a chunk at most */
    if (!layout.chunks || !layout.segments) {
        layout_free(&layout);
        return error_set(err, LARDER_ENOMEM, "out of memory for the plan of %u samples", layout.sample_count);
    }
    uint64_t end = STORE_ALIGN;
    for (uint32_t i = 0; i < layout.chunk_count; i++) {
        uint64_t len = chunk_bytes(dataset, chunking, i * layout.chunk_size, layout_chunk_samples(&layout, i));
        if (len > STORE_CHUNK_BYTES_MAX) {
            layout_free(&layout);
            return error_set(
                err, LARDER_ELIMIT,
                "a chunk of %u samples would have %.1f GiB, at most 1 is possible: choose fewer samples a chunk",
                chunking->chunk_size, (double)len / (1 << 30));
        }
        if (end >= segment_bytes) {
            close_segment(&layout, end);
            end = STORE_ALIGN;
        }
        struct store_segment *segment = &layout.segments[layout.segment_count];
        if (segment->chunk_count++ == 0)
            segment->first_chunk = i;
        layout.chunks[i] = (struct layout_chunk){
            .segment = layout.segment_count, .offset = layout_align(end), .len_bytes = len};
        end = layout_align(end) + len;
    }
    close_segment(&layout, end);
    *out = layout;
    return 0;
}

uint32_t pack_version(const struct store_options *options)
{
    if (!options->rewrite)
        return STORE_VERSION_PLAIN;
    if (options->planes)
        return STORE_VERSION_PLANES;
    return options->max_side ? STORE_VERSION_SHRUNK : STORE_VERSION_REWRITTEN;
}

struct packing pack_how(const struct store_options *options)
{
    return (struct packing){.max_side = options->max_side,
                            .quality = options->max_side ? options->quality : 0,
                            .restart_rows = options->restart_rows || options->planes,
                            .planes = options->planes};
}

#define PLAN_SIZES_ALONE 1u  /* the origin's hashes are not kept, because others may write to it */
#define PLAN_OF_NO_PLANES 2u /* the origin has none */

/* How the origin is used, in PLAN_… bits. 0 is not hashed, so that plans made before these bits existed stay
 * valid. */
static uint64_t kept_of(const struct store *origin)
{
    if (!origin)
        return 0;
    return (origin->foreign ? PLAN_SIZES_ALONE : 0) | (origin->packing.planes ? 0 : PLAN_OF_NO_PLANES);
}

int pack_plan(const struct pack *pack, uint64_t plan[2])
{
    const struct dataset *dataset = pack->dataset;
    const struct index *index = &dataset_source(dataset)->index;
    const struct store_options *options = pack->options;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return LARDER_ENOMEM;
    uint32_t version = pack_version(options);
    const struct packing packing = pack_how(options);
    uint64_t facts[6] = {
        htole64(version), 0, 0, htole64(options->chunk_size), htole64(options->seed), htole64(options->segment_bytes)};
    uint64_t shrinking[3] = {htole64(packing.max_side), htole64(packing.quality), htole64(packing.restart_rows)};
    uint64_t kept = htole64(kept_of(pack->origin));
    dataset_fingerprint(dataset, facts + 1);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, facts, sizeof facts);
    if (version >= STORE_VERSION_SHRUNK)
        XXH3_128bits_update(state, shrinking, sizeof shrinking);
    if (kept)
        XXH3_128bits_update(state, &kept, sizeof kept);
    for (uint32_t i = 0; i < dataset_count(dataset); i++) {
        uint64_t time = htole64((uint64_t)index_sample(index, i).mtime_ns);
        XXH3_128bits_update(state, &time, sizeof time);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    plan[0] = hash.low64;
    plan[1] = hash.high64;
    return 0;
}
