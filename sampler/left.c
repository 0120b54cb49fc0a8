/* left.c: copies of remaining sets, and the sizes of the dependent sampling tree that they make. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "sampler/block_priv.h"
#include "sampler/remaining_priv.h"

enum { COPIED_BLOCKS_MAX = 1 << 15 }; /* 16 MiB a copy, for ids that range over 134 million */

int remaining_copy(const struct remaining *set, struct sampler_left *out)
{
    if (set->n_blocks > COPIED_BLOCKS_MAX)
        return LARDER_ELIMIT;
    uint64_t *words = calloc((size_t)set->n_blocks * BLOCK_WORDS + 1, sizeof *words);
    if (!words)
        return LARDER_ENOMEM;
    for (uint32_t at = 0; at < set->n_blocks; at++)
        memcpy(words + (size_t)at * BLOCK_WORDS, remaining_words(set, set->slot_of[at]), BLOCK_WORDS * sizeof *words);
    *out = (struct sampler_left){.first_id = set->first_block << BLOCK_BITS,
                                 .n_words = (size_t)set->n_blocks * BLOCK_WORDS,
                                 .words = words,
                                 .count = set->count};
    return 0;
}

void sampler_left_clear(struct sampler_left *left)
{
    free(left->words);
    memset(left, 0, sizeof *left);
}

/* word_at returns the 64 bits from an id on, which is a multiple of 64. */
static uint64_t word_at(const struct sampler_left *left, uint64_t id)
{
    return id >= left->first_id && (id - left->first_id) / 64 < left->n_words ? left->words[(id - left->first_id) / 64]
                                                                              : 0;
}

/* intersect takes from acc the ids that are not in the other set, and returns the number left. */
static uint64_t intersect(struct sampler_left *acc, const struct sampler_left *with)
{
    uint64_t count = 0;
    for (size_t i = 0; i < acc->n_words; i++) {
        acc->words[i] &= word_at(with, acc->first_id + (uint64_t)i * 64);
        count += (uint64_t)__builtin_popcountll(acc->words[i]);
    }
    return count;
}

int sampler_tree(const struct sampler_left *lefts, size_t n, uint64_t *shared, uint64_t *own)
{
    if (n == 0)
        return 0;
    struct sampler_left common = lefts[n - 1]; /* the intersection of this job's set and all following ones */
    common.words = malloc((common.n_words + 1) * sizeof *common.words);
    if (!common.words)
        return LARDER_ENOMEM;
    memcpy(common.words, lefts[n - 1].words, common.n_words * sizeof *common.words);
    shared[n - 1] = 0;
    own[n - 1] = lefts[n - 1].count;
    for (size_t i = n - 1; i-- > 0;) {
        uint64_t count = intersect(&common, &lefts[i]);
        shared[i] = count;
        own[i] = lefts[i].count - count;
        if (i + 2 < n)
            shared[i + 1] -= count; /* samples that job i has too are counted above */
        else
            own[n - 1] -= count;
    }
    free(common.words);
    return 0;
}
