#include "preprocess/resample.h"

#include <math.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "preprocess/map_rows.h"
#include "preprocess/resample_priv.h"
#include "preprocess/simd.h"

static const struct resample_kernel *const kernels[] = SIMD_TABLES(resample);
static const struct map_rows *const map_versions[] = SIMD_TABLES(map_rows);

/* ── filters, as Pillow's Resample.c has them ────────────────────────────────────────────────────────────────────── */

static double box_filter(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double bilinear_filter(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming_filter(double x)
{
    x = fabs(x);
    if (x == 0.0)
        return 1.0;
    if (x >= 1.0)
        return 0.0;
    x *= M_PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double bicubic_filter(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x *= M_PI;
    return sin(x) / x;
}

static double lanczos_filter(double x)
{
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

/* Half the width of the filters, in source pixels where nothing shrinks. */
static const double supports[] = {
    [FILTER_NEAREST] = 0.5, [FILTER_BILINEAR] = 1.0, [FILTER_BICUBIC] = 2.0, [FILTER_BOX] = 0.5,
    [FILTER_HAMMING] = 1.0, [FILTER_LANCZOS] = 3.0,  [FILTER_MASK] = 0.5,
};

static inline double filter_weight(enum filter filter, double x)
{
    switch (filter) {
    case FILTER_NEAREST:
    case FILTER_MASK: return 1.0;
    case FILTER_BILINEAR: return bilinear_filter(x);
    case FILTER_BICUBIC: return bicubic_filter(x);
    case FILTER_BOX: return box_filter(x);
    case FILTER_HAMMING: return hamming_filter(x);
    case FILTER_LANCZOS: return lanczos_filter(x);
    }
    CHECK(!"every filter has its case");
}

/* ── one side of a resize ────────────────────────────────────────────────────────────────────────────────────────── */

struct side {
    uint32_t in, full;    /* source pixels, and those that they are resized to */
    uint32_t from, count; /* the window */
    enum filter filter;
    bool mirror;
    double inset;     /* begin of the first output */
    double scale;     /* source pixels per output pixel */
    double widening;  /* factor by which the filter is widened */
    uint32_t reached; /* FILTER_NEAREST: the output last asked for, and where it looks */
    double position;
};

struct span {
    uint32_t first, count;
};

/* Pillow computes each position from the one before, so its rounding errors add up. This does the same. It is fast as
 * long as `at` grows. */
static struct span nearest_span(struct side *side, uint32_t at)
{
    if (at < side->reached || side->position == 0) {
        side->reached = 0;
        side->position = side->scale * 0.5;
    }
    for (; side->reached < at; side->reached++)
        side->position += side->scale;
    uint32_t pixel = (uint32_t)side->position;
    return (struct span){pixel < side->in ? pixel : side->in - 1, 1};
}

/* Torch computes in single precision. */
static struct span mask_span(const struct side *side, uint32_t at)
{
    uint32_t pixel = (uint32_t)floorf((float)at * ((float)side->in / (float)side->full));
    return (struct span){pixel < side->in ? pixel : side->in - 1, 1};
}

/* The source pixels under the filter for output `at`. */
static struct span side_span(struct side *side, uint32_t at)
{
    if (side->filter == FILTER_MASK)
        return mask_span(side, at);
    if (side->filter == FILTER_NEAREST)
        return nearest_span(side, at);
    double center = side->inset + (at + 0.5) * side->scale;
    double support = supports[side->filter] * side->widening;
    double low = center - support + 0.5, high = center + support + 0.5;
    uint32_t first = low < 0 ? 0 : (uint32_t)low;
    uint32_t end = high > side->in ? side->in : (uint32_t)high;
    return (struct span){first, end - first};
}

static void side_weights(const struct side *side, uint32_t at, struct span span, double *real, int32_t *weights)
{
    double center = side->inset + (at + 0.5) * side->scale, inverse = 1.0 / side->widening, sum = 0;
    for (uint32_t i = 0; i < span.count; i++) {
        real[i] = filter_weight(side->filter, (i + span.first - center + 0.5) * inverse);
        sum += real[i];
    }
    for (uint32_t i = 0; i < span.count; i++) {
        double weight = sum != 0.0 ? real[i] / sum : real[i];
        weights[i] = (int32_t)((weight < 0 ? -0.5 : 0.5) + weight * (1 << RESAMPLE_BITS));
    }
}

static struct side make_side(const struct geometry *geometry, double inset, double span, uint32_t full)
{
    struct side side = {
        .full = full, .filter = geometry->how.filter, .inset = inset, .scale = span / full, .widening = 1.0};
    if (geometry->how.antialias && side.scale > 1.0)
        side.widening = side.scale;
    return side;
}

static struct side side_x(const struct geometry *geometry)
{
    struct side side = make_side(geometry, geometry->inset_x, geometry->span_x, geometry->full_width);
    side.in = geometry->box.width;
    side.from = geometry->window.x;
    side.count = geometry->window.width;
    side.mirror = geometry->mirror_x;
    return side;
}

static struct side side_y(const struct geometry *geometry)
{
    struct side side = make_side(geometry, geometry->inset_y, geometry->span_y, geometry->full_height);
    side.in = geometry->box.height;
    side.from = geometry->window.y;
    side.count = geometry->window.height;
    side.mirror = geometry->mirror_y;
    return side;
}

/* Spans move to the right with their output, so the first and the last one bound all. */
static struct span side_needs(struct side *side)
{
    struct span first = side_span(side, side->from), last = side_span(side, side->from + side->count - 1);
    return (struct span){first.first, last.first + last.count - first.first};
}

static uint32_t padded(uint32_t count, uint32_t to)
{
    return (count + to - 1) / to * to;
}

static uint32_t widest_span(struct side *side)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < side->count; i++) {
        uint32_t count = side_span(side, side->from + i).count;
        most = count > most ? count : most;
    }
    return most;
}

/* Weights for the window, as the kernel wants them. */
static int axis_make(struct side *side, struct scratch *scratch, struct resample_axis *axis)
{
    const struct resample_kernel *kernel = kernels[simd_selected()];
    struct span needs = side_needs(side);
    uint32_t base = needs.first, outputs = padded(side->count, RESAMPLE_COLUMNS);
    size_t taps = padded(widest_span(side), RESAMPLE_GROUP), groups = taps / RESAMPLE_GROUP;
    double *real = scratch_take(scratch, taps * sizeof *real);
    *axis = (struct resample_axis){
        .count = side->count,
        .groups = (uint32_t)groups,
        .first = scratch_take(scratch, outputs * sizeof *axis->first),
        .weights = scratch_take(scratch, outputs * taps * sizeof *axis->weights),
    };
    if (!real || !axis->first || !axis->weights)
        return LARDER_ENOMEM;
    memset(axis->first, 0, outputs * sizeof *axis->first);
    memset(axis->weights, 0, outputs * taps * sizeof *axis->weights);
    for (uint32_t i = 0; i < side->count; i++) {
        uint32_t at = side->from + i, to = side->mirror ? side->count - 1 - i : i;
        struct span span = side_span(side, at);
        /* Whole groups are read: near the end the span begins earlier, behind weights of zero, so as not to pass it. */
        uint32_t first = span.first - base,
                 shift = first + taps > needs.count ? (uint32_t)(first + taps - needs.count) : 0;
        shift = shift < first ? shift : first;
        shift = shift < taps - span.count ? shift : (uint32_t)(taps - span.count);
        side_weights(side, at, span, real, axis->weights + to * taps + shift);
        axis->first[to] = (int32_t)(first - shift);
    }
    if (kernel->pack) {
        axis->packed = scratch_take(scratch, outputs * groups * kernel->packed_bytes);
        if (!axis->packed)
            return LARDER_ENOMEM;
        kernel->pack(axis->weights, outputs * groups, axis->packed);
    }
    return 0;
}

/* ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────── */

struct rect resample_needs(const struct geometry *geometry)
{
    if (!geometry->resized)
        return geometry->box;
    struct side x = side_x(geometry), y = side_y(geometry);
    struct span columns = side_needs(&x), rows = side_needs(&y);
    return (struct rect){geometry->box.x + columns.first, geometry->box.y + rows.first, columns.count, rows.count};
}

static void mirror_row(const uint8_t *from, uint8_t *to, uint32_t width)
{
    const uint8_t *in = from + (size_t)(width - 1) * IMAGE_CHANNELS;
    memcpy(to, in, IMAGE_CHANNELS);
    for (uint32_t x = 1; x + 1 < width; x++) {
        uint32_t four; /* the pixel, and a byte that the next one replaces: faster than three */
        to += IMAGE_CHANNELS, in -= IMAGE_CHANNELS;
        memcpy(&four, in, sizeof four);
        memcpy(to, &four, sizeof four);
    }
    if (width > 1)
        memcpy(to + IMAGE_CHANNELS, in - IMAGE_CHANNELS, IMAGE_CHANNELS);
}

static void copy(const struct geometry *geometry, const uint8_t *from, size_t stride, const struct image *out)
{
    for (uint32_t y = 0; y < out->height; y++) {
        const uint8_t *row = from + stride * (geometry->mirror_y ? out->height - 1 - y : y);
        if (geometry->mirror_x)
            mirror_row(row, image_row(out, y), out->width);
        else
            memcpy(image_row(out, y), row, (size_t)out->width * IMAGE_CHANNELS);
    }
}

struct passes {
    const struct resample_kernel *kernel;
    struct resample_axis columns, rows;
    const uint8_t *from; /* the source that is needed, width × height pixels */
    size_t stride;
    uint32_t width, height;
};

/* Memory for a row of the result's width for each source row. The kernel writes beyond both. */
static int take_middle(const struct passes *passes, struct scratch *scratch, struct image *middle)
{
    return scratch_image(scratch, padded(passes->columns.count, RESAMPLE_COLUMNS) + 2, passes->height + RESAMPLE_ROWS,
                         middle);
}

static void make_columns(const struct passes *passes, const struct image *middle, const struct image *out)
{
    for (uint32_t i = 0; i < out->height; i++)
        passes->kernel->vertical(&passes->rows, i, middle->data, middle->stride, out->width * IMAGE_CHANNELS,
                                 image_row(out, i));
}

/* A row for each source row that is needed, then the columns of those. */
static int along_rows_first(const struct passes *passes, const struct image *out, struct scratch *scratch)
{
    struct image middle;
    if (take_middle(passes, scratch, &middle))
        return LARDER_ENOMEM;
    passes->kernel->horizontal(&passes->columns, passes->from, passes->stride, passes->height, middle.data,
                               middle.stride);
    make_columns(passes, &middle, out);
    return 0;
}

/* A few of the result's rows at a time, which stay in the processor's cache from pass to pass. */
static int along_columns_first(const struct passes *passes, const struct image *out, struct scratch *scratch)
{
    struct image wide, narrow; /* narrow has room for what the kernel writes beyond the result */
    if (scratch_image(scratch, passes->width, RESAMPLE_ROWS, &wide) ||
        scratch_image(scratch, padded(out->width, RESAMPLE_COLUMNS) + 2, RESAMPLE_ROWS, &narrow))
        return LARDER_ENOMEM;
    for (uint32_t y = 0; y < out->height; y += RESAMPLE_ROWS) {
        uint32_t count = out->height - y < RESAMPLE_ROWS ? out->height - y : RESAMPLE_ROWS;
        for (uint32_t i = 0; i < count; i++)
            passes->kernel->vertical(&passes->rows, y + i, passes->from, passes->stride, passes->width * IMAGE_CHANNELS,
                                     image_row(&wide, i));
        passes->kernel->horizontal(&passes->columns, wide.data, wide.stride, count, narrow.data, narrow.stride);
        for (uint32_t i = 0; i < count; i++)
            memcpy(image_row(out, y + i), image_row(&narrow, i), (size_t)out->width * IMAGE_CHANNELS);
    }
    return 0;
}

/* As Pillow decides since version 13. The sizes are those of the whole resize, whatever the window. */
static bool columns_go_first(const struct geometry *geometry)
{
    int64_t rows_less = (int64_t)geometry->box.height - geometry->full_height;
    int64_t columns_less = (int64_t)geometry->box.width - geometry->full_width;
    return rows_less > 0 && rows_less > 2 * columns_less;
}

/* All but where the source is. */
static int make_passes(const struct geometry *geometry, struct rect needs, struct scratch *scratch,
                       struct passes *passes)
{
    struct side along_x = side_x(geometry), along_y = side_y(geometry);
    *passes = (struct passes){.kernel = kernels[simd_selected()], .width = needs.width, .height = needs.height};
    return axis_make(&along_x, scratch, &passes->columns) || axis_make(&along_y, scratch, &passes->rows) ? LARDER_ENOMEM
                                                                                                         : 0;
}

/* take_each copies one source pixel to each of the result, as FILTER_MASK does. `source` begins with what is needed. */
static int take_each(const struct geometry *geometry, const struct image *source, const struct image *out,
                     struct scratch *scratch)
{
    const struct map_rows *version = map_versions[simd_selected()];
    struct side sides[] = {side_x(geometry), side_y(geometry)};
    uint32_t *places[2], *columns, *rows;
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        uint32_t base = side_needs(side).first, unit = i == 0 ? IMAGE_CHANNELS : 1;
        places[i] = scratch_take(scratch, side->count * sizeof *places[i]);
        if (!places[i])
            return LARDER_ENOMEM;
        for (uint32_t at = 0; at < side->count; at++)
            places[i][side->mirror ? side->count - 1 - at : at] = unit *
                                                                  (side_span(side, side->from + at).first - base);
    }
    columns = places[0], rows = places[1];
    for (uint32_t y = 0; y < out->height; y++) {
        if (y > 0 && rows[y] == rows[y - 1])
            memcpy(image_row(out, y), image_row(out, y - 1), (size_t)out->width * IMAGE_CHANNELS);
        else
            version->take(image_row(source, rows[y]), columns, out->width, image_row(out, y));
    }
    return 0;
}

int resample(const struct geometry *geometry, const struct image *source, uint32_t x, uint32_t y,
             const struct image *out, struct scratch *scratch)
{
    struct rect needs = resample_needs(geometry);
    CHECK(needs.x >= x && needs.x - x + needs.width <= source->width);
    CHECK(needs.y >= y && needs.y - y + needs.height <= source->height);
    CHECK(out->width == geometry->window.width && out->height == geometry->window.height);
    const uint8_t *from = image_row(source, needs.y - y) + (size_t)(needs.x - x) * IMAGE_CHANNELS;
    if (!geometry->resized) {
        copy(geometry, from, source->stride, out);
        return 0;
    }
    if (geometry->how.filter == FILTER_MASK) {
        struct image begin = {(uint8_t *)from, source->stride, needs.width, needs.height};
        return take_each(geometry, &begin, out, scratch);
    }
    struct passes passes;
    if (make_passes(geometry, needs, scratch, &passes))
        return LARDER_ENOMEM;
    passes.from = from;
    passes.stride = source->stride;
    return columns_go_first(geometry) ? along_columns_first(&passes, out, scratch)
                                      : along_rows_first(&passes, out, scratch);
}

/* ── rows that come a few at a time ──────────────────────────────────────────────────────────────────────────────── */

bool resample_takes_rows(const struct geometry *geometry)
{
    return geometry->resized && geometry->how.filter != FILTER_MASK && !columns_go_first(geometry);
}

static int begin_rows(struct resample_rows *rows)
{
    struct passes *passes = scratch_take(rows->scratch, sizeof *passes);
    if (!passes || make_passes(rows->geometry, resample_needs(rows->geometry), rows->scratch, passes) ||
        take_middle(passes, rows->scratch, &rows->middle))
        return LARDER_ENOMEM;
    rows->passes = passes;
    return 0;
}

int resample_take_rows(struct resample_rows *rows, uint32_t y, const uint8_t *from, size_t stride, uint32_t count)
{
    if (!rows->passes && begin_rows(rows))
        return LARDER_ENOMEM;
    CHECK(y <= rows->passes->height && count <= rows->passes->height - y);
    rows->passes->kernel->horizontal(&rows->passes->columns, from, stride, count, image_row(&rows->middle, y),
                                     rows->middle.stride);
    return 0;
}

void resample_columns(const struct resample_rows *rows, const struct image *out)
{
    make_columns(rows->passes, &rows->middle, out);
}
