/* test_wire_bounds.c: what is beyond a bound, of another version or cut is refused with its reason, on both sides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"

static char long_text[WIRE_SPEC_MAX + 2]; /* all 'x' */
static uint8_t entries[(WIRE_BATCH_MAX + 1) * WIRE_ENTRY_BYTES];
static char class_names[WIRE_REPLY_MAX];

static struct wire_text text_of(uint32_t len_bytes)
{
    return (struct wire_text){.data = long_text, .len_bytes = len_bytes};
}

static void assert_not_sent(const struct wire_message *msg, int code)
{
    static uint8_t buf[WIRE_REPLY_MAX];
    size_t len = 77;
    int rc = wire_encode(msg, buf, sizeof buf, &len);
    if (rc != code)
        fail_msg("type %d: %s, not %s", msg->type, larder_err_name(rc), larder_err_name(code));
    assert_int_equal(len, 77);
}

/* One beyond each bound is refused when encoding: EINVAL for numbers, ELIMIT for what is too long. */
static void refuses_to_send_beyond_bounds(void **state)
{
    (void)state;
    const struct wire_message good = {.type = WIRE_REGISTER,
                                      .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1}};
    struct wire_message msg;

#define BEYOND(field, value, code) \
    msg = good;                    \
    msg.reg.field = value;         \
    assert_not_sent(&msg, code)
    BEYOND(batch_size, 0, LARDER_EINVAL);
    BEYOND(batch_size, WIRE_BATCH_MAX + 1, LARDER_EINVAL);
    BEYOND(prefetch, 0, LARDER_EINVAL);
    BEYOND(prefetch, WIRE_CREDITS_MAX + 1, LARDER_EINVAL);
    BEYOND(world_size, 0, LARDER_EINVAL);
    BEYOND(rank, 1, LARDER_EINVAL);
    BEYOND(local_world_size, 2, LARDER_EINVAL);
    BEYOND(local_first, 1, LARDER_EINVAL);
    BEYOND(shuffle, SHUFFLE_NONE + 1, LARDER_EINVAL);
    BEYOND(bad_policy, BAD_ERROR + 1, LARDER_EINVAL);
    BEYOND(flags, WIRE_REGISTER_FLAGS_ALL + 1, LARDER_EINVAL);
    BEYOND(flags, WIRE_WITH_WEIGHTS, LARDER_EINVAL);
    BEYOND(sampler, WIRE_BALANCED + 1, LARDER_EINVAL);
    BEYOND(sampler, WIRE_REPEAT, LARDER_EINVAL);  /* of no copies */
    BEYOND(sampler, WIRE_WEIGHTS, LARDER_EINVAL); /* without any */
    BEYOND(copies, 2, LARDER_EINVAL);
    BEYOND(draws, 1, LARDER_EINVAL);
    BEYOND(deal, WIRE_DEAL_HOME + 1, LARDER_EINVAL);
    BEYOND(mix, 1, LARDER_EINVAL); /* of a deal by epoch */
    BEYOND(weight, 0, LARDER_EINVAL);
    BEYOND(weight, -1, LARDER_EINVAL);
    BEYOND(weight, 0.00999, LARDER_EINVAL);
    BEYOND(weight, 100.001, LARDER_EINVAL);
    BEYOND(weight, NAN, LARDER_EINVAL);
    BEYOND(weight, INFINITY, LARDER_EINVAL);
    BEYOND(name, text_of(WIRE_NAME_MAX + 1), LARDER_ELIMIT);
    BEYOND(dataset, text_of(WIRE_PATH_MAX + 1), LARDER_ELIMIT);
    BEYOND(pipeline, text_of(WIRE_SPEC_MAX + 1), LARDER_ELIMIT);
    BEYOND(subset, text_of(WIRE_SPEC_MAX + 1), LARDER_ELIMIT);
    BEYOND(name, ((struct wire_text){.data = "a\0b", .len_bytes = 3}), LARDER_EINVAL);
    BEYOND(name, ((struct wire_text){.data = NULL, .len_bytes = 3}), LARDER_EINVAL);
}

/* The same of the other messages, and of what an older version does not know. */
static void refuses_to_send_what_is_wrong(void **state)
{
    (void)state;
    uint8_t two_turns[2 * WIRE_TURN_BYTES] = {0}, far_turn[WIRE_TURN_BYTES]; /* both at one position; one too far */
    wire_turn_put(far_turn, 0, &(struct wire_turn){.position = WIRE_BATCH_MAX});
    static const struct sample_layout two_fields = {
        .n = 2,
        .fields = {{.name = "a", .rank = 3, .dims = {1, 1, 1}},
                   {.name = "b", .rank = 3, .dims = {1, 1, 1}, .offset = 1}},
        .bytes = 2};
    const struct wire_message others[] = {
        {.type = WIRE_HELLO, .hello = {.client = text_of(WIRE_CLIENT_MAX + 1)}},
        {.type = WIRE_BATCH, .batch = {.count = WIRE_BATCH_MAX + 1, .entries = entries}},
        {.type = WIRE_ERROR, .error = {.code = LARDER_EIO, .text = text_of(ERROR_TEXT_MAX + 1)}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_not_sent(&others[i], LARDER_ELIMIT);
    const struct wire_message wrong[] = {
        {.type = 0},
        {.type = WIRE_DONE + 1},
        {.type = WIRE_BYE, .version = WIRE_VERSION_OLDEST - 1},
        {.type = WIRE_BYE, .version = WIRE_VERSION + 1},
        {.type = WIRE_STATE, .version = 4},
        {.type = WIRE_DONE, .version = 4},
        {.type = WIRE_STATE_GET, .version = 4},
        {.type = WIRE_TURNS, .version = 4, .turns = {.count = 1, .turns = two_turns}},
        {.type = WIRE_TURNS},
        {.type = WIRE_TURNS, .turns = {.count = WIRE_BATCH_MAX + 1, .turns = two_turns}},
        {.type = WIRE_TURNS, .turns = {.count = 2, .turns = two_turns}},
        {.type = WIRE_TURNS, .turns = {.count = 1, .turns = far_turn}},
        {.type = WIRE_REGISTER,
         .version = 4,
         .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .flags = WIRE_WITH_STATE}},
        {.type = WIRE_REGISTER,
         .version = 12,
         .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .deal = WIRE_DEAL_HOME}},
        {.type = WIRE_REGISTER,
         .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .deal = WIRE_DEAL_HOME, .shuffle = 1}},
        {.type = WIRE_REGISTER,
         .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .deal = WIRE_DEAL_HOME, .mix = 1000001}},
        {.type = WIRE_WELCOME},
        {.type = WIRE_WELCOME, .welcome = {.batch_max = WIRE_BATCH_MAX + 1}},
        {.type = WIRE_REGISTERED, .registered = {.layout = {.n = SAMPLE_FIELDS_MAX + 1}}},
        {.type = WIRE_REGISTERED, .registered = {.layout = {.bytes = 1}}},
        {.type = WIRE_REGISTERED, .registered = {.layout = two_fields, .sample_bytes = 3}},
        {.type = WIRE_REGISTERED, .version = 7, .registered = {.layout = two_fields, .sample_bytes = 2}},
        {.type = WIRE_CLASSES, .classes = {.first = 1}},
        {.type = WIRE_CLASSES, .classes = {.first = UINT32_MAX, .count = 2, .total = 2}},
        {.type = WIRE_CLASSES, .classes = {.count = 2, .total = 2, .names = {.data = "\1\0a", .len_bytes = 3}}},
        {.type = WIRE_CLASSES, .classes = {.count = 1, .total = 2, .names = {.data = "\2\0a", .len_bytes = 3}}},
        {.type = WIRE_NEXT},
        {.type = WIRE_NEXT, .next = {.credits = WIRE_CREDITS_MAX + 1}},
        {.type = WIRE_NEXT, .next = {.awaited = WIRE_AHEAD}},
        {.type = WIRE_NEXT, .next = {.awaited = WIRE_CREDITS_MAX + 1}},
        {.type = WIRE_NEXT, .next = {.credits = 2, .awaited = 1}},
        {.type = WIRE_NEXT, .version = 5, .next = {.awaited = 1}},
        {.type = WIRE_BATCH, .batch = {.flags = 2}},
        {.type = WIRE_BATCH, .batch = {.weight = 0.001}},
        {.type = WIRE_BATCH, .batch = {.weight = JOB_WEIGHT_MAX + 1}},
        {.type = WIRE_BATCH, .batch = {.weight = NAN}},
        {.type = WIRE_ERROR},
        {.type = WIRE_ERROR, .error = {.code = 1}},
        {.type = WIRE_ERROR, .error = {.code = LARDER_ECHANGED - 1}},
        {.type = WIRE_ERROR, .error = {.code = LARDER_EIO, .fatal = 2}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_not_sent(&wrong[i], LARDER_EINVAL);
}

/* The eight bytes of a weight can mean what is no number, or far too much: refused with the bounds in the text. */
static void refuses_foreign_weights(void **state)
{
    (void)state;
    static const double wrong[] = {NAN, -NAN, INFINITY, -INFINITY, 0, -1, 1e-300, 1e300, 100.0001, 0.0099};
    struct wire_message out, good = {.type = WIRE_REGISTER};
    good.reg = (struct wire_register){.batch_size = 1, .prefetch = 1, .world_size = 1, .seed = 7, .weight = 1.5};
    uint8_t buf[256];
    size_t len;
    assert_int_equal(wire_encode(&good, buf, sizeof buf, &len), 0);
    assert_int_equal(wire_decode(buf, len, &out, NULL), 0);
    assert_true(out.reg.weight == 1.5 && out.reg.seed == 7);
    static const uint8_t bits[] = {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}; /* of 1.5 */
    assert_memory_equal(buf + WIRE_HEADER_BYTES + 40, bits, sizeof bits);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err;
        /* this machine is little-endian as the wire is */
        memcpy(buf + WIRE_HEADER_BYTES + 40, &wrong[i], sizeof wrong[i]);
        assert_int_equal(wire_decode(buf, len, &out, &err), LARDER_EFORMAT);
        assert_non_null(strstr(err.text, "not 0.01 to 100"));
    }
}

/* Another magic, version or type is told apart in the text: version first, because nothing behind it can be relied
 * on. */
static void tells_versions_apart(void **state)
{
    (void)state;
    uint8_t bye[WIRE_HEADER_BYTES] = {'L', 'D', 'R', '1', WIRE_VERSION, 0, 11, 0, 0, 0, 0, 0, 16, 0, 0, 0};
    struct wire_message out;
    struct error err;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), 0);
    bye[4] = 1;
    bye[6] = 200;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), LARDER_EVERSION);
    assert_non_null(strstr(err.text, "version 1, this side versions 4 to 13"));
    bye[4] = WIRE_VERSION + 1;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), LARDER_EVERSION);
    bye[4] = 4;
    bye[6] = 11;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), 0);
    bye[6] = 12;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "unknown type 12"));
    bye[4] = WIRE_VERSION;
    bye[6] = 200;
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "200"));
    bye[0] = 'l';
    assert_int_equal(wire_decode(bye, sizeof bye, &out, &err), LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "magic"));
}

/* Class names: the walk gives what was put, ends with LARDER_EEND, and stops at a name that is cut or holds a NUL. */
static void walks_classes(void **state)
{
    (void)state;
    char buf[16];
    uint32_t used = 0, cursor = 0;
    struct wire_text name;
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "cat", 3), 0);
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "", 0), 0);
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "12345678", 8), LARDER_ELIMIT);
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "1234567", 7), 0);
    assert_int_equal(used, sizeof buf);
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "", 0), LARDER_ELIMIT);
    struct wire_text names = {.data = buf, .len_bytes = used};
    assert_int_equal(wire_class_next(&names, &cursor, &name), 0);
    assert_true(name.len_bytes == 3 && memcmp(name.data, "cat", 3) == 0);
    assert_int_equal(wire_class_next(&names, &cursor, &name), 0);
    assert_int_equal(name.len_bytes, 0);
    assert_int_equal(wire_class_next(&names, &cursor, &name), 0);
    assert_true(name.len_bytes == 7 && memcmp(name.data, "1234567", 7) == 0);
    assert_int_equal(wire_class_next(&names, &cursor, &name), LARDER_EEND);
    names.len_bytes--;
    cursor = 7;
    assert_int_equal(wire_class_next(&names, &cursor, &name), LARDER_EFORMAT);
    cursor = used + 5;
    assert_int_equal(wire_class_next(&names, &cursor, &name), LARDER_EFORMAT);
    used = 0;
    assert_int_equal(wire_class_put(buf, sizeof buf, &used, "a\0b", 3), LARDER_EINVAL);
    assert_int_equal(wire_class_put(class_names, UINT32_MAX, &used, long_text, UINT16_MAX + 1), LARDER_ELIMIT);
}

static int set_up(void **state)
{
    (void)state;
    memset(long_text, 'x', sizeof long_text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_to_send_beyond_bounds),
        cmocka_unit_test(refuses_to_send_what_is_wrong),
        cmocka_unit_test(refuses_foreign_weights),
        cmocka_unit_test(tells_versions_apart),
        cmocka_unit_test(walks_classes),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
