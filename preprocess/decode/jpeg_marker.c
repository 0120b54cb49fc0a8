#include "preprocess/decode/jpeg_marker.h"

#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Returns the place of a 0xff that no 0 follows, or else of the last bytes, which are too few to be looked at together.
 * A 0 follows nearly every 0xff, so stopping at each takes longer. */
static const uint8_t *pass_over(const uint8_t *at, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i ones = _mm_set1_epi8((char)0xff), zeros = _mm_setzero_si128();
    for (; end - at > 16; at += 16) {
        __m128i here = _mm_loadu_si128((const __m128i *)at), next = _mm_loadu_si128((const __m128i *)(at + 1));
        __m128i found = _mm_andnot_si128(_mm_cmpeq_epi8(next, zeros), _mm_cmpeq_epi8(here, ones));
        int mask = _mm_movemask_epi8(found);
        if (mask)
            return at + __builtin_ctz((unsigned)mask);
    }
#endif
    return at;
}

const uint8_t *jpeg_marker_find(const uint8_t *at, const uint8_t *end)
{
    at = pass_over(at, end);
    while ((at = memchr(at, 0xff, (size_t)(end - at)))) {
        if (end - at < 2 || at[1] == 0xff)
            return NULL;
        if (at[1] != 0)
            return at;
        at += 2;
    }
    return NULL;
}
