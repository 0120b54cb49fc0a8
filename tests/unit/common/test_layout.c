/* test_layout.c: proves what a sound layout of samples is, and that every other one is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/layout.h"

static const struct image_shape photo = {
    .height = 5, .width = 7, .channels = 3, .dtype = PIXEL_FLOAT16, .layout = LAYOUT_CHW};

static struct sample_field image_field(const char *name, uint32_t offset, uint32_t height, uint32_t width)
{
    struct sample_field field = {.kind = FIELD_IMAGE_HWC, .rank = 3, .dims = {height, width, 1}, .offset = offset};
    memcpy(field.name, name, strlen(name));
    return field;
}

/* three_fields is the layout that the tests of refusals spoil: 6 bytes, 24 bytes from byte 8 on, 1 byte. */
static struct sample_layout three_fields(void)
{
    struct sample_layout layout = {.n = 3,
                                   .fields = {image_field("small", 0, 2, 3), image_field("large_2", 8, 2, 3),
                                              image_field("abcdefghijklmnopqrstuvw", 32, 1, 1)},
                                   .bytes = 33};
    layout.fields[1].dtype = PIXEL_FLOAT32;
    return layout;
}

/* An image is one field whose dims stand in the order of its kind; it and its bytes are found again. */
static void an_image_is_one_field(void **state)
{
    (void)state;
    struct sample_layout layout = sample_layout_of_image(&photo);
    const struct sample_field *field = &layout.fields[0];
    assert_int_equal(sample_layout_check(&layout, NULL), 0);
    assert_int_equal(layout.n, 1);
    assert_int_equal(layout.bytes, 5 * 7 * 3 * 2);
    assert_string_equal(field->name, "image");
    assert_int_equal(field->kind, FIELD_IMAGE_CHW);
    assert_int_equal(field->dtype, PIXEL_FLOAT16);
    assert_int_equal(field->offset, 0);
    const uint32_t dims[SAMPLE_DIMS_MAX] = {3, 5, 7, 0};
    assert_memory_equal(field->dims, dims, sizeof dims);
    for (int order = LAYOUT_HWC; order <= LAYOUT_CHW; order++) {
        struct image_shape image = photo, found;
        image.layout = (enum pixel_layout)order;
        layout = sample_layout_of_image(&image);
        assert_true(sample_layout_image(&layout, &found));
        assert_true(found.height == 5 && found.width == 7 && found.channels == 3 && found.dtype == PIXEL_FLOAT16);
        assert_int_equal(found.layout, order);
    }
}

/* Encoded bytes, samples of several fields, and an image that does not begin its slot are no image. */
static void other_layouts_are_no_image(void **state)
{
    (void)state;
    struct image_shape found = photo;
    struct sample_layout encoded = {0}, several = three_fields();
    assert_int_equal(sample_layout_check(&encoded, NULL), 0);
    assert_int_equal(sample_layout_check(&several, NULL), 0);
    assert_false(sample_layout_image(&encoded, &found));
    assert_false(sample_layout_image(&several, &found));
    struct sample_layout apart = sample_layout_of_image(&photo);
    apart.fields[0].offset = 64;
    apart.bytes += 64;
    assert_int_equal(sample_layout_check(&apart, NULL), 0);
    assert_false(sample_layout_image(&apart, &found));
    assert_int_equal(found.height, photo.height);
}

/* The most that a layout can have is sound: all fields, and a slot of 4 GiB but one byte. */
static void bounds_are_sound(void **state)
{
    (void)state;
    struct sample_layout most = {.n = SAMPLE_FIELDS_MAX, .bytes = SAMPLE_FIELDS_MAX};
    for (uint32_t i = 0; i < SAMPLE_FIELDS_MAX; i++) {
        most.fields[i] = image_field("f", i, 1, 1);
        most.fields[i].name[1] = (char)('a' + i);
    }
    assert_int_equal(sample_layout_check(&most, NULL), 0);
    struct sample_layout large = {.n = 1, .fields = {image_field("f", 0, UINT32_MAX, 1)}, .bytes = UINT32_MAX};
    assert_int_equal(sample_layout_check(&large, NULL), 0);
}

/* A layout with a dim of 0 has no offsets, and room for its head; heads of its slots are read back, and checked. */
static void ragged_layouts(void **state)
{
    (void)state;
    struct sample_layout layout = {
        .n = 2, .fields = {image_field("image", 0, 0, 0), image_field("b", 0, 0, 4)}, .bytes = 64 + 1000};
    struct image_shape found;
    layout.fields[1].kind = FIELD_ARRAY;
    layout.fields[1].dtype = PIXEL_FLOAT32;
    assert_int_equal(sample_layout_check(&layout, NULL), 0);
    assert_true(sample_layout_is_ragged(&layout));
    assert_int_equal(sample_head_bytes(2), 64);
    assert_int_equal(sample_head_bytes(3), 128);
    struct sample_layout alone = layout;
    alone.n = 1;
    assert_false(sample_layout_image(&alone, &found));
    uint8_t slot[64];
    memset(slot, 0xff, sizeof slot);
    struct field_place place = {.offset = 64, .dims = {3, 5, 1}};
    sample_head_put(slot, 1, &place);
    struct field_place read = sample_head_get(slot, 1);
    assert_memory_equal(&read, &place, sizeof place);
    assert_true(sample_head_check(&layout, 0, &place, 64 + 15));
    assert_false(sample_head_check(&layout, 0, &place, 64 + 14));
    assert_false(sample_head_check(&layout, 1, &place, 4096)); /* its second dim is 4 */
    const struct field_place wrong[] = {{.offset = 0, .dims = {3, 5, 1}},
                                        {.offset = 32, .dims = {3, 5, 1}},
                                        {.offset = 65, .dims = {3, 5, 1}},
                                        {.offset = 128, .dims = {3, 5, 1}},
                                        {.offset = UINT32_MAX - 63, .dims = {3, 5, 1}},
                                        {.offset = 64, .dims = {3, 5, 3}},
                                        {.offset = 64, .dims = {3, 5, 1, 1}},
                                        {.offset = 64, .dims = {UINT32_MAX, UINT32_MAX, 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(sample_head_check(&layout, 0, &wrong[i], 100));
    place = (struct field_place){.offset = 64, .dims = {0, 4, 1}}; /* no rows */
    assert_true(sample_head_check(&layout, 1, &place, 64));
}

static void assert_refused(const struct sample_layout *layout, const char *text)
{
    struct error err = {0};
    assert_int_equal(sample_layout_check(layout, &err), LARDER_EINVAL);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" has no \"%s\"", err.text, text);
}

#define REFUSED(change, text)                         \
    do {                                              \
        struct sample_layout layout = three_fields(); \
        struct sample_field *field = layout.fields;   \
        (void)field;                                  \
        change;                                       \
        assert_refused(&layout, text);                \
    } while (0)

/* A name is a letter and then letters, digits and '_', with bytes of 0 behind it, and no two fields have the same. */
static void names_are_checked(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "2d", "_a", "Mask", "maskA", "a b", "a-b", "a.b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSED(memset(field[1].name, 0, sizeof field[1].name);
                memcpy(field[1].name, wrong[i], strlen(wrong[i])), "field 1 has no name of 1 to 23 lower-case letters");
    REFUSED(memset(field[0].name, 'a', sizeof field[0].name), "field 0 has no name"); /* it does not end */
    REFUSED(field[0].name[SAMPLE_NAME_BYTES - 1] = 'x', "field 0 has no name");       /* something behind its end */
    REFUSED(field[0].name[5] = '\n', "field 0 has no name");
    REFUSED(memcpy(field[2].name, field[0].name, SAMPLE_NAME_BYTES), "two fields are called small");
}

/* Each part of a field has its range; nothing lies outside the slot, in another field, or across 4 GiB. */
static void fields_are_checked(void **state)
{
    (void)state;
    REFUSED(layout.n = SAMPLE_FIELDS_MAX + 1, "17 fields, more than the 16 allowed");
    REFUSED(layout.n = UINT32_MAX, "more than the 16 allowed");
    REFUSED(field[1].kind = FIELD_MASK, "field large_2 has dtype 2, which is unknown");
    REFUSED(field[1].kind = FIELD_MASK + 1, "field large_2 is of kind 4, which is unknown");
    REFUSED(field[1].kind = (enum field_kind)UINT32_MAX, "which is unknown");
    REFUSED(field[1].dtype = PIXEL_FLOAT64 + 1, "field large_2 has dtype 8, which is unknown");
    REFUSED(field[1].dtype = PIXEL_INT16, "field large_2 has dtype 3, which is unknown or not for its kind");
    REFUSED(field[1].dtype = (enum pixel_dtype)UINT32_MAX, "which is unknown");
    for (uint32_t rank = 0; rank < 6; rank++) {
        if (rank != 3)
            REFUSED(field[0].rank = rank, "field small is an image with");
    }
    REFUSED(field[0].rank = UINT32_MAX, "field small is an image with");
    REFUSED((field[0].kind = FIELD_ARRAY, field[0].rank = 5), "field small has 5 dims, not 1 to 4");
    REFUSED((field[0].kind = FIELD_ARRAY, field[0].rank = 0), "field small has 0 dims, not 1 to 4");
    REFUSED(field[0].dims[0] = 0, "field large_2 has an offset, and samples differ in size");
    REFUSED(field[0].dims[2] = 0, "dim 2 is 0");
    REFUSED(field[0].dims[3] = 1, "dim 3 is 1");
    REFUSED(field[1].dims[0] = UINT32_MAX, "field large_2 ends beyond 4 GiB");
    REFUSED(field[2].dims[0] = field[2].dims[1] = field[2].dims[2] = UINT32_MAX, "ends beyond 4 GiB");
    REFUSED(field[2].dims[0] = field[2].dims[1] = 1u << 16, "ends beyond 4 GiB"); /* 0, if it wrapped around */
    REFUSED(field[2].offset = UINT32_MAX, "ends beyond 4 GiB");
    REFUSED(field[1].offset = 6, "field large_2 begins at byte 6, which is no multiple of 4");
    REFUSED(field[1].offset = 4, "field large_2 begins at byte 4, and field small before it ends at 6");
    REFUSED(field[2].offset = 31, "before it ends at 32");
    REFUSED(field[2].offset = 7, "before it ends at 32"); /* between the others, but not in order */
    REFUSED(layout.bytes = 32, "a sample of 32 bytes end at byte 33");
    REFUSED(layout.bytes = 34, "a sample of 34 bytes end at byte 33");
    REFUSED(layout.bytes = UINT64_MAX, "end at byte 33");
    REFUSED(layout.n = 0, "a sample of 33 bytes end at byte 0");
}

/* Two layouts are the same when nothing in their fields differs; what lies behind the fields does not count. */
static void differences_are_seen(void **state)
{
    (void)state;
    struct sample_layout a = three_fields(), b = three_fields();
    b.fields[3] = image_field("more", 5, 1, 1);
    assert_true(sample_layout_same(&a, &b));
#define DIFFERS(change)                           \
    do {                                          \
        b = three_fields();                       \
        change;                                   \
        assert_false(sample_layout_same(&a, &b)); \
    } while (0)
    DIFFERS(b.n = 2);
    DIFFERS(b.bytes++);
    DIFFERS(b.fields[2].name[3] = 'x');
    DIFFERS(b.fields[0].kind = FIELD_IMAGE_CHW);
    DIFFERS(b.fields[0].dtype = PIXEL_FLOAT32);
    DIFFERS(b.fields[0].rank = 2);
    DIFFERS(b.fields[2].dims[1] = 2);
    DIFFERS(b.fields[2].offset++);
    struct sample_layout encoded = {0};
    assert_true(sample_layout_same(&encoded, &encoded));
    assert_false(sample_layout_same(&encoded, &a));
}

/* A mask has two dims and whole numbers, and an image has no others than those of 8 bits. */
static void masks_are_checked(void **state)
{
    (void)state;
    struct sample_layout layout = {.n = 1, .fields = {{.name = "mask", .kind = FIELD_MASK, .rank = 2, .dims = {3, 5}}}};
    for (enum pixel_dtype dtype = PIXEL_UINT8; dtype <= PIXEL_FLOAT64 + 1; dtype++) {
        bool of_masks = dtype == PIXEL_UINT8 || dtype == PIXEL_INT32 || dtype == PIXEL_INT64;
        layout.fields[0].dtype = dtype;
        layout.bytes = UINT64_C(15) * pixel_dtype_bytes(dtype);
        assert_int_equal(sample_layout_check(&layout, NULL) == 0, of_masks);
    }
    char text[SAMPLE_LAYOUT_TEXT_MAX];
    struct image_shape image;
    layout.fields[0].dtype = PIXEL_INT32;
    sample_layout_text(&layout, text);
    assert_string_equal(text, "mask int32 HW of 3x5");
    assert_false(sample_layout_image(&layout, &image));
}

/* Numbers have the size that their name says; one of an unknown type has none. */
static void numbers_have_sizes(void **state)
{
    (void)state;
    assert_int_equal(pixel_dtype_bytes(PIXEL_UINT8), 1);
    assert_int_equal(pixel_dtype_bytes(PIXEL_FLOAT16), 2);
    assert_int_equal(pixel_dtype_bytes(PIXEL_FLOAT32), 4);
    assert_int_equal(pixel_dtype_bytes(PIXEL_INT32), 4);
    assert_int_equal(pixel_dtype_bytes(PIXEL_INT64), 8);
    assert_int_equal(pixel_dtype_bytes(PIXEL_FLOAT64 + 1), 0);
    assert_int_equal(pixel_dtype_bytes((enum pixel_dtype)UINT32_MAX), 0);
}

/* The text has names, types and sizes, and never more than its room. */
static void text_is_cut_off(void **state)
{
    (void)state;
    char text[SAMPLE_LAYOUT_TEXT_MAX + 1];
    struct sample_layout layout = sample_layout_of_image(&photo), encoded = {0}, most = {.n = SAMPLE_FIELDS_MAX};
    sample_layout_text(&layout, text);
    assert_string_equal(text, "image float16 CHW of 3x5x7");
    sample_layout_text(&encoded, text);
    assert_string_equal(text, "encoded bytes");
    layout = three_fields();
    layout.n = 2;
    sample_layout_text(&layout, text);
    assert_string_equal(text, "small uint8 HWC of 2x3x1, large_2 float32 HWC of 2x3x1");
    for (uint32_t i = 0; i < SAMPLE_FIELDS_MAX; i++)
        most.fields[i] = image_field("abcdefghijklmnopqrstuvw", 0, UINT32_MAX - i, UINT32_MAX);
    text[SAMPLE_LAYOUT_TEXT_MAX] = 'z';
    sample_layout_text(&most, text);
    assert_int_equal(strlen(text), SAMPLE_LAYOUT_TEXT_MAX - 1);
    assert_int_equal(text[SAMPLE_LAYOUT_TEXT_MAX], 'z');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_is_one_field), cmocka_unit_test(other_layouts_are_no_image),
        cmocka_unit_test(bounds_are_sound),      cmocka_unit_test(names_are_checked),
        cmocka_unit_test(fields_are_checked),    cmocka_unit_test(differences_are_seen),
        cmocka_unit_test(masks_are_checked),     cmocka_unit_test(numbers_have_sizes),
        cmocka_unit_test(text_is_cut_off),       cmocka_unit_test(ragged_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
