/* block.c: see block_priv.h. Counting a suffix intersection goes through every set of a round, so block_intersect has a
 * form for AVX2, chosen when it runs: it takes a third of the time. */
#include "sampler/block_priv.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "common/check.h"
#include "common/cpu.h"

uint32_t block_count(const uint64_t words[BLOCK_WORDS])
{
    uint32_t count = 0;
    for (unsigned i = 0; i < BLOCK_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(words[i]);
    return count;
}

bool block_empty(const uint64_t words[BLOCK_WORDS])
{
    uint64_t any = 0;
    for (unsigned i = 0; i < BLOCK_WORDS; i++)
        any |= words[i];
    return any == 0;
}

#ifdef __x86_64__
/* Bits are counted by a table of 16 nibbles; bytes are summed before they can overflow (8 a vector, 16 vectors: 128).
 * */
__attribute__((target("avx2"))) static uint32_t intersect_avx2(uint64_t *restrict acc, const uint64_t *restrict words)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, /* once for each half */
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i sums = _mm256_setzero_si256();
    for (unsigned i = 0; i < BLOCK_WORDS; i += 4) {
        __m256i both = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(acc + i)),
                                        _mm256_loadu_si256((const __m256i *)(words + i)));
        _mm256_storeu_si256((__m256i *)(acc + i), both);
        __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(both, nibble));
        __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble));
        sums = _mm256_add_epi8(sums, _mm256_add_epi8(low, high));
    }
    uint64_t lanes[4];
    _mm256_storeu_si256((__m256i *)lanes, _mm256_sad_epu8(sums, _mm256_setzero_si256()));
    return (uint32_t)(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
}
#endif

static uint32_t intersect_plain(uint64_t *restrict acc, const uint64_t *restrict words)
{
    for (unsigned i = 0; i < BLOCK_WORDS; i++)
        acc[i] &= words[i];
    return block_count(acc);
}

uint32_t block_intersect(uint64_t *restrict acc, const uint64_t *restrict words)
{
#ifdef __x86_64__
    if (cpu_has(CPU_AVX2))
        return intersect_avx2(acc, words);
#endif
    return intersect_plain(acc, words);
}

/* The position of the rank-th set bit: halves the word six times. */
static unsigned word_select(uint64_t word, uint32_t rank)
{
    unsigned at = 0;
    for (unsigned width = 32; width; width /= 2) {
        uint32_t low = (uint32_t)__builtin_popcountll(word & ((UINT64_C(1) << width) - 1));
        if (rank >= low) {
            rank -= low;
            word >>= width;
            at += width;
        }
    }
    return at;
}

#ifdef __x86_64__
/* The same with the processor's own words for it: deposited by the word's bits, a bit of that rank lands on it. */
__attribute__((target("popcnt,bmi,bmi2"))) static unsigned select_bits(const uint64_t words[BLOCK_WORDS], uint32_t rank)
{
    for (unsigned i = 0; i < BLOCK_WORDS; i++) {
        uint32_t bits = (uint32_t)__builtin_popcountll(words[i]);
        if (rank < bits)
            return i * 64 + (unsigned)__builtin_ctzll(_pdep_u64(UINT64_C(1) << rank, words[i]));
        rank -= bits;
    }
    CHECK(!"the rank is below the block's count");
}
#endif

static unsigned select_plain(const uint64_t words[BLOCK_WORDS], uint32_t rank)
{
    for (unsigned i = 0; i < BLOCK_WORDS; i++) {
        uint32_t bits = (uint32_t)__builtin_popcountll(words[i]);
        if (rank < bits)
            return i * 64 + word_select(words[i], rank);
        rank -= bits;
    }
    CHECK(!"the rank is below the block's count");
}

unsigned block_select(const uint64_t words[BLOCK_WORDS], uint32_t rank)
{
#ifdef __x86_64__
    if (cpu_has(CPU_BITS))
        return select_bits(words, rank);
#endif
    return select_plain(words, rank);
}
