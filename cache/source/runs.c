/* runs.c: chunks of runs. See runs.h. */
#include "cache/source/runs.h"

#include <stdlib.h>

#include "cache/source/tar_text.h"
#include "common/check.h"
#include "common/larder_err.h"
#include "common/random.h"
#include "common/vast.h"

#define LOOKED_AT 512 /* runs, and as many draws */
#define MIXED .8

/* ── are they mixed? ── */

struct counting {
    const struct index *index;
    uint32_t run;
    uint32_t *seen; /* for each label, in which count it was seen last */
    uint32_t counts;
};

/* Counts the labels of samples from `first` on, or with `random` of any. */
static uint32_t count_labels(struct counting *counting, uint64_t first, struct rng *random)
{
    uint32_t labels = 0;
    counting->counts++;
    for (uint32_t i = 0; i < counting->run; i++) {
        uint64_t at = random ? random_below(random, counting->index->sample_count) : first + i;
        uint32_t *last = &counting->seen[index_label(counting->index, at)];
        labels += *last != counting->counts;
        *last = counting->counts;
    }
    return labels;
}

/* is_mixed tells whether samples that lie behind each other are as good a draw as any: whether runs of `run` samples
 * have at least MIXED of the labels that as many random ones have. */
static bool is_mixed(const struct index *index, uint32_t run)
{
    struct counting counting = {index, run, calloc(index->class_count, sizeof(uint32_t)), 0};
    uint64_t in_runs = 0, in_draws = 0;
    struct rng rng;
    random_seed(&rng, 1);
    uint64_t count = index->sample_count, looks = count / run < LOOKED_AT ? count / run : LOOKED_AT;
    for (uint64_t i = 0; counting.seen && i < looks; i++) {
        in_runs += count_labels(&counting, (count - run) * i / looks, NULL);
        in_draws += count_labels(&counting, 0, &rng);
    }
    free(counting.seen);
    return (double)in_runs >= MIXED * (double)in_draws;
}

bool runs_suit(const struct index *index, uint32_t run)
{
    return index->blob_count && !tar_text_unmixed(index->text) && is_mixed(index, run);
}

/* ── the chunks ── */

static uint64_t blob_end(const struct index *index, size_t blob)
{
    return blob + 1 < index->blob_count ? index->blobs[blob + 1].first : index->sample_count;
}

struct run {
    uint32_t first, count;
};

static void shuffle(struct run *runs, size_t count, struct rng *rng)
{
    for (size_t i = count; i-- > 1;) {
        size_t other = (size_t)random_below(rng, (uint64_t)i + 1);
        struct run moved = runs[i];
        runs[i] = runs[other];
        runs[other] = moved;
    }
}

/* Cuts the blobs into runs, whole ones first. It returns how many are whole. */
static size_t cut(const struct index *index, uint32_t chunk_size, struct run *runs, size_t *count)
{
    size_t whole = 0, all = 0;
    for (int shorter = 0; shorter < 2; shorter++) {
        for (size_t blob = 0; blob < index->blob_count; blob++) {
            uint64_t first = index->blobs[blob].first, left = blob_end(index, blob) - first;
            for (; !shorter && left >= chunk_size; left -= chunk_size, first += chunk_size)
                runs[all++] = (struct run){(uint32_t)first, chunk_size};
            if (shorter && left % chunk_size)
                runs[all++] = (struct run){(uint32_t)(first + left - left % chunk_size), (uint32_t)(left % chunk_size)};
        }
        whole = shorter ? whole : all;
    }
    *count = all;
    return whole;
}

int runs_shuffle(const struct index *index, uint32_t chunk_size, uint64_t seed, struct chunking *out)
{
    CHECK(chunk_size >= 1 && chunk_size <= CHUNK_SAMPLES_MAX);
    size_t samples = index->sample_count, at = 0, count;
    struct run *runs = malloc((samples / chunk_size + index->blob_count + 1) * sizeof *runs);
    struct chunking chunking = {.chunk_size = chunk_size,
                                .seed = seed,
                                .drawn = true,
                                .members = vast_malloc(samples * sizeof *chunking.members),
                                .positions = vast_malloc(samples * sizeof *chunking.positions)};
    if (!runs || !chunking.members || !chunking.positions) {
        free(runs);
        chunking_free(&chunking);
        return LARDER_ENOMEM;
    }
    struct rng rng;
    random_seed(&rng, seed);
    size_t whole = cut(index, chunk_size, runs, &count);
    shuffle(runs, whole, &rng);
    shuffle(runs + whole, count - whole, &rng);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < runs[i].count; j++) {
            chunking.positions[runs[i].first + j] = (uint32_t)at;
            chunking.members[at++] = runs[i].first + j;
        }
    }
    free(runs);
    CHECK(at == samples);
    *out = chunking;
    return 0;
}
