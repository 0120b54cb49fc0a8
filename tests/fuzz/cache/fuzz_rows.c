/* fuzz_rows.c: proves that no cell of a column makes rows of numbers, or masks, that cannot be read back or drawn, or
 * are larger than they may be; what is no such cell is refused with a text. The cells are the lines of the input. */
#include <stdlib.h>
#include <string.h>

#include "cache/source/rows.h"
#include "common/check.h"
#include "preprocess/mask_shapes.h"
#include "tests/fuzz/fuzz.h"

#define SAMPLES 4

static const char *texts[SAMPLES];
static size_t lengths[SAMPLES];

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "[[1, 2.5, -3, 4e3]]\n[]\n\n[[0, 0, 1, 1], [5, 6, 7, 8]]",
        "[3, 1, 9007199254740992]\n[0.5]\n[]\n[7]",
        "[[[1, 2], [3, 4]]]\n[[[5, 6], [7, 8]], [[1, 1], [2, 2]]]\n[]\n",
        "[[[0, 0, 9, 0, 9.5, 7, 2, 8]], [], [[-3, 2, 40, 9, 8, 8], [1, 1, 1, 5, 5, 5]]]\n[]\n\n[[[1, 2, 3, 4]]]",
        "[{\"size\": [4, 3], \"counts\": [2, 5, 5]}]\n[{\"size\": [4, 3], \"counts\": \"255\"}]\n[]\n"
        "[{\"size\": [1, 1], \"counts\": [0, 1]}]",
        "[[1, 2], [3]]\n[[[[[1]]]]]\nnull\n{\"a\": 1}",
        "[1e39]\n[9223372036854775807]\n[true]\n\"text\""};
    if (number >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[number]);
    CHECK(len <= cap);
    memcpy(buf, seeds[number], len);
    return len;
}

static int column(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
                  struct error *err)
{
    (void)source, (void)name, (void)interrupt, (void)err;
    int code = 0;
    for (int i = 0; i < SAMPLES && !code; i++)
        code = cells_add(cells, texts[i], lengths[i]);
    return code;
}

static const struct source_kind container_kind = {
    .name = "a container", .bytes = sizeof(struct source), .column = column};

static void check_rows(const struct source *made)
{
    struct part_rows about = rows_about(made);
    struct sample_rows rows;
    uint8_t *bytes;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        size_t len = index_size(&made->index, i);
        struct sample_read read = {.index = i, .buf = bytes = malloc(len)};
        CHECK(bytes && made->kind->read(made, &read, 1, 0) == 0);
        CHECK(sample_rows_read(bytes, len, &rows, NULL) == 0);
        CHECK(rows.count <= about.most && (rows.count == 0 || rows.width == about.width));
        CHECK(about.most <= SAMPLE_ROWS_MAX && about.width <= SAMPLE_ROW_NUMBERS_MAX);
        free(bytes);
    }
}

/* draw draws all shapes in the lower half of an image, as many together as go. */
static void draw(struct sample_masks masks)
{
    static uint8_t pixels[20 * 64];
    struct mask_canvas canvas = {
        .image = {.data = pixels, .stride = 64, .width = 20, .height = 20}, .rect = {3, 20, 20, 20}, .height = 40};
    mask_canvas_clear(&canvas);
    for (uint32_t i = 0; i < masks.shapes; i++) {
        struct mask_shape shape = sample_masks_next(&masks);
        CHECK(shape.mask < masks.count);
        if (shape.height == 0 || (shape.height == 40 && shape.width >= 23))
            (void)mask_canvas_outline(&canvas, &shape, i % MASK_SHAPES_TOGETHER);
    }
    mask_canvas_fill(&canvas);
}

static void check_masks(const struct source *made)
{
    struct sample_masks masks;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        size_t len = index_size(&made->index, i);
        uint8_t *bytes = malloc(len);
        struct sample_read read = {.index = i, .buf = bytes};
        CHECK(bytes && made->kind->read(made, &read, 1, 0) == 0);
        CHECK(sample_masks_read(bytes, len, &masks, NULL) == 0 && masks.count <= rows_about(made).most);
        draw(masks);
        free(bytes);
    }
}

/* Damaged masks are refused, or can be drawn: the input as they are. */
static void check_bytes(const uint8_t *data, size_t size)
{
    struct sample_masks masks;
    struct error err = {0};
    if (sample_masks_read(data, size, &masks, &err) == 0)
        draw(masks);
    else
        CHECK(err.text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char root[] = "/";
    static char strings[] = "k";
    struct index_sample samples[SAMPLES] = {{0}};
    struct source container = {.kind = &container_kind};
    struct source *made = NULL;
    struct error err = {0};
    const char *at = (const char *)data, *end = at + size;
    for (int i = 0; i < SAMPLES; i++) {
        const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        texts[i] = at;
        lengths[i] = (size_t)((line ? line : end) - at);
        at = line ? line + 1 : end;
    }
    container.index = (struct index){.root = root,
                                     .text = root,
                                     .strings = strings,
                                     .strings_len_bytes = sizeof strings,
                                     .samples = samples,
                                     .sample_count = SAMPLES};
    const struct source_wish wish = {.part = "column"};
    for (int masks = 0; masks < 2; masks++) {
        err = (struct error){0};
        if (rows_index(&container, &wish, masks, &made, &err)) {
            CHECK(err.code < 0 && err.text[0] != '\0' && !made);
            continue;
        }
        if (masks)
            check_masks(made);
        else
            check_rows(made);
        source_free(&made);
    }
    check_bytes(data, size);
    return 0;
}
