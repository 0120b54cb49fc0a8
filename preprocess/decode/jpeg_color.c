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

/* From sample i on; the first sum is repeated at its left. */
TARGET static INLINE struct sums start(const uint8_t *const rows[2], uint32_t i)
{
    __m128i here = add_rows(rows, i);
    return (struct sums){i ? add_rows(rows, i - COLUMNS) : _mm_slli_si128(here, 14), here};
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

/* The three parts of sixteen pixels. */
#define MIX_FIRST                                                        \
    FROM(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),      \
        FROM(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1), \
        FROM(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)
#define MIX_SECOND                                                       \
    FROM(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),    \
        FROM(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10), \
        FROM(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)
#define MIX_THIRD                                                             \
    FROM(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1),     \
        FROM(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1), \
        FROM(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)

TARGET static INLINE void interleave(__m128i red, __m128i green, __m128i blue, uint8_t *rgb)
{
    __m128i *to = (__m128i *)rgb;
    _mm_storeu_si128(to, mix(red, green, blue, MIX_FIRST));
    _mm_storeu_si128(to + 1, mix(red, green, blue, MIX_SECOND));
    _mm_storeu_si128(to + 2, mix(red, green, blue, MIX_THIRD));
}

/* Pixels from x on. */
TARGET static void row_ssse3(const struct jpeg_color_row *row, uint32_t x, uint32_t width, uint8_t *rgb)
{
    struct sums blue = start(row->blue, x / 2), red = start(row->red, x / 2);
    for (rgb += (size_t)x * 3; x < width; x += JPEG_COLOR_COLUMNS, rgb += JPEG_COLOR_COLUMNS * 3) {
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

/* ── the same for AVX2: a half of a register has sixteen pixels ─────────────────────────────────────────────────── */

#define WIDE __attribute__((target("avx2")))
#define WIDE_COLUMNS (2 * JPEG_COLOR_COLUMNS)

struct wide_sums {
    __m256i before, here;
};

WIDE static INLINE __m256i wide_add_rows(const uint8_t *const rows[2], uint32_t i)
{
    __m256i near = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(rows[0] + i)));
    __m256i other = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(rows[1] + i)));
    return _mm256_add_epi16(_mm256_add_epi16(near, other), _mm256_add_epi16(near, near));
}

WIDE static INLINE struct wide_sums wide_start(const uint8_t *const rows[2])
{
    __m256i here = wide_add_rows(rows, 0);
    return (struct wide_sums){_mm256_inserti128_si256(here, _mm_slli_si128(_mm256_castsi256_si128(here), 14), 1), here};
}

WIDE static INLINE void wide_upsample(struct wide_sums *sums, __m256i next, __m256i out[2])
{
    __m256i here = sums->here, thrice = _mm256_add_epi16(here, _mm256_add_epi16(here, here));
    __m256i before = _mm256_alignr_epi8(here, _mm256_permute2x128_si256(sums->before, here, 0x21), 14);
    __m256i after = _mm256_alignr_epi8(_mm256_permute2x128_si256(here, next, 0x21), here, 2);
    __m256i even = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(thrice, before), _mm256_set1_epi16(8)), 4);
    __m256i odd = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(thrice, after), _mm256_set1_epi16(7)), 4);
    __m256i center = _mm256_set1_epi16(CENTER);
    out[0] = _mm256_sub_epi16(_mm256_unpacklo_epi16(even, odd), center);
    out[1] = _mm256_sub_epi16(_mm256_unpackhi_epi16(even, odd), center);
    *sums = (struct wide_sums){here, next};
}

WIDE static INLINE __m256i wide_weigh(__m256i first, __m256i second, int16_t a, int16_t b)
{
    __m256i factors = _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
    __m256i half = _mm256_set1_epi32(HALF);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(first, second), factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(first, second), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_packs_epi32(low, high);
}

/* The same of one number: the product in units of 2^15, rounded down, and then half of that, rounded. */
WIDE static INLINE __m256i wide_weigh_one(__m256i value, int16_t a)
{
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), _mm256_set1_epi16(a));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

struct wide_colors {
    __m256i red, green, blue;
};

WIDE static INLINE struct wide_colors wide_convert(__m256i luma, __m256i blue, __m256i red)
{
    return (struct wide_colors){
        .red = _mm256_add_epi16(_mm256_add_epi16(luma, red), wide_weigh_one(red, RED_OF_RED)),
        .green = _mm256_add_epi16(_mm256_sub_epi16(luma, red), wide_weigh(blue, red, GREEN_OF_BLUE, GREEN_OF_RED)),
        .blue = _mm256_add_epi16(_mm256_add_epi16(luma, _mm256_add_epi16(blue, blue)),
                                 wide_weigh_one(blue, BLUE_OF_BLUE)),
    };
}

/* As `mix`, in both halves. */
WIDE static INLINE __m256i wide_mix(const struct wide_colors *bytes, __m128i reds, __m128i greens, __m128i blues)
{
    __m256i red = _mm256_shuffle_epi8(bytes->red, _mm256_broadcastsi128_si256(reds));
    __m256i green = _mm256_shuffle_epi8(bytes->green, _mm256_broadcastsi128_si256(greens));
    return _mm256_or_si256(red, _mm256_or_si256(green,
                                                _mm256_shuffle_epi8(bytes->blue, _mm256_broadcastsi128_si256(blues))));
}

WIDE static INLINE void wide_interleave(const struct wide_colors *bytes, uint8_t *rgb)
{
    __m256i a = wide_mix(bytes, MIX_FIRST), b = wide_mix(bytes, MIX_SECOND), c = wide_mix(bytes, MIX_THIRD);
    __m256i *to = (__m256i *)rgb;
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(c, a, 0x30));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(b, c, 0x31));
}

/* It makes pixels as long as what it reads for them is there, and returns how many. */
WIDE static uint32_t row_avx2(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
    uint32_t x = 0;
    if (width < WIDE_COLUMNS + JPEG_COLOR_COLUMNS)
        return 0;
    struct wide_sums blue = wide_start(row->blue), red = wide_start(row->red);
    for (; x + WIDE_COLUMNS + JPEG_COLOR_COLUMNS <= width; x += WIDE_COLUMNS, rgb += WIDE_COLUMNS * 3) {
        __m256i none = _mm256_setzero_si256(), luma = _mm256_loadu_si256((const __m256i *)(row->luma + x));
        __m256i blues[2], reds[2];
        wide_upsample(&blue, wide_add_rows(row->blue, x / 2 + 2 * COLUMNS), blues);
        wide_upsample(&red, wide_add_rows(row->red, x / 2 + 2 * COLUMNS), reds);
        struct wide_colors first = wide_convert(_mm256_unpacklo_epi8(luma, none), blues[0], reds[0]);
        struct wide_colors second = wide_convert(_mm256_unpackhi_epi8(luma, none), blues[1], reds[1]);
        struct wide_colors bytes = {_mm256_packus_epi16(first.red, second.red),
                                    _mm256_packus_epi16(first.green, second.green),
                                    _mm256_packus_epi16(first.blue, second.blue)};
        wide_interleave(&bytes, rgb);
    }
    return x;
}
#endif

void jpeg_color_row(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb)
{
#if defined(__x86_64__)
    if (cpu_has(CPU_SSSE3)) {
        row_ssse3(row, cpu_has(CPU_AVX2) ? row_avx2(row, width, rgb) : 0, width, rgb);
        return;
    }
#endif
    jpeg_color_row_portable(row, width, rgb);
}
