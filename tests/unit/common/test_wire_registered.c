/* test_wire_registered.c: what a sample looks like, as REGISTERED says it in each version of the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/little_endian.h"
#include "common/wire.h"
#include "tests/unit/common/wire_fixture.h"

/* bytes_of turns hexadecimal digits into bytes and returns how many there are. */
static size_t bytes_of(const char *digits, uint8_t *out)
{
    size_t len = strlen(digits) / 2;
    for (size_t i = 0; i < len; i++) {
        const char pair[] = {digits[2 * i], digits[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return len;
}

/* REGISTERED has these bytes in each version: an older release gets to the byte what the one of version 7 sent it (its
 * own codec made those of versions 4 to 7). Decoded, they say the same in all versions, but for what one lacks. */
static void registered_has_known_bytes(void **state)
{
    (void)state;
    static const struct {
        uint16_t version;
        bool image;
        const char *digits;
    } known[] = {
        {4, true,
         "4c44523104000400020000005e0000000100000014000000040000000300000002000000040000000300000001000000"
         "01000000050000000600000007000000300000000000000008000000000000000900000000000000020000006d65"},
        {4, false,
         "4c44523104000400020000005e0000000100000014000000040000000300000000000000000000000000000000000000"
         "000000000500000006000000070000004d0000000000000008000000000000000900000000000000020000006d65"},
        {5, true,
         "4c4452310500040002000000760000000100000014000000040000000300000002000000040000000300000001000000"
         "010000000500000006000000070000003000000000000000080000000000000009000000000000000a00000000000000"
         "0b000000000000001900000000000000020000006d65"},
        {5, false,
         "4c4452310500040002000000760000000100000014000000040000000300000000000000000000000000000000000000"
         "000000000500000006000000070000004d00000000000000080000000000000009000000000000000a00000000000000"
         "0b000000000000001900000000000000020000006d65"},
        {6, true,
         "4c4452310600040002000000760000000100000014000000040000000300000002000000040000000300000001000000"
         "010000000500000006000000070000003000000000000000080000000000000009000000000000000a00000000000000"
         "0b000000000000001900000000000000020000006d65"},
        {6, false,
         "4c4452310600040002000000760000000100000014000000040000000300000000000000000000000000000000000000"
         "000000000500000006000000070000004d00000000000000080000000000000009000000000000000a00000000000000"
         "0b000000000000001900000000000000020000006d65"},
        {7, true,
         "4c4452310700040002000000960000000100000014000000040000000300000002000000040000000300000001000000"
         "010000000500000006000000070000003000000000000000080000000000000009000000000000000a00000000000000"
         "0b0000000000000019000000000000000c000000000000000d000000000000000e000000000000000f00000000000000"
         "020000006d65"},
        {7, false,
         "4c4452310700040002000000960000000100000014000000040000000300000000000000000000000000000000000000"
         "000000000500000006000000070000004d00000000000000080000000000000009000000000000000a00000000000000"
         "0b0000000000000019000000000000000c000000000000000d000000000000000e000000000000000f00000000000000"
         "020000006d65"},
        {8, true,
         "4c4452310800040002000000ba0000000100000014000000040000000300000005000000060000000700000030000000"
         "00000000080000000000000009000000000000000a000000000000000b0000000000000019000000010000000c000000"
         "000000000d000000000000000e000000000000000f00000000000000696d616765000000000000000000000000000000"
         "000000000100000001000000030000000300000002000000040000000000000000000000020000006d65"},
        {8, false,
         "4c445231080004000200000082000000010000001400000004000000030000000500000006000000070000004d000000"
         "00000000080000000000000009000000000000000a000000000000000b0000000000000019000000000000000c000000"
         "000000000d000000000000000e000000000000000f00000000000000020000006d65"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct sample_layout layout = known[i].image ? sample_layout_of_image(&photo) : (struct sample_layout){0};
        struct wire_message out, msg = registered(known[i].version, layout);
        uint8_t bytes[256];
        size_t len = bytes_of(known[i].digits, bytes);
        assert_bytes(&msg, bytes, len);
        assert_int_equal(wire_decode(bytes, len, &out, NULL), 0);
        assert_true(sample_layout_same(&out.registered.layout, &layout));
        assert_int_equal(out.registered.sample_bytes, msg.registered.sample_bytes);
        assert_int_equal(out.registered.held_max, 5);
        assert_int_equal(out.registered.dataset_samples, known[i].version > 4 ? 25 : 0);
        assert_int_equal(out.registered.view[1], known[i].version > 4 ? 11 : 0);
        assert_int_equal(dataset_version_is_known(&out.registered.version), known[i].version > 6);
    }
}

/* Masks and arrays are sent to no client of a version that does not know them. */
static void others_need_version_11(void **state)
{
    (void)state;
    for (uint16_t version = 8; version <= WIRE_VERSION; version++) {
        for (enum field_kind kind = FIELD_ARRAY; kind <= FIELD_MASK; kind++) {
            struct sample_layout layout = {
                .n = 1, .fields = {{.name = "other", .kind = kind, .rank = 2, .dims = {3, 5}}}, .bytes = 15};
            struct wire_message out, msg = registered(version, layout);
            struct error err;
            uint8_t bytes[256];
            size_t len;
            int rc = wire_encode(&msg, bytes, sizeof bytes, &len);
            assert_int_equal(rc, version < 11 ? LARDER_EINVAL : 0);
            if (rc)
                continue;
            assert_int_equal(wire_decode(bytes, len, &out, &err), 0);
            assert_true(sample_layout_same(&out.registered.layout, &layout));
        }
    }
}

/* Samples that differ in size are sent to no client of a version that does not know them. */
static void ragged_needs_version_12(void **state)
{
    (void)state;
    for (uint16_t version = WIRE_VERSION_OLDEST; version <= WIRE_VERSION; version++) {
        struct sample_layout layout = sample_layout_of_image(&photo);
        struct error err;
        uint8_t bytes[256];
        size_t len;
        layout.fields[0].dims[1] = 0;
        layout.bytes = 1000;
        struct wire_message out, msg = registered(version, layout);
        int rc = wire_encode(&msg, bytes, sizeof bytes, &len);
        assert_int_equal(rc, version < 12 ? LARDER_EINVAL : 0);
        if (rc)
            continue;
        assert_int_equal(wire_decode(bytes, len, &out, &err), 0);
        assert_true(sample_layout_same(&out.registered.layout, &layout));
    }
}

/* assert_spoilt changes a number of REGISTERED in one version, and expects that decoding refuses it with a text. */
static void assert_spoilt(uint16_t version, bool image, size_t at, uint32_t value, const char *text)
{
    struct wire_message out;
    struct wire_message msg = registered(version, image ? sample_layout_of_image(&photo) : (struct sample_layout){0});
    struct error err;
    uint8_t bytes[256];
    size_t len;
    assert_int_equal(wire_encode(&msg, bytes, sizeof bytes, &len), 0);
    put_u32(bytes + WIRE_HEADER_BYTES + at, value);
    assert_int_equal(wire_decode(bytes, len, &out, &err), LARDER_EFORMAT);
    if (!strstr(err.text, text))
        fail_msg("version %u, %u at %zu: \"%s\" has no \"%s\"", version, value, at, err.text, text);
}

/* A foreign layout that cannot be is refused in every version, and no number of fields is believed. */
static void refuses_foreign_layouts(void **state)
{
    (void)state;
    for (uint16_t version = WIRE_VERSION_OLDEST; version < 8; version++) {
        assert_spoilt(version, true, 16, 3, "sample_bytes is 48, and the fields of a sample take 72 bytes");
        assert_spoilt(version, true, 16, UINT32_MAX, "beyond 4 GiB");
        assert_spoilt(version, true, 20, 0, "dim 2 is 0");
        assert_spoilt(version, true, 28, 3, "dtype 3, which is unknown");
        assert_spoilt(version, true, 32, 2, "do not fit its fields"); /* neither HWC nor CHW */
        assert_spoilt(version, true, 48, 47, "sample_bytes is 47");
        for (size_t at = 20; at < 36; at += 4)
            assert_spoilt(version, false, at, 1, "do not fit its fields"); /* encoded bytes that have a width */
        if (version > 4)
            assert_spoilt(version, true, 92, 1, "do not fit its fields"); /* the number that is 0 */
    }
    const size_t fields = 7 * 4 + 5 * 8 + 4, first = fields + 4 + 4 * 8, numbers = first + SAMPLE_NAME_BYTES;
    assert_spoilt(8, true, 28, 47, "the fields of a sample of 47 bytes end at byte 48");
    assert_spoilt(8, true, fields, 0, "do not fit its fields");
    assert_spoilt(8, true, fields, 2, "do not fit its fields");
    assert_spoilt(8, false, fields, 1, "do not fit its fields");
    assert_spoilt(8, true, fields, SAMPLE_FIELDS_MAX + 1, "do not fit its fields");
    assert_spoilt(8, true, fields, UINT32_MAX, "do not fit its fields");
    assert_spoilt(8, true, first, 0x20202020, "field 0 has no name");
    assert_spoilt(8, true, first + 20, 1, "field 0 has no name");
    assert_spoilt(8, true, numbers, 4, "of kind 4, which is unknown");
    assert_spoilt(8, true, numbers + 4, 3, "dtype 3, which is unknown");
    assert_spoilt(8, true, numbers + 8, 4, "an image with 4 dims");
    assert_spoilt(8, true, numbers + 12, UINT32_MAX, "beyond 4 GiB");
    assert_spoilt(8, true, numbers + 28, 2, "end at byte 50");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_need_version_11),
        cmocka_unit_test(ragged_needs_version_12),
        cmocka_unit_test(registered_has_known_bytes),
        cmocka_unit_test(refuses_foreign_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
