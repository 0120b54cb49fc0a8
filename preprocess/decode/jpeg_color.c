#include "preprocess/decode/jpeg_color.h"

#define CHROMA_MAX (JPEG_COLOR_WIDTH_MAX / 2)
#define EDGE 8 /* places before the first sum, so that the sums are aligned */
#define CENTER 128
#define HALF (1 << 15)
/* JFIF's factors, with 16 fractional bits, less the whole part that the code adds as such. They fit in 16 bits. */
#define RED_OF_RED 26345      /* 1.402 - 1 */
#define BLUE_OF_BLUE (-14942) /* 1.772 - 2 */
#define GREEN_OF_BLUE (-22554)
#define GREEN_OF_RED 18734 /* 1 - .71414 */

/* Three times the near row and once the other, with the first and the last column repeated at the sides. */
struct sums {
    _Alignas(16) int16_t at[EDGE + CHROMA_MAX + EDGE];
};

/* count: 1 at least. */
static inline void add_rows(const uint8_t *const rows[2], uint32_t count, struct sums *sums)
{
    int16_t *at = sums->at + EDGE;
    uint32_t done = 0;
    do {
        for (uint32_t i = done; i < done + EDGE; i++)
            at[i] = (int16_t)(3 * rows[0][i] + rows[1][i]);
    } while ((done += EDGE) < count);
    at[-1] = at[0];
    at[done] = 0; /* which is looked at, and changes nothing, where it is not the next one */
    at[count] = at[count - 1];
}

/* Chroma of pixel x, less its center. */
static inline int32_t upsampled(const struct sums *sums, uint32_t x)
{
    const int16_t *at = sums->at + EDGE + x / 2;
    return (x % 2 ? (3 * at[0] + at[1] + 7) >> 4 : (3 * at[0] + at[-1] + 8) >> 4) - CENTER;
}

static inline uint8_t clip(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

void jpeg_color_row_portable(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
    struct sums blue, red;
    add_rows(row->blue, (width + 1) / 2, &blue);
    add_rows(row->red, (width + 1) / 2, &red);
    for (uint32_t x = 0; x < width; x++, rgb += 3) {
        int32_t y = row->luma[x], b = upsampled(&blue, x), r = upsampled(&red, x);
        rgb[0] = clip(y + r + ((RED_OF_RED * r + HALF) >> 16));
        rgb[1] = clip(y - r + ((GREEN_OF_BLUE * b + GREEN_OF_RED * r + HALF) >> 16));
        rgb[2] = clip(y + 2 * b + ((BLUE_OF_BLUE * b + HALF) >> 16));
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("ssse3")))
#define INLINE inline __attribute__((always_inline))

/* Chroma of sixteen pixels, less its center, from pixel 2 i on. */
TARGET static INLINE void upsample(const struct sums *sums, uint32_t i, __m128i out[2])
{
    const int16_t *at = sums->at + EDGE + i;
    __m128i here = _mm_load_si128((const __m128i *)at);
    __m128i before = _mm_loadu_si128((const __m128i *)(at - 1)), after = _mm_loadu_si128((const __m128i *)(at + 1));
    __m128i thrice = _mm_add_epi16(here, _mm_add_epi16(here, here)), center = _mm_set1_epi16(CENTER);
    __m128i even = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(thrice, before), _mm_set1_epi16(8)), 4);
    __m128i odd = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(thrice, after), _mm_set1_epi16(7)), 4);
    out[0] = _mm_sub_epi16(_mm_unpacklo_epi16(even, odd), center);
    out[1] = _mm_sub_epi16(_mm_unpackhi_epi16(even, odd), center);
}

/* (first · a + second · b + HALF) >> 16 of eight numbers. */
TARGET static INLINE __m128i weigh(__m128i first, __m128i second, int16_t a, int16_t b, int32_t rounding)
{
    __m128i factors = _mm_set1_epi32((int32_t)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
    __m128i round = _mm_set1_epi32(rounding);
    __m128i low = _mm_madd_epi16(_mm_unpacklo_epi16(first, second), factors);
    __m128i high = _mm_madd_epi16(_mm_unpackhi_epi16(first, second), factors);
    low = _mm_srai_epi32(_mm_add_epi32(low, round), 16);
    high = _mm_srai_epi32(_mm_add_epi32(high, round), 16);
    return _mm_packs_epi32(low, high);
}

struct colors {
    __m128i red, green, blue; /* of eight pixels, as 16-bit numbers */
};

TARGET static INLINE struct colors convert(__m128i luma, __m128i blue, __m128i red)
{
    __m128i none = _mm_setzero_si128();
    return (struct colors){
        .red = _mm_add_epi16(_mm_add_epi16(luma, red), weigh(red, none, RED_OF_RED, 0, HALF)),
        .green = _mm_add_epi16(_mm_sub_epi16(luma, red), weigh(blue, red, GREEN_OF_BLUE, GREEN_OF_RED, HALF)),
        .blue = _mm_add_epi16(_mm_add_epi16(luma, _mm_add_epi16(blue, blue)),
                              weigh(blue, none, BLUE_OF_BLUE, 0, HALF)),
    };
}

/* Which of sixteen values of a color go where in the 48 bytes of sixteen pixels: -1, a value of another color. */
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
    _mm_storeu_si128(to + 2,
                     mix(red, green, blue, FROM(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),
                         FROM(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1),
                         FROM(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)));
}

TARGET static void row_ssse3(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
    struct sums blue, red;
    add_rows(row->blue, (width + 1) / 2, &blue);
    add_rows(row->red, (width + 1) / 2, &red);
    for (uint32_t x = 0; x < width; x += JPEG_COLOR_COLUMNS, rgb += JPEG_COLOR_COLUMNS * 3) {
        __m128i none = _mm_setzero_si128(), luma = _mm_loadu_si128((const __m128i *)(row->luma + x));
        __m128i blues[2], reds[2];
        upsample(&blue, x / 2, blues);
        upsample(&red, x / 2, reds);
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
    if (__builtin_cpu_supports("ssse3")) {
        row_ssse3(row, width, rgb);
        return;
    }
#endif
    jpeg_color_row_portable(row, width, rgb);
}
