/* test_packed_pixels.c: what is prepared from a JPEG as `larder pack` writes it with --restart-rows, and with --planes,
 * is what its original gives, for many images and draws.
 *
 * Half of the images are taken as they are. The others are cut to odd sizes and written in one form after the other:
 * each sampling of chroma, grey, baseline and progressive. The images are made here, or read from LARDER_TEST_IMAGES, a
 * folder. LARDER_PACKED_IMAGES says how many (60 unless set), LARDER_PACKED_DRAWS how many draws each random pipeline
 * takes of one (4 unless set); 1000 and 20 are the full measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "prepare_fixture.h"
#include "preprocess/command_files.h"
#include "preprocess/decode/jpeg_rewrite.h"

#define IMAGES_BYTES_MAX ((uint64_t)4 << 30)
#define ODD 16 /* up to so many pixels are cut off */

static const struct {
    const char *json;
    bool random;
} pipelines[] = {
    {"[{\"random_resized_crop\": {\"size\": 224}}, \"random_horizontal_flip\"]", true},
    {"[{\"random_resized_crop\": {\"size\": 32, \"dct_scaling\": true}}, \"random_horizontal_flip\"]", true},
    {"[{\"random_resized_crop\": {\"size\": 9, \"scale\": [0.5, 1], \"dct_scaling\": true}}]", true},
    {"[{\"random_crop\": {\"size\": 128, \"pad_if_needed\": true}}]", true},
    {"[{\"resize\": {\"size\": 256}}, {\"center_crop\": {\"size\": 224}}]", false},
    {"[{\"resize\": {\"size\": 40, \"dct_scaling\": true}}, {\"center_crop\": {\"size\": 32}}]", false},
};

static const struct jpeg_form forms[] = {
    {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 85, 0, 0},
    {3, 4, 1, false, 80, 0, 0}, {1, 1, 1, false, 90, 0, 0}, {3, 1, 1, true, 90, 0, 0},  {3, 2, 1, true, 75, 0, 0},
    {3, 2, 2, true, 75, 0, 0},  {3, 1, 2, true, 85, 0, 0},  {1, 1, 1, true, 80, 0, 0},
};
#define FORMS (sizeof forms / sizeof *forms)

struct counts {
    uint64_t images, rewritten, in_planes, kept, compared;
};

static unsigned number_of(const char *name, unsigned unless_set)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : unless_set;
}

/* Compares one draw. A photograph may be too damaged to prepare: its rewritten form must be so too. */
static void compare_draw(const struct encoded *plain, const struct encoded *packed, const char *json, uint64_t draw,
                         const char *name, struct counts *counts)
{
    struct made a = prepare(plain, json, draw), b = prepare(packed, json, draw);
    if (a.rc != b.rc)
        fail_msg("%s: %s: %s%s", name, json, a.err.text, b.err.text);
    if (a.rc == 0 && memcmp(a.pixels, b.pixels, a.bytes) != 0)
        fail_msg("%s: %s draw %d differs between an image and what is packed of it", name, json, (int)draw);
    counts->compared += a.rc == 0;
    free(a.pixels);
    free(b.pixels);
}

static void check_restored(const struct encoded *planes, const struct encoded *packed, const char *name)
{
    struct encoded back = {0};
    back.data = jpeg_rewrite(planes->data, planes->len_bytes, JPEG_REWRITE_MCUS, &back.len_bytes);
    if (!back.data || back.len_bytes != packed->len_bytes || memcmp(back.data, packed->data, back.len_bytes) != 0)
        fail_msg("%s: what comes back from planes is not the JPEG that went in", name);
    encoded_free(&back);
}

/* Gives whether the image is one that is rewritten. */
static bool compare(const struct encoded *plain, uint64_t image, const char *name, struct counts *counts)
{
    unsigned draws = number_of("LARDER_PACKED_DRAWS", 4);
    struct encoded packed = {0};
    packed.data = jpeg_rewrite(plain->data, plain->len_bytes, JPEG_REWRITE_MCUS, &packed.len_bytes);
    counts->images++;
    if (!packed.data) {
        counts->kept++;
        return false;
    }
    counts->rewritten++;
    struct encoded planes = {0};
    planes.data = jpeg_rewrite_in_planes(plain->data, plain->len_bytes, &planes.len_bytes);
    counts->in_planes += planes.data != NULL;
    for (size_t p = 0; p < sizeof pipelines / sizeof *pipelines; p++) {
        for (unsigned draw = 0; draw < (pipelines[p].random ? draws : 1); draw++) {
            compare_draw(plain, &packed, pipelines[p].json, image * draws + draw, name, counts);
            if (planes.data)
                compare_draw(plain, &planes, pipelines[p].json, image * draws + draw, name, counts);
        }
    }
    if (planes.data)
        check_restored(&planes, &packed, name);
    encoded_free(&planes);
    encoded_free(&packed);
    return true;
}

/* The image in another form, with up to ODD - 1 columns and rows less. It must be one that is rewritten. */
static void compare_in_form(const uint8_t *rgb, uint32_t width, uint32_t height, uint64_t image, const char *name,
                            struct counts *counts)
{
    const struct jpeg_form *form = &forms[image % FORMS];
    uint32_t less_x = (uint32_t)(image % ODD), less_y = (uint32_t)(image / ODD % ODD);
    uint32_t columns = width > less_x ? width - less_x : 1, rows = height > less_y ? height - less_y : 1;
    size_t step = (size_t)form->components;
    uint8_t *cut = xmalloc((size_t)columns * rows * step), *to = cut;
    for (uint32_t y = 0; y < rows; y++) {
        for (uint32_t x = 0; x < columns; x++, to += step)
            memcpy(to, rgb + ((size_t)y * width + x) * 3, step);
    }
    struct encoded made = encode_jpeg(cut, columns, rows, form);
    char text[512];
    snprintf(text, sizeof text, "%s in form %d, %u x %u", name, (int)(image % FORMS), columns, rows);
    if (!compare(&made, image, text, counts))
        fail_msg("%s was not rewritten", text);
    encoded_free(&made);
    free(cut);
}

static void compare_both(const struct encoded *plain, uint64_t image, const char *name, struct counts *counts)
{
    if (!compare(plain, image, name, counts))
        return; /* decode_plain takes grey and colours only, whole */
    uint32_t width, height;
    uint8_t *rgb = decode_plain(plain, &width, &height);
    compare_in_form(rgb, width, height, image + 1, name, counts);
    free(rgb);
}

static void compare_made(unsigned images, struct counts *counts)
{
    for (uint64_t i = 0; i < images; i += 2) {
        uint32_t width = 180 + (uint32_t)(i * 37 % 200), height = 150 + (uint32_t)(i * 53 % 180);
        uint8_t *pixels = picture(width, height, 3, i);
        struct encoded plain = encode_jpeg(pixels, width, height, &forms[i / 2 % 5]);
        char name[32];
        snprintf(name, sizeof name, "picture %d", (int)i);
        compare_both(&plain, i, name, counts);
        encoded_free(&plain);
        free(pixels);
    }
}

static void compare_read(const char *folder, unsigned images, struct counts *counts)
{
    struct command_files files;
    struct error err;
    if (command_files_read(folder, IMAGES_BYTES_MAX, &files, &err))
        fail_msg("%s", err.text);
    assert_true(files.count > 0);
    size_t apart = files.count * 2 / (images ? images : 1);
    for (uint64_t i = 0; i < images; i += 2) {
        const struct command_file *file = &files.items[i / 2 * (apart ? apart : 1) % files.count];
        compare_both(&(struct encoded){file->data, file->len_bytes}, i, file->path, counts);
    }
    command_files_free(&files);
}

/* Proves: packing with restart rows changes no pixel of what pipelines make, decoded at full size or at a fraction. */
static void test_same_pixels(void **state)
{
    (void)state;
    unsigned images = number_of("LARDER_PACKED_IMAGES", 60);
    const char *folder = getenv("LARDER_TEST_IMAGES");
    struct counts counts = {0};
    if (folder)
        compare_read(folder, images, &counts);
    else
        compare_made(images, &counts);
    print_message(
        "%d images, %d of them rewritten, %d in planes, %d kept as they are; %d outputs compared, all equal\n",
        (int)counts.images, (int)counts.rewritten, (int)counts.in_planes, (int)counts.kept, (int)counts.compared);
    assert_true(counts.compared > 0 && counts.in_planes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_pixels)};
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
