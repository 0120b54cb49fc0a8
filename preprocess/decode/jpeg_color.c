#include "preprocess/decode/jpeg_color.h"

#include "common/cpu.h"

#define COLUMNS (JPEG_COLOR_COLUMNS / 2) /* chroma samples made at once */
#define CENTER 128
#define HALF (1 << 15)
/* JFIF's factors, with 16 fractional bits, less the whole part that the code adds as such. They fit in 16 bits. */
#define RED_OF_RED 26345      /* 1.402 - 1 */
#define BLUE_OF_BLUE (-14942) /* 1.772 - 2 */
#define GREEN_OF_BLUE (-22554)
#define GREEN_OF_RED 18734 /* 1 - .71414 */

/* Three times the near row and once the other. */
static inline int32_t sum(const uint8_t *const rows[2], uint32_t i)
{
    return 3 * rows[0][i] + rows[1][i];
}

/* Chroma of pixel x, less its center. */
static inline int32_t upsampled(const uint8_t *const rows[2], uint32_t x)
{
    uint32_t i = x / 2;
    int32_t here = 3 * sum(rows, i);
    return ((x % 2 ? here + sum(rows, i + 1) + 7 : here + sum(rows, i > 0 ? i - 1 : 0) + 8) >> 4) - CENTER;
}

static inline uint8_t clip(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

void jpeg_color_row_portable(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++, rgb += 3) {
        int32_t y = row->luma[x], b = upsampled(row->blue, x), r = upsampled(row->red, x);
        rgb[0] = clip(y + r + ((RED_OF_RED * r + HALF) >> 16));
        rgb[1] = clip(y - r + ((GREEN_OF_BLUE * b + GREEN_OF_RED * r + HALF) >> 16));
        rgb[2] = clip(y + 2 * b + ((BLUE_OF_BLUE * b + HALF) >> 16));
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("ssse3")))
#define INLINE inline __attribute__((always_inline))

/* Sums of chroma: the last eight that were upsampled, and those to come. Kept here and not in memory, since a load that
 * spans two recent stores waits. */
struct sums {
    __m128i before, here;
};

TARGET static INLINE __m128i add_rows(const uint8_t *const rows[2], uint32_t i)
{
    __m128i none = _mm_setzero_si128();
    __m128i near = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(rows[0] + i)), none);
    __m128i other = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(rows[1] + i)), none);
    return _mm_add_epi16(_mm_add_epi16(near, other), _mm_add_epi16(near, near));
}

/* The first sum is repeated at its left. */
TARGET static INLINE struct sums start(const uint8_t *const rows[2])
{
    __m128i here = add_rows(rows, 0);
    return (struct sums){_mm_slli_si128(here, 14), here};
}

/* Chroma of sixteen pixels, less its center; `next`: the sums behind those that are here. */
TARGET static INLINE void upsample(struct sums *sums, __m128i next, __m128i out[2])
{
    __m128i here = sums->here, thrice = _mm_add_epi16(here, _mm_add_epi16(here, here));
    __m128i before = _mm_alignr_epi8(here, sums->before, 14), after = _mm_alignr_epi8(next, here, 2);
    __m128i even = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(thrice, before), _mm_set1_epi16(8)), 4);
    __m128i odd = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(thrice, after), _mm_set1_epi16(7)), 4);
    __m128i center = _mm_set1_epi16(CENTER);
    out[0] = _mm_sub_epi16(_mm_unpacklo_epi16(even, odd), center);
    out[1] = _mm_sub_epi16(_mm_unpackhi_epi16(even, odd), center);
    *sums = (struct sums){here, next};
}

/* (first · a + second · b + HALF) >> 16 of eight numbers. */
TARGET static INLINE __m128i weigh(__m128i first, __m128i second, int16_t a, int16_t b)
{
    __m128i factors = _mm_set1_epi32((int32_t)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
    __m128i half = _mm_set1_epi32(HALF);
    __m128i low = _mm_madd_epi16(_mm_unpacklo_epi16(first, second), factors);
    __m128i high = _mm_madd_epi16(_mm_unpackhi_epi16(first, second), factors);
    low = _mm_srai_epi32(_mm_add_epi32(low, half), 16);
    high = _mm_srai_epi32(_mm_add_epi32(high, half), 16);
    return _mm_packs_epi32(low, high);
}

struct colors {
    __m128i red, green, blue; /* eight pixels' values, as 16-bit numbers */
};

TARGET static INLINE struct colors convert(__m128i luma, __m128i blue, __m128i red)
{
    __m128i none = _mm_setzero_si128();
    return (struct colors){
        .red = _mm_add_epi16(_mm_add_epi16(luma, red), weigh(red, none, RED_OF_RED, 0)),
        .green = _mm_add_epi16(_mm_sub_epi16(luma, red), weigh(blue, red, GREEN_OF_BLUE, GREEN_OF_RED)),
        .blue = _mm_add_epi16(_mm_add_epi16(luma, _mm_add_epi16(blue, blue)), weigh(blue, none, BLUE_OF_BLUE, 0)),
    };
}

/* For each of 16 bytes: the index of the color's value that goes there. -1: another color's value goes there. */
#define FROM(...) _mm_setr_epi8(__VA_ARGS__)

TARGET static INLINE __m128i mix(__m128i red, __m128i green, __m128i blue, __m128i reds, __m128i greens, __m128i blues)
{
    return _mm_or_si128(_mm_shuffle_epi8(red, reds),
                        _mm_or_si128(_mm_shuffle_epi8(green, greens), _mm_shuffle_epi8(blue, blues)));
}

TARGET static INLINE void interleave(__m128i red, __m128i green, __m128i blue, uint8_t *rgb)
{
    __m128i *to = (__m128i *)rgb;
    _mm_storeu_si128(to, mix(red, green, blue, FROM(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
                             FROM(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
                             FROM(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)));
    _mm_storeu_si128(to + 1, mix(red, green, blue, FROM(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
                                 FROM(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
                                 FROM(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)));
    _mm_storeu_si128(to + 2, mix(red, green, blue, FROM(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
                                 FROM(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1),
                                 FROM(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)));
}

TARGET static void row_ssse3(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
    struct sums blue = start(row->blue), red = start(row->red);
    for (uint32_t x = 0; x < width; x += JPEG_COLOR_COLUMNS, rgb += JPEG_COLOR_COLUMNS * 3) {
        __m128i none = _mm_setzero_si128(), luma = _mm_loadu_si128((const __m128i *)(row->luma + x));
        __m128i blues[2], reds[2];
        upsample(&blue, add_rows(row->blue, x / 2 + COLUMNS), blues);
        upsample(&red, add_rows(row->red, x / 2 + COLUMNS), reds);
        struct colors first = convert(_mm_unpacklo_epi8(luma, none), blues[0], reds[0]);
        struct colors second = convert(_mm_unpackhi_epi8(luma, none), blues[1], reds[1]);
        interleave(_mm_packus_epi16(first.red, second.red), _mm_packus_epi16(first.green, second.green),
                   _mm_packus_epi16(first.blue, second.blue), rgb);
    }
}
#endif

void jpeg_color_row(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
#if defined(__x86_64__)
    if (cpu_has(CPU_SSSE3)) {
        row_ssse3(row, width, rgb);
        return;
    }
#endif
    jpeg_color_row_portable(row, width, rgb);
}
